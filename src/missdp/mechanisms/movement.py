"""Whether what was charged for pays for how far a neighbour moves the exact numbers.

The common part of the laws' ``exceeds``: each returns what is wrong, in words, or None.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from missdp.accounting import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    ZCDPEvent,
)

__all__ = [
    "above",
    "distance",
    "epsilon_paid",
    "gaussian_exceeds",
    "laplace_exceeds",
    "other_kind",
    "pure_exceeds",
    "too_far",
]

_ROUNDING = 1e-9


def above(found: float, most: float) -> bool:
    """Whether a number is above another by more than rounding makes of it; NaN always is."""
    return not found <= most * (1 + _ROUNDING)


def distance(exact: Any, other: Any, norm: int) -> float:
    """Return how far two arrays of numbers are apart, in L1 or L2 norm.

    Examples
    --------
    >>> distance(np.array([3, 0]), np.array([0, 4]), 1), distance([3, 0], [0, 4], 2)
    (7.0, 5.0)
    """
    gap = (np.asarray(exact) - np.asarray(other)).astype(np.float64).ravel()
    return float(np.linalg.norm(gap, norm))


def too_far(found: float, most: float, what: str = "what is behind it") -> str:
    """Say that one row moves something further than was charged for."""
    return f"one row moves {what} by {found:g}, and {most:g} was charged for"


def laplace_exceeds(event: Event, moved: float, scale: float) -> str | None:
    """Return why an event does not pay for Laplace noise of a scale on numbers that moved in L1."""
    if isinstance(event, LaplaceEvent):
        if above(moved, event.sensitivity):
            return too_far(moved, event.sensitivity)
        return _too_little(scale, event.scale * moved / event.sensitivity)
    epsilon = epsilon_paid(event)
    return other_kind(event, "Laplace noise") if epsilon is None else _lost(moved / scale, epsilon)


def gaussian_exceeds(event: Event, moved: float, sigma: float) -> str | None:
    """Return why an event does not pay for Gaussian noise on numbers that moved in L2."""
    if isinstance(event, GaussianEvent):
        if above(moved, event.sensitivity):
            return too_far(moved, event.sensitivity)
        return _too_little(sigma, event.sigma * moved / event.sensitivity)
    if isinstance(event, ZCDPEvent):
        most = math.sqrt(2 * event.rho) * sigma
        return too_far(moved, most) if above(moved, most) else None
    return other_kind(event, "Gaussian noise")


def pure_exceeds(event: Event, epsilon: float) -> str | None:
    """Return why an event does not pay for an epsilon-DP answer."""
    paid = epsilon_paid(event)
    return other_kind(event, "a pure epsilon") if paid is None else _lost(epsilon, paid)


def epsilon_paid(event: Event) -> float | None:
    """Return the pure epsilon that an event pays for; None if it states none."""
    if isinstance(event, PureEvent | ApproximateEvent):
        return event.epsilon
    if isinstance(event, LaplaceEvent):
        return event.sensitivity / event.scale
    return math.sqrt(2 * event.rho) if isinstance(event, ZCDPEvent) else None


def _too_little(scale: float, most: float) -> str | None:
    if above(most, scale):
        return f"noise is drawn with scale {scale:g}, and at least {most:g} was charged for"
    return None


def _lost(found: float, paid: float) -> str | None:
    if above(found, paid):
        return f"the answer reveals epsilon {found:g}, and {paid:g} was charged for"
    return None


def other_kind(event: Event, what: str) -> str:
    """Say that an event is none that pays for something."""
    return f"{type(event).__name__} does not say what {what} costs: charge an event that does"
