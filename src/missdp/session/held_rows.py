"""Rows that are held in memory, as codes.

A change of held rows is a registered row function. The row kernel applies it once, when the first
of the changed rows is counted, so that every count sees the same changed rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Schema
from missdp.session.counting import (
    GROUP_CELLS,
    Clique,
    Counter,
    CountingSource,
    count_block,
)
from missdp.session.observed_rows import ObservedRow, rows_where
from missdp.session.row_kernel import (
    VALUES,
    Block,
    RowFunction,
    check_registered,
    map_rows,
)
from missdp.session.row_weights import RowWeight
from missdp.types import Ints


class HeldSource(CountingSource):
    """Source of private rows that are held in memory, as codes (numbers of levels or bins).

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    rows : callable
        Function that returns the columns: codes of every attribute, and numbers of some. Private.
    valued : frozenset of str
        Names of attributes that have numbers in addition to codes. Public.
    weights : ndarray of int64, shape (n_rows,), optional
        The amount that each row counts, in fractions of a row. Private. By default each row counts
        one.
    """

    def __init__(
        self,
        schema: Schema,
        rows: Callable[[], Block],
        *,
        valued: frozenset[str],
        weights: Ints | None = None,
    ) -> None:
        super().__init__(schema)
        self._rows: Callable[[], Block] = cache(rows)
        self._weights = weights
        self.valued = valued

    @property
    def weighed(self) -> bool:
        """Return whether rows have survey weights, so that counts are in fractions of a row.

        Returns
        -------
        bool
            Public.
        """
        return self._weights is not None

    def mapped(
        self, function: RowFunction, schema: Schema, generator: np.random.Generator | None = None
    ) -> Self:
        """Return a source of the rows that a row function makes of these private rows.

        A row function maps one row to one row, independently of other rows. It is applied when the
        rows are first counted.

        Parameters
        ----------
        function : RowFunction
            Function of a registered type.
        schema : Schema
            Public facts about the resulting rows.
        generator : numpy.random.Generator, optional
            Source of the random numbers of rows.

        Returns
        -------
        HeldSource
            The resulting rows, with the weights of these rows. Private.

        Raises
        ------
        ParameterError
            If the type of the function is not registered.
        SchemaError
            If the schema declares another unit, weight or ledger than the schema of this source.
        """
        check_registered(function)
        self.schema.check_same_rows(schema)
        result, rows = copy.copy(self), self._rows
        result.schema = schema
        result._rows = cache(lambda: map_rows(function, rows(), _length(rows()), generator))
        keys = [key for key in function.columns if isinstance(key, tuple) and key[0] == VALUES]
        result.valued = frozenset(name for _, name in keys)
        return result

    def observed_on(self, names: Iterable[str]) -> Self:
        """Return a source of the private rows that have no missing cell in some attributes.

        Parameters
        ----------
        names : iterable of str
            Names of the attributes.

        Returns
        -------
        HeldSource
            These rows, with their weights. Private.
        """
        rows, columns = self._rows(), dict(self._rows())
        if self._weights is not None:
            columns["weights", ""] = self._weights
        marks = ObservedRow(self.schema, tuple(names))
        observed, _ = rows_where(marks, columns, _length(rows))
        result = copy.copy(self)
        result._weights = observed.pop(("weights", ""), None)
        result._rows = lambda: observed
        return result

    def code_columns(self) -> dict[str, NDArray[Any]]:
        """Return the codes (numbers of levels or bins) of every attribute of the private rows.

        Returns
        -------
        dict of str to ndarray of shape (n_rows,)
            One column for each attribute of the schema. Private.
        """
        rows = self._rows()
        return {name: rows[name] for name in self.schema.names}

    def _counter(self, cliques: tuple[Clique, ...]) -> Counter:
        few = min(GROUP_CELLS, _length(self._rows()) // 4)
        return Counter(self.schema, cliques, group_cells=few)

    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        rows = self._rows()
        codes = {name: rows[name] for name in counter.needed(weight)}
        count_block(counter, codes, _length(rows), weight, self._weights)


def _length(rows: Block) -> int:
    return len(next(iter(rows.values())))
