"""Budgets: refuse before anything happens, never forget, count exactly, and are never two."""

import contextlib
import copy
import math
import os
import pickle
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from accounting_strategies import elementary
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate
from scipy.stats import norm
from sklearn.base import BaseEstimator, clone

from missdp import accounting as acc
from missdp.accounting import exact as rounding
from missdp.accounting.exact import exact, float_down, float_up
from missdp.accounting.measures import Cost
from missdp.accounting.renyi import epsilon_from_rdp, rdp_curve, renyi_curve
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.profiles import delta_from_rdp

TENTH = acc.PureEvent(epsilon=0.1)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(elementary, min_size=1, max_size=2), max_size=5),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from(["add-remove", "replace-one"]),
    st.sampled_from(["pure", "zcdp", "gdp"]),
)
def test_a_refusal_changes_nothing_and_the_total_never_exceeds(charges, delta, adjacency, measure):
    measure = measure if delta else "pure"
    budget = acc.Filter(2.0, delta, adjacency=adjacency, measure=measure, failure=delta / 2)
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
    assert acc.proven_epsilon(budget.events, delta, adjacency, enough=2.0) <= 2.0


def test_copies_and_clones_are_the_budget_itself():
    class Estimator(BaseEstimator):
        def __init__(self, budget=None):
            self.budget = budget

    budget = acc.Filter(1.0)
    cloned = clone(Estimator(budget)).budget
    for same in (copy.copy(budget), copy.deepcopy(budget), copy.deepcopy([budget])[0], cloned):
        assert same is budget
    cloned.charge(acc.PureEvent(epsilon=1.0))
    assert not budget.can_afford(TENTH)
    with pytest.raises(ParameterError, match="cannot be pickled"):
        pickle.dumps(budget)


def test_threads_cannot_overspend_together(monkeypatch):
    """A pause between check and record, which without a lock lets others in."""
    budget, barrier, won = acc.Filter(1.0), threading.Barrier(8), []
    add_up = acc.Filter._with

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

    monkeypatch.setattr(acc.Filter, "_with", slow)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spend, range(8)))
    assert len(won) == len(budget.events) == 64
    assert budget.spent.epsilon == 1.0


def test_what_is_spent_states_every_condition_of_the_parts():
    total = acc.Filter(1.0)
    outer = total.reserve(acc.Filter(0.6), conditions=[acc.PublicDomain()])
    inner = outer.reserve(acc.Filter(0.3))
    inner.charge(TENTH, conditions=[acc.ExplicitSeed()])
    for budget in (inner, outer):
        assert budget.spent.conditions == (acc.ExplicitSeed(),)
    assert {*total.spent.conditions} == {acc.ExplicitSeed(), acc.PublicDomain()}


# Plans that were fixed in advance


def gaussian(mu):
    return acc.GaussianEvent(sensitivity=1, sigma=1 / mu, discrete=False)


FIRST, SMALL, LARGE = gaussian(0.3), gaussian(0.05), gaussian(0.9)


def test_a_plan_states_its_epsilon_and_ticks_events_off():
    plan = acc.Composition([FIRST, SMALL, SMALL], 2.0, 1e-6)
    assert plan.spent == acc.Guarantee(0.0)
    for event in (SMALL, FIRST):  # in any order
        plan.charge(event, conditions=[acc.ExplicitSeed()])
        assert (plan.spent.epsilon, plan.spent.delta) == (2.0, 1e-6)
        assert plan.spent.events == (FIRST, SMALL, SMALL)  # whether all were charged or not
    assert {*plan.spent.conditions} == {acc.ExplicitSeed(), acc.FixedSchedule()}
    assert plan.can_afford(SMALL)
    assert not plan.can_afford(SMALL, SMALL)
    plan.charge(SMALL)
    for late in (FIRST, SMALL, LARGE, gaussian(1e-9), acc.PureEvent(epsilon=0.0)):
        assert not plan.can_afford(late)
        with pytest.raises(BudgetExceededError, match="not in the plan"):
            plan.charge(late)
    assert plan.events == (SMALL, FIRST, SMALL)


def test_a_charge_is_ticked_off_as_a_whole_or_not_at_all():
    plan = acc.Composition([FIRST, SMALL], 2.0, 1e-6)
    with pytest.raises(BudgetExceededError):
        plan.charge(FIRST, LARGE)
    with pytest.raises(ParameterError):
        plan.charge(FIRST, conditions=["seeded"])
    assert plan.events == ()
    plan.charge(FIRST, SMALL)


def test_what_a_plan_costs_is_proven_before_anything_is_charged():
    true = acc.proven_epsilon([FIRST, SMALL], 1e-6)
    assert acc.Composition([FIRST, SMALL], delta=1e-6).epsilon == true
    assert acc.Composition([FIRST, SMALL], true, 1e-6).epsilon == true
    with pytest.raises(BudgetExceededError):
        acc.Composition([FIRST, SMALL], math.nextafter(true, 0), 1e-6)
    # By `delta_from_mu`, which is compared with 60 digits elsewhere.
    mu = math.hypot(0.3, 0.05)
    assert rounding.delta_from_mu(mu, true) <= 1e-6 < rounding.delta_from_mu(mu, true * 0.9999)


def adaptive_delta(first, later, epsilon):
    """Return the delta of a release with mu ``first`` and, if its answer is positive, a later one.

    Integrated over the first answer. The later release adds the divergence of two normal laws.
    """

    def beyond(answer, sign):
        loss = sign * (first * answer - first**2 / 2)
        if answer <= 0:
            return max(0.0, -math.expm1(epsilon - loss))
        shift = (epsilon - loss) / later
        return norm.cdf(later / 2 - shift) - math.exp(epsilon - loss) * norm.cdf(-later / 2 - shift)

    return max(
        sum(
            integrate.quad(lambda x: norm.pdf(x, centre) * beyond(x, sign), low, high)[0]  # noqa: B023
            for low, high in ((-9, 0), (0, 9))
        )
        for sign, centre in ((1, first), (-1, 0.0))
    )


def test_events_chosen_later_would_break_the_claim_of_a_plan():
    """Release x + N(0, 20^2).

    If it is positive, also release x + N(0, 5^2).

    Where the second is left out, the first alone would claim (.189, 1e-6). The true delta of the
    whole is .0150 there.
    """
    first, later = (acc.GaussianEvent(sensitivity=1, sigma=s, discrete=False) for s in (20.0, 5.0))
    plan = acc.Composition([first], delta=1e-6)
    assert round(plan.epsilon, 3) == 0.189
    assert adaptive_delta(1 / 20, 1 / 5, plan.epsilon) == pytest.approx(0.0150, abs=5e-5)
    plan.charge(first)
    with pytest.raises(BudgetExceededError, match="Fix all releases when"):
        plan.charge(later)
    # With both in the plan, the claim covers the sequence, and leaving one out changes nothing.
    both = acc.Composition([first, later], delta=1e-6)
    both.charge(first)
    assert both.spent.epsilon == both.epsilon > 0.8
    assert adaptive_delta(1 / 20, 1 / 5, both.epsilon) <= 1e-6
    # So does the cap of a filter.
    cap = acc.Filter(1.0, 1e-6)
    cap.charge(first)
    assert cap.spent.epsilon == 1.0


def test_plan_matches_required_attributes_and_not_labels():
    planned = acc.PureEvent(epsilon=0.5, required={"a"}, label="planned")
    plan = acc.Composition([planned])
    for other in (replace(planned, required=None), replace(planned, adjacency="replace-one")):
        with pytest.raises(BudgetExceededError):
            plan.charge(other)
    plan.charge(replace(planned, label="charged"))
    assert plan.spent.events == (planned,)


def test_a_part_of_a_plan_is_its_cap_whatever_it_spends():
    cap = acc.Filter(0.5, 1e-6, measure="gdp")
    sampled = acc.SampledGaussianEvent(rate=0.01, noise_multiplier=3.0, steps=50)
    plan = acc.Composition([cap.filter(), sampled], 1.0, 1e-6)
    with pytest.raises(BudgetExceededError):
        plan.reserve(acc.Filter(0.4, 1e-6, measure="gdp"), label="smaller")
    part = plan.reserve(cap, label="first", extra_events=[sampled])
    part.charge(acc.GaussianEvent(sensitivity=1, sigma=30.0), conditions=[acc.ExplicitSeed()])
    assert [len(event.log) for event in plan.events[:1]] == [1]
    assert plan.spent.epsilon == 1.0
    assert acc.ExplicitSeed() in plan.spent.conditions
    with pytest.raises(BudgetExceededError):
        plan.reserve(acc.Filter(0.5, 1e-6, measure="gdp"))


def test_threads_tick_an_event_off_once():
    plan, won, barrier = acc.Composition([TENTH] * 5), [], threading.Barrier(8)

    def spend(_):
        barrier.wait()
        for _ in range(5):
            with contextlib.suppress(BudgetExceededError):
                plan.charge(TENTH)
                won.append(1)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spend, range(8)))
    assert len(won) == len(plan.events) == 5


def test_threads_tick_an_event_off_once_however_long_it_takes():
    class Slow(Counter):
        """Lets the other thread run between the check and the tick."""

        def __isub__(self, other):
            time.sleep(0.05)
            return Slow(super().__isub__(other))

    plan, won, barrier = acc.Composition([TENTH]), [], threading.Barrier(2)
    plan._open = Slow(plan._open)

    def spend(_):
        barrier.wait()
        with contextlib.suppress(BudgetExceededError):
            plan.charge(TENTH)
            won.append(1)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(spend, range(2)))
    assert len(won) == 1


@pytest.mark.parametrize("leave", [copy.copy, copy.deepcopy, clone])
def test_copies_of_a_plan_are_the_plan(leave):
    plan = acc.Composition([TENTH])
    assert leave(plan) is plan
    with pytest.raises(ParameterError, match="cannot be pickled"):
        pickle.dumps(plan)


def test_a_plan_under_replace_one_converts():
    plan = acc.Composition([TENTH], adjacency="replace-one")
    assert plan.epsilon == 0.2
    native = acc.PureEvent(epsilon=0.1, adjacency="replace-one")
    with pytest.raises(UnprovenError):
        acc.Composition([native])


# Sums are exact
POSITIVE = st.floats(1e-300, 1e300)


def test_no_charge_is_too_small_to_be_counted_and_nothing_is_tolerated():
    budget = acc.Filter(1.0)
    assert not budget.can_afford(acc.PureEvent(epsilon=math.nextafter(1.0, 2.0)))
    budget.charge(acc.PureEvent(epsilon=1.0))
    for tiny in (1e-17, 1e-300, 5e-324, 1e-9):
        with pytest.raises(BudgetExceededError):
            budget.charge(acc.PureEvent(epsilon=tiny))
    worthless = acc.Filter(1e-12, 1e-300, measure="zcdp")
    assert worthless.cost.amount == 0
    assert not worthless.can_afford(acc.PureEvent(epsilon=5e-324))


@pytest.mark.parametrize(("part", "count"), [(0.1, 10), (0.01, 100), (1e-6, 1000), (0.35, 2)])
def test_what_a_person_writes_adds_up_as_written(part, count):
    budget = acc.Filter(float(Fraction(repr(part)) * count))
    for _ in range(count):
        budget.charge(acc.PureEvent(epsilon=part))
    assert budget.remaining_epsilon == 0
    assert not budget.can_afford(acc.PureEvent(epsilon=1e-20))


@given(st.floats(1e-3, 1e3), st.integers(1, 50), st.floats(0.5, 9))
def test_calibrated_laplace_noise_fits_its_budget(epsilon, count, sensitivity):
    scale = acc.scale_for(sensitivity, epsilon, count=count)
    budget = acc.Filter(epsilon)
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
@pytest.mark.parametrize("fixed", [False, True])
def test_a_fork_cannot_spend_the_budget_again(fixed):
    half = acc.PureEvent(epsilon=0.5)
    budget = acc.Composition([half, half]) if fixed else acc.Filter(1.0)
    budget.charge(half)
    for attempt in (
        lambda: budget.charge(half),
        lambda: budget.can_afford(half),
        lambda: budget.reserve(acc.Filter(0.1)),
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
    capacity = Cost.from_epsilon("zcdp", 1.0, 1e-6)
    for tiny in (1e-9, 1e-100, 1e-200, 5e-324):
        assert capacity.price(acc.PureEvent(epsilon=tiny)) > 0
        wide = acc.GaussianEvent(sensitivity=1, sigma=min(1e300, 0.5 / tiny))
        assert capacity.price(wide) > 0


def test_numbers_too_large_to_compute_with_prove_nothing():
    """Infinities cancel to NaN, of which max(0, NaN) makes an epsilon of 0."""
    endless = acc.LaplaceEvent(sensitivity=2, scale=5e-324)
    assert math.isinf(epsilon_from_rdp(*renyi_curve([endless]), 1e-6))
    assert math.isinf(acc.epsilon_of(endless, 1e-6))
    assert math.isinf(acc.epsilon_of(acc.GaussianEvent(sensitivity=1e200, sigma=1e-100), 1e-6))
    assert math.isinf(acc.epsilon_of(acc.GaussianEvent(sensitivity=1, sigma=1e200), 0.0))
    lost = np.array([np.nan])
    assert math.isinf(epsilon_from_rdp(np.array([2.0]), lost, 1e-6))
    assert delta_from_rdp(np.array([2.0]), lost, 1.0) == 1.0
    for measure in ("zcdp", "pure"):
        with pytest.raises(BudgetExceededError):
            acc.Filter(1.0, 1e-6, measure=measure).charge(endless)
    with pytest.raises(UnprovenError):
        acc.Composition([endless], 1.0, 1e-6)
    assert math.isinf(acc.scale_for(1.0, 1e-310))
    assert float_up(Fraction(10) ** 400) == math.inf
    assert float_down(Fraction(10) ** 400) == np.finfo(float).max
