"""Statistics end to end: charging, noise, error bars, guarantees, refusals."""

import math
import re
from dataclasses import replace
from functools import cache
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from knn_recordings import nothing_is_read, prepared
from scipy import stats

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import (
    DataDependentDomain,
    ExplicitSeed,
    Filter,
    Guarantee,
    PublicDomain,
    RefusalsNotPrivate,
    RowFunctionsTested,
)
from missdp.errors import BudgetExceededError, DataError, SchemaError
from missdp.schema import OpenCategorical
from missdp.session import SeededNoise
from missdp.statistics import ImputedStatistics, KNNImputation, Statistic
from missdp.statistics.imputation import NearestNeighbours
from missdp.statistics.smooth_sensitivity import Bounded, calibrate_smooth_noise
from missdp.statistics.statistics import close_levels
from refusing import refuses

SCHEMA = Schema(
    (
        Ordinal(name="age", levels=tuple(range(10))),
        Categorical(name="sex", levels=("f", "m")),
        Numeric(name="income", lower=0, upper=100, nullable=True),
        Numeric(name="hours", lower=0, upper=80),
    )
)
KNN = KNNImputation(impute="income", match_on=("age", "sex"))


def survey(size=4000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 10, size)
    hours = np.clip(rng.normal(35, 10, size), 0, 80)
    income = np.clip(4 * age + 0.5 * hours + rng.normal(0, 8, size), 0, 100)
    income[rng.random(size) < 0.05 + 0.02 * age] = np.nan
    sex = rng.choice(["f", "m"], size)
    columns = {"age": age, "sex": sex, "income": income, "hours": hours}
    return Table.read(pd.DataFrame(columns), SCHEMA)


TABLE = survey()
# Numbers that are never filled, too.
OF_NUMBERS = Table.read(
    TABLE.to_native().assign(**{"age years": TABLE.codes("age") * 3.0}),
    Schema((*SCHEMA, Numeric(name="age years", lower=0, upper=30))),
)


def statistics(budget=None, **more):
    imputation = more.pop("imputation", KNN)
    budget = budget or Filter(1e6, 1e-3, measure="zcdp", failure=5e-4)
    return ImputedStatistics(more.pop("table", TABLE), imputation, budget=budget, **more)


ASKS = {
    "count": lambda s, **c: s.count(where="income > 40", **c),
    "proportion": lambda s, **c: s.proportion("income > 40", where="age >= 5", **c),
    "mean": lambda s, **c: s.mean("income", where="age >= 5", **c),
    "sum": lambda s, **c: s.sum("income", **c),
    "variance": lambda s, **c: s.variance("income", **c),
    "standard_deviation": lambda s, **c: s.standard_deviation("income", **c),
    "correlation": lambda s, **c: s.correlation("income", "hours", **c),
    "histogram": lambda s, **c: s.histogram("income", **c),
}


@cache
def in_all_ways():
    """Row numbers, incomes and weights of all rows, those that are filled once for each way."""
    ways = prepared(KNN, TABLE)
    many = np.diff(ways.start)[ways.lists]
    drawn = [np.arange(*ways.start[one : one + 2]) for one in ways.lists]
    fixed = np.setdiff1d(np.arange(len(TABLE)), ways.rows)
    filled = ways.columns["income"].where(np.concatenate(drawn))
    return (
        np.concatenate([fixed, np.repeat(ways.rows, many)]),
        np.append(TABLE.values("income")[fixed], filled.values),
        np.concatenate([np.ones(len(fixed)), np.repeat(1 / many, many)]),
    )


@cache
def truth():
    rows, income, weight = in_all_ways()
    hours, old = TABLE.values("hours")[rows], TABLE.codes("age")[rows] >= 5
    spread = np.cov(income, hours, aweights=weight, ddof=0)
    variance = spread[0, 0] * len(TABLE) / (len(TABLE) - 1)
    return {
        "count": weight[income > 40].sum(),
        "proportion": weight[old & (income > 40)].sum() / weight[old].sum(),
        "mean": np.average(income[old], weights=weight[old]),
        "sum": (income * weight).sum(),
        "variance": variance,
        "standard_deviation": math.sqrt(variance),
        "correlation": spread[0, 1] / math.sqrt(spread[0, 0] * spread[1, 1]),
    }


@pytest.mark.parametrize("name", [n for n in ASKS if n != "histogram"])
@pytest.mark.parametrize("cost", [{"epsilon": 1000.0}, {"rho": 1e5}])
def test_answers_approach_the_imputed_table(name, cost):
    answer = ASKS[name](statistics(random_state=3), **cost)
    assert answer.value == pytest.approx(truth()[name], rel=0.01)


@pytest.mark.parametrize("name", ASKS)
def test_an_answer_is_charged_exactly_and_first_and_says_so(name):
    budget = Filter(1.0)
    asked = statistics(budget)
    assert budget.events == ()
    with nothing_is_read():
        with pytest.raises(BudgetExceededError):
            ASKS[name](asked, epsilon=1.01)
        with pytest.raises(DataError, match="could not be computed"):
            ASKS[name](asked, epsilon=0.5)
    result = ASKS[name](asked, epsilon=0.5).guarantee
    assert budget.remaining_epsilon == pytest.approx(0.0, abs=1e-9)
    assert (result.epsilon, result.delta) == (pytest.approx(0.5), 0)
    assert result.adjacency == "add-remove"
    assert {*result.conditions} == {PublicDomain(), RowFunctionsTested(), RefusalsNotPrivate()}
    assert Guarantee.from_events(result.events, conditions=result.conditions) == result
    twice = statistics(Filter(2.0, adjacency="replace-one"))
    twice = ASKS[name](twice, epsilon=1.0).guarantee
    assert (twice.epsilon, twice.adjacency) == (pytest.approx(2.0), "replace-one")
    assert str(len(TABLE)) not in f"{asked!r}{asked._session!r}{asked._session._rows!r}"


def test_seeds_and_undeclared_schemas_become_conditions():
    answer = statistics(random_state=4).count(epsilon=1.0)
    assert ExplicitSeed() in answer.guarantee.conditions
    drafted = [replace(a, undeclared=("upper",)) if a.name == "hours" else a for a in SCHEMA]
    table = Table(Schema(tuple(drafted)), TABLE._columns)
    with pytest.raises(SchemaError, match="hours"):
        statistics(table=table)
    answer = statistics(table=table, undeclared="accept").count(epsilon=1.0)
    assert DataDependentDomain(("hours",)) in answer.guarantee.conditions


@pytest.mark.long
def test_noise_of_a_count_has_the_smooth_scale():
    noise, asked = calibrate_smooth_noise(1.0), statistics(random_state=3)
    profile, exact = prepared(KNN, TABLE).profile, truth()["count"]
    bound = profile.smooth_bound(row_weight=1, recipient_weight=1, beta=noise.beta)
    how = {"epsilon": 1.0, "where": "income > 40", "uncertainty": "noise"}
    errors = np.array([asked.count(**how).value - exact for _ in range(400)])
    source = SeededNoise(4)
    draws = [noise.draw(Bounded((0, 0), bound), source)[0] for _ in range(4000)]
    drawn = np.array(draws, dtype=float)
    assert stats.ks_2samp(errors, drawn).pvalue > 1e-3
    for times in (2, 0.5):
        assert stats.ks_2samp(errors * times, drawn).pvalue < 1e-3


@pytest.mark.long
@pytest.mark.parametrize("name", [n for n in ASKS if n != "histogram"])
def test_intervals_cover_and_are_not_absurd(name):
    result = prepared(KNN, TABLE)
    exact = ASKS[name](prepared_statistics(result, None, budget=Filter(1e9)), epsilon=1e7).value
    bars = []
    for seed in range(20):  # of intervals that hold half of the time, one set in 170 passes
        asked = prepared_statistics(result, seed)
        bars.append(ASKS[name](asked, epsilon=20.0 if name == "correlation" else 4.0).interval)
    assert sum(low <= exact <= high for low, high in bars) >= 16
    widest = {"correlation": 1.5}.get(name, 2 * abs(exact))
    assert np.median([high - low for low, high in bars]) < widest


def prepared_statistics(result, seed, **more):
    """Statistics of rows that were imputed before."""
    with mock.patch.object(NearestNeighbours, "fill", return_value=result):
        asked = statistics(random_state=seed, **more)
        asked.count(where="income > 1", epsilon=1.0)
    return asked


@pytest.mark.parametrize("name", ASKS)
def test_answer_has_an_interval_without_additional_cost(name):
    for cost in ({"epsilon": 0.05}, {"epsilon": 1.0}, {"rho": 0.1}):
        answer = ASKS[name](statistics(), **cost)
        intervals = answer.intervals if name == "histogram" else (answer.interval,)
        assert all(low <= high for low, high in intervals)
        # Several releases of rho compose to less than their epsilons add up to.
        assert "rho" in cost or answer.guarantee.epsilon == pytest.approx(cost["epsilon"])


@pytest.mark.long
@pytest.mark.parametrize(
    ("first", "epsilon", "most"), [("age years", 0.02, 0.4), ("income", 0.05, 10)]
)
def test_interval_of_full_range_has_a_note_with_an_epsilon(first, epsilon, most):
    """An answer that is lost in noise does not show the sufficient epsilon exactly."""

    def asked(amount, seed):
        question = statistics(table=OF_NUMBERS, random_state=seed)
        return question.correlation(first, "hours", epsilon=amount)

    widths = []
    for seed in range(8):
        answer = asked(epsilon, seed)
        assert answer.interval == (-1.0, 1.0)
        helps = float(re.search(r"epsilon of about (\S+)", answer.note)[1])
        assert 2 * epsilon < helps < 2 * most
        low, high = asked(helps, seed + 100).interval
        widths.append(high - low)
    assert sorted(widths)[5] < 1.0
    assert np.median(widths) < 1.0
    assert "note" not in asked(50.0, 0).to_dict()
    lost, reported = (statistics().mean("hours", by="sex", epsilon=e) for e in (1e-3, 1e3))
    assert (0.0, 80.0) in lost.intervals
    assert ("whole range" in lost.note, reported.note) == (True, "")


@pytest.mark.parametrize("name", ["count", "proportion", "mean", "sum"])
def test_a_worst_case_never_changes_the_noise_interval(name):
    """It is the interval of an answer for the remaining cost, a tenth less."""
    wider = ASKS[name](statistics(random_state=5), epsilon=1.0, uncertainty="worst-case")
    assert wider.imputation_interval is not None
    assert wider.note == ""
    additional = 1 - 0.02 * {"proportion": 2, "sum": 4}.get(name, 3)
    plain = ASKS[name](statistics(random_state=5), epsilon=(additional - 0.1) / additional)
    widths = [high - low for low, high in (wider.interval, plain.interval)]
    assert widths[0] == pytest.approx(widths[1], rel=0.02)


def test_close_levels_question_without_attribute_needs_no_levels():
    sex = Categorical(name="sex", levels=("f", "m"))
    schema, count = Schema((sex, OpenCategorical(name="job"))), [Statistic("count")]
    closed = close_levels(None, count, schema)
    assert (closed.names, closed.ignore) == (("sex",), ("job",))
    assert Table.read({"sex": ["f", "m"], "job": ["cook", "smith"]}, closed).schema == closed
    with refuses(SchemaError, "'job' are open"):
        close_levels(None, [Statistic("count", by="job")], schema)
    with refuses(SchemaError, "'job' are open"):
        close_levels(None, count, Schema((OpenCategorical(name="job"),)))
