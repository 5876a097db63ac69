"""Public facts about private rows, and how a table is read so that they are true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError, number, replacing, whole
from missdp.mechanisms.answers import no_warnings

__all__ = [
    "BoundedNumbers",
    "Labels",
    "RowDomain",
    "Target",
    "as_number",
    "as_rows",
    "clip_rows",
    "row_movements",
]


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
        Every row's observed part has Euclidean norm at most this; from 1e-100 to 1e100, so that
        no product of a few of them overflows.
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
        if whole("rows", self.rows) < 2 or whole("columns", self.columns) < 1:
            raise ParameterError("a domain needs at least 2 rows and 1 column")
        number("radius", self.radius, least=1e-100)
        if not isinstance(self.complete, bool):
            raise ParameterError("complete must be True or False")

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
    """Return a two-dimensional float copy; whatever is not a finite number becomes NaN.

    Every cell is read on its own: one row's odd cell neither refuses the table nor changes how
    the other rows are read.

    Raises
    ------
    DataError
        If the input has not the shape of a table.

    Examples
    --------
    >>> as_rows([[1, "2.5"], [None, "many"]])
    array([[1. , 2.5],
           [nan, nan]])
    """
    refused = DataError("expected a two-dimensional table")
    with replacing(TypeError, ValueError, by=refused), no_warnings():
        table = _numbers(values)
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError("expected a two-dimensional table with at least one column")
    return table


def _numbers(values: Any) -> FloatArray:
    # Without dtype=object, NumPy would read a list with one text cell as text throughout.
    array = np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)
    if array.dtype.kind == "c":  # one complex cell makes NumPy read all cells as complex
        array = np.where(array.imag == 0, array.real, np.nan)
    if array.dtype.kind not in "fiub":
        cells = np.asarray(values, dtype=object)
        array = np.fromiter(map(as_number, cells.flat), np.float64, cells.size).reshape(cells.shape)
    found = np.array(array, dtype=np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def as_number(cell: Any) -> float:
    """Return one cell as a number; NaN if it is none.

    Examples
    --------
    >>> as_number("2.5"), as_number("many"), as_number(10**400)
    (2.5, nan, nan)
    """
    try:
        return float(cell)
    except (TypeError, ValueError, ArithmeticError):
        return np.nan


def row_movements(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Return the Euclidean distance of each pair of rows; infinite if their missing cells differ.

    Parameters
    ----------
    first, second : array_like of shape (n, d)
        Tables of the same shape; NaN is a missing cell.

    Returns
    -------
    ndarray of shape (n,)

    Examples
    --------
    >>> row_movements([[3.0, float("nan")], [1.0, 1.0]], [[0.0, float("nan")], [1.0, float("nan")]])
    array([ 3., inf])
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape:
        raise ParameterError("two tables can be compared only if their shapes are the same")
    missing_a, missing_b = np.isnan(a), np.isnan(b)
    gap = np.where(missing_a | missing_b, 0.0, a - b)
    norms = np.sqrt(np.einsum("ij,ij->i", gap, gap))
    return np.asarray(np.where((missing_a != missing_b).any(axis=1), np.inf, norms))


def clip_rows(table: FloatArray, radius: float) -> FloatArray:
    """Return the rows projected on the ball; missing cells stay missing and count as 0.

    The projection on a convex set is 1-Lipschitz, so no distance grows.
    """
    filled = np.where(np.isnan(table), 0.0, table)
    # Scale by the largest entry first: squares of huge finite entries would overflow.
    largest = np.maximum(np.abs(filled).max(axis=1, keepdims=True), np.finfo(float).tiny)
    unit = np.sqrt(((filled / largest) ** 2).sum(axis=1, keepdims=True))
    with no_warnings():  # the norm itself may overflow; a warning would tell of a row
        inside = largest * unit <= radius
    scaled = (filled / largest) * (radius / np.maximum(unit, 1.0))
    return np.where(np.isnan(table), np.nan, np.where(inside, filled, scaled))


class Target(Protocol):
    """How the entries of a target are read as numbers, each by itself; public."""

    def read(self, y: Any) -> FloatArray:
        """Return a number for each entry. An odd one is not refused."""


@dataclass(frozen=True)
class Labels:
    """One label counts as 1, any other as -1.

    Parameters
    ----------
    positive : object
        The label that counts as 1.

    Examples
    --------
    >>> Labels("yes").read(["yes", "no", None])
    array([ 1., -1., -1.])
    """

    positive: object

    def read(self, y: Any) -> FloatArray:
        """Return 1 or -1 for each entry."""
        return _each(lambda label: 1.0 if _same(label, self.positive) else -1.0, y)


@dataclass(frozen=True)
class BoundedNumbers:
    """Numbers clipped to an interval around 0; whatever is not a number counts as 0.

    Parameters
    ----------
    bound : float
        Largest absolute value.

    Examples
    --------
    >>> BoundedNumbers(1.0).read([0.5, "-7", "many"])
    array([ 0.5, -1. ,  0. ])
    """

    bound: float

    def read(self, y: Any) -> FloatArray:
        """Return a number within the bound for each entry."""
        values = _each(as_number, y)
        return np.asarray(np.clip(np.nan_to_num(values, nan=0.0), -self.bound, self.bound))


def _each(read: Callable[[Any], float], y: Any) -> FloatArray:
    """Read a target row by row: an odd entry neither refuses it nor changes how others are read."""
    return np.fromiter(map(read, y), np.float64, len(y))


def _same(label: Any, wanted: object) -> bool:
    try:
        return bool(label == wanted)
    except (TypeError, ValueError):  # pandas' NA, or an array
        return False
