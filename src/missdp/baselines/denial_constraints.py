"""Denial constraints: comparisons that never hold together between two rows of a table.

The text is the one of data-cleaning tools. ``t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)`` states
that no two rows have the same zip code and different cities (Ge et al. 2021).

Conflicts are counted without comparing every pair of rows. Equal attributes become one key. One
order is a binary search among the rows of a key. Each additional order splits rows by the bits of
one rank (Bentley 1980). Each bit that is set in a threshold stands for one block of ranks below it,
which agree above this bit. "Different" is the count of all rows less the equal ones.
For ``n`` rows and ``d`` orders the time grows as ``n log(n)^max(1, d)``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from missdp.errors import ParameterError, did_you_mean
from missdp.schema import Numeric, Schema
from missdp.schema.expressions import are_comparable, parse_where
from missdp.schema.logic import MIRRORED, OPERATORS, Comparison, Predicate
from missdp.schema.numeric import AnyAttribute
from missdp.table import Table
from missdp.types import Flags, Floats, Ints

Constraints: TypeAlias = str | Sequence[str]
"""Written denial constraints: a list of texts, or one text with ; or line breaks."""

MAX_DIFFERENT = 6  # comparisons by IQ in one constraint, each of which doubles the time
_SIGNS = {"EQ": "==", "IQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_BEGIN = re.compile(r"\s*t1\s*&\s*t2\s*&")
_NAME = r"""`[^`]+`|[^`"'&(),\s](?:[^`"'&(),]*[^`"'&(),\s])?"""
_SIDE = rf"""\s*(?:(t[12])\.({_NAME})|("[^"]*"|'[^']*'|[-+\w.]+))\s*"""
_COMPARISON = re.compile(rf"\s*([A-Z]+)\({_SIDE},{_SIDE}\)\s*(?:&(?=\s*\S)|$)")


# A row and its attribute, or a constant.
_Side: TypeAlias = Sequence[str | None]


@dataclass(frozen=True, eq=False)
class DenialConstraint:
    """Comparisons that never hold together between two rows, t1 and t2.

    Parameters
    ----------
    text : str
        The written constraint.
    between : tuple of (str, str, str)
        A sign, the attribute of t1 and the attribute of t2 that it compares.
    first, second : tuple of Predicate
        Comparisons within t1, and within t2.
    """

    text: str
    between: tuple[tuple[str, str, str], ...]
    first: tuple[Predicate, ...] = ()
    second: tuple[Predicate, ...] = ()

    @property
    def dependency(self) -> tuple[tuple[str, ...], str] | None:
        """Determining attributes and the determined one of a functional dependency, else None."""
        equal = tuple(one for sign, one, _ in self.between if sign == "==")
        different = [one for sign, one, _ in self.between if sign == "!="]
        plain = self._compares_alike and len(equal) + len(different) == len(self.between)
        return (equal, different[0]) if plain and equal and len(different) == 1 else None

    @property
    def order(self) -> tuple[tuple[str, ...], str, str, bool] | None:
        """Groups and two attributes that rise together (True) or oppositely (False) in each."""
        equal = tuple(one for sign, one, _ in self.between if sign == "==")
        orders = [(sign, one) for sign, one, _ in self.between if sign in ("<", ">")]
        names = {*equal, *(name for _, name in orders)}
        plain = self._compares_alike and len(equal) + len(orders) == len(self.between) == len(names)
        if not plain or len(orders) != 2:
            return None
        (sign, one), (other, two) = orders
        return equal, one, two, sign != other

    @property
    def _compares_alike(self) -> bool:
        """Whether each comparison is between one attribute of t1 and the same attribute of t2."""
        return not (self.first or self.second) and all(one == two for _, one, two in self.between)


def constraint_texts(constraints: Constraints) -> tuple[str, ...]:
    """Return the texts of constraints, as they are saved with a model.

    Parameters
    ----------
    constraints : str or sequence of str
        In one text, constraints stand between semicolons or on lines. A line that begins with #
        is a comment. Use a list if a name or a constant has a semicolon.

    Returns
    -------
    tuple of str
        Public.

    Raises
    ------
    ParameterError
        If it is neither text nor a list of texts.

    Examples
    --------
    >>> from missdp.baselines.denial_constraints import constraint_texts
    >>> constraint_texts("t1&t2&EQ(t1.id,t2.id); t1&t2&EQ(t1.key,t2.key)")
    ('t1&t2&EQ(t1.id,t2.id)', 't1&t2&EQ(t1.key,t2.key)')
    """
    parts = re.split(r"[;\n]", constraints) if isinstance(constraints, str) else constraints
    if not (isinstance(parts, list | tuple) and all(isinstance(text, str) for text in parts)):
        raise ParameterError(
            "constraints must be a list of texts, such as "
            "['t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)'], or one text with a constraint on "
            "each line."
        )
    texts = (text.strip() for text in parts)
    return tuple(text for text in texts if text and not text.startswith("#"))


def read_constraints(constraints: Constraints, schema: Schema) -> tuple[DenialConstraint, ...]:
    """Return parsed constraints, checked against the attributes of a schema.

    Parameters
    ----------
    constraints : str or sequence of str
        The written constraints.
    schema : Schema
        Public facts about the attributes that they compare.

    Returns
    -------
    tuple of DenialConstraint
        Public.

    Raises
    ------
    ParameterError
        If a constraint cannot be read, names an attribute that the schema lacks, or compares
        values of different kinds. The message quotes the constraint and the comparison.

    Examples
    --------
    >>> from missdp.baselines.denial_constraints import read_constraints
    >>> from missdp import Categorical, Schema
    >>> schema = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in ("zip", "city")))
    >>> (constraint,) = read_constraints("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)", schema)
    >>> constraint.dependency
    (('zip',), 'city')
    """
    return tuple(_Reader(text, schema).read() for text in constraint_texts(constraints))


class _Reader:
    """Parser of the comparisons of one constraint."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.text, self.schema, self.part = text, schema, ""
        self.between: list[tuple[str, str, str]] = []
        self.within: dict[str, list[Predicate]] = {"t1": [], "t2": []}

    def read(self) -> DenialConstraint:
        """Return the constraint."""
        begin = _BEGIN.match(self.text)
        at = begin.end() if begin else 0
        rows: set[str] = set()
        while begin and at < len(self.text):
            match = _COMPARISON.match(self.text, at)
            self.part = self.text[at:].strip() if match is None else match[0].strip("& ")
            if match is None or match[1] not in _SIGNS:
                raise self._error(
                    "write comparisons as EQ(t1.a,t2.b), with EQ, IQ, LT, LTE, GT or GTE"
                )
            self._add(_SIGNS[match[1]], match.groups()[1:4], match.groups()[4:])
            rows |= {match[2], match[5]}
            at = match.end()
        self.part = ""
        if not rows >= {"t1", "t2"}:
            raise self._error(
                "it must begin with t1&t2& and compare both rows. Write one constraint in each "
                "text, and state facts about single rows as rules of the schema"
            )
        if sum(sign == "!=" for sign, _, _ in self.between) > MAX_DIFFERENT:
            raise self._error(f"at most {MAX_DIFFERENT} comparisons may be IQ. Leave some out")
        first, second = map(tuple, self.within.values())
        return DenialConstraint(self.text, tuple(self.between), first, second)

    def _add(self, sign: str, one: _Side, other: _Side) -> None:
        """Add a comparison, with t1 on the left and a constant on the right."""
        if one[0] is None or (one[0], other[0]) == ("t2", "t1"):
            one, sign, other = other, MIRRORED[sign], one
        (row, name, _), (other_row, other_name, constant) = one, other
        if row is None:
            raise self._error("it compares two constants. Write t1.a or t2.a on one side")
        attribute = self._attribute(name)
        if other_row is None:
            place = f"constraint {self.text!r}, at {self.part!r}"
            condition = f"`{attribute.name}` {sign} {constant}"
            self.within[row].append(parse_where(condition, self.schema, named=place))
            return
        second_attribute = self._attribute(other_name)
        if not are_comparable(attribute, sign, second_attribute):
            if attribute is second_attribute:
                raise self._error(
                    f"{attribute.name!r} has no order. Compare it by EQ or IQ, or declare its "
                    "levels ordinal"
                )
            raise self._error(
                f"{attribute.name!r} and {second_attribute.name!r} differ in kind, unit or levels. "
                "Compare numbers of one unit, and attributes with the same levels"
            )
        if row == other_row:
            self.within[row].append(Comparison(attribute, sign, second_attribute))
        else:
            self.between.append((sign, attribute.name, second_attribute.name))

    def _attribute(self, name: str | None) -> AnyAttribute:
        name = str(name).strip().strip("`")
        if name not in self.schema:
            proposal = did_you_mean(name, self.schema.names)
            raise self._error(f"the schema has no attribute {name!r}{proposal}")
        return self.schema[name]

    def _error(self, why: str) -> ParameterError:
        place = f", at {self.part!r}" if self.part else ""
        return ParameterError(f"constraint {self.text!r}{place}: {why}")


def count_conflicts(
    constraint: DenialConstraint,
    rows: Table,
    others: Table | None = None,
    *,
    ranks: Ints | None = None,
) -> Ints:
    """Count for each synthetic row the ordered pairs (t1, t2) with it that violate a constraint.

    Rows in which a compared cell is missing or not applicable violate nothing.

    Parameters
    ----------
    constraint : DenialConstraint
        The constraint.
    rows : Table
        Synthetic rows.
    others : Table, optional
        Synthetic rows that they are paired with, by default the other rows of the same table.
    ranks : ndarray of shape (n_rows,), optional
        If given, a row is paired only with the rows of a lower rank. Not with ``others``.

    Returns
    -------
    ndarray of shape (n_rows,)
        0 where the row violates the constraint with no other row.
    """
    counts = np.zeros(len(rows), dtype=np.int64)
    mirrored = [(MIRRORED[sign], two, one) for sign, one, two in constraint.between]
    forward = (constraint.between, constraint.first, constraint.second)
    backward = (mirrored, constraint.second, constraint.first)
    for between, first, second in (forward, backward):
        ours = _satisfying([one for _, one, _ in between], first, rows)
        partners = rows if others is None else others
        among = _satisfying([two for _, _, two in between], second, partners)
        related = [
            (sign, cells_of(rows, one)[ours], cells_of(partners, two)[among])
            for sign, one, two in between
        ]
        if ranks is not None:
            related.append((">", ranks[ours], ranks[among]))
        keys = np.zeros(ours.size, dtype=np.int64), np.zeros(among.size, dtype=np.int64)
        counts[ours] += _count_related(keys, [_ranked(*each) for each in related])
    if others is None and ranks is None:
        counts -= 2 * violates_itself(constraint, rows)
    return counts


def violates_itself(constraint: DenialConstraint, rows: Table) -> Flags:
    """Return flags of rows that violate a constraint together with a copy of themselves."""
    names = [name for _, one, two in constraint.between for name in (one, two)]
    flags = np.zeros(len(rows), dtype=bool)
    flags[_satisfying(names, (*constraint.first, *constraint.second), rows)] = True
    for sign, one, two in constraint.between:
        flags &= OPERATORS[sign](cells_of(rows, one), cells_of(rows, two))
    return flags


def _satisfying(names: Sequence[str], conditions: Sequence[Predicate], rows: Table) -> Ints:
    """Return the positions of the rows with a value of each attribute that meet all conditions."""
    flags = ~np.any([np.zeros(len(rows), dtype=bool), *map(rows.mask, names)], axis=0)
    for condition in conditions:
        flags &= condition.select(rows)
    return np.flatnonzero(flags)


def cells_of(rows: Table, name: str) -> Floats | Ints:
    """Return the values of a numeric attribute, or the codes of another one."""
    numeric = isinstance(rows.schema[name], Numeric)
    return rows.values(name) if numeric else rows.codes(name).astype(np.int64)


# A sign, and the ranks of queries and of points among all values of both.
_Related: TypeAlias = tuple[str, Ints, Ints]


def _ranked(sign: str, queries: Floats | Ints, points: Floats | Ints) -> _Related:
    """Return a comparison of ranks for a comparison of values."""
    ranks = np.unique(np.concatenate([queries, points]), return_inverse=True)[1]
    return sign, ranks[: len(queries)], ranks[len(queries) :]


def _count_related(keys: tuple[Ints, Ints], related: Sequence[_Related]) -> Ints:
    """Count for each query the points of its key to which all comparisons relate it."""
    for k, (sign, queries, points) in enumerate(related):
        rest = [*related[:k], *related[k + 1 :]]
        if sign == "==":
            return _count_related(_joined(keys, queries, points), rest)
        if sign == "!=":
            equal = _joined(keys, queries, points)
            return _count_related(keys, rest) - _count_related(equal, rest)
    thresholds = []
    for sign, queries, points in related:
        if sign in ("<", "<="):  # mirrored, so that a query counts the points below it
            top = max(queries.max(initial=0), points.max(initial=0))
            queries, points = top - queries, top - points
        thresholds.append((queries + (sign in ("<=", ">=")), points))
    return _count_below(keys, sorted(thresholds, key=lambda each: int(each[1].max(initial=0))))


def _count_below(keys: tuple[Ints, Ints], thresholds: Sequence[tuple[Ints, Ints]]) -> Ints:
    """Count for each query the points of its key whose ranks are below all its thresholds."""
    queries, points = keys
    if not thresholds:
        return np.bincount(points, minlength=int(queries.max(initial=0)) + 1)[queries]
    (below, ranks), *rest = thresholds
    size = 1 + int(max(below.max(initial=0), ranks.max(initial=0)))
    if not rest:
        line = np.sort(points * size + ranks)
        start = np.searchsorted(line, queries * size)
        return np.searchsorted(line, queries * size + below) - start
    counts = np.zeros(len(queries), dtype=np.int64)
    for bit in range(size.bit_length()):
        requested = np.flatnonzero((below >> bit) & 1)
        inside = np.flatnonzero((ranks >> bit) & 1 == 0)
        block = _joined(
            (queries[requested], points[inside]),
            (below[requested] >> bit) - 1,
            ranks[inside] >> bit,
        )
        counts[requested] += _count_below(block, [(b[requested], r[inside]) for b, r in rest])
    return counts


def _joined(keys: tuple[Ints, Ints], queries: Ints, points: Ints) -> tuple[Ints, Ints]:
    """Return keys, numbered from 0, that are equal where keys and ranks are."""
    size = 1 + max(int(queries.max(initial=0)), int(points.max(initial=0)))
    both = np.concatenate([keys[0] * size + queries, keys[1] * size + points])
    numbers = np.unique(both, return_inverse=True)[1]
    return numbers[: len(queries)], numbers[len(queries) :]
