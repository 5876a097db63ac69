"""A table is the same from every holder of its rows, and bad input raises one typed error.

A cell outside the domain follows the policy that is declared, whatever the other rows are.
"""

import datetime as dt
import decimal
import zipfile
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest

from missdp import Categorical, Date, DateTime, Numeric, Schema, Table
from missdp.errors import DataError
from missdp.table import draft_columns, draft_schema
from refusing import refuses

RECORDS = [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, {"b": "y", "a": 2.0}]
SPARSE = [{"a": 1, "b": "x"}, {"b": "y"}, {"b": "y", "a": 2.0}]
ARROW = pa.table({"a": [1.0, None, 2.0], "b": ["x", "y", "y"]})
FRAME = pd.DataFrame(RECORDS)
SCHEMA = Schema(
    (Numeric(name="a", lower=0, upper=9, nullable=True), Categorical(name="b", levels=("x", "y")))
)


class Foreign:
    """A frame of a library that is not known here, which has Arrow's C interface alone."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        if self._table is None:
            raise ValueError("secret cell")
        return self._table.__arrow_c_stream__(requested_schema)


class Odd(dict[str, Any]):
    """A record that computes its cells."""

    def get(self, key, default=None):
        raise ValueError("secret cell")


HOLDERS = [
    (lambda: FRAME, "pandas"),
    (lambda: ARROW, "pyarrow"),
    (lambda: ARROW.combine_chunks().to_batches()[0], "pyarrow"),
    (lambda: ARROW.to_reader(max_chunksize=1), "pyarrow"),
    (lambda: Foreign(ARROW), "pyarrow"),
    (lambda: pl.from_arrow(ARROW).lazy(), "polars"),
    (lambda: {"b": ["x", "y", "y"], "a": (1, None, 2.0)}, "pandas"),
    (lambda: {"a": np.array([1, np.nan, 2]), "b": ["x", "y", "y"]}, "pandas"),
    (lambda: RECORDS, "pandas"),
    (lambda: tuple(SPARSE), "pandas"),
]


@pytest.mark.parametrize(("holder", "kind"), HOLDERS)
def test_a_table_is_equal_from_every_container(holder, kind):
    table = Table.read(holder(), SCHEMA)
    assert table.kind == kind
    assert table.to_arrow().to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, RECORDS[2]]
    assert draft_schema(holder())["b"].levels == ("x", "y")


def test_columns_of_records_are_declared_or_those_of_the_first():
    assert len(Table.read([], SCHEMA)) == 0
    either = Categorical(name="b", levels=("x", "y"), nullable=True)
    table = Table.read([{}, *SPARSE], Schema((SCHEMA["a"], either)))
    assert table.mask("b").tolist() == [True, False, False, False]
    assert draft_schema([{"a": 1}, {}]).names == ("a",)
    with refuses(DataError, "a record has a key that"):
        draft_schema([{"a": 1}, {"secret": 2}])


FAILING = pl.from_pandas(FRAME).lazy().with_columns(pl.lit("secret").cast(pl.Int64))
NO_TABLES = [
    ({"a": [1], "b": ["x", "y"]}, "same length"),
    ({"a": [1]}, "column 'b', which the data does not have"),
    ({"a": [1], "b": ["x"], "c": [1]}, "does not declare.*c"),
    ({"a": "1", "b": ["x"]}, "lists of cells"),
    (pd.concat([FRAME, FRAME["a"]], axis=1), "Repeated.*a"),
    (FRAME.assign(a=[0.5, "secret", None]), "cannot be read"),
    (FRAME.assign(a=pd.Series([2**70, 1, 0], dtype=object)), "outside"),
    (FAILING, "fails"),
    (["rows.csv"], "cannot read a table from 'list'"),
    *(({1, 2}, "from 'set'"), (None, "from 'NoneType'"), (3, "cannot read")),
    (Foreign(None), "a row is malformed"),
    ([*RECORDS, Odd(a=1)], "the records cannot be read"),
    ([*RECORDS, {"a": 1, "b": "x", "secret": 3}], "a record has a key that"),
    *(("none.csv", "no data file"), ("x" * 5000 + ".csv", "no data"), ("a\0.csv", "no data")),
]


@pytest.mark.parametrize(("data", "why"), NO_TABLES)
def test_unsupported_containers_raise_without_quotes(data, why):
    with refuses(DataError, why):
        Table.read(data, SCHEMA)


# -- files that cannot be read -------------------------------------------------------------------
DAY = {"name": "day", "lower": "2020-01-01", "upper": "2024-12-31"}
ROW = pd.DataFrame({"day": ["secret"] * 99})


def half(write):
    """Return a function that writes one half of a file."""

    def cut(path):
        write(path)
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])

    return cut


def locked(path):
    """As Excel keeps a workbook with a password: not as an archive."""
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"secret" * 99)


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(2**20))
    size, most = ((n).to_bytes(4, "little") for n in (2**20, 2**32 - 2))
    path.write_bytes(path.read_bytes().replace(size, most))


FILES = {
    "half of a .sav": half(lambda path: pyreadstat.write_sav(ROW, path)),
    "half of a .dta": half(lambda path: pyreadstat.write_dta(ROW, path)),
    "half of a .feather": half(ROW.to_feather),
    "half of a .parquet": half(ROW.to_parquet),
    "half of a .xlsx": half(lambda path: ROW.to_excel(path, engine="xlsxwriter")),
    "half of a .csv.gz": half(ROW.to_csv),
    "with a password, .xlsx": locked,
    "that unpacks to gigabytes, .xlsx": bomb,
    "no .xpt": locked,
    "text that is no .sas7bdat": lambda path: path.write_text("secret"),
    "a quote that is never closed .csv": lambda p: p.write_text('day\n"secret\n2020-01-01\n'),
    "more cells than names .csv": lambda path: path.write_text("day,a\n1,2,secret\n"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_cannot_be_read_is_one_line(name, tmp_path):
    path = tmp_path / f"rows{name.split(' ')[-1]}"
    FILES[name](path)
    for read in (lambda: Table.read(path, Schema((Date(**DAY),))), lambda: draft_columns(path)):
        with refuses(DataError):
            read()
    assert [*tmp_path.iterdir()] == [path]


# -- cells outside their domain ------------------------------------------------------------------
SEEN = {"name": "day", "lower": "2020-01-01T00:00", "upper": "2024-12-31T23:59"}
ISO, GERMAN = Date(**DAY), Date(**DAY, format="%d.%m.%Y")
LOCAL, WORLD = DateTime(**SEEN), DateTime(**SEEN, timezone="UTC")
AGE = Numeric(name="age", lower=0, upper=99, integer=True, missing_codes=(-9,), nullable=True)
SHARE = Numeric(name="x", lower=0, upper=1)
SAID, BIRTH, NOON = "secret-value", dt.date(1977, 7, 7), dt.datetime(2021, 2, 1)
OUTSIDE = [
    (ISO, ["1066-10-14"], ["2021-02-30"], ["2021-02-01", "01.02.2021"], ["2021-02-01", 7.5]),
    (GERMAN, ["29.02.2021"], ["01.02.2021", "2021-02-01"]),
    (LOCAL, ["2021-02-01T10:00Z"]),
    (WORLD, ["2021-02-01T10:00"], [NOON.replace(tzinfo=dt.UTC), NOON], ["2021-02-01T10:60Z"]),
    (Categorical(name="x", levels=("x",)), ["x", SAID], [BIRTH], [[SAID]]),
    (Categorical(name="x", levels=("a",)), ["a", None]),
    (AGE, [123456], [float("inf")], [0.123456], [SAID], [True], [BIRTH]),
    (Categorical(name="x", levels=(False, True)), [SAID], [123456]),
    (Categorical(name="x", levels=(9, 10)), [123456], [9.123456], [True]),
    *((SHARE, ["1,5"], [SAID], [b"\xffsecret"]), (SHARE, [0.5, None], [0.5, float("nan")])),
]


@pytest.mark.parametrize("case", OUTSIDE)
def test_a_refusal_quotes_no_cell_and_tells_no_number_or_the_cell_follows_the_policy(case):
    attribute, *columns = case
    name, texts = attribute.name, set()
    loose = Schema((replace(attribute, nullable=True, outside="missing"),))
    for cells in columns:
        for times in (1, 7):
            with refuses(DataError, name) as caught:
                Table.read({name: cells * times}, Schema((attribute,)))
            texts.add(str(caught.value))
        assert not [c for c in map(str, cells) if len(c) > 1 and c in str(caught.value)]
        holes = Table.read({name: cells}, loose).mask(name)
        assert holes.any()
        alone = [Table.read({name: [cell]}, loose).mask(name)[0] for cell in cells]
        assert alone == holes.tolist()
    assert len(texts) == 1


BIG = [2**53, 2**53 + 1]
LARGE = [
    lambda cells: {"x": cells},
    lambda cells: pd.DataFrame({"x": cells}),
    lambda cells: pl.DataFrame({"x": cells}),
    lambda cells: pa.table({"x": cells}),
    lambda cells: pa.table({"x": [*map(decimal.Decimal, cells)]}),
    lambda cells: {"x": [*map(str, cells)]},
]


@pytest.mark.parametrize("holder", LARGE)
def test_integers_above_float_precision_raise_or_stay_text(holder):
    size = Numeric(name="x", lower=0, upper=2**53 - 1, integer=True)
    with refuses(DataError, "contains a value that is not") as caught:
        Table.read(holder(BIG), Schema((size,)))
    assert not [number for number in BIG if str(number) in str(caught.value)]
    if holder is LARGE[-1]:
        texts = Schema((Categorical(name="x", levels=(*map(str, BIG), "7")),))
        assert Table.read(holder(BIG), texts).to_arrow()["x"].to_pylist() == [*map(str, BIG)]
    facts = {"nullable": True, "outside": "missing"}
    one = Categorical(name="x", levels=(str(BIG[1]), "7"), **facts)
    found = Table.read(holder([*BIG, 7]), Schema((one,))).codes("x").tolist()
    assert found[0] == one.missing_code  # which no float tells from the level
    assert found[2] == 1
    assert draft_columns(holder([*BIG, 7])).facts.attributes[0].kind == "open"


def test_decimals_are_kept_to_the_last_digit():
    cells = [decimal.Decimal(k) / 100 for k in range(0, 100_000, 7)]
    pay = Numeric(name="pay", lower=0, upper=1000, step=0.01)
    for holder in ({"pay": cells}, pa.table({"pay": cells}), pl.DataFrame({"pay": cells})):
        found = Table.read(holder, Schema((pay,))).to_arrow()["pay"].to_numpy()
        assert np.array_equal(found, [float(cell) for cell in cells])
