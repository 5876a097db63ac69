"""Rows laid out for donor search: grouped by matching cell, ordered by label inside a cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.knn.metric import Metric
from missdp.mechanisms.questions import RowView

__all__ = ["Layout", "Side", "lay_out"]

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
    """A private table seen by the donor search.

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


def lay_out(
    rows: RowView, metric: Metric, complete: NDArray[np.bool_], labels: NDArray[np.uint64]
) -> Layout:
    """Group rows by matching cell.

    Parameters
    ----------
    rows : RowView
        Private.
    metric : Metric
        Its names are the matching attributes.
    complete : array of bool, shape (n,)
        True for donors.
    labels : array of unsigned int, shape (n,)
        Tie-breaking labels; only their cyclic order matters.
    """
    size = len(rows)
    key = np.zeros(size, dtype=np.int64)
    for name, levels in zip(metric.names, metric.shape, strict=True):
        key = key * levels + rows.codes(name)
    found, cell = np.unique(key, return_inverse=True)
    codes = np.stack(np.unravel_index(found, metric.shape), axis=1).astype(np.int64)
    by_label = np.argsort(labels, kind="stable")
    rank = np.empty(size, dtype=np.int64)
    rank[by_label] = np.arange(size)
    ordered = by_label[np.argsort(cell[by_label], kind="stable")]
    donors, donees = (
        _side(ordered[keep[ordered]], cell, rank, len(found)) for keep in (complete, ~complete)
    )
    return Layout(metric, codes, donors, donees, size)


def _side(rows: IntArray, cell: IntArray, rank: IntArray, cells: int) -> Side:
    of_rows = cell[rows]
    start = np.concatenate([[0], np.cumsum(np.bincount(of_rows, minlength=cells))])
    return Side(rows, rank[rows], of_rows, start.astype(np.int64))
