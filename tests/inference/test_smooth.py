"""Dependence of ordered attributes is leaned on what is smooth; where all is noise, on nothing."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp.inference.smooth import Smoothing


def smooth_pairs(margins, seen, variances, ordered):
    found = Smoothing.of(margins, seen, variances, ordered, flat=False)
    return found.means(), found.told


def tables(seed, *, levels=10, attributes=8, strength=0.3, std=0.002):
    """Truth (a trend), what is seen of it, the variance of its noise, and margins."""
    rng = np.random.default_rng(seed)
    margins = [rng.dirichlet(np.full(levels, 20.0)) for _ in range(attributes)]
    middle = np.eye(levels) - 1 / levels
    truth, seen, variances = {}, {}, {}
    for a in range(attributes):
        for b in range(a + 1, attributes):
            p, q = margins[a], margins[b]
            x, y = np.cumsum(p) - p / 2 - 0.5, np.cumsum(q) - q / 2 - 0.5
            truth[a, b] = strength * rng.uniform(-1, 1) * 12 * np.outer(p * x, q * y)
            noise = middle @ rng.normal(0, std, (levels, levels)) @ middle
            seen[a, b] = truth[a, b] + noise
            variances[a, b] = np.full((levels, levels), (std * (1 - 1 / levels)) ** 2)
    return truth, seen, variances, margins


def error(found, truth):
    return sum(float(np.square(found[pair] - truth[pair]).sum()) for pair in truth)


@pytest.mark.parametrize("seed", range(3))
def test_trends_survive_noise_that_hides_cells(seed):
    truth, seen, variances, margins = tables(seed)
    smooth, left = smooth_pairs(margins, seen, variances, [True] * 8)
    flat, _ = smooth_pairs(margins, seen, variances, [False] * 8)
    assert all((flat[pair] == seen[pair]).all() for pair in seen)  # nominal pairs stay
    assert error(smooth, truth) < 0.2 * error(seen, truth)
    both = [np.concatenate([t[pair].ravel() for pair in truth]) for t in (truth, smooth)]
    assert 0.9 < both[0] @ both[1] / (both[0] @ both[0]) < 1.05  # of a trend, little is lost
    assert all((left[pair] <= variances[pair]).all() for pair in left)


@pytest.mark.parametrize("seed", range(3))
def test_noise_alone_shrinks_to_next_to_nothing(seed):
    truth, seen, variances, margins = tables(seed, strength=0.0)
    smooth, _ = smooth_pairs(margins, seen, variances, [True] * 8)
    assert error(smooth, truth) < 0.12 * error(seen, truth)


def test_an_attribute_of_one_level_depends_on_nothing():
    pair = {(0, 1): np.zeros((3, 1))}
    found, _ = smooth_pairs([np.full(3, 1 / 3), np.ones(1)], pair, pair, [True, False])
    assert (found[0, 1] == 0).all()


@given(st.integers(0, 1000), st.integers(3, 12), st.booleans())
def test_what_is_not_noisy_stays_and_margins_are_kept(seed, levels, second):
    _truth, seen, variances, margins = tables(seed, levels=levels, attributes=2)
    ordered = [True, second]
    exact, _ = smooth_pairs(margins, seen, {p: 1e-30 * v for p, v in variances.items()}, ordered)
    assert np.allclose(exact[0, 1], seen[0, 1], atol=1e-9)
    leaned, _ = smooth_pairs(margins, seen, variances, ordered)
    assert np.abs(leaned[0, 1].sum(axis=0)).max() < 1e-9
    assert np.abs(leaned[0, 1].sum(axis=1)).max() < 1e-9


@pytest.mark.parametrize("strength", [0.03, 0.1, 0.3])
def test_draws_vary_as_the_truth_does_given_what_was_released(strength):
    # Not as what is perturbed and shrunk again does: where relations are weak that is too little.
    errors, spread, twice = 0.0, 0.0, 0.0
    middle = np.eye(10) - 1 / 10
    for seed in range(4):
        truth, seen, variances, margins = tables(seed, strength=strength)
        found = Smoothing.of(margins, seen, variances, [True] * 8)
        rng = np.random.default_rng(seed)
        errors += error(found.means(), truth)
        for _ in range(5):
            noise = {c: middle @ rng.normal(0, 0.002, (10, 10)) @ middle for c in seen}
            spread += error(found.drawn(noise), found.means()) / 5
            again = Smoothing(noise, variances, found.kept)
            twice += error(again.means(), {c: 0 * t for c, t in seen.items()}) / 5
    assert 0.8 < spread / errors < 4  # beyond trends there is nothing here, which no prior knows
    assert twice < 0.6 * spread
