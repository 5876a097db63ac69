"""Fixtures that tests of the command line share: runners, and a folder with a small survey."""

import importlib
import io
import json
import shlex
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, PrivBayes, Schema
from missdp.cli.charge import UNRECORDED
from missdp.cli.main import _allow_unprintable, main


def words(command, *more):
    """A command as it is typed, and words after it as they are."""
    return [*shlex.split(str(command)), *map(str, more)]


@pytest.fixture
def run(capsys):
    """Run a command. Return its exit code and the text that it printed on both streams."""

    def ran(*command):
        code = main(words(*command))
        found = capsys.readouterr()
        return code, found.out, found.err

    return ran


def _without_noise_line(err):
    """Return the printed text of a command without the line that small tables are mostly noise."""
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if "most relations between columns" not in line)


@pytest.fixture
def without_noise_line():
    return _without_noise_line


@pytest.fixture
def ok(run):
    """Run a command that must succeed, perhaps without a warning. Return its printed text."""

    def ran(*command, quiet=False):
        code, out, err = run(*command)
        # The first is no warning, and the second is expected of small tables.
        warned = _without_noise_line(err.replace(f"{UNRECORDED}\n", "")) if quiet else ""
        assert (code, warned) == (0, ""), err
        return out

    return ran


@pytest.fixture
def told(ok):
    """Run a command that must succeed. Return the document that it prints."""
    return lambda *command, quiet=False: json.loads(ok(*command, "--json", quiet=quiet))


@pytest.fixture
def fails(run):
    """Run a command that must fail with a code and a reason. Return its error message."""

    def ran(code, says, *command):
        found, out, err = run(*command)
        if "--json" in words(*command):
            assert json.loads(out)["error"]["exit_code"] == code
            out = ""
        assert (found, out, says in err) == (code, "", True), err
        return err

    return ran


@pytest.fixture(scope="session")
def bench():
    """Return the module that forks a command and examines its remains."""
    return importlib.import_module("kill_release")


@pytest.fixture(scope="session")
def survey(tmp_path_factory):
    """Return a folder with a schema, 300 rows with and without missing cells, and a model."""
    folder = tmp_path_factory.mktemp("survey")
    age = Numeric(name="age", lower=0, upper=99, integer=True, bins=5, nullable=True)
    schema = Schema((Categorical(name="größe", levels=("S", "L"), nullable=True), age))
    schema.to_toml(folder / "schema.toml")
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"größe": rng.choice(["S", "L"], 300), "age": rng.integers(0, 100, 300)})
    frame.to_csv(folder / "complete.csv", index=False)
    frame = frame.astype({"age": "Int64"}).mask(rng.random((300, 2)) < 0.2)
    frame.to_csv(folder / "data.csv", index=False)
    PrivBayes(epsilon=1.0, n_rows=300).fit(frame, schema=schema).save(folder / "m.json")
    return folder


@pytest.fixture
def folder(survey, tmp_path, monkeypatch):
    """Be in a folder of one's own with that survey."""
    monkeypatch.chdir(tmp_path)
    for name in ("schema.toml", "complete.csv", "data.csv"):
        Path(name).write_bytes((survey / name).read_bytes())
    return tmp_path


@pytest.fixture
def terminal(monkeypatch):
    """Run a command on a terminal of some encoding, as the script does. Return its screen text."""

    def ran(encoding, *command):
        shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", shown)
        _allow_unprintable()
        return main(words(*command)), shown.buffer.getvalue().decode(encoding)

    return ran
