"""Noise scaled to a smooth bound: its loss, its distribution, error bars and exact draws."""

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special, stats

from missdp.errors import ParameterError, UnprovenError
from missdp.session import SecureNoise, SeededNoise
from missdp.session.noise import seeded_words
from missdp.statistics.smooth_sensitivity import (
    Bounded,
    SmoothNoise,
    _LazyPoint,
    _LazyUniform,
    _log_tail,
    _plans,
    calibrate_smooth_noise,
    reference_bound,
)
from missdp.testing import log_ratio
from missdp.testing.undercharges import _log_density


def test_reference_bound_is_the_supremum():
    steps = np.arange(20000)
    for beta in (0.001, 0.02, 0.3, 2.0):
        for level in (1.25, 4.0):
            exact = np.max(np.exp(-beta * steps) * (1 + 2 * (level + steps)))
            assert exact <= reference_bound(beta, 1.0, 2.0, level) <= exact * 1.05


@pytest.mark.parametrize("dimension", [1, 2, 12, 60])
def test_calibrated_noise_has_the_stated_epsilon_or_raises(dimension):
    with pytest.raises(
        UnprovenError, match=r"at epsilon 1e-06. They need about epsilon (\S+)"
    ) as refused:
        calibrate_smooth_noise(1e-6, dimension=dimension)
    enough = 1.05 * float(str(refused.value).rpartition(" ")[2])
    for epsilon in (enough, 1e-3, 1e-2, 0.1, 0.5, 1.0, 2.0, 4.0):
        noise = calibrate_smooth_noise(epsilon, recipient_weight=2.0, dimension=dimension)
        assert 0.99 * epsilon < noise._loss(noise.beta) < epsilon
    with pytest.raises(UnprovenError):
        calibrate_smooth_noise(0.9 * enough, dimension=dimension)


def test_unproven_noise_parameters_raise():
    for refused, make in (
        (UnprovenError, lambda: SmoothNoise(epsilon=1.0, shape=8, alpha=0.1, beta=0.1251)),
        (UnprovenError, lambda: smooth(alpha=0.126)),
        (UnprovenError, lambda: calibrate_smooth_noise(1e-12)),
        (ParameterError, lambda: SmoothNoise(shape=0, beta=0.125, epsilon=1.0, alpha=0.01)),
        (ParameterError, lambda: smooth(shape=2, dimension=2)),
        (ParameterError, lambda: calibrate_smooth_noise(0.0)),
        (
            ParameterError,
            lambda: calibrate_smooth_noise(1.0, row_weight=0.0, recipient_weight=0.0),
        ),
        (ParameterError, lambda: smooth().draw(Bounded((1,), 1.0), SecureNoise())),
        (ParameterError, lambda: smooth().draw(Bounded((1, 0), math.inf), SecureNoise())),
        (ParameterError, lambda: smooth().quantile(1.0)),
    ):
        with pytest.raises(refused):
            make()
    assert 0.999 < smooth().epsilon / smooth()._loss(0.125) < 1.002


class Strange:
    """A foreign source of noise: its generator is for post-processing, and protects nothing."""

    def generator(self):
        raise AssertionError


def test_output_lies_on_the_public_grid_for_every_bound():
    mechanism = calibrate_smooth_noise(1.0, row_weight=1, recipient_weight=2)
    assert mechanism.grid == Fraction(2) ** -7
    for bound in (0.1, math.pi, 1e6):
        out = mechanism.draw(Bounded((7, 0), bound), Strange())
        assert all((number / mechanism.grid).denominator == 1 for number in out)


def test_lazy_uniforms_decide_equal_prefixes():
    def words(*drawn):
        rest = iter(drawn)
        return lambda count: np.array([next(rest) for _ in range(count)], dtype=np.uint64)

    a, b = _LazyUniform(words(5, 9)), _LazyUniform(words(5, 4))
    assert b.below(a)
    assert not a.below(b)


# The loss
def smooth(shape=6, dimension=1, alpha=0.125):
    facts = {"alpha": alpha, "beta": 0.125, "dimension": dimension}
    return SmoothNoise(epsilon=shape * 0.125 * 1.001, shape=shape, **facts)


def least_time(x, w):
    """Time from (0, 1) to (x, w), over all peaks or valleys of a path, by brute force."""
    at = np.linspace(-8.0, 8.0, 400_001)  # the log of the scale where a path turns
    times = np.abs(at) + np.abs(at - math.log(w))
    far = np.abs(np.expm1(at)) + np.abs(np.exp(at) - w)
    return float(times[far >= abs(x) - 1e-9].min())


@given(st.floats(-20, 20), st.floats(0.05, 20))
@settings(max_examples=30, deadline=None)
def test_the_density_falls_with_the_least_time(x, w):
    noise = smooth()
    scale = 1 / noise.alpha
    here = Bounded((0, 0), 1.0)
    assert _log_density(noise, (Fraction(0), Fraction(scale)), here) == 0
    result = _log_density(noise, (Fraction(x * scale), Fraction(w * scale)), here)
    assert result == pytest.approx(-noise.shape * least_time(x, w), abs=1e-3)


@given(
    st.floats(0.05, 20.0), st.integers(1, 4), st.floats(-1, 1), st.floats(-1, 1),
    st.floats(-12, 12), st.floats(-9, 9), st.integers(0, 2**20),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_releases_of_neighbours_have_bounded_likelihood_ratio(
    epsilon, dimension, move, dilate, far, scale, seed
):
    """Of answers anywhere: a row may move the numbers by the smaller bound and it by beta."""
    noise, rng = calibrate_smooth_noise(epsilon, dimension=dimension), np.random.default_rng(seed)
    bounds = 1e6, 1e6 * math.exp(dilate * noise.beta)
    shift = rng.dirichlet(np.ones(dimension)) * rng.choice([-1, 1], dimension)
    change = np.trunc(move * min(bounds) * shift).astype(int).tolist()
    away = rng.normal(size=dimension) * math.exp(far) * 1e6 / noise.alpha
    released_scale = Fraction(1e6 / noise.alpha * math.exp(scale))
    here, there = (
        Bounded((*totals, 0), bound)
        for totals, bound in zip(([0] * dimension, change), bounds, strict=True)
    )
    answer = (*map(Fraction, away.tolist()), released_scale)
    assert abs(log_ratio(noise, answer, here, there)) <= epsilon


@pytest.mark.parametrize("dilate", [-1, 0, 1])
def test_all_of_epsilon_is_used(dilate):
    """By a move of the numbers alone, or of the bound alone."""
    noise, one = calibrate_smooth_noise(1.0), 10**6
    other = Bounded((0 if dilate else one, 0), one * math.exp(dilate * noise.beta))
    scale = Fraction(one / noise.alpha * math.exp(20 * dilate))
    ratio = log_ratio(noise, (Fraction(0), scale), Bounded((0, 0), one), other)
    assert abs(ratio) > (0.999 if dilate else 0.95)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 10.0])
def test_plans_are_good_wherever_a_profile_starts(epsilon):
    def width(noise, level):
        typical = reference_bound(noise.beta, 1.0, 2.0, level)
        return noise.quantile(0.95) * typical / noise.alpha

    chosen = calibrate_smooth_noise(epsilon, recipient_weight=2.0)
    plans = list(_plans(epsilon, 1.0, 2.0, 1))
    for level in (0.5, 1.0, 2.0, 4.0):
        assert width(chosen, level) < 7 / 6 * min(width(plan, level) for plan in plans)
    assert chosen.beta * chosen.shape > 0.999 * epsilon


# The distribution, the error bars, and draws
def outside(c, shape, dimension):
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
        result = _log_tail(c, shape, dimension) - _log_tail(0.0, shape, dimension)
        assert result == pytest.approx(math.log(outside(c, shape, dimension)), abs=2e-3)


@pytest.mark.parametrize("shape", [2, 5, 60, 400])
def test_error_bars_of_one_number_have_a_closed_form(shape):
    a = shape
    for level in (0.3, 0.95, 1 - 1e-9):
        c = smooth(shape).quantile(level)
        near, inner = min(c, 1.0), max(1 - c, 0.0)
        middle = special.beta(0.5, a) * special.betainc(0.5, a, near**2) / 2
        mass = 2 * (a + 1) * (inner**a + a * (1 + c) ** (1 - a) * middle)
        mass += (a + 1) * (1 + c) ** (1 - a) + (a - 1) * inner ** (a + 1)
        assert mass / (4 * a + 2) == pytest.approx(1 - level, rel=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(("shape", "dimension"), [(4, 1), (9, 1), (7, 3)])
def test_answers_lie_within_their_bars_as_often_as_stated(shape, dimension):
    noise, source, behind = smooth(shape, dimension), SeededNoise(5), (7,) * dimension
    draws = [noise.draw(Bounded((*behind, 0), 40.0), source) for _ in range(1500)]
    sample = np.array(draws, dtype=float)
    assert (sample[:, -1] > 0).all()
    for level in (0.5, 0.9, 0.99):
        radii = [noise.radius(level, reported) for reported in sample[:, -1]]
        for coordinate in {0, dimension - 1}:
            inside = np.sum(np.abs(sample[:, coordinate] - 7) <= radii)
            assert stats.binomtest(int(inside), len(sample), level).pvalue > 1e-3
            signs = np.sum(sample[:, coordinate] > 7)
            assert stats.binomtest(int(signs), len(sample)).pvalue > 1e-3


def mass_of_scales(shape, edges):
    """Masses of w between edges, for one number, with x integrated out."""

    def density(w):
        near = abs(w - 1) * min(w, 1 / w) ** shape
        y = max(w, 1.0)
        return (near + 2 * w**shape * y ** (1 - 2 * shape) / (2 * shape - 1)) / w**2

    parts = [integrate.quad(density, *pair)[0] for pair in pairwise(edges)]
    return np.array(parts) / sum(parts)


@pytest.mark.long
def test_the_scale_follows_its_distribution_and_no_other():
    noise, source = smooth(6), SeededNoise(3)
    draws = [noise.draw(Bounded((0, 0), 40.0), source)[1] for _ in range(3000)]
    sample = np.array(draws, dtype=float) * noise.alpha / 40
    edges = np.array([0.0, 0.5, 0.7, 0.85, 1.0, 1.15, 1.4, 2.0, 60.0])
    for factor, right in ((1.0, True), (0.9, False), (1.1, False)):
        result = np.histogram(sample * factor, edges)[0]
        pvalue = stats.chisquare(result, mass_of_scales(6, edges) * result.sum()).pvalue
        assert pvalue > 1e-3 if right else pvalue < 1e-6


def mass_of_numbers(shape, edges):
    """Masses of |x| between edges, for one number: the scale is integrated out numerically."""
    scales = np.geomspace(1e-6, 1e6, 20_001)

    def density(x):
        peak = (1 + scales + np.maximum(x, np.abs(scales - 1))) / 2
        # By d(log scale), so one factor of the scale is left.
        return np.trapezoid(np.exp((shape - 1) * np.log(scales) - 2 * shape * np.log(peak)),
                            np.log(scales))  # fmt: skip

    parts = [integrate.quad(density, *pair, limit=200)[0] for pair in pairwise(edges)]
    return np.array(parts) / sum(parts)


@pytest.mark.long
@pytest.mark.parametrize("shape", [4, 6])
def test_numbers_follow_their_distribution_and_no_other(shape):
    noise, source = smooth(shape), SeededNoise(11)
    draws = [noise.draw(Bounded((7, 0), 40.0), source)[0] for _ in range(3000)]
    sample = np.abs(np.array(draws, dtype=float) - 7) * noise.alpha / 40
    edges = np.array([0.0, 0.1, 0.2, 0.35, 0.5, 0.75, 1.0, 1.5, 60.0])
    expected = mass_of_numbers(shape, edges)
    for factor, right in ((1.0, True), (0.8, False), (1.25, False)):
        result = np.histogram(sample * factor, edges)[0]
        pvalue = stats.chisquare(result, expected * result.sum()).pvalue
        assert pvalue > 1e-3 if right else pvalue < 1e-6


@pytest.mark.long
def test_several_numbers_share_their_scale_and_are_uncorrelated():
    noise, source = smooth(7, 3), SeededNoise(6)
    draws = [noise.draw(Bounded((0,) * 4, 1e6), source)[:-1] for _ in range(3000)]
    sample = np.array(draws, dtype=float)
    off = ~np.eye(3, dtype=bool)
    assert np.abs(np.corrcoef(sample.T)[off]).max() < 0.1
    # The direction is uniform in L1: each share of the sum is a Beta(1, d - 1) variable.
    shares = np.abs(sample) / np.abs(sample).sum(axis=1, keepdims=True)
    for each in shares.T:
        assert stats.kstest(each, stats.beta(1, 2).cdf).pvalue > 1e-3


def test_rounding_is_exact_on_a_coarse_grid():
    """The same draws on a coarse and a fine grid: the coarse answer is the fine one, rounded."""
    value, scale, fine = Fraction(1, 3), Fraction(7, 5), 2**50
    for seed in range(300):
        coarse, close = (
            _LazyPoint(5, 2, seeded_words(np.random.default_rng(s))) for s in (seed, seed)
        )
        for place in range(3):
            exact = Fraction(close.rounded(place, value * fine, scale * fine, -1), fine)
            assert coarse.rounded(place, value, scale, -1) == math.floor(exact + Fraction(1, 2))
