"""Count all pairs of attributes in synthetic rows at once, as products of indicator matrices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["PairCounts"]

Floats = NDArray[np.float64]

_CELLS_AT_ONCE = 4_000_000  # of indicators: 32 MB


class PairCounts:
    """Numbers of rows by the levels of two attributes, plain and weighted.

    Parameters
    ----------
    rows : ndarray of int64, shape (d, n)
        Synthetic rows.
    weights : ndarray, shape (d, n)
        Weight of each cell; a row has the product of both in a pair.
    sizes : sequence of int
        Levels of each attribute.

    Examples
    --------
    >>> rows, weights = np.array([[0, 1, 1], [0, 0, 1]]), np.array([[1, 0.5, 1], [1, 0.5, 0.5]])
    >>> counts, weighted = PairCounts(rows, weights, [2, 2]).of(0, 1)
    >>> counts.tolist(), weighted.tolist()
    ([1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.25, 0.5])
    """

    def __init__(self, rows: NDArray[np.int64], weights: Floats, sizes: Sequence[int]) -> None:
        self._ends = np.cumsum([0, *sizes])
        width, n = int(self._ends[-1]), rows.shape[1]
        # Whole numbers up to 2^24 are exact in single precision, which is twice as fast.
        self._counts, self._weighted = np.zeros((width, width)), np.zeros((width, width))
        step = max(1, _CELLS_AT_ONCE // width)
        column = rows + self._ends[:-1, np.newaxis]
        for start in range(0, n, step):
            part = column[:, start : start + step]
            at = np.arange(part.shape[1])
            ones = np.zeros((part.shape[1], width), dtype=np.float32)
            ones[at, part] = 1.0
            self._counts += ones.T @ ones
            table = np.zeros((part.shape[1], width))
            table[at, part] = weights[:, start : start + step]
            self._weighted += table.T @ table

    def of(self, a: int, b: int) -> tuple[Floats, Floats]:
        """Return both counts of a pair, flat, ``b`` running fastest."""
        block = slice(*self._ends[a : a + 2]), slice(*self._ends[b : b + 2])
        return self._counts[block].ravel(), self._weighted[block].ravel()
