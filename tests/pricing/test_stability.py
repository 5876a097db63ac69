"""Stability maps against random neighbours, at the tightest parameters each pair allows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from stability_cases import (
    complete_pair,
    deduplicate_case,
    distance_of,
    holey_pair,
    incomplete,
    mean_case,
    mean_one_cell_case,
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

from missdp.errors import ParameterError, UnprovenError
from missdp.pricing import (
    NEIGHBOURS,
    ConstantImputer,
    MeanImputer,
    NeighbourImputer,
    PCARankReducer,
    Quantizer,
    RowClipper,
    RowDomain,
    StandardScaler,
    TableDistance,
    trace,
)

SEEDS = st.integers(0, 2**32 - 1)
FAST = settings(max_examples=120, deadline=None)


def check(step, domain, pair, replaced):
    """The transformed tables are within the map, and their rows within the stated domain."""
    x, y = pair
    incoming = distance_of(pair, replaced)
    bound = step.stability(incoming, domain)
    after = step.output_domain(domain)
    tx, ty = clone(step).fit_transform(x), clone(step).fit_transform(y)
    assert tx.shape == ty.shape == (domain.rows, after.columns)
    assert bound.covers(tx, ty)
    for table in (tx, ty):
        assert np.sqrt(np.nansum(table**2, axis=1)).max() <= after.radius * (1 + 1e-9)


def in_collection(case, pair):
    try:
        step, domain = case(pair)
        step.output_domain(domain)
    except ParameterError:
        assume(False)
    return step, domain


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("replaced", [1, 3])
@pytest.mark.parametrize(
    "case", [mean_case, median_case, trimmed_case, neighbours_case, model_case]
)
@given(seed=SEEDS)
@FAST
def test_imputation_stays_within_its_map(case, replaced, moving, seed):
    pair = holey_pair(seed, replaced=replaced, moving=moving)
    step, domain = in_collection(case, pair)
    try:
        step.stability(distance_of(pair, replaced), domain)
    except UnprovenError:
        assume(False)
    check(step, domain, pair, replaced)


@pytest.mark.parametrize("moving", [False, True])
@given(seed=SEEDS, replaced=st.integers(1, 3))
@FAST
def test_mean_imputation_of_single_cells(seed, moving, replaced):
    pair = holey_pair(seed, replaced=replaced, moving=moving, target=True)
    check(*mean_one_cell_case(pair), pair, replaced)


@pytest.mark.parametrize("moving", [False, True])
@given(seed=SEEDS, replaced=st.integers(1, 2))
@FAST
def test_regression_imputation(seed, moving, replaced):
    pair = holey_pair(seed, replaced=replaced, moving=moving, d=3, target=True)
    step, domain = in_collection(regression_case, pair)
    check(step, domain, pair, replaced)


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("case", [standard_case, standard_floor_case, min_max_case])
@given(seed=SEEDS, replaced=st.integers(1, 3))
@FAST
def test_scaling_stays_within_its_map(case, moving, seed, replaced):
    pair = complete_pair(seed, replaced=replaced, moving=moving)
    step, domain = in_collection(case, pair)
    if case is standard_case:  # The pair must really be in the declared collection.
        assume(min(t.std(axis=0).min() for t in pair) >= step.least_std)
    if case is min_max_case:
        assume(min(np.ptp(t, axis=0).min() for t in pair) >= step.least_range)
    check(step, domain, pair, replaced)


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("case", [pca_case, pca_second_case, pca_dimension_case])
@given(seed=SEEDS, replaced=st.integers(1, 3))
@FAST
def test_pca_stays_within_its_map(case, moving, seed, replaced):
    pair = complete_pair(seed, replaced=replaced, moving=moving, d=3)
    step, domain = case(pair)
    assume(step.least_gap > 1e-6)
    assume(getattr(step, "least_overlap", 1.0) > 1e-5)
    check(step, domain, pair, replaced)


@pytest.mark.parametrize("case", [deduplicate_case, quantize_case])
@given(seed=SEEDS, replaced=st.integers(1, 3), d=st.integers(1, 2))
@FAST
def test_clusters_stay_within_their_map(case, seed, replaced, d):
    pair = complete_pair(seed, replaced=replaced, d=d)
    check(*case(pair), pair, replaced)


@given(seed=SEEDS, replaced=st.integers(0, 3))
@FAST
def test_row_functions_cost_nothing(seed, replaced):
    pair = holey_pair(seed, replaced=max(1, replaced), moving=True)
    domain = RowDomain(rows=pair[0].shape[0], columns=pair[0].shape[1], complete=False)
    check(RowClipper(radius=0.4), domain, pair, max(1, replaced))
    check(ConstantImputer(value=0.3), domain, pair, max(1, replaced))


@given(seed=SEEDS)
@FAST
def test_chain_of_imputation_scaling_and_pca(seed):
    pair = holey_pair(seed, d=2)
    domain = RowDomain(rows=pair[0].shape[0], columns=2, complete=False)
    p = incomplete(pair)
    steps = [
        ("impute", MeanImputer(max_incomplete=p)),
        ("scale", StandardScaler(least_std=0.5, below="floor")),
        ("clip", RowClipper(radius=1.0)),
    ]
    tables = list(pair)
    for _, step in steps:
        tables = [clone(step).fit_transform(t) for t in tables]
    gaps = [np.diff(np.linalg.eigvalsh(np.cov(t.T)))[0] for t in tables]
    assume(min(gaps) > 1e-3)
    steps.append(("pca", PCARankReducer(n_components=1, least_gap=min(gaps) * (1 - 1e-9))))
    tables = [clone(steps[-1][1]).fit_transform(t) for t in tables]
    assert trace(steps, domain)[-1].distance_after.covers(*tables)


def test_chains_without_a_proof_are_refused_by_name():
    domain = RowDomain(rows=100, columns=2)
    scale = ("scale", StandardScaler(least_std=0.2))
    with pytest.raises(UnprovenError, match=r"'round'.*continuous"):
        trace([scale, ("round", Quantizer(eta=0.1, max_cluster=3))], domain)
    with pytest.raises(UnprovenError, match=r"'other'.*stability is not known"):
        trace([("other", object())], domain)
    holes = RowDomain(rows=100, columns=2, complete=False)
    with pytest.raises(ParameterError, match=r"'scale'.*complete"):
        trace([scale], holes)
    with pytest.raises(UnprovenError):
        NeighbourImputer(max_incomplete=5).stability(
            TableDistance(replaced=1, moved_rows=99, moved_max=0.1), holes
        )


def test_knn_after_a_few_moved_rows_counts_them_as_replaced():
    domain = RowDomain(rows=100, columns=2, complete=False)
    step = NeighbourImputer(n_neighbors=10, max_incomplete=5)
    few = TableDistance(replaced=1, moved_rows=3, moved_max=1e-9)
    assert step.stability(few, domain).replaced == 4
    assert step.stability(few, domain).moved_max == pytest.approx(0.8)
    assert step.stability(NEIGHBOURS, domain).moved_max == pytest.approx(0.2)
