"""Refusals come before the charge and depend on public facts; rows are read one by one."""

from __future__ import annotations

import math
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from missdp import pricing as mp
from missdp.accounting import Budget, PureEvent
from missdp.errors import DataError, MissDPError, NotFittedError, ParameterError
from missdp.mechanisms.noise import SeededNoise
from missdp.pricing import load_pipeline, propose_test_release
from missdp.pricing.replace_one import ReplaceOneDoor
from pricing.cases import CHAINS, ESTIMATORS
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
        mp.PrivateLogisticRegression(noise_multiplier=9.0),
        mp.PrivateLinearRegression(noise_multiplier=9.0),
    ):
        model.check_target(strange, 5)
        reader = model.question(mp.RowDomain(rows=5, columns=1)).loss
        first, second = reader.read(plain), reader.read(strange)
        np.testing.assert_array_equal(first[:4], second[:4])
        assert np.isfinite(second).all()


SHAPES = ("mean, Laplace", "covariance", "histogram", "logistic, sgd", "linear, gd")


@pytest.mark.parametrize("name", sorted(set(CHAINS) - {"none"}))
def test_no_table_of_the_declared_shape_is_refused(name):
    """In the collection or far from it: a fit, or a private test, always has an outcome."""
    rng = np.random.default_rng(0)
    chain = (
        CHAINS[name] if name not in ("round", "dedup") else [mp.ConstantImputer(), CHAINS[name][1]]
    )
    steps = [(str(i), step) for i, step in enumerate(chain)]
    tables = [np.full((6, 3), cell) for cell in (np.nan, np.inf, 1e300, 1e-310)]
    tables.append([["a", None, 1]] * 6)
    tables.append([[Awkward(), None, 1], *[[0.1, 0.2, 0.3]] * 5])
    for seed in range(12):
        tables += [t for t in extreme_pair(seed, d=3) if len(t) == 6]
    for estimator in [e for kind, e in ESTIMATORS.items() if kind in SHAPES]:
        whole = mp.PricedPipeline(
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


NEVER = [math.nan, math.inf, -math.inf, "loud", True, [1], None, -1e-3]
KINDS = {
    mp.RowClipper: {},
    mp.ConstantImputer: {},
    mp.MeanImputer: {"max_incomplete": 2, "cells_per_row": 1},
    mp.MedianImputer: {"max_incomplete": 2, "central_gap": 0.1},
    mp.TrimmedMeanImputer: {"max_incomplete": 2, "trim": 1, "trimmed_range": 0.1},
    mp.RegressionImputer: {"target": 1, "max_incomplete": 2, "regularization": 0.1},
    mp.NeighbourImputer: {"max_incomplete": 1, "n_neighbors": 2, "max_donations": 2},
    mp.StandardScaler: {"least_std": 0.3},
    mp.MinMaxScaler: {"least_range": 0.1, "extreme_gap": 0.1},
    mp.PCARankReducer: {"n_components": 1, "least_gap": 0.1},
    mp.PCADimensionReducer: {"n_components": 1, "least_gap": 0.1, "least_overlap": 0.5},
    mp.Quantizer: {"eta": 0.1, "max_cluster": 2, "max_neighbours": 2},
    mp.Deduplicator: {"eta": 0.1, "max_cluster": 2},
    mp.PrivateMean: {"noise_multiplier": 4.0},
    mp.PrivateCovariance: {"noise_multiplier": 4.0},
    mp.PrivateHistogram: {"edges": [-1, 0, 1], "noise_multiplier": 4.0},
    mp.PrivateLogisticRegression: {"noise_multiplier": 30.0},
    mp.PrivateLinearRegression: {"noise_multiplier": 30.0, "method": "sgd"},
    mp.PricedPipeline: {"estimator": mp.PrivateMean(noise_multiplier=4.0)},
}
NO_NUMBERS = {"budget", "random_state", "steps", "estimator", "complete", "classes", "frame"}
NUMBERS = [(k, f.name) for k in KINDS for f in fields(k) if f.name not in NO_NUMBERS]
MAY_BE = {("value", -1e-3), ("max_neighbours", None), ("max_donations", None)}
MAY_BE |= {("cells_per_row", None)}
CELL = 0.123456789


def released(kind, facts, budget):
    """What a user does with a step, an estimator or a pipeline: it is fitted, and charged for."""
    rows, y = np.full((6, 3), CELL), [0, 1] * 3
    shape = {"rows": 6, "columns": 3, "delta": 0.01}
    if kind is mp.PricedPipeline:
        kind(**{"steps": [], "budget": budget, **shape, **facts}).fit(rows, y)
    elif issubclass(kind, mp.StableTransformer):
        mean = mp.PrivateMean(noise_multiplier=4.0)
        shape["complete"] = "Imputer" not in kind.__name__
        mp.PricedPipeline([("step", kind(**facts))], mean, budget=budget, **shape).fit(rows, y)
    else:
        kind(**{"budget": budget, "delta": 0.01, **facts}).fit(rows, y)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_good_parameters_are_charged_for(kind):
    budget = Budget(1e9, 0.5, adjacency="replace-one")
    released(kind, KINDS[kind] | ({"rows": 6} if kind is mp.PricedPipeline else {}), budget)
    assert len(budget.events) == 1


@given(place=st.sampled_from(NUMBERS), bad=st.sampled_from(NEVER))
@settings(max_examples=250, deadline=None)
def test_a_bad_parameter_is_refused_in_one_line_before_the_charge(place, bad):
    kind, name = place
    assume((name, bad) not in MAY_BE if not isinstance(bad, list) else True)
    budget = Budget(1e9, 0.5, adjacency="replace-one")
    with pytest.raises(ParameterError) as caught:
        released(kind, KINDS[kind] | {name: bad}, budget)
    assert budget.events == ()
    assert "\n" not in str(caught.value)
    assert str(CELL)[:5] not in str(caught.value)
    assert caught.value.__context__ is None


BAD = [
    (mp.PrivateHistogram, {"edges": [1, 0]}, None),
    (mp.PrivateHistogram, {"edges": "ab"}, None),
    (mp.PrivateHistogram, {"column": 3}, None),
    (mp.PrivateMean, {"noise_multiplier": 1e-300}, None),
    (mp.PrivateLogisticRegression, {}, None),
    (mp.PrivateLogisticRegression, {}, [0, 1]),
    (mp.PrivateLogisticRegression, {}, 7),
    (mp.PrivateLogisticRegression, {"classes": (0, 1, 2)}, [0] * 6),
    (mp.PrivateLogisticRegression, {"classes": (1, 1)}, [0] * 6),
    (mp.PricedPipeline, {"rows": 5}, None),
    (mp.PricedPipeline, {"columns": 2}, None),
    (mp.PricedPipeline, {"complete": "yes"}, None),
]


@pytest.mark.parametrize(("kind", "facts", "y"), BAD)
def test_what_can_be_foreseen_is_refused_before_the_charge(kind, facts, y):
    budget = Budget(1e6, 0.5, adjacency="replace-one")
    shape, step = {"rows": 6, "columns": 3, "delta": 0.01}, ("clip", mp.RowClipper(radius=0.5))

    def made():
        if kind is mp.PricedPipeline:
            estimator, shaped = mp.PrivateMean(noise_multiplier=4.0), shape | facts
        else:
            estimator, shaped = kind(**KINDS[kind] | facts), shape
        return mp.PricedPipeline([step], estimator, budget=budget, **shaped)

    for release in (
        lambda: made().fit(np.zeros((6, 3)), y),
        lambda: propose_test_release(made(), np.zeros((6, 3)), y, test_epsilon=1.0),
    ):
        with pytest.raises((ParameterError, DataError)):
            release()
    if kind is not mp.PricedPipeline:
        alone = {"budget": budget, "delta": 0.01, **KINDS[kind], **facts}
        with pytest.raises((ParameterError, DataError)):
            kind(**alone).fit(np.zeros((6, 3)), y)
    assert budget.events == ()


@pytest.mark.parametrize("name", ["guarantee_", "estimator_", "coef_", "mean_"])
def test_what_a_fit_would_set_is_missing_in_one_way(name):
    bare = mp.PricedPipeline([], mp.PrivateMean(noise_multiplier=4.0), rows=6, columns=3)
    for unfitted in (bare, bare.estimator, mp.PrivateLogisticRegression(noise_multiplier=4.0)):
        assert not hasattr(unfitted, name)
        with pytest.raises(NotFittedError, match=name):
            getattr(unfitted, name)
    with pytest.raises(NotFittedError):
        mp.PCARankReducer(n_components=1, least_gap=0.1).get_feature_names_out()


def test_a_broken_fit_leaves_no_earlier_guarantee(monkeypatch):
    estimator = mp.PrivateMean(noise_multiplier=4.0, random_state=0).fit(np.zeros((6, 3)))
    monkeypatch.setattr(mp.PrivateMean, "keep", None)
    with pytest.raises(TypeError):
        estimator.fit(np.zeros((6, 3)))
    assert not hasattr(estimator, "guarantee_")


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
        mp.PricedPipeline(
            [("s", mp.StandardScaler(least_std=0))], ESTIMATORS[0], rows=6, columns=3
        ).fit(np.zeros((6, 3)))
    assert caught.value.__context__ is None
