"""Where a ledger stands: two tables in SQLite or PostgreSQL, which refuse to be rewritten.

The statements are the same for both; a dialect adds how to connect, how to lock and what its errors
mean. A connection belongs to one thread of one process and is opened when it is first needed.
"""

from __future__ import annotations

import os
import re
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol

from missdp.errors import (
    LedgerError,
    MissDPError,
    ParameterError,
    import_optional,
    replacing,
)

VERSION = 1
"""The version of the tables."""

_TABLES = (
    "CREATE TABLE ledger (version INTEGER NOT NULL)",
    "CREATE TABLE lines (root TEXT NOT NULL, number BIGINT NOT NULL, request TEXT NOT NULL,"
    " state TEXT NOT NULL, schema_hash TEXT, time TEXT NOT NULL, body TEXT NOT NULL,"
    " hash TEXT NOT NULL, PRIMARY KEY (root, number), UNIQUE (request, state))",
    "CREATE INDEX lines_schema ON lines (root, schema_hash) WHERE schema_hash IS NOT NULL",
    # ``floors`` are the sums in whole units of 1e-30, as text that the database can compare.
    "CREATE TABLE budgets (name TEXT PRIMARY KEY, root TEXT NOT NULL, epochs_of TEXT NOT NULL,"
    " facts TEXT NOT NULL, spent TEXT NOT NULL, failed TEXT NOT NULL, spent_floor TEXT NOT NULL,"
    " failed_floor TEXT NOT NULL, last BIGINT NOT NULL, head TEXT NOT NULL)",
    f"INSERT INTO ledger VALUES ({VERSION})",
)
# When an update of a budget row is refused: other facts, sums that fall, or no line that says so.
_REWRITES = (
    "NEW.name <> OLD.name OR NEW.root <> OLD.root OR NEW.epochs_of <> OLD.epochs_of"
    " OR NEW.facts <> OLD.facts OR NEW.last <= OLD.last OR NEW.spent_floor < OLD.spent_floor"
    " OR NEW.failed_floor < OLD.failed_floor OR NOT EXISTS (SELECT 1 FROM lines WHERE"
    " root = NEW.root AND number = NEW.last AND hash = NEW.head)"
)
_REFUSED = (("lines", "UPDATE", ""), ("lines", "DELETE", ""), ("budgets", "DELETE", ""))
_TRIGGERS = (*_REFUSED, ("budgets", "UPDATE", _REWRITES))
_UNWRITABLE = "nothing was charged or recorded"


class Transaction:
    """Statements that take effect together."""

    def __init__(self, connection: Any, dialect: _Dialect, *, reads: bool) -> None:
        self._connection, self._dialect = connection, dialect
        self.lock = "" if reads else dialect.lock

    def __call__(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run a statement with ``?`` for each value, and return its rows."""
        found = self._connection.execute(statement.replace("?", self._dialect.mark), values)
        return found.fetchall() if found.description else []

    def stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement one by one."""
        yield from self._connection.execute(statement)


class _Dialect(Protocol):
    """What differs between databases."""

    mark: ClassVar[str]
    lock: ClassVar[str]
    begin: ClassVar[str]
    look: ClassVar[str]
    there: ClassVar[str]

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What the database raises."""

    def connect(self, *, create: bool) -> Any:
        """Return a connection in which each statement commits unless a transaction was begun."""

    def triggers(self) -> Sequence[str]:
        """Return the statements that make the tables refuse to be rewritten."""

    def is_absent(self, connect: Callable[[], Any]) -> bool:
        """Whether there is no ledger yet."""

    def grants(self, role: str) -> Sequence[str]:
        """Return the statements that let a role charge, and nothing else."""

    def says(self, error: BaseException) -> str:
        """Return what an error means, in public words without address or password."""


@dataclass(frozen=True)
class _SQLite:
    path: Path
    wait: float
    mark: ClassVar[str] = "?"
    lock: ClassVar[str] = ""
    begin: ClassVar[str] = "BEGIN IMMEDIATE"
    look: ClassVar[str] = "BEGIN"
    there: ClassVar[str] = "SELECT 1 FROM sqlite_master WHERE name = 'ledger'"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def connect(self, *, create: bool) -> sqlite3.Connection:
        place = f"{self.path.absolute().as_uri()}?mode={'rwc' if create else 'rw'}"
        # A connection is used by one thread; another one may only drop it.
        made = sqlite3.connect(
            place, uri=True, timeout=self.wait, isolation_level=None, check_same_thread=False
        )
        if create:
            made.execute("PRAGMA journal_mode=WAL")
        made.execute("PRAGMA synchronous=FULL")
        return made

    def is_absent(self, connect: Callable[[], Any]) -> bool:
        del connect  # which needs a file
        return not self.path.exists() or not self.path.stat().st_size

    def triggers(self) -> Sequence[str]:
        return [
            f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table}"
            + (f" WHEN {refused}" if refused else "")
            + f" BEGIN SELECT RAISE(ABORT, 'the {table} of a ledger are not rewritten'); END"
            for table, event, refused in _TRIGGERS
        ]

    def grants(self, role: str) -> Sequence[str]:
        raise ParameterError(f"SQLite has no role {role!r}: whoever may write the file may do all")

    def says(self, error: BaseException) -> str:
        name = getattr(error, "sqlite_errorname", "") or ""
        for prefix, meaning in _SQLITE_SAYS.items():
            if name.startswith(prefix):
                return meaning
        return "it is no ledger of missdp, or a damaged one"


_SQLITE_SAYS = {
    "SQLITE_BUSY": f"it is locked by another program; {_UNWRITABLE}, so try again",
    "SQLITE_LOCKED": f"it is locked by another program; {_UNWRITABLE}, so try again",
    "SQLITE_FULL": f"the disk is full; {_UNWRITABLE}",
    "SQLITE_READONLY": f"it is read-only; {_UNWRITABLE}",
    "SQLITE_IOERR": "the disk refuses to read or write it",
    "SQLITE_CANTOPEN": "the file cannot be opened. Check its permissions",
    "SQLITE_PERM": "there is no permission to open the file",
    "SQLITE_CONSTRAINT": f"it refuses what would rewrite it or repeat a request; {_UNWRITABLE}",
}


class _Postgres:
    mark: ClassVar[str] = "%s"
    lock: ClassVar[str] = " FOR UPDATE"
    # Whatever the server's own default is: each statement sees what others committed before it.
    begin: ClassVar[str] = "BEGIN ISOLATION LEVEL READ COMMITTED"
    look: ClassVar[str] = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
    # One at a time makes the tables, or creates a budget: which there are already is looked up.
    there: ClassVar[str] = (
        "SELECT 1 FROM pg_advisory_xact_lock(741), pg_tables WHERE tablename = 'ledger'"
    )

    def __init__(self, url: str, wait: float) -> None:
        psycopg = import_optional("psycopg", purpose="ledgers in PostgreSQL")
        # No warning of one that is dropped: libpq's destructor closes it, and not in a fork.
        quiet = {"__del__": lambda _: None}
        self._connection: Any = type("Connection", (psycopg.Connection,), quiet)
        self._wait = wait
        self._url = re.sub(r"^postgresql\+\w+:", "postgresql:", url)
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)

    def connect(self, *, create: bool) -> Any:
        made = self._connection.connect(
            self._url, autocommit=True, connect_timeout=max(2, int(self._wait))
        )
        made.execute(f"SET lock_timeout = {int(1000 * self._wait)}")
        made.execute("SET synchronous_commit = on")
        del create  # the server made the database
        return made

    def is_absent(self, connect: Callable[[], Any]) -> bool:
        connection = connect()
        try:
            return not connection.execute(self.there).fetchall()
        finally:
            connection.close()

    def triggers(self) -> Sequence[str]:
        made = []
        for table, event, refused in _TRIGGERS:
            name, row = f"{table}_{event.lower()}", "OLD" if event == "DELETE" else "NEW"
            made += [
                f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                f" IF {refused or 'true'} THEN"
                f" RAISE EXCEPTION 'the {table} of a ledger are not rewritten'; END IF;"
                f" RETURN {row}; END $$",
                f"CREATE TRIGGER {name} BEFORE {event} ON {table}"
                f" FOR EACH ROW EXECUTE FUNCTION {name}()",
            ]
        return [
            *made,
            "CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'a ledger is not emptied'; END $$",
            "CREATE TRIGGER lines_truncate BEFORE TRUNCATE ON lines EXECUTE FUNCTION kept()",
            "CREATE TRIGGER budgets_truncate BEFORE TRUNCATE ON budgets EXECUTE FUNCTION kept()",
        ]

    def grants(self, role: str) -> Sequence[str]:
        sums = "spent, failed, spent_floor, failed_floor, last, head"
        return [
            f'GRANT SELECT ON ledger, lines, budgets TO "{role}"',
            f'GRANT INSERT ON lines TO "{role}"',
            f'GRANT UPDATE ({sums}) ON budgets TO "{role}"',
        ]

    def says(self, error: BaseException) -> str:
        state = getattr(error, "sqlstate", None) or ""
        for prefix, meaning in _POSTGRES_SAYS.items():
            if state.startswith(prefix):
                return meaning
        return (
            "the server refuses, or cannot be reached: check address, role and password. What was "
            "sent before the connection broke may be recorded, and then counts as charged"
        )


_POSTGRES_SAYS = {
    "55P03": f"it is locked by another program; {_UNWRITABLE}, so try again",
    "53100": f"the disk of the server is full; {_UNWRITABLE}",
    "25006": f"it is read-only; {_UNWRITABLE}",
    "42P01": "there is no ledger in this database. Create it with `missdp ledger create`",
    "42501": f"this role may not do that; {_UNWRITABLE}",
    "23": f"it refuses what would rewrite it or repeat a request; {_UNWRITABLE}",
    "P0001": f"it refuses what would rewrite it; {_UNWRITABLE}",
}


class _Opened:
    """A connection that is closed when nobody holds it any more, but not by a fork."""

    def __init__(self, connection: Any) -> None:
        self.connection, self.process = connection, os.getpid()

    # Bound here: where Python ends with one that is open, modules are taken down before it.
    _here = staticmethod(os.getpid)

    def close(self) -> None:
        """Close it, in the process that opened it."""
        if self.process == self._here():
            self.connection.close()

    __del__ = close


class Store:
    """A ledger's database, by its URL; what goes wrong is said without address or password.

    Parameters
    ----------
    url : str
        ``sqlite:///budget.db`` (``sqlite:////`` for an absolute path) or
        ``postgresql://role@server/database``.
    wait : float
        Seconds to wait for a lock.
    """

    def __init__(self, url: str, *, wait: float = 60.0) -> None:
        kind, _, rest = url.partition("://")
        self._dialect: _Dialect
        if kind == "sqlite" and rest.startswith("/") and len(rest) > 1:
            self._dialect = _SQLite(Path(rest[1:]), wait)
            self.name = f"the ledger {rest[1:]!r}"
        elif kind.split("+")[0] == "postgresql":
            self._dialect = _Postgres(url, wait)
            self.name = "the ledger in PostgreSQL"
        else:
            raise ParameterError(
                "a ledger is named by a URL such as sqlite:///budget.db or "
                "postgresql://role@server/database"
            )
        self._here = threading.local()
        self._left: list[Any] = []  # of parent processes: closing those would disturb them

    @contextmanager
    def transaction(self, *, create: bool = False, reads: bool = False) -> Iterator[Transaction]:
        """Yield what runs statements, all of which take effect when the block ends, or none.

        One that only ``reads`` sees the ledger as it was at its start, and keeps nobody waiting.
        """
        with replacing(*self._dialect.errors, by=partial(self._refusal, create=create)):
            connection = self._connection(create=create)
            done = False
            try:
                connection.execute(self._dialect.look if reads else self._dialect.begin)
                if create:
                    connection.execute(self._dialect.there)  # which waits for others who create
                yield Transaction(connection, self._dialect, reads=reads)
                connection.execute("COMMIT")
                done = True
            except MissDPError:  # refused by us: the connection is as good as before
                connection.execute("ROLLBACK")
                done = True
                raise
            finally:
                if not done:
                    self.close()  # which rolls back

    def is_absent(self) -> bool:
        """Whether there is no ledger yet in this place; nothing is made."""
        with replacing(*self._dialect.errors, by=partial(self._refusal)):
            return self._dialect.is_absent(partial(self._dialect.connect, create=False))
        raise AssertionError

    def grant(self, role: str) -> None:
        """Let a role of the database charge, and neither rewrite lines nor lower sums."""
        if not re.fullmatch(r"\w{1,63}", role):
            raise ParameterError("a role is letters, digits and _")
        with self.transaction() as run:
            for statement in self._dialect.grants(role):
                run(statement)

    def close(self) -> None:
        """Close the connection of this thread, if any; the next transaction opens another."""
        opened: _Opened | None = self._here.__dict__.pop("opened", None)
        if opened is not None:
            opened.close()

    def _connection(self, *, create: bool) -> Any:
        opened: _Opened | None = getattr(self._here, "opened", None)
        if opened is not None and opened.process != os.getpid():
            self._left.append(opened)
            opened = None
        if opened is None or create:
            self.close()
            opened = _Opened(self._dialect.connect(create=create))
            self._here.opened = opened
            if create:
                self._make(opened.connection)
            self._check_version(opened.connection)
        return opened.connection

    def _make(self, connection: Any) -> None:
        connection.execute(self._dialect.begin)
        if not connection.execute(self._dialect.there).fetchall():
            for statement in (*_TABLES, *self._dialect.triggers()):
                connection.execute(statement)
        connection.execute("COMMIT")

    def _check_version(self, connection: Any) -> None:
        found = connection.execute("SELECT version FROM ledger").fetchall()
        if [row[0] for row in found] != [VERSION]:
            self.close()
            raise LedgerError(
                f"{self.name} was made by a newer version of missdp; use that version or export "
                "the ledger with it"
            )

    def _refusal(self, error: BaseException, *, create: bool) -> MissDPError:
        path = getattr(self._dialect, "path", None)
        if isinstance(path, Path) and not path.exists():
            if not create:
                return LedgerError(
                    f"no ledger at {str(path)!r}. Create it with `missdp ledger create`."
                )
            problem = (
                "the folder is not writable"
                if path.absolute().parent.is_dir()
                else "the folder does not exist. Create the folder first"
            )
            return LedgerError(f"cannot create {str(path)!r}: {problem}.")
        return LedgerError(f"{self.name} cannot be used: {self._dialect.says(error)}")
