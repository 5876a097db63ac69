"""Calibration is certified (never too little noise) and tight (never much too much)."""

import math

import pytest
from accounting_oracles import gaussian_pmf, shifted_delta
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    SampledGaussianEvent,
    ZCDPEvent,
    calibrate,
    epsilon_of,
    gaussian_delta,
    gaussian_sigma,
    zcdp_rho,
)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 10), st.floats(1e-12, 1e-2))
def test_zcdp_rho_is_the_largest(epsilon, delta):
    rho = zcdp_rho(epsilon, delta)
    assert epsilon_of(ZCDPEvent(rho=rho), delta) <= epsilon * (1 + 1e-9)
    assert epsilon_of(ZCDPEvent(rho=rho * 1.001), delta) > epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_continuous_sigma_meets_delta_exactly(epsilon):
    sigma = gaussian_sigma(epsilon, 1e-5, sensitivity=3, count=4, discrete=False)
    assert gaussian_delta(epsilon, sigma=sigma, sensitivity=6) == pytest.approx(1e-5, rel=1e-6)
    assert gaussian_delta(epsilon, sigma=sigma, sensitivity=6) <= 1e-5


@pytest.mark.parametrize(("epsilon", "squared", "count"), [(1, 2, 3), (1, 4, 1)])
def test_discrete_sigma_is_certified_and_tight(epsilon, squared, count):
    sensitivity = math.sqrt(squared)
    sigma = gaussian_sigma(epsilon, 1e-6, sensitivity=sensitivity, count=count)
    events = [GaussianEvent(sensitivity=sensitivity, sigma=sigma)] * count
    assert epsilon_of(events, 1e-6) <= epsilon
    less = [GaussianEvent(sensitivity=sensitivity, sigma=sigma * 0.999)] * count
    assert epsilon_of(less, 1e-6) > epsilon
    zcdp = sensitivity * math.sqrt(count / (2 * zcdp_rho(epsilon, 1e-6)))
    assert sigma <= zcdp * (1 + 1e-6)


def test_discrete_sigma_by_brute_force_with_power():
    """At the calibrated sigma the exact delta is at most the target; at 0.7 sigma it is not."""
    sigma = gaussian_sigma(2.0, 1e-3)
    delta = lambda s: shifted_delta(lambda c: gaussian_pmf(s, c, 60), (1,), 2.0)  # noqa: E731
    assert 0.98e-3 < delta(sigma) <= 1e-3
    assert delta(0.7 * sigma) > 2e-3


def test_generic_calibration_of_a_mixed_plan():
    def plan(noise):
        return [
            PureEvent(epsilon=0.05),
            SampledGaussianEvent(rate=0.02, noise_multiplier=noise, steps=200),
        ]

    noise = calibrate(plan, 1.0, 1e-6, tolerance=0.1)
    assert epsilon_of(plan(noise), 1e-6) <= 1.0
    assert epsilon_of(plan(noise * 0.88), 1e-6) > 1.0


def test_calibration_under_replace_one_needs_twice_the_laplace_noise():
    plan = lambda b: [LaplaceEvent(sensitivity=1, scale=b)]  # noqa: E731
    assert calibrate(plan, 1.0, adjacency="replace-one") == pytest.approx(2, rel=2e-4)
