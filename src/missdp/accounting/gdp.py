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

**Whole numbers of which one moves by one.** Counts of rows are sharper: discrete Gaussian noise is
then 1 / s-GDP with s^2 = sigma^2 - 1/11 if sigma^2 >= 12/11 (- 1/6 if sigma^2 >= 1/3). The
likelihood ratio falls from one whole number to the next, so the best tests are thresholds and
mixtures of neighbouring ones, and with F the distribution function of the noise it is m-GDP if no
two neighbours of z_k = quantile(F(k)) are further apart than m. Suppose z_k > z_(k-1) + m, and let
A be the distribution function of the masses a_k that a normal distribution has between thresholds m
apart, one of which is z_(k-1). Then A(k-1) = F(k-1) and A(k) < F(k). The second difference of log a
is at most -m^2 (1 - m^2 / 12), since a normal variable within an interval of length m has a
variance of at most m^2 / 12 (no law with a concave logarithm is more spread there than the
exponential one of the same mean, and 1 / x^2 - 1 / sinh(x)^2 <= 1/3); that of the noise's masses p
is -1 / sigma^2. With m^2 (1 - m^2 / 12) >= 1 / sigma^2, which m = 1 / s satisfies, log(p / a) is
convex, so p - a is first positive, then negative, then positive again (some of these perhaps
nowhere). It is positive at k. Beyond k it adds up to less than nothing, so it is negative somewhere
there; so k lies in the first stretch, and up to k - 1 it adds up to more than nothing. But that sum
is F(k-1) - A(k-1) = 0.

**Selections.** The privacy loss of a selection lies in [t - epsilon, t] for some t, so its trade-
off function is at least one with a single kink, and the kinks of all t lie on one curve,
logit(hits) = logit(alarms) + epsilon: that of two logistic distributions, epsilon apart. With h(u)
= quantile(logistic(u)) they are mu-GDP once h(u + epsilon) - h(u) <= mu for all u. h is odd, and
concave beyond 0, so that the difference is largest in the middle, where it is 2 h(epsilon / 2):
what an (epsilon / 2)-DP mechanism costs, and no less will do. (With p and P for the normal density
and distribution function, h'' <= 0 means that g(h) = (2 P - 1) p - h P (1 - P) is at least 0 for h
>= 0. g is 0 at 0 and far out, and g' = 2 p^2 - P (1 - P) is first positive, then negative, because
g'' = p (2 P - 1 - 4 h p) is first negative, then positive.)
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache, singledispatch

import numpy as np

from missdp.accounting.costs import failure_of, proven, pure_cost
from missdp.accounting.events import (
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SelectionEvent,
)
from missdp.accounting.exact import float_up, integer_shift, total
from missdp.errors import UnprovenError

__all__ = [
    "MOST_GDP",
    "GDPAccountant",
    "delta_from_mu",
    "epsilon_from_mu",
    "gdp_cost",
    "gdp_mu",
    "gdp_noise",
    "gdp_selection",
    "mu_worth",
]

_ROUNDED = 4  # variance of the rounding: what discrete noise is larger than continuous noise
#: A count of rows can be released at no larger cost: less noise has no bound of this kind.
MOST_GDP = 6.0
_OUTWARD = Fraction(1) + Fraction(1, 2**40)  # quantiles are a relative 1e-15 or so off


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
    >>> gdp_cost(GaussianEvent(sensitivity=2, sigma=12.0))
    Fraction(1, 35)
    """
    raise UnprovenError(f"no Gaussian DP bound is proven for {type(event).__name__}")


@gdp_cost.register
def _(event: GaussianEvent) -> Fraction:
    variance = Fraction(event.sigma) ** 2
    if event.discrete:
        variance -= _lost(event.sensitivity, variance)
    if variance <= 0:
        raise UnprovenError(
            f"discrete Gaussian noise with sigma {event.sigma:g} has no Gaussian DP bound"
        )
    return Fraction(event.sensitivity) ** 2 / variance


def _moves_one(sensitivity: float) -> bool:
    return sensitivity < 2 and integer_shift(sensitivity**2) <= 1


def _lost(sensitivity: float, variance: Fraction) -> Fraction:
    """Return how much of the variance of discrete noise does not count; all of it, if too small."""
    if not _moves_one(sensitivity):
        return Fraction(_ROUNDED)
    small = Fraction(1, 6) if variance >= Fraction(1, 3) else variance
    return Fraction(1, 11) if variance >= Fraction(12, 11) else small


@gdp_cost.register(PureEvent)
@gdp_cost.register(LaplaceEvent)
def _(event: PureEvent | LaplaceEvent) -> Fraction:
    return _squared(_pure_mu(float_up(pure_cost(event))))


@gdp_cost.register
def _(event: SelectionEvent) -> Fraction:
    return _squared(_pure_mu(event.epsilon / 2))


def _squared(mu: float) -> Fraction:
    if not math.isfinite(mu):
        raise UnprovenError("an epsilon this large has no Gaussian DP bound")
    return (Fraction(mu) * _OUTWARD) ** 2


def _pure_mu(epsilon: float) -> float:
    """Return the mu of an epsilon-DP mechanism: the kink is at 1 / (1 + e^epsilon)."""
    from scipy.special import erfinv, ndtri_exp

    if epsilon < 1:  # the same, with no digits lost where it is small
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))


def gdp_mu(squared: Fraction) -> float:
    """Return the mu of a square, rounded up; of the square of a floating-point number, itself.

    Examples
    --------
    >>> gdp_mu(Fraction(1, 4))
    0.5
    """
    if squared <= 0:
        return 0.0
    # Near 1, where a square root neither overflows nor vanishes.
    shift = (squared.numerator.bit_length() - squared.denominator.bit_length()) // 2
    try:
        mu = math.ldexp(math.sqrt(squared / Fraction(4) ** shift), shift)
        while Fraction(mu) ** 2 < squared:
            mu = math.nextafter(mu, math.inf)
    except OverflowError:
        return math.inf
    while (lower := math.nextafter(mu, 0.0)) > 0 and Fraction(lower) ** 2 >= squared:
        mu = lower
    return mu


def gdp_noise(amount: float, *, sensitivity: float = 1.0) -> float:
    """Return the sigma at which discrete Gaussian noise costs this much, or infinity.

    Examples
    --------
    >>> gdp_noise(1 / 140, sensitivity=2.0)
    23.74868...
    """
    least = sensitivity**2 / amount if amount > 0 else math.inf
    if not _moves_one(sensitivity):
        return math.sqrt(least + _ROUNDED)
    variance = least + 1 / 11 if least >= 1 else max(least, 1 / MOST_GDP) + 1 / 6
    return math.sqrt(variance) * (1 + 2.0**-50)  # rounded up


def gdp_selection(amount: float) -> float:
    """Return the epsilon of a selection that costs this much.

    Examples
    --------
    >>> round(gdp_selection(0.01), 4)
    0.1596
    """
    from scipy.special import log_ndtr

    half = math.sqrt(amount) / 2 * (1 - 1e-11)
    if half < 1:
        return 4 * math.atanh(math.erf(half / math.sqrt(2)))
    return 2 * float(log_ndtr(half) - log_ndtr(-half))


def delta_from_mu(mu: float, epsilon: float) -> float:
    """Return the delta of a mu-GDP mechanism at ``epsilon``, rounded up (Balle & Wang 2018).

    Examples
    --------
    >>> round(delta_from_mu(1.0, 1.0), 4)
    0.1269
    """
    from scipy.special import log_ndtr

    if mu == 0:
        return 0.0
    upper = float(log_ndtr(mu / 2 - epsilon / mu))
    lower = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    # The logarithms are a relative 1e-15 or so off, and the exponentials, and the answer is less
    # than 1e-18 larger because discrete noise is not quite what was rounded.
    slack = 1e-14 * (1 + epsilon + abs(upper) + abs(lower))
    found = math.exp(upper) * (-math.expm1(min(0.0, lower - upper)) + slack)
    return min(1.0, max(found, sys.float_info.min))


def epsilon_from_mu(mu: float, delta: float) -> float:
    """Return an epsilon, at most a relative 1e-12 too large, at which mu-GDP has this delta.

    Infinity if ``delta`` is 0.

    Examples
    --------
    >>> round(epsilon_from_mu(0.25, 1e-6), 4)
    1.0607
    """
    if mu == 0 or delta_from_mu(mu, 0.0) <= delta:
        return 0.0
    if delta <= 0:
        return math.inf
    low, high = 0.0, mu * mu / 2 + mu * 40
    if not delta_from_mu(mu, high) <= delta:
        return math.inf
    while high - low > 1e-12 * high and low < (low + high) / 2 < high:
        middle = (low + high) / 2
        low, high = (low, middle) if delta_from_mu(mu, middle) <= delta else (middle, high)
    return high


@lru_cache(maxsize=256)
def mu_worth(epsilon: float, delta: float) -> float:
    """Return the largest mu, but for a relative 1e-12, that is worth at most (epsilon, delta).

    Examples
    --------
    >>> round(mu_worth(1.0, 1e-6), 4)
    0.2367
    """
    low, high = 0.0, 1.0
    while high < math.inf and delta_from_mu(high, epsilon) <= delta:
        low, high = high, 2 * high
    while high - low > 1e-12 * high and low < (low + high) / 2 < high:
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
    0.834
    """

    name = "Gaussian DP"

    def supports(self, event: Event) -> bool:
        """Return whether a bound is proven for this (elementary) event, and is finite."""
        if not proven(gdp_cost, event):
            return False
        if isinstance(event, GaussianEvent):
            variance = Fraction(event.sigma) ** 2
            return not event.discrete or variance > _lost(event.sensitivity, variance)
        return pure_cost(event) < 600  # of larger ones the quantiles are not known

    def epsilon(self, events: Sequence[Event], delta: float) -> float:
        """Return an upper bound on epsilon at ``delta``."""
        return epsilon_from_mu(self._mu(events), delta)

    def delta(self, events: Sequence[Event], epsilon: float) -> float:
        """Return an upper bound on delta at ``epsilon``."""
        return delta_from_mu(self._mu(events), epsilon)

    def _mu(self, events: Sequence[Event]) -> float:
        assert failure_of(events) == 0  # no event with a delta of its own is supported
        return gdp_mu(total(map(gdp_cost, events)))
