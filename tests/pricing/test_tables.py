"""A table with a schema, wherever preprocessing takes rows of numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp import pricing as mp
from missdp.accounting import Budget
from missdp.datasets import yrbss
from missdp.errors import DataError, ParameterError, SchemaError
from missdp.pricing import column_names, propose_test_release, rows_of

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


def test_the_domain_of_a_schema_without_holes_is_complete():
    schema = Schema((Categorical(name="sex", levels=("f", "m")),))
    domain = mp.RowDomain.of(schema, rows=2)
    assert domain == mp.RowDomain(rows=2, columns=2, radius=1.0, complete=True)
    one = Table.from_codes(schema, {"sex": [1]})
    assert rows_of(one).tolist() == [[0.0, 1.0]]
    with pytest.raises(ParameterError, match="2 rows"):
        mp.RowDomain.of(schema, rows=1)


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


def test_every_entrance_takes_a_table():
    table = read(holey())
    rows = rows_of(table)
    for step in (mp.ConstantImputer(), mp.RowClipper(), mp.NeighbourImputer(max_incomplete=50)):
        first, second = (clone(step).fit(X).transform(X) for X in (table, rows))
        assert np.array_equal(first, second, equal_nan=True)
    chain = make_pipeline(mp.ConstantImputer(), mp.RowClipper())
    assert np.array_equal(chain.fit_transform(table), chain.fit_transform(rows))
    alone = [
        mp.PrivateMean(noise_multiplier=3.0, random_state=2).fit(X).mean_ for X in (table, rows)
    ]
    assert np.array_equal(*alone)
    domain = mp.RowDomain.of(SCHEMA, rows=60)
    steps = [("impute", mp.ConstantImputer())]
    pipeline = mp.PricedPipeline(
        steps, mp.PrivateMean(noise_multiplier=9.0), **vars(domain), random_state=3
    )
    outcomes = [propose_test_release(pipeline, X, test_epsilon=0.5) for X in (table, rows)]
    assert np.array_equal(*(outcome.estimator.mean_ for outcome in outcomes))


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
