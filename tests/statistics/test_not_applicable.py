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
from knn_witness import Behind, Different, Exact, Recorder, Tape, filled, moves_too_far, prepared
from rules_oracles import (
    CARS,
    CELLS,
    GRADES,
    HOURS,
    SCHEMA,
    WORKS,
    Row,
    as_table,
    completions,
    imputed,
    labels_of,
    neighbours,
    profile,
    tables,
)

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget, Guarantee, PureEvent
from missdp.errors import MissDPError
from missdp.mechanisms import Filled, Prepared
from missdp.mechanisms.private_rows import FilledRows, with_one_kind_of_hole
from missdp.mechanisms.questions import Rows
from missdp.schema import Determined, NotApplicable
from missdp.schema.predicates import parse_where
from missdp.statistics import (
    CappedKNN,
    CompleteRows,
    Estimate,
    ImputedStatistics,
    KNNImputation,
    ReleasedModel,
    ScaleRelease,
)
from missdp.statistics.worst_case import average_bounds, places, tally

QUICK = settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
KNN = {"impute": ("hours", "car"), "match_on": ("grade",)}
IMPUTATIONS = {
    "one": KNNImputation(impute="hours", match_on="grade"),
    "one of work": KNNImputation(impute="hours", match_on="grade", group="work"),
    "nearest": KNNImputation(**KNN),
    "two": KNNImputation(**KNN, k=2),
    "blocks": KNNImputation(**KNN, partition={"grade": 2}),
    "capped": CappedKNN(knn=KNNImputation(**KNN), max_donees=8),
    "complete": CompleteRows(impute=("hours", "car")),
    "model": ReleasedModel(**KNN, enough=0.5),
    "of others": KNNImputation(impute="car", match_on=("hours", "grade")),
}
WAYS = {
    "epsilon": {"cost": {"epsilon": 1.0}},
    "error bars": {"cost": {"epsilon": 1.0}, "scale": ScaleRelease(epsilon=0.5)},
    "rho": {"cost": {"rho": 0.5}},
    "gaussian": {"cost": {"rho": 0.05}, "scale": ScaleRelease(rho=0.5, delta=1e-6)},
}
WORST = {"uncertainty": "worst-case"}
OF_HOURS = {
    "mean": lambda s, **c: s.mean("hours", **c),
    "mean of some": lambda s, **c: s.mean("hours", where="hours > 0 and grade != 1", **c),
    "sum": lambda s, **c: s.sum("hours", where="grade >= 0", **c),
    "variance": lambda s, **c: s.variance("hours", **c),
    "correlation": lambda s, **c: s.correlation("hours", "hours", **c),
    "histogram": lambda s, **c: s.histogram("hours", **c),
    "count": lambda s, **c: s.count(where="hours > 2", **c),
    "proportion": lambda s, **c: s.proportion("not hours > 2", **c),
    "proportion of two": lambda s, **c: s.proportion("hours > 2 or car = 'yes'", **c),
    "worst mean": lambda s, **c: s.mean("hours", where="grade > 0", **WORST, **c),
    "worst sum": lambda s, **c: s.sum("hours", **WORST, **c),
    "worst proportion": lambda s, **c: s.proportion("hours > 2", **WORST, **c),
    "worst count": lambda s, **c: s.count(where="hours > 2", **WORST, **c),
}
QUESTIONS = {
    **OF_HOURS,
    "count of all": lambda s, **c: s.count(**c),
    "histogram of cars": lambda s, **c: s.histogram("car", where="hours > 2", **c),
    "proportion of cars": lambda s, **c: s.proportion("car = 'yes'", where="work = 'yes'", **c),
    "histogram of grades": lambda s, **c: s.histogram("grade", **c),
}


PROMISE = Guarantee.from_events([PureEvent(epsilon=1.0)])


def behind(rows: list[Row], name: str, way: str = "epsilon", asks=QUESTIONS) -> list[Behind]:
    """What is behind all answers to all questions."""
    how, recorder = dict(WAYS[way]), Recorder(labels_of(rows))
    cost = how.pop("cost")
    budget = Budget(1e4, 1e-3 if "rho" in cost else 0.0)
    asked = ImputedStatistics(
        as_table(rows), IMPUTATIONS[name], budget=budget, random_state=recorder, **how
    )
    # What a guarantee says is tested elsewhere, and takes long to compute.
    asked._parts.door.__dict__["guarantee"] = lambda *asks: PROMISE
    for ask in asks.values():
        ask(asked, **cost)
    return recorder.kept


def came(table: Table) -> FilledRows:
    return FilledRows(with_one_kind_of_hole(table), Prepared())


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


@settings(QUICK, max_examples=20)
@given(
    tables(6), st.sampled_from(sorted(IMPUTATIONS)), st.sampled_from(sorted(WAYS)),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_what_is_behind_an_answer_moves_no_further_than_was_charged_for(rows, name, way, chance):
    here = behind(rows, name, way)
    everyone = neighbours(rows)
    for other in chance.sample(everyone, 3):
        for a, b in zip(here, behind(other, name, way), strict=True):
            assert not moves_too_far(a, b), a.event.label


@QUICK
@given(tables(7), st.lists(CELLS, max_size=3), st.lists(CELLS, min_size=7, max_size=7),
       st.sampled_from(["one", "one of work", "complete"]))  # fmt: skip
def test_rows_to_which_hours_do_not_apply_change_no_answer(rows, more, cells, name) -> None:
    def not_working(row: Row, new: tuple) -> Row:
        return Row(new[0], "no", new[2], row.car if name == "complete" else new[3], row.label)

    changed = [
        not_working(row, new) if row.work == "no" else row
        for row, new in zip(rows, cells, strict=False)
    ]
    changed += [not_working(Row(0, "no", 0, "no", 3 + 2 * i), new) for i, new in enumerate(more)]
    for a, b in zip(
        behind(rows, name, asks=OF_HOURS), behind(changed, name, asks=OF_HOURS), strict=True
    ):
        assert (a.event, a.law) == (b.event, b.law)
        assert a.totals.tolist() == b.totals.tolist(), a.event.label
        assert getattr(a.exact, "bound", 0) == getattr(b.exact, "bound", 0)


@QUICK
@given(tables(7), st.sampled_from(sorted(IMPUTATIONS)))
def test_other_kinds_are_holes_like_any(rows: list[Row], name: str) -> None:
    gone = {-7: None, -8: None, "R": None, "X": None}
    plain = [
        replace(row, **{n: gone.get(v, v) for n, v in vars(row).items() if n != "label"})
        for row in rows
    ]
    for a, b in zip(behind(rows, name), behind(plain, name), strict=True):
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
    names = places(where_open=True, portion_open=True, portion_one=False)
    asked = schema["hours"] if of == "hours" else parse_where(of, schema)
    view = Rows(came(as_table(rows)), frozenset({"hours", "grade"}))
    parts = tally(view, parse_where(where, schema), asked, ("hours",), names)
    assert (parts.sum(axis=1) <= 1).all()
    assert not parts[[r.applies is False for r in rows]].any()
    low, high = average_bounds(
        {name: (t, t) for name, t in zip(names, parts.sum(axis=0), strict=True)}
    )
    found = [exact_mean(c, of, where) for c in product(*map(completions, rows))]
    known = [mean for mean in found if mean is not None]
    assert all(low - 1e-9 <= mean <= high + 1e-9 for mean in known)


def test_a_hole_of_which_it_is_open_whether_it_applies_is_in_no_answer_but_in_the_worst_case():
    rows = [Row(1, "yes", 8, "no", 2 + 2 * i) for i in range(50)]
    open_rows = [*rows, *(Row(1, None, None, "no", 102 + 2 * i) for i in range(50))]
    for table, low in ((rows, 8.0), (open_rows, 4.1)):
        asked = ImputedStatistics(
            as_table(table), IMPUTATIONS["one"], budget=Budget(1e9), random_state=Exact()
        )
        answer = asked.mean("hours", epsilon=1e6, uncertainty="worst-case")
        assert answer.value == pytest.approx(8, abs=0.01)
        assert low - 0.2 < answer.imputation_interval[0] < low
        assert answer.applicable == ("hours",)


def exact_answer(table: Table, imputation, ask) -> Estimate:
    asked = ImputedStatistics(table, imputation, budget=Budget(1e9), random_state=Exact())
    return ask(asked, epsilon=1.0)


def test_answers_are_about_those_to_whom_the_question_applies() -> None:
    rows = [Row(i % 3, ("no", "yes")[i % 2], 3, "yes", 2 + 2 * i) for i in range(400)]
    table, knn = as_table(rows), IMPUTATIONS["one"]
    wanted = {
        "mean": 3, "sum": 400 / 3, "count": 200, "proportion": 0, "variance": 0, "worst count": 200,
    }  # fmt: skip
    wanted["sum"] = 3 * sum(r.work == "yes" for r in rows)
    for name, value in wanted.items():
        found = exact_answer(table, knn, OF_HOURS[name])
        assert found.value == pytest.approx(value, abs=0.01), name
        assert found.applicable == (() if "count" in name else ("hours",))
    everybody = exact_answer(table, knn, lambda s, **c: s.count(where="not hours > 2", **c))
    assert everybody.value == 200  # a comparison with what is not applicable is false
    counts = exact_answer(table, knn, OF_HOURS["histogram"])
    assert sum(counts.values) == 200


def test_nobody_to_whom_it_applies() -> None:
    rows = [Row(1, "no", 3, "yes", 2 + 2 * i) for i in range(9)]
    for name in IMPUTATIONS:
        for answer in behind(rows, name, asks=OF_HOURS):
            if "model" not in answer.event.label and "of two" not in answer.event.label:
                assert not answer.totals.any() or answer.event.label.startswith("upper bound")


def shown(rows: list[Row], name: str, way: str, tape: Tape) -> list[str]:
    how, seen = dict(WAYS[way]), []
    cost = how.pop("cost")
    budget = Budget(1e4, 1e-3 if "rho" in cost else 0.0)
    asked = ImputedStatistics(
        as_table(rows), IMPUTATIONS[name], budget=budget, random_state=tape, **how
    )
    for ask in QUESTIONS.values():
        try:
            seen.append(repr(ask(asked, **cost)))
        except MissDPError as error:
            seen.append(f"{error!r} {error.__context__}")
    return [*seen, repr(asked), repr(budget.events)]


SURVEY = [
    Row((*GRADES, None, -1, -8)[i % 6], (*WORKS, "R", None)[i % 4], (*HOURS, None, -7, -1)[i % 5],
        (*CARS, None, "X")[i * i % 7 % 4], i)
    for i in range(60)
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["one", "nearest", "model", "complete"])
@pytest.mark.parametrize("other", ["all not applicable", "all holes"])
def test_what_a_statistic_shows_was_released(name, way, other) -> None:
    rows = [Row(2, "no", None, "yes", i) for i in range(9)]
    if other == "all holes":
        rows = [Row(-8, "R", -7, "X", i) for i in range(9)]
    tape = Tape()
    first = shown(SURVEY, name, way, tape)
    tape.position = 0
    try:
        assert shown(rows, name, way, tape) == first
    except Different:
        pytest.fail("a question depends on the rows")
    assert tape.position == len(tape.kept)


def test_what_is_not_applicable_matches_itself_best() -> None:
    rows = [
        Row(-1, "yes", 8, "yes", 2), Row(None, "yes", 3, "yes", 4), Row(1, "yes", 0, "yes", 6),
        Row(-1, "yes", None, "yes", 8), Row(-8, "yes", None, "yes", 10),
        Row(1, "yes", -7, "yes", 12),
    ]  # fmt: skip
    table = as_table(rows)
    made = filled(IMPUTATIONS["one"], table, labels_of(rows))["hours"]
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
    asked = ImputedStatistics(table, knn, budget=Budget(1e9), random_state=Exact())
    assert asked.sum("pay", epsilon=1.0).value == pytest.approx(4)  # the last one takes 2, too


def test_a_preparation_cannot_fill_what_does_not_apply() -> None:
    table = with_one_kind_of_hole(as_table(SURVEY))
    size = len(table)
    everything = Filled(np.arange(size), np.zeros(size, dtype=np.int64), np.full(size, 1.0))
    made = FilledRows(table, Prepared({"hours": everything}))
    surely = came(table).applies("hours")[0]
    assert (made.codes("hours") == np.where(surely, 0, table.codes("hours"))).all()
    assert (made.values("hours") == np.where(surely, 1.0, table.values("hours"))).all()


def test_an_answer_says_whom_it_is_about() -> None:
    asked = ImputedStatistics(as_table(SURVEY), IMPUTATIONS["one"], budget=Budget(100.0))
    answer = asked.mean("hours", epsilon=1.0)
    assert answer.to_dict()["applicable"] == ["hours"]
    assert Estimate.from_dict(answer.to_dict()) == answer
    assert "applicable" not in asked.count(epsilon=1.0).to_dict()
    assert asked.correlation("hours", "hours", epsilon=1.0).applicable == ("hours",)


def plain_table() -> Table:
    schema = Schema(
        (
            Ordinal(name="age", levels=tuple(range(5)), nullable=True),
            Numeric(name="income", lower=0, upper=100, nullable=True),
            Categorical(name="car", levels=CARS, nullable=True),
        )
    )
    age = [i % 6 if i % 6 < 5 else None for i in range(300)]
    income = [None if i % 7 == 0 else float(i * i % 101) for i in range(300)]
    car = [(*CARS, None)[i * i % 3] for i in range(300)]
    frame = pd.DataFrame({"age": pd.array(age, dtype="Int64"), "income": income, "car": car})
    return Table.read(frame, schema)


PLAIN = {
    "mean": lambda s: s.mean("income", where="age > 1", epsilon=1.0, uncertainty="worst-case"),
    "proportion": lambda s: s.proportion("income > 40", epsilon=1.0, uncertainty="worst-case"),
    "count": lambda s: s.count(where="income > 40 and not car = 'no'", epsilon=1.0),
    "variance": lambda s: s.variance("income", epsilon=1.0),
    "histogram": lambda s: s.histogram("car", where="income > 40", epsilon=1.0),
}


def plain_answers() -> dict[str, tuple[float, ...]]:
    knn = KNNImputation(impute=("income", "car"), match_on="age", k=2)
    asked = ImputedStatistics(
        plain_table(), knn, budget=Budget(1e6), random_state=5, scale=ScaleRelease(epsilon=1.0)
    )
    found = {}
    for name, ask in PLAIN.items():
        shown = ask(asked).to_dict()
        more = [*(shown.get("interval") or ()), *(shown.get("imputation_interval") or ())]
        found[name] = (*shown.get("values", (shown.get("value"),)), *more)
    return found


# Released from this seed before there were kinds of missing and rules.
BEFORE = {
    "mean": (50.37286931818182, 9.698066115539568, 91.4029103250396, 0.0, 93.67478660799125),
    "proportion": (
        *(0.6208537755972696, 0.28004722544860444, 1.0),
        *(0.30436131248858406, 0.7840687868117988),
    ),
    "count": (143.6484375, 94.44763603759328, 192.84923896240673),
    "variance": (1233.7248684992132,),
    "histogram": (56.03125, 141.9921875),
}


def test_without_kinds_and_rules_answers_are_what_they_were() -> None:
    found = plain_answers()
    for name, numbers in BEFORE.items():
        # To the last bit on one machine; sums of floating point differ a little between machines.
        assert found[name] == pytest.approx(numbers, rel=1e-12), name


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
    asked = ImputedStatistics(
        Table.read(frame, schema), KNNImputation(impute="pay", match_on="work"),
        budget=Budget(1e9), random_state=Exact(),
    )  # fmt: skip
    low, high = asked.sum("pay", epsilon=1e6, uncertainty="worst-case").imputation_interval
    assert (low, high) == pytest.approx((500, 1500), abs=1)


def test_who_may_work_or_not_takes_what_else_is_missing_from_the_nearest_of_all() -> None:
    rows = [
        Row(1, None, None, None, 2), Row(1, "no", None, "yes", 4), Row(2, "yes", 3, "no", 6),
        Row(0, "yes", 3, None, 8), Row(0, "no", None, "yes", 10),
    ]  # fmt: skip
    cars = filled(IMPUTATIONS["nearest"], as_table(rows), labels_of(rows))["car"]
    assert cars.tolist() == [1, 1, 0, 0, 1]


def test_blocks_have_a_place_for_what_is_not_applicable() -> None:
    # Among donors at a distance each donee has its own next one; a nearer one would serve all.
    rows = [Row(-1, "yes", -7, "yes", 2 + 4 * i) for i in range(7)]
    rows += [Row(0, "yes", 3, "yes", 4 + 4 * i) for i in range(7)]
    for partition in ({}, {"grade": 2}):
        knn = KNNImputation(impute="hours", match_on="grade", partition=partition)
        assert prepared(knn, as_table(rows), labels_of(rows)).profile.most() == 7


def test_complete_rows_are_those_without_holes() -> None:
    rows = [Row(1, "no", None, "yes", 2), Row(1, "yes", 3, "no", 4), Row(1, "yes", -7, "no", 6)]
    found = exact_answer(as_table(rows), IMPUTATIONS["complete"], lambda s, **c: s.count(**c))
    assert found.value == 2
