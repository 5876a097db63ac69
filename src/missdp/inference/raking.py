"""Re-weighting of synthetic rows so that tables hold, and rows drawn by their weights.

Raking is iterative proportional fitting over rows (Deming and Stephan 1940; Deville, Särndal and
Sautory 1993): table after table, the weights of the rows of each cell are multiplied by one factor,
so that they add up to what the table says. Weighted rows keep the law that they were drawn from,
given the cells: raking changes no more than the tables ask for.

Rows and tables are released values here, so that none of this costs privacy.

Drawing rows by their weights rounds counts at random.  What that did to the tables is undone as
combinatorial optimisation of microdata does (Williamson, Birkin and Rees 1998): rows are replaced
by others of the same pool wherever the tables then fit better (``_swap``).

A noisy table is leaned on what a model says by empirical Bayes (`shrunk`). What it adds to the
model is its residual, less everything that smaller tables tell. How far residuals are true is told
by their size: where it is no more than noise explains, the model is right, and the table is taken
for noise (James and Stein 1961; Efron and Morris 1973).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from math import prod
from typing import TypeVar

import numpy as np

from missdp.inference.junction import Clique
from missdp.inference.model import Draws, cell_index, draw
from missdp.types import Floats, Ints

_BATCH, _LEAST_BATCH = 250, 50  # rows that are compared at once
_SWAPS = 1000
_LOOKUPS = 60_000_000  # of cells, at most: batches, then rounds, are smaller for many pairs
_IDLE = 50  # rounds without a swap, after which no more are tried
_FEWEST = 20  # rounds; with fewer, it is not worth counting
_COUNTED = 300_000_000  # cells that are counted in the beginning, at most
_FIRST = 0.001  # of the rows, how many are replaced at once in the beginning
_DENSE = 30  # cells for each that is touched, up to which all are counted
_GROW, _SHRINK = 1.1, 0.5


def _swap(
    chosen: Ints,
    codes: Ints,
    tables: Mapping[Clique, Floats],
    *,
    weights: Floats,
    rng: np.random.Generator,
    rounds: int = _SWAPS,
) -> Ints:
    """Replace some of the chosen rows by other rows of the pool, so that tables hold better.

    A swap must lessen the sum, over all cells, of squared differences between counts and what the
    tables say, each divided by the square root of what the tables say: between the measures that
    look at the largest cells only and at the rarest only.  Few rows are replaced, so that what the
    tables do not tell stays as it was drawn.
    """
    batch, rounds = _plan(len(chosen), len(tables), rounds)
    if not rounds:
        return chosen
    cells, current = _finder(tables), chosen.copy()
    misfit, scale = _misfit(codes[chosen], tables)
    proposed = rng.choice(len(codes), size=(rounds, batch), p=weights)
    most, idle = max(1.0, _FIRST * len(chosen)), 0
    for others in proposed:
        places = np.unique(rng.integers(0, len(chosen), batch))
        old, new = cells(codes[current[places]]), cells(codes[others])
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


def _plan(n: int, tables: int, rounds: int = _SWAPS) -> tuple[int, int]:
    """Return how many rows to compare at once, and how often: public facts alone decide."""
    if not n or not tables or n * tables > _COUNTED:
        return 0, 0
    most = _LOOKUPS // (2 * tables)
    batch = min(n, _BATCH, max(_LEAST_BATCH, most // _SWAPS))
    rounds = min(rounds, most // batch)
    return batch, rounds if rounds >= _FEWEST else 0


def _finder(tables: Mapping[Clique, Floats]) -> Callable[[Ints], Ints]:
    """Return what tells the cells of rows, a column per table, all tables put into one array."""
    most = max(map(len, tables))  # smaller tables get places that do not count
    places = np.array([(*c, *[0] * (most - len(c))) for c in tables]).T
    strides = np.zeros_like(places)
    for at, table in enumerate(tables.values()):
        strides[: table.ndim, at] = np.cumprod((1, *table.shape[:0:-1]))[::-1]
    starts = np.cumsum([0, *(table.size for table in tables.values())])[:-1]

    def cells(rows: Ints) -> Ints:
        found: Ints = rows[:, places[0]] * strides[0] + starts
        for place, stride in zip(places[1:], strides[1:], strict=True):
            found += rows[:, place] * stride
        return found

    return cells


def _misfit(rows: Ints, tables: Mapping[Clique, Floats]) -> tuple[Floats, Floats]:
    """Return, of all cells, what the tables want minus counts, and what a square is divided by."""
    columns, n = np.ascontiguousarray(rows.T), len(rows)
    wanted, counts = [], []
    for pair, table in tables.items():
        cells = cell_index(columns, pair, table.shape, n)
        counts.append(np.bincount(cells, minlength=table.size))
        wanted.append(table.ravel() * (n / table.sum()))
    want = np.concatenate(wanted)
    return want - np.concatenate(counts), 1 / np.sqrt(np.maximum(want, 1.0))


def _change(old: Ints, new: Ints, size: int) -> tuple[Ints, Floats]:
    """Return the cells that swaps touch, and what they add to the misfit of each."""
    if size < _DENSE * old.size:
        change = np.bincount(old.ravel(), minlength=size) - np.bincount(new.ravel(), minlength=size)
        touched = np.flatnonzero(change)
        return touched, change[touched].astype(np.float64)
    both = np.concatenate([old.ravel(), new.ravel()])
    touched, where = np.unique(both, return_inverse=True)
    signs = np.repeat([1.0, -1.0], old.size)
    return touched, np.asarray(np.bincount(where, weights=signs), dtype=np.float64)


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
    """
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / (len(weights) * squares) if squares > 0 else 0.0


def rake(
    codes: Ints,
    tables: Mapping[Clique, Floats],
    *,
    weights: Floats | None = None,
    sweeps: int = 15,
    most: float = 5.0,
    tolerance: float = 1e-4,
    least_share: float = 0.5,
) -> Floats:
    """Return weights of rows under which tables hold."""
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


def _cells(columns: Ints, clique: Clique, table: Floats) -> Ints:
    if len(clique) == 1:
        alone: Ints = columns[clique[0]]
        return alone
    return cell_index(columns, clique, table.shape, columns.shape[1])


def _allowed(columns: Ints, tables: Mapping[Clique, Floats], weights: Floats | None) -> Floats:
    """Return the weights to begin with, without the rows of forbidden cells if others are left."""
    start = np.ones(columns.shape[1]) if weights is None else np.array(weights, dtype=np.float64)
    for clique, table in tables.items():
        if not np.all(table):
            left = start * (table.ravel() > 0)[_cells(columns, clique, table)]
            start = left if left.any() else start
    scaled: Floats = start / start.sum()
    return scaled


def _swept(
    columns: Ints,
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
    weights: Floats, n: int, rng: np.random.Generator, *, codes: Ints | None = None
) -> Ints:
    """Draw ``n`` of the weighted rows systematically (Madow 1949), in random order."""
    order = rng.permutation(len(weights)) if codes is None else _alike(codes, rng)
    ends = np.cumsum(weights[order])
    places = (np.arange(n) + rng.random()) * (ends[-1] / max(1, n))
    found = np.searchsorted(ends, places, side="right")
    # Rounding may push a place past the end: never onto a row without weight.
    last = int(np.flatnonzero(weights[order] > 0)[-1])
    return rng.permutation(order[np.minimum(found, last)])


def _alike(codes: Ints, rng: np.random.Generator) -> Ints:
    shuffled = rng.permutation(len(codes))
    keys = codes[shuffled].T[::-1]
    small = keys.astype(np.uint16) if keys.size and keys.max() < 2**16 else keys
    return shuffled[np.lexsort(tuple(small))]


def draw_weighted(
    codes: Ints,
    tables: Mapping[Clique, Floats],
    weights: Floats,
    n: int,
    rng: np.random.Generator,
    *,
    draws: Draws = "even",
    rounds: int = _ROUNDS,
) -> Ints:
    """Draw ``n`` of the weighted rows such that tables hold.

    Even draws round the weights systematically, and ``_swap`` undoes what that did to the tables.
    Where there are too many rows or tables to swap, rows that are alike are put
    side by side instead, which repeats fewer of them than chance would.
    """
    if draws == "independent":
        return rng.choice(len(codes), size=n, p=weights)
    if n > _POOL or not _plan(n, len(tables), rounds)[1]:
        return resample(weights, n, rng, codes=codes)
    chosen = resample(weights, n, rng)
    return _swap(chosen, codes, tables, weights=weights, rng=rng, rounds=rounds)


def sample_raked(
    steps: Iterable[tuple[Sequence[Name], Sequence[Name], Floats]],
    tables: Mapping[tuple[Name, ...], Floats],
    n: int,
    rng: np.random.Generator,
    *,
    sweeps: int = 3,
    draws: Draws = "even",
) -> dict[Name, Ints]:
    """Draw ``n`` rows ancestrally, such that tables hold which the steps alone do not give.

    Rows are raked to each table as soon as its attributes are drawn, and drawn anew by their
    weights when these have become unequal; copies of a row go different ways from then on. So
    weights stay nearly equal, however much the tables change the law of the steps: a particle
    filter (Gordon, Salmond and Smith 1993), with raking in place of likelihoods.
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
) -> dict[Name, Ints]:
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


_LEAST_SHARE = 1e-3  # of the model's share of a cell, whatever is released
_SCALINGS = 20
_SCALED = 1e-12  # of a margin: no further from it than rounding


def centred(table: Floats) -> Floats:
    """Return a table less its mean along each axis: what its margins do not tell."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def scaled_to(table: Floats, margins: Sequence[Floats], *, sweeps: int = _SCALINGS) -> Floats:
    """Return a table scaled to one-way margins, by iterative proportional fitting."""
    others = [tuple(i for i in range(table.ndim) if i != axis) for axis in range(table.ndim)]
    shapes = [[-1 if i == axis else 1 for i in range(table.ndim)] for axis in range(table.ndim)]
    for _ in range(sweeps):
        furthest = 0.0
        for margin, other, shape in zip(margins, others, shapes, strict=True):
            found = table.sum(axis=other)
            factor = np.divide(margin, found, out=np.ones_like(found), where=found > 0)
            table = table * factor.reshape(shape)
            furthest = max(furthest, float(np.abs(factor - 1).max(initial=0.0)))
        if furthest < _SCALED:
            break
    return table


def shrunk(
    noisy: Floats,
    base: Floats,
    std: float | Floats,
    *,
    margins: Sequence[Floats] | None = None,
) -> Floats:
    """Return a noisy table leaned on a model's, scaled to one-way margins.

    Notes
    -----
    Each centred residual has a normal law of variance ``a v + s²``: noise ``s²``, and an error of
    the model proportional to ``v = p (1 − p)``, with one ``a`` for the table, that makes both sides
    add up. Its mean given what was found is ``λ = a v / (a v + s²)`` times the residual.
    """
    residual = centred(noisy - base)
    degrees = float(np.prod([1 - 1 / size for size in base.shape]))
    noise = np.square(np.broadcast_to(std, base.shape)) * degrees
    spread = np.maximum(base * (1 - base), 0.0)
    excess = max(0.0, float((np.square(residual) - noise).sum()))
    error = excess * spread / max(float(spread.sum()), np.finfo(float).tiny)
    trusted = np.divide(error, error + noise, out=np.zeros_like(error), where=error > 0)
    table = np.maximum(base + trusted * residual, _LEAST_SHARE * base)
    wanted = margins
    if wanted is None:
        axes = range(base.ndim)
        wanted = [base.sum(axis=tuple(i for i in axes if i != axis)) for axis in axes]
    return scaled_to(table, wanted)
