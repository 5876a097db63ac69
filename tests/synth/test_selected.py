"""Rows that are asked for: exactly so many, as the model has them, or one error."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2_contingency, chisquare

from missdp import AIM, MST, AllPairs, Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.baselines import Kamino
from missdp.errors import ParameterError
from missdp.schema import NotApplicable
from missdp.synth import sampling
from missdp.synth.sampling import RowSelection, drawing_limit
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
    return cache(lambda family: models[family].sample_table(300_000, random_state=1))


@pytest.mark.long
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


def p_value(one, two, names):
    """Return the p-value of a chi-square test that two tables have one distribution.

    Cells with few rows are merged.
    """
    counts = pd.concat([t.value_counts(names, dropna=False) for t in (one, two)], axis=1).fillna(0)
    rare = counts.sum(axis=1) < 50
    cells = np.vstack([counts[~rare], counts[rare].sum()])
    return chi2_contingency(cells[cells.sum(axis=1) > 0]).pvalue


def binned(table):
    return table.assign(age=table.age // 5, hours=table.hours // 20)


@pytest.mark.long
@pytest.mark.parametrize("family", [AllPairs, MST, PrivBayes])
@pytest.mark.parametrize(
    ("where", "n"),
    [
        ({"sex": "f", "age": (50, 75)}, 10_000),
        pytest.param({"sex": "m", "hours": (15.0, 17.0)}, 3_000, marks=pytest.mark.slow),
        pytest.param({"sex": "f", "age": (97, 97)}, 1_000, marks=pytest.mark.slow),
    ],
)
def test_rows_have_the_law_of_the_matching_rows_among_many(models, whole, family, where, n):
    asked, many = RowSelection(where, SCHEMA), whole(family)
    matching = RowSelection(where, SCHEMA).of(many)
    among, others = (many.take(np.flatnonzero(f)).to_native() for f in (matching, ~matching))
    blocks = models[family].sample_blocks(n, where=asked, random_state=0)
    drawn = pd.concat([block.to_native() for block in blocks])
    assert len(drawn) == n
    share = matching.mean()
    assert abs(asked.share - share) < 5 * math.sqrt(share / min(asked.drawn, len(many)))
    wrong = pd.concat([drawn[n // 10 :], others[: n // 10]])  # seen, if a tenth does not match
    for names in (["age", "grade"], ["grade", "hours"]):
        assert p_value(binned(drawn), binned(among), names) > 1e-4
    assert p_value(binned(wrong), binned(among), ["age", "grade", "hours"]) < 1e-9


PLAIN = Schema(
    (Numeric(name="x", lower=0, upper=1, bins=10), Categorical(name="c", levels=("a", "b")))
)


class Counting:
    """Draws independent rows, of which the given share or the given places have c = 'b'."""

    def __init__(self, share=0.0, places=()):
        self.share, self.places, self.sizes = share, np.array(places, dtype=int), []

    def __call__(self, n, rng):
        first = sum(self.sizes)
        self.sizes.append(n)
        c = (rng.random(n) < self.share) | np.isin(np.arange(first, first + n), self.places)
        return Table.from_codes(PLAIN, {"x": rng.integers(0, 10, n), "c": c.astype(int)})

    def drawn(self, n, seed=0):
        asked, rng = RowSelection("c = 'b'", PLAIN), np.random.default_rng(seed)
        return Table.concatenate(asked.blocks(self, n, rng, columns=2))


@pytest.mark.parametrize(
    ("share", "n", "least", "most"),
    [
        (1.0, 10, 5_000, 5_000),
        (0.9, 1_000_000, 1_100_000, 1_400_000),
        (0.1, 10_000, 95_000, 130_000),
        (0.004, 1_000, 230_000, 600_000),
        (0.002, 5, 5_000, 15_000),
    ],
)
def test_batches_follow_the_rate_at_which_rows_match(monkeypatch, share, n, least, most):
    monkeypatch.setattr(sampling, "_JOBS", 1)
    draw = Counting(share)
    found = draw.drawn(n)
    assert len(found) == n
    assert found.codes("c").all()
    assert least <= sum(draw.sizes) <= most
    assert max(draw.sizes) <= 200_000  # rows of one block are in memory together
    tenths = np.bincount(found.codes("x"), minlength=10)
    assert chisquare(tenths).pvalue > 1e-4


@pytest.mark.parametrize(
    ("n", "places", "kept", "drawn"),
    [
        (5, [7, 100_000, 999_999], 3, 1_000_000),
        (5, [7, 1_000_000, 1_000_001, 1_000_002, 1_000_003], 1, 1_000_000),
        (1, [], 0, 1_000_000),
        (3_000, range(400), 400, 1_000_000),  # hopeless: 1,200 of the 3,000,000 at most
        (3_000, range(2_000), 2_000, 3_000_000),
    ],
)
def test_a_public_number_of_rows_is_drawn_before_the_error(monkeypatch, n, places, kept, drawn):
    monkeypatch.setattr(sampling, "_JOBS", 1)
    draw = Counting(places=places)
    said = (
        rf"^where: {kept:,} of {drawn:,} rows drawn from the model match the condition, and {n:,} "
        r"matching rows were requested\. Use a wider condition, or request fewer rows\.$"
    )
    with refuses(ParameterError, said):
        draw.drawn(n)
    assert drawn <= drawing_limit(n)
    assert drawn <= sum(draw.sizes) <= drawn + 2 * 200_000  # blocks are drawn ahead


@pytest.mark.parametrize("family", [AllPairs, MST, PrivBayes])
def test_the_limit_is_the_same_for_all_families(models, monkeypatch, family):
    monkeypatch.setattr(sampling, "MIN_LIMIT", 20_000)
    with refuses(ParameterError, r"^where: 0 of 20,000 rows drawn from the model match"):
        models[family].sample(5, where="age = 3 and age = 4")


def test_batches_of_several_blocks_have_the_same_rows_however_they_are_drawn(models, monkeypatch):
    monkeypatch.setattr(sampling, "_ROWS", (2_000, 2_000))
    first = models[PrivBayes].sample(2_000, where="sex = 'f'", random_state=0)
    assert (first.sex == "f").all()
    assert not first.duplicated(["age", "grade", "hours"]).all()
    monkeypatch.setattr(sampling, "batch_capacity", lambda: 0)  # one block at a time
    again = models[PrivBayes].sample(2_000, where="sex = 'f'", random_state=0)
    pd.testing.assert_frame_equal(first, again)


def test_missing_may_be_asked_for_at_the_end_of_a_condition():
    for text in ("age < 20 and sex is missing", "age < 20 and `sex` IS MISSING "):
        assert RowSelection(text, SCHEMA).missing == ("sex",)
    assert RowSelection("sex is missing and hours is missing", SCHEMA).missing == ("hours", "sex")


def test_missing_cells_and_how_many_are_such(models):
    model = models[AllPairs]
    asked = RowSelection({"sex": None, "age": (30, 60)}, SCHEMA)
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


def test_bad_requests_are_refused(models):
    for told, *wheres in (
        ("where", "age >"),
        ("'is missing' cannot be combined with 'or'", "age > 3 or sex = 'f' and sex is missing"),
        ("cannot read 'is", "age > 3 or sex is missing", "not sex is missing"),
        ("no attribute 'pay'", "pay is missing", "pay = 3", {"pay": 3}),
        ("is not a level", {"sex": "x"}, {"sex": 3}),
        ("numeric", {"age": "old"}, {"age": (1, "b")}, {"age": True}),
        ("in text, or a mapping", 7),
        ("missing_values='keep'", "sex is missing"),
    ):
        for where in wheres:
            with refuses(ParameterError, told):
                models[MST].sample(5, where=where)
    with refuses(ParameterError, "where requires n, the number of rows"):
        models[MST].sample(where="age > 3")
    stated = "t1&t2&EQ(t1.sex,t2.sex)&IQ(t1.grade,t2.grade)"
    schema = Schema(SCHEMA.subset(["sex", "grade"]).attributes)
    model = Kamino(epsilon=5.0, delta=1e-6, constraints=stated)
    model.fit(rows(200)[["sex", "grade"]], schema=schema)
    with refuses(ParameterError, "two rows need all rows together"):  # and so cannot be asked for
        model.sample(5, where="sex = 'f'")
