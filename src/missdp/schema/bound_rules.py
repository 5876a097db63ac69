"""Bound rules: rules with references to the attributes of a schema, ready for computation."""

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

_ROUNDING = 1e-12  # share of the largest sum of sizes, within which two numbers count as equal


@dataclass(frozen=True, eq=False)
class Forbidden:
    """A bound rule that forbids rows in which a condition holds."""

    text: str
    condition: Predicate

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes that the rule reads."""
        return tuple(sorted(self.condition.names))

    def broken(self, cells: CellsByName, n: int) -> Truth:
        """Return the truth of "the row breaks the rule" for ``n`` rows."""
        return self.condition.truth(cells, n)


@dataclass(frozen=True, eq=False)
class Routing:
    """A bound rule by which an attribute is not applicable unless a condition holds."""

    text: str
    target: AnyAttribute
    unless: Predicate

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the attributes in the condition."""
        return tuple(sorted(self.unless.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes in the condition, and the target."""
        return (*self.reads, self.target.name)

    def broken(self, cells: CellsByName, n: int) -> Truth:
        """Return the truth of "exactly one holds: the condition, or a value of the target"."""
        applies, stated = self.unless.truth(cells, n), cells[self.target.name].applies
        return (applies & ~stated) | (~applies & stated)


@dataclass(frozen=True, eq=False)
class Derived:
    """A bound rule by which the value of one attribute follows from others."""

    text: str
    target: AnyAttribute
    by: tuple[str, ...]
    #: The value or code of the target for each combination of levels or whole numbers.
    lookup: Floats | None = None
    #: With a lookup: the first code or whole number of each axis.
    first: tuple[float, ...] = ()
    #: Without a lookup: the target is ``start`` plus the sum of these multiples of the others.
    terms: tuple[float, ...] = ()
    start: float = 0.0
    #: Without lookup and terms: the target is the completed years between two dates in these units
    #: of the calendar.
    units: tuple[Resolution, Resolution] | None = None
    #: An attribute that equals the target if the first of the others is missing.
    instead: str | None = None

    @property
    def is_linear(self) -> bool:
        """True for a linear equation, which can be solved for another attribute."""
        return bool(self.terms)

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of the attributes that determine the target."""
        return self.by if self.instead is None else (*self.by, self.instead)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the attributes of the rule, and the target."""
        return (*self.reads, self.target.name)

    def solve_for(self, attribute: AnyAttribute) -> Derived:
        """Return the linear equation in the form that determines another of its attributes."""
        terms = dict(zip(self.by, self.terms, strict=True))
        factor = terms.pop(attribute.name)
        solved = {name: -times / factor for name, times in terms.items()}
        solved[self.target.name] = 1 / factor
        start = -self.start / factor
        return Derived(self.text, attribute, (*solved,), terms=(*solved.values(),), start=start)

    def compute(self, cells: CellsByName, n: int) -> Cells:
        """Return bounds on the target that follow from the other attributes, for ``n`` rows."""
        sources, none = [cells[name] for name in self.by], np.zeros(n, dtype=bool)
        not_applicable = reduce(or_, (c.not_applicable for c in sources), none)
        missing = reduce(or_, (c.missing for c in sources), none) & ~not_applicable
        if self.lookup is not None:
            low, high = self._looked_up(self.lookup, sources)
        elif self.units is not None:
            earlier, later = sources
            low = completed_years(earlier.high, later.low, self.units)
            high = completed_years(earlier.low, later.high, self.units)
        else:
            low, high = self._summed(cells, n)
        computed = Cells(low, high, missing, not_applicable)
        if self.instead is None:
            return computed
        parts = ("low", "high", "missing", "not_applicable")
        other, absent = cells[self.instead], sources[0].missing
        return Cells(*(np.where(absent, getattr(other, p), getattr(computed, p)) for p in parts))

    def _looked_up(self, lookup: Floats, sources: list[Cells]) -> tuple[Floats, Floats]:
        """Return the looked-up value if all cells are exact, else the range of all values."""
        places = [
            np.where(c.has_value, np.clip(c.low - first, 0, size - 1), 0).astype(np.int64)
            for c, first, size in zip(sources, self.first, lookup.shape, strict=True)
        ]
        exact = np.all([c.are_exact for c in sources], axis=0)
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
        """Return a bound on the rounding error of the sum."""
        if not self.is_linear:
            return 0.0
        sizes: Floats | float = abs(self.start)
        for times, name in zip(self.terms, self.by, strict=True):
            ends = cells[name]
            sizes = sizes + abs(times) * np.maximum(np.abs(ends.low), np.abs(ends.high))
        return _ROUNDING * sizes

    def _rounded(self, values: Floats, cells: CellsByName) -> Floats:
        """Round values that lie within the rounding error of a bound or a whole number."""
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
        """Return True for rows whose computed value is certainly outside the target's domain."""
        if not isinstance(self.target, Numeric):
            return np.zeros(len(computed.low), dtype=bool)
        outside = (computed.high < self.target.lower) | (computed.low > self.target.upper)
        if self.target.integer:
            outside |= np.ceil(computed.low) > np.floor(computed.high)
        return np.asarray(outside & computed.has_value)

    def broken(self, cells: CellsByName, n: int) -> Truth:
        """Return the truth of "the row breaks the rule" for ``n`` rows."""
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
