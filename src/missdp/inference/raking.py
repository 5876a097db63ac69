"""Re-weighting of synthetic rows so that tables hold, and resampling of weighted rows.

Raking is iterative proportional fitting over rows (Deming and Stephan 1940; Deville, Särndal and
Sautory 1993): table after table, the weights of the rows of each cell are multiplied by one factor,
so that they add up to what the table says. Weighted rows keep the law that they were drawn from,
given the cells: raking changes no more than the tables ask for.

Rows and tables are released values here, so that none of this costs privacy.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique
from missdp.inference.model import Codes, cell_index

__all__ = ["effective_share", "rake", "resample"]

Floats = NDArray[np.float64]

_HALVINGS = 12


def effective_share(weights: Floats) -> float:
    """Return the effective sample size of weighted rows, as a share of their number.

    An estimate from weighted rows varies as one from that many rows of equal weight (Kish 1965).

    Examples
    --------
    >>> effective_share(np.array([1.0, 1.0])), effective_share(np.array([1.0, 0.0]))
    (1.0, 0.5)
    """
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / (len(weights) * squares) if squares > 0 else 0.0


def rake(
    codes: Codes,
    tables: Mapping[Clique, Floats],
    *,
    weights: Floats | None = None,
    sweeps: int = 15,
    most: float = 5.0,
    tolerance: float = 1e-4,
    least_share: float = 0.5,
) -> Floats:
    """Return weights of rows under which tables hold.

    Parameters
    ----------
    codes : ndarray of int64, shape (n, d)
        Rows; columns in one piece (Fortran order) are read faster.
    tables : mapping of Clique to ndarray
        Wanted tables by attribute positions, in the order of their axes and up to a factor;
        nowhere negative. A cell that is 0 is forbidden: its rows get no weight. A cell without
        rows is left out, as no weights could fill it.
    weights : ndarray, shape (n,), optional
        Weights to begin with; by default all are equal.
    sweeps : int
        Most times that each table is gone through, forwards and backwards in turn.
    most : float, above 1
        Largest factor, up or down, of one row's weight by one table in one sweep.
    tolerance : float
        Enough is the mean total variation distance of tables found in a sweep, each before it is
        made to hold.
    least_share : float
        Least effective sample size as a share of the rows (see :func:`effective_share`). The sweep
        that would take it further is undone as far as needed, and is the last.

    Returns
    -------
    ndarray, shape (n,)
        At least 0, adding up to 1.

    Examples
    --------
    >>> rows = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> tables = {(0,): np.array([0.25, 0.75]), (1,): np.array([0.5, 0.5])}
    >>> rake(rows, tables).round(3).tolist()
    [0.125, 0.125, 0.375, 0.375]
    """
    columns = np.asfortranarray(codes).T
    current = _allowed(columns, tables, weights)
    order = list(tables)
    floor = min(least_share, effective_share(current))
    for sweep in range(sweeps):
        swept, distance = _swept(columns, tables, order[:: -1 if sweep % 2 else 1], current, most)
        if effective_share(swept) < floor:
            return _part_of_the_way(current, swept, floor)
        current = swept
        if distance <= tolerance:
            break
    return current


def _cells(columns: Codes, clique: Clique, table: Floats) -> Codes:
    if len(clique) == 1:
        alone: Codes = columns[clique[0]]
        return alone
    return cell_index(columns, clique, table.shape, columns.shape[1])


def _allowed(columns: Codes, tables: Mapping[Clique, Floats], weights: Floats | None) -> Floats:
    """Return the weights to begin with, without the rows of forbidden cells if others are left."""
    start = np.ones(columns.shape[1]) if weights is None else np.array(weights, dtype=np.float64)
    for clique, table in tables.items():
        if not np.all(table):
            left = start * (table.ravel() > 0)[_cells(columns, clique, table)]
            start = left if left.any() else start
    scaled: Floats = start / start.sum()
    return scaled


def _swept(
    columns: Codes,
    tables: Mapping[Clique, Floats],
    order: list[Clique],
    weights: Floats,
    most: float,
) -> tuple[Floats, float]:
    """Make one table after the other hold; and how far they were from that, on average."""
    swept, distance = weights.copy(), 0.0
    for clique in order:
        table = tables[clique].ravel()
        cells = _cells(columns, clique, tables[clique])
        counts = np.bincount(cells, weights=swept, minlength=table.size)
        filled = (counts > 0) & (table > 0)
        if not filled.any():
            continue
        found: Floats = counts / counts.sum()
        aim = np.where(filled, table, 0.0)
        aim /= aim.sum()
        distance += 0.5 * float(np.abs(aim - found).sum())
        factor = np.divide(aim, found, out=np.ones(table.size), where=filled)
        swept *= np.minimum(np.maximum(factor, 1 / most), most)[cells]
    return swept / swept.sum(), distance / max(1, len(order))


def _part_of_the_way(before: Floats, after: Floats, floor: float) -> Floats:
    """Move along the geometric path from one set of weights to another, as far as allowed."""
    share, best = 0.0, before
    for halving in range(1, _HALVINGS):
        tried = before ** (1 - share - 0.5**halving) * after ** (share + 0.5**halving)
        if effective_share(tried) >= floor:
            share, best = share + 0.5**halving, tried / tried.sum()
    return best


def resample(
    weights: Floats, n: int, rng: np.random.Generator, *, codes: Codes | None = None
) -> Codes:
    """Draw ``n`` of the weighted rows systematically (Madow 1949), in random order.

    Parameters
    ----------
    weights : ndarray
        At least 0, not all of them 0.
    n : int
    rng : numpy Generator
    codes : ndarray of int64, shape (rows, d), optional
        The rows themselves. Rows that are alike are then put side by side before places are laid
        out evenly, so that tables of what is drawn differ less from those of the weighted rows.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions of rows; each is drawn ``n`` times its share of the weight, rounded up or down.

    Examples
    --------
    >>> drawn = resample(np.array([0.5, 0.25, 0.25]), 4, np.random.default_rng(0))
    >>> sorted(drawn.tolist())
    [0, 0, 1, 2]
    """
    order = rng.permutation(len(weights)) if codes is None else _alike(codes, rng)
    ends = np.cumsum(weights[order])
    places = (np.arange(n) + rng.random()) * (ends[-1] / max(1, n))
    found = np.searchsorted(ends, places, side="right")
    # Rounding may push a place past the end: never onto a row without weight.
    last = int(np.flatnonzero(weights[order] > 0)[-1])
    return rng.permutation(order[np.minimum(found, last)])


def _alike(codes: Codes, rng: np.random.Generator) -> Codes:
    shuffled = rng.permutation(len(codes))
    keys = codes[shuffled].T[::-1]
    small = keys.astype(np.uint16) if keys.size and keys.max() < 2**16 else keys
    return shuffled[np.lexsort(tuple(small))]
