"""Denial constraints: comparisons that never hold together, in one row or in two rows of a table.

The text is that of data-cleaning tools: ``t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)`` says that
no two rows have the same zip code and different cities. With one row only, or where only one of
the two is compared, it is a rule about single rows like any other. What is about two rows may hold
always, or mostly: then some pairs of rows violate it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from missdp.errors import MissDPError, ParameterError, SchemaError, replacing
from missdp.schema.attributes import Categorical, Level
from missdp.schema.bound import Bound, Comparison, Forbids
from missdp.schema.numeric import Numeric
from missdp.schema.predicates import MIRRORED, Predicate, compare_with
from missdp.schema.rules import Rule

if TYPE_CHECKING:
    from missdp.schema.schema import AnyAttribute, Schema


_SIGNS = {
    "EQ": "==", "IQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">=",
    "=": "==", "==": "==", "!=": "!=", "<>": "!=", "≠": "!=",
    "<": "<", "<=": "<=", "≤": "<=", ">": ">", ">=": ">=", "≥": ">=",
}  # fmt: skip
_SIDE = (
    r"""(?:t(?P<row{0}>[12])\.(?:`(?P<quoted{0}>[^`]+)`|(?P<name{0}>{1}))"""
    r"""|"(?P<double{0}>[^"]*)"|'(?P<single{0}>[^']*)'"""
    r"""|(?P<number{0}>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)(?![\w.]))"""
)
_IN_CALL, _INFIX = r"""[^`"'&(),]+""", r"""[^\s`"'&(),=<>!≠≤≥∧¬]+"""
_CALL = re.compile(
    rf"\s*(?P<sign>[A-Z]+)\s*\(\s*{_SIDE.format(1, _IN_CALL)}\s*,"
    rf"\s*{_SIDE.format(2, _IN_CALL)}\s*\)\s*"
)
_BETWEEN = re.compile(
    rf"\s*{_SIDE.format(1, _INFIX)}\s*(?P<sign>==|!=|<>|<=|>=|[=<>≠≤≥])"
    rf"\s*{_SIDE.format(2, _INFIX)}\s*"
)
_AND = re.compile(r"\s*(?:&&?|∧|and\b)\s*", re.IGNORECASE)
_ROWS = re.compile(r"\s*t1\s*(?P<two>&\s*t2\s*)?&")
_NOT = re.compile(r"\s*(?:not\b|¬|!)\s*\((?P<inside>.*)\)\s*", re.IGNORECASE | re.DOTALL)

_Side: TypeAlias = tuple[int, str] | str | float  # (row, attribute), or a constant
_Part: TypeAlias = tuple[_Side, str, _Side]
Single: TypeAlias = Predicate | Comparison
"""A comparison within one row: of an attribute with a constant, or of two attributes."""
Holds: TypeAlias = Literal["always", "mostly"]


@dataclass(frozen=True, eq=False)
class PairDenial:
    """A bound denial constraint about two rows, t1 and t2: what never holds together of them.

    Parameters
    ----------
    text : str
    between : tuple of (str, str, str)
        A sign, the attribute of t1 and the attribute of t2 that it compares.
    first, second : tuple of Predicate or (str, str, str)
        What is compared within t1 alone, and within t2 alone.
    holds : {"always", "mostly"}
        Whether no pair of rows violates it, or some pairs do.
    """

    text: str
    between: tuple[tuple[str, str, str], ...]
    first: tuple[Single, ...] = ()
    second: tuple[Single, ...] = ()
    holds: Holds = "always"

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it compares, each once, in the order of the text's comparisons."""
        found = [name for _, one, two in self.between for name in (one, two)]
        for part in (*self.first, *self.second):
            found += (part[0], part[2]) if isinstance(part, tuple) else sorted(part.names)
        return tuple(dict.fromkeys(found))

    @property
    def dependency(self) -> tuple[tuple[str, ...], str] | None:
        """What it says if it is a functional dependency: rows that agree on these agree on that."""
        equal = tuple(one for sign, one, two in self.between if sign == "==" and one == two)
        other = [one for sign, one, two in self.between if sign == "!=" and one == two]
        whole = len(equal) + 1 == len(self.between) and not self.first and not self.second
        return (equal, other[0]) if whole and equal and len(other) == 1 else None


@dataclass(frozen=True)
class Denial(Rule):
    """A denial constraint: comparisons that never hold together in one row, or in two rows.

    Parameters
    ----------
    constraint : str
        Such as ``"t1&EQ(t1.sex,'male')&EQ(t1.pregnant,'yes')"`` for one row or
        ``"t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"`` for two. The comparisons are EQ, IQ (not
        equal), LT, LTE, GT, GTE; a side may be a constant. ``"not(t1.zip = t2.zip and t1.city !=
        t2.city)"`` means the same. Names with other characters go in backticks.
    holds : {"always", "mostly"}, default "always"
        What is about two rows may hold mostly: some pairs of rows violate it. How many do is
        private, and is released before synthetic rows are made to violate it as often.

    Notes
    -----
    What is about single rows holds in every synthetic row, as any other rule. What is about two
    rows is not: it is at hand in ``schema.rulebook.pairs`` for families that can make rows obey it.

    Examples
    --------
    >>> Denial("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)").dependency
    (('zip',), 'city')
    >>> Denial("t1&LT(t1.age,18)&EQ(t1.licence,'yes')").is_about_pairs
    False
    """

    kind: ClassVar[str] = "denial"
    constraint: str
    holds: Holds = "always"

    def to_dict(self) -> dict[str, Any]:
        """Return the rule as JSON values; ``holds`` is left out where it is "always"."""
        found = super().to_dict()
        if self.holds == "always":  # as in files that were written before there was a choice
            del found["holds"]
        return found

    @property
    def text(self) -> str:
        """The rule in words."""
        return str(self.constraint)

    @cached_property
    def _parts(self) -> tuple[_Part, ...]:
        return tuple(_read(self))

    @property
    def is_about_pairs(self) -> bool:
        """Whether it compares two rows."""
        return len({side[0] for part in self._parts for side in _attributes(part)}) > 1

    @property
    def dependency(self) -> tuple[tuple[str, ...], str] | None:
        """What it says if it is a functional dependency: rows that agree on these agree on that."""
        between = tuple(
            (sign, one[1], two[1])
            for one, sign, two in self._parts
            if isinstance(one, tuple) and isinstance(two, tuple) and one[0] != two[0]
        )
        whole = len(between) == len(self._parts)
        return PairDenial(self.text, between).dependency if whole else None

    def about(self, schema: Schema) -> frozenset[str]:
        """Return the attributes that the rule is about."""
        del schema
        return frozenset(side[1] for part in self._parts for side in _attributes(part))

    def bound(self, schema: Schema) -> tuple[Bound, ...]:
        """Return what is forbidden within one row; nothing if two rows are compared."""
        if self.holds not in get_args(Holds):
            raise self._wrong(f"it holds 'always' or 'mostly', not {self.holds!r}")
        if self.is_about_pairs:
            self.pair(schema)
            return ()
        if self.holds == "mostly":
            raise self._wrong("only what is about two rows may hold 'mostly'")
        names = tuple(sorted(self.about(schema)))
        return (Forbids(self.text, names, tuple(self._single(schema, p) for p in self._parts)),)

    def pair(self, schema: Schema) -> PairDenial | None:
        """Return what is forbidden between two rows; None if only one is compared."""
        if not self.is_about_pairs:
            return None
        between: list[tuple[str, str, str]] = []
        alone: dict[int, list[Single]] = {1: [], 2: []}
        for one, sign, two in self._parts:
            if isinstance(one, tuple) and isinstance(two, tuple) and one[0] != two[0]:
                self._check_scales(schema, one[1], sign, two[1])
                mirrored = (MIRRORED[sign], two[1], one[1])
                between.append((sign, one[1], two[1]) if one[0] == 1 else mirrored)
            else:
                row = next(_attributes((one, sign, two)))[0]
                alone[row].append(self._single(schema, (one, sign, two)))
        return PairDenial(
            self.text, tuple(between), tuple(alone[1]), tuple(alone[2]), holds=self.holds
        )

    def _single(self, schema: Schema, part: _Part) -> Single:
        """Return a comparison within one row."""
        one, sign, two = part
        if not isinstance(one, tuple):
            one, sign, two = two, MIRRORED[sign], one
        assert isinstance(one, tuple)  # reading refuses two constants
        if not isinstance(two, tuple):
            return self._with_constant(self._attribute(schema, one[1]), sign, two)
        if one[1] == two[1]:
            raise self._wrong(f"it compares {one[1]!r} with itself in one row")
        self._check_scales(schema, one[1], sign, two[1])
        return (one[1], sign, two[1])

    def _with_constant(self, attribute: AnyAttribute, sign: str, value: Level | float) -> Predicate:
        def wrong(error: BaseException) -> MissDPError:
            return self._wrong(str(error))

        with replacing(ParameterError, by=wrong):
            return compare_with(attribute, sign, value)

    def _check_scales(self, schema: Schema, one: str, sign: str, two: str) -> None:
        """Refuse to compare what is not on one scale."""
        first, second = self._attribute(schema, one), self._attribute(schema, two)
        if isinstance(first, Numeric) or isinstance(second, Numeric):
            if type(first) is not type(second):
                raise self._wrong(f"{one!r} and {two!r} cannot be compared: only one is numeric")
            return
        if first.levels != second.levels:
            raise self._wrong(f"{one!r} and {two!r} cannot be compared: their levels differ")
        if sign not in ("==", "!=") and {type(first), type(second)} & {Categorical}:
            name = one if isinstance(first, Categorical) else two
            raise self._wrong(f"{name!r} has no order; make it ordinal, or use EQ and IQ")


def _attributes(part: _Part) -> Iterator[tuple[int, str]]:
    return (side for side in (part[0], part[2]) if isinstance(side, tuple))


def _read(rule: Denial) -> Iterator[_Part]:
    """Yield the comparisons of a denial constraint."""
    text, pattern, rows = rule.constraint, _CALL, None
    if not isinstance(text, str):
        raise rule._wrong("it is written as text")
    if negated := _NOT.fullmatch(text):
        text, pattern, at = negated["inside"], _BETWEEN, 0
    else:
        rows = _ROWS.match(text)
        if rows is None:
            raise rule._wrong("it must begin with t1& or t1&t2&, or be a not(...)")
        at = rows.end()
    while True:
        found = pattern.match(text, at)
        if found is None:
            raise rule._wrong(f"expected a comparison, found {text[at : at + 20].strip()!r}")
        if found["sign"] not in _SIGNS:
            raise rule._wrong(f"comparisons are EQ, IQ, LT, LTE, GT and GTE, not {found['sign']!r}")
        part = (_side(found, 1), _SIGNS[found["sign"]], _side(found, 2))
        if not any(_attributes(part)):
            raise rule._wrong("it compares two constants")
        if rows and not rows["two"] and any(row == 2 for row, _ in _attributes(part)):
            raise rule._wrong("it names t2, but begins with t1& alone")
        yield part
        if found.end() == len(text):
            return
        joined = _AND.match(text, found.end())
        if joined is None:
            raise rule._wrong(f"expected &, found {text[found.end() :][:20].strip()!r}")
        at = joined.end()


def _side(found: re.Match[str], place: int) -> _Side:
    """Return one side of a comparison: a row and its attribute, or a constant."""
    if row := found[f"row{place}"]:
        return int(row), found[f"quoted{place}"] or found[f"name{place}"].strip()
    if number := found[f"number{place}"]:
        return float(number)
    double: str | None = found[f"double{place}"]
    return double if double is not None else str(found[f"single{place}"])


def read_denials(path: str | Path, *, holds: Holds = "always") -> tuple[Denial, ...]:
    """Read denial constraints from a text file, one on each line; # begins a comment line.

    Parameters
    ----------
    path : str or Path
    holds : {"always", "mostly"}, default "always"
        What every one of them does.

    Raises
    ------
    SchemaError
        If the file cannot be read, or a line is no denial constraint.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "constraints.txt")
    ...     _ = path.write_text("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)")
    ...     read_denials(path)
    (Denial(constraint='t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)', holds='always'),)
    """

    def unreadable(error: BaseException) -> MissDPError:
        reason = getattr(error, "strerror", None) or "it is not a text file"
        return SchemaError(f"cannot read {str(path)!r}: {reason}")

    with replacing(OSError, ValueError, by=unreadable):
        lines = Path(path).read_text(encoding="utf-8-sig").splitlines()
    found = [
        Denial(line.strip(), holds) for line in lines if line.strip() and line.strip()[0] != "#"
    ]
    for denial in found:
        _ = denial.is_about_pairs  # refused now, if it cannot be read
    return tuple(found)
