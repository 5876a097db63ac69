"""Choose a source for any kind of input."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeGuard

import duckdb

from missdp.errors import DataError
from missdp.schema import Schema
from missdp.sources.base import MarginalSource
from missdp.sources.duckdb import DuckDBSource
from missdp.sources.memory import MemorySource
from missdp.table import Table

__all__ = ["is_source", "open_source"]

_STREAM_BYTES = 64 * 2**20


def open_source(data: Any, schema: Schema) -> MarginalSource:
    """Return a source that counts ``data``.

    Parameters
    ----------
    data : Table, pandas, polars or Arrow table, DuckDB relation, str, Path or MarginalSource
        Frames, tables and files below 64 MB are held in memory; DuckDB relations and larger files
        are streamed. A source comes back as it is. A source with a method ``check()`` is asked to
        refuse now what it would refuse later, so that a fit charges nothing for it.
    schema : Schema
        The declared domain.

    Raises
    ------
    DataError
        If the data does not fit the schema.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.sources import open_source
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> open_source(pd.DataFrame({"smoker": ["yes"]}), schema)
    MemorySource(smoker)
    """
    source = _open(data, schema)
    check = getattr(type(source), "check", None)
    if check is not None:
        check(source)
    return source


def _open(data: Any, schema: Schema) -> MarginalSource:
    if is_source(data):
        if data.schema != schema:
            raise DataError("the source was opened with another schema")
        return data
    if isinstance(data, duckdb.DuckDBPyRelation):
        return DuckDBSource(data, schema)
    if isinstance(data, (str, Path)):
        path = Path(data)
        if path.is_file() and path.stat().st_size > _STREAM_BYTES:
            return DuckDBSource(path, schema)
    return MemorySource(Table.read(data, schema))


def is_source(data: Any) -> TypeGuard[MarginalSource]:
    """Tell whether ``data`` can count by itself.

    Asked of its type: a frame may have columns that are called "schema" and "counts".
    """
    return callable(getattr(type(data), "counts", None))
