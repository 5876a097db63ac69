"""The subpopulation language: what it selects, and what it refuses."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import ParameterError
from missdp.schema.conditions import MIRRORED, OPERATORS, Compare, Join, Not, Predicate
from missdp.schema.where import parse_names
from missdp.statistics import parse_where

SCHEMA = Schema(
    (
        Numeric(name="age", lower=0, upper=120, integer=True),
        Categorical(name="marital status", levels=("single", "married", "and")),
        Ordinal(name="grade", levels=(9, 10, 11), nullable=True),
        Ordinal(name="size", levels=("small", "mid", "large")),
        Categorical(name="smoker", levels=(False, True)),
    )
)
FRAME = pd.DataFrame(
    {
        "age": [19, 20, 29, 30],
        "marital status": ["single", "married", "and", "single"],
        "grade": pd.array([9, None, 10, 11], dtype="Int64"),
        "size": ["small", "mid", "large", "mid"],
        "smoker": [True, False, True, False],
    }
)
ROWS = Table.read(FRAME, SCHEMA)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, "1111"),
        ("  ", "1111"),
        ("age >= 20 and age < 30", "0110"),
        ("20 <= age < 30", "0110"),
        ("20 > age", "1000"),
        ("age = 29.0 or age == 19", "1010"),
        ("age != 20", "1011"),
        ("`marital status` = 'married'", "0100"),
        ('`marital status` in ("single", "and")', "1011"),
        ("`marital status` not in ('single')", "0110"),
        ("not `marital status` = 'single'", "0110"),
        ("grade >= 10", "0011"),
        ("grade != 10", "1001"),
        ("not grade != 10", "0110"),
        ("size < 'large'", "1101"),
        ("size in ('small', 'large') and smoker = true", "1010"),
        ("smoker = TRUE and (age < 20 or age > 28)", "1010"),
        ("age < 20 or age > 28 and smoker = false", "1001"),
        ("age > -5e0", "1111"),
    ],
)
def test_selection(text: str | None, expected: str) -> None:
    found = parse_where(text, SCHEMA).select(ROWS)
    assert "".join("01"[int(b)] for b in found) == expected


@pytest.mark.parametrize(
    "text",
    [
        "age", "age >", "age > 'x'", "age > true", "age = 1 age", "(age > 1", "age > 1)",
        "income > 1",
        "`marital status` > 'single'", "`marital status` = 'widowed'", "grade = 12", "grade = '9'",
        "size = 3", "smoker = 1", "age in ()", "age in 3", "age in (1,)", "and", "not",
        "age ** 2 > 1",
        "__import__('os')", "age > 1; drop", "age.real > 1", "lambda: 1", "1 < 2", "20 <= age < ",
        "age not 3", "age = \x00",
    ],
)  # fmt: skip
def test_refusals(text: str) -> None:
    with pytest.raises(ParameterError, match="where"):
        parse_where(text, SCHEMA)


def test_refusals_name_the_parameter() -> None:
    with pytest.raises(ParameterError, match=r"^of: expected") as caught:
        parse_where("age >", SCHEMA, named="of")
    assert caught.value.__context__ is None


CONSTANTS = st.sampled_from(
    [(a, code, level) for a in SCHEMA if not isinstance(a, Numeric)
     for code, level in enumerate(a.levels)]
    + [(SCHEMA["age"], x, x) for x in (-1.5, 0.0, 20.0, 1e300)]
)  # fmt: skip
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@st.composite
def compares(draw: st.DrawFn) -> tuple[Compare, str]:
    attribute, value, written = draw(CONSTANTS)
    sign = draw(SIGNS)
    if isinstance(attribute, Categorical):
        sign = draw(st.sampled_from(["==", "!="]))
    text = str(written).lower() if isinstance(written, bool) else repr(written)
    name = f"`{attribute.name}`"
    sides = (name, sign, text) if draw(st.booleans()) else (text, MIRRORED[sign], name)
    return Compare(attribute, sign, float(value)), draw(st.sampled_from(["", " "])).join(sides)


def joined(parts: list[tuple[Predicate, str]], all_of: bool) -> tuple[Predicate, str]:
    word = " and " if all_of else " OR\n"
    return Join(tuple(p for p, _ in parts), all_of=all_of), word.join(f"({t})" for _, t in parts)


PREDICATES: st.SearchStrategy[tuple[Predicate, str]] = st.recursive(
    compares(),
    lambda inner: (
        st.builds(lambda p: (Not(p[0]), f"not ({p[1]})"), inner)
        | st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.booleans())
    ),
    max_leaves=6,
)


def holds(what: Predicate, row: int) -> bool:
    """Whether a row belongs, worked out for it alone."""
    if isinstance(what, Not):
        return not holds(what.part, row)
    if isinstance(what, Join):
        return (all if what.all_of else any)(holds(part, row) for part in what.parts)
    assert isinstance(what, Compare)
    name, numeric = what.one.name, isinstance(what.one, Numeric)
    cell = (ROWS.values(name) if numeric else ROWS.codes(name))[row]
    return not ROWS.mask(name)[row] and bool(OPERATORS[what.sign](cell, what.two))


@given(PREDICATES)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_parsed_as_it_was_meant(written: tuple[Predicate, str]) -> None:
    meant, text = written
    found = parse_where(text, SCHEMA)
    assert found == meant
    assert found.names == {part.one.name for part in meant.comparisons()}
    assert found.select(ROWS).tolist() == [holds(meant, row) for row in range(4)]


@given(st.lists(st.text("ab ,\n'", min_size=1), max_size=4), st.sampled_from(["", " ", "\n"]))
def test_lists_of_names_come_back(names: list[str], blank: str) -> None:
    quoted = f"{blank},{blank}".join(f"{blank}`{name}`{blank}" for name in names)
    assert parse_names(quoted) == tuple(names)
    bare = [name.replace(",", "") for name in names]
    assert parse_names(",".join(bare)) == tuple(filter(None, map(str.strip, bare)))


def test_a_list_of_names_that_cannot_be_read_is_refused_at_once() -> None:
    with pytest.raises(ParameterError, match="backticks"):
        parse_names(" " * 100_000 + "a`")


def test_text_without_quotes_is_told_to_stand_in_them() -> None:
    for text in ("size = small", "size in (small, 'mid')", "size in ('mid', small)"):
        with pytest.raises(ParameterError, match=r"found 'small'; text goes in quotes$"):
            parse_where(text, SCHEMA)
