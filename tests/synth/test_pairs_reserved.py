"""Pairs that no junction tree holds: when they are measured, and what synthetic rows make of it."""

import itertools
import math

import numpy as np
import pytest

from missdp import Table
from missdp.accounting import Cost, releases
from missdp.accounting.costs import gdp_cost
from missdp.accounting.exact import mu_worth
from missdp.evaluate import marginal_distance
from missdp.synth import AIM, MST, aim
from missdp.synth.learn_graphical import _MOST_PAIRS, Plan
from missdp.synth.workload import pairs_of
from synth.tables import rows_of, schema_of

NAMES = tuple("abcdef")
LEVELS = 3


def rows_that_all_depend_on_each_other(n, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.normal(size=n)
    scores = common[:, np.newaxis] + rng.normal(size=(n, len(NAMES)))
    return np.digitize(scores, [-0.7, 0.9])


def private(n=20_000, *, holes=0.0, seed=0):
    rng = np.random.default_rng(seed + 1)
    rows = rows_that_all_depend_on_each_other(n, seed)
    codes = {
        name: np.where(rng.random(n) < holes, LEVELS, rows[:, a]) for a, name in enumerate(NAMES)
    }
    return Table.from_codes(schema_of(dict.fromkeys(NAMES, LEVELS), holes > 0), codes)


# When
def test_pairs_are_those_of_the_workload_that_nothing_measured_contains():
    every = list(itertools.combinations(range(4), 3))
    assert pairs_of(every) == list(dict.fromkeys(pairs_of(every)))
    assert set(pairs_of(every)) == set(itertools.combinations(range(4), 2))
    assert pairs_of([(0, 1), (1, 2)], measured=[(0, 1, 3)]) == [(1, 2)]
    assert pairs_of([(0,), (1,)]) == []


def test_the_share_is_kept_back_where_cells_have_rows_enough():
    plan = Plan(
        whole=Cost(currency="zcdp", amount=0.01),
        rounds=1,
        first_share=0.3,
        selection_share=0.1,
        max_cells=1e6,
        forest=False,
        pairs_share=0.5,
        least_in_a_cell=2.0,
    )
    pairs, sizes = list(itertools.combinations(range(5), 2)), [4] * 5
    noise = math.sqrt(len(pairs) / (2 * 0.5 * 0.01))
    enough = 2.0 * noise * 16
    assert plan.reserve(rows=1.01 * enough, pairs=pairs, sizes=sizes) == 0.005
    assert plan.reserve(rows=0.99 * enough, pairs=pairs, sizes=sizes) == 0
    assert plan.reserve(rows=1.01 * enough, pairs=[], sizes=sizes) == 0
    many = list(itertools.combinations(range(40), 2))
    assert len(many) > _MOST_PAIRS
    assert plan.reserve(rows=1e9, pairs=many, sizes=[2] * 40) == 0


@pytest.mark.parametrize(
    ("family", "missing"), [(MST, "joint"), (MST, "impute-first"), (AIM, "observed")]
)
def test_all_pairs_are_paid_for_out_of_the_same_budget(family, missing):
    options = {} if family is MST else {"max_model_size": 1e-4}  # or one clique holds everything
    model = family(epsilon=2.0, delta=1e-6, missing=missing, random_state=0, **options)
    model.fit(private(holes=0.1))
    labels = [str(event.label) for event in releases(model.guarantee_.events)]
    measured = {label for label in labels if label.startswith("marginal") and " x " in label}
    assert measured >= {f"marginal {a} x {b}" for a, b in itertools.combinations(NAMES, 2)}
    spent = float(sum(gdp_cost(e) for e in releases(model.guarantee_.events)))
    assert spent == pytest.approx(mu_worth(2.0, 1e-6) ** 2, rel=1e-6)


def test_too_few_rows_and_small_models_measure_what_they_did_before():
    few = MST(epsilon=0.1, delta=1e-6, random_state=0).fit(private(600))
    small = AIM(epsilon=2.0, delta=1e-6, random_state=0).fit(private())
    for model in (few, small):
        assert model.model_.tables == {}


# What synthetic rows make of it
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_a_tree_with_all_pairs_beside_it_holds_them(holes, monkeypatch):
    apart, truth, private_rows = {}, private(), private(holes=holes)
    for share in (aim._PAIRS_SHARE["MST"], 0.0):
        monkeypatch.setitem(aim._PAIRS_SHARE, "MST", share)
        model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(private_rows)
        drawn = model.sample_table(20_000, random_state=0)
        apart[share] = marginal_distance(truth, drawn, k=2).mean
    with_pairs, without = apart.values()
    assert with_pairs < 0.4 * without  # .007 and .035 without holes, .010 and .036 with


def test_impossible_cells_stay_empty():
    rows = rows_that_all_depend_on_each_other(20_000)
    zeros = {("a", "b"): [(0, 2), (2, 0)], ("c", "f"): [(1, 1)]}
    codes = dict(zip(NAMES, rows.T, strict=True))
    table = Table.from_codes(schema_of(dict.fromkeys(NAMES, LEVELS), None), codes)
    model = MST(epsilon=1.0, delta=1e-6, random_state=0, structural_zeros=zeros).fit(table)
    assert model.model_.tables
    found = model.sample_table(20_000, random_state=0)
    a, b, c, f = (found.codes(name) for name in "abcf")
    assert not ((a == 0) & (b == 2) | (a == 2) & (b == 0) | (c == 1) & (f == 1)).any()


def test_something_is_left_for_a_tree_where_imputation_takes_much():
    """What is kept back for pairs is a share of the whole, and may be more than is left."""
    table = rows_of(schema_of(dict.fromkeys("abcde", 3), "ab"), 20_000)
    model = MST(epsilon=1.0, delta=1e-6, missing="impute-first", imputer_share=0.8).fit(table)
    assert len(model.measured_) == 4
