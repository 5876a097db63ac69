"""Rows that are read once and kept: for those that may come in another order when read again."""

from __future__ import annotations

import pickle
import tempfile
import threading
import weakref
from collections.abc import Iterator

from missdp.errors import DataError, MissDPError, replacing
from missdp.table.cells import Cells, HeldBatch
from missdp.table.memory import memory_in_force
from missdp.table.streams import Batch, RowStream

_SHARE = 0.25  # of the memory in force


class KeptRows(RowStream):
    """Columns of the rows of a stream, read once, now: every pass then sees the same rows.

    They are kept in memory as long as there is room, then in a temporary file, which only this user
    may read, and which has no name from the moment it is made, where the system can do that.

    Parameters
    ----------
    rows : RowStream
    names : tuple of str
        Columns to keep.

    Raises
    ------
    DataError
        If the rows cannot be read or kept. Quotes no cell.
    """

    def __init__(self, rows: RowStream, names: tuple[str, ...]) -> None:
        self._names, self.unchecked = names, rows.unchecked
        room = max(1, int(_SHARE * memory_in_force()))
        self._file = tempfile.SpooledTemporaryFile(room, prefix="missdp-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()  # several counts read the one file
        self._batches: list[tuple[int, dict[str, int]]] = []  # rows, and where each column begins
        failed = DataError("the rows cannot be kept: the disk is full, or a cell is no plain value")
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
            for batch in rows.batches(names):
                starts = {n: self._keep(batch.column(place)) for place, n in enumerate(names)}
                self._batches.append((batch.num_rows, starts))

    def _keep(self, cells: Cells) -> int:
        start = self._file.tell()
        pickle.dump(cells, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        return start

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return self._names

    def about(self) -> int:
        """Return the number of rows; private."""
        return sum(rows for rows, _ in self._batches)

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns, a batch of rows at a time."""
        for rows, starts in self._batches:
            yield HeldBatch([self._read(starts[name]) for name in names], rows)

    def _read(self, start: int) -> Cells:
        with self._lock:
            self._file.seek(start)
            cells: Cells = pickle.load(self._file)
            return cells
