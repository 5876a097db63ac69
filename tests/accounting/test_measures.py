"""Costs in every measure, and compositions, against exact laws by direct summation."""

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
from scipy.special import softmax

from missdp import accounting as acc
from missdp.accounting.loss_distributions import compose, tabulated_event
from missdp.accounting.measures import (
    MEASURES,
    approximate_delta,
    has_bound,
    zcdp_rho_of,
)
from missdp.accounting.renyi import RDP_ORDERS, rdp_curve, renyi_curve
from missdp.errors import UnprovenError
from missdp.profiles import DELTAS, delta_from_rdp, delta_of

ORDERS = np.array([1.05, 1.5, 2.0, 7.5, 40.0])
TIGHT = 2e-4  # loss distributions are rounded to multiples of 1e-4
LOSS, CURVE = "loss distributions", "Rényi curve"
EVERY = {LOSS: tabulated_event, CURVE: rdp_curve, **{n: m.cost for n, m in MEASURES.items()}}


def laplace_pair(scale, shift):
    return [joint([laplace_pmf(scale, c, 50 if len(shift) > 1 else 200) for c in at])
            for at in ((0,) * len(shift), shift)]  # fmt: skip


def together(*pairs):
    return [joint(laws) for laws in zip(*pairs, strict=True)]


def exact_laws():
    """Yield events, the exact output distributions on two neighbours, and the exact measures."""
    for shift, scale in (((1,), 1.0), ((2,), 2.0), ((3,), 0.8), ((5,), 4.0), ((3,), 1.7)):
        event = acc.LaplaceEvent(sensitivity=shift[0], scale=scale)
        yield [event], laplace_pair(scale, shift), {LOSS}
    for shift in integer_shifts(3, 1, dimension=2):  # one coordinate is the worst
        yield [acc.LaplaceEvent(sensitivity=3, scale=1.7)], laplace_pair(1.7, shift), set()
    for count, scale in ((2, 1.0), (3, 2.5)):
        pair = laplace_pair(scale, (1,) * count)
        yield [acc.LaplaceEvent(sensitivity=1, scale=scale)] * count, pair, {LOSS}
    shifts = [(1,), (1, 1), (1, 1, 1), (2,), (3,), (7,), (3, 4)]
    for sigma, shift in itertools.product((0.6, 1.5, 2.05, 2.5, 4.0, 9.0), shifts):
        if len(shift) < 3 or sigma < 3:
            exact = {LOSS} if sum(shift) == len(shift) else set()
            event = acc.GaussianEvent(sensitivity=math.hypot(*shift), sigma=sigma)
            yield [event], gaussian_pair(sigma, shift), exact
    for epsilon in (1e-3, 0.05, 1.0, 4.0, 9.0):
        yield [acc.PureEvent(epsilon=epsilon)], bit_pair(epsilon, epsilon), {LOSS, CURVE}
        for share in (0.1, 0.3, 0.5, 0.8):
            pair = bit_pair(share * epsilon, (1 - share) * epsilon)
            yield [acc.SelectionEvent(epsilon=epsilon)], pair, set()
    mixed = together(laplace_pair(2.0, (1,)), gaussian_pair(1.5, (1,)))
    noises = [
        acc.LaplaceEvent(sensitivity=1, scale=2.0),
        acc.GaussianEvent(sensitivity=1, sigma=1.5),
    ]
    yield noises, mixed, {LOSS}
    revealed, bit = np.array([1e-3, 0.0]), 0.999 * bit_pair(0.7, 0.7)[0]
    once = np.concatenate([revealed, bit]), np.concatenate([revealed[::-1], bit[::-1]])
    yield [acc.ApproximateEvent(epsilon=0.7, delta=1e-3)] * 2, together(once, once), {LOSS}


EXACT = list(exact_laws())


def delta_by(name, events, epsilon):
    """Return the delta of one kind of bound by itself."""
    if name == LOSS:
        return compose(events).get_delta_for_epsilon(epsilon)
    failure = sum(map(approximate_delta, events))
    if name == CURVE:
        return failure + delta_from_rdp(*renyi_curve(events), epsilon)
    return failure + DELTAS[name](MEASURES[name].total(events), epsilon)


@pytest.mark.parametrize("case", range(len(EXACT)))
def test_every_bound_holds_for_exact_laws_and_is_reached_where_it_is_exact(case):
    """Check epsilon and delta by every bound, and Rényi divergences, in both directions."""
    events, (p, q), exact = EXACT[case]
    for epsilon in np.linspace(0.0, 4.0, 5):
        true = max(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon))
        for name, cost in EVERY.items():
            if all(has_bound(cost, event) for event in events):
                assert delta_by(name, events, epsilon) >= true * (1 - 1e-9) - 1e-12
        assert delta_of(events, epsilon) >= true * (1 - 1e-9) - 1e-12
        if LOSS in exact:
            near = max(hockey_stick(p, q, max(0.0, epsilon - TIGHT)), true)
            assert delta_by(LOSS, events, epsilon) <= near * (1 + 1e-3) + 1e-9
    if isinstance(events[0], acc.ApproximateEvent):
        return
    curve = sum(rdp_curve(event, ORDERS) for event in events)
    keep = (p > 1e-290) & (q > 1e-290)
    true = [max(renyi(p[keep], q[keep], a), renyi(q[keep], p[keep], a)) for a in ORDERS]
    assert (np.array(true) <= curve * (1 + 1e-9) + 1e-12).all()
    if CURVE in exact:
        assert curve == pytest.approx(true, rel=1e-9, abs=1e-13)


@pytest.mark.long
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


@pytest.mark.parametrize("measure", ["pure", "zcdp", "gdp"])
def test_cost_of_an_event_with_a_delta_raises(measure):
    """A sum of costs counts no deltas. A filter counts them separately."""
    with pytest.raises(UnprovenError, match="no bound"):
        acc.Cost(privacy_measure=measure, amount=1.0).price(
            acc.ApproximateEvent(epsilon=0.1, delta=1e-9)
        )


def test_sampling_gains_nothing_but_as_a_loss_distribution():
    event = acc.SampledGaussianEvent(rate=0.1, noise_multiplier=1.0, steps=3)
    assert rdp_curve(event, np.array([1e5]))[0] == 3e5 / 2
    assert zcdp_rho_of(event) == 1.5
    assert acc.epsilon_of(event, 1e-5) == compose([event]).get_epsilon_for_delta(1e-5)


def test_table_is_interpolated_from_above():
    true = rdp_curve(acc.PureEvent(epsilon=1.5), RDP_ORDERS)
    knots = slice(10, 170, 20)
    table = acc.RDPEvent(orders=RDP_ORDERS[knots].tolist(), epsilons=true[knots].tolist())
    read = rdp_curve(table, RDP_ORDERS)
    inside = table.orders[-1] >= RDP_ORDERS
    assert (read[inside] >= true[inside] - 1e-12).all()
    assert read[knots] == pytest.approx(true[knots])
    assert np.isinf(read[~inside]).all()
    assert (~inside).any()


@pytest.mark.long
@given(elementary)
def test_curves_do_not_fall_with_the_order(event):
    curve = rdp_curve(event, RDP_ORDERS)
    finite = curve[np.isfinite(curve)]
    assert (np.diff(finite) >= -1e-9 * (1 + finite[:-1])).all()
