"""AllPairs: all pairs of attributes from one noisy release, and steps that other families use.

Tables of three or more attributes that a workload names are measured in addition. A workload is a
parameter. So the data do not decide which of these tables are measured, or with which noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.models import PairModel
from missdp.schema import Schema
from missdp.session import LevelMerge, Marginal, Noise, RowProducts, Session
from missdp.synth.base import Synthesizer
from missdp.synth.family import Family, Learned, Request, gaussian_budget
from missdp.synth.higher_order import SEARCH, PairExtension, search_cost, search_parts
from missdp.synth.impute_first import Imputer, check_imputation
from missdp.synth.learn_pairs import (
    PairRelease,
    fit_pairs,
    model_facts,
    release_again,
    release_pairs,
)
from missdp.synth.noisy_counts import MASKS_SHARE
from missdp.synth.numeric_scores import numeric_scores, with_shares
from missdp.synth.parameters import check_share, is_declared, is_real_number
from missdp.synth.shared_steps import (
    one_way_parts,
    open_rows,
    release_masks,
    release_one_way,
    row_totals,
    sample_rows,
)
from missdp.synth.split import MASKS, BudgetPlan, Part
from missdp.synth.uncertain import resample_pairs
from missdp.synth.workload import (
    AUTO,
    MAX_CELLS,
    Workload,
    count_pair_cells,
    fixed_workload,
    named_marginals,
    near_pairs,
)
from missdp.types import Clique, Floats

_PAIRS = "all pairs"  # name of the part of a budget
_MAX_MASKED = 32  # attributes: of those with the most missing cells, joint masks are counted
_FIRST_SHARE = 0.08  # share of the budget for the one-way marginals
# Share of the budget for the number of rows, if one-way marginals do not imply it.
_COUNT_SHARE = 0.02
_CLIPS = (2.0**-10, 2.0**20)  # smallest and largest clip norm


# Steps of families that release one-way marginals and then fit a model of complete rows


def check_pairs(parameters: Any) -> None:
    """Raise ParameterError for invalid parameters of a family that releases all pairs."""
    check_gaussian(parameters)
    if parameters.first_share is not None:
        check_share(parameters, "first_share")
    clip = parameters.clip
    is_clip = is_real_number(clip) and _CLIPS[0] <= clip <= _CLIPS[1]
    if not (is_clip or (isinstance(clip, str) and clip == "auto")):
        raise ParameterError("clip must be 'auto' or a number from 2**-10 to 2**20")


def check_gaussian(parameters: Any) -> None:
    """Raise ParameterError if delta is 0, or for invalid parameters of imputation."""
    if parameters.delta == 0:  # a budget in Gaussian DP would be 0
        raise ParameterError(
            "delta must be above 0: the noise is Gaussian. AIM, MST and PrivBayes offer pure DP"
        )
    check_imputation(parameters)


def marginal_parts(
    request: Request[Any],
    share: float | None,
    *,
    max_cells: int = RowProducts.max_numbers,
    pairs: Iterable[Clique] | None = None,
) -> list[Part]:
    """Return the public parts of the budget up to the one-way marginals.

    Parameters
    ----------
    request : Request
        Parameters and public facts.
    share : float or None
        Share of the one-way marginals. None is 0.08. A single attribute gets the complete budget.
    max_cells : int
        Largest number of cells of all pairs together.
    pairs : iterable of (int, int), optional
        Pairs that are measured, by positions. None: all pairs.

    Returns
    -------
    list of Part
        Parts for imputation, the number of rows and the one-way marginals.

    Raises
    ------
    ParameterError
        If all pairs together have more cells than ``max_cells``.
    """
    schema = request.modelled.schema
    sizes = [attribute.extended_size for attribute in schema]
    cells = count_pair_cells(sizes, pairs)
    if cells > max_cells:
        raise ParameterError(
            f"the measured pairs of attributes have {cells:,} cells, more than the {max_cells:,} "
            "that one release can have. Use fewer attributes, bins or levels, or MST"
        )
    share = _FIRST_SHARE if share is None else share
    share = 1.0 if len(schema) == 1 else share
    return one_way_parts(request, share, count_share=_count_share(request))


def pairs_part(request: Request[Any]) -> Part:
    """Return the part of all pairs: one answer to which every row contributes."""
    return Part(_PAIRS, 1.0, request.required_sets([()]), kind="other")


def _count_share(request: Request[Any]) -> float:
    """Return the public share of the number of rows: 0 if all one-way marginals imply it."""
    strategy, schema = request.strategy, request.modelled.schema
    total_implied = strategy.fills or all(strategy.implies_total((a.name,), schema) for a in schema)
    return 0.0 if total_implied or is_declared(request.parameters.n_rows) else _COUNT_SHARE


def cost_of_pairs(session: Session, plan: BudgetPlan) -> Cost:
    """Return the cost of all pairs: the remaining budget, limited to their part if it has a cap."""
    part, remaining = plan.cost(_PAIRS), session.remaining
    remaining = replace(remaining, amount=remaining.amount - search_cost(plan))
    return remaining if plan.limits is None or remaining.amount < part.amount else part


def _plan(request: Request[AllPairs]) -> list[Part]:
    """Return the parts of the budget: see `Family`.

    With complete rows, only the number of rows reads all rows. With observed rows, each one-way
    marginal requires its attribute. All pairs are released at once, in one answer to which every
    row contributes.
    """
    schema, share = request.modelled.schema, request.parameters.first_share
    parts = marginal_parts(request, share, pairs=_measured_pairs(request))
    if len(schema) == 1:
        return parts
    if named := _named(request, schema):
        required_sets = request.required_sets([schema.names[a] for a in clique] for clique in named)
        parts.append(Part(TOP_UP, TOP_UP_SHARE, required_sets, weights=tuple(named.values())))
    if request.strategy.models_missingness and (masks := math.comb(len(schema.nullable), 2)):
        parts.append(Part(MASKS, MASKS_SHARE, request.required_sets([()]), count=masks))
    return [*parts, *search_parts(request), pairs_part(request)]


def _fit(session: Session, plan: BudgetPlan, request: Request[AllPairs]) -> Learned:
    """Release one-way marginals, tables of the workload, masks and all pairs, and fit a model."""
    session, count = open_rows(session, plan, request)
    request.report("measuring single attributes", 0.05)
    one_way, total = release_one_way(session, plan, request, count)
    tables, stds = _release_top_up(session, one_way, _named(request, request.public), plan)
    masks, std = release_masks(session, plan, one_way, limit=_MAX_MASKED)
    request.report("measuring pairs", 0.1)
    names = session.facts.schema.names
    release = release_pairs(
        session,
        replace(one_way, counts=tables, stds=stds, masks=masks, masks_std=std),
        clip=request.parameters.clip,
        numbers=numeric_scores(request.schema, names, one_way.levels, one_way.one_way),
        cost=cost_of_pairs(session, plan),
        pairs=_measured_pairs(request),
    )
    request.report("fitting", 0.3)
    selective = session.facts.strategy.models_missingness
    extension = None
    if SEARCH in plan:
        merged = session.apply(LevelMerge(one_way.groups(names)))
        extension = PairExtension(merged, release, plan, partial(release_again, session))
    model = fit_pairs(
        release,
        model_facts(request.modelled, one_way.levels, selective=selective),
        rng=session.generator(),
        extend=extension,
    )
    release = extension.release if extension else release
    release = release.settle_tails(model, session.generator())
    numbers = dict(zip(names, release.numbers, strict=False))
    schema = with_shares(request.schema, numbers)
    request.report("done", 1.0)
    total, complete = row_totals(session, total, count)
    return Learned(model, total, tables=release, complete=complete, schema=schema)


TOP_UP = "tables of the workload"
"""Name of the part of a budget for tables of three or more attributes."""

TOP_UP_SHARE = 0.12
"""Share for all these tables together, in the budget that remains after one-way marginals."""

_MAX_TABLES = 100  # tables of three or more attributes: the noise of more tables is too large


def _measured_pairs(request: Request[AllPairs]) -> list[tuple[int, int]] | None:
    """Return the pairs that are measured, by public facts, or None for all pairs."""
    pairs, workload = near_pairs(request.modelled), request.parameters.workload
    if pairs is None or workload == AUTO or isinstance(workload, int):
        return pairs
    named = named_marginals(fixed_workload(workload), request.modelled.schema)
    return sorted({*pairs, *((c[0], c[1]) for c in named if len(c) == 2)})


def _named(request: Request[AllPairs], schema: Schema) -> dict[Clique, float]:
    """Return the larger tables that the workload names, with their weights."""
    workload = fixed_workload(request.parameters.workload)
    if type(workload) is int and workload == 2:
        return {}  # a list of all pairs would be long
    named = named_marginals(workload, schema)
    larger = {clique: weight for clique, weight in named.items() if len(clique) > 2}
    if len(larger) > _MAX_TABLES:
        raise ParameterError(
            f"the workload has {len(larger):,} marginals of three attributes or more. Name at "
            f"most {_MAX_TABLES}, or use AIM."
        )
    for names in ([schema.names[a] for a in clique] for clique in larger):
        if math.prod(schema[name].extended_size for name in names) > MAX_CELLS:
            raise ParameterError(
                f"workload: the marginal of {', '.join(names)} has more than {MAX_CELLS:,} cells"
            )
    return larger


def _release_top_up(
    session: Session, one_way: NoisyMarginals, workload: Mapping[Clique, float], plan: BudgetPlan
) -> tuple[dict[Clique, Floats], dict[Clique, float]]:
    """Release tables of the workload on groups of levels, with the SD of each count."""
    names, tables, stds = session.facts.schema.names, {}, {}
    if workload:
        session = session.apply(LevelMerge(one_way.groups(names)))
        session.expect(Marginal(tuple(names[a] for a in clique)) for clique in workload)
        for clique, cost in zip(workload, plan.costs(TOP_UP), strict=True):
            noise = Noise.from_cost(cost)
            counts = session.measure(Marginal(tuple(names[a] for a in clique)), noise).value
            tables[clique], stds[clique] = counts.astype(np.float64), noise.std
    return tables, stds


@dataclass(kw_only=True, eq=False, repr=False)
class AllPairs(Synthesizer):
    """Synthesizer that releases all pairs of attributes at once, in one noisy answer.

    Use it for tables in which all relations between two columns matter. With more than 100
    attributes, pairs of near columns are released, and all others are left out (see Notes). No row
    decides which pairs are released. A fit is accounted in Gaussian DP, with add-remove adjacency.

    One-way marginals (tables of counts of one attribute) are released first, with a small share of
    the budget. Counts of cells that are missing together follow. Then all two-way tables are
    released at once. A row is mapped to a vector v: for all pairs of attributes, the products of
    their centred indicators. v is scaled by min(1, clip / ‖v‖). The vectors of all rows are summed,
    and each coordinate gets Gaussian noise for the sensitivity ``clip``. Centring by the released
    marginals makes v short for typical rows, so a typical row changes hardly any sum. All pairs
    together therefore cost about as much as a few tables of counts.

    Parameters
    ----------
    epsilon : float
        Privacy budget of the complete fit, from 1e-6 to 10,000. Two neighbouring tables differ by
        one added or removed row (add-remove adjacency).
    delta : float or None, default None
        Delta of the complete fit, above 0 and below 1. None is 1e-6, which is meant for up to
        10,000 rows. For a declared number n of rows above 10,000, None is ``1 / (100 n)``.
    n_rows : "noisy" or int, default "noisy"
        ``"noisy"`` estimates the private number of rows from released values. A small share of the
        budget releases a noisy count if these values are not precise enough. An integer from 1 to
        2**53 declares the number of rows public.
    bins : {"private", "equal"}, default "private"
        Bins of numeric attributes that declare none. ``"private"`` releases bins by a noisy tree of
        counts, for three tenths of the budget together. ``"equal"`` makes ten bins of equal width
        at no cost.
    random_state : int or None, default None
        None draws noise from the operating system's cryptographic source. A number is for tests:
        the guarantee then states that the seed must be secret.
    budget : Filter, Composition or None, default None
        A budget shared with other releases from the same table. It is charged before the first
        noisy value is released.
    progress : callable, bool or None, default None
        Called with the name of a stage and the share of the work done, in [0, 1]. It shows nothing
        private. True draws a bar in a terminal or notebook, and prints each stage elsewhere.
    missing : {"joint", "observed", "complete-rows", "impute-first"}, default "joint"
        Strategy for missing cells. ``"joint"`` releases the tables of observed cells. It also
        releases how missing cells of one attribute relate to the levels and missing cells of all
        others. A model of missing cells given the row weights observed tables by their chance of
        being observed. This corrects for missingness that depends on observed attributes one by
        one. ``"observed"`` treats the rows observed on a pair as all rows. ``"complete-rows"``
        drops rows with a missing cell before anything else. ``"impute-first"`` fills missing cells
        privately first.
    clip : "auto" or float, default "auto"
        L2 norm to which the vector of each row is clipped, from 2**-10 to 2**20. ``"auto"`` follows
        from the released marginals and number of rows, epsilon and delta.
    first_share : float from 0.0001 to 0.99, optional
        Share of the budget for the one-way marginals, by default 0.08.
    workload : "auto", int, iterable of tuple of str, or mapping of tuple of str to float, default 2
        Marginals that should be accurate in addition to all pairs. ``"auto"`` selects up to eight
        marginals of three or four attributes that pairs describe badly. See Notes. An integer k
        from 1 to 4 means all marginals of k attributes. Otherwise tuples of 1 to 4 attribute names,
        or weights from 1e-9 to 1e9 by such tuples. At most 100 marginals have three or four
        attributes. They share 12 % of the budget that remains after the one-way marginals, by their
        weights.
    imputer : {"marginal", "random", "mean"}, default "marginal"
        Rule by which ``missing="impute-first"`` fills missing cells. ``"marginal"`` draws from a
        noisy one-way marginal. ``"mean"`` fills a numeric attribute with its noisy mean, and draws
        others from the noisy marginal. ``"random"`` draws any public level at no cost.
    imputer_share : float from 0.0001 to 0.99, default 0.1
        Share of the budget (squared mu) for the marginals of the imputer.

    Attributes
    ----------
    model_ : PairModel
        The released model of rows and of missing cells.
    tables_ : PairRelease
        The released marginals and sums of products.
    guarantee_ : Guarantee
        The guarantee of everything that the fit released, with its conditions.
    n_rows_ : int
        Released or declared number of rows, at least 1.
    n_rows_std_ : float
        Standard deviation of the noise of ``n_rows_``, in rows. 0 if the number was declared.

    Raises
    ------
    ParameterError
        Raised by ``fit`` before the charge, if a parameter has no valid value, or all pairs have
        too many cells.

    Notes
    -----
    Clipping biases the sums. The bias is estimated from rows of a model and added, and the model is
    fitted to the corrected tables, in turns. If attributes are ordered, dependence is shrunk
    towards smooth functions of their ranks, by empirical Bayes. Trends then survive noise that
    hides single cells.

    Wide tables: with more than 100 attributes, most of all pairs would be noise. Related questions
    stand side by side, so each attribute is paired with the next 12 in schema order. With more than
    666 attributes there are 8,000 such pairs. Pairs in which rules exclude cells, and pairs that
    ``workload`` names, are released in addition. One-way marginals then get a larger share.

    Search: with ``workload="auto"``, 3 % of the remaining budget pays for a search. It selects and
    measures one marginal after another, until noise hides the dependence that pairs lack. All
    triples of up to 50 attributes are candidates, and all quadruples of up to 12. With more
    attributes, only those with the fewest levels form candidates. The unspent rest releases all
    pairs again.

    References
    ----------
    Dong, Roth, Su (2022), "Gaussian differential privacy", Journal of the Royal Statistical Society
    B 84(1), for the accounting.

    Examples
    --------
    >>> from missdp import AllPairs
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((
    ...     Categorical(name="smoker", levels=("no", "yes"), nullable=True),
    ...     Categorical(name="ill", levels=("no", "yes")),
    ... ))
    >>> smoker, ill = ["yes", None, "no"] * 200, ["yes", "no", "no"] * 200
    >>> people = pd.DataFrame({"smoker": smoker, "ill": ill})
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

    workload: Workload | Literal["auto"] = 2
    clip: float | Literal["auto"] = "auto"
    first_share: float | None = None
    imputer: Imputer = "marginal"
    imputer_share: float = 0.1
