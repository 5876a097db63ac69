"""Attributes: public facts about one column, and how cells of columns with levels are read.

The meaning of a cell is a function of the cell and of public facts, never of other rows. Each cell
reaches the readers here as text, as a number or as true/false.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import fields, replace
from functools import cached_property
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    TypeGuard,
    TypeVar,
    get_args,
)

from pydantic import BeforeValidator, Field, field_validator
from pydantic.dataclasses import dataclass

from missdp.errors import SchemaError, did_you_mean
from missdp.serialization import Record
from missdp.validation import jsonable

LONGEST: Final = 4096  # characters of a text that is read
MAX_INTEGER: Final = 2**53  # from this size on, floating-point numbers skip whole numbers
MISSING: Final = -1
OUTSIDE: Final = -2

Kind: TypeAlias = Literal["not_applicable", "missing", "refused", "unknown", "not_asked"]
#: Reasons why a cell has no value. "Not applicable" follows from the row. The others are missing
#: cells.
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
#: The field of an attribute that declares the codes of each kind.
CODE_FIELDS: Final[Mapping[Kind, str]] = {
    k: "missing_codes" if k == "missing" else k for k in KINDS
}

#: The negative numbers by which readers of cells mark kinds of missing.
KIND_MARKS: Final = {k: MISSING if k == "missing" else -3 - i for i, k in enumerate(KINDS)}

_NUMBER = re.compile(
    r"[+-]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|inf(?:inity)?|nan)",
    re.IGNORECASE | re.ASCII,
)
_TRUTH = {"true": True, "false": False}
_Value = TypeVar("_Value", float, bool)


def read_number(text: str) -> float | None:
    """Return the nearest float of a text, or None if the text is not a number.

    A number consists of digits, sign, point and exponent, or is inf or nan. It has no blanks.
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def number_text(number: float) -> str:
    """Return the shortest text of a number. A whole number has no decimal point."""
    if number.is_integer() and abs(number) < MAX_INTEGER:
        return str(int(number))
    return repr(number)


class LevelReader:
    """Reader of cells of a column with levels, and of codes of kinds of missing.

    Text equal to a level, blanks around it apart, is that level. Any other number, or text that is
    written like a number, is the level of equal value. True and false are read alike. Several
    levels of equal value, such as ``"7"`` and ``"007"``, differ by their text only. A number
    without text is the level with the shortest text. Numbers from 2**53 on are not distinguished,
    and only the text of a level is that level.

    Parameters
    ----------
    levels : iterable of str, int or bool
        The levels in order. Public.
    codes : mapping of kind to iterable of str or float, optional
        The codes of each kind of missing. Public.
    """

    def __init__(
        self,
        levels: Iterable[str | int | bool],
        codes: Mapping[Kind, Iterable[str | float]] | None = None,
    ) -> None:
        self._text: dict[str, int] = {}
        self._truth: dict[bool, int] = {}
        self._number: dict[float, int] = {}
        for code, level in enumerate(levels):
            if isinstance(level, bool):
                self._truth[level] = self._number[float(level)] = code
            elif isinstance(level, int):
                self._number[float(level)] = code
            else:
                self._text[level] = code
        self._number |= self._meant(read_number, number_text)
        self._truth |= self._meant(lambda text: _TRUTH.get(text.lower()), lambda b: str(b).lower())
        for kind, kind_codes in (codes or {}).items():
            self._add_codes(kind_codes, KIND_MARKS[kind])

    def _meant(
        self, value_of: Callable[[str], _Value | None], shortest: Callable[[_Value], str]
    ) -> dict[_Value, int]:
        """Map each value without text to its level, by the texts of the levels."""
        levels_of_value: dict[_Value, dict[str, int]] = {}
        for text, code in self._text.items():
            if (value := value_of(text)) is not None and _is_exact(value):
                levels_of_value.setdefault(value, {})[text] = code
        return {
            value: min(levels.values())
            if len(levels) == 1
            else levels.get(shortest(value), OUTSIDE)
            for value, levels in levels_of_value.items()
        }

    def _add_codes(self, codes: Iterable[str | float], mark: int) -> None:
        for code in codes:
            if isinstance(code, str):
                self._text.setdefault(code.strip(), mark)
            number = read_number(code.strip()) if isinstance(code, str) else float(code)
            if number is not None and _is_exact(number):
                self._number.setdefault(number, mark)

    def read(self, cell: str | float | bool) -> int:
        """Return the number of the cell's level, or the mark of its kind, or ``OUTSIDE``."""
        if isinstance(cell, str):
            return self._read_text(cell.strip())
        if isinstance(cell, bool):
            return self._truth.get(cell, OUTSIDE)
        return MISSING if cell != cell else self._number.get(cell, OUTSIDE)

    def _read_text(self, text: str) -> int:
        if not text:
            return MISSING
        if (code := self._text.get(text)) is not None:
            return code
        if (number := read_number(text)) is not None:
            return self.read(number)
        truth = _TRUTH.get(text.lower())
        return OUTSIDE if truth is None else self._truth.get(truth, OUTSIDE)


def _is_exact(number: float) -> bool:
    """Return True if no other whole number is read as this number."""
    return not MAX_INTEGER <= abs(number) < math.inf


#: A level of an attribute: text, a whole number, or true or false. Public.
Level: TypeAlias = str | int | bool
OutsidePolicy: TypeAlias = Literal["error", "clamp", "missing", "other"]

_SHOWN_LEVELS = 10  # levels that a message lists at most
MAX_LEVELS = 1_000_000  # levels of one attribute
# A constraint on the length lets pydantic refuse half of a surrogate pair, which no file can hold.
Text: TypeAlias = Annotated[str, Field(min_length=0)]
ColumnName: TypeAlias = Annotated[str, Field(min_length=1, description="text, and not empty")]
Codes: TypeAlias = Annotated[
    tuple[Text | int | float, ...], Field(description="a list of text or numbers")
]
SomeCodes: TypeAlias = Annotated[
    tuple[Text | int | float, ...] | None, Field(description="a list of text or numbers")
]


def is_number(value: object) -> TypeGuard[float]:
    """Return True if a public fact is a number. True and false are not numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _label_key(key: object) -> object:
    """Return the text of a level or code that has a label. It may be a number, true or false."""
    if isinstance(key, bool):
        return str(key).lower()
    return number_text(float(key)) if is_number(key) else key


def _pairs(labels: Any) -> Any:
    if not isinstance(labels, Mapping):
        return labels
    return tuple((_label_key(key), label) for key, label in labels.items())


Labels: TypeAlias = Annotated[
    tuple[tuple[Text, Text], ...],
    Field(description="text, by the text of the labelled level or code"),
    BeforeValidator(_pairs),
]


@dataclass(frozen=True, kw_only=True)
class Column(Record, abstract=True):
    """Base class of all columns that an ``[[attribute]]`` table of a schema file describes.

    It is not created itself. Subclasses are the attributes (:class:`Attribute`), which are
    modelled, and the columns that are never read (`Key` and `Ignored`). A subclass sets ``kind``,
    the name of its kind of column in files.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text. Public.

    Raises
    ------
    SchemaError
        If the name is empty or not text.
    """

    sparse = True

    name: ColumnName

    def to_dict(self) -> dict[str, Any]:
        """Return the column as an ``[[attribute]]`` table of a schema file, in a dictionary.

        Returns
        -------
        dict of str to JSON value
            ``name``, then ``kind``, then each field that differs from its default. Public.
        """
        return {"name": self.name} | super().to_dict()

    @classmethod
    def _class_of_kind(cls, data: Mapping[str, Any]) -> type[Any]:
        """Return the class of a kind. ``levels = "open"`` selects the kind of open levels."""
        if (kind := data.get("kind")) in ("unit", "weight"):
            raise cls._refusal(
                data, f"a {kind} is not an attribute: write a table [{kind}] with column"
            )
        is_open = data.get("levels") == "open" and data.get("kind", "categorical") == "categorical"
        return super()._class_of_kind({**data, "kind": "open"} if is_open else data)

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        return _refusal(data.get("name"), why)


@dataclass(frozen=True, kw_only=True)
class Unread(Column, abstract=True):
    """A column that is never read. Only its name is public.

    Parameters
    ----------
    name : str
        Any non-empty text.
    undeclared : tuple of str, default ()
        ``("kind",)`` if the column was left unread because of private cells, and this choice has
        not been declared public yet.
    """

    undeclared: tuple[Literal["kind"], ...] = ()

    @classmethod
    def _unknown_field(cls, name: str) -> str:
        return f"it has a name only, and no {name!r}: a column of kind {cls.kind!r} is never read"

    @classmethod
    def marked(cls, name: str, undeclared: bool) -> Self:
        """Return the column of a name, with or without the mark."""
        return cls(name=name, undeclared=("kind",) if undeclared else ())


@dataclass(frozen=True, kw_only=True)
class Key(Unread):
    """A column that identifies rows. Fresh whole numbers are written instead."""

    kind: ClassVar[str] = "key"


@dataclass(frozen=True, kw_only=True)
class Ignored(Unread):
    """A column that is neither read nor written."""

    kind: ClassVar[str] = "ignore"


@dataclass(frozen=True, kw_only=True)
class Attribute(Column, abstract=True):
    """Base class of attributes: public facts about a column of a table that synthesizers model.

    It is not created itself. Use :class:`Categorical` or :class:`Ordinal` for columns with levels,
    :class:`Numeric`, :class:`Date` or :class:`DateTime` for numbers and dates, and
    :class:`OpenCategorical` if the levels are unknown. All of them take the keyword arguments
    below. A guarantee holds only if these facts are public. The guarantee states this as its
    condition `PublicDomain`. The condition is not checked, except for marks in ``undeclared``.

    A subclass sets ``kind`` and defines ``size``. Values of an attribute are counted by code. Each
    level, bin and spike has a whole number from 0 on as its code. The codes of the kinds of missing
    follow.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    nullable : bool, default False
        True if a cell of this column may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for "missing" in the data, for example ``"?"`` or ``-9``. NaN, None, NaT,
        ``pd.NA``, null and empty text always count as missing. They count as not applicable if the
        attribute may be not applicable and is not nullable.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Codes of other kinds of missing: the person would not answer, or could not, or the question
        was not put. Each kind differs from plain missing, and needs ``nullable=True``. With an
        empty tuple the kind may occur and has no code. With None it does not occur.
    not_applicable : tuple of str or number, or None, default None
        Codes of cells that have no value because there is nothing to ask for: the working hours of
        a person without work. A cell that is not applicable is not missing, and is never imputed. A
        :class:`~missdp.schema.NotApplicable` rule adds this fact automatically.
    outside : {"error", "clamp", "missing", "other"}, default "error"
        Treatment of every cell outside the declared domain: too large, not a declared level, not
        whole, or not readable at all. ``"error"`` raises DataError for the table, and no privacy
        guarantee covers this error. ``"missing"`` makes the cell missing and needs
        ``nullable=True``. ``"clamp"`` takes the nearest bound of a numeric attribute. A cell that
        is not a number then becomes missing, or ``lower`` if no cell may be missing. ``"other"``
        takes the level ``other``.
    other : str, int or bool, optional
        With ``outside="other"``, the level of each cell outside the domain. If the attribute is not
        nullable, missing cells have this level too.
    imputed_before : bool, default False
        True if its missing cells may have been filled before. Rules of an earlier table and
        `DPImputer` set this mark. No guarantee for the ground truth (the table before values went
        missing) builds on these cells.
    label, units : str, default ""
        Description of the column, and the unit of measurement of its values. Both are for human
        readers only.
    labels : mapping of str to str, default {}
        Meanings of levels, codes and numbers, by their text: ``{"1": "woman", "2": "man"}``. Labels
        are written into files of SPSS and Stata, and in place of levels if requested.
    undeclared : tuple of str, default ()
        Names of the parameters above whose values were read from private data and have not been
        declared public yet. A release raises SchemaError for a schema with these marks, unless they
        are accepted. Then the guarantee states a warning.

    Raises
    ------
    SchemaError
        If a fact has the wrong type or is out of range, or if facts contradict each other. A code
        of two kinds of missing is an example.

    Examples
    --------
    >>> from missdp.schema import Attribute, Categorical
    >>> smoker = Categorical(name="smoker", levels=("no", "yes"), nullable=True, refused=(-7,))
    >>> isinstance(smoker, Attribute), smoker.size, smoker.kinds
    (True, 2, ('missing', 'refused'))
    """

    documented_in = "docs/schema-reference.md"

    nullable: bool = False
    missing_codes: Codes = ()
    refused: SomeCodes = None
    unknown: SomeCodes = None
    not_asked: SomeCodes = None
    not_applicable: SomeCodes = None
    outside: OutsidePolicy = "error"
    other: str | int | bool | None = None
    imputed_before: bool = False
    label: Text = ""
    units: Text = ""
    labels: Labels = ()
    undeclared: Annotated[tuple[Text, ...], Field(description="a list of names of facts")] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Return the values of an array or a series as a tuple."""
        is_scalar = isinstance(value, (str, bytes, tuple, Mapping, Set))
        return jsonable(tuple(value) if isinstance(value, Iterable) and not is_scalar else value)

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise _refusal(self.name, problem)

    def to_dict(self) -> dict[str, Any]:
        """Return the public facts of an attribute as a table of a schema file, in a dictionary.

        Returns
        -------
        dict of str to JSON value
            The keys of an ``[[attribute]]`` table: ``name``, then ``kind``, then each fact that
            differs from its default. ``labels`` is a dictionary. Public.
        """
        return super().to_dict() | ({"labels": dict(self.labels)} if self.labels else {})

    def _not_valid(self, why: str) -> SchemaError:
        return _refusal(self.name, why)

    @property
    def size(self) -> int:
        """Number of codes for the values of an attribute: its levels, or its bins and spikes.

        A code is the whole number that stands for a value in counts. Missing and not applicable
        cells are not included: see ``extended_size``. Each subclass defines the property.

        Returns
        -------
        int
            At least 0. Public.

        Raises
        ------
        NotImplementedError
            If the subclass does not define the property.
        """
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Reasons for which a cell of an attribute may have no value, in the order of their codes.

        They are called kinds of missing. A code is the whole number that stands for a cell in
        counts. The code of the first reason is ``size``, and each later reason has the next number.

        Returns
        -------
        tuple of str
            Some of "not_applicable", "missing", "refused", "unknown" and "not_asked", in this
            order. Public.
        """
        first = () if self.not_applicable is None else KINDS[:1]
        others = tuple(k for k in KINDS[2:] if getattr(self, k) is not None)
        return (*first, *(KINDS[1:2] if self.nullable else ()), *others)

    def codes_of(self, kind: Kind) -> tuple[str | float, ...]:
        """Return the values that stand for missing cells of one kind in the data, such as -9.

        Parameters
        ----------
        kind : {"not_applicable", "missing", "refused", "unknown", "not_asked"}
            The reason why a cell has no value.

        Returns
        -------
        tuple of str or number
            The declared values, such as ``("?", -9)``, in the declared order. Empty if the kind
            does not occur or has no such value. Public.
        """
        return getattr(self, CODE_FIELDS[kind]) or ()

    @property
    def extended_size(self) -> int:
        """Number of codes of an attribute: codes of values, and of reasons for missing values.

        A code is the whole number that stands for a value, or for a reason why a cell has no value,
        in counts.

        Returns
        -------
        int
            Equal to ``size + len(kinds)``, at least 1. Public.
        """
        return self.size + len(self.kinds)

    @property
    def missing_code(self) -> int:
        """Code of a cell that is missing without a stated reason, in an attribute that is nullable.

        A code is the whole number that stands for a cell in counts. This code follows after the
        codes of values and the code of "not applicable", if these cells may occur. Codes from this
        number on are missing cells.

        Returns
        -------
        int
            ``size``, or ``size + 1`` if cells may be not applicable. Public. It is also returned if
            the attribute is not nullable.
        """
        return self.size + (self.not_applicable is not None)

    def with_one_missing_kind(self) -> Self:
        """Return an attribute in which refused, unknown and not asked cells all count as missing.

        "Not applicable" stays separate. Labels are dropped. Private rows of the attribute must be
        coded anew.

        Returns
        -------
        Attribute
            A changed copy of the same class. Public.
        """
        return replace(self, refused=None, unknown=None, not_asked=None, labels=())

    @property
    def refuses(self) -> bool:
        """True if a cell of the attribute may make reading of the table fail with DataError.

        This is the case with ``outside="error"``, for a cell that is not a declared level, or not
        between the bounds. No guarantee covers the error.

        Returns
        -------
        bool
            Public.
        """
        return self.outside == "error"

    def _problems(self) -> Iterator[str]:
        """Yield the problems of the facts. Each check may rely on the checks before it."""
        if self.outside == "other" and self.other is None:
            yield 'outside = "other" needs other, one of the levels'
        if unknown := [n for n in self.undeclared if n not in {f.name for f in fields(self)}]:
            yield f"undeclared names facts that do not exist: {unknown}"
        yield from self._wrong_codes()

    def _wrong_codes(self) -> Iterator[str]:
        if self.outside == "missing" and not self.nullable and getattr(self, "levels", None) != ():
            yield 'outside = "missing" needs nullable = true'
        field_of_code: dict[str | float, str] = {}
        for kind, fact in CODE_FIELDS.items():
            codes = getattr(self, fact)
            if codes is None or (kind == "missing" and not codes):
                continue
            if kind != "not_applicable" and not self.nullable:
                yield f"{fact} need{'' if kind == 'missing' else 's'} nullable = true"
            if not all(abs(code) < MAX_INTEGER for code in codes if not isinstance(code, str)):
                yield f"{fact} that are numbers must be finite and below 2**53 in size"
            null = "missing" if self.nullable else "not_applicable"  # the kind of an empty cell
            if kind not in ("missing", null) and "" in {str(code).strip() for code in codes}:
                yield f"{fact} cannot be empty text: an empty cell is missing, or not applicable"
            for code in {_plain_code(code) for code in codes}:
                if (other := field_of_code.setdefault(code, fact)) != fact:
                    yield f"a code is of two kinds: {other} and {fact} both have {code!r}"

    def _labelled_nothing(self, is_in_domain: Callable[[str], bool]) -> Iterator[str]:
        """Yield a problem for each label that belongs to no level, number or code."""
        codes = {_plain_code(code) for kind in self.kinds for code in self.codes_of(kind)}
        for key, _ in self.labels:
            if not is_in_domain(key) and _plain_code(key) not in codes:
                yield f"there is a label of {key!r}, which is neither in the domain nor a code"


def _plain_code(code: str | float) -> str | float:
    """Return a code as cells are compared with it: text that is a number is that number."""
    text = code.strip() if isinstance(code, str) else ""
    number = read_number(text) if text else None
    if isinstance(code, str) and (number is None or number != number):
        return text.lower() if number is not None else text  # "nan" is text, written in any case
    return float(code if number is None else number)


def _refusal(name: object, why: str) -> SchemaError:
    """Return an error about an attribute. The schema is public, so the error may name its facts."""
    subject = f"attribute {name!r}" if isinstance(name, str) and name else "an attribute"
    return SchemaError(f"{subject}: {why}")


@dataclass(frozen=True, kw_only=True)
class _Levelled(Attribute, abstract=True):
    """An attribute whose domain is a finite list of levels of one type.

    Raises
    ------
    SchemaError
        If levels are empty (unless ``not_applicable`` is set), repeated, of mixed types or too
        many.
    """

    levels: Annotated[
        tuple[Text, ...] | tuple[bool, ...] | tuple[int, ...],
        Field(description="a list, all text, all integers or all true/false"),
    ]

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        levels = self.levels
        if levels == () and self.not_applicable is None:
            yield "levels must not be empty unless not_applicable is set"
        if len(levels) > MAX_LEVELS:
            yield f"at most {MAX_LEVELS} levels are supported"
        if len(set(levels)) != len(levels):
            yield "levels must be distinct"
        if any(isinstance(level, int) and abs(level) >= MAX_INTEGER for level in levels):
            yield "levels that are whole numbers must be below 2**53 in size"
        if any(isinstance(level, str) and level != level.strip() for level in levels):
            yield "levels must not begin or end with blanks: they are dropped on reading"
        if any(isinstance(level, str) and len(level) > LONGEST for level in levels):
            yield f"levels must have at most {LONGEST} characters: no longer text is read"
        if "" in levels:
            yield "the empty text cannot be a level: an empty field means missing"
        for kind in self.kinds:
            if clash := self._levels_that_are_codes(self.codes_of(kind)):
                yield f"levels and {CODE_FIELDS[kind]} overlap: {clash}"
        yield from self._wrong_references()
        if self.outside == "clamp":
            yield 'outside = "clamp" is for numeric attributes only'

    def _wrong_references(self) -> Iterator[str]:
        """Yield problems of facts that must name a level."""
        reader = LevelReader(self.levels)
        if self.other is not None and (type(self.other), self.other) not in self.codes_by_level:
            yield "other must be one of the levels"
        yield from self._labelled_nothing(lambda key: reader.read(key) >= 0)

    def _levels_that_are_codes(self, codes: Iterable[str | float]) -> list[str | int | bool]:
        """Return the levels that codes would be read as. Text levels clash with equal text only."""
        reader = LevelReader(self.levels)
        text = isinstance(next(iter(self.levels), ""), str)
        clash: set[str | int | bool] = set()
        for code in codes:
            if text and isinstance(code, str):
                clash |= {code.strip()} & set(self.levels)
            elif (level := reader.read(code)) >= 0:
                clash.add(self.levels[level])
        return sorted(clash, key=str)

    @property
    def size(self) -> int:
        """Number of levels of an attribute, which is the number of codes for its values.

        A code is the whole number that stands for a level in counts. The value is an int from 0 to
        1,000,000. Missing cells are not included. The value is public.
        """
        return len(self.levels)

    @cached_property
    def codes_by_level(self) -> Mapping[tuple[type, object], int]:
        """Map from each level of an attribute, with its type, to its code.

        A code is the whole number that stands for a level in counts. Keys are pairs such as ``(str,
        "yes")``, since 1 equals true in Python. Codes are the positions of the levels from 0 on.
        The value is public.
        """
        return {(type(level), level): code for code, level in enumerate(self.levels)}

    @property
    def level_labels(self) -> tuple[str, ...]:
        """Labels of the levels of an attribute for human readers, in the order of the levels.

        The value is a tuple of str with one entry for each level. A level without a label has its
        text. The value is public.
        """
        reader = LevelReader(self.levels)
        named = {reader.read(key): label for key, label in self.labels}
        texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in self.levels)
        return tuple(named.get(code, text) for code, text in enumerate(texts))

    def not_a_level(self, value: object) -> str:
        """Return an error message stating that a value is not a level of an attribute.

        Parameters
        ----------
        value : object
            The value, from a public source such as a rule or a question. The message quotes it, so
            it must not come from a private cell.

        Returns
        -------
        str
            The message, which proposes a similar level. It lists at most 10 levels, and none if the
            levels have not been declared public.
        """
        public = () if "levels" in self.undeclared else self.levels
        hint = did_you_mean(value, public)
        if same := [level for level in public if str(level) == str(value)]:
            quotes = "with" if isinstance(same[0], str) else "without"
            hint = f". Write {same[0]!r}, {quotes} quotes"
        elif not public and isinstance(value, str) and read_number(value) is not None:
            hint = ". If its levels are numbers, write the number without quotes"
        if public and "labels" not in self.undeclared:
            reader = LevelReader(public)
            labelled = {reader.read(key) for key, label in self.labels if label == value} - {-1}
            if len(labelled) == 1:
                hint = f". It is the label of the level {public[labelled.pop()]!r}"
        listed = ", ".join(map(repr, public[:_SHOWN_LEVELS]))
        more = ", ..." if len(public) > _SHOWN_LEVELS else ""
        public_levels = f", which has {listed}{more}" if listed else ""
        return f"{value!r} is not a level of {self.name!r}{public_levels}{hint}"


@dataclass(frozen=True, kw_only=True)
class Categorical(_Levelled):
    """A categorical attribute: a column whose cells have one of a few public, unordered levels.

    Use it for answers, codes and names without an order. For ordered levels use :class:`Ordinal`,
    and for levels that are not publicly known :class:`OpenCategorical`.

    :class:`Attribute` documents the facts in more detail. A guarantee holds only if they are
    public. It states this as its condition `PublicDomain`, which is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    levels : tuple of str, of int or of bool
        The complete public domain, at most 1,000,000 levels of one type. It may be empty, with
        ``not_applicable=()``, for a column in which no row has a value. Then no budget is spent on
        the column, and its cells stay without a value in synthetic rows. With ``outside="missing"``
        all cells of this column are dropped.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as working hours without work. None: there are
        no such cells.
    outside : {"error", "missing", "other"}, default "error"
        Treatment of a cell that is not a declared level: `DataError`, a missing cell, or the level
        ``other``.
    other : str, int or bool, optional
        With ``outside="other"``, the level of each cell that is not a declared level.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    labels : mapping of str to str, default {}
        Meanings of levels and codes for human readers, by their text.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.

    Raises
    ------
    SchemaError
        If levels are repeated, of mixed types or also codes of missing cells, or another fact is
        not valid.

    Examples
    --------
    >>> from missdp import Categorical
    >>> Categorical(name="sex", levels=("female", "male"), nullable=True).extended_size
    3
    """

    kind: ClassVar[str] = "categorical"


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Levelled):
    """An ordinal attribute: a column whose cells have one of a few public, ordered levels.

    Use it for grades, degrees and answers from "never" to "always". The order is used in
    comparisons of rules and by some models. Distances between levels are not defined: for numbers
    use :class:`Numeric`.

    :class:`Attribute` documents the facts in more detail. A guarantee holds only if they are
    public. It states this as its condition `PublicDomain`, which is not checked.

    Parameters
    ----------
    name : str
        Name of the column, any non-empty text.
    levels : tuple of str, of int or of bool
        The complete public domain in increasing order, at most 1,000,000 levels of one type.
    nullable : bool, default False
        True if a cell may be missing.
    missing_codes : tuple of str or number, default ()
        Values that stand for a missing cell in the data, such as ``-9``. They need
        ``nullable=True``.
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Values that stand for other reasons of a missing cell. They need ``nullable=True``. None:
        the reason does not occur.
    not_applicable : tuple of str or number, or None, default None
        Values of cells that can have no value, such as working hours without work. None: there are
        no such cells.
    outside : {"error", "missing", "other"}, default "error"
        Treatment of a cell that is not a declared level: `DataError`, a missing cell, or the level
        ``other``.
    other : str, int or bool, optional
        With ``outside="other"``, the level of each cell that is not a declared level.
    imputed_before : bool, default False
        True if missing cells of the column may have been filled before.
    label, units : str, default ""
        Description of the column, and unit of its values, for human readers.
    labels : mapping of str to str, default {}
        Meanings of levels and codes for human readers, by their text.
    undeclared : tuple of str, default ()
        Names of parameters that were read from private data and are not declared public yet.

    Raises
    ------
    SchemaError
        If levels are repeated, of mixed types or also codes of missing cells, or another fact is
        not valid.

    Examples
    --------
    >>> from missdp import Ordinal
    >>> Ordinal(name="school", levels=("primary", "secondary", "tertiary")).size
    3
    """

    kind: ClassVar[str] = "ordinal"
