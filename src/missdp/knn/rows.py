"""Row functions: what each row adds to a query, as whole numbers, with its public weights.

A query is a sum over rows of a bounded function of the (imputed) row. The function is rounded to
whole multiples of a public unit and clipped to its public limit, so sums are exact integers and no
floating-point rounding can move them further than the sensitivity says.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

__all__ = ["QUANTA", "RowSum", "Weights", "counted", "histogram_of", "quantised", "weights_of"]

QUANTA = 1 << 20


@dataclass(frozen=True)
class Weights:
    """How far one row of its own, and one donee that exchanges a donor, move a query. Public.

    Parameters
    ----------
    own, donee : int
        In units of ``unit``; L1 norms for vectors. ``donee`` is 0 if no imputed value is read.
    donee_l2 : float
        L2 norm of a donee's effect (``own`` is the same in both norms).
    unit : Fraction
        What one unit is worth.
    """

    own: int
    donee: int
    donee_l2: float
    unit: Fraction


@dataclass(frozen=True, eq=False, repr=False)
class RowSum:
    """Exact private answer of a query, in public units."""

    totals: tuple[int, ...]
    weights: Weights


def weights_of(limit: float, change: float) -> Weights:
    """Weights of a row function bounded by ``limit`` that a new donor moves by at most ``change``.

    Both ends of a change are rounded to whole units, which adds at most one; a change can never
    exceed twice the limit.

    Examples
    --------
    >>> weights_of(1.0, 2.0).donee == 2 * QUANTA
    True
    """
    donee = 0
    if change > 0:
        donee = min(math.ceil(change / limit * QUANTA) + 1, 2 * QUANTA)
    return Weights(QUANTA, donee, float(donee), Fraction(limit) / QUANTA)


def quantised(values: NDArray[np.float64], limit: float, weights: Weights) -> RowSum:
    """Sum a row function that lies in ``[-limit, limit]``."""
    steps = np.rint(np.clip(values / limit, -1.0, 1.0) * QUANTA).astype(np.int64)
    return RowSum((int(steps.sum()),), weights)


def counted(selected: NDArray[np.bool_], *, depends: bool) -> RowSum:
    """Count rows; ``depends`` tells whether an imputed value decides."""
    donee = int(depends)
    return RowSum((int(np.count_nonzero(selected)),), Weights(1, donee, float(donee), Fraction(1)))


def histogram_of(codes: NDArray[np.int64], levels: int, *, moves: bool, depends: bool) -> RowSum:
    """Count rows per level; a donee can change level (``moves``) or come and go (``depends``)."""
    counts = np.bincount(codes[codes < levels], minlength=levels)
    donee = 2 if moves else int(depends)
    norm = math.sqrt(2.0) if moves else float(donee)
    return RowSum(tuple(counts.tolist()), Weights(1, donee, norm, Fraction(1)))
