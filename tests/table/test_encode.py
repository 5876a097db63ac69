"""Every kind of missing and every kind of column becomes the same codes and mask."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError
from missdp.schema.attributes import KINDS
from missdp.sources import DuckDBSource
from missdp.table.encode import encode

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


SAID, DAY, SHARE = "secret-value", dt.date(1977, 7, 7), Numeric(name="x", lower=0, upper=1)
WRONG = [
    (COLOUR, [SAID], [DAY], [[SAID]]),
    (AGE, [123456], [float("inf")], [0.123456], [SAID], [True], [DAY]),
    (FLAG, [SAID], [123456]),
    (GRADE, [123456], [9.123456], [True]),
    (SHARE, [SAID], [b"\xffsecret"]),
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


# -- kinds of missing ----------------------------------------------------------------------------

KINDS_OF: dict[str, Any] = {
    "nullable": True,
    "missing_codes": (-9, "?"),
    "refused": (-7.0, ".R"),
    "unknown": ("DK", -8),
    "not_asked": (),
    "not_applicable": (-1, "n/a"),
    "outside": "missing",
}
PAY = Numeric(name="x", lower=0, upper=100, **KINDS_OF)
WHOLE = Numeric(name="x", lower=0, upper=100, integer=True, **KINDS_OF)
GRADE = Ordinal(name="x", levels=(5, 6, 7), **KINDS_OF)
WORD = Categorical(name="x", levels=("5", "6", "7"), **KINDS_OF)
NUMBERS = [5, -9, -7, -8, -1, None, 7]
TEXT = ["5", "?", ".R", "DK", "n/a", None, "7"]
FOUND = [None, "missing", "refused", "unknown", "not_applicable", "missing", None]


def kinds_of(table: Table) -> list[str | None]:
    found: list[str | None] = [None] * len(table)
    for kind in KINDS:
        for row in np.flatnonzero(table.mask("x", kind)):
            found[row] = kind
    return found


@pytest.mark.parametrize(
    "attribute", [PAY, WHOLE, GRADE, WORD], ids=["real", "whole", "ord", "cat"]
)
@pytest.mark.parametrize("cells", [NUMBERS, TEXT], ids=["numbers", "words"])
def test_every_container_and_stream_gives_the_same_kinds(
    attribute: Any, cells: list[Any], tmp_path: Path
) -> None:
    schema, texts = Schema((attribute,)), [None if c is None else f"  {c}\t" for c in cells]
    (tmp_path / "x.csv").write_text("x\n" + "".join(f"{t or ''}\n" for t in texts))
    pq.write_table(pa.table({"x": cells}), tmp_path / "x.parquet")
    streams = [tmp_path / "x.csv", tmp_path / "x.parquet"]
    streams.append(duckdb.sql(f"FROM '{tmp_path / 'x.parquet'}'"))
    frames = [pd.DataFrame({"x": made(cells)}) for made in (pd.Categorical, pd.Series)]
    frames += [pl.DataFrame({"x": pl.Series(texts, dtype=pl.Categorical)})]
    frames += [pa.table({"x": pa.chunked_array([pa.array(texts[:3]), pa.array(texts[3:])])})]
    for data in (*streams, *frames):
        table = Table.read(data, schema)
        assert kinds_of(table) == FOUND
        if isinstance(attribute, Numeric):  # nothing that could be summed is under a kind
            assert table.values("x").tolist() == [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 7.0]
        if isinstance(data, Path | duckdb.DuckDBPyRelation):
            streamed = DuckDBSource(data, schema).counts([("x",)], rows="extended")
            counts = np.bincount(table.codes("x"), minlength=attribute.extended_size)
            assert streamed[("x",)].tolist() == counts.tolist()


def test_clamping_makes_no_number_of_a_code_and_no_kind_of_garbage() -> None:
    facts = KINDS_OF | {"outside": "clamp"}
    hours = Numeric(name="x", lower=0, upper=100, integer=True, **facts)
    cells = pa.table({"x": ["-7", "-6", "1e9", "junk", "", "n/a"]})
    assert kinds_of(Table.read(cells, Schema((hours,)))) == [
        "refused", None, None, "missing", "missing", "not_applicable"]  # fmt: skip
    sure = Numeric(name="x", lower=0, upper=100, not_applicable=(-1,), outside="clamp")
    cells = pa.table({"x": ["-1", "junk", "", "3"]})
    assert kinds_of(Table.read(cells, Schema((sure,)))) == [
        "not_applicable", None, "not_applicable", None]  # fmt: skip


def test_a_column_of_text_is_looked_at_only_where_there_is_no_number(monkeypatch: Any) -> None:
    """A column of many different numbers is not told apart text by text."""
    import missdp.table.cells as module

    seen: list[int] = []
    found = module.distinct
    monkeypatch.setattr(module, "distinct", lambda chunk: seen.append(len(chunk)) or found(chunk))
    encode(PAY, pa.array([f"{i / 100}" for i in range(9000)] + [".R"] * 3))
    encode(PAY, pa.array(np.arange(9000.0)))
    assert seen == [3]
