"""The price of a pipeline, its private test, and an attack that it withstands."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import beta, kstest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler as Unknown

from missdp import pricing as mp
from missdp.accounting import (
    DeclaredRowCount,
    ExplicitSeed,
    Filter,
    Guarantee,
    PublicDomain,
    epsilon_of,
)
from missdp.cli.pipeline_files import load_pipeline
from missdp.errors import BudgetExceededError, DataError, ParameterError, UnprovenError
from missdp.pricing import (
    bounds,
    calibrate,
    plan_test,
    price,
    propose_test_release,
)
from missdp.pricing.privacy_maps import PrivacyMap, Sensitivity
from missdp.pricing.standardised_rows import StandardisedRows, open_session
from missdp.session.noise import SeededNoise
from refusing import refuses

ESTIMATORS = [
    mp.PrivateMean(noise_multiplier=4.0),
    mp.PrivateMean(noise_multiplier=4.0, mechanism="laplace"),
    mp.PrivateCovariance(noise_multiplier=4.0),
    mp.PrivateHistogram(edges=[-1, 0, 1], noise_multiplier=4.0),
    mp.PrivateLogisticRegression(noise_multiplier=30.0, n_iter=20),
    mp.PrivateLogisticRegression(noise_multiplier=4.0, n_iter=20, method="sgd", batch_size=20),
    mp.PrivateLinearRegression(noise_multiplier=30.0, n_iter=20),
]
IMPUTE, SCALE = mp.MeanImputer(max_incomplete=30), mp.StandardScaler(min_std=0.4)


def impute_and_scale(estimator, **more):
    facts = {"rows": 1000, "columns": 2, "complete": False, "delta": 1e-6} | more
    return mp.PricedPipeline([("impute", IMPUTE), ("scale", SCALE)], estimator, **facts)


@pytest.mark.long
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
    assert {DeclaredRowCount, mp.IncompleteRows, mp.MinStandardDeviation} <= kinds
    assert result.adjacency == "replace-one"
    assert Guarantee.from_dict(result.to_dict()["guarantee"]) == result.guarantee
    assert all(c.statement() in str(result) for c in result.guarantee.conditions)


def test_laplace_price_is_the_table_entry_and_pure():
    """Epsilon (1 + L tau) with both in units of the sensitivity: Hu et al., Table 2."""
    step = mp.MeanImputer(max_incomplete=10, cells_per_row=1)
    end = mp.PrivateMean(noise_multiplier=2.0, mechanism="laplace")
    facts = {"rows": 200, "columns": 1, "complete": False, "delta": 0.0}
    outcome = price(mp.PricedPipeline([("impute", step)], end, **facts))
    assert outcome.epsilon == pytest.approx(0.5 * (1 + 10 * 2 / 190 / 2), rel=1e-5)
    assert outcome.guarantee.delta == 0
    with pytest.raises(UnprovenError, match="state a delta"):
        price(impute_and_scale(mp.PrivateMean(noise_multiplier=2.0), delta=0.0))


@pytest.mark.slow
def test_estimates_are_right_when_the_noise_is_small():
    x = np.random.default_rng(1).uniform(-0.5, 0.5, size=(4000, 2))
    quiet = {"noise_multiplier": 1e-3, "random_state": 0}
    np.testing.assert_allclose(mp.PrivateMean(**quiet).fit(x).mean_, x.mean(axis=0), atol=1e-4)
    outcome = mp.PrivateCovariance(**quiet).fit(x).covariance_
    np.testing.assert_allclose(outcome, np.cov(x.T), atol=1e-4)
    counts = mp.PrivateHistogram(edges=[-1, 0, 1], **quiet).fit(x).counts_
    assert counts.tolist() == [int((x[:, 0] < 0).sum()), int((x[:, 0] >= 0).sum())]
    target = x @ [0.6, -0.4]
    for method in ("gd", "sgd"):
        model = mp.PrivateLinearRegression(method=method, learning_rate=1.0, n_iter=400, **quiet)
        np.testing.assert_allclose(model.fit(x, target).coef_, [0.6, -0.4], atol=0.1)
    labels = np.where(target > 0, "yes", "no")
    model = mp.PrivateLogisticRegression(classes=("no", "yes"), coefficient_norm=20, **quiet)
    assert (model.fit(x, labels).predict(x) == labels).mean() > 0.95
    assert model.predict_proba(x).shape == (4000, 2)


def classes_apart(rows=6000, seed=0):
    """Rows that are not centred at 0, of which a quarter belongs to the second class."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 1, (rows, 2)) / math.sqrt(2)
    chance = 1 / (1 + np.exp(-(8 * x[:, 0] - 6 * x[:, 1] - 2)))
    return x, (rng.random(rows) < chance).astype(int)


def auc(model, x, y):
    order = np.argsort(model.decision_function(x))
    ranks = np.empty(len(order))
    ranks[order] = np.arange(1, len(order) + 1)
    n = y.sum()
    return (ranks[y == 1].sum() - n * (n + 1) / 2) / (n * (len(y) - n))


@pytest.mark.long
def test_logistic_defaults_tell_uncentred_classes_apart():
    """Without an intercept, scores follow the share of the classes: the AUC was below 0.5."""
    x, y = classes_apart()
    fresh, truth = classes_apart(seed=1)
    outcome = []
    for seed in range(10):
        model = mp.PrivateLogisticRegression(noise_multiplier=50.0, random_state=seed).fit(x, y)
        assert model.guarantee_.epsilon < 1.1
        outcome.append(auc(model, fresh, truth))
        assert model.predict_proba(fresh)[:, 1].mean() == pytest.approx(y.mean(), abs=0.1)
    assert np.mean(outcome) > 0.75
    assert np.std(outcome) > 0


def test_logistic_without_intercept_releases_zero():
    x, y = classes_apart(200)
    quiet = {"noise_multiplier": 50.0, "random_state": 0}
    model = mp.PrivateLogisticRegression(fit_intercept=False, **quiet).fit(x, y)
    assert model.intercept_ == 0.0
    assert mp.PrivateLogisticRegression(**quiet).fit(x, y).intercept_ != 0.0
    for wrong in ("yes", 1, None):
        with pytest.raises(ParameterError, match="fit_intercept must be True or False"):
            mp.PrivateLogisticRegression(fit_intercept=wrong, **quiet)


@pytest.mark.parametrize("method", ["gd", "sgd"])
def test_logistic_defaults_follow_the_scale_of_rows(method):
    """The same noise on rows ten times as long makes the same scores."""
    x, y = classes_apart(400)
    quiet = {"noise_multiplier": 50.0, "random_state": 0, "method": method, "n_iter": 20}
    one = mp.PrivateLogisticRegression(**quiet).fit(x, y)
    ten = mp.PrivateLogisticRegression(radius=10.0, **quiet).fit(10 * x, y)
    assert ten.guarantee_.epsilon == pytest.approx(one.guarantee_.epsilon, rel=1e-6)
    assert ten.decision_function(10 * x) == pytest.approx(one.decision_function(x), abs=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("method", ["gd", "sgd"])
def test_logistic_defaults_cost_the_same_with_an_intercept(method, intercept):
    """The noise multiplier alone decides the cost of untouched rows: no default is cheaper."""
    direct = {"noise_multiplier": 80.0, "method": method, "n_iter": 10}
    old = {"coefficient_norm": 1.0, "learning_rate": 1.0, "fit_intercept": False}

    def epsilon(**more):
        model = mp.PrivateLogisticRegression(**direct, **more)
        return mp.price(mp.PricedPipeline([], model, rows=2000, columns=3, delta=1e-6)).epsilon

    assert epsilon(fit_intercept=intercept) == pytest.approx(epsilon(**old), rel=1e-3)


CHEAPER = {
    "impute": ("impute", "use ConstantImputer as step 'impute'"),
    "scale": ("scale", "scale by declared bounds in place of step 'scale'"),
    "pca": ("pca", "leave out step 'pca'"),
    "none": ("", "use noise_multiplier = 240"),
}


@pytest.mark.parametrize("case", CHEAPER)
def test_price_names_the_change_that_costs_least(case):
    steps = {
        "impute": mp.MeanImputer(max_incomplete=200),
        "scale": mp.StandardScaler(min_std=0.4),
        "pca": mp.PCARankReducer(n_components=2, min_gap=0.3),
    }
    name, change = CHEAPER[case]
    chain = [(name, steps[name])] if name else []
    domain = {"rows": 20_000, "columns": 4, "complete": name != "impute", "delta": 1e-6}
    model = mp.PrivateLogisticRegression(noise_multiplier=120.0)
    outcome = mp.price(mp.PricedPipeline(chain, model, **domain))
    assert outcome.cheapest_change.change == change
    assert outcome.cheapest_change.epsilon < 0.99 * outcome.epsilon
    assert f"cheapest change: {change} (epsilon = " in str(outcome)
    if name:
        assert outcome.cheapest_change.epsilon == pytest.approx(outcome.naive_epsilon, rel=1e-6)
    assert (
        mp.price(mp.PricedPipeline(chain, model, **domain), suggest=False).cheapest_change is None
    )
    assert mp.Price.from_dict(outcome.to_dict()) == outcome


def test_price_of_several_steps_names_the_costliest():
    chain = [
        ("impute", mp.MeanImputer(max_incomplete=200)),
        ("clip", mp.RowClipper(radius=1.0)),
        ("pca", mp.PCARankReducer(n_components=2, min_gap=0.3, moment="second")),
    ]
    domain = {"rows": 20_000, "columns": 4, "complete": False, "delta": 1e-6}
    model = mp.PrivateLogisticRegression(noise_multiplier=120.0)
    outcome = mp.price(mp.PricedPipeline(chain, model, **domain))
    assert outcome.cheapest_change.change == "leave out step 'pca'"


@pytest.mark.parametrize(("kind", "law"), [("gaussian", "norm"), ("laplace", "laplace")])
def test_the_released_mean_has_the_stated_noise(kind, law):
    x = np.full((100, 4000), 0.003)
    mean = mp.PrivateMean(noise_multiplier=3.0, mechanism=kind, random_state=7).fit(x).mean_ - 0.003
    scale = 3.0 * 2 / 100 * (1 if kind == "gaussian" else math.sqrt(4000))
    assert kstest(mean / scale, law).pvalue > 1e-3
    for wrong in (1.3, 0.7):
        assert kstest(mean / (wrong * scale), law).pvalue < 1e-2


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
min_std = 0.4
[mechanism]
kind = "mean"
noise_multiplier = 4.0
"""
WRONG = [
    ("impute-mean", "impute-magic", "kind must be one of"),
    ("rows = 1000", "", "needs rows"),
    ("[mechanism]", "[mechanisms]", "does not take mechanisms"),
    ('name = "scale"', 'name = "impute-mean"', "have one name"),
    ("noise_multiplier = 4.0", "noise_multiplier = 4.0\nrandom_state = 0", "random_state"),
    ("delta = 1e-6", "delta = ", "not valid TOML"),
    ("rows = 1000", "rows = 'x'", "whole number"),
]


CASES = {
    "pca": [("pca", mp.PCARankReducer(n_components=1, min_gap=0.2))],
    "mean": [("impute", mp.MeanImputer(max_incomplete=400))],
    "scale": [("scale", mp.StandardScaler(min_std=0.2))],
    "quantize": [("round", mp.Quantizer(eta=0.01, max_cluster=400))],
    "chain": [
        ("impute", mp.MeanImputer(max_incomplete=40)),
        ("scale", mp.StandardScaler(min_std=0.6)),
        ("clip", mp.RowClipper(radius=1.0)),
        ("pca", mp.PCARankReducer(n_components=1, min_gap=0.1, moment="second")),
    ],
}


def pipeline(name, **more):
    facts = {"rows": 4000, "columns": 2, "complete": name not in ("mean", "chain")}
    end = mp.PrivateMean(noise_multiplier=9.0)
    return mp.PricedPipeline(CASES[name], end, **facts | {"random_state": 0} | more)


def good_rows(name="pca"):
    if name == "chain":
        signs = np.resize([1.0, -1.0], 4000)
        return 0.7 * np.column_stack([signs, np.where(np.arange(4000) % 10 < 9, signs, -signs)])
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.uniform(-0.9, 0.9, 4000), rng.uniform(-0.4, 0.4, 4000)])
    return x + np.outer(0.5 * x[:, 0], [0, 1])


def bad_rows(name):
    if name in ("mean", "chain"):
        return np.where(np.arange(4000)[:, None] % 2 == 0, np.nan, good_rows())
    return np.full((4000, 2), 0.3)


@pytest.mark.long
@pytest.mark.parametrize("name", CASES)
def test_good_tables_pass_and_bad_ones_are_refused(name):
    facts = {"failure": 5e-4, "adjacency": "replace-one", "measure": "zcdp"}
    paid = [Filter(1e4, 1e-3, **facts) for _ in range(2)]
    both = zip(paid, (good_rows(name), bad_rows(name)), strict=True)
    good, bad = (
        propose_test_release(pipeline(name, budget=b), x, test_epsilon=2.0) for b, x in both
    )
    assert isinstance(good, mp.PassedTest)
    assert np.isfinite(good.estimator.mean_).all()
    assert isinstance(bad, mp.FailedTest)
    assert not hasattr(bad, "estimator")
    assert good.guarantee == bad.guarantee
    assert paid[0].events == paid[1].events  # a failed test costs as much as a release
    assert len(paid[1].events) == 2
    poor = pipeline(name, budget=Filter(0.3, 1e-3, **facts))
    with pytest.raises(BudgetExceededError):  # before anything is read
        propose_test_release(poor, object(), test_epsilon=0.5)
    total = pipeline(name)
    plan, parts = plan_test(total, test_epsilon=2.0), total.bounds()[0].epsilon
    assert max(2.0, parts) <= plan.guarantee.epsilon <= 2.0 + parts + 1e-4
    # The events, composed at the same delta, are the coarser account that a budget keeps.
    assert plan.guarantee.epsilon <= epsilon_of(plan.charges, 1e-6) + 1e-9
    assert plan.guarantee.conditions == (DeclaredRowCount(4000), PublicDomain())
    assert plan.guarantee.adjacency == "replace-one"


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
    step = mp.PCARankReducer(n_components=1, min_gap=beta)
    best = bounds(descent, step.stability(mp.NEIGHBOURS, mp.RowDomain(rows=n, columns=5)), delta)[0]
    assert best.epsilon + epsilon <= theorem_8


DELTA, RUNS = 1e-2, 3_000


def rich():
    return Filter(1e30, 1e-3, adjacency="replace-one", measure="zcdp")


def shown_epsilon(pipeline, x, y):
    """A lower confidence bound on epsilon at DELTA from outputs on two neighbouring tables.

    The attacker picks a threshold on the released mean on the first half of the runs. The second
    half bounds both error rates (Clopper-Pearson, 1 - 1e-4 each).
    """
    assert (np.nan_to_num(x) != np.nan_to_num(y)).any(axis=1).sum() <= 1
    facts, noise, outputs = pipeline.facts_and_query()[0], SeededNoise(3), []
    question = pipeline.estimator.question(facts.domain)
    for table in (x, y):
        with StandardisedRows(table, facts) as rows:
            session = open_session(rows, question, budget=rich(), noise=noise)
            outputs.append(np.array([session.measure(question).value[0] for _ in range(RUNS)]))
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


@pytest.mark.long
def test_the_attack_exceeds_the_naive_claim_but_not_the_price():
    x = np.where(np.arange(200)[:, None] < 50, 0.0, np.nan)
    y = x.copy()
    x[0], y[0] = 1.0, -1.0
    steps = [("impute", mp.MeanImputer(max_incomplete=150))]
    facts = {"rows": 200, "columns": 1, "complete": False, "delta": DELTA}
    pipeline = mp.PricedPipeline(steps, mp.PrivateMean(noise_multiplier=2.0), **facts)
    result, shown = price(pipeline), shown_epsilon(pipeline, x, y)
    assert 1.3 * result.naive_epsilon < shown <= result.epsilon
    # The pair is the worst one, so an exact audit of the shift leaves no slack in the price.
    facts, mean = pipeline.facts_and_query()
    finals = [StandardisedRows(t, facts).plan(mean).exact()[0] for t in (x, y)]
    shift = math.sqrt(2 * pipeline.bounds()[0].event.rho)
    assert abs(finals[0] - finals[1]) / (2.0 * 2 / 200) == pytest.approx(shift, rel=1e-4)


@pytest.mark.long
def test_a_fit_states_the_price_and_charges_before_anything_is_read():
    x = np.random.default_rng(0).choice([-0.7, 0.7], size=(1000, 2))
    pipeline = impute_and_scale(mp.PrivateMean(noise_multiplier=4.0), random_state=0)
    fitted = clone(pipeline).fit(x)
    assert fitted.guarantee_.epsilon == price(pipeline).epsilon
    assert ExplicitSeed() in fitted.guarantee_.conditions
    assert ExplicitSeed() not in pipeline.guarantee().conditions
    assert fitted.estimator_.guarantee_ is fitted.guarantee_
    assert mp.NotFittedOnThisTable() not in fitted.guarantee_.conditions
    secure = clone(pipeline).set_params(random_state=None).fit(x)
    assert np.abs(secure.estimator_.mean_ - fitted.estimator_.mean_).max() < 1
    facts = {"adjacency": "replace-one", "measure": "zcdp"}
    small, enough = (Filter(e, 1e-6, **facts) for e in (0.5, 1e4))
    for budget, error in ((small, BudgetExceededError), (enough, DataError)):
        # An object that is not a table raises when it is read, after the charge.
        with pytest.raises(error):
            clone(pipeline).set_params(budget=budget).fit(object())
    assert small.events == ()
    assert len(enough.events) == 1
    assert mp.IncompleteRows(30, 2) in enough.spent.conditions
    for estimator in ESTIMATORS[:2]:
        assert 0.99 < price(calibrate(impute_and_scale(estimator), 1.0)).epsilon <= 1.0


def test_pipeline_without_a_price_raises():
    end, shape = ESTIMATORS[0], {"rows": 500, "columns": 3}
    ours = make_pipeline(mp.PCARankReducer(n_components=1, min_gap=0.2), end)
    declared = mp.PricedPipeline(ours.steps[:-1], end, **shape)
    strange = mp.PricedPipeline([("scale", Unknown())], end, **shape)
    assert price(declared, delta=1e-3).epsilon < price(declared).epsilon
    median = [("impute", mp.MedianImputer(max_incomplete=9, central_gap=0.1))]
    for error, reported, options in (
        (ParameterError, "only a PricedPipeline", lambda: price(ours)),
        (UnprovenError, "not proven", lambda: price(strange)),
        (UnprovenError, "private est", lambda: price(mp.PricedPipeline([], Unknown(), **shape))),
        (ParameterError, "imputation", lambda: price(impute_and_scale(end).set_params(steps=[]))),
        (UnprovenError, "fail", lambda: plan(impute_and_scale(end).set_params(steps=median))),
        (ParameterError, "test_epsilon", lambda: plan(declared, test_epsilon=0.0)),
        (ParameterError, "at most", lambda: plan(declared, failure_delta=1e-3)),
        (ParameterError, "there is no file", lambda: load_pipeline("absent.toml")),
    ):
        with refuses(error, reported):
            options()


def plan(pipeline, test_epsilon=0.5, **more):
    return plan_test(pipeline, test_epsilon=test_epsilon, **more)


def test_a_description_is_read_into_the_same_price_or_refused_in_one_line(tmp_path):
    path, end = tmp_path / "pipeline.toml", mp.PrivateMean(noise_multiplier=4.0)
    path.write_text(GOOD)
    assert price(load_pipeline(path)).epsilon == price(impute_and_scale(end)).epsilon
    for old, new, message in WRONG:
        path.write_text(GOOD.replace(old, new))
        with refuses(ParameterError, message):
            load_pipeline(path)
