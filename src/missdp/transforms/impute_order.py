"""Imputation by column medians and trimmed means."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Condition
from missdp.errors import UnprovenError
from missdp.mechanisms.parameters import number, whole
from missdp.mechanisms.row_domain import RowDomain
from missdp.mechanisms.table_distance import TableDistance
from missdp.transforms.conditions import CentralGaps, TrimmedRange
from missdp.transforms.impute import ColumnImputer

__all__ = ["MedianImputer", "TrimmedMeanImputer"]

FloatArray = NDArray[np.float64]


class MedianImputer(ColumnImputer):
    """Fill missing cells with the median of the column's observed values.

    Parameters
    ----------
    max_incomplete : int
        See `ColumnImputer`.
    central_gap : float
        Condition: near the median, consecutive observed values of a column differ by at most
        this much. Without it the median of a bounded column can jump across its whole range.
    central_ranks : int, default 2
        How many ranks on either side of the middle ``central_gap`` covers; one more than the
        number of rows that may be replaced before this step.
    cells_per_row : int or None, default None
        See `ColumnImputer`.

    Notes
    -----
    Let a column lose a of its N observed values and gain b others, a and b at most h, the replaced
    rows. With A(r) the value at rank r (from 0, interpolated halfway), the median m = A((N - 1)/2)
    becomes a value between A((N - 1)/2 - s) and A((N - 1)/2 + s), s = (a + b)/2 <= h, if these
    ranks exist: h gaps of at most g, all within h + 1 ranks of the middle. If they do not, and in
    the other table neither, at most min(a, b) values are common to both. If there is one at all,
    the smallest common value (rank at most a, at most b) is within (N - 1)/2 gaps of the one
    median from below and within b - (N' - 1)/2 of the other, or the other way round; together
    again s gaps. If there is none, the gaps of each table say nothing of the other, however small
    they are: so unless n - p > h, the median may move by 2 R. Values that move by at most Delta
    move any order statistic by at most Delta. A row's imputed cells move by at most
    sqrt(q) (h g + Delta), q the missing cells of a row. Hu et al., Table 3, in the same spirit.

    Examples
    --------
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
    >>> step = MedianImputer(max_incomplete=10, central_gap=0.01)
    >>> round(step.shift(NEIGHBOURS, RowDomain(rows=500, columns=4, complete=False)), 6)
    0.02
    """

    def __init__(
        self,
        *,
        max_incomplete: int,
        central_gap: float,
        central_ranks: int = 2,
        cells_per_row: int | None = None,
    ) -> None:
        super().__init__(max_incomplete=max_incomplete, cells_per_row=cells_per_row)
        self.central_gap = central_gap
        self.central_ranks = central_ranks

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bounds on incomplete rows and on the gaps around the median."""
        gaps = CentralGaps(self._gap(), self._ranks())
        return () if domain.complete else (*super().conditions(domain), gaps)

    def shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return the movement of one row's imputed cells."""
        h, common = distance.replaced, domain.rows - self._p(domain) - distance.replaced
        jump = h * self._gap()
        if h > 0 and (h >= self._ranks() or common < 1):
            # The declared gaps do not reach that far, or lie between values that are all replaced.
            jump = 2 * domain.radius
        each = min(jump + distance.moved_max, 2 * domain.radius)
        return math.sqrt(self._cells(domain)) * each

    def _gap(self) -> float:
        return number("central_gap", self.central_gap)

    def _ranks(self) -> int:
        return whole("central_ranks", self.central_ranks)

    def _statistic(self, table: FloatArray) -> FloatArray:
        ordered, counts = _ordered(table)
        rows = np.arange(table.shape[1])
        low = np.maximum((counts - 1) // 2, 0)
        high = np.minimum(counts // 2, np.maximum(counts - 1, 0))
        middle = (ordered[low, rows] + ordered[high, rows]) / 2
        return np.where(counts > 0, middle, 0.0)


class TrimmedMeanImputer(ColumnImputer):
    """Fill missing cells with the mean of the column less its extreme values.

    Parameters
    ----------
    max_incomplete : int
        See `ColumnImputer`.
    trim : int
        How many observed values to drop at either end (m); at least 1.
    trimmed_range : float
        Condition: the m-th smallest and m-th largest observed value of a column differ by at
        most this much (r).
    cells_per_row : int or None, default None
        See `ColumnImputer`.

    Notes
    -----
    Let N be the observed values of a column, N >= n - p. Replacing one value shifts the window of
    kept order statistics by at most one rank: its sum changes by at most r, the mean by
    r / (N - 2m). Dropping one of N + 1 values removes one kept value v (or shifts the window by
    one): the mean changes by |mean - v| / (N - 2m) <= r / (N - 2m). Sorting is a contraction in
    the summed absolute difference, so moved rows add at most tau / (N - 2m) in Euclidean norm
    (Minkowski over columns). For several replaced rows r becomes the full range 2 R per row,
    since tables in between need not satisfy the condition.

    Examples
    --------
    >>> from missdp.transforms import NEIGHBOURS, RowDomain
    >>> step = TrimmedMeanImputer(max_incomplete=10, trim=20, trimmed_range=0.5)
    >>> round(step.shift(NEIGHBOURS, RowDomain(rows=550, columns=1, complete=False)), 6)
    0.001
    """

    def __init__(
        self,
        *,
        max_incomplete: int,
        trim: int,
        trimmed_range: float,
        cells_per_row: int | None = None,
    ) -> None:
        super().__init__(max_incomplete=max_incomplete, cells_per_row=cells_per_row)
        self.trim = trim
        self.trimmed_range = trimmed_range

    def conditions(self, domain: RowDomain) -> tuple[Condition, ...]:
        """Return the bounds on incomplete rows and on the trimmed range."""
        limit = TrimmedRange(self._trim(), self._range())
        return () if domain.complete else (*super().conditions(domain), limit)

    def shift(self, distance: TableDistance, domain: RowDomain) -> float:
        """Return the movement of one row's imputed cells."""
        kept = domain.rows - self._p(domain) - 2 * self._trim()
        if kept < 1:
            raise UnprovenError("trimming may leave no observed value: trim less")
        h, full = distance.replaced, 2 * domain.radius
        span = min(self._range(), full) if h <= 1 else full
        root = math.sqrt(self._cells(domain))
        return min((h * root * span + distance.moved_l12) / kept, root * full)

    def _trim(self) -> int:
        return whole("trim", self.trim)

    def _range(self) -> float:
        return number("trimmed_range", self.trimmed_range)

    def _statistic(self, table: FloatArray) -> FloatArray:
        ordered, counts = _ordered(table)
        ranks, trim = np.arange(table.shape[0])[:, None], self._trim()
        kept = (ranks >= trim) & (ranks < counts - trim)
        size = np.maximum(kept.sum(axis=0), 1)
        return np.asarray(np.where(kept, ordered, 0.0).sum(axis=0) / size)


def _ordered(table: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return the columns sorted with missing cells last (as 0), and how many are observed."""
    counts = (~np.isnan(table)).sum(axis=0)
    return np.nan_to_num(np.sort(table, axis=0), nan=0.0), counts
