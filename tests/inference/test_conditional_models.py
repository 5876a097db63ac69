"""Heads and the tree hold the pairs that they are given, and nothing that is not possible."""

import itertools

import numpy as np
import pytest

from inference.graphs import apart, dependence, tables_of
from missdp.inference.conditional_models import (
    ConditionalModels,
    _draw_evenly,
    attainable_marginal,
    level_blocks,
)
from missdp.inference.fit_conditional_models import fit_conditional_models, fit_tree


def ring(n, sizes, rng):
    """Rows in which every attribute depends on the one before it, and the first on the last."""
    rows = np.stack([rng.integers(0, s, n) for s in sizes], axis=1)
    for _ in range(3):
        for a, size in enumerate(sizes):
            copied = rng.random(n) < 0.45
            rows[copied, a] = rows[copied, a - 1] % size
    return rows


SIZES = [3, 4, 2, 5, 3]


def farthest(found, wanted, sizes=SIZES):
    """Largest total variation distance of any pair."""
    return max(apart(found, tables_of(wanted, sizes), sizes))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_heads_hold_every_pair_and_a_tree_does_not(rng):
    rows = ring(40_000, SIZES, rng)
    margins, moments = dependence(rows, SIZES)
    heads = fit_conditional_models(margins, moments, {}, rng=rng).sample(40_000, rng)
    tree = fit_tree(margins, tables_of(rows, SIZES)).sample(40_000, rng)
    assert farthest(heads, rows) < 0.012
    assert farthest(tree, rows) > 0.03


def test_margins_are_kept_by_heads_whose_contexts_have_moved(rng):
    rows = ring(20_000, SIZES, rng)
    margins, moments = dependence(rows, SIZES)
    found = fit_conditional_models(margins, moments, {}, rng=rng)
    first = found.order[0]
    shifted = list(found.biases)
    shifted[first] = shifted[first] + np.linspace(0, 0.3, SIZES[first])
    moved = ConditionalModels(found.order, found.marginals, tuple(shifted), found.weights)
    drawn = moved.sample(20_000, rng)
    off = [np.abs(m - n).max() for m, n in zip(dependence(drawn, SIZES)[0], margins, strict=True)]
    assert off[first] > 0.02
    assert off[found.order[-1]] < 0.002


def test_noise_is_not_taken_for_dependence(rng):
    rows = ring(2_000, SIZES, rng)
    margins, moments = dependence(rows, SIZES)
    noisy = {k: 0 * v + rng.normal(0, 0.05, v.shape) for k, v in moments.items()}
    variances = dict.fromkeys(noisy, 0.05**2)
    loose = fit_conditional_models(margins, noisy, {}, rng=rng).sample(5_000, rng)
    found = fit_conditional_models(margins, noisy, variances, rng=rng).sample(5_000, rng)
    product = np.stack([rng.choice(len(m), 5_000, p=m) for m in margins], axis=1)
    assert farthest(found, product) < 0.6 * farthest(loose, product)


@pytest.mark.parametrize("most", [32, 1])
def test_what_is_impossible_is_never_drawn(rng, most, monkeypatch):
    monkeypatch.setattr("missdp.inference.fit_conditional_models._MAX_PARENTS", most)
    rows = ring(30_000, SIZES, rng)
    rows = rows[~((rows[:, 0] == 0) & (rows[:, 1] < 2)) & ~((rows[:, 4] == 2) & (rows[:, 3] == 0))]
    allowed = {(0, 1): np.ones((3, 4), dtype=bool), (4, 3): np.ones((3, 5), dtype=bool)}
    allowed[0, 1][0, :2], allowed[4, 3][2, 0] = False, False
    margins, moments = dependence(rows, SIZES)
    noisy = {k: v + rng.normal(0, 0.01, v.shape) for k, v in moments.items()}
    variances = dict.fromkeys(noisy, 1e-4)
    del noisy[0, 1]  # a rule does not need a table
    model = fit_conditional_models(margins, noisy, variances, allowed=allowed, rng=rng)
    drawn = model.sample(20_000, rng)
    for (a, b), possible in allowed.items():
        assert possible[drawn[:, a], drawn[:, b]].all()
    assert np.abs(dependence(drawn, SIZES)[0][3] - margins[3]).max() < 0.02


@pytest.mark.long
def test_one_level_many_levels_and_pairs_without_a_table(rng):
    sizes = [1, 300, 2, 40]
    rows = np.zeros((60_000, 4), dtype=int)
    rows[:, 1] = rng.integers(0, 300, 60_000)
    rows[:, 2] = (rows[:, 1] > 150) ^ (rng.random(60_000) < 0.1)
    rows[:, 3] = (rows[:, 1] // 8 + rng.integers(0, 3, 60_000)) % 40
    margins, moments = dependence(rows, sizes)
    del moments[2, 3]
    tables = tables_of(rows, sizes)
    tree = fit_tree(margins, {pair: tables[pair] for pair in moments})
    for model in (fit_conditional_models(margins, moments, {}, rng=rng), tree):
        drawn = model.sample(60_000, rng)
        assert (drawn[:, 0] == 0).all()
        agree = ((drawn[:, 1] > 150) == drawn[:, 2]).mean()
        assert 0.88 < agree < 0.92
        assert np.mean((drawn[:, 3] - drawn[:, 1] // 8) % 40 < 3) > 0.8


@pytest.mark.parametrize("d", [1, 2])
def test_few_attributes(rng, d):
    margins = [np.array([0.25, 0.75])] * d
    assert fit_conditional_models(margins, {}, {}, rng=rng).sample(400, rng).sum() == 300 * d
    assert fit_tree(margins, {}).sample(400, rng).sum() == 300 * d
    assert fit_tree(margins, {}).sample(0, rng).shape == (0, d)


def test_the_tree_is_the_strongest_one():
    rng = np.random.default_rng(1)
    chain = np.zeros((30_000, 4), dtype=int)
    chain[:, 2] = rng.integers(0, 3, 30_000)
    for a, before, same in ((0, 2, 0.9), (3, 0, 0.8), (1, 3, 0.7)):
        kept = rng.random(30_000) < same
        chain[:, a] = np.where(kept, chain[:, before], rng.integers(0, 3, 30_000))
    margins, _ = dependence(chain, [3] * 4)
    model = fit_tree(margins, tables_of(chain, [3] * 4))
    edges = {frozenset((a, p[0])) for a, p in enumerate(model.parents) if p}
    assert edges == {frozenset(e) for e in ((0, 2), (0, 3), (1, 3))}
    assert farthest(model.sample(30_000, rng), chain, [3] * 4) < 0.01


def test_even_draws_follow_each_rows_law(rng):
    law = rng.dirichlet(np.full(7, 0.4), size=20_000).astype(np.float32)
    law[:, 3] = 0
    law[:5_000] = 0
    law[:5_000, 5] = 1  # certain
    law /= law.sum(axis=1, keepdims=True)
    drawn = _draw_evenly(np.ascontiguousarray(law.T), rng.permutation(20_000), rng)
    assert (drawn[:5_000] == 5).all()
    assert (law[np.arange(20_000), drawn] > 0).all()
    counts = np.bincount(drawn, minlength=7)
    assert np.abs(counts - law.sum(axis=0, dtype=float)).max() < 6
    # The law of single rows, not only of their sum.
    likely = law.argmax(axis=1)
    assert abs((drawn == likely).mean() - law.max(axis=1).mean()) < 0.01


def test_even_draws_of_two_attributes_do_not_move_together(rng):
    margins = [np.array([0.5, 0.5])] * 3
    weights = {(a, c): np.zeros((2, 2)) for a, c in ((1, 0), (2, 0), (2, 1))}
    model = ConditionalModels((0, 1, 2), tuple(margins), tuple(np.log(m) for m in margins), weights)
    drawn = model.sample(10_000, rng)
    same = [(drawn[:, a] == drawn[:, b]).mean() for a, b in ((0, 1), (0, 2), (1, 2))]
    assert np.abs(np.array(same) - 0.5).max() < 0.02


@pytest.mark.long
def test_weights_stay_bounded_where_attributes_tell_each_other(rng):
    grade = np.minimum(rng.geometric(0.35, 30_000) - 1, 15)  # some levels are rare
    rows = np.stack(
        [grade // 4, 15 - grade, grade, (rng.random(30_000) < 0.3) ^ (grade > 3)], axis=1
    )
    margins, moments = dependence(rows, [4, 16, 16, 2])
    model = fit_conditional_models(margins, moments, dict.fromkeys(moments, 1e-14), rng=rng)
    assert max(float(np.abs(table).max()) for table in model.weights.values()) < 300
    assert farthest(model.sample(30_000, rng), rows, [4, 16, 16, 2]) < 0.01


@pytest.mark.parametrize("seed", range(2))
def test_levels_that_limits_decide_do_not_spoil_the_others(seed):
    """Level 0 of the last attribute occurs with level 1 of the first. Noise contradicts this."""
    rng = np.random.default_rng(seed)
    works = np.array([0.65, 0.35])
    pay = np.array([0.35, *(0.65 * np.array([0.04, 0.2, 0.3, 0.22, 0.14, 0.07, 0.03]))])
    margins = [works, np.array([0.3, 0.3, 0.4]), np.array([0.25, 0.75]), pay]
    pairs = itertools.combinations(range(4), 2)
    truth = {(a, b): np.zeros((len(margins[a]), len(margins[b]))) for a, b in pairs}
    possible = np.ones((2, 8), dtype=bool)
    possible[0, 0], possible[1, 1:] = False, False
    truth[0, 3] = np.where(possible, pay, 0.0) - np.outer(works, pay)
    noisy = [np.abs(m + rng.normal(0, 0.002, len(m))) for m in margins]
    noisy = [m / m.sum() for m in noisy]
    moments = {pair: table + rng.normal(0, 3e-4, table.shape) for pair, table in truth.items()}
    variances = dict.fromkeys(moments, 9e-8)
    model = fit_conditional_models(noisy, moments, variances, rng=rng, allowed={(0, 3): possible})
    drawn = model.sample(20_000, rng)
    assert np.array_equal(drawn[:, 0] == 1, drawn[:, 3] == 0)
    assert np.abs(np.bincount(drawn[:, 3], minlength=8) / 20_000 - pay).max() < 0.012


@pytest.mark.parametrize("seed", range(4))
def test_blocks_of_levels_that_limits_decide_keep_all_their_levels(seed):
    """Three spellings of "woman" go with two answers, and three of "man" with none.

    Noise disagrees.
    """
    rng = np.random.default_rng(seed)
    sex, answer = np.array([0.42, 0.05, 0.04, 0.40, 0.05, 0.04]), np.array([0.05, 0.46, 0.49])
    possible = np.zeros((6, 3), dtype=bool)
    possible[:3, :2] = possible[3:, 2] = True
    pair = np.zeros((6, 3))
    pair[:3, :2] = np.outer(sex[:3], answer[:2] / answer[:2].sum())
    pair[3:, 2] = sex[3:]
    noisy = [np.maximum(m + rng.normal(0, 0.02, len(m)), 1e-3) for m in (sex, answer)]
    noisy = [m / m.sum() for m in noisy]
    moments = {(0, 1): pair - np.outer(sex, answer) + rng.normal(0, 0.02, pair.shape)}
    model = fit_conditional_models(
        noisy, moments, {(0, 1): 4e-4}, rng=rng, allowed={(0, 1): possible}
    )
    assert max(float(np.abs(bias).max()) for bias in model.biases) < 100
    drawn = model.sample(20_000, rng)
    assert possible[drawn[:, 0], drawn[:, 1]].all()
    assert np.abs(np.bincount(drawn[:, 0], minlength=6) / 20_000 - sex).max() < 0.08


def test_a_margin_is_scaled_to_the_blocks_that_rows_decide():
    possible = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 0], [0, 0, 0, 1]])
    possible = np.vstack([possible, np.zeros(4, dtype=int)])  # and a level that no row can have
    closed = np.where(possible, 0.0, -np.inf).astype(np.float32)
    levels, rows = level_blocks(closed)
    assert len({*levels.tolist()}) == 4
    assert [levels[0], levels[2], levels[4]] == [rows[0], rows[2], rows[3]]
    margin = attainable_marginal(np.array([0.3, 0.1, 0.2, 0.2, 0.1, 0.1]), levels, rows)
    assert margin == pytest.approx([0.375, 0.125, 0.125, 0.125, 0.25, 0.0])


def test_levels_that_are_linked_through_rows_share_a_block():
    """No row allows the last two levels of the first block together, but both go with the first."""
    possible = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]])
    levels, rows = level_blocks(np.where(possible, 0.0, -np.inf).astype(np.float32))
    assert levels[0] == levels[1] == levels[2] != levels[3]
    assert rows.tolist() == [levels[0], levels[0], levels[3]]
