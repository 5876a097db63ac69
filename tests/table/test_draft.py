"""Every table can be read by its own draft.

Drafts describe numbers, dates and codes.
"""

import csv
import datetime as dt
import decimal
import json
import random
import time
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completing import completed as pasting
from completing import pasted
from missdp import AllPairs, Categorical, Numeric, OpenCategorical, Schema, Table
from missdp.cli.main import main
from missdp.errors import DataError
from missdp.schema.attributes import KINDS, read_number
from missdp.schema.open_categorical import with_max_levels
from missdp.synth.noisy_counts import SmallTableWarning
from missdp.table import distinct_cells, draft_columns, draft_schema
from missdp.table.number_styles import number_style
from refusing import refuses

D = decimal.Decimal
SECRET = 2**53 + 1234567


def drafted(cells):
    """The attribute that is drafted for a column of text or numbers."""
    return draft_schema(pd.DataFrame({"x": cells}))["x"]


def as_file(draft, folder):
    """The text of a draft's file."""
    draft.to_toml(folder / "d.toml")
    return (folder / "d.toml").read_text(encoding="utf-8")


def blocks(text):
    """The attributes of a draft's comments, as a person pastes them."""
    rows = [row for block in pasted(text) for row in block.get("attribute", [])]
    return list(Schema.from_dict({"attribute": rows}))


def read_by_its_draft(data, folder):
    """Read data as a person does who accepts the draft as it is."""
    draft = draft_columns(data)
    document = tomllib.loads(as_file(draft, folder))
    assert all(attribute["undeclared"] for attribute in document["attribute"])
    schema = Schema.from_dict(document)
    of_file = ["[file]"] * bool(schema.file.undeclared)
    assert {*schema.undeclared} == {*schema.names, *schema.ignored_columns, *of_file}
    Table.read(data, with_max_levels(schema))


words = ["7", "007", "1.0", "a", " a", "", " ", "?", "NA", "NaN", "nan", "inf", "-Inf", "Refused"]
words += ["DK", "iap", ".r", ".", "-1", "-7", "-9.0", "97", "99", "999", "1", "True", "true"]
words += ["FALSE", "2020-01-01", "1e400", "None", "9007199254740993"]
glyphs = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
text = st.sampled_from(words) | st.text(glyphs, max_size=4)
odd = st.sampled_from([-9, -8.0, -1, 97, 98, 999, "Don't know", [1], "\ud800", pd.NA, pd.NaT, 1j])
numbers = st.integers(-(2**70), 2**70) | st.integers(0, 9) | st.floats() | st.decimals()
moments = st.dates() | st.datetimes() | st.binary(max_size=3)
typed = st.none() | st.booleans() | numbers | moments | odd | text
rows = st.integers(1, 4).flatmap(lambda n: st.lists(st.tuples(*[text] * n), max_size=3))


@pytest.mark.long
@settings(max_examples=30)
@given(rows)
def test_a_csv_file_is_read_by_its_own_completed_draft(tmp_path, rows):
    path = tmp_path / "x.csv"
    with open(path, "w", newline="", encoding="utf-8") as lines:
        csv.writer(lines).writerows([[f"c{i}" for i in range(len([*rows, "c"][0]))], *rows])
    if rows:
        read_by_its_draft(path, tmp_path)
        return
    with refuses(DataError, "no rows to draft a schema from"):
        draft_columns(path)


@pytest.mark.long
@settings(max_examples=40)
@given(cells=st.lists(typed, min_size=1, max_size=5), guessed=st.booleans())
def test_a_frame_is_read_by_its_own_completed_draft(cells, guessed, tmp_path):
    array = np.fromiter(cells, dtype=object, count=len(cells))
    frame = pd.DataFrame({"a": pd.Series(array, dtype=object), "b": ["x"] * len(cells)})
    if guessed and "\ud800" not in [cell for cell in cells if isinstance(cell, str)]:
        frame = frame.infer_objects()
    read_by_its_draft(frame, tmp_path)


def test_a_draft_leaves_odd_columns_unread_and_reads_others(tmp_path):
    born = [dt.date(2020, 1, 1), None, dt.date(1999, 1, 1)]
    frame = pd.DataFrame({
        "age": [31, 70, 31], "big": [SECRET, 1, 2], "odd\nname": [[1], [2], None],
        "none": [None] * 3, "born": born, "price": [D("0.10"), D("2.5"), None],
        "yes": ["True", "true", "FALSE"]})  # fmt: skip
    draft = draft_columns(frame)
    assert set(draft.unread) == {"big", "odd\nname"}
    written = as_file(draft, tmp_path)
    again = Schema.from_toml(tmp_path / "d.toml")
    assert (again.keys, again.ignore) == (("big",), ("odd\nname",))
    assert again.undeclared["big"] == again.undeclared["odd\nname"] == ("kind",)
    assert again.declare_public().undeclared == {}
    assert again.names == ("age", "none", "born", "price", "yes")
    assert (again["none"].levels, again["none"].kinds) == ((), ("not_applicable",))
    assert again["none"].undeclared == ("levels", "not_applicable")
    assert again["born"].format_value(again["born"].lower) == "1999-01-01"
    assert again["yes"].levels == (False, True)
    assert (again["price"].lower, again["price"].upper) == (0.1, 2.5)
    assert str(SECRET) not in written
    # Nothing is made up where no row has a value, however much noise there is.
    public = Schema((again["none"], Numeric(name="age", lower=0, upper=99, bins=2)))
    with pytest.warns(SmallTableWarning):
        model = AllPairs(epsilon=0.1, random_state=0).fit(
            frame[["none", "age"]], schema=public, undeclared="accept"
        )
    drawn = model.sample(50)
    assert drawn["none"].isna().all()
    assert drawn["age"].notna().all()


def test_a_column_without_levels_reads_cells_of_any_kind():
    odd = Categorical(name="x", levels=(), not_applicable=(), outside="missing")
    assert odd.kinds == ("not_applicable",)
    table = Table.read(pd.DataFrame({"x": [[1], None, "a"]}), Schema((odd,)))
    assert table.mask("x", "not_applicable").all()


STEPS = [
    (lambda k: k / 100 + 0.3, 0.01), (lambda k: k / 2, 0.5), (lambda k: 0.25 * k - 3, 0.25),
    (lambda k: 5 * k, None),  # whole numbers may be rare
    (lambda k: 10 * k + 30, 10.0), (lambda k: 100 * k - 500, 100.0), (lambda k: 3000 * k, 1000.0),
    (lambda k: 10 * k + 7, None),  # not rounded to tens
    (lambda k: k / 7, None), (lambda k: [0.1, 2.0**52 - 0.5][k % 2] + k, None),
    (lambda k: k % 9 / 2, None),  # so few tell nothing
]  # fmt: skip


@pytest.mark.parametrize(("numbers", "step"), STEPS)
def test_the_step_of_numbers_is_proposed_and_marked(numbers, step):
    cells = [round(float(numbers(k)), 10) for k in range(40)]
    found = drafted([*cells, None])
    assert (found.step, "step" in found.undeclared) == (step, step is not None)
    table = Table.read(pd.DataFrame({"x": cells}), Schema((found,)))
    assert table.values("x").tolist() == pytest.approx(cells, rel=1e-12)


@pytest.mark.parametrize("written", ["%m/%d/%y", "%d/%m/%Y %I:%M %p"])
def test_dates_that_are_not_read_are_said_to_be_so_and_the_block_reads_years(written, tmp_path):
    days = pd.date_range("1950-01-30", periods=800, freq="D").strftime(written)
    many = draft_columns(pd.DataFrame({"day": [*days, "", "unknown"]}))
    few = draft_columns(pd.DataFrame({"day": days[:30]}))
    assert (few.unread, few.doubts, len(few.facts.attributes)) == ({}, many.doubts, 1)
    assert not Schema(many.facts.attributes).undeclared.keys() - {"day"}
    for draft in (many, few):
        text = as_file(draft, tmp_path)
        (years,) = blocks(text)
        assert text.count("# column 'day' looks like dates: write a year, a month or") == 1
        assert (years.name, years.integer) == ("day", True)
        assert years.undeclared == (("unknown",) if draft is many else ())
        recoded = Table.read(pd.DataFrame({"day": ["1950", "2020"]}), Schema((years,)))
        assert not recoded.mask("day").any()
    others = draft_columns(pd.DataFrame({"id": [f"{day}x{k}" for k, day in enumerate(days)]}))
    assert others.doubts == {}


DATES = [
    ("%Y-%m-%d", {}, None), ("%d.%m.%Y", {"format": "%d.%m.%Y"}, None),
    ("%-d/%-m/%Y", {"format": "%-d/%-m/%Y"}, None), ("%d-%b-%Y", {"format": "%d-%b-%Y"}, None),
    ("%m/%d/%Y", {"format": "%m/%d/%Y"}, None), ("%d/%m/%Y", {"format": "%d/%m/%Y"}, "%m/%d/%Y"),
    ("%Y-%m-%dT%H:%M:%S", {"step": "second"}, None),
    ("%d.%m.%Y %H:%M", {"format": "%d.%m.%Y %H:%M", "step": "minute"}, None),
    ("%Y-%m-%dT%H:%M+02:00", {"step": "minute", "timezone": "UTC"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("written", "facts", "other"), DATES)
def test_dates_are_drafted_in_the_format_that_reads_all_of_them(written, facts, other):
    freq = ("23h7min" if "%H" in written else "D") + ("11s" if "%S" in written else "")
    days = pd.date_range("1999-01-01", periods=12 if other else 700, freq=freq)
    cells = [*days.strftime(written), "", "unknown"]
    draft = draft_columns({"day": cells})
    (found,) = draft.facts.attributes
    assert {k: found.to_dict().get(k) for k in facts} == facts
    assert (found.format is None) == ("format" not in facts)
    assert found.kind == ("datetime" if "step" in facts else "date")
    assert {"lower", "upper", "nullable", "unknown", *facts} <= {*found.undeclared}
    assert ("or as well as" in draft.reasons["day"]) == (other is not None)
    assert not Table.read({"day": cells}, Schema((found,))).mask("day")[:-2].any()
    for typed in (days, days.astype("datetime64[us]"), pl.Series(days).to_arrow()):
        (by_type,) = draft_columns(pa.table({"day": typed})).facts.attributes
        assert (by_type.format, by_type.kind) == (None, "datetime" if "%H" in written else "date")


@pytest.mark.long
def test_very_many_dates_and_dates_that_stand_for_none_are_read_by_their_draft(monkeypatch):
    days = pd.date_range("1905-03-01", periods=23_000, freq="D").strftime("%Y-%m-%d")
    days = [*days[::-1], "1905-02-01"]
    table = {"day": ["9999-12-31", *days]}
    (found,) = draft_columns(table).facts.attributes
    assert (found.missing_codes, found.outside) == (("9999-12-31",), "error")
    assert found.format_value(found.lower) == "1905-02-01"
    assert Table.read(table, Schema((found,))).mask("day").sum() == 1
    monkeypatch.setattr(distinct_cells, "MAX_CELLS", 1000)  # most of which are left out
    moments = pd.Series(pd.date_range("2001-03-15", periods=3000, freq="37h"))
    shuffled = moments.sample(frac=1, random_state=0).dt.strftime("%d.%m.%Y %H:%M")
    table = {"seen": [*shuffled]}
    (found,) = draft_columns(table).facts.attributes
    assert (found.format, found.outside) == ("%d.%m.%Y %H:%M", "missing")
    assert not Table.read(table, Schema((found,))).mask("seen").any()


ORDERS = [
    (["low", "middle", "high", "top"], ("low", "middle", "high", "top")),
    (["high", "low", "medium"], ("low", "medium", "high")),
    (["Often", "Never", "Sometimes"], ("Never", "Sometimes", "Often")),
    (["65+", "18-24", "25-64", "under 18"], None),
    (["65+", "18-24", "25-64"], ("18-24", "25-64", "65+")),
    (["yes", "no"], None), (["red", "low", "high"], None), (["A1", "A2", "B1"], None),
    (["10", "9", "007"], None),
    (["1 room", "2 rooms", "10 rooms"], ("1 room", "2 rooms", "10 rooms")),
]  # fmt: skip


@pytest.mark.parametrize(("cells", "order"), ORDERS)
def test_words_in_an_order_are_drafted_so(cells, order):
    draft = draft_columns({"x": cells * 5})
    (found,) = draft.facts.attributes
    assert found.kind == ("ordinal" if order else "categorical")
    assert found.levels == (order or tuple(sorted(cells)))
    assert ("Words in an order" in draft.reasons.get("x", "")) == (order is not None)
    assert "levels" in found.undeclared


def everything(n=400):
    """Rows of which each column is one that a draft has to recognise, as text."""
    rng = np.random.default_rng(0)
    came = np.datetime64("2020-01-01") + rng.integers(0, 900, n)
    stay, age = rng.integers(0, 30, n), rng.integers(20, 90, n) * 365
    day = lambda days: pd.Series(days).dt.strftime("%d.%m.%Y")  # noqa: E731
    return pd.DataFrame(
        {
            "patient_id": rng.permutation(n) + 1001,
            "name": [f"secret {k}" for k in range(n)],
            "zip": rng.choice(["01067", "10115", "80331"], n),
            "smoker": rng.choice(["0", "1", ""], n),
            "pain": rng.choice(["mild", "severe", "none"], n),
            "admission": day(came), "discharge": day(came + stay), "birth": day(came - age),
            "pay": [f"{k:,.2f}".translate({44: ".", 46: ","}) for k in rng.uniform(0, 9e4, n)],
            "hours": rng.choice([*map(str, range(60)), "-1", "-1", "-1", "-1"], n),
            "ward": rng.choice(["surgery", "medicine", "Refused"], n),
        }
    )  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("header", [True, False])
def test_every_block_works_when_pasted_and_says_in_a_line_why(header, tmp_path):
    frame, path = everything(), tmp_path / "rows.csv"
    frame.to_csv(path, sep=";", index=False, header=header)
    draft = draft_columns(path, header=header)
    text = as_file(draft, tmp_path)
    names = {name: name if header else f"column{k + 1}" for k, name in enumerate(frame)}
    assert "secret" not in text
    for name in ("zip", "smoker", "pain", "admission", "discharge", "birth", "hours", "ward"):
        assert f'# {draft.reasons[names[name]]}\n[[attribute]]\nname = "{names[name]}"' in text
    given = [block.get("attribute", [{}])[0] for block in pasted(text)]
    stays = [block for block in given if block.get("kind") == "difference"]
    facts = [[b[fact] for fact in ("unit", "undeclared", "earlier", "later")] for b in stays]
    assert facts == [
        ["day", ["lower", "upper"], names["admission"], names["discharge"]],
        ["year", ["lower", "upper"], names["birth"], names["admission"]],
    ]
    schema = pasting(text)
    layout = schema.file
    assert (layout.decimal, layout.thousands) == (",", ".")
    assert schema.keys == ((names["patient_id"],) if header else ())
    assert schema.ignore == (names["name"],)
    assert schema[names["pay"]].step == 0.01
    pay = replace(schema[names["pay"]], upper=10**5)
    schema = replace(schema, attributes=tuple(pay if a.name == pay.name else a for a in schema))
    table = Table.read(path, schema)
    assert table.schema[names["smoker"]].levels == (0, 1)
    assert not table.mask(names["pay"]).any()
    assert table.mask(names["hours"], "not_applicable").any()
    if header:
        model = AllPairs(epsilon=5, delta=1e-6, random_state=0).fit(path, schema=schema)
        drawn = model.sample(200, random_state=0)
        assert {*drawn.columns} == {*frame.columns} - {"name"}
        dates = (pd.to_datetime(drawn[n], format="%d.%m.%Y") for n in ("admission", "discharge"))
        assert np.less_equal(*dates).all()


NAMES_OF_KEYS = ["patient_id", "CaseNo", "hhid", "persid", "idno", "pid", "HHID2", "respid", "seqn"]


@pytest.mark.parametrize("name", NAMES_OF_KEYS)
@pytest.mark.parametrize("cells", [range(200), [f"P{k:03}" for k in range(200)]])
def test_a_draft_of_a_key_is_never_read(name, cells):
    draft = draft_columns({name: [*cells], "age": [*range(40)] * 5})
    assert (draft.facts.keys, draft.facts.undeclared_columns) == ((name,), (name,))
    assert "fresh keys are written in its place" in draft.reasons[name]


@pytest.mark.parametrize("name", ["hhid", "persid", "idno", "pid", "id"])
def test_a_draft_of_unit_identifiers_is_a_key(name):
    for cells in ([*range(200)] * 2, [f"P{k}" for k in range(200)] * 2):
        draft = draft_columns({name: cells, "age": [*range(40)] * 10})
        assert draft.facts.keys == (name,)
        assert "looks like an identifier of units" in draft.unread[name]
        assert "write [unit] above" in draft.reasons[name]


def test_a_draft_of_numbers_without_a_key_name_reads_them():
    numbers = [*range(200)]
    none = ({"paid": numbers, "void": numbers, "age": numbers}, {"id": [*numbers, 7]})
    twice = {"age": [*numbers] * 2, "id": [k % 50 for k in range(400)]}
    for columns in (*none, {"id": [k / 2 for k in numbers]}, twice):
        assert draft_columns(columns).unread == {}, columns.keys()


def test_few_numbers_on_no_step_are_proposed_as_spikes():
    few = [*([0.5, 2.5, 6, 9, None] * 30)]
    many = [0.5 * i for i in range(150)]
    said = draft_columns({"years": few, "pay": many, "sons": [1, 2, 3] * 50}).reasons
    assert {name for name, why in said.items() if "as spikes" in why} == {"years"}
    assert "years" not in draft_columns({"years": few[:40]}).reasons


@pytest.mark.long
@pytest.mark.parametrize("form", ["csv", "object", "arrow", "dictionary"])
def test_many_codes_with_zeros_in_front_are_no_numbers(form, tmp_path):
    """Also where the only one is the last of all, long after the distinct cells were too many."""
    # The rows of the CSV file take two batches, and the rows of other forms take one batch.
    rows = 70_000 if form == "csv" else 25_000
    codes = [*(str(10_000 + i) for i in range(rows)), "01067"]
    if form == "object":
        codes = [f"{7 * i % 100_000:05}" for i in range(25_000)]
    frame = pd.DataFrame({"zip": pd.Series(codes, dtype=object), "other": "a"})
    if form == "csv":
        frame.to_csv(tmp_path / "rows.csv", index=False)
        frame = tmp_path / "rows.csv"
    elif form != "object":
        column = pa.array(codes)
        column = column.dictionary_encode() if form[0] == "d" else column
        frame = pa.table({"zip": column, "other": ["a"] * len(codes)})
    draft = draft_columns(frame)
    assert "some with leading zeros: it looks like an identifier" in draft.unread["zip"]
    assert draft.facts.keys == ("zip",)
    (digits,) = blocks(as_file(draft, tmp_path))
    first = pd.DataFrame({"zip": [code[0] for code in codes]})
    assert not Table.read(first, Schema((digits,))).mask("zip").any()


@pytest.mark.slow
def test_draft_of_60000_rows_and_30_columns_takes_seconds(tmp_path):
    rng, n = np.random.default_rng(0), 60_000
    columns = {f"number{k}": rng.normal(50, 10, n).round(k % 7) for k in range(14)}
    columns |= {f"level{k}": rng.choice([f"l{j}" for j in range(3 + 5 * k)], n) for k in range(10)}
    days = pd.Series(np.datetime64("2015-01-01") + rng.integers(0, 3000, n))
    columns |= {"day": days.astype(str), "other": days.dt.strftime("%d.%m.%Y")}
    columns |= {"id": rng.permutation(n), "zip": [f"{k:05}" for k in rng.integers(999, 99_999, n)]}
    columns |= {"name": [f"person {k}" for k in range(n)], "code": rng.choice([1, 2, 3, -9], n)}
    pd.DataFrame(columns).to_csv(tmp_path / "rows.csv", index=False)
    start = time.process_time()
    draft = draft_columns(tmp_path / "rows.csv")
    assert time.process_time() - start < 10  # 1.9 on a machine that does nothing else
    assert (len(draft.facts.attributes), draft.facts.keys) == (27, ("id", "zip"))


def test_many_numbers_stay_numbers():
    found = drafted([*(f" {i}" for i in range(25_000)), "0", "0.5", "-0.25", "0e3"])
    assert (found.kind, found.lower, found.upper) == ("numeric", -0.25, 24_999)


def test_a_draft_of_unreadable_cells_quotes_none_of_them(tmp_path):
    for cells in ([SECRET, 1], [D(SECRET), 1], [str(SECRET), "1"], [dt.time(12, 34)], [[SECRET]]):
        for data in (table := pa.table({"x": cells}), pl.from_arrow(table)):
            draft = draft_columns(data)  # the only column of a table is never left unread
            assert [type(attribute) for attribute in draft.facts.attributes] == [OpenCategorical]
            text = as_file(draft, tmp_path)
            assert not [s for s in (str(SECRET), "12:34", "34, 5") if s in text]


ZEROS = [["01067", "10115", "", "80331"], ["00", "1", "2"], ["0", "10", "0.5"], ["-01", "12"]]


@pytest.mark.parametrize("cells", ZEROS)
def test_codes_that_begin_with_zeros_stay_text(cells, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(["x,other", *(f"{cell},a" for cell in cells * 5)]))
    levels = tuple(filter(None, cells)) if cells in ZEROS[:2] else None
    for data in (path, pd.DataFrame({"x": cells * 5, "other": "a"})):
        schema = draft_schema(data)
        assert getattr(schema["x"], "levels", None) == levels
        codes = Table.read(data, schema.declare_public()).codes("x")
        assert levels is None or len(np.unique(codes)) == len(cells)


# -- numbers in other spellings ------------------------------------------------------------------
rng = random.Random(0)
AMOUNTS = [round(rng.uniform(1000, 90_000), 2) for _ in range(178)]
GROUPS, COMMA, SIGN = "thousands separators", "a decimal comma", "a currency or percent sign"
"""Spellings of numbers that a draft reports as doubtful."""
SPELLINGS = {
    "{:,.2f}": GROUPS, "{:,.0f}": f"{GROUPS} or {COMMA}", "{:_.1f}": GROUPS,
    "${:,.2f}": f"{GROUPS} and {SIGN}", "{:.2f} €": SIGN, "{:.3f}%": SIGN, "EUR {:.2f}": SIGN,
    "{:.2f}": None, "p{:,.2f}": None,
}  # fmt: skip


@pytest.mark.parametrize(("written", "said"), SPELLINGS.items())
def test_a_draft_reads_numbers_in_other_spellings(written, said):
    cells = [written.format(amount) for amount in AMOUNTS]
    many = draft_columns(pd.DataFrame({"pay": [*cells, "refused", "N/A", ""], "age": 3}))
    few = draft_columns(pd.DataFrame({"pay": cells[:9] * 5, "age": 3}))
    for draft in (many, few):
        pay = next((a for a in draft.facts.attributes if a.name == "pay"), None)
        if said is None or SIGN in said:
            assert draft.facts.file.plain
            why = f"column 'pay' looks like numbers with {said}: write"
            assert draft.doubts == {} if said is None else why in draft.doubts["pay"]
            assert draft is many or (pay.kind == "numeric") == (written == "{:.2f}")
            continue
        assert (pay.kind, draft.doubts) == ("numeric", {})
        assert draft.facts.file.number(cells[0]) == pytest.approx(AMOUNTS[0], abs=1)
    assert ("pay" in many.unread) == (written[0] == "p" or SIGN in str(said))


def test_a_draft_of_two_decimal_marks_declares_none():
    amounts = [f"{x:.2f}" for x in AMOUNTS]
    comma = [text.replace(".", ",") for text in amounts]
    draft = draft_columns(pd.DataFrame({"one": amounts, "two": comma}, dtype=object))
    assert draft.facts.file.plain
    assert "a decimal comma" in draft.doubts["two"]
    typed = pd.DataFrame({"one": AMOUNTS, "two": comma})  # typed numbers have no decimal mark
    assert draft_columns(typed).facts.file.decimal == ","


def test_a_draft_of_a_decimal_comma_has_steps_and_codes(tmp_path):
    cells = [f"{k / 10:.1f}".replace(".", ",") for k in range(120)] + ["-9", "-9", "-9", "DK"] * 3
    path = tmp_path / "rows.csv"
    pd.DataFrame({"pay": cells, "age": 3}).to_csv(path, sep=";", index=False)
    draft = draft_columns(path)
    pay = draft.facts.attributes[0]
    assert (pay.lower, pay.upper, pay.step) == (0, 11.9, 0.1)
    assert (pay.missing_codes, pay.unknown) == ((-9,), ("DK",))
    assert tomllib.loads(as_file(draft, tmp_path))["file"] == {
        "decimal": ",",
        "undeclared": ["decimal"],
    }
    assert "as [file] declares" in draft.reasons["pay"]


def test_a_note_on_numbers_carries_the_codes_of_its_column(tmp_path):
    cells = [f"{amount:.2f}%" for amount in AMOUNTS]
    draft = draft_columns(pd.DataFrame({"rate": [*cells, "refused", "N/A"], "age": 3}))
    (rate,) = blocks(as_file(draft, tmp_path))
    assert (rate.kind, rate.refused, rate.missing_codes) == ("numeric", ("refused",), ("N/A",))
    assert {*rate.undeclared} == {"refused", "missing_codes"}
    assert '# undeclared = ["' in as_file(draft, tmp_path)


@pytest.mark.parametrize("taken", [(), ("other",), ("other", "any other")])
def test_a_bucket_that_cells_decided_is_marked(taken):
    cells = [*(f"v{k % 150}" for k in range(600)), *taken * 2]
    attribute = drafted(cells)
    names = ("other", "any other", "other 2")
    assert (attribute.kind, attribute.other) == ("open", names[len(taken)])
    assert ("other" in attribute.undeclared) == bool(taken)


TOGETHER = [
    (["1,234", "950"], f"{GROUPS} or {COMMA}"), (["1,234", "1,234,567"], GROUPS),
    (["1,234", "0,5"], COMMA), (["0,123"], COMMA), (["1'000", "-2"], GROUPS),
    (["1.234.567", "1.5"], GROUPS), (["1,2,3", "1,2"], None), (["yes", "1,5"], None),
    (["1", "2.5"], None), (["%", "5"], None), ([], None),
]  # fmt: skip


@pytest.mark.parametrize(("texts", "said"), TOGETHER)
def test_all_cells_together_decide_about_a_comma(texts, said):
    found = number_style(texts, every=True) or "None: "
    assert found.removeprefix("looks like numbers with ").startswith(f"{said}: ")


ODD = "".join(f'"{a:,.2f}",{k % 2},{k % 5}\n' for k, a in enumerate(AMOUNTS))
STYLES = {"other_styles": ["pay"]}
LOST = [
    (ODD, {"without_values": ["pay"], **STYLES}),
    (ODD + "5,0,1\n", STYLES),  # one value is enough, but most are lost
    ("", {}),
    (",0,1\n ,1,2\n", {"blank": ["pay"]}),
    ("5,,1\nx,0,0\n", {}),
    ("5,0,1\n6,ü,1\nü,1,0\n", {}),
    ("5,0,1\n6,{0},1\n{0},1,0\n".format("u" * 5000), {"unreadable": ["pay", "sex"]}),
    ('"9,9",0,1\n5,1,1\n', {}),  # a code that is declared
]


@pytest.mark.parametrize("pay", [{"outside": "missing", "nullable": True}, {"outside": "clamp"}])
@pytest.mark.parametrize(("rows", "told"), LOST)
def test_the_check_tells_the_curator_of_cells_that_cannot_be_read(
    tmp_path, monkeypatch, capsys, pay, rows, told
):
    monkeypatch.chdir(tmp_path)
    if rows is LOST[-1][0]:
        pay = {"outside": "missing", "nullable": True, "missing_codes": ("9,9",)}
    sex = Categorical(name="sex", levels=("0", "1"), nullable=True, outside="missing")
    group = Categorical(name="group", levels=tuple("01234"))
    Schema((Numeric(name="pay", lower=0, upper=10**5, **pay), sex, group)).to_toml("s.toml")
    Path("rows.csv").write_text(f"pay,sex,group\n{rows}")
    assert main(["schema", "check", "s.toml", "rows.csv", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    kinds = ("without_values", "blank", "other_styles", "unreadable")
    assert {kind: document[kind] for kind in kinds if kind in document} == told
    assert main(["schema", "check", "s.toml", "rows.csv"]) == 0
    out = capsys.readouterr().out
    assert ("But" in out) == ("For the curator only" in out) == bool(told)


# -- codes that surveys use, and none in ordinary data -------------------------------------------
def proposed(cells):
    """The codes that are proposed for a column, all of them marked and read as their kind."""
    attribute = drafted(cells)
    found = {kind: codes for kind in KINDS if (codes := attribute.codes_of(kind))}
    facts = {"missing_codes" if kind == "missing" else kind for kind in found}
    assert facts <= {*attribute.undeclared}
    table = Table.read(pd.DataFrame({"x": cells}), Schema((attribute,)))
    for kind, codes in found.items():
        bare = [cell.strip() if isinstance(cell, str) else cell for cell in cells]
        here = [c in codes or (isinstance(c, str) and read_number(c) in codes) for c in bare]
        assert any(here)
        assert (table.mask("x", kind) >= np.array(here)).all()
    return found


SCALE = [1, 2, 3, 4, 5] * 20
SURVEYS = [
    ([*SCALE, 97, 98, 99], {"missing": (99,), "refused": (97,), "unknown": (98,)}),
    (SCALE + [997] * 2, {"refused": (997,)}),
    (list(range(1900, 2024)) + [9999] * 9, {"missing": (9999,)}),
    (list(range(60)) * 2 + [999] * 4, {"missing": (999,)}),  # ages
    ([*SCALE, -1, -7, -8, -9], {
        "not_applicable": (-1,), "missing": (-9,), "refused": (-7,), "unknown": (-8,)}),
    ([1.5, 2.25, 7.0, -9.0, -9.0, -9.0], {"missing": (-9,)}),
    (list(range(1, 800)) + [-1] * 5, {"not_applicable": (-1,)}),
    (list(range(60)) + [-1] * 9, {"not_applicable": (-1,)}),  # hours
    (["1", "2", "3", " -8", "-8.0"], {"unknown": (-8,)}),
    (["a", "b", "Refused", "DON'T KNOW", "Not asked", "Inapplicable", "Skipped"], {
        "refused": ("Refused",), "unknown": ("DON'T KNOW",), "not_asked": ("Not asked",),
        "not_applicable": ("Inapplicable",), "missing": ("Skipped",)}),
    (["a", "Don\u2019t know"], {"unknown": ("Don\u2019t know",)}),
    ([1.5, 2, ".", ".a", ".R", ".d", ".i"], {  # Stata
        "missing": (".", ".a"), "refused": (".R",), "unknown": (".d",), "not_applicable": (".i",)}),
    (["1", "2", "3", "97", "98", "DK"], {"refused": (97,), "unknown": ("DK", 98)}),
    (["true", "false", "Refused"], {"refused": ("Refused",)}),
]  # fmt: skip
ORDINARY = [
    [*range(100), *range(90)],  # ages up to 99
    [*range(20, 90), 98],  # one old person
    [1, 2, 3, 4, 5, 6, 7, 8, 9] * 5,
    *([-2, -1, 0, 1, 2] * 5, [-1, 0, 1] * 5, [-1, 1] * 5),
    [-9, -8, -7, -6, -1, 0, 4, 12, 30] * 3,  # temperatures
    [-1, *range(30)],  # frost on one day
    [-9, -3, 0, 2, 4],  # scores to par
    [0] * 50 + [1] * 20 + [2, 3, 7, 99],
    [*range(1, 100), 40, 40, 40],  # hours
    [*range(0, 101, 5), 97, 98, 99],  # per cent
    *([19, 99, 99, 49, 199, 599, 999], [49, 997, 997]),  # prices
    *([*range(1900, 2024)], [0.5, 0.25, 97.0, 97.0, 98.0]),
    [-8, 2, 17, 30, 44],  # a loss among gains
    *(["NA", "DK", "DE", "FR", "US"], ["none", "some", "much"], ["7", "8", "9", "x"], [0, 1] * 9),
    [0] * 90 + [2174, 14084, 99999, 99999],  # capital gains
]


@pytest.mark.parametrize(("cells", "codes"), [*SURVEYS, *((cells, {}) for cells in ORDINARY)])
def test_codes_of_surveys_are_proposed_with_their_kind_and_none_in_ordinary_data(cells, codes):
    assert proposed(cells) == codes


LAWS = {
    "poisson": lambda rng, n: rng.poisson(rng.uniform(0.5, 80), n),
    "uniform": lambda rng, n: rng.integers(0, rng.integers(2, 2000), n),
    "normal": lambda rng, n: np.rint(rng.normal(rng.uniform(-5, 60), rng.uniform(3, 30), n)),
    "geometric": lambda rng, n: rng.geometric(rng.uniform(0.02, 0.9), n),
    "exponential": lambda rng, n: np.round(rng.exponential(rng.uniform(1, 500), n), 1),
    "likert": lambda rng, n: rng.integers(1, rng.integers(3, 11), n, endpoint=True),
}


@pytest.mark.long
@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from([*LAWS]), st.integers(50, 2000))
def test_nothing_is_proposed_in_random_ordinary_data(seed, law, n):
    assert proposed(LAWS[law](np.random.default_rng(seed), n).tolist()) == {}


def test_the_file_shows_each_proposal_with_its_mark_and_reminds_of_rules(tmp_path):
    for cells in (["Refused", "DK"], ["NA", None]):  # codes alone
        (alone,) = draft_columns(pd.DataFrame({"x": cells})).facts.attributes
        assert (alone.levels, {*alone.not_applicable}) == ((), {*cells} - {None})
        assert (
            Table.read(pd.DataFrame({"x": cells}), Schema((alone,)))
            .mask("x", "not_applicable")
            .all()
        )
    found = drafted(["a", "b", "Not applicable"])
    # "Not applicable" is no missing value.
    assert (found.nullable, found.kinds) == (False, ("not_applicable",))
    text = as_file(draft_columns(pd.DataFrame({"x": [*SCALE, 98, 99]})), tmp_path)
    document = tomllib.loads(text)
    row = document["attribute"][0]
    assert (row["missing_codes"], row["unknown"]) == ([99], [98])
    assert {"missing_codes", "unknown"} <= {*row["undeclared"]}
    assert "rule" not in document
    example = text[text.index("# [[rule]]") :].replace("# ", "")
    assert tomllib.loads(example)["rule"][0].keys() == {"not_applicable", "unless"}


def test_true_and_false_are_not_said_to_be_numbers():
    rows = pd.DataFrame({"paid": [True, False, None] * 9, "smoker": [0, 1, 1] * 9})
    reasons = draft_columns(rows).reasons
    assert "paid" not in reasons
    assert "0 and 1 are two levels" in reasons["smoker"]


def test_draft_dashes_beside_decimal_commas_are_missing():
    columns = {"a": ["1,5", "-", "2,25", "3,75"], "b": ["8,5", "--", "7,25", "9,0"]}
    draft = draft_columns(pd.DataFrame(columns))
    assert [a.kind for a in draft.facts.attributes] == ["numeric", "numeric"]
    assert [a.missing_codes for a in draft.facts.attributes] == [("-",), ("--",)]
    assert draft.facts.file.decimal == ","


def test_draft_minus_beside_plus_is_a_level():
    (blood,) = draft_columns(pd.DataFrame({"rhesus": ["+", "-"] * 5})).facts.attributes
    assert blood.levels == ("+", "-")


@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_numbers_with_the_label_of_their_variable_stay_numbers(tmp_path, suffix):
    pyreadstat = pytest.importorskip("pyreadstat")
    rows = pd.DataFrame(
        {
            "age": [float(18 + k % 70) for k in range(400)],
            "weight": [0.25 + k / 100 for k in range(400)],
            "day": pd.to_datetime("2024-01-01") + pd.to_timedelta(np.arange(400) % 90, "D"),
        }
    )
    labels = {"age": "Age in years", "weight": "Survey weight", "day": "Date of interview"}
    write = pyreadstat.write_sav if suffix == "sav" else pyreadstat.write_dta
    write(rows, str(tmp_path / f"survey.{suffix}"), column_labels=labels)
    draft = draft_schema(tmp_path / f"survey.{suffix}")
    assert [a.kind for a in draft.attributes] == ["numeric", "numeric", "date"]
    assert (draft["age"].lower, draft["age"].upper) == (18, 87)
    assert {a.name: a.label for a in draft.attributes} == labels
