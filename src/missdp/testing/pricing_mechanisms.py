"""Checks of the mechanisms of private estimators (`missdp.pricing`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Event, RDPEvent
from missdp.pricing.private_test import ConditionalAnswer, TestedNoise, noise_of_test
from missdp.pricing.queries import SampledNoise, VectorNoise
from missdp.session.mechanisms import Noise
from missdp.testing.recording import snapshot
from missdp.testing.undercharges import distance, log_ratio, shift_problem, undercharges


@undercharges.register(VectorNoise)
def _(mechanism: VectorNoise, event: Event, exact: NDArray[Any], other: NDArray[Any]) -> str | None:
    """The vector may not move too far, and the noise may not be too small.

    The noise is compared with the charge, as pure epsilon or as rho. A Rényi curve may also depend
    on samples of the rows. Then only the declared sensitivity is checked.
    """
    shift = distance(exact, other, 1 if mechanism.kind == "laplace" else 2)
    if (problem := shift_problem(shift, mechanism.sensitivity)) or isinstance(event, RDPEvent):
        return problem
    return undercharges(Noise(mechanism.kind, mechanism.scale), event, exact, other)


@undercharges.register(SampledNoise)
def _(mechanism: SampledNoise, event: Event, exact: Any, other: Any) -> str | None:
    """The vector may not move too far, for any sample.

    The gradients of single rows are compared. No sample moves its mean by more than the rows that
    move most.
    """
    rows = [np.array([row]) for row in range(mechanism.rows)]
    shift = np.sort([distance(exact(row), other(row), 2) for row in rows])[-mechanism.batch :]
    max_shift = np.array([shift.sum() / mechanism.batch])
    return undercharges(mechanism.noise, event, max_shift, np.zeros(1))


@undercharges.register(TestedNoise)
def _(
    mechanism: TestedNoise, event: Event, exact: ConditionalAnswer, other: ConditionalAnswer
) -> str | None:
    """Neither the distance to failure nor the answer may move too far."""
    noise, (_, test) = noise_of_test(mechanism.plan.test_epsilon), mechanism.plan.charges
    distances = np.array([[exact.distance_to_failure], [other.distance_to_failure]])
    problem = undercharges(noise, test, *distances)
    return problem or undercharges(mechanism.mechanism, event, exact.answer(), other.answer())


@snapshot.register(TestedNoise)
def _(mechanism: TestedNoise, exact: ConditionalAnswer) -> ConditionalAnswer:
    """Compute the answer, too, whether or not the test passes."""
    answer = snapshot(mechanism.mechanism, exact.answer())
    return ConditionalAnswer(exact.distance_to_failure, lambda: answer)


@log_ratio.register(VectorNoise)
def _(
    mechanism: VectorNoise, answer: NDArray[Any], exact: NDArray[Any], other: NDArray[Any]
) -> float:
    """Compare the probabilities of the answer as a whole number of cells of the grid."""
    cells = map(mechanism._cells, (answer, exact, other))
    return log_ratio(mechanism._in_cells, *cells)
