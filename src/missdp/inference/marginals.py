"""From noisy marginals of any order to tables of pairs, and to a quick model of whole rows.

AIM and MST measure some marginals of two attributes and more, AllPairs those of three and more that
a workload names. `NoisyMarginals` holds them as they were released. `NoisyMarginals.tables` adds up
larger ones to pairs, and averages what several tell of the same pair or attribute by their
precisions. A pair without a table is independent, given what others tell of its attributes.

`quick_fit` is the model inside the loop of AIM: rows along a tree of pairs, weighted until all
marginals hold, with a model of what is missing given the row. Its expected counts are of rows that
are observed on a marginal, as measured counts are. Without the model of missing cells, selective
missingness would look like a wrong marginal in every round.

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import combinations
from typing import Any, Self

import numpy as np
import pydantic.dataclasses

from missdp.inference.completion import (
    Completed,
    ModelFacts,
    PairTables,
    complete,
    complete_by,
    completed,
    weighted_tree_rows,
)
from missdp.inference.conditional_models import Pair
from missdp.inference.counts import averaged, falling_ends, project_to_simplex
from missdp.inference.missing_rates import RatesByLevel, both_missing
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Levels, cell_index
from missdp.inference.raking import centred, rake, resample
from missdp.serialization import Record
from missdp.types import Clique, Flags, Floats, Ints

_LEAST_SHARE = 1e-7
_NO_MISSING = 2.0  # standard deviations of noise, below which a missing rate is taken for none
_SURELY = 3.0  # standard deviations, by which a released total corrects an expected one
_FEW_SWEEPS = 4  # of learning the model of missing cells further, from round to round
_LEARNED_FROM = 6_000  # rows, from which the model of missing cells is learned inside the loop
_SWEEPS, _LEAST_EFFECTIVE = 6, 0.1  # of raking to marginals of three attributes and more


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class NoisyMarginals(Record):
    """Released marginals on merged levels, and the noise of their counts.

    * ``levels``: Which levels of each attribute are merged.
    * ``margins``: Share of the rows at each group of levels and, if the attribute may be missing,
      missing.
    * ``std``: Noise of each count of a one-way marginal, before levels were merged.
    * ``rows``: Number of rows that are counted, at least 1.
    * ``numbers``: Which attributes have a level for each number; merged levels have no order.
    * ``observed_only``: Whether larger marginals count only the rows observed on them. Otherwise
      their last level of an attribute that may be missing is "missing".
    * ``counts``, ``stds``: Larger marginals, and the noise of each of their cells.
    * ``masks``, ``masks_std``: Noisy counts of rows in which either of two attributes is missing or
      not.
    """

    levels: tuple[Levels, ...]
    margins: tuple[Floats, ...]
    std: float
    rows: float
    numbers: tuple[bool, ...]
    observed_only: bool = False
    counts: dict[Clique, Floats] = field(default_factory=dict)
    stds: dict[Clique, float] = field(default_factory=dict)
    masks: dict[Pair, Floats] = field(default_factory=dict)
    masks_std: float = 0.0

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of groups of levels of each attribute."""
        return tuple(level.n_groups for level in self.levels)

    @property
    def observed(self) -> Floats:
        """Share of the rows in which each attribute is observed."""
        pairs = zip(self.margins, self.sizes, strict=True)
        return np.array([margin[:size].sum() for margin, size in pairs])

    def groups(self, names: Sequence[str]) -> dict[str, Ints]:
        """Group of each level, by the names of the attributes."""
        return {name: level.groups for name, level in zip(names, self.levels, strict=True)}

    @property
    def together(self) -> dict[Clique, Floats]:
        """Marginals of three attributes and more."""
        return {clique: counts for clique, counts in self.counts.items() if len(clique) > 2}

    @property
    def together_stds(self) -> dict[Clique, float]:
        """Noise of each cell of marginals of three attributes and more."""
        return {clique: std for clique, std in self.stds.items() if len(clique) > 2}

    @property
    def cell_std(self) -> float:
        """Noise of the count of a cell of a marginal, in the median."""
        return float(np.median([*self.stds.values()])) if self.stds else self.std

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Shape of the counts of a marginal."""
        if self.observed_only:
            return tuple(self.sizes[a] for a in clique)
        return tuple(len(self.margins[a]) for a in clique)

    def add(self, clique: Clique, counts: Floats, std: float) -> Self:
        """Return the same with one more marginal; a second release of one is averaged with it."""
        if clique in self.counts:
            first = self.counts[clique], self.stds[clique]
            counts, std = averaged(first, (counts, std))
        known, stds = self.counts | {clique: counts}, self.stds | {clique: float(std)}
        return replace(self, counts=known, stds=stds)

    def about(self, wanted: Sequence[int]) -> Self:
        """Return what was released about some attributes, in the order of the table."""
        place = {a: i for i, a in enumerate(wanted)}

        def kept(tables: Mapping[Any, Any]) -> dict[Any, Any]:
            inside = {clique: table for clique, table in tables.items() if {*clique} <= {*place}}
            return {tuple(place[a] for a in clique): table for clique, table in inside.items()}

        return replace(
            self,
            levels=tuple(self.levels[a] for a in wanted),
            margins=tuple(self.margins[a] for a in wanted),
            numbers=tuple(self.numbers[a] for a in wanted),
            counts=kept(self.counts),
            stds=kept(self.stds),
            masks=kept(self.masks),
        )

    def tables(self) -> PairTables:
        """Return the tables of all measured pairs, as shares of the rows, with their variances."""
        margins = tuple(self._margin(a) for a in range(len(self.levels)))
        tables, variances = dict[Pair, Floats](), dict[Pair, Floats]()
        for (a, b), (counts, std) in self._pairs().items():
            ends = [margins[v][:n] for v, n in zip((a, b), counts.shape, strict=True)]
            base = np.outer(*ends)
            # Of observed rows only, what share they are is a matter of margins.
            total = self.rows
            if self.observed_only:
                total = max(float(counts.sum()), std * math.sqrt(counts.size), 1.0) / base.sum()
            tables[a, b] = base + centred(counts / total - base)
            degrees = math.prod(1 - 1 / n for n in counts.shape)
            variances[a, b] = np.full(counts.shape, (std / total) ** 2 * degrees)
        coinciding = {} if self.observed_only else self._both_missing(margins)
        together = self._missing_by_two()
        return PairTables(self.sizes, margins, tables, variances, self.rows, coinciding, together)

    def of_several(self, masks: MissingnessModel, rows: Ints) -> dict[Clique, Floats]:
        """Return the marginals of three attributes and more, of complete rows, given a model's."""
        return completed(self.together, self.together_stds, masks, rows, self.sizes)

    @property
    def margin_stds(self) -> list[Floats]:
        """Noise of each share of the margins that `tables` returns."""
        return [
            sum(1 / variance for _, variance in self._margins_of(a)) ** -0.5
            for a in range(len(self.levels))
        ]

    def redrawn(self, rng: np.random.Generator) -> Self:
        """Return the released statistics, moved by another draw of the noise that they have."""
        first = self.std / self.rows
        return replace(
            self,
            margins=tuple(m + rng.normal(0, first, m.shape) for m in self.margins),
            counts={c: t + rng.normal(0, self.stds[c], t.shape) for c, t in self.counts.items()},
            masks={p: t + rng.normal(0, self.masks_std, t.shape) for p, t in self.masks.items()},
        )

    def _pairs(self) -> dict[Pair, tuple[Floats, float]]:
        """Counts of each pair that some marginal contains, with the noise of their cells."""
        found = dict[Pair, tuple[Floats, float]]()
        for clique, counts in self.counts.items():
            for axes in combinations(range(len(clique)), 2):
                others = tuple(i for i in range(len(clique)) if i not in axes)
                added = math.prod(counts.shape[i] for i in others)
                pair = clique[axes[0]], clique[axes[1]]
                new = counts.sum(axis=others), self.stds[clique] * math.sqrt(added)
                found[pair] = averaged(found[pair], new) if pair in found else new
        return found

    def _margins_of(self, a: int) -> list[tuple[Floats, Floats]]:
        """What each marginal tells of the margin of an attribute, with the variance of shares."""
        margin, level = self.margins[a], self.levels[a]
        merged = np.append(np.bincount(level.groups), np.ones(len(margin) - level.n_groups))
        found = [(margin, np.asarray((self.std / self.rows) ** 2 * merged, dtype=np.float64))]
        for clique, counts in self.counts.items() if not self.observed_only else ():
            if a in clique:
                axis = clique.index(a)
                summed = counts.sum(axis=tuple(i for i in range(len(clique)) if i != axis))
                added = counts.size / counts.shape[axis]
                variance = np.full(len(summed), (self.stds[clique] / self.rows) ** 2 * added)
                found.append((summed / self.rows, variance))
        return found

    def _margin(self, a: int) -> Floats:
        """Return the margin of an attribute by all marginals, nowhere below zero; it sums to 1."""
        return combined_marginal(self._margins_of(a), self.sizes[a], number=self.numbers[a])

    def _missing_by_two(self) -> dict[Clique, RatesByLevel]:
        """How often an attribute is missing by the levels of two others measured with it."""
        found = dict[Clique, RatesByLevel]()
        for clique, counts in self.together.items() if not self.observed_only else ():
            holed = [a for a in clique if len(self.margins[a]) > self.sizes[a]]
            for a in holed:
                for others in combinations([v for v in clique if v != a], 2):
                    effect = (a, *others)
                    rates = self._rates_by_level(effect, clique, counts)
                    if effect not in found or rates.std < found[effect].std:
                        found[effect] = rates
        return found

    def _rates_by_level(self, effect: Clique, clique: Clique, counts: Floats) -> RatesByLevel:
        """Add up a marginal over what is not in the effect; two of its attributes are observed."""
        a, *others = effect
        rest = tuple(i for i, v in enumerate(clique) if v not in effect)
        added = math.prod(counts.shape[i] for i in rest)
        kept = [v for v in clique if v in effect]
        table = counts.sum(axis=rest).transpose([kept.index(v) for v in effect])
        shape = tuple(self.sizes[v] for v in others)
        table = table[:, : shape[0], : shape[1]].reshape(len(table), -1)
        std = self.stds[clique] * math.sqrt(added)
        return RatesByLevel(table[self.sizes[a]], table.sum(axis=0), std, self.sizes[a], shape)

    def _both_missing(self, margins: Sequence[Floats]) -> dict[Pair, tuple[float, float]]:
        """Share of the rows in which two attributes are both missing, by pair, and its noise."""
        holes = [
            (float(m[-1]) * self.rows, float(s[-1]) * self.rows)
            for m, s in zip(margins, self.margin_stds, strict=True)
        ]
        found = dict[Pair, tuple[float, float]]()
        for (a, b), counts in self.masks.items():
            count, std = both_missing(counts, self.masks_std, [holes[a], holes[b]], self.rows)
            found[a, b] = count / self.rows, std / self.rows
        return found


def combined_marginal(
    released: Sequence[tuple[Floats, Floats]], size: int, *, number: bool
) -> Floats:
    """Return the margin of an attribute by all that was released of it.

    Parameters
    ----------
    released : sequence of (ndarray, ndarray)
        Shares of its levels and, if it may be missing, of missing cells, with their variances.
    size : int
        Number of its levels.
    number : bool
        Whether it has a level for each number.

    Returns
    -------
    ndarray of float64
        Nowhere below zero; it sums to 1.
    """
    precision = np.sum([1 / variance for _, variance in released], axis=0)
    mixed = np.sum([values / variance for values, variance in released], axis=0) / precision
    noise = precision**-0.5
    if number:
        mixed[:size] = falling_ends(mixed[:size], float(noise[:size].mean()))
    margin = np.maximum(project_to_simplex(mixed), _LEAST_SHARE)
    if len(margin) > size and margin[size] < _NO_MISSING * noise[size]:
        margin[size] = 0.0  # no more than noise
    return np.asarray(margin / margin.sum())


@dataclass(frozen=True, eq=False)
class QuickFit:
    """Rows of a quick model of complete rows, and how likely each of their cells is observed.

    * ``marginals``: What the model was fitted to.
    * ``rows`` (shape (d, n)): Groups of levels.
    * ``weights`` (shape (n,)): Share of each row in the model.
    * ``observed`` (shape (d, n)): Chance that a cell is observed, given its row.
    * ``masks``: The model of missing cells.
    * ``allowed``: By pair, which cells are possible; public.
    """

    marginals: NoisyMarginals
    rows: Ints
    weights: Floats
    observed: Floats
    masks: MissingnessModel
    allowed: Mapping[Pair, Flags]

    def possible(self, clique: Clique) -> Flags:
        """Return the cells of a marginal that rows may be in, as far as pairs tell; public."""
        known = self.allowed.get((clique[0], clique[1])) if len(clique) == 2 else None
        return np.ones([self.marginals.sizes[a] for a in clique], bool) if known is None else known

    def expected(self, clique: Clique) -> Floats:
        """Return the expected number of rows in each cell of a marginal that are observed on it.

        Cells are missing independently given the row. Where a released total tells that they
        coincide more or less often than that, expected counts are scaled to it: otherwise the
        marginal would be selected for its missing cells again and again.
        """
        sizes, rows = self.marginals.sizes, self.marginals.rows
        shape, n = tuple(sizes[a] for a in clique), self.rows.shape[1]
        cells = cell_index(self.rows, clique, shape, n)
        holed = [a for a in clique if self.masks.present[a]]
        seen = reduce(np.multiply, [self.observed[a] for a in holed], self.weights)
        shares = np.bincount(cells, seen, math.prod(shape)).reshape(shape)
        expected = np.asarray(rows * shares, dtype=np.float64)
        counts = self.marginals.counts.get(clique)
        if counts is not None:
            total = float(counts[tuple(map(slice, shape))].sum())
            noise = self.marginals.stds[clique] * math.sqrt(expected.size)
            if abs(total - expected.sum()) > _SURELY * noise and total > 0:
                expected *= total / max(1.0, float(expected.sum()))
        return expected


def quick_fit(
    marginals: NoisyMarginals,
    facts: ModelFacts,
    rng: np.random.Generator,
    *,
    n: int,
    before: QuickFit | None = None,
) -> QuickFit:
    """Fit rows along a tree of pairs, weighted until all marginals hold, and what is missing.

    Parameters
    ----------
    marginals : NoisyMarginals
        All that was measured.
    facts : ModelFacts
        Public facts and released levels.
    rng : numpy.random.Generator
        Draws the rows.
    n : int
        Number of rows.
    before : QuickFit, optional
        The fit of the round before, whose model of missing cells is learned further.

    Returns
    -------
    QuickFit
        The fitted rows.
    """
    known = _completed(marginals, facts, rng, before)
    rows, weights = weighted_tree_rows(known, rng, n=n)
    if larger := marginals.of_several(known.masks, rows[resample(weights, n, rng)]):
        weights = rake(rows, larger, weights=weights, sweeps=_SWEEPS, least_share=_LEAST_EFFECTIVE)
    observed = 1 - known.masks.missing(rows)
    return QuickFit(
        marginals,
        np.ascontiguousarray(rows.T),
        weights,
        np.ascontiguousarray(observed.T),
        known.masks,
        facts.allowed,
    )


def _completed(
    marginals: NoisyMarginals, facts: ModelFacts, rng: np.random.Generator, before: QuickFit | None
) -> Completed:
    """Return what marginals say of complete rows, by the rows of the fit before."""
    tables = marginals.tables()
    if before is None or not marginals.counts:
        return complete(tables, facts, rng=rng, rounds=0)
    some = resample(before.weights, _LEARNED_FROM, rng)
    rows = np.ascontiguousarray(before.rows[:, some].T)
    return complete_by(tables, facts, rows, start=before.masks, sweeps=_FEW_SWEEPS)
