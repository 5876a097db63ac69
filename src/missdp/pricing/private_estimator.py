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
from missdp.pricing.domain import Parameters, RowDomain, Rows, as_rows, shape_of
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
    """Base class of mechanisms that end a pipeline.

    Adjacency is *replace-one*: the number of rows is public. An estimator never holds rows or
    noise, and never charges a budget. A subclass states one `question` about rows, from public
    facts. It turns the answer into released attributes (`keep`). A session charges, reads, and adds
    the noise. ``noise_multiplier`` is the noise in units of the sensitivity to one replaced row. So
    the guarantee for raw rows depends on it alone.

    An estimator that is fitted outside a pipeline assumes that no step was fitted on the same table
    (condition `NotFittedOnThisTable`). `PricedPipeline` accounts for fitted steps.

    Attributes
    ----------
    guarantee_ : Guarantee
        After ``fit``: the guarantee of the released attributes.
    """

    noise_multiplier: float
    radius: float = 1.0
    delta: float = 1e-6
    budget: Filter | Composition | None = None
    random_state: int | None = None

    def question(self, domain: RowDomain) -> Question:
        """Return the query about rows of ``domain``, from public facts only.

        Parameters
        ----------
        domain : RowDomain
            Public facts about the rows.

        Returns
        -------
        VectorQuery or GradientQuery
            The query that a session answers.
        """
        raise NotImplementedError

    def keep(self, question: Question, answer: Any) -> None:
        """Set the released attributes.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            The query of this estimator.
        answer : ndarray or callable
            The noisy vector. For a `GradientQuery` it is a function that releases the next noisy
            gradient at given coefficients. It raises an error after ``question.steps`` calls.
        """
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Raise an error for a missing target or one of the wrong length, before any charge.

        Parameters
        ----------
        y : array_like or None
            Private target. Only its length is read.
        rows : int
            Public number of rows.

        Raises
        ------
        DataError
            If the target is missing or has another length.
        """
        del y, rows

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the budget, then release.

        Parameters
        ----------
        X : array_like of shape (n, d), or Table
            Rows are scaled down to norm ``radius``. A missing cell counts as 0.
        y : array_like of shape (n,), optional
            Target, for estimators that need one.

        Returns
        -------
        PrivateEstimator
            The estimator itself, with released attributes.
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
