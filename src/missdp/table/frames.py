"""Cells of data frames as Arrow arrays. Frames keep their types, and nothing is guessed."""

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
    """Return the engine's module for frames of this type: the module of Spark, or None.

    It has ``check_spark_schema``, which rejects schemas, and ``source``, which counts rows in the
    engine. ``select_unit_rows`` samples rows by unit, and ``muted_log`` suppresses log lines.
    """
    kinds = (kind for kind in type(data).__mro__ if kind.__name__ == "DataFrame")
    spark = any(kind.__module__.startswith("pyspark.sql") for kind in kinds)
    return import_module("missdp.engines.spark") if spark else None


def frame_kind(data: Any) -> FrameKind:
    """Return the kind of frame of ``data``. Relations, files and lists count as pandas."""
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
    """Return True for readers and unknown frames, which are read by Arrow's C interface."""
    import narwhals as nw

    # Relations offer streams, too.
    if not hasattr(type(data), "__arrow_c_stream__") or nw.dependencies.is_duckdb_relation(data):
        return False
    return nw.from_native(data, pass_through=True) is data


def arrow_columns(
    data: Any, names: tuple[str, ...] | None = None, *, unread: Collection[str] = ()
) -> dict[str, pa.Array | pa.ChunkedArray]:
    """Read the columns of a frame as Arrow arrays.

    Parameters
    ----------
    data : frame, dict or list
        Private.
    names : tuple of str, optional
        The columns that the frame must have. By default all.
    unread : collection of str, optional
        Columns that may be present, and whose cells are never read.

    Returns
    -------
    dict of str to Arrow array
        Private.
    """
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, (list, tuple)):
        data = _columns_of_records(data, names, unread)
    if not isinstance(data, (pd.DataFrame, pa.Table, dict)):
        data = _collected(data)
    column: Callable[[int], Any]
    if isinstance(data, dict):
        present = list(map(str, data))
        pairs = zip(present, data.values(), strict=True)
        lists = {name: cells for name, cells in pairs if name not in unread}
        _check_lists(lists.values())
        column = lambda place: to_arrow_array(lists[present[place]])  # noqa: E731
    else:
        labels = data.column_names if isinstance(data, pa.Table) else data.columns
        present, column = list(map(str, labels)), partial(_column, data)
    check_columns(present, tuple(present) if names is None else names, unread=unread)
    return {name: column(present.index(name)) for name in names or present}


def _unsupported(data: Any) -> DataError:
    return DataError(
        f"cannot read a table from {type(data).__name__!r}. Pass a pandas, polars or Arrow table, "
        "a DuckDB relation, the path of a CSV or Parquet file, lists of cells by the name of their "
        "column, or a list of records."
    )


def _columns_of_records(
    records: Sequence[Any], names: tuple[str, ...] | None, unread: Collection[str]
) -> dict[str, list[Any]]:
    """Return the cells of records by column. A record without a key has a missing cell."""
    if not all(isinstance(record, dict) for record in records):
        raise _unsupported(records)
    # Records and keys of unknown types may fail, and quote a cell.
    with replacing(Exception, by=_unread_records):
        keys = tuple(next(iter(records), {})) if names is None else names
        if any(record.keys() - {*keys, *unread} for record in records):
            whose = "the first record lacks" if names is None else "the schema does not declare"
            raise DataError(f"a record has a key that {whose}")  # the key itself may be private
        return {key: [record.get(key) for record in records] for key in keys}


def _unread_records(error: BaseException) -> DataError:
    """Return an error about records without private texts."""
    return error if isinstance(error, DataError) else DataError("the records cannot be read")


def _collected(data: Any) -> Any:
    """Return an eager frame or an Arrow table. Lazy frames and streams are computed."""
    import narwhals as nw
    import pyarrow as pa

    # An engine's own error may quote cells.
    failed = DataError("the table cannot be read: its query fails or a row is malformed")
    if _streams_arrow(data):
        with replacing(Exception, by=failed):
            return pa.table(data)
    with replacing(TypeError, by=_unsupported(data)):
        frame = nw.from_native(data)
    engine = engine_of(data)
    with replacing(Exception, by=failed), engine.muted_log() if engine else nullcontext():
        return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def _column(data: Any, position: int) -> pa.Array | pa.ChunkedArray:
    """Return a column as an Arrow array. Columns without an Arrow type are read cell by cell."""
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return without_views(data.column(position))
    if isinstance(data, pd.DataFrame):  # names may be repeated
        column = data.iloc[:, position]
        series = nw.from_native(column, series_only=True)
    else:
        series = nw.from_native(data, eager_only=True)[:, position]
    kind = series.dtype
    if isinstance(data, pd.DataFrame) and kind == nw.Categorical:
        codes = np.asarray(column.cat.codes)
        cells = to_arrow_array(column.cat.categories.to_list())
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes < 0), cells)
    kinds = (nw.Boolean, nw.String, nw.Date, nw.Datetime, nw.Binary, nw.Categorical, nw.Enum)
    if kind.is_numeric() or kind in kinds:
        # Some cells have no Arrow type, for example text with lone surrogates.
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            return to_arrow_array(series.to_arrow())
    return to_arrow_array(series.to_list())


def _check_lists(columns: Collection[Any]) -> None:
    """Raise DataError unless columns are lists of cells of one length."""
    if not all(isinstance(cells, (list, tuple, np.ndarray)) for cells in columns):
        raise DataError("columns by name must be lists of cells")
    if len({*map(len, columns)}) > 1:
        raise DataError("all columns of a table must have the same length")


def check_columns(
    present: list[str],
    names: tuple[str, ...],
    *,
    unread: Collection[str] = (),
    places: Mapping[str, str] | None = None,
) -> None:
    """Check the columns of a table against the columns that a schema declares.

    Parameters
    ----------
    present : list of str
        The columns of the table.
    names : tuple of str
        The columns that the schema declares.
    unread : collection of str, default ()
        Columns that may be present or absent.
    places : mapping of str to str, optional
        The place of a column in the schema, if it is not an attribute.

    Raises
    ------
    DataError
        If a column is repeated, absent or not declared.
    """
    # Absent columns come first. In a file without a header, present names are cells of a row.
    if absent := [name for name in names if name not in present]:
        places = places or {}
        plain = [name for name in absent if name not in places]
        columns = [f"column{'s' * (len(plain) > 1)} {', '.join(map(repr, plain))}"] * bool(plain)
        columns += [f"{places[name]} {name!r}" for name in absent if name in places]
        raise DataError(
            f"the schema declares {' and '.join(columns)}, which "
            "the data does not have. Check spelling, spaces and capitals against the header. A "
            "file without a header line needs `header` in the table [file] of the schema."
        )
    if repeated := sorted({name for name in present if present.count(name) > 1}):
        raise DataError(f"column names must be distinct. Repeated: {repeated}")
    if extra := [name for name in present if name not in names and name not in unread]:
        remedy = (
            "pandas saves the row labels of a frame like that. Save it again with index=False"
            if any(name.startswith("__index_level_") for name in extra)
            else "Declare them, list them in ignore, or drop them"
        )
        # With an open quote in the header, cells of the first rows are part of a name.
        lines = [name.splitlines()[0] if name else name for name in extra]
        raise DataError(f"the data has columns that the schema does not declare: {lines}. {remedy}")


def native_from_arrow(table: pa.Table, kind: FrameKind) -> Any:
    """Convert an Arrow table to a kind of frame. Types follow the types of the table."""
    if kind == "pyarrow":
        return table
    if kind == "pandas":
        import pandas as pd
        import pyarrow as pa

        # Dates without a time would become objects.
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
