"""Accountants: what a sequence of events costs in (epsilon, delta).

Four accountants, each a valid upper bound; `epsilon_of` and `delta_of` return the best of those
that support every event, and refuse, by name, what none supports. All hold for adaptively chosen
queries whose privacy parameters were fixed in advance; `Budget` covers the adaptive case.

Totals under a neighbouring relation: add-remove as it is, replace-one by proven conversions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from missdp.accounting import pld
from missdp.accounting.curves import failure_of, pure_cost, rdp_curve, zcdp_cost
from missdp.accounting.events import (
    Adjacency,
    Event,
    RDPEvent,
    check_adjacency,
    flatten,
    replace_one_refusal,
)
from missdp.accounting.exact import (
    FloatArray,
    add_remove_share,
    delta_from_rdp,
    delta_from_rho,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_down,
    float_up,
)
from missdp.accounting.exact import total as exact_total
from missdp.errors import ParameterError, UnprovenError
from missdp.record import check_delta, check_nonnegative

__all__ = [
    "DEFAULT_ACCOUNTANTS",
    "FAST_ACCOUNTANTS",
    "RDP_ORDERS",
    "Accountant",
    "PLDAccountant",
    "PureAccountant",
    "RDPAccountant",
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
    """What every accountant offers; ``name`` is printable."""

    name: str

    def supports(self, event: Event) -> bool:
        """Whether a bound is proven for this (elementary) event."""

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity if there is none."""

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""


def _dispatches(function: Callable[..., object], event: Event) -> bool:
    registered = function.dispatch(type(event))  # type: ignore[attr-defined]
    return bool(registered is not function.dispatch(object))  # type: ignore[attr-defined]


class PureAccountant:
    """Basic composition: epsilons add up, and so do deltas (Dwork et al. 2006).

    Examples
    --------
    >>> from missdp.accounting import PureAccountant, PureEvent
    >>> PureAccountant().epsilon([PureEvent(epsilon=0.25)] * 4, 0.0)
    1.0
    """

    name = "basic composition"

    def supports(self, event: Event) -> bool:
        """Whether the event has an epsilon of its own."""
        return _dispatches(pure_cost, event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return the sum of epsilons, infinite if the deltas of the events exceed ``delta``."""
        total = float_up(exact_total(pure_cost(event) for event in events))
        return total if failure_of(events) <= exact(delta) else math.inf

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return the sum of deltas if the sum of epsilons is at most ``epsilon``, else 1."""
        total = exact_total(pure_cost(event) for event in events)
        return float_up(failure_of(events)) if total <= exact(epsilon) else 1.0


class ZCDPAccountant:
    """Zero-concentrated DP: rhos add up, converted at the best real order.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, ZCDPAccountant
    >>> round(ZCDPAccountant().epsilon([GaussianEvent(sensitivity=1, sigma=5.0)], 1e-6), 4)
    0.8999
    """

    name = "zCDP"

    def supports(self, event: Event) -> bool:
        """Whether the event has a rho."""
        return _dispatches(zcdp_cost, event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return epsilon at ``delta`` less the deltas of the events."""
        rho = float_up(exact_total(zcdp_cost(event) for event in events))
        left = exact(delta) - failure_of(events)
        return epsilon_from_rho(rho, float_down(left)) if left >= 0 else math.inf

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return delta at ``epsilon`` plus the deltas of the events."""
        rho = float_up(exact_total(zcdp_cost(event) for event in events))
        return min(1.0, delta_from_rho(rho, epsilon) + float_up(failure_of(events)))


class RDPAccountant:
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

    def __init__(self, orders: FloatArray = RDP_ORDERS) -> None:
        self.orders = np.asarray(orders, dtype=np.float64)

    def supports(self, event: Event) -> bool:
        """Whether the event has a Rényi curve."""
        return _dispatches(rdp_curve, event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return epsilon at ``delta`` less the deltas of the events."""
        left = exact(delta) - failure_of(events)
        return epsilon_from_rdp(*self._curve(events), float_down(left)) if left >= 0 else math.inf

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return delta at ``epsilon`` plus the deltas of the events."""
        tail = delta_from_rdp(*self._curve(events), epsilon)
        return min(1.0, tail + float_up(failure_of(events)))

    def _curve(self, events: Sequence[Event]) -> tuple[FloatArray, FloatArray]:
        """Orders, those of tabulated events among them, and the summed curve."""
        known = {order for e in events if isinstance(e, RDPEvent) for order in e.orders}
        orders = np.union1d(self.orders, sorted(known)) if len(known) < _MAX_ORDERS else self.orders
        total = np.zeros_like(orders)
        for event in events:
            total = total + rdp_curve(event, orders)
        return orders, total


class PLDAccountant:
    """Numerical composition of privacy loss distributions, rounded pessimistically.

    Discrete Gaussian events are supported for sensitivities below 2 only, where the integer shift
    is known; zCDP and Rényi events have no privacy loss distribution and are refused.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, PLDAccountant
    >>> round(PLDAccountant().epsilon([GaussianEvent(sensitivity=1, sigma=5.0)], 1e-6), 3)
    0.835
    """

    name = "privacy loss distributions"

    def supports(self, event: Event) -> bool:
        """Whether a dominating pair of the event is known and affordable."""
        return pld.supports(event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return epsilon at ``delta``."""
        return float(pld.compose(events).get_epsilon_for_delta(delta))

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return delta at ``epsilon``."""
        return float(pld.compose(events).get_delta_for_epsilon(epsilon))


FAST_ACCOUNTANTS: tuple[Accountant, ...] = (PureAccountant(), ZCDPAccountant(), RDPAccountant())
DEFAULT_ACCOUNTANTS: tuple[Accountant, ...] = (*FAST_ACCOUNTANTS, PLDAccountant())


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
    parts, delta = _prepare(events), check_delta("delta", delta)
    if not parts:
        return 0.0
    able = _able(parts, accountants)
    if delta == 0 and all(PureAccountant().supports(event) for event in parts):
        return PureAccountant().epsilon(parts, 0.0)
    best = math.inf
    for accountant in able:
        hopeless = isinstance(accountant, PLDAccountant) and _MAX_TOTAL < best < math.inf
        best = best if hopeless else min(best, accountant.epsilon(parts, delta))
    return best


def delta_of(
    events: Event | Iterable[Event],
    epsilon: float,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven delta of the composition at ``epsilon``.

    Parameters
    ----------
    events : Event or iterable of Event
        What was done; all under one adjacency.
    epsilon : float
        At least 0.
    accountants : sequence of Accountant
        Which bounds to try.

    Returns
    -------
    float
        In [0, 1].

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
    parts, epsilon = _prepare(events), check_nonnegative("epsilon", epsilon)
    if not parts:
        return 0.0
    able = _able(parts, accountants)
    return min(1.0, min(accountant.delta(parts, epsilon) for accountant in able))


def _prepare(events: Event | Iterable[Event]) -> tuple[Event, ...]:
    parts = flatten(events)
    if len({event.adjacency for event in parts}) > 1:
        raise UnprovenError("the events mix adjacencies; convert them with to_replace_one() first")
    return parts


def _able(parts: tuple[Event, ...], accountants: Sequence[Accountant]) -> list[Accountant]:
    if not accountants:
        raise ParameterError("accountants must not be empty")
    kinds = set(parts)
    able = [a for a in accountants if all(a.supports(event) for event in kinds)]
    if len(able) > 1 and len({pld._bare(event) for event in kinds}) > _MAX_DISTINCT:
        able = [a for a in able if not isinstance(a, PLDAccountant)]
    if not able:
        blocked = {
            a.name: sorted({type(e).__name__ for e in kinds if not a.supports(e)})
            for a in accountants
        }
        reasons = "; ".join(f"{name} refuses {', '.join(kinds)}" for name, kinds in blocked.items())
        raise UnprovenError(f"no accountant supports this composition: {reasons}")
    return able


def epsilon_under(
    events: Event | Iterable[Event],
    delta: float,
    adjacency: Adjacency,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven epsilon at ``delta`` under ``adjacency``.

    Parameters
    ----------
    events : Event or iterable of Event
        Facts under add-remove or replace-one; the former are converted where needed, one by one
        if each has a proven conversion and as a whole (group privacy) otherwise.
    delta : float
        In [0, 1).
    adjacency : {"add-remove", "replace-one"}
        The relation the result holds for.
    accountants : sequence of Accountant
        Which bounds to try.

    Returns
    -------
    float
        Epsilon, at least 0, possibly infinite.

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
    parts = flatten(events)
    native = [event for event in parts if event.adjacency == "replace-one"]
    if check_adjacency(adjacency) == "add-remove":
        if native:
            raise replace_one_refusal(native[0])
        return epsilon_of(parts, delta, accountants=accountants)
    try:
        converted = [event.to_replace_one() for event in parts]
        return epsilon_of(converted, delta, accountants=accountants)
    except UnprovenError:
        if native:
            raise
    return _by_group_privacy(parts, delta, accountants)


def proves(
    events: Event | Iterable[Event],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> bool:
    """Return whether the events prove (epsilon, delta) under ``adjacency``.

    Parameters
    ----------
    events, delta, adjacency, accountants
        As for `epsilon_under`.
    epsilon : float
        The statement to check.

    Returns
    -------
    bool

    Examples
    --------
    >>> from missdp.accounting import LaplaceEvent
    >>> proves([LaplaceEvent(sensitivity=1, scale=2.0)], 0.4, 0.0, "add-remove")
    False
    """
    if epsilon_under(events, delta, adjacency, accountants=accountants) <= epsilon:
        return True
    parts = flatten(events)
    if adjacency == "add-remove" or any(event.adjacency == "replace-one" for event in parts):
        return False
    # Half of epsilon for each of two steps; see `replace_one_of`.
    share = add_remove_share(epsilon / 2, delta)
    return epsilon_of(parts, share, accountants=accountants) <= epsilon / 2


def _by_group_privacy(
    parts: tuple[Event, ...], delta: float, accountants: Sequence[Accountant]
) -> float:
    """Smallest 2 e with f(e) = epsilon_of(delta / (1 + exp(e))) <= e, from the safe side.

    f grows with e, so once f(e) <= e, also f(f(e)) <= f(e): every iterate is a valid bound.
    """

    def needed(epsilon: float) -> float:
        share = add_remove_share(epsilon, delta)
        return epsilon_of(parts, share, accountants=accountants)

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
