"""Kinds of missing cells and rules on single rows: one kind of missing, honest observed columns."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Cost, Filter, Guarantee, MissingCompletelyAtRandom
from missdp.errors import DataError
from missdp.ground_truth import FixedRequirements, ground_truth_guarantee
from missdp.schema import Determined, NotApplicable
from missdp.statistics import ObservedOn, RowCounts, open_table
from missdp.statistics.imputed_rows import ImputedCells, ImputedRows
from missdp.statistics.table_rows import TableRows
from missdp.testing import RecordingNoise

PURE = Cost(privacy_measure="pure", amount=1.0)
RULED = Schema(
    (
        Categorical(name="degree", levels=("none", "bachelor"), nullable=True),
        Numeric(name="years", lower=0, upper=20, integer=True, nullable=True),
        Numeric(name="hours", lower=0, upper=99, nullable=True),
        Ordinal(name="age", levels=tuple(range(5)), nullable=True),
    ),
    (
        Determined("years", by="degree", map=(("none", 9), ("bachelor", 13))),
        NotApplicable("hours", unless="degree = 'bachelor'"),
    ),
)


def ruled(size=200):
    """Rows in which years are always missing, and follow from the degree."""
    degrees = ["none", "bachelor"] * (size // 2)
    frame = pd.DataFrame({"degree": degrees, "age": [0, 1, 2, 3] * (size // 4)})
    return Table.read(frame.assign(years=None, hours=[None, 40.0] * (size // 2)), RULED)


def count_of(rows, function, required=(), *, budget=None, **more):
    """Exact numbers of the answer to one count."""
    with RecordingNoise(0) as noise:
        session = open_table(rows, budget=budget or Filter(1e12))
        if required:
            session = session.apply(ObservedOn(required))
        session.measure(RowCounts(function=function, **more), PURE)
    return noise.answers[0].exact


def without_years(rows):
    return ~rows.mask("years")


@pytest.mark.parametrize(
    ("required", "claimed", "read"),
    [
        ({"years"}, None, 200), ({"years", "age"}, {"age"}, 200), ({"hours", "years"}, None, 100),
        ({"degree"}, {"degree"}, 200), ({"age"}, {"age"}, 200),
    ],
)  # fmt: skip
def test_required_attributes_exclude_cells_that_rules_may_fill(required, claimed, read):
    budget = Filter(1e12)
    # Rows are read although years are missing in all of them: no amplification may rest on that.
    assert count_of(ruled(), without_years, required, budget=budget, reads={"years"}) == read
    (event,) = budget.events
    assert event.required == (None if claimed is None else frozenset(claimed))
    seldom = MissingCompletelyAtRandom({"years": 0.1, "hours": 0.1, "age": 0.1, "degree": 0.1})
    guarantee = Guarantee.from_events([event])
    amplified = ground_truth_guarantee(guarantee, seldom, structure=FixedRequirements()).epsilon
    assert (amplified < 0.5) == (claimed is not None)


MAYBE = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        Numeric(name="pay", lower=0, upper=9, nullable=True, not_applicable=(-1,)),
    ),
    (NotApplicable("pay", unless="work = 'yes'"),),
)


def test_only_certainly_applicable_cells_are_filled():
    works = ["yes", "no", "R", None, "yes"] * 4
    table = Table.read(pd.DataFrame({"work": works, "pay": [None] * 20}), MAYBE)
    rows = TableRows.of(table).rows.table
    missing_cell = rows.schema["work"].missing_code
    assert rows.codes("work").tolist() == [1, 0, missing_cell, missing_cell, 1] * 4
    everywhere = ImputedCells(np.arange(20), np.full(20, 3), np.full(20, 3.5))
    cells = ImputedRows(rows, {"pay": everywhere})
    filled = np.array(works) == "yes"
    assert ((cells.codes("pay") == 3) == filled).all()
    assert ((cells.values("pay") == 3.5) == filled).all()


def refusals(rows):
    return rows.codes("age") == rows.schema["age"].missing_code


def test_all_kinds_of_missing_are_one():
    kinds = {"nullable": True, "refused": (-7,), "not_applicable": (-1,)}
    schema = Schema((Ordinal(name="age", levels=(1, 2), **kinds),))
    frame = pd.DataFrame({"age": pd.array([1, -7, -1, None, 2, -7], dtype="Int64")})
    rows = Table.read(frame, schema)
    assert TableRows.of(rows).facts.schema["age"].kinds == ("not_applicable", "missing")
    assert count_of(rows, refusals, reads={"age"}) == 3
    same = Table.read(frame.iloc[[0, 3]], schema)
    assert TableRows.of(ruled()).facts.schema is RULED
    assert same.schema["age"].refused == (-7,)


def to_whom_hours_apply(rows):
    return rows.applies("hours").is_true


def test_to_whom_an_attribute_applies_is_read_if_it_is_named():
    assert count_of(ruled(), to_whom_hours_apply, applies={"hours"}) == 100
    with pytest.raises(DataError):
        count_of(ruled(), to_whom_hours_apply)
