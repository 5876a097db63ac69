"""Compositions against brute force, numerical integration and Google's library."""

import math

import pytest
from accounting_oracles import hockey_stick, laplace_pmf
from accounting_strategies import elementary
from dp_accounting import dp_event as dp
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from missdp import accounting as acc
from missdp.accounting.exact import delta_from_mu
from missdp.accounting.loss_distributions import (
    _composed,
    compose,
    composed_epsilon,
    tabulated_event,
)
from missdp.accounting.measures import MEASURES, has_bound, is_pure
from missdp.accounting.renyi import RDP_ORDERS, epsilon_from_rdp, renyi_curve
from missdp.errors import UnprovenError
from missdp.profiles import delta_of


def test_continuous_loss_of_laplace_does_not_cover_discrete_noise():
    """The oracle has power: the mistake this library avoids would be caught."""
    p, q = laplace_pmf(1.0, 0), laplace_pmf(1.0, 1)
    continuous = acc.LaplaceEvent(sensitivity=1, scale=1.0, discrete=False)
    assert compose([continuous]).get_delta_for_epsilon(0.5) < 0.9 * hockey_stick(p, q, 0.5)


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
def test_discrete_laplace_noise_has_its_own_loss(scale):
    """At epsilon 0 delta is the distance of two neighbours, larger than of continuous noise."""
    event = acc.LaplaceEvent(sensitivity=1, scale=scale)
    distance = math.tanh(1 / (2 * scale))
    assert distance > 1.01 * -math.expm1(-1 / (2 * scale))
    assert distance <= compose([event]).get_delta_for_epsilon(0.0) <= distance * (1 + 1e-3)


def test_several_coordinates_of_discrete_noise_lose_what_each_loses():
    """A query of sensitivity 1.8 may move three counts by one."""
    wide = compose([acc.GaussianEvent(sensitivity=1.8, sigma=2.0)])
    three = compose([acc.GaussianEvent(sensitivity=1, sigma=2.0)] * 3)
    for epsilon in (0.0, 0.5, 2.0):
        delta = three.get_delta_for_epsilon(epsilon)
        assert wide.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-3)


def test_continuous_gaussians_compose_to_one_with_known_delta():
    """`delta_from_mu` itself is compared with 60 digits elsewhere, Rényi sums with Google's."""
    events = [acc.GaussianEvent(sensitivity=1, sigma=8.0, discrete=False)] * 9
    for epsilon in (0.1, 0.5, 1.0):
        exact = delta_from_mu(3 / 8, epsilon)
        loss = compose(events).get_delta_for_epsilon(epsilon)
        assert exact * (1 - 1e-6) <= loss <= exact * 1.01
        assert exact * (1 - 1e-6) <= delta_of(events, epsilon) <= exact * (1 + 1e-6)
    oracle = RdpAccountant(RDP_ORDERS.tolist())
    oracle.compose(dp.GaussianDpEvent(8 / 3))
    for delta in (1e-9, 1e-6, 1e-3):
        found = epsilon_from_rdp(*renyi_curve(events), delta)
        assert found == pytest.approx(oracle.get_epsilon(delta), rel=1e-6)
        zcdp = MEASURES["zcdp"]
        assert 0.999 * found <= zcdp.epsilon(zcdp.total(events), delta) <= found


@pytest.mark.long
@pytest.mark.parametrize(("rate", "noise", "steps"), [(0.01, 1.1, 2000), (0.3, 0.8, 5)])
def test_sampled_noise_beside_a_cap_is_that_of_dp_accounting(rate, noise, steps):
    cap = acc.FilterEvent(capacity=acc.GaussianEvent(sensitivity=0.2, sigma=1.0, discrete=False))
    sampled = acc.SampledGaussianEvent(rate=rate, noise_multiplier=noise, steps=steps)
    oracle = PLDAccountant()
    step = dp.PoissonSampledDpEvent(rate, dp.GaussianDpEvent(noise))
    oracle.compose(dp.SelfComposedDpEvent(step, steps))
    oracle.compose(dp.GaussianDpEvent(5.0))
    for delta in (1e-5, 1e-6):
        found = acc.proven_epsilon([cap, sampled], delta)
        assert found == pytest.approx(oracle.get_epsilon(delta), rel=1e-3)


@pytest.mark.parametrize(("rate", "noise"), [(0.02, 0.7), (0.5, 1.3), (1.0, 2.0)])
def test_one_sampled_step_has_the_delta_of_its_two_laws(rate, noise):
    """The ratio of N(0, s^2) and its mixture with N(1, s^2) is monotone: thresholds are best."""
    event = acc.SampledGaussianEvent(rate=rate, noise_multiplier=noise, steps=1)

    def threshold(ratio):
        """Return the answer at which the mixture is so many times as likely."""
        inner = (ratio - (1 - rate)) / rate
        return noise**2 * math.log(inner) + 0.5 if inner > 0 else -math.inf

    def mixture(x):
        return (1 - rate) * norm.cdf(x, 0, noise) + rate * norm.cdf(x, 1, noise)

    for epsilon in (0.05, 0.3, 1.0):
        high, low = threshold(math.exp(epsilon)), threshold(math.exp(-epsilon))
        added = 1 - mixture(high) - math.exp(epsilon) * norm.sf(high, 0, noise)
        removed = norm.cdf(low, 0, noise) - math.exp(epsilon) * mixture(low)
        true = max(added, removed)
        found = delta_of(event, epsilon)
        assert true * (1 - 1e-9) - 1e-12 <= found <= true * (1 + 1e-2) + 1e-9


def test_approximate_events_add_their_delta():
    epsilon, delta = 0.7, 1e-3
    events = [acc.ApproximateEvent(epsilon=epsilon, delta=delta)] * 2
    assert math.isinf(acc.epsilon_of(events, delta))
    assert acc.epsilon_of(events, 2 * delta) <= 2 * epsilon


def test_nothing_costs_nothing_and_a_huge_total_does_not_fill_the_memory():
    assert acc.epsilon_of([], 0.0) == delta_of([], 0.0) == 0.0
    assert acc.epsilon_of([acc.LaplaceEvent(sensitivity=1, scale=0.1)] * 1000, 1e-6) <= 10_000
    assert not has_bound(tabulated_event, acc.PureEvent(epsilon=50))


@pytest.mark.parametrize("epsilon", [5e-324, 1e-300, 1e-170])
def test_a_tiny_pure_epsilon_is_not_zero_at_delta_zero(epsilon):
    """Its Rényi divergence vanishes in floating point."""
    events = [acc.PureEvent(epsilon=epsilon), acc.ZCDPEvent(rho=0.0)]
    assert acc.epsilon_of(events[0], 0.0) == epsilon
    assert acc.epsilon_of(events, 0.0) > 0


@pytest.mark.long
def test_replace_one_by_group_privacy_where_events_do_not_convert():
    """(e, d) under add-remove gives (2e, (1 + e^e) d): checked against its own definition."""
    event = acc.SampledGaussianEvent(rate=0.02, noise_multiplier=1.2, steps=100)
    epsilon = acc.proven_epsilon([event], 1e-5, "replace-one")
    half = epsilon / 2
    share = 1e-5 / (1 + math.exp(half))
    assert acc.epsilon_of([event], share) <= half
    assert acc.epsilon_of([event], share) >= half * (1 - 1e-3)
    native = acc.PureEvent(epsilon=1, adjacency="replace-one")
    with pytest.raises(UnprovenError):
        acc.proven_epsilon([event, native], 1e-5, "replace-one")


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(st.lists(elementary, min_size=1, max_size=2), st.sampled_from(["add-remove", "replace-one"]))
def test_what_is_enough_is_proven_and_a_smaller_request_is_not(events, adjacency):
    try:
        found = acc.proven_epsilon(events, 1e-6, adjacency)
    except UnprovenError:
        return
    enough = acc.proven_epsilon(events, 1e-6, adjacency, enough=1.5 * found)
    assert found <= enough <= 1.5 * found
    # The fixed point of group privacy is found up to a millionth.
    assume(found > 0)
    less = 0.9999 * found
    assert acc.proven_epsilon(events, 1e-6, adjacency, enough=less) > less


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(
    st.lists(elementary, min_size=1, max_size=3), elementary, st.permutations(range(3)), st.data()
)
def test_bounds_are_monotone_and_see_mechanisms_only(events, more, order, data):
    """More releases cost more. Order, labels and required attributes change nothing."""
    found = [acc.epsilon_of(events, delta) for delta in (1e-12, 1e-6, 1e-2)]
    assert found[0] + 1e-9 >= found[1] >= found[2] - 1e-9 >= -1e-9
    assert acc.epsilon_of([*events, more], 1e-6) >= found[1] - 1e-3
    shuffled = [events[i] for i in order if i < len(events)]
    assert acc.epsilon_of(shuffled, 1e-6) == pytest.approx(found[1], rel=1e-6, abs=1e-6)
    if all(map(is_pure, events)):
        assert found[0] <= acc.epsilon_of(events, 0.0) + 1e-9
    epsilon = data.draw(st.floats(0.05, 3))
    delta = delta_of(events, epsilon)
    if 1e-12 < delta < 0.99:
        # A little more delta, as an event's own delta leaves nothing else of the total.
        assert acc.epsilon_of(events, delta * 1.001) <= epsilon * (1 + 1e-6) + 1e-3


def test_loss_distributions_do_not_depend_on_the_order_of_events():
    """Exact to the last digit. Otherwise, a saved guarantee might be rejected when it is read."""
    events = [acc.LaplaceEvent(sensitivity=1, scale=5.0 + k) for k in range(4)]
    events += [acc.GaussianEvent(sensitivity=1, sigma=9.0 + k) for k in range(4)]
    _composed.cache_clear()
    found = composed_epsilon(events, 1e-6)
    _composed.cache_clear()
    assert composed_epsilon(events[::-1], 1e-6) == found


@settings(max_examples=60, deadline=None)
@given(st.floats(0.01, 10), st.floats(1e-12, 1e-2))
def test_zcdp_rho_is_the_largest(epsilon, delta):
    rho = acc.zcdp_rho(epsilon, delta)
    assert acc.epsilon_of(acc.ZCDPEvent(rho=rho), delta) <= epsilon * (1 + 1e-9)
    assert acc.epsilon_of(acc.ZCDPEvent(rho=rho * 1.001), delta) > epsilon


@pytest.mark.parametrize("rho", [1e-8, 1e-4, 0.0244, 0.5, 30.0])
def test_zcdp_is_converted_upwards(rho):
    """The conversion is at no order smaller than with 50 digits, so the minimum is not smaller."""
    from mpmath import mp, mpf

    mp.dps = 50
    for delta in (1e-300, 1e-9, 1e-6, 1e-2):
        r, log_delta = mpf(repr(rho)), mp.log(mpf(repr(delta)))
        low, high = mpf(-40), -log_delta  # logarithms of order - 1
        for _ in range(300):  # where the derivative, r + (log delta + log a) / (a - 1)^2, is 0
            best = 1 + mp.exp((low + high) / 2)
            if r + (log_delta + mp.log(best)) / (best - 1) ** 2 > 0:
                high = (low + high) / 2
            else:
                low = (low + high) / 2
        true = r * best + mp.log(1 - 1 / best) - (log_delta + mp.log(best)) / (best - 1)
        found = acc.epsilon_of(acc.ZCDPEvent(rho=rho), delta)
        assert max(0, true) <= found <= max(0, true) * (1 + 1e-9) + 1e-12
