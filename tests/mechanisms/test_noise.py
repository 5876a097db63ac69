"""What noise sources refuse, state and repeat; noisy counts keep what is claimed of them."""

import math

import numpy as np
import pytest
from scipy import stats

from missdp.accounting import ExplicitSeed, gaussian_delta
from missdp.errors import DataError, ParameterError
from missdp.mechanisms import Noise, NoiseSource, SecureNoise, SeededNoise, Witness, noise_source

DRAWS = 12_000
SOURCES = [SecureNoise(), SeededNoise(20240229)]
IDS = ["secure", "seeded"]


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_draws_of_one_call_are_uncorrelated(source):
    draws = source.discrete_gaussian(10.0, (2, DRAWS)).astype(float)
    for a, b in ((draws[0], draws[1]), (draws[0, :-1], draws[0, 1:])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / DRAWS**0.5


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
def test_shapes_and_huge_scales(source):
    for draw in (source.discrete_laplace, source.discrete_gaussian):
        for size in (0, 1, (), (0, 3), (2, 3)):
            draws = draw(2.0, size)
            assert draws.dtype == np.int64
            assert draws.shape == (size if isinstance(size, tuple) else (size,))
        assert 2.0**37 < np.abs(draw(2.0**40, 200)).mean() < 2.0**42


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
    for value in (float("nan"), float("inf"), float("-inf")):
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


# Counts plus noise
def observed_loss(kind, scale, epsilon, source):
    """Lower confidence bound on P(A) - e^eps P'(A) over the events A = {output <= t}.

    The two neighbours are one cell of 100 rows and of 101; every entry of the vector is an
    independent run.
    """
    runs = 20_000
    here, there = (Noise(kind, scale).draw(np.full(runs, n), source) for n in (100, 101))
    best = -math.inf
    for t in range(85, 103):
        a, b = int((here <= t).sum()), int((there <= t).sum())
        low = stats.beta.ppf(1e-7, a, runs - a + 1) if a else 0.0
        high = stats.beta.ppf(1 - 1e-7, b + 1, runs - b)
        best = max(best, low - math.exp(epsilon) * high)
    return best


@pytest.mark.parametrize("source", SOURCES, ids=IDS)
@pytest.mark.parametrize(
    ("kind", "scale", "epsilon", "delta"),
    [("laplace", 1.0, 1.0, 0.0), ("gaussian", 1.5, 0.5, gaussian_delta(0.5, sigma=1.5))],
)
def test_noisy_counts_keep_what_is_claimed_and_noise_30_percent_off_is_caught(
    source, kind, scale, epsilon, delta
):
    assert observed_loss(kind, scale, epsilon, source) <= delta
    assert observed_loss(kind, 0.7 * scale, epsilon, source) > delta


@pytest.mark.parametrize(
    "counts",
    [
        [1.0, float("nan")], [float("inf")], [31337.5], ["31337"], [None, 31337],
        [[1], [2, 31337]], [31337 + 0j], np.array(["2031-03-07"], dtype="datetime64[D]"),
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_count_is_refused_without_being_named(counts):
    with pytest.raises(DataError) as refused:
        Noise("laplace", 1.0).draw(counts, SeededNoise(0))
    assert "31337" not in str(refused.value)
    assert "2031" not in str(refused.value)
    assert refused.value.__cause__ is refused.value.__context__ is None


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64, np.float64, np.bool_])
def test_counts_keep_their_shape_and_do_not_wrap_around(kind):
    for shape in ((), (0, 3), (2, 3)):
        found = Noise("laplace", 1.0).draw(np.ones(shape, dtype=kind), SeededNoise(0))
        assert (found.shape, found.dtype) == (shape, np.int64)
    for value in (2**63 - 1, -(2**63), np.uint64(2**64 - 1), 1e300, -1e300):
        found = Noise("laplace", 1.0).draw(np.array([value] * 50), SeededNoise(0))
        assert (np.sign(found) == np.sign(float(value))).all()
        assert (np.abs(found.astype(float)) > 2**60).all()
