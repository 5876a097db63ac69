"""Rules as they are computed with, once they are bound to the attributes of a schema."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TypeAlias

import numpy as np

from missdp.schema.dates import Resolution, completed_years
from missdp.schema.logic import Cells, CellsByName, Predicate, Truth
from missdp.schema.numeric import AnyAttribute, Numeric
from missdp.types import Flags, Floats

_ROUNDING = 1e-12  # of the largest sum of sizes: numbers so near are equal after arithmetic


@dataclass(frozen=True, eq=False)
class Forbidden:
    """A bound rule that forbids rows in which a condition holds."""

    text: str
    condition: Predicate

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it reads."""
        return tuple(sorted(self.condition.names))

    def broken(self, cells: CellsByName, n: int) -> Truth:
        """Tell which rows break the rule."""
        return self.condition.truth(cells, n)


@dataclass(frozen=True, eq=False)
class Routing:
    """A bound rule by which an attribute is not applicable unless a condition holds."""

    text: str
    target: AnyAttribute
    unless: Predicate

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that its condition is about."""
        return tuple(sorted(self.unless.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it is about, the target among them."""
        return (*self.reads, self.target.name)

    def broken(self, cells: CellsByName, n: int) -> Truth:
        """Tell which rows break the rule: the target applies, or the condition holds, not both."""
        applies, stated = self.unless.truth(cells, n), cells[self.target.name].applies
        return (applies & ~stated) | (~applies & stated)


@dataclass(frozen=True, eq=False)
class Derived:
    """A bound rule by which the value of one attribute follows from others."""

    text: str
    target: AnyAttribute
    by: tuple[str, ...]
    #: The target's value, or code, for each combination of levels, or of whole numbers.
    lookup: Floats | None = None
    #: With a lookup: the code or whole number with which each of its axes begins.
    first: tuple[float, ...] = ()
    #: Without a lookup: the target is the sum of these multiples of the others, and ``start``.
    terms: tuple[float, ...] = ()
    start: float = 0.0
    #: Without either: the target is the completed years from the first of two others, which are
    #: dates in these units of the calendar, to the second.
    units: tuple[Resolution, Resolution] | None = None
    #: An attribute that is the target where the first of the others is missing.
    instead: str | None = None

    @property
    def is_linear(self) -> bool:
        """Whether it is a linear equation, so that it can be solved for another attribute."""
        return bool(self.terms)

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that it follows from."""
        return self.by if self.instead is None else (*self.by, self.instead)

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it is about, the target among them."""
        return (*self.reads, self.target.name)

    def solve_for(self, attribute: AnyAttribute) -> Derived:
        """Return the linear equation as one that determines another of its attributes."""
        terms = dict(zip(self.by, self.terms, strict=True))
        factor = terms.pop(attribute.name)
        solved = {name: -times / factor for name, times in terms.items()}
        solved[self.target.name] = 1 / factor
        start = -self.start / factor
        return Derived(self.text, attribute, (*solved,), terms=(*solved.values(),), start=start)

    def compute(self, cells: CellsByName, n: int) -> Cells:
        """Return what is known of the target from the others."""
        given, none = [cells[name] for name in self.by], np.zeros(n, dtype=bool)
        not_applicable = reduce(or_, (c.not_applicable for c in given), none)
        missing = reduce(or_, (c.missing for c in given), none) & ~not_applicable
        if self.lookup is not None:
            low, high = self._looked_up(self.lookup, given)
        elif self.units is not None:
            earlier, later = given
            low = completed_years(earlier.high, later.low, self.units)
            high = completed_years(earlier.low, later.high, self.units)
        else:
            low, high = self._summed(cells, n)
        computed = Cells(low, high, missing, not_applicable)
        if self.instead is None:
            return computed
        parts = ("low", "high", "missing", "not_applicable")
        other, absent = cells[self.instead], given[0].missing
        return Cells(*(np.where(absent, getattr(other, p), getattr(computed, p)) for p in parts))

    def _looked_up(self, lookup: Floats, given: list[Cells]) -> tuple[Floats, Floats]:
        """Return the value where all is known exactly, else the ends of all values."""
        places = [
            np.where(c.has_value, np.clip(c.low - first, 0, size - 1), 0).astype(np.int64)
            for c, first, size in zip(given, self.first, lookup.shape, strict=True)
        ]
        exact = np.all([c.are_exact for c in given], axis=0)
        values = lookup[tuple(places)]
        return np.where(exact, values, lookup.min()), np.where(exact, values, lookup.max())

    def _summed(self, cells: CellsByName, n: int) -> tuple[Floats, Floats]:
        """Return the bounds of the linear sum."""
        low = high = np.full(n, self.start)
        for times, name in zip(self.terms, self.by, strict=True):
            ends = times * cells[name].low, times * cells[name].high
            low, high = low + np.minimum(*ends), high + np.maximum(*ends)
        return self._rounded(low, cells), self._rounded(high, cells)

    def _tolerance(self, cells: CellsByName) -> Floats | float:
        """Return how far arithmetic in floating point may have missed the sum."""
        if not self.is_linear:
            return 0.0
        sizes: Floats | float = abs(self.start)
        for times, name in zip(self.terms, self.by, strict=True):
            ends = cells[name]
            sizes = sizes + abs(times) * np.maximum(np.abs(ends.low), np.abs(ends.high))
        return _ROUNDING * sizes

    def _rounded(self, values: Floats, cells: CellsByName) -> Floats:
        """Return bounds and whole numbers of the target where arithmetic missed them narrowly."""
        if not isinstance(self.target, Numeric):
            return values
        tolerance = self._tolerance(cells)
        for bound in (self.target.lower, self.target.upper):
            values = np.where(np.abs(values - bound) <= tolerance, bound, values)
        if self.target.integer:
            near = np.abs(values - np.rint(values)) <= tolerance
            values = np.where(near, np.rint(values), values)
        return values

    def outside(self, computed: Cells) -> Flags:
        """Tell where the computed value is surely not in the target's domain."""
        if not isinstance(self.target, Numeric):
            return np.zeros(len(computed.low), dtype=bool)
        outside = (computed.high < self.target.lower) | (computed.low > self.target.upper)
        if self.target.integer:
            outside |= np.ceil(computed.low) > np.floor(computed.high)
        return np.asarray(outside & computed.has_value)

    def broken(self, cells: CellsByName, n: int) -> Truth:
        """Tell which rows break the rule."""
        computed, target = self.compute(cells, n), cells[self.target.name]
        tolerance = self._tolerance(cells)
        apart = computed.high + tolerance < target.low
        apart |= target.high < computed.low - tolerance
        both = computed.has_value & target.has_value
        is_true = both & (apart | self.outside(computed))
        is_true |= computed.not_applicable & target.has_value
        is_true |= computed.has_value & target.not_applicable
        unknown = both & ~(computed.are_exact & target.are_exact)
        unknown |= computed.missing | target.missing
        return Truth(is_true, ~(is_true | unknown))


BoundRule: TypeAlias = Forbidden | Routing | Derived
