"""Refusals come before the charge and depend on public facts; rows are read one by one."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from missdp.accounting import Budget, PureEvent, epsilon_under
from missdp.errors import DataError, MissDPError, NotFittedError, ParameterError
from missdp.mechanisms.noise import SeededNoise
from missdp.pricing import (
    ConstantImputer,
    Deduplicator,
    MeanImputer,
    MedianImputer,
    MinMaxScaler,
    NeighbourImputer,
    PCARankReducer,
    PricedPipeline,
    PrivateCovariance,
    PrivateHistogram,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivateMean,
    Quantizer,
    RegressionImputer,
    RowClipper,
    RowDomain,
    StandardScaler,
    load_pipeline,
    plan_test,
    propose_test_release,
)
from missdp.pricing.replace_one import ReplaceOneDoor
from pricing.stability_cases import extreme_pair


class Awkward:
    """Neither a number nor to be compared, in its own way: as a tensor of two numbers is."""

    def __float__(self):
        raise RuntimeError

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


ODD = ["odd", None, pd.NA, np.array([1, 2]), 10**400, float("inf"), [1], Awkward()]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
@pytest.mark.parametrize("frame", [False, True])
def test_one_odd_label_changes_no_other_row(odd, frame):
    """NumPy reads [1, "odd"] as text throughout: then no label equals 1 any more."""
    plain, strange = [1, 0, 1, 1, 0], [1, 0, 1, 1, odd]
    if frame:
        plain, strange = pd.Series(plain), pd.Series(strange, dtype=object)
    for model in (
        PrivateLogisticRegression(noise_multiplier=9.0),
        PrivateLinearRegression(noise_multiplier=9.0),
    ):
        model.check_target(strange, 5)
        reader = model.question(RowDomain(rows=5, columns=1)).target
        first, second = reader.read(plain), reader.read(strange)
        np.testing.assert_array_equal(first[:4], second[:4])
        assert np.isfinite(second).all()


def test_a_seeded_model_hides_what_the_last_label_was_called():
    x = np.tile([[0.9], [-0.9]], (100, 1))
    y = [1, 0] * 100
    fits = [
        PrivateLogisticRegression(noise_multiplier=20.0, random_state=0).fit(x, labels).coef_
        for labels in (y, [*y[:-1], "no answer"])
    ]
    np.testing.assert_allclose(*fits)  # Any other label counts as the first, which it was.


CHAINS = {
    "mean": [MeanImputer(max_incomplete=5)],
    "median": [MedianImputer(max_incomplete=5, central_gap=0.1)],
    "regression": [RegressionImputer(target=0, max_incomplete=5, regularization=0.1)],
    "knn": [NeighbourImputer(max_incomplete=4, n_neighbors=2)],
    "chain": [
        MeanImputer(max_incomplete=5),
        StandardScaler(least_std=0.2),
        RowClipper(radius=1.0),
        PCARankReducer(n_components=1, least_gap=0.05),
    ],
    "min-max": [MeanImputer(max_incomplete=5), MinMaxScaler(least_range=0.1, extreme_gap=0.1)],
    "round": [ConstantImputer(), Quantizer(eta=0.1, max_cluster=2)],
    "dedup": [ConstantImputer(), Deduplicator(eta=0.1, max_cluster=2)],
}
ESTIMATORS = [
    PrivateMean(noise_multiplier=4.0),
    PrivateCovariance(noise_multiplier=4.0),
    PrivateHistogram(edges=[-1, 0, 1], noise_multiplier=4.0),
    PrivateLogisticRegression(noise_multiplier=30.0, n_iter=2),
    PrivateLinearRegression(noise_multiplier=30.0, n_iter=2, method="sgd", batch_size=2),
]


@pytest.mark.parametrize("name", CHAINS)
def test_no_table_of_the_declared_shape_is_refused(name):
    """In the collection or far from it: a fit, or a private test, always has an outcome."""
    rng = np.random.default_rng(0)
    steps = [(str(i), step) for i, step in enumerate(CHAINS[name])]
    tables = [np.full((6, 3), cell) for cell in (np.nan, np.inf, 1e300, 1e-310)]
    tables.append([["a", None, 1]] * 6)
    tables.append([[Awkward(), None, 1], *[[0.1, 0.2, 0.3]] * 5])
    for seed in range(60):
        tables += [t for t in extreme_pair(seed, d=3) if len(t) == 6]
    for estimator in ESTIMATORS:
        whole = PricedPipeline(
            steps, estimator, rows=6, columns=3, complete=False, random_state=0, delta=0.01
        )
        assert whole.guarantee().epsilon > 0
        facts = whole.facts()
        question = estimator.question(facts.domain)
        for table in tables:  # What `fit` does after the charge.
            y = rng.choice(np.array([0, 1, None, "odd", ODD[-1]], dtype=object), 6)
            fitted = clone(estimator)
            with ReplaceOneDoor(table, facts, target=y, budget=None, noise=SeededNoise(0)) as door:
                fitted.keep(question, door._pose(question, PureEvent(epsilon=1.0)))
            for fact in ("mean_", "covariance_", "counts_", "coef_"):
                assert np.isfinite(getattr(fitted, fact, 0.0)).all()


BAD = [
    (PrivateHistogram(edges=[1, 0], noise_multiplier=4.0), {}, None),
    (PrivateHistogram(edges="ab", noise_multiplier=4.0), {}, None),
    (PrivateMean(noise_multiplier=1e-300), {}, None),
    (PrivateMean(noise_multiplier="loud"), {}, None),
    (PrivateLogisticRegression(noise_multiplier=30.0), {}, None),
    (PrivateLogisticRegression(noise_multiplier=30.0), {}, [0, 1]),
    (PrivateLogisticRegression(noise_multiplier=30.0), {}, 7),
    (PrivateLogisticRegression(noise_multiplier=30.0, classes=(0, 1, 2)), {}, [0] * 6),
    (PrivateLogisticRegression(noise_multiplier=30.0, classes=(1, 1)), {}, [0] * 6),
    (PrivateLogisticRegression(noise_multiplier=30.0, learning_rate=float("nan")), {}, [0] * 6),
    (PrivateLogisticRegression(noise_multiplier=30.0, n_iter=float("nan")), {}, [0] * 6),
    (PrivateLinearRegression(noise_multiplier=30.0, target_bound=None), {}, [0] * 6),
    (PrivateMean(noise_multiplier=4.0), {"rows": 5}, None),
    (PrivateMean(noise_multiplier=4.0), {"columns": 2}, None),
    (PrivateMean(noise_multiplier=4.0), {"rows": "six"}, None),
    (PrivateMean(noise_multiplier=4.0), {"radius": float("inf")}, None),
]


@pytest.mark.parametrize(("estimator", "facts", "y"), BAD)
def test_what_can_be_foreseen_is_refused_before_the_charge(estimator, facts, y):
    budget = Budget(1e6, 0.5, adjacency="replace-one")
    shape = {"rows": 6, "columns": 3, "delta": 0.01, **facts}
    step = ("clip", RowClipper(radius=0.5))
    for release in (
        lambda: PricedPipeline([step], estimator, budget=budget, **shape).fit(np.zeros((6, 3)), y),
        lambda: propose_test_release(
            PricedPipeline([step], estimator, budget=budget, **shape), np.zeros((6, 3)), y,
            test_epsilon=1.0,
        ),
    ):  # fmt: skip
        with pytest.raises((ParameterError, DataError)):
            release()
    if not facts:
        with pytest.raises((ParameterError, DataError)):
            clone(estimator).set_params(budget=budget, delta=0.01).fit(np.zeros((6, 3)), y)
    assert budget.events == ()


@pytest.mark.parametrize("name", ["guarantee_", "estimator_", "coef_", "mean_"])
def test_what_a_fit_would_set_is_missing_in_one_way(name):
    bare = PricedPipeline([], PrivateMean(noise_multiplier=4.0), rows=6, columns=3)
    for unfitted in (bare, bare.estimator, PrivateLogisticRegression(noise_multiplier=4.0)):
        assert not hasattr(unfitted, name)
        with pytest.raises(NotFittedError, match=name):
            getattr(unfitted, name)
    with pytest.raises(NotFittedError):
        PCARankReducer(n_components=1, least_gap=0.1).get_feature_names_out()


def test_a_broken_fit_leaves_no_earlier_guarantee(monkeypatch):
    estimator = PrivateMean(noise_multiplier=4.0, random_state=0).fit(np.zeros((6, 3)))
    monkeypatch.setattr(PrivateMean, "keep", None)
    with pytest.raises(TypeError):
        estimator.fit(np.zeros((6, 3)))
    assert not hasattr(estimator, "guarantee_")


def test_the_guarantee_of_a_tested_release_follows_from_its_own_event():
    steps = [("scale", StandardScaler(least_std=0.2))]
    whole = PricedPipeline(steps, PrivateMean(noise_multiplier=9.0), rows=4000, columns=2)
    plan = plan_test(whole, test_epsilon=0.5)
    proven = epsilon_under(plan.guarantee.events, plan.guarantee.delta, "replace-one")
    assert plan.guarantee.epsilon >= proven
    assert plan.guarantee.epsilon <= epsilon_under(plan.charges, 1e-6, "replace-one")


def test_errors_about_a_file_or_a_step_carry_no_trace_of_others(tmp_path):
    path = tmp_path / "pipeline.toml"
    cases = ["delta = ", "\udcff", "[table]\nrows = 'x'\n[mechanism]\nkind = 'mean'\n"]
    for text in cases:
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        with pytest.raises(MissDPError) as caught:
            load_pipeline(path)
        assert caught.value.__context__ is None
    with pytest.raises(MissDPError) as caught:
        load_pipeline(tmp_path / "absent.toml")
    assert caught.value.__context__ is None
    with pytest.raises(MissDPError) as caught:
        PricedPipeline([("s", StandardScaler(least_std=0))], ESTIMATORS[0], rows=6, columns=3).fit(
            np.zeros((6, 3))
        )
    assert caught.value.__context__ is None
