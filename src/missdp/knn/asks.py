"""What a query states before it computes anything: releases to come and their cost. Public."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import Any

from missdp.accounting import Event, GaussianEvent, LaplaceEvent, scale_for
from missdp.errors import ParameterError
from missdp.knn.rows import QUANTA
from missdp.mechanisms.noise import check_scale

__all__ = ["Ask", "Cost", "check_real", "laplace_event", "plain_event"]

# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40
_MOST = 1e9


def check_real(name: str, value: Any, *, least: float = 0.0, most: float = _MOST) -> float:
    """Return a public parameter that must be a number above ``least`` and at most ``most``.

    Raises
    ------
    ParameterError
        If it is not.

    Examples
    --------
    >>> check_real("epsilon", 1)
    1.0
    """
    found = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not least < found <= most:
        raise ParameterError(f"{name} must be a finite number above {least:g} and at most {most:g}")
    return found


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one query may spend: pure DP ``epsilon``, or zCDP ``rho``."""

    epsilon: float | None = None
    rho: float | None = None

    def __post_init__(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ParameterError("give epsilon, or rho, and not both")
        check_real("epsilon or rho", self.epsilon if self.rho is None else self.rho)

    def share(self, part: float) -> Cost:
        """Return a part of the cost; shares never add up to more than the whole."""
        if self.epsilon is not None:
            return Cost(epsilon=self.epsilon * part * _SHARE)
        assert self.rho is not None
        return Cost(rho=self.rho * part * _SHARE)

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


def laplace_event(sensitivity: int, epsilon: float, label: str) -> LaplaceEvent:
    """Laplace noise that costs at most ``epsilon``, refused if it cannot be drawn."""
    scale = check_scale("scale", scale_for(sensitivity, epsilon))
    return LaplaceEvent(sensitivity=sensitivity, scale=scale, label=label)


def plain_event(ask: Ask, sensitivity: int) -> Event:
    """Laplace or Gaussian noise for a sum of known integer sensitivity."""
    if ask.cost.epsilon is not None:
        return laplace_event(sensitivity, ask.cost.epsilon, ask.label)
    assert ask.cost.rho is not None
    sigma = math.nextafter(sensitivity / math.sqrt(2 * ask.cost.rho), math.inf)
    check_scale("sigma", sigma)
    return GaussianEvent(sensitivity=sensitivity, sigma=sigma, label=ask.label)
