"""Merging rare levels, and learning what goes missing from small tables."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit

from missdp.errors import ParameterError
from missdp.inference.masks import MaskModel, Strip
from missdp.inference.model import Levels
from missdp.schema import Categorical, Schema
from missdp.sources.strategies import _merge_levels
from missdp.synth.workload import candidates


@given(st.lists(st.floats(-20, 100), min_size=1, max_size=12), st.floats(0, 50))
def test_groups_are_a_partition_and_shares_sum_to_one(counts, threshold):
    levels = Levels.from_counts(np.array(counts), threshold=threshold)
    assert sorted(set(levels.groups)) == list(range(levels.n_groups))
    np.testing.assert_allclose(np.bincount(levels.groups, weights=levels.shares), 1.0)
    table = np.random.default_rng(0).integers(0, 9, (3, len(counts) + 1))  # the last: missing
    merged = _merge_levels(table, levels.groups, 1)
    assert merged.sum() == table.sum()
    np.testing.assert_array_equal(merged[:, -1], table[:, -1])
    assert merged.shape == (3, levels.n_groups + 1)
    rare = np.array(counts) < threshold
    assert len(set(levels.groups[rare])) <= max(1, 1 if rare.sum() > 1 else rare.sum())


def test_splitting_draws_by_share_and_inside_the_group():
    levels = Levels.from_counts(np.array([50.0, 1.0, 60.0, 3.0, -2.0]), threshold=10)
    codes = np.repeat(np.arange(levels.n_groups), 20_000)
    drawn = levels.split(codes, np.random.default_rng(0))
    np.testing.assert_array_equal(levels.groups[drawn], codes)
    share = np.bincount(drawn, minlength=5) / 20_000
    np.testing.assert_allclose(share, [1, 0.25, 1, 0.75, 0], atol=0.02)


def selective(n=40_000, slope=2.0, seed=0):
    """Rows of two attributes; the second is missing depending on the first."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, n)
    y = (x + rng.integers(0, 2, n)) % 4
    hole = rng.random(n) < expit(slope * (x - 1.5) / 1.5 - 1)
    return np.stack([x, y], axis=1), hole


@pytest.mark.parametrize("slope", [0.0, 2.0])
def test_the_mask_model_recovers_who_goes_missing(slope):
    rows, hole = selective(slope=slope)
    model = MaskModel(np.array([0.0, hole.mean()]))
    seen = np.bincount(rows[hole, 0], minlength=4).astype(float)
    strip = Strip(seen, np.bincount(rows[:, 0], minlength=4).astype(float), 5.0, 4)
    model.learn(rows, len(rows), {(1, 0): strip}, ridge=1.0, sweeps=40)
    rate = np.bincount(rows[:, 0], weights=hole) / np.bincount(rows[:, 0])
    for level in range(4):
        fitted = model.missing(rows)[rows[:, 0] == level, 1].mean()
        assert fitted == pytest.approx(rate[level], abs=0.01)
    assert not model.missing(rows)[:, 0].any()
    assert (np.ptp(model.slopes[1, 0]) > 1) == (slope > 0)
    flat = Strip(strip.rows * hole.mean(), strip.rows, 5.0, 4)  # its evidence is gone
    model.learn(rows, len(rows), {(1, 0): flat}, ridge=1.0, sweeps=1)
    assert not model.slopes[1, 0].any()


def strips(rates, *, n=6000, std=25.0, cells=5, draws=400):
    """Released strips of a mask with these missing rates by level, each with noise of its own."""
    rng = np.random.default_rng(2)
    for _ in range(draws):
        rows = rng.multinomial(n, np.full(len(rates), 1 / len(rates)))
        noise = rng.normal(0, std, len(rates))
        observed = rng.normal(0, std * np.sqrt(cells), len(rates))
        yield Strip(rng.binomial(rows, rates) + noise, rows + noise + observed, std, cells)


def test_evidence_of_selection_is_weighed_against_noise_and_chance():
    flat = np.mean([strip.selective for strip in strips(np.full(8, 0.3))])
    assert flat < 0.05
    # The same with noise that is understated to a third: the test would see selection everywhere.
    told_less = [Strip(s.missing, s.rows, s.std / 3, 5) for s in strips(np.full(8, 0.3))]
    assert np.mean([strip.selective for strip in told_less]) > 0.5
    sloped = [strip.selective for strip in strips(np.linspace(0.2, 0.4, 8))]
    assert np.mean(sloped) > 0.9
    assert not Strip(np.array([3.0]), np.array([9.0]), 0.1, 2).selective  # one level: no contrast
    assert not Strip(np.array([9.0, -8.0]), np.array([500.0, 500.0]), 5.0, 2).selective  # no holes


@given(st.integers(0, 2**32 - 1))
def test_chances_to_be_missing_are_those_of_the_formula(seed):
    """Some attributes have no holes, some depend on none, some on several: all to the last bit."""
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (50, 5))
    model = MaskModel(np.where(rng.random(5) < 0.3, 0.0, rng.random(5)))
    for a, b in rng.permuted([(a, b) for a in range(5) for b in range(5) if a != b])[:9]:
        model.slopes[int(a), int(b)] = rng.normal(size=3) * rng.integers(0, 2)
    expected = np.zeros((50, 5))
    for a in np.flatnonzero(model.present):
        logits = np.full(50, model.intercepts[a])
        for (of, b), slope in model.slopes.items():
            logits = logits + (slope[rows[:, b]] if of == a else 0.0)
        expected[:, a] = expit(logits)
    np.testing.assert_array_equal(model.missing(rows), expected)


SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y")) for n in "abcd"))


def test_the_workload_is_closed_downwards_and_weighted():
    found = candidates({("a", "b", "c"): 2.0, ("c", "d"): 1.0}, SCHEMA)
    assert set(found) == {(0, 1), (0, 2), (1, 2), (0, 1, 2), (2, 3)}
    assert found[0, 1, 2] == 1.0
    assert found[2, 3] == pytest.approx((2 + 2) / (6 + 1))
    assert candidates([("b", "a")], SCHEMA) == {(0, 1): 1.0}
    assert candidates(1, SCHEMA) == {}
    wide = Schema(tuple(Categorical(name=f"a{i}", levels=tuple(range(90))) for i in range(16)))
    assert len(candidates(2, wide)) == 120
    with pytest.raises(ParameterError, match="one pass"):
        candidates(3, wide)


@pytest.mark.parametrize(
    "bad", [0, 5, True, "ab", 1.5, [], ["ab"], [("a", "z")], [("a", "a")], {("a", "b"): 0.0}, [()]]
)
def test_bad_workloads_are_refused(bad):
    with pytest.raises(ParameterError):
        candidates(bad, SCHEMA)


def test_a_level_that_is_always_observed_takes_no_holes():
    """There is nothing to be missing: all holes are among the other levels."""
    rng = np.random.default_rng(3)
    rows = np.stack([rng.integers(0, 3, 20_000), rng.integers(0, 2, 20_000)], axis=1)
    model = MaskModel(np.array([0.3, 0.0]), {0: 2})
    model.learn(rows, 20_000.0, {}, ridge=0.3, sweeps=20)
    holes = model.draw(rows, rng)
    assert not holes[rows[:, 0] == 2].any()
    assert holes[:, 0].mean() == pytest.approx(0.3, abs=0.01)
