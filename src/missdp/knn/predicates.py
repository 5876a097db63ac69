"""Which rows belong to a subpopulation, and which ones may once missing cells are known.

A predicate answers twice. `select` takes the table as it is: a missing cell satisfies no
comparison. `decide` keeps to what holds for every value of the missing cells (three-valued
logic): rows that surely belong, and rows that may.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import RowView
from missdp.schema import AnyAttribute, Numeric

__all__ = ["OPERATORS", "Compare", "Everyone", "Join", "Not", "Predicate", "Verdict"]

BoolArray = NDArray[np.bool_]
Verdict = tuple[BoolArray, BoolArray]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq, "==": operator.eq, "!=": operator.ne,
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


class Predicate(Protocol):
    """Which rows belong to a subpopulation; a function of each row alone."""

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""

    def select(self, rows: RowView) -> BoolArray:
        """Return True for the rows that belong, shape ``(n,)``."""

    def decide(self, rows: RowView) -> Verdict:
        """Tell which rows belong whatever their missing cells hold, and which ones may."""


@dataclass(frozen=True)
class Everyone:
    """All rows."""

    names: frozenset[str] = frozenset()

    def select(self, rows: RowView) -> BoolArray:
        """Return True for every row."""
        return np.ones(len(rows), dtype=bool)

    def decide(self, rows: RowView) -> Verdict:
        """Return True for every row, twice."""
        return self.select(rows), self.select(rows)


@dataclass(frozen=True)
class Compare:
    """One attribute compared with a constant; a missing cell satisfies no comparison."""

    attribute: AnyAttribute
    sign: str
    value: float

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""
        return frozenset({self.attribute.name})

    def select(self, rows: RowView) -> BoolArray:
        """Return True for the rows that belong."""
        name = self.attribute.name
        codes = rows.codes(name)
        cells = rows.values(name) if isinstance(self.attribute, Numeric) else codes
        known = codes != self.attribute.missing_code
        return np.asarray(OPERATORS[self.sign](cells, self.value) & known)

    def decide(self, rows: RowView) -> Verdict:
        """Return what the known cells decide; a missing one may satisfy any comparison."""
        surely = self.select(rows)
        return surely, surely | (rows.codes(self.attribute.name) == self.attribute.missing_code)


@dataclass(frozen=True)
class Join:
    """Rows that belong to all parts, or to any."""

    parts: tuple[Predicate, ...]
    all_of: bool

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""
        return frozenset().union(*(part.names for part in self.parts))

    def select(self, rows: RowView) -> BoolArray:
        """Return True for the rows that belong."""
        return self._joined([part.select(rows) for part in self.parts])

    def decide(self, rows: RowView) -> Verdict:
        """Join both answers of the parts; parts that share a cell make the second too generous."""
        surely, maybe = zip(*(part.decide(rows) for part in self.parts), strict=True)
        return self._joined(surely), self._joined(maybe)

    def _joined(self, parts: Sequence[BoolArray]) -> BoolArray:
        reduce = np.logical_and if self.all_of else np.logical_or
        return np.asarray(reduce.reduce(parts))


@dataclass(frozen=True)
class Not:
    """Rows that do not belong."""

    part: Predicate

    @property
    def names(self) -> frozenset[str]:
        """Attributes it reads."""
        return self.part.names

    def select(self, rows: RowView) -> BoolArray:
        """Return True for the rows that belong."""
        return ~self.part.select(rows)

    def decide(self, rows: RowView) -> Verdict:
        """Exchange both answers."""
        surely, maybe = self.part.decide(rows)
        return ~maybe, ~surely
