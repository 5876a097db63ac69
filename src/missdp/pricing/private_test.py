"""Propose-test-release: the plan of a private test of a table's conditions, and its mechanism."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from missdp.accounting import Event, Guarantee
from missdp.pricing.queries import OncePerRun, SampledNoise, VectorNoise
from missdp.session.noise import NoiseSource


@dataclass(frozen=True)
class TestPlan:
    """Plan of a private test of a pipeline's conditions, with its threshold, guarantee and charges.

    `plan_test` returns it. The test adds Laplace noise to the distance to failure, a lower bound on
    the row replacements before a condition fails. The estimator is released only if the noisy
    distance exceeds the threshold. The plan is public and reads no data.

    Parameters
    ----------
    test_epsilon : float
        Epsilon that the noisy distance to failure costs, from 1e-9 to 1e6.
    threshold : float
        Number of row replacements, above 1. The test passes if the noisy distance exceeds it.
    failure_delta : float
        Bound on the probability that the test passes although a condition fails, or fails after one
        replacement. Above 0 and below 0.5.
    guarantee : Guarantee
        The guarantee of test and release together, for every table. It has no tested condition.
        Its one event states the bound that `plan_test` proves.
    charges : tuple of Event
        The accounting events that a budget is charged: release first, then test. They cost a
        little more at the pipeline's delta, and compose better with other releases.

    References
    ----------
    Dwork & Lei (2009), for propose-test-release.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, plan_test, PCARankReducer
    >>> steps = [("pca", PCARankReducer(n_components=2, min_gap=0.2))]
    >>> pipeline = PricedPipeline(steps, PrivateMean(noise_multiplier=9.0), rows=5000, columns=9)
    >>> plan = plan_test(pipeline, test_epsilon=0.1)
    >>> round(plan.threshold, 1), len(plan.guarantee.conditions)
    (139.2, 2)
    """

    __test__ = False  # It is not a test class of pytest, although its name suggests one.

    test_epsilon: float
    threshold: float
    failure_delta: float
    guarantee: Guarantee
    charges: tuple[Event, ...]


def noise_of_test(epsilon: float) -> VectorNoise:
    """Return the noise of a distance to failure, which one replaced row moves by at most 1."""
    return VectorNoise("laplace", 1 / epsilon, sensitivity=1.0)


@dataclass(frozen=True)
class ConditionalAnswer:
    """The exact private numbers of a tested answer.

    Attributes
    ----------
    distance_to_failure : float
        The distance to failure of all conditions.
    answer : callable
        Returns the exact numbers of the answer itself. Called only if the test passes.
    """

    distance_to_failure: float
    answer: Callable[[], Any]


@dataclass(frozen=True)
class TestedNoise:
    """The mechanism of a tested answer: a noisy distance to failure, then the answer or None.

    The distance is drawn once, before the first answer. All answers of a run rest on it.

    Parameters
    ----------
    plan : TestPlan
        The test.
    mechanism : VectorNoise or SampledNoise
        Draws an answer if the test passes.
    """

    __test__ = False  # It is not a test class of pytest, although its name suggests one.

    plan: TestPlan
    mechanism: VectorNoise | SampledNoise
    outcome: OncePerRun = field(default_factory=OncePerRun, repr=False, compare=False)

    def draw(self, exact: ConditionalAnswer, source: NoiseSource) -> Any:
        """Return a noisy answer, or None if the noisy distance does not exceed the threshold."""
        passed: bool = self.outcome.value(lambda: self._passes(exact.distance_to_failure, source))
        return self.mechanism.draw(exact.answer(), source) if passed else None

    def _passes(self, distance_to_failure: float, source: NoiseSource) -> bool:
        noise = noise_of_test(self.plan.test_epsilon)
        (noisy,) = noise.draw(np.array([distance_to_failure]), source)
        return bool(noisy > self.plan.threshold)
