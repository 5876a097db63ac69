"""What each kind of event costs in pure epsilon, zCDP rho and Rényi divergence, and caps on it.

Each function dispatches on the kind of event and refuses, by name, the kinds for which no bound
is proven. A module that defines its own event registers its bounds with ``.register``.

If a later noise scale, or whether there is a later release at all, depends on an earlier answer,
then what was spent along the way is an outcome and proves nothing. The cap does: pure epsilons sum
(Rogers et al. 2016), and so do zCDP rhos and the Rényi divergences of one order (Feldman & Zrnic
2021; Whitehouse et al. 2023), whatever was chosen along the way, as long as the cap and its
currency were fixed before the first release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import singledispatch
from typing import Any, Literal, get_args

import numpy as np

from missdp.accounting.events import (
    Adjacency,
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    flatten,
    under,
)
from missdp.accounting.exact import (
    FloatArray,
    best_order,
    chords,
    continuous_laplace,
    discrete_laplace,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_up,
    integer_shift,
    overhead,
    randomized_response,
    sampled_gaussian,
    total,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.record import check_nonnegative, check_positive

__all__ = [
    "Cost",
    "Currency",
    "FilterEvent",
    "approximate_delta",
    "failure_of",
    "filter_cost",
    "is_pure",
    "proven",
    "pure_cost",
    "pure_epsilon",
    "rdp_curve",
    "releases",
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
    return np.minimum(unsampled, event.steps * step)


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


Currency = Literal["pure", "zcdp", "renyi"]


_PROVEN: dict[Currency, Callable[..., object]] = {
    "pure": pure_cost,
    "zcdp": zcdp_cost,
    "renyi": rdp_curve,
}


# Rényi curves are upper bounds computed in floating point, with a relative error below this.
_OUTWARD = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An amount of privacy in one currency: pure epsilon, zCDP rho, or divergence at one order.

    Parameters
    ----------
    currency : {"pure", "zcdp", "renyi"}
        What the amount counts.
    amount : float
        Epsilon, rho, or the Rényi divergence at ``order``; at least 0.
    order : float or None
        The Rényi order, above 1; None for the other currencies.

    Examples
    --------
    >>> Cost(currency="zcdp", amount=0.02).event()
    ZCDPEvent(label='', gate=None, adjacency='add-remove', rho=0.02)
    """

    currency: Currency
    amount: float
    order: float | None = None

    def __post_init__(self) -> None:
        if self.currency not in get_args(Currency):
            raise ParameterError(f"currency must be one of {get_args(Currency)}")
        object.__setattr__(self, "amount", check_nonnegative("amount", self.amount))
        if (self.order is None) == (self.currency == "renyi"):
            raise ParameterError("order is for the currency 'renyi', which needs one")
        if self.order is not None and not check_positive("order", self.order) > 1:
            raise ParameterError("order must be above 1")

    @classmethod
    def worth(cls, currency: Currency, epsilon: float, delta: float) -> Cost:
        """Return the largest amount of a currency that is worth at most (epsilon, delta).

        Examples
        --------
        >>> round(Cost.worth("zcdp", 1.0, 1e-6).amount, 4)
        0.0244
        """
        if currency == "pure":
            return cls(currency=currency, amount=epsilon)
        if currency not in get_args(Currency):
            raise ParameterError(f"currency must be one of {get_args(Currency)}, got {currency!r}")
        if delta <= 0:
            raise ParameterError(f"the currency {currency!r} is worth nothing at delta 0")
        order = best_order(epsilon, delta)
        found = cls.at_order(order, epsilon, delta)
        if currency == "zcdp":
            found = cls(currency=currency, amount=found.amount / order)._within(epsilon, delta)
        return found

    @classmethod
    def at_order(cls, order: float, epsilon: float, delta: float) -> Cost:
        """Return the largest divergence at a Rényi order that is worth at most (epsilon, delta).

        0 if that order proves nothing so small.

        Examples
        --------
        >>> cost = Cost.at_order(8.0, 3.0, 1e-6)
        >>> round(cost.amount, 2), cost.epsilon(1e-6)
        (1.46, 3.0)
        """
        if not 0 < delta < 1:
            raise ParameterError("a Rényi divergence is worth nothing at delta 0")
        amount = max(0.0, epsilon - float(overhead(order, delta)))
        return cls(currency="renyi", amount=amount, order=order)._within(epsilon, delta)

    def _within(self, epsilon: float, delta: float) -> Cost:
        found = self
        while found.epsilon(delta) > epsilon:  # conversion and its inverse round differently
            found = replace(found, amount=found.amount * (1 - 2.0**-50))
        return found

    def epsilon(self, delta: float) -> float:
        """Return the epsilon that this amount is worth at ``delta``; infinite if none is proven."""
        if self.currency == "pure" or self.amount == 0:
            return self.amount
        if self.currency == "zcdp":
            return epsilon_from_rho(self.amount, delta)
        order = np.array([self.order])
        return epsilon_from_rdp(order, np.array([self.amount]), delta)

    def event(self, *, label: str = "", adjacency: Adjacency = "add-remove") -> Event:
        """Return a mechanism that costs exactly this much and of which nothing else is known."""
        if self.currency == "pure":
            return PureEvent(epsilon=self.amount, label=label, adjacency=adjacency)
        if self.currency == "zcdp":
            return ZCDPEvent(rho=self.amount, label=label, adjacency=adjacency)
        orders, epsilons = (float(self.order or 0),), (self.amount,)
        return RDPEvent(orders=orders, epsilons=epsilons, label=label, adjacency=adjacency)


def filter_cost(event: Event, cost: Cost) -> Fraction:
    """Return what an elementary event costs in the currency of ``cost``, rounded up.

    Raises
    ------
    UnprovenError
        If the event has no bound in that currency.

    Examples
    --------
    >>> filter_cost(PureEvent(epsilon=0.1), Cost(currency="zcdp", amount=1.0))
    Fraction(1, 200)
    """
    if approximate_delta(event) > 0 or not proven(_PROVEN[cost.currency], event):
        raise UnprovenError(
            f"{type(event).__name__} has no bound in the currency {cost.currency!r} of this "
            "adaptive budget; choose another currency, or a budget with schedule='fixed'"
        )
    if cost.currency == "pure":
        return pure_cost(event)
    if cost.currency == "zcdp":
        return zcdp_cost(event)
    if isinstance(event, RDPEvent) and cost.order in event.orders:
        return exact(event.epsilons[event.orders.index(cost.order)])
    value = float(rdp_curve(event, np.array([cost.order]))[0])
    if not math.isfinite(value):
        raise UnprovenError(f"{type(event).__name__} has no bound at the order {cost.order:.6g}")
    return Fraction(math.nextafter(value * _OUTWARD, math.inf))


@dataclass(frozen=True, kw_only=True)
class FilterEvent(Event):
    """An adaptive sequence of releases, accounted by its cap and nothing else.

    Parameters
    ----------
    capacity : PureEvent, ZCDPEvent or RDPEvent of one order
        The cap, chosen before the first release. It is what accountants see.
    log : sequence of Event
        What was released in the end: an outcome, kept for the record. No number follows from it.
    label, gate, adjacency
        As of every `Event`; the adjacency is that of the capacity.

    Raises
    ------
    ParameterError
        If the log costs more than the capacity.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, epsilon_of
    >>> log = [GaussianEvent(sensitivity=1, sigma=20.0)]
    >>> event = FilterEvent(capacity=ZCDPEvent(rho=0.02), log=log)
    >>> epsilon_of(event, 1e-6) == epsilon_of(ZCDPEvent(rho=0.02), 1e-6)
    True
    """

    capacity: Event
    log: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "log", tuple(self.log))
        cost = self.cost
        if self.capacity.adjacency != self.adjacency or self.capacity.gate:
            raise ParameterError("the capacity has the adjacency of its filter, and no gate")
        spent = [filter_cost(part, cost) for part in under(self.adjacency, flatten(self.log))]
        cap = exact(cost.amount)
        if total(spent) > cap and sum(spent) > cap:  # rounded up first, which is quick
            raise ParameterError("the log of a filter costs more than its capacity")

    @property
    def cost(self) -> Cost:
        """The capacity, as a cost."""
        kind = type(self.capacity)
        if kind is PureEvent:
            return Cost(currency="pure", amount=self.capacity.epsilon)  # type: ignore[attr-defined]
        if kind is ZCDPEvent:
            return Cost(currency="zcdp", amount=self.capacity.rho)  # type: ignore[attr-defined]
        if isinstance(self.capacity, RDPEvent) and len(self.capacity.orders) == 1:
            amount, order = self.capacity.epsilons[0], self.capacity.orders[0]
            return Cost(currency="renyi", amount=amount, order=order)
        raise ParameterError("a filter has a capacity in pure epsilon, rho, or at one Rényi order")

    def flatten(self) -> tuple[Event, ...]:
        """Return the capacity, which is all that accountants may see."""
        gate = self.gate or None
        return (replace(self.capacity, label=self.capacity.label or self.label, gate=gate),)

    def _doubled(self) -> dict[str, Any]:
        return {"capacity": self.capacity.to_replace_one()}


def releases(events: Event | Iterable[Event]) -> tuple[Event, ...]:
    """Return every single release among ``events``, those in the logs of filters too.

    Accountants must not add these up: see `FilterEvent`. For that, use `flatten`.

    Examples
    --------
    >>> inner = FilterEvent(capacity=PureEvent(epsilon=0.5), log=[PureEvent(epsilon=0.2)])
    >>> outer = FilterEvent(capacity=PureEvent(epsilon=1.0), log=[PureEvent(epsilon=0.1), inner])
    >>> [event.epsilon for event in releases(outer)]
    [0.1, 0.2]
    """
    if isinstance(events, FilterEvent):
        return releases(events.log)
    if isinstance(events, Event):
        return flatten(events)
    return tuple(release for event in events for release in releases(event))
