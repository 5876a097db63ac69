"""Rows in batches, from any input. Each pass starts again from the first row.

Before a row is read, metadata state the names of the columns and the approximate number of rows.
Metadata are the footer of a Parquet file or the catalogue of an engine. The lines of a CSV file are
counted.
"""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from missdp.errors import DataError, ParameterError, replacing
from missdp.schema import Layout, Schema
from missdp.table.cells import LONGEST_BYTES
from missdp.table.frames import arrow_columns, check_columns
from missdp.table.packages import Described
from missdp.table.read_files import BATCH_ROWS, CSV_FILES, PARQUET_FILES, DataFile
from missdp.types import Ints

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

# DuckDB converts cells of these types to Arrow without changes.
_UNCHANGED = (
    "boolean", "tinyint", "smallint", "integer", "bigint", "float", "double", "decimal", "utinyint",
    "usmallint", "uinteger", "ubigint", "enum", "uuid", "date", "timestamp", "timestamp_s",
    "timestamp_ms", "timestamp_ns", "timestamp with time zone", "sqlnull", "null",
)  # fmt: skip
_AS_BYTES = {"varchar": "encode({})", "blob": "{}"}  # cells that are too long are replaced
# DuckDB's Arrow types are too small for these types. As text they are exact.
_AS_TEXT = frozenset(("hugeint", "uhugeint", "bignum", "varint"))


def _nothing() -> None:
    """Do nothing: the default function ``close`` of `Rows`, for rows without a connection.

    Examples
    --------
    >>> from missdp.table import Rows
    >>> Rows.of({"age": [31, None]}).close()
    """


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Private rows of a table that are read in batches as often as needed, and are not held.

    Use :meth:`of` for frames, files and relations, and :meth:`of_parts` for many Parquet files.
    `missdp.engines` has functions for databases. Pass the result to synthesizers or to
    `Table.read`. The rows are private. Names of columns that a schema declares are public.

    Parameters
    ----------
    list_names : callable
        Returns the names of the columns as a sequence of str.
    read : callable
        Takes a tuple of names, and yields Arrow record batches of these columns, in this order. Its
        errors must quote no cell.
    length : callable, optional
        Returns the approximate number of rows from metadata, or None. Private.
    is_parsed : bool, default False
        True if an unreadable row is detected only when its batch is read.
    is_queried : bool, default False
        True if a database reads the rows, and may fail at a cell.
    is_ordered : bool, default False
        True if each pass has the same rows in the same order.
    data_files : tuple of DataFile, default ()
        The files of the rows.
    place : Path, optional
        The database, or the folder or pattern of files, of the rows.
    ignored : collection of str, default ()
        Columns that are never read.
    is_chosen : bool, default False
        True if rows were sampled by unit of protection, or weighted.
    unit_weights, unit_sums : ndarray of int64, optional
        The count of each row, of shape (n_rows,), in steps of 2**-20 of a row, and two sums of
        these counts over units, of shape (2,). Private. `missdp.table.units` computes them.
    close : callable, optional
        Closes the connection of a database. By default it does nothing.

    Examples
    --------
    >>> from missdp.table import Rows
    >>> rows = Rows.of({"age": [31, None], "smoker": ["yes", "no"]})
    >>> rows.names, rows.approximate_length()
    (('age', 'smoker'), 2)
    >>> [batch.to_pydict() for batch in rows.batches(("age",))]
    [{'age': [31, None]}]
    """

    list_names: Callable[[], Sequence[str]]
    read: Callable[[tuple[str, ...]], Iterator[pa.RecordBatch]]
    length: Callable[[], int | None] | None = None
    is_parsed: bool = False
    is_queried: bool = False
    is_ordered: bool = False
    data_files: tuple[DataFile, ...] = ()
    place: Path | None = None
    ignored: Collection[str] = ()
    is_chosen: bool = False
    unit_weights: Ints | None = None
    unit_sums: Ints | None = None
    close: Callable[[], None] = _nothing

    @classmethod
    def of(cls, data: Any, schema: Schema | None = None, *, extra: tuple[str, ...] = ()) -> Rows:
        """Open the private rows of a table from a frame, a file, a relation or lists.

        Parameters
        ----------
        data : frame, DuckDB relation, Rows, str, Path, dict or list
            The input, as for :meth:`Table.read`. Private.
        schema : Schema, optional
            Public facts: the layout of a file, and columns that are not read. By default all
            columns are read.
        extra : tuple of str, default ()
            Columns of a frame in addition to the columns of the schema.

        Returns
        -------
        Rows
            Private. Files and relations are not read yet.

        Raises
        ------
        DataError
            If the input is of an unsupported type, or a frame has other columns than the schema.
            Missing files raise it when names or rows are first read.
        """
        if not is_streamed(data):
            names = None if schema is None else (*schema.input_columns.names, *extra)
            return _of_frame(data, names, () if schema is None else schema.ignored_columns)
        if isinstance(data, str | Path):
            rows = _of_files((DataFile(Path(data)),))
        else:
            rows = data if isinstance(data, Rows) else relation_rows(data)
        return rows if schema is None else rows.declared(schema)

    @classmethod
    def of_parts(cls, place: str | Path) -> Rows:
        """Open the private rows of several Parquet files with the same columns as one table.

        Parameters
        ----------
        place : str or Path
            A folder, or a pattern such as ``"visits/2024-*.parquet"``. In a folder and its
            subfolders, every ``.parquet`` or ``.pq`` file is read, except names that start with a
            dot or an underscore.

        Returns
        -------
        Rows
            The rows of the files in the order of their names. Private.

        Raises
        ------
        DataError
            If there is no file, or the columns of two files differ.

        Notes
        -----
        Names of folders (``year=2024/``) do not become columns.

        Examples
        --------
        >>> from missdp.table import Rows
        >>> import tempfile
        >>> import pyarrow as pa
        >>> import pyarrow.parquet as pq
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     for k in (1, 2):
        ...         pq.write_table(pa.table({"age": [30 + k] * k}), f"{folder}/{k}.parquet")
        ...     rows = Rows.of_parts(folder)
        ...     rows.names, rows.approximate_length()
        (('age',), 3)
        """
        # The files are not held, since the number of open files is limited.
        files = tuple(DataFile(path, hold=False) for path in _parts(Path(place)))
        for file in files[1:]:
            if {*file.names} != {*files[0].names}:
                raise DataError(f"{str(file.path)!r} has other columns than {str(files[0].path)!r}")
        return _of_files(files, Path(place))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of the table that are read, in the order of the input.

        Ignored columns are left out.

        Returns
        -------
        tuple of str
            The names come from a header, so they are public only if the header is public.

        Raises
        ------
        DataError
            If the header of a file repeats a name, or the file cannot be read.
        """
        names = tuple(self.list_names())
        if self.data_files and len({*names}) < len(names):
            # The name is not quoted: without a header, the first line is a private row.
            file = str(self.files[0])
            raise DataError(f"the header of {file!r} repeats a column name. Rename the columns.")
        return tuple(name for name in names if name not in self.ignored)

    def approximate_length(self) -> int | None:
        """Return the approximate number of rows of the table from metadata, without reading rows.

        Returns
        -------
        int or None
            The number of rows, at least 0. None if no metadata state it. Private: no output may
            depend on it.

        Raises
        ------
        DataError
            If a file or database cannot be read.
        """
        return None if self.length is None else self.length()

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Read some columns of all private rows, a batch of rows at a time.

        Each call starts at the first row.

        Parameters
        ----------
        names : tuple of str
            Names of columns, which must be among the property ``names``.

        Yields
        ------
        pyarrow.RecordBatch
            The columns in the order of ``names``. Private.

        Raises
        ------
        DataError
            If rows cannot be read. The message quotes no cell.
        """
        return self.read(names)

    def check(
        self,
        names: tuple[str, ...],
        *,
        unread: Collection[str] = (),
        places: Mapping[str, str] | None = None,
    ) -> None:
        """Check that the columns of private rows are the columns that a schema declares.

        Parameters
        ----------
        names : tuple of str
            The columns that the schema declares.
        unread : collection of str, default ()
            Columns that may be present or absent.
        places : mapping of str to str, optional
            For messages: the place of a column in the schema, if it is not an attribute, as in
            ``{"id": "[unit] column"}``.

        Raises
        ------
        DataError
            If a column is repeated, absent or not declared.
        """
        unread = (*unread, *self.ignored)
        check_columns(list(self.list_names()), names, unread=unread, places=places)

    def declared(self, schema: Schema) -> Rows:
        """Return rows that are read with the file format and without ignored columns of a schema.

        The file format is the table ``[file]`` of the schema: delimiter, encoding, header, decimal
        and thousands marks. The present object does not change.

        Parameters
        ----------
        schema : Schema
            Public facts about the table.

        Returns
        -------
        Rows
            Private.

        Raises
        ------
        ParameterError
            If the rows were sampled by unit, and the layout differs from the layout of their
            reading.
        """
        rows = self.with_layout(schema.file)
        return replace(rows, ignored={*self.ignored, *schema.ignored_columns})

    def with_layout(self, layout: Layout) -> Rows:
        """Return the rows of the same files, read with another text format such as an encoding.

        Parameters
        ----------
        layout : Layout
            The format of text files.

        Returns
        -------
        Rows
            Private. Rows that do not come from files are returned unchanged.

        Raises
        ------
        ParameterError
            If the rows were sampled by unit, and the layout differs from the layout of their
            reading.
        """
        files = tuple(file.with_layout(layout) for file in self.data_files)
        if files == self.data_files:
            return self
        if self.is_chosen:
            raise ParameterError("rows that were sampled by unit keep the layout of their reading")
        return replace(_of_files(files, self.place), ignored=self.ignored)

    @property
    def files(self) -> tuple[Path, ...]:
        """Paths of the files from which the rows are read, in the order of reading.

        Returns
        -------
        tuple of Path
            Empty for frames and databases. Public.
        """
        return tuple(file.path for file in self.data_files)

    @property
    def is_text(self) -> bool:
        """True if the rows come from CSV files, in which a malformed row makes all rows unreadable.

        Returns
        -------
        bool
            Public.
        """
        return any(file.is_of(CSV_FILES) for file in self.data_files)

    def described(self) -> Mapping[str, Described]:
        """Return the declarations of a data file about its columns, such as labels of values.

        Returns
        -------
        mapping of str to Described
            For each described column: its label, labels of its values, codes of missing cells, and
            a flag for an order. Empty for other inputs. Private, until a person has checked that
            the labels were not made from rows.

        Raises
        ------
        DataError
            If the file cannot be read.
        """
        return self.data_files[0].facts() if self.data_files else {}

    def would_read(self, path: Path) -> bool:
        """Return whether a new file at a path would become one of the files of these rows.

        Outputs must not be written there, since a later pass would read them.

        Parameters
        ----------
        path : Path
            The path of the new file.

        Returns
        -------
        bool
            True for Parquet files in the folder of the rows, or with a name that matches their
            pattern. Public.
        """
        if self.place is None or not self.data_files or path.suffix.lower() not in PARQUET_FILES:
            return False
        if self.place.is_dir():
            inside, folder = Path(os.path.realpath(path)), Path(os.path.realpath(self.place))
            return inside.is_relative_to(folder) and not _hidden(inside.relative_to(folder))
        written, pattern = os.path.abspath(path), os.path.abspath(self.place)
        if "**" in pattern:
            return fnmatch.fnmatch(written, pattern)
        return Path(written).match(pattern)


def is_streamed(data: Any) -> bool:
    """Return True for input that is read in batches: files, relations and `Rows`."""
    if isinstance(data, str | Path | Rows):
        return True
    duckdb = sys.modules.get("duckdb")  # without the module, no object is a relation
    return duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation)


def may_refuse(data: Any) -> bool:
    """Return True if one row may cause the refusal of all rows.

    A malformed row of a CSV file and an unreadable cell of a database query refuse all rows.
    """
    if isinstance(data, str | Path):
        return DataFile(Path(data)).is_of(CSV_FILES) or Path(data).is_dir()
    if isinstance(data, Rows):
        return data.is_text or data.is_queried
    return is_streamed(data)


def _of_frame(data: Any, names: tuple[str, ...] | None, unread: Collection[str]) -> Rows:
    """Return the rows of a frame or of lists. Cells of ``unread`` columns are never read."""
    import pyarrow as pa

    cells = arrow_columns(data, names, unread=unread)
    length = len(next(iter(cells.values()), ()))

    def read(requested: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        yield from pa.table({name: cells[name] for name in requested}).to_batches(BATCH_ROWS)

    return Rows(lambda: tuple(cells), read, lambda: length, is_ordered=True)


def _of_files(files: tuple[DataFile, ...], place: Path | None = None) -> Rows:
    """Return the rows of files, one file after the other."""

    def read(names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        for file in files:
            yield from file.batches(names)

    def length() -> int | None:
        stated = [file.approximate_length() for file in files]
        return None if None in stated else sum(n for n in stated if n is not None)

    return Rows(
        lambda: files[0].names,
        read,
        length,
        is_parsed=not all(file.is_of(PARQUET_FILES) for file in files),
        is_ordered=True,
        data_files=files,
        place=place,
    )


def relation_rows(
    relation: duckdb.DuckDBPyRelation, length: Callable[[], int | None] | None = None
) -> Rows:
    """Return the rows of a DuckDB relation."""
    import duckdb
    import pyarrow as pa

    def names() -> tuple[str, ...]:
        with replacing(duckdb.Error, by=DataError("the relation can no longer be read")):
            return tuple(relation.columns)

    def read(requested: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        unreadable = DataError("the data cannot be read: a row is malformed or the query fails")
        private = replacing(duckdb.Error, pa.ArrowException, OSError, by=unreadable)
        with private:
            projected = relation.project(", ".join(_terms(relation, requested)))
            reader = projected.to_arrow_reader(BATCH_ROWS)
        with contextlib.closing(reader):
            while True:
                with private:
                    batch = next(reader, None)
                if batch is None:
                    return
                yield batch

    return Rows(names, read, length, is_queried=True)


def _terms(relation: duckdb.DuckDBPyRelation, names: tuple[str, ...]) -> Iterator[str]:
    """Yield the SQL term of each column, in a type that Arrow represents exactly."""
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    for name in names:
        column, kind = '"' + name.replace('"', '""') + '"', kinds[name].id
        if kind in _AS_BYTES:
            yield (
                f"CASE WHEN octet_length({_AS_BYTES[kind].format(column)}) > {LONGEST_BYTES} "
                f"THEN '\\xFF'::BLOB ELSE {_AS_BYTES[kind].format(column)} END AS {column}"
            )
        elif kind in _UNCHANGED:
            yield column
        elif kind in _AS_TEXT:
            yield f"CAST({column} AS VARCHAR) AS {column}"
        else:  # nested values and durations are read as bytes that are no text
            yield f"CASE WHEN {column} IS NOT NULL THEN '\\xFF'::BLOB END AS {column}"


def select_relation(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.DuckDBPyRelation:
    """Return the relation of one SELECT statement. Other statements never run."""
    import duckdb

    with replacing(duckdb.Error, by=ParameterError("the query is not valid SQL")):
        statements = connection.extract_statements(sql)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ParameterError("the query must be exactly one SELECT statement")
    with replacing(duckdb.Error, by=DataError("the query does not run")):
        return connection.sql(sql)


def _parts(place: Path) -> tuple[Path, ...]:
    """Return the Parquet files of a folder or a pattern, in the order of their names."""
    paths: list[Path] = []
    with contextlib.suppress(OSError, ValueError):  # a name that no file can have
        if place.is_dir():
            paths = [path for path in place.rglob("*") if not _hidden(path.relative_to(place))]
        else:
            paths = [Path(name) for name in glob.glob(str(place), recursive=True)]
    paths = sorted(p for p in paths if p.suffix.lower() in PARQUET_FILES and p.is_file())
    if not paths:
        raise DataError(
            f"no Parquet files at {str(place)!r}. Name a folder with Parquet files, or a pattern "
            "such as 'visits/*.parquet'."
        )
    # A pattern may match a file twice, and links may lead to one file. Its rows count once.
    files: dict[tuple[int, int], Path] = {}
    for path in paths:
        about = path.stat()
        files.setdefault((about.st_dev, about.st_ino), path)
    return tuple(files.values())


def _hidden(path: Path) -> bool:
    """Return True if a part of a path starts with a dot or an underscore."""
    return any(part.startswith((".", "_")) for part in path.parts)
