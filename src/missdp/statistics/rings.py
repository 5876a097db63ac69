"""Donees and donors on the circle of labels, and how many donees one more donor could serve."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.shelf import blocks, portions, put, room, shelved
from missdp.statistics.layout import IntArray, Layout, NearCells

__all__ = ["DONEES", "Ring", "site_count"]

Ints: TypeAlias = NDArray[np.integer]

DONEES = 1 << 20
"""Whose donors are looked for at once."""
_AT_ONCE = 1 << 18


class Ring:
    """Where the donees of each cell stand among its donors on the circle of labels. Private."""

    def __init__(self, layout: Layout, near: NearCells) -> None:
        donors, donees = layout.donors, layout.donees
        self._donors = donors.counts[near.cells]
        self._donees = donees.counts[near.cells]
        self._start = donees.start[near.cells]
        kind: type[np.signedinteger] = np.int32 if 2 * layout.size < 2**31 else np.int64
        # Two laps of every cell's circle, one after the other, as one increasing sequence.
        self._span = 2 * int(self._donors.max(initial=0)) + 1
        self._size = len(donees.rows)
        self._index, self._position = (room(self._size, kind) for _ in range(2))
        self._keys, self._laps = room(self._size, np.int64), room(2 * self._size, np.int64)
        for part in blocks(self._size, DONEES):
            index = np.searchsorted(near.cells, donees.cells_of(part))
            passed = donors.below(near.cells[index], donees.labels(part))
            keys, first = (
                index * self._span + passed,
                self._start[index] + np.arange(part.start, part.stop),
            )
            self._laps[first] = keys
            self._laps[first + self._donees[index]] = keys + self._donors[index]
            self._index[part], self._position[part], self._keys[part] = index, first, keys

    def depths(self, reaches: range) -> Iterator[IntArray]:
        """Yield, for each reach, the depth of each cell.

        That is how many donees are within ``reach - 1`` donors below one label of their own cell,
        at most.
        """
        step = max(1, _AT_ONCE // max(1, min(self._size, DONEES)))
        for part in blocks(len(reaches), step):
            yield from self._depths(np.array(reaches[part])[:, None])

    def _depths(self, reaches: IntArray) -> IntArray:
        """Return the depths of some reaches, shape ``(reaches, cells)``."""
        deep = np.asarray(self._donors > reaches)
        depth = np.where(deep, 0, self._donees)
        ever = np.asarray(deep.any(axis=0))
        for part in blocks(self._size if ever.any() else 0, DONEES):
            some = part.start + np.flatnonzero(ever[self._index[part]])
            if not len(some):
                continue
            index = self._index[some]
            # There are more donors than ``reach``: a label that far on is within the second lap.
            width = np.searchsorted(self._laps, self._keys[some] + reaches) - self._position[some]
            first = np.flatnonzero(np.diff(index, prepend=-1))  # of each cell
            cells = index[first]
            most = np.maximum(depth[:, cells], np.maximum.reduceat(width, first, axis=1))
            depth[:, cells] = np.where(deep[:, cells], most, self._donees[cells])
        return depth


def site_count(layout: Layout, near: NearCells, site: int, reach: int) -> int:
    """Largest number of donees, over labels, that rank a donor at ``site`` within ``reach``."""
    distance = layout.metric.to_site(layout.codes[near.cells], site).astype(np.int64)
    index = np.flatnonzero(distance <= near.radius)
    before, through, shell = near.nearer(index, distance[index])
    wholly = through < reach
    total = int(layout.donees.counts[near.cells[index[wholly]]].sum())
    partly = np.flatnonzero(~wholly & (before < reach))
    if not len(partly):
        return total
    open_ = int(layout.donees.counts[near.cells[index[partly]]].sum())
    starts, stops = (room(open_, layout.donees.ranks.dtype) for _ in range(2))
    done = 0
    for i in partly:
        where = slice(done, done + int(layout.donees.counts[near.cells[index[i]]]))
        steps = reach - int(before[i])
        _arcs(layout, near, index[i], shell[i], steps, starts[where], stops[where])
        done = where.stop
    return total + _overlap(starts, stops, layout.size)


def _arcs(
    layout: Layout, near: NearCells, index: int, shell: int, steps: int, start: Ints, stop: Ints
) -> None:
    """Write the arcs of a cell's donees: from their label to the ``steps``-th donor of a shell."""
    first = int(layout.donees.start[near.cells[index]])
    ring = _labels_of(layout, near.pair_cell[near.shell_pair[shell] : near.shell_pair[shell + 1]])
    for part in blocks(len(start), DONEES):
        own = layout.donees.labels(slice(first + part.start, first + part.stop))
        start[part] = own
        stop[part] = ring[(np.searchsorted(ring, own) + steps - 1) % len(ring)]


def _labels_of(layout: Layout, cells: IntArray) -> Ints:
    """Return the labels of the donors of some cells, sorted."""
    donors = layout.donors
    if len(cells) == 1 and not shelved():
        return donors.labels(slice(*donors.start[cells[0] : cells[0] + 2]))
    ring, done = room(int(donors.counts[cells].sum()), donors.ranks.dtype), 0
    for cell in cells:
        first, last = donors.start[cell : cell + 2]
        for part in blocks(int(last - first), DONEES):
            size = part.stop - part.start
            labels = donors.labels(slice(first + part.start, first + part.stop))
            ring[done : done + size] = labels
            done += size
    if len(cells) > 1 and shelved() and done > DONEES:
        _sort_on_disk(ring, layout.size)
    elif len(cells) > 1:  # those of one cell are sorted
        ring.sort()
    return ring


def _sort_on_disk(labels: Ints, size: int) -> None:
    """Sort different numbers below a size."""
    there, done = room(size, bool, filled=0), 0
    for part in blocks(len(labels), DONEES):
        put(there, labels[part], 1)
    for part in blocks(size, DONEES):
        some = part.start + np.flatnonzero(there[part])
        labels[done : done + len(some)] = some
        done += len(some)


def _overlap(start: Ints, stop: Ints, size: int) -> int:
    """Largest number of arcs (start, stop] that share one of so many points of a circle."""
    if len(start) > DONEES and shelved():
        return _overlap_of_many(start, stop, size)
    wrapped = int(np.count_nonzero(stop < start))
    points = np.concatenate([start, stop])
    change = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(stop), np.int64)])
    order = np.argsort(points, kind="stable")
    return wrapped + int(np.max(np.cumsum(change[order]), initial=0))


def _overlap_of_many(start: Ints, stop: Ints, size: int) -> int:
    """Return the same, point by point: it takes longer, and little memory."""
    starts, stops = (room(size, np.int32, filled=0) for _ in range(2))
    open_, most = 0, 0
    for part in blocks(len(start), DONEES):
        for points, where in ((starts, start[part]), (stops, stop[part])):
            for some in portions(points, where):
                np.add.at(points, where[some], 1)
        open_ += int(np.count_nonzero(stop[part] < start[part]))
    for part in blocks(size, DONEES):
        # At each point arcs start before others stop.
        before = np.cumsum(starts[part], dtype=np.int64)
        after = np.cumsum(stops[part], dtype=np.int64)
        most = max(most, open_ + int(np.max(before[1:] - after[:-1], initial=int(before[0]))))
        open_ += int(before[-1] - after[-1])
    return most
