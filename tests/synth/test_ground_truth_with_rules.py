"""Gates and rules: what a rule may settle was not observed, though the row is read."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, PrivBayes, Schema, Table
from missdp.accounting import Budget, MissingCompletelyAtRandom, releases
from missdp.mechanisms import Door, Noise, SecureNoise
from missdp.schema import Determined, Equation, NotApplicable
from missdp.sources import MemorySource, strategy_named
from missdp.synth import AIM
from missdp.testing.made_up import RULED, _read_again, made_up

WORK = Categorical(name="work", levels=("no", "yes"), nullable=True)
HOURS = Categorical(name="hours", levels=("few", "many"), nullable=True)
ROUTED = Schema((WORK, HOURS), (NotApplicable(("hours",), unless="work = 'yes'"),))
AGES = (
    Numeric(name="age", lower=0, upper=9, integer=True, bins=2, nullable=True),
    Numeric(name="born", lower=2015, upper=2024, integer=True, bins=2, nullable=True),
)


def door_to(table, missing="observed", epsilon=4.0):
    budget = Budget(epsilon, schedule="adaptive")
    source = MemorySource(table)
    return Door(source, strategy_named(missing), budget=budget, noise=SecureNoise()), budget


def count_of(table, clique):
    """How many rows a door reads on a clique: exact, by noise that is next to none."""
    door, budget = door_to(table, epsilon=2000.0)
    found = int(door.marginal(clique, Noise("laplace", 1e-3)).sum())
    return found, budget.events[-1].gate


def test_a_row_is_read_although_its_gate_was_masked():
    """Nobody without work loses their hours: the rule gives back what the mask took."""
    masked = {"work": [0], "hours": [HOURS.size + 1]}  # work = no; the cell of hours is missing
    table = _read_again(Table.from_codes(ROUTED, {n: np.array(c) for n, c in masked.items()}))
    read, gate = count_of(table, ("hours",))
    assert read == 1  # though the attribute was masked
    assert "hours" not in (gate or ())
    read, gate = count_of(table, ("work", "hours"))
    assert (read, gate) == (1, frozenset({"work"}))


def test_what_may_be_not_applicable_is_in_no_gate_without_a_rule_either():
    """Values go missing; where there is no value, none does, and the row is always read."""
    rent = Categorical(name="rent", levels=("low", "high"), nullable=True, not_applicable=("own",))
    table = Table.from_codes(Schema((WORK, rent)), {"work": [0, 2], "rent": [2, 3]})
    assert count_of(table, ("rent",)) == (1, None)
    assert count_of(table, ("work", "rent")) == (1, frozenset({"work"}))


def test_what_follows_is_settled_although_it_was_masked():
    """Behind the door it is not counted; but it makes known what it follows from."""
    schema = Schema(AGES, (Equation("age + born = 2024"),))
    door, _ = door_to(made_up(schema, 50))
    assert door.schema.names == ("age",)
    assert schema.rulebook.filled == {"age", "born"}
    table = made_up(schema, 400)
    np.testing.assert_array_equal(table.mask("age"), table.mask("born"))
    assert table.mask("age").any()
    assert count_of(table, ("age",))[1] is None


FAMILIES = [(PrivBayes, {}), (AIM, {"delta": 1e-6, "rounds": 1, "model_rows": 100})]
OBSERVED = dict.fromkeys(RULED.nullable, 0.6)


@pytest.mark.parametrize("missing", PrivBayes.strategies)
@pytest.mark.parametrize(("family", "options"), FAMILIES, ids=["pure", "aim"])
def test_no_gate_of_a_fit_has_what_rules_may_settle(family, options, missing):
    model = family(epsilon=1.0, missing=missing, **options).fit(made_up(RULED, 600))
    gates = [event.gate or frozenset() for event in releases(model.guarantee_.events)]
    assert not frozenset().union(*gates) & RULED.rulebook.filled
    found = model.ground_truth_guarantee(MissingCompletelyAtRandom(OBSERVED))
    known = {"arbeit", "größe"}
    pure = model.guarantee_.delta == 0
    if missing == "complete-rows" and pure:
        assert {*map(frozenset, gates)} <= {frozenset(), frozenset(known)}
        rest = 0.02  # the number of all rows, which every row enters
        amplified = math.log1p(0.6**2 * math.expm1(1 - rest))
        assert found.epsilon == pytest.approx(rest + amplified, rel=1e-6)
    elif missing == "complete-rows":
        assert {*map(frozenset, gates)} <= {frozenset(), frozenset(known)}
        assert math.log1p(0.6**2 * math.expm1(0.95)) < found.epsilon < 0.9
    elif missing == "impute-first" and pure:
        gated = [e for e in releases(model.guarantee_.events) if e.gate]
        margins = {next(iter(e.gate)): 1 / e.scale for e in gated}
        assert {*margins} == known  # margins of routed attributes are read whole
        gained = sum(e - math.log1p(0.6 * math.expm1(e)) for e in margins.values())
        assert found.epsilon == pytest.approx(model.guarantee_.epsilon - gained, rel=1e-6)
    elif missing == "impute-first":
        gated = [e for e in releases(model.guarantee_.events) if e.gate]
        assert {next(iter(e.gate)) for e in gated} == known
        assert 0.95 < found.epsilon < 0.999  # of a tenth of the budget, two margins of several
    else:  # "joint" reads every row; gates that the data chose may be those of such attributes
        assert found.epsilon == pytest.approx(model.guarantee_.epsilon)


def test_data_chosen_gates_amplify_if_rules_settle_nothing_that_is_modelled():
    born = Determined("born", by="age", map=tuple((age, 2024 - age) for age in range(10)))
    for schema, amplified in ((Schema((*AGES, WORK), (born,)), True), (ROUTED, False)):
        model = PrivBayes(epsilon=1.0, missing="observed").fit(made_up(schema, 600))
        known = MissingCompletelyAtRandom(dict.fromkeys(schema.names, 0.5))
        found = model.ground_truth_guarantee(known).epsilon
        assert found < 0.999 if amplified else found == pytest.approx(1.0)


def test_a_row_that_breaks_a_rule_is_read_no_more_often_than_its_gate_is_observed():
    """It loses cells when all are seen; with one masked, the others stay: never more than seen."""
    names = RULED.nullable
    codes = {a.name: np.array([a.size - 1]) for a in RULED}  # breaks several rules
    for mask in itertools.product((False, True), repeat=len(names)):
        hidden = {n for n, m in zip(names, mask, strict=True) if m}
        row = {n: np.array([RULED[n].missing_code]) if n in hidden else c for n, c in codes.items()}
        drawn = Table.from_codes(RULED, row).with_values(np.random.default_rng(0))
        table = _read_again(drawn)
        for name in {*names} - RULED.rulebook.filled:
            if name in hidden:
                assert table.codes(name)[0] >= RULED[name].missing_code


@pytest.mark.parametrize(
    "rule",
    [
        Equation("age + born = 2024"),
        Determined("age", by="born", map=tuple((born, 2024 - born) for born in range(2015, 2025))),
    ],
    ids=["equation", "map"],
)
def test_a_part_of_a_table_remembers_that_a_rule_may_have_filled_it(rule):
    """The rule is gone with its other attribute; what it filled was not observed all the same."""
    schema = Schema((*AGES, Categorical(name="other", levels=("x", "y"))), (rule,))
    frame = pd.DataFrame({"age": [None] * 500, "born": 2020.0, "other": "x"})
    part = Table.read(frame.astype({"age": "float64"}), schema).subset(("age", "other"))
    assert not part.mask("age").any()
    assert part.schema["age"].settled
    assert not part.schema["other"].settled
    assert part.schema.rulebook.filled == {"age"}
    assert Schema.from_json(part.schema.to_json()) == part.schema
    model = PrivBayes(epsilon=1.0, missing="complete-rows").fit(part)
    known = MissingCompletelyAtRandom({"age": 0.01, "other": 1.0})
    assert model.ground_truth_guarantee(known).epsilon == pytest.approx(1.0)
    assert not schema.subset(("other", "age", "born"))["age"].settled
