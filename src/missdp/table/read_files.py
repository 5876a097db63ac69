"""Files, by their suffix: the names of their columns, and their rows in batches.

Nothing about a cell is guessed here: Parquet files keep their types, and the cells of CSV files
stay bytes. Errors of the engines, which may quote a cell, are replaced.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import secrets
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from missdp.errors import DataError, MissDPError, replacing
from missdp.schema import Layout
from missdp.schema.layout import PLAIN
from missdp.table.cells import HeldBatch, without_long_cells
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
_HEADER_BYTES = 2**20
_BLOCK_BYTES = 2**22
_MAX_BLOCK_BYTES = 2**31 - 1
# Arrow reads 32 blocks of a CSV file ahead, and takes as much again to make columns of a few.
_BLOCKS, _LEAST_BLOCKS = 80, 40  # that there is room for, of usual rows and of very long ones
_COPIES = 5.2  # of the cells of a Parquet file, while they are read
_QUOTE = ord('"')
_SHORT = 64  # bytes of a cell that nobody calls long


def file_columns(
    path: Path, names: tuple[str, ...] | None = None, *, layout: Layout = PLAIN
) -> tuple[str, ...]:
    """Return the column names of a file; with ``names``, refuse any other that is read."""
    with _readable(path, layout):
        found = _format_of(path, layout).names(path)
    if "" in found and not path.name.lower().endswith(_PARQUET):
        raise DataError(_unnamed(path, found))
    if names is not None:
        check_columns(list(found), names, unread=layout.unread)
    if len(set(found)) < len(found):
        # Unnamed: without a schema, the first line could be a row of a file that has no header.
        raise DataError(f"the header of {str(path)!r} repeats a column name; rename the columns")
    return found


def file_batches(
    path: Path, names: tuple[str, ...], *, layout: Layout = PLAIN
) -> Iterator[pa.RecordBatch | HeldBatch]:
    """Yield the named columns of a file, a batch of rows at a time.

    The header line of a CSV file decides what separates its fields; quotes are double; cells stay
    bytes here, because the schema says how to read them. Empty fields are null.
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


def csv_separator(path: Path) -> str:
    """Return what separates the fields of a CSV file, by its header line."""
    with _readable(path):
        return _read_header(path).separator


@contextlib.contextmanager
def _readable(path: Path, layout: Layout = PLAIN) -> Iterator[None]:
    """Replace errors about the content of a file, which may quote cells."""
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
            header = "" if layout.columns else "there is no header line, "
            return DataError(
                f"cannot parse {str(path)!r} as CSV: {header}a row has too many or too few fields, "
                "a quote is not closed, or the file is not UTF-8."
            )
        noun = _format_of(path, layout).noun
        return DataError(f"cannot read {str(path)!r}: it is not a well-formed {noun}")

    # Other libraries have errors of many kinds.
    known = (pa.ArrowException, csv.Error, OSError, EOFError, zlib.error, UnicodeError)
    others = path.name.lower().endswith((*_EXCEL, *STAT_FILES))
    with replacing(*((Exception,) if others else known), by=malformed):
        yield


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


@dataclass(frozen=True)
class _Header:
    """The first record of a CSV file."""

    separator: str
    names: tuple[str, ...]
    rows_follow: bool
    declared: bool = False  # there is no such record: its names are known


def _format_of(path: Path, layout: Layout = PLAIN) -> FileFormat:
    """Return how a file with one of the suffixes is read."""
    name = path.name.lower()
    if name.endswith(_CSV):
        noun = f"CSV file in UTF-8 with{'out' * bool(layout.columns)} a header line"
        header = partial(_read_header, layout=layout)
        return FileFormat(
            noun, lambda p: header(p).names, lambda p, names: _csv_batches(p, header(p), names)
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


def opened(path: Path) -> Any:
    """Open a CSV file to read its bytes."""
    return gzip.open(path, "rb") if path.suffix.lower() == ".gz" else path.open("rb")


def _read_header(path: Path, layout: Layout = PLAIN) -> _Header:
    """Return separator and column names: those of the separator that finds most names.

    One by which a quoted name would be followed by more than a separator counts only if all do so;
    one by which a quote in the header is never closed does not count.
    """
    with opened(path) as file:
        start: bytes = file.read(_HEADER_BYTES)
    if layout.columns:
        separator = "\t" if path.suffix.lower() == ".tsv" else layout.separator
        return _Header(separator, layout.columns, bool(start), declared=True)
    text = start.decode("utf-8-sig", "surrogateescape")
    if len(start) < _HEADER_BYTES:  # the end of the file, which a quote that is open swallows
        text += "." if text.endswith(("\n", "\r")) else "\n."
    found: list[_Header] = []
    for strict in (True, False):
        for separator in "" if found else "\t" if path.suffix.lower() == ".tsv" else ",;\t|":
            lines = io.StringIO(text, newline="")
            with contextlib.suppress(csv.Error):
                names = next(csv.reader(lines, delimiter=separator, strict=strict), [])
                if rest := lines.read(2):
                    found.append(_Header(separator, tuple(names), len(rest) > 1))
    header = max(found, key=lambda one: len(one.names), default=_Header("", (), False))
    if not header.names:
        raise csv.Error("no header line")
    "".join(header.names).encode("utf-8")  # only here: a cell that is not UTF-8 is for its reader
    return header


def numbered_columns(path: Path) -> Layout:
    """Return the layout of a CSV file without a header line, whose columns are numbered."""
    with _readable(path):
        first = _read_header(path)
    columns = tuple(f"column{k + 1}" for k in range(len(first.names)))
    return Layout(columns=columns, separator=first.separator.replace("\t", ","))  # .tsv has tabs


def _csv_batches(path: Path, header: _Header, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Parse; if a row is longer than a block, go on from there with longer blocks."""
    import pyarrow as pa

    room = batch_room()
    longest = min(_MAX_BLOCK_BYTES, room // _LEAST_BLOCKS)
    whole = path.suffix.lower() != ".gz" and path.stat().st_size < longest
    done, block = 0, min(_BLOCK_BYTES, room // _BLOCKS)
    while header.rows_follow:
        skip = done
        file = _Ended(path, header)
        try:
            with _open_csv(file, header, names, block) as reader:
                for batch in file.without_end(reader):
                    fresh = batch.slice(skip)
                    skip -= min(skip, batch.num_rows)
                    done += fresh.num_rows
                    yield fresh
            return
        except pa.ArrowInvalid as error:
            if "CSV parse error" in str(error) or (whole and block == longest):
                raise
        if block == longest:
            raise _too_long(path)
        block = min(4 * block, longest)


def _too_long(path: Path) -> DataError:
    return DataError(
        f"cannot read {str(path)!r}: a cell, or a quote that is never closed, is longer than the "
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


class _Quotes:
    """Watches whether every quote opens a cell, closes one, or is doubled inside one.

    If not, a quote that one row leaves open could be closed by a quote of another row, and all rows
    between the two would be one cell. If so, every quote turns the state, and a row with an even
    number of them leaves it as it was for the others; a row with an odd number of them leaves the
    end of the file inside a cell, and is refused there.
    """

    def __init__(self, separator: str) -> None:
        self._edges = np.isin(np.arange(256), [*separator.encode(), *b"\r\n"])
        self._seen = b"\n"  # the last byte that was looked at, and the one behind it
        self._inside = self._closed = False  # a cell in quotes; by the last quote
        self.misplaced = False

    def see(self, block: bytes) -> None:
        """Look at the next bytes of a file; at the last of them once it is known what follows."""
        if self._seen == b"\n":
            block = block.removeprefix(b"\xef\xbb\xbf")
        data = np.frombuffer(self._seen + block, np.uint8)
        self._seen = data[-2:].tobytes()
        places = np.flatnonzero(data[1:-1] == _QUOTE) + 1
        before, after = data[places - 1], data[places + 1]
        opens, closes = self._edges[before], self._edges[after] | (after == _QUOTE)
        again = before == _QUOTE  # the second one of a doubled quote
        again[:1] &= self._closed
        inside = (np.arange(len(places)) + self._inside) % 2 == 1
        if np.where(inside, closes, opens | again).all():
            self._closed = bool(inside[-1]) if len(places) else self._closed
            self._inside ^= len(places) % 2 == 1
            return
        for opening, closing, doubled in zip(opens, closes, before == _QUOTE, strict=True):
            self.misplaced |= bool(self._inside and not closing)
            opened = not self._inside and (opening or (doubled and self._closed))
            self.misplaced |= not (self._inside or opened)
            self._closed, self._inside = self._inside, bool(opened)


class _Ended:
    """A CSV file with one more row, which no file has: it is there unless a quote swallows it."""

    closed = False

    def __init__(self, path: Path, header: _Header) -> None:
        import pyarrow as pa

        self._path = path
        kind = "gzip" if path.suffix.lower() == ".gz" else None
        self._file = pa.input_stream(str(path), compression=kind)
        self._cell, self._newline = secrets.token_hex(16), b""
        self._end = header.separator.join([self._cell] * len(header.names)).encode()
        self._quotes = _Quotes(header.separator)

    def read(self, size: int) -> bytes:
        """Return the next bytes."""
        found: bytes = self._file.read(size)
        if found:
            self._newline = b"" if found.endswith((b"\n", b"\r")) else b"\n"
        else:
            end, self._end = self._end, b""
            found = end and self._newline + end
        self._quotes.see(found)
        return found

    def close(self) -> None:
        """Close the file."""
        self.closed = True
        self._file.close()

    def without_end(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the file."""
        last = None
        for batch in batches:
            if batch.num_rows:
                if last is not None:
                    yield last
                last = batch
        ends = [column[-1].as_py() for column in last.columns] if last is not None else []
        lost = last is None or any(cell != self._cell.encode() for cell in ends)
        if last is None or lost or self._quotes.misplaced:
            raise DataError(
                f"cannot read {str(self._path)!r}: a quote is never closed, or a cell goes on "
                "behind the quote that closes it; put cells with quotes into quotes, and double "
                "the quotes that are part of them"
            )
        yield last.slice(0, last.num_rows - 1)


def _open_csv(file: _Ended, header: _Header, names: tuple[str, ...], block: int) -> Any:
    import pyarrow as pa
    import pyarrow.csv

    return pa.csv.open_csv(
        pa.PythonFile(file, mode="r"),
        read_options=pa.csv.ReadOptions(
            block_size=block, column_names=list(header.names) if header.declared else None
        ),
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
