"""Released numbers one by one, each with the error bar that its mechanism states."""

from __future__ import annotations

from dataclasses import dataclass

from missdp.errors import ParameterError
from missdp.session.measurement import Measurement, Radius


@dataclass(frozen=True)
class Noisy:
    """A released number, and what is publicly known of its error.

    ``radius`` is from a level to the half-width that holds the noise with that probability.
    """

    value: float
    radius: Radius

    def within(self, level: float, *, times: float = 1.0) -> tuple[float, float]:
        """Interval of the noiseless number, or what it were if noise were that many times less."""
        width = self.radius(level) / times
        return self.value - width, self.value + width


def noisy_numbers(measurement: Measurement) -> list[Noisy]:
    """Return the numbers of a measurement one by one.

    Raises
    ------
    ParameterError
        If the mechanism states no error bar.
    """
    if measurement.radius is None:
        raise ParameterError("the mechanism of this measurement states no error bar")
    return [Noisy(value, measurement.radius) for value in measurement.values.tolist()]
