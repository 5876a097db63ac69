"""Bad input is one typed error that quotes no cell, or follows the policy that is declared."""

import datetime as dt
import decimal
import zipfile

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyreadstat
import pytest

from missdp import Categorical, Date, DateTime, Numeric, Schema, Table
from missdp.errors import DataError, MissDPError, SchemaError
from missdp.table import draft_columns

DAY = {"name": "day", "lower": "2020-01-01", "upper": "2024-12-31"}
SEEN = {"name": "day", "lower": "2020-01-01T00:00", "upper": "2024-12-31T23:59", "timezone": "UTC"}
ROW = pd.DataFrame({"day": ["secret"] * 99})


def half(path, write):
    write(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def locked(path):
    """As Excel keeps a workbook with a password: not as an archive."""
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"secret" * 99)


def bomb(path):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", bytes(2**20))
    size, most = ((n).to_bytes(4, "little") for n in (2**20, 2**32 - 2))
    path.write_bytes(path.read_bytes().replace(size, most))


FILES = {
    "half of a .sav": (".sav", lambda p: half(p, lambda q: pyreadstat.write_sav(ROW, q))),
    "half of a .dta": (".dta", lambda p: half(p, lambda q: pyreadstat.write_dta(ROW, q))),
    "half of a .feather": (".feather", lambda p: half(p, ROW.to_feather)),
    "half of a .parquet": (".parquet", lambda p: half(p, ROW.to_parquet)),
    "half of a .xlsx": (".xlsx", lambda p: half(p, lambda q: ROW.to_excel(q, engine="xlsxwriter"))),
    "half of a .csv.gz": (".csv.gz", lambda p: half(p, ROW.to_csv)),
    "a .xlsx with a password": (".xlsx", locked),
    "a .xlsx that unpacks to gigabytes": (".xlsx", bomb),
    "no .xpt": (".xpt", locked),
    "text that is no .sas7bdat": (".sas7bdat", lambda p: p.write_text("secret")),
    "a quote that is never closed": (".csv", lambda p: p.write_text('day\n"secret\n2020-01-01\n')),
    "more cells than names": (".csv", lambda p: p.write_text("day,a\n1,2,secret\n")),
}


@pytest.mark.parametrize(("suffix", "make"), FILES.values(), ids=FILES)
def test_a_file_that_cannot_be_read_is_one_line(suffix, make, tmp_path):
    path = tmp_path / f"rows{suffix}"
    make(path)
    for read in (lambda: Table.read(path, Schema((Date(**DAY),))), lambda: draft_columns(path)):
        with pytest.raises(DataError) as caught:
            read()
        _check_line(caught.value)
    assert [*tmp_path.iterdir()] == [path]


CELLS = {
    "out of bounds": (Date, DAY, ["1066-10-14"]),
    "30 February": (Date, DAY, ["2021-02-30"]),
    "29 February of a common year": (Date, {**DAY, "format": "%d.%m.%Y"}, ["29.02.2021"]),
    "mixed formats": (Date, {**DAY, "format": "%d.%m.%Y"}, ["01.02.2021", "2021-02-01"]),
    "mixed formats, ISO": (Date, DAY, ["2021-02-01", "01.02.2021"]),
    "a number among dates": (Date, DAY, ["2021-02-01", 7.5]),
    "a zone where none is declared": (DateTime, {**SEEN, "timezone": None}, ["2021-02-01T10:00Z"]),
    "no zone where one is declared": (DateTime, SEEN, ["2021-02-01T10:00"]),
    "two zones, one of them none": (
        DateTime, SEEN, [dt.datetime(2021, 2, 1, tzinfo=dt.UTC), dt.datetime(2021, 2, 1)]),
    "a moment that does not exist": (DateTime, SEEN, ["2021-02-01T25:61Z"]),
    "no level": (Categorical, {"name": "day", "levels": ("x",)}, ["x", "secret"]),
    "a number that is none": (Numeric, {"name": "day", "lower": 0, "upper": 1}, ["1,5"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CELLS)
def test_a_cell_outside_the_domain_is_refused_or_follows_the_policy(case):
    kind, facts, cells = CELLS[case]
    with pytest.raises(DataError, match="outside its declared domain") as caught:
        Table.read({"day": cells}, Schema((kind(**facts),)))
    _check_line(caught.value, cells)
    table = Table.read({"day": cells}, Schema((kind(**facts, nullable=True, outside="missing"),)))
    assert table.mask("day").any()
    for place, hole in enumerate(table.mask("day")):  # whatever the other rows are
        alone = Table.read({"day": cells[place : place + 1]}, table.schema)
        assert alone.mask("day").tolist() == [hole]


def test_moments_of_two_zones_are_the_same_moments_where_a_zone_is_declared():
    cells = ["2021-02-01T10:00+02:00", "2021-02-01T08:00Z", "2021-02-01T03:00-0500"]
    table = Table.read({"day": cells}, Schema((DateTime(**SEEN),)))
    assert len({*table.values("day")}) == 1
    assert str(table.to_arrow()["day"].type) == "timestamp[s, tz=UTC]"


BIG = [2**53, 2**53 + 1]
SIZE = Numeric(name="x", lower=0, upper=2**53 - 1, integer=True)
HOLDERS = [
    lambda cells: {"x": cells},
    lambda cells: pd.DataFrame({"x": cells}),
    lambda cells: pl.DataFrame({"x": cells}),
    lambda cells: pa.table({"x": cells}),
    lambda cells: pa.table({"x": [*map(decimal.Decimal, cells)]}),
    lambda cells: {"x": [*map(str, cells)]},
]


@pytest.mark.parametrize("holder", HOLDERS)
def test_whole_numbers_that_floats_confuse_are_refused_or_kept_as_text(holder):
    with pytest.raises(DataError, match="outside its declared domain") as caught:
        Table.read(holder(BIG), Schema((SIZE,)))
    _check_line(caught.value, BIG)
    texts = Schema((Categorical(name="x", levels=(*map(str, BIG), "7")),))
    if holder is HOLDERS[-1]:
        assert Table.read(holder(BIG), texts).to_arrow()["x"].to_pylist() == [*map(str, BIG)]
    one = Schema((replaced := Categorical(name="x", levels=(str(BIG[1]), "7"), nullable=True,
                                          outside="missing"),))  # fmt: skip
    found = Table.read(holder([*BIG, 7]), one).codes("x").tolist()
    assert found[0] == replaced.missing_code  # which no float tells from the level
    assert found[2] == 1
    for unsafe in ({"upper": 2**53}, {"missing_codes": (2**53,), "nullable": True}):
        with pytest.raises(SchemaError, match=r"2\*\*53"):
            Numeric(**{"name": "x", "lower": 0, "upper": 9, **unsafe})
    stub = draft_columns(holder([*BIG, 7])).stubs["x"]
    assert "too large to be told apart" in stub


def test_decimals_are_kept_to_the_last_digit():
    cells = [decimal.Decimal(k) / 100 for k in range(0, 100_000, 7)]
    pay = Numeric(name="pay", lower=0, upper=1000, step=0.01)
    for holder in ({"pay": cells}, pa.table({"pay": cells}), pl.DataFrame({"pay": cells})):
        found = Table.read(holder, Schema((pay,))).to_arrow()["pay"].to_numpy()
        assert np.array_equal(found, [float(cell) for cell in cells])


def _check_line(error, cells=()):
    assert isinstance(error, MissDPError)
    assert error.__cause__ is error.__context__ is None
    said = str(error)
    assert "\n" not in said
    assert not [cell for cell in ("secret", *map(str, cells)) if len(cell) > 1 and cell in said]
