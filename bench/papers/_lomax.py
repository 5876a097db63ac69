"""Lomax noise in proportion to a smooth bound, for comparison with the papers' figures.

The noise is a Laplace vector over a Gamma(shape) variable. Its density is proportional to
``(1 + |x|_1) ** -(shape + d)`` on d coordinates. Its scale stays private, so an answer has no error
bar, and the library does not have this noise.

*Theorem.* The worst log-ratio under any joint shift ``|Delta|_1 <= alpha`` and dilation ``exp(s)``,
``|s| <= beta``, is exactly ``max(shape * beta, (shape + d) * log(1 + alpha) + d * beta)``.
*Proof.* With r = |x|_1 the log-ratio is (shape + d) log[(1 + |e^s x + Delta|) / (1 + r)] - s d, at
most (shape + d) log[(1 + alpha + e^s r) / (1 + r)] - s d with equality for a Delta along x. The
bracket is monotone in r from 1 + alpha (at 0) to e^s (at infinity). So the supremum is the larger
of (shape + d) log(1 + alpha) - s d, worst at s = -beta, and shape * s, worst at s = beta. ∎
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from missdp.statistics.smooth_sensitivity import reference_bound

LEVEL = 4.0  # rows that one row moves on the reference profile, at which the noise is planned


@dataclass(frozen=True, kw_only=True)
class Lomax:
    """Lomax noise of d coordinates, of the scale bound / alpha, for a beta-smooth bound."""

    shape: int
    alpha: float
    beta: float
    dimension: int = 1

    @property
    def loss(self) -> float:
        """Exact privacy loss of a release."""
        shifted = (self.shape + self.dimension) * math.log1p(self.alpha)
        return max(self.shape * self.beta, shifted + self.dimension * self.beta)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of one coordinate, per unit of the bound, for a shape above 2."""
        return math.sqrt(2 / ((self.shape - 1) * (self.shape - 2))) / self.alpha

    def quantile(self, level: float) -> float:
        """Half-width that holds one coordinate with probability ``level``, per unit of bound."""
        return math.expm1(-math.log1p(-level) / self.shape) / self.alpha


def plan_lomax(
    epsilon: float,
    *,
    row_weight: float = 1.0,
    recipient_weight: float = 1.0,
    dimension: int = 1,
) -> Lomax:
    """Return the noise with the smallest standard deviation on the profile M_j = 4 + j."""
    plans = []
    for shape in range(max(3, dimension + 1), max(64, 8 * dimension) + 1):
        beta = epsilon / shape
        alpha = math.expm1(min((epsilon - dimension * beta) / (shape + dimension), 500.0))
        plans.append(Lomax(shape=shape, alpha=alpha, beta=beta, dimension=dimension))
    return min(
        plans,
        key=lambda noise: (
            noise.standard_deviation
            * reference_bound(noise.beta, row_weight, recipient_weight, LEVEL)
        ),
    )
