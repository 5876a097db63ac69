"""Translation into the event trees of Google's `dp_accounting`, where it has an equivalent."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from missdp.accounting.curves import integer_shift, zcdp_rho_of
from missdp.accounting.events import (
    ComposedEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.accounting.filters import FilterEvent
from missdp.errors import UnprovenError

__all__ = ["to_dp_event"]


@singledispatch
def to_dp_event(event: Event) -> Any:
    """Return a `dp_accounting.DpEvent` whose privacy loss is at least that of ``event``.

    Parameters
    ----------
    event : Event
        Continuous noise maps to the continuous events; discrete Laplace noise and pure DP to
        ``DiscreteLaplaceDpEvent`` (randomised response is its case of sensitivity 1); the
        discrete Gaussian, sampled or not, and selections to ``ZCDpEvent``.

    Returns
    -------
    dp_accounting.DpEvent

    Raises
    ------
    UnprovenError
        For kinds of events that `dp_accounting` cannot express.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, to_dp_event
    >>> to_dp_event(GaussianEvent(sensitivity=1, sigma=2.0, discrete=False))
    GaussianDpEvent(noise_multiplier=2.0)
    """
    raise UnprovenError(f"dp_accounting has no event for a {type(event).__name__}")


@to_dp_event.register
def _(event: PureEvent) -> Any:
    from dp_accounting.dp_event import DiscreteLaplaceDpEvent, NoOpDpEvent

    return DiscreteLaplaceDpEvent(event.epsilon, 1) if event.epsilon else NoOpDpEvent()


@to_dp_event.register(SelectionEvent)
@to_dp_event.register(ZCDPEvent)
def _(event: SelectionEvent | ZCDPEvent) -> Any:
    from dp_accounting.dp_event import ZCDpEvent

    return ZCDpEvent(zcdp_rho_of(event))


@to_dp_event.register
def _(event: LaplaceEvent) -> Any:
    from dp_accounting.dp_event import DiscreteLaplaceDpEvent, LaplaceDpEvent

    if event.discrete:
        return DiscreteLaplaceDpEvent(1 / event.scale, integer_shift(event.sensitivity))
    return LaplaceDpEvent(event.scale / event.sensitivity)


@to_dp_event.register
def _(event: GaussianEvent) -> Any:
    from dp_accounting.dp_event import GaussianDpEvent, ZCDpEvent

    if event.discrete:
        return ZCDpEvent(zcdp_rho_of(event))
    return GaussianDpEvent(event.sigma / event.sensitivity)


@to_dp_event.register
def _(event: SampledGaussianEvent) -> Any:
    from dp_accounting.dp_event import (
        GaussianDpEvent,
        PoissonSampledDpEvent,
        SelfComposedDpEvent,
        ZCDpEvent,
    )

    if event.discrete:
        return ZCDpEvent(zcdp_rho_of(event))
    step = PoissonSampledDpEvent(event.rate, GaussianDpEvent(event.noise_multiplier))
    return SelfComposedDpEvent(step, event.steps)


@to_dp_event.register
def _(event: FilterEvent) -> Any:
    return to_dp_event(event.capacity)


@to_dp_event.register
def _(event: ComposedEvent) -> Any:
    from dp_accounting.dp_event import ComposedDpEvent

    return ComposedDpEvent([to_dp_event(part) for part in event.flatten()])
