"""A question in text becomes one charged answer."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdp import Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget
from missdp.errors import BudgetExceededError, ParameterError
from missdp.statistics import Histogram, QueryRequest, run_query

SCHEMA = Schema(
    (
        Ordinal(name="age", levels=tuple(range(10))),
        Numeric(name="income", lower=0, upper=100, nullable=True),
        Numeric(name="hours", lower=0, upper=80),
    )
)
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.integers(0, 10, 2000), "hours": RNG.uniform(0, 80, 2000)})
FRAME["income"] = np.where(RNG.random(2000) < 0.2, np.nan, 10 * FRAME["age"] * 0.9)
TABLE = Table.read(FRAME, SCHEMA)


def request(**facts: object) -> QueryRequest:
    usual = {"impute": "income", "match": "age", "statistic": "mean", "of": "income"}
    return QueryRequest(**{**usual, "epsilon": 1.0, **facts})


@pytest.mark.parametrize(
    "facts",
    [
        {},
        {"where": "2 <= age < 5"},
        {"statistic": "count", "of": "", "where": "income > 50"},
        {"statistic": "proportion", "of": "income > 50", "where": "age > 2"},
        {"statistic": "sum"},
        {"statistic": "variance", "k": 3},
        {"statistic": "standard_deviation"},
        {"statistic": "correlation", "of": "income, hours"},
        {"statistic": "histogram"},
        {"statistic": "mean", "of": "hours", "where": "age = 3"},
        {"match": "hours", "group": "age"},
        {"bar_share": 0.0},
    ],
)
def test_every_statistic_spends_its_epsilon(facts: dict[str, object]) -> None:
    budget = Budget(1.0)
    answer = run_query(TABLE, request(**facts), budget=budget)
    assert answer.guarantee.epsilon == pytest.approx(1.0)
    assert budget.remaining_epsilon == pytest.approx(0.0, abs=1e-9)
    bars = answer.intervals if isinstance(answer, Histogram) else answer.interval
    assert (bars is None) == (facts.get("bar_share") == 0.0)


@pytest.mark.parametrize(
    "facts",
    [
        {"statistic": "mode"},
        {"of": ""},
        {"statistic": "count", "of": "income"},
        {"bar_share": 1.0},
        {"statistic": "correlation", "of": "income"},
        {"statistic": "mean", "of": "income, hours"},
        {"statistic": "mean", "of": "age"},
        {"statistic": "proportion", "of": "age"},
        {"where": "age >"},
        {"match": "income"},
    ],
)
def test_wrong_questions_cost_nothing(facts: dict[str, object]) -> None:
    budget = Budget(1.0)
    with pytest.raises(ParameterError):
        run_query(TABLE, request(**facts), budget=budget)
    assert budget.events == ()


def test_a_budget_that_is_too_small_is_not_touched_by_half() -> None:
    budget = Budget(0.5)
    with pytest.raises(BudgetExceededError):
        run_query(TABLE, request(epsilon=1.0), budget=budget)
