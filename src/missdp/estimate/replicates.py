"""Statistics of complete rows that a model released, unshrunk, and draws of their errors.

Everything here is a function of released values and public facts. Standard errors come from three
kinds of draws of the statistics. The first has other noise, the second has other rows with their
missing values, and the third has other complete rows. Missing values add the difference of the last
two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np

from missdp.estimate.within_bins import ReleasedSums, WithinBins
from missdp.inference.completion import (
    SWEEPS,
    CorrectedTables,
    ModelFacts,
    PairTables,
    complete_marginals,
    learn_masks,
    random_masks,
)
from missdp.inference.missingness import MissingnessModel
from missdp.inference.product_sums import ClippingBias, NumberMoments, number_covariances
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.learn_pairs import PairRelease
from missdp.synth.numeric_scores import draw_fine_codes
from missdp.synth.uncertain import add_noise, cells_of_rows, weighted_cells, weighted_counts
from missdp.types import Clique, Floats, Ints

Cells = Mapping[Clique, Floats]
"""Shares of rows by positions of attributes. Noise makes some shares negative.

``~a`` is the position of the standardised number ``z`` of the attribute ``a``. The mean of ``z``
over all rows in which the attribute ``c`` has each of its codes is at ``(~a, c)``. The mean of the
product of two ``z`` is at ``(~a, ~b)``.
"""

CLIPPED = 0.1
"""Error of the share of a sum that clipping removes, which a model restores, relative to it."""

_ROWS = 20_000  # rows of the model that represent the private rows
_FEWER, _FEWER_IF_WIDE = 6_000, 3_000  # rows of the model from which draws are made
# Rows and sweeps from which the missing cells of a draw are learned. A draw is near the release
# and starts from its model, so that few are sufficient.
_LEARN_FROM, _FEW_SWEEPS = 2_000, 4
_MAX_TOGETHER = 40  # attributes up to which estimates take all missing values into account
_UNSELECTED = (
    0.8  # error of a pair that was not selected: the mean size of its noise, in deviations
)

_PRIOR_ROWS = 5.0  # prior rows with which a rate is shrunk towards its mean
_HARDLY = 0.1  # chance of being observed below which a row hardly ever has a value
_MAX_SHARED = 2**28  # bytes of draws that are kept for further questions


class Statistics(NamedTuple):
    """Statistics on groups of levels: tables, sums and missing shares.

    * ``cells``: Tables, and sums of standardised numbers.
    * ``missing``: Two shares of rows for each attribute. The attribute is missing in the first
      share, and applicable in the second. With two attributes, at each level of the second.
    """

    cells: Cells
    missing: Cells


class Observed(NamedTuple):
    """Tables of observed values, as they were released or drawn, "missing" as a last level.

    * ``tables``: Shares of rows.
    * ``sums``: Sums of standardised numbers, to which those of the ``weights`` are to be added.
    * ``for_rates``: Tables from which missing shares follow. A draw of noise has others for them.
    * ``masks``: The model of missing cells that these tables determine.
    * ``weights`` (shape (n,)): Additional weight of each row, in a draw of other rows.
    * ``marginals`` (by attribute): Marginals of complete rows that earlier questions needed.
    """

    tables: Cells
    sums: Cells
    for_rates: Cells
    masks: MissingnessModel
    weights: Floats | None
    marginals: dict[int, Floats]


Draw = tuple[Observed, Observed]
"""A draw of other noise, and a draw of other rows."""


def axes_of(clique: Clique) -> Clique:
    """Return the attributes whose codes are the axes of a table: all but standardised numbers."""
    return tuple(a for a in clique if a >= 0)


def attributes_of(clique: Clique) -> Clique:
    """Return the attributes that a table is about, in the order of the schema."""
    return tuple(sorted(max(a, ~a) for a in clique))


def is_within(clique: Clique, measured: Iterable[Clique]) -> bool:
    """Return whether a set of attributes is a part of a measured set."""
    return len(clique) < 2 or any({*clique} <= {*one} for one in measured)


class WeightedRows:
    """Rows that are counted with many weights, so that their cells are found once.

    Parameters
    ----------
    rows : ndarray of int64, shape (n, d)
        Codes. A code beyond the shape of a table is not counted.
    z : mapping of int to ndarray of float64, shape (n,)
        The standardised numbers of the rows, by attribute.
    """

    def __init__(self, rows: Ints, z: Mapping[int, Floats]) -> None:
        self._rows, self._z = np.asfortranarray(rows), z  # columns are contiguous
        self._cells: dict[tuple[Clique, tuple[int, ...]], Ints] = {}

    def added_to(self, cells: Cells, weights: Floats) -> Cells:
        """Return tables with additional weight on each row."""
        return {
            clique: table + self._counts(clique, table, weights) for clique, table in cells.items()
        }

    def _counts(self, clique: Clique, table: Floats, weights: Floats) -> Floats:
        weighted = math.prod((self._z[~a] for a in clique if a < 0), start=weights)
        axes = axes_of(clique)
        if not axes:
            return np.asarray(weighted.sum())
        if (axes, table.shape) not in self._cells:
            self._cells[axes, table.shape] = cells_of_rows(self._rows, axes, table.shape)
        return weighted_cells(self._cells[axes, table.shape], table.shape, weighted)


class Replicates:
    """Released statistics of complete rows, and statistics of other draws of noise and rows.

    A model fitted to the release draws rows, which represent the private rows. The release of an
    attribute ``a`` of the table is at position ``of.index(a)``. `about` chooses the sets of
    attributes whose statistics are answered.
    """

    flags: tuple[str, ...] = ()

    def __init__(self, model: AIM | MST | AllPairs) -> None:
        fitted: Any = model.model_
        self.names = model.modelled_.names
        # No reference to the model is kept. Otherwise the cache, whose keys are weak references to
        # models, would keep every model for as long as the process runs.
        self._measured, self._design = PairRelease.of(model.tables_), model.fitted_.design
        self._sizes = [model.schema_[name].size for name in self.names]
        self.levels, self.n_rows = fitted.levels, self._measured.rows
        self.cell_noise = self._measured.cell_std / self.n_rows  # of the share of a cell of a pair
        self._masks, self._rng = fitted.masks, np.random.default_rng(0)  # public: any points do
        sized = zip(self.levels, self._sizes, strict=True)
        self._applicable = [np.unique(level.groups[:size]) for level, size in sized]
        self.is_wide = len(self.names) > _MAX_TOGETHER
        self._fewer = _FEWER_IF_WIDE if self.is_wide else _FEWER
        self._rows = fitted.row_model.sample(self._fewer if self.is_wide else _ROWS, self._rng)
        self._absent = self._masks.draw(self._rows, self._rng)
        self._observed = np.where(self._absent, [x.n_groups for x in self.levels], self._rows)
        self._bias: ClippingBias | None = self._measured.clipping_bias(self._observed)
        self._retained = self._measured.retained_shares(
            self._observed
        )  # shares of sums, after clipping
        self._observed = self._observed[: self._fewer]
        fine_codes = draw_fine_codes(
            self._measured.numeric_scores, self._rows[: self._fewer], self._rng
        )
        self._z = {
            a: number.z[fine_codes[:, a]] for a, number in self._measured.numeric_scores.items()
        }
        self.of = [*range(len(self.levels))]
        if not self.is_wide:
            self._restrict(self.of)

    def about(self, cliques: Sequence[Clique]) -> Self:
        """Return the replicates that answer some sets of attributes.

        They are about these attributes, or about all attributes if values are missing.

        In a wide table, they are those of the attributes, and of all others by which their missing
        values depend on the row.
        """
        some, measured = copy.copy(self), self._measured
        unmeasured = []
        if measured.products is None:
            counts = measured.marginals.counts
            unmeasured = [clique for clique in cliques if not is_within(clique, counts)]
        for clique in unmeasured:
            some._take_from_model(clique)
        if self.is_wide:
            of = {a for clique in cliques for a in clique}
            of |= {b for effect in self._masks.slopes if effect[0] in of for b in effect[1:]}
            of |= {b for a in of for b in self._masks.ancestors(a)}
            some._restrict(sorted(of))
        elif unmeasured:
            some._restrict(self.of)
        elif measured.products is not None and not self._masks.present.any():
            some._restrict(sorted({a for clique in cliques for a in clique}))
        if some.of != self.of:
            some._masks = self._masks.restricted_to(some.of)
        some._select(cliques)
        return some

    def _restrict(self, of: list[int]) -> None:
        # Tables with their models of missing cells, for further questions on the same tables.
        self._shared: dict[int, list[Draw]] = {}
        self._shared_release: list[Observed] = []  # none or one. Copies of this object share it
        release, bias = self._measured.restricted_to(of), self._bias
        if bias is not None:
            pairs = {(i, j): (of[i], of[j]) for i, j in combinations(range(len(of)), 2)}
            numbers = enumerate(self._measured.numeric_scores, len(self.levels))
            single = [*of, *(place for place, a in numbers if a in of)]
            bias = ClippingBias(
                [bias.single[place] for place in single],
                {pair: bias.pairs[named] for pair, named in pairs.items() if named in bias.pairs},
                {p: bias.gains[named] for p, named in pairs.items() if named in bias.gains},
            )
        self.of, self.release, self._removed = of, release, bias
        self._tables = release.tables(bias)
        moments = release.moments(bias) or NumberMoments({}, {}, {}, {})
        self._single_sums: Any = moments.means, moments.powers
        self._moments: dict[Clique, tuple[Floats, Floats]]
        self._moments = {(~a, c): pair for (a, c), pair in moments.by_level.items()}
        self._moments |= {
            (~a, ~b): (np.asarray(mean), np.asarray(std))
            for (a, b), (mean, std) in moments.both.items()
        }
        self._numbers = {i: a for i, a in enumerate(of) if a in self._z}
        is_missing = self._absent[: self._fewer]
        z = {i: np.where(is_missing[:, a], 0.0, self._z[a]) for i, a in self._numbers.items()}
        self._observed_rows = WeightedRows(self._observed[:, of], z)
        # As they were released, "missing" as a last level.
        self._released = self._cells_of(self._tables, release.higher_order)
        self._released_sums = {c: table for c, (table, _) in self._moments.items()}

    def _take_from_model(self, clique: Clique) -> None:
        """Add a marginal of the model, which was not selected for a measurement.

        A selected marginal is off by more than the noise of its cells adds up to. A trend that is
        off by less is not selected, and adds up in a mean, where noise does not.
        """
        marginals = self._measured.marginals
        shape, n = marginals.shape(clique), len(self._observed)
        counts = weighted_counts(self._observed, clique, shape, np.full(n, self.n_rows / n))
        off = max(1.0, _UNSELECTED * math.sqrt(counts.size))
        marginals = marginals.add(clique, counts, off * self.cell_noise * self.n_rows)
        self._measured = replace(self._measured, marginals=marginals)
        self.flags += (
            f"{', '.join(self.names[a] for a in clique)} were not measured together, since "
            "other pairs seemed worse: taken from the model, which loses weak relations.",
        )

    def draws(self, number: int) -> Iterable[Draw]:
        """Return tables with other noise, and tables of other rows, in pairs.

        Draws of all attributes serve every question. They are kept unless they are large.
        """
        parts = *self._released.values(), *self._released_sums.values()
        if 2 * 8 * sum(table.size for table in parts) * number > _MAX_SHARED:
            return self._new_draws(number)
        if number not in self._shared:
            self._shared[number] = list(self._new_draws(number))
        return self._shared[number]

    def _new_draws(self, number: int) -> Iterator[Draw]:
        rng, n = np.random.default_rng(1), self._fewer  # public: draws show how numbers vary
        for _ in range(number):
            weights = rng.normal(size=n) * np.sqrt(self._design / (self.n_rows * n))
            weights -= weights.mean()
            yield self._noisy(rng), self._resampled(weights)

    def within_bins(self, model: Synthesizer, at: int, marginal: Floats) -> WithinBins:
        """Return the values of a number inside its bins, given its marginal."""
        observed = 1 - float(self._absent[: self._fewer, at].mean())
        facts = self.n_rows, observed, self._sums(at)
        return WithinBins.of(model, self.names[at], marginal, *facts)

    def chance_missing(self, clique: Clique, at: int) -> Floats:
        """Return the share of missing values of an attribute in each cell, from rows of the model.

        It is shrunk towards the mean over all rows.
        """
        rows, is_missing = self._rows[: self._fewer], self._absent[: self._fewer, at].astype(float)
        shape = tuple(self.levels[a].n_groups for a in clique)
        number = weighted_counts(rows, clique, shape, np.ones(len(rows)))
        missing = weighted_counts(rows, clique, shape, is_missing) + _PRIOR_ROWS * is_missing.mean()
        return np.asarray(missing / (number + _PRIOR_ROWS))

    def hardly_observed(self, attributes: Iterable[int]) -> dict[int, float]:
        """Return the share of rows in which each attribute is hardly ever observed.

        Rows with the usual chance of being observed do not count.
        """
        chances = 1 - self._masks.missing(self._rows[: self._fewer, self.of])
        shares = np.mean(chances < np.minimum(_HARDLY, chances.mean(axis=0) / 2), axis=0)
        return {a: float(shares[self.of.index(a)]) for a in attributes}

    def point(self) -> Statistics:
        """Return the statistics that were released, completed for missing values."""
        if not self._shared_release:
            masks = self._learned(self._released, self._rows[:, self.of], SWEEPS)
            parts = self._released, self._released_sums, self._released
            self._shared_release.append(Observed(*parts, masks, None, {}))
        return self.completed(self._shared_release[0], rows=_ROWS)

    def observed(self) -> Statistics:
        """Return the statistics with observed values taken for all."""
        sizes, released = self._tables.sizes, self._released | self._released_sums
        cells = {
            c: released[c][tuple(slice(sizes[i]) for i in axes_of(c))]
            for c in (*self._wanted, *self._wanted_sums)
        }
        shares = {c: float(table.sum()) for c, table in cells.items()}
        cells = {c: table / shares[attributes_of(c)] for c, table in cells.items()}
        return self._in_table(cells, self._missing(self._released))

    def with_rows(self, statistics: Statistics, drawn: Observed) -> Statistics:
        """Return statistics of complete rows with the additional weights of a draw of rows."""
        cells = statistics.cells
        if drawn.weights is not None:
            cells = self._complete_rows.added_to(cells, drawn.weights)
        return Statistics(cells, statistics.missing)

    def _select(self, cliques: Iterable[Clique]) -> None:
        """Choose tables and sums that answer sets of attributes: own ones, or of larger sets."""
        singles = {(a,): None for clique in cliques for a in clique}
        self.cliques = [*singles, *(c for c in cliques if len(c) > 1)]
        own = {clique: tuple(map(self.of.index, clique)) for clique in self.cliques}
        self._sources = {
            clique: min((c for c in self._released if {*places} <= {*c}), key=len)
            for clique, places in own.items()
        }
        self._wanted = [*dict.fromkeys(self._sources.values())]
        self._complete_rows = WeightedRows(self._rows[: self._fewer], self._z)
        chosen = {*own.values()}
        self._wanted_sums = [c for c in self._released_sums if attributes_of(c) in chosen]

    def _in_table(self, cells: Cells, missing: Cells) -> Statistics:
        """Return statistics of the chosen sets of attributes, by positions in the table."""

        def named(c: Clique) -> Clique:
            return tuple(self.of[i] if i >= 0 else ~self.of[~i] for i in c)

        tables = {}
        for clique, source in self._sources.items():
            own = {*map(self.of.index, clique)}
            others = tuple(axis for axis, i in enumerate(source) if i not in own)
            tables[clique] = cells[source].sum(axis=others)
        sums = {named(c): table for c, table in cells.items() if min(c) < 0}
        return Statistics(tables | sums, {named(c): table for c, table in missing.items()})

    def _cells_of(
        self, tables: PairTables, higher_order: Mapping[Clique, Floats]
    ) -> dict[Clique, Floats]:
        cells: dict[Clique, Floats] = {(i,): m for i, m in enumerate(tables.marginals)}
        return cells | {**tables.tables} | {c: t / self.n_rows for c, t in higher_order.items()}

    def _missing(self, cells: Cells) -> Cells:
        """Return the missing shares of attributes in the chosen tables, and at levels of others."""
        missing: dict[Clique, Floats] = {}
        for clique in (c for c in self._wanted if len(c) < 3):
            table = cells[clique]
            for axis, i in enumerate(clique):
                others, size = clique[:axis] + clique[axis + 1 :], self._tables.sizes[i]
                if table.shape[axis] > size:
                    rows = np.moveaxis(table, axis, 0)
                    rows = rows[:, : self._tables.sizes[others[0]]] if others else rows[:, None]
                    applicable = rows[self._applicable[self.of[i]]].sum(axis=0) + rows[size]
                    missing[i, *others] = np.stack([rows[size], applicable])
        return missing

    def _noisy(self, rng: np.random.Generator) -> Observed:
        """Return tables with other noise."""
        again, rates_rng = self.release.redraw_noise(rng), rng.spawn(1)[0]
        sums = {
            c: table + std * rng.normal(size=table.shape)
            for c, (table, std) in self._moments.items()
        }
        retained = {
            (i, j): self._retained[1].get((self.of[i], self.of[j]), 1.0)
            for i, j in self._tables.tables
        }
        tables = add_noise(self._tables, again.tables(self._removed), retained)
        rates = tuple(  # a rate below two deviations was set to 0
            m + rates_rng.normal(0.0, np.where(m > 0, std, 2 * std))
            for m, std in zip(self._tables.marginals, self.release.marginal_stds, strict=True)
        )
        with_rates = self._cells_of(replace(tables, marginals=rates), {})
        tables = replace(tables, marginals=self._restore(tables.marginals, rng))
        cells = self._cells_of(tables, again.higher_order)
        return Observed(cells, sums, with_rates, self._learned_quickly(cells), None, {})

    def _restore(self, marginals: Sequence[Floats], rng: np.random.Generator) -> tuple[Floats, ...]:
        """Return marginals with another error of the rows that clipping removed."""
        if self._removed is None:
            return tuple(marginals)
        noisy = [
            m + CLIPPED * (1 - self._retained[0][a]) * np.sqrt(m) * rng.normal(size=len(m))
            for a, m in zip(self.of, marginals, strict=True)
        ]
        positive = [np.maximum(marginal, 0.0) for marginal in noisy]
        return tuple(marginal / marginal.sum() for marginal in positive)

    def _resampled(self, weights: Floats) -> Observed:
        """Return tables with additional weight on each row, missing values included."""
        cells = self._observed_rows.added_to(self._released, weights)
        sums, masks = self._released_sums, self._learned_quickly(cells)
        return Observed(cells, sums, cells, masks, weights, {})

    def _pair_tables(self, cells: Cells) -> PairTables:
        """Return the released tables with other shares."""
        marginals = tuple(cells[i,] for i in range(len(self.of)))
        pairs = {pair: cells[pair] for pair in self._tables.tables}
        return replace(self._tables, marginals=marginals, tables=pairs)

    def _learned_quickly(self, cells: Cells) -> MissingnessModel:
        """Return the model of missing cells that a draw of tables determines."""
        rows = self._rows[:_FEWER, self.of]
        return self._learned(cells, rows[:: max(1, len(rows) // _LEARN_FROM)], _FEW_SWEEPS)

    def _learned(self, cells: Cells, rows: Ints, sweeps: int) -> MissingnessModel:
        tables = self._pair_tables(cells)
        if not self._masks.present.any():
            return random_masks(tables, ModelFacts())
        return learn_masks(tables, rows, start=self._masks, sweeps=sweeps)

    def completed(self, observed: Observed, *, rows: int = _FEWER) -> Statistics:
        """Return statistics of complete rows, from tables of observed values.

        Sums of a draw of rows are weighted here, since most questions need few sums.
        """
        drawn, masks = self._rows[:rows, self.of], observed.masks
        some = drawn if self._masks.present.any() else drawn[:0]
        tables = self._pair_tables(observed.tables)
        wanted = {a for clique in self._wanted for a in clique}
        known = observed.marginals
        corrected = CorrectedTables(tables, some, masks, attributes=wanted, marginals=known)
        cells, larger = dict[Clique, Floats](), dict[Clique, Floats]()
        for clique in self._wanted:
            if len(clique) == 1:
                cells[clique] = corrected.marginal(clique[0])
            elif len(clique) == 2:
                i, j = clique
                product = np.outer(corrected.marginal(i), corrected.marginal(j))
                cells[clique] = corrected.excess((i, j)) + product
            else:
                larger[clique] = self.n_rows * observed.tables[clique]
        sizes = self._tables.sizes
        cells |= complete_marginals(larger, {}, masks, drawn, sizes, shrink=False)
        means: Cells = {c: observed.sums[c] for c in self._wanted_sums}
        if observed.weights is not None:
            means = self._observed_rows.added_to(means, observed.weights)
        sums = self._complete_sums(means, cells, masks, drawn)
        return self._in_table({**cells, **sums}, self._missing(observed.for_rates))

    def _complete_sums(
        self, means: Cells, complete: Cells, masks: MissingnessModel, rows: Ints
    ) -> Cells:
        """Return sums of standardised numbers over complete rows: see `number_covariances`."""
        if not means:
            return {}
        sums = {c: (mean, self._moments[c][1]) for c, mean in means.items()}
        by_level = {(~a, c): pair for (a, c), pair in sums.items() if c >= 0}
        both: Any = {(~a, ~b): pair for (a, b), pair in sums.items() if b < 0}
        numbers = {a for a, _ in by_level} | {a for pair in both for a in pair}
        scores = self._measured.numeric_scores
        levels = {i: scores[a].levels for i, a in self._numbers.items() if i in numbers}
        marginals = {i: complete[i,] for c in means for i in attributes_of(c)}
        moments = NumberMoments({}, {}, by_level, both)
        is_missing = self._absent[: len(rows), self.of]
        centred = number_covariances(moments, levels, marginals, rows, is_missing, masks)
        mean = {i: float(marginals[i] @ level) for i, (level, _) in levels.items()}
        cells = {(~a, c): x + mean[a] * marginals[c] for (a, c), (x, _) in centred.by_level.items()}
        products = {(~a, ~b): x + mean[a] * mean[b] for (a, b), (x, _) in centred.both.items()}
        return cells | {c: np.asarray(product) for c, product in products.items()}

    def _sums(self, at: int) -> ReleasedSums | None:
        """Return the sums of a number that were released beside its bins, if there are any."""
        release = self._measured
        if at not in release.numeric_scores:
            return None
        i, level, number = self.of.index(at), self.levels[at], release.numeric_scores[at]
        marginal, size = self._tables.marginals[i], self._sizes[at]
        observed, retained = float(marginal[: level.n_groups].sum()), float(self._retained[0][at])
        shares = marginal[level.groups] * level.shares / observed
        (mean, std), (powers, stds) = (sums[i] for sums in self._single_sums)
        line, square = number.powers
        parts = np.stack([number.z, line, square - 1.0])
        by_code = release.retained_by_code(at, self._observed)
        codes = np.bincount(self._observed[:, at], minlength=level.n_groups)[number.groups]
        removed = parts @ ((1 - by_code) * number.shares * codes / len(self._observed))
        means = (np.array([mean, powers[0], powers[1] - observed]) - removed) / observed
        means[2] += shares[size:].sum()  # its square less 1 was added where it is not applicable
        second_std = stds[0] * number.factors[0] * self.n_rows
        share_std = (release.marginals.std**-2 + second_std**-2) ** -0.5 / self.n_rows
        order = np.argsort(number.values, kind="stable")
        return ReleasedSums(
            number.values[order],
            (parts * by_code)[:, order],
            means,
            np.hypot([std, *stds], CLIPPED * (1 - retained)) / observed,
            shares[:size],
            share_std / (observed * retained),
        )
