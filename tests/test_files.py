"""Output files are whole or absent, and never in the place of something else."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from missdp.errors import OutputError
from missdp.files import check_outputs, check_writable, reserved, write_atomically

posix = pytest.mark.skipif(sys.platform == "win32", reason="locks of another kind")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_or_a_device_is_refused_and_stays_what_it_is(tmp_path):
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    link = tmp_path / "link.json"
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(OutputError, match="ordinary file"):
            write_atomically(path, b"model")
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert sorted(os.listdir(tmp_path)) == ["link.json", "pipe.json"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    target, link = tmp_path / "elsewhere" / "real.json", tmp_path / "link.json"
    link.symlink_to(target)
    write_atomically(link, b"model")
    assert link.is_symlink()
    assert target.read_bytes() == b"model"
    assert os.listdir(tmp_path / "elsewhere") == ["real.json"]


def test_permissions_of_a_replaced_file_are_kept(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    path.chmod(0o600)
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["x" * 300, "x" * 5000, "a\0b"])
def test_impossible_names_are_typed(tmp_path, name):
    with pytest.raises(OutputError):
        check_writable(tmp_path / name)
    assert not os.listdir(tmp_path)


def test_a_long_name_that_is_possible_works(tmp_path):
    path = tmp_path / ("x" * 250)
    write_atomically(path, b"model")
    assert os.listdir(tmp_path) == [path.name]


@pytest.fixture(params=[True, False], ids=["hidden", "nameless"])
def named(request, monkeypatch):
    """Whether temporary files have a name, as where the system has none without."""
    if request.param:
        monkeypatch.delattr("os.O_TMPFILE", raising=False)
    elif not hasattr(os, "O_TMPFILE"):
        pytest.skip("no files without a name here")
    return request.param


def test_outputs_do_not_overwrite_inputs_or_each_other(tmp_path):
    data = tmp_path / "data.csv"
    data.write_text("private")
    link = tmp_path / "link.csv"
    link.symlink_to(data)
    new = tmp_path / "new.csv"
    check_outputs([new, None], inputs=[data, None])
    for outputs in ([data], [link], [new, tmp_path / "." / "new.csv"]):
        with pytest.raises(OutputError, match="same command"):
            check_outputs(outputs, inputs=[data])


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
        with pytest.raises(OutputError) as caught, reserved([unwritten, path]):
            raise AssertionError
        assert caught.value.__context__ is None
    assert os.listdir(tmp_path) == ["written.json"]


@posix
def test_room_that_was_set_aside_can_be_used_when_the_disk_is_full(tmp_path, monkeypatch, named):
    """A file may not grow any more: what was set aside is enough, anything else is refused."""
    path, late = tmp_path / "model.json", tmp_path / "late.json"
    with reserved([path], room=5000):
        monkeypatch.setattr("missdp.files._temporary", full_disk)
        write_atomically(path, b"x" * 4000)
        with pytest.raises(OutputError, match="No space left"):
            write_atomically(late, b"x")
    assert path.read_bytes() == b"x" * 4000
    assert os.listdir(tmp_path) == ["model.json"]


def full_disk(*_, **__):
    raise OSError(28, "private")


@pytest.mark.parametrize("step", ["fsync", "replace", "write", "ftruncate"])
def test_whatever_step_fails_the_old_file_stays(tmp_path, monkeypatch, step, named):
    path = tmp_path / "model.json"
    path.write_bytes(b"old")
    monkeypatch.setattr(f"missdp.files.os.{step}", full_disk)
    with pytest.raises(OutputError, match="No space left") as caught:
        write_atomically(path, b"new")
    monkeypatch.undo()
    assert "private" not in str(caught.value)
    assert caught.value.__context__ is None
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


def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("old")
    path.chmod(0o444)
    with pytest.raises(OutputError, match="read-only"):
        check_outputs([path])
    with pytest.raises(OutputError, match="read-only"):
        write_atomically(path, b"new")
    assert path.read_text() == "old"


@posix
def test_nothing_is_left_of_a_run_that_is_killed_while_it_writes(tmp_path):
    """Whatever was written of private rows by then is gone with the process."""
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from missdp.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1])) as place:\n"
        "    place.write_bytes(b'private' * 1000)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "rows.csv")], check=False)
    assert done.returncode == -9
    assert len(os.listdir(tmp_path)) == (not nameless_here(tmp_path))


def nameless_here(folder):
    """Whether the disk has files without a name."""
    try:
        os.close(os.open(folder, os.O_TMPFILE | os.O_RDWR))
    except (AttributeError, OSError):
        return False
    return True


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


def test_two_names_of_one_file_are_one_file(tmp_path):
    data, link = tmp_path / "data.csv", tmp_path / "hard.csv"
    data.write_text("private")
    os.link(data, link)
    with pytest.raises(OutputError, match="same command"):
        check_outputs([link], inputs=[data])
