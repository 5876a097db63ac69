"""Every kind of missing and every kind of column becomes the same codes and mask."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Schema, Table
from missdp.errors import DataError

COLOUR = Categorical(name="farbe", levels=("röt", "grün"), nullable=True, missing_codes=("?",))
AGE = Numeric(
    name="age", lower=0, upper=99, integer=True, nullable=True, missing_codes=(-9, "k.A.")
)
FLAG = Categorical(name="flag", levels=(False, True), nullable=True)
GRADE = Categorical(name="grade", levels=(9, 10), nullable=True)


def read(attribute, column):
    return Table.read(pa.table({attribute.name: column}), Schema((attribute,)))


def codes(attribute, column):
    return read(attribute, column).codes(attribute.name).tolist()


def test_an_all_missing_column_an_empty_table_and_one_row():
    assert codes(COLOUR, pa.nulls(2)) == [2, 2]
    assert codes(AGE, pa.nulls(2)) == [10, 10]
    assert len(read(COLOUR, pa.array([], pa.string()))) == 0
    assert codes(AGE, pa.array([99])) == [9]


TEXT, DAY, SHARE = "secret-value", dt.date(1977, 7, 7), Numeric(name="x", lower=0, upper=1)
WRONG = [
    (COLOUR, [TEXT], [DAY], [[TEXT]]),
    (AGE, [123456], [float("inf")], [0.123456], [TEXT], [True], [DAY]),
    (FLAG, [TEXT], [123456]),
    (GRADE, [123456], [9.123456], [True]),
    (SHARE, [TEXT], [b"\xffsecret"]),
    (SHARE, [0.5, None], [0.5, float("nan")]),
    (Categorical(name="x", levels=("a",)), ["a", None]),
]


@pytest.mark.parametrize("case", WRONG)
def test_a_refusal_is_typed_quotes_nothing_and_does_not_tell_how_many(case):
    attribute, *columns = case
    texts = set()
    for cells in (cells * times for cells in columns for times in (1, 7)):
        with pytest.raises(DataError, match=attribute.name) as caught:
            read(attribute, pa.array(cells))
        texts.add(str(caught.value))
        # A traceback prints the causes as well: Arrow's own message may quote the cell.
        assert caught.value.__cause__ is caught.value.__context__ is None
    assert len(texts) == 1
    assert not [s for s in ("secret", "123456", "1977", "7.7") if s in min(texts)]


class Unreadable(float):
    """A number that does not say which."""

    def __float__(self):
        raise RuntimeError


class Unclassed:
    """A cell that tells what it holds if it is asked what it is."""

    @property
    def __class__(self):
        raise RuntimeError("140")


def released_view():
    view = memoryview(b"5")
    view.release()
    return view


@pytest.mark.parametrize("odd", [lambda: Unreadable(5.0), released_view, Unclassed])
def test_no_cell_makes_a_table_raise_that_has_a_policy_for_all_cells(odd):
    cells = np.array([5.0, odd(), 7.0], dtype=object)
    for policy in ("missing", "clamp"):
        frame, total = pd.DataFrame({"age": cells}), replace(AGE, outside=policy)
        table = Table.read(frame, Schema((total,)))
        assert table.values("age")[[0, 2]].tolist() == [5.0, 7.0]
        assert table.mask("age").tolist() == [False, True, False]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))))
def test_no_nan_or_infinity_survives_the_door(cells):
    attribute = Numeric(name="x", lower=-1, upper=1, nullable=True, outside="clamp")
    table = read(attribute, pa.array(cells, pa.float64()))
    assert np.all(np.isfinite(table.values("x")))
    assert np.all(np.abs(table.values("x")) <= 1)
    expected = [c is None or np.isnan(c) for c in cells]
    assert table.mask("x").tolist() == expected


def test_code_width_leaves_room_for_missing():
    levels = tuple(f"l{i}" for i in range(256))
    wide = Categorical(name="x", levels=levels, nullable=True)
    table = read(wide, pa.array(["l255", None]))
    assert table.codes("x").tolist() == [255, 256]
    narrow = Categorical(name="x", levels=levels[:255], nullable=True)
    assert read(narrow, pa.array(["l254", None])).mask("x").tolist() == [False, True]
