"""Databases are streamed as the kit promises.

A driver's message about a cell is never passed on.
"""

import contextlib
import datetime as dt
import decimal
import functools
import itertools
import json
import sqlite3
import sys

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from missdp import Categorical, Filter, Numeric, PrivBayes, Schema, Table
from missdp.cli.main import main
from missdp.engines import databases, duckdb_rows, sql_rows
from missdp.errors import (
    CheckFailedError,
    DataError,
    MissDPError,
    MissingDependencyError,
    ParameterError,
)
from missdp.sources import DuckDBSource, MemorySource, open_source
from missdp.table import draft_columns
from missdp.table.cells import to_arrow_array, unique_values
from refusing import refuses
from testing.source_checks import check_source

SCHEMA = Schema(
    (
        Categorical(name="Größe %s", levels=("klein", "groß :x"), nullable=True),
        Numeric(name="age", lower=0, upper=100, bins=4, nullable=True),
        Categorical(name="ok", levels=(False, True), nullable=True),
    )
)
N, AT_ONCE = 5_000, 2_000
CLIQUES = [("Größe %s", "age"), ("ok",), ()]


def rows():
    rng = np.random.default_rng(0)
    levels = (("klein", "groß :x", None), (*range(101), *[None] * 25), (False, True, None))
    columns = [[some[k] for k in rng.integers(0, len(some), N)] for some in levels]
    return list(zip(*columns, strict=True))


ROWS = rows()


def arrow():
    columns = (pa.array(list(c)) for c in zip(*ROWS, strict=True))
    return pa.table(list(columns), names=list(SCHEMA.names))


@pytest.fixture(autouse=True)
def _several_batches(monkeypatch):
    monkeypatch.setattr(databases, "_BATCH_ROWS", AT_ONCE)


@functools.cache
def in_memory():
    return MemorySource(Table.read(arrow(), SCHEMA)).counts(CLIQUES, rows="extended")


@pytest.fixture(scope="session")
def filled(server):
    import psycopg

    with psycopg.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA visits; SET search_path TO visits")
        cursor.execute('CREATE TABLE people ("Größe %s" text, age integer, ok boolean)')
        with cursor.copy("COPY people FROM STDIN") as copy:
            for row in ROWS:
                copy.write_row(row)
        cursor.execute("ANALYZE people")
    return server


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory):
    path = tmp_path_factory.mktemp("sqlite") / "people.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE people ("Größe %s" TEXT, age REAL, ok INTEGER)')
        rows = [(a, b, None if c is None else ("true" if c else "false")) for a, b, c in ROWS]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?)", rows)
        connection.commit()
    return path


@pytest.fixture(scope="module")
def duck(tmp_path_factory):
    path = tmp_path_factory.mktemp("duck") / "people.duckdb"
    with duckdb.connect(path) as connection:
        people = arrow()  # noqa: F841
        connection.execute("CREATE SCHEMA visits")
        connection.execute("CREATE TABLE visits.people AS SELECT * FROM people")
    return path


def assert_counted(rows):
    source = DuckDBSource(rows, SCHEMA)
    for _ in range(2):  # it can be read again
        found = source.counts(CLIQUES, rows="extended")
        for clique in CLIQUES:
            np.testing.assert_array_equal(found[clique], in_memory()[clique])
    assert len(Table.read(rows, SCHEMA)) == N


def test_postgresql_is_counted_like_memory(filled):
    rows = sql_rows(filled, table="visits.people")
    assert rows.names == SCHEMA.names
    assert rows.approximate_length() == N  # by the planner, after ANALYZE
    assert_counted(rows)
    query = "SELECT ok, age, \"Größe %s\" FROM visits.people WHERE 'a:b %' IS NOT NULL;"
    assert_counted(sql_rows(filled, query=query))
    assert isinstance(open_source(rows, SCHEMA), MemorySource)
    rows.close()


def test_all_passes_over_postgresql_read_one_snapshot_and_write_nothing(server):
    import psycopg

    schema = SCHEMA.subset(["ok"])
    with psycopg.connect(server, autocommit=True) as other:
        other.execute("CREATE TABLE one AS SELECT true AS ok")
        source = DuckDBSource(sql_rows(server, table="one"), schema)
        before = source.counts([()], rows="extended")[()]
        other.execute("INSERT INTO one VALUES (false)")
        assert source.counts([()], rows="extended")[()] == before == 1
        gone = "CREATE FUNCTION gone() RETURNS boolean LANGUAGE sql AS"
        other.execute(f"{gone} 'DELETE FROM one RETURNING ok'")
        several = "SELECT 1 AS ok) AS a; DELETE FROM one; SELECT * FROM (SELECT 1 AS ok"
        for query in ("SELECT gone() AS ok", several):
            with refuses(MissDPError):
                Table.read(sql_rows(server, query=query), schema)
        assert other.execute("SELECT count(*) FROM one").fetchone() == (2,)


QUOTING = [
    "SELECT CASE WHEN i = 4500 THEN ('SECRET-' || i)::int ELSE i END AS ok "
    "FROM generate_series(1, 5000) i",
    "SELECT secret_column AS ok FROM nowhere",
    "SELEC 'SECRET'",
    "SELECT pg_catalog.current_setting('SECRET') AS ok",
]


@pytest.mark.parametrize("query", QUOTING)
def test_errors_of_the_server_quote_nothing(server, query, capfd):
    schema = Schema((Numeric(name="ok", lower=0, upper=10**5),))
    model = PrivBayes(epsilon=1.0, budget=Filter(1.0))
    with refuses(DataError) as caught:
        model.fit(sql_rows(server, query=query), schema=schema)
    error = caught.value
    assert error.__cause__ is error.__context__ is None
    for text in (str(error), repr(error), "".join(capfd.readouterr())):
        assert "secret" not in text.lower()
    assert not model.budget.events


URLS = [
    "postgresql://curator:SECRET@/nowhere?host=/nowhere-SECRET",
    "postgresql://SECRET:SECRET@127.0.0.1:1/x",
    "no url, SECRET",
    "nodialect://SECRET",
    "sqlite:////SECRET\x00.db",
    "postgresql+SECRET://a/b",
]


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_leads_nowhere_is_not_repeated(url):
    with pytest.raises(MissDPError) as caught:  # the path of a file is shown
        assert not sql_rows(url, table="people").names
    assert caught.value.__cause__ is caught.value.__context__ is None
    if not url.startswith("sqlite"):
        assert "SECRET" not in str(caught.value).replace("'postgresql+SECRET'", "")


def test_sqlite_is_counted_like_memory_and_not_made(sqlite, tmp_path):
    assert_counted(sql_rows(f"sqlite:///{sqlite}", table="people"))
    rows = sql_rows(f"sqlite:///{sqlite}", query="SELECT * FROM people")
    assert_counted(rows)
    assert rows.approximate_length() >= N
    absent = tmp_path / "absent.db"
    with refuses(DataError, "no database file"):
        sql_rows(f"sqlite:///{absent}", table="people")
    assert not absent.exists()
    with refuses(DataError, "cannot be read"):
        assert not sql_rows(f"sqlite:///{sqlite}", table="nobody").names


DAY, LATER = dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 5)


@pytest.mark.parametrize(
    "cells",
    [
        [DAY, LATER],
        [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)],
        [1.5, True],
        [7, 7.5],
        [None, "7", b"7"],
        [decimal.Decimal("0.1"), decimal.Decimal("1E-30"), None],
    ],
)
def test_a_cell_does_not_depend_on_its_neighbours(cells):
    def read(cells):
        found, places = unique_values(to_arrow_array(cells))
        return [repr(found[place]) for place in places]

    for order in (cells, cells[::-1]):
        assert read(order) == [one for cell in order for one in read([cell])]


def test_cells_of_several_types_are_read_one_by_one(server, tmp_path):
    path = tmp_path / "mixed.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (age)")
        cells = [(7,), ("30",), (None,), (99.5,), (b"1",)]
        connection.executemany("INSERT INTO t VALUES (?)", cells)
        connection.commit()
    table = Table.read(sql_rows(f"sqlite:///{path}", table="t"), SCHEMA.subset(["age"]))
    assert table.values("age")[~table.mask("age")].tolist() == [7.0, 30.0, 99.5, 1.0]
    query = (
        "SELECT 12.50::numeric AS age, DATE '2020-02-01' AS day, "
        "'12345678-1234-5678-1234-567812345678'::uuid AS id, "
        "'x'::bytea AS raw, 'NaN'::float8 AS none UNION ALL SELECT NULL, NULL, NULL, NULL, NULL"
    )
    (batch,) = sql_rows(server, query=query).batches(("age", "day", "raw", "none"))
    assert batch.num_rows == 2
    assert batch.column(0).to_pylist() == [decimal.Decimal("12.50"), None]
    assert batch.column(1).to_pylist() == [dt.date(2020, 2, 1), None]
    assert "id" not in draft_columns(sql_rows(server, query=query)).unread


def test_duckdb_files_are_opened_read_only(duck, sqlite, tmp_path):
    rows = duckdb_rows(duck, table="visits.people")
    assert rows.approximate_length() == N
    assert_counted(rows)
    query = duckdb_rows(duck, query="SELECT * FROM visits.people")
    assert query.approximate_length() is None
    assert_counted(query)
    text, absent = tmp_path / "text.duckdb", tmp_path / "absent.duckdb"
    text.write_text("SECRET")
    for error, told, path, given in (
        (ParameterError, "exactly one SELECT", duck, {"query": "DELETE FROM visits.people"}),
        *(
            (DataError, "no database file", path, {"table": "people"})
            for path in (absent, tmp_path)
        ),
        (DataError, None, text, {"table": "people"}),
        (DataError, "no table", duck, {"table": "nobody"}),
    ):
        with refuses(error, told):
            duckdb_rows(path, **given)
    for given in ({}, {"table": "a", "query": "SELECT 1"}):
        for rows, place in ((duckdb_rows, duck), (sql_rows, f"sqlite:///{sqlite}")):
            with refuses(ParameterError, "not both"):
                rows(place, **given)


def run(capsys, *arguments):
    code = main([str(a) for a in arguments])
    found = capsys.readouterr()
    return code, found.out, found.err


def test_commands_read_databases(filled, sqlite, duck, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    SCHEMA.to_toml("s.toml")
    places = {
        filled: ("--table", "visits.people"),
        f"sqlite:///{sqlite}": ("--table", "SELECT * FROM people"),
        str(duck): ("--table", "visits.people"),
    }
    for k, (place, options) in enumerate(places.items()):
        assert run(capsys, "schema", "check", "s.toml", place, *options)[0] == 0
        out = f"o{k}.csv"
        code, text, err = run(
            capsys, "synthesize", place, *options, "--schema", "s.toml", "--epsilon", 1, "-o", out,
            "--method", "privbayes", "--memory", "1GB", "--json",
        )  # fmt: skip
        assert code == 0, err
        assert abs(json.loads(text)["rows"] - N) < 100
    assert run(capsys, "schema", "init", str(duck), "-o", "d.toml", *places[str(duck)])[0] == 0


REFUSED = [
    (2, "is for databases", "x.csv", "--table", "people"),
    (2, "a database requires --table", "x.duckdb"),
    (3, "no database file", "absent.duckdb", "--table", "a"),
    (2, "is for databases", "folder", "--table", "a"),
    (3, "no Parquet files", "folder"),
    (3, "cannot", "postgresql://u:SECRET@/db?host=/nowhere", "--table", "a"),
]


@pytest.mark.parametrize(("code", "match", "arguments"), [(c, m, a) for c, m, *a in REFUSED])
def test_commands_raise_for_other_urls(tmp_path, capsys, monkeypatch, code, match, arguments):
    if any(str(argument).startswith("postgresql") for argument in arguments):
        pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    SCHEMA.to_toml("s.toml")
    found, _, err = run(capsys, "schema", "check", "s.toml", *arguments)
    assert (found, match in err, "SECRET" in err) == (code, True, False)


def test_an_output_does_not_replace_the_database(sqlite, duck, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    linked = tmp_path / "link.csv"
    linked.hardlink_to(duck)
    SCHEMA.to_toml("s.toml")
    code, _, err = run(
        capsys, "synthesize", duck, "--table", "visits.people", "--schema", "s.toml",
        "--epsilon", 1, "-o", linked,
    )  # fmt: skip
    assert code == 5
    assert "same command" in err


# -- the public kit of sources -------------------------------------------------------------------
AGAIN = "A block that is read again is counted once"


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class SQLite:
    """A file for each table. Its columns have no types, so cells are read as they were written."""

    def __init__(self, folder):
        self.folder, self.names = folder, itertools.count()

    def rows(self, tables, limit=""):
        path = self.folder / f"{next(self.names)}.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for part, table in enumerate(tables):
                columns = ", ".join(map(quoted, table.column_names))
                connection.execute(f"CREATE TABLE part_{part} ({columns})")
                marks = ", ".join("?" * table.num_columns)
                cells = zip(*map(self._cells, table.columns), strict=True)
                connection.executemany(f"INSERT INTO part_{part} VALUES ({marks})", cells)
            connection.commit()
        parts = union(f"part_{k}" for k in range(len(tables)))
        return sql_rows(f"sqlite:///{path}", query=parts + limit)

    def _cells(self, column):
        # SQLite knows neither truth values nor NaN, which it would keep as NULL.
        cells = column.to_pylist()
        return [("true" if c else "false") if isinstance(c, bool) else c for c in cells]


class PostgreSQL:
    """A schema for each table, whose columns have the types of Arrow's."""

    TYPES = ((pa.types.is_boolean, "boolean"), (pa.types.is_integer, "bigint"))
    TYPES += ((pa.types.is_floating, "double precision"), (bool, "text"))

    def __init__(self, url, names=itertools.count()):  # noqa: B008
        self.url, self.names = url, names

    def rows(self, tables, limit=""):
        import psycopg

        place = f"kit_{next(self.names)}"
        names = [f"{place}.part_{part}" for part in range(len(tables))]
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {place}")
            for name, table in zip(names, tables, strict=True):
                columns = ", ".join(map(self._column, table.schema))
                cursor.execute(f"CREATE TABLE {name} ({columns})")
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    for row in zip(*(c.to_pylist() for c in table.columns), strict=True):
                        copy.write_row(row)
        return sql_rows(self.url, query=union(names) + limit)

    def _column(self, field):
        kind = next(name for fits, name in self.TYPES if fits(field.type))
        return f"{quoted(field.name)} {kind}"


def test_a_driver_that_is_absent_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    rows = sql_rows("postgresql://ada:SECRET@/d?host=/nowhere", table="t")
    with refuses(MissingDependencyError, r"postgresql\+psycopg is not installed. .*ledger"):
        rows.names  # noqa: B018


def union(names):
    return " UNION ALL ".join(f"SELECT * FROM {name}" for name in names)


@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def test_the_kit_passes(kind, tmp_path, request):
    sqlite = kind == "sqlite"
    database = SQLite(tmp_path) if sqlite else PostgreSQL(request.getfixturevalue("server"))

    def factory(table):
        return DuckDBSource(database.rows([table.to_arrow(missing_as="codes")]), table.schema)

    def in_parts(tables):
        return DuckDBSource(database.rows([t.to_arrow() for t in tables]), tables[0].schema)

    def limited(table):
        return DuckDBSource(
            database.rows([table.to_arrow(missing_as="codes")], limit=" LIMIT 40"), table.schema
        )

    report = check_source(factory, trials=2, in_parts=in_parts, most_rows=2_000)
    assert [found.what for found in report.unchecked] == [AGAIN]
    with pytest.raises(CheckFailedError, match="counts are wrong"):
        check_source(limited, trials=1, most_rows=2_000)
