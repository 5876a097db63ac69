"""Pairs of rows that violate a denial constraint are counted as by looking at every pair."""

import numpy as np
import pytest
from hypothesis import given, settings

from missdp import Table
from missdp.errors import DataError
from missdp.schema import Denial
from missdp.sources.partners import (
    observed_on,
    violates_itself,
    violating_pairs,
    violating_partners,
)
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
    assert violates_itself(denial, rows).tolist() == pairs.diagonal().tolist()
    across = violates(denial, rows, others) | violates(denial, others, rows).T
    assert violating_partners(denial, rows, others).tolist() == across.sum(axis=1).tolist()


def test_rows_that_are_observed_have_a_value_of_each_attribute():
    table = made(50, 0, values=10, holes=0.4)
    seen = observed_on(("x", "c"), table)
    assert 0 < seen.sum() < 50
    assert np.array_equal(seen, ~(table.mask("x") | table.mask("c")))
    assert observed_on((), table).all()


def test_bins_alone_do_not_tell_whether_numbers_are_equal():
    codes = {a.name: np.zeros(3, dtype=int) for a in SCHEMA}
    denial = Denial("t1&t2&EQ(t1.x,t2.x)").pair(SCHEMA)
    assert denial is not None
    with pytest.raises(DataError, match="no numeric values"):
        violating_partners(denial, Table.from_codes(SCHEMA, codes))
