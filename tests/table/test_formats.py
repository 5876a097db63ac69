"""Files as other software writes them, read, and written again for that software to read."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyreadstat
import pytest

from missdp import Categorical, Date, DateTime, Numeric, Ordinal, Schema, Table
from missdp.errors import OutputError
from missdp.table import draft_columns, draft_schema
from missdp.table.read_files import READABLE, DataFile
from missdp.table.written import check_holds, numbered_paths, output_format, write_blocks

DAYS = {"lower": "2000-01-01", "upper": "2030-12-31", "nullable": True}
SEX = {"nullable": True, "label": "Sex of the person"}
PAY = {"lower": 0, "upper": 99, "nullable": True, "labels": {0: "none"}}


def facts(suffix=""):
    """Return a schema. Codes of Stata and SAS are letters."""
    no, unsure = (".r", ".d") if suffix == ".dta" else (-7, -8)
    named = {1: "woman", 2: "man", no: "would not say"}
    return Schema(
        (
            Categorical(name="sex", levels=(1, 2), refused=(no,), labels=named, **SEX),
            Ordinal(name="grade", levels=("low", "high"), nullable=True, label="Grade"),
            Numeric(name="pay", unknown=(unsure,), **PAY),
            Numeric(name="size", lower=0, upper=9, integer=True),
            Categorical(name="ok", levels=(False, True), nullable=True),
            Date(name="day", **DAYS),
            DateTime(name="seen", **DAYS),
        )
    )


SCHEMA = facts()
FORMATS = sorted({*READABLE} - {".zsav", ".sas7bdat", ".xpt", ".arrow"})  # those that are written


def rows_for(suffix=""):
    no, unsure = (".r", ".d") if suffix == ".dta" else (-7, -8)
    first, second = dt.date(2024, 2, 29), dt.date(2000, 1, 1)
    seen = [dt.datetime(day.year, 3, 4, 13, 30, 59) for day in (first, second)]
    columns = {
        "sex": [1, no, None], "grade": ["low", "high", None], "pay": [10.5, unsure, None],
        "size": [3, 0, 9], "ok": [True, False, None], "day": [first, second, None],
        "seen": [*seen, None],
    }  # fmt: skip
    return Table.read(columns, facts(suffix))


ROWS = rows_for()


def written(path, table=ROWS):
    write_blocks([path], [(0, table.to_arrow(missing_as="codes"))], schema=table.schema)
    return path


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_table_is_the_same_from_every_file_and_no_type_follows_from_its_cells(suffix, tmp_path):
    """Of the tables of one cell, that without it, and none at all: types follow from the schema."""
    table = rows_for(suffix)
    mask = {name: np.array([True, True, False]) for name in SCHEMA.nullable}
    found = []
    for k, rows in enumerate((table, table.with_missing(mask), table.take(np.zeros(0, int)))):
        path = written(tmp_path / f"{k}{suffix}", rows)
        assert DataFile(path).names == SCHEMA.names
        if not k:
            again = Table.read(path, facts(suffix))
            for name in SCHEMA.names:
                assert again.codes(name).tolist() == table.codes(name).tolist(), name
            assert again.to_arrow().equals(table.to_arrow())
        if suffix in (".sav", ".dta"):
            read = getattr(pyreadstat, f"read_{suffix[1:]}")
            _, about = read(path, metadataonly=True)
            formats = about.original_variable_types | {"grade": "text"}  # as wide as its cells
            found.append((about.readstat_variable_types, formats, about.variable_value_labels))
        elif suffix == ".parquet":
            found.append(pa.parquet.read_schema(path))
        elif suffix == ".feather":
            found.append(pa.feather.read_table(path).schema)
    assert all(one == found[0] for one in found)


def test_spss_reads_labels_codes_dates_and_measures(tmp_path):
    frame, about = pyreadstat.read_sav(written(tmp_path / "rows.sav"), user_missing=True)
    assert about.column_names_to_labels["sex"] == "Sex of the person"
    assert about.variable_value_labels["sex"] == {1: "woman", 2: "man", -7: "would not say"}
    assert about.missing_ranges["sex"] == [{"lo": -7.0, "hi": -7.0}]
    assert about.variable_measure["grade"] == "ordinal"
    assert frame["sex"].tolist()[:2] == [1, -7]
    assert frame["day"].tolist()[:2] == [dt.date(2024, 2, 29), dt.date(2000, 1, 1)]
    assert pd.Timestamp(frame["seen"][0]) == pd.Timestamp("2024-03-04 13:30:59")


def test_stata_reads_labels_letters_and_dates(tmp_path):
    path = written(tmp_path / "rows.dta", rows_for(".dta"))
    _, about = pyreadstat.read_dta(path, user_missing=True)
    assert about.variable_value_labels["sex"] == {1: "woman", 2: "man", "r": "would not say"}
    assert about.missing_user_values == {"sex": ["r"], "pay": ["d"]}
    frame = pd.read_stata(path)
    assert frame["sex"].astype(object).tolist()[0] == "woman"
    assert frame["day"].tolist()[0] == pd.Timestamp("2024-02-29")


def test_dates_beyond_the_calendar_are_outside_and_refuse_no_other_row(tmp_path):
    frame = pd.DataFrame({"day": [86400.0 * 161000, 9e15, -1e300, np.nan]})
    pyreadstat.write_sav(frame, tmp_path / "far.sav", variable_format={"day": "DATE11"})
    table = Table.read(tmp_path / "far.sav", Schema((Date(name="day", outside="missing", **DAYS),)))
    assert table.mask("day").tolist() == [False, True, True, True]


def test_letters_among_dates_leave_the_other_dates_as_they_are(tmp_path):
    for cells in ([20000.0, 20001.0], [20000.0, "b"]):
        frame = pd.DataFrame({"day": pd.Series(cells, dtype=object)})
        options = {"missing_user_values": {"day": ["b"]}, "variable_format": {"day": "%td"}}
        pyreadstat.write_dta(frame, tmp_path / "days.dta", **options)
        schema = Schema((Date(name="day", refused=(".b",), **DAYS),))
        days = Table.read(tmp_path / "days.dta", schema)
        assert days.to_arrow()["day"][0].as_py() == dt.date(2014, 10, 4)
    assert days.mask("day", "refused").tolist() == [False, True]


def test_a_column_of_letters_alone_is_read_like_any_other(tmp_path):
    facts = {"lower": 0, "upper": 9, "nullable": True, "outside": "clamp", "refused": (".a",)}
    for cells in (["a"], ["a", np.nan], ["a", "b", 7.0]):
        frame = pd.DataFrame({"pay": pd.Series(cells, dtype=object)})
        pyreadstat.write_dta(frame, tmp_path / "pay.dta", missing_user_values={"pay": ["a", "b"]})
        table = Table.read(tmp_path / "pay.dta", Schema((Numeric(name="pay", **facts),)))
        assert table.mask("pay", "refused").tolist() == [cell == "a" for cell in cells]


@pytest.mark.parametrize("nullable", [True, False])
@pytest.mark.parametrize("day", [-6e10, 265_638_280_000.0, 265e9, 13e9])  # of the year -319, 10000
def test_a_code_among_dates_leaves_dates_beyond_the_calendar_as_they_are(day, nullable, tmp_path):
    def codes(*cells):
        options = {"variable_format": {"day": "DATE11"}, "missing_ranges": {"day": [-99]}}
        pyreadstat.write_sav(pd.DataFrame({"day": cells}), tmp_path / "days.sav", **options)
        facts = {**DAYS, "nullable": nullable, "outside": "clamp", "bins": 5}
        return Table.read(tmp_path / "days.sav", Schema((Date(name="day", **facts),))).codes("day")

    assert codes(day, 13e9).tolist() == codes(day, 13e9, -99.0)[:2].tolist()


def test_columns_that_a_file_cannot_hold_are_refused_early(tmp_path):
    spaced = Schema((Numeric(name="two words", lower=0, upper=1),))
    for suffix in (".sav", ".dta"):
        with pytest.raises(OutputError, match="do not fit this format"):
            check_holds(tmp_path / f"rows{suffix}", spaced)
        check_holds(tmp_path / f"rows{suffix}", facts(suffix))
        with pytest.raises(OutputError, match="have both"):
            check_holds(tmp_path / f"rows{suffix}", facts(suffix), "labels")
    for suffix in (".sas7bdat", ".xpt", ".arrow", ".xls", ""):
        with pytest.raises(OutputError, match="end the name in"):
            output_format(tmp_path / f"rows{suffix}")
    assert not list(tmp_path.iterdir())
    assert [p.name for p in numbered_paths(tmp_path / "a.csv.gz", 2)] == [
        "a-1.csv.gz",
        "a-2.csv.gz",
    ]


def test_text_is_never_a_formula(tmp_path):
    levels = ("=1+1", "https://a.b")
    schema = Schema((Categorical(name="t", levels=levels),))
    table = Table.read({"t": [*levels]}, schema)
    path = written(tmp_path / "rows.xlsx", table)
    assert Table.read(path, schema).codes("t").tolist() == [0, 1]


def test_labels_take_the_place_of_levels_where_asked():
    labelled = ROWS.to_arrow(values="labels")
    assert labelled["sex"].to_pylist() == ["woman", None, None]
    assert labelled["grade"].to_pylist()[0] == "low"
    assert pa.types.is_string(ROWS.take(np.array([2])).to_arrow(values="labels")["sex"].type)


def test_labels_are_kept_in_files_of_schemas(tmp_path):
    SCHEMA.to_toml(tmp_path / "s.toml")
    assert Schema.from_toml(tmp_path / "s.toml") == SCHEMA
    assert Schema.from_dict(SCHEMA.to_dict()) == SCHEMA


def test_undeclared_levels_become_other_cell_by_cell():
    towns = Categorical(name="t", levels=("Ulm", "Bonn", "else"), outside="other", other="else")
    cells = ["Ulm", "secret", None, 7, "Bonn", b"\xff"]
    for n in range(1, len(cells) + 1):  # whatever the other rows are
        table = Table.read({"t": cells[:n]}, Schema((towns,)))
        assert table.codes("t").tolist() == [0, 2, 2, 2, 1, 2][:n]
    holes = Schema((replace(towns, nullable=True, missing_codes=(9,)),))
    assert Table.read({"t": [*cells, 9]}, holes).codes("t").tolist() == [0, 2, 3, 2, 1, 2, 3]
    assert Schema.from_dict(holes.to_dict()) == holes
    assert not towns.refuses


def test_a_draft_marks_declarations_of_a_file(tmp_path):
    found = {a.name: a for a in draft_columns(written(tmp_path / "rows.sav")).facts}
    assert (found["sex"].levels, found["grade"].label) == ((1, 2), "Grade")
    assert dict(found["sex"].labels)["-7"] == "would not say"
    for attribute in found.values():
        marked = [
            bool(getattr(attribute, f)) <= (f in attribute.undeclared) for f in ("label", "labels")
        ]
        assert all(marked)


def test_notebooks_show_public_facts_alone():
    shown = SCHEMA._repr_html_()
    assert shown.count("<tr>") == 1 + len(SCHEMA)
    assert "woman, man" in shown
    assert "2000-01-01 to 2030-12-31" in shown
    draft = draft_schema({"a": ["<secret>", "x"], "n": [12345, 23456]})
    assert not [cell for cell in ("secret", "12345", "23456") if cell in draft._repr_html_()]
    named = Schema((Categorical(name="<b>", levels=("<i>",)),))._repr_html_()
    assert "<b>" not in named
    assert "<i>" not in named
