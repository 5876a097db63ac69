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
    """Source that counts rows in memory, which are held as codes. Base class of `MemorySource`.

    The counts are exact and private. A session, the object that releases noisy numbers, adds the
    noise and charges a budget for it.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    rows : callable
        Returns a dictionary of columns, each of shape (n_rows,): the codes of every attribute, and
        numbers of some. Private. It is called once.
    valued : frozenset of str
        Attributes that have numbers in addition to codes. Public.
    weights : ndarray of int64, shape (n_rows,), optional
        The amount that each row counts, in steps of 2**-20 of a row. Private. By default each row
        counts one.
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
        """True if the rows of the source have weights. Then counts are in units of 2**-20 of a row.

        The value is public.
        """
        return self._weights is not None

    def mapped(
        self, function: RowFunction, schema: Schema, generator: np.random.Generator | None = None
    ) -> Self:
        """Return a source of the rows after a row function, with the weights of this source.

        A row function maps each row to one row, by this row and public or released values alone.

        Parameters
        ----------
        function : RowFunction
            Function of a registered type.
        schema : Schema
            Public facts about the resulting rows.
        generator : numpy.random.Generator, optional
            Draws the random numbers of rows, if the function needs them.

        Returns
        -------
        HeldSource
            A source of the same class. The function is applied when the rows are first counted.
            Private.

        Raises
        ------
        SchemaError
            If the schema declares another unit, weight or ledger than the schema of this source.
        ParameterError
            If the type of the function is not registered.
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
        """Return a source of the rows in which no cell of some attributes is missing.

        Weights of rows are kept.

        Parameters
        ----------
        names : iterable of str
            The attributes.

        Returns
        -------
        HeldSource
            A source of the same class, whose rows were selected at once. Private.
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
        """Return the codes of all rows of the source, for each attribute.

        Returns
        -------
        dict of str to ndarray of unsigned int, of shape (n_rows,)
            In the order of the schema. Private.
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
