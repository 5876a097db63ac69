"""Counts of a DuckDB relation, query or file that need not fit in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from missdp.errors import DataError, ParameterError, replacing
from missdp.schema import Schema
from missdp.sources.code_store import CodeBlock
from missdp.sources.counts import Clique, Counter, Counts, Rows, check_cliques
from missdp.sources.row_weights import RowWeight
from missdp.table.blocks import in_order, usual_jobs
from missdp.table.encode import Encoder
from missdp.table.follow import follow_rules
from missdp.table.streams import Batch, RowStream, stream_of

if TYPE_CHECKING:
    import duckdb


__all__ = ["DuckDBSource"]


class DuckDBSource:
    """Count rows that are streamed, in memory that does not depend on how many there are.

    DuckDB runs relations and queries; Arrow reads files. The cells then go through the same door
    and the same kernel as a table in memory, so a hole, a sentinel or a value outside the domain
    means the same in both.

    Parameters
    ----------
    data : DuckDB relation, str, Path or RowStream
        A path names a CSV or Parquet file. The columns must be exactly the schema's, in any order.
    schema : Schema
        The declared domain.
    n_jobs : int, optional
        Threads that encode and count (default: the processors of this machine, at most 4).

    Raises
    ------
    DataError
        If the file cannot be opened or its columns are not the schema's.

    Notes
    -----
    Every call reads the data again, so the data must not change between calls. A table that does
    not fit its schema is refused by :meth:`check`, which `open_source` calls before a fit charges
    anything, or by the first call of :meth:`counts`. Later calls read only the columns they count.

    Examples
    --------
    >>> import duckdb
    >>> from missdp import Categorical, Schema
    >>> from missdp.sources import DuckDBSource
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes"), nullable=True),))
    >>> relation = duckdb.connect().sql("SELECT * FROM (VALUES ('yes'), (NULL), ('no')) t(smoker)")
    >>> DuckDBSource(relation, schema).counts([("smoker",)], rows="extended")[("smoker",)].tolist()
    [1, 1, 1]
    """

    def __init__(
        self,
        data: duckdb.DuckDBPyRelation | str | Path | RowStream,
        schema: Schema,
        *,
        n_jobs: int | None = None,
    ) -> None:
        if n_jobs is not None and n_jobs < 1:
            raise ParameterError(f"n_jobs must be at least 1, not {n_jobs}")
        stream = stream_of(data)
        if stream is None:
            raise ParameterError(
                "data must be a DuckDB relation, the path of a file, or rows that stream"
            )
        self._n_jobs = n_jobs or usual_jobs()
        self._stream = stream
        self._schema = schema
        self._encoders = {attribute.name: Encoder(attribute) for attribute in schema}
        self._validated = False
        self._observed: Clique = ()
        stream.check(schema.names)

    @classmethod
    def from_query(
        cls,
        connection: duckdb.DuckDBPyConnection,
        sql: str,
        schema: Schema,
        *,
        n_jobs: int | None = None,
    ) -> DuckDBSource:
        """Count the rows of a SELECT query.

        Parameters
        ----------
        connection : DuckDB connection
            Where the query runs; it must stay open.
        sql : str
            One SELECT statement whose columns are exactly the schema's.
        schema : Schema
            The declared domain.
        n_jobs : int, optional
            As for the class.

        Raises
        ------
        ParameterError
            If the text is not exactly one SELECT statement.
        DataError
            If the query does not run.

        Examples
        --------
        >>> import duckdb
        >>> from missdp import Schema, Numeric
        >>> from missdp.sources import DuckDBSource
        >>> schema = Schema((Numeric(name="age", lower=0, upper=100, bins=2),))
        >>> source = DuckDBSource.from_query(duckdb.connect(), "SELECT 7 AS age", schema)
        >>> source.counts([("age",)], rows="observed")[("age",)].tolist()
        [1, 0]
        """
        import duckdb

        with replacing(duckdb.Error, by=ParameterError("the query is not valid SQL")):
            statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise ParameterError("the query must be exactly one SELECT statement")
        with replacing(duckdb.Error, by=DataError("the query does not run")):
            relation = connection.sql(sql)
        return cls(relation, schema, n_jobs=n_jobs)

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        return self._schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique; see :meth:`missdp.sources.MarginalSource.counts`."""
        checked = check_cliques(self._schema, cliques, rows)
        counter = Counter(self._schema, checked)
        self._run(self._needed(counter.names), counter)
        self._validated = True
        return counter.result(rows)

    def weighted_counts(self, cliques: Iterable[Clique], weight: RowWeight) -> Counts:
        """Add up the weights of the rows in every cell; see :class:`WeighingSource`."""
        checked = check_cliques(self._schema, cliques, "extended")
        counter = Counter(self._schema, checked)
        read = tuple(dict.fromkeys((*counter.names, *weight.names)))
        self._run(self._needed(read), counter, weight)
        self._validated = True
        return counter.result("extended")

    def observed_on(self, names: Iterable[str]) -> DuckDBSource:
        """Return a source of the rows in which no cell of these attributes is a hole.

        What is not applicable is no hole. Each row is left out by its own cells.
        """
        found = copy.copy(self)
        found._observed = tuple(dict.fromkeys((*self._observed, *names)))
        return found

    def coded_as(self, schema: Schema) -> DuckDBSource:
        """Return a source of the same rows, in the bins of another schema that differs in bins."""
        found = copy.copy(self)
        found._schema = schema
        found._encoders = {attribute.name: Encoder(attribute) for attribute in schema}
        return found

    def code_blocks(self) -> Iterator[CodeBlock]:
        """Yield the codes of all rows, a batch at a time, in one pass. Private."""
        names = self._schema.names
        yield from in_order(
            lambda batch: self._codes(batch, names, names)[0],
            self._stream.batches(names),
            n_jobs=self._n_jobs,
        )
        self._validated = True

    def check(self) -> None:
        """Refuse now what :meth:`counts` would refuse, so that nothing is charged for it.

        Reads the columns whose policy is ``outside="error"`` once (a CSV file is always parsed
        once), unless it was done before. What it cannot foresee with other policies is a Parquet
        file or a query that breaks half-way.

        Raises
        ------
        DataError
            If the data does not fit the schema or cannot be read. Quotes no value and no count.
        """
        refusing = any(attribute.refuses for attribute in self._schema)
        if not self._validated and (refusing or self._stream.unchecked):
            self._run(self._needed(()), None)
        self._validated = True

    def _needed(self, counted: Clique) -> Clique:
        """Columns to read: those counted and, the first time, those that may refuse a cell."""
        read = self._schema.rulebook.reached((*counted, *self._observed))
        wanted = tuple(
            a.name for a in self._schema if a.name in read or (a.refuses and not self._validated)
        )
        return wanted or self._schema.names[:1]

    def __repr__(self) -> str:
        return f"DuckDBSource({', '.join(self._schema.names)})"

    def _run(self, names: Clique, counter: Counter | None, weight: RowWeight | None = None) -> None:
        """Encode the named columns of every row, and count them."""

        def count(batch: Batch) -> None:
            self._count_batch(batch, names, counter, weight)

        for _ in in_order(count, self._stream.batches(names), n_jobs=self._n_jobs):
            pass

    def _count_batch(
        self,
        batch: Batch,
        names: Clique,
        counter: Counter | None,
        weight: RowWeight | None,
    ) -> None:
        read = (
            tuple(dict.fromkeys((*counter.names, *(weight.names if weight else ()))))
            if counter
            else ()
        )
        codes, n_rows = self._codes(batch, names, read)
        if counter is not None:
            counter.add(codes, n_rows, weight(codes) if weight else None)

    def _codes(self, batch: Batch, names: Clique, read: Clique) -> tuple[CodeBlock, int]:
        """Return codes of the rows that are counted, and how many these are."""
        columns = {n: self._encoders[n].encode(batch.column(i)) for i, n in enumerate(names)}
        if not read and not self._observed:
            return {}, batch.num_rows
        ruled = follow_rules(self._schema, columns, dict.fromkeys((*read, *self._observed)))
        codes = {n: column.codes for n, column in ruled.items()}
        if not self._observed:
            return codes, batch.num_rows
        seen = np.logical_and.reduce(
            [codes[n] < self._schema[n].missing_code for n in self._observed]
        )
        return {n: codes[n][seen] for n in read}, int(seen.sum())
