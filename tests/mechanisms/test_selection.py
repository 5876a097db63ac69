"""Selection: exact probabilities, scales that keep the promise, charges that fit the law."""

from fractions import Fraction
from itertools import permutations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import softmax

from missdp.accounting import PureEvent, SelectionEvent
from missdp.accounting.costs import zcdp_rho_of
from missdp.accounting.exact import exact
from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms import SecureNoise, SeededNoise
from missdp.mechanisms.noise import Selection

RUNS = 6_000
SCORES = np.array([0.0, 4.0, 6.0, -3.0])
scores = st.lists(st.floats(-9, 9), min_size=1, max_size=5)


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


def gumbel_law(scores, scale):
    return softmax(scores / scale)


@pytest.mark.parametrize(
    ("method", "law", "other", "source"),
    [
        ("exponential", gumbel_law, flip_law, SecureNoise()),
        ("permute-and-flip", flip_law, gumbel_law, SeededNoise(2)),
    ],
)
def test_probabilities_are_those_of_the_mechanism_that_was_charged(method, law, other, source):
    epsilon, sensitivity = 0.8, 1.7
    best = Selection(epsilon, sensitivity, method)
    event = best.event(sensitivity)
    assert event == (SelectionEvent if method == "exponential" else PureEvent)(epsilon=epsilon)
    observed = np.bincount([best.draw(SCORES, source) for _ in range(RUNS)], minlength=4)
    scale = 2 * sensitivity / epsilon
    assert stats.chisquare(observed, RUNS * law(SCORES, scale)).pvalue > 1e-6
    for wrong in (0.5, 0.7, 1.4):  # 0.5: the factor of monotone scores, not claimed here
        assert stats.chisquare(observed, RUNS * law(SCORES, wrong * scale)).pvalue < 1e-6
    assert stats.chisquare(observed, RUNS * other(SCORES, scale)).pvalue < 1e-6


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
    """Epsilon as the ledger reads it, in decimal; numbers of 16 and 32 bits included."""
    law = Selection(epsilon, sensitivity)
    event = law.event(law.sensitivity)
    assert Fraction(law.scale) >= 2 * Fraction(float(sensitivity)) / exact(event.epsilon)


@given(scores, st.integers(0, 4), st.floats(0.1, 10))
def test_log_ratios_of_permute_and_flip_are_those_of_its_law(scores, answer, scale):
    here = np.array(scores)
    there = here + np.resize([1.0, -1.0], here.size)
    law, i = Selection(1.0, scale / 2, "permute-and-flip"), answer % here.size
    found = law.log_ratio(i, here, there)
    assert found == pytest.approx(
        np.log(flip_law(here, scale)[i] / flip_law(there, scale)[i]), abs=1e-6
    )
    assert abs(found) <= 2 / scale + 1e-9


def test_the_range_of_permute_and_flip_is_not_bounded():
    """So a selection event, which costs a fourth of it in zCDP, does not pay for it."""
    epsilon, scores = 1.0, np.array([0.0, 0.0, 0.0, 0.0])
    law, others = Selection(epsilon, 1.0, "permute-and-flip"), np.array([1.0, -1.0, -1.0, -1.0])
    ratios = [law.log_ratio(i, others, scores) for i in range(4)]
    assert max(ratios) - min(ratios) > 1.05 * epsilon
    assert law.exceeds(PureEvent(epsilon=epsilon), scores, others) is None
    assert "selection" in law.exceeds(SelectionEvent(epsilon=epsilon), scores, others)
    assert law.exceeds(PureEvent(epsilon=0.9 * epsilon), scores, others) is not None


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
        {"sensitivity": float("inf")}, {"sensitivity": 1e30}, {"method": "best"}, {"gate": "age"},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused(bad):
    made = {name: value for name, value in bad.items() if name != "gate"}
    with pytest.raises(ParameterError):
        Selection(**{"epsilon": 1.0, "sensitivity": 1.0, **made}).event(1.0, gate=bad.get("gate"))
    with pytest.raises(UnprovenError, match="more sensitive"):
        Selection(1.0, 1.0).event(1.5)
