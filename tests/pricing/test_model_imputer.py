"""Filling by a released model: row by row, as rules have it, and nothing is learned from rows."""

import pickle
import warnings
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import missdp
from missdp import (
    AllPairs,
    Categorical,
    DPImputer,
    Kamino,
    Numeric,
    PrivBayes,
    Schema,
    Table,
)
from missdp import pricing as mp
from missdp.accounting import MissingCompletelyAtRandom
from missdp.errors import DataError, NotFittedError, ParameterError, UnprovenError
from missdp.pricing import load_pipeline, plan_test, price, rows_of
from missdp.schema import Equation, Impossible, Ordinal
from missdp.sources.filling import ROWS_AT_ONCE
from missdp.testing.made_up import RULED, made_up
from testing.by_hand import HOLE, broken_by_hand, rows_by_hand
from testing.ruled import ONE_FREE

FAMILIES = [AllPairs, PrivBayes]
SCHEMA = Schema(
    (
        Categorical(name="smoker", levels=("no", "yes", "never"), nullable=True),
        Numeric(name="age", lower=0, upper=100, integer=True, bins=5, nullable=True),
        Ordinal(name="class", levels=("a", "b", "c"), nullable=True),
        Numeric(name="weight", lower=0, upper=1, bins=4),
    )
)


def complete(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, n)
    return pd.DataFrame(
        {
            "smoker": np.array(["no", "yes", "never"])[hidden],
            "age": np.clip(hidden * 30 + rng.integers(0, 40, n), 0, 100),
            "class": np.array(["a", "b", "c"])[(hidden + (rng.random(n) < 0.2)) % 3],
            "weight": rng.random(n),
        }
    )


def holey(n=3000, seed=0, rate=0.3):
    frame, rng = complete(n, seed).astype({"age": "Int64"}), np.random.default_rng(seed + 1)
    for name in ("smoker", "age", "class"):
        frame.loc[rng.random(n) < rate, name] = None
    return frame


MODEL = AllPairs(epsilon=5.0, delta=1e-6, random_state=0).fit(holey(), schema=SCHEMA)
IMPUTER = DPImputer(model=MODEL, random_state=3)


def numbers_of(table):
    """Codes and values of all columns."""
    parts = [table.codes(a.name) for a in table.schema]
    parts += [table.values(a.name) for a in table.schema if isinstance(a, Numeric)]
    return np.stack(parts, axis=1).astype(float)


def same(one, two):
    return np.array_equal(numbers_of(one), numbers_of(two))


@pytest.mark.parametrize("family", FAMILIES)
def test_any_family_fills_better_than_the_commonest_level(family):
    model = family(epsilon=5.0, delta=1e-6, random_state=0).fit(holey(), schema=SCHEMA)
    rows, truth = holey(seed=5), complete(seed=5)
    hole = rows["smoker"].isna().to_numpy()
    best = truth["smoker"][hole].value_counts(normalize=True).iloc[0]
    for filling, least in (("likely", best + 0.25), ("random", best + 0.1)):
        filled = DPImputer(model=model, filling=filling, random_state=0).transform(rows)
        right = (filled["smoker"].to_numpy() == truth["smoker"].to_numpy())[hole].mean()
        assert right > least


def test_observed_cells_stay_and_no_hole_does():
    rows = Table.read(holey(), SCHEMA)
    for filling in ("random", "likely", "mean"):
        filled = DPImputer(model=MODEL, filling=filling).transform(rows)
        assert not filled.incomplete_rows().any()
        for name in SCHEMA.names:
            kept = ~rows.mask(name)
            assert (filled.codes(name)[kept] == rows.codes(name)[kept]).all()
        for name in ("age", "weight"):
            kept, values = ~rows.mask(name), filled.values(name)
            assert (values[kept] == rows.values(name)[kept]).all()
            assert (SCHEMA[name].encode_values(values) == filled.codes(name)).all()


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.sampled_from(["random", "likely", "mean"]))
def test_what_a_row_becomes_depends_on_it_and_its_place_alone(seed, n, filling):
    rng = np.random.default_rng(seed)
    imputer = DPImputer(model=MODEL, filling=filling, random_state=seed)
    rows = Table.read(holey(n, seed % 1000, rate=0.5), SCHEMA)
    found = imputer.transform(rows)
    assert same(imputer.transform(rows.take(np.arange(n - 1))), found.take(np.arange(n - 1)))
    more = rows.take(np.append(np.arange(n), rng.integers(0, n, 3)))
    assert same(imputer.transform(more).take(np.arange(n)), found)
    place = int(rng.integers(n))
    others = rng.permutation(np.delete(np.arange(n), place))
    order = np.insert(others, place, place)  # all other rows in another order
    assert same(imputer.transform(rows.take(order)).take([place]), found.take([place]))
    other = holey(n, seed % 999 + 1, rate=0.5)
    changed = holey(n, seed % 1000, rate=0.5)
    if seed % 2:  # a neighbour that differs in holes alone
        changed.loc[place, ["smoker", "age"]] = (
            None if changed.loc[place, ["smoker", "age"]].notna().any() else ["no", 7]
        )
    else:
        changed.loc[place] = other.loc[place]
    rest = np.delete(np.arange(n), place)
    again = imputer.transform(Table.read(changed, SCHEMA))
    assert same(again.take(rest), found.take(rest))


def test_rows_beyond_a_block_are_filled_as_others_are():
    n = ROWS_AT_ONCE + 100
    rows = Table.read(holey(n), SCHEMA)
    found = IMPUTER.transform(rows)
    assert not found.incomplete_rows().any()
    keep = np.arange(n) >= ROWS_AT_ONCE
    changed = Table.read(holey(n, seed=9), SCHEMA)
    mixed = pd.concat([changed.to_native()[~keep], rows.to_native()[keep]])
    assert same(IMPUTER.transform(Table.read(mixed, SCHEMA)).take(keep), found.take(keep))
    first, second = found.take(np.arange(100)), found.take(ROWS_AT_ONCE + np.arange(100))
    assert not same(first, second)


def test_fit_learns_nothing():
    rows = holey(200, seed=7)
    known = clone(IMPUTER).fit(rows).transform(rows)
    for other in (holey(50, seed=8), rows.iloc[:0], None, 3, np.full((2, 2), np.nan)):
        pd.testing.assert_frame_equal(clone(IMPUTER).fit(other).transform(rows), known)
    pd.testing.assert_frame_equal(IMPUTER.transform(rows), known)  # without it, too
    fitted = clone(IMPUTER).fit(rows)
    assert vars(fitted) == vars(clone(IMPUTER))


def test_frames_come_back_as_they_came():
    frame = holey(50)
    frame.index = pd.Index([f"person {i}" for i in range(50)], name="who")
    filled = IMPUTER.transform(frame)
    pd.testing.assert_index_equal(filled.index, frame.index)
    plain = Table.read(frame, SCHEMA)
    assert list(filled.dtypes) == list(plain.to_native().dtypes)
    for data, kind in ((pl.from_pandas(frame), pl.DataFrame), (plain.to_arrow(), pa.Table)):
        found = IMPUTER.transform(data)
        assert isinstance(found, kind)
        again = Table.read(found, SCHEMA)
        assert same(again, Table.read(filled, SCHEMA))
    assert isinstance(IMPUTER.transform(pl.from_pandas(frame).lazy()), pl.DataFrame)
    assert isinstance(IMPUTER.transform(plain), Table)
    assert list(IMPUTER.get_feature_names_out()) == list(SCHEMA.names)


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows_or_none(n):
    filled = IMPUTER.transform(holey(n, rate=1.0))
    assert len(filled) == n
    assert filled.notna().all().all()


def test_means_are_nearest_to_numbers_and_levels_are_the_likeliest():
    rows, truth = Table.read(holey(seed=5), SCHEMA), complete(seed=5)["age"].to_numpy()
    hole, far, found = rows.mask("age"), {}, {}
    for filling in ("random", "likely", "mean"):
        filled = DPImputer(model=MODEL, filling=filling, random_state=0).transform(rows)
        far[filling] = np.sqrt(np.mean((filled.values("age") - truth)[hole] ** 2))
        found[filling] = filled.codes("smoker")
    assert far["mean"] < 0.97 * far["likely"] < 0.97 * far["random"]
    assert (found["mean"] == found["likely"]).all()


def test_several_draws_differ_and_are_repeatable():
    rows = holey(300)
    draws = IMPUTER.transform(rows, multiple=3)
    assert len(draws) == 3
    assert not draws[0].equals(draws[1])
    assert not draws[1].equals(draws[2])
    pd.testing.assert_frame_equal(draws[0], IMPUTER.transform(rows))
    pd.testing.assert_frame_equal(draws[2], IMPUTER.transform(rows, multiple=4)[2])
    assert not IMPUTER.set_params(random_state=4).transform(rows).equals(draws[0])
    IMPUTER.set_params(random_state=3)
    fresh = DPImputer(model=MODEL)
    assert not fresh.transform(rows).equals(fresh.transform(rows))


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        *[("model", bad) for bad in (AllPairs(epsilon=1.0), None, "model.json", AllPairs)],
        *[("filling", bad) for bad in ("best", None, 1)],
        *[("random_state", bad) for bad in (-1, True, np.random.default_rng())],
        *[("multiple", bad) for bad in (0, 1, -1, 1.5, True, "2")],
        ("holes", "blank"),
    ],
)
def test_bad_parameters_are_refused(name, bad):
    more = {name: bad} if name in ("multiple", "holes") else {}
    with pytest.raises((ParameterError, NotFittedError), match="synthesizer|not fitted|" + name):
        DPImputer(**{"model": MODEL, **({} if more else {name: bad})}).transform(holey(3), **more)


def test_data_of_another_schema_is_refused_and_no_cell_is_quoted():
    other = Schema((*SCHEMA.attributes[:3], Numeric(name="weight", lower=0, upper=2, bins=4)))
    table = Table.read(holey(10), other)
    for ask in (IMPUTER.fit, IMPUTER.transform):
        with pytest.raises(DataError, match="another schema"):
            ask(table)
    with pytest.raises(DataError, match="lacks columns"):
        IMPUTER.transform(holey(10).drop(columns="age"))
    strange = holey(10).astype({"smoker": object})
    strange.loc[0, "smoker"] = "xyzzy"
    with pytest.raises(DataError) as caught:
        IMPUTER.transform(strange)
    assert "xyzzy" not in str(caught.value)


def test_habits_of_scikit_learn_and_a_loaded_model(tmp_path):
    frame = holey(400)

    def numbers(rows):
        return rows[["age", "weight"]].to_numpy(dtype=float)

    chain = make_pipeline(IMPUTER, FunctionTransformer(numbers), LogisticRegression())
    again = clone(chain).fit(frame, complete(400)["smoker"] == "yes")
    assert again.predict(frame).shape == (400,)
    assert again[0].model is MODEL  # shared, and still fitted
    assert clone(IMPUTER).get_params() == {"model": MODEL, "filling": "random", "random_state": 3}
    MODEL.save(tmp_path / "m.json")
    loaded = DPImputer(model=missdp.load(tmp_path / "m.json"), random_state=3)
    for copy in (pickle.loads(pickle.dumps(IMPUTER)), loaded):
        pd.testing.assert_frame_equal(copy.transform(frame), IMPUTER.transform(frame))
    assert "AllPairs" in repr(IMPUTER)


def test_a_model_that_is_fitted_again_is_another_one():
    model = AllPairs(epsilon=5.0, delta=1e-6, random_state=0).fit(holey(), schema=SCHEMA)
    imputer = DPImputer(model=model, random_state=0, filling="likely")
    before = imputer.transform(holey(300))
    turned = holey()
    turned["smoker"] = turned["smoker"].map({"no": "yes", "yes": "never", "never": "no"})
    model.fit(turned, schema=SCHEMA)
    assert not imputer.transform(holey(300)).equals(before)


def test_the_guarantee_is_the_models_and_the_rows_stay_private():
    assert IMPUTER.guarantee_ is MODEL.guarantee_
    assert IMPUTER.in_words().startswith(MODEL.guarantee_.in_words())
    assert "as private as the rows were" in IMPUTER.in_words()


# Rules


@cache
def ruled_model(one_free):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = AllPairs(epsilon=20.0, delta=1e-6, random_state=0)
        return model.fit(made_up(ONE_FREE if one_free else RULED, 2000))


@pytest.mark.parametrize("schema", [RULED, ONE_FREE], ids=["ruled", "one free"])
@pytest.mark.parametrize("filling", ["random", "mean"])
def test_filled_rows_obey_rules(schema, filling):
    model = ruled_model(schema is ONE_FREE)
    rng, whole = np.random.default_rng(1), made_up(schema, 500, seed=1, holes=0.0)
    rows = whole.with_missing({name: rng.random(500) < 0.4 for name in schema.nullable})
    filled = DPImputer(model=model, filling=filling, random_state=0).transform(rows)
    left = 0
    for truth, before, after in zip(*map(rows_by_hand, (whole, rows, filled)), strict=True):
        assert all(after[name] == cell for name, cell in before.items() if cell is not HOLE)
        hopeless = broken_by_hand(schema, before)
        assert hopeless or not broken_by_hand(schema, after)
        stays = {name for name, cell in after.items() if cell is HOLE}
        holes = {name for name, cell in before.items() if cell is HOLE}
        assert stays <= holes
        assert hopeless or stays in (set(), holes)
        fillable = HOLE not in truth.values() and not broken_by_hand(schema, truth)
        left += bool(stays and fillable)
    assert left < 0.01 * len(rows)


def test_what_is_filled_by_rules_depends_on_the_row_alone():
    model = ruled_model(False)
    imputer = DPImputer(model=model, random_state=0)
    rows, others = made_up(RULED, 120, seed=1), made_up(RULED, 120, seed=2)
    found = imputer.transform(rows)
    one, two = (f.to_native(holes="codes") for f in (rows, others))
    tried = 0
    for place in range(0, 120, 9):
        order = np.where(np.arange(120) == place, 120 + place, np.arange(120))
        table = Table.read(pd.concat([two, one]).iloc[order], RULED)
        if same(table.take([place]), rows.take([place])):  # as it was, having been written
            assert same(imputer.transform(table).take([place]), found.take([place]))
            tried += 1
    assert tried > 8


SUMS = Schema(
    tuple(
        Numeric(name=n, lower=0, upper=u, integer=True, bins=b, nullable=True)
        for n, u, b in (("x", 10, 5), ("y", 10, 5), ("all", 20, 5))
    ),
    rules=(Equation("all = x + y"),),
)


def test_a_sum_that_was_observed_is_kept():
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 11, (2, 2000))
    frame = pd.DataFrame({"x": x, "y": y, "all": x + y}).astype("Int64")
    model = AllPairs(epsilon=20.0, delta=1e-6, random_state=0).fit(frame, schema=SUMS)
    lost = frame.copy()
    lost.loc[::2, ["x", "y"]] = None
    lost.loc[1::4, ["x", "all"]] = None
    filled = DPImputer(model=model, random_state=0).transform(lost)
    assert filled.notna().all().all()
    assert (filled["x"] + filled["y"] == filled["all"]).all()
    seen = lost.notna()
    assert (filled == lost).fillna(False).to_numpy()[seen.to_numpy()].all()


def test_a_row_that_cannot_be_filled_keeps_its_holes():
    schema = Schema(
        (
            Categorical(name="a", levels=("x", "y"), nullable=True),
            Categorical(name="b", levels=("x", "y"), nullable=True),
            Categorical(name="c", levels=("x", "y")),
        ),
        rules=(
            Impossible("a = 'x' and c = 'x' and b = 'x'"),
            Impossible("a = 'x' and c = 'x' and b = 'y'"),
        ),
    )
    frame = pd.DataFrame({"a": ["y", "y", "x"] * 100, "b": ["x", "y"] * 150, "c": ["x", "y"] * 150})
    model = AllPairs(epsilon=20.0, delta=1e-6, random_state=0)
    model.fit(frame[~((frame["a"] == "x") & (frame["c"] == "x"))], schema=schema)
    hard = pd.DataFrame({"a": [None, "y", None], "b": ["x", None, None], "c": ["x", "x", "y"]})
    filled = DPImputer(model=model, random_state=0).transform(hard)
    assert filled["a"].iloc[0] == "y"
    assert filled.notna().all().all()


# Pipelines


def test_rows_of_numbers_are_filled_as_tables_are():
    rows = Table.read(holey(300), SCHEMA)
    filled, numbers = IMPUTER.transform(rows), IMPUTER.transform(rows_of(rows))
    np.testing.assert_allclose(numbers, rows_of(filled), atol=1e-12)
    assert (numbers[~np.isnan(rows_of(rows))] == rows_of(rows)[~np.isnan(rows_of(rows))]).all()
    nothing = rows_of(Table.read(complete(9), SCHEMA)) * 3
    assert (IMPUTER.transform(nothing) == nothing).all()
    with pytest.raises(DataError, match="expected 6 columns"):
        IMPUTER.transform(np.zeros((3, 2)))


def test_a_pipeline_prices_it_as_a_map_of_single_rows():
    n, schema = 2000, SCHEMA
    domain = mp.RowDomain.of(schema, rows=n)
    for distance in (mp.NEIGHBOURS, mp.TableDistance(replaced=7)):
        assert IMPUTER.stability(distance, domain) == distance
    moved = mp.TableDistance(replaced=1, moved_rows=4, moved_max=0.1, moved_l12=0.4)
    assert IMPUTER.stability(moved, domain) == mp.TableDistance(replaced=5)
    with pytest.raises(UnprovenError, match="put it first"):
        IMPUTER.stability(mp.TableDistance(replaced=1, moved_rows=n - 1, moved_max=0.1), domain)
    after = IMPUTER.output_domain(domain)
    assert after.complete
    assert after.radius == domain.radius
    assert IMPUTER.conditions(domain) == (mp.ModelPaidApart(),)
    whole = mp.RowDomain(rows=n, columns=domain.columns)
    assert IMPUTER.output_domain(whole) == whole
    assert IMPUTER.conditions(whole) == ()
    assert IMPUTER.stability(moved, whole) == moved
    with pytest.raises(ParameterError, match="6 columns"):
        IMPUTER.output_domain(mp.RowDomain(rows=9, columns=2, complete=False))
    end = mp.PrivateMean(noise_multiplier=5.0)
    facts = {"rows": n, "columns": 6, "radius": domain.radius}
    pipeline = mp.PricedPipeline([("fill", IMPUTER)], end, complete=False, **facts)
    found = price(pipeline)
    assert found.epsilon == price(mp.PricedPipeline([], end, **facts)).epsilon
    assert found.steps[0].rows_moved == 0
    assert "composed" in str(found)
    fitted = pipeline.fit(Table.read(holey(n), schema))
    assert fitted.estimator_.mean_.shape == (6,)
    assert mp.ModelPaidApart() in fitted.guarantee_.conditions
    scaled = mp.PricedPipeline(
        [("fill", IMPUTER), ("scale", mp.StandardScaler(least_std=0.1))],
        end,
        complete=False,
        **facts,
    )
    assert price(scaled).epsilon > found.epsilon


def test_no_test_of_the_table_stands_in_for_paying_for_the_model():
    radius = mp.RowDomain.of(SCHEMA, rows=2000).radius
    facts = {"rows": 2000, "columns": 6, "radius": radius, "complete": False, "delta": 1e-6}
    steps = [("fill", IMPUTER), ("scale", mp.StandardScaler(least_std=0.1))]
    end = mp.PrivateMean(noise_multiplier=9.0)
    plan = plan_test(mp.PricedPipeline(steps, end, **facts), test_epsilon=0.1)
    assert mp.ModelPaidApart() in plan.guarantee.conditions
    assert not any(
        c.about_rows for c in plan.guarantee.conditions if isinstance(c, mp.StepCondition)
    )


def test_what_is_not_applicable_has_no_number():
    step = DPImputer(model=ruled_model(False))
    with pytest.raises(ParameterError, match="not applicable to some rows"):
        step.output_domain(mp.RowDomain(rows=10, columns=3, complete=False))


PIPELINE = """
delta = 1e-6
[table]
rows = 1000
columns = 6
radius = 2.0
complete = false
[[step]]
kind = "impute-model"
model = "m.json"
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


def test_a_pipeline_file_names_the_model(tmp_path):
    MODEL.save(tmp_path / "m.json")
    (tmp_path / "p.toml").write_text(PIPELINE)
    pipeline = load_pipeline(tmp_path / "p.toml", open_model=missdp.load)
    assert price(pipeline).steps[0].transformer == "DPImputer"
    with pytest.raises(ParameterError, match="open_model"):
        load_pipeline(tmp_path / "p.toml")
    for line in ("", "model = 3"):
        (tmp_path / "p.toml").write_text(PIPELINE.replace('model = "m.json"', line))
        with pytest.raises(ParameterError, match="model"):
            load_pipeline(tmp_path / "p.toml", open_model=missdp.load)


@pytest.mark.parametrize("missing", ["complete-rows", "observed"])
def test_holes_that_were_filled_amplify_nothing(missing):
    """Rows are read although nothing was observed in them, and tell of what was observed."""
    schema = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "ab"))
    rng = np.random.default_rng(0)
    full = rng.integers(0, 2, 2000)
    model = AllPairs(epsilon=5.0, random_state=0).fit(
        Table.from_codes(schema, {"a": full, "b": full})
    )
    rows = Table.from_codes(schema, {"a": np.full(2000, 2), "b": full})
    filled = DPImputer(model=model, random_state=0).transform(rows)
    assert (filled.codes("a") == full).mean() > 0.9  # what a gate of a would keep back
    assert filled.schema.rulebook.filled == {"a", "b"}
    again = DPImputer(model=model, random_state=1).fit(filled).transform(filled)
    assert same(again, filled)
    fits = [
        PrivBayes(epsilon=1.0, missing=missing).fit(filled),
        Kamino(epsilon=1.0, delta=1e-6, heads="sequential", steps=1, missing=missing).fit(filled),
    ]
    seldom = MissingCompletelyAtRandom({"a": 0.01, "b": 0.01})
    for found in fits:
        assert found.ground_truth_guarantee(seldom).epsilon == pytest.approx(1.0, rel=1e-3)
