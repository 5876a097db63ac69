"""Pairs that no junction tree holds: when they are measured, and what synthetic rows make of it."""

import itertools
import math

import numpy as np
import pytest

import missdp.synth.aim
from missdp import Categorical, Schema, Table
from missdp.accounting import Cost, releases
from missdp.accounting.gdp import gdp_cost, mu_worth
from missdp.baselines import PrivBayes
from missdp.synth import AIM, MST
from missdp.synth.kept_back import MOST_PAIRS, KeptBack, pairs_of

NAMES = tuple("abcdef")
LEVELS = 3


def schema(*, nullable):
    return Schema(
        tuple(Categorical(name=n, levels=tuple(range(LEVELS)), nullable=nullable) for n in NAMES)
    )


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
    return Table.from_codes(schema(nullable=holes > 0), codes)


def distances(table, rows):
    """Total variation distances of all pairs of complete rows."""
    found = np.stack([table.codes(name) for name in NAMES], axis=1)
    apart = []
    for pair in itertools.combinations(range(len(NAMES)), 2):
        counts = [
            np.bincount(LEVELS * r[:, pair[0]] + r[:, pair[1]], minlength=LEVELS**2) / len(r)
            for r in (found, rows)
        ]
        apart.append(0.5 * np.abs(counts[0] - counts[1]).sum())
    return np.mean(apart)


# When


def test_pairs_are_those_of_the_workload_that_nothing_measured_contains():
    every = list(itertools.combinations(range(4), 3))
    assert pairs_of(every) == list(dict.fromkeys(pairs_of(every)))
    assert set(pairs_of(every)) == set(itertools.combinations(range(4), 2))
    assert pairs_of([(0, 1), (1, 2)], measured=[(0, 1, 3)]) == [(1, 2)]
    assert pairs_of([(0,), (1,)]) == []


def test_the_share_is_kept_back_where_cells_have_rows_enough():
    kept, whole = KeptBack(share=0.5, least=2.0), Cost(currency="zcdp", amount=0.01)
    pairs, sizes = list(itertools.combinations(range(5), 2)), [4] * 5
    noise = math.sqrt(len(pairs) / (2 * 0.5 * 0.01))
    enough = 2.0 * noise * 16
    assert kept.of(whole, rows=1.01 * enough, pairs=pairs, sizes=sizes) == 0.005
    assert kept.of(whole, rows=0.99 * enough, pairs=pairs, sizes=sizes) == 0
    assert kept.of(whole, rows=1.01 * enough, pairs=[], sizes=sizes) == 0
    many = list(itertools.combinations(range(40), 2))
    assert len(many) > MOST_PAIRS
    assert kept.of(whole, rows=1e9, pairs=many, sizes=[2] * 40) == 0


@pytest.mark.parametrize("missing", MST.strategies)
@pytest.mark.parametrize("family", [MST, AIM])
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
    apart = {}
    for share in (missdp.synth.aim._PAIRS_SHARE, 0.0):
        monkeypatch.setattr(missdp.synth.aim, "_PAIRS_SHARE", share)
        model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(private(holes=holes))
        rows = rows_that_all_depend_on_each_other(20_000)
        apart[share] = distances(model.sample_table(20_000, random_state=0), rows)
    with_pairs, without = apart.values()
    assert with_pairs < 0.4 * without  # .007 and .035 without holes, .010 and .036 with


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_tables_are_released_saved_and_read(holes, tmp_path):
    model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(private(holes=holes))
    model.save(tmp_path / "model.json")
    again = MST.load(tmp_path / "model.json")
    assert set(again.model_.tables) == set(model.model_.tables)
    for keep in ("fill", "keep"):
        one, other = (m.sample(300, missing_values=keep, random_state=3) for m in (model, again))
        assert one.equals(other)


def test_kept_holes_are_as_many_as_before():
    table = private(holes=0.2)
    model = MST(epsilon=1.0, delta=1e-6, random_state=0).fit(table)
    kept = model.sample_table(20_000, missing_values="keep", random_state=1)
    assert model.model_.tables
    for name in NAMES:
        assert np.mean(kept.codes(name) == LEVELS) == pytest.approx(0.2, abs=0.01)


def test_impossible_cells_stay_empty():
    rows = rows_that_all_depend_on_each_other(20_000)
    zeros = {("a", "b"): [(0, 2), (2, 0)], ("c", "f"): [(1, 1)]}
    codes = dict(zip(NAMES, rows.T, strict=True))
    table = Table.from_codes(schema(nullable=False), codes)
    model = MST(epsilon=1.0, delta=1e-6, random_state=0, structural_zeros=zeros).fit(table)
    assert model.model_.tables
    found = model.sample_table(20_000, random_state=0)
    a, b, c, f = (found.codes(name) for name in "abcf")
    assert not ((a == 0) & (b == 2) | (a == 2) & (b == 0) | (c == 1) & (f == 1)).any()


def test_replicates_differ_by_noise_and_sampling():
    model = MST(epsilon=1.0, delta=1e-6, random_state=0, model_rows=2000).fit(private(5000))
    assert model.model_.tables
    tables = model.sample(5000, multiple=8, random_state=0)
    cell = [np.mean((t["a"] == 0) & (t["f"] == 0)) for t in tables]
    binomial = math.sqrt(np.mean(cell) * (1 - np.mean(cell)) / 5000)
    assert 0.8 * binomial < np.std(cell) < 6 * binomial


# Networks


@pytest.mark.parametrize("holes", [0.0, 0.2])
def test_rows_of_a_network_are_raked_to_its_own_tables(holes):
    table = private(holes=holes)
    model = PrivBayes(epsilon=10.0, random_state=0, degree=2).fit(table)
    network = model.network_
    assert set(network.tables) == {family.clique for family in network.families}
    codes = network.sample(20_000, np.random.default_rng(0))
    for clique, wanted in network.tables.items():
        flat = np.ravel_multi_index(tuple(codes[n] for n in clique), wanted.shape)
        found = np.bincount(flat, minlength=wanted.size).reshape(wanted.shape) / 20_000
        assert 0.5 * np.abs(found - wanted / wanted.sum()).sum() < 0.02


@pytest.mark.parametrize("share", [0.1, 0.5, 0.8])
def test_something_is_left_for_a_tree_where_imputation_takes_much(share):
    """What is kept back for pairs is a share of the whole, and may be more than is left."""
    rng = np.random.default_rng(0)
    names = "abcde"
    schema = Schema(
        tuple(Categorical(name=n, levels=("x", "y", "z"), nullable=n in "ab") for n in names)
    )
    table = Table.from_codes(
        schema, {n: rng.integers(0, 4 if n in "ab" else 3, 20_000) for n in names}
    )
    model = MST(epsilon=1.0, delta=1e-6, missing="impute-first", imputer_share=share).fit(table)
    assert len(model.measured_) == 4
