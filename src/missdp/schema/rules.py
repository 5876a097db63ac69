"""Rules: public facts about one row, which hold for every row of a table and of a synthetic one.

A rule is what everybody knows before any data are seen: men are not pregnant, who does not work has
no working hours, age and year of birth add up to the year of the survey. No rule is ever read from
private rows.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from missdp.errors import SchemaError
from missdp.record import Record
from missdp.schema import language
from missdp.schema.attributes import MAX_WHOLE, Level, Ordinal, is_number
from missdp.schema.conditions import Bound, Compare, Derives, Forbids, Routes
from missdp.schema.dates import Date, completed_years
from missdp.schema.differences import Difference, EitherDate
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.types import Floats

_MOST_NUMBERS = 10_000  # of one attribute
_MOST_ROWS = 1_000_000  # of a map
_OPPOSITE = {"<=": ">", "<": ">="}

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Rule(Record, abstract=True):
    """A public fact about one row. Use a subclass."""

    @property
    def text(self) -> str:
        """The rule in words: what its first field says."""
        return str(getattr(self, fields(self)[0].name))

    @abstractmethod
    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return the rule as it is computed with; refuse what the schema does not have."""

    def about(self, columns: Columns) -> frozenset[str]:
        """Return the attributes that the rule is about."""
        return frozenset(name for bound in self.bound(columns) for name in bound.names)

    def _wrong(self, why: str) -> SchemaError:
        return SchemaError(f"rule {self.text!r}: {why}")

    def _reading(self, columns: Columns) -> AbstractContextManager[None]:
        return language.reading(self.text, columns, self._wrong)

    def _parsed(
        self, grammar: Callable[[str, Columns], _Found], text: Any, columns: Columns
    ) -> _Found:
        """Read what is written, by a grammar of the language of rules."""
        if not isinstance(text, str) or not text.strip():
            raise self._wrong("it is written as text, and not empty")
        with self._reading(columns):
            return grammar(text, columns)

    def _attribute(self, columns: Columns, name: Any) -> AnyAttribute:
        with self._reading(columns):
            return language.attribute_named(columns, name)

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        subject = "a rule" if cls is Rule else f"a rule of kind {cls.kind!r}"
        return SchemaError(f"{subject} is not valid: {why}")


def scale_of(attribute: AnyAttribute) -> Hashable:
    """Return what tells whether values of attributes compare; None if they have no order."""
    if isinstance(attribute, Date):
        return attribute.unit, attribute.zoned
    if isinstance(attribute, Difference):
        return attribute.unit, attribute.resolution
    if isinstance(attribute, Numeric):
        return "numbers"
    return attribute.levels if isinstance(attribute, Ordinal) else None


@dataclass(frozen=True)
class NotApplicable(Rule):
    """Attributes that have a value only in rows in which a condition holds.

    In all other rows they are not applicable, which is no hole: nothing fills it, and nothing is
    spent on it. Where the condition depends on a missing cell, either may be.

    Parameters
    ----------
    names : tuple of str, or str
    unless : str
        The condition, in the language of subpopulations.

    Examples
    --------
    >>> NotApplicable("hours", unless="employed = 'yes'").text
    "hours is not applicable unless employed = 'yes'"
    """

    kind: ClassVar[str] = "not_applicable"
    names: tuple[str, ...]
    unless: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", _several(self.names))

    @property
    def text(self) -> str:
        """The rule in words."""
        verb = "is" if len(self.names) == 1 else "are"
        return f"{', '.join(map(str, self.names))} {verb} not applicable unless {self.unless}"

    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return one bound rule for each attribute."""
        if not self.names:
            raise self._wrong("it names no attribute")
        predicate = self._parsed(language.condition, self.unless, columns)
        names = [self._attribute(columns, name).name for name in self.names]
        return tuple(Routes(self.text, name, predicate) for name in names)


@dataclass(frozen=True)
class Impossible(Rule):
    """A combination that no row has.

    Parameters
    ----------
    when : str
        What is impossible, in the language of subpopulations.
    """

    kind: ClassVar[str] = "impossible"
    when: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"never {self.when}"

    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return the bound rule."""
        return (Forbids(self.text, self._parsed(language.condition, self.when, columns)),)


@dataclass(frozen=True)
class Determined(Rule):
    """An attribute whose value is a public function of others (a functional dependency).

    Parameters
    ----------
    name : str
        What follows.
    by : tuple of str, or str
        Attributes that it follows from: with levels, or whole numbers within narrow bounds.
    map : tuple of tuples
        For every combination of values of ``by`` a row: the values, then what follows.

    Examples
    --------
    >>> Determined("years", by="degree", map=(("none", 9), ("bachelor", 13))).text
    'years follows from degree'
    """

    kind: ClassVar[str] = "determined"
    name: str
    by: tuple[str, ...]
    map: tuple[tuple[Level | float, ...], ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "by", _several(self.by))
        if isinstance(self.map, (list, tuple)):
            rows = tuple(tuple(r) if isinstance(r, (list, tuple)) else r for r in self.map)
            object.__setattr__(self, "map", rows)

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"{self.name} follows from {', '.join(map(str, self.by))}"

    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return the bound rule."""
        target = self._attribute(columns, self.name)
        given = [self._attribute(columns, name) for name in self.by]
        if not given or len(set(self.by)) < len(self.by) or self.name in self.by:
            raise self._wrong("it must follow from other attributes, each named once")
        domains = [self._domain(attribute) for attribute in given]
        if math.prod(map(len, domains)) > _MOST_ROWS:
            raise self._wrong(f"the map would need more than {_MOST_ROWS:,} rows")
        lookup = self._lookup(target, given, domains)
        first = tuple(a.lower if isinstance(a, Numeric) else 0.0 for a in given)
        return (Derives(self.text, target, self.by, lookup=lookup, first=first),)

    def _domain(self, attribute: AnyAttribute) -> tuple[Level, ...]:
        """Return the values that a map needs a row for."""
        if not isinstance(attribute, Numeric):
            return attribute.levels
        if not attribute.integer or attribute.upper - attribute.lower >= _MOST_NUMBERS:
            raise self._wrong(
                f"{attribute.name!r} is not whole, or has more than {_MOST_NUMBERS:,} whole "
                "numbers; a map needs a row for each value"
            )
        return tuple(range(int(attribute.lower), int(attribute.upper) + 1))

    def _lookup(
        self, target: AnyAttribute, given: list[AnyAttribute], domains: list[tuple[Level, ...]]
    ) -> Floats:
        """Return what follows from each combination of values, an axis for each attribute."""
        places = [_places(domain) for domain in domains]
        codes = {} if isinstance(target, Numeric) else _places(target.levels)
        lookup = np.full([len(domain) for domain in domains], np.nan)
        for row in self.map if isinstance(self.map, tuple) else ():
            if not isinstance(row, tuple) or len(row) != len(given) + 1:
                raise self._wrong(f"each row of the map needs {len(given)} levels and a value")
            by = zip(places, given, row[:-1], strict=True)
            at = tuple(self._place(known, attribute, value) for known, attribute, value in by)
            if not math.isnan(lookup[at]):
                raise self._wrong(f"the map has two values for {list(row[:-1])}")
            lookup[at] = self._value(target, codes, row[-1])
        if np.isnan(lookup).any():
            at = tuple(np.argwhere(np.isnan(lookup))[0])
            lacking = [domain[place] for domain, place in zip(domains, at, strict=True)]
            raise self._wrong(f"the map lacks a value for {lacking}")
        return lookup

    def _value(self, target: AnyAttribute, codes: _Places, value: Any) -> float:
        """Read a value of the map: a number, or the code of a level."""
        if not isinstance(target, Numeric):
            return float(self._place(codes, target, value))
        inside = is_number(value) and target.lower <= value <= target.upper
        if not inside or (target.integer and not float(value).is_integer()):
            raise self._wrong(f"the map: {_not_in(target, value)}")
        return float(value)

    def _place(self, places: _Places, attribute: AnyAttribute, value: Any) -> int:
        place = places.get((type(value), value)) if isinstance(value, (str, int)) else None
        if place is None:
            raise self._wrong(f"the map: {_not_in(attribute, value)}")
        return place


_Places = dict[tuple[type, Any], int]


def _places(domain: tuple[Level, ...]) -> _Places:
    """Return the place of each value, by type as well, since 1 equals true."""
    return {(type(value), value): place for place, value in enumerate(domain)}


def _not_in(attribute: AnyAttribute, value: object) -> str:
    if isinstance(attribute, Numeric):
        return f"{value!r} is not in the domain of {attribute.name!r}"
    return attribute.not_a_level(value)


def _several(names: Any) -> tuple[Any, ...]:
    return tuple(names) if isinstance(names, (list, tuple)) else (names,)


@dataclass(frozen=True)
class Equation(Rule):
    """An equation by which one number follows from other attributes of the row.

    Parameters
    ----------
    equation : str
        A linear equation, such as ``"age + birth_year = 2024"`` or ``"2 * a - b = c"``; names that
        are no plain words go in backticks. Or ``"age = years(birth, interview)"``: a whole number
        is the completed years from one date to another. A year is completed on the anniversary;
        that of 29 February is 1 March in other years. Dates count as they are written: those of
        whole months or years are the first day.
    determines : str, optional
        Which one follows from the others; by default the last one named. Of completed years, the
        number always follows.
    """

    kind: ClassVar[str] = "equation"
    equation: str
    determines: str | None = None

    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return the bound rule."""
        if self._parsed(language.has_calls, self.equation, columns):
            return (self._years(columns),)
        terms, constant = self._parsed(language.equation, self.equation, columns)
        attributes: dict[str, Numeric] = {}
        for name in terms:
            if not isinstance(attribute := columns[name], Numeric):
                raise self._wrong(f"{name!r} is not numeric")
            attributes[name] = attribute
        if len({scale_of(a) for a in attributes.values()} - {"numbers"}) > 1:
            raise self._wrong("its dates are counted in different units; give them one step")
        name = self.determines if self.determines is not None else next(reversed(terms), "")
        if not isinstance(name, str) or name not in terms:
            raise self._wrong(f"it cannot determine {name!r}, which it does not name")
        if len(terms) < 2 or not all(terms.values()):
            raise self._wrong("it needs at least two attributes, each with a multiple other than 0")
        target, own = attributes.pop(name), terms.pop(name)
        multiples = tuple(-times / own for times in terms.values())
        self._check_sizes(attributes, multiples, constant / own)
        if target.integer and not all(a.integer for a in attributes.values()):
            raise self._wrong(
                f"{name!r} is a whole number; so must be the attributes that it follows from"
            )
        return (Derives(self.text, target, tuple(terms), terms=multiples, start=constant / own),)

    def _years(self, columns: Columns) -> Derives:
        """Return the rule by which a number is the completed years between two dates."""
        number, *dates = self._parsed(language.years, self.equation, columns)
        earlier, later = (self._date(attribute) for attribute in dates)
        if earlier.name == later.name:
            raise self._wrong(f"it names {later.name!r} twice; years() needs two dates")
        if self.determines not in (None, number.name):
            raise self._wrong(f"only {number.name!r} follows from the two dates")
        integer = isinstance(number, Numeric) and number.integer and number.step in (None, 1.0)
        if not integer or not isinstance(number, Numeric) or isinstance(number, Date | Difference):
            raise self._wrong(
                f"{number.name!r} must be numeric with integer = true, since completed years are "
                "whole numbers"
            )
        self._check_range(number, earlier, later)
        names, units = (earlier.name, later.name), (earlier.unit, later.unit)
        return Derives(self.text, number, names, units=units)

    def _date(self, attribute: AnyAttribute) -> Date:
        """Return an attribute that is a date whose day does not depend on the place."""
        if not isinstance(attribute, Date) or isinstance(attribute, EitherDate):
            raise self._wrong(
                f"{attribute.name!r} is not a date; years() counts from one date to another"
            )
        if attribute.zoned:
            raise self._wrong(
                f"{attribute.name!r} has a time zone, so its day depends on the place; declare a "
                "date without a time zone"
            )
        return attribute

    def _check_range(self, number: Numeric, earlier: Date, later: Date) -> None:
        """Raise if the bounds of the dates admit no number within its own bounds."""
        ends = ((earlier.upper, later.lower), (earlier.lower, later.upper))
        first, last = np.array(ends).T
        fewest, most = completed_years(first, last, (earlier.unit, later.unit)).tolist()
        if most < number.lower or fewest > number.upper:
            raise self._wrong(
                f"its dates are {fewest:g} to {most:g} years apart by their bounds, and the bounds "
                f"of {number.name!r} are {number.lower:g} and {number.upper:g}; correct one of them"
            )

    def _check_sizes(
        self, attributes: Mapping[str, Numeric], multiples: tuple[float, ...], start: float
    ) -> None:
        """Refuse numbers that floating point cannot add, or that vanish."""
        largest = (max(abs(a.lower), abs(a.upper)) for a in attributes.values())
        sizes = (abs(times) * size for times, size in zip(multiples, largest, strict=True))
        if not all(map(math.isfinite, multiples)) or not abs(start) + sum(sizes) < MAX_WHOLE:
            raise self._wrong("its numbers are too large: what follows must be below 2**53 in size")
        if not all(multiples):
            raise self._wrong("its numbers differ so much in size that some of them vanish")


@dataclass(frozen=True)
class Order(Rule):
    """Attributes whose values never fall from one to the next.

    Parameters
    ----------
    order : str
        Names with ``<=`` or ``<`` between them, such as ``"start <= end"``. All are numbers,
        dates in one unit, or ordinal with the same levels.
    """

    kind: ClassVar[str] = "order"
    order: str

    def bound(self, columns: Columns) -> tuple[Bound, ...]:
        """Return one bound rule for each two neighbours: what is forbidden is the opposite."""
        found = self._parsed(language.order, self.order, columns)
        attributes = [found[0][0], *(two for _, _, two in found)]
        if len({attribute.name for attribute in attributes}) < len(attributes):
            raise self._wrong("it names an attribute twice")
        scales = {*map(scale_of, attributes)}
        if None in scales or len(scales) > 1:
            raise self._wrong(
                "all must be numeric, all dates in one unit, or all ordinal with the same levels"
            )
        return tuple(
            Forbids(self.text, Compare(one, _OPPOSITE[sign], two)) for one, sign, two in found
        )
