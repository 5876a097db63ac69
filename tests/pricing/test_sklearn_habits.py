"""scikit-learn habits, and nothing private in what a fitted step shows."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError as SklearnNotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.validation import check_is_fitted

from missdp import pricing as mp
from missdp.errors import DataError, UnprovenError
from pricing.cases import KINDS

STEPS = [kind(**facts) for kind, facts in KINDS.items() if issubclass(kind, mp.StableTransformer)]
SECRET = 0.123456789


def table(seed=0, n=40):
    rows = np.random.default_rng(seed).uniform(-0.5, 0.5, size=(n, 3))
    rows[0] = SECRET
    return rows


@pytest.mark.parametrize("step", STEPS, ids=lambda s: type(s).__name__)
def test_nothing_learned_is_shown_pickled_or_cloned(step):
    fitted = clone(step)
    fitted.fit_transform(np.full((40, 3), SECRET))
    check_is_fitted(fitted)
    assert {k for k in vars(fitted) if k.endswith("_")} == {"n_features_in_"}
    assert "0.1234" not in repr(fitted) + repr(vars(fitted)["_private"]) + fitted._repr_html_()
    assert "_private" not in vars(pickle.loads(pickle.dumps(fitted)))
    # Nor by what pickles closures as well, to hand them to other processes: it asks the object.
    with pytest.raises(DataError, match="not written"):
        pickle.dumps(fitted._private)
    again = clone(fitted)
    assert again.get_params() == step.get_params()
    with pytest.raises(SklearnNotFittedError):
        check_is_fitted(again)


def test_steps_work_in_a_scikit_learn_pipeline():
    holes = table()
    holes[3, 1] = np.nan
    chain = make_pipeline(
        mp.MeanImputer(max_incomplete=5),
        mp.StandardScaler(least_std=0.05),
        mp.PCADimensionReducer(n_components=2, least_gap=0.01, least_overlap=0.1),
    )
    assert chain.fit_transform(holes).shape == (40, 2)
    assert clone(chain).fit(holes).transform(holes).shape == (40, 2)
    assert list(chain.get_feature_names_out()) == ["x0", "x1"]


def test_rows_that_a_step_cannot_take_are_refused_and_no_value_is_quoted():
    holes = np.where(np.arange(120).reshape(40, 3) == 10, np.nan, table())
    for step, data in ((mp.StandardScaler(least_std=0.1), holes), (mp.RowClipper(), [SECRET] * 2)):
        with pytest.raises(DataError) as caught:
            step.fit(data)
        assert "0.12" not in str(caught.value)
    with pytest.raises(UnprovenError, match="fit_transform"):
        mp.Quantizer(eta=0.1, max_cluster=2).fit(table()).transform(table())


def test_imputed_values_are_what_they_should_be():
    nan = np.nan
    x = np.array([[0.1, 0.2], [0.3, nan], [nan, 0.4], [0.5, 0.9]])
    filled = mp.MeanImputer(max_incomplete=2).fit_transform(x)
    np.testing.assert_allclose(filled[[1, 2], [1, 0]], [0.5, 0.3])
    filled = mp.MedianImputer(max_incomplete=2, central_gap=1).fit_transform(x)
    np.testing.assert_allclose(filled[[1, 2], [1, 0]], [0.4, 0.3])
    column = np.array([[0.0], [0.1], [0.2], [0.6], [9.0], [nan]])
    step = mp.TrimmedMeanImputer(max_incomplete=1, trim=1, trimmed_range=1)
    np.testing.assert_allclose(step.fit_transform(column)[-1], 0.3)
    rows = np.array([[0.0, 0.0], [0.1, 0.5], [0.9, 0.7], [0.05, nan]])
    step = mp.NeighbourImputer(max_incomplete=1, n_neighbors=2)
    np.testing.assert_allclose(step.fit_transform(rows)[-1, 1], 0.25)
    everything = np.full((3, 2), nan)
    assert (mp.MeanImputer(max_incomplete=2).fit_transform(everything) == 0).all()
