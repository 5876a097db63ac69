"""Propose-test-release: the test's power and error, the total guarantee, typed outcomes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import pricing as mp
from missdp.accounting import Budget, DeclaredRowCount, PublicDomain, epsilon_of
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.pricing import bounds, plan_test, propose_test_release
from missdp.pricing.privacy_maps import GaussianMap, Sensitivity

CASES = {
    "pca": ([("pca", mp.PCARankReducer(n_components=1, least_gap=0.2))], True),
    "mean": ([("impute", mp.MeanImputer(max_incomplete=400))], False),
    "scale": ([("scale", mp.StandardScaler(least_std=0.2))], True),
    "dedup": ([("dedup", mp.Deduplicator(eta=0.01, max_cluster=400))], True),
    "quantize": ([("round", mp.Quantizer(eta=0.01, max_cluster=400))], True),
    "chain": (
        [
            ("impute", mp.MeanImputer(max_incomplete=40)),
            ("scale", mp.StandardScaler(least_std=0.6)),
            ("clip", mp.RowClipper(radius=1.0)),
            ("pca", mp.PCARankReducer(n_components=1, least_gap=0.1, moment="second")),
        ],
        False,
    ),
}


def pipeline(name, **more):
    steps, complete = CASES[name]
    return mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=9.0), rows=4000, columns=2, complete=complete,
        **{"random_state": 0, **more},
    )  # fmt: skip


def good_rows(name="pca"):
    if name == "chain":
        signs = np.resize([1.0, -1.0], 4000)
        return 0.7 * np.column_stack([signs, np.where(np.arange(4000) % 10 < 9, signs, -signs)])
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.uniform(-0.9, 0.9, 4000), rng.uniform(-0.4, 0.4, 4000)])
    x[:, 1] += 0.5 * x[:, 0]
    return x


def bad_rows(name):
    if name in ("mean", "chain"):
        return np.where(np.arange(4000)[:, None] % 2 == 0, np.nan, good_rows())
    return np.zeros((4000, 2)) + 0.3


@pytest.mark.parametrize("name", CASES)
def test_good_tables_pass_and_bad_ones_are_refused(name):
    good = propose_test_release(pipeline(name), good_rows(name), test_epsilon=2.0)
    assert isinstance(good, mp.Released)
    assert np.isfinite(good.estimator.mean_).all()
    bad = propose_test_release(pipeline(name), bad_rows(name), test_epsilon=2.0)
    assert isinstance(bad, mp.Refused)
    assert not hasattr(bad, "estimator")
    assert good.guarantee == bad.guarantee


@pytest.mark.parametrize("name", CASES)
def test_no_tested_condition_is_left(name):
    plan = plan_test(pipeline(name), test_epsilon=0.5)
    assert plan.guarantee.conditions == (DeclaredRowCount(4000), PublicDomain())
    assert plan.guarantee.adjacency == "replace-one"


@pytest.mark.parametrize("test_epsilon", [0.1, 1.0, 3.0])
def test_the_test_passes_wrongly_with_less_than_the_stated_chance(test_epsilon):
    """Monte Carlo at distance 1 from failure, where the chance is largest: it is delta exactly."""
    plan = plan_test(pipeline("scale", delta=0.1), test_epsilon=test_epsilon)
    draws = np.random.default_rng(0).laplace(1.0, 1 / test_epsilon, 400_000)
    rate = (draws > plan.threshold).mean()
    assert rate == pytest.approx(plan.failure_delta, rel=0.05)


@given(
    epsilon=st.floats(0.01, 0.3),
    beta=st.floats(0.3, 1.0),
    surplus=st.floats(0.0, 8.0),
)
@settings(max_examples=40, deadline=None)
def test_the_total_is_never_looser_than_theorem_8(epsilon, beta, surplus):
    """DP-GD with sigma = 2 L sqrt(T) / (epsilon n) after rank reduction, L = mu = 1, n >= 101."""
    n, spread = 400, 1 + 12.2**2 / beta**2
    delta = math.exp(-max(3.0, 1.05 * epsilon**2 * spread) - surplus)  # Their side condition.
    theorem_8 = 3 * epsilon * math.sqrt(1.05 * spread * math.log(1 / delta)) + epsilon
    gradient = Sensitivity(replaced=2 / n, l12=1 / n, frobenius=1 / math.sqrt(n))
    descent = GaussianMap(sensitivity=gradient, sigma=2 * math.sqrt(10) / (epsilon * n), steps=10)
    step = mp.PCARankReducer(n_components=1, least_gap=beta)
    best = bounds(descent, step.stability(mp.NEIGHBOURS, mp.RowDomain(rows=n, columns=5)), delta)[0]
    assert best.epsilon + epsilon <= theorem_8


def test_the_total_is_at_most_the_sum_and_at_least_its_parts():
    for name in CASES:
        whole = pipeline(name)
        plan = plan_test(whole, test_epsilon=0.5)
        parts = whole.bounds()[0].epsilon
        assert max(0.5, parts) <= plan.guarantee.epsilon <= 0.5 + parts + 1e-4
        # The events, composed at the same delta, are the coarser account that a budget keeps.
        assert plan.guarantee.epsilon <= epsilon_of(plan.charges, 1e-6) + 1e-9


def test_the_budget_is_charged_for_test_and_release_before_reading():
    poor = Budget(0.3, 1e-6, adjacency="replace-one")
    with pytest.raises(BudgetExceededError):
        propose_test_release(pipeline("pca", budget=poor), object(), test_epsilon=0.5)
    rich = Budget(50.0, 1e-6, adjacency="replace-one")
    propose_test_release(pipeline("pca", budget=rich), bad_rows("pca"), test_epsilon=0.5)
    assert len(rich.events) == 2  # A refusal costs what a release costs.


def test_what_cannot_be_tested_is_refused():
    steps = [("impute", mp.MedianImputer(max_incomplete=9, central_gap=0.1))]
    untestable = mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=9.0), rows=100, columns=2, complete=False
    )
    with pytest.raises(UnprovenError, match="distance to failure"):
        plan_test(untestable, test_epsilon=0.5)
    for bad in ({"test_epsilon": 0.0}, {"test_epsilon": 1.0, "failure_delta": 0.5}):
        with pytest.raises(ParameterError):
            plan_test(pipeline("pca"), **bad)


def test_a_private_model_can_be_tested_and_released():
    x = good_rows()
    model = mp.PrivateLogisticRegression(noise_multiplier=40.0, n_iter=30)
    whole = mp.PricedPipeline(CASES["pca"][0], model, rows=4000, columns=2, random_state=0)
    out = propose_test_release(whole, x, (x[:, 0] > 0).astype(int), test_epsilon=2.0)
    assert isinstance(out, mp.Released)
    assert (out.estimator.predict(x) == (x[:, 0] > 0)).mean() > 0.8
