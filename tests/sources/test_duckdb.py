"""What only the streaming source promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import DataError, ParameterError
from missdp.sources import DuckDBSource, MemorySource, open_source
from missdp.table import FileRows, RelationRows, memory_limit

SCHEMA = Schema((Numeric(name="x", lower=0, upper=1000, bins=10, nullable=True),))


@pytest.mark.parametrize(
    "sql", ["DROP TABLE t", "SELECT 1 AS x; SELECT 2 AS x", "SELEC 1", "", "DELETE FROM t"]
)
def test_only_one_select_is_accepted_and_nothing_else_runs(sql: str) -> None:
    connection = duckdb.connect()
    connection.execute("CREATE TABLE t AS SELECT 1 AS x")
    with pytest.raises(ParameterError):
        DuckDBSource.from_query(connection, sql, SCHEMA)
    with pytest.raises(ParameterError, match="n_jobs"):
        DuckDBSource(connection.sql("SELECT 1 AS x"), SCHEMA, n_jobs=0)
    assert connection.sql("SELECT count(*) FROM t").fetchall() == [(1,)]


def test_only_columns_that_may_refuse_are_read_to_check(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = Numeric(name="y", lower=0, upper=1, nullable=True)
    loose = replace(strict, name="x", outside="clamp")
    asked: list[tuple[str, ...]] = []
    stream = RelationRows.batches

    def watched(self: RelationRows, names: tuple[str, ...]) -> Any:
        asked.append(names)
        return stream(self, names)

    monkeypatch.setattr(RelationRows, "batches", watched)
    relation = duckdb.sql("SELECT 7 AS x, 1 AS y")
    source = open_source(relation, Schema((loose, strict)))
    assert asked == [("y",)]
    source.counts([("x",)], rows="observed")
    assert open_source(source, source.schema) is source
    assert asked == [("y",), ("x",)]
    total = open_source(duckdb.sql("SELECT 7 AS x"), Schema((loose,)))
    assert asked == [("y",), ("x",)]
    assert total.counts([("x",)], rows="observed")[("x",)].sum() == 1


def test_open_source_chooses_by_kind_and_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": [1.0, 2.0, None]}), path)
    table = Table.read(path, SCHEMA)
    assert isinstance(open_source(table, SCHEMA), MemorySource)
    assert isinstance(open_source(str(path), SCHEMA), MemorySource)
    assert isinstance(open_source(duckdb.read_parquet(str(path)), SCHEMA), DuckDBSource)
    monkeypatch.setattr(FileRows, "about", lambda rows: 10**9)
    with memory_limit("2GB"):
        big = open_source(path, SCHEMA)
    assert isinstance(big, DuckDBSource)
    assert open_source(big, SCHEMA) is big
    other = Schema((Categorical(name="x", levels=("a",)),))
    with pytest.raises(DataError, match="another schema"):
        open_source(big, other)
    with pytest.raises(DataError, match="no data file"):
        open_source(tmp_path / "absent.csv", SCHEMA)


def test_a_frame_with_treacherous_column_names_is_a_frame() -> None:
    names = ("schema", "counts", "to_arrow_reader", "project")
    schema = Schema(tuple(Categorical(name=n, levels=("a",)) for n in names))
    frame = pd.DataFrame({n: ["a"] for n in names})
    assert isinstance(open_source(frame, schema), MemorySource)
    source = open_source(duckdb.connect().from_df(frame), schema)
    assert isinstance(source, DuckDBSource)
    assert source.counts([names], rows="observed")[names].tolist() == [[[[1]]]]
