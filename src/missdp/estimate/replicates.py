"""Statistics of complete rows that a model released, unshrunk, and draws of their errors.

Everything here is a function of released values and public facts. Standard errors come from three
kinds of draws of the statistics. The first has other noise, the second has other rows with their
missing values, and the third has other complete rows. Missing values add the difference of the last
two.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np

from missdp.estimate.within_bins import ReleasedSums, WithinBins
from missdp.inference.completion import (
    Completed,
    ModelFacts,
    PairTables,
    complete_marginals,
    complete_with_rows,
)
from missdp.inference.product_sums import ClippingBias, NumberMoments, number_covariances
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.learn_pairs import PairRelease, ordered_levels
from missdp.synth.numeric_scores import draw_fine_codes
from missdp.synth.uncertain import add_noise, weighted_counts
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


Draw = tuple[Floats, Statistics, Statistics]


def axes_of(clique: Clique) -> Clique:
    """Return the attributes whose codes are the axes of a table: all but standardised numbers."""
    return tuple(a for a in clique if a >= 0)


def attributes_of(clique: Clique) -> Clique:
    """Return the attributes that a table is about, in the order of the schema."""
    return tuple(sorted(max(a, ~a) for a in clique))


def is_within(clique: Clique, measured: Iterable[Clique]) -> bool:
    """Return whether a set of attributes is a part of a measured set."""
    return len(clique) < 2 or any({*clique} <= {*one} for one in measured)


def _with_weights(cells: Cells, rows: Ints, z: Mapping[int, Floats], weights: Floats) -> Cells:
    """Return tables with additional weight on each row."""
    weighted_cells = {}
    for clique, table in cells.items():
        weighted = math.prod((z[~a] for a in clique if a < 0), start=weights)
        axes = axes_of(clique)
        weighted_cells[clique] = table + (
            weighted_counts(rows, axes, table.shape, weighted) if axes else weighted.sum()
        )
    return weighted_cells


class Replicates:
    """Released statistics of complete rows, and statistics of other draws of noise and rows.

    A model fitted to the release draws rows, which represent the private rows. The release of an
    attribute ``a`` of the table is at position ``of.index(a)``.
    """

    flags: tuple[str, ...] = ()

    def __init__(self, model: AIM | MST | AllPairs) -> None:
        fitted: Any = model.model_
        self.names = model.modelled_.names
        self._model, self._measured = model, PairRelease.of(model.tables_)
        self.levels, self.n_rows = fitted.levels, self._measured.rows
        self.cell_noise = self._measured.cell_std / self.n_rows  # of the share of a cell of a pair
        self._masks, self._rng = fitted.masks, np.random.default_rng(0)  # public: any points do
        named = zip(self.levels, self.names, strict=True)
        self._applicable = [np.unique(x.groups[: model.schema_[n].size]) for x, n in named]
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
        """Return the replicates of some attributes, or of all attributes if values are missing.

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
            some._masks = self._masks.restricted_to(sorted(of))
        elif unmeasured:
            some._restrict(self.of)
        elif measured.products is not None and not self._masks.present.any():
            some._restrict(sorted({a for clique in cliques for a in clique}))
        return some

    def _restrict(self, of: list[int]) -> None:
        self._shared: dict[int, list[Draw]] = {}  # draws of further questions on the same tables
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
        """Return random weights of rows, statistics with other noise, and with these weights.

        Draws of all attributes serve every question. They are kept unless they are large.
        """
        cells = sum(table.size for table in self._released.cells.values())
        if 2 * 8 * cells * number > _MAX_SHARED:
            return self._new_draws(number)
        if number not in self._shared:
            self._shared[number] = list(self._new_draws(number))
        return self._shared[number]

    def _new_draws(self, number: int) -> Iterator[Draw]:
        rng, n = np.random.default_rng(1), self._fewer  # public: draws show how numbers vary
        for _ in range(number):
            weights = rng.normal(size=n) * np.sqrt(self._model.fitted_.design / (self.n_rows * n))
            weights -= weights.mean()
            yield weights, self._noisy(rng), self._resampled(weights)

    def within_bins(self, at: int, marginal: Floats) -> WithinBins:
        """Return the values of a number inside its bins, given its marginal."""
        observed = 1 - float(self._absent[: self._fewer, at].mean())
        facts = self.n_rows, observed, self._sums(at)
        return WithinBins.of(self._model, self.names[at], marginal, *facts)

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
        modelled = self.of if self.is_wide else [*range(len(self.names))]
        chances = 1 - self._masks.missing(self._rows[: self._fewer, modelled])
        shares = np.mean(chances < np.minimum(_HARDLY, chances.mean(axis=0) / 2), axis=0)
        return {a: float(shares[modelled.index(a)]) for a in attributes}

    def point(self) -> Statistics:
        """Return the statistics that were released, completed for missing values."""
        return self._completed(self._released, _ROWS)

    def observed(self) -> Statistics:
        """Return the statistics with observed values taken for all."""
        sizes, released = self._tables.sizes, self._released
        cells = {
            c: table[tuple(slice(sizes[i]) for i in axes_of(c))]
            for c, table in released.cells.items()
        }
        shares = {c: float(table.sum()) for c, table in cells.items()}
        cells = {c: table / shares[attributes_of(c)] for c, table in cells.items()}
        return Statistics(cells, released.missing)

    def among(self, statistics: Statistics, cliques: Collection[Clique]) -> Statistics:
        """Return the statistics of some sets of attributes, by positions in the table."""

        def chosen(cells: Cells) -> dict[Clique, Floats]:
            named = {
                tuple(self.of[i] if i >= 0 else ~self.of[~i] for i in c): table
                for c, table in cells.items()
            }
            return {c: table for c, table in named.items() if attributes_of(c) in cliques}

        tables = {}
        for clique in cliques:  # each of them, or a sum over a larger one
            places = tuple(map(self.of.index, clique))
            larger = min((c for c in statistics.cells if {*places} <= {*c}), key=len)
            others = tuple(axis for axis, i in enumerate(larger) if i not in places)
            tables[clique] = statistics.cells[larger].sum(axis=others)
        return Statistics(tables | chosen(statistics.cells), chosen(statistics.missing))

    def with_rows(self, statistics: Statistics, weights: Floats) -> Statistics:
        """Return statistics by positions in the table with additional weight on each row."""
        cells = _with_weights(statistics.cells, self._rows[: self._fewer], self._z, weights)
        return Statistics(cells, statistics.missing)

    @cached_property
    def _released(self) -> Statistics:
        """The statistics as they were released, "missing" as a last level."""
        sums: dict[Clique, Floats] = {c: table for c, (table, _) in self._moments.items()}
        return self._statistics(self._tables, sums, self.release.higher_order)

    def _statistics(
        self, tables: PairTables, sums: Cells, higher_order: Mapping[Clique, Floats]
    ) -> Statistics:
        cells: dict[Clique, Floats] = {(i,): m for i, m in enumerate(tables.marginals)}
        cells |= {**tables.tables} | {c: t / self.n_rows for c, t in higher_order.items()}
        return Statistics({**cells, **sums}, self._missing(cells))

    def _missing(self, cells: Cells) -> Cells:
        """Return the missing shares of each attribute, by itself and at levels of others."""
        missing: dict[Clique, Floats] = {}
        for clique, table in cells.items():
            for axis, i in enumerate(clique if len(clique) < 3 and min(clique) >= 0 else ()):
                others, size = clique[:axis] + clique[axis + 1 :], self._tables.sizes[i]
                if table.shape[axis] > size:
                    rows = np.moveaxis(table, axis, 0)
                    rows = rows[:, : self._tables.sizes[others[0]]] if others else rows[:, None]
                    applicable = rows[self._applicable[self.of[i]]].sum(axis=0) + rows[size]
                    missing[i, *others] = np.stack([rows[size], applicable])
        return missing

    def _noisy(self, rng: np.random.Generator) -> Statistics:
        """Return statistics with other noise."""
        again, for_rates = self.release.redraw_noise(rng), rng.spawn(1)[0]
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
            m + for_rates.normal(0.0, np.where(m > 0, std, 2 * std))
            for m, std in zip(self._tables.marginals, self.release.marginal_stds, strict=True)
        )
        missing = self._statistics(replace(tables, marginals=rates), {}, {}).missing
        tables = replace(tables, marginals=self._restore(tables.marginals, rng))
        noisy = self._statistics(tables, sums, again.higher_order)
        return self._completed(Statistics(noisy.cells, missing))

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

    def _resampled(self, weights: Floats) -> Statistics:
        """Return statistics with additional weight on each row, missing values included."""
        is_missing = self._absent[: self._fewer]
        z = {i: np.where(is_missing[:, a], 0.0, self._z[a]) for i, a in self._numbers.items()}
        cells = _with_weights(self._released.cells, self._observed[:, self.of], z, weights)
        return self._completed(Statistics(cells, self._missing(cells)))

    def _completed(self, observed: Statistics, rows: int = _FEWER) -> Statistics:
        """Return statistics of complete rows, from statistics of observed values."""
        cells, tables, has_missing = observed.cells, self._tables, bool(self._masks.present.any())
        drawn = self._rows[:rows, self.of]
        tables = replace(
            tables,
            marginals=tuple(cells[i,] for i in range(len(self.of))),
            tables={pair: cells[pair] for pair in tables.tables},
        )
        ordered = ordered_levels(self._model.modelled_, self._measured.levels)
        facts = ModelFacts(ordered=[ordered[a] for a in self.of])
        start = self._masks if has_missing else None
        if rows == _ROWS:
            completion = complete_with_rows(tables, facts, drawn, start=start)
        else:
            completion = complete_with_rows(
                tables, facts, drawn, start=start, learn_from=_LEARN_FROM, sweeps=_FEW_SWEEPS
            )
        complete_cells: dict[Clique, Floats] = {(i,): m for i, m in enumerate(completion.marginals)}
        for (i, j), excess in completion.pairs.items():
            complete_cells[i, j] = excess + np.outer(*(completion.marginals[k] for k in (i, j)))
        larger = {c: self.n_rows * table for c, table in cells.items() if len(c) > 2}
        complete_cells |= complete_marginals(
            larger, {}, completion.masks, drawn, tables.sizes, shrink=False
        )
        return Statistics(
            {**complete_cells, **self._sums_of_all(cells, completion, drawn)}, observed.missing
        )

    def _sums_of_all(self, observed: Cells, completion: Completed, rows: Ints) -> Cells:
        """Return sums of standardised numbers over complete rows: see `number_covariances`."""
        sums = {c: (observed[c], std) for c, (_, std) in self._moments.items()}
        by_level = {(~a, c): pair for (a, c), pair in sums.items() if c >= 0}
        both: Any = {(~a, ~b): pair for (a, b), pair in sums.items() if b < 0}
        if not sums:
            return {}
        levels = {i: self._measured.numeric_scores[a].levels for i, a in self._numbers.items()}
        marginals, is_missing = completion.marginals, self._absent[: len(rows), self.of]
        moments = NumberMoments({}, {}, by_level, both)
        centred = number_covariances(moments, levels, marginals, rows, is_missing, completion.masks)
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
        marginal, size = self._tables.marginals[i], self._model.schema_[self.names[at]].size
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
