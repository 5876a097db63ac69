"""Accountants: what a sequence of events costs in (epsilon, delta).

Five accountants, each a valid upper bound; `epsilon_of` and `delta_of` return the best of those
that support every event. All hold for adaptively chosen queries whose privacy parameters were fixed
in advance; `Budget` covers the adaptive case.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from missdp.accounting.costs import (
    approximate_delta,
    failure_of,
    proven,
    pure_cost,
    rdp_curve,
    zcdp_cost,
)
from missdp.accounting.events import Adjacency, Event, RDPEvent, flatten, under
from missdp.accounting.exact import (
    FloatArray,
    add_remove_share,
    ceiling,
    delta_from_rdp,
    delta_from_rho,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_down,
    float_up,
    total,
)
from missdp.accounting.gdp import GDPAccountant
from missdp.accounting.pld import PLDAccountant, bare
from missdp.errors import ParameterError, UnprovenError
from missdp.record import check_delta, check_nonnegative

__all__ = [
    "DEFAULT_ACCOUNTANTS",
    "FAST_ACCOUNTANTS",
    "RDP_ORDERS",
    "Accountant",
    "PureAccountant",
    "RDPAccountant",
    "Totals",
    "ZCDPAccountant",
    "delta_of",
    "epsilon_of",
    "epsilon_under",
    "proves",
]

RDP_ORDERS: FloatArray = np.unique(
    np.concatenate(
        [
            np.arange(1.05, 11.0, 0.1).round(2),
            np.arange(11.0, 64.0),
            np.geomspace(64, 1e6, 60).round(),
        ]
    )
)
# Tables of orders that events bring along are added to the grid up to this many.
_MAX_ORDERS = 1_000
# More distinct kinds of events than this cost the PLD accountant seconds for little gain.
_MAX_DISTINCT = 400
# Beyond this total, a guarantee protects nobody, and its distribution would fill the memory.
_MAX_TOTAL = 100.0


class Accountant(Protocol):
    """Protocol of accountants: the cost of events in (epsilon, delta); ``name`` is printable."""

    name: str

    def supports(self, event: Event) -> bool:
        """Return whether a bound is proven for this (elementary) event."""

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity if there is none."""

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""


class _Additive(ABC):
    """An accountant that adds up one cost of the events, beside their deltas."""

    _cost: Any

    def supports(self, event: Event) -> bool:
        return proven(self._cost, event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        left = exact(delta) - failure_of(events)
        return self._epsilon(events, float_down(left)) if left >= 0 else math.inf

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        return min(1.0, self._delta(events, epsilon) + float_up(failure_of(events)))

    @abstractmethod
    def _epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return epsilon at what the deltas of the events leave of delta."""

    @abstractmethod
    def _delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return delta at ``epsilon`` but for the deltas of the events."""


class PureAccountant(_Additive):
    """Basic composition: epsilons add up, and so do deltas (Dwork et al. 2006).

    Examples
    --------
    >>> from missdp.accounting import PureAccountant, PureEvent
    >>> PureAccountant().epsilon([PureEvent(epsilon=0.25)] * 4, 0.0)
    1.0
    """

    name = "basic composition"
    _cost = staticmethod(pure_cost)

    def _epsilon(self, events: Sequence[Event], delta: float) -> float:  # noqa: ARG002
        return float_up(total(map(pure_cost, events)))

    def _delta(self, events: Sequence[Event], epsilon: float) -> float:
        return 0.0 if total(map(pure_cost, events)) <= exact(epsilon) else 1.0


class ZCDPAccountant(_Additive):
    """Zero-concentrated DP: rhos add up, converted at the best real order.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, ZCDPAccountant
    >>> round(ZCDPAccountant().epsilon([GaussianEvent(sensitivity=1, sigma=5.0)], 1e-6), 4)
    0.8999
    """

    name = "zCDP"
    _cost = staticmethod(zcdp_cost)

    def _epsilon(self, events: Sequence[Event], delta: float) -> float:
        return epsilon_from_rho(float_up(total(map(zcdp_cost, events))), delta)

    def _delta(self, events: Sequence[Event], epsilon: float) -> float:
        return delta_from_rho(float_up(total(map(zcdp_cost, events))), epsilon)


class RDPAccountant(_Additive):
    """Rényi DP: curves add up on a fixed grid of orders.

    Parameters
    ----------
    orders : array of float, optional
        Rényi orders, each above 1.

    Examples
    --------
    >>> from missdp.accounting import RDPAccountant, SampledGaussianEvent
    >>> event = SampledGaussianEvent(rate=0.01, noise_multiplier=1.0, steps=1000)
    >>> round(RDPAccountant().epsilon([event], 1e-5), 1)
    2.1
    """

    name = "Rényi DP"
    _cost = staticmethod(rdp_curve)

    def __init__(self, orders: FloatArray = RDP_ORDERS) -> None:
        self.orders = np.asarray(orders, dtype=np.float64)

    def _epsilon(self, events: Sequence[Event], delta: float) -> float:
        return epsilon_from_rdp(*self._curve(events), delta)

    def _delta(self, events: Sequence[Event], epsilon: float) -> float:
        return delta_from_rdp(*self._curve(events), epsilon)

    def _curve(self, events: Sequence[Event]) -> tuple[FloatArray, FloatArray]:
        """Orders, those of tabulated events among them, and the summed curve."""
        known = {order for e in events if isinstance(e, RDPEvent) for order in e.orders}
        orders = np.union1d(self.orders, sorted(known)) if len(known) < _MAX_ORDERS else self.orders
        curve = np.zeros_like(orders)
        for event in events:
            curve = curve + rdp_curve(event, orders)
        return orders, curve


FAST_ACCOUNTANTS: tuple[Accountant, ...] = (PureAccountant(), ZCDPAccountant(), RDPAccountant())
"""Accountants with closed forms: pure epsilon, zCDP and Rényi DP."""
DEFAULT_ACCOUNTANTS: tuple[Accountant, ...] = (*FAST_ACCOUNTANTS, GDPAccountant(), PLDAccountant())
"""All accountants, of which the best that supports every event is believed."""


def epsilon_of(
    events: Event | Iterable[Event],
    delta: float,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven epsilon of the composition at ``delta``.

    Parameters
    ----------
    events : Event or iterable of Event
        What was done; all under one adjacency.
    delta : float
        In [0, 1). At 0 only pure DP counts.
    accountants : sequence of Accountant
        Which bounds to try.

    Returns
    -------
    float
        Epsilon, at least 0; infinity if ``delta`` is below what the events themselves lose.

    Raises
    ------
    UnprovenError
        If no accountant supports every event, or the events mix adjacencies.

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent, epsilon_of
    >>> epsilon_of([LaplaceEvent(sensitivity=1, scale=2.0)] * 2, 0.0)
    1.0
    """
    return _epsilon(flatten(events), delta, accountants)


def _epsilon(
    parts: tuple[Event, ...],
    delta: float,
    accountants: Sequence[Accountant],
    enough: float = -math.inf,
) -> float:
    """Return the smallest epsilon of elementary events, or the first up to ``enough``."""
    delta = check_delta("delta", delta)
    best = math.inf if parts else 0.0
    for accountant in _able(parts, accountants) if parts else ():
        if delta == 0 and all(proven(pure_cost, event) for event in parts):
            return PureAccountant().epsilon(parts, 0.0)
        hopeless = isinstance(accountant, PLDAccountant) and _MAX_TOTAL < best < math.inf
        best = best if hopeless else min(best, accountant.epsilon(parts, delta))
        if best <= enough:
            break
    return best


def delta_of(
    events: Event | Iterable[Event],
    epsilon: float,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven delta of the composition at ``epsilon``, in [0, 1].

    Parameters
    ----------
    events, accountants
        As for `epsilon_of`.
    epsilon : float
        At least 0.

    Raises
    ------
    UnprovenError
        If no accountant supports every event, or the events mix adjacencies.

    Examples
    --------
    >>> from missdp.accounting import PureEvent, delta_of
    >>> delta_of([PureEvent(epsilon=0.5)] * 2, 1.0)
    0.0
    """
    parts, epsilon = flatten(events), check_nonnegative("epsilon", epsilon)
    if not parts:
        return 0.0
    return min(1.0, *(able.delta(parts, epsilon) for able in _able(parts, accountants)))


def _able(parts: tuple[Event, ...], accountants: Sequence[Accountant]) -> Iterator[Accountant]:
    """Yield the accountants that support every event, the slowest last; refuse if there is none."""
    if not accountants:
        raise ParameterError("accountants must not be empty")
    if len({event.adjacency for event in parts}) > 1:
        raise UnprovenError("the events mix adjacencies; convert them with to_replace_one() first")
    kinds, found = set(parts), False
    for accountant in sorted(accountants, key=lambda a: isinstance(a, PLDAccountant)):
        slow = found and isinstance(accountant, PLDAccountant)
        if slow and len(set(map(bare, kinds))) > _MAX_DISTINCT:
            continue
        if all(accountant.supports(event) for event in kinds):
            found = True
            yield accountant
    if not found:
        blocked = {
            a.name: sorted({type(e).__name__ for e in kinds if not a.supports(e)})
            for a in accountants
        }
        reasons = "; ".join(f"{name} refuses {', '.join(kinds)}" for name, kinds in blocked.items())
        raise UnprovenError(f"no accountant supports this composition: {reasons}")


def epsilon_under(
    events: Event | Iterable[Event],
    delta: float,
    adjacency: Adjacency,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven epsilon at ``delta`` under ``adjacency``, possibly infinite.

    Parameters
    ----------
    events : Event or iterable of Event
        Facts under add-remove or replace-one; the former are converted where needed, one by one
        if each has a proven conversion and as a whole (group privacy) otherwise.
    delta, accountants
        As for `epsilon_of`.
    adjacency : {"add-remove", "replace-one"}
        The relation the result holds for.

    Raises
    ------
    UnprovenError
        If replace-one facts are asked for under add-remove (no bound follows), or no accountant
        supports the events.

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent
    >>> epsilon_under([LaplaceEvent(sensitivity=1, scale=2.0)], 0.0, "replace-one")
    1.0
    """
    return _epsilon_under(flatten(events), delta, adjacency, accountants)


def _epsilon_under(
    parts: tuple[Event, ...],
    delta: float,
    adjacency: Adjacency,
    accountants: Sequence[Accountant],
    enough: float = -math.inf,
) -> float:
    try:
        return _epsilon(under(adjacency, parts), delta, accountants, enough)
    except UnprovenError:
        if adjacency == "add-remove" or any(event.adjacency == adjacency for event in parts):
            raise
    return _by_group_privacy(parts, delta, accountants)


def proves(
    events: Event | Iterable[Event], epsilon: float, delta: float, adjacency: Adjacency
) -> bool:
    """Return whether the events prove (epsilon, delta) under ``adjacency``; see `epsilon_under`."""
    parts, known = flatten(events), DEFAULT_ACCOUNTANTS
    if _epsilon_under(parts, delta, adjacency, known, enough=epsilon) <= epsilon:
        return True
    if adjacency == "add-remove" or any(event.adjacency == "replace-one" for event in parts):
        return False
    # Half of epsilon for each of two steps; see `replace_one_of`.
    share = add_remove_share(epsilon / 2, delta)
    return _epsilon(parts, share, known, enough=epsilon / 2) <= epsilon / 2


def _by_group_privacy(
    parts: tuple[Event, ...], delta: float, accountants: Sequence[Accountant]
) -> float:
    """Smallest 2 e with f(e) = epsilon_of(delta / (1 + exp(e))) <= e, from the safe side.

    f grows with e, so once f(e) <= e, also f(f(e)) <= f(e): every iterate is a valid bound.
    """

    def needed(epsilon: float) -> float:
        return _epsilon(parts, add_remove_share(epsilon, delta), accountants)

    high = 1.0
    while (found := needed(high)) > high:
        high *= 2
        if high > 512:
            return math.inf
    for _ in range(30):
        high, before = found, high
        if before - high <= 1e-6 * before:
            break
        found = needed(high)
    return 2 * high


@dataclass(frozen=True)
class Totals:
    """Sums over the events so far; None or infinite where an event has no bound of that kind.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> Totals(orders=np.array([2.0])).plus([PureEvent(epsilon=0.5)]).pure
    Fraction(1, 2)
    """

    orders: FloatArray
    pure: Fraction | None = Fraction(0)
    rho: Fraction | None = Fraction(0)
    failure: Fraction = Fraction(0)
    curve: FloatArray = field(default_factory=lambda: np.zeros(1))

    def plus(self, events: Iterable[Event]) -> Totals:
        """Return the totals with these (elementary) events added."""
        pure, rho, failure, curve = self.pure, self.rho, self.failure, self.curve
        for event, times in Counter(events).items():
            pure = _sum(pure, pure_cost, event, times)
            rho = _sum(rho, zcdp_cost, event, times)
            known = proven(rdp_curve, event)
            curve = curve + (times * rdp_curve(event, self.orders) if known else math.inf)
            failure = ceiling(failure + times * exact(approximate_delta(event)))
        return Totals(self.orders, pure, rho, failure, curve)

    @property
    def pure_epsilon(self) -> float:
        """The sum of pure epsilons, never below it; infinite if there is none."""
        return math.inf if self.pure is None else float_up(self.pure)

    def epsilon(self, delta: float) -> float:
        """Return the best epsilon the totals prove at ``delta``; infinity if none."""
        rest = exact(delta) - self.failure
        if rest < 0:
            return math.inf
        best, left = self.pure_epsilon, float_down(rest)
        if left > 0:
            if self.rho is not None:
                best = min(best, epsilon_from_rho(float_up(self.rho), left))
            best = min(best, epsilon_from_rdp(self.orders, self.curve, left))
        return best


def _sum(so_far: Fraction | None, cost: Any, event: Event, times: int) -> Fraction | None:
    if so_far is None or not proven(cost, event):
        return None
    return ceiling(so_far + times * cost(event))
