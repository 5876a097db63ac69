"""Tables written to CSV and Parquet files, each whole or not at all, a block of rows at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdp.errors import OutputError, replacing
from missdp.files import atomic_path, refusal

if TYPE_CHECKING:
    import pyarrow as pa


_WRITABLE = (".csv", ".parquet", ".pq")


def output_format(path: Path) -> str:
    """Return ``"csv"`` or ``"parquet"`` by the suffix of an output path."""
    suffix = path.suffix.lower()
    if suffix not in _WRITABLE:
        raise OutputError(f"cannot write {str(path)!r}: end the name in {' or '.join(_WRITABLE)}")
    return "csv" if suffix == ".csv" else "parquet"


def numbered(output: Path, number: int) -> list[Path]:
    """Return the names of several files of one kind."""
    return [output.with_name(f"{output.stem}-{k}{output.suffix}") for k in range(1, number + 1)]


def write_all(paths: Sequence[Path], tables: Iterable[pa.Table]) -> None:
    """Write Arrow tables, each to its path, whole.

    No file appears before all are complete. They then take their places one after the other: if the
    system refuses one of these, others may be there already.
    """
    write_each(paths, ([table] for table in tables))


def write_each(paths: Sequence[Path], tables: Iterable[Iterable[pa.Table]]) -> None:
    """Write tables one after the other, each to its path in blocks of rows; see `write_all`."""
    with _Files(paths) as files:
        for place, blocks in zip(range(len(paths)), tables, strict=True):
            for block in blocks:
                files.write(place, block)


def write_blocks(paths: Sequence[Path], blocks: Iterable[Sequence[pa.Table]]) -> int:
    """Write rows to several files as they come, and return how many each got.

    The files appear when all are complete; if anything fails before that, none does. They take
    their places one after the other: if the system refuses one of these, others may be there.
    """
    rows = 0
    with _Files(paths) as files:
        for block in blocks:
            for place, table in enumerate(block):
                files.write(place, table)
            rows += block[0].num_rows
    return rows


class _Files(ExitStack):
    """Files that are written at once. They appear when the block ends without error, each whole."""

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self._paths = paths
        self._kinds = [output_format(path) for path in paths]
        self._places: list[Path] = []
        self._writers: dict[int, tuple[Any, Any]] = {}

    def __enter__(self) -> _Files:
        super().__enter__()
        try:
            self._places = [self.enter_context(atomic_path(path)) for path in self._paths]
            self.push(self._close)
        except BaseException:
            self.close()
            raise
        return self

    def write(self, place: int, table: pa.Table) -> None:
        """Write the next rows of a file."""
        import pyarrow as pa
        import pyarrow.csv
        import pyarrow.parquet

        with replacing(OSError, pa.ArrowException, by=partial(refusal, self._paths[place])):
            if place not in self._writers:
                csv = self._kinds[place] == "csv"
                made = pa.csv.CSVWriter if csv else pa.parquet.ParquetWriter
                sink = pa.OSFile(str(self._places[place]), "wb")
                self._writers[place] = made(sink, table.schema), sink
            self._writers[place][0].write_table(table)

    def _close(self, kind: type[BaseException] | None, *_: object) -> None:
        """Finish every file, before any of them takes the place of what was there."""
        import pyarrow as pa

        for place, (writer, sink) in self._writers.items():
            if kind is None:
                with replacing(OSError, pa.ArrowException, by=partial(refusal, self._paths[place])):
                    writer.close()
                    sink.close()
                continue
            for opened in (writer, sink):  # what went wrong first is what is told
                with contextlib.suppress(OSError, pa.ArrowException):
                    opened.close()
