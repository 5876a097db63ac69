"""What each kind of event costs in pure epsilon, zCDP rho and Rényi divergence.

Each function dispatches on the kind of event and refuses, by name, the kinds for which no bound
is proven. A module that defines its own event registers its bounds with ``.register``. What it
costs in Gaussian DP is in `missdp.accounting.gdp`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import singledispatch

import numpy as np

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
from missdp.accounting.exact import (
    FloatArray,
    chords,
    continuous_laplace,
    discrete_laplace,
    exact,
    float_up,
    integer_shift,
    randomized_response,
    sampled_gaussian,
    total,
)
from missdp.errors import UnprovenError

__all__ = [
    "approximate_delta",
    "failure_of",
    "is_pure",
    "proven",
    "pure_cost",
    "pure_epsilon",
    "rdp_curve",
    "zcdp_cost",
    "zcdp_rho_of",
]


@singledispatch
def pure_cost(event: Event) -> Fraction:
    """Return the epsilon of an event exactly; of an `ApproximateEvent`, that beside its delta.

    Examples
    --------
    >>> pure_cost(LaplaceEvent(sensitivity=1, scale=3.0))
    Fraction(1, 3)
    """
    raise UnprovenError(f"no pure DP bound is proven for {type(event).__name__}")


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
    raise UnprovenError(f"no zCDP bound is proven for {type(event).__name__}")


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


@singledispatch
def rdp_curve(event: Event, orders: FloatArray) -> FloatArray:  # noqa: ARG001
    """Return an upper bound on the Rényi divergence at each order (infinity where unknown).

    Examples
    --------
    >>> rdp_curve(ZCDPEvent(rho=0.5), np.array([2.0, 4.0])).tolist()
    [1.0, 2.0]
    """
    raise UnprovenError(f"no Rényi DP bound is proven for {type(event).__name__}")


@rdp_curve.register(PureEvent)
@rdp_curve.register(ApproximateEvent)
def _(event: PureEvent | ApproximateEvent, orders: FloatArray) -> FloatArray:
    return randomized_response(event.epsilon, orders)


@rdp_curve.register
def _(event: SelectionEvent, orders: FloatArray) -> FloatArray:
    bounded_range = orders * zcdp_rho_of(event)
    return np.minimum(bounded_range, randomized_response(event.epsilon, orders))


@rdp_curve.register
def _(event: LaplaceEvent, orders: FloatArray) -> FloatArray:
    epsilon = pure_epsilon(event)
    if math.isinf(epsilon):
        return np.full_like(orders, math.inf)
    if event.discrete:
        return discrete_laplace(integer_shift(event.sensitivity), event.scale, orders, epsilon)
    return continuous_laplace(epsilon, orders)


@rdp_curve.register(GaussianEvent)
@rdp_curve.register(ZCDPEvent)
def _(event: GaussianEvent | ZCDPEvent, orders: FloatArray) -> FloatArray:
    return orders * zcdp_rho_of(event)


@rdp_curve.register
def _(event: RDPEvent, orders: FloatArray) -> FloatArray:
    return chords(np.array(event.orders), np.array(event.epsilons), orders)


@rdp_curve.register
def _(event: SampledGaussianEvent, orders: FloatArray) -> FloatArray:
    # Q is the law without the row, P with it, M = (1 - q) Q + q P. At a whole order a,
    # E_Q (M / Q)^a is a sum of binomial weights times E_Q (P / Q)^k, k = 0..a, and each of those is
    # exp(k (k - 1) s^2 / (2 sigma^2)) for a shift of length s: exactly so for discrete noise, too,
    # if the shift is made of integers. The other direction is no larger (Mironov, Talwar & Zhang
    # 2019): x -> shift - x swaps P and Q, and the inequality holds for each pair {x, shift - x},
    # so it holds whether such pairs are integrated or added up.
    unsampled = orders * zcdp_rho_of(event)
    step = sampled_gaussian(event.rate, event.noise_multiplier, orders)
    return np.minimum(unsampled, float(event.steps) * step)


def proven(cost: Callable[..., object], event: Event) -> bool:
    """Return whether `pure_cost`, `zcdp_cost` or `rdp_curve` has a bound for this kind of event."""
    registered = cost.dispatch(type(event))  # type: ignore[attr-defined]
    return bool(registered is not cost.dispatch(object))  # type: ignore[attr-defined]


def is_pure(event: Event) -> bool:
    """Return whether an event is pure DP: it has an epsilon, and its delta is 0."""
    return proven(pure_cost, event) and approximate_delta(event) == 0


def pure_epsilon(event: Event) -> float:
    """Return `pure_cost` as a float, rounded up."""
    return float_up(pure_cost(event))


def zcdp_rho_of(event: Event) -> float:
    """Return `zcdp_cost` as a float, rounded up."""
    return float_up(zcdp_cost(event))


def approximate_delta(event: Event) -> float:
    """Return the probability with which the bounds of this event may fail altogether."""
    return event.delta if isinstance(event, ApproximateEvent) else 0.0


def failure_of(events: Iterable[Event]) -> Fraction:
    """Return the sum of `approximate_delta` exactly."""
    return total(exact(delta) for event in events if (delta := approximate_delta(event)))
