"""What a group of mechanisms behind one gate costs, as a convex function of its weight."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from missdp.ground_truth.bounds import amplified_epsilon

__all__ = ["GroupCost", "LinearCost", "PureCost", "RenyiCost"]


class GroupCost(Protocol):
    """A cost c(p, w) that is 0 at w = 0, convex in w, linear in w at p = 1, and rises with p.

    ``p`` is the probability that the gate is open, ``w`` the summed weight of its mechanisms.
    """

    def value(self, probability: float, weight: float) -> float:
        """Return c(p, w)."""
        ...

    def slope(self, probability: float, weight: float) -> float:
        """Return the derivative of c(p, w) in w."""
        ...


@dataclass(frozen=True)
class LinearCost:
    """The paper's p·ε: **not** a bound on any privacy loss.

    Examples
    --------
    >>> LinearCost().value(0.5, 1.0)
    0.5
    """

    def value(self, probability: float, weight: float) -> float:
        """Return p·w."""
        return probability * weight

    def slope(self, probability: float, weight: float) -> float:  # noqa: ARG002
        """Return p."""
        return probability


@dataclass(frozen=True)
class PureCost:
    """The sound log(1 + p(e^ε - 1)) of pure mechanisms; weights are epsilons.

    Examples
    --------
    >>> round(PureCost().value(0.5, 1.0), 4)
    0.6201
    """

    def value(self, probability: float, weight: float) -> float:
        """Return log(1 + p(e^w - 1))."""
        return amplified_epsilon(probability, weight)

    def slope(self, probability: float, weight: float) -> float:
        """Return p/(p + (1 - p)e^{-w})."""
        if probability == 0.0:
            return 0.0
        return probability / (probability + (1.0 - probability) * math.exp(-weight))


@dataclass(frozen=True)
class RenyiCost:
    """Rényi divergence of integer order of a gated Gaussian group; weights are 1/σ².

    It only ranks partitions; what is reported comes from loss distributions.

    Parameters
    ----------
    order : int
        Rényi order, at least 2.

    Examples
    --------
    >>> RenyiCost(2).value(1.0, 0.5)
    0.5
    """

    order: int

    def value(self, probability: float, weight: float) -> float:
        """Return log E[(1 - p + p·l)^α]/(α - 1) for the Gaussian likelihood ratio l."""
        return self._moment(probability, weight)[0]

    def slope(self, probability: float, weight: float) -> float:
        """Return the derivative in the weight."""
        return self._moment(probability, weight)[1]

    def _moment(self, p: float, w: float) -> tuple[float, float]:
        alpha = self.order
        if p == 0.0:
            return 0.0, 0.0
        if p == 1.0:
            return alpha * w / 2.0, alpha / 2.0
        terms = [
            math.log(math.comb(alpha, k))
            + (alpha - k) * math.log1p(-p)
            + k * math.log(p)
            + k * (k - 1) * w / 2.0
            for k in range(alpha + 1)
        ]
        top = max(terms)
        shares = [math.exp(term - top) for term in terms]
        total = math.fsum(shares)
        slope = math.fsum(k * (k - 1) / 2.0 * share for k, share in enumerate(shares)) / total
        return max(0.0, top + math.log(total)) / (alpha - 1), slope / (alpha - 1)
