"""CSV files, read by DuckDB with all options declared. Nothing is guessed from rows.

The header record, or the schema, has the names of the columns and the delimiter. Quotes are double
quotes. Cells stay text, because the schema has their format. A file is read completely or refused.
DuckDB installs and loads no extension, so it reads UTF-8 only. Python decodes a file in another
encoding into a temporary copy, a chunk at a time.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import os
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from missdp.errors import DataError, replacing
from missdp.schema import Layout
from missdp.schema.layout import PLAIN
from missdp.table.memory import batch_capacity

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

NO_EXTENSIONS: Final = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""Settings that prevent DuckDB from downloading and loading code."""
_DELIMITERS: Final = ",;\t|"
_MAX_ROW_BYTES = 2**24  # bytes of the longest row
_THREAD_BYTES = 2**27  # largest memory of a thread of DuckDB for batches of rows, in bytes
_CHUNK_BYTES = 2**20  # bytes of a chunk, and of the longest header record
BATCH_ROWS: Final = 32_768  # rows of a batch
_QUERY: Final = """
SELECT {columns} FROM read_csv({path}, auto_detect = false, all_varchar = true, header = {header},
    delim = {delimiter}, quote = '"', escape = '"', columns = {names}, strict_mode = true,
    null_padding = false, compression = {compression},
    max_line_size = {longest}, buffer_size = {longest}, parallel = {parallel})
"""


@dataclass(frozen=True)
class Header:
    """The delimiter of a CSV file, and the names of its columns."""

    delimiter: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class CsvFile:
    """A CSV file, possibly compressed, with its declared layout.

    Parameters
    ----------
    path : Path
        The name of the file. Its suffix declares compression and tabs as delimiters.
    place : Path
        The path for reading, which may be an open file.
    layout : Layout, optional
        The declared layout.
    """

    path: Path
    place: Path
    layout: Layout = PLAIN

    @property
    def _is_packed(self) -> bool:
        return self.path.suffix.lower() == ".gz"

    def opened(self) -> Any:
        """Open the file to read its bytes."""
        return gzip.open(self.place, "rb") if self._is_packed else self.place.open("rb")

    @cached_property
    def header(self) -> Header:
        """The delimiter and the names. The delimiter that makes the most names is taken."""
        tabs = self.path.suffix.lower() == ".tsv"
        if self.layout.header:
            return Header("\t" if tabs else self.layout.delimiter, self.layout.header)
        text = next(self.in_utf8(), b"").decode("utf-8-sig", "surrogateescape")
        headers: list[Header] = []
        for delimiter in "\t" if tabs else _DELIMITERS:
            with contextlib.suppress(
                csv.Error, StopIteration
            ):  # a quote is not closed, or text follows it
                lines = io.StringIO(text, newline="")
                record = next(csv.reader(lines, delimiter=delimiter, strict=True))
                headers.append(Header(delimiter, tuple(record)))
        header = max(headers, key=lambda header: len(header.names), default=Header("", ()))
        if not header.names:
            raise csv.Error("no header line")
        "".join(header.names).encode("utf-8")  # fails for a name that is not UTF-8
        if any(name.lstrip() != name and name.lstrip().startswith('"') for name in header.names):
            raise csv.Error("a quote after a blank: DuckDB would start a cell there")
        return header

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns as text, a batch of rows at a time. Empty fields are null.

        DuckDB reads fast in parallel, and refuses a quote that is never closed. It may also refuse
        a cell in quotes at the end of a buffer, depending on the rows before it. A refused file is
        therefore read again without parallel buffers, if all its quotes are closed.

        Parameters
        ----------
        names : tuple of str
            Columns of the header, in any order.

        Yields
        ------
        pyarrow.RecordBatch
            Private. DuckDB's errors quote cells, so the caller must replace them.

        Raises
        ------
        csv.Error
            If a quote is never closed.
        duckdb.Error, OSError
            If DuckDB cannot parse the file.
        """
        import duckdb
        import pyarrow as pa

        done = 0
        with contextlib.suppress(duckdb.Error, pa.ArrowException, OSError):
            for batch in self._parsed(names, parallel="true"):
                yield batch
                done += batch.num_rows
            return
        if not self._closes_quotes():
            raise csv.Error("a quote is never closed")
        for batch in self._parsed(names, parallel="false"):
            if batch.num_rows > done:
                yield batch.slice(done)
            done = max(0, done - batch.num_rows)

    def _closes_quotes(self) -> bool:
        """Return True if all quotes of the file are closed. Python reads the file slowly."""
        end, record = "\0end of the file", list[str]()
        limit = csv.field_size_limit(_MAX_ROW_BYTES)
        try:
            with (
                self.opened() as file,
                io.TextIOWrapper(file, self.layout.encoding, "replace", newline="") as lines,
            ):
                rows = csv.reader(chain(lines, ["\n", end]), delimiter=self.header.delimiter)
                for cells in rows:
                    record = cells
        finally:
            csv.field_size_limit(limit)
        return record == [end]

    def _parsed(self, names: tuple[str, ...], *, parallel: str) -> Iterator[pa.RecordBatch]:
        """Yield the named columns of all rows that DuckDB parses."""
        header = self.header
        places = [header.names.index(name) for name in names]
        select = partial(
            _QUERY.format,
            columns=", ".join(f"c{place}" for place in places),
            header=str(not self.layout.header).lower(),
            delimiter=_literal(header.delimiter),
            names="{" + ", ".join(f"'c{k}': 'VARCHAR'" for k in range(len(header.names))) + "}",
            longest=_MAX_ROW_BYTES,
            parallel=parallel,
        )
        packed = self._is_packed and self.layout.is_utf8
        with self._for_duckdb() as place, _database() as connection:
            query = select(path=_literal(place), compression="'gzip'" if packed else "'none'")
            for batch in connection.sql(query).to_arrow_reader(BATCH_ROWS):
                yield batch.rename_columns(list(names))

    def in_utf8(self) -> Iterator[bytes]:
        """Yield the bytes of the file in UTF-8, a chunk at a time."""
        utf8 = self.layout.is_utf8
        decoder = None if utf8 else codecs.getincrementaldecoder(self.layout.encoding)()
        with self.opened() as file:
            while chunk := file.read(_CHUNK_BYTES):
                yield chunk if decoder is None else decoder.decode(chunk).encode("utf-8")
        if decoder is not None:
            yield decoder.decode(b"", final=True).encode("utf-8")

    @contextlib.contextmanager
    def _for_duckdb(self) -> Iterator[str]:
        """Yield the path that DuckDB reads. A file in another encoding is copied in UTF-8."""
        if self.layout.is_utf8:
            yield _as_glob(self.place)
            return
        with contextlib.ExitStack() as stack:
            with _writing():
                copy = stack.enter_context(tempfile.TemporaryFile(prefix="missdp-", buffering=0))
            for chunk in self.in_utf8():
                with _writing():
                    copy.write(chunk)
            yield f"/dev/fd/{copy.fileno()}"

    def count_lines(self, limit: int) -> int:
        """Return the number of line ends, or one above the limit."""
        lines = 0
        with self.opened() as file:
            while lines <= limit and (block := file.read(_CHUNK_BYTES)):
                lines += block.count(b"\n")
                if b"\r" in block:
                    lines += block.count(b"\r") - block.count(b"\r\n")
        return lines

    def undecodable_line(self) -> int | None:
        """Return the number of the first line that cannot be decoded, or None."""
        decoder, lines = codecs.getincrementaldecoder(self.layout.encoding)(), 1
        with self.opened() as file:
            chunk = None
            while chunk != b"":
                chunk, state = file.read(_CHUNK_BYTES), decoder.getstate()
                try:
                    lines += decoder.decode(chunk, final=not chunk).count("\n")
                except UnicodeDecodeError:
                    decoder.setstate(state)
                    return lines + _lines_before(decoder, chunk)
        return None


def _database() -> duckdb.DuckDBPyConnection:
    """Return a new database in memory, within the limit of memory of this thread."""
    import duckdb

    threads = min(os.cpu_count() or 1, max(1, batch_capacity() // _THREAD_BYTES))
    limits = {"threads": str(threads), "memory_limit": f"{2 * batch_capacity()}B"}
    return duckdb.connect(config={**NO_EXTENSIONS, **limits})


def _writing() -> replacing:
    """Replace errors of writing the temporary copy."""
    why = (
        "a file in another encoding than UTF-8 is decoded into a temporary file, which cannot be "
        "written. Free space in the folder of TMPDIR, or convert the file to UTF-8."
    )
    return replacing(OSError, by=DataError(why))


def _lines_before(decoder: codecs.IncrementalDecoder, chunk: bytes) -> int:
    """Return the number of line ends of a chunk before the byte that cannot be decoded."""
    lines = 0
    with contextlib.suppress(UnicodeDecodeError):
        for place in range(len(chunk)):
            lines += decoder.decode(chunk[place : place + 1]).count("\n")
    return lines


def _as_glob(path: Path) -> str:
    """Return the pattern of DuckDB that matches one local file only."""
    return re.sub(r"[\[*?]", lambda match: f"[{match[0]}]", os.path.abspath(path))


def _literal(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
