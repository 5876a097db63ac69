"""Costs in every currency against exact laws: direct summation and integration."""

import itertools
import math

import numpy as np
import pytest
from accounting_oracles import (
    bit_pair,
    gaussian_pair,
    hockey_stick,
    integer_shifts,
    joint,
    laplace_pmf,
    renyi,
)
from accounting_strategies import elementary
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import softmax

from missdp import accounting as acc
from missdp.accounting.accountants import PLD, RENYI
from missdp.accounting.costs import RDP_ORDERS, rdp_curve, zcdp_rho_of

ORDERS = np.array([1.05, 1.5, 2.0, 7.5, 40.0])
TIGHT = 2e-4  # the PLD accountant's rounding interval is 1e-4


def laplace_pair(scale, shift):
    return [joint([laplace_pmf(scale, c, 50 if len(shift) > 1 else 200) for c in at])
            for at in ((0,) * len(shift), shift)]  # fmt: skip


def together(*pairs):
    return [joint(laws) for laws in zip(*pairs, strict=True)]


def exact_laws():
    """Yield events, with exact laws of what comes out on two neighbours, and who is exact there."""
    for shift, scale in (((1,), 1.0), ((2,), 2.0), ((3,), 0.8), ((5,), 4.0), ((3,), 1.7)):
        event = acc.LaplaceEvent(sensitivity=shift[0], scale=scale)
        yield [event], laplace_pair(scale, shift), {PLD, RENYI}
    for shift in integer_shifts(3, 1, dimension=2):  # one coordinate is the worst
        yield [acc.LaplaceEvent(sensitivity=3, scale=1.7)], laplace_pair(1.7, shift), set()
    for count, scale in ((2, 1.0), (3, 2.5)):
        pair = laplace_pair(scale, (1,) * count)
        yield [acc.LaplaceEvent(sensitivity=1, scale=scale)] * count, pair, {PLD}
    shifts = [(1,), (1, 1), (1, 1, 1), (2,), (3,), (7,), (3, 4)]
    for sigma, shift in itertools.product((0.6, 1.5, 2.05, 2.5, 4.0, 9.0), shifts):
        if len(shift) < 3 or sigma < 3:
            exact = {PLD} if sum(shift) == len(shift) else set()
            event = acc.GaussianEvent(sensitivity=math.hypot(*shift), sigma=sigma)
            yield [event], gaussian_pair(sigma, shift), exact
    for epsilon in (1e-3, 0.05, 1.0, 4.0, 9.0):
        yield [acc.PureEvent(epsilon=epsilon)], bit_pair(epsilon, epsilon), {PLD, RENYI}
        for share in (0.1, 0.3, 0.5, 0.8):
            pair = bit_pair(share * epsilon, (1 - share) * epsilon)
            yield [acc.SelectionEvent(epsilon=epsilon)], pair, set()
    mixed = together(laplace_pair(2.0, (1,)), gaussian_pair(1.5, (1,)))
    noises = [
        acc.LaplaceEvent(sensitivity=1, scale=2.0),
        acc.GaussianEvent(sensitivity=1, sigma=1.5),
    ]
    yield noises, mixed, {PLD}
    told, bit = np.array([1e-3, 0.0]), 0.999 * bit_pair(0.7, 0.7)[0]
    once = np.concatenate([told, bit]), np.concatenate([told[::-1], bit[::-1]])
    yield [acc.ApproximateEvent(epsilon=0.7, delta=1e-3)] * 2, together(once, once), {PLD}
    for sigma, rate, shift in itertools.product((0.4, 0.7, 1.3), (0.03, 0.5, 1.0), (1, 2)):
        absent, present = gaussian_pair(sigma, (shift,))
        facts = {"rate": rate, "noise_multiplier": sigma / shift, "steps": 1, "discrete": True}
        pair = [(1 - rate) * absent + rate * present, absent]
        yield [acc.SampledGaussianEvent(**facts)], pair, set()


EXACT = list(exact_laws())


@pytest.mark.parametrize("case", range(len(EXACT)))
def test_every_bound_holds_for_exact_laws_and_is_reached_where_it_is_exact(case):
    """Epsilon and delta by every accountant, and Rényi divergences; in both directions."""
    events, (p, q), exact = EXACT[case]
    for epsilon in np.linspace(0.0, 4.0, 5):
        true = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        for accountant in acc.DEFAULT_ACCOUNTANTS:
            if all(map(accountant.supports, events)):
                assert accountant.delta(events, epsilon) >= true * (1 - 1e-9) - 1e-12
        if PLD in exact:
            near = max(hockey_stick(p, q, max(0.0, epsilon - TIGHT)), true)
            assert PLD.delta(events, epsilon) <= near * (1 + 1e-3) + 1e-9
    if isinstance(events[0], acc.ApproximateEvent):
        return
    curve = sum(rdp_curve(event, ORDERS) for event in events)
    keep = (p > 1e-290) & (q > 1e-290)
    true = [max(renyi(p[keep], q[keep], a), renyi(q[keep], p[keep], a)) for a in ORDERS]
    assert (np.array(true) <= curve * (1 + 1e-9) + 1e-12).all()
    if RENYI in exact:
        assert curve == pytest.approx(true, rel=1e-9, abs=1e-13)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_continuous_laplace_curve_matches_integration(epsilon):
    event = acc.LaplaceEvent(sensitivity=epsilon, scale=1.0, discrete=False)

    def density(x, order):
        return math.exp(-order * abs(x) + (order - 1) * abs(x - epsilon)) / 2

    for order, bound in zip(ORDERS, rdp_curve(event, ORDERS), strict=True):
        known = {"args": (order,), "points": [0, epsilon], "limit": 300}
        value = integrate.quad(density, -60, 60, **known)[0]
        assert bound == pytest.approx(math.log(value) / (order - 1), rel=1e-6, abs=1e-9)


@given(
    st.lists(st.tuples(st.floats(-20, 20), st.floats(-1, 1)), min_size=2, max_size=6),
    st.floats(0.05, 4.0),
)
def test_selection_bounds_hold_for_the_exponential_mechanism(scores, epsilon):
    """Brute force: exact selection probabilities on neighbours with scores moved by at most 1."""
    here, moves = np.array(scores).T
    p, q = (softmax(epsilon * s / 2) for s in (here, here + moves))
    keep = (p > 1e-300) & (q > 1e-300)
    ratios = np.log(p[keep] / q[keep])
    assert max(np.abs(ratios).max(), np.ptp(ratios)) <= epsilon + 1e-9
    curve = rdp_curve(acc.SelectionEvent(epsilon=epsilon), ORDERS)
    true = [renyi(p[keep], q[keep], order) for order in ORDERS]
    assert (np.array(true) <= curve + 1e-9).all()


@pytest.mark.parametrize("rate", [1e-6, 0.003, 0.4, 1.0])
@pytest.mark.parametrize("sigma", [0.3, 1.1, 40.0])
def test_sampled_gaussian_is_that_of_dp_accounting(rate, sigma):
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = np.array([2.0, 3.0, 17.0, 64.0, 512.0])
    oracle = RdpAccountant(orders.tolist())
    oracle.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)))
    event = acc.SampledGaussianEvent(rate=rate, noise_multiplier=sigma, steps=1)
    curve = rdp_curve(event, orders)
    assert curve == pytest.approx(oracle.rdp, rel=1e-9, abs=1e-14)
    assert (curve >= np.array(oracle.rdp) - 4e-15).all()


def test_sampling_gains_nothing_at_orders_it_is_not_computed_for_nor_as_a_continuous_loss():
    event = acc.SampledGaussianEvent(rate=0.1, noise_multiplier=1.0, steps=3, discrete=True)
    assert rdp_curve(event, np.array([1e5]))[0] == 3e5 / 2
    assert zcdp_rho_of(event) == 1.5
    assert not PLD.supports(event)
    assert type(acc.to_dp_event(event)).__name__ == "ZCDpEvent"
    assert acc.epsilon_of(event, 1e-5) == RENYI.epsilon([event], 1e-5)


def test_table_is_interpolated_from_above():
    true = rdp_curve(acc.LaplaceEvent(sensitivity=2, scale=1.5), RDP_ORDERS)
    knots = slice(10, 170, 20)
    table = acc.RDPEvent(orders=RDP_ORDERS[knots].tolist(), epsilons=true[knots].tolist())
    read = rdp_curve(table, RDP_ORDERS)
    inside = table.orders[-1] >= RDP_ORDERS
    assert (read[inside] >= true[inside] - 1e-12).all()
    assert read[knots] == pytest.approx(true[knots])
    assert np.isinf(read[~inside]).all()
    assert (~inside).any()


@given(elementary)
def test_curves_do_not_fall_with_the_order(event):
    curve = rdp_curve(event, RDP_ORDERS)
    finite = curve[np.isfinite(curve)]
    assert (np.diff(finite) >= -1e-9 * (1 + finite[:-1])).all()
