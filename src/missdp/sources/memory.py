"""Counts of a table held in memory."""

from __future__ import annotations

from collections.abc import Iterable

from missdp.schema import Schema
from missdp.sources.base import Clique, Counts, Rows
from missdp.sources.kernel import CHUNK_ROWS, GROUP_CELLS, Counter, check_cliques
from missdp.table import Table

__all__ = ["MemorySource"]


class MemorySource:
    """Count a :class:`~missdp.table.Table` in memory, a chunk of rows at a time.

    Parameters
    ----------
    table : Table
        The private rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema, Table
    >>> from missdp.sources import MemorySource
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
    >>> frame = pd.DataFrame({"smoker": ["yes", None, "no", "yes"]})
    >>> source = MemorySource(Table.read(frame, schema))
    >>> source.counts([("smoker",)], rows="observed")[("smoker",)].tolist()
    [1, 2]
    >>> source.counts([("smoker",)], rows="extended")[("smoker",)].tolist()
    [1, 2, 1]
    """

    def __init__(self, table: Table) -> None:
        self._table = table

    @property
    def table(self) -> Table:
        """The private rows."""
        return self._table

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        return self._table.schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique; see :meth:`missdp.sources.MarginalSource.counts`."""
        checked = check_cliques(self.schema, cliques, rows)
        n_rows = len(self._table)
        counter = Counter(self.schema, checked, group_cells=min(GROUP_CELLS, n_rows // 4))
        codes = {name: self._table.codes(name) for name in counter.names}
        for start in range(0, n_rows, CHUNK_ROWS):
            stop = min(start + CHUNK_ROWS, n_rows)
            counter.add({name: c[start:stop] for name, c in codes.items()}, stop - start)
        return counter.result(rows)

    def __repr__(self) -> str:
        return f"MemorySource({', '.join(self.schema.names)})"
