"""Distances of marginals and of missingness follow their definitions, whatever the tables are."""

import itertools
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import missdp.evaluate.distances as module
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.evaluate import (
    MAR,
    MCAR,
    marginal_distance,
    missing_fidelity,
    missing_mask,
    missing_patterns,
)

SCHEMA = Schema(
    (
        Categorical(name="c", levels=("x", "y", "z"), nullable=True),
        Ordinal(name="o", levels=(1, 2), nullable=True),
        Numeric(name="n", lower=0, upper=100, bins=4, nullable=True),
        Numeric(name="i", lower=1, upper=8, integer=True, bins=2, nullable=True),
    )
)


def frame(n, seed, holes=0.0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame(
        {
            "c": rng.choice(["x", "y", "z"], n, p=[0.6, 0.3, 0.1]),
            "o": pd.array(rng.integers(1, 3, n), dtype="Int64"),
            "n": pd.array(rng.uniform(0, 100, n), dtype="Float64"),
            "i": pd.array(rng.integers(1, 9, n), dtype="Int64"),
        }
    ).astype({"c": "string"})
    for name in data.columns:
        data.loc[rng.random(n) < holes, name] = pd.NA
    return data


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 3))
def test_it_is_a_distance_on_complete_tables(a, b, c, k):
    one, two, three = (frame(1 + seed % 40, seed) for seed in (a, b, c))

    def distance(x, y):
        return marginal_distance(x, y, k=k, schema=SCHEMA).per_marginal

    assert not any(distance(one, one).values())
    assert distance(one, two) == pytest.approx(distance(two, one))
    for names, direct in distance(one, two).items():
        assert 0 <= direct <= 1
        detour = distance(one, three)[names] + distance(three, two)[names]
        assert direct <= detour + 1e-12


def test_finer_bins_see_what_the_declared_ones_hide():
    spread = frame(4000, 0)
    centred = spread.assign(n=pd.array((spread["n"] // 25) * 25 + 12.5, dtype="Float64"))
    same = marginal_distance(spread, centred, k=1, schema=SCHEMA).per_marginal
    finer = marginal_distance(spread, centred, k=1, schema=SCHEMA, bins=20).per_marginal
    assert same["n",] == 0.0
    assert finer["n",] == pytest.approx(0.8, abs=0.03)  # 4 of 20 bins are hit
    assert finer["i",] == 0.0


def test_whole_numbers_and_finer_declared_bins_stay_as_they_are():
    one, two = frame(500, 1), frame(500, 2)
    declared = marginal_distance(one, two, k=1, schema=SCHEMA, bins=2).per_marginal
    assert declared == marginal_distance(one, two, k=1, schema=SCHEMA).per_marginal
    marginal_distance(one, two, k=1, schema=SCHEMA, bins=1000)


def test_bins_only_cannot_be_cut_finer():
    table = Table.read(frame(50, 0), SCHEMA)
    bare = Table.from_codes(SCHEMA, {name: table.codes(name) for name in SCHEMA.names})
    assert marginal_distance(table, bare).max == 0.0
    with pytest.raises(DataError, match="with_values"):
        marginal_distance(table, bare, bins=20)
    marginal_distance(table, bare.with_values(np.random.default_rng(0)), bins=20)


def test_any_kind_of_table_compares_with_any_other():
    data = frame(80, 3, holes=0.3)
    table = Table.read(data, SCHEMA)
    strict = Schema(tuple(replace(a, nullable=False) for a in SCHEMA))
    complete = Table.read(frame(80, 4), strict)
    expected = marginal_distance(data, frame(80, 4), schema=SCHEMA).per_marginal
    assert marginal_distance(table, complete).per_marginal == expected
    assert marginal_distance(pl.from_pandas(data), complete).per_marginal == expected
    assert marginal_distance(table, table.to_arrow()).max == 0.0


def test_tables_that_do_not_compare_are_refused():
    table = Table.read(frame(10, 0), SCHEMA)
    with pytest.raises(ParameterError, match="schema"):
        marginal_distance(frame(10, 0), frame(10, 1))
    with pytest.raises(SchemaError, match="different attributes"):
        marginal_distance(table, table.subset(["c", "o"]))
    others = {
        "c": Categorical(name="c", levels=("x", "y", "w"), nullable=True),
        "o": Categorical(name="o", levels=(1, 2), nullable=True),
        "n": Numeric(name="n", lower=0, upper=99, bins=4, nullable=True),
        "i": Numeric(name="i", lower=1, upper=8, bins=2, nullable=True),
    }
    for name, other in others.items():
        schema = Schema(tuple(other if a.name == name else a for a in SCHEMA))
        codes = {a.name: [0] for a in schema}
        with pytest.raises(SchemaError, match=f"different domains for '{name}'"):
            marginal_distance(table, Table.from_codes(schema, codes))


def test_tables_without_rows_are_as_far_as_can_be():
    empty, some = frame(0, 0), frame(5, 0)
    assert marginal_distance(some, empty, schema=SCHEMA).mean == 1.0
    assert marginal_distance(empty, empty, schema=SCHEMA).mean == 0.0


@pytest.mark.parametrize(
    "options",
    [*({"k": k} for k in (0, 5, True, 1.5)), {"bins": 0}, {"bins": 2.5}, {"missing": "ignore"}],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ParameterError):
        marginal_distance(frame(5, 0), frame(5, 1), schema=SCHEMA, **options)


def test_batches_do_not_change_the_result(monkeypatch):
    one, two = frame(100, 0), frame(100, 1)
    whole = marginal_distance(one, two, schema=SCHEMA)
    monkeypatch.setattr(module, "_BATCH_CELLS", 1)
    steps = []
    parts = marginal_distance(
        one, two, schema=SCHEMA, progress=lambda stage, done: steps.append((stage, done))
    )
    assert parts == whole
    assert steps == [("2-way marginals", i / 6) for i in range(1, 7)]


ABC = ("a", "b", "c")
THREE = Schema(tuple(Categorical(name=n, levels=(0, 1, 2)) for n in ABC))


def complete(n, seed):
    rng = np.random.default_rng(seed)
    return Table.from_codes(THREE, {name: rng.integers(0, 3, n) for name in ABC})


def naive_patterns(one, two, columns):
    distance = 0.0
    for pattern in itertools.product([False, True], repeat=len(columns)):
        share = [np.mean(np.all(m[:, columns] == pattern, axis=1)) for m in (one, two)]
        distance += abs(share[0] - share[1]) / 2
    return distance


def test_rates_and_patterns_follow_their_definitions():
    one = MCAR(rate={"a": 0.3, "b": 0.1}).apply(complete(400, 0), random_state=0)
    two = MAR(rate=0.4, drivers=("a",), strength=3.0).apply(complete(300, 1), random_state=1)
    found = missing_fidelity(one, two)
    p, q = missing_mask(one), missing_mask(two)
    assert list(found.truth_rates.values()) == pytest.approx(p.mean(axis=0))
    assert list(found.synthetic_rates.values()) == pytest.approx(q.mean(axis=0))
    for i, j in itertools.combinations(range(3), 2):
        assert found.pairs[ABC[i], ABC[j]] == pytest.approx(naive_patterns(p, q, (i, j)))
    assert found.patterns == pytest.approx(naive_patterns(p, q, (0, 1, 2)))
    gap = np.abs(q.mean(axis=0) - p.mean(axis=0))
    assert found.mean_rate_difference == pytest.approx(gap.mean())
    assert found.max_rate_difference == pytest.approx(gap.max())


def test_equal_rates_with_another_dependence_are_told_apart():
    """Holes that come together, against holes that come alone: only the patterns see it."""
    schema = Schema(tuple(Categorical(name=n, levels=(0,), nullable=True) for n in "ab"))
    together = Table.from_codes(schema, {"a": [1, 1, 0, 0], "b": [1, 1, 0, 0]})
    alone = Table.from_codes(schema, {"a": [1, 1, 0, 0], "b": [0, 0, 1, 1]})
    found = missing_fidelity(together, alone)
    assert found.max_rate_difference == 0.0
    assert found.pairs["a", "b"] == found.patterns == 1.0


def test_tables_without_rows():
    table = MCAR(rate=0.3).apply(complete(100, 0), random_state=0)
    empty = table.take(np.arange(0))
    assert missing_fidelity(table, empty).patterns == 1.0
    assert missing_fidelity(empty, empty).mean_pair_distance == 0.0


HOLED = Schema(
    (
        Categorical(name="a", levels=("x", "y"), nullable=True),
        Numeric(name="n", lower=0, upper=10, nullable=True),
        Categorical(name="b", levels=("u", "v")),
    )
)
WITH_HOLES = pd.DataFrame(
    {
        "a": ["x", None, "y", None, None],
        "n": [1.0, 2.0, np.nan, np.nan, 9.0],
        "b": ["u", "v", "u", "v", "u"],
    }
)


def test_mask_and_patterns_match_pandas():
    table = Table.read(WITH_HOLES, HOLED)
    np.testing.assert_array_equal(missing_mask(table), WITH_HOLES.isna().to_numpy())
    patterns = missing_patterns(table)
    assert patterns == {("a",): 2, (): 1, ("n",): 1, ("a", "n"): 1}
    assert next(iter(patterns)) == ("a",)
    empty = Table.read(WITH_HOLES.iloc[:0], HOLED)
    assert missing_mask(empty).shape == (0, 3)
    assert missing_patterns(empty) == {}


def test_holes_hide_the_value_and_leave_the_others_alone():
    complete = Table.read(WITH_HOLES.iloc[:1], HOLED)
    rows = complete.take(np.zeros(200, dtype=int))
    holed = MCAR(rate=0.5, columns=("n",)).apply(rows, random_state=1)
    mask = holed.mask("n")
    assert 0 < mask.sum() < 200
    assert set(holed.values("n")[~mask]) == {1.0}
    assert set(holed.values("n")[mask]) == {0.0}  # the lower bound, not the hidden value
    np.testing.assert_array_equal(holed.codes("a"), rows.codes("a"))


def test_a_table_of_bins_only_can_have_holes():
    table = Table.from_codes(HOLED, {"a": [0] * 50, "n": [3] * 50, "b": [1] * 50})
    holed = MCAR(rate=0.5).apply(table, random_state=0)
    assert holed.schema.nullable == ("a", "n", "b")
    assert set(np.unique(holed.codes("n"))) == {3, 10}
