"""Laws given all other attributes, against enumeration of all rows."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from missdp.inference.heads import Heads, _full_conditional, redraw

SIZES = (2, 3, 4)


def random_heads(seed, *, allowed=None):
    rng = np.random.default_rng(seed)
    order = tuple(rng.permutation(3).tolist())
    margins = tuple(rng.dirichlet(np.ones(k)) for k in SIZES)
    weights = {
        (a, c): rng.normal(size=(SIZES[a], SIZES[c])) * 2
        for i, a in enumerate(order)
        for c in order[:i]
        if rng.random() < 0.8
    }
    biases = tuple(rng.normal(size=k) for k in SIZES)
    return Heads(order, margins, biases, weights, allowed or {})


def probability(law, row):
    found = 1.0
    for a in law.order:
        scores = np.array(law.biases[a])
        for c in law.parents[a]:
            scores = scores + law.weights[a, c][:, row[c]]
        chances = np.exp(scores - scores.max())
        found *= chances[row[a]] / chances.sum()
    return found


@given(st.integers(0, 10**6), st.integers(0, 2))
def test_the_law_given_the_rest_is_that_of_bayes(seed, a):
    law = random_heads(seed)
    rows = np.array(list(itertools.product(*map(range, SIZES))))
    found = _full_conditional(law, rows, a)
    for row, column in zip(rows, found.T, strict=True):
        exact = np.empty(SIZES[a])
        for level in range(SIZES[a]):
            other = row.copy()
            other[a] = level
            exact[level] = probability(law, other)
        np.testing.assert_allclose(column, exact / exact.sum(), rtol=1e-4, atol=1e-6)


def test_what_is_impossible_is_not_drawn():
    allowed = {(0, 2): np.array([[True, False, True, False], [True, True, False, False]])}
    law = random_heads(3, allowed=allowed)
    rows = np.array(list(itertools.product(*map(range, SIZES))))
    for a, b, table in ((2, 0, allowed[0, 2]), (0, 2, allowed[0, 2].T)):
        found = _full_conditional(law, rows, a)
        possible = table[rows[:, b]].T
        some = possible.any(axis=0)
        assert found[:, some][~possible[:, some]].max() < 1e-12


def test_cells_are_drawn_from_that_law_and_others_stay():
    law = random_heads(5)
    rows = np.tile([1, 2, 3], (20_000, 1))
    again = redraw(law, rows, (1,), np.random.default_rng(0))
    assert (again[:, [0, 2]] == rows[:, [0, 2]]).all()
    expected = _full_conditional(law, rows[:1], 1)[:, 0] * len(rows)
    seen = np.bincount(again[:, 1], minlength=3)
    assert chisquare(seen, expected).pvalue > 1e-4
    assert chisquare(seen, expected[[1, 2, 0]]).pvalue < 1e-6  # it would see another law


@pytest.mark.parametrize("n", [0, 1])
def test_few_rows(n):
    law = random_heads(1)
    rows = np.zeros((n, 3), dtype=np.int64)
    assert redraw(law, rows, (0, 1, 2), np.random.default_rng(0)).shape == (n, 3)
