"""Units of protection: what the releases of a fit cost a person who has several rows.

A fit reads at most k rows of each unit, and they are chosen from the unit's own rows alone. So
whether a unit is in the table moves at most k rows of what is read, and what is mu-GDP for one row
is k mu-GDP for the unit (Dong, Roth & Su 2022, Theorem 2.14); epsilon-DP becomes k epsilon, and
rho-zCDP k^2 rho (Bun & Steinke 2016, Proposition 1.9). That holds for whole adaptive fits, and k
rows that are alike attain it for sums. Which rows are chosen is drawn for each unit by itself:
given all draws, two neighbouring tables differ by at most k rows, and averaging over the draws,
which are the same for the other units, changes nothing.

Where all rows of a unit count as one together, a unit costs what one row does that counts as one:
what each of its rows adds to a sum, or moves a score by, is at most its share, and shares add up to
one at most (the triangle inequality).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from missdp.accounting.events import Event, GaussianEvent, PureEvent, ZCDPEvent
from missdp.accounting.exact import exact, float_down, float_up
from missdp.accounting.filters import Cost, FilterEvent
from missdp.errors import ParameterError, UnprovenError
from missdp.record import COUNT_FROM_1

ROW = "row"
"""The unit of protection where nothing else is declared."""

# The square root and the conversion that follow are rounded: what a unit costs must not exceed
# what its budget is worth.
_INWARD = 1 - Fraction(1, 2**45)


@dataclass(frozen=True, kw_only=True)
class UnitEvent(FilterEvent):
    """An adaptive sequence of releases that reads at most so many rows of each unit.

    Parameters
    ----------
    unit : str
        Name of the column that says which rows belong together.
    rows : int
        How many rows of a unit are read at most, at least 1; 1 also where the capacity is a fact
        about a whole unit.
    counts : {"rows", "unit"}, default "rows"
        Whether each row counts as one, or all rows of a unit together.
    capacity, log
        As of a `FilterEvent`: facts about one row that counts as one. Accountants see what follows
        for a unit.

    Raises
    ------
    UnprovenError
        If the capacity is one of which nothing is proven for several rows.

    Examples
    --------
    >>> from missdp.accounting import PureEvent, UnitEvent, epsilon_of
    >>> event = UnitEvent(unit="patient", rows=5, capacity=PureEvent(epsilon=0.2))
    >>> epsilon_of(event, 0.0)
    1.0
    """

    unit: str
    rows: int = field(metadata=COUNT_FROM_1)
    counts: Literal["rows", "unit"] = "rows"

    @property
    def bound(self) -> int:
        """How much all rows of a unit count together at most."""
        return self.rows if self.counts == "rows" else 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.unit, str) and self.unit) or self.unit == ROW:
            raise ParameterError("unit must be the name of the column that identifies units")
        if self.counts not in ("rows", "unit"):
            raise ParameterError("counts must be 'rows' or 'unit'")
        self.flatten()  # refused now, if nothing is proven

    def flatten(self) -> tuple[Event, ...]:
        """Return what the capacity costs a unit, which is all that accountants may see."""
        (of_row,) = super().flatten()
        if of_row.gate:
            raise UnprovenError("nothing is proven of units whose rows are read by their holes")
        return (_of_group(of_row, self.bound),)


def _of_group(event: Event, rows: int) -> Event:
    """Return what a mechanism costs so many rows together, rounded up."""
    if rows == 1:
        return event
    facts: dict[str, Any]
    if type(event) is PureEvent:
        facts = {"epsilon": float_up(exact(event.epsilon) * rows)}
    elif type(event) is ZCDPEvent:
        facts = {"rho": float_up(exact(event.rho) * rows**2)}
    elif isinstance(event, GaussianEvent) and not event.discrete:
        facts = {"sensitivity": float_up(exact(event.sensitivity) * rows)}
    else:
        raise _unproven()
    return replace(event, **facts)


def of_each_row(cost: Cost, rows: int) -> Cost:
    """Return what one row may cost if so many together may cost this.

    Raises
    ------
    UnprovenError
        If nothing is proven for several rows in this currency.

    Examples
    --------
    >>> of_each_row(Cost(currency="pure", amount=1.0), 4).amount < 0.25 + 1e-12
    True
    """
    if rows == 1:
        return cost
    if cost.currency == "renyi":
        raise _unproven()
    parts = rows if cost.currency == "pure" else rows**2
    return replace(cost, amount=float_down(exact(cost.amount) / parts * _INWARD))


def _unproven() -> UnprovenError:
    return UnprovenError(
        "what this costs is known at single Rényi orders, of which nothing is proven for units of "
        "several rows: use AllPairs, AIM or MST, or max_rows = 1"
    )


def unit_of(events: Iterable[Event]) -> tuple[str, int]:
    """Return the unit that events protect, and the most rows that one of them reads of it.

    Raises
    ------
    UnprovenError
        If they protect different units: a person then has no guarantee from all of them together.

    Examples
    --------
    >>> unit_of([PureEvent(epsilon=1.0)])
    ('row', 1)
    """
    found = {_unit_of(event) for event in events}
    if len({unit for unit, _ in found}) > 1:
        named = ", ".join(sorted({repr(unit) for unit, _ in found}))
        raise UnprovenError(
            f"releases that protect different units ({named}) cannot be added up: declare the same "
            "unit in every schema of the table, and give each unit a budget of its own"
        )
    return max(found, default=(ROW, 1))


def counted_as_one(events: Iterable[Event]) -> bool:
    """Tell whether all events for units let the rows of one count as one together."""
    held = [e for e in events for e in (e, *getattr(e, "log", ())) if isinstance(e, UnitEvent)]
    return bool(held) and all(event.counts == "unit" for event in held)


def _unit_of(event: Event) -> tuple[str, int]:
    if isinstance(event, UnitEvent):
        return event.unit, event.rows
    if isinstance(event, FilterEvent):  # around releases that protect units: a fact about these
        return unit_of(event.log)[0], 1
    return unit_of(getattr(event, "events", ()))
