"""The profile, the donors and the smooth bound against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_oracles import (
    GRADES,
    SCHEMA,
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
)
from knn_witness import filled, prepared

from missdp.errors import UnprovenError
from missdp.mechanisms import Prepared
from missdp.statistics import KNNImputation
from missdp.statistics.donors import change_bounds

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def imputation(k: int, group: bool = False, **more: object) -> KNNImputation:
    where = {"match_on": "grade", "group": "sex"} if group else {"match_on": ("grade", "sex")}
    return KNNImputation(impute=("income", "car"), k=k, **where, **more)


def prepare(rows: list[Row], k: int, group: bool = False, **more: object) -> Prepared:
    return prepared(imputation(k, group, **more), as_table(rows), labels_of(rows))


def fill(rows: list[Row], k: int, group: bool = False) -> dict[str, np.ndarray]:
    return filled(imputation(k, group), as_table(rows), labels_of(rows))


@QUICK
@given(tables(), st.integers(1, 3), st.booleans())
def test_filled_cells_equal_brute_force(rows: list[Row], k: int, group: bool) -> None:
    columns = fill(rows, k, group)
    expected = imputed(rows, k, group)
    assert columns["income"].tolist() == pytest.approx([income for income, _ in expected])
    assert columns["car"].tolist() == [car for _, car in expected]


@QUICK
@given(tables(12), st.integers(1, 3), st.booleans())
def test_profile_equals_brute_force(rows: list[Row], k: int, group: bool) -> None:
    found = prepare(rows, k, group).profile
    for j in range(5):
        exact = profile(rows, k, j, group)
        assert found.upper(5)[j] >= exact
        assert found.exact(j) == exact


@QUICK
@given(tables(10), st.integers(1, 2))
def test_blocks_rank_at_the_smallest_distance(rows: list[Row], k: int) -> None:
    # Blocks of grade {0, 1}, {2} and missing; sex stays exact.
    found = prepare(rows, k, partition={"grade": 2}).profile
    donees = [x for x in rows if not x.complete]
    blocks = [
        [Row(g, sex, 0, "no", 0) for g in grades]
        for grades in ((0, 1), (2,), (None,))
        for sex in SEXES
    ]
    for j in range(3):
        best = 0
        for block in blocks:
            for label in {row.label + 1 for row in rows}:
                ranks = []
                for x in donees:
                    nearest = min(distance(x, t) for t in block)
                    key = (nearest, (label - x.label) % 10**6)
                    ranks.append(rank(x, block[0], rows, False, key=key))
                best = max(best, sum(r <= k + j for r in ranks))
        assert found.exact(j) == best >= profile(rows, k, j)


@settings(QUICK, max_examples=12)
@given(tables(6), st.integers(1, 3), st.booleans(), st.randoms(use_true_random=False))
def test_bound_moves_by_one_step_between_neighbours(rows, k, group, chance) -> None:
    def bounds(table: list[Row], terms: int) -> tuple[np.ndarray, list[float]]:
        found = prepare(table, k, group).profile
        exact = np.array([found.exact(j) for j in range(terms)])
        smooth = [found.smooth_bound(own=1.0, donee=2.0, beta=b) for b in (0.05, 0.4, 3.0)]
        return change_bounds(exact), smooth

    here, smooth_here = bounds(rows, 6)
    everyone = neighbours(rows)
    for other in chance.sample(everyone, min(25, len(everyone))):
        if not other:
            continue
        there, smooth_there = bounds(other, 6)
        assert (here[:-1] <= there[1:]).all()
        assert (there[:-1] <= here[1:]).all()
        for beta, a, b in zip((0.05, 0.4, 3.0), smooth_here, smooth_there, strict=True):
            assert abs(math.log(a / b)) <= beta + 2.0**-40


def random_rows(size: int, seed: int, holes: float = 0.4) -> list[Row]:
    rng = np.random.default_rng(seed)
    labels = rng.permutation(size)
    return [
        Row(
            (*GRADES, None)[rng.choice(4, p=[0.6, 0.2, 0.1, 0.1])],
            SEXES[rng.integers(2)],
            None if rng.random() < holes else 3,
            "no",
            int(2 * label + 2),
        )
        for label in labels
    ]


@pytest.mark.parametrize(("size", "holes"), [(40, 0.3), (36, 0.9), (30, 1.0), (30, 0.0)])
def test_profile_of_larger_tables(size: int, holes: float) -> None:
    rows = random_rows(size, size, holes)
    found = prepare(rows, 2).profile
    assert [found.exact(j) for j in (0, 3, 1)] == [profile(rows, 2, j) for j in (0, 3, 1)]


def test_smooth_bound_is_the_maximum_over_all_terms() -> None:
    rows = random_rows(80, 3)
    donees = sum(not row.complete for row in rows)
    lazy, full = prepare(rows, 1).profile, prepare(rows, 1).profile
    terms = np.arange(300)
    reach = change_bounds(np.array([full.exact(int(j)) for j in terms]))
    for beta in (0.01, 0.05, 0.2, 1.0):
        expected = np.max(np.exp(-beta * terms) * (3 + 2 * reach))
        found = lazy.smooth_bound(own=3.0, donee=2.0, beta=beta)
        assert expected <= found <= expected * (1 + 2.0**-40)
    assert donees == lazy.donees


def test_terms_beyond_the_limit_are_bounded_by_the_donees() -> None:
    found = prepare(random_rows(50, 4), 1).profile
    found.max_terms = 4
    beta = 0.01
    j = 1 / beta - found.donees
    expected = math.exp(-beta * j) * (j + found.donees)
    assert found.smooth_bound(own=0.0, donee=1.0, beta=beta) == pytest.approx(expected)


def test_tables_without_donors_donees_or_rows() -> None:
    nobody = random_rows(5, 0, holes=1.0)
    assert fill(nobody, 2)["income"].tolist() == [4.0] * 5
    assert prepare(nobody, 2).profile.exact(0) == 5
    assert prepare(random_rows(5, 0, holes=0.0), 2).profile.exact(7) == 0
    table = as_table(random_rows(3, 0)).take(np.zeros(3, dtype=bool))
    empty = prepared(imputation(1), table).profile
    assert empty.smooth_bound(own=1.0, donee=1.0, beta=1.0) == pytest.approx(1.0)


def test_the_metric_refuses_domains_beyond_the_exact_bound() -> None:
    from missdp import Ordinal, Schema
    from missdp.statistics.metric import build_metric

    schema = Schema(tuple(Ordinal(name=f"a{i}", levels=tuple(range(40))) for i in range(4)))
    facts = {"match_on": dict.fromkeys(schema.names, 1.0), "group": (), "metric": "gower"}
    with pytest.raises(UnprovenError, match="partition"):
        build_metric(schema, partition={}, **facts)
    assert build_metric(schema, partition={"a0": 4, "a1": 4}, **facts).sites == 4 * 4 * 1600


def test_reprs_show_nothing_private() -> None:
    rows = random_rows(7, 1)
    found = prepare(rows, 1)
    for thing in (found, found.profile):
        assert not any(character.isdigit() for character in repr(thing).split(" at 0x")[0])


def test_schema_of_the_oracle_is_the_one_tested() -> None:
    assert SCHEMA["income"].size == 3
