"""Smooth, sparse or numeric relations are found in noisy tables of pairs, and no others."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from inference.graphs import dependence
from missdp.inference.missingness import MissingnessModel
from missdp.inference.product_sums import NumberMoments, Numbers, number_covariances
from missdp.inference.raking import centred
from missdp.inference.smoothing import Smoothing, _normal_tables, _shared_marginals, _sparse_tables
from missdp.inference.smoothing import _kind_weights as weights_of

ROWS = 1_000_000  # so many that they are no source of chance dependence beside the noise


def centre(rng, std, shape=(10, 10)):
    """Return noise on a table whose marginals are 0."""
    return centred(rng.normal(0, std, shape))


def smooth_pairs(margins, seen, variances, ordered):
    found = Smoothing.of(margins, seen, variances, ordered, rows=ROWS, flat=False)
    return found.means(), found.remaining_variance


def tables(seed, *, levels=10, attributes=8, strength=0.3, std=0.002):
    """Return the truth (a trend), its noisy tables, the variance of the noise, and marginals."""
    rng = np.random.default_rng(seed)
    margins = [rng.dirichlet(np.full(levels, 20.0)) for _ in range(attributes)]
    truth, seen, variances = {}, {}, {}
    trends = [p * (np.cumsum(p) - p / 2 - 0.5) for p in margins]
    for a, b in itertools.combinations(range(attributes), 2):
        truth[a, b] = strength * rng.uniform(-1, 1) * 12 * np.outer(trends[a], trends[b])
        seen[a, b] = truth[a, b] + centre(rng, std, (levels, levels))
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
    truth, seen, variances, margins = tables(seed, strength=0.0)  # of noise alone, nothing
    smooth, _ = smooth_pairs(margins, seen, variances, [True] * 8)
    assert error(smooth, truth) < 0.12 * error(seen, truth)


def test_an_attribute_of_one_level_depends_on_nothing():
    pair = {(0, 1): np.zeros((3, 1))}
    found, _ = smooth_pairs([np.full(3, 1 / 3), np.ones(1)], pair, pair, [True, False])
    assert (found[0, 1] == 0).all()


@given(st.integers(0, 1000), st.integers(3, 12), st.booleans())
def test_what_is_not_noisy_stays_and_margins_are_kept(seed, levels, second):
    # Cells below 0 are filled if a trend is clear: see `_Posterior`.
    _truth, seen, variances, margins = tables(seed, levels=levels, attributes=2, strength=0.2)
    ordered = [True, second]
    exact, _ = smooth_pairs(margins, seen, {p: 1e-30 * v for p, v in variances.items()}, ordered)
    assert np.allclose(exact[0, 1], seen[0, 1], atol=1e-9)
    shrunk, _ = smooth_pairs(margins, seen, variances, ordered)
    assert np.abs(shrunk[0, 1].sum(axis=0)).max() < 1e-9
    assert np.abs(shrunk[0, 1].sum(axis=1)).max() < 1e-9


@pytest.mark.parametrize("strength", [0.03, 0.1, 0.3])
def test_draws_vary_as_the_truth_does_given_what_was_released(strength):
    # Tables that are perturbed and shrunk again vary too little where relations are weak.
    errors, spread, twice = 0.0, 0.0, 0.0
    for seed in range(4):
        truth, seen, variances, margins = tables(seed, strength=strength)
        found = Smoothing.of(margins, seen, variances, [True] * 8, rows=ROWS)
        rng = np.random.default_rng(seed)
        errors += error(found.means(), truth)
        for _ in range(5):
            noise = {c: centre(rng, 0.002) for c in seen}
            spread += error(found.draw(noise), found.means()) / 5
            again = {
                c: k.scaled(noise[c], k.shrinkage.retained) for c, k in found.posteriors.items()
            }
            twice += error(again, {c: 0 * t for c, t in seen.items()}) / 5
    # The mean of a weak relation that is probably absent is 0, and its draws vary somewhat less.
    assert 0.6 < spread / errors < 4  # beyond trends there is nothing here, which no prior knows
    assert twice < 0.6 * spread


@given(st.floats(-0.98, 0.98), st.integers(0, 1000))
def test_normal_tables_are_those_of_a_normal_law(correlation, seed):
    """The table matches its distribution function, and has the requested marginals.

    It is a mean over eight places of each level, with an error of up to 0.03 at 0.98.
    """
    off = 0.02 if abs(correlation) <= 0.95 else 0.03
    rng = np.random.default_rng(seed)
    ends = rng.dirichlet(np.ones(3)), rng.dirichlet(np.ones(4))
    found = _normal_tables(*ends, np.array([correlation]))[0] + np.outer(*ends)
    law = stats.multivariate_normal(cov=[[1, correlation], [correlation, 1]])
    at = [stats.norm.ppf(np.cumsum(e)[0]) for e in ends]
    assert found[0, 0] == pytest.approx(law.cdf(at), abs=off)
    assert found.sum(axis=1) == pytest.approx(ends[0])
    assert found.sum(axis=0) == pytest.approx(ends[1], abs=off)
    assert (found >= 0).all()


def ranked(table):
    """The correlation of mid-ranks."""
    ends = [np.maximum(table.sum(axis=1 - axis), 0) for axis in (0, 1)]
    x, y = (np.cumsum(e) - e / 2 for e in ends)
    x, y = x - ends[0] @ x, y - ends[1] @ y
    return x @ table @ y / np.sqrt((ends[0] @ x**2) * (ends[1] @ y**2))


@pytest.mark.parametrize("correlation", [-0.99, 0.6, 0.9, 0.99])
def test_strong_trends_stay_as_strong_under_noise_that_hides_cells(correlation):
    """No cell is left below 0, and the cells above 0 are no weaker than the observed ones."""
    margin, std = np.full(10, 0.1), 0.006
    base = np.outer(margin, margin)
    truth = _normal_tables(margin, margin, np.array([correlation]))[0]
    for seed in range(5):
        noise = centre(np.random.default_rng(seed), std)
        seen, variances = {(0, 1): truth + noise}, {(0, 1): np.full((10, 10), (0.9 * std) ** 2)}
        found = Smoothing.of([margin] * 2, seen, variances, [True] * 2, rows=ROWS)
        table = found.means()[0, 1] + base
        assert (table > -1e-12).all()
        assert table.sum(axis=0) == pytest.approx(margin, abs=1e-3)
        assert ranked(table) == pytest.approx(ranked(truth + base), abs=0.06)
        assert np.square(table - base - truth).sum() < 0.35 * np.square(noise).sum()


# Nearly functional pairs are found under noise, and others are left to the smooth prior
LEVELS = 20


def noisy(table, rng, std):
    """Return noisy marginals of a table, its noisy dependence, and the variance of a cell."""

    def moved(margin):
        margin = np.maximum(margin + rng.normal(0, std / 2, margin.shape), 1e-6)
        return margin / margin.sum()

    margins = moved(table.sum(axis=1)), moved(table.sum(axis=0))
    noise = centre(rng, std, table.shape)
    dependence = table - np.outer(table.sum(axis=1), table.sum(axis=0))
    return margins, {(0, 1): dependence + noise}, {(0, 1): np.full(table.shape, std**2)}


def mixed(share, rng, levels=LEVELS):
    """A table of two attributes that are equal in a share of the rows, and else independent."""
    margin = rng.dirichlet(np.full(levels, 5.0))
    return share * np.diag(margin) + (1 - share) * np.outer(margin, margin)


def sparse(share, seed):
    """Return a table, its noisy version, and the function that was found in it."""
    rng = np.random.default_rng(seed)
    table = mixed(share, rng)
    seen = noisy(table, rng, 0.0027)
    return table, seen, _sparse_tables(*seen, [False, False], {}).get((0, 1))


def test_a_function_is_found_exactly_where_noise_hides_it():
    table, (margins, _, _), found = sparse(1.0, 0)
    assert (found.possible == np.eye(LEVELS, dtype=bool)).mean() > 0.99
    assert np.trace(found.table) > 0.99
    shared = _shared_marginals(margins, {(0, 1): found})
    truth = table.sum(axis=1)
    assert np.abs(shared[0] - shared[1]).sum() < 0.01
    assert np.abs(shared[0] - truth).sum() < np.abs(margins[0] - truth).sum()


@pytest.mark.parametrize("share", [0.9, 0.6])
def test_what_is_not_a_function_stays_none(share):
    table, (margins, pairs, _), found = sparse(share, 1)
    assert found.possible.all()
    raw = pairs[0, 1] + np.outer(*margins)
    assert np.abs(found.table - table).sum() < 0.6 * np.abs(raw - table).sum()
    assert np.trace(found.table) == pytest.approx(np.trace(table), abs=0.04)


def test_noise_independence_and_what_is_smooth_are_no_function():
    _, seen, found = sparse(0.0, 2)
    assert found is None
    smoothing = Smoothing.of(*seen, [True, True], rows=ROWS)
    assert smoothing.marginals == seen[0]
    assert smoothing.allowed({}) == {}
    rng, place = np.random.default_rng(4), (np.arange(10) + 0.5) / 10
    table = np.exp(-8 * np.square(place[:, None] - place))
    seen = noisy(table / table.sum(), rng, 0.0005)  # a smooth one keeps its own prior
    assert not Smoothing.of(*seen, [True, True], rows=ROWS).sparse


def test_a_coarser_column_is_a_function_one_way():
    rng = np.random.default_rng(3)
    margin = rng.dirichlet(np.full(LEVELS, 5.0))
    table = np.zeros((LEVELS, 5))
    table[np.arange(LEVELS), np.arange(LEVELS) // 4] = margin
    smoothing = Smoothing.of(*noisy(table, rng, 0.002), [True, True], rows=ROWS)
    possible = smoothing.allowed({})[0, 1]
    assert (possible == (table > 0)).mean() > 0.97
    known = np.ones(table.shape, dtype=bool)
    known[0] = False
    assert not smoothing.allowed({(0, 1): known})[0, 1][0].any()


# Tables of pairs with numbers under them: the gain, the unchanged part, and missing values
CODES = 40  # finer ones, four in each of ten bins
BIN = np.repeat(np.arange(10), 4)


def population(n, seed, tail):
    """Return finer codes of three numbers that rise together, and the value of each code."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n, 1))
    ranks = (0.4 * common + rng.normal(size=(n, 3))).argsort(axis=0).argsort(axis=0)
    codes = ranks * CODES // n
    values = np.exp(np.linspace(0, 4, CODES)) if tail else np.arange(CODES, dtype=float)
    return codes, (values - values.mean()) / values.std()


def moments_of(codes, z, *, std=0.0, seed=0, holes=None):
    """Return the released moments of these rows, with noise, also where cells are missing."""
    rng = np.random.default_rng(seed)
    holes = np.zeros(codes.shape, dtype=bool) if holes is None else holes
    values, bins = np.where(holes, 0.0, z[codes]), np.where(holes, 10, BIN[codes])
    means, by_level, both = {a: (values[:, a].mean(), 0.0) for a in range(3)}, {}, {}
    for a, c in itertools.permutations(range(3), 2):
        share = np.bincount(bins[:, c], values[:, a], 11) / len(codes)
        by_level[a, c] = share + rng.normal(0, std, 11), np.full(11, std)
    for a, b in itertools.combinations(range(3), 2):
        both[a, b] = (values[:, a] * values[:, b]).mean() + rng.normal(0, std), std
    return NumberMoments(means, {}, by_level, both)


def levels_of(z):
    mean = z.reshape(10, 4).mean(axis=1)
    return dict.fromkeys(range(3), (mean, z.reshape(10, 4).var(axis=1)))


EVEN = [np.full(10, 0.1)] * 3


def released_covariances(codes, z, **noise):
    free, no_holes = MissingnessModel(np.zeros(3)), np.zeros(codes.shape, dtype=bool)
    moments = moments_of(codes, z, **noise)
    return number_covariances(moments, levels_of(z), EVEN, BIN[codes], no_holes, free)


@pytest.mark.parametrize("tail", [False, True])
def test_trends_are_closer_with_numbers_under_the_tables(tail):
    codes, z = population(20_000, 0, tail)
    truth, std = dependence(BIN[codes], [10] * 3)[1], 0.002
    rank, errors = np.arange(10) - 4.5, np.zeros((2, 2))
    for seed in range(6):
        rng = np.random.default_rng(seed)
        seen = {p: t + centre(rng, std) for p, t in truth.items()}
        variances = {p: np.full((10, 10), (0.9 * std) ** 2) for p in truth}
        numbers = released_covariances(codes, z, std=2 * std, seed=seed)
        for k, known in enumerate((None, numbers)):
            how = {"rows": 20_000, "flat": False, "numbers": known}
            found = Smoothing.of(EVEN, seen, variances, [True] * 3, **how).means()
            off = [found[p] - table for p, table in truth.items()]
            errors[k] += np.square(off).sum(), np.square([rank @ o @ rank for o in off]).sum()
    assert (errors[1] < ([1.0, 0.8] if tail else [0.95, 0.5]) * errors[0]).all()


@settings(max_examples=20)
@given(st.integers(0, 100), st.booleans())
def test_what_is_not_noisy_stays_with_numbers(seed, tail):
    codes, z = population(4000, seed, tail)
    truth = dependence(BIN[codes], [10] * 3)[1]
    noise = {p: np.full((10, 10), 1e-24) for p in truth}
    numbers = released_covariances(codes, z, std=1e-12)
    found = Smoothing.of(EVEN, truth, noise, [True] * 3, rows=ROWS, numbers=numbers).means()
    for p, table in truth.items():
        assert found[p] == pytest.approx(table, abs=1e-6)
        assert found[p].sum(axis=0) == pytest.approx(np.zeros(10), abs=1e-9)


def test_levels_and_numbers_that_nothing_tells_leave_tables_finite():
    """An ordered level that never occurs: no level of the nominal attribute is in it."""
    rng, own = np.random.default_rng(1), np.array([0.4, 0.3, 0.29, 0.01])
    margin = np.array([0.2, 0.2, 0.15, 0.15, 0.15, 0.15])
    table = np.zeros((4, 6))
    table[[0, 0, 1, 1, 2, 2], np.arange(6)] = margin
    outcome = np.array([0.5, 0.3, 0.2])
    seen = {(0, 1): table - np.outer(own, margin), (0, 2): np.zeros((4, 3))}
    seen[1, 2] = np.outer(margin * np.linspace(-1, 1, 6), [-0.3, 0.1, 0.2])
    variances = {p: np.full(t.shape, 1e-6) for p, t in seen.items()}
    seen = {p: t + rng.normal(0, 1e-3, t.shape) for p, t in seen.items()}
    found = Smoothing.of([own, margin, outcome], seen, variances, [True, False, True], rows=ROWS)
    assert (found.sparse[0, 1].table.sum(axis=1) == 0).any()
    assert all(np.isfinite(t).all() for t in found.means().values())
    _, seen, variances, margins = tables(0, attributes=2)  # a number of which no bin tells anything
    told = {(0, 1): (np.zeros(10), np.full(10, 1e-6))}
    numbers = Numbers({0: np.zeros(10)}, {0: 1.0}, told, {})
    found = Smoothing.of(margins, seen, variances, [True, True], rows=ROWS, numbers=numbers)
    assert np.isfinite(found.means()[0, 1]).all()


def test_draws_have_the_numbers_that_what_they_are_drawn_around_has():
    """In few rows a number may vary with some noise, and not with other."""
    told = np.zeros(3), np.ones(3)
    one = Numbers({0: np.arange(2.0)}, {0: 1.0}, {(0, 1): told}, {})
    none = Numbers({}, {0: 0.0}, {(0, 1): told}, {})
    for found, other, shape in ((one, none, (2, 3)), (none, one, (3, 3))):
        assert (
            found.difference_from(other).with_numbers((0, 1), np.zeros((2, 3)), noise=False).shape
            == shape
        )


def test_missing_values_that_depend_on_others_are_made_up_for():
    codes, z = population(60_000, 1, tail=False)
    chance = 0.1 + 0.04 * BIN[codes[:, 0]]
    holes = np.zeros(codes.shape, dtype=bool)
    holes[:, 1] = np.random.default_rng(0).random(len(codes)) < chance

    class Known(MissingnessModel):
        """The mechanism itself."""

        def missing(self, rows, attributes=None):
            found = np.zeros(rows.shape)
            found[:, 1] = 0.1 + 0.04 * rows[:, 0]
            return found

    masks = Known(np.array([0.0, 0.28, 0.0]))
    seen = moments_of(codes, z, holes=holes)
    told, wanted = (seen, levels_of(z), EVEN, BIN[codes], holes), released_covariances(codes, z)
    found = number_covariances(*told, masks)
    plain = number_covariances(*told, MissingnessModel(masks.rates))
    assert found.both[0, 1][0] == pytest.approx(wanted.both[0, 1][0], abs=0.01)
    assert np.abs(plain.by_level[1, 0][0] - wanted.by_level[1, 0][0]).max() > 0.004
    for pair in ((0, 1), (1, 0), (1, 2)):
        assert found.by_level[pair][0] == pytest.approx(wanted.by_level[pair][0], abs=0.002)
    assert found.by_level[0, 2][0] == pytest.approx(wanted.by_level[0, 2][0], abs=1e-9)


def test_steps_that_hardly_turn_stay_finite():
    """Where they do not turn at all, a step was larger than a number can be: a fit failed."""
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shape = rng.integers(2, 9), rng.integers(1, 30)
        weights = weights_of(np.exp(-0.5 * rng.gamma(0.3, 40.0, shape)))
        assert weights.sum() == pytest.approx(1.0)
        assert (weights >= 0).all()
