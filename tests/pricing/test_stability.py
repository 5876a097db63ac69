"""Stability maps and distances to failure, at the tightest parameters that neighbours allow."""

from __future__ import annotations

import math

import numpy as np
import pytest
import stability_cases as cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from missdp import pricing as mp
from missdp.errors import ParameterError, UnprovenError
from missdp.pricing import trace

NAN = math.nan
SEEDS = st.integers(0, 2**32 - 1)
IMPUTERS = [cases.mean_case, cases.median_case, cases.trimmed_case, cases.neighbours_case]
FREE = [cases.constant_case, cases.clip_case]
SCALERS = [cases.standard_case, cases.standard_floor_case, cases.min_max_case]
PCA = [cases.pca_case, cases.pca_second_case, cases.pca_dimension_case]
CLUSTERS = [cases.deduplicate_case, cases.quantize_case]
ONE_CELL = [cases.mean_one_cell_case, cases.regression_case]
EVERY = [*IMPUTERS, *ONE_CELL, cases.model_case, *FREE, *SCALERS, *PCA, *CLUSTERS]
HOLEY = {*IMPUTERS, *ONE_CELL, cases.model_case, *FREE}
# One model is fitted, not one for each number of columns.
COLUMNS = dict.fromkeys([*PCA, cases.regression_case], 3) | {cases.model_case: 2}


def in_collection(step, pair):
    """Whether both tables meet the conditions that a case could not tighten to the pair."""
    if isinstance(step, mp.StandardScaler) and step.below == "assume":
        return min(t.std(axis=0).min() for t in pair) >= step.least_std
    if isinstance(step, mp.MinMaxScaler):
        return min(np.ptp(t, axis=0).min() for t in pair) >= step.least_range
    if isinstance(step, mp.PCADimensionReducer) and step.least_overlap <= 1e-5:
        return False
    return not isinstance(step, mp.PCARankReducer) or step.least_gap > 1e-6


def check(step, domain, pair, replaced):
    """No fit is refused; the tables stay within the map, and their rows within the domain."""
    results = [clone(step).fit_transform(t) for t in pair]
    try:
        after = step.output_domain(domain)
        bound = step.stability(cases.distance_of(pair, replaced), domain)
    except (ParameterError, UnprovenError):
        assume(False)
    assume(in_collection(step, pair))
    assert bound.covers(*results)
    for table in results:
        assert table.shape == (domain.rows, after.columns)
        assert isinstance(step, mp.RowClipper) or np.isfinite(table).all()
        assert np.sqrt(np.nansum(table**2, axis=1)).max() <= after.radius * (1 + 1e-9)


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.__name__)
@given(seed=SEEDS, replaced=st.integers(1, 3), moving=st.booleans())
@settings(max_examples=30, deadline=None)
def test_a_step_stays_within_its_map(case, replaced, moving, seed):
    facts = {"replaced": replaced, "moving": moving and case not in CLUSTERS}
    if case in COLUMNS:
        facts["d"] = COLUMNS[case]
    if case in CLUSTERS:
        facts["d"] = 1 + seed % 2
    make = cases.complete_pair
    if case in HOLEY:
        make, facts["target"] = cases.holey_pair, case in ONE_CELL
    pair = make(seed, **facts)
    try:
        step, domain = case(pair)
    except ParameterError:
        assume(False)
    check(step, domain, pair, replaced)


AT_EDGES = [case for case in EVERY if case is not cases.mean_one_cell_case]  # several holes a row


@pytest.mark.parametrize("case", AT_EDGES, ids=lambda case: case.__name__)
@given(seed=SEEDS, replaced=st.integers(1, 3), moving=st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_maps_hold_at_the_edges_and_nothing_is_refused(case, seed, replaced, moving):
    facts = {"d": COLUMNS.get(case), "holes": case in HOLEY}
    pair = cases.extreme_pair(seed, replaced=replaced, moving=moving, **facts)
    trim = {"trim": 1} if case is cases.trimmed_case else {}
    step, domain = case(pair, **trim)
    check(step, domain, pair, replaced)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_chain_of_imputation_scaling_and_pca(seed):
    pair = cases.holey_pair(seed, d=2)
    domain = mp.RowDomain(rows=pair[0].shape[0], columns=2, complete=False)
    p = cases.incomplete(pair)
    steps = [
        ("impute", mp.MeanImputer(max_incomplete=p)),
        ("scale", mp.StandardScaler(least_std=0.5, below="floor")),
        ("clip", mp.RowClipper(radius=1.0)),
    ]
    tables = list(pair)
    for _, step in steps:
        tables = [clone(step).fit_transform(t) for t in tables]
    gaps = [np.diff(np.linalg.eigvalsh(np.cov(t.T)))[0] for t in tables]
    assume(min(gaps) > 1e-3)
    steps.append(("pca", mp.PCARankReducer(n_components=1, least_gap=min(gaps) * (1 - 1e-9))))
    tables = [clone(steps[-1][1]).fit_transform(t) for t in tables]
    assert trace(steps, domain)[-1].distance_after.covers(*tables)


def test_chains_without_a_proof_are_refused_by_name():
    domain = mp.RowDomain(rows=100, columns=2)
    scale = ("scale", mp.StandardScaler(least_std=0.2))
    with pytest.raises(UnprovenError, match=r"'round'.*continuous"):
        trace([scale, ("round", mp.Quantizer(eta=0.1, max_cluster=3))], domain)
    with pytest.raises(UnprovenError, match=r"'other'.*stability is not known"):
        trace([("other", object())], domain)
    holes = mp.RowDomain(rows=100, columns=2, complete=False)
    with pytest.raises(ParameterError, match=r"'scale'.*complete"):
        trace([scale], holes)
    with pytest.raises(UnprovenError):
        mp.NeighbourImputer(max_incomplete=5).stability(
            mp.TableDistance(replaced=1, moved_rows=99, moved_max=0.1), holes
        )


# The edges of stated collections
def test_gaps_between_values_that_are_all_replaced_prove_nothing():
    """Every observed value may be replaced: no gap is left, yet the median moves by 2."""
    x = np.array([[1.0]] + [[NAN]] * 49)
    y = np.array([[-1.0]] + [[NAN]] * 49)
    step = mp.MedianImputer(max_incomplete=49, central_gap=0.0)
    domain = mp.RowDomain(rows=50, columns=1, complete=False)
    assert step.stability(mp.NEIGHBOURS, domain).covers(
        *(clone(step).fit_transform(t) for t in (x, y))
    )
    pipeline = mp.PricedPipeline(
        [("impute", step)], mp.PrivateMean(noise_multiplier=5.0, mechanism="laplace"),
        rows=50, columns=1, complete=False, delta=0.0,
    )  # fmt: skip
    assert pipeline.guarantee().epsilon == pytest.approx(10, rel=1e-4)
    nearly = mp.MedianImputer(max_incomplete=48, central_gap=0.0)
    assert nearly.stability(mp.NEIGHBOURS, domain).moved_rows == 0


def test_the_median_moves_by_h_gaps_if_one_value_is_common():
    """The smallest tables for which the gaps still bind: one common value, 2 h others."""
    for h in (1, 2, 3):
        low, high = np.arange(-h, 1) * 0.1, np.arange(0, h + 1) * 0.1
        column = [np.concatenate([c, np.full(20, NAN)])[:, None] for c in (low, high[::-1])]
        step = mp.MedianImputer(max_incomplete=20, central_gap=0.1, central_ranks=h + 1)
        domain = mp.RowDomain(rows=21 + h, columns=1, complete=False)
        filled = [clone(step).fit_transform(c)[-1, 0] for c in column]
        moved = abs(filled[0] - filled[1])
        assert moved == pytest.approx(0.1 * h)
        shift = step.shift(cases.distance_of(tuple(column), h), domain)
        assert moved <= shift + 1e-12
        assert shift == pytest.approx(0.1 * h)


# Distances to failure: 1-Lipschitz, zero where the condition fails, refused where unknown
COMPLETE = [
    mp.PCARankReducer(n_components=1, least_gap=0.01),
    mp.PCARankReducer(n_components=1, least_gap=0.01, moment="second"),
    mp.StandardScaler(least_std=0.1),
    mp.Deduplicator(eta=0.05, max_cluster=30),
    mp.Quantizer(eta=0.05, max_cluster=30),
    mp.MeanImputer(max_incomplete=7),
]


def margins(step, pair, replaced, **facts):
    domain = mp.RowDomain(rows=pair[0].shape[0], columns=pair[0].shape[1], **facts)
    incoming = mp.TableDistance.between(*pair, replaced=replaced)
    return [step.failure_margin(t, incoming, domain) for t in pair]


@pytest.mark.parametrize("step", COMPLETE, ids=lambda s: type(s).__name__)
@given(seed=SEEDS, replaced=st.integers(1, 3), moving=st.booleans())
@settings(max_examples=40, deadline=None)
def test_margins_are_lipschitz(step, moving, seed, replaced):
    fills = isinstance(step, mp.MeanImputer)
    make = cases.holey_pair if fills else cases.complete_pair
    pair = make(seed, replaced=replaced, moving=moving, d=2)
    first, second = margins(step, pair, replaced, complete=not fills)
    assert abs(first - second) <= 1 + 1e-9
    for table, margin in zip(pair, (first, second), strict=True):
        assert not fills or (margin > 0) == (np.isnan(table).any(axis=1).sum() <= 7)


def _gap(table):
    values = np.linalg.eigvalsh(np.cov(table.T))
    return values[-1] - values[-2]


def _cluster(table):
    gaps = np.sqrt(((table[:, None] - table[None]) ** 2).sum(axis=2))
    near, wide = (gaps <= 0.05).sum(axis=1), (gaps <= 0.15).sum(axis=1)
    return near[near == wide].max(initial=1)


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_margins_vanish_where_conditions_fail(seed):
    pair = cases.complete_pair(seed, d=2)
    checks = [
        (mp.PCARankReducer(n_components=1, least_gap=0.2), lambda t: _gap(t) >= 0.2),
        (mp.StandardScaler(least_std=0.3), lambda t: t.std(axis=0).min() >= 0.3),
        (mp.Quantizer(eta=0.05, max_cluster=4), lambda t: _cluster(t) <= 4),
    ]
    for step, holds in checks:
        for table, margin in zip(pair, margins(step, pair, 1), strict=True):
            if not holds(table):
                assert margin == 0


def test_a_hidden_cluster_shows_that_the_largest_good_cluster_is_not_lipschitz():
    """One row between eta and 3 eta hides a cluster of 50: the margin must not see 1 row only."""
    hidden = np.array([[0.0]] * 50 + [[0.1]])
    shown = np.array([[0.0]] * 50 + [[0.9]])
    assert (_cluster(hidden), _cluster(shown)) == (1, 50)
    step, domain = mp.Quantizer(eta=0.05, max_cluster=50), mp.RowDomain(rows=51, columns=1)
    assert step.failure_margin(hidden, mp.NEIGHBOURS, domain) == pytest.approx(0)
    assert step.failure_margin(shown, mp.NEIGHBOURS, domain) == pytest.approx(1)


@pytest.mark.parametrize(
    "step",
    [
        mp.MedianImputer(max_incomplete=3, central_gap=0.1),
        mp.TrimmedMeanImputer(max_incomplete=3, trim=1, trimmed_range=0.5),
        mp.NeighbourImputer(max_incomplete=3),
        mp.RegressionImputer(target=0, max_incomplete=3, least_eigenvalue=0.1),
        mp.MinMaxScaler(least_range=0.5, extreme_gap=0.1),
        mp.PCADimensionReducer(n_components=1, least_gap=0.1, least_overlap=0.5),
        mp.Quantizer(eta=0.1, max_cluster=4, max_neighbours=1),
        mp.MeanImputer(max_incomplete=3, cells_per_row=1),
    ],
    ids=lambda s: type(s).__name__,
)
def test_unknown_margins_are_refused(step):
    needs_holes = "Imputer" in type(step).__name__
    domain = mp.RowDomain(rows=30, columns=2, complete=not needs_holes)
    with pytest.raises(UnprovenError):
        step.failure_margin(np.zeros((30, 2)), mp.NEIGHBOURS, domain)
