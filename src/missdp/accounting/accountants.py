"""Accountants: what events cost together in (epsilon, delta), and the noise for a target.

Each accountant is a valid upper bound; `epsilon_of` and `delta_of` return the best of those that
support every event. All hold for adaptively chosen queries whose privacy parameters were fixed in
advance; `Budget` covers the adaptive case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from missdp.accounting.costs import (
    RDP_ORDERS,
    approximate_delta,
    compose,
    composed_epsilon,
    gdp_cost,
    proven,
    pure_cost,
    rdp_curve,
    tabulated,
    zcdp_cost,
    zcdp_rho_of,
)
from missdp.accounting.events import (
    Adjacency,
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
    add_remove_share,
    boundary,
    delta_from_mu,
    delta_from_rdp,
    delta_from_rho,
    epsilon_from_mu,
    epsilon_from_rdp,
    epsilon_from_rho,
    exact,
    float_down,
    float_up,
    gdp_mu,
    integer_shift,
    mu_worth,
    scale_for,
    total,
    zcdp_rho,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.record import check_delta, check_nonnegative, check_positive, check_whole
from missdp.types import Floats

# Tables of orders that events bring along are added to the grid up to this many.
_MAX_ORDERS = 1_000
# More distinct kinds of events than this cost loss distributions seconds for little gain.
_MAX_DISTINCT = 400
# Beyond this total, a guarantee protects nobody, and its distribution would fill the memory.
_MAX_TOTAL = 100.0
_MOST_COUNT = 100_000  # events that are put together one by one


@dataclass(frozen=True, eq=False)
class Accountant:
    """One way of bounding the cost of events: of one event by ``cost``, which may refuse it.

    ``on_epsilon`` and ``on_delta`` return epsilon at a delta, and delta at an epsilon, of a
    sequence of events; with ``own_deltas`` these include the deltas of the events themselves, which
    are added up otherwise.

    >>> PURE.epsilon([PureEvent(epsilon=0.25)] * 4, 0.0)
    1.0
    """

    name: str
    cost: Callable[[Event], Any]
    on_epsilon: Callable[[Sequence[Event], float], float]
    on_delta: Callable[[Sequence[Event], float], float]
    own_deltas: bool = False

    def __call__(self) -> Accountant:
        """Return the accountant itself: until version 0.3 these were classes."""
        return self

    def supports(self, event: Event) -> bool:
        """Return whether a bound is proven for this (elementary) event."""
        return proven(self.cost, event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``; infinity if there is none."""
        left = exact(delta) - self._failure(events)
        return self.on_epsilon(events, float_down(left)) if left >= 0 else math.inf

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return min(1.0, self.on_delta(events, epsilon) + float_up(self._failure(events)))

    def _failure(self, events: Sequence[Event]) -> Fraction:
        return total(
            Fraction(0) if self.own_deltas else exact(approximate_delta(e)) for e in events
        )


def _sum(cost: Callable[[Event], Fraction], events: Iterable[Event]) -> Fraction:
    return total(times * cost(event) for event, times in Counter(events).items())


def _rho(events: Sequence[Event]) -> float:
    return float_up(_sum(zcdp_cost, events))


def _mu(events: Sequence[Event]) -> float:
    return gdp_mu(_sum(gdp_cost, events))


def _curve(events: Sequence[Event]) -> tuple[Floats, Floats]:
    """Return orders, those of tabulated events among them, and the summed Rényi divergences."""
    known = {order for e in events if isinstance(e, RDPEvent) for order in e.orders}
    orders = np.union1d(RDP_ORDERS, sorted(known)) if len(known) < _MAX_ORDERS else RDP_ORDERS
    curve = np.zeros_like(orders)
    for event, times in Counter(events).items():
        curve = curve + times * rdp_curve(event, orders)
    return orders, curve


PURE = Accountant(
    "basic composition",
    pure_cost,
    lambda events, delta: float_up(_sum(pure_cost, events)),  # noqa: ARG005
    lambda events, epsilon: 0.0 if _sum(pure_cost, events) <= exact(epsilon) else 1.0,
)
"""Basic composition: epsilons add up, and so do deltas (Dwork et al. 2006)."""
ZCDP = Accountant(
    "zCDP",
    zcdp_cost,
    lambda events, delta: epsilon_from_rho(_rho(events), delta),
    lambda events, epsilon: delta_from_rho(_rho(events), epsilon),
)
"""Zero-concentrated DP: rhos add up, converted at the best real order."""
RENYI = Accountant(
    "Rényi DP",
    rdp_curve,
    lambda events, delta: epsilon_from_rdp(*_curve(events), delta),
    lambda events, epsilon: delta_from_rdp(*_curve(events), epsilon),
)
"""Rényi DP: curves add up on a fixed grid of orders."""
GDP = Accountant(
    "Gaussian DP",
    gdp_cost,
    lambda events, delta: epsilon_from_mu(_mu(events), delta),
    lambda events, epsilon: delta_from_mu(_mu(events), epsilon),
)
"""Gaussian DP: squares of mu add up. Exact for continuous Gaussian noise, and nearly so for
discrete noise of a sigma well above 2, whatever the sensitivity."""
PLD = Accountant(
    "privacy loss distributions",
    tabulated,
    composed_epsilon,
    lambda events, epsilon: float(compose(events).get_delta_for_epsilon(epsilon)),
    own_deltas=True,
)
"""Numerical composition of privacy loss distributions. Discrete Gaussian events are supported for
sensitivities below 2 only, where the integer shift is known; zCDP and Rényi events are refused."""
FAST_ACCOUNTANTS: tuple[Accountant, ...] = (PURE, ZCDP, RENYI)
"""Accountants with closed forms: pure epsilon, zCDP and Rényi DP."""
DEFAULT_ACCOUNTANTS: tuple[Accountant, ...] = (*FAST_ACCOUNTANTS, GDP, PLD)
"""All accountants, of which the best that supports every event is believed; the slowest last."""


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
        Infinity if ``delta`` is below what the events themselves lose.

    Raises
    ------
    UnprovenError
        If no accountant supports every event, or the events mix adjacencies.

    Examples
    --------
    >>> epsilon_of([LaplaceEvent(sensitivity=1, scale=2.0)] * 2, 0.0)
    1.0
    """
    parts, delta = flatten(events), check_delta("delta", delta)
    if not parts:
        return 0.0
    best = math.inf
    for accountant in _able(parts, accountants):
        if delta == 0 and all(map(PURE.supports, parts)):
            return PURE.epsilon(parts, 0.0)
        if accountant is not PLD or not _MAX_TOTAL < best < math.inf:
            best = min(best, accountant.epsilon(parts, delta))
    return best


def delta_of(
    events: Event | Iterable[Event],
    epsilon: float,
    *,
    accountants: Sequence[Accountant] = DEFAULT_ACCOUNTANTS,
) -> float:
    """Return the smallest proven delta of the composition at ``epsilon``; see `epsilon_of`.

    >>> delta_of([PureEvent(epsilon=0.5)] * 2, 1.0)
    0.0
    """
    parts, epsilon = flatten(events), check_nonnegative("epsilon", epsilon)
    if not parts:
        return 0.0
    return min(1.0, *(able.delta(parts, epsilon) for able in _able(parts, accountants)))


def _able(parts: tuple[Event, ...], accountants: Sequence[Accountant]) -> Iterator[Accountant]:
    """Yield the accountants that support every event; refuse if there is none."""
    if not accountants:
        raise ParameterError("accountants must not be empty")
    if len({event.adjacency for event in parts}) > 1:
        raise UnprovenError("the events mix adjacencies; convert them with to_replace_one() first")
    kinds, found = set(parts), False
    for accountant in accountants:
        if all(map(accountant.supports, kinds)):
            slow = accountant is PLD and len(set(map(tabulated, kinds))) > _MAX_DISTINCT
            if not (found and slow):
                yield accountant
            found = True
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

    Add-remove facts are converted where needed, one by one if each has a proven conversion and as a
    whole (group privacy) otherwise.

    Raises
    ------
    UnprovenError
        If replace-one facts are asked for under add-remove (no bound follows), or no accountant
        supports the events.

    Examples
    --------
    >>> epsilon_under([LaplaceEvent(sensitivity=1, scale=2.0)], 0.0, "replace-one")
    1.0
    """
    parts = flatten(events)
    try:
        return epsilon_of(under(adjacency, parts), delta, accountants=accountants)
    except UnprovenError:
        if adjacency == "add-remove" or any(event.adjacency == adjacency for event in parts):
            raise

    def needed(epsilon: float) -> float:
        share = add_remove_share(epsilon, delta)
        return epsilon_of(parts, share, accountants=accountants)

    # Twice the smallest e with needed(e) <= e. It grows with e, so every iterate is a valid bound.
    high = next((2.0**k for k in range(10) if needed(2.0**k) <= 2.0**k), math.inf)
    for _ in range(30):
        high, before = min(high, needed(high)), high
        if not before - high > 1e-6 * before:
            break
    return 2 * high


def within(
    events: Event | Iterable[Event], epsilon: float, delta: float, adjacency: Adjacency
) -> bool:
    """Return whether `epsilon_under` is at most ``epsilon``; the slow accountants come last."""
    parts = flatten(events)
    known = (FAST_ACCOUNTANTS, DEFAULT_ACCOUNTANTS)
    return any(epsilon_under(parts, delta, adjacency, accountants=a) <= epsilon for a in known)


def to_dp_event(event: Event) -> Any:
    """Return a ``dp_accounting.DpEvent`` whose privacy loss is at least that of ``event``.

    Parameters
    ----------
    event : Event
        Continuous noise maps to the continuous events; discrete Laplace noise and pure DP to
        ``DiscreteLaplaceDpEvent`` (randomised response is its case of sensitivity 1); the
        discrete Gaussian, sampled or not, and selections to ``ZCDpEvent``; what is made of other
        events to the composition of these, a filter to its capacity.

    Raises
    ------
    UnprovenError
        For kinds of events that ``dp_accounting`` cannot express.

    Examples
    --------
    >>> to_dp_event(GaussianEvent(sensitivity=1, sigma=2.0, discrete=False))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    from dp_accounting import dp_event as dp

    match event:
        case SelectionEvent() | ZCDPEvent():
            return dp.ZCDpEvent(zcdp_rho_of(event))
        case GaussianEvent(discrete=True) | SampledGaussianEvent(discrete=True):
            return dp.ZCDpEvent(zcdp_rho_of(event))
        case PureEvent(epsilon=0):
            return dp.NoOpDpEvent()
        case PureEvent():
            return dp.DiscreteLaplaceDpEvent(event.epsilon, 1)
        case LaplaceEvent(discrete=True):
            return dp.DiscreteLaplaceDpEvent(1 / event.scale, integer_shift(event.sensitivity))
        case LaplaceEvent():
            return dp.LaplaceDpEvent(event.scale / event.sensitivity)
        case GaussianEvent():
            return dp.GaussianDpEvent(event.sigma / event.sensitivity)
        case SampledGaussianEvent():
            noise = dp.GaussianDpEvent(event.noise_multiplier)
            return dp.SelfComposedDpEvent(dp.PoissonSampledDpEvent(event.rate, noise), event.steps)
    parts = event.flatten()
    if parts == (event,):
        raise UnprovenError(f"dp_accounting has no event for a {type(event).__name__}")
    return dp.ComposedDpEvent([to_dp_event(part) for part in parts])


# Noise for a target


def laplace_scale(epsilon: float, *, sensitivity: float = 1.0, count: int = 1) -> float:
    """Return `scale_for` releases, discrete or continuous, that are epsilon-DP together.

    >>> laplace_scale(1.0, count=4)
    4.0
    """
    return scale_for(sensitivity, epsilon, count=count)


def gaussian_delta(epsilon: float, *, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the delta of the *continuous* Gaussian mechanism at ``epsilon``: exact, rounded up.

    By Balle & Wang 2018, Theorem 8.

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
    epsilon, delta : float
        Of all releases that one row can touch.
    sensitivity : float, default 1.0
        L2 sensitivity of each release, above 0 (at least 1 if discrete).
    count : int, default 1
        Number of releases that one row can touch.
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
    epsilon, delta, adjacency
        The target.
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
