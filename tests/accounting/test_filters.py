"""Adaptive schedules are worth their cap: nothing is re-read from what happened to be spent."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import accounting as acc
from missdp.accounting.exact import epsilon_from_rdp, epsilon_from_rho
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.ground_truth import ground_truth_guarantee

DELTAS = np.geomspace(1e-12, 0.1, 20)


@pytest.mark.parametrize("currency", ["zcdp", "renyi"])
def test_an_adaptive_guarantee_is_never_reread_from_what_was_spent(currency):
    budget = acc.Budget(1.0, 1e-6, schedule="adaptive", currency=currency)
    budget.charge(acc.GaussianEvent(sensitivity=1, sigma=20.0, discrete=False))
    guarantee = budget.spent
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
    assert guarantee.epsilon_at(guarantee.delta) >= guarantee.epsilon
    assert guarantee.compose(acc.Guarantee(0.0)).epsilon >= guarantee.epsilon
    assert acc.Guarantee(0.0).compose(guarantee).epsilon >= guarantee.epsilon
    (event,), cost = guarantee.events, guarantee.events[0].cost
    for delta in DELTAS:
        cap = cost.epsilon(delta)
        if currency == "zcdp":
            assert cap == epsilon_from_rho(event.capacity.rho, delta)
        else:  # smaller orders are bounded by the one that is capped
            assert acc.epsilon_of(event.capacity, delta) <= cap
            cap = acc.epsilon_of(event.capacity, delta)
        assert guarantee.epsilon_at(delta) == pytest.approx(cap, rel=1e-6)
    # Two filters of one order add up.
    both, double = guarantee.compose(guarantee), replace(cost, amount=2 * cost.amount)
    assert both.epsilon == pytest.approx(double.epsilon(2e-6), rel=1e-9)
    for delta in DELTAS[DELTAS < 2e-6]:
        assert both.epsilon_at(delta) == pytest.approx(double.epsilon(delta), rel=1e-9)


def test_filters_at_two_orders_add_up_at_the_smaller_one():
    facts = {"schedule": "adaptive", "currency": "renyi"}
    events = [acc.Budget(1.0, delta, **facts).filter() for delta in (1e-6, 1e-3)]
    low = min(event.capacity.orders[0] for event in events)
    total = sum(event.capacity.epsilons[0] for event in events)
    bound = epsilon_from_rdp(np.array([low]), np.array([total]), 1e-6)
    assert acc.epsilon_of(events, 1e-6) == pytest.approx(bound)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-3), (50, 1e-5)])
def test_capacities_are_worth_the_target_and_not_more(epsilon, delta):
    for currency in ("zcdp", "renyi"):
        cost = acc.Cost.worth(currency, epsilon, delta)
        assert epsilon * (1 - 1e-6) <= cost.epsilon(delta) <= epsilon
        assert acc.epsilon_of(cost.event(), delta) <= epsilon * (1 + 1e-12)
    assert acc.Cost.worth("zcdp", epsilon, delta).amount == pytest.approx(
        acc.zcdp_rho(epsilon, delta)
    )


def test_a_part_costs_its_cap_whatever_it_spends():
    total = acc.Budget(3.0, 1e-5)
    fits = [
        total.reserve(acc.Budget(1.0, 1e-6, schedule="adaptive"), label="fit") for _ in range(8)
    ]
    assert total.spent.epsilon == pytest.approx(2.8, abs=0.05)
    before = total.spent.epsilon
    fits[0].charge(acc.GaussianEvent(sensitivity=1, sigma=9.0))
    assert total.spent.epsilon == before
    assert len(total.events[0].log) == 1
    assert total.events[0].label == "fit"
    with pytest.raises(BudgetExceededError):
        fits[0].charge(acc.GaussianEvent(sensitivity=1, sigma=5.0))
    total.reserve(acc.Budget(1.0, 1e-6, schedule="adaptive"))
    with pytest.raises(BudgetExceededError):
        total.reserve(acc.Budget(1.0, 1e-6, schedule="adaptive"))


def test_an_adaptive_budget_is_not_amplified():
    """Spent whole or not: that gates and scales were fixed in advance would be a false claim."""
    known = acc.MissingCompletelyAtRandom({"a": 0.5})
    for amount in (1.0, 0.4):
        budget = acc.Budget(1.0, schedule="adaptive")
        budget.charge(acc.PureEvent(epsilon=amount, gate={"a"}))
        truth = ground_truth_guarantee(budget.spent, known)
        assert truth.epsilon == 1.0
        assert acc.FixedSchedule() not in truth.conditions


def test_a_log_beyond_its_capacity_is_refused():
    """Under replace-one, what was released under add-remove counts twice its mu.

    A log that fits into the cap only as it stands is refused: a file may have been edited.
    """
    facts, swap = {"sensitivity": 1, "discrete": False}, {"adjacency": "replace-one"}
    log = [acc.GaussianEvent(sigma=10.0, **facts)]
    doubled = acc.GaussianEvent(sigma=1.0, **facts, **swap)
    whole, more = (acc.GaussianEvent(sigma=sigma, **facts) for sigma in (2.0, 1.99))
    acc.FilterEvent(capacity=acc.ZCDPEvent(rho=0.005), log=log)
    assert acc.FilterEvent(capacity=doubled, log=[whole], **swap).log == (whole,)
    for less in (
        {"capacity": acc.ZCDPEvent(rho=0.0049), "log": log},
        {"capacity": doubled, "log": [more], **swap},
    ):
        with pytest.raises(ParameterError, match="more than its capacity"):
            acc.FilterEvent(**less)


# Charges and parts in any currency
amounts = st.floats(1e-4, 0.4)
PLAIN = st.one_of(
    st.builds(acc.PureEvent, epsilon=amounts),
    st.builds(acc.SelectionEvent, epsilon=amounts),
    st.builds(acc.LaplaceEvent, sensitivity=st.just(1.0), scale=st.floats(2, 1e4)),
    st.builds(acc.GaussianEvent, sensitivity=st.just(1.0), sigma=st.floats(2, 1e4)),
    st.builds(acc.ZCDPEvent, rho=st.floats(1e-6, 0.02)),
)
COSTS = st.one_of(
    st.builds(acc.Cost, currency=st.just("pure"), amount=amounts),
    st.builds(acc.Cost, currency=st.just("zcdp"), amount=st.floats(1e-6, 0.02)),
    st.builds(acc.Cost, currency=st.just("renyi"), amount=amounts, order=st.floats(20, 99)),
)


def oracle(event, currency, order):
    """The price of a release in a currency, from the textbook; None if there is none."""
    if isinstance(event, acc.FilterEvent):
        event = event.capacity
    if isinstance(event, acc.RDPEvent):
        # A bound at one order bounds every lower order, and no higher one.
        known = currency == "renyi" and order <= event.orders[0]
        return Fraction(repr(event.epsilons[0])) if known else None
    if isinstance(event, acc.GaussianEvent | acc.ZCDPEvent):
        gaussian = isinstance(event, acc.GaussianEvent)
        rho = 1 / Fraction(event.sigma) ** 2 / 2 if gaussian else Fraction(repr(event.rho))
        return {"pure": None, "zcdp": rho, "renyi": Fraction(order or 0) * rho}[currency]
    laplace = isinstance(event, acc.LaplaceEvent)
    epsilon = 1 / Fraction(event.scale) if laplace else Fraction(repr(event.epsilon))
    rho = epsilon**2 / (8 if isinstance(event, acc.SelectionEvent) else 2)
    # At an order, by the library's own curve, which is checked elsewhere.
    return {"pure": epsilon, "zcdp": rho, "renyi": None}[currency]


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.one_of(PLAIN, COSTS), max_size=14),
    currency=st.sampled_from(["pure", "zcdp", "renyi"]),
    spend=st.floats(0.05, 1.0),
)
def test_any_mixture_of_charges_and_parts_adds_up_exactly(steps, currency, spend):
    budget = acc.Budget(1.5, 1e-5, schedule="adaptive", currency=currency)
    cap, order = Fraction(repr(budget.cost.amount)), budget.cost.order
    spent, known = Fraction(0), True
    for step in steps:
        before = (budget.events, budget.left, budget.remaining_epsilon)
        try:
            if isinstance(step, acc.Cost):
                part = budget.reserve(acc.Budget.from_cost(step, delta=1e-6))
                held = budget.left
                part.charge(replace(step, amount=step.amount * min(1.0, 2 * spend)).event())
                assert budget.left == held  # what a part spends costs nothing more
            else:
                budget.charge(step)
        except (BudgetExceededError, UnprovenError) as refused:
            assert (budget.events, budget.left, budget.remaining_epsilon) == before
            event = step.event() if isinstance(step, acc.Cost) else step
            price = oracle(event, currency, order)
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
        assert acc.FixedSchedule() not in budget.spent.conditions


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
def test_a_replace_one_budget_takes_both_and_converts(schedule):
    budget = acc.Budget(5.0, adjacency="replace-one", schedule=schedule)
    budget.charge(acc.PureEvent(epsilon=0.5, label="a fit"))
    budget.charge(acc.LaplaceEvent(sensitivity=2, scale=9.0, adjacency="replace-one"))
    fit = budget.reserve(acc.Budget(0.3, schedule="adaptive"), label="another fit")
    assert fit.adjacency == "add-remove"
    assert acc.epsilon_under(budget.events, 0.0, "replace-one") == pytest.approx(1.0 + 2 / 9 + 0.6)
    assert budget.spent.adjacency == "replace-one"
    if schedule == "adaptive":
        assert budget.left.amount == pytest.approx(5 - 1.0 - 2 / 9 - 0.6)


# The best that an adaptive analyst can do against a filter: backward induction, no accountant used.
# Every mechanism has finitely many outputs whose losses log(P/Q) are multiples of h, so that the
# state is a whole number (the loss so far) and what is left of the capacity, in whole units.
H = Fraction(1, 10)
ATTACKED = np.geomspace(1e-9, 0.3, 20)


@dataclass(frozen=True)
class Step:
    """A mechanism: losses in units of H with their probabilities under P, and what it costs."""

    losses: tuple[int, ...]
    chances: tuple[float, ...]
    cost: int


def two_outcomes(up, down):
    """The pair with losses ``up`` and ``-down``: of range ``up + down``."""
    a, b = math.exp(up * H), math.exp(-down * H)
    q = (1 - b) / (a - b)
    return (up, -down), (a * q, 1 - a * q)


def discrete_gaussian(share):
    """Unit shift, sigma^2 = 1 / (2 share H): its loss at x is (2x - 1) share H."""
    x = np.arange(-80, 82)
    mass = np.exp(-((x - 1.0) ** 2) * float(share * H))
    mass /= mass.sum()
    kept = mass > 1e-12
    losses = tuple(int(v) for v in (2 * x[kept] - 1) * share)
    return losses, tuple(mass[kept].tolist())


def true_delta(steps, capacity, epsilons, *, reach=250):
    """Largest delta, at each epsilon, that any adaptive choice of steps within capacity attains."""
    losses = np.arange(-reach, reach + 1)
    stop = np.maximum(0.0, -np.expm1(np.asarray(epsilons)[:, None] - losses * float(H)))
    values = [stop]
    for left in range(1, capacity + 1):
        best = stop.copy()
        for step in steps:
            if step.cost <= left:
                # Losses beyond the table count as its ends, which are worth nearly 0 and 1.
                mean = np.zeros_like(stop)
                wide = np.pad(values[left - step.cost], ((0, 0), (reach, reach)), mode="edge")
                for loss, chance in zip(step.losses, step.chances, strict=True):
                    start = reach + min(max(loss, -reach), reach)
                    mean += chance * wide[:, start : start + losses.size]
                np.maximum(best, mean, out=best)
        values.append(best)
    return values[capacity][:, reach]


def known_mechanisms(largest):
    """Events with the exact laws they may have: any bounded range, both ways, and Gaussians."""
    found = []
    for k in range(1, largest + 1):
        epsilon = float(k * H)
        found.append((acc.PureEvent(epsilon=epsilon), two_outcomes(k, k)))
        found += [
            (acc.SelectionEvent(epsilon=epsilon), two_outcomes(j, k - j)) for j in range(1, k)
        ]
    for share in (1, 2):
        sigma = math.sqrt(1 / (2 * share * H))
        found.append((acc.GaussianEvent(sensitivity=1, sigma=sigma), discrete_gaussian(share)))
    return found


@pytest.mark.parametrize(
    ("currency", "amount", "order"),
    [("pure", 1.0, None), ("zcdp", 0.3, None), ("renyi", 0.6, 4.0), ("renyi", 0.6, 12.0),
     ("gdp", 0.6, None)],
)  # fmt: skip
def test_no_adaptive_choice_beats_what_a_filter_is_worth(currency, amount, order):
    cost = acc.Cost(currency=currency, amount=amount, order=order)
    event = cost.event()
    units = 10 if cost.currency == "pure" else 120
    unit = Fraction(repr(cost.amount)) / units
    steps = []
    for kind, (losses, chances) in known_mechanisms(8):
        if cost.currency == "pure" and isinstance(kind, acc.GaussianEvent):
            continue
        # Rounding a cost up only takes choices from the adversary.
        steps.append(Step(losses, chances, math.ceil(cost.price(kind) / unit)))
    epsilons = [acc.epsilon_of(event, delta) for delta in ATTACKED]
    true = true_delta(steps, units, epsilons)
    assert all(t <= delta * (1 + 1e-9) for t, delta in zip(true, ATTACKED, strict=True))
    assert all(
        t <= acc.delta_of(event, e) * (1 + 1e-9) for t, e in zip(true, epsilons, strict=True)
    )
    assert max(t / delta for t, delta in zip(true, ATTACKED, strict=True)) > 0.05  # a real attack
