"""Noise scaled to a smooth bound: exact loss, audit on extreme neighbours, exact samplers."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms import SecureNoise, SeededNoise
from missdp.mechanisms.exact_noise import seeded_words
from missdp.mechanisms.smooth import (
    Bounded,
    LazyUniform,
    ReleasedScale,
    SmoothNoise,
    _lomax_loss,
    _round_lomax,
    plan_smooth,
    reference_bound,
)

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0)
GRID = Fraction(1, 1 << 20)


def log_lomax(x: np.ndarray, shape: float) -> np.ndarray:
    return -(shape + 1) * np.log1p(np.abs(x))


def worst_ratio(log_density, alpha: float, beta: float) -> float:
    """Largest log-ratio of the released densities over outputs, shifts and scale ratios.

    Shifts are in units of the denominator's noise scale; both tables take that place, because the
    change of the query is within the smooth bounds of both.
    """
    x = np.concatenate([-np.geomspace(1e9, 1e-6, 4001), [0], np.geomspace(1e-6, 1e9, 4001)])
    worst = 0.0
    for s in np.linspace(-beta, beta, 9):
        for shift in np.linspace(-alpha, alpha, 9):
            ratio = log_density(x) - s - log_density(np.exp(s) * x + shift)
            worst = max(worst, float(np.max(ratio)))
    return worst


@given(
    st.integers(1, 40),
    st.floats(1e-3, 2.0),
    st.floats(1e-3, 1.0),
)
@settings(max_examples=40, deadline=None)
def test_lomax_loss_is_exact(shape: int, alpha: float, beta: float) -> None:
    stated = _lomax_loss(alpha, beta, shape=shape)
    worst = worst_ratio(lambda x: log_lomax(x, shape), alpha, beta)
    assert worst <= stated + 1e-9
    assert worst >= stated - 1e-3 * max(stated, 1.0)


@given(st.integers(2, 4), st.integers(1, 12), st.floats(0.01, 1.0), st.floats(0.01, 0.5))
@settings(max_examples=40, deadline=None)
def test_lomax_loss_of_vectors(dimension: int, shape: int, alpha: float, beta: float) -> None:
    rng = np.random.default_rng(dimension * shape)
    stated = _lomax_loss(alpha, beta, shape=shape, dimension=dimension)
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


@pytest.mark.parametrize("epsilon", EPSILONS)
@pytest.mark.parametrize("dimension", [1, 2, 10])
def test_plans_hold_what_they_state(epsilon: float, dimension: int) -> None:
    noise = plan_smooth(epsilon, donee=2.0, dimension=dimension)
    loss = _lomax_loss(noise.alpha, noise.beta, shape=noise.shape, dimension=dimension)
    assert 0.99 * epsilon < loss < epsilon


def test_reference_bound_is_the_supremum() -> None:
    steps = np.arange(20000)
    for beta in (0.001, 0.02, 0.3, 2.0):
        exact = np.max(np.exp(-beta * steps) * (1 + 2 * (4 + steps)))
        assert exact <= reference_bound(beta, 1.0, 2.0) <= exact * 1.05


def test_unproven_parameters_are_refused() -> None:
    for refused, make in (
        (UnprovenError, lambda: SmoothNoise(shape=8, beta=0.125, epsilon=1.0, alpha=0.11)),
        (ParameterError, lambda: SmoothNoise(shape=0, beta=0.125, epsilon=1.0, alpha=0.01)),
        (ParameterError, lambda: plan_smooth(0.0)),
        (
            ParameterError,
            lambda: plan_smooth(1.0).draw(Bounded((), 1.0), SecureNoise()),
        ),
    ):
        with pytest.raises(refused):
            make()


def test_deviation_and_quantiles_match_the_density() -> None:
    noise = plan_smooth(1.0)

    def weighted(x: float, power: int) -> float:
        return x**power * float(np.exp(log_lomax(np.array(x), noise.shape)))

    mass = 2 * integrate.quad(weighted, 0, np.inf, args=(0,))[0]
    second = 2 * integrate.quad(weighted, 0, np.inf, args=(2,))[0]
    spread = noise.standard_deviation * noise.alpha
    assert spread == pytest.approx(math.sqrt(second / mass), rel=1e-6)
    inside = 2 * integrate.quad(weighted, 0, noise.quantile(0.9) * noise.alpha, args=(0,))[0]
    assert inside / mass == pytest.approx(0.9, abs=1e-7)


# Samplers


def lomax_cdf(x: np.ndarray, shape: float = 6) -> np.ndarray:
    return 0.5 + np.sign(x) * 0.5 * (1 - (1 + np.abs(x)) ** -float(shape))


FINE = Fraction(1 << 24)


def test_answers_follow_the_law_at_the_scale_that_is_due_and_at_no_other() -> None:
    law, source = plan_smooth(1.0), SeededNoise(11)
    draws = [law.draw(Bounded((7,), 10.0), source)[0] for _ in range(3000)]
    sample = (np.array(draws, dtype=float) - 7) * law.alpha / 10
    for factor, right in ((1.0, True), (0.75, False), (1.33, False)):
        found = stats.kstest(sample * factor, lomax_cdf, args=(law.shape,)).pvalue
        assert found > 1e-3 if right else found < 1e-6


def test_rounding_is_exact_on_a_coarse_grid() -> None:
    # Masses of single grid points, with value and scale off the grid: rounding, not truncation.
    value, scale, points = Fraction(1, 3), Fraction(7, 5), np.array([-1, 0, 1, 2])
    words = seeded_words(np.random.default_rng(7))
    sample = np.array([_round_lomax([value], scale, shape=6, words=words)[0] for _ in range(3000)])
    edges = (np.concatenate([points - 0.5, [2.5]]) - float(value)) / float(scale)
    expected = np.diff(lomax_cdf(edges)) * len(sample)
    found = np.array([(sample == point).sum() for point in points])
    rest = [len(sample) - found.sum(), len(sample) - expected.sum()]
    assert stats.chisquare([*found, rest[0]], [*expected, rest[1]]).pvalue > 1e-3


def test_vector_noise_is_uncorrelated_but_shares_its_scale() -> None:
    words = seeded_words(np.random.default_rng(6))
    draws = [_round_lomax([Fraction(0)] * 2, FINE, shape=6, words=words) for _ in range(2000)]
    sample = np.array(draws) / float(FINE)
    assert stats.kstest(sample[:, 1], lomax_cdf).pvalue > 1e-3
    assert abs(np.corrcoef(sample.T)[0, 1]) < 0.1
    assert np.corrcoef(np.log(np.abs(sample.T)))[0, 1] > 0.05


def test_output_lies_on_the_public_grid_whatever_the_bound() -> None:
    law = plan_smooth(1.0, own=1, donee=2)
    assert law.grid == Fraction(2) ** -7
    for bound in (0.1, math.pi, 1e6):
        out = law.draw(Bounded((7,), bound), SecureNoise())
        assert (out[0] / law.grid).denominator == 1


def test_lazy_uniforms_decide_equal_prefixes() -> None:
    class Fixed:
        def __init__(self, *words: int) -> None:
            self.drawn = list(words)

        def __call__(self, count: int) -> np.ndarray:
            return np.array([self.drawn.pop(0) for _ in range(count)], dtype=np.uint64)

    a, b = LazyUniform(Fixed(5, 9)), LazyUniform(Fixed(5, 4))
    assert b.below(a)
    assert not a.below(b)


def test_the_generator_of_a_strange_source_is_for_post_processing():
    class Strange:
        def generator(self):
            raise AssertionError("this generator protects nothing")

    (answer,) = plan_smooth(1.0).draw(Bounded((9,), 1.0), Strange())
    assert answer != 9


@given(st.floats(0.0, 10.0), st.floats(0.01, 10.0), st.floats(0.01, 1e6), st.floats(1e-6, 10.0))
def test_noise_at_a_released_scale_costs_no_more_than_the_rho_that_is_stated(own, donee, most, rho):
    sigma = ReleasedScale(most, 1e-9).noise(rho, own=own, donee=donee).scale
    moves = Fraction(own) + Fraction(donee) * Fraction(most)
    assert moves**2 / (2 * Fraction(sigma) ** 2) <= Fraction(rho)
