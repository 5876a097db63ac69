"""The list of commands: it is quick, it matches the commands, and its examples run."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest

import missdp
from missdp.cli.app import COMMANDS, GROUPS, command_named
from missdp.cli.options import EVERYWHERE, STRATEGIES, Option
from missdp.sources import STRATEGIES as KNOWN_STRATEGIES
from missdp.synth.registry import _family_parameters

HEAVY = {
    "dp_accounting", "duckdb", "narwhals", "numpy", "pandas", "pyarrow", "rich", "scipy", "sklearn",
}  # fmt: skip
LEAVES = {
    "app",
    "schema init", "schema import", "schema check", "schema set",
    "plan", "fit", "sample", "synthesize", "query",
    "estimate", "impute", "guarantee", "evaluate", "publish", "ledger create", "ledger show",
    "ledger log", "ledger verify", "ledger abandon", "demo", "simulate", "price", "version",
}  # fmt: skip


def leaves():
    """Each command that does something, by the words that call it."""
    found = {}
    for name in COMMANDS:
        command = command_named(name)
        inner = getattr(command, "commands", None)
        found |= {f"{name} {part}": one for part, one in inner.items()} if inner else {}
        found |= {} if inner else {name: command}
    return found


def printed_by(code):
    """Return the printed text of some code, run in a process of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout


def test_the_tree_of_commands_is_complete():
    assert set(leaves()) == LEAVES
    assert list(GROUPS) == ["Prepare", "Release", "Use", "Inspect", "Ledger", "Other"]


def test_options_are_few():
    """Options of every command are declared once, and count once.

    They also count in `synthesize`.
    """
    own = {
        name: [one for one in command.params if isinstance(one, click.Option)]
        for name, command in leaves().items()
    }
    assert len(EVERYWHERE) + sum(map(len, own.values())) <= 135
    assert len(EVERYWHERE) + len(own["synthesize"]) <= 18
    assert [one.opts[0] for one in EVERYWHERE] == ["--overwrite", "--json", "--quiet", "--memory"]


def test_options_stand_in_groups_and_no_signature_is_rewritten():
    for name, command in leaves().items():
        assert all(isinstance(one, (Option, click.Argument)) for one in command.params), name
        assert not hasattr(command.callback, "__signature__"), name
        assert not hasattr(command.callback, "__wrapped__"), name
        taken = inspect.signature(command.callback).parameters
        anything = any(one.kind is one.VAR_KEYWORD for one in taken.values())
        assert anything or {one.name for one in command.params} == set(taken), name


def test_options_of_one_name_take_the_same_kind_of_value():
    kinds = {}
    for name, command in leaves().items():
        for one in command.params:
            if isinstance(one, click.Option) and (name, one.name) != ("plan", "epsilon"):
                kind = (one.type.name, one.multiple, one.is_flag)
                kinds.setdefault(max(one.opts, key=len), {}).setdefault(kind, []).append(name)
    assert {name: found for name, found in kinds.items() if len(found) > 1} == {}


def test_strategies_in_the_help_are_those_that_exist():
    assert set(STRATEGIES) == set(KNOWN_STRATEGIES)


HELP = "from missdp.cli.main import main; [main([*words, '--help']) for words in {}]"
ALL = [name.split() for name in LEAVES]
FACTS = "from missdp import Schema, Table, load, Filter, Guarantee"


@pytest.mark.long
@pytest.mark.parametrize(
    ("code", "needed"),
    [
        (f"import missdp; {HELP.format([[], *ALL])}; main(['--version'])", set()),
        ("from missdp import AllPairs; AllPairs(epsilon=1.0)", {"numpy"}),
        (f"{FACTS}; {HELP.format(ALL)}", {"numpy"}),
        ("from missdp.cli.main import main; main(['version', '--verbose'])", set()),
    ],
)
def test_slow_imports_happen_at_their_use(code, needed):
    modules = printed_by(f"import sys\n{code}\nprint(*sys.modules)").splitlines()[-1]
    assert HEAVY & {*modules.split()} == needed


SECONDS = """
import os, sys
pid = os.fork()
if pid == 0:
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.execv(sys.executable, [sys.executable, "-m", "missdp", *sys.argv[1:]])
_, status, used = os.wait4(pid, 0)
print(used.ru_utime + used.ru_stime if status == 0 else 1e9)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork there")
@pytest.mark.parametrize(
    ("words", "most"), [("--help", 0.25), ("synthesize --help", 0.5), ("version --verbose", 0.5)]
)
def test_commands_start_quickly(words, most):
    """The bars, in seconds of CPU. A busy machine may take twice as long."""
    command = [sys.executable, "-c", SECONDS, *words.split()]
    taken = min(
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    )
    assert taken < 2 * most


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("missdp s", {"schema", "synthesize", "sample", "simulate"}),
        ("missdp ledger ver", {"verify"}),
        ("missdp synthesize --met", {"--method"}),
        ("missdp synthesize --ov", {"--overwrite"}),
    ],
)
def test_names_and_options_are_completed_without_a_heavy_import(typed, offered, monkeypatch):
    for name, value in (("_MISSDP_COMPLETE", "bash_complete"), ("COMP_WORDS", typed)):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("COMP_CWORD", str(typed.count(" ")))
    code = "import atexit, sys; atexit.register(lambda: print('numpy' in sys.modules)); " + (
        "sys.argv = ['missdp']; from missdp.cli.main import run; run()"  # as the script does
    )
    *found, heavy = printed_by(code).split()
    assert {one.removeprefix("plain,") for one in found} == offered
    assert heavy == "False"


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        ("fit absent.csv --schema absent.toml --epsilon 1 -o out.json --json", 3, "absent.toml"),
        ("fit --json", 2, "DATA"),
        ("plan --nonsense --json", 2, "--nonsense"),
    ],
)
def test_an_error_is_the_one_json_object_of_a_command_that_fails(folder, run, command, code, says):
    found, out, err = run(command)
    error = json.loads(out)["error"]
    assert (found, error["exit_code"], error["released"]) == (code, code, [])
    assert says in error["message"]
    assert error["message"] in err


def test_quiet_and_json_are_options_of_every_command(folder, run, told):
    assert run("schema check schema.toml --quiet")[:2] == (0, "")
    assert run("version --quiet") == (0, "", "")
    assert told("version")["missdp"] == missdp.__version__
    assert told("schema init data.csv -o d.toml")["attributes"] == ["größe", "age"]
    assert run("schema init data.csv -o d.toml --overwrite -q")[:2] == (0, "")


def test_version_names_packages_and_the_file_of_the_project(folder, told, monkeypatch):
    found = told("version --verbose")
    assert {"missdp", "Python", "numpy", "jinja2 [report]"} <= set(found)
    assert not any("[dev]" in name for name in found)
    assert found["missdp.toml"] == "none in this folder or above"
    Path("missdp.toml").write_text('schema = "schema.toml"\n')
    assert told("version --verbose")["missdp.toml"].endswith("missdp.toml: schema")
    monkeypatch.setattr(
        "missdp.cli.installed.requires", lambda _: ["gone-away>=2", 'off; extra == "plot"']
    )
    found = told("version --verbose")
    assert found["gone-away"] == "ABSENT: pip install gone-away"
    assert found["off [plot]"] == "absent"


def test_the_file_of_a_project_stands_in_for_options(folder, ok, told, fails, monkeypatch):
    synthesize = "--epsilon 1 -o {}.csv --method privbayes"
    Path("missdp.toml").write_text('schema = "schema.toml"\ndelta = 1e-7\n')
    Path("deep/er").mkdir(parents=True)
    monkeypatch.chdir("deep/er")
    found = told(f"synthesize ../../data.csv {synthesize.format('a')}")
    assert found["guarantee"]["delta"] in (0.0, 1e-7)
    assert missdp.load("a.model.json").delta == 1e-7
    ok(f"synthesize ../../data.csv {synthesize.format('b')} --delta 1e-6")
    assert missdp.load("b.model.json").delta == 1e-6
    assert told("schema check")["attributes"] == ["größe", "age"]
    Path("missdp.toml").write_text('schema = "none.toml"\n')  # the nearest file counts
    fails(3, "none.toml", f"synthesize ../../data.csv {synthesize.format('c')}")


# The examples of docs/commands.md run in the order of the page, then the others of the help.
DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "commands.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"^\$ (.*)$", PAGE, re.M)
FIT = "missdp fit patients.csv --schema patients.toml --epsilon 1 -o model.json"
LINES = [
    *SHOWN,
    *(
        example
        for command in leaves().values()
        for example in command.examples
        if "RELEASE" not in example and example not in SHOWN
    ),
    f"{FIT} --method all-pairs --set clip=2",
    f"{FIT} --method kamino --set constraints=t1&t2&EQ(t1.age,t2.age)&IQ(t1.smoker,t2.smoker)",
]
LONG = ("missdp plan", "missdp estimate", "--ground-truth-epsilon")


@pytest.mark.long
def test_every_command_has_an_example_and_the_page_shows_it(ok):
    for name, command in leaves().items():
        after_usage = ok(f"{name} --help").partition("\n\n")[2]
        assert after_usage.startswith(f"  Examples:\n    missdp {name}"), name
        assert command.examples, name
        for example in command.examples:
            assert example in after_usage
            assert f" {example}".startswith(f" missdp {name} ") or example == f"missdp {name}"
        shown = any(f"{line} ".startswith(f"missdp {name} ") for line in SHOWN)
        assert shown or name == "ledger abandon", name


def test_the_page_has_the_options_of_every_command(ok, monkeypatch):
    """Each table is generated, and has each option of the help with its text."""
    pytest.importorskip("sphinx")
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    from command_options import method_rows, option_rows

    tables = re.findall(r"^```\{command-options\} (.*)$", PAGE, re.M)
    assert tables == ["every command", *sorted(leaves(), key=tables.index)]
    for name in leaves():
        rows = option_rows(name) + option_rows("every command")
        help_text = "".join(ok(f"{name} --help").split())
        assert all("".join(f"{option}{text}".split()) in help_text for option, text in rows), name
        listed = {word for option, _ in rows for word in re.findall(r"--[\w-]+", option)}
        stated = re.findall(r"^  (?:-\w, )?(--[\w-]+)", ok(f"{name} --help"), re.M)
        assert listed == {*stated} - {"--help"}, name
    assert "{method-parameters}" in PAGE
    for method, parameters in method_rows():
        own = {*_family_parameters(missdp.synthesizers()[method])}
        assert {*parameters.split(", ")} == own, method


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
    prices = (DOCS / "preprocessing.md").read_text(encoding="utf-8")
    (pipeline,) = re.findall(r"```toml\n(# pipeline.toml\n.*?)```", prices, re.S)
    Path("pipeline.toml").write_text(pipeline)
    for line in lines:
        if line == "missdp demo" or line.startswith("missdp app"):  # see test_cli.py and tests/app
            continue
        again = " --overwrite" if re.search(r"missdp (fit|synthesize|publish) ", line) else ""
        ok(line.removeprefix("missdp ") + again)
        for name, value in re.findall(r"--set (rounds|degree)=(\d)", line):
            assert getattr(missdp.load("model.json"), name) == int(value)
        if line.startswith("missdp schema init"):  # a person declares every guess public
            schema = Path("patients.toml")
            schema.write_text(re.sub(r"undeclared = \[.*?\]\n", "", schema.read_text(), flags=re.S))
    assert len(pd.read_csv("more.csv")) == 500


@pytest.mark.long
def test_several_questions_are_answered_one_after_the_other(folder, ok, told, fails):
    fit = "synthesize data.csv --schema schema.toml --epsilon 5 --delta 1e-6 --seed 1 -o out.csv"
    ok(fit)
    asked = ["mean(age)", "share(`größe` = 'S')", "age ~ C(`größe`)"]
    alone = [told("estimate", "out.model.json", question) for question in asked]
    together = told("estimate", "out.model.json", *asked)
    guarantee = together.pop("guarantee")
    assert all(one.pop("guarantee") == guarantee for one in alone)
    assert together["answers"] == [
        {n: v for n, v in one.items() if n != "warnings"} for one in alone
    ]
    texts = alone[0]["shown"]
    assert [*texts[0]] == ["estimate", "low", "high"]
    said = ok("estimate", "out.model.json", *asked)
    assert texts[0]["low"] in said
    assert [said.count(question) for question in asked] == [1, 1, 1]
    flags = [flag for one in alone for flag in one["flags"]]
    assert len(flags) > len({*flags}) > 0
    assert all(said.count(flag) == 1 for flag in flags)
    fails(2, "nowhere", "estimate", "out.model.json", *asked, "mean(nowhere)")
