"""Exact counts over the circle of labels.

A donee x with N strictly nearer donors is served (rank at most r) by a hypothetical donor at a tied
distance if fewer than r - N of the tied donors lie between x's label and the donor's, walking
upwards round the circle. So x is served on one arc, from its own label to its
(r - N)-th tied donor, and the worst label is where most arcs overlap.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from missdp.knn.layout import Layout
from missdp.knn.neighbours import NearCells

__all__ = ["Ring", "site_count"]

IntArray = NDArray[np.int64]


class Ring:
    """Donees of each cell on the circle of labels, among the donors of the same cell. Private."""

    def __init__(self, layout: Layout, near: NearCells) -> None:
        donors, donees = layout.donors, layout.donees
        self._donors = donors.counts[near.cells]
        self._donees = donees.counts[near.cells]
        self._start = donees.start[near.cells]
        index = np.searchsorted(near.cells, donees.cells)
        key = donors.cells * max(layout.size, 1) + donors.labels
        wanted = donees.cells * max(layout.size, 1) + donees.labels
        passed = np.searchsorted(key, wanted) - donors.start[donees.cells]
        # Two laps of every cell's circle, one after the other, as one increasing sequence.
        self._span = 2 * int(self._donors.max(initial=0)) + 1
        self._index, self._passed = index, passed
        lap = passed + self._donors[index]
        first = 2 * self._start[index] + np.arange(len(index)) - self._start[index]
        self._laps = np.empty(2 * len(index), dtype=np.int64)
        self._laps[first] = passed
        self._laps[first + self._donees[index]] = lap
        self._owner = np.repeat(np.arange(len(near.cells)), 2 * self._donees)
        self._position = first

    def depths(self, reach: int) -> IntArray:
        """Most donees within ``reach - 1`` donors below one label of their own cell, per cell."""
        depth = self._donees.copy()
        short = np.flatnonzero(self._donors[self._index] > reach)
        if not len(short):
            return depth
        span = self._span + reach
        keys = self._owner * span + self._laps
        index = self._index[short]
        stop = np.searchsorted(keys, index * span + self._passed[short] + reach)
        width = stop - self._position[short]
        depth[self._donors > reach] = 0
        np.maximum.at(depth, index, width)
        return depth


def site_count(layout: Layout, near: NearCells, site: int, reach: int) -> int:
    """Largest number of donees, over labels, that rank a donor at ``site`` within ``reach``."""
    distance = layout.metric.to_site(layout.codes[near.cells], site).astype(np.int64)
    index = np.flatnonzero(distance <= near.radius)
    before, through, level = near.nearer(index, distance[index])
    wholly = through < reach
    total = int(layout.donees.counts[near.cells[index[wholly]]].sum())
    partly = np.flatnonzero(~wholly & (before < reach))
    starts, stops = [], []
    for i in partly:
        start, stop = _arcs(layout, near, index[i], level[i], reach - int(before[i]))
        starts.append(start)
        stops.append(stop)
    return total + (_overlap(np.concatenate(starts), np.concatenate(stops)) if starts else 0)


def _arcs(
    layout: Layout, near: NearCells, index: int, level: int, steps: int
) -> tuple[IntArray, IntArray]:
    """Arcs of the donees of one cell: from their label to their ``steps``-th donor of a level."""
    donors, donees = layout.donors, layout.donees
    cell = near.cells[index]
    own = donees.labels[donees.start[cell] : donees.start[cell + 1]]
    tied = near.pair_cell[near.level_pair[level] : near.level_pair[level + 1]]
    ring = np.concatenate([donors.labels[donors.start[c] : donors.start[c + 1]] for c in tied])
    ring.sort()
    return own, ring[(np.searchsorted(ring, own) + steps - 1) % len(ring)]


def _overlap(start: IntArray, stop: IntArray) -> int:
    """Largest number of arcs (start, stop] of a circle that share a point."""
    wrapped = int(np.count_nonzero(stop < start))
    points = np.concatenate([start, stop])
    change = np.concatenate([np.ones(len(start), np.int64), -np.ones(len(stop), np.int64)])
    order = np.argsort(points, kind="stable")
    return wrapped + int(np.max(np.cumsum(change[order]), initial=0))
