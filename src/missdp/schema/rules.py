"""Rules: public facts about one row, which hold for every row of private and synthetic tables.

A rule is public before any data are read. Men are not pregnant, a person without work has no
working hours, and age and year of birth add up to the year of the survey. No rule is ever read from
private rows. `missdp.schema.expressions` has the syntax of the texts of rules.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, TypeAlias

import numpy as np
from pydantic import BeforeValidator, Field
from pydantic.dataclasses import dataclass

from missdp.errors import SchemaError, did_you_mean, replacing
from missdp.schema import expressions
from missdp.schema.attributes import MAX_INTEGER, Level, is_number
from missdp.schema.bound_rules import BoundRule, Derived, Forbidden, Routing
from missdp.schema.dates import Date, Resolution
from missdp.schema.differences import Difference, EitherDate
from missdp.schema.expressions import Linear, RuleError, attribute_named
from missdp.schema.logic import Predicate
from missdp.schema.numeric import AnyAttribute, Columns, Numeric
from missdp.serialization import Record

MAX_MAP_NUMBERS = 10_000  # whole numbers of one attribute of a map
MAX_MAP_ROWS = 1_000_000  # rows of a map
_SHOWN = 200  # characters of a rule that a message quotes


OneOrMore: TypeAlias = Annotated[
    tuple[str, ...],
    BeforeValidator(lambda names: names if isinstance(names, tuple) else (names,)),
    Field(description="a name, or a list of names"),
]


RuleText: TypeAlias = Annotated[str, Field(description="a statement that is written as text")]


@dataclass(frozen=True)
class Rule(Record, abstract=True):
    """Base class of rules: public facts that hold in every row of private and synthetic tables.

    It is not created itself. Use :class:`Always`, :class:`Never`, :class:`NotApplicable` or
    :class:`Determined`, and pass them as ``rules`` to :class:`Schema`. A rule must be known before
    any data are read, and no rule is ever read from private rows. A guarantee states this in its
    condition that the schema is public. This condition is not checked.

    A subclass defines ``_bound``, which converts its text for computation. Its ``kind`` is the name
    of its first field, so a table of a file needs no ``kind``.

    Examples
    --------
    >>> from missdp.schema import Never, Rule
    >>> rule = Never("age < 15 and employed = 'yes'")
    >>> isinstance(rule, Rule), rule.to_dict()
    (True, {'never': "age < 15 and employed = 'yes'"})
    """

    sparse = True

    @property
    def text(self) -> str:
        """A rule of a schema as a text for human readers and messages.

        For rules without another text it is the text of the first field.

        Returns
        -------
        str
            Public.
        """
        return str(getattr(self, self.kind))

    def bound(self, columns: Columns) -> tuple[BoundRule, ...]:
        """Convert a rule to a form by which rows of a schema can be checked and completed.

        Parameters
        ----------
        columns : mapping of str to attribute
            The attributes of the schema by name.

        Returns
        -------
        tuple of BoundRule
            One entry for each statement of the rule, with references to the attributes. Public.

        Raises
        ------
        SchemaError
            If the rule cannot be read, or does not fit the attributes.
        """
        text = self.text if len(self.text) <= _SHOWN else f"{self.text[:_SHOWN]}…"
        with replacing(RuleError, by=lambda error: SchemaError(f"rule {text!r}: {error}")):
            return tuple(self._bound(columns))

    @abstractmethod
    def _bound(self, columns: Columns) -> Iterator[BoundRule]:
        """Yield the parts of the rule. Raise ``RuleError`` if it does not fit the attributes."""

    def about(self, columns: Columns) -> frozenset[str]:
        """Return the names of all attributes that a rule of a schema names.

        Parameters
        ----------
        columns : mapping of str to attribute
            The attributes of the schema by name.

        Returns
        -------
        frozenset of str
            The names. Public.

        Raises
        ------
        SchemaError
            If the rule cannot be read, or does not fit the attributes.
        """
        return frozenset(name for bound in self.bound(columns) for name in bound.names)

    def to_dict(self) -> dict[str, Any]:
        """Return a rule about columns as a dictionary, as TOML schema files have it.

        Returns
        -------
        dict of str to JSON value
            The fields that differ from their defaults, without ``kind``. Public.
        """
        return {name: value for name, value in super().to_dict().items() if name != "kind"}

    @classmethod
    def _class_of_kind(cls, data: Mapping[str, Any]) -> type[Any]:
        """Return the class of the kind that a table has as a field."""
        kinds = {kind.kind: kind for kind in (Always, Never, NotApplicable, Determined)}
        stated = [name for name in kinds if name in data]
        if len(stated) == 1:
            return kinds[stated[0]]
        if stated:
            raise SchemaError(
                f"it has {' and '.join(stated)}, and a rule has one of them. Write a [[rule]] "
                "table for each."
            )
        near = next(filter(None, (did_you_mean(name, kinds) for name in data)), "")
        raise SchemaError(
            "a [[rule]] has one of always, never, not_applicable (with unless) and determined "
            f"(with by and map){near}"
        )

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        return SchemaError(f"a rule of kind {cls.kind!r} is not valid: {why}")


@dataclass(frozen=True)
class NotApplicable(Rule):
    """A rule by which attributes have a value only in rows in which a condition holds.

    Use it for questions that are asked of some people only, such as working hours. In all other
    rows the attributes are "not applicable". A cell that is not applicable is not missing: it is
    never imputed, and needs no separate budget. If the condition depends on a missing cell, the
    attributes may apply or not.

    The rule is public. A guarantee states this in its condition `PublicDomain`, which is not
    checked.

    Parameters
    ----------
    not_applicable : tuple of str, or str
        Names of the attributes without a value in the other rows.
    unless : str
        The condition under which the attributes have a value, such as ``"employed = 'yes'"``. It
        has names, constants, comparisons (``= != < <= > >=``), ``in``, ``and``, ``or`` and ``not``.

    Raises
    ------
    SchemaError
        If a field has the wrong type. :class:`Schema` raises it for an unknown attribute, or a
        condition that cannot be read.

    Examples
    --------
    >>> from missdp.schema import NotApplicable
    >>> NotApplicable("hours", unless="employed = 'yes'").text
    "hours is not applicable unless employed = 'yes'"
    """

    kind: ClassVar[str] = "not_applicable"
    not_applicable: OneOrMore
    unless: RuleText

    @property
    def text(self) -> str:
        """A skip rule as a text for human readers: "hours is not applicable unless job = 1".

        Returns
        -------
        str
            Public.
        """
        names = ", ".join(map(str, self.not_applicable))
        verb = "is" if len(self.not_applicable) == 1 else "are"
        return f"{names} {verb} not applicable unless {self.unless}"

    def _bound(self, columns: Columns) -> Iterator[BoundRule]:
        if not self.not_applicable:
            raise RuleError("it names no attribute")
        unless = expressions.condition(self.unless, columns)
        for name in self.not_applicable:
            yield Routing(self.text, attribute_named(columns, name), unless)


@dataclass(frozen=True)
class Never(Rule):
    """A rule that excludes a combination of values: no row satisfies its condition.

    Use it for combinations that are publicly known to be impossible. Synthetic rows obey it.

    The rule is public. A guarantee states this in its condition `PublicDomain`, which is not
    checked.

    Parameters
    ----------
    never : str
        The condition that no row satisfies, such as ``"age < 15 and employed = 'yes'"``. It has
        names, constants, comparisons (``= != < <= > >=``), ``in``, ``and``, ``or`` and ``not``.

    Raises
    ------
    SchemaError
        If the field is not text. :class:`Schema` raises it for an unknown attribute, or a condition
        that cannot be read.

    Examples
    --------
    >>> from missdp.schema import Never
    >>> Never("age < 15 and employed = 'yes'").text
    "never age < 15 and employed = 'yes'"
    """

    kind: ClassVar[str] = "never"
    never: RuleText

    @property
    def text(self) -> str:
        """A rule that excludes values as a text for human readers: "never", then the condition.

        Returns
        -------
        str
            Public.
        """
        return f"never {self.never}"

    def _bound(self, columns: Columns) -> Iterator[BoundRule]:
        yield Forbidden(self.text, expressions.condition(self.never, columns))


@dataclass(frozen=True)
class Determined(Rule):
    """A rule by which one attribute is a public function of others (a functional dependency).

    Use it if a table of all cases is known, such as years of school for each degree. The determined
    attribute needs no separate budget, since its value follows from the others.

    The rule is public. A guarantee states this in its condition `PublicDomain`, which is not
    checked.

    Parameters
    ----------
    determined : str
        The name of the attribute whose value follows.
    by : tuple of str, or str
        Names of the attributes from which the value follows. Each has levels, or whole numbers in a
        domain of at most 10,000 numbers.
    map : tuple of tuples
        A row for every combination of values of ``by``, at most 1,000,000: the values in the order
        of ``by``, then the value that follows.

    Raises
    ------
    SchemaError
        If a field has the wrong type. :class:`Schema` raises it if the map lacks or repeats a
        combination, or has a value outside the domains.

    Examples
    --------
    >>> from missdp.schema import Determined
    >>> Determined("years", by="degree", map=(("none", 9), ("bachelor", 13))).text
    'years follows from degree'
    """

    kind: ClassVar[str] = "determined"
    determined: str
    by: OneOrMore
    map: Annotated[
        tuple[tuple[Level | float, ...], ...],
        Field(description="a list of rows: the values of by, then the value that follows"),
    ]

    @property
    def text(self) -> str:
        """A functional dependency as a text for human readers, such as "years follows from degree".

        Returns
        -------
        str
            Public.
        """
        return f"{self.determined} follows from {', '.join(map(str, self.by))}"

    def _bound(self, columns: Columns) -> Iterator[BoundRule]:
        target, *sources = (attribute_named(columns, name) for name in (self.determined, *self.by))
        if not sources or len({self.determined, *self.by}) <= len(self.by):
            raise RuleError("it must follow from other attributes, each named once")
        places = [_places(attribute) for attribute in sources]
        if math.prod(map(len, places)) > MAX_MAP_ROWS:
            raise RuleError(f"the map would need more than {MAX_MAP_ROWS:,} rows")
        lookup = np.full([*map(len, places)], np.nan)
        for row in self.map:
            if len(row) != len(sources) + 1:
                raise RuleError(f"each row of the map needs {len(sources)} levels and a value")
            at = tuple(map(_place, places, sources, row[:-1]))
            if not math.isnan(lookup[at]):
                raise RuleError(f"the map has two values for {list(row[:-1])}")
            lookup[at] = _value(target, row[-1])
        if np.isnan(lookup).any():
            at = tuple(np.argwhere(np.isnan(lookup))[0])
            absent = [list(axis)[place][1] for axis, place in zip(places, at, strict=True)]
            raise RuleError(f"the map lacks a value for {absent}")
        first = tuple(a.lower if isinstance(a, Numeric) else 0.0 for a in sources)
        yield Derived(self.text, target, self.by, lookup=lookup, first=first)


# The place of each value on an axis of a map. The type belongs to the key.
_Places: TypeAlias = Mapping[tuple[type, object], int]


def _places(attribute: AnyAttribute) -> _Places:
    """Return the places of the values of an attribute on its axis of a map."""
    if not isinstance(attribute, Numeric):
        return attribute.codes_by_level
    if attribute.integer and attribute.upper - attribute.lower < MAX_MAP_NUMBERS:
        values = range(int(attribute.lower), int(attribute.upper) + 1)
        return {(int, value): place for place, value in enumerate(values)}
    raise RuleError(
        f"{attribute.name!r} is not whole, or has more than {MAX_MAP_NUMBERS:,} whole numbers. "
        "A map needs a row for each value"
    )


def _place(places: _Places, attribute: AnyAttribute, value: Any) -> int:
    """Return the place of a value, which must be in the domain of the attribute."""
    place = places.get((type(value), value)) if isinstance(value, (str, int)) else None
    if place is not None:
        return place
    if isinstance(attribute, Numeric):
        raise RuleError(f"the map: {value!r} is not in the domain of {attribute.name!r}")
    raise RuleError(f"the map: {attribute.not_a_level(value)}")


def _value(target: AnyAttribute, value: Any) -> float:
    """Return the value of the target in a map: a number, or the code of a level."""
    if not isinstance(target, Numeric):
        return float(_place(_places(target), target, value))
    inside = is_number(value) and target.lower <= value <= target.upper
    if not inside or (target.integer and not float(value).is_integer()):
        raise RuleError(f"the map: {value!r} is not in the domain of {target.name!r}")
    return float(value)


@dataclass(frozen=True)
class Always(Rule):
    """A rule that states a condition or an equation that holds in every row.

    Use it for orders of dates or numbers, for sums and for ages. Synthetic rows obey it.

    The rule is public. A guarantee states this in its condition `PublicDomain`, which is not
    checked.

    Parameters
    ----------
    always : str
        Statements that are joined by ``and``. Each statement is a condition or an equation.

        * A condition, such as ``"admission <= discharge"``. No row has its opposite. An attribute
          that is not applicable satisfies no comparison, and so it breaks no condition.
        * A linear equation of numbers, such as ``"age + birth_year = 2024"`` or ``"2 * a - b =
          c"``. One of the numbers follows from the other attributes.
        * ``"age = years(birth, interview)"``: a whole number is the completed years from one date
          to another. A year is completed on the anniversary. The anniversary of 29 February is 1
          March in other years. Dates of whole months or years are the first day, as written.
    determines : str, optional
        The number that follows from the equation, in a rule with one equation. By default it is the
        last number in the text. In an equation with years(), the number of years always follows.

    Raises
    ------
    SchemaError
        If a field has the wrong type. :class:`Schema` also raises it for an unknown attribute and
        for a statement that cannot be read. Other causes are dates in different units and numbers
        that are too large.

    Examples
    --------
    >>> from missdp.schema import Always
    >>> from missdp.schema import Numeric, Schema
    >>> years = {"lower": 1900, "upper": 2030, "integer": True}
    >>> start, end = Numeric(name="start", **years), Numeric(name="end", **years)
    >>> Schema((start, end), (Always("start <= end"),)).rules[0].text
    'start <= end'
    """

    kind: ClassVar[str] = "always"
    always: RuleText
    determines: str | None = None

    def _bound(self, columns: Columns) -> Iterator[BoundRule]:
        parts = expressions.statements(self.always, columns)
        equations = sum(not isinstance(part, Predicate) for part in parts)
        if self.determines is not None and equations != 1:
            raise RuleError("determines is for a rule with one equation")
        for part in parts:
            if isinstance(part, Predicate):
                yield Forbidden(self.text, part.opposite())
            else:
                linear = isinstance(part, dict)
                yield self._linear(part, columns) if linear else self._years(*part)  # type: ignore[arg-type]

    def _linear(self, terms: Linear, columns: Columns) -> Derived:
        """Return the rule by which one number of a linear equation follows from the others."""
        constant, numbers = terms.pop(""), dict[str, Numeric]()
        for name in terms:
            if not isinstance(attribute := columns[name], Numeric):
                raise RuleError(f"{name!r} is not numeric")
            numbers[name] = attribute
        dated = {n for n, a in numbers.items() if isinstance(a, Date)}
        if between := [n for n, a in numbers.items() if dated and isinstance(a, Difference)]:
            raise RuleError(
                f"{between[0]!r} is of kind 'difference', which an equation cannot add to dates. "
                "The difference itself gives the time between its two dates. Leave the rule out."
            )
        if len({expressions.scale_of(a) for a in numbers.values()} - {"numbers"}) > 1:
            raise RuleError(
                "its dates or differences are counted in different units. Give them one step."
            )
        name = self.determines if self.determines is not None else next(reversed(terms), "")
        if not isinstance(name, str) or name not in terms:
            raise RuleError(f"it cannot determine {name!r}, which it does not name")
        if len(terms) < 2 or not all(terms.values()):
            raise RuleError("it needs at least two attributes, each with a multiple other than 0")
        target, factor = numbers.pop(name), terms.pop(name)
        multiples = tuple(-times / factor for times in terms.values())
        _check_sizes(numbers.values(), multiples, constant / factor)
        if target.integer and not all(a.integer for a in numbers.values()):
            raise RuleError(
                f"{name!r} is a whole number, so the attributes of its equation must be whole too"
            )
        return Derived(self.text, target, tuple(terms), terms=multiples, start=constant / factor)

    def _years(self, number: AnyAttribute, earlier: AnyAttribute, later: AnyAttribute) -> Derived:
        """Return the rule by which a number is the completed years between two dates."""
        if earlier is later:
            raise RuleError(f"it names {later.name!r} twice. years() needs two dates")
        if self.determines not in (None, number.name):
            raise RuleError(f"only {number.name!r} follows from the two dates")
        integer = isinstance(number, Numeric) and number.integer and number.step in (None, 1.0)
        if not integer or isinstance(number, Date | Difference):
            raise RuleError(
                f"{number.name!r} must be numeric with integer = true, since completed years are "
                "whole numbers"
            )
        units = _unit_of_days(earlier), _unit_of_days(later)
        return Derived(self.text, number, (earlier.name, later.name), units=units)


def _unit_of_days(date: AnyAttribute) -> Resolution:
    """Return the unit of a date whose day does not depend on the place."""
    if not isinstance(date, Date) or isinstance(date, EitherDate):
        raise RuleError(f"{date.name!r} is not a date. years() counts from one date to another")
    if date.zoned:
        raise RuleError(
            f"{date.name!r} has a time zone, so its day depends on the place. Declare a date "
            "without a time zone"
        )
    return date.unit


def _check_sizes(numbers: Iterable[Numeric], multiples: tuple[float, ...], start: float) -> None:
    """Raise RuleError for numbers that floating point cannot add exactly enough."""
    largest = (max(abs(a.lower), abs(a.upper)) for a in numbers)
    size = sum(abs(times) * high for times, high in zip(multiples, largest, strict=True))
    if not all(map(math.isfinite, multiples)) or not abs(start) + size < MAX_INTEGER:
        raise RuleError("its numbers are too large: the result must be below 2**53 in size")
    if not all(multiples):
        raise RuleError("its numbers differ so much in size that some of them vanish")
