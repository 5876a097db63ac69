"""Donees and donors on the circle of labels, and how many donees one more donor could serve."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.statistics.layout import IntArray, Layout, NearCells

__all__ = ["DONEES", "Ring", "site_count"]

Ints: TypeAlias = NDArray[np.integer]

DONEES = 1 << 20
"""Whose donors are looked for at once."""


class Ring:
    """Where the donees of each cell stand among its donors on the circle of labels. Private."""

    def __init__(self, layout: Layout, near: NearCells) -> None:
        donors, donees = layout.donors, layout.donees
        self._donors = donors.counts[near.cells]
        self._donees = donees.counts[near.cells]
        self._start = donees.start[near.cells]
        kind: type[np.signedinteger] = np.int32 if 2 * layout.size < 2**31 else np.int64
        index = np.repeat(np.arange(len(near.cells), dtype=kind), self._donees)
        passed = np.empty(len(index), dtype=kind)
        for begin in range(0, len(index), DONEES):
            part = slice(begin, begin + DONEES)
            passed[part] = donors.below(donees.cells_of(part), donees.labels(part))
        # Two laps of every cell's circle, one after the other, as one increasing sequence.
        self._span = 2 * int(self._donors.max(initial=0)) + 1
        self._index, self._passed = index, passed
        first = (self._start[index] + np.arange(len(index))).astype(kind)
        laps = np.repeat(np.arange(len(near.cells), dtype=np.int64) * self._span, 2 * self._donees)
        laps[first] += passed
        laps[first + self._donees[index]] += passed + self._donors[index]
        self._laps, self._position = laps, first

    def depths(self, reach: int) -> IntArray:
        """Most donees within ``reach - 1`` donors below one label of their own cell, per cell."""
        depth = self._donees.copy()
        short = np.flatnonzero(self._donors[self._index] > reach)
        if not len(short):
            return depth
        index = self._index[short].astype(np.int64)
        # There are more donors than ``reach``: a label that far on is within the second lap.
        stop = np.searchsorted(self._laps, index * self._span + self._passed[short] + reach)
        width = stop - self._position[short]
        first = np.flatnonzero(np.diff(index, prepend=-1))  # of each cell
        depth[index[first]] = np.maximum.reduceat(width, first)
        return depth


def site_count(layout: Layout, near: NearCells, site: int, reach: int) -> int:
    """Largest number of donees, over labels, that rank a donor at ``site`` within ``reach``."""
    distance = layout.metric.to_site(layout.codes[near.cells], site).astype(np.int64)
    index = np.flatnonzero(distance <= near.radius)
    before, through, shell = near.nearer(index, distance[index])
    wholly = through < reach
    total = int(layout.donees.counts[near.cells[index[wholly]]].sum())
    partly = np.flatnonzero(~wholly & (before < reach))
    starts, stops = [], []
    for i in partly:
        start, stop = _arcs(layout, near, index[i], shell[i], reach - int(before[i]))
        starts.append(start)
        stops.append(stop)
    return total + (_overlap(np.concatenate(starts), np.concatenate(stops)) if starts else 0)


def _arcs(layout: Layout, near: NearCells, index: int, shell: int, steps: int) -> tuple[Ints, Ints]:
    """Arcs of the donees of one cell: from their label to their ``steps``-th donor of a shell."""
    donors, donees = layout.donors, layout.donees
    cell = near.cells[index]
    own = donees.labels(slice(*donees.start[cell : cell + 2]))
    tied = near.pair_cell[near.shell_pair[shell] : near.shell_pair[shell + 1]]
    ring = np.concatenate([donors.labels(slice(*donors.start[c : c + 2])) for c in tied])
    ring.sort()
    return own, ring[(np.searchsorted(ring, own) + steps - 1) % len(ring)]


def _overlap(start: Ints, stop: Ints) -> int:
    """Largest number of arcs (start, stop] of a circle that share a point."""
    wrapped = int(np.count_nonzero(stop < start))
    points = np.concatenate([start, stop])
    change = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(stop), np.int64)])
    order = np.argsort(points, kind="stable")
    return wrapped + int(np.max(np.cumsum(change[order]), initial=0))
