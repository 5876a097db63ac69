"""Several files of one run: each is whole, and none appears before all are complete."""

import errno
import os

import pyarrow as pa
import pytest

from missdp.errors import OutputError
from missdp.table.written import write_all, write_blocks

OLD, NEW = b"old", b'"a"\n1\n'


def two(tmp_path):
    paths = [tmp_path / "one.csv", tmp_path / "two.csv"]
    for path in paths:
        path.write_bytes(OLD)
    return paths


def test_if_writing_fails_no_file_appears(tmp_path):
    def blocks():
        yield [pa.table({"a": [1]})] * 2
        raise OSError(errno.ENOSPC, "full")

    paths = two(tmp_path)
    with pytest.raises((OSError, OutputError)):
        write_blocks(paths, blocks())
    assert [path.read_bytes() for path in paths] == [OLD, OLD]
    assert sorted(tmp_path.iterdir()) == sorted(paths)


@pytest.mark.parametrize("refused", ["one.csv", "two.csv"])
def test_if_one_file_cannot_take_its_place_each_is_whole(tmp_path, monkeypatch, refused):
    replace, paths = os.replace, two(tmp_path)

    def refusing(source, target):
        if os.path.basename(target) == refused:
            raise OSError(errno.EIO, "broken")
        replace(source, target)

    monkeypatch.setattr(os, "replace", refusing)
    with pytest.raises(OutputError, match=refused):
        write_all(paths, [pa.table({"a": [1]})] * 2)
    assert (tmp_path / refused).read_bytes() == OLD
    assert all(path.read_bytes() in (OLD, NEW) for path in paths)
    assert sorted(tmp_path.iterdir()) == sorted(paths)
