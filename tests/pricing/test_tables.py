"""Arrays and tables as rows of numbers: what they become, how far apart, what is refused."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp import pricing as mp
from missdp.accounting import Budget
from missdp.datasets import yrbss
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.pricing import column_names, propose_test_release, rows_of
from missdp.pricing.domain import _row_movements, clip_rows
from missdp.schema import NotApplicable
from pricing.stability_cases import complete_pair, holey_pair

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


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=1, max_size=8), ROW, st.data())
def test_a_row_is_read_by_itself(rows, other, data):
    found = rows_of(read(rows))
    assert all(
        np.array_equal(rows_of(read([row])), found[[i]], equal_nan=True)
        for i, row in enumerate(rows)
    )
    place = data.draw(st.integers(0, len(rows) - 1))
    neighbour = rows_of(read([*rows[:place], other, *rows[place + 1 :]]))
    assert mp.NEIGHBOURS.covers(found, neighbour)
    kept = np.arange(len(rows)) != place
    assert np.array_equal(found[kept], neighbour[kept], equal_nan=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROW, min_size=2, max_size=8))
def test_rows_are_in_the_domain_that_the_schema_says(rows):
    table = read(rows)
    found, domain = rows_of(table), mp.RowDomain.of(SCHEMA, rows=len(rows))
    assert found.shape == (domain.rows, domain.columns) == (len(rows), 7)
    assert domain.columns == len(column_names(SCHEMA))
    assert not domain.complete
    norms = np.sqrt(np.nansum(found**2, axis=1))
    assert (norms <= domain.radius * (1 + 1e-12)).all()
    np.testing.assert_allclose(domain.enforce(table), found, rtol=1e-12)
    holes = np.column_stack([table.mask(name) for name in SCHEMA.names])
    assert np.array_equal(np.isnan(found), holes[:, [0, 1, 2, 3, 4, 4, 4]])


def test_values_and_levels_are_spread_over_their_declared_range():
    rows = [(-5.0, 0, "9", "x", "f"), (95.0, 7, "12", "x", "other"), (45.0, None, "10", None, None)]
    nan = float("nan")
    expected = [
        [-1, -1, -1, 0, 1, 0, 0],
        [1, 1, 1, 0, 0, 0, 1],
        [0, nan, -1 / 3, nan, nan, nan, nan],
    ]
    np.testing.assert_allclose(rows_of(read(rows)), expected, atol=1e-15)
    assert column_names(SCHEMA)[:5] == ("age", "visits", "grade", "only", "sex=f")


def holey(rows=60, seed=0):
    rng = np.random.default_rng(seed)
    levels = [a.levels for a in SCHEMA if not isinstance(a, Numeric)]
    cells = [
        [
            *(rng.uniform(-5, 95), int(rng.integers(8))),
            *(found[rng.integers(len(found))] for found in levels),
        ]
        for _ in range(rows)
    ]
    return [[None if rng.random() < 0.1 else cell for cell in row] for row in cells]


@pytest.mark.parametrize("gone", [None, "age", "sex"])
def test_a_pipeline_makes_of_a_table_what_it_makes_of_its_rows(gone):
    cells = holey()
    if gone is not None:
        place = SCHEMA.names.index(gone)
        cells = [[*row[:place], None, *row[place + 1 :]] for row in cells]
    table, labels = read(cells), [0, 1] * 30
    steps = [("impute", mp.MeanImputer(max_incomplete=59)), ("clip", mp.RowClipper())]
    for estimator in (
        mp.PrivateMean(noise_multiplier=3.0),
        mp.PrivateLogisticRegression(noise_multiplier=30.0, n_iter=3),
    ):
        domain = mp.RowDomain.of(SCHEMA, rows=60)
        pipeline = mp.PricedPipeline(steps, estimator, **vars(domain), random_state=1)
        released = [clone(pipeline).fit(X, labels) for X in (table, rows_of(table))]
        name = "mean_" if isinstance(estimator, mp.PrivateMean) else "coef_"
        first, second = (getattr(one.estimator_, name) for one in released)
        assert first.tolist() == second.tolist()
        assert released[0].guarantee_ == released[1].guarantee_


def test_what_is_not_declared_public_is_refused_before_anything_is_charged():
    marked = replace(SCHEMA["sex"], undeclared=("levels",))
    schema = Schema((*SCHEMA.subset(["age"]), marked))
    table = Table.read(pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"]}), schema)
    budget = Budget(1.0, 1e-6, adjacency="replace-one")
    mean = mp.PrivateMean(noise_multiplier=5.0, budget=budget)
    pipeline = mp.PricedPipeline([], mean, rows=2, columns=4, budget=budget)
    for refused in (
        lambda: mp.RowDomain.of(schema, rows=2),
        lambda: rows_of(table),
        lambda: mean.fit(table),
        lambda: pipeline.fit(table),
    ):
        with pytest.raises(SchemaError, match="'sex'"):
            refused()
    assert not budget.events


def test_other_shapes_and_bins_are_refused_before_anything_is_charged():
    table = yrbss().table().subset(["age", "gender"])
    width = len(column_names(table.schema))
    budget = Budget(1.0, 1e-6, adjacency="replace-one")
    mean = mp.PrivateMean(noise_multiplier=5.0)
    for rows, columns in ((len(table) + 1, width), (len(table), width + 1)):
        pipeline = mp.PricedPipeline([], mean, rows=rows, columns=columns, budget=budget)
        with pytest.raises(DataError, match="declared shape"):
            pipeline.fit(table)
    numeric = Schema((Numeric(name="age", lower=0, upper=10),))
    bins = Table.from_codes(numeric, {"age": [0, 1]})
    with pytest.raises(DataError, match="no numeric values"):
        mp.PricedPipeline([], mean, rows=2, columns=1, budget=budget).fit(bins)
    assert not budget.events


HOURS = Numeric(name="hours", lower=0, upper=80, nullable=True, refused=(-7,))
WORK = Categorical(name="work", levels=("no", "yes"))
RULED = Schema((WORK, HOURS), (NotApplicable("hours", unless="work = 'yes'"),))
CODED = Schema((WORK, Numeric(name="hours", lower=0, upper=80, not_applicable=(-1,))))
FREE = Schema((WORK, HOURS))
FRAME = pd.DataFrame({"work": ["no", "yes", "yes", "yes"] * 10, "hours": [40, 20, -7, None] * 10})
REFUSED = "'hours' is not applicable to some rows.*Table.subset"


def table(schema: Schema = RULED) -> Table:
    frame = FRAME if schema is not CODED else FRAME.assign(hours=[-1, 20, 30, 40] * 10)
    return Table.read(frame, schema)


def pipeline(budget: Budget, *, complete: bool = False) -> mp.PricedPipeline:
    steps = [] if complete else [("impute", mp.ConstantImputer())]
    return mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=5.0), rows=40, columns=3, radius=2.0,
        complete=complete, budget=budget,
    )  # fmt: skip


@pytest.mark.parametrize("schema", [RULED, CODED])
@pytest.mark.parametrize("complete", [False, True])
def test_a_pipeline_refuses_before_it_charges(schema, complete):
    budget = Budget(10.0, 1e-5, adjacency="replace-one")
    with pytest.raises(SchemaError, match=REFUSED):
        pipeline(budget, complete=complete).fit(table(schema))
    with pytest.raises(SchemaError, match=REFUSED):
        propose_test_release(pipeline(budget, complete=complete), table(schema), test_epsilon=0.1)
    with pytest.raises(SchemaError, match=REFUSED):
        mp.PrivateMean(noise_multiplier=5.0, budget=budget).fit(table(schema))
    assert budget.events == ()


FILLING = [
    mp.ConstantImputer(),
    mp.MeanImputer(max_incomplete=30),
    mp.MedianImputer(max_incomplete=30, central_gap=0.1),
    mp.TrimmedMeanImputer(max_incomplete=5, trim=6, trimmed_range=0.5),
    mp.RegressionImputer(target=1, max_incomplete=1, least_eigenvalue=0.01),
    mp.NeighbourImputer(n_neighbors=2, max_incomplete=30),
]


def test_whatever_fills_a_cell_refuses_what_is_not_applicable():
    assert not mp.RowDomain.of(RULED, rows=40).complete
    assert not mp.RowDomain.of(CODED, rows=40).complete
    fitted = mp.PrivateLinearRegression(noise_multiplier=9.0)
    fitted.coef_ = np.zeros(3)
    assert fitted.predict(table(FREE)).tolist() == [0.0] * 40
    known = rows_of(table(FREE))
    filling = [step.fit for step in FILLING] + [clone(s).fit(known).transform for s in FILLING]
    for fill in (*filling, fitted.predict, mp.RowDomain(rows=40, columns=3).enforce):
        with pytest.raises(SchemaError, match=REFUSED):
            fill(table())


SEEDS = st.integers(0, 2**32 - 1)


@given(seed=SEEDS, replaced=st.integers(0, 3))
@settings(max_examples=60, deadline=None)
def test_setting_the_worst_rows_aside_minimises_every_norm(seed, replaced):
    x, y = complete_pair(seed, replaced=2, moving=True)
    x, y = x[:7], y[:7]
    found = mp.TableDistance.between(x, y, replaced=replaced)
    moves = _row_movements(x, y)
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
    free = np.flatnonzero((_row_movements(x, y) == 0) & ~np.isnan(x).any(axis=1))[0]
    y[free, 0] = np.nan
    assert np.isinf(_row_movements(x, y)[free])
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
    assert (_row_movements(cx, cy) <= _row_movements(x, y) * (1 + 1e-9) + 1e-9 * radius).all()


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
