"""The session: the one way by which numbers that depend on private rows leave.

A *query* is public: it says what is asked of the rows, which columns it reads and how far one row
can move its answer. A *mechanism* is public too: it says how the exact answer becomes a released
one, and which event states the cost of that. `Session.measure` charges, computes and draws, in this
order, in `Session._release`. Nothing else in this library turns private rows into released numbers.
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
from missdp.files import noise_is_drawn
from missdp.session.measurement import Measurement, Radius
from missdp.session.noise import NoiseSource
from missdp.session.redaction import redacted
from missdp.session.training import PaidSteps, SampledSum, TrainingPlan, TrainingRows


class Mechanism(Protocol):
    """How an exact answer becomes a released one; public."""

    def draw(self, exact: Any, source: NoiseSource) -> Any:
        """Return the released answer, drawn around the exact one."""


@dataclass(frozen=True)
class Release:
    """How a query will be answered: decided by public facts, before anything is charged.

    Attributes
    ----------
    event : Event
        What is charged.
    mechanism : Mechanism
        Draws the released answer.
    exact : callable
        Returns the exact answer. Private: only a session calls it, after the charge. For an
        iterative query it is called with the public or released point of the step.
    extra_events : tuple of Event
        Charged together with the event, or refused with it.
    steps : int
        How often an iterative query is answered; all steps together are the event.
    read : callable
        Turns the released answer into the value of the measurement; post-processing.
    radius : callable, optional
        Returns, for a released answer, the half-width of the error by level; see `Measurement`.
    expected_radius : float, optional
        Half-width that is expected to hold the noise of a number with 95 %.
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
    """A part of a budget to be set aside for one release.

    Attributes
    ----------
    cost : Cost
        The cap of the part, in the measure of the noise that is drawn.
    label : str
        Public name.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The relation that the cap is stated for. A replace-one budget converts an add-remove cap.
    """

    cost: Cost
    label: str
    adjacency: Adjacency = "add-remove"

    @property
    def event(self) -> Event:
        """What the part promises, whatever is released from it."""
        capacity = self.cost.event(adjacency=self.adjacency)
        return FilterEvent(capacity=capacity, label=self.label, adjacency=self.adjacency)


@dataclass(frozen=True)
class Preview:
    """What is publicly known of a measurement in advance.

    Attributes
    ----------
    event : Event
        What it would be charged.
    expected_radius : float or None
        Half-width that is expected to hold the noise of a number with 95 %, where it is known.
    """

    event: Event
    expected_radius: float | None


class PrivateRows(Protocol):
    """Private rows with public facts. There are three kinds.

    * `missdp.session.counted_rows.CountedRows`: rows of codes, of which combinations are counted.
    * `missdp.statistics.table_rows.TableRows`: single rows with imputed cells.
    * `missdp.pricing.standardised_rows.StandardisedRows`: rows of bounded numbers.
    """

    @property
    def adjacency(self) -> Adjacency:
        """The neighbouring relation under which the sensitivities of its queries are proven."""

    @property
    def facts(self) -> Any:
        """What is publicly known of the rows."""

    @property
    def ledger(self) -> str:
        """The budget in a ledger without which nothing may be read; empty if there is none."""

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What every answer rests on, by public facts about the rows."""

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return how a query of one of the known types is answered; refuse it by public facts."""

    def changed(self, change: Any, rng: Callable[[], np.random.Generator]) -> PrivateRows:
        """Return the same rows after a change of one of the known types, one row at a time."""

    def expect(self, queries: Iterable[Any]) -> None:
        """Note which queries may follow."""


def check_pays(
    budget: Filter | Composition | None, ledger: str, adjacency: Adjacency, name: str
) -> None:
    """Raise an error if a budget cannot pay for rows, by public facts about them alone.

    Parameters
    ----------
    budget : Filter, Composition or None
        The budget that is to be charged. None: it is made for the rows later, outside of a ledger.
    ledger : str
        The budget in a ledger that the schema of the rows names; empty if there is none.
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
"""Records events as spent, or refuses them all."""


@final
class Session:
    """Private rows, a budget and a source of noise, which answer queries with charged noise.

    A session cannot be copied or pickled, and does not answer in a fork of its process.

    Parameters
    ----------
    rows : CountedRows, TableRows or StandardisedRows
        The private rows, with the queries that are proven for them.
    budget : Filter
        Charged before each answer is computed. A replace-one budget takes rows of either adjacency
        and converts events; an add-remove budget does not pay for replace-one rows.
    noise : NoiseSource
        Draws the noise.
    conditions : iterable of Condition
        What every release rests on, beside what the source of noise states.
    limit : callable, optional
        Called with each event before it is charged; raises to refuse it. A fit is kept within the
        limits of its parts by it, which the guarantee for the ground truth rests on.
    trainings : TrainingPlan, optional
        Trainings of networks that were charged in advance, together with the budget.

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
        """What is publicly known of the rows."""
        return self._rows.facts

    @property
    def remaining(self) -> Cost:
        """What can still be spent."""
        return self._filter.remaining

    @property
    def _filter(self) -> Filter:
        if not isinstance(self._budget, Filter):
            raise ParameterError("a Composition has no remainder: what it pays for is planned")
        return self._budget

    def share(self, part: float) -> Cost:
        """Return a share, above 0 and at most 1, of what can still be spent."""
        part = check_number("a share", part, max_value=1.0, exclude_min=True)
        return replace(self.remaining, amount=self.remaining.amount * part)

    def generator(self) -> np.random.Generator:
        """Return a generator for post-processing; its draws protect nothing."""
        return self._noise.generator()

    def reserve(self, cost: Cost, *, label: str) -> Session:
        """Set a part of the budget aside at once, and return a session that spends from it.

        Rows, noise and conditions are the same. The cost may be in any privacy measure that has a
        bound in the measure of ``remaining``. Answers of the new session are charged to the part
        and cost this session nothing more. An amount that the part does not spend is lost. The cost
        holds under the adjacency of the budget.

        Raises
        ------
        BudgetExceededError
            If the part does not fit. Nothing is charged.
        """
        return self.reserve_each(Reservation(cost, label, self._budget.adjacency))[0]

    def reserve_each(self, *parts: Reservation) -> tuple[Session, ...]:
        """Set several parts of the budget aside, all or none, and return a session for each.

        Nothing is read. A later query may depend on what an earlier part released, since the cap of
        each part is fixed now. See `reserve`.

        Raises
        ------
        BudgetExceededError
            If the parts together do not fit. Nothing is charged.
        """
        made = []
        for part in parts:
            delta = 0.0 if part.cost.privacy_measure == "pure" else self._budget.delta
            made.append(Filter.from_cost(part.cost, delta=delta, adjacency=part.adjacency))
        labels = [part.label for part in parts]
        self._filter.reserve_each(made, labels=labels, conditions=self._conditions)
        return tuple(self._with(budget=part) for part in made)

    def promise(self, *events: Event) -> Guarantee:
        """Return what some releases promise by themselves, with the conditions of this session.

        Parameters
        ----------
        events : Event
            What the releases are charged with, or the caps of their parts.
        """
        pure = all(map(is_pure, flatten(events)))
        return Guarantee.from_events(
            events,
            delta=0.0 if pure else self._budget.delta,
            adjacency=self._budget.adjacency,
            conditions=self._conditions,
        )

    def preview(self, query: Any, mechanism: Any) -> Preview:
        """Return the price of a query, or refuse it; no row is read, and nothing is charged."""
        release = self._rows.plan(query, mechanism)
        return Preview(release.event, release.expected_radius)

    def apply(self, change: Any) -> Session:
        """Return a session on the same rows, each of which was changed by itself.

        A change has one of a closed set of types, among them the registered row functions. It is
        frozen and holds public or released values only. Neighbouring tables stay neighbours. Filter
        and conditions are the same.
        """
        return self._with(rows=self._rows.changed(change, self.generator))

    def expect(self, queries: Iterable[Any]) -> None:
        """Say which queries may follow, so that few passes over the rows answer them all.

        It costs nothing, promises nothing, and computes nothing before the first charge.
        """
        self._rows.expect(queries)

    def measure(self, query: Any, mechanism: Any = None) -> Measurement:
        """Charge for a query, compute its exact answer, and release it with noise.

        Parameters
        ----------
        query : query
            Of exactly one of the types that are proven for the rows.
        mechanism : Noise, Selection or Cost, optional
            The mechanism, of the type that the query takes; or what to spend on noise. None if the
            query states its own noise.

        Returns
        -------
        Measurement
            The released value, with the mechanism and the event that was charged.

        Raises
        ------
        ParameterError
            If the query is not one of these rows; decided by public facts. Nothing is charged.
        BudgetExceededError
            If the budget cannot afford it. Nothing is charged, and nothing is computed.
        DataError
            If the computation fails. The charge stays.
        """
        release = self._rows.plan(query, mechanism)
        events = (release.event, *release.extra_events)
        released = self._release(self._charge, events, release.mechanism, release.exact)
        value, radius = release.read(released), release.radius(released)
        return Measurement(value, release.mechanism, release.event, radius)

    def iterate(self, query: Any, mechanism: Any = None) -> Callable[..., Any]:
        """Charge for all steps of an iterative query; return what answers them, one by one.

        Parameters
        ----------
        query, mechanism
            As for `measure`.

        Returns
        -------
        callable
            Releases the answer of the next step, at the public or released point that it is called
            with. It raises ParameterError after as many steps as were charged.
        """
        release = self._rows.plan(query, mechanism)
        self._charge(release.event, *release.extra_events)
        return self._paid(release.steps, release.event, release.mechanism, release.exact)

    def train(self, event: SampledGaussianEvent) -> TrainingRows:
        """Return the rows for a training that was charged before anything was read, once.

        Parameters
        ----------
        event : SampledGaussianEvent
            One of the trainings that were charged with the budget of this session.

        Returns
        -------
        TrainingRows
            Rows that the strategy leaves out are not among them. Each step is answered by
            `_release`, as every measurement is, and ticked off the steps that were charged.

        Raises
        ------
        ParameterError
            If the training was not charged, its rows were given out before, or rows are streamed,
            have weights or belong to units with several rows. Nothing is read.
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
        """Return what answers the steps of a release that was charged as a whole."""
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
        """Charge, compute, draw: the only lines from which a number about private rows leaves."""
        charge(*events)
        with redacted():
            self._budget.check_process()
            numbers = exact()
            self._budget.check_process()
            noise_is_drawn()
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
