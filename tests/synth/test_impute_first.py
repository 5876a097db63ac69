"""Imputation first: what is released for it, and what filling by pairs is better for."""

import numpy as np
import pytest

from missdp import AllPairs, PrivBayes, Table
from missdp.accounting import Budget, FilterEvent, releases
from missdp.errors import ParameterError
from refusing import refuses
from synth.tables import rows_of, schema_of

SCHEMA = schema_of(dict.fromkeys("abc", 4))


def tables(n=4000):
    """Three columns that tell each other, half of the last two missing; and the complete rows."""
    rng = np.random.default_rng(0)
    codes = {"a": rng.integers(0, 4, n)}
    for name in "bc":
        codes[name] = np.where(rng.random(n) < 0.8, codes["a"], rng.integers(0, 4, n))
    whole = Table.from_codes(SCHEMA, codes)
    return whole.with_missing({name: rng.random(n) < 0.5 for name in "bc"}), whole


def pairs_of(table):
    return np.bincount(4 * table.codes("a") + table.codes("b"), minlength=16) / len(table)


def fit(table, **more):
    facts = {"epsilon": 1.0, "delta": 1e-6, "missing": "impute-first", "random_state": 0, **more}
    return AllPairs(**facts).fit(table)


def test_filling_by_pairs_keeps_what_filling_by_margins_loses():
    cells, complete = tables()
    far = {}
    for imputer in ("marginal", "pairs"):
        drawn = fit(cells, epsilon=5.0, imputer=imputer).sample_table(20_000, random_state=1)
        far[imputer] = np.abs(pairs_of(drawn) - pairs_of(complete)).sum() / 2
    assert far["pairs"] < 0.05 < 0.2 < far["marginal"]


def test_the_share_is_set_aside_and_no_more_is_spent():
    model = fit(tables(500)[0], imputer="pairs", imputer_share=0.3)
    (whole,) = model.guarantee_.events
    parts = [event for event in whole.log if isinstance(event, FilterEvent)]
    assert [part.label for part in parts] == ["imputation"]
    assert parts[0].cost.amount == pytest.approx(0.3 * whole.cost.amount)
    gates = [sorted(event.gate or ()) for event in releases(parts[0])]
    assert gates == [[], ["a"], ["b"], ["c"], []]  # the number of rows, margins, all pairs
    assert not any(event.gate for event in releases(whole.log[-1]))
    assert model.guarantee_.epsilon == pytest.approx(1.0)


def test_pure_dp_has_no_pairs():
    facts = {"epsilon": 1.0, "missing": "impute-first", "imputer": "pairs"}
    budget = Budget(1.0)
    with refuses(ParameterError, "imputer='pairs' needs delta above 0"):
        PrivBayes(budget=budget, **facts).fit(tables(100)[0])
    assert not budget.events
    whole = rows_of(schema_of(dict.fromkeys("abc", 4), None), 100)
    PrivBayes(**facts).fit(whole)  # nothing is filled, then
