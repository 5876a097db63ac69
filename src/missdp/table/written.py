"""Tables written to CSV and Parquet files, each whole or not at all, a block of rows at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
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


def write_each(paths: Sequence[Path], tables: Iterable[Iterable[pa.Table]]) -> None:
    """Write tables one after the other, each to its path in blocks of rows; see `write_blocks`."""
    with _files(paths) as write:
        for place, blocks in zip(range(len(paths)), tables, strict=True):
            for block in blocks:
                write(place, block)


def write_blocks(paths: Sequence[Path], blocks: Iterable[Sequence[pa.Table]]) -> int:
    """Write rows to several files as they come, and return how many each got.

    The files appear when all are complete; if anything fails before that, none does. They take
    their places one after the other: if the system refuses one of these, others may be there.
    """
    rows = 0
    with _files(paths) as write:
        for block in blocks:
            for place, table in enumerate(block):
                write(place, table)
            rows += block[0].num_rows
    return rows


@contextlib.contextmanager
def _files(paths: Sequence[Path]) -> Iterator[Callable[[int, pa.Table], None]]:
    """Yield what writes the next rows of a file; all appear at the end of the block, each whole."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    made = {"csv": pa.csv.CSVWriter, "parquet": pa.parquet.ParquetWriter}
    kinds = [made[output_format(path)] for path in paths]
    writers: dict[int, tuple[Any, Any]] = {}

    def refused(place: int) -> replacing:
        return replacing(OSError, pa.ArrowException, by=partial(refusal, paths[place]))

    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(atomic_path(path)) for path in paths]

        def write(place: int, table: pa.Table) -> None:
            with refused(place):
                if place not in writers:
                    sink = pa.OSFile(str(places[place]), "wb")
                    writers[place] = kinds[place](sink, table.schema), sink
                writers[place][0].write_table(table)

        try:
            yield write
        except BaseException:
            for opened in (one for both in writers.values() for one in both):
                with contextlib.suppress(OSError, pa.ArrowException):
                    opened.close()  # what went wrong first is what is told
            raise
        for place, (writer, sink) in writers.items():  # all, before any takes its place
            with refused(place):
                writer.close()
                sink.close()
