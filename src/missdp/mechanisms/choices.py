"""Private choices: the laws by which one of several candidates is selected for its score."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, PureEvent, SelectionEvent, scale_for
from missdp.errors import ParameterError
from missdp.mechanisms.noise import (
    NoiseSource,
    SelectionNoise,
    above,
    check_scale,
    epsilon_paid,
    other_kind,
    too_far,
)

__all__ = ["Best", "SelectionMethod", "choice", "selection_scale"]


SelectionMethod = Literal["exponential", "permute-and-flip"]


@dataclass(frozen=True)
class Best:
    """The law of the largest score after adding noise to each.

    Parameters
    ----------
    scale : float
        Of the noise, above 0.
    noise : {"gumbel", "exponential"}
        Gumbel noise is the exponential mechanism, exponential noise is permute-and-flip.

    Examples
    --------
    >>> from missdp.mechanisms import SecureNoise
    >>> Best(1.0).draw(np.array([0.0, 900.0]), SecureNoise())
    1
    """

    scale: float
    noise: SelectionNoise = "gumbel"

    def draw(self, exact: NDArray[np.float64], source: NoiseSource) -> int:
        """Return the position of the candidate that is selected."""
        return source.noisy_max(exact, self.scale, noise=self.noise)

    def exceeds(
        self, event: Event, exact: NDArray[np.float64], other: NDArray[np.float64]
    ) -> str | None:
        """Return why an event does not pay: some score moves too far for its epsilon.

        A `SelectionEvent` does not pay for permute-and-flip, whose range is not bounded.
        """
        paid = epsilon_paid(event)
        if paid is None or (self.noise != "gumbel" and isinstance(event, SelectionEvent)):
            return other_kind(event, "a selection")
        moved = float(np.abs(np.subtract(exact, other, dtype=np.float64)).max(initial=0.0))
        most = paid * self.scale / 2
        return too_far(moved, most, "a score") if above(moved, most) else None

    def log_ratio(
        self, answer: int, exact: NDArray[np.float64], other: NDArray[np.float64]
    ) -> float:
        """Return the log of how much likelier the answer is given ``exact`` than given ``other``.

        Examples
        --------
        >>> round(Best(1.0).log_ratio(1, np.array([0.0, 1.0]), np.array([0.0, 0.0])), 3)
        0.38
        """
        here, there = (self._log_chance(int(answer), scores) for scores in (exact, other))
        return here - there

    def _log_chance(self, answer: int, scores: NDArray[np.float64]) -> float:
        z = np.asarray(scores, dtype=np.float64) / self.scale
        if self.noise == "gumbel":
            return float(z[answer] - np.logaddexp.reduce(z))
        # A candidate flips at a uniform time t, if no other has passed its coin before. The chance
        # of that is a polynomial of t, of lower degree than these nodes integrate exactly.
        coins = np.exp(z - z.max())
        nodes, weights = np.polynomial.legendre.leggauss(len(z) // 2 + 1)
        passed = np.delete(coins, answer)[:, np.newaxis] * (nodes + 1) / 2
        first = float((weights * np.prod(1 - passed, axis=0)).sum() / 2)
        return float(z[answer] - z.max()) + math.log(first)


def choice(
    epsilon: float, sensitivity: float, method: SelectionMethod, **facts: Any
) -> tuple[Event, Best]:
    """Return what a selection is charged as, and its law.

    Parameters
    ----------
    epsilon, sensitivity : float
    method : {"exponential", "permute-and-flip"}
        Permute-and-flip never has a larger expected error (McKenna & Sheldon 2020), but its range
        is not bounded: it is pure DP and no more, so it pays only where a budget counts that.
    **facts
        Label, gate and adjacency of the event.

    Examples
    --------
    >>> choice(0.5, 1.0, "permute-and-flip")[0].epsilon
    0.5
    """
    if method not in get_args(SelectionMethod):
        raise ParameterError(f"method must be one of {get_args(SelectionMethod)}, got {method!r}")
    scale = selection_scale(epsilon, sensitivity)
    if method == "exponential":
        return SelectionEvent(epsilon=float(epsilon), **facts), Best(scale)
    return PureEvent(epsilon=float(epsilon), **facts), Best(scale, "exponential")


def selection_scale(epsilon: float, sensitivity: float) -> float:
    """Return the scale of the noise with which a selection costs epsilon."""
    # As floats of 64 bits, whatever was passed, and rounded up: the scale keeps the promise.
    least = scale_for(float(sensitivity), float(epsilon), count=2)
    return check_scale("2 * sensitivity / epsilon", least)
