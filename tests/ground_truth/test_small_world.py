"""Every theorem of docs/referees/proofs.md against adversaries in the exact small world.

First, the theorems hold for all required attributes, rates and costs. Then, smaller claims are
refuted.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from missdp import Categorical, Schema
from missdp import accounting as acc
from missdp.ground_truth import (
    DataChosenRequirements,
    FixedRequirements,
    amplified_epsilon,
    ground_truth_guarantee,
    joint,
    mask_mixture,
)
from missdp.ground_truth.replicas import _chosen_curve, _ChosenCosts, _replica_curve, chosen_epsilon

# A row that is present with a random mask is compared with no row. The next request, its noise and
# the released facts about the row may depend on all earlier answers. They may also depend on the
# mask. Answers are ranges of a Gaussian answer, or of randomised response. Both are
# post-processing, so every proven property of the releases must hold for them. Every output is
# enumerated.
NAMES = "abc"
SINGLES = [("a",), ("b",), ("c",)]
SETS = [frozenset(s) for k in (1, 2, 3) for s in itertools.combinations(NAMES, k)]
EDGES = np.array([-np.inf, -0.8, -0.2, 0.3, 0.9, 1.6, np.inf])


def gaussian(mu):
    """Chances of a Gaussian answer's six ranges, of a row that moves it by mu."""
    return np.diff(norm.cdf(EDGES - mu))


def response(epsilon):
    """Chances of the two answers of randomised response. Without the row, they are swapped."""
    return np.array([1.0, math.exp(epsilon)]) / (1 + math.exp(epsilon))


def independent(rates):
    """Return the chance of each set of observed attributes if cells go missing independently."""
    return {
        frozenset(itertools.compress(rates, seen)): math.prod(
            p if there else 1 - p for p, there in zip(rates.values(), seen, strict=True)
        )
        for seen in itertools.product((0, 1), repeat=len(rates))
    }


class World:
    """A distribution of masks.

    `play` returns each output's chance without the row, and its ratio.
    """

    def __init__(self, masks):
        self.masks, self.chances = list(masks), np.array(list(masks.values()))

    def opens(self, required):
        return np.array([frozenset(required) <= mask for mask in self.masks])

    def play(self, policy, rounds, spent=0.0):
        """Play a policy and return the chances of all outputs, and their ratios.

        The policy returns the distribution without the row, and the distributions with it by mask.
        It also returns the required attributes and the cost.
        """
        self.leaves = []
        self._ask(policy, rounds, 1.0, np.ones(len(self.masks)), spent)
        q, ratio = np.array(self.leaves).T
        assert q.sum() == pytest.approx(1)
        assert (q * ratio).sum() == pytest.approx(1)
        return q, ratio

    def _ask(self, policy, rounds, q, ratios, spent):
        if rounds == 0:
            self.leaves.append((q, float(self.chances @ ratios)))
            return
        alone, there, required, cost = policy(self, self.chances * ratios, rounds, spent)
        there = np.broadcast_to(there, (len(self.masks), len(alone)))
        for place, chance in enumerate(alone):
            moved = np.where(self.opens(required), there[:, place] / chance, 1.0)
            self._ask(policy, rounds - 1, q * chance, ratios * moved, spent + cost)


def in_order(required_sets, laws):

    def policy(world, posterior, rounds, spent):
        place = len(required_sets) - rounds
        alone, there = laws[place]
        return alone, there, required_sets[place], 0.0

    return policy


def turning(required_sets, mus):
    """The same with Gaussian answers, whose sign follows from the past and from the mask."""

    def policy(world, posterior, rounds, spent):
        place = len(required_sets) - rounds
        seems = posterior.sum() > 1
        signs = [1 if (len(mask) % 2 == 0) == seems else -1 for mask in world.masks]
        there = np.array([gaussian(sign * mus[place]) for sign in signs])
        return gaussian(0.0), there, required_sets[place], 0.0

    return policy


def likeliest(required_sets, rho, *, boldly=False, pure=False):
    """Ask for the set that is likeliest by the answers so far.

    Spend more if the row seems present.
    """

    def policy(world, posterior, rounds, spent):
        required = max(required_sets, key=lambda g: float(posterior @ world.opens(g)))
        share = (0.7 if posterior.sum() > 1 else 0.2) if boldly else 1 / rounds
        cost = (rho - spent) * (1.0 if rounds == 1 else share)
        if pure:
            return response(cost)[::-1], response(cost), required, cost
        return gaussian(0.0), gaussian(math.sqrt(2 * cost)), required, cost

    return policy


def divergence(q, ratio, n):
    forth = math.log((q * ratio**n).sum()) / (n - 1)
    return max(forth, math.log((q * ratio ** (1 - n)).sum()) / (n - 1))


def hockey_stick(q, ratio, epsilon):
    forth = (q * np.maximum(ratio - math.exp(epsilon), 0)).sum()
    return max(forth, (q * np.maximum(1 - math.exp(epsilon) * ratio, 0)).sum())


def loss(ratio):
    """The largest log-ratio of any output: pure epsilon."""
    return float(np.abs(np.log(ratio)).max())


chance = st.sampled_from([0.05, 0.3, 0.5, 0.8, 0.97])
rates = st.fixed_dictionaries(dict.fromkeys(NAMES, chance))
required_sets = st.lists(st.sampled_from(SETS), min_size=1, max_size=3)
costs = st.lists(st.sampled_from([0.05, 0.4, 1.0, 1.7]), min_size=3, max_size=3)

FIXED = FixedRequirements()
ANY = DataChosenRequirements(attributes=tuple(NAMES), smallest=1)
some = settings(max_examples=10, deadline=None)
few = settings(max_examples=3, deadline=None)


def responses(those, epsilons):
    return in_order(those, [(response(e)[::-1], response(e)) for e in epsilons])


def answer(mu, required=None):
    return acc.GaussianEvent(sensitivity=mu, sigma=1.0, discrete=False, required=required)


def holds(q, ratio, events, assumption, at=0.1):
    """Whether at the delta that the game reaches at an epsilon no smaller epsilon is claimed."""
    least = hockey_stick(q, ratio, at)
    if least > 1e-5:
        assert claim(events, assumption, delta=least * (1 - 1e-6)) >= at


def claim(events, assumption, structure=FIXED, delta=0.0):
    return ground_truth_guarantee(events, assumption, structure=structure, delta=delta).epsilon


# --- What holds ---
@given(required_sets, rates, costs, st.integers(1, 2))
@settings(max_examples=50, deadline=None)
def test_the_mask_mixture_is_the_loss(required_sets, rates, epsilons, limit):
    epsilons = epsilons[: len(required_sets)]
    _, ratio = World(independent(rates)).play(
        responses(required_sets, epsilons), len(required_sets)
    )
    exact = mask_mixture(required_sets, epsilons, observed=rates)
    assert loss(ratio) <= exact.epsilon <= loss(ratio) + 1e-9  # it is attained
    assert exact.exact
    wide = mask_mixture(required_sets, epsilons, observed=rates, treewidth_limit=limit)
    assert exact.epsilon - 2e-12 <= wide.epsilon <= math.fsum(epsilons) + 2e-12
    stated = [
        acc.PureEvent(epsilon=e, required=g) for e, g in zip(epsilons, required_sets, strict=True)
    ]
    for known in (acc.MissingCompletelyAtRandom(rates), acc.ObservedAtMost(rates)):
        assert loss(ratio) <= claim(stated, known) <= exact.epsilon


def fixed_game(required_sets, rates, mus, how):
    mus = mus[: len(required_sets)]
    plain = in_order(required_sets, [(gaussian(0.0), gaussian(mu)) for mu in mus])
    policy = plain if how == "plain" else turning(required_sets, mus)
    events = [answer(mu, required) for mu, required in zip(mus, required_sets, strict=True)]
    return events, *World(independent(rates)).play(policy, len(required_sets))


ways = st.sampled_from(["plain", "turning"])


@given(required_sets, rates, costs, ways)
@some
def test_divergences_behind_fixed_gates(required_sets, rates, mus, how):
    events, q, ratio = fixed_game(required_sets, rates, mus, how)
    curve = _replica_curve(
        [acc.ZCDPEvent(rho=e.sensitivity**2 / 2, required=e.required) for e in events], rates
    )
    for n in (2, 3, 4):
        assert divergence(q, ratio, n) <= curve[n - 2]


@pytest.mark.long
@given(required_sets, rates, st.permutations([0.1, 0.3, 0.5]), ways)
@example([SETS[0], SETS[1]], dict.fromkeys(NAMES, 0.3), [0.5, 0.5, 0.5], "plain")
@few
def test_loss_distributions_behind_fixed_gates(required_sets, rates, mus, how):
    events, q, ratio = fixed_game(required_sets, rates, mus, how)
    holds(q, ratio, events, acc.MissingCompletelyAtRandom(rates))


@pytest.mark.long
@given(rates, st.sampled_from([0.3, 0.8]), st.sampled_from([0.2, 0.6]))
@few
def test_caps_beside_an_answer_of_all_rows_that_knows_the_mask(rates, alone, every):
    """All pairs at once: an answer about every row may reveal which cells are missing."""
    rates = {name: rates[name] for name in "ab"}
    order = [{"a"}, {"b"}, set()]
    q, ratio = World(independent(rates)).play(turning(order, [alone, alone, every]), 3)
    caps = [
        acc.FilterEvent(capacity=answer(mu), required=required)
        for mu, required in zip((alone, alone, every), ({"a"}, {"b"}, None), strict=True)
    ]
    holds(q, ratio, caps, acc.MissingCompletelyAtRandom(rates))


@pytest.mark.long
@given(rates, st.sampled_from([0.2, 1.0, 3.0]), st.sampled_from([SINGLES, SETS]), st.booleans())
@some
def test_marginals_that_the_data_chose(rates, rho, family, boldly):
    world = World(independent(rates))
    q, ratio = world.play(likeliest(family, rho, boldly=boldly), 3)
    spent = _ChosenCosts(chosen=rho, required_sets=family)
    orders = np.array([2, 3, 5])
    for n, bound in zip(orders, _chosen_curve(spent, rates, orders=orders), strict=True):
        assert divergence(q, ratio, int(n)) <= bound
    assert hockey_stick(q, ratio, chosen_epsilon(spent, 0.01, rates)) <= 0.01
    # By turns, each set with its share.
    q, ratio = world.play(
        in_order(SINGLES, [(gaussian(0.0), gaussian(math.sqrt(2 * rho / 3)))] * 3), 3
    )
    shared = _ChosenCosts(chosen=rho, required_sets=SINGLES, largest_share=1 / 3)
    assert divergence(q, ratio, 3) <= _chosen_curve(shared, rates, orders=np.array([3]))[0]
    fixed = _ChosenCosts(fixed=dict.fromkeys(NAMES, rho / 3), chosen=0.0, required_sets=[("a",)])
    assert divergence(q, ratio, 3) <= _chosen_curve(fixed, rates, orders=np.array([3]))[0]


def selecting(selections, rho, rounds):
    """Select between the two likeliest sets depending on the mask, and measure the other set."""

    def policy(world, posterior, left, spent):
        ranked = sorted(SINGLES, key=lambda g: -float(posterior @ world.opens(g)))
        if left % 2 == 0:
            epsilon = math.sqrt(8 * selections / rounds)
            tilt = np.where(world.opens(ranked[0]), epsilon, -epsilon) / 2
            first = 1 / (1 + np.exp(-2 * tilt))
            return np.array([0.5, 0.5]), np.column_stack([first, 1 - first]), (), 0.0
        return gaussian(0.0), gaussian(math.sqrt(2 * rho / rounds)), ranked[1], 0.0

    return policy


@given(rates, st.sampled_from([(0.1, 0.5), (0.6, 0.2), (0.02, 2.0)]))
@some
def test_selections_that_tell_about_the_mask_are_paid_for(rates, spent):
    selections, rho = spent
    q, ratio = World(independent(rates)).play(selecting(selections, rho, 2), 4)
    paid = _ChosenCosts(selections=selections, unselected=0.0, chosen=rho, required_sets=SINGLES)
    for n in (2, 4):
        assert divergence(q, ratio, n) <= _chosen_curve(paid, rates, orders=np.array([n]))[0]
    assert hockey_stick(q, ratio, chosen_epsilon(paid, 0.01, rates)) <= 0.01


@given(rates, st.sampled_from([0.5, 2.0]), st.booleans(), st.sampled_from([1, 2]))
@some
def test_pure_marginals_that_the_data_chose(rates, epsilon, boldly, smallest):
    family = [required for required in SETS if len(required) >= smallest]
    policy = likeliest(family, epsilon, boldly=boldly, pure=True)
    _, ratio = World(independent(rates)).play(policy, 3)
    structure = DataChosenRequirements(attributes=tuple(NAMES), smallest=smallest)
    event = acc.PureEvent(epsilon=epsilon, required=set(NAMES))
    found = claim(event, acc.MissingCompletelyAtRandom(rates), structure)
    assert loss(ratio) <= found + 1e-12
    best = max(math.prod(rates[a] for a in required) for required in family)
    assert found == pytest.approx(amplified_epsilon(best, epsilon))  # by asking for the best


@given(rates, costs)
@some
def test_distinct_targets_cover_every_assignment(rates, epsilons):
    structure = DataChosenRequirements(attributes=tuple(NAMES), smallest=1, distinct_targets=True)
    events = [acc.PureEvent(epsilon=e, required={a}) for e, a in zip(epsilons, NAMES, strict=True)]
    found = claim(events, acc.MissingCompletelyAtRandom(rates), structure)
    worst = max(
        mask_mixture([{a} for a in order], epsilons, observed=rates).epsilon
        for order in itertools.permutations(NAMES)
    )
    assert found == pytest.approx(
        min(worst, claim(events, acc.MissingCompletelyAtRandom(rates), ANY))
    )


laws = st.lists(st.integers(0, 5), min_size=7, max_size=7)


def any_masks(law):
    found = dict(zip(SETS, np.array(law) / max(10, sum(law)), strict=True))
    return {frozenset(): 1 - sum(found.values()), **found}


MU = 0.4


class Fit(tuple):
    """Required attributes that a release fixed, each with a Gaussian answer."""

    schema_ = Schema((Categorical(name="a", levels=("x",)),))  # of columns alone

    def ground_truth_parts(self):
        return acc.Guarantee(9.0, 1e-3, events=[answer(MU, required) for required in self]), FIXED


releases = st.lists(
    st.lists(st.sampled_from(SETS), min_size=1, max_size=2), min_size=1, max_size=3
).filter(lambda found: sum(map(len, found)) < 5)


@pytest.mark.long
@given(laws, releases, st.sampled_from([0.02, 0.1, 0.3]))
@example([3, 3, 3, 0, 0, 0, 0], [[SETS[0]], [SETS[1]], [SETS[2]]], 0.02)
@example([3, 2, 1, 0, 1, 2, 0], [[SETS[0], SETS[1]], [SETS[2]], [SETS[3]]], 0.1)
@example([5, 5, 0, 0, 0, 0, 0], [[SETS[0]], [SETS[1]]], 0.1)
@few
def test_a_bound_on_being_observed_holds_of_any_masks(law, releases, epsilon):
    """``BoundedObservation``: of one release, or of several, of which p bounds each by itself."""
    masks = any_masks(law)
    unions = [sum(p for m, p in masks.items() if any(g <= m for g in own)) for own in releases]
    assume(0 < max(unions) < 1)
    order = [*itertools.chain(*releases)]
    known = acc.BoundedObservation(float(max(unions)))
    q, ratio = World(masks).play(
        in_order(order, [(gaussian(0.0), gaussian(MU))] * len(order)), len(order)
    )
    least = hockey_stick(q, ratio, epsilon)
    if least > 1e-4:
        assert joint(map(Fit, releases), known, delta=least).epsilon >= epsilon
        if len(releases) == 1:
            assert claim([answer(MU, g) for g in order], known, delta=least) >= epsilon
    _, ratio = World(masks).play(responses(order, [0.4] * len(order)), len(order))
    stated = [acc.PureEvent(epsilon=0.4, required=required) for required in order]
    whole = acc.BoundedObservation(sum(p for m, p in masks.items() if any(g <= m for g in order)))
    for structure in (FIXED, ANY):
        assert loss(ratio) <= claim(stated, whole, structure) + 1e-12


@given(rates, laws)
@some
def test_no_value_of_a_row_loses_more_than_its_largest_chances(rates, law):
    """``ObservedAtMost``: the chances of each row are its own, below the stated ones."""
    share = [(1 + place) / 10 for place in law]
    own = {n: p * min(1.0, s) for (n, p), s in zip(rates.items(), share, strict=False)}
    order, epsilons = [{"a", "b"}, {"b"}, {"a", "c"}], [0.7, 0.4, 0.9]
    _, ratio = World(independent(own)).play(responses(order, epsilons), 3)
    stated = [acc.PureEvent(epsilon=e, required=g) for e, g in zip(epsilons, order, strict=True)]
    assert loss(ratio) <= claim(stated, acc.ObservedAtMost(rates))


@given(required_sets, rates, costs, st.sampled_from(NAMES), chance)
@few
def test_more_observed_smaller_gates_and_larger_costs_cost_more(
    required_sets, rates, epsilons, name, p
):
    epsilons = epsilons[: len(required_sets)]
    before = mask_mixture(required_sets, epsilons, observed=rates).epsilon
    higher = rates | {name: max(rates[name], p)}
    for more in (
        mask_mixture(required_sets, epsilons, observed=higher),
        mask_mixture([required - {name} for required in required_sets], epsilons, observed=rates),
        mask_mixture(required_sets, [e + 0.5 for e in epsilons], observed=rates),
    ):
        assert more.epsilon >= before - 2e-12
    # Where required sets overlap, the retained sets depend on the rates, and the bound is not
    # monotone.
    events = [
        acc.ZCDPEvent(rho=e, required={min(required)})
        for e, required in zip(epsilons, required_sets, strict=True)
    ]
    less, more = (_replica_curve(events, known) for known in (rates, higher))
    assert (less <= more * (1 + 1e-6)).all()


# --- Smaller claims are refuted ---
@pytest.mark.long
def test_smaller_claims_are_refuted():
    """The adversaries have power: each of these claims is false, and is seen to be."""
    even, uneven = dict.fromkeys(NAMES, 0.5), {"a": 0.5, "b": 0.02, "c": 0.02}
    _, ratio = World(independent(even)).play(responses(SINGLES, [1.0] * 3), 3)
    merged = [{"a"}, {"a", "b"}, {"c"}]
    assert loss(ratio) > mask_mixture(merged, [1.0] * 3, observed=even).epsilon + 0.05
    known, at = {"a": 0.1, "b": 0.3, "c": 0.8}, np.array([2])
    q, ratio = World(independent(known)).play(selecting(0.6, 0.2, 2), 4)
    forgotten = _ChosenCosts(chosen=0.2, required_sets=SINGLES)  # its selections
    assert divergence(q, ratio, 2) > _chosen_curve(forgotten, known, orders=at)[0]
    thrice = in_order([("a",)] * 3, [(gaussian(0.0), gaussian(1.0))] * 3)
    q, ratio = World(independent(uneven)).play(thrice, 3)
    shared = _ChosenCosts(chosen=1.5, required_sets=SINGLES, largest_share=1 / 3)
    assert divergence(q, ratio, 2) > _chosen_curve(shared, uneven, orders=at)[0]
    coin, rare = {"a": 0.1, "b": 0.9}, acc.PureEvent(epsilon=1.0, required={"a"})
    _, ratio = World(independent(coin)).play(responses([{"b"}], [1.0]), 1)
    # The claim treats the chosen attribute as fixed, although it came from a choice between two.
    told = mask_mixture([{"a"}], [1.0], observed=coin).epsilon
    either = DataChosenRequirements(attributes=("a", "b"), smallest=1)
    stated = claim(rare, acc.MissingCompletelyAtRandom(coin), either)
    assert told + 0.5 < loss(ratio) <= stated + 1e-12
    _, ratio = World(independent({"a": 0.5})).play(responses([{"a"}] * 2, [1.0, 1.0]), 2)
    assert (
        loss(ratio) > 2 * claim(rare, acc.BoundedObservation(0.5)) + 0.15
    )  # figures do not add up
    halves, laws = dict.fromkeys("ab", 0.5), [(gaussian(0.0), gaussian(m)) for m in (0.3, 0.3, 1.0)]
    q, ratio = World(independent(halves)).play(in_order([{"a"}, {"b"}, ()], laws), 3)
    least, known = hockey_stick(q, ratio, 0.5), acc.MissingCompletelyAtRandom(halves)
    gated = [answer(0.3, {"a"}), answer(0.3, {"b"})]
    for more, enough in (([], False), ([answer(1.0, {"b"})], False), ([answer(1.0)], True)):
        assert (claim([*gated, *more], known, delta=least) >= 0.5) == enough  # all rows enter it
