"""What is written with codes and read again by the same schema is the same table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.errors import ParameterError
from missdp.schema import NotApplicable
from missdp.table.encode import _codes_to_write
from missdp.table.written import write_blocks

KINDS = ("missing_codes", "refused", "unknown", "not_asked", "not_applicable")
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


def table() -> Table:
    return Table.read(pa.table(ROWS), SURVEY)


def same(one: Table, two: Table) -> None:
    for attribute in one.schema:
        name = attribute.name
        np.testing.assert_array_equal(one.codes(name), two.codes(name), err_msg=name)
        if isinstance(attribute, Numeric):
            np.testing.assert_array_equal(one.values(name), two.values(name))


def test_cells_are_the_codes_that_the_schema_declares_or_null() -> None:
    assert table().to_arrow(holes="codes").to_pydict() == ROWS
    plain = table().to_arrow()
    assert plain.equals(table().to_arrow(holes="nulls"))
    for name in SURVEY.names:
        assert plain[name].is_null().to_numpy().tolist() == table().mask(name).tolist()


def test_a_code_that_is_not_read_as_its_kind_is_not_written() -> None:
    """Blank text is null in files anyway; 7 is neither of the levels "07" and "007", nor a code."""
    levels = Categorical(
        name="a", levels=("07", "007"), nullable=True, missing_codes=("?",), refused=(7, " R ")
    )
    assert _codes_to_write(levels) == {"missing": "?", "refused": "R"}
    number = Numeric(
        name="a", lower=0, upper=1, nullable=True, missing_codes=(" ", -1), refused=("nan",)
    )
    assert _codes_to_write(number) == {"missing": -1, "refused": "nan"}


def test_unknown_ways_are_refused() -> None:
    model = PrivBayes(epsilon=1.0, delta=0.0, random_state=0, n_rows=6)
    for write in (table().to_arrow, table().to_native, model.sample):
        with pytest.raises(ParameterError, match="holes must be 'nulls' or 'codes', not 'zeros'"):
            write(holes="zeros")  # type: ignore[operator]


TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4)
NUMBERS = st.integers(-99, -1) | st.sampled_from((-0.5, -1e15, -1e-7, 1000, 1e6))


@st.composite
def attributes(draw: st.DrawFn, name: str) -> Any:
    """An attribute of any type, each kind of missing with codes of its own, read as that kind."""
    kinds = draw(st.lists(st.sampled_from(KINDS), unique=True))
    codes = draw(
        st.lists(
            TEXT.map(lambda text: f"c{text}".strip()) | NUMBERS,
            min_size=2 * len(kinds),
            max_size=2 * len(kinds),
            unique_by=lambda code: code if isinstance(code, str) else float(code),
        )
    )
    facts: dict[str, Any] = {kind: tuple(codes[2 * i : 2 * i + 2]) for i, kind in enumerate(kinds)}
    facts |= {"name": name, "nullable": "missing_codes" in facts or bool({*kinds} - {KINDS[-1]})}
    facts |= {} if "missing_codes" in facts or not facts["nullable"] else {"missing_codes": ("?",)}
    style = draw(st.sampled_from(("whole", "real", "text", "int", "bool")))
    if style in ("whole", "real"):
        return Numeric(lower=0, upper=99, integer=style == "whole", **facts)
    levels: Any = {"int": (3, 1, 2), "bool": (False, True)}.get(style)
    if levels is None:
        levels = tuple(draw(st.lists(TEXT.map(lambda t: f"l{t}".strip()), min_size=1, unique=True)))
    ordered = draw(st.booleans()) and style != "bool"
    return (Ordinal if ordered else Categorical)(levels=levels, **facts)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    names = draw(st.lists(TEXT, min_size=1, max_size=3, unique=True))
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


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables())
def test_what_is_written_with_codes_is_read_again_as_the_same_table(
    tmp_path: Path, one: Table
) -> None:
    for name in ("x.csv", "x.parquet"):
        write_blocks([tmp_path / name], [[one.to_arrow(holes="codes")]])
    kinds = ("pandas", "polars", "pyarrow")
    frames = [one.to_native(kind, holes="codes") for kind in kinds]  # type: ignore[arg-type]
    for data in (*frames, tmp_path / "x.csv", tmp_path / "x.parquet"):
        same(Table.read(data, one.schema), one)
    empty = one.take(np.zeros(len(one), dtype=bool))  # types depend on the schema alone
    assert empty.to_arrow(holes="codes").schema == one.to_arrow(holes="codes").schema


def test_names_that_separate_fields_are_read_again_whatever_the_cells(tmp_path: Path) -> None:
    names, levels = ("0", ";"), (";;", "a")
    schema = Schema(tuple(Categorical(name=name, levels=levels) for name in names))
    table = Table.read(pa.table({name: [";;", "a"] for name in names}), schema)
    write_blocks([tmp_path / "x.csv"], [[table.to_arrow()]])
    assert Table.read(tmp_path / "x.csv", schema).to_arrow() == table.to_arrow()


def test_a_synthesizer_gives_codes_back() -> None:
    many = Table.read(table().take(np.arange(600) % 6).to_native("pandas", holes="codes"), SURVEY)
    model = PrivBayes(epsilon=50.0, delta=0.0, random_state=0).fit(many)
    frame = model.sample(400, missing_values="keep", holes="codes", random_state=1)
    drawn = model.sample_table(400, missing_values="keep", random_state=1)
    again = Table.read(frame, SURVEY)
    coded = tuple(name for name in SURVEY.names if name != "grade")  # refused, it has no code
    same(again.subset(coded), drawn.subset(coded))
    assert {"RF", "98"} <= {*frame["work"]}
    assert {-9, -7, -1} <= {*frame["Stunden"]}
    nulls = model.sample(400, missing_values="keep", random_state=1)
    assert nulls.isna().equals(Table.read(frame, SURVEY).to_native().isna())
    assert {"RF", "98"}.isdisjoint({*nulls["work"].dropna()})
