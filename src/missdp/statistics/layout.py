"""Rows grouped by matching cell, and the donor cells near each donee cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import Rows
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
    labels : array of int, shape (n,)
        Their labels, a permutation of ranks shared by both sides.
    cells : array of int, shape (n,)
        Their cells, non-decreasing.
    start : array of int, shape (cells + 1,)
        Where each cell begins.
    """

    rows: IntArray
    labels: IntArray
    cells: IntArray
    start: IntArray

    @property
    def counts(self) -> IntArray:
        """Rows per cell."""
        return np.diff(self.start)


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


def roles(rows: Rows, names: Iterable[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Tell which rows may give, and which lack, some of the attributes filled together.

    A donor has no hole in any of them, and a value in one at least. A donee lacks one that surely
    applies to it. Others, to whom none applies or of whom that is open, are neither. Each row's
    own cells decide.
    """
    lacks, valued, whole = (np.full(len(rows), start) for start in (False, False, True))
    for name in names:
        hole = rows.holes(name)
        lacks |= hole & rows.applies(name)[0]
        valued |= ~rows.mask(name)
        whole &= ~hole
    return whole & valued, lacks


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
    columns = [*(state(rows, n) for n in metric.together), *(rows.codes(n) for n in metric.names)]
    key = np.zeros(size, dtype=np.int64)
    for codes, levels in zip(columns, metric.shape, strict=True):
        key = key * levels + codes
    found, cell = np.unique(key, return_inverse=True)
    cells = np.stack(np.unravel_index(found, metric.shape), axis=1).astype(np.int64)
    by_label = np.argsort(labels, kind="stable")
    rank = np.empty(size, dtype=np.int64)
    rank[by_label] = np.arange(size)
    ordered = by_label[np.argsort(cell[by_label], kind="stable")]
    donors, donees = (
        _side(ordered[keep[ordered]], cell, rank, len(found)) for keep in (give, take)
    )
    return Layout(metric, cells, donors, donees, size)


def _side(rows: IntArray, cell: IntArray, rank: IntArray, cells: int) -> Side:
    of_rows = cell[rows]
    start = np.concatenate([[0], np.cumsum(np.bincount(of_rows, minlength=cells))])
    return Side(rows, rank[rows], of_rows, start.astype(np.int64))


_CHUNK = 1 << 22


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
    first = np.unique(_first_of_shell(owner, distance)) if len(owner) else np.zeros(0, np.int64)
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
