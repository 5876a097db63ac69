"""The edges of every stated collection: the map holds there, and no table is refused alone."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from stability_cases import (
    deduplicate_case,
    distance_of,
    extreme_pair,
    mean_case,
    median_case,
    min_max_case,
    model_case,
    neighbours_case,
    pca_case,
    pca_dimension_case,
    pca_second_case,
    quantize_case,
    regression_case,
    standard_case,
    standard_floor_case,
    trimmed_case,
)

from missdp.errors import MissDPError, ParameterError, UnprovenError
from missdp.pricing import (
    NEIGHBOURS,
    ConstantImputer,
    Deduplicator,
    MeanImputer,
    MedianImputer,
    MinMaxScaler,
    NeighbourImputer,
    PCADimensionReducer,
    PCARankReducer,
    PricedPipeline,
    PrivateMean,
    Quantizer,
    RegressionImputer,
    RowClipper,
    RowDomain,
    StandardScaler,
    TrimmedMeanImputer,
)

NAN = math.nan


def trimmed_once_case(pair):
    return trimmed_case(pair, trim=1)


IMPUTERS = [
    mean_case, median_case, trimmed_once_case, regression_case, neighbours_case, model_case,
]  # fmt: skip
OTHERS = [
    standard_case, standard_floor_case, min_max_case, pca_case, pca_second_case,
    pca_dimension_case, deduplicate_case, quantize_case,
]  # fmt: skip


def constant_case(pair):
    rows, columns = pair[0].shape
    return ConstantImputer(value=-0.5), RowDomain(rows=rows, columns=columns, complete=False)


def clip_case(pair):
    rows, columns = pair[0].shape
    return RowClipper(radius=0.3), RowDomain(rows=rows, columns=columns, complete=False)


def in_collection(step, pair):
    """Whether both tables meet the conditions that a case could not tighten to the pair."""
    if isinstance(step, StandardScaler) and step.below == "assume":
        return min(t.std(axis=0).min() for t in pair) >= step.least_std
    if isinstance(step, MinMaxScaler):
        return min(np.ptp(t, axis=0).min() for t in pair) >= step.least_range
    if isinstance(step, PCADimensionReducer) and step.least_overlap <= 1e-5:
        return False
    return not isinstance(step, PCARankReducer) or step.least_gap > 1e-6


@pytest.mark.parametrize("case", [*IMPUTERS, constant_case, clip_case, *OTHERS])
@given(seed=st.integers(0, 2**32 - 1), replaced=st.integers(1, 3), moving=st.booleans())
@settings(max_examples=60, deadline=None)
def test_maps_hold_at_the_edges_and_nothing_is_refused(case, seed, replaced, moving):
    columns = (
        3 if case in (regression_case, pca_case, pca_second_case, pca_dimension_case) else None
    )
    pair = extreme_pair(seed, replaced=replaced, moving=moving, d=columns, holes=case not in OTHERS)
    # No collection contains the table or not: whatever it is, a fit goes through.
    step, domain = case(pair)
    results = [clone(step).fit_transform(t) for t in pair]
    for table in results:
        assert case is clip_case or np.isfinite(table).all()
    try:
        after, bound = (
            step.output_domain(domain),
            step.stability(distance_of(pair, replaced), domain),
        )
    except (ParameterError, UnprovenError):
        return
    if not in_collection(step, pair):
        return
    assert bound.covers(*results)
    for table in results:
        assert np.sqrt(np.nansum(table**2, axis=1)).max() <= after.radius * (1 + 1e-9)


def test_gaps_between_values_that_are_all_replaced_prove_nothing():
    """Every observed value may be replaced: no gap is left, yet the median moves by 2."""
    x = np.array([[1.0]] + [[NAN]] * 49)
    y = np.array([[-1.0]] + [[NAN]] * 49)
    step = MedianImputer(max_incomplete=49, central_gap=0.0)
    domain = RowDomain(rows=50, columns=1, complete=False)
    assert step.stability(NEIGHBOURS, domain).covers(
        *(clone(step).fit_transform(t) for t in (x, y))
    )
    pipeline = PricedPipeline(
        [("impute", step)], PrivateMean(noise_multiplier=5.0, mechanism="laplace"),
        rows=50, columns=1, complete=False, delta=0.0,
    )  # fmt: skip
    assert pipeline.guarantee().epsilon == pytest.approx(10, rel=1e-4)
    nearly = MedianImputer(max_incomplete=48, central_gap=0.0)
    assert nearly.stability(NEIGHBOURS, domain).moved_rows == 0


def test_the_median_moves_by_h_gaps_if_one_value_is_common():
    """The smallest tables for which the gaps still bind: one common value, 2 h others."""
    for h in (1, 2, 3):
        low, high = np.arange(-h, 1) * 0.1, np.arange(0, h + 1) * 0.1
        column = [np.concatenate([c, np.full(20, NAN)])[:, None] for c in (low, high[::-1])]
        step = MedianImputer(max_incomplete=20, central_gap=0.1, central_ranks=h + 1)
        domain = RowDomain(rows=21 + h, columns=1, complete=False)
        filled = [clone(step).fit_transform(c)[-1, 0] for c in column]
        moved = abs(filled[0] - filled[1])
        assert moved == pytest.approx(0.1 * h)
        shift = step.shift(distance_of(tuple(column), h), domain)
        assert moved <= shift + 1e-12
        assert shift == pytest.approx(0.1 * h)


def test_a_missing_predictor_refuses_no_table():
    whole = np.array([[0.1, 0.2], [0.3, 0.6], [0.2, NAN], [0.5, 0.9]])
    holes = whole.copy()
    holes[0, 0] = NAN
    step = RegressionImputer(target=1, max_incomplete=2, regularization=0.1)
    domain = RowDomain(rows=4, columns=2, complete=False)
    tables = [clone(step).fit_transform(t) for t in (whole, holes)]
    assert tables[1][0, 0] == 0
    assert step.stability(NEIGHBOURS, domain).covers(*tables)


BAD = [
    (MeanImputer, {"max_incomplete": 2.5}),
    (MeanImputer, {"max_incomplete": "many"}),
    (MeanImputer, {"max_incomplete": 5, "cells_per_row": True}),
    (MedianImputer, {"max_incomplete": 5, "central_gap": NAN}),
    (MedianImputer, {"max_incomplete": 5, "central_gap": math.inf}),
    (MedianImputer, {"max_incomplete": 5, "central_gap": 0.1, "central_ranks": 1.5}),
    (TrimmedMeanImputer, {"max_incomplete": 5, "trim": 1.5, "trimmed_range": 0.1}),
    (TrimmedMeanImputer, {"max_incomplete": 5, "trim": 1, "trimmed_range": -0.1}),
    (RegressionImputer, {"target": 7, "max_incomplete": 5, "regularization": 0.1}),
    (RegressionImputer, {"target": 0, "max_incomplete": 5}),
    (NeighbourImputer, {"max_incomplete": 5, "n_neighbors": 0}),
    (NeighbourImputer, {"max_incomplete": 5, "max_donations": -1}),
    (ConstantImputer, {"value": NAN}),
    (RowClipper, {"radius": math.inf}),
    (StandardScaler, {"least_std": 0.0}),
    (StandardScaler, {"least_std": 1e-200}),
    (StandardScaler, {"least_std": None}),
    (MinMaxScaler, {"least_range": NAN, "extreme_gap": 0.1}),
    (MinMaxScaler, {"least_range": 0.1, "extreme_gap": 0.1, "extreme_ranks": 0.5}),
    (PCARankReducer, {"n_components": 1.5, "least_gap": 0.1}),
    (PCARankReducer, {"n_components": 1, "least_gap": math.inf}),
    (PCARankReducer, {"n_components": 1, "least_gap": 0.1, "moment": "third"}),
    (PCADimensionReducer, {"n_components": 1, "least_gap": 0.1, "least_overlap": 2}),
    (PCADimensionReducer,
     {"n_components": 1, "least_gap": 0.1, "least_overlap": 0.5, "frame": [["a"], [1]]}),
    (Quantizer, {"eta": 0.1, "max_cluster": 2.5}),
    (Deduplicator, {"eta": NAN, "max_cluster": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "facts"), BAD)
def test_bad_parameters_are_refused_when_stability_is_asked_for(kind, facts):
    imputes = kind in (ConstantImputer, RowClipper) or "Imputer" in kind.__name__
    domain = RowDomain(rows=30, columns=2, complete=not imputes)
    with pytest.raises(ParameterError):
        kind(**facts).output_domain(domain), kind(**facts).stability(NEIGHBOURS, domain)
    with contextlib.suppress(MissDPError):  # Refused as well, or it matters to the bound alone.
        kind(**facts).fit(np.zeros((30, 2)))


def test_a_table_without_rows_is_refused_by_its_shape():
    for step in (MeanImputer(max_incomplete=1), PCARankReducer(n_components=1, least_gap=0.1)):
        with pytest.raises(MissDPError, match="at least one row"):
            step.fit(np.zeros((0, 2)))
        assert np.isfinite(clone(step).fit_transform(np.ones((1, 2)))).all()
