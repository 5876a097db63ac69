"""Kinds of missing are the same whatever holds the cells: frames, files, text, numbers, bytes."""

from __future__ import annotations

import decimal
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
ALL = (PAY, WHOLE, GRADE, WORD)

NUMBERS = [5, -9, -7, -8, -1, None, 7]
KINDS_FOUND = [None, "missing", "refused", "unknown", "not_applicable", "missing", None]
TEXT = ["5", "?", ".R", "DK", "n/a", None, "7"]
DECIMALS = [None if x is None else decimal.Decimal(x).scaleb(0) for x in NUMBERS]


def kinds_of(table: Table) -> list[str | None]:
    found: list[str | None] = [None] * len(table)
    for kind in KINDS:
        for row in np.flatnonzero(table.mask("x", kind)):
            found[row] = kind
    return found


def frames(cells: list[Any]) -> dict[str, Any]:
    texts = [None if c is None else str(c) for c in cells]
    found: dict[str, Any] = {
        "objects": pd.DataFrame({"x": pd.Series(cells, dtype=object)}),
        "string": pd.DataFrame({"x": pd.array(texts, dtype="string")}),
        "categories": pd.DataFrame({"x": pd.Categorical(cells)}),
        "bytes": pa.table({"x": [c if c is None else c.encode() for c in texts]}),
        "polars text": pl.DataFrame({"x": texts}),
        "polars categories": pl.DataFrame({"x": pl.Series(texts, dtype=pl.Categorical)}),
        "arrow text": pa.table({"x": pa.array(texts, pa.large_string())}),
        "arrow views": pa.table({"x": pa.array(texts, pa.string_view())}),
        "arrow dictionary": pa.table({"x": pa.array(texts).dictionary_encode()}),
        "arrow chunks": pa.table(
            {"x": pa.chunked_array([pa.array(texts[:3]), pa.array(texts[3:])])}
        ),
        "blanks": pa.table({"x": [c if c is None else f"  {c}\t" for c in texts]}),
    }
    if all(c is None or isinstance(c, int) for c in cells):
        found |= {
            "float": pd.DataFrame({"x": pd.Series(cells, dtype="float64")}),
            "Int64": pd.DataFrame({"x": pd.array(cells, dtype="Int64")}),
            "Float32": pd.DataFrame({"x": pd.array(cells, dtype="Float32")}),
            "arrow-backed": pd.DataFrame({"x": pd.array(cells, dtype="int8[pyarrow]")}),
            "polars": pl.DataFrame({"x": cells}),
            "int8": pa.table({"x": pa.array(cells, pa.int8())}),
            "decimal": pa.table({"x": pa.array(DECIMALS, pa.decimal128(9, 3))}),
            "dictionary of numbers": pa.table({"x": pa.array(cells).dictionary_encode()}),
            "with decimals": pa.table({"x": [c if c is None else f"{c}.0" for c in texts]}),
            "with exponents": pa.table({"x": [c if c is None else f"{c}e0" for c in texts]}),
        }
    return found


@pytest.mark.parametrize("attribute", ALL, ids=["real", "whole", "levels", "text"])
@pytest.mark.parametrize("cells", [NUMBERS, TEXT], ids=["numbers", "words"])
def test_every_container_file_and_stream_gives_the_same_kinds(
    attribute: Any, cells: list[Any], tmp_path: Path
) -> None:
    schema = Schema((attribute,))
    texts = ["" if c is None else str(c) for c in cells]
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(texts) + "\n")
    pq.write_table(pa.table({"x": cells}), tmp_path / "x.parquet")
    streams = {
        "csv": tmp_path / "x.csv",
        "parquet": tmp_path / "x.parquet",
        "relation": duckdb.sql(f"FROM '{tmp_path / 'x.parquet'}'"),
    }
    for name, data in (frames(cells) | streams).items():
        table = Table.read(data, schema)
        assert kinds_of(table) == KINDS_FOUND, name
        if name in streams:
            streamed = DuckDBSource(data, schema).counts([("x",)], rows="extended")
            counts = np.bincount(table.codes("x"), minlength=attribute.extended_size)
            assert streamed[("x",)].tolist() == counts.tolist()


def test_what_is_under_a_kind_is_never_a_number_that_could_be_summed() -> None:
    for attribute in (PAY, WHOLE):
        table = Table.read(pa.table({"x": NUMBERS}), Schema((attribute,)))
        assert table.values("x").tolist() == [5.0, 0.0, 0.0, 0.0, 0.0, 0.0, 7.0]


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
    assert seen == [3]
    seen.clear()
    encode(PAY, pa.array(np.arange(9000.0)))
    assert seen == []
