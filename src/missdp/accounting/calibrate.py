"""Calibration: the least noise that meets a privacy target, with the tightest accounting we have.

No closed-form tail bound is used: the classical sqrt(2 log(1.25 / delta)) both overstates the
noise and fails for epsilon above 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from missdp.accounting.accountants import epsilon_under
from missdp.accounting.events import Adjacency, Event, GaussianEvent
from missdp.accounting.exact import integer_shift, scale_for, zcdp_rho
from missdp.errors import ParameterError, UnprovenError
from missdp.record import check_delta, check_nonnegative, check_positive, check_whole

__all__ = ["calibrate", "gaussian_delta", "gaussian_sigma", "laplace_scale"]

_MOST_COUNT = 100_000  # events that are put together one by one


def laplace_scale(epsilon: float, *, sensitivity: float = 1.0, count: int = 1) -> float:
    """Return the Laplace scale for ``count`` releases that are epsilon-DP together.

    Valid for discrete and continuous noise; the composition is pure DP.

    Parameters
    ----------
    epsilon : float
        Total, above 0.
    sensitivity : float, default 1.0
        L1 sensitivity of each release, above 0.
    count : int, default 1
        Number of releases that one row can touch, at least 1.

    Returns
    -------
    float
        ``count * sensitivity / epsilon``, rounded up.

    Examples
    --------
    >>> laplace_scale(1.0, count=4)
    4.0
    """
    count = check_whole("count", count, least=1)
    sensitivity = check_positive("sensitivity", sensitivity)
    return scale_for(sensitivity, check_positive("epsilon", epsilon), count=count)


def gaussian_delta(epsilon: float, *, sigma: float, sensitivity: float = 1.0) -> float:
    """Return the exact delta of the *continuous* Gaussian mechanism at ``epsilon``.

    Parameters
    ----------
    epsilon : float
        At least 0.
    sigma : float
        Standard deviation of the noise, above 0.
    sensitivity : float, default 1.0
        L2 sensitivity, above 0.

    Returns
    -------
    float
        Balle & Wang 2018, Theorem 8.

    Examples
    --------
    >>> round(gaussian_delta(1.0, sigma=1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr

    epsilon = check_nonnegative("epsilon", epsilon)
    shift = check_positive("sensitivity", sensitivity) / check_positive("sigma", sigma)
    upper = float(log_ndtr(shift / 2 - epsilon / shift))
    lower = epsilon + float(log_ndtr(-shift / 2 - epsilon / shift))
    return math.exp(upper) * -math.expm1(min(0.0, lower - upper))


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
    epsilon : float
        Total, above 0.
    delta : float
        Total, in (0, 1).
    sensitivity : float, default 1.0
        L2 sensitivity of each release, above 0 (at least 1 if discrete).
    count : int, default 1
        Number of releases that one row can touch, at least 1.
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
        total = check_positive("sensitivity", sensitivity) * math.sqrt(count)
        return total * _least(
            lambda sigma: gaussian_delta(epsilon, sigma=sigma) <= delta, 1.0, 1e-12, 1000
        )
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
    safe = sensitivity * math.sqrt(count / (2 * rho))
    if epsilon_under(make(safe), delta, "add-remove") > epsilon:
        safe *= 1 + 1e-9  # zCDP inverted and evaluated again may differ in the last bits
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
    epsilon : float
        Target, above 0.
    delta : float, default 0.0
        Target, in [0, 1).
    adjacency : {"add-remove", "replace-one"}
        The relation of the target.
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
    >>> from missdp.accounting import LaplaceEvent
    >>> scale = calibrate(lambda b: [LaplaceEvent(sensitivity=1, scale=b)] * 4, 1.0)
    >>> 4.0 <= scale <= 4.001
    True
    """
    epsilon = check_positive("epsilon", epsilon)
    delta = check_delta("delta", delta)
    tolerance = check_positive("tolerance", tolerance)

    start = check_positive("start", start)

    def meets(noise: float) -> bool:
        return epsilon_under(make_events(noise), delta, adjacency) <= epsilon

    def known_to_meet(noise: float) -> bool:
        try:
            return meets(noise)
        except UnprovenError:
            return False

    found = _least(known_to_meet, start, tolerance)
    if math.isinf(found) and not meets(start):  # unless even this is refused
        raise ParameterError("no noise level meets the target; is delta large enough?")
    return found


def _least(
    enough: Callable[[float], bool], start: float, tolerance: float, doublings: int = 60
) -> float:
    """Return nearly the least number that is enough, and one that is; infinity if none is."""
    high = start
    for _ in range(doublings):
        if enough(high):
            break
        high *= 2
    else:
        return math.inf
    low = high / 2
    for _ in range(doublings):
        if not enough(low):
            break
        low, high = low / 2, low
    while high - low > tolerance * high and low < (low + high) / 2 < high:
        middle = (low + high) / 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
