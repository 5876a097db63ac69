"""Levels that are merged or drawn: impossible combinations stay impossible."""

from functools import partial
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from missdp.inference.model import Levels, draw, level_kinds, merge_zeros

SIZES = (3, 2, 8, 4)
ZEROS = {
    (0, 1): np.array([[0, 1], [0, 0], [0, 0]], dtype=bool),
    (0, 3): np.array([[0, 1, 1, 1], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=bool),
    (2, 3): np.outer(np.arange(8) > 0, np.arange(4) == 3),
}


def test_no_rounding_reaches_an_impossible_level():
    table = np.tile([0.0, 0.3, 0.0, 0.7, 0.0], (1000, 1))
    for u in (0.0, np.nextafter(1.0, 0)):
        extreme = SimpleNamespace(random=partial(np.full, fill_value=u), permutation=np.arange)
        for rows in (np.arange(1000), np.arange(7000) % 1000):
            assert {*draw(table, rows, extreme)} <= {1, 3}


@given(st.lists(st.floats(-5, 20), min_size=8, max_size=8))
def test_merging_levels_loses_no_impossible_cell(counts):
    levels = [
        Levels.from_counts(np.resize(np.array(counts), size), threshold=10, kinds=kinds)
        for size, kinds in zip(SIZES, level_kinds(ZEROS, SIZES), strict=True)
    ]
    for pair, table in merge_zeros(ZEROS, levels).items():
        back = table[np.ix_(*(levels[v].groups for v in pair))]
        np.testing.assert_array_equal(back, ZEROS[pair])
