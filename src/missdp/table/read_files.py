"""Files, by their suffix: the names of their columns, and their rows in batches.

Nothing about a cell is guessed here: Parquet files keep their types, and the cells of CSV files
stay text. Errors of the engines, which may quote a cell, are replaced.
"""

from __future__ import annotations

import contextlib
import csv
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from missdp.errors import DataError, MissDPError, replacing
from missdp.schema import Layout
from missdp.schema.layout import PLAIN
from missdp.table.cells import HeldBatch, without_long_cells
from missdp.table.csv_files import csv_batches, read_header, undecodable_line
from missdp.table.frames import check_columns
from missdp.table.memory import batch_room
from missdp.table.packages import (
    EXCEL,
    STAT,
    STAT_FILES,
    Described,
    FileFormat,
    described,
)

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet


BATCH_ROWS = 65_536
_CSV, _PARQUET, _FEATHER = (".csv", ".csv.gz", ".tsv"), (".parquet", ".pq"), (".feather", ".arrow")
_EXCEL = (".xlsx",)
READABLE = (*_CSV, *_PARQUET, *_FEATHER, *_EXCEL, *STAT_FILES)
_COPIES = 5.2  # of the cells of a Parquet file, while they are read
_SHORT = 64  # bytes of a cell that nobody calls long


def file_columns(
    path: Path,
    names: tuple[str, ...] | None = None,
    *,
    layout: Layout = PLAIN,
    unread: Collection[str] = (),
) -> tuple[str, ...]:
    """Return the names of the columns of a file.

    Parameters
    ----------
    path : Path
    names : tuple of str, optional
        The columns that the file must have, and no others but ``unread`` ones.
    layout : Layout, optional
        How a text file is written.
    unread : collection of str, optional
        Columns that may be there, and are not read.

    Returns
    -------
    tuple of str
        The names, in the order of the file.

    Raises
    ------
    DataError
        If the file cannot be read, or has other columns. Quotes no cell.
    """
    with _readable(path, layout):
        found = _format_of(path, layout).names(path)
    if "" in found and not path.name.lower().endswith(_PARQUET):
        raise DataError(_unnamed(path, found))
    if names is not None:
        check_columns(list(found), names, unread=unread)
    if len(set(found)) < len(found):
        # Unnamed: without a schema, the first line could be a row of a file that has no header.
        raise DataError(f"the header of {str(path)!r} repeats a column name; rename the columns")
    return found


def file_batches(
    path: Path, names: tuple[str, ...], *, layout: Layout = PLAIN
) -> Iterator[pa.RecordBatch | HeldBatch]:
    """Yield the named columns of a file, a batch of rows at a time.

    The header line of a CSV file decides what separates its fields; quotes are double; cells stay
    text here, because the schema says how to read them. Empty fields are null.

    Parameters
    ----------
    path : Path
    names : tuple of str
        Columns of the file, in any order.
    layout : Layout, optional
        How a text file is written.

    Yields
    ------
    pyarrow.RecordBatch or HeldBatch
        Private. An error quotes no cell.
    """
    import pyarrow as pa

    with _readable(path, layout):
        batches = _format_of(path, layout).batches(path, names)
    while True:
        with _readable(path, layout):
            batch = next(batches, None)
            if batch is None:
                return
            if isinstance(batch, HeldBatch):
                yield batch
                continue
            columns = [without_long_cells(batch.column(name)) for name in names]
            batch = pa.RecordBatch.from_arrays(columns, list(names))
        del columns
        for start in range(0, batch.num_rows, BATCH_ROWS):
            yield batch.slice(start, BATCH_ROWS)


def is_csv(path: Path) -> bool:
    """Whether a file that can be read is CSV, by its suffix."""
    return path.name.lower().endswith(_CSV)


def file_facts(path: Path) -> Mapping[str, Described]:
    """Return what a file says of its columns besides cells: labels, codes of missing cells."""
    if not path.name.lower().endswith(STAT_FILES):
        return {}
    with _readable(path):
        return described(path)


def stated_rows(path: Path) -> int | None:
    """Return the number of rows that a file states, None if it does not."""
    import pyarrow as pa
    import pyarrow.parquet

    if path.name.lower().endswith(_PARQUET):
        with contextlib.suppress(OSError, pa.ArrowException):  # told when it is read
            return int(pa.parquet.read_metadata(path).num_rows)
    return None


def csv_delimiter(path: Path) -> str:
    """Return the character between the fields of a CSV file, by its header line."""
    with _readable(path):
        return read_header(path).delimiter


@contextlib.contextmanager
def _readable(path: Path, layout: Layout = PLAIN) -> Iterator[None]:
    """Replace errors about the content of a file, which may quote cells."""
    import duckdb
    import pyarrow as pa

    _check_is_file(path)
    if not path.name.lower().endswith(READABLE):
        raise DataError(
            f"cannot read {str(path)!r}: the suffix must be one of {', '.join(READABLE)}"
        )

    def malformed(error: BaseException) -> MissDPError:
        if isinstance(error, MissDPError):
            return error
        if is_csv(path):
            return _malformed_csv(path, layout)
        noun = _format_of(path, layout).noun
        return DataError(f"cannot read {str(path)!r}: it is not a well-formed {noun}")

    # Other libraries have errors of many kinds.
    known = (
        duckdb.Error,
        pa.ArrowException,
        csv.Error,
        OSError,
        EOFError,
        zlib.error,
        UnicodeError,
    )
    others = path.name.lower().endswith((*_EXCEL, *STAT_FILES))
    with replacing(*((Exception,) if others else known), by=malformed):
        yield


def _malformed_csv(path: Path, layout: Layout) -> DataError:
    """Say why a CSV file cannot be read; quotes no cell."""
    line = None
    with contextlib.suppress(OSError, EOFError, zlib.error):
        line = undecodable_line(path, layout)
    if line is not None:
        return DataError(
            f"cannot parse {str(path)!r} as CSV: line {line} is not {layout.encoding.upper()}. "
            'State the encoding of the file, as encoding = "latin-1" in the table [file] of the '
            "schema or as --encoding latin-1 of a draft, or convert the file to UTF-8"
        )
    header = "" if layout.header else "there is no header line, "
    return DataError(
        f"cannot parse {str(path)!r} as CSV: {header}a row has too many or too few fields or is "
        "longer than 16 MiB, a quote is not closed, or lines end in different ways."
    )


def _check_is_file(path: Path) -> None:
    hint = ""
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        if path.is_file():
            return
        if path.is_dir():
            hint = ": it is a folder; to read all Parquet files in it, say so (--parts, PartRows)"
    raise DataError(f"no data file at {str(path)!r}{hint}")


def _unnamed(path: Path, names: tuple[str, ...]) -> str:
    """Say what an empty name is; quotes no name, which could be a cell if there is no header."""
    if names[0] == "" and "" not in names[1:]:
        return (
            f"the first column of {str(path)!r} has no name: pandas saves the row labels of a "
            "frame like that. Save it again with index=False, or delete the column"
        )
    return f"the header line of {str(path)!r} has a column without a name; name or delete it"


def _format_of(path: Path, layout: Layout = PLAIN) -> FileFormat:
    """Return how a file with one of the suffixes is read."""
    name = path.name.lower()
    if name.endswith(_CSV):
        noun = f"CSV file with{'out' * bool(layout.header)} a header line"
        header = partial(read_header, layout=layout)
        return FileFormat(
            noun,
            lambda p: header(p).names,
            lambda p, names: csv_batches(p, header(p), names, layout),
        )
    if name.endswith(_PARQUET):
        return FileFormat("Parquet file", _parquet_names, _parquet_batches)
    if name.endswith(_FEATHER):
        return FileFormat("Feather file", _feather_names, _feather_batches)
    return EXCEL if name.endswith(_EXCEL) else STAT


def _parquet_names(path: Path) -> tuple[str, ...]:
    import pyarrow as pa
    import pyarrow.parquet

    about = pa.parquet.read_metadata(path)
    _check_room(path, about)
    return tuple(about.schema.to_arrow_schema().names)


def _feather_names(path: Path) -> tuple[str, ...]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        return tuple(pa.ipc.open_file(file).schema.names)


def _feather_batches(path: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as file:
        reader = pa.ipc.open_file(file)
        for place in range(reader.num_record_batches):
            yield reader.get_batch(place).select(list(names))


def numbered_columns(path: Path, layout: Layout = PLAIN) -> Layout:
    """Return the layout of a CSV file without a header line, whose columns are numbered."""
    with _readable(path, layout):
        first = read_header(path, layout)
    columns = tuple(f"column{k + 1}" for k in range(len(first.names)))
    return replace(
        layout, header=columns, delimiter=first.delimiter.replace("\t", ",")
    )  # .tsv: tabs


def _too_long(path: Path) -> DataError:
    return DataError(
        f"cannot read {str(path)!r}: a cell is longer than the "
        "limit of memory has room for; shorten it, or raise the limit (--memory, memory_limit)"
    )


def _check_room(path: Path, about: pa.parquet.FileMetaData) -> None:
    """Refuse a file whose rows are read together, as a group, with too much text in their cells."""
    for group in map(about.row_group, range(about.num_row_groups)):
        chunks = map(group.column, range(group.num_columns))
        sizes = (max(c.total_uncompressed_size, 8 * c.num_values) for c in chunks)
        if sum(max(0, size - _SHORT * group.num_rows) for size in sizes) > batch_room() / _COPIES:
            raise _too_long(path)


def _parquet_batches(path: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Read text and bytes as dictionaries: a long cell is there once, however often it stands."""
    import pyarrow as pa
    import pyarrow.parquet

    about = pa.parquet.read_metadata(path)
    _check_room(path, about)
    leaves = [about.schema.column(i) for i in range(about.num_columns)]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    width = sum(leaf.length for leaf in leaves)
    file = pa.parquet.ParquetFile(path, metadata=about, read_dictionary=texts)
    rows = max(1, min(BATCH_ROWS, int(batch_room() / _COPIES / max(1, width))))
    batches: Iterator[pa.RecordBatch] = file.iter_batches(rows, columns=list(names))
    return batches
