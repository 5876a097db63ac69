"""Nested tables are added up and summed down as they are one by one."""

import itertools

import numpy as np
import pytest

from missdp.inference.beliefs import log_linear
from missdp.inference.nest import nested, spread, summed


@pytest.mark.parametrize("shape", [(7,), (2, 3, 4), (5, 1, 6, 2, 9), (13, 12, 11, 3)])
def test_a_quick_sum_is_the_sum(shape):
    table = np.random.default_rng(0).normal(size=shape)
    for k in range(len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), k):
            np.testing.assert_allclose(summed(table, axes), table.sum(axis=axes), atol=1e-10)


@pytest.mark.parametrize("seed", range(8))
def test_nested_tables_are_added_and_read_like_single_ones(seed):
    rng = np.random.default_rng(seed)
    whole = tuple(sorted(rng.choice(9, 5, replace=False).tolist()))
    sizes = rng.integers(1, 7, 9).tolist()
    every = [c for k in range(1, 6) for c in itertools.combinations(whole, k)]
    cliques = [every[i] for i in rng.permutation(len(every))[: 3 + seed]]
    nest = nested(whole, sizes, cliques)
    assert set(cliques) <= set(nest.at)
    tables = [[] for _ in nest.parts]
    expected = np.zeros([sizes[v] for v in whole])
    for clique in [*cliques, cliques[0]]:  # several tables over the same attributes add up
        table = rng.normal(size=[sizes[v] for v in clique])
        tables[nest.at[clique]].append(table)
        expected += spread(table, clique, whole)
    kept = [[table.copy() for table in some] for some in tables]
    out = np.full([sizes[v] for v in whole], np.nan)
    nest.pile(tables, out)
    np.testing.assert_allclose(out, expected, atol=1e-12)
    for some, before in zip(tables, kept, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(some, before, strict=True))
    read = nest.read(out)
    for clique in cliques:
        others = tuple(i for i, v in enumerate(whole) if v not in clique)
        np.testing.assert_allclose(read[nest.at[clique]], expected.sum(axis=others), atol=1e-9)


def test_a_law_under_which_nothing_is_possible_is_refused():
    zeros = {(0, 1): np.array([[True, False], [False, True]]), (1,): np.array([True, True])}
    with pytest.raises(ValueError, match="nothing is possible"):
        log_linear([2, 2], {}, zeros)
