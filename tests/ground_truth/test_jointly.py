"""Several releases of one table see one draw of the missing cells."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from ground_truth.mask_games import (
    SINGLES,
    World,
    answers,
    divergences,
    hockey_sticks,
    independent,
    likeliest,
)
from missdp import AIM, MST, Categorical, PrivBayes, Schema, Table
from missdp.accounting import (
    BoundedObservation,
    Cost,
    FilterEvent,
    FixedSchedule,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    MissingCompletelyAtRandom,
    PureEvent,
    RowIndependentMissingness,
    ZCDPEvent,
)
from missdp.errors import NotFittedError, ParameterError, UnprovenError
from missdp.ground_truth import (
    ChosenGates,
    DataChosenGates,
    FixedGates,
    ground_truth_guarantee,
    joint,
)
from missdp.ground_truth.chosen import chosen_costs, chosen_curve
from missdp.ground_truth.jointly import _merged, _of_all

pytestmark = pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")

SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "abcd"))
KNOWN = MissingCompletelyAtRandom(dict.fromkeys("abcd", 0.5))


def fitted(family, **options):
    rng = np.random.default_rng(3)
    codes = {n: rng.choice(3, 2000, p=(0.3, 0.2, 0.5)) for n in "abcd"}
    return family(epsilon=1.0, **options).fit(Table.from_codes(SCHEMA, codes))


FITS = {
    "aim": (AIM, {"missing": "observed", "rounds": 2, "model_rows": 500}),
    "tree": (MST, {"missing": "observed"}),
    "complete": (MST, {"missing": "complete-rows"}),
    "joint": (MST, {"missing": "joint"}),
    "network": (PrivBayes, {"missing": "observed", "delta": 0.0}),
    "pure": (PrivBayes, {"missing": "complete-rows", "delta": 0.0}),
}


@pytest.fixture(scope="module")
def fits():
    return {name: fitted(family, **options) for name, (family, options) in FITS.items()}


def test_two_that_read_the_same_rows():
    """Exactly: two answers of randomised response behind one coin have this log-ratio."""
    known, event = BoundedObservation(0.5), PureEvent(epsilon=1.0, gate={"a"})
    one = ground_truth_guarantee(event, known, structure=FixedGates())
    both = joint([one, one], known)
    exact = math.log(0.5 + 0.5 * math.exp(2.0))
    assert both.epsilon == pytest.approx(exact)
    assert both.epsilon > 2 * one.epsilon + 0.15
    assert FixedSchedule() in both.conditions
    assert Guarantee.from_json(both.to_json()) == both


FIXED = FixedGates()


def behind(*gates):
    """Gaussian answers of mu 1, one behind each gate, released at once."""
    return [GaussianEvent(sensitivity=1, sigma=1.0, discrete=False, gate=gate) for gate in gates]


def known_of(p, *gates, delta=1e-3):
    return ground_truth_guarantee(
        behind(*gates), BoundedObservation(p), structure=FIXED, delta=delta
    )


GRID = np.linspace(-9, 9, 1201)
WEIGHT = norm.pdf(GRID) * (GRID[1] - GRID[0])


def exact_delta(epsilon, both, either):
    """Of two answers, whose gates are open both with one chance, and either alone with another."""
    one = np.exp(GRID - 0.5)
    ratio = 1 - both - 2 * either + either * np.add.outer(one, one) + both * np.outer(one, one)
    return float(WEIGHT @ np.maximum(ratio - math.exp(epsilon), 0) @ WEIGHT)


@pytest.mark.parametrize(
    ("p", "one_gate", "independent", "exclusive"),
    [(0.3, 0.1344, 0.1395, 0.1465), (0.5, 0.2372, 0.2435, 0.2640)],
)
def test_two_gates_are_not_one(p, one_gate, independent, exclusive):
    """Each release opens its gate with chance p; that both share one gate is not known."""
    assert round(exact_delta(0.1, p, 0), 4) == one_gate
    assert round(exact_delta(0.1, p * p, p * (1 - p)), 4) == independent
    assert round(exact_delta(0.1, 0, p), 4) == exclusive
    releases = [known_of(p, {"a"}), known_of(p, {"b"})]
    both = joint(releases, BoundedObservation(p), delta=one_gate)
    for share in (0, p * p, p):
        assert exact_delta(both.epsilon, share, p - share) <= one_gate
    twice = joint([releases[0]] * 2, BoundedObservation(p), delta=one_gate)
    assert twice.epsilon == pytest.approx(0.1, abs=1e-3)  # one gate, and attained
    stated = BoundedObservation(p, together=True)
    declared = joint(releases, stated, delta=one_gate)
    assert declared.epsilon == pytest.approx(twice.epsilon)
    assert stated in declared.conditions


def test_bounds_add_up_over_releases_that_share_no_gate():
    one = BoundedObservation(0.2)
    a, ab, c, bc = (
        known_of(0.2, *gates) for gates in ([{"a"}], [{"a", "b"}], [{"c"}], [{"b", "c"}])
    )

    def chance(*releases):
        (event,) = joint(releases, one).events
        assert (event.assumption.p_max > 0.2) == event.assumption.together
        assert {one, event.assumption} <= {*joint(releases, one).conditions}
        return event.assumption.p_max

    assert chance(a, ab) == chance(bc, c) == chance(a, a, ab) == 0.2
    assert chance(a, c) == chance(a, bc, c, ab) == pytest.approx(0.4)
    assert chance(a, known_of(0.2, {"b"}), c) == pytest.approx(0.6)
    assert chance(joint([a, c], one), bc) == chance(joint([a, ab], one), bc) == pytest.approx(0.4)
    assert chance(joint([a, c], one), known_of(0.2, {"d"})) == pytest.approx(0.6)
    # What the data chose is shared only where each attribute alone might have been chosen.
    marginals = of([cap(0.1, ChosenGates.chosen, {"a"})], ChosenGates(among=[("a",), ("b",)]))
    for least, most in ((1, 0.2), (2, 0.4)):
        network = of(
            [PureEvent(epsilon=0.1, gate={"a", "b"})],
            DataChosenGates(attributes=["a", "b"], smallest=least),
        )
        merged = _merged([marginals, network])[1]
        assert _of_all([marginals, network], [one, one], merged)[0].p_max == pytest.approx(most)
    pure = [
        ground_truth_guarantee(PureEvent(epsilon=1.0, gate={n}), one, structure=FIXED) for n in "ab"
    ]
    assert joint(pure, one).epsilon == pytest.approx(math.log1p(0.2 * math.expm1(2.0)))


SETS = [frozenset(s) for k in (1, 2, 3) for s in itertools.combinations("abc", k)]


class Fit(tuple):
    """Gates that a release fixed; joint asks for no more than its events, and who chose them."""

    def ground_truth_parts(self):
        return Guarantee(9.0, 1e-3, events=behind(*self)), FIXED


@settings(max_examples=40)
@given(
    law=st.lists(st.integers(0, 5), min_size=7, max_size=7),
    releases=st.lists(
        st.lists(st.sampled_from(SETS), min_size=1, max_size=2), min_size=2, max_size=3
    ).filter(lambda found: sum(map(len, found)) < 5),
    epsilon=st.sampled_from([0.02, 0.1, 0.3]),
)
@example([3, 3, 3, 0, 0, 0, 0], [[SETS[0]], [SETS[1]], [SETS[2]]], 0.02)
@example([3, 2, 1, 0, 1, 2, 0], [[SETS[0], SETS[1]], [SETS[2]], [SETS[3]]], 0.1)
def test_any_masks_and_any_gates(law, releases, epsilon):
    """Cells of a row go missing together in any way; p is the largest chance of any release."""
    masks = dict(zip(SETS, np.array(law) / max(10, sum(law)), strict=True))
    unions = [sum(p for m, p in masks.items() if any(g <= m for g in own)) for own in releases]
    assume(0 < max(unions) < 1)
    gates, chances = (
        [*itertools.chain(*releases)],
        np.array([1 - sum(masks.values()), *masks.values()]),
    )
    opened = np.array([[g <= m for g in gates] for m in [frozenset(), *SETS]])
    alone, there = answers(0.0), answers(1.0)
    places = np.array([*itertools.product(range(len(alone)), repeat=len(gates))])
    ratios = np.where(opened[:, None, :], (there / alone)[places][None], 1.0).prod(axis=2)
    q, ratio = alone[places].prod(axis=1), chances @ ratios
    least = hockey_sticks(q, ratio, epsilon)  # six ranges of each answer: a lower bound
    assume(least > 1e-4)
    known = float(max(unions))
    both = joint(map(Fit, releases), BoundedObservation(known), delta=least)
    assert both.epsilon >= epsilon


@pytest.mark.parametrize("names", list(itertools.combinations_with_replacement(FITS, 2)))
def test_any_two_fits(fits, names):
    models = [fits[name] for name in names]
    alone = [m.ground_truth_guarantee(KNOWN) for m in models]
    both = joint(models, KNOWN)
    whole = models[0].guarantee_.compose(models[1].guarantee_)
    least = max(g.epsilon_at(both.delta) for g in alone)
    assert least * (1 - 1e-6) <= both.epsilon <= whole.epsilon * (1 + 1e-6)
    assert both.delta == pytest.approx(whole.delta)
    assert both.protects == "ground-truth"
    assert Guarantee.from_json(both.to_json()) == both
    if set(names) in ({"tree"}, {"aim", "tree"}, {"aim"}, {"complete"}, {"network"}, {"pure"}):
        assert both.epsilon < 0.95 * whole.epsilon


def test_one_release_is_what_it_is_alone(fits):
    for model in fits.values():
        alone = model.ground_truth_guarantee(KNOWN)
        assert joint([model], KNOWN).epsilon == pytest.approx(alone.epsilon, rel=1e-6)
        assert joint([alone], KNOWN).epsilon == pytest.approx(alone.epsilon, rel=1e-6)


def test_guarantees_and_fits_are_the_same(fits):
    models = [fits["tree"], fits["aim"]]
    guarantees = [model.ground_truth_guarantee(KNOWN) for model in models]
    assert joint(guarantees, KNOWN).epsilon == pytest.approx(joint(models, KNOWN).epsilon)


def test_many_small_fits_cost_less_than_their_sum(fits):
    four = joint([fits["tree"]] * 4, KNOWN).epsilon
    assert four < 4 * fits["tree"].ground_truth_guarantee(KNOWN).epsilon
    assert four > 2 * fits["tree"].ground_truth_guarantee(KNOWN).epsilon


def cap(rho, label="", gate=None):
    return FilterEvent(capacity=ZCDPEvent(rho=rho), label=label, gate=gate)


def of(events, structure):
    return Guarantee.from_events(events, delta=1e-6), structure


def test_shares_of_joined_families():
    """No marginal of one release gets more of the sum than it might of its own."""
    tree = ChosenGates(among=[("a", "b"), ("b", "c"), ("a", "c")], largest_share=0.5)
    any_set = ChosenGates(among=[("a", "b"), ("c",)])
    first = of([cap(0.1, ChosenGates.chosen, {"a", "b"})], tree)
    parts = [cap(0.01, ChosenGates.selections), cap(0.1, ChosenGates.chosen, {"c"})]
    second = of(parts, any_set)
    events, merged = _merged([first, second])
    assert sorted(merged.among) == sorted([*tree.among, *any_set.among])
    assert merged.largest_share == pytest.approx(0.11 / 0.2)  # what selections leave included
    assert chosen_costs(events, merged).chosen == pytest.approx(0.2)
    assert _merged([first, first])[1].largest_share == pytest.approx(0.25)


def test_two_adaptive_releases_played_to_the_end():
    """The second release asks behind the set that the first made likely: exact moments."""
    rates = dict.fromkeys("abc", 0.4)
    q, ratio = World(independent(rates), SINGLES).play(likeliest, 4, 1.0)
    structure = ChosenGates(among=SINGLES)
    one = of([cap(0.5, ChosenGates.chosen, {"a"})], structure)
    events, merged = _merged([one, one])
    orders = np.array([2, 3])
    together = chosen_curve(chosen_costs(events, merged), rates, orders=orders)
    single = chosen_curve(chosen_costs(one[0].events, structure), rates, orders=orders)
    for n, bound, alone in zip(orders, together, single, strict=True):
        found = divergences(q, ratio, int(n))
        assert found <= bound
        assert alone < found


def test_amplified_moments_do_not_add_up():
    """Two answers behind one gate: the moment is more than twice that of one."""
    rates, at = {"a": 0.1}, np.array([6])
    structure = ChosenGates(among=[("a",)])
    one = of([cap(0.3, ChosenGates.chosen, {"a"})], structure)
    k = np.arange(7)
    chance = np.array([math.comb(6, i) * 0.1**i * 0.9 ** (6 - i) for i in k])
    exact = math.log((chance * np.exp(0.6 * k * (k - 1))).sum()) / 5
    single = chosen_curve(chosen_costs(one[0].events, structure), rates, orders=at)[0]
    events, merged = _merged([one, one])
    assert exact > 2 * single
    assert chosen_curve(chosen_costs(events, merged), rates, orders=at)[0] >= exact


def test_pure_releases_whose_gates_the_data_chose():
    structure = DataChosenGates(attributes=("a", "b"), smallest=1)
    known = MissingCompletelyAtRandom({"a": 0.5, "b": 0.5, "c": 0.5})
    one = ground_truth_guarantee(PureEvent(epsilon=1.0, gate={"a"}), known, structure=structure)
    other = ground_truth_guarantee(
        PureEvent(epsilon=0.5, gate={"c"}), known, structure=FixedGates()
    )
    both = joint([one, other], known)
    assert both.delta == 0
    assert both.epsilon == pytest.approx(math.log1p(0.5 * math.expm1(1.5)))


def test_what_was_not_amplified_reads_every_row():
    known = MissingCompletelyAtRandom({"a": 1.0})
    event = LaplaceEvent(sensitivity=1, scale=1.0, gate={"a"})
    same = ground_truth_guarantee(event, known, structure=FixedGates())
    assert joint([same, same], known).epsilon == pytest.approx(2.0)


def test_gates_of_what_was_not_amplified_are_forgotten():
    """Nobody says who chose them: here the data did, from sets that may be empty."""
    known, any_set = MissingCompletelyAtRandom({"a": 0.5}), DataChosenGates(attributes=("a", "b"))
    event = PureEvent(epsilon=1.0, gate={"a"})
    same = ground_truth_guarantee(event, known, structure=any_set)
    assert same.epsilon == 1.0
    assert joint([same, same], known).epsilon == pytest.approx(2.0)


def test_a_delta_of_ones_own(fits):
    models = [fits["tree"], fits["aim"]]
    assert joint(models, KNOWN, delta=1e-4).epsilon < joint(models, KNOWN).epsilon


def test_refusals(fits):
    known = BoundedObservation(0.5)
    event = PureEvent(epsilon=1.0, gate={"a"})
    one = ground_truth_guarantee(event, known, structure=FixedGates())
    with pytest.raises(ParameterError, match="do not add up"):
        joint([one.epsilon, one.epsilon], known)
    with pytest.raises(ParameterError, match="at least one"):
        joint([], known)
    with pytest.raises(UnprovenError, match="another assumption"):
        joint([one, one], BoundedObservation(0.9))
    with pytest.raises(UnprovenError, match="add-remove"):
        joint([one.to_replace_one()], known)
    with pytest.raises(ParameterError, match="who chose the gates"):
        joint([Guarantee.from_events(event)], known)
    with pytest.raises(UnprovenError, match="independently"):
        joint([fits["tree"]], None)
    with pytest.raises(NotFittedError):
        joint([MST(epsilon=1.0)], KNOWN)
    assert joint([fits["tree"]], RowIndependentMissingness()).epsilon == pytest.approx(1.0)


def test_cost_of_an_empty_cap_is_no_obstacle():
    whole = Cost(currency="zcdp", amount=0.02)
    event = FilterEvent(capacity=whole.event())
    plain = Guarantee.from_events(event, delta=1e-6)
    assert joint([plain], KNOWN).epsilon == plain.epsilon
