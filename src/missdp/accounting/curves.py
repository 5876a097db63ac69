"""What each kind of event is worth under pure DP, zCDP and Rényi DP.

Each function dispatches on the kind of event and refuses, by name, the kinds for which no bound
is proven. A module that defines its own event registers its bounds with ``.register``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from functools import lru_cache, singledispatch

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from missdp.accounting.events import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.accounting.exact import exact, float_up, total
from missdp.errors import UnprovenError

__all__ = [
    "approximate_delta",
    "failure_of",
    "integer_shift",
    "pure_cost",
    "pure_epsilon",
    "rdp_curve",
    "zcdp_cost",
    "zcdp_rho_of",
]

FloatArray = NDArray[np.float64]

# More than what a handful of floating-point operations on numbers of size 1 get wrong.
_ROUNDING = 1e-15

# Whole orders at which the Poisson-sampled Gaussian is evaluated; the best order for DP-SGD is
# far below the last one, and each order costs time proportional to itself.
_SAMPLED_ORDERS: FloatArray = np.unique(
    np.concatenate([np.arange(2.0, 65.0), np.geomspace(64.0, 512.0, 25).round()])
)


def _refuse(event: Event, accountant: str) -> UnprovenError:
    return UnprovenError(f"no {accountant} bound is proven for {type(event).__name__}")


def integer_shift(sensitivity: float) -> int:
    """Return the largest whole number up to ``sensitivity``, forgiving rounding from below.

    Examples
    --------
    >>> integer_shift(2.9999999999999996), integer_shift(1.5)
    (3, 1)
    """
    return math.floor(sensitivity + 1e-9)


@singledispatch
def pure_cost(event: Event) -> Fraction:
    """Return the epsilon of an event exactly; of an `ApproximateEvent`, that beside its delta.

    Examples
    --------
    >>> pure_cost(LaplaceEvent(sensitivity=1, scale=3.0))
    Fraction(1, 3)
    """
    raise _refuse(event, "pure DP")


@pure_cost.register(PureEvent)
@pure_cost.register(ApproximateEvent)
def _(event: PureEvent | ApproximateEvent) -> Fraction:
    return exact(event.epsilon)


@pure_cost.register
def _(event: LaplaceEvent) -> Fraction:
    # Integer queries move by whole numbers, so floor applies.
    shift = integer_shift(event.sensitivity) if event.discrete else event.sensitivity
    return Fraction(shift) / Fraction(event.scale)


@singledispatch
def zcdp_cost(event: Event) -> Fraction:
    """Return the rho of an event exactly, under (delta-approximate) zero-concentrated DP.

    Examples
    --------
    >>> zcdp_cost(GaussianEvent(sensitivity=1, sigma=10.0))
    Fraction(1, 200)
    """
    raise _refuse(event, "zCDP")


@zcdp_cost.register(PureEvent)
@zcdp_cost.register(ApproximateEvent)
@zcdp_cost.register(LaplaceEvent)
def _(event: PureEvent | ApproximateEvent | LaplaceEvent) -> Fraction:
    return pure_cost(event) ** 2 / 2  # Bun & Steinke 2016, Proposition 1.4


@zcdp_cost.register
def _(event: SelectionEvent) -> Fraction:
    return pure_cost(event) ** 2 / 8  # bounded range: Cesar & Rogers 2021


@zcdp_cost.register
def _(event: GaussianEvent) -> Fraction:
    # Continuous: Bun & Steinke 2016, Prop. 1.6. Discrete: Canonne et al. 2020, Theorem 14.
    return (Fraction(event.sensitivity) / Fraction(event.sigma)) ** 2 / 2


@zcdp_cost.register
def _(event: SampledGaussianEvent) -> Fraction:
    # No less than without sampling: at large orders, zCDP gains nothing from it. Quasi-convexity of
    # the divergence bounds a mixture of "read" and "not read" by the former, in both directions.
    return event.steps / Fraction(event.noise_multiplier) ** 2 / 2 if event.rate else Fraction(0)


@zcdp_cost.register
def _(event: ZCDPEvent) -> Fraction:
    return exact(event.rho)


def pure_epsilon(event: Event) -> float:
    """Return `pure_cost` as a float, rounded up.

    Examples
    --------
    >>> pure_epsilon(LaplaceEvent(sensitivity=1.5, scale=2.0))
    0.5
    """
    return float_up(pure_cost(event))


def zcdp_rho_of(event: Event) -> float:
    """Return `zcdp_cost` as a float, rounded up.

    Examples
    --------
    >>> zcdp_rho_of(GaussianEvent(sensitivity=1, sigma=2.0))
    0.125
    """
    return float_up(zcdp_cost(event))


def approximate_delta(event: Event) -> float:
    """Return the probability with which the bounds of this event may fail altogether.

    Examples
    --------
    >>> approximate_delta(PureEvent(epsilon=1.0))
    0.0
    """
    return event.delta if isinstance(event, ApproximateEvent) else 0.0


def failure_of(events: Iterable[Event]) -> Fraction:
    """Return the sum of `approximate_delta` exactly.

    Examples
    --------
    >>> failure_of([ApproximateEvent(epsilon=1.0, delta=0.1)] * 3)
    Fraction(3, 10)
    """
    return total(exact(delta) for event in events if (delta := approximate_delta(event)))


@singledispatch
def rdp_curve(event: Event, orders: FloatArray) -> FloatArray:  # noqa: ARG001
    """Return an upper bound on the Rényi divergence at each order (infinity where unknown).

    Examples
    --------
    >>> rdp_curve(ZCDPEvent(rho=0.5), np.array([2.0, 4.0])).tolist()
    [1.0, 2.0]
    """
    raise _refuse(event, "Rényi DP")


@rdp_curve.register
def _(event: PureEvent, orders: FloatArray) -> FloatArray:
    return _randomized_response(event.epsilon, orders)


@rdp_curve.register
def _(event: SelectionEvent, orders: FloatArray) -> FloatArray:
    bounded_range = orders * zcdp_rho_of(event)
    return np.minimum(bounded_range, _randomized_response(event.epsilon, orders))


@rdp_curve.register
def _(event: ApproximateEvent, orders: FloatArray) -> FloatArray:
    return _randomized_response(event.epsilon, orders)


@rdp_curve.register
def _(event: LaplaceEvent, orders: FloatArray) -> FloatArray:
    epsilon = pure_epsilon(event)
    if math.isinf(epsilon):
        return np.full_like(orders, math.inf)
    if event.discrete:
        return _discrete_laplace(integer_shift(event.sensitivity), event.scale, orders, epsilon)
    return _continuous_laplace(epsilon, orders)


@rdp_curve.register
def _(event: GaussianEvent, orders: FloatArray) -> FloatArray:
    return orders * zcdp_rho_of(event)


@rdp_curve.register
def _(event: ZCDPEvent, orders: FloatArray) -> FloatArray:
    return orders * event.rho


@rdp_curve.register
def _(event: RDPEvent, orders: FloatArray) -> FloatArray:
    return _chords(np.array(event.orders), np.array(event.epsilons), orders)


@rdp_curve.register
def _(event: SampledGaussianEvent, orders: FloatArray) -> FloatArray:
    # Q is the law without the row, P with it, M = (1 - q) Q + q P. At a whole order a,
    # E_Q (M / Q)^a is a sum of binomial weights times E_Q (P / Q)^k, k = 0..a, and each of those is
    # exp(k (k - 1) s^2 / (2 sigma^2)) for a shift of length s: exactly so for discrete noise, too,
    # if the shift is made of integers. The other direction is no larger (Mironov, Talwar & Zhang
    # 2019): x -> shift - x swaps P and Q, and the inequality holds for each pair {x, shift - x},
    # so it holds whether such pairs are integrated or added up.
    step = _sampled_gaussian(event.rate, event.noise_multiplier)
    unsampled = orders * zcdp_rho_of(event)
    return np.minimum(unsampled, event.steps * _chords(_SAMPLED_ORDERS, step, orders))


def _chords(table: FloatArray, curve: FloatArray, orders: FloatArray) -> FloatArray:
    """Read a table of upper bounds at other orders; infinity beyond its end.

    (a - 1) D_a is convex in a and 0 at a = 1, so its chords bound it from above.
    """
    heights = np.concatenate([[0.0], (table - 1) * curve])
    chords = np.interp(orders, np.concatenate([[1.0], table]), heights, right=np.inf)
    return np.asarray(np.where(orders <= table[0], curve[0], chords / (orders - 1)))


def _randomized_response(epsilon: float, orders: FloatArray) -> FloatArray:
    """Rényi divergence of the worst epsilon-DP pair: one bit, flipped with odds exp(-epsilon)."""
    log_p, log_q = -np.log1p(np.exp(-epsilon)), -epsilon - np.log1p(np.exp(-epsilon))
    terms = np.stack([orders * log_p + (1 - orders) * log_q, orders * log_q + (1 - orders) * log_p])
    return _rounded_up(logsumexp(terms, axis=0), epsilon, orders)


def _discrete_laplace(shift: int, scale: float, orders: FloatArray, epsilon: float) -> FloatArray:
    """Rényi divergence of the discrete Laplace law against itself shifted, summed exactly.

    The loss is shift/scale below the first centre, falls by 2/scale per step to -shift/scale at
    the second. One coordinate moved by the whole L1 sensitivity is the worst case: for
    log-concave noise the trade-off of a shift u + v is the composition of those of u and v,
    which no product of the two falls below (group privacy, Dong, Roth & Su 2022, §2.4).
    """
    a = 1 / scale
    if shift > 10_000:  # tabulating the middle is no use: the pure bound's curve is as good
        return _randomized_response(epsilon, orders)
    inner = np.arange(1, shift)
    log_norm = np.log(-np.expm1(-a)) - np.log1p(np.exp(-a))
    log_mass = np.concatenate(
        [[-np.log1p(np.exp(-a))], log_norm - a * inner, [-a * shift - np.log1p(np.exp(-a))]]
    )
    loss = a * np.concatenate([[shift], shift - 2 * inner, [-shift]])
    moment = logsumexp(log_mass[:, None] + np.outer(loss, orders - 1), axis=0)
    return _rounded_up(moment, epsilon, orders)


def _continuous_laplace(epsilon: float, orders: FloatArray) -> FloatArray:
    """Mironov 2017, Proposition 6; L1 worst case as in `_discrete_laplace`."""
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


@lru_cache(maxsize=256)
def _sampled_gaussian(rate: float, multiplier: float) -> FloatArray:
    """One step at whole orders, where the binomial sum is finite (Mironov, Talwar & Zhang 2019).

    log(1 + sum over k of C(a, k) q^k (1 - q)^(a - k) (exp(k (k - 1) / (2 sigma^2)) - 1)) / (a - 1):
    without the 1, a small sum keeps its digits.
    """
    if rate == 0:
        return np.zeros_like(_SAMPLED_ORDERS)
    start, order, k, log_choose = _binomials()
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        rest = np.where(order == k, 0.0, (order - k) * np.log1p(-rate))
        gain = k * (k - 1) / (2 * multiplier**2)
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
    counts = _SAMPLED_ORDERS.astype(np.int64) - 1
    start = np.concatenate([[0], np.cumsum(counts)[:-1]])
    order = np.repeat(_SAMPLED_ORDERS, counts)
    k = np.arange(order.size) - np.repeat(start, counts) + 2.0
    return start, order, k, gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
