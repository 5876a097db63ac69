"""Noisy trees over a grid: the sensitivity to one row, and the histograms made of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp.inference.dyadic import (
    decaying_tail,
    fit_histogram,
    measured_levels,
    node_counts,
    occupied_range,
    tree_depth,
)


def noisy(cells, levels, std, rng):
    return [v + rng.normal(0, std, v.shape) for v in node_counts(cells, levels)]


def fitted(cells, std, rng):
    """Return the histogram of cells that is fitted to a tree of every other level."""
    levels = measured_levels(len(cells), every=2)
    return fit_histogram(noisy(cells, levels, std, rng), std=std, size=len(cells), levels=levels)


@pytest.mark.long
@given(st.integers(2, 300), st.data(), st.sampled_from((1, 2, 3)))
def test_one_row_is_in_one_node_of_each_level(size, data, every):
    cells = np.array(data.draw(st.lists(st.integers(0, 9), min_size=size, max_size=size)))
    more = cells.copy()
    more[data.draw(st.integers(0, size - 1))] += 1
    levels = measured_levels(size, every=every)
    moved = [
        b - a for a, b in zip(node_counts(cells, levels), node_counts(more, levels), strict=True)
    ]
    assert len(moved) == len(levels) <= math.ceil(tree_depth(size) / every)
    assert all(m.sum() == 1 and np.abs(m).sum() == 1 for m in moved)


@given(st.integers(2, 200), st.integers(0, 2**32 - 1), st.sampled_from((1, 3)))
def test_without_noise_nothing_is_lost(size, seed, every):
    cells = np.random.default_rng(seed).integers(0, 50, size) + 1
    levels = measured_levels(size, every=every)
    found = fit_histogram(node_counts(cells, levels), std=1e-6, size=size, levels=levels)
    assert found.starts.tolist() == list(range(size + 1))
    np.testing.assert_allclose(found.mass, cells / cells.sum(), atol=1e-9)
    assert found.rows == pytest.approx(cells.sum())


@given(st.integers(2, 400), st.floats(0.1, 1e4), st.integers(0, 2**32 - 1), st.sampled_from((1, 3)))
def test_whatever_the_noise_it_is_a_distribution(size, std, seed, every):
    rng = np.random.default_rng(seed)
    levels = measured_levels(size, every=every)
    seen = noisy(rng.poisson(3, size), levels, std, rng)
    found = fit_histogram(seen, std=std, size=size, levels=levels)
    assert (found.starts[0], found.starts[-1]) == (0, size)
    assert (np.diff(found.starts) > 0).all()
    assert (found.mass >= 0).all()
    assert found.mass.sum() == pytest.approx(1)


def _drawn(seed, *, trim):
    """Return the error of a long-tailed column's mean by a tree, in standard deviations."""
    rng = np.random.default_rng(seed)
    edges = np.sinh(np.linspace(0, np.arcsinh(1e8), 4097))
    values = rng.lognormal(5, 1.2, 20_000)
    cells = np.histogram(np.minimum(values, 1e8), edges)[0]
    std = 150.0
    (look,) = noisy(cells, [4], std, rng)
    start, stop = occupied_range(look, std=std, size=len(cells))
    inside = cells[start:stop].copy()
    inside[-1] += cells[stop:].sum()
    levels = measured_levels(len(inside), every=2)
    seen, edges = noisy(inside, levels, std, rng), edges[start : stop + 1]
    tree = {"std": std, "size": len(inside), "levels": levels}
    found = fit_histogram(seen, **tree, reach=(edges[:-1], edges[1:]))
    mass = found.mass if trim else np.maximum(np.add.reduceat(seen[-1], found.starts[:-1]), 0)
    middle = (edges[found.starts[:-1]] + edges[found.starts[1:]]) / 2
    return abs(mass @ middle / mass.sum() - values.mean()) / values.std()


@pytest.mark.long
def test_means_of_long_tails_survive():
    """Stray mass in the widest intervals would move them by several standard deviations."""
    seeds = range(60)
    assert max(_drawn(seed, trim=True) for seed in seeds) < 0.25
    assert np.median([_drawn(seed, trim=False) for seed in seeds]) > 0.05


@given(st.integers(17, 500), st.data())
def test_the_range_holds_whatever_stands_out_and_no_more_than_its_nodes(size, data):
    first = data.draw(st.integers(0, size - 1))
    last = data.draw(st.integers(first, size - 1))
    cells = np.zeros(size, dtype=int)
    cells[[first, last]] = 1000
    start, stop = occupied_range(node_counts(cells, [4])[0], std=1.0, size=size)
    width = 2 ** (tree_depth(size) - 4)
    assert 0 <= start <= first <= last < stop <= size
    assert stop - start <= max(2, last - first + 2 * width)
    assert occupied_range(np.zeros(16), std=1.0, size=size) == (0, size)


def test_a_tail_is_looked_for_in_all_levels_and_not_past_the_last_cell():
    """Half of the rows are at 0. The others are further out than any of their counts shows."""
    rng, cells = np.random.default_rng(0), np.zeros(1100, dtype=int)
    cells[0], cells[520:1000:4] = 1200, 4
    found = np.array([fitted(cells, 60.0, rng).mass[0] for _ in range(60)])
    assert (found > 0.97).mean() < 0.05  # it was lost in one of eight
    assert np.mean(found) == pytest.approx(1200 / 1680, abs=0.1)


def test_noise_further_out_does_not_hide_a_heap_at_the_end():
    rng, cells = np.random.default_rng(0), np.zeros(1000, dtype=int)
    cells[:20], cells[24] = 180, 235
    found = []
    for told in (fitted(cells, 36.0, rng) for _ in range(200)):
        found.append(told.mass[np.searchsorted(told.starts, 24, "right") - 1 :].sum())
    assert np.mean(np.array(found) > 0.03) > 0.97  # it was moved inwards in one of fifteen


def test_a_first_look_adds_up_neighbours():
    """Two cells of twice the noise each are seen, though nothing lies outside of them."""
    look = np.array([50_000, 400, *[0] * 8, 230, 230, *[0] * 4])
    assert occupied_range(look, std=100.0, size=16) == (0, 12)


@given(st.floats(0.1, 1e5), st.integers(1, 5000), st.floats(0, 1e3))
def test_rows_at_an_end_fall_off_from_those_beside_them(rows, cells, even):
    stops, found = decaying_tail(rows, cells, even=even)
    assert stops[-1] == cells
    widths = np.diff(stops, prepend=0)
    assert (widths > 0).all()
    assert found.sum() == pytest.approx(rows)
    density = found / widths
    assert (np.diff(density) <= 1e-9 * rows).all()
    even = max(even, 1e-3 * rows)
    assert density[0] <= 1.05 * max(even, rows / cells)
    if rows >= even * cells:
        assert len(stops) == 1  # more rows than the cells can hold at this density: evenly
    elif cells >= 8 and rows < even * cells / 2:
        assert density[0] > 1.2 * rows / cells


def test_a_cell_that_stands_out_by_itself_is_a_heap_whatever_it_lies_in():
    """The half of four cells does not stand out.

    The cell in it that stands out is not spread over it.
    """
    counts = [np.array([30, 100]), np.array([0, -8, 48, -5, 50, 0, 50, 0])]
    told = fit_histogram(counts, std=10.0, size=8, levels=[1, 3])
    at = np.searchsorted(told.starts, 2)
    assert told.starts[at : at + 2].tolist() == [2, 3]
    assert told.mass[at] == pytest.approx(0.24, abs=0.03)
    even = [counts[0], np.array([20, 7, 30, 0, 50, 0, 50, 0])]
    assert 4 in fit_histogram(even, std=10.0, size=8, levels=[1, 3]).starts[:2]


def test_a_cell_is_a_heap_of_its_own_from_as_far_out_as_is_said():
    """Laplace noise is far out as often, so that pure budgets ask for more."""
    cells = np.full(64, 1.0)
    cells[37] = 70.0
    counts = [np.where(np.arange(8) == 4, 30.0, 8.0), cells]
    for heap, apart in ((4.5, True), (8.4, False)):
        found = fit_histogram(counts, std=10.0, size=64, levels=[3, 6], min_spike=heap)
        assert ({37, 38} <= {*found.starts.tolist()}) == apart
