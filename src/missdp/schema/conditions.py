"""Conditions and rules as they are computed with, decided by what is known of a row's cells.

A predicate, or a rule, surely holds for a row, or it may: a missing cell leaves it open. To which
rows an attribute applies is told alike: a cell with a value applies, and one that is not applicable
does not. Where the condition of a :class:`~missdp.schema.NotApplicable` rule reads a cell that is
missing too, the attribute may not apply, and nobody should invent a value. What follows from others
applies where they do. Without such a rule it is the data that mark what does not apply, by a code;
any other missing cell is in a row to which the attribute applies.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema.dates import Resolution, completed_years
from missdp.schema.numeric import AnyAttribute, Numeric
from missdp.types import Flags, Floats

Verdict: TypeAlias = tuple[Flags, Flags]

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


class Predicate(ABC):
    """Which rows belong to a subpopulation: a function of each row alone."""

    @abstractmethod
    def comparisons(self) -> Iterator[Compare]:
        """Yield the comparisons that it is made of."""

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return frozenset(a.name for part in self.comparisons() for a in part.attributes)

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that belong; a missing cell satisfies no comparison."""
        read = {a.name: a for part in self.comparisons() for a in part.attributes}
        cells = {
            name: Known.of(
                a, rows.codes(name), rows.values(name) if isinstance(a, Numeric) else None
            ).without_holes()
            for name, a in read.items()
        }
        return decided(self, cells, len(rows))[0]


@dataclass(frozen=True)
class Compare(Predicate):
    """An attribute compared with a constant, or with another attribute of the row."""

    one: AnyAttribute
    sign: str
    two: AnyAttribute | float

    @property
    def attributes(self) -> tuple[AnyAttribute, ...]:
        """Attributes that it reads."""
        return (self.one,) if isinstance(self.two, float) else (self.one, self.two)

    @property
    def pair(self) -> tuple[str, str] | None:
        """The names of two attributes that it compares; None if one is a constant."""
        return None if isinstance(self.two, float) else (self.one.name, self.two.name)

    def comparisons(self) -> Iterator[Compare]:
        """Yield itself."""
        yield self


@dataclass(frozen=True)
class Join(Predicate):
    """Conjunction or disjunction of rows that belong to all parts, or any; of none, all rows."""

    parts: tuple[Predicate, ...]
    all_of: bool

    def comparisons(self) -> Iterator[Compare]:
        """Yield the comparisons of all parts."""
        for part in self.parts:
            yield from part.comparisons()


@dataclass(frozen=True)
class Not(Predicate):
    """Complement: rows that do not belong to ``part``."""

    part: Predicate

    def comparisons(self) -> Iterator[Compare]:
        """Yield the comparisons of what it denies."""
        yield from self.part.comparisons()


@dataclass(frozen=True, eq=False, repr=False)
class Known:
    """What is known of cells of one attribute: bounds on the value, or on the code of the level."""

    least: Floats
    greatest: Floats
    hole: Flags  # the value is missing, so that nothing is known of it
    absent: Flags  # the attribute is not applicable, so that there is no value

    @property
    def present(self) -> Flags:
        """Whether there is a value, known within the bounds."""
        return ~(self.hole | self.absent)

    @classmethod
    def of(
        cls, attribute: AnyAttribute, codes: NDArray[np.integer], values: Floats | None
    ) -> Known:
        """Return what codes, and values if there are any, tell about cells."""
        hole = np.asarray(codes >= attribute.missing_code)
        absent = np.asarray(codes >= attribute.size) & ~hole
        if values is not None:
            return cls(values, values, hole, absent)
        inside = np.where(hole | absent, 0, codes).astype(np.int64)
        if isinstance(attribute, Numeric):
            least, greatest = attribute.reach
            return cls(least[inside], greatest[inside], hole, absent)
        levels = inside.astype(np.float64)
        return cls(levels, levels, hole, absent)

    def taken(self, places: NDArray[np.integer]) -> Known:
        """Return what is known of some of the cells."""
        parts = (self.least, self.greatest, self.hole, self.absent)
        return Known(*(part[places] for part in parts))

    def without_holes(self) -> Known:
        """Return the same cells, each missing one as if there were nothing to ask for."""
        return Known(self.least, self.greatest, np.zeros_like(self.hole), ~self.present)

    @classmethod
    def constant(cls, value: float, n: int) -> Known:
        """Return what is known of a number."""
        cells, none = np.full(n, value), np.zeros(n, dtype=bool)
        return cls(cells, cells, none, none)


KnownCells: TypeAlias = Mapping[str, Known]


def compared(one: Known, sign: str, two: Known) -> Verdict:
    """Decide a comparison of known cells."""
    if sign in (">", ">="):
        return compared(two, MIRRORED[sign], one)
    if sign == "<":
        surely, maybe = one.greatest < two.least, one.least < two.greatest
    elif sign == "<=":
        surely, maybe = one.greatest <= two.least, one.least <= two.greatest
    else:
        fixed = (one.least == one.greatest) & (two.least == two.greatest)
        maybe = (one.least <= two.greatest) & (two.least <= one.greatest)
        surely = fixed & maybe
        if sign == "!=":
            surely, maybe = ~maybe, ~surely
    there = one.present & two.present
    absent = one.absent | two.absent
    return np.asarray(surely & there), np.asarray(np.where(there, maybe, ~absent))


def decided(predicate: Predicate, cells: KnownCells, n: int) -> Verdict:
    """Decide a predicate for ``n`` rows; parts that share a cell leave more open than there is."""
    if isinstance(predicate, Compare):
        two = predicate.two
        known = Known.constant(two, n) if isinstance(two, float) else cells[two.name]
        return compared(cells[predicate.one.name], predicate.sign, known)
    if isinstance(predicate, Not):
        surely, maybe = decided(predicate.part, cells, n)
        return ~maybe, ~surely
    assert isinstance(predicate, Join)
    join = np.logical_and if predicate.all_of else np.logical_or
    surely, maybe = np.full(n, predicate.all_of), np.full(n, predicate.all_of)
    for part in predicate.parts:
        sure, open_ = decided(part, cells, n)
        surely, maybe = join(surely, sure), join(maybe, open_)
    return surely, maybe


_NEAR = 1e-12  # of the largest sum of sizes: what counts as equal after arithmetic


@dataclass(frozen=True, eq=False)
class Forbids:
    """A bound rule that forbids rows in which a condition holds."""

    text: str
    never: Predicate

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it reads."""
        return tuple(sorted(self.never.names))

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        return decided(self.never, cells, n)


@dataclass(frozen=True, eq=False)
class Routes:
    """A bound rule by which an attribute is not applicable unless a predicate holds."""

    text: str
    target: str
    unless: Predicate

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that its condition is about."""
        return tuple(sorted(self.unless.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it is about, the target among them."""
        return (*self.reads, self.target)

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        surely, maybe = decided(self.unless, cells, n)
        target = cells[self.target]
        sure = (surely & target.absent) | (~maybe & target.present)
        open_ = (maybe & ~target.present) | (~surely & ~target.absent)
        return sure, np.asarray(sure | open_)


@dataclass(frozen=True, eq=False)
class Derives:
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
        """Whether a linear equation says what follows, so that it can be solved for another."""
        return bool(self.terms)

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that it follows from."""
        return self.by if self.instead is None else (*self.by, self.instead)

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it is about, the target among them."""
        return (*self.reads, self.target.name)

    def solved(self, given: AnyAttribute) -> Derives:
        """Return the linear equation as one that determines another of its attributes."""
        own = self.terms[self.by.index(given.name)]
        rest = tuple(
            (name, -times / own)
            for name, times in zip(self.by, self.terms, strict=True)
            if name != given.name
        )
        names, terms = zip(*rest, (self.target.name, 1 / own), strict=True)
        return Derives(self.text, given, names, terms=terms, start=-self.start / own)

    def derived(self, cells: KnownCells, n: int) -> Known:
        """Return what is known of the target from the others."""
        known = [cells[name] for name in self.by]
        absent = np.logical_or.reduce([np.zeros(n, dtype=bool), *(k.absent for k in known)])
        hole = np.logical_or.reduce([np.zeros(n, dtype=bool), *(k.hole for k in known)]) & ~absent
        if self.lookup is not None:
            least, greatest = self._looked_up(self.lookup, known, n)
        elif self.units is not None:
            (one, two), units = known, self.units
            least = completed_years(one.greatest, two.least, units)
            greatest = completed_years(one.least, two.greatest, units)
        else:
            least, greatest = np.full(n, self.start), np.full(n, self.start)
            for times, k in zip(self.terms, known, strict=True):
                ends = times * k.least, times * k.greatest
                least, greatest = least + np.minimum(*ends), greatest + np.maximum(*ends)
            least, greatest = self._settled(least, cells), self._settled(greatest, cells)
        found = Known(least, greatest, hole, absent)
        return found if self.instead is None else self._or(found, cells[self.instead], known[0])

    def _or(self, found: Known, instead: Known, first: Known) -> Known:
        """Return the one thing, or the other where the first of the others is missing."""
        parts = ("least", "greatest", "hole", "absent")
        either = (np.where(first.hole, getattr(instead, p), getattr(found, p)) for p in parts)
        return Known(*either)

    def _looked_up(self, lookup: Floats, known: list[Known], n: int) -> tuple[Floats, Floats]:
        """Return the value where all is known exactly, else the ends of all values."""
        exact, places = np.ones(n, dtype=bool), []
        for k, first, size in zip(known, self.first, lookup.shape, strict=True):
            exact &= k.least == k.greatest
            places.append(np.where(k.present, np.clip(k.least - first, 0, size - 1), 0))
        found = lookup[tuple(place.astype(np.int64) for place in places)]
        return np.where(exact, found, lookup.min()), np.where(exact, found, lookup.max())

    def _width(self, cells: KnownCells) -> Floats | float:
        """Return by how much arithmetic in floating point may have missed what follows."""
        if not self.is_linear:
            return 0.0
        sizes: Floats | float = abs(self.start)
        for times, name in zip(self.terms, self.by, strict=True):
            ends = cells[name]
            sizes = sizes + abs(times) * np.maximum(np.abs(ends.least), np.abs(ends.greatest))
        return _NEAR * sizes

    def _settled(self, values: Floats, cells: KnownCells) -> Floats:
        """Return bounds and whole numbers of the target where arithmetic missed them by a hair."""
        if not isinstance(self.target, Numeric):
            return values
        width = self._width(cells)
        for bound in (self.target.lower, self.target.upper):
            values = np.where(np.abs(values - bound) <= width, bound, values)
        if self.target.integer:
            values = np.where(np.abs(values - np.rint(values)) <= width, np.rint(values), values)
        return values

    def outside(self, derived: Known) -> Flags:
        """Tell where what follows is surely not in the target's domain."""
        if not isinstance(self.target, Numeric):
            return np.zeros(len(derived.least), dtype=bool)
        found = (derived.greatest < self.target.lower) | (derived.least > self.target.upper)
        if self.target.integer:
            found |= np.ceil(derived.least) > np.floor(derived.greatest)
        return np.asarray(found & derived.present)

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        derived, target = self.derived(cells, n), cells[self.target.name]
        width = self._width(cells)
        apart = (derived.greatest + width < target.least) | (
            target.greatest < derived.least - width
        )
        both = derived.present & target.present
        sure = both & (apart | self.outside(derived))
        sure |= (derived.absent & target.present) | (derived.present & target.absent)
        points = (derived.least == derived.greatest) & (target.least == target.greatest)
        open_ = derived.hole | target.hole | (both & ~points)
        return np.asarray(sure), np.asarray(sure | open_)


Bound: TypeAlias = Forbids | Routes | Derives
