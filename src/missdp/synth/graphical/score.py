"""How much a marginal deserves to be measured: a score of sensitivity one, rounding included."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["SCORE_SENSITIVITY", "marginal_score", "on_grid"]

Floats = NDArray[np.float64]

_GRID = 2.0**-10  # rows
_LARGEST = 2.0**31  # rows
_MOST_ROWS = 2.0**41

#: How far one row moves a score; proven below.
SCORE_SENSITIVITY = 1.0 + 2.0**-20


def on_grid(values: Floats) -> Floats:
    """Round released values to multiples of 1/1024 of a row, within 2³¹ rows."""
    return np.minimum(np.maximum(np.rint(values / _GRID) * _GRID, -_LARGEST), _LARGEST)


def marginal_score(
    exact: NDArray[np.integer], expected: Floats, *, bias: float, weight: float
) -> float:
    """Return ``weight (Σ |exact − expected| − bias)``: L1 error less what noise would add.

    Parameters
    ----------
    exact : ndarray of int
        Private counts, at least 0, less than 2⁴¹ together.
    expected : ndarray of float
        What the released model predicts, at least 0.
    bias : float
        Public.
    weight : float in (0, 1]
        Public.

    Notes
    -----
    One row moves one count by one, so in exact arithmetic the score moves by at most ``weight``.
    In floating point: ``expected`` and ``bias`` are first rounded to multiples of 2⁻¹⁰, and
    ``expected`` scaled down if it adds up to more than 2⁴¹, which is post-processing. Every
    difference, and every partial sum, below 2⁴³, is then a multiple of 2⁻¹⁰ that a double holds
    exactly, in whatever order it is added, so the sum still moves by at most one. Clipping at 2³¹
    moves no two values further apart. Only the product with the weight is rounded, by at most
    2⁻⁵³ · 2³¹ for each of two neighbours: 2⁻²¹ together, less than the 2⁻²⁰ that
    `SCORE_SENSITIVITY` allows.

    Examples
    --------
    >>> marginal_score(np.array([3, 5]), np.array([4.0, 4.5]), bias=1.0, weight=0.5)
    0.25
    """
    predicted = on_grid(expected / max(1.0, float(expected.sum()) / _MOST_ROWS))
    gap = float(np.abs(exact - predicted).sum())
    above = gap - round(min(max(bias, -_LARGEST), _LARGEST) / _GRID) * _GRID
    return weight * min(max(above, -_LARGEST), _LARGEST)
