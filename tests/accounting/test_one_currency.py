"""One currency: a shared budget is charged what its parts are capped by, in exact numbers."""

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.accounting import (
    Budget,
    Cost,
    FilterEvent,
    GaussianEvent,
    LaplaceEvent,
    PureEvent,
    RDPEvent,
    SelectionEvent,
    ZCDPEvent,
    epsilon_of,
    epsilon_under,
)
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError

amounts = st.floats(1e-4, 0.4)
PLAIN = st.one_of(
    st.builds(PureEvent, epsilon=amounts),
    st.builds(SelectionEvent, epsilon=amounts),
    st.builds(LaplaceEvent, sensitivity=st.just(1.0), scale=st.floats(2, 1e4)),
    st.builds(GaussianEvent, sensitivity=st.just(1.0), sigma=st.floats(2, 1e4)),
    st.builds(ZCDPEvent, rho=st.floats(1e-6, 0.02)),
)
COSTS = st.one_of(
    st.builds(Cost, currency=st.just("pure"), amount=amounts),
    st.builds(Cost, currency=st.just("zcdp"), amount=st.floats(1e-6, 0.02)),
    st.builds(
        Cost, currency=st.just("renyi"), amount=st.floats(1e-5, 0.4), order=st.floats(20, 99)
    ),
)


def oracle(event, currency, order):
    """The price of a release in a currency, from the textbook; None if there is none."""
    if isinstance(event, FilterEvent):
        event = event.capacity
    if isinstance(event, RDPEvent):
        # A bound at one order bounds every lower order, and no higher one.
        known = currency == "renyi" and order <= event.orders[0]
        return Fraction(repr(event.epsilons[0])) if known else None
    if isinstance(event, GaussianEvent):
        rho = Fraction(event.sensitivity) ** 2 / Fraction(event.sigma) ** 2 / 2
    elif isinstance(event, ZCDPEvent):
        rho = Fraction(repr(event.rho))
    else:
        if isinstance(event, LaplaceEvent):
            epsilon = 1 / Fraction(event.scale)
        else:
            epsilon = Fraction(repr(event.epsilon))
        if currency == "pure":
            return epsilon
        if currency == "renyi":
            return None  # by the library's own curve, checked elsewhere
        return epsilon**2 / (8 if isinstance(event, SelectionEvent) else 2)
    return {"pure": None, "zcdp": rho, "renyi": Fraction(order or 0) * rho}[currency]


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.one_of(PLAIN, COSTS), max_size=14),
    currency=st.sampled_from(["pure", "zcdp", "renyi"]),
    spend=st.floats(0.05, 1.0),
)
def test_any_mixture_of_charges_and_parts_adds_up_exactly(steps, currency, spend):
    budget = Budget(1.5, 1e-5, schedule="adaptive", currency=currency)
    cap, order = Fraction(repr(budget.cost.amount)), budget.cost.order
    spent, known = Fraction(0), True
    for step in steps:
        before = (budget.events, budget.left, budget.remaining_epsilon)
        try:
            if isinstance(step, Cost):
                part = budget.reserve(Budget.from_cost(step, delta=1e-6))
                held = budget.left
                part.charge(part.cost.event() if spend > 0.5 else _share(step, spend).event())
                assert budget.left == held  # what a part spends costs nothing more
            else:
                budget.charge(step)
        except (BudgetExceededError, UnprovenError) as refused:
            assert (budget.events, budget.left, budget.remaining_epsilon) == before
            price = oracle(_event(step), currency, order)
            if isinstance(refused, UnprovenError):
                assert price is None
            elif known and price is not None:
                assert spent + price > cap * (1 - Fraction(1, 10**9))
            continue
        price = oracle(budget.events[-1], currency, order)
        known = known and price is not None
        spent += price or 0
        assert budget.left.amount <= before[1].amount  # nothing is refunded
    if known:
        assert spent <= cap
        assert budget.left.amount == pytest.approx(float(cap - spent), abs=1e-9)
        if currency != "renyi":
            assert Fraction(repr(budget.left.amount)) <= cap - spent  # exactly
    if budget.events:
        assert (budget.spent.epsilon, budget.spent.delta <= 1e-5) == (1.5, True)


def _event(step):
    return step.event() if isinstance(step, Cost) else step


def _share(cost, part):
    return Cost(currency=cost.currency, amount=cost.amount * part, order=cost.order)


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(st.one_of(PLAIN, COSTS.filter(lambda c: c.currency != "renyi")), max_size=8))
def test_a_fixed_budget_is_charged_the_caps_by_an_independent_accountant(steps):
    from dp_accounting import ZCDpEvent
    from dp_accounting.rdp import RdpAccountant

    budget = Budget(2.0, 1e-5)
    accountant = RdpAccountant()
    for step in steps:
        before = (budget.events, budget.spent)
        try:
            if isinstance(step, Cost):
                budget.reserve(Budget.from_cost(step, delta=1e-6))
            else:
                budget.charge(step)
        except BudgetExceededError:
            assert (budget.events, budget.spent) == before
            continue
        accountant.compose(ZCDpEvent(float(oracle(_event(step), "zcdp", None))))
    if budget.events:
        assert budget.spent.epsilon <= min(2.0, accountant.get_epsilon(1e-5)) * (1 + 1e-6) + 1e-9
        caps = [e.capacity if isinstance(e, FilterEvent) else e for e in budget.events]
        again = min(epsilon_of(caps, 1e-5), epsilon_of(caps, budget.spent.delta))
        assert budget.spent.epsilon >= again * (1 - 1e-9)


@settings(max_examples=30, deadline=None)
@given(COSTS, st.sampled_from([1e-9, 1e-5, 0.01]))
def test_a_budget_made_from_a_cost_is_that_cost(cost, delta):
    budget = Budget.from_cost(cost, delta=delta)
    assert budget.cost == budget.left == cost
    assert budget.epsilon == (cost.epsilon(delta) or cost.amount)  # worth nothing at delta
    budget.charge(cost.event())  # exactly, no drift
    assert budget.left.amount == 0
    assert budget.spent.epsilon == budget.epsilon
    with pytest.raises(BudgetExceededError):
        budget.charge(_share(cost, 1e-12).event())


@pytest.mark.parametrize("currency", ["pure", "zcdp", "renyi"])
def test_ten_tenths_are_the_whole(currency):
    order = 8.0 if currency == "renyi" else None
    whole = Budget.from_cost(Cost(currency=currency, amount=1.0, order=order), delta=1e-6)
    for _ in range(10):
        whole.reserve(Budget.from_cost(Cost(currency=currency, amount=0.1, order=order), delta=0.1))
    assert whole.left.amount == 0


def test_costs_that_make_no_budget_are_refused():
    for build in (
        lambda: Budget.from_cost(Cost(currency="pure", amount=0.0)),
        lambda: Budget.from_cost(Cost(currency="zcdp", amount=0.1)),
        lambda: Budget.from_cost(1.0),
        lambda: Budget.from_cost(Cost(currency="zcdp", amount=0.1), delta=1.0),
        lambda: Cost.at_order(8.0, 1.0, 0.0),
    ):
        with pytest.raises(ParameterError):
            build()
    assert Cost.at_order(1.01, 0.1, 1e-6).amount == 0


# Replace-one


def replace_one_fact(**more):
    return LaplaceEvent(sensitivity=2, scale=9.0, adjacency="replace-one", **more)


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_an_add_remove_budget_refuses_replace_one_by_name_and_says_what_to_do(schedule):
    budget = Budget(5.0, schedule=schedule)
    for charge in (
        lambda: budget.charge(replace_one_fact(label="PrivateMean")),
        lambda: budget.can_afford(replace_one_fact(label="PrivateMean")),
    ):
        with pytest.raises(UnprovenError, match=r"PrivateMean.*adjacency='replace-one'"):
            charge()
    part = Budget(1.0, adjacency="replace-one", schedule="adaptive")
    with pytest.raises(UnprovenError, match=r"regression.*adjacency='replace-one'"):
        budget.reserve(part, label="regression")
    assert not budget.events
    assert not math.isinf(budget.remaining_epsilon)


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_a_replace_one_budget_takes_both_and_converts(schedule):
    budget = Budget(5.0, adjacency="replace-one", schedule=schedule)
    budget.charge(PureEvent(epsilon=0.5, label="a fit"))
    budget.charge(replace_one_fact())
    fit = Budget(0.3, schedule="adaptive")
    budget.reserve(fit, label="another fit")
    assert fit.adjacency == "add-remove"
    assert epsilon_under(budget.events, 0.0, "replace-one") == pytest.approx(1.0 + 2 / 9 + 0.6)
    assert budget.spent.adjacency == "replace-one"
    if schedule == "adaptive":
        assert budget.left.amount == pytest.approx(5 - 1.0 - 2 / 9 - 0.6)
