"""Donors, profile and smooth bound against brute force, in whatever parts rows are looked at."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_oracles import (
    GRADES,
    PLAIN,
    SEXES,
    Row,
    as_table,
    distance,
    imputed,
    labels_of,
    neighbours,
    profile,
    rank,
    tables,
    worlds,
)
from knn_witness import filled, prepared

from missdp import Budget, Categorical, Numeric, Ordinal, Schema, Table, shelf
from missdp.errors import UnprovenError
from missdp.mechanisms import Prepared
from missdp.mechanisms.private_rows import FilledRows, ranks, with_one_kind_of_hole
from missdp.schema import NotApplicable
from missdp.statistics import ImputedStatistics, KNNImputation, donors
from missdp.statistics import profile as profiles
from missdp.statistics.donors import Layout, _Side
from missdp.statistics.metric import build_metric
from missdp.statistics.profile import _change_bounds, _Ring

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
SEEDS = st.integers(0, 2**32 - 1)


def imputation(k: int, group: bool = False, **more: object) -> KNNImputation:
    where = {"match_on": "grade", "group": "sex"} if group else {"match_on": ("grade", "sex")}
    return KNNImputation(impute=("income", "car"), k=k, **where, **more, tie_breaks=1)


def prepare(rows: list[Row], k: int, group: bool = False, schema=PLAIN, **more) -> Prepared:
    return prepared(imputation(k, group, **more), as_table(rows, schema), labels_of(rows))


@QUICK
@given(worlds(), st.integers(1, 3), st.booleans())
def test_filled_cells_equal_brute_force(world, k: int, group: bool) -> None:
    schema, rows = world
    table = as_table(rows, schema)
    made = FilledRows(
        with_one_kind_of_hole(table), prepared(imputation(k, group), table, labels_of(rows))
    )
    expected = imputed(rows, k, group)
    # Whether there is a value after filling is a function of the row alone.
    there = made.codes("income") < schema["income"].size
    surely = made.applies("income")[0]
    assert there.tolist() == surely.tolist() == [income is not None for income, _ in expected]
    found = np.where(there, made.values("income"), np.nan)
    incomes = [math.nan if income is None else income for income, _ in expected]
    assert found == pytest.approx(incomes, nan_ok=True)
    assert made.codes("car").tolist() == [car for _, car in expected]


@QUICK
@given(worlds(), st.integers(1, 3), st.booleans())
def test_profile_equals_brute_force(world, k: int, group: bool) -> None:
    schema, rows = world
    found = prepare(rows, k, group, schema).profile
    for j in (0, 4, 1):
        exact = profile(rows, k, j, group)
        assert found.upper(5)[j] >= exact
        assert found.exact(j) == exact


@settings(QUICK, max_examples=20)
@given(tables(), st.integers(1, 2))
def test_blocks_rank_at_the_smallest_distance(rows: list[Row], k: int) -> None:
    # Blocks of grade {0, 1}, {2} and missing; sex stays exact.
    found = prepare(rows, k, partition={"grade": 2}).profile
    donees = [x for x in rows if x.takes]
    blocks = [
        [Row(g, sex, 0, "no", 0) for g in grades]
        for grades in ((0, 1), (2,), (None,))
        for sex in SEXES
    ]
    places = [(block, row.label + 1) for block in blocks for row in rows]
    for j in (0, 2):
        best = 0
        for block, label in places:
            near = [(min(distance(x, t) for t in block), (label - x.label) % 10**6) for x in donees]
            ranks = [rank(x, block[0], rows, at=at) for x, at in zip(donees, near, strict=True)]
            best = max(best, sum(r <= k + j for r in ranks))
        assert found.exact(j) == best >= profile(rows, k, j)


@settings(QUICK, max_examples=10)
@given(worlds(6), st.integers(1, 3), st.booleans(), st.randoms(use_true_random=False))
def test_bound_moves_by_one_step_between_neighbours(world, k, group, chance) -> None:
    schema, rows = world

    def bounds(table: list[Row], terms: int) -> tuple[np.ndarray, list[float]]:
        found = prepare(table, k, group, schema).profile
        exact = np.array([found.exact(j) for j in range(terms)])
        smooth = [found.smooth_bound(own=1.0, donee=2.0, beta=b) for b in (0.05, 0.4, 3.0)]
        return _change_bounds(exact), smooth

    here, smooth_here = bounds(rows, 6)
    everyone = [other for other in neighbours(schema, rows) if other]
    for other in chance.sample(everyone, min(15, len(everyone))):
        there, smooth_there = bounds(other, 6)
        assert (here[:-1] <= there[1:]).all()
        assert (there[:-1] <= here[1:]).all()
        for a, b, beta in zip(smooth_here, smooth_there, (0.05, 0.4, 3.0), strict=True):
            assert abs(math.log(a / b)) <= beta + 2.0**-40


def random_rows(size: int, seed: int, holes: float = 0.4) -> list[Row]:
    rng = np.random.default_rng(seed)
    return [
        Row(
            (*GRADES, None)[rng.choice(4, p=[0.6, 0.2, 0.1, 0.1])], SEXES[rng.integers(2)],
            None if rng.random() < holes else 3, "no", int(2 * label + 2),
        )
        for label in rng.permutation(size)
    ]  # fmt: skip


@pytest.mark.parametrize(("size", "holes"), [(30, 0.3), (24, 0.9), (20, 1.0)])
def test_profile_of_larger_tables(size: int, holes: float) -> None:
    rows = random_rows(size, size, holes)
    found = prepare(rows, 2).profile
    assert [found.exact(j) for j in (0, 3, 1)] == [profile(rows, 2, j) for j in (0, 3, 1)]


def test_smooth_bound_is_the_maximum_over_all_terms() -> None:
    rows = random_rows(80, 3)
    lazy, full = prepare(rows, 1).profile, prepare(rows, 1).profile
    terms = np.arange(300)
    reach = _change_bounds(np.array([full.exact(int(j)) for j in terms]))
    for beta in (0.01, 0.05, 0.2, 1.0):
        expected = np.max(np.exp(-beta * terms) * (3 + 2 * reach))
        found = lazy.smooth_bound(own=3.0, donee=2.0, beta=beta)
        assert expected <= found <= expected * (1 + 2.0**-40)
    # Terms beyond the limit are bounded by the number of donees.
    found = prepare(random_rows(50, 4), 1).profile
    found.max_terms = 4
    j = 1 / 0.01 - found.donees
    expected = math.exp(-0.01 * j) * (j + found.donees)
    assert found.smooth_bound(own=0.0, donee=1.0, beta=0.01) == pytest.approx(expected)


def test_tables_without_donors_donees_or_rows() -> None:
    nobody = random_rows(5, 0, holes=1.0)
    assert (
        filled(imputation(2), as_table(nobody), labels_of(nobody))["income"].tolist() == [4.0] * 5
    )
    assert prepare(nobody, 2).profile.exact(0) == 5
    assert prepare(random_rows(5, 0, holes=0.0), 2).profile.exact(7) == 0
    table = as_table(random_rows(3, 0)).take(np.zeros(3, dtype=bool))
    empty = prepared(imputation(1), table).profile
    assert empty.smooth_bound(own=1.0, donee=1.0, beta=1.0) == pytest.approx(1.0)
    for thing in (empty, prepare(random_rows(7, 1), 1)):  # and no repr shows anything private
        assert not any(character.isdigit() for character in repr(thing).split(" at 0x")[0])


def test_the_metric_refuses_domains_beyond_the_exact_bound() -> None:
    schema = Schema(tuple(Ordinal(name=f"a{i}", levels=tuple(range(40))) for i in range(4)))
    facts = {"match_on": dict.fromkeys(schema.names, 1.0), "group": (), "metric": "gower"}
    with pytest.raises(UnprovenError, match="partition"):
        build_metric(schema, partition={}, **facts)
    assert build_metric(schema, partition={"a0": 4, "a1": 4}, **facts).sites == 4 * 4 * 1600


# The circle of labels


@given(st.lists(st.integers(0, 6), max_size=5), st.integers(0, 30), SEEDS, st.booleans())
def test_rows_below_a_label_are_those_counted_by_hand(sizes, asked, seed, in_memory):
    rng, many, start = np.random.default_rng(seed), sum(sizes), np.cumsum([0, *sizes])
    given_ranks = rng.permutation(max(1, 2 * many)).astype(np.uint32)
    cells = [np.sort(given_ranks[a:b]) for a, b in pairwise(start)]
    labels = np.concatenate([np.zeros(0, np.uint32), *cells, np.full(many, 4 * many, np.uint32)])
    side = _Side(np.arange(many), labels, start)
    cells = rng.integers(0, max(1, len(sizes)), asked if sizes else 0)
    wanted = rng.integers(0, 2 * many, len(cells)).astype(np.uint32) if many else cells
    by_hand = [
        int((labels[start[c] : start[c + 1]] < w).sum()) for c, w in zip(cells, wanted, strict=True)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(donors, "_ROWS", 2**20 if in_memory else 3)
        assert side.below(cells, wanted).tolist() == by_hand


def depth_by_hand(layout, cell, reach):
    give, take = (
        side.ranks[side.rows[slice(*side.start[cell : cell + 2])]].astype(int)
        for side in (layout.donors, layout.donees)
    )
    if len(give) <= reach:
        return len(take)
    passed = np.searchsorted(give, take)
    return max(np.count_nonzero((passed - one) % len(give) < reach) for one in passed)


@given(SEEDS, st.integers(1, 9), st.booleans())
def test_depths_are_those_counted_by_hand(seed, at_once, disk):
    rng = np.random.default_rng(seed)
    size, cells = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    cell, gives = rng.integers(0, cells, size), rng.random(size) < 0.6
    label = rng.permutation(size).astype(np.uint8)
    order = np.lexsort((label, cell))
    sides = (
        _Side(kept, label, np.searchsorted(cell[kept], np.arange(cells + 1)))
        for kept in (order[gives[order]], order[~gives[order]])
    )
    layout = Layout(None, None, *sides, size)
    near = SimpleNamespace(cells=np.flatnonzero(layout.donees.counts))
    with pytest.MonkeyPatch.context() as patch, shelf.on_disk(1 if disk else None):
        patch.setattr(profiles, "DONEES", at_once)
        patch.setattr(shelf, "_LEAST", 1)
        ring = _Ring(layout, near)
        for reach in range(1, 12):
            expected = [depth_by_hand(layout, c, reach) for c in near.cells]
            assert ring.depth(reach).tolist() == expected


@given(st.integers(1, 60), SEEDS, st.booleans())
def test_arcs_overlap_as_often_as_counted_by_hand(many, seed, disk):
    rng = np.random.default_rng(seed)
    size = 2 * many + int(rng.integers(1, 20))
    start = rng.permutation(size)[:many].astype(np.uint32)
    stop = rng.integers(0, size, many).astype(np.uint32)
    by_hand = [
        sum(s <= p <= e if s <= e else p >= s or p <= e for s, e in zip(start, stop, strict=True))
        for p in range(size)
    ]
    with pytest.MonkeyPatch.context() as patch, shelf.on_disk(1 if disk else None):
        patch.setattr(profiles, "DONEES", 5 if disk else 100)
        patch.setattr(shelf, "_LEAST", 1)
        patch.setattr(shelf, "_STRETCH", 16)
        labels = stop.copy()
        profiles._sort(labels, size)
        assert (labels == np.sort(stop)).all()
        assert profiles._overlap(start, stop, size) == max(by_hand)


def test_ranks_are_those_of_a_stable_sort():
    labels = np.random.default_rng(0).integers(0, 2**64, 5000, dtype=np.uint64)
    labels[::7] = labels[0]
    assert (np.argsort(ranks(labels)) == np.argsort(labels, kind="stable")).all()
    assert (ranks(np.zeros(5, dtype=np.uint64)) == np.arange(5)).all()


# Rows are looked at in parts: answers are those of all rows at once.

WHOLE = Schema(
    (
        Ordinal(name="grade", levels=(1, 2, 3), nullable=True),
        Numeric(name="income", lower=0, upper=100, bins=8, nullable=True),
        Categorical(name="c", levels=("u", "v"), nullable=True),
        Categorical(name="work", levels=("no", "yes")),
    )
)
ROUTED = Schema(WHOLE.attributes, rules=(NotApplicable("income", unless="work = 'yes'"),))


def answers(schema, imputation, n=700):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "grade": rng.choice(np.array([1, 2, 3, None]), n, p=[0.6, 0.3, 0.05, 0.05]),
            "income": np.where(rng.random(n) < 0.3, np.nan, rng.random(n) * 100),
            "c": rng.choice(np.array(["u", "v", None]), n),
            "work": rng.choice(["no", "yes"], n),
        }
    )
    table = Table.read(frame, schema)
    asked = ImputedStatistics(table, imputation, budget=Budget(100.0), random_state=7)
    return [
        asked.mean("income", where="c = 'u'", epsilon=1.0).value,
        asked.count(where="income > 50", epsilon=1.0).value,
        asked.variance("income", epsilon=1.0).value,
        asked.histogram("income", epsilon=1.0).values,  # noqa: PD011
        asked.mean("income", epsilon=1.0, uncertainty="worst-case").imputation_interval,
    ]


# Released from this seed by version 0.2: no rewriting changes a number.
BEFORE = {
    WHOLE: [43.819224683544306, 287.25390625, 814.7515114503449,
            (0.0, 114.3515625, 119.578125, 97.8046875, 52.421875, 23.7734375, 102.5703125, 0.0),
            (27.289519244124772, 70.74177619623981)],
    ROUTED: [41.19318181818182, 136.01953125, 842.355156938083,
             (0.0, 74.3515625, 61.578125, 40.8046875, 9.421875, 0.0, 61.5703125, 0.0),
             (17.045987846977102, 83.56132929926477)],
}  # fmt: skip


def test_answers_are_what_they_were() -> None:
    for schema, before in BEFORE.items():
        found = answers(
            schema, KNNImputation(impute="income", match_on=("grade", "work"), tie_breaks=1)
        )
        # To the last bit on one machine; sums of floating point differ a little between machines.
        for one, other in zip(found, before, strict=True):
            assert one == pytest.approx(other, rel=1e-12)


IN_PARTS = {
    "mechanisms.questions.PART_ROWS": 64,
    "mechanisms.private_rows.PART_ROWS": 64, "mechanisms.private_rows._MANY": 10,
    "statistics.donors.DONEES": 50, "statistics.imputation.DONEES": 50,
    "statistics.profile.DONEES": 50, "statistics.donors._HEARD": 20,
    "statistics.donors._CHUNK": 33, "statistics.donors._ROWS": 33, "shelf._LEAST": 1,
    "shelf._FULL": 0, "shelf._TIGHT": 0, "shelf._BLOCK": 70, "shelf._STRETCH": 160,
}  # fmt: skip


@pytest.mark.parametrize("schema", [WHOLE, ROUTED], ids=["whole", "routed"])
@pytest.mark.parametrize(
    "imputation",
    [
        KNNImputation(impute="income", match_on=("grade", "work"), tie_breaks=1),
        KNNImputation(impute=("income", "c"), match_on="grade", group="work", k=5, tie_breaks=1),
        None,
    ],
    ids=["nearest", "several", "none"],
)
def test_parts_change_nothing(schema, imputation, monkeypatch):
    whole = answers(schema, imputation)
    for name, rows in IN_PARTS.items():
        monkeypatch.setattr(f"missdp.{name}", rows)
    assert answers(schema, imputation) == whole
    with shelf.on_disk(1):
        assert answers(schema, imputation) == whole
