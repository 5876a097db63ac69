"""Answers of statistics: released numbers, their intervals and their guarantees. All are public."""

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
        """Return the released answer as JSON values, by the names of its attributes.

        Returns
        -------
        dict of str to object
            Released and public values. ``applicable`` and ``note`` are left out if they are empty.
        """
        return {k: v for k, v in super().to_dict().items() if v or k not in ("applicable", "note")}


def _in_words(answer: Estimate | LevelEstimates) -> Iterator[str]:
    """Yield the sentences below the numbers of an answer: its rows, and its note."""
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
    """A released statistic of a private table, with its intervals and its privacy guarantee.

    `ImputedStatistics` and `run_queries` return it. All values are released, so anyone may see
    them. ``float(estimate)`` is the value.

    Parameters
    ----------
    name : str
        The question, as text. Public.
    value : float
        The answer in the unit of the question, within its public bounds. Released.
    interval : (float, float)
        Interval in the unit of the question. It holds the noiseless answer on the imputed table
        with probability at least ``confidence`` over the noise. The answer is averaged over
        equally near donors. It has no cost, because the scale of the noise is public or
        released with the answer. It covers neither sampling nor the uncertainty of the imputed
        values.
    confidence : float
        Probability that ``interval`` holds, and that ``imputation_interval`` holds, each by
        itself. At least 0.5 and below 1.
    guarantee : Guarantee
        Privacy guarantee of this answer alone. The budget has the total.
    total_interval : (float, float) or None
        Interval in the unit of the question. It holds the value of the population with
        probability about ``confidence`` over noise, sampling and imputation. The rows are a
        sample of this population. It assumes values that are missing at random given the
        matching attributes. The interval is an approximation, as usual for means of many rows.
        It uses estimates of errors and not bounds. None for variances, correlations and groups,
        and with ``uncertainty="noise"``.
    imputation_interval : (float, float) or None
        Interval in the unit of the question. It holds the statistic of the complete table with
        probability at least ``confidence`` over the noise. Each missing cell that the question
        reads may hold any value of its public domain, and may be missing for any reason. It may
        also be not applicable, where a rule leaves this open. It relies neither on the
        imputation nor on ``interval``, always includes ``value``, and does not cover sampling.
        For means and proportions it holds for complete tables whose subpopulation has a row.
        None without ``uncertainty="worst-case"``.
    applicable : tuple of str
        Attributes of the question that do not apply to all rows. The answer is for the rows to
        which they surely apply. Public.
    note : str
        The reason if the noise interval is the whole range, and the epsilon that would halve
        it. Empty otherwise.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    Post-processing of released values: to print or publish the object has no further cost.

    Examples
    --------
    >>> from missdp import Guarantee
    >>> from missdp.statistics import Estimate
    >>> from missdp.accounting import PureEvent
    >>> paid = Guarantee.from_events([PureEvent(epsilon=1.0)])
    >>> answer = Estimate(
    ...     name="count()", value=9.0, interval=(6.0, 12.0), confidence=0.95, guarantee=paid
    ... )
    >>> float(answer), answer.guarantee.epsilon
    (9.0, 1.0)
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
        """Return the released statistic as text, with its widest interval or all of its intervals.

        Parameters
        ----------
        details : bool, default False
            If True, the text has every interval.

        Returns
        -------
        str
            Text of one or several lines, with released values only.
        """
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
                    f"confidence {self.confidence:.0%}. This interval is a bound for all possible "
                    "rows. The first interval uses the sizes of errors that were released, and "
                    "may be shorter."
                )
        else:
            lines.append(_of_noise(self.confidence))
        if self.imputation_interval is not None:
            lines.append(
                "For all possible values of the missing cells, the answer lies in "
                f"{_bar(self.imputation_interval).strip()} with confidence {self.confidence:.0%}."
            )
        return "\n".join(lines)


@pydantic.dataclasses.dataclass(frozen=True, kw_only=True)
class LevelEstimates(_Answer):
    """Released counts or statistics for all levels of an attribute, with intervals and a guarantee.

    `ImputedStatistics` and `run_queries` return it for histograms and for questions with ``by``.
    All values are released.

    Parameters
    ----------
    name : str
        The question, as text. Public.
    levels : tuple of level or str
        Levels in declared order, or names of bins in increasing order. Public.
    values : tuple of float
        The answer for each level, in the order of ``levels`` and the unit of the question.
        Released.
    intervals : tuple of (float, float)
        Intervals for noise alone, one for each level, in the unit of the question. All hold at
        once with probability at least ``confidence``.
    confidence : float
        Probability that all intervals hold. At least 0.5 and below 1.
    guarantee : Guarantee
        Privacy guarantee of all levels together. The budget has the total.
    applicable : tuple of str
        Attributes of the question that do not apply to all rows. The answer is for the rows to
        which they surely apply. Public.
    note : str
        A remark on intervals that are the whole range. Empty otherwise.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Notes
    -----
    Post-processing of released values: to print or publish the object has no further cost.

    Examples
    --------
    >>> from missdp import Guarantee
    >>> from missdp.statistics import LevelEstimates
    >>> from missdp.accounting import PureEvent
    >>> answer = LevelEstimates(
    ...     name="histogram(sex)", levels=("f", "m"), values=(51.0, 48.0),
    ...     intervals=((47.0, 55.0), (44.0, 52.0)), confidence=0.95,
    ...     guarantee=Guarantee.from_events([PureEvent(epsilon=1.0)]),
    ... )
    >>> dict(zip(answer.levels, answer.values, strict=True))
    {'f': 51.0, 'm': 48.0}
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
        """Return the released values of all levels as text, one level in each line.

        Parameters
        ----------
        details : bool, default False
            Ignored, because there are no more details.

        Returns
        -------
        str
            Text of several lines, with released values only.
        """
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
        A function of as many numbers as there are intervals. It is monotone in each.
    intervals : iterable of (float, float)
        The sides of the box.
    bounds : (float, float)
        Public bounds, to which both values are clipped.

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


_UNEVEN = 1.5  # excess of recipients per donor around recipients, relative to the average
_MAX_FILLED_SHARE = 0.95  # largest share of filled rows that the variance allows
_ONE_DEVIATION = 0.6827  # probability of one standard deviation on either side
# Tail probabilities at which the noise is evaluated, in falling order.
_TAILS = np.geomspace(1.0, 1e-7, 301)


def _of_mean(rows: float, filled: float, variance: float) -> float:
    """Return the variance of a mean over rows, some filled, as an estimate of the population's.

    If values are missing at random given the matching attributes, the variance is about ``variance
    / n * (1 + r / n * (1 + 3/2 * r / (n - r)))`` for n rows of which r are filled. A donor that
    stands for 1 + w rows counts (1 + w)^2 times, which adds w + w^2 for each donor. The average of
    w over donors is r / (n - r). It is larger over recipients, because many recipients have few
    donors. A factor of 1.5 allows for this. The estimate ignores that donors resemble recipients,
    so it is rather too large.
    """
    rows = max(rows, 1.0)
    share = min(max(filled / rows, 0.0), _MAX_FILLED_SHARE)
    lost = share * (1 + _UNEVEN * share / (1 - share))
    return max(variance, 0.0) / rows * (1 + lost)


@dataclass(frozen=True, kw_only=True)
class TotalError:
    """Error of an answer as an estimate of the value of the population.

    ``released`` has released numbers of rows, and released sums of squares around the middle of the
    bounds. ``divisor`` is the released divisor of the answer's main release.
    """

    kind: str
    bounds: Interval
    released: Mapping[str, float]
    divisor: Noisy | None

    def interval(self, value: float, main: Noisy, confidence: float) -> Interval:
        """Return an interval for the value of the population."""
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
        # The share of filled rows is assumed equal among possible and certain rows.
        filled *= rows / max(self.released.get("rows in question", rows), 1.0)
        if self.kind == "proportion":
            return _of_mean(rows, filled, value * (1 - value))
        mean = value if self.kind == "mean" else value / rows
        of_mean = _of_mean(rows, filled, self._spread(mean, rows - filled))
        if self.kind == "mean":
            return of_mean
        # The number of rows of the subpopulation varies from sample to sample, too.
        return rows**2 * of_mean + mean**2 * rows * max(0.0, 1 - rows / everyone)

    def _spread(self, mean: float, observed: float) -> float:
        """Variance of the observed values."""
        lower, upper = self.bounds
        mean, largest = min(max(mean, lower), upper), ((upper - lower) / 2) ** 2
        squares = self.released["squares as observed"] / max(observed, 1.0)
        return max(0.0, min(squares, largest) - (mean - (lower + upper) / 2) ** 2)


def _half_width(radius: Callable[[float], float], std: float, level: float) -> float:
    """Return the half-width that holds a noise plus an independent normal error.

    The result is rounded up: the noise in each of 300 steps is as large as at the far end of the
    step.

    >>> import math
    >>> from missdp.statistics.estimates import _half_width
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
