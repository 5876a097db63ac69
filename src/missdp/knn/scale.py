"""A released upper bound of the noise scale: what honest error bars and Gaussian noise need.

The smooth bound S is private, and so is the noise scale. But the logarithm of
``T = max_j exp(-beta j) A_j`` (the smooth bound with weights own = 0, donee = 1) changes by at most
``beta`` between neighbours, so it can be released with ordinary noise; adding a quantile of that
noise gives an upper bound that fails with a chosen probability. ``own + donee * T`` bounds every
query's S at this or a larger beta, so one release serves all queries.

With Gaussian noise on log T and a tiny failure probability delta, later queries may use plain
Gaussian noise at the released scale. *Proof.* Couple the output under D with one whose later
queries are replaced by their value on D' whenever the released bound is below M_0(D): the two
differ with probability at most delta, and the second is zCDP with respect to D' (each later query
then moves by at most own + donee * bound). So the total is (epsilon, delta' + delta)-DP for every
(epsilon, delta') that the zCDP parts give. ∎
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import norm

from missdp.accounting import ApproximateEvent, Event, GaussianEvent, LaplaceEvent
from missdp.errors import ParameterError
from missdp.knn.asks import check_real, laplace_event
from missdp.knn.bound import smooth_bound
from missdp.knn.profile import Profile
from missdp.mechanisms import NoiseSource
from missdp.mechanisms.noise import check_scale
from missdp.mechanisms.smooth_plan import reference_bound

__all__ = ["ReleasedScale", "ScaleRelease"]

_STEPS = 1 << 20
_LABEL = "upper bound of the noise scale"


@dataclass(frozen=True, kw_only=True)
class ScaleRelease:
    """How to pay for the released upper bound of the noise scale.

    Parameters
    ----------
    epsilon : float, optional
        Pure DP: for error bars.
    rho, delta : float, optional
        zCDP with failure probability ``delta``: for error bars and Gaussian noise.

    Raises
    ------
    ParameterError
        If neither or both are given, or out of range.

    Examples
    --------
    >>> from missdp.knn import ScaleRelease
    >>> ScaleRelease(epsilon=0.1).gaussian
    False
    """

    epsilon: float | None = None
    rho: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None) or (self.rho is None) != (
            self.delta is None
        ):
            raise ParameterError("pay for the scale with epsilon, or with rho and delta")
        check_real("epsilon or rho", self.epsilon if self.rho is None else self.rho, least=1e-9)
        if self.delta is not None:
            check_real("delta", self.delta, least=1e-100, most=0.1)

    @property
    def gaussian(self) -> bool:
        """Whether the bound may calibrate Gaussian noise."""
        return self.rho is not None

    def failure(self, confidence: float) -> float:
        """Probability that the bound is too low."""
        return self.delta if self.delta is not None else (1 - confidence) / 2

    def beta(self, confidence: float) -> float:
        """Smoothness of the released bound, by the public rule."""
        return _best_beta(self.epsilon, self.rho, self.failure(confidence))

    def events(self, confidence: float) -> tuple[Event, ...]:
        """What the release costs."""
        noise = self._noise(confidence)
        if self.delta is None:
            return (noise,)
        return (noise, ApproximateEvent(epsilon=0.0, delta=self.delta, label=f"{_LABEL} fails"))

    def _noise(self, confidence: float) -> LaplaceEvent | GaussianEvent:
        moves = _moves(self.beta(confidence))
        if self.epsilon is not None:
            return laplace_event(moves, self.epsilon, _LABEL)
        assert self.rho is not None
        sigma = check_scale("sigma", math.nextafter(moves / math.sqrt(2 * self.rho), math.inf))
        return GaussianEvent(sensitivity=moves, sigma=sigma, label=_LABEL)

    def release(self, profile: Profile, *, confidence: float, source: NoiseSource) -> ReleasedScale:
        """Release the bound; the caller has charged `events`."""
        beta = self.beta(confidence)
        exact = smooth_bound(profile, own=0.0, donee=1.0, beta=beta)
        steps = math.ceil(math.log(exact) * _STEPS)
        event = self._noise(confidence)
        if isinstance(event, LaplaceEvent):
            noise = int(source.discrete_laplace(event.scale, 1)[0])
        else:
            noise = int(source.discrete_gaussian(event.sigma, 1)[0])
        margin = _margin(beta, self.epsilon, self.rho, self.failure(confidence))
        level = math.exp(min((steps + noise) / _STEPS + margin + 2.0**-16, 700.0))
        return ReleasedScale(max(level, _least(beta)), beta, self.gaussian)


@dataclass(frozen=True)
class ReleasedScale:
    """A released upper bound of T at ``beta``; public."""

    donees: float
    beta: float
    gaussian: bool


def _least(beta: float) -> float:
    """What T is at least, on any table: A_j >= j."""
    return max(j * math.exp(-beta * j) for j in (math.floor(1 / beta), math.ceil(1 / beta)))


def _moves(beta: float) -> int:
    """Sensitivity of the rounded logarithm, in steps."""
    return math.ceil((beta + 2.0**-36) * _STEPS) + 1


def _margin(beta: float, epsilon: float | None, rho: float | None, failure: float) -> float:
    if epsilon is not None:
        return _moves(beta) / _STEPS / epsilon * math.log(1 / (2 * failure))
    assert rho is not None
    quantile = float(norm.isf(failure * (1 - 2.0**-10)))
    return _moves(beta) / _STEPS / math.sqrt(2 * rho) * quantile


@lru_cache(maxsize=128)
def _best_beta(epsilon: float | None, rho: float | None, failure: float) -> float:
    """The beta whose released bound is smallest on the public reference profile.

    At most an eighth of what the release costs, so that small shares of later queries, whose own
    beta must not be below it, can use the bound, too; that costs little.
    """
    most = (epsilon if epsilon is not None else math.sqrt(2 * (rho or 0.0))) / 8
    grid = np.geomspace(min(2.0**-12, most), most, 200).tolist()
    return float(
        min(
            grid,
            key=lambda beta: (
                math.log(reference_bound(beta, 0.0, 1.0)) + _margin(beta, epsilon, rho, failure)
            ),
        )
    )
