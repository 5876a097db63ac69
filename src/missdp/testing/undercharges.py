"""Checks that a charge pays for an answer, and likelihood ratios of answers.

`undercharges` serves the check of exact sensitivities, `log_ratio` the audits. Both dispatch on the
type of the mechanism. For a mechanism of your own, register functions of the same parameters:
``undercharges.register(MyMechanism, my_undercharges)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import singledispatch
from typing import Any

import numpy as np

from missdp.accounting import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.errors import UnprovenError
from missdp.session.frequent_values import FrequentValues
from missdp.session.mechanisms import Noise, Selection
from missdp.session.training import SampledSum
from missdp.statistics.groups import ParallelGroups
from missdp.statistics.smooth_sensitivity import Bounded, SmoothNoise
from missdp.testing.findings import BrokenPromise
from missdp.testing.recording import GradientsOfEachRow
from missdp.types import Floats, Ints

_GRADIENT_TOLERANCE = 1e-9  # rounding of a gradient, in clip norms
_BOUND_SLACK = 2.0**-36  # rounding error of the logarithm of a private bound


class UnknownMechanismError(BrokenPromise):
    """Error: no function that checks answers is registered for the type of a mechanism.

    `undercharges` and `log_ratio` raise it. `check_sensitivity` lists it as a failure. Register a
    function for the type of the mechanism.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> from missdp.testing import UnknownMechanismError, undercharges
    >>> try:
    ...     undercharges("my mechanism", PureEvent(epsilon=0.5), 3, 4)
    ... except UnknownMechanismError as error:
    ...     print(type(error).__name__)
    UnknownMechanismError
    """


@singledispatch
def undercharges(mechanism: Any, event: Event, exact: Any, other: Any) -> str | None:
    """Return the reason why an accounting event does not pay for a noisy answer, or None.

    It compares the exact numbers behind the answer on two neighbouring example tables.
    `check_sensitivity` calls it. For a mechanism of your own, register a function with these
    parameters: ``undercharges.register(MyMechanism, my_undercharges)``.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that draws the answer.
    event : Event
        The accounting event that was charged.
    exact : object
        The exact numbers of a table. For ``SampledSum``, the gradients of each row.
    other : object
        The exact numbers of its neighbour.

    Returns
    -------
    str or None
        None if the event pays. Otherwise a message with the distance of the exact numbers and
        the allowed distance. Or a message that the type of the event does not pay for this
        mechanism.

    Raises
    ------
    UnknownMechanismError
        If no function is registered for the type of the mechanism.
    UnprovenError
        If the exact numbers do not show it.

    Notes
    -----
    A function that is registered must cover all that its mechanism reads.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.accounting import PureEvent
    >>> from missdp.session import Noise
    >>> from missdp.testing import undercharges
    >>> undercharges(Noise("laplace", 2.0), PureEvent(epsilon=0.5), np.array([3]), np.array([4]))
    >>> undercharges(Noise("laplace", 2.0), PureEvent(epsilon=0.5), np.array([3]), np.array([5]))
    'the answer reveals epsilon 1, and 0.5 was charged for'
    """
    del exact, other
    kind = type(mechanism).__name__
    raise UnknownMechanismError(
        f"{type(event).__name__} {event.label!r}: no sensitivity of the exact numbers is "
        f"known for the mechanism {kind}. Register a function with undercharges.register({kind}), "
        "which returns the problem or None"
    )


@singledispatch
def log_ratio(mechanism: Any, answer: Any, exact: Any, other: Any) -> float:
    """Return the log-likelihood ratio of a released answer on two example tables.

    `audit` adds up these ratios for its attacker. For a mechanism of your own, register a function
    with these parameters: ``log_ratio.register(MyMechanism, my_log_ratio)``.

    Parameters
    ----------
    mechanism : Mechanism
        The mechanism that drew the answer.
    answer : object
        The released value.
    exact : object
        The exact numbers of one table. For ``SampledSum``, the gradients of each row.
    other : object
        The exact numbers of the other table.

    Returns
    -------
    float
        Natural logarithm of the ratio of the two likelihoods. Above 0 if the answer is likelier
        given ``exact``.

    Raises
    ------
    UnknownMechanismError
        If no function is registered for the type of the mechanism.

    Notes
    -----
    The ratio is computed from exact numbers, so use example tables only.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import Noise
    >>> from missdp.testing import log_ratio
    >>> log_ratio(Noise("laplace", 2.0), np.array([3]), np.array([3]), np.array([4]))
    0.5
    """
    del answer, exact, other
    raise UnknownMechanismError(f"no log_ratio is registered for {type(mechanism).__name__}")


# Shared functions


def exceeds(value: float, bound: float) -> bool:
    """Return whether a number exceeds a bound by more than rounding. NaN always exceeds it."""
    return not value <= bound * (1 + 1e-9)


def distance(exact: Any, other: Any, norm: float) -> float:
    """Return the distance of two arrays of numbers.

    Parameters
    ----------
    exact, other : array_like
        Exact numbers of the same shape.
    norm : float
        1 or 2, for the L1 or L2 norm.

    Returns
    -------
    float
        The norm of the difference.
    """
    gap = (np.asarray(exact) - np.asarray(other)).astype(np.float64).ravel()
    return float(np.linalg.norm(gap, norm))


def shift_problem(shift: float, max_shift: float, label: str = "what is behind it") -> str | None:
    """Return a message if one row moves something further than was charged for.

    Parameters
    ----------
    shift : float
        The distance of the exact numbers of two neighbours.
    max_shift : float
        The distance that was charged for.
    label : str
        Name of the object that moves.

    Returns
    -------
    str or None
        None if the distance was charged for, up to rounding.
    """
    message = f"one row moves {label} by {shift:g}, and {max_shift:g} was charged for"
    return message if exceeds(shift, max_shift) else None


def noise_problem(scale: float, min_scale: float) -> str | None:
    """Return a message if noise is of a smaller scale than was charged for."""
    message = f"noise is of scale {scale:g}, and at least {min_scale:g} was charged for"
    return message if exceeds(min_scale, scale) else None


def pure_undercharges(event: Event, epsilon: float) -> str | None:
    """Return the reason why an event does not pay for an epsilon-DP answer, or None."""
    paid = _epsilon_paid(event)
    if paid is None:
        return event_problem(event, "a pure epsilon")
    if exceeds(epsilon, paid):
        return f"the answer reveals epsilon {epsilon:g}, and {paid:g} was charged for"
    return None


def _epsilon_paid(event: Event) -> float | None:
    """Return the pure epsilon that an event pays for, or None if it has no pure epsilon."""
    if isinstance(event, PureEvent | ApproximateEvent):
        return event.epsilon
    if isinstance(event, LaplaceEvent):
        return event.sensitivity / event.scale
    return math.sqrt(2 * event.rho) if isinstance(event, ZCDPEvent) else None


def event_problem(event: Event, label: str) -> str:
    """Return the message that an event is of a type that does not pay for something."""
    return f"{type(event).__name__} does not say what {label} costs: charge an event that does"


# Counts and scores


@undercharges.register(Noise)
def _(mechanism: Noise, event: Event, exact: Ints, other: Ints) -> str | None:
    """Counts may not move too far, and the noise may not be too small."""
    shift, laplace = distance(exact, other, mechanism.norm), mechanism.norm == 1
    scale = mechanism.scale * mechanism.steps
    if laplace and not isinstance(event, LaplaceEvent):
        return pure_undercharges(event, shift / scale)
    if isinstance(event, ZCDPEvent):
        return shift_problem(shift, math.sqrt(2 * event.rho) * scale)
    if not isinstance(event, LaplaceEvent if laplace else GaussianEvent):
        return event_problem(event, "Gaussian noise")
    charged = event.scale if isinstance(event, LaplaceEvent) else event.sigma
    min_scale = charged * shift / event.sensitivity
    return shift_problem(shift, event.sensitivity) or noise_problem(scale, min_scale)


@log_ratio.register(Noise)
def _(mechanism: Noise, answer: Ints, exact: Ints, other: Ints) -> float:
    scale = mechanism.scale * mechanism.steps
    released = np.asarray(answer, dtype=np.float64) * mechanism.steps
    here, there = (released - counts for counts in (exact, other))
    if mechanism.kind == "laplace":
        return float((np.abs(there) - np.abs(here)).sum() / scale)
    return float(((there - here) * (there + here)).sum() / (2 * scale**2))


@undercharges.register(Selection)
def _(mechanism: Selection, event: Event, exact: Floats, other: Floats) -> str | None:
    """No score may move too far for the epsilon.

    A `SelectionEvent` does not pay for permute-and-flip, whose range is not bounded.
    """
    paid = _epsilon_paid(event)
    ranged = mechanism.method == "exponential" or not isinstance(event, SelectionEvent)
    if paid is None or not ranged:
        return event_problem(event, "a selection")
    shift = float(np.abs(np.subtract(exact, other, dtype=np.float64)).max(initial=0.0))
    return shift_problem(shift, paid * mechanism.scale / 2, "a score")


@log_ratio.register(Selection)
def _(mechanism: Selection, answer: int, exact: Floats, other: Floats) -> float:
    here, there = (_log_chance(mechanism, int(answer), scores) for scores in (exact, other))
    return here - there


def _log_chance(mechanism: Selection, answer: int, scores: Floats) -> float:
    """Return the log of the probability that a candidate is selected."""
    z = np.asarray(scores, dtype=np.float64) / mechanism.scale
    if mechanism.method == "exponential":
        return float(z[answer] - np.logaddexp.reduce(z))
    # A candidate flips at a uniform time t, if no other has passed its coin before. The chance
    # of that is a polynomial of t, of lower degree than these nodes integrate exactly.
    coins = np.exp(z - z.max())
    nodes, weights = np.polynomial.legendre.leggauss(len(z) // 2 + 1)
    passed = np.delete(coins, answer)[:, np.newaxis] * (nodes + 1) / 2
    first = float((weights * np.prod(1 - passed, axis=0)).sum() / 2)
    return float(z[answer] - z.max()) + math.log(first)


@undercharges.register(FrequentValues)
def _(
    mechanism: FrequentValues, event: Event, exact: Mapping[str, int], other: Mapping[str, int]
) -> str | None:
    """One row may count for one value. Raise UnprovenError if it counts for several."""
    if not isinstance(event, GaussianEvent):
        return event_problem(event, "finding levels")
    both = exact.keys() & other.keys()
    shift = math.sqrt(sum((exact[v] - other[v]) ** 2 for v in both))
    single = exact.keys() ^ other.keys()
    if len(single) > 1 or any(exact.get(v, 0) + other.get(v, 0) > 1 for v in single):
        raise UnprovenError("a row counts for several values")
    if single and shift:
        return "one row moves two values, and one was charged for"
    min_scale = event.sigma * max(1, shift) / event.sensitivity
    far = shift_problem(shift or len(single), event.sensitivity)
    return far or noise_problem(mechanism.sigma, min_scale)


# Numbers with a private bound, and groups of rows


@undercharges.register(SmoothNoise)
def _(mechanism: SmoothNoise, event: Event, exact: Bounded, other: Bounded) -> str | None:
    """The answer may move by either private bound, and the logarithm of the bound by beta."""
    beta = mechanism.beta + _BOUND_SLACK
    return _bounds_exceed(exact, other, beta) or pure_undercharges(event, mechanism.epsilon)


def _bounds_exceed(exact: Bounded, other: Bounded, beta: float) -> str | None:
    """Return a message if numbers move further than their bounds, or the bounds too far."""
    shift = float(sum(abs(a - b) for a, b in zip(exact.totals, other.totals, strict=True)))
    low, high = sorted((exact.bound, other.bound))
    if exceeds(shift, low):
        return f"one row moves what is behind it by {shift:g}, and its private bound is {low:g}"
    if not low > 0 or exceeds(math.log(high / low), beta):
        return (
            f"one row moves the private bound from {low:g} to {high:g}, more than a factor of "
            f"{math.exp(beta):g}"
        )
    return None


@log_ratio.register(SmoothNoise)
def _(mechanism: SmoothNoise, answer: Any, exact: Bounded, other: Bounded) -> float:
    """Compare the densities of the real-valued answer, before it is rounded."""
    here, there = (_log_density(mechanism, answer, bounded) for bounded in (exact, other))
    return here - there


def _log_density(mechanism: SmoothNoise, answer: Any, exact: Bounded) -> float:
    """Return the logarithm of the density, by a measure that is the same for all tables."""
    unit = exact.bound / mechanism.alpha
    *numbers, released_scale = answer
    reach = sum(abs(float(a - t)) for a, t in zip(numbers, exact.totals, strict=False)) / unit
    scale = float(max(released_scale, mechanism.grid / 2)) / unit
    peak = (1 + scale + max(reach, abs(scale - 1))) / 2
    return mechanism.shape * (math.log(scale) - 2 * math.log(peak))


@undercharges.register(ParallelGroups)
def _(
    mechanism: ParallelGroups, event: Event, exact: tuple[Any, ...], other: tuple[Any, ...]
) -> str | None:
    """One row may move one group, within the bound of its mechanism."""
    if not len(exact) == len(other) == mechanism.groups:
        return f"there are {len(exact)} and {len(other)} groups, and {mechanism.groups} are public"
    pairs = list(zip(exact, other, strict=True))
    shift = [pair for pair in pairs if _comparable(pair[0]) != _comparable(pair[1])]
    if len(shift) > 1:
        return f"one row moves {len(shift)} groups, and parallel composition allows one"
    here, there = shift[0] if shift else pairs[0]
    return undercharges(mechanism.mechanism, event, here, there)


def _comparable(exact: Any) -> Any:
    """Return exact numbers in a form that compares as a whole."""
    return exact.tolist() if hasattr(exact, "tolist") else exact


@log_ratio.register(ParallelGroups)
def _(mechanism: ParallelGroups, answer: Any, exact: Any, other: Any) -> float:
    groups = zip(answer, exact, other, strict=True)
    return float(sum(log_ratio(mechanism.mechanism, *group) for group in groups))


# Trainings


@undercharges.register(SampledSum)
def _(
    mechanism: SampledSum, event: Event, exact: GradientsOfEachRow, other: GradientsOfEachRow
) -> str | None:
    """A row may change no gradient but its own, which is no longer than the clip norm."""
    if not isinstance(event, SampledGaussianEvent) or (
        event.rate < mechanism.rate or event.noise_multiplier > mechanism.noise_multiplier
    ):
        return (
            "a step must be charged as a SampledGaussianEvent with at least its rate and at "
            "most its noise"
        )
    few, many = sorted((exact.each, other.each), key=len)
    off = np.abs(few - many[: len(few)]).max(axis=1, initial=0.0) > _GRADIENT_TOLERANCE
    at = int(off.argmax()) if off.any() else len(few)
    rest = np.abs(few[at:] - many[len(many) - len(few) + at :])
    # Gradients that depend on other rows of a sample are NaN here, which is not small.
    is_finite = np.isfinite(many).all() and np.isfinite(few).all()
    if len(many) - len(few) > 1 or not is_finite or rest.max(initial=0.0) > _GRADIENT_TOLERANCE:
        return "one row changes the gradients of other rows"
    longest = np.linalg.norm(many, axis=1).max(initial=0.0)
    too_long = longest > 1 + _GRADIENT_TOLERANCE
    return "a gradient is longer than the clip norm" if too_long else None


@log_ratio.register(SampledSum)
def _(
    mechanism: SampledSum, answer: Floats, exact: GradientsOfEachRow, other: GradientsOfEachRow
) -> float:
    """Look along the gradient of the one row that the tables differ by.

    The sum over a sample of the other rows is taken as normal. At rate 1 this is exact. At lower
    rates an attacker can compute it. So the test is valid, with less power.
    """
    if len(exact) == len(other):
        return 0.0
    few, many = sorted((exact.each, other.each), key=len)
    off = (few != many[: len(few)]).any(axis=1)
    row = many[int(off.argmax()) if off.any() else len(few)]
    length = float(np.linalg.norm(row))
    if not length:
        return 0.0
    rate, others = mechanism.rate, few @ row / length
    variance = mechanism.noise_multiplier**2 + rate * (1 - rate) * (others @ others)
    along = float(answer @ row) / length - rate * others.sum()
    shift = (2 * along - length) * length / (2 * variance)
    with np.errstate(divide="ignore"):  # at rate 1 the row is always there
        ratio = float(np.logaddexp(np.log1p(-rate), np.log(rate) + shift))
    return ratio if len(exact) > len(other) else -ratio
