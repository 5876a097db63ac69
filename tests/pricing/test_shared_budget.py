"""One replace-one budget for estimators, pipelines, tests and synthesizers."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from missdp import MST, Numeric, Schema, Table
from missdp import pricing as mp
from missdp.accounting import Budget, ExplicitSeed, epsilon_under
from missdp.datasets import yrbss
from missdp.errors import LedgerError, UnprovenError
from missdp.pricing import propose_test_release
from pricing.cases import ESTIMATORS

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(300, 2)) * 0.5, RNG.integers(0, 2, 300)


def pipeline(**more):
    steps = [("scale", mp.StandardScaler(least_std=0.2))]
    facts = {"rows": 300, "columns": 2, "random_state": 0} | more
    return mp.PricedPipeline(steps, mp.PrivateMean(noise_multiplier=90.0), **facts)


def test_rows_whose_schema_names_a_ledger_are_paid_for_there():
    names = ("a", "b")
    schema = Schema(tuple(Numeric(name=n, lower=-9, upper=9) for n in names), ledger="#patients")
    table = Table.read(dict(zip(names, X.T.tolist(), strict=True)), schema)
    for taken in (None, Budget(9.0, 1e-5, adjacency="replace-one")):
        for asked in (*map(clone, ESTIMATORS.values()), pipeline()):
            with pytest.raises(LedgerError, match="without which nothing is read"):
                asked.set_params(budget=taken).fit(table, Y)
    with pytest.raises(LedgerError):
        propose_test_release(pipeline(), table, test_epsilon=0.5)


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
    # What is promised under add-remove costs its proven conversion.
    MST(epsilon=0.2, delta=1e-6, budget=budget, random_state=0, model_rows=100).fit(yrbss().table())
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
        cost = float(left.price(budget.events[-1]))
        assert left.amount - budget.left.amount == pytest.approx(cost, rel=1e-6)
    assert len(budget.events) == charged
    with pytest.raises(UnprovenError, match=r"PrivateMean cannot.*currency"):
        propose_test_release(pipeline(budget=budget), X, test_epsilon=0.5)
    assert len(budget.events) == charged
