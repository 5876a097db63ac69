"""Denial constraints are read and checked, and conflicts are counted as by hand."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baselines.constraint_cases import SCHEMA, conflicts, constraints, made, tables, violates
from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.baselines import denial_constraints
from missdp.baselines.denial_constraints import (
    MAX_DIFFERENT,
    constraint_texts,
    count_conflicts,
    read_constraints,
    violates_itself,
)
from missdp.errors import DataError, ParameterError
from missdp.schema.logic import OPERATORS
from refusing import refuses

DATA = Path(__file__).parents[3] / "shared" / "data"
SCALE = ("low", "mid", "high")
PLACES = Schema(
    (
        Ordinal(name="size", levels=SCALE, nullable=True),
        Ordinal(name="need", levels=SCALE, nullable=True),
        Numeric(name="gain-1", lower=0, upper=9, integer=True, nullable=True),
        Numeric(name="loss", lower=0, upper=9, integer=True, nullable=True),
        Numeric(name="zip code", lower=0, upper=9, integer=True),
        Categorical(name="city", levels=("x, y", "it's"), nullable=True),
    )
)
CITY = "t1&t2&EQ(t1.city,t2.city)"


def one(text, schema=PLACES):
    (found,) = read_constraints([text], schema)
    return found


# -- reading ---------------------------------------------------------------------------------------
def test_comparisons_are_sorted_into_pairs_and_single_rows():
    found = one(
        "t1&t2&EQ(t2.city,t1.city)&GT(t2.gain-1,t1.loss)&EQ(t1.size,'low')&LT(t2.loss,t2.gain-1)"
    )
    assert found.between == (("==", "city", "city"), ("<", "loss", "gain-1"))
    assert [part.left.name for part in found.first] == ["size"]
    (second,) = found.second
    assert (second.left.name, second.operator, second.right.name) == ("loss", "<", "gain-1")


@pytest.mark.parametrize(
    "text",
    [
        "t1&t2&EQ(t1.zip code,t2.zip code)&GT(t1.loss,3)",
        " t1 & t2 & EQ( t1.`zip code` , t2.zip code ) & LT(3.0,t1.loss)",
        "t1&t2&EQ(t2.zip code,t1.zip code)&GT(t1.`loss`,3e0)",
    ],
)
def test_spellings_of_a_constraint_mean_the_same(text):
    found = one(text)
    assert found.between == (("==", "zip code", "zip code"),)
    assert [(part.operator, part.right) for part in found.first] == [(">", 3.0)]


def test_constraints_in_one_text_stand_on_lines_or_between_semicolons():
    text = f"# the papers' file\n{CITY}\r\n\n {CITY}&LT(t1.loss,t2.loss); {CITY};"
    assert constraint_texts(text) == (CITY, f"{CITY}&LT(t1.loss,t2.loss)", CITY)
    assert constraint_texts([f" {CITY} "]) == (CITY,)
    assert constraint_texts(()) == constraint_texts("") == ()


@pytest.mark.parametrize("given_", [3, None, {"a": "b"}, [3], [CITY, None], {CITY}])
def test_constraints_of_a_wrong_type_raise(given_):
    with refuses(ParameterError, "constraints must be a list of texts"):
        constraint_texts(given_)


WRONG = [
    (f"{CITY}&IQ(t1.sise,t2.size)", r"at 'IQ\(t1.sise,t2.size\)'.*'sise'. Did you mean 'size'"),
    (f"{CITY}&LT(t1.loss,t2.size)", r"at 'LT.*'loss' and 'size' differ in kind"),
    (f"{CITY}&LT(t1.city,t2.city)", r"at 'LT.*has no order"),
    (f"{CITY}&EQ(t1.city,t2.size)", "differ in kind"),
    (f"{CITY}&LT(t1.loss,'low')", r"at .LT\(t1.loss,'low'\).*numeric"),
    (f"{CITY}&EQ(t1.size,'huge')", "at .*'huge'"),
    (f"{CITY}&EQ(1,2)", r"at 'EQ\(1,2\)'.*two constants"),
    (f"{CITY}&LIKE(t1.city,t2.city)", r"at 'LIKE\(t1.city,t2.city\)'.*EQ, IQ, LT"),
    (f"{CITY}&", "at '&'|EQ, IQ, LT"),
    (f"{CITY} or", "EQ, IQ, LT"),
    ("t1&GT(t1.loss,3)", "must begin with t1&t2&.*rules of the schema"),
    ("t1&t2&GT(t1.loss,3)", "compare both rows"),
    ("not(t1.city = t2.city)", "must begin with t1&t2&"),
    ("t1&t2&", "compare both rows"),
    ("t1&t2&" + "&".join(["IQ(t1.loss,t2.loss)"] * (MAX_DIFFERENT + 1)), "at most 6"),
]


@pytest.mark.parametrize(("text", "told"), WRONG)
def test_an_error_names_the_constraint_and_the_place(text, told):
    with refuses(ParameterError, told) as caught:
        read_constraints([CITY, text], PLACES)
    assert repr(text) in str(caught.value)


def test_an_error_about_many_blanks_takes_no_time():
    blanks = " " * 20_000
    with refuses(ParameterError, "EQ, IQ, LT"):
        read_constraints([f"t1&t2&EQ(t1.city{blanks},t2.city{blanks}("], PLACES)


@settings(max_examples=200)
@given(st.text(alphabet="t12.&EQIL()T,'\"`3a x;\n-", max_size=40))
def test_any_text_is_read_or_raises_a_typed_error(text):
    for whole in (text, f"t1&t2&{text}", f"{CITY}&EQ(t1.{text},t2.loss)"):
        try:
            read_constraints(whole, PLACES)
        except ParameterError:
            continue


DEPENDENCIES = [
    (f"{CITY}&IQ(t1.size,t2.size)", (("city",), "size")),
    (
        "t1&t2&IQ(t1.loss,t2.loss)&EQ(t1.size,t2.size)&EQ(t1.need,t2.need)",
        (("size", "need"), "loss"),
    ),
    ("t1&t2&EQ(t1.size,t2.need)&IQ(t1.loss,t2.loss)", None),
    (f"{CITY}&LT(t1.size,t2.size)", None),
    (f"{CITY}&IQ(t1.size,t2.size)&EQ(t1.need,'low')", None),
    ("t1&t2&IQ(t1.size,t2.size)", None),
]


@pytest.mark.parametrize(("text", "dependency"), DEPENDENCIES)
def test_a_functional_dependency_is_recognised(text, dependency):
    assert one(text).dependency == dependency


ORDERS = [
    ("t1&t2&LT(t1.size,t2.size)&GT(t1.loss,t2.loss)", ((), "size", "loss", True)),
    (f"{CITY}&LT(t1.size,t2.size)&LT(t1.loss,t2.loss)", (("city",), "size", "loss", False)),
    ("t1&t2&LT(t1.size,t2.size)&GTE(t1.loss,t2.loss)", None),
    ("t1&t2&LT(t1.size,t2.need)&GT(t1.loss,t2.loss)", None),
    ("t1&t2&LT(t1.size,t2.size)&GT(t1.size,t2.size)", None),
    (f"{CITY}&LT(t1.size,t2.size)", None),
]


@pytest.mark.parametrize(("text", "order"), ORDERS)
def test_two_strict_orders_are_recognised(text, order):
    assert one(text).order == order


@pytest.mark.skipif(not DATA.exists(), reason="the files are not here")
def test_the_files_of_the_papers_are_read():
    from _data import schema

    texts = (DATA / "adult" / "denial_constraints.txt").read_text(encoding="utf-8")
    first, second = read_constraints(texts, schema("adult"))
    assert first.dependency == (("education",), "education-num")
    assert second.order == ((), "capital-gain", "capital-loss", False)
    texts = (DATA / "br2000" / "denial_constraints.txt").read_text(encoding="utf-8")
    assert len(read_constraints(texts, schema("br2000"))) == 3


# -- counting --------------------------------------------------------------------------------------
@settings(max_examples=60)
@given(constraints(), tables(), tables())
def test_conflicts_are_counted_as_by_a_look_at_every_pair(constraint, rows, others):
    assert count_conflicts(constraint, rows).tolist() == conflicts(constraint, rows).tolist()
    pairs = violates(constraint, rows, rows)
    assert violates_itself(constraint, rows).tolist() == pairs.diagonal().tolist()
    across = violates(constraint, rows, others).sum(axis=1)
    across += violates(constraint, others, rows).sum(axis=0)
    assert count_conflicts(constraint, rows, others).tolist() == across.tolist()
    ranks = np.random.default_rng(len(rows)).integers(0, 5, len(rows))
    lower = (pairs + pairs.T.astype(int)) * (ranks[:, np.newaxis] > ranks)
    assert count_conflicts(constraint, rows, ranks=ranks).tolist() == lower.sum(axis=1).tolist()


@st.composite
def related(draw):
    signs = draw(st.lists(st.sampled_from(list(OPERATORS)), max_size=5))
    n, m = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    values = draw(st.sampled_from([1, 2, 5, 1000]))  # all equal, many ties, hardly any
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    queries = [rng.integers(-1, values + 1, n).astype(float) for _ in signs]
    points = [rng.integers(0, values, m).astype(float) for _ in signs]
    return n, m, list(zip(signs, queries, points, strict=True))


@settings(max_examples=150)
@given(related())
def test_related_points_are_counted_as_by_hand(case):
    n, m, comparisons = case
    expected = np.ones((n, m), dtype=bool)
    for sign, queries, points in comparisons:
        expected &= OPERATORS[sign](queries[:, np.newaxis], points)
    keys = np.zeros(n, dtype=np.int64), np.zeros(m, dtype=np.int64)
    ranked = [denial_constraints._ranked(*each) for each in comparisons]
    found = denial_constraints._count_related(keys, ranked)
    assert found.tolist() == expected.sum(axis=1).tolist()


def test_numbers_that_hardly_differ_are_different():
    values = np.array([0.1 + 0.2, 0.3, np.nextafter(0.3, 1)])
    ranks = denial_constraints._ranked("==", values, values)[1]
    assert ranks[0] == ranks[2] > ranks[1]


def test_bins_alone_do_not_tell_whether_numbers_are_equal():
    codes = {a.name: np.zeros(3, dtype=int) for a in SCHEMA}
    with refuses(DataError, "no numeric values"):
        count_conflicts(one("t1&t2&EQ(t1.x,t2.x)", SCHEMA), Table.from_codes(SCHEMA, codes))


def test_missing_cells_are_in_no_conflict():
    table = made(200, 0, values=3, holes=0.4)
    counts = count_conflicts(one("t1&t2&IQ(t1.x,t2.x)&LTE(t1.o,t2.o)", SCHEMA), table)
    lacking = table.mask("x") | table.mask("o")
    assert not counts[lacking].any()
    assert counts[~lacking].any()
