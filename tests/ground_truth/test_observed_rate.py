"""Bounds on observed rates: coverage over noise and sampling, and refusal of raw counts."""

import math

import numpy as np
import pytest
from scipy import stats

from missdp.accounting import MissingCompletelyAtRandom, PureEvent
from missdp.errors import ParameterError
from missdp.ground_truth import FixedGates, ground_truth_guarantee, observed_rate_bound
from missdp.ground_truth.gates import _quantile


def bound(missing, total, **options):
    settings = {"attribute": "income", "scale": 5.0, "total_scale": 5.0, **options}
    return observed_rate_bound(missing, total, **settings)


def discrete_gaussian_tail(sigma, at_least):
    support = np.arange(-400, 401)
    mass = np.exp(-(support**2) / (2 * sigma**2))
    return float(mass[support >= at_least].sum() / mass.sum())


TAILS = {
    "laplace": lambda b, q: float(stats.laplace(0, b).sf(q)),
    "gaussian": lambda s, q: float(stats.norm(0, s).sf(q)),
    "discrete-laplace": lambda b, q: float(stats.dlaplace(1 / b).sf(math.floor(q))),
    "discrete-gaussian": lambda s, q: discrete_gaussian_tail(s, math.floor(q) + 1),
}


@pytest.mark.parametrize("noise", sorted(TAILS))
@pytest.mark.parametrize("scale", [0.3, 2.0, 25.0])
@pytest.mark.parametrize("share", [0.2, 0.01, 1e-6])
def test_noise_quantiles_are_valid_and_not_much_too_large(noise, scale, share):
    quantile = _quantile(noise, scale, share)
    assert TAILS[noise](scale, quantile) <= share * (1 + 1e-9)
    if quantile > 0:
        slack = {"discrete-laplace": 1.0, "discrete-gaussian": 2.0}.get(noise, 0.0) + 1e-6
        assert TAILS[noise](scale, quantile - slack) > share


@pytest.mark.parametrize("noise", ["laplace", "discrete-gaussian"])
def test_coverage_over_repeated_releases(noise):
    rng = np.random.default_rng(7)
    n, missing_rate, scale, runs = 800, 0.2, 6.0, 1500
    missing = rng.binomial(n, missing_rate, size=runs).astype(float)
    if noise == "laplace":
        noises = rng.laplace(0, scale, size=(2, runs))
    else:
        noises = np.round(rng.normal(0, scale, size=(2, runs)))
    uppers = np.array(
        [
            bound(m, n + e, scale=scale, total_scale=scale, noise=noise, confidence=0.9).upper
            for m, e in zip(missing + noises[0], noises[1], strict=True)
        ]
    )
    covered = float((uppers >= 1 - missing_rate).mean())
    assert covered >= 0.9
    assert uppers.mean() < 0.8 + 0.07  # informative, not merely 1


def test_each_source_of_error_gets_a_third_of_the_failure_probability():
    """With noise too small to move an integer, what is left is Clopper-Pearson at β/3."""
    found = bound(200.0, 1000.0, scale=0.01, total_scale=0.01, confidence=0.94)
    lower = stats.binomtest(200, 1000).proportion_ci(1 - 2 * 0.02, method="exact").low
    assert found.upper == pytest.approx(1 - lower, abs=1e-9)


def test_the_noise_is_part_of_the_uncertainty():
    quiet, loud = bound(200.0, 1000.0, scale=1.0), bound(200.0, 1000.0, scale=20.0)
    assert 0.8 < quiet.upper < loud.upper < 1.0


def test_monotone_in_confidence_counts_and_totals():
    base = bound(200.0, 1000.0).upper
    assert bound(200.0, 1000.0, confidence=0.999).upper > base
    assert bound(150.0, 1000.0).upper > base
    assert bound(200.0, 1200.0).upper > base


@pytest.mark.parametrize("counts", [(-3.0, 1000.0), (5.0, 1000.0), (10.0, -4.0)])
def test_counts_that_say_nothing_give_one(counts):
    assert bound(*counts, scale=10.0).upper == 1.0


def test_counts_that_noise_made_contradictory_stay_in_range():
    assert 0.0 <= bound(500.0, 300.0).upper <= 1.0


def test_the_confidence_travels_with_the_guarantee():
    found = bound(200.0, 1000.0, confidence=0.99)
    assert found.confidence == 0.99
    (condition,) = found.conditions
    assert "confidence 0.99" in str(condition)
    assert "income" in str(condition)
    guarantee = ground_truth_guarantee(
        PureEvent(epsilon=1.0, gate={"income"}),
        MissingCompletelyAtRandom({found.attribute: found.upper}),
        structure=FixedGates(),
        conditions=found.conditions,
    )
    assert condition in guarantee.conditions
    assert guarantee.epsilon < 1.0


@pytest.mark.parametrize(
    "options",
    [
        {"scale": 0.0},
        {"total_scale": 0.0},
        {"scale": math.nan},
        {"noise": "uniform"},
        {"confidence": 1.0},
        {"confidence": 0.0},
    ],
)
def test_refuses_raw_counts_and_bad_parameters(options):
    with pytest.raises(ParameterError):
        bound(200.0, 1000.0, **options)


def test_refuses_counts_that_are_not_finite():
    with pytest.raises(ParameterError):
        bound(math.inf, 1000.0)
