"""Guarantees for the ground truth: what is refused, what is carried along, and which number."""

import itertools
import math
from dataclasses import dataclass, replace

import dp_accounting
import pytest
from dp_accounting.pld import pld_privacy_accountant

from missdp.accounting import (
    ApproximateEvent,
    Assumption,
    BoundedObservation,
    Budget,
    ComposedEvent,
    Condition,
    DatasetCollection,
    EigenGap,
    ExplicitSeed,
    FixedSchedule,
    GaussianEvent,
    Guarantee,
    LaplaceEvent,
    MissingCompletelyAtRandom,
    PublicDomain,
    PureEvent,
    RDPEvent,
    RowIndependentMissingness,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
    delta_of,
    epsilon_of,
)
from missdp.errors import MissDPError, ParameterError, UnprovenError
from missdp.ground_truth import (
    DataChosenGates,
    FixedGates,
    amplified_epsilon,
    distinct_targets_bound,
    ex_post_loss,
    gated_epsilon,
    ground_truth_guarantee,
    ground_truth_price,
    mask_mixture,
)

RATES = {"a": 0.5, "b": 0.75, "c": 0.25}
MCAR = MissingCompletelyAtRandom(RATES)
FIXED = FixedGates()
CHOSEN = DataChosenGates(attributes=["a", "b", "c"], smallest=1)
PURE = [
    PureEvent(epsilon=0.5, gate={"a"}),
    LaplaceEvent(sensitivity=1, scale=2.0, gate={"a", "b"}),
    SelectionEvent(epsilon=0.25),
]


def gaussian(gate, sigma=4.0, *, discrete=False):
    return GaussianEvent(sensitivity=1, sigma=sigma, discrete=discrete, gate=gate)


# --- Refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("assumption", [None, PublicDomain(), Assumption("It rains.")])
def test_no_assumption_no_number(assumption):
    with pytest.raises(UnprovenError, match="independently"):
        ground_truth_guarantee(PURE, assumption, structure=FIXED)


@dataclass(frozen=True)
class HarmlessCondition(Condition):
    """A condition of another module that says of itself that masks do not matter to it."""

    holds_for_every_mask = True

    def statement(self):
        return "The sky is blue."


def test_conditions_may_declare_themselves_harmless():
    plain = Guarantee(1.25, conditions=[HarmlessCondition()], events=PURE)
    assert ground_truth_guarantee(plain, MCAR, structure=FIXED).epsilon < 1.25


@pytest.mark.parametrize(
    "limit",
    [
        DatasetCollection(max_missing=5, n=100),
        EigenGap(1, 0.1),
        Assumption("No donor serves more than 3 incomplete rows."),
    ],
)
@pytest.mark.parametrize("assumption", [RowIndependentMissingness(), MCAR])
def test_conditions_on_the_incomplete_table_do_not_survive_averaging_over_masks(limit, assumption):
    plain = Guarantee.from_events(PURE, conditions=[limit])
    with pytest.raises(UnprovenError, match="other draws"):
        ground_truth_guarantee(plain, assumption, structure=FIXED)


def test_structure_must_be_stated():
    for assumption in (MCAR, BoundedObservation(0.5)):
        with pytest.raises(ParameterError, match="fixed in advance"):
            ground_truth_guarantee(PURE, assumption)


def test_a_ground_truth_guarantee_is_not_amplified_again():
    once = ground_truth_guarantee(PURE, MCAR, structure=FIXED)
    with pytest.raises(UnprovenError, match="already"):
        ground_truth_guarantee(once, MCAR, structure=FIXED)


def test_delta_comes_with_the_guarantee():
    with pytest.raises(ParameterError, match="brings its own"):
        ground_truth_guarantee(Guarantee.from_events(PURE), MCAR, structure=FIXED, delta=1e-6)


@pytest.mark.parametrize(
    "facts",
    [
        {"attributes": ["a", "b"], "smallest": 2},
        {"attributes": ["a", "c"]},
        {"attributes": ["a", "b", "c"], "always": ["b"]},
    ],
)
def test_gates_that_contradict_the_stated_facts(facts):
    with pytest.raises(ParameterError):
        ground_truth_guarantee(PURE, MCAR, structure=DataChosenGates(**facts))


def test_distinct_targets_that_cannot_exist():
    events = [PureEvent(epsilon=0.5, gate={"a"})] * 2
    structure = DataChosenGates(attributes=["a", "b"], distinct_targets=True)
    with pytest.raises(ParameterError, match="distinct"):
        ground_truth_guarantee(events, MCAR, structure=structure)


@pytest.mark.parametrize(
    "facts",
    [
        {"attributes": "abc"},
        {"attributes": ["a"], "smallest": 2},
        {"attributes": ["a"], "smallest": -1},
        {"attributes": ["a"], "smallest": 0.5},
        {"attributes": ["a"], "always": ["b"]},
        {"attributes": ["a"], "distinct_targets": 1},
    ],
)
def test_structures_that_contradict_themselves(facts):
    with pytest.raises(ParameterError):
        DataChosenGates(**facts)


# --- Theorem 5.2 ---------------------------------------------------------------------------------


def test_row_independence_alone_keeps_epsilon():
    plain = Guarantee.from_events(PURE, conditions=[PublicDomain()])
    found = ground_truth_guarantee(plain, RowIndependentMissingness())
    assert (found.epsilon, found.delta) == (plain.epsilon, plain.delta)
    assert found.protects == "ground-truth"
    assert set(found.conditions) == {PublicDomain(), RowIndependentMissingness()}
    assert found.events == plain.events


def test_row_independence_holds_for_replace_one():
    plain = Guarantee.from_events(PURE, adjacency="replace-one")
    found = ground_truth_guarantee(plain, RowIndependentMissingness())
    assert (found.epsilon, found.adjacency) == (plain.epsilon, "replace-one")


def test_no_gate_no_amplification():
    """Missing as a level: every row is read, whatever is missing in it."""
    events = [replace(event, gate=None) for event in PURE]
    price = ground_truth_price(events, MCAR)
    assert price.guarantee.epsilon == epsilon_of(events, 0.0)
    assert price.method == "no amplification"
    assert FixedSchedule() not in price.guarantee.conditions


# --- Fixed gates ---------------------------------------------------------------------------------


def test_pure_events_use_the_mask_mixture():
    price = ground_truth_price(PURE, MCAR, structure=FIXED)
    expected = mask_mixture([{"a"}, {"a", "b"}, None], [0.5, 0.5, 0.25], observed=RATES)
    assert price.guarantee.epsilon == expected.epsilon
    assert price.guarantee.delta == 0.0
    assert price.method == "mask mixture"
    assert price.exact
    assert set(price.guarantee.conditions) == {MCAR, FIXED, FixedSchedule()}


def test_every_condition_survives_and_round_trips():
    plain = Guarantee.from_events(PURE, conditions=[ExplicitSeed(), PublicDomain("codebook")])
    sure = Assumption("The rate is known at confidence 0.95.")
    found = ground_truth_guarantee(plain, MCAR, structure=FIXED, conditions=[sure])
    assert {ExplicitSeed(), PublicDomain("codebook"), sure, MCAR, FIXED} <= set(found.conditions)
    assert Guarantee.from_json(found.to_json()) == found
    chosen = ground_truth_guarantee(plain, MCAR, structure=CHOSEN)
    assert CHOSEN in chosen.conditions
    assert Guarantee.from_json(chosen.to_json()) == chosen


def test_deltas_are_amplified_too():
    events = [ApproximateEvent(epsilon=1.0, delta=1e-6, gate={"a"})]
    found = ground_truth_guarantee(events, MCAR, structure=FIXED, delta=1e-6)
    assert found.delta == pytest.approx(0.5e-6)
    assert found.epsilon == pytest.approx(amplified_epsilon(0.5, 1.0), abs=1e-9)


def test_gates_of_compositions_add_up():
    inner = ComposedEvent(events=[PureEvent(epsilon=1.0, gate={"a"})], gate={"b"})
    found = ground_truth_guarantee(inner, MCAR, structure=FIXED)
    assert found.epsilon == pytest.approx(amplified_epsilon(0.375, 1.0), abs=1e-9)


def test_gaussian_events_are_sampled_gaussians_by_group():
    """Measurements behind one gate are one Gaussian, which a row enters with one probability."""
    gates = [{"a"}, {"a", "b"}, {"c"}]
    found = ground_truth_guarantee([gaussian(g) for g in gates], MCAR, structure=FIXED, delta=1e-6)
    theirs = pld_privacy_accountant.PLDAccountant()
    for probability, sigma in ((RATES["a"], 4 / math.sqrt(2)), (RATES["c"], 4.0)):
        noise = dp_accounting.GaussianDpEvent(sigma)
        theirs.compose(dp_accounting.PoissonSampledDpEvent(probability, noise))
    assert found.epsilon == pytest.approx(theirs.get_epsilon(1e-6), abs=1e-3)
    assert found.delta == 1e-6


def test_discrete_gaussian_events_are_amplified():
    events = [gaussian({"a"}, discrete=True), gaussian({"a", "b"}, discrete=True)]
    price = ground_truth_price(events, MCAR, structure=FIXED, delta=1e-6)
    assert price.guarantee.epsilon < 0.8 * epsilon_of(events, 1e-6)


def test_dp_sgd_is_gated_once():
    sgd = SampledGaussianEvent(rate=0.05, noise_multiplier=1.0, steps=100, gate={"a"})
    found = ground_truth_guarantee(sgd, MCAR, structure=FIXED, delta=1e-5)
    expected = gated_epsilon(1e-5, probability=0.5, profile=lambda e: delta_of(sgd, e))
    assert found.epsilon == pytest.approx(expected, abs=1e-3)
    multiplied = SampledGaussianEvent(rate=0.025, noise_multiplier=1.0, steps=100)
    assert found.epsilon > epsilon_of(multiplied, 1e-5) + 0.1


def test_events_known_by_curves_use_the_profile_of_one_gate():
    for event in (
        ZCDPEvent(rho=0.1, gate={"a"}),
        RDPEvent(orders=[2, 8, 32], epsilons=[0.2, 0.8, 3.2], gate={"a"}),
    ):
        price = ground_truth_price(event, MCAR, structure=FIXED, delta=1e-6)
        assert price.method == "one gate"
        expected = gated_epsilon(1e-6, probability=0.5, profile=lambda e, x=event: delta_of(x, e))
        assert price.guarantee.epsilon == pytest.approx(expected, abs=1e-6)
        assert price.guarantee.epsilon < epsilon_of(event, 1e-6)


def test_curves_behind_different_gates_are_amplified_by_replicas():
    events = [ZCDPEvent(rho=0.1, gate={"a"}), ZCDPEvent(rho=0.1, gate={"b"})]
    price = ground_truth_price(events, MCAR, structure=FIXED, delta=1e-6)
    assert price.guarantee.epsilon < epsilon_of(events, 1e-6)
    assert price.method == "replicas of the mask"


def test_pure_events_are_amplified_beside_gaussian_ones():
    events = [PureEvent(epsilon=1.0, gate={"c"}), ZCDPEvent(rho=0.05)]
    found = ground_truth_guarantee(events, MCAR, structure=FIXED, delta=1e-6)
    parts = epsilon_of(events[1], 1e-6) + amplified_epsilon(0.25, 1.0)
    assert found.epsilon <= parts + 1e-9


EVENT_LISTS = [
    PURE,
    [gaussian({"a"}), gaussian({"b", "c"}), PureEvent(epsilon=0.3, gate={"c"})],
    [gaussian({"a"}), gaussian(None)],
    [SampledGaussianEvent(rate=0.1, noise_multiplier=1.0, steps=20, gate={"a", "c"})],
    [ZCDPEvent(rho=0.02, gate={"c"}), PureEvent(epsilon=0.3, gate={"a"})],
]
STRUCTURES = [FIXED, CHOSEN, DataChosenGates(attributes=["a", "b", "c"])]


@pytest.mark.parametrize("events", EVENT_LISTS)
@pytest.mark.parametrize("assumption", [MCAR, BoundedObservation(0.6)])
@pytest.mark.parametrize("structure", STRUCTURES)
def test_never_worse_than_the_incomplete_guarantee(events, assumption, structure):
    delta = 0.0 if events is PURE else 1e-6
    plain = Guarantee.from_events(events, delta=delta)
    found = ground_truth_guarantee(plain, assumption, structure=structure)
    assert found.epsilon <= plain.epsilon
    assert found.delta <= plain.delta
    assert assumption in found.conditions


@pytest.mark.parametrize("events", EVENT_LISTS)
def test_nothing_missing_nothing_gained(events):
    delta = 0.0 if events is PURE else 1e-6
    plain = Guarantee.from_events(events, delta=delta)
    sure = MissingCompletelyAtRandom({"a": 1.0})
    assert ground_truth_guarantee(plain, sure, structure=FIXED).epsilon == plain.epsilon


# --- Gates chosen from the data ------------------------------------------------------------------


def test_chosen_gates_use_the_bound_over_all_structures():
    found = ground_truth_guarantee(PURE, MCAR, structure=CHOSEN)
    expected = 0.25 + amplified_epsilon(max(RATES.values()), 1.0)
    assert found.epsilon == pytest.approx(expected, abs=1e-12)
    assert found.epsilon > ground_truth_guarantee(PURE, MCAR, structure=FIXED).epsilon


def test_chosen_gates_cover_every_choice():
    found = ground_truth_guarantee(PURE, MCAR, structure=CHOSEN).epsilon
    sets = [set(s) for k in (1, 2, 3) for s in itertools.combinations("abc", k)]
    for one, other in itertools.product(sets, repeat=2):
        loss = mask_mixture([one, other, None], [0.5, 0.5, 0.25], observed=RATES)
        assert loss.epsilon <= found + 2e-12


def test_chosen_gates_without_facts_are_not_amplified():
    structure = DataChosenGates(attributes=["a", "b", "c"])
    assert ground_truth_guarantee(PURE, MCAR, structure=structure).epsilon == 1.25


def test_an_attribute_with_unknown_rate_might_be_chosen():
    structure = DataChosenGates(attributes=["a", "b", "c", "d"], smallest=1)
    assert ground_truth_guarantee(PURE, MCAR, structure=structure).epsilon == 1.25


def test_chosen_gaussian_gates_are_amplified_only_by_what_all_share():
    events = [gaussian({"a", "c"}), gaussian({"b", "c"})]
    plain = epsilon_of(events, 1e-6)
    loose = ground_truth_guarantee(events, MCAR, structure=CHOSEN, delta=1e-6)
    assert loose.epsilon == plain
    shared = DataChosenGates(attributes=["a", "b", "c"], always=["c"])
    tight = ground_truth_guarantee(events, MCAR, structure=shared, delta=1e-6)
    expected = gated_epsilon(1e-6, probability=0.25, profile=lambda e: delta_of(events, e))
    assert tight.epsilon == pytest.approx(expected, abs=1e-3)
    assert tight.epsilon < 0.7 * plain


def test_impure_selection_beside_chosen_pure_gates_budgets_its_delta():
    events = [PureEvent(epsilon=0.5, gate={"c"}), ZCDPEvent(rho=0.01)]
    structure = DataChosenGates(attributes=["a", "c"], smallest=1)
    found = ground_truth_guarantee(events, MCAR, structure=structure, delta=1e-6)
    gated = amplified_epsilon(0.5, 0.5)
    assert found.epsilon == pytest.approx(
        gated + epsilon_of(events[1], 1e-6 * math.exp(-gated)), abs=1e-12
    )


def test_distinct_targets_help():
    events = [PureEvent(epsilon=0.4, gate={name}) for name in "abc"]
    plain = DataChosenGates(attributes=["a", "b", "c"], smallest=1)
    trees = DataChosenGates(attributes=["a", "b", "c"], smallest=1, distinct_targets=True)
    price = ground_truth_price(events, MCAR, structure=trees)
    assert price.method == "distinct targets"
    assert price.guarantee.epsilon == pytest.approx(
        distinct_targets_bound([0.4] * 3, attributes={"a", "b", "c"}, observed=RATES)
    )
    assert price.guarantee.epsilon < ground_truth_guarantee(events, MCAR, structure=plain).epsilon


def test_complete_rows_are_fixed_gates_whatever_is_chosen_behind_them():
    events = [replace(event, gate=frozenset("abc")) for event in PURE]
    found = ground_truth_guarantee(events, MCAR, structure=FIXED)
    every = math.prod(RATES.values())
    assert found.epsilon == pytest.approx(amplified_epsilon(every, 1.25), abs=1e-9)


# --- Bounded observation -------------------------------------------------------------------------


@pytest.mark.parametrize("structure", [FIXED, CHOSEN])
def test_bounded_observation_amplifies_what_is_gated(structure):
    found = ground_truth_guarantee(PURE, BoundedObservation(0.6), structure=structure)
    assert found.epsilon == pytest.approx(0.25 + amplified_epsilon(0.6, 1.0), abs=1e-12)
    assert BoundedObservation(0.6) in found.conditions


def test_bounded_observation_of_gaussian_events():
    events = [gaussian({"a"}), gaussian({"b"})]
    found = ground_truth_guarantee(events, BoundedObservation(0.3), structure=FIXED, delta=1e-6)
    expected = gated_epsilon(1e-6, probability=0.3, profile=lambda e: delta_of(events, e))
    assert found.epsilon == pytest.approx(expected, abs=1e-3)
    chosen = ground_truth_guarantee(events, BoundedObservation(0.3), structure=CHOSEN, delta=1e-6)
    assert chosen.epsilon == epsilon_of(events, 1e-6)


# --- Guarantees that say more than their events, and replace-one ----------------------------------


def test_an_adaptive_budget_is_not_amplified():
    budget = Budget(1.0, 1e-6, schedule="adaptive")
    budget.charge(gaussian({"a"}, sigma=20.0))
    found = ground_truth_guarantee(budget.spent, MCAR, structure=FIXED)
    assert found.epsilon == budget.spent.epsilon == 1.0


def test_a_fixed_budget_is():
    budget = Budget(2.0, 1e-6)
    budget.charge(gaussian({"a"}))
    budget.charge(gaussian({"a", "b"}))
    found = ground_truth_guarantee(budget.spent, MCAR, structure=FIXED)
    assert found.epsilon < 0.9 * budget.spent.epsilon


def test_a_guarantee_above_its_events_is_not_amplified():
    events = tuple(PURE)
    stated = Guarantee(3.0, events=events)
    assert ground_truth_guarantee(stated, MCAR, structure=FIXED).epsilon == 3.0


def test_replace_one_amplifies_under_add_remove_and_converts():
    plain = Guarantee.from_events(PURE, adjacency="replace-one")
    found = ground_truth_guarantee(plain, MCAR, structure=FIXED)
    single = ground_truth_guarantee(PURE, MCAR, structure=FIXED)
    assert found.epsilon == pytest.approx(2 * single.epsilon)
    assert found.adjacency == "replace-one"
    assert found.epsilon < plain.epsilon


def test_replace_one_with_delta_keeps_its_delta():
    events = [gaussian({"a", "c"})]
    plain = Guarantee.from_events(events, delta=1e-5, adjacency="replace-one")
    found = ground_truth_guarantee(plain, MCAR, structure=FIXED)
    assert found.delta == 1e-5
    assert found.epsilon < plain.epsilon
    half = ground_truth_guarantee(
        events, MCAR, structure=FIXED, delta=1e-5 / (1 + math.exp(plain.epsilon))
    )
    assert found.epsilon == pytest.approx(2 * half.epsilon)
    converted = half.to_replace_one()
    assert converted.delta <= 1e-5


def test_events_stated_under_replace_one_are_not_amplified():
    events = [PureEvent(epsilon=1.0, gate={"a"}, adjacency="replace-one")]
    plain = Guarantee.from_events(events, adjacency="replace-one")
    assert ground_truth_guarantee(plain, MCAR, structure=FIXED).epsilon == 1.0


# --- Ex post -------------------------------------------------------------------------------------


def test_ex_post_loss_is_not_a_guarantee():
    loss = ex_post_loss(PURE, MCAR)
    fixed = ground_truth_guarantee(PURE, MCAR, structure=FIXED)
    assert loss.epsilon == fixed.epsilon
    assert not isinstance(loss, Guarantee)
    assert "not a guarantee" in str(loss)
    for name in ("compose", "to_replace_one", "conditions", "protects", "events"):
        assert not hasattr(loss, name)
    with pytest.raises((MissDPError, TypeError, AttributeError)):
        fixed.compose(loss)
    with pytest.raises((MissDPError, TypeError, AttributeError)):
        ground_truth_guarantee(loss, MCAR, structure=FIXED)


def test_ex_post_loss_with_delta():
    loss = ex_post_loss([gaussian({"a"})], MCAR, delta=1e-6)
    assert loss.delta == 1e-6
    assert loss.epsilon < epsilon_of(gaussian({"a"}), 1e-6)
