"""Base class of private estimators, and how an estimator gets the answer to its query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import ArrayLike

from missdp.accounting import Composition, Filter, Guarantee
from missdp.errors import UnprovenError, replacing
from missdp.pricing.chains import StandardisedFacts
from missdp.pricing.domain import Parameters, RowDomain, Rows, as_rows, real, shape_of
from missdp.pricing.private_test import TestPlan
from missdp.pricing.queries import GradientQuery, Question
from missdp.pricing.standardised_rows import StandardisedRows, ledger_of, open_session
from missdp.pricing.steps import NotFittedOnThisTable
from missdp.session.noise import NoiseSource
from missdp.session.session import Session, check_pays
from missdp.table import Table
from missdp.threads import one_blas_thread
from missdp.words import warn_if_weak


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(Parameters):
    """Base class of the differentially private estimators that can end a preprocessing pipeline.

    A subclass defines `question`, which returns a query about rows, and `keep`, which stores the
    released answer. Both read public facts and released numbers alone. A session charges the
    budget, reads the private rows, and adds the noise. The estimator never holds rows or noise.

    Neighbouring tables differ by one replaced row (replace-one adjacency), so the number of rows is
    public. A fit outside a `PricedPipeline` states the condition that no preprocessing was fitted
    to the same table (`NotFittedOnThisTable`). A `PricedPipeline` accounts for preprocessing.

    Parameters
    ----------
    noise_multiplier : float
        Noise scale divided by the sensitivity to one replaced row, from 1e-9 to 1e10. Without
        preprocessing, the guarantee depends on it and on delta. For gradient steps, it also
        depends on their number and sample size.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to this norm.
    delta : float, default 1e-6
        The delta at which ``guarantee_`` states epsilon, in [0, 1). At 0, only a pure DP bound
        counts, as of Laplace noise.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    guarantee_ : Guarantee
        The guarantee of the released attributes, under replace-one adjacency (one row is
        replaced, and the number of rows is public). Outside a pipeline it states the condition
        that no preprocessing was fitted to the same table. Public.
    n_features_in_ : int
        Number of columns. Public.

    Raises
    ------
    ParameterError
        If a parameter has an invalid type or value. Some parameters are checked when they are
        set, and the others by `fit`.

    Examples
    --------
    >>> from missdp.pricing import PrivateEstimator, VectorQuery
    >>> class PrivateCentre(PrivateEstimator):
    ...     def question(self, domain):
    ...         return VectorQuery.mean(domain, multiplier=self.noise_multiplier)
    ...     def keep(self, question, answer):
    ...         self.centre_ = answer
    >>> estimator = PrivateCentre(noise_multiplier=5.0, random_state=0).fit([[0.1], [0.3]] * 500)
    >>> round(float(estimator.centre_[0]), 1), round(estimator.guarantee_.epsilon, 3)
    (0.2, 0.9)
    """

    noise_multiplier: float = real(low=1e-9, high=1e10)
    radius: float = 1.0
    delta: float = 1e-6
    budget: Filter | Composition | None = None
    random_state: int | None = None

    def question(self, domain: RowDomain) -> Question:
        """Return the public query by which a private estimator asks about rows.

        Subclasses define this method. It reads no private data.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows as they reach the estimator: their shape and the largest
            row norm.

        Returns
        -------
        VectorQuery or GradientQuery
            Public. The query that a session answers.

        Raises
        ------
        ParameterError
            If a parameter of the estimator is out of range.
        NotImplementedError
            If the subclass defines no query.
        """
        raise NotImplementedError

    def keep(self, question: Question, answer: Any) -> None:
        """Store the noisy answer to a query as released attributes of a private estimator.

        Subclasses define this method. It is post-processing, so nothing is charged.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            The query of this estimator.
        answer : ndarray or callable
            The released noisy vector. For a `GradientQuery` it is a function that releases the
            next noisy gradient at given coefficients. It raises ParameterError after
            ``question.steps`` calls.

        Raises
        ------
        NotImplementedError
            If the subclass does not define it.
        """
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Raise an error if the target does not suit the estimator, before any charge.

        The base class accepts every target, for estimators without a target.

        Parameters
        ----------
        y : array_like or None
            Private target. Only its length may be read.
        rows : int
            Public number of rows, at least 2.

        Raises
        ------
        DataError
            If a subclass needs a target and it is missing or has another length.
        """
        del y, rows

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the privacy budget, and then release noisy estimates from private rows.

        Parameters
        ----------
        X : array_like of shape (n_rows, n_columns), or Table
            Private rows. Rows with a Euclidean norm above ``radius`` are scaled down to it. A
            missing cell counts as 0. A `Table` is read by `rows_of`. The shape is public.
        y : array_like of shape (n_rows,), optional
            Private target, for estimators that need one.

        Returns
        -------
        PrivateEstimator
            The estimator itself, with released attributes and ``guarantee_``.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the release. Nothing is charged, and nothing is computed.
        ParameterError
            If a parameter is out of range, or the table has fewer than two rows. Nothing is
            charged.
        DataError
            If the rows are not a two-dimensional table, or the target has another length.
            Nothing is charged.
        SchemaError
            If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
            protection, weights, or facts that are not declared public raises the error, too.
        LedgerError
            If the schema of a `Table` names a ledger and the budget is not a part of it.
        UnprovenError
            If the budget accounts for add-remove adjacency, or in a privacy measure without a bound
            for the release. It is also raised if no bound is finite at ``delta``.
        """
        label = type(self).__name__
        # `release` checks it, too, but the shape of an array is not known before it is read.
        check_pays(self.budget, ledger_of(X), StandardisedRows.adjacency, label)
        values: Any = X if isinstance(X, Table) else as_rows(X)
        n, columns = shape_of(values) or (0, 0)
        domain = RowDomain(rows=n, columns=columns, radius=self.radius)
        assumed = (NotFittedOnThisTable(),)
        facts = StandardisedFacts(raw=domain, label=label, delta=self.delta, assumed=assumed)
        release(self, facts, self.question(domain), (values, y), self.budget, self.random_state)
        return self


@one_blas_thread()
def release(
    estimator: PrivateEstimator,
    facts: StandardisedFacts,
    question: Question,
    data: tuple[Rows, ArrayLike | None],
    budget: Filter | Composition | None,
    random_state: int | None,
    test: TestPlan | None = None,
) -> Guarantee:
    """Fit an estimator to the answer of its query, and forget the rows.

    Parameters
    ----------
    estimator : PrivateEstimator
        It has no released attributes if a test does not pass.
    facts : StandardisedFacts
        Public facts about the rows.
    question : VectorQuery or GradientQuery
        The query of the estimator about these rows.
    data : tuple of Rows and target
        Private.
    budget : Filter, Composition or None
        Charged before anything is computed. None: a budget of this answer alone.
    random_state : int or None
        Seed of the noise. None for secure noise.
    test : TestPlan, optional
        If given, the steps' conditions are tested before the answer.

    Returns
    -------
    Guarantee
        The guarantee of the answer, whether or not a test passes.

    Raises
    ------
    BudgetExceededError
        If the budget cannot afford the release. Nothing was computed.
    DataError
        If rows or target have another shape than declared. Nothing was charged.
    """
    values, target = data
    check_pays(budget, ledger_of(values), StandardisedRows.adjacency, facts.label)
    noise = NoiseSource.from_seed(random_state)
    with StandardisedRows(values, facts, target=target, test=test) as rows:
        estimator.check_target(target, facts.raw.rows)
        guarantee = rows.guarantee(question).with_conditions(*noise.conditions)
        warn_if_weak(guarantee.epsilon, guarantee.delta, n=facts.raw.rows)
        session = open_session(rows, question, budget=budget, noise=noise)
        answer = _answer(session, question, facts.label)
        # A fit that is broken off leaves no guarantee of an earlier one behind.
        estimator.__dict__.pop("guarantee_", None)
        with suppress(_TestNotPassedError):
            if answer is not None:
                estimator.n_features_in_ = question.domain.columns
                estimator.keep(question, answer)
                estimator.guarantee_ = guarantee
    return guarantee


class _TestNotPassedError(Exception):
    """The test of a table did not pass, so that no gradient is released."""


def _answer(session: Session, question: Question, label: str) -> Any:
    """Charge for a query, and return its answer, or None if a test did not pass."""
    named = f"{label} cannot be charged to this budget"
    with replacing(UnprovenError, by=lambda error: UnprovenError(f"{named}: {error}")):
        if isinstance(question, GradientQuery):
            return _gradients(session.iterate(question))
        return session.measure(question).value


def _gradients(step: Callable[..., Any]) -> Callable[[ArrayLike], Any]:
    """Return a function that releases the next gradient, or stops a fit if a test did not pass."""

    def gradient(point: ArrayLike) -> Any:
        answer = step(point)
        if answer is None:
            raise _TestNotPassedError
        return answer

    return gradient
