from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import missdp.evaluate.distances as module
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.evaluate import marginal_distance

SCHEMA = Schema(
    (
        Categorical(name="c", levels=("x", "y", "z"), nullable=True),
        Ordinal(name="o", levels=(1, 2), nullable=True),
        Numeric(name="n", lower=0, upper=100, bins=4, nullable=True),
        Numeric(name="i", lower=1, upper=8, integer=True, bins=2, nullable=True),
    )
)


def frame(n: int, seed: int, holes: float = 0.0) -> pd.DataFrame:
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


def naive(one: pd.DataFrame, two: pd.DataFrame, names: tuple[str, ...], level: bool) -> float:
    """Half the summed differences of relative frequencies, straight from the definition."""

    def shares(data: pd.DataFrame) -> pd.Series:
        data = data.copy()
        data["n"] = (data["n"] // 25).clip(upper=3)
        data["i"] = ((data["i"] - 1) // 3.5).clip(upper=1)
        cells = data[list(names)].astype("string")
        cells = cells.fillna("missing") if level else cells.dropna()
        return cells.agg("|".join, axis=1).value_counts(normalize=True)

    return float(shares(one).sub(shares(two), fill_value=0).abs().sum() / 2)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
@pytest.mark.parametrize("missing", ["unobserved", "level"])
def test_distances_follow_the_definition(k: int, missing: Any) -> None:
    one, two = frame(300, 0, holes=0.2), frame(200, 1, holes=0.1)
    found = marginal_distance(one, two, k=k, schema=SCHEMA, missing=missing)
    assert list(found.per_marginal) == list(itertools.combinations(SCHEMA.names, k))
    for names, distance in found.per_marginal.items():
        expected = naive(one, two, names, missing == "level")
        assert distance == pytest.approx(expected, abs=1e-12)
    values = list(found.per_marginal.values())
    assert found.mean == pytest.approx(np.mean(values))
    assert found.max == max(values)


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 3))
def test_it_is_a_distance_on_complete_tables(a: int, b: int, c: int, k: int) -> None:
    one, two, three = (frame(1 + seed % 40, seed) for seed in (a, b, c))

    def distance(x: pd.DataFrame, y: pd.DataFrame) -> dict[tuple[str, ...], float]:
        return marginal_distance(x, y, k=k, schema=SCHEMA).per_marginal

    assert not any(distance(one, one).values())
    assert distance(one, two) == pytest.approx(distance(two, one))
    for names, direct in distance(one, two).items():
        assert 0 <= direct <= 1
        detour = distance(one, three)[names] + distance(three, two)[names]
        assert direct <= detour + 1e-12


def test_finer_bins_see_what_the_declared_ones_hide() -> None:
    spread = frame(4000, 0)
    centred = spread.assign(n=pd.array((spread["n"] // 25) * 25 + 12.5, dtype="Float64"))
    same = marginal_distance(spread, centred, k=1, schema=SCHEMA).per_marginal
    finer = marginal_distance(spread, centred, k=1, schema=SCHEMA, bins=20).per_marginal
    assert same["n",] == 0.0
    assert finer["n",] == pytest.approx(0.8, abs=0.03)  # 4 of 20 bins are hit
    assert finer["i",] == 0.0


def test_whole_numbers_and_finer_declared_bins_stay_as_they_are() -> None:
    one, two = frame(500, 1), frame(500, 2)
    declared = marginal_distance(one, two, k=1, schema=SCHEMA, bins=2).per_marginal
    assert declared == marginal_distance(one, two, k=1, schema=SCHEMA).per_marginal
    marginal_distance(one, two, k=1, schema=SCHEMA, bins=1000)


def test_bins_only_cannot_be_cut_finer() -> None:
    table = Table.read(frame(50, 0), SCHEMA)
    bare = Table.from_codes(SCHEMA, {name: table.codes(name) for name in SCHEMA.names})
    assert marginal_distance(table, bare).max == 0.0
    with pytest.raises(DataError, match="with_values"):
        marginal_distance(table, bare, bins=20)
    marginal_distance(table, bare.with_values(np.random.default_rng(0)), bins=20)


def test_any_kind_of_table_compares_with_any_other() -> None:
    data = frame(80, 3, holes=0.3)
    table = Table.read(data, SCHEMA)
    strict = Schema(tuple(replace(a, nullable=False) for a in SCHEMA))
    complete = Table.read(frame(80, 4), strict)
    expected = marginal_distance(data, frame(80, 4), schema=SCHEMA).per_marginal
    assert marginal_distance(table, complete).per_marginal == expected
    assert marginal_distance(pl.from_pandas(data), complete).per_marginal == expected
    assert marginal_distance(table, table.to_arrow()).max == 0.0


def test_tables_that_do_not_compare_are_refused() -> None:
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


def test_tables_without_rows_are_as_far_as_can_be() -> None:
    empty, some = frame(0, 0), frame(5, 0)
    assert marginal_distance(some, empty, schema=SCHEMA).mean == 1.0
    assert marginal_distance(empty, empty, schema=SCHEMA).mean == 0.0


@pytest.mark.parametrize(
    "options",
    [*({"k": k} for k in (0, 5, True, 1.5)), {"bins": 0}, {"bins": 2.5}, {"missing": "ignore"}],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ParameterError):
        marginal_distance(frame(5, 0), frame(5, 1), schema=SCHEMA, **options)


def test_batches_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = frame(100, 0), frame(100, 1)
    whole = marginal_distance(one, two, schema=SCHEMA)
    monkeypatch.setattr(module, "_BATCH_CELLS", 1)
    steps: list[tuple[str, float]] = []
    parts = marginal_distance(
        one, two, schema=SCHEMA, progress=lambda stage, done: steps.append((stage, done))
    )
    assert parts == whole
    assert steps == [("2-way marginals", i / 6) for i in range(1, 7)]
