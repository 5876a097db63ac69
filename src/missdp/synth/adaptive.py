"""What AIM and MST share: marginals that are measured one by one, and one model fitted to them.

How they select marginals is in `missdp.synth.aim` and `missdp.synth.mst`; `AdaptiveFit` gives them
the steps of a round.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost, Filter
from missdp.calibration import selection_epsilon
from missdp.inference.completion import ModelFacts
from missdp.inference.marginals import NoisyMarginals, QuickFit, quick_fit
from missdp.inference.model import Draws
from missdp.inference.models import PairModel
from missdp.schema import Schema
from missdp.session import Expected, Marginal, Merged, Misfits, Noise, Selection, Session, Total
from missdp.session.scores import MISFIT_SENSITIVITY
from missdp.synth.base import MissingValues, Synthesizer
from missdp.synth.impute_first import (
    IMPUTATION,
    Imputer,
    check_imputer,
    imputation_parts,
    impute,
)
from missdp.synth.learn_pairs import (
    OneWayMarginals,
    fit_pairs,
    impossible_pairs,
    measure_one_way,
    model_facts,
)
from missdp.synth.noisy_counts import MASKS_SHARE, least_squares_total, release_masks
from missdp.synth.split import BINS, CHOICES, KINDS, MARGINS, MASKS, ROWS, TABLES, Part
from missdp.synth.state import is_declared
from missdp.synth.uncertain import varied
from missdp.synth.workload import Workload, candidates, pairs_of
from missdp.types import Clique

_COUNT_SHARE = 0.04  # of the budget, for the number of rows: +- 23 at epsilon 1, delta 1e-6
_LEAST_COUNT_SHARE = 0.005
_RARE = 5.0  # standard deviations: levels with fewer rows are merged
_MISSING = 3.0  # standard deviations: fewer missing cells are taken for none
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

    def __post_init__(self) -> None:
        self._all_names = self.session.facts.schema.names

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
        return tuple(self._all_names[a] for a in clique)

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
        """Return the part of the cost of a round that a selection gets."""
        return min(share * cost, self.for_selections) if len(self.workload) > 1 else 0.0


@dataclass(kw_only=True, eq=False, repr=False)
class AdaptiveSynthesizer(Synthesizer):
    """Base of AIM and MST: marginals selected one by one, and one model of whole rows."""

    strategies: ClassVar[tuple[str, ...]] = ("joint", "observed", "complete-rows", "impute-first")
    protects_units: ClassVar[bool] = True
    # Share of the budget for pairs that no selected marginal contains.
    reserve_share: ClassVar[float]

    imputer: Imputer = "marginal"
    imputer_share: float = 0.1

    released: ClassVar[tuple[str, ...]] = ("model_", "measured_", "tables_")
    model_: PairModel = field(init=False)
    measured_: tuple[tuple[str, ...], ...] = field(init=False)
    tables_: NoisyMarginals = field(init=False)
    _draws: Draws = field(default="even", init=False)
    workload: Workload = field(init=False)

    @property
    @abc.abstractmethod
    def _shares(self) -> tuple[float, float]:
        """Shares of one-way marginals in the budget, and of a selection in its round."""

    @property
    @abc.abstractmethod
    def _least_in_a_cell(self) -> float:
        """Standard deviations of noise that the rows in a cell of a pair exceed for a reserve."""

    @abc.abstractmethod
    def _planned_rounds(self, schema: Schema) -> int:
        """Return how many selections are planned for; public."""

    @abc.abstractmethod
    def _run(self, fit: AdaptiveFit) -> None:
        """Select marginals and measure them until nothing but the reserve is left."""

    def _check_parameters(self) -> Filter:
        budget = super()._check_parameters()
        check_imputer(self.imputer)
        self._check_share("imputer_share")
        return budget

    @property
    def _budget(self) -> Filter:
        currency = Cost.for_counts(float(self.epsilon), self._delta).currency
        return Filter(self.epsilon, self._delta_to_spend, measure=currency)

    def _check_schema(self, schema: Schema) -> None:
        candidates(self.workload, schema)

    def split(self, schema: Schema) -> list[Part]:
        """Return the parts of the budget of a fit; see :meth:`Synthesizer.split`.

        The number of rows is released once, and every one-way marginal once, with noise that
        parameters fix; and perhaps masks of pairs. What is left is spent on rounds: a selection,
        within a cap of its own, and a marginal of the workload. Pairs that a share is reserved for,
        and marginals measured once more, are of the workload too, or inside one of its marginals.
        """
        workload, rounds = candidates(self.workload, schema), self._planned_rounds(schema)
        (first, selection), share = self._shares, self._count_share(schema)
        parts = imputation_parts(self._filled_gates(schema), self.imputer, self.imputer_share)
        parts += [Part(ROWS, share)] if share else []
        singles = self._gates([(name,) for name in schema.names], schema)
        parts.append(Part(MARGINS, first if workload else 1.0, singles))
        if not workload:
            return parts
        anything, masks = self._gates([()], schema), math.comb(len(schema.nullable), 2)
        if self._strategy.models_holes and masks and len(workload) > 1:
            parts.append(Part(MASKS, MASKS_SHARE, anything, count=masks))
        if len(workload) > 1:
            choices = selection * ROUNDED
            parts.append(Part(CHOICES, choices, anything, kind="selections", count=rounds))
        rest = Part(TABLES, 1.0, anything, count=rounds * _PIECES)
        if self._strategy.gates == "data":
            cliques = dict.fromkeys([*workload, *pairs_of(workload)])
            among = self._gates([[schema.names[a] for a in c] for c in cliques], schema)
            rest = replace(rest, gates=among, chosen=True, largest=self._largest(schema, parts))
        return [*parts, rest]

    def _largest(self, schema: Schema, parts: Sequence[Part]) -> float:  # noqa: ARG002
        """Return the largest share that a marginal gets of what all get after ``parts``; public."""
        return 1.0

    def _count_share(self, schema: Schema) -> float:
        """Share of the budget for the number of rows: what one-way marginals do not tell; public.

        A marginal in which every row counts has the number of rows as its total, with as many
        cells' noise. In units of the inverse variance that the budget would buy if it were all
        spent on one number, they tell ``first_share * mean(1 / cells)``.
        """
        if is_declared(self.n_rows):
            return 0.0
        strategy = self._strategy
        sizes = [
            strategy.shape((name,), schema)[0]
            for name in schema.names
            if strategy.fills or strategy.tells_total((name,), schema)
        ]
        known = self._shares[0] * math.fsum(1 / size for size in sizes) / len(schema)
        lacking = _COUNT_SHARE - known
        return lacking if lacking > _LEAST_COUNT_SHARE else 0.0

    # A fit, step by step

    def _fit(self, session: Session) -> Total:
        self._report("preparing", 0.0)
        number = self._released_count(session)
        session = impute(session, self.imputer, cost=self._split.cost(IMPUTATION))
        self._report("measuring single attributes", 0.0)
        workload = candidates(self.workload, self._planned)
        one_way = self._measure_one_way(session, number, workload)
        marginals = NoisyMarginals(
            one_way.levels,
            one_way.margins,
            one_way.std,
            one_way.rows,
            # Merged levels of numbers have no order.
            tuple(
                n and len(x.groups) == x.n_groups
                for n, x in zip(one_way.numbers, one_way.levels, strict=True)
            ),
            observed_only=not session.facts.same_total,
        )
        self.measured_ = ()
        if workload:
            marginals = self._measure_larger(session, marginals, one_way, workload)
        self._report("final fit", 0.9)
        self.tables_ = marginals
        self.model_ = fit_pairs(marginals, self._model_facts(marginals), rng=session.generator())
        self._report("done", 1.0)
        return self._counted(session, one_way, number)

    def _measure_one_way(
        self, session: Session, number: Total | None, workload: Iterable[Clique]
    ) -> OneWayMarginals:
        """Measure all one-way marginals; rare levels are merged for all that follows."""
        schema = session.facts.schema
        wanted = [*workload]
        cliques = dict.fromkeys([*wanted, *pairs_of(wanted)])
        return measure_one_way(
            session,
            self._split.noise(MARGINS),
            impossible_pairs(self._modelled.impossible, schema.names),
            number,
            rare=_RARE,
            later=[tuple(schema.names[a] for a in clique) for clique in cliques],
        )

    def _measure_larger(
        self,
        session: Session,
        marginals: NoisyMarginals,
        one_way: OneWayMarginals,
        workload: Mapping[Clique, float],
    ) -> NoisyMarginals:
        """Measure marginals of two attributes and more, until the budget is spent."""
        reserve = self._reserved(marginals, workload, session.left.amount)
        if not reserve:
            marginals = self._measure_masks(session, marginals)
        merged = session.on(Merged(one_way.groups(session.facts.schema.names)))
        n = int(min(max(_ROWS[0], _AS_MANY * marginals.rows), _ROWS[1]))
        facts, rng = self._model_facts(marginals), session.generator()
        left = max(0.0, session.left.amount - reserve)
        fit = AdaptiveFit(
            session=merged,
            workload=workload,
            marginals=marginals,
            whole=self._split.whole,
            for_selections=min(self._shares[1] * left, self._split.cost(CHOICES).amount),
            reserve=reserve,
            estimate_by=lambda known, before: quick_fit(known, facts, rng, n=n, before=before),
        )
        self._run(fit)
        self.measured_ = tuple(map(fit.names, fit.marginals.counts))
        self._report("measuring other pairs", _AFTER)
        fit.measure_rest()
        return fit.marginals

    def _reserved(
        self, marginals: NoisyMarginals, workload: Mapping[Clique, float], left: float
    ) -> float:
        """Return the part of the budget that is kept for pairs that no selected marginal contains.

        Measuring them pays if there are not too many of them, and if their cells have rows enough
        to be seen through the noise, by public facts and the released number of rows.
        """
        pairs = pairs_of(workload)
        cells = [math.prod(marginals.sizes[a] for a in pair) for pair in pairs]
        if len(pairs) > _MOST_PAIRS or not self.reserve_share or self._needs_no_reserve(marginals):
            return 0.0
        reserve = self.reserve_share * self._split.after(BINS, KINDS).amount
        noise = Noise.worth(replace(self._split.whole, amount=reserve / len(pairs)))
        in_a_cell = marginals.rows * len(cells) / sum(cells)
        enough = in_a_cell >= self._least_in_a_cell * noise.std
        return min(reserve, _MOST_KEPT * left) if enough else 0.0

    def _needs_no_reserve(self, marginals: NoisyMarginals) -> bool:  # noqa: ARG002
        """Whether rounds are enough for all pairs, so that none need a reserve; public."""
        return False

    def _measure_masks(self, session: Session, marginals: NoisyMarginals) -> NoisyMarginals:
        """Measure which cells are missing together, if noise leaves something to be seen."""
        if MASKS not in self._split:
            return marginals
        sizes, least = marginals.sizes, _MISSING * marginals.std / marginals.rows
        holed = [a for a, m in enumerate(marginals.margins) if m[sizes[a] :].sum() > least]
        pairs, schema = [*combinations(holed, 2)], session.facts.schema
        one_group = {a.name: np.zeros(a.size, dtype=np.int64) for a in schema}
        cost, rows = self._split.cost(MASKS), marginals.rows
        found = release_masks(session, pairs, one_group, cost=cost, rows=rows)
        if found is None:
            return marginals
        # The session kept these counts only until they were merged.
        session.expect(Marginal(tuple(schema.names[a] for a in pair)) for pair in pairs)
        masks = {pair: t.astype(np.float64) for pair, t in zip(pairs, found[0], strict=True)}
        return replace(marginals, masks=masks, masks_std=found[1].std)

    def _model_facts(self, marginals: NoisyMarginals) -> ModelFacts:
        """Public facts about complete rows, on groups of levels."""
        selective = self._strategy.models_holes
        return model_facts(self._modelled, self.modelled_, marginals.levels, selective=selective)

    def _counted(self, session: Session, one_way: OneWayMarginals, number: Total | None) -> Total:
        """Return the number of all rows by everything that was released."""
        facts, released = session.facts, self.tables_
        totals, floors = [one_way.total], list[Total]()
        for clique, counts in released.counts.items():
            total = Total(float(counts.sum()), counts.size * released.stds[clique] ** 2)
            names = tuple(facts.schema.names[a] for a in clique)
            whole = facts.strategy.complete_only or facts.sums_to_row_count(names)
            (totals if whole else floors).append(total)
        total = least_squares_total(totals, floors)
        if not facts.strategy.complete_only:
            return total
        self._complete_rows = total
        return total if number is None else number

    # What a fit tells afterwards

    def _draws_schema(self) -> bool:
        sizes = [len(level.groups) for level in self.model_.levels]
        return sizes == [attribute.size for attribute in self.modelled_]

    def _uncertain(self, multiple: int, rng: np.random.Generator) -> Iterator[Self]:
        return varied(self, self.tables_, self._model_facts(self.tables_), multiple, rng)

    def _sample(
        self, n: int, missing_values: MissingValues, rng: np.random.Generator
    ) -> dict[str, NDArray[np.int64]]:
        codes = self.model_.sample(n, rng, keep_holes=missing_values == "keep", draws=self._draws)
        return dict(zip(self.modelled_.names, codes, strict=True))
