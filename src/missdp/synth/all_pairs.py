"""All pairs of attributes from one noisy release: AllPairs, and steps that other families take.

Tables of three attributes and more that a workload names are measured beside them. A workload is a
parameter, so that data do not choose which of these tables are measured, nor their noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.models import PairModel
from missdp.schema import Schema
from missdp.session import LevelMerge, Marginal, Noise, RowProducts, Session
from missdp.synth.base import Synthesizer
from missdp.synth.coordinates import coordinates, with_shares
from missdp.synth.family import Family, Learned, Request, gaussian_budget
from missdp.synth.impute_first import Imputer, check_imputation
from missdp.synth.learn_pairs import (
    PairRelease,
    fit_pairs,
    model_facts,
    release_pairs,
)
from missdp.synth.noisy_counts import MASKS_SHARE
from missdp.synth.parameters import check_share, is_declared, is_number
from missdp.synth.shared_steps import (
    counted,
    one_way_parts,
    open_rows,
    release_masks,
    release_one_way,
    sample_rows,
)
from missdp.synth.split import MASKS, BudgetPlan, Part
from missdp.synth.uncertain import resample_pairs
from missdp.synth.workload import MAX_CELLS, Workload, named_marginals
from missdp.types import Clique

_PAIRS = "all pairs"
_MOST_HOLED = 32  # attributes with the most missing cells, of which pairs are counted
_FIRST_SHARE = 0.08
_COUNT_SHARE = 0.02  # of the budget, for the number of rows, where margins do not tell it
_CLIPS = (2.0**-10, 2.0**20)


# Steps that families take which release initial marginals, and then learn a model of whole rows


def check_pairs(parameters: Any) -> None:
    """Refuse parameters of a family that releases marginals and then all pairs."""
    check_gaussian(parameters)
    if parameters.first_share is not None:
        check_share(parameters, "first_share")
    clip = parameters.clip
    given = is_number(clip) and _CLIPS[0] <= clip <= _CLIPS[1]
    if not (given or (isinstance(clip, str) and clip == "auto")):
        raise ParameterError("clip must be 'auto' or a number from 2**-10 to 2**20")


def check_gaussian(parameters: Any) -> None:
    """Refuse a delta of 0, and parameters of imputation that are not valid."""
    if parameters.delta == 0:  # a budget in Gaussian DP would be empty
        raise ParameterError(
            "delta must be above 0: the noise is Gaussian. AIM, MST and PrivBayes offer pure DP"
        )
    check_imputation(parameters)


def marginal_parts(
    request: Request[Any], share: float | None, *, most_cells: int = RowProducts.max_numbers
) -> list[Part]:
    """Return the parts of the budget until one-way marginals are released; public.

    Parameters
    ----------
    request : Request
        Parameters and public facts.
    share : float or None
        Share of the one-way marginals; by default 0.08. A single attribute gets all.
    most_cells : int
        The largest number of cells of all pairs together.

    Returns
    -------
    list of Part

    Raises
    ------
    ParameterError
        If all pairs have more cells.
    """
    schema = request.modelled.schema
    cells = sum(a.extended_size * b.extended_size for a, b in combinations(schema, 2))
    if cells > most_cells:
        raise ParameterError(
            f"all pairs of attributes have {cells:,} cells, more than the {most_cells:,} "
            "that are learned together; use fewer attributes, bins or levels, or MST"
        )
    share = _FIRST_SHARE if share is None else share
    share = 1.0 if len(schema) == 1 else share
    return one_way_parts(request, share, count_share=_count_share(request))


def pairs_part(request: Request[Any]) -> Part:
    """Return the part of all pairs: of one answer that every row enters, whatever it lacks."""
    return Part(_PAIRS, 1.0, request.required_sets([()]), kind="other")


def _count_share(request: Request[Any]) -> float:
    """Share of the budget for the number of rows: none where all margins tell it; public."""
    strategy, schema = request.strategy, request.modelled.schema
    total_implied = strategy.fills or all(strategy.implies_total((a.name,), schema) for a in schema)
    return 0.0 if total_implied or is_declared(request.parameters.n_rows) else _COUNT_SHARE


def cost_of_pairs(session: Session, plan: BudgetPlan) -> Cost:
    """Return what all pairs may cost: what is left, and no more than their part if it is capped."""
    part = plan.cost(_PAIRS)
    if plan.limits is None or session.remaining.amount < part.amount:
        return session.remaining
    return part


def _plan(request: Request[AllPairs]) -> list[Part]:
    """Return the parts of the budget; see `Family`.

    With complete rows, only the number of rows reads all rows. With observed rows, each one-way
    marginal requires its attribute. All pairs are released at once, in one answer that every row
    enters, whichever of its values are missing.
    """
    parts, schema = marginal_parts(request, request.parameters.first_share), request.modelled.schema
    if len(schema) == 1:
        return parts
    if named := _named(request, schema):
        required_sets = request.required_sets([schema.names[a] for a in clique] for clique in named)
        parts.append(Part(TOP_UP, TOP_UP_SHARE, required_sets, weights=tuple(named.values())))
    if request.strategy.models_missingness and (masks := math.comb(len(schema.nullable), 2)):
        parts.append(Part(MASKS, MASKS_SHARE, request.required_sets([()]), count=masks))
    return [*parts, pairs_part(request)]


def _fit(session: Session, plan: BudgetPlan, request: Request[AllPairs]) -> Learned:
    session, count = open_rows(session, plan, request)
    request.report("measuring single attributes", 0.05)
    one_way, total = release_one_way(session, plan, request, count)
    tables, stds = _release_top_up(session, one_way, _named(request, request.public), plan)
    masks, std = release_masks(session, plan, one_way, most=_MOST_HOLED)
    request.report("measuring all pairs", 0.1)
    names = session.facts.schema.names
    release = release_pairs(
        session,
        replace(one_way, counts=tables, stds=stds, masks=masks, masks_std=std),
        clip=request.parameters.clip,
        numbers=coordinates(request.schema, names, one_way.levels, one_way.margins),
        cost=cost_of_pairs(session, plan),
    )
    request.report("fitting", 0.3)
    selective = session.facts.strategy.models_missingness
    model = fit_pairs(
        release,
        model_facts(request.modelled, one_way.levels, selective=selective),
        rng=session.generator(),
    )
    release = release.settled(model, session.generator())
    numbers = dict(zip(names, release.numbers, strict=False))
    schema = with_shares(request.schema, numbers)
    request.report("done", 1.0)
    total, complete = counted(session, total, count)
    return Learned(model, total, tables=release, complete=complete, schema=schema)


TOP_UP = "tables of the workload"
"""Name of the part of a budget."""

TOP_UP_SHARE = 0.12
"""Share of what margins leave of the budget, for all tables together."""

_MOST = 100  # tables: with more, each is noise


def _named(request: Request[AllPairs], schema: Schema) -> dict[Clique, float]:
    """Return the tables of the workload that all pairs do not tell, with weights, or refuse it."""
    named = named_marginals(request.parameters.workload, schema)
    wanted = {clique: weight for clique, weight in named.items() if len(clique) > 2}
    if len(wanted) > _MOST:
        raise ParameterError(
            f"the workload has {len(wanted):,} marginals of three attributes or more; name "
            f"{_MOST} at most, or use AIM"
        )
    for names in ([schema.names[a] for a in clique] for clique in wanted):
        if math.prod(schema[name].extended_size for name in names) > MAX_CELLS:
            raise ParameterError(
                f"the workload's marginal of {', '.join(names)} has more than {MAX_CELLS:,} cells"
            )
    return wanted


def _release_top_up(
    session: Session, one_way: NoisyMarginals, tables: Mapping[Clique, float], plan: BudgetPlan
) -> tuple[dict[Clique, NDArray[np.float64]], dict[Clique, float]]:
    """Release tables, on groups of levels; with the noise of each count."""
    names, found, stds = session.facts.schema.names, {}, {}
    if tables:
        session = session.apply(LevelMerge(one_way.groups(names)))
        session.expect(Marginal(tuple(names[a] for a in clique)) for clique in tables)
        for clique, cost in zip(tables, plan.costs(TOP_UP), strict=True):
            noise = Noise.from_cost(cost)
            counts = session.measure(Marginal(tuple(names[a] for a in clique)), noise).value
            found[clique], stds[clique] = counts.astype(np.float64), noise.std
    return found, stds


@dataclass(kw_only=True, eq=False, repr=False)
class AllPairs(Synthesizer):
    """Synthetic tables from one noisy release of all pairs of attributes, holes included.

    One-way margins are released first, with a small share of the budget, and which cells are
    missing together. Then all two-way tables are released at once. A row is the vector v of the
    products, over all pairs of attributes, of its centred indicators. If v is longer than ``clip``,
    it is scaled to that norm. The vectors of all rows are added up, and every coordinate gets
    Gaussian noise for the sensitivity ``clip``. Centring by the released margins makes v short: a
    row that is like most others moves hardly any sum. So all pairs together cost what a few tables
    of counts would. Nothing is selected, and no pair is left out.

    What clipping took is put back by the rows of a model, which is fitted to the tables in turns.
    Where attributes are ordered, dependence is shrunk to what is smooth in their ranks, by
    empirical Bayes: trends survive noise that hides single cells. Accounted in Gaussian DP,
    add-remove adjacency.

    Parameters
    ----------
    epsilon, delta, n_rows, cuts, random_state, budget, progress
        See :class:`~missdp.synth.base.Synthesizer`; delta must be above 0.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        ``"joint"`` releases, beside the tables of the observed cells, how holes of one attribute
        go with the levels and the holes of every other, models what goes missing given the row,
        and weights observed tables by their chance of being observed.  It corrects for missingness
        that depends on observed attributes one by one.  ``"observed"`` takes the rows observed on a
        pair for all rows.  ``"complete-rows"`` drops incomplete rows.  ``"impute-first"`` fills
        holes privately before learning.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped.  ``"auto"`` follows from the released
        margins and number of rows, epsilon and delta.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way margins, by default 0.08.
    workload : int, names or weights, default 2
        As `AIM` takes it. All pairs come out right anyway; marginals of three or four attributes
        that are named here, 100 at most, are measured besides, with 12 % of what margins leave of
        the budget, by their weights.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        For ``"impute-first"``, with ``imputer_share`` of the budget (mu squared).

    Attributes
    ----------
    model_ : PairModel
        The released model.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", JRSS B 84(1), for the accounting.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> people = pd.DataFrame({"smoker": ["yes", None, "no"] * 50, "ill": ["yes", "no", "no"] * 50})
    >>> model = AllPairs(epsilon=1.0, delta=1e-6).fit(people, schema=schema)
    >>> model.sample(4).shape
    (4, 2)
    >>> model.guarantee_.epsilon, model.guarantee_.delta
    (1.0, 1e-06)
    """

    family: ClassVar[Family] = Family(
        strategies=("joint", "observed", "complete-rows", "impute-first"),
        parameters=check_pairs,
        plan=_plan,
        budget=gaussian_budget,
        fit=_fit,
        model=PairModel,
        tables=PairRelease,
        sample=sample_rows,
        resample=resample_pairs,
        reads="weights",
        protects_units=True,
        rivals=("AIM (--method aim)",),
    )

    workload: Workload = 2
    clip: float | Literal["auto"] = "auto"
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
