"""Data frames of any kind in, Arrow inside, and the kind that came in out again."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import narwhals as nw
import pandas as pd
import pyarrow as pa

from missdp.errors import DataError, MissingDependencyError, ParameterError

__all__ = ["FrameKind", "arrow_from_native", "frame_kind", "native_from_arrow", "to_arrow"]

FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]

_PANDAS_TYPES = {
    pa.string(): pd.StringDtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}


def frame_kind(data: Any) -> FrameKind:
    """Tell which kind of frame ``data`` is; relations and files count as pandas for output."""
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return "pyarrow"
    if nw.dependencies.is_polars_dataframe(data) or nw.dependencies.is_polars_lazyframe(data):
        return "polars"
    return "pandas"


def arrow_from_native(data: Any, names: tuple[str, ...]) -> pa.Table:
    """Bring the named columns of a frame to Arrow, with every pandas missing marker as null.

    Raises
    ------
    DataError
        If ``data`` is not a frame we read, has repeated, absent or undeclared columns, or a column
        holds values of mixed types.
    """
    if isinstance(data, pd.DataFrame):
        check_columns([str(c) for c in data.columns], names)
    table = to_arrow(data)
    check_columns(table.column_names, names)
    return table.select(list(names))


def to_arrow(data: Any) -> pa.Table:
    """Bring a whole frame to Arrow, with every pandas missing marker as null.

    Raises
    ------
    DataError
        If ``data`` is not a frame we read, or a column holds values of mixed types.
    """
    if isinstance(data, pd.DataFrame):
        return _arrow_from_pandas(data)
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return data
    try:
        frame = nw.from_native(data)
        frame = frame.collect(backend="pyarrow") if isinstance(frame, nw.LazyFrame) else frame
        return frame.to_arrow()
    except TypeError:
        raise DataError(
            f"cannot read a table from {type(data).__name__!r}: pass a pandas, polars or Arrow "
            "table, a DuckDB relation, or the path of a CSV or Parquet file"
        ) from None
    except Exception:  # noqa: BLE001 - an engine's own error may quote cells
        raise DataError("the table cannot be read: its query fails or a row is malformed") from None


def check_columns(found: list[str], names: tuple[str, ...]) -> None:
    """Refuse repeated, absent and undeclared columns by name.

    Raises
    ------
    DataError
        If the columns are not exactly the schema's.
    """
    # Absent ones first: if a file has no header, the names found are cells of its first row.
    if absent := [name for name in names if name not in found]:
        raise DataError(f"the data lacks columns that the schema declares: {absent}")
    if repeated := sorted({name for name in found if found.count(name) > 1}):
        raise DataError(f"column names must be distinct; repeated: {repeated}")
    if extra := [name for name in found if name not in names]:
        raise DataError(
            f"the data has columns that the schema does not declare: {extra}; "
            "declare them, or drop them before passing the data in"
        )


def _arrow_from_pandas(data: pd.DataFrame) -> pa.Table:
    names = [str(label) for label in data.columns]
    arrays = []
    for i, name in enumerate(names):
        try:
            arrays.append(pa.Array.from_pandas(data.iloc[:, i]))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise DataError(
                f"column {name!r} holds values of mixed or unsupported types; "
                "convert it to one type (text or numbers) first"
            ) from None
    return pa.table(arrays, names=names)


def native_from_arrow(table: pa.Table, kind: FrameKind) -> Any:
    """Give an Arrow table back as the kind of frame that came in.

    The dtypes depend on the schema alone (pandas: the nullable extension types).
    """
    if kind == "pyarrow":
        return table
    if kind == "pandas":
        return table.to_pandas(types_mapper=_PANDAS_TYPES.get)
    if kind == "polars":
        try:
            import polars as pl
        except ImportError:
            raise MissingDependencyError(
                "polars is not installed; run pip install 'missdp[polars]'"
            ) from None
        return pl.from_arrow(table)
    raise ParameterError(f"kind must be 'pandas', 'polars' or 'pyarrow', not {kind!r}")
