"""Where the holes are. Everything here is private: for the curator's eyes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import Numeric, Schema
from missdp.table import Table
from missdp.table.encode import Column

__all__ = ["missing_mask", "missing_patterns", "with_holes"]


def missing_mask(table: Table) -> NDArray[np.bool_]:
    """Return True where a cell is missing.

    Parameters
    ----------
    table : Table
        Private rows.

    Returns
    -------
    array of bool, shape (n, d)
        Columns in schema order. Private, like the cells themselves.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import missing_mask
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_mask(Table.from_codes(schema, {"a": [0, 2]})).tolist()
    [[False], [True]]
    """
    return np.column_stack([table.mask(name) for name in table.schema.names])


def missing_patterns(table: Table) -> dict[tuple[str, ...], int]:
    """Count the rows of every pattern of missing attributes. Curator only: exact private counts.

    Parameters
    ----------
    table : Table
        Private rows.

    Returns
    -------
    dict of tuple of str to int
        Names of the missing attributes (empty: a complete row), most frequent pattern first.

    Examples
    --------
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.missingness import missing_patterns
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_patterns(Table.from_codes(schema, {"a": [0, 2, 1]}))
    {(): 2, ('a',): 1}
    """
    patterns, counts = np.unique(missing_mask(table), axis=0, return_counts=True)
    names = np.array(table.schema.names, dtype=object)
    order = np.argsort(-counts, kind="stable")
    return {tuple(names[patterns[i]]): int(counts[i]) for i in order}


def with_holes(table: Table, holes: Mapping[str, NDArray[np.bool_]]) -> Table:
    """Return the table with cells removed; every attribute named is nullable in its schema."""
    schema = Schema(
        tuple(
            a.model_copy(update={"nullable": True}) if a.name in holes else a for a in table.schema
        )
    )
    columns = {name: Column(table.codes(name), _values(table, name)) for name in schema.names}
    return Table(schema, columns, kind=table.kind).with_missing(holes)


def _values(table: Table, name: str) -> NDArray[np.float64] | None:
    if not isinstance(table.schema[name], Numeric):
        return None
    try:
        return table.values(name)
    except DataError:  # a table of bins only
        return None
