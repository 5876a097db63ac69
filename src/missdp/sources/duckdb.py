"""Counts of a DuckDB relation, query or file that need not fit in memory."""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa

from missdp.errors import DataError, ParameterError
from missdp.schema import Schema
from missdp.sources.base import Clique, Counts, Rows
from missdp.sources.kernel import CHUNK_ROWS, Counter, check_cliques
from missdp.table.encode import encode
from missdp.table.files import open_relation
from missdp.table.frames import check_columns

__all__ = ["DuckDBSource"]

_UNREADABLE = "the data cannot be read: a row is malformed or the query fails"


class DuckDBSource:
    """Count rows that DuckDB streams, in memory that does not depend on how many there are.

    DuckDB reads and projects; the cells then go through the same door and the same kernel as a
    table in memory, so a hole, a sentinel or a value outside the domain means the same in both.

    Parameters
    ----------
    data : DuckDB relation, str or Path
        A path names a CSV or Parquet file. The columns must be exactly the schema's, in any order.
    schema : Schema
        The declared domain.
    n_jobs : int, optional
        Threads that encode and count (default: the processors of this machine, at most
        4). For a file, DuckDB also reads with this many.

    Raises
    ------
    DataError
        If the file cannot be opened or its columns are not the schema's.

    Notes
    -----
    Every call reads the data again, so the data must not change between calls. The first call reads
    every column, to refuse a table that does not fit its schema before anything is released from
    it; later calls read only the columns they count.

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
        data: duckdb.DuckDBPyRelation | str | Path,
        schema: Schema,
        *,
        n_jobs: int | None = None,
    ) -> None:
        if n_jobs is not None and n_jobs < 1:
            raise ParameterError(f"n_jobs must be at least 1, not {n_jobs}")
        self._n_jobs = n_jobs or min(4, os.cpu_count() or 1)
        self._data = Path(data) if isinstance(data, str) else data
        self._schema = schema
        self._validated = False
        with self._relation() as relation:
            check_columns(list(relation.columns), schema.names)

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
        try:
            statements = connection.extract_statements(sql)
        except duckdb.Error:
            raise ParameterError("the query is not valid SQL") from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise ParameterError("the query must be exactly one SELECT statement")
        with _private_errors("the query does not run"):
            return cls(connection.sql(sql), schema, n_jobs=n_jobs)

    @property
    def schema(self) -> Schema:
        """Public facts about the columns."""
        return self._schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique; see :meth:`missdp.sources.MarginalSource.counts`."""
        checked = check_cliques(self._schema, cliques, rows)
        counter = Counter(self._schema, checked)
        names = counter.names if self._validated else self._schema.names
        with self._relation() as relation:
            self._count(relation, names or self._schema.names[:1], counter)
        self._validated = True
        return counter.result(rows)

    def __repr__(self) -> str:
        return f"DuckDBSource({', '.join(self._schema.names)})"

    @contextlib.contextmanager
    def _relation(self) -> Iterator[duckdb.DuckDBPyRelation]:
        if not isinstance(self._data, Path):
            yield self._data
            return
        config = {"threads": str(self._n_jobs), "preserve_insertion_order": "false"}
        with duckdb.connect(config=config) as connection:  # type: ignore[arg-type]
            yield open_relation(self._data, connection, self._schema.names)

    def _count(self, relation: duckdb.DuckDBPyRelation, names: Clique, counter: Counter) -> None:
        quoted = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        with ThreadPoolExecutor(self._n_jobs) as pool:
            waiting: deque[Future[None]] = deque()
            try:
                for batch in _batches(relation, quoted):
                    waiting.append(pool.submit(self._count_batch, batch, names, counter))
                    if len(waiting) > self._n_jobs:
                        waiting.popleft().result()
                while waiting:
                    waiting.popleft().result()
            finally:
                for task in waiting:
                    task.cancel()

    def _count_batch(self, batch: pa.RecordBatch, names: Clique, counter: Counter) -> None:
        codes = {n: encode(self._schema[n], batch.column(i)).codes for i, n in enumerate(names)}
        counter.add(codes, batch.num_rows)


def _batches(relation: duckdb.DuckDBPyRelation, columns: str) -> Iterator[pa.RecordBatch]:
    with _private_errors(_UNREADABLE):
        projected = relation.project(columns)
        stream = getattr(projected, "to_arrow_reader", None) or projected.fetch_arrow_reader
        reader = stream(CHUNK_ROWS)
    with contextlib.closing(reader):
        while True:
            with _private_errors(_UNREADABLE):
                batch = next(reader, None)
            if batch is None:
                return
            yield batch


@contextlib.contextmanager
def _private_errors(message: str) -> Iterator[None]:
    """Replace an engine's error, which may quote a cell, by one that says nothing private."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException, OSError):
        raise DataError(message) from None
