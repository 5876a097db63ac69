"""The kernel: grouping changes the work, never the counts; big requests are refused early."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import missdp.sources.counts as kernel
from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import ParameterError
from missdp.sources import MemorySource


def schema_of(sizes: list[int], nullable: bool = True) -> Schema:
    return Schema(
        tuple(
            Categorical(name=f"a{i}", levels=tuple(range(s)), nullable=nullable)
            for i, s in enumerate(sizes)
        )
    )


def random_table(schema: Schema, n: int, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    return Table.from_codes(schema, {a.name: rng.integers(0, a.extended_size, n) for a in schema})


@pytest.mark.parametrize("group_cells", [0, 10, 500, 10**6])
def test_grouping_never_changes_a_count(group_cells: int) -> None:
    schema = schema_of([2, 3, 4, 5, 6])
    table = random_table(schema, 1000)
    cliques = [c for k in range(4) for c in itertools.permutations(schema.names, k)]
    codes = {n: table.codes(n) for n in schema.names}
    counter = kernel.Counter(schema, cliques, group_cells=group_cells)
    for start in range(0, 1000, 300):
        part = {n: c[start : start + 300] for n, c in codes.items()}
        counter.add(part, len(part["a0"]))
    found = counter.result("extended")
    for clique in cliques:
        expected = np.zeros(schema.extended_shape(clique), dtype=np.int64)
        np.add.at(expected, tuple(codes[n] for n in clique), 1 if clique else 1000)
        np.testing.assert_array_equal(found[clique], expected)


@pytest.mark.parametrize("order", [2, 3])
def test_many_cliques_are_planned_in_blocks_and_counted_alike(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    schema = schema_of([2, 3] * 6)
    table = random_table(schema, 200)
    cliques = [(), *itertools.permutations(schema.names, order)]
    whole = MemorySource(table).counts(cliques, rows="extended")
    monkeypatch.setattr(kernel, "_PLANNED_AT_ONCE", 20)
    monkeypatch.setattr(kernel, "_BLOCK", 4)
    groups = kernel._plan_groups(schema, cliques, group_cells=5_000)
    assert sorted(c for g in groups for c in g.cliques) == sorted(cliques)
    assert all(set(c) <= set(g.names) for g in groups for c in g.cliques)
    blocks = MemorySource(table).counts(cliques, rows="extended")
    assert list(blocks) == list(whole)
    for clique in cliques:
        np.testing.assert_array_equal(blocks[clique], whole[clique])


def test_chunks_add_up_across_their_borders(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of([3, 4])
    table = random_table(schema, 1001)
    whole = MemorySource(table).counts([("a1", "a0")], rows="extended")
    monkeypatch.setattr(kernel, "CHUNK_ROWS", 100)
    parts = MemorySource(table).counts([("a1", "a0")], rows="extended")
    np.testing.assert_array_equal(whole["a1", "a0"], parts["a1", "a0"])
    assert parts["a1", "a0"].sum() == 1001


def test_more_cells_than_16_bits_and_than_rows_are_counted_right() -> None:
    schema = schema_of([400, 500, 2])
    table = random_table(schema, 2000)
    clique = ("a1", "a0", "a2")
    found = MemorySource(table).counts([clique], rows="extended")[clique]
    expected = np.zeros((501, 401, 3), dtype=np.int64)
    np.add.at(expected, tuple(table.codes(n) for n in clique), 1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("order", "message"), [(3, r"\('x0', 'x1', 'x2'\) has 1,000,000,000 cells"), (2, "together")]
)
def test_too_many_cells_are_refused_before_counting(order: int, message: str) -> None:
    names = [f"x{i}" for i in range(24)]
    numbers = tuple(Numeric(name=n, lower=0, upper=1, bins=1000) for n in names)
    table = Table.from_codes(Schema(numbers), {n: np.zeros(1, dtype=int) for n in names})
    with pytest.raises(ParameterError, match=message):
        MemorySource(table).counts(itertools.combinations(names, order), rows="observed")


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1])
def test_domains_at_the_edge_of_an_integer_type(size: int) -> None:
    schema = schema_of([1, size], nullable=False)
    last = Table.from_codes(schema, {"a0": np.zeros(70_000, int), "a1": np.full(70_000, size - 1)})
    counts = MemorySource(last).counts([("a0", "a1")], rows="observed")[("a0", "a1")]
    assert counts[0, -1] == counts.sum() == 70_000
