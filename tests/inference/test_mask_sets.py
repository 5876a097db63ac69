"""Attributes that are missing in nearly the same rows: sets, their counts, and models with them."""

import math

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, AllPairs, Categorical, Schema
from missdp.inference.mask_sets import counts_by_sets, sets_missing_together
from missdp.inference.missing_rates import RatesByLevel, mean_rates
from missdp.inference.missingness import MissingnessModel

N = 10_000
WAVES, QUESTIONS = 3, 6


def panel_masks(rng, rows=N, questions=QUESTIONS, across=0.75, skips=0.01):
    """Missing cells of three waves of questions: who misses a wave lacks all of its answers."""
    gone = np.empty((rows, WAVES), dtype=bool)
    gone[:, 0] = rng.random(rows) < 0.4
    for wave in range(1, WAVES):  # correlation of neighbouring waves: about .58
        gone[:, wave] = rng.random(rows) < np.where(gone[:, wave - 1], across, 0.17)
    masks = np.repeat(gone, questions, axis=1)
    return masks | (rng.random(masks.shape) < skips)


def counts_of(masks, rng, *, std):
    """Return noisy numbers of rows that lack two attributes, and the rates of all attributes."""
    both = masks.T.astype(float) @ masks
    pairs = [(a, b) for b in range(len(both)) for a in range(b)]
    counts = {(a, b): (float(both[a, b] + rng.normal(0, std)), std) for a, b in pairs}
    return masks.mean(axis=0), counts


def correlation(count, rates, pair):
    p, q = rates[[*pair]]
    return (count / N - p * q) / math.sqrt(p * (1 - p) * q * (1 - q))


def test_waves_are_sets_although_noise_hides_the_largest_correlation():
    """The largest of 36 noisy correlations between two waves often exceeds the limit of 0.8."""
    waves, largest = tuple(QUESTIONS * (a // QUESTIONS) for a in range(WAVES * QUESTIONS)), []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        rates, both = counts_of(panel_masks(rng), rng, std=0.12 * N * 0.24)
        assert sets_missing_together(rates, both, N) == waves
        across = [p for p in both if waves[p[0]] != waves[p[1]]]
        largest.append(max(correlation(both[p][0], rates, p) for p in across))
    assert np.mean(np.array(largest) > 0.8) > 0.5


def test_noise_alone_makes_no_sets():
    largest = []
    for seed in range(50):
        rng = np.random.default_rng(seed)
        rates, both = counts_of(rng.random((N, 20)) < 0.3, rng, std=0.35 * N * 0.21)
        assert sets_missing_together(rates, both, N) == tuple(range(20))
        largest.append(max(correlation(both[p][0], rates, p) for p in both))
    assert np.mean(largest) > 0.8


def test_attributes_without_missing_cells_or_without_counts_have_no_set():
    rates = np.array([0.0, 0.5, 0.5, 1.0])
    everything = {(a, b): (N / 2, 1.0) for b in range(4) for a in range(b)}
    assert sets_missing_together(rates, everything, N) == (0, 1, 1, 3)
    assert sets_missing_together(rates, {}, N) == (0, 1, 2, 3)
    counts = counts_by_sets(rates, everything, N, (0, 1, 1, 3))
    assert all(np.isfinite(counts[pair]).all() for pair in everything)


def test_counts_between_sets_have_less_noise_and_single_pairs_stay():
    rng = np.random.default_rng(0)
    masks = np.concatenate([panel_masks(rng), rng.random((N, 2)) < 0.3], axis=1)
    rates, both = counts_of(masks, rng, std=0.12 * N * 0.24)
    sets = sets_missing_together(rates, both, N)
    counts, exact = counts_by_sets(rates, both, N, sets), masks.T.astype(float) @ masks
    across = [p for p in both if sets[p[0]] != sets[p[1]] and max(p) < WAVES * QUESTIONS]
    errors = {
        name: math.sqrt(np.mean([(of[p][0] - exact[p]) ** 2 for p in across]))
        for name, of in (("released", both), ("by sets", counts))
    }
    assert errors["by sets"] < errors["released"] / 3  # 36 pairs for each two waves
    assert max(counts[p][1] for p in across) < both[across[0]][1] / 1.5
    alone = len(rates) - 2, len(rates) - 1
    assert counts[alone] == both[alone]


def test_the_mean_of_tables_has_their_noise():
    rng, exact = np.random.default_rng(0), np.array([30.0, 60.0, 90.0])
    tables = [
        RatesByLevel(exact + rng.normal(0, std, 3), np.array([100.0, 200.0, 300.0]), std, cells)
        for std, cells in ((4.0, 2.0), (4.0, 6.0), (8.0, 4.0))
    ]
    mean = mean_rates(tables)
    np.testing.assert_allclose(mean.missing, np.mean([t.missing for t in tables], axis=0))
    assert mean.std == pytest.approx(math.sqrt(4**2 + 4**2 + 8**2) / 3)
    assert mean.observed_cells == pytest.approx((16 * 2 + 16 * 6 + 64 * 4) / 96)


def test_a_part_of_a_model_has_its_sets():
    sets = (0, 1, 0, 3)
    model = MissingnessModel(np.array([0.4, 0.1, 0.4, 0.2]), sets=sets)
    assert MissingnessModel(np.array([0.4, 0.1])).sets == (0, 1)
    some = model.restricted_to([1, 2, 0])
    assert [some.sets.count(label) for label in some.sets] == [1, 2, 2]


def rates_by_level(shares, std=1.0):
    """Return rates of 1,000 rows at each of two levels, of which these shares are missing."""
    return RatesByLevel(1000.0 * np.array(shares), np.array([1000.0, 1000.0]), std, 2.0)


def test_effect_that_a_rule_relates_to_one_of_a_set_is_no_effect_of_the_set():
    """The second of a set decides by a rule about the third, whose table the rule distorts."""
    x = np.random.default_rng(0).integers(0, 2, (2000, 3))
    both = {(0, 1): (600.0, 1.0)}
    tables = {(0, 2): rates_by_level([0.2, 0.4]), (1, 2): rates_by_level([0.0, 0.6])}
    for ruled in ({}, {2: (1,)}):
        model = MissingnessModel(np.array([0.3, 0.3, 0.1]), dict.fromkeys(ruled, 1), ruled)
        model.learn(x, 2000.0, tables, both=both, ridge=0.1, sweeps=5, start=True)
        assert model.sets == (0, 0, 2)
        assert set(model.slopes) == (set() if ruled else {(0, 2), (1, 2)})


def test_of_two_sets_that_are_missing_apart_one_has_effects_on_the_other():
    """Only the rates with more evidence are learned, of whichever members."""
    x = np.random.default_rng(0).integers(0, 2, (2000, 4))
    rates = np.full(4, 0.3)
    both = {
        (a, b): (600.0 if b - a == 1 and a % 2 == 0 else 5.0, 1.0)
        for b in range(4)
        for a in range(b)
    }
    weak, strong = rates_by_level([0.28, 0.32], std=8.0), rates_by_level([0.25, 0.35])
    tables = {(a, b): weak for a in (0, 1) for b in (2, 3)}
    tables |= {(b, a): strong for a in (0, 1) for b in (2, 3)}
    model = MissingnessModel(rates)
    for start in (True, False):
        model.learn(x, 2000.0, tables, both=both, ridge=0.1, sweeps=5, start=start)
    assert model.sets == (0, 0, 2, 2)
    assert {effect[0] for effect in model.slopes} == {2, 3}


def test_numbers_of_sets_are_checked_and_precise_values_stay():
    with pytest.raises(ValueError, match="MissingnessModel"):
        MissingnessModel(np.array([0.4, 0.1]), sets=(0,))
    both = {(0, 1): (500.0, 0.0), (0, 2): (100.0, 1e5), (1, 2): (300.0, 0.0)}
    counts = counts_by_sets(np.full(3, 0.3), both, 1000.0, (0, 0, 2))
    assert np.isfinite(list(counts.values())).all()


def panel(seed, rows=4000, questions=QUESTIONS):
    """Answers of a panel, in which many of the first group miss all waves."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, 4, rows)
    gone = (group == 0) & (rng.random(rows) < 0.5)
    masks = panel_masks(rng, rows, questions) | gone[:, np.newaxis]
    answers = (group[:, np.newaxis] + rng.integers(0, 3, masks.shape)) % 4
    columns = {
        f"q{at}": np.where(masks[:, at], np.nan, answers[:, at]) for at in range(len(masks.T))
    }
    frame = pd.DataFrame({"group": group, **columns}).astype("Int64")
    levels, names = (0, 1, 2, 3), list(columns)
    waves = [Categorical(name=name, levels=levels, nullable=True) for name in names]
    return frame, Schema((Categorical(name="group", levels=levels), *waves))


def share_apart(masks, questions=QUESTIONS):
    """Return the share of rows in which one of two attributes of a wave is missing, not both."""
    waves = masks.to_numpy()[:, 1:].reshape(len(masks), WAVES, questions)
    pairs = [(a, b) for b in range(questions) for a in range(b)]
    return np.mean([(waves[:, :, a] != waves[:, :, b]).mean() for a, b in pairs])


@pytest.mark.long
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_cells_of_a_wave_are_missing_together_in_drawn_rows(family):
    """With effects of their own, attributes of one wave were missing apart in a sixth of rows."""
    frame, schema = panel(0)
    model = family(epsilon=1.0, delta=1e-6, random_state=0).fit(frame, schema=schema)
    drawn = model.sample(4000, missing_values="keep", random_state=1)[frame.columns]
    assert share_apart(frame.isna()) == pytest.approx(0.01, abs=0.01)
    assert share_apart(drawn.isna()) < 0.06
