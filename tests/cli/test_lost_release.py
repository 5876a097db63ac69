"""Whatever fails, and whenever: either nothing is charged, or what was paid for is not lost."""

import errno
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

import missdp
from missdp import AllPairs, Table
from missdp.cli.main import main
from missdp.synth.base import Synthesizer

SYNTHESIZE = ("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", 1, "-o", "out.csv")
QUERY = ("query", "data.csv", "--schema", "schema.toml", "--impute", "age", "--match", "größe")
QUERY += ("--epsilon", 1, "--mean", "age")
FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")
posix = pytest.mark.skipif(sys.platform == "win32", reason="limits and signals of another kind")


@pytest.fixture
def fits(monkeypatch):
    """How many fits there were: a refusal in time leaves this empty."""
    done = []
    fit = Synthesizer.fit

    def counted(self, *arguments, **more):
        done.append(type(self).__name__)
        return fit(self, *arguments, **more)

    monkeypatch.setattr(Synthesizer, "fit", counted)
    return done


def process(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "missdp", *map(str, arguments)],
        stderr=subprocess.PIPE, text=True, check=False, timeout=120, **options,
    )  # fmt: skip


@pytest.fixture
def on_a_small_disk(bench, folder):
    """Run a command that may write so many bytes to a file; return what `run` returns."""

    def ran(size, *arguments):
        import resource

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        return bench.ended(bench.forked(folder, [*map(str, arguments)], limit))

    return ran


# -- refused in time ---------------------------------------------------------------------------
@posix
def test_a_disk_without_room_for_the_model_is_refused_before_the_charge(folder, on_a_small_disk):
    code, _, err = on_a_small_disk(100_000, *SYNTHESIZE)
    assert code == 5
    assert ".model.json" in err
    assert "charged" not in err
    assert sorted(os.listdir(folder)) == ["complete.csv", "data.csv", "schema.toml"]


def test_an_answer_to_nowhere_is_refused_before_the_charge(folder, capsys, monkeypatch, fits):
    monkeypatch.setattr(sys, "stdout", None)
    for command in (SYNTHESIZE, QUERY, ("demo",)):
        assert main([str(a) for a in command]) == 5
    err = capsys.readouterr().err
    assert err.count("standard output: it is closed") == 3
    assert "charged" not in err
    assert not fits


@posix
def test_a_disk_that_fills_up_while_rows_are_sampled_leaves_what_was_there(
    folder, ok, on_a_small_disk
):
    ok(*SYNTHESIZE)
    Path("more.parquet").write_text("old")
    before = sorted(os.listdir(folder))
    more = ("sample", "out.model.json", "-o", "more.parquet", "--rows", 150_000, "--overwrite")
    code, _, err = on_a_small_disk(2**16, *more)
    assert (code, err.count("\n")) == (5, 1)
    assert "File too large" in err
    assert Path("more.parquet").read_text() == "old"
    assert sorted(os.listdir(folder)) == before


# -- charged, and then something fails ---------------------------------------------------------
@posix
def test_a_disk_that_fills_up_later_leaves_the_model_and_says_how_to_go_on(
    folder, monkeypatch, on_a_small_disk
):
    monkeypatch.setattr("missdp.cli.release_files._ROOM", 2**16)
    code, out, err = on_a_small_disk(2**18, *SYNTHESIZE, "--rows", 70_000)
    assert (code, out) == (8, ""), err
    _, first, second, third = err.splitlines()
    assert first.startswith("missdp: cannot write 'out-")
    assert os.strerror(errno.EFBIG) in first
    assert "charged (epsilon = 1, delta = 1e-06)" in second
    (kept,) = (path.name for path in folder.glob("out-*.model.json"))
    assert third.endswith(f"missdp sample {kept} -o out.csv")
    assert sorted(os.listdir(folder)) == ["complete.csv", "data.csv", kept, "schema.toml"]
    assert main(third.split("missdp ")[1].split()) == 0
    assert len(pd.read_csv("out.csv")) > 200


@pytest.mark.parametrize("where", ["sample_blocks", "to_arrow"])
@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("private"), OSError(28, "private")])
def test_any_later_failure_leaves_the_model(folder, run, monkeypatch, where, error):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(Table if where == "to_arrow" else AllPairs, where, fail)
    code, out, err = run(*SYNTHESIZE, "--json")
    assert (code, out) == (8, "")
    assert "private" not in err.replace("private data", "").replace("private cells", "")
    assert "charged (epsilon = 1, delta = 1e-06)" in err
    monkeypatch.undo()
    (kept,) = folder.glob("out-*.model.json")
    assert kept.name in err
    assert missdp.load(kept).guarantee_.epsilon == 1.0


def test_a_model_that_cannot_be_saved_there_is_saved_elsewhere(folder, run, monkeypatch):
    def refuse(source, target, *, named, **more):
        if Path(target).name.endswith(".model.json") and Path(target).parent == folder:
            raise OSError(errno.EBUSY, "busy")
        named(source, target, **more)

    for step in ("link", "replace"):
        given = partial(refuse, named=getattr(os, step))
        monkeypatch.setattr(f"missdp.files.os.{step}", given)
    (folder / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder / "tmp"))
    code, _, err = run(*SYNTHESIZE, "--model", "m.json")
    assert code == 8
    assert sorted(os.listdir(folder)) == ["complete.csv", "data.csv", "schema.toml", "tmp"]
    (kept,) = (folder / "tmp").rglob("*.model.json")
    assert os.path.relpath(kept) in err
    assert missdp.load(kept).guarantee_.epsilon == 1.0


def test_an_empty_file_is_only_written_if_asked_for(folder, run, ok, monkeypatch, fails):
    monkeypatch.setattr("missdp.synth.state.whole_rows", lambda *_, **__: 0)
    fails(8, "--rows", *SYNTHESIZE)
    assert not (folder / "out.csv").exists()
    (kept,) = folder.glob("out-*.model.json")
    assert run("sample", kept, "-o", "out.csv")[0] == 2
    assert not (folder / "out.csv").exists()
    ok("sample", kept, "-o", "out.csv", "--rows", 0)
    assert (folder / "out.csv").exists()


# -- printing fails ----------------------------------------------------------------------------
@needs_full
@pytest.mark.parametrize("as_json", [(), ("--json",)])
def test_an_answer_that_cannot_be_printed_is_told_on_the_other_stream(
    folder, capsys, monkeypatch, as_json
):
    with FULL.open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        code = main([str(a) for a in (*QUERY, *as_json)])
        monkeypatch.undo()
        err = capsys.readouterr().err
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert code == 8
    assert "standard output: No space left" in err
    assert "mean(age): " in err
    assert "1-differentially private" in err
    assert "Traceback" not in err


@needs_full
def test_a_full_disk_behind_standard_output_is_no_traceback(folder):
    with FULL.open("w") as full:
        done = process(*QUERY, stdout=full)
    assert done.returncode == 8
    assert "No space left" in done.stderr
    assert "mean(age): " in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@needs_full
def test_nobody_hears_anything_and_it_still_ends_well(folder, capsys, monkeypatch):
    with FULL.open("w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["sample", "none.json", "-o", "x.csv"]) == 3
        assert main(["sample", "none.json", "--colour"]) == 2
        monkeypatch.setattr(sys, "stdout", full)
        assert main(["--help"]) == 5
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


# -- stopped while it starts -------------------------------------------------------------------
EARLY = """
import os, signal, sys

class Stop:
    def find_spec(self, name, *_):
        if name == "numpy":
            os.kill(os.getpid(), signal.{0})

sys.meta_path.insert(0, Stop())
from missdp.cli.main import run
run()
"""


@posix
@pytest.mark.parametrize("name", ["SIGTERM"])
def test_stopped_while_it_starts(folder, name, run):
    done = subprocess.run(
        [sys.executable, "-c", EARLY.format(name), *map(str, SYNTHESIZE)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 128 + getattr(signal, name)
    assert done.stderr == "missdp: interrupted\n"
    assert sorted(os.listdir(folder)) == ["complete.csv", "data.csv", "schema.toml"]
