"""Holes that coincide: the latent correlations, alone and in a fitted model."""

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import multivariate_normal

from missdp import Categorical, Schema, Table
from missdp.evaluate import missing_fidelity
from missdp.inference.masks import _latent_uniforms, fit_correlation
from missdp.synth import AIM


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
