"""How relations to other attributes go on inside bins: by straight lines in the logit of ranks.

A table of bins says what goes with a bin, not with the values inside it. These differ, most of all
far out, where a few rows make most of a covariance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from missdp.types import Floats

_LEAST = 1e-9
_FURTHEST = 1e-6  # rank from either end


@dataclass(frozen=True, eq=False)
class Lines:
    """Where the values of a number lie between its bins, by the logit of their ranks.

    Parameters
    ----------
    off : ndarray, shape (codes, points)
        How far each value is from the middle of its bin.
    home : ndarray of int64, shape (codes,)
        The bin that each code lies in: itself, but for rows that are hidden far out.
    bins, below, above : ndarray of int64
        Bins in order, and those beside each; spikes are none.
    gap : ndarray
        From the middle of that below to the middle of that above.
    """

    off: Floats
    home: NDArray[np.int64]
    bins: NDArray[np.int64]
    below: NDArray[np.int64]
    above: NDArray[np.int64]
    gap: Floats

    @classmethod
    def of(cls, points: Floats, inside: Floats, law: Floats, home: NDArray[np.int64]) -> Self:
        """Find them, given the values of each code, their weights, and the share of each code."""
        size = int(home.max()) + 1
        mass = np.maximum(law, 0.0)[:, None] * np.maximum(inside, 0.0)
        order = np.argsort(points, axis=None, kind="stable")
        sorted_mass = mass.ravel()[order]
        rank: Floats = np.empty(mass.size)
        rank[order] = (np.cumsum(sorted_mass) - sorted_mass / 2) / max(sorted_mass.sum(), _LEAST)
        rank = np.clip(rank, _FURTHEST, 1 - _FURTHEST).reshape(mass.shape)
        score = np.log(rank / (1 - rank))
        total = np.maximum(np.bincount(home, mass.sum(axis=1), size), _LEAST)
        middle = np.bincount(home, (mass * score).sum(axis=1), size) / total
        bins = np.flatnonzero(np.ptp(points[:size], axis=1) > 0)
        bins = bins[np.argsort(middle[bins], kind="stable")]
        below, above = np.append(bins[:1], bins[:-1]), np.append(bins[1:], bins[-1:])
        gap = np.maximum(middle[above] - middle[below], _LEAST)
        return cls(score - middle[home][:, None], home, bins, below, above, gap)

    def along(self, values: Floats, inside: Floats, law: Floats, *, lean: float) -> Floats:
        """Return what a function of a number counts at each code, in a relation to another one.

        Lines go on beyond the outermost bins; the mean over all codes stays as it is. ``lean`` says
        how steep they are: 1 is as between the bins beside, and 0 leaves the means of bins.
        """
        means = np.asarray((inside * values).sum(axis=1))
        if len(self.bins) < 2:
            return means
        size = int(self.home.max()) + 1
        total = np.bincount(self.home, law, size)
        sums = np.bincount(self.home, law * means, size)
        centre = sums / np.where(np.abs(total) > _LEAST, total, 1.0)
        each = law[:, None] * inside * (values - centre[self.home][:, None]) * self.off
        part = np.bincount(self.home, each.sum(axis=1), size)[self.bins] * lean / self.gap
        np.add.at(means, self.above, part / np.maximum(law[self.above], _LEAST))
        np.add.at(means, self.below, -part / np.maximum(law[self.below], _LEAST))
        return means
