"""Pairs of rows that violate a denial constraint are counted as by looking at every pair."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Table
from missdp.errors import DataError, ParameterError
from missdp.schema import Denial
from missdp.schema.conditions import OPERATORS
from missdp.sources import partners as counting
from missdp.sources.partners import _related, violating_pairs, violating_partners
from refusing import refuses
from sources.pair_cases import SCHEMA, denials, made, partners, tables, violates


@settings(max_examples=200)
@given(denials(), tables(), tables())
def test_partners_are_counted_as_by_looking_at_every_pair(denial, rows, others):
    within = partners(denial, rows)
    assert violating_partners(denial, rows).tolist() == within.tolist()
    assert violating_pairs(denial, rows) == within.sum() // 2
    ranks = np.random.default_rng(len(rows)).integers(0, 5, len(rows))
    pairs = violates(denial, rows, rows)
    lower = (pairs | pairs.T) & (ranks[:, np.newaxis] > ranks)
    assert violating_partners(denial, rows, ranks=ranks).tolist() == lower.sum(axis=1).tolist()
    assert counting.violates_itself(denial, rows).tolist() == pairs.diagonal().tolist()
    across = violates(denial, rows, others) | violates(denial, others, rows).T
    assert violating_partners(denial, rows, others).tolist() == across.sum(axis=1).tolist()


def test_rows_that_are_observed_have_a_value_of_each_attribute():
    table = made(50, 0, values=10, holes=0.4)
    seen = counting.observed_on(("x", "c"), table)
    assert 0 < seen.sum() < 50
    assert np.array_equal(seen, ~(table.mask("x") | table.mask("c")))
    assert counting.observed_on((), table).all()


def test_bins_alone_do_not_tell_whether_numbers_are_equal():
    codes = {a.name: np.zeros(3, dtype=int) for a in SCHEMA}
    denial = Denial("t1&t2&EQ(t1.x,t2.x)").pair(SCHEMA)
    assert denial is not None
    with refuses(DataError, "no numeric values"):
        violating_partners(denial, Table.from_codes(SCHEMA, codes))


# Points in a relation to each query are counted as by looking at every pair, and sooner
def by_hand(points, queries, signs):
    found = np.ones((len(queries[0]), len(points[0])), dtype=bool)
    for one, two, sign in zip(points, queries, signs, strict=True):
        found &= OPERATORS[sign](two[:, np.newaxis], one[np.newaxis])
    return found.sum(axis=1)


@st.composite
def cases(draw):
    signs = draw(st.lists(st.sampled_from(list(OPERATORS)), min_size=1, max_size=6))
    n, m = draw(st.integers(0, 40)), draw(st.integers(0, 40))
    values = draw(st.sampled_from([1, 2, 5, 1000]))  # all equal, many ties, hardly any
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kind = draw(st.sampled_from([np.int64, np.float64]))
    points = [rng.integers(0, values, n).astype(kind) for _ in signs]
    queries = [rng.integers(-1, values + 1, m).astype(kind) for _ in signs]
    return points, queries, signs


@settings(max_examples=150)
@given(cases())
def test_points_are_counted_as_by_hand(case):
    assert _related(*case).tolist() == by_hand(*case).tolist()


def test_numbers_that_hardly_differ_are_told_apart():
    one = np.array([0.1 + 0.2, 0.3, np.nextafter(0.3, 1), -1e300, 1e300])
    for sign in OPERATORS:
        case = ((one,), (one,), (sign,))
        assert _related(*case).tolist() == by_hand(*case).tolist()


def test_what_cannot_be_counted_is_refused():
    one = np.zeros(2)
    many = ("!=",) * (counting.MOST_DIFFERENT + 1)
    lacking = "there is one"
    for signs, why in (
        (("=",), "by ..=.."),
        ((), lacking),
        (("==",) * 2, lacking),
        (many, "at most"),
    ):
        columns = (one,) * (1 if why == lacking else len(signs))
        with refuses(ParameterError, why):
            _related(columns, columns, signs)
