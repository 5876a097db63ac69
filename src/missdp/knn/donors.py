"""The k donors of every incomplete row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from missdp.knn.layout import Layout
from missdp.knn.neighbours import near_cells

__all__ = ["choose_donors"]

IntArray = NDArray[np.int64]


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
