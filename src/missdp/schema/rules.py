"""Rules: public facts about one row, which hold for every row of a table and of a synthetic one.

A rule is what everybody knows before any data are seen: men are not pregnant, who does not work has
no working hours, age and year of birth add up to the year of the survey. No rule is ever read from
private rows.

Rules about numbers: linear equations, and orders.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise, product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from missdp.errors import MissDPError, ParameterError, SchemaError, did_you_mean, replacing
from missdp.record import Record
from missdp.schema.attributes import MAX_WHOLE, Level, Ordinal, is_number
from missdp.schema.bound import Bound, Derives, Forbids, Routes
from missdp.schema.numeric import Numeric
from missdp.schema.predicates import Predicate, backticks_hint, parse_where

if TYPE_CHECKING:
    from missdp.schema.schema import AnyAttribute, Schema


_MOST_NUMBERS = 10_000  # of one attribute
_MOST_ROWS = 1_000_000  # of a map


@dataclass(frozen=True)
class Rule(Record, abstract=True):
    """A public fact about one row. Use a subclass."""

    @property
    @abstractmethod
    def text(self) -> str:
        """The rule in words."""

    @abstractmethod
    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return the rule as it is computed with.

        Raises
        ------
        SchemaError
            If it names what the schema does not have, or makes no sense there.
        """

    def about(self, schema: Schema) -> frozenset[str]:
        """Return the attributes that the rule is about."""
        return frozenset(name for bound in self.bound(schema) for name in bound.names)

    def _wrong(self, why: str) -> SchemaError:
        return SchemaError(f"rule {self.text!r}: {why}")

    def _attribute(self, schema: Schema, name: Any) -> AnyAttribute:
        if not isinstance(name, str) or name not in schema:
            near = did_you_mean(name, schema.names)
            raise self._wrong(f"the schema has no attribute {name!r}{near}")
        return schema[name]

    def _predicate(self, text: Any, schema: Schema) -> Predicate:
        def wrong(error: BaseException) -> MissDPError:
            return self._wrong(str(error).removeprefix("where: "))

        if not isinstance(text, str) or not text.strip():
            raise self._wrong("a condition is text, and not empty")
        with replacing(ParameterError, by=wrong):
            return parse_where(text, schema)

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        del data
        return SchemaError(f"a rule of kind {cls.kind!r} is not valid: {why}")


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
        names = ", ".join(map(str, self.names))
        return (
            f"{names} {'is' if len(self.names) == 1 else 'are'} not applicable unless {self.unless}"
        )

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return one bound rule for each attribute."""
        if not self.names:
            raise self._wrong("it names no attribute")
        predicate = self._predicate(self.unless, schema)
        names = [self._attribute(schema, name).name for name in self.names]
        return tuple(Routes(self.text, name, predicate) for name in names)


@dataclass(frozen=True)
class Impossible(Rule):
    """A combination that no row has.

    Parameters
    ----------
    when : str
        What is impossible, in the language of subpopulations.

    Examples
    --------
    >>> Impossible("sex = 'male' and pregnant = 'yes'").text
    "never sex = 'male' and pregnant = 'yes'"
    """

    kind: ClassVar[str] = "impossible"
    when: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return f"never {self.when}"

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return the bound rule."""
        predicate = self._predicate(self.when, schema)
        return (Forbids(self.text, tuple(sorted(predicate.names)), (predicate,)),)


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

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return the bound rule."""
        target = self._attribute(schema, self.name)
        given = [self._attribute(schema, name) for name in self.by]
        if not given or len(set(self.by)) < len(self.by) or self.name in self.by:
            raise self._wrong("it must follow from other attributes, each named once")
        levels = [self._domain(attribute) for attribute in given]
        if math.prod(map(len, levels)) > _MOST_ROWS:
            raise self._wrong(f"the map would need more than {_MOST_ROWS:,} rows")
        rows = self._rows(given, levels)
        known = () if isinstance(target, Numeric) else target.levels
        codes = {level: code for code, level in enumerate(known)}
        values = [self._value(target, codes, rows[row]) for row in product(*levels)]
        lookup = np.array(values, dtype=np.float64).reshape([len(found) for found in levels])
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

    def _rows(
        self, given: list[AnyAttribute], levels: list[tuple[Level, ...]]
    ) -> dict[tuple[Any, ...], Any]:
        """Return the value of each combination of levels."""
        width = len(levels)
        kinds = [type(found[0]) for found in levels]
        known = [set(found) for found in levels]
        rows: dict[tuple[Any, ...], Any] = {}
        for row in self.map if isinstance(self.map, tuple) else ():
            if not isinstance(row, tuple) or len(row) != width + 1:
                raise self._wrong(f"each row of the map needs {width} levels and a value")
            for level, kind, among, attribute in zip(row, kinds, known, given, strict=False):
                if type(level) is not kind or level not in among:
                    raise self._wrong(f"the map: {_not_in(attribute, level)}")
            if row[:-1] in rows:
                raise self._wrong(f"the map has two values for {list(row[:-1])}")
            rows[row[:-1]] = row[-1]
        if len(rows) < math.prod(map(len, levels)):
            lacking = next(row for row in product(*levels) if row not in rows)
            raise self._wrong(f"the map lacks a value for {list(lacking)}")
        return rows

    def _value(self, target: AnyAttribute, codes: Mapping[Any, int], value: Any) -> float:
        """Read a value of the map: a number, or the code of a level."""
        if isinstance(target, Numeric):
            inside = is_number(value) and target.lower <= value <= target.upper
            if inside and (not target.integer or float(value).is_integer()):
                return float(value)
        elif type(value) is type(target.levels[0]) and value in codes:
            return float(codes[value])
        raise self._wrong(f"the map: {_not_in(target, value)}")


def _not_in(attribute: AnyAttribute, value: object) -> str:
    if isinstance(attribute, Numeric):
        return f"{value!r} is not in the domain of {attribute.name!r}"
    return attribute.not_a_level(value)


def _several(names: Any) -> tuple[Any, ...]:
    return tuple(names) if isinstance(names, (list, tuple)) else (names,)


_NAME = r"(?:`[^`]+`|[^\W\d]\w*)"
_NUMBER = r"(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_TERM = re.compile(
    rf"\s*(?:(?P<minus>-)\s*)?(?:(?:(?P<times>{_NUMBER})\s*\*\s*)?(?P<name>{_NAME})"
    rf"|(?P<number>{_NUMBER}))\s*(?P<sign>[-+=]|\Z)"
)
_ORDER = re.compile(rf"\s*{_NAME}(?:\s*<=?\s*{_NAME})+\s*")


def _written(rule: Rule, text: Any) -> str:
    if not isinstance(text, str):
        raise rule._wrong("it is written as text")
    return text


def _hinting(rule: Rule, schema: Schema) -> AbstractContextManager[None]:
    """Add to a refusal that an odd name goes in backticks, if the rule has one without them."""
    hint = backticks_hint(rule.text, schema.names)
    return replacing(SchemaError, by=lambda error: SchemaError(f"{error}{hint}"))


@dataclass(frozen=True)
class Equation(Rule):
    """A linear equation between numbers, by which one of them follows from the others.

    Parameters
    ----------
    equation : str
        Such as ``"age + birth_year = 2024"`` or ``"2 * a - b = c"``; names that are no plain words
        go in backticks.
    determines : str, optional
        Which one follows from the others; by default the last one named.

    Examples
    --------
    >>> Equation("age + birth_year = 2024").text
    'age + birth_year = 2024'
    """

    kind: ClassVar[str] = "equation"
    equation: str
    determines: str | None = None

    @property
    def text(self) -> str:
        """The rule in words."""
        return str(self.equation)

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return the bound rule."""
        with _hinting(self, schema):
            terms, constant = self._sides()
            attributes = [self._attribute(schema, name) for name in terms]
        for attribute in attributes:
            if not isinstance(attribute, Numeric):
                raise self._wrong(f"{attribute.name!r} is not numeric")
        target = self.determines if self.determines is not None else next(reversed(terms), "")
        if not isinstance(target, str) or target not in terms:
            raise self._wrong(f"it cannot determine {target!r}, which it does not name")
        if len(terms) < 2 or not all(terms.values()):
            raise self._wrong("it needs at least two attributes, each with a multiple other than 0")
        by = tuple(name for name in terms if name != target)
        own = terms[target]
        multiples = tuple(-terms[name] / own for name in by)
        start = constant / own
        self._check_sizes(schema, dict(zip(by, multiples, strict=True)), start)
        if schema[target].integer and not all(schema[name].integer for name in by):  # type: ignore[union-attr]
            raise self._wrong(
                f"{target!r} is a whole number; so must be the attributes that it follows from"
            )
        return (Derives(self.text, schema[target], by, terms=multiples, start=start),)

    def _check_sizes(self, schema: Schema, multiples: Mapping[str, float], start: float) -> None:
        """Refuse numbers that floating point cannot add, or that vanish."""
        sizes = [abs(start)]
        for name, times in multiples.items():
            attribute = schema[name]
            assert isinstance(attribute, Numeric)
            sizes.append(abs(times) * max(abs(attribute.lower), abs(attribute.upper)))
        if not all(map(math.isfinite, multiples.values())) or not sum(sizes) < MAX_WHOLE:
            raise self._wrong("its numbers are too large: what follows must be below 2**53 in size")
        if not all(multiples.values()):
            raise self._wrong("its numbers differ so much in size that some of them vanish")

    def _sides(self) -> tuple[dict[str, float], float]:
        """Return the multiple of each attribute, all on the left, and the number on the right."""
        text, terms = _written(self, self.equation), dict[str, float]()
        constant, side, sign, at = 0.0, 1.0, "+", 0
        while sign:
            found = _TERM.match(text, at)
            if found is None or (found["minus"] and terms and sign != "="):
                near = text[at:].strip()[:20] or "the end"
                raise self._wrong(
                    f"expected a number or an attribute, then +, - or =, found {near!r}"
                )
            if sign == "=" and side < 0:
                raise self._wrong("it has more than one '='")
            side = -1.0 if sign == "=" else side
            factor = side * float(found["times"] or found["number"] or 1)
            factor *= (-1.0 if sign == "-" else 1.0) * (-1.0 if found["minus"] else 1.0)
            if found["name"]:
                name = found["name"].strip("`")
                terms[name] = terms.get(name, 0.0) + factor
            else:
                constant -= factor
            sign, at = found["sign"], found.end()
        if side > 0:
            raise self._wrong("it has no '='")
        return terms, constant


@dataclass(frozen=True)
class Order(Rule):
    """Attributes whose values never fall from one to the next.

    Parameters
    ----------
    order : str
        Names with ``<=`` or ``<`` between them, such as ``"start <= end"``. All are numbers, or
        all are ordinal with the same levels.

    Examples
    --------
    >>> Order("born < married <= died").text
    'born < married <= died'
    """

    kind: ClassVar[str] = "order"
    order: str

    @property
    def text(self) -> str:
        """The rule in words."""
        return str(self.order)

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return one bound rule for each two neighbours."""
        with _hinting(self, schema):
            if not _ORDER.fullmatch(_written(self, self.order)):
                raise self._wrong("it needs names with < or <= between them")
            words = re.findall(rf"{_NAME}|<=?", self.order)
            found = [self._attribute(schema, name.strip("`")) for name in words[::2]]
        if len({attribute.name for attribute in found}) < len(found):
            raise self._wrong("it names an attribute twice")
        numbers = all(isinstance(attribute, Numeric) for attribute in found)
        scales = {a.levels if isinstance(a, Ordinal) else None for a in found}
        if not numbers and (None in scales or len(scales) > 1):
            raise self._wrong("all must be numeric, or all ordinal with the same levels")
        # What is forbidden: the opposite of each comparison.
        return tuple(
            Forbids(self.text, (one.name, two.name), ((one.name, _OPPOSITE[sign], two.name),))
            for (one, two), sign in zip(pairwise(found), words[1::2], strict=True)
        )


_OPPOSITE = {"<=": ">", "<": ">="}
