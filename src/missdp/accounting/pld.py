"""Privacy loss distributions: the tightest numerical accountant, built on `dp_accounting`.

Every distribution here is pessimistic (connect-the-dots rounding never understates the loss) and
belongs to a *dominating pair* of the mechanism, so it may be composed adaptively (Zhu, Dong &
Wang 2022, Theorem 10). Discrete noise is never treated by a continuous distribution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, singledispatch
from typing import Any

from missdp.accounting.costs import FilterEvent, zcdp_rho_of
from missdp.accounting.events import (
    ApproximateEvent,
    ComposedEvent,
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

__all__ = ["compose", "supports", "to_dp_event"]


_INTERVAL = 1e-4


# Discrete laws are tabulated over +- 12 sigma, or over the sensitivity: not worth it beyond this.
_MAX_TABLE = 20_000.0


# A loss of one event above this makes tables of millions of cells.
_MAX_LOSS = 40.0


def supports(event: Event) -> bool:
    """Whether a dominating pair of the event is known and affordable to tabulate."""
    return _reason(event) is None


def _reason(event: Event) -> str | None:
    """Say why the event cannot be tabulated; None if it can."""
    if type(event) is GaussianEvent:
        return _gaussian_reason(event)
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
        return None if event.noise_multiplier >= 0.2 else "its noise is too small to tabulate"
    return f"no dominating pair is known for {type(event).__name__}"


def _gaussian_reason(event: GaussianEvent) -> str | None:
    if event.sensitivity / event.sigma > 5:
        return "its noise is too small to tabulate"
    if not event.discrete:
        return None
    if event.sensitivity >= 2 - 1e-9:
        return "a discrete Gaussian of sensitivity 2 or more has no known dominating pair"
    return (
        None if event.sigma <= _MAX_TABLE else "discrete noise this wide is too large to tabulate"
    )


def compose(events: Sequence[Event]) -> Any:
    """Return the `dp_accounting` privacy loss distribution of all events together.

    Raises
    ------
    UnprovenError
        Naming the first event that has none.
    """
    for event in events:
        reason = _reason(event)
        if reason is not None:
            raise UnprovenError(f"PLD accounting refuses a {type(event).__name__}: {reason}")
    return _composed(frozenset(Counter(bare(event) for event in events).items()))


@lru_cache(maxsize=16)
def _composed(counts: frozenset[tuple[Event, int]]) -> Any:
    """Compose once for all the deltas that are asked of the same events."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity(value_discretization_interval=_INTERVAL)
    for event, count in counts:
        single = _single(event)
        repeats = count * (event.steps if isinstance(event, SampledGaussianEvent) else 1)
        total = total.compose(single.self_compose(repeats) if repeats > 1 else single)
    return total


def bare(event: Event) -> Event:
    """Drop what does not change the loss, so that equal mechanisms are composed in one step."""
    return replace(event, label="", gate=None)


@lru_cache(maxsize=64)
def _single(event: Event) -> Any:
    return _distribution(event)


@singledispatch
def _distribution(event: Event) -> Any:
    raise UnprovenError(f"no dominating pair is known for {type(event).__name__}")


@_distribution.register
def _(event: PureEvent) -> Any:
    return _pure(event.epsilon)


@_distribution.register
def _(event: ApproximateEvent) -> Any:
    # The worst (epsilon, delta) pair is the worst epsilon pair, revealed outright w.p. delta.
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    outright = pld.from_privacy_parameters(
        common.DifferentialPrivacyParameters(0.0, event.delta),
        value_discretization_interval=_INTERVAL,
    )
    return outright.compose(_pure(event.epsilon))


@_distribution.register
def _(event: LaplaceEvent) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    if event.discrete:
        # One coordinate moved by the whole L1 sensitivity dominates (see curves.py).
        return pld.from_discrete_laplace_mechanism(
            1 / event.scale,
            sensitivity=integer_shift(event.sensitivity),
            value_discretization_interval=_INTERVAL,
            use_connect_dots=True,
        )
    return pld.from_laplace_mechanism(
        event.scale,
        sensitivity=event.sensitivity,
        value_discretization_interval=_INTERVAL,
        use_connect_dots=True,
    )


@_distribution.register
def _(event: GaussianEvent) -> Any:
    from dp_accounting.pld import privacy_loss_distribution as pld

    if not event.discrete:
        return pld.from_gaussian_mechanism(
            event.sigma,
            sensitivity=event.sensitivity,
            value_discretization_interval=_INTERVAL,
            use_connect_dots=True,
        )
    # Integer shifts of L2 norm below 2 are at most floor(s^2) coordinates moved by one each.
    coordinates = integer_shift(event.sensitivity**2)
    unit = pld.from_discrete_gaussian_mechanism(
        event.sigma,
        sensitivity=1,
        value_discretization_interval=_INTERVAL,
        use_connect_dots=True,
    )
    return unit.self_compose(coordinates) if coordinates > 1 else unit


@_distribution.register
def _(event: SampledGaussianEvent) -> Any:
    """One step; `compose` repeats it."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if event.rate == 0:
        return pld.identity(value_discretization_interval=_INTERVAL)
    return pld.from_gaussian_mechanism(
        event.noise_multiplier,
        sampling_prob=event.rate,
        value_discretization_interval=_INTERVAL,
        use_connect_dots=True,
    )


def _pure(epsilon: float) -> Any:
    """Randomised response, which is discrete Laplace noise of scale 1/epsilon at sensitivity 1."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    if epsilon == 0:
        return pld.identity(value_discretization_interval=_INTERVAL)
    return pld.from_discrete_laplace_mechanism(
        epsilon,
        sensitivity=1,
        value_discretization_interval=_INTERVAL,
        use_connect_dots=True,
    )


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
