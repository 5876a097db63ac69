"""The clipping bias follows from rows of a model, and from a model fitted to clipped sums."""

import itertools

import numpy as np
import pytest

from missdp.inference.fit_conditional_models import fit_conditional_models
from missdp.inference.product_sums import (
    RowVectors,
    clip_norm,
    clipped_away,
    clipped_share,
    independent_rows,
)


def table(n, rng):
    """Rows whose rare levels go together, so that clipping hits dependence most."""
    hidden = rng.random(n)
    rows = [(hidden > 0.9) & (rng.random(n) < 0.6) | (rng.random(n) < 0.05) for _ in range(5)]
    return np.stack([*rows, rng.integers(0, 4, n)], axis=1).astype(np.int64)


def blocks_of(rows):
    margins = [np.bincount(column) / len(rows) for column in rows.T]
    return margins, [np.eye(len(m)) - m for m in margins]


def means(rows, blocks, weights):
    """Weighted means over rows of blocks and of their products."""
    own = [block[rows[:, a]] for a, block in enumerate(blocks)]
    pairs = itertools.combinations(range(len(own)), 2)
    part = weights[:, None] / len(rows)
    return [(part * x).sum(axis=0) for x in own], {
        (a, b): (own[a] * part).T @ own[b] for a, b in pairs
    }


def kept(rows, blocks, clip, alone):
    return np.minimum(1, clip / RowVectors(blocks, alone).norms(rows))


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_norms_are_those_of_the_vectors_of_blocks_and_products(rng):
    rows = table(200, rng)
    _, blocks = blocks_of(rows)
    for row, alone in itertools.product(rows, (0.0, 1.2)):
        own = [block[level] for block, level in zip(blocks, row, strict=True)]
        pairs = [np.outer(x, y).ravel() for x, y in itertools.combinations(own, 2)]
        expected = np.linalg.norm(np.concatenate([*(alone * x for x in own), *pairs]))
        assert RowVectors(blocks, alone).norms(row[None]) == pytest.approx(expected)


def test_what_clipping_took_and_what_is_left_add_up(rng):
    rows = table(3_000, rng)
    _, blocks = blocks_of(rows)
    single, pairs, _ = clipped_away(rows, RowVectors(blocks, 1.2), 1.0)
    left = means(rows, blocks, kept(rows, blocks, 1.0, 1.2))
    whole = means(rows, blocks, np.ones(len(rows)))
    for a in range(len(blocks)):
        assert np.allclose(single[a] + left[0][a], whole[0][a])
    for pair, lost in pairs.items():
        assert np.allclose(lost + left[1][pair], whole[1][pair])


def test_a_model_fitted_to_clipped_sums_tells_what_was_lost(rng):
    rows = table(40_000, rng)
    margins, blocks = blocks_of(rows)
    clip, alone = 0.6, 1.2
    released = means(rows, blocks, kept(rows, blocks, clip, alone))[1]
    true = means(rows, blocks, np.ones(len(rows)))[1]
    share = clipped_share(independent_rows(margins, 2_000), RowVectors(blocks, alone), clip)[1]
    moments = {pair: values / share[pair] for pair, values in released.items()}

    def error(found):
        return max(np.abs(found[pair] - true[pair]).sum() for pair in true)

    guessed = error(moments)
    for _ in range(3):
        model = fit_conditional_models(margins, moments, {}, rng=rng)
        lost = clipped_away(model.sample(20_000, rng), RowVectors(blocks, alone), clip)[1]
        moments = {pair: values + lost[pair] for pair, values in released.items()}
    assert error(moments) < 0.9 * guessed < 0.25 * error(released)


def test_a_relation_that_a_model_lacks_is_put_back_as_the_size_of_its_products_is_clipped(rng):
    """Rows far out make most of a product. More of them is clipped than of all other rows."""
    levels = np.array([-1.0, 0.0, 1.0, 4.0])
    block = np.column_stack([np.eye(4) - 0.25, 0.6 * levels])
    rows = rng.choice(4, size=(20_000, 2), p=[0.35, 0.35, 0.25, 0.05])
    vectors = RowVectors([block, block], 1.2, {0: block[:, :2], 1: block[:, :2]})
    norms = vectors.norms(rows)
    clip = float(np.median(norms))
    share = 1 + 0.05 * levels[rows].prod(axis=1)  # of rows as the model has none
    left = np.minimum(1, clip / norms)
    weights = (share, share * left, 1 - left)
    whole, released, lost = (means(rows, vectors.blocks, w)[1][0, 1] for w in weights)
    taken = clipped_away(rows, vectors, clip)
    found = taken.add_bias((0, 1), released)
    assert taken.gains[0, 1][:-1, :-1] == pytest.approx(1.0)  # models alone determine cells
    assert (taken.gains[0, 1][-1] > 1.05).all()
    assert clipped_away(rows, RowVectors([block, block], 1.2), clip).gains == {}
    for at, part in ((np.s_[-1, -1], 0.02), (np.s_[-1, 3], 0.7), (np.s_[3, -1], 0.7)):
        assert abs(found[at] - whole[at]) < part * abs(released[at] + lost[at] - whole[at])


def test_independent_rows_have_the_margins_and_are_the_same_each_time():
    margins = [np.array([0.2, 0.3, 0.5]), np.array([1.0]), np.array([0.5, 0.5])]
    rows = independent_rows(margins, 4_000)
    for a, margin in enumerate(margins):
        assert np.abs(np.bincount(rows[:, a]) / 4_000 - margin).max() < 0.001
    assert abs(np.mean((rows[:, 0] == 2) & (rows[:, 2] == 1)) - 0.25) < 0.02
    assert (independent_rows(margins, 4_000) == rows).all()


def test_more_rows_are_clipped_the_more_noise_there_is(rng):
    margins, blocks = blocks_of(table(5_000, rng))
    norms = RowVectors(blocks, 1.2).norms(independent_rows(margins, 4_000))
    clips = [clip_norm(margins, RowVectors(blocks, 1.2), signal) for signal in (1, 5_000, 1e9)]
    shares = [(norms > clip).mean() for clip in clips]
    assert np.abs(np.array(shares) - [0.8, 0.5, 0.05]).max() < 0.1
    assert clips == sorted(clips)
    # Attributes of one level need no clipping.
    assert clip_norm([np.ones(1)] * 2, RowVectors([np.zeros((1, 1))] * 2, 1.0), 100.0) > 0
