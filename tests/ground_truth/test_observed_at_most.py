"""Cells that go missing given their row, each with a bounded chance: MAR and MNAR."""

import itertools
import math

import numpy as np
import pytest

from missdp import MST, Categorical, Schema, Table
from missdp.accounting import Guarantee, MissingCompletelyAtRandom, ObservedAtMost, PureEvent
from missdp.errors import UnprovenError
from missdp.ground_truth import FixedGates, ground_truth_guarantee, ground_truth_price
from missdp.evaluate import MCAR, DeclaredMechanism

SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "abc"))
MECHANISM = DeclaredMechanism(
    intercepts={"a": -1.0, "b": 0.5, "c": 0.0},
    weights={
        "a": {"a": {"x": 2.0}, "b": {"y": -0.5}},
        "b": {"c": {"x": 1.5}},
        "c": {"c": {"y": 3.0}},
    },
)


def chance_of_missing(row):
    one = Table.from_codes(SCHEMA, {name: [code] for name, code in zip("abc", row, strict=True)})
    found = MECHANISM.probabilities(one, random_state=0)
    return {name: float(found[name][0]) for name in "abc"}


def test_no_row_of_the_domain_loses_more_than_is_stated():
    """Randomised response behind gates that overlap: exact ratios, for every row there could be."""
    events = [PureEvent(epsilon=e, gate=set(g)) for e, g in ((0.7, "ab"), (0.4, "b"), (0.9, "ac"))]
    known = MECHANISM.assumption(SCHEMA)
    claim = ground_truth_guarantee(events, known, structure=FixedGates()).epsilon
    worst = 0.0
    for row in itertools.product((0, 1), repeat=3):
        missing = chance_of_missing(row)
        for signs in itertools.product((1, -1), repeat=3):
            ratio = 0.0
            for mask in itertools.product((0, 1), repeat=3):
                seen = {n for n, bit in zip("abc", mask, strict=True) if bit}
                weight = math.prod(1 - missing[n] if n in seen else missing[n] for n in "abc")
                exponents = [
                    s * e.epsilon for e, s in zip(events, signs, strict=True) if e.gate <= seen
                ]
                ratio += weight * math.exp(sum(exponents))
            worst = max(worst, abs(math.log(ratio)))
    assert worst <= claim
    usual = {n: p - 0.2 for n, p in MECHANISM.observed_at_most(SCHEMA).items()}
    wrong = ground_truth_guarantee(events, ObservedAtMost(usual), structure=FixedGates())
    assert worst > wrong.epsilon


def test_it_is_that_of_the_largest_chances():
    events = [PureEvent(epsilon=1.0, gate={"a", "b"})]
    most = MECHANISM.observed_at_most(SCHEMA)
    same = MissingCompletelyAtRandom(most)
    for given in (ObservedAtMost(most), MECHANISM.assumption(SCHEMA)):
        found = ground_truth_price(events, given, structure=FixedGates())
        plain = ground_truth_price(events, same, structure=FixedGates())
        assert found.guarantee.epsilon == plain.guarantee.epsilon
        assert given in found.guarantee.conditions
        assert same not in found.guarantee.conditions
        assert Guarantee.from_json(found.guarantee.to_json()) == found.guarantee


def test_it_is_no_statement_of_complete_randomness():
    assert ObservedAtMost({"a": 0.5}) != MissingCompletelyAtRandom({"a": 0.5})
    assert "completely at random" not in ObservedAtMost({"a": 0.5}).statement()


def test_mechanisms_that_are_fitted_have_none():
    assert MCAR(rate=0.2).assumption(SCHEMA) == ObservedAtMost(dict.fromkeys("abc", 0.8))
    with pytest.raises(UnprovenError):
        MCAR(rate=0.2, rates="exact").assumption(SCHEMA)


@pytest.mark.filterwarnings("ignore::missdp.errors.MissDPWarning")
def test_a_fit_on_rows_that_lost_values_so():
    rng = np.random.default_rng(0)
    table = Table.from_codes(SCHEMA, {name: rng.integers(0, 2, 2000) for name in "abc"})
    model = MST(epsilon=1.0, missing="observed").fit(MECHANISM.apply(table, random_state=1))
    found = model.ground_truth_guarantee(MECHANISM.assumption(SCHEMA))
    assert found.epsilon < 0.9
