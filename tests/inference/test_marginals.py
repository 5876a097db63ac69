"""Noisy marginals of any order: the tables of pairs, their noise, and a quick model."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from missdp.inference.completion import ModelFacts
from missdp.inference.marginals import NoisyMarginals, quick_fit
from missdp.inference.model import Levels

SIZES = (2, 3, 4)
N = 20_000


def people(n=N, seed=0):
    """Rows of three dependent attributes."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 2, n)
    b = np.minimum(2, a + rng.integers(0, 2, n))
    c = np.minimum(3, b + (rng.random(n) * 2).astype(int))
    return np.stack([a, b, c], axis=1)


def selective(rows):
    """Cells of the first attribute go missing by the last one, and some of the second by chance."""
    rng = np.random.default_rng(1)
    chance = np.stack([expit(1.5 * rows[:, 2] - 3), np.full(len(rows), 0.2)], axis=1)
    missing = rng.random(chance.shape) < chance
    return np.concatenate([missing, np.zeros((len(rows), 1), dtype=bool)], axis=1)


def counted(rows, clique, shape):
    inside = np.all([rows[:, a] < n for a, n in zip(clique, shape, strict=True)], axis=0)
    cells = np.ravel_multi_index(tuple(rows[inside, a] for a in clique), shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def measured(cliques, *, missing=None, std=1.0, seed=2, observed_only=False, rows=None):
    """Marginals of rows, with Gaussian noise."""
    rows, rng = people() if rows is None else rows, np.random.default_rng(seed)
    holes = np.zeros(rows.shape, dtype=bool) if missing is None else missing
    codes = np.where(holes, SIZES, rows)
    wide = [size + bool(holes[:, a].any()) for a, size in enumerate(SIZES)]
    levels = tuple(Levels(np.arange(size), np.ones(size)) for size in SIZES)
    margins = tuple(counted(codes, (a,), (w,)) / len(rows) for a, w in enumerate(wide))
    found = NoisyMarginals(levels, margins, std, len(rows), (False,) * 3, observed_only)
    for clique in cliques:
        exact = counted(codes, clique, found.shape(clique))
        found = found.add(clique, exact + rng.normal(0, std, exact.shape), std)
    return found


ALL = [*combinations(range(3), 2), (0, 1, 2)]


def test_tables_of_pairs_are_those_that_were_measured():
    tables = measured(ALL[:2]).tables()
    assert {*tables.tables} == {(0, 1), (0, 2)}  # a pair without a marginal has no table
    for pair, table in tables.tables.items():
        exact = counted(people(), pair, table.shape) / N
        np.testing.assert_allclose(table, exact, atol=6 / N)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from(ALL), min_size=1, max_size=5), st.integers(0, 10**6))
def test_stated_variances_are_those_of_the_noise(cliques, seed):
    """Larger marginals are added up.

    Several estimates of a table are averaged by their precision.
    """
    rng, found = np.random.default_rng(seed), []
    plain = measured([], std=1e-9)
    exact = measured(cliques, std=1e-9).tables()
    counts = [counted(people(), clique, plain.shape(clique)) for clique in cliques]
    for _ in range(300):
        again = plain
        for clique, count in zip(cliques, counts, strict=True):
            again = again.add(clique, count + rng.normal(0, 30.0, count.shape), 30.0)
        tables = again.tables()
        for pair, table in tables.tables.items():
            off = np.square(table - exact.tables[pair]).mean()
            found.append(off / tables.variances[pair].mean())
    assert 0.75 < np.mean(found) < 1.3


def test_a_marginal_that_is_measured_twice_is_averaged():
    once = measured([(0, 1)], std=3.0)
    twice = once.add((0, 1), once.counts[0, 1] + 4.0, 3.0)
    np.testing.assert_allclose(twice.counts[0, 1], once.counts[0, 1] + 2.0)
    assert twice.stds[0, 1] == pytest.approx(3 / np.sqrt(2))
    sharp = once.add((0, 1), np.zeros((2, 3)), 1e-6)
    np.testing.assert_allclose(sharp.counts[0, 1], 0.0, atol=1e-6)


def test_marginals_of_all_attributes_sharpen_margins():
    alone, more = measured([]), measured(ALL)
    for first, second in zip(alone.marginal_stds, more.marginal_stds, strict=True):
        assert (second < 0.9 * first).all()
    merged = replace(alone, levels=(Levels(np.array([0, 1, 1, 1]), np.ones(4)), *alone.levels[1:]))
    assert merged.marginal_stds[0][1] == pytest.approx(np.sqrt(3) * alone.marginal_stds[0][1])


def test_of_rows_observed_on_a_pair_only_dependence_is_read():
    """Margins imply what share of all rows they are, as if cells were missing by chance."""
    gone = np.random.default_rng(5).random(N) < 0.5
    missing = np.stack([gone, np.zeros(N, dtype=bool), gone], axis=1)  # always together
    found = measured([(0, 2)], missing=missing, observed_only=True).tables()
    exact = counted(people()[~gone], (0, 2), (2, 4))
    np.testing.assert_allclose(found.tables[0, 2], exact / exact.sum() / 4, atol=0.002)


def test_another_draw_of_the_noise_varies_as_the_noise_does():
    plain, rng = measured(ALL, std=5.0), np.random.default_rng(0)
    again = [plain.redraw_noise(rng) for _ in range(200)]
    spread = np.std([one.counts[0, 1, 2] for one in again], axis=0)
    assert spread.mean() == pytest.approx(5.0, rel=0.05)
    spread = np.std([one.one_way[2] for one in again], axis=0)
    assert spread.mean() == pytest.approx(5.0 / N, rel=0.1)


# The model inside the loop


@pytest.mark.parametrize("missing", [False, True])
def test_expected_counts_are_of_rows_that_are_observed(missing):
    """Also where cells go missing by the value of another attribute."""
    holes = selective(people()) if missing else None
    marginals = measured(ALL[:3], missing=holes)
    rng = np.random.default_rng(0)
    estimate = quick_fit(marginals, ModelFacts(), rng, n=20_000)
    for _ in range(3):
        estimate = quick_fit(marginals, ModelFacts(), rng, n=20_000, before=estimate)
    codes = people() if holes is None else np.where(holes, SIZES, people())
    for pair in ALL[:3]:
        shape = tuple(SIZES[a] for a in pair)
        exact = counted(codes, pair, shape)
        assert np.abs(estimate.expected(pair) - exact).sum() < 0.03 * N


def test_an_expected_count_that_was_measured_has_the_released_total():
    """Cells that are missing together would make it wrong in every round."""
    gone = np.random.default_rng(5).random(N) < 0.5
    missing = np.stack([gone, np.zeros(N, dtype=bool), gone], axis=1)
    marginals, rng = measured([], missing=missing), np.random.default_rng(0)
    before = quick_fit(marginals, ModelFacts(), rng, n=5000)
    assert before.expected((0, 2)).sum() == pytest.approx(N / 4, rel=0.05)
    marginals = measured([(0, 2)], missing=missing)
    after = quick_fit(marginals, ModelFacts(), rng, n=5000, before=before)
    assert after.expected((0, 2)).sum() == pytest.approx(N / 2, rel=0.05)


def test_three_attributes_together_are_held_where_they_were_measured():
    """Pair tables of an exclusive or hold no information about it."""
    rng = np.random.default_rng(3)
    a, b = rng.integers(0, 2, (2, N))
    rows = np.stack([a, b, a ^ b], axis=1)
    pairs = measured(ALL[:3], rows=rows)
    together = measured(ALL, rows=rows)
    off = []
    for marginals in (pairs, together):
        estimate = quick_fit(marginals, ModelFacts(), rng, n=20_000)
        expected = estimate.expected((0, 1, 2))
        off.append(np.abs(expected - counted(rows, (0, 1, 2), SIZES)).sum() / N)
    assert off[0] > 0.9
    assert off[1] < 0.05


def test_impossible_cells_do_not_count():
    never = np.ones((2, 3), dtype=bool)
    never[1, 0] = False
    facts = ModelFacts(allowed={(0, 1): never})
    estimate = quick_fit(measured(ALL), facts, np.random.default_rng(0), n=1000)
    assert (estimate.possible((0, 1)) == never).all()
    assert estimate.possible((0, 2)).all()
    assert estimate.possible((0, 1, 2)).all()


@pytest.mark.parametrize("std", [1.0, 1e6])
def test_noise_beyond_all_counts_gives_finite_numbers(std):
    marginals = measured(ALL, missing=selective(people()), std=std)
    estimate = quick_fit(marginals, ModelFacts(), np.random.default_rng(0), n=1000)
    for clique in ALL:
        assert np.isfinite(estimate.expected(clique)).all()
        assert (estimate.expected(clique) >= 0).all()
