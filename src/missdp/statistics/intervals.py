"""Intervals of released numbers: public."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from missdp.statistics.worst_case import Interval

__all__ = ["clip", "corners", "within"]


def corners(
    function: Callable[..., float], intervals: Iterable[Interval | None], bounds: Interval
) -> Interval | None:
    """Return the extreme values over a box of a function monotone in each argument, clipped."""
    points: list[tuple[float, ...]] = [()]
    for interval in intervals:
        if interval is None:
            return None
        points = [(*point, end) for point in points for end in interval]
    values = [function(*point) for point in points]
    return clip(min(values), bounds), clip(max(values), bounds)


def within(interval: Interval, bounds: Interval) -> Interval:
    """Move the ends of an interval into public bounds."""
    return clip(interval[0], bounds), clip(interval[1], bounds)


def clip(value: float, bounds: Interval) -> float:
    """Move a released number into its public bounds."""
    if math.isnan(value):
        return bounds[0]
    return min(max(value, bounds[0]), bounds[1])
