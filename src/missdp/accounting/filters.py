"""Caps on adaptive sequences of releases: amounts of one currency, and privacy filters.

If a later noise scale, or whether there is a later release at all, depends on an earlier answer,
then what was spent along the way is an outcome and proves nothing. The cap does: pure epsilons sum
(Rogers et al. 2016), and so do zCDP rhos, the Rényi divergences of one order (Feldman & Zrnic
2021; Whitehouse et al. 2023) and the squares of mu in Gaussian DP (Smith & Thakurta 2022), whatever
was chosen along the way, as long as the cap and its currency were fixed before the first release.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np

from missdp.accounting.accountants import epsilon_under
from missdp.accounting.costs import (
    MOST_GDP,
    approximate_delta,
    gdp_cost,
    gdp_selection,
    pure_cost,
    rdp_curve,
    zcdp_cost,
)
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
    boundary,
    delta_from_mu,
    epsilon_from_mu,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_down,
    gdp_mu,
    integer_shift,
    mu_worth,
    overhead,
    scale_for,
    total,
    zcdp_rho,
)
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.record import check_delta, check_nonnegative, check_positive, check_whole

Currency = Literal["pure", "zcdp", "renyi", "gdp"]
"""What an amount of privacy is counted in."""

_COSTS = {"pure": pure_cost, "zcdp": zcdp_cost, "gdp": gdp_cost}
_MOST_COUNT = 100_000  # events that are put together one by one
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
        epsilon, delta = _target(currency, epsilon, delta)
        if currency == "gdp":
            found = cls(currency=currency, amount=mu_worth(epsilon, delta) ** 2)
            return found._within(epsilon, delta)
        order = best_order(epsilon, delta)
        found = cls.at_order(order, epsilon, delta)
        if currency == "zcdp":
            found = cls(currency=currency, amount=found.amount / order)._within(epsilon, delta)
        return found

    @classmethod
    def at_order(cls, order: float, epsilon: float, delta: float) -> Cost:
        """Return the largest divergence at a Rényi order that is worth at most (epsilon, delta).

        0 if that order proves nothing so small.
        """
        epsilon, delta = _target("renyi", epsilon, delta)
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
        return epsilon_from_rdp(np.array([self.order]), np.array([self.amount]), delta)

    def event(self, *, label: str = "", adjacency: Adjacency = "add-remove") -> Event:
        """Return a mechanism that costs exactly this much and of which nothing else is known."""
        facts: dict[str, Any] = {"label": label, "adjacency": adjacency}
        if self.currency == "pure":
            return PureEvent(epsilon=self.amount, **facts)
        if self.currency == "zcdp":
            return ZCDPEvent(rho=self.amount, **facts)
        if self.currency == "gdp":
            mu = gdp_mu(exact(self.amount))
            return GaussianEvent(sensitivity=mu, sigma=1.0, discrete=False, **facts)
        return RDPEvent(orders=(float(self.order or 0),), epsilons=(self.amount,), **facts)


def _target(currency: str, epsilon: float, delta: float) -> tuple[float, float]:
    epsilon, delta = check_nonnegative("epsilon", epsilon), check_delta("delta", delta)
    if delta == 0:
        raise ParameterError(f"the currency {currency!r} is worth nothing at delta 0")
    return epsilon, delta


def filter_cost(event: Event, cost: Cost) -> Fraction:
    """Return what an elementary event costs in the currency of ``cost``, rounded up."""
    refused = UnprovenError(
        f"{type(event).__name__} has no bound in the currency {cost.currency!r} of this "
        "adaptive budget; choose another currency, or a budget with schedule='fixed'"
    )
    if approximate_delta(event) > 0:
        raise refused
    with replacing(UnprovenError, by=refused):
        if cost.currency != "renyi":
            return _COSTS[cost.currency](event)
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
    """
    if delta == 0:
        return Cost.worth("pure", epsilon, delta)
    found = Cost.worth("gdp", epsilon, delta)
    return found if found.amount <= MOST_GDP else Cost.worth("zcdp", epsilon, delta)


def selection_worth(cost: Cost) -> float:
    """Return the epsilon of a selection by the exponential mechanism that costs this much."""
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
        cost, cap = self.cost, exact(self.cost.amount)
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
        if total(spent) > cap and sum(spent) > cap:  # rounded up first, which is quick
            raise ParameterError("the log of a filter costs more than its capacity")

    @property
    def cost(self) -> Cost:
        """The capacity, as a cost."""
        of = self.capacity
        if type(of) is PureEvent:
            return Cost(currency="pure", amount=of.epsilon)
        if type(of) is ZCDPEvent:
            return Cost(currency="zcdp", amount=of.rho)
        if isinstance(of, RDPEvent) and len(of.orders) == 1:
            return Cost(currency="renyi", amount=of.epsilons[0], order=of.orders[0])
        if isinstance(of, GaussianEvent) and not of.discrete:
            return Cost(currency="gdp", amount=float_down(gdp_cost(of)))
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


# Noise for a target


def laplace_scale(epsilon: float, *, sensitivity: float = 1.0, count: int = 1) -> float:
    """Return the Laplace scale for ``count`` releases that are epsilon-DP together.

    Valid for discrete and continuous noise; the composition is pure DP.

    Parameters
    ----------
    epsilon : float
        Total, above 0.
    sensitivity : float, default 1.0
        L1 sensitivity of each release, above 0.
    count : int, default 1
        Number of releases that one row can touch, at least 1.

    Returns
    -------
    float
        ``count * sensitivity / epsilon``, rounded up.

    Examples
    --------
    >>> laplace_scale(1.0, count=4)
    4.0
    """
    return scale_for(sensitivity, epsilon, count=count)


def gaussian_delta(epsilon: float, *, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the delta of the *continuous* Gaussian mechanism at ``epsilon``: exact, rounded up.

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : float
        Standard deviation of the noise, above 0.
    sensitivity : float, default 1.0
        L2 sensitivity, above 0.

    Returns
    -------
    float
        Balle & Wang 2018, Theorem 8.

    Examples
    --------
    >>> round(gaussian_delta(1.0, sigma=1.0), 4)
    0.1269
    """
    epsilon = check_nonnegative("epsilon", epsilon)
    shift = check_positive("sensitivity", sensitivity) / check_positive("sigma", sigma)
    return delta_from_mu(shift, epsilon)


def gaussian_sigma(
    epsilon: float,
    delta: float,
    *,
    sensitivity: float = 1.0,
    count: int = 1,
    discrete: bool = True,
) -> float:
    """Return the least sigma for ``count`` Gaussian releases that are (epsilon, delta)-DP together.

    Parameters
    ----------
    epsilon : float
        Total, above 0.
    delta : float
        Total, in (0, 1).
    sensitivity : float, default 1.0
        L2 sensitivity of each release, above 0 (at least 1 if discrete).
    count : int, default 1
        Number of releases that one row can touch, at least 1.
    discrete : bool, default True
        Integer noise, certified by the discrete privacy loss where the shift is known
        (sensitivity below 2) and by zCDP otherwise. False: continuous noise, exact.

    Returns
    -------
    float
        Certified: `epsilon_of` of ``count`` events with this sigma is at most ``epsilon``
        (discrete), or `gaussian_delta` at most ``delta`` (continuous).

    Examples
    --------
    >>> round(gaussian_sigma(1.0, 1e-6), 1)
    4.2
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_delta("delta", delta)
    if delta == 0:
        raise ParameterError("delta must be above 0: Gaussian noise is never pure DP")
    count = check_whole("count", count, least=1)
    if not discrete:
        moved = check_positive("sensitivity", sensitivity) * math.sqrt(count)
        mu = mu_worth(epsilon, delta) * (1 - 2.0**-50)
        return moved / mu if mu else math.inf
    if count > _MOST_COUNT:
        raise ParameterError(f"count must be at most {_MOST_COUNT:,} for discrete noise")
    sensitivity = check_positive("sensitivity", sensitivity)
    if integer_shift(sensitivity) < 1:
        raise ParameterError(f"an integer query has sensitivity at least 1, got {sensitivity}")

    def make(sigma: float) -> list[Event]:
        return [GaussianEvent(sensitivity=sensitivity, sigma=sigma)] * count

    rho = zcdp_rho(epsilon, delta)
    if rho == 0:
        raise ParameterError("no noise meets the target: epsilon and delta are too small")
    # Room for rounding: zCDP inverted and evaluated again may differ in the last bits.
    safe = sensitivity * math.sqrt(count / (2 * rho)) * (1 + 1e-9)
    return calibrate(make, epsilon, delta, start=safe)


def calibrate(
    make_events: Callable[[float], Sequence[Event]],
    epsilon: float,
    delta: float = 0.0,
    *,
    adjacency: Adjacency = "add-remove",
    start: float = 1.0,
    tolerance: float = 1e-4,
) -> float:
    """Return the least noise for which a composition meets a target.

    Parameters
    ----------
    make_events : callable
        Maps a noise level above 0 to the events; more noise must cost no more privacy.
    epsilon : float
        Target, above 0.
    delta : float, default 0.0
        Target, in [0, 1).
    adjacency : {"add-remove", "replace-one"}
        The relation of the target.
    start : float, default 1.0
        Where to start looking; any value above 0 will do.
    tolerance : float, default 1e-4
        Relative width at which bisection stops.

    Returns
    -------
    float
        A noise level whose events were *checked* to meet the target: the result is always the
        safe end of the last interval.

    Raises
    ------
    ParameterError
        If no noise level up to ``start * 2**60`` meets the target.

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent
    >>> scale = calibrate(lambda b: [LaplaceEvent(sensitivity=1, scale=b)] * 4, 1.0)
    >>> 4.0 <= scale <= 4.001
    True
    """
    epsilon, delta = check_positive("epsilon", epsilon), check_delta("delta", delta)
    start, tolerance = check_positive("start", start), check_positive("tolerance", tolerance)

    def enough(noise: float) -> bool:
        try:
            return epsilon_under(make_events(noise), delta, adjacency) <= epsilon
        except UnprovenError:
            return False

    high = next((high for k in range(60) if enough(high := start * 2.0**k)), math.inf)
    if math.isinf(high):
        raise ParameterError("no noise level meets the target; is delta large enough?")
    low = high / 2
    for _ in range(60):
        if not enough(low):
            break
        low, high = low / 2, low
    return boundary(enough, low, high, tolerance=tolerance)[1]
