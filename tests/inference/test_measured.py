"""What released marginals say about holes, against sums written out by hand."""

import numpy as np
import pytest

from missdp.inference.estimate import _both_missing, _Measured, _strips

SIZES = [2, 3, 4]
TABLE = np.random.default_rng(0).uniform(0, 100, (3, 4, 5))  # each axis ends with "missing"
EVERYONE = np.ones(3, dtype=bool)


def test_pairs_of_holes_are_read_off_the_last_levels():
    found = _both_missing({(0, 1, 2): _Measured(TABLE, 2.0)}, SIZES, EVERYONE)
    expected = {(0, 1): TABLE[2, 3, :], (0, 2): TABLE[2, :, 4], (1, 2): TABLE[:, 3, 4]}
    for pair, cells in expected.items():
        assert found[pair] == pytest.approx((cells.sum(), 2.0 * np.sqrt(len(cells))))
    assert found.keys() == expected.keys()


def test_strips_are_read_along_either_axis():
    found = _strips({(0, 2): _Measured(TABLE.sum(axis=1), 3.0)}, SIZES, EVERYONE)
    table = TABLE.sum(axis=1)
    np.testing.assert_allclose(found[0, 2].missing, table[2, :4])
    np.testing.assert_allclose(found[0, 2].rows, table[:, :4].sum(axis=0))
    np.testing.assert_allclose(found[2, 0].missing, table[:2, 4])
    np.testing.assert_allclose(found[2, 0].rows, table[:2].sum(axis=1))
    assert (found[0, 2].observed_cells, found[2, 0].observed_cells) == (2, 4)


def test_strips_by_two_attributes_are_read_off_the_cells_where_both_are_observed():
    found = _strips({(0, 1, 2): _Measured(TABLE, 2.0)}, SIZES, EVERYONE)
    np.testing.assert_allclose(found[1, 0, 2].missing, TABLE[:2, 3, :4].ravel())
    np.testing.assert_allclose(found[1, 0, 2].rows, TABLE[:2, :, :4].sum(axis=1).ravel())
    assert found[1, 0, 2].shape == (2, 4)
    assert found[1, 0, 2].std == 2.0
    assert found[1, 0].std == pytest.approx(2.0 * np.sqrt(5))


def test_the_least_noisy_marginal_speaks_and_full_attributes_do_not():
    pair = _Measured(TABLE[:, :, 0], 1.0)
    measured = {(0, 1, 2): _Measured(TABLE, 1.0), (0, 1): pair}
    present = np.array([True, True, False])
    assert _both_missing(measured, SIZES, present) == {(0, 1): (TABLE[2, 3, 0], 1.0)}
    found = _strips(measured, SIZES, present)
    assert set(found) == {(0, 1), (1, 0), (0, 2), (1, 2), (0, 1, 2), (1, 0, 2)}
    assert found[0, 1].std == 1.0
    assert found[0, 2].std == pytest.approx(2.0)  # summed over the four levels of the third axis
