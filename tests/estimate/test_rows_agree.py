"""Rows and estimates of one model agree, with units and weights too."""

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, AllPairs, Categorical, Numeric, Ordinal, Schema, Table
from missdp.estimate.model_rows import answer_by_rows
from missdp.schema import SurveyWeight, Unit
from missdp.schema.question_text import parse_formula, parse_question

DRAWN = 100_000
TABLES = [
    (n, weighed, seed) for n in (1500, 8000) for weighed in (False, True) for seed in range(5)
]
QUICK = [(1500, False, 0), (3000, True, 1)]
QUESTIONS = [
    *((name, None, by) for name in ("age", "income", "health") for by in ("works", "month")),
    *(("works", "yes", by) for by in ("region", "smokes")),
    *(("smokes", "yes", by) for by in ("month", "works")),
]


def survey(n, seed):
    """People whose work depends on their age, and whose month of interview on nothing."""
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.gamma(6, 8.0, n) + 15), 18, 95).astype(int)
    chance = np.where(age < 60, 0.8, np.where(age < 70, 0.25, 0.02))
    works = rng.random(n) < chance
    income = np.round(np.exp(rng.normal(9.5 + 0.5 * works, 0.6, n)))
    smokes = pd.Series(np.where(rng.random(n) < 0.2, "yes", "no"))
    frame = {
        "age": age,
        "works": np.where(works, "yes", "no"),
        "smokes": smokes.mask(rng.random(n) < 0.05 + 0.1 * (age > 60)),
        "month": rng.integers(1, 13, n).astype(str),
        "region": rng.choice([*"abcdef"], n, p=[0.3, 0.25, 0.2, 0.1, 0.1, 0.05]),
        "income": pd.Series(income).mask(rng.random(n) < 0.1),
        "health": np.clip(np.round(5 - age / 30 + rng.normal(0, 0.8, n)), 1, 5).astype(int),
    }
    return pd.DataFrame(frame)


def schema_of(*, bins, **layout):
    return Schema(
        (
            Numeric(name="age", lower=0, upper=110, integer=True, bins=bins),
            Categorical(name="works", levels=("no", "yes")),
            Categorical(name="smokes", levels=("no", "yes"), nullable=True),
            Categorical(name="month", levels=tuple(map(str, range(1, 13)))),
            Categorical(name="region", levels=tuple("abcdef")),
            Numeric(name="income", lower=0, upper=500_000, integer=True, nullable=True),
            Ordinal(name="health", levels=(1, 2, 3, 4, 5)),
        ),
        **layout,
    )


def private(n, *, weighed, seed):
    """A table and its schema. With units of two rows and weights up to 4.6 times their mean."""
    frame, rng = survey(n, seed), np.random.default_rng(seed + 100)
    bins = 10 if seed % 2 else None
    if not weighed:
        return frame, schema_of(bins=bins)
    weight = np.exp(rng.normal(0, 0.6, n))
    weight = np.minimum(weight / weight.mean(), 4.6)
    frame = frame.assign(weight=weight, person=np.arange(n) // 2)
    layout = {"unit": Unit("person", max_rows=2), "weight": SurveyWeight("weight", upper=4.6)}
    return frame, schema_of(bins=bins, **layout)


def agreements(model, seed):
    """Whether each group of each question has the same answer by rows and by `estimate`."""
    rows = model.sample(DRAWN, random_state=seed + 1)
    for name, level, by in QUESTIONS:
        question = f"mean({name})" if level is None else f"share({name} == '{level}')"
        result = model.estimate(f"{question} by {by}")
        values = rows[name].astype(float) if level is None else (rows[name] == level).astype(float)
        groups = values.groupby(rows[by]).agg(["mean", "std", "size"])
        for label, value in zip(result.labels, result.estimate, strict=True):
            if label in groups.index:
                mean, std, size = groups.loc[label]
                yield abs(value - mean) <= 3 * std / np.sqrt(size) + 0.01 * values.std()


def share_agreeing(family, tables):
    result = []
    for n, weighed, seed in tables:
        frame, schema = private(n, weighed=weighed, seed=seed)
        model = family(epsilon=1.0, delta=1e-6, random_state=seed).fit(frame, schema=schema)
        result.extend(agreements(model, seed))
    return np.mean(result)


@pytest.mark.long
def test_estimates_agree_with_rows_of_the_same_model():
    assert share_agreeing(AllPairs, QUICK) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("family", [AllPairs, AIM])
def test_estimates_of_twenty_tables_agree_with_rows(family):
    assert share_agreeing(family, TABLES) >= 0.95


@pytest.mark.long
def test_empty_declared_bins_keep_group_means():
    """Slopes inside a bin were divided by the share of an empty one: errors were 110 years."""
    frame, schema = private(8000, weighed=False, seed=1)
    model = AllPairs(epsilon=1.0, delta=1e-6, random_state=1).fit(frame, schema=schema)
    result = model.estimate("mean(age) by works")
    assert max(result.noise) < 5
    for label, (low, high) in zip(result.labels, result.intervals, strict=True):
        assert low - 2 < frame.age[frame.works == label].mean() < high + 2  # bins of eleven years


LINE = Schema(
    (Numeric(name="x", lower=0, upper=9), Categorical(name="g", levels=("a", "b", "c", "d")))
)


@pytest.mark.parametrize("groups", ["abc", "bcd", ""])
def test_rows_that_lack_a_level_determine_no_line(groups):
    frame = pd.DataFrame({"x": np.arange(12.0) % 9, "g": [*"abcd"] * 3})
    rows = Table.read(frame, LINE)
    line = parse_formula("x ~ C(g)", LINE)
    assert np.isfinite(answer_by_rows(rows, line)).all()
    fewer = rows.take(np.isin(frame["g"], [*groups]))
    assert np.isnan(answer_by_rows(fewer, line)).all()


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_rows_have_no_correlation(n):
    schema = Schema(tuple(Numeric(name=name, lower=0, upper=9) for name in "xy"))
    rows = Table.read(pd.DataFrame({"x": [1.0], "y": [2.0]}), schema).take(np.arange(1) < n)
    assert np.isnan(answer_by_rows(rows, parse_question("correlation(x, y)", schema))).all()
