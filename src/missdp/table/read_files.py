"""Data files by suffix: the names of their columns, and their rows in batches.

Nothing about a cell is guessed here. Parquet files keep their types, and cells of CSV files stay
text. Errors of libraries may quote a cell, so they are replaced.
"""

from __future__ import annotations

import contextlib
import csv
import os
import weakref
import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from missdp.errors import DataError, MissDPError, replacing
from missdp.schema import Layout
from missdp.schema.layout import PLAIN
from missdp.table.cells import without_long_cells
from missdp.table.csv_files import CsvFile, Header
from missdp.table.memory import batch_capacity, current_memory_limit
from missdp.table.packages import EXCEL, STAT, STAT_FILES, Described, FileFormat, described

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet


BATCH_ROWS = 65_536  # rows of a batch
CSV_FILES, PARQUET_FILES = (".csv", ".csv.gz", ".tsv"), (".parquet", ".pq")
_FEATHER, _EXCEL = (".feather", ".arrow"), (".xlsx",)
READABLE = (*CSV_FILES, *PARQUET_FILES, *_FEATHER, *_EXCEL, *STAT_FILES)
_MIN_ROW_BYTES = 16  # smallest memory of a row, in bytes
_COPIES = 5.2  # peak memory of reading a Parquet file, in multiples of its cells
_SHORT = 64  # bytes of a cell that never counts as long


class _OpenFile:
    """File that stays open for the lifetime of this object. Child processes do not inherit it."""

    def __init__(self, path: Path) -> None:
        self.number = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        weakref.finalize(self, os.close, self.number)


class DataFile:
    """Data file: CSV, Parquet, Feather, Excel, SPSS, Stata or SAS, by its suffix.

    A CSV, Parquet or Feather file is opened by its name once, so that all passes read one file.

    Parameters
    ----------
    path : Path
        The name of the file.
    layout : Layout, optional
        The layout of a text file.
    hold : bool, default True
        True if the file stays open.
    """

    def __init__(self, path: Path, layout: Layout = PLAIN, *, hold: bool = True) -> None:
        self.path, self.layout, self._hold = path, layout, hold

    def with_layout(self, layout: Layout) -> DataFile:
        """Return the open file with another declared layout."""
        if layout == self.layout:
            return self
        other = DataFile(self.path, layout, hold=self._hold)
        opened = ("_file", "_place")
        vars(other).update({name: vars(self)[name] for name in opened if name in vars(self)})
        return other

    def is_of(self, suffixes: tuple[str, ...]) -> bool:
        """Return True if the name has one of these suffixes."""
        return self.path.name.lower().endswith(suffixes)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in the order of the file.

        Raises
        ------
        DataError
            If the file cannot be read, or a name is empty. The message quotes no cell.
        """
        with self._readable():
            names = self._format.names(self._place)
        if "" in names and not self.is_of(PARQUET_FILES):
            raise DataError(self._unnamed(names))
        return names

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns, a batch of rows at a time.

        The header line of a CSV file determines the delimiter. Quotes are double quotes. Cells stay
        text here, because the schema has their format. Empty fields are null.

        Parameters
        ----------
        names : tuple of str
            Columns of the file, in any order.

        Yields
        ------
        pyarrow.RecordBatch
            Private. Errors quote no cell.
        """
        import pyarrow as pa

        with self._readable():
            batches = self._format.batches(self._place, names)
        while True:
            with self._readable():
                batch = next(batches, None)
                if batch is None:
                    return
                columns = [without_long_cells(batch.column(name)) for name in names]
                batch = pa.RecordBatch.from_arrays(columns, list(names))
            del columns
            for start in range(0, batch.num_rows, BATCH_ROWS):
                yield batch.slice(start, BATCH_ROWS)

    def approximate_length(self) -> int | None:
        """Return the number of rows that the file states, or the number of lines of CSV."""
        import pyarrow as pa

        with contextlib.suppress(OSError, EOFError, zlib.error, pa.ArrowException):
            if self.is_of(CSV_FILES):
                return self.csv.count_lines(current_memory_limit() // _MIN_ROW_BYTES)
            if self.is_of(PARQUET_FILES):
                return int(self._parquet.num_rows)
        return None  # reading the file raises the error

    def facts(self) -> Mapping[str, Described]:
        """Return the declarations of the file about its columns: labels and codes."""
        if not self.is_of(STAT_FILES):
            return {}
        with self._readable():
            return described(self._place)

    @property
    def header(self) -> Header:
        """The delimiter of a CSV file, and the names of its columns."""
        with self._readable():
            return self.csv.header

    @cached_property
    def csv(self) -> CsvFile:
        """The file as CSV."""
        return CsvFile(self.path, self._place, self.layout)

    @cached_property
    def _place(self) -> Path:
        """The path of the open file, by its number if the system supports this."""
        _check_is_file(self.path)
        if not self.is_of(READABLE):
            raise DataError(
                f"cannot read {str(self.path)!r}: the suffix must be one of {', '.join(READABLE)}"
            )
        if not self._hold or self.is_of((*_EXCEL, *STAT_FILES)):
            return self.path
        with self._readable():
            self._file = _OpenFile(self.path)
        by_number = Path(f"/dev/fd/{self._file.number}")
        return by_number if by_number.exists() else self.path

    @property
    def _format(self) -> FileFormat:
        """The format of the file, by its suffix."""
        if self.is_of(CSV_FILES):
            noun = f"CSV file with{'out' * bool(self.layout.header)} a header line"
            csv = self.csv
            return FileFormat(noun, lambda _: csv.header.names, lambda _, n: csv.batches(n))
        if self.is_of(PARQUET_FILES):
            return FileFormat(
                "Parquet file",
                lambda _: tuple(self._parquet.schema.to_arrow_schema().names),
                self._parquet_batches,
            )
        if self.is_of(_FEATHER):
            return FileFormat("Feather file", _feather_names, _feather_batches)
        return EXCEL if self.is_of(_EXCEL) else STAT

    def _readable(self) -> replacing:
        """Replace errors about the content of the file, since they may quote cells."""
        import duckdb
        import pyarrow as pa

        if self.is_of((*_EXCEL, *STAT_FILES)):  # their libraries raise errors of many types
            return replacing(Exception, by=self._malformed)
        errors = (duckdb.Error, pa.ArrowException, csv.Error, OSError, EOFError, zlib.error)
        return replacing(*errors, UnicodeError, by=self._malformed)

    def _malformed(self, error: BaseException) -> MissDPError:
        """Return the error for a file that cannot be read. It quotes no cell."""
        if isinstance(error, MissDPError):
            return error
        if not self.is_of(CSV_FILES):
            noun = self._format.noun
            return DataError(f"cannot read {str(self.path)!r}: it is not a well-formed {noun}")
        line = None
        with contextlib.suppress(OSError, EOFError, zlib.error):
            line = self.csv.undecodable_line()
        if line is not None:
            return DataError(
                f"cannot parse {str(self.path)!r} as CSV: line {line} is not "
                f"{self.layout.encoding.upper()}. State the encoding of the file, as "
                'encoding = "latin-1" in the table [file] of the schema or as --encoding latin-1 '
                "of a draft, or convert the file to UTF-8."
            )
        header = "" if self.layout.header else "there is no header line, "
        return DataError(
            f"cannot parse {str(self.path)!r} as CSV: {header}a row has too many or too few fields "
            "or is longer than 16 MiB, a quote is not closed, or lines end in different ways."
        )

    def _unnamed(self, names: tuple[str, ...]) -> str:
        """Return the message about an empty name. It quotes no name, which might be a cell."""
        if names[0] == "" and "" not in names[1:]:
            return (
                f"the first column of {str(self.path)!r} has no name: pandas saves the row labels "
                "of a frame like that. Save it again with index=False, or delete the column."
            )
        file = str(self.path)
        return f"the header line of {file!r} has a column without a name. Name or delete it."

    @cached_property
    def _parquet(self) -> pa.parquet.FileMetaData:
        import pyarrow as pa
        import pyarrow.parquet

        return pa.parquet.read_metadata(self._place)

    def _check_memory(self) -> None:
        """Raise DataError if a row group, which is read at once, has too much text in cells."""
        for group in map(self._parquet.row_group, range(self._parquet.num_row_groups)):
            chunks = map(group.column, range(group.num_columns))
            sizes = (max(c.total_uncompressed_size, 8 * c.num_values) for c in chunks)
            long = sum(max(0, size - _SHORT * group.num_rows) for size in sizes)
            if long > batch_capacity() / _COPIES:
                raise DataError(
                    f"cannot read {str(self.path)!r}: a cell exceeds the limit of memory. Shorten "
                    "it, or raise the limit (--memory, memory_limit)."
                )

    def _parquet_batches(self, place: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield batches with text and bytes as dictionaries, which store a repeated cell once."""
        import pyarrow as pa
        import pyarrow.parquet

        about = self._parquet
        self._check_memory()
        leaves = [about.schema.column(i) for i in range(about.num_columns)]
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
        width = sum(leaf.length for leaf in leaves)
        file = pa.parquet.ParquetFile(place, metadata=about, read_dictionary=texts)
        rows = max(1, min(BATCH_ROWS, int(batch_capacity() / _COPIES / max(1, width))))
        batches: Iterator[pa.RecordBatch] = file.iter_batches(rows, columns=list(names))
        return batches


def _feather_names(place: Path) -> tuple[str, ...]:
    """Return the names of the columns of a Feather file."""
    import pyarrow as pa

    with pa.memory_map(str(place)) as file:
        return tuple(pa.ipc.open_file(file).schema.names)


def _feather_batches(place: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the named columns of a Feather file, a batch of rows at a time."""
    import pyarrow as pa

    with pa.memory_map(str(place)) as file:
        reader = pa.ipc.open_file(file)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number).select(list(names))


def _check_is_file(path: Path) -> None:
    """Raise DataError unless a path is a file."""
    hint = ""
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        if path.is_file():
            return
        if path.is_dir():
            hint = ": it is a folder. Rows.of_parts reads all Parquet files of a folder."
    raise DataError(f"no data file at {str(path)!r}{hint}")
