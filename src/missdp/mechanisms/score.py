"""Scores by which a door selects a marginal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.mechanisms.laws import plain_function, read_only

__all__ = ["Score", "Values"]

Values: TypeAlias = tuple[Any, ...]


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
