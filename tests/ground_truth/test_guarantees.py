"""Guarantees for the ground truth: rejected input, conditions that persist, and their numbers."""

import math
from dataclasses import replace

import pytest

from missdp import AIM, MST, Categorical, PrivBayes, Schema
from missdp import accounting as acc
from missdp import ground_truth as gt
from missdp.accounting import (
    BoundedObservation,
    Guarantee,
    MissingCompletelyAtRandom,
    PureEvent,
    ZCDPEvent,
)
from missdp.errors import MissDPError, NotFittedError, ParameterError, UnprovenError
from missdp.ground_truth import DataChosenRequirements, FixedRequirements, joint
from missdp.ground_truth.guarantees import _combined_bound, _merged
from missdp.ground_truth.replicas import _ChosenCosts, chosen_costs
from missdp.profiles import delta_of

RATES = {"a": 0.5, "b": 0.75, "c": 0.25}
MCAR = MissingCompletelyAtRandom(RATES)
FIXED = FixedRequirements()
CHOSEN = DataChosenRequirements(attributes=["a", "b", "c"], smallest=1)
PURE = [
    PureEvent(epsilon=0.5, required={"a"}),
    acc.LaplaceEvent(sensitivity=1, scale=2.0, required={"a", "b"}),
    acc.SelectionEvent(epsilon=0.25),
]


def gaussian(required, sigma=4.0, *, discrete=False):
    return acc.GaussianEvent(sensitivity=1, sigma=sigma, discrete=discrete, required=required)


def truth(events, assumption=MCAR, structure=FIXED, **options):
    return gt.ground_truth_guarantee(events, assumption, structure=structure, **options)


def on(limit):
    return Guarantee.from_events(PURE, conditions=[limit])


def chosen(names, **facts):
    return DataChosenRequirements(attributes=names, **facts)


MASKED = Guarantee.from_events(PURE, conditions=[acc.DatasetCollection(max_missing=5, n=9)])
TWINS = [PureEvent(epsilon=1.0, required={"a"})] * 2
SWAPPED = [replace(PURE[0], adjacency="replace-one")]
UNPROVEN = {
    "no assumption": lambda: truth(PURE, None),
    "nothing about rows": lambda: truth(PURE, acc.PublicDomain()),
    "words": lambda: truth(PURE, acc.Assumption("It rains.")),
    "a collection": lambda: truth(MASKED, acc.RowIndependentMissingness()),
    "a gap": lambda: truth(Guarantee.from_events(PURE, conditions=[acc.EigenGap(1, 0.1)])),
    "words about the masked table": lambda: truth(on(acc.Assumption("Few cells are missing."))),
    "twice": lambda: truth(truth(PURE)),
    "replace-one": lambda: gt.AmplifiedEvent(events=SWAPPED, assumption=MCAR, structure=FIXED),
    "joint, another": lambda: joint([truth(PURE), truth(PURE)], BoundedObservation(0.9)),
    "joint, converted": lambda: joint([truth(PURE).to_replace_one()], MCAR),
    "joint, no assumption": lambda: joint([Guarantee.from_events([])], None),
    "a profile that never falls": lambda: gt.amplified_profile_epsilon(
        1e-6, probability=0.5, profile=lambda _: 0.5
    ),
}
WRONG = {
    "who chose": lambda: truth(PURE, structure=None),
    "who chose, bounded": lambda: truth(PURE, BoundedObservation(0.5), None),
    "two deltas": lambda: truth(Guarantee.from_events(PURE), delta=1e-6),
    "too small": lambda: truth(PURE, structure=chosen(["a", "b"], smallest=2)),
    "not among": lambda: truth(PURE, structure=chosen(["a"])),
    "not always": lambda: truth(PURE, structure=chosen(["a", "b"], always=["b"])),
    "no targets": lambda: truth(TWINS, structure=chosen(["a", "b"], distinct_targets=True)),
    "a string": lambda: chosen("abc"),
    "more than all": lambda: chosen(["a"], smallest=2),
    "negative": lambda: chosen(["a"], smallest=-1),
    "always another": lambda: chosen(["a"], always=["b"]),
    "no truth value": lambda: chosen(["a"], distinct_targets=1),
    "no family": lambda: gt.ChosenRequirements(among=[]),
    "no share": lambda: gt.ChosenRequirements(among=[("a",)], largest_share=0.0),
    "a fit of its own": lambda: truth(MST(epsilon=1.0)),
    "joint of numbers": lambda: joint([1.0], MCAR),
    "joint of none": lambda: joint([], MCAR),
    "joint, who chose": lambda: joint([Guarantee.from_events(PURE)], MCAR),
    "chosen of no family": lambda: _ChosenCosts(chosen=0.1),
    "left to no family": lambda: _ChosenCosts(unselected=0.1),
    "gates, a string": lambda: gt.mask_mixture(["ab"], [1.0], observed={}),
    "no names": lambda: gt.mask_mixture([{1}], [1.0], observed={}),
    "two costs": lambda: gt.mask_mixture([{"a"}], [1.0, 1.0], observed={}),
    "a negative cost": lambda: gt.mask_mixture([{"a"}], [-1.0], observed={}),
    "an infinite cost": lambda: gt.mask_mixture([{"a"}], [math.inf], observed={}),
    "no rate": lambda: gt.mask_mixture([{"a"}], [1.0], observed={"a": math.nan}),
    "no delta": lambda: gt.mask_mixture([{"a"}], [1.0], [2.0], observed={}),
    "no limit": lambda: gt.mask_mixture([], [], observed={}, treewidth_limit=0),
    "no chance": lambda: gt.amplified_epsilon(1.5, 1.0),
    "attributes, a string": lambda: gt.max_observation_probability("abc", {}, smallest=1),
    "more than there are": lambda: gt.max_observation_probability({"a"}, {}, smallest=2),
    "too few": lambda: gt.distinct_targets_bound([1, 1], attributes={"a"}, observed={}),
    "a negative epsilon": lambda: gt.amplified_profile_delta(
        -1.0, probability=0.5, profile=math.exp
    ),
}
UNFITTED = {
    "not fitted": lambda: truth(MST(epsilon=1.0), structure=None),
    "joint, not fitted": lambda: joint([MST(epsilon=1.0)], MCAR),
}


def refused(error, call):
    try:
        call()
    except MissDPError as found:
        return type(found) is error and "\n" not in str(found)
    return False


@pytest.mark.parametrize(
    ("error", "calls"),
    [(UnprovenError, UNPROVEN), (ParameterError, WRONG), (NotFittedError, UNFITTED)],
)
def test_refusals_are_one_typed_error_of_one_line(error, calls):
    assert [name for name, call in calls.items() if not refused(error, call)] == []


def test_without_gates_nothing_is_amplified_and_conditions_that_no_mask_breaks_are_harmless():
    harmless = Guarantee(1.25, conditions=[acc.ExplicitSeed()], events=PURE)
    assert truth(harmless).epsilon < 1.25
    events = [replace(event, required=None) for event in PURE]  # missing as a level
    assert truth(events).epsilon == acc.epsilon_of(events, 0.0)


# --- What is carried along ---
@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_row_independence_alone_keeps_epsilon(adjacency):
    plain = Guarantee.from_events(PURE, conditions=[acc.PublicDomain()], adjacency=adjacency)
    found = gt.ground_truth_guarantee(plain, acc.RowIndependentMissingness())
    assert (found.epsilon, found.delta) == (plain.epsilon, plain.delta)
    assert (found.protects, found.adjacency) == ("ground-truth", adjacency)
    assert set(found.conditions) == {acc.PublicDomain(), acc.RowIndependentMissingness()}
    assert found.events == plain.events


@pytest.mark.parametrize("structure", [FIXED, CHOSEN])
@pytest.mark.parametrize("assumption", [MCAR, acc.ObservedAtMost(RATES), BoundedObservation(0.5)])
def test_every_condition_survives_and_round_trips(assumption, structure):
    plain = Guarantee.from_events(
        PURE, conditions=[acc.ExplicitSeed(), acc.PublicDomain("codebook")]
    )
    sure = acc.Assumption("The rate is known at confidence 0.95.")
    found = truth(plain, assumption, structure, conditions=[sure])
    stated = {*plain.conditions, sure, assumption, structure, acc.FixedSchedule()}
    assert stated == set(found.conditions)
    assert found.epsilon < plain.epsilon
    assert Guarantee.from_json(found.to_json()) == found


EVENTS = {
    "pure": PURE,
    "gaussian": [gaussian({"a"}), gaussian({"b", "c"}), PureEvent(epsilon=0.3, required={"c"})],
    "every row": [gaussian({"a"}), gaussian(None)],
    "dp-sgd": [
        acc.SampledGaussianEvent(rate=0.1, noise_multiplier=2.0, steps=5, required={"a", "c"})
    ],
    "zcdp": [ZCDPEvent(rho=0.02, required={"c"}), PureEvent(epsilon=0.3, required={"a"})],
}


@pytest.mark.long
@pytest.mark.parametrize("kind", EVENTS)
def test_never_worse_than_the_incomplete_guarantee(kind):
    plain = Guarantee.from_events(EVENTS[kind], delta=0.0 if kind == "pure" else 1e-6)
    for structure in (FIXED, CHOSEN):
        for assumption in (MCAR, BoundedObservation(0.6)):
            found = truth(plain, assumption, structure)
            assert found.epsilon <= plain.epsilon
            assert found.delta <= plain.delta
            assert assumption in found.conditions
    sure = MissingCompletelyAtRandom({"a": 1.0})
    assert truth(plain, sure).epsilon == plain.epsilon


def test_pure_events():
    found = truth(PURE)
    expected = gt.mask_mixture([{"a"}, {"a", "b"}, None], [0.5, 0.5, 0.25], observed=RATES)
    assert (found.epsilon, found.delta) == (expected.epsilon, 0.0)
    both = truth(acc.ApproximateEvent(epsilon=1.0, delta=1e-6, required={"a"}), delta=1e-6)
    assert both.delta == pytest.approx(0.5e-6)
    assert both.epsilon == pytest.approx(gt.amplified_epsilon(0.5, 1.0), abs=1e-9)
    both_gates = PureEvent(epsilon=1.0, required={"a", "b"})
    assert truth(both_gates).epsilon == pytest.approx(gt.amplified_epsilon(0.375, 1.0), abs=1e-9)
    beside = [PureEvent(epsilon=1.0, required={"c"}), ZCDPEvent(rho=0.05)]
    parts = acc.epsilon_of(beside[1], 1e-6) + gt.amplified_epsilon(0.25, 1.0)
    assert truth(beside, delta=1e-6).epsilon <= parts + 1e-9


@pytest.mark.long
@pytest.mark.parametrize(
    "event",
    [
        ZCDPEvent(rho=0.1, required={"a"}),
        acc.RDPEvent(orders=[2, 8, 32], epsilons=[0.2, 0.8, 3.2], required={"a"}),
        acc.SampledGaussianEvent(rate=0.05, noise_multiplier=2.0, steps=20, required={"a"}),
        gaussian({"a"}, discrete=True),
    ],
)
def test_one_gate_amplifies_the_whole_profile(event):
    found = truth(event, delta=1e-6)
    expected = gt.amplified_profile_epsilon(
        1e-6, probability=0.5, profile=lambda e: delta_of(event, e)
    )
    assert found.epsilon == pytest.approx(expected, abs=2e-3)
    assert found.epsilon < acc.epsilon_of(event, 1e-6)
    assert truth(event, BoundedObservation(0.5), delta=1e-6).epsilon == pytest.approx(
        found.epsilon, abs=1e-9
    )


@pytest.mark.long
def test_gates_that_the_data_chose():
    """Check the bound over all structures. A statement about each choice makes it smaller."""
    found = truth(PURE, structure=CHOSEN).epsilon
    assert found == pytest.approx(0.25 + gt.amplified_epsilon(0.75, 1.0), abs=1e-12)
    nothing = DataChosenRequirements(attributes=["a", "b", "c"])
    unknown = DataChosenRequirements(attributes=["a", "b", "c", "d"], smallest=1)
    assert [truth(PURE, structure=who).epsilon for who in (nothing, unknown)] == [1.25, 1.25]
    events = [gaussian({"a", "c"}), gaussian({"b", "c"})]
    assert truth(events, structure=CHOSEN, delta=1e-6).epsilon == acc.epsilon_of(events, 1e-6)
    shared = DataChosenRequirements(attributes=["a", "b", "c"], always=["c"])
    expected = gt.amplified_profile_epsilon(
        1e-6, probability=0.25, profile=lambda e: delta_of(events, e)
    )
    tight = truth(events, structure=shared, delta=1e-6).epsilon
    assert tight == pytest.approx(expected, abs=1e-3)
    impure = [PureEvent(epsilon=0.5, required={"c"}), ZCDPEvent(rho=0.01)]
    gated = gt.amplified_epsilon(0.5, 0.5)
    of_a = DataChosenRequirements(attributes=["a", "c"], smallest=1)
    beside = acc.epsilon_of(impure[1], 1e-6 * math.exp(-gated))
    assert truth(impure, structure=of_a, delta=1e-6).epsilon == pytest.approx(gated + beside)


def test_what_every_row_enters_is_not_behind_the_one_gate():
    beside = [gaussian({"a"}), gaussian(None)]
    found = truth(beside, BoundedObservation(0.05), delta=1e-6).epsilon
    assert acc.epsilon_of(beside[1:], 1e-6) < found < acc.epsilon_of(beside, 1e-6)


def test_replace_one_is_amplified_there_and_converted():
    plain = Guarantee.from_events(PURE[:2], adjacency="replace-one")
    found = truth(plain)
    once = truth(PURE[:2]).epsilon
    assert 2 * once <= found.epsilon <= 2 * once * (1 + 1e-9)
    stated = [replace(event, adjacency="replace-one") for event in PURE[:1]]
    assert truth(Guarantee.from_events(stated, adjacency="replace-one")).epsilon == 0.5


def test_what_the_events_do_not_explain_is_not_amplified():
    assert truth(Guarantee(9.0, events=PURE)).epsilon == 9.0


# --- Several releases of one table ---
SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "abcd"))
KNOWN = MissingCompletelyAtRandom(dict.fromkeys("abcd", 0.5))
FITS = {
    "aim": AIM(epsilon=1.0, delta=1e-6, missing="observed", rounds=2),
    "tree": MST(epsilon=1.0, delta=1e-6, missing="observed"),
    "complete": MST(epsilon=1.0, delta=1e-6, missing="complete-rows"),
    "joint": MST(epsilon=1.0, delta=1e-6, missing="joint"),
    "network": PrivBayes(epsilon=1.0, missing="observed", delta=0.0),
    "pure": AIM(epsilon=1.0, delta=0.0, missing="observed", rounds=2),
}


class Planned:
    """A fit by the caps of its parts, which follow from its parameters and a schema."""

    def __init__(self, name):
        self.schema_ = SCHEMA
        self.guarantee_, self.parts = FITS[name].planned_parts(SCHEMA)

    def ground_truth_parts(self):
        return self.parts


PAIRS = [("aim", "tree"), ("complete", "joint"), ("network", "network"), ("joint", "network")]
PAIRS += [("pure", "tree"), ("pure", "network")]


@pytest.mark.long
@pytest.mark.parametrize("names", PAIRS, ids=" and ".join)
def test_two_fits_cost_no_less_than_each_and_no_more_than_both(names):
    models = [Planned(name) for name in names]
    alone = [gt.ground_truth_guarantee(m, KNOWN) for m in models]
    both = joint(models, KNOWN)
    whole = models[0].guarantee_.compose(models[1].guarantee_)
    least = max(g.epsilon_at(both.delta) for g in alone)
    assert least * (1 - 1e-6) <= both.epsilon <= whole.epsilon * (1 + 1e-6)
    assert both.delta == pytest.approx(whole.delta)
    assert Guarantee.from_json(both.to_json()) == both
    if not {"joint", "complete", "pure"} & {*names}:
        assert both.epsilon < 0.95 * whole.epsilon
    if names in (PAIRS[0], PAIRS[1]):
        assert joint(models[:1], KNOWN).epsilon == pytest.approx(alone[0].epsilon, rel=1e-6)
    assert joint(alone, KNOWN).epsilon == pytest.approx(both.epsilon)


def test_two_that_read_the_same_rows():
    known, event = BoundedObservation(0.5), PureEvent(epsilon=1.0, required={"a"})
    one = truth(event, known)
    both = joint([one, one], known)
    assert both.epsilon == pytest.approx(math.log(0.5 + 0.5 * math.exp(2.0)))
    assert acc.FixedSchedule() in both.conditions
    sure = truth(event, MissingCompletelyAtRandom({"a": 1.0}))
    assert joint([sure] * 2, MissingCompletelyAtRandom({"a": 1.0})).epsilon == pytest.approx(2.0)
    # An event that was not amplified does not record the origin of its requirements. Here, the data
    # chose them.
    same = truth(event, MCAR, DataChosenRequirements(attributes=("a", "b")))
    assert joint([same, same], MCAR).epsilon == pytest.approx(2.0)


@pytest.mark.long
def test_bounds_add_up_over_releases_that_share_no_gate():
    one = BoundedObservation(0.2)

    def release(*required_sets):
        return truth([ZCDPEvent(rho=0.03, required=set(g)) for g in required_sets], one, delta=1e-3)

    def chance(*releases):
        (event,) = joint(releases, one).events
        assert (event.assumption.p_max > 0.2) == event.assumption.together
        return event.assumption.p_max

    a, ab, c, bc = release("a"), release("ab"), release("c"), release("bc")
    assert chance(a, ab) == chance(bc, c) == chance(a, a, ab) == 0.2
    assert chance(a, c) == chance(a, bc, c, ab) == pytest.approx(0.4)
    assert chance(a, release("b"), c) == pytest.approx(0.6)
    assert chance(joint([a, c], one), bc) == pytest.approx(0.4)
    assert chance(joint([a, c], one), release("d")) == pytest.approx(0.6)
    stated = BoundedObservation(0.3, together=True)
    declared = joint([a, c], stated)
    assert stated in declared.conditions
    assert declared.epsilon < joint([a, c], one).epsilon
    # For releases in pure epsilon, the bound of each required set is enough.
    pure = [truth(PureEvent(epsilon=1.0, required={n}), one) for n in "ab"]
    assert joint(pure, one).epsilon == pytest.approx(math.log1p(0.2 * math.expm1(2.0)))


def cap(rho, label="", required=None):
    return acc.FilterEvent(capacity=ZCDPEvent(rho=rho), label=label, required=required)


def of(events, structure):
    return Guarantee.from_events(events, delta=1e-6), structure, BoundedObservation(0.2)


def test_shares_of_joined_families():
    """No marginal of one release gets more of the sum than it might of its own."""
    tree = gt.ChosenRequirements(among=[("a", "b"), ("b", "c"), ("a", "c")], largest_share=0.5)
    any_set = gt.ChosenRequirements(among=[("a", "b"), ("c",)])
    first = of([cap(0.1, gt.ChosenRequirements.chosen, {"a", "b"})], tree)
    parts = [
        cap(0.01, gt.ChosenRequirements.selections),
        cap(0.1, gt.ChosenRequirements.chosen, {"c"}),
    ]
    second = of(parts, any_set)
    events, merged = _merged([first, second])
    assert sorted(merged.among) == sorted([*tree.among, *any_set.among])
    # the part that selections leave is included
    assert merged.largest_share == pytest.approx(0.11 / 0.2)
    assert chosen_costs(events, merged).chosen == pytest.approx(0.2)
    assert _merged([first, first])[1].largest_share == pytest.approx(0.25)
    # Marginals that the data chose are shared only where each single attribute might have been
    # chosen.
    for least, most in ((1, 0.2), (2, 0.4)):
        who = DataChosenRequirements(attributes=["a", "b", "c"], smallest=least)
        network = of([PureEvent(epsilon=0.1, required={"a", "b"})], who)
        assert _combined_bound([first, network], _merged([first, network])[1])[0].p_max == most
