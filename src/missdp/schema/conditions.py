"""Conditions on the cells of one row, and what is sure and what is possible about them.

A cell of a row is known exactly, or not at all; a cell of a table of counts is known up to its bin.
So a condition has two answers (three-valued logic): it surely holds, and it may hold. A missing
cell may satisfy any comparison; one that is not applicable satisfies none.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
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


class Predicate(ABC):
    """Which rows belong to a subpopulation: a function of each row alone."""

    @abstractmethod
    def comparisons(self) -> Iterator[Compare]:
        """Yield the comparisons that it is made of."""

    @property
    def names(self) -> frozenset[str]:
        """Attributes that it reads."""
        return frozenset(a.name for part in self.comparisons() for a in part.attributes)

    def select(self, rows: Any) -> Flags:
        """Return True for the rows, of a table or a view of one, that belong.

        A missing cell satisfies no comparison, as if the attribute were not applicable.
        """
        read = {a.name: a for part in self.comparisons() for a in part.attributes}
        cells = {
            name: Known.of(
                a, rows.codes(name), rows.values(name) if isinstance(a, Numeric) else None
            ).without_holes()
            for name, a in read.items()
        }
        return decided(self, cells, len(rows))[0]


@dataclass(frozen=True)
class Compare(Predicate):
    """An attribute compared with a constant, or with another attribute of the row."""

    one: AnyAttribute
    sign: str
    two: AnyAttribute | float

    @property
    def attributes(self) -> tuple[AnyAttribute, ...]:
        """Attributes that it reads."""
        return (self.one,) if isinstance(self.two, float) else (self.one, self.two)

    @property
    def pair(self) -> tuple[str, str] | None:
        """The names of two attributes that it compares; None if one is a constant."""
        return None if isinstance(self.two, float) else (self.one.name, self.two.name)

    def comparisons(self) -> Iterator[Compare]:
        """Yield itself."""
        yield self


@dataclass(frozen=True)
class Join(Predicate):
    """Conjunction or disjunction: rows that belong to all parts, or to any.

    All rows belong to a conjunction of nothing.
    """

    parts: tuple[Predicate, ...]
    all_of: bool

    def comparisons(self) -> Iterator[Compare]:
        """Yield the comparisons of all parts."""
        for part in self.parts:
            yield from part.comparisons()


@dataclass(frozen=True)
class Not(Predicate):
    """Complement: rows that do not belong to ``part``."""

    part: Predicate

    def comparisons(self) -> Iterator[Compare]:
        """Yield the comparisons of what it denies."""
        yield from self.part.comparisons()


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

    def without_holes(self) -> Known:
        """Return the same cells, each missing one as if there were nothing to ask for."""
        return Known(self.least, self.greatest, np.zeros_like(self.hole), ~self.present)

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
        two = predicate.two
        known = Known.constant(two, n) if isinstance(two, float) else cells[two.name]
        return compared(cells[predicate.one.name], predicate.sign, known)
    if isinstance(predicate, Not):
        surely, maybe = decided(predicate.part, cells, n)
        return ~maybe, ~surely
    assert isinstance(predicate, Join)
    join = np.logical_and if predicate.all_of else np.logical_or
    surely, maybe = np.full(n, predicate.all_of), np.full(n, predicate.all_of)
    for part in predicate.parts:
        sure, open_ = decided(part, cells, n)
        surely, maybe = join(surely, sure), join(maybe, open_)
    return surely, maybe
