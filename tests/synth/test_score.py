"""The score of a selection moves by at most its sensitivity, floating point included."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.synth.learn_graphical import SCORE_SENSITIVITY, _marginal_score


@settings(max_examples=300)
@given(
    st.integers(1, 400),
    st.floats(0, 30),
    st.floats(1e-9, 1.0),
    st.floats(0, 1e9),
    st.integers(0, 2**32 - 1),
)
def test_one_row_moves_a_score_by_at_most_its_sensitivity(cells, size, weight, bias, seed):
    rng = np.random.default_rng(seed)
    exact = rng.integers(0, int(2**size) + 1, cells)
    expected = rng.random(cells) * 2 ** rng.uniform(0, 31, cells)
    more = exact.copy()
    more[rng.integers(cells)] += 1
    one, two = (_marginal_score(c, expected, bias=bias, weight=weight) for c in (exact, more))
    assert abs(one - two) <= SCORE_SENSITIVITY


def test_without_the_grid_one_row_moves_it_by_more():
    # What was computed before: rounding in another binade adds to the difference.
    exact, more = np.array([2**29]), np.array([2**29 + 1])
    worst = 0.0
    for expected in np.random.default_rng(0).random((50, 1)):
        worst = max(worst, np.abs(more - expected).sum() - np.abs(exact - expected).sum())
        pair = [_marginal_score(c, expected, bias=0.3, weight=1.0) for c in (exact, more)]
        assert abs(pair[0] - pair[1]) <= 1.0
    assert worst > 1.0


def test_a_prediction_beyond_all_bounds_is_scaled_down():
    score = _marginal_score(np.array([1, 2]), np.array([1e30, 1e30]), bias=1.0, weight=1.0)
    assert score == pytest.approx(2.0**31)
