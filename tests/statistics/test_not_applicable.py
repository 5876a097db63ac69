"""Rows to which a question does not apply have no part in its answer; other kinds are holes."""

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_oracles import CARS, RULED, WORKS, Row, as_table, cells, in_order, row_of, tables
from knn_witness import OF_INCOME, RULED_QUESTIONS, Exact, behind, filled, prepared
from test_sensitivity import RULED_IMPUTATIONS

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget
from missdp.mechanisms import Prepared
from missdp.mechanisms.row_door import FilledRows, _with_one_kind_of_hole
from missdp.schema import Determined, NotApplicable
from missdp.statistics import Estimate, ImputedStatistics, KNNImputation

QUICK = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
ONE = RULED_IMPUTATIONS["one"]


def read(rows):
    return as_table(rows, RULED)


def kept(rows, name, asks=RULED_QUESTIONS):
    return behind(read(rows), RULED_IMPUTATIONS[name], asks=asks)


def came(table):
    return FilledRows(_with_one_kind_of_hole(table), Prepared())


def exactly(table, imputation=ONE):
    return ImputedStatistics(table, imputation, budget=Budget(1e9), random_state=Exact())


@QUICK
@given(tables(RULED, 7), st.lists(cells(RULED), max_size=3),
       st.lists(cells(RULED), min_size=7, max_size=7),
       st.sampled_from(["one", "one of work", "none"]))  # fmt: skip
def test_rows_to_which_incomes_do_not_apply_change_no_answer(rows, more, drawn, name):
    def not_working(row, new):
        car = row.car if name == "none" else new.car
        return replace(new, sex=row.sex, work="no", car=car, label=row.label)

    changed = [
        not_working(row, row_of(new, 0)) if row.work == "no" else row
        for row, new in zip(rows, drawn, strict=False)
    ]
    changed += [
        not_working(Row(0, "f", 0, "no", 3 + 2 * i), row_of(new, 0)) for i, new in enumerate(more)
    ]
    for a, b in zip(kept(rows, name, OF_INCOME), kept(changed, name, OF_INCOME), strict=True):
        assert (a.event, a.law) == (b.event, b.law)
        assert a.totals.tolist() == b.totals.tolist(), a.event.label
        assert getattr(a.exact, "bound", 0) == getattr(b.exact, "bound", 0)


@QUICK
@given(tables(RULED, 7), st.sampled_from(sorted(RULED_IMPUTATIONS)))
def test_other_kinds_are_holes_like_any(rows, name):
    gone = {-7: None, -8: None, "R": None, "X": None}
    plain = [
        replace(row, **{n: gone.get(v, v) for n, v in vars(row).items() if n != "label"})
        for row in rows
    ]
    for a, b in zip(kept(rows, name), kept(plain, name), strict=True):
        assert (a.event, a.law, a.totals.tolist()) == (b.event, b.law, b.totals.tolist())


@QUICK
@given(tables(RULED, 7))
def test_to_whom_an_attribute_applies_is_read_row_by_row(rows):
    together = came(read(rows)).applies("income")
    assert together[0].tolist() == [r.applies is True for r in in_order(rows)]
    assert together[1].tolist() == [r.applies is not False for r in in_order(rows)]


def test_a_hole_of_which_it_is_open_whether_it_applies_is_in_no_answer_but_in_the_worst_case():
    rows = [Row(1, "f", 8, "no", 2 + 2 * i) for i in range(50)]
    open_rows = [*rows, *(Row(1, "f", None, "no", 102 + 2 * i, None) for i in range(50))]
    for table, low in ((rows, 8.0), (open_rows, 4.1)):
        asked = exactly(read(table))
        answer = asked.mean("income", epsilon=1e6, uncertainty="worst-case")
        assert answer.value == pytest.approx(8, abs=0.01)
        assert low - 0.2 < answer.imputation_interval[0] < low
        assert answer.applicable == ("income",)


def test_answers_are_about_those_to_whom_the_question_applies():
    rows = [Row(i % 3, "f", 3, "yes", 2 + 2 * i, WORKS[i % 2]) for i in range(400)]
    asked, cost = exactly(read(rows)), {"epsilon": 1.0}
    for answer, value in (
        (asked.mean("income", **cost), 3),
        (asked.sum("income", **cost), 600),
        (asked.variance("income", **cost), 0),
        (asked.proportion("not income > 2", **cost), 0),
    ):
        assert answer.value == pytest.approx(value, abs=0.01)
        assert answer.applicable == ("income",)
    assert asked.count(where="income > 2", **cost).value == 200
    everybody = asked.count(where="not income > 2", **cost)
    assert everybody.value == 200  # a comparison with what is not applicable is false
    assert everybody.applicable == ()
    assert sum(asked.histogram("income", **cost).values) == 200


def test_what_is_not_applicable_matches_itself_best():
    rows = [
        Row(grade, "f", income, "yes", 2 + 2 * i)
        for i, (grade, income) in enumerate(
            [(-1, 8), (None, 3), (1, 0), (-1, None), (-8, None), (1, -7)]
        )
    ]
    made = filled(ONE, read(rows)).values("income")
    assert made.tolist() == [8, 3, 0, 8, 3, 0]


def test_what_follows_from_what_may_not_apply_may_not_apply():
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
    found = exactly(table, knn).sum("pay", epsilon=1.0).value
    assert found == pytest.approx(4)  # the last one takes 2, too


SOME = [
    Row(i % 4 - 1, "f", (0, 8, None, -7, -1)[i % 5], (*CARS, "X")[i % 3], i, (*WORKS, "R")[i % 3])
    for i in range(60)
]


def test_an_answer_says_whom_it_is_about():
    asked = ImputedStatistics(read(SOME), ONE, budget=Budget(100.0))
    answer = asked.mean("income", epsilon=1.0)
    assert answer.to_dict()["applicable"] == ["income"]
    assert Estimate.from_dict(answer.to_dict()) == answer
    assert "applicable" not in asked.count(epsilon=1.0).to_dict()
    assert asked.correlation("income", "income", epsilon=1.0).applicable == ("income",)


def test_who_may_not_be_asked_at_all_adds_nothing_to_the_least_sum():
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


def test_who_may_work_or_not_takes_what_else_is_missing_from_the_nearest_of_all():
    rows = [
        Row(1, "f", None, None, 2, None),
        Row(1, "f", None, "yes", 4, "no"),
        Row(2, "f", 3, "no", 6),
        Row(0, "f", 3, None, 8),
        Row(0, "f", None, "yes", 10, "no"),
    ]
    cars = filled(RULED_IMPUTATIONS["nearest"], read(rows)).codes("car")
    assert cars.tolist() == [1, 1, 0, 0, 1]


def test_blocks_have_a_place_for_what_is_not_applicable():
    # Among donors at a distance each donee has its own next one; a nearer one would serve all.
    rows = [Row(-1, "f", -7, "yes", 2 + 4 * i) for i in range(7)]
    rows += [Row(0, "f", 3, "yes", 4 + 4 * i) for i in range(7)]
    for partition in ({}, {"grade": 2}):
        knn = KNNImputation(impute="income", match_on="grade", partition=partition)
        assert prepared(knn, read(rows)).profile.served(1) == [7]
