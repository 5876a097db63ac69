"""Fits of every family, other releases and adaptive schedules spend from one budget."""

import numpy as np
import pytest
from dp_accounting import ZCDpEvent
from dp_accounting.rdp import RdpAccountant

from missdp import AIM, MST, Budget, Categorical, PrivBayes, Schema, Table
from missdp.accounting import (
    Cost,
    DataDependentDomain,
    DeclaredRowCount,
    ExplicitSeed,
    FilterEvent,
    GaussianEvent,
    gaussian_delta,
)
from missdp.errors import BudgetExceededError, UnprovenError
from missdp.mechanisms import Door, Noise, SecureNoise, Training
from missdp.sources import MemorySource, strategy_named
from synth.tables import rows_of, schema_of


@pytest.fixture(scope="module")
def table():
    return rows_of(schema_of(dict.fromkeys("abc", 3), "a"), 300)


def ones(codes):
    return np.ones((len(codes["a"]), 1))


def test_eight_fits_cost_what_they_are_capped_by_and_not_eight_epsilons(table):
    budget = Budget(3.0, 1e-5)
    for _ in range(8):
        MST(epsilon=1.0, delta=1e-6, budget=budget, random_state=0, model_rows=100).fit(table)
    squared = Cost.worth("gdp", 1.0, 1e-6).amount
    assert [event.cost.amount for event in budget.events] == pytest.approx([squared] * 8, rel=1e-12)
    assert gaussian_delta(budget.spent.epsilon, sigma=(8 * squared) ** -0.5) <= 1e-5
    assert gaussian_delta(budget.spent.epsilon - 1e-3, sigma=(8 * squared) ** -0.5) > 1e-5
    assert 2.7 < budget.spent.epsilon < 2.85
    before = budget.events
    MST(epsilon=1.0, delta=1e-6, budget=budget, random_state=0, model_rows=100).fit(table)
    with pytest.raises(BudgetExceededError):
        AIM(epsilon=1.0, delta=1e-6, budget=budget, random_state=0).fit(table)
    assert budget.events[:8] == before
    assert len(budget.events) == 9


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_families_marginals_and_training_share_one_budget(table, schedule):
    budget = Budget(4.0, 1e-5, schedule=schedule)
    fits = [
        AIM(epsilon=0.5, delta=1e-6, budget=budget, random_state=0, model_rows=100).fit(table),
        MST(epsilon=0.5, delta=1e-6, budget=budget, random_state=0, model_rows=100).fit(table),
        PrivBayes(epsilon=0.3, budget=budget, random_state=0).fit(table),
    ]
    budget.charge(GaussianEvent(sensitivity=1, sigma=20.0))
    mine = budget.reserve(Budget.from_cost(Cost(currency="zcdp", amount=0.02), delta=1e-6))
    door = Door(MemorySource(table), strategy_named("joint"), budget=mine, noise=SecureNoise())
    door.marginal(("a",), Noise.worth(door.share(0.5)))
    plan = Training.worth(door.left, rate=0.5, steps=3, clip=1.0)
    door.train(plan, ones, ()).step()
    rhos = [Cost.worth("gdp", 0.5, 1e-6).amount / 2] * 2 + [0.3**2 / 2, 1 / 800, 0.02]
    oracle = RdpAccountant(np.linspace(3, 90, 2000).tolist())
    oracle.compose(ZCDpEvent(sum(rhos)))
    assert door.left.amount < 1e-6
    if schedule == "adaptive":
        assert budget.cost.amount - budget.left.amount == pytest.approx(sum(rhos), rel=1e-9)
    else:
        assert budget.spent.epsilon <= oracle.get_epsilon(1e-5) + 1e-9
        assert budget.spent.epsilon >= 0.75 * oracle.get_epsilon(1e-5)
    for fit, event in zip(fits, budget.events, strict=False):
        assert isinstance(event, FilterEvent)
        assert event.capacity == fit.guarantee_.events[0].capacity


def test_a_replace_one_budget_pays_for_fits_and_an_add_remove_one_refuses_the_reverse(table):
    budget = Budget(2.0, adjacency="replace-one")
    PrivBayes(epsilon=0.4, budget=budget, random_state=0).fit(table)
    assert budget.spent.epsilon == 0.8
    fact = GaussianEvent(sensitivity=2, sigma=9, adjacency="replace-one", label="PrivateRidge")
    shared = Budget(2.0, 1e-5, schedule="adaptive")
    with pytest.raises(UnprovenError, match="PrivateRidge"):
        shared.charge(fact)
    assert not shared.events


def test_a_budget_without_delta_is_said_to_lack_one(table):
    with pytest.raises(
        BudgetExceededError, match="needs a delta of 1e-06, and the budget has none"
    ):
        MST(epsilon=1.0, budget=Budget(epsilon=5.0)).fit(table)
    with pytest.raises(BudgetExceededError, match="Ask for a smaller epsilon"):
        MST(epsilon=1.0, budget=Budget(epsilon=0.5, delta=1e-6)).fit(table)
    with pytest.raises(BudgetExceededError, match="Ask for a smaller epsilon"):
        PrivBayes(epsilon=1.0, budget=Budget(epsilon=0.5)).fit(table)


def test_what_a_fit_rests_on_is_part_of_what_the_shared_budget_promises():
    """Also what is no condition of any single release: facts of the schema and of parameters."""
    budget = Budget(2.0)
    marked = Schema(
        (Categorical(name="a", levels=(0, 1, 2), nullable=True, undeclared=("levels",)),)
    )
    rows = Table.from_codes(marked, {"a": np.arange(300) % 4})
    fit = PrivBayes(epsilon=0.4, n_rows=300, budget=budget, random_state=0)
    fit.fit(rows, undeclared="accept")
    held = {type(condition) for condition in budget.spent.conditions}
    assert {DataDependentDomain, DeclaredRowCount, ExplicitSeed} <= held
    assert {type(condition) for condition in fit.guarantee_.conditions} <= held
