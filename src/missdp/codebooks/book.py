"""Facts of code books in all formats, and the schemas that follow from them."""

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
"""Domain of a variable: its values, numbers, dates, true and false, keys, or anything else."""


_KINDS: Final = {"number": "numeric", "whole": "numeric", "date": "date", "datetime": "datetime"}


@dataclass(frozen=True)
class Value:
    """One value of a column in a code book, with its label and a flag for missing cells.

    Parameters
    ----------
    code : str
        The value as cells have it.
    label : str, default ""
        Its meaning for human readers.
    missing : bool, default False
        True if the code stands for a missing cell.
    """

    code: str
    label: str = ""
    missing: bool = False


@dataclass(frozen=True, kw_only=True)
class Variable:
    """The facts of a code book about one column of a table. Public.

    Parameters
    ----------
    name : str
        Name of the column.
    source : str
        Place of the variable in the code book.
    domain : {"levels", "ordered", "number", "whole", "date", "datetime", "boolean", "key", "other"}
        The domain. "ordered" has ordered levels, and "whole" whole numbers. "key" identifies rows
        or persons. "other" has no list of values, such as text.
    values : tuple of Value, default ()
        Values in the order of the code book, including codes of missing cells.
    lower, upper : float or str, optional
        Bounds of a number or date.
    date_facts : mapping of str to str, default {}
        Format, step and timezone of a :class:`~missdp.Date`.
    nullable : bool, default True
        True if a cell may be empty. Few code books state this.
    condition : str, default ""
        The condition under which a row has a value, in the syntax of rules. Empty if every row has
        one.
    label : str, default ""
        Text for human readers.
    notes : tuple of str, default ()
        Other facts, and facts that could not be translated.
    """

    name: str
    source: str
    domain: Domain
    values: tuple[Value, ...] = ()
    lower: float | str | None = None
    upper: float | str | None = None
    date_facts: Mapping[str, str] = field(default_factory=dict)
    nullable: bool = True
    condition: str = ""
    label: str = ""
    notes: tuple[str, ...] = ()

    def attribute(self) -> AnyAttribute:
        """Return the attribute of a schema that follows from the facts of the code book.

        Returns
        -------
        Attribute
            Public.

        Raises
        ------
        SchemaError
            If the code book lacks a fact, such as bounds, or the column identifies rows or persons.
        """
        if self.domain == "key":
            raise SchemaError(f"{self.name!r} identifies rows or persons: drop it from the data")
        facts = self._facts()
        if self.domain in _KINDS:
            return self._between(facts)
        if self.domain == "boolean":
            return Categorical(levels=(False, True), **facts)
        levels = [value.code for value in self.values if not value.missing]
        if self.domain == "other" or not levels:
            raise self._absent("list of the values that its cells may have")
        facts["levels"] = _levels(levels)
        return Ordinal(**facts) if self.domain == "ordered" else Categorical(**facts)

    def _facts(self) -> dict[str, Any]:
        """Return the facts that attributes of all kinds have."""
        codes = self._missing_codes()
        facts: dict[str, Any] = {"name": self.name, "label": self.label}
        facts["nullable"] = self.nullable or any(kind != "not_applicable" for kind in codes)
        facts |= {_fact(kind): tuple(map(_plain, texts)) for kind, texts in codes.items()}
        facts["labels"] = {v.code: v.label for v in self.values if v.label and self._has_labels(v)}
        return facts

    def block(self) -> str:
        """Return the block of a number or date without bounds, for a person to complete."""
        if self.domain not in _KINDS:
            return ""
        facts = {"kind": _KINDS[self.domain], "integer": self.domain == "whole", **self.date_facts}
        pairs = [(name, fact) for name, fact in (self._facts() | facts).items() if fact]
        listed = {n: list(fact) if isinstance(fact, tuple) else fact for n, fact in pairs}
        text = tomli_w.dumps({"attribute": [listed]})
        return text.replace("[[attribute]]\n", "[[attribute]]\nlower = \nupper = \n", 1)

    def _between(self, facts: dict[str, Any]) -> Numeric:
        """Return the number or date with bounds. Its labelled numbers become spikes."""
        if self.lower is None or self.upper is None:
            raise self._absent("lower and upper bound")
        if self.domain in ("date", "datetime"):
            facts |= {"lower": self.lower, "upper": self.upper, **self.date_facts}
            return Date(**facts) if self.domain == "date" else DateTime(**facts)
        lower, upper = float(self.lower), float(self.upper)
        numbers = {read_number(value.code) for value in self.values if not value.missing}
        spikes = {x for x in numbers if x is not None and lower <= x <= upper and math.isfinite(x)}
        facts |= {"spikes": tuple(sorted(spikes))} if spikes else {}
        return Numeric(lower=lower, upper=upper, integer=self.domain == "whole", **facts)

    def _has_labels(self, value: Value) -> bool:
        """Return True if a value is a level or a code of missing cells, not a plain number."""
        return value.missing or self.domain in ("levels", "ordered")

    def check_values(self) -> None:
        """Check that no code of the column has two meanings.

        Raises
        ------
        SchemaError
            If a code occurs twice with different labels or flags.
        """
        value_of_code: dict[str, Value] = {}
        for value in self.values:
            if value_of_code.setdefault(value.code, value) != value:
                raise SchemaError(
                    f"the code book contradicts itself ({self.source}): {self.name!r} has code "
                    f"{value.code!r} twice, with different meanings"
                )

    def _missing_codes(self) -> dict[Kind, list[str]]:
        """Return codes of missing cells, by the kind that their labels name."""
        codes: dict[Kind, list[str]] = {}
        for value in self.values:
            if value.missing:
                kind: Kind = next(iter(text_codes([value.label, value.code])), "missing")
                codes.setdefault(kind, []).append(value.code)
        return {kind: codes[kind] for kind in KINDS if kind in codes}

    def remarks(self) -> Iterator[str]:
        """Yield the source of the facts, and doubts that a person should check."""
        yield f"{self.name}: {self.source}"
        yield from self.notes
        for value in self.values:
            if not value.missing and (kinds := text_codes([value.label])):
                fact = _fact(next(iter(kinds)))
                yield f"level {value.code} is {value.label!r}. If it is missing, move it to {fact}"

    def _absent(self, fact: str) -> SchemaError:
        """Return the error about a fact that the code book lacks."""
        return SchemaError(f"the code book has no {fact} of {self.name!r}")


@dataclass(frozen=True)
class CodeBook:
    """The variables of a code book (facts about columns), and the schema that follows from them.

    A code book is a document that describes the columns of a table. :func:`read_codebook` reads it
    from a file, without any row of data. All facts are public. Facts that cannot be translated are
    listed, and nothing is guessed.

    Parameters
    ----------
    format : str
        Name of the format, for human readers, such as "SPSS file".
    variables : tuple of Variable
        Facts about columns, in the order of the code book. Each has a name, a domain, values,
        bounds and labels.
    notes : tuple of str, default ()
        Facts about the table that could not be translated.

    Raises
    ------
    SchemaError
        If two variables have one name, or a code has two meanings.

    Examples
    --------
    >>> from missdp.codebooks import CodeBook
    >>> from missdp.codebooks.book import Value, Variable
    >>> sex = Variable(name="sex", source="page 1", domain="levels",
    ...                values=(Value("1", "woman"), Value("2", "man"), Value("9", "Refused", True)))
    >>> pay = Variable(name="income", source="page 2", domain="number")
    >>> book = CodeBook("by hand", (sex, pay))
    >>> book.schema()["sex"].levels, book.schema()["sex"].refused
    ((1, 2), (9,))
    >>> book.omitted()
    {'income': "the code book has no lower and upper bound of 'income'"}
    """

    format: str
    variables: tuple[Variable, ...]
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [variable.name for variable in self.variables]
        for variable in self.variables:
            if names.count(variable.name) > 1:
                raise SchemaError(f"the code book has variable {variable.name!r} twice")
            variable.check_values()

    @cached_property
    def _attributes(self) -> tuple[dict[str, AnyAttribute], dict[str, str]]:
        """Attributes by name, and the problems of variables without an attribute."""
        attributes, problems = {}, {}
        for variable in self.variables:
            try:
                attributes[variable.name] = variable.attribute()
            except SchemaError as error:
                problems[variable.name] = str(error)
        return attributes, problems

    def schema(self) -> Schema:
        """Return a schema of the columns for which the code book states enough facts.

        A variable needs a type, and its levels or bounds. `omitted` lists the others with reasons.
        Skip conditions become :class:`~missdp.schema.NotApplicable` rules, if they fit the
        attributes. Other skip conditions are left out.

        Returns
        -------
        Schema
            Attributes in the order of the code book. Public.

        Raises
        ------
        SchemaError
            If no variable has sufficient facts.
        """
        attributes, _ = self._attributes
        if not attributes:
            raise SchemaError("the code book has no variable with sufficient facts for a schema")
        return Schema(tuple(attributes.values()), tuple(self._rules()))

    def omitted(self) -> Mapping[str, str]:
        """Return the columns of the code book that are not in its schema, with the reasons.

        Returns
        -------
        dict of str to str
            For each omitted variable, by its name, a sentence about the absent fact. Public.
        """
        return dict(self._attributes[1])

    def untranslated(self) -> tuple[str, ...]:
        """Return the filters of questions in a code book that do not fit the schema of its columns.

        A filter states which rows have a value. A filter on a column outside the schema does not
        fit.

        Returns
        -------
        tuple of str
            A sentence for each column with such a condition. Public.
        """
        return tuple(
            f"{name} has a value only if: {rule.unless}"
            for rule in self._rules(fitting=False)
            for name in rule.not_applicable
        )

    def _rules(self, *, fitting: bool = True) -> Iterator[NotApplicable]:
        """Yield the conditions that fit the schema, or the other conditions, as rules."""
        attributes, _ = self._attributes
        together: dict[str, list[str]] = {}
        for variable in self.variables:
            if variable.condition and variable.name in attributes:
                together.setdefault(variable.condition, []).append(variable.name)
        for condition, names in together.items():
            rule = NotApplicable(tuple(names), unless=condition)
            if _fits(rule, attributes) == fitting:
                yield rule

    def to_toml(self, path: str | Path) -> None:
        """Write the schema of the code book to a TOML file, for a person to complete.

        The source of each attribute is a comment. Comments at the end list the other variables,
        with their absent facts. The file is written completely or not at all.

        Parameters
        ----------
        path : str or Path
            The file. An existing file is replaced.

        Raises
        ------
        OutputError
            If the file cannot be written.
        SchemaError
            If no variable has sufficient facts.
        """
        remarks = {v.name: tuple(v.remarks()) for v in self.variables}
        self.schema().to_toml(path, comments=remarks, notes="".join(self._at_the_end()))

    def _at_the_end(self) -> Iterator[str]:
        """Yield comments about variables that are not in the schema, with the reasons."""
        problems = self.omitted()
        for v in self.variables:
            if v.name in problems:
                reason = f"Not in the schema: {problems[v.name]}."
                yield "\n" + comment(*v.remarks(), reason, *v.block().splitlines())
        for text in (*self.untranslated(), *self.notes):
            yield "\n" + comment(f"Not translated: {text}")


def _fits(rule: NotApplicable, columns: Mapping[str, AnyAttribute]) -> bool:
    """Return True if a condition fits these attributes."""
    try:
        rule.bound(columns)
    except SchemaError:
        return False
    return True


def _fact(kind: Kind) -> str:
    """Return the fact of an attribute that declares codes of a kind of missing."""
    return "missing_codes" if kind == "missing" else kind


def _is_integer(code: str) -> bool:
    """Return True if a code is a whole number in its usual form: 1, not 01 and not 1.0."""
    number = read_number(code)
    return number is not None and number.is_integer() and number_text(number) == code


def _plain(code: str) -> str | float:
    """Return a code as a whole number if it is one, else as text."""
    return int(code) if _is_integer(code) else code


def _levels(codes: list[str]) -> tuple[Level, ...]:
    """Return codes as levels: whole numbers if all codes are whole numbers, else texts."""
    return tuple(map(int, codes)) if all(map(_is_integer, codes)) else tuple(codes)
