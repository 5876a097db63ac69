"""CSV and Parquet files."""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from missdp.errors import DataError, OutputError, replacing
from missdp.files import atomic_path
from missdp.table.frames import check_columns

__all__ = [
    "READABLE",
    "file_batches",
    "file_columns",
    "file_table",
    "output_format",
    "write_arrow",
]

READABLE = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")
_BATCH_ROWS = 65_536
_BLOCK_BYTES = 2**22
_MAX_BLOCK_BYTES = 2**31 - 1
_WRITABLE = (".csv", ".parquet", ".pq")


def file_columns(path: Path, names: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """Return the column names of a CSV or Parquet file; with ``names``, refuse any other.

    Raises
    ------
    DataError
        If the file does not exist, has an unknown suffix, has no readable header, or has other
        columns.
    """
    with _readable(path) as is_csv:
        if not is_csv:
            header = _Header("", tuple(pa.parquet.ParquetFile(path).schema_arrow.names), True)
        else:
            header = _read_header(path)
    if is_csv and "" in header.names:
        raise DataError(_unnamed(path, header.names))
    if names is not None:
        check_columns(list(header.names), names)
    if len(set(header.names)) < len(header.names):
        # Unnamed: without a schema, the first line could be a row of a file that has no header.
        raise DataError(f"the header of {str(path)!r} repeats a column name; rename the columns")
    return header.names


def file_batches(path: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the named columns of a file, a batch of rows at a time.

    Nothing is guessed from private cells. The header line of a CSV file decides what separates its
    fields (comma, semicolon, tab or bar); quotes are double; cells stay bytes here, because the
    schema says how to read them. Empty fields are null. Parquet cells keep their declared types.

    Raises
    ------
    DataError
        If the file is not well-formed.
    """
    with _readable(path) as is_csv:
        if is_csv:
            header = _read_header(path)
            batches = _csv_batches(path, header, names)
        else:
            file = pa.parquet.ParquetFile(path)
            batches = file.iter_batches(_BATCH_ROWS, columns=list(names))
    while True:
        with _readable(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch.select(list(names))


def file_table(path: Path, names: tuple[str, ...] | None = None) -> pa.Table:
    """Read a file into Arrow; with ``names``, exactly those columns in that order.

    Raises
    ------
    DataError
        If the file cannot be read or its columns are not exactly the named ones.
    """
    chosen = file_columns(path, names) if names is None else names
    file_columns(path, names)
    with _readable(path) as is_csv:
        if not is_csv:
            table = pa.parquet.ParquetFile(path).read(
                columns=list(chosen), use_pandas_metadata=False
            )
            return table.select(list(chosen))
        schema = pa.schema([(name, pa.binary()) for name in chosen])
    return pa.Table.from_batches(list(file_batches(path, chosen)), schema)


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[bool]:
    """Tell whether the file is CSV; replace errors about its content, which may quote cells."""
    name = path.name.lower()
    if not _is_file(path):
        raise DataError(f"no data file at {str(path)!r}")
    if not name.endswith(READABLE):
        raise DataError(
            f"cannot read {str(path)!r}: the suffix must be one of {', '.join(READABLE)}"
        )
    is_csv = not name.endswith((".parquet", ".pq"))
    kind = "CSV file in UTF-8 with a header line" if is_csv else "Parquet file"

    def malformed(_: BaseException) -> DataError:
        return DataError(f"cannot read {str(path)!r}: it is not a well-formed {kind}")

    with replacing(
        pa.ArrowException, csv.Error, OSError, EOFError, zlib.error, UnicodeError, by=malformed
    ):
        yield is_csv


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _unnamed(path: Path, names: tuple[str, ...]) -> str:
    """Say what an empty name is; quotes no name, which could be a cell if there is no header."""
    if names[0] == "" and "" not in names[1:]:
        return (
            f"the first column of {str(path)!r} has no name: pandas saves the row labels of a "
            "frame like that. Save it again with index=False, or delete the column"
        )
    return f"the header line of {str(path)!r} has a column without a name; name or delete it"


@dataclass(frozen=True)
class _Header:
    """The first record of a CSV file."""

    separator: str
    names: tuple[str, ...]
    rows_follow: bool


def _read_header(path: Path) -> _Header:
    """Return separator and column names: those of the separator that finds most names."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    found = []
    for separator in "\t" if path.suffix.lower() == ".tsv" else ",;\t|":
        with opened(path, "rb") as file:
            lines = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
            names = next(csv.reader(lines, delimiter=separator), [])
            found.append(_Header(separator, tuple(names), bool(lines.read(1))))
    header = max(found, key=lambda one: len(one.names))
    if not header.names:
        raise csv.Error("no header line")
    "".join(header.names).encode("utf-8")  # only here: a cell that is not UTF-8 is for its reader
    return header


def _csv_batches(path: Path, header: _Header, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Parse; if a row is longer than a block, go on from there with longer blocks."""
    zipped = path.suffix.lower() == ".gz"
    longest = _MAX_BLOCK_BYTES if zipped else min(_MAX_BLOCK_BYTES, path.stat().st_size + 1)
    done, block = 0, _BLOCK_BYTES
    while header.rows_follow:
        skip = done
        try:
            with _open_csv(path, header, names, block) as reader:
                for batch in reader:
                    fresh = batch.slice(skip)
                    skip -= min(skip, batch.num_rows)
                    done += fresh.num_rows
                    yield fresh
            return
        except pa.ArrowInvalid as error:
            if block >= longest or "CSV parse error" in str(error):
                raise
        block = min(16 * block, longest)


def _open_csv(path: Path, header: _Header, names: tuple[str, ...], block: int) -> Any:
    return pa.csv.open_csv(
        pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None),
        read_options=pa.csv.ReadOptions(block_size=block),
        parse_options=pa.csv.ParseOptions(
            delimiter=header.separator,
            newlines_in_values=True,
            # In a file of one column an empty line is a row whose only cell is missing.
            ignore_empty_lines=len(header.names) > 1,
        ),
        convert_options=pa.csv.ConvertOptions(
            column_types={name: pa.binary() for name in header.names},
            include_columns=list(names),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
            check_utf8=False,
        ),
    )


def output_format(path: Path) -> str:
    """Return ``"csv"`` or ``"parquet"`` by the suffix of an output path.

    Raises
    ------
    OutputError
        If the suffix is neither.
    """
    suffix = path.suffix.lower()
    if suffix not in _WRITABLE:
        raise OutputError(f"cannot write {str(path)!r}: end the name in {' or '.join(_WRITABLE)}")
    return "csv" if suffix == ".csv" else "parquet"


def write_arrow(table: pa.Table, path: Path) -> None:
    """Write an Arrow table to CSV or Parquet, whole or not at all.

    Raises
    ------
    OutputError
        If the path cannot be written.
    """
    kind = output_format(path)
    with atomic_path(path) as temporary:
        if kind == "csv":
            pa.csv.write_csv(table, temporary)
        else:
            pa.parquet.write_table(table, temporary)
