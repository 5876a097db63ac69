"""Every kind of missing and every kind of column becomes the same codes, and cells again.

Dates among them: read as Python's own calendar reads them, and written as they were.
"""

import datetime as dt
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

from missdp import Categorical, Date, DateTime, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.errors import DataError, ParameterError
from missdp.schema import Layout, NotApplicable
from missdp.schema.attributes import KINDS
from missdp.sources import DuckDBSource
from missdp.table import cells as reading
from missdp.table.decode import _codes_to_write
from missdp.table.encode import Encoder
from missdp.table.written import write_blocks
from refusing import refuses

AGE = Numeric(name="age", lower=0, upper=99, integer=True, nullable=True)


def read(attribute, cells):
    """A table of one column, of cells or as it is held."""
    held = {attribute.name: cells} if isinstance(cells, list | pa.Array) else cells
    held = pa.table(held) if isinstance(cells, pa.Array) else held
    return Table.read(held, Schema((attribute,)))


class Unreadable(float):
    """A number that does not say which."""

    def __float__(self):
        raise RuntimeError


class Unclassed:
    """A cell that reveals its content when its class is requested."""

    __class__ = property(Unreadable.__float__)


def test_no_cell_makes_a_table_raise_that_has_a_policy_for_all_cells():
    released = memoryview(b"5")
    released.release()
    for odd in (Unreadable(5.0), released, Unclassed()):
        cells = np.array([5.0, odd, 7.0], dtype=object)
        for policy in ("missing", "clamp"):
            table = read(replace(AGE, outside=policy), pd.DataFrame({"age": cells}))
            assert table.values("age")[[0, 2]].tolist() == [5.0, 7.0]
            assert table.mask("age").tolist() == [False, True, False]


@pytest.mark.long
@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))))
def test_no_nan_or_infinity_survives_encoding(cells):
    attribute = Numeric(name="x", lower=-1, upper=1, nullable=True, outside="clamp")
    table = read(attribute, pa.array(cells, pa.float64()))
    assert np.all(np.abs(table.values("x")) <= 1)
    assert table.mask("x").tolist() == [c is None or np.isnan(c) for c in cells]


def test_code_width_includes_missing():
    levels = tuple(f"l{i}" for i in range(256))
    for last, code in ((256, 255), (255, 254)):
        attribute = Categorical(name="x", levels=levels[:last], nullable=True)
        table = read(attribute, pa.array([f"l{code}", None]))
        assert table.codes("x").tolist() == [code, code + 1]
        assert table.mask("x").tolist() == [False, True]


# -- kinds of missing ----------------------------------------------------------------------------
KINDS_OF = {
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


def kinds_of(table):
    found = [None] * len(table)
    for kind in KINDS:
        for row in np.flatnonzero(table.mask("x", kind)):
            assert found[row] is None
            found[row] = kind
    return found


@pytest.mark.parametrize("attribute", [PAY, WHOLE, GRADE, WORD])
@pytest.mark.parametrize("cells", [NUMBERS, TEXT], ids=["numbers", "words"])
def test_every_container_and_stream_gives_the_same_kinds(attribute, cells, tmp_path):
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


def test_clamping_makes_no_number_of_a_code_and_no_kind_of_garbage():
    hours, na = replace(WHOLE, outside="clamp"), "not_applicable"
    found = kinds_of(read(hours, pa.array(["-7", "-6", "1e9", "junk", "", "n/a"])))
    assert found == ["refused", None, None, "missing", "missing", na]
    sure = Numeric(name="x", lower=0, upper=100, not_applicable=(-1,), outside="clamp")
    assert kinds_of(read(sure, pa.array(["-1", "junk", "", "3"]))) == [na, None, na, None]


def test_a_column_of_text_is_looked_at_only_where_there_is_no_number(monkeypatch):
    seen, found = [], reading.unique_values
    monkeypatch.setattr(
        reading, "unique_values", lambda chunk: seen.append(len(chunk)) or found(chunk)
    )
    Encoder(PAY).encode(pa.array([f"{i / 100}" for i in range(9000)] + [".R"] * 3))
    Encoder(PAY).encode(pa.array(np.arange(9000.0)))
    assert seen == [3]


# -- rows that are written with codes and read again -----------------------------------------------
FACTS = ("missing_codes", "refused", "unknown", "not_asked", "not_applicable")
HOURS = {"missing_codes": (-1,), "refused": (-7,), "not_applicable": (-9,), "nullable": True}
WORK = {"refused": ("RF", "R"), "unknown": (98,), "nullable": True}
PAID = {"unknown": ("k.A.",), "refused": (-8,), "nullable": True}
SURVEY = Schema(
    (
        Categorical(name="work", levels=("no", "yes"), **WORK),
        Numeric(name="Stunden", lower=0, upper=80, integer=True, **HOURS),
        Numeric(name="pay", lower=0, upper=1, **PAID),
        Ordinal(name="grade", levels=(1, 2, 3), nullable=True, not_asked=(-3,), refused=()),
        Categorical(name="flag", levels=(False, True), nullable=True, not_asked=(9,)),
    ),
    (NotApplicable("Stunden", unless="work = 'yes'"),),
)
ROWS = {
    "work": ["yes", "no", "RF", "98", None, "yes"],
    "Stunden": [40, -9, -7, -1, -9, -7],
    "pay": ["0.1", "k.A.", "-8", None, "1", "0.3333333333333333"],
    "grade": [1, -3, 2, None, 3, -3],
    "flag": ["true", "9", "false", None, "true", "9"],
}


def test_cells_are_the_codes_that_the_schema_declares_or_null():
    table = Table.read(pa.table(ROWS), SURVEY)
    assert table.to_arrow(missing_as="codes").to_pydict() == ROWS
    plain = table.to_arrow()
    assert plain.equals(table.to_arrow(missing_as="nulls"))
    for name in SURVEY.names:
        assert plain[name].is_null().to_numpy().tolist() == table.mask(name).tolist()
    model = PrivBayes(epsilon=1.0, delta=0.0, random_state=0, n_rows=6)
    for write in (table.to_arrow, table.to_native, model.sample):
        with refuses(ParameterError, "missing_as must be 'nulls' or 'codes', not 'zeros'"):
            write(missing_as="zeros")


def test_a_code_that_is_not_read_as_its_kind_is_not_written():
    """Blank text is null in files anyway.

    7 is not one of the levels "07" and "007", and not a code.
    """
    facts = {"missing_codes": ("?",), "refused": (7, " R "), "nullable": True}
    levels = Categorical(name="a", levels=("07", "007"), **facts)
    assert _codes_to_write(levels) == {"missing": "?", "refused": "R"}
    facts = {"missing_codes": (" ", -1), "refused": ("nan",), "nullable": True}
    number = Numeric(name="a", lower=0, upper=1, **facts)
    assert _codes_to_write(number) == {"missing": -1, "refused": "nan"}


GLYPHS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)
ODD_CODES = st.integers(-99, -1) | st.sampled_from((-0.5, -1e15, -1e-7, 1000, 1e6))
CODES = GLYPHS.map(lambda text: f"c{text}".strip()) | ODD_CODES
LEVELS = st.lists(GLYPHS.map(lambda t: f"l{t}".strip()), min_size=1, unique=True)


def as_read(code):
    return code if isinstance(code, str) else float(code)


@st.composite
def attributes(draw, name):
    """An attribute of any type, each kind of missing with codes of its own, read as that kind."""
    kinds = draw(st.lists(st.sampled_from(FACTS), unique=True))
    n = 2 * len(kinds)
    codes = draw(st.lists(CODES, min_size=n, max_size=n, unique_by=as_read))
    facts = {kind: tuple(codes[2 * i : 2 * i + 2]) for i, kind in enumerate(kinds)}
    facts |= {"name": name, "nullable": "missing_codes" in facts or bool({*kinds} - {FACTS[-1]})}
    facts |= {} if "missing_codes" in facts or not facts["nullable"] else {"missing_codes": ("?",)}
    style = draw(st.sampled_from(("whole", "real", "text", "int", "bool")))
    if style in ("whole", "real"):
        return Numeric(lower=0, upper=99, integer=style == "whole", **facts)
    levels = {"int": (3, 1, 2), "bool": (False, True)}.get(style) or tuple(draw(LEVELS))
    ordered = draw(st.booleans()) and style != "bool"
    return (Ordinal if ordered else Categorical)(levels=levels, **facts)


@st.composite
def tables(draw):
    names = draw(st.lists(GLYPHS, min_size=1, max_size=3, unique=True))
    schema = Schema(tuple(draw(attributes(name)) for name in names))
    n, rng = draw(st.integers(0, 6)), np.random.default_rng(draw(st.integers(0, 99)))
    codes = {a.name: rng.integers(0, a.extended_size, n) for a in schema}
    return Table.from_codes(schema, codes).with_values(rng)


@pytest.mark.long
@settings(max_examples=20)
@given(tables())
def test_a_table_written_with_codes_is_read_back(tmp_path, one):
    for name in ("x.csv", "x.parquet"):
        write_blocks([tmp_path / name], [(0, one.to_arrow(missing_as="codes"))])
    frames = [one.to_native(kind, missing_as="codes") for kind in ("pandas", "polars", "pyarrow")]
    for data in (*frames, tmp_path / "x.csv", tmp_path / "x.parquet"):
        two = Table.read(data, one.schema)
        for attribute in one.schema:
            name = attribute.name
            np.testing.assert_array_equal(one.codes(name), two.codes(name), err_msg=name)
            if isinstance(attribute, Numeric):
                np.testing.assert_array_equal(one.values(name), two.values(name))
    empty = one.take(np.zeros(len(one), dtype=bool))  # types depend on the schema alone
    assert empty.to_arrow(missing_as="codes").schema == one.to_arrow(missing_as="codes").schema


def test_names_with_delimiters_are_read_back(tmp_path):
    schema = Schema(tuple(Categorical(name=name, levels=(";;", "a")) for name in ("0", ";")))
    table = Table.read(pa.table({name: [";;", "a"] for name in schema.names}), schema)
    write_blocks([tmp_path / "x.csv"], [(0, table.to_arrow())])
    assert Table.read(tmp_path / "x.csv", schema).to_arrow() == table.to_arrow()


# -- dates ---------------------------------------------------------------------------------------
LOOSE = {"nullable": True, "outside": "missing"}
BOUNDS = {"lower": "2018-01-01", "upper": "2024-12-31", **LOOSE}
FIRST, LAST = dt.date(2018, 1, 1), dt.date(2024, 12, 31)
DAYS = [dt.date(2020, 2, 29), None, FIRST, LAST, dt.date(2017, 12, 31)]


def cells_of(attribute, given):
    return read(attribute, given).to_arrow()[attribute.name].to_pylist()


odd = st.from_regex(r"[0-3]?\d[./-]?([01]?\d|Jan|xyz)[./-]?(20)?[12]\d", fullmatch=True)
dates = st.dates(dt.date(2010, 1, 1), dt.date(2030, 1, 1))


@pytest.mark.long
@given(
    pattern=st.sampled_from(["%d.%m.%Y", "%Y%m%d", "%d%b%Y", "%m/%d/%Y"]),
    days=st.lists(dates, max_size=4),
    texts=st.lists(odd, max_size=4),
)
def test_dates_in_text_agree_with_the_calendar_of_python(pattern, days, texts):
    texts += [day.strftime(pattern) for day in days]

    def expected(text):
        try:
            day = dt.datetime.strptime(text, pattern).date()
        except ValueError:
            return None
        # Unlike Python's, a day has two digits.
        return text if day.strftime(pattern) == text and FIRST <= day <= LAST else None

    assert cells_of(Date(name="a", format=pattern, **BOUNDS), texts) == [*map(expected, texts)]


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


def test_every_container_of_dates_means_the_same():
    connection = duckdb.connect()
    connection.register("rows", pa.table({"a": TYPED}))
    kinds = ("DATE", "TIMESTAMP", "TIMESTAMP_NS", "VARCHAR")
    for data in (*MOMENTS, *(connection.sql(f"SELECT a::{kind} AS a FROM rows") for kind in kinds)):
        assert cells_of(Date(name="a", **BOUNDS), data) == [*DAYS[:4], None], data


def test_cells_without_a_date_are_missing():
    """30 February, two formats, a time zone, strange and far cells among them."""
    given = ["2019-02-29", "2020-13-01", "2020-00-10", "01.02.2020", "2020-01-01Z", "20200101"]
    given += [20200101, True, 1e300, object(), pd.Timestamp("2020-01-01", tz="UTC"), dt.time(1)]
    given += [pd.NaT, np.datetime64("NaT"), None, "", np.datetime64(2**40, "Y"), "2020-1-1"]
    attribute = Date(name="a", **BOUNDS)
    assert cells_of(attribute, given) == [None] * len(given)
    far = [None, 2**62, -(2**62), 2**63 - 1, -(2**63)]
    for unit in ("s", "ns"):
        assert cells_of(attribute, pa.array(far, pa.timestamp(unit))) == [None] * 5


ORIGINS = [  # as the manuals of these programs give them
    ("%td", 21915, "2020-01-01"), ("%tc", 1893456000000, "2020-01-01"), ("%tm", 720, "2020-01"),
    ("%ty", 2020, "2020"), ("spss", 13797216000, "2020-01-01"), ("sas", 1893456000, "2020-01-01"),
    ("excel", 43831, "2020-01-01"), ("unix", 1577836800, "2020-01-01"),
]  # fmt: skip


@pytest.mark.parametrize(("form", "number", "day"), ORIGINS)
def test_numbers_since_an_origin(form, number, day):
    step = {4: "year", 7: "month", 10: "day"}[len(day)]
    ends = {"lower": "2010-01-01"[: len(day)], "upper": "2024-12-31"[: len(day)]}
    attribute = Date(name="a", format=form, step=step, **LOOSE, **ends)
    table = read(attribute, [number, str(number), "x", 1e300])
    assert attribute.format_value(table.values("a")[0]) == day
    assert table.to_arrow()["a"].to_pylist() == [number, number, None, None]


def test_times_are_cut_to_their_step_and_keep_their_zone():
    ends = {"lower": "2020-01-01T00:00", "upper": "2020-12-31T23:45", "step": "15min"}
    local = DateTime(name="a", **LOOSE, **ends)
    world = DateTime(name="a", timezone="Europe/Berlin", **LOOSE, **ends)
    texts = ["2020-07-01T10:20:59", "2020-07-01 10:20Z", "2020-07-01T12:20+02:00", "2020-07-01"]
    texts.append("2020-07-01T05:20-0500")
    at = dt.datetime(2020, 7, 1, 10, 15)
    zoned = at.replace(tzinfo=dt.UTC)
    assert cells_of(local, texts) == [at, None, None, dt.datetime(2020, 7, 1), None]
    assert cells_of(world, texts) == [None, zoned, zoned, None, zoned]
    series = pd.to_datetime(pd.Series(["2020-07-01 12:29", None])).dt.tz_localize("Europe/Berlin")
    for data in (pd.DataFrame({"a": series}), pd.DataFrame({"a": series.astype(object)})):
        assert cells_of(world, data) == [zoned, None]
        assert cells_of(local, data) == [None, None]


def test_the_type_of_dates_that_comes_out_follows_from_the_schema_alone():
    attributes = (
        Date(name="day", **BOUNDS),
        Date(name="text", format="%d.%m.%Y", **BOUNDS),
        DateTime(name="time", **BOUNDS),
    )
    for column in (["2020-01-01", None], [None, None], []):
        table = Table.read({a.name: column for a in attributes}, Schema(attributes))
        kinds = [*map(str, table.to_native("pandas").dtypes)]
        assert kinds == ["datetime64[s]", "string", "datetime64[s]"]
        kinds = [*map(str, table.to_native("polars").dtypes)]
        assert kinds == ["Date", "String", "Datetime(time_unit='ms', time_zone=None)"]


def test_sentinels_among_dates_are_missing_and_come_back():
    bounds = {"lower": "2018-01-01", "upper": "2024-12-31", "nullable": True}
    attribute = Date(name="a", refused=("9999-12-31",), unknown=(-9, "k.A."), **bounds)
    given = ["2020-01-01", "9999-12-31", dt.date(9999, 12, 31), -9, "k.A.", None]
    table = read(attribute, given)
    assert table.mask("a", "refused").tolist() == [False, True, True, False, False, False]
    assert table.mask("a", "unknown").tolist() == [False, False, False, True, True, False]
    back = Table.read(table.to_native(missing_as="codes"), Schema((attribute,)))
    assert back.codes("a").tolist() == table.codes("a").tolist()


@pytest.mark.parametrize("cell", ["1,5", "x", 99.0])
def test_error_about_a_number_names_decimal_for_any_cell(cell):
    number = Numeric(name="x", lower=0, upper=9)
    with pytest.raises(DataError, match=r'set decimal = "," in \[file\]\.$'):
        Encoder(number).encode([cell])


def test_refused_number_of_a_file_with_commas_is_short():
    number = Numeric(name="x", lower=0, upper=9)
    with pytest.raises(DataError, match=r"in the schema\.$"):
        Encoder(number, Layout(decimal=",")).encode(["1.5"])


def test_refused_date_names_format():
    day = Date(name="d", lower="2020-01-01", upper="2020-12-31")
    with pytest.raises(DataError, match="declare it with format"):
        Encoder(day).encode(["31/12/2020"])
