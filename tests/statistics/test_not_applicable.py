"""Rows to which a question does not apply have no part in its answer; other kinds are holes."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_witness import Behind, Exact, behind, filled, prepared
from rules_oracles import (
    CARS,
    CELLS,
    SCHEMA,
    WORKS,
    Row,
    as_table,
    completions,
    imputed,
    labels_of,
    profile,
    tables,
)
from test_sensitivity import OF_HOURS, RULED_IMPUTATIONS, RULED_QUESTIONS

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget
from missdp.mechanisms import Filled, Prepared
from missdp.mechanisms.private_rows import FilledRows, with_one_kind_of_hole
from missdp.mechanisms.questions import Rows
from missdp.schema import Determined, NotApplicable
from missdp.schema.predicates import parse_where
from missdp.statistics import Estimate, ImputedStatistics, KNNImputation
from missdp.statistics.worst_case import PLACES, _average_bounds, _tally

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
KNN = {"impute": ("hours", "car"), "match_on": ("grade",)}
ONE = RULED_IMPUTATIONS["one"]


def kept(rows: list[Row], name: str, asks=RULED_QUESTIONS) -> list[Behind]:
    return behind(as_table(rows), RULED_IMPUTATIONS[name], labels_of(rows), asks=asks)


def came(table: Table) -> FilledRows:
    return FilledRows(with_one_kind_of_hole(table), Prepared())


def exactly(table: Table, imputation: KNNImputation | None = ONE) -> ImputedStatistics:
    return ImputedStatistics(table, imputation, budget=Budget(1e9), random_state=Exact())


@QUICK
@given(tables(), st.integers(1, 3))
def test_what_is_filled_and_from_whom(rows: list[Row], k: int) -> None:
    knn, table = KNNImputation(**KNN, k=k), as_table(rows)
    made = FilledRows(with_one_kind_of_hole(table), prepared(knn, table, labels_of(rows)))
    surely, _ = made.applies("hours")
    there = made.codes("hours") < SCHEMA["hours"].size
    wanted = imputed(rows, k)
    # Whether there is a value after filling is a function of the row alone.
    assert there.tolist() == surely.tolist() == [hours is not None for hours, _ in wanted]
    found = np.where(there, made.values("hours"), np.nan)
    assert found == pytest.approx([math.nan if h is None else h for h, _ in wanted], nan_ok=True)
    assert made.codes("car").tolist() == [car for _, car in wanted]


@QUICK
@given(tables(7), st.integers(1, 2))
def test_the_profile_counts_whom_one_donor_could_serve(rows: list[Row], k: int) -> None:
    found = prepared(KNNImputation(**KNN, k=k), as_table(rows), labels_of(rows)).profile
    for j in (0, 2, 1):
        assert found.upper(j + 1)[j] >= profile(rows, k, j)
        assert found.exact(j) == profile(rows, k, j)


@QUICK
@given(tables(7), st.lists(CELLS, max_size=3), st.lists(CELLS, min_size=7, max_size=7),
       st.sampled_from(["one", "one of work", "none"]))  # fmt: skip
def test_rows_to_which_hours_do_not_apply_change_no_answer(rows, more, cells, name) -> None:
    def not_working(row: Row, new: tuple) -> Row:
        return Row(new[0], "no", new[2], row.car if name == "none" else new[3], row.label)

    changed = [
        not_working(row, new) if row.work == "no" else row
        for row, new in zip(rows, cells, strict=False)
    ]
    changed += [not_working(Row(0, "no", 0, "no", 3 + 2 * i), new) for i, new in enumerate(more)]
    for a, b in zip(kept(rows, name, OF_HOURS), kept(changed, name, OF_HOURS), strict=True):
        assert (a.event, a.law) == (b.event, b.law)
        assert a.totals.tolist() == b.totals.tolist(), a.event.label
        assert getattr(a.exact, "bound", 0) == getattr(b.exact, "bound", 0)


@QUICK
@given(tables(7), st.sampled_from(sorted(RULED_IMPUTATIONS)))
def test_other_kinds_are_holes_like_any(rows: list[Row], name: str) -> None:
    gone = {-7: None, -8: None, "R": None, "X": None}
    plain = [
        replace(row, **{n: gone.get(v, v) for n, v in vars(row).items() if n != "label"})
        for row in rows
    ]
    for a, b in zip(kept(rows, name), kept(plain, name), strict=True):
        assert (a.event, a.law, a.totals.tolist()) == (b.event, b.law, b.totals.tolist())


@QUICK
@given(tables(7))
def test_to_whom_an_attribute_applies_is_read_row_by_row(rows: list[Row]) -> None:
    together = came(as_table(rows)).applies("hours")
    alone = [came(as_table([row])).applies("hours") for row in rows]
    assert [x.tolist() for x in together] == [[x[i][0] for x in alone] for i in (0, 1)]
    assert together[0].tolist() == [r.applies is True for r in rows]
    assert together[1].tolist() == [r.applies is not False for r in rows]


def exact_mean(rows: tuple[Row, ...], of: str, where: str) -> float | None:
    """The portion of a complete table, or None if nobody is in the subpopulation."""
    table = [r for r in rows if r.applies and (where == "" or r.place in (1, 2))]
    shares = [r.worked / 8 if of == "hours" else float(r.worked > 2) for r in table]
    return sum(shares) / len(shares) if shares else None


@settings(QUICK, max_examples=60)
@given(tables(3), st.sampled_from(["hours", "hours > 2"]), st.sampled_from(["", "grade > 0"]))
def test_the_worst_case_holds_every_completion(rows, of, where) -> None:
    schema = SCHEMA
    asked = schema["hours"] if of == "hours" else parse_where(of, schema)
    view = Rows(came(as_table(rows)), frozenset({"hours", "grade"}))
    parts = _tally(view, parse_where(where, schema), asked, ("hours",), PLACES)
    assert (parts.sum(axis=1) <= 1).all()
    assert not parts[[r.applies is False for r in rows]].any()
    low, high = _average_bounds(
        {name: (t, t) for name, t in zip(PLACES, parts.sum(axis=0), strict=True)}
    )
    found = [exact_mean(c, of, where) for c in product(*map(completions, rows))]
    known = [mean for mean in found if mean is not None]
    assert all(low - 1e-9 <= mean <= high + 1e-9 for mean in known)


def test_a_hole_of_which_it_is_open_whether_it_applies_is_in_no_answer_but_in_the_worst_case():
    rows = [Row(1, "yes", 8, "no", 2 + 2 * i) for i in range(50)]
    open_rows = [*rows, *(Row(1, None, None, "no", 102 + 2 * i) for i in range(50))]
    for table, low in ((rows, 8.0), (open_rows, 4.1)):
        asked = exactly(as_table(table))
        answer = asked.mean("hours", epsilon=1e6, uncertainty="worst-case")
        assert answer.value == pytest.approx(8, abs=0.01)
        assert low - 0.2 < answer.imputation_interval[0] < low
        assert answer.applicable == ("hours",)


def test_answers_are_about_those_to_whom_the_question_applies() -> None:
    rows = [Row(i % 3, ("no", "yes")[i % 2], 3, "yes", 2 + 2 * i) for i in range(400)]
    asked = exactly(as_table(rows))
    wanted = {
        "mean": 3, "sum": 400 / 3, "count": 200, "proportion": 0, "variance": 0, "worst count": 200,
    }  # fmt: skip
    wanted["sum"] = 3 * sum(r.work == "yes" for r in rows)
    for name, value in wanted.items():
        found = OF_HOURS[name](asked, epsilon=1.0)
        assert found.value == pytest.approx(value, abs=0.01), name
        assert found.applicable == (() if "count" in name else ("hours",))
    everybody = asked.count(where="not hours > 2", epsilon=1.0)
    assert everybody.value == 200  # a comparison with what is not applicable is false
    counts = OF_HOURS["histogram"](asked, epsilon=1.0)
    assert sum(counts.values) == 200


def test_nobody_to_whom_it_applies() -> None:
    rows = [Row(1, "no", 3, "yes", 2 + 2 * i) for i in range(9)]
    for name in RULED_IMPUTATIONS:
        for answer in kept(rows, name, OF_HOURS):
            if "of two" not in answer.event.label:
                assert not answer.totals.any() or answer.event.label.startswith("upper bound")


def test_what_is_not_applicable_matches_itself_best() -> None:
    rows = [
        Row(-1, "yes", 8, "yes", 2), Row(None, "yes", 3, "yes", 4), Row(1, "yes", 0, "yes", 6),
        Row(-1, "yes", None, "yes", 8), Row(-8, "yes", None, "yes", 10),
        Row(1, "yes", -7, "yes", 12),
    ]  # fmt: skip
    table = as_table(rows)
    made = filled(ONE, table, labels_of(rows))["hours"]
    assert made.tolist() == [8, 3, 0, 8, 3, 0]
    codes = SCHEMA["grade"].not_applicable
    assert codes == (-1,)
    (distances,) = (
        KNNImputation(impute="hours", match_on="grade")
        .check(with_one_kind_of_hole(table).schema)
        .tables
    )
    assert len(distances) == 5
    assert (distances[3:][:, :3] == distances.max()).all()
    assert distances[3, 4] == distances[4, 3] == distances.max()


def test_what_follows_from_what_may_not_apply_may_not_apply() -> None:
    schema = Schema(
        (
            Categorical(name="work", levels=WORKS, nullable=True),
            Ordinal(name="job", levels=("a", "b"), nullable=True),
            Numeric(name="pay", lower=0, upper=9, nullable=True),
        ),
        (
            NotApplicable("job", unless="work = 'yes'"),
            Determined("pay", by="job", map=(("a", 2), ("b", 7))),
        ),
    )
    frame = pd.DataFrame(
        {"work": ["yes", "no", None, "yes"], "job": ["a", "b", None, None], "pay": [None] * 4}
    )
    table = Table.read(frame.astype("string"), schema)
    surely, maybe = came(table).applies("pay")
    assert surely.tolist() == [True, False, False, True]
    assert maybe.tolist() == [True, False, True, True]
    knn = KNNImputation(impute="pay", match_on="work")
    assert exactly(table, knn).sum("pay", epsilon=1.0).value == pytest.approx(
        4
    )  # the last one takes 2, too


SOME = [Row(i % 4 - 1, (*WORKS, "R")[i % 3], (0, 8, None, -7, -1)[i % 5], (*CARS, "X")[i % 3], i)
        for i in range(60)]  # fmt: skip


def test_a_preparation_cannot_fill_what_does_not_apply() -> None:
    table = with_one_kind_of_hole(as_table(SOME))
    size = len(table)
    everything = Filled(np.arange(size), np.zeros(size, dtype=np.int64), np.full(size, 1.0))
    made = FilledRows(table, Prepared({"hours": everything}))
    surely = came(table).applies("hours")[0]
    assert (made.codes("hours") == np.where(surely, 0, table.codes("hours"))).all()
    assert (made.values("hours") == np.where(surely, 1.0, table.values("hours"))).all()


def test_an_answer_says_whom_it_is_about() -> None:
    asked = ImputedStatistics(as_table(SOME), ONE, budget=Budget(100.0))
    answer = asked.mean("hours", epsilon=1.0)
    assert answer.to_dict()["applicable"] == ["hours"]
    assert Estimate.from_dict(answer.to_dict()) == answer
    assert "applicable" not in asked.count(epsilon=1.0).to_dict()
    assert asked.correlation("hours", "hours", epsilon=1.0).applicable == ("hours",)


def test_who_may_not_be_asked_at_all_adds_nothing_to_the_least_sum() -> None:
    schema = Schema(
        (
            Categorical(name="work", levels=WORKS, nullable=True),
            Numeric(name="pay", lower=10, upper=20, nullable=True),
        ),
        (NotApplicable("pay", unless="work = 'yes'"),),
    )
    frame = pd.DataFrame(
        {"work": ["yes"] * 50 + [None] * 50, "pay": pd.array([10.0] * 50 + [None] * 50, "Float64")}
    )
    asked = exactly(Table.read(frame, schema), KNNImputation(impute="pay", match_on="work"))
    low, high = asked.sum("pay", epsilon=1e6, uncertainty="worst-case").imputation_interval
    assert (low, high) == pytest.approx((500, 1500), abs=1)


def test_who_may_work_or_not_takes_what_else_is_missing_from_the_nearest_of_all() -> None:
    rows = [
        Row(1, None, None, None, 2), Row(1, "no", None, "yes", 4), Row(2, "yes", 3, "no", 6),
        Row(0, "yes", 3, None, 8), Row(0, "no", None, "yes", 10),
    ]  # fmt: skip
    cars = filled(RULED_IMPUTATIONS["nearest"], as_table(rows), labels_of(rows))["car"]
    assert cars.tolist() == [1, 1, 0, 0, 1]


def test_blocks_have_a_place_for_what_is_not_applicable() -> None:
    # Among donors at a distance each donee has its own next one; a nearer one would serve all.
    rows = [Row(-1, "yes", -7, "yes", 2 + 4 * i) for i in range(7)]
    rows += [Row(0, "yes", 3, "yes", 4 + 4 * i) for i in range(7)]
    for partition in ({}, {"grade": 2}):
        knn = KNNImputation(impute="hours", match_on="grade", partition=partition)
        assert prepared(knn, as_table(rows), labels_of(rows)).profile.exact(0) == 7
