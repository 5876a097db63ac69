"""Promises of the streaming source alone. No error of an engine reveals a cell."""

import contextlib
from dataclasses import replace
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from missdp import Categorical, Filter, Numeric, PrivBayes, Schema, Table
from missdp.errors import DataError, MissDPError, ParameterError
from missdp.sources import DuckDBSource, MemorySource, open_source
from missdp.table import Rows, memory_limit
from refusing import refuses

SCHEMA = Schema((Numeric(name="x", lower=0, upper=1000, bins=10, nullable=True),))


def test_only_one_select_is_accepted_and_nothing_else_runs():
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    for sql in ("DROP TABLE t", "SELECT 1 AS x; SELECT 2 AS x", "SELEC 1", "", "DELETE FROM t"):
        with refuses(ParameterError):
            DuckDBSource.from_query(connection, sql, SCHEMA)
    with refuses(ParameterError, "n_jobs"):
        DuckDBSource(connection.sql("SELECT 1 AS x"), SCHEMA, n_jobs=0)
    assert connection.sql("SELECT count(*) FROM t").fetchall() == [(1,)]


def test_only_columns_that_may_refuse_are_read_to_check(monkeypatch):
    strict = Numeric(name="y", lower=0, upper=1, nullable=True)
    loose = replace(strict, name="x", outside="clamp")
    asked = []
    stream = Rows.batches

    def watched(self, names):
        asked.append(names)
        return stream(self, names)

    monkeypatch.setattr(Rows, "batches", watched)
    relation = duckdb.sql("SELECT 7 AS x, 1 AS y")
    source = open_source(relation, Schema((loose, strict)))
    assert asked == [("y",)]
    source.counts([("x",)], rows="observed")
    assert open_source(source, source.schema) is source
    assert asked == [("y",), ("x",)]
    total = open_source(duckdb.sql("SELECT 7 AS x"), Schema((loose,)))
    assert asked == [("y",), ("x",)]
    assert total.counts([("x",)], rows="observed")[("x",)].sum() == 1


def test_open_source_chooses_by_kind_and_size(tmp_path, monkeypatch):
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, None]}), path)
    table = Table.read(path, SCHEMA)
    assert isinstance(open_source(table, SCHEMA), MemorySource)
    assert isinstance(open_source(str(path), SCHEMA), MemorySource)
    assert isinstance(open_source(duckdb.read_parquet(str(path)), SCHEMA), DuckDBSource)
    monkeypatch.setattr(Rows, "approximate_length", lambda rows: 10**9)
    with memory_limit("2GB"):
        big = open_source(path, SCHEMA)
    assert isinstance(big, DuckDBSource)
    assert open_source(big, SCHEMA) is big
    other = Schema((Categorical(name="x", levels=("a",)),))
    with refuses(DataError, "another schema"):
        open_source(big, other)
    with refuses(DataError, "no data file"):
        open_source(tmp_path / "absent.csv", SCHEMA)


def test_a_frame_with_treacherous_column_names_is_a_frame():
    names = ("schema", "counts", "to_arrow_reader", "project")
    schema = Schema(tuple(Categorical(name=n, levels=("a",)) for n in names))
    frame = pd.DataFrame({n: ["a"] for n in names})
    for data, kind in ((frame, MemorySource), (duckdb.connect().from_df(frame), DuckDBSource)):
        source = open_source(data, schema)
        assert isinstance(source, kind)
        assert source.counts([names], rows="observed")[names].tolist() == [[[[1]]]]


# -- errors of DuckDB and Arrow (errors of Spark: tests/engines) -----------------------------------
FACTS = Schema((Numeric(name="x", lower=0, upper=10, nullable=True),))
BAD = "(VALUES ('1'), ('SECRET')) t(v)"
QUERIES = {
    "cast": f"SELECT CAST(v AS DOUBLE) AS x FROM {BAD}",
    "date": f"SELECT year(CAST(v AS DATE)) AS x FROM {BAD}",
    "pattern": f"SELECT year(strptime(v, '%Y')) AS x FROM {BAD}",
    "json": f"SELECT CAST(json_extract(v, '$') AS INT) AS x FROM {BAD}",
    "raised": f"SELECT if(v = '1', 1, error(v)) AS x FROM {BAD}",
    "regular expression": f"SELECT CAST(regexp_matches('a', v || '[') AS INT) AS x FROM {BAD}",
    "overflow": "SELECT CAST(424242 + i AS TINYINT) AS x FROM range(3) t(i)",
    "several rows": f"SELECT (SELECT v FROM {BAD}) AS x",
    "no table": "SELECT x FROM SECRET",
    "outside": f"SELECT v AS x FROM {BAD}",
}


def from_query(query):
    return lambda connection: DuckDBSource.from_query(connection, query, FACTS)


def python_function(connection):
    def quoting(cell):
        raise ValueError(f"SECRET {cell}")

    connection.create_function("quoting", quoting, ["BIGINT"], "BIGINT")
    return connection.sql("SELECT quoting(i) AS x FROM range(424242, 424243) t(i)")


def broken_stream(connection):
    def batches():
        yield pa.record_batch({"x": [1.0]})
        raise ValueError("SECRET")

    kind = pa.schema([("x", pa.float64())])
    return connection.from_arrow(pa.RecordBatchReader.from_batches(kind, batches()))


def mixed_objects(connection):
    return connection.from_df(pd.DataFrame({"x": pd.Series([1] * 5000 + ["SECRET"], dtype=object)}))


def closed(_):
    with duckdb.connect() as other:
        return other.sql("SELECT 'SECRET' AS x")


def written(name):
    """Files whose rows do not fit, or cannot be read, behind very many that can."""

    def make(_):
        table = pa.table({"x": [1.0] * 70_000 + [424242.0]})
        if name.endswith("parquet"):
            pq.write_table(table, name)
        if name == "truncated.parquet":
            content = Path(name).read_bytes()
            Path(name).write_bytes(content[:50] + bytes(200) + content[250:])
        if name.endswith("csv"):
            last = {"outside.csv": "424242", "ragged.csv": "1,SECRET"}[name]
            Path(name).write_text("x\n" + "1\n" * 70_000 + last + "\n")
        return DuckDBSource(name, FACTS) if name.startswith("outside") else Path(name)

    return make


def csv_sniffed(connection):
    return connection.sql("SELECT x FROM read_csv('rows.csv', sample_size=10)")


PLACES = {
    **{name: from_query(query) for name, query in QUERIES.items()},
    "python function": python_function,
    "broken stream": broken_stream,
    "mixed objects": mixed_objects,
    "closed connection": closed,
    "sniffed file": csv_sniffed,
    **{f"{name}.csv": written(f"{name}.csv") for name in ("outside", "ragged")},
    **{f"{name}.parquet": written(f"{name}.parquet") for name in ("outside", "truncated")},
}


def fitted(data):
    budget = Filter(1.0)
    with contextlib.ExitStack() as after:
        after.callback(lambda: pytest.fail("it was charged for") if budget.events else None)
        PrivBayes(epsilon=1.0, budget=budget).fit(data, schema=FACTS)


def counted(data):
    source = data if isinstance(data, DuckDBSource) else DuckDBSource(data, FACTS)
    source.counts([("x",)], rows="observed")


def read(data):
    if isinstance(data, DuckDBSource):
        raise DataError("is read elsewhere")
    Table.read(data, FACTS)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES.keys())
def test_errors_quote_nothing_of_a_failed_query(place, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("x\n" + "1\n" * 30_000 + "SECRET\n")
    for do in (fitted, counted, read):
        with duckdb.connect() as connection, refuses(MissDPError) as caught:
            do(place(connection))
        error = caught.value
        told = [*capfd.readouterr(), str(error), repr(error.args), repr(vars(error))]
        assert not [text for text in told if "SECRET" in text or "424242" in text]
