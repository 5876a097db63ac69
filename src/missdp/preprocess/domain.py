"""How far apart two tables of the same size are: rows replaced, and movement of the others.

Public facts about the rows that reach a step, and the gate that makes them true.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError, number, replacing, whole
from missdp.mechanisms.laws import no_warnings

__all__ = [
    "NEIGHBOURS",
    "BoundedNumbers",
    "Labels",
    "RowDomain",
    "TableDistance",
    "Target",
    "as_number",
    "as_rows",
    "clip_rows",
    "row_movements",
]


FloatArray = NDArray[np.float64]
# Room for floating-point error when a distance is compared with its bound.
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True)
class TableDistance:
    """An upper bound on the distance between two tables with the same number of rows.

    Row i of one table is compared with row i of the other. At most ``replaced`` rows are
    unrelated; among the rest at most ``moved_rows`` differ, each by at most ``moved_max`` in
    Euclidean norm, by ``moved_l12`` summed, and by ``moved_frobenius`` in root sum of squares. A
    row that keeps its values but whose missing cells change counts as replaced.

    Parameters
    ----------
    replaced : int
        Rows replaced outright (h), at least 0.
    moved_rows : int, default 0
        Other rows that moved.
    moved_max, moved_l12, moved_frobenius : float, default infinity
        Norms of the movement; each is tightened to what the others imply. With no row moved all
        are 0.

    Raises
    ------
    ParameterError
        If a number is negative, or rows move without any finite norm.

    Notes
    -----
    Replacing one row is ``TableDistance(replaced=1)``. For any number of replaced rows, the
    choice of the rows that moved most minimises every norm at once, so the distance of two given
    tables is computable exactly (`between`).

    Examples
    --------
    >>> step = TableDistance(replaced=1, moved_rows=4, moved_max=0.5)
    >>> step.moved_l12, step.moved_frobenius
    (2.0, 1.0)
    """

    replaced: int
    moved_rows: int = 0
    moved_max: float = math.inf
    moved_l12: float = math.inf
    moved_frobenius: float = math.inf

    def __post_init__(self) -> None:
        norms = (self.moved_max, self.moved_l12, self.moved_frobenius)
        if self.replaced < 0 or self.moved_rows < 0 or not all(v >= 0 for v in norms):
            raise ParameterError("distances are counts and norms, and cannot be negative or NaN")
        if self.moved_rows and math.isinf(min(norms)):
            raise ParameterError("rows that move need at least one finite norm of their movement")
        rows = self.moved_rows
        largest = min(norms) if rows else 0.0
        l12 = min(self.moved_l12, rows * largest, math.sqrt(rows) * self.moved_frobenius)
        frobenius = min(self.moved_frobenius, math.sqrt(rows) * largest, l12) if rows else 0.0
        object.__setattr__(self, "moved_max", largest)
        object.__setattr__(self, "moved_l12", l12 if rows else 0.0)
        object.__setattr__(self, "moved_frobenius", frobenius)
        if largest == 0:
            object.__setattr__(self, "moved_rows", 0)

    @classmethod
    def between(cls, first: ArrayLike, second: ArrayLike, *, replaced: int = 1) -> Self:
        """Return the exact distance of two tables, the ``replaced`` worst rows set aside.

        Parameters
        ----------
        first, second : array_like of shape (n, d)
            Tables; NaN is a missing cell.
        replaced : int, default 1
            How many rows count as replaced.

        Returns
        -------
        TableDistance

        Raises
        ------
        ParameterError
            If more rows than ``replaced`` changed which of their cells are missing.

        Examples
        --------
        >>> TableDistance.between([[0.0], [1.0]], [[0.5], [9.0]]).moved_l12
        0.5
        """
        rest = np.sort(row_movements(first, second))[::-1][replaced:]
        if np.isinf(rest).any():
            raise ParameterError("more rows than `replaced` changed which cells are missing")
        return cls(
            replaced=replaced,
            moved_rows=int(np.count_nonzero(rest)),
            moved_max=float(rest.max(initial=0.0)),
            moved_l12=float(rest.sum()),
            moved_frobenius=float(np.sqrt((rest**2).sum())),
        )

    def covers(self, first: ArrayLike, second: ArrayLike) -> bool:
        """Whether two tables are within this distance (up to rounding of 1e-9).

        Examples
        --------
        >>> NEIGHBOURS.covers([[0.0], [1.0]], [[0.0], [9.0]])
        True
        >>> NEIGHBOURS.covers([[0.0], [1.0]], [[0.1], [9.0]])
        False
        """
        rest = np.sort(row_movements(first, second))[::-1][self.replaced :]
        if np.isinf(rest).any():
            return False
        room = _TOLERANCE * (1 + self.moved_max)
        return bool(
            np.count_nonzero(rest > room) <= self.moved_rows
            and rest.max(initial=0.0) <= self.moved_max + room
            and rest.sum() <= self.moved_l12 + room * max(1, rest.size)
            and np.sqrt((rest**2).sum()) <= self.moved_frobenius + room * max(1, rest.size)
        )

    def forget_movement(self) -> TableDistance:
        """Return the coarser distance in which every moved row counts as replaced.

        Examples
        --------
        >>> TableDistance(replaced=1, moved_rows=3, moved_max=0.1).forget_movement().replaced
        4
        """
        return TableDistance(replaced=self.replaced + self.moved_rows)

    def after(
        self, *, rows: int, lipschitz: float, shift: float, hit: int, diameter: float
    ) -> TableDistance:
        """Return the distance after a step that moves row i by at most lipschitz * d_i + shift.

        Parameters
        ----------
        rows : int
            Number of rows of the table.
        lipschitz : float
            How much the fitted row function stretches distances, at least 0.
        shift : float
            How far the fitted function itself moves, at any row it is applied to.
        hit : int
            To how many rows ``shift`` applies.
        diameter : float
            Largest possible distance between two output rows.

        Returns
        -------
        TableDistance
            By the triangle inequality in each of the three norms.
        """
        others = max(0, rows - self.replaced)
        hit = min(hit, others) if shift > 0 else 0
        return TableDistance(
            replaced=min(self.replaced, rows),
            moved_rows=min(others, self.moved_rows + hit),
            moved_max=min(diameter, lipschitz * self.moved_max + shift * (hit > 0)),
            moved_l12=lipschitz * self.moved_l12 + hit * shift,
            moved_frobenius=lipschitz * self.moved_frobenius + math.sqrt(hit) * shift,
        )


NEIGHBOURS = TableDistance(replaced=1)


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
