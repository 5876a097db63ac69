"""How many units that count alike would tell as much, where rows do not: Kish's effective size.

A unit counts what its rows do together, and units are independent. So a sum over units varies by
the sum of the squares of what they count: as if ``(Σ W)² / Σ W²`` units counted alike (Kish 1965).
That is never more than there are units, and as many as these where they do count alike.
"""

from __future__ import annotations

from dataclasses import dataclass

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
