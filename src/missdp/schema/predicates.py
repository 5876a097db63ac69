"""Subpopulations: which rows belong to one.

``select`` takes the table as it is: a missing cell satisfies no comparison.
:func:`missdp.schema.bound.decided` keeps to what holds for every value of the missing cells
(three-valued logic): rows that surely belong, and rows that may.

Subpopulations are written in a small language: comparisons, ``in``, ``and``, ``or``, ``not``,
parentheses. Nothing is ever evaluated as Python. Names are attributes of the schema (in backticks
if they hold other characters than letters, digits and ``_``), constants are checked against its
public domain, and a missing cell satisfies no comparison.

    age >= 20 and age < 30
    20 <= age < 30 and `marital status` in ("married", "widowed")
    not (sex = 'female' or income > 50000)
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, SchemaError, did_you_mean, replacing
from missdp.schema.attributes import Categorical, Level
from missdp.schema.numeric import Numeric

if TYPE_CHECKING:
    from missdp.schema.schema import AnyAttribute, Schema


BoolArray = NDArray[np.bool_]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class _RowView(Protocol):
    """Rows, with their holes or filled, as a function of rows sees them. Private."""

    @property
    def schema(self) -> Schema:
        """Public facts."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def codes(self, name: str) -> NDArray[np.integer]:
        """Codes of an attribute; missing cells have the attribute's missing code."""

    def values(self, name: str) -> NDArray[np.float64]:
        """Values of a numeric attribute; its lower bound where missing."""


@dataclass(frozen=True)
class Compare:
    """One attribute compared with a constant; a missing cell satisfies no comparison."""

    attribute: AnyAttribute
    sign: str
    value: float

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""
        return frozenset({self.attribute.name})

    def select(self, rows: _RowView) -> BoolArray:
        """Return True for the rows that belong."""
        name = self.attribute.name
        codes = rows.codes(name)
        cells = rows.values(name) if isinstance(self.attribute, Numeric) else codes
        known = codes < self.attribute.size
        return np.asarray(OPERATORS[self.sign](cells, self.value) & known)


@dataclass(frozen=True)
class Join:
    """Conjunction or disjunction: rows that belong to all parts, or to any.

    All rows belong to a conjunction of nothing.
    """

    parts: tuple[Predicate, ...]
    all_of: bool

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""
        return frozenset().union(*(part.names for part in self.parts))

    def select(self, rows: _RowView) -> BoolArray:
        """Return True for the rows that belong."""
        join = np.logical_and if self.all_of else np.logical_or
        parts = [part.select(rows) for part in self.parts]
        return np.asarray(reduce(join, parts, np.full(len(rows), self.all_of)))


@dataclass(frozen=True)
class Not:
    """Complement: rows that do not belong to ``part``."""

    part: Predicate

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""
        return self.part.names

    def select(self, rows: _RowView) -> BoolArray:
        """Return True for the rows that belong."""
        return ~self.part.select(rows)


Predicate: TypeAlias = Compare | Join | Not
"""Which rows belong to a subpopulation; a function of each row alone."""

MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "==", "!=": "!="}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<text>"[^"]*"|'[^']*')|(?P<quoted>`[^`]+`)|(?P<name>[^\W\d]\w*)
    |(?P<sign><=|>=|!=|==|[<>=(),]))""",
    re.VERBOSE,
)
_DEEPEST = 50
_WORDS = {"and", "or", "not", "in", "true", "false"}


_NAME_IN_LIST = re.compile(r"(?:\s*`([^`]+)`\s*|([^,`]*))(?:,|$)")  # takes linear time


def parse_names(text: str, schema: Schema | None = None) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas; one with a comma is in backticks."""
    names, at = [], 0
    while at < len(text):
        found = _NAME_IN_LIST.match(text, at)
        if found is None:
            raise ParameterError("write names with commas between them, and odd names in backticks")
        names.append(found[1] or found[2].strip())
        at = found.end()
    named = tuple(name for name in names if name)
    unknown = [] if schema is None else [name for name in named if name not in schema]
    if schema is not None and unknown:
        hint = backticks_hint(text, schema.names) or f"; it has {list(schema.names)}"
        hint += did_you_mean(unknown[0], schema.names)
        raise SchemaError(f"the schema has no attribute {unknown[0]!r}{hint}")
    return named


_PLAIN = re.compile(r"[^\W\d]\w*")


def backticks_hint(text: str, names: Iterable[str]) -> str:
    """Return what to add to a refusal of a text in which an odd name stands without backticks."""
    bare = re.sub(r"`[^`]*`", "` `", text)
    odd = [n for n in names if not _PLAIN.fullmatch(n) and "`" not in n and n.strip() in bare]
    if not odd:
        return ""
    name = max(odd, key=len)
    return f"; a name with a blank, a comma or another sign goes in backticks: `{name}`"


def parse_where(text: str | None, schema: Schema, *, named: str = "where") -> Predicate:
    """Parse a subpopulation."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{named}: a subpopulation is written as text")
    if text is None or not text.strip():
        return Join((), all_of=True)

    def refusal(error: BaseException) -> ParameterError:
        return ParameterError(f"{named}: {error}{backticks_hint(text, schema.names)}")

    with replacing(_Unreadable, by=refusal):
        parser = _Parser(_tokens(text), schema)
        found = parser.any_of()
        parser.expect("end")
    return found


class _Unreadable(Exception):  # noqa: N818 - never leaves this file
    """A text is not a subpopulation, for the reason given: public, like the text itself."""


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _Unreadable(f"cannot read {text[at:].strip()[:20]!r}")
        kind, word = str(match.lastgroup), match.group(str(match.lastgroup))
        if kind == "name" and word.lower() in _WORDS:
            kind = word = word.lower()
        tokens.append(("sign" if kind == "sign" else kind, word))
        at = match.end()
    return [*tokens, ("end", "")]


class _Parser:
    """Recursive descent: any_of > all_of > negation > atom."""

    def __init__(self, tokens: list[tuple[str, str]], schema: Schema) -> None:
        self._tokens, self._at, self._schema = tokens, 0, schema
        self._depth = 0

    def any_of(self) -> Predicate:
        return self._joined("or", self._all_of, all_of=False)

    def expect(self, *wanted: str) -> str:
        kind, word = self._tokens[self._at]
        if kind not in wanted and word not in wanted:
            raise _Unreadable(f"expected {' or '.join(wanted)}, found {word or 'the end'!r}")
        self._at += 1
        return word

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at]

    def _all_of(self) -> Predicate:
        return self._joined("and", self._negation, all_of=True)

    def _joined(self, word: str, part: Callable[[], Predicate], *, all_of: bool) -> Predicate:
        parts = [part()]
        while self._peek()[0] == word:
            self._at += 1
            parts.append(part())
        return parts[0] if len(parts) == 1 else Join(tuple(parts), all_of)

    def _negation(self) -> Predicate:
        if self._peek()[0] == "not":
            return Not(self._nested(self._negation))
        if self._peek()[1] == "(" and self._peek()[0] == "sign":
            inner = self._nested(self.any_of)
            self.expect(")")
            return inner
        return self._comparison()

    def _nested(self, part: Callable[[], Predicate]) -> Predicate:
        """Read what follows a ``not`` or an opening parenthesis."""
        self._at, self._depth = self._at + 1, self._depth + 1
        if self._depth > _DEEPEST:
            raise _Unreadable(f"more than {_DEEPEST} conditions inside each other")
        inner = part()
        self._depth -= 1
        return inner

    def _comparison(self) -> Predicate:
        if self._peek()[0] not in ("name", "quoted"):
            left = self._constant()
            sign = self.expect(*OPERATORS)
            attribute = self._attribute()
            first = _compare(attribute, MIRRORED[sign], left)
            if self._peek()[1] not in OPERATORS:
                return first
            return Join((first, self._rest(attribute)), all_of=True)
        attribute = self._attribute()
        if self._peek()[0] not in ("not", "in"):
            return self._rest(attribute)
        negated = self.expect("not", "in") == "not"
        if negated:
            self.expect("in")
        return self._member(attribute, negated=negated)

    def _rest(self, attribute: AnyAttribute) -> Predicate:
        sign = self.expect(*OPERATORS)
        return _compare(attribute, sign, self._constant())

    def _member(self, attribute: AnyAttribute, *, negated: bool) -> Predicate:
        self.expect("(")
        sign = "!=" if negated else "=="
        parts: list[Predicate] = [_compare(attribute, sign, self._constant())]
        while self._peek()[1] == ",":
            self._at += 1
            parts.append(_compare(attribute, sign, self._constant()))
        self.expect(")")
        return Join(tuple(parts), all_of=negated)

    def _attribute(self) -> AnyAttribute:
        name = self.expect("name", "quoted")
        name = name[1:-1] if name.startswith("`") else name
        if name not in self._schema:
            near = did_you_mean(name, self._schema.names)
            raise _Unreadable(f"the schema has no attribute {name!r}{near}")
        return self._schema[name]

    def _constant(self) -> Level | float:
        kind, word = self._peek()
        if kind == "name":
            raise _Unreadable(
                f"expected number or text or true or false, found {word!r}; text goes in quotes"
            )
        word = self.expect("number", "text", "true", "false")
        if kind == "number":
            return float(word)
        return word == "true" if kind in ("true", "false") else word[1:-1]


def compare_with(attribute: AnyAttribute, sign: str, value: Level | float) -> Predicate:
    """Return the comparison of an attribute with a constant."""
    with replacing(_Unreadable, by=lambda error: ParameterError(str(error))):
        return _compare(attribute, sign, value)


def _compare(attribute: AnyAttribute, sign: str, value: Level | float) -> Predicate:
    """Check a constant against the public domain and turn a level into its code."""
    if isinstance(attribute, Numeric):
        if isinstance(value, (str, bool)):
            raise _Unreadable(f"{attribute.name!r} is numeric; compare it with a number")
        return Compare(attribute, sign, float(value))
    if isinstance(attribute, Categorical) and sign not in ("=", "==", "!="):
        raise _Unreadable(f"{attribute.name!r} has no order; use =, != or in")
    kind = type(attribute.levels[0])
    wanted = _as_level(value, kind)
    codes = [code for code, level in enumerate(attribute.levels) if level == wanted]
    if wanted is None or not codes:
        raise _Unreadable(attribute.not_a_level(value))
    return Compare(attribute, sign, float(codes[0]))


def _as_level(value: Level | float, kind: type) -> Level | None:
    """Read a constant as a level of the given type; None if it is not one."""
    if kind is bool:
        return value if isinstance(value, bool) else None
    if kind is int:
        whole = isinstance(value, float) and value.is_integer()
        return int(value) if whole and not isinstance(value, bool) else None
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else None
    return value if isinstance(value, str) else None
