"""Fits and statistics spend from one budget, whether its schedule is fixed or adaptive."""

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.accounting import Budget, PureEvent, ZCDPEvent
from missdp.errors import BudgetExceededError, UnprovenError
from missdp.statistics import ImputedStatistics, KNNImputation, ScaleRelease

SCHEMA = Schema((
    Ordinal(name="age", levels=(0, 1, 2)),
    Categorical(name="sex", levels=("f", "m")),
    Numeric(name="income", lower=0, upper=10, bins=4, nullable=True),
))  # fmt: skip
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.integers(0, 3, 400), "sex": RNG.choice(["f", "m"], 400)})
FRAME["income"] = np.where(RNG.random(400) < 0.2, np.nan, RNG.uniform(0, 10, 400))
TABLE = Table.read(FRAME, SCHEMA)
KNN = KNNImputation(impute="income", match_on=("age", "sex"))


@pytest.mark.parametrize(
    ("delta", "currency", "cost"),
    [
        (0.0, "pure", {"epsilon": 0.25}),
        (1e-5, "zcdp", {"epsilon": 0.25}),
        (1e-5, "zcdp", {"rho": 0.01}),
        (1e-5, "renyi", {"rho": 0.01}),
    ],
)
def test_statistics_spend_from_an_adaptive_budget(delta, currency, cost):
    budget = Budget(2.0, delta, schedule="adaptive", currency=currency)
    asked = ImputedStatistics(TABLE, KNN, budget=budget)
    before = budget.left.amount
    first = asked.mean("income", where="age > 0", **cost)
    spent = before - budget.left.amount
    # A cost is spent whole, and in the currency of the budget.
    whole = {
        ("pure", "epsilon"): 0.25, ("zcdp", "epsilon"): 0.25**2 / 2, ("zcdp", "rho"): 0.01,
    }.get((currency, *cost))  # fmt: skip
    assert whole is None or 0.5 * whole <= spent <= whole * (1 + 1e-9)
    # What is asked next, and at what cost, may depend on this answer.
    asked.count(where="age = 1" if first.value > 5 else "age = 2", **cost)
    PrivBayes(epsilon=0.2, budget=budget, random_state=0).fit(TABLE)
    while budget.can_afford(PureEvent(epsilon=0.2)):
        asked.count(where="sex = 'f'", epsilon=0.2)
    with pytest.raises(BudgetExceededError):
        asked.count(where="sex = 'f'", epsilon=0.2)
    assert budget.spent.epsilon <= 2.0


def test_a_failure_probability_has_no_place_in_an_adaptive_budget():
    budget = Budget(2.0, 1e-5, schedule="adaptive")
    with pytest.raises(UnprovenError, match="adaptive"):
        ImputedStatistics(TABLE, KNN, budget=budget, scale=ScaleRelease(rho=0.02, delta=1e-7))
    assert budget.events == ()
    asked = ImputedStatistics(TABLE, KNN, budget=budget, scale=ScaleRelease())
    assert asked.count(rho=0.01).guarantee.events[-1].label == "count"
    assert not any(isinstance(event, ZCDPEvent) for event in budget.events)
