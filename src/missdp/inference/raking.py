"""Weights of synthetic rows with which tables hold, and draws of rows by their weights.

Raking is iterative proportional fitting over rows (Deming and Stephan 1940, Deville, Särndal and
Sautory 1993). For one table after another, the weights of the rows of each cell are multiplied by
one factor, so that they sum to the target. Given the cells, weighted rows keep the distribution
that they were drawn from.

Rows and tables are released values here, so raking has no privacy cost.

Drawing rows by their weights rounds counts at random. The rounding errors are corrected as in
combinatorial optimisation of microdata (Williamson, Birkin and Rees 1998). Rows are replaced by
others of the same pool if the tables then fit better (``_swap``).

A noisy table is shrunk towards the table of a model by empirical Bayes (`shrunk`). Its residual is
the difference from the model, less the contribution of smaller tables. The size of the residuals
determines the shrinkage. If noise explains it, the table is treated as noise (James and Stein 1961;
Efron and Morris 1973).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import inf, prod

import numpy as np

from missdp.inference.model import Draws, cell_index
from missdp.inference.shrinkage import Mixture, NoisyTable
from missdp.types import Clique, Floats, Ints

_BATCH, _MIN_BATCH = 250, 50  # rows that are compared at once, usually and at least
_SWAPS = 1000  # rounds of swaps
_LOOKUPS = 60_000_000  # largest number of cells that are looked up: many pairs get smaller batches
_MAX_IDLE = 50  # rounds without a swap after which swapping ends
_MIN_ROUNDS = 20  # rounds: fewer rounds are not worth the initial count
_MAX_COUNTED = 300_000_000  # largest number of cells that are counted at the start
_FIRST = 0.001  # share of the rows that are replaced at once at the start
_DENSE = 30  # cells for each touched cell, up to which all cells are counted
_GROW, _SHRINK = 1.1, 0.5  # factors of the number of swaps after a success and a failure


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

    A swap must reduce a sum over all cells: the squared difference between count and target,
    divided by the square root of the target. This measure is a compromise between a focus on large
    cells and on rare cells. Few rows are replaced, so other properties of the drawn rows stay.
    """
    batch, rounds = _swap_plan(len(chosen), len(tables), rounds)
    if not rounds:
        return chosen
    cells, current = _cell_finder(tables), chosen.copy()
    misfit, scale = _misfits(codes[chosen], tables)
    proposed = rng.choice(len(codes), size=(rounds, batch), p=weights)
    max_swaps, idle = max(1.0, _FIRST * len(chosen)), 0
    for others in proposed:
        places = np.unique(rng.integers(0, len(chosen), batch))
        old, new = cells(codes[current[places]]), cells(codes[others])
        pull = misfit * scale
        leave, enter = pull[old].sum(axis=1), pull[new].sum(axis=1)
        k = min(int(max_swaps), len(places))
        worst, best = np.argsort(leave)[:k], np.argsort(-enter)[:k]
        old, new = old[worst], new[best]
        # For a single swap, this is exactly half of the reduction of the sum of squares.
        cost = ((scale[old] + scale[new]) * (old != new)).sum(axis=1) / 2
        good = enter[best] - leave[worst] > cost
        idle = 0 if good.any() else idle + 1
        if idle == _MAX_IDLE:
            break
        touched, change = _swap_change(old[good], new[good], misfit.size)
        before = misfit[touched]
        if (scale[touched] * change * (2 * before + change)).sum() < 0:
            misfit[touched] = before + change
            current[places[worst[good]]] = others[best[good]]
            max_swaps *= _GROW
        else:  # each swap is good by itself, but not all together
            max_swaps = max(1.0, max_swaps * _SHRINK)
    return current


def _swap_plan(n: int, tables: int, rounds: int = _SWAPS) -> tuple[int, int]:
    """Return the batch size and the number of rounds, by public facts alone."""
    if not n or not tables or n * tables > _MAX_COUNTED:
        return 0, 0
    max_looked_up = _LOOKUPS // (2 * tables)
    batch = min(n, _BATCH, max(_MIN_BATCH, max_looked_up // _SWAPS))
    rounds = min(rounds, max_looked_up // batch)
    return batch, rounds if rounds >= _MIN_ROUNDS else 0


def _cell_finder(tables: Mapping[Clique, Floats]) -> Callable[[Ints], Ints]:
    """Return a function from rows to their cells in all tables, one column per table."""
    max_order = max(map(len, tables))  # smaller tables have dummy positions
    places = np.array([(*c, *[0] * (max_order - len(c))) for c in tables]).T
    strides = np.zeros_like(places)
    for at, table in enumerate(tables.values()):
        strides[: table.ndim, at] = np.cumprod((1, *table.shape[:0:-1]))[::-1]
    starts = np.cumsum([0, *(table.size for table in tables.values())])[:-1]

    def cells(rows: Ints) -> Ints:
        indices: Ints = rows[:, places[0]] * strides[0] + starts
        for place, stride in zip(places[1:], strides[1:], strict=True):
            indices += rows[:, place] * stride
        return indices

    return cells


def _misfits(rows: Ints, tables: Mapping[Clique, Floats]) -> tuple[Floats, Floats]:
    """Return targets less counts of all cells, and the inverse scale of a square."""
    columns, n = np.ascontiguousarray(rows.T), len(rows)
    targets, counts = [], []
    for pair, table in tables.items():
        cells = cell_index(columns, pair, table.shape, n)
        counts.append(np.bincount(cells, minlength=table.size))
        targets.append(table.ravel() * (n / table.sum()))
    target = np.concatenate(targets)
    return target - np.concatenate(counts), 1 / np.sqrt(np.maximum(target, 1.0))


def _swap_change(old: Ints, new: Ints, size: int) -> tuple[Ints, Floats]:
    """Return the cells that swaps touch, and the change of the misfit of each."""
    if size < _DENSE * old.size:
        change = np.bincount(old.ravel(), minlength=size) - np.bincount(new.ravel(), minlength=size)
        touched = np.flatnonzero(change)
        return touched, change[touched].astype(np.float64)
    both = np.concatenate([old.ravel(), new.ravel()])
    touched, where = np.unique(both, return_inverse=True)
    signs = np.repeat([1.0, -1.0], old.size)
    return touched, np.asarray(np.bincount(where, weights=signs), dtype=np.float64)


_HALVINGS = 12  # steps of the line search
_MAX_FACTOR = 5.0  # largest factor of a weight for one table


def effective_share(weights: Floats) -> float:
    """Return the effective sample size of weighted rows, as a share of their number.

    An estimate from weighted rows varies as one from that number of equal rows (Kish 1965).
    """
    squares = float(np.square(weights).sum())
    return float(weights.sum()) ** 2 / (len(weights) * squares) if squares > 0 else 0.0


def rake(
    codes: Ints,
    tables: Mapping[Clique, Floats],
    *,
    weights: Floats | None = None,
    sweeps: int = 15,
    tolerance: float = 1e-4,
    min_share: float = 0.5,
) -> Floats:
    """Return weights of rows with which tables hold.

    Parameters
    ----------
    codes : ndarray of int64, shape (n, d)
        The rows.
    tables : mapping of clique to ndarray
        Targets: shares of the rows.
    weights : ndarray of shape (n,), optional
        Initial weights. By default equal.
    sweeps : int
        Largest number of sweeps over all tables.
    tolerance : float
        Mean total variation at which raking stops.
    min_share : float
        Smallest effective share of the rows.

    Returns
    -------
    ndarray of shape (n,)
        Weights with the sum 1.
    """
    columns = np.asfortranarray(codes).T
    current = _allowed_weights(columns, tables, weights)
    order = list(tables)
    floor = min(min_share, effective_share(current))
    for sweep in range(sweeps):
        swept, distance = _sweep(columns, tables, order[:: -1 if sweep % 2 else 1], current)
        if effective_share(swept) < floor:
            return _partial_step(current, swept, floor)
        current = swept
        if distance <= tolerance:
            break
    return current


def _allowed_weights(rows: Ints, tables: Mapping[Clique, Floats], weights: Floats | None) -> Floats:
    """Return initial weights that are 0 in forbidden cells, unless no row would remain."""
    start = np.ones(rows.shape[1]) if weights is None else np.array(weights, dtype=np.float64)
    for clique, table in tables.items():
        if not np.all(table):
            cells = cell_index(rows, clique, table.shape, rows.shape[1])
            allowed = start * (table.ravel() > 0)[cells]
            start = allowed if allowed.any() else start
    return np.asarray(start / start.sum())


def _sweep(
    columns: Ints, tables: Mapping[Clique, Floats], order: list[Clique], weights: Floats
) -> tuple[Floats, float]:
    """Make one table after another hold, and return the mean total variation before."""
    swept, distance = weights.copy(), 0.0
    for clique in order:
        table = tables[clique].ravel()
        cells = cell_index(columns, clique, tables[clique].shape, len(weights))
        counts = np.bincount(cells, weights=swept, minlength=table.size)
        filled = (counts > 0) & (table > 0)
        if not filled.any():
            continue
        shares: Floats = counts / counts.sum()
        aim = np.where(filled, table, 0.0)
        aim /= aim.sum()
        distance += 0.5 * float(np.abs(aim - shares).sum())
        factor = np.divide(aim, shares, out=np.ones(table.size), where=filled)
        swept *= np.clip(factor, 1 / _MAX_FACTOR, _MAX_FACTOR)[cells]
    return swept / swept.sum(), distance / max(1, len(order))


def _partial_step(before: Floats, after: Floats, floor: float) -> Floats:
    """Move along the geometric path between two sets of weights, as far as allowed."""
    share, best = 0.0, before
    for halving in range(1, _HALVINGS):
        next_share = share + 0.5**halving
        tried = before ** (1 - share - 0.5**halving) * after**next_share
        if effective_share(tried) >= floor:
            share, best = next_share, tried / tried.sum()
    return best


def resample(
    weights: Floats, n: int, rng: np.random.Generator, *, codes: Ints | None = None
) -> Ints:
    """Draw ``n`` of the weighted rows systematically (Madow 1949), in random order.

    Parameters
    ----------
    weights : ndarray of shape (rows,)
        Weights of the rows.
    n : int
        Number of draws.
    rng : numpy.random.Generator
        Draws the rows.
    codes : ndarray of int64, optional
        The rows. Given them, similar rows are neighbours in the systematic draw.

    Returns
    -------
    ndarray of int64, shape (n,)
        Positions of the rows.
    """
    order = rng.permutation(len(weights)) if codes is None else _similar_rows(codes, rng)
    ends = np.cumsum(weights[order])
    places = (np.arange(n) + rng.random()) * (ends[-1] / max(1, n))
    indices = np.searchsorted(ends, places, side="right")
    # Rounding may move a place past the end, and must not choose a row without weight.
    last = int(np.flatnonzero(weights[order] > 0)[-1])
    return rng.permutation(order[np.minimum(indices, last)])


def _similar_rows(codes: Ints, rng: np.random.Generator) -> Ints:
    shuffled = rng.permutation(len(codes))
    keys = codes[shuffled].T[::-1]
    small = keys.astype(np.uint16) if keys.size and keys.max() < 2**16 else keys
    return shuffled[np.lexsort(tuple(small))]


_POOL = 100_000  # largest number of rows that are weighted together
_FEWEST_WEIGHTED = 20_000  # smallest number of rows that are weighted together
_ROWS_PER_ROW = 4  # weighted rows for each chosen row, if the pool is large enough
_SWEEPS = 4  # sweeps of raking
_MIN_EFFECTIVE = 0.5  # effective share of the weighted rows


def raked_rows(
    sample: Callable[[int, np.random.Generator], Ints],
    tables: Mapping[Clique, Floats],
    n: int,
    rng: np.random.Generator,
    *,
    draws: Draws = "even",
    rounds: int = _SWAPS,
) -> Ints:
    """Draw ``n`` rows of a distribution, weighted and chosen such that tables hold.

    Even draws round the weights systematically, and ``_swap`` corrects the rounding errors.

    Parameters
    ----------
    sample : callable
        Draws a number of rows of the distribution, one column per attribute.
    tables : mapping of clique to ndarray
        Shares of the rows in the cells of some attributes.
    n : int
        Number of rows.
    rng : numpy.random.Generator
        Draws rows, and chooses among them.
    draws : {"even", "independent"}, optional
        Even counts vary less than counts of independent rows.
    rounds : int, default 1000
        Largest number of rounds of swaps over all rows.

    Returns
    -------
    ndarray of shape (n, attributes)
        The rows, in random order.
    """
    if n == 0:
        return sample(1, rng)[:0]
    starts, parts = range(0, n, _POOL), list[Ints]()
    for start in starts:
        part = min(_POOL, n - start)
        rows = sample(min(_POOL, max(_FEWEST_WEIGHTED, _ROWS_PER_ROW * part)), rng)
        weights = rake(rows, tables, sweeps=_SWEEPS, min_share=_MIN_EFFECTIVE)
        few = rounds // len(starts)  # rounding matters less in many pools
        if draws == "independent":
            chosen = rng.choice(len(rows), size=part, p=weights)
        elif _swap_plan(part, len(tables), few)[1]:
            chosen = resample(weights, part, rng)
            chosen = _swap(chosen, rows, tables, weights=weights, rng=rng, rounds=few)
        else:  # too many rows to swap: similar rows are neighbours and are repeated less often
            chosen = resample(weights, part, rng, codes=rows)
        parts.append(rows[chosen])
    return np.concatenate(parts)


_MIN_SHARE = 1e-3  # share of the model's cell that a shrunk cell keeps at least
_SCALINGS = 20  # sweeps of scaling to marginals
_SCALED = 1e-12  # largest relative distance from a marginal: rounding errors


def centred(table: Floats) -> Floats:
    """Return a table less its mean along each axis, which has marginals of 0."""
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def centred_share(shape: Sequence[int]) -> float:
    """Return the share of the variance of independent noise that remains in a centred table."""
    return prod(1 - 1 / size for size in shape)


def _marginal(table: Floats, axis: int) -> Floats:
    """Return the one-way marginal of an axis of a table."""
    return np.asarray(table.sum(axis=tuple(i for i in range(table.ndim) if i != axis)))


def scaled_to(table: Floats, marginals: Sequence[Floats], *, sweeps: int = _SCALINGS) -> Floats:
    """Return a table scaled to one-way marginals, by iterative proportional fitting.

    Parameters
    ----------
    table : ndarray
        A table without negative cells.
    marginals : sequence of ndarray
        The marginal of each axis.
    sweeps : int
        Largest number of sweeps.

    Returns
    -------
    ndarray
        The scaled table.
    """
    for _ in range(sweeps):
        furthest = 0.0
        for axis, marginal in enumerate(marginals):
            current = _marginal(table, axis)
            factor = np.divide(marginal, current, out=np.ones_like(current), where=current > 0)
            table = table * factor.reshape([-1, *[1] * (table.ndim - axis - 1)])
            furthest = max(furthest, float(np.abs(factor - 1).max(initial=0.0)))
        if furthest < _SCALED:
            break
    return table


def scaled_to_smaller(
    tables: Mapping[Clique, Floats], smaller: Mapping[Clique, Floats]
) -> dict[Clique, Floats]:
    """Return larger tables scaled to tables of their subsets, by iterative proportional fitting.

    Rows cannot be weighted such that tables hold if the tables contradict each other.

    Parameters
    ----------
    tables : mapping of clique to ndarray
        Shares of the rows in the cells of three or more attributes.
    smaller : mapping of clique to ndarray
        Shares of the rows in the cells of pairs. Pairs without a table are not changed.

    Returns
    -------
    dict of clique to ndarray
        The scaled tables. Larger tables are scaled to the scaled tables of their subsets.
    """
    scaled = dict(smaller)
    for clique in sorted(tables, key=len):
        subsets = [
            axes
            for k in range(2, len(clique))
            for axes in combinations(range(len(clique)), k)
            if tuple(clique[i] for i in axes) in scaled
        ]
        table = tables[clique]
        for _ in range(_SCALINGS):
            for axes in subsets:
                others = tuple(i for i in range(len(clique)) if i not in axes)
                current = table.sum(axis=others, keepdims=True)
                aim = np.expand_dims(scaled[tuple(clique[i] for i in axes)], others)
                factor = np.divide(aim, current, out=np.ones_like(current), where=current > 0)
                table = table * factor
        scaled[clique] = table / table.sum()
    return {clique: scaled[clique] for clique in tables}


def shrunk(
    noisy: Mapping[Clique, Floats],
    base: Mapping[Clique, Floats],
    std: Mapping[Clique, float | Floats],
    *,
    marginals: Mapping[int, Floats] | None = None,
    rows: float = inf,
) -> dict[Clique, Floats]:
    """Return noisy tables shrunk towards those of a model, with one mixture for all.

    Parameters
    ----------
    noisy : mapping of clique to ndarray
        Released shares of the rows, with noise.
    base : mapping of clique to ndarray
        Shares of the rows by the model.
    std : mapping of clique to float or ndarray
        Standard deviation of the noise of each share.
    marginals : mapping of attribute to ndarray, optional
        One-way marginals that the tables are scaled to, by default those of ``base``.
    rows : float, optional
        Number of rows of the model in which ``base`` was counted.

    Returns
    -------
    dict of clique to ndarray
        Shares of the rows, none of them negative.

    Notes
    -----
    The error of the model in a cell of share ``p`` has a variance proportional to ``p (1 − p)``.
    See `missdp.inference.shrinkage`.
    """
    residuals = {c: centred(table - base[c]) for c, table in noisy.items()}
    tables = {c: _noisy_residual(residuals[c], base[c], std[c], rows) for c in noisy}
    # Tables with less noise than the model's sampling error are no evidence of the model's error.
    precise = {c for c, table in tables.items() if table.noise.mean() < table.sampling.mean()}
    mixture, shrunken = Mixture.of({c: t for c, t in tables.items() if c not in precise}), {}
    for clique, residual in residuals.items():
        model = base[clique]
        retained = 1.0 if clique in precise else mixture.shrink(tables[clique]).retained
        table = np.maximum(model + retained * residual, _MIN_SHARE * model)
        axes = range(model.ndim)
        ends = [_marginal(model, i) if marginals is None else marginals[clique[i]] for i in axes]
        shrunken[clique] = scaled_to(table, ends)
    return shrunken


def _noisy_residual(residual: Floats, base: Floats, std: float | Floats, rows: float) -> NoisyTable:
    """Return the residual of a noisy table from a model, with its prior variances."""
    degrees = centred_share(base.shape)
    noise = np.square(np.broadcast_to(std, base.shape)) * degrees
    spread = np.maximum(base * (1 - base), 0.0)
    return NoisyTable(residual, noise, spread[None], spread * degrees / rows, degrees)
