"""How much memory a run may take, and whether a table is held or streamed.

The decision is made from the number of rows, as files and engines state it in their metadata or
the line ends of a CSV file tell it, and from the columns of the schema. It depends on
private rows, so nothing that anyone is shown may depend on it: whichever way a table is read, the
same is counted, and what only held rows allow is held however long it is.
"""

from __future__ import annotations

import numpy as np

from missdp.schema import Numeric, Schema
from missdp.schema.numeric import code_dtype
from missdp.shelf import memory_in_force
from missdp.shelf import memory_limit as memory_limit

_BASE = 0.4e9  # Python with its libraries, and a few batches of rows
_ROW_BYTES = 16  # of what a release keeps for each row besides its cells
_ROOM = 1.5  # columns are joined one after the other, and questions take some of them twice
_BATCHES = 0.15e9  # of the base, for batches of rows
_LEFT = 1 / 3  # of what is above the base, which rows that are held leave until they are joined


def batch_room() -> int:
    """Return how many bytes a reader may take for batches of rows, beside rows that are held."""
    return int(_BATCHES + _LEFT * (memory_in_force() - _BASE))


def fits_into_memory(rows: int | None, schema: Schema, *, tables: int = 1, beside: int = 0) -> bool:
    """Tell whether a table of so many rows can be held; one of unknown length cannot."""
    if rows is None:
        return False
    cells = sum(np.dtype(code_dtype(a)).itemsize + 8 * isinstance(a, Numeric) for a in schema)
    needed = _ROOM * rows * (_ROW_BYTES + cells) * tables + rows * beside
    return _BASE + needed <= memory_in_force()
