"""Conditions of a guarantee about refusals, and about bins and levels of other releases."""

import duckdb
import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Filter, Numeric, OpenCategorical, Schema, Table
from missdp.cli.main import main
from missdp.conditions import BinsFromRelease, LevelsFromRelease, RefusalsNotPrivate
from missdp.errors import DataError
from missdp.schema import Unit
from missdp.schema.binning import BinSource
from missdp.statistics import ImputedStatistics
from missdp.table import Rows
from missdp.table.rows import may_refuse

LENIENT = Schema((Categorical(name="sex", levels=("f", "m"), nullable=True, outside="missing"),))
ROWS = pd.DataFrame({"sex": ["f", "m"] * 200, "person": np.arange(400) // 2})


def kinds(guarantee):
    return {type(condition) for condition in guarantee.conditions}


def fitted(data, schema, **options):
    return AllPairs(epsilon=1.0, random_state=0, **options).fit(data, schema=schema)


def test_rows_that_a_database_reads_may_be_refused():
    relation = duckdb.sql("SELECT 'f' AS sex FROM range(200)")
    assert RefusalsNotPrivate in kinds(fitted(relation, LENIENT).guarantee_)
    assert RefusalsNotPrivate in kinds(fitted(Rows.of(relation), LENIENT).guarantee_)
    assert RefusalsNotPrivate not in kinds(fitted(ROWS[["sex"]], LENIENT).guarantee_)
    assert not may_refuse("rows.parquet")


@pytest.mark.parametrize(("if_missing", "stated"), [("refuse", True), ("drop", False)])
def test_a_missing_identifier_that_is_refused_is_stated(if_missing, stated):
    schema = Schema(LENIENT.attributes, unit=Unit(column="person", if_missing=if_missing))
    assert (RefusalsNotPrivate in kinds(fitted(ROWS, schema).guarantee_)) is stated


def test_statistics_state_bins_and_levels_of_other_releases():
    schema = Schema((Numeric(name="age", lower=0, upper=100), OpenCategorical(name="ward")))
    rows = pd.DataFrame({"age": np.arange(3000) % 100, "ward": ["a", "b", "c"] * 1000})
    model = fitted(rows, schema)
    facts = model.schema_
    answer = ImputedStatistics(Table.read(rows, facts), None, budget=Filter(1.0)).histogram(
        "ward", epsilon=1.0
    )
    assert {BinsFromRelease, LevelsFromRelease} <= kinds(answer.guarantee)
    # Bins that are said to be declared are other bins, even with the same edges.
    bins = {name: found.cells for name, found in model.bins_.items()}
    assert all(found.source is BinSource.DECLARED for found in bins.values())
    with pytest.raises(DataError, match="another schema"):
        fitted(Table.read(rows, model.fitted_.unbinned.with_bins(bins)), facts)


def test_a_cell_that_no_question_reads_may_make_query_refuse(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sex = Categorical(name="sex", levels=("f", "m"), outside="other", other="m")  # refuses no cell
    Schema((sex, Categorical(name="works", levels=("n", "y")))).to_toml("facts.toml")
    rows = pd.DataFrame({"sex": ["f", "m"] * 200, "works": ["n", "y"] * 200})
    rows.to_parquet("rows.parquet")
    ask = ["query", "--schema", "facts.toml", "--epsilon", "2", "--json", "histogram(sex)"]
    assert main([ask[0], "rows.parquet", *ask[1:]]) == 0
    assert "RefusalsNotPrivate" in capsys.readouterr().out


def test_a_refusal_after_the_charge_says_that_it_is_spent(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Schema((Categorical(name="sex", levels=("f", "m")),)).to_toml("facts.toml")
    ROWS[["sex"]].replace("m", "x").to_parquet("rows.parquet")
    ledger = ["--ledger", "sqlite:///l.db", "--account", "rows"]
    assert main(["ledger", "create", *ledger, "--epsilon", "9", "--delta", "1e-6"]) == 0
    ask = ["rows.parquet", "count()", "--schema", "facts.toml", "--epsilon", "1", *ledger]
    assert main(["query", *ask]) == 3
    assert "epsilon = 1 counts as charged" in capsys.readouterr().err
    assert main(["query", "rows.parquet", "count()", "--schema", "no.toml", "--epsilon", "1"]) == 3
    assert "counts as charged" not in capsys.readouterr().err


def test_a_project_file_that_others_may_write_is_refused(tmp_path, capsys, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    place = tmp_path / "missdp.toml"
    place.write_text('account = "a"\n')
    place.chmod(0o666)
    assert main(["ledger", "show", "--ledger", "sqlite:///l.db"]) == 2
    assert "other users may write it" in capsys.readouterr().err
    place.chmod(0o644)
    main(["ledger", "show", "--ledger", "sqlite:///l.db"])
    assert "other users may write it" not in capsys.readouterr().err
