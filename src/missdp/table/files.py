"""CSV and Parquet files."""

from __future__ import annotations

import csv
import gzip
import zlib
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from missdp.errors import DataError, OutputError
from missdp.files import atomic_path
from missdp.table.frames import check_columns

__all__ = ["READABLE", "open_relation", "output_format", "read_arrow", "write_arrow"]

READABLE = (".csv", ".csv.gz", ".tsv", ".parquet", ".pq")
_WRITABLE = (".csv", ".parquet", ".pq")


def open_relation(
    path: Path, connection: duckdb.DuckDBPyConnection, names: tuple[str, ...] | None = None
) -> duckdb.DuckDBPyRelation:
    """Open a CSV or Parquet file as a DuckDB relation without reading it whole.

    Nothing is guessed from private cells. The header line of a CSV file decides what separates
    its fields (comma, semicolon, tab or bar); quotes are double; cells stay text here, because
    the schema says how to read them. Empty fields are null. With ``names``, the columns must be
    exactly these, in any order.

    Raises
    ------
    DataError
        If the file does not exist, has an unknown suffix, cannot be parsed or has other columns.
    """
    name = path.name.lower()
    if not _is_file(path):
        raise DataError(f"no data file at {str(path)!r}")
    try:
        if name.endswith((".parquet", ".pq")):
            relation = connection.read_parquet(_literal(path), hive_partitioning=False)
            check_columns(list(relation.columns), names or tuple(relation.columns))
            return relation
        if name.endswith((".csv", ".csv.gz", ".tsv")):
            return _open_csv(path, connection, names)
    except (duckdb.Error, csv.Error, UnicodeDecodeError, OSError, EOFError, zlib.error):
        kind = "Parquet file" if "p" in path.suffix else "CSV file in UTF-8 with a header line"
        raise DataError(f"cannot read {str(path)!r}: it is not a well-formed {kind}") from None
    raise DataError(f"cannot read {str(path)!r}: the suffix must be one of {', '.join(READABLE)}")


def _literal(path: Path) -> str:
    """Name this one file to DuckDB, which takes ``*``, ``?`` and ``[`` for patterns."""
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in str(path))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a name that no file can have
        return False


def _open_csv(
    path: Path, connection: duckdb.DuckDBPyConnection, names: tuple[str, ...] | None
) -> duckdb.DuckDBPyRelation:
    separator, found = _read_header(path)
    if names is not None:
        check_columns(found, names)
    if len({name.casefold() for name in found}) < len(found):
        # Unnamed: without a schema, the first line could be a row of a file that has no header.
        raise DataError(
            f"the header line of {str(path)!r} repeats a column name, capital letters apart; "
            "rename the columns"
        )
    columns = ", ".join(f"{_quoted(name)}: 'VARCHAR'" for name in found)
    return connection.sql(
        f"SELECT * FROM read_csv({_quoted(_literal(path))}, header = true, auto_detect = false, "
        f"columns = {{{columns}}}, delim = {_quoted(separator)}, quote = '\"', escape = '\"')"
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _read_header(path: Path) -> tuple[str, list[str]]:
    """Separator and column names: those of the separator that finds most names."""
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    found = []
    for separator in "\t" if path.suffix.lower() == ".tsv" else ",;\t|":
        with opened(path, "rt", encoding="utf-8-sig", newline="") as lines:
            found.append((separator, next(csv.reader(lines, delimiter=separator), [])))
    separator, names = max(found, key=lambda pair: len(pair[1]))
    if not names:
        raise csv.Error("no header line")
    return separator, names


def read_arrow(path: Path, names: tuple[str, ...] | None = None) -> pa.Table:
    """Read a file into Arrow; with ``names``, exactly those columns in that order.

    Raises
    ------
    DataError
        If the file cannot be read or its columns are not exactly the named ones.
    """
    with duckdb.connect() as connection:
        relation = open_relation(path, connection, names)
        names = tuple(relation.columns) if names is None else names
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        try:
            return relation.project(quoted).to_arrow_table()
        except duckdb.Error:
            raise DataError(f"cannot read {str(path)!r}: a row is malformed") from None


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
