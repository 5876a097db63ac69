"""Attributes: public facts about one column; those with levels, and how a cell is read.

What a cell means is a function of the cell and of public facts, never of other rows: whatever held
it, it comes to the readers here as text, as a number or as true/false.
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
from missdp.validation import plain

LONGEST: Final = 4096  # characters of a text that is read
MAX_INTEGER: Final = 2**53  # from here on, floating-point numbers skip whole ones
MISSING: Final = -1
OUTSIDE: Final = -2

Kind: TypeAlias = Literal["not_applicable", "missing", "refused", "unknown", "not_asked"]
#: Why a cell has no value. The first one follows from the row; the others are holes.
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
    """Return the nearest float, or None: digits, sign, point, exponent, inf or nan; no blanks."""
    return float(text) if _NUMBER.fullmatch(text) else None


def number_text(number: float) -> str:
    """Return the shortest text of a number; a whole one has no decimal point."""
    if number.is_integer() and abs(number) < MAX_INTEGER:
        return str(int(number))
    return repr(number)


class LevelReader:
    """Read cells of a column with levels, and codes of kinds of missing.

    Text equal to a level, blanks around it apart, is that level. Anything else that is a number, or
    is written like one, is the level that is the same number; true and false likewise. Several
    levels that are the same number, such as ``"7"`` and ``"007"``, are told apart by their text
    only; a number without text is the one that is written shortest. From 2**53 on numbers are not
    told apart, and only the text of a level is that level.
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
        for kind, given in (codes or {}).items():
            self._add_codes(given, KIND_MARKS[kind])

    def _meant(
        self, value_of: Callable[[str], _Value | None], shortest: Callable[[_Value], str]
    ) -> dict[_Value, int]:
        """Return the level that each value without text stands for, by the texts of levels."""
        found: dict[_Value, dict[str, int]] = {}
        for text, code in self._text.items():
            if (value := value_of(text)) is not None and _is_exact(value):
                found.setdefault(value, {})[text] = code
        return {
            value: min(levels.values())
            if len(levels) == 1
            else levels.get(shortest(value), OUTSIDE)
            for value, levels in found.items()
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
    """Whether no other whole number is read as this one."""
    return not MAX_INTEGER <= abs(number) < math.inf


Level: TypeAlias = str | int | bool  #: A level is text, a whole number, or true or false.
OutsidePolicy: TypeAlias = Literal["error", "clamp", "missing", "other"]

_SHOWN_LEVELS = 10  # levels that a message lists at most
MAX_LEVELS = 1_000_000
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
    """Whether a public fact is a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _label_key(key: object) -> object:
    """Return what a label is of, as text: a level of Python may be a number, true or false."""
    if isinstance(key, bool):
        return str(key).lower()
    return number_text(float(key)) if is_number(key) else key


def _pairs(labels: Any) -> Any:
    if not isinstance(labels, Mapping):
        return labels
    return tuple((_label_key(key), label) for key, label in labels.items())


Labels: TypeAlias = Annotated[
    tuple[tuple[Text, Text], ...],
    Field(description="text, by the text of what they are labels of"),
    BeforeValidator(_pairs),
]


@dataclass(frozen=True, kw_only=True)
class Column(Record, abstract=True):
    """A column, which a table of a schema's file describes. Use a subclass.

    Parameters
    ----------
    name : str
        Any non-empty text.
    """

    sparse = True

    name: ColumnName

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the kind and each fact that is not as by default."""
        return {"name": self.name} | super().to_dict()

    @classmethod
    def _kind_of(cls, data: Mapping[str, Any]) -> type[Any]:
        """Return the class of a kind. ``levels = "open"`` says of which kind it is."""
        if (kind := data.get("kind")) in ("unit", "weight"):
            raise cls._refusal(
                data, f"a {kind} is no attribute: write a table [{kind}] with column"
            )
        is_open = data.get("levels") == "open" and data.get("kind", "categorical") == "categorical"
        return super()._kind_of({**data, "kind": "open"} if is_open else data)

    @classmethod
    def _refusal(cls, data: Mapping[str, Any], why: str) -> SchemaError:
        return _refusal(data.get("name"), why)


@dataclass(frozen=True, kw_only=True)
class Unread(Column, abstract=True):
    """A column that is never read, and whose name alone is known.

    Parameters
    ----------
    name : str
        Any non-empty text.
    undeclared : tuple of str, default ()
        ``("kind",)`` if it was left unread because of private cells, which nobody has declared
        public yet.
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
    """A column that tells rows apart. Fresh whole numbers are written instead."""

    kind: ClassVar[str] = "key"


@dataclass(frozen=True, kw_only=True)
class Ignored(Unread):
    """A column that is neither read nor written."""

    kind: ClassVar[str] = "ignore"


@dataclass(frozen=True, kw_only=True)
class Attribute(Column, abstract=True):
    """Facts common to every kind of attribute. Use a subclass.

    Parameters
    ----------
    name : str
        Column name, any non-empty text.
    nullable : bool, default False
        Whether a cell of this column may be missing.
    missing_codes : tuple of str or number, default ()
        Sentinels that stand for "missing" in the data, for example ``"?"`` or ``-9``. NaN, None,
        NaT, ``pd.NA``, null and empty text always count as missing (not applicable, if the
        attribute may be that and is not nullable).
    refused, unknown, not_asked : tuple of str or number, or None, default None
        Codes of further kinds of missing: the person would not say, or could not, or the question
        was not put. Each is kept apart from plain missing; needs ``nullable=True``. Empty: the
        kind may occur and has no code.
    not_applicable : tuple of str or number, or None, default None
        Codes of cells that have no value because there is nothing to ask for: the working hours of
        somebody without work. It is no hole: nothing fills it. A
        :class:`~missdp.schema.NotApplicable` rule adds this fact by itself.
    outside : {"error", "clamp", "missing", "other"}, default "error"
        What to do with *whatever* is not in the declared domain: too large, not a declared level,
        not whole, or not readable at all. ``"error"`` refuses the table, and that refusal is an
        output that no privacy guarantee covers. ``"missing"`` (needs ``nullable=True``),
        ``"clamp"`` (numeric attributes) and ``"other"`` (the level ``other``) refuse no cell.
    other : str, int or bool, optional
        The level that cells outside the domain count as, each by itself, with ``outside="other"``;
        missing cells too, where none may be missing.
    settled : bool, default False
        Whether its holes may have been filled before, by rules of the table it was taken from or by
        `DPImputer`, which say so. Then no guarantee for the ground truth builds on them.
    label, units : str
        For people.
    labels : mapping of str to str, default {}
        What levels, codes and numbers stand for, by their text: ``{"1": "woman", "2": "man"}``.
        Written into files of SPSS and Stata, and in place of levels where that is asked for.
    undeclared : tuple of str, default ()
        Names of facts on this page that were read from private data and that nobody has declared
        public yet. A release refuses a schema with such marks unless told to go on.
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
    settled: bool = False
    label: Text = ""
    units: Text = ""
    labels: Labels = ()
    undeclared: Annotated[tuple[Text, ...], Field(description="a list of names of facts")] = ()

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        """Return the values of an array or a series as a tuple, too."""
        kept = isinstance(value, (str, bytes, tuple, Mapping, Set))
        return plain(tuple(value) if isinstance(value, Iterable) and not kept else value)

    def __post_init__(self) -> None:
        for problem in self._problems():
            raise _refusal(self.name, problem)

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the kind and each fact that is not as by default."""
        return super().to_dict() | ({"labels": dict(self.labels)} if self.labels else {})

    def _not_valid(self, why: str) -> SchemaError:
        return _refusal(self.name, why)

    @property
    def size(self) -> int:
        """Number of values in the declared domain, missing not counted."""
        raise NotImplementedError

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """Kinds of missing that may occur, in the order of their codes: from ``size`` on."""
        first = () if self.not_applicable is None else KINDS[:1]
        others = tuple(k for k in KINDS[2:] if getattr(self, k) is not None)
        return (*first, *(KINDS[1:2] if self.nullable else ()), *others)

    def codes_of(self, kind: Kind) -> tuple[str | float, ...]:
        """Return what stands for a kind of missing in the data."""
        return getattr(self, CODE_FIELDS[kind]) or ()

    @property
    def extended_size(self) -> int:
        """Number of codes with each kind of missing as one more level: ``size + len(kinds)``."""
        return self.size + len(self.kinds)

    @property
    def missing_code(self) -> int:
        """Integer code of a plainly missing cell: after the levels and not applicable."""
        return self.size + (self.not_applicable is not None)

    def plainly_missing(self) -> Self:
        """Return the attribute with all holes of one kind; "not applicable" stays what it is."""
        return replace(self, refused=None, unknown=None, not_asked=None, labels=())

    @property
    def refuses(self) -> bool:
        """Whether some cell of this column makes reading fail: ``outside`` is ``"error"``."""
        return self.outside == "error"

    def _problems(self) -> Iterator[str]:
        """Yield what is wrong; each check may rely on those before it."""
        if self.outside == "other" and self.other is None:
            yield 'outside = "other" needs other, one of the levels'
        if unknown := [n for n in self.undeclared if n not in {f.name for f in fields(self)}]:
            yield f"undeclared names facts that do not exist: {unknown}"
        yield from self._wrong_codes()

    def _wrong_codes(self) -> Iterator[str]:
        if self.outside == "missing" and not self.nullable and getattr(self, "levels", None) != ():
            yield 'outside = "missing" needs nullable = true'
        seen: dict[str | float, str] = {}
        for kind, fact in CODE_FIELDS.items():
            codes = getattr(self, fact)
            if codes is None or (kind == "missing" and not codes):
                continue
            if kind != "not_applicable" and not self.nullable:
                yield f"{fact} need{'' if kind == 'missing' else 's'} nullable = true"
            if not all(abs(code) < MAX_INTEGER for code in codes if not isinstance(code, str)):
                yield f"{fact} that are numbers must be finite and below 2**53 in size"
            null = "missing" if self.nullable else "not_applicable"  # which an empty cell is
            if kind not in ("missing", null) and "" in {str(code).strip() for code in codes}:
                yield f"{fact} cannot be empty text: an empty cell is missing, or not applicable"
            for code in {_plain_code(code) for code in codes}:
                if seen.setdefault(code, fact) != fact:
                    yield f"a code is of two kinds: {seen[code]} and {fact} both have {code!r}"

    def _labelled_nothing(self, known: Callable[[str], bool]) -> Iterator[str]:
        """Yield that a label is of nothing: neither of a level or number, nor of a code."""
        codes = {_plain_code(code) for kind in self.kinds for code in self.codes_of(kind)}
        for key, _ in self.labels:
            if not known(key) and _plain_code(key) not in codes:
                yield f"there is a label of {key!r}, which is neither in the domain nor a code"


def _plain_code(code: str | float) -> str | float:
    """Return a code as cells are compared with it: text that is a number is that number."""
    text = code.strip() if isinstance(code, str) else ""
    number = read_number(text) if text else None
    if isinstance(code, str) and (number is None or number != number):
        return text.lower() if number is not None else text  # "nan" is text, written in any case
    return float(code if number is None else number)


def _refusal(name: object, why: str) -> SchemaError:
    """Return one line about an attribute; the schema is public, so its facts may be named."""
    subject = f"attribute {name!r}" if isinstance(name, str) and name else "an attribute"
    return SchemaError(f"{subject}: {why}")


@dataclass(frozen=True, kw_only=True)
class _Levelled(Attribute, abstract=True):
    """An attribute whose domain is a finite list of levels of one type."""

    levels: Annotated[
        tuple[Text, ...] | tuple[bool, ...] | tuple[int, ...],
        Field(description="a list, all text, all integers or all true/false"),
    ]

    def _problems(self) -> Iterator[str]:
        yield from super()._problems()
        levels = self.levels
        if levels == () and self.not_applicable is None:
            yield "levels must not be empty, but where not_applicable is set: no row has a value"
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
        """Yield facts that name what is no level."""
        reader = LevelReader(self.levels)
        if self.other is not None and (type(self.other), self.other) not in self.codes_by_level:
            yield "other must be one of the levels"
        yield from self._labelled_nothing(lambda key: reader.read(key) >= 0)

    def _levels_that_are_codes(self, codes: Iterable[str | float]) -> list[str | int | bool]:
        """Levels that a code would be read as; text levels clash with equal text only."""
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
        """Number of levels."""
        return len(self.levels)

    @cached_property
    def codes_by_level(self) -> Mapping[tuple[type, object], int]:
        """The code of each level, by its type as well, since 1 equals true."""
        return {(type(level), level): code for code, level in enumerate(self.levels)}

    @property
    def level_labels(self) -> tuple[str, ...]:
        """The label of each level; of a level without one, its text."""
        reader = LevelReader(self.levels)
        named = {reader.read(key): label for key, label in self.labels}
        texts = (str(v).lower() if isinstance(v, bool) else str(v) for v in self.levels)
        return tuple(named.get(code, text) for code, text in enumerate(texts))

    def not_a_level(self, value: object) -> str:
        """Say that a value is none, and which levels there are, if these are declared public."""
        public = () if "levels" in self.undeclared else self.levels
        hint = did_you_mean(value, public)
        if public and "labels" not in self.undeclared:
            reader = LevelReader(public)
            labelled = {reader.read(key) for key, label in self.labels if label == value} - {-1}
            if len(labelled) == 1:
                hint = f". It is the label of the level {public[labelled.pop()]!r}"
        listed = ", ".join(map(repr, public[:_SHOWN_LEVELS]))
        more = ", ..." if len(public) > _SHOWN_LEVELS else ""
        known = f", which has {listed}{more}" if listed else ""
        return f"{value!r} is not a level of {self.name!r}{known}{hint}"


@dataclass(frozen=True, kw_only=True)
class Categorical(_Levelled):
    """An attribute with unordered levels.

    Parameters
    ----------
    levels : tuple of str, of int or of bool
        The whole public domain. Empty, with ``not_applicable=()``, for a column in which no row has
        a value: nothing is spent on it, and its cells stay without a value in synthetic rows. With
        ``outside="missing"`` whatever stands in it is left out.

    Examples
    --------
    >>> Categorical(name="sex", levels=("female", "male"), nullable=True).extended_size
    3
    """

    kind: ClassVar[str] = "categorical"


@dataclass(frozen=True, kw_only=True)
class Ordinal(_Levelled):
    """An attribute with ordered levels, lowest first."""

    kind: ClassVar[str] = "ordinal"
