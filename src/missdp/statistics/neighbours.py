"""The k donors of every incomplete row, and the donor cells near every donee cell.

Donor cells are found up to a given number of donors, ties included.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.statistics.layout import FAR, Layout

__all__ = ["NearCells", "choose_donors", "near_cells"]


IntArray = NDArray[np.int64]
_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False, repr=False)
class NearCells:
    """Donor cells around donee cells, nearest first, in levels of equal distance. Private.

    Parameters
    ----------
    cells : array of int, shape (x,)
        The donee cells.
    pair_start : array of int, shape (x + 1,)
        Where the donor cells of each donee cell begin in ``pair_cell``.
    pair_cell, pair_distance : array of int, shape (pairs,)
        Donor cells, by distance.
    level_start : array of int, shape (x + 1,)
        Where the levels of each donee cell begin.
    level_distance, level_before, level_through : array of int, shape (levels,)
        Distance of the level, and the donors strictly nearer, and up to it.
    level_pair : array of int, shape (levels + 1,)
        Where each level's donor cells begin.
    radius : array of int, shape (x,)
        Distance within which donors are complete: the last level's if it reaches the wanted
        number of donors, else all that the group allows.
    """

    cells: IntArray
    pair_start: IntArray
    pair_cell: IntArray
    pair_distance: IntArray
    level_start: IntArray
    level_distance: IntArray
    level_before: IntArray
    level_through: IntArray
    level_pair: IntArray
    radius: IntArray

    def nearer(self, index: IntArray, distance: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Donors strictly nearer than ``distance``, and up to it, and the level at it (or -1).

        Parameters
        ----------
        index : array of int, shape (q,)
            Positions in ``cells``.
        distance : array of int, shape (q,)
            At most ``radius``.
        """
        if not len(self.level_distance):
            none = np.zeros(len(index), dtype=np.int64)
            return none, none, none - 1
        owner = np.repeat(np.arange(len(self.cells)), np.diff(self.level_start))
        keys = owner * (2 * FAR) + self.level_distance
        at = np.searchsorted(keys, index * (2 * FAR) + distance)
        inside = at < self.level_start[index + 1]
        safe = np.minimum(at, len(keys) - 1)
        last = np.maximum(self.level_start[index + 1] - 1, 0)
        some = self.level_start[index + 1] > self.level_start[index]
        total = np.where(some, self.level_through[last], 0)
        before = np.where(inside, self.level_before[safe], total)
        hit = inside & (self.level_distance[safe] == distance)
        return before, np.where(hit, self.level_through[safe], before), np.where(hit, at, -1)


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
    return _levels(cells, owner[order], cell[order], distance[order], counts, wanted)


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
    # Keep whole levels: a pair stays if fewer than ``wanted`` donors are strictly nearer.
    first = _first_of_level(owner, distance)
    keep = before_pair[first] < wanted
    return owner[keep], donor_cells[column[keep]], distance[keep]


def _first_of_level(owner: IntArray, distance: IntArray) -> IntArray:
    """Index of the first pair with the same owner and distance."""
    new = np.ones(len(owner), dtype=bool)
    new[1:] = (owner[1:] != owner[:-1]) | (distance[1:] != distance[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(owner)), 0))


def _levels(
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
    first = np.unique(_first_of_level(owner, distance)) if len(owner) else np.zeros(0, np.int64)
    level_pair = np.concatenate([first, [len(owner)]]).astype(np.int64)
    level_owner = owner[first]
    offset = through[pair_start[level_owner]]
    level_through = through[level_pair[1:]] - offset
    level_start = np.searchsorted(level_owner, bounds)
    radius = np.full(len(cells), FAR - 1, dtype=np.int64)
    has = level_start[1:] > level_start[:-1]
    last = np.maximum(level_start[1:] - 1, 0)
    if len(first):
        reached = has & (level_through[last] >= wanted)
        radius[reached] = distance[first][last[reached]]
    return NearCells(
        cells, pair_start, cell, distance, level_start, distance[first],
        through[level_pair[:-1]] - offset, level_through, level_pair, radius,
    )  # fmt: skip


def choose_donors(layout: Layout, k: int) -> IntArray:
    """Return the row numbers of the k nearest donors of each donee, -1 where there are fewer.

    Order of donors for a donee with label l: by distance, then by how far the donor's label lies
    after l on the circle of labels. Both are fixed by the two rows alone, so the order over all
    possible donors is fixed before any table is seen, as the sensitivity theorem needs; the
    donee's own label spreads the donees of a cell evenly over its donors.

    Parameters
    ----------
    layout : Layout
        Private rows.
    k : int
        At least 1.

    Returns
    -------
    array of int, shape (donees, k)
        Nearest first; rows in the order of ``layout.donees.rows``.
    """
    donors, donees = layout.donors, layout.donees
    chosen = np.full((len(donees.rows), k), -1, dtype=np.int64)
    if not len(donees.rows) or not len(donors.rows):
        return chosen
    near = near_cells(layout, k)
    cell_index = np.searchsorted(near.cells, donees.cells)
    owner, pair = _expand(near.pair_start[cell_index], near.pair_start[cell_index + 1])
    cell = near.pair_cell[pair]
    counts = donors.counts[cell]
    key = donors.cells * layout.size + donors.labels
    after = np.searchsorted(key, cell * layout.size + donees.labels[owner]) - donors.start[cell]
    take, step = _expand_counts(np.minimum(counts, k))
    at = donors.start[cell[take]] + (after[take] + step) % counts[take]
    owner = owner[take]
    gap = (donors.labels[at] - donees.labels[owner]) % layout.size
    order = np.lexsort((gap, near.pair_distance[pair[take]], owner))
    owner, at = owner[order], at[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    first = place < k
    chosen[owner[first], place[first]] = donors.rows[at[first]]
    return chosen


def _expand(start: IntArray, stop: IntArray) -> tuple[IntArray, IntArray]:
    """Indices of the ranges start[i]..stop[i], with the i they come from."""
    owner, step = _expand_counts(stop - start)
    return owner, start[owner] + step


def _expand_counts(counts: IntArray) -> tuple[IntArray, IntArray]:
    owner = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, step
