"""Every source passes the public kit of counting checks, which has its own oracle.

Sources raise errors for invalid requests. Groups and blocks change the work and never a count.
Requests that are too large raise an error early.
"""

import functools
import itertools
import math

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import missdp.schema.cliques as planning
import missdp.session.counting as kernel
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, ParameterError
from missdp.session import exact_counts as counting
from missdp.sources import DuckDBSource, MemorySource, open_source, strategy_named
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


CONNECTION = duckdb.connect()  # a single connection, since opening takes longer than counting


def duckdb_relation(table, _):
    return DuckDBSource(CONNECTION.from_arrow(table), SCHEMA, n_jobs=2)


def duckdb_parquet(table, folder):
    groups = {"row_group_size": max(7, table.num_rows // 20)}
    pq.write_table(table.select(table.column_names[::-1]), folder / "rows.parquet", **groups)
    return DuckDBSource(folder / "rows.parquet", SCHEMA, n_jobs=2)


def duckdb_csv(table, folder):
    as_pandas(table).to_csv(folder / "rows.csv", index=False)
    return DuckDBSource(str(folder / "rows.csv"), SCHEMA, n_jobs=1)


def as_pandas(table):
    return table.to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


MAKERS = {
    "memory-arrow": lambda t, _: MemorySource(Table.read(t, SCHEMA)),
    "memory-pandas": lambda t, _: open_source(as_pandas(t), SCHEMA),
    "duckdb-relation": duckdb_relation,
    "duckdb-parquet": duckdb_parquet,
    "duckdb-csv": duckdb_csv,
}


SLOW = [pytest.param(f"duckdb-{k}", marks=pytest.mark.slow) for k in ("relation", "parquet")]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["memory-pandas", "duckdb-csv", *SLOW])
def test_the_kit_passes(kind, tmp_path):
    """Arrow tables in memory pass it below."""
    make, folders = MAKERS[kind], itertools.count()

    def factory(table):
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        return make(table.to_arrow(), folder)

    report = check_source(factory, schema=SCHEMA, trials=2, in_parts=in_parts(make, tmp_path))
    unchecked = [found.what for found in report.unchecked]
    assert unchecked == ["A block that is read again is counted once"]


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


@pytest.mark.long
@pytest.mark.parametrize("make_one", OTHERS.values(), ids=OTHERS.keys())
def test_cells_of_every_kind_of_missing_and_every_policy(make_one, tmp_path):
    report = check_source(lambda t: make_one(t.to_arrow(), t.schema, tmp_path), trials=8)
    told = {found.what: found.detail for found in report.findings}
    assert told["Cells outside the domain are refused, in words that are public"] == "5 columns"
    assert "of 2 schemas" in told.values()


@pytest.mark.parametrize("kind", ["memory-arrow", "duckdb-relation", "duckdb-parquet"])
def test_misfits_raise_at_once_without_quotes(kind, tmp_path):
    table = pa.table({a.name: pa.nulls(2) for a in SCHEMA}).drop_columns(["sure"])
    with refuses(DataError, "the data does not have"):
        MAKERS[kind](table, tmp_path)
    whole = table.append_column("sure", pa.array(["a", "b"]))
    with refuses(DataError, "does not declare"):
        MAKERS[kind](whole.append_column("extra", pa.array([1, 2])), tmp_path)
    for cells in (["a", "SECRET"], ["a", None], [["SECRET"], ["a"]]):
        bad = table.append_column("sure", pa.array(cells))
        with refuses(DataError, "column 'sure'"):
            # It is not asked for: the whole table is checked before the first answer.
            MAKERS[kind](bad, tmp_path).counts([("pay",)], rows="observed")


# -- the kernel ------------------------------------------------------------------------------------
def table_of(sizes, n, *, nullable=True):
    """Return random rows. If any attribute may be missing, every second attribute may be."""
    facts = (
        {"levels": (*range(s),), "nullable": nullable and not i % 2} for i, s in enumerate(sizes)
    )
    schema = Schema(tuple(Categorical(name=f"a{i}", **own) for i, own in enumerate(facts)))
    rng = np.random.default_rng(0)
    return Table.from_codes(schema, {a.name: rng.integers(0, a.extended_size, n) for a in schema})


def by_hand(table, clique):
    expected = np.zeros(table.schema.extended_shape(clique), dtype=np.int64)
    np.add.at(expected, tuple(table.codes(n) for n in clique), 1 if clique else len(table))
    return expected


@pytest.mark.parametrize("group_cells", [0, 10, 500, 10**6])
def test_grouping_never_changes_a_count(group_cells):
    table = table_of([2, 3, 4, 5, 6], 1000)
    cliques = [c for k in range(4) for c in itertools.permutations(table.schema.names, k)]
    counter = kernel.Counter(table.schema, cliques, group_cells=group_cells)
    for start in range(0, 1000, 300):
        part = {n: table.codes(n)[start : start + 300] for n in table.schema.names}
        counter.add(part, len(part["a0"]))
    found = counter.result("extended")
    assert not counter._totals  # totals are not held once they are read
    for clique in cliques:
        np.testing.assert_array_equal(found[clique], by_hand(table, clique))


@pytest.mark.parametrize("order", [2, 3])
def test_many_cliques_are_planned_in_blocks_and_counted_alike(order, monkeypatch):
    table = table_of([2, 3] * 6, 200)
    cliques = [(), *itertools.permutations(table.schema.names, order)]
    monkeypatch.setattr(planning, "_PLANNED_AT_ONCE", 20)
    monkeypatch.setattr(planning, "_BLOCK", 4)
    groups = planning.plan_groups(table.schema, cliques, group_cells=5_000)
    assert sorted(c for _, read in groups for c in read) == sorted(cliques)
    blocks = MemorySource(table).counts(cliques, rows="extended")
    assert list(blocks) == cliques
    for clique in cliques:
        np.testing.assert_array_equal(blocks[clique], by_hand(table, clique))


def test_counter_poor_plan_changes_no_count(monkeypatch):
    table, cliques = table_of([2, 3, 4], 300), [("a2", "a0"), ("a1",)]
    for plan in ([(("a2", "a0", "a1"), cliques)], [(c, [c]) for c in cliques]):
        monkeypatch.setattr(kernel, "plan_groups", lambda *_, plan=plan, **__: plan)
        found = MemorySource(table).counts(cliques, rows="extended")
        for clique in cliques:
            np.testing.assert_array_equal(found[clique], by_hand(table, clique))


@pytest.mark.parametrize("plan", [[(("a0",), [("a2", "a0"), ("a1",)])], [(("a1",), [("a1",)])]])
def test_counter_wrong_plan_returns_no_count(plan, monkeypatch):
    monkeypatch.setattr(kernel, "plan_groups", lambda *_, **__: plan)
    with pytest.raises((ValueError, KeyError)):
        MemorySource(table_of([2, 3, 4], 300)).counts([("a2", "a0"), ("a1",)], rows="extended")


def test_chunks_add_up_and_many_cells_are_counted_right(monkeypatch):
    for sizes, rows in (([3, 4], 1001), ([400, 500, 2], 2000)):  # more than 16 bits, than rows
        table = table_of(sizes, rows)
        clique = table.schema.names[::-1]
        for size in (kernel.CHUNK_ROWS, 100):
            monkeypatch.setattr(kernel, "CHUNK_ROWS", size)
            found = MemorySource(table).counts([clique], rows="extended")[clique]
            np.testing.assert_array_equal(found, by_hand(table, clique))


@pytest.mark.parametrize(
    ("order", "message"), [(3, r"\('x0', 'x1', 'x2'\) has 1,000,000,000 cells"), (2, "together")]
)
def test_too_many_cells_are_refused_before_counting(order, message):
    names = [f"x{i}" for i in range(24)]
    numbers = tuple(Numeric(name=n, lower=0, upper=1, bins=1000) for n in names)
    table = Table.from_codes(Schema(numbers), {n: np.zeros(1, dtype=int) for n in names})
    with refuses(ParameterError, message):
        MemorySource(table).counts(itertools.combinations(names, order), rows="observed")


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1])
def test_domains_at_the_edge_of_an_integer_type(size):
    schema = table_of([1, size], 0, nullable=False).schema
    last = Table.from_codes(schema, {"a0": np.zeros(70_000, int), "a1": np.full(70_000, size - 1)})
    counts = MemorySource(last).counts([("a0", "a1")], rows="observed")[("a0", "a1")]
    assert counts[0, -1] == counts.sum() == 70_000


CAP = 150


class Spy(MemorySource):
    """Records the marginals that are counted in each pass."""

    passes: list[list[tuple[str, ...]]]

    def counts(self, cliques, *, rows):
        self.passes.append(list(cliques))
        return super().counts(self.passes[-1], rows=rows)


@pytest.mark.parametrize("missing", ["joint", "observed"])
def test_blocks_have_at_most_the_cap_and_each_is_counted_once(missing, monkeypatch):
    monkeypatch.setattr(counting, "_CELLS_AT_ONCE", CAP)
    rows, strategy = Spy(table_of([3] * 8, 500)), strategy_named(missing)
    rows.passes, names = [], rows.schema.names
    pairs = list(itertools.combinations(names, 2))
    exact = counting.ExactCounts(lambda: rows, rows.schema, strategy, weighed=False)
    merged = counting.MergedCounts(exact, {n: np.array([0, 0, 1]) for n in names})
    merged.expect(pairs)
    most = 0
    for clique, counts in merged.count(pairs):
        most = max(most, sum(table.size for table in exact._cache.values()))
        whole = MemorySource(rows.table).counts([clique], rows=strategy.rows)[clique]
        for axis in (0, 1):
            whole = counting._merge_levels(whole, np.array([0, 0, 1]), axis)
        assert np.array_equal(counts, whole)
    cells = [sum(math.prod(rows.schema.extended_shape(c)) for c in some) for some in rows.passes]
    assert len(cells) > 2
    assert 0 < most <= CAP
    assert max(cells) <= CAP
    assert sorted(c for some in rows.passes for c in some) == sorted(pairs)
    exact.expect(pairs)  # again, out of order: each with its block
    rows.passes.clear()
    for clique in (pairs[-1], pairs[0], pairs[-1], pairs[0]):
        found = dict(exact.count([clique]))[clique]
        whole = MemorySource(rows.table).counts([clique], rows=strategy.rows)[clique]
        assert found.sum() == whole.sum()
    assert len(rows.passes) == 2
