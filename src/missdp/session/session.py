"""The session: the only code that releases numbers about private rows.

A *query* is public. It states a question on the rows, the columns that it reads, and the
sensitivity of its answer to one row. A *mechanism* is public, too. It turns the exact answer into a
released answer, and states the event of the release. `Session.measure` charges, computes and draws,
in this order, in `Session._release`. Nothing else in this library turns private rows into released
numbers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NoReturn, Protocol, TypeAlias, final

import numpy as np

from missdp.accounting import (
    Composition,
    Condition,
    Cost,
    Event,
    Filter,
    FilterEvent,
    Guarantee,
    SampledGaussianEvent,
    UnitEvent,
)
from missdp.accounting.budget import Events, check_paid
from missdp.accounting.events import Adjacency, flatten
from missdp.accounting.measures import is_pure
from missdp.errors import ParameterError, UnprovenError, check_number
from missdp.files import mark_noise_drawn
from missdp.session.measurement import Measurement, Radius
from missdp.session.noise import NoiseSource
from missdp.session.redaction import redacted
from missdp.session.training import PaidSteps, SampledSum, TrainingPlan, TrainingRows


class Mechanism(Protocol):
    """Protocol of mechanisms, which turn an exact answer into a released answer.

    A mechanism has public parameters only, such as the scale of its noise.
    """

    def draw(self, exact: Any, source: NoiseSource) -> Any:
        """Return the released answer of a query, drawn around its exact answer.

        Parameters
        ----------
        exact : object
            The exact answer, usually an array. Private.
        source : NoiseSource
            The source of random draws.

        Returns
        -------
        object
            The noisy answer. Released.
        """


@dataclass(frozen=True)
class Release:
    """Plan of one release of a session: the event to charge, the exact computation, and the noise.

    A query makes it from public facts, before anything is charged. Authors of queries return it
    from ``plan``.

    Parameters
    ----------
    event : Event
        The accounting event (noise and sensitivity) to charge.
    mechanism : Mechanism
        The mechanism that draws the released answer.
    exact : callable
        Function that returns the exact answer. Private: only a session calls it, after the charge.
        For an iterative query it is called with the public or released point of the step.
    extra_events : tuple of Event, default ()
        Events that are charged together with ``event``.
    steps : int, default 1
        Number of steps of an iterative query. The event covers all steps.
    read : callable, optional
        Function from the released answer to the value of the measurement. This is post-processing.
        By default the value is the answer.
    radius : callable, optional
        Function from a released answer to the half-width of the error by level, as in
        `Measurement`. By default it returns None.
    expected_radius : float, optional
        Half-width that is expected to hold the noise of a number with probability 0.95.
    """

    event: Event
    mechanism: Mechanism
    exact: Callable[..., Any]
    extra_events: tuple[Event, ...] = ()
    steps: int = 1
    read: Callable[[Any], Any] = lambda released: released
    radius: Callable[[Any], Radius | None] = lambda released: None  # noqa: ARG005
    expected_radius: float | None = None


@dataclass(frozen=True)
class Reservation:
    """A part of a privacy budget that is set aside in advance for one kind of release.

    `Session.reserve_each` charges several parts at once.

    Parameters
    ----------
    cost : Cost
        The total of the part, above 0: an amount of pure epsilon, zCDP rho, or squared mu of
        Gaussian DP.
    label : str
        Public name of the part in reports.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation for which the total is stated. A replace-one budget converts an
        add-remove total.

    Notes
    -----
    The object is public and charges nothing by itself.

    Examples
    --------
    >>> from missdp.session import Reservation
    >>> from missdp.accounting import Cost
    >>> Reservation(Cost(privacy_measure="pure", amount=0.25), "bins").event.capacity.epsilon
    0.25
    """

    cost: Cost
    label: str
    adjacency: Adjacency = "add-remove"

    @property
    def event(self) -> Event:
        """Return the accounting event of all releases from this part of a budget.

        Returns
        -------
        FilterEvent
            The total of the part as a cap, with its label. Public.

        Raises
        ------
        ParameterError
            If the adjacency is unknown.
        """
        capacity = self.cost.event(adjacency=self.adjacency)
        return FilterEvent(capacity=capacity, label=self.label, adjacency=self.adjacency)


@dataclass(frozen=True)
class Preview:
    """Cost and expected error of a measurement, known before it is made.

    Attributes
    ----------
    event : Event
        The event that the measurement would charge.
    expected_radius : float or None
        Half-width that is expected to hold the noise of a number with 95 %, where it is known.
    """

    event: Event
    expected_radius: float | None


class PrivateRows(Protocol):
    """Protocol of private rows that a session measures. There are three kinds.

    * `missdp.session.counted_rows.CountedRows`: rows of codes, of which combinations are counted.
    * `missdp.statistics.table_rows.TableRows`: single rows with imputed cells.
    * `missdp.pricing.standardised_rows.StandardisedRows`: rows of bounded numbers.
    """

    @property
    def adjacency(self) -> Adjacency:
        """Return the neighbouring relation under which sensitivities of queries are proven.

        Returns
        -------
        {"add-remove", "replace-one"}
            Public.
        """

    @property
    def facts(self) -> Any:
        """Return the public facts about the private rows.

        Returns
        -------
        object
            The type depends on the kind of rows. Public.
        """

    @property
    def ledger(self) -> str:
        """Return the name of the ledger budget that must pay for the rows, or an empty text.

        Returns
        -------
        str
            Public.
        """

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee of every answer about the private rows.

        Returns
        -------
        tuple of Condition
            They follow from public facts about the rows.
        """

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return the plan of the release that answers a query, from public facts alone.

        Parameters
        ----------
        query : object
            A query of a type that is proven for the rows.
        mechanism : object
            A mechanism, or the cost to spend on noise.

        Returns
        -------
        Release
            The event to charge, the exact computation, and the noise. Nothing is read or charged.

        Raises
        ------
        ParameterError
            If the rows do not answer the query.
        """

    def changed(self, change: Any, rng: Callable[[], np.random.Generator]) -> PrivateRows:
        """Return the private rows after a change that treats each row by itself.

        Parameters
        ----------
        change : object
            A change of a registered type, with public or released values only.
        rng : callable
            Function that returns a generator for changes that draw values.

        Returns
        -------
        PrivateRows
            The changed rows. Nothing is computed before the next charge.
        """

    def expect(self, queries: Iterable[Any]) -> None:
        """Note the queries that may follow, so that few passes over the rows answer all of them.

        Parameters
        ----------
        queries : iterable
            The queries. Public.
        """


def check_pays(
    budget: Filter | Composition | None, ledger: str, adjacency: Adjacency, name: str
) -> None:
    """Raise an error if a budget cannot pay for rows, by public facts about them alone.

    Parameters
    ----------
    budget : Filter, Composition or None
        The budget to charge. None: a budget is made for the rows later, outside a ledger.
    ledger : str
        The ledger budget that the schema of the rows names, empty if there is none.
    adjacency : {"add-remove", "replace-one"}
        The neighbouring relation under which the sensitivities of the queries are proven.
    name : str
        Name of the rows or of their reader, for the error.

    Raises
    ------
    LedgerError
        If the budget is not a part of the ledger.
    UnprovenError
        If rows are private under replace-one adjacency alone, and the budget is add-remove.
    """
    check_paid(ledger, budget)
    if budget is not None and (adjacency, budget.adjacency) == ("replace-one", "add-remove"):
        raise UnprovenError(
            f"{name} is private under replace-one adjacency, with a public number of rows: nothing "
            "follows for adding or removing a row. Give it a budget made with "
            "Filter(epsilon, delta, adjacency='replace-one'); such a budget takes releases under "
            "add-remove too"
        )


Charge: TypeAlias = Callable[..., None]
"""Function that records events as spent, or raises an error and records none."""


@final
class Session:
    """Private rows, a privacy budget and a source of noise, which answer queries together.

    A session is the only way from private rows to released numbers. Each answer is first charged to
    the budget, then computed, then released with noise. A session cannot be copied or pickled, and
    does not answer in a fork of its process.

    Parameters
    ----------
    rows : CountedRows, TableRows or StandardisedRows
        The private rows, with the queries that are proven for them.
    budget : Filter or Composition
        Charged before each answer is computed. A replace-one budget takes rows of either adjacency
        and converts events. An add-remove budget does not pay for replace-one rows.
    noise : NoiseSource
        The source of the noise: `SecureNoise` for releases, `SeededNoise` for tests.
    conditions : iterable of Condition, default ()
        Conditions of every release, in addition to the conditions of the rows and of the source of
        noise.
    limit : callable, optional
        Function that gets each accounting event before its charge and may raise an error. It keeps
        a fit within the limits of its parts. The guarantee for the table before values went missing
        rests on these limits.
    trainings : TrainingPlan, optional
        Trainings of networks that were charged in advance, together with the budget.

    Raises
    ------
    ParameterError
        If the budget is not a `Filter` or a `Composition`, or does not match the trainings.
    LedgerError
        If the schema of the rows names a ledger budget, and ``budget`` is not a part of it.
    UnprovenError
        If the rows are private under replace-one adjacency alone, and the budget is add-remove.

    Notes
    -----
    All answers together are private within the total of the budget, under its adjacency. The
    guarantee protects the incomplete table. Errors quote no private value.

    Examples
    --------
    >>> from missdp.accounting import Composition, Filter
    >>> from missdp.datasets import yrbss
    >>> from missdp.session import CountedRows, Marginal, Noise, SecureNoise, Session
    >>> from missdp.sources import MemorySource, strategy_named
    >>> rows = CountedRows.from_source(MemorySource(yrbss().table()), strategy_named("joint"))
    >>> session = Session(rows, budget=Filter(1.0), noise=SecureNoise())
    >>> counts = session.measure(Marginal(("gender",)), Noise("laplace", 4.0)).value
    >>> counts.shape == session.facts.shape(("gender",)), session.remaining.amount
    (True, 0.75)
    """

    def __init__(
        self,
        rows: PrivateRows,
        *,
        budget: Filter | Composition,
        noise: NoiseSource,
        conditions: Iterable[Condition] = (),
        limit: Charge | None = None,
        trainings: TrainingPlan | None = None,
    ) -> None:
        if not isinstance(budget, Filter | Composition):
            raise ParameterError("budget must be a Filter or a Composition")
        check_pays(budget, rows.ledger, rows.adjacency, repr(rows))
        if trainings is not None:
            if isinstance(budget, Filter) and isinstance(budget.filter(), UnitEvent):
                raise ParameterError(
                    "training is not proven for units that may have several rows. Use a family "
                    "that measures marginals, such as AllPairs, or a schema without a unit"
                )
            if trainings.first is not budget:
                raise ParameterError("the trainings were not charged together with this budget")
        self._rows, self._budget, self._noise = rows, budget, noise
        self._limit, self._trainings = limit, trainings
        self._conditions = tuple(dict.fromkeys((*conditions, *rows.conditions, *noise.conditions)))

    @property
    def facts(self) -> Any:
        """Return the public facts about the private rows of this session, such as their schema.

        Returns
        -------
        object
            For counted rows a `CountedFacts`, which has the schema and the shapes of counts.
            For rows of a table a `TableFacts`. Public.
        """
        return self._rows.facts

    @property
    def remaining(self) -> Cost:
        """Return the amount of the session's budget that can still be spent.

        Returns
        -------
        Cost
            An amount of pure epsilon, zCDP rho, or squared mu of Gaussian DP. Public.

        Raises
        ------
        ParameterError
            If the budget is a `Composition`, whose releases are all planned.
        """
        return self._filter.remaining

    @property
    def _filter(self) -> Filter:
        if not isinstance(self._budget, Filter):
            raise ParameterError("a Composition has no remainder: what it pays for is planned")
        return self._budget

    def share(self, part: float) -> Cost:
        """Return a share of the amount that the session's budget can still spend.

        Parameters
        ----------
        part : float
            The share, above 0 and at most 1.

        Returns
        -------
        Cost
            The share of `remaining`, in the privacy measure of the budget. Nothing is charged.
            Public.

        Raises
        ------
        ParameterError
            If the share is out of range, or the budget is a `Composition`.
        """
        part = check_number("a share", part, max_value=1.0, exclude_min=True)
        return replace(self.remaining, amount=self.remaining.amount * part)

    def generator(self) -> np.random.Generator:
        """Return a random generator for post-processing, such as drawing synthetic rows.

        Its draws give no privacy.

        Returns
        -------
        numpy.random.Generator
            Seeded by the operating system, or by the seed of a `SeededNoise`.
        """
        return self._noise.generator()

    def reserve(self, cost: Cost, *, label: str) -> Session:
        """Set a part of the session's budget aside, and return a session that spends it.

        The part is charged to this session now. The new session has the rows, noise and conditions
        of this session. Its answers are charged to the part and cost this session nothing more. An
        amount that the part does not spend is lost. Nothing is read.

        Parameters
        ----------
        cost : Cost
            The total of the part, under the adjacency of the budget. It may be in any privacy
            measure that has a bound in the measure of ``remaining``.
        label : str
            Public name of the part in reports.

        Returns
        -------
        Session
            A session on the rows of this session, whose budget is the part.

        Raises
        ------
        BudgetExceededError
            If the part does not fit. Nothing is charged.
        UnprovenError
            If the cost has no bound in the privacy measure of the budget.
        ParameterError
            If the cost is 0, or the budget is a `Composition`.
        LedgerError
            If the budget is in a ledger, and the charge may not have been recorded.
        """
        return self.reserve_each(Reservation(cost, label, self._budget.adjacency))[0]

    def reserve_each(self, *parts: Reservation) -> tuple[Session, ...]:
        """Set several parts of the session's budget aside, and return a session for each.

        All parts are charged, or none is. Nothing is read. A later query may depend on releases of
        an earlier part, since the total of each part is fixed now. An amount that a part does not
        spend is lost.

        Parameters
        ----------
        *parts : Reservation
            Total, public label and adjacency of each part.

        Returns
        -------
        tuple of Session
            A session for each part, in the given order. Its answers are charged to the part.

        Raises
        ------
        BudgetExceededError
            If the parts together do not fit. Nothing is charged.
        UnprovenError
            If a cost has no bound in the privacy measure of the budget.
        ParameterError
            If a cost is 0, or the budget is a `Composition`.
        LedgerError
            If the budget is in a ledger, and the charge may not have been recorded.
        """
        caps = []
        for part in parts:
            delta = 0.0 if part.cost.privacy_measure == "pure" else self._budget.delta
            caps.append(Filter.from_cost(part.cost, delta=delta, adjacency=part.adjacency))
        labels = [part.label for part in parts]
        self._filter.reserve_each(caps, labels=labels, conditions=self._conditions)
        return tuple(self._with(budget=cap) for cap in caps)

    def promise(self, *events: Event) -> Guarantee:
        """Return the privacy guarantee of some releases, with this session's conditions.

        Parameters
        ----------
        *events : Event
            The accounting events of the releases, or of the parts of the budget from which they
            were paid.

        Returns
        -------
        Guarantee
            Guarantee for the incomplete table, at the delta of the budget. The delta is 0 if all
            events are pure DP. Nothing is charged. Public.

        Raises
        ------
        UnprovenError
            If no finite epsilon is proven for the events at this delta.
        """
        pure = all(map(is_pure, flatten(events)))
        return Guarantee.from_events(
            events,
            delta=0.0 if pure else self._budget.delta,
            adjacency=self._budget.adjacency,
            conditions=self._conditions,
        )

    def preview(self, query: Any, mechanism: Any) -> Preview:
        """Return the cost and the expected error of a query. Nothing is read or charged.

        Parameters
        ----------
        query : object
            A query of a type that is proven for the rows, such as `Marginal`.
        mechanism : Noise, Selection or Cost
            The mechanism, of the type that the query takes, or the cost to spend on noise.

        Returns
        -------
        Preview
            The accounting event that `measure` would charge. Also the half-width that is expected
            to hold the noise of a number with probability 0.95, or None where it is not known.
            Public.

        Raises
        ------
        ParameterError
            If the rows do not answer the query, by public facts.
        UnprovenError
            If the proof covers no such query, by public facts.
        """
        release = self._rows.plan(query, mechanism)
        return Preview(release.event, release.expected_radius)

    def apply(self, change: Any) -> Session:
        """Return a session on the private rows after a change that treats each row by itself.

        A change is frozen and has public or released values only. It has one of a closed set of
        types, such as `LevelMerge`, which includes registered row functions. Neighbouring tables
        stay neighbours, so budget and conditions are equal. Nothing is computed or charged now, and
        the change has no cost.

        Parameters
        ----------
        change : LevelMerge, Recoding, FineCodes or row function
            The change. A row function maps one row to one row.

        Returns
        -------
        Session
            A session on the changed rows, with the budget of this session.

        Raises
        ------
        ParameterError
            If the change is of another type, or does not fit the rows.
        UnprovenError
            If nothing is proven for the change of these rows, such as groups of an imputed
            attribute.
        """
        return self._with(rows=self._rows.changed(change, self.generator))

    def expect(self, queries: Iterable[Any]) -> None:
        """Announce queries that may follow, so that few passes over the rows answer all of them.

        The call is free, and nothing is computed before the first charge.

        Parameters
        ----------
        queries : iterable
            The queries, public. Announced queries need not be measured.
        """
        self._rows.expect(queries)

    def measure(self, query: Any, mechanism: Any = None) -> Measurement:
        """Charge for a query, compute its exact answer, and return the answer with noise.

        Parameters
        ----------
        query : object
            A query of one of the types that are proven for the rows, such as `Marginal`. Subclasses
            are not accepted.
        mechanism : Noise, Selection or Cost, optional
            The mechanism, of the type that the query takes, or the cost to spend on noise. None if
            the query states its noise.

        Returns
        -------
        Measurement
            The released value, with the mechanism and the accounting event that was charged.

        Raises
        ------
        ParameterError
            If the rows do not answer the query, by public facts. Nothing is charged.
        BudgetExceededError
            If the budget cannot afford the query. Nothing is charged, and nothing is computed.
        UnprovenError
            If the noise has no bound in the privacy measure of the budget. Nothing is charged.
        LedgerError
            If the budget is in a ledger, and the charge may not have been recorded. Nothing is
            computed.
        DataError
            If the computation fails. The charge remains.
        """
        release = self._rows.plan(query, mechanism)
        events = (release.event, *release.extra_events)
        released = self._release(self._charge, events, release.mechanism, release.exact)
        value, radius = release.read(released), release.radius(released)
        return Measurement(value, release.mechanism, release.event, radius)

    def iterate(self, query: Any, mechanism: Any = None) -> Callable[..., Any]:
        """Charge for all steps of an iterative query, and return a function that answers each step.

        Parameters
        ----------
        query : object
            An iterative query of a type that is proven for the rows.
        mechanism : Noise, Selection or Cost, optional
            The mechanism, of the type that the query takes, or the cost to spend on noise. None if
            the query states its noise.

        Returns
        -------
        callable
            Function of a public or released point that returns the released answer of the next
            step. It raises `ParameterError` after as many steps as were charged.

        Raises
        ------
        ParameterError
            If the rows do not answer the query, by public facts. Nothing is charged.
        BudgetExceededError
            If the budget cannot afford all steps. Nothing is charged.
        UnprovenError
            If the noise has no bound in the privacy measure of the budget. Nothing is charged.
        LedgerError
            If the budget is in a ledger, and the charge may not have been recorded.
        """
        release = self._rows.plan(query, mechanism)
        self._charge(release.event, *release.extra_events)
        return self._paid(release.steps, release.event, release.mechanism, release.exact)

    def train(self, event: SampledGaussianEvent) -> TrainingRows:
        """Return the private rows for a network training that was charged in advance, once.

        Parameters
        ----------
        event : SampledGaussianEvent
            One of the trainings that were charged with the budget of this session.

        Returns
        -------
        TrainingRows
            The rows with a function that releases the noisy sum of each step. Rows that the
            strategy for missing values drops are not included. Each step counts against the charged
            steps.

        Raises
        ------
        ParameterError
            If the training was not charged, or its rows were returned before. If rows are streamed,
            have weights or belong to units with several rows. Nothing is read.
        BudgetExceededError
            If this process is a fork of the process that made the budget.
        """
        self._budget.check_process()
        if self._trainings is None:
            raise ParameterError(
                "no training was charged for this session. Pass trainings=TrainingPlan(...)"
            )
        codes = cache(self._rows.codes_for_training())  # type: ignore[attr-defined]
        self._trainings.take(event)
        step = replace(event, steps=1, required=None, label="")
        # Each step receives a function that computes the gradients of the sampled rows.
        paid = self._paid(event.steps, step, SampledSum.from_event(event), operator.call)
        return TrainingRows(event, codes, paid)

    def _paid(
        self, steps: int, event: Event, mechanism: Mechanism, exact: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return a function that answers the steps of a release whose total was charged."""
        paid = PaidSteps(steps)

        def step(*at: Any) -> Any:
            return self._release(paid.charge, (event,), mechanism, partial(exact, *at))

        return step

    def _charge(self, *events: Event) -> None:
        if self._limit is not None:
            for event in events:
                self._limit(event)
        self._budget.charge(*events, conditions=self._conditions)

    def _release(
        self, charge: Charge, events: Events, mechanism: Mechanism, exact: Callable[[], Any]
    ) -> Any:
        """Charge, compute and draw: the only lines that release a number about private rows."""
        charge(*events)
        with redacted():
            self._budget.check_process()
            numbers = exact()
            self._budget.check_process()
            mark_noise_drawn()
            return mechanism.draw(numbers, self._noise)

    def _with(
        self, *, rows: PrivateRows | None = None, budget: Filter | Composition | None = None
    ) -> Session:
        return Session(
            rows or self._rows,
            budget=budget or self._budget,
            noise=self._noise,
            conditions=self._conditions,
            limit=self._limit,
            trainings=None if budget else self._trainings,
        )

    def __repr__(self) -> str:
        return f"Session({self._rows!r})"

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            "a session cannot be copied or pickled: private rows are behind it. Keep the "
            "measurements"
        )
