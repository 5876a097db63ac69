"""Commands with files of statistics packages: draft, complete, synthesize, and read again there."""

import json
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

PRIVBAYES = ("--method", "privbayes", "--epsilon", 1, "--delta", 0, "--seed", 1)


@pytest.fixture
def survey(tmp_path, monkeypatch):
    """A folder with a file of SPSS and one of Stata, as their users have them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"sex": rng.choice([1.0, 2.0], 400), "age": rng.integers(18, 90, 400) * 1.0}
    )
    frame.loc[::7, "sex"] = -7
    options = {"column_labels": {"sex": "Sex of the person"}, "variable_format": {"age": "F3.0"}}
    labels = {"sex": {1: "woman", 2: "man", -7: "Refused"}}
    pyreadstat.write_sav(
        frame, "rows.sav", missing_ranges={"sex": [-7]}, variable_value_labels=labels, **options
    )
    stata = frame.astype({"sex": object}).replace({"sex": {-7.0: "r"}})
    labels = {"sex": {1: "woman", 2: "man", "r": "Refused"}}
    del options["variable_format"]
    pyreadstat.write_dta(
        stata,
        "rows.dta",
        missing_user_values={"sex": ["r"]},
        variable_value_labels=labels,
        **options,
    )
    return tmp_path


def complete(draft):
    """Write the schema that a person makes of a draft."""
    age = replace(draft["age"], lower=18, upper=99, bins=5)
    Schema((draft["sex"], age)).declare_public().to_toml("s.toml")


@pytest.mark.parametrize("suffix", [".sav", ".dta"])
def test_a_file_comes_back_as_it_was_with_labels_and_codes(suffix, survey, run):
    assert run("schema", "draft", f"rows{suffix}", "-o", "draft.toml")[0] == 0
    draft = Schema.from_toml("draft.toml")
    assert draft["sex"].levels == (1, 2)
    assert draft["sex"].refused == ((".r",) if suffix == ".dta" else (-7,))
    assert {"levels", "label", "labels", "refused"} <= {*draft["sex"].undeclared}
    complete(draft)
    code, _, err = run(
        "synthesize", f"rows{suffix}", "--schema", "s.toml", "-o", f"out{suffix}", *PRIVBAYES,
        "--keep-holes",
    )  # fmt: skip
    assert code == 0, err
    read = getattr(pyreadstat, f"read_{suffix[1:]}")
    (frame, about), (true, was) = (read(f"{n}{suffix}", user_missing=True) for n in ("out", "rows"))
    assert about.column_names_to_labels["sex"] == was.column_names_to_labels["sex"]
    assert about.variable_value_labels == was.variable_value_labels
    assert about.missing_ranges == was.missing_ranges
    assert about.missing_user_values == was.missing_user_values
    assert about.readstat_variable_types == was.readstat_variable_types
    assert set(frame["sex"].dropna()) == set(true["sex"])  # noise leaves some plainly missing
    code, _, err = run(
        "sample", "out.model.json", "-o", "again.csv", "--rows", 99, "--values", "labels"
    )
    assert code == 0, err
    assert set(pd.read_csv("again.csv")["sex"]) == {"woman", "man"}


def test_names_that_a_file_cannot_hold_are_refused_before_a_charge(survey, run):
    draft = draft_schema("rows.sav").declare_public()
    Schema((draft["sex"], replace(draft["age"], name="age now"))).to_toml("s.toml")
    code, _, err = run("synthesize", "rows.sav", "--schema", "s.toml", "-o", "x.sav", *PRIVBAYES)
    assert code != 0
    assert "do not fit this kind of file" in err
    assert not list(survey.glob("x*"))


@pytest.mark.parametrize("suffix", [".sav", ".dta", ".xpt", ".xlsx", ".parquet", ".feather"])
def test_every_file_that_can_say_what_it_is_says_so(suffix, survey, run):
    complete(draft_schema("rows.sav"))
    given = ("synthesize", "rows.sav", "--schema", "s.toml", "-o", f"out{suffix}", *PRIVBAYES)
    assert run(*given)[0] == 0
    release = json.loads(Path("out.release.json").read_text())["release"]
    said, name = f"Synthetic data, release {release}", f"more{suffix}"
    drawn = json.loads(run("sample", "out.model.json", "-o", name, "--json")[1])
    assert (drawn["release"], drawn["synthetic"]) == (release, True)
    for path in (f"out{suffix}", name):
        if suffix in (".parquet", ".feather"):
            kind = (pyarrow.dataset.dataset(path, format=suffix[1:])).schema
            assert kind.metadata[b"missdp.synthetic"] == b"yes"
            assert kind.metadata[b"missdp.release"].decode() == release
            assert b"differentially private" in kind.metadata[b"missdp.guarantee"]
        elif suffix == ".xlsx":
            with zipfile.ZipFile(path) as book:
                text = book.read("docProps/core.xml").decode()
            assert said in text
            assert "differentially private" in text
        else:
            reader = {".sav": "sav", ".dta": "dta", ".xpt": "xport"}[suffix]
            label = getattr(pyreadstat, f"read_{reader}")(path)[1].file_label
            assert label == (said if suffix != ".xpt" else "Synthetic data")
