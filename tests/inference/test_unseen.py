"""Attributes that count for another's mask only where they are observed."""

import numpy as np
import pytest
from scipy.special import expit

from missdp.inference.masks import MaskModel, Strip
from missdp.record import Record


def model(*, behind=-1.0):
    """Three attributes: the second's mask counts for the first's, the third's for the second's."""
    masks = MaskModel(np.array([0.3, 0.3, 0.2]))
    masks.slopes = {(0, 1): np.array([1.0, -1.0]), (1, 2): np.array([0.5, -0.5])}
    masks.unseen = {(0, 1): behind, (1, 2): 2.0}
    return masks


def rows(n=60_000):
    return np.random.default_rng(0).integers(0, 2, (n, 3))


def by_hand(masks, x):
    """Law of the eight masks of one row."""
    law = {}
    for m in np.ndindex(2, 2, 2):
        logits = [
            masks.intercepts[0] + (masks.unseen[0, 1] if m[1] else masks.slopes[0, 1][x[1]]),
            masks.intercepts[1] + (masks.unseen[1, 2] if m[2] else masks.slopes[1, 2][x[2]]),
            masks.intercepts[2],
        ]
        law[m] = np.prod(
            [expit(z) if hole else expit(-z) for hole, z in zip(m, logits, strict=True)]
        )
    return law


def test_masks_are_drawn_by_the_law_of_the_formula_and_chances_are_its_margins():
    masks, x = model(), rows()
    drawn, missing = masks.draw(x, np.random.default_rng(1)), masks.missing(x)
    for row in np.ndindex(2, 2, 2):
        at, law = (x == row).all(axis=1), by_hand(masks, row)
        for mask, chance in law.items():
            assert (drawn[at] == mask).all(axis=1).mean() == pytest.approx(chance, abs=0.015)
        for a in range(3):
            alone = sum(p for m, p in law.items() if m[a])
            assert missing[at, a].mean() == pytest.approx(alone, abs=0.01)
        for clique in ((0, 1), (0, 2), (1, 2), (0, 1, 2)):
            seen = sum(p for m, p in law.items() if not any(m[v] for v in clique))
            found = masks.observed(x, clique, missing)[at].mean()
            assert found == pytest.approx(seen, abs=0.01)


def released(x, holes, *, std=1.0):
    """Strips and coincidences of two attributes, without noise."""
    strips = {}
    for a, b in ((0, 1), (1, 0)):
        seen = ~holes[:, b]
        gone = np.bincount(x[seen & holes[:, a], b], minlength=2).astype(float)
        strips[a, b] = Strip(gone, np.bincount(x[seen, b], minlength=2).astype(float), std, 2)
    return strips, {(0, 1): (float(holes.all(axis=1).sum()), std)}


def learned(x, holes, *, masks=None):
    strips, both = released(x, holes)
    masks = MaskModel(holes.mean(axis=0)) if masks is None else masks
    masks.learn(x, len(x), strips, ridge=0.1, sweeps=30)
    masks.learn(x, len(x), strips, ridge=0.1, sweeps=60, both=both)
    return masks


def two(n=40_000):
    rng = np.random.default_rng(2)
    b = rng.integers(0, 2, n)
    a = (rng.random(n) < 0.2 + 0.6 * b).astype(int)
    return np.stack([a, b], axis=1), rng


@pytest.mark.parametrize("behind", [0.1, 0.4, 0.8])
def test_that_is_found_and_the_rate_behind(behind):
    """Also if that rate is the mean of the others (0.4), by what it does to who is seen."""
    x, rng = two()
    hidden = rng.random(len(x)) < 0.3
    chance = np.where(hidden, behind, np.where(x[:, 1] == 1, 0.7, 0.1))
    holes = np.stack([rng.random(len(x)) < chance, hidden], axis=1)
    masks = learned(x, holes)
    assert set(masks.unseen) == {(0, 1)}
    assert expit(masks.intercepts[0] + masks.unseen[0, 1]) == pytest.approx(behind, abs=0.02)
    seen = expit(masks.intercepts[0] + masks.slopes[0, 1])
    np.testing.assert_allclose(seen, [0.1, 0.7], atol=0.03)
    # The second is missing completely at random, though not among those with the first.
    assert np.ptp(masks.slopes[1, 0]) < 0.15


@pytest.mark.parametrize("other", [(0.3, 0.3), (0.2, 0.4)])
def test_values_that_count_whether_observed_or_not_are_left_alone(other):
    x, rng = two()
    chances = np.stack([np.array([0.1, 0.7])[x[:, 1]], np.array(other)[x[:, 0]]], axis=1)
    masks = learned(x, rng.random(x.shape) < chances)
    assert not masks.unseen
    np.testing.assert_allclose(
        [masks.missing(x)[x[:, 1] == v, 0].mean() for v in (0, 1)], [0.1, 0.7], atol=0.02
    )


def test_a_level_that_is_never_missing_stays_so_and_older_files_are_read():
    masks, x = model(), rows(1000)
    masks.always = {0: 1, 1: 0}
    holes = masks.draw(x, np.random.default_rng(3))
    assert holes.any(axis=0).all()
    assert not holes[x[:, 0] == 1, 0].any()
    assert not holes[x[:, 1] == 0, 1].any()
    written = masks.to_dict()
    assert Record.from_dict(written).unseen == masks.unseen
    del written["unseen"], written["told"]
    assert (Record.from_dict(written).unseen, Record.from_dict(written).told) == ({}, {})


def told():
    """The last level of the first attribute is told by the second, that of the second by none."""
    masks = MaskModel(np.array([0.3, 0.3, 0.2]), {0: 1, 1: 0}, told={0: (1,)})
    masks.slopes = {(1, 2): np.array([0.5, -0.5])}
    masks.unseen = {(1, 2): 2.0}
    return masks


def test_a_level_that_another_tells_is_missing_just_where_that_one_is():
    masks, x = told(), rows()
    holes, level = masks.draw(x, np.random.default_rng(3)), x[:, 0] == 1
    assert holes.any(axis=0).all()
    assert (holes[level, 0] == holes[level, 1]).all()
    assert (holes[~level, 0] != holes[~level, 1]).any()
    missing = masks.missing(x)
    for row in np.ndindex(2, 2, 2):
        at = (x == row).all(axis=1)
        assert missing[at].mean(axis=0) == pytest.approx(holes[at].mean(axis=0), abs=0.02)
        for clique in ((0, 1), (0, 2), (0, 1, 2)):
            seen = ~holes[at][:, clique].any(axis=1)
            found = masks.observed(x, clique, missing)[at].mean()
            assert found == pytest.approx(seen.mean(), abs=0.02)


def test_levels_that_are_told_by_told_ones_are_missing_with_the_first():
    masks = MaskModel(np.array([0.2, 0.2, 0.3]), {0: 1, 1: 1}, told={0: (1,), 1: (2,)})
    x = np.ones((5000, 3), dtype=np.int64)
    holes = masks.draw(x, np.random.default_rng(0))
    assert 0.25 < holes[:, 2].mean() < 0.35
    assert (holes == holes[:, [2]]).all()
    assert masks.missing(x) == pytest.approx(np.full((5000, 3), 0.3))
    assert masks.explained == {(0, 1), (1, 2), (0, 2)}


def test_holes_are_not_learned_from_a_level_that_they_hide():
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 2, 40_000)[:, np.newaxis], 2, axis=1)  # both or neither
    gone = rng.random(len(x)) < 0.2
    holes = np.stack([gone & (x[:, 0] == 1), gone], axis=1)
    for by, slopes in ({}, {(1, 0), (0, 1)}), ({0: (1,)}, {(0, 1)}):
        masks = learned(x, holes, masks=MaskModel(holes.mean(axis=0), {0: 1}, told=by))
        assert {effect for effect, slope in masks.slopes.items()} == slopes
    assert masks.missing(x)[:, 1] == pytest.approx(np.full(len(x), 0.2), abs=0.01)
    assert not masks.unseen
