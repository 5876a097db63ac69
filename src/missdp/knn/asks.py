"""What a query states before it computes anything: releases to come and their cost. Public."""

from __future__ import annotations

import math
from dataclasses import dataclass

from missdp.accounting import Event, GaussianEvent, LaplaceEvent
from missdp.errors import ParameterError
from missdp.knn.rows import QUANTA

__all__ = ["Ask", "Cost", "plain_event"]


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one query may spend: pure DP ``epsilon``, or zCDP ``rho``."""

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ParameterError("give epsilon, or rho, and not both")
        amount = self.epsilon if self.rho is None else self.rho
        if isinstance(amount, bool) or not (amount is not None and 0 < amount < math.inf):
            raise ParameterError("epsilon or rho must be finite and above 0")

    def share(self, part: float) -> Cost:
        """Return a part of the cost."""
        if self.epsilon is not None:
            return Cost(epsilon=self.epsilon * part)
        assert self.rho is not None
        return Cost(rho=self.rho * part)

    @property
    def as_epsilon(self) -> float:
        """Pure epsilon that fits in: rho-zCDP follows from sqrt(2 rho)-DP."""
        return self.epsilon if self.epsilon is not None else math.sqrt(2 * (self.rho or 0.0))


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A release to come, as far as it is public before anything is computed.

    Parameters
    ----------
    label : str
        For reports.
    cost : Cost
        What it may spend.
    depends : bool
        Whether it reads imputed values that depend on other rows.
    whole : int
        Weight ``own`` of the release (1 for counts, `QUANTA` for sums).
    moves : int
        Weight ``donee`` relative to own, roughly; used to choose the noise only.
    dimension : int
        Number of coordinates.
    """

    label: str
    cost: Cost
    depends: bool
    whole: int = QUANTA
    moves: int = 1
    dimension: int = 1


def plain_event(ask: Ask, sensitivity: int) -> Event:
    """Laplace or Gaussian noise for a sum of known integer sensitivity."""
    if ask.cost.epsilon is not None:
        scale = math.nextafter(sensitivity / ask.cost.epsilon, math.inf)
        return LaplaceEvent(sensitivity=sensitivity, scale=scale, label=ask.label)
    assert ask.cost.rho is not None
    sigma = math.nextafter(sensitivity / math.sqrt(2 * ask.cost.rho), math.inf)
    return GaussianEvent(sensitivity=sensitivity, sigma=sigma, label=ask.label)
