"""What is publicly known of private rows: what they are made to be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.errors import DataError, ParameterError, SchemaError, number, replacing, whole
from missdp.mechanisms.laws import no_warnings
from missdp.pricing.fillable import check_fillable
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.table import Table

__all__ = [
    "RowDomain",
    "as_number",
    "as_rows",
    "clip_rows",
    "column_names",
    "row_movements",
    "rows_of",
    "table_shape",
]


FloatArray = NDArray[np.float64]
Rows: TypeAlias = ArrayLike | Table


@dataclass(frozen=True, kw_only=True)
class RowDomain:
    """What is publicly known about a table: its shape, the norm of its rows, whether cells miss.

    Parameters
    ----------
    rows : int
        Number of rows, public under replace-one adjacency; at least 2.
    columns : int
        Number of columns, at least 1.
    radius : float, default 1.0
        Every row's observed part has Euclidean norm at most this; from 1e-100 to 1e100, so that
        no product of a few of them overflows.
    complete : bool, default True
        Whether no cell is missing.

    Raises
    ------
    ParameterError
        If a number is out of range.

    Examples
    --------
    >>> RowDomain(rows=100, columns=3).diameter
    2.0
    """

    rows: int
    columns: int
    radius: float = 1.0
    complete: bool = True

    def __post_init__(self) -> None:
        if whole("rows", self.rows) < 2 or whole("columns", self.columns) < 1:
            raise ParameterError("a domain needs at least 2 rows and 1 column")
        number("radius", self.radius, least=1e-100)
        if not isinstance(self.complete, bool):
            raise ParameterError("complete must be True or False")

    @classmethod
    def of(cls, schema: Schema, *, rows: int) -> RowDomain:
        """Return what is known of the rows that `rows_of` makes of any table with this schema.

        Each attribute adds at most 1 to the square of a row's norm. A schema with a fact that was
        read from private data, and not declared public since, is refused (`SchemaError`).

        Examples
        --------
        >>> from missdp import Categorical, Numeric, Schema
        >>> schema = Schema((Numeric(name="age", lower=0, upper=100, nullable=True),
        ...                  Categorical(name="sex", levels=("f", "m"))))
        >>> RowDomain.of(schema, rows=1000)
        RowDomain(rows=1000, columns=3, radius=1.4142135623730951, complete=False)
        """
        return cls(
            rows=rows,
            columns=len(column_names(schema)),
            radius=math.sqrt(len(schema)),
            complete=not any(a.kinds for a in schema),
        )

    @property
    def diameter(self) -> float:
        """Largest distance between two rows."""
        return 2 * self.radius

    def enforce(self, values: Rows) -> FloatArray:
        """Return the table with every row brought into the domain, row by row.

        Longer rows are scaled down to the radius; in a complete domain a missing cell becomes 0.
        Each row is mapped on its own, so neighbours stay neighbours.

        Parameters
        ----------
        values : array_like of shape (rows, columns), or Table
            NaN (or infinity) is a missing cell.

        Raises
        ------
        DataError
            If the shape is not the declared one.
        SchemaError
            If cells of a table are filled that may be not applicable.

        Examples
        --------
        >>> RowDomain(rows=2, columns=2).enforce([[3.0, 4.0], [0.0, float("nan")]])
        array([[0.6, 0.8],
               [0. , 0. ]])
        """
        table = as_rows(values)
        if table.shape != (self.rows, self.columns):
            raise DataError(f"the table must have the declared shape ({self.rows}, {self.columns})")
        if self.complete:
            check_fillable(values)
            table = np.where(np.isnan(table), 0.0, table)
        return clip_rows(table, self.radius)


def column_names(schema: Schema) -> tuple[str, ...]:
    """Return the names of the columns that `rows_of` makes; refuse facts that are not public.

    Examples
    --------
    >>> from missdp import Categorical, Ordinal, Schema
    >>> column_names(Schema((Ordinal(name="grade", levels=("9", "10", "11")),
    ...                      Categorical(name="sex", levels=("f", "m")))))
    ('grade', 'sex=f', 'sex=m')
    """
    if marked := schema.undeclared:
        raise SchemaError(
            "the schema marks facts read from the private data as not yet declared public, for "
            f"attributes {sorted(marked)}; check them and delete the 'undeclared' marks"
        )
    names: list[str] = []
    for a in schema:
        levels = a.levels if isinstance(a, Categorical) else ()
        names += [f"{a.name}={level}" for level in levels] or [a.name]
    return tuple(names)


def table_shape(table: Table) -> tuple[int, int]:
    """Return the shape of ``rows_of(table)``, or refuse the table, without reading a cell."""
    for a in table.schema:
        if isinstance(a, Numeric):
            table.values(a.name)  # refuses a table that holds bins only
    return len(table), len(column_names(table.schema))


def rows_of(table: Table) -> FloatArray:
    """Return a table as rows of numbers, each from its own cells and public facts alone; private.

    A numeric attribute becomes one column, [lower, upper] mapped on [-1, 1]; an ordinal one too,
    its levels evenly spaced; a categorical one a column of 0 and 1 for each level (one-hot). A
    cell without a value, missing of whatever kind or not applicable, is NaN in all its columns.
    Neighbouring tables stay one replaced row apart.

    Raises
    ------
    SchemaError
        If a fact of the schema is not declared public.
    DataError
        If a numeric attribute has bins only, no values.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Numeric, Schema, Table
    >>> schema = Schema((Numeric(name="age", lower=0, upper=100, nullable=True),
    ...                  Categorical(name="sex", levels=("f", "m"))))
    >>> rows_of(Table.read(pd.DataFrame({"age": [25.0, None], "sex": ["m", "f"]}), schema))
    array([[-0.5,  0. ,  1. ],
           [ nan,  1. ,  0. ]])
    """
    table_shape(table)
    blocks = [
        np.where(table.mask(a.name)[:, None], np.nan, _numbers_of(a, table)) for a in table.schema
    ]
    return np.concatenate(blocks, axis=1)


def _numbers_of(attribute: AnyAttribute, table: Table) -> FloatArray:
    codes = table.codes(attribute.name)[:, None]
    if isinstance(attribute, Categorical):
        return np.asarray(codes == np.arange(attribute.size), dtype=np.float64)
    if isinstance(attribute, Numeric):
        width = attribute.upper - attribute.lower
        unit = (table.values(attribute.name)[:, None] - attribute.lower) / width
    else:
        unit = codes / (attribute.size - 1) if attribute.size > 1 else np.full(codes.shape, 0.5)
    return np.asarray(np.clip(2 * unit - 1, -1.0, 1.0))


def as_rows(values: Rows) -> FloatArray:
    """Return a two-dimensional float copy; whatever is not a finite number becomes NaN.

    Every cell is read on its own: one row's odd cell neither refuses the table nor changes how
    the other rows are read. A `Table` is read by `rows_of`.

    Raises
    ------
    DataError
        If the input has not the shape of a table.

    Examples
    --------
    >>> as_rows([[1, "2.5"], [None, "many"]])
    array([[1. , 2.5],
           [nan, nan]])
    """
    if isinstance(values, Table):
        return rows_of(values)
    refused = DataError("expected a two-dimensional table")
    with replacing(TypeError, ValueError, by=refused), no_warnings():
        table = _numbers(values)
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError("expected a two-dimensional table with at least one column")
    return table


def _numbers(values: Any) -> FloatArray:
    # Without dtype=object, NumPy would read a list with one text cell as text throughout.
    array = np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)
    if array.dtype.kind == "c":  # one complex cell makes NumPy read all cells as complex
        array = np.where(array.imag == 0, array.real, np.nan)
    if array.dtype.kind not in "fiub":
        cells = np.asarray(values, dtype=object)
        array = np.fromiter(map(as_number, cells.flat), np.float64, cells.size).reshape(cells.shape)
    found = np.array(array, dtype=np.float64)
    found[~np.isfinite(found)] = np.nan
    return found


def as_number(cell: Any) -> float:
    """Return one cell as a number; NaN if it is none.

    Examples
    --------
    >>> as_number("2.5"), as_number("many"), as_number(10**400)
    (2.5, nan, nan)
    """
    try:
        return float(cell)
    except Exception:  # noqa: BLE001 - whatever a cell raises must not refuse the table
        return np.nan


def row_movements(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Return the Euclidean distance of each pair of rows; infinite if their missing cells differ.

    Examples
    --------
    >>> row_movements([[3.0, float("nan")], [1.0, 1.0]], [[0.0, float("nan")], [1.0, float("nan")]])
    array([ 3., inf])
    """
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if a.ndim != 2 or a.shape != b.shape:
        raise ParameterError("two tables can be compared only if their shapes are the same")
    missing_a, missing_b = np.isnan(a), np.isnan(b)
    gap = np.where(missing_a | missing_b, 0.0, a - b)
    norms = np.sqrt(np.einsum("ij,ij->i", gap, gap))
    return np.asarray(np.where((missing_a != missing_b).any(axis=1), np.inf, norms))


def clip_rows(table: FloatArray, radius: float) -> FloatArray:
    """Return the rows projected on the ball; missing cells stay missing and count as 0.

    The projection on a convex set is 1-Lipschitz, so no distance grows.
    """
    filled = np.where(np.isnan(table), 0.0, table)
    # Scale by the largest entry first: squares of huge finite entries would overflow.
    largest = np.maximum(np.abs(filled).max(axis=1, keepdims=True), np.finfo(float).tiny)
    unit = np.sqrt(((filled / largest) ** 2).sum(axis=1, keepdims=True))
    with no_warnings():  # the norm itself may overflow; a warning would tell of a row
        inside = largest * unit <= radius
    scaled = (filled / largest) * (radius / np.maximum(unit, 1.0))
    return np.where(np.isnan(table), np.nan, np.where(inside, filled, scaled))
