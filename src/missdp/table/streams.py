"""Rows that come in batches, from wherever they are; each reading starts again from the first.

What is known before a row is read, the names of the columns and about how many rows there are,
comes from metadata: the footer of a Parquet file, the catalogue of an engine; the lines of a CSV
file are counted. Rows that may come in another order when read again are read once, and kept.
"""

from __future__ import annotations

import abc
import contextlib
import fnmatch
import glob
import os
import zlib
from collections.abc import Collection, Iterator, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from missdp.errors import DataError, ParameterError, replacing
from missdp.schema import Date, Layout, Numeric, Schema
from missdp.schema.layout import PLAIN
from missdp.shelf import memory_in_force
from missdp.table.cells import LONGEST_BYTES, Cells, HeldBatch, spelled
from missdp.table.csv_files import opened
from missdp.table.frames import check_columns, columns_from_native
from missdp.table.packages import Described
from missdp.table.read_files import (
    BATCH_ROWS,
    file_batches,
    file_columns,
    file_facts,
    is_csv,
    stated_rows,
)

if TYPE_CHECKING:
    import duckdb


class Batch(Protocol):
    """Columns of some rows: an Arrow batch, or what a database's driver gives. Private."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""

    def column(self, place: int) -> Cells:
        """Return a column's cells."""


_PARQUET = (".parquet", ".pq")
_AS_THEY_ARE = frozenset(
    (
        *("boolean", "tinyint", "smallint", "integer", "bigint", "float", "double", "decimal"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "enum", "uuid"),
        *("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"),
        *("timestamp with time zone", "sqlnull", "null"),
    )
)
_AS_BYTES = {"varchar": "encode({})", "blob": "{}"}  # without cells that are too long to be read
# DuckDB hands these to Arrow in types that are too small for them; as text they are exact.
_AS_TEXT = frozenset(("hugeint", "uhugeint", "bignum", "varint"))
_LINE = 16  # bytes of memory that a row takes at the least


class RowStream(abc.ABC):
    """Rows of a table, read in batches, as often as needed. Private, but for names of columns."""

    #: Whether a row that cannot be read is only found when its batch is: text that is parsed.
    unchecked: bool = False

    @abc.abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""

    @abc.abstractmethod
    def about(self) -> int | None:
        """Return about how many rows there are, from metadata; None if nothing tells."""

    @abc.abstractmethod
    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns, in this order, a batch at a time; an error quotes no cell."""

    def described(self) -> Mapping[str, Described]:
        """Return what is said of columns besides their cells: labels, codes of missing cells."""
        return {}

    def check(self, names: tuple[str, ...], *, unread: Collection[str] = ()) -> None:
        """Refuse repeated, absent and undeclared columns, but for some that are never read."""
        check_columns(list(self.columns()), names, unread=unread)

    def laid_out(self, schema: Schema) -> RowStream:
        """Return the rows as a schema says how they lie in their file."""
        return self if schema.file == PLAIN and not schema.unread else _LaidOut(self, schema)


class HeldRows(RowStream):
    """The rows of a frame, or of lists, as one batch; no ``unread`` cell is looked at."""

    def __init__(
        self, data: Any, names: tuple[str, ...] | None = None, *, unread: Collection[str] = ()
    ) -> None:
        self._cells = columns_from_native(data, names, unread=unread)

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(self._cells)

    def about(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self._cells.values()), ()))

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns."""
        yield HeldBatch([self._cells[name] for name in names], self.about())


class FileRows(RowStream):
    """The rows of a file: CSV, Parquet, Feather, Excel, SPSS, Stata or SAS, by its suffix.

    Parameters
    ----------
    path : str or Path
    layout : Layout, optional
        How a text file is written.
    """

    def __init__(self, path: str | Path, *, layout: Layout = PLAIN) -> None:
        self.paths: tuple[Path, ...] = (Path(path),)
        self._layout = layout
        self.unchecked = not self.paths[0].name.lower().endswith(_PARQUET)

    def described(self) -> Mapping[str, Described]:
        """Return what the file says of its columns, besides their cells."""
        return file_facts(self.paths[0])

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return file_columns(self.paths[0], layout=self._layout)

    def check(self, names: tuple[str, ...], *, unread: Collection[str] = ()) -> None:
        """Refuse repeated, absent and undeclared columns."""
        file_columns(self.paths[0], names, layout=self._layout, unread=unread)

    def laid_out(self, schema: Schema) -> RowStream:
        """Return the rows as a schema says how they lie in their file."""
        again = copy(self)
        again._layout = schema.file
        return RowStream.laid_out(again, schema)

    def about(self) -> int | None:
        """Return the number of rows that Parquet files state, or the number of lines of CSV."""
        stated = [(_lines if is_csv(path) else stated_rows)(path) for path in self.paths]
        return sum(n for n in stated if n is not None) if None not in stated else None

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns of one file after the other; see ``file_batches``."""
        for path in self.paths:
            yield from file_batches(path, names, layout=self._layout)


class PartRows(FileRows):
    """The rows of many Parquet files that have the same columns: those of a folder, or of a glob.

    Parameters
    ----------
    place : str or Path
        A folder, of which every ``.parquet`` or ``.pq`` file is read, also in folders below, but
        none whose name starts with a dot or an underscore; or a pattern such as
        ``"visits/2024-*.parquet"``.

    Notes
    -----
    Names of folders (``year=2024/``) are no columns here.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa
    >>> import pyarrow.parquet as pq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in (1, 2):
    ...         pq.write_table(pa.table({"age": [30 + k] * k}), f"{folder}/{k}.parquet")
    ...     rows = PartRows(folder)
    ...     rows.columns(), rows.about()
    (('age',), 3)
    """

    def __init__(self, place: str | Path) -> None:
        self.place: Final = Path(place)
        self._layout = PLAIN
        self.paths = _parts(self.place)
        first = file_columns(self.paths[0])
        for path in self.paths[1:]:
            if set(file_columns(path)) != set(first):
                raise DataError(f"{str(path)!r} has other columns than {str(self.paths[0])!r}")

    def would_read(self, path: Path) -> bool:
        """Whether a file that is written there would be one of these files from then on."""
        if path.suffix.lower() not in _PARQUET:
            return False
        if self.place.is_dir():
            inside, folder = Path(os.path.realpath(path)), Path(os.path.realpath(self.place))
            return inside.is_relative_to(folder) and not _hidden(inside.relative_to(folder))
        written, pattern = os.path.abspath(path), os.path.abspath(self.place)
        if "**" in pattern:
            return fnmatch.fnmatch(written, pattern)
        return Path(written).match(pattern)


class RelationRows(RowStream):
    """The rows of a DuckDB relation.

    Parameters
    ----------
    relation : DuckDBPyRelation
    about : int, optional
        About how many rows there are.
    """

    def __init__(self, relation: duckdb.DuckDBPyRelation, *, about: int | None = None) -> None:
        self._relation, self._about = relation, about

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        import duckdb

        with replacing(duckdb.Error, by=DataError("the relation cannot be read any more")):
            return tuple(self._relation.columns)

    def about(self) -> int | None:
        """Return what was said about the number of rows."""
        return self._about

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns, a batch of rows at a time."""
        import duckdb
        import pyarrow as pa

        unreadable = DataError("the data cannot be read: a row is malformed or the query fails")
        private = replacing(duckdb.Error, pa.ArrowException, OSError, by=unreadable)
        with private:
            projected = self._relation.project(", ".join(_terms(self._relation, names)))
            reader = projected.to_arrow_reader(BATCH_ROWS)
        with contextlib.closing(reader):
            while True:
                with private:
                    batch = next(reader, None)
                if batch is None:
                    return
                yield batch


def _terms(relation: duckdb.DuckDBPyRelation, names: tuple[str, ...]) -> Iterator[str]:
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    for name in names:
        column, kind = '"' + name.replace('"', '""') + '"', kinds[name].id
        if kind in _AS_BYTES:
            yield (
                f"CASE WHEN octet_length({_AS_BYTES[kind].format(column)}) > {LONGEST_BYTES} "
                f"THEN '\\xFF'::BLOB ELSE {_AS_BYTES[kind].format(column)} END AS {column}"
            )
        elif kind in _AS_THEY_ARE:
            yield column
        elif kind in _AS_TEXT:
            yield f"CAST({column} AS VARCHAR) AS {column}"
        else:  # nested values and durations are read as bytes that are no text
            yield f"CASE WHEN {column} IS NOT NULL THEN '\\xFF'::BLOB END AS {column}"


def selected(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """Return the relation of one SELECT statement; refuse anything else, and run none of it."""
    import duckdb

    with replacing(duckdb.Error, by=ParameterError("the query is not valid SQL")):
        statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ParameterError("the query must be exactly one SELECT statement")
    with replacing(duckdb.Error, by=DataError("the query does not run")):
        return connection.sql(sql)


class _LaidOut(RowStream):
    """Rows without the columns that are never read, with numbers in text as they are declared."""

    def __init__(self, rows: RowStream, schema: Schema) -> None:
        self._rows, self._layout, self._unread = rows, schema.file, schema.unread
        self.unchecked = rows.unchecked
        numbers = (a for a in schema if isinstance(a, Numeric) and not isinstance(a, Date))
        self._numbers = frozenset(() if self._layout.plain else (a.name for a in numbers))

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns that are read."""
        return tuple(n for n in self._rows.columns() if n not in self._unread)

    def check(self, names: tuple[str, ...], *, unread: Collection[str] = ()) -> None:
        """Refuse repeated, absent and undeclared columns."""
        self._rows.check(names, unread=(*unread, *self._unread))

    def about(self) -> int | None:
        """Return about how many rows there are."""
        return self._rows.about()

    def described(self) -> Mapping[str, Described]:
        """Return what is said of columns besides their cells."""
        return self._rows.described()

    def laid_out(self, schema: Schema) -> RowStream:
        """Return the rows as they are: they are laid out by now."""
        del schema
        return self

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns."""
        for batch in self._rows.batches(names):
            columns = [self._cells(name, batch.column(k)) for k, name in enumerate(names)]
            yield HeldBatch(columns, batch.num_rows)

    def _cells(self, name: str, cells: Cells) -> Cells:
        return spelled(cells, self._layout) if name in self._numbers else cells


def stream_of(data: Any, schema: Schema | None = None) -> RowStream | None:
    """Return what reads files, relations and streams in batches; None for anything else."""
    import duckdb

    if isinstance(data, duckdb.DuckDBPyRelation):
        data = RelationRows(data)
    elif isinstance(data, (str, Path)):
        data = FileRows(data)
    if not isinstance(data, RowStream):
        return None
    return data if schema is None else data.laid_out(schema)


def rows_of(data: Any, schema: Schema | None = None) -> RowStream:
    """Return what reads any table; refuse what is none, or has other columns than a schema's."""
    if (stream := stream_of(data, schema)) is not None:
        return stream
    if schema is None:
        return HeldRows(data)
    held = HeldRows(data, schema.stored.names, unread=schema.unread)
    return held.laid_out(schema)


def is_read_as_text(data: Any) -> bool:
    """Whether rows come from CSV files, which are refused as a whole if a row is malformed."""
    if isinstance(data, str | Path):
        return is_csv(Path(data)) or Path(data).is_dir()
    return isinstance(data, FileRows) and any(map(is_csv, data.paths))


def _parts(place: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a folder or a pattern, in the order of their names."""
    found: list[Path] = []
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        if place.is_dir():
            found = [path for path in place.rglob("*") if not _hidden(path.relative_to(place))]
        else:
            found = [Path(name) for name in glob.glob(str(place), recursive=True)]
    found = sorted(p for p in found if p.suffix.lower() in _PARQUET and p.is_file())
    if not found:
        raise DataError(
            f"no Parquet files at {str(place)!r}: name a folder of them, or a pattern such as "
            "'visits/*.parquet'"
        )
    # A pattern may find a file twice, and a link is the file that it leads to: rows count once.
    files: dict[tuple[int, int], Path] = {}
    for path in found:
        about = path.stat()
        files.setdefault((about.st_dev, about.st_ino), path)
    return tuple(files.values())


def _hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _lines(path: Path) -> int | None:
    """Return the number of line ends of a CSV file; of very many, far too many to be held."""
    lines, most = 0, memory_in_force() // _LINE
    with contextlib.suppress(OSError, EOFError, zlib.error):  # told when it is read
        with opened(path) as file:
            while lines <= most and (block := file.read(2**20)):
                lines += block.count(b"\n")
                if b"\r" in block:
                    lines += block.count(b"\r") - block.count(b"\r\n")
        return lines
    return None
