"""Worst-case bounds of a statistic over all values that the missing cells could hold.

They are the paid, optional part of a question: how far missing cells could move the answer.

The imputed table is one completion of the table among many. Independently of it, numbers of rows
are released: they have public sensitivity 1 whatever the imputation, because a row adds to them by
its own observed cells alone. They bound the statistic over all completions, so no assumption on why
cells are missing is needed.

A row adds a portion in [0, 1] to a statistic: 1 or 0 for a condition, ``(y - lower) / (upper -
lower)`` for a number. A row of known portion e splits into a high part e and a low part 1 - e. It
is counted in exactly one of four places:

* ``in_high``, ``in_low``: surely in the subpopulation, portion known;
* ``may_high``, ``may_low``: in it for some values of its missing cells only, portion known;
* ``in_unknown``: surely in it, portion unknown;
* ``may_unknown``: perhaps in it, portion unknown.

Rows to which what is asked about does not apply are counted nowhere; where a rule leaves that open
they are perhaps in the subpopulation, portion unknown.

So a row adds one in all: the six numbers together have L1 sensitivity 1 when a row comes or goes.
They read no imputed value. For every completion the average portion T / (T + R) has
``in_high <= T <= in_high + may_high + in_unknown + may_unknown``, the same for R and the low parts,
and it grows with T and falls with R; sums are linear. Bounds of that kind are Manski's (2003).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.questions import QUANTA, Rows
from missdp.schema import Numeric
from missdp.schema.predicates import Predicate
from missdp.statistics.estimates import Interval, Names

__all__ = ["average_bounds", "places", "tally", "total_bounds"]


_NOTHING: Interval = (0.0, 0.0)


def places(*, where_open: bool, portion_open: bool, portion_one: bool) -> tuple[str, ...]:
    """Places that public facts leave open; the others hold no row and need no release.

    Parameters
    ----------
    where_open, portion_open : bool
        Whether an attribute that decides membership, or the portion, may be missing at all.
    portion_one : bool
        Whether every portion is 1 (counts), so that low parts are 0.

    Examples
    --------
    >>> places(where_open=False, portion_open=True, portion_one=False)
    ('in_high', 'in_low', 'in_unknown')
    """
    found = ["in_high"] if portion_one else ["in_high", "in_low"]
    if where_open:
        found += ["may_high"] if portion_one else ["may_high", "may_low"]
    if portion_open:
        found += ["in_unknown", "may_unknown"] if where_open else ["in_unknown"]
    return tuple(found)


def tally(
    rows: Rows,
    where: Predicate,
    of: Numeric | Predicate | None,
    about: Names,
    names: Names,
) -> NDArray[np.float64]:
    """Return how much of each row is in the places ``names``: 1 at most in all.

    Parameters
    ----------
    rows : Rows
        With their holes.
    where : Predicate
        The subpopulation.
    of : Numeric, Predicate or None
        What says a row's portion; it is 1 if None does.
    about : tuple of str
        Attributes that say a portion and do not apply to all rows.
    names : tuple of str
        From `places`.

    Returns
    -------
    ndarray of float, shape (n, len(names)), or (n,) if there is one name
        Multiples of 1 / `QUANTA`.
    """
    surely, maybe = where.decide(rows)
    for name in about:
        here, perhaps = rows.applies(name)
        surely, maybe = surely & here, maybe & perhaps
    portion, known = _portions(rows, of)
    high = np.where(known, np.rint(np.clip(portion, 0.0, 1.0) * QUANTA) / QUANTA, 0.0)
    parts = {"high": high, "low": np.where(known, 1 - high, 0.0), "unknown": np.where(known, 0, 1)}
    inside = {"in": surely, "may": maybe & ~surely}
    columns = [parts[part] * inside[place] for place, part in (name.split("_") for name in names)]
    return columns[0] if len(names) == 1 else np.stack(columns, axis=1)


def _portions(
    rows: Rows, of: Numeric | Predicate | None
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Share of each row, and where its observed cells decide it."""
    if of is None:
        return np.ones(len(rows)), np.ones(len(rows), dtype=bool)
    if isinstance(of, Numeric):
        return (rows.values(of.name) - of.lower) / (of.upper - of.lower), ~rows.mask(of.name)
    surely, maybe = of.decide(rows)
    return surely.astype(np.float64), surely | ~maybe


def average_bounds(box: Mapping[str, Interval]) -> Interval:
    """Bounds of the average portion over all completions in which the subpopulation has a row.

    Parameters
    ----------
    box : mapping of str to (float, float)
        Interval of each place, in rows; places left out hold nothing.

    Examples
    --------
    >>> box = {"in_high": (30, 30), "in_low": (50, 50), "in_unknown": (20, 20)}
    >>> low, high = average_bounds(box)
    >>> round(low, 3), round(high, 3)
    (0.3, 0.5)
    """
    box = _rows(box)
    open_rows = box["in_unknown"][1] + box["may_unknown"][1]
    most_high = box["in_high"][1] + box["may_high"][1] + open_rows
    most_low = box["in_low"][1] + box["may_low"][1] + open_rows
    low = _quotient(box["in_high"][0], most_low, empty=0.0)
    high = _quotient(most_high, box["in_low"][0], empty=1.0)
    # Known portions are rounded to whole quanta: half a quantum either way.
    return max(low - 0.5 / QUANTA, 0.0), min(high + 0.5 / QUANTA, 1.0)


def total_bounds(box: Mapping[str, Interval], lower: float, upper: float) -> Interval:
    """Bounds over all completions of a sum of values ``lower + portion * (upper - lower)``.

    Examples
    --------
    >>> total_bounds({"in_high": (30, 30), "may_high": (5, 7)}, 1.0, 1.0)
    (30.0, 37.0)
    """
    box = _rows(box)
    known = [box[name] for name in ("in_high", "in_low", "may_high", "may_low")]
    # A value of a known row is off by half a quantum of the range at most.
    slack = (upper - lower) / 2 / QUANTA * sum(interval[1] for interval in known)
    worth = {"high": (upper, upper), "low": (lower, lower), "unknown": (lower, upper)}
    low, high = -slack, slack
    for name, (fewest, most) in box.items():
        place, part = name.split("_")
        least, best = worth[part]
        fewest = 0.0 if place == "may" else fewest
        low += min(fewest * least, most * least)
        high += max(fewest * best, most * best)
    return low, high


def _rows(box: Mapping[str, Interval]) -> dict[str, Interval]:
    """All six places; numbers of rows are never below 0."""
    names = places(where_open=True, portion_open=True, portion_one=False)
    found = {name: box.get(name, _NOTHING) for name in names}
    return {name: (max(low, 0.0), max(high, 0.0)) for name, (low, high) in found.items()}


def _quotient(part: float, rest: float, *, empty: float) -> float:
    return part / (part + rest) if part + rest > 0 else empty
