"""Pairs of rows that violate a denial constraint: how many each row is in, and how many there are.

Numbers are compared as they are, everything else by its code. A pair of rows of which a compared
cell is missing or not applicable does not violate anything.

A relation compares each coordinate of a query with the same coordinate of a point: equal,
different, below, above. All points are counted for all queries at once; no pair is looked at. With
no order, equal coordinates become one key, and points are counted by key. One order is a binary
search among the points of a key. Two are a wavelet matrix: points lie in the order of one
coordinate, and the bits of the other one are looked up from the highest on, with as many steps as
it has bits (Claude, Navarro and Ordóñez 2015). Each further order splits the points by the bits of
one coordinate: what lies below a threshold is, for each bit of the threshold that is set, one block
of values that agree above that bit (Bentley 1980). "Different" is all less equal. So ``d`` orders
on ``n`` points take time that grows as ``n log(n)^max(1, d - 1)``; each "different" doubles it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
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
        found[mine] = _related(points, queries, signs)
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


Column: TypeAlias = NDArray[Any]

MOST_DIFFERENT = 10
"""Most coordinates that may be asked to be different, each of which doubles the time."""

_ORDERS = {"<", "<=", ">", ">="}


def _related(points: Sequence[Column], queries: Sequence[Column], signs: Sequence[str]) -> Ints:
    """Return for each query the number of points that it is in the relation to."""
    if unknown := {*signs} - {"==", "!=", *_ORDERS}:
        raise ParameterError(f"coordinates cannot be compared by {sorted(unknown)}")
    if not len(points) == len(queries) == len(signs) > 0:
        raise ParameterError("each coordinate needs points, queries and a sign, and there is one")
    if sum(sign == "!=" for sign in signs) > MOST_DIFFERENT:
        raise ParameterError(
            f"at most {MOST_DIFFERENT} comparisons may be 'not equal', each of which doubles the "
            "time"
        )
    n, m = len(points[0]), len(queries[0])
    if not n or not m:
        return np.zeros(m, dtype=np.int64)
    each = list(zip(points, queries, signs, strict=True))
    orders = [_order(*given) for given in each if given[2] in _ORDERS]
    keys = _Keys(np.zeros(n, dtype=np.int64), np.zeros(m, dtype=np.int64), 1)
    for one, two, sign in each:
        if sign == "==":
            keys = keys.with_equal(one, two)
    return _unequal(keys, [(one, two) for one, two, sign in each if sign == "!="], orders)


@dataclass(frozen=True, eq=False)
class _Keys:
    """Keys, below ``size``, of points and of queries that must be the same; -1: none."""

    points: Ints
    queries: Ints
    size: int

    def with_equal(self, points: Column, queries: Column) -> _Keys:
        """Return keys of which one more coordinate is a part."""
        values, codes = np.unique(points, return_inverse=True)
        place = np.minimum(np.searchsorted(values, queries), len(values) - 1)
        both = place + len(values) * self.queries
        same = (values[place] == queries) & (self.queries >= 0)
        return _Keys.of(codes + len(values) * self.points, np.where(same, both, -1))

    @classmethod
    def of(cls, points: Ints, queries: Ints) -> _Keys:
        """Return keys, numbered from 0, of any whole numbers of at least 0."""
        values, codes = np.unique(points, return_inverse=True)
        place = np.minimum(np.searchsorted(values, queries), len(values) - 1)
        return cls(codes, np.where(values[place] == queries, place, -1), len(values))


@dataclass(frozen=True, eq=False)
class _Order:
    """A coordinate of which a query has the points whose ranks are below a threshold."""

    ranks: Ints
    below: Ints
    size: int

    def take(self, points: NDArray[Any], queries: NDArray[Any]) -> _Order:
        """Return the coordinate of some points and queries."""
        return _Order(self.ranks[points], self.below[queries], self.size)


def _order(points: Column, queries: Column, sign: str) -> _Order:
    """Return a comparison by order as one with a threshold."""
    values, ranks = np.unique(points, return_inverse=True)
    size = len(values)
    if sign in (">", ">="):
        side = "left" if sign == ">" else "right"
        return _Order(ranks, np.searchsorted(values, queries, side=side), size)  # type: ignore[call-overload]
    side = "right" if sign == "<" else "left"
    above = np.searchsorted(values, queries, side=side)  # type: ignore[call-overload]
    return _Order(size - 1 - ranks, size - above, size)


def _unequal(keys: _Keys, different: list[tuple[Column, Column]], orders: list[_Order]) -> Ints:
    """Count where coordinates are different: all, less those where they are equal."""
    if not different:
        return _below(keys, orders)
    (points, queries), *rest = different
    return _unequal(keys, rest, orders) - _unequal(keys.with_equal(points, queries), rest, orders)


def _below(keys: _Keys, orders: list[_Order]) -> Ints:
    """Count the points of a query's key that lie below all its thresholds."""
    found = np.zeros(len(keys.queries), dtype=np.int64)
    possible = keys.queries >= 0
    for order in orders:
        possible &= order.below > 0
    asked = np.flatnonzero(possible)
    if asked.size:
        everyone = np.arange(len(keys.points))
        narrow = sorted((o.take(everyone, asked) for o in orders), key=lambda o: o.size)
        found[asked] = _counted(_Keys(keys.points, keys.queries[asked], keys.size), narrow)
    return found


def _counted(keys: _Keys, orders: list[_Order]) -> Ints:
    """Count by the method that fits the number of orders, the narrowest of which comes first."""
    if not orders:
        return np.bincount(keys.points, minlength=keys.size)[keys.queries]
    if len(orders) > 2:
        return _split(keys, orders[0], orders[1:])
    wide = orders[-1]
    placed = keys.points * wide.size + wide.ranks
    line = np.argsort(placed, kind="stable")
    first = np.searchsorted(keys.points[line], keys.queries)
    last = np.searchsorted(placed[line], keys.queries * wide.size + wide.below)
    if len(orders) == 1:
        return np.asarray(last - first)
    return _smaller(orders[0].ranks[line], first, last, orders[0].below)


def _smaller(numbers: Ints, first: Ints, last: Ints, below: Ints) -> Ints:
    """Count the numbers below a threshold at the places from ``first`` to before ``last``."""
    found = np.zeros(len(below), dtype=np.int64)
    top = max(int(numbers.max()), int(below.max())).bit_length()
    for bit in range(top - 1, -1, -1):
        high = (numbers >> bit) & 1 == 1
        zeros = np.concatenate([[0], np.cumsum(~high)])  # before each place
        low_first, low_last = zeros[first], zeros[last]
        up = (below >> bit) & 1 == 1
        found += np.where(up, low_last - low_first, 0)
        first = np.where(up, zeros[-1] + first - low_first, low_first)
        last = np.where(up, zeros[-1] + last - low_last, low_last)
        numbers = np.concatenate([numbers[~high], numbers[high]])
    return found


def _split(keys: _Keys, order: _Order, orders: list[_Order]) -> Ints:
    """Count with one order fewer, among the points of each block of values below a threshold."""
    found = np.zeros(len(keys.queries), dtype=np.int64)
    for bit in range(order.size.bit_length()):
        points = np.flatnonzero((order.ranks >> bit) & 1 == 0)
        queries = np.flatnonzero((order.below >> bit) & 1 == 1)
        if not points.size or not queries.size:
            continue
        many = order.size + 1
        blocks = _Keys.of(
            keys.points[points] * many + (order.ranks[points] >> bit),
            keys.queries[queries] * many + (order.below[queries] >> bit) - 1,
        )
        found[queries] += _below(blocks, [other.take(points, queries) for other in orders])
    return found
