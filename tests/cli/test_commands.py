"""The list of commands: quick to show, the same as what is there, and its examples run."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import missdp
from missdp.cli import doctor
from missdp.cli.app import COMMANDS, EXAMPLES, command_named
from missdp.cli.main import main
from missdp.synth.registry import _own_parameters

HEAVY = {
    "dp_accounting", "duckdb", "narwhals", "numpy", "pandas", "pyarrow", "rich", "scipy", "sklearn",
}  # fmt: skip


def imported(code):
    """Return which of what takes long to import some code brings along, in a process of its own."""
    code = f"import sys\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return HEAVY & {*done.stdout.splitlines()[-1].split()}


HELP = "from missdp.cli.main import main; [main([*words, '--help']) for words in {}]"
SLIM = ["synthesize"], ["sample"], ["price"], ["impute"], ["schema"]


@pytest.mark.parametrize(
    ("code", "needed"),
    [
        (f"import missdp; {HELP.format(([],))}; main(['--version'])", set()),
        ("from missdp import AllPairs; AllPairs(epsilon=1.0)", {"numpy"}),
        (
            f"from missdp import Schema, Table, load, Budget, Guarantee; {HELP.format(SLIM)}",
            {"numpy"},
        ),
    ],
)
def test_what_takes_long_is_imported_where_it_is_used(code, needed):
    assert imported(code) == needed


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *found, heavy = done.stdout.split()
    assert set(found) == offered
    assert heavy == str(len(offered) == 1)  # options are those of the command, which is read


# The examples of the help, which are those of docs/commands.md, run in the order of the page
PAGE = (Path(__file__).parents[2] / "docs" / "commands.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\$ (.*)$", PAGE, re.M)
LONG = ("missdp plan", "missdp estimate", "missdp sensitivity", "--ground-truth-epsilon")


def test_every_command_has_an_example_and_the_page_shows_it(capsys):
    assert set(EXAMPLES) == set(COMMANDS)
    shown = [shlex.split(line) for line in LINES]
    for name, examples in EXAMPLES.items():
        assert main([name, "--help"]) == 0
        said = capsys.readouterr().out
        assert f" {name} " in said.splitlines()[0]
        assert command_named(name).name == name
        for example in examples:
            assert example in said
            assert [word.replace('"', "'") for word in shlex.split(example)] in shown
            assert example.split()[1] == name
        parts = getattr(command_named(name), "commands", {None: None})
        for words in [[name], *([name, part] for part in parts if part)]:
            assert main([*words, "--help"]) == 0
            after_usage = capsys.readouterr().out.partition("\n\n")[2]
            assert after_usage.startswith(f"  Examples:\n    missdp {' '.join(words)} ".rstrip())


# The doctor
def test_the_doctor_finds_what_is_here_and_says_what_is_wrong(monkeypatch, capsys):
    def seen():
        code = main(["doctor", "--json"])
        document = json.loads(capsys.readouterr().out)
        return code, {row["part"]: row["state"] for row in document["parts"]}, document["fine"]

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
    assert seen()[0] == 0
    assert seen()[1]["gone-away [plot]"] == "absent"
    monkeypatch.setattr(doctor.shutil, "which", lambda _: None)
    monkeypatch.setattr(doctor.tempfile, "TemporaryFile", refuse_to_open)
    assert seen()[0] == 5


def refuse_to_open():
    raise OSError


@pytest.mark.parametrize(
    "lines",
    [
        [line for line in LINES if not any(words in line for words in LONG)],
        pytest.param(LINES, marks=pytest.mark.slow),
    ],
    ids=["quick", "all"],
)
def test_the_examples_run(lines, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"smoker": rng.choice(["no", "yes"], 500), "age": rng.integers(18, 99, 500)}
    ).astype({"age": "Int64"})
    frame.to_csv("complete.csv", index=False)
    frame.mask(rng.random((500, 2)) < 0.2).to_csv("patients.csv", index=False)
    frame[:100].to_csv("others.csv", index=False)
    Path("curator").mkdir()
    fields = [{"name": "smoker", "constraints": {"enum": ["no", "yes"]}}]
    Path("codebook.json").write_text(json.dumps({"fields": fields}))
    for text in re.findall(r"```toml\n(.*?)```", PAGE, re.S):
        Path("questions.toml" if "[[question]]" in text else "pipeline.toml").write_text(text)
    shutil.copy(Path(__file__).parents[1] / "data/old/fourth/mst-joint.json", "old.model.json")
    for line in lines:
        if line == "missdp demo":  # see test_cli.py
            continue
        if "-o synthetic.csv" in line:  # each wants a name that is free
            for path in Path().glob("synthetic.*"):
                path.unlink()
        assert main(shlex.split(line)[1:]) == 0, (line, capsys.readouterr().err)
        for name, value in re.findall(r"--set (rounds|degree)=(\d)", line):
            assert getattr(missdp.load("synthetic.model.json"), name) == int(value)
        if line.startswith("missdp schema draft"):  # a person declares every guess public
            schema = Path("patients.toml")
            schema.write_text(re.sub(r"undeclared = \[.*?\]\n", "", schema.read_text(), flags=re.S))
    drawn = len(pd.read_csv("more.csv"))
    assert drawn == 500


@pytest.mark.parametrize("name", sorted(missdp.synthesizers()))
def test_the_page_lists_the_parameters_that_can_be_set(name):
    (listed,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE, re.M)
    own = _own_parameters(missdp.synthesizers()[name])
    assert set(re.findall(r"`(\w+)`", listed)) == set(own) - {"structural_zeros"}
