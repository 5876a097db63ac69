"""What AIM and MST share: marginals that are measured one by one, and one model fitted to them.

How they select marginals is in `missdp.synth.aim` and `missdp.synth.mst`; `AdaptiveFit` gives them
the steps of a round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from missdp.accounting import Cost
from missdp.calibration import selection_epsilon
from missdp.inference.completion import ModelFacts
from missdp.inference.marginals import NoisyMarginals, QuickFit, quick_fit
from missdp.inference.models import PairModel
from missdp.session import Expected, Marginal, Merged, Misfits, Noise, Selection, Session, Total
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.synth.family import Family, Learned, Request, budget_of_counts
from missdp.synth.learn_pairs import PairRelease, fit_pairs, model_facts
from missdp.synth.noisy_counts import MASKS_SHARE, least_squares_total
from missdp.synth.parameters import is_declared
from missdp.synth.shared_steps import (
    counted,
    one_way_parts,
    open_rows,
    release_masks,
    release_one_way,
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

_COUNT_SHARE = 0.04  # of the budget, for the number of rows: +- 23 at epsilon 1, delta 1e-6
_LEAST_COUNT_SHARE = 0.005
_RARE = 5.0  # standard deviations: levels with fewer rows are merged
_MOST_PAIRS = 600  # of 35 attributes, say, for which a reserve pays
_MOST_KEPT = 0.8  # of what is left, where imputation takes much
_PIECES = 1 / (1 - _MOST_KEPT)  # into which what is left for a round is divided at most
_SLACK = 1e-9  # of the budget, which rounding may take
_CRUMBS = 1e-6  # of the budget: less is not worth a measurement
_ROWS = (6_000, 20_000)  # of the quick model, at least and at most
_AS_MANY = 2  # times the released number of rows: then they vary less than private rows do
_BEFORE, _AFTER = 0.05, 0.8  # of the work, when rounds begin and end
ROUNDED = 1 + 1e-6  # where a fit adds up many parts


@dataclass
class AdaptiveFit:
    """A fit that is under way: what was measured, and what is left of the budget.

    * ``session``: Measures marginals on merged levels.
    * ``workload``: Marginals that may be measured, with their weights in selections.
    * ``marginals``: All that was measured so far.
    * ``whole``: Cost of the whole fit.
    * ``for_selections``: The most that selections may cost from here on; it holds on every path.
    * ``reserve``: What is kept for pairs that no selected marginal contains.
    * ``estimate_by``: Fits a quick model to all marginals, given the one of the round before.
    """

    session: Session
    workload: Mapping[Clique, float]
    marginals: NoisyMarginals
    whole: Cost
    for_selections: float
    reserve: float
    estimate_by: Callable[[NoisyMarginals, QuickFit | None], QuickFit]

    @property
    def left(self) -> float:
        """What may be spent on rounds, in the measure of the budget."""
        left = self.session.left.amount - self.reserve - _SLACK * self.whole.amount
        return max(0.0, left)

    @property
    def done(self) -> float:
        """About which part of the whole fit is done, for a report of progress."""
        return _BEFORE + (_AFTER - _BEFORE) * (1 - self.session.left.amount / self.whole.amount)

    def noise(self, cost: float) -> Noise:
        """Return the noise of a marginal that costs so much."""
        return Noise.worth(replace(self.whole, amount=cost))

    def names(self, clique: Clique) -> tuple[str, ...]:
        """Return the names of attributes, by their positions."""
        names = self.session.facts.schema.names
        return tuple(names[a] for a in clique)

    def estimate(self, before: QuickFit | None = None) -> QuickFit:
        """Fit a quick model of complete rows, and of their missing cells, to all marginals."""
        return self.estimate_by(self.marginals, before)

    def expected(self, clique: Clique, estimate: QuickFit, noise: Noise) -> Expected:
        """Return what a candidate is scored against: the model's counts, bias and weight.

        Released and public values only. The session alone compares them with private counts; see
        `missdp.session.Misfits`.
        """
        table, possible = estimate.expected(clique), estimate.possible(clique)
        bias = noise.error * np.count_nonzero(possible)
        return Expected(table, possible, bias, self.workload[clique])

    def select(self, expected: Mapping[Clique, Expected], cost: float) -> Clique:
        """Select the candidate that is furthest from what is expected, by its weighted misfit."""
        cliques = [*expected]
        if len(cliques) == 1:
            return cliques[0]  # one candidate is no choice
        self.for_selections -= cost
        named = {self.names(clique): known for clique, known in expected.items()}
        epsilon = selection_epsilon(replace(self.whole, amount=cost))
        selection = Selection(epsilon, MISFIT_SENSITIVITY)
        misfits = Misfits(tuple(named), named.__getitem__)
        return cliques[int(self.session.measure(misfits, selection).value)]

    def measure(self, clique: Clique, noise: Noise) -> None:
        """Measure a marginal; a second measurement is averaged with the first."""
        counts = self.session.measure(Marginal(self.names(clique)), noise).value
        self.marginals = self.marginals.add(clique, counts.astype(np.float64), noise.std)

    def measure_rest(self) -> None:
        """Spend the reserve on pairs that were not measured, and crumbs on what was once more."""
        rest = pairs_of(self.workload, self.marginals.counts) if self.reserve else []
        rest, self.reserve = rest or [*self.marginals.counts], 0.0
        if self.left > _CRUMBS * self.whole.amount:
            noise = self.noise(self.left / len(rest))
            for clique in rest:
                self.measure(clique, noise)

    def selection_cost(self, share: float, cost: float) -> float:
        """Return the part of the cost of a round that its selection gets.

        Parameters
        ----------
        share : float
            Share of selections in the cost of rounds; above 0.
        cost : float
            Cost of the round: at most ``left``.

        Returns
        -------
        float
            0 if there is one candidate. Otherwise above 0: what selections may cost is spread over
            all that is left, so that it lasts until the last round.
        """
        if len(self.workload) == 1:
            return 0.0
        return min(share * cost, self.for_selections * min(1.0, cost / self.left))


@dataclass(frozen=True, kw_only=True)
class SelectionPlan:
    """How a family selects marginals: by its parameters and public facts alone.

    * ``workload``: Marginals that may be measured, with their weights in selections.
    * ``one_way_share``: Share of the one-way marginals in the budget.
    * ``selection_share``: Share of a selection in the cost of its round.
    * ``rounds``: How many selections are planned for.
    * ``reserve_share``: Share of the budget for pairs that no selected marginal contains.
    * ``min_rows``: Standard deviations of noise that the rows in a cell of a pair exceed for a
      reserve.
    * ``small_domain``: Combinations of levels, up to which rounds are enough for all pairs.
    * ``largest_share``: ``largest_share(left)`` is the largest share of what remains for marginals
      that one of them gets, if that is the part ``left`` of the budget.
    """

    workload: Mapping[Clique, float]
    one_way_share: float
    selection_share: float
    rounds: int
    reserve_share: float
    min_rows: float
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
        Refuses parameters that are not valid.
    selection_plan : callable
        Returns how marginals are selected, by parameters and public facts.
    run : callable
        Selects marginals and measures them until nothing but the reserve is left.

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


def _parts(request: Request[Any], how: SelectionPlan) -> list[Part]:
    """Return the parts of the budget; see `Family`.

    The number of rows is released once, and every one-way marginal once, with noise that parameters
    fix; and perhaps masks of pairs. What is left is spent on rounds: a selection, within a cap of
    its own, and a marginal of the workload. Pairs that a share is reserved for, and marginals
    measured once more, are of the workload too, or inside one of its marginals.
    """
    schema, several = request.modelled.schema, len(how.workload) > 1
    first = how.one_way_share if how.workload else 1.0
    parts = one_way_parts(request, first, count_share=_count_share(request, how.one_way_share))
    if not how.workload:
        return parts
    anything, masks = request.required_sets([()]), math.comb(len(schema.nullable), 2)
    if request.strategy.models_missingness and masks and several:
        parts.append(Part(MASKS, MASKS_SHARE, anything, count=masks))
    if several:
        choices = how.selection_share * ROUNDED
        parts.append(Part(CHOICES, choices, anything, kind="selections", count=how.rounds))
    rest = Part(TABLES, 1.0, anything, count=how.rounds * _PIECES)
    if request.strategy.required_sets == "data":
        cliques = dict.fromkeys([*how.workload, *pairs_of(how.workload)])
        among = request.required_sets([schema.names[a] for a in clique] for clique in cliques)
        largest = how.largest_share(math.prod(1 - part.share for part in parts))
        rest = replace(rest, required_sets=among, chosen=True, largest=largest)
    return [*parts, rest]


def _count_share(request: Request[Any], one_way_share: float) -> float:
    """Share of the budget for the number of rows: what one-way marginals do not tell; public.

    A marginal in which every row counts has the number of rows as its total, with as many cells'
    noise. In units of the inverse variance that the budget would buy if it were all spent on one
    number, they tell ``one_way_share * mean(1 / cells)``.
    """
    if is_declared(request.parameters.n_rows):
        return 0.0
    strategy, schema = request.strategy, request.modelled.schema
    sizes = [
        strategy.shape((name,), schema)[0]
        for name in schema.names
        if strategy.fills or strategy.implies_total((name,), schema)
    ]
    known = one_way_share * math.fsum(1 / size for size in sizes) / len(schema)
    lacking = _COUNT_SHARE - known
    return lacking if lacking > _LEAST_COUNT_SHARE else 0.0


# A fit, step by step


def _fit(
    session: Session,
    plan: BudgetPlan,
    request: Request[Any],
    how: SelectionPlan,
    run: Callable[[AdaptiveFit, Request[Any], SelectionPlan], None],
) -> Learned:
    """Measure one-way marginals, then others that ``run`` selects, and fit a model to all."""
    session, number = open_rows(session, plan, request)
    request.report("measuring single attributes", 0.0)
    names, cliques = session.facts.schema.names, [*how.workload, *pairs_of(how.workload)]
    later = [tuple(names[a] for a in clique) for clique in dict.fromkeys(cliques)]
    marginals, rows = release_one_way(session, plan, request, number, rare=_RARE, later=later)
    measured: tuple[tuple[str, ...], ...] = ()
    if how.workload:
        fit = _start(session, plan, request, how, marginals)
        run(fit, request, how)
        measured = tuple(map(fit.names, fit.marginals.counts))
        request.report("measuring other pairs", _AFTER)
        fit.measure_rest()
        marginals = fit.marginals
    request.report("final fit", 0.9)
    facts, rng = _facts(request, marginals), session.generator()
    model = fit_pairs(PairRelease(marginals), facts, rng=rng)
    request.report("done", 1.0)
    total, complete = counted(session, _total(session, rows, marginals), number)
    return Learned(model, total, tables=marginals, measured=measured, complete=complete)


def _facts(request: Request[Any], marginals: NoisyMarginals) -> ModelFacts:
    """Public facts about complete rows, on groups of levels."""
    selective = request.strategy.models_missingness
    return model_facts(request.modelled, marginals.levels, selective=selective)


def _start(
    session: Session,
    plan: BudgetPlan,
    request: Request[Any],
    how: SelectionPlan,
    marginals: NoisyMarginals,
) -> AdaptiveFit:
    """Return what measures marginals of two attributes and more, until the budget is spent."""
    reserve = reserved(plan, how, marginals, session.left.amount)
    if not reserve:
        masks, std = release_masks(session, plan, marginals)
        # The session kept these counts only until they were merged.
        names = session.facts.schema.names
        session.expect(Marginal((names[a], names[b])) for a, b in masks)
        marginals = replace(marginals, masks=masks, masks_std=std)
    merged = session.on(Merged(marginals.groups(session.facts.schema.names)))
    n = int(min(max(_ROWS[0], _AS_MANY * marginals.rows), _ROWS[1]))
    facts, rng = _facts(request, marginals), session.generator()
    left = max(0.0, session.left.amount - reserve)
    return AdaptiveFit(
        session=merged,
        workload=how.workload,
        marginals=marginals,
        whole=plan.total,
        for_selections=min(how.selection_share * left, plan.cost(CHOICES).amount),
        reserve=reserve,
        estimate_by=lambda known, before: quick_fit(known, facts, rng, n=n, before=before),
    )


def reserved(plan: BudgetPlan, how: SelectionPlan, marginals: NoisyMarginals, left: float) -> float:
    """Return the part of the budget that is kept for pairs that no selected marginal contains.

    Measuring them pays if there are not too many of them, and if their cells have rows enough to be
    seen through the noise, by public facts and the released number of rows.

    Parameters
    ----------
    plan : BudgetPlan
        The parts of the budget.
    how : SelectionPlan
        Has the share, and what makes it pay.
    marginals : NoisyMarginals
        The released one-way marginals.
    left : float
        What is left of the budget.

    Returns
    -------
    float
        An amount in the measure of the budget; 0 if it does not pay.
    """
    pairs = pairs_of(how.workload)
    cells = [math.prod(marginals.sizes[a] for a in pair) for pair in pairs]
    domain = float(np.prod(marginals.sizes, dtype=float))
    if len(pairs) > _MOST_PAIRS or not how.reserve_share or domain <= how.small_domain:
        return 0.0
    reserve = how.reserve_share * plan.after(BINS, KINDS).amount
    noise = Noise.worth(replace(plan.total, amount=reserve / len(pairs)))
    in_a_cell = marginals.rows * len(cells) / sum(cells)
    return min(reserve, _MOST_KEPT * left) if in_a_cell >= how.min_rows * noise.std else 0.0


def _total(session: Session, rows: Total, marginals: NoisyMarginals) -> Total:
    """Return the number of counted rows by everything that was released."""
    facts = session.facts
    totals, floors = [rows], list[Total]()
    for clique, counts in marginals.counts.items():
        total = Total(float(counts.sum()), counts.size * marginals.stds[clique] ** 2)
        names = tuple(facts.schema.names[a] for a in clique)
        whole = facts.strategy.complete_only or facts.sums_to_row_count(names)
        (totals if whole else floors).append(total)
    return least_squares_total(totals, floors)
