"""Rows that are observed on some attributes: the only code that drops rows.

A row function marks each row by itself. So a table with one more row has at most one more marked
row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Schema
from missdp.session.counting import MarginalSource, has_method
from missdp.session.row_kernel import Block, Range, RowFunction, map_rows, row_function
from missdp.types import Flags, Floats


@row_function
@dataclass(frozen=True, eq=False)
class ObservedRow(RowFunction):
    """Row function that marks rows observed on some attributes. "Not applicable" is observed."""

    schema: Schema
    names: tuple[str, ...]

    @property
    def columns(self) -> Mapping[Any, Range]:
        """One column of booleans."""
        return {"observed": Range(np.dtype(bool), False, True)}

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return True for each row that is observed on all attributes."""
        observed = np.ones(len(uniforms), dtype=bool)
        for name in self.names:
            observed &= rows[name] < self.schema[name].missing_code
        return {"observed": observed}


def rows_where(
    function: RowFunction, rows: Block, n_rows: int
) -> tuple[dict[Any, NDArray[Any]], int]:
    """Return the rows that a row function marks, and their number.

    Whether a row is marked depends on that row alone. So if a table has one row more, at most one
    more row is returned.

    Parameters
    ----------
    function : RowFunction
        Function with one column, of booleans, that draws no random numbers.
    rows : mapping of object to ndarray of shape (n_rows,)
        The columns of the rows. Private.
    n_rows : int
        Number of rows. Private.

    Returns
    -------
    dict of object to ndarray of shape (n_marked,)
        The columns of the marked rows, in the order of the rows. Private.
    int
        ``n_marked``, the number of marked rows. Private.
    """
    (mark,) = map_rows(function, rows, n_rows).values()
    marked: Flags = np.asarray(mark, dtype=bool)
    return {key: np.asarray(column)[marked] for key, column in rows.items()}, int(marked.sum())


def complete_rows(source: MarginalSource) -> MarginalSource:
    """Return a source of the rows without a missing cell."""
    assert has_method(source, "observed_on")  # checked before anything was charged
    complete: MarginalSource = source.observed_on(source.schema.nullable)  # type: ignore[attr-defined]
    return complete
