"""One row moves a score by no more than its selection is charged for, and the bound is needed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.errors import ParameterError
from missdp.session import Expected, Misfits
from missdp.session.dependences import Dependences, dependence
from missdp.session.scores import misfit

SHAPE = (2, 3)
CLIQUE = ("a", "b")
MISFITS, DEPENDENCES = Misfits((CLIQUE,), {}), Dependences((CLIQUE,))

counts = st.lists(st.integers(0, 9), min_size=6, max_size=6)
cells = st.tuples(st.integers(0, 1), st.integers(0, 2))
# From small tables to tables of as many rows as counts can hold together.
scales = st.sampled_from([1, 1000, 2**20 + 1, 2**36 - 5])
numbers = st.floats(0, 1e12) | st.floats(0, 10) | st.sampled_from([np.nan, np.inf, -3.0])


def neighbours(values, scale, cell):
    before = np.array(values, dtype=np.int64).reshape(SHAPE) * scale
    after = before.copy()
    after[cell] += 1
    return before, after


@st.composite
def expectations(draw):
    table = np.array([draw(numbers) for _ in range(6)]).reshape(SHAPE)
    possible = np.array([draw(st.booleans()) for _ in range(6)]).reshape(SHAPE)
    weight = draw(st.floats(0, 1) | st.sampled_from([1.0, 5.0, -2.0]))
    return Expected(table, possible, draw(st.floats(-1e12, 1e12)), weight)


@settings(max_examples=300, deadline=None)
@given(counts, scales, cells, expectations())
def test_misfit_one_row_moves_at_most_its_sensitivity(values, scale, cell, expected):
    with np.errstate(over="ignore"):  # as in a session, which shows no warning
        before, after = (misfit(table, expected) for table in neighbours(values, scale, cell))
    assert abs(after - before) <= MISFITS.sensitivity(np.inf)


def test_misfit_reaches_its_sensitivity():
    ones = Expected(np.ones(SHAPE), np.ones(SHAPE, dtype=bool), 0.5, 1.0)
    before, after = neighbours([5] * 6, 1, (0, 0))
    assert misfit(after, ones) - misfit(before, ones) > 0.999 * MISFITS.sensitivity(np.inf)


@pytest.mark.parametrize("weight", [3.0, -3.0, np.inf])
def test_misfit_weight_is_at_most_one(weight):
    """A weight beyond its public bound would multiply the sensitivity."""
    expected = Expected(np.zeros(SHAPE), np.ones(SHAPE, dtype=bool), 0.0, weight)
    before, after = (misfit(table, expected) for table in neighbours([5] * 6, 1, (0, 0)))
    assert abs(after - before) <= MISFITS.sensitivity(np.inf)


def test_misfit_adds_exact_numbers_of_any_size():
    """Expected counts lie on a grid. Between two powers of 2, rounding would add to the move."""
    for number in np.random.default_rng(0).random(50):
        expected = Expected(np.array([number]), np.ones(1, dtype=bool), 0.0, 1.0)
        before, after = (misfit(np.array([2**29 + more]), expected) for more in (0, 1))
        assert after - before == 1


def test_misfit_impossible_cells_do_not_count():
    possible = np.array([[True, False, True]] * 2)
    expected = Expected(np.zeros(SHAPE), possible, 0.0, 1.0)
    table = np.array([[1, 100, 2], [3, 100, 4]])
    assert misfit(table, expected) == 10


@settings(max_examples=300, deadline=None)
@given(counts, scales, cells)
def test_dependence_one_row_moves_at_most_its_sensitivity(values, scale, cell):
    before, after = (dependence(table) for table in neighbours(values, scale, cell))
    assert abs(after - before) <= DEPENDENCES.sensitivity(np.inf)


def test_dependence_reaches_nearly_its_sensitivity():
    """The first row of another level, on both attributes, among many rows."""
    before = np.diag([10_000, 0])
    before[0, 0] = 10_000
    after = before + np.diag([0, 1])
    moved = dependence(after) - dependence(before)
    assert moved > 0.99 * DEPENDENCES.sensitivity(np.inf)


def test_dependence_of_many_rows_is_that_of_whole_numbers():
    """Products of counts beyond 64 bits do not wrap around."""
    table = np.array([[2**40, 0], [0, 2**40]])
    assert dependence(table) == 2**34  # clipped
    assert dependence(np.array([[2**33, 2**33], [2**33, 2**33]])) == 0


@pytest.mark.parametrize(
    ("table", "possible"),
    [((5, 1), (5,)), ((4, 5), (5,)), ((5,), (1,)), ((6,), (6,)), ((5, 1), (5, 1)), ((), ())],
)
def test_misfit_shapes_that_would_be_broadcast_are_refused(table, possible):
    """Broadcast, one row would move the score as often as its count is repeated."""
    expected = Expected(np.zeros(table), np.ones(possible, dtype=bool), bias=0.0, weight=1.0)
    with pytest.raises(ParameterError, match="shape of the possible cells"):
        misfit(np.arange(5), expected)
