"""Commands that protect units, and those that refuse to."""

import contextlib
import json
import sqlite3

import duckdb
import numpy as np
import pandas as pd
import pytest

from missdp import Guarantee

SCHEMA = """unit = "person"
max_rows = 3

[[attribute]]
name = "sex"
kind = "categorical"
levels = ["f", "m"]

[[attribute]]
name = "age"
kind = "numeric"
lower = 0
upper = 100
bins = 4
"""


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "person": rng.integers(0, 80, 400),
            "sex": rng.choice(["f", "m"], 400),
            "age": rng.integers(0, 100, 400),
        }
    )
    frame.to_csv(folder / "visits.csv", index=False)
    (folder / "unit.toml").write_text(SCHEMA)
    (folder / "rows.toml").write_text(SCHEMA.split("\n", 2)[2])
    return folder


def synthesize(visits, schema, output, *more):
    data = (visits / "visits.csv", "--schema", visits / schema, "-o", output)
    return ("synthesize", *data, "--epsilon", 1, "--json", *more)


@pytest.mark.parametrize(
    ("schema", "more", "most"),
    [
        ("unit.toml", (), 3),
        ("unit.toml", ("--max-rows", 2), 2),
        ("rows.toml", ("--unit", "person"), 1),
        ("rows.toml", ("--unit", "person", "--max-rows", 4), 4),
    ],
)
def test_synthesize_protects_the_unit_that_is_declared(visits, ok, tmp_path, schema, more, most):
    found = json.loads(ok(*synthesize(visits, schema, tmp_path / "out.csv", *more)))
    guarantee = Guarantee.from_dict(found["guarantee"])
    assert (guarantee.unit, guarantee.max_rows, guarantee.epsilon) == ("person", most, 1.0)
    assert list(pd.read_csv(tmp_path / "out.csv").columns) == ["sex", "age"]


def test_databases_and_queries_are_read_by_unit(visits, ok, tmp_path):
    frame = pd.read_csv(visits / "visits.csv")
    with duckdb.connect(tmp_path / "v.duckdb") as made:
        made.from_df(frame).create("visits")
    with contextlib.closing(sqlite3.connect(tmp_path / "v.db")) as made:
        frame.to_sql("visits", made, index=False)
    for place in (tmp_path / "v.duckdb", f"sqlite:///{tmp_path}/v.db"):
        for asked in (("--table", "visits"), ("--select", "SELECT * FROM visits ORDER BY age")):
            output = tmp_path / "out.csv"
            more = ("--schema", visits / "unit.toml", "-o", output, "--epsilon", 1, "--json")
            found = json.loads(ok("synthesize", place, *asked, *more, "--overwrite"))
            assert Guarantee.from_dict(found["guarantee"]).max_rows == 3
            assert list(pd.read_csv(output).columns) == ["sex", "age"]


def test_a_unit_that_is_not_known_is_refused(visits, fails, tmp_path):
    output = tmp_path / "out.csv"
    fails(2, "--max-rows is for --unit", *synthesize(visits, "rows.toml", output, "--max-rows", 3))
    another = synthesize(visits, "unit.toml", output, "--unit", "house")
    fails(2, "declares another unit: 'person'", *another)
    assert not list(tmp_path.iterdir())


def test_commands_that_protect_rows_say_so(visits, run, tmp_path):
    rows, schema = visits / "visits.csv", visits / "unit.toml"
    ask = ("--impute", "age", "--match", "sex", "--mean", "age", "--epsilon", 1)
    code, _, said = run("query", rows, "--schema", schema, *ask)
    assert code not in (0, 1)
    assert "a statistic takes each row by itself" in said
    simulate = ("simulate", rows, "--schema", schema, "-o", tmp_path / "out.csv", "--rate", 0.1)
    code, _, said = run(*simulate)
    assert code not in (0, 1)
    assert not list(tmp_path.iterdir())


def test_a_ledger_adds_up_releases_of_one_unit_only(visits, ok, run, tmp_path):
    ledger = f"sqlite:///{tmp_path}/budget.db"
    for name, more in (("rows", ()), ("persons", ("--unit", "person"))):
        ok("budget", "create", name, "--budget", ledger, "--epsilon", 4, "--delta", 1e-5, *more)
    charged = ("--budget", ledger, "--table")
    code, _, said = run(*synthesize(visits, "unit.toml", tmp_path / "a.csv", *charged, "rows"))
    assert (code, "protects each 'row'" in said) == (2, True), said
    output = tmp_path / "b.csv"
    found = json.loads(ok(*synthesize(visits, "unit.toml", output, *charged, "persons")))
    assert Guarantee.from_dict(found["guarantee"]).unit == "person"
    code, _, said = run(*synthesize(visits, "rows.toml", tmp_path / "c.csv", *charged, "persons"))
    assert (code, "protects each 'person'" in said) == (2, True), said


def test_a_curator_and_a_plan_know_the_unit(visits, ok, tmp_path):
    ok(*synthesize(visits, "unit.toml", tmp_path / "out.csv"))
    beside = json.loads(
        ok("evaluate", visits / "visits.csv", tmp_path / "out.csv", "--schema",
           visits / "unit.toml", "--json")
    )  # fmt: skip
    assert beside["curator_only"]
    pytest.importorskip("jinja2")
    (tmp_path / "own").mkdir()
    page = tmp_path / "own" / "page.html"
    private = ("--private", visits / "visits.csv", "-o", page)
    ok("report", tmp_path / "out.model.json", *private, "--control", visits / "visits.csv")
    assert "Adding all rows of one person to the table" in page.read_text()
    planned = json.loads(ok("plan", visits / "unit.toml", "--rows", 240, "--epsilons", 1, "--json"))
    assert planned
