"""Rows that are not held as a table, but streamed from where they are.

What is read of a batch, and which of its rows count, is the same whatever engine brings it.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Self

from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.session.counting import Clique, Counter, CountingSource, count_block
from missdp.session.observed_rows import ObservedRow, rows_where
from missdp.session.row_kernel import Block
from missdp.session.row_weights import RowWeight
from missdp.table.row_functions import CodedRow
from missdp.table.rows import Rows, is_streamed, select_relation

if TYPE_CHECKING:
    import duckdb


class StreamedSource(CountingSource):
    """A source that reads its rows anew for each call, and holds none of them."""

    _unchecked = False  # whether reading any column finds rows that cannot be read

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self._observed: Clique = ()
        self._validated = False

    def observed_on(self, names: Iterable[str]) -> Self:
        """Return a source of the rows with no hole in these attributes, each by its own cells."""
        found = copy.copy(self)
        found._observed = tuple(dict.fromkeys((*self._observed, *names)))
        return found

    def coded_as(self, schema: Schema) -> Self:
        """Return a source of the same rows, in the bins of another schema that differs in bins.

        Raises
        ------
        SchemaError
        If the schema declares another unit, weight or ledger than this source's own.
        """
        self.schema.check_same_rows(schema)
        found = copy.copy(self)
        found.schema = schema
        return found

    def check(self) -> None:
        """Refuse now what `counts` would refuse, by one pass over columns that refuse cells."""
        refusing = self._unchecked or any(attribute.refuses for attribute in self.schema)
        if refusing and not self._validated:
            self._run(self._needed(()), None, None)
        self._validated = True

    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        self._run(self._needed(counter.needed(weight)), counter, weight)
        self._validated = True

    def _needed(self, counted: Clique) -> Clique:
        """Columns to read: those counted and, the first time, those that may refuse a cell."""
        names = (*counted, *self._observed)
        read = self.schema.read_for(names, refusing=not self._validated)
        return read or self.schema.input_columns.names[:1]

    @abc.abstractmethod
    def _run(self, names: Clique, counter: Counter | None, weight: RowWeight | None) -> None:
        """Encode the named columns of every row, and count them."""


class DuckDBSource(StreamedSource):
    """Count rows that are streamed, in memory that does not depend on how many there are.

    DuckDB runs relations and queries; Arrow reads files. The cells then go through the same door
    and the same kernel as a table in memory, so a missing cell, a sentinel or a value outside the
    domain means the same in both.

    Parameters
    ----------
    data : DuckDB relation, str, Path or Rows
        A path names a CSV or Parquet file. The columns must be exactly the schema's, in any order.
    schema : Schema
        The declared domain.
    n_jobs : int, optional
        Threads that encode and count (default: the processors of this machine, at most 4).

    Notes
    -----
    Every call reads the data again, so the data must not change between calls. A table that does
    not fit its schema is refused by :meth:`check`, which `open_source` calls before a fit charges
    anything, or by the first call of :meth:`counts`. Later calls read only the columns they count.

    Examples
    --------
    >>> import duckdb
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
    >>> relation = duckdb.connect().sql("SELECT * FROM (VALUES ('yes'), (NULL), ('no')) t(smoker)")
    >>> DuckDBSource(relation, schema).counts([("smoker",)], rows="extended")[("smoker",)].tolist()
    [1, 1, 1]
    """

    def __init__(
        self,
        data: duckdb.DuckDBPyRelation | str | Path | Rows,
        schema: Schema,
        *,
        n_jobs: int | None = None,
    ) -> None:
        if n_jobs is not None and n_jobs < 1:
            raise ParameterError(f"n_jobs must be at least 1, not {n_jobs}")
        if not is_streamed(data):
            raise ParameterError("data must be a DuckDB relation, the path of a file, or Rows")
        self._n_jobs = n_jobs
        self._stream = Rows.of(data, schema)
        self._unchecked = self._stream.is_parsed
        super().__init__(schema)
        self._stream.check(schema.input_columns.names)

    @classmethod
    def from_query(
        cls,
        connection: duckdb.DuckDBPyConnection,
        sql: str,
        schema: Schema,
        *,
        n_jobs: int | None = None,
    ) -> DuckDBSource:
        """Count the rows of one SELECT statement, whose columns are exactly the schema's."""
        return cls(select_relation(connection, sql), schema, n_jobs=n_jobs)

    def code_blocks(self) -> Iterator[Block]:
        """Yield the codes of all rows, a batch at a time, in one pass. Private."""
        for codes, _ in self._blocks(self.schema.input_columns.names, self.schema.names):
            yield codes
        self._validated = True

    def _run(self, names: Clique, counter: Counter | None, weight: RowWeight | None) -> None:
        read = counter.needed(weight) if counter else ()
        for _ in self._blocks(names, read, counter, weight):
            pass

    def _blocks(
        self,
        names: Clique,
        read: Clique,
        counter: Counter | None = None,
        weight: RowWeight | None = None,
    ) -> Iterator[tuple[Block, int]]:
        """Yield codes of the rows that count, a batch at a time, and count them."""
        wanted = tuple(dict.fromkeys((*read, *self._observed)))

        def counted(codes: Block, n_rows: int) -> tuple[Block, int]:
            if self._observed:
                marks = ObservedRow(self.schema, self._observed)
                codes, n_rows = rows_where(marks, codes, n_rows)
            if counter is not None:
                count_block(counter, codes, n_rows, weight)
            return codes, n_rows

        coded = CodedRow(self.schema, names, wanted, with_values=False)
        yield from coded.blocks(self._stream, counted, n_jobs=self._n_jobs)
