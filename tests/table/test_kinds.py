"""Kinds of missing are the same whatever holds the cells, and none of them is ever a number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.schema.attributes import KINDS
from missdp.sources import DuckDBSource
from missdp.table.encode import encode

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
