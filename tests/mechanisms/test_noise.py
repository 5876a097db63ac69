"""Noise sources draw the laws they promise; the tests would notice a scale 30 % off."""

import numpy as np
import pytest
from scipy import integrate, stats

from missdp.accounting import ExplicitSeed
from missdp.errors import DataError, ParameterError
from missdp.mechanisms import NoiseSource, SecureNoise, SeededNoise, Witness, noise_source

DRAWS = 12_000
SOURCES = [SecureNoise(), SeededNoise(20240229)]
IDS = ["secure", "seeded"]
# A correct source fails a test once in a million runs; a wrong scale must fail by far.
ACCEPT, REJECT = 1e-6, 1e-9


def laplace_log_pmf(x, scale):
    return np.log(np.tanh(1 / (2 * scale))) - np.abs(x) / scale


def gaussian_log_pmf(x, sigma):
    wide = np.arange(-int(40 * sigma) - 40, int(40 * sigma) + 41)
    norm = np.log(np.exp(-(wide**2) / (2 * sigma**2)).sum())
    return -(x**2) / (2 * sigma**2) - norm


def fit(draws, log_pmf, parameter):
    """P-value of a chi-square test with cells of at least 20 expected draws."""
    reach = int(np.abs(draws).max()) + int(30 * parameter) + 10
    support = np.arange(-reach, reach + 1)
    expected = draws.size * np.exp(log_pmf(support, parameter))
    cell = np.minimum((np.cumsum(expected) - expected) // 200, (draws.size - 20) // 200).astype(int)
    observed = np.bincount(cell[draws + reach], minlength=cell[-1] + 1)
    wanted = np.bincount(cell, weights=expected)
    keep = wanted > 0
    statistic = ((observed[keep] - wanted[keep]) ** 2 / wanted[keep]).sum()
    return stats.chi2.sf(statistic, keep.sum() - 1)


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize("parameter", [0.9, 3.3, 40.0])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_the_law_fits_and_a_scale_30_percent_off_does_not(source, parameter, law):
    log_pmf = laplace_log_pmf if law == "laplace" else gaussian_log_pmf
    draw = source.discrete_laplace if law == "laplace" else source.discrete_gaussian
    draws = draw(parameter, DRAWS)
    assert fit(draws, log_pmf, parameter) > ACCEPT
    assert fit(draws, log_pmf, 0.7 * parameter) < REJECT
    assert fit(draws, log_pmf, 1.3 * parameter) < REJECT


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_the_two_laws_are_told_apart(source):
    """Laplace and Gaussian noise of equal variance fail each other's test."""
    laplace = source.discrete_laplace(5.0, DRAWS)
    gaussian = source.discrete_gaussian(5.0 * 2**0.5, DRAWS)
    assert fit(laplace, gaussian_log_pmf, 5.0 * 2**0.5) < REJECT
    assert fit(gaussian, laplace_log_pmf, 5.0) < REJECT


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_draws_of_one_call_are_uncorrelated(source):
    draws = source.discrete_gaussian(10.0, (2, DRAWS)).astype(float)
    for a, b in ((draws[0], draws[1]), (draws[0, :-1], draws[0, 1:])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / DRAWS**0.5


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize("size", [0, 1, (), (0, 3), (2, 3)])
def test_shapes_and_dtype(source, size):
    for draw in (source.discrete_laplace, source.discrete_gaussian):
        draws = draw(2.0, size)
        assert draws.dtype == np.int64
        assert draws.shape == (size if isinstance(size, tuple) else (size,))


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_tiny_and_huge_scales(source):
    assert not source.discrete_laplace(1e-3, 1000).any()
    assert not source.discrete_gaussian(1e-2, 1000).any()
    for draw in (source.discrete_laplace, source.discrete_gaussian):
        assert 2.0**37 < np.abs(draw(2.0**40, 200)).mean() < 2.0**42


def gumbel_probabilities(scores, scale):
    weights = np.exp((scores - scores.max()) / scale)
    return weights / weights.sum()


def exponential_probabilities(scores, scale):
    """Permute-and-flip by integration over the winner's noise."""
    law = stats.expon(scale=scale)
    others = lambda x, i: np.prod(np.delete(law.cdf(scores[i] + x - scores), i))  # noqa: E731
    wins = [
        integrate.quad(lambda x, i=i: law.pdf(x) * others(x, i), 0, 60 * scale, limit=300)[0]
        for i in range(scores.size)
    ]
    return np.array(wins)


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize(
    ("noise", "law"), [("gumbel", gumbel_probabilities), ("exponential", exponential_probabilities)]
)
def test_noisy_max_frequencies_are_exact(source, noise, law):
    scores, scale = np.array([0.0, 1.5, 2.0, -1.0]), 1.3
    wins = [source.noisy_max(scores, scale, noise=noise) for _ in range(DRAWS)]
    observed = np.bincount(wins, minlength=4)
    assert stats.chisquare(observed, DRAWS * law(scores, scale)).pvalue > ACCEPT
    for wrong in (0.7 * scale, 1.3 * scale):
        assert stats.chisquare(observed, DRAWS * law(scores, wrong)).pvalue < REJECT


def test_the_two_selection_noises_differ():
    scores = np.array([0.0, 1.5, 2.0, -1.0])
    wins = [SecureNoise().noisy_max(scores, 1.3, noise="exponential") for _ in range(DRAWS)]
    expected = DRAWS * gumbel_probabilities(scores, 1.3)
    assert stats.chisquare(np.bincount(wins, minlength=4), expected).pvalue < REJECT


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_bad_parameters_are_refused(source):
    for scale in (0, -1, float("nan"), float("inf"), 2.0**41, True):
        for draw in (source.discrete_laplace, source.discrete_gaussian):
            with pytest.raises(ParameterError):
                draw(scale, 1)
        with pytest.raises(ParameterError):
            source.noisy_max(np.zeros(2), scale)
    with pytest.raises(ParameterError):
        source.noisy_max(np.zeros(2), 1.0, noise="gauss")
    for shape in ((0,), (1, 2), ()):
        with pytest.raises(ParameterError):
            source.noisy_max(np.zeros(shape), 1.0)


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_scores_that_are_not_finite_are_refused(source, value):
    with pytest.raises(DataError, match="finite"):
        source.noisy_max(np.array([0.0, value, 1.0]), 1.0)


def test_noise_source_picks():
    assert isinstance(noise_source(None), SecureNoise)
    assert isinstance(noise_source(0), SeededNoise)
    assert isinstance(noise_source(np.int64(3)), SeededNoise)
    assert isinstance(noise_source(np.random.default_rng(0)), SeededNoise)
    for source in SOURCES:
        assert isinstance(source, NoiseSource)
        assert noise_source(source) is source
    for wrong in (-1, True, 1.5, "seed", np.random.RandomState(0)):
        with pytest.raises(ParameterError):
            noise_source(wrong)


def test_only_seeded_noise_carries_a_condition_and_repeats_itself():
    assert SecureNoise().conditions == ()
    assert SeededNoise(1).conditions == (ExplicitSeed(),)
    a, b, c = SeededNoise(1), SeededNoise(1), SeededNoise(2)
    first = a.discrete_laplace(50.0, 40)
    assert (first == b.discrete_laplace(50.0, 40)).all()
    assert (first != c.discrete_laplace(50.0, 40)).any()
    np.random.seed(0)  # noqa: NPY002
    once = SecureNoise().discrete_laplace(50.0, 40)
    np.random.seed(0)  # noqa: NPY002
    assert (once != SecureNoise().discrete_laplace(50.0, 40)).any()


@pytest.mark.parametrize("make", [SecureNoise, lambda: SeededNoise(5)], ids=IDS)
def test_generators_for_post_processing_differ_from_each_other(make):
    source = make()
    first, second = source.generator(), source.generator()
    assert (first.random(8) != second.random(8)).any()
    assert repr(source) in ("SecureNoise()", "SeededNoise()")


def test_seeded_noise_cannot_hide_that_it_is_seeded():
    class Hidden:
        conditions = ()

    for bases in ((SeededNoise,), (Hidden, SeededNoise), (Witness,)):
        with pytest.raises(TypeError, match="ExplicitSeed"):
            type("Quiet", bases, {"conditions": ()})
