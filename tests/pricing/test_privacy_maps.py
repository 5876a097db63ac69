"""Privacy maps against computed divergences, an independent library, and published entries."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from itertools import combinations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from papers.b_shared import exponential_map, iteration_map, overall_curve
from scipy.special import logsumexp
from scipy.stats import norm

from missdp import pricing as mp
from missdp.errors import ParameterError
from missdp.pricing import bounds
from missdp.pricing.privacy_maps import (
    PrivacyMap,
    Sensitivity,
    _split,
    _subsampled_gaussian_curve,
    _theorem_two,
)
from missdp.pricing.queries import VectorNoise
from pricing.table_distances import distance_between

GRID = np.linspace(-60, 60, 24_001)
STEP = GRID[1] - GRID[0]
ALPHAS = (1.25, 2.0, 5.0, 16.0)
SEEDS = st.integers(0, 2**32 - 1)


def renyi(alpha, log_p, log_q):
    return (logsumexp(alpha * log_p + (1 - alpha) * log_q) + math.log(STEP)) / (alpha - 1)


def larger_way(alpha, *mechanisms):
    """The same of two mixtures of densities, the larger of both ways."""
    log_p, log_q = (
        logsumexp(distribution, axis=0) - math.log(len(distribution)) for distribution in mechanisms
    )
    return max(renyi(alpha, log_p, log_q), renyi(alpha, log_q, log_p))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_gaussian_curve_equals_the_divergence_and_laplace_bounds_it(alpha):
    change = mp.TableDistance(replaced=1, shifted_rows=10, max_shift=0.1)
    unit = Sensitivity(replaced=1.0, l12=0.5, frobenius=1.0)
    shift = 1 + min(0.5 * 1.0, math.sqrt(10) * 0.1)
    assert unit.shift(change) == pytest.approx(shift)
    true = renyi(alpha, norm.logpdf(GRID, 0, 2.0), norm.logpdf(GRID, shift, 2.0))
    assert PrivacyMap.gaussian(sensitivity=unit, sigma=2.0).curve(alpha, change) == pytest.approx(
        true, rel=1e-4
    )
    log_p, log_q = -np.abs(GRID) / 2 - math.log(4), -np.abs(GRID - shift) / 2 - math.log(4)
    true = renyi(alpha, log_p, log_q)
    assert true <= PrivacyMap.laplace(sensitivity=unit, scale=2.0).curve(alpha, change) * (1 + 1e-6)


@pytest.mark.long
@given(seed=SEEDS)
@settings(max_examples=15, deadline=None)
def test_subsampling_stays_within_its_map(seed):
    """Exact output distributions: a mixture over all samples of 2 of 6 rows, the gradients."""
    rng = np.random.default_rng(seed)
    n, batch, sigma, alpha = 6, 2, float(rng.uniform(0.4, 2.0)), float(rng.choice(ALPHAS))
    x = rng.choice([-1.0, 1.0, 0.3], size=n)
    y = x.copy()
    replaced, change = int(rng.integers(0, 3)), int(rng.integers(0, 4))
    y[:replaced] = -x[:replaced]
    y[replaced : replaced + change] += rng.choice([-1, 1], size=change) * 0.2
    samples = [list(j) for j in combinations(range(n), batch)]
    mechanisms = [[norm.logpdf(GRID, t[j].mean(), sigma) for j in samples] for t in (x, y)]
    distance = mp.TableDistance(replaced=replaced, shifted_rows=change, max_shift=0.2)
    facts = {"lipschitz": 1.2, "smoothness": 1.0, "rows": n, "batch": batch}
    sgd, true = PrivacyMap.subsampled(sigma=sigma, steps=1, **facts), larger_way(alpha, *mechanisms)
    assert true <= sgd.curve(alpha, distance) + 1e-8
    assert true <= overall_curve(sgd, distance, alpha) + 1e-8


@pytest.mark.parametrize("alpha", ALPHAS)
def test_maps_are_tight_where_all_rows_move_alike_and_for_a_single_step(alpha):
    facts = {"lipschitz": 1.0, "smoothness": 1.0}
    many = PrivacyMap.subsampled(rows=6, batch=2, sigma=1.0, steps=1, **facts)
    one = iteration_map(rows=1, sigma=2.0, **facts)
    for sgd, sigma, distance, shift in (
        (many, 1.0, mp.TableDistance(replaced=0, shifted_rows=6, max_shift=0.3), 0.3),
        (one, 2.0, mp.TableDistance(replaced=0, shifted_rows=1, max_shift=0.3), 0.3),
        (one, 2.0, mp.NEIGHBOURS, 2.0),
    ):
        true = renyi(alpha, *(norm.logpdf(GRID, mean, sigma) for mean in (0, shift)))
        assert sgd.curve(alpha, distance) == pytest.approx(true, rel=1e-3)


@pytest.mark.parametrize("alpha", [2, 3, 8, 64, 200])
@pytest.mark.parametrize("multiplier", [0.7, 2.0, 8.0])
def test_amplification_agrees_with_the_reference_library(alpha, multiplier):
    accountant = RdpAccountant([alpha], dp_accounting.NeighboringRelation.REPLACE_ONE)
    noise = dp_accounting.GaussianDpEvent(multiplier)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(1000, 20, noise))
    ours = _subsampled_gaussian_curve(float(alpha), 0.02, multiplier)
    assert ours >= accountant._rdp[0] - 1e-12  # Theirs also uses a tighter form (Theorem 27).
    assert ours <= max(accountant._rdp[0] * 1.9, alpha / (2 * multiplier**2))


@given(seed=SEEDS)
@settings(max_examples=15, deadline=None)
def test_iteration_stays_within_its_map(seed):
    """Exact distributions of w <- w - eta (a w - b_i + Z), stopped at a uniform time."""
    rng = np.random.default_rng(seed)
    n, sigma, eta, alpha = 8, 1.0, 1.0, float(rng.choice([1.25, 2.0, 5.0]))
    curve, x = float(rng.uniform(0, 1.5)), rng.choice([-1.0, 1.0], size=n)
    y, replaced, order = x.copy(), int(rng.integers(0, 3)), rng.permutation(n)
    y[order[:replaced]] = -x[order[:replaced]]
    y[order[3 : 3 + int(rng.integers(0, 4))]] += 0.3
    distance = distance_between(x[:, None], y[:, None], replaced=replaced)

    def stopped(rows):
        mean, variance = 0.0, 0.0
        for b in rows:
            mean = (1 - eta * curve) * mean + eta * b
            variance = (1 - eta * curve) ** 2 * variance + (eta * sigma) ** 2
            yield norm.logpdf(GRID, mean, math.sqrt(variance))

    sgd = iteration_map(lipschitz=1.0, smoothness=1.0, rows=n, sigma=sigma)
    assert larger_way(alpha, [*stopped(x)], [*stopped(y)]) <= sgd.curve(alpha, distance) + 1e-8


@given(a=st.floats(0.01, 3), b=st.floats(0.01, 3), alpha=st.floats(1.05, 50), c=st.floats(1.1, 9))
@settings(max_examples=100, deadline=None)
def test_the_optimised_triangle_is_sound_and_no_looser(a, b, alpha, c):
    """For Gaussians the truth is alpha (a + b)^2 / 2: the optimum of the split reaches it."""
    best = _theorem_two(alpha, lambda o: o * a**2 / 2, lambda o: o * b**2 / 2)
    fixed = _split(alpha, lambda o: o * a**2 / 2, lambda o: o * b**2 / 2, c)
    truth = alpha * (a + b) ** 2 / 2
    assert truth * (1 - 1e-9) <= best <= fixed * (1 + 1e-4)
    if 0.05 < a / b < 20:
        assert best <= truth * 1.05


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_loss_constants_bound_the_gradients(seed):
    rng = np.random.default_rng(seed)
    R, B, Y = rng.uniform(0.2, 3, size=3)

    def ball(radius, count):
        v = rng.normal(size=(count, 2))
        v /= np.linalg.norm(v, axis=1, keepdims=True)
        return v * radius * rng.choice([1.0, rng.random()], size=(count, 1))

    x, change, theta, other = ball(R, 40), ball(R, 40), ball(B, 1)[0], ball(B, 1)[0]
    for loss, y in (
        (mp.Loss.logistic(radius=R, coefficient_norm=B), rng.choice([-1.0, 1.0], 40)),
        (mp.Loss.squared(radius=R, coefficient_norm=B, target_bound=Y), rng.uniform(-Y, Y, 40)),
    ):
        g = loss.slope(x @ theta, y)[:, None] * x
        assert np.linalg.norm(g, axis=1).max() <= loss.lipschitz * (1 + 1e-9)
        gap = loss.slope(change @ theta, y)[:, None] * change - g
        size = np.linalg.norm(change - x, axis=1)
        assert (np.linalg.norm(gap, axis=1) <= loss.smoothness * size * (1 + 1e-9) + 1e-12).all()
        turn = loss.slope(x @ other, y)[:, None] * x - g
        size = np.linalg.norm(other - theta)
        assert (np.linalg.norm(turn, axis=1) <= loss.curvature * size * (1 + 1e-9) + 1e-12).all()


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_intercept_loss_constants_bound_the_gradients(seed):
    """Exact neighbours: one row with the constant entry, at every corner of the coefficients."""
    rng = np.random.default_rng(seed)
    R, B, c = rng.uniform(0.2, 3, size=3)
    loss = mp.Loss.logistic(radius=float(np.hypot(R, c)), coefficient_norm=B, constant=float(c))

    def rows(count=40):
        v = rng.normal(size=(count, 2))
        return v * R / np.linalg.norm(v, axis=1, keepdims=True)

    x, change, y = rows(), rows(), rng.choice([-1.0, 1.0], 40)
    theta, other = (v * B / np.linalg.norm(v) for v in rng.normal(size=(2, 3)))

    def gradients(table, point):
        one = [loss.exact(table[[i]], y[[i]])(point, None) for i in range(len(table))]
        return np.array(one)

    g = gradients(x, theta)
    plain = loss.slope(np.column_stack([x, np.full(40, c)]) @ theta, y)
    assert g == pytest.approx(plain[:, None] * np.column_stack([x, np.full(40, c)]), rel=1e-9)
    assert np.linalg.norm(g, axis=1).max() <= loss.lipschitz * (1 + 1e-9)
    gap = np.linalg.norm(gradients(change, theta) - g, axis=1)
    size = np.linalg.norm(change - x, axis=1)
    assert (gap <= loss.smoothness * size * (1 + 1e-9) + 1e-12).all()
    turn = np.linalg.norm(gradients(x, other) - g, axis=1)
    size = np.linalg.norm(other - theta)
    assert (turn <= loss.curvature * size * (1 + 1e-9) + 1e-12).all()


def test_intercept_above_the_radius_of_a_loss_raises():
    """Constants that hold for shorter rows than the constant entry makes prove nothing."""
    loss = mp.Loss.logistic(radius=1.0, coefficient_norm=1.0, constant=0.5)
    domain = mp.RowDomain(rows=40, columns=2)
    with pytest.raises(ParameterError, match="must hold for the radius"):
        mp.GradientQuery(domain=domain, loss=loss, multiplier=1.0, steps=1)


def test_very_large_price_is_finite():
    """Rényi curves of Laplace noise were not computed above an epsilon of 709."""
    result = PrivacyMap.laplace(sensitivity=Sensitivity(replaced=1.0), scale=1e-3)
    assert result.curve(2.0, mp.NEIGHBOURS) == pytest.approx(1000)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
def test_outputs_are_integer_cells_for_large_values(kind):
    """A sum of two floats would keep low bits of the private value. A whole number cannot."""

    class Counted:
        def discrete_gaussian(self, sigma, size):
            return np.arange(np.prod(size), dtype=np.int64).reshape(size)

        discrete_laplace = discrete_gaussian

    cell = 0.7 / 2**20
    values = np.full(50, 123456.789)
    out = VectorNoise(kind, 0.7, sensitivity=1.0).draw(values, Counted())
    total = np.rint(values[0] / cell) + np.arange(50)
    np.testing.assert_array_equal(out, total * cell)
    huge = VectorNoise(kind, 1.0, sensitivity=1.0).draw(np.array([1e300]), Counted())
    assert np.isfinite(huge).all()


@pytest.mark.parametrize("rows", [10**4, 10**7, 10**9, 10**11])
def test_a_sample_of_very_many_rows_costs_no_less_than_is_proven(rows):
    # A replaced row is in the sample with probability batch / rows. Logarithms of factorials of
    # such numbers are off by more than that.
    batch, sigma = 10**4, 0.02
    sgd = PrivacyMap.subsampled(
        lipschitz=1.0, smoothness=0.25, rows=rows, batch=batch, sigma=sigma, steps=1
    )
    change = mp.TableDistance(replaced=1, shifted_rows=10, max_shift=1e-12)
    proven = math.log1p(batch / rows * math.expm1((2 / (batch * sigma)) ** 2))
    assert proven <= sgd.curve(2.0, change) <= proven * (1 + 1e-6) + 2e-9


N, P, ETA, GAP, EPSILON = 1000, 20, 0.01, 0.25, 0.3


TAUS = {
    "deduplication": P,
    "quantisation": ETA * P,
    "imputation": 2 * P / (N - P),
    "PCA": 12.2 / GAP,
}


@pytest.mark.parametrize("step", TAUS)
def test_published_rows_of_gaussian_noise_and_gradient_descent(step):
    """1.05 alpha e^2 (1 + tau^2) and 1.05 alpha e^2 (4 + tau^2): Theorem 2 at c = 2, rounded up."""
    alpha, tau = 11.0, TAUS[step]
    change = mp.TableDistance(replaced=1, shifted_rows=N - 1, shift_l12=tau)
    rest, unit = replace(change, replaced=0), Sensitivity(replaced=1.0, l12=1.0)
    gaussian = PrivacyMap.gaussian(sensitivity=unit, sigma=1 / EPSILON)
    gradient, sigma = Sensitivity(replaced=2 / N, l12=1 / N), math.sqrt(7) / (EPSILON * N)
    descent = PrivacyMap.gaussian(sensitivity=gradient, sigma=sigma, steps=7)
    for mechanism, direct in ((gaussian, 1), (descent, 4)):
        entry = 1.05 * alpha * EPSILON**2 * (direct + tau**2)
        curves = [partial(mechanism.curve, distance=d) for d in (mp.NEIGHBOURS, rest)]
        assert entry == pytest.approx(1.05 * sum(c(2 * alpha) for c in curves), rel=1e-9)
        best = _theorem_two(alpha, *curves)
        assert best <= _split(alpha, *curves, 2.0) <= entry
        assert mechanism.curve(alpha, change) <= best * (1 + 1e-9)
    laplace = PrivacyMap.laplace(sensitivity=unit, scale=1 / EPSILON)
    for mechanism in (laplace, exponential_map(sensitivity=unit, epsilon=EPSILON)):
        best = bounds(mechanism, change, 0.0)[0]
        assert (best.name, best.epsilon) == ("direct", pytest.approx(EPSILON * (1 + tau)))
