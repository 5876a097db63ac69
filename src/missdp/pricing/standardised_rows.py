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
    """Private rows with a public number of rows and a preprocessing chain, which a session reads.

    A session on these rows charges a budget and releases noisy answers to `VectorQuery` and
    `GradientQuery`. This object computes exact answers, which stay private, and releases nothing.
    Use it in a ``with`` block: at its end the rows are forgotten. It cannot be copied or pickled.
    `open_session` makes a session.

    Parameters
    ----------
    values : array_like of shape (n_rows, n_columns), or Table
        Private rows. Only a finite number counts as observed.
    facts : StandardisedFacts
        Public facts about the rows, with the preprocessing steps.
    target : array_like of shape (n_rows,), optional
        Private target, read by gradient queries. It is not preprocessed.
    test : TestPlan, optional
        If given, a private test of the steps' conditions precedes the answers.

    Attributes
    ----------
    adjacency : {"replace-one"}
        Neighbouring relation of all guarantees: one row is replaced, and the number of rows is
        public.

    Raises
    ------
    DataError
        If the table has another shape than declared.
    SchemaError
        If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
        protection, weights, or facts that are not declared public raises the error, too.
    ParameterError
        If ``test`` is not exactly a `TestPlan`.

    Examples
    --------
    >>> from missdp.pricing import StandardisedFacts, StandardisedRows, VectorQuery
    >>> from missdp.pricing import RowDomain
    >>> domain = RowDomain(rows=100, columns=1)
    >>> facts = StandardisedFacts(raw=domain, label="mean", delta=1e-6)
    >>> with StandardisedRows([[0.5]] * 100, facts) as rows:
    ...     round(rows.price(VectorQuery.mean(domain, multiplier=5.0)).epsilon, 3)
    0.9
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
        """Public facts about private rows and their preprocessing steps.

        Returns
        -------
        StandardisedFacts
            As they were given. No private value is in them.
        """
        return self._facts

    @property
    def ledger(self) -> str:
        """Public name of the ledger budget that must pay for every answer, or an empty text.

        Returns
        -------
        str
            The name in the schema of a `Table`. Empty for an array, or without a ledger.
        """
        return ledger_of(self._values)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Public conditions under which the guarantee of every noisy answer holds.

        Returns
        -------
        tuple of Condition
            They are stated with the guarantee. A private test replaces conditions on the table
            if there is one.
        """
        return self._facts.conditions(tested=self._test is not None)

    # Queries

    def price(self, question: Question) -> Bound:
        """Return the best bound on the privacy loss of a noisy answer to a query.

        The accounting event of this bound is charged for the answer.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        Bound
            Public, at the delta of ``facts``.

        Raises
        ------
        ParameterError
            If the query is about rows of another domain.
        UnprovenError
            If no bound is finite.
        """
        priced = self._priced  # read once, since another thread may replace it
        if priced is None or priced[0] is not question:
            self._priced = priced = (question, self._facts.bounds(question)[0])
        return priced[1]

    def charges(self, question: Question) -> tuple[Event, ...]:
        """Return all accounting events that a budget is charged for an answer to a query.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        tuple of Event
            Public. The event of the answer comes first, then the event of a private test if
            there is one.

        Raises
        ------
        ParameterError
            If the query is about rows of another domain.
        UnprovenError
            If no bound is finite.
        """
        return (self.price(question).event,) if self._test is None else self._test.charges

    def guarantee(self, question: Question) -> Guarantee:
        """Return the privacy guarantee of an answer to a query with secure noise.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        Guarantee
            Public, at the delta of ``facts``. With a private test it covers test and answer
            together.

        Raises
        ------
        ParameterError
            If the query is about rows of another domain.
        UnprovenError
            If no bound is finite.
        """
        if self._test is not None:
            return self._test.guarantee
        return self._facts.guarantee(self.price(question).event)

    def plan(self, query: Any, mechanism: Any = None) -> Release:
        """Return the price, noise and computation of an answer to a query, before any charge.

        Public facts alone decide it. With a private test, the answer is None if the test does not
        pass. Accounting events of test and answer are charged together.

        Parameters
        ----------
        query : VectorQuery or GradientQuery
            A query of these rows. Subclasses are not accepted.
        mechanism : None
            None, because a query states its own noise.

        Returns
        -------
        Release
            Its events and noise are public. Its function ``exact`` computes private numbers.

        Raises
        ------
        ParameterError
            If the query has another type or domain, ``mechanism`` is not None, or the test was
            planned for another query.
        UnprovenError
            If no bound is finite.
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
        """Raise an error, because these private rows are not changed after a session has opened.

        Preprocessing is declared and priced before. Add a step to the chain instead.

        Parameters
        ----------
        change : object
            Ignored.
        rng : object
            Ignored.

        Raises
        ------
        ParameterError
            Always.
        """
        del change, rng
        raise ParameterError("standardised rows are not changed. Add a step to their chain instead")

    def expect(self, queries: Iterable[Any]) -> None:
        """Ignore an announcement of queries, because all rows are prepared once for all queries.

        Parameters
        ----------
        queries : iterable
            Ignored.
        """

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
        """Forget the private rows and all private results computed from them.

        Later answers raise `ParameterError`. The end of a ``with`` block calls it.
        """
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
    """Return a session that charges a budget and answers a query about private rows with noise.

    Parameters
    ----------
    rows : StandardisedRows
        Private rows with their preprocessing.
    question : VectorQuery or GradientQuery
        The query that will be answered.
    budget : Filter, Composition or None
        Budget that is charged before anything is computed. None: a budget that one answer to
        this query uses up.
    noise : NoiseSource
        Source of random samples and noise.

    Returns
    -------
    Session
        It answers a `VectorQuery` by ``measure`` and a `GradientQuery` by ``iterate``. Its
        guarantee states the conditions of the rows.

    Raises
    ------
    ParameterError
        If the query is about rows of another domain.
    UnprovenError
        If no bound is finite, or the budget accounts for add-remove adjacency.
    LedgerError
        If the schema of the rows names a ledger and the budget is not a part of it.

    Examples
    --------
    >>> from missdp.pricing import StandardisedFacts, StandardisedRows, VectorQuery, open_session
    >>> from missdp.session import NoiseSource
    >>> from missdp.pricing import RowDomain
    >>> domain = RowDomain(rows=100, columns=1)
    >>> query = VectorQuery.mean(domain, multiplier=5.0)
    >>> facts = StandardisedFacts(raw=domain, label="mean", delta=1e-6)
    >>> with StandardisedRows([[0.5]] * 100, facts) as rows:
    ...     noise = NoiseSource.from_seed(0)
    ...     answer = open_session(rows, query, budget=None, noise=noise).measure(query)
    >>> round(float(answer.value[0]), 1)
    0.5
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
