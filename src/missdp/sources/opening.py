"""Choice of the source for an input: in memory, streamed, or counted by an engine."""

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
    """Open a source of exact counts of private rows, in memory, streamed, or by an engine.

    A source returns exact counts of private rows, which must not be released. Nothing is charged
    here.

    Parameters
    ----------
    data : Table, frame, DuckDB relation, Rows, str, Path or MarginalSource
        Frames and tables are held in memory. Files and streams are held in memory if their metadata
        imply that they fit (see `missdp.table.memory_limit`). Other files and streams, and DuckDB
        relations, are streamed. Spark data frames are counted by Spark. A source is returned
        unchanged. The method ``check()`` of a source is called. It raises errors early, so that a
        fit charges nothing for them.
    schema : Schema
        Public facts about the columns: levels, bounds and rules.
    reads : {"counts", "weights", "rows"}, default "counts"
        The needed reading of the source: counts of rows, also sums of the weights of rows, or the
        rows. With ``"rows"``, files and streams of any length are held in memory, since an error
        would disclose the length.

    Returns
    -------
    MarginalSource
        A source of exact numbers of rows. Private.

    Raises
    ------
    DataError
        If the input cannot be read or does not fit the schema, or a source has another schema. The
        message quotes no cell.
    SchemaError
        If the schema has facts that the engine does not support, such as weights in Spark.

    Examples
    --------
    >>> from missdp.sources import open_source
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
    """Return the source for an input, without a check."""
    if is_source(data):
        if data.schema != schema:
            raise DataError("the source was opened with another schema")
        return data
    if (engine := engine_of(data)) is not None:
        opened: MarginalSource = engine.source(data, schema)
        return opened
    if is_streamed(data):
        data = Rows.of(data, schema)
        held = reads == "rows" and data.length is not None  # relations have no length
        if not held and not fits_into_memory(data.approximate_length(), schema):
            return DuckDBSource(data, schema)
    return MemorySource(Table.read(data, schema))


def is_source(data: Any) -> TypeGuard[MarginalSource]:
    """Return whether the input of a fit is a source of counts, by its type.

    The type decides, since a frame may have columns with the names "schema" and "counts".

    Parameters
    ----------
    data : object
        The input of a fit.

    Returns
    -------
    bool
        True if the type of ``data`` has the method ``counts``. Public.

    Examples
    --------
    >>> from missdp.sources import is_source, open_source
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> frame = pd.DataFrame({"smoker": ["yes"]})
    >>> is_source(frame), is_source(open_source(frame, schema))
    (False, True)
    """
    return has_method(data, "counts")


def counting_engine(data: Any) -> str:
    """Return the name of the engine that counts the rows of an input in place of this package.

    A guarantee names the engine in its condition `CountedOutsideTheKernel`. This condition is not
    checked.

    Parameters
    ----------
    data : object
        The input of a fit.

    Returns
    -------
    str
        "Spark" for data frames of Spark, and the name of its type for a source with its own method
        ``counts``. Empty if this package counts. Public.

    Examples
    --------
    >>> from missdp.sources import counting_engine
    >>> import pandas as pd
    >>> counting_engine(pd.DataFrame({"smoker": ["yes"]}))
    ''
    """
    if engine_of(data) is not None:
        return "Spark"
    return outside_engine(data) if is_source(data) else ""
