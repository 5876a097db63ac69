"""Output files are whole or absent, and never in the place of something else."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from missdp.errors import OutputError
from missdp.files import check_outputs, check_writable, reserved, write_atomically
from refusing import refused, refuses

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks of another kind")


@posix
def test_what_stands_at_a_name_stays_what_it_is(tmp_path):
    """Pipes, files that may only be read and impossible names are refused; links are followed."""
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


@pytest.fixture(params=[True, False], ids=["hidden", "nameless"])
def named(request, monkeypatch):
    """Whether temporary files have a name, as where the system has none without."""
    if request.param:
        monkeypatch.delattr("os.O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("no files without a name here")
    return request.param


def test_reserved_files_are_opened_at_once_and_leave_no_trace_if_not_written(tmp_path, named):
    written, unwritten = tmp_path / "written.json", tmp_path / "unwritten.json"
    with reserved([written, None, unwritten], room=5000):
        opened = [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]
        assert [path.stat().st_size for path in opened] == [5000, 5000] * named
        write_atomically(written, b"model")
        assert written.read_bytes() == b"model"  # nothing of the room is left
        assert len(list(tmp_path.iterdir())) == 1 + named
        write_atomically(written, b"again")
    assert os.listdir(tmp_path) == ["written.json"]
    assert written.read_bytes() == b"again"
    for path in (tmp_path / "no" / "x", Path("/proc/x"), tmp_path, tmp_path / "a\0b"):
        with refuses(OutputError), reserved([unwritten, path]):
            raise AssertionError
    assert os.listdir(tmp_path) == ["written.json"]


@posix
def test_room_that_was_set_aside_can_be_used_when_the_disk_is_full(tmp_path, monkeypatch, named):
    """A file may not grow any more: what was set aside is enough, anything else is refused."""
    path, late = tmp_path / "model.json", tmp_path / "late.json"
    with reserved([path], room=5000):
        monkeypatch.setattr("missdp.files._temporary", full_disk)
        write_atomically(path, b"x" * 4000)
        refused(OutputError, "No space left", write_atomically, late, b"x")
    assert path.read_bytes() == b"x" * 4000
    assert os.listdir(tmp_path) == ["model.json"]


def full_disk(*_, **__):
    raise OSError(28, "private")


@pytest.mark.parametrize("step", ["fsync", "replace", "write", "ftruncate"])
def test_whatever_step_fails_the_old_file_stays(tmp_path, monkeypatch, step, named):
    path = tmp_path / "model.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(f"missdp.files.os.{step}", full_disk)
    with refuses(OutputError, "No space left") as caught:
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert "private" not in str(caught.value)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["model.json"]


def test_content_is_on_the_disk_before_its_name_is(tmp_path, monkeypatch, named):
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
    first, again = (["replace"], ["replace"]) if named else (["link"], ["link", "link", "replace"])
    assert steps == ["fsync", *first, "fsync", "fsync", *again, "fsync"]  # file, name, folder
    assert os.listdir(tmp_path) == ["model.json"]


@posix
def test_nothing_is_left_of_a_run_that_is_killed_while_it_writes(tmp_path):
    """Whatever was written of private rows by then is gone with the process."""
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
    try:  # whether the disk has files without a name
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
        left = 0
    except (AttributeError, OSError):
        left = 1
    assert len(os.listdir(tmp_path)) == left


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
    with reserved([first]):
        for path in tmp_path.glob(".missdp-*"):
            os.utime(path, (0, 0))
        write_atomically(second, b"second")
        write_atomically(first, b"first")
    assert sorted(os.listdir(tmp_path)) == ["first", "second"]
