"""Budgets: refuse before anything happens, never forget, count exactly, and are never two."""

import contextlib
import copy
import math
import os
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest
from accounting_strategies import elementary
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from missdp import accounting as acc
from missdp.accounting import exact as rounding
from missdp.accounting.costs import rdp_curve
from missdp.accounting.exact import exact, float_down, float_up
from missdp.accounting.filters import Cost
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError

TENTH = acc.PureEvent(epsilon=0.1)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(elementary, min_size=1, max_size=2), max_size=5),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from(["add-remove", "replace-one"]),
    st.sampled_from(["fixed", "adaptive"]),
)
def test_a_refusal_changes_nothing_and_the_total_never_exceeds(charges, delta, adjacency, schedule):
    budget = acc.Budget(2.0, delta, adjacency=adjacency, schedule=schedule)
    for events in charges:
        before = (budget.events, budget.spent, budget.remaining_epsilon)
        try:
            affordable = budget.can_afford(*events)
        except UnprovenError:
            affordable = False
        try:
            budget.charge(*events, conditions=[acc.PublicDomain()])
        except (BudgetExceededError, UnprovenError):
            assert not affordable
            assert (budget.events, budget.spent, budget.remaining_epsilon) == before
        else:
            assert affordable
            assert budget.events == (*before[0], *events)
            assert acc.PublicDomain() in budget.spent.conditions
    assert budget.spent.epsilon <= 2.0
    assert budget.spent.delta <= delta
    if budget.events and not isinstance(budget.events[0], acc.SampledGaussianEvent):
        assert acc.epsilon_under(budget.events, delta, adjacency) <= 2.0 * (1 + 1e-6) + 1e-3


def test_copies_and_clones_are_the_budget_itself():
    class Estimator(BaseEstimator):
        def __init__(self, budget=None):
            self.budget = budget

    budget = acc.Budget(1.0)
    cloned = clone(Estimator(budget)).budget
    for same in (copy.copy(budget), copy.deepcopy(budget), copy.deepcopy([budget])[0], cloned):
        assert same is budget
    cloned.charge(acc.PureEvent(epsilon=1.0))
    assert not budget.can_afford(TENTH)
    with pytest.raises(ParameterError, match="cannot be pickled"):
        pickle.dumps(budget)


def test_threads_cannot_overspend_together(monkeypatch):
    """A pause between check and record, which without a lock lets others in."""
    budget, barrier, won = acc.Budget(1.0), threading.Barrier(8), []
    add_up = acc.Budget._with

    def slow(self, parts):
        totals = add_up(self, parts)
        time.sleep(1e-4)
        return totals

    def spend(_):
        barrier.wait()
        for _ in range(25):
            with contextlib.suppress(BudgetExceededError):
                budget.charge(acc.PureEvent(epsilon=1 / 64))
                won.append(1)

    monkeypatch.setattr(acc.Budget, "_with", slow)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spend, range(8)))
    assert len(won) == len(budget.events) == 64
    assert budget.spent.epsilon == 1.0


def test_what_is_spent_states_the_least_delta_and_every_condition_of_the_parts():
    for parts, delta in (([TENTH] * 2, 0.0), ([acc.PureEvent(epsilon=0.01)] * 120, 1e-6)):
        budget = acc.Budget(1.0, 1e-6)
        budget.charge(*parts)
        assert budget.spent.delta == delta
        assert (
            budget.spent.epsilon == pytest.approx(0.2) if delta == 0 else budget.spent.epsilon < 1
        )
    total = acc.Budget(1.0, 1e-6)
    outer = total.reserve(acc.Budget(0.6, schedule="adaptive"), conditions=[acc.PublicDomain()])
    inner = outer.reserve(acc.Budget(0.3, schedule="adaptive"))
    inner.charge(TENTH, conditions=[acc.ExplicitSeed()])
    for budget in (inner, outer):
        assert budget.spent.conditions == (acc.ExplicitSeed(),)
    assert {*total.spent.conditions} == {
        acc.ExplicitSeed(),
        acc.PublicDomain(),
        acc.FixedSchedule(),
    }


def test_a_pure_budget_spent_whole_in_several_releases_rests_on_a_fixed_schedule():
    """Its epsilon does not, but its events may be read at another delta: a bit with epsilon .5 that
    decides between one large step and five small ones loses more there than either branch says.
    """
    budget, once = acc.Budget(1.0), acc.Budget(1.0)
    for charge in ([acc.PureEvent(epsilon=0.5)], [TENTH] * 5):
        budget.charge(*charge)
        assert acc.FixedSchedule() in budget.spent.conditions
    once.charge(acc.PureEvent(epsilon=1.0))
    part = acc.Budget(1.0).reserve(acc.Budget(1.0, schedule="adaptive"))
    part.charge(*[TENTH] * 2)
    assert once.spent.conditions == part.spent.conditions == ()


# Sums are exact
POSITIVE = st.floats(1e-300, 1e300)
either_schedule = pytest.mark.parametrize("schedule", ["fixed", "adaptive"])


@either_schedule
def test_no_charge_is_too_small_to_be_counted_and_nothing_is_tolerated(schedule):
    budget = acc.Budget(1.0, schedule=schedule)
    assert not budget.can_afford(acc.PureEvent(epsilon=math.nextafter(1.0, 2.0)))
    budget.charge(acc.PureEvent(epsilon=1.0))
    for tiny in (1e-17, 1e-300, 5e-324, 1e-9):
        with pytest.raises(BudgetExceededError):
            budget.charge(acc.PureEvent(epsilon=tiny))
    worthless = acc.Budget(1e-12, 1e-300, schedule="adaptive", currency="renyi")
    assert worthless.cost.amount == 0
    assert not worthless.can_afford(acc.PureEvent(epsilon=5e-324))


@pytest.mark.parametrize(("part", "count"), [(0.1, 10), (0.01, 100), (1e-6, 1000), (0.35, 2)])
def test_what_a_person_writes_adds_up_as_written(part, count):
    budget = acc.Budget(float(Fraction(repr(part)) * count))
    for _ in range(count):
        budget.charge(acc.PureEvent(epsilon=part))
    assert budget.remaining_epsilon == 0
    assert not budget.can_afford(acc.PureEvent(epsilon=1e-20))


@given(st.floats(1e-3, 1e3), st.integers(1, 50), st.floats(0.5, 9))
def test_calibrated_laplace_noise_fits_its_budget(epsilon, count, sensitivity):
    scale = acc.laplace_scale(epsilon, sensitivity=sensitivity, count=count)
    budget = acc.Budget(epsilon)
    event = acc.LaplaceEvent(sensitivity=sensitivity, scale=scale, discrete=False)
    budget.charge(*[event] * count)
    assert scale == pytest.approx(count * sensitivity / epsilon, rel=1e-12)


@given(POSITIVE, POSITIVE)
def test_rounding_goes_the_safe_way(first, second):
    number = exact(first) / exact(second)
    if 0 < number < Fraction(1e308):
        assert exact(float_down(number)) <= number <= exact(float_up(number))
    assert rounding.total([number]) >= number


@given(st.lists(POSITIVE, max_size=200))
def test_long_sums_stay_short_and_never_fall(values):
    costs = [1 / exact(value) for value in values]
    found = rounding.total(costs)
    assert found >= sum(costs)
    assert found <= sum(costs) + len(costs) * Fraction(1, 2**1024)
    assert found.denominator.bit_length() < 10_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@either_schedule
def test_a_fork_cannot_spend_the_budget_again(schedule):
    budget, half = acc.Budget(1.0, schedule=schedule), acc.PureEvent(epsilon=0.5)
    budget.charge(half)
    for attempt in (
        lambda: budget.charge(half),
        lambda: budget.can_afford(half),
        lambda: budget.reserve(acc.Budget(0.1, schedule="adaptive")),
    ):
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
    budget.charge(half)  # the parent still can


@pytest.mark.parametrize("epsilon", [1e-9, 1e-8, 1e-7, 1e-6])
def test_small_divergences_are_not_lost_to_cancellation(epsilon):
    """D_a of a small epsilon is a epsilon^2 / 2 up to a relative O(a epsilon)."""
    orders = np.array([1.5, 2.0, 27.0, 500.0])
    noisy = acc.LaplaceEvent(sensitivity=1, scale=1 / epsilon)
    for event in (acc.PureEvent(epsilon=epsilon), noisy):
        least = orders * epsilon**2 / 2 * (1 - 1e-3)
        assert (rdp_curve(event, orders) >= least).all()
    capacity = Cost.worth("renyi", 1.0, 1e-6)
    for tiny in (1e-9, 1e-100, 1e-200, 5e-324):
        assert capacity.price(acc.PureEvent(epsilon=tiny)) > 0
        wide = acc.GaussianEvent(sensitivity=1, sigma=min(1e300, 0.5 / tiny))
        assert capacity.price(wide) > 0


def test_numbers_too_large_to_compute_with_prove_nothing():
    """Infinities cancel to NaN, of which max(0, NaN) makes an epsilon of 0."""
    endless = acc.LaplaceEvent(sensitivity=2, scale=5e-324)
    assert math.isinf(acc.RENYI.epsilon([endless], 1e-6))
    assert math.isinf(acc.epsilon_of(endless, 1e-6))
    assert math.isinf(acc.epsilon_of(acc.GaussianEvent(sensitivity=1e200, sigma=1e-100), 1e-6))
    assert math.isinf(acc.epsilon_of(acc.GaussianEvent(sensitivity=1, sigma=1e200), 0.0))
    lost = np.array([np.nan])
    assert math.isinf(rounding.epsilon_from_rdp(np.array([2.0]), lost, 1e-6))
    assert rounding.delta_from_rdp(np.array([2.0]), lost, 1.0) == 1.0
    for schedule in ("fixed", "adaptive"):
        with pytest.raises(BudgetExceededError):
            acc.Budget(1.0, 1e-6, schedule=schedule).charge(endless)
    assert math.isinf(acc.scale_for(1.0, 1e-310))
    assert float_up(Fraction(10) ** 400) == math.inf
    assert float_down(Fraction(10) ** 400) == np.finfo(float).max
