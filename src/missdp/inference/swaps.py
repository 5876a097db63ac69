"""Swaps of whole synthetic rows so that tables hold nearly exactly.

Drawing rows by their weights rounds counts at random.  What that did to the tables is undone here
as combinatorial optimisation of microdata does (Williamson, Birkin and Rees 1998): rows are
replaced by others of the same pool wherever the tables then fit better.

Rows and tables are released values here, so that none of this costs privacy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique
from missdp.inference.model import Codes, cell_index

__all__ = ["plan", "swap"]

Floats = NDArray[np.float64]

_BATCH, _LEAST_BATCH = 250, 50  # rows that are compared at once
_ROUNDS = 1000
_LOOKUPS = 60_000_000  # of cells, at most: batches, then rounds, are smaller for many pairs
_IDLE = 50  # rounds without a swap, after which no more are tried
_FEWEST = 20  # rounds; with fewer, it is not worth counting
_COUNTED = 300_000_000  # cells that are counted in the beginning, at most
_FIRST = 0.001  # of the rows, how many are replaced at once in the beginning
_DENSE = 30  # cells for each that is touched, up to which all are counted
_GROW, _SHRINK = 1.1, 0.5


def swap(
    chosen: Codes,
    codes: Codes,
    tables: Mapping[Clique, Floats],
    *,
    weights: Floats,
    rng: np.random.Generator,
    rounds: int = _ROUNDS,
) -> Codes:
    """Replace some of the chosen rows by other rows of the pool, so that tables hold better.

    A swap must lessen the sum, over all cells, of squared differences between counts and what the
    tables say, each divided by the square root of what the tables say: between the measures that
    look at the largest cells only and at the rarest only.  Few rows are replaced, so that what the
    tables do not tell stays as it was drawn.

    Parameters
    ----------
    chosen : ndarray of int64, shape (n,)
        Positions of rows of the pool.
    codes : ndarray of int64, shape (rows, d)
        The pool.
    tables : mapping of Clique to ndarray
        Wanted tables, up to a factor.
    weights : ndarray, shape (rows,)
        By which rows are proposed; adding up to 1.  A row without weight never is.
    rng : numpy Generator
    rounds : int
        In which rows are compared, at most; fewer where there are many tables.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions of rows.  The same if so many pairs would take long.

    Examples
    --------
    >>> codes = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> tables, rng = {(0, 1): np.array([[0.4, 0.1], [0.1, 0.4]])}, np.random.default_rng(0)
    >>> swapped = swap(np.repeat([0, 1], 50), codes, tables, weights=np.full(4, 0.25), rng=rng)
    >>> np.bincount(swapped).tolist()
    [40, 10, 10, 40]
    """
    batch, rounds = plan(len(chosen), len(tables), rounds)
    if not rounds:
        return chosen
    cells, current = _Cells.of(tables), chosen.copy()
    misfit, scale = _misfit(codes[chosen], tables)
    proposed = rng.choice(len(codes), size=(rounds, batch), p=weights)
    most, idle = max(1.0, _FIRST * len(chosen)), 0
    for others in proposed:
        places = np.unique(rng.integers(0, len(chosen), batch))
        old, new = cells.at(codes[current[places]]), cells.at(codes[others])
        pull = misfit * scale
        leave, enter = pull[old].sum(axis=1), pull[new].sum(axis=1)
        k = min(int(most), len(places))
        worst, best = np.argsort(leave)[:k], np.argsort(-enter)[:k]
        old, new = old[worst], new[best]
        # Of one swap alone, this is exactly half of what it lessens the sum of squares by.
        cost = ((scale[old] + scale[new]) * (old != new)).sum(axis=1) / 2
        good = enter[best] - leave[worst] > cost
        idle = 0 if good.any() else idle + 1
        if idle == _IDLE:
            break
        touched, change = _change(old[good], new[good], misfit.size)
        before = misfit[touched]
        if (scale[touched] * change * (2 * before + change)).sum() < 0:
            misfit[touched] = before + change
            current[places[worst[good]]] = others[best[good]]
            most *= _GROW
        else:  # alone they are good, together too many
            most = max(1.0, most * _SHRINK)
    return current


def plan(n: int, tables: int, rounds: int = _ROUNDS) -> tuple[int, int]:
    """Return how many rows to compare at once, and how often: public facts alone decide."""
    if not n or not tables or n * tables > _COUNTED:
        return 0, 0
    most = _LOOKUPS // (2 * tables)
    batch = min(n, _BATCH, max(_LEAST_BATCH, most // _ROUNDS))
    rounds = min(rounds, most // batch)
    return batch, rounds if rounds >= _FEWEST else 0


@dataclass(frozen=True, eq=False)
class _Cells:
    """Where the cells of all tables are, put into one array."""

    places: Codes
    strides: Codes
    starts: Codes

    @classmethod
    def of(cls, tables: Mapping[Clique, Floats]) -> _Cells:
        most = max(map(len, tables))  # smaller tables get places that do not count
        places = np.array([(*c, *[0] * (most - len(c))) for c in tables]).T
        strides = np.zeros_like(places)
        for at, table in enumerate(tables.values()):
            strides[: table.ndim, at] = np.cumprod((1, *table.shape[:0:-1]))[::-1]
        ends = np.cumsum([table.size for table in tables.values()])
        return cls(places, strides, np.append(0, ends[:-1]))

    def at(self, rows: Codes) -> Codes:
        """Return the cells of rows, one column per table."""
        found: Codes = rows[:, self.places[0]] * self.strides[0] + self.starts
        for places, strides in zip(self.places[1:], self.strides[1:], strict=True):
            found += rows[:, places] * strides
        return found


def _misfit(rows: Codes, tables: Mapping[Clique, Floats]) -> tuple[Floats, Floats]:
    """Return, of all cells, what the tables want minus counts, and what a square is divided by."""
    columns, n = np.ascontiguousarray(rows.T), len(rows)
    wanted, counts = [], []
    for pair, table in tables.items():
        cells = cell_index(columns, pair, table.shape, n)
        counts.append(np.bincount(cells, minlength=table.size))
        wanted.append(table.ravel() * (n / table.sum()))
    want = np.concatenate(wanted)
    return want - np.concatenate(counts), 1 / np.sqrt(np.maximum(want, 1.0))


def _change(old: Codes, new: Codes, size: int) -> tuple[Codes, Floats]:
    """Return the cells that swaps touch, and what they add to the misfit of each."""
    if size < _DENSE * old.size:
        change = np.bincount(old.ravel(), minlength=size) - np.bincount(new.ravel(), minlength=size)
        touched = np.flatnonzero(change)
        return touched, change[touched].astype(np.float64)
    both = np.concatenate([old.ravel(), new.ravel()])
    touched, where = np.unique(both, return_inverse=True)
    signs = np.repeat([1.0, -1.0], old.size)
    return touched, np.asarray(np.bincount(where, weights=signs), dtype=np.float64)
