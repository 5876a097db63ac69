"""Cells of data frames, in Arrow's types. Frames keep their types: nothing is guessed here."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from missdp.errors import DataError, ParameterError, import_optional, replacing
from missdp.table.cells import to_arrow_array, without_views
from missdp.types import FrameKind

if TYPE_CHECKING:
    import pyarrow as pa


def engine_of(data: Any) -> Any:
    """Return the module of the wing that reads frames of this type: those of Spark; or None.

    It has ``check``, which refuses schemas, ``source``, to count rows where they are, ``of_units``,
    to choose rows by their units before, and ``muted_log``, in which nothing is logged.
    """
    kinds = (kind for kind in type(data).__mro__ if kind.__name__ == "DataFrame")
    spark = any(kind.__module__.startswith("pyspark.sql") for kind in kinds)
    return import_module("missdp.engines.spark") if spark else None


def frame_kind(data: Any) -> FrameKind:
    """Tell which kind of frame ``data`` is; relations, files and lists count as pandas."""
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, pd.DataFrame):
        return "pandas"
    if isinstance(data, pa.Table) or _streams_arrow(data):
        return "pyarrow"
    if nw.dependencies.is_polars_dataframe(data) or nw.dependencies.is_polars_lazyframe(data):
        return "polars"
    return "pandas"


def _streams_arrow(data: Any) -> bool:
    """Whether Arrow's C interface is the way to read this: a reader, or a frame unknown here."""
    import narwhals as nw

    offered = hasattr(type(data), "__arrow_c_stream__")
    offered = offered and not nw.dependencies.is_duckdb_relation(data)  # which are streams
    return offered and nw.from_native(data, pass_through=True) is data


def arrow_columns(
    data: Any, names: tuple[str, ...] | None = None, *, unread: Collection[str] = ()
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Return a frame's columns in Arrow's types.

    Parameters
    ----------
    data : frame, dict or list
    names : tuple of str, optional
        The columns that the frame must have; by default all.
    unread : collection of str, optional
        Columns that may be there, of which no cell is looked at.

    Returns
    -------
    dict of str to Arrow array
    """
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, (list, tuple)):
        data = _columns_of_records(data, names, unread)
    if not isinstance(data, (pd.DataFrame, pa.Table, dict)):
        data = _collected(data)
    column: Callable[[int], Any]
    if isinstance(data, dict):
        found = list(map(str, data))
        lists = {n: cells for n, cells in zip(found, data.values(), strict=True) if n not in unread}
        _check_lists(lists.values())
        column = lambda place: to_arrow_array(lists[found[place]])  # noqa: E731
    else:
        given = data.column_names if isinstance(data, pa.Table) else data.columns
        found, column = list(map(str, given)), partial(_column, data)
    check_columns(found, tuple(found) if names is None else names, unread=unread)
    return {name: column(found.index(name)) for name in names or found}


def _strange(data: Any) -> DataError:
    return DataError(
        f"cannot read a table from {type(data).__name__!r}: pass a pandas, polars or Arrow table, "
        "a DuckDB relation, the path of a CSV or Parquet file, lists of cells by the name of their "
        "column, or a list of records"
    )


def _columns_of_records(
    records: Sequence[Any], names: tuple[str, ...] | None, unread: Collection[str]
) -> dict[str, list[Any]]:
    """Return the cells of records by column; one without a key has no value there."""
    if not all(isinstance(record, dict) for record in records):
        raise _strange(records)
    # Records and keys of a stranger's type may fail, and quote a cell.
    with replacing(Exception, by=_unread_records):
        keys = tuple(next(iter(records), {})) if names is None else names
        if any(record.keys() - {*keys, *unread} for record in records):
            whose = "the first one lacks" if names is None else "the schema does not declare"
            raise DataError(f"a record has a key that {whose}")  # it may say something of a person
        return {key: [record.get(key) for record in records] for key in keys}


def _unread_records(error: BaseException) -> DataError:
    return error if isinstance(error, DataError) else DataError("the records cannot be read")


def _collected(data: Any) -> Any:
    """Return a frame, or an Arrow table, of rows that are computed or read by now."""
    import narwhals as nw
    import pyarrow as pa

    # An engine's own error may quote cells.
    failed = DataError("the table cannot be read: its query fails or a row is malformed")
    if _streams_arrow(data):
        with replacing(Exception, by=failed):
            return pa.table(data)
    with replacing(TypeError, by=_strange(data)):
        frame = nw.from_native(data)
    engine = engine_of(data)
    with replacing(Exception, by=failed), engine.muted_log() if engine else nullcontext():
        return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def _column(data: Any, position: int) -> pa.Array | pa.ChunkedArray:
    """Return a column in its own type; where that has no Arrow twin, cell by cell."""
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return without_views(data.column(position))
    if isinstance(data, pd.DataFrame):  # whose columns may have any names, also several the same
        column = data.iloc[:, position]
        series = nw.from_native(column, series_only=True)
    else:
        series = nw.from_native(data, eager_only=True)[:, position]
    kind = series.dtype
    if isinstance(data, pd.DataFrame) and kind == nw.Categorical:
        codes = np.asarray(column.cat.codes)
        cells = to_arrow_array(column.cat.categories.to_list())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), cells)
    known = (nw.Boolean, nw.String, nw.Date, nw.Datetime, nw.Binary, nw.Categorical, nw.Enum)
    if kind.is_numeric() or kind in known:
        # Some have no Arrow twin, for example text with lone surrogates.
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            return to_arrow_array(series.to_arrow())
    return to_arrow_array(series.to_list())


def _check_lists(columns: Collection[Any]) -> None:
    if not all(isinstance(cells, (list, tuple, np.ndarray)) for cells in columns):
        raise DataError("columns by name must be lists of cells")
    if len({*map(len, columns)}) > 1:
        raise DataError("all columns of a table must have the same length")


def check_columns(
    found: list[str],
    names: tuple[str, ...],
    *,
    unread: Collection[str] = (),
    places: Mapping[str, str] | None = None,
) -> None:
    """Refuse repeated, absent and undeclared columns by name; those left out may be there.

    Parameters
    ----------
    found : list of str
        The columns that there are.
    names : tuple of str
        The columns that there must be.
    unread : collection of str, default ()
        Columns that there may be.
    places : mapping of str to str, optional
        Where the schema names a column, if not as an attribute.

    Raises
    ------
    DataError
        If a column is repeated, absent or not declared.
    """
    # Absent ones first: if a file has no header, the names found are cells of its first row.
    if absent := [name for name in names if name not in found]:
        places = places or {}
        plain = [name for name in absent if name not in places]
        columns = [f"column{'s' * (len(plain) > 1)} {', '.join(map(repr, plain))}"] * bool(plain)
        columns += [f"{places[name]} {name!r}" for name in absent if name in places]
        raise DataError(
            f"the schema declares {' and '.join(columns)}, which "
            "the data does not have. Check spelling, spaces and capitals against the header. A "
            "file without a header line needs `header` in the table [file] of the schema."
        )
    if repeated := sorted({name for name in found if found.count(name) > 1}):
        raise DataError(f"column names must be distinct; repeated: {repeated}")
    if extra := [name for name in found if name not in names and name not in unread]:
        remedy = (
            "pandas saves the row labels of a frame like that: save it again with index=False"
            if any(name.startswith("__index_level_") for name in extra)
            else "declare them, say that they are not read (ignore), or drop them"
        )
        # A quote that is left open in the header makes cells of the first rows part of a name.
        shown = [name.splitlines()[0] if name else name for name in extra]
        raise DataError(f"the data has columns that the schema does not declare: {shown}; {remedy}")


def native_from_arrow(table: pa.Table, kind: FrameKind) -> Any:
    """Give an Arrow table back as the kind of frame that came in; types follow the schema."""
    if kind == "pyarrow":
        return table
    if kind == "pandas":
        import pandas as pd
        import pyarrow as pa

        # Dates by themselves would be objects.
        fields = [
            f.with_type(pa.timestamp("s")) if f.type == pa.date32() else f for f in table.schema
        ]
        table = table.cast(pa.schema(fields))
        types = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype()}
        types |= {pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype()}
        return table.to_pandas(types_mapper=types.get)
    if kind == "polars":
        return import_optional("polars", purpose="frames of polars").from_arrow(table)
    raise ParameterError(f"kind must be 'pandas', 'polars' or 'pyarrow', not {kind!r}")
