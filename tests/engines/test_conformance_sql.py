"""Tables of databases pass the public kit of sources, streamed out of SQLite and PostgreSQL."""

import contextlib
import itertools
import sqlite3

import pyarrow as pa
import pytest

from missdp.engines import SQLRows
from missdp.errors import CheckFailedError
from missdp.sources import DuckDBSource
from missdp.testing import check_source

pytest.importorskip("sqlalchemy")

AGAIN = "What has to be read again is counted once"


def quoted(name):
    return '"' + name.replace('"', '""') + '"'


class SQLite:
    """A file for each table; its columns have no types, so that cells are what was put in."""

    def __init__(self, folder):
        self.folder, self.names = folder, itertools.count()

    def rows(self, tables):
        path = self.folder / f"{next(self.names)}.db"
        with contextlib.closing(sqlite3.connect(path)) as connection:
            for part, table in enumerate(tables):
                columns = ", ".join(map(quoted, table.column_names))
                connection.execute(f"CREATE TABLE part_{part} ({columns})")
                marks = ", ".join("?" * table.num_columns)
                cells = zip(*(_cells(column) for column in table.columns), strict=True)
                connection.executemany(f"INSERT INTO part_{part} VALUES ({marks})", cells)
            connection.commit()
        return SQLRows(f"sqlite:///{path}", query=union(f"part_{k}" for k in range(len(tables))))


def _cells(column):
    # SQLite knows neither truth values nor NaN, which it would keep as NULL.
    cells = column.to_pylist()
    return [("true" if c else "false") if isinstance(c, bool) else c for c in cells]


class PostgreSQL:
    """A schema for each table, whose columns have the types of Arrow's."""

    TYPES = (
        (pa.types.is_boolean, "boolean"),
        (pa.types.is_integer, "bigint"),
        (pa.types.is_floating, "double precision"),
    )

    def __init__(self, url, names=itertools.count()):  # noqa: B008
        self.url, self.names = url, names

    def rows(self, tables):
        import psycopg

        place = f"kit_{next(self.names)}"
        names = [f"{place}.part_{part}" for part in range(len(tables))]
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE SCHEMA {place}")
            for name, table in zip(names, tables, strict=True):
                columns = ", ".join(
                    f"{quoted(field.name)} {self._type(field.type)}" for field in table.schema
                )
                cursor.execute(f"CREATE TABLE {name} ({columns})")
                with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                    for row in zip(*(c.to_pylist() for c in table.columns), strict=True):
                        copy.write_row(row)
        return SQLRows(self.url, query=union(names))

    def _type(self, kind):
        return next((name for fits, name in self.TYPES if fits(kind)), "text")


def union(names):
    return " UNION ALL ".join(f"SELECT * FROM {name}" for name in names)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request, tmp_path):
    if request.param == "sqlite":
        return SQLite(tmp_path)
    return PostgreSQL(request.getfixturevalue("server"))


def test_the_kit_passes(database):
    def factory(table):
        return DuckDBSource(database.rows([table.to_arrow(holes="codes")]), table.schema)

    def in_parts(tables):
        return DuckDBSource(database.rows([t.to_arrow() for t in tables]), tables[0].schema)

    def limited(table):
        rows = database.rows([table.to_arrow(holes="codes")])
        rows._query += " LIMIT 40"
        return DuckDBSource(rows, table.schema)

    report = check_source(factory, trials=3, in_parts=in_parts, most_rows=4_000)
    assert [found.what for found in report.unchecked] == [AGAIN]
    with pytest.raises(CheckFailedError, match="counts are wrong"):
        check_source(limited, trials=1, most_rows=4_000)
