"""Rules looked up by hand: one row after the other, one cell after the other.

Slow, and written apart from what the package computes rules with, so that either can be wrong
without the other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.bound import Bound, Comparison, Derives, Routes
from missdp.schema.predicates import OPERATORS, Compare, Join, Not, Predicate
from missdp.table import Table

__all__ = ["ABSENT", "HOLE", "broken_by_hand", "rows_by_hand"]

HOLE: Literal["hole"] = "hole"
ABSENT: Literal["not applicable"] = "not applicable"
Cell: TypeAlias = float | str
Row: TypeAlias = Mapping[str, Cell]


def rows_by_hand(table: Table) -> Iterator[dict[str, Cell]]:
    """Yield each row: the number or the code of each cell, ``HOLE`` or ``ABSENT``."""
    columns = {}
    for attribute in table.schema:
        name = attribute.name
        numeric = isinstance(attribute, Numeric)
        values = (table.values(name) if numeric else table.codes(name)).tolist()
        codes = table.codes(name).tolist()
        columns[name] = [_cell(attribute, *cell) for cell in zip(codes, values, strict=True)]
    for cells in zip(*columns.values(), strict=True):
        yield dict(zip(columns, cells, strict=True))


def _cell(attribute: AnyAttribute, code: int, value: float) -> Cell:
    if code < attribute.size:
        return float(value)
    return HOLE if code >= attribute.missing_code else ABSENT


def broken_by_hand(schema: Schema, row: Row) -> list[str]:
    """Return the rules that a row breaks, in words; a hole may be anything.

    What follows must be there if all that it follows from is, a hole if that has one.

    Examples
    --------
    >>> from missdp.schema import Categorical, NotApplicable
    >>> work = Categorical(name="work", levels=("no", "yes"))
    >>> hours = Categorical(name="hours", levels=("few", "many"))
    >>> schema = Schema((work, hours), (NotApplicable(("hours",), unless="work = 'yes'"),))
    >>> broken_by_hand(schema, {"work": 0.0, "hours": 1.0})
    ["hours is not applicable unless work = 'yes'"]
    >>> broken_by_hand(schema, {"work": 0.0, "hours": ABSENT})
    []
    """
    return [rule.text for rule in schema.rulebook.bound if _breaks(rule, row)]


def _breaks(rule: Bound, row: Row) -> bool:
    if isinstance(rule, Derives):
        return _does_not_follow(rule, row)
    if isinstance(rule, Routes):
        applies, absent = _holds(rule.unless, row), row[rule.target] == ABSENT
        return applies is not None and applies == absent
    return all(_holds(part, row) is True for part in rule.together)


def _does_not_follow(rule: Derives, row: Row) -> bool:
    given, found = [row[name] for name in rule.by], row[rule.target.name]
    if ABSENT in given or HOLE in given:
        return found != (ABSENT if ABSENT in given else HOLE)
    numbers = [float(cell) for cell in given]
    if rule.lookup is not None:
        wanted = float(rule.lookup[tuple(map(int, numbers))])
    else:
        wanted = rule.start + sum(t * v for t, v in zip(rule.terms, numbers, strict=True))
    near = isinstance(found, float) and math.isclose(found, wanted, rel_tol=1e-9, abs_tol=1e-9)
    return not near


def _holds(what: Predicate | Comparison, row: Row) -> bool | None:
    """Whether a condition holds; None if that depends on a hole."""
    if isinstance(what, tuple):
        one, sign, two = what
        return _compared(row[one], sign, row[two])
    if isinstance(what, Compare):
        return _compared(row[what.attribute.name], what.sign, what.value)
    if isinstance(what, Not):
        inner = _holds(what.part, row)
        return None if inner is None else not inner
    if isinstance(what, Join):
        parts = [_holds(part, row) for part in what.parts]
        decisive = not what.all_of
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    return True


def _compared(one: Any, sign: str, two: Any) -> bool | None:
    if ABSENT in (one, two):
        return False
    return None if HOLE in (one, two) else bool(OPERATORS[sign](one, two))
