"""Distances of rows, and the k nearest donors of every incomplete row.

*Distances* are sums of one term for each matching attribute. The term of an ordinal or numeric
attribute is the range-normalised difference. The term of a categorical attribute is 1 for a
mismatch (Gower). The Euclidean metric takes the squares of terms, and has the same order as its
root. Scales are public, from the schema. Terms are multiples of 2**-16, so that sums are exact, and
ties do not depend on the order of summation. A cell without a value has a level of its own, at the
largest distance from every other level. Missing cells have one level, and cells that are not
applicable have another.

*Ties.* Let a recipient have N strictly nearer donors, and T donors at the distance of the k-th
donor. It takes all N donors, and k - N of the T donors. A recipient counts as the average over T
choices. Each choice has k - N donors that follow each other in the order of the table, around a
circle. So each of the T donors counts for (k - N) / T. With k = 1 the recipient is filled from each
of its nearest donors once. Nothing is drawn at random, and recipients of one matching cell have the
same ways to be filled.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import ParameterError, UnprovenError, check_choice, check_number
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.statistics.blocks import portions, runs, slices
from missdp.statistics.imputed_rows import RowView

MetricName = Literal["gower", "euclidean"]
_UNIT = 1 << 16  # integer steps of a distance of 1
# Distance of a mismatch in a grouping attribute, larger than any sum of matching terms.
FAR = 1 << 26
_MAX_SITES = 1 << 20  # largest number of cells in which a donor may be
_MAX_MATCH, _MAX_GROUP = 128, 8  # largest numbers of matching and grouping attributes
_MAX_KEYS = 1 << 62  # largest number of matching cells, so that keys are 64-bit integers


@dataclass(frozen=True, eq=False)
class Metric:
    """Integer distance tables of the matching attributes, all public.

    An attribute of ``together`` must apply to the donor exactly if it applies to the recipient
    (`_state`). Tables of ``together`` come first, then tables of ``names``.
    """

    names: tuple[str, ...]  # grouping attributes, then matching ones
    tables: tuple[NDArray[np.int32], ...]  # from a recipient's code to a donor's
    together: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of every attribute."""
        return tuple(len(table) for table in self.tables)

    @property
    def site_tables(self) -> tuple[NDArray[np.int32], ...]:
        """Tables from a recipient's code to a donor's. No donor is in an open state."""
        states, others = self.tables[: len(self.together)], self.tables[len(self.together) :]
        return (*(table[:, :_OPEN] for table in states), *others)

    @property
    def site_shape(self) -> tuple[int, ...]:
        """Codes of a donor."""
        return tuple(table.shape[1] for table in self.site_tables)

    @property
    def sites(self) -> int:
        """Number of sites where a hypothetical donor can be."""
        return int(np.prod(self.site_shape, dtype=np.int64))

    def distances(self, rows: NDArray[np.int64], donors: NDArray[np.int64]) -> NDArray[np.int32]:
        """Distances between cells, shapes (a, m) and (b, m) to (a, b)."""
        total = np.zeros((len(rows), len(donors)), dtype=np.int32)
        for column, table in enumerate(self.tables):
            total += np.take(table[rows[:, column]], donors[:, column], axis=1)
        return total


def build_metric(
    schema: Schema,
    *,
    match_on: Mapping[str, float],
    group: tuple[str, ...],
    metric: MetricName,
    together: tuple[str, ...] = (),
) -> Metric:
    """Return the distance tables of matching attributes, from public facts.

    Parameters
    ----------
    schema : Schema
        Public facts about the attributes.
    match_on : mapping of str to float
        Attributes that donors are matched on, with their weights.
    group : tuple of str
        Attributes on which donors must agree exactly.
    metric : {"gower", "euclidean"}
        See `KNNImputation`.
    together : tuple of str, default ()
        Attributes that are filled together and that may not be applicable.

    Returns
    -------
    Metric

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    UnprovenError
        If the public domain is too large for the exact sensitivity bound.

    Examples
    --------
    >>> from missdp.statistics.donors import build_metric
    >>> from missdp import Ordinal, Schema
    >>> schema = Schema((Ordinal(name="grade", levels=("low", "mid", "high")),))
    >>> metric = build_metric(schema, match_on={"grade": 1.0}, group=(), metric="gower")
    >>> metric.tables[0][0].tolist()
    [0, 32768, 65536]
    """
    check_choice("metric", metric, get_args(MetricName))
    if len(match_on) > _MAX_MATCH or len(group) > _MAX_GROUP:
        raise ParameterError(f"at most {_MAX_MATCH} matching and {_MAX_GROUP} grouping attributes")
    if len(together) > _MAX_GROUP:
        raise ParameterError(f"impute at most {_MAX_GROUP} attributes that may not be applicable")
    for weight in match_on.values():
        check_number("a matching weight", weight, max_value=math.inf, exclude_min=True)
    heaviest = max(match_on.values(), default=1.0)
    tables = [_with_zeros(FAR, schema[name].extended_size) for name in group]
    tables += [_table(schema[n], w / heaviest, metric) for n, w in match_on.items()]
    tables = [*([_STATES] * len(together)), *tables]
    for table in tables:
        table.flags.writeable = False
    built = Metric((*group, *match_on), tuple(tables), together)
    if np.prod(np.array(built.shape, dtype=object)) >= _MAX_KEYS:
        raise UnprovenError("the domain of the matching attributes is too large. Match on fewer")
    if np.prod(np.array(built.site_shape, dtype=object)) > _MAX_SITES:
        raise UnprovenError(
            f"the public domain of the matching attributes has more than {_MAX_SITES} cells, too "
            "many for the exact sensitivity bound. Match on fewer attributes, or use coarser bins"
        )
    return built


_ABSENT, _OPEN = 1, 2  # codes of `_state`
# Recipients for which it is open whether an attribute applies accept all donors.
_STATES = np.array([[0, FAR, FAR], [FAR, 0, FAR], [0, 0, FAR]], dtype=np.int32)


def _state(rows: RowView, name: str) -> NDArray[np.int64]:
    """Return for each row 0 if an attribute applies, 1 if it does not, and 2 if it may apply."""
    applies = rows.applies(name)
    return np.where(applies.is_true, 0, np.where(applies.is_false, _ABSENT, _OPEN))


def _with_zeros(off: ArrayLike, size: int) -> NDArray[np.int32]:
    """Return a table that is 0 on its diagonal."""
    return np.where(np.eye(size, dtype=bool), 0, off).astype(np.int32)


def _table(attribute: AnyAttribute, weight: float, metric: MetricName) -> NDArray[np.int32]:
    size = attribute.extended_size
    term = np.ones((size, size))
    if not isinstance(attribute, Categorical):
        # Ordered levels have a place in [0, 1]: by rank, or by the middle of the bin.
        ranks = np.arange(attribute.size, dtype=np.float64)
        at = attribute.centres if isinstance(attribute, Numeric) else ranks
        span = at[-1] - at[0]
        at = (at - at[0]) / span if span > 0 else at * 0.0
        term[: attribute.size, : attribute.size] = np.abs(at[:, None] - at[None, :])
    if metric == "euclidean":
        term = term**2
    # Different levels stay apart even when their term rounds to nothing.
    return _with_zeros(np.maximum(np.rint(term * weight * _UNIT), 1), size)


IntArray: TypeAlias = NDArray[np.int64]
_CHUNK = 1 << 22  # distances in memory at once
_ROWS = 1 << 20  # rows in memory at once


@dataclass(frozen=True, eq=False, repr=False)
class _Side:
    """Donors, or recipients, sorted by cell. Private."""

    rows: IntArray  # numbers in the table, increasing within a cell
    start: IntArray  # where each cell begins, and the last one ends

    @property
    def counts(self) -> IntArray:
        """Rows per cell."""
        return np.diff(self.start)


@dataclass(frozen=True, eq=False, repr=False)
class DonorLayout:
    """A private table, grouped by matching cell for the search of donors."""

    metric: Metric  # public
    codes: IntArray  # of the distinct matching cells that occur, shape (cells, attributes)
    donors: _Side  # complete rows
    recipients: _Side  # incomplete rows

    @classmethod
    def of(cls, rows: RowView, names: Sequence[str], metric: Metric) -> DonorLayout:
        """Group rows by matching cell, and find donors and recipients of some attributes.

        The attributes are filled together. A donor has no missing cell in any of the attributes,
        and a value in at least one. A recipient lacks an attribute that surely applies to it. Other
        rows are neither. Either no attribute applies to them, or this is open. The cells of each
        row decide.
        """
        give, take = (np.empty(len(rows), bool) for _ in range(2))
        for where, part in rows.parts():
            lacking, valued, complete = (np.full(len(part), x) for x in (False, False, True))
            for name in names:
                missing = part.is_missing(name)
                lacking |= missing & part.applies(name).is_true
                valued |= ~part.mask(name)
                complete &= ~missing
            give[where], take[where] = complete & valued, lacking
        occupied, cell = _cells(rows, metric)
        codes = np.stack(np.unravel_index(occupied, metric.shape), axis=1).astype(np.int64)
        sides = (_side(np.flatnonzero(keep), cell, len(occupied)) for keep in (give, take))
        return cls(metric, codes, *sides)

    def near(self, n_donors: int) -> NearbyCells:
        """Find, for every cell with recipients, its donor cells up to ``n_donors`` donors and ties.

        A cell with ``n_donors`` donors has itself as its only neighbour. The matrix of distances
        from other cells to the donor cells is built in chunks.
        """
        counts = self.donors.counts
        cells = np.flatnonzero(self.recipients.counts > 0)
        donor_cells = np.flatnonzero(counts > 0)
        dense, sparse = (
            np.flatnonzero(some) for some in (counts[cells] >= n_donors, counts[cells] < n_donors)
        )
        parts = [(dense, cells[dense], np.zeros(len(dense), dtype=np.int64))]
        for where in slices(len(sparse), max(1, _CHUNK // max(1, len(donor_cells)))):
            chunk = sparse[where]
            index, cell, distance = _nearest(self, cells[chunk], donor_cells, counts, n_donors)
            parts.append((chunk[index], cell, distance))
        owner, cell, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(owner, kind="stable")
        owner, cell, distance = owner[order], cell[order], distance[order]
        first, starts = np.flatnonzero(_begins(owner, distance)), np.arange(len(cells) + 1)
        shell_owner, shell_distance = owner[first], distance[first]
        shell_start, shell_pair = np.searchsorted(shell_owner, starts), np.append(first, len(owner))
        before = np.concatenate([[0], np.cumsum(counts[cell])])[shell_pair]
        radius = np.full(len(cells), FAR - 1, dtype=np.int64)
        last = before[1:] - before[shell_start[shell_owner]] >= n_donors
        radius[shell_owner[last]] = shell_distance[last]
        return NearbyCells(
            cells, np.searchsorted(owner, starts), cell, distance, shell_start,
            shell_owner * (2 * FAR) + shell_distance, shell_pair, before, radius,
        )  # fmt: skip

    def ways(self, k: int) -> tuple[IntArray, IntArray]:
        """Return the donors of all ways to fill recipients, and the start of the ways of each cell.

        The cells are cells with recipients. A way has the row numbers of k donors, the nearest
        first, and -1 in place of absent donors. Donors of one distance are in the table's order.
        """
        near = self.near(k)
        counts = self.donors.counts[near.pair_cell]
        pair, step = runs(counts)
        owner = np.repeat(np.arange(len(near.cells)), np.diff(near.pair_start))[pair]
        donor = self.donors.rows[self.donors.start[near.pair_cell[pair]] + step]
        donor = donor[np.lexsort((donor, near.pair_distance[pair], owner))]
        start = np.searchsorted(owner, np.arange(len(near.cells) + 1))
        total = np.diff(start)
        last = near.shell_start[1:] - 1  # the farthest shell of each cell, if it has any
        tied = np.where(total > 0, np.append(np.diff(near.shell_donors), 0)[last], 0)
        ways = np.where(total > k, tied, 1)
        stops = np.concatenate([[0], np.cumsum(ways)])
        chosen = np.empty(int(stops[-1]) * k, np.int64).reshape(-1, k)
        for part in portions(ways * k, _ROWS):
            cell, turn = runs(ways[part])
            cell += part.start
            all_, nearer = total[cell, None], (total - tied)[cell, None]
            place = np.repeat(np.arange(k)[None], len(cell), axis=0)
            turned = nearer + (place - nearer + turn[:, None]) % np.maximum(all_ - nearer, 1)
            place = np.sort(np.where((place >= nearer) & (all_ > k), turned, place), axis=1)
            at = np.where(place < all_, start[cell, None] + place, len(donor))
            chosen[stops[part.start] : stops[part.stop]] = np.append(donor, -1)[at]
        return chosen, stops


def _side(rows: IntArray, cell: NDArray[np.integer], cells: int) -> _Side:
    """Return some rows sorted by cell."""
    of_rows = cell[rows]
    counts = np.bincount(of_rows, minlength=cells)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    by_cell = np.empty(len(rows), np.int64)
    by_cell[:] = rows[np.argsort(of_rows, kind="stable")]
    return _Side(by_cell, start)


def _cells(rows: RowView, metric: Metric) -> tuple[IntArray, NDArray[np.integer]]:
    """Return the matching cells that occur, and which of them each row is in."""
    keys = np.empty(len(rows), np.int64)
    for where, part in rows.parts():
        key = np.zeros(len(part), dtype=np.int64)
        columns = [*(_state(part, n) for n in metric.together), *map(part.codes, metric.names)]
        for codes, levels in zip(columns, metric.shape, strict=True):
            key = key * levels + codes
        keys[where] = key
    occupied = np.zeros(0, dtype=np.int64)
    for where in slices(len(keys), _ROWS):
        occupied = np.union1d(occupied, keys[where])
    for where in slices(len(keys), _ROWS):
        keys[where] = np.searchsorted(occupied, keys[where])
    return occupied, keys


@dataclass(frozen=True, eq=False, repr=False)
class NearbyCells:
    """Donor cells around recipient cells, nearest first, in shells of equal distance. Private.

    ``radius`` is the distance within which donors are complete. It is the distance of the last
    shell if this shell reaches the number of donors. Otherwise it includes the whole group.
    """

    cells: IntArray  # the recipient cells, shape (x,)
    pair_start: IntArray  # where the donor cells of each recipient cell begin, shape (x + 1,)
    pair_cell: IntArray  # donor cells, by distance
    pair_distance: IntArray
    shell_start: IntArray  # where the shells of each recipient cell begin, shape (x + 1,)
    shell_key: IntArray  # the recipient cell and the distance of each shell, as one number
    shell_pair: IntArray  # where the donor cells of each shell begin, shape (shells + 1,)
    shell_donors: IntArray  # number of donors in all shells before, shape (shells + 1,)
    radius: IntArray

    def nearer(self, index: IntArray, distance: IntArray) -> tuple[IntArray, IntArray]:
        """Return the number of donors strictly nearer than a distance, and the number up to it."""
        keys = index * (2 * FAR) + distance
        at, start = np.searchsorted(self.shell_key, keys), self.shell_start[index]
        hit = np.append(self.shell_key, -1)[at] == keys
        before, through = (
            self.shell_donors[to] - self.shell_donors[start] for to in (at, at + hit)
        )
        return before, through


def _nearest(
    layout: DonorLayout, cells: IntArray, donor_cells: IntArray, counts: IntArray, n_donors: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return positions in ``cells``, donor cells, and distances, up to ``n_donors`` donors."""
    matrix = layout.metric.distances(layout.codes[cells], layout.codes[donor_cells])
    limit = np.full(len(cells), FAR - 1, dtype=np.int64)
    if n_donors < matrix.shape[1]:
        # Every donor cell holds at least one donor, so this many cells hold enough of them.
        kth = np.partition(matrix, n_donors - 1, axis=1)[:, n_donors - 1]
        limit = np.minimum(limit, kth)
    owner, column = np.nonzero(matrix <= limit[:, None])
    distance = matrix[owner, column].astype(np.int64)
    order = np.lexsort((distance, owner))
    owner, column, distance = owner[order], column[order], distance[order]
    through = np.concatenate([[0], np.cumsum(counts[donor_cells[column]])])
    before = through[:-1] - through[np.searchsorted(owner, owner)]
    # Keep whole shells: a pair stays if fewer than ``wanted`` donors are strictly nearer.
    shell = np.maximum.accumulate(np.where(_begins(owner, distance), np.arange(len(owner)), 0))
    keep = before[shell] < n_donors
    return owner[keep], donor_cells[column[keep]], distance[keep]


def _begins(owner: IntArray, distance: IntArray) -> NDArray[np.bool_]:
    """Return True for pairs that are the first of their shell, with one owner and distance."""
    return np.asarray(np.diff(owner, prepend=-1) | np.diff(distance, prepend=-1), dtype=bool)
