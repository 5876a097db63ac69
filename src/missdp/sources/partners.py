"""Pairs of rows that violate a denial constraint: how many each row is in, and how many there are.

Numbers are compared as they are, everything else by its code. A pair of rows of which a compared
cell is missing or not applicable does not violate anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
from missdp.inference.dominance import MOST_DIFFERENT, related
from missdp.schema import Numeric, PairDenial, Schema
from missdp.schema.conditions import MIRRORED, OPERATORS, Predicate
from missdp.table import Table
from missdp.types import Flags, Ints

# A comparison as the orders that it allows: below, equal, above.
_ALLOWS = {
    "==": {0}, "!=": {-1, 1}, "<": {-1}, "<=": {-1, 0}, ">": {1}, ">=": {0, 1},
}  # fmt: skip
_SIGN = {frozenset(allowed): sign for sign, allowed in _ALLOWS.items()}


def violating_partners(
    denial: PairDenial,
    rows: Table,
    among: Table | None = None,
    *,
    ranks: NDArray[np.integer] | None = None,
) -> Ints:
    """Count for each row the rows with which it violates a denial constraint."""
    check_countable(denial)
    ours = _Sides(denial, rows, ranks)
    theirs = ours if among is None else _Sides(denial, among)
    as_first = _count(denial, ours, theirs, roles=(True, False))
    alone: Ints | int = 0  # a row is no partner of its own, and has no lower rank than its own
    if among is None and ranks is None:
        alone = _holds_within(denial, ours).astype(np.int64)
    if _is_symmetric(denial):
        return as_first - alone
    as_second = _count(denial, ours, theirs, roles=(False, True))
    return as_first + as_second - _count(denial, ours, theirs, roles=(True, True)) - alone


def violates_itself(denial: PairDenial, rows: Table) -> Flags:
    """Tell which rows would violate a denial constraint together with a copy of themselves."""
    return _holds_within(denial, _Sides(denial, rows))


def violating_pairs(denial: PairDenial, rows: Table) -> int:
    """Count the pairs of rows, in no order, that violate a denial constraint."""
    return int(violating_partners(denial, rows).sum()) // 2


def check_countable(denial: PairDenial) -> None:
    """Refuse a constraint whose violations take too long to count, whatever the rows are."""
    different = sum(sign == "!=" for sign, _, _ in denial.between)
    if 2 * different > MOST_DIFFERENT:  # both rows may be t1, so they count twice
        raise ParameterError(
            f"at most {MOST_DIFFERENT // 2} comparisons between two rows may be 'not equal', each "
            f"of which doubles the time: {denial.text}"
        )


def check_comparable(denial: PairDenial, schema: Schema, valued: Collection[str]) -> None:
    """Refuse a table that holds only bins of a number that is compared; public facts tell."""
    for name in denial.names:
        if isinstance(schema[name], Numeric) and name not in valued:
            raise DataError(f"attribute {name!r} has no numeric values in this table")


def observed_on(names: Iterable[str], rows: Table) -> Flags:
    """Tell which rows have a value of each of these attributes."""
    lacking = np.zeros(len(rows), dtype=bool)
    for name in names:
        lacking |= rows.mask(name)
    return ~lacking


class _Sides:
    """Which rows may be the first and which the second of a pair that violates a constraint."""

    def __init__(
        self, denial: PairDenial, rows: Table, ranks: NDArray[np.integer] | None = None
    ) -> None:
        self._rows, self._cells, self.ranks = rows, dict[str, NDArray[Any]](), ranks
        #: Which rows may be t1: what is compared of them is there, and holds within them.
        self.first = self._can_be([one for _, one, _ in denial.between], denial.first)
        #: Which rows may be t2.
        self.second = self._can_be([two for _, _, two in denial.between], denial.second)

    def cells(self, name: str) -> NDArray[Any]:
        """Values of a numeric attribute, or codes."""
        if name not in self._cells:
            numeric = isinstance(self._rows.schema[name], Numeric)
            codes = self._rows.codes(name)
            self._cells[name] = self._rows.values(name) if numeric else codes.astype(np.int64)
        return self._cells[name]

    def _can_be(self, compared: list[str], within: tuple[Predicate, ...]) -> Flags:
        found = observed_on(compared, self._rows)
        for part in within:
            found &= part.select(self._rows)
        return found


def _backward(denial: PairDenial) -> list[tuple[str, str, str]]:
    """Return what holds of the rows if the first one is t2: a sign, its attribute, the other's."""
    return [(MIRRORED[sign], two, one) for sign, one, two in denial.between]


def _is_symmetric(denial: PairDenial) -> bool:
    """Whether it is the same which of the two rows is t1."""
    same = _merged(denial.between) == _merged(_backward(denial))
    return same and {*denial.first} == {*denial.second}


def _holds_within(denial: PairDenial, rows: _Sides) -> Flags:
    """Tell in which rows all comparisons hold between the row and itself."""
    found = rows.first & rows.second
    for sign, one, two in denial.between:
        found &= OPERATORS[sign](rows.cells(one), rows.cells(two))
    return found


def _count(denial: PairDenial, ours: _Sides, theirs: _Sides, roles: tuple[bool, bool]) -> Ints:
    """Count for each of our rows those of theirs with which it violates the constraint."""
    is_first, is_second = roles
    mine = (ours.first | (not is_first)) & (ours.second | (not is_second))
    others = (theirs.second | (not is_first)) & (theirs.first | (not is_second))
    compared = [*denial.between] if is_first else []
    allowed = _merged(compared + _backward(denial) if is_second else compared)
    found = np.zeros(len(mine), dtype=np.int64)
    if all(allowed.values()) and mine.any() and others.any():
        queries = [ours.cells(one)[mine] for one, _ in allowed]
        points = [theirs.cells(two)[others] for _, two in allowed]
        signs = [_SIGN[orders] for orders in allowed.values()]
        if ours.ranks is not None:
            queries, points = [*queries, ours.ranks[mine]], [*points, ours.ranks[others]]
            signs.append(">")
        found[mine] = related(points, queries, signs)
    return found


def _merged(
    compared: Iterable[tuple[str, str, str]],
) -> Mapping[tuple[str, str], frozenset[int]]:
    """Return the orders that are allowed between two attributes, all comparisons taken together."""
    found: dict[tuple[str, str], frozenset[int]] = {}
    for sign, one, two in compared:
        known = found.get((one, two), frozenset({-1, 0, 1}))
        found[one, two] = known & frozenset(_ALLOWS[sign])
    return found
