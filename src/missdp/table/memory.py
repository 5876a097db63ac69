"""How much memory a run may take, and whether a table is held or streamed.

The decision is made from the number of rows, as files and engines state it in their metadata or
the line ends of a CSV file tell it, and from the columns of the schema. It depends on
private rows, so nothing that anyone is shown may depend on it: whichever way a table is read, the
same is counted, and what only held rows allow is held however long it is.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path

import numpy as np

from missdp.errors import ParameterError
from missdp.schema import Numeric, Schema
from missdp.schema.numeric import code_dtype

_BASE = 0.4e9  # Python with its libraries, and a few batches of rows
_ROW_BYTES = 16  # of what a release keeps for each row besides its cells
_ROOM = 1.5  # columns are joined one after the other, and questions take some of them twice
_BATCHES = 0.15e9  # of the base, for batches of rows
_LEFT = 1 / 3  # of what is above the base, which rows that are held leave until they are joined


def batch_capacity() -> int:
    """Return how many bytes a reader may take for batches of rows, beside rows that are held."""
    return int(_BATCHES + _LEFT * (current_memory_limit() - _BASE))


def fits_into_memory(rows: int | None, schema: Schema, *, tables: int = 1) -> bool:
    """Tell whether a table of so many rows can be held; one of unknown length cannot.

    Parameters
    ----------
    rows : int or None
        Private.
    schema : Schema
        The columns that are held.
    tables : int, default 1
        The number of tables with so many rows.

    Returns
    -------
    bool
        Private: nothing that anyone is shown depends on it.
    """
    if rows is None:
        return False
    cells = sum(np.dtype(code_dtype(a)).itemsize + 8 * isinstance(a, Numeric) for a in schema)
    return _BASE + _ROOM * rows * (_ROW_BYTES + cells) * tables <= current_memory_limit()


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
    ...     current_memory_limit()
    2000000000
    """
    token = _LIMIT.set(_LIMIT.get() if size is None else _read_bytes(size))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def current_memory_limit() -> int:
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
