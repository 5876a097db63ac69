"""How far apart two tables of the same size are: rows replaced, and movement of the others."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import ParameterError

__all__ = ["NEIGHBOURS", "TableDistance", "row_movements"]

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
