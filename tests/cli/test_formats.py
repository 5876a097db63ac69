"""Commands with files of statistics packages, read again there, and with rows on Spark."""

import json
import os
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset
import pyreadstat
import pytest

from missdp import Schema
from missdp.table import draft_schema
from missdp.table.written import write_blocks
from missdp.testing import SCHEMA, example_table

PRIVBAYES = "--method privbayes --epsilon 1 --delta 0 --seed 1"


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """A folder with a file of SPSS and one of Stata, as their users have them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    sex, age = rng.choice([1.0, 2.0], 400), rng.integers(18, 90, 400) * 1.0
    frame = pd.DataFrame({"sex": sex, "age": age})
    frame.loc[::7, "sex"] = -7
    stata = frame.astype({"sex": object}).replace({"sex": {-7.0: "r"}})
    for write, name, rows, code, more in (
        (pyreadstat.write_sav, "rows.sav", frame, -7, {"variable_format": {"age": "F3.0"}}),
        (pyreadstat.write_dta, "rows.dta", stata, "r", {}),
    ):
        more["missing_ranges" if code == -7 else "missing_user_values"] = {"sex": [code]}
        labels = {"sex": {1: "woman", 2: "man", code: "Refused"}}
        about = {"column_labels": {"sex": "Sex of the person"}, "variable_value_labels": labels}
        write(rows, name, **about, **more)
    return tmp_path


def complete(draft):
    """Write the schema that a person makes of a draft."""
    age = replace(draft["age"], lower=18, upper=99, bins=5)
    Schema((draft["sex"], age)).declare_public().to_toml("s.toml")


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_a_file_comes_back_as_it_was_with_labels_and_codes(suffix, survey, ok):
    ok(f"schema init rows{suffix} -o draft.toml")
    draft = Schema.from_toml("draft.toml")
    assert draft["sex"].levels == (1, 2)
    assert draft["sex"].refused == ((".r",) if suffix == ".dta" else (-7,))
    assert {"levels", "label", "labels", "refused"} <= {*draft["sex"].undeclared}
    complete(draft)
    ok(f"synthesize rows{suffix} --schema s.toml -o out{suffix} {PRIVBAYES} --keep-missing")
    read = getattr(pyreadstat, f"read_{suffix[1:]}")
    (frame, about), (true, was) = (read(f"{n}{suffix}", user_missing=True) for n in ("out", "rows"))
    assert about.column_names_to_labels["sex"] == was.column_names_to_labels["sex"]
    for fact in (
        *("variable_value_labels", "missing_ranges", "missing_user_values"),
        "readstat_variable_types",
    ):
        assert getattr(about, fact) == getattr(was, fact)
    assert set(frame["sex"].dropna()) == set(true["sex"])  # noise leaves some plainly missing
    ok("sample out.model.json -o again.csv --rows 99 --levels-as label")
    assert set(pd.read_csv("again.csv")["sex"]) == {"woman", "man"}


def test_names_that_a_file_cannot_hold_are_refused_before_a_charge(survey, run):
    draft = draft_schema("rows.sav").declare_public()
    Schema((draft["sex"], replace(draft["age"], name="age now"))).to_toml("s.toml")
    code, _, err = run(f"synthesize rows.sav --schema s.toml -o x.sav {PRIVBAYES}")
    assert (code != 0, "do not fit this format" in err) == (True, True)
    assert not list(survey.glob("x*"))


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".xlsx", ".parquet", ".feather"])
def test_every_file_with_metadata_states_synthetic_rows(suffix, survey, ok, told):
    complete(draft_schema("rows.sav"))
    ok(f"synthesize rows.sav --schema s.toml -o out{suffix} {PRIVBAYES}")
    release = json.loads(Path("out.model.json").read_text())["release"]
    said, name = f"Synthetic data, release {release}", f"more{suffix}"
    drawn = told(f"sample out.model.json -o {name}")
    assert (drawn["release"], drawn["synthetic"]) == (release, True)
    for path in (f"out{suffix}", name):
        if suffix in (".parquet", ".feather"):
            metadata = pyarrow.dataset.dataset(path, format=suffix[1:]).schema.metadata
            assert metadata[b"missdp.synthetic"] == b"yes"
            assert metadata[b"missdp.release"].decode() == release
            assert b"differentially private" in metadata[b"missdp.guarantee"]
        elif suffix == ".xlsx":
            with zipfile.ZipFile(path) as book:
                text = book.read("docProps/core.xml").decode()
            assert said in text
            assert "differentially private" in text
        else:
            assert getattr(pyreadstat, f"read_{suffix[1:]}")(path)[1].file_label == said


# --engine spark
of_pandas = pytest.mark.filterwarnings("ignore:.*PySpark:FutureWarning")
SPARK = "--schema schema.toml -o out.json --epsilon 3 --seed 1 --overwrite --engine"


@pytest.fixture
def given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("rows.csv", "rows.parquet"):
        write_blocks([Path(name)], [(0, example_table(SCHEMA, 300).to_arrow())])
    SCHEMA.to_toml("schema.toml")
    return tmp_path


@of_pandas
def test_the_same_release_as_without_spark(spark, given, ok, told):
    rows = []
    for data in ("rows.csv", f"file://{given}/rows.parquet"):
        assert told(f"fit {data} {SPARK} spark")["guarantee"]["epsilon"] <= 3
        ok("sample out.json -o out.csv --seed 1 --overwrite")
        rows.append(Path("out.csv").read_text())
    ok(f"fit rows.csv {SPARK} missdp")
    ok("sample out.json -o out.csv --seed 1 --overwrite")
    assert rows == [Path("out.csv").read_text()] * 2


@of_pandas
def test_errors_of_spark_have_our_texts_and_codes(spark, given, run, fails):
    Path("bad.csv").write_text(Path("rows.csv").read_text() + "SECRET,1,,2,3\n")
    code, _, err = run(f"fit {given}/bad.csv {SPARK} spark")
    assert (code, "as CSV: there is no header line" in err, "SECRET" in err) == (3, True, False)
    assert run(f"fit {given}/absent.csv {SPARK} spark")[0] == 3
    assert run(f"fit rows.csv {SPARK} other")[0] == 2
    fails(2, "in memory", f"fit rows.csv {SPARK} spark --strategy impute-first")


@of_pandas
def test_a_command_starts_a_session_of_its_own_and_says_nothing_of_it(spark, given):
    asked = f"fit rows.parquet {SPARK} spark --json".split()
    command = [sys.executable, "-c", "from missdp.cli.main import run; run()", *asked]
    env = {k: v for k, v in os.environ.items() if k != "PYSPARK_GATEWAY_PORT"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] > 200
    others = [line for line in done.stderr.splitlines() if not line.startswith("missdp: ")]
    assert not [line for line in others if "incubator modules" not in line]
