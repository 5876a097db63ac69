"""Structural zeros: never generated, never learned from, never charged for."""

import itertools
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.graphs import joint, marginal, models
from missdp import Budget, Categorical, Numeric, Schema, Table
from missdp.errors import ParameterError
from missdp.inference.beliefs import Target, fit_entropy, log_linear
from missdp.inference.model import Levels, draw, level_kinds, merge_zeros
from missdp.mechanisms.noise import Selection
from missdp.synth import AIM, MST
from missdp.synth.workload import read_zeros
from missdp.testing import Recorder
from missdp.testing.findings import Repeater
from refusing import refuses

SCHEMA = Schema(
    (
        Categorical(name="age", levels=("child", "teen", "adult"), nullable=True),
        Categorical(name="married", levels=("no", "yes"), nullable=True),
        Categorical(name="job", levels=tuple("abcdefgh"), nullable=True),
        Numeric(name="income", lower=0, upper=4, bins=4, nullable=True),
    )
)
# Children are not married and earn nothing; only adults in job a earn most; nobody has job h.
NO_INCOME = np.zeros((4, 3), dtype=bool)
NO_INCOME[1:, 0] = True
RICH = np.zeros((3, 8, 4), dtype=bool)
RICH[:2, :, 3] = RICH[:, 1:, 3] = True
ZEROS = {
    ("married", "age"): [("yes", "child")],
    ("income", "age"): NO_INCOME,
    ("age", "job", "income"): RICH,
    ("job",): [("h",)],
}


def violations(table):
    age, married, job, income = (table.codes(n) for n in SCHEMA.names)
    bad = (age == 0) & (married == 1) | (age == 0) & (income > 0) | (job == 7)
    return bad | (income == 3) & ((age < 2) | (job > 0))


def private(n=1500, seed=0):
    """Rows that know nothing of the constraints: most violate one."""
    rng = np.random.default_rng(seed)
    codes = {a.name: rng.integers(0, a.size, n) for a in SCHEMA}
    codes["job"] = rng.choice(8, n, p=[0.5, 0.44, *[0.01] * 6])  # rare levels get merged
    return Table.from_codes(
        SCHEMA, {a.name: np.where(rng.random(n) < 0.2, a.size, codes[a.name]) for a in SCHEMA}
    )


def build(family, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, "model_rows": 500, "random_state": 0, **options}
    return family(structural_zeros=ZEROS, **options)


@pytest.mark.parametrize(
    ("family", "missing"), [(AIM, "joint"), (AIM, "observed"), (MST, "complete-rows")]
)
def test_no_filled_row_is_impossible(family, missing, tmp_path):
    assert violations(private()).mean() > 0.3
    model = build(family, missing=missing).fit(private())
    assert not violations(model.sample_table(20_000)).any()
    model.save(tmp_path / "m.json")
    again = family.load(tmp_path / "m.json")
    assert not violations(again.sample_table(5000)).any()
    again.save(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "m.json").read_bytes()
    for frame in again.sample(300, multiple=2):
        assert not violations(Table.read(frame, SCHEMA)).any()


@settings(max_examples=15)
@given(models(max_attributes=4), st.integers(0, 2**32 - 1))
def test_the_constrained_law_agrees_with_brute_force(model, seed):
    (sizes, parameters), rng = model, np.random.default_rng(seed)
    cliques = [c for k in (1, 2) for c in itertools.combinations(range(len(sizes)), k)]
    chosen = [cliques[i] for i in rng.choice(len(cliques), min(2, len(cliques)), replace=False)]
    forbidden = {c: rng.random([sizes[v] for v in c]) < 0.4 for c in chosen}
    table, _ = joint(sizes, parameters)
    for clique, zero in forbidden.items():
        table = table * ~zero.reshape([k if v in clique else 1 for v, k in enumerate(sizes)])
    if table.sum() < 1e-3:
        return
    table /= table.sum()
    law, facts = log_linear(sizes, parameters, forbidden)[0], {"shrink": 0.1, "iterations": 100}
    for query in cliques:
        wanted = marginal(table, query)
        np.testing.assert_allclose(law.marginal(query), wanted, atol=1e-9)
        fitted = fit_entropy(sizes, [Target(query, wanted, 1e-4)], forbidden=forbidden, **facts)[0]
        np.testing.assert_allclose(fitted.marginal(query), wanted, atol=1e-3)
        assert (fitted.marginal(query)[wanted == 0] == 0).all()


def test_no_rounding_reaches_an_impossible_level():
    table = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (1000, 1))
    for draws, u in itertools.product(("even", "independent"), (0.0, np.nextafter(1.0, 0))):
        extreme = SimpleNamespace(random=partial(np.full, fill_value=u), permutation=np.arange)
        for rows in (np.arange(1000), np.arange(7000) % 1000):
            assert {*draw(table, rows, extreme, draws=draws)} <= {1, 3}


@given(st.lists(st.floats(-5, 20), min_size=8, max_size=8))
def test_merging_levels_loses_no_constraint(counts):
    sizes = [a.size for a in SCHEMA]
    zeros = read_zeros(ZEROS, SCHEMA, max_cells=1e6)
    kinds = level_kinds(zeros, sizes)
    levels = [
        Levels.from_counts(np.resize(np.array(counts), s), threshold=10, kinds=k)
        for s, k in zip(sizes, kinds, strict=True)
    ]
    for clique, table in merge_zeros(zeros, levels).items():
        np.testing.assert_array_equal(
            table[np.ix_(*(levels[v].groups for v in clique))], zeros[clique]
        )


def test_a_row_moves_a_score_by_at_most_one_whether_it_is_possible_or_not():
    base, first, moves = private(60), Recorder(0), []
    build(AIM, rounds=1, random_state=first).fit(base)
    (before,) = scores_of(first)
    for row in [(0, 1, 7, 3), (2, 1, 0, 3), (0, 2, 8, 3), (3, 2, 8, 4), (0, 1, 1, 1)]:
        codes = {n: np.append(base.codes(n), v) for n, v in zip(SCHEMA.names, row, strict=True)}
        again = Repeater(first)
        build(AIM, rounds=1, random_state=again).fit(Table.from_codes(SCHEMA, codes))
        moves += list(np.abs(scores_of(again)[0] - before))
    assert 0.5 < max(moves) <= 1 + 1e-9


def scores_of(witness):
    return [np.array(one.exact) for one in witness.kept if isinstance(one.law, Selection)]


def test_constraints_that_need_too_large_a_model_are_refused():
    budget = Budget(9.0, 1e-3)
    with refuses(ParameterError, "larger model"):
        build(AIM, budget=budget, max_model_size=50 * 8 / 2**20).fit(private(50))
    assert not budget.events
