"""Imputation first: what is released for it, and what filling by pairs is better for."""

import numpy as np
import pandas as pd
import pytest

from missdp import AllPairs, Categorical, PrivBayes, Schema
from missdp.accounting import Budget, FilterEvent, releases
from missdp.errors import ParameterError

SCHEMA = Schema(
    tuple(Categorical(name=n, levels=tuple("wxyz"), nullable=True) for n in ("a", "b", "c"))
)


def frame(n=4000, seed=0):
    """Three columns that tell each other, half of the last two missing."""
    rng = np.random.default_rng(seed)
    first = rng.integers(0, 4, n)
    data = {"a": first}
    for name in ("b", "c"):
        data[name] = np.where(rng.random(n) < 0.8, first, rng.integers(0, 4, n))
    cells = pd.DataFrame({k: np.array(list("wxyz"))[v] for k, v in data.items()}).astype(object)
    complete = cells.copy()
    for name in ("b", "c"):
        cells.loc[rng.random(n) < 0.5, name] = None
    return cells, complete


def table_of(rows, a, b):
    return pd.crosstab(rows[a], rows[b]) / len(rows)


@pytest.mark.parametrize("family", [AllPairs])
def test_filling_by_pairs_keeps_what_filling_by_margins_loses(family):
    cells, complete = frame()
    far = {}
    for imputer in ("marginal", "pairs"):
        model = family(
            epsilon=5.0, delta=1e-6, missing="impute-first", imputer=imputer, random_state=0
        )
        drawn = model.fit(cells, schema=SCHEMA).sample(20_000, random_state=1)
        gap = table_of(drawn, "a", "b") - table_of(complete, "a", "b")
        far[imputer] = float(np.abs(gap.to_numpy()).sum() / 2)
    assert far["marginal"] > 0.2
    assert far["pairs"] < 0.05


def test_the_share_is_set_aside_and_no_more_is_spent():
    cells, _ = frame(500)
    model = AllPairs(
        epsilon=1.0, delta=1e-6, missing="impute-first", imputer="pairs", imputer_share=0.3
    ).fit(cells, schema=SCHEMA)
    (whole,) = model.guarantee_.events
    parts = [event for event in whole.log if isinstance(event, FilterEvent)]
    assert [part.label for part in parts] == ["imputation"]
    assert parts[0].cost.amount == pytest.approx(0.3 * whole.cost.amount)
    gates = [sorted(event.gate or ()) for event in releases(parts[0])]
    assert gates == [[], ["a"], ["b"], ["c"], []]  # the number of rows, margins, all pairs
    assert not any(event.gate for event in releases(whole.log[-1]))
    assert model.guarantee_.epsilon == pytest.approx(1.0)


def test_pure_dp_has_no_pairs():
    cells, _ = frame(100)
    budget = Budget(1.0)
    model = PrivBayes(epsilon=1.0, missing="impute-first", imputer="pairs", budget=budget)
    with pytest.raises(ParameterError, match="imputer='pairs' needs delta above 0"):
        model.fit(cells, schema=SCHEMA)
    assert not budget.events
    PrivBayes(epsilon=1.0, missing="impute-first", imputer="pairs").fit(
        cells.dropna(),
        schema=Schema(tuple(Categorical(name=n, levels=tuple("wxyz")) for n in "abc")),
    )  # nothing is filled, then
