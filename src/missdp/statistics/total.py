"""How far a released estimate may be from the population: noise, sampling, imputation.

Under MAR given the attributes that are matched on, a completed mean over n rows, r of them filled,
has about the variance

    sigma^2 / n * (1 + r / n * (1 + 3/2 * r / (n - r))),

sigma^2 the variance of the values: the first term is that of sampling, the second that of filling.
A donor that stands for 1 + w rows counts (1 + w)^2 times, which adds w + w^2 for each donor; w is
r / (n - r) on average over donors, and larger on average over recipients, who are many where donors
are few: by half is allowed for. That donors resemble recipients more than other rows do is not
used, so the variance is rather too large. Of equally near donors each counts alike, so that
nothing is left to chance.

Everything here is public, or released.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from missdp.mechanisms.row_door import Noisy
from missdp.statistics.worst_case import Interval

__all__ = ["Beside", "Sample"]

_UNEVEN = 1.5  # donors are scarcer around recipients than on average
_MOST_FILLED = 0.95
_ONE_DEVIATION = 0.6827
# Probabilities beyond levels at which noise is looked at, in falling order.
_BEYOND = np.geomspace(1.0, 1e-7, 301)


@dataclass(frozen=True)
class Sample:
    """Released facts about the rows of an estimate.

    Parameters
    ----------
    rows : float
        Their number.
    filled : float
        How many of them were filled, about.
    variance : float
        Of what is averaged over them.
    """

    rows: float
    filled: float
    variance: float

    @property
    def of_mean(self) -> float:
        """Variance of their mean as an estimate of the population's."""
        rows = max(self.rows, 1.0)
        share = min(max(self.filled / rows, 0.0), _MOST_FILLED)
        lost = share * (1 + _UNEVEN * share / (1 - share))
        return max(self.variance, 0.0) / rows * (1 + lost)


@dataclass(frozen=True, kw_only=True)
class Beside:
    """What was released beside an answer, so that it can be compared with the population.

    Parameters
    ----------
    kind : {"count", "proportion", "mean", "sum"}
    bounds : (float, float)
        Of the values.
    known : mapping of str to float
        Released numbers of rows, and sums of squares around the middle of the bounds; at least 0.
    divisor : Noisy or None
        What the answer's main release was divided by.
    """

    kind: str
    bounds: Interval
    known: Mapping[str, float]
    divisor: Noisy | None

    def interval(self, value: float, main: Noisy, confidence: float) -> Interval | None:
        """Return where the population's value is; None if the scale of the noise is private."""
        if main.radius is None:
            return None
        radius, scale, std = main.radius, 1.0, math.sqrt(self._variance(value))
        if self.divisor is not None:
            assert self.divisor.radius is not None  # neither is private, or both
            scale = 1 / self._rows
            middle = (self.bounds[0] + self.bounds[1]) / 2 if self.kind == "mean" else 0.0
            std = math.hypot(std, scale * (value - middle) * self.divisor.radius(_ONE_DEVIATION))
        width = _half_width(lambda level: scale * radius(level), std, confidence)
        return value - width, value + width

    @property
    def _rows(self) -> float:
        """Rows that the answer is about."""
        rows = self.known.get("rows in question", 1.0)
        return max(rows if self.divisor is None else self.divisor.value, 1.0)

    @property
    def _everyone(self) -> float:
        return max(self.known.get("all rows", 1.0), 1.0)

    def _variance(self, value: float) -> float:
        """Variance of the answer without noise as an estimate of the population's."""
        rows, everyone, filled = self._rows, self._everyone, self.known.get("rows filled", 0.0)
        if self.kind == "count":
            part = min(value / everyone, 1.0)
            sample = Sample(everyone, filled, part * (1 - part))
            return everyone**2 * sample.of_mean
        # Of the rows that may be in question, as many are filled as of those that are.
        filled *= rows / max(self.known.get("rows in question", rows), 1.0)
        if self.kind == "proportion":
            return Sample(rows, filled, value * (1 - value)).of_mean
        mean = value if self.kind == "mean" else value / rows
        of_mean = Sample(rows, filled, self._spread(mean, rows - filled)).of_mean
        if self.kind == "mean":
            return of_mean
        # How many rows are in question varies from sample to sample, too.
        return rows**2 * of_mean + mean**2 * rows * max(0.0, 1 - rows / everyone)

    def _spread(self, mean: float, observed: float) -> float:
        """Variance of the observed values."""
        lower, upper = self.bounds
        mean, largest = min(max(mean, lower), upper), ((upper - lower) / 2) ** 2
        squares = self.known["squares as observed"] / max(observed, 1.0)
        return max(0.0, min(squares, largest) - (mean - (lower + upper) / 2) ** 2)


def _half_width(radius: Callable[[float], float], std: float, level: float) -> float:
    """Return what holds a noise plus an independent normal error with a probability.

    Rounded up: the noise is taken to be as large as it is at the far end of each of 300 steps.

    Examples
    --------
    >>> wide = _half_width(lambda level: -math.log1p(-level), 1.0, 0.95)
    >>> 3.4 < wide < 3.8
    True
    """
    if std <= 0:
        return radius(level)
    from scipy.special import ndtr

    weights = np.append(-np.diff(_BEYOND), _BEYOND[-1]) / 2
    noise = np.array([radius(1 - beyond) for beyond in np.append(_BEYOND[1:], _BEYOND[-1] / 2)])

    def outside(width: float) -> float:
        past = ndtr((noise - width) / std) + ndtr((-noise - width) / std)
        return float(2 * (weights * past).sum())

    low, high = 0.0, radius(1 - _BEYOND[-1]) + 8 * std
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) > 1 - level else (low, middle)
    return high
