"""Released numbers one by one, each with the error bar that its mechanism states."""

from __future__ import annotations

from dataclasses import dataclass

from missdp.errors import ParameterError
from missdp.session.measurement import Measurement, Radius


@dataclass(frozen=True)
class Noisy:
    """A released number with its error bar.

    ``radius(level)`` is the half-width that holds the noise with probability ``level``.
    """

    value: float
    radius: Radius

    def within(self, level: float, *, times: float = 1.0) -> tuple[float, float]:
        """Return an interval of the noiseless number, with ``times`` times less noise."""
        width = self.radius(level) / times
        return self.value - width, self.value + width


def noisy_numbers(measurement: Measurement) -> list[Noisy]:
    """Return the numbers of a measurement one by one, each with its error bar.

    Raises
    ------
    ParameterError
        If the mechanism states no error bar.
    """
    if measurement.radius is None:
        raise ParameterError("the mechanism of this measurement states no error bar")
    return [Noisy(value, measurement.radius) for value in measurement.values.tolist()]
