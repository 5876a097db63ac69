"""Output files are whole or absent, and never in the place of something else."""

import os
import stat

import pytest

from missdp.errors import OutputError
from missdp.files import check_outputs, check_writable, write_atomically


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
