"""Subpopulations: the rows that they select, and the texts that are refused."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import ParameterError
from missdp.schema.expressions import parse_names
from missdp.schema.logic import MIRRORED, OPERATORS, Cells, Comparison, Junction, Not
from missdp.statistics import parse_where
from refusing import refuses

SCHEMA = Schema(
    (
        Numeric(name="age", lower=0, upper=120, integer=True),
        Categorical(name="marital status", levels=("single", "married", "and")),
        Ordinal(name="grade", levels=(9, 10, 11), nullable=True),
        Ordinal(name="size", levels=("small", "mid", "large")),
        Categorical(name="smoker", levels=(False, True)),
        Numeric(name="retired", lower=0, upper=120, nullable=True),
        Ordinal(name="size before", levels=("small", "mid", "large")),
    )
)
COLUMNS = {
    "age": [19, 20, 29, 30],
    "marital status": ["single", "married", "and", "single"],
    "grade": [9, None, 10, 11],
    "size": ["small", "mid", "large", "mid"],
    "smoker": [True, False, True, False],
    "retired": [18, 60, None, 30],
    "size before": ["small", "large", "mid", "mid"],
}
ROWS = Table.read(COLUMNS, SCHEMA)
SELECTED = [
    *((None, "1111"), ("  ", "1111"), ("age > -5e0", "1111"), ("age != 20", "1011")),
    *(("age >= 20 and age < 30", "0110"), ("20 <= age < 30", "0110"), ("20 > age", "1000")),
    *(("age = 29.0 or age == 19", "1010"), ("age < 20 or age > 28 and smoker = false", "1001")),
    *(("grade >= 10", "0011"), ("grade != 10", "1001"), ("not grade != 10", "0110")),
    ("`marital status` = 'married'", "0100"),
    ('`marital status` in ("single", "and")', "1011"),
    ("`marital status` not in ('single')", "0110"),
    ("not `marital status` = 'single'", "0110"),
    ("size < 'large'", "1101"),
    ("size in ('small', 'large') and smoker = true", "1010"),
    ("smoker = TRUE and (age < 20 or age > 28)", "1010"),
    *(("age in 19", "1000"), ("age in (19,)", "1000"), ("age > - -19", "0111")),
    *(("age < retired", "0100"), ("retired >= age", "0101"), ("not age < retired", "1011")),
    *(("age = retired", "0001"), ("age ≠ retired", "1100"), ("19 < age <= retired", "0101")),
    *(("size <= `size before`", "1101"), ("size = `size before` and age > 19", "0001")),
]


@pytest.mark.parametrize(("text", "expected"), SELECTED)
def test_selection(text, expected):
    found = parse_where(text, SCHEMA).select(ROWS)
    assert "".join("01"[int(b)] for b in found) == expected


REFUSED = [
    *("age", "age >", "age > 'x'", "age > true", "age = 1 age", "(age > 1", "age > 1)", "and"),
    *("income > 1", "`marital status` > 'single'", "`marital status` = 'widowed'", "grade = 12"),
    *("grade = '9'", "size = 3", "smoker = 1", "age in ()", "age in (1", "age in (), 1", "not"),
    *("age ** 2 > 1", "__import__('os')", "age > 1; drop", "age.real > 1", "lambda: 1", "1 < 2"),
    *("20 <= age < ", "age not 3", "age = \x00", "age = size", "size < grade", "age < age"),
    *("smoker < `marital status`", "age + 1 = 20", "age = years(age, age)", "age in (age, 1)"),
]


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_the_parameter(text):
    for named in ("where", "of"):
        with refuses(ParameterError, f"^{named}: "):
            parse_where(text, SCHEMA, named=named)


codes = [(a, *pair) for a in SCHEMA if not isinstance(a, Numeric) for pair in enumerate(a.levels)]
PAIRS = st.sampled_from([("age", "retired"), ("size", "size before"), ("retired", "age")])
CONSTANTS = st.sampled_from(codes + [(SCHEMA["age"], x, x) for x in (-1.5, 0.0, 20.0, 1e300)])
SIGNS = st.sampled_from(["==", "!=", "<", "<=", ">", ">="])


@st.composite
def compares(draw):
    sign = draw(SIGNS)
    if draw(st.integers(0, 3)) == 0:
        one, two = (SCHEMA[name] for name in draw(PAIRS))
        return Comparison(one, sign, two), f"`{one.name}` {sign} `{two.name}`"
    attribute, value, written = draw(CONSTANTS)
    if isinstance(attribute, Categorical):
        sign = draw(st.sampled_from(["==", "!="]))
    text = str(written).lower() if isinstance(written, bool) else repr(written)
    name = f"`{attribute.name}`"
    sides = (name, sign, text) if draw(st.booleans()) else (text, MIRRORED[sign], name)
    return Comparison(attribute, sign, float(value)), draw(st.sampled_from(["", " "])).join(sides)


def joined(parts, all_of):
    word = " and " if all_of else " OR\n"
    meant = Junction(tuple(p for p, _ in parts), all_of=all_of)
    return meant, word.join(f"({t})" for _, t in parts)


PREDICATES = st.recursive(
    compares(),
    lambda inner: (
        st.builds(lambda p: (Not(p[0]), f"not ({p[1]})"), inner)
        | st.builds(joined, st.lists(inner, min_size=2, max_size=3), st.booleans())
    ),
    max_leaves=6,
)


def holds(what, cells):
    """Whether a row satisfies a predicate. A cell without a value satisfies no comparison."""
    if isinstance(what, Not):
        return not holds(what.part, cells)
    if isinstance(what, Junction):
        return (all if what.all_of else any)(holds(part, cells) for part in what.parts)
    assert isinstance(what, Comparison)
    cell = cells[what.left.name]
    other = what.right if isinstance(what.right, float) else cells[what.right.name]
    return None not in (cell, other) and bool(OPERATORS[what.operator](cell, other))


def cells_of(row):
    numbers = ("age", "retired")
    values = {n: ROWS.values(n) if n in numbers else ROWS.codes(n) for n in SCHEMA.names}
    return {n: None if ROWS.mask(n)[row] else float(v[row]) for n, v in values.items()}


@given(PREDICATES)
@settings(max_examples=100)
def test_text_of_predicates_is_parsed_back(written):
    meant, text = written
    found = parse_where(text, SCHEMA)
    assert found == meant
    parts = [part for one in meant.comparisons() for part in (one.left, one.right)]
    assert found.names == {part.name for part in parts if not isinstance(part, float)}
    assert found.select(ROWS).tolist() == [holds(meant, cells_of(row)) for row in range(4)]


@pytest.mark.long
@given(PREDICATES, st.dictionaries(st.sampled_from(SCHEMA.names), st.booleans()))
@settings(max_examples=100)
def test_certain_truth_holds_for_any_missing_cells(written, without):
    """Cells are missing or not applicable. Each missing cell is tried with every value."""
    meant, _ = written
    row, known, tried = cells_of(0), {}, []
    for name, cell in row.items():
        hole, absent = (np.array([without.get(name) is flag]) for flag in (True, False))
        known[name] = Cells(np.array([cell]), np.array([cell]), hole, absent)
        numeric = isinstance(SCHEMA[name], Numeric)
        values = [-1.5, 0.0, 20.0, 50.0] if numeric else [*map(float, range(3))]
        tried.append(values if hole[0] else [None if absent[0] else cell])
    rows = [dict(zip(row, cells, strict=True)) for cells in itertools.product(*tried)]
    found = [holds(meant, cells) for cells in rows]
    truth = meant.truth(known, 1)
    assert all(found) or not truth.is_true
    assert not (truth.is_false & any(found))
    assert truth.is_true != truth.is_false or len(found) > 1


@given(st.lists(st.text("ab ,\n'", min_size=1), max_size=4), st.sampled_from(["", " ", "\n"]))
def test_lists_of_names_come_back(names, blank):
    quoted = f"{blank},{blank}".join(f"{blank}`{name}`{blank}" for name in names)
    assert parse_names(quoted) == tuple(names)
    bare = [name.replace(",", "") for name in names]
    assert parse_names(",".join(bare)) == tuple(filter(None, map(str.strip, bare)))


def test_a_long_list_of_names_that_cannot_be_read_is_refused_at_once():
    with refuses(ParameterError, "backticks"):
        parse_names(" " * 100_000 + "a`")


def test_text_without_quotes_gets_advice():
    for text in ("size in (small, 'mid')", "size in ('mid', small)", "size in small"):
        with refuses(ParameterError, r"found 'small'\. Text goes in quotes$"):
            parse_where(text, SCHEMA)
    with refuses(ParameterError, r"no attribute 'small'\. Text goes in quotes$"):
        parse_where("size = small", SCHEMA)
