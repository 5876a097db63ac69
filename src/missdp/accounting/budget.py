"""Budgets: charged before anything is computed, and shared by clones.

A `Filter` takes releases that are chosen along the way, up to a cap. A budget for releases that
were all fixed before the first of them is a `Composition` (`missdp.accounting.plans`).
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal, NoReturn, Self, TypeAlias

from missdp.accounting.events import (
    Adjacency,
    Event,
    PureEvent,
    check_adjacency,
    convert_adjacency,
    flatten,
    unit_of,
)
from missdp.accounting.exact import exact, float_down, float_up, total
from missdp.accounting.filters import CheckedLog, FilterEvent, without_failure
from missdp.accounting.guarantee import Guarantee
from missdp.accounting.measures import Cost, PrivacyMeasure, approximate_delta
from missdp.accounting.unit_costs import UnitEvent
from missdp.conditions import Condition, all_conditions
from missdp.errors import (
    BudgetExceededError,
    LedgerError,
    ParameterError,
    check_delta,
    check_positive,
)

# A token of this process. Each fork gets a new token, since process numbers are used again.
_FORKS = [object()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _FORKS.append(object()))

Events: TypeAlias = tuple[Event, ...]
Entries: TypeAlias = "tuple[Event | Filter, ...]"
_ROW_EVENTS = (PureEvent(epsilon=0.0),)  # an event that protects single rows


def as_events(entries: Entries) -> Events:
    """Return the accounting events of the entries of a budget.

    Parameters
    ----------
    entries : tuple of Event or Filter
        Charged events, and budgets that were reserved.

    Returns
    -------
    tuple of Event
        A reserved budget is one event, its cap.
    """
    return tuple(entry.filter() if isinstance(entry, Filter) else entry for entry in entries)


class Budget:
    """Base class of privacy budgets, which are charged before private rows are read.

    There are two kinds. A `Filter` pays for releases that are chosen along the way. A `Composition`
    pays for releases that were all fixed in advance. A budget is one object: a copy is the budget
    itself, it cannot be pickled, and a forked process cannot charge it. A subclass defines
    ``can_afford``, ``_record`` and ``_stated``.
    """

    charged_first: ClassVar[bool] = False
    """Whether a fit must charge the budget before it opens the private rows."""

    def __init__(self, epsilon: float, delta: float, adjacency: Adjacency) -> None:
        self._epsilon = epsilon
        self._delta = check_delta("delta", delta)
        self._adjacency = check_adjacency(adjacency)
        self._entries: tuple[Event | Filter, ...] = ()
        self._conditions: tuple[Condition, ...] = ()
        self._lock = threading.RLock()
        self._process = (os.getpid(), _FORKS[-1])

    @property
    def epsilon(self) -> float:
        """Return the total epsilon that all releases charged to this budget may cost together.

        Returns
        -------
        float
            At least 0. It does not change when the budget is charged.
        """
        return self._epsilon

    @property
    def delta(self) -> float:
        """Return the total delta at which the budget states its total epsilon.

        Returns
        -------
        float
            In [0, 1). It does not change when the budget is charged.
        """
        return self._delta

    @property
    def adjacency(self) -> Adjacency:
        """Return the neighbouring relation for which this budget's epsilon and delta hold.

        Returns
        -------
        {"add-remove", "replace-one"}
            Neighbouring tables differ by one added or removed row, or by one replaced row.
        """
        return self._adjacency

    @property
    def events(self) -> tuple[Event, ...]:
        """Return the accounting events of all releases that were charged to this budget.

        An event states the noise and the sensitivity of a release, from which its cost follows.

        Returns
        -------
        tuple of Event
            In the order of the charges. A part that `reserve` set aside is one event, its cap.
        """
        return as_events(self._entries)

    def charge(self, *events: Event, conditions: Iterable[Condition] = ()) -> None:
        """Charge the cost of releases to this budget, or raise an error and charge nothing.

        Call it *before* the private rows are read. Nothing is refunded: a computation that fails
        after its charge may already have revealed something by failing.

        Parameters
        ----------
        *events : Event
            The accounting events of the releases. An event states noise and sensitivity.
        conditions : iterable of Condition, default ()
            Assumptions under which the releases are private. They become part of `spent`.

        Raises
        ------
        BudgetExceededError
            If the budget does not cover the events, or this process is a fork of the process that
            made the budget.
        UnprovenError
            If no bound is proven for an event, or the events protect different units (rows, or all
            rows of one person).
        ParameterError
            If an argument is not an `Event`, or a condition is not a `Condition`.
        LedgerError
            If the budget is in a ledger, and the charge may not have been recorded.
        """
        self.check_process()
        self._record(flatten(events), events, conditions)

    def reserve(
        self,
        part: Filter,
        *,
        label: str = "",
        conditions: Iterable[Condition] = (),
        extra_events: Iterable[Event] = (),
    ) -> Filter:
        """Charge the cap of a smaller budget to this budget, and return the smaller budget.

        The cap is charged now, in the privacy measure of the part. Later releases are charged to
        the part and cost this budget nothing more. An amount that the part does not spend is lost.

        Parameters
        ----------
        part : Filter
            A `Filter` to which nothing was charged, and which was not reserved before. Its
            ``failure`` is 0.
        label : str, default ""
            Public name of the part in reports.
        conditions : iterable of Condition, default ()
            Assumptions of all releases from the part. Conditions that are charged to the part are
            added to them.
        extra_events : iterable of Event, default ()
            Accounting events that this budget pays in addition to the cap. All of them are charged
            with the part, or no charge is made.

        Returns
        -------
        Filter
            The object ``part``, from which releases can now be paid.

        Raises
        ------
        BudgetExceededError
            If the cap and the additional events do not fit. Nothing is charged.
        ParameterError
            If ``part`` is not a fresh `Filter`.
        UnprovenError
            If no bound is proven for the cap or an additional event in the measure of this budget.

        Examples
        --------
        >>> from missdp import Filter
        >>> budget = Filter(1.0, 1e-5)
        >>> parts = [budget.reserve(Filter(0.2, 1e-6, measure="gdp")) for _ in range(5)]
        >>> round(budget.remaining_epsilon, 2)
        0.59
        """
        self.reserve_each([part], labels=[label], conditions=conditions, extra_events=extra_events)
        return part

    def reserve_each(
        self,
        parts: Sequence[Filter],
        *,
        labels: Sequence[str],
        conditions: Iterable[Condition] = (),
        extra_events: Iterable[Event] = (),
    ) -> None:
        """Charge the caps of several smaller budgets to this budget, all of them or none.

        `reserve` describes the effect for a single part. The objects in ``parts`` can pay for
        releases after the call.

        Parameters
        ----------
        parts : sequence of Filter
            Different `Filter` objects to which nothing was charged, and which were not reserved
            before. The ``failure`` of each part is 0.
        labels : sequence of str
            The public name of each part, in the order of ``parts``.
        conditions : iterable of Condition, default ()
            Assumptions of all releases from the parts.
        extra_events : iterable of Event, default ()
            Accounting events that this budget pays in addition to the caps.

        Raises
        ------
        BudgetExceededError
            If the caps and the additional events do not fit together. Nothing is charged.
        ParameterError
            If a part is not a fresh `Filter`, or two parts are one object.
        UnprovenError
            If no bound is proven for a cap or an additional event in the measure of this budget.
        """
        self.check_process()
        fresh = all(isinstance(part, Filter) and part._is_fresh for part in parts)
        if not fresh or len({id(self), *map(id, parts)}) <= len(parts):
            raise ParameterError("only a fresh Filter without failure can be reserved")
        for part, label in zip(parts, labels, strict=True):
            part._label = label
        cap_events, extra = [part.filter() for part in parts], tuple(extra_events)
        self._record(flatten((*cap_events, *extra)), (*parts, *extra), conditions)
        for part in parts:
            part._reserved, part._payer = True, self

    def can_afford(self, *events: Event) -> bool:
        """Return whether this budget would now accept a charge for releases. Nothing is charged.

        Parameters
        ----------
        *events : Event
            The accounting events of the releases.

        Returns
        -------
        bool
            True if `charge` would accept all events together.

        Raises
        ------
        BudgetExceededError
            If this process is a fork of the process that made the budget.
        """
        raise NotImplementedError

    def _record(self, parts: Events, entries: Entries, conditions: Iterable[Condition]) -> None:
        """Record entries, whose elementary events are ``parts``, or raise and record nothing."""
        raise NotImplementedError

    @property
    def spent(self) -> Guarantee:
        """Return the privacy guarantee of all releases that were charged to this budget.

        The guarantee of a `Filter` is its total epsilon, even if less was spent. The spent amount
        depends on released answers, so it guarantees nothing. The guarantee of a `Composition` is
        the guarantee of its complete plan.

        Returns
        -------
        Guarantee
            Guarantee for the incomplete table, with the conditions of all charges. Epsilon and
            delta are 0 before the first charge.
        """
        with self._lock:
            conditions, charged = self._held_conditions(), bool(self._entries)
        if charged:
            return self._stated(conditions)
        return Guarantee(0.0, 0.0, self._adjacency, "incomplete", conditions)

    def _stated(self, conditions: tuple[Condition, ...]) -> Guarantee:
        """Return the guarantee of the total budget."""
        raise NotImplementedError

    def _held_conditions(self) -> tuple[Condition, ...]:
        """The conditions of every release, including releases from reserved parts."""
        with self._lock:
            entries, held = self._entries, self._conditions
        parts = (c for e in entries if isinstance(e, Filter) for c in e._held_conditions())
        return (*held, *parts)

    def pays_for(self, ledger: str) -> bool:
        """Return whether a charge to this budget is charged to a named budget of a ledger, too.

        A ledger is a database of budgets (`missdp.governance.Ledger`). A schema may name the ledger
        budget that must pay for its rows.

        Parameters
        ----------
        ledger : str
            Name of the ledger budget, optionally after a URL and ``#``.

        Returns
        -------
        bool
            False for every budget outside a ledger.
        """
        del ledger
        return False

    def check_process(self) -> None:
        """Raise an error if this process is a fork of the process that made the budget.

        A fork holds a copy of the budget, which could be spent a second time.

        Raises
        ------
        BudgetExceededError
            If the process is a fork.
        """
        if self._process != (os.getpid(), _FORKS[-1]):
            raise BudgetExceededError(
                "this budget belongs to the process that made it: a fork holds a copy, which could "
                "be spent a second time. Charge it in the parent process, or use threads"
            )

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(epsilon={self._epsilon:g}, delta={self._delta:g}, "
            f"adjacency={self._adjacency!r})"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            f"a {type(self).__name__} cannot be pickled: a copy in another process could be spent "
            "a second time. Charge it in the parent process, or use threads"
        )


class Filter(Budget):
    """A privacy budget for releases that are chosen one after the other, up to a fixed total.

    Use it if noise scales or the number of releases depend on earlier answers. One filter is one
    object: copies, deep copies and scikit-learn clones are the filter itself, so that
    cross-validation spends from it. It cannot be pickled, and a forked process cannot spend it. All
    methods are thread-safe.

    Parameters
    ----------
    epsilon : float
        Total epsilon, finite and above 0.
    delta : float, default 0.0
        Total delta, in [0, 1). At 0 the filter pays for pure DP releases only.
    measure : {"pure", "zcdp", "gdp"}, optional
        The privacy measure in which costs add up: pure epsilons, zCDP rhos, or squares of the mu of
        Gaussian DP. By default ``"pure"`` at delta 0, and otherwise ``"gdp"``, which is best for
        Gaussian noise. For an epsilon so large that a count needs less noise than Gaussian DP has a
        bound for, the default is ``"zcdp"``.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation for which the total holds. A replace-one filter also takes
        add-remove events and converts them (see `Event.to_replace_one`). An add-remove filter takes
        no replace-one event.
    failure : float, default 0.0
        The part of delta that is kept for events with a delta of their own (`ApproximateEvent`), at
        most delta. The deltas of these events add up to at most this value.

    Raises
    ------
    ParameterError
        If a number is out of range, or ``measure`` is not ``"pure"`` at a delta of 0.

    Notes
    -----
    A filter reads no private rows, so its numbers are public. The guarantee of all charged releases
    together is the total, even if less was spent.

    The proof is in the text of the module ``missdp.accounting.filters``. Sums are exact, and the
    total is never exceeded. A number that a person wrote counts as that decimal number, so ten
    charges of 0.1 fit into 1. The cost of noise counts as the exact quotient.

    References
    ----------
    Rogers, Roth, Ullman, Vadhan (2016), "Privacy odometers and filters: pay-as-you-go composition",
    NeurIPS, for pure epsilon.

    Feldman, Zrnic (2021), "Individual privacy accounting via a Rényi filter", NeurIPS, and
    Whitehouse, Ramdas, Rogers, Wu (2023), "Fully-adaptive composition in differential privacy",
    ICML, for zCDP.

    Smith, Thakurta (2022), "Fully adaptive composition for Gaussian differential privacy",
    arXiv:2210.17520, for Gaussian DP.

    Examples
    --------
    >>> from missdp.accounting import Filter, LaplaceEvent
    >>> budget = Filter(1.0)
    >>> budget.charge(LaplaceEvent(sensitivity=1, scale=2.0))
    >>> budget.remaining_epsilon
    0.5
    >>> budget.charge(LaplaceEvent(sensitivity=1, scale=1.0))
    Traceback (most recent call last):
        ...
    missdp.errors.BudgetExceededError: ...
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        measure: PrivacyMeasure | None = None,
        adjacency: Adjacency = "add-remove",
        failure: float = 0.0,
    ) -> None:
        super().__init__(check_positive("epsilon", epsilon), delta, adjacency)
        self._failure = check_delta("failure", failure)
        if self._failure > self._delta:
            raise ParameterError("failure is a part of delta, and at most delta")
        cost = Cost.for_counts if measure is None else partial(Cost.from_epsilon, measure)
        self._cap_at(cost(self._epsilon, self._spared))
        self._spent, self._failed = Fraction(0), Fraction(0)
        self._label = ""
        self._reserved = False
        self._unit: dict[str, Any] | None = None  # as facts of a `UnitEvent`
        self._bound = 1  # which all rows of a unit count together
        self._payer: Budget | None = None  # of which this is a part

    @classmethod
    def from_cost(
        cls, cost: Cost, *, delta: float = 0.0, adjacency: Adjacency = "add-remove"
    ) -> Self:
        """Return a budget whose total is a given cost in one privacy measure.

        Parameters
        ----------
        cost : Cost
            The total of the budget: an amount of pure epsilon, zCDP rho, or squared mu of Gaussian
            DP. Above 0.
        delta : float, default 0.0
            The delta at which the budget states its epsilon, in [0, 1). It is above 0 unless the
            cost is pure epsilon. The cap does not depend on it.
        adjacency : {"add-remove", "replace-one"}, default "add-remove"
            The neighbouring relation for which the total holds.

        Returns
        -------
        Filter
            A budget to which nothing was charged.

        Raises
        ------
        ParameterError
            If the cost is not a `Cost` above 0, delta is out of range or the adjacency is
            unknown. Also if delta is 0 for a cost that is not pure epsilon.

        Examples
        --------
        >>> from missdp import Filter
        >>> from missdp.accounting import Cost
        >>> budget = Filter.from_cost(Cost(privacy_measure="zcdp", amount=0.02), delta=1e-6)
        >>> budget.remaining.amount, round(budget.epsilon, 2)
        (0.02, 0.9)
        """
        if not isinstance(cost, Cost) or cost.amount == 0:
            raise ParameterError("cost must be a Cost above 0")
        delta, measure = check_delta("delta", delta), cost.privacy_measure
        if measure != "pure" and delta == 0:
            raise ParameterError(f"the measure {measure!r} is worth nothing at delta 0")
        part = cls(cost.epsilon(delta) or cost.amount, delta, measure=measure, adjacency=adjacency)
        part._cap_at(cost)
        return part

    def _cap_at(self, cost: Cost) -> None:
        """Set the cap to the cost of its event, in which a mu is rounded."""
        self._cost, self._cap = cost, cost.price(cost.event()) if cost.amount else Fraction(0)

    def _for_units(
        self, unit: str, rows: int, *, counts_as: Literal["rows", "one"] = "rows"
    ) -> Filter:
        """Return a fresh filter with the same total that protects units of at most ``rows`` rows.

        Not public: the caller must have chosen the rows of each unit, which cannot be checked here.
        Events that are charged to it, its `cost` and its `remaining` are stated for one row. Its
        epsilon, its `filter`, its `spent` and its `remaining_epsilon` are stated for a unit. With
        ``counts_as="one"``, all rows of a unit count as one together.
        """
        if not self._is_fresh:
            raise ParameterError("only a fresh Filter without failure can be for units")
        bound = rows if counts_as == "rows" else 1
        cost = self._cost.per_row(bound)
        part = type(self).from_cost(cost, delta=self._delta, adjacency=self._adjacency)
        part._epsilon, part._bound = self._epsilon, bound
        part._unit = {"unit": unit, "rows": rows, "counts_as": counts_as}
        part.filter()  # raises now if nothing is proven
        return part

    @property
    def _is_fresh(self) -> bool:
        """Whether nothing was charged to it, and it is no part of another budget."""
        return not (self._reserved or self._entries or self._failure)

    @property
    def _spared(self) -> float:
        """The delta that failures leave, at which the cap is worth epsilon."""
        return float_down(exact(self._delta) - exact(self._failure))

    @property
    def failure(self) -> float:
        """Return the part of the total delta that is kept for releases with a delta of their own.

        These releases are charged as `ApproximateEvent`. Their deltas add up to at most this value.

        Returns
        -------
        float
            A part of delta, from 0 to the total delta. Public. Charges do not change it.
        """
        return self._failure

    @property
    def cost(self) -> Cost:
        """Return the fixed total of this budget in its privacy measure.

        Returns
        -------
        Cost
            An amount of pure epsilon, zCDP rho, or squared mu of Gaussian DP. Public. Charges
            do not change it. It is the cost for one row if the budget protects units of several
            rows.
        """
        return self._cost

    @property
    def remaining(self) -> Cost:
        """Return the amount of this budget that can still be charged, in its privacy measure.

        Returns
        -------
        Cost
            An amount of pure epsilon, zCDP rho, or squared mu of Gaussian DP, at least 0 and
            rounded down. It may be published, since charges depend on public and released
            values only.

        Examples
        --------
        >>> from missdp.accounting import Filter, GaussianEvent
        >>> budget = Filter(1.0, 1e-6, measure="zcdp")
        >>> budget.charge(GaussianEvent(sensitivity=1, sigma=10.0))
        >>> round(budget.remaining.amount, 4)
        0.0194
        """
        with self._lock:
            remaining = exact(self._cost.amount) - self._spent
        return replace(self._cost, amount=max(0.0, float_down(remaining)))

    @property
    def remaining_epsilon(self) -> float:
        """Return the total epsilon less the epsilon of all charged releases, at the budget's delta.

        Epsilons do not add up at a delta above 0. So more than this value may still be affordable,
        and `can_afford` returns the exact answer.

        Returns
        -------
        float
            In epsilon, at least 0 and rounded down. It is stated for a unit of protection, as the
            total is. It may be published, since charges depend on public and released values only.
        """
        if self._cost.privacy_measure == "pure":
            return float_down(exact(self.remaining.amount) * self._bound)
        with self._lock:
            running = replace(self._cost, amount=float_up(self._spent * self._bound**2))
        return max(0.0, float_down(exact(self._epsilon) - exact(running.epsilon(self._spared))))

    def filter(self, *, label: str = "") -> FilterEvent:
        """Return the accounting event that states the fixed total of this budget as one release.

        Another budget or a `Guarantee` accounts for all releases of this budget by this event.

        The event has no private value. Nothing is charged.

        Parameters
        ----------
        label : str, default ""
            Public name in reports. By default the name under which the budget was reserved.

        Returns
        -------
        FilterEvent
            The total as capacity, with a log of the charged events. It is a `UnitEvent` if the
            budget protects units of several rows, such as all rows of one person.
        """
        facts: dict[str, Any] = {
            "capacity": self._cost.event(adjacency=self._adjacency),
            "log": CheckedLog(self.events),
            "label": label or self._label,
            "adjacency": self._adjacency,
            "failure": float(self._failure),
        }
        if self._unit is None:
            return FilterEvent(**facts)
        return UnitEvent(**self._unit, **facts)

    def _stated(self, conditions: tuple[Condition, ...]) -> Guarantee:
        pure = self._cost.privacy_measure == "pure" and not self._failure
        delta, proof = 0.0 if pure else self._delta, (self.filter(),)
        return Guarantee(self._epsilon, delta, self._adjacency, "incomplete", conditions, proof)

    def can_afford(self, *events: Event) -> bool:
        """Return whether this budget would now accept a charge for releases. Nothing is charged.

        Parameters
        ----------
        *events : Event
            The accounting events of the releases.

        Returns
        -------
        bool
            True if the costs of all events together fit into the remaining amount. Public.

        Raises
        ------
        UnprovenError
            If an event has no bound in the privacy measure of the budget, or is a replace-one event
            in an add-remove budget.
        BudgetExceededError
            If this process is a fork of the process that made the budget.
        ParameterError
            If an argument is not an `Event`.
        """
        self.check_process()
        with self._lock:
            return self._fits(*self._with(convert_adjacency(self._adjacency, flatten(events))))

    def _record(self, parts: Events, entries: Entries, conditions: Iterable[Condition]) -> None:
        stated = all_conditions(conditions)
        converted = convert_adjacency(self._adjacency, parts)
        with self._lock:
            # The cost of a part was charged as a fact about rows, unless the part is for units.
            is_for_rows = self._payer is not None or self._failure
            charged = _ROW_EVENTS if is_for_rows else as_events(self._entries[:1])
            unit_of((*charged, *as_events(entries)))
            sums = self._with(converted)
            if not self._fits(*sums):
                remedy = "Add noise, ask for less, or use a larger budget"
                if sums[1] > exact(self._failure):
                    remedy = "A release with a delta of its own needs a Filter with failure=..."
                raise BudgetExceededError(
                    f"the release does not fit into the budget (epsilon={self._epsilon:g}, "
                    f"delta={self._delta:g}, {self._adjacency}); nothing was computed or recorded. "
                    f"{remedy}"
                )
            self._spent, self._failed = sums
            self._entries += entries
            self._conditions += stated

    def _with(self, parts: tuple[Event, ...]) -> tuple[Fraction, Fraction]:
        """Return the cost and the deltas of the charged events and of these parts together."""
        spent, failed = self._spent, self._failed
        for part, times in Counter(parts).items():
            spent = total((spent, times * self._cost.price(without_failure(part))))
            failed = total((failed, times * exact(approximate_delta(part))))
        return spent, failed

    def _fits(self, spent: Fraction, failed: Fraction) -> bool:
        return spent <= self._cap and failed <= exact(self._failure)

    def pays_for(self, ledger: str) -> bool:
        """Return whether this budget is a part of the named budget of a ledger.

        A ledger is a database of budgets (`missdp.governance.Ledger`).

        Parameters
        ----------
        ledger : str
            Name of the ledger budget, optionally after a URL and ``#``.

        Returns
        -------
        bool
            False if the budget was not reserved from a budget in the ledger. Public.
        """
        return self._payer is not None and self._payer.pays_for(ledger)


def check_paid(ledger: str, budget: Budget | None) -> None:
    """Raise an error if rows must be paid from a ledger, and a budget is not in this ledger.

    Parameters
    ----------
    ledger : str
        Name of the ledger budget that the schema of the rows names, empty if there is none.
    budget : Filter, Composition or None
        The budget that is to pay.

    Raises
    ------
    LedgerError
        If the budget does not stand in the named ledger budget.
    """
    if ledger and (budget is None or not budget.pays_for(ledger)):
        raise LedgerError(
            f"the schema names the budget {ledger!r}, without which nothing is read: pass "
            "--ledger and --account, or budget=Ledger(url).budget(name)"
        )
