"""Exact sums of costs, Rényi divergences, and conversions to (epsilon, delta).

A budget that adds floating-point numbers accepts charges of 1e-17 without end. Here a number that a
person wrote (``epsilon=0.1``) counts as that decimal number, and a number that follows from noise
(sensitivity / scale) counts as the exact quotient, rounded up wherever it must be rounded.

Rényi and zCDP curves are converted to (epsilon, delta) and back by Proposition 12 of Canonne,
Kamath and Steinke (2020): a divergence R(a) of order a gives
epsilon = R(a) + log(1 - 1/a) - (log delta + log a) / (a - 1).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.record import check_delta, check_nonnegative, check_positive, check_whole

__all__ = [
    "add_remove_share",
    "best_order",
    "ceiling",
    "delta_from_rdp",
    "delta_from_rho",
    "difference",
    "epsilon_from_rdp",
    "epsilon_from_rho",
    "exact",
    "float_down",
    "float_up",
    "integer_shift",
    "replace_one_of",
    "rounded_up",
    "scale_for",
    "share_of",
    "total",
    "zcdp_rho",
]

# Sums of many different fractions grow without bound; beyond this many bits they are rounded up.
_MAX_BITS = 4096

_FINE = 2**1024


def exact(value: float) -> Fraction:
    """Return a number as it is written in decimal, so that ten times 0.1 is exactly 1.

    Examples
    --------
    >>> sum([exact(0.1)] * 10) == 1
    True
    """
    return Fraction(repr(float(value)))


def ceiling(number: Fraction) -> Fraction:
    """Return the number, or, if it takes very many digits, the next number up that takes fewer.

    Examples
    --------
    >>> ceiling(Fraction(1, 3))
    Fraction(1, 3)
    """
    if number.denominator.bit_length() <= _MAX_BITS:
        return number
    return Fraction(-((-number.numerator * _FINE) // number.denominator), _FINE)


def total(costs: Iterable[Fraction]) -> Fraction:
    """Return the sum of costs, exact or rounded up in a place that nobody will ever see.

    Examples
    --------
    >>> total([Fraction(1, 3)] * 3)
    Fraction(1, 1)
    """
    found = Fraction(0)
    for cost in costs:
        found = ceiling(found + cost)
    return found


def float_up(number: Fraction) -> float:
    """Return the smallest floating-point number that, written in decimal, is at least ``number``.

    Infinity if there is none.

    Examples
    --------
    >>> float_up(Fraction(3, 10)), float_up(Fraction(1, 3))
    (0.3, 0.33333333333333337)
    """
    near = _float(number)
    while near < math.inf and exact(near) < number:
        near = math.nextafter(near, math.inf)
    return near


def float_down(number: Fraction) -> float:
    """Return a floating-point number that, written in decimal, is at most ``number``.

    Examples
    --------
    >>> float_down(Fraction(3, 10)), float_down(Fraction(2, 3))
    (0.3, 0.6666666666666666)
    """
    near = min(_float(number), sys.float_info.max)
    while exact(near) > number:
        near = math.nextafter(near, -math.inf)
    return near


def share_of(amount: float, part: float) -> float:
    """Return a share of a budget, rounded down, so that shares that sum to 1 fit into it.

    ``amount`` is at least 0, and ``part`` in [0, 1].

    Examples
    --------
    >>> share_of(0.3, 0.1)
    0.03
    """
    amount, part = check_nonnegative("amount", amount), check_nonnegative("part", part)
    return float_down(exact(amount) * exact(part))


def difference(amount: float, *parts: float, up: bool = False) -> float:
    """Return what parts leave of a budget, rounded down (or ``up``); 0 if they leave nothing.

    ``amount`` and ``parts`` are at least 0, in one currency.

    Examples
    --------
    >>> difference(1.0, 0.1, 0.2)
    0.7
    """
    taken = sum(exact(check_nonnegative("part", part)) for part in parts)
    left = max(Fraction(0), exact(check_nonnegative("amount", amount)) - taken)
    return float_up(left) if up else float_down(left)


def scale_for(sensitivity: float, epsilon: float, *, count: int = 1) -> float:
    """Return the least Laplace scale for which ``count`` releases cost at most epsilon together.

    ``sensitivity`` (in L1 norm) and ``epsilon`` are above 0. Infinity if there is no such scale.

    Examples
    --------
    >>> scale_for(1.0, 0.1), scale_for(1.0, 0.7, count=3)
    (10.0, 4.2857142857142865)
    """
    moved = Fraction(check_positive("sensitivity", sensitivity))
    target = (
        check_whole("count", count, least=1) * moved / exact(check_positive("epsilon", epsilon))
    )
    near = _float(target)
    while near < math.inf and Fraction(near) < target:  # the noise is drawn at the binary number
        near = math.nextafter(near, math.inf)
    return near


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


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


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        Above 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        By the conversion of Canonne, Kamath & Steinke 2020 at its best real order.

    Examples
    --------
    >>> [round(zcdp_rho(epsilon, 1e-6), 4) for epsilon in (1, 2, 3)]
    [0.0244, 0.0882, 0.1851]
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_delta("delta", delta)
    if delta == 0:
        raise ParameterError("delta must be above 0: rho-zCDP is worth nothing at delta 0")
    order = best_order(epsilon, delta)
    return max(0.0, (epsilon - float(overhead(order, delta))) / order)


def best_order(epsilon: float, delta: float) -> float:
    """Return the order at which `zcdp_rho` is attained: a public function of the target."""
    return _minimum(lambda a: -(epsilon - float(overhead(a, delta))) / a)[0]


def _minimum(objective: object) -> tuple[float, float]:
    """Minimise over the order; any order is valid, so an imperfect minimum only costs tightness.

    A coarse grid brackets the minimum before the local search, since the objectives need not be
    unimodal over twenty orders of magnitude.
    """
    from scipy.optimize import minimize_scalar

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
    delta = check_nonnegative("delta", delta)
    epsilon = epsilon if epsilon == math.inf else check_nonnegative("epsilon", epsilon)
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


# More than what a handful of floating-point operations on numbers of size 1 get wrong.
_ROUNDING = 1e-15


def integer_shift(sensitivity: float) -> int:
    """Return the largest whole number up to ``sensitivity``, forgiving rounding from below.

    Examples
    --------
    >>> integer_shift(2.9999999999999996), integer_shift(1.5)
    (3, 1)
    """
    return math.floor(sensitivity + 1e-9)


def chords(table: FloatArray, curve: FloatArray, orders: FloatArray) -> FloatArray:
    """Read a table of upper bounds at other orders; infinity beyond its end.

    (a - 1) D_a is convex in a and 0 at a = 1, so its chords bound it from above.
    """
    heights = np.concatenate([[0.0], (table - 1) * curve])
    chords = np.interp(orders, np.concatenate([[1.0], table]), heights, right=np.inf)
    return np.asarray(np.where(orders <= table[0], curve[0], chords / (orders - 1)))


def randomized_response(epsilon: float, orders: FloatArray) -> FloatArray:
    """Return the Rényi divergence of the worst pure pair: a bit flipped with odds exp(-epsilon)."""
    log_p, log_q = -np.log1p(np.exp(-epsilon)), -epsilon - np.log1p(np.exp(-epsilon))
    with np.errstate(over="ignore"):  # an epsilon of 1e308 is infinite at large orders
        there = orders * log_p + (1 - orders) * log_q
        back = orders * log_q + (1 - orders) * log_p
        return _rounded_up(np.logaddexp(there, back), epsilon, orders)


def discrete_laplace(shift: int, scale: float, orders: FloatArray, epsilon: float) -> FloatArray:
    """Return the Rényi divergence of the discrete Laplace law against itself shifted, exactly.

    The loss is shift/scale below the first centre, falls by 2/scale per step to -shift/scale at
    the second. One coordinate moved by the whole L1 sensitivity is the worst case: for
    log-concave noise the trade-off of a shift u + v is the composition of those of u and v,
    which no product of the two falls below (group privacy, Dong, Roth & Su 2022, §2.4).
    """
    from scipy.special import logsumexp

    a = 1 / scale
    if shift > 10_000:  # tabulating the middle is no use: the pure bound's curve is as good
        return randomized_response(epsilon, orders)
    inner = np.arange(1, shift)
    log_norm = np.log(-np.expm1(-a)) - np.log1p(np.exp(-a))
    log_mass = np.concatenate(
        [[-np.log1p(np.exp(-a))], log_norm - a * inner, [-a * shift - np.log1p(np.exp(-a))]]
    )
    loss = a * np.concatenate([[shift], shift - 2 * inner, [-shift]])
    moment = logsumexp(log_mass[:, None] + np.outer(loss, orders - 1), axis=0)
    return _rounded_up(moment, epsilon, orders)


def continuous_laplace(epsilon: float, orders: FloatArray) -> FloatArray:
    """Return that of the continuous law (Mironov 2017, Proposition 6), by the same worst case."""
    rise = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
    fall = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
    return _rounded_up(np.logaddexp(rise, fall), epsilon, orders)


def _rounded_up(moment: FloatArray, epsilon: float, orders: FloatArray) -> FloatArray:
    """Divide (a - 1) D_a, computed in floating point, by a - 1, and never fall below D_a.

    The terms are of size a (1 + epsilon), and what cancels between them leaves nothing correct of
    a small divergence; epsilon and a epsilon^2 / 2 bound it then.
    """
    curve = (moment + _ROUNDING * orders * (1 + epsilon)) / (orders - 1)
    return np.clip(
        curve, 0.0, np.minimum(epsilon, orders * (epsilon * epsilon / 2) * (1 + _ROUNDING))
    )


# Whole orders at which the Poisson-sampled Gaussian is evaluated; the best order for DP-SGD is
# far below the last one, and each order costs time proportional to itself.
_SAMPLED_ORDERS: FloatArray = np.unique(
    np.concatenate([np.arange(2.0, 65.0), np.geomspace(64.0, 512.0, 25).round()])
)


def sampled_gaussian(rate: float, multiplier: float, orders: FloatArray) -> FloatArray:
    """Return the Rényi divergence of one step of the Poisson-sampled Gaussian mechanism."""
    return chords(_SAMPLED_ORDERS, _sampled_step(rate, multiplier), orders)


@lru_cache(maxsize=256)
def _sampled_step(rate: float, multiplier: float) -> FloatArray:
    """One step at whole orders, where the binomial sum is finite (Mironov, Talwar & Zhang 2019).

    log(1 + sum over k of C(a, k) q^k (1 - q)^(a - k) (exp(k (k - 1) / (2 sigma^2)) - 1)) / (a - 1):
    without the 1, a small sum keeps its digits.
    """
    if rate == 0:
        return np.zeros_like(_SAMPLED_ORDERS)
    start, order, k, log_choose = _binomials()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rest = np.where(order == k, 0.0, (order - k) * np.log1p(-rate))
        gain = k * (k - 1) / (2 * multiplier * multiplier)
        log_gain = gain + np.log(-np.expm1(-gain))
        terms = log_choose + k * math.log(rate) + rest + log_gain
        top = np.maximum.reduceat(terms, start)
        sums = np.add.reduceat(np.exp(terms - np.repeat(top, np.diff([*start, k.size]))), start)
        curve = np.logaddexp(0.0, top + np.log(sums)) / (_SAMPLED_ORDERS - 1)
    # The logarithms of binomials are a relative 1e-15 of up to 3000 off.
    curve = curve * (1 + 1e-11) + 2 * _ROUNDING
    return np.where(np.isnan(curve), math.inf, curve)


@lru_cache(maxsize=1)
def _binomials() -> tuple[NDArray[np.int64], FloatArray, FloatArray, FloatArray]:
    """For each of the orders a, from ``start`` on: a, k = 2..a, and log C(a, k)."""
    from scipy.special import gammaln

    counts = _SAMPLED_ORDERS.astype(np.int64) - 1
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    order = np.repeat(_SAMPLED_ORDERS, counts)
    k = np.arange(order.size) - np.repeat(start, counts) + 2.0
    return start, order, k, gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)


def rounded_up(value: float, *, digits: int = 4) -> str:
    """Return ``value`` with ``digits`` significant digits, rounded up: never a rosier number.

    Examples
    --------
    >>> rounded_up(0.12341), rounded_up(2.0), rounded_up(1e-6)
    ('0.1235', '2', '1e-06')
    """
    # 12 digits first, so that 0.1 + 0.2 reads 0.3; the error of 1e-12 is relative.
    near = Decimal(f"{value:.12g}")
    return f"{float(Context(prec=digits, rounding=ROUND_CEILING).plus(near)):.{digits}g}"
