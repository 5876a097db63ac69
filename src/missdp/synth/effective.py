"""How many units that count alike would tell as much, where rows do not: Kish's effective size.

A unit counts what its rows do together, and units are independent. So a sum over units varies by
the sum of the squares of what they count: as if ``(Σ W)² / Σ W²`` units counted alike (Kish 1965).
That is never more than there are units, and as many as these where they do count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

from missdp.accounting import Guarantee
from missdp.accounting.filters import ROW
from missdp.mechanisms.door import Door, Noise, Total, UnitSums
from missdp.record import Record
from missdp.schema import SurveyWeight, Unit
from missdp.synth.split import Part, Split

SIZES = "what units count"
_SHARE = 0.02
_CLEARLY = 2.0  # standard deviations: of less it is not known that it is more than nothing


@dataclass(frozen=True, kw_only=True)
class EffectiveSize(Record):
    """What was released of how much units count; all numbers are in rows that count as one.

    Parameters
    ----------
    total : float
        What all units count together.
    square, std : float
        The sum of the squares of what each counts over ``bound``, and the noise of that sum.
    bound : float
        How much a unit counts at most.
    weight : SurveyWeight or None
        By which rows count; if None, each counts as one.

    Examples
    --------
    >>> size = EffectiveSize(total=1000.0, square=600.0, std=2.0, bound=5.0, weight=None)
    >>> size.design, size.units
    (3.0, 333.3333333333333)
    """

    total: float
    square: float
    std: float
    bound: float
    weight: SurveyWeight | None

    @property
    def design(self) -> float:
        """By how much sums vary more than those of as many independent rows that count as one."""
        square = max(self.square, _CLEARLY * self.std) * self.bound
        least = 1.0 if self.weight is None else 0.0
        return min(self.bound, max(least, square / max(self.total, 1.0)))

    @property
    def units(self) -> float:
        """The effective size."""
        return max(1.0, self.total / self.design)

    @property
    def full(self) -> tuple[float, float]:
        """Least and greatest share of what counts that is of units that count the bound.

        Reckoned from the mean of what a row's unit counts, the sum of squares over the sum, noise
        included: units that count less count 1 to ``bound - 1`` rows, or any part of one by weight.
        """
        around = _CLEARLY * self.std * 2 * self.bound / max(self.total, 1.0)
        mean = self.square * self.bound / self.total if self.total > 0 else self.bound
        if self.weight is not None:
            return 0.0, min(1.0, max(0.0, (mean + around) / self.bound))
        rest = max(1.0, self.bound - 1)
        low, high = mean - around - rest, (mean + around - 1) / rest
        return min(1.0, max(0.0, low)), min(1.0, max(0.0, high))

    @property
    def population(self) -> float | None:
        """The sum of all survey weights, each up to the largest that counts."""
        return None if self.weight is None else max(0.0, self.total) * self.weight.upper


def sizes_part(unit: Unit | None, weight: SurveyWeight | None) -> list[Part]:
    """Return the part of the budget for what units count, where they may not count alike."""
    alike = weight is None and (unit is None or unit.bound == 1)
    return [] if alike else [Part(SIZES, _SHARE)]


def release_sizes(
    door: Door, split: Split, unit: Unit | None, weight: SurveyWeight | None
) -> EffectiveSize | None:
    """Release what units count, if that is a part of the budget."""
    if SIZES not in split:
        return None
    found = door.measure(UnitSums(), split.cost(SIZES))
    assert isinstance(found.mechanism, Noise)
    bound, (total, square) = 1 if unit is None else unit.bound, found.values.tolist()
    std = found.mechanism.std
    return EffectiveSize(total=total, square=square, std=std, bound=float(bound), weight=weight)


def better_total(size: EffectiveSize, total: Total) -> float:
    """Return what all rows count, by the release that tells it better."""
    return total.value if total.std <= size.std else size.total


def left_out(size: EffectiveSize | None, guarantee: Guarantee, *, weighed: bool) -> str:
    """Say what is known, from what was released, of rows and weight that did not take part."""
    unit, own = guarantee.unit, "to tell it takes a release of its own"
    if unit == ROW and not weighed:
        return "No row was left out for its unit, and none counts less than one."
    if unit == ROW and size is not None:
        return (
            f"At most about {size.full[1]:.0%} of the weight that counts may be of rows whose "
            "weight is at the largest that counts: only of these was weight cut off, if of any. "
            "How much is not known; compare the sum of the weights with a total that is known."
        )
    if size is not None and not weighed:
        low, high = size.full
        return (
            f"About {low:.0%} to {high:.0%} of the rows that took part belong to a {unit} with "
            f"{guarantee.max_rows} of them, as many as may: only these can have had more. How many "
            f"rows did not take part is not known: {own}."
        )
    cut = ", or how much weight was cut off," if weighed else ""
    return f"How many rows of a {unit} did not take part{cut} is not known: {own}."
