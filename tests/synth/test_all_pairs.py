"""All pairs, and tables of three beside them: claimed, refused, and held."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from missdp import AllPairs, Filter, Table
from missdp.accounting import FilterEvent, GaussianEvent, MissingCompletelyAtRandom, releases
from missdp.errors import BudgetExceededError, ParameterError
from missdp.evaluate import marginal_distance
from missdp.ground_truth import planned_ground_truth
from missdp.sources import MemorySource
from missdp.synth.split import Spending
from refusing import refuses
from synth.tables import rows_of, schema_of

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")


def made(sizes, n, *, nullable=True, seed=0, holes=0.2):
    """Rows whose attributes all go with one hidden number."""
    rng = np.random.default_rng(seed)
    schema, hidden, codes = schema_of(sizes, nullable), rng.random(n), {}
    for attribute in schema:
        near = np.clip(hidden + 0.2 * rng.normal(size=n), 0, 1 - 1e-9)
        cells = (near * attribute.size).astype(np.int64)
        if nullable is True:
            cells[rng.random(n) < holes] = attribute.size
        codes[attribute.name] = cells
    return Table.from_codes(schema, codes)


def fit(table, **options):
    options = {"epsilon": 1.0, "delta": 1e-6, "random_state": 0, **options}
    return AllPairs(**options).fit(table)


# Sources that raise an error, and sources that do not.
class Counting:
    """A user-defined source, which counts and does not weigh."""

    def __init__(self, table):
        self.schema, self.source = table.schema, MemorySource(table)

    def counts(self, cliques, *, rows):
        return self.source.counts(cliques, rows=rows)


def test_what_cannot_be_fitted_is_refused_before_anything_is_charged():
    budget, small = Filter(10.0, 1e-3), made([3, 2], 50)
    for told, table, given in (
        ("MST", made([6000] * 3, 10), {}),  # too many cells
        ("weighted_counts", Counting(small), {}),
        ("at most 100", made([2] * 10, 9), {"workload": 3}),
        ("the workload names 'q'", small, {"workload": [("c0", "q")]}),
        ("from 1 to 4", small, {"workload": 0}),
        ("empty", small, {"workload": []}),
        ("weights", small, {"workload": {("c0", "c1"): -1.0}}),
    ):
        with refuses(ParameterError, told):
            fit(table, budget=budget, **given)
    assert not budget.events


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


@pytest.mark.parametrize("missing", AllPairs.family.strategies)
def test_the_number_of_rows_is_that_of_all_rows(missing):
    """Of which none may be complete, and each attribute is missing in a fifth."""
    model = fit(made([3, 2, 2], 1500), epsilon=5.0, missing=missing)
    assert abs(model.n_rows_ - 1500) < 4 * model.n_rows_std_ < 100
    declared = fit(made([3, 2, 2], 1500), missing=missing, n_rows=1500)
    assert (declared.n_rows_, declared.n_rows_std_) == (1500, 0.0)


def test_one_cap_in_gaussian_dp_and_three_kinds_of_releases():
    (event,) = fit(made([3, 2, 4], 500)).guarantee_.events
    assert isinstance(event, FilterEvent)
    assert isinstance(event.capacity, GaussianEvent)
    assert not event.capacity.discrete
    assert all(type(e) is GaussianEvent and e.discrete for e in event.log)
    assert [e.sensitivity == 1 for e in event.log] == [True] * 6 + [False]  # the last: products
    spent = sum((e.sensitivity / e.sigma) ** 2 for e in event.log)
    cap = (event.capacity.sensitivity / event.capacity.sigma) ** 2
    assert 0.98 * cap < spent <= cap  # nothing is left over


# Synthetic rows.
def distance(drawn, wanted):
    return marginal_distance(wanted, drawn, k=2).mean


def test_all_pairs_are_close_and_holes_as_often_as_they_were():
    table = made([3, 4, 2, 5, 3], 10_000, nullable=False)
    drawn = fit(table).sample_table(10_000, random_state=0)
    assert distance(drawn, table) < 0.03
    for rate, most in ((0.2, 0.02), (0.0, 0.005)):
        holed = made([3, 2, 4], 8000, holes=rate)
        kept = fit(holed, epsilon=3.0).sample_table(8000, missing_values="keep", random_state=0)
        for name in holed.schema.names:
            assert kept.mask(name).mean() == pytest.approx(holed.mask(name).mean(), abs=most)
    rng = np.random.default_rng(0)
    mixed = {n: rng.permutation(table.codes(n)) for n in table.schema.names}
    assert distance(Table.from_codes(table.schema, mixed), table) > 0.2  # something to learn


@pytest.mark.slow
def test_a_clip_given_by_hand():
    table = made([2, 2], 20_000, nullable=False)
    drawn = fit(table, epsilon=20.0, clip=0.01).sample_table(20_000, random_state=0)
    assert distance(drawn, table) < 0.02


def test_holes_that_depend_on_another_attribute_are_corrected():
    """``c1`` goes missing where ``c0``, always observed and closely tied to it, is high."""
    whole = made([2, 2, 3], 10_000, nullable=["c1"])
    often = np.where(whole.codes("c0") == 1, 0.8, 0.1)
    holed = whole.with_missing({"c1": np.random.default_rng(1).random(10_000) < often})
    truth = (whole.codes("c1") == 1).mean()

    def error(missing):
        drawn = fit(holed, epsilon=3.0, missing=missing).sample_table(10_000)
        return abs((drawn.codes("c1") == 1).mean() - truth), distance(drawn, whole)

    joint, observed = error("joint"), error("observed")
    assert joint[0] < 0.03 < 0.1 < observed[0]
    assert joint[1] < 0.5 * observed[1]


# Tables of three attributes in addition to all pairs. They are charged, require attributes, stay
# within the caps, and are held by the rows.
ROWS = 6000
SIZES = {"a": 2, "b": 2, "c": 2, "d": 4, "e": 3}


def parity(holes=0.0):
    rng = np.random.default_rng(0)
    a, b, d = rng.integers(0, 2, ROWS), rng.integers(0, 2, ROWS), rng.integers(0, 4, ROWS)
    codes = {"a": a, "b": b, "c": a ^ b, "d": d, "e": np.minimum(d, rng.integers(0, 3, ROWS))}
    table = Table.from_codes(schema_of(SIZES, holes > 0), codes)
    return table.with_missing({n: rng.random(ROWS) < holes for n in SIZES if holes})


def topped(missing="joint", **more):
    given = {"workload": [("a", "b", "c")], "random_state": 1, **more}
    return AllPairs(epsilon=1.0, delta=1e-6, missing=missing, **given)


def off_parity(frame):
    """How far the law of the three is from four rows, of which each is as likely."""
    cells = (frame[[*"abc"]].to_numpy() @ [4, 2, 1]).astype(int)
    truth = [0.25 * (a ^ b == c) for a, b, c in product(range(2), repeat=3)]
    return float(np.abs(np.bincount(cells, minlength=8) / len(frame) - truth).sum() / 2)


@pytest.mark.parametrize(
    ("missing", "holes"),
    [("joint", 0.0), ("joint", 0.1), ("observed", 0.1), ("complete-rows", 0.1)],
)
def test_parity_is_held_where_it_is_asked_for(missing, holes, tmp_path):
    fitted = topped(missing).fit(parity(holes))
    assert off_parity(fitted.sample(ROWS)) < 0.04
    fitted.save(tmp_path / "model.json")
    again = AllPairs.load(tmp_path / "model.json")
    assert off_parity(again.sample(ROWS)) < 0.04
    assert again.tables_.higher_order[0, 1, 2].shape == fitted.tables_.higher_order[0, 1, 2].shape
    if not holes:
        tables = fitted.sample(ROWS, multiple=2, random_state=2)
        assert all(off_parity(t) < 0.06 for t in tables)
        assert off_parity(topped(workload=2).fit(parity()).sample(ROWS)) > 0.3


@pytest.mark.parametrize("missing", AllPairs.family.strategies)
def test_each_table_is_an_event_behind_its_gate_within_the_caps(missing):
    named = {("a", "b", "c"): 1.0, ("b", "d", "e"): 3.0}
    fitted = topped(missing, workload=named).fit(parity(0.1))
    (whole,) = fitted.guarantee_.events
    events = {e.label: e for e in releases(whole) if e.label.count(" x ") == 2}
    assert list(events) == ["marginal a x b x c", "marginal b x d x e"]
    required_sets = {"observed": [*named], "complete-rows": ["abcde"] * 2}.get(missing, [None] * 2)
    assert [e.required for e in events.values()] == [g and frozenset(g) for g in required_sets]
    few, many = ((e.sensitivity / e.sigma) ** 2 for e in events.values())
    assert many / few == pytest.approx(3.0, rel=0.02)
    pairs = releases(whole)[-1]
    left = (pairs.sensitivity / pairs.sigma) ** 2
    assert (few + many) / (few + many + left) == pytest.approx(0.12, rel=0.05)
    caps = fitted.fitted_.limits
    assert caps is None or caps.cover(whole)
    if missing == "observed":  # one that is dearer than its part is refused
        keeper = Spending(caps)
        for event in releases(whole):
            keeper.charge(event)
        dearer = events["marginal b x d x e"]
        with refuses(BudgetExceededError):
            keeper.charge(replace(dearer, sigma=dearer.sigma / 2))


def test_what_it_measures_counts_behind_its_own_gate_of_the_ground_truth():
    known = MissingCompletelyAtRandom(dict.fromkeys("abcde", 0.3))

    def epsilon(**more):
        return planned_ground_truth(topped("observed", **more), schema_of(SIZES), known).epsilon

    assert epsilon() < 0.999 * epsilon(workload=2)  # less of it reads every row


def test_columns_that_are_missing_together_are_drawn_so():
    gone = np.random.default_rng(3).random(ROWS) < 0.3
    table = rows_of(schema_of(SIZES), ROWS, holes=0).with_missing(dict.fromkeys("abc", gone))
    drawn = topped(workload=2).fit(table).sample(ROWS, missing_values="keep")
    holes = drawn[[*"abc"]].isna().sum(axis=1)
    assert holes.isin([1, 2]).mean() < 0.03
    assert (holes == 3).mean() == pytest.approx(0.3, abs=0.02)
