"""Several releases of one table see one draw of the missing cells."""

import itertools
import math

import numpy as np
import pytest

from ground_truth.mask_games import SINGLES, World, divergences, independent, likeliest
from missdp import AIM, MST, Categorical, PrivBayes, Schema, Table
from missdp.accounting import (
    BoundedObservation,
    Cost,
    FilterEvent,
    FixedSchedule,
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
from missdp.ground_truth.jointly import _merged

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
