"""One suite over every family and strategy."""

import json
import math

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

from missdp import Budget, Categorical, Schema, Table
from missdp.accounting import (
    DataDependentDomain,
    DeclaredRowCount,
    ExplicitSeed,
    MissingCompletelyAtRandom,
    PublicDomain,
    releases,
)
from missdp.errors import (
    BudgetExceededError,
    DataError,
    MissDPError,
    NotFittedError,
    OutputError,
    ParameterError,
    SchemaError,
)
from missdp.sources import DuckDBSource, MemorySource
from synth.conformance import CASES, IDS, SCHEMA, make_frame, make_table

pytestmark = [
    pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS),
    pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning"),
]


def build(family, strategy, **options):
    return family.build(
        **{"epsilon": 1.0, "missing": strategy, "random_state": 0, **family.options, **options}
    )


def test_scikit_learn_habits(family, strategy):
    model = build(family, strategy)
    params = model.get_params()
    assert params["epsilon"] == 1.0
    assert params["missing"] == strategy
    again = clone(model).set_params(epsilon=2.0)
    assert again.epsilon == 2.0
    assert model.epsilon == 1.0
    assert "epsilon" in repr(model)


def test_clones_share_the_budget(family, strategy):
    budget = Budget(1.2, 1e-5)
    model = build(family, strategy, budget=budget)
    model.fit(make_table())
    with pytest.raises(BudgetExceededError):
        clone(model).fit(make_table())


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": math.inf},
        {"epsilon": None},
        {"epsilon": "1"},
        {"delta": 1.0},
        {"delta": -1e-9},
        {"delta": math.nan},
        {"missing": "guess"},
        {"n_rows": 0},
        {"n_rows": "many"},
        {"n_rows": 1.5},
        {"budget": 1.0},
        {"epsilon": 1e-9},
        {"random_state": -1},
        {"random_state": "x"},
        {"random_state": 1.5},
        {"progress": 3},
    ],
)
def test_bad_parameters_are_refused_before_anything_is_charged(family, strategy, bad):
    budget = Budget(10.0, 1e-3)
    with pytest.raises(ParameterError):
        build(family, strategy, **{"budget": budget, **bad}).fit(make_table())
    assert not budget.events


def test_what_to_do_about_undeclared_facts_is_checked(family, strategy):
    budget = Budget(10.0, 1e-3)
    with pytest.raises(ParameterError, match="undeclared"):
        build(family, strategy, budget=budget).fit(make_table(), undeclared="ignore")
    assert not budget.events


def test_numbers_of_numpy_are_numbers(family, strategy, tmp_path):
    model = build(
        family, strategy, epsilon=np.float32(0.7), n_rows=np.int64(50), random_state=np.int64(3)
    ).fit(make_table())
    assert model.guarantee_.epsilon <= float(np.float32(0.7)) * (1 + 1e-9)
    assert len(model.sample()) == 50
    assert len(model.sample(np.int64(3))) == 3
    model.save(tmp_path / "m.json")
    assert type(model).load(tmp_path / "m.json").guarantee_ == model.guarantee_


def shape_of(frame):
    return list(frame.columns), [str(t) for t in frame.dtypes]


def test_output_shape_depends_on_the_schema_alone(family, strategy):
    expected = shape_of(make_table().to_native())
    tables = {
        "normal": make_table(),
        "empty": make_table(0),
        "one row": make_table(1),
        "all missing": Table.read(make_frame(50).assign(größe=None, alter=None, ok=None), SCHEMA),
        "constant": Table.read(
            make_frame(50).assign(größe="S", alter=1.0, ok=True, score=0.1), SCHEMA
        ),
    }
    for table in tables.values():
        model = build(family, strategy, n_rows=100).fit(table)
        synthetic = model.sample()
        assert shape_of(synthetic) == expected
        assert len(synthetic) == 100
        assert not synthetic.isna().any().any()
        Table.read(synthetic, SCHEMA)  # every value is in the declared domain


@pytest.mark.parametrize("n", [0, 1, 7])
def test_sample_sizes(family, strategy, n):
    assert len(build(family, strategy).fit(make_table()).sample(n)) == n


@pytest.mark.parametrize("n", [-1, 1.5, True, "3"])
def test_bad_sample_sizes(family, strategy, n):
    model = build(family, strategy).fit(make_table())
    with pytest.raises(ParameterError):
        model.sample(n)


@pytest.mark.parametrize("seed", [-1, "x", 1.5, True])
def test_bad_sampling_seeds(family, strategy, seed):
    model = build(family, strategy, random_state=None).fit(make_table())
    with pytest.raises(ParameterError, match="random_state"):
        model.sample(3, random_state=seed)


def test_not_fitted(family, strategy, tmp_path):
    model = build(family, strategy)
    for call in (lambda: model.sample(1), lambda: model.save(tmp_path / "m.json")):
        with pytest.raises(NotFittedError):
            call()


def test_keeping_holes(family, strategy):
    model = build(family, strategy).fit(make_table(2000))
    if strategy != "joint":
        with pytest.raises(ParameterError, match="joint"):
            model.sample(10, missing_values="keep")
        return
    holes = model.sample(2000, missing_values="keep").isna().mean()
    assert np.all(np.abs(holes[["größe", "alter", "ok"]] - 0.2) < 0.12)
    assert holes["score"] == 0


def test_guarantee_is_computed_within_what_was_asked(family, strategy):
    model = build(family, strategy).fit(make_table())
    guarantee = model.guarantee_
    assert 0.95 < guarantee.epsilon <= 1.0 + 1e-9
    assert guarantee.delta == (1e-6 if model.delta is None else model.delta)
    assert guarantee.protects == "incomplete"
    assert guarantee.adjacency == "add-remove"
    assert ExplicitSeed() in guarantee.conditions
    assert guarantee.epsilon_at(guarantee.delta) <= 1.0 + 1e-9


def test_what_a_fit_spends_does_not_depend_on_the_data(family, strategy):
    spent = {
        build(family, strategy, n_rows=100).fit(table).guarantee_.epsilon
        for table in (make_table(), make_table(0), make_table(3000, seed=1))
    }
    assert max(spent) - min(spent) < 1e-12


def test_an_ordinary_release_rests_on_its_public_domain_only(family, strategy):
    model = build(family, strategy, random_state=None).fit(make_table())
    assert model.guarantee_.conditions == (PublicDomain(),)


def test_conditions_are_recorded(family, strategy):
    drafted = SCHEMA["größe"].model_copy(update={"undeclared": ("levels",)})
    schema = Schema((drafted, *SCHEMA.attributes[1:]))
    budget = Budget(5.0, 1e-3)
    model = build(family, strategy, n_rows=123, budget=budget)
    with pytest.raises(SchemaError, match="undeclared"):
        model.fit(make_frame(), schema=schema)
    assert not budget.events
    model.fit(make_frame(), schema=schema, undeclared="accept")
    for found in (model.guarantee_.conditions, budget.spent.conditions):
        assert DataDependentDomain(attributes=("größe",)) in found
        assert DeclaredRowCount(n=123) in found
        # What was read from the data is not public, and the rest still has to be.
        assert PublicDomain() not in found
        assert any(isinstance(condition, PublicDomain) for condition in found)
    assert model.n_rows_ == 123


class Spy(MemorySource):
    """A source that notes what had been charged when it was read, or fails."""

    def __init__(self, table, budget, *, fails=False):
        super().__init__(table)
        self.budget, self.fails, self.charged = budget, fails, []

    def note(self):
        self.charged.append(len(self.budget.events))
        if self.fails:
            raise DataError("disk on fire")

    def counts(self, cliques, *, rows):
        self.note()
        return super().counts(cliques, rows=rows)

    @property
    def table(self):
        self.note()
        return super().table


def test_the_shared_budget_is_charged_before_anything_is_read(family, strategy):
    budget = Budget(1.0, 1e-5)
    spy = Spy(make_table(), budget)
    build(family, strategy, budget=budget).fit(spy)
    assert spy.charged
    assert all(charged >= 1 for charged in spy.charged)
    assert budget.spent.epsilon <= 1.0 + 1e-9


def test_a_refused_fit_reads_nothing_and_charges_nothing(family, strategy):
    budget = Budget(0.5, 1e-5)
    spy = Spy(make_table(), budget)
    with pytest.raises(BudgetExceededError):
        build(family, strategy, budget=budget).fit(spy)
    assert not spy.charged
    assert not budget.events


def test_a_fit_that_fails_stays_charged(family, strategy):
    budget = Budget(1.0, 1e-5)
    model = build(family, strategy, budget=budget)
    with pytest.raises(DataError):
        model.fit(Spy(make_table(), budget, fails=True))
    assert budget.events
    assert not hasattr(model, "guarantee_")


def test_a_fit_that_fails_does_not_leave_an_earlier_guarantee(family, strategy):
    model = build(family, strategy).fit(make_table())
    with pytest.raises(DataError):
        model.fit(Spy(make_table(), Budget(1.0), fails=True))
    with pytest.raises(NotFittedError):
        model.sample(1)


def test_a_refused_fit_does_not_open_the_data(family, strategy, tmp_path):
    model = build(family, strategy, budget=Budget(0.5, 1e-5))
    with pytest.raises(BudgetExceededError):
        model.fit(tmp_path / "absent.csv", schema=SCHEMA)


def test_parameters_set_after_the_fit_do_not_change_what_it_was(family, strategy, tmp_path):
    model = build(family, strategy).fit(make_table())
    known = MissingCompletelyAtRandom(dict.fromkeys(SCHEMA.nullable, 0.9))
    expected = model.ground_truth_guarantee(known)
    other = next(name for name in family.strategies if name != strategy)
    for name in family.strategies:
        model.set_params(missing=name, epsilon=9.0)
        assert model.ground_truth_guarantee(known) == expected
    model.set_params(missing=other).save(tmp_path / "m.json")
    again = type(model).load(tmp_path / "m.json")
    assert (again.missing, again.epsilon) == (strategy, 1.0)
    assert again.ground_truth_guarantee(known) == expected


def test_synthetic_rows_do_not_reuse_the_noise(family, strategy, monkeypatch):
    streams = []
    monkeypatch.setattr(
        family.build,
        "_sample",
        lambda self, n, missing_values, rng: streams.append(rng.random(8).tolist()) or {},
    )
    monkeypatch.setattr("missdp.synth.base.Table.from_codes", lambda *_, **__: make_table(3))
    model = build(family, strategy, random_state=5).fit(make_table())
    noise = np.random.default_rng(5).random(10_000)
    for seed in (None, 5):
        model.sample(3, random_state=seed)
        assert not np.isin(streams[-1], noise).any()


def test_columns_may_have_any_name(family, strategy):
    names = ("schema", "counts")
    schema = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in names))
    frame = pd.DataFrame({n: ["x", None, "y"] * 40 for n in names})
    assert build(family, strategy).fit(frame, schema=schema).sample(3).shape == (3, 2)


def test_a_source_and_its_schema_must_agree(family, strategy):
    schema = Schema((Categorical(name="x", levels=("a", "b")),))
    with pytest.raises(DataError, match="another schema"):
        build(family, strategy).fit(MemorySource(make_table()), schema=schema)


def test_save_and_load(family, strategy, tmp_path):
    model = build(family, strategy).fit(make_table())
    path = tmp_path / "model.json"
    model.save(path)
    again = type(model).load(path)
    assert again.guarantee_ == model.guarantee_
    assert again.schema_ == model.schema_
    pd.testing.assert_frame_equal(
        again.sample(50, random_state=1), model.sample(50, random_state=1)
    )
    json.loads(path.read_text())
    with pytest.raises(OutputError):
        model.save(tmp_path / "nowhere" / "model.json")
    document = json.loads(path.read_text()) | {"format": 1}  # which has no checksum
    for broken in (
        {},
        document | {"released": {}},
        document | {"released": None},
        document | {"parameters": {"colour": 1}},
        document | {"parameters": None},
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(DataError, match="not a missdp model"):
            type(model).load(path)


def test_files_with_the_old_names_of_strategies_are_read(family, strategy, tmp_path):
    old = {"observed": "adaptive", "joint": "auto"}.get(strategy)
    if old is None:
        return
    model = build(family, strategy).fit(make_table())
    path = tmp_path / "model.json"
    model.save(path)
    document = json.loads(path.read_text())
    document["parameters"]["missing"] = old
    document["format"] = 1
    path.write_text(json.dumps(document))
    again = type(model).load(path)
    assert again.missing == strategy
    assert again.sample(20, random_state=1).equals(model.sample(20, random_state=1))
    known = MissingCompletelyAtRandom(dict.fromkeys(SCHEMA.nullable, 0.9))
    assert again.ground_truth_guarantee(known) == model.ground_truth_guarantee(known)
    with pytest.raises(ParameterError, match=strategy):  # no alias
        build(family, old).fit(make_table())


def test_the_default_is_the_first_strategy_that_a_family_lists(family, strategy):
    assert family.build(epsilon=1.0, delta=1e-6).missing == family.build.strategies[0] == "joint"


def test_gates_are_those_of_the_strategy(family, strategy):
    """Whatever reads the counts of a clique says which attributes a row must have observed."""
    model = build(family, strategy, n_rows=400).fit(make_table())
    found = [frozenset(e.gate or ()) for e in releases(model.guarantee_.events)]
    every = frozenset(SCHEMA.nullable)
    if strategy == "joint":
        assert set(found) == {frozenset()}
    elif strategy == "complete-rows":
        assert set(found) == {every}
    elif strategy == "impute-first":
        assert set(found[:3]) == {frozenset({name}) for name in every}
        assert set(found[3:]) == {frozenset()}
    else:
        for event in releases(model.guarantee_.events):
            names = set(event.label.removeprefix("marginal ").split(" x "))
            assert frozenset(event.gate or ()) == (every & names)


def test_repeatable_only_with_a_seed(family, strategy):
    one, two = (build(family, strategy).fit(make_table()).sample(200) for _ in range(2))
    pd.testing.assert_frame_equal(one, two)
    secure = [build(family, strategy, random_state=None).fit(make_table()) for _ in range(2)]
    assert not secure[0].sample(200).equals(secure[1].sample(200))


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


def test_one_column(family, strategy):
    schema = Schema((Categorical(name="x", levels=("a", "b"), nullable=True),))
    frame = pd.DataFrame({"x": ["a"] * 300 + ["b"] * 100 + [None] * 100})
    share = build(family, strategy, epsilon=5.0).fit(frame, schema=schema).sample(1000)
    assert abs((share["x"] == "a").mean() - 0.75) < 0.1


def test_a_huge_domain_is_handled_or_refused(family, strategy):
    levels = tuple(f"l{i}" for i in range(3000))
    names = ("x", "y", "z")
    schema = Schema(tuple(Categorical(name=n, levels=levels, nullable=True) for n in names))
    frame = pd.DataFrame({n: ["l7", "l8", None] * 20 for n in names})
    try:
        out = build(family, strategy).fit(frame, schema=schema).sample(10)
    except MissDPError:
        return
    assert out.shape == (10, 3)


def test_progress_shows_nothing_private(family, strategy):
    seen = {}
    for n in (300, 900):
        calls = []
        build(
            family,
            strategy,
            n_rows=500,
            progress=lambda stage, done, calls=calls: calls.append((stage, done)),
        ).fit(make_table(n))
        seen[n] = calls
    for stage, done in seen[300] + seen[900]:
        assert not any(ch.isdigit() for ch in stage)
        assert 0 <= done <= 1
    assert {stage for stage, _ in seen[300]} == {stage for stage, _ in seen[900]}
