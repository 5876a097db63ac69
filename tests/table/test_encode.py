"""Every kind of missing and every kind of column becomes the same codes, and cells again."""

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

from missdp import Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.errors import DataError, ParameterError
from missdp.schema import NotApplicable
from missdp.schema.attributes import KINDS
from missdp.sources import DuckDBSource
from missdp.table.encode import Encoder, _codes_to_write
from missdp.table.written import write_blocks
from refusing import refuses

COLOUR = Categorical(name="farbe", levels=("röt", "grün"), nullable=True, missing_codes=("?",))
AGE = Numeric(
    name="age", lower=0, upper=99, integer=True, nullable=True, missing_codes=(-9, "k.A.")
)
FLAG = Categorical(name="flag", levels=(False, True), nullable=True)
GRADE = Categorical(name="grade", levels=(9, 10), nullable=True)


def read(attribute, column):
    return Table.read(pa.table({attribute.name: column}), Schema((attribute,)))


def codes(attribute, column):
    return read(attribute, column).codes(attribute.name).tolist()


def test_an_all_missing_column_an_empty_table_and_one_row():
    assert codes(COLOUR, pa.nulls(2)) == [2, 2]
    assert codes(AGE, pa.nulls(2)) == [10, 10]
    assert len(read(COLOUR, pa.array([], pa.string()))) == 0
    assert codes(AGE, pa.array([99])) == [9]


SAID, DAY, SHARE = "secret-value", dt.date(1977, 7, 7), Numeric(name="x", lower=0, upper=1)
WRONG = [
    (COLOUR, [SAID], [DAY], [[SAID]]),
    (AGE, [123456], [float("inf")], [0.123456], [SAID], [True], [DAY]),
    (FLAG, [SAID], [123456]),
    (GRADE, [123456], [9.123456], [True]),
    (SHARE, [SAID], [b"\xffsecret"]),
    (SHARE, [0.5, None], [0.5, float("nan")]),
    (Categorical(name="x", levels=("a",)), ["a", None]),
]


@pytest.mark.parametrize("case", WRONG)
def test_a_refusal_is_typed_quotes_nothing_and_does_not_tell_how_many(case):
    attribute, *columns = case
    texts = set()
    for cells in (cells * times for cells in columns for times in (1, 7)):
        with refuses(DataError, attribute.name) as caught:
            read(attribute, pa.array(cells))
        texts.add(str(caught.value))
        # A traceback prints the causes as well: Arrow's own message may quote the cell.
    assert len(texts) == 1
    assert not [s for s in ("secret", "123456", "1977", "7.7") if s in min(texts)]


class Unreadable(float):
    """A number that does not say which."""

    def __float__(self):
        raise RuntimeError


class Unclassed:
    """A cell that tells what it holds if it is asked what it is."""

    @property
    def __class__(self):
        raise RuntimeError("140")


def released_view():
    view = memoryview(b"5")
    view.release()
    return view


@pytest.mark.parametrize("odd", [lambda: Unreadable(5.0), released_view, Unclassed])
def test_no_cell_makes_a_table_raise_that_has_a_policy_for_all_cells(odd):
    cells = np.array([5.0, odd(), 7.0], dtype=object)
    for policy in ("missing", "clamp"):
        frame, total = pd.DataFrame({"age": cells}), replace(AGE, outside=policy)
        table = Table.read(frame, Schema((total,)))
        assert table.values("age")[[0, 2]].tolist() == [5.0, 7.0]
        assert table.mask("age").tolist() == [False, True, False]


@given(st.lists(st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True))))
def test_no_nan_or_infinity_survives_the_door(cells):
    attribute = Numeric(name="x", lower=-1, upper=1, nullable=True, outside="clamp")
    table = read(attribute, pa.array(cells, pa.float64()))
    assert np.all(np.isfinite(table.values("x")))
    assert np.all(np.abs(table.values("x")) <= 1)
    expected = [c is None or np.isnan(c) for c in cells]
    assert table.mask("x").tolist() == expected


def test_code_width_leaves_room_for_missing():
    levels = tuple(f"l{i}" for i in range(256))
    wide = Categorical(name="x", levels=levels, nullable=True)
    table = read(wide, pa.array(["l255", None]))
    assert table.codes("x").tolist() == [255, 256]
    narrow = Categorical(name="x", levels=levels[:255], nullable=True)
    assert read(narrow, pa.array(["l254", None])).mask("x").tolist() == [False, True]


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
            found[row] = kind
    return found


@pytest.mark.parametrize(
    "attribute", [PAY, WHOLE, GRADE, WORD], ids=["real", "whole", "ord", "cat"]
)
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
    facts = KINDS_OF | {"outside": "clamp"}
    hours = Numeric(name="x", lower=0, upper=100, integer=True, **facts)
    cells = pa.table({"x": ["-7", "-6", "1e9", "junk", "", "n/a"]})
    assert kinds_of(Table.read(cells, Schema((hours,)))) == [
        "refused", None, None, "missing", "missing", "not_applicable"]  # fmt: skip
    sure = Numeric(name="x", lower=0, upper=100, not_applicable=(-1,), outside="clamp")
    cells = pa.table({"x": ["-1", "junk", "", "3"]})
    assert kinds_of(Table.read(cells, Schema((sure,)))) == [
        "not_applicable", None, "not_applicable", None]  # fmt: skip


def test_a_column_of_text_is_looked_at_only_where_there_is_no_number(monkeypatch):
    """A column of many different numbers is not told apart text by text."""
    import missdp.table.cells as module

    seen = []
    found = module.distinct
    monkeypatch.setattr(module, "distinct", lambda chunk: seen.append(len(chunk)) or found(chunk))
    Encoder(PAY).encode(pa.array([f"{i / 100}" for i in range(9000)] + [".R"] * 3))
    Encoder(PAY).encode(pa.array(np.arange(9000.0)))
    assert seen == [3]


# -- what is written with codes and read again ---------------------------------------------------
FACTS = ("missing_codes", "refused", "unknown", "not_asked", "not_applicable")
SURVEY = Schema(
    (
        Categorical(
            name="work", levels=("no", "yes"), nullable=True, refused=("RF", "R"), unknown=(98,)
        ),
        Numeric(
            name="Stunden",
            lower=0,
            upper=80,
            integer=True,
            nullable=True,
            missing_codes=(-1,),
            refused=(-7,),
            not_applicable=(-9,),
        ),
        Numeric(name="pay", lower=0, upper=1, nullable=True, unknown=("k.A.",), refused=(-8,)),
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


def table():
    return Table.read(pa.table(ROWS), SURVEY)


def same(one, two):
    for attribute in one.schema:
        name = attribute.name
        np.testing.assert_array_equal(one.codes(name), two.codes(name), err_msg=name)
        if isinstance(attribute, Numeric):
            np.testing.assert_array_equal(one.values(name), two.values(name))


def test_cells_are_the_codes_that_the_schema_declares_or_null():
    assert table().to_arrow(holes="codes").to_pydict() == ROWS
    plain = table().to_arrow()
    assert plain.equals(table().to_arrow(holes="nulls"))
    for name in SURVEY.names:
        assert plain[name].is_null().to_numpy().tolist() == table().mask(name).tolist()


def test_a_code_that_is_not_read_as_its_kind_is_not_written():
    """Blank text is null in files anyway; 7 is neither of the levels "07" and "007", nor a code."""
    levels = Categorical(
        name="a", levels=("07", "007"), nullable=True, missing_codes=("?",), refused=(7, " R ")
    )
    assert _codes_to_write(levels) == {"missing": "?", "refused": "R"}
    number = Numeric(
        name="a", lower=0, upper=1, nullable=True, missing_codes=(" ", -1), refused=("nan",)
    )
    assert _codes_to_write(number) == {"missing": -1, "refused": "nan"}


def test_unknown_ways_are_refused():
    model = PrivBayes(epsilon=1.0, delta=0.0, random_state=0, n_rows=6)
    for write in (table().to_arrow, table().to_native, model.sample):
        with refuses(ParameterError, "holes must be 'nulls' or 'codes', not 'zeros'"):
            write(holes="zeros")


GLYPHS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)
ODD_CODES = st.integers(-99, -1) | st.sampled_from((-0.5, -1e15, -1e-7, 1000, 1e6))


@st.composite
def attributes(draw, name):
    """An attribute of any type, each kind of missing with codes of its own, read as that kind."""
    kinds = draw(st.lists(st.sampled_from(FACTS), unique=True))
    codes = draw(
        st.lists(
            GLYPHS.map(lambda text: f"c{text}".strip()) | ODD_CODES,
            min_size=2 * len(kinds),
            max_size=2 * len(kinds),
            unique_by=lambda code: code if isinstance(code, str) else float(code),
        )
    )
    facts = {kind: tuple(codes[2 * i : 2 * i + 2]) for i, kind in enumerate(kinds)}
    facts |= {"name": name, "nullable": "missing_codes" in facts or bool({*kinds} - {FACTS[-1]})}
    facts |= {} if "missing_codes" in facts or not facts["nullable"] else {"missing_codes": ("?",)}
    style = draw(st.sampled_from(("whole", "real", "text", "int", "bool")))
    if style in ("whole", "real"):
        return Numeric(lower=0, upper=99, integer=style == "whole", **facts)
    levels = {"int": (3, 1, 2), "bool": (False, True)}.get(style)
    if levels is None:
        levels = tuple(
            draw(st.lists(GLYPHS.map(lambda t: f"l{t}".strip()), min_size=1, unique=True))
        )
    ordered = draw(st.booleans()) and style != "bool"
    return (Ordinal if ordered else Categorical)(levels=levels, **facts)


@st.composite
def tables(draw):
    names = draw(st.lists(GLYPHS, min_size=1, max_size=3, unique=True))
    schema = Schema(tuple(draw(attributes(name)) for name in names))
    n = draw(st.integers(0, 6))
    codes = {
        a.name: np.array(
            draw(st.lists(st.integers(0, a.extended_size - 1), min_size=n, max_size=n)), dtype=int
        )
        for a in schema
    }
    rng = np.random.default_rng(draw(st.integers(0, 9)))
    return Table.from_codes(schema, codes).with_values(rng)


@settings(max_examples=20)
@given(tables())
def test_what_is_written_with_codes_is_read_again_as_the_same_table(tmp_path, one):
    for name in ("x.csv", "x.parquet"):
        write_blocks([tmp_path / name], [[one.to_arrow(holes="codes")]])
    kinds = ("pandas", "polars", "pyarrow")
    frames = [one.to_native(kind, holes="codes") for kind in kinds]
    for data in (*frames, tmp_path / "x.csv", tmp_path / "x.parquet"):
        same(Table.read(data, one.schema), one)
    empty = one.take(np.zeros(len(one), dtype=bool))  # types depend on the schema alone
    assert empty.to_arrow(holes="codes").schema == one.to_arrow(holes="codes").schema


def test_names_that_separate_fields_are_read_again_whatever_the_cells(tmp_path):
    names, levels = ("0", ";"), (";;", "a")
    schema = Schema(tuple(Categorical(name=name, levels=levels) for name in names))
    table = Table.read(pa.table({name: [";;", "a"] for name in names}), schema)
    write_blocks([tmp_path / "x.csv"], [[table.to_arrow()]])
    assert Table.read(tmp_path / "x.csv", schema).to_arrow() == table.to_arrow()
