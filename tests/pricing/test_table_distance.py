"""The metric: norms are consistent, and the worst rows are the ones set aside."""

from __future__ import annotations

from decimal import Decimal
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import pricing as mp
from missdp.errors import DataError, ParameterError
from missdp.pricing.domain import clip_rows, row_movements
from pricing.stability_cases import complete_pair, holey_pair

SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, replaced=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_setting_the_worst_rows_aside_minimises_every_norm(seed, replaced):
    x, y = complete_pair(seed, replaced=2, moving=True)
    x, y = x[:7], y[:7]
    found = mp.TableDistance.between(x, y, replaced=replaced)
    moves = row_movements(x, y)
    for aside in combinations(range(7), replaced):
        rest = np.delete(moves, aside)
        assert np.count_nonzero(rest) >= found.moved_rows
        assert rest.max() >= found.moved_max - 1e-12
        assert rest.sum() >= found.moved_l12 - 1e-12
        assert np.sqrt((rest**2).sum()) >= found.moved_frobenius - 1e-12
    assert found.covers(x, y)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_a_smaller_distance_does_not_cover(seed):
    x, y = complete_pair(seed, moving=True)
    found = mp.TableDistance.between(x, y, replaced=1)
    if found.moved_rows > 1 and found.moved_l12 > 1e-3:
        for shrink in ("moved_l12", "moved_frobenius", "moved_max"):
            less = {f: getattr(found, f) for f in ("moved_l12", "moved_frobenius", "moved_max")}
            less[shrink] *= 0.9
            assert not mp.TableDistance(replaced=1, moved_rows=found.moved_rows, **less).covers(
                x, y
            )
        fewer = mp.TableDistance(
            replaced=1, moved_rows=found.moved_rows - 1, moved_max=2.0, moved_l12=1e3
        )
        assert not fewer.covers(x, y)


def test_a_changed_mask_is_a_replaced_row():
    x, y = holey_pair(3, replaced=1)
    y = y.copy()
    free = np.flatnonzero((row_movements(x, y) == 0) & ~np.isnan(x).any(axis=1))[0]
    y[free, 0] = np.nan
    assert np.isinf(row_movements(x, y)[free])
    assert not mp.TableDistance(replaced=0, moved_rows=50, moved_max=9.0).covers(x, y)


def test_norms_imply_each_other():
    d = mp.TableDistance(replaced=1, moved_rows=9, moved_frobenius=3.0)
    assert (d.moved_max, d.moved_l12) == (3.0, 9.0)
    assert mp.TableDistance(replaced=0, moved_rows=5, moved_max=0.0).moved_rows == 0
    assert mp.NEIGHBOURS.moved_l12 == 0
    for bad in (
        {"replaced": -1},
        {"replaced": 1, "moved_rows": 2},
        {"replaced": 1, "moved_max": float("nan"), "moved_rows": 1},
    ):
        with pytest.raises(ParameterError):
            mp.TableDistance(**bad)


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


def test_the_gate_enforces_the_declared_domain():
    domain = mp.RowDomain(rows=3, columns=2)
    gate = domain.enforce([[np.inf, 0.5], [np.nan, np.nan], [30.0, 40.0]])
    np.testing.assert_allclose(gate, [[0, 0.5], [0, 0], [0.6, 0.8]])
    with pytest.raises(DataError, match="declared shape"):
        domain.enforce(np.zeros((2, 2)))
    with pytest.raises(DataError, match="two-dimensional"):
        domain.enforce([[1.0, 2.0], [3.0]])


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
