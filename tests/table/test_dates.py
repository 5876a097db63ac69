"""Cells of dates: read as Python's own calendar reads them, and written as they were."""

import datetime as dt

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Date, DateTime, Schema, Table

BOUNDS = {"lower": "2018-01-01", "upper": "2024-12-31", "nullable": True, "outside": "missing"}
DAYS = [
    dt.date(2020, 2, 29),
    None,
    dt.date(2018, 1, 1),
    dt.date(2024, 12, 31),
    dt.date(2017, 12, 31),
]
KEPT = [*DAYS[:4], None]


def cells(attribute, given):
    data = {attribute.name: given} if isinstance(given, list) else given
    return Table.read(data, Schema((attribute,))).to_arrow()[attribute.name].to_pylist()


PATTERNS = {"%d.%m.%Y": "%d.%m.%Y", "%Y%m%d": "%Y%m%d", "%d%b%Y": "%d%b%Y", "%m/%d/%Y": "%m/%d/%Y"}
odd = st.from_regex(r"[0-3]?\d[./-]?([01]?\d|Jan|xyz)[./-]?(20)?[12]\d", fullmatch=True)
dates = st.dates(dt.date(2010, 1, 1), dt.date(2030, 1, 1))


@given(
    pattern=st.sampled_from([*PATTERNS]),
    days=st.lists(dates, max_size=4),
    texts=st.lists(odd, max_size=4),
)
def test_text_is_what_pythons_calendar_says(pattern, days, texts):
    texts += [day.strftime(pattern) for day in days]
    attribute = Date(name="a", format=pattern, **BOUNDS)

    def expected(text):
        try:
            day = dt.datetime.strptime(text, pattern).date()
        except ValueError:
            return None
        # Unlike Python's, a day has two digits.
        inside = day.strftime(pattern) == text and dt.date(2018, 1, 1) <= day < dt.date(2025, 1, 1)
        return text if inside else None

    assert cells(attribute, texts) == [*map(expected, texts)]


TYPED = pa.array(DAYS, pa.date32())
MOMENTS = [
    pd.DataFrame({"a": pd.to_datetime(pd.Series(DAYS))}),
    pd.DataFrame({"a": pd.Series(DAYS, dtype=object)}),
    pl.DataFrame({"a": DAYS}),
    pl.DataFrame({"a": DAYS}).with_columns(pl.col("a").cast(pl.Datetime("ns"))),
    *(pa.table({"a": TYPED.cast(t)}) for t in (pa.date32(), pa.date64(), pa.timestamp("s"))),
    pa.table({"a": TYPED.dictionary_encode()}),
    pa.table({"a": [None if day is None else str(day) for day in DAYS]}),
]


@pytest.mark.parametrize("data", MOMENTS, ids=range(len(MOMENTS)))
def test_every_container_of_dates_means_the_same(data):
    attribute = Date(name="a", **BOUNDS)
    assert cells(attribute, data) == KEPT
    connection = duckdb.connect()
    connection.register("rows", pa.table({"a": TYPED}))
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NS", "VARCHAR"):
        assert cells(attribute, connection.sql(f"SELECT a::{kind} AS a FROM rows")) == KEPT, kind


def test_cells_without_a_date_are_missing():
    """30 February, two formats, a time zone, strange and far cells among them."""
    given = ["2019-02-29", "2020-13-01", "2020-00-10", "01.02.2020", "2020-01-01Z", "20200101"]
    given += [20200101, True, 1e300, object(), pd.Timestamp("2020-01-01", tz="UTC"), dt.time(1)]
    given += [pd.NaT, np.datetime64("NaT"), None, "", np.datetime64(2**40, "Y"), "2020-1-1"]
    attribute = Date(name="a", **BOUNDS)
    assert cells(attribute, given) == [None] * len(given)
    far = [None, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    for unit in ("s", "ns"):
        assert cells(attribute, pa.table({"a": pa.array(far, pa.timestamp(unit))})) == [None] * 5


@pytest.mark.parametrize(
    ("form", "number", "day"),
    [  # as the manuals of these programs give them
        ("%td", 21915, "2020-01-01"), ("%tc", 1893456000000, "2020-01-01"), ("%tm", 720, "2020-01"),
        ("%ty", 2020, "2020"), ("spss", 13797216000, "2020-01-01"),
        ("sas", 1893456000, "2020-01-01"),
        ("excel", 43831, "2020-01-01"), ("unix", 1577836800, "2020-01-01"),
    ],
)  # fmt: skip
def test_numbers_since_an_origin(form, number, day):
    step = {4: "year", 7: "month", 10: "day"}[len(day)]
    ends = {"lower": "2010-01-01"[: len(day)], "upper": "2024-12-31"[: len(day)]}
    attribute = Date(name="a", format=form, step=step, nullable=True, outside="missing", **ends)
    table = Table.read({"a": [number, str(number), "x", 1e300]}, Schema((attribute,)))
    assert attribute.shown(table.values("a")[0]) == day
    assert table.to_arrow()["a"].to_pylist() == [number, number, None, None]


def test_times_are_cut_to_their_step_and_keep_their_zone():
    ends = {"lower": "2020-01-01T00:00", "upper": "2020-12-31T23:45", "step": "15min"}
    facts = {"name": "a", "nullable": True, "outside": "missing", **ends}
    local, world = DateTime(**facts), DateTime(timezone="Europe/Berlin", **facts)
    texts = ["2020-07-01T10:20:59", "2020-07-01 10:20Z", "2020-07-01T12:20+02:00", "2020-07-01"]
    at = dt.datetime(2020, 7, 1, 10, 15)
    assert cells(local, texts) == [at, None, None, dt.datetime(2020, 7, 1)]
    assert cells(world, texts) == [None, *[at.replace(tzinfo=dt.UTC)] * 2, None]
    series = pd.to_datetime(pd.Series(["2020-07-01 12:29", None])).dt.tz_localize("Europe/Berlin")
    for data in (pd.DataFrame({"a": series}), pd.DataFrame({"a": series.astype(object)})):
        assert cells(world, data) == [at.replace(tzinfo=dt.UTC), None]
        assert cells(local, data) == [None, None]


def test_the_type_that_comes_out_follows_from_the_schema_alone():
    attributes = (
        Date(name="day", **BOUNDS),
        Date(name="text", format="%d.%m.%Y", **BOUNDS),
        DateTime(name="time", **BOUNDS),
    )
    found = set()
    for column in (["2020-01-01", None], [None, None], []):
        data = {a.name: column for a in attributes}
        table = Table.read(data, Schema(attributes))
        frame = table.to_native("pandas")
        found.add((*map(str, frame.dtypes), *map(str, table.to_native("polars").dtypes)))
    (kinds,) = found
    assert kinds[:3] == ("datetime64[s]", "string", "datetime64[s]")
    assert kinds[3:] == ("Date", "String", "Datetime(time_unit='ms', time_zone=None)")


def test_sentinels_are_missing_and_come_back():
    attribute = Date(
        name="a", lower="2018-01-01", upper="2024-12-31", nullable=True,
        refused=("9999-12-31",), unknown=(-9, "k.A."),
    )  # fmt: skip
    schema = Schema((attribute,))
    given = ["2020-01-01", "9999-12-31", dt.date(9999, 12, 31), -9, "k.A.", None]
    table = Table.read({"a": given}, schema)
    assert table.mask("a", "refused").tolist() == [False, True, True, False, False, False]
    assert table.mask("a", "unknown").tolist() == [False, False, False, True, True, False]
    back = Table.read(table.to_native(holes="codes"), schema)
    assert back.codes("a").tolist() == table.codes("a").tolist()
