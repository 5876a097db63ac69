"""Estimation of a model with holes: refitted after each measurement, from released values only.

`Estimate` holds everything measured so far, and fits the complete-data model and the model of
missingness to it in turns. Nothing here sees private counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from math import hypot, prod
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.inference.beliefs import (
    Calibrated,
    Parameters,
    Target,
    fit_entropy,
    log_linear,
)
from missdp.inference.junction import Clique
from missdp.inference.masks import Both, MaskModel, Strip, both_missing, fit_correlation
from missdp.inference.model import (
    Levels,
    Zeros,
    cell_index,
    level_kinds,
    merge_zeros,
    sample_tree,
)
from missdp.inference.raking import shrunk
from missdp.types import Floats, Ints

_CELLS_AT_ONCE = 4_000_000  # of indicators: 32 MB


class PairCounts:
    """Numbers of rows by the levels of two attributes, plain and weighted.

    * ``rows`` (shape (d, n)): Synthetic rows.
    * ``weights`` (shape (d, n)): Weight of each cell; a row has the product of both in a pair.
    * ``sizes``: Levels of each attribute.
    """

    def __init__(self, rows: NDArray[np.int64], weights: Floats, sizes: Sequence[int]) -> None:
        self._ends = np.cumsum([0, *sizes])
        width, n = int(self._ends[-1]), rows.shape[1]
        # Whole numbers up to 2^24 are exact in single precision, which is twice as fast.
        self._counts, self._weighted = np.zeros((width, width)), np.zeros((width, width))
        step = max(1, _CELLS_AT_ONCE // width)
        column = rows + self._ends[:-1, np.newaxis]
        for start in range(0, n, step):
            part = column[:, start : start + step]
            at = np.arange(part.shape[1])
            ones = np.zeros((part.shape[1], width), dtype=np.float32)
            ones[at, part] = 1.0
            self._counts += ones.T @ ones
            table = np.zeros((part.shape[1], width))
            table[at, part] = weights[:, start : start + step]
            self._weighted += table.T @ table

    def of(self, a: int, b: int) -> tuple[Floats, Floats]:
        """Return both counts of a pair, flat, ``b`` running fastest."""
        block = slice(*self._ends[a : a + 2]), slice(*self._ends[b : b + 2])
        return self._counts[block].ravel(), self._weighted[block].ravel()


Number = TypeVar("Number", np.int64, np.float64)

_RARE = 5.0  # levels below this many standard deviations are merged for modelling
_HOLES = 3.0  # fewer holes than this many standard deviations are taken for none
_PRIOR_ROWS = 5.0  # strength with which a cell's observation rate leans on its attributes' rates
_LEAST_OBSERVED = 0.02  # no count is divided by less
_NEVER_OBSERVED = 1e-4  # whatever the rate, as far as weights go
_TURNS = 6
_LEAST_RATE = 1e-6  # of holes, where there are some
_MANY_PAIRS = 400  # when more are asked for, all are counted at once
_MOST_LEVELS = 4000  # of all attributes, for that: a quarter of a gigabyte


class Estimate:
    """Complete-data model and mask model, refitted to everything measured so far.

    * ``ones``: Noisy one-way counts, with a last "missing" level where ``extended``.
    * ``std``: Their noise.
    * ``extended``: Whether an attribute's counts have the "missing" level.
    * ``n_rows``: Released number of rows; None takes it from the one-way counts, which must all
      have it.
    * ``partial``: True if a marginal counts only the rows observed on it and says nothing about the
      others.
    * ``rng``: Post-processing randomness.
    * ``shrink``, ``ridge``: Regularisation of the two models.
    * ``model_rows``: Rows drawn from the model to evaluate expectations over the mask model.
    * ``zeros``: Cells on the declared levels that are publicly known to be impossible.
    * ``always``: By attribute, a declared level that is never missing.
    * ``told``: By attribute with a level that others tell, these; see `MaskModel`.
    """

    def __init__(
        self,
        ones: Sequence[NDArray[Any]],
        *,
        std: float,
        extended: Sequence[bool],
        n_rows: float | None,
        partial: bool,
        rng: np.random.Generator,
        shrink: float,
        ridge: float,
        model_rows: int,
        zeros: Zeros,
        always: Mapping[int, int] | None = None,
        told: Mapping[int, tuple[int, ...]] | None = None,
    ) -> None:
        self._rng, self._shrink, self._ridge, self._draws = rng, shrink, ridge, model_rows
        self._partial, self._extended = partial, extended
        values = [
            np.asarray(y[:-1] if e else y, dtype=float) for y, e in zip(ones, extended, strict=True)
        ]
        totals = np.array([float(y.sum()) for y in ones])
        self.n_rows = max(1.0, _pooled(totals, ones) if n_rows is None else n_rows)
        kinds = level_kinds(zeros, [len(y) for y in values])
        self.levels = [
            Levels.from_counts(y, threshold=_RARE * std, kinds=kind)
            for y, kind in zip(values, kinds, strict=True)
        ]
        self.sizes = [level.n_groups for level in self.levels]
        self._forbidden = merge_zeros(zeros, self.levels)
        self._possible: Calibrated | None = None
        if zeros:
            self._possible = log_linear(self.sizes, {}, self._forbidden)[0]
        holes = [float(y[-1]) if e else 0.0 for y, e in zip(ones, extended, strict=True)]
        self._holes = [_Measured(np.array([h]), std) for h in holes]
        if partial:
            holes = [self.n_rows - total for total in totals]
        floors = [_HOLES * std * (np.sqrt(len(y)) if partial else 1.0) for y in ones]
        rates = [
            h / self.n_rows if h > floor else 0.0 for h, floor in zip(holes, floors, strict=True)
        ]
        known = {v: int(self.levels[v].groups[level]) for v, level in (always or {}).items()}
        alone = {v: g for v, g in known.items() if (self.levels[v].groups == g).sum() == 1}
        self.masks = MaskModel(
            np.clip(rates, 0.0, 1 - _LEAST_OBSERVED), alone, told=dict(told or {})
        )
        self._ones: dict[Clique, _Measured] = {}
        for a, (y, level) in enumerate(zip(values, self.levels, strict=True)):
            merged = np.bincount(level.groups, weights=y).astype(np.float64)
            self._ones[a,] = _Measured(merged, std * np.sqrt(np.bincount(level.groups)))
        self.measured: dict[Clique, _Measured] = {}
        self.noted: dict[Clique, _Measured] = {}
        self._together: dict[tuple[int, int], tuple[float, float]] = {}
        self._told: dict[tuple[int, ...], Strip] = {}
        self.parameters: Parameters = {}
        self._rows = np.zeros((len(self.sizes), 0), dtype=np.int64)
        self._weigh()
        self.refit(iterations=100)
        if self._models_holes:
            self.redraw()

    @property
    def _models_holes(self) -> bool:
        """Whether there are holes, and marginals that count them."""
        return bool(self.masks.present.any()) and not self._partial

    @property
    def cliques(self) -> list[Clique]:
        """Everything the model is fitted to, or constrained by."""
        return [*self._ones, *self.measured, *self._forbidden]

    def possible(self, clique: Clique) -> NDArray[np.bool_]:
        """Cells of a marginal that structural zeros leave possible; public but for merging."""
        if self._possible is None:
            return np.ones([self.sizes[v] for v in clique], dtype=bool)
        return np.asarray(self._possible.marginal(clique) > 0)

    def add(self, clique: Clique, counts: Floats, std: float) -> None:
        """Take in one more released marginal."""
        new = _Measured(np.asarray(counts, dtype=float), std)
        old = self.measured.get(clique)
        self.measured[clique] = new if old is None else old.combine(new)

    def note(self, clique: Clique, counts: Floats, std: float) -> None:
        """Take in a released marginal that rows are raked to; the model learns its margins only."""
        noted = _Measured(np.asarray(counts, dtype=float), std)
        self.noted[clique] = noted
        for a in clique if not self._partial else ():
            margin = _margin(noted, clique.index(a))
            values = _Measured(margin.counts[: self.sizes[a]], margin.std)
            self._ones[a,] = self._ones[a,].combine(values)
            if self.masks.present[a]:
                holes = _Measured(margin.counts[self.sizes[a] :], margin.std)
                self._holes[a] = self._holes[a].combine(holes)
                rate = float(self._holes[a].counts[0]) / self.n_rows
                self.masks.rates[a] = min(max(rate, _LEAST_RATE), 1 - _LEAST_OBSERVED)

    @property
    def told_apart(self) -> list[Ints]:
        """What `note_masks` counts declared levels as: all as one, but for one that others tell."""
        codes = [self.masks.always.get(v, -1) for v in range(len(self.sizes))]
        apart = [(g.groups == c) != (c == 0) for g, c in zip(self.levels, codes, strict=True)]
        return [(own & (c >= 0)).astype(np.int64) for own, c in zip(apart, codes, strict=True)]

    def note_masks(self, pair: tuple[int, int], counts: Floats, std: float) -> None:
        """Take in the released counts of two attributes with levels as `told_apart` has them."""
        holes = [(float(self._holes[a].counts[0]), float(self._holes[a].std)) for a in pair]
        self._together[pair] = both_missing(counts, std, holes, self.n_rows)
        sizes = {a: n - 1 for a, n in zip(pair, counts.shape, strict=True)}
        for effect in permutations(pair):
            self._told[effect] = _strip(effect, pair, _Measured(counts, std), sizes)

    def tables(self) -> Parameters:
        """Return tables that rows are raked to: what was noted, leaned on the model.

        Margins, and pairs that the model was fitted to, are held as it has them.
        """
        if not self.noted:
            return {}
        law = self.model.marginal
        fitted: list[Clique] = [(a,) for a in range(len(self.sizes))]
        fitted += dict.fromkeys(p for c in self.measured for p in combinations(c, 2))
        tables = {c: law(c) for c in fitted}
        for clique, noted in self.noted.items():
            target = self._target(clique, noted)
            tables[clique] = shrunk(target.values, law(clique), target.std)
        return tables

    def completed(self) -> Parameters:
        """Return each marginal as noisy shares of complete rows, and then their noise; unshrunk."""
        found = {}
        for clique, measured in (self._ones | self.measured | self.noted).items():
            target = self._target(clique, measured)
            noise = np.broadcast_to(np.asarray(target.std, dtype=float), target.values.shape)
            found[clique] = np.stack([target.values, noise])
        return found

    def finish(self) -> None:
        """Refit until both models agree: they are fitted in turns, and measurements are done."""
        if self._models_holes:
            full = self.measured | self.noted
            both = _averaged(_both_missing(full, self.sizes, self.masks.present), self._together)
            for turn in range(_TURNS):
                known = both if turn >= _TURNS // 2 else None  # slopes are about right by then
                self.refit(iterations=100, sweeps=8, draws=3 * self._draws, both=known)
        self.refit(iterations=300)
        if self._models_holes:
            self.masks.correlation = fit_correlation(
                1.0 - self._observed.T,
                both,
                self.n_rows,
                explained=self.masks.explained,
                settled=self.masks.settled(self._rows.T),
            )

    def refit(
        self,
        *,
        iterations: int,
        sweeps: int = 0,
        draws: int | None = None,
        both: Mapping[tuple[int, int], tuple[float, float]] | None = None,
    ) -> None:
        """Fit the mask model to rows of the complete-data model, then the latter again."""
        if sweeps and self._models_holes:
            self.redraw(draws)
            self.masks.find_skipped(self._told, both or {}, self.n_rows)
            self.masks.learn(
                self._rows.T,
                self.n_rows,
                _strips(self.measured | self.noted, self.sizes, self.masks.present),
                ridge=self._ridge,
                sweeps=sweeps,
                both=both,
            )
            self._weigh()
        targets = [self._target(c, m) for c, m in (self._ones | self.measured).items()]
        self.model, self.parameters = fit_entropy(
            self.sizes,
            targets,
            shrink=self._shrink,
            iterations=iterations,
            start=self.parameters,
            forbidden=self._forbidden,
        )

    def redraw(self, draws: int | None = None) -> None:
        """Draw rows from the model, on which expectations over the mask model are taken."""
        rows = sample_tree(self.model, draws or self._draws, self._rng)
        self._rows = np.ascontiguousarray(rows.T)
        self._weigh()

    def _weigh(self) -> None:
        """Work out how likely each drawn cell is observed, and that by attribute and level."""
        self._observed = np.ascontiguousarray(1.0 - self.masks.missing(self._rows.T).T)
        self._rates: dict[int, Floats] = {}
        for v in np.flatnonzero(self.masks.present):
            n = np.bincount(self._rows[v], minlength=self.sizes[v]) + 1.0
            rate = np.bincount(self._rows[v], weights=self._observed[v], minlength=self.sizes[v])
            self._rates[int(v)] = (rate + (1 - self.masks.rates[v])) / n
        self._pairs: PairCounts | None = None
        self._asked = 0
        sloping = {effect[0] for effect, slope in self.masks.slopes.items() if slope.any()}
        #: Attributes that are missing in some rows more often than in others.
        self.selective = frozenset(sloping.union(self.masks.always, *self.masks.unseen))

    def predict(self, clique: Clique) -> Floats:
        """Expected counts of the rows observed on all of ``clique``.

        Masks are modelled as independent given the row.  Where a released total tells that holes
        coincide more or less often than that, the prediction is scaled to it, or the marginal
        would be selected for its holes again and again.
        """
        expected: Floats = self.n_rows * self.model.marginal(clique) * self.observed(clique)
        known = self.measured.get(clique)
        if known is not None and not self._partial:
            total = float(self.values(clique, known.counts).sum())
            noise = float(known.std) * np.sqrt(expected.size)
            if abs(total - expected.sum()) > _HOLES * noise and total > 0:
                expected = expected * (total / max(1.0, float(expected.sum())))
        return expected

    def values(self, clique: Clique, table: NDArray[Number]) -> NDArray[Number]:
        """Return the part of a marginal where nothing is missing; impossible cells are zero."""
        observed = table[tuple(slice(0, self.sizes[v]) for v in clique)]
        return observed if self._possible is None else observed * self.possible(clique)

    def observed(self, clique: Clique) -> Floats | float:
        """Chance that a row is observed on ``clique``, by its values there."""
        chance: Floats | float
        if self._partial or not self.selective.isdisjoint(clique):
            chance = self._chance(clique)[0]
        else:  # whatever the values are
            chance = prod(1 - float(self.masks.rates[v]) for v in clique)
        return np.maximum(chance, _LEAST_OBSERVED)

    def _chance(self, clique: Clique) -> tuple[Floats | float, Floats | float]:
        """Return the chance to be observed, and the variance of its relative error.

        The chance is a mean over rows drawn from the model; the error is that of the mean, and
        stands for that of the mask model too, which knows no better what few rows show.
        """
        holes = [v for v in clique if self.masks.present[v]]
        if not holes:
            return 1.0, 0.0
        if self._partial:
            return self._partial_rate(clique), 0.0
        shape = tuple(self.sizes[v] for v in clique)
        counts, seen = self._drawn(clique, holes)
        rows = counts + _PRIOR_ROWS
        first, *others = (self._rates.get(v, np.ones(self.sizes[v])) for v in clique)
        prior = first
        for rate in others:
            prior = np.multiply.outer(prior, rate).ravel()
        total = seen + _PRIOR_ROWS * prior
        chance = np.minimum(np.maximum(total / rows, _NEVER_OBSERVED), 1.0)
        error = (1 - chance) / (chance * rows)
        return chance.reshape(shape), error.reshape(shape)

    def _partial_rate(self, clique: Clique) -> float:
        if clique in self.measured:
            rate = float(self.measured[clique].counts.sum()) / self.n_rows
        else:
            rate = prod(1 - float(self.masks.rates[v]) for v in clique)
        return min(1.0, max(_LEAST_OBSERVED, rate))

    def _drawn(self, clique: Clique, holes: list[int]) -> tuple[Floats, Floats]:
        """Drawn rows by cell: their number, and how many of them are observed, as expected."""
        tied = self.masks.tied(clique)
        if len(clique) == 2 and sum(self.sizes) <= _MOST_LEVELS and not tied:
            self._asked += 1
            if self._pairs is None and self._asked > _MANY_PAIRS:
                self._pairs = PairCounts(self._rows, self._observed, self.sizes)
            if self._pairs is not None:
                return self._pairs.of(*clique)
        shape = [self.sizes[v] for v in clique]
        index, cells = cell_index(self._rows, clique, shape, self._rows.shape[1]), prod(shape)
        chances = self._observed[holes].prod(axis=0)
        if tied:
            chances = self.masks.observed(self._rows.T, holes, 1.0 - self._observed.T)
        seen = np.bincount(index, weights=chances, minlength=cells).astype(np.float64)
        return np.bincount(index, minlength=cells).astype(np.float64), seen

    def _target(self, clique: Clique, measured: _Measured) -> Target:
        """Complete-data proportions: divide by the chance of being observed, then normalise.

        Each marginal is normalised by the number of rows that its own noisy total stands for, so
        that neither unequal numbers of observed rows nor coinciding holes are mistaken for signal;
        its noise grows accordingly. What share of rows is observed, the model says: to a sum of
        quotients, cells in which hardly any row is observed would add their noise many times over,
        and not the rows in them. They have nearly no weight.
        """
        rate, error = (1.0, 0.0) if self._partial else self._chance(clique)
        chance = np.maximum(rate, _LEAST_OBSERVED)
        counts = self.values(clique, measured.counts)
        values = counts / chance
        std = np.sqrt(np.square(measured.std / rate) + np.square(values) * error)
        noise = float(np.sqrt(np.broadcast_to(np.square(measured.std), counts.shape).sum()))
        observed = max(float(counts.sum()), noise, 1.0)
        total = observed / self._share_observed(clique, chance)
        return Target(clique, values / total, std / total)

    def _share_observed(self, clique: Clique, chance: Floats | float) -> float:
        """Share of rows observed on ``clique``, as the models have it."""
        if isinstance(chance, float):
            return chance
        law = self.model.marginal(clique) if self.parameters else 1 / chance.size
        return max(_LEAST_OBSERVED, float((law * chance).sum()))


def _margin(measured: _Measured, axis: int) -> _Measured:
    """Add a marginal up over all other axes."""
    counts = measured.counts
    cells = counts.size // counts.shape[axis]
    summed = counts.sum(axis=tuple(i for i in range(counts.ndim) if i != axis))
    return _Measured(summed, np.asarray(measured.std) * np.sqrt(cells))


def _pooled(totals: Floats, ones: Sequence[NDArray[Any]]) -> float:
    """Average the totals of the one-way tables, less noisy the fewer cells they have."""
    weight = np.array([1.0 / len(y) for y in ones])
    return float((weight * totals).sum() / weight.sum())


@dataclass(frozen=True, eq=False)
class _Measured:
    """A released marginal on merged levels (the last may be "missing"), and its noise."""

    counts: Floats
    std: float | Floats

    def combine(self, other: _Measured) -> _Measured:
        """Average two measurements of one marginal by their precisions."""
        w, v = 1 / np.square(self.std), 1 / np.square(other.std)
        return _Measured((w * self.counts + v * other.counts) / (w + v), (w + v) ** -0.5)


def _strips(
    measured: Mapping[Clique, _Measured], sizes: Sequence[int], present: NDArray[np.bool_]
) -> dict[tuple[int, ...], Strip]:
    """How often ``a`` is missing by levels of one or two others, from the least noisy marginals."""
    found: dict[tuple[int, ...], Strip] = {}
    for clique, marginal in measured.items():
        effects: list[tuple[int, ...]] = [*permutations(clique, 2)]
        for a in clique:
            effects += [(a, *both) for both in combinations([v for v in clique if v != a], 2)]
        for effect in effects:
            if present[effect[0]]:
                strip = _strip(effect, clique, marginal, sizes)
                if effect not in found or strip.std < found[effect].std:
                    found[effect] = strip
    return found


def _strip(
    effect: tuple[int, ...],
    clique: Clique,
    measured: _Measured,
    sizes: Sequence[int] | Mapping[int, int],
) -> Strip:
    """Add up a marginal over what is not in the effect; the rest is seen where it is observed."""
    a, *by = effect
    rest = tuple(i for i, v in enumerate(clique) if v not in effect)
    kept = [v for v in clique if v in effect]
    table = measured.counts.sum(axis=rest).transpose([kept.index(v) for v in effect])
    shape = tuple(sizes[b] for b in by)
    table = table[(slice(None), *(slice(0, size) for size in shape))].reshape(-1, prod(shape))
    std = float(measured.std) * float(np.sqrt(prod(measured.counts.shape[i] for i in rest)))
    return Strip(table[sizes[a]], table.sum(axis=0), std, sizes[a], shape)


def _both_missing(
    measured: Mapping[Clique, _Measured], sizes: Sequence[int], present: NDArray[np.bool_]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Number of rows in which two cells are missing, with its noise; parameters as ``_strips``."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for clique, marginal in measured.items():
        for (i, a), (j, b) in combinations(enumerate(clique), 2):
            if present[a] and present[b]:
                part = marginal.counts.take(sizes[b], axis=j).take(sizes[a], axis=i)
                std = float(marginal.std) * float(np.sqrt(part.size))
                if (a, b) not in found or std < found[a, b][1]:
                    found[a, b] = float(part.sum()), std
    return found


def _averaged(one: Both, other: Both) -> Both:
    """Average two releases of counts by their precisions."""
    found = {**one, **other}
    for pair in one.keys() & other.keys():
        (x, s), (y, t) = one[pair], other[pair]
        found[pair] = (x * t**2 + y * s**2) / (s**2 + t**2), s * t / hypot(s, t)
    return found
