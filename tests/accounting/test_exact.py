"""Budgets count exactly: no charge is too small to matter, and nothing goes beyond the total."""

import math
import os
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp.accounting import (
    RENYI,
    Budget,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    epsilon_of,
    laplace_scale,
    scale_for,
)
from missdp.accounting.costs import rdp_curve
from missdp.accounting.exact import (
    delta_from_rdp,
    epsilon_from_rdp,
    exact,
    float_down,
    float_up,
    total,
)
from missdp.accounting.filters import Cost
from missdp.errors import BudgetExceededError

POSITIVE = st.floats(1e-300, 1e300)


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_no_charge_is_too_small_to_be_counted_and_nothing_is_tolerated(schedule):
    budget = Budget(1.0, schedule=schedule)
    assert not budget.can_afford(PureEvent(epsilon=math.nextafter(1.0, 2.0)))
    budget.charge(PureEvent(epsilon=1.0))
    for tiny in (1e-17, 1e-300, 5e-324, 1e-9):
        with pytest.raises(BudgetExceededError):
            budget.charge(PureEvent(epsilon=tiny))


@pytest.mark.parametrize(("part", "count"), [(0.1, 10), (0.01, 100), (1e-6, 1000), (0.35, 2)])
def test_what_a_person_writes_adds_up_as_written(part, count):
    budget = Budget(float(Fraction(repr(part)) * count))
    for _ in range(count):
        budget.charge(PureEvent(epsilon=part))
    assert budget.remaining_epsilon == 0
    assert not budget.can_afford(PureEvent(epsilon=1e-20))


@given(st.floats(1e-3, 1e3), st.integers(1, 50), st.floats(0.5, 9))
def test_calibrated_laplace_noise_fits_its_budget(epsilon, count, sensitivity):
    scale = laplace_scale(epsilon, sensitivity=sensitivity, count=count)
    budget = Budget(epsilon)
    event = LaplaceEvent(sensitivity=sensitivity, scale=scale, discrete=False)
    budget.charge(*[event] * count)
    assert scale == pytest.approx(count * sensitivity / epsilon, rel=1e-12)


@given(POSITIVE, POSITIVE)
def test_rounding_goes_the_safe_way(first, second):
    number = exact(first) / exact(second)
    if 0 < number < Fraction(1e308):
        assert exact(float_down(number)) <= number <= exact(float_up(number))
    assert total([number]) >= number


@given(st.lists(POSITIVE, max_size=200))
def test_long_sums_stay_short_and_never_fall(values):
    costs = [1 / exact(value) for value in values]
    found = total(costs)
    assert found >= sum(costs)
    assert found <= sum(costs) + len(costs) * Fraction(1, 2**1024)
    assert found.denominator.bit_length() < 10_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_a_fork_cannot_spend_the_budget_again(schedule):
    budget = Budget(1.0, schedule=schedule)
    budget.charge(PureEvent(epsilon=0.5))
    attempts = [
        lambda: budget.charge(PureEvent(epsilon=0.5)),
        lambda: budget.can_afford(PureEvent(epsilon=0.5)),
        lambda: budget.reserve(Budget(0.1, schedule="adaptive")),
    ]
    for attempt in attempts:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                attempt()
            except BudgetExceededError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    budget.charge(PureEvent(epsilon=0.5))  # the parent still can


@pytest.mark.parametrize("epsilon", [1e-9, 1e-8, 1e-7, 1e-6])
def test_small_divergences_are_not_lost_to_cancellation(epsilon):
    """D_a of a small epsilon is a epsilon^2 / 2 up to a relative O(a epsilon)."""
    orders = np.array([1.5, 2.0, 27.0, 500.0])
    noisy = LaplaceEvent(sensitivity=1, scale=1 / epsilon)
    for event in (PureEvent(epsilon=epsilon), noisy):
        least = orders * epsilon**2 / 2 * (1 - 1e-3)
        assert (rdp_curve(event, orders) >= least).all()
    capacity = Cost.worth("renyi", 1.0, 1e-6)
    for tiny in (1e-9, 1e-100, 1e-200, 5e-324):
        assert capacity.price(PureEvent(epsilon=tiny)) > 0
        wide = GaussianEvent(sensitivity=1, sigma=min(1e300, 0.5 / tiny))
        assert capacity.price(wide) > 0


def test_numbers_too_large_to_compute_with_prove_nothing():
    """Infinities cancel to NaN, of which max(0, NaN) makes an epsilon of 0."""
    endless = LaplaceEvent(sensitivity=2, scale=5e-324)
    assert math.isinf(RENYI.epsilon([endless], 1e-6))
    assert math.isinf(epsilon_of(endless, 1e-6))
    assert math.isinf(epsilon_of(GaussianEvent(sensitivity=1e200, sigma=1e-100), 1e-6))
    assert math.isinf(epsilon_of(GaussianEvent(sensitivity=1, sigma=1e200), 0.0))
    lost = np.array([np.nan])
    assert math.isinf(epsilon_from_rdp(np.array([2.0]), lost, 1e-6))
    assert delta_from_rdp(np.array([2.0]), lost, 1.0) == 1.0
    for schedule in ("fixed", "adaptive"):
        with pytest.raises(BudgetExceededError):
            Budget(1.0, 1e-6, schedule=schedule).charge(endless)
    assert math.isinf(scale_for(1.0, 1e-310))
    assert float_up(Fraction(10) ** 400) == math.inf
    assert float_down(Fraction(10) ** 400) == np.finfo(float).max


def test_a_capacity_that_is_worth_nothing_is_found_and_affords_nothing():
    budget = Budget(1e-12, 1e-300, schedule="adaptive", currency="renyi")
    assert budget.cost.amount == 0
    assert not budget.can_afford(PureEvent(epsilon=5e-324))
