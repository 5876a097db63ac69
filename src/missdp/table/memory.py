"""Limit of memory of a run, and the choice between held and streamed tables.

The choice depends on the columns of the schema and on the number of rows. Files and engines state
this number in their metadata, and CSV files by their line ends. The number is private, so no output
may depend on the choice. Held and streamed tables have equal counts. A fit that needs rows in
memory holds a table of any length.
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

_BASE = 0.4e9  # bytes for Python with its libraries, and for a few batches of rows
_ROW_BYTES = 16  # bytes per row that a release needs in addition to its cells
_PEAK_FACTOR = 1.5  # peak memory of a table, in multiples of its columns
_BATCHES = 0.15e9  # bytes of the base for batches of rows
_BATCH_SHARE = 1 / 3  # share of memory above the base for batches, before columns are concatenated


def batch_capacity() -> int:
    """Return the number of bytes for batches of rows, in addition to held rows."""
    return int(_BATCHES + _BATCH_SHARE * (current_memory_limit() - _BASE))


def fits_into_memory(rows: int | None, schema: Schema, *, tables: int = 1) -> bool:
    """Return True if a table fits into memory. A table of unknown length does not.

    Parameters
    ----------
    rows : int or None
        The number of rows. Private.
    schema : Schema
        The columns that are held.
    tables : int, default 1
        The number of tables of this size.

    Returns
    -------
    bool
        Private: no output depends on it.
    """
    if rows is None:
        return False
    cells = sum(np.dtype(code_dtype(a)).itemsize + 8 * isinstance(a, Numeric) for a in schema)
    return _BASE + _PEAK_FACTOR * rows * (_ROW_BYTES + cells) * tables <= current_memory_limit()


_MIN_LIMIT = 2**29  # bytes, most of which Python and its libraries need
_LIMIT_SHARE = 0.5  # default limit, as a share of the machine's memory
_CONTAINERS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_LIMIT: ContextVar[int | None] = ContextVar("memory_limit", default=None)


def _read_bytes(size: str | int) -> int:
    """Return the number of bytes of a size with a unit."""
    match = re.fullmatch(r"\s*([0-9]{1,15}(?:\.[0-9]{1,6})?)\s*([KMGT]?)(i?)B?\s*", str(size), re.I)
    if match is None or (match[3] and not match[2]) or isinstance(size, bool):
        raise ParameterError("memory must be a size such as 2GB, 800MB or 1.5GiB")
    base = 1024 if match[3] else 1000
    number = int(float(match[1]) * base ** " KMGT".index(match[2].upper() or " "))
    if number < _MIN_LIMIT:
        raise ParameterError("memory must be at least 512MiB, most of which the libraries need")
    return number


@contextlib.contextmanager
def memory_limit(size: str | int | None) -> Iterator[None]:
    """Limit the memory of this process, in bytes, while tables are read in a ``with`` block.

    A file whose table would need more memory is streamed: its rows are read again for each count. A
    fit that needs the rows in memory holds them in any case. Counts are equal, and no output shows
    the difference. The limit is not exact, since the need of memory is estimated.

    Parameters
    ----------
    size : str, int or None
        A size such as ``"2GB"``, or a number of bytes, at least 512 MiB. None keeps the present
        limit: by default half of the memory of the machine, or of the container.

    Yields
    ------
    None
        The limit holds within the block.

    Raises
    ------
    ParameterError
        If the size cannot be read, or is below 512 MiB.

    Notes
    -----
    Memory is a choice of speed only. It changes no released number, and costs no privacy.

    Examples
    --------
    >>> from missdp.table import memory_limit
    >>> from missdp.table.memory import current_memory_limit
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
    """Return the present limit of memory, in bytes."""
    limit = _LIMIT.get()
    return int(_LIMIT_SHARE * _machine_memory()) if limit is None else limit


def _machine_memory() -> int:
    """Return the memory of the machine in bytes, or of the container if it is smaller."""
    sizes = [2.0**34]  # a guess for systems that do not state their memory
    names = getattr(os, "sysconf_names", {})
    if "SC_PHYS_PAGES" in names and "SC_PAGE_SIZE" in names:
        sizes = [float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))]
    for path in _CONTAINERS:
        with contextlib.suppress(OSError, ValueError):
            sizes.append(float(Path(path).read_text(encoding="ascii")))
    return max(_MIN_LIMIT, int(min(sizes)))
