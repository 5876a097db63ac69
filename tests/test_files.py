"""Output files are whole or absent, and never in the place of something else."""

import os
import stat
import subprocess
import sys

import pytest

from missdp.errors import OutputError
from missdp.files import atomic_path, check_outputs, check_writable, write_atomically
from refusing import refused, refuses

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks of another kind")


@posix
def test_what_stands_at_a_name_stays_what_it_is(tmp_path):
    """Pipes, read-only files and impossible names are refused. Links are followed."""
    pipe, link, locked = (tmp_path / f"{n}.json" for n in ("pipe", "link", "locked"))
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    locked.write_text("old")
    locked.chmod(0o444)
    for path, match in ((pipe, "ordinary file"), (link, "ordinary file"), (locked, "read-only")):
        refused(OutputError, match, write_atomically, path, b"model")
    refused(OutputError, "read-only", check_outputs, [locked])
    for name in ("x" * 300, "x" * 5000, "a\0b"):
        refused(OutputError, None, check_writable, tmp_path / name)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert locked.read_text() == "old"
    assert len(os.listdir(tmp_path)) == 3
    (tmp_path / "elsewhere").mkdir()
    target, long, to = tmp_path / "elsewhere" / "real.json", tmp_path / ("x" * 250), tmp_path / "to"
    to.symlink_to(target)
    target.write_text("old")
    target.chmod(0o600)
    for path in (to, long):
        write_atomically(path, b"model")
    assert to.is_symlink()
    assert target.read_bytes() == long.read_bytes() == b"model"
    assert stat.S_IMODE(target.stat().st_mode) == 0o600  # as it was
    assert os.listdir(tmp_path / "elsewhere") == ["real.json"]


def test_outputs_do_not_overwrite_inputs_or_each_other(tmp_path):
    data, link, hard = (tmp_path / f"{n}.csv" for n in ("data", "link", "hard"))
    data.write_text("private")
    link.symlink_to(data)
    os.link(data, hard)
    new = tmp_path / "new.csv"
    check_outputs([new, None], inputs=[data, None])
    for outputs in ([data], [link], [hard], [new, tmp_path / "." / "new.csv"]):
        refused(OutputError, "same command", check_outputs, outputs, inputs=[data])


def test_a_file_that_is_there_is_only_replaced_if_asked_for(tmp_path):
    path = tmp_path / "model.json"
    write_atomically(path, b"first", overwrite=False)
    assert path.read_bytes() == b"first"
    refused(OutputError, "another process wrote it", write_atomically, path, b"x", overwrite=False)
    assert path.read_bytes() == b"first"
    write_atomically(path, b"second")
    assert path.read_bytes() == b"second"
    assert os.listdir(tmp_path) == ["model.json"]


def test_a_disk_without_links_takes_a_new_file(tmp_path, monkeypatch):
    monkeypatch.setattr("missdp.files.os.link", full_disk)
    write_atomically(tmp_path / "model.json", b"model", overwrite=False)
    assert (tmp_path / "model.json").read_bytes() == b"model"
    assert os.listdir(tmp_path) == ["model.json"]


def full_disk(*_, **__):
    raise OSError(28, "private")


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_whatever_step_fails_the_old_file_stays(tmp_path, monkeypatch, step):
    path = tmp_path / "model.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(f"missdp.files.os.{step}", full_disk)
    with refuses(OutputError, "No space left") as caught:
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert "private" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.json"]


def test_content_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch):
    steps = []
    for name in ("fsync", "replace", "link"):
        real = getattr(os, name)
        monkeypatch.setattr(
            f"missdp.files.os.{name}",
            lambda *a, n=name, r=real, **k: (steps.append(n), r(*a, **k))[1],
        )
    for content in (b"model", b"again"):
        write_atomically(tmp_path / "model.json", content)
        assert (tmp_path / "model.json").read_bytes() == content
    assert steps == ["fsync", "replace", "fsync"] * 2  # file, name, folder
    assert os.listdir(tmp_path) == ["model.json"]


@posix
def test_a_run_that_is_killed_leaves_a_hidden_file_for_the_next_run(tmp_path):
    """No half-written file has the name of the output, and the hidden file is removed later."""
    code = """
import os, signal, sys
from pathlib import Path
from missdp.files import atomic_path
with atomic_path(Path(sys.argv[1])) as place:
    place.write_bytes(b"private" * 1000)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "rows.csv")], check=False)
    assert done.returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".missdp-")
    assert stat.S_IMODE(left.stat().st_mode) == 0o600
    os.utime(left, (0, 0))
    write_atomically(tmp_path / "other.csv", b"rows")
    assert os.listdir(tmp_path) == ["other.csv"]


@posix
def test_only_what_a_dead_process_left_is_swept(tmp_path):
    import fcntl

    dead, young = tmp_path / ".missdp-dead.tmp", tmp_path / ".missdp-young.tmp"
    alive, named = tmp_path / ".missdp-alive.tmp", tmp_path / ".missdp-named.txt"
    other, folder, link = tmp_path / "x.tmp", tmp_path / ".missdp-a.tmp", tmp_path / ".missdp-b.tmp"
    folder.mkdir()
    link.symlink_to(other)
    for path in (dead, young, alive, named, other):
        path.write_bytes(b"half")
        if path != young:
            os.utime(path, (0, 0))
    with alive.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        write_atomically(tmp_path / "model.json", b"model")
        assert not dead.exists()
        assert all(path.exists() for path in (young, alive, named, other, folder, link))
    write_atomically(tmp_path / "model.json", b"model")
    assert not alive.exists()


@posix
def test_runs_side_by_side_do_not_sweep_each_other(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    with atomic_path(first) as place:
        os.utime(place, (0, 0))
        write_atomically(second, b"second")
        place.write_bytes(b"first")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]
