"""Standardised rows: rows of numbers, their count public, that passed a chain of steps.

They are one of the three kinds of private rows of `missdp.session`. A session on them charges,
computes and draws. This module computes exact answers. It brings rows into their domain, fits the
steps on them, forgets the fitted steps, and evaluates a query without noise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar, NoReturn, Self

from numpy.typing import ArrayLike

from missdp.accounting import Composition, Condition, Event, Filter, Guarantee
from missdp.accounting.events import Adjacency
from missdp.accounting.measures import approximate_delta
from missdp.errors import DataError, ParameterError, replacing
from missdp.pricing.chains import StandardisedFacts
from missdp.pricing.domain import Rows, check_fillable, require
from missdp.pricing.privacy_maps import Bound, Sensitivity
from missdp.pricing.private_test import ConditionalAnswer, TestedNoise, TestPlan
from missdp.pricing.queries import GradientQuery, Loss, Question, SampledNoise, VectorQuery
from missdp.session.noise import NoiseSource
from missdp.session.session import Release, Session
from missdp.table import Table
from missdp.types import Floats


class StandardisedRows:
    """Private rows of public number, with a target, and the questions that are proven for them.

    Use them in a ``with`` block: at its end the rows are forgotten, for everything that was handed
    out too.

    Parameters
    ----------
    values : Rows
        Private rows. Only a finite number counts as observed. A table with an attribute that is
        not applicable to all rows, or of another shape than the declared one, raises an error.
    facts : StandardisedFacts
        Public facts, the steps among them.
    target : array_like, optional
        Private. It is not preprocessed.
    test : TestPlan, optional
        If given, every answer is preceded by this test of the steps' conditions.
    """

    adjacency: ClassVar[Adjacency] = "replace-one"

    def __init__(
        self,
        values: Rows,
        facts: StandardisedFacts,
        *,
        target: ArrayLike | None = None,
        test: TestPlan | None = None,
    ) -> None:
        check_fillable(values)
        facts.raw.check_shape(values)  # reads no cell
        if test is not None:
            _require_exact_type(TestPlan, test)
        self._facts, self._test = facts, test
        self._values: Any = values
        self._target: Any = target
        self._open = True
        self._made: dict[object, Any] = {}  # private results computed from the rows
        self._priced: tuple[Question, Bound] | None = None

    @property
    def facts(self) -> StandardisedFacts:
        """Public facts about the rows."""
        return self._facts

    @property
    def ledger(self) -> str:
        """The budget in a ledger that must pay for every read. Empty without a ledger."""
        return ledger_of(self._values)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Conditions of every answer, without those on the table if these are tested."""
        return self._facts.conditions(tested=self._test is not None)

    # Queries

    def price(self, question: Question) -> Bound:
        """Return the best bound on the privacy loss of an answer: its event is charged.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        Bound
            Public.
        """
        priced = self._priced  # read once, since another thread may replace it
        if priced is None or priced[0] is not question:
            self._priced = priced = (question, self._facts.bounds(question)[0])
        return priced[1]

    def charges(self, question: Question) -> tuple[Event, ...]:
        """Return all that a budget is charged, the event of the answer first.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        tuple of Event
            Public.
        """
        return (self.price(question).event,) if self._test is None else self._test.charges

    def guarantee(self, question: Question) -> Guarantee:
        """Return the public guarantee of an answer with secure noise.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        Guarantee
            At the delta of the facts.
        """
        if self._test is not None:
            return self._test.guarantee
        return self._facts.guarantee(self.price(question).event)

    def plan(self, query: Any, mechanism: Any = None) -> Release:
        """Return the release of a query with its price, from public facts alone.

        A query states its own noise, so ``mechanism`` is None. With a test the answer is None if
        the test does not pass. Events of test and answer are charged together.

        Parameters
        ----------
        query : VectorQuery or GradientQuery
            A query of these rows.
        mechanism : None
            A query states its own noise.

        Returns
        -------
        Release
            Price and noise are public. ``exact`` computes private numbers.
        """
        self._check(query, mechanism)
        event, *additional_charges = self.charges(query)
        noise: Any = query.noise_for(self._facts.distance)
        if query.batch is not None:
            noise = SampledNoise(noise, query.domain.rows, query.batch)
        gradient = isinstance(query, GradientQuery)
        exact: Callable[..., Any] = partial(self._gradient if gradient else self._vector, query)
        if self._test is not None:
            noise, exact = TestedNoise(self._test, noise), partial(self._tested, exact)
        return Release(event, noise, exact, tuple(additional_charges), steps=query.steps)

    def _check(self, query: Any, mechanism: Any) -> None:
        """Raise an error unless all types are exact: a subclass could state other bounds."""
        exact_type = type(query) in (VectorQuery, GradientQuery)
        require(
            exact_type, "standardised rows answer queries of the types VectorQuery, GradientQuery"
        )
        if isinstance(query, VectorQuery):
            _require_exact_type(Sensitivity, query.sensitivity)
        else:
            _require_exact_type(Loss, query.loss)
        require(mechanism is None, "a question about standardised rows states its own noise")
        same = self.charges(query)[0] == self.price(query).event
        require(same, "the test was planned for another question")

    def changed(self, change: Any, rng: Any) -> NoReturn:
        """Raise an error: the steps that rows pass are public facts, and are priced."""
        del change, rng
        raise ParameterError("standardised rows are not changed. Add a step to their chain instead")

    def expect(self, queries: Iterable[Any]) -> None:
        """Note nothing: rows are prepared once, for all queries."""

    # Private results computed from the rows

    def _vector(self, query: VectorQuery) -> Any:
        """Return the exact vector."""
        return query.exact(self._prepared())

    def _gradient(self, query: GradientQuery, *at: Floats) -> Any:
        """Return the exact mean gradient of all rows, or as a function of a sample."""
        require(len(at) == 1, "noisy gradients are answered by Session.iterate, at one point each")
        if query not in self._made:  # read the target and the norms of rows once, for all steps
            self._made[query] = query.exact(self._prepared(), self._target)
        return self._made[query](at[0])

    def _tested(self, exact: Callable[..., Any], *at: Any) -> ConditionalAnswer:
        """Return the distance to failure, and the function that computes the answer."""
        self._prepared()
        return ConditionalAnswer(self._made["distance"], partial(exact, *at))

    def _prepared(self) -> Floats:
        """Return the rows as they leave the steps, which are fitted once and forgotten."""
        require(self._open, "the rows are forgotten. Use them before the end of the with block")
        if "rows" not in self._made:
            facts, table = self._facts, self._facts.raw.enforce(self._values)
            distance = float(facts.raw.rows)
            for step in facts.steps:
                failed = DataError(f"step {step.name!r} failed")  # its own error may quote a cell
                with replacing(Exception, by=failed):
                    if self._test:
                        distance = min(distance, step.distance_to_failure(table))
                    table = step.run(table)
            # The bound on row norms after the steps is proven. This step removes rounding errors
            # only.
            table = facts.domain.enforce(table) if facts.steps else table
            table.flags.writeable = False
            self._made |= {"distance": distance, "rows": table}
        rows: Floats = self._made["rows"]
        return rows

    # The end

    def close(self) -> None:
        """Forget the rows."""
        self._open = False
        self._values = self._target = None
        self._made.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"StandardisedRows({self._facts.label})"

    def __reduce__(self) -> NoReturn:
        raise ParameterError("private rows cannot be copied or pickled")


def _require_exact_type(kind: type, value: Any) -> None:
    if type(value) is not kind:
        raise ParameterError(
            f"expected an instance of {kind.__name__} exactly. Subclasses are not accepted because "
            "they could state other bounds"
        )


def ledger_of(values: Any) -> str:
    """Return the public name of the budget in a table's schema, or an empty text."""
    return values.schema.ledger if isinstance(values, Table) else ""


def open_session(
    rows: StandardisedRows,
    question: Question,
    *,
    budget: Filter | Composition | None,
    noise: NoiseSource,
) -> Session:
    """Return a session on standardised rows, with all conditions that its answers rest on.

    Parameters
    ----------
    rows : StandardisedRows
        Private.
    question : VectorQuery or GradientQuery
        The question that will be asked.
    budget : Filter, Composition or None
        Charged before anything is computed. None: a budget that one answer to this question uses
        up.
    noise : NoiseSource
        Draws samples and noise.

    Returns
    -------
    Session
        It answers questions by ``measure`` and ``iterate``.
    """
    if budget is None:
        budget = budget_for(rows.charges(question), rows.facts.delta)
    return Session(rows, budget=budget, noise=noise, conditions=rows.conditions)


def budget_for(events: tuple[Event, ...], delta: float) -> Composition:
    """Return a budget that holds exactly these events, which are all known.

    An answer is bounded at ``delta``. A test that passes wrongly adds its own delta.
    """
    total = min(delta + sum(map(approximate_delta, events)), 1 - 2.0**-53)
    return Composition(events, delta=total, adjacency="replace-one")
