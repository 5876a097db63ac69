"""What an answer is: released numbers, their intervals, and what they promise; all public."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pydantic.dataclasses

from missdp.accounting import Guarantee
from missdp.schema import Level
from missdp.serialization import Record
from missdp.statistics.noisy import Noisy
from missdp.statistics.worst_case import Interval, Names


class _Answer(Record, abstract=True):
    def to_dict(self) -> dict[str, Any]:
        """Return JSON values; ``applicable`` and ``note`` only where they say something."""
        return {k: v for k, v in super().to_dict().items() if v or k not in ("applicable", "note")}


def _in_words(answer: Estimate | LevelEstimates) -> Iterator[str]:
    """Yield what is said of any answer below its numbers: for whom it holds, and a note."""
    if answer.applicable:
        verb = "is" if len(answer.applicable) == 1 else "are"
        yield (
            f"About the rows in which {' and '.join(answer.applicable)} {verb} applicable; rows in "
            "which this is not so, or is not known, have no part in it."
        )
    if answer.note:
        yield f"{answer.note}."


def _of_noise(confidence: float) -> str:
    return (
        f"In brackets: where the answer without noise lies with confidence {confidence:.0%}. "
        "Sampling and imputation error come on top."
    )


def _bar(interval: Interval) -> str:
    return f"  [{interval[0]:.6g}, {interval[1]:.6g}]"


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate(_Answer):
    """A released statistic.

    Parameters
    ----------
    name : str
        The question.
    value : float
        The answer, within its public bounds.
    interval : (float, float)
        Where the noiseless answer on the imputed table, averaged over equally near donors, lies
        with probability at least ``confidence`` over the noise. It costs nothing: the scale of the
        noise is public, or it is released with the answer. It covers neither sampling nor the
        uncertainty of the imputed values.
    confidence : float
        Of the interval, and of ``imputation_interval``; each alone, not both at once.
    guarantee : Guarantee
        What this answer promises. The budget holds the total.
    total_interval : (float, float) or None
        Where the value of the population that the rows were sampled from lies with probability
        about ``confidence``, if values are missing at random given what is matched on: over noise,
        sampling and imputation. By estimates of their sizes, not by bounds: an approximation,
        as usual for means of many rows. None for variances, correlations and groups, and with
        ``uncertainty="noise"``.
    imputation_interval : (float, float) or None
        Where the statistic of the complete table lies with probability at least ``confidence``
        over the noise: the same rows, every missing cell that the question reads holding *some*
        value of its public domain (or none, where a rule leaves open whether its attribute
        applies), whatever the reason that it is missing. It relies neither on
        the imputation nor on ``interval``, always holds ``value``, and does not cover sampling.
        For means and proportions it speaks of complete tables whose subpopulation has a row. None
        unless paid for with ``uncertainty="worst-case"``.
    applicable : tuple of str
        Attributes that the question is of and that do not apply to everybody: it is answered for
        the rows to which they surely apply. Public.
    note : str
        A line on why the noise interval is the whole range, and about which epsilon would help,
        from public facts and released numbers only. Empty if the interval is of use.
    """

    name: str
    value: float
    interval: Interval
    confidence: float
    guarantee: Guarantee
    total_interval: Interval | None = None
    imputation_interval: Interval | None = None
    applicable: Names = ()
    note: str = ""

    def __float__(self) -> float:
        return self.value

    def in_words(self, *, details: bool = False) -> str:
        """Return the answer as text, with its widest interval or, in ``details``, each of them."""
        best = self.interval if self.total_interval is None else self.total_interval
        of = " noise alone" if self.total_interval is None else ""
        lines = [f"{self.name}: {self.value:.6g}{_bar(best)}{of}", *_in_words(self)]
        if self.total_interval is not None:
            lines.append(
                f"In brackets: where the value of the population lies with confidence about "
                f"{self.confidence:.0%}, over noise, sampling and imputation, if values are "
                "missing at random given what was matched on."
            )
            if details:
                lines.append(
                    f"The answer without noise lies in {_bar(self.interval).strip()} with "
                    f"confidence {self.confidence:.0%}. This one is a bound, whatever the rows "
                    "are; the first one goes by sizes of errors as they were released, and may be "
                    "shorter."
                )
        else:
            lines.append(_of_noise(self.confidence))
        if self.imputation_interval is not None:
            lines.append(
                f"Whatever the missing cells were, the answer lies in "
                f"{_bar(self.imputation_interval).strip()} with confidence {self.confidence:.0%}."
            )
        return "\n".join(lines)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class LevelEstimates(_Answer):
    """Released counts per level; ``intervals`` hold all at once with probability ``confidence``.

    ``applicable`` and ``note`` as in `Estimate`.
    """

    name: str
    levels: tuple[Level | str, ...]
    values: tuple[float, ...]
    intervals: tuple[Interval, ...]
    confidence: float
    guarantee: Guarantee
    applicable: Names = ()
    note: str = ""

    def in_words(self, *, details: bool = False) -> str:
        """Return the counts as text, one in a line; there are no further ``details``."""
        del details
        lines = [f"{self.name}  [noise alone]"]
        lines += [
            f"  {level}: {value:.6g}{_bar(bar)}"
            for level, value, bar in zip(self.levels, self.values, self.intervals, strict=True)
        ]
        return "\n".join([*lines, *_in_words(self), _of_noise(self.confidence)])


def corners(
    function: Callable[..., float], intervals: Iterable[Interval], bounds: Interval
) -> Interval:
    """Return the extreme values over a box of a function monotone in each argument, clipped.

    Parameters
    ----------
    function : callable
        Of as many numbers as there are intervals.
    intervals : iterable of (float, float)
        The sides of the box.
    bounds : (float, float)
        Public bounds, into which both values are moved.

    Returns
    -------
    (float, float)
    """
    points: list[tuple[float, ...]] = [()]
    for interval in intervals:
        points = [(*point, end) for point in points for end in interval]
    values = [function(*point) for point in points]
    return clip(min(values), bounds), clip(max(values), bounds)


def clip_interval(interval: Interval, bounds: Interval) -> Interval:
    """Move the ends of an interval into public bounds."""
    return clip(interval[0], bounds), clip(interval[1], bounds)


def clip(value: float, bounds: Interval) -> float:
    """Move a released number into its public bounds."""
    if math.isnan(value):
        return bounds[0]
    return min(max(value, bounds[0]), bounds[1])


_UNEVEN = 1.5  # donors are scarcer around recipients than on average
_MAX_FILLED_SHARE = 0.95
_ONE_DEVIATION = 0.6827
# Probabilities beyond levels at which noise is looked at, in falling order.
_TAILS = np.geomspace(1.0, 1e-7, 301)


def _of_mean(rows: float, filled: float, variance: float) -> float:
    """Return the variance of a mean over rows, some filled, as an estimate of the population's.

    Under MAR given what is matched on, about ``variance / n * (1 + r / n * (1 + 3/2 * r / (n -
    r)))`` for n rows, r of them filled: sampling, and filling. A donor that stands for 1 + w rows
    counts (1 + w)^2 times, which adds w + w^2 for each donor; w is r / (n - r) on average over
    donors, and larger over recipients, who are many where donors are few: by half is allowed for.
    That donors resemble recipients is not used, so it is rather too large.
    """
    rows = max(rows, 1.0)
    share = min(max(filled / rows, 0.0), _MAX_FILLED_SHARE)
    lost = share * (1 + _UNEVEN * share / (1 - share))
    return max(variance, 0.0) / rows * (1 + lost)


@dataclass(frozen=True, kw_only=True)
class TotalError:
    """What was released beside an answer, so that it can be compared with the population.

    ``released`` are released numbers of rows, and sums of squares around the middle of the bounds of
    values; ``divisor`` is what the answer's main release was divided by.
    """

    kind: str
    bounds: Interval
    released: Mapping[str, float]
    divisor: Noisy | None

    def interval(self, value: float, main: Noisy, confidence: float) -> Interval:
        """Return where the population's value is."""
        radius, scale, std = main.radius, 1.0, math.sqrt(self._variance(value))
        if self.divisor is not None:
            scale = 1 / self._rows
            middle = (self.bounds[0] + self.bounds[1]) / 2 if self.kind == "mean" else 0.0
            std = math.hypot(std, scale * (value - middle) * self.divisor.radius(_ONE_DEVIATION))
        width = _half_width(lambda level: scale * radius(level), std, confidence)
        return value - width, value + width

    @property
    def _rows(self) -> float:
        """Rows that the answer is about."""
        rows = self.released.get("rows in question", 1.0)
        return max(rows if self.divisor is None else self.divisor.value, 1.0)

    def _variance(self, value: float) -> float:
        """Variance of the answer without noise as an estimate of the population's."""
        rows, filled = self._rows, self.released.get("rows filled", 0.0)
        everyone = max(self.released.get("all rows", 1.0), 1.0)
        if self.kind == "count":
            part = min(value / everyone, 1.0)
            return everyone**2 * _of_mean(everyone, filled, part * (1 - part))
        # Of the rows that may be in question, as many are filled as of those that are.
        filled *= rows / max(self.released.get("rows in question", rows), 1.0)
        if self.kind == "proportion":
            return _of_mean(rows, filled, value * (1 - value))
        mean = value if self.kind == "mean" else value / rows
        of_mean = _of_mean(rows, filled, self._spread(mean, rows - filled))
        if self.kind == "mean":
            return of_mean
        # How many rows are in question varies from sample to sample, too.
        return rows**2 * of_mean + mean**2 * rows * max(0.0, 1 - rows / everyone)

    def _spread(self, mean: float, observed: float) -> float:
        """Variance of the observed values."""
        lower, upper = self.bounds
        mean, largest = min(max(mean, lower), upper), ((upper - lower) / 2) ** 2
        squares = self.released["squares as observed"] / max(observed, 1.0)
        return max(0.0, min(squares, largest) - (mean - (lower + upper) / 2) ** 2)


def _half_width(radius: Callable[[float], float], std: float, level: float) -> float:
    """Return what holds a noise plus an independent normal error with a probability.

    Rounded up: the noise is taken to be as large as it is at the far end of each of 300 steps.

    >>> wide = _half_width(lambda level: -math.log1p(-level), 1.0, 0.95)
    >>> 3.4 < wide < 3.8
    True
    """
    if std <= 0:
        return radius(level)
    from scipy.special import ndtr

    weights = np.append(-np.diff(_TAILS), _TAILS[-1]) / 2
    noise = np.array([radius(1 - tail) for tail in np.append(_TAILS[1:], _TAILS[-1] / 2)])

    def outside(width: float) -> float:
        past = ndtr((noise - width) / std) + ndtr((-noise - width) / std)
        return float(2 * (weights * past).sum())

    low, high = 0.0, radius(1 - _TAILS[-1]) + 8 * std
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if outside(middle) > 1 - level else (low, middle)
    return high
