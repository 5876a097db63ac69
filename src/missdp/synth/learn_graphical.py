"""Adaptive learning of a graphical model, the loop of AIM: select a marginal, measure it, refit.

After McKenna, Mullins, Sheldon and Miklau (2022), with changes: a share of the budget for the
one-way marginals, rare levels merged, a regularised warm-started fit, and marginals with holes
scored and fitted through a model of what is missing. How much a marginal deserves to be measured
is a score of sensitivity one, rounding included (`_marginal_score`). Everything here is
post-processing of what the door answers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.inference.beliefs import Drift
from missdp.inference.estimate import Estimate
from missdp.inference.junction import Clique, Growth, components
from missdp.inference.model import Zeros
from missdp.mechanisms.door import Door, Facts, Given, Noise, Score, Total
from missdp.synth.noisy_counts import falling_ends, has_numbers, least_squares_total, release_masks
from missdp.synth.split import CHOICES, MARGINS, MASKS, Split
from missdp.synth.workload import pairs_of
from missdp.types import Floats

#: Edges of a tree get the same noise, but for rounding.
EVEN = 1 + 1e-6

_GRID = 2.0**-10  # rows
_LARGEST = 2.0**31  # rows
_MOST_ROWS = 2.0**41
_MOST_WEIGHED = 2.0**31  # in steps of 2**-20, which need as many more bits than the grid
#: How far one row moves a score; proven below.
SCORE_SENSITIVITY = 1.0 + 2.0**-20
_LEAST_LEFT = 1e-6
_MOST_KEPT = 0.8  # of what is left, where imputation takes much
_SLACK = 1 - 1e-9  # the last round spends all that is left, up to floating point
_MOST_PAIRS = 600  # of 35 attributes, say; with 5,565 pairs of 105, raking made tables worse
_STILL = 0.02  # of the noise of a selection
_CELLS = 2**24  # of expectations that are kept: 128 MB


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Public parameters of a fit.

    * ``whole``: Budget of the whole fit, earlier releases included.
    * ``rounds``: Selections planned for; annealing makes fewer and better ones.
    * ``first_share``: Share of the budget for the one-way marginals.
    * ``selection_share``: Share of each round's budget for the selection.
    * ``max_cells``: Most cells of the junction tree at the end; grows with the budget spent until
      then.
    * ``forest``: Select a spanning tree of pairs (MST) by how far they are from independence,
      rather than any marginals by what the model still gets wrong.
    * ``pairs_share``: Share of the budget for all pairs of the workload, if that pays; see
      `reserve`.
    * ``least_in_a_cell``: Rows that a cell of a pair must hold on average, in standard deviations
      of the noise.
    """

    whole: Cost
    rounds: int
    first_share: float
    selection_share: float
    max_cells: float
    forest: bool
    pairs_share: float
    least_in_a_cell: float

    def reserve(self, *, rows: float, pairs: Iterable[Clique], sizes: Sequence[int]) -> float:
        """Return how much of the budget is reserved for pairs: the share, or nothing.

        A junction tree of limited size cannot hold every pair, so that its error stops falling,
        however many rows there are. Measuring the pairs that no selected marginal contains, and
        raking rows to them, pays if there are not too many of them, and if their cells have rows
        enough to be seen through the noise, by public facts and the released number of rows.
        """
        cells = [math.prod(sizes[v] for v in pair) for pair in pairs]
        if not cells or len(cells) > _MOST_PAIRS or self.pairs_share <= 0:
            return 0.0
        kept = self.pairs_share * self.whole.amount
        in_a_cell = rows * len(cells) / sum(cells)
        return (
            kept if in_a_cell >= self.least_in_a_cell * self.noise(kept / len(cells)).std else 0.0
        )

    def noise(self, amount: float) -> Noise:
        """Return the noise of a marginal that costs so much."""
        return Noise.worth(replace(self.whole, amount=amount))

    def epsilon(self, amount: float) -> float:
        """Return the epsilon of a selection that costs so much."""
        return replace(self.whole, amount=amount).selection


def _misfit(
    counts: NDArray[np.number[Any]],
    expected: NDArray[np.float64],
    possible: NDArray[np.bool_],
    bias: float,
    weight: float,
) -> float:
    """How far the model is from the counts, less what noise would add if measured.

    Only cells with nothing missing count: budget goes to errors of the complete-data law, not to
    patterns of missingness. Nor do impossible cells: leaving out fixed cells makes no row's
    influence larger.
    """
    observed = counts[tuple(slice(0, size) for size in possible.shape)]
    return _marginal_score(observed * possible, expected, bias=bias, weight=weight)


#: One row moves one cell of each marginal by one or by its share of one; weights are at most one.
MISFIT = Score(_misfit, sensitivity=SCORE_SENSITIVITY, of_shares=True)


class _Expectations:
    """The released values that scores of candidates take, worked out again only where they moved.

    A score is as private with an expectation that is a little old.
    """

    def __init__(self, weights: Mapping[Clique, float]) -> None:
        self._weights = weights
        self._drift = Drift()
        self._kept: dict[Clique, Facts] = {}
        self._cells = 0
        self._selective: frozenset[int] = frozenset()
        self._error = 0.0

    def renew(self, estimate: Estimate, *, error: float, epsilon: float) -> None:
        """Forget what moved by more than a small part of ``error``, the mean noise of a cell."""
        tolerance = _STILL * 2 / epsilon / estimate.n_rows
        self._drift.see(estimate.model, tolerance)
        changed = estimate.selective | self._selective
        lost = [
            clique
            for clique in self._kept
            if not self._drift.still(clique)
            or clique in estimate.measured
            or not changed.isdisjoint(clique)
        ]
        for clique in lost:
            self._cells -= self._kept.pop(clique)[0].size
        if error != self._error:
            self._kept = {
                clique: Facts((expected, possible, error * np.count_nonzero(possible), weight))
                for clique, (expected, possible, _, weight) in self._kept.items()
            }
        self._selective, self._error = estimate.selective, error

    def of(self, clique: Clique, estimate: Estimate) -> Facts:
        """Return what the score of a marginal takes besides its counts."""
        facts = self._kept.get(clique)
        if facts is None:
            expected, possible = estimate.predict(clique), estimate.possible(clique)
            bias = self._error * np.count_nonzero(possible)
            facts = Facts((expected, possible, bias, self._weights[clique]))
            if self._cells + expected.size <= _CELLS:
                self._kept[clique] = facts
                self._cells += expected.size
        return facts


class Learner:
    """Spend a budget on an estimate of the complete-data law.

    ``weights`` (at most one) are of the marginals that may be measured, ``split`` says what single
    attributes and selections cost, ``estimate`` starts an estimate, ``zeros`` are impossible cells,
    ``total`` is a number of rows that was released or declared before.
    """

    def __init__(
        self,
        door: Door,
        weights: Mapping[Clique, float],
        plan: Plan,
        split: Split,
        *,
        report: Callable[[str, float], None],
        estimate: Callable[..., Estimate],
        zeros: Zeros,
        total: Total | None,
    ) -> None:
        self._estimate = estimate
        self._total = total
        self._totals: list[tuple[Clique, Total]] = []
        self._door, self._weights, self._plan, self._split = door, dict(weights), plan, split
        self._report = report
        self._zeros = zeros
        self._growth: Growth | None = None
        self._kept = 0.0  # budget for pairs, which is not for selections
        self._alone: dict[tuple[str, ...], Facts] = {}
        self._expected = _Expectations(self._weights)
        self._names = door.schema.names
        #: Whether an attribute's counts have a last level "missing".
        self.extended = [door.sizes[a.name] > a.size for a in door.schema]

    def run(self) -> Estimate:
        """Measure, select, measure, ... until the budget is spent."""
        self._report("measuring single attributes", self._done)
        alone = not self._weights
        first = (
            self._plan.noise(self._left / len(self._names)) if alone else self._split.noise(MARGINS)
        )
        self.first_std = first.std
        wanted = [*self._weights, *pairs_of(self._weights)]
        self._door.expect([*((n,) for n in self._names), *map(self._named, wanted)])
        ones = self._measure_ones(first)
        estimate = self._begin(ones)
        if not alone:
            levels = zip(self._names, estimate.levels, strict=True)
            self._merged = self._door.merged({name: level.groups for name, level in levels})
            self._kept = self._kept_back(estimate)
            if MASKS in self._split and not self._kept:
                self._measure_masks(estimate)
            self._select_all(estimate)
            self._measure_pairs(estimate)
        if self._unspent and estimate.measured:
            self._measure_again(estimate)
        elif self._unspent:  # no larger marginal fits into the model
            estimate = self._begin(self._measure_ones_again(ones))
        self._report("final fit", 1.0)
        estimate.finish()
        return estimate

    def _begin(self, ones: Sequence[NDArray[Any]]) -> Estimate:
        """Return the estimate that single attributes make."""
        settled = [
            np.append(falling_ends(y[: a.size], self.first_std), y[a.size :])
            if has_numbers(a)
            else y
            for a, y in zip(self._door.schema, ones, strict=True)
        ]
        return self._estimate(
            settled,
            std=self.first_std,
            extended=self.extended,
            n_rows=self._counted_rows(),
            partial=not self._door.every_row_counts,
            rng=self._door.generator(),
            told=self._door.told,
        )

    def _select_all(self, estimate: Estimate) -> None:
        plan = self._plan
        rounds = min(plan.rounds, len(self._names) - 1) if plan.forest else plan.rounds
        share = self._left / max(1, rounds)
        most = self._split.cost(CHOICES).amount
        self._for_choices = min(plan.selection_share * self._left, most)
        choices = self._for_choices / self._left  # less, where another part was left out
        last = False
        count = 0
        while not last:
            self._report("selecting and measuring", self._done)
            count += 1
            last = self._left < 2 * _SLACK * share or (plan.forest and count == rounds)
            last = last or len(self._weights) == 1
            share = (
                (min(self._left, EVEN * share) if plan.forest else self._left) if last else share
            )
            open_ = self._open(estimate)
            if not open_:
                return
            choice = choices if len(open_) > 1 else 0.0  # one candidate is no choice
            noise = plan.noise((1 - choice) * share)
            chosen = self._select(open_, noise, choice * share, estimate)
            before = None if plan.forest else estimate.predict(chosen)
            self._measure(chosen, noise, estimate)
            if before is None:  # what is selected does not depend on the fit
                continue
            estimate.refit(iterations=40, sweeps=2)
            moved = float(np.abs(estimate.predict(chosen) - before).sum())
            if moved <= noise.error * estimate.possible(chosen).sum():
                share *= 4

    # What is measured

    def _measure(self, clique: Clique, noise: Noise, estimate: Estimate) -> None:
        released = self._merged.marginal(self._named(clique), noise)
        self._note_total(clique, released, noise)
        estimate.add(clique, released.astype(np.float64), noise.std)

    def _measure_again(self, estimate: Estimate) -> None:
        """Spend what is left on what was chosen before, evenly."""
        noise = self._plan.noise(self._left / len(estimate.measured))
        for clique in tuple(estimate.measured):
            self._measure(clique, noise, estimate)

    def _kept_back(self, estimate: Estimate) -> float:
        """Return the budget of pairs that no selected marginal contains; public."""
        if not self._plan.forest and math.prod(estimate.sizes) <= self._plan.max_cells:
            return 0.0
        kept = self._plan.reserve(
            rows=self.rows().value,
            pairs=pairs_of(self._weights),
            sizes=estimate.sizes,
        )
        return min(kept, _MOST_KEPT * self._left)

    def _measure_pairs(self, estimate: Estimate) -> None:
        """Measure all pairs that are not contained in what was, if budget was kept back for it."""
        pairs = pairs_of(self._weights, estimate.measured) if self._kept else []
        self._kept = 0.0
        if not pairs:
            return
        noise = self._plan.noise(self._left / len(pairs))
        for pair in pairs:
            released = self._merged.marginal(self._named(pair), noise)
            self._note_total(pair, released, noise)
            estimate.note(pair, released.astype(np.float64), noise.std)

    def _measure_masks(self, estimate: Estimate) -> None:
        """Measure which cells are missing together, if noise leaves something to be seen."""
        pairs = [*combinations(np.flatnonzero(estimate.masks.present).tolist(), 2)]
        apart, cost = (
            dict(zip(self._names, estimate.told_apart, strict=True)),
            self._split.cost(MASKS),
        )
        found = release_masks(self._door, pairs, apart, cost=cost, rows=self.rows().value)
        if found is None:
            return
        for pair, counts in zip(pairs, found[0], strict=True):
            self._note_total(pair, counts, found[1])
            estimate.note_masks(pair, counts.astype(np.float64), found[1].std)
        self._door.expect(map(self._named, pairs))  # these counts were given away

    def _measure_ones(self, noise: Noise) -> list[NDArray[np.int64]]:
        ones = [self._door.marginal((name,), noise) for name in self._names]
        for a, counts in enumerate(ones):
            self._note_total((a,), counts, noise)
        return ones

    def _measure_ones_again(self, ones: Iterable[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
        """Spend what is left on single attributes; return means weighted by precision."""
        first, noise = self.first_std**-2, self._plan.noise(self._left / len(self._names))
        both = first + 1 / noise.variance
        weight, self.first_std = first / both, both**-0.5
        again = self._measure_ones(noise)
        return [weight * y + (1 - weight) * z for y, z in zip(ones, again, strict=True)]

    # How many rows there are

    def _note_total(self, clique: Clique, counts: NDArray[np.int64], noise: Noise) -> None:
        self._totals.append((clique, Total(float(counts.sum()), counts.size * noise.variance)))

    def rows(self) -> Total:
        """Number of private rows, from everything released so far."""
        known = [] if self._total is None else [self._total]
        floors: list[Total] = []
        for clique, total in self._totals:
            whole = self._door.tells_total(self._named(clique))
            (known if whole else floors).append(total)
        return least_squares_total(known, floors)

    def _counted_rows(self) -> float | None:
        """Rows behind the marginals; None where their own totals say it best."""
        partial = not self._door.every_row_counts
        whole = all(self._door.tells_total((name,)) for name in self._names)
        declared = self._total is not None and self._total.variance == 0
        return self.rows().value if partial or (whole and not declared) else None

    # What may be selected

    def _open(self, estimate: Estimate) -> list[Clique]:
        """Candidates that keep the model small enough for how far the fit is; public."""
        wanted = list(self._weights)
        if self._plan.forest:
            tree_of = components(len(self._names), estimate.measured)
            wanted = [c for c in wanted if len(c) == 2 and tree_of[c[0]] != tree_of[c[1]]]
            if not self._zeros:  # a tree of pairs is small enough as it is
                return wanted
        if self._growth is None:
            self._growth = Growth(estimate.sizes)
        self._growth.hold(estimate.cliques)
        tree, fits = estimate.model.tree, self._growth.fits

        cells, sizes = tree.cells, [max(2, size) for size in estimate.sizes]

        def small(clique: Clique, limit: float) -> bool:
            if self._plan.forest:
                return fits(clique, limit)
            carried = math.prod(sizes[v] for v in clique) // max(sizes[v] for v in clique)
            if cells * carried <= limit:  # all but the largest, carried to everywhere
                return True
            return (
                tree.home(clique) is not None or tree.grown(clique) <= limit or fits(clique, limit)
            )

        most = self._plan.max_cells
        now = most if self._plan.forest else most * self._done
        # The limit grows with what is spent; where that leaves no candidate, it is the last one.
        return [c for c in wanted if small(c, now)] or [c for c in wanted if small(c, most)]

    # Questions to the door

    def _named(self, clique: Clique) -> tuple[str, ...]:
        return tuple(self._names[v] for v in clique)

    def _select(self, open_: list[Clique], noise: Noise, cost: float, estimate: Estimate) -> Clique:
        if len(open_) == 1:
            return open_[0]
        cost = min(cost, self._for_choices)  # a cap that holds on every path: see `AIM.split`
        self._for_choices -= cost
        epsilon = self._plan.epsilon(cost)
        position = {self._named(clique): clique for clique in open_}
        self._expected.renew(estimate, error=noise.error, epsilon=epsilon)
        expected = self._expected
        given: Given = lambda names: expected.of(position[names], estimate)  # noqa: E731
        if self._plan.forest:  # how far from independence: scores that stay as they are
            if not self._alone:
                self._alone = {n: expected.of(c, estimate) for n, c in position.items()}
            given = self._alone
        winner = self._merged.select(list(position), MISFIT, epsilon=epsilon, given=given)
        return open_[winner]

    @property
    def _spent(self) -> float:
        return self._plan.whole.amount - self._door.left.amount

    @property
    def _left(self) -> float:
        left = self._door.left.amount - self._kept - (1 - _SLACK) * self._plan.whole.amount
        return max(0.0, left)

    @property
    def _done(self) -> float:
        return min(1.0, max(0.0, self._spent / self._plan.whole.amount))

    @property
    def _unspent(self) -> bool:
        return self._left > _LEAST_LEFT * self._plan.whole.amount


def _on_grid(values: Floats) -> Floats:
    """Round released values to multiples of 1/1024 of a row, within 2³¹ rows."""
    return np.minimum(np.maximum(np.rint(values / _GRID) * _GRID, -_LARGEST), _LARGEST)


def _marginal_score(
    exact: NDArray[np.number[Any]], expected: Floats, *, bias: float, weight: float
) -> float:
    """Return ``weight (Σ |exact − expected| − bias)``: L1 error less what noise would add.

    ``exact`` are private counts, at least 0, less than 2⁴¹ together, or multiples of 2⁻²⁰, less
    than 2³¹ together, where rows count 1 at most; all else is released or public, ``expected`` at
    least 0 and ``weight`` in (0, 1].

    One row moves one count by one, so in exact arithmetic the score moves by at most ``weight``. In
    floating point: ``expected`` and ``bias`` are first rounded to multiples of 2⁻¹⁰, and
    ``expected`` scaled down if it adds up to more than 2⁴¹, which is post-processing. Every
    difference, and every partial sum, below 2⁴³, is then a multiple of 2⁻¹⁰ that a double holds
    exactly, in whatever order it is added, so the sum still moves by at most one. Where rows count
    different amounts it is below 2³³, and a multiple of 2⁻²⁰, likewise. Clipping at 2³¹ moves no
    two values further apart. Only the product with the weight is rounded, by at most 2⁻⁵³ · 2³¹ for
    each of two neighbours: 2⁻²¹ together, less than the 2⁻²⁰ that `SCORE_SENSITIVITY` allows.

    >>> _marginal_score(np.array([3, 5]), np.array([4.0, 4.5]), bias=1.0, weight=0.5)
    0.25
    """
    most = _MOST_WEIGHED if exact.dtype.kind == "f" else _MOST_ROWS
    predicted = _on_grid(expected / max(1.0, float(expected.sum()) / most))
    gap = float(np.abs(exact - predicted).sum())
    above = gap - round(min(max(bias, -_LARGEST), _LARGEST) / _GRID) * _GRID
    return weight * min(max(above, -_LARGEST), _LARGEST)
