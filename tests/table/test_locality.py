"""Row locality: a row is read as a function of that row and of public facts alone.

Without it no guarantee holds: one person's cell would move other persons' bins.
"""

import contextlib
import csv
import datetime as dt
import decimal
import fractions
import uuid
from dataclasses import replace
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Date, DateTime, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError
from missdp.sources import DuckDBSource
from missdp.table import memory_limit
from missdp.table.encode import Encoder
from refusing import refuses

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
        Numeric(name="pay", lower=1, upper=90, refused=(-9, "a"), not_applicable=(99,), **LOOSE),
        Ordinal(name="kinds", levels=("7", "b"), unknown=(-9, "a"), not_applicable=(99,), **LOOSE),
        Date(name="day", lower="2019-01-01", upper="2020-12-31", missing_codes=(7, "a"), **LOOSE),
        DateTime(name="seen", lower="1000-01-01", upper="9999-01-01", timezone="UTC", **LOOSE),
        Date(name="code", lower="1970-01", upper="2020-12", step="month", format="%td", **LOOSE),
    )
)
STRICT = Schema(tuple(replace(a, outside="error", nullable=True) for a in TOTAL.attributes))
ONE = Schema((Categorical(name="x", levels=("a",), **LOOSE),))


def read(data, schema=TOTAL):
    """Codes, masks and values of every attribute, a list per row."""
    table = Table.read(data, schema)
    columns = [table.codes(n) for n in schema.names] + [table.mask(n) for n in schema.names]
    columns += [table.values(a.name) for a in schema if isinstance(a, Numeric)]
    return [[cell.tobytes() for cell in row] for row in zip(*columns, strict=True)]


# -- cells ---------------------------------------------------------------------------------------
finite = st.floats(allow_nan=False, allow_infinity=False)
nans = st.integers(1, 2**51).map(lambda i: np.uint64(0x7FF8 << 48 | i).view(float).item())
infinity = float("inf")
known_floats = [0.0, -0.0, 0.1, 0.5, 1.0, 7.0, 99.0, -9.0, 2.5, infinity, -infinity]
floats = st.sampled_from(known_floats) | finite | nans
ints = st.integers(-10, 110) | st.sampled_from([2**53 + 1, -(2**62), 2**62])
huge = ints | st.sampled_from([2**63, 2**64, 10**400, -(10**400)])
known_decimals = ["0.1", "7", "-9.0", "1E+20", "0.12345678901234567890123", "1E-20"]
decimals = st.sampled_from([D(text) for text in known_decimals]) | st.decimals(
    allow_nan=False, allow_infinity=False, places=5, min_value=-1000, max_value=1000
)
odd_decimals = decimals | st.sampled_from([D("NaN"), D("sNaN"), D("Infinity"), D("1E+9999")])
long_decimals = st.decimals(-(10**15), 10**15, places=10)
words = ["", " ", " 7 ", "\u0661", "1" * 400, "True", "true", "FALSE", "1", "0", "1e3", "1000"]
words += ["7", "007", "7.0", "0.1", "a", "A", "?", "n/a", "k.A.", "-9", "-9.0", "nan", "NaN"]
words += ["1_0", "0x7", "2020-01-01", "1e999", "+1", ".5", "5.", "1.", "0.10000000000000000001"]
words += ["inf", "None", "2020-02-30", "2020-01-01T10:30Z", "2020-01-01 10:30:00.5+01:00", "21915"]
LONG = ["7" + " " * 4095, "7" + " " * 4096, "\u2003" * 4095 + "7", "\u2003" * 4096 + "7"]
words += LONG
good_text = st.sampled_from(words) | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
text = good_text | st.sampled_from(["\ud800", "a\udfff", "\0"])
dates = st.just(dt.date(2020, 1, 1)) | st.dates()
moments = st.sampled_from([dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1)]) | st.datetimes()
zoned = moments.map(lambda m: m.replace(tzinfo=dt.UTC))
recent = st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1))
raw = st.binary(max_size=4) | st.sampled_from([b"7", b"a", b"0.1", b"\xff"])
few = st.lists(st.integers(0, 9), max_size=2)
far = st.integers(-(2**62), 2**62)
odd = [pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64("NaT"), np.nan, 1j, np.float32(0.1)]
odd += [[1], [[1], [2]], {"a": 1}, (1, 2), dt.time(1), dt.timedelta(1), object(), np.int8(7)]
odd += [np.bool_(True), np.str_("a"), np.array([1, 2]), np.datetime64("2020-01-01")]
odd += [np.datetime64(2**40, "Y"), np.timedelta64(7, "D"), pd.Timestamp("2020-01-01")]
odd += [pd.Timestamp("2020-01-01", tz="UTC"), fractions.Fraction(1, 3), uuid.UUID(int=7)]
odd += [bytearray(b"a"), pd.Period("2020")]
nothing = st.none()
anything = nothing | floats | huge | odd_decimals | text | dates | moments | zoned | raw
anything |= st.sampled_from(odd) | st.booleans()
inferred = st.one_of(nothing, floats, ints, decimals, good_text, dates, moments, st.booleans())

# -- containers ----------------------------------------------------------------------------------

ENGINE = duckdb.connect()


def objects(cells):
    return np.fromiter(cells, dtype=object, count=len(cells))


def pandas(dtype):
    def make(cells, _):
        column = pd.Series(objects(cells) if dtype is object else cells, dtype=dtype)
        return pd.DataFrame(dict.fromkeys(TOTAL.names, column))

    return make


def arrow(kind):
    return lambda cells, _: pa.table(dict.fromkeys(TOTAL.names, pa.array(cells, kind)))


def coded(kind):
    """Arrow's dictionaries."""
    return lambda cells, _: arrow(None)(pa.array(cells, kind).dictionary_encode(), _)


def no_utf8(kind):
    def make(cells, folder):
        array = pa.array(cells, pa.binary())
        text = pa.Array.from_buffers(kind, len(array), array.buffers())
        return pa.table(dict.fromkeys(TOTAL.names, text))

    return make


def parquet(kind):
    def make(cells, folder):
        pq.write_table(arrow(kind)(cells, folder), folder / "x.parquet")
        return folder / "x.parquet"

    return make


COMING = {"DECIMAL(12,5)": pa.decimal128(38, 5), "INTEGER[]": pa.list_(pa.int64())}
COMING["BLOB"] = pa.binary()


def relation(sql):
    def make(cells, folder):
        connection = ENGINE.cursor()
        kind = COMING.get(sql, pa.string())
        connection.register("rows", arrow(kind)(cells, folder))
        terms = ", ".join(f'CAST("{n}" AS {sql}) AS "{n}"' for n in TOTAL.names)
        return connection.sql(f"SELECT {terms} FROM rows")

    return make


def records(_):
    return lambda cells, _: [dict.fromkeys(TOTAL.names, cell) for cell in cells]


def polars(dtype):
    return lambda cells, _: pl.DataFrame({n: pl.Series(cells, dtype=dtype) for n in TOTAL.names})


def written(name):
    def make(cells, folder):
        with open(folder / name, "w", newline="", encoding="utf-8") as f:
            writer = csv.writer(f, delimiter="\t" if name.endswith("tsv") else ",")
            writer.writerow(TOTAL.names)
            writer.writerows([cell] * len(TOTAL) for cell in cells)
        return folder / name

    return make


KINDS = [
    (pandas, object, anything),
    (pandas, None, inferred),
    (records, None, anything),
    *((pandas, "Int64", ints), (pandas, "boolean", st.booleans())),
    *((pandas, "string", good_text), (pandas, pd.StringDtype("python"), text)),
    (pandas, "category", ints | finite | good_text | dates),
    (pandas, "datetime64[us]", recent | moments),
    (pandas, pd.ArrowDtype(pa.decimal128(38, 10)), long_decimals),
    *((pandas, "complex128", floats | st.just(1j)), (pandas, pd.SparseDtype("float64"), floats)),
    (polars, pl.Int128, st.integers(-(2**100), 2**100) | ints),
    *((polars, pl.Categorical, good_text), (polars, pl.List(pl.Int64), few)),
    (polars, pl.Decimal(38, 10), long_decimals),
    (polars, pl.Object, floats | ints | decimals | good_text | raw | dates),
    *((arrow, None, decimals), (arrow, pa.int64(), ints), (arrow, pa.float64(), floats)),
    (arrow, pa.uint64(), st.integers(0, 2**64 - 1) | st.integers(0, 100)),
    (arrow, pa.float16(), st.floats(width=16)),
    *((arrow, kind, good_text) for kind in (pa.string(), pa.large_string(), pa.string_view())),
    (arrow, pa.binary_view(), raw),
    (arrow, pa.binary(1), st.binary(min_size=1, max_size=1)),
    (arrow, pa.decimal32(9, 3), st.decimals(-99, 99, places=3)),
    (arrow, pa.decimal256(70, 30), long_decimals),
    (arrow, pa.date32(), dates),
    (arrow, pa.timestamp("s"), moments | far),
    (arrow, pa.timestamp("ns"), far | st.just(1577836800 * 10**9)),
    (arrow, pa.timestamp("us", "Europe/Paris"), moments),
    *((arrow, pa.time64("us"), st.times()), (arrow, pa.duration("s"), st.integers(0, 9))),
    *((arrow, pa.bool_(), st.booleans()), (arrow, pa.list_(pa.int64()), few)),
    *((arrow, pa.null(), nothing), (coded, pa.string(), good_text), (no_utf8, pa.string(), raw)),
    (written, "x.csv", good_text | ints | floats | decimals),  # all else refuses the file
    (written, "x.tsv", good_text),
    (parquet, pa.decimal128(38, 15), long_decimals),
    (parquet, pa.string(), good_text),
    (relation, "DECIMAL(12,5)", st.decimals(-999, 999, places=5)),
    (relation, "HUGEINT", st.sampled_from(["7", "1", str(2**127 - 1), str(2**53 + 1)])),
    (relation, "UHUGEINT", st.sampled_from(["7", "1", str(2**128 - 1)])),
    (relation, "DATE", st.sampled_from(["2020-01-01", "infinity", "0044-03-15 (BC)"])),
    (relation, "INTEGER[]", few),
    (relation, "VARCHAR", good_text.filter(lambda t: "\0" not in t)),
]
WITHOUT_NULLS = ("complex128", pd.SparseDtype("float64"), pl.Object, "x.csv", "x.tsv", None)


@pytest.mark.long
@pytest.mark.parametrize(("make", "kind", "cells"), KINDS)
def test_one_row_more_changes_no_other_row(make, kind, cells, tmp_path):
    cells = cells if kind in WITHOUT_NULLS and make is not arrow else nothing | cells
    made = make(kind)

    @settings(max_examples=25 if kind in (object, None) else 4)
    @given(rows=st.lists(cells, max_size=4), row=cells)
    def check(rows, row):
        alone = read(made([row], tmp_path))
        before = read(made(rows, tmp_path)) if rows else []
        assert read(made([*rows, row], tmp_path)) == before + alone
        assert read(made([row, *rows], tmp_path)) == alone + before

    check()


@pytest.mark.long
@settings(max_examples=60)
@given(rows=st.lists(anything, max_size=4))
def test_the_strict_policy_differs_in_nothing_but_refusals(rows):
    strict = None
    with contextlib.suppress(DataError):
        strict = read(pandas(object)(rows, Path()), STRICT)
    if strict is not None:
        loose = Schema(tuple(replace(a, nullable=True) for a in TOTAL.attributes))
        assert strict == read(pandas(object)(rows, Path()), loose)


# -- the same value means the same thing everywhere ------------------------------------------------
def test_an_integer_has_one_meaning_in_every_container(tmp_path):
    cells = [7, None, 1, 10, 99, 0, -9]
    expected = read(pandas(object)(cells, tmp_path))
    exact = [None if c is None else D(c) for c in cells]
    texts = [None if c is None else str(c) for c in cells]
    whole = (pa.int8(), pa.int64(), pa.float32(), pa.float64())
    same = [
        (pandas, ["float64", "Int64", "Float32", "category", "int64[pyarrow]"], cells),
        (polars, [pl.Int8, pl.Float32, pl.Int128, pl.Float64], cells),
        *((arrow, [*whole, pa.float16()], cells), (parquet, [*whole], cells)),
        (arrow, [pa.decimal32(9, 2), pa.decimal128(38, 30), pa.decimal256(70, 7)], exact),
        (relation, ["HUGEINT", "DOUBLE", "TINYINT", "VARCHAR"], texts),
        (relation, ["DECIMAL(12,5)"], exact),
        (relation, ["UHUGEINT"], texts[:-1]),
        (coded, [pa.int64()], cells),
    ]
    for strings in (texts, [t and f" {t}.0 " for t in texts], [t and f"{t}e0" for t in texts]):
        same += [(written, ["x.csv"], strings), (polars, [pl.Categorical], strings)]
        same += [(make, [pa.string()], strings) for make in (arrow, coded)]
    for make, kinds, given_cells in same:
        for kind in kinds:
            found = read(make(kind)(given_cells, tmp_path))
            assert found == expected[: len(given_cells)], (make, kind)
    # A neighbour with a fraction, a missing value or a number beyond 2**63 changes only the type of
    # the column.
    for neighbour in (0.5, None, 2**63, 2**70, D("0.1"), "a", dt.date(2020, 1, 1)):
        assert read(pandas(None)([*cells, neighbour], tmp_path))[:-1] == expected


DAY = dt.datetime(2020, 1, 1)


READINGS = [
    ([7, 7.0, D("7.000"), "7", "7.0", b"7", "07"], "text", [0] * 7),
    (["007", 1000, "1000.0", "1e3", 0.1, "0.10"], "text", [1, 6, 6, 6, 2, 2]),
    ([DAY.date(), DAY, pd.Timestamp(DAY)], "text", [3] * 3),
    ([dt.datetime(2020, 1, 1, 1), dt.time(1), [1], 1j], "text", [7] * 4),
    ([True, "True", "TRUE", False], "text", [5, 5, 5, 7]),
    ([True, 1, 1.0, "1", "tRuE", D(1), 0, "0.0", False], "flag", [1] * 6 + [0] * 3),
    ([2, "yes"], "flag", [2, 2]),
    ([True, "True", 1, 7.5, "x", 99, "99.0"], "whole", [3, 3, 0, 3, 3, 3, 3]),
    (["n/a", -9, "-9.00", "", "NaN", None], "text", [7] * 6),
]


@pytest.mark.parametrize(("cells", "attribute", "codes"), READINGS)
def test_documented_readings_of_levels(cells, attribute, codes):
    assert Encoder(TOTAL[attribute]).encode(objects(cells)).codes.tolist() == codes


def test_clamp_is_total():
    cells = objects([-1, 3e9, 2.5, 3.5, "x", b"\xff", None, True, [1], dt.date(2020, 1, 1), -0.2])
    column = Encoder(TOTAL["count"]).encode(cells)
    values = np.asarray(column.values)
    assert values.tolist() == [0, 100, 2, 4, 0, 0, 0, 0, 0, 0, 0]
    assert not np.signbit(values).any()
    nullable = Encoder(replace(TOTAL["count"], nullable=True)).encode(cells)
    assert (nullable.codes == 5).tolist() == [i in range(4, 10) for i in range(11)]


# -- earlier errors --------------------------------------------------------------------------------
def test_rows_of_a_slice_are_read_as_in_the_table(tmp_path):
    for kind in (pa.string(), pa.binary()):
        whole = arrow(kind)(["7", " ", None, "1_0", "99", "a"] * 3, tmp_path)
        for start in (1, 3, 8):
            assert read(whole.slice(start, 7)) == read(whole)[start : start + 7]


def test_a_text_of_more_than_4096_characters_is_unreadable_in_every_container(tmp_path):
    expected = read(pandas(object)(["7", b"\xff", "7", b"\xff"], tmp_path))
    assert expected[0] != expected[1]
    texts = [*map(pandas, [object]), *map(polars, [pl.String, pl.Categorical])]
    texts += [*map(arrow, [pa.string(), pa.large_string(), pa.string_view()])]
    texts += [*map(parquet, [pa.string(), pa.large_string()]), *map(written, ["x.csv", "x.tsv"])]
    texts += [coded(pa.string()), relation("VARCHAR")]
    for made in texts:
        assert read(made(LONG, tmp_path)) == expected
    for made in (arrow(pa.binary()), parquet(pa.binary()), relation("BLOB")):
        assert read(made([cell.encode() for cell in LONG], tmp_path)) == expected


def test_a_long_cell_that_stands_in_many_rows_takes_memory_once():
    rows = ENGINE.cursor().sql("SELECT repeat('s', 1000000) AS x FROM range(3000)")
    counts = DuckDBSource(rows, ONE).counts([("x",)], rows="extended")  # 3 GB to Arrow
    assert counts[("x",)].tolist() == [0, 3000]


def test_a_row_of_more_than_16_mib_refuses_a_csv_file(tmp_path):
    schema = Schema((ONE["x"], TOTAL["age"]))
    (tmp_path / "x.csv").write_text(f"x,age\na,7\n{'s' * 17_000_000},7\n")
    with refuses(DataError, "longer than 16 MiB"):
        Table.read(tmp_path / "x.csv", schema)


def test_one_long_cell_in_a_csv_file_is_a_cell(tmp_path):
    schema, size = Schema((ONE["x"], TOTAL["age"])), 5_000_000
    rows = "a,7\n" * 3000
    (tmp_path / "x.csv").write_text(f"x,age\n{rows}{'s' * size},7\n{rows}")
    with memory_limit("8GB"):
        source = DuckDBSource(tmp_path / "x.csv", schema)
        counts = source.counts([("x",), ("age",)], rows="extended")
        held = Table.read(tmp_path / "x.csv", schema)
    assert counts[("x",)].tolist() == [6000, 1]
    assert counts[("age",)].sum() == 6001
    assert held.mask("x").nonzero()[0].tolist() == [3000]


def test_an_empty_line_of_one_column_is_missing(tmp_path):
    frame = pd.DataFrame({"x": ["a", None, "a"]})
    frame.to_csv(tmp_path / "pandas.csv", index=False)
    pl.from_pandas(frame).write_csv(tmp_path / "polars.csv")
    duckdb.sql("FROM frame").write_csv(str(tmp_path / "duckdb.csv"))
    for name in ("pandas", "polars", "duckdb"):
        assert Table.read(tmp_path / f"{name}.csv", ONE).codes("x").tolist() == [0, 1, 0]
