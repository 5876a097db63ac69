"""No table is refused; what cannot be released is refused before it is charged."""

from __future__ import annotations

import math
from fractions import Fraction

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget, PureEvent
from missdp.errors import BudgetExceededError, DataError, MissDPError, ParameterError
from missdp.mechanisms.smooth import ReleasedScale
from missdp.statistics import (
    CappedKNN,
    CompleteRows,
    ImputedStatistics,
    KNNImputation,
    QueryRequest,
    ReleasedModel,
    ScaleRelease,
    run_query,
)
from missdp.statistics.parts import cost_of, share

SCHEMA = Schema((
    Ordinal(name="age", levels=(0, 1, 2), nullable=True),
    Categorical(name="sex", levels=("f", "m"), nullable=True),
    Numeric(name="income", lower=-5, upper=10, nullable=True),
    Numeric(name="hours", lower=0, upper=80, nullable=True, integer=True, bins=4),
))  # fmt: skip
KNN = KNNImputation(impute="income", match_on="age")
FULL, EMPTY = [0, "f", 1.5, 7], [None] * 4
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
    "capped": CappedKNN(knn=KNN, max_donees=4),
    "complete": CompleteRows(impute="income"),
    "model": ReleasedModel(impute=("income", "sex"), match_on="age"),
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


def read(rows):
    kinds = {"age": "Int64", "sex": object, "income": float, "hours": float}
    frame = pd.DataFrame(rows, columns=list(kinds)).astype(kinds)
    return Table.read(frame, SCHEMA)


@pytest.mark.parametrize("rows", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("imputation", IMPUTATIONS.values(), ids=IMPUTATIONS)
def test_every_table_has_an_answer(rows, imputation):
    for scale, cost in (
        (None, {"epsilon": 2.0}),
        (ScaleRelease(epsilon=0.5), {"epsilon": 2.0}),
        (ScaleRelease(rho=0.05, delta=1e-6), {"rho": 2.0}),
    ):
        asked = ImputedStatistics(
            read(rows), imputation, budget=Budget(1e4, 1e-3), scale=scale, random_state=0
        )
        for name, ask in ASKS.items():
            answer = ask(asked, **cost)
            values = answer.values if name == "histogram" else (answer.value,)  # noqa: PD011
            assert all(map(math.isfinite, values))


@pytest.mark.parametrize("imputation", IMPUTATIONS.values(), ids=IMPUTATIONS)
@pytest.mark.parametrize("cost", [1e-300, 1e-12, 1e-6, 0.5, 1e6, 1e9, 1e300, "1", math.nan])
def test_what_cannot_be_released_is_not_charged(imputation, cost):
    table = read(TABLES["ties"])
    for ask in (ASKS["mean"], ASKS["histogram"], ASKS["worst case"]):
        budget = Budget(1e308)
        asked = ImputedStatistics(table, imputation, budget=budget, random_state=0)
        before = budget.events
        refused = None
        try:
            ask(asked, epsilon=cost)
        except MissDPError as error:
            refused = error
        assert refused is None or (refused.__context__ is None and budget.events == before)


def test_values_that_are_not_there_are_missed_before_the_charge():
    codes = Table.from_codes(SCHEMA, {"age": [0, 1], "sex": [0, 2], "income": [3, 10],
                                      "hours": [0, 1]})  # fmt: skip
    budget = Budget(10.0)
    with pytest.raises(DataError, match="'income' has no numeric values"):
        ImputedStatistics(codes, KNN, budget=budget, scale=ScaleRelease(epsilon=1.0))
    asked = ImputedStatistics(codes, KNNImputation(impute="sex", match_on="age"), budget=budget)
    for ask in (
        lambda: asked.mean("income", epsilon=1.0),
        lambda: asked.count(where="not hours > 3", epsilon=1.0),
        lambda: asked.proportion("income > 3", epsilon=1.0),
    ):
        with pytest.raises(DataError, match="no numeric values"):
            ask()
    assert budget.events == ()
    assert asked.count(where="sex = 'f'", epsilon=1.0).value >= 0


@pytest.mark.parametrize("bounds", [(0.0, 1e-310), (-1e-200, 1e-200)])
def test_bounds_that_floating_point_cannot_square_are_refused_before_the_charge(bounds):
    low, high = bounds
    schema = Schema((
        Ordinal(name="age", levels=(0, 1)),
        Numeric(name="income", lower=low, upper=high, nullable=True),
    ))  # fmt: skip
    table = Table.read(pd.DataFrame({"age": [0, 1], "income": [low, None]}), schema)
    budget = Budget(10.0)
    with pytest.raises(MissDPError, match="another unit"):
        ImputedStatistics(table, KNN, budget=budget)
    asked = ImputedStatistics(table, CompleteRows(impute="income"), budget=budget)
    for ask in (asked.mean, asked.variance, asked.sum):
        with pytest.raises(MissDPError, match="another unit"):
            ask("income", epsilon=1.0)
    assert budget.events == ()


@pytest.mark.parametrize(
    "ask",
    [
        lambda s, *n: s.mean(*n, epsilon=1.0),
        lambda s, *n: s.sum(*n, epsilon=1.0),
        lambda s, *n: s.variance(*n, epsilon=1.0),
        lambda s, *n: s.standard_deviation(*n, epsilon=1.0),
        lambda s, *n: s.correlation(*n, "income", epsilon=1.0),
        lambda s, *n: s.correlation("income", *n, epsilon=1.0),
    ],
)
def test_what_is_no_number_is_refused_before_the_charge(ask):
    budget = Budget(10.0)
    asked = ImputedStatistics(read(TABLES["ties"]), KNN, budget=budget)
    for names in (("sex",), ("nosuch",), (None,)):
        with pytest.raises(MissDPError):
            ask(asked, *names)
    assert budget.events == ()


@pytest.mark.parametrize("donees", [1e-3, 1.0, 1e6, 1e300])
def test_what_a_question_costs_is_no_outcome(monkeypatch, donees):
    """The noise may follow a released number; its event may not."""

    def released(self, steps, confidence):
        failure = self.failure(confidence)
        return ReleasedScale(donees, self.beta(confidence), self.gaussian, failure)

    monkeypatch.setattr(ScaleRelease, "released", released)
    table = read(TABLES["ties"])
    for ask in ASKS.values():
        asked = ImputedStatistics(
            table, IMPUTATIONS["nearest"], budget=Budget(1e3, 1e-3),
            scale=ScaleRelease(rho=0.05, delta=1e-6), random_state=0,
        )  # fmt: skip
        kinds = [type(e).__name__ for e in ask(asked, rho=1.0).guarantee.events[2:]]
        assert set(kinds) <= {"ZCDPEvent", "GaussianEvent"}


def test_a_question_is_afforded_whole_or_not_at_all():
    budget = Budget(0.9)
    request = QueryRequest(impute="income", match="age", statistic="mean", of="income", epsilon=1.0)
    with pytest.raises(BudgetExceededError, match="nothing was"):
        run_query(read(TABLES["ties"]), request, budget=budget)
    assert budget.events == ()


@given(
    epsilon=st.floats(1e-9, 1e9),
    parts=st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=6),
)
def test_shares_never_add_up_to_more_than_the_whole(epsilon, parts):
    total = math.fsum(parts)
    shares = [share(cost_of(epsilon, None), part / total).amount for part in parts]
    assert sum(map(Fraction, shares)) <= Fraction(epsilon)
    assert math.fsum(shares) == pytest.approx(epsilon, rel=1e-9)


@pytest.mark.parametrize("attributes", range(1, 8))
@pytest.mark.parametrize("epsilon", [0.1, 0.3, 1.0, 3.3])
def test_models_and_scales_cost_no_more_than_they_say(attributes, epsilon):
    names = tuple(f"a{i}" for i in range(attributes))
    schema = Schema(tuple(Ordinal(name=n, levels=(0, 1), nullable=True) for n in (*names, "b")))
    table = Table.from_codes(schema, {name: [0] for name in schema.names})
    model, knn = Budget(epsilon), Budget(epsilon)
    ImputedStatistics(
        table, ReleasedModel(impute=names, match_on=("b",), epsilon=epsilon), budget=model
    )
    ImputedStatistics(
        table, KNNImputation(impute=names, match_on="b"), budget=knn,
        scale=ScaleRelease(epsilon=epsilon),
    )  # fmt: skip
    assert (len(model.events), len(knn.events)) == (attributes, 1)
    for parts in (model.events, knn.events):
        spent = sum(Fraction(e.sensitivity) / Fraction(e.scale) for e in parts)
        assert spent <= Fraction(repr(epsilon))  # as it is written, which is how budgets read it


BAD = [
    lambda **f: ImputedStatistics(**{**f, "table": "x"}),
    lambda **f: ImputedStatistics(**{**f, "imputation": "x"}),
    lambda **f: ImputedStatistics(**{**f, "budget": None}),
    lambda **f: ImputedStatistics(**f, scale="x"),
    lambda **f: ImputedStatistics(**f, confidence="x"),
    lambda **f: ImputedStatistics(**f, confidence=1.0),
    lambda **f: ImputedStatistics(**f, undeclared="perhaps"),
    lambda **f: ImputedStatistics(**f).count(where=3, epsilon=1.0),
    lambda **f: ImputedStatistics(**f).count(where=b"x", epsilon=1.0),
    lambda **f: ImputedStatistics(**f).count(where="(" * 5000 + "age=1" + ")" * 5000, epsilon=1.0),
    lambda **f: ImputedStatistics(**f).count(where="not " * 5000 + "age=1", epsilon=1.0),
    lambda **_: KNNImputation(impute=3, match_on="age"),
    lambda **_: KNNImputation(impute=[3], match_on="age"),
    lambda **_: KNNImputation(impute="income", match_on={"age": "x"}).check(SCHEMA),
    lambda **_: KNNImputation(impute="income", match_on="age", partition={"age": "x"}).check(
        SCHEMA
    ),
    lambda **_: KNNImputation(impute="income", match_on="age", default={"income": None}).check(
        SCHEMA
    ),
    lambda **_: CompleteRows(impute=()),
    lambda **_: CompleteRows(impute=3),
    lambda **_: CappedKNN(knn=3, max_donees=2),
    lambda **_: ReleasedModel(impute="income", match_on=()),
    lambda **_: ReleasedModel(impute="income", match_on="age", epsilon="x"),
    lambda **_: ReleasedModel(impute="income", match_on="age", enough="x"),
    lambda **f: ImputedStatistics(
        **{**f, "imputation": ReleasedModel(impute="income", match_on="age", epsilon=1e-300)}
    ),
    lambda **_: ScaleRelease(epsilon="x"),
    lambda **_: ScaleRelease(rho=1.0, delta="x"),
    lambda **_: ScaleRelease(epsilon=1e300),
    lambda **_: QueryRequest(impute=3, match="age", statistic="count", epsilon=1.0),
    lambda **_: QueryRequest(impute="a", match="b", statistic="count", epsilon="x"),
    lambda **_: QueryRequest(impute="a", match="b", statistic="count", epsilon=1.0, bar_share="x"),
    lambda **_: QueryRequest(impute="a", match="b", statistic="count", epsilon=1.0, bar_share=1),
]


@pytest.mark.parametrize("ask", BAD)
def test_bad_parameters_are_refused_in_one_line_and_cost_nothing(ask):
    budget = Budget(10.0)
    with pytest.raises(MissDPError) as caught:
        ask(table=read(TABLES["ties"]), imputation=KNN, budget=budget)
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None
    assert budget.events == ()


def test_a_released_model_is_not_charged_twice():
    budget = Budget(2.0)
    ImputedStatistics(read(TABLES["ties"]), IMPUTATIONS["model"], budget=budget)
    with pytest.raises(ParameterError):
        cost_of(1.0, 1.0)
    assert budget.can_afford(PureEvent(epsilon=1.0))
