"""Noisy trees over a grid: how far one row moves them, and what is made of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp.inference.dyadic import depth_of, fit_histogram, folded, measured_levels


@given(st.integers(2, 300), st.data(), st.sampled_from((1, 2, 3)))
def test_one_row_is_in_one_node_of_each_level(size, data, every):
    cells = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    more = cells.copy()
    more[data.draw(st.integers(0, size - 1))] += 1
    levels = measured_levels(size, every=every)
    moved = [
        b - a for a, b in zip(folded(cells, every=every), folded(more, every=every), strict=True)
    ]
    assert len(moved) == len(levels) <= math.ceil(depth_of(size) / every)
    assert all(m.sum() == 1 and np.abs(m).sum() == 1 for m in moved)


@given(st.integers(2, 200), st.integers(0, 2**32 - 1), st.sampled_from((1, 3)))
def test_without_noise_nothing_is_lost(size, seed, every):
    cells = np.random.default_rng(seed).integers(0, 50, size) + 1
    found = fit_histogram(folded(cells, every=every), std=1e-6, size=size, every=every)
    assert found.starts.tolist() == list(range(size + 1))
    np.testing.assert_allclose(found.mass, cells / cells.sum(), atol=1e-9)
    assert found.rows == pytest.approx(cells.sum())


@given(st.integers(2, 400), st.floats(0.1, 1e4), st.integers(0, 2**32 - 1), st.sampled_from((1, 3)))
def test_whatever_the_noise_it_is_a_distribution(size, std, seed, every):
    rng = np.random.default_rng(seed)
    noisy = [v + rng.normal(0, std, v.shape) for v in folded(rng.poisson(3, size), every=every)]
    found = fit_histogram(noisy, std=std, size=size, every=every)
    assert found.starts[0] == 0
    assert found.starts[-1] == size
    assert (np.diff(found.starts) > 0).all()
    assert (found.mass >= 0).all()
    assert found.mass.sum() == pytest.approx(1)


def _drawn(seed, *, trim):
    """Mean of a long-tailed column, in standard deviations off, as a tree tells it."""
    rng = np.random.default_rng(seed)
    edges = np.sinh(np.linspace(0, np.arcsinh(1e6), 4097))
    values = rng.lognormal(5, 1.2, 20_000)
    cells = np.histogram(np.minimum(values, 1e6), edges)[0]
    std = 150.0
    noisy = [v + rng.normal(0, std, v.shape) for v in folded(cells)]
    found = fit_histogram(noisy, std=std, size=len(cells))
    mass = found.mass if trim else np.maximum(np.add.reduceat(noisy[-1], found.starts[:-1]), 0)
    middle = (edges[found.starts[:-1]] + edges[found.starts[1:]]) / 2
    return abs(mass @ middle / mass.sum() - values.mean()) / values.std()


def test_means_of_long_tails_survive():
    """Stray mass in the widest intervals would move them by several standard deviations."""
    seeds = range(20)
    assert max(_drawn(seed, trim=True) for seed in seeds) < 0.25
    assert np.median([_drawn(seed, trim=False) for seed in seeds]) > 1
