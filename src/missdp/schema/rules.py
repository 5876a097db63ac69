"""Rules: public facts about one row, which hold for every row of a table and of a synthetic one.

A rule is known to everybody before any data are seen: men are not pregnant, who does not work has
no working hours, age and year of birth add up to the year of the survey. No rule is ever read from
private rows. How the texts of rules are written is in `missdp.schema.expressions`.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from missdp.errors import SchemaError, did_you_mean
from missdp.record import Record
from missdp.schema import expressions
from missdp.schema.attributes import MAX_WHOLE, Level, is_number
from missdp.schema.bound_rules import BoundRule, Derived, Forbidden, Routing
from missdp.schema.dates import Date, completed_years
from missdp.schema.differences import Difference, EitherDate
from missdp.schema.expressions import Linear, Years
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.types import Floats

MAX_MAP_NUMBERS = 10_000  # whole numbers of one attribute of a map
MAX_MAP_ROWS = 1_000_000  # rows of a map
_SHOWN = 200  # characters of a rule that a message quotes

_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class Rule(Record, abstract=True):
    """A public fact about one row. Use a subclass.

    The kind of a rule is the name of its first field. So a table of a file needs no ``kind``.
    """

    @property
    def text(self) -> str:
        """The rule in words: what its first field says."""
        return str(getattr(self, self.kind))

    @abstractmethod
    def bound(self, columns: Columns) -> tuple[BoundRule, ...]:
        """Return the rule as it is computed with; refuse what the schema does not have."""

    def about(self, columns: Columns) -> frozenset[str]:
        """Return the attributes that the rule is about."""
        return frozenset(name for bound in self.bound(columns) for name in bound.names)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields that are set, as they are written in a ``[[rule]]`` table."""
        unset = {"kind", *(f.name for f in fields(self) if getattr(self, f.name) is None)}
        return {name: value for name, value in super().to_dict().items() if name not in unset}

    @classmethod
    def _kind_of(cls, data: Mapping[str, Any]) -> type[Any]:
        """Return the class of the one kind that a table names by its first field."""
        kinds = {kind.kind: kind for kind in (Always, Never, NotApplicable, Determined)}
        stated = [name for name in kinds if name in data]
        if len(stated) == 1:
            return kinds[stated[0]]
        near = next(filter(None, (did_you_mean(name, kinds) for name in data)), "")
        raise SchemaError(
            "a [[rule]] has one of always, never, not_applicable (with unless) and determined "
            f"(with by and map){near}"
        )

    def _wrong(self, why: str) -> SchemaError:
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        return SchemaError(f"rule {text!r}: {why}")

    def _reading(self, columns: Columns) -> AbstractContextManager[None]:
        return expressions.reading(self.text, columns, self._wrong)

    def _parsed(
        self, parse: Callable[[str, Columns], _Parsed], text: Any, columns: Columns
    ) -> _Parsed:
        """Read a text of the rule."""
        if not isinstance(text, str) or not text.strip():
            raise self._wrong("it is written as text, and not empty")
        with self._reading(columns):
            return parse(text, columns)

    def _attribute(self, columns: Columns, name: Any) -> AnyAttribute:
        with self._reading(columns):
            return expressions.attribute_named(columns, name)

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        subject = "a rule" if cls is Rule else f"a rule of kind {cls.kind!r}"
        return SchemaError(f"{subject} is not valid: {why}")


@dataclass(frozen=True)
class NotApplicable(Rule):
    """Attributes that have a value only in rows in which a condition holds.

    In all other rows they are not applicable. Such a cell is not missing: nothing fills it, and
    nothing is spent on it. Where the condition depends on a missing cell, either may be.

    Parameters
    ----------
    not_applicable : tuple of str, or str
        Names of attributes.
    unless : str
        The condition.

    Examples
    --------
    >>> NotApplicable("hours", unless="employed = 'yes'").text
    "hours is not applicable unless employed = 'yes'"
    """

    kind: ClassVar[str] = "not_applicable"
    not_applicable: tuple[str, ...]
    unless: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "not_applicable", _several(self.not_applicable))

    @property
    def text(self) -> str:
        """The rule in words."""
        names = ", ".join(map(str, self.not_applicable))
        verb = "is" if len(self.not_applicable) == 1 else "are"
        return f"{names} {verb} not applicable unless {self.unless}"

    def bound(self, columns: Columns) -> tuple[BoundRule, ...]:
        """Return one bound rule for each attribute."""
        if not self.not_applicable:
            raise self._wrong("it names no attribute")
        unless = self._parsed(expressions.condition, self.unless, columns)
        names = [self._attribute(columns, name).name for name in self.not_applicable]
        return tuple(Routing(self.text, name, unless) for name in names)


@dataclass(frozen=True)
class Never(Rule):
    """A combination that no row has.

    Parameters
    ----------
    never : str
        The condition.

    Examples
    --------
    >>> Never("age < 15 and employed = 'yes'").text
    "never age < 15 and employed = 'yes'"
    """

    kind: ClassVar[str] = "never"
    never: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"never {self.never}"

    def bound(self, columns: Columns) -> tuple[BoundRule, ...]:
        """Return the bound rule."""
        return (Forbidden(self.text, self._parsed(expressions.condition, self.never, columns)),)


@dataclass(frozen=True)
class Determined(Rule):
    """An attribute whose value is a public function of others (a functional dependency).

    Parameters
    ----------
    determined : str
        The attribute that follows.
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
    determined: str
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
        return f"{self.determined} follows from {', '.join(map(str, self.by))}"

    def bound(self, columns: Columns) -> tuple[BoundRule, ...]:
        """Return the bound rule."""
        target = self._attribute(columns, self.determined)
        given = [self._attribute(columns, name) for name in self.by]
        if not given or len(set(self.by)) < len(self.by) or self.determined in self.by:
            raise self._wrong("it must follow from other attributes, each named once")
        domains = [self._domain(attribute) for attribute in given]
        if math.prod(map(len, domains)) > MAX_MAP_ROWS:
            raise self._wrong(f"the map would need more than {MAX_MAP_ROWS:,} rows")
        lookup = self._lookup(target, given, domains)
        first = tuple(a.lower if isinstance(a, Numeric) else 0.0 for a in given)
        return (Derived(self.text, target, self.by, lookup=lookup, first=first),)

    def _domain(self, attribute: AnyAttribute) -> tuple[Level, ...]:
        """Return the values that a map needs a row for."""
        if not isinstance(attribute, Numeric):
            return attribute.levels
        if not attribute.integer or attribute.upper - attribute.lower >= MAX_MAP_NUMBERS:
            raise self._wrong(
                f"{attribute.name!r} is not whole, or has more than {MAX_MAP_NUMBERS:,} whole "
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
            absent = [domain[place] for domain, place in zip(domains, at, strict=True)]
            raise self._wrong(f"the map lacks a value for {absent}")
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
class Always(Rule):
    """A condition or an equation that holds in every row.

    Parameters
    ----------
    always : str
        Statements that are joined by ``and``. Each statement is a condition or an equation.

        * A condition, such as ``"admission <= discharge"``. No row has its opposite. An attribute
          that is not applicable satisfies no comparison, and so it breaks no condition.
        * A linear equation of numbers, such as ``"age + birth_year = 2024"`` or
          ``"2 * a - b = c"``. One of the numbers follows from the other attributes.
        * ``"age = years(birth, interview)"``: a whole number is the completed years from one date
          to another. A year is completed on the anniversary. The anniversary of 29 February is
          1 March in other years. Dates of whole months or years are the first day, as written.
    determines : str, optional
        The number that follows from the equation; by default the last one named. Of completed
        years, the number always follows.

    Examples
    --------
    >>> from missdp.schema import Numeric, Schema
    >>> years = {"lower": 1900, "upper": 2030, "integer": True}
    >>> start, end = Numeric(name="start", **years), Numeric(name="end", **years)
    >>> Schema((start, end), (Always("start <= end"),)).rules[0].text
    'start <= end'
    """

    kind: ClassVar[str] = "always"
    always: str
    determines: str | None = None

    def bound(self, columns: Columns) -> tuple[BoundRule, ...]:
        """Return one bound rule for each statement; a forbidden condition is the opposite."""
        parsed = self._parsed(expressions.statements, self.always, columns)
        if self.determines is not None and sum(isinstance(p, tuple) for p in parsed) != 1:
            raise self._wrong("determines is for a rule with one equation")
        return tuple(self._bound(part, columns) for part in parsed)

    def _bound(self, part: expressions.Statement, columns: Columns) -> BoundRule:
        if isinstance(part, Linear):
            return self._linear(dict(part.terms), part.constant, columns)
        if isinstance(part, Years):
            return self._years(part)
        return Forbidden(self.text, part.opposite())

    def _linear(self, terms: dict[str, float], constant: float, columns: Columns) -> Derived:
        """Return the rule by which one number of a linear equation follows from the others."""
        attributes: dict[str, Numeric] = {}
        for name in terms:
            if not isinstance(attribute := columns[name], Numeric):
                raise self._wrong(f"{name!r} is not numeric")
            attributes[name] = attribute
        if len({expressions.scale_of(a) for a in attributes.values()} - {"numbers"}) > 1:
            raise self._wrong("its dates are counted in different units; give them one step")
        name = self.determines if self.determines is not None else next(reversed(terms), "")
        if not isinstance(name, str) or name not in terms:
            raise self._wrong(f"it cannot determine {name!r}, which it does not name")
        if len(terms) < 2 or not all(terms.values()):
            raise self._wrong("it needs at least two attributes, each with a multiple other than 0")
        target, factor = attributes.pop(name), terms.pop(name)
        multiples = tuple(-times / factor for times in terms.values())
        start = constant / factor
        self._check_sizes(attributes, multiples, start)
        if target.integer and not all(a.integer for a in attributes.values()):
            raise self._wrong(
                f"{name!r} is a whole number; so must be the attributes that it follows from"
            )
        return Derived(self.text, target, tuple(terms), terms=multiples, start=start)

    def _years(self, years: Years) -> Derived:
        """Return the rule by which a number is the completed years between two dates."""
        number = years.number
        earlier, later = self._date(years.earlier), self._date(years.later)
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
        return Derived(self.text, number, names, units=units)

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
