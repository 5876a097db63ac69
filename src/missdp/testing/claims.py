"""What a claim allows an attacker: the largest share of hits for a given share of false alarms."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from missdp.accounting import (
    FAST_ACCOUNTANTS,
    Event,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    PLDAccountant,
    PureAccountant,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    delta_of,
    epsilon_of,
    flatten,
)
from missdp.accounting.costs import pure_epsilon
from missdp.errors import UnprovenError

__all__ = ["Claim", "mu_of"]

_POINTS = 50  # epsilons at which a claim is read
_MOST_EPSILON = 50.0
_SIGMAS = 9.0  # thresholds further out happen less than once in 10^18 trials


@dataclass(frozen=True)
class Claim:
    """Bounds on a test that tells two neighbours apart.

    Parameters
    ----------
    pairs : tuple of (float, float)
        (epsilon, delta) that are claimed, all of them at once.
    mu : float, default infinity
        Gaussian differential privacy that is claimed.

    Notes
    -----
    With ``alarms`` the chance of a false alarm, each (epsilon, delta) allows at most
    ``exp(epsilon) * alarms + delta`` hits and ``1 - exp(-epsilon) * (1 - alarms - delta)``, and
    mu-GDP allows ``Phi(mu + Phi^-1(alarms))`` (Dong, Roth & Su 2022).

    Examples
    --------
    >>> Claim(((1.0, 0.0),)).most_hits(0.1) == 0.1 * math.e
    True
    >>> round(Claim((), mu=1.0).mu_at(0.1), 6)
    1.0
    """

    pairs: tuple[tuple[float, float], ...]
    mu: float = math.inf

    def most_hits(self, alarms: float) -> float:
        """Return the largest chance of a hit that is allowed."""
        bounds = [1.0, float(ndtr(self.mu + ndtri(alarms)))]
        for epsilon, delta in self.pairs:
            bounds.append(math.exp(epsilon) * alarms + delta)
            bounds.append(1 - math.exp(-epsilon) * (1 - alarms - delta))
        return max(alarms, min(bounds))

    def mu_at(self, alarms: float) -> float:
        """Return the mu of the largest chance of a hit that is allowed."""
        if not 0 < alarms < 1:
            return self.mu
        return float(ndtri(self.most_hits(alarms)) - ndtri(alarms))

    def and_also(self, other: Claim) -> Claim:
        """Return both claims at once."""
        return Claim((*self.pairs, *other.pairs), min(self.mu, other.mu))

    @classmethod
    def of(cls, events: Iterable[Event] | Guarantee) -> Claim:
        """Return what a guarantee claims, or what events that were fixed in advance do."""
        if isinstance(events, Guarantee):
            stated = ((events.epsilon, events.delta),)
            return cls(stated, math.inf).and_also(cls.of(events.events))
        parts = flatten(events)
        return cls(_pairs(parts), gaussian_of(parts))


def gaussian_of(events: Iterable[Event]) -> float:
    """Return the mu of a composition: mus add up in squares.

    That holds for adaptively chosen events too, as long as the sum stays below it on every path
    (Smith & Thakurta 2022).
    """
    counted = Counter(replace(event, label="", gate=None) for event in events)
    return math.sqrt(sum(times * mu_of(event) ** 2 for event, times in counted.items()))


def _pairs(events: tuple[Event, ...]) -> tuple[tuple[float, float], ...]:
    try:
        tight = (PLDAccountant(),) if all(map(PLDAccountant().supports, events)) else None
        using = tight or FAST_ACCOUNTANTS
        widest = epsilon_of(events, 1e-6, accountants=using)
        grid = np.linspace(0.0, min(widest, _MOST_EPSILON), _POINTS)
        found = [(float(e), delta_of(events, float(e), accountants=using)) for e in grid]
    except UnprovenError:
        return ()
    if all(PureAccountant().supports(event) for event in events):
        found.append((sum(pure_epsilon(event) for event in events), 0.0))
    return tuple(pair for pair in found if pair[0] <= _MOST_EPSILON)


def mu_of(event: Event) -> float:
    """Return the smallest mu of Gaussian DP that is known to cover an event; infinite if none.

    Continuous Gaussian noise has the mu ``sensitivity / sigma``. Any epsilon-DP event is covered by
    the Gaussian whose trade-off curve passes through the corner of randomised response,
    ``2 Phi^-1(exp(epsilon) / (1 + exp(epsilon)))``; trade-off curves of discrete laws have corners
    that lie on or above the Gaussian's, which is convex, so the whole curve does. The exponential
    mechanism has bounded range: its worst cases are pairs of two outcomes with log ratios t and t -
    epsilon (Dong, Durfee & Rogers 2020). For the discrete Gaussian and the exponential mechanism
    the largest mu of all corners is found numerically, for false alarms above 10^-18. Steps that
    read every row are Gaussian; for those that sample rows no mu is known here.

    Examples
    --------
    >>> from missdp.accounting import GaussianEvent, PureEvent
    >>> mu_of(GaussianEvent(sensitivity=2.0, sigma=4.0, discrete=False))
    0.5
    >>> round(mu_of(PureEvent(epsilon=1.0)), 3)
    1.232
    """
    if isinstance(event, SelectionEvent):
        return _bounded_range_mu(event.epsilon)
    if isinstance(event, LaplaceEvent | PureEvent):
        epsilon = pure_epsilon(event)
        return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))
    if isinstance(event, GaussianEvent):
        if not event.discrete:
            return event.sensitivity / event.sigma
        return _discrete_gaussian_mu(event.sigma) if event.sensitivity < 2 - 1e-9 else math.inf
    if isinstance(event, SampledGaussianEvent) and event.rate == 1:  # on a fine grid
        return math.sqrt(event.steps) / event.noise_multiplier
    return math.inf


def _bounded_range_mu(epsilon: float) -> float:
    if epsilon <= 0:
        return 0.0
    t = epsilon * np.linspace(0.0, 1.0, 2001)[1:-1]
    # The likelier outcome: chance q without the row, q exp(t) with it.
    log_q = np.log(-np.expm1(t - epsilon)) - t - np.log(-np.expm1(-epsilon))
    return float((ndtri_exp(log_q + t) - ndtri_exp(log_q)).max()) * (1 + 1e-6)


def _discrete_gaussian_mu(sigma: float) -> float:
    if sigma > 100:
        return (1 + sigma**-2) / sigma
    reach = math.ceil(sigma * (_SIGMAS + 4)) + 2
    x = np.arange(-reach, reach + 1, dtype=np.float64)
    mass = -(x**2) / (2 * sigma**2)
    tails: NDArray[np.float64] = np.logaddexp.accumulate(mass[::-1])[::-1]
    tails -= tails[0]
    # Corners with more than half false alarms mirror those with less; 0 is the first of these.
    tails = tails[reach:]
    tails = tails[: max(2, int((tails > log_ndtr(-_SIGMAS)).sum()))]
    return float((ndtri_exp(tails[:-1]) - ndtri_exp(tails[1:])).max())
