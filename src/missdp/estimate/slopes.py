"""Relations of a number to other attributes inside its bins.

Everything here is a function of released values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy.special import logit

from missdp.estimate.tail_intervals import MIN_SHARE
from missdp.types import Floats, Ints

_MIN_RANK = 1e-6  # smallest distance of a rank from 0 and from 1


@dataclass(frozen=True, eq=False)
class WithinBinSlopes:
    """Relations to other attributes inside bins: straight lines in the logit of ranks.

    A table of bins shows how a bin relates to another attribute, and nothing about the values
    inside the bin. They differ most far from the middle, where a few rows make most of a
    covariance.
    """

    offsets: Floats  # (codes, points): distance of each value from the middle of its bin
    home: Ints  # (codes,): the bin of each code. Hidden rows have codes of their own
    bins: Ints  # bins in order, without spikes
    below: Ints  # the bin below each of ``bins``
    above: Ints  # the bin above
    gap: Floats  # distance between the middles of these two
    min_share: Floats  # (bins,): smallest divisor of sums, if a draw of the noise is smaller

    @classmethod
    def of(
        cls, points: Floats, weights: Floats, shares: Floats, home: Ints, *, noise: float = 0.0
    ) -> Self:
        """Return the lines of a number.

        Parameters
        ----------
        points, weights : ndarray, shape (codes, points)
            Values of each code, and the weight of each value in its code.
        shares : ndarray, shape (codes,)
            Share of the rows with each code.
        home : ndarray of int, shape (codes,)
            The bin of each code.
        noise : float, default 0
            Noise of the share of a cell. The rates of a bin with a smaller share are unknown: lines
            lead from the bin below it to the bin above it.

        Returns
        -------
        WithinBinSlopes
        """
        size = int(home.max()) + 1
        mass = np.maximum(shares, 0.0)[:, None] * np.maximum(weights, 0.0)
        order = np.argsort(points, axis=None, kind="stable")
        in_order = mass.ravel()[order]
        rank: Floats = np.empty(mass.size)
        rank[order] = np.cumsum(in_order) - in_order / 2
        rank = rank.reshape(mass.shape) / max(in_order.sum(), MIN_SHARE)
        score = logit(np.clip(rank, _MIN_RANK, 1 - _MIN_RANK))
        total = np.maximum(np.bincount(home, mass.sum(axis=1), size), MIN_SHARE)
        middle = np.bincount(home, (mass * score).sum(axis=1), size) / total
        bins = np.flatnonzero((np.ptp(points[:size], axis=1) > 0) & (total > noise))
        bins = bins[np.argsort(middle[bins], kind="stable")]
        below, above = np.append(bins[:1], bins[:-1]), np.append(bins[1:], bins[-1:])
        gap = np.maximum(middle[above] - middle[below], MIN_SHARE)
        return cls(score - middle[home][:, None], home, bins, below, above, gap, total / 2)

    def code_means(self, values: Floats, weights: Floats, shares: Floats, *, lean: float) -> Floats:
        """Return the mean of a function of a number at each code, in a relation to an attribute.

        Lines continue beyond the outermost bins. The mean over all codes stays as it is.

        Parameters
        ----------
        values, weights : ndarray, shape (codes, points)
            The function at each value, and the weight of each value in its code.
        shares : ndarray, shape (codes,)
            Share of the rows with each code.
        lean : float
            Steepness of the lines: 1 is that between the neighbouring bins, and with 0 bins keep
            their means.

        Returns
        -------
        ndarray, shape (codes,)
        """
        centred, slopes = self._centred(weights, shares)
        more = (centred * values).sum(axis=1) @ slopes
        return np.asarray((weights * values).sum(axis=1) + lean * more)

    def group_tilt(self, weights: Floats, cells: Floats) -> Floats:
        """Return the difference of shares of groups and of bins, for each value.

        Rates of groups continue inside a bin as they change between the neighbouring bins. The
        share of each bin stays as it is.

        Parameters
        ----------
        weights : ndarray, shape (codes, points)
            Weight of each value in its code.
        cells : ndarray, shape (codes, groups)
            Shares of all rows.

        Returns
        -------
        ndarray, shape (codes, points, groups)
        """
        centred, slopes = self._centred(weights, cells.sum(axis=1))
        return np.asarray(centred[:, :, None] * (slopes @ cells)[:, None, :])

    def _centred(self, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
        """Return distances of values from the centre of their bin, by share, and its slopes."""
        times = len(shares) // len(self.home)  # 2 if rows without the number are separate codes
        members = np.tile(np.eye(len(self.min_share))[self.home], (times, 1))
        mass, offsets = shares[:, None] * weights, np.tile(self.offsets, (times, 1))
        total = np.maximum(members.T @ shares, self.min_share)
        centre = members.T @ (mass * offsets).sum(axis=1) / total
        rise = np.zeros((len(total), len(total)))
        rise[self.bins, self.above] = 1 / self.gap / total[self.above]
        rise[self.bins, self.below] -= 1 / self.gap / total[self.below]
        return mass * (offsets - (members @ centre)[:, None]), members @ rise @ members.T
