"""One row changes the exact answer of a count query by at most its sensitivity.

Trees are exact.
"""

import numpy as np
import pytest

from missdp import Categorical, Schema, Table
from missdp.accounting import Filter
from missdp.session import (
    CountedRows,
    Marginal,
    MissingKinds,
    Noise,
    RowCount,
    SeededNoise,
    Session,
    Tree,
)
from missdp.sources import MemorySource, strategy_named

LEVELS = tuple(range(8))
SCHEMA = Schema(
    (
        Categorical(name="a", levels=LEVELS, nullable=True),
        Categorical(name="b", levels=(0, 1)),
    )
)
TREE = Tree(name="a", size=8, levels=(1, 2), within=(2, 6))
QUERIES = [RowCount(), MissingKinds("a"), Marginal(("a", "b")), Marginal(()), TREE]
ROWS = [(0, 0), (7, 1), (3, 0), (8, 1)]


def exact(query, rows, missing="joint"):
    codes = np.array(rows).reshape(-1, 2)
    table = Table.from_codes(SCHEMA, {"a": codes[:, 0], "b": codes[:, 1]})
    return query.exact(CountedRows.from_source(MemorySource(table), strategy_named(missing)))


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_count_query_one_row_moves_its_sensitivity(query):
    moves = []
    for a in range(9):
        for b in range(2):
            moved = np.ravel(exact(query, [*ROWS, (a, b)]) - exact(query, ROWS)).astype(float)
            moves.append((np.abs(moved).sum(), np.linalg.norm(moved)))
    for norm, reached in zip((1, 2), map(max, zip(*moves, strict=True)), strict=True):
        bound = query.sensitivity(norm)
        assert bound * (1 - 1e-12) <= reached <= bound


def test_tree_counts_cells_outside_its_range_at_the_nearest_end():
    """Levels 2 to 5 are two halves of two cells.

    Levels 0 and 1 count as 2, and levels 6 and 7 as 5.
    """
    found = exact(TREE, [(a, 0) for a in (0, 1, 2, 3, 4, 6, 7, 8)])
    assert found.tolist() == [4, 3, 3, 1, 1, 2]


def test_required_attributes_are_those_that_a_counted_row_has_observed():
    """A query that reads every row requires none, whatever the strategy."""
    table = Table.from_codes(SCHEMA, {"a": np.array([8, 1]), "b": np.array([0, 1])})
    for missing, required in (("joint", set()), ("observed", {"a"}), ("complete-rows", {"a"})):
        rows = CountedRows.from_source(MemorySource(table), strategy_named(missing))
        assert rows.required(Marginal(("a", "b")).reads) == required
        assert rows.required(RowCount().reads) == rows.required(MissingKinds("a").reads) == set()
        assert RowCount().exact(rows) == 2
        assert MissingKinds("a").exact(rows).tolist() == [1]
    assert rows.required(()) == {"a"}
    assert Marginal(()).exact(rows) == 1


def test_released_arrays_are_fresh_and_of_public_shape_and_type():
    """Writing into an answer changes no exact count and no later answer."""
    table = Table.from_codes(SCHEMA, {"a": np.arange(9), "b": np.arange(9) % 2})
    rows = CountedRows.from_source(MemorySource(table), strategy_named("joint"))
    session = Session(rows, budget=Filter(1e6), noise=SeededNoise(0))
    tiny = Noise("laplace", 1e-3)  # rounds to no noise
    for query in QUERIES:
        first = session.measure(query, tiny).value
        shape, kept = np.shape(first), np.array(first)
        assert first.dtype == np.int64
        first[...] = 99
        again = session.measure(query, tiny).value
        assert not np.shares_memory(first, again)
        assert not np.shares_memory(first, np.asarray(query.exact(rows)))
        assert np.shape(again) == shape
        np.testing.assert_array_equal(again, kept)
    assert session.measure(Marginal(("a", "b")), tiny).value.shape == session.facts.shape(
        ("a", "b")
    )
