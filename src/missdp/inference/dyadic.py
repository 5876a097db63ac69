"""The distribution of an ordered column from noisy counts of a dyadic tree over a fine grid.

Every level halves the intervals of the level above. A row is in one node of each level, and an
interval is the sum of few nodes, however fine the grid is. Hay, Rastogi, Miklau and Suciu (2010)
combine the levels of such a tree by least squares. Here a node is divided only if its count exceeds
the noise. Mass that does not exceed the noise is moved inwards from both ends, because a little
mass in a wide interval would distort means and standard deviations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.types import Flags, Floats, Ints

__all__ = [
    "Histogram",
    "decaying_tail",
    "fit_histogram",
    "measured_levels",
    "node_counts",
    "occupied_range",
    "tail_counts",
    "tree_depth",
]

_Number = TypeVar("_Number", bound=np.generic)

_SPLIT = 4.0  # SDs of noise that a count must exceed to be divided
# SDs of noise that the mass at an end must exceed: close to the other mass, and far from it.
_NEAR = 0.5
_FAR = 3.5
_RANGES = 3.0  # distance of a far end, in ranges of the certain mass
SPIKE = 4.5  # SDs of noise that a single interval or cell must exceed to be a spike
_CERTAIN_SD = 2.0  # SDs of noise above which an interval certainly contains rows
_OCCUPIED = 3.0  # SDs of noise above which the first tree finds rows: later trees stay in its range
# Share of the rows that may lie outside the range without exceeding the noise.
_MAX_UNDETECTED = 0.05
_MIN_CELL_SHARE = 1e-3  # rows in a cell, as a share of all rows at an end
_TURNS = 30  # fixed-point iterations of the decay length


@dataclass(frozen=True, eq=False)
class Histogram:
    """Masses of intervals of cells.

    * ``starts`` (shape (k + 1,)): First cell of each interval, and the number of cells.
    * ``mass`` (shape (k,)): Share of each interval, with the sum 1.
    * ``rows``: Estimated number of rows, at least 0.
    * ``certain_range``, optional: First cell of the range whose ends certainly contain rows, and
      the first cell after it. By default all cells.
    * ``likely`` (shape (k,)), optional: Share of each interval less noise, uncertain mass included.
    """

    starts: Ints
    mass: Floats
    rows: float
    certain_range: tuple[int, int] | None = None
    likely: Floats | None = None


def tree_depth(size: int) -> int:
    """Return the number of halvings of a grid with this number of cells.

    >>> from missdp.inference.dyadic import tree_depth
    >>> tree_depth(2), tree_depth(5), tree_depth(8)
    (1, 3, 3)
    """
    return max(1, int(size - 1).bit_length())


def measured_levels(size: int, *, every: int) -> list[int]:
    """Return the levels that are counted, coarsest first: the finest, and every k-th above it.

    >>> from missdp.inference.dyadic import measured_levels
    >>> measured_levels(100, every=1), measured_levels(100, every=3)
    ([1, 2, 3, 4, 5, 6, 7], [1, 4, 7])
    """
    return list(range(tree_depth(size), 0, -every))[::-1]


def node_counts(cells: NDArray[_Number], levels: Sequence[int]) -> list[NDArray[_Number]]:
    """Return the counts of the nodes of these levels of a tree. Level 1 has the two halves.

    >>> import numpy as np
    >>> from missdp.inference.dyadic import node_counts
    >>> [level.tolist() for level in node_counts(np.array([5, 1, 2]), [1, 2])]
    [[6, 2], [5, 1, 2, 0]]
    """
    fine = np.zeros(1 << tree_depth(len(cells)), dtype=cells.dtype)
    fine[: len(cells)] = cells
    return [fine.reshape(1 << level, -1).sum(axis=1) for level in levels]


def occupied_range(counts: Ints, *, std: float, size: int) -> tuple[int, int]:
    """Return the first cell of the range that contains rows, and the first cell after it.

    Parameters
    ----------
    counts : ndarray of int64, shape (2**level,)
        Noisy counts of one level of a tree. Released.
    std : float
        Standard deviation of each count, in rows.
    size : int
        Number of cells of the grid.

    Returns
    -------
    (int, int)
        A range of at least two cells.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.dyadic import occupied_range
    >>> occupied_range(np.array([3, -2, 900, 400, 1, 0, 2, -4]), std=2.0, size=60)
    (16, 32)
    """
    width = (1 << tree_depth(size)) // len(counts)
    counts = counts[: -(-size // width)]
    spread = _OCCUPIED * std * np.sqrt(np.arange(1, len(counts) + 1))
    undetected = np.flatnonzero(spread > _MAX_UNDETECTED * counts.sum())
    ends = [
        min(_first_clear(side, std), int(undetected[0]) if undetected.size else len(counts) - 1)
        for side in (counts, counts[::-1])
    ]
    start = min(ends[0] * width, size - 2)
    return start, max(start + 2, min((len(counts) - ends[1]) * width, size))


def _first_clear(counts: Ints, std: float) -> int:
    """Return the end of the first cells that together exceed noise, 0 if there are none."""
    below, places = np.append(0, np.cumsum(counts)), np.arange(len(counts))
    lengths = np.subtract.outer(places + 1, places)  # from each first cell to each last
    sums = np.subtract.outer(below[1:], below[:-1])
    score = np.where(lengths > 0, sums / (std * np.sqrt(np.maximum(lengths, 1))), -np.inf)
    clear = np.flatnonzero(score.max(axis=1) > _OCCUPIED)
    return int(score[clear[0]].argmax()) if clear.size else 0


def decaying_tail(rows: float, cells: int, *, even: float) -> tuple[Ints, Floats]:
    """Return intervals at an end and their rows, if only the sum of the rows is reliable.

    Parameters
    ----------
    rows : float
        Number of rows at the end.
    cells : int
        Number of cells over which they fall off exponentially.
    even : float
        Rows in a cell before the end, with which the tail starts.

    Returns
    -------
    stops : ndarray of int64
        Number of cells up to the end of each interval.
    rows : ndarray of float64
        Rows of each interval.

    Examples
    --------
    >>> from missdp.inference.dyadic import decaying_tail
    >>> stops, rows = decaying_tail(280.0, 9, even=140.0)
    >>> stops.tolist(), rows.round(1).tolist()
    ([1, 3, 6, 9], [110.5, 108.5, 49.7, 11.3])
    """
    even = max(even, _MIN_CELL_SHARE * rows)
    if rows >= even * cells:
        return np.array([cells]), np.array([rows])
    length = rows / even
    for _ in range(_TURNS):
        length = rows / (even * -math.expm1(-cells / length))
    half = min(length * math.log(2), max(1.0, cells / 4))
    stops = np.unique([*(max(1, round(half * k)) for k in (1, 2, 4) if half * k < cells), cells])
    survival = np.exp(-np.append(0, stops) / length)
    return stops, rows * -np.diff(survival) / (survival[0] - survival[-1])


def fit_histogram(
    counts: Sequence[NDArray[np.generic]],
    *,
    std: float,
    size: int,
    levels: Sequence[int],
    reach: tuple[Floats, Floats] | None = None,
    min_spike: float = SPIKE,
) -> Histogram:
    """Estimate the distribution of a column over a grid from noisy counts of a dyadic tree.

    Parameters
    ----------
    counts : sequence of ndarray
        Noisy counts of the nodes of the measured levels, coarsest first. Released.
    std : float
        Standard deviation of each count, in rows.
    size : int
        Number of cells of the grid.
    levels : sequence of int
        The measured levels: see `measured_levels`.
    reach : (ndarray, ndarray), optional
        Smallest and largest number of each cell. By default cells have the width 1.
    min_spike : float
        Standard deviations that a cell must exceed to be an interval of its own.

    Returns
    -------
    Histogram
        Post-processing of the counts.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.dyadic import fit_histogram
    >>> counts = [np.array([60, 20]), np.array([50, 10, 20, 0])]
    >>> histogram = fit_histogram(counts, std=0.1, size=3, levels=[1, 2])
    >>> histogram.starts.tolist(), histogram.mass.round(3).tolist()
    ([0, 1, 2, 3], [0.625, 0.125, 0.25])
    """
    estimates = _aggregate_up(counts, std, size, levels)
    starts, mass = _leaves(_distribute_down(*estimates), _existing_nodes(*estimates))
    inside = starts < size
    starts, mass = np.append(starts[inside], size), mass[inside]
    ends = reach or (np.arange(0.0, size), np.arange(1.0, size + 1))
    reached = ends[0][starts[:-1]], ends[1][starts[1:] - 1]
    unreliable, uncertain = _unreliable_ends(starts, mass, *estimates, *reached)
    likely, rows = np.maximum(mass - std, 0.0), float(mass.sum())
    _move_inwards(mass, unreliable)
    certain_range = (int(starts[uncertain[0]]), int(starts[len(mass) - uncertain[1]]))
    if rows <= 0:
        return Histogram(starts, np.diff(starts) / size, rows, certain_range)
    cells, min_excess = np.asarray(counts[-1], float), min_spike * std
    starts, mass, likely = _with_spikes(starts, mass, likely, cells, min_excess)
    return Histogram(starts, mass / rows, rows, certain_range, likely / rows)


def tail_counts(
    counts: Sequence[NDArray[np.generic]],
    *,
    std: float,
    size: int,
    levels: Sequence[int],
    retained: tuple[int, int],
) -> Floats:
    """Return noisy counts of few intervals that cover all cells outside a range.

    Parameters
    ----------
    counts, std, size, levels
        As for `fit_histogram`.
    retained : (int, int)
        First cell of the range, and the first cell after it.

    Returns
    -------
    ndarray of shape (n_intervals, 4)
        First cell, first cell after the interval, noisy count in rows, and its standard deviation.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.inference.dyadic import tail_counts
    >>> counts = [np.array([60, 20]), np.array([50, 10, 20, 0])]
    >>> tail_counts(counts, std=0.5, size=3, levels=[1, 2], retained=(0, 2)).round(2).tolist()
    [[2.0, 3.0, 20.0, 0.35]]
    """
    values, variances = _least_squares(counts, std, size, levels)
    cells, segments = len(values[-1]), []
    for length, mirrored in ((retained[0], False), (cells - retained[1], True)):
        for level, (value, variance) in enumerate(zip(values, variances, strict=True), start=1):
            bit = len(values) - level
            if length >> bit & 1:
                node = (length >> bit) - 1
                at = len(value) - 1 - node if mirrored else node
                std = math.sqrt(variance[at])
                segments.append((at << bit, min((at + 1) << bit, size), value[at], std))
    inside = [row for row in segments if row[0] < row[1]]
    return np.array(sorted(inside), dtype=np.float64).reshape(-1, 4)


def _least_squares(
    measured: Sequence[NDArray[np.generic]], std: float, size: int, levels: Sequence[int]
) -> tuple[list[Floats], list[Floats]]:
    """Return least-squares counts over the complete tree, by level, and their variances."""
    values, variances = _aggregate_up(measured, std, size, levels)
    for level in range(1, len(values)):
        below, spread = values[level].reshape(-1, 2), variances[level].reshape(-1, 2)
        part = _variance_shares(spread)
        residual = values[level - 1] - below.sum(axis=1)
        values[level] = (below + part * residual[:, None]).reshape(-1)
        variance = spread * (1 - part) + part**2 * variances[level - 1][:, None]
        variances[level] = variance.reshape(-1)
    return values, variances


def _aggregate_up(
    measured: Sequence[NDArray[np.generic]], std: float, size: int, levels: Sequence[int]
) -> tuple[list[Floats], list[Floats]]:
    """Return counts of all nodes from them and the levels below, and variances, by level."""
    # Disjoint nodes are independent. Nodes after the last cell are empty.
    depth, counts = tree_depth(size), dict(zip(levels, map(np.float64, measured), strict=True))
    value, variance = np.zeros(1 << depth + 1), np.full(1 << depth + 1, np.inf)
    values: list[Floats] = []
    variances: list[Floats] = []
    for level in range(depth, 0, -1):
        value, variance = _pair_sums(value), _pair_sums(variance)
        if level in counts:
            there = np.arange(1 << level) << (depth - level) < size
            gain = np.divide(variance, variance + std**2, out=there + 0.0, where=variance < np.inf)
            value = np.where(there, value + gain * (counts[level] - value), 0.0)
            variance = gain * std**2
        values.insert(0, value)
        variances.insert(0, variance)
    return values, variances


def _pair_sums(nodes: Floats) -> Floats:
    """Return the sums of the two halves of each node."""
    return np.asarray(nodes.reshape(-1, 2).sum(axis=1))


def _variance_shares(spread: Floats) -> Floats:
    """Return the share of each of two halves in their variance."""
    total = spread.sum(axis=1, keepdims=True)
    return np.asarray(spread / np.where(total > 0, total, 1.0))


def _existing_nodes(counts: list[Floats], variances: list[Floats]) -> list[Flags]:
    """Return the nodes of the divided tree, by level: the halves of clear nodes."""
    exists = [np.ones(2, dtype=bool)]
    for count, variance in zip(counts[:-1], variances[:-1], strict=True):
        exists.append(np.repeat(exists[-1] & (count > _SPLIT * np.sqrt(variance)), 2))
    return exists


def _distribute_down(raised: list[Floats], variance: list[Floats]) -> list[Floats]:
    """Make the halves of every node add up to it, and none negative."""
    final = [np.maximum(raised[0], 0.0)]
    for counts, spread in zip(raised[1:], variance[1:], strict=True):
        pairs, parts = counts.reshape(-1, 2), spread.reshape(-1, 2)
        residual = final[-1] - pairs.sum(axis=1)
        pairs = pairs + residual[:, None] * _variance_shares(parts)
        pairs = np.maximum(pairs, 0.0)
        total = pairs.sum(axis=1)
        final.append((pairs * (final[-1] / np.where(total > 0, total, 1.0))[:, None]).reshape(-1))
    return final


def _leaves(final: list[Floats], exists: list[Flags]) -> tuple[Ints, Floats]:
    """Return the first cell and the count of every undivided node, in order."""
    starts, counts = [], []
    for level, (here, count) in enumerate(zip(exists, final, strict=True)):
        inner = exists[level + 1][::2] if level + 1 < len(exists) else np.zeros(len(here), bool)
        leaf = np.flatnonzero(here & ~inner)
        starts.append(leaf << (len(exists) - level - 1))
        counts.append(count[leaf])
    first = np.concatenate(starts)
    order = np.argsort(first)
    return first[order], np.concatenate(counts)[order]


def _move_inwards(mass: Floats, unreliable: Sequence[int]) -> None:
    """Move the mass of these numbers of intervals at both ends to the next interval inwards."""
    for one, outer in zip((mass, mass[::-1]), unreliable, strict=True):
        one[outer] += one[:outer].sum()
        one[:outer] = 0.0


def _with_spikes(
    starts: Ints, mass: Floats, likely: Floats, cells: Floats, min_excess: float
) -> tuple[Ints, Floats, Floats]:
    """Divide intervals around a cell that exceeds its neighbours in the interval and noise."""
    width, largest = np.diff(starts), np.maximum.reduceat(cells[: starts[-1]], starts[:-1])
    others = np.maximum(mass - largest, 0.0) / np.maximum(width - 1, 1)
    of = np.flatnonzero((width > 1) & (mass > 0) & (largest - others > min_excess))
    at = np.array([starts[k] + cells[slice(*starts[k : k + 2])].argmax() for k in of], np.int64)
    more = (np.minimum(mass, largest) - others)[of]
    mass[of] -= more
    refined = np.unique(np.concatenate([starts, at, at + 1]))
    below = (np.append(0.0, np.cumsum(one)) for one in (mass, likely))
    mass, likely = (np.diff(np.interp(refined, starts, one)) for one in below)
    mass[np.searchsorted(refined, at)] += more
    return refined, mass, likely


def _unreliable_ends(
    starts: Ints,
    mass: Floats,
    counts: list[Floats],
    variances: list[Floats],
    lower: Floats,
    upper: Floats,
) -> tuple[list[int], list[int]]:
    """Return the numbers of intervals at both ends without reliable mass, and without certain mass.

    The mass outside a cell is a sum of counts before they are made nonnegative. Otherwise noise
    alone would add up. A little mass far out must exceed the noise by more, because it distorts
    means.
    """
    nodes = [*zip(counts, variances, strict=True)]
    back = [(count[::-1], variance[::-1]) for count, variance in nodes]
    is_spike = mass > SPIKE * math.sqrt(float(variances[-1].max()))
    scores = (
        np.where(is_spike, np.inf, _scores(starts[1:], nodes)),
        np.where(is_spike[::-1], np.inf, _scores(len(counts[-1]) - starts[:-1][::-1], back)),
    )
    far = [_first_reliable(side > _FAR) for side in scores]
    certain = [_first_reliable(side > _CERTAIN_SD) for side in scores]
    first, last = far[0], len(lower) - 1 - far[1]
    near = far
    if first <= last:
        low, high = lower[first], upper[last]
        ranges = np.maximum(low - (lower + upper) / 2, (lower + upper) / 2 - high)
        ranges = np.maximum(ranges, 0.0) / max(_RANGES * (high - low), _MIN_CELL_SHARE)
        times = _NEAR + (_FAR - _NEAR) * np.minimum(ranges, 1.0)
        near = [_first_reliable(scores[0] > times), _first_reliable(scores[1] > times[::-1])]
    uncertain = [max(n, s) for n, s in zip(near, certain, strict=True)]
    return near, uncertain if sum(uncertain) < len(lower) else [0, len(lower) - 1]


def _first_reliable(believed: Flags) -> int:
    """Return the first reliable interval. The last interval always counts as reliable."""
    return int(np.append(believed[:-1], True).argmax())


def _scores(lengths: Ints, nodes: Sequence[tuple[Floats, Floats]]) -> Floats:
    """Return the mass of the first cells, in standard deviations of its noise."""
    total, noise = np.zeros(len(lengths)), np.zeros(len(lengths))
    for level, (counts, variances) in enumerate(nodes, start=1):
        place = lengths >> (len(nodes) - level)
        total += np.where(place & 1, counts[np.maximum(place - 1, 0)], 0.0)
        noise += np.where(place & 1, variances[np.maximum(place - 1, 0)], 0.0)
    return np.asarray(total / np.sqrt(np.where(noise > 0, noise, 1.0)))
