"""How many pairs of rows violate a denial constraint, as one number that a row moves by one.

Let ``m`` be the number of rows with a value of all attributes of the constraint, and ``S`` the
number of pairs of these, in no order, that violate it. Then ``g = S / (m - 1)`` (0 if there are
fewer than two) is half the mean number of violating partners of a row, and ``2 g / m`` is the share
of pairs that violate the constraint. Adding a row that has ``v`` violating partners moves it to
``(S + v) / m``, so by

    v / m - S / (m (m - 1)),   where 0 <= v <= m and 0 <= S <= m (m - 1) / 2,

which lies between -1/2 and 1. With ``m = 1`` it moves from 0 to ``v``, and with ``m = 0`` not at
all. A row with a hole in one of the attributes moves nothing. So ``g`` moves by at most 1, whatever
the rows are, and the share can be told with noise that falls as ``1 / m``.

In whole numbers ``g`` is rounded down to a multiple of a grid's step. Numbers that differ by at
most a whole number of steps still do so when both are rounded down, so rounding adds nothing.
The number ``m`` is released with it, in coarser steps, since it matters less.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Cost
from missdp.mechanisms.laws import Noise
from missdp.schema import PairDenial
from missdp.sources.partners import observed_on, violating_pairs
from missdp.table import Table

_STEPS = 1024  # of the grid, by which half the mean number of partners is counted
_ROW = 256  # steps of a row: the noise of their number has four times the scale


@dataclass(frozen=True)
class PairRate:
    """A released share of the pairs of rows that violate a denial constraint.

    Parameters
    ----------
    partners : float
        Half the mean number of rows with which a row violates it; noisy, so it may be negative.
    rows : float
        The number of rows with a value of all its attributes; noisy.
    partners_std : float
        Standard deviation of the noise of ``partners``.

    Examples
    --------
    >>> found = PairRate(partners=35.0, rows=1000.0, partners_std=5.0)
    >>> found.rate, found.std
    (0.07, 0.01)
    """

    partners: float
    rows: float
    partners_std: float

    @property
    def rate(self) -> float:
        """The share of pairs, from 0 to 1."""
        return float(min(1.0, max(0.0, 2 * self.partners / max(1.0, self.rows))))

    @property
    def std(self) -> float:
        """Standard deviation of the noise of the share, as far as the number of rows is known."""
        return 2 * self.partners_std / max(1.0, self.rows)


@dataclass(frozen=True)
class RateSteps:
    """What is released of a denial constraint, in whole numbers, and its noise."""

    cost: Cost

    @property
    def bound(self) -> int:
        """How far a row moves the two numbers: in L1 norm for pure epsilon, else in L2 norm."""
        if self.cost.currency == "pure":
            return _STEPS + _ROW
        return math.isqrt(_STEPS**2 + _ROW**2) + 1  # it is no square

    @property
    def noise(self) -> Noise:
        """Noise of both numbers."""
        return Noise.worth(self.cost, sensitivity=float(self.bound))

    @staticmethod
    def exact(
        denial: PairDenial, table: Table, *, complete: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return the two numbers; private."""
        rows = table.take(complete & observed_on(denial.names, table))
        many = len(rows)
        pairs = violating_pairs(denial, rows) if many > 1 else 0
        # Python's whole numbers have no largest one, and are rounded down exactly.
        return np.array([_STEPS * pairs // max(1, many - 1), _ROW * many], dtype=np.int64)

    def read(self, cells: NDArray[np.int64]) -> PairRate:
        """Return what was released."""
        std = math.sqrt(self.noise.variance) / _STEPS
        return PairRate(float(cells[0]) / _STEPS, float(cells[1]) / _ROW, std)
