"""Tables of complete rows on declared codes that a model released, and draws of their errors.

Everything here is a function of released values and public facts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from missdp.errors import ParameterError
from missdp.estimate.replicates import Cells, Observed, Replicates, Statistics, axes_of, is_within
from missdp.estimate.slopes import WithinBinSlopes
from missdp.estimate.within_bins import WithinBinDraw, WithinBins
from missdp.schema import Numeric
from missdp.synth import AIM, MST, AllPairs
from missdp.synth.base import Synthesizer
from missdp.synth.workload import candidates, fixed_workload
from missdp.threads import one_blas_thread
from missdp.types import Clique, Floats

N_DRAWS = 100  # draws of tables from which errors are computed
_CACHED = 8  # questions of a model whose tables are cached, up to hundreds of megabytes
_LEAN, _LEAN_STD = 0.5, 0.5  # steepness of relations inside bins, and its error


@dataclass(frozen=True, eq=False)
class Tables:
    """Shares of complete rows on declared codes, and the values of numbers inside their bins."""

    cells: Cells
    weights: Mapping[int, Floats]  # by number, the weight of each value in its code
    lean: float  # steepness of relations inside bins, relative to straight lines
    slopes: Mapping[int, WithinBinSlopes]  # by number
    missing: Cells

    def of(self, *attributes: int) -> Floats:
        """Return the table of some attributes, in this order."""
        clique = tuple(sorted(attributes))
        return self.cells[clique].transpose([clique.index(a) for a in attributes])

    def separated(self, at: int, chances: Mapping[Clique, Floats]) -> Tables:
        """Return tables in which rows that lack an attribute have further codes of it.

        ``chances`` has the chance that the attribute is missing in each cell, its axis first.
        """

        def divided(table: Floats, axes: Clique) -> Floats:
            table, chance = np.moveaxis(table, axes.index(at), 0), chances[axes]
            codes, rest = table[: len(chance)], table[len(chance) :]
            table = np.concatenate([codes - codes * chance, codes * chance, rest])
            return np.moveaxis(table, 0, axes.index(at))

        cells = {c: divided(t, axes_of(c)) if at in c else t for c, t in self.cells.items()}
        return replace(self, cells=cells)


class ReleasedTables:
    """Released tables of sets of attributes, and draws around them.

    Codes of a number are its bins, then the tail intervals in which rows may be hidden, then "not
    applicable", if it is a level.
    """

    point: Tables
    observed: Tables  # with observed values in the place of all values
    noise: list[Tables]  # with other noise
    sampled: list[Tables]  # of other rows, missing values included
    complete: list[Tables]  # of other complete rows
    extremes: dict[int, Tables]  # by number, with as many hidden rows as are possible
    within: dict[int, WithinBins]  # by number
    n_rows: float  # rows that tell as much
    is_wide: bool  # whether estimates are released values, since rows of a wide table take long
    count_noise: float  # standard deviation of the count of a level, relative to all rows
    hardly_observed: dict[int, float]  # by attribute, share of rows without observed values
    flags: tuple[str, ...]

    def __init__(self, replicates: Replicates, model: Synthesizer, draws: int) -> None:
        self._replicates, self._rng = replicates, np.random.default_rng(2)  # public: any seed does
        self._cliques, self._exact = replicates.cliques, replicates.point()
        singles = [clique for clique in self._cliques if len(clique) == 1]
        marginals = {a: self._declared((a,), self._exact.cells[a,]) for (a,) in singles}
        self.within = {
            a: replicates.within_bins(model, a, marginal)
            for a, marginal in marginals.items()
            if isinstance(model.schema_[replicates.names[a]], Numeric)
        }
        even = {a: within.released for a, within in self.within.items()}
        self._slopes = {a: self._slopes_of(a, marginals[a], draw) for a, draw in even.items()}
        self.noise, self.sampled, self.complete = [], [], []
        for noisy, drawn in replicates.draws(draws):
            self._add_draw(replicates.completed(noisy), drawn)
        self.point = self._tables(self._exact, even)
        self.observed = self._tables(replicates.observed(), even)
        extremes = {a: x.extreme[0] for a, x in self.within.items() if x.extreme}
        self.extremes = {a: self._tables(self._exact, even | {a: x}) for a, x in extremes.items()}
        is_weighted = model.fitted_.size is not None and model.fitted_.size.weight is not None
        self.n_rows = replicates.n_rows / (model.fitted_.design if is_weighted else 1.0)
        self.is_wide = replicates.is_wide
        self.count_noise = replicates.release.marginals.std / replicates.n_rows
        self.hardly_observed = replicates.hardly_observed(a for (a,) in singles)
        self.flags = replicates.flags

    def chances_missing(self, at: int, codes: int) -> dict[Clique, Floats]:
        """Return the chance that an attribute is missing in each cell, its axis first."""
        chances = {}
        for clique in (c for c in self._cliques if at in c):
            chance = self._replicates.chance_missing(clique, at)
            for axis, a in enumerate(clique):
                groups = self._replicates.levels[a].groups
                if a in self.within:
                    size, home = len(self.within[a].shares), self.within[a].tails.home
                    groups = groups[[*range(size), *home, *range(size, len(groups))]]
                chance = chance.take(groups, axis=axis)
            chances[clique] = np.moveaxis(chance, clique.index(at), 0)[:codes]
        return chances

    def _slopes_of(self, at: int, marginal: Floats, draw: WithinBinDraw) -> WithinBinSlopes:
        points, home = self.within[at].tails.appended_to(self.within[at].points)
        shares = self.within[at].split_table(marginal, 0, draw, self._rng)[: len(points)]
        noise = self._replicates.cell_noise
        return WithinBinSlopes.of(points, draw.weights, shares, home, noise=noise)

    def _add_draw(self, noisy: Statistics, other_rows: Observed) -> None:
        """Add tables with other noise, and of other rows with and without missing values."""
        drawn = self._replicates.completed(other_rows)
        draws = {}
        for a, within in self.within.items():
            shift = self._declared((a,), noisy.cells[a,] - self._exact.cells[a,])
            draws[a] = within.noisy(self._rng, shift)
        self.noise.append(self._tables(noisy, draws, self._rng.normal(_LEAN, _LEAN_STD)))
        both = {a: within.resampled(self._rng) for a, within in self.within.items()}
        self.sampled.append(self._tables(drawn, {a: draw for a, (draw, _) in both.items()}))
        complete = self._replicates.with_rows(self._exact, other_rows)
        complete = complete._replace(missing=drawn.missing)
        self.complete.append(self._tables(complete, {a: draw for a, (_, draw) in both.items()}))

    def _declared(self, clique: Clique, table: Floats) -> Floats:
        """Return a table on declared codes: levels of a group have their shares of it."""
        for axis, a in enumerate(clique):
            level = self._replicates.levels[a]
            along = [-1 if i == axis else 1 for i in range(len(clique))]
            table = table.take(level.groups, axis=axis) * level.shares.reshape(along)
        return table

    def _tables(
        self, statistics: Statistics, draws: Mapping[int, WithinBinDraw], lean: float = _LEAN
    ) -> Tables:
        """Return tables on declared codes, given how the values of numbers lie in their bins."""
        cells = {c: self._declared(axes_of(c), table) for c, table in statistics.cells.items()}
        for clique in (c for c in cells if c[0] < 0 and c[1] in self.within):
            a = clique[1]
            split_sums = self.within[a].split_sums
            cells[clique] = split_sums(cells[clique], cells[a,], draws[a], self._rng)
        for a, draw in draws.items():
            cells[a,][: len(draw.shift)] += draw.shift
        for clique in self._cliques:
            for axis, a in enumerate(clique):
                if a in self.within:
                    split_table = self.within[a].split_table
                    cells[clique] = split_table(cells[clique], axis, draws[a], self._rng)
        weights = {a: draw.weights for a, draw in draws.items()}
        missing = {
            c: np.stack([self._declared(c[1:], row) for row in both])
            for c, both in statistics.missing.items()
        }
        return Tables(cells, weights, lean, self._slopes, missing)


# By model, so no value may refer to its model. Otherwise no model would ever be freed.
_CACHE: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


@one_blas_thread()
def released_tables(
    model: Synthesizer, cliques: Iterable[tuple[str, ...]], *, draws: int = N_DRAWS
) -> ReleasedTables:
    """Return the tables of sets of attributes that a fitted model implies.

    Parameters
    ----------
    model : Synthesizer
        A fitted model.
    cliques : iterable of tuple of str
        Names of attributes, one tuple for each table.
    draws : int, default 100
        Number of draws of the tables.

    Returns
    -------
    ReleasedTables

    Raises
    ------
    ParameterError
        If the family releases no statistics, or does not release these attributes.
    """
    model = require_statistics(model)
    names = model.modelled_.names
    places = tuple(sorted({tuple(sorted(map(names.index, c))) for c in cliques}))
    _check_measured(model, places)
    cache = _CACHE.setdefault(model.model_, {})
    if (places, draws) not in cache:
        if () not in cache:
            cache[()] = Replicates(model)
        for oldest in [key for key in cache if key][: max(0, len(cache) - _CACHED)]:
            del cache[oldest]
        cache[places, draws] = ReleasedTables(cache[()].about(places), model, draws)
    result: ReleasedTables = cache[places, draws]
    return result


def require_statistics(model: Synthesizer) -> AIM | MST | AllPairs:
    """Return a fitted model. Raise ParameterError if its family releases no statistics."""
    if model.fitted_.tables is None or not isinstance(model, AIM | MST | AllPairs):
        raise ParameterError(
            f"{type(model).__name__} keeps no statistics to estimate from. Use AllPairs, AIM or MST"
        )
    return model


def _check_measured(model: AIM | MST | AllPairs, cliques: Sequence[Clique]) -> None:
    """Raise for tables that are not in the workload, before anything is computed."""
    measured = [*model.tables_.higher_order]
    if not isinstance(model, AllPairs):
        measured += candidates(fixed_workload(model.workload), model.modelled_)
    elif products := model.tables_.products:
        # A wide table has pairs of near columns only. Nothing bounds the error of other pairs.
        place = {name: a for a, name in enumerate(model.modelled_.names)}
        measured += [(place[one], place[other]) for one, other in products.pairs]
    for clique in cliques:
        if not is_within(clique, measured):
            names = model.modelled_.names
            raise ParameterError(
                f"{', '.join(names[a] for a in clique)} are not together in the workload. Name "
                "them in workload= of AllPairs or AIM"
            )
