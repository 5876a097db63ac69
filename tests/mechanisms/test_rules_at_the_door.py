"""Kinds of missing and rules at the door to rows: one kind of hole, gates that claim no more."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.accounting import Budget, Cost, Guarantee, MissingCompletelyAtRandom
from missdp.errors import DataError
from missdp.ground_truth import FixedGates, ground_truth_guarantee
from missdp.mechanisms import Counts, Filled, Preparation, Prepared, RowDoor, Witness, row_door
from missdp.schema import Determined, NotApplicable

PURE = Cost(currency="pure", amount=1.0)
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


class Exact(Witness):
    def answer(self, event, law, exact):
        return exact()


def opened(rows):
    return RowDoor(rows, budget=Budget(1e12), random_state=Exact(0))


def count_of(door, function, gate=(), **more):
    asked = Counts(function=function, **more)
    return door.ask(asked, PURE, label="x", gate=frozenset(gate)).value


def without_years(rows):
    return ~rows.mask("years")


@pytest.mark.parametrize(
    ("gate", "claimed", "read"),
    [
        ({"years"}, None, 200), ({"years", "age"}, {"age"}, 200), ({"hours", "years"}, None, 100),
        ({"degree"}, {"degree"}, 200), ({"age"}, {"age"}, 200),
    ],
)  # fmt: skip
def test_a_gate_claims_nothing_of_cells_that_rules_may_have_filled(gate, claimed, read):
    door = opened(ruled())
    # Rows are read although years are missing in all of them: no amplification may rest on that.
    assert count_of(door, without_years, gate, reads={"years"}) == read
    (event,) = door.budget.events
    assert event.gate == (None if claimed is None else frozenset(claimed))
    seldom = MissingCompletelyAtRandom({"years": 0.1, "hours": 0.1, "age": 0.1, "degree": 0.1})
    guarantee = Guarantee.from_events([event])
    amplified = ground_truth_guarantee(guarantee, seldom, structure=FixedGates()).epsilon
    assert (amplified < 0.5) == (claimed is not None)


MAYBE = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), nullable=True, refused=("R",)),
        Numeric(name="pay", lower=0, upper=9, nullable=True, not_applicable=(-1,)),
    ),
    (NotApplicable("pay", unless="work = 'yes'"),),
)


def everywhere(rows, draws):
    size = len(rows)
    return Prepared({"pay": Filled(np.arange(size), np.full(size, 3), np.full(size, 3.5))})


@pytest.mark.parametrize("at_once", [1, 3, 4, 2**20])
def test_only_what_surely_applies_is_filled_however_many_rows_are_looked_at(at_once, monkeypatch):
    monkeypatch.setattr(row_door, "PART_ROWS", at_once)
    works = ["yes", "no", "R", None, "yes"] * 4
    table = Table.read(pd.DataFrame({"work": works, "pay": [None] * 20}), MAYBE)
    rows = row_door._with_one_kind_of_hole(table)
    hole = rows.schema["work"].missing_code
    assert rows.codes("work").tolist() == [1, 0, hole, hole, 1] * 4
    how = Preparation(function=everywhere, reads=frozenset())
    cells = row_door._PrivateRows(rows, how, Exact(0)).cells
    filled = np.array(works) == "yes"
    assert ((cells.codes("pay") == 3) == filled).all()
    assert ((cells.values("pay") == 3.5) == filled).all()


def refusals(rows):
    return rows.codes("age") == rows.schema["age"].missing_code


def test_behind_the_door_all_kinds_of_holes_are_one():
    kinds = {"nullable": True, "refused": (-7,), "not_applicable": (-1,)}
    schema = Schema((Ordinal(name="age", levels=(1, 2), **kinds),))
    frame = pd.DataFrame({"age": pd.array([1, -7, -1, None, 2, -7], dtype="Int64")})
    door = opened(Table.read(frame, schema))
    assert door.schema["age"].kinds == ("not_applicable", "missing")
    assert count_of(door, refusals, reads={"age"}) == 3
    same = Table.read(frame.iloc[[0, 3]], schema)
    assert opened(ruled()).schema is RULED
    assert same.schema["age"].refused == (-7,)


def to_whom_hours_apply(rows):
    return rows.applies("hours")[0]


def test_to_whom_an_attribute_applies_is_read_if_it_is_named():
    assert count_of(opened(ruled()), to_whom_hours_apply, applies={"hours"}) == 100
    with pytest.raises(DataError):
        count_of(opened(ruled()), to_whom_hours_apply)
