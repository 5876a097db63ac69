"""Conditions and equations about one row: one syntax for rules, subpopulations and questions.

Python's parser reads a text, and nothing is ever evaluated. A placeholder stands for each name and
each constant, so the parser sees neither. Names of attributes stand in backticks if they have other
characters than letters, digits and ``_``. Constants are checked against the public domain.

    age >= 20 and age < 30
    20 <= age < 30 and `marital status` in ("married", "widowed")
    not (sex = 'female' or income > 50000)
    admission <= discharge

Rules may also be equations: ``age + born = 2024``, or ``age = years(birth, interview)``, the
completed years between two dates.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from missdp.errors import ParameterError, did_you_mean, replacing
from missdp.schema.attributes import Categorical, Level
from missdp.schema.dates import Date
from missdp.schema.differences import Difference
from missdp.schema.logic import MIRRORED, Comparison, Junction, Not, Predicate
from missdp.schema.numeric import AnyAttribute, Columns, Numeric

if TYPE_CHECKING:
    from missdp.schema.schema import Schema

MAX_LENGTH = 100_000  # characters of one text
MAX_NESTED = 100  # nested parentheses, plus all words not, +, - and * of a text
_SHOWN = 40  # characters of a text that a message quotes
_PLAIN = r"[^\W\d]\w*"
_WORD = re.compile(
    r"\s*(?:(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    rf"""|(?P<text>"[^"]*"|'[^']*')|(?P<name>`[^`]+`|{_PLAIN})"""
    r"|(?P<sign><=|>=|!=|<>|==|[-+*<>=(),≠≤≥]))"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}(-[0-9]{1,2})?")
_PYTHON: Final = {"=": "==", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_KEYWORDS: Final = ("and", "or", "not", "in")
_NESTING: Final = {"(": 1, ")": -1, "not": 1, "+": 1, "-": 1, "*": 1}
_OPERATORS: Final = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_SUMS = (ast.BinOp, ast.UnaryOp, ast.Call)
_HINTS: Final[dict[type[ast.expr], str]] = {
    ast.Name: ". Text goes in quotes",
    ast.BinOp: ". Sums such as a + 2 * b stand in rules of the form always = 'a + 2 * b = c'",
    ast.Call: ". years(earlier, later) must be one side of an equation",
}

#: Factors of the attributes on the left of a linear equation. The key "" has the right-hand side.
Linear: TypeAlias = dict[str, float]
#: A number, and the two dates whose distance in completed years it is.
Years: TypeAlias = tuple[AnyAttribute, AnyAttribute, AnyAttribute]
Statement: TypeAlias = Predicate | Linear | Years
_Parsed = TypeVar("_Parsed")


class RuleError(Exception):
    """Error of a rule or a condition that does not fit the schema. A public error replaces it.

    The message quotes public facts only: the text, and the schema.
    """


def attribute_named(columns: Columns, name: object, *, hint: str = "") -> AnyAttribute:
    """Look up an attribute by its name.

    Parameters
    ----------
    columns : dict of str to attribute
        The attributes of the schema by name.
    name : object
        The name as it was written.
    hint : str, optional
        Advice in the message if there is no such attribute.

    Returns
    -------
    attribute
        Public.

    Raises
    ------
    RuleError
        If the schema has no attribute of this name.
    """
    if not isinstance(name, str) or name not in columns:
        near = did_you_mean(name, columns)
        raise RuleError(f"the schema has no attribute {name!r}{hint}{near}")
    return columns[name]


def condition(text: str, columns: Columns) -> Predicate:
    """Translate the text of a condition on one row."""
    return _read(text, columns, lambda reader: reader.condition(reader.tree))


def statements(text: str, columns: Columns) -> tuple[Statement, ...]:
    """Translate conditions and equations that are joined by ``and`` and hold in every row."""
    return _read(text, columns, lambda reader: tuple(reader.statements(reader.tree)))


def _read(text: str, columns: Columns, translate: Callable[[_Reader], _Parsed]) -> _Parsed:
    """Translate a text. If it cannot be read and has an odd name, the error advises backticks."""
    try:
        return translate(_Reader(text, columns))
    except RuleError as error:
        message = f"{error}{_hint(text, columns)}"
    raise RuleError(message)


def _hint(text: object, names: Iterable[str]) -> str:
    """Return the advice to write an odd name of a text in backticks, or an empty text."""
    bare = re.sub(r"`[^`]*`", "` `", str(text))
    odd = [n for n in names if not re.fullmatch(_PLAIN, n) and "`" not in n and n.strip() in bare]
    name = max(odd, key=len, default="")
    advice = ". A name with a blank, a comma or another sign goes in backticks"
    return f"{advice}: `{name}`" if name else ""


class _Reader(ast.NodeTransformer):
    """Translator of a text by way of Python's syntax tree.

    Every kind of node that has no case here raises `RuleError`.
    """

    def __init__(self, text: str, columns: Columns) -> None:
        self._text, self._columns, self._words = text, columns, [*_words(text)]
        self._source = " ".join(self._python(*word) for word in enumerate(self._words))
        try:
            tree = ast.parse(self._source, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            tree, offset = None, getattr(error, "offset", None) or len(self._source) + 1
        if tree is None:
            raise _unreadable(text[self._place(offset - 1) :])
        self.tree: ast.expr = self.visit(tree)

    @staticmethod
    def _python(place: int, word: re.Match[str]) -> str:
        """Return the Python word for a word of the text. Names and constants get placeholders."""
        plain = word[0].strip()
        if word["sign"]:
            return _PYTHON.get(plain, plain)
        return plain.lower() if plain.lower() in _KEYWORDS else f"_{place}"

    def _place(self, offset: int) -> int:
        """Return the position in the text of the word at an offset of the Python text."""
        index = len(self._source[:offset].split())
        return self._words[index].start() if index < len(self._words) else len(self._text)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a placeholder by its name or constant."""
        word = self._words[int(node.id[1:])]
        plain = word[0].strip()
        new: ast.expr = ast.Name(plain.strip("`"))
        if word["number"] or word["text"]:
            new = ast.Constant(float(plain) if word["number"] else plain[1:-1])
        elif plain.lower() in ("true", "false"):
            new = ast.Constant(plain.lower() == "true")
        return ast.copy_location(new, node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Combine a sign and a number to one constant."""
        match self.generic_visit(node):
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float(number))):
                return ast.copy_location(ast.Constant(-number), node)
            case ast.UnaryOp(op=ast.UAdd(), operand=ast.Constant(value=float()) as constant):
                return ast.copy_location(constant, node)
        return node

    def _error(self, expected: str, node: ast.expr) -> RuleError:
        begin, end = (self._place(at or 0) for at in (node.col_offset, node.end_col_offset))
        text, hint = self._text[begin:end].strip(), _HINTS.get(type(node), "")
        if _DATE.fullmatch(text):
            hint = f". A date goes in quotes: '{text}'"
        return RuleError(f"expected {expected}, found {_short(text)}{hint}")

    def _attribute(self, node: ast.expr, *, hint: str = "") -> AnyAttribute:
        if isinstance(node, ast.Name):
            return attribute_named(self._columns, node.id, hint=hint)
        raise self._error("an attribute", node)

    def _constant(self, node: ast.expr) -> Level | float:
        if isinstance(node, ast.Constant) and isinstance(node.value, Level | float):
            return node.value
        raise self._error("number or text or true or false", node)

    def condition(self, node: ast.expr) -> Predicate:
        """Translate a condition."""
        match node:
            case ast.BoolOp(op=op, values=nodes):
                return Junction(tuple(map(self.condition, nodes)), all_of=isinstance(op, ast.And))
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return Not(self.condition(inner))
            case ast.Compare():
                parts = [self._comparison(*pair) for pair in _neighbours(node)]
                return parts[0] if len(parts) == 1 else Junction(tuple(parts), all_of=True)
        raise self._error("comparisons such as age >= 20, joined by and, or and not", node)

    def _comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Predicate:
        if isinstance(op, ast.In | ast.NotIn):
            return self._member(self._attribute(left), right, negated=isinstance(op, ast.NotIn))
        operator = _OPERATORS[type(op)]
        if isinstance(left, ast.Constant):
            left, operator, right = right, MIRRORED[operator], left
        one = self._attribute(left)
        if not isinstance(right, ast.Name):
            return comparison(one, operator, self._constant(right))
        two = self._attribute(right, hint=". Text goes in quotes")
        if one is two:
            raise RuleError(f"it compares {one.name!r} with itself")
        if not are_comparable(one, operator, two):
            raise RuleError(
                f"{one.name!r} and {two.name!r} cannot be compared: all must be numeric, all dates "
                "in one unit, or all ordinal with the same levels"
            )
        return Comparison(one, operator, two)

    def _member(self, attribute: AnyAttribute, listed: ast.expr, *, negated: bool) -> Predicate:
        """Translate ``in`` and ``not in``. One value in parentheses is not a tuple in Python."""
        values = listed.elts if isinstance(listed, ast.Tuple) else [listed]
        if not values:
            raise RuleError(f"the list of values of {attribute.name!r} is empty")
        operator = "!=" if negated else "=="
        parts = (comparison(attribute, operator, self._constant(value)) for value in values)
        return Junction(tuple(parts), all_of=negated)

    def statements(self, node: ast.expr) -> Iterator[Statement]:
        """Yield the translated conditions and equations that are joined by ``and``."""
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                for part in parts:
                    yield from self.statements(part)
            case ast.Compare():
                for left, op, right in _neighbours(node):
                    if isinstance(op, ast.Eq) and self._is_equation(left, right):
                        yield self._equation(left, right)
                    else:
                        yield self._comparison(left, op, right)
            case _:
                yield self.condition(node)

    def _is_equation(self, *sides: ast.expr) -> bool:
        """Return True for an equation of numbers, False for a condition on levels or one number."""
        named = (self._columns.get(getattr(side, "id", "")) for side in sides)
        sums = any(isinstance(side, _SUMS) for side in sides)
        return sums or all(isinstance(attribute, Numeric) for attribute in named)

    def _equation(self, left: ast.expr, right: ast.expr) -> Linear | Years:
        for call, number in ((left, right), (right, left)):
            match call:
                case ast.Call(func=ast.Name(id="years"), args=[earlier, later]):
                    dates = self._attribute(earlier), self._attribute(later)
                    return self._attribute(number), *dates
                case ast.Call():
                    raise self._error("years(earlier, later), the only call in rules", call)
        terms = {"": 0.0}
        self._add(left, 1.0, terms)
        self._add(right, -1.0, terms)
        return terms

    def _add(self, node: ast.expr, factor: float, terms: Linear) -> None:
        """Add a multiple of a sum to the terms on the left, and to the number on the right."""
        match node:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                self._add(left, factor, terms)
                self._add(right, factor if isinstance(op, ast.Add) else -factor, terms)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                self._add(inner, -factor, terms)
            case ast.BinOp(left=ast.Constant(value=float(number)), op=ast.Mult(), right=inner):
                self._add(inner, factor * number, terms)
            case ast.Constant(value=float(number)):
                terms[""] -= factor * number
            case _:
                name = self._attribute(node).name
                terms[name] = terms.get(name, 0.0) + factor


def _words(text: object) -> Iterator[re.Match[str]]:
    """Yield the words of a text. Too long or too deeply nested texts raise an error."""
    if not isinstance(text, str) or not text.strip():
        raise RuleError("it must be text, and not empty")
    if len(text) > MAX_LENGTH:
        raise RuleError(f"it has more than {MAX_LENGTH:,} characters. Use several rules")
    at, nested, end = 0, 0, len(text.rstrip())
    while at < end:
        word = _WORD.match(text, at)
        if word is None:
            raise _unreadable(text[at:])
        nested, at = nested + _NESTING.get(word[0].strip().lower(), 0), word.end()
        if nested > MAX_NESTED:
            raise RuleError(f"more than {MAX_NESTED} parts inside each other. Use several rules")
        yield word


def _neighbours(node: ast.Compare) -> Iterator[tuple[ast.expr, ast.cmpop, ast.expr]]:
    """Return the comparisons of a chain: left side, operator and right side."""
    return zip((node.left, *node.comparators), node.ops, node.comparators, strict=False)


def _unreadable(rest: str) -> RuleError:
    """Return the error that quotes the rest of a text, from the first unexpected word on."""
    problem = f"cannot read {_short(rest)}" if rest.strip() else "found the end of the text"
    return RuleError(
        f"{problem}. Write names, constants, = != < <= > >= and in, joined by and, or and not"
    )


def _short(text: str) -> str:
    """Return the quoted start of a text."""
    text = text.strip()
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")


def scale_of(attribute: AnyAttribute) -> Hashable:
    """Return the scale of an attribute. Values on equal scales can be compared."""
    if isinstance(attribute, Date):
        return attribute.unit, attribute.zoned
    if isinstance(attribute, Difference):
        return attribute.unit, attribute.resolution
    return "numbers" if isinstance(attribute, Numeric) else (type(attribute), attribute.levels)


def are_comparable(one: AnyAttribute, operator: str, two: AnyAttribute) -> bool:
    """Return True if an operator can compare the values of two attributes.

    The attributes need one scale, which must be ordered for ``<``, ``<=``, ``>`` and ``>=``.

    Parameters
    ----------
    one, two : attribute
        Two attributes of a schema.
    operator : str
        ``"=="``, ``"!="``, ``"<"``, ``"<="``, ``">"`` or ``">="``.

    Returns
    -------
    bool
        False for a number and a date, or for different levels.
    """
    has_order = operator in ("==", "!=") or not isinstance(one, Categorical)
    return has_order and scale_of(one) == scale_of(two)


def comparison(attribute: AnyAttribute, operator: str, value: Level | float) -> Comparison:
    """Build the comparison of an attribute with a constant of its public domain.

    Parameters
    ----------
    attribute : attribute
        The left side of the comparison.
    operator : str
        ``"=="``, ``"!="``, ``"<"``, ``"<="``, ``">"`` or ``">="``.
    value : str, bool, int or float
        The constant. A date is written as text.

    Returns
    -------
    Comparison
        With a number, or the code of a level, on its right.

    Raises
    ------
    RuleError
        If the constant is not a level, a number or a date of the attribute.
    """
    if isinstance(attribute, Date):
        date = attribute.number(value) if isinstance(value, str) else None
        if date is None:
            like = attribute.format_value(attribute.lower)
            raise RuleError(f"{attribute.name!r} is compared with a {attribute.kind} like {like!r}")
        return Comparison(attribute, operator, date)
    if isinstance(attribute, Numeric):
        if isinstance(value, (str, bool)):
            quotes = ", without quotes" if isinstance(value, str) else ""
            raise RuleError(f"{attribute.name!r} is numeric. Compare it with a number{quotes}")
        size = attribute.size_of_unit if isinstance(attribute, Difference) else 1.0
        return Comparison(attribute, operator, float(value) * size)
    if isinstance(attribute, Categorical) and operator not in ("==", "!="):
        raise RuleError(f"{attribute.name!r} has no order. Use =, != or in")
    if attribute.kind == "open":  # importing the class here would be circular
        raise RuleError(
            f"the levels of {attribute.name!r} are open, so no condition can name it before a fit. "
            "Declare its levels."
        )
    level: Level | float = value
    if isinstance(value, float) and value.is_integer():
        is_integer = isinstance(next(iter(attribute.levels), ""), int)
        level = int(value) if is_integer else str(int(value))
    code = attribute.codes_by_level.get((type(level), level))
    if code is not None:
        return Comparison(attribute, operator, float(code))
    constant = int(value) if isinstance(value, float) and value.is_integer() else value
    why = attribute.not_a_level(constant)
    is_number = isinstance(value, float) and isinstance(next(iter(attribute.levels), None), str)
    if is_number and "levels" not in attribute.undeclared:
        why += f". Levels of {attribute.name!r} are text: write them in quotes"
    raise RuleError(why)


_NAME_IN_LIST = re.compile(r"(?:\s*`([^`]+)`\s*|([^,`]*))(?:,|$)")  # takes linear time


def parse_names(text: str, schema: Schema | None = None) -> tuple[str, ...]:
    """Return the names of a list with commas. A name with a comma is in backticks."""
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
        raise ParameterError(f"the schema has no attribute {unknown[0]!r}{hint}")
    return named


def parse_where(text: str | None, schema: Schema, *, named: str = "where") -> Predicate:
    """Parse the text of a condition on rows, which selects a subpopulation of a table.

    The syntax is the syntax of rules: names, constants, comparisons (``= != < <= > >=``), ``in``,
    ``and``, ``or`` and ``not``. No rows are read.

    Parameters
    ----------
    text : str or None
        A condition on one row. None and blank text stand for all rows.
    schema : Schema
        The attributes that the condition may name.
    named : str, default "where"
        The name of the parameter in messages.

    Returns
    -------
    Predicate
        The condition. Its method ``select`` returns the matching rows. Public.

    Raises
    ------
    ParameterError
        If the text is not a condition, or does not fit the schema.

    Examples
    --------
    >>> from missdp import Numeric, Schema
    >>> from missdp.statistics import parse_where
    >>> schema = Schema((Numeric(name="age", lower=0, upper=99),))
    >>> condition = parse_where("age >= 18", schema)
    >>> parse_where("height >= 180", schema)
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: where: the schema has no attribute 'height'
    """
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{named}: a subpopulation must be text")
    if text is None or not text.strip():
        return Junction((), all_of=True)
    with replacing(RuleError, by=lambda error: ParameterError(f"{named}: {error}")):
        return condition(text, schema.columns)
