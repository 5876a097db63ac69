"""Several tables at once: how much they differ, and that intervals cover."""

import numpy as np
import pandas as pd
import pytest

import missdp
from missdp import AIM, AllPairs, Categorical, Schema, Table
from missdp.evaluate import combine_estimates

# Statistics by brute force; other tests cover the code, and tracing it would double the time.
pytestmark = pytest.mark.no_cover

SCHEMA = Schema(tuple(Categorical(name=n, levels=(0, 1), nullable=True) for n in "ab"))
SHARE = 0.3


def private(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < SHARE).astype(int)
    b = np.where(rng.random(n) < 0.8, a, 1 - a)
    hole = rng.random((2, n)) < 0.2
    return Table.from_codes(SCHEMA, {"a": np.where(hole[0], 2, a), "b": np.where(hole[1], 2, b)})


def fit(seed=0, **options):
    given = {"epsilon": 1.0, "delta": 1e-6, **options}
    return AllPairs(random_state=seed, **given).fit(private(seed=seed))


def test_several_tables_have_the_shape_of_one_and_differ():
    model = fit()
    tables = model.sample(50, multiple=3, random_state=0)
    assert [t.shape for t in tables] == [(50, 2)] * 3
    assert not tables[0].equals(tables[1])
    for one, two in zip(tables, model.sample(50, multiple=3, random_state=0), strict=True):
        pd.testing.assert_frame_equal(one, two)
    kept = model.sample(500, multiple=2, missing_values="keep")
    assert all(t["b"].isna().any() for t in kept)


@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_models_of_several_tables_promise_what_the_release_does(family, tmp_path):
    model = family(epsilon=1.0, delta=1e-6).fit(private())
    tables = model.sample(50, multiple=2, random_state=3)
    for one, table in zip(model.uncertain_models(2, random_state=3), tables, strict=True):
        pd.testing.assert_frame_equal(one.sample(50), table)
        assert one.guarantee_ == model.guarantee_
        one.save(tmp_path / "one.json")
        assert missdp.load(tmp_path / "one.json").guarantee_ == model.guarantee_


def test_a_loaded_model_draws_the_same_tables(tmp_path):
    model = fit()
    model.save(tmp_path / "m.json")
    again = AllPairs.load(tmp_path / "m.json")
    drawn = (m.sample(20, multiple=2, random_state=3) for m in (model, again))
    for one, two in zip(*drawn, strict=True):
        pd.testing.assert_frame_equal(one, two)


def test_a_replicate_spends_nothing_and_leaves_the_model_as_it_was():
    model = fit()
    before, drawn = model.guarantee_, model.sample(30, random_state=1)
    model.sample(30, multiple=2)
    assert model.guarantee_ == before
    pd.testing.assert_frame_equal(model.sample(30, random_state=1), drawn)


def shares(frame):
    a, b = (frame[name].to_numpy().astype(float) for name in "ab")
    return np.array([a.mean(), b.mean(), (a * b).mean()])


TRUTH = np.array([SHARE, 0.8 * SHARE + 0.2 * (1 - SHARE), 0.8 * SHARE])


@pytest.mark.slow
@pytest.mark.parametrize("missing", ["joint", "observed", "complete-rows"])
def test_intervals_cover_and_are_not_far_too_wide(missing):
    repeats, drawn = 60, 5000
    covered, width, errors = 0, [], []
    for seed in range(repeats):
        tables = fit(seed, missing=missing).sample(drawn, multiple=10, random_state=seed)
        found = np.array([shares(t) for t in tables])
        for j, truth in enumerate(TRUTH):
            estimate = combine_estimates(found[:, j], found[:, j] * (1 - found[:, j]) / drawn)
            low, high = estimate.interval()
            covered += low <= truth <= high
            width.append(estimate.variance)
            errors.append((estimate.estimate - truth) ** 2)
    # 95 % less what 60 independent tables leave open, three numbers each.
    assert covered / (3 * repeats) > 0.95 - 0.06
    assert 0.6 < np.mean(width) / np.mean(errors) < 2.5
