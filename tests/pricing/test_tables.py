"""Arrays and tables as rows of numbers: their conversion, distances and errors."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp import pricing as mp
from missdp.errors import ParameterError
from missdp.pricing import column_names, rows_of
from missdp.pricing.domain import clip_rows
from pricing.stability_cases import complete_pair
from pricing.table_distances import covers, distance_between, row_movements

SCHEMA = Schema(
    (
        Numeric(name="age", lower=-5, upper=95, nullable=True),
        Numeric(name="visits", lower=0, upper=7, integer=True, nullable=True),
        Ordinal(name="grade", levels=("9", "10", "11", "12"), nullable=True),
        Ordinal(name="only", levels=("x",), nullable=True),
        Categorical(name="sex", levels=("f", "m", "other"), nullable=True),
    )
)
ROW = st.tuples(
    st.none() | st.floats(-5, 95),
    st.none() | st.integers(0, 7),
    st.none() | st.sampled_from(["9", "10", "11", "12"]),
    st.none() | st.just("x"),
    st.none() | st.sampled_from(["f", "m", "other"]),
)


def read(rows):
    return Table.read(pd.DataFrame(rows, columns=SCHEMA.names, dtype=object), SCHEMA)


@pytest.mark.long
@settings(max_examples=30, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=5), ROW, st.data())
def test_a_row_is_read_by_itself(rows, other, data):
    result = rows_of(read(rows))
    assert all(
        np.array_equal(rows_of(read([row])), result[[i]], equal_nan=True)
        for i, row in enumerate(rows)
    )
    place = data.draw(st.integers(0, len(rows) - 1))
    neighbour = rows_of(read([*rows[:place], other, *rows[place + 1 :]]))
    assert covers(mp.NEIGHBOURS, result, neighbour)
    retained = np.arange(len(rows)) != place
    assert np.array_equal(result[retained], neighbour[retained], equal_nan=True)


@settings(max_examples=40, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=8))
def test_rows_are_in_the_domain_that_the_schema_says(rows):
    table = read(rows)
    result, domain = rows_of(table), mp.RowDomain.of(SCHEMA, rows=len(rows))
    assert result.shape == (domain.rows, domain.columns) == (len(rows), 7)
    assert domain.columns == len(column_names(SCHEMA))
    assert not domain.complete
    norms = np.sqrt(np.nansum(result**2, axis=1))
    assert (norms <= domain.radius * (1 + 1e-12)).all()
    np.testing.assert_allclose(domain.enforce(table), result, rtol=1e-12)
    missing = np.column_stack([table.mask(name) for name in SCHEMA.names])
    assert np.array_equal(np.isnan(result), missing[:, [0, 1, 2, 3, 4, 4, 4]])


def test_values_and_levels_are_spread_over_their_declared_range():
    rows = [(-5.0, 0, "9", "x", "f"), (95.0, 7, "12", "x", "other"), (45.0, None, "10", None, None)]
    expected = [[-1, -1, -1, 0, 1, 0, 0], [1, 1, 1, 0, 0, 0, 1], [0, None, -1 / 3, *[None] * 4]]
    result = rows_of(read(rows))
    np.testing.assert_allclose(result, np.array(expected, dtype=float), atol=1e-15)
    assert column_names(SCHEMA)[:5] == ("age", "visits", "grade", "only", "sex=f")


SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, replaced=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_setting_the_worst_rows_aside_minimises_every_norm(seed, replaced):
    x, y = (table[:7] for table in complete_pair(seed, replaced=2, moving=True))
    result, shifts = distance_between(x, y, replaced=replaced), row_movements(x, y)
    for aside in combinations(range(7), replaced):
        rest = np.delete(shifts, aside)
        assert np.count_nonzero(rest) >= result.shifted_rows
        assert rest.max() >= result.max_shift - 1e-12
        assert rest.sum() >= result.shift_l12 - 1e-12
        assert np.sqrt((rest**2).sum()) >= result.shift_frobenius - 1e-12
    assert covers(result, x, y)


@given(seed=SEEDS, radius=st.floats(0.01, 5))
@settings(max_examples=60, deadline=None)
def test_clipping_is_a_contraction_even_for_huge_entries(seed, radius):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(20, 3)) * 10.0 ** rng.integers(-3, 200)
    y = x + rng.normal(size=(20, 3))
    cx, cy = clip_rows(x, radius), clip_rows(y, radius)
    assert np.isfinite(cx).all()
    assert np.linalg.norm(cx, axis=1).max() <= radius * (1 + 1e-9)
    assert (row_movements(cx, cy) <= row_movements(x, y) * (1 + 1e-9) + 1e-9 * radius).all()


@pytest.mark.parametrize(
    "odd", ["a", b"a", None, 10**400, 1j, object(), [1], pd.NA, Decimal("sNaN")]
)
@pytest.mark.parametrize("frame", [False, True])
def test_an_odd_cell_changes_its_own_row_only(odd, frame):
    """Rows are read one by one: no cell refuses the table, or changes how others are read."""
    domain = mp.RowDomain(rows=4, columns=2)
    others = [[0.1, "0.2"], [True, Decimal("0.30000000000000000001")], [2**53 + 1, 0]]
    tables = [[*others, [cell, 0.5]] for cell in (0.25, odd)]
    if frame:
        tables = [pd.DataFrame(t) for t in tables]
    plain, strange = (domain.enforce(t) for t in tables)
    np.testing.assert_array_equal(plain[:3], strange[:3])
    assert strange[3, 0] == 0


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_smaller_distance_does_not_cover(seed):
    x, y = complete_pair(seed, moving=True)
    result = distance_between(x, y, replaced=1)
    norms = {n: getattr(result, n) for n in ("shift_l12", "shift_frobenius", "max_shift")}
    if result.shifted_rows > 1 and result.shift_l12 > 1e-3:
        for shrink in norms:
            less = replace(result, **norms | {shrink: 0.9 * norms[shrink]})
            assert not covers(less, x, y)
        wide = {"max_shift": 2.0, "shift_l12": 1e3}
        fewer = mp.TableDistance(replaced=1, shifted_rows=result.shifted_rows - 1, **wide)
        assert not covers(fewer, x, y)
    x[0, 0] = np.nan  # a changed mask is a replaced row
    assert np.isinf(row_movements(x, y)[0])
    wide = mp.TableDistance(replaced=0, shifted_rows=50, max_shift=9.0)
    assert not covers(wide, x, y)


def test_norms_imply_each_other():
    d = mp.TableDistance(replaced=1, shifted_rows=9, shift_frobenius=3.0)
    assert (d.max_shift, d.shift_l12) == (3.0, 9.0)
    assert mp.TableDistance(replaced=0, shifted_rows=5, max_shift=0.0).shifted_rows == 0
    assert mp.NEIGHBOURS.shift_l12 == 0
    for bad in ({"replaced": -1}, {"shifted_rows": 2}, {"shifted_rows": 1, "max_shift": np.nan}):
        with pytest.raises(ParameterError):
            mp.TableDistance(**{"replaced": 1, **bad})
    required = mp.RowDomain(rows=3, columns=2).enforce([[np.inf, 0.5], [np.nan] * 2, [30.0, 40.0]])
    np.testing.assert_allclose(required, [[0, 0.5], [0, 0], [0.6, 0.8]])
