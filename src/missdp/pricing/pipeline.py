"""Pipelines: preprocessing that is fitted on private rows, then a private estimator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import (
    ApproximateEvent,
    Composition,
    Filter,
    Guarantee,
    PureEvent,
    proven_epsilon,
)
from missdp.accounting.exact import boundary
from missdp.errors import ParameterError, UnprovenError, check_number
from missdp.estimator import clone
from missdp.pricing.chains import StandardisedFacts, trace
from missdp.pricing.domain import Parameters, RowDomain, Rows, require
from missdp.pricing.privacy_maps import Bound
from missdp.pricing.private_estimator import PrivateEstimator, release
from missdp.pricing.private_test import TestPlan, noise_of_test
from missdp.pricing.queries import Question
from missdp.pricing.steps import StableTransformer

# The tail of the discrete distribution exceeds the continuous tail by less than this factor, on a
# grid of 2^20 cells per scale.
_TAIL_SLACK = 2.0**-18


@dataclass(eq=False, repr=False)
class PricedPipeline(Parameters):
    """Preprocessing fitted to a private table, and a private estimator, under one guarantee.

    Use it if preprocessing (imputation, scaling, PCA) is fitted to the private rows. The steps are
    fitted without noise, and the noise of the estimator has to cover them. `guarantee` and `price`
    compute the guarantee from public facts, before any data is read. `fit` charges the budget and
    releases the estimator.

    Parameters
    ----------
    steps : sequence of (str, StableTransformer)
        Names and preprocessing steps, in order. It may be empty.
    estimator : PrivateEstimator
        The estimator that is released. Its radius, delta and random_state are not used. It must
        have no budget of its own.
    rows : int
        Public number of rows, at least 2.
    columns : int
        Public number of columns, at least 1.
    radius : float, default 1.0
        Public bound on the Euclidean norm of a row, in the units of the columns, from 1e-100 to
        1e100. Longer rows are scaled down to it before the first step.
    complete : bool, default True
        Whether no cell is missing. If True, a missing cell counts as 0.
    delta : float, default 1e-6
        The delta of the guarantee, in [0, 1). At 0, only pure DP counts.
    budget : Filter, Composition or None, default None
        Privacy budget that `fit` charges before it computes anything. It must accept
        replace-one adjacency. None: a budget for this release alone.
    random_state : int or None, default None
        None draws noise from a secure source. A seed is for tests, and the guarantee then
        states it as a condition.

    Attributes
    ----------
    estimator_ : PrivateEstimator
        After `fit`: the released estimator. It takes rows as they leave the steps.
    guarantee_ : Guarantee
        After `fit`: the guarantee under replace-one adjacency (one row is replaced, and the
        number of rows is public). It states the conditions of all steps. They are not checked
        against the table.

    Raises
    ------
    ParameterError
        If a parameter is out of range. Parameters are checked by `fit` and by the methods that
        compute a guarantee.

    Notes
    -----
    The fitted steps are private, and are discarded. After the charge no table of the declared shape
    raises an error. Cells that are not finite numbers are missing, and rows outside the radius are
    scaled down.

    References
    ----------
    Hu, Sanyal & Schölkopf (2024), Theorem 2.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, MeanImputer
    >>> pipeline = PricedPipeline(
    ...     [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))],
    ...     PrivateMean(noise_multiplier=5.0), rows=1000, columns=2, complete=False)
    >>> round(pipeline.guarantee().epsilon, 3)
    0.914
    """

    steps: Sequence[tuple[str, StableTransformer]]
    estimator: PrivateEstimator
    _: KW_ONLY
    rows: int
    columns: int
    radius: float = 1.0
    complete: bool = True
    delta: float = 1e-6
    budget: Filter | Composition | None = None
    random_state: int | None = None

    @property
    def domain(self) -> RowDomain:
        """Public facts about the raw table: shape, largest row norm, and completeness.

        Returns
        -------
        RowDomain
            Made from the parameters ``rows``, ``columns``, ``radius`` and ``complete``. No data
            is read.

        Raises
        ------
        ParameterError
            If one of these parameters is out of range.
        """
        return RowDomain(
            rows=self.rows, columns=self.columns, radius=self.radius, complete=self.complete
        )

    def facts_and_query(self) -> tuple[StandardisedFacts, Question]:
        """Return public facts about the preprocessed rows, and the estimator's query about them.

        No data is read.

        Returns
        -------
        facts : StandardisedFacts
            Public facts about the rows and about each step, with the delta of the pipeline.
        query : VectorQuery or GradientQuery
            Public. The query of the estimator about rows as they leave the steps.

        Raises
        ------
        UnprovenError
            If a step or the estimator is not one of this package, or no bound is proven for a step.
        ParameterError
            If a parameter is out of range, or a step does not accept its input.
        """
        name = type(self.estimator).__name__
        if not isinstance(self.estimator, PrivateEstimator):
            raise UnprovenError(f"{name} is not a private estimator of this library")
        steps = trace(self.steps, self.domain)
        facts = StandardisedFacts(raw=self.domain, label=name, delta=self.delta, steps=steps)
        return facts, self.estimator.question(facts.domain)

    def bounds(self) -> tuple[Bound, ...]:
        """Return every proven bound on the privacy loss of preprocessing and estimator together.

        No data is read.

        Returns
        -------
        tuple of Bound
            Public, for the delta of the pipeline. The smallest epsilon comes first.

        Raises
        ------
        UnprovenError
            If no bound is finite, or no bound is proven for a step.
        ParameterError
            If a parameter is out of range, or a step does not accept its input.
        """
        facts, question = self.facts_and_query()
        return facts.bounds(question)

    def guarantee(self) -> Guarantee:
        """Return the privacy guarantee of a fit of a pipeline with secure noise.

        No data is read, and nothing is charged.

        Returns
        -------
        Guarantee
            Public, under replace-one adjacency. It states the best bound at ``delta`` and the
            conditions of all steps, which are not checked.

        Raises
        ------
        UnprovenError
            If no bound is finite, or no bound is proven for a step.
        ParameterError
            If a parameter is out of range, or a step does not accept its input.
        """
        facts, question = self.facts_and_query()
        return facts.guarantee(facts.bounds(question)[0].event)

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the privacy budget, preprocess the private rows, and release the noisy estimates.

        The conditions of the steps are not checked against the rows. Use `propose_test_release` to
        test them privately.

        Parameters
        ----------
        X : array_like of shape (rows, columns), or Table
            Private rows. NaN is a missing cell. A `Table` is read by `rows_of`, with the facts
            of `RowDomain.of`.
        y : array_like of shape (rows,), optional
            Private target, for estimators that need one. It is not preprocessed.

        Returns
        -------
        PricedPipeline
            The pipeline itself, with the released attributes ``estimator_`` and ``guarantee_``.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the release. Nothing is charged, and nothing is computed.
        DataError
            If X or y has another shape than declared. Nothing is charged.
        ParameterError
            If a parameter is out of range, or the estimator has a budget of its own. Nothing is
            charged.
        SchemaError
            If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
            protection, weights, or facts that are not declared public raises the error, too.
        LedgerError
            If the schema of a `Table` names a ledger and the budget is not a part of it.
        UnprovenError
            If no bound is known for this chain. A budget raises the error if it accounts for
            add-remove adjacency, or in a privacy measure without a bound for the release.
        """
        self.estimator_, self.guarantee_ = self._released((X, y), *self.facts_and_query())
        return self

    def _released(
        self,
        data: tuple[Rows, ArrayLike | None],
        facts: StandardisedFacts,
        question: Question,
        test: TestPlan | None = None,
    ) -> tuple[PrivateEstimator, Guarantee]:
        """Return the estimator, fitted unless a planned test does not pass, and the guarantee."""
        wrong = "a pipeline's budget is charged, never its estimator's: give it to the pipeline"
        require(getattr(self.estimator, "budget", None) in (None, self.budget), wrong)
        estimator: PrivateEstimator = clone(self.estimator)
        paid = self.budget, self.random_state
        return estimator, release(estimator, facts, question, data, *paid, test)

    def with_noise(self, multiplier: float) -> PricedPipeline:
        """Return a copy of the pipeline whose estimator has another amount of noise.

        Parameters
        ----------
        multiplier : float
            The new ``noise_multiplier`` of the estimator: noise scale over sensitivity, from 1e-9
            to 1e10.

        Returns
        -------
        PricedPipeline
            A copy that is not fitted. It shares the budget.

        Raises
        ------
        ParameterError
            If ``multiplier`` is not a number from 1e-9 to 1e10.
        """
        fresh: PricedPipeline = clone(self)
        fresh.estimator.noise_multiplier = multiplier
        return fresh


def calibrate(pipeline: PricedPipeline, epsilon: float) -> PricedPipeline:
    """Return a copy of a pipeline with the least noise whose guarantee is within an epsilon.

    No data is read, and nothing is charged.

    Parameters
    ----------
    pipeline : PricedPipeline
        The pipeline. Its delta stays, and the ``noise_multiplier`` of its estimator is replaced
        in the copy.
    epsilon : float
        Target for the whole pipeline at its delta, from 1e-9 to 1e100.

    Returns
    -------
    PricedPipeline
        A copy that is not fitted. Its noise exceeds the smallest sufficient noise by a relative
        1e-3 at most.

    Raises
    ------
    UnprovenError
        If no noise multiplier up to about 1e9 is enough, or no bound is proven for a step.
    ParameterError
        If epsilon or a parameter of the pipeline is out of range.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, calibrate, MeanImputer
    >>> pipeline = PricedPipeline(
    ...     [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))],
    ...     PrivateMean(noise_multiplier=1.0), rows=1000, columns=2, complete=False)
    >>> round(calibrate(pipeline, 1.0).estimator.noise_multiplier, 2)
    4.6
    """
    epsilon = check_number("epsilon", epsilon, min_value=1e-9)

    def fits(multiplier: float) -> bool:
        try:
            return pipeline.with_noise(multiplier).bounds()[0].epsilon <= epsilon
        except UnprovenError:
            if multiplier < 1e9:
                return False
            raise

    low, high = 1e-6, 1.0
    while not fits(high):
        low, high = high, high * 4
        if high > 1e9:
            raise UnprovenError("no amount of noise is proven to be enough for this pipeline")
    return pipeline.with_noise(boundary(fits, low, high, tolerance=1e-3)[1])


@dataclass(frozen=True)
class PassedTest:
    """Result of a private test of a pipeline that passed: an estimator and its guarantee.

    `propose_test_release` returns it. The test found that the conditions of the preprocessing steps
    hold with a margin. Both attributes are released.

    Parameters
    ----------
    estimator : PrivateEstimator
        The fitted estimator.
    guarantee : Guarantee
        The guarantee of test and release together. It has no condition on the table that the
        test replaces.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, propose_test_release
    >>> from missdp.pricing import PrivateMean
    >>> pipeline = PricedPipeline([], PrivateMean(noise_multiplier=9.0), rows=100, columns=1)
    >>> type(propose_test_release(pipeline, [[0.5]] * 100, test_epsilon=0.5)).__name__
    'PassedTest'
    """

    estimator: PrivateEstimator
    guarantee: Guarantee


@dataclass(frozen=True)
class FailedTest:
    """Result of a private test of a pipeline that failed: a guarantee without an estimator.

    `propose_test_release` returns it. The budget was charged for test and release.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of test and release together, because a failed test is an output, too.
        Released.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, StandardScaler
    >>> from missdp.pricing import propose_test_release
    >>> pipeline = PricedPipeline([("scale", StandardScaler(min_std=0.3))],
    ...     PrivateMean(noise_multiplier=9.0), rows=4000, columns=1, random_state=0)
    >>> result = propose_test_release(pipeline, [[0.0]] * 4000, test_epsilon=0.5)
    >>> type(result).__name__, result.guarantee.adjacency
    ('FailedTest', 'replace-one')
    """

    guarantee: Guarantee


def plan_test(
    pipeline: PricedPipeline, *, test_epsilon: float, failure_delta: float | None = None
) -> TestPlan:
    """Plan a private test of a pipeline's conditions, with threshold, price and guarantee.

    Propose-test-release tests privately whether the conditions of the preprocessing steps hold with
    a margin. It releases the estimator only if the test passes. The plan reads no data, and nothing
    is charged.

    Parameters
    ----------
    pipeline : PricedPipeline
        The pipeline. Its delta is the delta of the total.
    test_epsilon : float
        Epsilon that is spent on the test, from 1e-9 to 1e6.
    failure_delta : float or None, default None
        Bound on the chance that the test passes wrongly, above 0, below 0.5, and at most the
        pipeline's delta. None: half of this delta, so that a budget with this delta can account
        for the whole as a composition.

    Returns
    -------
    TestPlan
        Public. Its guarantee covers test and release together, for every table.

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    UnprovenError
        If a step has no distance to failure, or no bound is finite.

    Notes
    -----
    The distance to failure of a step is a lower bound on the row replacements before its conditions
    fail. Let J be the smallest distance to failure of all steps. Each distance is 1-Lipschitz if
    the steps before it meet their conditions, and 0 if its own conditions fail. So J is
    1-Lipschitz, and 0 if any condition fails. Let e be ``test_epsilon`` and d be ``failure_delta``.
    The test passes if J + Lap(1/e) > t = 1 + log(1 / (2 d)) / e.

    *A condition fails for one of the neighbours*: J <= 1 on both tables. So either passes with
    probability at most d, and the test is e-DP. Together that is (e, d)-DP. *All conditions hold
    for both*: the e-DP test is composed with the pipeline, whose bound applies. A pair is of one
    kind or the other. So the total is the larger bound of the two at this delta, not their sum.

    References
    ----------
    Dwork & Lei (2009), for propose-test-release.

    Examples
    --------
    >>> from missdp.pricing import PCARankReducer, PricedPipeline, PrivateMean, plan_test
    >>> steps = [("pca", PCARankReducer(n_components=2, min_gap=0.2))]
    >>> pipeline = PricedPipeline(steps, PrivateMean(noise_multiplier=9.0), rows=5000, columns=9)
    >>> plan = plan_test(pipeline, test_epsilon=0.1)
    >>> round(plan.threshold, 1), plan.guarantee.epsilon >= plan.test_epsilon
    (139.2, True)
    """
    return _plan(*pipeline.facts_and_query(), test_epsilon, failure_delta)


def _plan(
    facts: StandardisedFacts, question: Question, test_epsilon: float, failure_delta: float | None
) -> TestPlan:
    """Return the test of the steps before a query, with the price of both together."""
    best = facts.bounds(question)[0]
    epsilon = check_number("test_epsilon", test_epsilon, min_value=1e-9, max_value=1e6)
    delta = facts.delta
    failure = delta / 2 if failure_delta is None else check_number("failure_delta", failure_delta)
    if not 0 < failure <= delta or failure >= 0.5:
        raise ParameterError("failure_delta must be above 0 and at most the pipeline's delta")
    for step in facts.steps:
        # A public dummy table: only whether the step knows its distance to failure matters.
        step.distance_to_failure(np.zeros((2, step.domain.columns)))
    spent = epsilon + noise_of_test(epsilon).slack(1)
    test = PureEvent(epsilon=spent, label="test", adjacency="replace-one")
    composed = proven_epsilon([test, best.event], delta, "replace-one")
    total = ApproximateEvent(
        epsilon=max(spent, min(spent + best.epsilon, composed)),
        delta=delta,
        label="propose-test-release",
        adjacency="replace-one",
    )
    charged = ApproximateEvent(epsilon=spent, delta=failure, label="test", adjacency="replace-one")
    return TestPlan(
        test_epsilon=epsilon,
        threshold=1 + (math.log(1 / (2 * failure)) + _TAIL_SLACK) / epsilon,
        failure_delta=failure,
        guarantee=facts.guarantee(total, tested=True),
        charges=(best.event, charged),
    )


def propose_test_release(
    pipeline: PricedPipeline,
    X: Rows,
    y: ArrayLike | None = None,
    *,
    test_epsilon: float,
    failure_delta: float | None = None,
) -> PassedTest | FailedTest:
    """Test a pipeline's conditions privately, and release its estimator only if the test passes.

    Use it if you do not know that the conditions of the preprocessing steps hold for the table. The
    budget is charged for test and release before anything is computed, for either outcome.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its steps must have a distance to failure. These steps have it: steps without conditions
        on the table, `PCARankReducer`, `StandardScaler`, `MeanImputer`, `Quantizer` and
        `Deduplicator`. `MeanImputer` must leave ``cells_per_row`` at None or at the number of
        columns.
    X : array_like of shape (rows, columns), or Table
        Private rows. NaN is a missing cell.
    y : array_like of shape (rows,), optional
        Private target, for estimators that need one. It is not preprocessed.
    test_epsilon : float
        Epsilon that is spent on the test, from 1e-9 to 1e6.
    failure_delta : float or None, default None
        Bound on the chance that the test passes wrongly, above 0, below 0.5, and at most the
        pipeline's delta. None: half of this delta.

    Returns
    -------
    PassedTest or FailedTest
        The fitted estimator with its guarantee, or the guarantee alone if the test did not
        pass. Released.

    Raises
    ------
    BudgetExceededError
        If the budget cannot afford test and release. Nothing is charged, and nothing is computed.
    DataError
        If X or y has another shape than declared. Nothing is charged.
    ParameterError
        If a parameter is out of range, or the estimator has a budget of its own. Nothing is
        charged.
    SchemaError
        If an attribute of a `Table` is not applicable to some rows. A schema with a unit of
        protection, weights, or facts that are not declared public raises the error, too.
    LedgerError
        If the schema of a `Table` names a ledger and the budget is not a part of it.
    UnprovenError
        If a step has no distance to failure, or no bound is known for the chain. A budget raises
        the error if it accounts for add-remove adjacency, or in a privacy measure without a bound
        for the release.

    Notes
    -----
    Under replace-one adjacency, test and release together have the guarantee that `plan_test`
    proves. The guarantee holds for every table, and for either outcome.

    References
    ----------
    Dwork & Lei (2009), for propose-test-release.

    Examples
    --------
    >>> from missdp.pricing import propose_test_release
    >>> import numpy as np
    >>> from missdp.pricing import PricedPipeline, PrivateMean, StandardScaler
    >>> pipeline = PricedPipeline([("scale", StandardScaler(min_std=0.3))],
    ...     PrivateMean(noise_multiplier=9.0), rows=4000, columns=1, random_state=0)
    >>> wide, narrow = np.resize([-0.9, 0.9], (4000, 1)), np.zeros((4000, 1))
    >>> type(propose_test_release(pipeline, wide, test_epsilon=0.5)).__name__
    'PassedTest'
    >>> type(propose_test_release(pipeline, narrow, test_epsilon=0.5)).__name__
    'FailedTest'
    """
    planned = pipeline.facts_and_query()
    test = _plan(*planned, test_epsilon, failure_delta)
    estimator, guarantee = pipeline._released((X, y), *planned, test)
    if hasattr(estimator, "guarantee_"):
        return PassedTest(estimator, guarantee)
    return FailedTest(guarantee)
