"""Distances to failure: 1-Lipschitz, zero where the condition fails, refused where unknown."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stability_cases import complete_pair, holey_pair

from missdp.errors import UnprovenError
from missdp.pricing import (
    NEIGHBOURS,
    Deduplicator,
    MeanImputer,
    MedianImputer,
    MinMaxScaler,
    NeighbourImputer,
    PCADimensionReducer,
    PCARankReducer,
    Quantizer,
    RegressionImputer,
    RowClipper,
    RowDomain,
    StandardScaler,
    TableDistance,
    TrimmedMeanImputer,
)

SEEDS = st.integers(0, 2**32 - 1)
COMPLETE = [
    PCARankReducer(n_components=1, least_gap=0.01),
    PCARankReducer(n_components=1, least_gap=0.01, moment="second"),
    StandardScaler(least_std=0.1),
    Deduplicator(eta=0.05, max_cluster=30),
    Quantizer(eta=0.05, max_cluster=30),
]


def margins(step, pair, replaced, **facts):
    domain = RowDomain(rows=pair[0].shape[0], columns=pair[0].shape[1], **facts)
    incoming = TableDistance.between(*pair, replaced=replaced)
    return [step.failure_margin(t, incoming, domain) for t in pair]


@pytest.mark.parametrize("step", COMPLETE, ids=lambda s: type(s).__name__)
@pytest.mark.parametrize("moving", [False, True])
@given(seed=SEEDS, replaced=st.integers(1, 2))
@settings(max_examples=150, deadline=None)
def test_margins_are_lipschitz(step, moving, seed, replaced):
    first, second = margins(
        step, complete_pair(seed, replaced=replaced, moving=moving, d=2), replaced
    )
    assert abs(first - second) <= 1 + 1e-9


@given(seed=SEEDS, replaced=st.integers(1, 3))
@settings(max_examples=150, deadline=None)
def test_the_margin_of_imputation_is_lipschitz(seed, replaced):
    pair = holey_pair(seed, replaced=replaced)
    first, second = margins(MeanImputer(max_incomplete=7), pair, replaced, complete=False)
    assert abs(first - second) <= 1 + 1e-9
    for table, margin in zip(pair, (first, second), strict=True):
        assert (margin > 0) == (np.isnan(table).any(axis=1).sum() <= 7)


def _gap(table):
    values = np.linalg.eigvalsh(np.cov(table.T))
    return values[-1] - values[-2]


def _cluster(table):
    gaps = np.sqrt(((table[:, None] - table[None]) ** 2).sum(axis=2))
    near, wide = (gaps <= 0.05).sum(axis=1), (gaps <= 0.15).sum(axis=1)
    return near[near == wide].max(initial=1)


@given(seed=SEEDS)
@settings(max_examples=200, deadline=None)
def test_margins_vanish_where_conditions_fail(seed):
    pair = complete_pair(seed, d=2)
    checks = [
        (PCARankReducer(n_components=1, least_gap=0.2), lambda t: _gap(t) >= 0.2),
        (StandardScaler(least_std=0.3), lambda t: t.std(axis=0).min() >= 0.3),
        (Quantizer(eta=0.05, max_cluster=4), lambda t: _cluster(t) <= 4),
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
    step, domain = Quantizer(eta=0.05, max_cluster=50), RowDomain(rows=51, columns=1)
    assert step.failure_margin(hidden, NEIGHBOURS, domain) == pytest.approx(0)
    assert step.failure_margin(shown, NEIGHBOURS, domain) == pytest.approx(1)


@pytest.mark.parametrize(
    "step",
    [
        MedianImputer(max_incomplete=3, central_gap=0.1),
        TrimmedMeanImputer(max_incomplete=3, trim=1, trimmed_range=0.5),
        NeighbourImputer(max_incomplete=3),
        RegressionImputer(target=0, max_incomplete=3, least_eigenvalue=0.1),
        MinMaxScaler(least_range=0.5, extreme_gap=0.1),
        PCADimensionReducer(n_components=1, least_gap=0.1, least_overlap=0.5),
        Quantizer(eta=0.1, max_cluster=4, max_neighbours=1),
        MeanImputer(max_incomplete=3, cells_per_row=1),
    ],
    ids=lambda s: type(s).__name__,
)
def test_unknown_margins_are_refused(step):
    needs_holes = "Imputer" in type(step).__name__
    domain = RowDomain(rows=30, columns=2, complete=not needs_holes)
    with pytest.raises(UnprovenError):
        step.failure_margin(np.zeros((30, 2)), NEIGHBOURS, domain)


def test_steps_without_conditions_never_fail():
    domain = RowDomain(rows=30, columns=2)
    for step in (RowClipper(), StandardScaler(least_std=0.4, below="floor")):
        assert step.failure_margin(np.zeros((30, 2)), NEIGHBOURS, domain) == np.inf


def test_projection_chance_of_eigen_gap_constants():
    """The gap can move by almost 3 sqrt(3) / n, and the covariance by almost 4 / n."""
    n = 4000
    base = np.zeros((n, 2))
    base[:, 0] = -1.0
    base[1::2, 0] = -0.999
    x, y = base.copy(), base.copy()
    x[0], y[0] = [1.0, 0.0], [-1.0, 0.0]
    change = np.linalg.norm(np.cov(x.T) - np.cov(y.T)) * n
    assert 3.95 < change <= 4
    up, down = base.copy(), base.copy()
    up[0], down[0] = [0.5, np.sqrt(0.75)], [0.5, -np.sqrt(0.75)]
    spread = np.ptp(np.linalg.eigvalsh(np.cov(up.T) - np.cov(down.T))) * n
    assert 0.99 * 3 * np.sqrt(3) < spread <= 3 * np.sqrt(3)
