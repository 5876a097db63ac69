"""Sources that stream rows instead of holding a table.

Reading of a batch and selection of its rows do not depend on the engine.
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
    """Base class of sources that read their private rows again for each call, and hold no row.

    A subclass defines ``_run``, which encodes the requested columns of every row and counts the
    rows.

    Parameters
    ----------
    schema : Schema
        Public facts about the columns.
    """

    _unchecked = False  # True if unreadable rows are detected only by reading

    def __init__(self, schema: Schema) -> None:
        super().__init__(schema)
        self._observed: Clique = ()
        self._validated = False

    def observed_on(self, names: Iterable[str]) -> Self:
        """Return a source of the rows in which no cell of some attributes is missing.

        Parameters
        ----------
        names : iterable of str
            The attributes. Attributes of earlier calls count too.

        Returns
        -------
        StreamedSource
            A source of the same class. Private. The rows are selected while they are read.
        """
        source = copy.copy(self)
        source._observed = tuple(dict.fromkeys((*self._observed, *names)))
        return source

    def coded_as(self, schema: Schema) -> Self:
        """Return a source of the same rows under another binning of numeric attributes.

        A binning divides numbers into intervals, in which they are counted. It is applied in each
        pass.

        Parameters
        ----------
        schema : Schema
            The same attributes, some of them with other bins.

        Returns
        -------
        StreamedSource
            A source of the same class. Private.

        Raises
        ------
        SchemaError
            If the schema declares another unit, weight or ledger than this source.
        """
        self.schema.check_same_rows(schema)
        source = copy.copy(self)
        source.schema = schema
        return source

    def check(self) -> None:
        """Check that all rows fit the schema, so that a fit raises errors before it charges.

        One pass reads the columns in which a cell may raise an error. Later calls do nothing.

        Raises
        ------
        DataError
            If a row cannot be read or does not fit the schema. The message quotes no cell.
        """
        refusing = self._unchecked or any(attribute.refuses for attribute in self.schema)
        if refusing and not self._validated:
            self._run(self._needed(()), None, None)
        self._validated = True

    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        self._run(self._needed(counter.needed(weight)), counter, weight)
        self._validated = True

    def _needed(self, counted: Clique) -> Clique:
        """Return the columns to read. The first pass includes columns that may refuse a cell."""
        names = (*counted, *self._observed)
        read = self.schema.read_for(names, refusing=not self._validated)
        return read or self.schema.input_columns.names[:1]

    @abc.abstractmethod
    def _run(self, names: Clique, counter: Counter | None, weight: RowWeight | None) -> None:
        """Encode the named columns of every row, and count rows."""


class DuckDBSource(StreamedSource):
    """Source of exact counts of private rows that are streamed in bounded memory.

    The need of memory does not depend on the number of rows. Use it for relations of DuckDB,
    queries and large files. DuckDB runs relations and queries, and Arrow reads files. This package
    then encodes and counts the cells as it does for tables in memory. Missing cells, codes and
    values outside the domain therefore have one meaning. The counts are exact and private.

    Parameters
    ----------
    data : DuckDB relation, str, Path or Rows
        A path names a CSV or Parquet file, for example. The columns must be the columns of the
        schema, in any order. Private.
    schema : Schema
        Public facts about the columns: levels, bounds and rules.
    n_jobs : int, optional
        Number of threads that encode and count, at least 1. By default the processors, at most 4.

    Raises
    ------
    DataError
        If the columns are not those of the schema, or the input cannot be opened.
    ParameterError
        If ``n_jobs`` is below 1, or the data are of another type.

    Notes
    -----
    Every call reads the data again, so the data must not change between calls. A table that does
    not fit its schema raises an error in :meth:`check` or in the first call of :meth:`counts`.
    `open_source` calls :meth:`check` before a fit charges. Later calls read only the columns that
    they count.

    Examples
    --------
    >>> from missdp.sources import DuckDBSource
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
        """Open a source that counts the private rows of a SELECT statement in a DuckDB database.

        Parameters
        ----------
        connection : duckdb.DuckDBPyConnection
            The open connection to the database.
        sql : str
            The statement. Its columns must be the columns of the schema, in any order.
        schema : Schema
            Public facts about the columns: levels, bounds and rules.
        n_jobs : int, optional
            Number of threads that encode and count, at least 1. By default the processors, at most
            4.

        Returns
        -------
        DuckDBSource
            Counts the rows of the query. Private.

        Raises
        ------
        DataError
            If the query does not run, or its columns are not those of the schema.
        ParameterError
            If the text is not exactly one SELECT statement, or ``n_jobs`` is below 1.
        """
        return cls(select_relation(connection, sql), schema, n_jobs=n_jobs)

    def code_blocks(self) -> Iterator[Block]:
        """Read all private rows in one pass as codes, numbers of levels and bins, by batches.

        Yields
        ------
        dict of str to ndarray of unsigned int, of shape (n_rows_of_batch,)
            The codes of each attribute. Private.

        Raises
        ------
        DataError
            If a row cannot be read or does not fit the schema. The message quotes no cell.
        """
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
        requested = tuple(dict.fromkeys((*read, *self._observed)))

        def counted(codes: Block, n_rows: int) -> tuple[Block, int]:
            if self._observed:
                marks = ObservedRow(self.schema, self._observed)
                codes, n_rows = rows_where(marks, codes, n_rows)
            if counter is not None:
                count_block(counter, codes, n_rows, weight)
            return codes, n_rows

        coded = CodedRow(self.schema, names, requested, with_values=False)
        yield from coded.blocks(self._stream, counted, n_jobs=self._n_jobs)
