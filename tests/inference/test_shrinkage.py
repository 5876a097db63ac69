"""One mixture for all tables: posterior means, the remaining signal, and the noise itself."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from missdp.inference.raking import centred, shrunk
from missdp.inference.shrinkage import (
    _MAX_INDEPENDENCE,
    _MAX_STRENGTHS,
    _STRENGTH_FACTOR,
    _STRONGEST,
    Mixture,
    NoisyTable,
    _grid,
    _likelihoods,
)
from missdp.inference.smoothing import Smoothing, _Basis, _Fit, _shapes

LEVELS = 8
MANY = 1e9  # tables, so that one more or less makes no difference


def shapes_of(*, ordered, levels=LEVELS):
    """Return the shapes of dependence of two columns."""
    level = np.full(levels, 1 / levels)
    basis = _Basis.of(level, np.ones(levels), ordered=ordered)
    return _shapes(basis, basis)


def tables_of(rng, number, *, strength=0.0, ordered=False, rows=np.inf, levels=LEVELS):
    """Return tables of true coefficients of a variance relative to that of their noise."""
    shapes, found = shapes_of(ordered=ordered, levels=levels), {}
    for pair in range(number):
        noise = rng.uniform(0.5, 2.0, shapes[0].shape) * 1e-3
        truth = rng.normal(0.0, np.sqrt(strength * 1e-3), noise.shape)
        values = truth + rng.normal(0.0, np.sqrt(noise))
        found[pair] = NoisyTable(values, noise, shapes, np.full(noise.shape, 1 / rows))
    return found


def shrinkages(tables):
    mixture = Mixture.of(tables)
    return {name: mixture.shrink(table) for name, table in tables.items()}


# -- posterior means -----------------------------------------------------------------------------
STRENGTHS = np.array([0.5, 3.0])
SHAPES = np.array([[1.0, 0.1], [1.0, 1.0]])
WEIGHTS = np.array([[0.1, 0.4], [0.2, 0.3]])  # by shape and strength, of dependent tables
GRID = np.linspace(-12, 12, 801)


def by_integration(values, noise, sampling, independent):
    """Posterior means and probabilities by sums over a grid of true coefficients."""
    seen = [norm.pdf(v, GRID, np.sqrt(s)) for v, s in zip(values, noise, strict=True)]

    def joint(prior):
        """Return the density of the table, and that times each coefficient, over the grid."""
        laws = [norm.pdf(GRID, 0, np.sqrt(p)) * s for p, s in zip(prior, seen, strict=True)]
        density = np.multiply.outer(*laws)
        return np.array([density.sum(), (density.T @ GRID).sum(), (density @ GRID).sum()])

    chance = independent * joint(sampling)
    parts = np.array([[joint(a * b + sampling) for a in STRENGTHS] for b in SHAPES])
    parts = (1 - independent) * WEIGHTS[:, :, None] * parts
    whole = chance[0] + parts[:, :, 0].sum()
    alone = np.prod(norm.pdf(values, 0, np.sqrt(noise))) / (GRID[1] - GRID[0]) ** 2
    means = parts[:, :, 1:].sum(axis=(0, 1)) / whole
    return means, parts[:, :, 0].sum(axis=1) / whole, chance[0] / whole, np.log(whole / alone)


@pytest.mark.parametrize("independent", [0.05, 0.5, 0.9])
@pytest.mark.parametrize("values", [(1.5, -0.2), (-2.5, 2.0), (4.0, 0.3)])
def test_posterior_means_agree_with_brute_force_bayes(values, independent):
    values, noise = np.array(values), np.array([0.6, 0.3])
    sampling = np.full(2, 0.05)
    mixture = Mixture(STRENGTHS, {2: MANY * (1 - independent) * WEIGHTS}, MANY * independent, MANY)
    found = mixture.shrink(NoisyTable(values, noise, SHAPES, sampling))
    means, shapes, chance, likelihood = by_integration(values, noise, sampling, independent)
    assert found.independent == pytest.approx(chance, abs=1e-5)
    assert found.shapes == pytest.approx(shapes, abs=1e-5)
    assert found.likelihood == pytest.approx(likelihood, abs=1e-4)
    if chance > _MAX_INDEPENDENCE:
        means = np.zeros(2)
    assert found.retained * values == pytest.approx(means, rel=1e-3)


def test_degrees_count_as_so_many_coefficients():
    """Half of the degrees of freedom: half of the logarithm of the likelihood."""
    mixture = Mixture(np.ones(1), {1: np.full((1, 1), MANY / 2)}, MANY / 2, MANY)
    values, ones = np.array([2.0, 3.0]), np.ones(2)
    whole, half = (
        mixture.shrink(NoisyTable(values, ones, ones[None], 0 * ones, degrees))
        for degrees in (1.0, 0.5)
    )
    odds = [np.log(found.independent / (1 - found.independent)) for found in (whole, half)]
    assert odds[1] == pytest.approx(odds[0] / 2)


# -- the retained part of noise, and of weak relations -------------------------------------------
@pytest.mark.parametrize("ordered", [False, True])
def test_of_pure_noise_nothing_is_retained(ordered):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        found = shrinkages(tables_of(rng, 66, ordered=ordered))
        assert all((one.retained == 0).all() for one in found.values())


@pytest.mark.parametrize("ordered", [False, True])
def test_of_weak_relations_most_is_kept_where_all_depend(ordered):
    strength, noise = 1.0, 1e-3  # as much as the noise, on average
    for seed in range(5):
        rng = np.random.default_rng(seed)
        weak = tables_of(rng, 45, strength=strength, ordered=ordered)
        best = {p: strength * noise / (strength * noise + t.noise) for p, t in weak.items()}
        found = shrinkages(weak)
        kept = [found[p].retained.mean() / best[p].mean() for p in weak]
        assert np.mean(kept) > 0.75
        # One of them among tables of noise: it may be chance.
        others = tables_of(rng, 44, ordered=ordered)
        alone = [shrinkages({**others, "one": weak[p]})["one"].retained.mean() for p in range(5)]
        assert np.mean(alone) < 0.75 * np.mean([found[p].retained.mean() for p in range(5)])


def test_noise_beyond_any_dependence_tells_nothing():
    """A coefficient is at most 1: of noise many times as large, no excess is dependence."""
    for seed in range(20):
        rng, tables = np.random.default_rng(seed), {}
        for pair, one in tables_of(rng, 66).items():
            scale = 2e5  # of variances, from .001 to 200
            values, noise = one.values * scale**0.5, one.noise * scale
            tables[pair] = NoisyTable(values, noise, one.shapes, one.sampling)
        tables["high"] = NoisyTable(1.4 * values, noise, one.shapes, one.sampling)
        found = shrinkages(tables)
        assert found["high"].independent > 0.85
        assert all((one.retained == 0).all() for one in found.values())


def test_a_clear_relation_among_noise_is_kept():
    rng = np.random.default_rng(0)
    tables = tables_of(rng, 65)
    tables["clear"] = tables_of(rng, 1, strength=10.0)[0]
    found = shrinkages(tables)
    assert found["clear"].retained.mean() > 0.85
    assert sum(one.retained.any() for one in found.values()) == 1


def test_a_table_is_no_evidence_for_itself():
    """By itself it meets made-up tables only: ten of independent columns and one of others."""
    rng = np.random.default_rng(3)
    for strength in (0.3, 0.6, 1.0):
        table = tables_of(rng, 1, strength=strength)[0]
        mixture = Mixture.of({"one": table})
        parts = np.full((1, len(mixture.strengths)), MANY / 11 / len(mixture.strengths))
        prior = Mixture(mixture.strengths, {1: parts}, MANY * 10 / 11, MANY)
        found, expected = mixture.shrink(table), prior.shrink(table)
        assert found.independent == pytest.approx(expected.independent, rel=0.02)
    # With itself counted, it would be likelier dependent than that.
    null, others = _likelihoods(table, mixture.strengths)
    chances, _ = mixture._responsibilities(np.array([null]), others[None])
    assert chances[0] < 0.5 * expected.independent


@pytest.mark.parametrize("noise", [0.0, 1e-4, 1.0, 1e4])
@pytest.mark.parametrize("size", [0.0, 0.01, 2.0])
def test_grid_stays_within_its_limits(noise, size):
    """The strongest component is no more than a correlation, and there are not too many."""
    ones = np.ones((3, 3))
    table = NoisyTable(size * ones, noise * ones, ones[None], 0 * ones)
    strengths = _grid({"one": table})
    assert 1 <= len(strengths) <= _MAX_STRENGTHS
    top = min(_STRONGEST, 4 * max(noise, size**2))
    assert 0.99 * top <= strengths[-1] <= 1.01 * _STRENGTH_FACTOR * max(top, 1e-29)
    np.testing.assert_allclose(np.diff(np.log(strengths)), np.log(_STRENGTH_FACTOR))
    if not noise and size:
        assert len(strengths) == _MAX_STRENGTHS
    elif noise:
        assert strengths[0] <= min(top, 0.03 * noise)


@pytest.mark.parametrize("place", range(4))
def test_noisy_table_raises_if_empty_or_infinite(place):
    parts = [np.ones((2, 2)), np.ones((2, 2)), np.ones((1, 2, 2)), np.ones((2, 2))]
    NoisyTable(*parts)
    for bad in (np.nan, np.inf):
        wrong = parts[place].copy()
        wrong.flat[-1] = bad
        with pytest.raises(ValueError, match="finite"):
            NoisyTable(*parts[:place], wrong, *parts[place + 1 :])
    with pytest.raises(ValueError, match="empty"):
        NoisyTable(*parts[:place], parts[place][..., :0], *parts[place + 1 :])
    with pytest.raises(ValueError, match="finite"):
        NoisyTable(*parts, degrees=np.nan)


def test_chance_relations_of_few_rows_are_no_dependence():
    """Columns are independent, and their chance relation in few rows is larger than the noise."""
    rng, rows = np.random.default_rng(0), 300
    tables = {}
    for pair in range(45):
        one = tables_of(rng, 1, rows=rows)[0]
        values = one.values + rng.normal(0, np.sqrt(1 / rows), one.values.shape)
        tables[pair] = NoisyTable(values, one.noise, one.shapes, one.sampling)
        assert np.square(values).sum() > 2 * one.noise.sum()
    assert all((found.retained == 0).all() for found in shrinkages(tables).values())


# -- noise of coefficients -----------------------------------------------------------------------
def unequal(levels, place):
    """One level of 95 %, and others of which each is twice as large as the next."""
    rest = 0.5 ** np.arange(levels - 1)
    return np.insert(0.05 * rest / rest.sum(), place, 0.95)


@pytest.mark.parametrize(("ordered", "place"), [(True, 0), (True, 3), (False, 0)])
def test_noise_of_coefficients_is_that_of_centred_tables(ordered, place):
    margins = unequal(8, place), unequal(6, min(place, 5))
    degrees = (1 - 1 / 8) * (1 - 1 / 6)
    variance = np.full((8, 6), degrees * 1e-6)  # of a cell of a centred table
    one, other = (
        _Basis.of(margin, variance.mean(axis=1 - axis), ordered=ordered)
        for axis, margin in enumerate(margins)
    )
    rng, squares = np.random.default_rng(0), []
    for _ in range(4000):
        noise = centred(rng.normal(0, 1e-3, (8, 6)))
        fit = _Fit.of(one, other, noise, variance, 1e6)
        squares.append(np.square(fit.values) / fit.noise)
    found = np.mean(squares, axis=0)
    assert 0.9 < found[0, 0] < 1.1
    assert 0.9 < found.mean() < 1.1
    apart = np.square(one.functions).T @ variance @ np.square(other.functions)
    assert not 0.9 < found[0, 0] * fit.noise[0, 0] / apart[0, 0] < 1.1  # of independent cells


# -- order, and empty tables ---------------------------------------------------------------------
def pairs_of(rng, attributes=5, levels=6):
    """Return marginals, noisy dependence of all pairs, and the variance of its noise."""
    margins = [rng.dirichlet(np.full(levels, 3.0)) for _ in range(attributes)]
    pairs, variances = {}, {}
    for a, b in itertools.combinations(range(attributes), 2):
        base = np.outer(margins[a], margins[b])
        size = rng.choice([0.0, 0.4])
        truth = centred(size * base * rng.normal(size=base.shape))
        variances[a, b] = rng.uniform(0.5, 2.0, base.shape) * 1e-6
        pairs[a, b] = truth + centred(rng.normal(0, 1e-3, base.shape))
    return margins, pairs, variances


@pytest.mark.parametrize("ordered", [False, True])
def test_the_order_of_tables_makes_no_difference(ordered):
    margins, pairs, variances = pairs_of(np.random.default_rng(0))
    turned = dict(reversed(pairs.items()))
    found, other = (
        Smoothing.of(margins, some, variances, [ordered] * 5, rows=1e5).means()
        for some in (pairs, turned)
    )
    assert any(not np.allclose(found[p], table) for p, table in pairs.items())
    for pair, table in found.items():
        np.testing.assert_allclose(other[pair], table, atol=1e-12)


def test_the_order_of_nominal_levels_makes_no_difference():
    rng = np.random.default_rng(1)
    margins, pairs, variances = pairs_of(rng)
    order = [rng.permutation(6) for _ in margins]

    def moved(tables):
        return {(a, b): t[np.ix_(order[a], order[b])] for (a, b), t in tables.items()}

    found = Smoothing.of(margins, pairs, variances, [False] * 5, rows=1e5).means()
    ends = [m[o] for m, o in zip(margins, order, strict=True)]
    other = Smoothing.of(ends, moved(pairs), moved(variances), [False] * 5, rows=1e5).means()
    assert any(not np.allclose(found[p], table) for p, table in pairs.items())
    for pair, table in moved(found).items():
        np.testing.assert_allclose(other[pair], table, atol=1e-9)


NOTHING = {
    "no noise": lambda tables: (tables, 0.0),
    "all-zero tables": lambda tables: ({p: 0 * t for p, t in tables.items()}, 1.0),
    "neither": lambda tables: ({p: 0 * t for p, t in tables.items()}, 0.0),
    "one pair": lambda tables: ({(0, 1): tables[0, 1]}, 1.0),
    "no pair": lambda _: ({}, 1.0),
}


@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("rows", [0.0, 1e5])
@pytest.mark.parametrize("case", NOTHING)
def test_where_there_is_nothing_tables_stay_finite(case, rows, ordered):
    margins, pairs, variances = pairs_of(np.random.default_rng(0))
    known, size = NOTHING[case](pairs)
    noise = {p: size * variances[p] for p in known}
    found = Smoothing.of(margins, known, noise, [ordered] * 5, rows=rows)
    assert found.means().keys() == known.keys()
    assert all(np.isfinite(table).all() for table in found.means().values())
    if case in ("all-zero tables", "neither"):
        assert all(not table.any() for table in found.means().values())


@pytest.mark.parametrize("ordered", [False, True])
def test_attributes_of_one_level_and_empty_levels_stay_finite(ordered):
    rng = np.random.default_rng(0)
    margins = [np.ones(1), np.array([0.7, 0.3, 0.0]), np.array([0.5, 0.5])]
    shapes = {p: (len(margins[p[0]]), len(margins[p[1]])) for p in ((0, 1), (0, 2), (1, 2))}
    pairs = {p: centred(rng.normal(0, 1e-3, shape)) for p, shape in shapes.items()}
    variances = {p: np.full(shape, 1e-6) for p, shape in shapes.items()}
    found = Smoothing.of(margins, pairs, variances, [ordered] * 3, rows=1e4).means()
    assert all(np.isfinite(table).all() for table in found.values())
    assert not found[0, 1].any()
    base = {(a, b): np.outer(margins[a], margins[b]) for a, b in pairs}
    shares = shrunk({p: t + base[p] for p, t in pairs.items()}, base, dict.fromkeys(pairs, 1e-3))
    for pair, table in shares.items():
        assert np.isfinite(table).all()
        assert (table[base[pair] == 0] == 0).all()
