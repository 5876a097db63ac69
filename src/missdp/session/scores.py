"""Scores of candidate marginals, by which one is selected: declared by released values alone.

A score is the formula below, with tables, columns and weights that were released, or the formula of
`missdp.session.dependences`. No function of a synthesizer sees the exact counts. How far one row
moves each score is proven with its formula.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.session.counted_queries import CountQuery
from missdp.session.counting import Clique
from missdp.session.mechanisms import Selection
from missdp.types import Flags, Floats

if TYPE_CHECKING:
    from missdp.session.counted_rows import CountedRows

Counts: TypeAlias = "NDArray[np.number[Any]]"

_GRID = 2.0**-10  # rows
_MOST = 2.0**31  # rows; what is beyond it is clipped
_MOST_ROWS = 2.0**41
_MOST_WEIGHED = 2.0**31  # in steps of 2**-20, which need as many more bits than the grid

MISFIT_SENSITIVITY = 1.0 + 2.0**-20
"""How far one row moves a misfit, at most."""


@dataclass(frozen=True, eq=False)
class Expected:
    """What the misfit of a marginal is measured against; released or public.

    Attributes
    ----------
    table : ndarray of float
        Expected counts of the cells in which nothing is missing.
    possible : ndarray of bool
        The cells that count, of the same shape: those that rows can be in.
    bias : float
        What noise alone would add to the distance.
    weight : float
        What the distance is multiplied by, in (0, 1]; larger weights are taken for 1.
    """

    table: Floats
    possible: Flags
    bias: float
    weight: float


@dataclass(frozen=True, eq=False)
class Scores(CountQuery):
    """Scores of candidates, of which a selection releases the position of one."""

    cliques: tuple[Clique, ...]

    answered_by = Selection
    reads = ()
    label = "selection of a marginal"

    def __post_init__(self) -> None:
        object.__setattr__(self, "cliques", tuple(map(tuple, self.cliques)))

    def check(self, rows: CountedRows) -> None:
        """Refuse attributes that there are not."""
        for clique in self.cliques:
            rows.refuse_unknown(clique)


@dataclass(frozen=True, eq=False)
class Misfits(Scores):
    """How far released expectations are from the counts of each candidate, less the noise.

    The score is ``weight (sum |counts - expected| - bias)`` over the possible cells in which
    nothing is missing, as AIM has it (McKenna et al. 2022).

    Attributes
    ----------
    cliques : tuple of tuple of str
        The candidates: public, or chosen from what was released.
    expected : callable or mapping
        Returns the expectation of a candidate. It is called with the candidate alone.
        A score is computed again only if another object is returned than before.
    """

    expected: Callable[[Clique], Expected] | Mapping[Clique, Expected]

    def sensitivity(self, norm: float) -> float:
        """Return how far one row moves any of the scores; see ``misfit``."""
        del norm
        return MISFIT_SENSITIVITY

    def exact(self, rows: CountedRows) -> Floats:
        """Return the scores; private."""
        known = rows.scores.setdefault(type(self), {})
        for clique, counts in rows.each(list(self._lacking(known))):
            expected = self._of(clique)
            if clique not in known or known[clique][0]() is not expected:
                # A weak reference: large tables of expectations are not kept for this.
                known[clique] = weakref.ref(expected), misfit(rows.in_rows(counts), expected)
        return np.array([known[c][1] for c in self.cliques], dtype=np.float64)

    def _lacking(self, known: Mapping[Clique, tuple[Any, float]]) -> Iterator[Clique]:
        for clique in dict.fromkeys(self.cliques):
            fixed = not callable(self.expected) and clique in known
            if not fixed or known[clique][0]() is not self._of(clique):
                yield clique

    def _of(self, clique: Clique) -> Expected:
        return self.expected(clique) if callable(self.expected) else self.expected[clique]


def misfit(counts: Counts, expected: Expected) -> float:
    """Return ``weight (sum |counts - expected| - bias)``, clipped, with a proven sensitivity.

    ``counts`` are private: at least 0, less than 2**41 together, or multiples of 2**-20, less than
    2**31 together, where rows count 1 at most.

    One row moves one count by one, or by its share of one, so in exact arithmetic the score moves
    by at most ``weight``. Leaving out fixed cells makes no row's influence larger. In floating
    point: ``expected`` and ``bias`` are first rounded to multiples of 2**-10, and ``expected`` is
    scaled down if it adds up to more than 2**41, which is post-processing. Every difference, and
    every partial sum, below 2**43, is then a multiple of 2**-10 that a double holds exactly, in
    whatever order it is added, so the sum still moves by at most one. Where rows count different
    amounts it is below 2**33, and a multiple of 2**-20, likewise. Clipping at 2**31 moves no two
    values further apart. Only the product with the weight is rounded, by at most 2**-53 * 2**31 for
    each of two neighbours: 2**-21 together, less than the 2**-20 that `MISFIT_SENSITIVITY` allows.

    >>> every = np.ones(2, dtype=bool)
    >>> misfit(np.array([3, 5]), Expected(np.array([4.0, 4.5]), every, bias=1.0, weight=0.5))
    0.25
    """
    possible = np.asarray(expected.possible, dtype=bool)
    table = np.asarray(expected.table, dtype=np.float64)
    inside = possible.ndim == counts.ndim and all(map(operator.le, possible.shape, counts.shape))
    if not inside or table.shape != possible.shape:
        raise ParameterError("expected counts must have the shape of the possible cells")
    observed = counts[tuple(slice(0, size) for size in possible.shape)] * possible
    most = _MOST_WEIGHED if counts.dtype.kind == "f" else _MOST_ROWS
    table = np.maximum(np.nan_to_num(table), 0.0)
    predicted = _on_grid(table / max(1.0, float(table.sum()) / most))
    gap = float(np.abs(observed - predicted).sum())
    above = gap - round(min(max(expected.bias, -_MOST), _MOST) / _GRID) * _GRID
    return min(max(expected.weight, 0.0), 1.0) * min(max(above, -_MOST), _MOST)


def _on_grid(values: Floats) -> Floats:
    """Round released values to multiples of 1/1024 of a row, within 2**31 rows."""
    return np.minimum(np.maximum(np.rint(values / _GRID) * _GRID, -_MOST), _MOST)
