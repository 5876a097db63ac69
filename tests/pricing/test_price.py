"""The price of a pipeline, its private test, and an attack that it withstands."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler as Unknown

from missdp import pricing as mp
from missdp.accounting import (
    Budget,
    DeclaredRowCount,
    ExplicitSeed,
    Guarantee,
    PublicDomain,
    epsilon_of,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError, UnprovenError
from missdp.mechanisms.exact_noise import SeededNoise
from missdp.pricing import (
    bounds,
    calibrated,
    load_pipeline,
    plan_test,
    plot_price,
    price,
    propose_test_release,
)
from missdp.pricing.privacy_maps import PrivacyMap, Sensitivity
from missdp.pricing.replace_one import ReplaceOneDoor

ESTIMATORS = [
    mp.PrivateMean(noise_multiplier=4.0),
    mp.PrivateMean(noise_multiplier=4.0, mechanism="laplace"),
    mp.PrivateCovariance(noise_multiplier=4.0),
    mp.PrivateHistogram(edges=[-1, 0, 1], noise_multiplier=4.0),
    mp.PrivateLogisticRegression(noise_multiplier=30.0, n_iter=20),
    mp.PrivateLogisticRegression(noise_multiplier=4.0, n_iter=20, method="sgd", batch_size=20),
    mp.PrivateLinearRegression(noise_multiplier=30.0, n_iter=20),
    mp.PrivateLinearRegression(noise_multiplier=4.0, method="iteration", learning_rate=0.04),
]


def impute_and_scale(estimator, **more):
    steps = [
        ("impute", mp.MeanImputer(max_incomplete=30)),
        ("scale", mp.StandardScaler(least_std=0.4)),
    ]
    return mp.PricedPipeline(
        steps, estimator, rows=1000, columns=2, complete=False, **{"delta": 1e-6, **more}
    )


def rows(seed=0, holes=20):
    rng = np.random.default_rng(seed)
    x = rng.choice([-0.7, 0.7], size=(1000, 2))
    x[rng.choice(1000, holes, replace=False), 0] = np.nan
    return x, (rng.random(1000) < 0.5).astype(int)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda e: type(e).__name__)
def test_the_price_is_between_the_naive_claim_and_every_other_bound(estimator):
    result = price(impute_and_scale(estimator))
    assert result.naive_epsilon < result.epsilon
    if isinstance(estimator, mp.PrivateMean):
        assert result.bound == "direct"
    if getattr(estimator, "method", "") == "sgd":
        assert result.bound == "theorem 2"
    assert all(result.epsilon <= other + 1e-9 for _, other in result.alternatives)
    assert result.epsilon == result.guarantee.epsilon <= result.group_epsilon
    kinds = {type(c) for c in result.guarantee.conditions}
    assert {DeclaredRowCount, mp.IncompleteRows, mp.LeastStandardDeviation} <= kinds
    assert result.guarantee.adjacency == "replace-one"
    assert Guarantee.from_dict(result.to_dict()["guarantee"]) == result.guarantee
    assert json.loads(json.dumps(result.to_dict()))["adjacency"] == "replace-one"
    for condition in result.guarantee.conditions:
        assert condition.statement() in str(result)


def test_laplace_price_is_the_table_entry_and_pure():
    """Epsilon (1 + L tau) with both in units of the sensitivity: Hu et al., Table 2."""
    pipeline = mp.PricedPipeline(
        [("impute", mp.MeanImputer(max_incomplete=10, cells_per_row=1))],
        mp.PrivateMean(noise_multiplier=2.0, mechanism="laplace"),
        rows=200, columns=1, complete=False, delta=0.0,
    )  # fmt: skip
    tau = 10 * 2 / 190
    assert price(pipeline).epsilon == pytest.approx(0.5 * (1 + tau / 2), rel=1e-5)
    assert price(pipeline).guarantee.delta == 0
    with pytest.raises(UnprovenError, match="state a delta"):
        price(impute_and_scale(mp.PrivateMean(noise_multiplier=2.0), delta=0.0))


@pytest.mark.slow
def test_estimates_are_right_when_the_noise_is_small():
    rng = np.random.default_rng(1)
    x = rng.uniform(-0.5, 0.5, size=(4000, 2))
    quiet = {"noise_multiplier": 1e-3, "random_state": 0}
    np.testing.assert_allclose(mp.PrivateMean(**quiet).fit(x).mean_, x.mean(axis=0), atol=1e-4)
    np.testing.assert_allclose(
        mp.PrivateCovariance(**quiet).fit(x).covariance_, np.cov(x.T), atol=1e-4
    )
    counts = mp.PrivateHistogram(edges=[-1, 0, 1], **quiet).fit(x).counts_
    assert counts.tolist() == [int((x[:, 0] < 0).sum()), int((x[:, 0] >= 0).sum())]
    target = x @ [0.6, -0.4]
    for method, more in (("gd", {"n_iter": 400}), ("sgd", {"n_iter": 400}), ("iteration", {})):
        model = mp.PrivateLinearRegression(method=method, learning_rate=1.0, **more, **quiet)
        coef = model.fit(x, target).coef_
        np.testing.assert_allclose(coef, [0.6, -0.4], atol=0.2 if method == "iteration" else 0.1)
    labels = np.where(target > 0, "yes", "no")
    model = mp.PrivateLogisticRegression(classes=("no", "yes"), coefficient_norm=20, **quiet)
    assert (model.fit(x, labels).predict(x) == labels).mean() > 0.95
    assert model.predict_proba(x).shape == (4000, 2)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_the_released_mean_has_the_stated_noise(kind):
    from scipy.stats import kstest

    x = np.full((100, 4000), 0.003)
    mean = mp.PrivateMean(noise_multiplier=3.0, mechanism=kind, random_state=7).fit(x).mean_ - 0.003
    scale = 3.0 * 2 / 100 * (1 if kind == "gaussian" else math.sqrt(4000))
    law = "norm" if kind == "gaussian" else "laplace"
    assert kstest(mean / scale, law).pvalue > 1e-3
    assert kstest(mean / (1.3 * scale), law).pvalue < 1e-2
    assert kstest(mean / (0.7 * scale), law).pvalue < 1e-2


GOOD = """
delta = 1e-6
[table]
rows = 1000
columns = 2
complete = false
[[step]]
kind = "impute-mean"
max_incomplete = 30
[[step]]
kind = "scale-standard"
name = "scale"
least_std = 0.4
[mechanism]
kind = "mean"
noise_multiplier = 4.0
"""


CASES = {
    "pca": ([("pca", mp.PCARankReducer(n_components=1, least_gap=0.2))], True),
    "mean": ([("impute", mp.MeanImputer(max_incomplete=400))], False),
    "scale": ([("scale", mp.StandardScaler(least_std=0.2))], True),
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
    paid = [Budget(1e4, 1e-3, adjacency="replace-one") for _ in range(2)]
    one, two = (pipeline(name, budget=budget) for budget in paid)
    good = propose_test_release(one, good_rows(name), test_epsilon=2.0)
    assert isinstance(good, mp.Released)
    assert np.isfinite(good.estimator.mean_).all()
    bad = propose_test_release(two, bad_rows(name), test_epsilon=2.0)
    assert isinstance(bad, mp.Refused)
    assert not hasattr(bad, "estimator")
    assert good.guarantee == bad.guarantee
    assert paid[0].events == paid[1].events  # a refusal costs what a release costs
    assert len(paid[1].events) == 2
    poor = pipeline(name, budget=Budget(0.3, 1e-6, adjacency="replace-one"))
    with pytest.raises(BudgetExceededError):  # before anything is read
        propose_test_release(poor, object(), test_epsilon=0.5)
    whole = pipeline(name)
    plan, parts = plan_test(whole, test_epsilon=2.0), whole.bounds()[0].epsilon
    assert max(2.0, parts) <= plan.guarantee.epsilon <= 2.0 + parts + 1e-4
    # The events, composed at the same delta, are the coarser account that a budget keeps.
    assert plan.guarantee.epsilon <= epsilon_of(plan.charges, 1e-6) + 1e-9
    assert plan.guarantee.conditions == (DeclaredRowCount(4000), PublicDomain())
    assert plan.guarantee.adjacency == "replace-one"


def test_what_is_tested_for_is_what_is_released(monkeypatch):
    asked = []
    question = mp.PrivateMean.question
    monkeypatch.setattr(
        mp.PrivateMean,
        "question",
        lambda self, domain: asked.append(question(self, domain)) or asked[-1],
    )
    propose_test_release(pipeline("scale"), good_rows("scale"), test_epsilon=2.0)
    assert len(asked) == 1


@pytest.mark.parametrize("test_epsilon", [0.1, 1.0, 3.0])
def test_the_test_passes_wrongly_with_less_than_the_stated_chance(test_epsilon):
    """Monte Carlo at distance 1 from failure, where the chance is largest: it is delta exactly."""
    plan = plan_test(pipeline("scale", delta=0.1), test_epsilon=test_epsilon)
    draws = np.random.default_rng(0).laplace(1.0, 1 / test_epsilon, 400_000)
    rate = (draws > plan.threshold).mean()
    assert rate == pytest.approx(plan.failure_delta, rel=0.05)


@given(epsilon=st.floats(0.01, 0.3), beta=st.floats(0.3, 1.0), surplus=st.floats(0.0, 8.0))
@settings(max_examples=15, deadline=None)
def test_the_total_is_never_looser_than_theorem_8(epsilon, beta, surplus):
    """DP-GD with sigma = 2 L sqrt(T) / (epsilon n) after rank reduction, L = mu = 1, n >= 101."""
    n, spread = 400, 1 + 12.2**2 / beta**2
    delta = math.exp(-max(3.0, 1.05 * epsilon**2 * spread) - surplus)  # Their side condition.
    theorem_8 = 3 * epsilon * math.sqrt(1.05 * spread * math.log(1 / delta)) + epsilon
    gradient = Sensitivity(replaced=2 / n, l12=1 / n, frobenius=1 / math.sqrt(n))
    descent = PrivacyMap.gaussian(
        sensitivity=gradient, sigma=2 * math.sqrt(10) / (epsilon * n), steps=10
    )
    step = mp.PCARankReducer(n_components=1, least_gap=beta)
    best = bounds(descent, step.stability(mp.NEIGHBOURS, mp.RowDomain(rows=n, columns=5)), delta)[0]
    assert best.epsilon + epsilon <= theorem_8


DELTA, RUNS = 1e-2, 3_000


def shown_epsilon(pipeline, x, y):
    """A lower confidence bound on epsilon at DELTA from outputs on two neighbouring tables.

    The attacker picks a threshold on the released mean on the first half of the runs; the second
    half bounds both error rates (Clopper-Pearson, 1 - 1e-4 each).
    """
    assert (np.nan_to_num(x) != np.nan_to_num(y)).any(axis=1).sum() <= 1
    facts, noise, outputs = pipeline.asked()[0], SeededNoise(3), []
    question = pipeline.estimator.question(facts.domain)
    for table in (x, y):
        with ReplaceOneDoor(table, facts, budget=None, noise=noise) as door:
            outputs.append(np.array([door.ask(question)[0] for _ in range(RUNS)]))
    if outputs[0].mean() > outputs[1].mean():
        outputs = [-o for o in outputs]
    half = RUNS // 2
    candidates = np.quantile(np.concatenate(outputs), np.linspace(0.02, 0.98, 60))
    rates = [((o[:half, None] > candidates).mean(axis=0)) for o in outputs]
    score = np.log(np.maximum(rates[1] - DELTA, 1e-12) / np.maximum(rates[0], 2e-3))
    threshold = candidates[int(np.argmax(score))]
    hits = [int((o[half:] > threshold).sum()) for o in outputs]
    rest = RUNS - half
    low = beta.ppf(1e-4, hits[1], rest - hits[1] + 1)
    high = beta.ppf(1 - 1e-4, hits[0] + 1, rest - hits[0])
    return math.log((low - DELTA) / high)


# Statistics by brute force; other tests cover the code, and tracing it would double the time.
def test_the_attack_exceeds_the_naive_claim_but_not_the_price():
    """Most cells are missing: every imputed cell follows the one replaced value."""
    x = np.full((200, 1), 0.0)
    x[50:] = np.nan
    y = x.copy()
    x[0], y[0] = 1.0, -1.0
    steps, end = (
        [("impute", mp.MeanImputer(max_incomplete=150))],
        mp.PrivateMean(noise_multiplier=2.0),
    )
    facts = {"rows": 200, "columns": 1, "complete": False, "delta": DELTA}
    pipeline = mp.PricedPipeline(steps, end, **facts)
    result, shown = price(pipeline), shown_epsilon(pipeline, x, y)
    assert 1.3 * result.naive_epsilon < shown <= result.epsilon
    # The pair is the worst one, so an exact audit of the shift leaves no slack in the price.
    (facts, mean), noise = pipeline.asked(), SeededNoise(0)
    doors = [ReplaceOneDoor(t, facts, budget=None, noise=noise) for t in (x, y)]
    finals = [door._exact(mean)[0] for door in doors]
    moved = math.sqrt(2 * pipeline.bounds()[0].event.rho)
    assert abs(finals[0] - finals[1]) / (2.0 * 2 / 200) == pytest.approx(moved, rel=1e-4)


def test_a_fit_states_the_price_and_charges_before_anything_is_read():
    pipeline = impute_and_scale(mp.PrivateMean(noise_multiplier=4.0), random_state=0)
    fitted = clone(pipeline).fit(*rows())
    assert fitted.guarantee_.epsilon == price(pipeline).epsilon
    assert ExplicitSeed() in fitted.guarantee_.conditions
    assert ExplicitSeed() not in pipeline.guarantee().conditions
    assert fitted.estimator_.guarantee_ is fitted.guarantee_
    assert mp.NotFittedOnThisTable() not in fitted.guarantee_.conditions
    secure = clone(pipeline).set_params(random_state=None).fit(*rows())
    assert np.abs(secure.estimator_.mean_ - fitted.estimator_.mean_).max() < 1
    small, enough = (Budget(e, 1e-6, adjacency="replace-one") for e in (0.5, 1e4))
    for budget, error in ((small, BudgetExceededError), (enough, DataError)):
        with pytest.raises(error):  # what is no table is refused when it is read, and paid by then
            clone(pipeline).set_params(budget=budget).fit(object())
    assert small.events == ()
    assert len(enough.events) == 1
    assert mp.IncompleteRows(30, 2) in enough.spent.conditions
    for estimator in ESTIMATORS[:2]:
        found = calibrated(impute_and_scale(estimator), 1.0)
        assert 0.99 < price(found).epsilon <= 1.0
        assert found.estimator.noise_multiplier != estimator.noise_multiplier


def test_what_has_no_price_is_refused(tmp_path):
    domain, pca = (
        mp.RowDomain(rows=500, columns=3),
        mp.PCARankReducer(n_components=1, least_gap=0.2),
    )
    ours, end = make_pipeline(pca, ESTIMATORS[0]), ESTIMATORS[0]
    declared = mp.PricedPipeline(ours.steps[:-1], ours[-1], rows=500, columns=3)
    assert price(ours, domain=domain).epsilon == price(declared).epsilon
    assert price(declared, delta=1e-3).epsilon < price(declared).epsilon
    steps = [("impute", mp.MedianImputer(max_incomplete=9, central_gap=0.1))]
    holes = mp.PricedPipeline(steps, end, rows=100, columns=2, complete=False)
    for ask, error, told in (
        (lambda: price(ours), ParameterError, "domain"),
        (lambda: price(make_pipeline(Unknown(), end), domain=domain), UnprovenError, "not known"),
        (lambda: price(make_pipeline(pca, Unknown()), domain=domain), UnprovenError, "private est"),
        (lambda: price(holes.set_params(steps=[])), ParameterError, "imputation"),
        (lambda: plan_test(holes.set_params(steps=steps), test_epsilon=0.5), UnprovenError, "fail"),
        (lambda: plan_test(declared, test_epsilon=0.0), ParameterError, "test_epsilon"),
        (lambda: plan_test(declared, test_epsilon=1, failure_delta=0.5), ParameterError, "at most"),
        (lambda: load_pipeline(tmp_path / "absent.toml"), ParameterError, "cannot read"),
    ):
        with pytest.raises(error, match=told) as caught:
            ask()
        assert caught.value.__context__ is None


WRONG = [
    ("impute-mean", "impute-magic", "kind must be one of"),
    ("max_incomplete", "max_incomplet", "does not take max_incomplet"),
    ("max_incomplete = 30", "", "needs max_incomplete"),
    ("rows = 1000", "", "needs rows"),
    ("[mechanism]", "[mechanisms]", "does not take mechanisms"),
    ('name = "scale"', 'name = "impute-mean"', "share a name"),
    ("noise_multiplier = 4.0", "noise_multiplier = 4.0\nrandom_state = 0", "random_state"),
    ("delta = 1e-6", "delta = ", "not a TOML file"),
    ("delta = 1e-6", "delta = 'small'", "delta"),
    ("rows = 1000", "rows = 1", "at least 2 rows"),
    ("rows = 1000", "rows = 'x'", "whole number"),
    ("max_incomplete = 30", 'max_incomplete = "many"', "whole number"),
    ("noise_multiplier = 4.0", "noise_multiplier = [1]", "finite number"),
]


def test_a_description_is_read_into_the_same_price_or_refused_in_one_line(tmp_path):
    path, end = tmp_path / "pipeline.toml", mp.PrivateMean(noise_multiplier=4.0)
    path.write_text(GOOD)
    assert price(load_pipeline(path)).epsilon == price(impute_and_scale(end)).epsilon
    for old, new, message in WRONG:
        path.write_text(GOOD.replace(old, new))
        with pytest.raises(ParameterError, match=message) as caught:
            load_pipeline(path)
        assert "\n" not in str(caught.value)
        assert caught.value.__context__ is None
    pytest.importorskip("matplotlib")
    prices = plot_price(impute_and_scale(end), tmp_path / "p.svg", multipliers=[2.0, 4.0])
    assert (tmp_path / "p.svg").read_text().lstrip().startswith("<?xml")
    assert prices[0].epsilon > prices[1].epsilon
