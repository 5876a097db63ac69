"""Cells of data frames, in Arrow's types. Frames keep their types: nothing is guessed here."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from missdp.errors import DataError, MissingDependencyError, ParameterError, replacing
from missdp.table.cells import Cells, Coded

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


#: The library whose tables come out.
FrameKind: TypeAlias = Literal["pandas", "polars", "pyarrow"]

# Extension types whose cells Arrow takes over as they are; all others are read cell by cell.
_ARROW_LIKE = (
    *("StringDtype", "BooleanDtype", "ArrowDtype", "Float32Dtype", "Float64Dtype"),
    *(f"{sign}Int{bits}Dtype" for sign in ("", "U") for bits in (8, 16, 32, 64)),
)


# Packages whose frames an engine runs -> the module of the wing that does, which has ``source``, to
# count rows where they are, and ``quiet``, within which nothing is logged.
_ENGINES = {"pyspark.sql": "missdp.engines.spark"}


@cache
def _arrow_like() -> tuple[type, ...]:
    import pandas as pd

    return tuple(getattr(pd, name) for name in _ARROW_LIKE)


def engine_of(data: Any) -> Any:
    """Return the module of the wing that reads frames of this type, if there is one."""
    kinds = [kind.__module__ for kind in type(data).__mro__ if kind.__name__ == "DataFrame"]
    for package, module in _ENGINES.items():
        if any(kind.startswith(package) for kind in kinds):
            return import_module(module)
    return None


def frame_kind(data: Any) -> FrameKind:
    """Tell which kind of frame ``data`` is; relations and files count as pandas for output."""
    import narwhals as nw
    import pyarrow as pa

    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return "pyarrow"
    if nw.dependencies.is_polars_dataframe(data) or nw.dependencies.is_polars_lazyframe(data):
        return "polars"
    return "pandas"


def columns_from_native(data: Any, names: tuple[str, ...] | None = None) -> dict[str, Cells]:
    """Return the columns of a frame as cells; with ``names``, exactly those in that order."""
    import pandas as pd
    import pyarrow as pa

    if not isinstance(data, (pd.DataFrame, pa.Table, pa.RecordBatch)):
        data = _collected(data)
    arrow = isinstance(data, (pa.Table, pa.RecordBatch))
    found = list(data.schema.names) if arrow else [str(name) for name in data.columns]
    check_columns(found, tuple(found) if names is None else names)
    return {name: _column(data, found.index(name)) for name in names or found}


def _collected(data: Any) -> Any:
    """Run the query of a lazy frame; give any eager one back."""
    import narwhals as nw

    strange = DataError(
        f"cannot read a table from {type(data).__name__!r}: pass a pandas, polars or Arrow "
        "table, a DuckDB relation, or the path of a CSV or Parquet file"
    )
    # An engine's own error may quote cells.
    failed = DataError("the table cannot be read: its query fails or a row is malformed")
    with replacing(TypeError, by=strange):
        frame = nw.from_native(data)
    engine = engine_of(data)
    with replacing(Exception, by=failed), engine.quiet() if engine else nullcontext():
        return frame.collect().to_native() if isinstance(frame, nw.LazyFrame) else data


def _column(data: Any, position: int) -> Cells:
    import narwhals as nw
    import pandas as pd
    import pyarrow as pa

    if isinstance(data, pd.DataFrame):
        return _pandas_column(data.iloc[:, position])
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        return data.column(position)
    series = nw.from_native(data, eager_only=True)[:, position]
    if series.dtype == nw.Object:  # of which polars would hand over the addresses
        return _objects(series.to_list())
    try:
        return series.to_arrow()
    except Exception:  # noqa: BLE001 - a type without Arrow twin
        return _objects(series.to_list())


def _pandas_column(column: pd.Series[Any]) -> Cells:
    """Return a column in its own type; where that has no Arrow twin, cell by cell."""
    import pandas as pd
    import pyarrow as pa

    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        cells = _pandas_column(pd.Series(kind.categories))
        assert not isinstance(cells, pa.ChunkedArray)
        return Coded(cells, np.asarray(column.cat.codes))
    native = kind.kind in "biufM" if isinstance(kind, np.dtype) else isinstance(kind, _arrow_like())
    if native:
        try:
            return pa.Array.from_pandas(column)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            pass  # for example text with lone surrogates: read it cell by cell
    return column.to_numpy(dtype=object)


def _objects(cells: list[Any]) -> Cells:
    return np.fromiter(cells, dtype=object, count=len(cells))


def check_columns(found: list[str], names: tuple[str, ...]) -> None:
    """Refuse repeated, absent and undeclared columns by name."""
    # Absent ones first: if a file has no header, the names found are cells of its first row.
    if absent := [name for name in names if name not in found]:
        raise DataError(f"the data lacks columns that the schema declares: {absent}")
    if repeated := sorted({name for name in found if found.count(name) > 1}):
        raise DataError(f"column names must be distinct; repeated: {repeated}")
    if extra := [name for name in found if name not in names]:
        remedy = (
            "pandas saves the row labels of a frame like that: save it again with index=False"
            if any(name.startswith("__index_level_") for name in extra)
            else "declare them, or drop them before passing the data in"
        )
        raise DataError(f"the data has columns that the schema does not declare: {extra}; {remedy}")


def native_from_arrow(table: pa.Table, kind: FrameKind) -> Any:
    """Give an Arrow table back as the kind of frame that came in.

    The dtypes depend on the schema alone (pandas: the nullable extension types).
    """
    if kind == "pyarrow":
        return table
    if kind == "pandas":
        import pandas as pd
        import pyarrow as pa

        types = {pa.string(): pd.StringDtype(), pa.int64(): pd.Int64Dtype()}
        types |= {pa.float64(): pd.Float64Dtype(), pa.bool_(): pd.BooleanDtype()}
        return table.to_pandas(types_mapper=types.get)
    if kind == "polars":
        absent = MissingDependencyError("polars is not installed; run pip install 'missdp[polars]'")
        with replacing(ImportError, by=absent):
            import polars as pl
        return pl.from_arrow(table)
    raise ParameterError(f"kind must be 'pandas', 'polars' or 'pyarrow', not {kind!r}")
