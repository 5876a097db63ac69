"""Rows grouped by matching cell, and the k nearest donors of every incomplete row."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import Rows
from missdp.shelf import blocks, pick, put, room
from missdp.statistics.metric import FAR, Metric, state

__all__ = ["DONEES", "IntArray", "Ints", "Layout", "NearCells", "choose_donors", "lay_out"]

IntArray: TypeAlias = NDArray[np.int64]
Ints: TypeAlias = NDArray[np.integer]
DONEES = 1 << 20
"""Whose donors are looked for at once."""
_HEARD = 1 << 20  # donors at once
_CHUNK = 1 << 22  # distances at once
_ROWS = 1 << 20  # at once


@dataclass(frozen=True, eq=False, repr=False)
class _Side:
    """Donors, or donees, sorted by cell and label. Private."""

    rows: Ints  # numbers in the table
    ranks: Ints  # of the label of every row of the table
    start: IntArray  # where each cell begins, and the last one ends

    def labels(self, part: slice | IntArray) -> Ints:
        """Return the ranks of the labels of some of them."""
        rows = self.rows[part] if isinstance(part, slice) else pick(self.rows, part)
        return pick(self.ranks, rows)

    def cells_of(self, part: slice) -> IntArray:
        """Return the cells of some of them."""
        places = np.arange(part.start, min(part.stop, len(self.rows)))
        return np.searchsorted(self.start, places, side="right") - 1

    @property
    def counts(self) -> IntArray:
        """Rows per cell."""
        return np.diff(self.start)

    def below(self, cells: IntArray, labels: Ints) -> IntArray:
        """Return how many rows of each of these cells have a smaller label than the one given."""
        if max(len(self.rows), len(cells)) <= _ROWS:  # quicker, in more memory
            whole, span = slice(0, len(self.rows)), len(self.ranks)
            keys = self.cells_of(whole) * span + self.labels(whole)
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
    """A private table as the search for donors sees it."""

    metric: Metric  # public
    codes: IntArray  # of the distinct matching cells that occur, shape (cells, attributes)
    donors: _Side  # complete rows
    donees: _Side  # incomplete rows
    size: int  # of the table


def lay_out(
    rows: Rows, names: Sequence[str], metric: Metric, labels: NDArray[np.unsignedinteger]
) -> Layout:
    """Group rows by matching cell, and tell who gives and who lacks some attributes.

    They are filled together. A donor has no hole in any of them, and a value in one at least. A
    donee lacks one that surely applies to it. Others, to whom none applies or of whom that is
    open, are neither. Each row's own cells decide. Of the labels only the cyclic order matters.
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
    rank, by_label = _ranked(labels)
    donors, donees = (_side(by_label, keep, cell, rank, len(found)) for keep in (give, take))
    return Layout(metric, codes, donors, donees, len(rows))


def _cells(rows: Rows, metric: Metric) -> tuple[IntArray, Ints]:
    """Return the matching cells that occur, and which of them each row is in."""
    keys = room(len(rows), _least(math.prod(metric.shape)))
    for where, part in rows.parts():
        key = np.zeros(len(part), dtype=np.int64)
        columns = [*(state(part, n) for n in metric.together), *map(part.codes, metric.names)]
        for codes, levels in zip(columns, metric.shape, strict=True):
            key = key * levels + codes
        keys[where] = key
    found = np.zeros(0, dtype=keys.dtype)
    for where in blocks(len(keys), _ROWS):
        found = np.union1d(found, keys[where])
    cell = room(len(keys), _least(len(found)))
    for where in blocks(len(keys), _ROWS):
        cell[where] = np.searchsorted(found, keys[where])
    return found.astype(np.int64), cell


def _least(size: int) -> type[np.integer]:
    """Return a small type that holds the numbers below a size."""
    return np.uint16 if size <= 2**16 else np.uint32 if size <= 2**32 else np.int64


def _ranked(labels: NDArray[np.unsignedinteger]) -> tuple[Ints, Ints]:
    """Return the rank of each row's label, and the rows in the order of their labels."""
    size, kind = len(labels), _least(len(labels))
    by_label = room(size, kind)
    if labels.dtype == np.uint32:  # ranks already, as a door gives them for very many rows
        for part in blocks(size, _ROWS):
            put(by_label, labels[part], np.arange(part.start, part.stop, dtype=kind))
        return labels, by_label
    by_label[:] = np.argsort(labels, kind="stable")
    rank = np.empty(size, dtype=kind)
    rank[by_label] = np.arange(size, dtype=kind)
    return rank, by_label


def _side(by_label: Ints, keep: NDArray[np.bool_], cell: Ints, rank: Ints, cells: int) -> _Side:
    """Return some rows sorted by cell, those of one cell by label."""
    counts = np.zeros(cells, dtype=np.int64)
    for where in blocks(len(cell), _ROWS):
        counts += np.bincount(cell[where][keep[where]], minlength=cells)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    rows, following = room(int(start[-1]), by_label.dtype), start[:-1].copy()
    for where in blocks(len(by_label), _ROWS):
        part = by_label[where]
        part = part[pick(keep, part)]
        of_part = pick(cell, part)
        order = np.argsort(of_part, kind="stable")
        of_part = of_part[order]
        here = np.bincount(of_part, minlength=cells)
        first = following - (np.cumsum(here) - here)  # of each cell, less its place in this part
        put(rows, first[of_part] + np.arange(len(part)), part[order])
        following += here
    return _Side(rows, rank, start)


@dataclass(frozen=True, eq=False, repr=False)
class NearCells:
    """Donor cells around donee cells, nearest first, in shells of equal distance. Private.

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

    def nearer(self, index: IntArray, distance: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Return donors strictly nearer than a distance, up to it, and the shell at it (or -1).

        ``index`` are positions in ``cells``; distances are within the radius.
        """
        keys = index * (2 * FAR) + distance
        at, start = np.searchsorted(self.shell_key, keys), self.shell_start[index]
        hit = np.append(self.shell_key, -1)[at] == keys
        before, through = (
            self.shell_donors[to] - self.shell_donors[start] for to in (at, at + hit)
        )
        return before, through, np.where(hit, at, -1)


def near_cells(layout: Layout, wanted: int) -> NearCells:
    """Find, for every cell with donees, its donor cells up to ``wanted`` donors and ties.

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


def choose_donors(layout: Layout, k: int) -> IntArray:
    """Return the row numbers of the k nearest donors of each donee, -1 where there are fewer.

    Order of donors for a donee with label l: by distance, then by how far the donor's label lies
    after l on the circle of labels. Both are fixed by the two rows alone, so the order over all
    possible donors is fixed before any table is seen, as the sensitivity theorem needs; the
    donee's own label spreads the donees of a cell evenly over its donors. (Where no row comes or
    goes, as for `missdp.pricing.NeighbourImputer`, row numbers break ties of real vectors.)
    """
    donors, donees = layout.donors, layout.donees
    chosen = room(len(donees.rows) * k, np.int64, filled=-1).reshape(-1, k)
    if not len(donees.rows) or not len(donors.rows):
        return chosen
    near = near_cells(layout, k)
    for some in _portions(layout, near, k):
        _choose(layout, near, some, chosen[some])
    return chosen


def _portions(layout: Layout, near: NearCells, k: int) -> Iterator[slice]:
    """Cut the donees up, so that those of a portion have few donors to choose from."""
    heard = np.concatenate([[0], np.cumsum(np.minimum(layout.donors.counts[near.pair_cell], k))])
    each = np.diff(heard[near.pair_start])  # of a donee of each cell
    for part in blocks(len(layout.donees.rows), DONEES):
        cell_index = np.searchsorted(near.cells, layout.donees.cells_of(part))
        after = np.cumsum(each[cell_index]) // _HEARD
        stops = part.start + 1 + np.flatnonzero(np.diff(after, append=-1))
        yield from map(slice, (part.start, *stops[:-1].tolist()), stops.tolist())


def _choose(layout: Layout, near: NearCells, part: slice, chosen: IntArray) -> None:
    """Write the donors of some donees."""
    donors, donees = layout.donors, layout.donees
    labels = donees.labels(part).astype(np.int64)
    cell_index = np.searchsorted(near.cells, donees.cells_of(part))
    start = near.pair_start[cell_index]
    owner, step = _runs(near.pair_start[cell_index + 1] - start)
    pair = start[owner] + step
    cell = near.pair_cell[pair]
    counts = donors.counts[cell]
    after = donors.below(cell, labels[owner])
    take, step = _runs(np.minimum(counts, chosen.shape[1]))
    at = donors.start[cell[take]] + (after[take] + step) % counts[take]
    owner = owner[take]
    gap = (donors.labels(at).astype(np.int64) - labels[owner]) % layout.size
    order = np.lexsort((gap, near.pair_distance[pair[take]], owner))
    owner, at = owner[order], at[order]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    first = place < chosen.shape[1]
    chosen[owner[first], place[first]] = pick(donors.rows, at[first])


def _runs(counts: IntArray) -> tuple[IntArray, IntArray]:
    """Return each i ``counts[i]`` times, and beside it the numbers from 0 up."""
    owner = np.repeat(np.arange(len(counts)), counts)
    step = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, step
