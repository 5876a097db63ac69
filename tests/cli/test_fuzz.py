"""No input brings a traceback, a private value, or half a file; exit codes are documented."""

import json
import os
import re
from pathlib import Path

import pytest

from missdp.cli.app import app
from missdp.cli.main import EXIT_CODES
from missdp.record import sealed

TOKEN = "Xq7Zt"  # stands for a private cell
NUMBER = "918273645"  # another one
TOKENS = re.compile(f'{TOKEN}|{NUMBER}|Traceback|unexpected|File "')


@pytest.fixture(name="folder")
def _folder(folder, survey):
    Path("good.csv").write_bytes(Path("data.csv").read_bytes())
    Path("model.json").write_bytes((survey / "m.json").read_bytes())
    return folder


BROKEN = {
    "empty": b"",
    "header only": "größe,age\n".encode(),
    "one row": "größe,age\nS,5\n".encode(),
    "unknown level": f"größe,age\n{TOKEN},5\nS,1\n".encode(),
    "text for a number": f"größe,age\nS,{TOKEN}\n".encode(),
    "number outside": f"größe,age\nS,{NUMBER}\n".encode(),
    "not whole": f"größe,age\nS,5.{NUMBER}\n".encode(),
    "huge integer": f"größe,age\nS,{NUMBER * 40}\n".encode(),
    "too many cells": f"größe,age\nS,5,{TOKEN},{NUMBER}\n".encode(),
    "too few cells": f"größe,age\n{TOKEN}\n".encode(),
    "open quote": f'größe,age\n"{TOKEN},5\n'.encode(),
    "other columns": f"größe,age,more\nS,5,{TOKEN}\n".encode(),
    "same column twice": f"age,age\n{TOKEN},{NUMBER}\n".encode(),
    "empty name": f"größe,\nS,{TOKEN}\n".encode(),
    "no header": f"{TOKEN},{NUMBER}\nS,5\n".encode(),
    "latin-1": f"größe,age\n{TOKEN}é,5\n".encode("latin-1"),
    "binary": bytes(range(256)) * 4 + TOKEN.encode(),
    "zeros": b"\0" * 100 + TOKEN.encode(),
    "toml": f"{TOKEN} = 1\n{TOKEN} = 2\n[{NUMBER}]\n".encode(),
    "json": json.dumps({"family": TOKEN, "format": NUMBER}).encode(),
    "json list": json.dumps([TOKEN]).encode(),
    "model of nothing": json.dumps({"family": "PrivBayes", "format": 1, "x": TOKEN}).encode(),
    "deep": b"[" * 100_000,
    "bom": "\ufeffgröße,age\nS,5\n".encode() + f"{TOKEN},1\n".encode(),
}

DATA = ("empty", "header only", "one row", "unknown level", "text for a number", "not whole",
        "number outside", "huge integer", "too many cells", "too few cells", "open quote",
        "other columns", "same column twice", "empty name", "no header", "latin-1",
        "binary", "zeros", "bom")  # fmt: skip
FACTS = ("empty", "unknown level", "toml", "json", "latin-1", "binary", "zeros", "deep")
MODEL = ("empty", "unknown level", "json", "json list", "model of nothing", "latin-1", "deep")
# What is asked, and which files stand for {0}.
COMMANDS = {
    "synthesize {0} --schema schema.toml --epsilon 1 -o new.csv": (".csv", DATA),
    "synthesize good.csv --schema {0} --epsilon 1 -o new.csv": (".toml", FACTS),
    "query {0} --schema schema.toml --impute age --match größe --epsilon 1 --mean age": (
        ".csv",
        DATA,
    ),
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


def check(code, out, err):
    """What holds whatever was asked."""
    assert code in {0, 8, *EXIT_CODES.values()}, (code, err)
    assert not TOKENS.search(err), err
    if code:
        assert err.strip()
        assert not TOKENS.search(out), out


@pytest.mark.parametrize("command", COMMANDS)
def test_broken_files(folder, run, command):
    suffix, labels = COMMANDS[command]
    path = folder / f"private{suffix}"
    for number, label in enumerate(labels):
        path.write_bytes(BROKEN[label])
        before = set(os.listdir(folder))
        words = [word.format(path.name) for word in command.split()]
        more = ("--json",) if number % 2 and words[0] not in ("simulate", "schema") else ()
        code, out, err = run(*words, *more)
        check(code, out, err)
        new = set(os.listdir(folder)) - before
        assert not new or code in (0, 8), (label, new)
        for name in new:
            (folder / name).unlink()


PATHS = (".", "", "/dev/null", "nothing.csv", "x" * 300, "link.csv", "folder.csv", "a\nb.csv",
         "*.csv", "good.csv/x")  # fmt: skip


@pytest.mark.parametrize("command", list(COMMANDS)[::3])
def test_strange_paths(folder, run, command):
    (folder / "link.csv").symlink_to("link.csv")
    (folder / "folder.csv").mkdir()
    for path in PATHS:
        code, out, err = run(*[word.format(path) for word in command.split()])
        check(code, out, err)
        assert code in (2, 3, 5)


NUMBERS = ("nan", "0", "-1", "1e5", "1e300", "1e-300", "")
FLOATS = {
    "--epsilon": "synthesize good.csv --schema schema.toml -o new.csv",
    "--delta": "synthesize good.csv --schema schema.toml --epsilon 1 -o new.csv",
    "--rows": "synthesize good.csv --schema schema.toml --epsilon 1 -o new.csv",
    "--public-rows": "synthesize good.csv --schema schema.toml --epsilon 1 --rows 5 -o new.csv",
    "--seed": "synthesize good.csv --schema schema.toml --epsilon 1 -o new.csv",
    "--p-max": "price model.json --ground-truth",
    "--rate": "simulate good.csv --schema schema.toml --seed 1 -o new.csv",
    "--k": "query good.csv --schema schema.toml --impute age --match größe --epsilon 1 --count",
    "--bins": "evaluate good.csv good.csv --schema schema.toml",
    "--ways": "evaluate good.csv good.csv --schema schema.toml",
}
FLOATS_TWICE = {
    "--epsilon": "query good.csv --schema schema.toml --impute age --match größe --count",
    "--delta": "synthesize good.csv --schema schema.toml --epsilon 1 -o new.csv --method mst",
    "--rows": "sample model.json -o new.csv",
    "--seed": "sample model.json -o new.csv --rows 5",
}


@pytest.mark.parametrize(
    ("option", "command"), [*FLOATS.items(), *FLOATS_TWICE.items()], ids=lambda v: v.split()[0]
)
def test_odd_numbers_are_refused_by_the_name_of_their_option(folder, run, option, command):
    for value in NUMBERS:
        (folder / "new.csv").unlink(missing_ok=True)
        code, out, err = run(*command.split(), option, value)
        check(code, out, err)
        if code == 2:
            assert option in err, (value, err)
            assert not (folder / "new.csv").exists(), value


def test_options_in_messages_are_options_that_exist(folder, run):
    words = "query good.csv --schema schema.toml --impute age --match größe --epsilon 1"
    known = {"--help", *re.findall(r"--[a-z0-9-]+", run("query", "--help")[1])}
    for extra in (
        "--mean nobody", "--mean größe", "--mean age --where x", "--mean age --k 0",
        "--count --mean x",
        "--correlation age", "--mean age --match age", "--mean age --match", "--mean age --group x",
        "--mean age --impute nobody", "--count --impute ,", "--count --uncertainty all",
        "--variance age --uncertainty worst-case", "--proportion x", "--count --undeclared maybe",
    ):  # fmt: skip
        code, out, err = run(*words.split(), *extra.split())
        check(code, out, err)
        assert code in (2, 3, 6), (extra, err)
        assert set(re.findall(r"--[a-z0-9-]+", err)) <= known, err


@pytest.mark.parametrize("name", ["price", "sample"])
@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("guarantee",), None), (("guarantee", "events"), 3), (("released",), {}),
        (("released",), []), (("n_rows",), "x"), (("n_rows",), -5), (("n_rows",), 10**18),
        (("schema",), {}), (("kind",), "x"), (("parameters",), {"epsilon": "x"}),
        (("parameters",), 3), (("family",), ["PrivBayes"]), (("family",), {}), (("format",), 99),
    ],
)  # fmt: skip
def test_damaged_models(folder, run, name, path, value):
    document = json.loads((folder / "model.json").read_text())
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    del document["sha256"]  # or nothing behind the checksum would be tried
    (folder / "model.json").write_text(json.dumps(sealed(document)))
    before = set(os.listdir(folder))
    more = ("-o", "new.csv") if name == "sample" else ()
    code, out, err = run(name, "model.json", *more)
    check(code, out, err)
    if code:
        assert set(os.listdir(folder)) == before


def test_every_exit_code_is_documented():
    words = " ".join((app.info.epilog or "").split())
    for code in {0, 1, 8, 130, 143, *EXIT_CODES.values()}:
        assert re.search(rf"\b{code} [a-z]", words), code


def test_names_that_are_not_unicode(folder, terminal):
    name = os.fsdecode(b"caf\xe9.csv")
    code, shown = terminal("utf-8", "sample", "model.json", "-o", name, "--json")
    assert code == 0
    assert json.loads(shown)["rows"] > 0
    assert (folder / name).exists()
