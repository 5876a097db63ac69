"""Accountants against brute force, numerical integration and each other."""

import math
import os
import subprocess
import sys

import numpy as np
import pytest
from accounting_oracles import (
    continuous_gaussian_delta,
    gaussian_pmf,
    hockey_stick,
    integer_shifts,
    joint,
    laplace_pmf,
    shifted_delta,
)
from accounting_strategies import elementary, pure_events
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.accounting import (
    DEFAULT_ACCOUNTANTS,
    PLD,
    PURE,
    RENYI,
    ZCDP,
    ApproximateEvent,
    ComposedEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    delta_of,
    epsilon_of,
    epsilon_under,
    gaussian_delta,
    to_dp_event,
)
from missdp.errors import ParameterError, UnprovenError

# The PLD accountant's rounding interval is 1e-4; connect-the-dots keeps the error far below it.
TIGHT = 2e-4


def truth_is_bounded(events, epsilons, truth, *, tight_with=None):
    """Every supporting accountant's delta is at least the truth; one of them is tight."""
    for epsilon in epsilons:
        exact = truth(epsilon)
        for accountant in DEFAULT_ACCOUNTANTS:
            if all(accountant.supports(event) for event in events):
                assert accountant.delta(events, epsilon) >= exact * (1 - 1e-9) - 1e-12
        if tight_with is not None:
            near = max(truth(max(0.0, epsilon - TIGHT)), exact)
            assert tight_with.delta(events, epsilon) <= near * (1 + 1e-6) + 1e-10


@pytest.mark.parametrize(("scale", "count"), [(1.0, 1), (1.0, 2), (2.5, 3)])
def test_discrete_laplace_composition_is_exact(scale, count):
    events = [LaplaceEvent(sensitivity=1, scale=scale)] * count
    p = joint([laplace_pmf(scale, 0, 50)] * count)
    q = joint([laplace_pmf(scale, 1, 50)] * count)
    epsilons = np.linspace(0, count / scale, 7)
    truth_is_bounded(events, epsilons, lambda e: hockey_stick(p, q, e), tight_with=PLD)


def test_every_l1_shift_is_covered_and_one_coordinate_is_the_worst():
    event = LaplaceEvent(sensitivity=3, scale=1.7)
    for epsilon in (0.0, 0.4, 1.1, 1.6):
        claimed = PLD.delta([event], epsilon)
        deltas = {
            shifts: shifted_delta(lambda c: laplace_pmf(1.7, c, 50), shifts, epsilon)
            for shifts in integer_shifts(3, 1, dimension=2)
        }
        assert max(deltas.values()) <= claimed + 1e-10
        assert max(deltas.values()) == pytest.approx(deltas[(3, 0)], abs=1e-12)
        assert deltas[(3, 0)] == pytest.approx(claimed, rel=1e-3, abs=1e-9)


def test_the_continuous_laplace_loss_does_not_cover_discrete_noise():
    """The oracle has power: the mistake this library avoids would be caught."""
    p, q = laplace_pmf(1.0, 0), laplace_pmf(1.0, 1)
    continuous = LaplaceEvent(sensitivity=1, scale=1.0, discrete=False)
    wrong = PLD.delta([continuous], 0.5)
    assert wrong < 0.9 * hockey_stick(p, q, 0.5)
    with pytest.raises(AssertionError):
        truth_is_bounded([continuous], [0.5], lambda e: hockey_stick(p, q, e))


@pytest.mark.parametrize("sigma", [0.7, 1.5, 3.0])
@pytest.mark.parametrize("squared", [1, 2, 3])
def test_discrete_gaussian_covers_every_integer_shift(sigma, squared):
    event = GaussianEvent(sensitivity=math.sqrt(squared), sigma=sigma)
    for epsilon in (0.1, 0.8, 2.0):
        worst = max(
            shifted_delta(lambda c: gaussian_pmf(sigma, c, 25), shifts, epsilon)
            for shifts in integer_shifts(squared, 2, dimension=3)
            if list(shifts) == sorted(map(abs, shifts))  # the law is symmetric
        )
        for accountant in DEFAULT_ACCOUNTANTS:
            if accountant.supports(event):
                assert accountant.delta([event], epsilon) >= worst - 1e-12
        assert PLD.delta([event], epsilon) == pytest.approx(worst, rel=1e-3, abs=1e-9)


def test_wide_discrete_gaussian_shifts_are_refused_by_the_pld_accountant_alone():
    event = GaussianEvent(sensitivity=2, sigma=5)
    assert not PLD.supports(event)
    with pytest.raises(UnprovenError, match="GaussianEvent"):
        PLD.epsilon([event], 1e-6)
    assert epsilon_of(event, 1e-6) == pytest.approx(
        ZCDP.epsilon([ZCDPEvent(rho=4 / 50)], 1e-6)
    )
    for shifts in integer_shifts(4, 2, dimension=2):
        exact = shifted_delta(lambda c: gaussian_pmf(5, c, 60), shifts, 1.0)
        assert exact <= delta_of(event, 1.0)


@pytest.mark.parametrize(("sigma", "count"), [(1.0, 1), (4.0, 1), (8.0, 9)])
def test_continuous_gaussian_matches_integration(sigma, count):
    events = [GaussianEvent(sensitivity=1, sigma=sigma, discrete=False)] * count
    joint_sigma = sigma / math.sqrt(count)
    for epsilon in (0.1, 0.5, 1.0):
        exact = continuous_gaussian_delta(epsilon, joint_sigma)
        assert gaussian_delta(epsilon, sigma=joint_sigma) == pytest.approx(exact, rel=1e-6)
        found = PLD.delta(events, epsilon)
        assert exact * (1 - 1e-6) <= found <= exact * 1.01
        assert ZCDP.delta(events, epsilon) >= exact
        assert RENYI.delta(events, epsilon) >= exact


def test_zcdp_conversion_regression_numbers():
    for rho, epsilon in ((0.0244, 1), (0.0882, 2), (0.185, 3)):
        assert ZCDP.epsilon([ZCDPEvent(rho=rho)], 1e-6) == pytest.approx(
            epsilon, abs=5e-3
        )


def test_rdp_agrees_with_zcdp_up_to_its_grid():
    for rho in (1e-6, 1e-3, 0.1, 2.0):
        events = [ZCDPEvent(rho=rho)]
        for delta in (1e-9, 1e-5):
            exact = ZCDP.epsilon(events, delta)
            assert exact <= RENYI.epsilon(events, delta) <= exact * 1.01


def test_sampled_gaussian_agrees_with_dp_accounting():
    from dp_accounting.pld import PLDAccountant as GooglePLD
    from dp_accounting.rdp import RdpAccountant as GoogleRDP

    event = SampledGaussianEvent(rate=0.02, noise_multiplier=1.2, steps=300)
    google = GooglePLD().compose(to_dp_event(event)).get_epsilon(1e-5)
    assert PLD.epsilon([event], 1e-5) == pytest.approx(google, rel=1e-3)
    google = GoogleRDP().compose(to_dp_event(event)).get_epsilon(1e-5)
    assert RENYI.epsilon([event], 1e-5) == pytest.approx(google, rel=2e-2)
    assert epsilon_of(event, 1e-5) <= RENYI.epsilon([event], 1e-5)
    assert epsilon_of(SampledGaussianEvent(rate=0, noise_multiplier=1, steps=9), 1e-5) == 0


def test_approximate_events_add_their_delta():
    """Brute force: with probability delta the input is told, else a bit flipped at odds e^-eps."""
    epsilon, delta = 0.7, 1e-3
    told = np.array([delta, 0.0])
    bit = (1 - delta) * np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
    p, q = np.concatenate([told, bit]), np.concatenate([told[::-1], bit[::-1]])
    pp, qq = joint([p, p]), joint([q, q])
    events = [ApproximateEvent(epsilon=epsilon, delta=delta)] * 2
    truth_is_bounded(
        events, [0.0, 0.5, 1.0, 1.4], lambda e: hockey_stick(pp, qq, e), tight_with=PLD
    )
    assert math.isinf(epsilon_of(events, delta))
    assert math.isinf(PURE.epsilon(events, delta))
    assert math.isinf(ZCDP.epsilon(events, delta))
    assert math.isinf(RENYI.epsilon(events, delta))
    assert PURE.epsilon(events, 2 * delta) == 2 * epsilon
    assert epsilon_of(events, 2 * delta) <= 2 * epsilon


def test_mixtures_of_pure_and_gaussian_releases_are_bounded():
    events = [LaplaceEvent(sensitivity=1, scale=2.0), GaussianEvent(sensitivity=1, sigma=1.5)]
    p = joint([laplace_pmf(2.0, 0), gaussian_pmf(1.5, 0)])
    q = joint([laplace_pmf(2.0, 1), gaussian_pmf(1.5, 1)])
    truth = lambda e: max(hockey_stick(p, q, e), hockey_stick(q, p, e))  # noqa: E731
    truth_is_bounded(events, [0.2, 0.9, 2.0], truth, tight_with=PLD)


def test_selection_composes_better_than_pure_dp():
    selections = [SelectionEvent(epsilon=0.1)] * 400
    pure = [PureEvent(epsilon=0.1)] * 400
    assert epsilon_of(selections, 1e-6) < 0.6 * epsilon_of(pure, 1e-6)
    assert epsilon_of(selections, 0.0) == pytest.approx(40)


@pytest.mark.parametrize("event", [ZCDPEvent(rho=0.1), RDPEvent(orders=[2], epsilons=[0.1])])
def test_unsupported_events_are_refused_by_name(event):
    with pytest.raises(UnprovenError, match=type(event).__name__):
        PLD.epsilon([event], 1e-6)
    with pytest.raises(UnprovenError, match=type(event).__name__):
        epsilon_of([event], 1e-6, accountants=[PURE])
    with pytest.raises(ParameterError):
        epsilon_of([event], 1e-6, accountants=[])


def test_at_delta_zero_only_pure_dp_counts():
    assert epsilon_of([PureEvent(epsilon=1)] * 3, 0.0) == 3
    for event in (GaussianEvent(sensitivity=1, sigma=9), ZCDPEvent(rho=1e-6)):
        assert math.isinf(epsilon_of(event, 0.0))
    assert math.isinf(epsilon_of(ApproximateEvent(epsilon=1, delta=1e-9), 0.0))


def test_a_huge_total_is_bounded_without_filling_the_memory():
    events = [LaplaceEvent(sensitivity=1, scale=0.1)] * 1000
    assert epsilon_of(events, 1e-6) <= 10_000
    assert not PLD.supports(PureEvent(epsilon=50))


def test_mixed_adjacencies_are_refused():
    pair = [PureEvent(epsilon=1), PureEvent(epsilon=1, adjacency="replace-one")]
    with pytest.raises(UnprovenError, match="mix adjacencies"):
        epsilon_of(pair, 0.0)
    assert epsilon_under(pair, 0.0, "replace-one") == 3
    with pytest.raises(UnprovenError, match="replace-one"):
        epsilon_under(pair, 0.0, "add-remove")


def test_replace_one_by_group_privacy_where_events_do_not_convert():
    """(e, d) under add-remove gives (2e, (1 + e^e) d): checked against its own definition."""
    event = SampledGaussianEvent(rate=0.02, noise_multiplier=1.2, steps=100)
    epsilon = epsilon_under([event], 1e-5, "replace-one")
    half = epsilon / 2
    share = 1e-5 / (1 + math.exp(half))
    assert epsilon_of([event], share) <= half
    assert epsilon_of([event], share) >= half * (1 - 1e-3)
    native = PureEvent(epsilon=1, adjacency="replace-one")
    with pytest.raises(UnprovenError):
        epsilon_under([event, native], 1e-5, "replace-one")


def test_replace_one_of_a_histogram_is_bounded_by_brute_force():
    """A replaced row moves one cell down and another up."""
    event = GaussianEvent(sensitivity=1, sigma=2.0)
    epsilon = epsilon_under([event], 1e-3, "replace-one")
    exact = shifted_delta(lambda c: gaussian_pmf(2.0, c, 30), (1, -1), epsilon)
    assert exact <= 1e-3
    laplace = LaplaceEvent(sensitivity=1, scale=2.0)
    assert epsilon_under([laplace], 0.0, "replace-one") == 1.0


@settings(max_examples=25, deadline=None)
@given(st.lists(elementary, min_size=1, max_size=3), elementary, st.sampled_from([1e-8, 1e-5]))
def test_composition_is_monotone(events, more, delta):
    assert epsilon_of([*events, more], delta) >= epsilon_of(events, delta) - 1e-3


@settings(max_examples=25, deadline=None)
@given(st.lists(elementary, max_size=3), st.permutations(range(3)))
def test_order_nesting_and_labels_do_not_matter(events, order):
    shuffled = [events[i] for i in order if i < len(events)]
    nested = [ComposedEvent(events=shuffled, gate={"a"})]
    assert epsilon_of(nested, 1e-5) == pytest.approx(epsilon_of(events, 1e-5), rel=1e-6, abs=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.lists(pure_events, min_size=1, max_size=4))
def test_epsilon_falls_with_delta_and_never_exceeds_the_pure_sum(events):
    pure = epsilon_of(events, 0.0)
    found = [epsilon_of(events, delta) for delta in (1e-12, 1e-6, 1e-2)]
    assert pure + 1e-9 >= found[0] >= found[1] >= found[2] >= 0


@settings(max_examples=15, deadline=None)
@given(st.lists(elementary, min_size=1, max_size=2), st.floats(0.05, 3))
def test_epsilon_and_delta_are_inverse(events, epsilon):
    delta = delta_of(events, epsilon)
    if 1e-12 < delta < 1:
        # A little more delta, as an event's own delta leaves nothing else of the total.
        assert epsilon_of(events, delta * 1.001) <= epsilon * (1 + 1e-6) + 1e-3


def test_no_events_cost_nothing():
    assert epsilon_of([], 0.0) == delta_of([], 0.0) == 0.0


def test_dp_events_are_refused_by_name_where_google_has_none():
    from dp_accounting.dp_event import (
        ComposedDpEvent,
        DiscreteLaplaceDpEvent,
        NoOpDpEvent,
        ZCDpEvent,
    )

    for event in (ApproximateEvent(epsilon=1, delta=0.1), RDPEvent(orders=[2], epsilons=[1])):
        with pytest.raises(UnprovenError, match=type(event).__name__):
            to_dp_event(event)
        with pytest.raises(UnprovenError):
            to_dp_event(ComposedEvent(events=[event]))
    assert to_dp_event(LaplaceEvent(sensitivity=2.5, scale=4)) == DiscreteLaplaceDpEvent(0.25, 2)
    assert to_dp_event(GaussianEvent(sensitivity=1, sigma=2)) == ZCDpEvent(0.125)
    assert to_dp_event(SelectionEvent(epsilon=2)) == ZCDpEvent(0.5)
    assert to_dp_event(ZCDPEvent(rho=1)) == ZCDpEvent(1)
    assert to_dp_event(PureEvent(epsilon=0)) == NoOpDpEvent()
    composed = to_dp_event(ComposedEvent(events=[PureEvent(epsilon=1)]))
    assert composed == ComposedDpEvent([DiscreteLaplaceDpEvent(1.0, 1)])
    continuous = LaplaceEvent(sensitivity=2, scale=4, discrete=False)
    assert to_dp_event(continuous).noise_multiplier == 2


def test_loss_distributions_are_the_same_in_every_process():
    """To the last digit, or a guarantee that was saved might be refused where it is read."""
    words = (
        "from missdp.accounting import *; "
        "events = [LaplaceEvent(sensitivity=1, scale=5.0 + k) for k in range(4)]; "
        "events += [GaussianEvent(sensitivity=1, sigma=9.0 + k) for k in range(4)]; "
        "print(epsilon_of(events, 1e-6, accountants=[PLD]))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", words],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
