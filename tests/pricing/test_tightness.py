"""Adversarial neighbours come close to the maps, and exceed published constants that are wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.base import clone
from stability_cases import (
    deduplicate_case,
    mean_case,
    mean_one_cell_case,
    median_case,
    min_max_case,
    neighbours_case,
    pca_case,
    pca_second_case,
    quantize_case,
    standard_case,
    standard_floor_case,
    trimmed_case,
)

from missdp import pricing as mp

NAN = np.nan


def replaced(table, row):
    other = np.array(table, dtype=float)
    other[0] = row
    return np.array(table, dtype=float), other


SIDE = math.sqrt(0.5)
GAPS = np.linspace(-0.5, 0.5, 41)[:, None]
ONE_CELL = replaced([[1.0]] + [[0.0]] * 89 + [[NAN]] * 10, [-1.0])
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
CLUSTERS = [[c + s * 0.099] for c in (-0.85, -0.35, 0.35, 0.85) for s in (0, 1, -1, 1, -1, 1)]
SPOILED = replaced([[-0.6], *CLUSTERS], [0.6])

WORST = {
    "mean, one cell a row": (mean_one_cell_case, ONE_CELL, 0.99),
    "mean": (mean_case, TWO_CELLS, 0.97),
    "median": (median_case, GAP, 0.9),
    "trimmed mean": (trimmed_case, TRIM, 0.99),
    "k-NN": (neighbours_case, DONOR, 0.99),
    "standard scaling": (standard_case, SPREAD, 0.9),
    "standard scaling, floor": (standard_floor_case, SPREAD, 0.0),
    "min-max scaling": (min_max_case, EXTREME, 0.9),
    "PCA, covariance": (pca_case, STEEPEST, 0.9999),
    "PCA, covariance of many rows": (pca_case, LEANING, 0.89),
    "PCA, second moment": (pca_second_case, TURNING, 0.95),
    "deduplication": (deduplicate_case, SPOILED, 0.9),
    "quantisation": (quantize_case, SPOILED, 0.49),
}


def apart(case, pair, replaced=1):
    """How far a step really takes two tables apart, and its bound."""
    step, domain = case(pair)
    bound = step.stability(mp.TableDistance.between(*pair, replaced=replaced), domain)
    tables = [clone(step).fit_transform(t) for t in pair]
    assert bound.covers(*tables)
    return mp.TableDistance.between(*tables, replaced=replaced), bound


def one_donor(pair):
    step = mp.NeighbourImputer(n_neighbors=1, max_incomplete=6, max_donations=3)
    return step, mp.RowDomain(rows=8, columns=2, complete=False)


def three_of_ten(pair):
    step = mp.TrimmedMeanImputer(max_incomplete=1, trim=1, trimmed_range=0.1)
    return step, mp.RowDomain(rows=10, columns=1, complete=False)


@pytest.mark.parametrize("name", WORST)
def test_adversarial_neighbours_come_close(name):
    case, pair, least = WORST[name]
    true, bound = apart(case, pair)
    assert true.moved_max >= least * bound.moved_max


def turned_rows(n=200, angle=0.01):
    """Every row turns by one angle: the principal direction turns with them."""
    signs = np.resize([1.0, -1.0], n)[:, None]
    x = signs * np.array([[1.0, 0.0]])
    return x, signs * np.array([[math.cos(angle), math.sin(angle)]])


# One row turns, as far from the mean as can be.
FAR = replaced([[1.0, 0.0]] + [[-1.0, 0.0]] * 199, [math.cos(0.001), math.sin(0.001)])
LOW = np.where(np.arange(200)[:, None] < 50, NAN, 0.2)
LIFTED = LOW, LOW + 0.01  # every observed value rises; imputed ones rise with them
# A row rises by as much as both ends fall: its place between them moves twice as far.
ENDS = np.array([[-0.5]] * 4 + [[0.0]] + [[0.5]] * 4)
AGAINST = ENDS, ENDS + np.array([[-0.01]] * 4 + [[0.01]] + [[-0.01]] * 4)
# Three rows take from the replaced one in either table, and these are not the same three.
HOLED = [[0.9, NAN]] * 3 + [[-0.9, NAN]] * 3
LEFT = replaced([[0.9, 0.4], [0.0, -0.4], *HOLED], [-0.9, 0.4])
# Each table is as narrow as declared, and the two lie side by side.
NARROW = np.array([[-0.1]] * 3 + [[0.0]] * 6 + [[NAN]])


@pytest.mark.parametrize(
    ("case", "pair", "moved", "least"),
    [
        (pca_case, turned_rows(), (0, "moved_l12"), 0.24),
        (pca_case, FAR, (0, "moved_l12"), 0.99),
        (pca_second_case, turned_rows(), (0, "moved_l12"), 0.49),
        (mean_one_cell_case, LIFTED, (0, "moved_l12"), 0.99),
        (mean_case, LIFTED, (0, "moved_l12"), 0.99),
        (median_case, LIFTED, (0, "moved_l12"), 0.99),
        (trimmed_case, LIFTED, (0, "moved_l12"), 0.98),
        (min_max_case, AGAINST, (0, "moved_max"), 0.99),
        (one_donor, LEFT, (1, "moved_rows"), 1.0),
    ],
)
def test_moving_every_row_alike_comes_close(case, pair, moved, least):
    """The response to movement alone, which chains rest on, and to a donor that moves."""
    rows, norm = moved
    true, bound = apart(case, pair, rows)
    assert getattr(true, norm) >= least * getattr(bound, norm) > 0


def test_three_replaced_rows_move_a_trimmed_mean_by_more_than_three_ranges():
    true, _ = apart(three_of_ten, (NARROW, np.abs(NARROW)), 3)
    assert true.moved_max > 3 * 0.1 / 7


@pytest.mark.parametrize("ridge", [0.05, 0.5, 2.0])
def test_a_replaced_row_pulls_at_a_regression_as_far_as_is_said(ridge):
    """What a row of the unit ball adds, twice, at the longest coefficient there may be."""
    step = mp.RegressionImputer(target=1, max_incomplete=1, regularization=ridge)
    domain = mp.RowDomain(rows=10**6, columns=2, complete=False)
    longest = math.sqrt(1 / ridge)
    angle = np.linspace(0, 2 * np.pi, 100_001)
    pull = 2 * np.abs(np.cos(angle) * (np.sin(angle) - longest * np.cos(angle))).max()
    said = step.response(mp.NEIGHBOURS, domain).shift * domain.rows * ridge
    assert 0.9999 * said <= pull <= said * (1 + 1e-12)


def test_the_projection_turns_with_the_rows():
    """A bound on the movement of rows cannot tell: the projection itself is compared."""
    pair = turned_rows(angle=0.01)
    for case, least in ((pca_case, 0.49), (pca_second_case, 0.99)):
        step, domain = case(pair)
        projections = [clone(step).fit(t).transform(np.eye(2)) for t in pair]
        turned = np.linalg.norm(projections[0] - projections[1], 2)
        bound = step.subspace_shift(mp.TableDistance.between(*pair, replaced=0), domain)
        assert least * bound <= turned <= bound
