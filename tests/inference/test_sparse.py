"""Nearly functional pairs are found under noise, and others are left to the smooth prior."""

import numpy as np
import pytest

from missdp.inference.smooth import Smoothing
from missdp.inference.sparse import shared_margins, sparse_tables

LEVELS = 20


def noisy(table, rng, std):
    """Centred noise on a table, margins with noise of their own, and the variance of a cell."""

    def moved(margin):
        margin = np.maximum(margin + rng.normal(0, std / 2, margin.shape), 1e-6)
        return margin / margin.sum()

    margins = moved(table.sum(axis=1)), moved(table.sum(axis=0))
    noise = rng.normal(0, std, table.shape)
    noise -= noise.mean(axis=0)
    noise -= noise.mean(axis=1, keepdims=True)
    dependence = table - np.outer(table.sum(axis=1), table.sum(axis=0))
    return margins, {(0, 1): dependence + noise}, {(0, 1): np.full(table.shape, std**2)}


def mixed(share, rng, levels=LEVELS):
    """A table of two attributes that are equal in a share of the rows, and else independent."""
    margin = rng.dirichlet(np.full(levels, 5.0))
    return share * np.diag(margin) + (1 - share) * np.outer(margin, margin)


def test_a_function_is_found_exactly_where_noise_hides_it():
    rng = np.random.default_rng(0)
    table = mixed(1.0, rng)
    margins, pairs, variances = noisy(table, rng, 0.0027)
    found = sparse_tables(margins, pairs, variances, [False, False], {})[0, 1]
    assert (found.possible == np.eye(LEVELS, dtype=bool)).mean() > 0.99
    assert np.trace(found.table) > 0.99
    shared = shared_margins(margins, {(0, 1): found})
    truth = table.sum(axis=1)
    assert np.abs(shared[0] - shared[1]).sum() < 0.01
    assert np.abs(shared[0] - truth).sum() < np.abs(margins[0] - truth).sum()


@pytest.mark.parametrize("share", [0.9, 0.6])
def test_what_is_not_a_function_stays_none(share):
    rng = np.random.default_rng(1)
    table = mixed(share, rng)
    margins, pairs, variances = noisy(table, rng, 0.0027)
    found = sparse_tables(margins, pairs, variances, [False, False], {})[0, 1]
    assert found.possible.all()
    raw = pairs[0, 1] + np.outer(*margins)
    assert np.abs(found.table - table).sum() < 0.6 * np.abs(raw - table).sum()
    assert np.trace(found.table) == pytest.approx(np.trace(table), abs=0.04)


def test_noise_and_independence_are_no_function():
    rng = np.random.default_rng(2)
    margins, pairs, variances = noisy(mixed(0.0, rng), rng, 0.0027)
    assert not sparse_tables(margins, pairs, variances, [False, False], {})
    smoothing = Smoothing.of(margins, pairs, variances, [True, True])
    assert smoothing.margins == margins
    assert smoothing.allowed({}) == {}


def test_a_coarser_column_is_a_function_one_way():
    rng = np.random.default_rng(3)
    margin = rng.dirichlet(np.full(LEVELS, 5.0))
    table = np.zeros((LEVELS, 5))
    table[np.arange(LEVELS), np.arange(LEVELS) // 4] = margin
    margins, pairs, variances = noisy(table, rng, 0.002)
    smoothing = Smoothing.of(margins, pairs, variances, [True, True])
    possible = smoothing.allowed({})[0, 1]
    assert (possible == (table > 0)).mean() > 0.97
    known = np.ones(table.shape, dtype=bool)
    known[0] = False
    assert not smoothing.allowed({(0, 1): known})[0, 1][0].any()


def test_smooth_dependence_of_ordered_columns_keeps_its_own_prior():
    rng = np.random.default_rng(4)
    place = (np.arange(10) + 0.5) / 10
    table = np.exp(-8 * np.square(place[:, None] - place)) / 100
    table /= table.sum()
    margins, pairs, variances = noisy(table, rng, 0.0005)
    assert not Smoothing.of(margins, pairs, variances, [True, True]).sparse
