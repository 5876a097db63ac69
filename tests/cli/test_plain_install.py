"""After `pip install missdp` without extras, a command works or names the missing extra."""

import ast
import contextlib
import json
import shlex
import sqlite3
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import missdp
from missdp.cli.app import COMMANDS
from missdp.errors import EXTRA_OF, MissingDependencyError, ParameterError, import_optional
from missdp.table.frames import native_from_arrow

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = {"dev", "docs", "reference", "release"}
EXTRAS = set(PROJECT["optional-dependencies"]) - FOR_DEVELOPERS

SYNTHESIZE = "synthesize p.csv --schema s.toml --epsilon 1"
FIT = "fit p.csv --schema s.toml --epsilon 1 --public-rows 60"
QUERY = "query p.csv --schema s.toml --impute age --match smoker --epsilon 1 'mean(age)'"
# The order matters, since later commands read the files of earlier ones. None: the command works.
CASES = {
    "version --verbose": None,
    "schema init p.csv -o draft.toml": None,
    "schema check s.toml p.csv": None,
    "schema check s.toml sqlite:///visits.db --table visits": None,
    f"{SYNTHESIZE} -o out.csv": None,
    f"{FIT} -o aim.json --method aim": None,
    f"{SYNTHESIZE} -o kept.parquet --keep-missing": None,
    "sample out.model.json -o more.csv --rows 5": None,
    "sample out.model.json -o more.feather --rows 5": None,
    "estimate out.model.json 'mean(age) by smoker'": None,
    "estimate out.model.json 'mean(age)' --shift age=0:0.5": None,
    "impute p.csv --model out.model.json -o filled.csv": None,
    "evaluate p.csv out.csv --schema s.toml": None,
    "simulate c.csv --schema s.toml --rate 0.2 --seed 1 -o incomplete.csv": None,
    QUERY: None,
    "guarantee out.model.json --prior 0.1": None,
    "price pipeline.toml": None,
    "ledger create --account p --epsilon 3 --delta 1e-6 --ledger sqlite:///b.db": None,
    "ledger show --ledger sqlite:///b.db": None,
    "plan s.toml --rows 60 --epsilon 1": None,
    "demo -o demo.csv": None,
    # By extra
    "publish out.model.json -o dossier": "report",
    "app p.csv --no-browser": "app",
    "evaluate p.csv out.model.json --html curator/report.html": "report",
    "estimate out.model.json 'mean(age)' --shift age=0:1 --plot s.svg": "plot",
    "evaluate p.csv out.csv --schema s.toml --plot e.svg": "plot",
    "evaluate p.csv out.csv --schema s.toml --f1": "learners",
    "schema check s.toml postgresql://me@localhost/visits --table visits": "ledger",
    "ledger show --ledger postgresql://me@localhost/ledger": "ledger",
    "schema init p.sav -o sav.toml": "stat",
    "sample out.model.json -o more.sav --rows 5": "stat",
    f"{SYNTHESIZE} -o stata.dta": "stat",
    "schema init p.xlsx -o xlsx.toml": "excel",
    "sample out.model.json -o more.xlsx --rows 5": "excel",
    f"{SYNTHESIZE} -o excel.xlsx": "excel",
    f"{FIT} -o spark.json --engine spark": "spark",
    f"{FIT} -o gan.json --method dp-ctgan": "neural",
}
PIPELINE = """
delta = 1e-6
[table]
rows = 1000
columns = 4
[mechanism]
kind = "mean"
noise_multiplier = 8.0
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Exit code and message of every command, all run in one process without extras."""
    folder = tmp_path_factory.mktemp("plain")
    rng = np.random.default_rng(0)
    columns = {"smoker": rng.choice(["no", "yes"], 60), "age": rng.integers(18, 99, 60)}
    frame = pd.DataFrame(columns).astype({"age": "Int64"})
    frame.to_csv(folder / "c.csv", index=False)
    frame.mask(rng.random((60, 2)) < 0.2).to_csv(folder / "p.csv", index=False)
    age = missdp.Numeric(name="age", lower=18, upper=98, integer=True, bins=4, nullable=True)
    smoker = missdp.Categorical(name="smoker", levels=("no", "yes"), nullable=True)
    missdp.Schema((smoker, age)).to_toml(folder / "s.toml")
    with contextlib.closing(sqlite3.connect(folder / "visits.db")) as made:
        frame.to_sql("visits", made, index=False)
    for name in ("p.sav", "p.xlsx"):
        (folder / name).touch()
    (folder / "curator").mkdir()
    (folder / "pipeline.toml").write_text(PIPELINE)
    done = subprocess.run(
        [sys.executable, Path(__file__).with_name("plain_install.py")],
        input=json.dumps([shlex.split(command) for command in CASES]),
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(zip(CASES, json.loads(done.stdout.splitlines()[-1]), strict=True))


@pytest.mark.long
@pytest.mark.parametrize("command", CASES)
def test_command_without_extras_works_or_names_it(command, results):
    code, message = results[command]
    if CASES[command] is None:
        assert code == 0, message
    else:
        assert code == 7, message
        assert f"run pip install 'missdp[{CASES[command]}]'" in message
        assert message.count("\n") == 1  # so nothing was released or charged before


@pytest.mark.long
def test_cases_cover_every_command_and_extra():
    assert {command.split()[0] for command in CASES} == set(COMMANDS)
    assert {*filter(None, CASES.values())} == EXTRAS - {"polars"}  # no command needs polars


@pytest.mark.long
def test_optional_polars_is_named_when_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(MissingDependencyError, match=r"run pip install 'missdp\[polars\]'"):
        native_from_arrow(None, "polars")


@pytest.mark.long
def test_extra_of_lists_extras_that_exist():
    assert {*EXTRA_OF.values()} == EXTRAS


@pytest.mark.long
@pytest.mark.parametrize("name", EXTRA_OF)
def test_import_optional_missing_package_names_extra(name, monkeypatch):
    monkeypatch.setitem(sys.modules, name, None)
    expected = rf"^pictures need the optional package {name}, .*'missdp\[{EXTRA_OF[name]}\]'$"
    with pytest.raises(MissingDependencyError, match=expected):
        import_optional(f"{name}.part", purpose="pictures")


# Modules that are imported only once a Spark session exists, from scikit-learn itself, or once
# torch and opacus were found. The page imports starlette after `PageServer` has looked for it.
GUARDED = {
    "app/server.py",
    "baselines/games.py",
    "baselines/private_training.py",
    "engines/spark.py",
    "engines/spark_sessions.py",
    "engines/spark_tasks.py",
    "estimator.py",
}


def unguarded(tree):
    """Imports of a module that fail if a package is absent: not for types, not handled."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            waiting += node.orelse
        elif isinstance(node, ast.Try) and "except ImportError" in ast.unparse(node):
            continue
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        else:
            waiting += ast.iter_child_nodes(node)


@pytest.mark.long
def test_optional_packages_are_imported_by_import_optional():
    package = ROOT / "src" / "missdp"
    declared = [line.partition(">")[0].replace("-", "_") for line in PROJECT["dependencies"]]
    allowed = {*sys.stdlib_module_names, *declared, "missdp", "pydantic_core", ""}
    found = [
        f"{path.relative_to(package)}: {name}"
        for path in sorted(package.rglob("*.py"))
        if path.relative_to(package).as_posix() not in GUARDED
        for name in unguarded(ast.parse(path.read_text(encoding="utf-8")))
        if name.partition(".")[0] not in allowed
    ]
    assert found == []


def test_import_optional_package_without_extra_raises_error():
    with pytest.raises(ParameterError, match="no extra installs the package 'numpy'"):
        import_optional("numpy.linalg", purpose="pictures")
