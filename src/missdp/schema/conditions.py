"""Conditions on the cells of one row, and what is sure and what is possible about them.

A cell of a row is known exactly, or not at all; a cell of a table of counts is known up to its bin.
So a condition has two answers (three-valued logic): it surely holds, and it may hold. A missing
cell may satisfy any comparison; one that is not applicable satisfies none.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema.numeric import AnyAttribute, Numeric
from missdp.types import Flags, Floats

Verdict: TypeAlias = tuple[Flags, Flags]

OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED: Final = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class Compare:
    """An attribute compared with a constant; a missing cell satisfies no comparison."""

    attribute: AnyAttribute
    sign: str
    value: float

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return frozenset({self.attribute.name})

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that belong."""
        known = rows.codes(self.attribute.name) < self.attribute.size
        return np.asarray(OPERATORS[self.sign](_cells(self.attribute, rows), self.value) & known)


@dataclass(frozen=True)
class CompareTwo:
    """Two attributes of a row compared with each other."""

    one: AnyAttribute
    sign: str
    two: AnyAttribute

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return frozenset({self.one.name, self.two.name})

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that belong."""
        found = OPERATORS[self.sign](_cells(self.one, rows), _cells(self.two, rows))
        for attribute in (self.one, self.two):
            found = found & (rows.codes(attribute.name) < attribute.size)
        return np.asarray(found)


@dataclass(frozen=True)
class Join:
    """Conjunction or disjunction: rows that belong to all parts, or to any.

    All rows belong to a conjunction of nothing.
    """

    parts: tuple[Predicate, ...]
    all_of: bool

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return frozenset().union(*(part.names for part in self.parts))

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that belong."""
        join = np.logical_and if self.all_of else np.logical_or
        parts = [part.select(rows) for part in self.parts]
        return np.asarray(reduce(join, parts, np.full(len(rows), self.all_of)))


@dataclass(frozen=True)
class Not:
    """Complement: rows that do not belong to ``part``."""

    part: Predicate

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return self.part.names

    def select(self, rows: Any) -> Flags:
        """Return True for the rows that belong."""
        return ~self.part.select(rows)


#: Which rows belong to a subpopulation; a function of each row alone.
Predicate: TypeAlias = Compare | CompareTwo | Join | Not


def _cells(attribute: AnyAttribute, rows: Any) -> NDArray[Any]:
    """Return what is compared of rows, a table or a view of it: values, or codes of levels."""
    numeric = isinstance(attribute, Numeric)
    return np.asarray(rows.values(attribute.name) if numeric else rows.codes(attribute.name))


@dataclass(frozen=True, eq=False, repr=False)
class Known:
    """What is known of cells of one attribute: bounds on the value, or on the code of the level."""

    least: Floats
    greatest: Floats
    hole: Flags  # the value is missing, so that nothing is known of it
    absent: Flags  # the attribute is not applicable, so that there is no value

    @property
    def present(self) -> Flags:
        """Whether there is a value, known within the bounds."""
        return ~(self.hole | self.absent)

    @classmethod
    def of(
        cls, attribute: AnyAttribute, codes: NDArray[np.integer], values: Floats | None
    ) -> Known:
        """Return what codes, and values if there are any, tell about cells."""
        hole = np.asarray(codes >= attribute.missing_code)
        absent = np.asarray(codes >= attribute.size) & ~hole
        if values is not None:
            return cls(values, values, hole, absent)
        inside = np.where(hole | absent, 0, codes).astype(np.int64)
        if isinstance(attribute, Numeric):
            least, greatest = attribute.reach
            return cls(least[inside], greatest[inside], hole, absent)
        levels = inside.astype(np.float64)
        return cls(levels, levels, hole, absent)

    def taken(self, places: NDArray[np.integer]) -> Known:
        """Return what is known of some of the cells."""
        parts = (self.least, self.greatest, self.hole, self.absent)
        return Known(*(part[places] for part in parts))

    @classmethod
    def constant(cls, value: float, n: int) -> Known:
        """Return what is known of a number."""
        cells, none = np.full(n, value), np.zeros(n, dtype=bool)
        return cls(cells, cells, none, none)


KnownCells: TypeAlias = Mapping[str, Known]


def compared(one: Known, sign: str, two: Known) -> Verdict:
    """Decide a comparison of known cells."""
    if sign in (">", ">="):
        return compared(two, MIRRORED[sign], one)
    if sign == "<":
        surely, maybe = one.greatest < two.least, one.least < two.greatest
    elif sign == "<=":
        surely, maybe = one.greatest <= two.least, one.least <= two.greatest
    else:
        fixed = (one.least == one.greatest) & (two.least == two.greatest)
        maybe = (one.least <= two.greatest) & (two.least <= one.greatest)
        surely = fixed & maybe
        if sign == "!=":
            surely, maybe = ~maybe, ~surely
    there = one.present & two.present
    absent = one.absent | two.absent
    return np.asarray(surely & there), np.asarray(np.where(there, maybe, ~absent))


def decided(predicate: Predicate, cells: KnownCells, n: int) -> Verdict:
    """Decide a predicate for ``n`` rows; parts that share a cell leave more open than there is."""
    if isinstance(predicate, Compare):
        value = Known.constant(predicate.value, n)
        return compared(cells[predicate.attribute.name], predicate.sign, value)
    if isinstance(predicate, CompareTwo):
        return compared(cells[predicate.one.name], predicate.sign, cells[predicate.two.name])
    if isinstance(predicate, Not):
        surely, maybe = decided(predicate.part, cells, n)
        return ~maybe, ~surely
    join = np.logical_and if predicate.all_of else np.logical_or
    surely, maybe = np.full(n, predicate.all_of), np.full(n, predicate.all_of)
    for part in predicate.parts:
        one, two = decided(part, cells, n)
        surely, maybe = join(surely, one), join(maybe, two)
    return surely, maybe
