"""Temporary storage of streamed private rows, which can be read several times."""

from __future__ import annotations

import contextlib
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Spool"]


class Spool:
    """Temporary storage of private rows on disk, so that streamed rows can be read several times.

    Rows are stored in batches in Arrow's format, in a temporary file that only this user may read.
    The file never has a name if the system supports this. It disappears when the process ends in
    any way. Several threads may read at the same time.

    ``len`` returns the number of rows, and iteration yields the batches in order. Both are private.

    Parameters
    ----------
    batches : iterable of RecordBatch
        The batches of rows. Private. All batches are read once, when the storage is created.

    Raises
    ------
    OSError
        If the disk has no space for the rows, or the temporary file cannot be written.

    Examples
    --------
    >>> from missdp.spool import Spool
    >>> import pyarrow as pa
    >>> spool = Spool([pa.record_batch({"a": [1, 2]}), pa.record_batch({"a": [3]})])
    >>> len(spool), [batch["a"].to_pylist() for batch in spool]
    (3, [[1, 2], [3]])
    """

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        import pyarrow as pa

        self._file = tempfile.TemporaryFile(prefix="missdp-")  # noqa: SIM115
        weakref.finalize(self, _close, self._file)
        self._lock = threading.Lock()  # several threads read one file
        self._rows, self._ends = 0, [0]
        for batch in batches:
            with pa.ipc.new_stream(self._file, batch.schema) as stream:
                stream.write_batch(batch)
            self._rows += batch.num_rows
            self._ends.append(self._file.tell())
        self._file.flush()  # a full disk raises an error now

    def __len__(self) -> int:
        """Return the number of rows. Private."""
        return self._rows

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches, in order."""
        import pyarrow as pa

        for start, end in pairwise(self._ends):
            with self._lock:
                self._file.seek(start)
                content = self._file.read(end - start)
            yield from pa.ipc.open_stream(content)


def _close(file: Any) -> None:
    with contextlib.suppress(OSError):  # closing writes again after a full disk
        file.close()
