"""Streamed rows of tables and queries of databases.

Nothing is written to a database. DuckDB files are opened read-only. PostgreSQL is read in one
read-only transaction, so that every pass has the same rows. Error texts of drivers and servers may
quote a cell, a password or a query, so they are replaced.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from missdp.errors import DataError, MissDPError, MissingDependencyError, ParameterError, replacing
from missdp.table.cells import to_arrow_array
from missdp.table.memory import current_memory_limit
from missdp.table.rows import Rows, relation_rows, select_relation

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


_BATCH_ROWS = 20_000  # rows of a batch of Python objects
_CELL_BYTES = 2  # smallest size of a cell in a file of SQLite, in bytes
_ENGINE_SHARE = 0.25  # share of the limit of memory for DuckDB
_MIN_ENGINE = 2 * 10**8  # smallest limit of memory for DuckDB, in bytes


def duckdb_rows(path: str | Path, *, table: str | None = None, query: str | None = None) -> Rows:
    """Open the rows of a table or a query of a DuckDB database file, read-only.

    Pass exactly one of ``table`` and ``query``. The rows are streamed: they are read again for each
    pass.

    Parameters
    ----------
    path : str or Path
        The database file.
    table : str, optional
        Name of a table or view, with its schema if necessary: ``"visits.patients"``.
    query : str, optional
        One SELECT statement instead of a table.

    Returns
    -------
    Rows
        The private rows of the table or query. They are read from the file in each pass.

    Raises
    ------
    DataError
        If the database cannot be opened or does not have the table, or the query does not run.
        Temporary files that cannot be written raise the error, too. The message quotes no cell.
    ParameterError
        If not exactly one of table and query is passed, or the query is not one SELECT statement.

    Examples
    --------
    >>> from missdp.engines import duckdb_rows
    >>> import tempfile
    >>> import duckdb
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with duckdb.connect(f"{folder}/a.duckdb") as made:
    ...         _ = made.execute("CREATE TABLE patients AS SELECT 31 AS age, 'yes' AS smoker")
    ...     duckdb_rows(f"{folder}/a.duckdb", table="patients").names
    ('age', 'smoker')
    """
    import duckdb

    _check_one(table, query)
    place = _file_at(path)
    limit = max(_MIN_ENGINE, int(_ENGINE_SHARE * current_memory_limit()))
    unreadable = DataError(f"{str(path)!r} cannot be opened as a DuckDB database")
    with replacing(duckdb.Error, by=unreadable):
        connection = duckdb.connect(place, read_only=True)
        connection.execute(f"SET memory_limit = '{limit // 10**6}MB'")
    _spill_privately(connection)
    absent = DataError(f"there is no table {table!r} in {str(path)!r}")
    with replacing(duckdb.Error, by=absent):
        named = None if table is None else connection.table(table)
    relation = select_relation(connection, str(query)) if named is None else named
    rows = relation_rows(relation, lambda: _estimate(connection, table))
    return replace(rows, place=place)


def _spill_privately(connection: duckdb.DuckDBPyConnection) -> None:
    """Make the engine spill to encrypted files in a private folder."""
    # By default, spilled rows are public files next to the database, and survive a killed process.
    import duckdb

    folder = tempfile.TemporaryDirectory(prefix="missdp-")  # of mode 0700
    weakref.finalize(connection, folder.cleanup)
    where = folder.name.replace("'", "''")
    refused = DataError("the engine cannot write private temporary files")
    with replacing(duckdb.Error, by=refused):
        connection.execute(f"SET temp_directory = '{where}'")
        connection.execute("SET temp_file_encryption = true")


def _estimate(connection: duckdb.DuckDBPyConnection, table: str | None) -> int | None:
    """Return the number of rows of a table by the catalogue, or None for views and queries."""
    import duckdb

    schema, _, name = (table or "").rpartition(".")
    with contextlib.suppress(duckdb.Error):
        ((size,),) = connection.execute(
            "SELECT max(estimated_size) FROM duckdb_tables() WHERE lower(table_name) = lower(?) "
            "AND (? = '' OR lower(schema_name) = lower(?))",
            [name, schema, schema.rpartition(".")[2]],
        ).fetchall()
        return None if size is None else int(size)
    return None


def sql_rows(url: str, *, table: str | None = None, query: str | None = None) -> Rows:
    """Open the rows of a table or a query of a database that SQLAlchemy supports.

    Pass exactly one of ``table`` and ``query``. Nothing is written to the database. The rows are
    streamed: they are read again for each pass.

    Parameters
    ----------
    url : str
        The database: ``"postgresql://curator@server/hospital"`` or ``"sqlite:///visits.db"``.
    table : str, optional
        Name of a table or view, with its schema if necessary: ``"visits.patients"``.
    query : str, optional
        One SELECT statement instead of a table.

    Returns
    -------
    Rows
        The private rows of the table or query. Their method ``close`` closes the connection.

    Raises
    ------
    DataError
        If an SQLite file does not exist. Reading raises it if the database cannot be connected or
        read, without a quote of the message of the server.
    ParameterError
        If the URL is not valid, or not exactly one of table and query is passed.
    MissingDependencyError
        If the driver of the database is not installed. Reading raises it.

    Notes
    -----
    The connection is opened at the first request. In PostgreSQL all passes read one snapshot. In
    other databases, rows must not change between passes.

    Examples
    --------
    >>> import contextlib
    >>> from missdp.engines import sql_rows
    >>> import sqlite3, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with contextlib.closing(sqlite3.connect(f"{folder}/a.db")) as made:
    ...         _ = made.execute("CREATE TABLE patients AS SELECT 31 AS age, 'yes' AS smoker")
    ...         made.commit()
    ...     rows = sql_rows(f"sqlite:///{folder}/a.db", table="patients")
    ...     names = rows.names
    ...     rows.close()
    >>> names
    ('age', 'smoker')
    """
    database = _Database(url, table, query)
    return Rows(
        database.columns,
        database.batches,
        database.approximate_length,
        is_parsed=True,
        is_queried=True,
        place=database.path,
        close=database.close,
    )


class _Database:
    """Connection to a database, which reads a table or a query."""

    def __init__(self, url: str, table: str | None, query: str | None) -> None:
        _check_one(table, query)
        from sqlalchemy.engine import make_url  # a slow import

        with replacing(Exception, by=ParameterError("the URL is not the URL of a database")):
            place = make_url(url)
        if place.drivername == "postgresql":
            place = place.set(drivername="postgresql+psycopg")
        self._url, self._table, self._query = place, table, query
        self._backend = place.get_backend_name()
        # The file of an SQLite database must exist, since connecting would create it.
        self.path: Final = _file_at(place.database or "") if self._backend == "sqlite" else None

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        query = f"SELECT * FROM {self._from} WHERE 1 = 0"
        with self._reading(), contextlib.closing(self._execute(query)) as no_rows:
            return tuple(map(str, no_rows.keys()))

    def approximate_length(self) -> int | None:
        """Return the estimate of PostgreSQL's planner, or an upper bound for a file of SQLite."""
        if self.path is not None:
            return self.path.stat().st_size // (_CELL_BYTES * len(self.columns()))
        if self._backend != "postgresql":
            return None
        with self._reading():
            plan = self._execute(f"EXPLAIN (FORMAT JSON) SELECT * FROM {self._from}").scalar()
            plan = json.loads(plan) if isinstance(plan, str) else plan
            return int(plan[0]["Plan"]["Plan Rows"])

    def batches(self, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """Yield the named columns, a batch of rows at a time, with the cells of the driver."""
        import pyarrow as pa

        with self._reading():
            columns = ", ".join(map(self._quoted, names))
            cursor = self._execute(f"SELECT {columns} FROM {self._from}", streamed=True)
        with contextlib.closing(cursor):
            while True:
                with self._reading():
                    rows = cursor.fetchmany(_BATCH_ROWS)
                    cells = [to_arrow_array(column) for column in zip(*rows, strict=True)]
                if not rows:
                    return
                yield pa.RecordBatch.from_arrays(cells, list(names))

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._connection.engine.dispose()

    @property
    def _from(self) -> str:
        """The table or the query in a FROM clause."""
        if self._table is not None:
            return ".".join(map(self._quoted, self._table.split(".")))
        return f"({str(self._query).strip().removesuffix(';')}\n) AS missdp_rows"

    def _quoted(self, name: str) -> str:
        """Return a name in the quotes of the database."""
        # quote_identifier would double per cent signs, for statements with parameters.
        quoting = self._connection.dialect.identifier_preparer
        end = str(quoting.final_quote)
        return f"{quoting.initial_quote}{name.replace(end, 2 * end)}{end}"

    @cached_property
    def _connection(self) -> Any:
        """The connection, which is opened at its first use."""
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        options: dict[str, Any] = {}
        if self._backend == "postgresql":
            options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}

        def refused(error: BaseException) -> MissDPError:
            if isinstance(error, ImportError):
                return MissingDependencyError(
                    f"the driver for {self._url.drivername} is not installed. For PostgreSQL "
                    "run pip install 'missdp[ledger]'."
                )
            return DataError(f"cannot connect to the {self._backend} database")

        with replacing(Exception, by=refused):
            engine = create_engine(self._url, hide_parameters=True, poolclass=NullPool)
            connection = engine.connect().execution_options(**options)
        weakref.finalize(self, _without_errors, connection.close)
        return connection

    def _execute(self, statement: str, *, streamed: bool = False) -> Any:
        """Execute a statement without parameters, and return its cursor."""
        return self._connection.exec_driver_sql(
            statement, execution_options={"no_parameters": True, "stream_results": streamed}
        )

    def _reading(self) -> replacing:
        """Replace errors of reading, since they may quote cells."""

        def refused(error: BaseException) -> DataError | MissingDependencyError:
            if isinstance(error, (DataError, MissingDependencyError)):
                return error
            what = "the query" if self._table is None else f"table {self._table!r}"
            return DataError(f"{what} of the {self._backend} database cannot be read")

        return replacing(Exception, by=refused)


def _check_one(table: str | None, query: str | None) -> None:
    """Raise ParameterError unless exactly one of table and query is passed."""
    if (table is None) == (query is None):
        raise ParameterError("pass either table or query, not both")


def _file_at(path: str | Path) -> Path:
    """Return the path of a database file, which must exist."""
    absent = DataError(f"no database file at {str(path)!r}")
    with replacing(OSError, ValueError, by=absent):
        if not Path(path).is_file():
            raise absent
    return Path(path)


def _without_errors(function: Any) -> None:
    """Call a function, and ignore its errors."""
    with contextlib.suppress(Exception):
        function()
