"""Every source passes the public kit, which has its own oracle; and refuses what is refused."""

import functools
import itertools

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError
from missdp.sources import DuckDBSource, MemorySource, open_source
from refusing import refuses
from testing.source_checks import check_source

ODD = 'he said "hi"; DROP TABLE x; --'
SCHEMA = Schema(
    (
        Categorical(name="Größe 大", levels=("klein", "groß", "ü"), nullable=True),
        Ordinal(name=ODD, levels=(9, 10, 11, 12), nullable=True, missing_codes=(-9, "n/a")),
        Numeric(name="age", lower=0, upper=100, bins=4, nullable=True, outside="missing"),
        Numeric(name="pay", lower=0, upper=10, bins=5, nullable=True, outside="clamp"),
        Categorical(name="yes", levels=(False, True), nullable=True),
        Categorical(name="sure", levels=("a", "b", "?"), nullable=False),
    )
)


CONNECTION = duckdb.connect()  # one: each takes longer than what is counted


def duckdb_relation(table, _):
    return DuckDBSource(CONNECTION.from_arrow(table), SCHEMA, n_jobs=2)


def duckdb_parquet(table, folder):
    pq.write_table(
        table.select(table.column_names[::-1]),
        folder / "rows.parquet",
        row_group_size=max(7, table.num_rows // 20),
    )
    return DuckDBSource(folder / "rows.parquet", SCHEMA, n_jobs=2)


def duckdb_csv(table, folder):
    csv = folder / "rows.csv"
    table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get).to_csv(csv, index=False)
    return DuckDBSource(str(csv), SCHEMA, n_jobs=1)


MAKERS = {
    "memory-arrow": lambda t, _: MemorySource(Table.read(t, SCHEMA)),
    "memory-pandas": lambda t, _: open_source(
        t.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get), SCHEMA
    ),
    "duckdb-relation": duckdb_relation,
    "duckdb-parquet": duckdb_parquet,
    "duckdb-csv": duckdb_csv,
}


@pytest.mark.parametrize(
    "kind",
    [
        *("memory-pandas", "duckdb-csv"),
        *(pytest.param(f"duckdb-{k}", marks=pytest.mark.slow) for k in ("relation", "parquet")),
    ],
)
def test_the_kit_passes(kind, tmp_path):
    """Arrow tables in memory pass it below."""
    make, folders = MAKERS[kind], itertools.count()

    def factory(table):
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        return make(table.to_arrow(), folder)

    report = check_source(factory, schema=SCHEMA, trials=2, in_parts=in_parts(make, tmp_path))
    assert [found.what for found in report.unchecked] == [
        "What has to be read again is counted once"
    ]


def in_parts(make, folder):
    """Parts are row groups of a file, or the queries of a union."""

    def made(tables):
        parts = [table.to_arrow() for table in tables]
        if make is duckdb_parquet:
            with pq.ParquetWriter(folder / "parts.parquet", parts[0].schema) as writer:
                for part in parts:
                    writer.write_table(part)
            return DuckDBSource(folder / "parts.parquet", SCHEMA, n_jobs=2)
        if make is duckdb_relation:
            relations = [CONNECTION.from_arrow(part) for part in parts]
            whole = functools.reduce(duckdb.DuckDBPyRelation.union, relations)
            return DuckDBSource(whole, SCHEMA, n_jobs=2)
        return make(pa.concat_tables(parts), folder)

    return made


def csv_file(cells, folder):
    path = folder / f"{len(list(folder.iterdir()))}.csv"  # sources read theirs again
    pa.csv.write_csv(cells, path)
    return path


OTHERS = {
    "memory": lambda cells, schema, _: MemorySource(Table.read(cells, schema)),
    "duckdb-csv": lambda cells, schema, folder: DuckDBSource(csv_file(cells, folder), schema),
}


@pytest.mark.parametrize("make_one", OTHERS.values(), ids=OTHERS.keys())
def test_cells_of_every_kind_of_missing_and_every_policy(make_one, tmp_path):
    report = check_source(lambda t: make_one(t.to_arrow(), t.schema, tmp_path), trials=8)
    told = {found.what: found.detail for found in report.findings}
    assert told["Cells outside the domain are refused, in words that are public"] == "5 columns"
    assert "of 2 schemas" in told.values()


@pytest.mark.parametrize("kind", ["memory-arrow", "duckdb-relation", "duckdb-parquet"])
def test_what_does_not_fit_is_refused_at_once_without_quoting(kind, tmp_path):
    table = pa.table({a.name: pa.nulls(2) for a in SCHEMA}).drop_columns(["sure"])
    with refuses(DataError, "lacks columns"):
        MAKERS[kind](table, tmp_path)
    whole = table.append_column("sure", pa.array(["a", "b"]))
    with refuses(DataError, "does not declare"):
        MAKERS[kind](whole.append_column("extra", pa.array([1, 2])), tmp_path)
    for cells in (["a", "SECRET"], ["a", None], [["SECRET"], ["a"]]):
        source = MAKERS[kind]
        bad = table.append_column("sure", pa.array(cells))
        with refuses(DataError, "column 'sure'"):
            # It is not asked for: the whole table is checked before the first answer.
            source(bad, tmp_path).counts([("pay",)], rows="observed")
