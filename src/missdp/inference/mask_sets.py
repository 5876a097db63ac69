"""Attributes that are missing in nearly the same rows, found in released counts.

In a panel or a questionnaire, whole blocks of answers are missing together. The noise of single
pairs of attributes then differs, although the pairs estimate one number. Here such attributes form
sets, by average linkage of the correlations of their missing cells (Sokal and Michener 1958). Two
sets are compared by the mean of all their pairs, since the largest of many noisy correlations is
mostly noise. Correlations between two sets are shrunk towards their mean, by empirical Bayes
(DerSimonian and Laird 1986).

Everything here is a function of released values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from missdp.inference.missing_rates import variance_beyond_noise
from missdp.types import Floats

#: Released number of rows in which both attributes of a pair are missing, and its noise.
CountsOfBoth: TypeAlias = Mapping[tuple[int, int], tuple[float, float]]


_SAME = 0.8  # correlation of missing cells from which two sets of attributes become one
_MIN_VARIANCE = 1e-12  # smallest variance of a share that is divided by


def sets_missing_together(rates: Floats, both: CountsOfBoth, n_rows: float) -> tuple[int, ...]:
    """Return the set of each attribute. Attributes of a set are missing in nearly the same rows.

    Parameters
    ----------
    rates : ndarray of float64, shape (d,)
        Missing rate of each attribute.
    both : mapping of (int, int) to (float, float)
        Released number of rows in which both attributes are missing, and its noise.
    n_rows : float
        Released number of rows.

    Returns
    -------
    tuple of int, length d
        The first attribute of each attribute's set. Most sets have one attribute.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.mask_sets import sets_missing_together
    >>> both = {(0, 1): (29.0, 1.0), (0, 2): (10.0, 1.0), (1, 2): (9.0, 1.0)}
    >>> sets_missing_together(np.array([0.3, 0.3, 0.3]), both, 100.0)
    (0, 0, 2)
    """
    first = np.arange(len(rates))
    spread = np.sqrt(rates * (1 - rates))
    pairs = [pair for pair in both if spread[[*pair]].min() ** 2 > _MIN_VARIANCE]
    if not pairs:
        return tuple(first.tolist())
    one, other = np.array(pairs).T
    counts, stds = np.array([both[pair] for pair in pairs]).T / n_rows
    scale = spread[one] * spread[other]
    correlations, weights = np.zeros((2, len(rates), len(rates)))
    weights[one, other] = np.square(scale / np.maximum(stds, math.sqrt(_MIN_VARIANCE)))
    correlations[one, other] = (counts - rates[one] * rates[other]) / scale * weights[one, other]
    correlations, weights = correlations + correlations.T, weights + weights.T
    # The largest noise of many pairs hardly exceeds this number of SDs.
    noise_limit = 1 + math.sqrt(2 * math.log(len(pairs) + 1))
    while True:
        clear = correlations > np.maximum(_SAME * weights, noise_limit * np.sqrt(weights))
        if not clear.any():
            return tuple(first.tolist())
        mean = np.divide(correlations, weights, out=np.zeros_like(weights), where=clear)
        a, b = sorted(np.unravel_index(int(mean.argmax()), mean.shape))
        first[first == b] = a
        for sums in (correlations, weights):
            sums[a] += sums[b]
            sums[:, a] = sums[a]
            sums[a, a] = 0.0
            sums[b] = sums[:, b] = 0.0


def counts_by_sets(
    rates: Floats, both: CountsOfBoth, n_rows: float, first: Sequence[int]
) -> dict[tuple[int, int], tuple[float, float]]:
    """Return the numbers of rows that lack two attributes, with less noise by their sets.

    Parameters
    ----------
    rates : ndarray of float64, shape (d,)
        Missing rate of each attribute.
    both : mapping of (int, int) to (float, float)
        Released number of rows in which both attributes are missing, and its noise.
    n_rows : float
        Released number of rows.
    first : sequence of int, length d
        The first attribute of each attribute's set: see `sets_missing_together`.

    Returns
    -------
    dict of (int, int) to (float, float)
        The correlations of all pairs from the same two sets are shrunk towards their mean. A pair
        of attributes without sets stays as it is.
    """
    counts, blocks = dict(both), dict[tuple[int, int], list[tuple[int, int]]]()
    for a, b in both:
        one, other = sorted((first[a], first[b]))
        blocks.setdefault((one, other), []).append((a, b))
    for pairs in blocks.values():
        p, q = rates[np.array(pairs).T]
        scale = n_rows * np.sqrt(p * (1 - p) * q * (1 - q))
        if len(pairs) > 1 and scale.min() > n_rows * _MIN_VARIANCE:
            released, stds = np.array([both[pair] for pair in pairs]).T
            expected = n_rows * p * q
            values, noise = _shrunk_to_mean((released - expected) / scale, stds / scale)
            new = zip((expected + values * scale).tolist(), (noise * scale).tolist(), strict=True)
            counts |= zip(pairs, new, strict=True)
    return counts


def _shrunk_to_mean(values: Floats, stds: Floats) -> tuple[Floats, Floats]:
    """Return values shrunk to their mean, by their variance beyond noise, and their noise."""
    variances = np.square(stds) + _MIN_VARIANCE
    weights = 1 / variances
    mean = float(weights @ values / weights.sum())
    spread = variance_beyond_noise(values - mean, weights)
    share, weights = spread / (spread + variances), 1 / (spread + variances)
    mean = float(weights @ values / weights.sum())
    return mean + share * (values - mean), np.sqrt(share * variances + 1 / weights.sum())
