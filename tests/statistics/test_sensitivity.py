"""Exact numbers of every answer move between neighbours by at most the charged sensitivity."""

from dataclasses import replace
from itertools import product

import knn_oracles as brute
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from knn_oracles import PLAIN, RULED, WORKS, Row, as_table, cells, in_order, row_of, tables
from knn_recordings import (
    OF_INCOME,
    QUESTIONS,
    RULED_QUESTIONS,
    WAYS,
    Exact,
    behind,
    prepared,
    shift_is_too_large,
    totals,
)

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Filter
from missdp.schema import Determined, NotApplicable
from missdp.session import Noise
from missdp.statistics import Estimate, ImputedStatistics, KNNImputation, RowCounts, RowSums
from missdp.statistics import imputation as profiles
from missdp.statistics.answers import _product_change
from missdp.statistics.imputation import _Profile
from missdp.statistics.imputed_rows import ImputedRows, with_one_kind_of_missing
from missdp.statistics.row_queries import RowQuery
from missdp.statistics.smooth_sensitivity import SmoothNoise, calibrate_smooth_noise
from missdp.statistics.tasks import StatisticTask

FILLED = {"impute": ("income", "car"), "match_on": ("grade", "sex")}
IMPUTATIONS = {
    "nearest": KNNImputation(**FILLED),
    "two": KNNImputation(**FILLED, k=2),
    "three": KNNImputation(**FILLED, k=3),
    "group": KNNImputation(impute=("income", "car"), match_on="grade", group="sex"),
    "none": None,
}
RULED_IMPUTATIONS = IMPUTATIONS | {
    "one": KNNImputation(impute="income", match_on="grade"),
    "one of work": KNNImputation(impute="income", match_on="grade", group="work"),
    "of others": KNNImputation(impute="car", match_on=("income", "grade")),
}
WORLDS = {PLAIN: (IMPUTATIONS, QUESTIONS), RULED: (RULED_IMPUTATIONS, RULED_QUESTIONS)}
CASES = [(schema, name) for schema, (imputations, _) in WORLDS.items() for name in imputations]
QUICK = settings(
    max_examples=24, deadline=None, suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)  # fmt: skip


def has_missing(row):
    return bool({None, -7, -8, "R", "X"} & set(vars(row).values()))


def check_neighbours(data, case, way, chance, each):
    schema, name = case
    imputations, asks = WORLDS[schema]
    rows = data.draw(tables(schema, 6))

    def of(table):
        read = as_table(table, schema)
        return behind(read, imputations[name], way=way, asks=asks)

    here, everyone = of(rows), brute.neighbours(schema, rows)
    more = [other for other in everyone if len(other) > len(rows)]
    # Half of those with a row more have missing cells in it.
    for some in (everyone[: len(rows)], more, [other for other in more if has_missing(other[-1])]):
        for other in chance.sample(some, min(each, len(some))):
            for a, b in zip(here, of(other), strict=True):
                assert not shift_is_too_large(a, b), a.event.label


@pytest.mark.long
@pytest.mark.parametrize(
    ("examples", "each"), [(12, 1), pytest.param(120, 4, marks=pytest.mark.slow)]
)
def test_exact_answers_stay_within_the_charged_sensitivity(examples, each):
    @settings(QUICK, max_examples=examples)
    @given(
        st.data(), st.sampled_from(CASES), st.sampled_from(sorted(WAYS)),
        st.randoms(use_true_random=False),
    )  # fmt: skip
    def check(data, case, way, chance):
        check_neighbours(data, case, way, chance, each)

    check()


def kept(rows, imputation, way="epsilon"):
    return behind(as_table(rows), imputation, way=way)


def one_donor(k):
    donors = [Row(0, "f", 8, "yes", 2 + 2 * i) for i in range(k)]
    return [*donors, *(Row(0, "f", None, None, 20 + 2 * i) for i in range(4))]


def labelled(label, answers):
    return next(answer for answer in answers if answer.event.label == label)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_the_bound_is_attained(k):
    # Removing a donor moves every recipient: neither a smaller weight nor a smaller M_0 would do.
    knn, rows = KNNImputation(**FILLED, k=k), one_donor(k)
    full, less = (labelled("centred sum of income", kept(r, knn)) for r in (rows, rows[1:]))
    assert prepared(knn, as_table(rows)).profile.served(1) == [4]
    # A mean of k donors divides the weight.
    assert full.mechanism.recipient_weight == pytest.approx(
        2 * full.mechanism.row_weight / k, abs=8
    )
    change = abs(totals(full)[0] - totals(less)[0])
    # The donor (8) is worth +1 after centring. Each recipient exchanges 8 for the default 4, out of
    # a range of 8: half of the recipient weight.
    assert change == pytest.approx(
        full.mechanism.row_weight + full.mechanism.recipient_weight * 4 / 2, rel=1e-4
    )


# Two of three donors say yes. Without one of them all recipients, whose income is known, leave.
LEAVING = [
    *(Row(0, "f", 8, car, 2 + 2 * i) for i, car in enumerate(("yes", "yes", "no"))),
    *(Row(0, "f", 8, None, 20 + 2 * i) for i in range(12)),
]


def caught(ways=("epsilon",)):
    """Labels of the answers that move further than they should, on pairs that move far."""
    pairs = [(kept(r, IMPUTATIONS["three"], w), kept(r[1:], IMPUTATIONS["three"], w))
             for r in (one_donor(3), LEAVING) for w in ways]  # fmt: skip
    return {
        a.event.label
        for here, there in pairs
        for a, b in zip(here, there, strict=True)
        if shift_is_too_large(a, b)
    }


@pytest.mark.long
def test_pairs_that_move_far_move_within_the_bounds():
    assert caught(("epsilon", "rho")) == set()
    for answer in kept(one_donor(1), None):  # nothing depends on other rows: plain noise
        assert isinstance(answer.mechanism, Noise)
        assert answer.event.sensitivity in (1, 1 << 20)


def counted_twice(self, rows, weights=None):
    result = self._returned(rows)
    return [2 * np.count_nonzero(result)] if self.cells == 1 else [0] * self.cells


def stating(**wrong):
    """Return a function that states wrong facts of a query in addition to the right ones."""
    right = RowQuery._state

    def state(self, **facts):
        right(self, **(facts | wrong if "row_sensitivity" in facts else facts))

    return state


MUTANTS = {
    "recipients of counts": (RowCounts, "_state", stating(recipient_sensitivity=0), "count"),
    "recipients of sums": (
        RowSums,
        "_state",
        stating(recipient_sensitivity=0),
        "centred sum of income",
    ),
    "rows of sums": (RowSums, "_state", stating(row_sensitivity=1), "mean by car"),
    "leaving": (StatisticTask, "depends", lambda self: False, "centred sum of income"),
    "shifts": (StatisticTask, "recipient_shift", lambda self, name: 0.0, "squares of income"),
    "bound": (
        _Profile,
        "smooth_bound",
        lambda self, *, row_weight, recipient_weight, beta: row_weight + recipient_weight,
        "count",
    ),
    "profile": (profiles, "_share", lambda nearer, tied, k, j: 0 * nearer, "count"),
    "a row counted twice": (RowCounts, "_totals", counted_twice, "rows"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_wrong_bound_is_caught(name, monkeypatch):
    owner, attribute, wrong, label = MUTANTS[name]
    monkeypatch.setattr(owner, attribute, wrong)
    assert label in caught()


def split_circle(size):
    """Neighbours between which the number of recipients nearly doubles: two donors, and one."""
    recipients = [Row(0, "f", None, "no", 10 + 2 * i) for i in range(size)]
    later = [Row(0, "f", None, "no", 10_010 + 2 * i) for i in range(size)]
    donors = [Row(0, "f", 8, "no", 9_000), Row(0, "f", 0, "no", 20_000)]
    return [*recipients, *later, *donors], [*recipients, *later, donors[0]]


def values_near(here, there):
    """Answers close to and far from the exact values of two tables."""
    far = np.geomspace(1e-6, 1e9, 1501)
    return np.concatenate([here[0] + far, here[0] - far, there[0] + far, there[0] - far])


def smooth_loss(noise, here, there):
    """Largest |log-ratio| of a number and its released scale, at values and scales of two tables.

    By a measure that is the same for both tables.
    """
    x, released = values_near(here, there), np.geomspace(1e-6, 1e9, 301)[:, None]
    result = []
    for value, unit in (here, there):
        scale = released / unit
        peak = (1 + scale + np.maximum(np.abs(x - value) / unit, np.abs(scale - 1))) / 2
        result.append(noise.shape * (np.log(scale) - 2 * np.log(peak)))
    return float(np.max(np.abs(result[0] - result[1])))


def published_loss(gamma, here, there):
    """The same of one number whose density falls as |x|^-gamma."""
    result = []
    for value, scale in (here, there):
        x = np.abs(values_near(here, there) - value) / scale
        result.append(-np.logaddexp(0, gamma * np.log(np.maximum(x, 1e-300))) - np.log(scale))
    return float(np.max(np.abs(result[0] - result[1])))


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
@pytest.mark.parametrize("size", [1, 50])
def test_audit_on_neighbouring_tables(epsilon, size):
    noise, answers = calibrate_smooth_noise(epsilon), []
    for rows in split_circle(size):
        result = prepared(IMPUTATIONS["nearest"], as_table(rows)).profile
        bound = result.smooth_bound(row_weight=1, recipient_weight=1, beta=noise.beta)
        high = brute.average(rows, 1, lambda income, _: income > 4)
        answers.append((high, bound, 1 + float(result.served(1)[0])))
    (q, here, _), (r, there, _) = answers
    assert abs(q - r) == size
    assert smooth_loss(noise, (q, here / noise.alpha), (r, there / noise.alpha)) <= epsilon
    # With noise for the first table's local sensitivity alone, the audit fails.
    naive = [(q, 1.0 / noise.alpha), (r, 1.0 / noise.alpha)]
    assert size == 1 or smooth_loss(noise, *naive) > epsilon
    # So does the published mechanism below its range, on tables between which its bound doubles.
    published = [(value, bound / np.log(2)) for value, _, bound in answers]
    assert size == 1 or published_loss(1 + 0.5 / (2 * np.log(2)), *published) > 0.6


@pytest.mark.parametrize("imputed", [("income", "car"), ("car",)])
def test_recipient_leaving_a_subpopulation_takes_its_full_value(imputed):
    """A recipient takes its whole square with it, also where only the membership is filled."""
    who = KNNImputation(impute=imputed, match_on=("grade", "sex"), k=3)
    remaining = set()
    for a, b in zip(kept(LEAVING, who), kept(LEAVING[1:], who), strict=True):
        assert not shift_is_too_large(a, b), a.event.label
        if (
            isinstance(a.mechanism, SmoothNoise)
            and np.abs(totals(a) - totals(b)).sum() > 2 * a.mechanism.row_weight
        ):
            remaining.add(a.event.label)
    # Moments on a subpopulation that imputed values decide.
    assert {"squares of income", "centred sum of income"} <= remaining


def test_changes_of_squares_and_products_are_exact():
    def close(limit, width):
        values = np.linspace(-limit, limit, 25)
        first, second = np.nonzero(np.abs(values[:, None] - values) <= width + 1e-9)
        return values[first], values[second]

    for width, other in product((0.0, 0.5, 1.0, 2.5, 6.0), repeat=2):
        here, there = close(3.0, width)
        assert np.abs(here**2 - there**2).max() == pytest.approx(
            _product_change([3.0] * 2, [width] * 2, same=True)
        )
        remaining, right = close(2.0, other)
        upper = np.abs(np.multiply.outer(here, remaining) - np.multiply.outer(there, right)).max()
        assert upper <= _product_change([3.0, 2.0], [width, other], same=False) + 1e-9


# Rows to which a question does not apply have no part in its answer. Other kinds are missing cells
SOME = settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
ONE_OF_INCOME = RULED_IMPUTATIONS["one"]


def read(rows):
    return as_table(rows, RULED)


def retained_ruled(rows, name, asks=RULED_QUESTIONS):
    return behind(read(rows), RULED_IMPUTATIONS[name], asks=asks)


def came(table):
    return ImputedRows(with_one_kind_of_missing(table))


def exactly(table, imputation=ONE_OF_INCOME):
    return ImputedStatistics(table, imputation, budget=Filter(1e9))


@pytest.mark.long
@SOME
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
    for a, b in zip(
        retained_ruled(rows, name, OF_INCOME), retained_ruled(changed, name, OF_INCOME), strict=True
    ):
        assert (a.event, a.mechanism) == (b.event, b.mechanism)
        assert totals(a).tolist() == totals(b).tolist(), a.event.label
        assert getattr(a.exact, "bound", 0) == getattr(b.exact, "bound", 0)


@pytest.mark.long
@SOME
@given(tables(RULED, 7), st.sampled_from(sorted(RULED_IMPUTATIONS)))
def test_other_kinds_of_missing_are_treated_as_missing(rows, name):
    gone = {-7: None, -8: None, "R": None, "X": None}
    plain = [
        replace(row, **{n: gone.get(v, v) for n, v in vars(row).items() if n != "label"})
        for row in rows
    ]
    for a, b in zip(retained_ruled(rows, name), retained_ruled(plain, name), strict=True):
        assert (a.event, a.mechanism, totals(a).tolist()) == (
            b.event,
            b.mechanism,
            totals(b).tolist(),
        )


@SOME
@given(tables(RULED, 7))
def test_to_whom_an_attribute_applies_is_read_row_by_row(rows):
    together = came(read(rows)).applies("income")
    assert together.is_true.tolist() == [r.applies is True for r in in_order(rows)]
    assert together.is_false.tolist() == [r.applies is False for r in in_order(rows)]


def test_cell_of_open_applicability_counts_in_worst_case_only():
    rows = [Row(1, "f", 8, "no", 2 + 2 * i) for i in range(50)]
    open_rows = [*rows, *(Row(1, "f", None, "no", 102 + 2 * i, None) for i in range(50))]
    for table, low in ((rows, 8.0), (open_rows, 4.1)):
        with Exact():
            question = exactly(read(table))
            answer = question.mean("income", epsilon=1e6, uncertainty="worst-case")
        assert answer.value == pytest.approx(8, abs=0.01)
        assert low - 0.2 < answer.imputation_interval[0] < low
        assert answer.applicable == ("income",)


def test_answers_are_about_those_to_whom_the_question_applies():
    rows = [Row(i % 3, "f", 3, "yes", 2 + 2 * i, WORKS[i % 2]) for i in range(400)]
    with Exact():
        question, cost = exactly(read(rows)), {"epsilon": 1.0}
        for answer, value in (
            (question.mean("income", **cost), 3),
            (question.sum("income", **cost), 600),
            (question.variance("income", **cost), 0),
            (question.proportion("not income > 2", **cost), 0),
        ):
            assert answer.value == pytest.approx(value, abs=0.01)
            assert Estimate.from_dict(answer.to_dict()).applicable == ("income",)
        assert question.count(where="income > 2", **cost).value == 200
        everybody = question.count(where="not income > 2", **cost)
        assert everybody.value == 200  # a comparison with "not applicable" is false
        assert "applicable" not in everybody.to_dict()
        assert sum(question.histogram("income", **cost).values) == 200
        assert question.correlation("income", "income", **cost).applicable == ("income",)


def test_derived_attribute_may_be_not_applicable_as_its_source():
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
    columns = {"work": ["yes", "no", None, "yes"], "job": ["a", "b", None, None], "pay": [None] * 4}
    table = Table.read(pd.DataFrame(columns, dtype="string"), schema)
    applies = came(table).applies("pay")
    surely, maybe = applies.is_true, ~applies.is_false
    assert surely.tolist() == [True, False, False, True]
    assert maybe.tolist() == [True, False, True, True]
    knn = KNNImputation(impute="pay", match_on="work")
    with Exact():
        result = exactly(table, knn).sum("pay", epsilon=1.0).value
    assert result == pytest.approx(4)  # the last one takes 2, too


def test_row_of_open_applicability_adds_0_to_the_lowest_sum():
    pay = Numeric(name="pay", lower=10, upper=20, nullable=True)
    work = Categorical(name="work", levels=WORKS, nullable=True)
    schema = Schema((work, pay), (NotApplicable("pay", unless="work = 'yes'"),))
    columns = {"work": ["yes"] * 50 + [None] * 50, "pay": [10.0] * 50 + [None] * 50}
    knn = KNNImputation(impute="pay", match_on="work")
    with Exact():
        question = exactly(Table.read(pd.DataFrame(columns), schema), knn)
        low, high = question.sum("pay", epsilon=1e6, uncertainty="worst-case").imputation_interval
    assert (low, high) == pytest.approx((500, 1500), abs=1)
