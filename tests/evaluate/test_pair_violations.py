"""Pairs of rows that violate denial constraints are counted; nothing is mended before."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.evaluate import PairViolations, pair_violations
from missdp.schema import Denial, Impossible, read_denials

DATA = Path(__file__).parents[3] / "shared" / "data"
CITY = "t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"
PAY = "t1&t2&LT(t1.rank,t2.rank)&GT(t1.pay,t2.pay)"
SCHEMA = Schema(
    (
        Categorical(name="zip", levels=("x", "y"), nullable=True),
        Categorical(name="city", levels=("x", "y"), nullable=True),
        Ordinal(name="rank", levels=(1, 2, 3)),
        Numeric(name="pay", lower=0, upper=100, bins=2, nullable=True),
    ),
    (Denial(CITY), Denial(PAY, holds="mostly"), Impossible("zip = 'y' and rank = 3")),
)
FRAME = pd.DataFrame(
    {
        "zip": ["x", "x", "x", None, "y"],
        "city": ["x", "x", "y", "y", "y"],
        "rank": [1, 2, 2, 3, 3],
        "pay": [30.0, 20.0, 20.5, 20.2, np.nan],
    }
)


def test_pairs_and_rows_in_them_are_counted_among_observed_rows() -> None:
    for data in (FRAME, Table.read(FRAME, Schema(SCHEMA.attributes))):
        found = pair_violations(data, schema=SCHEMA)
        assert found.rows == 5
        assert found.observed == {CITY: 4, PAY: 4}
        assert found.pairs == {CITY: 2, PAY: 4}  # within one bin, too
        assert found.broken_rows == {CITY: 3, PAY: 4}
        assert found.pair_shares == {CITY: 2 / 6, PAY: 4 / 6}
        assert found.row_shares == {CITY: 0.75, PAY: 1.0}


def test_few_rows_make_no_pairs() -> None:
    for many in (0, 1):
        found = pair_violations(FRAME[:many], schema=SCHEMA)
        assert found.pairs == found.broken_rows == {CITY: 0, PAY: 0}
        assert found.pair_shares == found.row_shares == {CITY: 0.0, PAY: 0.0}
    assert pair_violations(FRAME, schema=Schema(SCHEMA.attributes)) == PairViolations(5, {}, {}, {})


def test_refusals() -> None:
    with pytest.raises(ParameterError, match="schema="):
        pair_violations(FRAME)
    with pytest.raises(SchemaError, match="different attributes"):
        pair_violations(Table.read(FRAME, SCHEMA).subset(("pay",)), schema=SCHEMA)
    with pytest.raises(DataError, match="no numeric values"):
        pair_violations(Table.from_codes(SCHEMA, {a.name: np.zeros(2, dtype=int) for a in SCHEMA}))


@pytest.mark.skipif(not DATA.exists(), reason="the files are not here")
def test_the_constraints_of_adult_hold_and_those_of_br2000_mostly_do() -> None:
    from _data import schema

    kinds = {"adult": 0.0, "br2000": 0.02}
    for dataset, most in kinds.items():
        rules = read_denials(DATA / dataset / "denial_constraints.txt")
        facts = Schema(schema(dataset).attributes, rules)
        found = pair_violations(DATA / dataset / "truth.parquet", schema=facts)
        assert all(0 <= share <= most for share in found.pair_shares.values())
        assert any(share > 0 for share in found.pair_shares.values()) is (dataset == "br2000")
