"""Stability maps and distances to failure, at the tightest parameters that neighbours allow."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import stability_cases as cases
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from table_distances import covers, distance_between

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
INCOMPLETE = {*IMPUTERS, *ONE_CELL, cases.model_case, *FREE}
# One model is fitted, not one for each number of columns.
COLUMNS = dict.fromkeys([*PCA, cases.regression_case], 3) | {cases.model_case: 2}


def in_collection(step, pair):
    """Whether both tables meet the conditions that a case could not tighten to the pair."""
    if isinstance(step, mp.StandardScaler) and step.below == "assume":
        return min(t.std(axis=0).min() for t in pair) >= step.min_std
    if isinstance(step, mp.MinMaxScaler):
        return min(np.ptp(t, axis=0).min() for t in pair) >= step.min_range
    if isinstance(step, mp.PCADimensionReducer) and step.min_overlap <= 1e-5:
        return False
    return not isinstance(step, mp.PCARankReducer) or step.min_gap > 1e-6


def check(step, domain, pair, replaced):
    """No fit is refused. The tables stay within the map, and their rows within the domain."""
    results = [clone(step).fit_transform(t) for t in pair]
    try:
        after = step.output_domain(domain)
        bound = step.stability(cases.distance_of(pair, replaced), domain)
    except (ParameterError, UnprovenError):
        assume(False)
    assume(in_collection(step, pair))
    assert covers(bound, *results)
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
    if case in INCOMPLETE:
        make, facts["target"] = cases.incomplete_pair, case in ONE_CELL
    pair = make(seed, **facts)
    try:
        step, domain = case(pair)
    except ParameterError:
        assume(False)
    check(step, domain, pair, replaced)


# Several cells of a row may be missing.
AT_EDGES = [case for case in EVERY if case is not cases.mean_one_cell_case]


@pytest.mark.parametrize("case", AT_EDGES, ids=lambda case: case.__name__)
@given(seed=SEEDS, replaced=st.integers(1, 3), moving=st.booleans())
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
def test_maps_hold_at_the_edges_and_nothing_is_refused(case, seed, replaced, moving):
    facts = {"d": COLUMNS.get(case), "is_missing": case in INCOMPLETE}
    pair = cases.extreme_pair(seed, replaced=replaced, moving=moving, **facts)
    trim = {"trim": 1} if case is cases.trimmed_case else {}
    step, domain = case(pair, **trim)
    check(step, domain, pair, replaced)


@given(seed=SEEDS)
@settings(max_examples=60, deadline=None)
def test_chain_of_imputation_scaling_and_pca(seed):
    tables = pair = cases.incomplete_pair(seed, d=2)
    steps = [
        ("impute", mp.MeanImputer(max_incomplete=cases.incomplete(pair))),
        ("scale", mp.StandardScaler(min_std=0.5, below="floor")),
        ("clip", mp.RowClipper(radius=1.0)),
    ]
    for _, step in steps:
        tables = [clone(step).fit_transform(t) for t in tables]
    gap = min(np.diff(np.linalg.eigvalsh(np.cov(t.T)))[0] for t in tables)
    assume(gap > 1e-3)
    steps.append(("pca", mp.PCARankReducer(n_components=1, min_gap=gap * (1 - 1e-9))))
    tables = [clone(steps[-1][1]).fit_transform(t) for t in tables]
    domain = mp.RowDomain(rows=len(pair[0]), columns=2, complete=False)
    assert covers(trace(steps, domain)[-1].distance_after, *tables)


def test_chains_without_a_proof_are_refused_by_name():
    domain = mp.RowDomain(rows=100, columns=2)
    missing, scale = replace(domain, complete=False), ("scale", mp.StandardScaler(min_std=0.2))
    quantizer = ("round", mp.Quantizer(eta=0.1, max_cluster=3))
    for error, reported, steps, rows in (
        (UnprovenError, r"'round'.*continuous", [scale, quantizer], domain),
        (UnprovenError, r"'other'.*stability is not proven", [("other", object())], domain),
        (ParameterError, r"'scale'.*complete", [scale], missing),
    ):
        with pytest.raises(error, match=reported):
            trace(steps, rows)
    far = mp.TableDistance(replaced=1, shifted_rows=99, max_shift=0.1)
    with pytest.raises(UnprovenError):
        mp.NeighbourImputer(max_incomplete=5).stability(far, missing)


# The edges of stated collections
def test_gaps_between_values_that_are_all_replaced_prove_nothing():
    """Every observed value may be replaced: no gap is left, yet the median moves by 2."""
    pair = [np.array([[x]] + [[NAN]] * 49) for x in (1.0, -1.0)]
    step = mp.MedianImputer(max_incomplete=49, central_gap=0.0)
    domain = mp.RowDomain(rows=50, columns=1, complete=False)
    filled = [clone(step).fit_transform(table) for table in pair]
    assert covers(step.stability(mp.NEIGHBOURS, domain), *filled)
    end = mp.PrivateMean(noise_multiplier=5.0, mechanism="laplace")
    pipeline = mp.PricedPipeline([("impute", step)], end, **vars(domain), delta=0.0)
    assert pipeline.guarantee().epsilon == pytest.approx(10, rel=1e-4)
    nearly = mp.MedianImputer(max_incomplete=48, central_gap=0.0)
    assert nearly.stability(mp.NEIGHBOURS, domain).shifted_rows == 0


# Distances to failure: 1-Lipschitz, zero where the condition fails, refused where unknown
COMPLETE = [
    mp.PCARankReducer(n_components=1, min_gap=0.01),
    mp.PCARankReducer(n_components=1, min_gap=0.01, moment="second"),
    mp.StandardScaler(min_std=0.1),
    mp.Deduplicator(eta=0.05, max_cluster=30),
    mp.Quantizer(eta=0.05, max_cluster=30),
    mp.MeanImputer(max_incomplete=7),
]


def distances(step, pair, replaced, **facts):
    domain = mp.RowDomain(rows=pair[0].shape[0], columns=pair[0].shape[1], **facts)
    incoming = distance_between(*pair, replaced=replaced)
    return [step.distance_to_failure(t, incoming, domain) for t in pair]


@pytest.mark.parametrize("step", COMPLETE, ids=lambda s: type(s).__name__)
@given(seed=SEEDS, replaced=st.integers(1, 3), moving=st.booleans())
@settings(max_examples=40, deadline=None)
def test_distances_to_failure_are_lipschitz(step, moving, seed, replaced):
    fills = isinstance(step, mp.MeanImputer)
    make = cases.incomplete_pair if fills else cases.complete_pair
    pair = make(seed, replaced=replaced, moving=moving, d=2)
    first, second = distances(step, pair, replaced, complete=not fills)
    assert abs(first - second) <= 1 + 1e-9
    for table, distance in zip(pair, (first, second), strict=True):
        assert not fills or (distance > 0) == (np.isnan(table).any(axis=1).sum() <= 7)


@given(seed=SEEDS)
@settings(max_examples=100, deadline=None)
def test_distances_to_failure_are_0_where_conditions_fail(seed):
    pair = cases.complete_pair(seed, d=2)
    for step, holds in (
        (
            mp.PCARankReducer(n_components=1, min_gap=0.2),
            lambda t: cases._gap(t, 1, "covariance") >= 0.2,
        ),
        (mp.StandardScaler(min_std=0.3), lambda t: t.std(axis=0).min() >= 0.3),
        (mp.Quantizer(eta=0.05, max_cluster=4), lambda t: cases._largest_cluster(t, 0.05) <= 4),
    ):
        for table, distance in zip(pair, distances(step, pair, 1), strict=True):
            assert holds(table) or distance == 0


def test_a_hidden_cluster_shows_that_the_largest_good_cluster_is_not_lipschitz():
    """One row between eta and 3 eta hides a cluster of 50: the margin must not see 1 row only."""
    hidden = np.array([[0.0]] * 50 + [[0.1]])
    shown = np.array([[0.0]] * 50 + [[0.9]])
    assert [cases._largest_cluster(t, 0.05) for t in (hidden, shown)] == [1, 50]
    step, domain = mp.Quantizer(eta=0.05, max_cluster=50), mp.RowDomain(rows=51, columns=1)
    assert step.distance_to_failure(hidden, mp.NEIGHBOURS, domain) == pytest.approx(0)
    assert step.distance_to_failure(shown, mp.NEIGHBOURS, domain) == pytest.approx(1)


def test_unknown_distance_to_failure_raises():
    for step in (
        mp.MedianImputer(max_incomplete=3, central_gap=0.1),
        mp.TrimmedMeanImputer(max_incomplete=3, trim=1, trimmed_range=0.5),
        mp.NeighbourImputer(max_incomplete=3),
        mp.RegressionImputer(target=0, max_incomplete=3, min_eigenvalue=0.1),
        mp.MinMaxScaler(min_range=0.5, extreme_gap=0.1),
        mp.PCADimensionReducer(n_components=1, min_gap=0.1, min_overlap=0.5),
        mp.Quantizer(eta=0.1, max_cluster=4, max_neighbours=1),
        mp.MeanImputer(max_incomplete=3, cells_per_row=1),
    ):
        domain = mp.RowDomain(rows=30, columns=2, complete="Imputer" not in type(step).__name__)
        with pytest.raises(UnprovenError):
            step.distance_to_failure(np.zeros((30, 2)), mp.NEIGHBOURS, domain)


# Adversarial neighbours come close to the maps, and exceed published constants that are wrong
def replaced(table, row):
    other = np.array(table, dtype=float)
    other[0] = row
    return np.array(table, dtype=float), other


SIDE = math.sqrt(0.5)
GAPS = np.linspace(-0.5, 0.5, 41)[:, None]
ONE_HOLE = replaced([[1.0]] + [[0.0]] * 89 + [[NAN]] * 10, [-1.0])
TWO_CELLS = replaced([[1.0, NAN]] + [[-SIDE, -SIDE]] * 398 + [[NAN, NAN]], [NAN, 1.0])
GAP = replaced(np.vstack([[[-0.9]], GAPS, [[NAN]] * 3]), [0.9])
TRIM = replaced([[-0.5], *[[-0.5]] * 30, *[[0.5]] * 30, [NAN], [NAN]], [0.5])
DONOR = replaced([[0.0, 1.0], *[[0.0, 0.0]] * 2, *[[0.9, 0.1]] * 5, [0.0, NAN]], [0.0, -1.0])
SPREAD = replaced([[-1.0]] + [[1.0]] * 20 + [[-1.0]] * 379, [1.0])
EXTREME = replaced([[-0.6], *np.linspace(-0.5, 0.5, 11)[:, None]], [0.4])
# Two long rows: whichever row moves most counts as the replaced one.
TURNING = replaced([[SIDE, SIDE], *[[0.3, 0], [-0.3, 0]] * 1999, [1, 0], [1, 0]], [SIDE, -SIDE])
# Most rows on one side, so that the replaced row is far from the mean.
LEANING = replaced([[0.5, math.sqrt(0.75)], *[[-1, 0], [-0.7, 0]] * 10000], [0.5, -math.sqrt(0.75)])
# All other rows at one point of the sphere: the spread of the change is attained.
STEEPEST = replaced([[0.5, math.sqrt(0.75)], *[[-1.0, 0.0]] * 39], [0.5, -math.sqrt(0.75)])
# A row between two clusters, moved between two others: it spoils two clusters each time.
CROWDS = [[c + s * 0.099] for c in (-0.85, -0.35, 0.35, 0.85) for s in (0, 1, -1, 1, -1, 1)]
SPOILED = replaced([[-0.6], *CROWDS], [0.6])

WORST = {
    "mean, one cell a row": (cases.mean_one_cell_case, ONE_HOLE, 0.99),
    "mean": (cases.mean_case, TWO_CELLS, 0.97),
    "median": (cases.median_case, GAP, 0.9),
    "trimmed mean": (cases.trimmed_case, TRIM, 0.99),
    "k-NN": (cases.neighbours_case, DONOR, 0.99),
    "standard scaling": (cases.standard_case, SPREAD, 0.9),
    "standard scaling, floor": (cases.standard_floor_case, SPREAD, 0.0),
    "min-max scaling": (cases.min_max_case, EXTREME, 0.9),
    "PCA, covariance": (cases.pca_case, STEEPEST, 0.9999),
    "PCA, covariance of many rows": (cases.pca_case, LEANING, 0.89),
    "PCA, second moment": (cases.pca_second_case, TURNING, 0.95),
    "deduplication": (cases.deduplicate_case, SPOILED, 0.9),
    "quantisation": (cases.quantize_case, SPOILED, 0.49),
}


def apart(case, pair, replaced=1):
    step, domain = case(pair)
    bound = step.stability(distance_between(*pair, replaced=replaced), domain)
    tables = [clone(step).fit_transform(t) for t in pair]
    assert covers(bound, *tables)
    return distance_between(*tables, replaced=replaced), bound


def one_donor(pair):
    step = mp.NeighbourImputer(n_neighbors=1, max_incomplete=6, max_donations=3)
    return step, mp.RowDomain(rows=8, columns=2, complete=False)


@pytest.mark.parametrize("name", WORST)
def test_adversarial_neighbours_come_close(name):
    case, pair, least = WORST[name]
    true, bound = apart(case, pair)
    assert true.max_shift >= least * bound.max_shift


def turned_rows(n=200, angle=0.01):
    """Every row turns by one angle: the principal direction turns with them."""
    signs = np.resize([1.0, -1.0], n)[:, None]
    x = signs * np.array([[1.0, 0.0]])
    return x, signs * np.array([[math.cos(angle), math.sin(angle)]])


# One row turns, as far from the mean as can be.
FAR = replaced([[1.0, 0.0]] + [[-1.0, 0.0]] * 199, [math.cos(0.001), math.sin(0.001)])
LOW = np.where(np.arange(200)[:, None] < 50, NAN, 0.2)
LIFTED = LOW, LOW + 0.01  # every observed value rises. Imputed ones rise with them
# A row rises by as much as both ends fall: its place between them moves twice as far.
ENDS = np.array([[-0.5]] * 4 + [[0.0]] + [[0.5]] * 4)
AGAINST = ENDS, ENDS + np.array([[-0.01]] * 4 + [[0.01]] + [[-0.01]] * 4)
# Three rows take from the replaced one in either table, and these are not the same three.
HOLED = [[0.9, NAN]] * 3 + [[-0.9, NAN]] * 3
LEFT = replaced([[0.9, 0.4], [0.0, -0.4], *HOLED], [-0.9, 0.4])


@pytest.mark.parametrize(
    ("case", "pair", "moved", "least"),
    [
        (cases.pca_case, turned_rows(), (0, "shift_l12"), 0.24),
        (cases.pca_case, FAR, (0, "shift_l12"), 0.99),
        (cases.pca_second_case, turned_rows(), (0, "shift_l12"), 0.49),
        (cases.mean_one_cell_case, LIFTED, (0, "shift_l12"), 0.99),
        (cases.mean_case, LIFTED, (0, "shift_l12"), 0.99),
        (cases.median_case, LIFTED, (0, "shift_l12"), 0.99),
        (cases.trimmed_case, LIFTED, (0, "shift_l12"), 0.98),
        (cases.min_max_case, AGAINST, (0, "max_shift"), 0.99),
        (one_donor, LEFT, (1, "shifted_rows"), 1.0),
    ],
)
def test_moving_every_row_alike_comes_close(case, pair, moved, least):
    """The response to movement alone, which chains rest on, and to a donor that moves."""
    rows, norm = moved
    true, bound = apart(case, pair, rows)
    assert getattr(true, norm) >= least * getattr(bound, norm) > 0


@pytest.mark.parametrize("ridge", [0.05, 0.5, 2.0])
def test_a_replaced_row_pulls_at_a_regression_as_far_as_is_said(ridge):
    """Twice the contribution of a row of the unit ball, at the longest coefficient there may be."""
    step = mp.RegressionImputer(target=1, max_incomplete=1, regularization=ridge)
    domain = mp.RowDomain(rows=10**6, columns=2, complete=False)
    longest = math.sqrt(1 / ridge)
    angle = np.linspace(0, 2 * np.pi, 100_001)
    pull = 2 * np.abs(np.cos(angle) * (np.sin(angle) - longest * np.cos(angle))).max()
    message = step.response(mp.NEIGHBOURS, domain).shift * domain.rows * ridge
    assert 0.9999 * message <= pull <= message * (1 + 1e-12)


def test_three_replaced_rows_move_a_trimmed_mean_by_more_than_three_ranges():
    # Each table is as narrow as declared, and the two lie side by side.
    narrow = np.array([[-0.1]] * 3 + [[0.0]] * 6 + [[NAN]])
    step = mp.TrimmedMeanImputer(max_incomplete=1, trim=1, trimmed_range=0.1)
    facts = step, mp.RowDomain(rows=10, columns=1, complete=False)
    true, _ = apart(lambda pair: facts, (narrow, np.abs(narrow)), 3)
    assert true.max_shift > 3 * 0.1 / 7


@pytest.mark.parametrize("shift", [-1.0, math.nan])
def test_table_distance_after_negative_shift_raises_error(shift):
    with pytest.raises(ParameterError, match="shift is a distance"):
        mp.NEIGHBOURS.after(rows=9, lipschitz=1.0, shift=shift, shifted_rows=2, diameter=2.0)


@pytest.mark.parametrize("columns", [0, -1, 1.5])
def test_packing_number_below_one_column_raises_error(columns):
    with pytest.raises(ParameterError, match="columns must be a whole number"):
        mp.packing_number(columns)
