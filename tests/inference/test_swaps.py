"""Rows swapped for others of a pool, so that tables hold."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.graphs import table_of
from missdp.inference import raking
from missdp.inference.fit_heads import fit_tree
from missdp.inference.pair_model import PairModel
from missdp.inference.raking import _swap, resample


def misfit(rows, tables):
    """What swaps lessen, computed in another way."""
    total = 0.0
    for pair, table in tables.items():
        want = table / table.sum() * len(rows)
        off = want - counted(rows, pair, table)
        total += (off**2 / np.sqrt(np.maximum(want, 1))).sum()
    return total


def counted(rows, pair, table):
    return len(rows) * table_of(rows, pair, dict(zip(pair, table.shape, strict=True)))


def distance(rows, tables):
    off = [counted(rows, pair, t) / len(rows) - t / t.sum() for pair, t in tables.items()]
    return np.mean([np.abs(table).sum() / 2 for table in off])


def dependent(rng, n, sizes):
    hidden = rng.normal(size=n)
    columns = [
        np.clip(np.round(hidden + rng.normal(size=n) + s / 2), 0, s - 1).astype(np.int64)
        for s in sizes
    ]
    return np.stack(columns, axis=1)


def pairs_of(rows, sizes, k=2):
    cliques = itertools.combinations(range(len(sizes)), k)
    return {clique: table_of(rows, clique, sizes) for clique in cliques}


@st.composite
def pools(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    pool = dependent(rng, draw(st.integers(1, 300)), sizes)
    weights = rng.random(len(pool)) * (rng.random(len(pool)) < 0.8)
    weights = weights if weights.any() else np.ones(len(pool))
    rows = dependent(rng, 1000, sizes)
    every = {c: table for k in (1, 2, 3) for c, table in pairs_of(rows, sizes, k).items()}
    kept = draw(st.lists(st.sampled_from(sorted(every)), min_size=1, unique=True))
    tables = {pair: every[pair] * draw(st.sampled_from([1.0, 7e3])) for pair in kept}
    return pool, weights / weights.sum(), tables, draw(st.integers(0, 400)), rng


@given(pools())
@settings(max_examples=30, deadline=None)
def test_as_many_rows_come_back_and_the_misfit_never_grows(case):
    pool, weights, tables, n, rng = case
    chosen = resample(weights, n, rng, codes=pool)
    before = chosen.copy()
    found = _swap(chosen, pool, tables, weights=weights, rng=rng)
    assert found.shape == (n,)
    np.testing.assert_array_equal(chosen, before)
    if n:
        assert (weights[found] > 0).all()
        assert misfit(pool[found], tables) <= misfit(pool[chosen], tables) + 1e-6


@pytest.mark.parametrize("n", [50, 5_000, 30_000])
def test_tables_hold_far_better_and_so_do_margins_and_what_no_table_tells(n):
    rng, sizes = np.random.default_rng(n), [2, 5, 8, 3, 6, 4]
    pool = dependent(rng, 50_000, sizes)
    tables, weights = pairs_of(pool, sizes), np.full(len(pool), 1 / len(pool))
    chosen = resample(weights, n, rng, codes=pool)
    found = _swap(chosen, pool, tables, weights=weights, rng=rng)
    assert distance(pool[found], tables) < 0.5 * distance(pool[chosen], tables)
    margins = pairs_of(pool, sizes, 1)
    assert distance(pool[found], margins) <= distance(pool[chosen], margins) + 1e-3
    threes = pairs_of(pool, sizes, 3)
    assert distance(pool[found], threes) < 1.02 * distance(pool[chosen], threes)


@pytest.mark.parametrize("dense", [0, 10**9])
def test_both_ways_to_count_what_swaps_change_agree(monkeypatch, dense):
    rng, sizes = np.random.default_rng(0), [3, 4, 5, 2]
    pool = dependent(rng, 5_000, sizes)
    weights = np.full(len(pool), 1 / len(pool))
    tables = pairs_of(dependent(rng, 5_000, sizes), sizes)
    chosen = resample(weights, 1_000, rng, codes=pool)
    one = _swap(chosen, pool, tables, weights=weights, rng=np.random.default_rng(1))
    monkeypatch.setattr(raking, "_DENSE", dense)
    two = _swap(chosen, pool, tables, weights=weights, rng=np.random.default_rng(1))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("n", [0, 1, 50, 5_000, 30_000, 100_000])
@pytest.mark.parametrize("tables", [0, 1, 105, 990, 4_950, 40_000])
def test_work_is_bounded_whatever_there_is_to_do(n, tables):
    batch, rounds = raking._plan(n, tables)
    assert 2 * batch * rounds * tables <= 60_000_000
    assert batch <= n
    assert rounds <= 1_000
    if n * tables > 300_000_000 or not n * tables:
        assert rounds == 0


@pytest.mark.parametrize("n", [0, 1, 3_000])
def test_rows_of_a_model_of_pairs_are_swapped(n, monkeypatch):
    table = np.array([[0.4, 0.1], [0.1, 0.4]])
    law = fit_tree([table.sum(1), table.sum(0)], {(0, 1): table - 0.25}, {})
    model = PairModel((None, None), law, {(0, 1): table}, None, 3000.0)
    calls = []

    def noted(chosen, codes, tables, **rest):
        calls.append(len(chosen))
        return _swap(chosen, codes, tables, **rest)

    monkeypatch.setattr(raking, "_swap", noted)
    rows = model.complete(n, np.random.default_rng(0))
    assert sum(calls) == len(rows) == n
    if n > 1:
        np.testing.assert_allclose(counted(rows, (0, 1), table), n * table)
