"""Rényi curves and zCDP constants against direct summation and integration."""

import math

import numpy as np
import pytest
from accounting_oracles import gaussian_pmf, integer_shifts, joint, laplace_pmf, renyi
from accounting_strategies import elementary
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate
from scipy.special import logsumexp

from missdp.accounting import (
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SampledGaussianEvent,
    SelectionEvent,
    epsilon_of,
    to_dp_event,
)
from missdp.accounting.accountants import PLD, RENYI
from missdp.accounting.costs import RDP_ORDERS, rdp_curve, zcdp_rho_of

ORDERS = np.array([1.05, 1.5, 2.0, 7.5, 40.0])


@pytest.mark.parametrize(("shift", "scale"), [(1, 2.0), (2, 2.0), (3, 0.8), (5, 4.0)])
def test_discrete_laplace_curve_is_exact(shift, scale):
    curve = rdp_curve(LaplaceEvent(sensitivity=shift, scale=scale), ORDERS)
    p, q = laplace_pmf(scale, 0, 200), laplace_pmf(scale, shift, 200)
    assert curve == pytest.approx([renyi(p, q, a) for a in ORDERS], rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_continuous_laplace_curve_matches_integration(epsilon):
    event = LaplaceEvent(sensitivity=epsilon, scale=1.0, discrete=False)
    for order, bound in zip(ORDERS, rdp_curve(event, ORDERS), strict=True):
        value, _ = integrate.quad(
            lambda x, a=order: math.exp(-a * abs(x) + (a - 1) * abs(x - epsilon)) / 2,
            -60,
            60,
            points=[0, epsilon],
            limit=300,
        )
        assert bound == pytest.approx(math.log(value) / (order - 1), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_pure_curve_is_randomised_response(epsilon):
    p = np.array([math.exp(epsilon), 1]) / (1 + math.exp(epsilon))
    expected = [renyi(p, p[::-1], a) for a in ORDERS]
    assert rdp_curve(PureEvent(epsilon=epsilon), ORDERS) == pytest.approx(expected, rel=1e-9)


@given(
    st.lists(st.floats(-20, 20), min_size=2, max_size=6),
    st.lists(st.floats(-1, 1), min_size=6, max_size=6),
    st.floats(0.05, 4.0),
)
def test_selection_bounds_hold_for_the_exponential_mechanism(scores, moves, epsilon):
    """Brute force: exact selection probabilities on neighbours with scores moved by at most 1."""
    q = np.array(scores)
    moved = q + np.array(moves[: q.size])
    p, r = (np.exp(epsilon * s / 2 - logsumexp(epsilon * s / 2)) for s in (q, moved))
    keep = (p > 1e-300) & (r > 1e-300)
    ratios = np.log(p[keep] / r[keep])
    assert np.abs(ratios).max() <= epsilon + 1e-9
    assert np.ptp(ratios) <= epsilon + 1e-9
    curve = rdp_curve(SelectionEvent(epsilon=epsilon), ORDERS)
    for order, bound in zip(ORDERS, curve, strict=True):
        logs = order * np.log(p[keep]) + (1 - order) * np.log(r[keep])
        assert logsumexp(logs) / (order - 1) <= bound + 1e-9


@pytest.mark.parametrize("sigma", [0.6, 1.5, 4.0])
@pytest.mark.parametrize("squared", [1, 2, 4])
def test_discrete_gaussian_curve_bounds_every_integer_shift(sigma, squared):
    event = GaussianEvent(sensitivity=math.sqrt(squared), sigma=sigma)
    orders = np.array([1.5, 2.0, 4.0])
    curve = rdp_curve(event, orders)
    base = joint([gaussian_pmf(sigma, 0, 30)] * 2)
    for shifts in integer_shifts(squared, 2, dimension=2):
        moved = joint([gaussian_pmf(sigma, s, 30) for s in shifts])
        keep = (base > 1e-290) & (moved > 1e-290)
        for order, bound in zip(orders, curve, strict=True):
            assert renyi(base[keep], moved[keep], order) <= bound + 1e-9


@pytest.mark.parametrize("rate", [1e-6, 0.003, 0.4, 1.0])
@pytest.mark.parametrize("sigma", [0.3, 1.1, 40.0])
def test_sampled_gaussian_is_that_of_dp_accounting(rate, sigma):
    from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
    from dp_accounting.rdp import RdpAccountant

    orders = np.array([2.0, 3.0, 17.0, 64.0, 512.0])
    oracle = RdpAccountant(orders.tolist())
    oracle.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(sigma)))
    event = SampledGaussianEvent(rate=rate, noise_multiplier=sigma, steps=1)
    curve = rdp_curve(event, orders)
    assert curve == pytest.approx(oracle.rdp, rel=1e-9, abs=1e-14)
    assert (curve >= np.array(oracle.rdp) - 4e-15).all()


def test_sampled_gaussian_gains_nothing_at_orders_it_is_not_computed_for():
    event = SampledGaussianEvent(rate=0.1, noise_multiplier=1, steps=3)
    assert rdp_curve(event, np.array([1e5]))[0] == 3e5 / 2
    assert zcdp_rho_of(event) == 1.5


@pytest.mark.parametrize("sigma", [0.4, 0.7, 1.3])
@pytest.mark.parametrize("rate", [0.03, 0.5, 1.0])
@pytest.mark.parametrize("shift", [1, 2])
def test_sampled_discrete_noise_is_within_the_curve_of_the_continuous_one(sigma, rate, shift):
    """Summed over the integers, both directions, whole orders and those between."""
    x = np.arange(-80, 81)
    absent = np.exp(-(x**2) / (2 * sigma**2))
    present = np.exp(-((x - shift) ** 2) / (2 * sigma**2))
    absent, present = absent / absent.sum(), present / present.sum()
    mixed = (1 - rate) * absent + rate * present
    orders = np.array([1.5, 2.0, 2.5, 3.0, 5.0, 7.7])
    event = SampledGaussianEvent(rate=rate, noise_multiplier=sigma / shift, steps=1, discrete=True)
    curve = rdp_curve(event, orders)
    keep = (absent > 1e-280) & (mixed > 1e-280)
    for order, bound in zip(orders, curve, strict=True):
        for p, q in ((mixed, absent), (absent, mixed)):
            assert renyi(p[keep], q[keep], order) <= bound * (1 + 1e-9) + 1e-12


def test_sampled_discrete_noise_is_not_read_as_a_continuous_loss():
    event = SampledGaussianEvent(rate=0.1, noise_multiplier=1.0, steps=9, discrete=True)
    assert not PLD.supports(event)
    assert type(to_dp_event(event)).__name__ == "ZCDpEvent"
    assert epsilon_of(event, 1e-5) == RENYI.epsilon([event], 1e-5)


def test_table_is_interpolated_from_above():
    true = rdp_curve(LaplaceEvent(sensitivity=2, scale=1.5), RDP_ORDERS)
    knots = slice(10, 170, 20)
    table = RDPEvent(orders=RDP_ORDERS[knots].tolist(), epsilons=true[knots].tolist())
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


@given(st.floats(0.01, 5))
def test_zcdp_constants_bound_the_curves(epsilon):
    for event in (PureEvent(epsilon=epsilon), SelectionEvent(epsilon=epsilon)):
        assert (rdp_curve(event, RDP_ORDERS) <= zcdp_rho_of(event) * RDP_ORDERS + 1e-12).all()
