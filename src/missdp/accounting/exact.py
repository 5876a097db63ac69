"""Exact sums of costs, and the conversion of sums to (epsilon, delta).

A budget that adds floating-point numbers accepts charges of 1e-17 without end. Here a number that a
person wrote (``epsilon=0.1``) counts as that decimal number. A number that follows from noise
(sensitivity / scale) counts as the exact quotient. Numbers that must be rounded are rounded up.

Rényi and zCDP curves are converted to (epsilon, delta) and back by Proposition 12 of Canonne,
Kamath and Steinke (2020). A divergence R(a) of order a gives
epsilon = R(a) + log(1 - 1/a) - (log delta + log a) / (a - 1). Gaussian DP is converted by Theorem 8
of Balle & Wang (2018), which is exact for continuous noise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from missdp.errors import (
    ParameterError,
    check_bounded_integer,
    check_delta,
    check_nonnegative,
    check_positive,
)
from missdp.types import Floats

# Bits of a denominator. Sums of many different fractions are rounded up beyond this size.
_MAX_BITS = 4096
_FINE = 2**1024
# Factor that rounds (1 + e^epsilon) and its product with delta upwards.
_OUTWARD = 1 + 2.0**-50
# A relative error above the error of a few floating-point operations.
_ROUNDING = 1e-15


def exact(value: float) -> Fraction:
    """Return the decimal number that a float displays, as an exact fraction.

    So ten times 0.1 is exactly 1.

    Parameters
    ----------
    value : float
        A finite number.

    Returns
    -------
    Fraction
        The number that ``repr`` shows.
    """
    return Fraction(repr(float(value)))


def _ceiling(number: Fraction) -> Fraction:
    """Return the number, or a slightly larger number with fewer digits if it has very many."""
    if number.denominator.bit_length() <= _MAX_BITS:
        return number
    return Fraction(-((-number.numerator * _FINE) // number.denominator), _FINE)


def total(costs: Iterable[Fraction]) -> Fraction:
    """Return the sum of exact costs, rounded up by less than 2**-1024 for each cost.

    Parameters
    ----------
    costs : iterable of Fraction
        The costs. Their sum is exact unless the denominators become very long.

    Returns
    -------
    Fraction
        At least the exact sum.
    """
    result = Fraction(0)
    for cost in costs:
        result = _ceiling(result + cost)
    return result


def float_up(number: Fraction, *, read: Callable[[float], Fraction] = exact) -> float:
    """Return the smallest float that is at least an exact number.

    Parameters
    ----------
    number : Fraction
        The number.
    read : callable, default exact
        Function from a float to its value. The value is the decimal number that the float displays,
        or with ``read=Fraction`` the exact binary number.

    Returns
    -------
    float
        Infinite if there is no such float.
    """
    near = _float(number)
    while near < math.inf and read(near) < number:
        near = math.nextafter(near, math.inf)
    return near


def float_down(number: Fraction) -> float:
    """Return a float whose decimal form is at most an exact number.

    Parameters
    ----------
    number : Fraction
        The number.

    Returns
    -------
    float
        The nearest such float, or a slightly smaller float.
    """
    near = min(_float(number), sys.float_info.max)
    while exact(near) > number:
        near = math.nextafter(near, -math.inf)
    return near


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf


def scale_for(sensitivity: float, epsilon: float, *, count: int = 1) -> float:
    """Return the smallest Laplace scale for which some releases cost at most epsilon together.

    Parameters
    ----------
    sensitivity : float
        Largest change of one release by one row in L1 norm, above 0.
    epsilon : float
        Pure epsilon of all releases together, above 0.
    count : int, default 1
        Number of releases, at least 1.

    Returns
    -------
    float
        The scale in the unit of the sensitivity, rounded up. Infinite if there is no such scale.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Notes
    -----
    A release of Laplace noise with scale b costs ``sensitivity / b`` in pure epsilon, and the
    epsilons of all releases add up. No private rows are read.

    Examples
    --------
    >>> from missdp.accounting import scale_for
    >>> scale_for(1.0, 0.1), scale_for(1.0, 0.7, count=3)
    (10.0, 4.2857142857142865)
    """
    shift = Fraction(check_positive("sensitivity", sensitivity))
    target = check_bounded_integer("count", count, min_value=1) * shift
    # The noise is drawn at the binary number.
    return float_up(target / exact(check_positive("epsilon", epsilon)), read=Fraction)


def integer_shift(sensitivity: float) -> int:
    """Return the largest change of an integer that a sensitivity permits.

    Parameters
    ----------
    sensitivity : float
        Largest change of the integer. A value that is below a whole number by at most 1e-9 counts
        as this number.

    Returns
    -------
    int
        The sensitivity, rounded down.
    """
    return math.floor(sensitivity + 1e-9)


def replace_one_of(epsilon: float, delta: float) -> tuple[float, float]:
    """Return the epsilon and delta of an add-remove guarantee when one row is replaced.

    Replacing a row is removing a row and adding another row. Two steps give P <= e^eps (e^eps R +
    delta) + delta, which is (2 epsilon, (1 + e^epsilon) delta)-DP.

    Parameters
    ----------
    epsilon : float
        Epsilon under add-remove adjacency, at least 0, possibly infinite.
    delta : float
        Delta under add-remove adjacency, at least 0.

    Returns
    -------
    epsilon : float
        Epsilon under replace-one adjacency, at least 0 and possibly infinite.
    delta : float
        Delta under replace-one adjacency, rounded up and at most 1.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Notes
    -----
    No private rows are read, and the result is a public number.

    Examples
    --------
    >>> from missdp.accounting import replace_one_of
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
    """Return the add-remove delta from which a replace-one delta follows.

    The conversion is `replace_one_of`.

    Parameters
    ----------
    epsilon : float
        Epsilon under add-remove adjacency, at least 0.
    delta : float
        Delta under replace-one adjacency.

    Returns
    -------
    float
        Delta under add-remove adjacency, rounded down.
    """
    return delta * math.exp(-epsilon) / ((1 + math.exp(-epsilon)) * _OUTWARD)


def boundary(
    holds: Callable[[float], bool], low: float, high: float, *, tolerance: float = 1e-12
) -> tuple[float, float]:
    """Narrow two numbers until they are nearly equal. ``holds`` is true of the second number only.

    Parameters
    ----------
    holds : callable
        A condition on a number, false at ``low`` and true at ``high``. Neither is checked.
    low, high : float
        The numbers to begin with, ``low <= high``.
    tolerance : float, default 1e-12
        Relative distance of the two numbers at which the search ends.

    Returns
    -------
    (float, float)
        The narrowed numbers. Each is a number at which ``holds`` was evaluated, or the initial one.
    """
    while high - low > tolerance * high and low < (middle := (low + high) / 2) < high:
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high


# Rényi divergences and zCDP


def overhead(orders: Floats | float, delta: float) -> Floats:
    """Return the number that the conversion of Rényi divergences to epsilon adds at each order.

    Parameters
    ----------
    orders : ndarray or float
        Rényi orders above 1.
    delta : float
        Above 0 and below 1.

    Returns
    -------
    ndarray
        One number for each order, rounded up.
    """
    a = np.asarray(orders, dtype=np.float64)
    gain, loss = np.log1p(-1 / a), (math.log(delta) + np.log(a)) / (a - 1)
    return np.asarray(gain - loss + _ROUNDING * (np.abs(gain) + np.abs(loss)))


def epsilon_from_rho(rho: float, delta: float) -> float:
    """Return the smallest epsilon at a delta that zCDP with a given rho implies.

    Parameters
    ----------
    rho : float
        The parameter of zero-concentrated DP, at least 0.
    delta : float
        Below 1.

    Returns
    -------
    float
        The smallest over all real Rényi orders above 1, rounded up. Infinite if delta is 0 and rho
        is not.
    """
    if rho == 0:
        return 0.0
    if delta <= 0:
        return math.inf
    best = minimum_over_orders(lambda a: rho * a * (1 + _ROUNDING) + float(overhead(a, delta)))[1]
    return max(0.0, best) * (1 + _ROUNDING)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which rho-zCDP implies (epsilon, delta)-DP.

    zCDP is zero-concentrated differential privacy (Bun & Steinke 2016). The conversion is
    Proposition 12 of Canonne, Kamath and Steinke (2020).

    Parameters
    ----------
    epsilon : float
        Epsilon that is to be implied, finite and above 0.
    delta : float
        Delta that is to be implied, in (0, 1).

    Returns
    -------
    float
        The rho, at least 0. Public.

    Raises
    ------
    ParameterError
        If a number is out of range.

    References
    ----------
    Bun, Steinke (2016), "Concentrated differential privacy: simplifications, extensions, and lower
    bounds", TCC.

    Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy", NeurIPS.

    Examples
    --------
    >>> from missdp.accounting import zcdp_rho
    >>> [round(zcdp_rho(epsilon, 1e-6), 4) for epsilon in (1, 2, 3)]
    [0.0244, 0.0882, 0.1851]
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_delta("delta", delta)
    if delta == 0:
        raise ParameterError("delta must be above 0: rho-zCDP is worth nothing at delta 0")
    order, _ = minimum_over_orders(lambda a: -(epsilon - float(overhead(a, delta))) / a)
    return max(0.0, (epsilon - float(overhead(order, delta))) / order)


def minimum_over_orders(objective: Callable[[float], float]) -> tuple[float, float]:
    """Return the minimum of a function over Rényi orders, by a coarse grid and a search.

    Parameters
    ----------
    objective : callable
        Function of an order above 1.

    Returns
    -------
    order : float
        The order at the minimum.
    value : float
        The value of the function. A value above the true minimum is a valid bound, too.
    """
    from scipy.optimize import minimize_scalar

    grid = np.linspace(-12.0, 18.0, 121)
    values = np.array([objective(1 + math.exp(u)) for u in grid])
    best = int(np.argmin(values))
    refined = minimize_scalar(
        lambda u: objective(1 + math.exp(u)),
        bounds=(grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]),
        method="bounded",
        options={"xatol": 1e-10},
    )
    if float(refined.fun) < values[best]:
        return 1 + math.exp(float(refined.x)), float(refined.fun)
    return 1 + math.exp(float(grid[best])), float(values[best])


# Gaussian DP


def gdp_mu(squared: Fraction) -> float:
    """Return the mu of Gaussian DP whose square is given, rounded up.

    Parameters
    ----------
    squared : Fraction
        The square of mu.

    Returns
    -------
    float
        The mu. The square of a float gives the float itself.
    """
    if squared <= 0:
        return 0.0
    # Near 1, where a square root neither overflows nor vanishes.
    shift = (squared.numerator.bit_length() - squared.denominator.bit_length()) // 2
    try:
        mu = math.ldexp(math.sqrt(squared / Fraction(4) ** shift), shift)
        while Fraction(mu) ** 2 < squared:
            mu = math.nextafter(mu, math.inf)
    except OverflowError:
        return math.inf
    while (lower := math.nextafter(mu, 0.0)) > 0 and Fraction(lower) ** 2 >= squared:
        mu = lower
    return mu


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Return the delta at an epsilon that Gaussian DP with a given mu implies.

    Parameters
    ----------
    mu : float
        The parameter of Gaussian DP, at least 0.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        From 0 to 1, rounded up.
    """
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # Logarithms and exponentials have a relative error of about 1e-15. The rounding of discrete
    # noise adds less than 1e-18 to the result.
    slack = 1e-14 * (1 + epsilon + abs(upper) + abs(lower))
    delta = math.exp(upper) * (-math.expm1(min(0.0, lower - upper)) + slack)
    return min(1.0, max(delta, sys.float_info.min))


@lru_cache(maxsize=256)
def epsilon_from_mu(mu: float, delta: float) -> float:
    """Return the epsilon at a delta that Gaussian DP with a given mu implies.

    Parameters
    ----------
    mu : float
        The parameter of Gaussian DP, at least 0.
    delta : float
        Below 1.

    Returns
    -------
    float
        At most a relative 1e-12 too large, and never too small. Infinite if no epsilon is proven.
    """
    if mu == 0 or delta_from_mu(mu, 0.0) <= delta:
        return 0.0
    upper = mu * mu / 2 + mu * 40
    if delta <= 0 or not delta_from_mu(mu, upper) <= delta:
        return math.inf
    return boundary(lambda epsilon: delta_from_mu(mu, epsilon) <= delta, 0.0, upper)[1]


@lru_cache(maxsize=256)
def mu_from_epsilon(epsilon: float, delta: float) -> float:
    """Return the largest mu for which Gaussian DP implies (epsilon, delta)-DP.

    Parameters
    ----------
    epsilon : float
        At least 0.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        At most a relative 1e-12 too small, and never too large.
    """

    def too_much(mu: float) -> bool:
        return not delta_from_mu(mu, epsilon) <= delta

    low, high = 0.0, 1.0
    while high < math.inf and not too_much(high):
        low, high = high, 2 * high
    return boundary(too_much, low, high)[0]
