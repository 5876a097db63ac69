"""Simulators and public facts about rows: where there is nothing to lose, nothing goes missing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.evaluate import (
    MAR,
    MCAR,
    MNAR,
    DeclaredMechanism,
    SelfMasking,
    missing_mask,
    missing_patterns,
)
from missdp.schema import Determined, NotApplicable

SCHEMA = Schema(
    (
        Categorical(name="work", levels=("no", "yes")),
        Ordinal(name="degree", levels=("none", "school", "college")),
        Numeric(name="years", lower=0, upper=20, integer=True),
        Numeric(name="hours", lower=0, upper=80, not_applicable=(-1,)),
        Ordinal(name="shift", levels=(1, 2, 3), not_applicable=("none",)),
    ),
    (
        NotApplicable("hours", unless="work = 'yes'"),
        Determined("years", by="degree", map=(("none", 6), ("school", 12), ("college", 16))),
    ),
)
SIZE = 3000


def survey(size: int = SIZE) -> Table:
    rng = np.random.default_rng(0)
    work, degree = rng.integers(0, 2, size), rng.integers(0, 3, size)
    frame = pd.DataFrame(
        {
            "work": np.array(["no", "yes"])[work],
            "degree": np.array(["none", "school", "college"])[degree],
            "years": np.array([6, 12, 16])[degree],
            "hours": rng.uniform(10, 50, size),
            "shift": np.where(rng.random(size) < 0.2, "none", rng.integers(1, 4, size).astype(str)),
        }
    )
    return Table.read(frame, SCHEMA)


TABLE = survey()
MECHANISMS = {
    "MCAR": MCAR(rate=0.3),
    "MCAR exact": MCAR(rate=0.3, rates="exact"),
    "MAR": MAR(rate=0.3, drivers=("work", "degree")),
    "MAR by what may not apply": MAR(rate=0.3, drivers=("hours", "shift"), rates="exact"),
    "MNAR": MNAR(rate=0.3, model="all-columns"),
    "MNAR hidden": MNAR(rate=0.3, drivers=("hours", "years")),
    "self-masking": SelfMasking(rate=0.3),
    "declared": DeclaredMechanism(
        intercepts={"hours": -1.0, "degree": -1.0, "shift": -1.0},
        weights={"degree": {"hours": -2.0}, "shift": {"shift": 1.0}},
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_what_is_not_applicable_never_goes_missing(name):
    holed = MECHANISMS[name].apply(TABLE, random_state=1)
    chances = MECHANISMS[name].probabilities(TABLE, random_state=1)
    for column in ("hours", "shift"):
        absent = TABLE.mask(column)
        assert absent.any()
        assert (holed.mask(column, "not_applicable") == absent).all()
        if column in chances:
            assert not chances[column][absent].any()
            lost = missing_mask(holed)[:, SCHEMA.names.index(column)]
            assert lost.any()
            if "declared" not in name:  # rates are shares of the cells that can go missing
                width = 1e-3 if "exact" in name or "by what" in name else 0.05
                assert lost[~absent].mean() == pytest.approx(0.3, abs=width)


@pytest.mark.parametrize("name", MECHANISMS)
def test_holes_are_those_of_whoever_reads_the_table(name):
    holed = MECHANISMS[name].apply(TABLE, random_state=1)
    assert holed.schema.rules == SCHEMA.rules
    lost = pd.DataFrame(missing_mask(holed), columns=list(SCHEMA.names))
    # Years follow from a degree that is left.
    assert not (lost["years"] & ~lost["degree"]).any()
    frame = holed.to_native("pandas")
    for column, code in (("shift", "none"), ("hours", "-1")):
        frame[column] = frame[column].astype("string")
        frame.loc[holed.mask(column, "not_applicable"), column] = code
        frame.loc[holed.mask(column, "missing"), column] = None
    again = Table.read(frame.astype("string"), holed.schema)
    for column in SCHEMA.names:
        np.testing.assert_array_equal(again.codes(column), holed.codes(column))


def test_what_follows_from_holes_is_nullable_too():
    holed = MCAR(rate={"degree": 0.5}).apply(TABLE, random_state=0)
    assert holed.schema.nullable == ("degree", "years")
    assert not holed.mask("years").any()
    both = MCAR(rate={"degree": 0.5, "years": 0.5}).apply(TABLE, random_state=0)
    lost = both.mask("degree") & both.mask("years")
    assert lost.any()
    assert (both.mask("years") == lost).all()
    assert (both.values("years")[~lost] == TABLE.values("years")[~lost]).all()


def test_no_bound_is_claimed_of_what_may_be_known_without_a_value():
    claimed = MCAR(rate=0.3).observed(SCHEMA)
    assert claimed == {"work": 0.7, "degree": 0.7, "years": 1.0, "hours": 1.0, "shift": 1.0}
    declared = DeclaredMechanism(
        intercepts={"degree": 0.0, "work": 0.0, "hours": 5.0},
        weights={"degree": {"shift": {1: 2.0, 2: 3.0, 3: 4.0}}},
    )
    bounds = declared.observed_at_most(SCHEMA)
    assert bounds == {"degree": 0.5, "work": 0.5, "years": 1.0, "hours": 1.0, "shift": 1.0}
    seen = 1 - np.array(declared.probabilities(TABLE, random_state=0)["degree"])
    assert seen.max() == pytest.approx(0.5)  # a shift that is not applicable weighs 0


def test_not_applicable_is_not_missing():
    assert not missing_mask(TABLE).any()
    assert missing_patterns(TABLE) == {(): SIZE}
    kinds = Schema((Ordinal(name="a", levels=(1, 2), nullable=True, refused=(-7,)),))
    frame = pd.DataFrame({"a": pd.array([1, -7, None], dtype="Int64")})
    assert missing_mask(Table.read(frame, kinds)).ravel().tolist() == [False, True, True]


def test_an_attribute_that_applies_to_nobody():
    table = TABLE.take(TABLE.codes("work") == 0)
    for mechanism in MECHANISMS.values():
        holed = mechanism.apply(table, random_state=0)
        assert holed.mask("hours", "not_applicable").all()
