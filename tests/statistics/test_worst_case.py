"""Effect of missing cells: bounds over all completions, their price and their coverage."""

from contextlib import contextmanager
from functools import partial
from itertools import product
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from knn_oracles import PLAIN, Row, as_table, completions, neighbours, tables, worlds
from knn_recordings import BOUNDED, Exact, nothing_is_read, totals

from missdp import Numeric, Ordinal, Schema, Table
from missdp.accounting import Filter, LaplaceEvent, releases
from missdp.errors import BudgetExceededError
from missdp.schema.logic import Truth
from missdp.session import Noise
from missdp.statistics import ImputedStatistics, KNNImputation
from missdp.statistics.row_queries import QUANTA
from missdp.statistics.smooth_sensitivity import SmoothNoise
from missdp.statistics.worst_case import PLACES, _tally, _total_bounds

KNN = KNNImputation(impute=("income", "car"), match_on=("grade", "sex"))

# The same conditions in the library's words and as functions of a complete row.
CONDITIONS = {
    "": lambda r: True,
    "sex = 'f'": lambda r: r.sex == "f",
    "grade >= 1": lambda r: r.grade >= 1,  # not applicable is below
    "income > 2": lambda r: bool(r.applies and r.income > 2),
    "not (income > 2 or grade = 0)": lambda r: not ((r.applies and r.income > 2) or r.grade == 0),
    "car = 'yes' and sex = 'm'": lambda r: r.car == "yes" and r.sex == "m",
    "grade in (0, 2) or car = 'no'": lambda r: r.grade in (0, 2) or r.car == "no",
}

ONE_ATTRIBUTE = ("", "sex = 'f'", "grade >= 1")


def asked(table, imputation=KNN, **more):
    budget = more.pop("budget", None) or Filter(1e9, 1e-3)
    return ImputedStatistics(table, imputation, budget=budget, **more)


@contextmanager
def without_noise():
    """Have answers of `Exact` taken for exact."""
    none = {"return_value": 0.0}
    with (
        mock.patch.object(Noise, "radius", **none),
        mock.patch.object(SmoothNoise, "radius", **none),
    ):
        yield


def exact(name, rows, where, of):
    """Of a complete table: a question of incomes, or grades, is about those who have one."""
    inside = [r for r in rows if CONDITIONS[where](r)]
    if name in ("mean", "sum") or (name == "proportion" and "income" in of):
        inside = [r for r in inside if r.applies]
    if name == "proportion" and "grade" in of:
        inside = [r for r in inside if r.place != "n/a"]
    if name == "count":
        return len(inside)
    added = [CONDITIONS[of](r) if name == "proportion" else r.earned for r in inside]
    if name == "sum":
        return sum(added)
    return float(np.mean(added)) if added else None


@pytest.mark.long
@given(worlds(3), st.sampled_from(list(CONDITIONS)), st.sampled_from(list(CONDITIONS)[1:]))
@settings(max_examples=30, deadline=None)
def test_bounds_hold_every_completion_and_those_of_counts_and_sums_are_attained(world, where, of):
    schema, rows = world
    everything = list(product(*map(completions, rows)))
    with without_noise():
        for name, options in BOUNDED.items():
            with Exact():
                statistics = asked(as_table(rows, schema))
                answer = options(statistics, where, of, epsilon=1.0, uncertainty="worst-case")
            low, high = answer.imputation_interval
            truths = [exact(name, complete, where, of) for complete in everything]
            reference = [truth for truth in truths if truth is not None]
            assert all(low - 1e-9 <= truth <= high + 1e-9 for truth in reference)
            if schema is PLAIN and name in ("count", "sum") and where in ONE_ATTRIBUTE:
                # Rounding to quanta widens sums by a few millionths.
                assert (low, high) == pytest.approx((min(reference), max(reference)), abs=1e-4)


@given(st.lists(st.tuples(*[st.booleans()] * 3, st.integers(0, 4)), max_size=4), st.data())
@settings(max_examples=100, deadline=None)
def test_sums_of_values_of_either_sign(rows, data):
    """Straight on the numbers of rows, by the choices each row leaves."""
    lower = data.draw(st.sampled_from([-8.0, -3.0, 0.0, 2.0]))
    upper = lower + data.draw(st.sampled_from([1.0, 4.0, 12.0]))
    surely, maybe, reference = (np.array([r[i] for r in rows], dtype=bool) for i in range(3))
    maybe = surely | maybe
    share = np.array([r[3] / 4 for r in rows])
    parts = {"decide": lambda *_: Truth(surely, ~maybe), "_portions": lambda *_: (share, reference)}
    with mock.patch.multiple("missdp.statistics.worst_case", **parts):
        exact_rows = _tally(None, None, None, (), PLACES).sum(axis=0).tolist()
    box = {name: (n, n) for name, n in zip(PLACES, exact_rows, strict=True)}
    low, high = _total_bounds(box, lower, upper)
    minimum = maximum = 0.0
    for i in range(len(rows)):
        values = [lower + share[i] * (upper - lower)] if reference[i] else [lower, upper]
        choices = ([] if surely[i] else [0.0]) + (values if maybe[i] else [])
        minimum, maximum = minimum + min(choices), maximum + max(choices)
    assert low <= minimum + 1e-9
    assert maximum <= high + 1e-9
    if lower >= 0:
        assert (low, high) == pytest.approx((minimum, maximum), abs=1e-4)


def released_sums(table, imputation, name, where, of):
    with Exact() as noise:
        statistics = asked(table, imputation)
        BOUNDED[name](statistics, where, of, epsilon=1.0, uncertainty="worst-case")
    (answer,) = [each for each in noise.answers if each.event.label == "missing cells"]
    assert isinstance(answer.event, LaplaceEvent)
    assert answer.event.sensitivity == QUANTA
    return totals(answer)


@pytest.mark.long
@given(
    tables(PLAIN, 5), st.sampled_from(list(BOUNDED)), st.sampled_from(list(CONDITIONS)),
    st.sampled_from(list(CONDITIONS)[1:]), st.randoms(use_true_random=False),
)  # fmt: skip
@settings(max_examples=12, deadline=None)
def test_one_row_changes_the_released_numbers_by_one_row(rows, name, where, of, chance):
    some = neighbours(PLAIN, rows)
    for imputation in (KNN, None):
        before = released_sums(as_table(rows), imputation, name, where, of)
        for other in chance.sample(some, 4):
            after = released_sums(as_table(other), imputation, name, where, of)
            assert np.abs(after - before).sum() <= QUANTA


def test_the_stated_sensitivity_is_reached():
    rows = [Row(1, "f", 3, "yes", 2), Row(None, "f", None, "no", 4)]
    full = released_sums(as_table(rows), KNN, "mean", "grade >= 1", "")
    for i in range(2):
        less = released_sums(as_table(rows[:i] + rows[i + 1 :]), KNN, "mean", "grade >= 1", "")
        assert np.abs(full - less).sum() == QUANTA
    # Only cells that may be missing are released: sex never is.
    assert (len(full), len(released_sums(as_table(rows), KNN, "mean", "sex = 'f'", ""))) == (6, 3)


SMALL = as_table([Row(i % 3, "f", None if i % 4 == 0 else 3, "no", 2 * i) for i in range(40)])


@pytest.mark.parametrize("name", BOUNDED)
def test_budget_is_charged_as_requested_before_reading(name):
    epsilon, budget = 0.07, Filter(0.07)
    options = partial(BOUNDED[name], asked(SMALL, budget=budget), "", "income > 2")
    with nothing_is_read(), pytest.raises(BudgetExceededError):
        options(epsilon=1.01 * epsilon, uncertainty="worst-case")
    assert budget.events == ()
    answer = options(epsilon=epsilon, uncertainty="worst-case")
    assert answer.guarantee.epsilon == pytest.approx(epsilon)
    assert budget.remaining_epsilon == pytest.approx(0.0, abs=1e-9)
    share = releases(budget.events)[-1]
    assert isinstance(share, LaplaceEvent)
    assert share.sensitivity / share.scale == pytest.approx(0.1 * epsilon)


# -- coverage: the complete table is known, values are self-masked -------------------
MNAR = Schema(
    (
        Ordinal(name="age", levels=tuple(range(4))),
        Numeric(name="income", lower=0, upper=100, nullable=True),
    )
)


def not_at_random(size=500):
    """A third of the incomes is 100 and all of those are missing: the worst that can be."""
    rng = np.random.default_rng(5)
    income = np.where(rng.random(size) < 0.33, 100.0, rng.uniform(0, 50, size))
    frame = pd.DataFrame({"age": rng.integers(0, 4, size), "income": income})
    old, rich = frame["age"] >= 2, frame["income"] > 60
    missing = frame.assign(income=frame["income"].where(frame["income"] < 100))
    return Table.read(missing, MNAR), {
        "count": float(rich.sum()), "proportion": float(rich[old].mean()),
        "mean": float(frame["income"][old].mean()), "sum": float(frame["income"].sum()),
    }  # fmt: skip


OF_THE_RICH = {
    "count": lambda s, **c: s.count(where="income > 60", **c),
    "proportion": lambda s, **c: s.proportion("income > 60", where="age >= 2", **c),
    "mean": lambda s, **c: s.mean("income", where="age >= 2", **c),
    "sum": lambda s, **c: s.sum("income", **c),
}


def coverage(name, *, imputed, epsilon, confidence):
    """Shares of runs with the truth in the noise interval, and in the other. Width of the other."""
    table, truth = not_at_random()
    result = []
    for seed in range(30):
        statistics = asked(
            table,
            KNNImputation(impute="income", match_on="age") if imputed else None,
            confidence=confidence, random_state=seed,
        )  # fmt: skip
        answer = OF_THE_RICH[name](statistics, epsilon=epsilon, uncertainty="worst-case")
        (low, high), (a, b) = answer.interval, answer.imputation_interval
        assert a <= answer.value <= b
        result.append((low <= truth[name] <= high, a <= truth[name] <= b, b - a))
    return tuple(np.mean(result, axis=0))


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=getattr(pytest.mark, "long" if n == "mean" else "slow"))
        for n in OF_THE_RICH
    ],
)
def test_worst_case_interval_covers_self_masked_values(name):
    noise_only, widened, width = coverage(name, imputed=True, epsilon=20.0, confidence=0.9)
    assert widened >= 0.9
    # The truth is not in the noise interval: without the widening there is no coverage.
    assert noise_only <= 0.1
    assert width < {"count": 200, "proportion": 0.4, "mean": 40, "sum": 20_000}[name]
    # The coverage is as stated, and needs the slack for noise. The truth is the very end of the
    # possible range, so half of the runs miss it without the slack.
    facts = {"imputed": False, "confidence": 0.5}
    assert coverage(name, epsilon=0.5, **facts)[1] >= 0.45
    with mock.patch.object(Noise, "radius", return_value=0.0):
        assert 0.2 < coverage(name, epsilon=1.0, **facts)[1] < 0.8
