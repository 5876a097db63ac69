"""Worst-case bounds of a statistic over all values that the missing cells could hold.

They are an optional part of a question with a cost of its own: the effect of missing cells.

The imputed table is one completion of the table among many. Independently of it, numbers of rows
are released. They have public sensitivity 1 for every imputation, because a row adds to them by its
own observed cells. They bound the statistic over all completions. So no assumption is needed on the
reason why cells are missing.

A row adds a portion in [0, 1] to a statistic: 1 or 0 for a condition, ``(y - lower) / (upper -
lower)`` for a number. A row of known portion e splits into a high part e and a low part 1 - e. It
is counted in exactly one of four places:

* ``in_high``, ``in_low``: surely in the subpopulation, portion known.
* ``may_high``, ``may_low``: in it for some values of its missing cells only, portion known.
* ``in_unknown``: surely in it, portion unknown.
* ``may_unknown``: perhaps in it, portion unknown.

A row to which the attributes of the question do not apply is counted nowhere. If a rule leaves this
open, the row is perhaps in the subpopulation, with an unknown portion.

So a row adds one in all: the six numbers together have L1 sensitivity 1 when a row comes or goes.
They read no imputed value. For every completion the average portion T / (T + R) has ``in_high <= T
<= in_high + may_high + in_unknown + may_unknown``. R and the low parts satisfy the same bounds. The
average grows with T and falls with R, and sums are linear. Bounds of that kind are Manski's (2003).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Numeric, Schema
from missdp.schema.logic import Cells, Predicate, Truth
from missdp.statistics.imputed_rows import RowView
from missdp.statistics.row_queries import QUANTA, RowSums

Interval: TypeAlias = tuple[float, float]
Names: TypeAlias = tuple[str, ...]

PLACES: Names = ("in_high", "in_low", "may_high", "may_low", "in_unknown", "may_unknown")


@dataclass(frozen=True)
class MissingCells:
    """The cells of a question that may be missing, and their effect on its answer. Public.

    ``of`` is the summand over the rows of ``where``: values, rows that satisfy a condition, or all
    rows. ``mean`` is True if the sum is divided by the number of rows.
    """

    schema: Schema
    where: Predicate
    of: Numeric | Predicate | None
    mean: bool

    @property
    def places(self) -> Names:
        """The places that may have rows by public facts."""
        nullable, portions = set(self.schema.nullable), self._portions
        shut = set() if self.of is not None else {"low"}  # all portions of a count are 1
        if not (self.schema.rule_set.may_be_open(portions) or nullable & self.where.names):
            shut.add("may")
        if not nullable & portions:
            shut.add("unknown")
        return tuple(name for name in PLACES if not shut.intersection(name.split("_")))

    @property
    def query(self) -> RowSums:
        """The query of the original rows."""
        about = self.schema.rule_set.not_everywhere(sorted(self._portions))
        return RowSums(
            label="missing cells", function=_tally, reads=self.where.names | self._portions,
            arguments=(self.where, self.of, about, self.places), numbers=len(self.places),
            bound=1.0, change=0.0,
        )  # fmt: skip

    def interval(self, box: Mapping[str, Interval]) -> Interval:
        """Return an interval of the answer, from intervals of the numbers of rows."""
        lower, upper = (0.0 if self.mean else 1.0), 1.0
        if isinstance(self.of, Numeric):
            lower, upper = self.of.lower, self.of.upper
        if not self.mean:
            return _total_bounds(box, lower, upper)
        low, high = _average_bounds(box)
        return lower + (upper - lower) * low, upper - (upper - lower) * (1 - high)

    @property
    def _portions(self) -> frozenset[str]:
        """Attributes that decide the portion of a row."""
        if self.of is None:
            return frozenset()
        return frozenset({self.of.name}) if isinstance(self.of, Numeric) else self.of.names


def _tally(
    rows: RowView,
    where: Predicate,
    of: Numeric | Predicate | None,
    about: Names,
    names: Names,
) -> NDArray[np.float64]:
    """Return the portion of each row, in 1 / `QUANTA`, at each of some places."""
    truth = decide(where, rows)
    for name in about:
        truth &= rows.applies(name)
    portion, is_decided = _portions(rows, of)
    high = np.where(is_decided, np.rint(np.clip(portion, 0.0, 1.0) * QUANTA) / QUANTA, 0.0)
    parts = {"high": high, "low": np.where(is_decided, 1 - high, 0.0), "unknown": 1 - is_decided}
    inside = {"in": truth.is_true, "may": ~(truth.is_true | truth.is_false)}
    columns = [parts[part] * inside[place] for place, part in (name.split("_") for name in names)]
    return columns[0] if len(names) == 1 else np.stack(columns, axis=1)


def _portions(
    rows: RowView, of: Numeric | Predicate | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the share of each row, and whether its observed cells decide it."""
    if of is None:
        return np.ones(len(rows)), np.ones(len(rows), dtype=bool)
    if isinstance(of, Numeric):
        return (rows.values(of.name) - of.lower) / (of.upper - of.lower), ~rows.mask(of.name)
    truth = decide(of, rows)
    return truth.is_true.astype(np.float64), truth.is_true | truth.is_false


def decide(predicate: Predicate, rows: RowView) -> Truth:
    """Return the truth of a predicate in each row, neither true nor false if it is open."""
    read = [rows.schema[name] for name in sorted(predicate.names)]
    values = {a.name: rows.values(a.name) if isinstance(a, Numeric) else None for a in read}
    cells = {a.name: Cells.of(a, rows.codes(a.name), values[a.name]) for a in read}
    return predicate.truth(cells, len(rows))


def _average_bounds(box: Mapping[str, Interval]) -> Interval:
    """Return bounds of the average portion over all completions whose subpopulation has a row.

    ``box`` has an interval of the rows in each place. Places that it lacks have no rows.

    >>> from missdp.statistics.worst_case import _average_bounds
    >>> box = {"in_high": (30, 30), "in_low": (50, 50), "in_unknown": (20, 20)}
    >>> low, high = _average_bounds(box)
    >>> round(low, 3), round(high, 3)
    (0.3, 0.5)
    """
    box = _rows(box)
    open_rows = box["in_unknown"][1] + box["may_unknown"][1]
    max_high = box["in_high"][1] + box["may_high"][1] + open_rows
    max_low = box["in_low"][1] + box["may_low"][1] + open_rows
    low = _quotient(box["in_high"][0], max_low, empty=0.0)
    high = _quotient(max_high, box["in_low"][0], empty=1.0)
    # Known portions are rounded to whole quanta: half a quantum either way.
    return max(low - 0.5 / QUANTA, 0.0), min(high + 0.5 / QUANTA, 1.0)


def _total_bounds(box: Mapping[str, Interval], lower: float, upper: float) -> Interval:
    """Return bounds of a sum of ``lower + portion * (upper - lower)`` over completions."""
    box = _rows(box)
    decided = [box[name] for name in ("in_high", "in_low", "may_high", "may_low")]
    # A value of a known row is off by half a quantum of the range at most.
    slack = (upper - lower) / 2 / QUANTA * sum(interval[1] for interval in decided)
    values = {"high": (upper, upper), "low": (lower, lower), "unknown": (lower, upper)}
    low, high = -slack, slack
    for name, (min_rows, max_rows) in box.items():
        place, part = name.split("_")
        lowest, highest = values[part]
        min_rows = 0.0 if place == "may" else min_rows
        low += min(min_rows * lowest, max_rows * lowest)
        high += max(min_rows * highest, max_rows * highest)
    return low, high


def _rows(box: Mapping[str, Interval]) -> dict[str, Interval]:
    """Return intervals for all six places, with numbers of rows of at least 0."""
    intervals = {name: box.get(name, (0.0, 0.0)) for name in PLACES}
    return {name: (max(low, 0.0), max(high, 0.0)) for name, (low, high) in intervals.items()}


def _quotient(part: float, rest: float, *, empty: float) -> float:
    return part / (part + rest) if part + rest > 0 else empty
