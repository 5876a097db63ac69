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
_TAIL_ROOM = 2.0**-18


@dataclass(eq=False, repr=False)
class PricedPipeline(Parameters):
    """Preprocessing fitted on the private table, then a private estimator, accounted as one.

    Parameters
    ----------
    steps : sequence of (str, StableTransformer)
        Preprocessing, in order; may be empty. Fitted on the private table, without noise.
    estimator : PrivateEstimator
        The estimator that is released. Its radius, delta and random_state are not used; it must
        have no budget of its own.
    rows, columns : int
        Shape of the table; public.
    radius : float, default 1.0
        Rows are scaled down to this norm first.
    complete : bool, default True
        Whether no cell is missing; if True, a missing cell counts as 0.
    delta : float, default 1e-6
        At which the guarantee is stated.
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
    The fitted steps are private, and are thrown away. After the charge no table of the declared
    shape raises an error: cells that are not finite numbers are missing, and rows outside the
    radius are scaled down. After Hu, Sanyal & Schölkopf 2024, Theorem 2.

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
        """Return every bound on the whole pipeline at ``delta``, the best first; public."""
        facts, question = self.facts_and_query()
        return facts.bounds(question)

    def guarantee(self) -> Guarantee:
        """Return the guarantee a `fit` with secure noise will have; reads no data."""
        facts, question = self.facts_and_query()
        return facts.guarantee(facts.bounds(question)[0].event)

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the budget, preprocess, release.

        Parameters
        ----------
        X : array_like of shape (rows, columns), or Table
            NaN is a missing cell. A table is read by `rows_of`; see `RowDomain.of`.
        y : array_like of shape (rows,), optional
            Target; not preprocessed.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the release; nothing was computed.
        DataError
            If X or y has another shape than declared; nothing was charged.
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
        """Return a clone whose estimator has this ``noise_multiplier``."""
        fresh: PricedPipeline = clone(self)
        fresh.estimator.noise_multiplier = multiplier
        return fresh


def calibrated(pipeline: PricedPipeline, epsilon: float) -> PricedPipeline:
    """Return the pipeline with the least noise whose whole guarantee is within ``epsilon``.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its estimator's ``noise_multiplier`` is replaced; its delta is kept.
    epsilon : float
        Target for the whole pipeline at its delta, finite and above 0.

    Returns
    -------
    PricedPipeline
        A clone; the noise exceeds the least by a relative 1e-3 at most.

    Raises
    ------
    UnprovenError
        If no amount of noise up to 1e9 sensitivities is enough.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, calibrated, MeanImputer
    >>> pipeline = PricedPipeline(
    ...     [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))],
    ...     PrivateMean(noise_multiplier=1.0), rows=1000, columns=2, complete=False)
    >>> round(calibrated(pipeline, 1.0).estimator.noise_multiplier, 2)
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
class Released:
    """Outcome of propose-test-release: the test passed, and this is the release."""

    estimator: PrivateEstimator
    guarantee: Guarantee


@dataclass(frozen=True)
class Refused:
    """Outcome of propose-test-release: the test did not pass, which is all that is released.

    Parameters
    ----------
    guarantee : Guarantee
        The same as for a release: that the test did not pass is an output too.
    """

    guarantee: Guarantee


def plan_test(
    pipeline: PricedPipeline, *, test_epsilon: float, failure_delta: float | None = None
) -> TestPlan:
    """Return the test and the total guarantee of `propose_test_release`; reads no data.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its delta is the total's.
    test_epsilon : float
        Spent on the test, finite and above 0.
    failure_delta : float or None
        At most the pipeline's delta. None: half of it, so that a budget with the same delta can
        account for the whole as a composition.

    Notes
    -----
    Let J be the smallest of the steps' distances to failure; each is 1-Lipschitz where the steps
    before it meet their conditions and 0 where its own fail, so J is 1-Lipschitz, and 0 where any
    condition fails. The test passes if J + Lap(1/e) > t = 1 + log(1 / (2 d)) / e.

    *Neighbours one of which fails*: J <= 1 on both, so either passes with probability at most d,
    and the test is e-DP: (e, d)-DP. *Both in the collection*: the e-DP test composed with the
    pipeline, whose bound applies. A pair is of one kind or the other, so the total is the larger
    of both at the same delta, not their sum.
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
    whole = ApproximateEvent(
        epsilon=max(spent, min(spent + best.epsilon, composed)),
        delta=delta,
        label="propose-test-release",
        adjacency="replace-one",
    )
    charged = ApproximateEvent(epsilon=spent, delta=failure, label="test", adjacency="replace-one")
    return TestPlan(
        test_epsilon=epsilon,
        threshold=1 + (math.log(1 / (2 * failure)) + _TAIL_ROOM) / epsilon,
        failure_delta=failure,
        guarantee=facts.guarantee(whole, tested=True),
        charges=(best.event, charged),
    )


def propose_test_release(
    pipeline: PricedPipeline,
    X: Rows,
    y: ArrayLike | None = None,
    *,
    test_epsilon: float,
    failure_delta: float | None = None,
) -> Released | Refused:
    """Test the pipeline's conditions privately; release only if they hold by a margin.

    The pipeline's budget is charged for test and release before anything is computed, whether or
    not the test will pass.

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
    Released or Refused
        The fitted estimator with its guarantee; or, if the test did not pass, the guarantee alone.

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
    'Released'
    >>> type(propose_test_release(pipeline, narrow, test_epsilon=0.5)).__name__
    'Refused'
    """
    asked = pipeline.facts_and_query()
    test = _plan(*asked, test_epsilon, failure_delta)
    estimator, guarantee = pipeline._released((X, y), *asked, test)
    if hasattr(estimator, "guarantee_"):
        return Released(estimator, guarantee)
    return Refused(guarantee)
