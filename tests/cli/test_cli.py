"""The command line, run the way a person runs it."""

import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import missdp
from missdp import AIM, AllPairs, Categorical, Guarantee, Schema, Table
from missdp.cli.main import main
from missdp.mechanisms import Door
from missdp.schema import OpenCategorical


def read(data):
    return Table.read(data, Schema.from_toml("schema.toml"))


SYNTHESIZE = ("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", 1, "-o", "out.csv")
SYNTHESIZE += ("--overwrite",)
DELTA = "missdp: delta is 1e-06, meant for up to 10,000 rows; else --delta or --public-rows\n"


def test_synthesize_writes_a_table_and_says_what_it_promises(folder, run):
    code, out, err = run(*SYNTHESIZE)
    assert (code, err) == (0, DELTA)
    synthetic = read("out.csv")
    assert not synthetic.incomplete_rows().any()
    assert "differentially private" in out
    assert str(len(synthetic)) in out


def test_a_saved_model_can_be_sampled_again(folder, run, ok):
    run(*SYNTHESIZE, "--model", "m.json")
    out = ok("sample", "m.json", "-o", "more.csv", "--rows", 9, "--json")
    assert json.loads(out)["rows"] == 9
    assert len(read("more.csv")) == 9
    ok("sample", "m.json", "-o", "h.csv", "--rows", 500, "--keep-holes")
    assert read("h.csv").incomplete_rows().any()


def test_json_and_side_files(folder, run):
    code, out, _ = run(*SYNTHESIZE, "--json", "--rows", 7, "--guarantee", "g.json")
    document = json.loads(out)
    stored = Guarantee.from_json((folder / "g.json").read_text())
    assert (code, document["rows"]) == (0, 7)
    assert Guarantee.from_dict(document["guarantee"]) == stored
    assert missdp.load(folder / "out.model.json").guarantee_ == stored


@pytest.mark.parametrize("suffix", ["parquet"])
def test_several_tables_are_drawn_as_from_python(folder, run, ok, suffix):
    run(*SYNTHESIZE, "--model", "m.json", "--method", "aim")
    before = set(os.listdir(folder))
    ask = ("sample", "m.json", "-o", f"t.{suffix}", "--multiple", 3, "--rows", 40, "--seed", 5)
    out = ok(*ask, "--keep-holes", "--json", quiet=True)
    names = [f"t-{k}.{suffix}" for k in (1, 2, 3)]
    labels = {f"{name}.synthetic.json" for name in names}
    assert set(os.listdir(folder)) - before == {*names} | labels
    document = json.loads(out)
    assert (document["output"], document["rows"]) == (names, 40)
    for name in names:
        label = json.loads(Path(f"{name}.synthetic.json").read_text())
        assert label.pop("sha256") == hashlib.sha256(Path(name).read_bytes()).hexdigest()
        promised = missdp.load("m.json").guarantee_.in_words()
        release = document["release"]
        assert label == {"synthetic": True, "release": release, "guarantee": promised}
    drawn = missdp.load("m.json").sample(40, multiple=3, random_state=5, missing_values="keep")
    for name, frame in zip(names, drawn, strict=True):
        written = read(name)
        expected = read(frame)
        for column in written.schema.names:
            assert written.codes(column).tolist() == expected.codes(column).tolist()
    assert f"Wrote n-1.csv, n-2.csv: {missdp.load('m.json').n_rows_} synthetic rows each." in ok(
        "sample", "m.json", "-o", "n.csv", "--multiple", 2
    )
    for name in ("n.csv", "synthetic.csv", "n.parquet"):  # a text file cannot say what it is
        said = ok("sample", "m.json", "-o", name, "--rows", 1, "--overwrite")
        assert ("Its name does not say that the rows are synthetic" in said) == (name == "n.csv")


def test_tables_of_two_models_do_not_become_one_set(folder, run, ok):
    run(*SYNTHESIZE, "--model", "m.json", "--method", "aim")
    ask = ("sample", "m.json", "-o", "t.csv", "--rows", 9)
    ok(*ask, "--multiple", 3)
    before = {path: path.read_bytes() for path in folder.glob("t-*")}
    for more in ((3,), (2,), (2, "--overwrite")):
        code, _, err = run(*ask, "--multiple", *more)
        assert (code, "'t-3.csv' would seem" in err) == (5, more[-1] == "--overwrite")
        assert {path: path.read_bytes() for path in folder.glob("t-*")} == before
    ok(*ask, "--multiple", 3, "--overwrite")
    assert run(*ask)[0] == 0  # one table is no set


def test_several_tables_are_written_all_or_none(folder, run, monkeypatch, fails):
    run(*SYNTHESIZE, "--model", "m.json", "--method", "aim")
    (folder / "t-2.csv").write_text("mine")
    before = set(os.listdir(folder))
    uncertain = AIM._uncertain

    def interrupted(self, multiple, rng):
        models = uncertain(self, multiple, rng)
        yield next(models)
        raise KeyboardInterrupt

    monkeypatch.setattr(AIM, "_uncertain", interrupted)
    again = ("sample", "m.json", "-o", "t.csv", "--multiple", 3, "--overwrite")
    assert run(*again)[0] == 130
    assert set(os.listdir(folder)) == before
    assert (folder / "t-2.csv").read_text() == "mine"
    (folder / "t-1.csv").write_bytes((folder / "m.json").read_bytes())
    fails(5, "is an input", "sample", "t-1.csv", "-o", "t.csv", "--multiple", 3)


def test_the_method_and_delta_are_said(folder, ok):
    out = ok(*SYNTHESIZE)
    assert "method: all-pairs" in out
    assert "(1, 1e-06)-differentially private" in out
    out = ok(*SYNTHESIZE, "--delta", 0)
    assert "method: aim, since delta is 0" in out
    assert "1-differentially private (pure)" in out
    ok(*SYNTHESIZE, "--method", "privbayes", "--json")


def test_a_guarantee_that_cannot_be_written_is_typed(folder, fails, monkeypatch):
    for step in ("link", "replace"):  # either gives a file its name
        monkeypatch.setattr(f"missdp.files.os.{step}", fail_to_replace)
    err = fails(8, "No space left", *SYNTHESIZE, "--guarantee", "g.json")
    assert "could not be saved" in err
    assert not {"g.json", "out.csv", "out.model.json"} & set(os.listdir(folder))


def fail_to_replace(*_, **__):
    raise OSError(28, "No space left on device")


def test_version(run):
    assert run("--version") == (0, f"missdp {missdp.__version__}\n", "")


def test_an_unexpected_error_hides_its_text(folder, fails, monkeypatch):
    def explode(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(AllPairs, "fit", explode)
    err = fails(1, "RuntimeError", *SYNTHESIZE)
    assert "secret" not in err
    monkeypatch.setenv("MISSDP_DEBUG", "1")
    with pytest.raises(RuntimeError, match="secret"):
        main([str(a) for a in SYNTHESIZE])


@pytest.mark.parametrize(("where", "kept"), [("_fit", False), ("sample_blocks", True)])
def test_interruption_says_what_is_charged_and_what_is_kept(
    folder, fails, monkeypatch, where, kept
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(AllPairs, where, interrupt)
    before = set(os.listdir(folder))
    err = fails(130, "charged", *SYNTHESIZE)
    assert "epsilon = 1" in err
    assert ("Nothing was released" in err) == (not kept)
    left = set(os.listdir(folder)) - before
    assert len(left) == kept
    assert all(re.fullmatch("out-.*.model.json", name) for name in left)


def test_draft_refuse_complete_release(folder, run, ok, fails):
    out = ok("schema", "draft", "data.csv", "-o", "draft.toml")
    assert "größe" in out
    assert run("schema", "draft", "data.csv", "-o", "draft.toml")[0] == 5
    _, out, _ = run("schema", "check", "draft.toml", "data.csv", "--json")
    assert json.loads(out)["undeclared"]["größe"] == ["levels", "nullable"]
    drafted = ("synthesize", "data.csv", "--schema", "draft.toml", "--epsilon", 1, "-o", "out.csv")
    fails(3, "undeclared", *drafted)
    assert not (folder / "out.csv").exists()
    assert "read from the" in ok(*drafted, "--undeclared", "accept")


@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar", "self-masking"])
def test_simulate(folder, ok, mechanism):
    arguments = ("simulate", "complete.csv", "--schema", "schema.toml", "--mechanism", mechanism)
    arguments += ("--rate", 0.3, "--seed", 1, "--output-schema", "holes.toml")
    ok(*arguments, "-o", "a.parquet")
    ok(*arguments, "-o", "b.parquet")
    holes = [Table.read(f, Schema.from_toml("holes.toml")) for f in ("a.parquet", "b.parquet")]
    assert holes[0].to_arrow().equals(holes[1].to_arrow())
    assert holes[0].incomplete_rows().any()


def test_evaluate(folder, run, ok):
    run(*SYNTHESIZE)
    arguments = ("evaluate", "data.csv", "out.csv", "--schema", "schema.toml")
    out = ok(*arguments)
    assert "CURATOR ONLY" in out
    _, out, _ = run(*arguments, "--json", "--f1")
    document = json.loads(out)
    assert document["curator_only"] is True
    assert set(document) >= {"marginals", "missing", "f1"}


def test_levels_that_a_fit_found_are_those_of_the_saved_model(folder, ok, fails):
    rng = np.random.default_rng(0)
    jobs = np.where(rng.random(300) < 0.4, "baker", [f"rare {k}" for k in range(300)])
    pd.DataFrame({"job": jobs, "sex": rng.choice(["f", "m"], 300)}).to_csv("jobs.csv", index=False)
    attributes = OpenCategorical(name="job"), Categorical(name="sex", levels=("f", "m"))
    Schema(attributes).to_toml("jobs.toml")
    run = ("synthesize", "jobs.csv", "--schema", "jobs.toml", "--epsilon", "5", "--delta", "1e-6")
    ok(*run, "-o", "drawn.csv", "--method", "mst")
    compare = ("evaluate", "jobs.csv", "drawn.csv", "--json", "--schema")
    fails(3, "saved model as --schema", *compare, "jobs.toml")
    found = json.loads(ok(*compare, "drawn.model.json"))["marginals"]
    assert found["1"]["mean"] < 0.2  # "baker" and "other"


@pytest.mark.slow  # the README's commands are quick enough to run it once
def test_demo(folder, run, ok):
    document = json.loads(ok("demo", "--json"))
    share = {row["group"]: row for row in document["comparison"]}["Hispanic respondents"]
    assert share["answered"] == pytest.approx(0.2564, abs=1e-3)
    assert share["complete_rows"] == pytest.approx(0.128, abs=1e-3)
    assert abs(share["missdp"] - share["answered"]) < 0.05
    assert abs(share["dropped_dp"] - share["answered"]) > 0.07
    assert document["seconds"] < 240  # a quarter of a minute, on a machine that does nothing else
    assert len(pd.read_csv(folder / "yrbss_synthetic.csv")) == document["rows"]
    _, out, _ = run("demo", "-o", "again.parquet")
    assert "dropping incomplete rows" in out
    assert "Wrote again_dossier/report.html" in out
    assert b"Youth Risk" in (folder / "again_dossier/report.html").read_bytes()
    assert json.loads((folder / document["dossier"] / "release.json").read_text())["release"]
    (folder / "fourth_dossier").mkdir()
    (folder / "fourth_dossier/notes").touch()
    assert run("demo", "-o", "fourth.csv", "--overwrite")[0] == 5


def test_warnings_are_heard_and_in_the_document(folder, run):
    weak = (*SYNTHESIZE, "--epsilon", 12, "--delta", 0.5, "--public-rows", 300, "--json")
    code, out, err = run(*weak)
    assert code == 0
    first, second = json.loads(out)["warnings"]
    assert first.startswith("epsilon = 12 ")
    assert second.startswith("delta = 0.5 ")
    assert err == f"missdp: warning: {first}\nmissdp: warning: {second}\n"
    for command in (("price", "out.model.json"), ("price", "out.model.json", "--json")):
        assert run(*command)[2] == err
    code, out, err = run(*SYNTHESIZE, "--json")
    assert (json.loads(out)["warnings"], err) == ([], DELTA)


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize(
    ("stated", "said"),
    [((), DELTA), (("--delta", 1e-7), ""), (("--delta", 0), ""), (("--public-rows", 10**6), "")],
)
def test_whom_the_default_delta_is_for_is_said_before_any_table_is_read(
    folder, capsys, run, monkeypatch, stated, said, times
):
    head, rows = (folder / "data.csv").read_text().split("\n", 1)
    (folder / "data.csv").write_text(head + "\n" + rows * times)
    heard = []

    def opened(*_, **__):  # what charges, and counts
        heard.append(capsys.readouterr().err)
        raise KeyboardInterrupt

    monkeypatch.setattr(Door, "__init__", opened)
    assert run(*SYNTHESIZE, *stated)[0] == 130
    assert heard == [said]


@pytest.mark.parametrize("command", ["synthesize", "query"])
def test_the_same_schema_rests_on_the_same_conditions(folder, run, ok, command):
    arguments = (*SYNTHESIZE, "--json")
    if command == "query":
        arguments = ("query", *SYNTHESIZE[1:6], "--impute", "age", "--match", "größe", "--count")
    for expected in (["PublicDomain"], ["DataDependentDomain"]):
        if expected != ["PublicDomain"]:
            run("schema", "draft", "data.csv", "-o", "schema.toml", "--force")
        out = ok(*arguments, "--json", "--undeclared", "accept")
        found = [c["kind"] for c in json.loads(out)["guarantee"]["conditions"]]
        assert found == expected


IMPUTE = ("impute", "data.csv", "--schema", "schema.toml", "--model", "m.json", "-o", "filled.csv")


@pytest.fixture
def released(folder, ok):
    ok(*SYNTHESIZE, "--model", "m.json")
    return folder


def test_impute_fills_holes_and_says_that_rows_stay_private(released, ok):
    out = ok(*IMPUTE, quiet=True)
    assert "as private as the rows were" in out
    assert "300" not in out  # how many rows there are is private
    before, after = (read(name) for name in ("data.csv", "filled.csv"))
    assert not after.incomplete_rows().any()
    for name in before.schema.names:
        kept = ~before.mask(name)
        assert (after.codes(name)[kept] == before.codes(name)[kept]).all()


def test_impute_json_seed_and_formats(released, ok):
    found = []
    for _ in range(2):
        said = json.loads(ok(*IMPUTE, "-o", "f.parquet", "--seed", 1, "--json", "--overwrite"))
        found.append((released / "f.parquet").read_bytes())
    assert said["output"] == "f.parquet"
    assert said["private"] is True
    assert Guarantee.from_dict(said["guarantee"]) == missdp.load("m.json").guarantee_
    assert found[0] == found[1]
    assert len(read("f.parquet")) == 300


def test_impute_several_times_or_not_at_all(released, fails, ok, monkeypatch):
    out = ok(*IMPUTE, "--draws", 3, "--filling", "random")
    drawn = [(released / f"filled-{k}.csv").read_text(encoding="utf-8") for k in (1, 2, 3)]
    assert len(set(drawn)) == 3
    assert all(f"filled-{k}.csv" in out for k in (1, 2, 3))
    assert not (released / "filled.csv").exists()
    before = sorted(os.listdir(released))
    written = []

    class FailsAtTheThird(pyarrow.csv.CSVWriter):
        def write_table(self, table):
            written.append(table)
            if len(written) == 3:
                raise OSError(28, "No space left on device")
            super().write_table(table)

    monkeypatch.setattr("pyarrow.csv.CSVWriter", FailsAtTheThird)
    fails(5, "No space left", *IMPUTE, "--draws", 3, "--overwrite")
    assert sorted(os.listdir(released)) == before
    again = [(released / f"filled-{k}.csv").read_text(encoding="utf-8") for k in (1, 2, 3)]
    assert again == drawn


def test_a_terminal_without_unicode_shows_what_it_can(folder, terminal):
    whole = ("complete.csv", "complete.csv", "--schema", "schema.toml")
    code, shown = terminal("ascii", "evaluate", *whole, "--ways", 1)
    assert (code, "gr??e" in shown) == (0, True)


# ``missdp synthesize --ground-truth-epsilon``
TRUTH_SCHEMA = Schema(
    tuple(Categorical(name=n, levels=("x", "y"), nullable=n != "d") for n in "abd")
)


@pytest.fixture
def truth_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    codes = {n: rng.choice(3 if n != "d" else 2, 500) for n in "abd"}
    Table.from_codes(TRUTH_SCHEMA, codes).to_native().to_csv("data.csv", index=False)
    TRUTH_SCHEMA.to_toml("schema.toml")
    return tmp_path


START = (
    "synthesize",
    "data.csv",
    "--schema",
    "schema.toml",
    "-o",
    "out.csv",
    "--method",
    "privbayes",
)
ASKED = (*START, "--missing", "complete-rows", "--ground-truth-epsilon", "1")

RATES = "a=0.64,b=0.8"  # 0.512 of the rows are complete


def test_what_was_asked_leads_and_the_other_is_kept(truth_folder, ok):
    document = json.loads(ok(*ASKED, "--observed", RATES, "--json"))
    truth, whole = document["ground_truth_guarantee"], document["guarantee"]
    assert truth["protects"] == "ground-truth"
    assert 0.999 < truth["epsilon"] <= 1.0
    assert whole["protects"] == "incomplete"
    assert 1.4 < whole["epsilon"] < 1.6
    out = ok("price", "out.model.json", "--ground-truth", "--observed", RATES, "--json")
    assert 0.999 < json.loads(out)["guarantee"]["epsilon"] <= 1.0


def test_in_words(truth_folder, ok):
    out = ok(*ASKED, "--p-max", "0.512", "--guarantee", "g.json")
    first, second = out.split("For the table with its holes:")
    assert "before values went missing" in first
    assert "including which of its cells are missing" in second
    stored = json.loads((truth_folder / "g.json").read_text())
    assert stored["protects"] == "incomplete"
    assert 1.4 < stored["epsilon"] < 1.6
