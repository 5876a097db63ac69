"""Tables that differ in a missing cell: the differences in releases of two libraries."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from missing_pairs import differing_facts, missing_pairs

from missdp import AllPairs, Categorical, Numeric, PrivBayes, Schema

PAIRS = missing_pairs()
AGE = {"lower": 18, "upper": 80, "integer": True, "bins": 5, "missing_codes": (-9,)}
SCHEMA = Schema(
    (
        Categorical(name="job", levels=("a", "b", "c"), nullable=True),
        Categorical(name="town", levels=("x", "y"), nullable=True),
        Numeric(name="age", nullable=True, **AGE),
        Numeric(name="score", lower=0, upper=1, bins=4, nullable=True),
        Categorical(name="grade", levels=(1, 2, 3), nullable=True),
    )
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_pairs_differ_in_one_row(pair):
    assert list(pair.one) == list(pair.other)
    assert len(pair.one) == len(pair.other)
    is_missing = pair.one.isna() & pair.other.isna()
    same = ((pair.one == pair.other) | is_missing).all(axis=1)
    assert (~same).sum() == (0 if pair.name == "NaN against null" else 1)
    assert repr(pair.one.iloc[0].tolist()) != repr(pair.other.iloc[0].tolist())


@pytest.fixture
def rng():
    """Random numbers that differ between the releases of a test, and not between its runs."""
    return np.random.default_rng(0)


def leaking(frame, rng):
    """As others do it: a flag for each column with missing cells, and bounds as they are."""
    out = {}
    for name in frame:
        values = frame[name].dropna()
        out[name] = rng.choice(values, 50) if len(values) else np.full(50, np.nan)
        if frame[name].isna().any():
            out[f"{name}_missing"] = rng.integers(0, 2, 50)
    out["age"] = np.append(frame["age"].min(), out["age"][1:].astype(float))
    return pd.DataFrame(out)


@pytest.mark.long
def test_leaking_library_has_differing_facts(rng):
    run = partial(leaking, rng=rng)
    reported = {pair.name: differing_facts(run, pair, repeats=2) for pair in PAIRS}
    assert "job_missing" in reported["the only missing cell"]["columns"][1]
    assert reported["an all-missing column"]["type of town"][0] == "float64"
    assert reported["one missing code"]["lowest age"][1] == -9
    assert not reported["NaN against null"]


def reading_as_text(frame, rng):
    """One missing cell turns a column of integers into decimals, whose text is no level."""
    read = frame.assign(grade=frame["grade"].astype(str))
    reference = read["grade"].where(read["grade"].isin(["1", "2", "3"]), "1")
    rows = read.assign(grade=reference).sample(200, random_state=rng)
    return {"rows of the release": rows, "model": "v1"}


@pytest.mark.long
def test_missing_cell_that_changes_a_column_type_is_reported(rng):
    run = partial(reading_as_text, rng=rng)
    reported = {pair.name: differing_facts(run, pair, repeats=3) for pair in PAIRS}
    assert reported["a missing cell among integers"]["most of grade"] == ("3", "1")
    assert not reported["NaN against null"]


def refusing(frame):
    if frame["job"].isna().any():
        raise ValueError("holes")
    warnings.warn("as usual", stacklevel=2)
    return 3


def test_a_refusal_and_a_warning_are_facts():
    reported = differing_facts(refusing, PAIRS[1])
    assert reported["refusal"] == (None, "ValueError")
    assert reported["warnings"] == (["as usual"], None)
    assert not differing_facts(refusing, PAIRS[0])


def test_random_differences_are_not_reported():
    """A coin that agrees with itself in the first runs by chance, and disagrees later."""
    tosses = iter("xxxyyyxxyxxxxxxyyyyyyyyy")
    assert not differing_facts(lambda frame: {"coin": next(tosses)}, PAIRS[0], repeats=3)
    certain = iter("x" * 3 + "y" * 3 + "x" * 9 + "y" * 9)
    reported = differing_facts(lambda frame: {"coin": next(certain)}, PAIRS[0], repeats=3)
    assert reported == {"coin": ("x", "y")}
    with pytest.raises(ValueError, match="2 or more"):  # one run cannot show which facts vary
        differing_facts(len, PAIRS[0], repeats=1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("family", "missing"),
    [(AllPairs, "joint"), *((PrivBayes, missing) for missing in PrivBayes.family.strategies)],
)
def test_our_releases_have_no_differing_facts(family, missing):
    retained = "keep" if missing == "joint" else "fill"

    def run(frame):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of tables too small, by released counts
            model = family(epsilon=1.0, missing=missing).fit(frame, schema=SCHEMA)
            return model.sample(200, missing_values=retained)

    few = PAIRS[1:2] if family is AllPairs else PAIRS[1::2]  # it takes its time
    some = PAIRS[::2] if (family, missing) == (PrivBayes, "joint") else few
    # With four runs of each table first, and twelve more if a fact differs, a fact that noise
    # decides like a coin toss is reported once in two billion times.
    reported = {pair.name: differing_facts(run, pair, repeats=4) for pair in some}
    assert not any(reported.values()), reported
