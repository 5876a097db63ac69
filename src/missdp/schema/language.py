"""How rules and subpopulations are written: conditions, orders, equations.

Nothing is ever evaluated as Python. Names are those of attributes, in backticks if they hold other
characters than letters, digits and ``_``; constants are checked against the public domain.

    age >= 20 and age < 30
    20 <= age < 30 and `marital status` in ("married", "widowed")
    not (sex = 'female' or income > 50000)

Equations have one call, ``age = years(birth, interview)``: the completed years between two dates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from missdp.errors import MissDPError, ParameterError, SchemaError, did_you_mean, replacing
from missdp.schema.attributes import Categorical, Level
from missdp.schema.conditions import MIRRORED, OPERATORS, Compare, Join, Not, Predicate
from missdp.schema.dates import Date
from missdp.schema.differences import Difference
from missdp.schema.numeric import AnyAttribute, Columns, Numeric

if TYPE_CHECKING:
    from missdp.schema.schema import Schema

_DEEPEST = 50
_KEYWORDS = frozenset({"and", "or", "not", "in", "true", "false"})
_PLAIN = re.compile(r"[^\W\d]\w*")
_SIGNS: Final = {
    "=": "==", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">=", **{sign: sign for sign in OPERATORS},
}  # fmt: skip
# The words of every text.
_WORD = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    r"""|(?P<text>"[^"]*"|'[^']*')"""
    rf"|(?P<name>`[^`]+`|{_PLAIN.pattern})"
    r"|(?P<sign><=|>=|!=|<>|==|[-+*<>=(),≠≤≥]))"
)


class _Unreadable(Exception):  # noqa: N818 - `reading` puts a public error in its place
    """A text is not of the language, for the reason given: public, like the text itself."""


def reading(text: str, names: Collection[str], wrong: Callable[[str], MissDPError]) -> replacing:
    """Replace ``_Unreadable`` by what ``wrong`` makes of the reason and of a hint about names."""
    return replacing(_Unreadable, by=lambda error: wrong(f"{error}{_backticks_hint(text, names)}"))


def _backticks_hint(text: str, names: Iterable[str]) -> str:
    """Return what to add to a refusal of a text in which an odd name stands without backticks."""
    bare = re.sub(r"`[^`]*`", "` `", text)
    odd = [n for n in names if not _PLAIN.fullmatch(n) and "`" not in n and n.strip() in bare]
    if not odd:
        return ""
    name = max(odd, key=len)
    return f"; a name with a blank, a comma or another sign goes in backticks: `{name}`"


def attribute_named(columns: Columns, name: object) -> AnyAttribute:
    """Return the attribute of a name."""
    if not isinstance(name, str) or name not in columns:
        near = did_you_mean(name, columns)
        raise _Unreadable(f"the schema has no attribute {name!r}{near}")
    return columns[name]


class _Words:
    """The words of a text, read one after the other."""

    def __init__(self, text: str, *, keywords: Collection[str] = _KEYWORDS) -> None:
        self._words: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _WORD.match(text, at)
            if found is None:
                raise _Unreadable(f"cannot read {text[at:].strip()[:20]!r}")
            kind, word = str(found.lastgroup), found[str(found.lastgroup)]
            keyword = kind == "name" and word.lower() in keywords
            self._words.append((word.lower(),) * 2 if keyword else (kind, word))
            at = found.end()
        self._words.append(("end", ""))
        self._at = 0

    def sees(self, *wanted: str) -> bool:
        """Whether the next word is one of these, or of one of these kinds."""
        kind, word = self._words[self._at]
        return kind in wanted or (kind == "sign" and word in wanted)

    def calls(self) -> Iterator[str]:
        """Yield every name from the next word on that stands before an opening parenthesis."""
        for (kind, word), following in pairwise(self._words[self._at :]):
            if kind == "name" and following == ("sign", "("):
                yield word

    def at_call(self) -> bool:
        """Whether the next word is a name that stands before an opening parenthesis."""
        following = self._words[self._at + 1 :][:1]
        return self.sees("name") and following == [("sign", "(")]

    def take(self, *wanted: str) -> str:
        """Return the next word if it is one of these, or of one of these kinds, else nothing."""
        if not self.sees(*wanted):
            return ""
        self._at += 1
        return self._words[self._at - 1][1]

    def expect(self, *wanted: str, named: str = "") -> str:
        """Return the next word, which must be one of these, or of one of these kinds."""
        if not self.sees(*wanted):
            word = self._words[self._at][1]
            found = repr(word) if word else "the end of the text"
            quotes = "; text goes in quotes" if "text" in wanted and self.sees("name") else ""
            raise _Unreadable(f"expected {named or ' or '.join(wanted)}, found {found}{quotes}")
        return self.take(*wanted)

    def attribute(self, columns: Columns, *, named: str = "an attribute") -> AnyAttribute:
        """Return the attribute that the next word names."""
        return attribute_named(columns, self.expect("name", named=named).strip("`"))

    def sign(self) -> str:
        """Return the comparison that the next word stands for."""
        return _SIGNS[self.expect(*_SIGNS, named="a comparison such as = or <")]

    def constant(self) -> Level | float:
        """Return the number, text or truth value that comes next."""
        if sign := self.take("-", "+"):
            return float(sign + self.expect("number"))
        if word := self.take("number"):
            return float(word)
        if word := self.take("true", "false"):
            return word == "true"
        return self.expect("text", named="number or text or true or false")[1:-1]


def condition(text: str, columns: Columns) -> Predicate:
    """Read a condition on one row."""
    words = _Conditions(text, columns)
    found = words.any_of()
    words.expect("end")
    return found


class _Conditions(_Words):
    """Recursive descent: any_of > all_of > negation > comparison."""

    def __init__(self, text: str, columns: Columns) -> None:
        super().__init__(text)
        self._columns, self._depth = columns, 0

    def any_of(self) -> Predicate:
        return self._joined("or", self._all_of)

    def _all_of(self) -> Predicate:
        return self._joined("and", self._negation)

    def _joined(self, word: str, part: Callable[[], Predicate]) -> Predicate:
        parts = [part()]
        while self.take(word):
            parts.append(part())
        return parts[0] if len(parts) == 1 else Join(tuple(parts), all_of=word == "and")

    def _negation(self) -> Predicate:
        if self.take("not"):
            return Not(self._nested(self._negation))
        if self.take("("):
            inner = self._nested(self.any_of)
            self.expect(")")
            return inner
        return self._comparison()

    def _nested(self, part: Callable[[], Predicate]) -> Predicate:
        """Read what follows a ``not`` or an opening parenthesis."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _Unreadable(f"more than {_DEEPEST} conditions inside each other")
        inner = part()
        self._depth -= 1
        return inner

    def _comparison(self) -> Predicate:
        if not self.sees("name"):
            left, sign = self.constant(), self.sign()
            attribute = self.attribute(self._columns)
            first = compare(attribute, MIRRORED[sign], left)
            if not self.sees(*_SIGNS):
                return first
            return Join((first, compare(attribute, self.sign(), self.constant())), all_of=True)
        attribute = self.attribute(self._columns)
        negated = bool(self.take("not"))
        if not negated and not self.sees("in"):
            return compare(attribute, self.sign(), self.constant())
        self.expect("in")
        self.expect("(")
        values = [self.constant()]
        while self.take(","):
            values.append(self.constant())
        self.expect(")")
        sign = "!=" if negated else "=="
        return Join(tuple(compare(attribute, sign, v) for v in values), all_of=negated)


def compare(attribute: AnyAttribute, sign: str, value: Level | float) -> Compare:
    """Check a constant against the public domain and turn a level into its code."""
    if isinstance(attribute, Date):
        date = attribute.number(value) if isinstance(value, str) else None
        if date is None:
            like = attribute.shown(attribute.lower)
            raise _Unreadable(
                f"{attribute.name!r} is compared with a {attribute.kind} like {like!r}"
            )
        return Compare(attribute, sign, date)
    if isinstance(attribute, Numeric):
        if isinstance(value, (str, bool)):
            raise _Unreadable(f"{attribute.name!r} is numeric; compare it with a number")
        size = attribute.size_of_unit if isinstance(attribute, Difference) else 1.0
        return Compare(attribute, sign, float(value) * size)
    if isinstance(attribute, Categorical) and sign not in ("==", "!="):
        raise _Unreadable(f"{attribute.name!r} has no order; use =, != or in")
    wanted: Level | float = value
    if isinstance(value, float) and value.is_integer():
        wanted = (
            int(value) if isinstance(next(iter(attribute.levels), ""), int) else str(int(value))
        )
    for code, level in enumerate(attribute.levels):
        if type(level) is type(wanted) and level == wanted:
            return Compare(attribute, sign, float(code))
    raise _Unreadable(attribute.not_a_level(value))


def order(text: str, columns: Columns) -> list[tuple[AnyAttribute, str, AnyAttribute]]:
    """Read names with ``<=`` or ``<`` between them; return each two neighbours."""
    words = _Words(text, keywords=())
    found, signs = [words.attribute(columns)], list[str]()
    while not signs or not words.sees("end"):
        signs.append(words.expect("<=", "<", named="names with < or <= between them"))
        found.append(words.attribute(columns))
    return [(one, sign, two) for (one, two), sign in zip(pairwise(found), signs, strict=True)]


def equation(text: str, columns: Columns) -> tuple[dict[str, float], float]:
    """Read a linear equation, ``2 * a - b = c + 1``: the multiples on its left, and the number."""
    words, terms, constant = _Words(text, keywords=()), dict[str, float](), 0.0
    for side, end in ((1.0, "="), (-1.0, "end")):
        joined = "+"
        while joined:
            factor = side if joined == "+" else -side
            factor *= -1.0 if words.take("-") else 1.0
            number = words.take("number")
            if number and not words.take("*"):
                constant -= factor * float(number)
            else:
                name = words.attribute(columns, named="a number or an attribute").name
                terms[name] = terms.get(name, 0.0) + factor * float(number or 1)
            joined = words.take("+", "-")
        words.expect(end, named="+, - or one '='")
    return terms, constant


_YEARS: Final = "years"  # the only call in rules


def has_calls(text: str, columns: Columns) -> bool:
    """Whether an equation is written with a call rather than with multiples of attributes."""
    del columns
    return any(_Words(text, keywords=()).calls())


def years(text: str, columns: Columns) -> tuple[AnyAttribute, AnyAttribute, AnyAttribute]:
    """Read ``age = years(birth, interview)``: the number, the earlier date and the later one."""
    words = _Words(text, keywords=())
    if unknown := [name for name in words.calls() if name != _YEARS]:
        raise _Unreadable(f"the only call in rules is years(earlier, later), not {unknown[0]}()")
    dates = _years_between(words, columns)
    number = None if dates else words.attribute(columns)
    words.expect("=")
    if dates is None:
        dates = _years_between(words, columns)
    elif not words.at_call():
        number = words.attribute(columns)
    if number is None or dates is None or not words.sees("end"):
        raise _Unreadable("years(earlier, later) stands alone on its side, and one number opposite")
    return number, *dates


def _years_between(words: _Words, columns: Columns) -> tuple[AnyAttribute, AnyAttribute] | None:
    """Read the call of ``years``; None if something else comes next."""
    if not words.at_call():
        return None
    words.expect("name")
    words.expect("(")
    earlier = words.attribute(columns)
    words.expect(",")
    later = words.attribute(columns)
    words.expect(")")
    return earlier, later


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
        hint = _backticks_hint(text, schema.names) or f". It has {list(schema.names)}"
        hint += did_you_mean(unknown[0], schema.names)
        raise SchemaError(f"the schema has no attribute {unknown[0]!r}{hint}")
    return named


def parse_where(text: str | None, schema: Schema, *, named: str = "where") -> Predicate:
    """Parse a subpopulation."""
    if text is not None and not isinstance(text, str):
        raise ParameterError(f"{named}: a subpopulation is written as text")
    if text is None or not text.strip():
        return Join((), all_of=True)
    with reading(text, schema.names, lambda why: ParameterError(f"{named}: {why}")):
        return condition(text, schema.columns)
