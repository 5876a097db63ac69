"""Rules change private rows when the rows are read: each row by itself, always, and only once."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import SchemaError
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.sources import DuckDBSource, MemorySource
from missdp.table.follow import cells_by_name
from schema.rule_books import books, domain

# Random rules may leave hardly any row, which is warned of.
pytestmark = pytest.mark.filterwarnings("ignore::missdp.errors.SchemaWarning")

LOOSE = {"nullable": True, "outside": "missing"}
ABSENT = {**LOOSE, "not_applicable": (-1,)}
SURVEY = Schema(
    (
        Categorical(name="sex", levels=("f", "m"), **LOOSE, refused=("R",)),
        Categorical(name="pregnant", levels=("no", "yes"), **LOOSE),
        Categorical(name="work", levels=("no", "yes"), **LOOSE, unknown=(-8,), refused=("R",)),
        Numeric(name="hours", lower=0, upper=80, integer=True, bins=4, **ABSENT),
        Numeric(name="pay", lower=0, upper=100, **ABSENT, refused=("R", -7)),
        Numeric(name="tax", lower=0, upper=50, **ABSENT),
        Numeric(name="age", lower=0, upper=99, integer=True, outside="clamp"),
        Numeric(name="born", lower=1930, upper=2024, integer=True, **LOOSE),
        Ordinal(name="degree", levels=("none", "school", "more"), **LOOSE, not_asked=("-",)),
        Numeric(name="years", lower=0, upper=20, integer=True, **LOOSE),
        Numeric(name="start", lower=0, upper=10, **LOOSE, spikes=(0,)),
        Numeric(name="end", lower=0, upper=10, outside="clamp"),
    ),
    rules=(
        NotApplicable(("hours", "pay"), unless="work = 'yes'"),
        Never("sex = 'm' and pregnant = 'yes'"),
        Always("0.5 * pay = tax"),
        Always("age + born = 2024", determines="born"),
        Determined("years", by="degree", map=(("none", 0), ("school", 10), ("more", 16))),
        Always("start <= end"),
        Never("years < 10 and pay > 90"),
        Never("born > 2010 and work = 'yes'"),
    ),
)

ODD = ["", None, "?", "R", "-", -1, -7, -8, "-8.0", " -1 ", "x", 0, 10, 95, 1e9]


def inside(a):
    if not isinstance(a, Numeric):
        return st.sampled_from(a.levels)
    return st.integers(int(a.lower), int(a.upper)) | st.floats(a.lower, a.upper)


row = st.fixed_dictionaries({a.name: st.sampled_from(ODD) | inside(a) for a in SURVEY})


def frame(rows):
    columns = {name: [r[name] for r in rows] for name in SURVEY.names}
    return pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in columns.items()})


def cells_of(table):
    """Codes and values of every row."""
    schema = table.schema
    columns = [table.codes(name).tolist() for name in schema.names]
    columns += [table.values(a.name).tolist() for a in schema if isinstance(a, Numeric)]
    return list(zip(*columns, strict=True))


def check_settled(table):
    """No row surely breaks a rule, but for cells that may not be missing."""
    schema = table.schema
    known = cells_by_name(schema, {name: table.column(name) for name in schema.names})
    for rule in schema.rule_set.bound:
        truth = rule.broken(known, len(table))
        broken = truth.is_true
        assert not (broken & truth.is_false).any()
        for name in rule.names:
            if schema[name].nullable and name not in schema.rule_set.rule_filled:
                assert known[name].missing[broken].all()
        if all(schema[name].nullable for name in rule.names):
            assert not broken.any()


def check_written_and_read_again(table):
    again = Table.read(table.to_arrow(missing_as="codes"), table.schema)
    assert cells_of(again) == cells_of(table)


@pytest.mark.long
@settings(max_examples=15)
@given(st.lists(row, min_size=1, max_size=5))
def test_rows_settle_at_once_and_in_batches(tmp_path, rows):
    table = Table.read(frame(rows), SURVEY)
    check_settled(table)
    check_written_and_read_again(table)
    texts = {n: [None if r[n] is None else str(r[n]) for r in rows] for n in SURVEY.names}
    written = pa.table({name: pa.array(cells, pa.string()) for name, cells in texts.items()})
    pq.write_table(written, tmp_path / "x.parquet", row_group_size=3)
    cliques = [(name,) for name in SURVEY.names] + [("work", "pay"), ("born", "age", "degree")]
    streamed = DuckDBSource(tmp_path / "x.parquet", SURVEY).counts(cliques, rows="extended")
    memory = MemorySource(Table.read(written, SURVEY)).counts(cliques, rows="extended")
    assert all(np.array_equal(streamed[clique], memory[clique]) for clique in cliques)


@st.composite
def ruled_rows(draw):
    """Rows of a random schema with random rules, good and bad."""
    given_, ruled = draw(books())
    loose = []
    for a in given_:
        outside = "missing" if a.nullable else "clamp" if isinstance(a, Numeric) else "error"
        facts = {f: getattr(a, f) for f in a.__dataclass_fields__ if f in vars(a)}
        absent = ("none",) if draw(st.booleans()) else facts["not_applicable"]
        loose.append(type(a)(**{**facts, "outside": outside, "not_applicable": absent}))
    schema = None
    try:
        schema = Schema(tuple(loose), tuple(rule for rule, _ in ruled))
    except SchemaError:
        schema = Schema(tuple(loose))
    n = draw(st.integers(1, 5))
    columns = {}
    for a in schema:
        cells = [*domain(a), None] if a.kinds else domain(a)
        cells += ["none"] if a.not_applicable else []
        chosen = draw(st.lists(st.sampled_from(cells), min_size=n, max_size=n))
        columns[a.name] = pd.Series(chosen, dtype=object)
    return schema, pd.DataFrame(columns)


@pytest.mark.long
@settings(max_examples=60)
@given(ruled_rows())
def test_any_rows_under_any_rules_settle(case):
    schema, rows = case
    table = Table.read(rows, schema)
    check_settled(table)
    whole = cells_of(table)
    again = Table(schema, {name: table.column(name) for name in schema.names})
    assert cells_of(Table.read(again.to_native(missing_as="codes"), schema)) == whole


def test_facts_from_a_lost_cell_become_unknown():
    facts = {"nullable": True, "not_applicable": ()}
    given_ = [Categorical(name=n, levels=("low", "high"), **facts) for n in "abc"]
    given_.append(Categorical(name="d", levels=("x",), **facts))
    rules = (
        NotApplicable("b", unless="a = 'low'"),
        Determined("d", by=("b",), map=(("low", "x"), ("high", "x"))),
        Never("c = 'high' and a = 'high'"),
    )
    rows = pd.DataFrame({"a": ["high"] * 2, "b": ["low"] * 2, "c": ["low", "high"], "d": ["x"] * 2})
    table = Table.read(rows, Schema(tuple(given_), rules))
    for name in "bd":
        assert table.mask(name, "not_applicable").tolist() == [True, False]
        assert table.mask(name, "missing").tolist() == [False, True]


def one(**cells):
    blank = dict.fromkeys(SURVEY.names) | {"age": 40}
    table = Table.read(frame([blank | cells]), SURVEY).to_arrow(missing_as="codes").to_pylist()
    return {name: value for name, value in table[0].items() if name in cells}


def test_derived_cells_are_filled_or_lost():
    assert one(age=30, born=None) == {"age": 30, "born": 1994}
    assert one(age=30, born=1980) == {"age": 30, "born": 1994}
    assert one(age=97, born=1980) == {"age": 97, "born": None}  # 1927 is before the first year
    assert one(work="no", hours=40, pay=10, tax=5) == {
        "work": "no", "hours": -1, "pay": "-1", "tax": -1.0}  # fmt: skip
    assert one(work="R", hours=40) == {"work": "R", "hours": 40}
    assert one(work="yes", hours=-1) == {"work": "yes", "hours": None}
    assert one(pay=30, tax="R") == {"pay": "30", "tax": 15.0}
    assert one(sex="m", pregnant="yes") == {"sex": None, "pregnant": None}
    assert one(sex="R", pregnant="yes") == {"sex": "R", "pregnant": "yes"}
    assert one(start=9, end=3) == {"start": None, "end": 3.0}
    assert one(degree="-", years=12) == {"degree": "-", "years": 12}
    assert one(degree="more", years=None) == {"degree": "more", "years": 16}
    # 8 years of school and a pay of 95 contradict each other. Both cells are dropped, and the cell
    # that follows from the pay stays.
    assert one(degree=None, years=8, pay=95, work="yes")["pay"] is None
    # Born in 2014, so not at work: the year follows from the age, so the work is in doubt.
    assert one(age=10, work="yes", hours=3) == {"age": 10, "work": None, "hours": 3}


def test_a_row_that_cannot_lose_a_cell_stays_as_it_is():
    levels = {"sex": ("f", "m"), "pregnant": ("no", "yes")}
    given_ = tuple(Categorical(name=name, levels=known) for name, known in levels.items())
    schema = Schema(given_, (Never("sex = 'm' and pregnant = 'yes'"),))
    table = Table.read(pd.DataFrame({"sex": ["m"], "pregnant": ["yes"]}), schema)
    assert table.to_arrow().to_pylist() == [{"sex": "m", "pregnant": "yes"}]


def test_an_equation_gives_the_one_cell_that_is_missing_whichever_it_is():
    facts = {"integer": True, **LOOSE}
    given_ = [Numeric(name="a", lower=0, upper=99, **facts, refused=(-7,))]
    for name, lower, upper in (("b", 0, 99), ("c", 0, 300), ("d", -99, 300)):
        given_.append(Numeric(name=name, lower=lower, upper=upper, **facts))
    rules = (Always("a + 2 * b = c"), Always("c - a = d"), Never("a > 90 and b < 50"))
    schema = Schema(tuple(given_), rules)
    rows = {
        "a": [-7, 3, None, -7, -7, 95, 4],
        "b": [5, None, 2, 5, 5, None, None],
        "c": [11, 13, None, 12, 9, 97, 7],
        "d": [None, None, 4, 10, None, None, None],
    }
    table = Table.read(pd.DataFrame(rows), schema)
    # The rules fill a = c - 2 b, and b = (c - a) / 2 if it is whole. A value that is not whole or
    # below 0 stays unknown, and so do two unknown cells. A broken rule drops all its cells.
    assert table.to_arrow(missing_as="codes").to_pydict() == {
        "a": [1, 3, None, 2, -7, None, 4],
        "b": [5, 5, 2, 5, 5, None, None],
        "c": [11, 13, None, 12, 9, None, 7],
        "d": [10, 10, 4, 10, None, None, 3],
    }
    assert {"a", "b"} <= schema.rule_set.rule_filled
    check_written_and_read_again(table)


def test_a_row_with_extreme_numbers_warns_of_nothing(recwarn):
    given_ = tuple(Numeric(name=n, lower=-1e12, upper=1e12, **LOOSE) for n in "abc")
    schema = Schema(given_, (Always("1e-300 * a + b = c"),))
    rows = pd.DataFrame({"a": [None, 1.0], "b": [1e12, 5.0], "c": [5.0, None]}, dtype="float64")
    Table.read(rows, schema)
    assert not recwarn.list
