"""A filter costs its whole capacity. Its price never depends on the amount that was spent."""

import math
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import accounting as acc
from missdp.accounting.exact import epsilon_from_rho
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.ground_truth import ground_truth_guarantee
from missdp.profiles import delta_of

DELTAS = np.geomspace(1e-12, 0.1, 20)


@pytest.mark.parametrize("privacy_measure", ["zcdp", "gdp"])
def test_an_adaptive_guarantee_is_never_reread_from_what_was_spent(privacy_measure):
    budget = acc.Filter(1.0, 1e-6, measure=privacy_measure)
    budget.charge(acc.GaussianEvent(sensitivity=1, sigma=20.0, discrete=False))
    guarantee = budget.spent
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 1e-6)
    assert guarantee.epsilon_at(guarantee.delta) >= guarantee.epsilon
    for both in (guarantee.compose(acc.Guarantee(0.0)), acc.Guarantee(0.0).compose(guarantee)):
        assert both.epsilon == pytest.approx(guarantee.epsilon, rel=1e-9)
    (event,), cost = guarantee.events, guarantee.events[0].cost
    for delta in DELTAS:
        cap = cost.epsilon(delta)
        if privacy_measure == "zcdp":
            assert cap == epsilon_from_rho(event.capacity.rho, delta)
        assert guarantee.epsilon_at(delta) == pytest.approx(cap, rel=1e-6)
    # Two filters add up.
    both, double = guarantee.compose(guarantee), replace(cost, amount=2 * cost.amount)
    assert both.epsilon == pytest.approx(double.epsilon(2e-6), rel=1e-9)
    for delta in DELTAS[DELTAS < 2e-6]:
        assert both.epsilon_at(delta) == pytest.approx(double.epsilon(delta), rel=1e-9)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.1, 1e-9), (1.0, 1e-6), (8.0, 1e-3), (50, 1e-5)])
def test_capacities_are_worth_the_target_and_not_more(epsilon, delta):
    for privacy_measure in ("zcdp", "gdp"):
        cost = acc.Cost.from_epsilon(privacy_measure, epsilon, delta)
        assert epsilon * (1 - 1e-6) <= cost.epsilon(delta) <= epsilon
        assert acc.epsilon_of(cost.event(), delta) <= epsilon * (1 + 1e-12)
    assert acc.Cost.from_epsilon("zcdp", epsilon, delta).amount == pytest.approx(
        acc.zcdp_rho(epsilon, delta)
    )


def test_a_part_costs_its_cap_whatever_it_spends():
    total = acc.Filter(3.0, 1e-5, measure="zcdp")
    fits = [total.reserve(acc.Filter(1.0, 1e-6, measure="zcdp"), label="fit") for _ in range(8)]
    assert 3.0 - total.remaining_epsilon == pytest.approx(2.8, abs=0.05)
    before = total.remaining
    fits[0].charge(acc.GaussianEvent(sensitivity=1, sigma=9.0))
    assert total.remaining == before
    assert len(total.events[0].log) == 1
    assert total.events[0].label == "fit"
    with pytest.raises(BudgetExceededError):
        fits[0].charge(acc.GaussianEvent(sensitivity=1, sigma=5.0))
    total.reserve(acc.Filter(1.0, 1e-6, measure="zcdp"))
    with pytest.raises(BudgetExceededError):
        total.reserve(acc.Filter(1.0, 1e-6, measure="zcdp"))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (0.3, 1e-9), (2.5, 1e-5), (1.0, 0.0)])
def test_a_part_that_is_worth_the_whole_fits_into_it(epsilon, delta):
    """A part with the whole capacity fits, although the square of its mu is rounded.

    The sum of the squares must also fit after it was written to a file.
    """
    for measure in ("zcdp", "gdp") if delta else ("pure",):
        whole, part = (acc.Filter(epsilon, delta, measure=measure) for _ in range(2))
        whole.reserve(part)
        assert whole.remaining.amount == 0
        assert not whole.can_afford(acc.PureEvent(epsilon=1e-9))
        assert acc.Guarantee.from_json(whole.spent.to_json()) == whole.spent


def test_an_adaptive_budget_is_not_amplified():
    """Spent whole or not: fixed scales and required attributes would be a false claim."""
    known = acc.MissingCompletelyAtRandom({"a": 0.5})
    for amount in (1.0, 0.4):
        budget = acc.Filter(1.0)
        budget.charge(acc.PureEvent(epsilon=amount, required={"a"}))
        truth = ground_truth_guarantee(budget.spent, known)
        assert truth.epsilon == 1.0
        assert acc.FixedSchedule() not in truth.conditions


def test_a_log_beyond_its_capacity_is_refused():
    """Under replace-one, a release that was made under add-remove counts twice its mu.

    A log that fits into the capacity only as it stands is rejected, because a file may have been
    edited.
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


def test_a_live_filter_never_prices_its_log_again(monkeypatch):
    budget = acc.Filter(1.0, 1e-6)
    for k in range(4):
        budget.charge(acc.GaussianEvent(sensitivity=1, sigma=30.0 + k))
    priced = []
    price = acc.Cost.price
    monkeypatch.setattr(acc.Cost, "price", lambda c, e: priced.append(e) or price(c, e))
    event = budget.filter()
    assert (len(event.log), budget.events, len(priced)) == (4, event.log, 0)
    assert budget.spent.events == (event,)
    budget.charge(event.log[0])
    assert [e for e in priced if e in event.log] == [event.log[0]]
    priced.clear()
    assert acc.FilterEvent.from_json(event.to_json()) == event  # a file may have been edited
    assert set(event.log) <= set(priced)


# Failures: events that hold but for a delta of their own


@pytest.mark.parametrize("measure", ["pure", "zcdp", "gdp"])
def test_failures_add_up_to_their_part_of_delta(measure):
    budget = acc.Filter(1.0, 1e-5, measure=measure, failure=4e-6)
    fails = acc.ApproximateEvent(epsilon=0.01, delta=1e-6)
    for _ in range(4):
        budget.charge(fails)
    assert not budget.can_afford(fails)
    assert budget.can_afford(acc.PureEvent(epsilon=0.01))
    spent = budget.spent
    assert (spent.epsilon, spent.delta) == (1.0, 1e-5)
    assert acc.proven_epsilon(spent.events, 1e-5) <= 1.0
    assert math.isinf(acc.proven_epsilon(spent.events, 3.9e-6))
    assert acc.Guarantee.from_json(spent.to_json()) == spent
    with pytest.raises(ParameterError, match="smaller than the events prove"):
        replace(spent, events=(*spent.events, fails))


@pytest.mark.parametrize("measure", [None, "pure", "zcdp", "gdp"])
def test_failure_beyond_delta_raises(measure):
    with pytest.raises(ParameterError, match="at most delta"):
        acc.Filter(1.0, 1e-6, measure=measure, failure=1.1e-6)


@pytest.mark.parametrize("measure", ["pure", "zcdp", "gdp"])
def test_a_filter_without_failure_refuses_every_delta(measure):
    budget = acc.Filter(1.0, 1e-5, measure=measure)
    with pytest.raises(BudgetExceededError):
        budget.charge(acc.ApproximateEvent(epsilon=0.0, delta=1e-300))
    assert budget.events == ()


def test_events_beside_a_reserved_part_are_charged_with_it():
    budget = acc.Filter(1.0, 1e-5, failure=1.5e-6)
    fails = acc.ApproximateEvent(epsilon=0.01, delta=1e-6)
    part = acc.Filter(0.1, 1e-6)
    budget.reserve(part, extra_events=[fails])
    assert budget.events == (part.filter(), fails)
    left = budget.remaining
    with pytest.raises(BudgetExceededError):
        budget.reserve(acc.Filter(0.1, 1e-6), extra_events=[fails])
    assert (budget.remaining, len(budget.events)) == (left, 2)


def test_failures_are_not_counted_for_units():
    budget = acc.Filter(1.0, 1e-5, failure=1e-6)
    with pytest.raises(UnprovenError, match="different units"):
        budget.reserve(acc.Filter(0.1, 1e-6)._for_units("patient", 2))


@pytest.mark.parametrize("measure", ["pure", "zcdp", "gdp"])
def test_a_part_with_failures_costs_its_failures_wherever_its_event_is_read(measure):
    """The event alone, without the guarantee or the budget that made it, states both numbers."""
    part = acc.Filter(0.5, 1e-5, measure=measure, failure=4e-6)
    part.charge(acc.ApproximateEvent(epsilon=0.01, delta=1e-6))
    (event,) = part.spent.events
    assert event.failure == 4e-6
    assert math.isinf(acc.proven_epsilon([event], 3.9e-6))
    assert acc.proven_epsilon([event], 1e-5) <= 0.5
    with pytest.raises(UnprovenError, match="no epsilon is proven at delta"):
        acc.Guarantee.from_events([event], delta=3.9e-6)
    shared = acc.Filter(2.0, 2e-5, measure=measure, failure=5e-6)
    shared.charge(event)
    with pytest.raises(BudgetExceededError):
        shared.charge(event)
    with pytest.raises(BudgetExceededError):
        acc.Filter(2.0, 2e-5, measure=measure).charge(event)
    assert acc.Composition([event], 0.5, 1e-5).epsilon == 0.5
    with pytest.raises(UnprovenError, match="nothing is proven for a plan"):
        acc.Composition([event], 0.5, 3.9e-6)


def test_a_log_whose_deltas_exceed_the_failure_is_refused():
    part = acc.Filter(0.5, 1e-5, failure=4e-6)
    for _ in range(4):
        part.charge(acc.ApproximateEvent(epsilon=0.01, delta=1e-6))
    event = part.filter()
    assert acc.FilterEvent(capacity=event.capacity, log=tuple(event.log), failure=4e-6) == event
    with pytest.raises(ParameterError, match="exceed its failure"):
        acc.FilterEvent(capacity=event.capacity, log=tuple(event.log), failure=3.9e-6)
    with pytest.raises(ParameterError, match="exceed its failure"):
        acc.FilterEvent(capacity=event.capacity, log=tuple(event.log))
    # An add-remove event with a delta costs more than twice that delta under replace-one.
    facts = {"capacity": acc.PureEvent(epsilon=0.5, adjacency="replace-one"), "failure": 0.1}
    facts |= {"adjacency": "replace-one"}
    acc.FilterEvent(log=[acc.ApproximateEvent(epsilon=0.01, delta=0.04)], **facts)
    with pytest.raises(ParameterError, match="exceed its failure"):
        acc.FilterEvent(log=[acc.ApproximateEvent(epsilon=0.01, delta=0.06)], **facts)


# Charges and parts in any privacy measure
amounts = st.floats(1e-4, 0.4)
PLAIN = st.one_of(
    st.builds(acc.PureEvent, epsilon=amounts),
    st.builds(acc.SelectionEvent, epsilon=amounts),
    st.builds(acc.LaplaceEvent, sensitivity=st.just(1.0), scale=st.floats(2, 1e4)),
    st.builds(acc.GaussianEvent, sensitivity=st.just(1.0), sigma=st.floats(2, 1e4)),
    st.builds(acc.ZCDPEvent, rho=st.floats(1e-6, 0.02)),
)
COSTS = st.one_of(
    st.builds(acc.Cost, privacy_measure=st.just("pure"), amount=amounts),
    st.builds(acc.Cost, privacy_measure=st.just("zcdp"), amount=st.floats(1e-6, 0.02)),
)


def oracle(event, privacy_measure):
    """Return the textbook price of a release in a privacy measure, or None if it has none."""
    if isinstance(event, acc.FilterEvent):
        event = event.capacity
    if isinstance(event, acc.GaussianEvent | acc.ZCDPEvent):
        gaussian = isinstance(event, acc.GaussianEvent)
        rho = 1 / Fraction(event.sigma) ** 2 / 2 if gaussian else Fraction(repr(event.rho))
        return {"pure": None, "zcdp": rho}[privacy_measure]
    laplace = isinstance(event, acc.LaplaceEvent)
    epsilon = 1 / Fraction(event.scale) if laplace else Fraction(repr(event.epsilon))
    rho = epsilon**2 / (8 if isinstance(event, acc.SelectionEvent) else 2)
    return {"pure": epsilon, "zcdp": rho}[privacy_measure]


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.one_of(PLAIN, COSTS), max_size=14),
    privacy_measure=st.sampled_from(["pure", "zcdp"]),
    spend=st.floats(0.05, 1.0),
)
def test_any_mixture_of_charges_and_parts_adds_up_exactly(steps, privacy_measure, spend):
    budget = acc.Filter(1.5, 1e-5, measure=privacy_measure)
    cap, spent = Fraction(repr(budget.cost.amount)), Fraction(0)
    for step in steps:
        before = (budget.events, budget.remaining, budget.remaining_epsilon)
        try:
            if isinstance(step, acc.Cost):
                part = budget.reserve(acc.Filter.from_cost(step, delta=1e-6))
                held = budget.remaining
                part.charge(replace(step, amount=step.amount * min(1.0, 2 * spend)).event())
                assert budget.remaining == held  # spending from a part costs nothing more
            else:
                budget.charge(step)
        except (BudgetExceededError, UnprovenError) as refused:
            assert (budget.events, budget.remaining, budget.remaining_epsilon) == before
            event = step.event() if isinstance(step, acc.Cost) else step
            price = oracle(event, privacy_measure)
            if isinstance(refused, UnprovenError):
                assert price is None
            else:
                assert spent + price > cap * (1 - Fraction(1, 10**9))
            continue
        spent += oracle(budget.events[-1], privacy_measure)
        assert budget.remaining.amount <= before[1].amount  # nothing is refunded
    assert spent <= cap
    assert budget.remaining.amount == pytest.approx(float(cap - spent), abs=1e-9)
    assert Fraction(repr(budget.remaining.amount)) <= cap - spent  # exactly
    if budget.events:
        assert (budget.spent.epsilon, budget.spent.delta <= 1e-5) == (1.5, True)
        assert acc.FixedSchedule() not in budget.spent.conditions


def test_a_replace_one_budget_takes_both_and_converts():
    budget = acc.Filter(5.0, adjacency="replace-one")
    budget.charge(acc.PureEvent(epsilon=0.5, label="a fit"))
    budget.charge(acc.LaplaceEvent(sensitivity=2, scale=9.0, adjacency="replace-one"))
    fit = budget.reserve(acc.Filter(0.3), label="another fit")
    assert fit.adjacency == "add-remove"
    assert acc.proven_epsilon(budget.events, 0.0, "replace-one") == pytest.approx(1.0 + 2 / 9 + 0.6)
    assert budget.spent.adjacency == "replace-one"
    assert budget.remaining.amount == pytest.approx(5 - 1.0 - 2 / 9 - 0.6)


# The best attack of an adaptive analyst against a filter, by backward induction alone. Every
# mechanism has finitely many outputs, whose losses log(P/Q) are multiples of h. The state is the
# loss so far and the remaining capacity, both as whole numbers of units.
H = Fraction(1, 10)
ATTACKED = np.geomspace(1e-9, 0.3, 20)


@dataclass(frozen=True)
class Step:
    """A mechanism: its losses in units of H, their probabilities under P, and its cost."""

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
    ("privacy_measure", "amount"), [("pure", 1.0), ("zcdp", 0.3), ("gdp", 0.6)]
)
def test_no_adaptive_choice_beats_what_a_filter_is_worth(privacy_measure, amount):
    cost = acc.Cost(privacy_measure=privacy_measure, amount=amount)
    event = cost.event()
    units = 10 if cost.privacy_measure == "pure" else 120
    unit = Fraction(repr(cost.amount)) / units
    steps = []
    for kind, (losses, chances) in known_mechanisms(8):
        if cost.privacy_measure == "pure" and isinstance(kind, acc.GaussianEvent):
            continue
        # Rounding a cost up only takes choices from the adversary.
        steps.append(Step(losses, chances, math.ceil(cost.price(kind) / unit)))
    epsilons = [acc.epsilon_of(event, delta) for delta in ATTACKED]
    true = true_delta(steps, units, epsilons)
    assert all(t <= delta * (1 + 1e-9) for t, delta in zip(true, ATTACKED, strict=True))
    assert all(t <= delta_of(event, e) * (1 + 1e-9) for t, e in zip(true, epsilons, strict=True))
    assert max(t / delta for t, delta in zip(true, ATTACKED, strict=True)) > 0.05  # a real attack


def test_add_remove_filter_replace_one_event_raises():
    budget = acc.Filter(1.0)
    with pytest.raises(UnprovenError, match="replace-one"):
        budget.charge(acc.PureEvent(epsilon=0.1, adjacency="replace-one"))
    assert budget.events == ()
