"""What each kind of event costs: pure epsilon, zCDP rho, mu squared, and Rényi divergence.

Each function refuses, by name, the kinds of events for which no bound is proven.

Privacy loss distributions are those of Google's ``dp_accounting``, imported when first asked for.
Every one is pessimistic (connect-the-dots rounding never understates the loss) and belongs to a
*dominating pair* of the mechanism, so it may be composed adaptively (Zhu, Dong & Wang 2022,
Theorem 10). Discrete noise is never treated by a continuous distribution.

**Gaussian DP.** A mechanism is mu-GDP if telling two neighbours apart by its output is no easier
than telling N(0, 1) from N(mu, 1) (Dong, Roth & Su 2022). Squares of mu add up, also when every
next mechanism, and its mu, is chosen by what came out before (Smith & Thakurta 2022): each answer
can be made of a piece of one Brownian motion, of length mu^2, with drift 1 under one neighbour and
0 under the other, so all of them are made of its path up to time sum mu^2, and the end of that path
tells as much as the whole of it.

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
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from missdp.accounting.events import (
    ApproximateEvent,
    Event,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.accounting.exact import exact, float_up, integer_shift
from missdp.errors import UnprovenError
from missdp.types import Floats

RDP_ORDERS: Floats = np.unique(
    np.concatenate(
        [
            np.arange(1.05, 11.0, 0.1).round(2),
            np.arange(11.0, 64.0),
            np.geomspace(64, 1e6, 60).round(),
        ]
    )
)
# Whole orders at which the Poisson-sampled Gaussian is evaluated; the best order for DP-SGD is
# far below the last one, and each order costs time proportional to itself.
_SAMPLED_ORDERS: Floats = np.unique(
    np.concatenate([np.arange(2.0, 65.0), np.geomspace(64.0, 512.0, 25).round()])
)
MOST_GDP = 6.0
"""A count of rows can be released at no larger cost in Gaussian DP: less noise has no bound."""
_ROUNDED = 4  # variance of the rounding: what discrete noise is larger than continuous noise
_OUTWARD = Fraction(1) + Fraction(1, 2**40)  # quantiles are a relative 1e-15 or so off
# More than what a handful of floating-point operations on numbers of size 1 get wrong.
_ROUNDING = 1e-15


def _unproven(bound: str, event: Event) -> UnprovenError:
    return UnprovenError(f"no {bound} bound is proven for {type(event).__name__}")


def proven(cost: Callable[..., object], event: Event) -> bool:
    """Return whether one of the functions below has a bound for an event."""
    try:
        cost(event)
    except UnprovenError:
        return False
    return True


def is_pure(event: Event) -> bool:
    """Return whether an event is pure DP: it has an epsilon, and its delta is 0."""
    return proven(pure_cost, event) and approximate_delta(event) == 0


def approximate_delta(event: Event) -> float:
    """Return the probability with which the bounds of this event may fail altogether."""
    return event.delta if isinstance(event, ApproximateEvent) else 0.0


def pure_epsilon(event: Event) -> float:
    """Return `pure_cost` as a float, rounded up."""
    return float_up(pure_cost(event))


def zcdp_rho_of(event: Event) -> float:
    """Return `zcdp_cost` as a float, rounded up."""
    return float_up(zcdp_cost(event))


def pure_cost(event: Event) -> Fraction:
    """Return the epsilon of an event exactly; of an `ApproximateEvent`, that beside its delta."""
    match event:
        case PureEvent() | ApproximateEvent():
            return exact(event.epsilon)
        case LaplaceEvent():  # integer queries move by whole numbers
            shift = integer_shift(event.sensitivity) if event.discrete else event.sensitivity
            return Fraction(shift) / Fraction(event.scale)
    raise _unproven("pure DP", event)


def zcdp_cost(event: Event) -> Fraction:
    """Return the rho of an event exactly, under (delta-approximate) zero-concentrated DP."""
    match event:
        case SelectionEvent():
            return pure_cost(event) ** 2 / 8  # bounded range: Cesar & Rogers 2021
        case PureEvent() | ApproximateEvent() | LaplaceEvent():
            return pure_cost(event) ** 2 / 2  # Bun & Steinke 2016, Proposition 1.4
        case GaussianEvent():
            # Continuous: Bun & Steinke 2016, Prop. 1.6. Discrete: Canonne et al. 2020, Theorem 14.
            return (Fraction(event.sensitivity) / Fraction(event.sigma)) ** 2 / 2
        case SampledGaussianEvent():
            # No less than without sampling: at large orders, zCDP gains nothing from it.
            # Quasi-convexity of the divergence bounds a mixture of "read" and "not read" by the
            # former, in both directions.
            whole = event.steps / Fraction(event.noise_multiplier) ** 2 / 2
            return whole if event.rate else Fraction(0)
        case ZCDPEvent():
            return exact(event.rho)
    raise _unproven("zCDP", event)


# Gaussian DP


def gdp_cost(event: Event) -> Fraction:
    """Return the square of mu with which an event is mu-GDP, rounded up.

    Of an `ApproximateEvent`, that beside its delta: it is a mixture of an epsilon-DP mechanism and,
    with probability delta, of one that tells all (Kairouz, Oh & Viswanath 2015).
    """
    match event:
        case GaussianEvent():
            variance = Fraction(event.sigma) ** 2
            if event.discrete:
                variance -= _lost(event.sensitivity, variance)
            if variance <= 0:
                raise UnprovenError(
                    f"discrete Gaussian noise with sigma {event.sigma:g} has no Gaussian DP bound"
                )
            return Fraction(event.sensitivity) ** 2 / variance
        case SelectionEvent():
            mu = _pure_mu(event.epsilon / 2)
        case PureEvent() | ApproximateEvent() | LaplaceEvent():
            mu = _pure_mu(pure_epsilon(event))
        case _:
            raise _unproven("Gaussian DP", event)
    return (Fraction(mu) * _OUTWARD) ** 2


def _moves_one(sensitivity: float) -> bool:
    return sensitivity < 2 and integer_shift(sensitivity**2) <= 1


def _lost(sensitivity: float, variance: Fraction) -> Fraction:
    """Return how much of the variance of discrete noise does not count; all of it, if too small."""
    if not _moves_one(sensitivity):
        return Fraction(_ROUNDED)
    small = Fraction(1, 6) if variance >= Fraction(1, 3) else variance
    return Fraction(1, 11) if variance >= Fraction(12, 11) else small


def _pure_mu(epsilon: float) -> float:
    """Return the mu of an epsilon-DP mechanism: the kink is at 1 / (1 + e^epsilon)."""
    from scipy.special import erfinv, ndtri_exp

    if epsilon < 1:  # the same, with no digits lost where it is small
        return math.sqrt(8) * float(erfinv(math.tanh(epsilon / 2)))
    if epsilon > 600:  # the quantiles are not known
        raise UnprovenError("an epsilon this large has no Gaussian DP bound")
    return -2 * float(ndtri_exp(-np.logaddexp(0.0, epsilon)))


def gdp_noise(amount: float, *, sensitivity: float = 1.0) -> float:
    """Return the sigma at which discrete Gaussian noise costs this much, or infinity."""
    least = sensitivity**2 / amount if amount > 0 else math.inf
    if not _moves_one(sensitivity):
        return math.sqrt(least + _ROUNDED)
    variance = least + 1 / 11 if least >= 1 else max(least, 1 / MOST_GDP) + 1 / 6
    return math.sqrt(variance) * (1 + 2.0**-50)  # rounded up


def gdp_selection(amount: float) -> float:
    """Return the epsilon of a selection that costs this much."""
    from scipy.special import log_ndtr

    half = math.sqrt(amount) / 2 * (1 - 1e-11)
    if half < 1:
        return 4 * math.atanh(math.erf(half / math.sqrt(2)))
    return 2 * float(log_ndtr(half) - log_ndtr(-half))


# Rényi divergences


def rdp_curve(event: Event, orders: Floats = RDP_ORDERS[:1]) -> Floats:
    """Return an upper bound on the Rényi divergence at each order (infinity where unknown)."""
    match event:
        case SelectionEvent():
            bounded_range = orders * zcdp_rho_of(event)
            return np.minimum(bounded_range, _randomized_response(event.epsilon, orders))
        case PureEvent() | ApproximateEvent():
            return _randomized_response(event.epsilon, orders)
        case LaplaceEvent():
            return _laplace(event, orders)
        case GaussianEvent() | ZCDPEvent():
            return orders * zcdp_rho_of(event)
        case SampledGaussianEvent():
            step = _chords(
                _SAMPLED_ORDERS, _sampled_step(event.rate, event.noise_multiplier), orders
            )
            return np.minimum(orders * zcdp_rho_of(event), float(event.steps) * step)
        case RDPEvent():
            return _chords(np.array(event.orders), np.array(event.epsilons), orders)
    raise _unproven("Rényi DP", event)


def _chords(table: Floats, curve: Floats, orders: Floats) -> Floats:
    """Read a table of upper bounds at other orders; infinity beyond its end.

    (a - 1) D_a is convex in a and 0 at a = 1, so its chords bound it from above.
    """
    heights = np.concatenate([[0.0], (table - 1) * curve])
    chords = np.interp(orders, np.concatenate([[1.0], table]), heights, right=np.inf)
    return np.asarray(np.where(orders <= table[0], curve[0], chords / (orders - 1)))


def _randomized_response(epsilon: float, orders: Floats) -> Floats:
    """Return the Rényi divergence of the worst pure pair: a bit flipped with odds exp(-epsilon)."""
    log_p, log_q = -np.log1p(np.exp(-epsilon)), -epsilon - np.log1p(np.exp(-epsilon))
    with np.errstate(over="ignore"):  # an epsilon of 1e308 is infinite at large orders
        there = orders * log_p + (1 - orders) * log_q
        back = orders * log_q + (1 - orders) * log_p
        return _rounded_up(np.logaddexp(there, back), epsilon, orders)


def _laplace(event: LaplaceEvent, orders: Floats) -> Floats:
    """Return the Rényi divergence of the Laplace law against itself shifted, exactly.

    One coordinate moved by the whole L1 sensitivity is the worst case: for log-concave noise the
    trade-off of a shift u + v is the composition of those of u and v, which no product of the two
    falls below (group privacy, Dong, Roth & Su 2022, §2.4). The discrete loss is shift/scale below
    the first centre, falls by 2/scale per step to -shift/scale at the second. The continuous one is
    that of Mironov 2017, Proposition 6.
    """
    from scipy.special import logsumexp

    epsilon = pure_epsilon(event)
    if math.isinf(epsilon):
        return np.full_like(orders, math.inf)
    if not event.discrete:
        rise = np.log(orders / (2 * orders - 1)) + (orders - 1) * epsilon
        fall = np.log((orders - 1) / (2 * orders - 1)) - orders * epsilon
        return _rounded_up(np.logaddexp(rise, fall), epsilon, orders)
    shift, a = integer_shift(event.sensitivity), 1 / event.scale
    if shift > 10_000:  # tabulating the middle is no use: the pure bound's curve is as good
        return _randomized_response(epsilon, orders)
    inner, end = np.arange(1, shift), -np.log1p(np.exp(-a))
    middle = np.log(-np.expm1(-a)) + end - a * inner
    log_mass = np.concatenate([[end], middle, [end - a * shift]])
    loss = a * np.concatenate([[shift], shift - 2 * inner, [-shift]])
    moment = logsumexp(log_mass[:, None] + np.outer(loss, orders - 1), axis=0)
    return _rounded_up(moment, epsilon, orders)


def _rounded_up(moment: Floats, epsilon: float, orders: Floats) -> Floats:
    """Divide (a - 1) D_a, computed in floating point, by a - 1, and never fall below D_a.

    The terms are of size a (1 + epsilon), and what cancels between them leaves nothing correct of
    a small divergence; epsilon and a epsilon^2 / 2 bound it then.
    """
    curve = (moment + _ROUNDING * orders * (1 + epsilon)) / (orders - 1)
    most = np.minimum(epsilon, orders * (epsilon * epsilon / 2) * (1 + _ROUNDING))
    return np.clip(curve, 0.0, most)


@lru_cache(maxsize=256)
def _sampled_step(rate: float, multiplier: float) -> Floats:
    """Return the Rényi divergence of one step of the Poisson-sampled Gaussian, at whole orders.

    Q is the law without the row, P with it, M = (1 - q) Q + q P. At a whole order a, E_Q (M / Q)^a
    is a sum of binomial weights times E_Q (P / Q)^k, k = 0..a, and each of those is
    exp(k (k - 1) s^2 / (2 sigma^2)) for a shift of length s: exactly so for discrete noise, too, if
    the shift is made of integers. The other direction is no larger (Mironov, Talwar & Zhang 2019):
    x -> shift - x swaps P and Q, and the inequality holds for each pair {x, shift - x}, so it holds
    whether such pairs are integrated or added up.

    What is computed is log(1 + sum over k of C(a, k) q^k (1 - q)^(a - k) (exp(gain) - 1)) / (a - 1)
    with gain = k (k - 1) / (2 sigma^2): without the 1, a small sum keeps its digits.
    """
    from scipy.special import betaln, xlog1py

    if rate == 0:
        return np.zeros_like(_SAMPLED_ORDERS)

    def whole(order: float) -> float:
        k = np.arange(2.0, order + 1)
        log_choose = -betaln(k + 1, order - k + 1) - math.log(order + 1)
        gain = k * (k - 1) / (2 * multiplier * multiplier)
        terms = log_choose + k * math.log(rate) + xlog1py(order - k, -rate)
        terms += gain + np.log(-np.expm1(-gain))
        return float(np.logaddexp(0.0, np.logaddexp.reduce(terms))) / (order - 1)

    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        curve = np.array([whole(order) for order in _SAMPLED_ORDERS])
    # The logarithms of binomials are a relative 1e-15 of up to 3000 off.
    curve = curve * (1 + 1e-11) + 2 * _ROUNDING
    return np.where(np.isnan(curve), math.inf, curve)


# Privacy loss distributions

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
    """Return the epsilon of all events together: a guarantee is checked more than once."""
    return _composed_epsilon(_counted(events), delta)


def _counted(events: Iterable[Event]) -> tuple[tuple[Event, int], ...]:
    counts = Counter(map(tabulated, events))
    # Always in one order: the last digits depend on it, and a saved guarantee is checked again.
    return tuple(sorted(counts.items(), key=repr))


def tabulated(event: Event) -> Event:
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
            # Discrete noise on a sample has no known dominating pair.
            can &= not event.discrete and event.steps <= _MOST_STEPS
            can &= event.noise_multiplier >= 0.2
        case _:
            can = False
    if not can:
        raise UnprovenError(
            f"PLD accounting refuses a {type(event).__name__}: no dominating pair is known, or it "
            "is too large to tabulate"
        )
    return replace(event, label="", gate=None)


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
def _composed_epsilon(counts: tuple[tuple[Event, int], ...], delta: float) -> float:
    return float(_composed(counts).get_epsilon_for_delta(delta))


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
    raise _unproven("loss distribution", event)
