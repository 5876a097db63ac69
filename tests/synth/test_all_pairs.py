"""The family: what it claims, what it refuses, and that its tables hold the pairs of the rows."""

import json
from itertools import combinations

import numpy as np
import pytest

from missdp import Budget, Table
from missdp.accounting import FilterEvent, GaussianEvent
from missdp.errors import DataError, ParameterError
from missdp.record import sealed, unsealed
from missdp.sources import MemorySource
from missdp.synth import AllPairs
from refusing import refuses
from synth.tables import schema_of

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")


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
def test_what_cannot_be_fitted_is_refused_before_anything_is_charged():
    budget = Budget(10.0, 1e-3)
    with refuses(ParameterError, "MST"):  # too many cells
        fit(made([6000] * 3, 10), budget=budget)
    with refuses(ParameterError, "weighted_counts"):
        fit(Counting(made([3, 2], 50)), budget=budget)
    assert not budget.events


class Counting:
    """A stranger's source, which counts and does not weigh."""

    def __init__(self, table):
        self.schema, self.source = table.schema, MemorySource(table)

    def counts(self, cliques, *, rows):
        return self.source.counts(cliques, rows=rows)


TABLES = {
    "one attribute": made([3], 200, nullable=False),
    "two levels in all": made([1, 1], 200, nullable=False),
    "2,000 levels": made([2000, 2], 1000),
    "everything missing": made([3, 2, 2], 500, holes=1.1),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("missing", ["joint", "impute-first"])
def test_every_table_can_be_fitted(table, missing):
    model = fit(table, missing=missing)
    for n in (0, 1, 40):
        drawn = model.sample_table(n)
        assert len(drawn) == n
        assert not any(drawn.mask(name).any() for name in drawn.schema.names)
    if missing == "joint":
        assert len(model.sample(30, missing_values="keep")) == 30


@pytest.mark.parametrize("missing", AllPairs.strategies)
def test_the_number_of_rows_is_that_of_all_rows(missing):
    """Of which none may be complete, and each attribute is missing in a fifth."""
    model = fit(made([3, 2, 2], 1500), epsilon=5.0, missing=missing)
    assert abs(model.n_rows_ - 1500) < 4 * model.n_rows_std_ < 100
    declared = fit(made([3, 2, 2], 1500), missing=missing, n_rows=1500)
    assert (declared.n_rows_, declared.n_rows_std_) == (1500, 0.0)


@pytest.mark.slow
def test_a_clip_given_by_hand():
    table = made([2, 2], 20_000, nullable=False)
    drawn = fit(table, epsilon=20.0, clip=0.01).sample_table(20_000, random_state=0)
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


def test_all_pairs_are_close_and_holes_as_often_as_they_were():
    table = made([3, 4, 2, 5, 3], 10_000, nullable=False)
    drawn = fit(table).sample_table(10_000, random_state=0)
    assert distance(drawn, table) < 0.03
    for rate, most in ((0.2, 0.02), (0.0, 0.005)):
        holed = made([3, 2, 4], 8000, holes=rate)
        kept = fit(holed, epsilon=3.0).sample_table(8000, missing_values="keep", random_state=0)
        for name in holed.schema.names:
            assert kept.mask(name).mean() == pytest.approx(holed.mask(name).mean(), abs=most)
    mixed = {n: np.random.permutation(table.codes(n)) for n in table.schema.names}  # noqa: NPY002
    mixed = Table.from_codes(table.schema, mixed)
    assert distance(mixed, table) > 0.2  # there was something to learn


def at_random(n=10_000, seed=0):
    """``c1`` goes missing where ``c0``, always observed and closely tied to it, is high."""
    whole = made([2, 2, 3], n, nullable=False, seed=seed)
    codes = {name: whole.codes(name).astype(np.int64) for name in whole.schema.names}
    hole = np.random.default_rng(seed + 1).random(n) < np.where(codes["c0"] == 1, 0.8, 0.1)
    holed = Table.from_codes(
        schema_of([2, 2, 3], ["c1"]), codes | {"c1": np.where(hole, 2, codes["c1"])}
    )
    return whole, holed


def test_holes_that_depend_on_another_attribute_are_corrected():
    whole, holed = at_random()
    truth = (whole.codes("c1") == 1).mean()

    def error(missing):
        drawn = fit(holed, epsilon=3.0, missing=missing).sample_table(10_000)
        return abs((drawn.codes("c1") == 1).mean() - truth), distance(drawn, whole)

    joint, observed = error("joint"), error("observed")
    assert joint[0] < 0.03 < 0.1 < observed[0]
    assert joint[1] < 0.5 * observed[1]


def test_a_model_drawn_along_a_tree_says_what_to_do_and_others_of_before_are_read(tmp_path):
    """Files of 0.2 have a parameter, and a field, that said how rows are drawn."""
    path = tmp_path / "m.json"
    model = fit(made([3, 2], 200))
    model.save(path)
    document = unsealed(json.loads(path.read_text(encoding="utf-8")))
    for base in ("heads", "tree"):
        document["parameters"]["base"] = document["released"]["model_"]["base"] = base
        path.write_text(json.dumps(sealed(document)), encoding="utf-8")
        if base == "tree":
            with refuses(DataError, "fit AllPairs again"):
                AllPairs.load(path)
        else:
            again = AllPairs.load(path).sample(50, random_state=3)
            assert again.equals(model.sample(50, random_state=3))
