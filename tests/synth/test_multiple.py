"""Several tables at once: how much they differ, and how estimates from them combine."""

from functools import partial
from itertools import repeat

import numpy as np
import pandas as pd
import pytest

from missdp import MST, Ordinal, Schema, Table
from missdp.errors import ParameterError
from missdp.evaluate import Combined, combine_estimates
from missdp.synth import AIM, AllPairs, uncertain
from refusing import refuses
from synth.tables import schema_of

SCHEMA = schema_of(dict.fromkeys("ab", 2))


def private(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    a = (rng.random(n) < 0.3).astype(int)
    b = np.where(rng.random(n) < 0.8, a, 1 - a)
    hole = rng.random(n) < 0.3
    return Table.from_codes(SCHEMA, {"a": a, "b": np.where(hole, 2, b)})


def fit(seed=0, family=AIM, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, **options}
    options |= {"rounds": 1} if family is AIM else {}
    return family(random_state=seed, **options).fit(private(seed=seed))


all_pairs = partial(fit, family=AllPairs)


def share(model):
    """The model's share of rows in which both are 1."""
    return model.model_.tables[0, 1][1, 1]


READ = ("joint", "observed", "complete-rows")
CASES = [(family, missing) for family in (fit, all_pairs) for missing in READ]


@pytest.mark.long
@pytest.mark.parametrize(
    ("fit", "missing"), [CASES[0], *(pytest.param(*c, marks=pytest.mark.slow) for c in CASES[1:])]
)
def test_models_differ_by_as_much_as_the_fit_is_uncertain(fit, missing):
    """The spread of models around one fit is that of fits over fresh samples."""
    fresh = [fit(seed, missing=missing) for seed in range(16)]
    repeats = [
        [share(m) for m in model.uncertain_models(10, random_state=1)] for model in fresh[:5]
    ]
    spread = np.std([share(model) for model in fresh])
    ratio = np.sqrt(np.var(repeats, axis=1, ddof=1).mean()) / spread
    assert 0.65 < ratio < 1.55
    gap = np.mean([np.mean(r) - share(m) for r, m in zip(repeats, fresh, strict=False)])
    assert abs(gap) < spread  # the models lie around the released values


@pytest.mark.slow
@pytest.mark.parametrize(("family", "rounds"), [(AIM, {"rounds": 3}), (MST, {})])
def test_weak_slopes_are_not_shrunk_twice(family, rounds):
    """Refits to rows of a fitted model would have a smaller mean, and vary by too little."""
    rng, found = np.random.default_rng(0), []
    a = rng.integers(0, 6, 3000)
    b = np.clip(np.rint(1.5 + 0.12 * a + rng.normal(0, 1.2, 3000)), 0, 5).astype(int)
    schema = Schema(tuple(Ordinal(name=name, levels=tuple(range(6))) for name in "ab"))
    frame = pd.DataFrame({"a": a, "b": b})

    def slope(model):
        values, table = np.arange(6.0), model.model_.tables[0, 1]
        mean, other = table.sum(axis=1) @ values, table.sum(axis=0) @ values
        spread = table.sum(axis=1) @ values**2 - mean**2
        return (values @ table @ values - mean * other) / spread

    for seed in range(3):
        model = family(epsilon=1.0, random_state=seed, **rounds).fit(frame, schema=schema)
        released = model.regress("b ~ a")
        slopes = [slope(m) for m in model.uncertain_models(20, random_state=0)]
        found.append((np.mean(slopes), np.std(slopes), released.estimate[1], released.errors[1]))
    mean, spread, value, error = np.mean(found, axis=0)
    assert mean == pytest.approx(value, abs=0.6 * error)
    assert 0.7 < spread / error < 1.4


@pytest.mark.parametrize("fit", [fit, all_pairs])
def test_models_that_cannot_vary_say_why(fit):
    with refuses(ParameterError, "impute-first"):
        fit(missing="impute-first").sample(10, multiple=2)


def test_tables_vary_as_samples_do(monkeypatch):
    # The combining rule takes out the variance of a real sample: it must be there in full.
    model = fit()
    monkeypatch.setattr(uncertain, "posterior_models", lambda _, model, *__, **___: repeat(model))
    shares = [np.mean(t["a"]) for t in model.sample(400, multiple=200, random_state=0)]
    p = np.mean(shares)
    assert np.var(shares) / (p * (1 - p) / 400) == pytest.approx(1.0, abs=0.4)


@pytest.mark.long
@pytest.mark.parametrize("fit", [fit, all_pairs])
def test_several_tables_have_the_shape_of_one_and_models_promise_what_the_release_does(
    fit, tmp_path
):
    model = fit()
    before, drawn = model.guarantee_, model.sample(30, random_state=1)
    tables, again = (model.sample(50, multiple=3, random_state=3) for _ in range(2))
    assert [t.shape for t in tables] == [(50, 2)] * 3
    assert not tables[0].equals(tables[1])
    models = model.uncertain_models(3, random_state=3)
    for one, table, same in zip(models, tables, again, strict=True):
        pd.testing.assert_frame_equal(table, same)
        pd.testing.assert_frame_equal(one.sample(50), table)
        assert one.guarantee_ == before
        one.save(tmp_path / "one.json")
        assert type(model).load(tmp_path / "one.json").guarantee_ == before
    kept = model.sample(500, multiple=2, missing_values="keep")
    assert all(t["b"].isna().any() for t in kept)
    assert model.guarantee_ == before
    pd.testing.assert_frame_equal(model.sample(30, random_state=1), drawn)


def test_intervals_cover_when_tables_vary_as_they_should():
    rng = np.random.default_rng(0)
    for within, most in ((0.0, 0.97), (1.0, 0.995)):
        covered = 0
        for _ in range(1000):
            fitted = rng.normal(0.0, 1.0)  # the truth is 0, the model's error has variance 1
            tables = rng.normal(fitted, np.sqrt(1.0 + within), 20)
            low, high = combine_estimates(tables, np.full(20, within)).interval()
            covered += low <= 0 <= high
        assert 0.91 <= covered / 1000 <= most  # the rule is conservative where tables are small
    bad = ([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, np.nan], [1.0, 1.0])
    for estimates, variances in (*bad, ([1.0, 2.0], [1.0, -1e-9]), (["a", "b"], [1.0, 1.0])):
        with refuses(ParameterError):
            combine_estimates(estimates, variances)


def test_combined_negative_variance_raises_error():
    for variance in (-1e-9, np.nan):
        with refuses(ParameterError, "variance must be"):
            Combined(estimate=0.5, variance=variance, degrees=3.0)
