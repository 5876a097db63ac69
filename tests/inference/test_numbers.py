"""Tables of pairs with numbers under them: what is gained, what stays, and missing values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.inference.masks import MaskModel
from missdp.inference.numbers import NumberMoments, complete_numbers
from missdp.inference.smooth import Smoothing

CODES = 40  # finer ones, four in each of ten bins
BIN = np.repeat(np.arange(10), 4)


def population(n, seed, tail):
    """Finer codes of three numbers that rise together, and what each code stands for."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    ranks = (0.4 * common + rng.normal(size=(n, 3))).argsort(axis=0).argsort(axis=0)
    codes = ranks * CODES // n
    values = np.exp(np.linspace(0, 4, CODES)) if tail else np.arange(CODES, dtype=float)
    return codes, (values - values.mean()) / values.std()


def moments_of(codes, z, *, std=0.0, seed=0, holes=None):
    """What is released of these rows, with noise: also where cells are missing."""
    rng = np.random.default_rng(seed)
    holes = np.zeros(codes.shape, dtype=bool) if holes is None else holes
    values, bins = np.where(holes, 0.0, z[codes]), np.where(holes, 10, BIN[codes])
    means = {a: (values[:, a].mean(), 0.0) for a in range(3)}
    by_level = {
        (a, c): (
            np.bincount(bins[:, c], values[:, a], 11) / len(codes) + rng.normal(0, std, 11),
            np.full(11, std),
        )
        for a in range(3)
        for c in range(3)
        if a != c
    }
    pairs = [(0, 1), (0, 2), (1, 2)]
    both = {
        (a, b): ((values[:, a] * values[:, b]).mean() + rng.normal(0, std), std) for a, b in pairs
    }
    return NumberMoments(means, {}, by_level, both)


def dependence(codes):
    """Tables of bins less the product of their margins."""
    found = {}
    for a, b in [(0, 1), (0, 2), (1, 2)]:
        table = np.zeros((10, 10))
        np.add.at(table, (BIN[codes[:, a]], BIN[codes[:, b]]), 1 / len(codes))
        found[a, b] = table - np.outer(table.sum(axis=1), table.sum(axis=0))
    return found


def levels_of(z):
    mean = z.reshape(10, 4).mean(axis=1)
    return dict.fromkeys(range(3), mean), dict.fromkeys(range(3), z.reshape(10, 4).var(axis=1))


def numbers_of(codes, z, **noise):
    free = MaskModel(np.zeros(3))
    margins = [np.full(10, 0.1)] * 3
    no_holes = np.zeros(codes.shape, dtype=bool)
    return complete_numbers(
        moments_of(codes, z, **noise), *levels_of(z), margins, BIN[codes], no_holes, free
    )


@pytest.mark.parametrize("tail", [False, True])
def test_trends_are_closer_with_numbers_under_the_tables(tail):
    codes, z = population(20_000, 0, tail)
    truth, std = dependence(codes), 0.002
    middle, rank = np.eye(10) - 0.1, np.arange(10) - 4.5
    errors = np.zeros((2, 2))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        seen = {p: t + middle @ rng.normal(0, std, (10, 10)) @ middle for p, t in truth.items()}
        variances = {p: np.full((10, 10), (0.9 * std) ** 2) for p in truth}
        numbers = numbers_of(codes, z, std=2 * std, seed=seed)
        for k, known in enumerate((None, numbers)):
            found = Smoothing.of(
                [np.full(10, 0.1)] * 3, seen, variances, [True] * 3, flat=False, numbers=known
            ).means()
            for p, table in truth.items():
                errors[k] += (
                    np.square(found[p] - table).sum(),
                    np.square(rank @ (found[p] - table) @ rank),
                )
    assert (errors[1] < [0.95, 0.8 if tail else 0.5] * errors[0]).all()


@settings(max_examples=20)
@given(st.integers(0, 100), st.booleans())
def test_what_is_not_noisy_stays(seed, tail):
    codes, z = population(4000, seed, tail)
    truth = dependence(codes)
    noise = {p: np.full((10, 10), 1e-24) for p in truth}
    found = Smoothing.of(
        [np.full(10, 0.1)] * 3, truth, noise, [True] * 3, numbers=numbers_of(codes, z, std=1e-12)
    ).means()
    for p, table in truth.items():
        assert found[p] == pytest.approx(table, abs=1e-6)
        assert found[p].sum(axis=0) == pytest.approx(np.zeros(10), abs=1e-9)


def test_missing_values_that_depend_on_others_are_made_up_for():
    codes, z = population(60_000, 1, tail=False)
    chance = 0.1 + 0.04 * BIN[codes[:, 0]]
    holes = np.zeros(codes.shape, dtype=bool)
    holes[:, 1] = np.random.default_rng(0).random(len(codes)) < chance

    class Known(MaskModel):
        """The mechanism itself."""

        def missing(self, rows):
            found = np.zeros(rows.shape)
            found[:, 1] = 0.1 + 0.04 * rows[:, 0]
            return found

    masks = Known(np.array([0.0, 0.28, 0.0]))
    seen = moments_of(codes, z, holes=holes)
    margins = [np.full(10, 0.1)] * 3
    found = complete_numbers(seen, *levels_of(z), margins, BIN[codes], holes, masks)
    wanted = numbers_of(codes, z)
    plain = complete_numbers(
        seen, *levels_of(z), margins, BIN[codes], holes, MaskModel(np.array([0.0, 0.28, 0.0]))
    )
    assert found.both[0, 1][0] == pytest.approx(wanted.both[0, 1][0], abs=0.01)
    off = np.abs(plain.by_level[1, 0][0] - wanted.by_level[1, 0][0])
    assert off.max() > 0.004
    for pair in ((0, 1), (1, 0), (1, 2)):
        assert found.by_level[pair][0] == pytest.approx(wanted.by_level[pair][0], abs=0.002)
    assert found.by_level[0, 2][0] == pytest.approx(wanted.by_level[0, 2][0], abs=1e-9)
