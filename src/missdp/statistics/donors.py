"""Rows grouped by matching cell, and the k nearest donors of every incomplete row.

*Ties.* A recipient with N strictly nearer donors and T donors at the distance at which there are k
takes the N, and k - N of the T. Nobody chooses: a recipient counts as the average over T choices,
each of k - N donors that follow each other in the order of the table, around a circle. So each of
the T donors counts for (k - N) / T; with k = 1 the recipient is filled from each of its nearest
donors once. No label is drawn, and recipients of one matching cell have the same ways to be filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import Rows
from missdp.shelf import blocks, in_portions, room, runs
from missdp.statistics.metric import FAR, Metric, state

__all__ = ["IntArray", "Layout", "NearCells", "choose_donors", "lay_out", "near_cells"]

IntArray: TypeAlias = NDArray[np.int64]
_CHUNK = 1 << 22  # distances at once
_ROWS = 1 << 20  # at once


@dataclass(frozen=True, eq=False, repr=False)
class _Side:
    """Donors, or donees, sorted by cell. Private."""

    rows: IntArray  # numbers in the table; increasing within a cell
    start: IntArray  # where each cell begins, and the last one ends

    @property
    def counts(self) -> IntArray:
        """Rows per cell."""
        return np.diff(self.start)


@dataclass(frozen=True, eq=False, repr=False)
class Layout:
    """A private table as the search for donors sees it."""

    metric: Metric  # public
    codes: IntArray  # of the distinct matching cells that occur, shape (cells, attributes)
    donors: _Side  # complete rows
    donees: _Side  # incomplete rows


def lay_out(rows: Rows, names: Sequence[str], metric: Metric) -> Layout:
    """Group rows by matching cell, and tell who gives and who lacks some attributes.

    They are filled together. A donor has no missing cell in any of them, and a value in one at
    least. A recipient lacks one that surely applies to it. Others, to whom none applies or of whom
    that is open, are neither. Each row's own cells decide.
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
    found, cell = _cells(rows, metric)
    codes = np.stack(np.unravel_index(found, metric.shape), axis=1).astype(np.int64)
    donors, donees = (_side(np.flatnonzero(keep), cell, len(found)) for keep in (give, take))
    return Layout(metric, codes, donors, donees)


def _side(rows: IntArray, cell: NDArray[np.integer], cells: int) -> _Side:
    """Return some rows sorted by cell."""
    of_rows = cell[rows]
    counts = np.bincount(of_rows, minlength=cells)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    by_cell = room(len(rows), np.int64)
    by_cell[:] = rows[np.argsort(of_rows, kind="stable")]
    return _Side(by_cell, start)


def _cells(rows: Rows, metric: Metric) -> tuple[IntArray, NDArray[np.integer]]:
    """Return the matching cells that occur, and which of them each row is in."""
    keys = room(len(rows), np.int64)
    for where, part in rows.parts():
        key = np.zeros(len(part), dtype=np.int64)
        columns = [*(state(part, n) for n in metric.together), *map(part.codes, metric.names)]
        for codes, levels in zip(columns, metric.shape, strict=True):
            key = key * levels + codes
        keys[where] = key
    found = np.zeros(0, dtype=np.int64)
    for where in blocks(len(keys), _ROWS):
        found = np.union1d(found, keys[where])
    for where in blocks(len(keys), _ROWS):
        keys[where] = np.searchsorted(found, keys[where])
    return found, keys


@dataclass(frozen=True, eq=False, repr=False)
class NearCells:
    """Donor cells around recipient cells, nearest first, in shells of equal distance. Private.

    ``radius`` is the distance within which donors are complete: the last shell's if it reaches
    the wanted number of donors, else all that the group allows.
    """

    cells: IntArray  # the donee cells, shape (x,)
    pair_start: IntArray  # where the donor cells of each donee cell begin, shape (x + 1,)
    pair_cell: IntArray  # donor cells, by distance
    pair_distance: IntArray
    shell_start: IntArray  # where the shells of each donee cell begin, shape (x + 1,)
    shell_key: IntArray  # the donee cell and the distance of each shell, as one number
    shell_pair: IntArray  # where the donor cells of each shell begin, shape (shells + 1,)
    shell_donors: IntArray  # donors in all shells before, of all donee cells, shape (shells + 1,)
    radius: IntArray

    def nearer(self, index: IntArray, distance: IntArray) -> tuple[IntArray, IntArray]:
        """Return how many donors are strictly nearer than a distance, and how many up to it.

        ``index`` are positions in ``cells``; distances are within the radius.
        """
        keys = index * (2 * FAR) + distance
        at, start = np.searchsorted(self.shell_key, keys), self.shell_start[index]
        hit = np.append(self.shell_key, -1)[at] == keys
        before, through = (
            self.shell_donors[to] - self.shell_donors[start] for to in (at, at + hit)
        )
        return before, through


def near_cells(layout: Layout, wanted: int) -> NearCells:
    """Find, for every cell with recipients, its donor cells up to ``wanted`` donors and ties.

    A cell with that many donors of its own has itself as its only neighbour; the distance matrix
    of the others to the donor cells is built in chunks.
    """
    counts = layout.donors.counts
    cells = np.flatnonzero(layout.donees.counts > 0)
    donor_cells = np.flatnonzero(counts > 0)
    dense, sparse = (
        np.flatnonzero(some) for some in (counts[cells] >= wanted, counts[cells] < wanted)
    )
    parts = [(dense, cells[dense], np.zeros(len(dense), dtype=np.int64))]
    for where in blocks(len(sparse), max(1, _CHUNK // max(1, len(donor_cells)))):
        chunk = sparse[where]
        index, cell, distance = _nearest(layout, cells[chunk], donor_cells, counts, wanted)
        parts.append((chunk[index], cell, distance))
    owner, cell, distance = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.argsort(owner, kind="stable")
    owner, cell, distance = owner[order], cell[order], distance[order]
    first, starts = np.flatnonzero(_begins(owner, distance)), np.arange(len(cells) + 1)
    shell_owner, shell_distance = owner[first], distance[first]
    shell_start, shell_pair = np.searchsorted(shell_owner, starts), np.append(first, len(owner))
    before = np.concatenate([[0], np.cumsum(counts[cell])])[shell_pair]
    radius = np.full(len(cells), FAR - 1, dtype=np.int64)
    last = before[1:] - before[shell_start[shell_owner]] >= wanted
    radius[shell_owner[last]] = shell_distance[last]
    return NearCells(
        cells, np.searchsorted(owner, starts), cell, distance, shell_start,
        shell_owner * (2 * FAR) + shell_distance, shell_pair, before, radius,
    )  # fmt: skip


def _nearest(
    layout: Layout, cells: IntArray, donor_cells: IntArray, counts: IntArray, wanted: int
) -> tuple[IntArray, IntArray, IntArray]:
    """Return positions in ``cells``, donor cells, and distances, up to ``wanted`` donors."""
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
    through = np.concatenate([[0], np.cumsum(counts[donor_cells[column]])])
    before = through[:-1] - through[np.searchsorted(owner, owner)]
    # Keep whole shells: a pair stays if fewer than ``wanted`` donors are strictly nearer.
    shell = np.maximum.accumulate(np.where(_begins(owner, distance), np.arange(len(owner)), 0))
    keep = before[shell] < wanted
    return owner[keep], donor_cells[column[keep]], distance[keep]


def _begins(owner: IntArray, distance: IntArray) -> NDArray[np.bool_]:
    """Tell which pairs are the first of their shell, of the same owner and distance."""
    return np.asarray(np.diff(owner, prepend=-1) | np.diff(distance, prepend=-1), dtype=bool)


def choose_donors(layout: Layout, k: int) -> tuple[IntArray, IntArray]:
    """Return the donors of all ways to fill recipients, and where the ways of each cell begin.

    The cells are those with recipients; a way has the row numbers of k donors, the nearest first,
    and -1 where there are fewer. Those of one distance stand in the order of the table.
    """
    near = near_cells(layout, k)
    counts = layout.donors.counts[near.pair_cell]
    pair, step = runs(counts)
    owner = np.repeat(np.arange(len(near.cells)), np.diff(near.pair_start))[pair]
    donor = layout.donors.rows[layout.donors.start[near.pair_cell[pair]] + step]
    donor = donor[np.lexsort((donor, near.pair_distance[pair], owner))]
    start = np.searchsorted(owner, np.arange(len(near.cells) + 1))
    total = np.diff(start)
    last = near.shell_start[1:] - 1  # the farthest shell of each cell, if it has any
    tied = np.where(total > 0, np.append(np.diff(near.shell_donors), 0)[last], 0)
    ways = np.where(total > k, tied, 1)
    stops = np.concatenate([[0], np.cumsum(ways)])
    chosen = room(int(stops[-1]) * k, np.int64).reshape(-1, k)
    for part in in_portions(ways * k, _ROWS):
        cell, turn = runs(ways[part])
        cell += part.start
        all_, nearer = total[cell, None], (total - tied)[cell, None]
        place = np.repeat(np.arange(k)[None], len(cell), axis=0)
        turned = nearer + (place - nearer + turn[:, None]) % np.maximum(all_ - nearer, 1)
        place = np.sort(np.where((place >= nearer) & (all_ > k), turned, place), axis=1)
        at = np.where(place < all_, start[cell, None] + place, len(donor))
        chosen[stops[part.start] : stops[part.stop]] = np.append(donor, -1)[at]
    return chosen, stops
