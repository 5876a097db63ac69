"""Privacy loss distributions: what events that were fixed in advance lose together, nearly exactly.

They are composed by Google's ``dp_accounting``, which is imported when it is first needed. A
composition needs them only where no simpler bound proves enough.

Every privacy loss distribution is pessimistic (connect-the-dots rounding never understates the
loss) and belongs to a *dominating pair* of the mechanism, so it may be composed adaptively (Zhu,
Dong & Wang 2022, Theorem 10). Discrete noise is treated by its own distribution. The one exception
is the training of networks, on a grid so fine that the lemma of `missdp.accounting.measures` makes
it continuous noise that is rounded at random (`missdp.session.training`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from missdp.accounting.events import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
)
from missdp.accounting.exact import epsilon_from_rho, float_up, integer_shift
from missdp.accounting.measures import MEASURES
from missdp.errors import UnprovenError

# Beyond this total, a guarantee protects nobody, and its distribution would fill the memory.
MAX_TOTAL = 100.0
_INTERVAL = 1e-4
# Discrete laws are tabulated over +- 12 sigma, or over the sensitivity: not worth it beyond this.
_MAX_TABLE = 20_000.0
_SCALES = ("sensitivity", "scale", "sigma", "rate", "noise_multiplier")
_SMALLEST = 1e-100  # whose square can still be computed
_MOST_STEPS = 10_000_000
# A loss of one event above this makes tables of millions of cells.
_MAX_LOSS = 40.0


def compose(events: Iterable[Event]) -> Any:
    """Return the ``dp_accounting`` privacy loss distribution of all events together."""
    return _composed(_counted(events))


def composed_epsilon(events: Iterable[Event], delta: float) -> float:
    """Return the epsilon of all events together, by loss distributions."""
    return float(compose(events).get_epsilon_for_delta(delta))


def _counted(events: Iterable[Event]) -> tuple[tuple[Event, int], ...]:
    counts = Counter(map(tabulated_event, events))
    # Always in one order: the last digits depend on it, and a saved guarantee is checked again.
    return tuple(sorted(counts.items(), key=repr))


def tabulated_event(event: Event) -> Event:
    """Return an event without what does not change its loss: equal mechanisms are then equal."""
    numbers = [vars(event).get(name, 1.0) for name in _SCALES]
    can = all(number == 0 or _SMALLEST <= number <= 1 / _SMALLEST for number in numbers)
    match event:
        case GaussianEvent(sensitivity=shift, sigma=sigma, discrete=discrete):
            # Of a discrete Gaussian the integer shift is known for sensitivities below 2 only.
            can &= not discrete or (shift < 2 - 1e-9 and sigma <= _MAX_TABLE)
            can = can and shift / sigma <= 5
        case LaplaceEvent(sensitivity=shift, scale=scale, discrete=discrete):
            can = can and shift / scale <= _MAX_LOSS and not (discrete and shift > _MAX_TABLE)
        case PureEvent() | ApproximateEvent():
            can &= event.epsilon <= _MAX_LOSS
        case SampledGaussianEvent():
            can &= event.steps <= _MOST_STEPS and event.noise_multiplier >= 0.2
        case _:
            can = False
    if not can:
        raise UnprovenError(
            f"PLD accounting refuses a {type(event).__name__}: no dominating pair is known, or it "
            "is too large to tabulate"
        )
    return replace(event, label="", required=None)


@lru_cache(maxsize=16)
def _composed(counts: tuple[tuple[Event, int], ...]) -> Any:
    """Compose once for all the deltas that are asked of the same events."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity(value_discretization_interval=_INTERVAL)
    for event, count in counts:
        single = _single(event)
        repeats = count * (event.steps if isinstance(event, SampledGaussianEvent) else 1)
        total = total.compose(single.self_compose(repeats) if repeats > 1 else single)
    return total


@lru_cache(maxsize=64)
def _single(event: Event) -> Any:
    """Return the loss distribution of an event that is not refused; of one step, if it has more."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    grid = {"value_discretization_interval": _INTERVAL}
    dots = {**grid, "use_connect_dots": True}
    match event:
        case PureEvent(epsilon=0) | SampledGaussianEvent(rate=0):
            return pld.identity(**grid)
        case PureEvent():  # randomised response: discrete Laplace noise at sensitivity 1
            return pld.from_discrete_laplace_mechanism(event.epsilon, sensitivity=1, **dots)
        case ApproximateEvent():  # the worst pure pair, revealed outright with probability delta
            outright = common.DifferentialPrivacyParameters(0.0, event.delta)
            pure = _single(PureEvent(epsilon=event.epsilon))
            return pld.from_privacy_parameters(outright, **grid).compose(pure)
        case LaplaceEvent(discrete=True):  # one coordinate moved by the whole L1 sensitivity
            shift = integer_shift(event.sensitivity)
            return pld.from_discrete_laplace_mechanism(1 / event.scale, sensitivity=shift, **dots)
        case LaplaceEvent(sensitivity=shift):
            return pld.from_laplace_mechanism(event.scale, sensitivity=shift, **dots)
        case GaussianEvent(discrete=True):
            # Integer shifts of L2 norm below 2 are at most floor(s^2) coordinates moved by one.
            unit = pld.from_discrete_gaussian_mechanism(event.sigma, sensitivity=1, **dots)
            coordinates = integer_shift(event.sensitivity**2)
            return unit.self_compose(coordinates) if coordinates > 1 else unit
        case GaussianEvent(sensitivity=shift):
            return pld.from_gaussian_mechanism(event.sigma, sensitivity=shift, **dots)
        case SampledGaussianEvent(rate=rate, noise_multiplier=sigma):
            return pld.from_gaussian_mechanism(sigma, sampling_prob=rate, **dots)
    raise UnprovenError(f"no loss distribution is known for {type(event).__name__}")


def rough_epsilon(parts: tuple[Event, ...], best: float, delta: float) -> float:
    """Return about how large an epsilon is, before loss distributions of that size are composed.

    Many steps on samples add up to about one Gaussian mechanism (Bu, Dong, Long & Su 2020). This
    is no bound, and none is stated from it.

    Parameters
    ----------
    parts : tuple of Event
        All events that are composed.
    best : float
        The smallest proven epsilon so far; no larger value is returned.
    delta : float
        In (0, 1).

    Returns
    -------
    float
        At least 0.
    """
    sampled = [event for event in parts if isinstance(event, SampledGaussianEvent)]
    if not sampled:
        return best
    rho = float_up(MEASURES["zcdp"].total(e for e in parts if e not in sampled))
    for event in sampled:
        whole = event.noise_multiplier**-2
        amplified = event.rate**2 * math.expm1(min(whole, 700.0))
        rho += event.steps * min(whole, amplified) / 2
    return min(best, epsilon_from_rho(rho, delta))
