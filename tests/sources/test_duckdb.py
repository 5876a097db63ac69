"""What only the streaming source promises."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from missdp import Budget, Categorical, Numeric, PrivBayes, Schema, Table
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
    assert connection.sql("SELECT count(*) FROM t").fetchall() == [(1,)]


def test_a_truncated_parquet_file_is_a_data_error(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"x": np.arange(1000.0)}), path)
    content = path.read_bytes()
    path.write_bytes(content[:50] + bytes(200) + content[250:])
    with pytest.raises(DataError):
        DuckDBSource(path, SCHEMA).counts([("x",)], rows="observed")


def bad_sources(folder: Path) -> list[Any]:
    """Sources whose rows do not fit, or cannot be read: found only in the last row."""
    table = pa.table({"x": [1.0] * 70_000 + [5000.0]})
    pq.write_table(table, folder / "bad.parquet")
    pd.DataFrame({"x": [1.0] * 70_000 + [5000.0]}).to_csv(folder / "bad.csv", index=False)
    (folder / "ragged.csv").write_text("x\n" + "1\n" * 70_000 + "1,2\n")
    relation = duckdb.connect().from_arrow(table)
    broken = "SELECT CAST(v AS INTEGER) AS x FROM (VALUES ('7'), ('SECRET')) t(v)"
    return [
        relation,
        DuckDBSource(folder / "bad.parquet", SCHEMA),
        DuckDBSource(folder / "bad.csv", SCHEMA),
        DuckDBSource(folder / "ragged.csv", SCHEMA),
        DuckDBSource.from_query(duckdb.connect(), broken, SCHEMA),
    ]


def test_rows_that_do_not_fit_are_refused_before_anything_is_charged(tmp_path: Path) -> None:
    for data in bad_sources(tmp_path):
        budget = Budget(1.0)
        with pytest.raises(DataError) as caught:
            PrivBayes(epsilon=1.0, budget=budget).fit(data, schema=SCHEMA)
        assert not budget.events
        assert caught.value.__context__ is caught.value.__cause__ is None


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


def test_a_bad_number_of_threads_is_refused() -> None:
    with pytest.raises(ParameterError, match="n_jobs"):
        DuckDBSource(duckdb.sql("SELECT 1 AS x"), SCHEMA, n_jobs=0)


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
