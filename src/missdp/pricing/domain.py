"""Public facts about private rows, the rows of numbers of a table, and distances of tables."""

from __future__ import annotations

import math
from dataclasses import MISSING, dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from missdp.errors import (
    DataError,
    NotFittedError,
    ParameterError,
    SchemaError,
    check_integer,
    check_number,
    replacing,
)
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.session.redaction import no_warnings
from missdp.table import Table
from missdp.types import Floats

try:  # with scikit-learn, an extra, estimators and steps have all habits of its own
    from sklearn.base import BaseEstimator
except ImportError:
    from missdp.estimator import Estimator as BaseEstimator

Rows: TypeAlias = ArrayLike | Table


def require(truth: bool, message: str) -> None:
    """Raise ParameterError with ``message`` unless ``truth``."""
    if not truth:
        raise ParameterError(message)


class Parameters(BaseEstimator):  # type: ignore[misc]
    """Base class of dataclasses whose parameters are checked whenever they are set."""

    def __getattr__(self, name: str) -> Any:
        stated = getattr(type(self), name, None)
        if isinstance(stated, property):  # whose own refusal led here
            return stated.__get__(self)
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(f"{type(self).__name__} has no {name} yet. Call fit first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        parameter = type(self).__dataclass_fields__.get(name)
        check = parameter.metadata.get("check") if parameter else None
        if check and not (value is None and parameter.default is None):
            value = check(name, value)
        super().__setattr__(name, value)


def real(default: Any = MISSING, *, low: float = 0.0, high: float = 1e100) -> Any:
    """Return a dataclass field that holds a real number within public bounds.

    Parameters
    ----------
    default : float, optional
        Without a default the field is required.
    low, high : float, default 0 and 1e100
        Smallest and largest valid number.

    Returns
    -------
    dataclasses.Field
        The field. A value out of range raises `ParameterError` when it is set.
    """
    return field(
        default=default, metadata={"check": partial(check_number, min_value=low, max_value=high)}
    )


def count(default: Any = MISSING, *, low: int = 1) -> Any:
    """Return a dataclass field that holds a whole number.

    Parameters
    ----------
    default : int, optional
        Without a default the field is required.
    low : int, default 1
        Smallest valid number.

    Returns
    -------
    dataclasses.Field
        The field. A value out of range raises `ParameterError` when it is set.
    """
    return field(default=default, metadata={"check": partial(check_integer, min_value=low)})


def word_of(*values: str) -> Any:
    """Return the metadata of a field that holds one of some words."""

    def check(name: str, value: Any) -> Any:
        require(isinstance(value, str) and value in values, f"{name} must be one of {values}")
        return value

    return {"check": check}


@dataclass(frozen=True, kw_only=True)
class RowDomain:
    """Public facts about a table of numbers: its shape, its largest row norm, and its completeness.

    The bounds of `missdp.pricing` hold for any two tables with these facts. A fit enforces the
    facts on the private rows (`enforce`) and never estimates them from the rows. `of` derives the
    facts from a schema.

    Parameters
    ----------
    rows : int
        Number of rows, at least 2. It is public, because neighbouring tables differ by one
        replaced row.
    columns : int
        Number of columns, at least 1.
    radius : float, default 1.0
        Largest Euclidean norm of the observed cells of a row, from 1e-100 to 1e100. The unit is
        that of the columns. Products of a few radii do not overflow.
    complete : bool, default True
        Whether no cell is missing.

    Raises
    ------
    ParameterError
        If a fact has another type or is out of range.

    Examples
    --------
    >>> from missdp.pricing import RowDomain
    >>> RowDomain(rows=100, columns=3).diameter
    2.0
    """

    rows: int
    columns: int
    radius: float = 1.0
    complete: bool = True

    def __post_init__(self) -> None:
        enough = check_integer("rows", self.rows) >= 2
        check_integer("columns", self.columns)
        require(enough, "a domain needs at least 2 rows and 1 column")
        check_number("radius", self.radius, min_value=1e-100)
        require(isinstance(self.complete, bool), "complete must be True or False")

    @classmethod
    def of(cls, schema: Schema, *, rows: int) -> RowDomain:
        """Derive public facts about a table that is converted to numbers from its schema.

        The facts are shape, largest row norm and completeness. `rows_of` converts a table. The
        schema of the table and the number of rows decide all facts. Each attribute adds at most 1
        to the square of a row's Euclidean norm. So the radius is the square root of the number of
        attributes.

        Parameters
        ----------
        schema : Schema
            Public facts about the attributes of the table.
        rows : int
            Public number of rows, at least 2.

        Returns
        -------
        RowDomain
            Public. The columns are those of `column_names`, in this order. The domain is
            complete if no attribute can be missing.

        Raises
        ------
        SchemaError
            If the schema holds a fact that was read from private data and is not declared
            public. A schema with a unit of protection (all rows of one person) or with weights
            raises the error, too.
        ParameterError
            If ``rows`` is not a whole number of at least 2.

        Examples
        --------
        >>> from missdp import Categorical, Numeric, Schema
        >>> from missdp.pricing import RowDomain
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
        """Largest Euclidean distance between two complete rows: twice the radius. Public.

        Returns
        -------
        float
            In the units of the columns, above 0.
        """
        return 2 * self.radius

    def enforce(self, values: Rows) -> Floats:
        """Return a copy of a private table in which every row obeys the public facts of the domain.

        Each row is treated by itself. A row that is longer than the radius is scaled down to the
        radius. A cell that is not a finite number counts as missing. In a complete domain, a
        missing cell becomes 0.

        Parameters
        ----------
        values : array_like or Table, shape (rows, columns)
            Private rows. A `Table` is read by `rows_of`.

        Returns
        -------
        ndarray of float, shape (rows, columns)
            Private rows within the domain, in the units of the columns. NaN marks a missing cell.

        Raises
        ------
        DataError
            If the input is not a two-dimensional table of the declared shape. A `Table` with bins
            in place of numbers raises the error, too.
        SchemaError
            If the domain is complete and an attribute of a `Table` is not applicable to some rows.
            A schema with a unit of protection, weights, or facts that are not declared public
            raises the error, too.

        Examples
        --------
        >>> from missdp.pricing import RowDomain
        >>> RowDomain(rows=2, columns=2).enforce([[3.0, 4.0], [0.0, float("nan")]])
        array([[0.6, 0.8],
               [0. , 0. ]])
        """
        table = as_rows(values)
        self.check_shape(table)
        if self.complete:
            check_fillable(values)
            table = np.where(np.isnan(table), 0.0, table)
        return clip_rows(table, self.radius)

    def check_shape(self, values: Any) -> None:
        """Raise an error if a table has another shape than the public facts declare.

        Parameters
        ----------
        values : array_like or Table
            Private rows. Only their shape is used, which is public. An object without a shape
            passes.

        Raises
        ------
        DataError
            If the numbers of rows and columns differ from the declared numbers. A ragged list, or a
            `Table` with bins in place of numbers, raises the error, too.
        SchemaError
            If the schema of a `Table` has a unit of protection, weights, or facts that are not
            declared public.
        """
        declared = (self.rows, self.columns)
        if isinstance(values, (list, tuple)):
            values = as_rows(values)  # raises an error if some rows are longer than others
        shape = shape_of(values)
        if shape is not None and shape != declared:
            raise DataError(f"the table must have the declared shape {declared}")


# Arrays and tables as rows of numbers


def column_names(schema: Schema) -> tuple[str, ...]:
    """Return the names of the columns of the array into which a table with a schema is converted.

    `rows_of` converts the table.

    A numeric or ordinal attribute makes one column. A categorical attribute makes one column for
    each level, named ``attribute=level``.

    Parameters
    ----------
    schema : Schema
        Public facts about the attributes.

    Returns
    -------
    tuple of str
        Public. Names in the order of the columns: attributes in schema order, levels in
        declared order.

    Raises
    ------
    SchemaError
        If a fact of the schema was read from private data and is not declared public. A schema
        with a unit of protection (all rows of one person) or with weights raises the error,
        too.

    Examples
    --------
    >>> from missdp.pricing import column_names
    >>> from missdp import Categorical, Ordinal, Schema
    >>> column_names(Schema((Ordinal(name="grade", levels=("9", "10", "11")),
    ...                      Categorical(name="sex", levels=("f", "m")))))
    ('grade', 'sex=f', 'sex=m')
    """
    schema.refuse_units("the price of preprocessing")
    if marked := schema.undeclared:
        raise SchemaError(
            "the schema marks facts read from the private data as not yet declared public, for "
            f"attributes {sorted(marked)}. Check them and delete the 'undeclared' marks"
        )
    names: list[str] = []
    for a in schema:
        levels = a.levels if isinstance(a, Categorical) else ()
        names += [f"{a.name}={level}" for level in levels] or [a.name]
    return tuple(names)


def check_fillable(values: Any) -> None:
    """Raise an error if an attribute is not applicable to all rows, without reading a cell."""
    schema = values.schema if isinstance(values, Table) else values
    if isinstance(schema, Schema) and (names := schema.rule_set.not_everywhere(schema.names)):
        raise SchemaError(
            f"{', '.join(map(repr, names))} {'is' if len(names) == 1 else 'are'} not applicable to "
            "some rows, and preprocessing would fill every cell that has no value. Leave such "
            "columns out (Table.subset), or take the fact 'not_applicable' and the rules that "
            "imply it out of the schema if they are to be filled like any missing cell"
        )


def shape_of(values: Any) -> tuple[int, ...] | None:
    """Return the numbers of rows and columns of ``as_rows(values)`` without reading a cell.

    It is None for objects without a shape. A table of bins without values raises an error.
    """
    if not isinstance(values, Table):
        shape = getattr(values, "shape", None)
        return None if shape is None else tuple(shape)
    for a in values.schema:
        if isinstance(a, Numeric):
            values.values(a.name)  # raises an error for a table that holds bins only
    return len(values), len(column_names(values.schema))


def rows_of(table: Table) -> Floats:
    """Return the rows of a private table as an array of numbers between -1 and 1.

    Each number depends on its own cell and on public facts alone. A numeric attribute becomes one
    column, with [lower, upper] mapped to [-1, 1]. An ordinal attribute becomes one column with
    evenly spaced levels. A categorical attribute becomes a column of 0 and 1 for each level
    (one-hot). A cell without a value, missing of any kind or not applicable, is NaN in all its
    columns. So two tables that differ in one row become arrays that differ in one row.

    Parameters
    ----------
    table : Table
        Private rows with values.

    Returns
    -------
    ndarray of float, shape (n_rows, n_columns)
        Private rows, in the order of the table. The columns are those of `column_names`. NaN
        marks a cell without a value.

    Raises
    ------
    SchemaError
        If a fact of the schema is not declared public. A schema with a unit of protection (all
        rows of one person) or with weights raises the error, too.
    DataError
        If a numeric attribute of the table has bins only, no values.

    Examples
    --------
    >>> from missdp import Categorical, Numeric, Schema, Table
    >>> from missdp.pricing import rows_of
    >>> import pandas as pd
    >>> schema = Schema((Numeric(name="age", lower=0, upper=100, nullable=True),
    ...                  Categorical(name="sex", levels=("f", "m"))))
    >>> rows_of(Table.read(pd.DataFrame({"age": [25.0, None], "sex": ["m", "f"]}), schema))
    array([[-0.5,  0. ,  1. ],
           [ nan,  1. ,  0. ]])
    """
    shape_of(table)
    blocks = [
        np.where(table.mask(a.name)[:, None], np.nan, _numbers_of(a, table)) for a in table.schema
    ]
    return np.concatenate(blocks, axis=1)


def _numbers_of(attribute: AnyAttribute, table: Table) -> Floats:
    codes = table.codes(attribute.name)[:, None]
    if isinstance(attribute, Categorical):
        return np.asarray(codes == np.arange(attribute.size), dtype=np.float64)
    if isinstance(attribute, Numeric):
        width = attribute.upper - attribute.lower
        unit = (table.values(attribute.name)[:, None] - attribute.lower) / width
    else:
        unit = codes / (attribute.size - 1) if attribute.size > 1 else np.full(codes.shape, 0.5)
    return np.asarray(np.clip(2 * unit - 1, -1.0, 1.0))


def as_rows(values: Rows) -> Floats:
    """Return a float copy, with NaN for cells that are not finite numbers."""
    if isinstance(values, Table):
        return rows_of(values)
    error = DataError("expected a two-dimensional table")
    with replacing(TypeError, ValueError, by=error), no_warnings():
        table = _numbers(values)
    if table.ndim != 2 or table.shape[1] == 0:
        raise DataError("expected a two-dimensional table with at least one column")
    return table


def _numbers(values: Any) -> Floats:
    # Without dtype=object, NumPy would read a list with one text cell as text throughout.
    array = np.asarray(values, dtype=object if isinstance(values, (list, tuple)) else None)
    if array.dtype.kind == "c":  # one complex cell makes NumPy read all cells as complex
        array = np.where(array.imag == 0, array.real, np.nan)
    if array.dtype.kind not in "fiub":
        cells = np.asarray(values, dtype=object)
        array = np.fromiter(map(as_number, cells.flat), np.float64, cells.size).reshape(cells.shape)
    numbers = np.array(array, dtype=np.float64)
    numbers[~np.isfinite(numbers)] = np.nan
    return numbers


def as_number(cell: Any) -> float:
    """Return one cell as a number, or NaN for other cells."""
    try:
        return float(cell)
    except Exception:  # noqa: BLE001 - no error of a cell may stop the reading of a table
        return np.nan


def clip_rows(table: Floats, radius: float) -> Floats:
    """Return the rows projected on the ball. The projection is 1-Lipschitz."""
    filled = np.where(np.isnan(table), 0.0, table)
    # Scale by the largest entry first: squares of huge finite entries would overflow.
    largest = np.maximum(np.abs(filled).max(axis=1, keepdims=True), np.finfo(float).tiny)
    unit = np.sqrt(((filled / largest) ** 2).sum(axis=1, keepdims=True))
    with no_warnings():  # the norm may overflow, and a warning would reveal a row
        inside = largest * unit <= radius
    scaled = (filled / largest) * (radius / np.maximum(unit, 1.0))
    return np.where(np.isnan(table), np.nan, np.where(inside, filled, scaled))


# Distances of tables


_MOVEMENT = ("shifted_rows", "max_shift", "shift_l12", "shift_frobenius")


@dataclass(frozen=True, kw_only=True)
class TableDistance:
    """A public upper bound on the difference between two tables with an equal number of rows.

    Row i of one table is compared with row i of the other table. At most ``replaced`` rows are
    unrelated. At most ``shifted_rows`` other rows differ, because a step that was fitted on the
    table changed them. `StableTransformer.stability` computes the distance after a step from the
    distance before the step. A row whose missing cells change counts as replaced.

    Parameters
    ----------
    replaced : int
        Number of rows that may be unrelated in the two tables, at least 0.
    shifted_rows : int, default 0
        Number of other rows that may differ, at least 0.
    max_shift : float, default infinity
        Largest Euclidean distance between the two versions of one shifted row, at least 0. All
        distances are in the units of the columns.
    shift_l12 : float, default infinity
        Largest sum of these distances over all shifted rows, at least 0.
    shift_frobenius : float, default infinity
        Largest root of the sum of squares of these distances, at least 0.

    Raises
    ------
    ParameterError
        If an entry is negative or not a number. Shifted rows without any finite norm raise the
        error, too.

    Notes
    -----
    Each of the three norms is lowered to the bound that the other norms imply. They are all 0 if no
    row is shifted. One replaced row is ``TableDistance(replaced=1)``, which is `NEIGHBOURS`.

    Examples
    --------
    >>> from missdp.pricing import TableDistance
    >>> step = TableDistance(replaced=1, shifted_rows=4, max_shift=0.5)
    >>> step.shift_l12, step.shift_frobenius
    (2.0, 1.0)
    """

    replaced: int
    shifted_rows: int = 0
    max_shift: float = math.inf
    shift_l12: float = math.inf
    shift_frobenius: float = math.inf

    def __post_init__(self) -> None:
        rows, norms = self.shifted_rows, (self.max_shift, self.shift_l12, self.shift_frobenius)
        valid = self.replaced >= 0 and rows >= 0 and all(v >= 0 for v in norms)
        require(valid, "distances are counts and norms, and cannot be negative or NaN")
        largest = min(norms) if rows else 0.0
        require(largest < math.inf, "rows that move need a finite norm of their movement")
        tight = (0, 0.0, 0.0, 0.0)
        if largest > 0:
            l12 = min(self.shift_l12, rows * largest, math.sqrt(rows) * self.shift_frobenius)
            tight = rows, largest, l12, min(self.shift_frobenius, math.sqrt(rows) * largest, l12)
        for name, value in zip(_MOVEMENT, tight, strict=True):
            object.__setattr__(self, name, value)

    def forget_movement(self) -> TableDistance:
        """Return the coarser distance of two tables in which every shifted row counts as replaced.

        Returns
        -------
        TableDistance
            Public. ``replaced`` is the sum of replaced and shifted rows, and no row is shifted.

        Examples
        --------
        >>> from missdp.pricing import TableDistance
        >>> TableDistance(replaced=1, shifted_rows=3, max_shift=0.1).forget_movement().replaced
        4
        """
        return TableDistance(replaced=self.replaced + self.shifted_rows)

    def after(
        self, *, rows: int, lipschitz: float, shift: float, shifted_rows: int, diameter: float
    ) -> TableDistance:
        """Return an upper bound on the difference between two tables after a preprocessing step.

        A row whose two versions are d apart before the step is at most ``lipschitz * d + shift``
        apart after the step. The triangle inequality gives the bound in each of the three norms.

        Parameters
        ----------
        rows : int
            Public number of rows of each table, at least 1.
        lipschitz : float
            Factor by which the step can stretch the distance between two rows, at least 0.
        shift : float
            Largest Euclidean distance that the fit of the step on another table adds to one row. At
            least 0, in the units of the columns after the step.
        shifted_rows : int
            Number of rows to which ``shift`` applies, at least 0.
        diameter : float
            Largest Euclidean distance between any two rows after the step, at least 0. It may be
            infinite.

        Returns
        -------
        TableDistance
            Public. The bound for the two tables after the step.

        Raises
        ------
        ParameterError
            If ``shift`` is negative or not a number. Also if the result has a negative distance, or
            shifted rows without any finite distance. A negative ``lipschitz`` is an example.

        Examples
        --------
        >>> from missdp.pricing import TableDistance
        >>> before = TableDistance(replaced=1)
        >>> after = before.after(rows=100, lipschitz=1.0, shift=0.5, shifted_rows=4, diameter=2.0)
        >>> after.shifted_rows, after.max_shift
        (4, 0.5)
        """
        require(shift >= 0, "shift is a distance, and cannot be negative or NaN")
        others = max(0, rows - self.replaced)
        shifted_rows = min(shifted_rows, others) if shift > 0 else 0
        return TableDistance(
            replaced=min(self.replaced, rows),
            shifted_rows=min(others, self.shifted_rows + shifted_rows),
            max_shift=min(diameter, lipschitz * self.max_shift + shift * (shifted_rows > 0)),
            shift_l12=lipschitz * self.shift_l12 + shifted_rows * shift,
            shift_frobenius=lipschitz * self.shift_frobenius + math.sqrt(shifted_rows) * shift,
        )


NEIGHBOURS = TableDistance(replaced=1)
"""Distance of two neighbouring tables before any step: one row is replaced, no other differs."""
