"""Amplification of (ε, δ) by one gate, and by several that have no attribute in common.

All steps of a composition behind one gate share the same gate, so one Bernoulli(p) draw per row
decides whether they read it. That is not a fresh subsample at each step: p is never multiplied
into the sampling rate of DP-SGD. Why loss distributions of disjoint gates may be composed, adaptive
caps among them, is proven in docs/referees/proofs.md.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

import numpy as np

from missdp.accounting import costs
from missdp.accounting.events import Event
from missdp.accounting.exact import boundary
from missdp.errors import UnprovenError, number
from missdp.types import Floats

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution


_INTERVAL = 1e-4
_TAIL = 1e-15  # mass of losses that are not told apart from infinite ones


def gated_delta(epsilon: float, *, probability: float, profile: Callable[[float], float]) -> float:
    r"""Return the privacy profile, at one ε̄, of a composition behind one gate.

    Parameters
    ----------
    epsilon : float
        ε̄ >= 0 at which to evaluate.
    probability : float
        p in [0, 1]: the probability that the gate is open, or an upper bound on it.
    profile : callable
        δ(ε) for ε >= 0 of the ungated composition, non-increasing, valid in both directions of
        add-remove adjacency.

    Returns
    -------
    float
        δ̄(ε̄), the larger of the two directions.

    Notes
    -----
    Let Q be the output law without the row, P the law when the gate is open, and
    P̄ = (1-p)Q + pP the law with the row.

    *Add direction* (P̄ against Q). P̄ - e^ε̄ Q = p[P - (1 + (e^ε̄ - 1)/p) Q], so taking the positive
    part gives δ̄(ε̄) = p·δ(log(1 + (e^ε̄ - 1)/p)), exactly.

    *Remove direction* (Q against P̄). Q - e^ε̄ P̄ = cQ - p e^ε̄ P with c = 1 - (1-p)e^ε̄. If c <= 0 it
    is nowhere positive: δ̄ = 0. Otherwise δ̄(ε̄) = c·δ(log(p e^ε̄/c)), exactly.

    Both rise with p: with L = dP/dQ they are expectations under Q of a convex function of
    1 + p(L - 1), whose mean is 1. So an upper bound on p is enough, row by row, and mechanisms
    inside may be gated further. Source: Balle, Barthe & Gaboardi 2018.

    Examples
    --------
    >>> import math
    >>> step = lambda e: 0.0 if e >= 1.0 else 1 - math.exp(e - 1.0)   # a pure 1-DP profile
    >>> gated_delta(math.log(1 + 0.5 * (math.e - 1)), probability=0.5, profile=step)
    0.0
    """
    p, epsilon = number("probability", probability, most=1.0), number("epsilon", epsilon)
    if p == 0.0:
        return 0.0
    if epsilon > 700.0:
        return p * profile(epsilon)
    inner, factor = _removing(np.array([epsilon]), p)
    add = p * profile(float(_adding(epsilon, p)))
    return max(add, float(factor[0]) * profile(float(inner[0])) if factor[0] > 0.0 else 0.0)


def _adding(epsilon: float | Floats, p: float) -> Floats:
    """Return at which ε of the ungated profile the one with the row against without is known."""
    return np.asarray(np.log1p(np.expm1(epsilon) / p))


def _removing(epsilon: Floats, p: float) -> tuple[Floats, Floats]:
    """Return the same for the other direction, and its factor: 0 where it is nowhere positive."""
    shrunk = np.maximum(0.0, 1.0 + np.expm1(-epsilon) / p)
    factor = np.maximum(0.0, 1.0 - (1.0 - p) * np.exp(np.minimum(epsilon, 700.0)))
    factor = np.where(shrunk > 0.0, factor, 0.0)
    return -np.log(np.where(shrunk > 0.0, shrunk, 1.0)), factor


def gated_epsilon(delta: float, *, probability: float, profile: Callable[[float], float]) -> float:
    """Return the smallest ε̄ at which `gated_delta` is at most ``delta``, rounded up.

    Parameters
    ----------
    delta : float
        Target δ̄ in (0, 1), or 0 for a profile that reaches 0.
    probability, profile
        As for :func:`gated_delta`.

    Raises
    ------
    UnprovenError
        If the profile does not fall to ``delta`` below ε̄ = 1000.

    Examples
    --------
    >>> import math
    >>> pure = lambda e: max(0.0, 1 - math.exp(e - 1.0))
    >>> round(gated_epsilon(0.0, probability=0.5, profile=pure), 4)
    0.6201
    """
    goal = number("delta", delta, most=1.0)

    def fits(epsilon: float) -> bool:
        return gated_delta(epsilon, probability=probability, profile=profile) <= goal

    if fits(0.0):
        return 0.0
    high = 0.5
    while not fits(high):
        high *= 2.0
        if high > 1000.0:
            raise UnprovenError("the privacy profile never falls to this delta")
    return boundary(fits, 0.0, high)[1]


def gate_loss_distribution(
    loss: PrivacyLossDistribution, probability: float, *, interval: float = _INTERVAL
) -> PrivacyLossDistribution:
    r"""Return the privacy loss distribution of a composition behind one gate.

    Parameters
    ----------
    loss : dp_accounting PrivacyLossDistribution
        Of the ungated composition, pessimistic, for add-remove adjacency.
    probability : float
        p, as for :func:`gated_delta`.
    interval : float
        The grid of ``loss``, and of what is returned.

    Returns
    -------
    dp_accounting PrivacyLossDistribution
        Pessimistic; compose it with those of other gates that share no attribute with this one.

    Notes
    -----
    The two profiles of `gated_delta` are computed on a grid and joined by straight lines in e^ε,
    which lie above them, since divergences are convex in e^ε. At ε < 0 each follows from the
    other: the divergence at e^ε is 1 - e^ε plus e^ε times that of the other direction at e^{-ε}.

    Examples
    --------
    >>> from dp_accounting.pld import privacy_loss_distribution as pld
    >>> gaussian = pld.from_gaussian_mechanism(1.0)
    >>> gated = gate_loss_distribution(gaussian, 0.5)
    >>> gated.get_epsilon_for_delta(1e-6) < gaussian.get_epsilon_for_delta(1e-6)
    True
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    p = number("probability", probability, most=1.0)
    if p == 1.0:
        return loss
    if p == 0.0:
        return privacy_loss_distribution.identity(interval)
    known = _profile(loss, interval)
    largest = interval * (len(known) - 1)
    steps = math.ceil(np.logaddexp(math.log1p(-p), math.log(p) + largest) / interval) + 1
    if known[-1]:  # then the shut gate may tell as well, by at most -log(1 - p)
        steps = max(steps, math.ceil(-math.log1p(-p) / interval) + 1)
    epsilons = interval * np.arange(steps + 1)
    inner, factor = _removing(epsilons, p)
    present = p * _between(known, interval, _adding(epsilons, p))
    absent = factor * _between(known, interval, inner)

    def dots(ahead: Floats, behind: Floats) -> pld_pmf.PLDPmf:
        below = -np.expm1(-epsilons[:0:-1]) + np.exp(-epsilons[:0:-1]) * behind[:0:-1]
        deltas = np.clip(np.append(below, ahead), 0.0, 1.0)
        # Rounding must not make a divergence rise with ε.
        deltas = np.maximum.accumulate(deltas[::-1])[::-1]
        return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(
            interval, -steps, steps, deltas
        )

    return privacy_loss_distribution.PrivacyLossDistribution(
        dots(present, absent), dots(absent, present)
    )


@lru_cache(maxsize=8)
def _profile(loss: PrivacyLossDistribution, interval: float) -> Floats:
    """Return δ on the grid, up to the largest finite loss."""
    outright = float(loss.get_delta_for_epsilon(math.inf))
    largest = float(loss.get_epsilon_for_delta(min(1.0, outright + _TAIL)))
    epsilons = interval * np.arange(math.ceil(largest / interval) + 2)
    return np.asarray(np.maximum(0.0, loss.get_delta_for_epsilon(epsilons)))


def _between(known: Floats, interval: float, epsilons: Floats) -> Floats:
    """Return δ at any ε: between two losses of the grid it is a straight line in e^ε."""
    place = np.minimum(np.floor(epsilons / interval), len(known) - 2).astype(int)
    part = np.expm1(epsilons - interval * place) / math.expm1(interval)
    slope = known[place + 1] - known[place]
    return np.asarray(known[place] + np.clip(part, 0.0, 1.0) * slope)


def loss_behind_gates(blocks: Iterable[tuple[float, Sequence[Event]]]) -> PrivacyLossDistribution:
    """Return the loss of events behind disjoint gates, each group by the chance of its gate."""
    alike = Counter((p, tuple(map(costs.tabulated, events))) for p, events in blocks)
    return _composed(tuple(sorted(alike.items(), key=repr)))  # the last digits depend on the order


@lru_cache(maxsize=4)
def _composed(
    groups: tuple[tuple[tuple[float, tuple[Event, ...]], int], ...],
) -> PrivacyLossDistribution:
    """Compose once for what is stated and for the check of it."""
    losses = []
    for (p, events), times in groups:
        group = gate_loss_distribution(costs.compose(events), p)
        losses.append(group.self_compose(times) if times > 1 else group)
    return reduce(type(losses[0]).compose, losses)
