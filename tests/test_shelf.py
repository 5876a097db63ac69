"""Long arrays are the same on disk, take little memory there, and leave nothing behind."""

import errno
import gc
import mmap
import os
import sys
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from missdp import shelf
from missdp.errors import DataError, OutputError, replacing
from refusing import refuses

told = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells how much")


@pytest.fixture
def small(monkeypatch):
    """Everything is long, and there is never enough memory."""
    limits = {"_LEAST": 1, "_FULL": 0.0, "_TIGHT": 0.0, "_BLOCK": 3, "_STRETCH": 16}
    for name, value in limits.items():
        monkeypatch.setattr(shelf, name, value)


def lies_on_disk(array):
    base = array
    while isinstance(base, np.ndarray):
        base = base.base
    return isinstance(getattr(base, "obj", base), mmap.mmap)


@given(arrays(np.int32, st.integers(1, 40)), st.integers(0, 2**32 - 1))
def test_places_are_read_and_written_as_in_memory(numbers, seed):
    rng = np.random.default_rng(seed)
    where = rng.integers(-len(numbers), len(numbers), (4, 3))
    with pytest.MonkeyPatch.context() as patch, shelf.on_disk(1):
        for name in ("_LEAST", "_STRETCH", "_BLOCK"):
            patch.setattr(shelf, name, 4)
        kept = shelf.room(len(numbers), np.int32)
        assert lies_on_disk(kept)
        kept[:] = numbers
        assert (shelf.pick(kept, where) == numbers[where]).all()
        rows = shelf.pick(np.stack([kept, kept], axis=1), where[:, 0])
        assert (rows == numbers[where[:, 0]][:, None]).all()
        assert (shelf.room(7, np.int16, filled=-2) == -2).all()


def test_piles_are_what_was_put_on_them(small):
    parts = [np.arange(n, dtype=np.uint8) for n in (3, 0, 5)]
    for limit in (None, 1):
        with shelf.on_disk(limit):
            pile, empty = shelf.Pile(np.uint8), shelf.Pile(np.float64)
            for part in parts:
                pile.add(part)
            assert pile.array().tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
            assert lies_on_disk(pile.array()) == (limit is not None)
            assert (len(empty.array()), empty.array().dtype) == (0, np.float64)


def test_in_memory_nothing_is_written(monkeypatch):
    monkeypatch.setattr(shelf, "_reserve", None)  # not called
    assert shelf.room(2**23, np.uint8, filled=1).all()
    with shelf.on_disk(2**30):
        assert len(shelf.room(10, np.uint8)) == 10  # short


@told
def test_pages_go_back_when_most_of_the_limit_is_taken():
    size = 2**26
    with shelf.on_disk(1):
        before = shelf._resident()
        array = shelf.room(size, np.uint8, filled=1)
        assert shelf._resident() - before < size / 4
        assert sum(int(array[part].sum()) for part in shelf.blocks(size, 2**20)) == size
        assert shelf._resident() - before < size / 4


@told
def test_files_have_no_name(tmp_path, monkeypatch, small):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with shelf.on_disk(1):
        kept, pile = shelf.room(100, np.int64, filled=1), shelf.Pile(np.int64)
        pile.add(kept)
        assert (os.listdir(tmp_path), pile.array().sum()) == ([], 100)


@pytest.mark.long
@told
def test_a_full_disk_is_an_error_once_and_not_the_end(monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    def behind_a_door():
        with replacing(Exception, by=DataError("the preparation of the rows failed")):
            shelf.room(2**23, np.uint8)

    later = []
    monkeypatch.setattr("sys.excepthook", lambda *told: later.append(told))
    monkeypatch.setattr("sys.unraisablehook", later.append)
    monkeypatch.setattr(os, "posix_fallocate", full)
    with refuses(OutputError, "No space"), shelf.on_disk(1):
        behind_a_door()
    with refuses(DataError, "another"), shelf.on_disk(1):
        raise DataError("another")
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: open("/dev/full", "r+b"))  # noqa: SIM115
    with refuses(OutputError, "No space"), shelf.on_disk(1):
        pile = shelf.Pile(np.int64)
        pile.add(np.arange(3))
        pile.array()
    del pile
    gc.collect()
    assert later == []


def test_where_room_cannot_be_reserved_it_is_written(monkeypatch, small):
    monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with shelf.on_disk(1):
        assert not shelf.room(10, np.int64).any()
