"""How much each row counts: whole numbers of steps of 2**-20, at most one row each. Private.

What a row counts is a function of its own weight and of how many rows of its unit take part. So a
unit whose rows count as one adds at most 1 to any sum: its j rows count at most 1 / j each, and a
sum of j vectors that are no longer than that is no longer than 1, in L1 and in L2 norm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from missdp.schema import SurveyWeight, Unit
from missdp.schema.unit import STEPS
from missdp.table.cells import read_numbers
from missdp.types import Ints

if TYPE_CHECKING:
    import pyarrow as pa


def survey_weights(cells: pa.Array, weight: SurveyWeight) -> Ints:
    """Return what rows count by a column of weights, each by itself, in steps.

    Examples
    --------
    >>> import pyarrow as pa
    >>> survey_weights(pa.array([2.0, 9.0, None, -1.0]), SurveyWeight("wt", upper=4)).tolist()
    [524288, 1048576, 0, 0]
    """
    values, marks = read_numbers(cells)
    known = (marks == 0) & np.isfinite(values) & (values >= 0)
    share = np.minimum(np.where(known, values, weight.default), weight.upper) / weight.upper
    return np.floor(share * STEPS).astype(np.int64)


def weights_of_units(units: Ints) -> Ints:
    """Return what each row counts if all rows of a unit count as one, in steps, rounded down.

    Examples
    --------
    >>> (weights_of_units(np.array([0, 1, 0, 0])) * 3).tolist()  # never more than one together
    [1048575, 3145728, 1048575, 1048575]
    """
    return STEPS // np.bincount(units)[units] if len(units) else units


def row_weights(units: Ints, unit: Unit | None, survey: Ints | None) -> Ints | None:
    """Return what each row counts by its unit and its own weight; None where each counts one."""
    if unit is None or unit.counts == "rows":
        return survey
    shared = weights_of_units(units)
    return shared if survey is None else shared * survey // STEPS


def unit_sums(units: Ints, weights: Ints | None, bound: int) -> Ints:
    """Return the sums over units of what each counts, and of its square over the bound, in steps.

    A unit counts the bound at most, so it adds no more than the bound to either sum.

    Examples
    --------
    >>> (unit_sums(np.array([0, 0, 1]), None, 2) / STEPS).tolist()
    [3.0, 2.5]
    """
    counted = np.full(len(units), STEPS, dtype=np.int64) if weights is None else weights
    of_each = np.bincount(units, counted).astype(np.int64)  # exact: below 2**53
    squares = np.floor(of_each * (of_each / (bound * STEPS))).astype(np.int64)
    return np.array([of_each.sum(), squares.sum()], dtype=np.int64)
