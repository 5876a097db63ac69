"""Accountants against brute force, numerical integration and each other."""

import math

import pytest
from accounting_oracles import gaussian_pmf, hockey_stick, laplace_pmf, shifted_delta
from accounting_strategies import elementary
from dp_accounting import dp_event as dp
from dp_accounting.rdp import RdpAccountant
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import accounting as acc
from missdp.accounting.costs import RDP_ORDERS, _composed
from missdp.errors import UnprovenError


def test_the_continuous_laplace_loss_does_not_cover_discrete_noise():
    """The oracle has power: the mistake this library avoids would be caught."""
    p, q = laplace_pmf(1.0, 0), laplace_pmf(1.0, 1)
    continuous = acc.LaplaceEvent(sensitivity=1, scale=1.0, discrete=False)
    assert acc.PLD.delta([continuous], 0.5) < 0.9 * hockey_stick(p, q, 0.5)


def test_continuous_gaussians_compose_to_one_whose_delta_is_known():
    """`gaussian_delta` itself is compared with 60 digits elsewhere, divergences with Google's."""
    events = [acc.GaussianEvent(sensitivity=1, sigma=8.0, discrete=False)] * 9
    for epsilon in (0.1, 0.5, 1.0):
        exact = acc.gaussian_delta(epsilon, sigma=8 / 3)
        assert exact * (1 - 1e-6) <= acc.PLD.delta(events, epsilon) <= exact * 1.01
        assert min(acc.ZCDP.delta(events, epsilon), acc.RENYI.delta(events, epsilon)) >= exact
    oracle = RdpAccountant(RDP_ORDERS.tolist())
    oracle.compose(dp.GaussianDpEvent(8 / 3))
    for delta in (1e-9, 1e-6, 1e-3):
        found = acc.RENYI.epsilon(events, delta)
        assert found == pytest.approx(oracle.get_epsilon(delta), rel=1e-6)
        assert 0.999 * found <= acc.ZCDP.epsilon(events, delta) <= found


def test_approximate_events_add_their_delta():
    epsilon, delta = 0.7, 1e-3
    events = [acc.ApproximateEvent(epsilon=epsilon, delta=delta)] * 2
    for worth in (acc.epsilon_of, acc.PURE.epsilon, acc.ZCDP.epsilon, acc.RENYI.epsilon):
        assert math.isinf(worth(events, delta))
    assert acc.PURE.epsilon(events, 2 * delta) == 2 * epsilon
    assert acc.epsilon_of(events, 2 * delta) <= 2 * epsilon


def test_nothing_costs_nothing_and_a_huge_total_is_bounded_without_filling_the_memory():
    assert acc.epsilon_of([], 0.0) == acc.delta_of([], 0.0) == 0.0
    assert acc.epsilon_of([acc.LaplaceEvent(sensitivity=1, scale=0.1)] * 1000, 1e-6) <= 10_000
    assert not acc.PLD.supports(acc.PureEvent(epsilon=50))


def test_replace_one_by_group_privacy_where_events_do_not_convert():
    """(e, d) under add-remove gives (2e, (1 + e^e) d): checked against its own definition."""
    event = acc.SampledGaussianEvent(rate=0.02, noise_multiplier=1.2, steps=100)
    epsilon = acc.epsilon_under([event], 1e-5, "replace-one")
    half = epsilon / 2
    share = 1e-5 / (1 + math.exp(half))
    assert acc.epsilon_of([event], share) <= half
    assert acc.epsilon_of([event], share) >= half * (1 - 1e-3)
    native = acc.PureEvent(epsilon=1, adjacency="replace-one")
    with pytest.raises(UnprovenError):
        acc.epsilon_under([event, native], 1e-5, "replace-one")


@settings(max_examples=10, deadline=None)
@given(
    st.lists(elementary, min_size=1, max_size=3), elementary, st.permutations(range(3)), st.data()
)
def test_bounds_are_monotone_and_see_mechanisms_only(events, more, order, data):
    """More releases and less delta cost more; order, nesting, labels and gates change nothing."""
    found = [acc.epsilon_of(events, delta) for delta in (1e-12, 1e-6, 1e-2)]
    assert found[0] + 1e-9 >= found[1] >= found[2] - 1e-9 >= -1e-9
    assert acc.epsilon_of([*events, more], 1e-6) >= found[1] - 1e-3
    nested = [acc.ComposedEvent(events=[events[i] for i in order if i < len(events)], gate={"a"})]
    assert acc.epsilon_of(nested, 1e-6) == pytest.approx(found[1], rel=1e-6, abs=1e-6)
    if all(map(acc.PURE.supports, events)) and not any(
        isinstance(e, acc.ApproximateEvent) for e in events
    ):
        assert found[0] <= acc.epsilon_of(events, 0.0) + 1e-9
    epsilon = data.draw(st.floats(0.05, 3))
    delta = acc.delta_of(events, epsilon)
    if 1e-12 < delta < 1:
        # A little more delta, as an event's own delta leaves nothing else of the total.
        assert acc.epsilon_of(events, delta * 1.001) <= epsilon * (1 + 1e-6) + 1e-3


def test_events_translate_to_those_of_dp_accounting():
    pure = acc.ComposedEvent(events=[acc.PureEvent(epsilon=1)])
    for event, expected in (
        (acc.LaplaceEvent(sensitivity=2.5, scale=4), dp.DiscreteLaplaceDpEvent(0.25, 2)),
        (acc.LaplaceEvent(sensitivity=2, scale=4, discrete=False), dp.LaplaceDpEvent(2.0)),
        (acc.GaussianEvent(sensitivity=1, sigma=2), dp.ZCDpEvent(0.125)),
        (acc.SelectionEvent(epsilon=2), dp.ZCDpEvent(0.5)),
        (acc.ZCDPEvent(rho=1), dp.ZCDpEvent(1)),
        (acc.PureEvent(epsilon=0), dp.NoOpDpEvent()),
        (pure, dp.ComposedDpEvent([dp.DiscreteLaplaceDpEvent(1.0, 1)])),
    ):
        assert acc.to_dp_event(event) == expected


def test_loss_distributions_do_not_depend_on_the_order_of_events():
    """To the last digit, or a guarantee that was saved might be refused where it is read."""
    events = [acc.LaplaceEvent(sensitivity=1, scale=5.0 + k) for k in range(4)]
    events += [acc.GaussianEvent(sensitivity=1, sigma=9.0 + k) for k in range(4)]
    _composed.cache_clear()
    found = acc.PLD.epsilon(events, 1e-6)
    _composed.cache_clear()
    assert acc.PLD.epsilon(events[::-1], 1e-6) == found


def test_the_names_of_the_last_version_still_work():
    for old, new in {
        "PLDAccountant": acc.PLD,
        "PureAccountant": acc.PURE,
        "RDPAccountant": acc.RENYI,
    }.items():
        with pytest.warns(DeprecationWarning, match=old):
            assert getattr(acc, old)() is new


# Calibration is certified (never too little noise) and tight (never much too much)
@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 10), st.floats(1e-12, 1e-2))
def test_zcdp_rho_is_the_largest(epsilon, delta):
    rho = acc.zcdp_rho(epsilon, delta)
    assert acc.epsilon_of(acc.ZCDPEvent(rho=rho), delta) <= epsilon * (1 + 1e-9)
    assert acc.epsilon_of(acc.ZCDPEvent(rho=rho * 1.001), delta) > epsilon


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_continuous_sigma_meets_delta_exactly(epsilon):
    sigma = acc.gaussian_sigma(epsilon, 1e-5, sensitivity=3, count=4, discrete=False)
    found = acc.gaussian_delta(epsilon, sigma=sigma, sensitivity=6)
    assert 1e-5 * (1 - 1e-6) <= found <= 1e-5


@pytest.mark.parametrize(("epsilon", "squared", "count"), [(1, 2, 3), (1, 4, 1)])
def test_discrete_sigma_is_certified_and_tight(epsilon, squared, count):
    sensitivity = math.sqrt(squared)
    sigma = acc.gaussian_sigma(epsilon, 1e-6, sensitivity=sensitivity, count=count)
    events = [acc.GaussianEvent(sensitivity=sensitivity, sigma=sigma)] * count
    assert acc.epsilon_of(events, 1e-6) <= epsilon
    less = [acc.GaussianEvent(sensitivity=sensitivity, sigma=sigma * 0.999)] * count
    assert acc.epsilon_of(less, 1e-6) > epsilon
    zcdp = sensitivity * math.sqrt(count / (2 * acc.zcdp_rho(epsilon, 1e-6)))
    assert sigma <= zcdp * (1 + 1e-6)


def test_discrete_sigma_by_brute_force_with_power():
    """At the calibrated sigma the exact delta is at most the target; at 0.7 sigma it is not."""
    sigma = acc.gaussian_sigma(2.0, 1e-3)
    delta = lambda s: shifted_delta(lambda c: gaussian_pmf(s, c, 60), (1,), 2.0)  # noqa: E731
    assert 0.98e-3 < delta(sigma) <= 1e-3
    assert delta(0.7 * sigma) > 2e-3


def test_plans_of_any_events_are_calibrated_under_either_adjacency():
    def plan(noise):
        sampled = acc.SampledGaussianEvent(rate=0.02, noise_multiplier=noise, steps=200)
        return [acc.PureEvent(epsilon=0.05), sampled]

    noise = acc.calibrate(plan, 1.0, 1e-6, tolerance=0.1)
    assert acc.epsilon_of(plan(noise), 1e-6) <= 1.0 < acc.epsilon_of(plan(noise * 0.88), 1e-6)
    one = lambda b: [acc.LaplaceEvent(sensitivity=1, scale=b)]  # noqa: E731
    assert acc.calibrate(one, 1.0, adjacency="replace-one") == pytest.approx(2, rel=2e-4)
