"""The list of commands: quick to show, the same as what is there, its examples run; and pipes."""

import io
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import missdp
from missdp.cli import doctor, options
from missdp.cli.app import COMMANDS, EXAMPLES, command_named
from missdp.cli.main import main
from missdp.cli.options import _as_file
from missdp.schema import Schema
from missdp.synth.registry import _own_parameters

HEAVY = {
    "dp_accounting", "duckdb", "narwhals", "numpy", "pandas", "pyarrow", "rich", "scipy", "sklearn",
}  # fmt: skip


def printed_by(code):
    """What some code prints, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


HELP = "from missdp.cli.main import main; [main([*words, '--help']) for words in {}]"
SLIM = ["synthesize"], ["sample"], ["price"], ["impute"], ["schema"]
FACTS = "from missdp import Schema, Table, load, Filter, Guarantee"


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "needed"),
    [
        (f"import missdp; {HELP.format(([],))}; main(['--version'])", set()),
        ("from missdp import AllPairs; AllPairs(epsilon=1.0)", {"numpy"}),
        (f"{FACTS}; {HELP.format(SLIM)}", {"numpy"}),
    ],
)
def test_what_takes_long_is_imported_where_it_is_used(code, needed):
    modules = printed_by(f"import sys\n{code}\nprint(*sys.modules)").splitlines()[-1]
    assert HEAVY & {*modules.split()} == needed


@pytest.mark.long
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("missdp s", {"schema", "synthesize", "sample", "sensitivity", "simulate"}),
        ("missdp budget ver", {"verify"}),
        ("missdp synthesize --met", {"--method"}),
    ],
)
def test_names_and_options_are_completed_without_a_heavy_import(typed, offered, monkeypatch):
    for name, value in (("_MISSDP_COMPLETE", "complete_bash"), ("COMP_WORDS", typed)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    code = "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); " + (
        "sys.argv = ['missdp']; from missdp.cli.main import run; run()"  # as the script does
    )
    *found, heavy = printed_by(code).split()
    assert set(found) == offered
    assert heavy == str(len(offered) == 1)  # options are those of the command, which is read


# The examples of the help, which are those of docs/commands.md, run in the order of the page
PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\$ (.*)$", PAGE, re.M)
LONG = ("missdp plan", "missdp estimate", "missdp sensitivity", "--ground-truth-epsilon")


@pytest.mark.long
def test_every_command_has_an_example_and_the_page_shows_it(ok):
    assert set(EXAMPLES) == set(COMMANDS)
    shown = [shlex.split(line) for line in LINES]
    for name, examples in EXAMPLES.items():
        said = ok(name, "--help")
        assert f" {name} " in said.splitlines()[0]
        assert command_named(name).name == name
        for example in examples:
            assert example in said
            assert [word.replace('"', "'") for word in shlex.split(example)] in shown
            assert example.split()[1] == name
        parts = getattr(command_named(name), "commands", {None: None})
        for words in (name, *(f"{name} {part}" for part in parts if part)):
            after_usage = ok(f"{words} --help").partition("\n\n")[2]
            assert after_usage.startswith(f"  Examples:\n    missdp {words} ".rstrip())
    for name, family in missdp.synthesizers().items():
        (listed,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, re.M)
        own = {*_own_parameters(family)}
        assert {*re.findall(r"`(\w+)`", listed)} == own, name


@pytest.mark.long
@pytest.mark.parametrize(
    "lines",
    [
        [line for line in LINES if not any(words in line for words in LONG)],
        pytest.param(LINES, marks=pytest.mark.slow),
    ],
    ids=["quick", "all"],
)
def test_the_examples_run(lines, tmp_path, monkeypatch, ok):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 1500  # with 500, noise left no row for the last condition, in fewer than one of 150 runs
    columns = {"smoker": rng.choice(["no", "yes"], n), "age": rng.integers(18, 99, n)}
    frame = pd.DataFrame(columns).astype({"age": "Int64"})
    frame.to_csv("complete.csv", index=False)
    frame.mask(rng.random((n, 2)) < 0.2).to_csv("patients.csv", index=False)
    frame[:100].to_csv("others.csv", index=False)
    Path("curator").mkdir()
    fields = [{"name": "smoker", "constraints": {"enum": ["no", "yes"]}}]
    Path("codebook.json").write_text(json.dumps({"fields": fields}))
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.S):
        Path("questions.toml" if "[[question]]" in text else "pipeline.toml").write_text(text)
    for line in lines:
        if line == "missdp demo":  # see test_cli.py
            continue
        if "-o synthetic.csv" in line:  # each wants a name that is free
            for path in Path().glob("synthetic.*"):
                path.unlink()
        ok(line.removeprefix("missdp "))
        for name, value in re.findall(r"--set (rounds|degree)=(\d)", line):
            assert getattr(missdp.load("synthetic.model.json"), name) == int(value)
        if line.startswith("missdp schema draft"):  # a person declares every guess public
            schema = Path("patients.toml")
            schema.write_text(re.sub(r"undeclared = \[.*?\]\n", "", schema.read_text(), flags=re.S))
    assert len(pd.read_csv("more.csv")) == 500


def test_the_doctor_finds_what_is_here_and_says_what_is_wrong(monkeypatch, run):
    def seen():
        code, out, _ = run("doctor --json")
        document = json.loads(out)
        return code, {row["part"]: row["state"] for row in document["parts"]}, document["fine"]

    def refuse_to_open():
        raise OSError

    code, states, fine = seen()
    assert (code, fine) == (0, True)
    known = {"missdp", "Python", "numpy", "Java", "PostgreSQL", "folder", "threads", "randomness"}
    assert known | {"psycopg [ledger]", "jinja2 [report]"} <= states.keys()
    assert "pytest [dev]" not in states
    real = doctor.version
    monkeypatch.setattr(doctor, "version", lambda name: "1.9" if name == "duckdb" else real(name))
    monkeypatch.setattr(doctor, "requires", lambda _: ["duckdb>=1.10", "numpy", "gone-away>=2"])
    code, states, fine = seen()
    assert (code, fine, states["duckdb"]) == (7, False, "older than 1.10")
    assert states["gone-away"] == "needed: pip install gone-away"
    monkeypatch.setattr(doctor, "requires", lambda _: ['gone-away>=2; extra == "plot"'])
    code, states, _ = seen()
    assert (code, states["gone-away [plot]"]) == (0, "absent")
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse_to_open)
    assert seen()[0] == 5


# `-` for standard input and output
ROWS = "pay,sex\n" + "".join(f"{k % 50},{'fm'[k % 2]}\n" for k in range(300))


@pytest.fixture
def piped(tmp_path, monkeypatch, capfdbinary):
    """Run a command on rows from standard input; return its code and what it printed where."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    Path("tmp").mkdir()

    def called(command, rows=ROWS):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(rows.encode())))
        code = main(command.split())
        assert list(Path("tmp").iterdir()) == []  # no private row is left
        out, err = capfdbinary.readouterr()
        return code, out.decode(), err.decode()

    return called


def files_in(folder):
    """Files that have a name there."""
    return [path for path in Path(folder).rglob("*") if path.is_file() and path.stat().st_nlink]


@pytest.mark.long
def test_drafts_rows_and_models_go_through_pipes(piped, monkeypatch):
    code, draft, said = piped("schema draft - -o -")
    assert (code, "Wrote standard output: 2 attributes" in said) == (0, True)
    Path("s.toml").write_text(draft)
    Schema.from_toml("s.toml").declare_public().to_toml("s.toml")
    assert piped("schema check s.toml -")[0] == 0
    assert piped("synthesize - --schema s.toml --epsilon 9 --seed 0 -o out.csv")[0] == 0
    sample = "sample out.model.json --rows 5 --seed 0 -o"
    code, printed, said = piped(f"{sample} -")
    assert (code, printed.splitlines()[0], len(printed.splitlines())) == (0, '"pay","sex"', 6)
    assert "Wrote standard output: 5 synthetic rows." in said
    assert piped(f"{sample} rows.csv")[0] == 0
    assert Path("rows.csv").read_text() == printed
    with monkeypatch.context() as patched:
        left, real = [], options._print  # by a run that is killed while it prints
        patched.setattr(options, "_print", lambda file: (left.extend(files_in("tmp")), real(file)))
        code, printed, said = piped("impute - --schema s.toml --model out.model.json -o -")
    assert (code, len(printed.splitlines()), left) == (0, 301, [])
    assert "PRIVATE" in said.upper()
    code, printed, said = piped(f"{sample} - --json")
    assert (len(printed.splitlines()), json.loads(said)["output"]) == (6, "standard output")


def test_what_cannot_go_through_a_pipe_is_one_line(piped):
    for command, code, said in (
        ("synthesize - --schema s.toml --epsilon 1 -o -", 5, "missdp sample"),
        ("schema draft - --parts -o d.toml", 2, "not for standard input"),
        ("sample m.json -o - --multiple 2", 2, "several tables"),
        ("schema draft - -o d.toml", 3, "as CSV: there is no header line"),
    ):
        found, out, err = piped(command, rows='a,b\n"secret')
        assert (found, out, said in err, err.count("\n")) == (code, "", True, 1)
        assert "secret" not in err


def test_a_copy_of_standard_input_has_no_name_of_its_own(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"age\n7\n")))
    with _as_file("-") as name:
        (there,) = Path(name).parent.iterdir()
        assert there.read_bytes() == b"age\n7\n"
        assert there.is_symlink()  # into this process: what is behind it ends with that
        assert not there.stat().st_nlink
    assert not Path(name).parent.exists()


@pytest.mark.long
def test_several_questions_are_answered_one_after_the_other(folder, ok, told, fails):
    fit = "synthesize data.csv --schema schema.toml --epsilon 5 --delta 1e-6 --seed 1 -o out.csv"
    ok(fit)
    asked = ["mean(age)", "share(`größe` == 'S')", "age ~ C(`größe`)"]
    alone = [told("estimate", "out.model.json", question) for question in asked]
    together = told("estimate", "out.model.json", *asked)
    guarantee = together.pop("guarantee")
    assert all(one.pop("guarantee") == guarantee for one in alone)
    assert together["answers"] == [
        {n: v for n, v in one.items() if n != "warnings"} for one in alone
    ]
    said = ok("estimate", "out.model.json", *asked)
    assert [said.count(question) for question in asked] == [1, 1, 1]
    flags = [flag for one in alone for flag in one["flags"]]
    assert len(flags) > len({*flags}) > 0
    assert all(said.count(flag) == 1 for flag in flags)
    fails(3, "nowhere", "estimate", "out.model.json", *asked, "mean(nowhere)")
