"""Public facts about the rows that reach a step, and the gate that makes them true."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError

__all__ = ["RowDomain", "as_rows", "clip_rows"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RowDomain:
    """What is publicly known about a table: its shape, the norm of its rows, whether cells miss.

    Parameters
    ----------
    rows : int
        Number of rows, public under replace-one adjacency; at least 2.
    columns : int
        Number of columns, at least 1.
    radius : float, default 1.0
        Every row's observed part has Euclidean norm at most this; finite and above 0.
    complete : bool, default True
        Whether no cell is missing.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Examples
    --------
    >>> RowDomain(rows=100, columns=3).diameter
    2.0
    """

    rows: int
    columns: int
    radius: float = 1.0
    complete: bool = True

    def __post_init__(self) -> None:
        if self.rows < 2 or self.columns < 1:
            raise ParameterError("a domain needs at least 2 rows and 1 column")
        if not (math.isfinite(self.radius) and self.radius > 0):
            raise ParameterError(f"radius must be finite and above 0, got {self.radius}")

    @property
    def diameter(self) -> float:
        """Largest distance between two rows."""
        return 2 * self.radius

    def enforce(self, values: ArrayLike) -> FloatArray:
        """Return the table with every row brought into the domain, row by row.

        Longer rows are scaled down to the radius; in a complete domain a missing cell becomes 0.
        Each row is mapped on its own, so neighbours stay neighbours.

        Parameters
        ----------
        values : array_like of shape (rows, columns)
            NaN (or infinity) is a missing cell.

        Returns
        -------
        ndarray of shape (rows, columns)

        Raises
        ------
        DataError
            If the shape is not the declared one.

        Examples
        --------
        >>> RowDomain(rows=2, columns=2).enforce([[3.0, 4.0], [0.0, float("nan")]])
        array([[0.6, 0.8],
               [0. , 0. ]])
        """
        table = as_rows(values)
        if table.shape != (self.rows, self.columns):
            raise DataError(f"the table must have the declared shape ({self.rows}, {self.columns})")
        if self.complete:
            table = np.where(np.isnan(table), 0.0, table)
        return clip_rows(table, self.radius)


def as_rows(values: ArrayLike) -> FloatArray:
    """Return a two-dimensional float copy; whatever is not finite becomes NaN.

    Raises
    ------
    DataError
        If the input is not a numeric table.
    """
    try:
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("expected a table of numbers, with NaN for a missing cell") from None
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError("expected a two-dimensional table with at least one column")
    table[~np.isfinite(table)] = np.nan
    return table


def clip_rows(table: FloatArray, radius: float) -> FloatArray:
    """Return the rows projected on the ball; missing cells stay missing and count as 0.

    The projection on a convex set is 1-Lipschitz, so no distance grows.
    """
    filled = np.where(np.isnan(table), 0.0, table)
    # Scale by the largest entry first: squares of huge finite entries would overflow.
    largest = np.maximum(np.abs(filled).max(axis=1, keepdims=True), np.finfo(float).tiny)
    norms = largest * np.sqrt(((filled / largest) ** 2).sum(axis=1, keepdims=True))
    inside = norms <= radius
    scaled = (filled / largest) * (radius / np.maximum(norms / largest, 1.0))
    return np.where(np.isnan(table), np.nan, np.where(inside, filled, scaled))
