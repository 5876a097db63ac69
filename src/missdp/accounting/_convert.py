"""From Rényi and zCDP curves to (epsilon, delta) and back: the tight conversions.

Source: Canonne, Kamath & Steinke 2020, "The discrete Gaussian for differential privacy",
Proposition 12: R(a) gives epsilon = R(a) + log(1 - 1/a) - (log delta + log a) / (a - 1).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

__all__ = [
    "add_remove_share",
    "best_order",
    "delta_from_rdp",
    "delta_from_rho",
    "epsilon_from_rdp",
    "epsilon_from_rho",
    "replace_one_of",
    "rho_capacity",
]

FloatArray = NDArray[np.float64]

# Rounding of (1 + e^epsilon) and of its product with delta, upwards.
_OUTWARD = 1 + 2.0**-50


def overhead(orders: FloatArray | float, delta: float) -> FloatArray:
    """Return what the conversion adds to the Rényi divergence at each order."""
    a = np.asarray(orders, dtype=np.float64)
    return np.asarray(np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1))


def _known(bounds: FloatArray) -> FloatArray:
    return np.where(np.isnan(bounds), math.inf, bounds)


def epsilon_from_rdp(orders: FloatArray, curve: FloatArray, delta: float) -> float:
    """Return the smallest epsilon over the orders; infinity if ``delta`` is 0."""
    if delta <= 0:
        return 0.0 if np.all(curve == 0) else math.inf
    # Where a number is too large to be computed, nothing is known of that order.
    return max(0.0, float(np.min(_known(curve + overhead(orders, delta)))))


def delta_from_rdp(orders: FloatArray, curve: FloatArray, epsilon: float) -> float:
    """Return the smallest delta over the orders."""
    with np.errstate(over="ignore"):
        logs = (orders - 1) * (curve - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return min(1.0, math.exp(min(0.0, float(np.min(_known(logs))))))


def epsilon_from_rho(rho: float, delta: float) -> float:
    """Return the smallest epsilon over all real orders above 1 for a rho-zCDP mechanism."""
    if rho == 0:
        return 0.0
    if delta <= 0:
        return math.inf
    return max(0.0, _minimum(lambda a: rho * a + float(overhead(a, delta)))[1])


def delta_from_rho(rho: float, epsilon: float) -> float:
    """Return the smallest delta over all real orders above 1 for a rho-zCDP mechanism."""
    if rho == 0:
        return 0.0
    log_delta = _minimum(
        lambda a: (a - 1) * (rho * a - epsilon + math.log1p(-1 / a)) - math.log(a)
    )[1]
    return min(1.0, math.exp(min(0.0, log_delta)))


def rho_capacity(epsilon: float, delta: float) -> float:
    """Return the largest rho such that rho-zCDP implies (epsilon, delta)-DP here."""
    order = best_order(epsilon, delta)
    return max(0.0, (epsilon - float(overhead(order, delta))) / order)


def best_order(epsilon: float, delta: float) -> float:
    """Return the order at which `rho_capacity` is attained: a public function of the target."""
    return _minimum(lambda a: -(epsilon - float(overhead(a, delta))) / a)[0]


def _minimum(objective: object) -> tuple[float, float]:
    """Minimise over the order; any order is valid, so an imperfect minimum only costs tightness.

    A coarse grid brackets the minimum before the local search, since the objectives need not be
    unimodal over twenty orders of magnitude.
    """
    grid = np.linspace(-12.0, 18.0, 121)
    values = np.array([objective(1 + math.exp(u)) for u in grid])  # type: ignore[operator]
    best = int(np.argmin(values))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    found = minimize_scalar(
        lambda u: objective(1 + math.exp(u)),  # type: ignore[operator]
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-10},
    )
    if float(found.fun) < values[best]:
        return 1 + math.exp(float(found.x)), float(found.fun)
    return 1 + math.exp(float(grid[best])), float(values[best])


def replace_one_of(epsilon: float, delta: float) -> tuple[float, float]:
    """Return what an add-remove (epsilon, delta) guarantee gives when one row is replaced.

    Two steps of add-remove: P <= e^eps (e^eps R + delta) + delta, that is
    (2 epsilon, (1 + e^epsilon) delta). Delta is capped at 1.

    Examples
    --------
    >>> replace_one_of(1.0, 0.0)
    (2.0, 0.0)
    """
    if delta == 0:
        return 2 * epsilon, 0.0
    factor = 1 + math.exp(epsilon) if epsilon < 700 else math.inf
    return 2 * epsilon, min(1.0, factor * delta * _OUTWARD)


def add_remove_share(epsilon: float, delta: float) -> float:
    """Return the add-remove delta that gives ``delta`` when one row is replaced, rounded down.

    The inverse of `replace_one_of`, at add-remove ``epsilon``.

    Examples
    --------
    >>> round(add_remove_share(1.0, 3.72e-6), 8)
    1e-06
    """
    return delta * math.exp(-epsilon) / ((1 + math.exp(-epsilon)) * _OUTWARD)
