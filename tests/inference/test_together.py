"""Columns that are missing together stay together, whatever noise their counts have."""

from itertools import combinations

import numpy as np
import pytest

from missdp.inference.masks import MaskModel
from missdp.inference.together import groups_of, pooled, tied

ROWS, NOISE = 10_000, 240.0


def counts(holes, rng, std=NOISE):
    pairs = combinations(range(holes.shape[1]), 2)
    return {
        (a, b): (float((holes[:, a] & holes[:, b]).sum()) + rng.normal(0, std), std)
        for a, b in pairs
    }


def holes_of(rng, rate):
    """Three columns with the same holes, one with some of them, and three of their own."""
    one = rng.random(ROWS) < rate
    some = one & (rng.random(ROWS) < 0.5)
    return np.stack([one, one, one, some, *(rng.random((3, ROWS)) < rate)], axis=1)


@pytest.mark.parametrize("rate", [0.15, 0.4])
def test_groups_are_found(rate):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        holes = holes_of(rng, rate)
        found = groups_of(counts(holes, rng), holes.mean(axis=0), ROWS)
        assert (0, 1, 2) in [own[:3] for own in found]
        assert all(max(own) < 4 for own in found)


def test_many_columns_with_few_holes_make_up_for_noise():
    rng = np.random.default_rng(0)
    holes = np.repeat(rng.random((ROWS, 1)) < 0.05, 6, axis=1)
    (found,) = groups_of(counts(holes, rng), holes.mean(axis=0), ROWS)
    assert len(found) >= 5
    alone = rng.random((ROWS, 6)) < 0.05
    assert groups_of(counts(alone, rng), alone.mean(axis=0), ROWS) == ()


def test_holes_that_coincide_half_the_time_are_no_group():
    rng = np.random.default_rng(0)
    one = rng.random(ROWS) < 0.4
    other = np.where(rng.random(ROWS) < 0.5, one, rng.random(ROWS) < 0.4)
    holes = np.stack([one, other], axis=1)
    assert groups_of(counts(holes, rng, 100.0), holes.mean(axis=0), ROWS) == ()


def test_holes_of_a_group_are_drawn_as_one():
    rng = np.random.default_rng(0)
    masks = MaskModel(np.array([0.2, 0.2, 0.3, 0.2]))
    correlation = np.eye(4)
    correlation[0, 3] = correlation[3, 0] = 0.5
    masks.correlation = tied(correlation, [(0, 1)])
    assert np.linalg.eigvalsh(masks.correlation)[0] > 0
    assert masks.correlation[1, 3] == pytest.approx(0.25, abs=0.01)
    holes = masks.draw(np.zeros((ROWS, 4), dtype=np.int64), rng)
    assert (holes[:, 0] ^ holes[:, 1]).mean() < 0.003
    assert (holes[:, 0] & holes[:, 2]).mean() == pytest.approx(0.06, abs=0.01)
    assert tied(correlation, []) is correlation


def test_what_is_known_of_a_group_is_averaged():
    rng = np.random.default_rng(0)
    holes = holes_of(rng, 0.4)
    _, both = pooled([(0, 1)], {}, counts(holes, rng), holes.mean(axis=0))
    assert (0, 1) not in both
    assert both[0, 5] == both[1, 5]
    assert both[0, 5][1] == pytest.approx(NOISE / np.sqrt(2))
    assert both[5, 6][1] == NOISE
