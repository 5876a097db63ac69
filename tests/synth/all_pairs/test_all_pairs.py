"""The family: what it claims, what it refuses, and that its tables hold the pairs of the rows."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from missdp import Budget, Categorical, Numeric, Schema, Table
from missdp.accounting import (
    FilterEvent,
    GaussianEvent,
    Guarantee,
    MissingCompletelyAtRandom,
    gaussian_delta,
)
from missdp.errors import BudgetExceededError, ParameterError
from missdp.evaluate import marginal_distance
from missdp.sources import DuckDBSource, MemorySource
from missdp.synth import AIM, AllPairs

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")


def schema_of(sizes, nullable=True):
    return Schema(
        tuple(
            Categorical(name=f"c{i}", levels=tuple(range(k)), nullable=nullable)
            for i, k in enumerate(sizes)
        )
    )


def made(sizes, n, *, nullable=True, seed=0, holes=0.2):
    """Rows whose attributes all go with one hidden number."""
    rng = np.random.default_rng(seed)
    schema, hidden, codes = schema_of(sizes, nullable), rng.random(n), {}
    for attribute in schema:
        near = np.clip(hidden + 0.2 * rng.normal(size=n), 0, 1 - 1e-9)
        cells = (near * attribute.size).astype(np.int64)
        if nullable:
            cells[rng.random(n) < holes] = attribute.size
        codes[attribute.name] = cells
    return Table.from_codes(schema, codes)


def fit(table, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, **options}
    return AllPairs(**options).fit(table)


# What is refused, and what is not


@pytest.mark.parametrize(
    "bad",
    [
        {"base": "forest"},
        {"base": None},
        {"base": ["heads"]},
        {"clip": 0},
        {"clip": -1.0},
        {"clip": np.nan},
        {"clip": np.inf},
        {"clip": 2.0**-11},
        {"clip": 2.0**21},
        {"clip": "large"},
        {"clip": None},
        {"clip": True},
        {"first_share": 0.0},
        {"first_share": 1.0},
        {"first_share": 1e-300},
        {"first_share": "half"},
        {"imputer": "mode"},
        {"imputer_share": 1.5, "missing": "impute-first"},
        {"delta": 0.0},
        {"epsilon": 1e-9},
        {"missing": "adaptive"},
    ],
)
def test_bad_parameters_are_refused_before_anything_is_charged(bad):
    budget = Budget(1e3, 1e-3)
    with pytest.raises(ParameterError):
        fit(made([3, 2], 50), budget=budget, **bad)
    assert not budget.events


def test_pure_dp_is_refused_and_another_family_named():
    with pytest.raises(ParameterError, match=r"delta must be above 0.*PrivBayes"):
        fit(made([3, 2], 50), delta=0)


def test_too_many_cells_are_refused_before_anything_is_charged():
    budget = Budget(10.0, 1e-3)
    with pytest.raises(ParameterError, match="MST"):
        fit(made([6000] * 3, 10), budget=budget)
    assert not budget.events


class Counting:
    """A stranger's source, which counts and does not weigh."""

    def __init__(self, table):
        self.schema, self.source = table.schema, MemorySource(table)

    def counts(self, cliques, *, rows):
        return self.source.counts(cliques, rows=rows)


def test_a_source_that_cannot_weigh_rows_is_refused_before_anything_is_charged():
    budget = Budget(10.0, 1e-3)
    with pytest.raises(ParameterError, match="weighted_counts"):
        fit(Counting(made([3, 2], 50)), budget=budget)
    assert not budget.events


TABLES = {
    "one attribute": made([3], 200),
    "one attribute, no holes": made([3], 200, nullable=False),
    "one level": made([1], 200),
    "two attributes, one of one level": made([1, 3], 200),
    "two levels in all": made([1, 1], 200, nullable=False),
    "no rows": made([3, 2, 2], 0),
    "one row": made([3, 2, 2], 1),
    "178 rows": made([3, 2, 2, 5, 3, 4], 178),
    "5,000 levels": made([5000, 2], 3000),
    "all of one column missing": made([3, 2, 2], 500).with_missing(
        {"c0": ~made([3, 2, 2], 500).mask("c0")}
    ),
    "everything missing": made([3, 2, 2], 500, holes=1.1),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    ("missing", "base"),
    [("joint", "heads"), ("joint", "tree"), *((s, "heads") for s in AllPairs.strategies[1:])],
)
def test_every_table_can_be_fitted(table, missing, base):
    model = fit(table, missing=missing, base=base)
    for n in (0, 1, 40):
        drawn = model.sample_table(n)
        assert len(drawn) == n
        assert not any(drawn.mask(name).any() for name in drawn.schema.names)
    if missing == "joint":
        assert len(model.sample(30, missing_values="keep")) == 30


@pytest.mark.parametrize("epsilon", [1e-4, 30.0, 1e4])
@pytest.mark.parametrize("missing", AllPairs.strategies)
def test_tiny_and_huge_budgets(epsilon, missing):
    table = made([3, 2, 4], 2000)
    model = fit(table, epsilon=epsilon, missing=missing)
    assert model.guarantee_.epsilon == epsilon
    drawn = model.sample_table(2000)
    if epsilon > 1:
        assert model.n_rows_ == pytest.approx(2000, abs=15)
        share = (drawn.codes("c0") == 0).mean()
        rows = ~table.mask("c0")
        assert share == pytest.approx((table.codes("c0")[rows] == 0).mean(), abs=0.03)


@pytest.mark.parametrize("missing", AllPairs.strategies)
def test_the_number_of_rows_is_that_of_all_rows(missing):
    """Of which none may be complete, and each attribute is missing in a fifth."""
    model = fit(made([3, 2, 2], 1500), epsilon=5.0, missing=missing)
    assert abs(model.n_rows_ - 1500) < 4 * model.n_rows_std_ < 100
    declared = fit(made([3, 2, 2], 1500), missing=missing, n_rows=1500)
    assert (declared.n_rows_, declared.n_rows_std_) == (1500, 0.0)


@pytest.mark.parametrize("clip", [0.01, 0.4, 50])
def test_a_clip_given_by_hand(clip):
    table = made([2, 2], 20_000, nullable=False)
    drawn = fit(table, epsilon=20.0, clip=clip).sample_table(20_000, random_state=0)
    assert distance(drawn, table) < 0.02


# Accounting


def test_one_cap_in_gaussian_dp_and_two_kinds_of_releases():
    model = fit(made([3, 2, 4], 500))
    (event,) = model.guarantee_.events
    assert isinstance(event, FilterEvent)
    assert isinstance(event.capacity, GaussianEvent)
    assert not event.capacity.discrete
    assert all(type(e) is GaussianEvent and e.discrete for e in event.log)
    assert [e.sensitivity == 1 for e in event.log] == [True] * 3 + [False]
    spent = sum((e.sensitivity / e.sigma) ** 2 for e in event.log)
    cap = (event.capacity.sensitivity / event.capacity.sigma) ** 2
    assert 0.98 * cap < spent <= cap  # nothing is left over


def test_the_guarantee_is_read_again_at_other_deltas():
    model = fit(made([3, 2, 4], 500), epsilon=2.0, delta=1e-6)
    mu = model.guarantee_.events[0].capacity.sensitivity
    for delta in (1e-9, 1e-6, 1e-3):
        epsilon = model.guarantee_.epsilon_at(delta)
        assert gaussian_delta(epsilon, sigma=1 / mu) == pytest.approx(delta, rel=1e-6)
    assert Guarantee.from_json(model.guarantee_.to_json()) == model.guarantee_


@pytest.mark.parametrize("missing", AllPairs.strategies)
def test_the_ground_truth_is_protected_no_less(missing):
    model = fit(made([3, 2, 4], 800), missing=missing)
    known = MissingCompletelyAtRandom({"c0": 0.8, "c1": 0.8, "c2": 0.8})
    found = model.ground_truth_guarantee(known)
    assert found.protects == "ground-truth"
    assert found.epsilon <= model.guarantee_.epsilon
    for delta in (1e-9, 1e-3):
        assert found.epsilon_at(delta) <= model.guarantee_.epsilon_at(delta) + 1e-12


@pytest.mark.parametrize("schedule", ["fixed", "adaptive"])
@pytest.mark.parametrize("currency", ["zcdp", "gdp", "renyi"])
def test_a_shared_budget_pays_for_fits_whatever_its_currency(schedule, currency):
    table = made([3, 2], 200)
    given = {} if schedule == "fixed" else {"currency": currency}
    budget = Budget(2.0, 1e-5, schedule=schedule, **given)
    fits = [fit(table, epsilon=0.7, budget=budget) for _ in range(2)]
    assert len(budget.events) == 2
    assert [e.capacity for e in budget.events] == [f.guarantee_.events[0].capacity for f in fits]
    assert budget.spent.epsilon <= 2.0
    with pytest.raises(BudgetExceededError):
        fit(table, epsilon=2.0, budget=budget)
    assert len(budget.events) == 2


def test_a_pure_budget_refuses_a_fit_uncharged():
    budget = Budget(5.0)
    with pytest.raises((BudgetExceededError, ParameterError)):
        fit(made([3, 2], 50), budget=budget)
    assert not budget.events


# What is drawn


def distance(drawn, wanted, names=None):
    """Mean total variation distance of pairs, over the rows observed on them."""
    found = []
    for a, b in combinations(names or wanted.schema.names, 2):
        shape = wanted.schema[a].size, wanted.schema[b].size
        laws = []
        for table in (drawn, wanted):
            seen = ~(table.mask(a) | table.mask(b))
            cells = table.codes(a)[seen].astype(int) * shape[1] + table.codes(b)[seen]
            laws.append(np.bincount(cells, minlength=shape[0] * shape[1]) / seen.sum())
        found.append(np.abs(laws[0] - laws[1]).sum() / 2)
    return float(np.mean(found))


def shuffled(table, seed=0):
    rng = np.random.default_rng(seed)
    codes = {n: rng.permutation(table.codes(n)).astype(np.int64) for n in table.schema.names}
    return Table.from_codes(table.schema, codes)


@pytest.mark.parametrize(("base", "most"), [("heads", 0.03), ("tree", 0.04)])
def test_all_pairs_are_close(base, most):
    table = made([3, 4, 2, 5, 3], 10_000, nullable=False)
    drawn = fit(table, base=base).sample_table(10_000, random_state=0)
    assert distance(drawn, table) < most
    assert distance(shuffled(table), table) > 0.2  # there was something to learn


def test_streamed_rows_give_the_same_model(tmp_path):
    table = made([3, 2, 4], 700)
    table.to_native().to_parquet(tmp_path / "rows.parquet")
    streamed = fit(DuckDBSource(tmp_path / "rows.parquet", table.schema))
    one, two = (m.sample_table(200, random_state=1) for m in (streamed, fit(table)))
    assert all((one.codes(n) == two.codes(n)).all() for n in table.schema.names)


@pytest.mark.parametrize("base", ["heads", "tree"])
def test_a_saved_model_draws_the_same_rows(base, tmp_path):
    model = fit(made([3, 2, 4], 700), base=base)
    model.save(tmp_path / "m.json")
    again = AllPairs.load(tmp_path / "m.json")
    assert again.guarantee_ == model.guarantee_
    for options in ({}, {"missing_values": "keep"}):
        drawn = [m.sample(300, random_state=7, **options) for m in (model, again)]
        pd.testing.assert_frame_equal(*drawn)


def test_more_rows_than_are_weighted_at_once():
    table = made([3, 2, 4], 3000)
    drawn = fit(table, epsilon=5.0).sample_table(300_000, random_state=0)
    assert len(drawn) == 300_000
    assert distance(drawn, table) < 0.02


def test_holes_come_back_as_often_as_they_were():
    table = made([3, 2, 4], 8000)
    kept = fit(table, epsilon=3.0).sample_table(8000, missing_values="keep", random_state=0)
    for name in table.schema.names:
        assert kept.mask(name).mean() == pytest.approx(table.mask(name).mean(), abs=0.02)


def test_a_column_without_holes_has_none_though_it_may():
    table = made([3, 2, 4], 8000, holes=0.0)
    kept = fit(table, epsilon=3.0).sample_table(8000, missing_values="keep", random_state=0)
    assert max(kept.mask(name).mean() for name in table.schema.names) < 0.005


def at_random(n=10_000, seed=0):
    """``c1`` goes missing where ``c0``, always observed and closely tied to it, is high."""
    whole = made([2, 2, 3], n, nullable=False, seed=seed)
    codes = {name: whole.codes(name).astype(np.int64) for name in whole.schema.names}
    hole = np.random.default_rng(seed + 1).random(n) < np.where(codes["c0"] == 1, 0.8, 0.1)
    schema = Schema(
        tuple(
            Categorical(name=a.name, levels=a.levels, nullable=a.name == "c1") for a in whole.schema
        )
    )
    holed = Table.from_codes(schema, codes | {"c1": np.where(hole, 2, codes["c1"])})
    return whole, holed


@pytest.mark.parametrize("base", ["heads", "tree"])
def test_holes_that_depend_on_another_attribute_are_corrected(base):
    whole, holed = at_random()
    truth = (whole.codes("c1") == 1).mean()

    def error(missing):
        drawn = fit(holed, epsilon=3.0, missing=missing, base=base).sample_table(10_000)
        return abs((drawn.codes("c1") == 1).mean() - truth), distance(drawn, whole)

    joint, observed = error("joint"), error("observed")
    assert joint[0] < 0.03 < 0.1 < observed[0]
    assert joint[1] < 0.5 * observed[1]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "missing", "nullable"),
    [(60, "joint", True), (60, "observed", True), (200, "joint", False), (200, "observed", True)],
)
def test_many_columns(columns, missing, nullable):
    table = made([2] * columns, 500, nullable=nullable)
    assert fit(table, missing=missing).sample(5).shape == (5, columns)


def test_numbers_come_back_within_their_bins():
    schema = Schema(
        (
            Numeric(name="x", lower=0, upper=10, bins=5, nullable=True),
            Categorical(name="y", levels=("a", "b")),
        )
    )
    rng = np.random.default_rng(0)
    x = rng.random(3000) * 10
    frame = pd.DataFrame({"x": x, "y": np.where(x > 5, "a", "b")})
    drawn = fit(Table.read(frame, schema), epsilon=5.0).sample(3000)
    assert drawn["x"].between(0, 10).all()
    high = drawn.loc[drawn["y"] == "a", "x"].mean()
    assert high == pytest.approx(7.5, abs=0.4)


@pytest.mark.parametrize("missing", ["joint", "observed"])
def test_few_rows_with_holes_are_about_as_good_as_margins_alone(missing):
    # So few that pairs are noise: they must not spoil the margins, nor cost much of the budget.
    sizes = (2, 3, 5, 8, 8, 8, 10, 10, 12, 16)
    errors = []
    for seed in range(3):
        table, truth = made(sizes, 300, seed=seed), made(sizes, 20_000, nullable=False, seed=9)
        few = AllPairs(epsilon=1.0, delta=1e-6, missing=missing, random_state=seed)
        alone = AIM(epsilon=1.0, delta=1e-6, workload=1, random_state=seed)
        errors.append(
            [
                marginal_distance(truth, model.fit(table).sample_table(10_000), k=1).mean
                for model in (few, alone)
            ]
        )
    ours, margins = np.mean(errors, axis=0)
    assert ours < 1.25 * margins
