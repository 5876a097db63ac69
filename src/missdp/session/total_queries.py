"""Queries for totals: of rows, of units, and of missing cells of each kind.

One row changes each total by one, or by the sensitivity of `UnitSums`. A fit measures a total only
if no marginal adds up to it.
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
    """Query for the number of all rows."""

    label = "number of rows"

    def exact(self, rows: CountedRows) -> Ints:
        """Return the number. Private."""
        return check_counts(rows.source.counts([()], rows="extended")[()], ())


@dataclass(frozen=True)
class UnitSums(CountQuery):
    """Query for the sum of the amounts of all units, and for the sum of squares over the bound.

    The amount of a unit is the number of its rows that are counted, or their weight. It is at most
    the bound, ``max_rows`` or 1. So a unit changes either sum by at most the bound. The event
    states the sensitivity to one row, which changes both sums by one. A filter for units multiplies
    it by the bound (`missdp.accounting.unit_costs`).
    """

    label = "what units count, and its square"

    def check(self, rows: CountedRows) -> None:
        """Raise an error if the source does not identify units."""
        if rows.unit_sums is None:
            raise ParameterError("this source does not identify units")

    def steps(self, rows: CountedRows) -> int:  # noqa: ARG002
        """Return the number of steps in a row, which is fixed."""
        return STEPS

    def sensitivity(self, norm: float) -> float:
        """Return the sensitivity of the two numbers to one row."""
        return 2.0 if norm == 1 else math.nextafter(math.sqrt(2), math.inf)

    def exact(self, rows: CountedRows) -> Ints:
        """Return the two numbers. Private."""
        assert rows.unit_sums is not None  # checked before anything was charged
        return rows.unit_sums


@dataclass(frozen=True)
class MissingKinds(CountQuery):
    """Query for the number of missing cells of each kind. The first kind is plainly missing.

    Parameters
    ----------
    name : str
        Name of the attribute.
    """

    name: str

    @property
    def label(self) -> str:
        """Public name."""
        return f"kinds of missing of {self.name}"

    def check(self, rows: CountedRows) -> None:
        """Raise an error for an attribute that the schema does not have."""
        rows.refuse_unknown((self.name,))

    def exact(self, rows: CountedRows) -> Ints:
        """Return the counts. Private."""
        return rows.kinds(self.name)
