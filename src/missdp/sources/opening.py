"""The source that fits an input: held in memory, streamed, or counted by an engine."""

from __future__ import annotations

from typing import Any, TypeGuard

from missdp.errors import DataError
from missdp.schema import Schema
from missdp.session.counting import MarginalSource, Reads, has_method, outside_engine
from missdp.sources.in_memory import MemorySource
from missdp.sources.streamed import DuckDBSource
from missdp.table import Table
from missdp.table.frames import engine_of
from missdp.table.memory import fits_into_memory
from missdp.table.rows import Rows, is_streamed


def open_source(data: Any, schema: Schema, *, reads: Reads = "counts") -> MarginalSource:
    """Return a source that counts ``data``.

    Parameters
    ----------
    data : Table, frame, DuckDB relation, Rows, str, Path or MarginalSource
        Frames and tables are held in memory. Files and streams are held in memory, too, if by their
        metadata they fit into it (see `missdp.table.memory_limit`). Other files and streams, and
        DuckDB relations, are streamed. Spark data frames are counted by Spark. A source is returned
        as it is. The method ``check()`` of a source, if it has one, is called. It raises now the
        errors that would be raised later, so that a fit charges nothing for them.
    schema : Schema
        The declared domain.
    reads : {"counts", "weights", "rows"}, default "counts"
        What is read of it. With ``"rows"``, files and streams of any length are held in memory. An
        error for a long one would disclose its length.

    Returns
    -------
    MarginalSource
        Counts the rows. Private.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> open_source(pd.DataFrame({"smoker": ["yes"]}), schema)
    MemorySource(smoker)
    """
    source = _open(data, schema, reads)
    if has_method(source, "check"):
        source.check()  # type: ignore[attr-defined]
    return source


def _open(data: Any, schema: Schema, reads: Reads) -> MarginalSource:
    if is_source(data):
        if data.schema != schema:
            raise DataError("the source was opened with another schema")
        return data
    if (engine := engine_of(data)) is not None:
        opened: MarginalSource = engine.source(data, schema)
        return opened
    if is_streamed(data):
        data = Rows.of(data, schema)
        held = reads == "rows" and data.length is not None  # of a relation no length is known
        if not held and not fits_into_memory(data.approximate_length(), schema):
            return DuckDBSource(data, schema)
    return MemorySource(Table.read(data, schema))


def is_source(data: Any) -> TypeGuard[MarginalSource]:
    """Tell whether ``data`` can count by itself.

    Asked of its type: a frame may have columns that are called "schema" and "counts".
    """
    return has_method(data, "counts")


def counting_engine(data: Any) -> str:
    """Return the public name of what counts ``data`` in place of the kernel; empty if none does."""
    if engine_of(data) is not None:
        return "Spark"
    return outside_engine(data) if is_source(data) else ""
