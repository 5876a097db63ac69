"""Commands on a table with a column whose levels are open."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Schema
from missdp.schema import OpenCategorical

FIT = "fit jobs.csv --epsilon 5 --delta 1e-6 --method mst --schema"
QUERY = "query jobs.csv --epsilon 1 --schema"
LEVELS = "The levels of job were found by an earlier fit"


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """A table and its schema: levels of jobs are open, and so are the bins of pay."""
    folder = tmp_path_factory.mktemp("jobs")
    rng = np.random.default_rng(0)
    names = np.where(rng.random(300) < 0.4, "baker", [f"rare {k}" for k in range(300)])
    columns = {"job": names, "sex": rng.choice(["f", "m"], 300), "pay": rng.gamma(2, 9, 300)}
    pd.DataFrame(columns).to_csv(folder / "jobs.csv", index=False)
    sex = Categorical(name="sex", levels=("f", "m"))
    pay = Numeric(name="pay", lower=0, upper=500, outside="clamp")
    Schema((OpenCategorical(name="job"), sex, pay)).to_toml(folder / "jobs.toml")
    return folder


@pytest.fixture
def inside(jobs, monkeypatch):
    monkeypatch.chdir(jobs)
    return jobs


@pytest.fixture
def model(inside, ok):
    if not Path("model.json").exists():
        ok(f"{FIT} jobs.toml -o model.json")
    return "model.json"


def test_query_by_model_states_the_release_of_levels(model, told):
    answer = told(f"{QUERY} {model} \"share(job = 'baker')\"")
    kinds = {one["kind"] for one in answer["guarantee"]["conditions"]}
    assert "LevelsFromRelease" in kinds
    assert 0.1 < answer["value"] < 0.7


def test_query_by_model_states_the_release_of_bins(model, told, ok):
    release = told(f"{FIT} jobs.toml -o again.json --overwrite")["release"]
    out = " ".join(ok(f"{QUERY} again.json 'mean(pay)'").split())
    assert f"The bins of pay were found by release {release}" in out
    assert LEVELS not in out  # the question does not read them


def test_fit_by_model_states_levels_and_bins(model, ok):
    out = " ".join(ok(f"{FIT} {model} -o second.json --overwrite").split())
    assert LEVELS in out
    assert "The bins of pay were found by release" in out


def test_schema_check_reads_a_model(model, ok):
    assert "The data fits." in ok(f"schema check {model} jobs.csv")


def test_query_without_the_open_column_is_answered(inside, ok, fails):
    assert "share" in ok(f"{QUERY} jobs.toml \"share(sex = 'f')\"")
    fails(2, "Declare its levels", f"{QUERY} jobs.toml \"share(job = 'baker')\"")
    fails(3, "or ignore the column", f"{QUERY} jobs.toml 'count() by job'")


def test_model_of_an_account_charges_the_account(inside, run, ok):
    account = "--ledger sqlite:///own.db --account jobs"
    ok(f"ledger create {account} --epsilon 20 --delta 1e-5 --failure 1e-6")
    ok(f"{FIT} jobs.toml -o paid.json {account}")
    question = "\"share(job = 'baker')\""
    code, out, err = run(f"{QUERY} paid.json {question}")
    assert (code != 0, out, "#jobs" in err) == (True, "", True)
    ok(f"{QUERY} paid.json {question} {account} --new-schema")


def test_fit_says_how_many_levels_were_found(inside, ok, told):
    assert "Levels found privately, with their number: job (1)." in ok(
        f"{FIT} jobs.toml -o said.json --overwrite"
    )
    assert told(f"{FIT} jobs.toml -o said.json --overwrite")["levels"] == {"job": ["baker"]}


def test_fit_without_any_level_says_the_remedy(inside, run):
    command = f"{FIT} jobs.toml --epsilon 0.02 -o none.json --overwrite"
    _, out, err = run(command)
    assert "job (0)" in out
    assert "no level of 'job' was found. The column contains only 'other'" in err
    assert "Declare its levels, group them, use a larger epsilon, or ignore the column" in err


@pytest.mark.parametrize("method", ["all-pairs", "mst"])
def test_fit_without_readable_numbers_prints_the_remedy(inside, run, method):
    rows = {"x": ["1,5", "2,5"] * 300, "sex": ["f", "m"] * 300}
    pd.DataFrame(rows).to_csv("comma.csv", index=False)
    x = Numeric(name="x", lower=0, upper=9, nullable=True, outside="missing")
    Schema((x, Categorical(name="sex", levels=("f", "m"), nullable=True))).to_toml("comma.toml")
    fit = f"fit comma.csv --schema comma.toml --epsilon 5 --method {method} -o comma.json"
    err = run(f"{fit} --overwrite")[2]
    assert "of the cells of 'x' are missing" in err
    assert "decimal in [file]" in err
    assert "'sex' are missing" not in err


def test_account_without_failure_prints_the_remedy(inside, fails, ok):
    account = "--ledger sqlite:///plain.db --account plain"
    ok(f"ledger create {account} --epsilon 5 --delta 1e-5")
    says = "open levels require an account with a failure (`missdp ledger create --failure 1e-6`)"
    err = fails(4, says, f"{FIT} jobs.toml -o no.json {account}")
    assert "declare the levels" in err


def test_ledger_create_for_open_levels_requires_failure(inside, fails, ok):
    create = (
        "ledger create --ledger sqlite:///open.db --account open --epsilon 5 --schema jobs.toml"
    )
    fails(2, "--failure 1e-6", f"{create} --delta 1e-5")
    fails(2, "'job', which are open", create)
    ok(f"{create} --delta 1e-5 --failure 1e-6")


def test_marks_are_refused_in_words_of_commands(inside, fails):
    columns = (
        OpenCategorical(name="job", undeclared=("levels",)),
        Categorical(name="sex", levels=("f", "m")),
    )
    Schema(columns, ignore=("pay",)).to_toml("marked.toml")
    said = fails(3, "delete the 'undeclared' marks in the schema", _DRAWN)
    assert "`missdp fit` and --undeclared accept" in said
    assert "--undeclared accept" in fails(3, "", f"{FIT} marked.toml -o no.json")


def test_estimate_unknown_names_and_levels(model, fails):
    for question in ("share(sexx = 'f')", "share(sex = 'f') by sexx", "mean(sexx)"):
        fails(2, "the schema has no attribute 'sexx'", "estimate", model, question)
    fails(2, "not a level of 'sex', which has 'f', 'm'", "estimate", model, "share(sex = 'x')")


_DRAWN = "synthesize jobs.csv --schema marked.toml --epsilon 5 -o drawn.csv"


def test_quiet_fit_prints_only_warnings(inside, run):
    code, out, err = run(f"{FIT} jobs.toml -o quiet.json --overwrite --quiet")
    assert (code, out) == (0, "")
    assert all(line.startswith("missdp: warning: ") for line in err.splitlines())


def test_model_keeps_the_marks_of_its_schema(inside, ok, fails):
    job = OpenCategorical(name="job", undeclared=("max_levels",))
    sex = Categorical(name="sex", levels=("f", "m"), undeclared=("levels",))
    Schema((job, sex), ignore=("pay",)).to_toml("drafted.toml")
    ok(f"{FIT} drafted.toml --undeclared accept -o drafted.json")
    question = "\"share(sex = 'f')\""
    fails(3, "delete the 'undeclared' marks", f"{QUERY} drafted.json {question}")
    assert "WARNING" in ok(f"{QUERY} drafted.json {question} --undeclared accept")


def test_estimate_explains_the_words_of_its_table(model, ok):
    out = ok("estimate", model, "share(sex = 'f')")
    assert "error: the standard error, of privacy noise, sampling of rows" in out
    assert "missing information: the share of missing values" in out
