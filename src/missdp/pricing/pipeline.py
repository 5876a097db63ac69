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
    """Preprocessing fitted on the private table, then a private estimator, accounted as one.

    Parameters
    ----------
    steps : sequence of (str, StableTransformer)
        Preprocessing, in order. It may be empty. Fitted on the private table, without noise.
    estimator : PrivateEstimator
        The estimator that is released. Its radius, delta and random_state are not used. It must
        have no budget of its own.
    rows, columns : int
        Public shape of the table.
    radius : float, default 1.0
        Rows are scaled down to this norm first.
    complete : bool, default True
        Whether no cell is missing. If True, a missing cell counts as 0.
    delta : float, default 1e-6
        The delta of the guarantee.
    budget, random_state
        See `PrivateMean`.

    Attributes
    ----------
    estimator_ : PrivateEstimator
        After `fit`: the released estimator. It works on rows as they leave the steps.
    guarantee_ : Guarantee
        After `fit`: under replace-one adjacency, with every step's conditions.

    Notes
    -----
    The fitted steps are private, and are discarded. After the charge no table of the declared shape
    raises an error. Cells that are not finite numbers are missing, and rows outside the radius are
    scaled down. After Hu, Sanyal & Schölkopf 2024, Theorem 2.

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
        """Public facts about the raw table."""
        return RowDomain(
            rows=self.rows, columns=self.columns, radius=self.radius, complete=self.complete
        )

    def facts_and_query(self) -> tuple[StandardisedFacts, Question]:
        """Return the public facts about the rows, and the query of the estimator about them."""
        name = type(self.estimator).__name__
        if not isinstance(self.estimator, PrivateEstimator):
            raise UnprovenError(f"{name} is not a private estimator of this library")
        steps = trace(self.steps, self.domain)
        facts = StandardisedFacts(raw=self.domain, label=name, delta=self.delta, steps=steps)
        return facts, self.estimator.question(facts.domain)

    def bounds(self) -> tuple[Bound, ...]:
        """Return every public bound on the whole pipeline at ``delta``, the best first."""
        facts, question = self.facts_and_query()
        return facts.bounds(question)

    def guarantee(self) -> Guarantee:
        """Return the guarantee of a `fit` with secure noise, from public facts only."""
        facts, question = self.facts_and_query()
        return facts.guarantee(facts.bounds(question)[0].event)

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the budget, preprocess, release.

        Parameters
        ----------
        X : array_like of shape (rows, columns), or Table
            NaN is a missing cell. A table is read by `rows_of`, see `RowDomain.of`.
        y : array_like of shape (rows,), optional
            Target. It is not preprocessed.

        Returns
        -------
        PricedPipeline
            The pipeline itself, with released attributes.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the release. Nothing was computed.
        DataError
            If X or y has another shape than declared. Nothing was charged.
        UnprovenError
            If no bound is known for this chain.
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
        """Return a clone whose estimator has this ``noise_multiplier``.

        Parameters
        ----------
        multiplier : float
            Noise scale over sensitivity.

        Returns
        -------
        PricedPipeline
            Not fitted.
        """
        fresh: PricedPipeline = clone(self)
        fresh.estimator.noise_multiplier = multiplier
        return fresh


def calibrate(pipeline: PricedPipeline, epsilon: float) -> PricedPipeline:
    """Return the pipeline with the least noise whose guarantee is within ``epsilon``.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its estimator's ``noise_multiplier`` is replaced. Its delta stays.
    epsilon : float
        Target for the whole pipeline at its delta, finite and above 0.

    Returns
    -------
    PricedPipeline
        A clone whose noise exceeds the smallest noise by a relative 1e-3 at most.

    Raises
    ------
    UnprovenError
        If no amount of noise up to 1e9 sensitivities is enough.

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
    """Outcome of propose-test-release with a passed test: the released estimator."""

    estimator: PrivateEstimator
    guarantee: Guarantee


@dataclass(frozen=True)
class FailedTest:
    """Outcome of propose-test-release with a failed test, and no other release.

    Parameters
    ----------
    guarantee : Guarantee
        The guarantee of test and release together, because a failed test is an output too.
    """

    guarantee: Guarantee


def plan_test(
    pipeline: PricedPipeline, *, test_epsilon: float, failure_delta: float | None = None
) -> TestPlan:
    """Return the test and the total guarantee of `propose_test_release`, reading no data.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its delta is the total's.
    test_epsilon : float
        Spent on the test, finite and above 0.
    failure_delta : float or None
        At most the pipeline's delta. None: half of it, so that a budget with the same delta can
        account for the whole as a composition.

    Returns
    -------
    TestPlan
        Public.

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    UnprovenError
        If a step has no distance to failure, or no bound is finite.

    Notes
    -----
    Let J be the smallest of the steps' distances to failure. Each distance is 1-Lipschitz if the
    steps before it meet their conditions, and 0 if its own conditions fail. So J is 1-Lipschitz,
    and 0 if any condition fails. The test passes if J + Lap(1/e) > t = 1 + log(1 / (2 d)) / e.

    *Neighbours one of which fails*: J <= 1 on both tables. So either passes with probability at
    most d, and the test is e-DP. Together that is (e, d)-DP. *Both in the collection*: the e-DP
    test is composed with the pipeline, whose bound applies. A pair is of one kind or the other. So
    the total is the larger bound of the two at the same delta, not their sum.
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
    """Test the pipeline's conditions privately, and release only if they hold with a margin.

    The pipeline's budget is charged for test and release before anything is computed, whatever the
    outcome of the test.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its steps must know their distance to failure: PCA (rank), mean imputation, standard
        scaling, deduplication, quantisation, and steps without conditions.
    X, y
        As for `PricedPipeline.fit`.
    test_epsilon, failure_delta
        As for `plan_test`.

    Returns
    -------
    PassedTest or FailedTest
        The fitted estimator with its guarantee, or the guarantee alone if the test did not pass.

    Raises
    ------
    BudgetExceededError
        If the budget cannot afford test and release. Nothing was computed.
    UnprovenError
        If a step does not know its distance to failure, or no bound is known for the chain.

    Examples
    --------
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
