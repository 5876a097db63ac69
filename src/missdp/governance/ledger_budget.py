"""A budget in a ledger, which replaces a `Filter`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING

from missdp.accounting import (
    ApproximateEvent,
    Condition,
    Cost,
    Event,
    Filter,
    FilterEvent,
    Guarantee,
)
from missdp.accounting.budget import Entries, Events, as_events
from missdp.accounting.events import ROW, unit_of
from missdp.accounting.exact import exact, float_down, float_up
from missdp.accounting.unit_costs import UnitEvent
from missdp.conditions import all_conditions
from missdp.errors import UnprovenError, check_positive
from missdp.governance.chain import Row, path_of

if TYPE_CHECKING:
    from missdp.governance.ledger import Ledger, Purpose


class LedgerBudget(Filter):
    """A privacy budget in a ledger, which pays for fits and queries as a `Filter` does.

    ``Ledger.budget`` makes it. Each charge is a separate request, which is committed in the ledger
    before `charge` returns. Charges of other processes count. A fork must open a new ``Ledger``,
    since a charge of one process is not answered in another process.

    Parameters
    ----------
    ledger : Ledger
        The database of budgets.
    name : str
        Name of the budget.
    what : Purpose
        Purpose that is recorded with each charge.
    request : str, optional
        The id of the first charge, 32 hexadecimal digits. By default a fresh id.

    Raises
    ------
    ParameterError
        If the ledger has no budget of this name.
    LedgerError
        If the database cannot be read, or was changed.

    Notes
    -----
    All releases that are charged to the budget are private within its total, in all processes
    together.

    Examples
    --------
    >>> import tempfile
    >>> from missdp.accounting import PureEvent
    >>> from missdp.governance import Ledger
    >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
    >>> ledger.create("patients-2026", epsilon=1.0)
    >>> ledger.budget("patients-2026").charge(PureEvent(epsilon=0.25))
    >>> ledger.budget("patients-2026").remaining_epsilon
    0.75
    """

    charged_first = True

    def __init__(
        self, ledger: Ledger, name: str, what: Purpose, *, request: str | None = None
    ) -> None:
        facts = ledger.row(name).facts
        super().__init__(
            facts.epsilon,
            facts.total_delta,
            adjacency=facts.adjacency,
            measure=facts.cost.privacy_measure,
            failure=facts.failure,
        )
        self._cap_at(facts.cost)
        self._ledger, self._facts, self._what = ledger, facts, what
        self._requests = iter([] if request is None else [request])

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the accounting events of all releases that any process charged to this budget.

        Returns
        -------
        tuple of Event
            In the order of the charges, with charges of parts of the budget. Public.

        Raises
        ------
        LedgerError
            If the database cannot be read.
        """
        return tuple(
            Event.from_dict(event)
            for line in self._ledger.charges(self._facts.name)
            for event in line["events"]
        )

    @property
    def remaining(self) -> Cost:
        """Return the amount of this budget that can still be charged, in its privacy measure.

        Returns
        -------
        Cost
            An amount of pure epsilon, zCDP rho, or squared mu of Gaussian DP, at least 0 and
            rounded down. For a part, the remaining amount of the table's budget also limits it.
            It may be published.

        Raises
        ------
        LedgerError
            If the database cannot be read.
        """
        return replace(self._facts.cost, amount=max(0.0, float_down(self._exact_remainder())))

    @property
    def remaining_epsilon(self) -> float:
        """Return the total epsilon less the epsilon of all charged releases, at the budget's delta.

        It is exact for a budget in pure epsilon. For other budgets `can_afford` is exact.

        Returns
        -------
        float
            In epsilon, at least 0. It may be published.

        Raises
        ------
        LedgerError
            If the database cannot be read.
        """
        remaining = self.remaining
        if remaining.privacy_measure == "pure":
            return remaining.amount
        spent = exact(self._facts.cost.amount) - exact(remaining.amount)
        running = replace(remaining, amount=float_up(spent))
        return max(0.0, self._facts.epsilon - running.epsilon(self._facts.delta))

    @property
    def spent(self) -> Guarantee:
        """Return the privacy guarantee of all releases that any process charged to this budget.

        Returns
        -------
        Guarantee
            Guarantee with the total epsilon and delta of the budget, even if less was charged.
            It has the conditions of all charges. Epsilon and delta are 0 before the first
            charge. Public.

        Raises
        ------
        LedgerError
            If the database cannot be read.
        """
        facts, lines = self._facts, self._ledger.charges(self._facts.name)
        if not lines:
            return Guarantee(0.0, 0.0, facts.adjacency, "incomplete", (), ())
        ours = {line["request"] for line in lines}
        released = (line for line in self._ledger.history(facts.name) if line["request"] in ours)
        stored = (facts for line in released for facts in line.get("conditions", ()))
        event: Event = self.filter()
        if facts.failure:
            event = ApproximateEvent(
                epsilon=facts.epsilon,
                delta=facts.total_delta,
                adjacency=facts.adjacency,
                label=facts.name,
            )
        conditions = tuple(map(Condition.from_dict, stored))
        stated = (facts.epsilon, facts.total_delta, facts.adjacency)
        return Guarantee(*stated, "incomplete", conditions, (event,))

    def can_afford(self, *events: Event) -> bool:
        """Return whether this budget would now accept a charge for releases. Nothing is charged.

        Parameters
        ----------
        *events : Event
            The accounting events of the releases.

        Returns
        -------
        bool
            True if all events together fit. For a part, they must also fit into the table's budget.
            Public.

        Raises
        ------
        UnprovenError
            If an event has no bound in the privacy measure of the budget.
        BudgetExceededError
            If this process is a fork of the process that opened the budget.
        LedgerError
            If the database cannot be read.
        ParameterError
            If an argument is not an `Event`.
        """
        self.check_process()
        cost, failure = self._facts.price(events)
        return all(row.charged(cost, failure).holds for row in self._rows())

    def remaining_releases(self, epsilon: float = 1.0) -> int | None:
        """Return the number of further synthetic tables of one epsilon that fit into this budget.

        Each table is charged as the usual fits are. They are charged in Gaussian differential
        privacy at the delta of the budget, or in pure epsilon if this delta is 0.

        Parameters
        ----------
        epsilon : float, default 1.0
            Epsilon of each table, above 0.

        Returns
        -------
        int or None
            At least 0. None if the privacy measure of the budget has no bound for these fits.

        Raises
        ------
        LedgerError
            If the database cannot be read.
        ParameterError
            If epsilon is not a finite number above 0.

        Examples
        --------
        >>> import tempfile
        >>> from missdp.governance import Ledger
        >>> ledger = Ledger(f"sqlite:///{tempfile.mkdtemp()}/budget.db", who="ada")
        >>> ledger.create("patients-2026", epsilon=3.0, delta=1e-6, privacy_measure="gdp")
        >>> ledger.budget("patients-2026").remaining_releases()
        7
        """
        facts, epsilon = self._facts, check_positive("epsilon", epsilon)
        cost = Cost.from_epsilon("gdp" if facts.delta else "pure", epsilon, facts.delta)
        try:
            price, _ = facts.price([cost.event()])
        except UnprovenError:
            return None
        return max(0, int(self._exact_remainder() / price))

    def pays_for(self, ledger: str) -> bool:
        """Return whether a charge to this budget is charged to a named budget of a ledger, too.

        A ledger is a database of budgets (`missdp.governance.Ledger`).

        Parameters
        ----------
        ledger : str
            Name of a ledger budget, optionally after a URL and ``#``. A schema may name the budget
            that must pay for its rows.

        Returns
        -------
        bool
            True if this is the named budget, or a part of it, and the URL is the URL of this
            ledger. Public.
        """
        url, _, name = ledger.partition("#")
        return name in path_of(self._facts.name) and (not url or self._ledger.is_at(url))

    def filter(self, *, label: str = "") -> FilterEvent:
        """Return the accounting event that states the fixed total of this budget as one release.

        The log of the event is empty, since the ledger records the releases.

        Parameters
        ----------
        label : str, default ""
            Public name in reports. By default the name of the budget.

        Returns
        -------
        FilterEvent
            The total as capacity. It is a `UnitEvent` if the budget protects units of several rows,
            such as all rows of one person. Public.
        """
        facts = self._facts
        capacity = facts.cost.event(adjacency=facts.adjacency)
        event = FilterEvent(
            capacity=capacity,
            label=label or facts.name,
            adjacency=facts.adjacency,
            failure=facts.failure,
        )
        if facts.unit == ROW:
            return event
        return UnitEvent(unit=facts.unit, rows=1, **vars(event))

    def _rows(self) -> list[Row]:
        """Return the present state of the table's budget and, if this is a part, of the part."""
        return [self._ledger.row(name) for name in path_of(self._facts.name)]

    def _exact_remainder(self) -> Fraction:
        return min(exact(row.facts.cost.amount) - row.spent for row in self._rows())

    def _record(self, parts: Events, entries: Entries, conditions: Iterable[Condition]) -> None:
        stated, (unit, _) = all_conditions(conditions), unit_of(as_events(entries))
        what = replace(self._what, conditions=stated, unit=unit)
        request = next(self._requests, None)
        self._ledger.start(self._facts.name, parts, what, request=request)

    def __repr__(self) -> str:
        return f"{super().__repr__()[:-1]}, in the ledger as {self._facts.name!r})"
