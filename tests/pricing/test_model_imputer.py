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
from missdp import MST, AllPairs, Categorical, DPImputer, Numeric, PrivBayes, Schema, Table
from missdp import pricing as mp
from missdp.accounting import MissingCompletelyAtRandom
from missdp.errors import DataError, NotFittedError, ParameterError, SchemaError, UnprovenError
from missdp.pricing import plan_test, price, rows_of
from missdp.schema import Ordinal
from missdp.sources.filling import ROWS_AT_ONCE
from missdp.testing.example_tables import RULED, example_table
from testing.by_hand import HOLE, broken_by_hand, rows_by_hand
from testing.ruled import ONE_FREE

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


def incomplete(n=3000, seed=0, rate=0.3):
    frame, rng = complete(n, seed).astype({"age": "Int64"}), np.random.default_rng(seed + 1)
    for name in ("smoker", "age", "class"):
        frame.loc[rng.random(n) < rate, name] = None
    return frame


MODEL = AllPairs(epsilon=5.0, delta=1e-6, random_state=0).fit(incomplete(), schema=SCHEMA)
IMPUTER = DPImputer(model=MODEL, random_state=3)


def same(one, two):
    numeric = [a.name for a in one.schema if isinstance(a, Numeric)]
    return all(np.array_equal(one.codes(n), two.codes(n)) for n in one.schema.names) and all(
        np.array_equal(one.values(n), two.values(n)) for n in numeric
    )


@pytest.mark.parametrize("family", [AllPairs, PrivBayes])
def test_imputer_fills_missing_cells_better_than_the_mode(family):
    model = family(epsilon=5.0, delta=1e-6, random_state=0).fit(incomplete(), schema=SCHEMA)
    rows, truth = Table.read(incomplete(seed=5), SCHEMA), complete(seed=5)
    codes, missing_cell = Table.read(truth, SCHEMA).codes("smoker"), rows.mask("smoker")
    far, result, best = {}, {}, np.bincount(codes[missing_cell]).max() / missing_cell.sum()
    for filling in ("random", "likely", "mean"):
        filled = DPImputer(model=model, filling=filling, random_state=0).transform(rows)
        assert not filled.incomplete_rows().any()
        for name in SCHEMA.names:
            retained = ~rows.mask(name)
            assert (filled.codes(name)[retained] == rows.codes(name)[retained]).all()
        retained, values = ~rows.mask("age"), filled.values("age")
        assert (values[retained] == rows.values("age")[retained]).all()
        assert (SCHEMA["age"].encode_values(values) == filled.codes("age")).all()
        far[filling] = np.sqrt(np.mean((values - truth["age"].to_numpy())[~retained] ** 2))
        result[filling] = filled.codes("smoker")
    for filling, more in (("likely", 0.25), ("random", 0.1)):
        assert (result[filling] == codes)[missing_cell].mean() > best + more
    assert far["mean"] < 0.97 * far["likely"] < 0.97 * far["random"]
    assert (result["mean"] == result["likely"]).all()


def test_fit_learns_nothing():
    rows = incomplete(200, seed=7)
    reference = IMPUTER.transform(rows)
    for other in (rows, incomplete(50, seed=8), rows.iloc[:0], None, 3, np.full((2, 2), np.nan)):
        pd.testing.assert_frame_equal(clone(IMPUTER).fit(other).transform(rows), reference)
    assert vars(clone(IMPUTER).fit(rows)) == vars(clone(IMPUTER))


def test_frames_come_back_as_they_came():
    frame = incomplete(50)
    frame.index = pd.Index([f"person {i}" for i in range(50)], name="who")
    filled, plain = IMPUTER.transform(frame), Table.read(frame, SCHEMA)
    pd.testing.assert_index_equal(filled.index, frame.index)
    assert list(filled.dtypes) == list(plain.to_native().dtypes)
    polars = pl.from_pandas(frame)
    for data, kind in ((polars, pl.DataFrame), (polars.lazy(), pl.DataFrame), (plain, Table)):
        result = IMPUTER.transform(data)
        assert isinstance(result, kind)
        table = result if kind is Table else Table.read(result, SCHEMA)
        assert same(table, Table.read(filled, SCHEMA))
    assert isinstance(IMPUTER.transform(plain.to_arrow()), pa.Table)
    assert list(IMPUTER.get_feature_names_out()) == list(SCHEMA.names)
    for n in (0, 1):
        filled = IMPUTER.transform(incomplete(n, rate=1.0))
        assert (len(filled), filled.notna().all().all()) == (n, True)


def test_several_draws_differ_and_are_repeatable(tmp_path):
    rows = incomplete(300)
    draws = IMPUTER.transform(rows, multiple=3)
    assert not draws[0].equals(draws[1])
    assert not draws[1].equals(draws[2])
    pd.testing.assert_frame_equal(draws[2], IMPUTER.transform(rows, multiple=4)[2])
    assert not clone(IMPUTER).set_params(random_state=4).transform(rows).equals(draws[0])
    fresh = DPImputer(model=MODEL)
    assert not fresh.transform(rows).equals(fresh.transform(rows))
    MODEL.save(tmp_path / "m.json")
    loaded = DPImputer(model=missdp.load(tmp_path / "m.json"), random_state=3)
    for copy in (pickle.loads(pickle.dumps(IMPUTER)), loaded, clone(IMPUTER)):
        pd.testing.assert_frame_equal(copy.transform(rows), draws[0])
    assert clone(IMPUTER).model is MODEL  # shared, and still fitted
    numbers = FunctionTransformer(lambda result: result[["age", "weight"]].to_numpy(dtype=float))
    chain = make_pipeline(IMPUTER, numbers, LogisticRegression())
    assert clone(chain).fit(rows, complete(300)["smoker"] == "yes").predict(rows).shape == (300,)


@cache
def ruled_model(one_free):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = MST(epsilon=20.0, delta=1e-6, random_state=0)
        return model.fit(example_table(ONE_FREE if one_free else RULED, 1000))


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "filling"), [(RULED, "random"), (RULED, "mean"), (ONE_FREE, "random")]
)
def test_filled_rows_obey_rules(schema, filling):
    model = ruled_model(schema is ONE_FREE)
    rng, total = np.random.default_rng(1), example_table(schema, 150, seed=1, missing_rate=0.0)
    rows = total.with_missing({name: rng.random(150) < 0.4 for name in schema.nullable})
    filled = DPImputer(model=model, filling=filling, random_state=0).transform(rows)
    remaining = 0
    for truth, before, after in zip(*map(rows_by_hand, (total, rows, filled)), strict=True):
        assert all(after[name] == cell for name, cell in before.items() if cell is not HOLE)
        hopeless = broken_by_hand(schema, before)
        assert hopeless or not broken_by_hand(schema, after)
        is_missing, stays = (
            {n for n, cell in row.items() if cell is HOLE} for row in (before, after)
        )
        assert stays <= is_missing
        assert hopeless or stays in (set(), is_missing)
        fillable = HOLE not in truth.values() and not broken_by_hand(schema, truth)
        remaining += bool(stays and fillable)
    assert remaining < 0.01 * len(rows)


def test_rows_of_numbers_are_filled_as_tables_are():
    rows = Table.read(incomplete(300), SCHEMA)
    filled, numbers = IMPUTER.transform(rows), IMPUTER.transform(rows_of(rows))
    np.testing.assert_allclose(numbers, rows_of(filled), atol=1e-12)
    assert (numbers[~np.isnan(rows_of(rows))] == rows_of(rows)[~np.isnan(rows_of(rows))]).all()
    nothing = rows_of(Table.read(complete(9), SCHEMA)) * 3
    assert (IMPUTER.transform(nothing) == nothing).all()


@pytest.mark.parametrize("missing", ["complete-rows", "observed"])
def test_filled_cells_amplify_no_guarantee(missing):
    """Rows are read although nothing was observed in them, and depend on observed cells."""
    schema = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "ab"))
    full = np.random.default_rng(0).integers(0, 2, 2000)
    model = AllPairs(epsilon=5.0, random_state=0)
    model.fit(Table.from_codes(schema, {"a": full, "b": full}))
    rows = Table.from_codes(schema, {"a": np.full(2000, 2), "b": full})
    filled = DPImputer(model=model, random_state=0).transform(rows)
    # A required attribute would leave these rows out.
    assert (filled.codes("a") == full).mean() > 0.9
    assert filled.schema.rule_set.rule_filled == {"a", "b"}
    assert same(DPImputer(model=model, random_state=1).fit(filled).transform(filled), filled)
    seldom = MissingCompletelyAtRandom({"a": 0.01, "b": 0.01})
    result = PrivBayes(epsilon=1.0, missing=missing).fit(filled).ground_truth_guarantee(seldom)
    assert result.epsilon == pytest.approx(1.0, rel=1e-3)


@pytest.mark.long
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**20), st.integers(2, 30), st.sampled_from(["random", "likely", "mean"]))
def test_filled_row_depends_on_itself_and_its_place_only(seed, n, filling):
    """Whatever the other rows are, how many they are, and in which order. With rules, too."""
    rng = np.random.default_rng(seed)
    ruled, rest = seed % 3 == 0, np.arange(n)
    model = ruled_model(False) if ruled else MODEL
    rows, others = (
        example_table(RULED, n, seed=s) if ruled else Table.read(incomplete(n, s, rate=0.5), SCHEMA)
        for s in (seed % 1000, seed % 999 + 1)
    )
    imputer = DPImputer(model=model, filling=filling, random_state=seed)
    result, place = imputer.transform(rows), int(rng.integers(n))
    fewer = imputer.transform(rows.take(rest[:-1]))
    assert same(fewer, result.take(rest[:-1]))
    more = rows.take(np.append(rest, rng.integers(0, n, 3)))
    assert same(imputer.transform(more).take(rest), result)
    order = np.insert(rng.permutation(np.delete(rest, place)), place, place)
    assert same(imputer.transform(rows.take(order)).take([place]), result.take([place]))
    mixed = Table.concatenate(
        [others.take(rest[:place]), rows.take([place]), others.take(rest[place + 1 :])]
    )
    assert same(imputer.transform(mixed).take([place]), result.take([place]))


def test_rows_after_the_first_block_are_filled_alike():
    n = ROWS_AT_ONCE + 100
    rows, first = Table.read(incomplete(n), SCHEMA), np.arange(100)
    result, late = IMPUTER.transform(rows), ROWS_AT_ONCE + first
    other = Table.concatenate(
        [Table.read(incomplete(ROWS_AT_ONCE, seed=9), SCHEMA), rows.take(late)]
    )
    assert same(IMPUTER.transform(other).take(late), result.take(late))
    assert not result.incomplete_rows().any()
    assert not same(result.take(first), result.take(late))


NEVER = {
    "model": (AllPairs(epsilon=1.0), None, "model.json", AllPairs),
    "filling": ("best", None, 1),
    "random_state": (-1, True, np.random.default_rng()),
    "multiple": (0, 1, -1, 1.5, True, "2"),
    "missing_as": ("blank",),
}
OTHER = Schema((*SCHEMA.attributes[:3], Numeric(name="weight", lower=0, upper=2, bins=4)))
STRANGE = incomplete(10).assign(smoker="xyzzy")
ROWS = [
    STRANGE,
    incomplete(10).drop(columns="age"),
    Table.read(incomplete(10), OTHER),
    np.zeros((3, 2)),
]


def test_bad_parameters_and_other_rows_are_refused_and_no_cell_is_quoted():
    for name, bad in [(name, bad) for name, bads in NEVER.items() for bad in bads]:
        facts, more = ({}, {name: bad}) if name in ("multiple", "missing_as") else ({name: bad}, {})
        with pytest.raises(
            (ParameterError, NotFittedError), match="synthesizer|not fitted|" + name
        ):
            DPImputer(**{"model": MODEL, **facts}).transform(incomplete(3), **more)
    for rows in ROWS:
        with pytest.raises(DataError) as caught:
            IMPUTER.transform(rows)
        assert "xyzzy" not in str(caught.value)


def test_the_model_is_the_release_and_one_that_is_fitted_again_is_another_one():
    model = AllPairs(epsilon=5.0, delta=1e-6, random_state=0).fit(incomplete(), schema=SCHEMA)
    imputer = DPImputer(model=model, random_state=0, filling="likely")
    assert imputer.guarantee_ is model.guarantee_
    assert imputer.in_words().startswith(model.guarantee_.in_words())
    assert "as private as the rows were" in imputer.in_words()
    before, turned = imputer.transform(incomplete(300)), incomplete()
    turned["smoker"] = turned["smoker"].map({"no": "yes", "yes": "never", "never": "no"})
    model.fit(turned, schema=SCHEMA)
    assert not imputer.transform(incomplete(300)).equals(before)


N, END = 2000, mp.PrivateMean(noise_multiplier=9.0)
DOMAIN = mp.RowDomain.of(SCHEMA, rows=N)
FACTS = {"rows": N, "columns": 6, "radius": DOMAIN.radius}


@pytest.mark.long
def test_a_step_of_it_is_a_map_of_single_rows():
    for distance in (mp.NEIGHBOURS, mp.TableDistance(replaced=7)):
        assert IMPUTER.stability(distance, DOMAIN) == distance
    shift = mp.TableDistance(replaced=1, shifted_rows=4, max_shift=0.1, shift_l12=0.4)
    assert IMPUTER.stability(shift, DOMAIN) == mp.TableDistance(replaced=5)
    with pytest.raises(UnprovenError, match="Put it first"):
        IMPUTER.stability(mp.TableDistance(replaced=1, shifted_rows=N - 1, max_shift=0.1), DOMAIN)
    total = mp.RowDomain(rows=N, columns=6, radius=DOMAIN.radius)
    assert IMPUTER.output_domain(DOMAIN) == total == IMPUTER.output_domain(total)
    fresh = DPImputer(model=MODEL)
    assert fresh.conditions(DOMAIN) == (mp.ModelPaidApart(),)
    assert {*IMPUTER.conditions(DOMAIN)} == {mp.ModelPaidApart(), mp.SeededFilling()}  # seeded
    assert IMPUTER.conditions(total) == ()
    assert IMPUTER.stability(shift, total) == shift
    for step, columns in ((IMPUTER, 2), (DPImputer(model=ruled_model(False)), 3)):
        with pytest.raises((ParameterError, SchemaError), match=r"6 columns|not applicable"):
            step.output_domain(mp.RowDomain(rows=9, columns=columns, complete=False))


def test_a_pipeline_pays_nothing_for_it_and_says_that_the_model_is_paid_apart():
    pipeline = mp.PricedPipeline([("fill", IMPUTER)], END, complete=False, **FACTS)
    result = price(pipeline)
    assert result.epsilon == price(mp.PricedPipeline([], END, **FACTS)).epsilon
    assert "wrong here" not in str(result)
    assert result.steps[0].shifted_rows == 0
    fitted = pipeline.fit(Table.read(incomplete(N), SCHEMA))
    assert fitted.estimator_.mean_.shape == (6,)
    scaled = [("fill", IMPUTER), ("scale", mp.StandardScaler(min_std=0.1))]
    more = mp.PricedPipeline(scaled, END, complete=False, **FACTS)
    assert price(more).epsilon > result.epsilon
    plan = plan_test(more, test_epsilon=0.1)  # no test of the table stands in for it
    for guarantee in (fitted.guarantee_, plan.guarantee):
        assert mp.ModelPaidApart() in guarantee.conditions
    assert not any(getattr(c, "about_rows", False) for c in plan.guarantee.conditions)
