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

from missdp.errors import ParameterError
from missdp.mechanisms.noise import Noise
from missdp.mechanisms.queries import CountedRows, DoorQuery
from missdp.schema import PairDenial
from missdp.sources import MemorySource
from missdp.sources.partners import (
    check_comparable,
    check_countable,
    observed_on,
    violating_pairs,
)
from missdp.table import Table
from missdp.types import Ints

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
class ViolatingPairs(DoorQuery):
    """What is released of a denial constraint: two whole numbers."""

    denial: PairDenial

    def check(self, rows: CountedRows) -> None:
        """Refuse what is no constraint of the schema, or cannot be counted.

        Raises
        ------
        ParameterError
            If it is none of the schema's, cannot be counted, or rows are streamed.
        DataError
            If the rows hold only bins of a numeric attribute that is compared.
        """
        if not any(self.denial is known for known in rows.modelled.whole.rulebook.pairs):
            raise ParameterError("a rate is released of the schema's own denial constraints only")
        check_countable(self.denial)
        if not isinstance(rows.came, MemorySource):
            raise ParameterError(
                "pairs of rows are counted in memory, and these rows are streamed; read them with "
                "Table.read"
            )
        check_comparable(self.denial, rows.came.schema, rows.came.valued)

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes of the constraint."""
        return self.denial.names

    @property
    def label(self) -> str:
        """Public name."""
        return f"pairs of rows that violate {self.denial.text}"

    def moves(self, norm: float) -> float:
        """How far a row moves the two numbers."""
        if norm == 1:
            return _STEPS + _ROW
        return math.isqrt(_STEPS**2 + _ROW**2) + 1  # it is no square

    def exact(self, rows: CountedRows) -> Ints:
        """Return the two numbers; private."""
        assert isinstance(rows.came, MemorySource)  # checked before anything was charged
        table = rows.came.table
        if rows.strategy.complete_only:
            table = table.take(~rows.modelled.table(table).incomplete_rows())
        return self.numbers(table)

    def numbers(self, table: Table) -> Ints:
        """Return the two numbers of a table; private."""
        rows = table.take(observed_on(self.denial.names, table))
        many = len(rows)
        pairs = violating_pairs(self.denial, rows) if many > 1 else 0
        # Python's whole numbers have no largest one, and are rounded down exactly.
        return np.array([_STEPS * pairs // max(1, many - 1), _ROW * many], dtype=np.int64)

    @staticmethod
    def read(cells: Ints, noise: Noise) -> PairRate:
        """Return what was released."""
        return PairRate(float(cells[0]) / _STEPS, float(cells[1]) / _ROW, noise.std / _STEPS)
