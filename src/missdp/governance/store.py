"""The database of a ledger: tables in SQLite or PostgreSQL that cannot be rewritten.

SQLAlchemy writes the statements of both. This module adds the triggers, the first statement of a
transaction, and the meaning of errors. A ledger imports it when it is opened, since the module
imports SQLAlchemy.
"""

from __future__ import annotations

import os
import re
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    Connection,
    Engine,
    Executable,
    Index,
    Integer,
    MetaData,
    Result,
    Table,
    Text,
    UniqueConstraint,
    bindparam,
    create_engine,
    event,
    func,
    insert,
    inspect,
    select,
    update,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool, QueuePool

from missdp.errors import LedgerError, MissDPError, ParameterError, import_optional, replacing

VERSION = 1
"""The version of the tables."""
Columns: TypeAlias = dict[str, Any]
"""A row of a table, by column."""

_TABLES = MetaData()


def _columns(*names: str) -> Iterator[Column[Any]]:
    """Yield columns of text without nulls."""
    yield from (Column(name, Text, nullable=False) for name in names)


_VERSIONS = Table("ledger", _TABLES, Column("version", Integer, nullable=False))
_LINES = Table(
    "lines",
    _TABLES,
    Column("root", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    *_columns("request", "state"),
    Column("schema_hash", Text),
    *_columns("time", "body", "hash"),
    UniqueConstraint("request", "state"),
    Index("lines_schema", "root", "schema_hash"),
)
# The floors are the sums in units of 1e-30, as text of one length, which databases sort correctly.
_BUDGETS = Table(
    "budgets",
    _TABLES,
    Column("name", Text, primary_key=True),
    *_columns("root", "epochs_of", "facts", "spent", "failed", "spent_floor", "failed_floor"),
    Column("last", BigInteger, nullable=False),
    *_columns("head"),
)
_SUMS = ("spent", "failed", "spent_floor", "failed_floor", "last", "head")

# Statements are made once. SQLAlchemy needs more time for a statement than a database.
_BUDGET = select(_BUDGETS).where(_BUDGETS.c.name == bindparam("name"))
_LOCKED_BUDGET = _BUDGET.with_for_update()
_ALL_BUDGETS = select(_BUDGETS).order_by(_BUDGETS.c.name)
_NEW_SUMS = (
    update(_BUDGETS)
    .where(_BUDGETS.c.name == bindparam("budget"))
    .values({name: bindparam(name) for name in _SUMS})
)
_ALL_LINES = select(_LINES).order_by(_LINES.c.root, _LINES.c.number)
_CHAIN = _ALL_LINES.where(_LINES.c.root == bindparam("root"))
_LINE = select(_LINES.c.time, _LINES.c.hash).where(
    _LINES.c.root == bindparam("root"), _LINES.c.number == bindparam("number")
)
_REQUEST = (
    select(_LINES.c.body).where(_LINES.c.request == bindparam("request")).order_by(_LINES.c.number)
)
_SCHEMAS = (
    select(_LINES.c.schema_hash)
    .where(_LINES.c.root == bindparam("root"), _LINES.c.schema_hash.is_not(None))
    .limit(1)
)
_SCHEMA = _SCHEMAS.where(_LINES.c.schema_hash == bindparam("schema"))
_NEW_LINE, _NEW_BUDGET = insert(_LINES), insert(_BUDGETS)

# An update of a budget is refused for other facts, smaller sums, or sums that no line states.
_REWRITES = (
    "NEW.name <> OLD.name OR NEW.root <> OLD.root OR NEW.epochs_of <> OLD.epochs_of"
    " OR NEW.facts <> OLD.facts OR NEW.last <= OLD.last OR NEW.spent_floor < OLD.spent_floor"
    " OR NEW.failed_floor < OLD.failed_floor OR NOT EXISTS (SELECT 1 FROM lines WHERE"
    " root = NEW.root AND number = NEW.last AND hash = NEW.head)"
)


def _refuse(table: Table, change: str, condition: str = "") -> None:
    """Add triggers to a new table that prevent a kind of change, under an optional condition."""
    name = f"{table.name}_{change.lower()}"
    message = f"the {table.name} of a ledger are not rewritten"
    when = f" WHEN ({condition})" if condition else ""
    row, scope = ("NULL", "STATEMENT") if change == "TRUNCATE" else ("NEW", "ROW")
    server = (
        f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF {condition or 'true'} THEN RAISE EXCEPTION '{message}'; END IF; RETURN {row}; END $$",
        f"CREATE TRIGGER {name} BEFORE {change} ON {table.name} FOR EACH {scope}"
        f" EXECUTE FUNCTION {name}()",
    )
    sqlite = (
        f"CREATE TRIGGER {name} BEFORE {change} ON {table.name}{when}"
        f" BEGIN SELECT RAISE(ABORT, '{message}'); END",
    )
    for dialect, statements in (("postgresql", server), ("sqlite", sqlite)):
        if (dialect, change) != ("sqlite", "TRUNCATE"):
            for statement in statements:
                trigger = DDL(statement).execute_if(dialect=dialect)  # type: ignore[no-untyped-call]
                event.listen(table, "after_create", trigger)


for _table, _change, _condition in (
    *((_LINES, change, "") for change in ("UPDATE", "DELETE", "TRUNCATE")),
    *((_BUDGETS, change, "") for change in ("DELETE", "TRUNCATE")),
    (_BUDGETS, "UPDATE", _REWRITES),
):
    _refuse(_table, _change, _condition)

# First statement of a transaction that writes, and of a transaction that reads.
_BEGINS = {
    "sqlite": ("BEGIN IMMEDIATE", "BEGIN"),
    "postgresql": (
        "SET LOCAL synchronous_commit = on",
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY",
    ),
}
_WRONG_URL = (
    "a ledger is named by a URL such as sqlite:///budget.db or postgresql://role@server/database"
)
_UNWRITABLE = "nothing was charged or recorded"
_LOCKED = f"it is locked by another program and {_UNWRITABLE}. Try again"
_REPEATED = f"the request would rewrite it or repeat a line, and {_UNWRITABLE}"
# Keys are the beginning of an error name of SQLite, or of an error code of PostgreSQL.
_MEANINGS = {
    "SQLITE_BUSY": _LOCKED,
    "SQLITE_LOCKED": _LOCKED,
    "SQLITE_FULL": f"the disk is full, and {_UNWRITABLE}",
    "SQLITE_READONLY": f"it is read-only, and {_UNWRITABLE}",
    "SQLITE_IOERR": "the disk cannot read or write it",
    "SQLITE_CANTOPEN": "the file cannot be opened. Check its permissions",
    "SQLITE_PERM": "there is no permission to open the file",
    "SQLITE_CONSTRAINT": _REPEATED,
    "SQLITE": "it is not a ledger of missdp, or it is damaged",
    "55P03": _LOCKED,
    "53100": f"the disk of the server is full, and {_UNWRITABLE}",
    "25006": f"it is read-only, and {_UNWRITABLE}",
    "42P01": "there is no ledger in this database. Create it with `missdp ledger create`",
    "42501": f"this role has no permission, and {_UNWRITABLE}",
    "23": _REPEATED,
    "P0001": f"the request would rewrite it, and {_UNWRITABLE}",
    "": "the server refuses, or cannot be reached. Check address, role and password. Statements "
    "before the connection broke may be recorded, and then count as charged",
}


class Transaction:
    """Statements on the tables of a ledger that take effect together, or not at all."""

    def __init__(self, connection: Connection, *, writes: bool) -> None:
        self._connection, self._writes = connection, writes

    def budget(self, name: str) -> Columns | None:
        """Return a budget. A transaction that writes locks the budget of a table until it ends.

        Parts are not locked, since a charge of a part locks the budget of its table first.
        """
        locks = self._writes and "/" not in name
        row = self._run(_LOCKED_BUDGET if locks else _BUDGET, name=name).first()
        return None if row is None else row._asdict()

    def budgets(self) -> list[Columns]:
        """Return all budgets by name."""
        return [row._asdict() for row in self._run(_ALL_BUDGETS)]

    def lines(self, root: str | None = None) -> Iterator[Columns]:
        """Yield the lines of a table's chain, or of all chains, in order."""
        chosen = self._run(_ALL_LINES) if root is None else self._run(_CHAIN, root=root)
        for row in chosen.yield_per(10_000):
            yield row._asdict()

    def time_and_hash(self, root: str, number: int) -> tuple[str, str] | None:
        """Return the time and the hash of a line of a table's chain."""
        line = self._run(_LINE, root=root, number=number).first()
        return None if line is None else (line.time, line.hash)

    def bodies_of(self, request: str) -> list[str]:
        """Return the lines of a request, in order."""
        return [*self._run(_REQUEST, request=request).scalars()]

    def was_read_by_others(self, root: str, schema: str) -> bool:
        """Whether a table was read, but never by the schema with this hash."""
        line = self._run(_SCHEMA, root=root, schema=schema).first()
        return line is None and self._run(_SCHEMAS, root=root).first() is not None

    def add_line(self, columns: Columns) -> None:
        """Add a line."""
        self._run(_NEW_LINE, **columns)

    def put_budget(self, columns: Columns, *, fresh: bool) -> None:
        """Add a budget, or update the sums of a budget."""
        if fresh:
            self._run(_NEW_BUDGET, **columns)
        else:
            self._run(_NEW_SUMS, budget=columns["name"], **{name: columns[name] for name in _SUMS})

    def _run(self, statement: Executable, **values: Any) -> Result[Any]:
        return self._connection.execute(statement, values)


class Store:
    """A ledger's database, by its URL. Its errors show neither address nor password.

    Each transaction has a separate connection, so a charge never joins another transaction. A file
    of SQLite is open in transactions only. Its locks belong to the process. A process that forks,
    or copies the file while it is open, loses them. Another process could then delete the
    write-ahead log of later charges. Connections to PostgreSQL stay open. A fork neither uses nor
    closes the connections of its parent.

    Parameters
    ----------
    url : str
        ``sqlite:///budget.db`` (``sqlite:////`` for an absolute path) or
        ``postgresql://role@server/database``.
    wait : float
        Seconds to wait for a lock.
    """

    def __init__(self, url: str, *, wait: float = 60.0) -> None:
        place = _read_url(url)
        self._backend, self._path = place.get_backend_name(), Path(place.database or "")
        if self._backend == "sqlite" and place.database and "?" not in url:
            self.name = f"the ledger {place.database!r}"
            self._engine_options: dict[str, Any] = {
                "creator": partial(_opened, self._path, wait),
                "poolclass": NullPool,
            }
        elif self._backend == "postgresql":
            import_optional("psycopg", purpose="ledgers in PostgreSQL")
            place = place.set(drivername="postgresql+psycopg")
            self.name = "the ledger in PostgreSQL"
            options = f"{place.query.get('options', '')} -c lock_timeout={max(1, int(1000 * wait))}"
            waits = {"connect_timeout": max(2, int(wait)), "options": options}
            self._engine_options = {"connect_args": waits, "isolation_level": "READ COMMITTED"}
            self._engine_options |= {"poolclass": QueuePool, "pool_size": 0}
        else:
            raise ParameterError(_WRONG_URL)
        self._url, self._wait = place, wait
        self._engines: dict[int, Engine] = {}

    @contextmanager
    def transaction(self, *, create: bool = False, reads: bool = False) -> Iterator[Transaction]:
        """Yield a transaction whose statements take effect together when the block ends.

        A transaction that only ``reads`` sees the state of the ledger at its start, and blocks no
        writer. With ``create``, the tables of a new ledger are made.
        """
        if self._lacks_file(empty=create):
            self._make_file(create=create)
        unsure = LedgerError(
            f"{self.name} cannot be used: its commit failed, or was not confirmed. The line may "
            "be recorded, and a charge then counts as charged. See `missdp ledger show`. A new "
            "release gets a new id"
        )
        with replacing(SQLAlchemyError, by=self._refusal), self._engine.connect() as connection:
            connection.exec_driver_sql(_BEGINS[self._backend][reads])
            if create:
                self._make_tables(connection)
            self._check_version(connection)
            yield Transaction(connection, writes=not reads)
            if not reads:
                with replacing(SQLAlchemyError, by=unsure):
                    connection.commit()

    def is_absent(self) -> bool:
        """Whether no ledger exists at this address. Nothing is created."""
        if self._lacks_file():
            return True
        with replacing(SQLAlchemyError, by=self._refusal):
            return not inspect(self._engine).has_table(_VERSIONS.name)
        raise AssertionError

    def grant(self, role: str) -> None:
        """Let a role of PostgreSQL add lines and update sums.

        The role cannot change lines. If it lowers a sum, every check of the ledger fails.
        """
        if not re.fullmatch(r"\w{1,63}", role):
            raise ParameterError("a role must be letters, digits and _")
        if self._backend == "sqlite":
            raise ParameterError(
                f"SQLite has no role {role!r}: every login that may write the file has all rights"
            )
        with replacing(SQLAlchemyError, by=self._refusal), self._engine.begin() as connection:
            for right, tables in (
                ("SELECT", "ledger, lines, budgets"),
                ("INSERT", "lines"),
                (f"UPDATE ({', '.join(_SUMS)})", "budgets"),
            ):
                connection.exec_driver_sql(f'GRANT {right} ON {tables} TO "{role}"')

    def close(self) -> None:
        """Close the connections of this process. The next transaction opens another."""
        if (engine := self._engines.pop(os.getpid(), None)) is not None:
            engine.dispose()

    @property
    def _engine(self) -> Engine:
        """The connections of this process."""
        process = os.getpid()
        if process not in self._engines:
            engine = create_engine(self._url, **self._engine_options)
            weakref.finalize(self, _dispose, engine, process)
            self._engines[process] = engine
        return self._engines[process]

    def _lacks_file(self, *, empty: bool = False) -> bool:
        """Whether a file of SQLite is absent, or ``empty``, as a killed run may leave it."""
        if self._backend != "sqlite":
            return False
        return not self._path.exists() or (empty and not self._path.stat().st_size)

    def _make_file(self, *, create: bool) -> None:
        if not create:
            raise LedgerError(
                f"no ledger at {str(self._path)!r}. Create it with `missdp ledger create`."
            )
        problem = "the folder does not exist. Create the folder first"
        if self._path.absolute().parent.is_dir():
            problem = "the folder is not writable"
        refused = LedgerError(f"cannot create {str(self._path)!r}: {problem}.")
        with (
            replacing(sqlite3.Error, by=refused),
            closing(sqlite3.connect(self._path, timeout=self._wait)) as connection,
        ):
            connection.execute("PRAGMA journal_mode=WAL")

    def _make_tables(self, connection: Connection) -> None:
        """Make the tables of a ledger, unless they exist."""
        if self._backend == "postgresql":
            # One program at a time makes tables, or looks up the existing budgets.
            connection.execute(select(func.pg_advisory_xact_lock(741)))
        if not inspect(connection).has_table(_VERSIONS.name):
            _TABLES.create_all(connection, checkfirst=False)
            connection.execute(insert(_VERSIONS).values(version=VERSION))

    def _check_version(self, connection: Connection) -> None:
        """Check the version of the tables, once for each connection."""
        if connection.info.get("version") == VERSION:
            return
        if [*connection.execute(select(_VERSIONS.c.version)).scalars()] != [VERSION]:
            raise LedgerError(
                f"{self.name} was made by a newer version of missdp. Use that version."
            )
        connection.info["version"] = VERSION

    def _refusal(self, error: BaseException) -> MissDPError:
        """Return the meaning of an error of the database."""
        original = getattr(error, "orig", error)
        names = (getattr(original, name, None) for name in ("sqlite_errorname", "sqlstate"))
        code = next(filter(None, names), self._backend.upper() if self._backend == "sqlite" else "")
        meaning = next(text for start, text in _MEANINGS.items() if code.startswith(start))
        return LedgerError(f"{self.name} cannot be used: {meaning}")


def _opened(path: Path, wait: float) -> sqlite3.Connection:
    """Open the file, which must exist. Each statement commits unless a transaction began.

    This is a function, since an engine with a reference to its store would keep both open until the
    process ends.
    """
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=wait,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def _read_url(url: str) -> URL:
    with replacing(ArgumentError, ValueError, by=ParameterError(_WRONG_URL)):
        return make_url(url)
    raise AssertionError


def ledger_address(url: str) -> tuple[Any, ...]:
    """Return the address of a ledger, without role and password, from its URL."""
    parts = _read_url(url)
    kind = parts.get_backend_name()
    if kind == "sqlite":
        return kind, os.path.realpath(parts.database or "")
    return kind, parts.host, parts.port, parts.database, tuple(sorted(parts.query.items()))


def _dispose(engine: Engine, process: int) -> None:
    """Close connections in the process that opened them."""
    if os.getpid() == process:
        engine.dispose()
