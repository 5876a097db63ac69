"""What tests of the command line share: a way to run it, and a folder with a small survey."""

import importlib
import io
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, PrivBayes, Schema
from missdp.cli.main import _allow_unprintable, main


@pytest.fixture
def run(capsys):
    """Run a command; return its exit code, and what it printed on both streams."""

    def ran(*arguments):
        code = main([str(a) for a in arguments])
        found = capsys.readouterr()
        return code, found.out, found.err

    return ran


@pytest.fixture
def ok(run):
    """Run a command that must succeed, perhaps without a warning; return what it printed."""

    def ran(*arguments, quiet=False):
        code, out, err = run(*arguments)
        assert (code, err if quiet else "") == (0, ""), err
        return out

    return ran


@pytest.fixture
def fails(run):
    """Run a command that must fail with a code, and say why; return what it said."""

    def ran(code, says, *arguments):
        found, out, err = run(*arguments)
        assert (found, out, says in err) == (code, "", True), err
        return err

    return ran


@pytest.fixture(scope="session")
def bench():
    """What forks a command and looks at what is left of it."""
    return importlib.import_module("kill_release")


@pytest.fixture(scope="session")
def survey(tmp_path_factory):
    """A folder with 300 rows, with and without holes, their schema, and a model of them."""
    folder = tmp_path_factory.mktemp("survey")
    schema = Schema(
        (
            Categorical(name="größe", levels=("S", "L"), nullable=True),
            Numeric(name="age", lower=0, upper=99, integer=True, bins=5, nullable=True),
        )
    )
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
    """Run a command on a terminal of some encoding, as the script does; return what it shows."""

    def ran(encoding, *arguments):
        shown = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
        monkeypatch.setattr(sys, "stdout", shown)
        _allow_unprintable()
        code = main([*map(str, arguments)])
        return code, shown.buffer.getvalue().decode(encoding)

    return ran
