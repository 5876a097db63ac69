"""The command line, run the way a person runs it."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import missdp
from missdp import AIM, AllPairs, Categorical, Guarantee, Numeric, PrivBayes, Schema, Table
from missdp.cli.main import main
from missdp.mechanisms import Door

SCHEMA = Schema(
    (
        Categorical(name="größe", levels=("S", "L"), nullable=True),
        Numeric(name="age", lower=0, upper=99, integer=True, bins=5, nullable=True),
    )
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_toml("schema.toml")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"größe": rng.choice(["S", "L"], 300), "age": rng.integers(0, 100, 300)})
    frame.to_csv("complete.csv", index=False)
    frame = frame.astype({"age": "Int64"})
    frame.loc[rng.random(300) < 0.2, "größe"] = None
    frame.loc[rng.random(300) < 0.2, "age"] = None
    frame.to_csv("data.csv", index=False)
    return tmp_path


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    out = capsys.readouterr()
    return code, out.out, out.err


SYNTHESIZE = ("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", 1, "-o", "out.csv")
SYNTHESIZE += ("--overwrite",)
DELTA = "missdp: delta is 1e-06, meant for up to 10,000 rows; else --delta or --public-rows\n"


def test_synthesize_writes_a_table_and_says_what_it_promises(folder, capsys):
    code, out, err = run(capsys, *SYNTHESIZE)
    assert (code, err) == (0, DELTA)
    synthetic = Table.read(folder / "out.csv", SCHEMA)
    assert not synthetic.incomplete_rows().any()
    assert "differentially private" in out
    assert str(len(synthetic)) in out


def test_json_and_side_files(folder, capsys):
    code, out, _ = run(
        capsys, *SYNTHESIZE, "--json", "--rows", 7, "--model", "m.json", "--guarantee", "g.json"
    )
    assert code == 0
    document = json.loads(out)
    assert document["rows"] == 7
    stored = Guarantee.from_json((folder / "g.json").read_text())
    assert Guarantee.from_dict(document["guarantee"]) == stored
    assert missdp.load(folder / "m.json").guarantee_ == stored


def test_a_saved_model_can_be_sampled_again(folder, capsys):
    run(capsys, *SYNTHESIZE, "--model", "m.json")
    code, out, _ = run(capsys, "sample", "m.json", "-o", "more.csv", "--rows", 9, "--json")
    assert code == 0
    assert json.loads(out)["rows"] == 9
    assert len(Table.read(folder / "more.csv", SCHEMA)) == 9
    assert run(capsys, "sample", "m.json", "-o", "h.csv", "--rows", 500, "--keep-holes")[0] == 0
    assert Table.read(folder / "h.csv", SCHEMA).incomplete_rows().any()
    for extra, expected in (
        (("schema.toml", "-o", "x.csv"), 3),
        (("m.json", "-o", "m.json"), 5),
        (("m.json", "-o", "no/x.csv"), 5),
        (("m.json", "-o", "x.csv", "--rows", "-1"), 2),
    ):
        code, _, err = run(capsys, "sample", *extra)
        assert code == expected
        assert "unexpected" not in err
    assert not (folder / "x.csv").exists()


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_several_tables_are_drawn_as_from_python(folder, capsys, suffix):
    run(capsys, *SYNTHESIZE, "--model", "m.json", "--method", "aim")
    before = set(os.listdir(folder))
    ask = ("sample", "m.json", "-o", f"t.{suffix}", "--multiple", 3, "--rows", 40, "--seed", 5)
    code, out, err = run(capsys, *ask, "--keep-holes", "--json")
    assert (code, err) == (0, "")
    names = [f"t-{k}.{suffix}" for k in (1, 2, 3)]
    assert set(os.listdir(folder)) - before == {*names}
    document = json.loads(out)
    assert (document["output"], document["rows"]) == (names, 40)
    drawn = missdp.load("m.json").sample(40, multiple=3, random_state=5, missing_values="keep")
    for name, frame in zip(names, drawn, strict=True):
        written = Table.read(folder / name, SCHEMA)
        expected = Table.read(frame, SCHEMA)
        for column in SCHEMA.names:
            assert written.codes(column).tolist() == expected.codes(column).tolist()
    code, out, _ = run(capsys, "sample", "m.json", "-o", "n.csv", "--multiple", 2)
    assert code == 0
    assert f"Wrote n-1.csv, n-2.csv: {missdp.load('m.json').n_rows_} synthetic rows each." in out


def test_several_tables_are_written_all_or_none(folder, capsys, monkeypatch):
    run(capsys, *SYNTHESIZE, "--model", "m.json", "--method", "aim")
    run(capsys, *SYNTHESIZE, "-o", "o.csv", "--model", "bayes.json", "--delta", 0)
    run(capsys, *SYNTHESIZE, "-o", "p.csv", "--model", "pairs.json")
    (folder / "t-2.csv").write_text("mine")
    before = set(os.listdir(folder))
    for model, more, expected in (
        ("m.json", ("--multiple", 1), 2),
        ("m.json", ("--multiple", 1001), 2),
        ("m.json", ("--multiple", 3, "--rows", 10**12), 2),
        ("bayes.json", ("--multiple", 3), 2),
        ("pairs.json", ("--multiple", 3), 2),
    ):
        code, out, err = run(capsys, "sample", model, "-o", "t.csv", *more)
        assert (code, out) == (expected, "")
        assert "--multiple" in err or "--rows must be at most" in err or "multiple" in err
    uncertain = AIM._uncertain

    def interrupted(self, multiple, rng):
        models = uncertain(self, multiple, rng)
        yield next(models)
        raise KeyboardInterrupt

    monkeypatch.setattr(AIM, "_uncertain", interrupted)
    assert run(capsys, "sample", "m.json", "-o", "t.csv", "--multiple", 3)[0] == 130
    assert set(os.listdir(folder)) == before
    assert (folder / "t-2.csv").read_text() == "mine"
    (folder / "t-1.csv").write_bytes((folder / "m.json").read_bytes())
    code, _, err = run(capsys, "sample", "t-1.csv", "-o", "t.csv", "--multiple", 3)
    assert (code, "is an input" in err) == (5, True)


@pytest.mark.parametrize("missing", PrivBayes.strategies)
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_every_strategy(folder, capsys, missing, delta):
    assert run(capsys, *SYNTHESIZE, "--missing", missing, "--delta", delta)[0] == 0


@pytest.mark.parametrize("method", ["aim", "all-pairs", "mst"])
def test_every_family(folder, capsys, method):
    # 3,000 rows: at 300 the noise may hide every hole. Here the share of holes comes out as .2
    # with a standard deviation below .01 (measured): if normal, no hole has probability < 1e-80.
    pd.concat([pd.read_csv("data.csv")] * 10).to_csv("data.csv", index=False)
    code, out, _ = run(capsys, *SYNTHESIZE, "--method", method, "--delta", 1e-6, "--keep-holes")
    assert code == 0
    assert "(1, 1e-06)-differentially private" in out
    assert Table.read(folder / "out.csv", SCHEMA).incomplete_rows().any()
    code, _, err = run(capsys, *SYNTHESIZE, "--method", method, "--delta", 0)
    assert code == 2
    assert "delta" in err


def test_the_method_and_delta_are_said(folder, capsys):
    code, out, _ = run(capsys, *SYNTHESIZE)
    assert code == 0
    assert "method: all-pairs" in out
    assert "(1, 1e-06)-differentially private" in out
    code, out, _ = run(capsys, *SYNTHESIZE, "--delta", 0)
    assert code == 0
    assert "method: privbayes, since delta is 0" in out
    assert "1-differentially private (pure)" in out
    assert run(capsys, *SYNTHESIZE, "--method", "privbayes", "--json")[0] == 0


def test_a_parameter_of_the_method_can_be_set(folder, capsys):
    own = ("--method", "aim", "--set", "rounds=2", "--set", "workload=1")
    assert run(capsys, *SYNTHESIZE, *own)[0] == 0
    assert missdp.load(folder / "out.model.json").rounds == 2
    for bad, says in (("round=2", "no parameter 'round'"), ("rounds=x", "whole number")):
        code, _, err = run(capsys, *SYNTHESIZE, "--method", "aim", "--set", bad)
        assert code == 2
        assert says in err


def test_holes_can_be_kept(folder, capsys):
    assert run(capsys, *SYNTHESIZE, "--keep-holes", "--rows", 500)[0] == 0
    assert Table.read(folder / "out.csv", SCHEMA).incomplete_rows().any()


@pytest.mark.parametrize(
    ("extra", "code", "says"),
    [
        (("--epsilon", 0), 2, "--epsilon must"),
        (("--epsilon", "nan"), 2, "--epsilon must"),
        (("--epsilon", "-1"), 2, "--epsilon must"),
        (("--delta", 1), 2, "--delta must"),
        (("--seed", -1), 2, "--seed must"),
        (("--missing", "guess"), 2, "--missing must be one of"),
        (("--method", "guess"), 2, "privbayes"),
        (("--rows", "-1"), 2, "--rows must"),
        (("--rows", 10**15), 2, "--rows must"),
        (("--public-rows", 10**15), 2, "--rows must"),
        (("--public-rows", "0"), 2, "--public-rows must"),
        (("--missing", "observed", "--keep-holes"), 2, "joint"),
        (("--schema", "none.toml"), 3, "none.toml"),
        (("-o", "nowhere/out.csv"), 5, "folder"),
        (("-o", "out.xlsx"), 5, ".csv"),
        (("--model", "nowhere/m.json"), 5, "folder"),
        (("--colour", 1), 2, "colour"),
    ],
)
def test_bad_input_is_one_line_a_code_and_no_file(folder, capsys, extra, code, says):
    before = sorted(os.listdir(folder))
    found, out, err = run(capsys, *SYNTHESIZE, *extra)
    assert found == code
    assert out == ""
    assert says in err
    assert "Traceback" not in err
    assert "charged" not in err
    assert sorted(os.listdir(folder)) == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("größe,age\nsecret,5\n", "größe"),
        ("größe,age\nS,123456\n", "age"),
        ("größe,age\nS,secret\n", "age"),
        ("größe\nS\n", "age"),
        ("größe,age,extra\nS,5,secret\n", "extra"),
        ("größe,age,age\nS,5,secret\n", "age"),
        ("", "data.csv"),
    ],
)
def test_bad_data_quotes_nothing_private_and_leaves_no_file(folder, capsys, content, says):
    (folder / "data.csv").write_text(content, encoding="utf-8")
    code, out, err = run(capsys, *SYNTHESIZE)
    assert code == 3
    assert out == ""
    assert says in err
    assert "secret" not in err
    assert "123456" not in err
    assert not (folder / "out.csv").exists()


@pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
def test_empty_and_tiny_tables_are_released_like_any_other(folder, capsys):
    for content in ("größe,age\n", "größe,age\nS,5\n", "größe,age\n,\n"):
        (folder / "data.csv").write_text(content, encoding="utf-8")
        assert run(capsys, *SYNTHESIZE, "--rows", 20)[0] == 0
        assert len(Table.read(folder / "out.csv", SCHEMA)) == 20


def test_nothing_is_written_over_an_input_or_another_output(folder, capsys):
    before = {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))}
    simulate = ("simulate", "complete.csv", "--schema", "schema.toml", "--rate", 0.3, "--seed", 1)
    for arguments in (
        (*SYNTHESIZE, "-o", "data.csv"),
        (*SYNTHESIZE, "--model", "schema.toml"),
        (*SYNTHESIZE, "--model", "m.json", "--guarantee", "m.json"),
        (*SYNTHESIZE, "--guarantee", "./out.csv"),
        (*simulate, "-o", "complete.csv"),
        (*simulate, "-o", "x.csv", "--output-schema", "schema.toml"),
        ("schema", "draft", "data.csv", "-o", "data.csv", "--force"),
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 5
        assert "same command" in err
    assert {name: (folder / name).read_bytes() for name in sorted(os.listdir(folder))} == before


def test_a_guarantee_that_cannot_be_written_is_typed(folder, capsys, monkeypatch):
    for step in ("link", "replace"):  # either gives a file its name
        monkeypatch.setattr(f"missdp.files.os.{step}", fail_to_replace)
    code, _, err = run(capsys, *SYNTHESIZE, "--guarantee", "g.json")
    assert code == 8
    assert "No space left" in err
    assert "could not be saved" in err
    assert not {"g.json", "out.csv", "out.model.json"} & set(os.listdir(folder))


def fail_to_replace(*_, **__):
    raise OSError(28, "No space left on device")


def test_version(capsys):
    assert run(capsys, "--version") == (0, f"missdp {missdp.__version__}\n", "")


def test_a_terminal_without_unicode_shows_what_it_can(folder):
    (folder / "data.csv").write_bytes((folder / "complete.csv").read_bytes())
    arguments = ("evaluate", "data.csv", "complete.csv", "--schema", "schema.toml")
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "missdp", *arguments],
        env=ascii_only,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "gr??e" in done.stdout


def test_an_unexpected_error_hides_its_text(folder, capsys, monkeypatch):
    def explode(*_, **__):
        raise RuntimeError("secret")

    monkeypatch.setattr(AllPairs, "fit", explode)
    code, _, err = run(capsys, *SYNTHESIZE)
    assert code == 1
    assert "RuntimeError" in err
    assert "secret" not in err
    monkeypatch.setenv("MISSDP_DEBUG", "1")
    with pytest.raises(RuntimeError, match="secret"):
        main([str(a) for a in SYNTHESIZE])


@pytest.mark.parametrize(("where", "kept"), [("_fit", False), ("sample_blocks", True)])
def test_interruption_says_what_is_charged_and_what_is_kept(
    folder, capsys, monkeypatch, where, kept
):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(AllPairs, where, interrupt)
    before = set(os.listdir(folder))
    code, _, err = run(capsys, *SYNTHESIZE)
    assert code == 130
    assert "charged" in err
    assert "epsilon = 1" in err
    assert ("Nothing was released" in err) == (not kept)
    left = set(os.listdir(folder)) - before
    assert len(left) == kept
    assert all(re.fullmatch("out-.*.model.json", name) for name in left)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of another kind")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGKILL"])
def test_a_stopped_command_leaves_no_half_written_file(folder, name):
    (folder / "slow.py").write_text(SLOW, encoding="utf-8")
    arguments = [str(a) for a in SYNTHESIZE]
    with subprocess.Popen(
        [sys.executable, "slow.py", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"writing\n"
        time.sleep(0.3)  # until it sleeps: what Python cleans up in between may swallow a signal
        process.send_signal(getattr(signal, name))
        err = process.communicate(timeout=60)[1].decode()
    assert "Traceback" not in err
    assert not (folder / "out.csv").exists()
    (kept,) = (path.name for path in folder.glob("out-*.model.json"))
    if name != "SIGKILL":
        assert process.returncode == 128 + getattr(signal, name)
        assert f"missdp sample {kept} -o out.csv" in err
        assert not left_over(folder)
    # The model was paid for and kept; the next run sweeps up after the one that was killed.
    for path in left_over(folder):
        os.utime(folder / path, (0, 0))
    assert main(["sample", kept, "-o", "out.csv"]) == 0
    assert (folder / "out.csv").exists()
    assert not left_over(folder)


def left_over(folder):
    return [name for name in os.listdir(folder) if name.endswith(".tmp")]


SLOW = """
import time
import pyarrow.csv
import missdp.cli.synthesize
from missdp.cli.main import run

def half(sink, schema):
    sink.write(b"half")
    print("writing", flush=True)
    time.sleep(60)

pyarrow.csv.CSVWriter = half
run()
"""


def test_draft_refuse_complete_release(folder, capsys):
    code, out, _ = run(capsys, "schema", "draft", "data.csv", "-o", "draft.toml")
    assert code == 0
    assert "größe" in out
    assert run(capsys, "schema", "draft", "data.csv", "-o", "draft.toml")[0] == 5
    code, out, _ = run(capsys, "schema", "check", "draft.toml", "data.csv", "--json")
    assert json.loads(out)["undeclared"]["größe"] == ["levels", "nullable"]
    drafted = ("synthesize", "data.csv", "--schema", "draft.toml", "--epsilon", 1, "-o", "out.csv")
    code, _, err = run(capsys, *drafted)
    assert code == 3
    assert "undeclared" in err
    assert not (folder / "out.csv").exists()
    code, out, _ = run(capsys, *drafted, "--undeclared", "accept")
    assert code == 0
    assert "read from the" in out


def test_schema_check(folder, capsys):
    code, out, _ = run(capsys, "schema", "check", "schema.toml", "data.csv")
    assert code == 0
    assert "fits" in out
    (folder / "data.csv").write_text("größe,age\nsecret,5\n", encoding="utf-8")
    code, _, err = run(capsys, "schema", "check", "schema.toml", "data.csv")
    assert code == 3
    assert "secret" not in err


@pytest.mark.parametrize("mechanism", ["mcar", "mar", "mnar", "self-masking"])
def test_simulate(folder, capsys, mechanism):
    arguments = ("simulate", "complete.csv", "--schema", "schema.toml", "--mechanism", mechanism)
    arguments += ("--rate", 0.3, "--seed", 1, "--output-schema", "holes.toml")
    assert run(capsys, *arguments, "-o", "a.parquet")[0] == 0
    assert run(capsys, *arguments, "-o", "b.parquet")[0] == 0
    holes = [Table.read(f, Schema.from_toml("holes.toml")) for f in ("a.parquet", "b.parquet")]
    assert holes[0].to_arrow().equals(holes[1].to_arrow())
    assert holes[0].incomplete_rows().any()


@pytest.mark.parametrize(
    ("extra", "code"),
    [
        (("--rate", 1.0), 2),
        (("--rate", -0.1), 2),
        (("--rate", "nan"), 2),
        (("--mechanism", "guess"), 2),
        (("--seed", "-1"), 2),
        (("-o", "nowhere/x.csv"), 5),
    ],
)
def test_simulate_bad_input(folder, capsys, extra, code):
    arguments = ("simulate", "complete.csv", "--schema", "schema.toml", "--rate", 0.3)
    found, _, err = run(capsys, *arguments, "--seed", 1, "-o", "x.csv", *extra)
    assert found == code
    assert err
    assert not (folder / "x.csv").exists()


def test_evaluate(folder, capsys):
    run(capsys, *SYNTHESIZE)
    arguments = ("evaluate", "data.csv", "out.csv", "--schema", "schema.toml")
    code, out, _ = run(capsys, *arguments)
    assert code == 0
    assert "CURATOR ONLY" in out
    code, out, _ = run(capsys, *arguments, "--json", "--f1")
    document = json.loads(out)
    assert document["curator_only"] is True
    assert set(document) >= {"marginals", "missing", "f1"}
    assert run(capsys, *arguments, "--ways", "0")[0] == 2
    assert run(capsys, *arguments, "--ways", "x")[0] == 2


def test_evaluate_says_which_table_does_not_fit(folder, capsys):
    (folder / "other.csv").write_text("größe,age\nXXL,5\n")
    ask = ("evaluate", "--schema", "schema.toml")
    for files, said in (
        (("other.csv", "data.csv"), "missdp: the private table: column 'größe' has values"),
        (("data.csv", "other.csv"), "missdp: the synthetic table: column 'größe' has values"),
        (("data.csv", "no.csv"), "missdp: the synthetic table: no data file at 'no.csv'"),
        (("data.csv", "data.csv", "--f1", "--test", "other.csv"), "missdp: the held-out rows: col"),
    ):
        code, out, err = run(capsys, *ask, *files)
        assert (code, out) == (3, "")
        assert err.startswith(said)
    code, _, err = run(capsys, *ask, "data.csv", "data.csv", "--test", "data.csv")
    assert (code, "--test is for --f1" in err) == (2, True)


def test_demo(folder, capsys):
    code, out, _ = run(capsys, "demo", "--json")
    assert code == 0
    document = json.loads(out)
    share = {row["group"]: row for row in document["comparison"]}["Hispanic respondents"]
    assert share["answered"] == pytest.approx(0.2564, abs=1e-3)
    assert share["complete_rows"] == pytest.approx(0.128, abs=1e-3)
    assert abs(share["missdp"] - share["answered"]) < 0.05
    assert abs(share["dropped_dp"] - share["answered"]) > 0.07
    assert document["seconds"] < 60
    assert len(pd.read_csv(folder / "yrbss_synthetic.csv")) == document["rows"]
    code, out, _ = run(capsys, "demo", "-o", "again.parquet")
    assert "dropping incomplete rows" in out


def test_help_and_no_arguments(capsys):
    assert run(capsys, "--help")[0] == 0
    assert run(capsys)[0] in (0, 2)


def test_warnings_are_heard_and_in_the_document(folder, capsys):
    weak = (*SYNTHESIZE, "--epsilon", 12, "--delta", 0.5, "--public-rows", 300, "--json")
    code, out, err = run(capsys, *weak)
    assert code == 0
    first, second = json.loads(out)["warnings"]
    assert first.startswith("epsilon = 12 ")
    assert second.startswith("delta = 0.5 ")
    assert err == f"missdp: warning: {first}\nmissdp: warning: {second}\n"
    for command in (("price", "out.model.json"), ("price", "out.model.json", "--json")):
        assert run(capsys, *command)[2] == err
    code, out, err = run(capsys, *SYNTHESIZE, "--json")
    assert (json.loads(out)["warnings"], err) == ([], DELTA)


@pytest.mark.parametrize("times", [1, 100])
@pytest.mark.parametrize(
    ("stated", "said"),
    [((), DELTA), (("--delta", 1e-7), ""), (("--delta", 0), ""), (("--public-rows", 10**6), "")],
)
def test_whom_the_default_delta_is_for_is_said_before_any_table_is_read(
    folder, capsys, monkeypatch, stated, said, times
):
    head, rows = (folder / "data.csv").read_text().split("\n", 1)
    (folder / "data.csv").write_text(head + "\n" + rows * times)
    heard = []

    def opened(*_, **__):  # what charges, and counts
        heard.append(capsys.readouterr().err)
        raise KeyboardInterrupt

    monkeypatch.setattr(Door, "__init__", opened)
    assert run(capsys, *SYNTHESIZE, *stated)[0] == 130
    assert heard == [said]


def test_sampling_shows_its_progress(folder, capsys, monkeypatch):
    run(capsys, *SYNTHESIZE)
    seen = []

    @contextlib.contextmanager
    def watched():
        yield lambda stage, done: seen.append(stage)

    monkeypatch.setattr("missdp.cli.sample.progress_bar", watched)
    assert run(capsys, "sample", "out.model.json", "-o", "more.csv", "--rows", 1)[0] == 0
    assert seen == ["reading the model", *["drawing and writing 1 row"] * 2]


@pytest.mark.parametrize("command", ["synthesize", "query"])
def test_the_same_schema_rests_on_the_same_conditions(folder, capsys, command):
    arguments = (*SYNTHESIZE, "--json")
    if command == "query":
        arguments = ("query", *SYNTHESIZE[1:6], "--impute", "age", "--match", "größe", "--count")
    for expected in (["PublicDomain"], ["DataDependentDomain"]):
        if expected != ["PublicDomain"]:
            run(capsys, "schema", "draft", "data.csv", "-o", "schema.toml", "--force")
        code, out, _ = run(capsys, *arguments, "--json", "--undeclared", "accept")
        assert code == 0
        found = [c["kind"] for c in json.loads(out)["guarantee"]["conditions"]]
        assert found == expected


IMPUTE = ("impute", "data.csv", "--schema", "schema.toml", "--model", "m.json", "-o", "filled.csv")


@pytest.fixture
def released(folder, capsys):
    assert run(capsys, *SYNTHESIZE, "--model", "m.json")[0] == 0
    return folder


def test_impute_fills_holes_and_says_that_rows_stay_private(released, capsys):
    code, out, err = run(capsys, *IMPUTE)
    assert (code, err) == (0, "")
    assert "as private as the rows were" in out
    assert "300" not in out  # how many rows there are is private
    before, after = (Table.read(released / name, SCHEMA) for name in ("data.csv", "filled.csv"))
    assert not after.incomplete_rows().any()
    for name in SCHEMA.names:
        kept = ~before.mask(name)
        assert (after.codes(name)[kept] == before.codes(name)[kept]).all()


def test_impute_json_seed_and_formats(released, capsys):
    found = []
    for _ in range(2):
        code, out, _ = run(capsys, *IMPUTE, "-o", "f.parquet", "--seed", 1, "--json")
        assert code == 0
        said = json.loads(out)
        found.append((released / "f.parquet").read_bytes())
    assert said["output"] == "f.parquet"
    assert said["private"] is True
    assert Guarantee.from_dict(said["guarantee"]) == missdp.load("m.json").guarantee_
    assert found[0] == found[1]
    assert len(Table.read(released / "f.parquet", SCHEMA)) == 300


def test_impute_several_times_or_not_at_all(released, capsys, monkeypatch):
    code, out, _ = run(capsys, *IMPUTE, "--draws", 3, "--filling", "random")
    assert code == 0
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
    code, _, err = run(capsys, *IMPUTE, "--draws", 3)
    assert code == 5
    assert "No space left" in err
    assert sorted(os.listdir(released)) == before
    again = [(released / f"filled-{k}.csv").read_text(encoding="utf-8") for k in (1, 2, 3)]
    assert again == drawn


@pytest.mark.parametrize(
    ("extra", "code", "match"),
    [
        (("--draws", 0), 2, "--draws must be from 1"),
        (("--seed", -1), 2, "--seed must be"),
        (("-o", "filled.txt"), 5, "end the name in"),
        (("-o", "data.csv"), 5, "same command"),
        (("-o", "m.json.csv", "--model", "absent.json"), 3, "no model file"),
        (("--schema", "other.toml"), 3, "another schema"),
    ],
)
def test_impute_refuses_what_is_wrong(released, capsys, extra, code, match):
    other = Schema((*SCHEMA.attributes[:1], Numeric(name="age", lower=0, upper=120)))
    other.to_toml("other.toml")
    before = sorted(os.listdir(released))
    found, _, err = run(capsys, *IMPUTE, *extra)
    assert found == code
    assert match in err
    assert sorted(os.listdir(released)) == before


def test_impute_rows_that_do_not_fit_quotes_none(released, capsys):
    (released / "data.csv").write_text("größe,age\nxyzzy,5\n", encoding="utf-8")
    code, _, err = run(capsys, *IMPUTE)
    assert code == 3
    assert "xyzzy" not in err


def test_impute_empty_files(released, capsys):
    (released / "data.csv").write_text("größe,age\n", encoding="utf-8")
    assert run(capsys, *IMPUTE)[0] == 0
    assert len(Table.read(released / "filled.csv", SCHEMA)) == 0
