"""Noisy counts made plausible: proportions that sum to one, and ends that fall off outwards."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.types import Floats

Value = TypeVar("Value", float, Floats)

_PLAIN, _PLAIN_END = 3.0, 2.0  # standard deviations of noise: top codes lie at the ends


def precision_mean(one: tuple[Value, float], other: tuple[Value, float]) -> tuple[Value, float]:
    """Return the mean of two noisy numbers or tables by their precisions, and its noise.

    >>> precision_mean((np.array([2.0]), 1.0), (np.array([4.0]), 1.0))[0]
    array([3.])
    """
    first, second = one[1] ** -2, other[1] ** -2
    return (first * one[0] + second * other[0]) / (first + second), (first + second) ** -0.5


def enforce_decreasing_tails(counts: NDArray[np.float64], std: float) -> NDArray[np.float64]:
    """Return noisy counts of numbers in their order, with ends that fall off outwards.

    Beyond the outermost count that stands out of the noise, nothing tells one number from the next:
    left as they are, counts that noise lifts above 0 would be where they weigh most, far out.
    """
    from scipy.optimize import isotonic_regression

    decreasing, thresholds = np.array(counts, dtype=np.float64), np.full(len(counts), _PLAIN * std)
    thresholds[[0, -1]] = _PLAIN_END * std
    clear = np.flatnonzero(decreasing > thresholds)
    if clear.size:
        for end, rising in ((slice(clear[0]), True), (slice(clear[-1] + 1, None), False)):
            if decreasing[end].size:
                decreasing[end] = isotonic_regression(decreasing[end], increasing=rising).x
    return decreasing


def project_to_simplex(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the point of ``{p >= 0, sum p = 1}`` nearest to ``counts`` in Euclidean distance.

    Unlike clipping at zero and dividing by the sum, this does not hand the mass of clipped
    negative noise to the large cells in proportion: it subtracts one constant everywhere.

    >>> project_to_simplex(np.array([0.7, 0.5, -0.2])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    flat = counts.ravel()
    ordered = np.sort(flat)[::-1]
    thresholds = (np.cumsum(ordered) - 1.0) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(ordered > thresholds)[-1]
    return np.asarray(np.maximum(counts - thresholds[last], 0.0))
