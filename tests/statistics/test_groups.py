"""Statistics of groups: each group is answered from its own rows, at the cost of one group."""

from dataclasses import replace

import knn_oracles as brute
import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from knn_oracles import PLAIN, Row, as_table, tables
from knn_recordings import Exact, asking, behind, nothing_is_read, shift_is_too_large

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Cost, Filter
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.session.session import Reservation
from missdp.statistics import (
    EachLevel,
    ImputedStatistics,
    KNNImputation,
    RowCounts,
    Statistic,
    check_queries,
    open_table,
    run_queries,
)
from missdp.statistics.groups import ParallelGroups
from missdp.statistics.noisy import noisy_numbers
from missdp.statistics.table_rows import ChosenRows
from missdp.testing import check_sensitivity
from refusing import refuses

KNN = KNNImputation(impute=("income", "car"), match_on=("grade", "sex"))
BY_SEX = {
    "mean": lambda s, **c: s.mean("income", by="sex", **c),
    "mean where": lambda s, **c: s.mean("income", where="income >= 3", by="sex", **c),
    "share": lambda s, **c: s.proportion("income > 2", by="sex", **c),
    "count": lambda s, **c: s.count(where="income > 2", by="sex", **c),
}
WAYS = ("epsilon", "rho")
REGIONS = tuple("abcdef")
SURVEY = Schema(
    (
        Categorical(name="region", levels=REGIONS),
        Ordinal(name="age", levels=tuple(range(6))),
        Numeric(name="income", lower=0, upper=100, nullable=True),
    )
)


def survey(rows=6000):
    rng = np.random.default_rng(0)
    region = rng.integers(0, len(REGIONS), rows)
    income = np.clip(rng.normal(30 + 5 * region, 10), 0, 100)
    missing = rng.random(rows) < 0.2
    cells = {
        "region": np.array(REGIONS)[region],
        "age": rng.integers(0, 6, rows),
        "income": np.where(missing, np.nan, income),
    }
    return Table.read(pd.DataFrame(cells), SURVEY)


def neighbour_answers(rows, way, knn=KNN):
    """Pairs of exact numbers of each answer, for a table and each of its neighbours."""
    here = behind(as_table(rows), knn, way=way, asks=BY_SEX)
    for other in brute.neighbours(PLAIN, rows):
        there = behind(as_table(other), knn, way=way, asks=BY_SEX)
        yield from zip(here, there, strict=True)


@pytest.mark.long
@settings(
    max_examples=4,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
)
@given(tables(PLAIN, 4), st.sampled_from(WAYS), st.sampled_from([1, 2]))
def test_one_row_changes_one_group_within_its_bound(rows, way, k):
    """Exact neighbours: every row that can come or go, of small tables."""
    knn = replace(KNN, k=k)
    for a, b in neighbour_answers(rows, way, knn):
        assert not shift_is_too_large(a, b), a.event.label


def test_rows_that_move_two_groups_are_caught(monkeypatch):
    """The check has power: donors of another group break parallel composition."""

    def mixed(self, name):
        return (self,) * 2

    monkeypatch.setattr(ChosenRows, "groups", mixed)
    rows = [Row(0, "f", 8, "yes", 2), Row(0, "m", None, None, 4), Row(0, "f", None, None, 6)]
    assert any(shift_is_too_large(a, b) for a, b in neighbour_answers(rows, "epsilon"))


def test_a_group_has_the_bound_of_its_own_rows():
    """Twenty recipients of the other group do not widen the noise of a group with one."""
    few = [Row(0, "f", 8, "yes", 2), Row(0, "f", None, "yes", 4)]
    others = [Row(0, "m", 8, "yes", 6), *(Row(0, "m", None, "yes", 8 + 2 * i) for i in range(20))]
    mean = {"mean": BY_SEX["mean"]}
    single, both = (behind(as_table(r), KNN, asks=mean)[0] for r in (few, [*few, *others]))
    assert isinstance(both.mechanism, ParallelGroups)
    f, m = both.exact
    assert f.bound == single.exact[0].bound
    assert m.bound > 3 * f.bound


def test_donors_of_a_group_come_from_the_group():
    rows = [Row(0, "f", 2, "yes", 2), Row(0, "f", None, "yes", 4), Row(0, "m", 8, "yes", 6)]
    knn = KNNImputation(impute="income", match_on="grade")
    with Exact():
        question, cost = asking(as_table(rows), knn, "epsilon")
        result = question.mean("income", by="sex", **cost)
    assert dict(zip(result.levels, result.values, strict=True)) == pytest.approx(
        {"f": 2.0, "m": 8.0}, abs=0.01
    )


@pytest.mark.parametrize("kind", ["count", "mean", "share"])
def test_all_groups_cost_as_much_as_one_group(kind):
    budget = Filter(1.0)
    question = ImputedStatistics(survey(500), KNN_OF_SURVEY, budget=budget)
    result = OF_SURVEY[kind](question)
    assert len(result.values) == len(REGIONS)
    assert result.guarantee.epsilon == pytest.approx(1.0)
    assert budget.remaining_epsilon == pytest.approx(0.0, abs=1e-6)


KNN_OF_SURVEY = KNNImputation(impute="income", match_on="age")
OF_SURVEY = {
    "count": lambda s: s.count(where="income > 30", by="region", epsilon=1.0),
    "mean": lambda s: s.mean("income", by="region", epsilon=1.0),
    "share": lambda s: s.proportion("income > 30", by="region", epsilon=1.0),
}


def test_intervals_of_groups_are_near_that_of_the_table():
    """Six groups have a sixth of the rows each: before, intervals were 40 times as wide."""
    table = survey()

    def width(by, seed):
        how = {"budget": Filter(1.0), "random_state": seed}
        question = Statistic("mean", ("income",), by=by)
        cost = Cost(privacy_measure="pure", amount=1.0)
        result = ImputedStatistics(table, KNN_OF_SURVEY, **how).answer(question, cost)
        intervals = result.intervals if by else (result.interval,)
        return np.median([high - low for low, high in intervals])

    # With seeds, since a noisy scale makes one interval up to ten times as wide as another.
    widths = ([width(by, seed) for seed in range(5)] for by in (None, "region"))
    total, groups = map(np.median, widths)
    assert groups < 4 * len(REGIONS) * total


@pytest.mark.long
def test_intervals_of_groups_hold_the_noiseless_answers():
    table, held = survey(2000), []

    def means(seed):
        how = {"budget": Filter(1.0), "random_state": seed}
        return OF_SURVEY["mean"](ImputedStatistics(table, KNN_OF_SURVEY, **how))

    with Exact():
        exact = means(0)
    for seed in range(40):
        pairs = zip(exact.values, means(seed).intervals, strict=True)
        held.append(all(low <= value <= high for value, (low, high) in pairs))
    assert np.mean(held) >= 0.9


def imputed_survey(budget):
    session = open_table(survey(100), budget=budget)
    return session.apply(KNN_OF_SURVEY.change(session.facts.schema))


def test_a_part_answers_all_groups_once():
    """The cap of a part is spent by one answer of all groups, or by one of all rows."""
    session, rich = imputed_survey(Filter(2.0)), RowCounts(function=_rich, reads={"income"})
    how = Cost(privacy_measure="pure", amount=0.5)
    first, second = session.reserve_each(Reservation(how, "a"), Reservation(how, "b"))
    by_region = first.apply(EachLevel("region"))
    assert len(by_region.measure(rich, how).value) == len(REGIONS)
    for spent in (first, by_region):
        with pytest.raises(BudgetExceededError):
            spent.measure(rich, how)
    assert len(noisy_numbers(second.measure(rich, how))) == 1
    assert session.remaining.amount == 1.0


def _rich(rows):
    return rows.values("income") > 30


@pytest.mark.parametrize("by", ["income", "nobody"])
def test_groups_by_filled_cells_charge_nothing(by):
    budget = Filter(2.0)
    with refuses(UnprovenError, "does not divide the rows into groups"):
        imputed_survey(budget).apply(EachLevel(by))
    assert budget.events == ()


def test_groups_by_an_attribute_without_levels_charge_nothing():
    empty = Categorical(name="empty", levels=(), not_applicable=(-1,))
    schema = Schema((empty, Categorical(name="sex", levels=("f", "m"))))
    session = open_table(Table.read({"empty": [-1], "sex": ["f"]}, schema), budget=Filter(2.0))
    with refuses(ParameterError, "'empty' has no levels, so it makes no groups"):
        session.apply(EachLevel("empty"))


def test_the_sensitivity_kit_checks_groups():
    def run(table):
        budget = Filter(1.0)
        question = ImputedStatistics(table, KNN_OF_SURVEY, budget=budget)
        OF_SURVEY["mean"](question)
        return budget

    table = survey(60)
    keep = np.arange(60) != 7
    assert check_sensitivity(run, pairs=[(table, table.take(keep))])


def imputed_groups(levels, statistic):
    names = tuple(f"j{i}" for i in range(levels))
    schema = Schema(
        (
            Categorical(name="job", levels=names, nullable=True),
            Ordinal(name="age", levels=(1, 2)),
            Numeric(name="income", lower=0, upper=100, nullable=True),
        )
    )
    cells = {"job": ["j0", None, "j1"] * 20, "age": [1, 2, 2] * 20, "income": [1.0, 5.0, None] * 20}
    of = "income > 3" if statistic == "proportion" else "income"
    knn = KNNImputation(impute=("income", "job"), match_on="age")
    return Table.read(pd.DataFrame(cells), schema), knn, Statistic(statistic, (of,), by="job")


@pytest.mark.parametrize(("statistic", "width"), [("mean", r"\d\d+"), ("proportion", r"[\d.]+")])
def test_groups_that_noise_hides_are_refused_publicly(statistic, width):
    """By the cost, the levels and the bounds alone: nothing is read and nothing is charged."""
    table, knn, groups = imputed_groups(60, statistic)
    budget = Filter(1.0)
    message = rf"group of 10,000 rows by up to about {width} \(95 %\). .* use missdp estimate"
    with nothing_is_read(), refuses(ParameterError, message):
        run_queries(table, knn, [groups], epsilon=0.2, budget=budget)
    assert budget.events == ()
    everyone = replace(groups, by=None)
    with nothing_is_read(), refuses(ParameterError, message):
        run_queries(table, knn, [everyone, groups], epsilon=0.4, budget=budget)
    assert budget.events == ()
    with refuses(ParameterError, message):
        check_queries(table, knn, [everyone, groups], epsilon=0.4)
    check_queries(table, knn, [everyone], epsilon=0.2)
    table, knn, groups = imputed_groups(3, statistic)
    (answer,) = run_queries(table, knn, [groups], epsilon=1.0, budget=budget)
    assert len(answer.values) == 3
