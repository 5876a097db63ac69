"""Caps on adaptive sequences of releases: amounts of one currency, and privacy filters.

If a later noise scale, or whether there is a later release at all, depends on an earlier answer,
then what was spent along the way is an outcome and proves nothing. The cap does: pure epsilons sum
(Rogers et al. 2016), and so do zCDP rhos, the Rényi divergences of one order (Feldman & Zrnic
2021; Whitehouse et al. 2023) and the squares of mu in Gaussian DP (Smith & Thakurta 2022), whatever
was chosen along the way, as long as the cap and its currency were fixed before the first release.

Units of protection
-------------------
What the releases of a fit cost a person who has several rows.

A fit reads at most k rows of each unit, and they are chosen from the unit's own rows alone. So
whether a unit is in the table moves at most k rows of what is read, and what is mu-GDP for one row
is k mu-GDP for the unit (Dong, Roth & Su 2022, Theorem 2.14); epsilon-DP becomes k epsilon, and
rho-zCDP k^2 rho (Bun & Steinke 2016, Proposition 1.9). That holds for whole adaptive fits, and k
rows that are alike attain it for sums. Which rows are chosen is drawn for each unit by itself:
given all draws, two neighbouring tables differ by at most k rows, and averaging over the draws,
which are the same for the other units, changes nothing.

Where all rows of a unit count as one together, a unit costs what one row does that counts as one:
what each of its rows adds to a sum, or moves a score by, is at most its share, and shares add up to
one at most (the triangle inequality).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, get_args

import numpy as np

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
    epsilon_from_mu,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_down,
    float_up,
    gdp_mu,
    mu_worth,
    overhead,
    total,
)
from missdp.errors import ParameterError, UnprovenError, one_of, replacing
from missdp.record import COUNT_FROM_1, check_delta, check_nonnegative, check_positive

Currency = Literal["pure", "zcdp", "renyi", "gdp"]
"""What an amount of privacy is counted in."""

_COSTS = {"pure": pure_cost, "zcdp": zcdp_cost, "gdp": gdp_cost}
# Rényi curves are upper bounds computed in floating point, with a relative error below this.
_OUTWARD = 1 + 1e-12

ROW = "row"
"""The unit of protection where nothing else is declared."""

# The square root and the conversion that follow are rounded: what a unit costs must not exceed
# what its budget is worth.
_INWARD = 1 - Fraction(1, 2**45)


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
        one_of("currency", self.currency, get_args(Currency))
        object.__setattr__(self, "amount", check_nonnegative("amount", self.amount))
        if (self.order is None) == (self.currency == "renyi"):
            raise ParameterError("order is for the currency 'renyi', which needs one")
        if self.order is not None and not check_positive("order", self.order) > 1:
            raise ParameterError("order must be above 1")

    @classmethod
    def worth(cls, currency: Currency, epsilon: float, delta: float) -> Cost:
        """Return the largest amount of a currency that is worth at most (epsilon, delta).

        >>> round(Cost.worth("zcdp", 1.0, 1e-6).amount, 4)
        0.0244
        """
        if currency == "pure":
            return cls(currency=currency, amount=epsilon)
        one_of("currency", currency, get_args(Currency))
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

    @classmethod
    def for_counts(cls, epsilon: float, delta: float) -> Cost:
        """Return the cost, worth (epsilon, delta), that buys most for counts and selections.

        Gaussian DP has a tight conversion for Gaussian noise, worth 10 to 18 % more than zCDP's,
        and selections cost 1.57 times as much in it. Where the least noise of a count is too small
        for a bound in Gaussian DP, it is zCDP; at delta 0, pure epsilon.
        """
        if delta == 0:
            return cls.worth("pure", epsilon, delta)
        found = cls.worth("gdp", epsilon, delta)
        return found if found.amount <= MOST_GDP else cls.worth("zcdp", epsilon, delta)

    def price(self, event: Event) -> Fraction:
        """Return what an elementary event costs in the currency of this, rounded up."""
        refused = UnprovenError(
            f"{type(event).__name__} has no bound in the currency {self.currency!r} of this "
            "adaptive budget; choose another currency, delta=0 in 'pure', or schedule='fixed'"
        )
        if approximate_delta(event) > 0:
            raise refused
        with replacing(UnprovenError, by=refused):
            if self.currency != "renyi":
                return _COSTS[self.currency](event)
            if isinstance(event, RDPEvent) and self.order in event.orders:
                return exact(event.epsilons[event.orders.index(self.order)])
            value = float(rdp_curve(event, np.array([self.order]))[0])
        if not math.isfinite(value):
            kind = type(event).__name__
            raise UnprovenError(f"{kind} has no bound at the order {self.order:.6g}")
        return Fraction(math.nextafter(value * _OUTWARD, math.inf))

    @property
    def selection(self) -> float:
        """The epsilon of a selection by the exponential mechanism that costs this much."""
        if self.currency == "pure":
            return self.amount
        if self.currency == "gdp":
            return gdp_selection(self.amount)
        return math.sqrt(8 * self.amount / (self.order or 1.0))

    def of_each(self, rows: int) -> Cost:
        """Return what one row may cost if so many together may cost this; refuse if none may."""
        if rows == 1:
            return self
        if self.currency == "renyi":
            raise _unproven()
        parts = rows if self.currency == "pure" else rows**2
        return replace(self, amount=float_down(exact(self.amount) / parts * _INWARD))


def _target(currency: str, epsilon: float, delta: float) -> tuple[float, float]:
    epsilon, delta = check_nonnegative("epsilon", epsilon), check_delta("delta", delta)
    if delta == 0:
        raise ParameterError(f"the currency {currency!r} is worth nothing at delta 0")
    return epsilon, delta


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
            spent = [cost.price(p) * (4 if p.adjacency == "add-remove" else 1) for p in parts]
        else:
            spent = [cost.price(part) for part in under(self.adjacency, parts)]
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


# Units of protection


@dataclass(frozen=True, kw_only=True)
class UnitEvent(FilterEvent):
    """An adaptive sequence of releases that reads at most so many rows of each unit.

    Parameters
    ----------
    unit : str
        Name of the column that says which rows belong together.
    rows : int
        How many rows of a unit are read at most, at least 1; 1 also where the capacity is a fact
        about a whole unit.
    counts : {"rows", "unit"}, default "rows"
        Whether each row counts as one, or all rows of a unit together.
    capacity, log
        As of a `FilterEvent`: facts about one row that counts as one. Accountants see what follows
        for a unit.

    Raises
    ------
    UnprovenError
        If the capacity is one of which nothing is proven for several rows.

    Examples
    --------
    >>> from missdp.accounting import PureEvent, UnitEvent, epsilon_of
    >>> event = UnitEvent(unit="patient", rows=5, capacity=PureEvent(epsilon=0.2))
    >>> epsilon_of(event, 0.0)
    1.0
    """

    unit: str
    rows: int = field(metadata=COUNT_FROM_1)
    counts: Literal["rows", "unit"] = "rows"

    @property
    def bound(self) -> int:
        """How much all rows of a unit count together at most."""
        return self.rows if self.counts == "rows" else 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.unit, str) and self.unit) or self.unit == ROW:
            raise ParameterError("unit must be the name of the column that identifies units")
        one_of("counts", self.counts, ("rows", "unit"))
        self.flatten()  # refused now, if nothing is proven

    def flatten(self) -> tuple[Event, ...]:
        """Return what the capacity costs a unit, which is all that accountants may see."""
        (of_row,) = super().flatten()
        if of_row.gate:
            raise UnprovenError("nothing is proven of units whose rows are read by their holes")
        return (_of_group(of_row, self.bound),)


def _of_group(event: Event, rows: int) -> Event:
    """Return what a mechanism costs so many rows together, rounded up."""
    if rows == 1:
        return event
    facts: dict[str, Any]
    if type(event) is PureEvent:
        facts = {"epsilon": float_up(exact(event.epsilon) * rows)}
    elif type(event) is ZCDPEvent:
        facts = {"rho": float_up(exact(event.rho) * rows**2)}
    elif isinstance(event, GaussianEvent) and not event.discrete:
        facts = {"sensitivity": float_up(exact(event.sensitivity) * rows)}
    else:
        raise _unproven()
    return replace(event, **facts)


def _unproven() -> UnprovenError:
    return UnprovenError(
        "what this costs is known at single Rényi orders, of which nothing is proven for units of "
        "several rows: use AllPairs, AIM or MST, or max_rows = 1"
    )


def unit_of(events: Iterable[Event]) -> tuple[str, int]:
    """Return the one unit that events protect, and the most rows that one reads of it."""
    found = {_unit_of(event) for event in events}
    if len({unit for unit, _ in found}) > 1:
        named = ", ".join(sorted({repr(unit) for unit, _ in found}))
        raise UnprovenError(
            f"releases that protect different units ({named}) cannot be added up: declare the same "
            "unit in every schema of the table, and give each unit a budget of its own"
        )
    return max(found, default=(ROW, 1))


def counted_as_one(events: Iterable[Event]) -> bool:
    """Tell whether all events for units let the rows of one count as one together."""
    held = [e for e in events for e in (e, *getattr(e, "log", ())) if isinstance(e, UnitEvent)]
    return bool(held) and all(event.counts == "unit" for event in held)


def _unit_of(event: Event) -> tuple[str, int]:
    if isinstance(event, UnitEvent):
        return event.unit, event.rows
    if isinstance(event, FilterEvent):  # around releases that protect units: a fact about these
        return unit_of(event.log)[0], 1
    return unit_of(getattr(event, "events", ()))
