"""No table is refused. An invalid question raises in one line before anything is charged."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.accounting import Cost, Filter, PureEvent
from missdp.errors import BudgetExceededError, MissDPError, UnprovenError
from missdp.statistics import (
    CustomQuery,
    ImputedStatistics,
    KNNImputation,
    LevelEstimates,
    Statistic,
    open_table,
    read_imputation,
    read_questions,
    run_queries,
)
from missdp.statistics.statistics import _cost_of
from missdp.statistics.tasks import cost_share
from refusing import refuses

SCHEMA = Schema((
    Ordinal(name="age", levels=(0, 1, 2), nullable=True),
    Categorical(name="sex", levels=("f", "m"), nullable=True),
    Numeric(name="income", lower=-5, upper=10, nullable=True),
    Numeric(name="hours", lower=0, upper=80, nullable=True, integer=True, bins=4),
))  # fmt: skip
KNN = KNNImputation(impute="income", match_on="age")
SECRET = 7.125
FULL, EMPTY = [0, "f", SECRET, 7], [None] * 4
TABLES = {
    "no row": [],
    "one row": [FULL],
    "one empty row": [EMPTY],
    "nothing observed": [EMPTY] * 5,
    "no donor": [[1, "m", None, None]] * 3,
    "no hole": [FULL] * 4,
    "fewer donors than k": [FULL, [1, "m", None, 3], EMPTY, [2, "f", 9, None]],
    "ties": [FULL] * 3 + [[0, "f", None, None]] * 3,
}
IMPUTATIONS = {
    "nearest": KNNImputation(impute=("income", "hours"), match_on=("age", "sex")),
    "three": KNNImputation(impute=("income", "hours"), match_on=("age", "sex"), k=3),
    "group": KNNImputation(impute=("sex", "income"), match_on="age", group="hours"),
    "none": None,
}
ASKS = {
    "count": lambda s, **c: s.count(where="income > 3", **c),
    "proportion": lambda s, **c: s.proportion("income > 2", where="sex = 'f'", **c),
    "mean": lambda s, **c: s.mean("income", where="hours > 3", **c),
    "sum": lambda s, **c: s.sum("hours", **c),
    "deviation": lambda s, **c: s.standard_deviation("income", where="age = 1", **c),
    "correlation": lambda s, **c: s.correlation("income", "hours", **c),
    "histogram": lambda s, **c: s.histogram("income", where="sex = 'm'", **c),
    "worst case": lambda s, **c: s.mean("income", where="age > 1", uncertainty="worst-case", **c),
}
RANGES = dict.fromkeys(ASKS, (0, math.inf)) | {"proportion": (0, 1), "correlation": (-1, 1)}
RANGES |= {"mean": (-5, 10), "worst case": (-5, 10), "deviation": (0, 10.61)}


def read(rows):
    kinds = {"age": "Int64", "sex": object, "income": float, "hours": float}
    return Table.read(pd.DataFrame(rows, columns=list(kinds)).astype(kinds), SCHEMA)


TIES = read(TABLES["ties"])
COSTS = [{"epsilon": 2.0}, {"epsilon": 2.0}, {"rho": 2.0}, {"rho": 2.0}]


@pytest.mark.long
@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
def test_every_table_has_an_answer(rows):
    for imputation, cost in zip(IMPUTATIONS.values(), COSTS, strict=True):
        budget = Filter(1e4, 1e-3)
        question = ImputedStatistics(read(rows), imputation, budget=budget, random_state=0)
        for name, options in ASKS.items():
            answer = options(question, **cost)
            values = answer.values if name == "histogram" else (answer.value,)  # noqa: PD011
            low, high = RANGES[name]
            assert all(math.isfinite(value) and low <= value <= high for value in values)


# Everything wrong that anyone can say: names of parameters and their bad values.
BAD_IMPUTATIONS = {
    "impute": [(), 3, [3], "age", "nobody"], "match_on": [(), {"age": 0.0}, {"age": "x"}, "income"],
    "k": [0, 1.5, True, 1001], "metric": ["manhattan"], "group": ["age", 3],
    "aggregate": ["median", "majority", {"age": "mean"}],
    "default": [{"income": None}, {"income": 101}, {"age": 1}],
}  # fmt: skip
BAD_STATISTICS = {
    "table": ["x", None], "imputation": ["x", 3], "budget": [None, 1.0],
    "confidence": ["x", 1.0, 0.4], "undeclared": ["perhaps"],
}  # fmt: skip
BAD_TEXTS = {
    "impute": ["nobody", "`income", ""], "match": ["income", "nobody"],
    "text": ["mode(income)", "median(income)", "mean()", "mean(income, hours)", "mean(age)",
             "mean(sex)", "mean(nobody)", "mean(`income)", "share()"],
    "epsilon": ["x", 0.0, math.nan],
    "where": ["age >", 3, "age >> 5", "(" * 5000 + "age=1" + ")" * 5000, "not " * 5000 + "age=1"],
    "k": [0], "group": ["nobody"], "uncertainty": ["rubin", ""],
}  # fmt: skip
BAD_QUESTIONS = [
    ("mean", ("sex",)), ("mean", ("nobody",)), ("mean", (None,)), ("sum", ()), ("count", ("age",)),
    ("correlation", ("income",)), ("correlation", ("sex", "income")), ("histogram", ("nobody",)),
    ("proportion", ("age",)), ("proportion", (b"x",)), ("mode", ("income",)),
    ("mean", ("income",), "age >"), ("count", (), 3), ("count", (), b"x"),
    ("count", (), None, "rubin"), ("variance", ("income",), None, "worst-case"),
]  # fmt: skip
BAD_COSTS = [
    {}, {"epsilon": 1.0, "rho": 1.0}, *({"epsilon": e} for e in (0, 1e-300, 1e-12, 1e300, "1")),
    {"epsilon": math.nan}, {"rho": -1.0},
]  # fmt: skip
ONE = Cost(privacy_measure="pure", amount=1.0)


def asks_in_text(budget, text="mean(income)", *, epsilon=1.0, where="", uncertainty=None, **how):
    """Ask one question, and say in text how missing cells are filled."""
    question = read_questions([text], SCHEMA, where=where, uncertainty=uncertainty)
    imputation = read_imputation(SCHEMA, **{"impute": "income", "match": "age", **how})
    return run_queries(TIES, imputation, question, epsilon=epsilon, budget=budget)[0]


def asks_of(kind, name, bad, budget):
    facts = {"table": TIES, "imputation": KNN, "budget": budget}
    if kind == "imputation":
        message = {"impute": "income", "match_on": "age", name: bad}
        return ImputedStatistics(TIES, KNNImputation(**message), budget=budget)
    if kind == "statistics":
        return ImputedStatistics(**{**facts, name: bad})
    if kind == "text":
        return asks_in_text(budget, **{name: bad})
    if kind == "question":
        return ImputedStatistics(**facts).answer(Statistic(*bad), ONE)
    return ASKS[name](ImputedStatistics(**facts), **bad)


def message(kind, bad):
    return [(kind, name, value) for name, values in bad.items() for value in values]


BAD = [
    *message("imputation", BAD_IMPUTATIONS), *message("statistics", BAD_STATISTICS),
    *message("text", BAD_TEXTS),
    *message("question", {"": BAD_QUESTIONS}), *message("cost", dict.fromkeys(ASKS, BAD_COSTS)),
]  # fmt: skip


def test_invalid_question_raises_one_line_without_a_charge():
    for wrong in BAD:
        budget = Filter(1e308)
        with refuses(MissDPError) as caught:
            asks_of(*wrong, budget)
        assert str(SECRET) not in str(caught.value)
        assert budget.events == ()
    for kind in ("variance", "standard_deviation", "correlation", "histogram"):
        with pytest.raises(UnprovenError, match="count, proportion, mean, sum"):
            Statistic(kind, ("income",), uncertainty="worst-case")
    with pytest.raises(UnprovenError, match="without groups only"):
        Statistic("mean", of=("income",), by="sex", uncertainty="worst-case")


def income_alone(rows):
    return rows.values("income").max(initial=0.0)


def test_custom_query_of_filled_cells_raises_without_a_charge():
    """The average over ways to fill rows exists for sums over rows only."""
    budget = Filter(1.0)
    filled = open_table(TIES, budget=budget).apply(KNN.change(SCHEMA))
    query = CustomQuery(function=income_alone, reads={"income"}, sensitivity=10)
    message = r"^a CustomQuery cannot .*Use RowCounts or RowSums$"
    with pytest.raises(UnprovenError, match=message):
        filled.measure(query, ONE)
    assert budget.events == ()
    part = filled.reserve(cost_share(ONE, 0.5), label="income")
    with pytest.raises(UnprovenError, match=message):
        part.measure(query, part.remaining)
    assert part.remaining.amount == 0.5 * (1 - 2.0**-40)


def test_values_that_are_not_there_are_missed_before_the_charge():
    codes = {"age": [0, 1], "sex": [0, 2], "income": [3, 10], "hours": [0, 1]}
    table, budget = Table.from_codes(SCHEMA, codes), Filter(10.0)
    question = ImputedStatistics(table, KNNImputation(impute="sex", match_on="age"), budget=budget)
    empty = Categorical(name="e", levels=(), not_applicable=())
    lacking = Table.read({"e": [None] * 3}, Schema((empty,)))
    of_nobody = ImputedStatistics(lacking, None, budget=budget)
    for reported, options in (
        ("'income' has no num", lambda: ImputedStatistics(table, KNN, budget=budget)),
        ("no numeric values", lambda: question.mean("income", epsilon=1.0)),
        ("no numeric values", lambda: question.count(where="not hours > 3", epsilon=1.0)),
        ("no numeric values", lambda: question.proportion("income > 3", epsilon=1.0)),
        ("no row has a value", lambda: of_nobody.histogram("e", epsilon=1.0)),
        ("no row has a value", lambda: of_nobody.count(by="e", epsilon=1.0)),
    ):
        with refuses(MissDPError, reported):
            options()
    assert budget.events == ()
    assert question.count(where="sex = 'f'", epsilon=1.0).value >= 0


@pytest.mark.parametrize("bounds", [(0.0, 1e-310), (-1e-200, 1e-200)])
def test_bounds_that_floating_point_cannot_square_are_refused_before_the_charge(bounds):
    low, high = bounds
    income = Numeric(name="income", lower=low, upper=high, nullable=True)
    schema = Schema((Ordinal(name="age", levels=(0, 1)), income))
    table = Table.read(pd.DataFrame({"age": [0, 1], "income": [low, None]}), schema)
    question = ImputedStatistics(table, None, budget=Filter(10.0))
    for options in (
        lambda: ImputedStatistics(table, KNN, budget=question.budget),
        lambda: question.mean("income", epsilon=1.0),
        lambda: question.sum("income", epsilon=1.0),
    ):
        with refuses(MissDPError, "another unit"):
            options()
    assert question.budget.events == ()


def test_every_statistic_spends_its_epsilon_or_nothing():
    for facts in (
        {"where": "age < 2"}, {"text": "count()", "where": "income > 5"},
        {"text": "share(income > 5)", "uncertainty": "worst-case"},
        {"text": "sum(income)", "uncertainty": "worst-case"}, {"text": "variance(income)", "k": 3},
        {"text": "sd(income)"}, {"text": "correlation(income, hours)"},
        {"text": "histogram(income)"}, {"text": "mean(hours)", "where": "age = 1"},
        {"match": "hours", "group": "age"},
    ):  # fmt: skip
        budget, poor = Filter(1.0), Filter(0.9)
        with pytest.raises(BudgetExceededError, match="Nothing was"):
            asks_in_text(poor, **facts)
        assert poor.events == ()
        answer = asks_in_text(budget, **facts)
        assert answer.guarantee.epsilon == pytest.approx(1.0)
        assert budget.remaining_epsilon == pytest.approx(0.0, abs=1e-9)
        assert answer.intervals if isinstance(answer, LevelEstimates) else answer.interval
        worst = getattr(answer, "imputation_interval", None)
        assert (worst is not None) == ("uncertainty" in facts)


@given(epsilon=st.floats(1e-9, 1e9), parts=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6))
def test_cost_shares_never_add_up_to_more_than_the_cost(epsilon, parts):
    total = math.fsum(parts)
    shares = [cost_share(_cost_of(epsilon, None), part / total).amount for part in parts]
    assert sum(map(Fraction, shares)) <= Fraction(epsilon)
    assert math.fsum(shares) == pytest.approx(epsilon, rel=1e-9)


# Fits and statistics spend from one budget, whether its schedule is fixed or adaptive
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame({"age": RNG.integers(0, 3, 400), "sex": RNG.choice(["f", "m"], 400)})
FRAME["income"] = np.where(RNG.random(400) < 0.2, np.nan, RNG.uniform(0, 10, 400))
PERSONS = Table.read(FRAME, SCHEMA.subset(["age", "sex", "income"]))
OF_PERSONS = KNNImputation(impute="income", match_on=("age", "sex"))


@pytest.mark.parametrize(
    ("delta", "privacy_measure", "cost", "whole"),
    [
        (0.0, "pure", {"epsilon": 0.25}, 0.25),
        (1e-5, "zcdp", {"epsilon": 0.25}, 0.25**2 / 2),
        (1e-5, "zcdp", {"rho": 0.01}, 0.01),
    ],
)
def test_statistics_spend_from_a_filter(delta, privacy_measure, cost, whole):
    budget = Filter(2.0, delta, measure=privacy_measure)
    question = ImputedStatistics(PERSONS, OF_PERSONS, budget=budget)
    before = budget.remaining.amount
    first = question.mean("income", where="age > 0", **cost)
    spent = (
        before - budget.remaining.amount
    )  # a cost is spent whole, in the privacy measure of the budget
    assert 0.5 * whole <= spent <= whole * (1 + 1e-9)
    # The next question and its cost may depend on this answer.
    question.count(where="age = 1" if first.value > 5 else "age = 2", **cost)
    PrivBayes(epsilon=0.2, budget=budget, random_state=0).fit(PERSONS)
    while budget.can_afford(PureEvent(epsilon=0.2)):
        question.count(where="sex = 'f'", epsilon=0.2)
    with pytest.raises(BudgetExceededError):
        question.count(where="sex = 'f'", epsilon=0.2)
    assert budget.spent.epsilon <= 2.0
