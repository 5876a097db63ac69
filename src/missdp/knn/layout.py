"""Rows laid out for donor search: grouped by matching cell, ordered by label inside a cell."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.knn.metric import Metric
from missdp.mechanisms import NoiseSource, SecureNoise
from missdp.table import Table

__all__ = ["Layout", "Side", "draw_labels", "lay_out"]

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


def draw_labels(size: int, source: NoiseSource) -> NDArray[np.uint64]:
    """Draw one independent 64-bit label per row; ties fall to the order of the rows.

    Labels break ties between equally distant donors. The privacy statement is for tables of
    labelled rows: a row brings its own label, drawn independently of all values and of all other
    labels, so adding or removing a row leaves the labels of the others as they were. The release
    is private for every fixed assignment of labels, hence also on average over them.
    """
    if isinstance(source, SecureNoise):
        return np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64)
    return source.generator().integers(0, 2**64, size=size, dtype=np.uint64)


def lay_out(
    table: Table, metric: Metric, complete: NDArray[np.bool_], labels: NDArray[np.uint64]
) -> Layout:
    """Group rows by matching cell.

    Parameters
    ----------
    table : Table
        Private.
    metric : Metric
        Its names are the matching attributes.
    complete : array of bool, shape (n,)
        True for donors.
    labels : array of unsigned int, shape (n,)
        Tie-breaking labels; only their cyclic order matters.
    """
    size = len(table)
    key = np.zeros(size, dtype=np.int64)
    for name, levels in zip(metric.names, metric.shape, strict=True):
        key = key * levels + table.codes(name)
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
