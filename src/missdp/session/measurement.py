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
"""Function from a probability to a half-width that holds the noise with this probability."""


@pydantic.dataclasses.dataclass(frozen=True)
class Total(Record):
    """A released number of rows with the variance of its noise.

    Parameters
    ----------
    value : float
        The number of rows. Released, or declared public. It may be negative if noise is large.
    variance : float
        Variance of the noise, in squared rows, at least 0. It is 0 if the number was declared
        public.

    Raises
    ------
    ParameterError
        If a field has the wrong type.

    Examples
    --------
    >>> from missdp.session import Total
    >>> Total(1003.0, 4.0).std
    2.0
    """

    value: float
    variance: float

    @property
    def std(self) -> float:
        """Return the standard deviation of the noise of this number of rows.

        Returns
        -------
        float
            In rows, at least 0. It is 0 if the number was declared public. Public.
        """
        return math.sqrt(self.variance)


@dataclass(frozen=True, eq=False)
class Measurement:
    """A released answer of a query, with its noise and the charged accounting event.

    `Session.measure` returns it. It contains no exact value, so it may be stored and published.

    Attributes
    ----------
    value : object
        The released answer, for example an array of noisy counts in rows.
    mechanism : object
        The mechanism that drew the value, with the scale of its noise.
    event : Event
        The charged accounting event.
    radius : callable or None
        Function from a probability to the half-width that holds the noise of each number with this
        probability. None if it is not known.

    Examples
    --------
    >>> from missdp.session import Measurement
    >>> from missdp.session import Noise
    >>> noise = Noise("laplace", 2.0)
    >>> event = noise.event(1.0, required=None, label="number of rows by sex")
    >>> Measurement([30, 51], noise, event).values.tolist()
    [30.0, 51.0]
    """

    value: Any
    mechanism: Any
    event: Event
    radius: Radius | None = None

    @property
    def values(self) -> Floats:
        """Return the released numbers of this measurement as an array of floats.

        Returns
        -------
        ndarray of float64, in the shape of ``value``
            In the unit of ``value``. Released.
        """
        return np.asarray(self.value, dtype=np.float64)
