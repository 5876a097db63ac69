"""Pairs that no selected marginal contains: measurement, and effect on synthetic rows."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from missdp import Table
from missdp.accounting import releases
from missdp.accounting.exact import mu_from_epsilon
from missdp.accounting.measures import gdp_cost
from missdp.evaluate import marginal_distance
from missdp.inference.marginals import NoisyMarginals
from missdp.inference.model import Levels
from missdp.schema import Never
from missdp.session import Noise
from missdp.synth import AIM, MST, adaptive, aim, mst
from missdp.synth.family import Request
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


def marginals(rows, attributes, size=4):
    every = Levels(np.arange(size), np.ones(size))
    margin = np.full(size, 1 / size)
    many = (every,) * attributes, (margin,) * attributes, 1.0, rows, (False,) * attributes
    return NoisyMarginals(*many)


def test_the_share_is_kept_back_where_cells_have_rows_enough():
    """Of public facts and the released number of rows alone."""
    model = MST(epsilon=1.0, delta=1e-6)
    schema = schema_of([4] * 5, None)
    request = Request(model, schema, schema)
    plan, how = request.plan(), mst.selection_plan(request)
    whole, pairs = plan.total, pairs_of(itertools.combinations(range(5), 2))
    share = 0.35 * whole.amount
    noise = Noise.from_cost(replace(whole, amount=share / len(pairs)))
    enough = 2.2 * noise.std * 16

    def kept(rows, pairs=pairs, attributes=5):
        workload = dict.fromkeys(pairs, 1.0)
        known = replace(how, workload=workload)
        return adaptive.reserve_cost(plan, known, marginals(rows, attributes), whole.amount)

    assert kept(1.01 * enough) == pytest.approx(share)
    assert kept(0.99 * enough) == 0
    many = list(itertools.combinations(range(40), 2))
    assert len(many) > adaptive._MAX_PAIRS
    assert kept(1e9, many, 40) == 0


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "missing"), [(MST, "joint"), (MST, "impute-first"), (AIM, "observed")]
)
def test_all_pairs_are_paid_for_out_of_the_same_budget(family, missing, monkeypatch):
    monkeypatch.setattr(aim, "_SMALL_DOMAIN", 1)  # or rounds measure all of so few attributes
    model = family(epsilon=2.0, delta=1e-6, missing=missing, random_state=0)
    model.fit(private(holes=0.1))
    labels = [str(event.label) for event in releases(model.guarantee_.events)]
    measured = {label for label in labels if label.startswith("marginal") and " x " in label}
    assert measured >= {f"marginal {a} x {b}" for a, b in itertools.combinations(NAMES, 2)}
    spent = float(sum(gdp_cost(e) for e in releases(model.guarantee_.events)))
    assert spent == pytest.approx(mu_from_epsilon(2.0, 1e-6) ** 2, rel=1e-6)


@pytest.mark.long
def test_too_few_rows_leave_a_tree_and_few_attributes_need_no_reserve():
    few = MST(epsilon=0.1, delta=1e-6, random_state=0).fit(private(600))
    assert len(few.tables_.counts) == len(NAMES) - 1
    small = AIM(epsilon=2.0, delta=1e-6, random_state=0).fit(private())
    assert {*small.tables_.counts} == {*itertools.combinations(range(len(NAMES)), 2)}


# The effect on synthetic rows.
@pytest.mark.long
@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_a_tree_with_all_pairs_beside_it_holds_them(holes, monkeypatch):
    apart, truth, private_rows = {}, private(), private(holes=holes)
    for share in (mst._RESERVE_SHARE, 0.0):
        monkeypatch.setattr(mst, "_RESERVE_SHARE", share)
        model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(private_rows)
        drawn = model.sample_table(20_000, random_state=0)
        apart[share] = marginal_distance(truth, drawn, k=2).mean
    with_pairs, without = apart.values()
    assert with_pairs < 0.4 * without  # .007 and .035 without missing values, .010 and .036 with


def test_impossible_cells_stay_empty():
    rows = rows_that_all_depend_on_each_other(20_000)
    never = ("a = 0 and b = 2", "a = 2 and b = 0", "c = 1 and f = 1")
    schema = schema_of(dict.fromkeys(NAMES, LEVELS), None, rules=tuple(map(Never, never)))
    table = Table.from_codes(schema, dict(zip(NAMES, rows.T, strict=True)))
    model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    assert model.model_.tables
    found = model.sample_table(20_000, random_state=0)
    a, b, c, f = (found.codes(name) for name in "abcf")
    assert not ((a == 0) & (b == 2) | (a == 2) & (b == 0) | (c == 1) & (f == 1)).any()


def test_something_is_left_for_a_tree_where_imputation_takes_much():
    """The budget reserved for pairs is a share of the total, and may be more than the rest."""
    table = rows_of(schema_of(dict.fromkeys("abcde", 3), "ab"), 20_000)
    model = MST(epsilon=1.0, delta=1e-6, missing="impute-first", imputer_share=0.8).fit(table)
    assert len(model.measured_) == 4
