"""Steps of a fit that measures marginals one by one, and fits one model to them: for AIM and MST.

The algorithms are in `missdp.synth.aim` and `missdp.synth.mst`. `AdaptiveFit` has the steps of a
round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from missdp.accounting import Cost
from missdp.calibration import selection_epsilon
from missdp.inference.completion import ModelFacts
from missdp.inference.marginals import NoisyMarginals, QuickFit, quick_fit
from missdp.inference.models import PairModel
from missdp.session import Expected, LevelMerge, Marginal, Misfits, Noise, Selection, Session, Total
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.synth.family import Family, Learned, Request, budget_of_counts
from missdp.synth.higher_order import SEARCH, PairExtension, search_cost, search_parts
from missdp.synth.learn_pairs import PairRelease, fit_pairs, model_facts
from missdp.synth.noisy_counts import MASKS_SHARE, least_squares_total
from missdp.synth.parameters import is_declared
from missdp.synth.shared_steps import (
    one_way_parts,
    open_rows,
    release_masks,
    release_one_way,
    row_totals,
    sample_rows,
)
from missdp.synth.split import (
    BINS,
    CHOICES,
    KINDS,
    MASKS,
    TABLES,
    BudgetPlan,
    Part,
)
from missdp.synth.uncertain import resample_pairs
from missdp.synth.workload import pairs_of
from missdp.types import Clique

_COUNT_SHARE = 0.04  # share of the budget for the number of rows: SD 23 at epsilon 1 and delta 1e-6
_MIN_COUNT_SHARE = 0.005  # share of the budget: a smaller missing share is not spent
_RARE = 5.0  # SDs of noise: levels with fewer rows are merged
_MAX_PAIRS = 600  # pairs (about 35 attributes) for which a reserve pays
_MAX_RESERVE_SHARE = 0.8  # share of the remaining budget, which may be small after imputation
# Largest number of parts into which the remaining cost of a round is divided.
_MAX_DIVISIONS = 1 / (1 - _MAX_RESERVE_SHARE)
_SLACK = 1e-9  # share of the budget for rounding errors
_MIN_REST = 1e-6  # share of the budget: a smaller rest is not measured
_ROWS = (6_000, 20_000)  # smallest and largest number of rows of the quick model
_ROWS_PER_ROW = 2  # rows of the quick model for each released row, so that sampling error is small
_START, _END = 0.05, 0.8  # share of the work at the start and at the end of the rounds
ROUNDED = 1 + 1e-6  # factor for sums of many parts, which are rounded many times


@dataclass
class AdaptiveFit:
    """A running fit: its measured marginals and its remaining budget.

    * ``session``: Measures marginals on merged levels.
    * ``workload``: Marginals that may be measured, with their weights in selections.
    * ``marginals``: All marginals that were measured so far.
    * ``total``: Cost of the complete fit.
    * ``selection_budget``: Largest cost of all later selections together.
    * ``reserve``: Cost that is reserved for pairs that no selected marginal contains.
    * ``search``: Cost of a later search for marginals that pairs miss.
    * ``fit_model``: Fits a quick model to all marginals, given the model of the last round.
    """

    session: Session
    workload: Mapping[Clique, float]
    marginals: NoisyMarginals
    total: Cost
    selection_budget: float
    reserve: float
    search: float
    fit_model: Callable[[NoisyMarginals, QuickFit | None], QuickFit]

    @property
    def remaining(self) -> float:
        """Remaining cost of the rounds, in the measure of the budget."""
        later = self.reserve + self.search + _SLACK * self.total.amount
        return max(0.0, self.session.remaining.amount - later)

    @property
    def progress(self) -> float:
        """Approximate share of the complete fit that is done, from 0 to 1."""
        return _START + (_END - _START) * (1 - self.session.remaining.amount / self.total.amount)

    def noise(self, cost: float) -> Noise:
        """Return the noise of a marginal that has this cost."""
        return Noise.from_cost(replace(self.total, amount=cost))

    def names(self, clique: Clique) -> tuple[str, ...]:
        """Return the names of the attributes at these positions."""
        names = self.session.facts.schema.names
        return tuple(names[a] for a in clique)

    def estimate(self, before: QuickFit | None = None) -> QuickFit:
        """Fit a quick model of complete rows and missing cells to all measured marginals."""
        return self.fit_model(self.marginals, before)

    def expected(self, clique: Clique, estimate: QuickFit, noise: Noise) -> Expected:
        """Return the expected counts of a candidate, its bias and its weight.

        They are released and public values. Only the session compares them with private counts: see
        `missdp.session.Misfits`.
        """
        table, possible = estimate.expected(clique), estimate.possible(clique)
        bias = noise.error * np.count_nonzero(possible)
        return Expected(table, possible, bias, self.workload[clique])

    def select(self, expected: Mapping[Clique, Expected], cost: float) -> Clique:
        """Select the candidate with the largest weighted misfit, by the exponential mechanism."""
        cliques = [*expected]
        if len(cliques) == 1:
            return cliques[0]  # a single candidate needs no selection
        self.selection_budget -= cost
        named = {self.names(clique): expectation for clique, expectation in expected.items()}
        epsilon = selection_epsilon(replace(self.total, amount=cost))
        selection = Selection(epsilon, MISFIT_SENSITIVITY)
        misfits = Misfits(tuple(named), named.__getitem__)
        return cliques[int(self.session.measure(misfits, selection).value)]

    def measure(self, clique: Clique, noise: Noise) -> None:
        """Measure a marginal. A second measurement is averaged with the first."""
        counts = self.session.measure(Marginal(self.names(clique)), noise).value
        self.marginals = self.marginals.add(clique, counts.astype(np.float64), noise.std)

    def measure_reserved(self) -> None:
        """Spend the reserve on unmeasured pairs, or a small rest on measured marginals."""
        rest = pairs_of(self.workload, self.marginals.counts) if self.reserve else []
        rest, self.reserve = rest or [*self.marginals.counts], 0.0
        if self.remaining > _MIN_REST * self.total.amount:
            self._measure_all(rest, self.remaining)

    def measure_again(self, release: PairRelease, cost: Cost) -> PairRelease:
        """Measure all marginals of a release again, and return the means of both measurements."""
        self.marginals = release.marginals
        self._measure_all([*self.marginals.counts], cost.amount)
        return replace(release, marginals=self.marginals)

    def _measure_all(self, cliques: Sequence[Clique], cost: float) -> None:
        noise = self.noise(cost / len(cliques))
        for clique in cliques:
            self.measure(clique, noise)

    def selection_cost(self, share: float, cost: float) -> float:
        """Return the cost of the selection of one round.

        Parameters
        ----------
        share : float
            Share of the selection in the cost of the round; above 0.
        cost : float
            Cost of the round; at most ``remaining``.

        Returns
        -------
        float
            0 if there is a single candidate. Otherwise above 0: the selection budget is spread over
            the remaining budget, so that it lasts until the last round.
        """
        if len(self.workload) == 1:
            return 0.0
        return min(share * cost, self.selection_budget * min(1.0, cost / self.remaining))


@dataclass(frozen=True, kw_only=True)
class SelectionPlan:
    """Public plan of the selections: a function of parameters and public facts.

    * ``workload``: Marginals that may be measured, with their weights in selections.
    * ``one_way_share``: Share of the budget for the one-way marginals.
    * ``selection_share``: Share of the cost of a round for its selection.
    * ``rounds``: Planned number of selections.
    * ``reserve_share``: Share of the budget for pairs that no selected marginal contains.
    * ``min_rows``: Smallest mean count of a cell of a pair with which a reserve pays, in standard
      deviations of the noise.
    * ``searches``: Whether marginals that pairs miss are searched for afterwards.
    * ``small_domain``: Number of combinations of levels up to which rounds are enough for all
      pairs.
    * ``largest_share``: ``largest_share(remaining)`` is the largest share of the cost of all tables
      that one table gets. ``remaining`` is the share of the budget for these tables.
    """

    workload: Mapping[Clique, float]
    one_way_share: float
    selection_share: float
    rounds: int
    reserve_share: float
    min_rows: float
    searches: bool = False
    small_domain: float = 0.0
    largest_share: Callable[[float], float] = lambda _: 1.0


def adaptive_family(
    parameters: Callable[[Any], None],
    selection_plan: Callable[[Request[Any]], SelectionPlan],
    run: Callable[[AdaptiveFit, Request[Any], SelectionPlan], None],
) -> Family:
    """Return a family that selects marginals one by one.

    Parameters
    ----------
    parameters : callable
        Raises ParameterError for parameters that are not valid.
    selection_plan : callable
        Returns the plan of the selections, by parameters and public facts.
    run : callable
        Selects and measures marginals until only the reserve remains.

    Returns
    -------
    Family
    """
    return Family(
        strategies=("joint", "observed", "complete-rows", "impute-first"),
        parameters=parameters,
        plan=lambda request: _parts(request, selection_plan(request)),
        budget=budget_of_counts,
        fit=lambda session, plan, request: _fit(
            session, plan, request, selection_plan(request), run
        ),
        model=PairModel,
        tables=NoisyMarginals,
        sample=sample_rows,
        resample=resample_pairs,
        protects_units=True,
    )


def _parts(request: Request[Any], selection: SelectionPlan) -> list[Part]:
    """Return the parts of the budget: see `Family`.

    The number of rows is released once. Every one-way marginal is released once, with noise that
    parameters fix. Masks of pairs may follow. The rest is spent on rounds. A round has a selection,
    within a cap of all selections, and a marginal of the workload. Reserved pairs and repeated
    measurements are in the workload, or inside one of its marginals. A search for larger marginals
    has parts of its own, to which every row contributes.
    """
    schema, several = request.modelled.schema, len(selection.workload) > 1
    first = selection.one_way_share if selection.workload else 1.0
    count_share = _count_share(request, selection.one_way_share)
    parts = one_way_parts(request, first, count_share=count_share)
    if not selection.workload:
        return parts
    anything, masks = request.required_sets([()]), math.comb(len(schema.nullable), 2)
    if request.strategy.models_missingness and masks and several:
        parts.append(Part(MASKS, MASKS_SHARE, anything, count=masks))
    parts += search_parts(request) if selection.searches else []
    if several:
        choices = selection.selection_share * ROUNDED
        parts.append(Part(CHOICES, choices, anything, kind="selections", count=selection.rounds))
    rest = Part(TABLES, 1.0, anything, count=selection.rounds * _MAX_DIVISIONS)
    if request.strategy.required_sets == "data":
        cliques = dict.fromkeys([*selection.workload, *pairs_of(selection.workload)])
        among = request.required_sets([schema.names[a] for a in clique] for clique in cliques)
        largest = selection.largest_share(math.prod(1 - part.share for part in parts))
        rest = replace(rest, required_sets=among, chosen=True, largest=largest)
    return [*parts, rest]


def _count_share(request: Request[Any], one_way_share: float) -> float:
    """Return the public share of the budget for the number of rows.

    Marginals in which every row counts have the number of rows as their totals, with the noise of
    all their cells. The share is the difference between a target and the information in these
    totals. Information is an inverse variance, relative to that of the complete budget spent on one
    number. For the totals it is ``one_way_share * mean(1 / cells)``.
    """
    if is_declared(request.parameters.n_rows):
        return 0.0
    strategy, schema = request.strategy, request.modelled.schema
    sizes = [
        strategy.shape((name,), schema)[0]
        for name in schema.names
        if strategy.fills or strategy.implies_total((name,), schema)
    ]
    implied = one_way_share * math.fsum(1 / size for size in sizes) / len(schema)
    missing = _COUNT_SHARE - implied
    return missing if missing > _MIN_COUNT_SHARE else 0.0


# The steps of a fit


def _fit(
    session: Session,
    plan: BudgetPlan,
    request: Request[Any],
    selection: SelectionPlan,
    run: Callable[[AdaptiveFit, Request[Any], SelectionPlan], None],
) -> Learned:
    """Measure one-way marginals and the marginals that ``run`` selects, and fit a model to all."""
    session, number = open_rows(session, plan, request)
    request.report("measuring single attributes", 0.0)
    names, workload = session.facts.schema.names, selection.workload
    cliques = [*workload, *pairs_of(workload)]
    later = [tuple(names[a] for a in clique) for clique in dict.fromkeys(cliques)]
    marginals, rows = release_one_way(session, plan, request, number, rare=_RARE, later=later)
    measured, extension = list[Clique](), None
    if workload:
        fit = _start_rounds(session, plan, request, selection, marginals)
        run(fit, request, selection)
        measured = [*fit.marginals.counts]
        request.report("measuring other pairs", _END)
        fit.measure_reserved()
        marginals = fit.marginals
        if SEARCH in plan:
            release = PairRelease(marginals)
            extension = PairExtension(fit.session, release, plan, fit.measure_again)
    request.report("final fit", 0.9)
    facts, rng = _facts(request, marginals), session.generator()
    model = fit_pairs(PairRelease(marginals), facts, rng=rng, extend=extension)
    if extension:
        marginals = extension.release.marginals
        measured = [*dict.fromkeys([*measured, *marginals.higher_order])]
    request.report("done", 1.0)
    total, complete = row_totals(session, _total(session, rows, marginals), number)
    selected = tuple(tuple(names[a] for a in clique) for clique in measured)
    return Learned(model, total, tables=marginals, measured=selected, complete=complete)


def _facts(request: Request[Any], marginals: NoisyMarginals) -> ModelFacts:
    """Return the public facts about complete rows, on groups of levels."""
    selective = request.strategy.models_missingness
    return model_facts(request.modelled, marginals.levels, selective=selective)


def _start_rounds(
    session: Session,
    plan: BudgetPlan,
    request: Request[Any],
    selection: SelectionPlan,
    marginals: NoisyMarginals,
) -> AdaptiveFit:
    """Return a fit that measures marginals of two or more attributes until its budget is spent."""
    search = search_cost(plan)
    reserve = reserve_cost(plan, selection, marginals, session.remaining.amount - search)
    if not reserve:
        masks, std = release_masks(session, plan, marginals)
        # The session held these counts only until their levels were merged.
        names = session.facts.schema.names
        session.expect(Marginal((names[a], names[b])) for a, b in masks)
        marginals = replace(marginals, masks=masks, masks_std=std)
    merged = session.apply(LevelMerge(marginals.groups(session.facts.schema.names)))
    n = int(min(max(_ROWS[0], _ROWS_PER_ROW * marginals.rows), _ROWS[1]))
    facts, rng = _facts(request, marginals), session.generator()
    remaining = max(0.0, session.remaining.amount - reserve - search)
    return AdaptiveFit(
        session=merged,
        workload=selection.workload,
        marginals=marginals,
        total=plan.total,
        selection_budget=min(selection.selection_share * remaining, plan.cost(CHOICES).amount),
        reserve=reserve,
        search=search,
        fit_model=lambda current, before: quick_fit(current, facts, rng, n=n, before=before),
    )


def reserve_cost(
    plan: BudgetPlan, selection: SelectionPlan, marginals: NoisyMarginals, remaining: float
) -> float:
    """Return the cost that is reserved for pairs that no selected marginal contains.

    A reserve pays if the pairs are not too many, and if the noise does not hide their mean counts.
    Public facts and the released number of rows decide this.

    Parameters
    ----------
    plan : BudgetPlan
        The parts of the budget.
    selection : SelectionPlan
        States the share of the reserve and the conditions under which it pays.
    marginals : NoisyMarginals
        The released one-way marginals.
    remaining : float
        The remaining budget.

    Returns
    -------
    float
        A cost in the measure of the budget, 0 if a reserve does not pay.
    """
    pairs = pairs_of(selection.workload)
    cells = [math.prod(marginals.sizes[a] for a in pair) for pair in pairs]
    domain = float(np.prod(marginals.sizes, dtype=float))
    if len(pairs) > _MAX_PAIRS or not selection.reserve_share or domain <= selection.small_domain:
        return 0.0
    reserve = selection.reserve_share * plan.after(BINS, KINDS).amount
    noise = Noise.from_cost(replace(plan.total, amount=reserve / len(pairs)))
    in_a_cell = marginals.rows * len(cells) / sum(cells)
    pays = in_a_cell >= selection.min_rows * noise.std
    return min(reserve, _MAX_RESERVE_SHARE * remaining) if pays else 0.0


def _total(session: Session, rows: Total, marginals: NoisyMarginals) -> Total:
    """Return the number of counted rows by all released totals."""
    facts = session.facts
    totals, floors = [rows], list[Total]()
    for clique, counts in marginals.counts.items():
        total = Total(float(counts.sum()), counts.size * marginals.stds[clique] ** 2)
        names = tuple(facts.schema.names[a] for a in clique)
        counts_all = facts.strategy.complete_only or facts.sums_to_row_count(names)
        (totals if counts_all else floors).append(total)
    return least_squares_total(totals, floors)
