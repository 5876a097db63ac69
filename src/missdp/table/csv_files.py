"""CSV files, read by DuckDB with everything declared: nothing is guessed from rows.

The header record, or the schema, says the names of the columns and what separates them. Quotes are
double. Cells stay text, because the schema says how to read them. A file is read as a whole or
refused. DuckDB installs and loads no extension.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import functools
import gzip
import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from missdp.schema import Layout
from missdp.schema.layout import PLAIN
from missdp.table.memory import batch_room

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

NO_EXTENSIONS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""Settings of DuckDB, by which it neither downloads nor loads code."""
_SEPARATORS: Final = ",;\t|"
_HEADER_BYTES = 2**20  # longest header record
_MAX_ROW_BYTES = 2**24  # longest row
_THREAD_BYTES = 2**27  # memory that a thread of DuckDB takes for batches of rows, at the most
_CHUNK_BYTES = 2**20
_BATCH_ROWS = 32_768
_QUERY: Final = """
SELECT {columns} FROM read_csv({path}, auto_detect = false, all_varchar = true, header = {header},
    delim = {separator}, quote = '"', escape = '"', columns = {names}, strict_mode = true,
    null_padding = false, compression = {compression},
    max_line_size = {longest}, buffer_size = {longest})
"""


@dataclass(frozen=True)
class Header:
    """What separates the fields of a CSV file, and the names of its columns."""

    separator: str
    names: tuple[str, ...]
    declared: bool = False  # by the schema: the first record is a row


def opened(path: Path) -> Any:
    """Open a CSV file to read its bytes."""
    return gzip.open(path, "rb") if _is_packed(path) else path.open("rb")


def read_header(path: Path, layout: Layout = PLAIN) -> Header:
    """Return what separates the fields, and the names; the separator that makes most names."""
    tabs = path.suffix.lower() == ".tsv"
    if layout.columns:
        return Header("\t" if tabs else layout.separator, layout.columns, declared=True)
    with opened(path) as file:
        text = file.read(_HEADER_BYTES).decode("utf-8-sig", "surrogateescape")
    found: list[Header] = []
    for separator in "\t" if tabs else _SEPARATORS:
        with contextlib.suppress(csv.Error, StopIteration):  # a quote is open, or goes on
            lines = io.StringIO(text, newline="")
            found.append(
                Header(separator, tuple(next(csv.reader(lines, delimiter=separator, strict=True))))
            )
    header = max(found, key=lambda one: len(one.names), default=Header("", ()))
    if not header.names:
        raise csv.Error("no header line")
    "".join(header.names).encode("utf-8")  # only here: other text that is not UTF-8 is no name
    return header


def csv_batches(path: Path, header: Header, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the named columns as text, a batch of rows at a time; empty fields are null.

    Parameters
    ----------
    path : Path
    header : Header
    names : tuple of str
        Columns of the header, in any order.

    Yields
    ------
    pyarrow.RecordBatch
        Private. DuckDB's errors quote cells: the caller replaces them.
    """
    places = [header.names.index(name) for name in names]
    query = _QUERY.format(
        columns=", ".join(f"c{place}" for place in places),
        path=_literal(_as_glob(path)),
        header=str(not header.declared).lower(),
        separator=_literal(header.separator),
        names="{" + ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(header.names))) + "}",
        compression="'gzip'" if _is_packed(path) else "'none'",
        longest=_MAX_ROW_BYTES,
    )
    with _database(os.getpid()).cursor() as connection:
        threads = min(os.cpu_count() or 1, max(1, batch_room() // _THREAD_BYTES))
        connection.execute(f"SET threads = {threads}; SET memory_limit = '{2 * batch_room()}B'")
        for batch in connection.sql(query).to_arrow_reader(_BATCH_ROWS):
            yield batch.rename_columns(list(names))


@functools.cache
def _database(process: int) -> duckdb.DuckDBPyConnection:
    """Return the database in memory that reads the files of a process: threads do not fork."""
    import duckdb

    del process
    return duckdb.connect(config={**NO_EXTENSIONS})


def line_not_utf8(path: Path) -> int | None:
    """Return the number of the first line of a file that is not UTF-8; None if all are."""
    decoder, lines = codecs.getincrementaldecoder("utf-8")(), 1
    with opened(path) as file:
        chunk = None
        while chunk != b"":
            chunk = file.read(_CHUNK_BYTES)
            try:
                decoder.decode(chunk, final=not chunk)
            except UnicodeDecodeError as error:
                return lines + error.object[: error.start].count(b"\n")
            lines += chunk.count(b"\n")
    return None


def _is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def _as_glob(path: Path) -> str:
    """Return the pattern of DuckDB that a file of this machine alone has."""
    return re.sub(r"[\[*?]", lambda match: f"[{match[0]}]", os.path.abspath(path))


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
