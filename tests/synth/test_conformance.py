"""One suite over every family and strategy: the public kit, and what only ours promise."""

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from missdp import Budget
from missdp.accounting import releases
from missdp.errors import ParameterError, SchemaError
from missdp.sources import DuckDBSource
from missdp.testing import HABITS, check_habits
from synth.conformance import CASES, IDS, SCHEMA, make_frame, make_table

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
every_case = pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
# Sixty columns take these seconds for each strategy.
SLOW = {
    (name, "many_columns")
    for name in (
        "mst",
        "all-pairs-tree",
        "all-pairs-imputed",
        "kamino-sequential",
    )
}


@pytest.mark.parametrize(
    ("family", "strategy", "habit"),
    [
        pytest.param(
            family,
            strategy,
            habit,
            id=f"{case}-{habit}",
            marks=[pytest.mark.slow] if (family.name, habit) in SLOW else [],
        )
        for (family, strategy), case in zip(CASES, IDS, strict=True)
        for habit in HABITS
    ],
)
def test_habits(family, strategy, habit):
    check_habits(family.build, parameters=family.options, strategies=[strategy], habits=[habit])


def build(family, strategy, **options):
    return family.build(
        **{"epsilon": 1.0, "missing": strategy, "random_state": 0, **family.options, **options}
    )


@every_case
def test_synthetic_rows_do_not_reuse_the_noise(family, strategy, monkeypatch):
    streams = []
    monkeypatch.setattr(
        family.build,
        "_sample",
        lambda self, n, missing_values, rng: streams.append(rng.random(8).tolist()) or {},
    )
    model = build(family, strategy, random_state=5).fit(make_table())
    monkeypatch.setattr("missdp.synth.row_blocks.Table.from_codes", lambda *_, **__: make_table(3))
    noise = np.random.default_rng(5).random(10_000)
    for seed in (None, 5):
        model.sample(3, random_state=seed)
        assert not np.isin(streams[-1], noise).any()


@every_case
def test_strategies_have_no_aliases(family, strategy):
    old = {"observed": "adaptive", "joint": "auto"}.get(strategy)
    if old is not None:
        with pytest.raises(ParameterError, match=strategy):
            build(family, old).fit(make_table())


@every_case
def test_the_default_is_the_first_strategy_that_a_family_lists(family, strategy):
    assert family.build(epsilon=1.0, delta=1e-6).missing == family.build.strategies[0]


@every_case
def test_gates_are_those_of_the_strategy(family, strategy):
    """Whatever reads the counts of a clique says which attributes a row must have observed."""
    model = build(family, strategy, n_rows=400).fit(make_table())
    released = [e for e in releases(model.guarantee_.events) if e.label != "tree alter"]
    trees = [e for e in releases(model.guarantee_.events) if e.label == "tree alter"]
    found = [frozenset(e.gate or ()) for e in released]
    every = frozenset(SCHEMA.nullable)
    own = {"observed": {"alter"}, "impute-first": {"alter"}, "complete-rows": every}
    masks = strategy == "observed" and model.reads_masks
    assert {frozenset(e.gate or ()) for e in trees} == {
        frozenset(own.get(strategy, ()) if not masks else ())
    }
    if strategy == "joint" or (strategy == "observed" and model.reads_masks):
        assert set(found) == {frozenset()}
    elif strategy == "complete-rows":
        assert set(found) == {every}
    elif strategy == "impute-first":
        assert set(found[:3]) == {frozenset({name}) for name in every}
        assert set(found[3:]) == {frozenset()}
    else:
        for event in released:
            names = set(event.label.removeprefix("marginal ").split(" x "))
            if event.label.startswith("heads of"):  # several at once read a row for any of them
                heads = event.label.removeprefix("heads of ").split(", ")
                names = set(heads) if len(heads) == 1 else set()
            assert frozenset(event.gate or ()) == (every & names)


@every_case
def test_every_kind_of_input(family, strategy, tmp_path):
    frame = make_frame()
    frame.to_csv(tmp_path / "x.csv", index=False)
    inputs = [frame, pl.from_pandas(frame), tmp_path / "x.csv", str(tmp_path / "x.csv")]
    kinds = [pd.DataFrame, pl.DataFrame, pd.DataFrame, pd.DataFrame]
    for data, kind in zip(inputs, kinds, strict=True):
        model = build(family, strategy).fit(data, schema=SCHEMA)
        assert isinstance(model.sample(5), kind)
    with pytest.raises(SchemaError, match="schema is needed"):
        build(family, strategy).fit(frame)


@every_case
def test_streaming(family, strategy, tmp_path):
    make_frame().to_parquet(tmp_path / "x.parquet")
    source = DuckDBSource(tmp_path / "x.parquet", SCHEMA)
    model = build(family, strategy)
    if strategy in family.streams:
        streamed = model.fit(source).sample(50)
        in_memory = build(family, strategy).fit(make_table()).sample(50)
        pd.testing.assert_frame_equal(streamed, in_memory)
    else:
        budget = Budget(1.0, 1e-5)
        with pytest.raises(ParameterError, match="in memory"):
            model.set_params(budget=budget).fit(source)
        assert not budget.events
    with duckdb.connect() as connection:
        relation = connection.sql(f"SELECT * FROM '{tmp_path}/x.parquet'")
        if strategy in family.streams:
            assert build(family, strategy).fit(relation, schema=SCHEMA).sample(3).shape == (3, 4)
