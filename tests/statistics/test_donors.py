"""Donors, profile and smooth bound against brute force, for all divisions of rows into parts."""

import math
from dataclasses import replace

import knn_oracles as brute
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from knn_oracles import GRADES, PLAIN, SEXES, Row, as_table, worlds
from knn_recordings import Exact, filled, prepared, totals

from missdp import Categorical, Filter, Numeric, Ordinal, Schema, Table
from missdp.errors import UnprovenError
from missdp.schema import NotApplicable
from missdp.statistics import ImputedStatistics, KNNImputation
from missdp.statistics.donors import build_metric
from missdp.statistics.imputation import _change_bounds, _share

QUICK = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def imputation(k, group=False, **more):
    where = {"match_on": "grade", "group": "sex"} if group else {"match_on": ("grade", "sex")}
    return KNNImputation(impute=("income", "car"), k=k, **where, **more)


def prepare(rows, k, group=False, schema=PLAIN, **more):
    return prepared(imputation(k, group, **more), as_table(rows, schema))


def is_at_least(result, exact, recipients):
    return 0 <= result - exact <= recipients * 2.0**-20


@pytest.mark.long
@QUICK
@given(worlds(), st.integers(1, 3), st.booleans())
def test_filled_cells_equal_brute_force(world, k, group):
    schema, rows = world
    ways = prepare(rows, k, group, schema)
    recipients = {i: x for i, x in enumerate(brute.in_order(rows)) if x.takes}
    assert ways.rows.tolist() == list(recipients)
    for number, (x, one) in enumerate(zip(recipients.values(), ways.lists, strict=True)):
        some = slice(*ways.start[one : one + 2])
        incomes, cars = (ways.columns[name] for name in ("income", "car"))
        result = list(zip(incomes.where(some).values, cars.codes[some], strict=True))
        expected = brute.fills(x, rows, k, group)
        assert len(result) == len(expected), number
        # Observed and not applicable cells of a row stay as they are.
        for (income, car), (earned, drives) in zip(result, expected, strict=True):
            assert x.earned is not None or earned is None or income == pytest.approx(earned)
            assert x.drives is not None or car == drives
    made = filled(imputation(k, group), as_table(rows, schema))
    # Whether there is a value after filling is a function of the row alone.
    there = made.codes("income") < schema["income"].size
    assert there.tolist() == [
        brute.fills(x, rows, k, group)[0][0] is not None for x in brute.in_order(rows)
    ]


def tenths(income, car):
    return 0.0 if income is None else income - 4


@pytest.mark.long
@QUICK
@given(worlds(), st.integers(1, 3))
def test_answers_are_averages_over_all_ways(world, k):
    schema, rows = world
    with Exact() as noise:
        question = ImputedStatistics(as_table(rows, schema), imputation(k), budget=Filter(10.0))
        question.count(where="income > 3", epsilon=1.0)
        question.mean("income", epsilon=1.0)
    result = {answer.event.label: float(totals(answer)[0]) / 2**20 for answer in noise.answers}
    high = brute.average(rows, k, lambda income, _: income is not None and income > 3)
    assert result["count"] == pytest.approx(high, abs=2e-6)
    centred = brute.average(rows, k, tenths)
    assert 4 * result["centred sum of income"] == pytest.approx(centred, abs=1e-4)


@pytest.mark.long
@QUICK
@given(worlds(), st.integers(1, 3), st.booleans())
def test_profile_equals_brute_force(world, k, group):
    schema, rows = world
    result = prepare(rows, k, group, schema).profile.served(5)
    for j in (0, 4, 1):
        assert is_at_least(result[j], brute.profile(rows, k, j, group), len(rows))


@given(st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.integers(0, 8))
def test_shares_are_the_largest_over_donors_that_go(nearer, tied, k, j):
    def result(nearer, tied, j):
        return int(_share(np.array([nearer]), np.array([tied]), k, j)[0]) / 2**20

    x, t = Row(0, "f", None, "no", 0), Row(1, "f", 3, "no", 0)
    others = [Row(0, "f", 3, "no", 0)] * nearer + [t] * tied
    assert is_at_least(
        result(nearer, tied, j), brute.share(x, brute.distance(x, t), others, k, j, False), 1
    )
    for more, other in ((1, 0), (0, 1)):  # one donor more, and one change more
        assert result(nearer + more, tied + other, j) <= result(nearer, tied, j)
        assert result(nearer, tied, j) <= result(nearer + more, tied + other, j + 1)


@pytest.mark.long
@settings(QUICK, max_examples=10)
@given(worlds(6), st.integers(1, 3), st.booleans(), st.randoms(use_true_random=False))
def test_bound_changes_by_one_step_between_neighbours(world, k, group, chance):
    schema, rows = world

    def bounds(table, terms):
        result = prepare(table, k, group, schema).profile
        exact = result.served(terms)
        smooth = [
            result.smooth_bound(row_weight=1.0, recipient_weight=2.0, beta=b)
            for b in (0.05, 0.4, 3.0)
        ]
        return _change_bounds(exact), smooth

    here, smooth_here = bounds(rows, 6)
    everyone = [other for other in brute.neighbours(schema, rows) if other]
    for other in chance.sample(everyone, min(15, len(everyone))):
        there, smooth_there = bounds(other, 6)
        assert (here[:-1] <= there[1:]).all()
        assert (there[:-1] <= here[1:]).all()
        for a, b, beta in zip(smooth_here, smooth_there, (0.05, 0.4, 3.0), strict=True):
            assert abs(math.log(a / b)) <= beta + 2.0**-40


def random_rows(size, seed, holes=0.4):
    rng = np.random.default_rng(seed)
    return [
        Row(
            (*GRADES, None)[rng.choice(4, p=[0.6, 0.2, 0.1, 0.1])], SEXES[rng.integers(2)],
            None if rng.random() < holes else 3, "no", int(2 * label + 2),
        )
        for label in rng.permutation(size)
    ]  # fmt: skip


def test_smooth_bound_is_the_maximum_over_all_terms():
    lazy, full = (prepare(random_rows(80, 3), 1).profile for _ in range(2))
    reach = _change_bounds(full.served(300))
    for beta in (0.01, 0.05, 0.2, 1.0):
        expected = np.max(np.exp(-beta * np.arange(300)) * (3 + 2 * reach))
        result = lazy.smooth_bound(row_weight=3.0, recipient_weight=2.0, beta=beta)
        assert expected <= result <= expected * (1 + 2.0**-40)
    # Terms beyond the limit are bounded by the number of recipients.
    result = prepare(random_rows(50, 4), 1).profile
    result.max_terms, recipients = 4, len(result._layout.recipients.rows)
    j = 1 / 0.01 - recipients
    expected = math.exp(-0.01 * j) * (j + recipients)
    assert result.smooth_bound(row_weight=0.0, recipient_weight=1.0, beta=0.01) == pytest.approx(
        expected
    )


def test_tables_without_donors_recipients_or_rows():
    nobody = random_rows(5, 0, holes=1.0)
    assert filled(imputation(2), as_table(nobody)).values("income").tolist() == [4.0] * 5
    assert prepare(nobody, 2).profile.served(1) == [5]
    assert prepare(random_rows(5, 0, holes=0.0), 2).profile.served(8).max() == 0
    empty = prepared(imputation(1), as_table(nobody).take(np.zeros(5, dtype=bool))).profile
    assert empty.smooth_bound(row_weight=1.0, recipient_weight=1.0, beta=1.0) == pytest.approx(1.0)
    for thing in (empty, prepare(nobody, 1)):  # and no repr shows anything private
        assert not any(character.isdigit() for character in repr(thing).split(" at 0x")[0])


def test_metric_raises_for_domains_above_the_exact_bound():
    schema = Schema(tuple(Ordinal(name=f"a{i}", levels=tuple(range(40))) for i in range(4)))
    facts = {"match_on": dict.fromkeys(schema.names, 1.0), "group": (), "metric": "gower"}
    with pytest.raises(UnprovenError, match="fewer attributes, or use coarser bins"):
        build_metric(schema, **facts)
    few = {**facts, "match_on": dict.fromkeys(schema.names[:3], 1.0)}
    assert build_metric(schema, **few).sites == 40**3


@pytest.mark.parametrize(
    ("examples", "each"), [(25, 4), pytest.param(100, 12, marks=pytest.mark.slow)]
)
def test_no_table_near_by_is_more_sensitive_than_the_bound_of_this_one(examples, each):
    """The bound at j holds for all tables that j rows more or less make of this one."""

    def high(income, _):
        return float(income is not None and income > 3)

    def centred(income, _):
        return 0.0 if income is None else income - 4

    @settings(QUICK, max_examples=examples)
    @given(worlds(5), st.integers(1, 2), st.randoms(use_true_random=False))
    def check(world, k, chance):
        schema, rows = world
        changed = _change_bounds(prepare(rows, k, False, schema).profile.served(3))
        for j in range(3):
            for _ in range(1 if j == 0 else each):
                there = rows
                for _ in range(j):
                    there = spaced(chance.choice(brute.neighbours(schema, there)))
                some = brute.neighbours(schema, there)
                for of, row_weight, recipient_weight in (
                    (high, 1.0, 1.0),
                    (centred, 4.0, 8.0 / k),
                ):
                    here = brute.average(there, k, of)
                    shift = max(
                        abs(brute.average(other, k, of) - here)
                        for other in chance.sample(some, min(12, len(some)))
                    )
                    assert shift <= row_weight + recipient_weight * changed[j] + 1e-9

    check()


def spaced(rows):
    """Give rows even labels, in their order, so that others fit between them."""
    return [replace(row, label=2 * place + 2) for place, row in enumerate(brute.in_order(rows))]


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
    columns = {
        "grade": rng.choice(np.array([1, 2, 3, None]), n, p=[0.6, 0.3, 0.05, 0.05]),
        "income": np.where(rng.random(n) < 0.3, np.nan, rng.random(n) * 100),
        "c": rng.choice(np.array(["u", "v", None]), n),
        "work": rng.choice(["no", "yes"], n),
    }
    table = Table.read(pd.DataFrame(columns), schema)
    question = ImputedStatistics(table, imputation, budget=Filter(100.0), random_state=7)
    return [
        question.mean("income", where="c = 'u'", epsilon=1.0).value,
        question.count(where="income > 50", epsilon=1.0).value,
        question.variance("income", epsilon=1.0).value,
        question.histogram("income", epsilon=1.0).values,  # noqa: PD011
        question.mean("income", epsilon=1.0, uncertainty="worst-case").imputation_interval,
    ]


# Released from this seed since all answers have error bars: no rewriting changes a number.
BEFORE = {
    WHOLE: [48.51274334016394, 328.01171875, 1071.0163804018853,
            (147.015625, 137.65625, 102.96875, 88.3984375, 63.828125, 58.421875, 96.765625,
             87.9921875),
            (24.848901973964097, 70.39192844952159)],
    ROUTED: [50.96821581196581, 176.6171875, 1747.0805418597038,
             (92.0390625, 92.546875, 48.3125, 35.5390625, 24.0546875, 22.8046875, 61.3515625,
              47.3984375),
             (11.386295045987277, 84.98573668502488)],
}  # fmt: skip


def test_answers_equal_recorded_answers():
    for schema, before in BEFORE.items():
        result = answers(schema, KNNImputation(impute="income", match_on=("grade", "work")))
        # To the last bit on one machine. Sums of floating point differ a little between machines.
        for one, other in zip(result, before, strict=True):
            assert one == pytest.approx(other, rel=1e-12)


IN_PARTS = {
    "statistics.imputed_rows.PART_ROWS": 64,
    "statistics.imputation._PAIRS": 7, "statistics.imputation._AT_ONCE": 50,
    "statistics.donors._CHUNK": 33, "statistics.donors._ROWS": 33,
}  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("schema", [WHOLE, ROUTED], ids=["whole", "routed"])
@pytest.mark.parametrize(
    "imputation",
    [
        KNNImputation(impute="income", match_on=("grade", "work")),
        KNNImputation(impute=("income", "c"), match_on="grade", group="work", k=5),
        None,
    ],
    ids=["nearest", "several", "none"],
)
def test_parts_change_nothing(schema, imputation, monkeypatch):
    total = answers(schema, imputation)
    for name, rows in IN_PARTS.items():
        monkeypatch.setattr(f"missdp.{name}", rows)
    assert answers(schema, imputation) == total
