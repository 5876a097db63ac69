"""Queries for totals: of rows, of units, and of missing cells of each kind.

One row moves each of them by one, or by what `UnitSums` says. A fit asks for a total only if no
marginal adds up to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from missdp.errors import ParameterError
from missdp.schema.layout import STEPS
from missdp.session.counted_queries import CountQuery
from missdp.session.counting import check_counts
from missdp.types import Ints

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows


@dataclass(frozen=True)
class RowCount(CountQuery):
    """The number of all rows."""

    label = "number of rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the number; private."""
        return check_counts(rows.source.counts([()], rows="extended")[()], ())


@dataclass(frozen=True)
class UnitSums(CountQuery):
    """The sum of the amounts of all units, and the sum of their squares divided by the bound.

    The amount of a unit is the number of its rows that are counted, or their weight. It is at most
    the bound, ``max_rows`` or 1. So a unit moves either sum by at most the bound. The event states
    the sensitivity of one row, which moves both sums by one. A filter for units multiplies it by
    the bound (`missdp.accounting.unit_costs`).
    """

    label = "what units count, and its square"

    def check(self, rows: CountedRows) -> None:
        """Refuse rows of which it is not known."""
        if rows.unit_sums is None:
            raise ParameterError("this source does not identify units")

    def steps(self, rows: CountedRows) -> int:  # noqa: ARG002
        """In steps of a row, always."""
        return STEPS

    def sensitivity(self, norm: float) -> float:
        """Return how far one row moves the two numbers."""
        return 2.0 if norm == 1 else math.nextafter(math.sqrt(2), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the two numbers; private."""
        assert rows.unit_sums is not None  # checked before anything was charged
        return rows.unit_sums


@dataclass(frozen=True)
class MissingKinds(CountQuery):
    """How many missing cells of an attribute are of each kind; the first is plainly missing."""

    name: str

    @property
    def label(self) -> str:
        """Public name."""
        return f"kinds of missing of {self.name}"

    def check(self, rows: CountedRows) -> None:
        """Refuse attributes that there are not."""
        rows.refuse_unknown((self.name,))

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts; private."""
        return rows.kinds(self.name)
