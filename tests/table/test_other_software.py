"""Files of other software: drafted, completed, synthesized, and read again by that software.

The table in docs/referees/measured.md has a row for each of these files.
"""

import csv
import datetime as dt
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pyreadstat
import pytest
import xlsxwriter

from completing import completed
from missdp import AllPairs, Date, Numeric
from missdp.schema.layout import PLAIN
from missdp.table import draft_columns
from missdp.table.written import write_blocks

N = 120
LABELS = {1: "woman", 2: "man", -7: "refused"}


def table():
    """Return a table of six columns.

    The columns are a key, codes with labels, codes with leading zeros, dates, numbers with missing
    values, and words.
    """
    rng = np.random.default_rng(0)
    days = [dt.date(2020, 1, 1) + dt.timedelta(days=int(k)) for k in rng.integers(0, 1500, N)]
    pay = np.round(rng.uniform(0, 90, N), 1)
    pay[::9] = np.nan
    found = {"id": rng.permutation(N) + 5000, "sex": rng.choice([1, 2, 1, 2, -7], N)}
    found |= {"zip": rng.choice(["01067", "10115"], N), "day": days, "pay": pay}
    return pd.DataFrame(found | {"grade": rng.choice(["low", "medium", "high"], N)})


def comma(frame, path):
    frame.to_csv(path, index=False, sep=";", decimal=",")


def quoted(frame, path):
    """As spreadsheets export text: with a mark of UTF-8, quotes everywhere, and CR LF."""
    how = {"quoting": csv.QUOTE_ALL, "lineterminator": "\r\n", "encoding": "utf-8-sig"}
    frame.to_csv(path, index=False, **how)


def by_cells(frame, path):
    book = xlsxwriter.Workbook(path)
    sheet, date = book.add_worksheet(), book.add_format({"num_format": "dd/mm/yy"})
    sheet.write_row(0, 0, frame.columns)
    for row, cells in enumerate(frame.astype(object).to_numpy(), 1):
        for place, cell in enumerate(cells):
            if isinstance(cell, dt.date):
                sheet.write_datetime(row, place, cell, date)
            elif cell == cell:
                sheet.write(row, place, cell)
    book.close()


def by_duckdb(options):
    def write(frame, path):
        query = "SELECT * REPLACE (CASE WHEN isnan(pay) THEN NULL ELSE pay END AS pay) FROM frame"
        duckdb.sql(f"COPY ({query}) TO '{path}' ({options})")

    return write


def arrow(frame, *, zone=None):
    found = pa.Table.from_pandas(frame, preserve_index=False)
    day = found["day"].cast(pa.timestamp("us", tz=zone)) if zone else found["day"]
    words = found["grade"].combine_chunks().dictionary_encode()
    found = found.set_column(3, "day", day)
    return found.set_column(5, "grade", words) if zone else found


def spss(frame, path):
    pyreadstat.write_sav(
        frame, path, column_labels={"sex": "Sex of the person"},
        variable_value_labels={"sex": LABELS},
        missing_ranges={"sex": [-7]}, variable_measure={"grade": "ordinal", "sex": "nominal"},
    )  # fmt: skip


def stata(frame, path):
    sex = frame["sex"].astype(object).replace(-7, "r")
    pyreadstat.write_dta(
        frame.assign(sex=sex), path, column_labels={"sex": "Sex of the person"},
        variable_value_labels={"sex": {1: "woman", 2: "man", "r": "refused"}},
        missing_user_values={"sex": ["r"]},
    )  # fmt: skip


def with_pandas(method, **options):
    """Return a function that writes a frame by one of its methods."""
    return lambda frame, path: getattr(frame, method)(path, **options)


def by_day_first(frame, path):
    day = [day.strftime("%d.%m.%Y") for day in frame["day"]]
    frame.assign(day=day).to_csv(path, index=False)


def by_days(frame, path):
    labels = {"sex": {1: "woman", 2: "man"}}
    frame = frame.astype({"day": "datetime64[s]"})
    frame.to_stata(path, write_index=False, convert_dates={"day": "td"}, value_labels=labels)


def read_csv(**options):
    return lambda path: pd.read_csv(path, dtype={"zip": str}, parse_dates=["day"], **options)


def read_by(read, **options):
    """Return a function that reads a file into a frame of pandas."""

    def found(path):
        rows = read(str(path), **options)
        return rows.df() if isinstance(rows, duckdb.DuckDBPyRelation) else rows.to_pandas()

    return found


def read_excel(path):
    return pd.read_excel(path, engine="calamine", dtype={"zip": str})


HEADLESS = {"header": None, "names": list(table().columns)}
CSV = partial(with_pandas, "to_csv", index=False)
ZIP = pa.csv.ConvertOptions(column_types={"zip": pa.string()})
BY_POLARS = read_by(pl.read_csv, schema_overrides={"zip": pl.String}, try_parse_dates=True)
FILES = {
    "pandas, comma": (".csv", CSV(), read_csv()),
    "pandas, semicolon and decimal comma": (".csv", comma, read_csv(sep=";", decimal=",")),
    "pandas, no header line": (".csv", CSV(header=False), read_csv(**HEADLESS)),
    "pandas, packed": (".csv.gz", CSV(), read_csv()),
    "pandas, tab": (".tsv", CSV(sep="\t"), read_csv(sep="\t")),
    "pandas, missing as NA": (".csv", CSV(na_rep="NA"), read_csv()),
    "pandas, day.month.year": (".csv", by_day_first, read_csv(date_format="%d.%m.%Y")),
    "pandas, Parquet": (".parquet", with_pandas("to_parquet"), pd.read_parquet),
    "pandas, Feather": (".feather", with_pandas("to_feather"), pd.read_feather),
    "pandas, Excel": (".xlsx", with_pandas("to_excel", index=False, engine="xlsxwriter"),
                      read_excel),
    "pandas, Stata": (".dta", by_days, partial(pd.read_stata, convert_categoricals=False)),
    "polars, comma": (".csv", lambda f, p: pl.from_pandas(f).write_csv(p), BY_POLARS),
    "polars, Parquet": (".parquet", lambda f, p: pl.from_pandas(f).write_parquet(p),
                        read_by(pl.read_parquet)),
    "polars, Arrow IPC": (".feather", lambda f, p: pl.from_pandas(f).write_ipc(p),
                          read_by(pl.read_ipc)),
    "duckdb, comma": (".csv", by_duckdb("HEADER"), read_by(duckdb.read_csv)),
    "duckdb, bar": (".csv", by_duckdb("HEADER, DELIM '|'"), read_by(duckdb.read_csv)),
    "duckdb, packed": (".csv.gz", by_duckdb("HEADER, COMPRESSION gzip"), read_by(duckdb.read_csv)),
    "duckdb, Parquet": (".parquet", by_duckdb("FORMAT parquet"), read_by(duckdb.read_parquet)),
    "Arrow, comma": (".csv", lambda f, p: pa.csv.write_csv(arrow(f), p),
                     read_by(pa.csv.read_csv, convert_options=ZIP)),
    "Arrow, dictionaries and time zones": (
        ".parquet", lambda f, p: pa.parquet.write_table(arrow(f, zone="Europe/Berlin"), p),
        read_by(pa.parquet.read_table)),
    "Arrow, Feather": (
        ".feather", lambda f, p: pa.feather.write_feather(arrow(f), p, "uncompressed"),
        read_by(pa.feather.read_table)),
    "csv, quoted with CR LF": (".csv", quoted, read_csv()),
    "gzip, semicolon": (".csv.gz", CSV(sep=";"), read_csv()),
    "XlsxWriter, dates by format": (".xlsx", by_cells, read_excel),
    "pyreadstat, SPSS": (".sav", spss, lambda p: pyreadstat.read_sav(p)[0]),
    "pyreadstat, Stata": (".dta", stata, lambda p: pyreadstat.read_dta(p)[0]),
    "pyreadstat, SAS transport": (".xpt", pyreadstat.write_xport, read_csv()),
}  # fmt: skip


def drafted(path, folder, *, header):
    """Return the schema that a person makes of a draft: all blocks pasted, other bounds of pay."""
    draft_columns(path, header=header).to_toml(folder / "d.toml")
    text = (folder / "d.toml").read_text()
    schema = completed(text)
    assert schema.keys == (("id",) if header else ())
    if not header:
        names = dict(zip(schema.file.header, HEADLESS["names"], strict=True))
        schema = completed(re.sub(r"column\d", lambda m: names[m[0]], text))
    pay = replace(schema["pay"], lower=0, upper=100, nullable=True, outside="missing")
    read = tuple(pay if a.name == "pay" else a for a in schema if a.name != "id")
    return replace(schema, attributes=read, keys=("id",))


QUICK = ("pandas, semicolon and decimal comma", "csv, quoted with CR LF", "duckdb, Parquet")
QUICK += ("XlsxWriter, dates by format", "pyreadstat, SPSS", "pyreadstat, Stata")
QUICK += ("pandas, packed", "pandas, tab", "polars, Arrow IPC", "pyreadstat, SAS transport")


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FILES],
)
def test_a_file_is_drafted_synthesized_and_read_again(name, tmp_path):
    suffix, write, read = FILES[name]
    path, frame = tmp_path / f"rows{suffix}", table()
    write(frame, path)
    schema = drafted(path, tmp_path, header="no header" not in name)
    assert isinstance(schema["day"], Date)
    assert isinstance(schema["pay"], Numeric)
    assert (schema["grade"].kind, schema["zip"].levels) == ("ordinal", ("01067", "10115"))
    labelled = bool(schema["sex"].labels)
    assert schema["sex"].kind == ("categorical" if labelled else "numeric")
    assert schema["sex"].refused == ((".r",) if name == "pyreadstat, Stata" else (-7,))
    found = []
    first = next(one for one in FILES if FILES[one][0] == suffix)
    for k, hole in enumerate((False, True)[: 1 + (name == first)]):  # in one cell
        write(frame.assign(pay=frame["pay"].mask(frame.index == 1)) if hole else frame, path)
        model = AllPairs(epsilon=5, delta=1e-6, random_state=0).fit(path, schema=schema)
        out = tmp_path / f"out{k}{'.csv' if suffix == '.xpt' else suffix}"  # it is only read
        drawn = model.sample_table(50, random_state=0)
        write_blocks([out], [(0, drawn.to_arrow())], schema=schema)
        found.append(read(out))
    assert [*map(str, found[0].dtypes)] == [*map(str, found[-1].dtypes)]
    check(found[0], schema)


def check(rows, schema):
    """Check rows as other software reads them."""
    assert rows["id"].tolist() == [*range(1, 51)]
    assert {*rows["zip"]} <= {"01067", "10115"}
    assert {*rows["grade"]} <= {"low", "medium", "high"}
    assert {float(cell) for cell in rows["sex"]} <= {1.0, 2.0}
    days = pd.to_datetime(rows["day"].astype(str).str[:10])
    assert days.between("2020-01-01", "2024-02-29").all()
    assert rows["pay"].astype(float).between(0, 100).all()
    assert [*rows.columns] == [*schema.output_columns.names] or schema.file != PLAIN


def test_the_page_has_a_row_for_each_file():
    page = Path(__file__).parents[2] / "docs" / "referees" / "measured.md"
    page = page.read_text(encoding="utf-8").partition("## Files of other software")[2]
    rows = re.findall(r"^\| ([^|]+?) \| `(\.[a-z.]+)` \|", page, re.M)
    assert rows == [(name, file[0]) for name, file in FILES.items()]
