"""Marginals that the data chose: the bound against every output of small adversaries."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ground_truth.mask_games import (
    POLICIES,
    SINGLES,
    World,
    answers,
    divergences,
    hockey_sticks,
    in_turn,
    independent,
    likeliest,
)
from missdp.accounting import Cost, FilterEvent, GaussianEvent, MissingCompletelyAtRandom, PureEvent
from missdp.accounting.exact import delta_from_mu
from missdp.accounting.filters import selection_worth
from missdp.errors import ParameterError
from missdp.ground_truth import ChosenGates, gated_delta, ground_truth_guarantee
from missdp.ground_truth.chosen import (
    ORDERS,
    ChosenCosts,
    chosen_costs,
    chosen_curve,
    chosen_epsilon,
)

# The table of privacy.md: 14 attributes, all pairs, delta 1e-6, a third of the budget on one-way
# marginals, a tenth of the rest on selections.

NAMES = [f"a{i}" for i in range(14)]
PAIRS = list(itertools.combinations(NAMES, 2))
RATES = (0.1, 0.2, 0.3, 0.5)


def of_a_fit(epsilon, share=1.0):
    rho = Cost.worth("zcdp", epsilon, 1e-6).amount
    ones, selections = 0.33 * rho, 0.1 * 0.67 * rho
    return ChosenCosts(
        ungated=selections,
        fixed=dict.fromkeys(NAMES, ones / 14),
        chosen=rho - ones - selections,
        gates=PAIRS,
        largest_share=share,
    )


@pytest.mark.parametrize(
    ("share", "epsilon", "expected"),
    [
        (1, 0.5, [0.467, 0.408, 0.346, 0.235]),
        (1, 1.0, [0.960, 0.855, 0.735, 0.500]),
        (1, 2.0, [1.933, 1.809, 1.600, 1.118]),
        (1 / 13, 0.5, [0.452, 0.388, 0.327, 0.222]),
        (1 / 13, 1.0, [0.925, 0.804, 0.683, 0.463]),
        (1 / 13, 2.0, [1.897, 1.691, 1.464, 1.009]),
    ],
)
def test_figures_to_three_digits(share, epsilon, expected):
    """Of a spanning tree the published ones are .805, 1.703 and 1.012 at worse orders."""
    costs = of_a_fit(epsilon, share)
    found = [chosen_epsilon(costs, 1e-6, dict.fromkeys(NAMES, 1 - rate)) for rate in RATES]
    np.testing.assert_allclose(found, expected, atol=6e-4)


def of_sets(gates):
    """Each set by itself, as if it had an attribute of its own: nothing is said of any two."""
    return [(" ".join(gate),) for gate in gates]


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [
        (0.5, [0.491, 0.456, 0.416, 0.324]),
        (1.0, [1.000, 0.950, 0.880, 0.708]),
        (2.0, [2.001, 2.001, 1.887, 1.606]),
    ],
)
def test_figures_without_independence_within_a_row(epsilon, expected):
    """Only how likely each set is: marginals of single attributes are counted with the others."""
    costs = of_a_fit(epsilon)
    sets = [*((n,) for n in NAMES), *PAIRS]
    every = ChosenCosts(
        ungated=costs.ungated,
        chosen=costs.chosen + sum(costs.fixed.values()),
        gates=of_sets(sets),
    )
    found = [
        chosen_epsilon(
            every,
            1e-6,
            {name[0]: (1 - rate) ** len(s) for name, s in zip(of_sets(sets), sets, strict=True)},
        )
        for rate in RATES
    ]
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(
    "masks",
    [
        {(): 0.5, ("a", "b", "c"): 0.5},
        {("a",): 0.3, ("b",): 0.3, ("c",): 0.4},
        {("a", "b"): 0.2, ("b", "c"): 0.2, ("c",): 0.3, (): 0.3},
    ],
)
def test_of_masks_that_go_together_only_the_chances_of_sets_are_needed(policy, masks):
    for gates in (SINGLES, [*SINGLES, *itertools.combinations("abc", 2)]):
        chances = {
            name[0]: sum(p for mask, p in masks.items() if set(gate) <= set(mask))
            for name, gate in zip(of_sets(gates), gates, strict=True)
        }
        q, ratio = World(masks, gates).play(policy, 3, 1.0)
        costs = ChosenCosts(chosen=1.0, gates=of_sets(gates))
        orders = np.array([2, 3, 5])
        for n, bound in zip(orders, chosen_curve(costs, chances, orders=orders), strict=True):
            assert divergences(q, ratio, int(n)) <= bound
        halved = {name: p / 4 for name, p in chances.items()}
        wrong = chosen_curve(costs, halved, orders=orders)
        assert any(divergences(q, ratio, int(n)) > w for n, w in zip(orders, wrong, strict=True))


def test_it_rises_with_what_is_observed_and_with_the_family():
    names, some = NAMES[:5], ORDERS[:40:7]
    pairs = list(itertools.combinations(names, 2))
    found = [
        [
            chosen_curve(ChosenCosts(ungated=0.001, chosen=0.02, gates=gates), rates, orders=some)
            for p in (0.0, 0.3, 0.8, 1.0)
            for rates in [dict.fromkeys(names, p)]
        ]
        for gates in (pairs[:1], pairs[:4], pairs, [*pairs, *((n,) for n in names)])
    ]
    for row in found:
        for less, more in itertools.pairwise(row):
            assert (less <= more * (1 + 1e-9)).all()
        np.testing.assert_allclose(row[0], 0.001 * some, rtol=1e-6)
        np.testing.assert_allclose(row[-1], 0.021 * some, rtol=1e-6)
    for fewer, larger in itertools.pairwise(found):
        for less, more in zip(fewer, larger, strict=True):
            assert (less <= more * (1 + 1e-9)).all()


@settings(max_examples=30, deadline=None)
@given(
    st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), max_size=4),
    st.floats(1e-9, 2.0),
    st.floats(0.0, 1.0),
    st.floats(0.05, 1.0),
)
def test_it_is_never_worse_than_no_amplification(rates, chosen, ungated, share):
    gates = [*itertools.combinations("abcd", 2), "abc"]
    costs = ChosenCosts(
        ungated=ungated, fixed={"a": 0.1}, chosen=chosen, gates=gates, largest_share=share
    )
    orders = np.array([2, 3, 9, 40])
    curve = chosen_curve(costs, rates, orders=orders)
    assert (curve <= (ungated + chosen + 0.1) * orders * (1 + 1e-6)).all()
    assert (curve >= ungated * orders).all()


def test_very_many_rates_are_rounded_up():
    names = [f"b{i}" for i in range(40)]
    rates = {name: 0.3 + 0.01 * i for i, name in enumerate(names)}
    costs = ChosenCosts(chosen=0.02, gates=itertools.combinations(names, 2))
    found = chosen_epsilon(costs, 1e-6, rates)
    few = chosen_epsilon(
        costs, 1e-6, {n: min(1.0, math.ceil(24 * p) / 24) for n, p in rates.items()}
    )
    assert found == few


# Adversaries: see `mask_games`.

FAMILIES = [SINGLES, list(itertools.combinations("abc", 2)), [("a",), ("b", "c")]]
KNOWN = [
    {"a": 0.5, "b": 0.5, "c": 0.5},
    {"a": 0.1, "b": 0.3, "c": 0.8},
    {"a": 0.3, "b": 0.3, "c": 0.3},
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("gates", FAMILIES)
@pytest.mark.parametrize("rates", KNOWN)
@pytest.mark.parametrize(("rho", "rounds"), [(0.5, 3), (3.0, 2)])
def test_no_adversary_beats_the_bound(policy, gates, rates, rho, rounds):
    world = World(independent(rates), gates)
    q, ratio = world.play(policy, rounds, rho)
    costs = ChosenCosts(chosen=rho, gates=gates)
    orders = np.array([2, 3, 5, 8])
    for n, bound in zip(orders, chosen_curve(costs, rates, orders=orders), strict=True):
        assert divergences(q, ratio, int(n)) <= bound
    for delta in (0.1, 0.01, 1e-4):
        assert hockey_sticks(q, ratio, chosen_epsilon(costs, delta, rates)) <= delta


def test_the_bound_is_near_what_the_adversary_gets():
    rates = {"a": 0.3, "b": 0.3, "c": 0.3}
    q, ratio = World(independent(rates), SINGLES).play(likeliest, 4, 0.5)
    bound = chosen_curve(ChosenCosts(chosen=0.5, gates=SINGLES), rates, orders=np.array([3]))
    assert divergences(q, ratio, 3) > 0.3 * bound[0]


def fine(gates, rates, rho):
    """Chances and likelihood ratios of one Gaussian answer behind each gate, on a fine grid."""
    grid = np.linspace(-9, 14, 301)
    base = norm.pdf(grid) * (grid[1] - grid[0])
    moved = np.exp(math.sqrt(2 * rho) * grid - rho)
    weight, ratio = np.ones(1), np.ones(1)
    for gate in gates:
        p = math.prod(rates[a] for a in gate)
        weight = np.outer(weight, base).ravel()
        ratio = np.outer(ratio, 1 - p + p * moved).ravel()
    return weight, ratio


def test_one_gate_of_the_largest_probability_is_refuted():
    """Two fixed gates of probability .3 and mu = 1 each: .1395 at .1, and one gate says .1344."""
    q, ratio = fine([("a",), ("b",)], {"a": 0.3, "b": 0.3}, 0.5)
    exact = hockey_sticks(q, ratio, 0.1)
    claim = gated_delta(0.1, probability=0.3, profile=lambda e: delta_from_mu(math.sqrt(2.0), e))
    assert exact == pytest.approx(0.1395, abs=1e-4)
    assert claim == pytest.approx(0.1344, abs=1e-4)
    ours = ChosenCosts(chosen=1.0, gates=[("a",), ("b",)], largest_share=0.5)
    for order in (2, 3, 4):
        at = np.array([order])
        assert (
            divergences(q, ratio, order)
            <= chosen_curve(ours, dict.fromkeys("ab", 0.3), orders=at)[0]
        )


def test_the_greedy_adversary_refutes_one_gate_by_a_wide_margin():
    rates = dict.fromkeys("abc", 0.1)
    q, ratio = World(independent(rates), SINGLES).play(likeliest, 4, 1.0)
    claim = gated_delta(0.05, probability=0.1, profile=lambda e: delta_from_mu(math.sqrt(2.0), e))
    assert hockey_sticks(q, ratio, 0.05) > 1.1 * claim


def test_rates_that_are_too_small_are_refuted():
    rates = {"a": 0.5, "b": 0.5, "c": 0.5}
    q, ratio = World(independent(rates), SINGLES).play(likeliest, 4, 0.5)
    halved = {name: p / 2 for name, p in rates.items()}
    orders = np.array([2, 3])
    curve = chosen_curve(ChosenCosts(chosen=0.5, gates=[("a",)]), halved, orders=orders)
    assert all(divergences(q, ratio, int(n)) > x for n, x in zip(orders, curve, strict=True))


def test_masks_that_go_together_are_not_independent_ones():
    """Pairs of attributes that are missing together are observed more often than is assumed."""
    together = {(): 0.5, ("a", "b", "c"): 0.5}
    gates = list(itertools.combinations("abc", 2))
    q, ratio = World(together, gates).play(likeliest, 3, 1.0)
    at = np.array([2])
    wrong = chosen_curve(
        ChosenCosts(chosen=1.0, gates=gates[:1]), dict.fromkeys("abc", 0.5), orders=at
    )
    right = chosen_curve(ChosenCosts(chosen=1.0, gates=[("a",)]), {"a": 0.5}, orders=at)
    assert wrong[0] < divergences(q, ratio, 2) <= right[0]


class Selecting(World):
    """Rounds of a selection, of which so much is spent, and a marginal."""

    def play(self, rounds, selections, rho):
        self.leaves = []
        self._round(rounds, selections / rounds, rho / rounds, 1.0, np.ones(len(self.chances)))
        return np.array(self.leaves).T

    def _round(self, rounds, selection, rho, q, ratios):
        if rounds == 0:
            self.leaves.append((q, float(self.chances @ ratios)))
            return
        epsilon, names = math.sqrt(8 * selection), list(self.open)
        posterior = self.chances * ratios
        first = max(names, key=lambda g: float(posterior @ self.open[g]))
        # The likeliest set is selected more often if it is observed, and less often if not.
        moved = 2 / (1 + np.exp(-np.where(self.open[first], epsilon, -epsilon)))
        others = [gate for gate in names if gate != first]
        second = max(others, key=lambda g: float(posterior @ self.open[g]))
        alone, there = answers(0.0), answers(math.sqrt(2 * rho))
        for gate, told in ((first, moved), (second, 2 - moved)):
            for a, b in zip(alone, there, strict=True):
                seen = np.where(self.open[gate], b / a, 1.0)
                self._round(rounds - 1, selection, rho, q * a / 2, ratios * told * seen)


@pytest.mark.parametrize("rates", KNOWN)
@pytest.mark.parametrize(("selections", "rho"), [(0.1, 0.5), (0.6, 0.2), (0.02, 2.0)])
def test_selections_that_tell_about_the_mask_are_paid_for(rates, selections, rho):
    q, ratio = Selecting(independent(rates), SINGLES).play(3, selections, rho)
    costs = ChosenCosts(selections=selections, unselected=0.0, chosen=rho, gates=SINGLES)
    orders = np.array([2, 4])
    for n, bound in zip(orders, chosen_curve(costs, rates, orders=orders), strict=True):
        assert divergences(q, ratio, int(n)) <= bound
    for delta in (0.1, 1e-3):
        assert hockey_sticks(q, ratio, chosen_epsilon(costs, delta, rates)) <= delta


def test_forgetting_the_selections_is_refuted():
    rates = {"a": 0.1, "b": 0.3, "c": 0.8}
    q, ratio = Selecting(independent(rates), SINGLES).play(3, 0.6, 0.2)
    at = np.array([2])
    forgotten = chosen_curve(ChosenCosts(chosen=0.2, gates=SINGLES), rates, orders=at)
    assert divergences(q, ratio, 2) > forgotten[0]


def test_what_selections_do_not_spend_may_be_spent_on_marginals():
    """With all of it behind one set that is surely observed, the larger end counts."""
    at = np.array([2, 10])
    costs = ChosenCosts(selections=0.01, unselected=0.05, chosen=0.1, gates=[()])
    np.testing.assert_allclose(chosen_curve(costs, {}, orders=at), 0.15 * at, rtol=1e-6)
    rarely = ChosenCosts(selections=0.01, unselected=0.05, chosen=0.1, gates=[("a",)])
    np.testing.assert_allclose(chosen_curve(rarely, {"a": 0.0}, orders=at), 0.01 * at, rtol=1e-6)
    only = ChosenCosts(selections=0.05, unselected=0.05, gates=[("a",)])
    np.testing.assert_allclose(chosen_curve(only, {"a": 0.5}, orders=at), 0.05 * at, rtol=1e-6)


def test_what_selections_leave_counts_behind_the_sets():
    at, rates = np.array([6]), {"a": 0.3}
    all_left = chosen_curve(ChosenCosts(chosen=1.0, gates=[("a",)]), rates, orders=at)[0]
    kept = ChosenCosts(selections=0.001, unselected=0.5, chosen=0.5, gates=[("a",)])
    assert all_left <= chosen_curve(kept, rates, orders=at)[0] < 1.01 * all_left


def test_what_is_proven_of_absent_against_present_is_larger_where_little_is_spent():
    """No better proof of that direction is known, so nothing smaller is claimed."""
    n, p, rho = 8, 0.5, 1e-6
    costs = ChosenCosts(chosen=rho, gates=[("a",), ("b",)])
    found = chosen_curve(costs, {"a": p, "b": 0.1}, orders=np.array([n]))[0]
    assert found == pytest.approx(rho * p * (1 + (n - 1) * p), rel=1e-8)
    beside = ChosenCosts(selections=rho, unselected=9 * rho, chosen=rho, gates=[("a",)])
    back = 10 * rho * p * (1 + (n - 1) * p)
    assert chosen_curve(beside, {"a": p}, orders=np.array([n]))[0] >= back


def test_a_share_needs_every_set_to_keep_to_it():
    """Each set asked once keeps to its share; one set asked thrice does not."""
    rates = dict.fromkeys("abc", 0.3)
    world = World(independent(rates), SINGLES)
    costs = ChosenCosts(chosen=1.5, gates=SINGLES, largest_share=1 / 3)
    at = np.array([3])
    bound = chosen_curve(costs, rates, orders=at)[0]
    assert divergences(*world.play(in_turn, 3, 1.5), 3) <= bound
    assert bound < chosen_curve(ChosenCosts(chosen=1.5, gates=SINGLES), rates, orders=at)[0]


# Events and structures


def cap(amount, label="", gate=None):
    capacity = GaussianEvent(sensitivity=math.sqrt(amount), sigma=1.0, discrete=False)
    return FilterEvent(capacity=capacity, label=label, gate=gate)


STRUCTURE = ChosenGates(among=PAIRS)
PARTS = [
    cap(0.002, "every row"),
    cap(0.004, STRUCTURE.selections),
    *(cap(0.018 / 14, "fixed", {name}) for name in NAMES),
    cap(0.032, STRUCTURE.chosen, PAIRS[0]),
]


def test_costs_of_caps():
    found = chosen_costs(PARTS, STRUCTURE)
    assert found.ungated == pytest.approx(0.001)
    assert found.unselected == pytest.approx(0.002)
    epsilon = selection_worth(Cost(currency="gdp", amount=0.004))
    assert found.selections == pytest.approx(epsilon**2 / 8)
    assert found.selections < 0.0013
    assert sum((found.fixed or {}).values()) == pytest.approx(0.009)
    assert found.chosen == pytest.approx(0.016)


@pytest.mark.parametrize("pieces", [1, 2, 7, 50])
def test_no_split_of_the_selections_costs_more(pieces):
    cost = Cost(currency="gdp", amount=0.5 / pieces)
    (rest, *_) = [chosen_costs([cap(0.5, STRUCTURE.selections)], STRUCTURE).selections]
    assert pieces * selection_worth(cost) ** 2 / 8 <= rest


def test_a_guarantee_carries_what_it_rests_on_and_is_read_back():
    known = MissingCompletelyAtRandom(dict.fromkeys(NAMES, 0.7))
    found = ground_truth_guarantee(PARTS, known, structure=STRUCTURE, delta=1e-6)
    assert found.epsilon < 0.8
    assert {STRUCTURE, known} <= set(found.conditions)
    assert type(found).from_json(found.to_json()) == found


def test_what_is_always_observed_amplifies_nothing():
    known = MissingCompletelyAtRandom(dict.fromkeys(NAMES, 1.0))
    plain = ground_truth_guarantee(PARTS, known, structure=STRUCTURE, delta=1e-6)
    assert plain.epsilon == pytest.approx(1.0, abs=0.03)
    assert STRUCTURE not in plain.conditions


def test_refusals():
    with pytest.raises(ParameterError):
        ChosenGates(among=[])
    with pytest.raises(ParameterError):
        ChosenCosts(chosen=1.0)
    with pytest.raises(ParameterError):
        ChosenCosts(chosen=1.0, gates=["a"], largest_share=0.0)


def test_a_cap_at_one_order_says_nothing_of_what_it_would_not_accept():
    """(1, 1e-6) by one order would say (.561, .01); one pure release of epsilon 1 has .26 there."""
    cost = Cost.worth("renyi", 1.0, 1e-6)
    reread = cost.epsilon(0.01)
    assert reread == pytest.approx(0.561, abs=2e-3)
    assert (math.e - math.exp(reread)) / (math.e + 1) == pytest.approx(0.26, abs=2e-3)
    with pytest.raises(ParameterError, match="more than its capacity"):
        FilterEvent(capacity=cost.event(), log=[PureEvent(epsilon=1.0)])
