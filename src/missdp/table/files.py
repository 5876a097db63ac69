"""CSV and Parquet files."""

from __future__ import annotations

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


def open_relation(path: Path, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
    """Open a CSV or Parquet file as a DuckDB relation without reading it whole.

    CSV cells stay text here: the schema, not a guess from the private data, decides how they are
    read. Empty fields are null.

    Raises
    ------
    DataError
        If the file does not exist, has an unknown suffix or cannot be parsed.
    """
    name = path.name.lower()
    if not path.is_file():
        raise DataError(f"no data file at {str(path)!r}")
    try:
        if name.endswith((".parquet", ".pq")):
            return connection.read_parquet(str(path))
        if name.endswith((".csv", ".csv.gz", ".tsv")):
            separator = "\t" if name.endswith(".tsv") else None
            return connection.read_csv(str(path), header=True, all_varchar=True, sep=separator)
    except duckdb.Error:
        raise DataError(
            f"cannot read {str(path)!r}: it is not a well-formed "
            f"{'Parquet' if 'p' in path.suffix else 'CSV'} file with a header line"
        ) from None
    raise DataError(f"cannot read {str(path)!r}: the suffix must be one of {', '.join(READABLE)}")


def read_arrow(path: Path, names: tuple[str, ...] | None = None) -> pa.Table:
    """Read a file into Arrow; with ``names``, exactly those columns in that order.

    Raises
    ------
    DataError
        If the file cannot be read or its columns are not exactly the named ones.
    """
    with duckdb.connect() as connection:
        relation = open_relation(path, connection)
        names = tuple(relation.columns) if names is None else names
        check_columns(list(relation.columns), names)
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
