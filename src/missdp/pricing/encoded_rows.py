"""Rows of numbers, as steps of preprocessing take them, filled by released laws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from missdp.errors import DataError
from missdp.inference.conditionals import Conditionals
from missdp.pricing.completed_rows import completed
from missdp.pricing.domain import (
    FloatArray,
    RowDomain,
    Rows,
    as_rows,
    clip_rows,
    column_names,
    rows_of,
)
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.sources.filling import Filling
from missdp.sources.modelled import Modelled
from missdp.table import Table
from missdp.table.encode import Column, code_dtype

__all__ = ["filled_domain", "filled_numbers", "table_of"]


def table_of(rows: FloatArray, schema: Schema) -> Table:
    """Return rows of numbers as a table: the inverse of `rows_of`, for any numbers.

    Each row is read by itself: numbers outside the domain become its ends, and of several columns
    of one attribute the largest is its level. A missing number makes the cell missing.

    Parameters
    ----------
    rows : ndarray
        With the columns of :func:`~missdp.pricing.column_names`.
    schema : Schema
        Its attributes must be nullable where a number is missing.

    Examples
    --------
    >>> from missdp import Categorical, Numeric, Schema
    >>> schema = Schema((Numeric(name="age", lower=0, upper=100, nullable=True),
    ...                  Categorical(name="sex", levels=("f", "m"))))
    >>> table = table_of(np.array([[-0.5, 0.0, 1.0], [np.nan, 1.0, 0.0]]), schema)
    >>> table.values("age").tolist()[0], table.codes("sex").tolist()
    (25.0, [1, 0])
    """
    columns, start = {}, 0
    for attribute in schema:
        width = attribute.size if isinstance(attribute, Categorical) else 1
        columns[attribute.name] = _read(attribute, rows[:, start : start + width])
        start += width
    return Table(schema, columns)


def _read(attribute: AnyAttribute, numbers: FloatArray) -> Column:
    hole = np.asarray(np.isnan(numbers).any(axis=1))
    known = np.where(hole[:, None], 0.0, numbers)
    values = None
    if isinstance(attribute, Categorical):
        codes = known.argmax(axis=1)
    else:
        unit = (np.clip(known[:, 0], -1.0, 1.0) + 1) / 2
        if isinstance(attribute, Numeric):
            values = attribute.lower + unit * (attribute.upper - attribute.lower)
            values = np.clip(values, attribute.lower, attribute.upper)
            values = np.rint(values) if attribute.integer else values
            codes = attribute.encode_values(values)
            values = np.where(hole, attribute.lower, values)
        else:
            codes = np.rint(unit * (attribute.size - 1)).astype(np.int64)
    codes = np.where(hole, attribute.missing_code, codes)
    return Column(codes.astype(code_dtype(attribute)), values)


def filled_numbers(
    X: Rows,
    schema: Schema,
    laws: Conditionals,
    *,
    entropy: int,
    draw: int,
    filling: Filling,
) -> FloatArray:
    """Return rows of numbers with their holes filled, each row by itself.

    Observed numbers stay as they are; a filled row longer than any row of a table of this schema
    is scaled down to that length. A hole that could not be filled as rules have it becomes 0.

    Parameters
    ----------
    X : array_like of float
        With the columns of :func:`~missdp.pricing.column_names`, NaN in each hole.
    schema : Schema
    laws : Conditionals
    entropy, draw, filling
        See `missdp.pricing.completed_rows.completed`.

    Raises
    ------
    DataError
        If the number of columns is another one.
    """
    numbers = as_rows(X)
    if numbers.shape[1] != len(column_names(schema)):
        raise DataError(f"expected {len(column_names(schema))} columns")
    holes = np.isnan(numbers)
    some = np.flatnonzero(holes.any(axis=1))
    if not some.size:
        return numbers
    open_ = Schema(tuple(replace(a, nullable=True) for a in schema), schema.rules)
    # All rows, so that each has the random numbers of its place.
    table = table_of(numbers, open_)
    found = completed(table, laws, Modelled(open_), entropy=entropy, draw=draw, filling=filling)
    encoded = np.nan_to_num(rows_of(found)[some], nan=0.0)
    numbers[some] = clip_rows(np.where(holes[some], encoded, numbers[some]), math.sqrt(len(schema)))
    return numbers


def filled_domain(domain: RowDomain, schema: Schema) -> RowDomain:
    """Return what is known of rows that `filled_numbers` has filled."""
    return replace(domain, radius=max(domain.radius, math.sqrt(len(schema))), complete=True)
