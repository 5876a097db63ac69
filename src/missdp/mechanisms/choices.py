"""Private choices: scores of candidates, and the laws by which one of them is selected."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, PureEvent, SelectionEvent, scale_for
from missdp.errors import ParameterError
from missdp.mechanisms.laws import plain_function, read_only
from missdp.mechanisms.noise import (
    NoiseSource,
    SelectionNoise,
    above,
    check_scale,
    epsilon_paid,
    other_kind,
    too_far,
)

Values: TypeAlias = tuple[Any, ...]


class Facts(tuple[Any, ...]):
    """Released values that a score takes, and that are not changed as long as they are kept."""

    def __init__(self, values: Iterable[Any]) -> None:
        del values
        self.mark = object()  # by which a score is remembered, without keeping the values


@dataclass(frozen=True)
class Score:
    """How much a candidate deserves to be selected: a pure function of its exact counts.

    Parameters
    ----------
    function : callable
        ``function(counts, *given)`` returns a finite number. A plain function without a closure or
        defaults, so that it cannot carry counts away: it sees them, what is given, and nothing
        else.
    sensitivity : float
        How far one row can move the score: the author's proof, rounding of the function included.

    Examples
    --------
    >>> def rows_at_first_level(counts):
    ...     return float(counts[0])
    >>> Score(rows_at_first_level, sensitivity=1.0).sensitivity
    1.0
    """

    function: Callable[..., float]
    sensitivity: float

    def __post_init__(self) -> None:
        plain_function(self.function, "a score")
        if isinstance(self.sensitivity, bool) or not 0 < self.sensitivity < math.inf:
            raise ParameterError(f"sensitivity must be above 0, got {self.sensitivity}")

    def of(self, counts: NDArray[np.int64], given: Values = ()) -> float:
        """Return the score; private."""
        return float(self.function(read_only(counts), *map(read_only, given)))


SelectionMethod = Literal["exponential", "permute-and-flip"]
"""How one of several candidates is selected privately."""


@dataclass(frozen=True)
class Best:
    """The law of the largest score after adding noise to each."""

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
        """Return the log of how much likelier an answer is given ``exact`` than given ``other``."""
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
    """Return what a selection is charged as, and its law."""
    if method not in get_args(SelectionMethod):
        raise ParameterError(f"method must be one of {get_args(SelectionMethod)}, got {method!r}")
    # As floats of 64 bits, whatever was passed, and rounded up: the scale keeps the promise.
    least = scale_for(float(sensitivity), float(epsilon), count=2)
    scale = check_scale("2 * sensitivity / epsilon", least)
    if method == "exponential":
        return SelectionEvent(epsilon=float(epsilon), **facts), Best(scale)
    return PureEvent(epsilon=float(epsilon), **facts), Best(scale, "exponential")
