"""Wrong input fails before a charge: a code, a reason, no file, no traceback, no cell."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from missdp import Numeric, Schema
from missdp.cli.main import EXIT_CODES
from missdp.serialization import seal
from missdp.session import Session

SYNTHESIZE = "synthesize data.csv --schema schema.toml -o out.csv --epsilon 1"
ASKED = "fit unread.csv --schema schema.toml -o out.json"
FIT = "fit data.csv --schema schema.toml -o out.json --epsilon 1"
TRUTH = f"{ASKED} --ground-truth-epsilon 1"
SIMULATE = "simulate complete.csv --schema schema.toml --rate 0.3 --seed 1 -o x.csv"
IMPUTE = "impute data.csv --model m.json -o filled.csv"
GUARANTEE = "guarantee m.json"
QUERY = "query data.csv --schema schema.toml --impute age --match größe --epsilon 1"
EVALUATE = "evaluate data.csv data.csv --schema schema.toml"
SAMPLE = "sample m.json -o x.csv"
PIPELINE = "price pipeline.toml"
PIPELINE_FILE = """
delta = 1e-6
[table]
rows = 1000
columns = 4
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""

# The command, the exit code, and a part of the error message.
REFUSED = [
    (f"{SYNTHESIZE} --delta 0 --method all-pairs", 2, "delta"),
    (f"{SYNTHESIZE} --strategy guess", 2, "--strategy must be one of"),
    (f"{SYNTHESIZE} --method guess", 2, "privbayes"),
    (f"{SYNTHESIZE} --method aim --set round=2", 2, "no parameter 'round'"),
    (f"{SYNTHESIZE} --method aim --set rounds=x", 2, "whole number"),
    (f"{SYNTHESIZE} --set workload=age,agee", 2, "'agee', which the schema does not have. Did you"),
    (f"{SYNTHESIZE} --rows {10**15}", 2, "--rows must"),
    (f"{SYNTHESIZE} --rows {'9' * 30}", 2, "--rows must"),
    (f"{FIT} --public-rows 0", 2, "--public-rows must"),
    (f"{SYNTHESIZE} --strategy observed --keep-missing", 2, "joint"),
    (f"{FIT} --undeclared perhaps", 2, "--undeclared must be one of"),
    (f"{SYNTHESIZE} --schema none.toml", 3, "none.toml"),
    (f"{SYNTHESIZE} --colour 1", 2, "colour"),
    *((f"{SYNTHESIZE} --memory '{size}'", 2, "--memory must be")
      for size in ("two", "-1GB", "1", "5XB", "1iB", "", "nanGB", "100MB")),
    *((f"{SYNTHESIZE} -o {name}", 5, says) for name, says in (
        (".", ".csv"), ("/proc/out.csv", "cannot write"), ("nowhere/out.csv", "folder"),
        ("out.xls", ".csv"), ("data.csv/out.csv", "cannot write"), ("data.csv", "same command"),
        ("x" * 300 + ".csv", "cannot write"),
        ("x" * 250 + ".csv", "cannot write"),  # the model beside it would have too long a name
    )),
    *((f"{FIT} -o {name}", 5, says) for name, says in (
        ("/proc/m.json", "cannot write"), ("nowhere/m.json", "folder"), ("folder.json", "folder"),
        ("m.json", "'m.json' exists. Use --overwrite"), ("x" * 300 + ".json", "cannot write"),
    )),
    *((f"{FIT} -o {name}", 2, "a model file") for name in (".", "/dev/full", "schema.toml")),
    (ASKED, 2, "--epsilon is required"),
    (f"{TRUTH} --epsilon 1", 2, "not both"),
    (TRUTH, 2, "add --assume"),
    (f"{ASKED} --epsilon 1 --assume bounded=0.5", 2, "--ground-truth-epsilon"),
    (f"{TRUTH} --assume bounded=0.5 --assume row-independent", 2, "Use it once"),
    (f"{TRUTH} --assume mcar=much", 2, "mcar=age:0.9"),
    (f"{TRUTH} --assume mcar=1.5", 2, "between 0 and 1"),
    (f"{TRUTH} --assume mcar=nosuch:0.5", 2, "nosuch"),
    (f"{ASKED} --ground-truth-epsilon 0 --assume bounded=0.5", 2, "epsilon must be"),
    (f"{ASKED} --ground-truth-epsilon 99 --assume bounded=0.5 --method mst", 2, "between 0 and 64"),
    (f"{SIMULATE} --mechanism guess", 2, "--mechanism must be one of"),
    (f"{SIMULATE} -o nowhere/x.csv", 5, "folder"),
    (f"{SIMULATE} -o complete.csv", 5, "same command"),
    *((f"{command} -o other.csv", 5, "'other.csv' exists. Use --overwrite to replace it")
      for command in (SIMULATE, IMPUTE, SAMPLE)),
    (f"{SIMULATE} --output-schema schema.toml", 5, "same command"),
    ("schema init data.csv -o data.csv --overwrite", 5, "same command"),
    ("schema init data.csv -o schema.toml", 5, "exists"),
    (f"{IMPUTE} --copies 0", 2, "--copies must be from 2"),
    (f"{IMPUTE} -o filled.txt", 5, "end the name in"),
    (f"{IMPUTE} -o data.csv", 5, "same command"),
    (f"{IMPUTE} --model absent.json", 3, "no model file"),
    (f"{SAMPLE} -o m.json", 5, ".csv"),
    (f"{SAMPLE} -o no/x.csv --keep-missing --missing-as code", 5, "folder"),
    (f"{SAMPLE} --missing-as zeros", 2, "--missing-as must be one of null, code"),
    (f"{SAMPLE} --memory 500MiB", 2, "--memory must be"),
    (f"{SAMPLE} --copies 1", 2, "--copies must"),
    (f"{SAMPLE} --copies 1001", 2, "--copies must"),
    (f"{SAMPLE} --copies 3 --rows {10**12}", 2, "--rows must be at most"),
    (f"{SAMPLE} --copies 3", 2, "multiple"),
    *((f"{c} schema.toml -o x.csv", 3, "not a missdp model") for c in ("sample", "publish")),
    (f"{EVALUATE} --control data.csv", 2, "--control is for --f1"),
    (f"{EVALUATE} --html page.html", 2, "--html requires a model"),
    ("evaluate data.csv data.csv", 2, "--schema is required"),
    ("evaluate other.csv data.csv --schema schema.toml", 3, "the private table: column 'größe'"),
    ("evaluate data.csv other.csv --schema schema.toml", 3, "the synthetic table: column 'größe'"),
    ("evaluate data.csv no.csv --schema schema.toml", 3, "no data file at 'no.csv'"),
    (f"{EVALUATE} --f1 --control other.csv", 3, "the control rows: column 'größe'"),
    (f"{GUARANTEE} --assume mcar=nosuch:.5", 2, "nosuch"),
    (f"{GUARANTEE} --assume mcar=age:.5,age:.6", 2, "twice"),
    (f"{GUARANTEE} --assume independent", 2, "--assume must be of the form"),
    (f"{GUARANTEE} --assume mcar=age:x", 2, "mcar=age:0.9"),
    (f"{GUARANTEE} --assume mcar=age:2", 2, "age"),
    (f"{GUARANTEE} --prior 2", 2, "--prior"),
    ("guarantee none.json", 3, "no model file"),
    ("guarantee .", 3, "cannot read"),
    (f"{PIPELINE} --delta 2", 2, "--delta must"),
    (QUERY, 2, "Missing argument 'QUESTION"),
    (f"{QUERY} 'mean(age) by größe' --interval total", 2, "are of noise alone"),
    (f"{QUERY} 'variance(age)' --interval total", 2, "are of noise alone"),
    (f"{QUERY} 'share(age >)'", 2, "share: found the end of the text"),
    (f"{QUERY} 'mean(age)' --where 'age >>> 3'", 2, "where"),
    (f"{QUERY} 'mean(age)' --where \"__import__('os')\"", 2, ""),
    (f"{QUERY} 'mean(größe)'", 2, "numeric"),
    (f"{QUERY} 'mean(nobody)'", 2, "nobody"),
    (f"{QUERY} 'correlation(age)'", 2, "takes 2 arguments"),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(survey, tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    shutil.copytree(survey, folder, dirs_exist_ok=True)
    age = Numeric(name="age", lower=0, upper=120)
    Schema((Schema.from_toml(folder / "schema.toml")["größe"], age)).to_toml(folder / "other.toml")
    (folder / "other.csv").write_text("größe,age\nsecret,5\n", encoding="utf-8")
    (folder / "unread.csv").write_text("not read")
    (folder / "folder.json").mkdir()
    (folder / "pipeline.toml").write_text(PIPELINE_FILE)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(("command", "code", "says"), REFUSED, ids=lambda v: str(v)[-40:])
def test_it_is_refused(place, fails, monkeypatch, command, code, says):
    monkeypatch.chdir(place)
    monkeypatch.setattr(Session, "_charge", None)  # to charge would be something unexpected
    before = contents(place)
    err = fails(code, says, command)
    assert err.startswith(("missdp: ", "Usage: "))
    assert not any(word in err for word in ("Traceback", "unexpected", "charged", "secret"))
    assert contents(place) == before


# Any input
TOKEN = "Xq7Zt"  # stands for a private cell
NUMBER = "918273645"  # another one
TOKENS = re.compile(f'{TOKEN}|{NUMBER}|Traceback|unexpected|File "')
BROKEN = {
    "empty": b"",
    "header only": "größe,age\n",
    "one row": "größe,age\nS,5\n",
    "unknown level": f"größe,age\n{TOKEN},5\nS,1\n",
    "text for a number": f"größe,age\nS,{TOKEN}\n",
    "number outside": f"größe,age\nS,{NUMBER}\n",
    "not whole": f"größe,age\nS,5.{NUMBER}\n",
    "huge integer": f"größe,age\nS,{NUMBER * 40}\n",
    "too many cells": f"größe,age\nS,5,{TOKEN},{NUMBER}\n",
    "too few cells": f"größe,age\n{TOKEN}\n",
    "open quote": f'größe,age\n"{TOKEN},5\n',
    "other columns": f"größe,age,more\nS,5,{TOKEN}\n",
    "same column twice": f"age,age\n{TOKEN},{NUMBER}\n",
    "empty name": f"größe,\nS,{TOKEN}\n",
    "no header": f"{TOKEN},{NUMBER}\nS,5\n",
    "latin-1": f"größe,age\n{TOKEN}é,5\n".encode("latin-1"),
    "binary": bytes(range(256)) * 4 + TOKEN.encode(),
    "zeros": b"\0" * 100 + TOKEN.encode(),
    "bom": f"\ufeffgröße,age\nS,5\n{TOKEN},1\n",
    "toml": f"{TOKEN} = 1\n{TOKEN} = 2\n[{NUMBER}]\n",
    "json": json.dumps({"family": TOKEN, "format": NUMBER}),
    "json list": json.dumps([TOKEN]),
    "model of nothing": json.dumps({"family": "PrivBayes", "format": 1, "x": TOKEN}),
    "deep": b"[" * 100_000,
}

DATA = [*BROKEN][:19]
FACTS = ("empty", "unknown level", "toml", "json", "latin-1", "binary", "zeros", "deep")
MODEL = ("empty", "unknown level", "json", "json list", "model of nothing", "latin-1", "deep")
# The command, and the files that stand for {0}.
COMMANDS = {
    "synthesize {0} --schema schema.toml --epsilon 1 -o new.csv": (".csv", DATA),
    "synthesize good.csv --schema {0} --epsilon 1 -o new.csv": (".toml", FACTS),
    QUERY.replace("data.csv", "{0}") + " 'mean(age)'": (".csv", DATA),
    "evaluate {0} good.csv --schema schema.toml": (".csv", DATA),
    "evaluate good.csv {0} --schema schema.toml": (".parquet", FACTS),
    "simulate {0} --schema schema.toml --rate 0.2 --seed 1 -o new.csv": (".csv", DATA),
    "schema check schema.toml {0}": (".csv", DATA),
    "schema check {0}": (".csv", FACTS),
    "schema init {0} -o new.toml": (".csv", DATA),
    "sample {0} -o new.csv": (".json", MODEL),
    "impute {0} --model model.json -o new.csv": (".csv", DATA),
    "impute good.csv --model {0} -o new.csv": (".json", MODEL),
    "guarantee {0}": (".json", MODEL),
    "publish {0} -o new.folder": (".json", MODEL),
    "price {0} --delta 1e-6": (".toml", FACTS),
}


@pytest.fixture(name="folder")
def _folder(folder, survey):
    Path("good.csv").write_bytes(Path("data.csv").read_bytes())
    Path("model.json").write_bytes((survey / "m.json").read_bytes())
    return folder


@pytest.fixture
def checked(run):
    """Run a command and check the properties of all commands. Return its exit code and error."""

    def ran(*command):
        code, out, err = run(*command)
        assert code in {0, 8, *EXIT_CODES.values()}, (code, err)
        assert not TOKENS.search(err), err
        assert not code or (err.strip() and not TOKENS.search(out)), out
        return code, err

    return ran


@pytest.mark.long
@pytest.mark.parametrize("command", COMMANDS)
def test_broken_files(folder, checked, command):
    suffix, labels = COMMANDS[command]
    path = folder / f"private{suffix}"
    for number, label in enumerate(labels):
        path.write_bytes(b if isinstance(b := BROKEN[label], bytes) else b.encode())
        before = set(os.listdir(folder))
        as_json = number % 2
        code, _ = checked(command.format(path.name), *["--json"] * as_json)
        new = set(os.listdir(folder)) - before
        assert not new or code in (0, 8), (label, new)
        for name in new:
            (folder / name).unlink()


PATHS = (".", "", "/dev/null", "nothing.csv", "x" * 300, "link.csv", "folder.csv", "a\nb.csv",
         "*.csv", "good.csv/x")  # fmt: skip


@pytest.mark.parametrize("command", list(COMMANDS)[::3])
def test_strange_paths(folder, checked, command):
    (folder / "link.csv").symlink_to("link.csv")
    (folder / "folder.csv").mkdir()
    name, *words = command.split()
    for path in PATHS:
        code, _ = checked(name, *(word.format(path) for word in words))
        assert code in (2, 3, 5)


GOOD, TABLES = "good.csv --schema schema.toml", "evaluate good.csv good.csv --schema schema.toml"
SYNTHESIZED = f"synthesize {GOOD} --epsilon 1 -o new.csv"
ASK = f"query {GOOD} --impute age --match größe"
NUMBERS = ("nan", "0", "-1", "1e5", "1e300", "1e-300", "")
# Options, commands, and the numbers that are no reason to refuse them.
FLOATS = [
    ("--epsilon", f"synthesize {GOOD} -o new.csv", ""),
    ("--epsilon", f"{ASK} 'count()'", ""),
    ("--delta", SYNTHESIZED, "0 1e-300"),
    ("--delta", f"{SYNTHESIZED} --method mst", "0 1e-300"),
    ("--rows", SYNTHESIZED, "0"),
    ("--rows", "sample model.json -o new.csv", "0"),
    ("--public-rows", f"fit {GOOD} --epsilon 1 -o new.json", ""),
    ("--seed", SYNTHESIZED, "0"),
    ("--seed", "sample model.json -o new.csv --rows 5", "0"),
    ("--prior", "guarantee model.json", "1e-300"),
    ("--rate", f"simulate {GOOD} --seed 1 -o new.csv", "0 1e-300"),
    ("--neighbors", f"{ASK} --epsilon 1 'count()'", ""),
    ("--ways", TABLES, ""),
]


@pytest.mark.long
@pytest.mark.parametrize(("option", "command", "fine"), FLOATS)
def test_odd_numbers_are_refused_by_the_name_of_their_option(
    folder, checked, option, command, fine
):
    for value in NUMBERS:
        for path in folder.glob("new.*"):
            path.unlink()
        code, err = checked(command, option, value)
        if value in fine.split():
            assert code != 2, (value, err)
            continue
        assert (code, option in err) == (2, True), (value, err)
        assert not Path("new.csv").exists(), value


def test_options_in_messages_are_options_that_exist(folder, run, checked):
    known = {"--help", *re.findall(r"--[a-z0-9-]+", run("query --help")[1])}
    for extra in (
        "'mean(nobody)'", "'mean(größe)'", "'mean(age)' --where x", "'mean(age)' --neighbors 0",
        "'count()' 'mean(x)'", "'correlation(age)'", "'mean(age)' --match age",
        "'mean(age)' --match", "'mean(age)' --within x", "'mean(age)' --impute nobody",
        "'count()' --impute ,", "'count()' --interval all", "'share(x)'",
        "'variance(age)' --interval worst-case", "'count()' --undeclared maybe",
    ):  # fmt: skip
        code, err = checked(f"{QUERY.replace('data', 'good')} {extra}")
        assert code in (2, 3, 6), (extra, err)
        assert set(re.findall(r"--[a-z0-9-]+", err)) <= known, err


@pytest.mark.parametrize("command", ["guarantee model.json", "sample model.json -o new.csv"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("guarantee",), None), (("guarantee", "events"), 3), (("model",), {}),
        (("model",), []), (("n_rows",), "x"), (("n_rows",), -5), (("n_rows",), 10**18),
        (("schema",), {}), (("kind",), "x"), (("parameters",), {"epsilon": "x"}),
        (("parameters",), 3), (("family",), ["PrivBayes"]), (("family",), {}), (("format",), 99),
    ],
)  # fmt: skip
def test_damaged_models(folder, checked, command, path, value):
    document = json.loads(Path("model.json").read_text())
    inner = document if len(path) == 1 else document[path[0]]
    inner[path[-1]] = value
    del document["sha256"]  # or nothing behind the checksum would be tried
    Path("model.json").write_text(json.dumps(seal(document)))
    before = set(os.listdir(folder))
    code, _ = checked(command)
    assert not code or set(os.listdir(folder)) == before


def test_every_exit_code_is_documented():
    page = (Path(__file__).parents[2] / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    stated = {int(code) for row in re.findall(r"^\| ([\d, ]+) \|", page, re.M) for code in
              row.split(",")}  # fmt: skip
    assert stated == {0, 1, 8, 129, 130, 143, *EXIT_CODES.values()}


def test_names_that_are_not_unicode(folder, terminal):
    name = os.fsdecode(b"caf\xe9.csv")
    code, shown = terminal("utf-8", "sample model.json -o", name, "--json")
    assert (code, (folder / name).exists()) == (0, True)
    assert json.loads(shown)["rows"] > 0
