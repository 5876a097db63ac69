"""Many marginals are counted in blocks: never more cells at once than the cap, and each once."""

import itertools
import math

import numpy as np
import pytest

from missdp import Categorical, Schema, Table
from missdp.sources import MemorySource, strategy_named
from missdp.sources import strategies as counting
from missdp.sources.counts import Counter

NAMES = "abcdefgh"
CAP = 150


class Spy(MemorySource):
    """Notes what is counted in each pass."""

    def __init__(self, table):
        super().__init__(table)
        self.passes = []

    def counts(self, cliques, *, rows):
        self.passes.append(list(cliques))
        return super().counts(self.passes[-1], rows=rows)


def source():
    rng = np.random.default_rng(0)
    schema = Schema(
        tuple(
            Categorical(name=n, levels=tuple("xyz"), nullable=i % 2 == 0)
            for i, n in enumerate(NAMES)
        )
    )
    codes = {a.name: rng.integers(0, a.extended_size, 500) for a in schema}
    return Spy(Table.from_codes(schema, codes, kind="pandas"))


def pairs():
    return list(itertools.combinations(NAMES, 2))


@pytest.mark.parametrize("missing", ["joint", "observed"])
def test_blocks_have_at_most_the_cap_and_each_is_counted_once(missing, monkeypatch):
    monkeypatch.setattr(counting, "_CELLS_AT_ONCE", CAP)
    rows, strategy = source(), strategy_named(missing)
    exact = counting.ExactCounts(lambda: rows, rows.schema, strategy)
    merged = counting.MergedCounts(exact, {n: np.array([0, 0, 1]) for n in NAMES})
    merged.expect(pairs())
    most = 0
    for clique, counts in merged.each(pairs()):
        held = sum(table.size for table in exact._kept.values())
        most = max(most, held)
        whole = rows.counts([clique], rows=strategy.rows)[clique]
        rows.passes.pop()
        for axis in (0, 1):
            whole = counting._merge_levels(whole, np.array([0, 0, 1]), axis)
        assert np.array_equal(counts, whole)
    cells = [sum(math.prod(rows.schema.extended_shape(c)) for c in some) for some in rows.passes]
    assert len(cells) > 2
    assert 0 < most <= CAP
    assert max(cells) <= CAP
    assert sorted(c for some in rows.passes for c in some) == sorted(pairs())


def test_what_is_asked_out_of_order_is_counted_with_its_block(monkeypatch):
    monkeypatch.setattr(counting, "_CELLS_AT_ONCE", CAP)
    rows = source()
    exact = counting.ExactCounts(lambda: rows, rows.schema, strategy_named("joint"))
    exact.expect(pairs())
    for clique in (pairs()[-1], pairs()[0], pairs()[-1], pairs()[0]):
        found = dict(exact.each([clique]))
        assert np.array_equal(
            found[clique], MemorySource(rows.table).counts([clique], rows="extended")[clique]
        )
    assert len(rows.passes) == 2


def test_a_counter_holds_no_counts_that_were_read_off():
    rows = source()
    counter = Counter(rows.schema, pairs(), group_cells=16)
    counter.add({n: rows.table.codes(n) for n in NAMES}, len(rows.table))
    found = counter.result("extended")
    assert set(found) == set(pairs())
    assert not counter._totals
