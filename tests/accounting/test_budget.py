"""Budgets: refuse before anything happens, never forget, shared by everything that copies them."""

import copy
import pickle
import threading
import time

import pytest
from accounting_strategies import elementary
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, clone

from missdp.accounting import (
    Budget,
    ExplicitSeed,
    FixedSchedule,
    PublicDomain,
    PureEvent,
    SampledGaussianEvent,
    epsilon_under,
)
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError

TENTH = PureEvent(epsilon=0.1)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.lists(elementary, min_size=1, max_size=2), max_size=5),
    st.sampled_from([0.0, 1e-6]),
    st.sampled_from(["add-remove", "replace-one"]),
    st.sampled_from(["fixed", "adaptive"]),
)
def test_a_refusal_changes_nothing_and_the_total_never_exceeds(charges, delta, adjacency, schedule):
    budget = Budget(2.0, delta, adjacency=adjacency, schedule=schedule)
    for events in charges:
        before = (budget.events, budget.spent, budget.remaining_epsilon)
        try:
            affordable = budget.can_afford(*events)
        except UnprovenError:
            affordable = False
        try:
            budget.charge(*events, conditions=[PublicDomain()])
        except (BudgetExceededError, UnprovenError):
            assert not affordable
            assert (budget.events, budget.spent, budget.remaining_epsilon) == before
        else:
            assert affordable
            assert budget.events == (*before[0], *events)
            assert PublicDomain() in budget.spent.conditions
    assert budget.spent.epsilon <= 2.0
    assert budget.spent.delta <= delta
    if budget.events and not isinstance(budget.events[0], SampledGaussianEvent):
        assert epsilon_under(budget.events, delta, adjacency) <= 2.0 * (1 + 1e-6) + 1e-3


def test_pure_charges_keep_delta_zero_while_their_sum_fits():
    budget = Budget(1.0, 1e-6)
    budget.charge(TENTH, TENTH)
    assert (budget.spent.epsilon, budget.spent.delta) == (pytest.approx(0.2), 0.0)
    small = Budget(1.0, 1e-6)
    for _ in range(120):
        small.charge(PureEvent(epsilon=0.01))
    assert small.spent.delta == 1e-6
    assert small.spent.epsilon < 1


def test_copies_and_clones_are_the_budget_itself():
    class Estimator(BaseEstimator):
        def __init__(self, budget=None):
            self.budget = budget

    budget = Budget(1.0)
    cloned = clone(Estimator(budget)).budget
    for same in (copy.copy(budget), copy.deepcopy(budget), copy.deepcopy([budget])[0], cloned):
        assert same is budget
    cloned.charge(PureEvent(epsilon=1.0))
    assert not budget.can_afford(TENTH)
    with pytest.raises(ParameterError, match="cannot be pickled"):
        pickle.dumps(budget)


def test_threads_cannot_overspend_together(monkeypatch):
    """A pause between check and record, which without a lock lets others in."""
    budget, barrier, won = Budget(1.0), threading.Barrier(8), []
    add_up = Budget._with

    def slow(self, parts):
        totals = add_up(self, parts)
        time.sleep(1e-4)
        return totals

    monkeypatch.setattr(Budget, "_with", slow)

    def spend():
        barrier.wait()
        for _ in range(25):
            try:
                budget.charge(PureEvent(epsilon=1 / 64))
            except BudgetExceededError:
                continue
            won.append(1)

    threads = [threading.Thread(target=spend) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == len(budget.events) == 64
    assert budget.spent.epsilon == 1.0


def test_conditions_of_a_part_are_conditions_of_the_whole():
    total = Budget(1.0, 1e-6)
    outer = total.reserve(Budget(0.6, schedule="adaptive"), conditions=[PublicDomain()])
    inner = outer.reserve(Budget(0.3, schedule="adaptive"))
    inner.charge(TENTH, conditions=[ExplicitSeed()])
    for budget, stated in (
        (inner, {ExplicitSeed()}),
        (outer, {ExplicitSeed()}),
        (total, {ExplicitSeed(), PublicDomain(), FixedSchedule()}),
    ):
        assert set(budget.spent.conditions) == stated


def test_a_pure_budget_spent_whole_in_several_releases_rests_on_a_fixed_schedule():
    """Its epsilon does not, but its events may be read at another delta: a bit with epsilon .5 that
    decides between one large step and five small ones loses more there than either branch says.
    """
    budget = Budget(1.0)
    budget.charge(PureEvent(epsilon=0.5))
    assert FixedSchedule() in budget.spent.conditions
    budget.charge(*[TENTH] * 5)
    assert FixedSchedule() in budget.spent.conditions
    once = Budget(1.0)
    once.charge(PureEvent(epsilon=1.0))
    assert once.spent.conditions == ()
    part = Budget(1.0).reserve(Budget(1.0, schedule="adaptive"))
    part.charge(*[TENTH] * 2)
    assert part.spent.conditions == ()
