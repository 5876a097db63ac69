"""Releases to come, before anything is computed, and released numbers. All of it is public."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.mechanisms.answers import Noise
from missdp.mechanisms.parameters import number

__all__ = ["Ask", "Noisy", "Released", "check_real"]

_MOST = 1e9


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A release to come, as far as it is public before anything is computed.

    Parameters
    ----------
    label : str
        For reports.
    cost : Cost or Noise
        What it may spend, in pure epsilon or rho; or the noise itself, for a question that reads no
        cell filled from other rows.
    reads : frozenset of str
        Attributes that the question may read.
    own : float, default 1
        How far one row of its own moves the result.
    moves : int, default 1
        How far one other row moves it, in units of ``own``, at most.
    dimension : int, default 1
        How many numbers the result has.
    observed : bool, default False
        Whether it is asked of the rows as they came, with their holes.
    gate : frozenset of str, default empty
        Rows are read only if all these attributes are observed in them; for ``observed`` ones.
    delta : float, default 0
        Probability that what is deduced from the answer is wrong, if that costs.
    """

    label: str
    cost: Cost | Noise
    reads: frozenset[str] = frozenset()
    own: float = 1
    moves: int = 1
    dimension: int = 1
    observed: bool = False
    gate: frozenset[str] = frozenset()
    delta: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "reads", frozenset(self.reads))
        object.__setattr__(self, "gate", frozenset(self.gate))
        if isinstance(self.cost, Cost) and self.cost.currency == "renyi":
            raise ParameterError("a question is paid for in pure epsilon or rho")
        if self.gate and not self.observed:
            raise ParameterError("a gate is for questions of the rows as they came")

    @property
    def epsilon(self) -> float:
        """Pure epsilon that fits into the cost: rho-zCDP follows from sqrt(2 rho)-DP."""
        assert isinstance(self.cost, Cost)
        return self.cost.amount if self.cost.currency == "pure" else math.sqrt(2 * self.cost.amount)

    @property
    def rho(self) -> float | None:
        """The cost if it is a rho."""
        zcdp = isinstance(self.cost, Cost) and self.cost.currency == "zcdp"
        return self.cost.amount if zcdp else None  # type: ignore[union-attr]


@dataclass(frozen=True)
class Noisy:
    """A released number and a function from a level to the half-width that holds its error."""

    value: float
    radius: Callable[[float], float] | None

    def within(self, level: float) -> tuple[float, float] | None:
        """Interval of the noiseless number."""
        if self.radius is None:
            return None
        width = self.radius(level)
        return self.value - width, self.value + width


@dataclass(frozen=True, eq=False)
class Released:
    """Released numbers.

    Parameters
    ----------
    values : ndarray of float
    radius : callable or None
        From a level to the half-width that holds the error of one number with that probability;
        None if the noise scale is private.
    """

    values: NDArray[np.float64]
    radius: Callable[[float], float] | None

    def each(self) -> list[Noisy]:
        """Return the numbers one by one."""
        return [Noisy(value, self.radius) for value in self.values.tolist()]


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
    return number(name, value, least=least, most=most, open_end=True)
