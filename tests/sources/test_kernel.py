"""The kernel: groups and blocks change the work, never a count; big requests are refused early."""

import itertools
import math

import numpy as np
import pytest

import missdp.sources.counts as kernel
from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import ParameterError
from missdp.sources import MemorySource, strategy_named
from missdp.sources import strategies as counting
from refusing import refuses


def table_of(sizes, n, *, nullable=True):
    """Random rows; every second attribute may be missing, if any."""
    schema = Schema(
        tuple(
            Categorical(name=f"a{i}", levels=tuple(range(s)), nullable=nullable and i % 2 == 0)
            for i, s in enumerate(sizes)
        )
    )
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
    assert not counter._totals  # what was read off is not held
    for clique in cliques:
        np.testing.assert_array_equal(found[clique], by_hand(table, clique))


@pytest.mark.parametrize("order", [2, 3])
def test_many_cliques_are_planned_in_blocks_and_counted_alike(order, monkeypatch):
    table = table_of([2, 3] * 6, 200)
    cliques = [(), *itertools.permutations(table.schema.names, order)]
    monkeypatch.setattr(kernel, "_PLANNED_AT_ONCE", 20)
    monkeypatch.setattr(kernel, "_BLOCK", 4)
    groups = kernel._plan_groups(table.schema, cliques, group_cells=5_000)
    assert sorted(c for g in groups for c in g.cliques) == sorted(cliques)
    blocks = MemorySource(table).counts(cliques, rows="extended")
    assert list(blocks) == cliques
    for clique in cliques:
        np.testing.assert_array_equal(blocks[clique], by_hand(table, clique))


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
    """Notes what is counted in each pass."""

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
    for clique, counts in merged.each(pairs):
        most = max(most, sum(table.size for table in exact._kept.values()))
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
        found = dict(exact.each([clique]))[clique]
        assert (
            found.sum()
            == MemorySource(rows.table).counts([clique], rows=strategy.rows)[clique].sum()
        )
    assert len(rows.passes) == 2
