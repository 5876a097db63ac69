"""Masks and patterns: which cells of a table are missing, and tables that lose some.

What is computed from a table is private, for the curator's eyes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Schema
from missdp.table import Table
from missdp.table.encode import Column
from missdp.table.follow import follow_rules

__all__ = ["missing_mask", "missing_patterns", "with_holes"]


def missing_mask(table: Table) -> NDArray[np.bool_]:
    """Return True where a cell is missing, of whatever kind; "not applicable" is not missing.

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
    >>> from missdp.evaluate import missing_mask
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_mask(Table.from_codes(schema, {"a": [0, 2]})).tolist()
    [[False], [True]]
    """
    return np.column_stack([table.codes(a.name) >= a.missing_code for a in table.schema])


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
    >>> from missdp.evaluate import missing_patterns
    >>> schema = Schema((Categorical(name="a", levels=("x", "y"), nullable=True),))
    >>> missing_patterns(Table.from_codes(schema, {"a": [0, 2, 1]}))
    {(): 2, ('a',): 1}
    """
    patterns, counts = np.unique(missing_mask(table), axis=0, return_counts=True)
    names = np.array(table.schema.names, dtype=object)
    order = np.argsort(-counts, kind="stable")
    return {tuple(names[patterns[i]]): int(counts[i]) for i in order}


def with_holes(table: Table, holes: Mapping[str, NDArray[np.bool_]]) -> Table:
    """Return the table with cells removed; every attribute named is nullable in its schema.

    Removed cells that follow from the rest of their row by a rule are there again.
    """
    open_ = _nullable(table.schema, holes)
    schema = replace(
        table.schema,
        attributes=tuple(replace(a, nullable=True) if a.name in open_ else a for a in table.schema),
    )
    columns = {name: table.column(name) for name in schema.names}
    found = Table(schema, columns, kind=table.kind).with_missing(holes)
    if not schema.rules:
        return found
    columns = {name: found.column(name) for name in schema.names}
    followed = follow_rules(schema, columns, holes)
    restored = {n: _where(holes[n], followed[n], columns[n]) for n in holes}
    return Table(schema, columns | restored, kind=table.kind)


def _nullable(schema: Schema, names: Iterable[str]) -> set[str]:
    """Return attributes that may have holes, and those that follow from them by a rule."""
    found = set(names)
    while (
        grown := {name for name, rule in schema.rulebook.derives.items() if found & {*rule.by}}
        - found
    ):
        found |= grown
    return found


def _where(chosen: NDArray[np.bool_], one: Column, two: Column) -> Column:
    """Return the cells of one column where chosen, else those of the other."""
    values = None
    if one.values is not None and two.values is not None:
        values = np.where(chosen, one.values, two.values)
    return Column(np.where(chosen, one.codes, two.codes), values)
