"""Conditions and equations about one row: one syntax for rules, subpopulations and questions.

Python's parser reads a text, and nothing is ever evaluated. The parser sees neither names nor
constants: each is replaced by a word of our own first. Names are those of attributes, in backticks
if they hold other characters than letters, digits and ``_``. Constants are checked against the
public domain.

    age >= 20 and age < 30
    20 <= age < 30 and `marital status` in ("married", "widowed")
    not (sex = 'female' or income > 50000)
    admission <= discharge

Rules know equations as well: ``age + born = 2024`` and one call, ``age = years(birth, interview)``,
the completed years between two dates.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from missdp.errors import MissDPError, ParameterError, SchemaError, did_you_mean, replacing
from missdp.schema.attributes import Categorical, Level, Ordinal
from missdp.schema.dates import Date
from missdp.schema.differences import Difference
from missdp.schema.logic import MIRRORED, Comparison, Junction, Not, Predicate
from missdp.schema.numeric import AnyAttribute, Columns, Numeric

if TYPE_CHECKING:
    from missdp.schema.schema import Schema

MAX_LENGTH = 100_000  # characters of one text
MAX_DEPTH = 50  # conditions inside each other
MAX_SIGNS = 200  # signs + - * in one text, each of which nests the syntax tree by one level
_SHOWN = 40  # characters of a text that a message quotes
_KEYWORDS = frozenset({"and", "or", "not", "in"})
_PLAIN = re.compile(r"[^\W\d]\w*")
_PYTHON: Final = {"=": "==", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_OPERATORS: Final = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_WORD = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"""|(?P<text>"[^"]*"|'[^']*')"""
    rf"|(?P<name>`[^`]+`|{_PLAIN.pattern})"
    r"|(?P<sign><=|>=|!=|<>|==|[-+*<>=(),≠≤≥]))"
)


class ExpressionError(Exception):
    """A text is no expression. `reading` puts an error of the library in its place.

    The message quotes the text only, which is public.
    """


class Linear(NamedTuple):
    """A linear equation: the multiples of attributes on its left, and the number on its right."""

    terms: dict[str, float]
    constant: float


class Years(NamedTuple):
    """An equation by which a number is the completed years from one date to another."""

    number: AnyAttribute
    earlier: AnyAttribute
    later: AnyAttribute


Statement: TypeAlias = Predicate | Linear | Years


def reading(text: str, names: Collection[str], wrong: Callable[[str], MissDPError]) -> replacing:
    """Replace ``ExpressionError`` by the error that ``wrong`` makes of its message."""
    return replacing(ExpressionError, by=lambda error: wrong(f"{error}{_hint(text, names)}"))


def _hint(text: str, names: Iterable[str]) -> str:
    """Return advice for a text in which an odd name stands without backticks."""
    bare = re.sub(r"`[^`]*`", "` `", text)
    odd = [n for n in names if not _PLAIN.fullmatch(n) and "`" not in n and n.strip() in bare]
    if not odd:
        return ""
    name = max(odd, key=len)
    return f"; a name with a blank, a comma or another sign goes in backticks: `{name}`"


def attribute_named(columns: Columns, name: object, *, hint: str = "") -> AnyAttribute:
    """Return the attribute of a name."""
    if not isinstance(name, str) or name not in columns:
        near = did_you_mean(name, columns)
        raise ExpressionError(f"the schema has no attribute {name!r}{hint}{near}")
    return columns[name]


def condition(text: str, columns: Columns) -> Predicate:
    """Read a condition on one row."""
    reader = _Reader(text, columns)
    return reader.condition(reader.tree)


def statements(text: str, columns: Columns) -> tuple[Statement, ...]:
    """Read what always holds: conditions and equations that are joined by ``and``."""
    reader = _Reader(text, columns)
    return tuple(reader.statements(reader.tree))


class _Reader:
    """A text as Python's syntax tree, and the translation of its nodes.

    Every node that is not listed here is refused.
    """

    def __init__(self, text: str, columns: Columns) -> None:
        self._text, self._columns = text, columns
        self._names: dict[str, str] = {}
        self._constants: dict[str, Level | float] = {}
        # From the place of a word in the Python text to its place in the original text.
        self._starts: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self.tree = self._parsed()

    def _parsed(self) -> ast.expr:
        """Return the syntax tree of the text, with our own words for names and constants."""
        source, size = [], 0
        for word in _words(self._text):
            kind = str(word.lastgroup)
            source.append(self._python(kind, word[kind]))
            self._starts[size] = word.start(kind)
            self._ends[size + len(source[-1])] = word.end(kind)
            size += len(source[-1]) + 1
        try:
            return ast.parse(" ".join(source), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            offset = getattr(error, "offset", None) or 0  # the first place is 1, the end is 0
        at = self._starts.get(offset - 1, len(self._text))
        raise _unreadable(self._text[at:])

    def _python(self, kind: str, word: str) -> str:
        """Return what stands for a word in the Python text."""
        if kind == "sign":
            return _PYTHON.get(word, word)
        if kind == "name" and word.lower() in _KEYWORDS:
            return word.lower()
        own = f"_{len(self._names) + len(self._constants)}"
        if kind == "name" and word.lower() not in ("true", "false"):
            self._names[own] = word.strip("`")
        elif kind == "name":
            self._constants[own] = word.lower() == "true"
        else:
            self._constants[own] = float(word) if kind == "number" else word[1:-1]
        return own

    def _error(self, expected: str, node: ast.expr, hint: str = "") -> ExpressionError:
        start, end = self._starts[node.col_offset], self._ends[node.end_col_offset or 0]
        return ExpressionError(f"expected {expected}, found {_short(self._text[start:end])}{hint}")

    def _is_name(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self._names

    def _attribute(self, node: ast.expr, *, hint: str = "") -> AnyAttribute:
        if isinstance(node, ast.Name) and node.id in self._names:
            return attribute_named(self._columns, self._names[node.id], hint=hint)
        raise self._error("an attribute", node)

    def _constant(self, node: ast.expr) -> Level | float:
        """Return a number, a text or a truth value."""
        match node:
            case ast.Name(id=word) if word in self._constants:
                return self._constants[word]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as sign, operand=inner):
                number = self._constant(inner)
                if isinstance(number, float):
                    return -number if isinstance(sign, ast.USub) else number
        quotes = "; text goes in quotes" if self._is_name(node) else ""
        raise self._error("number or text or true or false", node, quotes)

    def _is_constant(self, node: ast.expr) -> bool:
        while isinstance(node, ast.UnaryOp):
            node = node.operand
        return isinstance(node, ast.Name) and node.id in self._constants

    def condition(self, node: ast.expr) -> Predicate:
        """Translate a condition."""
        match node:
            case ast.BoolOp(op=op, values=parts):
                return Junction(tuple(map(self.condition, parts)), all_of=isinstance(op, ast.And))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return Not(self.condition(inner))
            case ast.Compare():
                found = tuple(self._comparison(*pair) for pair in _neighbours(node))
                return found[0] if len(found) == 1 else Junction(found, all_of=True)
        raise self._error("comparisons such as age >= 20, joined by and, or and not", node)

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Predicate:
        if isinstance(op, ast.In | ast.NotIn):
            return self._member(self._attribute(left), right, negated=isinstance(op, ast.NotIn))
        for side in (left, right):
            if self._is_arithmetic(side):
                raise self._error("an attribute or a constant", side, _EQUATIONS_ONLY)
        operator = _OPERATORS[type(op)]
        if not self._is_name(left):
            left, operator, right = right, MIRRORED[operator], left
        one = self._attribute(left)
        if not self._is_name(right):
            return comparison(one, operator, self._constant(right))
        two = self._attribute(right, hint="; text goes in quotes")
        if one is two:
            raise ExpressionError(f"it names {one.name!r} twice in one comparison")
        if not are_comparable(one, operator, two):
            raise ExpressionError(
                f"{one.name!r} and {two.name!r} cannot be compared: all must be numeric, all dates "
                "in one unit, or all ordinal with the same levels"
            )
        return Comparison(one, operator, two)

    def _member(self, attribute: AnyAttribute, listed: ast.expr, *, negated: bool) -> Predicate:
        """Translate ``in`` and ``not in``; one value in parentheses is no tuple in Python."""
        values = listed.elts if isinstance(listed, ast.Tuple) else [listed]
        if not values:
            raise ExpressionError(f"the list of values of {attribute.name!r} is empty")
        operator = "!=" if negated else "=="
        found = (comparison(attribute, operator, self._constant(value)) for value in values)
        return Junction(tuple(found), all_of=negated)

    def statements(self, node: ast.expr) -> Iterator[Statement]:
        """Translate what always holds, part by part."""
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                for part in parts:
                    yield from self.statements(part)
            case ast.Compare():
                for left, op, right in _neighbours(node):
                    equal = isinstance(op, ast.Eq) and self._is_equation(left, right)
                    yield (
                        self._equation(left, right) if equal else self._comparison(left, op, right)
                    )
            case _:
                yield self.condition(node)

    def _is_arithmetic(self, node: ast.expr) -> bool:
        negated = isinstance(node, ast.UnaryOp) and not self._is_constant(node)
        return negated or isinstance(node, ast.BinOp | ast.Call)

    def _is_equation(self, *sides: ast.expr) -> bool:
        """Tell an equation of numbers from a condition on levels, or on one number."""
        names = (self._names.get(side.id, "") for side in sides if isinstance(side, ast.Name))
        numeric = [isinstance(self._columns.get(name), Numeric) for name in names]
        return any(map(self._is_arithmetic, sides)) or (len(numeric) == 2 and all(numeric))

    def _equation(self, left: ast.expr, right: ast.expr) -> Linear | Years:
        for call, number in ((left, right), (right, left)):
            if isinstance(call, ast.Call) and self._is_name(number):
                return Years(self._attribute(number), *self._dates(call))
        found = Linear({}, 0.0)
        for side, factor in ((left, 1.0), (right, -1.0)):
            found = self._linear(side, factor, found)
        return found

    def _dates(self, call: ast.Call) -> tuple[AnyAttribute, AnyAttribute]:
        """Return the two dates of ``years(earlier, later)``."""
        name = self._names.get(getattr(call.func, "id", ""))
        if name != "years":
            raise self._error("years(earlier, later), the only call in rules", call)
        if len(call.args) != 2:
            raise self._error("two dates in years(earlier, later)", call)
        earlier, later = map(self._attribute, call.args)
        return earlier, later

    def _linear(self, node: ast.expr, factor: float, sums: Linear) -> Linear:
        """Add a multiple of a sum to the terms on the left, and to the number on the right."""
        match node:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                sums = self._linear(left, factor, sums)
                return self._linear(right, factor if isinstance(op, ast.Add) else -factor, sums)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=inner):
                return self._linear(inner, -factor if isinstance(op, ast.USub) else factor, sums)
            case ast.BinOp(left=left, op=ast.Mult(), right=right):
                number, other = (left, right) if self._is_constant(left) else (right, left)
                return self._linear(other, factor * self._number(number), sums)
            case ast.Call():
                self._dates(node)
                raise ExpressionError(
                    "years(earlier, later) stands alone on its side, and one number opposite"
                )
            case _ if self._is_constant(node):
                return Linear(sums.terms, sums.constant - factor * self._number(node))
        if not self._is_name(node):
            raise self._error("a number or an attribute", node)
        name = self._attribute(node).name
        return Linear({**sums.terms, name: sums.terms.get(name, 0.0) + factor}, sums.constant)

    def _number(self, node: ast.expr) -> float:
        value = self._constant(node)
        if isinstance(value, float):
            return value
        raise self._error("a number", node)


_EQUATIONS_ONLY = "; sums, multiples and years() stand in rules of the form always = 'a + b = c'"


def _words(text: str) -> Iterator[re.Match[str]]:
    """Yield the words of a text, which is neither too long nor nested too deeply for Python."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"it has more than {MAX_LENGTH:,} characters. Use several rules")
    at, text = 0, text.rstrip()
    depth = prefixes = signs = 0
    while at < len(text):
        word = _WORD.match(text, at)
        if word is None:
            raise _unreadable(text[at:])
        plain, at = word[0].strip().lower(), word.end()
        depth += {"(": 1, ")": -1}.get(plain, 0)
        prefixes = prefixes + 1 if plain in ("not", "-", "+") else 0
        signs += plain in ("+", "-", "*")
        if depth + prefixes > MAX_DEPTH:
            raise ExpressionError(f"more than {MAX_DEPTH} conditions inside each other")
        if signs > MAX_SIGNS:
            raise ExpressionError(f"more than {MAX_SIGNS} signs + - * in one text")
        yield word


def _neighbours(node: ast.Compare) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """Yield each two sides of a chain of comparisons, and what stands between them."""
    left = node.left
    for op, right in zip(node.ops, node.comparators, strict=True):
        yield left, op, right
        left = right


def _unreadable(rest: str) -> ExpressionError:
    """Return the error that quotes the rest of a text, from the word that does not fit."""
    found = f"cannot read {_short(rest.strip())}" if rest.strip() else "found the end of the text"
    return ExpressionError(
        f"{found}. Write names, constants, = != < <= > >= and in, joined by and, or and not"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def scale_of(attribute: AnyAttribute) -> Hashable:
    """Return the scale on which values of an attribute compare; None if they have no order."""
    if isinstance(attribute, Date):
        return attribute.unit, attribute.zoned
    if isinstance(attribute, Difference):
        return attribute.unit, attribute.resolution
    if isinstance(attribute, Numeric):
        return "numbers"
    return attribute.levels if isinstance(attribute, Ordinal) else None


def are_comparable(one: AnyAttribute, operator: str, two: AnyAttribute) -> bool:
    """Tell whether values of two attributes are on one scale, ordered if the operator needs it."""
    if operator in ("==", "!=") and isinstance(one, Categorical) and isinstance(two, Categorical):
        return one.levels == two.levels
    scale = scale_of(one)
    return scale is not None and scale == scale_of(two)


def comparison(attribute: AnyAttribute, operator: str, value: Level | float) -> Comparison:
    """Check a constant against the public domain and turn a level into its code."""
    if isinstance(attribute, Date):
        date = attribute.number(value) if isinstance(value, str) else None
        if date is None:
            like = attribute.shown(attribute.lower)
            raise ExpressionError(
                f"{attribute.name!r} is compared with a {attribute.kind} like {like!r}"
            )
        return Comparison(attribute, operator, date)
    if isinstance(attribute, Numeric):
        if isinstance(value, (str, bool)):
            raise ExpressionError(f"{attribute.name!r} is numeric; compare it with a number")
        size = attribute.size_of_unit if isinstance(attribute, Difference) else 1.0
        return Comparison(attribute, operator, float(value) * size)
    if isinstance(attribute, Categorical) and operator not in ("==", "!="):
        raise ExpressionError(f"{attribute.name!r} has no order; use =, != or in")
    level: Level | float = value
    if isinstance(value, float) and value.is_integer():
        whole = isinstance(next(iter(attribute.levels), ""), int)
        level = int(value) if whole else str(int(value))
    for code, known in enumerate(attribute.levels):
        if type(known) is type(level) and known == level:
            return Comparison(attribute, operator, float(code))
    raise ExpressionError(attribute.not_a_level(value))


_NAME_IN_LIST = re.compile(r"(?:\s*`([^`]+)`\s*|([^,`]*))(?:,|$)")  # takes linear time


def parse_names(text: str, schema: Schema | None = None) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas; one with a comma is in backticks."""
    names, at = [], 0
    while at < len(text):
        item = _NAME_IN_LIST.match(text, at)
        if item is None:
            raise ParameterError("write names with commas between them, and odd names in backticks")
        names.append(item[1] or item[2].strip())
        at = item.end()
    named = tuple(name for name in names if name)
    unknown = [] if schema is None else [name for name in named if name not in schema]
    if schema is not None and unknown:
        hint = _hint(text, schema.names) or f". It has {list(schema.names)}"
        hint += did_you_mean(unknown[0], schema.names)
        raise SchemaError(f"the schema has no attribute {unknown[0]!r}{hint}")
    return named


def parse_where(text: str | None, schema: Schema, *, named: str = "where") -> Predicate:
    """Parse a subpopulation."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{named}: a subpopulation is written as text")
    if text is None or not text.strip():
        return Junction((), all_of=True)
    with reading(text, schema.names, lambda why: ParameterError(f"{named}: {why}")):
        return condition(text, schema.columns)
