"""Steps that several families share: parts of a budget, and the first releases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from missdp.errors import ParameterError
from missdp.inference.conditional_models import Pair
from missdp.inference.marginals import NoisyMarginals
from missdp.session import LevelMerge, Marginal, Noise, Session, Total
from missdp.synth.family import Codes, Request
from missdp.synth.fitted import Fitted
from missdp.synth.impute_first import IMPUTATION, imputation_parts, impute
from missdp.synth.learn_pairs import impossible_pairs, measure_one_way
from missdp.synth.noisy_counts import row_count
from missdp.synth.parameters import is_declared
from missdp.synth.split import MARGINALS, MASKS, ROWS, BudgetPlan, Part
from missdp.types import Floats

# SDs of noise: with fewer missing cells, an attribute is treated as complete.
_MIN_MISSING_SD = 3.0
_MAX_NOISE = 0.1  # SD of a count of masks, as a share of the rows


def one_way_parts(request: Request[Any], share: float, *, count_share: float) -> list[Part]:
    """Return the public parts for imputation, the number of rows, and all one-way marginals.

    Parameters
    ----------
    request : Request
        Has ``imputer`` and ``imputer_share`` among its parameters.
    share : float
        Share of the one-way marginals, in the budget that the first two parts leave.
    count_share : float
        Share of the number of rows. With 0 there is no part for it.

    Returns
    -------
    list of Part
        In the order in which they are spent.
    """
    count = [Part(ROWS, count_share)] if count_share else []
    return [
        *imputation_parts(request),
        *count,
        Part(MARGINALS, share, request.single_requirements()),
    ]


def release_row_count(session: Session, plan: BudgetPlan, request: Request[Any]) -> Total | None:
    """Return the declared number of rows, or release it if the plan has a part for it.

    Parameters
    ----------
    session : Session
        Measures the rows.
    plan : BudgetPlan
        States the noise.
    request : Request
        States whether the number of rows is declared.

    Returns
    -------
    Total or None
        None if other releases estimate the number of rows.
    """
    if is_declared(request.parameters.n_rows):
        return Total(int(request.parameters.n_rows), 0.0)
    return row_count(session, plan.noise(ROWS)) if ROWS in plan else None


def open_rows(
    session: Session, plan: BudgetPlan, request: Request[Any]
) -> tuple[Session, Total | None]:
    """Release the number of rows if the plan has a part for it, and impute if the strategy does.

    Parameters
    ----------
    session : Session
        Measures the original rows.
    plan : BudgetPlan
        The parts of the budget.
    request : Request
        Has ``imputer`` among its parameters.

    Returns
    -------
    session : Session
        Measures the rows that are modelled.
    count : Total or None
        The number of rows, if it was declared or released.
    """
    request.report("preparing", 0.0)
    count = release_row_count(session, plan, request)
    return impute(session, request.parameters.imputer, cost=plan.cost(IMPUTATION)), count


def release_one_way(
    session: Session,
    plan: BudgetPlan,
    request: Request[Any],
    count: Total | None,
    *,
    rare: float | None = None,
    later: Iterable[tuple[str, ...]] = (),
) -> tuple[NoisyMarginals, Total]:
    """Release the one-way marginals, within their part of the budget.

    Parameters
    ----------
    session : Session
        Measures the rows.
    plan : BudgetPlan
        States the noise.
    request : Request
        Has the rules that make pairs of levels impossible.
    count : Total or None
        The number of rows, if it was released.
    rare, later
        See `measure_one_way`.

    Returns
    -------
    marginals : NoisyMarginals
        Released.
    total : Total
        The estimated number of counted rows.
    """
    zeros = impossible_pairs(request.modelled.impossible_cells, session.facts.schema.names)
    return measure_one_way(session, plan.noise(MARGINALS), zeros, count, rare=rare, later=later)


def release_masks(
    session: Session,
    plan: BudgetPlan,
    one_way: NoisyMarginals,
    *,
    limit: int | None = None,
) -> tuple[dict[Pair, Floats], float]:
    """Release the joint masks of pairs of attributes, if noise does not hide them.

    Parameters
    ----------
    session : Session
        Measures the rows.
    plan : BudgetPlan
        Has the cost of all pairs together, if they are a part of it.
    one_way : NoisyMarginals
        Has the released shares of missing cells.
    limit : int, optional
        Largest number of attributes. Those with the most missing cells are chosen.

    Returns
    -------
    dict of (int, int) to ndarray
        Noisy counts by pairs of attributes. Released.
    float
        Standard deviation of the noise of each count. It is 0 if there are no pairs, or if noise
        would hide their counts. Nothing is charged then.
    """
    if MASKS not in plan:
        return {}, 0.0
    missing, schema = (1 - one_way.observed) * one_way.rows, session.facts.schema
    often = np.argsort(-missing)[:limit]
    often = often[missing[often] > _MIN_MISSING_SD * one_way.std]
    pairs = [*combinations(sorted(often.tolist()), 2)]
    if not pairs:
        return {}, 0.0
    cost = plan.cost(MASKS)
    try:
        noise = Noise.from_cost(replace(cost, amount=cost.amount / len(pairs)))
    except ParameterError:  # the noise is larger than can be drawn
        return {}, 0.0
    if noise.std > _MAX_NOISE * one_way.rows:
        return {}, 0.0
    named = {pair: Marginal(tuple(schema.names[a] for a in pair)) for pair in pairs}
    session.expect(named.values())
    # Merging all levels leaves few cells with large counts.
    bare = session.apply(LevelMerge({a.name: np.zeros(a.size, dtype=np.int64) for a in schema}))
    return {p: bare.measure(m, noise).value.astype(np.float64) for p, m in named.items()}, noise.std


def row_totals(session: Session, total: Total, count: Total | None) -> tuple[Total, Total | None]:
    """Return the number of all rows, and of complete rows if only these were counted.

    Parameters
    ----------
    session : Session
        States which rows it counts.
    total : Total
        The number of rows in the marginals.
    count : Total or None
        The number of rows, if it was declared or released.

    Returns
    -------
    total : Total
        The number of all rows.
    complete : Total or None
        The number of complete rows.
    """
    if not session.facts.strategy.complete_only:
        return total, None
    return (total if count is None else count), total


def sample_rows(fitted: Fitted, n: int, rng: np.random.Generator, keep_missing: bool) -> Codes:
    """Draw codes of rows from a released model on groups of levels.

    Parameters
    ----------
    fitted : Fitted
        Has the released model, and states whether counts vary as counts of real rows do.
    n : int
        Number of rows.
    rng : numpy.random.Generator
        Draws the rows.
    keep_missing : bool
        Whether cells may be missing.

    Returns
    -------
    dict of str to ndarray of int64, shape (n,)
        Codes by name.
    """
    codes = fitted.model.sample(n, rng, keep_missing=keep_missing, draws=fitted.draws)
    return dict(zip(fitted.modelled.schema.names, codes, strict=True))
