"""Fits that find levels: their costs, their retained levels, and their errors."""

import contextlib
import math
import sqlite3
from copy import copy
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from missdp import (
    AIM,
    MST,
    AllPairs,
    Categorical,
    Filter,
    Numeric,
    OpenCategorical,
    PrivBayes,
    Schema,
    Table,
    load,
)
from missdp.accounting import (
    ApproximateEvent,
    Cost,
    FilterEvent,
    LevelsFromRelease,
    MissingCompletelyAtRandom,
    epsilon_of,
    flatten,
)
from missdp.engines import sql_rows
from missdp.errors import BudgetExceededError, ParameterError, SchemaError
from missdp.evaluate import marginal_distance
from missdp.governance import Ledger
from missdp.ground_truth import planned_ground_truth
from missdp.schema import NotApplicable, ReleasedCategorical
from missdp.schema.open_categorical import with_max_levels
from missdp.session import SeededNoise, Session
from missdp.session import frequent_values as found_by
from missdp.session.frequent_values import OpenRows
from missdp.sources import open_source
from missdp.synth.family import Request
from missdp.synth.first_parts import first_parts, release_levels
from missdp.synth.split import BudgetPlan, Part
from missdp.table import Rows
from missdp.testing import RecordingNoise, ReplayedNoise
from refusing import refuses

SCHEMA = Schema(
    (
        OpenCategorical(name="illness", nullable=True, missing_codes=("?",), max_levels=40),
        Categorical(name="sex", levels=("f", "m")),
        Numeric(name="age", lower=0, upper=99, integer=True, nullable=True),
    )
)
LEVELS = tuple(f"J{k:02}" for k in range(60))


def rows(n=6000, seed=0, levels=LEVELS):
    rng = np.random.default_rng(seed)
    shares = 1 / np.arange(1, len(levels) + 1) ** 1.3
    frame = pd.DataFrame(
        {
            "illness": rng.choice(levels, n, p=shares / shares.sum()),
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(0, 100, n).astype(float),
        }
    )
    frame.loc[rng.random(n) < 0.1, "illness"] = None
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    return frame


def fit(family=AllPairs, data=None, **more):
    options = {"epsilon": 2.0, "delta": 1e-6, "random_state": 0, **more}
    return family(**options).fit(rows() if data is None else data, schema=SCHEMA)


@pytest.fixture(scope="module")
def fitted():
    return fit()


@pytest.mark.long
@pytest.mark.parametrize("family", [AllPairs, AIM, MST, PrivBayes])
def test_frequent_levels_are_kept_and_all_others_are_one(family, tmp_path):
    model = fit(family, missing="joint" if family is not PrivBayes else "observed")
    *kept, bucket = model.schema_["illness"].levels
    assert bucket == "other"
    assert kept == sorted(kept)
    assert set(LEVELS[:6]) <= set(kept) < set(LEVELS)
    drawn = model.sample(4000, random_state=1)
    assert set(drawn.illness.dropna()) <= {*kept, "other"}
    truth = rows().illness.dropna()
    assert abs((drawn.illness == "other").mean() - (~truth.isin(kept)).mean()) < 0.06
    assert abs((drawn.illness == "J00").mean() - (truth == "J00").mean()) < 0.06
    model.save(tmp_path / "model.json")
    pd.testing.assert_frame_equal(
        load(tmp_path / "model.json").sample(9, random_state=3), model.sample(9, random_state=3)
    )


def test_costs_add_up_and_failures_beside_them(fitted):
    guarantee = fitted.guarantee_
    assert (guarantee.epsilon, guarantee.delta) == (2.0, 1e-6)
    whole, rare = guarantee.events
    assert isinstance(whole, FilterEvent)
    assert isinstance(rare, ApproximateEvent)
    assert (rare.epsilon, rare.delta) == (0.0, pytest.approx(1e-7))
    first = whole.log[0]
    assert first.label == "levels of illness"
    assert first.required is None
    assert epsilon_of(whole.flatten(), 1e-6 - rare.delta) == pytest.approx(2.0, rel=1e-9)
    assert epsilon_of(whole.flatten(), 0.8e-6) > 2.0  # so that more of delta could not be used
    assert epsilon_of(guarantee.events, 1e-6) <= 2.0
    assert epsilon_of(guarantee.events, 0.99e-7) == math.inf  # less than the probability of failure


@pytest.mark.long
def test_failures_of_several_columns_add_up(monkeypatch):
    seen, whole = [], found_by._min_count
    monkeypatch.setattr(found_by, "_min_count", lambda *a: seen.append(a[1]) or whole(*a))
    schema = Schema((*SCHEMA.attributes, OpenCategorical(name="job", nullable=True)))
    data = rows().assign(job=rows(seed=1).illness)
    model = AllPairs(epsilon=2.0, delta=1e-6).fit(data, schema=schema)
    assert model.guarantee_.events[1].delta == pytest.approx(1e-7)
    assert 0 < 2 * max(seen) <= 1e-7
    assert len(model.schema_["job"].levels) > 3


@pytest.mark.long
def test_a_release_that_fails_is_as_rare_as_it_says(monkeypatch):
    """Two columns, and tables of which one has a row more, with values of its own in both."""
    attributes = (SCHEMA["illness"], OpenCategorical(name="job"))
    delta = 0.4
    schema = Schema(attributes)
    found = first_parts(
        Request(AllPairs(epsilon=1.0, bins="equal"), schema, with_max_levels(schema))
    )
    split = BudgetPlan(Cost(privacy_measure="gdp", amount=1.0), (*found, Part("x", 1.0)))
    data = {"illness": ["J00"] * 30 + ["only me"], "job": ["a"] * 30 + ["mine"]}

    def leaks(runs):
        found = 0
        for seed in range(runs):
            budget = Filter(5.0, 1e-3)
            rows = OpenRows(tuple(attributes), Rows.of(data), delta)
            session = Session(rows, budget=budget, noise=SeededNoise(seed))
            levels = release_levels(session, attributes, split, failure=delta / 10)
            found += "only me" in levels["illness"] or "mine" in levels["job"]
        return found / runs

    assert leaks(600) <= delta / 10 + 3 * math.sqrt(0.04 / 600)
    monkeypatch.setattr(found_by, "_min_count", lambda *_: 1)
    assert leaks(40) > 0.4


@pytest.mark.long
def test_what_a_fit_shows_follows_from_what_was_released():
    """Answers of one table are repeated for another, which has other values."""
    with RecordingNoise(0) as kept:
        first = AllPairs(epsilon=2.0, delta=1e-6).fit(rows(400), schema=SCHEMA)
    other = rows(400, seed=5, levels=("x", "y y", "é", "other"))
    with ReplayedNoise(kept, reads=False):
        second = AllPairs(epsilon=2.0, delta=1e-6).fit(other, schema=SCHEMA)
    assert second.schema_ == first.schema_
    pd.testing.assert_frame_equal(
        second.sample(50, random_state=1), first.sample(50, random_state=1)
    )
    assert second.guarantee_ == first.guarantee_
    assert kept.answers[0].event.label == "levels of illness"


def other_source(kind, path):
    """The rows as another kind of source."""
    table = pa.Table.from_pandas(rows(), preserve_index=False)
    if kind == "table":
        return table
    if kind == "stream":
        return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=500))
    if kind == "shuffled":
        return rows().sample(frac=1.0, random_state=3)
    if kind == "database":
        with contextlib.closing(sqlite3.connect(path / "a.db")) as made:
            rows().to_sql("t", made, index=False)
        return sql_rows(f"sqlite:///{path}/a.db", table="t")
    rows().to_csv(path / "a.csv", index=False)
    file = str(path / "a.csv")
    return file if kind == "path" else duckdb.read_csv(file, all_varchar=True)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["path", "table", "stream", "relation", "database", "shuffled"])
def test_open_levels_other_sources_find_equal_levels(kind, fitted, tmp_path):
    data = other_source(kind, tmp_path)
    assert fit(data=data).schema_["illness"] == fitted.schema_["illness"]
    if kind == "database":
        data.close()


@pytest.mark.long
def test_levels_that_were_found_are_a_condition_of_another_fit_and_cost_a_plain_one_nothing(fitted):
    again = AllPairs(epsilon=1.0, delta=1e-6).fit(rows(), schema=fitted.schema_)
    assert LevelsFromRelease(("illness",)) in again.guarantee_.conditions
    assert len(again.guarantee_.events) == 1
    assert again.schema_["illness"] == fitted.schema_["illness"]
    model, plain = copy(fitted), Schema(SCHEMA.attributes[1:])
    for again in (model, AllPairs(epsilon=2.0, delta=1e-6)):  # each has its whole delta
        again.fit(rows()[["sex", "age"]], schema=plain)
        assert again.guarantee_.delta == 1e-6
        assert len(again.guarantee_.events) == 1
    assert model.guarantee_.events[0].capacity == again.guarantee_.events[0].capacity


def test_nothing_is_amplified_for_the_ground_truth(fitted):
    known = MissingCompletelyAtRandom({"illness": 0.9, "age": 0.9})
    assert fitted.ground_truth_guarantee(known).epsilon == 2.0
    planned = planned_ground_truth(AllPairs(epsilon=2.0, delta=1e-6), SCHEMA, known)
    assert (planned.epsilon, planned.delta) == (2.0, 1e-6)


@pytest.mark.long
def test_a_shared_budget_pays_for_failures_beside_the_cap(tmp_path):
    shared = Filter(3.0, 1e-5, failure=1e-6)
    ledger = Ledger(f"sqlite:///{tmp_path}/b.db", who="ada")
    ledger.create("table", epsilon=3.0, delta=1e-6, failure=1.5e-7)
    for budget in (shared, ledger.budget("table")):
        model = fit(data=rows(500), epsilon=1.0, budget=budget)
        cap, rare = budget.events
        assert (rare.epsilon, rare.delta) == (0.0, pytest.approx(1e-7))
        assert flatten(cap) == flatten(model.guarantee_.events[0])
        assert (model.guarantee_.epsilon, model.guarantee_.delta) == (1.0, 1e-6)
    assert (shared.spent.epsilon, shared.spent.delta) == (3.0, 1e-5)
    assert [event.failure for event in shared.spent.events] == [shared.failure]
    assert epsilon_of(shared.events, 0.99e-7) == math.inf
    with refuses(BudgetExceededError, "may release a rare level"):  # .5e-7 is left
        fit(data=rows(500), epsilon=0.1, budget=ledger.budget("table"))
    assert len(ledger.charges("table")) == 1
    ledger.create("pure", epsilon=3.0)
    with refuses(ParameterError, "a ledger budget in the privacy measure 'zcdp', with a delta"):
        fit(data=rows(500), budget=ledger.budget("pure"))


def test_what_cannot_be_paid_or_found_is_refused_before_anything_is_charged():
    for budget, error, told in (
        (Filter(5.0, 1e-5), ParameterError, "failure of at least 1e-07"),
        (Filter(5.0), ParameterError, "failure of at least 1e-07"),
        (Filter(5.0, 1e-5, failure=9e-8), BudgetExceededError, "may release a rare level"),
        (Filter(0.5, 1e-5, failure=1e-6), BudgetExceededError, "smaller epsilon"),
    ):
        with refuses(error, told):
            fit(budget=budget)
        assert budget.events == ()
    closed, few = with_max_levels(SCHEMA), rows(50)
    ruled = Schema(SCHEMA.attributes, (NotApplicable("illness", unless="sex = 'f'"),))
    with refuses(ParameterError, "needs a delta above 0"):
        fit(MST, delta=0.0)
    for data in (Table.read(few, closed), open_source(few, closed)):
        with refuses(SchemaError, "can be read again"):
            fit(data=data)
    with refuses(SchemaError, "a rule names 'illness'"):
        AllPairs(epsilon=1.0).fit(few, schema=ruled)


def test_whatever_reads_levels_refuses_open_ones_by_name(tmp_path):
    path = tmp_path / "rows.csv"
    rows(9).to_csv(path, index=False)
    for read in (
        lambda: Table.read(path, SCHEMA),
        lambda: open_source(duckdb.read_csv(str(path)), SCHEMA).counts([()], rows="observed"),
        lambda: marginal_distance(path, path, schema=SCHEMA),
    ):
        with refuses(SchemaError, "the levels of 'illness' are open"):
            read()


ODD = ["x" * 5000, b"\xff", 3.5, True, "\x00", "a\nb", "né", "ne\u0301", " né "]


@pytest.mark.parametrize("cells", [[None], ["?"], ["other"], [f"v{k}" for k in range(40)], ODD])
def test_whatever_the_cells_are_nothing_is_refused_or_told(cells):
    frame = pd.DataFrame({"illness": pd.Series(cells * (45 // len(cells)), dtype=object)})
    frame["sex"], frame["age"] = "f", 3.0
    model = fit(data=frame)
    assert set(model.schema_["illness"].levels) <= {"other", "né", "3.5", "true"}
    assert "v1" not in f"{model} {model.guarantee_!r}"


@pytest.mark.parametrize(
    ("facts", "cells"),
    [
        ({"missing_codes": ("true",)}, [True] * 300),
        ({"missing_codes": ("true",)}, ["True"] * 300),
        ({"other": "level 0", "max_levels": 2}, ["a", "b", "c"] * 100),
    ],
)
def test_no_cell_that_is_frequent_makes_a_schema_that_is_refused(facts, cells):
    schema = Schema((OpenCategorical(name="illness", nullable=True, **facts), SCHEMA["sex"]))
    assert max(len(a.levels) for a in with_max_levels(schema)) > schema["illness"].max_levels
    frame = pd.DataFrame({"illness": pd.Series(cells, dtype=object), "sex": "f"})
    model = MST(epsilon=5.0, delta=1e-6, random_state=0).fit(frame, schema=schema)
    assert isinstance(model.schema_["illness"], ReleasedCategorical)
    assert "true" not in model.schema_["illness"].levels


def test_labels_of_open_levels_are_of_what_is_known_before():
    facts = {"name": "illness", "other": "7.0"}  # if "7.00" is a value, too, 7 is ambiguous
    assert OpenCategorical(**facts, labels={"7.0": "all others"}).labels
    with pytest.raises(SchemaError, match="a label of '7'"):
        OpenCategorical(**facts, labels={"7": "all others"})


@pytest.mark.parametrize(("family", "levels"), [(AIM, 1), (MST, 3)])
def test_what_is_found_uses_up_no_part_that_was_planned_without_it(family, levels):
    names, rng = [f"c{k}" for k in range(4)], np.random.default_rng(0)
    opened = (OpenCategorical(name=name, nullable=True, max_levels=1000) for name in names)
    schema = Schema((*opened, replace(SCHEMA["sex"], nullable=True)))
    frame = pd.DataFrame({name: rng.choice([*"xyz"[:levels]], 600) for name in names})
    frame["sex"] = rng.choice(["f", "m"], 600)
    model = family(epsilon=3.0, delta=1e-6, missing="observed", random_state=0)
    model.fit(frame, schema=schema)
    assert model.schema_["c0"].size == levels + 1
    known = MissingCompletelyAtRandom(dict.fromkeys(schema.names, 0.5))
    assert model.ground_truth_guarantee(known).epsilon == 3.0
