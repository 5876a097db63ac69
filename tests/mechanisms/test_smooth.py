"""Noise scaled to a smooth bound, telling its scale or not: loss, laws, bars and exact draws."""

import math
from fractions import Fraction
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms import SecureNoise, SeededNoise
from missdp.mechanisms.exact_noise import seeded_words
from missdp.mechanisms.smooth import (
    Bounded,
    ReleasedScale,
    SelfScaledNoise,
    SmoothNoise,
    _Drawn,
    _LazyUniform,
    _log_beyond,
    plan_smooth,
    reference_bound,
)


def log_lomax(x, shape):
    return -(shape + 1) * np.log1p(np.abs(x))


def worst_ratio(shape, alpha, beta):
    """Largest log-ratio of the released densities over outputs, shifts and scale ratios.

    Shifts are in units of the denominator's noise scale; both tables take that place, because the
    change of the query is within the smooth bounds of both.
    """
    x = np.geomspace(1e-6, 1e9, 4001)
    x = np.concatenate([-x[::-1], [0], x])
    return max(
        float(np.max(log_lomax(x, shape) - s - log_lomax(np.exp(s) * x + shift, shape)))
        for s in np.linspace(-beta, beta, 9)
        for shift in np.linspace(-alpha, alpha, 9)
    )


def lomax(shape, alpha, beta, dimension=1):
    return SmoothNoise(epsilon=1e9, shape=shape, alpha=alpha, beta=beta, dimension=dimension)


@given(st.integers(1, 40), st.floats(1e-3, 2.0), st.floats(1e-3, 1.0))
@settings(max_examples=40, deadline=None)
def test_lomax_loss_is_exact(shape, alpha, beta):
    stated = lomax(shape, alpha, beta)._loss(beta)
    worst = worst_ratio(shape, alpha, beta)
    assert worst <= stated + 1e-9
    assert worst >= stated - 1e-3 * max(stated, 1.0)


@given(st.integers(2, 4), st.integers(1, 12), st.floats(0.01, 1.0), st.floats(0.01, 0.5))
@settings(max_examples=40, deadline=None)
def test_lomax_loss_of_vectors(dimension, shape, alpha, beta):
    rng = np.random.default_rng(dimension * shape)
    stated = lomax(shape, alpha, beta, dimension)._loss(beta)
    x = rng.laplace(size=(4000, dimension)) * rng.choice([1e-4, 1.0, 1e4], (4000, 1))
    shift = rng.laplace(size=(4000, dimension))
    shift *= alpha / np.abs(shift).sum(axis=1, keepdims=True)
    worst = 0.0
    for s in (-beta, 0.0, beta):
        after = np.abs(np.exp(s) * x + shift).sum(axis=1)
        ratio = (shape + dimension) * (np.log1p(after) - np.log1p(np.abs(x).sum(axis=1)))
        worst = max(worst, float((ratio - s * dimension).max()))
    origin = (shape + dimension) * math.log1p(alpha) + dimension * beta
    assert worst <= stated + 1e-9
    assert stated == pytest.approx(max(origin, shape * beta))


def test_reference_bound_is_the_supremum():
    steps = np.arange(20000)
    for beta in (0.001, 0.02, 0.3, 2.0):
        exact = np.max(np.exp(-beta * steps) * (1 + 2 * (4 + steps)))
        assert exact <= reference_bound(beta, 1.0, 2.0) <= exact * 1.05


@pytest.mark.parametrize("tells", [False, True])
@pytest.mark.parametrize("dimension", [1, 2, 12, 60])
def test_plans_hold_what_they_state_or_say_what_it_takes(dimension, tells):
    with pytest.raises(UnprovenError, match=r"at epsilon 1e-06: it takes about (\S+)") as refused:
        plan_smooth(1e-6, dimension=dimension, tells=tells)
    enough = 1.05 * float(str(refused.value).rpartition(" ")[2])
    for epsilon in (enough, 1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0):
        noise = plan_smooth(epsilon, donee=2.0, dimension=dimension, tells=tells)
        assert 0.99 * epsilon < noise._loss(noise.beta) < epsilon
    with pytest.raises(UnprovenError):
        plan_smooth(0.9 * enough, dimension=dimension, tells=tells)


def test_what_is_not_proven_is_refused():
    for refused, make in (
        (UnprovenError, lambda: SmoothNoise(shape=8, beta=0.125, epsilon=1.0, alpha=0.11)),
        (UnprovenError, lambda: SelfScaledNoise(epsilon=1.0, shape=8, alpha=0.1, beta=0.1251)),
        (UnprovenError, lambda: telling(alpha=0.126)),
        (UnprovenError, lambda: plan_smooth(1e-12, tells=True)),
        (ParameterError, lambda: SmoothNoise(shape=0, beta=0.125, epsilon=1.0, alpha=0.01)),
        (ParameterError, lambda: telling(shape=2, dimension=2)),
        (ParameterError, lambda: plan_smooth(0.0)),
        (ParameterError, lambda: plan_smooth(1.0).draw(Bounded((), 1.0), SecureNoise())),
        (ParameterError, lambda: telling().draw(Bounded((1,), 1.0), SecureNoise())),
        (ParameterError, lambda: telling().quantile(1.0)),
    ):
        with pytest.raises(refused):
            make()
    assert 0.999 < telling().epsilon / telling()._loss(0.125) < 1.002


def test_deviation_and_quantiles_match_the_density():
    noise = plan_smooth(1.0)

    def weighted(x, power):
        return x**power * float(np.exp(log_lomax(np.array(x), noise.shape)))

    mass = 2 * integrate.quad(weighted, 0, np.inf, args=(0,))[0]
    second = 2 * integrate.quad(weighted, 0, np.inf, args=(2,))[0]
    spread = noise.standard_deviation * noise.alpha
    assert spread == pytest.approx(math.sqrt(second / mass), rel=1e-6)
    inside = 2 * integrate.quad(weighted, 0, noise.quantile(0.9) * noise.alpha, args=(0,))[0]
    assert inside / mass == pytest.approx(0.9, abs=1e-7)


# Samplers
def lomax_cdf(x, shape=6):
    return 0.5 + np.sign(x) * 0.5 * (1 - (1 + np.abs(x)) ** -float(shape))


FINE = Fraction(1 << 24)
SIX = lomax(6, 0.1, 0.1)


def test_answers_follow_the_law_at_the_scale_that_is_due_and_at_no_other():
    law, source = plan_smooth(1.0), SeededNoise(11)
    draws = [law.draw(Bounded((7,), 10.0), source)[0] for _ in range(3000)]
    sample = (np.array(draws, dtype=float) - 7) * law.alpha / 10
    for factor, right in ((1.0, True), (0.75, False), (1.33, False)):
        found = stats.kstest(sample * factor, lomax_cdf, args=(law.shape,)).pvalue
        assert found > 1e-3 if right else found < 1e-6


def test_rounding_is_exact_on_a_coarse_grid():
    # Masses of single grid points, with value and scale off the grid: rounding, not truncation.
    value, scale, points = Fraction(1, 3), Fraction(7, 5), np.array([-1, 0, 1, 2])
    words = seeded_words(np.random.default_rng(7))
    sample = np.array([SIX._points([value], scale, words)[0] for _ in range(3000)])
    edges = (np.concatenate([points - 0.5, [2.5]]) - float(value)) / float(scale)
    expected = np.diff(lomax_cdf(edges)) * len(sample)
    found = np.array([(sample == point).sum() for point in points])
    rest = [len(sample) - found.sum(), len(sample) - expected.sum()]
    assert stats.chisquare([*found, rest[0]], [*expected, rest[1]]).pvalue > 1e-3


def test_vector_noise_is_uncorrelated_but_shares_its_scale():
    words = seeded_words(np.random.default_rng(6))
    draws = [SIX._points([Fraction(0)] * 2, FINE, words) for _ in range(2000)]
    sample = np.array(draws) / float(FINE)
    assert stats.kstest(sample[:, 1], lomax_cdf).pvalue > 1e-3
    assert abs(np.corrcoef(sample.T)[0, 1]) < 0.1
    assert np.corrcoef(np.log(np.abs(sample.T)))[0, 1] > 0.05


class Strange:
    """A stranger's source: its generator is for post-processing, and protects nothing."""

    def generator(self):
        raise AssertionError


@pytest.mark.parametrize("behind", [(7,), (7, 0)])
def test_output_lies_on_the_public_grid_whatever_the_bound(behind):
    law = plan_smooth(1.0, own=1, donee=2, tells=len(behind) > 1)
    assert law.grid == Fraction(2) ** -7
    for bound in (0.1, math.pi, 1e6):
        out = law.draw(Bounded(behind, bound), Strange())
        assert all((number / law.grid).denominator == 1 for number in out)


def test_lazy_uniforms_decide_equal_prefixes():
    def words(*drawn):
        rest = iter(drawn)
        return lambda count: np.array([next(rest) for _ in range(count)], dtype=np.uint64)

    a, b = _LazyUniform(words(5, 9)), _LazyUniform(words(5, 4))
    assert b.below(a)
    assert not a.below(b)


@given(st.floats(0.0, 10.0), st.floats(0.01, 10.0), st.floats(0.01, 1e6), st.floats(1e-6, 10.0))
def test_noise_at_a_released_scale_costs_no_more_than_the_rho_that_is_stated(own, donee, most, rho):
    sigma = ReleasedScale(most, 1e-9).noise(rho, own=own, donee=donee).scale
    moves = Fraction(own) + Fraction(donee) * Fraction(most)
    assert moves**2 / (2 * Fraction(sigma) ** 2) <= Fraction(rho)


# Noise that tells its own scale
def telling(shape=6, dimension=1, alpha=0.125):
    facts = {"alpha": alpha, "beta": 0.125, "dimension": dimension}
    return SelfScaledNoise(epsilon=shape * 0.125 * 1.001, shape=shape, **facts)


def least_time(x, w):
    """Time from (0, 1) to (x, w), over all peaks or valleys of a path, by brute force."""
    at = np.linspace(-8.0, 8.0, 400_001)  # the log of the scale where a path turns
    times = np.abs(at) + np.abs(at - math.log(w))
    far = np.abs(np.expm1(at)) + np.abs(np.exp(at) - w)
    return float(times[far >= abs(x) - 1e-9].min())


@given(st.floats(-20, 20), st.floats(0.05, 20))
@settings(max_examples=30, deadline=None)
def test_the_density_falls_with_the_least_time(x, w):
    noise = telling()
    scale = 1 / noise.alpha
    here = Bounded((0, 0), 1.0)
    assert noise._log_density((Fraction(0), Fraction(scale)), here) == 0
    found = noise._log_density((Fraction(x * scale), Fraction(w * scale)), here)
    assert found == pytest.approx(-noise.shape * least_time(x, w), abs=1e-3)


@given(
    st.booleans(), st.floats(0.05, 20.0), st.integers(1, 4), st.floats(-1, 1), st.floats(-1, 1),
    st.floats(-12, 12), st.floats(-9, 9), st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_what_two_neighbours_release_is_about_as_likely(
    tells, epsilon, dimension, move, dilate, far, told, seed
):
    """Of answers anywhere: a row may move the numbers by the smaller bound and it by beta."""
    noise, rng = plan_smooth(epsilon, dimension=dimension, tells=tells), np.random.default_rng(seed)
    bounds = 1e6, 1e6 * math.exp(dilate * noise.beta)
    shift = rng.dirichlet(np.ones(dimension)) * rng.choice([-1, 1], dimension)
    moved = np.trunc(move * min(bounds) * shift).astype(int).tolist()
    away = rng.normal(size=dimension) * math.exp(far) * 1e6 / noise.alpha
    scale = [Fraction(1e6 / noise.alpha * math.exp(told))] * tells
    here, there = (
        Bounded((*totals, *[0] * tells), bound)
        for totals, bound in zip(([0] * dimension, moved), bounds, strict=True)
    )
    answer = (*map(Fraction, away.tolist()), *scale)
    assert abs(noise.log_ratio(answer, here, there)) <= epsilon


@pytest.mark.parametrize("dilate", [-1, 0, 1])
def test_all_of_epsilon_is_used(dilate):
    """By a move of the numbers alone, or of the bound alone."""
    noise, one = plan_smooth(1.0, tells=True), 10**6
    other = Bounded((0 if dilate else one, 0), one * math.exp(dilate * noise.beta))
    told = Fraction(one / noise.alpha * math.exp(20 * dilate))
    ratio = noise.log_ratio((Fraction(0), told), Bounded((0, 0), one), other)
    assert abs(ratio) > (0.999 if dilate else 0.95)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_plans_are_good_wherever_a_profile_starts(epsilon):
    def planned(level):
        with mock.patch("missdp.mechanisms.smooth._FIRST", level):
            return plan_smooth.__wrapped__(epsilon, donee=2.0, tells=True)

    def width(noise, level):
        return noise.standard_deviation * reference_bound(noise.beta, 1.0, 2.0, level)

    plan = plan_smooth(epsilon, donee=2.0, tells=True)
    for level in (0.5, 1.0, 2.0, 4.0):
        assert width(plan, level) < 7 / 6 * width(planned(level), level)
    assert plan.beta * plan.shape > 0.999 * epsilon


# The law, the error bars, and draws
def beyond(c, shape, dimension):
    """P(|x_1| > c w), the density integrated by brute force."""

    def mass(c):
        def density(log_w, log_r):
            w, over = math.exp(log_w), math.exp(log_r)
            y = (1 + w + max(over + c * w, abs(w - 1))) / 2
            tail = shape * log_w - 2 * shape * math.log(y)
            return math.exp(dimension * (log_r - log_w) + tail)

        return integrate.dblquad(density, -20, 12, -12, 12, epsrel=1e-5)[0]

    return mass(c) / mass(0.0)


@pytest.mark.parametrize(("shape", "dimension"), [(4, 1), (5, 3)])
def test_error_bars_follow_from_the_density(shape, dimension):
    for c in (0.4, 2.0):
        found = _log_beyond(c, shape, dimension) - _log_beyond(0.0, shape, dimension)
        assert found == pytest.approx(math.log(beyond(c, shape, dimension)), abs=2e-3)


@pytest.mark.parametrize("shape", [2, 5, 60, 400])
def test_error_bars_of_one_number_have_a_closed_form(shape):
    a = shape
    for level in (0.3, 0.95, 1 - 1e-9):
        c = telling(shape).quantile(level)
        near, inner = min(c, 1.0), max(1 - c, 0.0)
        middle = special.beta(0.5, a) * special.betainc(0.5, a, near**2) / 2
        mass = 2 * (a + 1) * (inner**a + a * (1 + c) ** (1 - a) * middle)
        mass += (a + 1) * (1 + c) ** (1 - a) + (a - 1) * inner ** (a + 1)
        assert mass / (4 * a + 2) == pytest.approx(1 - level, rel=1e-6)


@pytest.mark.parametrize(("shape", "dimension"), [(4, 1), (9, 1), (7, 3)])
def test_answers_lie_within_their_bars_as_often_as_stated(shape, dimension):
    noise, source, behind = telling(shape, dimension), SeededNoise(5), (7,) * dimension
    draws = [noise.draw(Bounded((*behind, 0), 40.0), source) for _ in range(1500)]
    sample = np.array(draws, dtype=float)
    assert (sample[:, -1] > 0).all()
    for level in (0.5, 0.9, 0.99):
        radii = [noise.radius(level, told) for told in sample[:, -1]]
        for coordinate in {0, dimension - 1}:
            inside = np.sum(np.abs(sample[:, coordinate] - 7) <= radii)
            assert stats.binomtest(int(inside), len(sample), level).pvalue > 1e-3
            signs = np.sum(sample[:, coordinate] > 7)
            assert stats.binomtest(int(signs), len(sample)).pvalue > 1e-3


def mass_of_scales(shape, edges):
    """Masses of w between edges, for one number: what is left once x is integrated out."""

    def density(w):
        near = abs(w - 1) * min(w, 1 / w) ** shape
        y = max(w, 1.0)
        return (near + 2 * w**shape * y ** (1 - 2 * shape) / (2 * shape - 1)) / w**2

    parts = [integrate.quad(density, *pair)[0] for pair in pairwise(edges)]
    return np.array(parts) / sum(parts)


def test_the_scale_is_told_by_its_law_and_no_other():
    noise, source = telling(6), SeededNoise(3)
    draws = [noise.draw(Bounded((0, 0), 40.0), source)[1] for _ in range(3000)]
    sample = np.array(draws, dtype=float) * noise.alpha / 40
    edges = np.array([0.0, 0.5, 0.7, 0.85, 1.0, 1.15, 1.4, 2.0, 60.0])
    for factor, right in ((1.0, True), (0.9, False), (1.1, False)):
        found = np.histogram(sample * factor, edges)[0]
        pvalue = stats.chisquare(found, mass_of_scales(6, edges) * found.sum()).pvalue
        assert pvalue > 1e-3 if right else pvalue < 1e-6


def test_rounding_of_noise_that_tells_its_scale_is_exact_on_a_coarse_grid():
    """The same draws on a coarse and a fine grid: the coarse answer is the fine one, rounded."""
    value, scale, fine = Fraction(1, 3), Fraction(7, 5), 2**50
    for seed in range(300):
        coarse, close = (_Drawn(5, 2, seeded_words(np.random.default_rng(s))) for s in (seed, seed))
        for which in range(3):
            exact = Fraction(close.rounded(which, value * fine, scale * fine, -1), fine)
            assert coarse.rounded(which, value, scale, -1) == math.floor(exact + Fraction(1, 2))
