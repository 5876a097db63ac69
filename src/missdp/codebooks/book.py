"""What every format of code book says of a table, and the schema that follows from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import tomli_w

from missdp.errors import SchemaError
from missdp.schema import AnyAttribute, Categorical, Date, DateTime, Numeric, Ordinal, Schema
from missdp.schema.attributes import KINDS, Kind, Level, number_text, read_number
from missdp.schema.rules import NotApplicable
from missdp.schema.schema import comment
from missdp.table.missing_codes import text_codes

Domain: TypeAlias = Literal[
    "levels", "ordered", "number", "whole", "date", "datetime", "boolean", "key", "other"
]
"""What cells of a variable are: one of its values, a number, a date, true or false, or none."""


_KINDS: Final = {"number": "numeric", "whole": "numeric", "date": "date", "datetime": "datetime"}


@dataclass(frozen=True)
class Value:
    """A code that a cell may have, what it stands for, and whether it stands for a missing cell."""

    code: str
    label: str = ""
    missing: bool = False


@dataclass(frozen=True, kw_only=True)
class Variable:
    """What a code book says of one column.

    ``source`` says where it stands there. In the ``domain`` "key" tells rows or persons apart;
    "other" is text, files, and whatever else has no list of values. ``values`` are in the order of
    the code book, with those of missing cells; ``written`` has format, step and timezone of
    a :class:`~missdp.Date`. Few code books tell whether a cell may be empty (``nullable``): True is
    the safe answer. ``condition`` says in which rows there is something to ask for, in the language
    of rules; ``notes`` what the code book says besides, and what could not be translated.
    """

    name: str
    source: str
    domain: Domain
    values: tuple[Value, ...] = ()
    lower: float | str | None = None
    upper: float | str | None = None
    written: Mapping[str, str] = field(default_factory=dict)
    nullable: bool = True
    condition: str = ""
    label: str = ""
    notes: tuple[str, ...] = ()

    def attribute(self) -> AnyAttribute:
        """Return the attribute that these facts make."""
        if self.domain == "key":
            raise SchemaError(f"{self.name!r} tells rows or persons apart: drop it from the data")
        facts = self._facts()
        if self.domain in _KINDS:
            return self._between(facts)
        if self.domain == "boolean":
            return Categorical(levels=(False, True), **facts)
        levels = [value.code for value in self.values if not value.missing]
        if self.domain == "other" or not levels:
            raise self._lacks("list of the values that its cells may have")
        facts["levels"] = _levels(levels)
        return Ordinal(**facts) if self.domain == "ordered" else Categorical(**facts)

    def _facts(self) -> dict[str, Any]:
        """Return the facts that attributes of all kinds have."""
        codes = self._missing_codes()
        facts: dict[str, Any] = {"name": self.name, "label": self.label}
        facts["nullable"] = self.nullable or any(kind != "not_applicable" for kind in codes)
        facts |= {_fact(kind): tuple(map(_plain, given)) for kind, given in codes.items()}
        facts["labels"] = {v.code: v.label for v in self.values if v.label and self._names(v)}
        return facts

    def block(self) -> str:
        """Return the block of a number or date without bounds, for a person to complete."""
        if self.domain not in _KINDS:
            return ""
        facts = {"kind": _KINDS[self.domain], "integer": self.domain == "whole", **self.written}
        known = {name: fact for name, fact in (self._facts() | facts).items() if fact}
        listed = {n: list(fact) if isinstance(fact, tuple) else fact for n, fact in known.items()}
        text = tomli_w.dumps({"attribute": [listed]})
        return text.replace("[[attribute]]\n", "[[attribute]]\nlower = \nupper = \n", 1)

    def _between(self, facts: dict[str, Any]) -> Numeric:
        if self.lower is None or self.upper is None:
            raise self._lacks("lower and upper bound")
        if self.domain in ("date", "datetime"):
            facts |= {"lower": self.lower, "upper": self.upper, **self.written}
            return Date(**facts) if self.domain == "date" else DateTime(**facts)
        lower, upper = float(self.lower), float(self.upper)
        named = [value.code for value in self.values if not value.missing]
        numbers = {x for code in named if (x := read_number(code)) is not None}
        inside = {x for x in numbers if lower <= x <= upper and math.isfinite(x)}
        facts |= {"spikes": tuple(sorted(inside))} if inside else {}
        return Numeric(lower=lower, upper=upper, integer=self.domain == "whole", **facts)

    def _names(self, value: Value) -> bool:
        """Whether a value is a level, or a code of missing cells: numbers stand for themselves."""
        return value.missing or self.domain in ("levels", "ordered")

    def check_values(self) -> None:
        """Refuse a code that stands for two things."""
        seen: dict[str, Value] = {}
        for value in self.values:
            if seen.setdefault(value.code, value) != value:
                raise SchemaError(
                    f"the code book contradicts itself ({self.source}): {self.name!r} has code "
                    f"{value.code!r} twice, and says different things of it"
                )

    def _missing_codes(self) -> dict[Kind, list[str]]:
        """Return codes of missing cells, by the kind that their labels name."""
        found: dict[Kind, list[str]] = {}
        for value in self.values:
            if value.missing:
                kind: Kind = next(iter(text_codes([value.label, value.code])), "missing")
                found.setdefault(kind, []).append(value.code)
        return {kind: found[kind] for kind in KINDS if kind in found}

    def remarks(self) -> Iterator[str]:
        """Yield where the facts come from, and what a person should look at."""
        yield f"{self.name}: {self.source}"
        yield from self.notes
        for value in self.values:
            if not value.missing and (kinds := text_codes([value.label])):
                fact = _fact(next(iter(kinds)))
                yield f"level {value.code} is {value.label!r}: no answer? then move it to {fact}"

    def _lacks(self, fact: str) -> SchemaError:
        return SchemaError(f"the code book has no {fact} of {self.name!r}")


@dataclass(frozen=True)
class CodeBook:
    """The variables of a code book, and the schema that they make.

    Parameters
    ----------
    format : str
        Name of the format, for people.
    variables : tuple of Variable
    notes : tuple of str, default ()
        What the code book says of the whole table and could not be translated.

    Examples
    --------
    >>> sex = Variable(name="sex", source="page 1", domain="levels",
    ...                values=(Value("1", "woman"), Value("2", "man"), Value("9", "Refused", True)))
    >>> pay = Variable(name="income", source="page 2", domain="number")
    >>> book = CodeBook("by hand", (sex, pay))
    >>> book.schema()["sex"].levels, book.schema()["sex"].refused
    ((1, 2), (9,))
    >>> book.left_out()
    {'income': "the code book has no lower and upper bound of 'income'"}
    """

    format: str
    variables: tuple[Variable, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for variable in self.variables:
            if variable.name in seen:
                raise SchemaError(f"the code book has variable {variable.name!r} twice")
            seen.add(variable.name)
            variable.check_values()

    @cached_property
    def _found(self) -> tuple[dict[str, AnyAttribute], dict[str, str]]:
        """Attributes by name, and what is lacking of the others."""
        made, lacking = {}, {}
        for variable in self.variables:
            try:
                made[variable.name] = variable.attribute()
            except SchemaError as error:
                lacking[variable.name] = str(error)
        return made, lacking

    def schema(self) -> Schema:
        """Return the schema of all variables of which the code book says enough."""
        made, _ = self._found
        if not made:
            raise SchemaError("the code book has no variable of which it says enough for a schema")
        return Schema(tuple(made.values()), tuple(self._rules()))

    def left_out(self) -> Mapping[str, str]:
        """Return the variables that are not in the schema, and what is lacking of each."""
        return dict(self._found[1])

    def untranslated(self) -> tuple[str, ...]:
        """Return conditions that do not fit the schema: they name what is not in it, say."""
        return tuple(
            f"{name} has a value only where: {rule.unless}"
            for rule in self._rules(fitting=False)
            for name in rule.not_applicable
        )

    def _rules(self, *, fitting: bool = True) -> Iterator[NotApplicable]:
        """Yield the conditions that fit the schema, or those that do not, as rules."""
        made, _ = self._found
        together: dict[str, list[str]] = {}
        for variable in self.variables:
            if variable.condition and variable.name in made:
                together.setdefault(variable.condition, []).append(variable.name)
        for condition, names in together.items():
            rule = NotApplicable(tuple(names), unless=condition)
            if _fits(rule, made) == fitting:
                yield rule

    def to_toml(self, path: str | Path) -> None:
        """Write the schema, whole or not at all; each attribute below a comment with its source.

        Variables that are not in it stand in comments at the end, with what is lacking.
        """
        remarks = {v.name: tuple(v.remarks()) for v in self.variables}
        self.schema().to_toml(path, comments=remarks, notes="".join(self._at_the_end()))

    def _at_the_end(self) -> Iterator[str]:
        """Yield comments: what is not in the schema, and why."""
        lacking = self._found[1]
        for v in self.variables:
            if v.name in lacking:
                missing = f"Not in the schema: {lacking[v.name]}."
                yield "\n" + comment(*v.remarks(), missing, *v.block().splitlines())
        for told in (*self.untranslated(), *self.notes):
            yield "\n" + comment(f"Not translated: {told}")


def _fits(rule: NotApplicable, columns: Mapping[str, AnyAttribute]) -> bool:
    """Whether a condition can be read with these attributes."""
    try:
        rule.bound(columns)
    except SchemaError:
        return False
    return True


def _fact(kind: Kind) -> str:
    return "missing_codes" if kind == "missing" else kind


def _whole(code: str) -> bool:
    """Whether a code is the usual spelling of a whole number: 1, not 01 and not 1.0."""
    number = read_number(code)
    return number is not None and number.is_integer() and number_text(number) == code


def _plain(code: str) -> str | float:
    """Return a code as the number that it is written like, or as text."""
    return int(code) if _whole(code) else code


def _levels(codes: list[str]) -> tuple[Level, ...]:
    return tuple(map(int, codes)) if all(map(_whole, codes)) else tuple(codes)
