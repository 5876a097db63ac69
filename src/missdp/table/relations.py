"""Rows of a DuckDB relation, as a stream of Arrow batches."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import duckdb
import pyarrow as pa

from missdp.errors import DataError, replacing

__all__ = ["relation_batches", "relation_table"]

_BATCH_ROWS = 65_536

_AS_THEY_ARE = frozenset(
    (
        *("boolean", "tinyint", "smallint", "integer", "bigint", "float", "double", "decimal"),
        *("utinyint", "usmallint", "uinteger", "ubigint", "varchar", "enum", "blob", "uuid"),
        *("date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "sqlnull", "null"),
    )
)
# DuckDB hands these to Arrow in types that are too small for them; as text they are exact.
_AS_TEXT = frozenset(("hugeint", "uhugeint", "bignum", "varint"))


def relation_batches(
    relation: duckdb.DuckDBPyRelation, names: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """Yield the named columns, a batch of rows at a time.

    Raises
    ------
    DataError
        If the query fails. DuckDB's own message, which may quote a cell, is not kept.
    """
    with _private_errors():
        projected = relation.project(", ".join(_terms(relation, names)))
        stream = getattr(projected, "to_arrow_reader", None) or projected.fetch_arrow_reader
        reader = stream(_BATCH_ROWS)
    with contextlib.closing(reader):
        while True:
            with _private_errors():
                batch = next(reader, None)
            if batch is None:
                return
            yield batch


def relation_table(relation: duckdb.DuckDBPyRelation, names: tuple[str, ...]) -> pa.Table:
    """Return the named columns of all rows; see :func:`relation_batches`."""
    with _private_errors():
        return relation.project(", ".join(_terms(relation, names))).to_arrow_table()


def _private_errors() -> replacing:
    return replacing(duckdb.Error, pa.ArrowException, OSError, by=_unreadable)


def _unreadable(_: BaseException) -> DataError:
    return DataError("the data cannot be read: a row is malformed or the query fails")


def _terms(relation: duckdb.DuckDBPyRelation, names: tuple[str, ...]) -> Iterator[str]:
    kinds = dict(zip(relation.columns, relation.types, strict=True))
    for name in names:
        column, kind = '"' + name.replace('"', '""') + '"', kinds[name].id
        if kind in _AS_THEY_ARE:
            yield column
        elif kind in _AS_TEXT:
            yield f"CAST({column} AS VARCHAR) AS {column}"
        else:  # nested values and durations are read as bytes that are no text
            yield f"CASE WHEN {column} IS NOT NULL THEN '\\xFF'::BLOB END AS {column}"
