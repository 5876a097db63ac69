"""Rows that are asked for: exactly so many, as the model has them, or one error."""

import math
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, MST, AllPairs, Categorical, Numeric, Ordinal, PrivBayes, Schema
from missdp.baselines import Kamino
from missdp.errors import ParameterError
from missdp.inference.conditioned import conditioned
from missdp.schema import Denial, NotApplicable
from missdp.synth import sampling
from missdp.synth.sampling import Selection
from refusing import refuses

SCHEMA = Schema(
    (
        Categorical(name="sex", levels=("f", "m"), nullable=True),
        Numeric(name="age", lower=0, upper=99, integer=True),
        Ordinal(name="grade", levels=("low", "mid", "high")),
        Numeric(name="hours", lower=0, upper=80, nullable=True),
    ),
    rules=(NotApplicable("hours", unless="age >= 18"),),
)


def rows(n=4000, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n, p=[0.3, 0.7]),
            "age": age,
            "grade": np.where(age > 60, "high", rng.choice(["low", "mid"], n)),
            "hours": np.where(age >= 18, rng.integers(0, 81, n) * 0.9, np.nan),
        }
    )
    frame.loc[rng.random(n) < 0.2, "sex"] = None
    return frame


@pytest.fixture(scope="module")
def models():
    kinds = (AllPairs, AIM, MST, PrivBayes)
    return {
        k: k(epsilon=50.0, delta=1e-6, random_state=0).fit(rows(), schema=SCHEMA) for k in kinds
    }


@pytest.fixture(scope="module")
def whole(models):
    """Many rows of a family's model, drawn once."""
    return cache(lambda family: models[family].sample(300_000, random_state=1))


@pytest.mark.parametrize("family", [AllPairs, AIM, MST, PrivBayes])
@pytest.mark.parametrize(
    ("where", "holds"),
    [
        ("sex = 'f' and age >= 60", lambda t: (t.sex == "f") & (t.age >= 60)),
        ({"sex": "f", "age": (60, 80)}, lambda t: (t.sex == "f") & t.age.between(60, 80)),
        ({"age": 42}, lambda t: t.age == 42),
        ({"grade": ("mid", "high"), "age": (0, 30)}, lambda t: (t.grade != "low") & (t.age <= 30)),
        ({"grade": ["low", "high"]}, lambda t: t.grade.isin(["low", "high"])),
        ({}, lambda t: t.age >= 0),
    ],
)
def test_so_many_rows_and_no_others(models, family, where, holds):
    for n in (0, 100):
        drawn = models[family].sample(n, where=where, random_state=n)
        assert len(drawn) == n
        assert holds(drawn).all()
        assert (drawn.hours.isna() == (drawn.age < 18)).all()  # rules hold
        assert drawn.dtypes.equals(models[family].sample(5, random_state=0).dtypes)


slow_but_aim = pytest.mark.parametrize(
    "family", [AIM, *(pytest.param(f, marks=pytest.mark.slow) for f in (AllPairs, MST))]
)


def distance(one, two, names):
    shares = [t.value_counts(names, normalize=True, dropna=False) for t in (one, two)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


@slow_but_aim
@pytest.mark.parametrize(("ages", "share"), [((0, 15), 0.05), ((97, 97), 0.003)])
def test_rare_rows_come_fast_and_as_the_model_has_them(models, whole, family, ages, share):
    asked, whole = Selection({"sex": "f", "age": ages}, SCHEMA), whole(family)
    blocks = models[family].sample_blocks(3000, where=asked, random_state=0)
    rare = pd.concat([block.to_native() for block in blocks])
    assert len(rare) == 3000
    assert asked.drawn < 40_000 < 3000 / share  # others are not drawn and dropped
    among = whole[(whole.sex == "f") & whole.age.between(*ages)]
    spread = math.sqrt(share / len(whole)) + 0.05 * share
    assert abs(asked.share - len(among) / len(whole)) < 4 * spread
    assert distance(rare, among, ["sex", "grade"]) < 0.03 + 1.5 / math.sqrt(len(among))
    assert distance(rare, among, ["age"]) < 0.03 + 2 / math.sqrt(len(among))
    if share > 0.01:
        assert not rare.hours.dropna().duplicated().any()  # none is a copy
        assert (rare.hours.isna() == (rare.age < 18)).all()


def test_rows_of_both_kinds_stand_for_as_many_as_the_model_has(models):
    """Without tables nothing but the balance of the two kinds says how common wanted rows are."""
    model = models[AllPairs]
    law = replace(model.model_, tables={})
    wanted = {0: np.array([True, False]), 2: np.array([True, False, True])}
    found, share = conditioned(law, wanted, 2000, np.random.default_rng(0))
    rows = law.law.sample(100_000, np.random.default_rng(1))
    groups = [law.levels[v].groups[np.flatnonzero(w)] for v, w in wanted.items()]
    inside = np.isin(rows[:, 0], groups[0]) & np.isin(rows[:, 2], groups[1])
    assert model.modelled_.names[:3] == ("sex", "age", "grade")
    assert share == pytest.approx(inside.mean(), rel=0.04)
    drawn = found.sample(2000, np.random.default_rng(2), keep_holes=False)
    assert {*drawn[0].tolist()} == {0}
    assert np.mean(drawn[2] == 0) == pytest.approx(np.mean(rows[inside, 2] == 0), abs=0.04)


def test_codes_that_may_be_asked_for_are_those_that_some_row_has():
    """Of each attribute by itself, whatever the others are; a cell that is lost may be none."""
    schema = Schema(
        (
            Categorical(name="sex", levels=("f", "m"), nullable=True),
            Numeric(name="age", lower=0, upper=100, bins=10),
        )
    )

    def codes(where):
        return {n: c.tolist() for n, c in Selection(where, schema).codes(schema, schema).items()}

    assert codes("sex = 'f'") == {"sex": [True, False]}
    assert codes({"age": (35, 55)})["age"] == [k in (3, 4, 5) for k in range(10)]
    assert codes("sex = 'f' or age > 90") == {}
    assert codes("not sex = 'f'") == {}  # a missing cell is none
    assert codes("age < 20 and (sex = 'm' or age > 90)") == {"age": [k < 2 for k in range(10)]}
    assert codes({"sex": None}) == {}
    for text in ("age < 20 and sex is missing", "age < 20 and `sex` IS MISSING "):
        assert (codes(text), Selection(text, schema).missing) == (codes("age < 20"), ("sex",))
    assert Selection("sex is missing and age is missing", schema).missing == ("age", "sex")


def test_missing_cells_and_how_many_are_such(models):
    model = models[AllPairs]
    asked = Selection({"sex": None, "age": (30, 60)}, SCHEMA)
    blocks = model.sample_blocks(2000, missing_values="keep", where=asked, random_state=0)
    found = pd.concat([block.to_native() for block in blocks])
    assert len(found) == 2000
    assert found.sex.isna().all()
    assert found.age.between(30, 60).all()
    assert asked.share == pytest.approx(0.2 * 31 / 100, abs=0.012)


def test_several_tables_and_the_same_again(models):
    facts = {"where": {"sex": "f"}, "multiple": 2, "random_state": 0}
    first, second = models[MST].sample(50, **facts)
    assert (first.sex == "f").all()
    assert (second.sex == "f").all()
    assert not first.equals(second)
    pd.testing.assert_frame_equal(models[MST].sample(50, **facts)[1], second)


def test_what_hardly_any_row_is_ends_after_a_public_number_of_tries(models, monkeypatch):
    monkeypatch.setattr(sampling, "LEAST_TRIES", 100_000)
    with refuses(ParameterError, r"^of \d+,\d+ rows that the model drew 0 are"):
        models[MST].sample(5, where="age = 3 and age = 4")


def test_bad_requests_are_refused(models):
    for told, *wheres in (
        ("where", "age >"),
        ("'is missing' and 'or'", "age > 3 or sex = 'f' and sex is missing"),
        ("found 'is'", "age > 3 or sex is missing", "not sex is missing"),
        ("no attribute 'pay'", "pay is missing", "pay = 3", {"pay": 3}),
        ("is not a level", {"sex": "x"}, {"sex": 3}),
        ("numeric", {"age": "old"}, {"age": (1, "b")}, {"age": True}),
        ("in text, or a mapping", 7),
        ("missing_values='keep'", "sex is missing"),
    ):
        for where in wheres:
            with refuses(ParameterError, told):
                models[MST].sample(5, where=where)
    with refuses(ParameterError, "must be given with 'where'"):
        models[MST].sample(where="age > 3")
    rule = (Denial("t1&t2&EQ(t1.sex,t2.sex)&IQ(t1.grade,t2.grade)"),)
    schema = Schema(SCHEMA.subset(["sex", "grade"]).attributes, rules=rule)
    model = Kamino(epsilon=5.0, delta=1e-6).fit(rows(200)[["sex", "grade"]], schema=schema)
    with refuses(ParameterError, "fit to each other"):  # and so cannot be asked for
        model.sample(5, where="sex = 'f'")
