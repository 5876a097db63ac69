"""Long arrays, one number or a few per row: in memory, or on disk if a run may not take so much.

On disk means: in a temporary file that is mapped into memory, so that an array is an array wherever
it lies, and what is computed of it is the same, bit for bit. Where the system can do that the file
has no name from the moment it is made: nobody else can open it, and nothing is left of it when the
process ends, however it ends. What of it is in memory is put back as soon as the process has taken
most of what it may take.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import tempfile
import weakref
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from missdp.errors import MissDPError, OutputError, replacing

__all__ = ["Pile", "blocks", "in_portions", "on_disk", "pick", "room", "runs"]

_LEAST = 2**22  # bytes; shorter arrays stay in memory
_FULL, _TIGHT = 0.6, 0.8  # of what a run may take
_STRETCH = 2**25  # bytes of an array, at once
_BLOCK = 2**20  # bytes
_TOGETHER = 2**22  # numbers

_SHELF: ContextVar[_Shelf | None] = ContextVar("shelf", default=None)


class _Shelf:
    """Which files are mapped, and how much memory the process may take."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()
        self.refused = ""  # what the disk did not take, in words

    def mapped(self, file: Any, size: int, kind: np.dtype[Any]) -> NDArray[Any]:
        """Return what a file holds as an array that can be written to."""
        memory = mmap.mmap(file.fileno(), size * kind.itemsize)
        self._maps.add(memory)
        return np.frombuffer(memory, kind, size)

    def has_room_for(self, array: NDArray[Any]) -> bool:
        """Whether a whole array may come into memory beside what is there now."""
        size = len(array) * abs(array.strides[0])
        return size <= _STRETCH or _resident() + size <= _TIGHT * self._limit

    def tidy(self) -> None:
        """Put mapped pages back if the process has taken most of what it may."""
        if _resident() > _FULL * self._limit and hasattr(mmap, "MADV_DONTNEED"):
            for memory in list(self._maps):
                memory.madvise(mmap.MADV_DONTNEED)  # of a shared file: nothing is lost


def _resident() -> float:
    """Return how many bytes of memory the process takes now; infinite where nobody tells."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open("/proc/self/statm", "rb", buffering=0) as told,
    ):
        return float(told.read().split()[1]) * mmap.PAGESIZE
    return float("inf")


@contextlib.contextmanager
def on_disk(limit: int | None) -> Iterator[None]:
    """Keep long arrays on disk within the block, or refuse if the disk does not take them.

    ``limit`` is how many bytes of memory the process may take; None changes nothing.

    >>> with on_disk(2**30):
    ...     len(room(3, np.int64))
    3
    """
    shelf = _SHELF.get() if limit is None else _Shelf(limit)

    def refusal(error: BaseException) -> MissDPError:
        refused = "" if shelf is None else shelf.refused
        return OutputError(refused) if refused or not isinstance(error, MissDPError) else error

    token = _SHELF.set(shelf)
    try:
        # What happens behind the door is replaced there by an error that does not tell of disks.
        with replacing(MissDPError, by=refusal):
            yield
    finally:
        _SHELF.reset(token)


def room(size: int, kind: DTypeLike, *, filled: int | None = None) -> NDArray[Any]:
    """Return a new array, on disk if it is long and the run may not take so much memory.

    >>> room(3, np.int64, filled=-1).tolist()
    [-1, -1, -1]
    """
    shelf, kind = _SHELF.get(), np.dtype(kind)
    if shelf is None or size * kind.itemsize < max(_LEAST, 1):
        return np.empty(size, kind) if filled is None else np.full(size, filled, kind)
    with _told(), tempfile.TemporaryFile(prefix="missdp-") as file:  # the map outlives its name
        _reserve(file, size * kind.itemsize)
        array = shelf.mapped(file, size, kind)
    if filled is not None:
        for part in blocks(size, _BLOCK):
            array[part] = filled
    return array


def _told() -> replacing:
    """Say that the disk refuses, and note it for `on_disk`."""

    def refusal(error: BaseException) -> OutputError:
        number = getattr(error, "errno", None)
        reason = os.strerror(number) if number else "the system refuses"
        refused = f"cannot write a temporary file: {reason}; TMPDIR says where such files lie"
        if (shelf := _SHELF.get()) is not None:
            shelf.refused = refused
        return OutputError(refused)

    return replacing(OSError, by=refusal)


def _reserve(file: Any, size: int) -> None:
    """Take the room on the disk now: later, a full disk would kill the process."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, size)
        return
    for start in range(0, size, _BLOCK):
        file.write(bytes(min(_BLOCK, size - start)))
    file.flush()


def blocks(size: int, step: int) -> Iterator[slice]:
    """Yield where some numbers are, one block after the other.

    >>> list(blocks(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    shelf = _SHELF.get()
    for start in range(0, size, step):
        yield slice(start, min(start + step, size))
        if shelf is not None:
            shelf.tidy()


def runs(counts: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return each i ``counts[i]`` times, and beside it the numbers from 0 up."""
    owner = np.repeat(np.arange(len(counts)), counts)
    return owner, np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)


def in_portions(sizes: NDArray[np.integer], most: int) -> Iterator[slice]:
    """Yield slices of things whose sizes add up to little more than so many.

    >>> list(in_portions(np.array([3, 3, 9, 1]), 5))
    [slice(0, 2, None), slice(2, 3, None), slice(3, 4, None)]
    """
    before = (np.cumsum(sizes) - sizes) // most
    stops = np.flatnonzero(np.diff(before, append=-1)) + 1
    yield from map(slice, (0, *stops[:-1].tolist()), stops.tolist())


def _portions(array: NDArray[Any], where: NDArray[np.integer]) -> Iterator[Any]:
    """Yield which places of an array are near each other, so that few pages are needed."""
    # All of them at once if there is enough memory.
    shelf = _SHELF.get()
    if shelf is None or shelf.has_room_for(array):
        yield slice(None)
        return
    order = np.argsort(where)
    ends = np.arange(0, len(array), max(1, _STRETCH // abs(array.strides[0])))
    for part in np.split(order, np.searchsorted(where, ends, sorter=order)):
        if len(part):
            yield part
            shelf.tidy()


def pick(array: NDArray[Any], where: NDArray[np.integer]) -> NDArray[Any]:
    """Return the numbers, or rows, at some places of an array, as ``array[where]``."""
    if _SHELF.get() is None:
        return np.asarray(array[where])
    places = where.ravel()
    found = np.empty((len(places), *array.shape[1:]), array.dtype)
    for part in _portions(array, places):
        found[part] = array[places[part]]
    return found.reshape(*where.shape, *array.shape[1:])


class Pile:
    """Numbers that come one block after the other, to be one array: on disk if arrays are shelved.

    >>> pile = Pile(np.int64)
    >>> pile.add(np.array([1, 2]))
    >>> pile.array().tolist()
    [1, 2]
    """

    def __init__(self, kind: DTypeLike) -> None:
        self._size, self._kind = 0, np.dtype(kind)
        self._file: Any = None
        self._joined: list[NDArray[Any]] = []
        self._loose: list[NDArray[Any]] = []
        if _SHELF.get() is not None:
            with _told():
                self._file = tempfile.TemporaryFile(prefix="missdp-")  # noqa: SIM115
            weakref.finalize(self, _closed, self._file)

    def add(self, part: NDArray[Any]) -> None:
        """Put some more numbers there."""
        self._size += len(part)
        if self._file is not None:
            with _told():
                self._file.write(np.ascontiguousarray(part, self._kind).data)
            return
        self._loose.append(part)
        if self._size >= _TOGETHER * (1 + len(self._joined)):
            self._join()

    def _join(self) -> None:
        """Join blocks before there are many: or the heap would be full of holes between them."""
        if self._loose:
            self._joined.append(_one(self._loose))
            self._loose = []

    def array(self) -> NDArray[Any]:
        """Return all of them."""
        shelf = _SHELF.get()
        if self._file is None:
            self._join()
            return _one(self._joined) if self._joined else np.empty(0, self._kind)
        if shelf is None or not self._size:
            self._file.seek(0)
            return np.frombuffer(self._file.read(), self._kind)
        with _told():
            self._file.flush()
            return shelf.mapped(self._file, self._size, self._kind)


def _one(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _closed(file: Any) -> None:
    with contextlib.suppress(OSError):  # it still has what a full disk did not take
        file.close()
