"""Measurements: the released numbers of a session, their noise, and the charged event."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pydantic.dataclasses

from missdp.accounting import Event
from missdp.serialization import Record
from missdp.types import Floats

Radius: TypeAlias = Callable[[float], float]
"""Function from a probability to the half-width that holds the noise of a number with it."""


@pydantic.dataclasses.dataclass(frozen=True)
class Total(Record):
    """A released number of rows with the variance of its noise (0: declared public)."""

    value: float
    variance: float

    @property
    def std(self) -> float:
        """Standard deviation of the noise."""
        return math.sqrt(self.variance)


@dataclass(frozen=True, eq=False)
class Measurement:
    """A released value, the mechanism that drew it, and the event that was charged for it.

    It has no exact value.

    Attributes
    ----------
    value
        The released value, for example an array of counts.
    mechanism
        The mechanism that drew the value, with the scale of its noise.
    event : Event
        The charged event.
    radius : callable or None
        Function from a probability to the half-width that holds the noise of each number with it.
    """

    value: Any
    mechanism: Any
    event: Event
    radius: Radius | None = None

    @property
    def values(self) -> Floats:
        """The released numbers."""
        return np.asarray(self.value, dtype=np.float64)
