"""What is wrong is refused before a charge: a code, a reason, no file, no traceback, no cell."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from missdp import Numeric, Schema
from missdp.cli.app import app
from missdp.cli.main import EXIT_CODES
from missdp.record import sealed
from missdp.session import Session

SYNTHESIZE = "synthesize data.csv --schema schema.toml -o out.csv --epsilon 1"
ASKED = "synthesize unread.csv --schema schema.toml -o out.csv"
TRUTH = f"{ASKED} --ground-truth-epsilon 1"
SIMULATE = "simulate complete.csv --schema schema.toml --rate 0.3 --seed 1 -o x.csv"
IMPUTE = "impute data.csv --schema schema.toml --model m.json -o filled.csv"
PRICE = "price m.json"
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

# What is asked, the exit code, and what the refusal says.
REFUSED = [
    (f"{SYNTHESIZE} --delta 0 --method all-pairs", 2, "delta"),
    (f"{SYNTHESIZE} --missing guess", 2, "--missing must be one of"),
    (f"{SYNTHESIZE} --method guess", 2, "privbayes"),
    (f"{SYNTHESIZE} --method aim --set round=2", 2, "no parameter 'round'"),
    (f"{SYNTHESIZE} --method aim --set rounds=x", 2, "whole number"),
    (f"{SYNTHESIZE} --set workload=age,agee", 2, "'agee', which the schema does not have. Did you"),
    (f"{SYNTHESIZE} --rows {10**15}", 2, "--rows must"),
    (f"{SYNTHESIZE} --rows {'9' * 30}", 2, "--rows must"),
    (f"{SYNTHESIZE} --public-rows {10**15}", 2, "--rows must"),
    (f"{SYNTHESIZE} --missing observed --keep-holes", 2, "joint"),
    (f"{SYNTHESIZE} --holes zeros", 2, "--holes"),
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
    *((f"{SYNTHESIZE} --model {name}", 5, says) for name, says in (
        (".", "folder"), ("/proc/m.json", "cannot write"), ("out.csv", "same command"),
        ("/dev/full", "no"), ("schema.toml", "same command"), ("nowhere/m.json", "folder"),
    )),
    (f"{SYNTHESIZE} --guarantee /proc/g.json", 5, "cannot write"),
    (f"{SYNTHESIZE} --guarantee ./out.csv", 5, "same command"),
    (f"{SYNTHESIZE} --model n.json --guarantee n.json", 5, "same command"),
    (ASKED, 2, "--epsilon is required"),
    (f"{TRUTH} --epsilon 1", 2, "not both"),
    (TRUTH, 2, "--observed, --p-max or --row-independent"),
    (f"{ASKED} --epsilon 1 --p-max 0.5", 2, "--ground-truth-epsilon"),
    (f"{TRUTH} --p-max 0.5 --row-independent", 2, "one assumption"),
    (f"{TRUTH} --observed much", 2, "age=0.9"),
    (f"{TRUTH} --observed 1.5", 2, "between 0 and 1"),
    (f"{TRUTH} --observed nosuch=0.5", 2, "nosuch"),
    (f"{ASKED} --ground-truth-epsilon 0 --p-max 0.5", 2, "epsilon must be"),
    (f"{ASKED} --ground-truth-epsilon 99 --p-max 0.5 --method mst", 2, "between 0 and 64"),
    (f"{SIMULATE} --mechanism guess", 2, "--mechanism must be one of"),
    (f"{SIMULATE} -o nowhere/x.csv", 5, "folder"),
    (f"{SIMULATE} -o complete.csv", 5, "same command"),
    *((f"{command} -o other.csv", 5, "'other.csv' exists. Use --overwrite to replace it")
      for command in (SIMULATE, IMPUTE, SAMPLE)),
    (f"{SIMULATE} --output-schema schema.toml", 5, "same command"),
    ("schema draft data.csv -o data.csv --overwrite", 5, "same command"),
    ("schema draft data.csv -o schema.toml", 5, "exists"),
    (f"{IMPUTE} --draws 0", 2, "--draws must be from 1"),
    (f"{IMPUTE} -o filled.txt", 5, "end the name in"),
    (f"{IMPUTE} -o data.csv", 5, "same command"),
    (f"{IMPUTE} --model absent.json", 3, "no model file"),
    (f"{IMPUTE} --schema other.toml", 3, "another schema"),
    (f"{SAMPLE} -o m.json", 5, ".csv"),
    (f"{SAMPLE} -o no/x.csv --keep-holes --holes codes", 5, "folder"),
    (f"{SAMPLE} --holes zeros", 2, "--holes"),
    (f"{SAMPLE} --memory 500MiB", 2, "--memory must be"),
    (f"{SAMPLE} --multiple 1", 2, "--multiple must"),
    (f"{SAMPLE} --multiple 1001", 2, "--multiple must"),
    (f"{SAMPLE} --multiple 3 --rows {10**12}", 2, "--rows must be at most"),
    (f"{SAMPLE} --multiple 3", 2, "multiple"),
    *((f"{c} schema.toml -o x.csv", 3, "not a missdp model") for c in ("sample", "dossier")),
    (f"{EVALUATE} --test data.csv", 2, "--test is for --f1"),
    ("evaluate other.csv data.csv --schema schema.toml", 3, "the private table: column 'größe'"),
    ("evaluate data.csv other.csv --schema schema.toml", 3, "the synthetic table: column 'größe'"),
    ("evaluate data.csv no.csv --schema schema.toml", 3, "no data file at 'no.csv'"),
    (f"{EVALUATE} --f1 --test other.csv", 3, "the held-out rows: column 'größe'"),
    (f"{PRICE} --ground-truth", 2, "assumption"),
    (f"{PRICE} --p-max 0.5", 2, "ground-truth"),
    (f"{PRICE} --delta 1e-6", 2, "pipelines"),
    (f"{PRICE} --ground-truth --observed nosuch=.5", 2, "--observed names"),
    (f"{PRICE} --ground-truth --observed age=.5,age=.6", 2, "twice"),
    (f"{PRICE} --ground-truth --p-max 0.5 --row-independent", 2, "one assumption"),
    (f"{PRICE} --ground-truth --observed age=x", 2, "age=0.9"),
    (f"{PRICE} --ground-truth --observed age=2", 2, "age"),
    ("price none.json", 3, "no model file"),
    ("price .", 3, "cannot read"),
    (f"{PIPELINE} --ground-truth --row-independent", 2, "for saved models"),
    (f"{PIPELINE} --delta 2", 2, "--delta must"),
    (QUERY, 2, "exactly one"),
    (f"{QUERY} --mean age --by größe --uncertainty total", 2, "are of noise alone"),
    (f"{QUERY} --variance age --uncertainty total", 2, "are of noise alone"),
    (f"{QUERY} --questions q.toml --by größe", 2, "--by stand in the file of --questions"),
    (f"{QUERY} --mean age --count", 2, "exactly one"),
    (f"{QUERY} --proportion 'age >'", 2, "--proportion: found the end of the text"),
    (f"{QUERY} --mean age --where 'age >>> 3'", 2, "where"),
    (f"{QUERY} --mean age --where \"__import__('os')\"", 2, ""),
    (f"{QUERY} --mean größe", 2, "numeric"),
    (f"{QUERY} --mean nobody", 3, "nobody"),
    (f"{QUERY} --correlation age", 2, "2 attribute"),
]  # fmt: skip


@pytest.fixture(scope="module")
def place(survey, tmp_path_factory):
    folder = tmp_path_factory.mktemp("refusals")
    shutil.copytree(survey, folder, dirs_exist_ok=True)
    age = Numeric(name="age", lower=0, upper=120)
    Schema((Schema.from_toml(folder / "schema.toml")["größe"], age)).to_toml(folder / "other.toml")
    (folder / "other.csv").write_text("größe,age\nsecret,5\n", encoding="utf-8")
    (folder / "unread.csv").write_text("not read")
    (folder / "pipeline.toml").write_text(PIPELINE_FILE)
    return folder


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(("command", "code", "says"), REFUSED, ids=lambda v: str(v)[-40:])
def test_it_is_refused(place, fails, monkeypatch, command, code, says):
    monkeypatch.chdir(place)
    monkeypatch.setattr(Session, "_charge", None)  # to charge would be something unexpected
    before = contents(place)
    err = fails(code, says, command)
    assert err.startswith(("missdp: ", "Usage: "))
    assert not any(word in err for word in ("Traceback", "unexpected", "charged", "secret"))
    assert contents(place) == before


# Whatever comes in
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
# What is asked, and which files stand for {0}.
COMMANDS = {
    "synthesize {0} --schema schema.toml --epsilon 1 -o new.csv": (".csv", DATA),
    "synthesize good.csv --schema {0} --epsilon 1 -o new.csv": (".toml", FACTS),
    QUERY.replace("data.csv", "{0}") + " --mean age": (".csv", DATA),
    "evaluate {0} good.csv --schema schema.toml": (".csv", DATA),
    "evaluate good.csv {0} --schema schema.toml": (".parquet", FACTS),
    "simulate {0} --schema schema.toml --rate 0.2 --seed 1 -o new.csv": (".csv", DATA),
    "schema check schema.toml {0}": (".csv", DATA),
    "schema check {0}": (".csv", FACTS),
    "schema draft {0} -o new.toml": (".csv", DATA),
    "sample {0} -o new.csv": (".json", MODEL),
    "impute {0} --schema schema.toml --model model.json -o new.csv": (".csv", DATA),
    "impute good.csv --schema schema.toml --model {0} -o new.csv": (".json", MODEL),
    "price {0}": (".json", MODEL),
    "price {0} --delta 1e-6": (".toml", FACTS),
}


@pytest.fixture(name="folder")
def _folder(folder, survey):
    Path("good.csv").write_bytes(Path("data.csv").read_bytes())
    Path("model.json").write_bytes((survey / "m.json").read_bytes())
    return folder


@pytest.fixture
def checked(run):
    """Run a command of which holds what holds whatever is asked; return its code and refusal."""

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
        as_json = number % 2 and command.split()[0] not in ("simulate", "schema")
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
    ("--epsilon", f"{ASK} --count", ""),
    ("--delta", SYNTHESIZED, "0 1e-300"),
    ("--delta", f"{SYNTHESIZED} --method mst", "0 1e-300"),
    ("--rows", SYNTHESIZED, "0"),
    ("--rows", "sample model.json -o new.csv", "0"),
    ("--public-rows", f"{SYNTHESIZED} --rows 5", ""),
    ("--seed", SYNTHESIZED, "0"),
    ("--seed", "sample model.json -o new.csv --rows 5", "0"),
    ("--p-max", "price model.json --ground-truth", "0 1e-300"),
    ("--rate", f"simulate {GOOD} --seed 1 -o new.csv", "0 1e-300"),
    ("--k", f"{ASK} --epsilon 1 --count", ""),
    ("--bins", TABLES, ""),
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
        "--mean nobody", "--mean größe", "--mean age --where x", "--mean age --k 0",
        "--count --mean x",
        "--correlation age", "--mean age --match age", "--mean age --match", "--mean age --group x",
        "--mean age --impute nobody", "--count --impute ,", "--count --uncertainty all",
        "--variance age --uncertainty worst-case", "--proportion x", "--count --undeclared maybe",
    ):  # fmt: skip
        code, err = checked(f"{QUERY.replace('data', 'good')} {extra}")
        assert code in (2, 3, 6), (extra, err)
        assert set(re.findall(r"--[a-z0-9-]+", err)) <= known, err


@pytest.mark.parametrize("command", ["price model.json", "sample model.json -o new.csv"])
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
    Path("model.json").write_text(json.dumps(sealed(document)))
    before = set(os.listdir(folder))
    code, _ = checked(command)
    assert not code or set(os.listdir(folder)) == before


def test_every_exit_code_is_documented():
    words = " ".join((app.info.epilog or "").split())
    for code in {0, 1, 8, 130, 143, *EXIT_CODES.values()}:
        assert re.search(rf"\b{code} [a-z]", words), code


def test_names_that_are_not_unicode(folder, terminal):
    name = os.fsdecode(b"caf\xe9.csv")
    code, shown = terminal("utf-8", "sample model.json -o", name, "--json")
    assert (code, (folder / name).exists()) == (0, True)
    assert json.loads(shown)["rows"] > 0
