"""Steps that several families take: parts of a budget, and the releases that come first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from missdp.errors import ParameterError
from missdp.inference.conditional_models import Pair
from missdp.inference.marginals import NoisyMarginals
from missdp.session import Marginal, Merged, Noise, Session, Total
from missdp.synth.family import Codes, Request
from missdp.synth.fitted import Fitted
from missdp.synth.impute_first import IMPUTATION, imputation_parts, impute
from missdp.synth.learn_pairs import impossible_pairs, measure_one_way
from missdp.synth.noisy_counts import row_count
from missdp.synth.parameters import is_declared
from missdp.synth.split import MARGINALS, MASKS, ROWS, BudgetPlan, Part
from missdp.types import Floats

_SEEN = 3.0  # standard deviations of noise: with fewer missing cells, an attribute has none
_MOST_NOISE = 0.1  # of a count of masks, as a share of the rows


def one_way_parts(request: Request[Any], share: float, *, count_share: float) -> list[Part]:
    """Return the parts for imputation, the number of rows, and all one-way marginals; public.

    Parameters
    ----------
    request : Request
        Has ``imputer`` and ``imputer_share`` among its parameters.
    share : float
        Share of the one-way marginals in what the parts before leave.
    count_share : float
        Share of the number of rows. No part if it is 0.

    Returns
    -------
    list of Part
    """
    count = [Part(ROWS, count_share)] if count_share else []
    return [
        *imputation_parts(request),
        *count,
        Part(MARGINALS, share, request.single_requirements()),
    ]


def release_row_count(session: Session, plan: BudgetPlan, request: Request[Any]) -> Total | None:
    """Return the number of rows that is declared, or released as a part of its own.

    Parameters
    ----------
    session : Session
        Measures the rows.
    plan : BudgetPlan
        States the noise.
    request : Request
        Says whether the number of rows is declared.

    Returns
    -------
    Total or None
        None if other releases tell the number of rows.
    """
    if is_declared(request.parameters.n_rows):
        return Total(int(request.parameters.n_rows), 0.0)
    return row_count(session, plan.noise(ROWS)) if ROWS in plan else None


def open_rows(
    session: Session, plan: BudgetPlan, request: Request[Any]
) -> tuple[Session, Total | None]:
    """Release the number of rows, if it is a part of the plan, and fill cells if a strategy does.

    Parameters
    ----------
    session : Session
        Measures the rows as they came.
    plan : BudgetPlan
        The parts of the budget.
    request : Request
        Has ``imputer`` among its parameters.

    Returns
    -------
    session : Session
        Measures the rows that are to be modelled.
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
    session: Session, plan: BudgetPlan, one_way: NoisyMarginals, *, most: int | None = None
) -> tuple[dict[Pair, Floats], float]:
    """Release which cells are missing together, where noise leaves something to be seen.

    Parameters
    ----------
    session : Session
        Measures the rows.
    plan : BudgetPlan
        Has the cost of all pairs together, if they are a part of it.
    one_way : NoisyMarginals
        Tells which attributes are missing often enough.
    most : int, optional
        Of how many attributes pairs are counted, those with the most missing cells.

    Returns
    -------
    dict of (int, int) to ndarray
        Noisy counts by pairs of attributes.
    float
        Standard deviation of the noise of each count. Without pairs it is 0: there are none, or
        noise would hide their counts. Nothing is charged then.
    """
    if MASKS not in plan:
        return {}, 0.0
    missing, schema = (1 - one_way.observed) * one_way.rows, session.facts.schema
    often = np.argsort(-missing)[:most]
    pairs = [*combinations(sorted(often[missing[often] > _SEEN * one_way.std].tolist()), 2)]
    if not pairs:
        return {}, 0.0
    whole = plan.cost(MASKS)
    try:
        noise = Noise.worth(replace(whole, amount=whole.amount / len(pairs)))
    except ParameterError:  # more than can be drawn
        return {}, 0.0
    if noise.std > _MOST_NOISE * one_way.rows:
        return {}, 0.0
    named = {pair: Marginal(tuple(schema.names[a] for a in pair)) for pair in pairs}
    session.expect(named.values())
    # All levels are merged, so that these marginals have few cells, with large counts.
    bare = session.on(Merged({a.name: np.zeros(a.size, dtype=np.int64) for a in schema}))
    return {p: bare.measure(m, noise).value.astype(np.float64) for p, m in named.items()}, noise.std


def counted(session: Session, total: Total, count: Total | None) -> tuple[Total, Total | None]:
    """Return the number of all rows, and of complete ones if they alone were counted.

    Parameters
    ----------
    session : Session
        Says which rows it counts.
    total : Total
        The number of rows that marginals count.
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
    """Draw codes of rows from a released model of rows on groups of levels.

    Parameters
    ----------
    fitted : Fitted
        Has the released model, and says whether counts of its rows vary as those of real rows.
    n : int
        Number of rows.
    rng : numpy.random.Generator
        Draws them.
    keep_missing : bool
        Whether cells may be missing.

    Returns
    -------
    dict of str to ndarray of int64, shape (n,)
    """
    codes = fitted.model.sample(n, rng, keep_holes=keep_missing, draws=fitted.draws)
    return dict(zip(fitted.modelled.schema.names, codes, strict=True))
