"""Privacy loss distributions: the tightest numerical accountant, on Google's ``dp_accounting``.

Every distribution here is pessimistic (connect-the-dots rounding never understates the loss) and
belongs to a *dominating pair* of the mechanism, so it may be composed adaptively (Zhu, Dong &
Wang 2022, Theorem 10). Discrete noise is never treated by a continuous distribution. What the
library needs of ``dp_accounting`` is imported when it is first asked for.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from missdp.accounting.costs import zcdp_rho_of
from missdp.accounting.events import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.accounting.exact import integer_shift
from missdp.errors import UnprovenError

__all__ = ["PLDAccountant", "bare", "compose", "supports", "to_dp_event"]

_INTERVAL = 1e-4
# Discrete laws are tabulated over +- 12 sigma, or over the sensitivity: not worth it beyond this.
_MAX_TABLE = 20_000.0
_SCALES = ("sensitivity", "scale", "sigma", "rate", "noise_multiplier")
_SMALLEST = 1e-100  # whose square can still be computed
_MOST_STEPS = 10_000_000
# A loss of one event above this makes tables of millions of cells.
_MAX_LOSS = 40.0


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
        """Return whether a dominating pair of the event is known and affordable."""
        return supports(event)

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return float(compose(events).get_epsilon_for_delta(delta))

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return float(compose(events).get_delta_for_epsilon(epsilon))


def supports(event: Event) -> bool:
    """Return whether a dominating pair of the event is known and affordable to tabulate."""
    return _refusal(event) is None


def compose(events: Sequence[Event]) -> Any:
    """Return the ``dp_accounting`` privacy loss distribution of all events together.

    Raises
    ------
    UnprovenError
        Naming the first event that has none.
    """
    for event in events:
        if reason := _refusal(event):
            raise UnprovenError(f"PLD accounting refuses a {type(event).__name__}: {reason}")
    # Always in one order: the last digits depend on it, and a saved guarantee is checked again.
    return _composed(tuple(sorted(Counter(bare(event) for event in events).items(), key=repr)))


def bare(event: Event) -> Event:
    """Return the event without what does not change its loss: equal mechanisms are then equal."""
    return replace(event, label="", gate=None)


def _refusal(event: Event) -> str | None:
    """Return why the event cannot be tabulated; None if it can."""
    numbers = [vars(event).get(name, 1.0) for name in _SCALES]
    if not all(number == 0 or _SMALLEST <= number <= 1 / _SMALLEST for number in numbers):
        return "its numbers are too small or too large to tabulate"
    if type(event) is GaussianEvent:
        return _gaussian_refusal(event)
    if type(event) is LaplaceEvent:
        if event.discrete and event.sensitivity > _MAX_TABLE:
            return "its sensitivity is too large to tabulate"
        loss = event.sensitivity / event.scale
        return None if loss <= _MAX_LOSS else "its privacy loss is too large to tabulate"
    if isinstance(event, PureEvent | ApproximateEvent):
        return None if event.epsilon <= _MAX_LOSS else "its epsilon is too large to tabulate"
    if type(event) is SampledGaussianEvent:
        if event.discrete:
            return "discrete noise on a sample has no known dominating pair"
        if event.steps > _MOST_STEPS:
            return "its steps are too many to tabulate"
        return None if event.noise_multiplier >= 0.2 else "its noise is too small to tabulate"
    return f"no dominating pair is known for {type(event).__name__}"


def _gaussian_refusal(event: GaussianEvent) -> str | None:
    if event.sensitivity / event.sigma > 5:
        return "its noise is too small to tabulate"
    if event.discrete and event.sensitivity >= 2 - 1e-9:
        return "a discrete Gaussian of sensitivity 2 or more has no known dominating pair"
    if event.discrete and event.sigma > _MAX_TABLE:
        return "discrete noise this wide is too large to tabulate"
    return None


@lru_cache(maxsize=16)
def _composed(counts: tuple[tuple[Event, int], ...]) -> Any:
    """Compose once for all the deltas that are asked of the same events."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity(value_discretization_interval=_INTERVAL)
    for event, count in sorted(counts, key=repr):  # rounding depends on the order
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
    raise UnprovenError(f"no dominating pair is known for {type(event).__name__}")


def to_dp_event(event: Event) -> Any:
    """Return a ``dp_accounting.DpEvent`` whose privacy loss is at least that of ``event``.

    Parameters
    ----------
    event : Event
        Continuous noise maps to the continuous events; discrete Laplace noise and pure DP to
        ``DiscreteLaplaceDpEvent`` (randomised response is its case of sensitivity 1); the
        discrete Gaussian, sampled or not, and selections to ``ZCDpEvent``; what is made of other
        events to the composition of these, a filter to its capacity.

    Returns
    -------
    dp_accounting.DpEvent

    Raises
    ------
    UnprovenError
        For kinds of events that ``dp_accounting`` cannot express.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, to_dp_event
    >>> to_dp_event(GaussianEvent(sensitivity=1, sigma=2.0, discrete=False))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    from dp_accounting import dp_event as dp

    match event:
        case SelectionEvent() | ZCDPEvent():
            return dp.ZCDpEvent(zcdp_rho_of(event))
        case GaussianEvent(discrete=True) | SampledGaussianEvent(discrete=True):
            return dp.ZCDpEvent(zcdp_rho_of(event))
        case PureEvent():
            return (
                dp.DiscreteLaplaceDpEvent(event.epsilon, 1) if event.epsilon else dp.NoOpDpEvent()
            )
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
