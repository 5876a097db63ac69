import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import PrivBayes, Schema, Table
from missdp.accounting import (
    BoundedObservation,
    Budget,
    Cost,
    FilterEvent,
    FixedSchedule,
    GaussianEvent,
    Guarantee,
    MissingCompletelyAtRandom,
    RDPEvent,
    releases,
)
from missdp.accounting.exact import exact, float_up
from missdp.accounting.filters import filter_cost
from missdp.errors import ParameterError
from missdp.ground_truth import ground_truth_guarantee
from missdp.sources import Strategy, strategy_named
from missdp.sources.modelled import Modelled
from missdp.synth import AIM, MST
from missdp.synth.parts import _gate_by_gate, ground_truth_parts
from synth.conformance import SCHEMA, make_table
from synth.tables import rows_of, schema_of

OBSERVED = {"größe": 0.6, "alter": 0.7, "ok": 0.8}
ALL_NULLABLE = Schema(tuple(replace(a, nullable=True) for a in SCHEMA))


def fit(missing, schema=SCHEMA, **options):
    table = Table.read(make_table(2000).to_native(), schema)  # far above the noise of the row count
    return PrivBayes(epsilon=1.0, missing=missing, **options).fit(table)


def table_cap(model):
    """What was set aside for the tables before anything was released."""
    return next(e for e in model.guarantee_.events[0].log if e.label == "tables").cost.amount


def amplified(p, epsilon):
    return math.log1p(p * math.expm1(epsilon))


def test_complete_rows_are_amplified_by_the_chance_of_a_complete_row():
    model = fit("complete-rows")
    counted = 0.02  # the number of all rows, which every row enters
    rest = model.guarantee_.epsilon - counted
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(OBSERVED))
    assert found.epsilon == pytest.approx(counted + amplified(0.6 * 0.7 * 0.8, rest), rel=1e-6)
    bounded = model.ground_truth_guarantee(BoundedObservation(0.5))
    assert bounded.epsilon == pytest.approx(counted + amplified(0.5, rest), rel=1e-6)


def test_observed_counts_the_whole_structure_by_its_likeliest_gate():
    model = fit("observed", ALL_NULLABLE)
    observed = {**OBSERVED, "score": 0.75}
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(observed))
    tables = table_cap(model)
    rest = model.guarantee_.epsilon - tables
    assert tables > 0.5
    assert found.epsilon == pytest.approx(rest + amplified(0.8, tables), rel=1e-6)


@pytest.mark.parametrize("missing", ["joint", "impute-first"])
def test_reading_every_row_is_not_amplified(missing):
    model = fit(missing, imputer="random", cuts="equal")  # bins are found behind a gate
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(OBSERVED))
    assert found.epsilon == pytest.approx(model.guarantee_.epsilon)


@pytest.mark.parametrize("family", [AIM, MST])
def test_marginals_chosen_with_a_pure_budget_are_not_amplified(family):
    """A marginal may spend what selections left: no part keeps to a cap of its own."""
    options = {"epsilon": 1.0, "delta": 0.0, "missing": "observed", "model_rows": 100}
    model = family(**options, random_state=0).fit(Table.read(make_table(300).to_native(), SCHEMA))
    _, structure = model.ground_truth_parts()
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(OBSERVED))
    assert structure is None
    for delta in (0.0, 1e-6, 0.01):
        assert found.epsilon_at(delta) >= model.guarantee_.epsilon_at(delta)


def test_imputed_margins_are_amplified_one_by_one():
    model = fit("impute-first", imputer="marginal")
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(OBSERVED))
    margins = Counter()  # and trees, of which one row moves several counts
    for event in releases(model.guarantee_.events):
        if event.gate:
            (name,) = event.gate
            margins[name] += event.sensitivity / event.scale
    expected = model.guarantee_.epsilon - sum(margins.values())
    expected += sum(amplified(OBSERVED[name], epsilon) for name, epsilon in margins.items())
    assert found.epsilon == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_rates_of_a_table_that_is_not_this_one_are_refused(rate):
    """A mistyped name, or a column that is never missing, would amplify what it must not."""
    table = rows_of(schema_of({"a": 2, "b": 2}, "a"), 600)
    model = PrivBayes(epsilon=1.0, missing="complete-rows").fit(table)
    with pytest.raises(ParameterError, match="nosuch"):
        model.ground_truth_guarantee(MissingCompletelyAtRandom({"a": 0.5, "nosuch": rate}))
    never = MissingCompletelyAtRandom({"a": 0.5, "b": rate})
    if rate < 1:
        with pytest.raises(ParameterError, match="never missing: b"):
            model.ground_truth_guarantee(never)
    else:
        assert model.ground_truth_guarantee(never).epsilon < 1


@pytest.mark.parametrize("missing", ["complete-rows", "observed", "impute-first"])
def test_no_fixed_schedule_is_claimed_of_a_fit(missing, tmp_path):
    """The noise of a table depends on the structure that was chosen: only caps are fixed."""
    model = fit(missing, ALL_NULLABLE)
    observed = MissingCompletelyAtRandom({**OBSERVED, "score": 0.75})
    found = model.ground_truth_guarantee(observed)
    assert found.epsilon < model.guarantee_.epsilon
    assert FixedSchedule() not in found.conditions
    assert Guarantee.from_json(found.to_json()) == found
    for delta in (1e-9, 1e-3, 0.1):
        assert found.epsilon_at(delta) <= found.epsilon


@pytest.mark.parametrize("missing", PrivBayes.strategies)
@pytest.mark.parametrize("nullable", [False, True])
def test_one_attribute_and_none_that_is_nullable(missing, nullable):
    table = rows_of(schema_of({"a": 2}, nullable), 600)
    model = PrivBayes(epsilon=1.0, missing=missing).fit(table)
    rates = MissingCompletelyAtRandom({"a": 0.5} if nullable else {})
    found = model.ground_truth_guarantee(rates)
    amplifies = nullable and missing != "joint"
    assert (found.epsilon < 1) == amplifies
    assert found.epsilon >= amplified(0.5, 1.0) - 1e-12


@pytest.mark.parametrize(
    "strategy",
    [
        strategy_named("complete-rows"),
        Strategy(name="something new", rows="observed", complete_only=True),
    ],
)
def test_a_fit_that_says_another_strategy_is_not_amplified_by_gates_that_differ(strategy):
    """As an edited model file could: data-chosen gates, called one fixed gate."""
    known = MissingCompletelyAtRandom({**OBSERVED, "score": 0.75})
    model = fit("observed", ALL_NULLABLE)
    parts = ground_truth_parts(model.guarantee_, strategy=strategy, modelled=Modelled(ALL_NULLABLE))
    found = ground_truth_guarantee(parts[0], known, structure=parts[1])
    assert found.epsilon == model.guarantee_.epsilon


def test_with_a_declared_number_of_rows_everything_reads_complete_rows():
    shared = Budget(3.0, adjacency="replace-one")
    model = fit("complete-rows", ALL_NULLABLE, n_rows=500, budget=shared)
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom({**OBSERVED, "score": 0.75}))
    assert found.epsilon == pytest.approx(amplified(0.6 * 0.7 * 0.8 * 0.75, 1.0))
    assert shared.spent.epsilon == 2.0  # of which the ground truth takes nothing back


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.floats(3, 400)), min_size=1, max_size=8),
    st.floats(2.0, 64.0),
    st.floats(1.0, 1.5),
)
def test_gates_leave_the_rest_of_the_cap_to_what_has_none(parts, order, room):
    """Exactly: what is rounded up behind a gate must not make the rest any smaller."""
    log = [GaussianEvent(sensitivity=1, sigma=sigma, gate={gate}) for gate, sigma in parts]
    at_order = Cost(currency="renyi", amount=1.0, order=order)
    costs = {gate: Fraction(0) for gate, _ in parts}
    for (gate, _), event in zip(parts, log, strict=True):
        costs[gate] += filter_cost(event, at_order)
    amount = float_up(sum(costs.values()) * Fraction(room))
    whole = FilterEvent(capacity=RDPEvent(orders=(order,), epsilons=(amount,)), log=log)
    *gated, rest = _gate_by_gate(whole)
    assert {next(iter(e.gate)) for e in gated} == costs.keys()
    assert all(exact(e.cost.amount) >= costs[next(iter(e.gate))] for e in gated)
    assert rest.gate is None
    assert exact(rest.cost.amount) >= exact(amount) - sum(costs.values())


def test_parts_at_another_order_or_with_several_gates_are_part_of_the_rest():
    def at(amount, order, *gates):
        log = [RDPEvent(orders=(order,), epsilons=(0.001,), gate=gate) for gate in gates]
        return FilterEvent(capacity=RDPEvent(orders=(order,), epsilons=(amount,)), log=log)

    parts = [
        at(0.125, 8.0, {"a"}, {"a", "b"}),  # behind what both have
        at(0.0625, 16.0, {"b"}),
        at(0.25, 8.0, {"a"}, {"b"}),
        at(0.25, 8.0, {"a"}, None),
        at(0.03125, 8.0),
    ]
    whole = FilterEvent(capacity=RDPEvent(orders=(8.0,), epsilons=(1.0,)), log=parts)
    found = {e.gate: e.cost.amount for e in _gate_by_gate(whole) if e.cost.amount}
    assert found == {frozenset("a"): 0.125, None: 0.875}
