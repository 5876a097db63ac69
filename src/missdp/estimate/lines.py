"""How relations to other attributes go on inside bins: by straight lines in the logit of ranks.

A table of bins says what goes with a bin, not with the values inside it. These differ, most of all
far out, where a few rows make most of a covariance.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST = 1e-9
_FURTHEST = 1e-6  # rank from either end


def along_lines(
    values: Floats,
    points: Floats,
    inside: Floats,
    law: Floats,
    home: NDArray[np.int64],
    *,
    lean: float,
) -> Floats:
    """Return what a function of a number counts at each code, in a relation to another attribute.

    The logit of a value's rank tells how far it is from the middle of its bin, between the bins
    beside it. Lines go on beyond the outermost bins; the mean over all codes stays as it is.

    Parameters
    ----------
    values, points, inside : arrays of shape (codes, points)
        The function at the values that stand for each code, these values, and their weights.
    law : ndarray, shape (codes,)
        Share of the rows at each code.
    home : ndarray of int64, shape (codes,)
        The bin that each code lies in: itself, but for rows that are hidden far out.
    lean : float
        How steep lines are: 1 is as between the bins beside, and 0 leaves the means of bins.
    """
    means = np.asarray((inside * values).sum(axis=1))
    size = int(home.max()) + 1
    bins = np.flatnonzero(np.ptp(points[:size], axis=1) > 0)
    if len(bins) < 2 or lean == 0:
        return means
    mass = np.maximum(law, 0.0)[:, None] * np.maximum(inside, 0.0)
    order = np.argsort(points, axis=None, kind="stable")
    sorted_mass = mass.ravel()[order]
    rank: Floats = np.empty(mass.size)
    rank[order] = (np.cumsum(sorted_mass) - sorted_mass / 2) / max(sorted_mass.sum(), _LEAST)
    rank = np.clip(rank, _FURTHEST, 1 - _FURTHEST).reshape(mass.shape)
    score = np.log(rank / (1 - rank))
    of_bin = np.bincount(home, mass.sum(axis=1), size)
    middle = np.bincount(home, (mass * score).sum(axis=1), size) / np.maximum(of_bin, _LEAST)
    each = law[:, None] * inside * values * (score - middle[home][:, None])
    off = lean * np.bincount(home, each.sum(axis=1), size)
    bins = bins[np.argsort(middle[bins], kind="stable")]
    below, above = np.append(bins[0], bins[:-1]), np.append(bins[1:], bins[-1])
    part = off[bins] / np.maximum(middle[above] - middle[below], _LEAST)
    np.add.at(means, above, part / np.maximum(law[above], _LEAST))
    np.add.at(means, below, -part / np.maximum(law[below], _LEAST))
    return means
