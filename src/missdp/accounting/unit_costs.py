"""Units of protection: the privacy cost of a fit for a person who has several rows.

A fit reads at most k rows of each unit. Their choice depends on the rows of this unit only. So one
more unit in the table changes at most k of the rows that are read. A release that is mu-GDP for one
row is k mu-GDP for the unit (Dong, Roth & Su 2022, Theorem 2.14). Epsilon-DP becomes k epsilon, and
rho-zCDP k^2 rho (Bun & Steinke 2016, Proposition 1.9). This holds for complete adaptive fits, and k
equal rows attain it for sums. The rows of each unit are drawn independently of other units. Given
all draws, two neighbouring tables differ by at most k rows. The draws of the other units have the
same distribution for both, so averaging over the draws changes nothing.

If all rows of a unit count as one together, the cost for a unit is the cost for one row. Each of
its rows adds at most its share to a sum, or moves a score by at most its share. The shares add up
to one at most, so the triangle inequality bounds the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from missdp.accounting.events import ROW, Event, GaussianEvent, PureEvent, ZCDPEvent
from missdp.accounting.exact import exact, float_up
from missdp.accounting.filters import FilterEvent
from missdp.errors import ParameterError, UnprovenError
from missdp.validation import CountFrom1


@dataclass(frozen=True, kw_only=True)
class UnitEvent(FilterEvent):
    """Accounting event of releases that protect all rows of one person or other unit.

    The releases are chosen one after the other, up to a fixed cap. They read at most a fixed number
    of rows of each unit. The choice of these rows must depend on the rows of this unit only, which
    is not checked here.

    Parameters
    ----------
    unit : str
        Name of the column that identifies the rows of a unit.
    rows : int
        Largest number of rows of a unit that are read, at least 1. It is 1 if the capacity is the
        cost for a complete unit.
    counts_as : {"rows", "one"}, default "rows"
        Whether each row of a unit counts as one, or all rows of a unit together.
    capacity : PureEvent, ZCDPEvent or continuous GaussianEvent
        The cap for one row that counts as one, chosen before the first release. All bounds are
        computed from the resulting cap for a unit.
    log : sequence of Event, default ()
        The accounting events of the releases that were made, for one row.
    failure : float, default 0.0
        Must be 0, since nothing is proven of failures for units of several rows.
    label : str, default ""
        A public name for reports.
    required : frozenset of str or None, default None
        Must be None or empty: every row is read.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation under which the numbers of this event are true. It equals the
        adjacency of the capacity.

    Raises
    ------
    UnprovenError
        If nothing is proven for several rows with these facts.
    ParameterError
        If ``unit`` is empty or ``"row"``, or the log costs more than the capacity.

    Examples
    --------
    >>> from missdp.accounting import PureEvent, UnitEvent, epsilon_of
    >>> event = UnitEvent(unit="patient", rows=5, capacity=PureEvent(epsilon=0.2))
    >>> epsilon_of(event, 0.0)
    1.0
    """

    unit: str
    rows: CountFrom1
    counts_as: Literal["rows", "one"] = "rows"

    @property
    def bound(self) -> int:
        """Return the largest number that all rows of one unit of protection count together.

        Returns
        -------
        int
            ``rows``, or 1 if all rows of a unit count as one together. At least 1. Public.
        """
        return self.rows if self.counts_as == "rows" else 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit in ("", ROW):
            raise ParameterError("unit must be the name of the column that identifies units")
        if self.failure:
            raise UnprovenError("nothing is proven of failures for units with several rows")
        self.flatten()  # raises now if nothing is proven

    def protected_unit(self) -> tuple[str, int]:
        """Return the identifying column of a unit of protection, and its largest number of rows.

        Returns
        -------
        unit : str
            Name of the column that identifies the rows of a unit.
        rows : int
            Largest number of rows of one unit that are read. Public.
        """
        return self.unit, self.rows

    def flatten(self) -> tuple[Event, ...]:
        """Return the cap of the sequence of releases for a complete unit of protection.

        All bounds are computed from this event. Pure epsilon and mu are multiplied by the number of
        rows, and rho by its square.

        Returns
        -------
        tuple of Event
            A single event. Public.

        Raises
        ------
        UnprovenError
            If the event has required attributes, for which nothing is proven with units.
        """
        (event,) = super().flatten()
        if event.required:
            raise UnprovenError("nothing is proven of units for events with required attributes")
        return (_group_event(event, self.bound),)


def _group_event(event: Event, rows: int) -> Event:
    """Return the event of a mechanism for several rows together, rounded up."""
    if rows == 1:
        return event
    facts: dict[str, Any]
    if type(event) is PureEvent:
        facts = {"epsilon": float_up(exact(event.epsilon) * rows)}
    elif type(event) is ZCDPEvent:
        facts = {"rho": float_up(exact(event.rho) * rows**2)}
    else:  # there is no other type of capacity
        assert isinstance(event, GaussianEvent)
        facts = {"sensitivity": float_up(exact(event.sensitivity) * rows)}
    return replace(event, **facts)


def unit_counts_once(events: Iterable[Event]) -> bool:
    """Return whether all rows of a unit of protection count as one together in all releases.

    Parameters
    ----------
    events : iterable of Event
        Accounting events of the releases.

    Returns
    -------
    bool
        False if no event protects units of several rows.
    """
    units = [e for e in events for e in (e, *getattr(e, "log", ())) if isinstance(e, UnitEvent)]
    return bool(units) and all(event.counts_as == "one" for event in units)
