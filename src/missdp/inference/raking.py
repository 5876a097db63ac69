"""Re-weighting of synthetic rows so that tables hold, and rows drawn by their weights.

Raking is iterative proportional fitting over rows (Deming and Stephan 1940; Deville, Särndal and
Sautory 1993): table after table, the weights of the rows of each cell are multiplied by one factor,
so that they add up to what the table says. Weighted rows keep the law that they were drawn from,
given the cells: raking changes no more than the tables ask for.

Rows and tables are released values here, so that none of this costs privacy.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.inference.junction import Clique
from missdp.inference.model import Codes, Draws, cell_index, draw
from missdp.inference.swaps import plan, swap

__all__ = ["draw_weighted", "effective_share", "rake", "resample", "sample_raked"]

Floats = NDArray[np.float64]
Name = TypeVar("Name", bound=Hashable)

_HALVINGS = 12
_RENEW = 0.7  # rows are drawn anew when their effective share has fallen below
_POOL = 100_000  # rows that are weighted, if fewer are drawn
_LEAST_POOL = 20_000  # and if only a few are
_TIMES = 12  # as many rows are weighted as are drawn: fewer, and some are drawn twice too often
_MOST_ROWS = 1_000_000  # at once
_ROUNDS = 60  # of swaps: with more, tables hold little better, and all takes longer


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


def draw_weighted(
    codes: Codes,
    tables: Mapping[Clique, Floats],
    weights: Floats,
    n: int,
    rng: np.random.Generator,
    *,
    draws: Draws = "even",
    rounds: int = _ROUNDS,
) -> Codes:
    """Draw ``n`` of the weighted rows such that tables hold.

    Even draws round the weights systematically, and swaps (`missdp.inference.swaps`) undo what that
    did to the tables. Where there are too many rows or tables to swap, rows that are alike are put
    side by side instead, which repeats fewer of them than chance would.

    Parameters
    ----------
    codes : ndarray of int64, shape (rows, d)
    tables, weights
        See :func:`rake`; weights add up to 1.
    n : int
    rng : numpy Generator
    draws : {"even", "independent"}
    rounds : int
        See :func:`~missdp.inference.swaps.swap`.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions of rows.
    """
    if draws == "independent":
        return rng.choice(len(codes), size=n, p=weights)
    if n > _POOL or not plan(n, len(tables), rounds)[1]:
        return resample(weights, n, rng, codes=codes)
    chosen = resample(weights, n, rng)
    return swap(chosen, codes, tables, weights=weights, rng=rng, rounds=rounds)


def sample_raked(
    steps: Iterable[tuple[Sequence[Name], Sequence[Name], Floats]],
    tables: Mapping[tuple[Name, ...], Floats],
    n: int,
    rng: np.random.Generator,
    *,
    sweeps: int = 3,
    draws: Draws = "even",
) -> dict[Name, Codes]:
    """Draw ``n`` rows ancestrally, such that tables hold which the steps alone do not give.

    Rows are raked to each table as soon as its attributes are drawn, and drawn anew by their
    weights when these have become unequal; copies of a row go different ways from then on. So
    weights stay nearly equal, however much the tables change the law of the steps: a particle
    filter (Gordon, Salmond and Smith 1993), with raking in place of likelihoods.

    Parameters
    ----------
    steps : iterable of (given, new, table)
        See :func:`~missdp.inference.model.sample_rows`.
    tables : mapping of tuple of names to ndarray
        See :func:`rake`.
    n : int
    rng : numpy Generator
    sweeps : int
        Times that all tables are gone through at the end.
    draws : {"even", "independent"}
        ``"independent"`` rows vary as those of a real sample do.

    Examples
    --------
    >>> half = np.array([0.5, 0.5])
    >>> steps = [((), ("rain",), half), ((), ("wet",), half)]
    >>> table = np.array([[0.4, 0.1], [0.1, 0.4]])
    >>> rows = sample_raked(steps, {("rain", "wet"): table}, 1000, np.random.default_rng(0))
    >>> bool(abs((rows["rain"] == rows["wet"]).mean() - 0.8) < 0.01)
    True
    """
    known = list(steps)
    parts = [min(_MOST_ROWS, n - start) for start in range(0, max(1, n), _MOST_ROWS)]
    found = [_part(known, tables, part, rng, sweeps=sweeps, draws=draws) for part in parts]
    return {name: np.concatenate([part[name] for part in found]) for name in found[0]}


def _part(
    steps: Sequence[tuple[Sequence[Name], Sequence[Name], Floats]],
    tables: Mapping[tuple[Name, ...], Floats],
    n: int,
    rng: np.random.Generator,
    *,
    sweeps: int,
    draws: Draws,
) -> dict[Name, Codes]:
    rows = max(n, min(_POOL, max(_LEAST_POOL, _TIMES * n)))
    order = [name for _, new, _ in steps for name in new]
    place = {name: i for i, name in enumerate(order)}
    codes = np.zeros((len(order), rows), dtype=np.int64)
    wanted = {tuple(place[name] for name in clique): table for clique, table in tables.items()}
    weights, drawn = np.full(rows, 1 / rows), 0
    for given, new, table in steps:
        sizes = table.shape[len(given) :]
        before = cell_index(codes, [place[v] for v in given], table.shape[: len(given)], rows)
        flat = draw(table.reshape(-1, prod(sizes)), before, rng)
        for name, size in zip(reversed(new), reversed(sizes), strict=True):
            flat, codes[place[name]] = np.divmod(flat, size)
        first, drawn = drawn, drawn + len(new)
        ready = {c: t for c, t in wanted.items() if first <= max(c) < drawn}
        if ready:
            weights = rake(codes[:drawn].T, ready, weights=weights, sweeps=1, least_share=0.0)
        if effective_share(weights) < _RENEW and drawn < len(order):
            codes[:drawn] = codes[:drawn, resample(weights, rows, rng, codes=codes[:drawn].T)]
            weights = np.full(rows, 1 / rows)
    weights = rake(codes.T, wanted, weights=weights, sweeps=sweeps)
    chosen = draw_weighted(codes.T, wanted, weights, n, rng, draws=draws)
    return {name: codes[i, chosen] for name, i in place.items()}
