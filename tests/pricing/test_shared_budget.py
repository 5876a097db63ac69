"""One replace-one budget for estimators, pipelines, tests, synthesizers and statistics."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from missdp import MST, Categorical, Numeric, PrivBayes, Schema, Table
from missdp import pricing as mp
from missdp.accounting import (
    Budget,
    ExplicitSeed,
    epsilon_under,
)
from missdp.accounting.filters import filter_cost
from missdp.errors import BudgetExceededError, UnprovenError
from missdp.pricing import propose_test_release
from pricing.cases import ESTIMATORS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 2)) * 0.5, RNG.integers(0, 2, 300)
SCHEMA = Schema(
    (
        Categorical(name="sex", levels=("f", "m")),
        Numeric(name="income", lower=0, upper=10, bins=5, nullable=True),
    )
)
TABLE = Table.read(
    pd.DataFrame(
        {
            "sex": RNG.choice(["f", "m"], 300),
            "income": np.where(RNG.random(300) < 0.2, np.nan, RNG.uniform(0, 10, 300)),
        }
    ),
    SCHEMA,
)


def pipeline(**more):
    steps = [("scale", mp.StandardScaler(least_std=0.2))]
    facts = {"rows": 300, "columns": 2, "random_state": 0} | more
    return mp.PricedPipeline(steps, mp.PrivateMean(noise_multiplier=90.0), **facts)


def test_estimators_pipelines_and_tests_share_a_fixed_budget():
    budget = Budget(8.0, 1e-5, adjacency="replace-one")
    for name, estimator in ESTIMATORS.items():
        quiet = {"budget": budget, "random_state": 0, "noise_multiplier": 60.0}
        clone(estimator).set_params(**quiet).fit(X, Y)
        assert budget.events[-1].label == type(estimator).__name__, name
    pipeline(budget=budget).fit(X)
    propose_test_release(pipeline(budget=budget), X, test_epsilon=0.5)
    assert len(budget.events) == len(ESTIMATORS) + 3
    assert {event.adjacency for event in budget.events} == {"replace-one"}
    spent = budget.spent
    assert spent.epsilon == epsilon_under(budget.events, 1e-5, "replace-one") <= 8.0
    assert spent.epsilon < sum(epsilon_under(e, 1e-5, "replace-one") for e in budget.events)
    assert spent.adjacency == "replace-one"
    assert ExplicitSeed() in spent.conditions


@pytest.mark.parametrize("currency", ["zcdp", "renyi"])
def test_estimators_share_an_adaptive_budget_in_its_currency(currency):
    budget = Budget(8.0, 1e-5, adjacency="replace-one", schedule="adaptive", currency=currency)
    charged = 0
    for estimator in ESTIMATORS.values():
        quiet = clone(estimator).set_params(budget=budget, noise_multiplier=60.0, random_state=0)
        left = budget.left
        if currency == "zcdp" and getattr(estimator, "method", "") in ("sgd", "iteration"):
            with pytest.raises(
                UnprovenError, match=rf"{type(estimator).__name__} cannot.*currency"
            ):
                quiet.fit(X, Y)
            assert budget.left == left
            continue
        quiet.fit(X, Y)
        charged += 1
        cost = float(filter_cost(budget.events[-1], left))
        assert left.amount - budget.left.amount == pytest.approx(cost, rel=1e-6)
    assert len(budget.events) == charged
    with pytest.raises(UnprovenError, match=r"PrivateMean cannot.*currency"):
        propose_test_release(pipeline(budget=budget), X, test_epsilon=0.5)
    assert len(budget.events) == charged


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_synthesizers_and_estimators_share_a_replace_one_budget(schedule):
    """What is promised under add-remove costs a replace-one budget its proven conversion."""
    budget = Budget(10.0, 1e-5, adjacency="replace-one", schedule=schedule)
    PrivBayes(epsilon=0.5, budget=budget, random_state=0).fit(TABLE)
    MST(epsilon=0.2, delta=1e-6, budget=budget, random_state=0).fit(TABLE)
    mp.PrivateMean(noise_multiplier=20.0, budget=budget, random_state=0).fit(X)
    converted = [event.to_replace_one() for event in budget.events]
    assert epsilon_under(budget.events[0], 0.0, "replace-one") == pytest.approx(1.0)
    assert epsilon_under(converted, 1e-5, "replace-one") <= budget.spent.epsilon <= 10.0
    if schedule == "adaptive":
        costs = sum(filter_cost(e, budget.cost) for event in converted for e in event.flatten())
        assert budget.cost.amount - budget.left.amount == pytest.approx(float(costs), rel=1e-6)
    tight = Budget(0.99, adjacency="replace-one", schedule=schedule)
    with pytest.raises(BudgetExceededError):
        PrivBayes(epsilon=0.5, budget=tight).fit(TABLE)
    assert not tight.events
