"""Noisy marginals of any order, tables of pairs from them, and a quick model of complete rows.

AIM and MST measure some marginals of two or more attributes. AllPairs measures the marginals of
three or more attributes that a workload names. `NoisyMarginals` has the released counts.
`NoisyMarginals.tables` sums larger marginals to pairs, and averages several estimates of one pair
or attribute by their precisions. A pair without a table is independent, given other tables of its
attributes.

`quick_fit` is the model inside the loop of AIM. Its rows are drawn along a tree of pairs, and
weighted until all marginals hold. A model of missing cells given the row is part of it. Expected
counts are of rows that are observed on a marginal, as measured counts are. Without the model of
missing cells, selective missingness would look like a wrong marginal in every round.

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
    complete_marginals,
    complete_with_rows,
    weighted_tree_rows,
)
from missdp.inference.conditional_models import Pair
from missdp.inference.counts import enforce_decreasing_tails, precision_mean, project_to_simplex
from missdp.inference.missing_rates import RatesByLevel, both_missing
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Levels, cell_index
from missdp.inference.raking import centred, rake, resample
from missdp.serialization import Record
from missdp.types import Clique, Flags, Floats, Ints

_MIN_SHARE = 1e-7  # smallest share of a level
_NO_MISSING = 2.0  # SDs of noise below which a missing rate is set to 0
_SURELY = 3.0  # SDs by which a released total must differ to correct an expected total
_FEW_SWEEPS = 4  # sweeps of learning the model of missing cells in each round
_LEARNED_FROM = 6_000  # rows from which the model of missing cells is learned inside the loop
# Sweeps of raking to larger marginals, and effective share of the rows.
_SWEEPS, _MIN_EFFECTIVE = 6, 0.1


@pydantic.dataclasses.dataclass(frozen=True, eq=False)
class NoisyMarginals(Record):
    """Released noisy marginals (tables of counts), on merged groups of levels.

    AIM and MST keep them as ``tables_``. Attributes are named by their positions in ``modelled_``.
    All values are released.

    Parameters
    ----------
    levels : tuple of Levels
        Groups of merged levels of each attribute.
    one_way : tuple of ndarray of float
        For each attribute, the share of the rows at each group of levels. The last entry is the
        share of missing cells, if the attribute may be missing.
    std : float
        Standard deviation of each count of a one-way marginal, in rows, before levels were merged.
    rows : float
        Released number of counted rows, at least 1.
    numbers : tuple of bool
        Whether an attribute has a level for each number. Merged levels have no order.
    observed_only : bool, default False
        Whether larger marginals count only the rows observed on them. Otherwise the last level of
        an attribute that may be missing is "missing".
    counts, stds : dict by tuple of int, default {}
        Noisy counts of larger marginals in rows, and the standard deviation of each of their cells
        in rows.
    masks, masks_std : dict by pair of int, and float
        Noisy counts of rows by the masks (indicators of missing cells) of two attributes, and the
        standard deviation of each count in rows.
    """

    levels: tuple[Levels, ...]
    one_way: tuple[Floats, ...]
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
        """Share of the rows in which each attribute is observed, shape ``(d,)``."""
        pairs = zip(self.one_way, self.sizes, strict=True)
        return np.array([marginal[:size].sum() for marginal, size in pairs])

    def groups(self, names: Sequence[str]) -> dict[str, Ints]:
        """Return the group of each level, by the names of the attributes."""
        return {name: level.groups for name, level in zip(names, self.levels, strict=True)}

    @property
    def higher_order(self) -> dict[Clique, Floats]:
        """Marginals of three or more attributes."""
        return {clique: counts for clique, counts in self.counts.items() if len(clique) > 2}

    @property
    def higher_order_stds(self) -> dict[Clique, float]:
        """Standard deviation of each cell of marginals of three or more attributes."""
        return {clique: std for clique, std in self.stds.items() if len(clique) > 2}

    @property
    def cell_std(self) -> float:
        """Median standard deviation of a cell of a marginal, in rows."""
        return float(np.median([*self.stds.values()])) if self.stds else self.std

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Return the shape of the counts of a marginal."""
        if self.observed_only:
            return tuple(self.sizes[a] for a in clique)
        return tuple(len(self.one_way[a]) for a in clique)

    def add(self, clique: Clique, counts: Floats, std: float) -> Self:
        """Return the marginals with one more. A second release of one is averaged with the first.

        Parameters
        ----------
        clique : tuple of int
            The attributes.
        counts : ndarray
            Released counts.
        std : float
            Standard deviation of each count, in rows.

        Returns
        -------
        NoisyMarginals
            Released values.
        """
        if clique in self.counts:
            first = self.counts[clique], self.stds[clique]
            counts, std = precision_mean(first, (counts, std))
        all_counts, stds = self.counts | {clique: counts}, self.stds | {clique: float(std)}
        return replace(self, counts=all_counts, stds=stds)

    def restricted_to(self, attributes: Sequence[int]) -> Self:
        """Return the marginals of some attributes, in the order of the table."""
        place = {a: i for i, a in enumerate(attributes)}

        def renumbered(tables: Mapping[Any, Any]) -> dict[Any, Any]:
            inside = {clique: table for clique, table in tables.items() if {*clique} <= {*place}}
            return {tuple(place[a] for a in clique): table for clique, table in inside.items()}

        return replace(
            self,
            levels=tuple(self.levels[a] for a in attributes),
            one_way=tuple(self.one_way[a] for a in attributes),
            numbers=tuple(self.numbers[a] for a in attributes),
            counts=renumbered(self.counts),
            stds=renumbered(self.stds),
            masks=renumbered(self.masks),
        )

    def tables(self) -> PairTables:
        """Return the tables of all measured pairs, as shares of the rows, with their variances."""
        marginals = tuple(self._marginal(a) for a in range(len(self.levels)))
        tables, variances = dict[Pair, Floats](), dict[Pair, Floats]()
        for (a, b), (counts, std) in self._pairs().items():
            ends = [marginals[v][:n] for v, n in zip((a, b), counts.shape, strict=True)]
            base = np.outer(*ends)
            # The share of observed rows follows from one-way marginals.
            total = self.rows
            if self.observed_only:
                total = max(float(counts.sum()), std * math.sqrt(counts.size), 1.0) / base.sum()
            tables[a, b] = base + centred(counts / total - base)
            degrees = math.prod(1 - 1 / n for n in counts.shape)
            variances[a, b] = np.full(counts.shape, (std / total) ** 2 * degrees)
        both = {} if self.observed_only else self._both_missing(marginals)
        by_two = self._missing_by_two()
        return PairTables(self.sizes, marginals, tables, variances, self.rows, both, by_two)

    def higher_order_targets(self, masks: MissingnessModel, rows: Ints) -> dict[Clique, Floats]:
        """Return the larger marginals of complete rows, by rows of a model."""
        counts, stds = self._with_triples()
        return complete_marginals(counts, stds, masks, rows, self.sizes)

    def _with_triples(self) -> tuple[dict[Clique, Floats], dict[Clique, float]]:
        """Return larger marginals and the triples inside them, by all their releases."""
        counts, stds = self.higher_order, self.higher_order_stds
        for clique, table in self.higher_order.items():
            for axes in combinations(range(len(clique)), 3) if len(clique) > 3 else ():
                others = tuple(i for i in range(len(clique)) if i not in axes)
                added = math.prod(table.shape[i] for i in others)
                triple = tuple(clique[i] for i in axes)
                new = table.sum(axis=others), self.stds[clique] * math.sqrt(added)
                before = (counts[triple], stds[triple]) if triple in counts else None
                counts[triple], stds[triple] = precision_mean(before, new) if before else new
        return counts, stds

    @property
    def marginal_stds(self) -> list[Floats]:
        """Standard deviation of each share of the marginals that `tables` returns."""
        return [
            sum(1 / variance for _, variance in self._marginal_estimates(a)) ** -0.5
            for a in range(len(self.levels))
        ]

    def redraw_noise(self, rng: np.random.Generator) -> Self:
        """Return the released statistics plus a new draw of their noise."""
        first = self.std / self.rows
        return replace(
            self,
            one_way=tuple(m + rng.normal(0, first, m.shape) for m in self.one_way),
            counts={c: t + rng.normal(0, self.stds[c], t.shape) for c, t in self.counts.items()},
            masks={p: t + rng.normal(0, self.masks_std, t.shape) for p, t in self.masks.items()},
        )

    def _pairs(self) -> dict[Pair, tuple[Floats, float]]:
        """Return counts of each pair inside a marginal, with the SD of their cells."""
        pairs = dict[Pair, tuple[Floats, float]]()
        for clique, counts in self.counts.items():
            for axes in combinations(range(len(clique)), 2):
                others = tuple(i for i in range(len(clique)) if i not in axes)
                added = math.prod(counts.shape[i] for i in others)
                pair = clique[axes[0]], clique[axes[1]]
                new = counts.sum(axis=others), self.stds[clique] * math.sqrt(added)
                pairs[pair] = precision_mean(pairs[pair], new) if pair in pairs else new
        return pairs

    def _marginal_estimates(self, a: int) -> list[tuple[Floats, Floats]]:
        """Return all estimates of the marginal of an attribute, with the variances of shares."""
        marginal, level = self.one_way[a], self.levels[a]
        merged = np.append(np.bincount(level.groups), np.ones(len(marginal) - level.n_groups))
        estimates = [(marginal, np.asarray((self.std / self.rows) ** 2 * merged, dtype=np.float64))]
        for clique, counts in self.counts.items() if not self.observed_only else ():
            if a in clique:
                axis = clique.index(a)
                summed = counts.sum(axis=tuple(i for i in range(len(clique)) if i != axis))
                added = counts.size / counts.shape[axis]
                variance = np.full(len(summed), (self.stds[clique] / self.rows) ** 2 * added)
                estimates.append((summed / self.rows, variance))
        return estimates

    def _marginal(self, a: int) -> Floats:
        """Return the marginal of an attribute by all releases. It is not negative and sums to 1."""
        return combined_marginal(self._marginal_estimates(a), self.sizes[a], number=self.numbers[a])

    def _missing_by_two(self) -> dict[Clique, RatesByLevel]:
        """Return missing rates of an attribute by the levels of two others measured with it."""
        rates_by_effect = dict[Clique, RatesByLevel]()
        for clique, counts in self.higher_order.items() if not self.observed_only else ():
            incomplete = [a for a in clique if len(self.one_way[a]) > self.sizes[a]]
            for a in incomplete:
                for others in combinations([v for v in clique if v != a], 2):
                    effect = (a, *others)
                    rates = self._rates_by_level(effect, clique, counts)
                    if effect not in rates_by_effect or rates.std < rates_by_effect[effect].std:
                        rates_by_effect[effect] = rates
        return rates_by_effect

    def _rates_by_level(self, effect: Clique, clique: Clique, counts: Floats) -> RatesByLevel:
        """Sum a marginal over attributes outside an effect, with two attributes observed."""
        a, *others = effect
        rest = tuple(i for i, v in enumerate(clique) if v not in effect)
        added = math.prod(counts.shape[i] for i in rest)
        remaining = [v for v in clique if v in effect]
        table = counts.sum(axis=rest).transpose([remaining.index(v) for v in effect])
        shape = tuple(self.sizes[v] for v in others)
        table = table[:, : shape[0], : shape[1]].reshape(len(table), -1)
        std = self.stds[clique] * math.sqrt(added)
        return RatesByLevel(table[self.sizes[a]], table.sum(axis=0), std, self.sizes[a], shape)

    def _both_missing(self, marginals: Sequence[Floats]) -> dict[Pair, tuple[float, float]]:
        """Return the share of the rows in which two attributes are both missing, and its noise."""
        single = [
            (float(m[-1]) * self.rows, float(s[-1]) * self.rows)
            for m, s in zip(marginals, self.marginal_stds, strict=True)
        ]
        shares = dict[Pair, tuple[float, float]]()
        for (a, b), counts in self.masks.items():
            count, std = both_missing(counts, self.masks_std, [single[a], single[b]], self.rows)
            shares[a, b] = count / self.rows, std / self.rows
        return shares


def combined_marginal(
    released: Sequence[tuple[Floats, Floats]], size: int, *, number: bool
) -> Floats:
    """Return the marginal of an attribute by all of its releases.

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
        Not negative, with the sum 1.
    """
    precision = np.sum([1 / variance for _, variance in released], axis=0)
    mixed = np.sum([values / variance for values, variance in released], axis=0) / precision
    noise = precision**-0.5
    if number:
        mixed[:size] = enforce_decreasing_tails(mixed[:size], float(noise[:size].mean()))
    marginal = np.maximum(project_to_simplex(mixed), _MIN_SHARE)
    if len(marginal) > size and marginal[size] < _NO_MISSING * noise[size]:
        marginal[size] = 0.0  # the rate is noise
    return np.asarray(marginal / marginal.sum())


@dataclass(frozen=True, eq=False)
class QuickFit:
    """Rows of a quick model of complete rows, with the chance that each cell is observed.

    * ``marginals``: The marginals to which the model was fitted.
    * ``rows`` (shape (d, n)): Groups of levels.
    * ``weights`` (shape (n,)): Share of each row in the model.
    * ``observed`` (shape (d, n)): Chance that a cell is observed, given its row.
    * ``masks``: The model of missing cells.
    * ``allowed``: Possible cells by pair. Public.
    """

    marginals: NoisyMarginals
    rows: Ints
    weights: Floats
    observed: Floats
    masks: MissingnessModel
    allowed: Mapping[Pair, Flags]

    def possible(self, clique: Clique) -> Flags:
        """Return the possible cells of a marginal, which public facts limit for pairs."""
        pair = (clique[0], clique[1]) if len(clique) == 2 else None
        everywhere = np.ones([self.marginals.sizes[a] for a in clique], bool)
        return everywhere if pair is None else self.allowed.get(pair, everywhere)

    def expected(self, clique: Clique) -> Floats:
        """Return the expected number of rows in each cell of a marginal that are observed on it.

        Cells are missing independently given the row. A released total may show that they are
        missing together more or less often. Expected counts are then scaled to it. Otherwise the
        marginal would be selected again and again because of its missing cells.
        """
        sizes, rows = self.marginals.sizes, self.marginals.rows
        shape, n = tuple(sizes[a] for a in clique), self.rows.shape[1]
        cells = cell_index(self.rows, clique, shape, n)
        incomplete = [a for a in clique if self.masks.present[a]]
        weights = reduce(np.multiply, [self.observed[a] for a in incomplete], self.weights)
        shares = np.bincount(cells, weights, math.prod(shape)).reshape(shape)
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
    """Fit weighted rows along a tree of pairs to all marginals, and a model of missing cells.

    Parameters
    ----------
    marginals : NoisyMarginals
        All measured marginals.
    facts : ModelFacts
        Public facts and released levels.
    rng : numpy.random.Generator
        Draws the rows.
    n : int
        Number of rows.
    before : QuickFit, optional
        The fit of the last round. Its model of missing cells is the initial one.

    Returns
    -------
    QuickFit
        The fitted rows.
    """
    completed = _complete_tables(marginals, facts, rng, before)
    rows, weights = weighted_tree_rows(completed, rng, n=n)
    if larger := marginals.higher_order_targets(completed.masks, rows[resample(weights, n, rng)]):
        weights = rake(rows, larger, weights=weights, sweeps=_SWEEPS, min_share=_MIN_EFFECTIVE)
    observed = 1 - completed.masks.missing(rows)
    return QuickFit(
        marginals,
        np.ascontiguousarray(rows.T),
        weights,
        np.ascontiguousarray(observed.T),
        completed.masks,
        facts.allowed,
    )


def _complete_tables(
    marginals: NoisyMarginals, facts: ModelFacts, rng: np.random.Generator, before: QuickFit | None
) -> Completed:
    """Return tables of complete rows from marginals, by the rows of the last fit."""
    tables = marginals.tables()
    if before is None or not marginals.counts:
        return complete(tables, facts, rng=rng, rounds=0)
    some = resample(before.weights, _LEARNED_FROM, rng)
    rows = np.ascontiguousarray(before.rows[:, some].T)
    return complete_with_rows(tables, facts, rows, start=before.masks, sweeps=_FEW_SWEEPS)
