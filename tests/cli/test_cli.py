"""The command line, run the way a person runs it."""

import hashlib
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import missdp
from missdp import AIM, AllPairs, Categorical, Guarantee, Schema, Table
from missdp.cli.charge import UNRECORDED
from missdp.cli.main import main
from missdp.schema import OpenCategorical

SYNTHESIZE = "synthesize data.csv --schema schema.toml --epsilon 1 -o out.csv --overwrite"
FIT = "fit data.csv --schema schema.toml --epsilon 1 -o m.json --overwrite"
DELTA = "missdp: delta is 1e-06, meant for up to 10,000 rows. "
DELTA += "For more rows, set --delta or --public-rows\n"


def read(data, schema="schema.toml"):
    return Table.read(data, Schema.from_toml(schema))


@pytest.mark.long
def test_synthesize_prints_guarantee(folder, run, ok, told, without_noise_line):
    code, out, err = run(SYNTHESIZE)
    assert (code, without_noise_line(err)) == (0, f"{DELTA}{UNRECORDED}\n")
    synthetic = read("out.csv")
    assert not synthetic.incomplete_rows().any()
    for part in ("method: all-pairs", "(1, 1e-06)-differentially private", str(len(synthetic))):
        assert part in out
    document = told(f"{SYNTHESIZE} --rows 7")
    stored = Guarantee.from_dict(told("guarantee out.model.json")["guarantee"])
    assert (document["rows"], len(read("out.csv"))) == (7, 7)
    assert Guarantee.from_dict(document["guarantee"]) == stored
    assert missdp.load("out.model.json").guarantee_ == stored
    assert told("sample out.model.json -o more.csv --rows 9")["rows"] == len(read("more.csv")) == 9
    ok("sample out.model.json -o h.csv --rows 500 --keep-missing")
    assert read("h.csv").incomplete_rows().any()
    out = ok(f"{SYNTHESIZE} --delta 0")
    assert "method: aim, since delta is 0" in out
    assert "1-differentially private (pure)" in out
    assert run("--version") == (0, f"missdp {missdp.__version__}\n", "")


@pytest.fixture
def several(folder, ok):
    """A folder with a model that varies."""
    ok(f"{FIT} --method aim")
    return folder


def test_several_tables_are_drawn_as_from_python(several, ok, told):
    before, model = set(os.listdir(several)), missdp.load("m.json")
    ask = "sample m.json -o t.parquet --copies 3 --rows 40 --seed 5 --keep-missing"
    document = told(ask, quiet=True)
    names = [f"t-{k}.parquet" for k in (1, 2, 3)]
    assert {*os.listdir(several)} - before == {*names, *(f"{n}.synthetic.json" for n in names)}
    assert (document["output"], document["rows"]) == (names, 40)
    drawn = model.sample(40, multiple=3, random_state=5, missing_values="keep")
    for name, frame in zip(names, drawn, strict=True):
        label = json.loads(Path(f"{name}.synthetic.json").read_text())
        assert label.pop("sha256") == hashlib.sha256(Path(name).read_bytes()).hexdigest()
        promised = model.guarantee_.in_words()
        release = document["release"]
        assert label == {"synthetic": True, "release": release, "guarantee": promised}
        written, expected = read(name), read(frame)
        for column in written.schema.names:
            assert written.codes(column).tolist() == expected.codes(column).tolist()
    out = ok("sample m.json -o n.csv --copies 2")
    assert f"Wrote n-1.csv, n-2.csv: {model.n_rows_} synthetic rows each." in out
    # A text file cannot state that it is synthetic.
    for name in ("n.csv", "synthetic.csv", "n.parquet"):
        said = ok(f"sample m.json -o {name} --rows 1 --overwrite")
        assert ("Tip: include 'synthetic' in the file name" in said) == (name == "n.csv")


def test_tables_of_two_models_do_not_become_one_set(several, fails, ok):
    ask = "sample m.json -o t.csv --rows 9"
    ok(f"{ask} --copies 3")
    before = {path: path.read_bytes() for path in several.glob("t-*")}
    for more in ("3", "2"):
        fails(5, "exists", f"{ask} --copies {more}")
    fails(5, "'t-3.csv' would look like", f"{ask} --copies 2 --overwrite")
    assert {path: path.read_bytes() for path in several.glob("t-*")} == before
    ok(f"{ask} --copies 3 --overwrite")
    ok(ask)  # one table is no set


def test_several_tables_are_written_all_or_none(several, run, monkeypatch, fails):
    Path("t-2.csv").write_text("mine")
    before, resample = set(os.listdir(several)), AIM.family.resample

    def interrupted(fitted, rng):
        yield next(resample(fitted, rng))
        raise KeyboardInterrupt

    monkeypatch.setattr(AIM, "family", replace(AIM.family, resample=interrupted))
    assert run("sample m.json -o t.csv --copies 3 --overwrite")[0] == 130
    assert set(os.listdir(several)) == before
    assert Path("t-2.csv").read_text() == "mine"
    Path("t-1.csv").write_bytes(Path("m.json").read_bytes())
    fails(5, "is an input", "sample t-1.csv -o t.csv --copies 3")


def test_an_unexpected_error_hides_its_text(folder, fails, monkeypatch):
    def explode(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(AllPairs, "fit", explode)
    assert "secret" not in fails(1, "RuntimeError", SYNTHESIZE)
    monkeypatch.setenv("MISSDP_DEBUG", "1")
    with pytest.raises(RuntimeError, match="secret"):
        main(SYNTHESIZE.split())


@pytest.mark.parametrize(("where", "kept"), [("fit", False), ("sample_blocks", True)])
def test_interruption_prints_charges_and_releases(folder, fails, monkeypatch, where, kept):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    if where == "fit":
        monkeypatch.setattr(AllPairs, "family", replace(AllPairs.family, fit=interrupt))
    else:
        monkeypatch.setattr(AllPairs, where, interrupt)
    before = set(os.listdir(folder))
    err = fails(130, "charged", SYNTHESIZE)
    assert "epsilon = 1" in err
    assert ("Nothing was released" in err) == (not kept)
    assert set(os.listdir(folder)) - before == ({"out.model.json"} if kept else set())


def test_draft_refuse_complete_release(folder, ok, run, fails):
    assert "größe" in ok("schema init data.csv -o draft.toml")
    fails(5, "--overwrite", "schema init data.csv -o draft.toml")
    code, checked, _ = run("schema check draft.toml data.csv --json")
    assert (code, json.loads(checked)["undeclared"]["größe"]) == (3, ["levels", "nullable"])
    drafted = SYNTHESIZE.replace("schema.toml", "draft.toml")
    fails(3, "undeclared", drafted)
    assert not Path("out.csv").exists()
    assert "read from the" in ok(f"{FIT.replace('schema.toml', 'draft.toml')} --undeclared accept")


@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar", "self-masking"])
def test_simulate(folder, ok, mechanism):
    asked = f"simulate complete.csv --schema schema.toml --mechanism {mechanism} --rate 0.3"
    for name in ("a.parquet", "b.parquet"):
        ok(f"{asked} --seed 1 --output-schema holes.toml -o {name} --overwrite")
    holes = [read(name, "holes.toml") for name in ("a.parquet", "b.parquet")]
    assert holes[0].to_arrow().equals(holes[1].to_arrow())
    assert holes[0].incomplete_rows().any()


@pytest.mark.long
def test_evaluate(folder, ok, told):
    asked = "evaluate data.csv complete.csv --schema schema.toml"
    assert "CURATOR ONLY" in ok(asked)
    document = told(f"{asked} --f1")
    assert document["curator_only"] is True
    assert set(document) >= {"marginals", "missing", "f1"}


def test_levels_that_a_fit_found_are_those_of_the_saved_model(folder, ok, told, fails):
    rng = np.random.default_rng(0)
    jobs = np.where(rng.random(300) < 0.4, "baker", [f"rare {k}" for k in range(300)])
    pd.DataFrame({"job": jobs, "sex": rng.choice(["f", "m"], 300)}).to_csv("jobs.csv", index=False)
    attributes = OpenCategorical(name="job"), Categorical(name="sex", levels=("f", "m"))
    Schema(attributes).to_toml("jobs.toml")
    asked = "synthesize jobs.csv --schema jobs.toml --epsilon 5 --delta 1e-6 --method mst"
    ok(f"{asked} -o drawn.csv")
    compare = "evaluate jobs.csv drawn.csv --schema"
    fails(3, "saved model as --schema", f"{compare} jobs.toml")
    assert told(f"{compare} drawn.model.json")["marginals"]["1"]["mean"] < 0.2  # "baker", "other"


@pytest.mark.slow  # the README's commands are quick enough to run it once
def test_demo(folder, ok, told, fails):
    document = told("demo")
    share = {row["group"]: row for row in document["comparison"]}["Hispanic respondents"]
    assert share["answered"] == pytest.approx(0.2564, abs=1e-3)
    assert share["complete_rows"] == pytest.approx(0.128, abs=1e-3)
    assert abs(share["missdp"] - share["answered"]) < 0.05
    assert abs(share["dropped_dp"] - share["answered"]) > 0.07
    assert document["seconds"] < 240  # a quarter of a minute, on a machine that does nothing else
    assert len(pd.read_csv("yrbss_synthetic.csv")) == document["rows"]
    out = ok("demo -o again.parquet")
    assert "dropping incomplete rows" in out
    assert "Wrote again_dossier/report.html" in out
    assert b"Youth Risk" in Path("again_dossier/report.html").read_bytes()
    assert json.loads((folder / document["dossier"] / "release.json").read_text())["release"]
    Path("fourth_dossier").mkdir()
    Path("fourth_dossier/notes").touch()
    fails(5, "", "demo -o fourth.csv --overwrite")


@pytest.mark.long
def test_warnings_are_heard_and_in_the_document(folder, run):
    code, out, err = run(f"{FIT} --epsilon 12 --delta 0.5 --public-rows 300 --json")
    first, second = json.loads(out)["warnings"]
    assert (code, first[:13], second[:12]) == (0, "epsilon = 12 ", "delta = 0.5 ")
    warned = f"missdp: warning: {first}\nmissdp: warning: {second}\n"
    assert err == f"{warned}{UNRECORDED}\n"
    for more in ("", "--json"):
        assert run(f"guarantee m.json {more}")[2] == warned
    code, out, err = run(f"{SYNTHESIZE} --epsilon 9 --json")
    assert (json.loads(out)["warnings"], err) == ([], f"{DELTA}{UNRECORDED}\n")


@pytest.mark.long
def test_a_plan_states_the_meaning_of_each_budget_for_one_person(folder, run):
    words = "plan schema.toml --rows 300 --epsilon 1,2 --json"
    for more in ("", " --strategy observed --method mst", " --delta 1e-7"):
        code, out, err = run(words + more)
        assert code == 0, err
        risks = [one["risk_in_words"] for one in json.loads(out)["planned"]]
        assert all("probability" in risk for risk in risks)
        assert risks[0] != risks[1]


def test_mostly_noise_is_said_once_by_run_and_in_document(folder, run):
    rng = np.random.default_rng(0)
    levels, names = [*"abcdefgh"], [f"c{i}" for i in range(8)]
    pd.DataFrame({n: rng.choice(levels, 900) for n in names}).to_csv("noisy.csv", index=False)
    Schema(tuple(Categorical(name=n, levels=tuple(levels)) for n in names)).to_toml("noisy.toml")
    asked = "synthesize noisy.csv --schema noisy.toml --epsilon 1 -o noisy_out.csv --json"
    code, out, err = run(asked)
    (said,) = (w for w in json.loads(out)["warnings"] if "relations between columns" in w)
    assert code == 0
    assert re.match(r"About [\d,]+ effective rows × epsilon: most relations", said)
    assert "or AIM (--method aim)" in said
    assert err.count("most relations between columns are noise") == 1
    err = run(asked.replace("noisy_out", "aim_out") + " --method aim")[2]
    assert "most relations between columns are noise" not in err


@pytest.mark.long
@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize("stated", ["", "--delta 1e-7", "--delta 0", "--public-rows 300"])
def test_delta_notice_depends_on_options_only(folder, run, stated, times):
    head, rows = Path("data.csv").read_text().split("\n", 1)
    Path("data.csv").write_text(head + "\n" + rows * times)
    code, _, err = run(f"{FIT} {stated}")
    assert (code, DELTA in err) == (0, not stated)


def test_delta_notice_is_not_shown_before_an_error(folder, fails):
    Path("data.csv").write_text("größe,agee\nS,5\n")
    assert "delta" not in fails(3, "the schema declares column 'age'", SYNTHESIZE)


COUNT = "query data.csv --schema schema.toml --epsilon 1 --impute age --match größe 'count()'"


@pytest.mark.parametrize("command", [FIT, COUNT], ids=["fit", "query"])
def test_the_same_schema_rests_on_the_same_conditions(folder, ok, told, command):
    for expected in ("PublicDomain", "DataDependentDomain"):
        if expected != "PublicDomain":
            ok("schema init data.csv -o schema.toml --overwrite")
        found = told(f"{command} --undeclared accept")["guarantee"]["conditions"]
        tested = {"RefusalsNotPrivate", "RowFunctionsTested"}
        assert {c["kind"] for c in found} == {expected, *tested}


IMPUTE = "impute data.csv --model m.json -o filled.csv"


@pytest.fixture
def released(folder, ok):
    ok(FIT)
    return folder


def test_impute_fills_cells_and_prints_that_rows_stay_private(released, ok, told):
    out = ok(IMPUTE, quiet=True)
    assert "as private as the rows were" in out
    assert "300" not in out  # how many rows there are is private
    before, after = (read(name) for name in ("data.csv", "filled.csv"))
    assert not after.incomplete_rows().any()
    for name in before.schema.names:
        kept = ~before.mask(name)
        assert (after.codes(name)[kept] == before.codes(name)[kept]).all()
    found = []
    for _ in range(2):
        said = told(f"{IMPUTE} -o f.parquet --seed 1 --overwrite")
        found.append(Path("f.parquet").read_bytes())
    assert (said["output"], said["private"]) == ("f.parquet", True)
    assert Guarantee.from_dict(said["guarantee"]) == missdp.load("m.json").guarantee_
    assert found[0] == found[1]
    assert len(read("f.parquet")) == 300


def test_impute_several_times_or_not_at_all(released, fails, ok, monkeypatch):
    def tables():
        return [Path(f"filled-{k}.csv").read_text() for k in (1, 2, 3)]

    out = ok(f"{IMPUTE} --copies 3 --fill random")
    drawn = tables()
    assert len(set(drawn)) == 3
    assert all(f"filled-{k}.csv" in out for k in (1, 2, 3))
    assert not Path("filled.csv").exists()
    before, written = sorted(os.listdir(released)), []

    class FailsAtTheThird(pyarrow.csv.CSVWriter):
        def write_table(self, table):
            written.append(table)
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            super().write_table(table)

    monkeypatch.setattr("pyarrow.csv.CSVWriter", FailsAtTheThird)
    fails(5, "No space left", f"{IMPUTE} --copies 3 --overwrite")
    assert sorted(os.listdir(released)) == before
    assert tables() == drawn


def test_a_terminal_without_unicode_shows_question_marks(folder, terminal):
    asked = "evaluate complete.csv complete.csv --schema schema.toml --ways 1"
    code, shown = terminal("ascii", asked)
    assert (code, "gr??e" in shown) == (0, True)


def test_of_an_epsilon_before_values_went_missing_both_guarantees_are_said(
    tmp_path, monkeypatch, ok, told
):
    monkeypatch.chdir(tmp_path)
    schema = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=n != "d") for n in "abd"))
    rng = np.random.default_rng(1)
    codes = {n: rng.choice(3 if n != "d" else 2, 500) for n in "abd"}
    Table.from_codes(schema, codes).to_native().to_csv("data.csv", index=False)
    schema.to_toml("schema.toml")
    asked = FIT.replace("--epsilon", "--method privbayes --ground-truth-epsilon")
    asked += " --strategy complete-rows"
    rates = "--assume mcar=a:0.64,b:0.8"  # 0.512 of the rows are complete
    document = told(f"{asked} {rates}")
    truth, whole = document["ground_truth_guarantee"], document["guarantee"]
    assert (truth["protects"], whole["protects"]) == ("ground-truth", "incomplete")
    assert 0.999 < truth["epsilon"] <= 1.0
    assert 1.4 < whole["epsilon"] < 1.6
    again = told(f"guarantee m.json {rates}")["ground_truth"]
    assert 0.999 < again["epsilon"] <= 1.0
    out = ok(f"{asked} --assume bounded=0.512")
    first, second = out.split("For the table with its missing values:")
    assert "before values went missing" in first
    assert "including which of its cells are missing" in second
    stored = json.loads(Path("m.json").read_text())["guarantee"]
    assert stored["protects"] == "incomplete"
    assert 1.4 < stored["epsilon"] < 1.6
