"""Coverage of the worst-case interval: complete table known, values missing not at random."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pandas as pd
import pytest

from missdp import Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget
from missdp.mechanisms import asks
from missdp.statistics import (
    CompleteRows,
    ImputedStatistics,
    KNNImputation,
    ReleasedModel,
    ScaleRelease,
)


def asked(table: Table, imputation: object, **more: object) -> ImputedStatistics:
    return ImputedStatistics(table, imputation, budget=Budget(1e9), **more)


MNAR = Schema(
    (
        Ordinal(name="age", levels=tuple(range(4))),
        Numeric(name="income", lower=0, upper=100, nullable=True),
    )
)
RUNS = 60


def not_at_random(size: int = 500) -> tuple[Table, pd.DataFrame]:
    """A third of the incomes is 100 and all of those are missing: the worst that can be."""
    rng = np.random.default_rng(5)
    income = np.where(rng.random(size) < 0.33, 100.0, rng.uniform(0, 50, size))
    frame = pd.DataFrame({"age": rng.integers(0, 4, size), "income": income})
    holes = frame.assign(income=frame["income"].where(frame["income"] < 100))
    return Table.read(holes, MNAR), frame


def truths(frame: pd.DataFrame) -> dict[str, float]:
    old, rich = frame["age"] >= 2, frame["income"] > 60
    return {
        "count": float(rich.sum()),
        "proportion": float(rich[old].mean()),
        "mean": float(frame["income"][old].mean()),
        "sum": float(frame["income"].sum()),
    }


QUESTIONS = {
    "count": lambda s, **c: s.count(where="income > 60", **c),
    "proportion": lambda s, **c: s.proportion("income > 60", where="age >= 2", **c),
    "mean": lambda s, **c: s.mean("income", where="age >= 2", **c),
    "sum": lambda s, **c: s.sum("income", **c),
}
METHODS = {
    "knn": KNNImputation(impute="income", match_on="age"),
    "model": ReleasedModel(impute=("income",), match_on=("age",), epsilon=10.0),
    "complete": CompleteRows(impute=("income",)),
}


def coverage(name: str, method: str, confidence: float = 0.9) -> tuple[float, float, float]:
    """Shares of runs: complete-data truth in the noise interval, in the other, in its inside."""
    table, frame = not_at_random()
    truth, found = truths(frame)[name], []
    for seed in range(RUNS):
        knn = method == "knn"
        statistics = asked(
            table, METHODS[method], confidence=confidence, random_state=seed,
            scale=ScaleRelease(epsilon=5.0) if knn else None,
        )  # fmt: skip
        answer = QUESTIONS[name](statistics, epsilon=20.0, uncertainty="worst-case")
        (low, high), (a, b) = answer.interval, answer.imputation_interval
        found.append((low <= truth <= high, a <= truth <= b, b - a))
    return tuple(np.mean(found, axis=0))


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_the_complete_statistic_is_covered_when_values_are_missing_for_what_they_are(
    name: str, method: str
) -> None:
    noise_only, widened, width = coverage(name, method)
    assert widened >= 0.9
    # The truth is not in the noise interval: without the widening there is no coverage.
    assert noise_only <= 0.1
    limit = {"count": 0.4 * 500, "proportion": 0.4, "mean": 40, "sum": 0.4 * 500 * 100}
    assert width < limit[name]


@pytest.mark.parametrize("name", QUESTIONS)
def test_coverage_needs_the_noise_margin(name: str) -> None:
    # The truth is the very end of what is possible, so half the runs miss it without a margin.
    with mock.patch.object(asks, "_laplace_radius", return_value=lambda level: 0.0):
        table, frame = not_at_random()
        truth, inside = truths(frame)[name], []
        for seed in range(RUNS):
            statistics = asked(table, METHODS["complete"], random_state=seed)
            answer = QUESTIONS[name](statistics, epsilon=1.0, uncertainty="worst-case")
            low, high = answer.imputation_interval
            inside.append(low <= truth <= high)
    assert 0.2 < np.mean(inside) < 0.8


@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_small_epsilon_and_low_confidence_are_covered_as_stated(confidence: float) -> None:
    table, frame = not_at_random()
    for name, truth in truths(frame).items():
        inside = []
        for seed in range(RUNS):
            statistics = asked(table, METHODS["complete"], confidence=confidence, random_state=seed)
            answer = QUESTIONS[name](statistics, epsilon=0.5, uncertainty="worst-case")
            low, high = answer.imputation_interval
            assert low <= answer.value <= high
            inside.append(low <= truth <= high)
        assert np.mean(inside) >= confidence - 0.05
