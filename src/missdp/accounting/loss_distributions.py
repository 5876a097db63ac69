"""Privacy loss distributions: nearly exact joint losses of events that were fixed in advance.

They are composed by Google's ``dp_accounting``, which is imported when it is first needed. A
composition needs them only where no simpler bound proves enough.

Every privacy loss distribution is pessimistic: connect-the-dots rounding never understates a loss.
It belongs to a *dominating pair* of the mechanism, so it may be composed adaptively (Zhu, Dong &
Wang 2022, Theorem 10). Discrete noise is accounted for by its exact distribution, except in the
training of networks. Their noise is drawn on a very fine grid. By the lemma of
`missdp.accounting.measures` it is continuous noise that is rounded at random
(`missdp.session.training`).
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

# Largest epsilon to compose. A larger epsilon protects nobody, and its table fills the memory.
MAX_TOTAL = 100.0
_INTERVAL = 1e-4  # width of a cell of a table, in units of the privacy loss
# Largest scale or sensitivity of discrete noise, which is tabulated over +- 12 sigma.
_MAX_TABLE = 20_000.0
_SCALES = ("sensitivity", "scale", "sigma", "rate", "noise_multiplier")
_SMALLEST = 1e-100  # smallest scale whose square can be computed
_MAX_STEPS = 10_000_000  # steps of a training
# Largest loss of an event. A larger loss makes tables of millions of cells.
_MAX_LOSS = 40.0


def compose(events: Iterable[Event]) -> Any:
    """Return the ``dp_accounting`` privacy loss distribution of all events together."""
    return _composed(_counted(events))


def composed_epsilon(events: Iterable[Event], delta: float) -> float:
    """Return the epsilon of all events together, by loss distributions."""
    return float(compose(events).get_epsilon_for_delta(delta))


def _counted(events: Iterable[Event]) -> tuple[tuple[Event, int], ...]:
    counts = Counter(map(tabulated_event, events))
    # The order is fixed: the last digits depend on it, and a saved guarantee is checked again.
    return tuple(sorted(counts.items(), key=repr))


def tabulated_event(event: Event) -> Event:
    """Return an event without its label and required attributes, which do not change its loss."""
    numbers = [vars(event).get(name, 1.0) for name in _SCALES]
    can = all(number == 0 or _SMALLEST <= number <= 1 / _SMALLEST for number in numbers)
    match event:
        case GaussianEvent(sensitivity=shift, sigma=sigma, discrete=discrete):
            # The integer shift of a discrete Gaussian is known for sensitivities below 2 only.
            can &= not discrete or (shift < 2 - 1e-9 and sigma <= _MAX_TABLE)
            can = can and shift / sigma <= 5
        case LaplaceEvent(sensitivity=shift, scale=scale, discrete=discrete):
            can = can and shift / scale <= _MAX_LOSS and not (discrete and shift > _MAX_TABLE)
        case PureEvent() | ApproximateEvent():
            can &= event.epsilon <= _MAX_LOSS
        case SampledGaussianEvent():
            can &= event.steps <= _MAX_STEPS and event.noise_multiplier >= 0.2
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
    """Compose events once for all deltas."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity(value_discretization_interval=_INTERVAL)
    for event, count in counts:
        single = _single(event)
        repeats = count * (event.steps if isinstance(event, SampledGaussianEvent) else 1)
        total = total.compose(single.self_compose(repeats) if repeats > 1 else single)
    return total


@lru_cache(maxsize=64)
def _single(event: Event) -> Any:
    """Return the loss distribution of an event, or of one of its steps if it has several."""
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
    """Return a rough value of epsilon, before loss distributions of this size are composed.

    Many steps on samples add up to about one Gaussian mechanism (Bu, Dong, Long & Su 2020). The
    result is not a bound, and no guarantee states it.

    Parameters
    ----------
    parts : tuple of Event
        All events that are composed.
    best : float
        The smallest proven epsilon so far. The result is not larger.
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
        unsampled = event.noise_multiplier**-2
        amplified = event.rate**2 * math.expm1(min(unsampled, 700.0))
        rho += event.steps * min(unsampled, amplified) / 2
    return min(best, epsilon_from_rho(rho, delta))
