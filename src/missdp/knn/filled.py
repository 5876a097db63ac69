"""A table whose holes are filled, as queries see it. Private."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import Numeric, Schema
from missdp.table import Table

__all__ = ["FilledTable", "fill"]

Cells = tuple[NDArray[np.int64], NDArray[np.float64] | None]


class FilledTable:
    """Codes and values of every attribute, with imputed ones in the place of holes.

    Parameters
    ----------
    table : Table
        The table with holes.
    filled : mapping of str to (codes, values or None)
        Whole columns of the imputed attributes.
    """

    def __init__(self, table: Table, filled: Mapping[str, Cells]) -> None:
        self._table, self._filled = table, filled

    def __len__(self) -> int:
        return len(self._table)

    def __repr__(self) -> str:
        return "FilledTable(private)"

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._table.schema

    def codes(self, name: str) -> NDArray[np.int64]:
        """Codes of an attribute; cells that are still missing have its missing code."""
        if name in self._filled:
            return self._filled[name][0]
        return self._table.codes(name).astype(np.int64)

    def values(self, name: str) -> NDArray[np.float64]:
        """Values of a numeric attribute; its lower bound where still missing."""
        if name in self._filled:
            values = self._filled[name][1]
            if values is None:
                raise DataError(f"attribute {name!r} has no numeric values")
            return values
        return self._table.values(name)


def fill(
    table: Table,
    name: str,
    rows: NDArray[np.int64],
    donors: NDArray[np.int64],
    *,
    how: str,
    default: float,
) -> Cells:
    """Return one column with its holes filled from donors.

    Parameters
    ----------
    table : Table
        Private rows.
    name : str
        Attribute to fill.
    rows : array of int, shape (m,)
        Incomplete rows.
    donors : array of int, shape (m, k)
        Their donors, -1 for the virtual donor that holds ``default``.
    how : {"nearest", "mean", "majority"}
        How k values become one.
    default : float
        A value for numeric attributes, a code for others.
    """
    attribute = table.schema[name]
    hole = table.mask(name)[rows]
    target, donors = rows[hole], donors[hole]
    codes = table.codes(name).astype(np.int64)
    if not isinstance(attribute, Numeric):
        votes = np.where(donors < 0, int(default), codes[donors])
        codes[target] = _majority(votes)
        return codes, None
    values = table.values(name).copy()
    given = np.where(donors < 0, default, values[donors])
    values[target] = given.mean(axis=1) if how == "mean" else given[:, 0]
    np.clip(values, attribute.lower, attribute.upper, out=values)
    codes[target] = attribute.encode_values(values[target])
    return codes, values


def _majority(votes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Most frequent vote of each row; ties go to the vote that comes first."""
    support = np.zeros_like(votes)
    for column in range(votes.shape[1]):
        support += votes == votes[:, [column]]
    return np.asarray(votes[np.arange(len(votes)), support.argmax(axis=1)])
