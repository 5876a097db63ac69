"""Row locality: what a row becomes is a function of that row and of public facts alone.

Without it no guarantee holds: one person's cell would move other persons' bins.
"""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import decimal
import fractions
import struct
import uuid
from collections.abc import Callable
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
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError
from missdp.sources import DuckDBSource
from missdp.table import memory_limit
from missdp.table.encode import encode

D = decimal.Decimal
TEXT = ("7", "007", "0.1", "2020-01-01", "a", "true", "1e3")
LOOSE = {"nullable": True, "outside": "missing"}
TOTAL = Schema(
    (
        Numeric(name="share", lower=0, upper=1, nullable=True, outside="clamp"),
        Numeric(name="count", lower=0, upper=100, integer=True, bins=5, outside="clamp"),
        Numeric(name="age", lower=0, upper=99, integer=True, missing_codes=(-9, "k.A."), **LOOSE),
        Categorical(name="whole", levels=(1, 7, 10), missing_codes=("?", 99), **LOOSE),
        Ordinal(name="text", levels=TEXT, missing_codes=("n/a", -9), **LOOSE),
        Categorical(name="flag", levels=(False, True), missing_codes=("?", 9), **LOOSE),
        Numeric(
            name="pay", lower=1, upper=90, refused=(-9, "a"), not_applicable=("n/a", 99), **LOOSE
        ),
        Ordinal(name="kinds", levels=("7", "b"), unknown=(-9, "a"), not_applicable=(99,), **LOOSE),
    )
)
STRICT = Schema(tuple(replace(a, outside="error", nullable=True) for a in TOTAL.attributes))


def read(data: Any, schema: Schema = TOTAL) -> list[list[Any]]:
    """Codes, masks and values of every attribute, a list per row."""
    table = Table.read(data, schema)
    columns = [table.codes(n) for n in schema.names] + [table.mask(n) for n in schema.names]
    columns += [table.values(a.name) for a in schema if isinstance(a, Numeric)]
    return [[cell.tobytes() for cell in row] for row in zip(*columns, strict=True)]


# -- cells ---------------------------------------------------------------------------------------

finite = st.floats(allow_nan=False, allow_infinity=False)
nans = st.integers(1, 2**51).map(
    lambda i: struct.unpack("<d", struct.pack("<Q", 0x7FF8 << 48 | i))[0]
)
floats = st.one_of(
    st.sampled_from([0.0, -0.0, 0.1, 0.5, 1.0, 7.0, 99.0, -9.0, 2.5, float("inf"), float("-inf")]),
    finite,
    nans,
)
ints = st.one_of(st.integers(-10, 110), st.sampled_from([2**53 + 1, -(2**62), 2**62]))
huge = st.one_of(ints, st.sampled_from([2**63, 2**64, 10**400, -(10**400)]))
decimals = st.one_of(
    st.sampled_from(
        [D("0.1"), D("7"), D("-9.0"), D("1E+20"), D("0.12345678901234567890123"), D("1E-20")]
    ),
    st.decimals(allow_nan=False, allow_infinity=False, places=5, min_value=-1000, max_value=1000),
)
odd_decimals = st.one_of(
    decimals, st.sampled_from([D("NaN"), D("sNaN"), D("Infinity"), D("1E+9999")])
)
words = ["", " ", " 7 ", "\u0661", "1" * 400]
words += ["7", "007", "7.0", "0.1", "a", "A", "?", "n/a", "k.A.", "-9", "-9.0", "nan", "NaN"]
words += ["inf", "True", "true", "FALSE", "1", "0", "1e3", "1000", "1_0", "0x7", "2020-01-01"]
words += ["1e999", "+1", ".5", "5.", "1.", "0.10000000000000000001", "None"]
LONG = ["7" + " " * 4095, "7" + " " * 4096, "\u2003" * 4095 + "7", "\u2003" * 4096 + "7"]
words += LONG
good_text = st.one_of(
    st.sampled_from(words), st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
)
text = st.one_of(good_text, st.sampled_from(["\ud800", "a\udfff", "\0"]))
dates = st.one_of(st.just(dt.date(2020, 1, 1)), st.dates())
moments = st.one_of(st.just(dt.datetime(2020, 1, 1)), st.datetimes(), st.just(dt.datetime(1, 1, 1)))
zoned = moments.map(lambda m: m.replace(tzinfo=dt.UTC))
raw = st.one_of(st.binary(max_size=4), st.sampled_from([b"7", b"a", b"0.1", b"\xff"]))
nothing = st.none()


def opt(*cells: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(nothing, *cells)


strange = st.one_of(
    st.sampled_from([pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), np.nan, 1j]),
    st.sampled_from([[1], [[1], [2]], {"a": 1}, (1, 2), dt.time(1), dt.timedelta(1), object()]),
    st.sampled_from([np.float32(0.1), np.int8(7), np.bool_(True), np.str_("a"), np.array([1, 2])]),
    st.sampled_from(
        [np.datetime64("2020-01-01"), np.datetime64(2**40, "Y"), np.timedelta64(7, "D")]
    ),
    st.sampled_from([pd.Timestamp("2020-01-01"), pd.Timestamp("2020-01-01", tz="UTC")]),
    st.sampled_from(
        [fractions.Fraction(1, 3), uuid.UUID(int=7), bytearray(b"a"), pd.Period("2020")]
    ),
)
anything = st.one_of(
    nothing, floats, huge, odd_decimals, text, dates, moments, zoned, raw, strange, st.booleans()
)
inferred = st.one_of(nothing, floats, ints, decimals, good_text, dates, moments, st.booleans())

# -- containers ----------------------------------------------------------------------------------

ENGINE = duckdb.connect()
Maker = Callable[[list[Any], Path], Any]


def objects(cells: list[Any]) -> np.ndarray:
    return np.fromiter(cells, dtype=object, count=len(cells))


def pandas_of(dtype: Any) -> Maker:
    return lambda cells, _: pd.DataFrame(
        {
            n: pd.Series(objects(cells) if dtype is object else cells, dtype=dtype)
            for n in TOTAL.names
        }
    )


def pandas_guessed(cells: list[Any], _: Path) -> Any:
    return pd.DataFrame(dict.fromkeys(TOTAL.names, cells), columns=list(TOTAL.names))


def arrow_of(kind: pa.DataType | None) -> Maker:
    def make(cells: list[Any], _: Path) -> Any:
        array = pa.array(cells, kind)
        return pa.table(dict.fromkeys(TOTAL.names, array))

    return make


def arrow_coded(cells: list[Any], _: Path) -> Any:
    return pa.table({n: pa.array(cells, pa.string()).dictionary_encode() for n in TOTAL.names})


def arrow_broken_text(cells: list[bytes], _: Path) -> Any:
    array = pa.array(cells, pa.binary())
    text = pa.Array.from_buffers(pa.string(), len(array), array.buffers())
    return pa.table(dict.fromkeys(TOTAL.names, text))


def parquet_of(kind: pa.DataType) -> Maker:
    def make(cells: list[Any], folder: Path) -> Any:
        pq.write_table(arrow_of(kind)(cells, folder), folder / "x.parquet")
        return folder / "x.parquet"

    return make


def duckdb_of(kind: pa.DataType, sql: str) -> Maker:
    def make(cells: list[Any], folder: Path) -> Any:
        table = arrow_of(kind)(cells, folder)
        connection = ENGINE.cursor()
        connection.register("rows", table)
        terms = ", ".join(f'CAST("{n}" AS {sql}) AS "{n}"' for n in TOTAL.names)
        return connection.sql(f"SELECT {terms} FROM rows")

    return make


def polars_of(dtype: Any) -> Maker:
    return lambda cells, _: pl.DataFrame({n: pl.Series(cells, dtype=dtype) for n in TOTAL.names})


def csv_of(name: str) -> Maker:
    def make(cells: list[Any], folder: Path) -> Any:
        with open(folder / name, "w", newline="", encoding="utf-8", errors="surrogateescape") as f:
            writer = csv.writer(f, delimiter="\t" if name.endswith("tsv") else ",")
            writer.writerow(TOTAL.names)
            writer.writerows([cell] * len(TOTAL) for cell in cells)
        return folder / name

    return make


broken = st.binary(max_size=4).map(lambda b: b.decode("utf-8", "surrogateescape"))
long_decimals = st.decimals(-(10**15), 10**15, places=10)
KINDS: dict[str, tuple[st.SearchStrategy[Any], Maker]] = {
    "pandas-object": (anything, pandas_of(object)),
    "pandas-guessed": (inferred, pandas_guessed),
    "pandas-float": (opt(floats), pandas_of("float64")),
    "pandas-Int64": (opt(ints), pandas_of("Int64")),
    "pandas-Float32": (opt(st.floats(width=32)), pandas_of("Float32")),
    "pandas-boolean": (opt(st.booleans()), pandas_of("boolean")),
    "pandas-string": (opt(good_text), pandas_of("string")),
    "pandas-string-python": (opt(text), pandas_of(pd.StringDtype("python"))),
    "pandas-category": (opt(ints, finite, good_text, dates), pandas_of("category")),
    "pandas-datetime": (
        opt(st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)), moments),
        pandas_of("datetime64[us]"),
    ),
    "pandas-arrow": (opt(long_decimals), pandas_of(pd.ArrowDtype(pa.decimal128(38, 10)))),
    "pandas-complex": (st.one_of(floats, st.just(1j)), pandas_of("complex128")),
    "pandas-sparse": (floats, pandas_of(pd.SparseDtype("float64"))),
    "polars-f32": (opt(st.floats(width=32)), polars_of(pl.Float32)),
    "polars-int": (opt(ints), polars_of(pl.Int64)),
    "polars-int128": (opt(st.integers(-(2**100), 2**100), ints), polars_of(pl.Int128)),
    "polars-text": (opt(good_text), polars_of(pl.String)),
    "polars-categorical": (opt(good_text), polars_of(pl.Categorical)),
    "polars-enum": (opt(st.sampled_from(words)), polars_of(pl.Enum(words))),
    "polars-decimal": (opt(long_decimals), polars_of(pl.Decimal(38, 10))),
    "polars-date": (opt(dates), polars_of(pl.Date)),
    "polars-datetime": (opt(moments), polars_of(pl.Datetime("us"))),
    "polars-binary": (opt(raw), polars_of(pl.Binary)),
    "polars-list": (opt(st.lists(st.integers(0, 9), max_size=2)), polars_of(pl.List(pl.Int64))),
    "polars-object": (
        st.one_of(floats, ints, decimals, good_text, raw, dates),
        polars_of(pl.Object),
    ),
    "arrow-guessed-decimal": (opt(decimals), arrow_of(None)),
    "arrow-int": (opt(ints), arrow_of(pa.int64())),
    "arrow-uint64": (opt(st.integers(0, 2**64 - 1), st.integers(0, 100)), arrow_of(pa.uint64())),
    "arrow-half": (opt(st.floats(width=16)), arrow_of(pa.float16())),
    "arrow-double": (opt(floats), arrow_of(pa.float64())),
    "arrow-text": (opt(good_text), arrow_of(pa.string())),
    "arrow-large-text": (opt(good_text), arrow_of(pa.large_string())),
    "arrow-text-view": (opt(good_text), arrow_of(pa.string_view())),
    "arrow-broken-text": (opt(raw), arrow_broken_text),
    "arrow-coded": (opt(good_text), arrow_coded),
    "arrow-binary": (opt(raw), arrow_of(pa.large_binary())),
    "arrow-binary-view": (opt(raw), arrow_of(pa.binary_view())),
    "arrow-fixed": (opt(st.binary(min_size=1, max_size=1)), arrow_of(pa.binary(1))),
    "arrow-decimal32": (opt(st.decimals(-99, 99, places=3)), arrow_of(pa.decimal32(9, 3))),
    "arrow-decimal256": (opt(long_decimals), arrow_of(pa.decimal256(70, 30))),
    "arrow-date": (opt(dates), arrow_of(pa.date32())),
    "arrow-timestamp": (opt(moments, st.integers(-(2**62), 2**62)), arrow_of(pa.timestamp("s"))),
    "arrow-timestamp-ns": (
        opt(st.integers(-(2**62), 2**62), st.just(1577836800 * 10**9)),
        arrow_of(pa.timestamp("ns")),
    ),
    "arrow-zoned": (opt(moments), arrow_of(pa.timestamp("us", "Europe/Paris"))),
    "arrow-time": (opt(st.times()), arrow_of(pa.time64("us"))),
    "arrow-duration": (opt(st.integers(0, 9)), arrow_of(pa.duration("s"))),
    "arrow-bool": (opt(st.booleans()), arrow_of(pa.bool_())),
    "arrow-list": (opt(st.lists(st.integers(0, 9), max_size=2)), arrow_of(pa.list_(pa.int64()))),
    "arrow-struct": (opt(st.just({"a": 1})), arrow_of(pa.struct([("a", pa.int64())]))),
    "arrow-null": (nothing, arrow_of(pa.null())),
    "csv": (st.one_of(good_text, broken, ints, floats, decimals), csv_of("x.csv")),
    "tsv": (st.one_of(good_text, broken), csv_of("x.tsv")),
    "parquet-decimal": (opt(long_decimals), parquet_of(pa.decimal128(38, 15))),
    "parquet-text": (opt(good_text), parquet_of(pa.string())),
    "duckdb-decimal": (
        opt(st.decimals(-999, 999, places=5)),
        duckdb_of(pa.decimal128(38, 5), "DECIMAL(12,5)"),
    ),
    "duckdb-hugeint": (
        opt(st.sampled_from(["7", "1", str(2**127 - 1), str(2**53 + 1)])),
        duckdb_of(pa.string(), "HUGEINT"),
    ),
    "duckdb-uhugeint": (
        opt(st.sampled_from(["7", "1", str(2**128 - 1)])),
        duckdb_of(pa.string(), "UHUGEINT"),
    ),
    "duckdb-date": (
        opt(st.sampled_from(["2020-01-01", "infinity", "0044-03-15 (BC)"])),
        duckdb_of(pa.string(), "DATE"),
    ),
    "duckdb-interval": (
        opt(st.sampled_from(["1 day", "2 years"])),
        duckdb_of(pa.string(), "INTERVAL"),
    ),
    "duckdb-list": (
        opt(st.lists(st.integers(0, 9), max_size=2)),
        duckdb_of(pa.list_(pa.int64()), "INTEGER[]"),
    ),
    "duckdb-text": (
        opt(good_text.filter(lambda t: "\0" not in t)),
        duckdb_of(pa.string(), "VARCHAR"),
    ),
}


def check_locality(kind: str, folder: Path, examples: int) -> None:
    cells, make = KINDS[kind]

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(rows=st.lists(cells, max_size=4), row=cells)
    def check(rows: list[Any], row: Any) -> None:
        alone = read(make([row], folder))
        before = read(make(rows, folder)) if rows else []
        assert read(make([*rows, row], folder)) == before + alone
        assert read(make([row, *rows], folder)) == alone + before

    check()


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_more_changes_no_other_row(kind: str, tmp_path: Path) -> None:
    check_locality(kind, tmp_path, 40 if kind in ("pandas-object", "pandas-guessed") else 6)


@settings(max_examples=60, deadline=None)
@given(rows=st.lists(anything, max_size=4))
def test_the_strict_policy_differs_in_nothing_but_refusals(rows: list[Any]) -> None:
    strict = None
    with contextlib.suppress(DataError):
        strict = read(pandas_of(object)(rows, Path()), STRICT)
    if strict is not None:
        loose = Schema(tuple(replace(a, nullable=True) for a in TOTAL.attributes))
        assert strict == read(pandas_of(object)(rows, Path()), loose)


# -- the same value means the same thing everywhere ------------------------------------------------


def test_a_whole_number_means_the_same_in_every_container(tmp_path: Path) -> None:
    cells = [7, None, 1, 10, 99, 0, -9]
    expected = read(pandas_of(object)(cells, tmp_path))
    decimal_cells = [None if c is None else D(c) for c in cells]
    texts = [None if c is None else str(c) for c in cells]
    for dtype in ("float64", "Int64", "Float32", "category", "int64[pyarrow]"):
        assert read(pandas_of(dtype)(cells, tmp_path)) == expected, dtype
    for dtype in (pl.Int8, pl.Float32, pl.Int128, pl.Float64):
        assert read(polars_of(dtype)(cells, tmp_path)) == expected, dtype
    for arrow in (pa.int8(), pa.int64(), pa.float16(), pa.float32(), pa.float64()):
        assert read(arrow_of(arrow)(cells, tmp_path)) == expected, arrow
        if arrow != pa.float16():
            assert read(parquet_of(arrow)(cells, tmp_path)) == expected, arrow
    for arrow in (pa.decimal32(9, 2), pa.decimal128(38, 30), pa.decimal256(70, 7)):
        assert read(arrow_of(arrow)(decimal_cells, tmp_path)) == expected, arrow
    for sql in ("HUGEINT", "DECIMAL(12,5)", "DOUBLE", "UHUGEINT", "TINYINT", "VARCHAR"):
        known = texts if sql != "UHUGEINT" else texts[:-1]
        assert read(duckdb_of(pa.string(), sql)(known, tmp_path)) == expected[: len(known)], sql
    for strings in (texts, [t and f" {t}.0 " for t in texts], [t and f"{t}e0" for t in texts]):
        assert read(csv_of("x.csv")(strings, tmp_path)) == expected
        assert read(arrow_of(pa.string())(strings, tmp_path)) == expected
        assert read(polars_of(pl.Categorical)(strings, tmp_path)) == expected
    # A neighbour with a fraction, a hole or a number beyond 2**63 changes the column's type only.
    for neighbour in (0.5, None, 2**63, 2**70, D("0.1"), "a", dt.date(2020, 1, 1)):
        assert read(pandas_guessed([*cells, neighbour], tmp_path))[:-1] == expected


@pytest.mark.parametrize(
    ("cells", "attribute", "codes"),
    [
        ([7, 7.0, D("7.000"), "7", "7.0", b"7", "07"], "text", [0] * 6 + [0]),
        (["007", 1000, "1000.0", "1e3", 0.1, "0.10"], "text", [1, 6, 6, 6, 2, 2]),
        (
            [dt.date(2020, 1, 1), dt.datetime(2020, 1, 1), pd.Timestamp("2020-01-01")],
            "text",
            [3] * 3,
        ),
        ([dt.datetime(2020, 1, 1, 1), dt.time(1), [1], 1j], "text", [7] * 4),
        ([True, "True", "TRUE", False], "text", [5, 5, 5, 7]),
        (
            [True, 1, 1.0, "1", "tRuE", D(1), 0, "0.0", False, 2, "yes"],
            "flag",
            [1] * 6 + [0] * 3 + [2] * 2,
        ),
        ([True, "True", 1, 7.5, "x", 99, "99.0"], "whole", [3, 3, 0, 3, 3, 3, 3]),
        (["n/a", -9, "-9.00", "", "NaN", None], "text", [7] * 6),
    ],
)
def test_documented_readings_of_levels(cells: list[Any], attribute: str, codes: list[int]) -> None:
    assert encode(TOTAL[attribute], objects(cells)).codes.tolist() == codes


def test_clamp_is_total() -> None:
    cells = objects([-1, 3e9, 2.5, 3.5, "x", b"\xff", None, True, [1], dt.date(2020, 1, 1), -0.2])
    expected = [0, 100, 2, 4, 0, 0, 0, 0, 0, 0, 0]
    column = encode(TOTAL["count"], cells)
    values = np.asarray(column.values)
    assert values.tolist() == expected
    assert not np.signbit(values).any()
    nullable = encode(replace(TOTAL["count"], nullable=True), cells)
    assert (nullable.codes == 5).tolist() == [i in range(4, 10) for i in range(11)]


# -- what went wrong once ------------------------------------------------------------------------


def test_rows_of_a_slice_are_read_as_in_the_whole(tmp_path: Path) -> None:
    for kind in (pa.string(), pa.binary()):
        whole = arrow_of(kind)(["7", " ", None, "1_0", "99", "a"] * 3, tmp_path)
        for start in (1, 3, 8):
            assert read(whole.slice(start, 7)) == read(whole)[start : start + 7]


def test_a_text_of_more_than_4096_characters_is_unreadable_in_every_container(
    tmp_path: Path,
) -> None:
    expected = read(pandas_of(object)(["7", b"\xff", "7", b"\xff"], tmp_path))
    assert expected[0] != expected[1]
    for maker in (
        *(KINDS[kind][1] for kind in ("pandas-object", "polars-text", "polars-categorical")),
        *(arrow_of(kind) for kind in (pa.string(), pa.large_string(), pa.string_view())),
        *(parquet_of(kind) for kind in (pa.string(), pa.large_string())),
        *(csv_of(name) for name in ("x.csv", "x.tsv")),
        arrow_coded,
        duckdb_of(pa.string(), "VARCHAR"),
    ):
        assert read(maker(LONG, tmp_path)) == expected
    raw = [cell.encode() for cell in LONG]
    for maker in (arrow_of(pa.binary()), parquet_of(pa.binary()), duckdb_of(pa.binary(), "BLOB")):
        assert read(maker(raw, tmp_path)) == expected


def test_a_long_cell_that_stands_in_many_rows_takes_memory_once() -> None:
    schema = Schema((Categorical(name="x", levels=("a",), **LOOSE),))
    rows = ENGINE.cursor().sql("SELECT repeat('s', 1000000) AS x FROM range(3000)")
    counts = DuckDBSource(rows, schema).counts([("x",)], rows="extended")  # 3 GB to Arrow
    assert counts[("x",)].tolist() == [0, 3000]


@pytest.mark.parametrize("size", [5_000_000, pytest.param(70_000_000, marks=pytest.mark.slow)])
def test_one_long_cell_in_a_csv_file_is_a_cell(tmp_path: Path, size: int) -> None:
    schema = Schema((Categorical(name="x", levels=("a",), **LOOSE), TOTAL["age"]))
    rows = "a,7\n" * 3000
    (tmp_path / "x.csv").write_text(f"x,age\n{rows}{'s' * size},7\n{rows}")
    with memory_limit("8GB"):
        source = DuckDBSource(tmp_path / "x.csv", schema)
        counts = source.counts([("x",), ("age",)], rows="extended")
        held = Table.read(tmp_path / "x.csv", schema)
    assert counts[("x",)].tolist() == [6000, 1]
    assert counts[("age",)].sum() == 6001
    assert held.mask("x").nonzero()[0].tolist() == [3000]


def test_an_empty_line_of_a_file_with_one_column_is_a_hole(tmp_path: Path) -> None:
    schema = Schema((Categorical(name="x", levels=("a",), **LOOSE),))
    frame = pd.DataFrame({"x": ["a", None, "a"]})
    frame.to_csv(tmp_path / "pandas.csv", index=False)
    pl.from_pandas(frame).write_csv(tmp_path / "polars.csv")
    duckdb.sql("FROM frame").write_csv(str(tmp_path / "duckdb.csv"))
    for name in ("pandas", "polars", "duckdb"):
        assert Table.read(tmp_path / f"{name}.csv", schema).codes("x").tolist() == [0, 1, 0]
