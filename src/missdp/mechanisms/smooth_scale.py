"""A released upper bound of the noise scale: what honest error bars and Gaussian noise need.

The smooth bound S is private, and so is the noise scale. But the logarithm of
``T = max_j exp(-beta j) A_j`` (the smooth bound with weights own = 0, donee = 1) changes by at most
``beta`` between neighbours (`log_moves` says how far its rounding does), so it can be released with
ordinary noise; adding a quantile of that noise gives an upper bound that fails with a chosen
probability. ``own + donee * T`` bounds every query's S at this or a larger beta, so one release
serves all queries.

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

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.mechanisms.asks import Ask, check_real
from missdp.mechanisms.smooth_plan import reference_bound

__all__ = ["ReleasedScale", "ScaleRelease", "log_moves", "log_steps"]

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

    def ask(self, confidence: float) -> Ask:
        """Return what is asked: the rounded logarithm of the bound, in public steps."""
        if self.epsilon is not None:
            cost = Cost(currency="pure", amount=self.epsilon)
        else:
            cost = Cost(currency="zcdp", amount=self.rho or 0.0)
        moves = log_moves(self.beta(confidence))
        return Ask(label=_LABEL, cost=cost, own=moves, delta=self.delta or 0.0)

    def released(self, steps: float, confidence: float) -> ReleasedScale:
        """Return the upper bound that a noisy logarithm, in steps, stands for."""
        beta, failure = self.beta(confidence), self.failure(confidence)
        margin = _margin(beta, self.epsilon, self.rho, failure)
        level = math.exp(min(steps / _STEPS + margin + 2.0**-16, 700.0))
        return ReleasedScale(max(level, _least(beta)), beta, self.gaussian, failure)


@dataclass(frozen=True)
class ReleasedScale:
    """A released upper bound of T at ``beta``, too low with probability ``failure``; public."""

    donees: float
    beta: float
    gaussian: bool
    failure: float


def log_steps(bound: float) -> int:
    """Return the logarithm of a bound, rounded up to whole steps; private."""
    return math.ceil(math.log(bound) * _STEPS)


def log_moves(beta: float) -> int:
    """Return how far the rounded logarithm of a beta-smooth bound moves, in steps."""
    return math.ceil((beta + 2.0**-36) * _STEPS) + 1


def _least(beta: float) -> float:
    """What T is at least, on any table: A_j >= j."""
    return max(j * math.exp(-beta * j) for j in (math.floor(1 / beta), math.ceil(1 / beta)))


def _margin(beta: float, epsilon: float | None, rho: float | None, failure: float) -> float:
    if epsilon is not None:
        return log_moves(beta) / _STEPS / epsilon * math.log(1 / (2 * failure))
    assert rho is not None
    quantile = float(norm.isf(failure * (1 - 2.0**-10)))
    return log_moves(beta) / _STEPS / math.sqrt(2 * rho) * quantile


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
