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
import re
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from missdp.errors import MissDPError, OutputError, ParameterError, replacing

__all__ = [
    "Blocks",
    "Pile",
    "blocks",
    "in_portions",
    "memory_in_force",
    "memory_limit",
    "on_disk",
    "pick",
    "room",
    "runs",
]

_LEAST = 2**22  # bytes; shorter arrays stay in memory
_FULL, _TIGHT = 0.6, 0.8  # of what a run may take
_STRETCH = 2**25  # bytes of an array, at once
_BLOCK = 2**20  # bytes
_TOGETHER = 2**22  # numbers
_SHARE = 0.25  # of the memory in force, for blocks

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


class Blocks:
    """Columns of whole numbers that came in blocks, to be read again, block by block.

    They are in memory as long as there is space, then in a temporary file. Where the system can do
    that, the file has no name, and nothing is left of it when the process ends. Several threads may
    read at the same time.

    Parameters
    ----------
    types : mapping of str to dtype
        For each column the type that holds its numbers.
    blocks : iterable of mapping of str to ndarray
        All of them are read at once.

    Examples
    --------
    >>> [block["a"].tolist() for block in Blocks({"a": "u1"}, [{"a": np.array([1, 2])}])]
    [[1, 2]]
    """

    def __init__(
        self, types: Mapping[str, DTypeLike], blocks: Iterable[Mapping[str, NDArray[Any]]]
    ) -> None:
        self._types = {name: np.dtype(kind) for name, kind in types.items()}
        self._sizes: list[int] = []  # of blocks
        self._lock = threading.Lock()  # several threads read the one file
        capacity = max(1, int(_SHARE * memory_in_force()))
        self._file = tempfile.SpooledTemporaryFile(capacity, prefix="missdp-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        for block in blocks:
            self._sizes.append(len(next(iter(block.values()))))
            for name, kind in self._types.items():
                self._file.write(block[name].astype(kind).data)

    def __iter__(self) -> Iterator[dict[str, NDArray[Any]]]:
        width, start = sum(kind.itemsize for kind in self._types.values()), 0
        for size in self._sizes:
            with self._lock:
                self._file.seek(start)
                block = self._file.read(size * width)
            start, at, columns = start + size * width, 0, {}
            for name, kind in self._types.items():
                columns[name] = np.frombuffer(block, kind, size, at)
                at += size * kind.itemsize
            yield columns


def _one(parts: list[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _closed(file: Any) -> None:
    with contextlib.suppress(OSError):  # it still has what a full disk did not take
        file.close()


_LEAST_LIMIT = 2**29  # bytes; Python and its libraries take most of them
_LIMIT_SHARE = 0.5  # of the machine's memory, which a run takes by default
_CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_LIMIT: ContextVar[int | None] = ContextVar("memory_limit", default=None)


def _read_bytes(size: str | int) -> int:
    """Return a number of bytes that is written with a unit."""
    found = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?)(i?)B?\s*", str(size), re.I)
    if found is None or (found[3] and not found[2]) or isinstance(size, bool):
        raise ParameterError("memory must be a size such as 2GB, 800MB or 1.5GiB")
    base = 1024 if found[3] else 1000
    number = int(float(found[1]) * base ** " KMGT".index(found[2].upper() or " "))
    if number < _LEAST_LIMIT:
        raise ParameterError("memory must be at least 512MiB: the libraries alone take most of it")
    return number


@contextlib.contextmanager
def memory_limit(size: str | int | None) -> Iterator[None]:
    """Read tables within the block so that the process takes no more memory than this.

    A table whose rows and columns would need more is streamed instead of held. Counts are the same.

    Parameters
    ----------
    size : str, int or None
        Such as ``"2GB"``, or bytes. None leaves the limit in force: by default half of the memory
        of the machine, or of the container.

    Examples
    --------
    >>> with memory_limit("2GB"):
    ...     memory_in_force()
    2000000000
    """
    token = _LIMIT.set(_LIMIT.get() if size is None else _read_bytes(size))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def memory_in_force() -> int:
    """Return how many bytes a run may take."""
    limit = _LIMIT.get()
    return int(_LIMIT_SHARE * _machine_memory()) if limit is None else limit


def _machine_memory() -> int:
    """Return the memory of the machine in bytes, or of the container if that is less."""
    found = [2.0**34]  # a guess where the system does not say
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        found = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    for path in _CONTAINERS:
        with contextlib.suppress(OSError, ValueError):
            found.append(float(Path(path).read_text(encoding="ascii")))
    return max(_LEAST_LIMIT, int(min(found)))
