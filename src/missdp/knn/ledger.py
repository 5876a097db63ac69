"""What missing cells leave open: six numbers that bound a sum or an average over all completions.

A row adds a share in [0, 1] to a statistic: 1 or 0 for a condition, ``(y - lower) / (upper -
lower)`` for a number. A row of known share e splits into a high part e and a low part 1 - e. It is
counted in exactly one of four places:

* ``in_high``, ``in_low``: surely in the subpopulation, share known;
* ``may_high``, ``may_low``: in it for some values of its missing cells only, share known;
* ``in_unknown``: surely in it, share unknown;
* ``may_unknown``: perhaps in it, share unknown.

So a row adds one in all: the six numbers together have L1 sensitivity 1 when a row comes or goes.
They read no imputed value. For every completion the average share T / (T + R) has
``in_high <= T <= in_high + may_high + in_unknown + may_unknown``, the same for R and the low parts,
and it grows with T and falls with R; sums are linear. Bounds of that kind are Manski's (2003).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.knn.estimates import Interval
from missdp.knn.predicates import Verdict
from missdp.knn.rows import QUANTA

__all__ = ["average_bounds", "places", "tally", "total_bounds"]

_NOTHING: Interval = (0.0, 0.0)


def places(*, where_open: bool, share_open: bool, share_one: bool) -> tuple[str, ...]:
    """Places that public facts leave open; the others hold no row and need no release.

    Parameters
    ----------
    where_open, share_open : bool
        Whether an attribute that decides membership, or the share, may be missing at all.
    share_one : bool
        Whether every share is 1 (counts), so that low parts are 0.

    Examples
    --------
    >>> places(where_open=False, share_open=True, share_one=False)
    ('in_high', 'in_low', 'in_unknown')
    """
    found = ["in_high"] if share_one else ["in_high", "in_low"]
    if where_open:
        found += ["may_high"] if share_one else ["may_high", "may_low"]
    if share_open:
        found += ["in_unknown", "may_unknown"] if where_open else ["in_unknown"]
    return tuple(found)


def tally(
    member: Verdict, share: NDArray[np.float64], known: NDArray[np.bool_], names: tuple[str, ...]
) -> tuple[int, ...]:
    """Exact private numbers of the places ``names``, in units of 1 / `QUANTA` rows.

    Parameters
    ----------
    member : (array of bool, array of bool), each of shape (n,)
        Rows that surely, and that perhaps belong to the subpopulation.
    share : array of float, shape (n,)
        Shares; read where ``known`` only.
    known : array of bool, shape (n,)
        Where the share is known.
    names : tuple of str
        From `places`.
    """
    surely, maybe = member[0], member[1] & ~member[0]
    high = np.zeros(len(known), dtype=np.int64)
    high[known] = np.rint(np.clip(share[known], 0.0, 1.0) * QUANTA).astype(np.int64)
    low = np.where(known, QUANTA - high, 0)
    unknown = np.where(known, 0, QUANTA)
    columns = {"high": high, "low": low, "unknown": unknown}
    rows = {"in": surely, "may": maybe}
    answers = []
    for name in names:
        place, part = name.split("_")
        answers.append(int(columns[part][rows[place]].sum()))
    return tuple(answers)


def average_bounds(box: Mapping[str, Interval]) -> Interval:
    """Bounds of the average share over all completions in which the subpopulation has a row.

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
    # Known shares are rounded to whole quanta: half a quantum either way.
    return max(low - 0.5 / QUANTA, 0.0), min(high + 0.5 / QUANTA, 1.0)


def total_bounds(box: Mapping[str, Interval], lower: float, upper: float) -> Interval:
    """Bounds over all completions of a sum of values ``lower + share * (upper - lower)``.

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
    names = places(where_open=True, share_open=True, share_one=False)
    found = {name: box.get(name, _NOTHING) for name in names}
    return {name: (max(low, 0.0), max(high, 0.0)) for name, (low, high) in found.items()}


def _quotient(part: float, rest: float, *, empty: float) -> float:
    return part / (part + rest) if part + rest > 0 else empty
