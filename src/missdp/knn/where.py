"""A small language for subpopulations: comparisons, ``in``, ``and``, ``or``, ``not``, parentheses.

Nothing is ever evaluated as Python. Names are attributes of the schema (in backticks if they hold
other characters than letters, digits and ``_``), constants are checked against its public domain,
and a missing cell satisfies no comparison.

    age >= 20 and age < 30
    20 <= age < 30 and `marital status` in ("married", "widowed")
    not (sex = 'female' or income > 50000)
"""

from __future__ import annotations

import re
from collections.abc import Callable

from missdp.errors import ParameterError
from missdp.knn.predicates import OPERATORS, Compare, Everyone, Join, Not, Predicate
from missdp.schema import AnyAttribute, Categorical, Level, Numeric, Schema

__all__ = ["parse_where"]

_MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "=", "==": "==", "!=": "!="}
_TOKEN = re.compile(
    r"""\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<text>"[^"]*"|'[^']*')|(?P<quoted>`[^`]+`)|(?P<name>[^\W\d]\w*)
    |(?P<sign><=|>=|!=|==|[<>=(),]))""",
    re.VERBOSE,
)
_DEEPEST = 50
_WORDS = {"and", "or", "not", "in", "true", "false"}


def parse_where(text: str | None, schema: Schema) -> Predicate:
    """Parse a subpopulation.

    Parameters
    ----------
    text : str or None
        None or blank means everyone.
    schema : Schema
        Its attributes and levels are the only names and constants known.

    Returns
    -------
    Predicate

    Raises
    ------
    ParameterError
        If the text is not in the language or names something the schema does not declare.

    Examples
    --------
    >>> from missdp import Numeric, Schema
    >>> schema = Schema((Numeric(name="age", lower=0, upper=100),))
    >>> sorted(parse_where("20 <= age < 30", schema).names)
    ['age']
    """
    if text is None:
        return Everyone()
    if not isinstance(text, str):
        raise ParameterError("where: a subpopulation is written as text")
    if not text.strip():
        return Everyone()
    parser = _Parser(_tokens(text), schema)
    found = parser.any_of()
    parser.expect("end")
    return found


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ParameterError(f"where: cannot read {text[at:].strip()[:20]!r}")
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
            raise ParameterError(
                f"where: expected {' or '.join(wanted)}, found {word or 'the end'!r}"
            )
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
        """Read what follows a `not` or an opening parenthesis."""
        self._at, self._depth = self._at + 1, self._depth + 1
        if self._depth > _DEEPEST:
            raise ParameterError(f"where: more than {_DEEPEST} conditions inside each other")
        inner = part()
        self._depth -= 1
        return inner

    def _comparison(self) -> Predicate:
        if self._peek()[0] not in ("name", "quoted"):
            left = self._constant()
            sign = self.expect(*OPERATORS)
            attribute = self._attribute()
            first = _compare(attribute, _MIRRORED[sign], left)
            if self._peek()[1] not in OPERATORS:
                return first
            return Join((first, self._rest(attribute)), all_of=True)
        attribute = self._attribute()
        negated = self._peek()[0] == "not"
        if negated:
            self._at += 1
            self.expect("in")
            self._at -= 1
        if self._peek()[0] == "in":
            self._at += 1
            return self._member(attribute, negated=negated)
        return self._rest(attribute)

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
            raise ParameterError(f"where: the schema has no attribute {name!r}")
        return self._schema[name]

    def _constant(self) -> Level | float:
        kind = self._peek()[0]
        word = self.expect("number", "text", "true", "false")
        if kind == "number":
            return float(word)
        return word == "true" if kind in ("true", "false") else word[1:-1]


def _compare(attribute: AnyAttribute, sign: str, value: Level | float) -> Predicate:
    """Check a constant against the public domain and turn a level into its code."""
    if isinstance(attribute, Numeric):
        if isinstance(value, (str, bool)):
            raise ParameterError(f"where: {attribute.name!r} is numeric; compare it with a number")
        return Compare(attribute, sign, float(value))
    if isinstance(attribute, Categorical) and sign not in ("=", "==", "!="):
        raise ParameterError(f"where: {attribute.name!r} has no order; use =, != or in")
    kind = type(attribute.levels[0])
    wanted = _as_level(value, kind)
    codes = [code for code, level in enumerate(attribute.levels) if level == wanted]
    if wanted is None or not codes:
        raise ParameterError(f"where: {value!r} is not a level of {attribute.name!r}")
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
