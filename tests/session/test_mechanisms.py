"""Noise is validated, stated and repeated. Noisy counts and selections keep their claims."""

import math
from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from missdp.accounting import ExplicitSeed, PureEvent, SelectionEvent
from missdp.accounting.exact import delta_from_mu, exact
from missdp.accounting.measures import zcdp_rho_of
from missdp.errors import DataError, ParameterError, UnprovenError
from missdp.session import Noise, NoiseSource, SecureNoise, SeededNoise
from missdp.session.mechanisms import Selection
from missdp.testing import RecordingNoise, log_ratio, undercharges
from refusing import refuses

DRAWS = 12_000
SOURCES = [SecureNoise(), SeededNoise(20240229)]
every_source = pytest.mark.parametrize("source", SOURCES, ids=["secure", "seeded"])


@every_source
def test_draws_have_their_shape_and_are_uncorrelated_and_huge_scales_are_drawn(source):
    draws = source.discrete_gaussian(10.0, (2, DRAWS)).astype(float)
    for a, b in ((draws[0], draws[1]), (draws[0, :-1], draws[0, 1:])):
        # Six standard deviations, beyond which independent draws are once in 500 million times.
        assert abs(np.corrcoef(a, b)[0, 1]) < 6 / DRAWS**0.5
    for draw in (source.discrete_laplace, source.discrete_gaussian):
        for size in (0, 1, (), (0, 3), (2, 3)):
            draws = draw(2.0, size)
            assert draws.dtype == np.int64
            assert draws.shape == (size if isinstance(size, tuple) else (size,))
        assert 2.0**37 < np.abs(draw(2.0**40, 200)).mean() < 2.0**42


@every_source
def test_bad_parameters_are_refused(source):
    for scale in (0, -1, float("nan"), float("inf"), 2.0**41, True):
        for draw in (source.discrete_laplace, source.discrete_gaussian):
            with pytest.raises(ParameterError):
                draw(scale, 1)
        with pytest.raises(ParameterError):
            source.noisy_max(np.zeros(2), scale, method="exponential")
    best = "exponential"
    for shape, method in (((2,), "gumbel"), ((0,), best), ((1, 2), best), ((), best)):
        with pytest.raises(ParameterError):
            source.noisy_max(np.zeros(shape), 1.0, method=method)
    for value in (float("nan"), float("inf"), float("-inf")):
        with pytest.raises(DataError, match="finite"):
            source.noisy_max(np.array([0.0, value, 1.0]), 1.0, method="exponential")


def test_a_seed_picks_seeded_noise_and_nothing_picks_the_operating_systems():
    assert isinstance(NoiseSource.from_seed(None), SecureNoise)
    for seed in (0, np.int64(3)):
        assert isinstance(NoiseSource.from_seed(seed), SeededNoise)
    for source in SOURCES:
        assert isinstance(source, NoiseSource)
        first, second = source.generator(), source.generator()
        assert (first.random(8) != second.random(8)).any()
        assert repr(source) in ("SecureNoise()", "SeededNoise()")
    for wrong in (
        -1,
        True,
        1.5,
        "seed",
        np.random.RandomState(0),
        np.random.default_rng(0),
        *SOURCES,
    ):
        with pytest.raises(ParameterError, match="random_state must be None or an integer"):
            NoiseSource.from_seed(wrong)


def test_only_seeded_noise_repeats_itself_and_it_cannot_hide_that_it_is_seeded():
    assert SecureNoise().conditions == ()
    assert SeededNoise(1).conditions == (ExplicitSeed(),)
    a, b, c = (SeededNoise(seed).discrete_laplace(50.0, 40) for seed in (1, 1, 2))
    assert (a == b).all()
    assert (a != c).any()
    np.random.seed(0)  # noqa: NPY002
    once = SecureNoise().discrete_laplace(50.0, 40)
    np.random.seed(0)  # noqa: NPY002
    assert (once != SecureNoise().discrete_laplace(50.0, 40)).any()
    hidden = type("Hidden", (), {"conditions": ()})
    for bases in ((SeededNoise,), (hidden, SeededNoise), (RecordingNoise,)):
        with pytest.raises(TypeError, match="ExplicitSeed"):
            type("Quiet", bases, {"conditions": ()})


# Counts plus noise
def observed_loss(kind, scale, epsilon, source):
    """Lower confidence bound on P(A) - e^eps P'(A) over the events A = {output <= t}.

    The two neighbours are a cell of 100 rows and a cell of 101 rows. Every entry of the vector is
    an independent run.
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


@every_source
@pytest.mark.parametrize(
    ("kind", "scale", "epsilon", "delta"),
    [("laplace", 1.0, 1.0, 0.0), ("gaussian", 1.5, 0.5, delta_from_mu(1 / 1.5, 0.5))],
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
    with refuses(DataError) as refused:
        Noise("laplace", 1.0).draw(counts, SeededNoise(0))
    assert not any(cell in str(refused.value) for cell in ("31337", "2031"))


@pytest.mark.parametrize("kind", [np.int8, np.uint16, np.int64, np.uint64, np.float64, np.bool_])
def test_counts_keep_their_shape_and_do_not_wrap_around(kind):
    for shape in ((), (0, 3), (2, 3)):
        found = Noise("laplace", 1.0).draw(np.ones(shape, dtype=kind), SeededNoise(0))
        assert (found.shape, found.dtype) == (shape, np.int64)
    for value in (2**63 - 1, -(2**63), np.uint64(2**64 - 1), 1e300, -1e300):
        found = Noise("laplace", 1.0).draw(np.array([value] * 50), SeededNoise(0))
        assert (np.sign(found) == np.sign(float(value))).all()
        assert (np.abs(found.astype(float)) > 2**60).all()


# Selections
RUNS = 6_000
SCORES = np.array([0.0, 4.0, 6.0, -3.0])
scores = st.lists(st.floats(-9, 9), min_size=1, max_size=5)


def gumbel_law(scores, scale):
    return softmax(scores / scale)


def flip_law(scores, scale):
    """The law of permute-and-flip by going through all orders (McKenna & Sheldon 2020)."""
    coins, law = np.exp((scores - scores.max()) / scale), np.zeros(len(scores))
    orders = list(permutations(range(len(scores))))
    for order in orders:
        nobody = 1.0
        for i in order:
            law[i] += nobody * coins[i] / len(orders)
            nobody *= 1 - coins[i]
    return law


LAWS = {"exponential": gumbel_law, "permute-and-flip": flip_law}


@pytest.mark.long
@pytest.mark.parametrize(("method", "source"), list(zip(LAWS, SOURCES, strict=True)))
def test_probabilities_are_those_of_the_mechanism_that_was_charged(method, source):
    epsilon, sensitivity = 0.8, 1.7
    best = Selection(epsilon, sensitivity, method)
    event = best.event(sensitivity, required=None, label="")
    assert event == (SelectionEvent if method == "exponential" else PureEvent)(epsilon=epsilon)
    observed = np.bincount([best.draw(SCORES, source) for _ in range(RUNS)], minlength=4)
    scale = 2 * sensitivity / epsilon
    wrong = [(method, factor) for factor in (0.5, 0.7, 1.4)]  # 0.5: that of monotone scores
    for name, factor in [(name, 1.0) for name in LAWS] + wrong:
        pvalue = stats.chisquare(observed, RUNS * LAWS[name](SCORES, factor * scale)).pvalue
        assert (pvalue > 1e-6) == ((name, factor) == (method, 1.0))


@given(
    st.integers(1, 2_000).map(lambda n: n / 100)
    | st.sampled_from([8.46])
    | st.floats(2**-6, 20, width=16).map(np.float16)
    | st.floats(2**-6, 20, width=32).map(np.float32),
    st.sampled_from([1.0, 0.7, np.float32(0.7), np.float16(1.3), 3]),
)
@example(8.46, 0.7)
@example(np.float16(0.3), 1.0)
def test_the_scale_is_never_below_what_the_charged_epsilon_needs(epsilon, sensitivity):
    """The ledger reads epsilon as a decimal number. Numbers of 16 and 32 bits are included."""
    law = Selection(epsilon, sensitivity)
    event = law.event(law.sensitivity, required=None, label="")
    assert Fraction(law.scale) >= 2 * Fraction(float(sensitivity)) / exact(event.epsilon)


@given(st.sampled_from(list(LAWS)), scores, st.integers(0, 4), st.floats(0.1, 10))
def test_log_ratios_of_selections_are_those_of_their_laws(method, scores, answer, scale):
    here = np.array(scores)
    there = here + np.resize([1.0, -1.0], here.size)
    best, law, i = Selection(1.0, scale / 2, method), LAWS[method], answer % here.size
    found = log_ratio(best, i, here, there)
    assert found == pytest.approx(np.log(law(here, scale)[i] / law(there, scale)[i]), abs=1e-6)
    assert abs(found) <= 2 / scale + 1e-9
    assert log_ratio(best, 0, huge := np.array([1e9, 0.0]), huge) == 0.0


def test_the_range_of_permute_and_flip_is_not_bounded():
    """So a selection event, which costs a fourth of it in zCDP, does not pay for it."""
    epsilon, scores = 1.0, np.array([0.0, 0.0, 0.0, 0.0])
    law, others = Selection(epsilon, 1.0, "permute-and-flip"), np.array([1.0, -1.0, -1.0, -1.0])
    ratios = [log_ratio(law, i, others, scores) for i in range(4)]
    assert max(ratios) - min(ratios) > 1.05 * epsilon
    assert undercharges(law, PureEvent(epsilon=epsilon), scores, others) is None
    assert "selection" in undercharges(law, SelectionEvent(epsilon=epsilon), scores, others)
    assert undercharges(law, PureEvent(epsilon=0.9 * epsilon), scores, others) is not None


def test_open_dp_agrees_on_the_price():
    """The privacy maps of OpenDP's own measurements give the events' epsilon and rho."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    epsilon, sensitivity = 0.7, 3.0
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    scale = 2 * sensitivity / epsilon
    exponential = dp.m.make_noisy_max(*space, dp.max_divergence(), scale)
    gumbel = dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale)
    assert exponential.map(sensitivity) == pytest.approx(epsilon)
    rho = zcdp_rho_of(SelectionEvent(epsilon=epsilon))
    assert gumbel.map(sensitivity) == pytest.approx(rho)


@pytest.mark.parametrize(
    "bad",
    [
        {"epsilon": 0}, {"epsilon": float("nan")}, {"sensitivity": 0},
        {"sensitivity": float("inf")}, {"sensitivity": 1e30}, {"method": "best"},
        {"required": "age"},
    ],
)  # fmt: skip
def test_bad_selections_are_refused(bad):
    made = {name: value for name, value in bad.items() if name != "required"}
    with pytest.raises(ParameterError):
        Selection(**{"epsilon": 1.0, "sensitivity": 1.0, **made}).event(
            1.0, required=bad.get("required"), label=""
        )
    with pytest.raises(UnprovenError, match="more sensitive"):
        Selection(1.0, 1.0).event(1.5, required=None, label="")
