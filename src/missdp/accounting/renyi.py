"""Rényi curves of pure mechanisms and of tables of orders.

Divergences add up order by order. A composition needs them only where no measure that adds up
(`missdp.accounting.measures`) proves enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

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
from missdp.accounting.exact import overhead
from missdp.accounting.measures import pure_epsilon, unproven_error, zcdp_rho_of
from missdp.types import Floats

RDP_ORDERS: Floats = np.unique(
    np.concatenate(
        [
            np.arange(1.05, 11.0, 0.1).round(2),
            np.arange(11.0, 64.0),
            np.geomspace(64, 1e6, 60).round(),
        ]
    )
)
# Largest number of orders from tables of events that are added to the grid.
_MAX_ORDERS = 1_000
# Above the error of a few floating-point operations on numbers of size 1.
_ROUNDING = 1e-15


def renyi_curve(events: Sequence[Event]) -> tuple[Floats, Floats]:
    """Return orders, including the orders of tables, and the summed Rényi divergences."""
    extra = {order for e in events if isinstance(e, RDPEvent) for order in e.orders}
    orders = np.union1d(RDP_ORDERS, sorted(extra)) if len(extra) < _MAX_ORDERS else RDP_ORDERS
    curve = np.zeros_like(orders)
    for event, times in Counter(events).items():
        curve = curve + times * rdp_curve(event, orders)
    return orders, curve


def rdp_curve(event: Event, orders: Floats = RDP_ORDERS[:1]) -> Floats:
    """Return an upper bound on the Rényi divergence at each order, infinite if none is known.

    The bound of Laplace noise is the bound of any mechanism with the same pure epsilon. The bound
    of sampled noise is linear and gains nothing from sampling. Privacy loss distributions are
    better for both.
    """
    match event:
        case SelectionEvent():
            bounded_range = orders * zcdp_rho_of(event)
            return np.minimum(bounded_range, _randomized_response(event.epsilon, orders))
        case PureEvent() | ApproximateEvent() | LaplaceEvent():
            return _randomized_response(pure_epsilon(event), orders)
        case GaussianEvent() | SampledGaussianEvent() | ZCDPEvent():
            return orders * zcdp_rho_of(event)
        case RDPEvent():
            return _chords(np.array(event.orders), np.array(event.epsilons), orders)
    raise unproven_error("Rényi DP", event)


def _chords(table: Floats, curve: Floats, orders: Floats) -> Floats:
    """Interpolate a table of upper bounds at other orders, with infinity beyond its end.

    (a - 1) D_a is convex in a and 0 at a = 1, so its chords bound it from above.
    """
    heights = np.concatenate([[0.0], (table - 1) * curve])
    chords = np.interp(orders, np.concatenate([[1.0], table]), heights, right=np.inf)
    return np.asarray(np.where(orders <= table[0], curve[0], chords / (orders - 1)))


def _randomized_response(epsilon: float, orders: Floats) -> Floats:
    """Return the Rényi divergence of the worst pure pair: a bit flipped with odds exp(-epsilon).

    (a - 1) D_a is computed in floating point. Its terms are of size a (1 + epsilon), and their
    cancellation leaves no correct digit of a small divergence. The bounds epsilon and
    a epsilon^2 / 2 hold then.
    """
    if math.isinf(epsilon):
        return np.full_like(orders, math.inf)
    log_p, log_q = -np.log1p(np.exp(-epsilon)), -epsilon - np.log1p(np.exp(-epsilon))
    with np.errstate(over="ignore"):  # an epsilon of 1e308 is infinite at large orders
        there = orders * log_p + (1 - orders) * log_q
        back = orders * log_q + (1 - orders) * log_p
        moment = np.logaddexp(there, back) + _ROUNDING * orders * (1 + epsilon)
        upper = np.minimum(epsilon, orders * (epsilon * epsilon / 2) * (1 + _ROUNDING))
        return np.asarray(np.clip(moment / (orders - 1), 0.0, upper))


def smallest_bound(bounds: Floats) -> float:
    """Return the smallest bound, ignoring orders at which it is too large to compute."""
    return float(np.min(np.where(np.isnan(bounds), math.inf, bounds)))


def epsilon_from_rdp(orders: Floats, curve: Floats, delta: float) -> float:
    """Return the smallest epsilon over the orders, or infinity if ``delta`` is 0.

    Parameters
    ----------
    orders : array of float, shape (n_orders,)
        Renyi orders, all larger than 1.
    curve : array of float, shape (n_orders,)
        The Renyi divergence at each order, at least 0.
    delta : float
        In [0, 1).

    Returns
    -------
    float
        Rounded up.
    """
    if delta <= 0:
        return 0.0 if np.all(curve == 0) else math.inf
    return max(0.0, smallest_bound(curve + overhead(orders, delta))) * (1 + _ROUNDING)
