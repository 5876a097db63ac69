"""Rare levels, and what goes missing: alone, together, and by what is observed."""

from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtri
from scipy.stats import multivariate_normal

from missdp import Categorical, Schema, Table
from missdp.evaluate import missing_fidelity
from missdp.inference.completion import _groups_of, _pooled, _tied
from missdp.inference.estimate import _both_missing, _Measured, _strips
from missdp.inference.masks import MaskModel, Strip, _latent_uniforms, fit_correlation
from missdp.inference.model import Levels
from missdp.record import Record
from missdp.schema import NotApplicable
from missdp.sources.strategies import _merge_levels
from missdp.synth import AIM, MST, AllPairs


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


def test_a_trend_of_rates_over_ordered_levels_is_found_where_each_level_tells_little():
    """Rates are nearer to the truth on average; noise alone makes a trend of them in one of ten."""
    rising, flat = np.linspace(0.1, 0.4, 10), np.full(10, 0.25)
    off, found = {}, {}
    for name, rates in (("rising", rising), ("flat", flat)):
        for ordered in (False, True):
            drawn = [replace(s, ordered=ordered) for s in strips(rates, std=60.0)]
            found[name, ordered] = np.mean([strip.selective for strip in drawn])
            off[name, ordered] = np.mean([np.square(s.rates - rates).mean() for s in drawn])
    assert found["rising", True] > 0.7 > 0.3 > found["rising", False]
    assert found["flat", True] < 0.15
    assert off["rising", True] < 0.6 * off["rising", False]
    assert off["flat", True] < 1.3 * off["flat", False]


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


def test_a_level_that_is_always_observed_takes_no_holes():
    """There is nothing to be missing: all holes are among the other levels."""
    rng = np.random.default_rng(3)
    rows = np.stack([rng.integers(0, 3, 20_000), rng.integers(0, 2, 20_000)], axis=1)
    model = MaskModel(np.array([0.3, 0.0]), {0: 2})
    model.learn(rows, 20_000.0, {}, ridge=0.3, sweeps=20)
    holes = model.draw(rows, rng)
    assert not holes[rows[:, 0] == 2].any()
    assert holes[:, 0].mean() == pytest.approx(0.3, abs=0.01)


# -- holes that coincide -------------------------------------------------------------------------
def expected_both(chances, rho):
    """Mean over rows of the bivariate normal distribution function, by SciPy."""
    law = multivariate_normal([0, 0], [[1, rho], [rho, 1]])
    return float(np.mean(law.cdf(ndtri(chances))))


@pytest.mark.parametrize("rho", [-0.6, 0.3, 0.9])
def test_the_correlation_behind_a_released_count_is_found(rho):
    chances = np.random.default_rng(0).uniform(0.05, 0.6, (400, 2))
    n = 50_000.0
    found = fit_correlation(chances, {(0, 1): (n * expected_both(chances, rho), 5.0)}, n)
    assert found[0, 1] == pytest.approx(rho, abs=0.01)
    rows = np.tile(chances, (500, 1))
    drawn = _latent_uniforms(len(rows), found, np.random.default_rng(1)) < rows
    assert drawn.all(axis=1).mean() == pytest.approx(expected_both(chances, rho), abs=0.005)
    np.testing.assert_allclose(drawn.mean(axis=0), chances.mean(axis=0), atol=0.005)


def test_counts_that_noise_explains_change_nothing_and_impossible_ones_most():
    chances = np.full((100, 2), 0.3)
    n, std = 10_000.0, 40.0
    near, far = 900 + 2 * np.hypot(std, np.sqrt(900 * 0.91)), 900 + 5 * np.hypot(std, 29)
    assert fit_correlation(chances, {(0, 1): (near, std)}, n)[0, 1] == 0
    assert fit_correlation(chances, {(0, 1): (far, std)}, n)[0, 1] > 0.05
    for count in (-500.0, 0.0, 3e4):
        found = fit_correlation(chances, {(0, 1): (count, 1.0)}, n)
        assert 0.9 < abs(found[0, 1]) <= 0.99
        np.linalg.cholesky(found)


def test_pairs_without_a_table_follow_the_strongest_chain_and_contradictions_are_mended():
    chances, n = np.full((100, 4), 0.3), 1e5
    both = {p: (n * expected_both(chances[:, :2], 0.8), 1.0) for p in [(0, 1), (1, 2)]}
    both[0, 3] = (n * 0.09, 1.0)  # measured, and independent
    found = fit_correlation(chances, both, n)
    assert found[0, 2] == pytest.approx(0.64, abs=0.02)
    assert found[0, 3] == found[2, 3] == 0
    pairs = {(0, 1): 0.95, (1, 2): 0.95, (0, 2): -0.95}
    both = {p: (n * expected_both(chances[:, :2], rho), 1.0) for p, rho in pairs.items()}
    found = fit_correlation(chances[:, :3], both, n)
    np.linalg.cholesky(found)
    np.testing.assert_allclose(np.diag(found), 1)


def test_kept_holes_coincide_as_they_did():
    rng = np.random.default_rng(5)
    n = 8000
    schema = Schema(tuple(Categorical(name=c, levels=(0, 1), nullable=True) for c in "abc"))
    hidden = rng.random(n) < 0.3  # left the questionnaire
    first = rng.integers(0, 2, n)
    values = {"a": first, "b": first ^ (rng.random(n) < 0.1), "c": first ^ (rng.random(n) < 0.1)}
    private = Table.from_codes(schema, {k: np.where(hidden, 2, v) for k, v in values.items()})
    model = AIM(epsilon=3.0, delta=1e-6, missing="joint", random_state=6).fit(private)
    kept = model.sample_table(n, missing_values="keep", random_state=7)
    assert missing_fidelity(private, kept).patterns < 0.1
    model.model_.masks.correlation = np.eye(3)
    alone = model.sample_table(n, missing_values="keep", random_state=7)
    assert missing_fidelity(private, alone).patterns > 0.3


# -- attributes that count where they are observed -----------------------------------------------
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
    """Strips and coincidences of attributes, without noise."""
    strips = {}
    for a, b in permutations(range(x.shape[1]), 2):
        seen = ~holes[:, b]
        gone = np.bincount(x[seen & holes[:, a], b], minlength=2).astype(float)
        strips[a, b] = Strip(gone, np.bincount(x[seen, b], minlength=2).astype(float), std, 2)
    both = {e: (float(holes[:, e].all(axis=1).sum()), std) for e in strips if e[0] < e[1]}
    return strips, both


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


def test_an_attribute_that_had_no_missing_values_so_far_has_no_slopes_to_look_for():
    """Noise is drawn anew for intervals, and may tell of missing values where there were none."""
    x, rng = two(2000)
    holes = rng.random(x.shape) < 0.1 + 0.5 * x[:, ::-1]
    strips, both = released(x, holes)
    masks = MaskModel(np.array([0.0, holes[:, 1].mean()]))
    masks.learn(x, len(x), strips, ridge=0.1, sweeps=2, both=both)
    assert (0, 1) not in masks.slopes


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
    assert masks.explained == {(0, 2)}  # in all rows; those that are told directly may go on
    assert {*masks.settled(rows(10))} == {(0, 1), (1, 2)}


def test_a_value_that_is_missing_where_the_question_before_it_is_stays_so():
    """Who stops at a filter question answers neither it nor what follows, value or not."""
    rng = np.random.default_rng(0)
    chances, n = np.full((4000, 2), 0.24), 4000
    level = rng.random(n) < 0.5  # that the other tells: missing just where that one is
    both = {(0, 1): (0.2 * n, 10.0)}
    found = fit_correlation(chances, both, n, settled={(1, 0): level})[0, 1]
    assert found > 0.6
    latent = multivariate_normal(cov=[[1, found], [found, 1]])
    free = latent.cdf(ndtri([0.24, 0.24]))
    assert level.mean() * 0.24 + (1 - level.mean()) * free == pytest.approx(0.2, abs=0.003)
    as_chance = {(0, 1): (n * (level.mean() * 0.24 + (1 - level.mean()) * 0.24**2), 10.0)}
    assert fit_correlation(chances, as_chance, n, settled={(1, 0): level})[0, 1] == 0


@pytest.mark.parametrize("code", [None, "skip"])
@pytest.mark.parametrize("family", [AIM, AllPairs])
def test_who_skips_a_filter_question_skips_what_follows(family, code):
    rng = np.random.default_rng(0)
    smokes, stops = rng.random(4000) < 0.5, rng.random(4000) < 0.2
    frame = pd.DataFrame(
        {"smoke": np.where(smokes, "yes", "no"), "sex": rng.choice(["f", "m"], 4000)}
    )
    frame["packs"] = np.where(smokes, rng.choice(["one", "two"], 4000), code)
    frame.loc[smokes & (rng.random(4000) < 0.05), "packs"] = "no answer"
    frame.loc[stops, ["smoke", "packs"]] = None
    packs = Categorical(
        name="packs", levels=("one", "two"), nullable=True, missing_codes=("no answer",)
    )
    packs = replace(packs, not_applicable=(code,) if code else ())
    smoke = Categorical(name="smoke", levels=("no", "yes"), nullable=True)
    sex = Categorical(name="sex", levels=("f", "m"))
    rule = NotApplicable(("packs",), unless="smoke = 'yes'")
    model = family(epsilon=10.0, delta=1e-6, random_state=0)
    model.fit(frame, schema=Schema((smoke, packs, sex), rules=(rule,)))
    drawn = model.sample_table(4000, missing_values="keep", random_state=0)
    holes = drawn.mask("packs") & ~drawn.mask("packs", "not_applicable")
    assert drawn.mask("smoke").mean() == pytest.approx(0.2, abs=0.03)
    assert holes[drawn.mask("smoke")].mean() > 0.9
    smokers = ~drawn.mask("smoke") & (drawn.codes("smoke") == 1)
    assert holes[smokers].mean() == pytest.approx(0.05, abs=0.04)
    filled = model.sample_table(4000, random_state=0)
    assert filled.codes("smoke").mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("skipped", [1.0, 0.6, 0.0])
def test_how_many_codes_are_skipped_is_learned_unless_values_alone_are(skipped):
    """Of rows without the second, so many lack the code of the first, or else values only."""
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 2, 40_000)[:, np.newaxis], 2, axis=1)  # both or neither
    code, gone = x[:, 0] == 1, rng.random(len(x)) < 0.2
    lost = gone & (rng.random(len(x)) < skipped) if skipped else gone & ~code
    holes = np.stack([lost | (~code & (rng.random(len(x)) < 0.1)), gone], axis=1)
    masks = learned(x, holes, masks=MaskModel(holes.mean(axis=0), {0: 1}))
    assert masks.told == ({0: (1,)} if skipped else {})
    drawn = masks.draw(x, np.random.default_rng(1))
    for rows in gone & code, gone & ~code, ~gone & code, ~gone & ~code:
        same = drawn[:, 1] == gone[rows][0], (x == x[rows][0]).all(axis=1)
        assert drawn[same[0] & same[1], 0].mean() == pytest.approx(holes[rows, 0].mean(), abs=0.05)
    assert Record.from_dict(masks.to_dict()).told == masks.told


def test_a_level_at_which_another_is_never_missing_is_not_skipped():
    rows = np.array([2000.0, 1000.0, 1000.0])
    assert Strip(np.array([40.0, 10.0, 30.0]), rows, 20.0, 3).lack(0, 0.2, 5000) > 10
    assert Strip(np.array([40.0, 210.0, 230.0]), rows, 20.0, 3).lack(0, 0.2, 5000) < 3
    assert Strip(np.array([340.0, 170.0, 170.0]), rows, 1.0, 3).lack(0, 0.2, 5000) == 0  # a few


@pytest.mark.parametrize(("share", "told"), [(0.6, {}), (1.0, {0: (2,), 1: (2,)})])
def test_siblings_do_not_tell_that_each_other_is_skipped(share, told):
    rng = np.random.default_rng(0)
    x = np.repeat(rng.integers(0, 2, 40_000)[:, np.newaxis], 3, axis=1)
    gone, skips = rng.random((2, len(x))) < np.array([[0.2], [share]])
    own = (x[:, :2] == 0) & (rng.random((len(x), 2)) < 0.1)
    holes = np.column_stack([own | (gone & skips)[:, np.newaxis], gone])
    masks = learned(x, holes, masks=MaskModel(holes.mean(axis=0), {0: 1, 1: 1}, told=told))
    assert masks.told == {0: (2,), 1: (2,)}
    assert {(0, 1), (1, 0)}.isdisjoint(masks.slopes)
    assert masks.missing(x).mean(axis=0) == pytest.approx(holes.mean(axis=0), abs=0.01)


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


# Columns that are missing together stay together, whatever noise their counts have
ROWS, NOISE = 10_000, 240.0


def both_missing(holes, rng, std=NOISE):
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
        found = _groups_of(both_missing(holes, rng), holes.mean(axis=0), ROWS)
        assert (0, 1, 2) in [own[:3] for own in found]
        assert all(max(own) < 4 for own in found)


def test_many_columns_with_few_holes_make_up_for_noise():
    rng = np.random.default_rng(0)
    holes = np.repeat(rng.random((ROWS, 1)) < 0.05, 6, axis=1)
    (found,) = _groups_of(both_missing(holes, rng), holes.mean(axis=0), ROWS)
    assert len(found) >= 5
    alone = rng.random((ROWS, 6)) < 0.05
    assert _groups_of(both_missing(alone, rng), alone.mean(axis=0), ROWS) == ()


def test_holes_that_coincide_half_the_time_are_no_group():
    rng = np.random.default_rng(0)
    one = rng.random(ROWS) < 0.4
    other = np.where(rng.random(ROWS) < 0.5, one, rng.random(ROWS) < 0.4)
    holes = np.stack([one, other], axis=1)
    assert _groups_of(both_missing(holes, rng, 100.0), holes.mean(axis=0), ROWS) == ()


def test_holes_of_a_group_are_drawn_as_one():
    rng = np.random.default_rng(0)
    masks = MaskModel(np.array([0.2, 0.2, 0.3, 0.2]))
    correlation = np.eye(4)
    correlation[0, 3] = correlation[3, 0] = 0.5
    masks.correlation = _tied(correlation, [(0, 1)])
    assert np.linalg.eigvalsh(masks.correlation)[0] > 0
    assert masks.correlation[1, 3] == pytest.approx(0.25, abs=0.01)
    holes = masks.draw(np.zeros((ROWS, 4), dtype=np.int64), rng)
    assert (holes[:, 0] ^ holes[:, 1]).mean() < 0.003
    assert (holes[:, 0] & holes[:, 2]).mean() == pytest.approx(0.06, abs=0.01)
    assert _tied(correlation, []) is correlation


def test_what_is_known_of_a_group_is_averaged():
    rng = np.random.default_rng(0)
    holes = holes_of(rng, 0.4)
    _, both = _pooled([(0, 1)], {}, both_missing(holes, rng), holes.mean(axis=0))
    assert (0, 1) not in both
    assert both[0, 5] == both[1, 5]
    assert both[0, 5][1] == pytest.approx(NOISE / np.sqrt(2))
    assert both[5, 6][1] == NOISE


# A column that is never there in most rows leaves the margins of where it is there as they are
LEVELS = {"works": "ny", "school": "0123", "wage": "012345"}


def workers(n, *, skipped):
    """Rows of workers of whom a third work; of the others a share has no wage."""
    rng = np.random.default_rng(0)
    works = rng.random(n) < 0.35
    unlike = [rng.choice(4, n, p=p) for p in ([0.4, 0.3, 0.2, 0.1], [0.1, 0.2, 0.3, 0.4])]
    school = np.where(works, unlike[1], unlike[0])
    wage = pd.Series((school + rng.integers(0, 3, n)).astype(str))
    frame = pd.DataFrame(
        {
            "works": np.where(works, "y", "n"),
            "school": school.astype(str),
            "wage": wage.mask(~works & (rng.random(n) < skipped)),
        }
    )
    attributes = [
        Categorical(name=name, levels=tuple(levels), nullable=name == "wage")
        for name, levels in LEVELS.items()
    ]
    return Table.read(frame, Schema(tuple(attributes)))


def margin(table, name):
    counts = np.bincount(table.codes(name), minlength=table.schema[name].extended_size)
    return counts / len(table)


@pytest.mark.parametrize(
    ("family", "skipped"), [(MST, 1.0), pytest.param(AIM, 0.97, marks=pytest.mark.slow)]
)
def test_kept_margins_are_the_released_ones_where_a_rate_of_holes_is_near_one(family, skipped):
    private = workers(20_000, skipped=skipped)
    apart = []
    for seed in range(3):
        model = family(epsilon=1.0, delta=1e-6, random_state=seed).fit(private)
        kept = model.sample_table(50_000, missing_values="keep", random_state=seed)
        assert ("works", "wage") in model.measured_
        apart += [
            np.abs(margin(private, n) - margin(kept, n)).sum() / 2 for n in private.schema.names
        ]
    # Noise of one cell is some .001 of the rows; this was .05 to .25 where sums of quotients,
    # each of a count of nobody by hardly any chance, told how many rows there are.
    assert np.mean(apart) < 0.006
    assert max(apart) < 0.04


# What released marginals say about holes, against sums written out by hand
READ = [2, 3, 4]
TABLE = np.random.default_rng(0).uniform(0, 100, (3, 4, 5))  # each axis ends with "missing"
EVERYONE = np.ones(3, dtype=bool)


def test_pairs_of_holes_are_read_off_the_last_levels():
    found = _both_missing({(0, 1, 2): _Measured(TABLE, 2.0)}, READ, EVERYONE)
    expected = {(0, 1): TABLE[2, 3, :], (0, 2): TABLE[2, :, 4], (1, 2): TABLE[:, 3, 4]}
    for pair, cells in expected.items():
        assert found[pair] == pytest.approx((cells.sum(), 2.0 * np.sqrt(len(cells))))
    assert found.keys() == expected.keys()


def test_strips_are_read_along_either_axis():
    found = _strips({(0, 2): _Measured(TABLE.sum(axis=1), 3.0)}, READ, EVERYONE)
    table = TABLE.sum(axis=1)
    np.testing.assert_allclose(found[0, 2].missing, table[2, :4])
    np.testing.assert_allclose(found[0, 2].rows, table[:, :4].sum(axis=0))
    np.testing.assert_allclose(found[2, 0].missing, table[:2, 4])
    np.testing.assert_allclose(found[2, 0].rows, table[:2].sum(axis=1))
    assert (found[0, 2].observed_cells, found[2, 0].observed_cells) == (2, 4)


def test_strips_by_two_attributes_are_read_off_the_cells_where_both_are_observed():
    found = _strips({(0, 1, 2): _Measured(TABLE, 2.0)}, READ, EVERYONE)
    np.testing.assert_allclose(found[1, 0, 2].missing, TABLE[:2, 3, :4].ravel())
    np.testing.assert_allclose(found[1, 0, 2].rows, TABLE[:2, :, :4].sum(axis=1).ravel())
    assert found[1, 0, 2].shape == (2, 4)
    assert found[1, 0, 2].std == 2.0
    assert found[1, 0].std == pytest.approx(2.0 * np.sqrt(5))


def test_the_least_noisy_marginal_speaks_and_full_attributes_do_not():
    pair = _Measured(TABLE[:, :, 0], 1.0)
    measured = {(0, 1, 2): _Measured(TABLE, 1.0), (0, 1): pair}
    present = np.array([True, True, False])
    assert _both_missing(measured, READ, present) == {(0, 1): (TABLE[2, 3, 0], 1.0)}
    found = _strips(measured, READ, present)
    assert set(found) == {(0, 1), (1, 0), (0, 2), (1, 2), (0, 1, 2), (1, 0, 2)}
    assert found[0, 1].std == 1.0
    assert found[0, 2].std == pytest.approx(2.0)  # summed over the four levels of the third axis
