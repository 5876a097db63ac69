"""Profiles and loss distributions of gated compositions, against direct numerical integration."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy import integrate, stats

from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth import (
    gate_loss_distribution,
    gated_delta,
    gated_epsilon,
)
from missdp.ground_truth.partition import candidate_partitions

# Statistics by brute force; other tests cover the code, and tracing it would double the time.
pytestmark = pytest.mark.no_cover


def gaussian_profile(sigma):
    def profile(epsilon):
        shift = 1 / sigma
        return float(
            stats.norm.cdf(shift / 2 - epsilon / shift)
            - math.exp(epsilon) * stats.norm.cdf(-shift / 2 - epsilon / shift)
        )

    return profile


def integrated(p, sigma, epsilon):
    """Hockey-stick divergences of (1-p)N(0, σ²) + pN(1, σ²) and N(0, σ²), both directions."""
    absent, opened = stats.norm(0, sigma).pdf, stats.norm(1, sigma).pdf

    def present(x):
        return (1 - p) * absent(x) + p * opened(x)

    def stick(over, under):
        return integrate.quad(
            lambda x: max(0.0, over(x) - math.exp(epsilon) * under(x)),
            -12 * sigma,
            1 + 12 * sigma,
            limit=500,
            epsabs=1e-12,
        )[0]

    return stick(present, absent), stick(absent, present)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("sigma", [0.7, 2.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 0.3, 1.0])
def test_gated_delta_is_the_larger_direction_of_the_true_divergence(p, sigma, epsilon):
    add, remove = integrated(p, sigma, epsilon)
    value = gated_delta(epsilon, probability=p, profile=gaussian_profile(sigma))
    assert value == pytest.approx(max(add, remove), abs=1e-7)
    gated = gate_loss_distribution(pld.from_gaussian_mechanism(sigma), p)
    assert gated._pmf_remove.get_delta_for_epsilon(epsilon) == pytest.approx(add, abs=1e-6)
    assert gated._pmf_add.get_delta_for_epsilon(epsilon) == pytest.approx(remove, abs=1e-6)


def test_gated_pure_profile_is_the_closed_form():
    def pure(epsilon):
        return max(0.0, 1 - math.exp(epsilon - 1.0))

    for p in (0.05, 0.5, 0.95):
        expected = math.log1p(p * math.expm1(1.0))
        assert gated_epsilon(0.0, probability=p, profile=pure) == pytest.approx(expected, abs=1e-9)


def test_gated_epsilon_inverts_gated_delta_from_the_safe_side():
    profile = gaussian_profile(1.5)
    for p, delta in itertools.product((0.05, 0.4, 1.0), (1e-3, 1e-6)):
        epsilon = gated_epsilon(delta, probability=p, profile=profile)
        assert gated_delta(epsilon, probability=p, profile=profile) <= delta
        below = max(0.0, epsilon - 1e-6)
        assert gated_delta(below, probability=p, profile=profile) > delta


def test_monotone_in_the_probability():
    profile = gaussian_profile(1.0)
    values = [gated_delta(0.4, probability=p, profile=profile) for p in np.linspace(0, 1, 21)]
    assert np.all(np.diff(values) >= -1e-15)
    assert values[0] == 0.0
    assert values[-1] == profile(0.4)


def test_profiles_that_never_fall_and_bad_parameters_are_refused():
    with pytest.raises(UnprovenError):
        gated_epsilon(1e-6, probability=0.5, profile=lambda epsilon: 0.5)
    with pytest.raises(ParameterError):
        gated_delta(-1.0, probability=0.5, profile=gaussian_profile(1.0))
    with pytest.raises(ParameterError):
        gated_delta(1.0, probability=1.5, profile=gaussian_profile(1.0))


@pytest.mark.parametrize(("sigma", "p"), [(0.8, 0.5), (1.0, 0.01), (3.0, 0.2), (10.0, 0.95)])
def test_gated_gaussian_is_one_poisson_sampled_gaussian(sigma, p):
    """dp_accounting's own sampled Gaussian is an independent oracle for one gated Gaussian."""
    ours = gate_loss_distribution(pld.from_gaussian_mechanism(sigma), p)
    theirs = pld.from_gaussian_mechanism(sigma, sampling_prob=p)
    for delta in (1e-3, 1e-6, 1e-9):
        expected = theirs.get_epsilon_for_delta(delta)
        assert ours.get_epsilon_for_delta(delta) == pytest.approx(expected, abs=2e-6)


def test_asymmetric_losses_and_lost_mass_keep_both_directions():
    """Randomised response with a chance of failing outright has infinite losses both ways."""
    base = pld.from_privacy_parameters(pld.common.DifferentialPrivacyParameters(1.0, 0.05))
    gated = gate_loss_distribution(base, 0.5)
    for epsilon in (0.0, 0.2, math.log1p(0.5 * math.expm1(1.0)), 2.0):
        expected = gated_delta(epsilon, probability=0.5, profile=base.get_delta_for_epsilon)
        assert gated.get_delta_for_epsilon(epsilon) == pytest.approx(expected, abs=1e-4)
        assert gated.get_delta_for_epsilon(epsilon) >= expected - 1e-12


@pytest.mark.parametrize("p", [0.5, 0.1])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.7, 1.2])
def test_two_gated_responses_composed_match_enumeration(epsilon, p):
    """Both laws keep all their mass, also where the other one has none."""
    loss, slip = 1.0, 0.05
    likely = (1 - slip) / (1 + math.exp(-loss))
    opened = np.array([slip, likely, 1 - slip - likely, 0.0])
    absent = opened[::-1]
    present = (1 - p) * absent + p * opened
    both, neither = np.outer(present, present), np.outer(absent, absent)
    add = np.maximum(0.0, both - math.exp(epsilon) * neither).sum()
    remove = np.maximum(0.0, neither - math.exp(epsilon) * both).sum()
    base = pld.from_privacy_parameters(pld.common.DifferentialPrivacyParameters(loss, slip))
    two = gate_loss_distribution(base, p).self_compose(2)
    for direction, truth in ((two._pmf_remove, add), (two._pmf_add, remove)):
        value = direction.get_delta_for_epsilon(epsilon)
        assert truth - 1e-12 <= value <= truth + 1e-4


def grid_delta(ratio, epsilon):
    """Both divergences of a release with two outputs, from its likelihood ratio.

    Both are standard normal under the law without the row; sums over a wide, fine grid.
    """
    axis = np.linspace(-9, 12, 500)
    weight = stats.norm.pdf(axis) * (axis[1] - axis[0])
    mass = np.outer(weight, weight)
    values = ratio(axis[:, None], axis[None, :])
    add = float((mass * np.maximum(0.0, values - math.exp(epsilon))).sum())
    remove = float((mass * np.maximum(0.0, 1 - math.exp(epsilon) * values)).sum())
    return add, remove


def likelihood(shift):
    return lambda x: np.exp(shift * x - shift**2 / 2)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.5])
def test_one_mask_draw_for_all_steps_of_dp_sgd(epsilon):
    rate, sigma, p = 0.3, 0.8, 0.4
    step = likelihood(1 / sigma)

    def ratio(x, y):
        both = (1 - rate + rate * step(x)) * (1 - rate + rate * step(y))
        return 1 - p + p * both

    add, remove = grid_delta(ratio, epsilon)
    steps = pld.from_gaussian_mechanism(sigma, sampling_prob=rate).self_compose(2)
    gated = gate_loss_distribution(steps, p)
    assert gated._pmf_remove.get_delta_for_epsilon(epsilon) == pytest.approx(add, abs=2e-5)
    assert gated._pmf_add.get_delta_for_epsilon(epsilon) == pytest.approx(remove, abs=2e-5)
    # Multiplying p into the sampling rate would claim less than the true loss.
    wrong = pld.from_gaussian_mechanism(sigma, sampling_prob=rate * p).self_compose(2)
    if epsilon >= 0.5:
        assert wrong.get_delta_for_epsilon(epsilon) < add - 1e-4


@pytest.mark.parametrize("gates", [({"a"}, {"a", "b"}), ({"a", "b"}, {"b", "c"}), ({"a"}, {"b"})])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_partition_bound_covers_the_true_mixture_of_overlapping_gates(gates, epsilon):
    observed, sigmas = {"a": 0.5, "b": 0.7, "c": 0.4}, (1.2, 0.9)
    shifts = [likelihood(1 / sigma) for sigma in sigmas]

    def ratio(x, y):
        total = 0.0
        for mask in itertools.product((0, 1), repeat=3):
            seen = {name for name, bit in zip("abc", mask, strict=True) if bit}
            weight = math.prod(r if n in seen else 1 - r for n, r in observed.items())
            term = weight
            for gate, shift, point in zip(gates, shifts, (x, y), strict=True):
                if gate <= seen:
                    term = term * shift(point)
            total = total + term
        return total

    truth = max(grid_delta(ratio, epsilon))
    assert truth > 0.0
    tried = 0
    for partition in candidate_partitions(gates, [s**-2 for s in sigmas], observed=observed):
        loss = pld.identity(1e-3)
        for block in partition.blocks:
            sigma = math.fsum(sigmas[j] ** -2 for j in block.members) ** -0.5
            group = pld.from_gaussian_mechanism(sigma, value_discretization_interval=1e-3)
            loss = loss.compose(gate_loss_distribution(group, block.probability))
        assert loss.get_delta_for_epsilon(epsilon) >= truth - 2e-6
        tried += 1
    assert tried
