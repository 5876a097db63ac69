"""Rows grouped by matching cell, and the donor cells near each donee cell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import Rows
from missdp.shelf import blocks, pick, put, room
from missdp.statistics.metric import FAR, Metric, state

__all__ = ["IntArray", "Layout", "NearCells", "Side", "lay_out", "near_cells", "roles"]


IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False, repr=False)
class Side:
    """Donors, or donees, sorted by cell and label. Private.

    Parameters
    ----------
    rows : array of int, shape (n,)
        Row numbers in the table.
    ranks : array of int
        The rank of every row's label in the table; both sides share it.
    start : array of int, shape (cells + 1,)
        Where each cell begins.
    """

    rows: NDArray[np.integer]
    ranks: NDArray[np.integer]
    start: IntArray

    def labels(self, part: slice | IntArray) -> NDArray[np.integer]:
        """Return the ranks of the labels of some of them."""
        rows = self.rows[part] if isinstance(part, slice) else pick(self.rows, part)
        return pick(self.ranks, rows)

    @property
    def cells(self) -> NDArray[np.integer]:
        """Their cells, non-decreasing."""
        return np.repeat(np.arange(len(self.start) - 1, dtype=np.int64), self.counts)

    def cells_of(self, part: slice) -> IntArray:
        """Return the cells of some of them."""
        places = np.arange(part.start, min(part.stop, len(self.rows)))
        return np.searchsorted(self.start, places, side="right") - 1

    @property
    def counts(self) -> IntArray:
        """Rows per cell."""
        return np.diff(self.start)

    def below(self, cells: IntArray, labels: NDArray[np.integer]) -> IntArray:
        """Return how many rows of each of these cells have a smaller label than the one given."""
        if len(self.rows) <= _FEW and len(cells) <= _FEW:  # quicker, in more memory
            own = self.labels(slice(None))
            span = 1 + max(int(own.max(initial=0)), int(labels.max(initial=0)))
            keys = self.cells * span + own
            return np.searchsorted(keys, cells * span + labels) - self.start[cells]
        found = np.empty(len(cells), dtype=np.int64)
        steps = int(self.counts.max(initial=0)).bit_length()
        for part in blocks(len(cells), _ROWS):
            first = self.start[cells[part]]
            low, high, wanted = first.copy(), self.start[cells[part] + 1], labels[part]
            for _ in range(steps):  # bisection, of all at once
                middle = (low + high) // 2
                open_ = low < high
                less = open_ & (self.labels(np.where(open_, middle, 0)) < wanted)
                low = np.where(less, middle + 1, low)
                high = np.where(less | ~open_, high, middle)
            found[part] = low - first
        return found


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """A private table as the search for donors sees it.

    Parameters
    ----------
    metric : Metric
        Public distances.
    codes : array of int, shape (cells, attributes)
        Codes of the distinct matching cells that occur.
    donors, donees : Side
        Complete and incomplete rows.
    size : int
        Number of rows.
    """

    metric: Metric
    codes: IntArray
    donors: Side
    donees: Side
    size: int


def roles(rows: Rows, names: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which rows may give, and which lack, some of the attributes filled together.

    A donor has no hole in any of them, and a value in one at least. A donee lacks one that surely
    applies to it. Others, to whom none applies or of whom that is open, are neither. Each row's
    own cells decide.
    """
    give, take = (room(len(rows), bool) for _ in range(2))
    for where, part in rows.parts():
        lacks, valued, whole = (np.full(len(part), start) for start in (False, False, True))
        for name in names:
            hole = part.holes(name)
            lacks |= hole & part.applies(name)[0]
            valued |= ~part.mask(name)
            whole &= ~hole
        give[where], take[where] = whole & valued, lacks
    return give, take


def lay_out(
    rows: Rows,
    metric: Metric,
    give: NDArray[np.bool_],
    take: NDArray[np.bool_],
    labels: NDArray[np.uint64],
) -> Layout:
    """Group rows by matching cell.

    Parameters
    ----------
    rows : Rows
        Private.
    metric : Metric
        Its names are the matching attributes.
    give, take : array of bool, shape (n,)
        True for donors, and for donees.
    labels : array of unsigned int, shape (n,)
        Tie-breaking labels; only their cyclic order matters.
    """
    size = len(rows)
    found, cell = _cells(rows, metric)
    cells = np.stack(np.unravel_index(found, metric.shape), axis=1).astype(np.int64)
    rank, by_label = _ranked(labels)
    ordered = _by_cell(by_label, cell, len(found))
    del by_label  # large tables leave no room for it
    donors, donees = (_side(ordered, keep, cell, rank, len(found)) for keep in (give, take))
    return Layout(metric, cells, donors, donees, size)


_SMALL_DOMAIN = 1 << 24
_FEW = 1 << 20  # rows
_ROWS = 1 << 20  # at once


def _cells(rows: Rows, metric: Metric) -> tuple[IntArray, NDArray[np.integer]]:
    """Return the matching cells that occur, and which of them each row is in."""
    domain = math.prod(metric.shape)
    small = domain <= _SMALL_DOMAIN
    keys = room(len(rows), np.uint32 if small else np.int64)
    for where, part in rows.parts():
        key = np.zeros(len(part), dtype=np.int64)
        columns = [*(state(part, n) for n in metric.together), *map(part.codes, metric.names)]
        for codes, levels in zip(columns, metric.shape, strict=True):
            key = key * levels + codes
        keys[where] = key
    found = _occurring(keys, domain if small else None)
    kind = _least(len(found))
    cell = room(len(keys), kind)
    if small:
        place = np.zeros(domain, dtype=kind)
        place[found] = np.arange(len(found))
    for where in blocks(len(keys), _ROWS):
        cell[where] = place[keys[where]] if small else np.searchsorted(found, keys[where])
    return found, cell


def _occurring(keys: NDArray[np.integer], domain: int | None) -> IntArray:
    """Return the distinct keys, sorted; those of a small domain are ticked off."""
    if domain is None:
        found = np.zeros(0, dtype=np.int64)
        for where in blocks(len(keys), _ROWS):
            found = np.union1d(found, keys[where])
        return found
    occurs = np.zeros(domain, dtype=bool)
    for where in blocks(len(keys), _ROWS):
        occurs[keys[where]] = True
    return np.flatnonzero(occurs)


def _least(size: int) -> type[np.integer]:
    """Return a small type that holds the numbers below a size."""
    return np.uint16 if size <= 2**16 else np.uint32 if size <= 2**32 else np.int64


def _ranked(labels: NDArray[np.unsignedinteger]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the rank of each row's label, and the rows in the order of their labels."""
    size, kind = len(labels), _least(len(labels))
    by_label = room(size, kind)
    if labels.dtype == np.uint32 and _each_once(labels):  # ranks already
        for part in blocks(size, _ROWS):
            put(by_label, labels[part], np.arange(part.start, part.stop, dtype=kind))
        return labels, by_label
    by_label[:] = np.argsort(labels, kind="stable")
    rank = np.empty(size, dtype=kind)
    rank[by_label] = np.arange(size, dtype=kind)
    return rank, by_label


def _each_once(labels: NDArray[np.unsignedinteger]) -> bool:
    """Whether every number below their number is among the labels."""
    seen = room(len(labels), bool, filled=0)
    for part in blocks(len(labels), _ROWS):
        some = labels[part]
        put(seen, some[some < len(labels)], 1)
    return all(seen[part].all() for part in blocks(len(labels), _ROWS))


def _by_cell(by_label: NDArray[Any], cell: NDArray[np.integer], cells: int) -> NDArray[np.integer]:
    """Return rows sorted by cell, those of one cell in the order in which they come."""
    counts = np.zeros(cells, dtype=np.int64)
    for where in blocks(len(cell), _ROWS):
        counts += np.bincount(cell[where], minlength=cells)
    following = np.cumsum(counts) - counts
    ordered = room(len(by_label), by_label.dtype)
    for where in blocks(len(by_label), _ROWS):
        part = by_label[where]
        of_part = pick(cell, part)
        order = np.argsort(of_part, kind="stable")
        of_part = of_part[order]
        here = np.bincount(of_part, minlength=cells)
        starts = np.cumsum(here) - here
        put(ordered, following[of_part] + np.arange(len(part)) - starts[of_part], part[order])
        following += here
    return ordered


def _side(
    ordered: NDArray[np.integer],
    keep: NDArray[np.bool_],
    cell: NDArray[np.integer],
    rank: NDArray[Any],
    cells: int,
) -> Side:
    rows, done = room(int(np.count_nonzero(keep)), ordered.dtype), 0
    counts = np.zeros(cells, dtype=np.int64)
    for where in blocks(len(ordered), _ROWS):
        part = ordered[where]
        part = part[pick(keep, part)]
        rows[done : done + len(part)] = part
        done += len(part)
        counts += np.bincount(pick(cell, part), minlength=cells)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    return Side(rows, rank, start)


_CHUNK = 1 << 22  # distances at once


@dataclass(frozen=True, eq=False, repr=False)
class NearCells:
    """Donor cells around donee cells, nearest first, in shells of equal distance. Private.

    Parameters
    ----------
    cells : array of int, shape (x,)
        The donee cells.
    pair_start : array of int, shape (x + 1,)
        Where the donor cells of each donee cell begin in ``pair_cell``.
    pair_cell, pair_distance : array of int, shape (pairs,)
        Donor cells, by distance.
    shell_start : array of int, shape (x + 1,)
        Where the shells of each donee cell begin.
    shell_distance, shell_before, shell_through : array of int, shape (shells,)
        Distance of the shell, and the donors strictly nearer, and up to it.
    shell_pair : array of int, shape (shells + 1,)
        Where each shell's donor cells begin.
    radius : array of int, shape (x,)
        Distance within which donors are complete: the last shell's if it reaches the wanted
        number of donors, else all that the group allows.
    """

    cells: IntArray
    pair_start: IntArray
    pair_cell: IntArray
    pair_distance: IntArray
    shell_start: IntArray
    shell_distance: IntArray
    shell_before: IntArray
    shell_through: IntArray
    shell_pair: IntArray
    radius: IntArray

    def nearer(self, index: IntArray, distance: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Donors strictly nearer than ``distance``, and up to it, and the shell at it (or -1).

        Parameters
        ----------
        index : array of int, shape (q,)
            Positions in ``cells``.
        distance : array of int, shape (q,)
            At most ``radius``.
        """
        if not len(self.shell_distance):
            none = np.zeros(len(index), dtype=np.int64)
            return none, none, none - 1
        owner = np.repeat(np.arange(len(self.cells)), np.diff(self.shell_start))
        keys = owner * (2 * FAR) + self.shell_distance
        at = np.searchsorted(keys, index * (2 * FAR) + distance)
        inside = at < self.shell_start[index + 1]
        safe = np.minimum(at, len(keys) - 1)
        last = np.maximum(self.shell_start[index + 1] - 1, 0)
        some = self.shell_start[index + 1] > self.shell_start[index]
        total = np.where(some, self.shell_through[last], 0)
        before = np.where(inside, self.shell_before[safe], total)
        hit = inside & (self.shell_distance[safe] == distance)
        return before, np.where(hit, self.shell_through[safe], before), np.where(hit, at, -1)


def near_cells(layout: Layout, wanted: int) -> NearCells:
    """Find, for every cell with donees, its donor cells up to ``wanted`` donors and ties.

    A cell with that many donors of its own has itself as its only neighbour; the distance matrix
    of the others to the donor cells is built in chunks.
    """
    counts = layout.donors.counts
    cells = np.flatnonzero(layout.donees.counts > 0)
    donor_cells = np.flatnonzero(counts > 0)
    sparse = counts[cells] < wanted
    dense = np.flatnonzero(~sparse)
    owners, found, distances = [dense], [cells[dense]], [np.zeros(len(dense), dtype=np.int64)]
    if len(donor_cells):
        rows = np.flatnonzero(sparse)
        step = max(1, _CHUNK // len(donor_cells))
        for begin in range(0, len(rows), step):
            chunk = rows[begin : begin + step]
            owner, cell, distance = _nearest(layout, cells[chunk], donor_cells, counts, wanted)
            owners.append(chunk[owner])
            found.append(cell)
            distances.append(distance)
    owner, cell, distance = (np.concatenate(part) for part in (owners, found, distances))
    order = np.argsort(owner, kind="stable")
    return _shells(cells, owner[order], cell[order], distance[order], counts, wanted)


def _nearest(
    layout: Layout, cells: IntArray, donor_cells: IntArray, counts: IntArray, wanted: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Pairs (position in ``cells``, donor cell, distance), by distance, up to ``wanted`` donors."""
    matrix = layout.metric.distances(layout.codes[cells], layout.codes[donor_cells])
    limit = np.full(len(cells), FAR - 1, dtype=np.int64)
    if wanted < matrix.shape[1]:
        # Every donor cell holds at least one donor, so this many cells hold enough of them.
        kth = np.partition(matrix, wanted - 1, axis=1)[:, wanted - 1]
        limit = np.minimum(limit, kth)
    owner, column = np.nonzero(matrix <= limit[:, None])
    distance = matrix[owner, column].astype(np.int64)
    order = np.lexsort((distance, owner))
    owner, column, distance = owner[order], column[order], distance[order]
    weight = counts[donor_cells[column]]
    through = np.cumsum(weight)
    starts = np.searchsorted(owner, np.arange(len(cells)))
    offset = np.concatenate([[0], through])[starts]
    before_pair = through - weight - offset[owner]
    # Keep whole shells: a pair stays if fewer than ``wanted`` donors are strictly nearer.
    first = _first_of_shell(owner, distance)
    keep = before_pair[first] < wanted
    return owner[keep], donor_cells[column[keep]], distance[keep]


def _first_of_shell(owner: IntArray, distance: IntArray) -> IntArray:
    """Index of the first pair with the same owner and distance."""
    new = np.ones(len(owner), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (distance[1:] != distance[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(owner)), 0))


def _shells(
    cells: IntArray,
    owner: IntArray,
    cell: IntArray,
    distance: IntArray,
    counts: IntArray,
    wanted: int,
) -> NearCells:
    bounds = np.arange(len(cells) + 1)
    pair_start = np.searchsorted(owner, bounds)
    through = np.concatenate([[0], np.cumsum(counts[cell])])
    first = np.sort(_first_of_shell(owner, distance)) if len(owner) else np.zeros(0, np.int64)
    first = first[np.append(True, first[1:] != first[:-1])] if len(first) else first
    shell_pair = np.concatenate([first, [len(owner)]]).astype(np.int64)
    shell_owner = owner[first]
    offset = through[pair_start[shell_owner]]
    shell_through = through[shell_pair[1:]] - offset
    shell_start = np.searchsorted(shell_owner, bounds)
    radius = np.full(len(cells), FAR - 1, dtype=np.int64)
    has = shell_start[1:] > shell_start[:-1]
    last = np.maximum(shell_start[1:] - 1, 0)
    if len(first):
        reached = has & (shell_through[last] >= wanted)
        radius[reached] = distance[first][last[reached]]
    return NearCells(
        cells, pair_start, cell, distance, shell_start, distance[first],
        through[shell_pair[:-1]] - offset, shell_through, shell_pair, radius,
    )  # fmt: skip
