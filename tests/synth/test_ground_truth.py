"""Guarantees of fits for the ground truth, planned and stated.

The tests cover required attributes and values that rules imply.
"""

import itertools
import math
from collections import Counter
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, Numeric, PrivBayes, Schema, Table
from missdp.accounting import (
    BoundedObservation,
    Filter,
    MissingCompletelyAtRandom,
    RowIndependentMissingness,
    releases,
)
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth import (
    epsilon_for_ground_truth,
    ground_truth_guarantee,
    planned_ground_truth,
)
from missdp.schema import Always, Determined, NotApplicable
from missdp.schema.modelled import ModelView
from missdp.session import CountedRows, Marginal, Noise, SecureNoise, Session
from missdp.sources import MemorySource, Strategy, strategy_named
from missdp.synth import AIM, MST
from missdp.synth.split import ground_truth_parts
from missdp.testing.example_tables import RULED, _read_again, example_table
from refusing import refuses
from synth.conformance import SCHEMA, make_table
from synth.tables import rows_of, schema_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning"),
    pytest.mark.usefixtures("one_turn"),
]

OBSERVED = {"größe": 0.6, "alter": 0.7, "ok": 0.8}
ALL_NULLABLE = Schema(tuple(replace(a, nullable=True) for a in SCHEMA))


@cache
def fit(missing, schema=SCHEMA, **options):
    table = Table.read(make_table(2000).to_native(), schema)  # far above the noise of the row count
    return PrivBayes(epsilon=1.0, missing=missing, **options).fit(table)


def all_observed(p=0.75):
    return MissingCompletelyAtRandom({**OBSERVED, "score": p})


def amplified(p, epsilon):
    return math.log1p(p * math.expm1(epsilon))


def test_complete_rows_are_amplified_by_the_chance_of_a_complete_row():
    shared = Filter(3.0, adjacency="replace-one")
    model = fit("complete-rows", ALL_NULLABLE, n_rows=500, budget=shared)
    found = model.ground_truth_guarantee(all_observed())
    assert found.epsilon == pytest.approx(amplified(0.6 * 0.7 * 0.8 * 0.75, 1.0))
    assert shared.remaining_epsilon == 1.0  # of which the ground truth takes nothing back
    model, counted = fit("complete-rows"), 0.02  # the number of all rows, which every row enters
    for known, chance in (
        (MissingCompletelyAtRandom(OBSERVED), 0.6 * 0.7 * 0.8),
        (BoundedObservation(0.5), 0.5),
    ):
        found = model.ground_truth_guarantee(known).epsilon
        assert found == pytest.approx(counted + amplified(chance, 1.0 - counted), rel=1e-6)


def test_observed_counts_the_whole_structure_by_its_likeliest_gate():
    model = fit("observed", ALL_NULLABLE)
    found = model.ground_truth_guarantee(all_observed())
    tables = next(e for e in model.guarantee_.events[0].log if e.label == "tables").cost.amount
    rest = model.guarantee_.epsilon - tables
    assert tables > 0.5
    assert found.epsilon == pytest.approx(rest + amplified(0.8, tables), rel=1e-6)


@pytest.mark.parametrize("missing", ["joint", "impute-first"])
def test_reading_every_row_is_not_amplified(missing):
    model = fit(missing, imputer="random", bins="equal")  # private bins read observed cells only
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(OBSERVED))
    assert found.epsilon == pytest.approx(model.guarantee_.epsilon)


@pytest.mark.parametrize("family", [AIM, MST])
def test_marginals_chosen_with_a_pure_budget_are_not_amplified(family):
    """A marginal may spend the rest of the selections' part. No part has a cap of its own."""
    options = {"epsilon": 1.0, "delta": 0.0, "missing": "observed"}
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
        if event.required:
            (name,) = event.required
            margins[name] += event.sensitivity / event.scale
    expected = model.guarantee_.epsilon - sum(margins.values())
    expected += sum(amplified(OBSERVED[name], epsilon) for name, epsilon in margins.items())
    assert found.epsilon == pytest.approx(expected, rel=1e-6)


def test_rates_of_a_table_that_is_not_this_one_are_refused():
    """A mistyped name, or a column that is never missing, would cause a wrong amplification."""
    table = rows_of(schema_of({"a": 2, "b": 2}, "a"), 600)
    model = PrivBayes(epsilon=1.0, missing="complete-rows").fit(table)
    for more, told in (
        ({"nosuch": 0.0}, "nosuch"),
        ({"nosuch": 1.0}, "nosuch"),
        ({"b": 0}, "declared complete: b"),
    ):
        with refuses(ParameterError, told):
            model.ground_truth_guarantee(MissingCompletelyAtRandom({"a": 0.5, **more}))
    known = MissingCompletelyAtRandom({"a": 0.5, "b": 1.0})
    assert model.ground_truth_guarantee(known).epsilon < 1


@pytest.mark.parametrize("missing", PrivBayes.family.strategies)
@pytest.mark.parametrize("nullable", [False, True])
def test_one_attribute_and_none_that_is_nullable(missing, nullable):
    table = rows_of(schema_of({"a": 2}, nullable), 600)
    model = PrivBayes(epsilon=1.0, missing=missing).fit(table)
    rates = MissingCompletelyAtRandom({"a": 0.5} if nullable else {})
    found = model.ground_truth_guarantee(rates)
    amplifies = nullable and missing != "joint"
    assert (found.epsilon < 1) == amplifies
    assert found.epsilon >= amplified(0.5, 1.0) - 1e-12


def test_a_fit_that_says_another_strategy_is_not_amplified_by_gates_that_differ():
    """An edited model file could state another strategy.

    It states fixed required attributes, although the data chose them.
    """
    model = fit("observed", ALL_NULLABLE)
    new = Strategy(name="something new", rows="observed", complete_only=True)
    for strategy in (strategy_named("complete-rows"), new):
        parts = ground_truth_parts(
            model.guarantee_, strategy=strategy, modelled=ModelView(ALL_NULLABLE)
        )
        found = ground_truth_guarantee(parts[0], all_observed(), structure=parts[1])
        assert found.epsilon == model.guarantee_.epsilon


# Required attributes and rules. A value that a rule may imply was not observed, although its row is
# read.
WORK = Categorical(name="work", levels=("no", "yes"), nullable=True)
HOURS = Categorical(name="hours", levels=("few", "many"), nullable=True)
ROUTED = Schema((WORK, HOURS), (NotApplicable(("hours",), unless="work = 'yes'"),))
AGES = (
    Numeric(name="age", lower=0, upper=9, integer=True, bins=2, nullable=True),
    Numeric(name="born", lower=2015, upper=2024, integer=True, bins=2, nullable=True),
)


def session_on(table, missing="observed", epsilon=4.0):
    budget = Filter(epsilon)
    source = MemorySource(table)
    return Session(
        CountedRows.from_source(source, strategy_named(missing)), budget=budget, noise=SecureNoise()
    ), budget


def count_of(table, clique):
    """How many rows a session reads on a clique: exact, by noise that is next to none."""
    session, budget = session_on(table, epsilon=2000.0)
    found = int(session.measure(Marginal(clique), Noise("laplace", 1e-3)).value.sum())
    return found, budget.events[-1].required


def test_a_row_is_read_although_its_gate_was_masked():
    """No row without work loses its hours. The rule restores the value that the mask removed."""
    # Work is "no", and the cell of hours is missing.
    masked = {"work": [0], "hours": [HOURS.size + 1]}
    table = _read_again(Table.from_codes(ROUTED, {n: np.array(c) for n, c in masked.items()}))
    read, required = count_of(table, ("hours",))
    assert read == 1  # though the attribute was masked
    assert "hours" not in (required or ())
    read, required = count_of(table, ("work", "hours"))
    assert (read, required) == (1, frozenset({"work"}))


def test_what_may_be_not_applicable_is_in_no_gate_without_a_rule_either():
    """Only existing values go missing.

    A cell without a value does not, so its row is always read.
    """
    rent = Categorical(name="rent", levels=("low", "high"), nullable=True, not_applicable=("own",))
    table = Table.from_codes(Schema((WORK, rent)), {"work": [0, 2], "rent": [2, 3]})
    assert count_of(table, ("rent",)) == (1, None)
    assert count_of(table, ("work", "rent")) == (1, frozenset({"work"}))


def test_what_follows_is_settled_although_it_was_masked():
    """A derived attribute is not counted in the session.

    It still implies the attribute that it follows from.
    """
    schema = Schema(AGES, (Always("age + born = 2024"),))
    session, _ = session_on(example_table(schema, 50))
    assert session.facts.schema.names == ("age",)
    assert schema.rule_set.rule_filled == {"age", "born"}
    table = example_table(schema, 400)
    np.testing.assert_array_equal(table.mask("age"), table.mask("born"))
    assert table.mask("age").any()
    assert count_of(table, ("age",))[1] is None


RULE_FAMILIES = [(PrivBayes, {}), (AIM, {"delta": 1e-6, "rounds": 1})]
RULED_OBSERVED = dict.fromkeys(RULED.nullable, 0.6)
KNOWN_RULED = ("arbeit", "größe")


@pytest.mark.parametrize("missing", PrivBayes.family.strategies)
@pytest.mark.parametrize(("family", "options"), RULE_FAMILIES, ids=["pure", "aim"])
def test_no_gate_of_a_fit_has_what_rules_may_settle(family, options, missing):
    model = family(epsilon=1.0, missing=missing, **options).fit(example_table(RULED, 600))
    gated = [event for event in releases(model.guarantee_.events) if event.required]
    required_sets = {frozenset(event.required) for event in gated}
    assert not frozenset().union(*required_sets) & RULED.rule_set.rule_filled
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(RULED_OBSERVED)).epsilon
    whole, pure = model.guarantee_.epsilon, model.guarantee_.delta == 0
    if missing == "complete-rows":
        assert required_sets == {frozenset(KNOWN_RULED)}
        assert amplified(0.6**2, 0.95) < found < 0.9
        rest = 0.02  # the number of all rows, which every row enters
        wanted = rest + amplified(0.6**2, 1 - rest)
    elif missing == "impute-first":
        # Margins of routed attributes are read whole.
        assert required_sets == {frozenset([name]) for name in KNOWN_RULED}
        assert pure or 0.95 < found < 0.999  # of a tenth of the budget, two margins of several
        margins = [1 / event.scale for event in gated] if pure else []
        wanted = whole - sum(e - amplified(0.6, e) for e in margins)
    else:  # "joint" reads every row, and rules may imply the attributes that the data chose
        wanted = whole
    if pure or missing in ("joint", "observed"):
        assert found == pytest.approx(wanted, rel=1e-6)


def test_data_chosen_gates_amplify_if_rules_settle_nothing_that_is_modelled():
    born = Determined("born", by="age", map=tuple((age, 2024 - age) for age in range(10)))
    for schema, amplified in ((Schema((*AGES, WORK), (born,)), True), (ROUTED, False)):
        model = PrivBayes(epsilon=1.0, missing="observed").fit(example_table(schema, 600))
        known = MissingCompletelyAtRandom(dict.fromkeys(schema.names, 0.5))
        found = model.ground_truth_guarantee(known).epsilon
        assert found < 0.999 if amplified else found == pytest.approx(1.0)


def test_a_row_that_breaks_a_rule_is_read_no_more_often_than_its_gate_is_observed():
    """A row that is fully observed loses cells.

    If a cell is masked, the other cells stay. So the row is never read more often than its
    attributes are observed.
    """
    names = RULED.nullable
    codes = {a.name: np.array([a.size - 1]) for a in RULED}  # breaks several rules
    for mask in itertools.product((False, True), repeat=len(names)):
        hidden = {n for n, m in zip(names, mask, strict=True) if m}
        row = {n: np.array([RULED[n].missing_code]) if n in hidden else c for n, c in codes.items()}
        drawn = Table.from_codes(RULED, row).with_values(np.random.default_rng(0))
        table = _read_again(drawn)
        for name in {*names} - RULED.rule_set.rule_filled:
            if name in hidden:
                assert table.codes(name)[0] >= RULED[name].missing_code


MAP = tuple((born, 2024 - born) for born in range(2015, 2025))


@pytest.mark.parametrize(
    "rule", [Always("age + born = 2024"), Determined("age", by="born", map=MAP)]
)
def test_a_part_of_a_table_remembers_that_a_rule_may_have_filled_it(rule):
    """The rule is dropped with its other attribute.

    The cells that it filled were still not observed.
    """
    schema = Schema((*AGES, Categorical(name="other", levels=("x", "y"))), (rule,))
    frame = pd.DataFrame({"age": [np.nan] * 500, "born": 2020.0, "other": "x"})
    part = Table.read(frame, schema).subset(("age", "other"))
    assert not part.mask("age").any()
    assert [a.imputed_before for a in part.schema] == [True, False]
    assert part.schema.rule_set.rule_filled == {"age"}
    assert Schema.from_json(part.schema.to_json()) == part.schema
    model = PrivBayes(epsilon=1.0, missing="complete-rows").fit(part)
    known = MissingCompletelyAtRandom({"age": 0.01, "other": 1.0})
    assert model.ground_truth_guarantee(known).epsilon == pytest.approx(1.0)
    assert not schema.subset(("other", "age", "born"))["age"].imputed_before


# The requested guarantee for the ground truth is the guarantee of the fit.
FIVE = schema_of(dict.fromkeys("abcde", 3))
KNOWN = MissingCompletelyAtRandom(dict.fromkeys("abcde", 0.7))
QUICK = {AIM: {"rounds": 3}}


CASES = [
    (PrivBayes, "observed", {"delta": 0.0}),
    (PrivBayes, "complete-rows", {"delta": 1e-6}),
    (AIM, "observed", {}),
    (MST, "complete-rows", {}),
    (AllPairs, "observed", {}),
    (AIM, "impute-first", {}),
    (PrivBayes, "impute-first", {"delta": 0.0}),
]


@pytest.mark.parametrize(("family", "missing", "options"), CASES)
def test_what_is_planned_is_what_a_fit_states(family, missing, options):
    model = family(epsilon=0.9, missing=missing, **options, **QUICK.get(family, {}))
    planned = planned_ground_truth(model, FIVE, KNOWN).epsilon
    stated = model.fit(rows_of(FIVE, 500, holes=0.3)).ground_truth_guarantee(KNOWN).epsilon
    assert stated == pytest.approx(planned, rel=1e-9)
    assert stated < 0.9


def test_the_guarantee_that_was_asked_for_is_found_and_what_is_never_read_has_a_limit():
    def asked(family, assumption, **options):
        return epsilon_for_ground_truth(0.7, family(epsilon=9.0, **options), FIVE, assumption)

    found = asked(PrivBayes, KNOWN, missing="observed")
    planned = planned_ground_truth(PrivBayes(epsilon=found, missing="observed"), FIVE, KNOWN)
    assert found > 0.75
    assert 0.699 < planned.epsilon <= 0.7 * (1 + 1e-12)
    complete, known = {"missing": "complete-rows"}, partial(pytest.approx, rel=1e-4)
    assert asked(AllPairs, KNOWN, missing="joint") == known(0.7)
    assert asked(AIM, KNOWN, missing="impute-first", imputer="random") == known(0.7)
    for assumption in (RowIndependentMissingness(), BoundedObservation(1.0)):
        assert asked(MST, assumption, **complete) == known(0.7)
    assert asked(PrivBayes, BoundedObservation(0.0), **complete, n_rows=3000) == known(64)
    model, other = MST(epsilon=1.0), MissingCompletelyAtRandom({"nosuch": 0.5})
    for epsilon, assumption in ((1.0, other), (0.0, KNOWN), (65.0, KNOWN)):
        with refuses(ParameterError):
            epsilon_for_ground_truth(epsilon, model, FIVE, assumption)
    with refuses(UnprovenError):
        epsilon_for_ground_truth(1.0, model, FIVE, None)
