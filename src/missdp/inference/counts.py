"""Plausible values for noisy counts: proportions with the sum one, and decreasing tails."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from missdp.types import Floats

Value = TypeVar("Value", float, Floats)

# SDs of noise of a clear count, inside and at both ends, where top codes are.
_PLAIN, _PLAIN_END = 3.0, 2.0


def precision_mean(one: tuple[Value, float], other: tuple[Value, float]) -> tuple[Value, float]:
    """Return the mean of two noisy numbers or tables by their precisions, and its noise.

    >>> import numpy as np
    >>> from missdp.inference.counts import precision_mean
    >>> precision_mean((np.array([2.0]), 1.0), (np.array([4.0]), 1.0))[0]
    array([3.])
    """
    first, second = one[1] ** -2, other[1] ** -2
    return (first * one[0] + second * other[0]) / (first + second), (first + second) ** -0.5


def enforce_decreasing_tails(counts: Floats, std: float) -> Floats:
    """Make the tails of a noisy histogram decrease towards its ends.

    Beyond the outermost count that exceeds the noise, counts carry no information about their
    order. Left unchanged, positive ones would inflate the standard deviation.

    Parameters
    ----------
    counts : ndarray of shape (n_levels,)
        Released noisy counts in level order. May be negative.
    std : float
        Standard deviation of each count's noise, in rows.

    Returns
    -------
    ndarray of shape (n_levels,)
        A copy with monotone tails (isotonic regression).

    Notes
    -----
    Post-processing: no privacy cost.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.counts import enforce_decreasing_tails
    >>> enforce_decreasing_tails(np.array([50.0, 40.0, -1.0, 3.0]), 2.0).tolist()
    [50.0, 40.0, 1.0, 1.0]
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


def project_to_simplex(counts: Floats) -> Floats:
    """Return the point of ``{p >= 0, sum p = 1}`` nearest to ``counts`` in Euclidean distance.

    Clipping at zero and dividing by the sum would assign the clipped negative noise to large cells
    in proportion. The projection subtracts one constant everywhere.

    >>> import numpy as np
    >>> from missdp.inference.counts import project_to_simplex
    >>> project_to_simplex(np.array([0.7, 0.5, -0.2])).round(2).tolist()
    [0.6, 0.4, 0.0]
    """
    flat = counts.ravel()
    ordered = np.sort(flat)[::-1]
    thresholds = (np.cumsum(ordered) - 1.0) / np.arange(1, flat.size + 1)
    last = np.flatnonzero(ordered > thresholds)[-1]
    return np.asarray(np.maximum(counts - thresholds[last], 0.0))
