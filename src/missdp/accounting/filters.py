"""Caps on adaptive sequences of releases: amounts of one currency, and privacy filters.

If a later noise scale, or whether there is a later release at all, depends on an earlier answer,
then what was spent along the way is an outcome and proves nothing. The cap does: pure epsilons sum
(Rogers et al. 2016), and so do zCDP rhos, the Rényi divergences of one order (Feldman & Zrnic
2021; Whitehouse et al. 2023) and the squares of mu in Gaussian DP (Smith & Thakurta 2022), whatever
was chosen along the way, as long as the cap and its currency were fixed before the first release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from missdp.accounting.costs import approximate_delta, proven, pure_cost, rdp_curve, zcdp_cost
from missdp.accounting.events import (
    Adjacency,
    Event,
    GaussianEvent,
    PureEvent,
    RDPEvent,
    ZCDPEvent,
    flatten,
    under,
)
from missdp.accounting.exact import (
    best_order,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_down,
    overhead,
    total,
)
from missdp.accounting.gdp import (
    MOST_GDP,
    epsilon_from_mu,
    gdp_cost,
    gdp_mu,
    gdp_selection,
    mu_worth,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.record import check_delta, check_nonnegative, check_positive

__all__ = [
    "Cost",
    "Currency",
    "FilterEvent",
    "counting_cost",
    "filter_cost",
    "releases",
    "selection_worth",
]


Currency = Literal["pure", "zcdp", "renyi", "gdp"]
"""What an amount of privacy is counted in."""


_PROVEN: dict[Currency, Callable[..., object]] = {
    "pure": pure_cost,
    "zcdp": zcdp_cost,
    "renyi": rdp_curve,
    "gdp": gdp_cost,
}


# Rényi curves are upper bounds computed in floating point, with a relative error below this.
_OUTWARD = 1 + 1e-12


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An amount of privacy in one currency: epsilon, rho, divergence at one order, or mu squared.

    Parameters
    ----------
    currency : {"pure", "zcdp", "renyi", "gdp"}
        What the amount counts.
    amount : float
        Pure epsilon, zCDP rho, the Rényi divergence at ``order``, or the square of the mu of
        Gaussian DP; at least 0.
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
        epsilon, delta = check_nonnegative("epsilon", epsilon), check_delta("delta", delta)
        if delta == 0:
            raise ParameterError(f"the currency {currency!r} is worth nothing at delta 0")
        if currency == "gdp":
            return cls(currency=currency, amount=mu_worth(epsilon, delta) ** 2)._within(
                epsilon, delta
            )
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
        epsilon, delta = check_nonnegative("epsilon", epsilon), check_delta("delta", delta)
        if delta == 0:
            raise ParameterError("a Rényi divergence is worth nothing at delta 0")
        amount = max(0.0, epsilon - float(overhead(order, delta)))
        return cls(currency="renyi", amount=amount, order=order)._within(epsilon, delta)

    def _within(self, epsilon: float, delta: float) -> Cost:
        found = self
        step = 2.0**-50
        while found.epsilon(delta) > epsilon:  # conversion and its inverse round differently
            found, step = replace(found, amount=found.amount * (1 - step)), min(0.5, 2 * step)
        return found

    def epsilon(self, delta: float) -> float:
        """Return the epsilon that this amount is worth at ``delta``; infinite if none is proven."""
        if self.currency == "pure" or self.amount == 0:
            return self.amount
        delta = check_delta("delta", delta)
        if self.currency == "zcdp":
            return epsilon_from_rho(self.amount, delta)
        if self.currency == "gdp":
            return epsilon_from_mu(gdp_mu(exact(self.amount)), delta)
        order = np.array([self.order])
        return epsilon_from_rdp(order, np.array([self.amount]), delta)

    def event(self, *, label: str = "", adjacency: Adjacency = "add-remove") -> Event:
        """Return a mechanism that costs exactly this much and of which nothing else is known."""
        if self.currency == "pure":
            return PureEvent(epsilon=self.amount, label=label, adjacency=adjacency)
        if self.currency == "zcdp":
            return ZCDPEvent(rho=self.amount, label=label, adjacency=adjacency)
        if self.currency == "gdp":
            return GaussianEvent(
                sensitivity=gdp_mu(exact(self.amount)),
                sigma=1.0,
                discrete=False,
                label=label,
                adjacency=adjacency,
            )
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
    if cost.currency == "gdp":
        return gdp_cost(event)
    if isinstance(event, RDPEvent) and cost.order in event.orders:
        return exact(event.epsilons[event.orders.index(cost.order)])
    value = float(rdp_curve(event, np.array([cost.order]))[0])
    if not math.isfinite(value):
        raise UnprovenError(f"{type(event).__name__} has no bound at the order {cost.order:.6g}")
    return Fraction(math.nextafter(value * _OUTWARD, math.inf))


@lru_cache(maxsize=64)
def counting_cost(epsilon: float, delta: float) -> Cost:
    """Return the cost, worth (epsilon, delta), that buys most for counts of rows and selections.

    Gaussian DP has a tight conversion for Gaussian noise, worth 10 to 18 % more than zCDP's, and
    selections cost 1.57 times as much in it. Where the least noise of a count is too small for a
    bound in Gaussian DP, it is zCDP; at delta 0, pure epsilon.

    Examples
    --------
    >>> counting_cost(1.0, 1e-6).currency, counting_cost(50.0, 1e-6).currency
    ('gdp', 'zcdp')
    """
    if delta == 0:
        return Cost.worth("pure", epsilon, delta)
    found = Cost.worth("gdp", epsilon, delta)
    return found if found.amount <= MOST_GDP else Cost.worth("zcdp", epsilon, delta)


def selection_worth(cost: Cost) -> float:
    """Return the epsilon of a selection by the exponential mechanism that costs this much.

    Examples
    --------
    >>> selection_worth(Cost(currency="zcdp", amount=0.02))
    0.4
    """
    if cost.currency == "pure":
        return cost.amount
    if cost.currency == "gdp":
        return gdp_selection(cost.amount)
    return math.sqrt(8 * cost.amount / (cost.order or 1.0))


@dataclass(frozen=True, kw_only=True)
class FilterEvent(Event):
    """An adaptive sequence of releases, accounted by its cap and nothing else.

    Parameters
    ----------
    capacity : PureEvent, ZCDPEvent, RDPEvent of one order or continuous GaussianEvent
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
        parts = flatten(self.log)
        if cost.currency == "gdp" and self.adjacency == "replace-one":
            # Two steps of add-remove: twice the mu, which is less than twice the sensitivity costs.
            spent = [
                filter_cost(p, cost) * (4 if p.adjacency == "add-remove" else 1) for p in parts
            ]
        else:
            spent = [filter_cost(part, cost) for part in under(self.adjacency, parts)]
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
        if isinstance(self.capacity, GaussianEvent) and not self.capacity.discrete:
            return Cost(currency="gdp", amount=float_down(gdp_cost(self.capacity)))
        raise ParameterError(
            "a filter has a capacity in pure epsilon, rho, mu, or at one Rényi order"
        )

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
