"""Rules looked up by hand: one row after the other, one cell after the other.

Slow, and independent of the package's own evaluation of rules, so that either can be wrong without
the other.
"""

import math

from missdp.schema import Numeric
from missdp.schema.bound_rules import Derived, Routing
from missdp.schema.logic import OPERATORS, Comparison, Junction, Not

HOLE, ABSENT = "hole", "not applicable"


def rows_by_hand(table):
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


def _cell(attribute, code, value):
    if code < attribute.size:
        return float(value)
    return HOLE if code >= attribute.missing_code else ABSENT


def broken_by_hand(schema, row):
    """Return the rules that a row breaks, in words. A missing cell may be anything.

    A derived cell must have a value if all its sources have one, and must be missing if one is
    missing.
    """
    return [rule.text for rule in schema.rule_set.bound if _breaks(rule, row)]


def _breaks(rule, row):
    if isinstance(rule, Derived):
        return _does_not_follow(rule, row)
    if isinstance(rule, Routing):
        applies, absent = _holds(rule.unless, row), row[rule.target.name] == ABSENT
        return applies is not None and applies == absent
    return _holds(rule.condition, row) is True


def _does_not_follow(rule, row):
    conditions, result = [row[name] for name in rule.by], row[rule.target.name]
    if ABSENT in conditions or HOLE in conditions:
        return result != (ABSENT if ABSENT in conditions else HOLE)
    numbers = [float(cell) for cell in conditions]
    if rule.lookup is not None:
        expected = float(rule.lookup[tuple(map(int, numbers))])
    else:
        expected = rule.start + sum(t * v for t, v in zip(rule.terms, numbers, strict=True))
    near = isinstance(result, float) and math.isclose(result, expected, rel_tol=1e-9, abs_tol=1e-9)
    return not near


def _holds(what, row):
    """Whether a condition holds. None if that depends on a missing cell."""
    if isinstance(what, Comparison):
        two = what.right if isinstance(what.right, float) else row[what.right.name]
        return _compared(row[what.left.name], what.operator, two)
    if isinstance(what, Not):
        inner = _holds(what.part, row)
        return None if inner is None else not inner
    if isinstance(what, Junction):
        parts = [_holds(part, row) for part in what.parts]
        decisive = not what.all_of
        if decisive in parts:
            return decisive
        return None if None in parts else not decisive
    return True


def _compared(one, sign, two):
    if ABSENT in (one, two):
        return False
    return None if HOLE in (one, two) else bool(OPERATORS[sign](one, two))
