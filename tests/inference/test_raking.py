"""Rows drawn by weights under which tables hold, rows swapped, and tables leaned on a model's."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.graphs import apart, table_of, tables_of
from missdp.inference import raking
from missdp.inference.fit_conditional_models import fit_tree
from missdp.inference.missingness import MissingnessModel
from missdp.inference.model import Levels
from missdp.inference.models import PairModel
from missdp.inference.raking import (
    _swap,
    centred,
    effective_share,
    rake,
    raked_rows,
    resample,
    scaled_to,
    shrunk,
)


def dependent(rng, n, sizes):
    """Rows of ordered attributes that rise together."""
    hidden = rng.normal(size=n)
    values = [np.round(hidden + rng.normal(size=n) + s / 2) for s in sizes]
    return np.stack([np.clip(v, 0, s - 1) for v, s in zip(values, sizes, strict=True)], 1).astype(
        int
    )


@st.composite
def rows_and_tables(draw):
    """Rows with every level, and tables of another law on the same domain."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    n = draw(st.integers(200, 400))
    rows = np.stack([rng.integers(0, size, n) for size in sizes], axis=1)
    every = [c for k in (1, 2, 3) for c in itertools.combinations(range(len(sizes)), k)]
    cliques = draw(st.lists(st.sampled_from(every), min_size=1, max_size=4, unique=True))
    tilt = np.exp(np.stack([rng.normal(0, 0.2, s)[rows[:, a]] for a, s in enumerate(sizes)]).sum(0))
    return rows, sizes, {c: table_of(rows, c, sizes, tilt) for c in cliques}, rng


@given(rows_and_tables())
@settings(max_examples=60)
def test_tables_that_some_weights_give_hold(case):
    rows, sizes, tables, _ = case
    weights = rake(rows, tables, sweeps=300, tolerance=1e-9)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1)
    for clique, wanted in tables.items():
        np.testing.assert_allclose(table_of(rows, clique, sizes, weights), wanted, atol=1e-5)


def test_cells_that_are_forbidden_or_have_no_rows():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 2, (1000, 2))
    wanted = np.array([[0.5, 0.0], [0.2, 0.3]])
    found = table_of(rows, (0, 1), [2, 2], rake(rows, {(0, 1): wanted}, min_share=0.0))
    np.testing.assert_allclose(found, wanted, atol=1e-9)
    assert found[0, 1] == 0
    weights = rake(np.zeros((4, 1), dtype=np.int64), {(0,): np.array([0.0, 1.0])})
    np.testing.assert_allclose(weights, 0.25)  # all are forbidden
    weights = rake(np.array([[0], [0], [1], [1]]), {(0,): np.array([0.1, 0.3, 0.6])})
    np.testing.assert_allclose(weights, [0.125, 0.125, 0.375, 0.375])


@given(st.floats(0.2, 0.95), st.integers(0, 1000))
@settings(max_examples=30)
def test_the_effective_sample_stays_above_what_is_asked_for(least, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 5, (2000, 3))
    tables = {c: rng.random((5, 5)) ** 6 for c in itertools.combinations(range(3), 2)}
    share = effective_share(rake(rows, tables, min_share=least))
    assert least <= share <= least + 0.05  # it is used up, not given away


@given(st.integers(1, 300), st.integers(0, 400), st.integers(0, 1000), st.booleans())
@settings(max_examples=60)
def test_each_row_is_drawn_its_share_rounded_up_or_down(rows, n, seed, ordered):
    rng = np.random.default_rng(seed)
    weights = rng.random(rows) * (rng.random(rows) < 0.7)
    weights[0] += 0.1
    codes = rng.integers(0, 3, (rows, 2)) if ordered else None
    drawn = resample(weights, n, rng, codes=codes)
    assert drawn.shape == (n,)
    counts = np.bincount(drawn, minlength=rows)
    assert (np.abs(counts - n * weights / weights.sum()) < 1 + 1e-9).all()
    assert (counts[weights == 0] == 0).all()


def test_order_shows_nothing_of_weights_or_codes():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, (5000, 3))
    weights = 1.0 + codes[:, 0]
    for given_codes in (None, codes):
        drawn = resample(weights, 4000, rng, codes=given_codes)
        place = np.arange(4000)
        assert abs(np.corrcoef(place, codes[drawn, 0])[0, 1]) < 0.06
        assert abs(np.corrcoef(place, drawn)[0, 1]) < 0.06


@pytest.mark.parametrize("ordered", [False, True])
def test_every_row_has_its_chance(ordered):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (6, 2)) if ordered else None
    weights = np.array([0.05, 0.1, 0.15, 0.2, 0.2, 0.3])
    drawn = np.concatenate([resample(weights, 2, rng, codes=codes) for _ in range(4000)])
    np.testing.assert_allclose(np.bincount(drawn) / 8000, weights, atol=0.02)


def even(d):
    """Rows of independent attributes of two levels."""
    return lambda n, rng: rng.integers(0, 2, (n, d))


def ising(d, strength):
    """Tables of attributes that all depend on each other: a fully connected Ising model."""
    states = np.array(list(itertools.product([0, 1], repeat=d)))
    spins = 2 * states - 1
    weight = np.exp(strength * (spins.sum(1) ** 2 - d) / 2)
    return tables_of(states, [2] * d, weights=weight)


def test_rows_hold_tables_in_one_pool_and_in_several(monkeypatch):
    tables, rng = ising(6, 0.1), np.random.default_rng(0)
    assert max(apart(rng.integers(0, 2, (20_000, 6)), tables, [2] * 6)) > 0.05
    rows = raked_rows(even(6), tables, 20_000, rng)
    assert max(apart(rows, tables, [2] * 6)) < 0.002
    monkeypatch.setattr(raking, "_POOL", 3000)
    rows = raked_rows(even(6), tables, 7500, rng)
    assert rows.shape == (7500, 6)
    assert max(apart(rows, tables, [2] * 6)) < 0.02


@pytest.mark.long
def test_independent_rows_vary_as_a_sample_and_even_rows_less():
    tables, spread = ising(4, 0.2), {}
    for draws in ("independent", "even"):
        rng = np.random.default_rng(0)
        rows = [raked_rows(even(4), tables, 400, rng, draws=draws)[:, 3] for _ in range(40)]
        spread[draws] = np.std(np.mean(rows, axis=1)) / np.sqrt(0.25 / 400)
    assert 0.75 < spread["independent"] < 1.3
    assert spread["even"] < 0.5


@pytest.mark.parametrize("n", [500, 5000])
def test_rows_are_as_distinct_as_a_sample_of_the_law_and_tables_hold_better(n):
    """Copies of rows do not undo the rounding of a draw."""
    rng, d, sizes = np.random.default_rng(n), 8, [5] * 8
    law = dependent(rng, 200_000, sizes)
    cliques = [*itertools.combinations(range(d), 2), (0, 1, 2), (3,)]
    tables = {c: table_of(law, c, sizes) for c in cliques}
    rows = raked_rows(lambda m, rng: dependent(rng, m, sizes), tables, n, rng)
    sample = law[:n]
    distinct = [len(np.unique(some, axis=0)) / n for some in (rows, sample)]
    assert distinct[0] == pytest.approx(distinct[1], abs=0.03)
    for k in (2, 3):
        truth = tables_of(law, sizes, k)
        off = [sum(apart(some, truth, sizes)) for some in (rows, sample)]
        assert off[0] < 0.9 * off[1]


@pytest.mark.parametrize("n", [0, 30, 500, 5000])
def test_what_is_forbidden_is_never_drawn_however_few_rows(n):
    tables = ising(6, 0.2)
    for pair in ((0, 1), (2, 5)):
        tables[pair] = tables[pair] * [[1, 1], [1, 0]]
    rows = raked_rows(even(6), tables, n, np.random.default_rng(n))
    assert rows.shape == (n, 6)
    assert not (rows[:, 0] & rows[:, 1]).any()
    assert not (rows[:, 2] & rows[:, 5]).any()


# -- tables leaned on a model's -------------------------------------------------------------------
SHAPES = st.lists(st.integers(2, 5), min_size=1, max_size=3).map(tuple)
SEEDS = st.integers(0, 2**32 - 1)


def a_law(shape, rng):
    return rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)


def marginals(table):
    axes = range(table.ndim)
    return [table.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]


@given(SHAPES, SEEDS)
@settings(max_examples=30)
def test_a_centred_table_has_no_margins_left_and_centring_is_a_projection(shape, seed):
    table = np.random.default_rng(seed).normal(size=shape)
    found = centred(table)
    for axis in range(len(shape)):
        np.testing.assert_allclose(found.sum(axis=axis), 0, atol=1e-12)
    np.testing.assert_allclose(centred(found), found, atol=1e-12)


def alone(noisy, base, std, *, marginals=None):
    """Shrink a single table."""
    pair = tuple(range(base.ndim))
    ends = None if marginals is None else dict(enumerate(marginals))
    return shrunk({pair: noisy}, {pair: base}, {pair: std}, marginals=ends)[pair]


@given(SHAPES, SEEDS)
@settings(max_examples=30)
def test_one_way_margins_are_those_asked_for_and_impossible_cells_stay_so(shape, seed):
    rng = np.random.default_rng(seed)
    base = a_law(shape, rng) + 0.02
    base /= base.sum()
    wanted = marginals(a_law(shape, rng) + 0.05)
    wanted = [margin / margin.sum() for margin in wanted]
    for asked, told in ((wanted, wanted), (None, marginals(base))):
        found = alone(base + rng.normal(0, 0.005, shape), base, 0.005, marginals=asked)
        assert asked is None or (found > 0).all()
        for mine, theirs in zip(marginals(found), told, strict=True):
            np.testing.assert_allclose(mine, theirs, atol=2e-3)
    base.flat[0] = 0.0
    base /= base.sum()  # impossible cells stay impossible
    assert alone(base + 0.1 * rng.random(shape), base, 0.01).flat[0] == 0


def test_noise_alone_leaves_the_model_and_no_noise_leaves_the_table():
    rng = np.random.default_rng(0)
    base = np.outer([0.2, 0.3, 0.5], [0.6, 0.4])
    other = scaled_to(a_law((3, 2), rng), marginals(base), sweeps=200)
    np.testing.assert_allclose(alone(other, base, 1e-9), other, atol=1e-6)
    np.testing.assert_allclose(alone(other, base, 10.0), base, atol=1e-12)


def test_what_is_known_without_noise_does_not_vouch_for_the_rest():
    """Rows of a model differ from known tables by chance: that is no error of the model."""
    rng, rows, law = np.random.default_rng(0), 20_000, np.full((8, 8), 1 / 64)
    cliques = [*itertools.combinations(range(12), 2)]
    counts = {c: rng.multinomial(rows, law.ravel()).reshape(8, 8) / rows for c in cliques}
    base = {c: scaled_to(table, marginals(law)) for c, table in counts.items()}
    known = set(cliques[:44])
    noisy = {c: law if c in known else law + centred(rng.normal(0, 0.01, (8, 8))) for c in cliques}
    std = {c: 0.0 if c in known else 0.01 for c in cliques}
    found = shrunk(noisy, base, std, rows=rows)
    for clique in cliques[44:]:
        np.testing.assert_allclose(found[clique], base[clique], atol=1e-9)


def test_shrunk_tables_are_nearer_to_the_truth_than_model_and_table():
    rng = np.random.default_rng(0)
    truths, bases, seen, stds = {}, {}, {}, {}
    for case in itertools.combinations(range(20), 2):
        base = np.outer(rng.dirichlet(np.full(6, 2.0)), rng.dirichlet(np.full(6, 2.0)))
        std = 10 ** rng.uniform(-3, -1.5)
        gap = 10 ** rng.uniform(-1.5, 0)
        truth = base * np.exp(gap * rng.normal(size=base.shape))
        truth = scaled_to(truth / truth.sum(), marginals(base))
        truths[case], bases[case], stds[case] = truth, base, std
        seen[case] = truth + rng.normal(0, std, base.shape)
    found = shrunk(seen, bases, stds)
    off = [[np.abs(some[c] - t).sum() for c, t in truths.items()] for some in (bases, seen, found)]
    model, table, both = np.mean(off, axis=1)
    assert both < 0.8 * min(model, table)


# -- rows swapped for others of a pool -----------------------------------------------------------
def misfit(rows, tables):
    """Compute the quantity that swaps reduce, in another way."""
    total = 0.0
    for pair, table in tables.items():
        want = table / table.sum() * len(rows)
        off = want - counted(rows, pair, table)
        total += (off**2 / np.sqrt(np.maximum(want, 1))).sum()
    return total


def counted(rows, pair, table):
    return len(rows) * table_of(rows, pair, dict(zip(pair, table.shape, strict=True)))


@st.composite
def pools(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=2, max_size=5))
    pool = dependent(rng, draw(st.integers(1, 300)), sizes)
    weights = rng.random(len(pool)) * (rng.random(len(pool)) < 0.8)
    weights = weights if weights.any() else np.ones(len(pool))
    rows = dependent(rng, 1000, sizes)
    every = [c for k in (1, 2, 3) for c in itertools.combinations(range(len(sizes)), k)]
    kept = draw(st.lists(st.sampled_from(every), min_size=1, unique=True))
    tables = {c: table_of(rows, c, sizes) * draw(st.sampled_from([1.0, 7e3])) for c in kept}
    return pool, weights / weights.sum(), tables, draw(st.integers(0, 400)), rng


@pytest.mark.long
@given(pools())
@settings(max_examples=30)
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
    tables, weights = tables_of(pool, sizes), np.full(len(pool), 1 / len(pool))
    chosen = resample(weights, n, rng, codes=pool)
    found = _swap(chosen, pool, tables, weights=weights, rng=rng)
    for k, times, more in ((2, 0.5, 0), (1, 1, 1e-3), (3, 1.02, 0)):
        truth = tables_of(pool, sizes, k)
        off = [np.mean(apart(pool[some], truth, sizes)) for some in (found, chosen)]
        assert off[0] <= times * off[1] + more


@pytest.mark.parametrize("dense", [0, 10**9])
def test_both_ways_to_count_what_swaps_change_agree(monkeypatch, dense):
    rng, sizes = np.random.default_rng(0), [3, 4, 5, 2]
    pool = dependent(rng, 5_000, sizes)
    weights = np.full(len(pool), 1 / len(pool))
    tables = tables_of(dependent(rng, 5_000, sizes), sizes)
    chosen = resample(weights, 1_000, rng, codes=pool)
    found = []
    for _ in range(2):
        rng = np.random.default_rng(1)
        found.append(_swap(chosen, pool, tables, weights=weights, rng=rng))
        monkeypatch.setattr(raking, "_DENSE", dense)
    np.testing.assert_array_equal(*found)


@given(st.integers(0, 100_000), st.integers(0, 40_000))
def test_work_is_bounded_whatever_there_is_to_do(n, tables):
    batch, rounds = raking._swap_plan(n, tables)
    assert 2 * batch * rounds * tables <= 60_000_000
    assert batch <= n
    assert rounds <= 1_000
    assert not rounds or 0 < n * tables <= 300_000_000


@pytest.mark.parametrize("n", [0, 1, 3_000])
def test_rows_of_a_model_of_pairs_are_swapped(n, monkeypatch):
    table = np.array([[0.4, 0.1], [0.1, 0.4]])
    law = fit_tree([table.sum(1), table.sum(0)], {(0, 1): table})
    alone = Levels(np.arange(2), np.ones(2))
    model = PairModel((alone, alone), law, {(0, 1): table}, MissingnessModel(np.zeros(2)), 3000.0)
    calls = []

    def noted(chosen, codes, tables, **rest):
        calls.append(len(chosen))
        return _swap(chosen, codes, tables, **rest)

    monkeypatch.setattr(raking, "_swap", noted)
    rows = model.complete(n, np.random.default_rng(0))
    assert sum(calls) == len(rows) == n
    if n > 1:
        np.testing.assert_allclose(counted(rows, (0, 1), table), n * table)
