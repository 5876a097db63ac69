"""Gaussian differential privacy: costs in mu squared, and conversions to (epsilon, delta).

A mechanism is mu-GDP if telling two neighbours apart by its output is no easier than telling
N(0, 1) from N(mu, 1) (Dong, Roth & Su 2022). Squares of mu add up, also when every next mechanism,
and its mu, is chosen by what came out before (Smith & Thakurta 2022): each answer can be made of a
piece of one Brownian motion, of length mu^2, with drift 1 under one neighbour and 0 under the
other, so all of them are made of its path up to time sum mu^2, and the end of that path tells as
much as the whole of it.

**Discrete Gaussian noise.** Let s^2 = sigma^2 - 4. Add continuous noise N(0, s^2) to a vector of
whole numbers, and round each coordinate y to the whole number z with probability proportional to
exp(-(z - y)^2 / 8). By Poisson's summation formula the normalising sum differs from 2 sqrt(2 pi) by
a factor of at most 1 +- t, t = 2.1 exp(-8 pi^2) < 2e-34, whatever y is, so the result has the
discrete Gaussian law with parameter sigma up to a factor (1 + t) / (1 - t) in each coordinate (the
convolution of Gaussians; Peikert 2010 uses it to sample from lattices). What is rounded is
(sensitivity / s)-GDP. All events together may release 2^48 numbers: the factors then multiply to
less than exp(2e-19), which the outward rounding of the conversion pays for.

**Pure mechanisms and selections.** The trade-off function of a mechanism whose privacy loss lies in
[t - epsilon, t] is at least max(0, 1 - e^t a, e^(t - epsilon) (1 - a)). It is mu-GDP as soon as
the convex trade-off function of mu lies below the one kink in the middle.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, singledispatch

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from missdp.accounting.costs import failure_of, proven, pure_cost
from missdp.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
)
from missdp.accounting.exact import exact, float_up, total
from missdp.errors import UnprovenError

__all__ = [
    "GDPAccountant",
    "delta_from_mu",
    "epsilon_from_mu",
    "gdp_cost",
    "gdp_mu",
    "gdp_noise",
    "mu_worth",
]

_ROUNDED = 4  # variance of the rounding: what discrete noise is larger than continuous noise
_OUTWARD = Fraction(1) + Fraction(1, 2**40)  # quantiles are a relative 1e-15 or so off
_PIECES = 2_000


@singledispatch
def gdp_cost(event: Event) -> Fraction:
    """Return the square of mu with which an event is mu-GDP, rounded up.

    Raises
    ------
    UnprovenError
        If no bound is proven for this kind of event, or its noise is too small for one.

    Examples
    --------
    >>> gdp_cost(GaussianEvent(sensitivity=1, sigma=2.0, discrete=False))
    Fraction(1, 4)
    >>> gdp_cost(GaussianEvent(sensitivity=1, sigma=12.0))
    Fraction(1, 140)
    """
    raise UnprovenError(f"no Gaussian DP bound is proven for {type(event).__name__}")


@gdp_cost.register
def _(event: GaussianEvent) -> Fraction:
    variance = Fraction(event.sigma) ** 2 - (_ROUNDED if event.discrete else 0)
    if variance <= 0:
        raise UnprovenError("discrete Gaussian noise with sigma up to 2 has no Gaussian DP bound")
    return Fraction(event.sensitivity) ** 2 / variance


@gdp_cost.register(PureEvent)
@gdp_cost.register(LaplaceEvent)
def _(event: PureEvent | LaplaceEvent) -> Fraction:
    return _squared(_pure_mu(float_up(pure_cost(event))))


@gdp_cost.register
def _(event: SelectionEvent) -> Fraction:
    return _squared(_bounded_range_mu(event.epsilon))


def _squared(mu: float) -> Fraction:
    if not math.isfinite(mu):
        raise UnprovenError("an epsilon this large has no Gaussian DP bound")
    return (Fraction(mu) * _OUTWARD) ** 2


def _pure_mu(epsilon: float) -> float:
    """Return the mu of an epsilon-DP mechanism: the kink is at 1 / (1 + e^epsilon)."""
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))


@lru_cache(maxsize=4096)
def _bounded_range_mu(epsilon: float) -> float:
    """Return a mu that is enough whatever t is, for a loss within [t - epsilon, t].

    The kink is at a(t) = (e^-t - e^-epsilon) / (1 - e^-epsilon), of height a(epsilon - t), and
    asks for -quantile(a(t)) - quantile(a(epsilon - t)). The first term grows with t and the second
    falls, so their largest values on each of many short intervals bound it. For t up to the first
    grid point, with x = 1 - a(t), it is at most quantile(x) - quantile(x e^-epsilon), which grows
    with x, because the logarithm of the normal distribution function is concave. Both are
    symmetric about epsilon / 2.
    """
    if epsilon == 0:
        return 0.0
    if epsilon > 30:
        return _pure_mu(epsilon)
    t = np.linspace(epsilon / _PIECES, epsilon / 2, _PIECES)
    log_scale = math.log(-math.expm1(-epsilon))
    low = ndtri_exp(np.log(-np.expm1(t - epsilon)) - t - log_scale)  # quantile of a(t)
    high = ndtri_exp(np.log(np.expm1(t)) - epsilon - log_scale)  # of a(epsilon - t)
    inner = float((-low[1:] - high[:-1]).max())
    first = float(np.log(-np.expm1(-t[0])) - log_scale)  # log x at the first point
    edge = float(ndtri_exp(first) - ndtri_exp(first - epsilon))
    return min(max(inner, edge), _pure_mu(epsilon))


def gdp_mu(amount: float) -> float:
    """Return a floating-point mu whose square is at least ``amount``, rounded up.

    Examples
    --------
    >>> gdp_mu(0.25)
    0.5
    """
    mu = math.sqrt(amount)
    while Fraction(mu) ** 2 < exact(amount):
        mu = math.nextafter(mu, math.inf)
    return mu


def gdp_noise(amount: float, *, sensitivity: float = 1.0) -> float:
    """Return the sigma at which discrete Gaussian noise costs this much, or infinity.

    Examples
    --------
    >>> gdp_noise(1 / 140)
    12.0
    """
    return math.sqrt(sensitivity**2 / amount + _ROUNDED) if amount > 0 else math.inf


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Return the delta of a mu-GDP mechanism at ``epsilon``, rounded up (Balle & Wang 2018).

    Examples
    --------
    >>> round(delta_from_mu(1.0, 1.0), 4)
    0.1269
    """
    if mu == 0:
        return 0.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # The logarithms are a relative 1e-15 or so off, and the exponentials, and the answer is less
    # than 1e-18 larger because discrete noise is not quite what was rounded.
    slack = 1e-14 * (1 + epsilon + abs(upper) + abs(lower))
    return min(1.0, math.exp(upper) * (-math.expm1(min(0.0, lower - upper)) + slack))


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Return an epsilon, at most a relative 1e-12 too large, at which mu-GDP has this delta.

    Infinity if ``delta`` is 0.

    Examples
    --------
    >>> round(epsilon_from_mu(0.25, 1e-6), 4)
    1.0525
    """
    if mu == 0 or delta_from_mu(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0:
        return math.inf
    low, high = 0.0, mu * mu / 2 + mu * 40
    if not delta_from_mu(mu, high) <= delta:
        return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_from_mu(mu, middle) <= delta else (middle, high)
    return high


def mu_worth(epsilon: float, delta: float) -> float:
    """Return the largest mu, but for a relative 1e-12, that is worth at most (epsilon, delta).

    Examples
    --------
    >>> round(mu_worth(1.0, 1e-6), 4)
    0.2381
    """
    low, high = 0.0, 1.0
    while delta_from_mu(high, epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if delta_from_mu(middle, epsilon) <= delta else (low, middle)
    return low


class GDPAccountant:
    """Gaussian DP: squares of mu add up, and convert to (epsilon, delta) in closed form.

    Exact for continuous Gaussian noise, and nearly so for discrete noise of a sigma well above 2,
    whatever the sensitivity.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, GDPAccountant
    >>> round(GDPAccountant().epsilon([GaussianEvent(sensitivity=100, sigma=500.0)], 1e-6), 3)
    0.836
    """

    name = "Gaussian DP"

    def supports(self, event: Event) -> bool:
        """Return whether a bound is proven for this (elementary) event, and is finite."""
        if not proven(gdp_cost, event):
            return False
        if isinstance(event, GaussianEvent):
            return not event.discrete or event.sigma > math.sqrt(_ROUNDED)
        return pure_cost(event) < 600  # of larger ones the quantiles are not known

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return epsilon_from_mu(self._mu(events), delta)

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return delta_from_mu(self._mu(events), epsilon)

    def _mu(self, events: Sequence[Event]) -> float:
        assert failure_of(events) == 0  # no event with a delta of its own is supported
        return gdp_mu(float_up(total(map(gdp_cost, events))))
