"""Numbers beside their bins: what a release of all pairs tells of them as numbers.

Of a column whose bins were found, rows are counted by *finer codes*: intervals inside its bins, and
its spikes. Each stands for one number, standardised to ``z``. So sums of products of two ``z`` are
covariances, and those of ``z`` with indicators are conditional means: one number each, with the
noise of one cell. Codes, ``z`` and its centre, scale and clip follow from released cuts and
margins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from missdp.inference.heads import Pair
from missdp.inference.model import Levels
from missdp.record import Record
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.grid import is_pending, on_grid, takes_every_number

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

WEIGHT = 0.5
"""Factor of ``z`` in the block of its attribute."""

_MOST_CODES = 40  # finer codes of an attribute; more, if it has more bins
_MOST_CELLS = 40_000_000  # of all pairs of finer codes, and missing; else no number is released
_FEWEST = 3  # codes: of two, a number says nothing more
_CLIP = 8.0  # of z, so that no block is longer than one may be
_SQUARE = 0.15  # factor of its square, at most
_HIGHEST = 2.0  # of the square times its factor
_FAR = (3.0, 16.0)  # where squares are clipped, in standard deviations
_BEYOND = 2.0  # of the furthest number that was found, or of the range where rows were found
_FLOOR = 3e-5  # mass for which an interval is taken at least
_POINTS = 2048  # by which values are spread over a bin


@dataclass(frozen=True, eq=False)
class Coordinate(Record):
    """A number as a function of finer codes, standardised; released values only.

    Parameters
    ----------
    groups : ndarray of int64, shape (codes,)
        Bin of each finer code; "not applicable", if it is a level, is the last one.
    values : ndarray, shape (codes,)
        The number that each stands for.
    shares : ndarray, shape (codes,)
        Share of each in its bin.
    centre, scale : float
        Mean and standard deviation of the number, as far as they were released before.
    """

    groups: Codes
    values: Floats
    shares: Floats
    centre: float
    scale: float

    @property
    def far(self) -> float:
        """Where squares are clipped."""
        found = np.abs(self._standard[self.shares > 0]).max(initial=0.0)
        return float(np.clip(_BEYOND * found, *_FAR))

    @property
    def square(self) -> float:
        """Factor of the square."""
        return min(_SQUARE, _HIGHEST / self.far**2)

    @property
    def z(self) -> Floats:
        """The number of each code, standardised and clipped."""
        return np.clip(self._standard, -_CLIP, _CLIP)

    @property
    def _standard(self) -> Floats:
        return (self.values - self.centre) / self.scale

    def lifted(self, block: Floats) -> Floats:
        """Return the block of each finer code, z included, given the blocks of bins.

        What follows the bins ("missing") has a z of 0.
        """
        size = int(self.groups.max()) + 1
        rows = np.concatenate([block[self.groups], block[size:]])
        z = np.append(WEIGHT * self.z, np.zeros(len(block) - size))
        return np.column_stack([rows, z])

    def lowered(self, block: Floats) -> Floats:
        """Return the blocks of bins: inverse of ``lifted``."""
        first = np.unique(self.groups, return_index=True)[1]
        return block[np.append(first, np.arange(len(self.groups), len(block))), :-1]

    def squares(self, codes: int) -> Floats:
        """Return the further number of each of so many codes: the square, less its mean."""
        found = np.minimum(np.square(self._standard), self.far**2) - 1
        column = np.append(self.square * found, np.zeros(codes - len(found)))
        return column[:, None]

    def margin(self, margin: Floats) -> Floats:
        """Return the margin of finer codes, given that of bins."""
        size = int(self.groups.max()) + 1
        return np.append(margin[self.groups] * self.shares, margin[size:])

    def spread(self, codes: Codes, rng: np.random.Generator) -> Codes:
        """Draw a finer code for each bin; what follows the bins stays behind them."""
        size = int(self.groups.max()) + 1
        starts = np.append(0, np.cumsum(self.shares[np.argsort(self.groups, kind="stable")]))
        order = np.argsort(self.groups, kind="stable")
        begin = np.searchsorted(self.groups[order], np.arange(size))
        inside = np.minimum(codes, size - 1)
        aim = starts[begin[inside]] + rng.random(len(codes)) * (
            starts[np.append(begin, len(order))[inside + 1]] - starts[begin[inside]]
        )
        place = np.searchsorted(starts, aim, side="right") - 1
        last = np.append(begin, len(order))[inside + 1] - 1
        drawn = order[np.clip(place, begin[inside], last)]
        return np.where(codes < size, drawn, codes - size + len(order))


@dataclass(frozen=True, eq=False)
class NumberMoments:
    """What was released of standardised numbers, unshrunk: means over all rows, clipping undone.

    A cell without a value has a ``z`` of 0. Each comes with the standard deviation of its noise.

    Parameters
    ----------
    means, squares : mapping of int to (float, float)
        Of ``z`` and of its square, clipped at ``Coordinate.far``, by attribute.
    by_level : mapping of (int, int) to (ndarray, ndarray)
        Of ``z`` of one attribute where another one has each of its levels, or is missing: shares of
        all rows times conditional means.
    both : mapping of (int, int) to (float, float)
        Of products of the ``z`` of two attributes, the earlier one first.
    """

    means: Mapping[int, tuple[float, float]]
    squares: Mapping[int, tuple[float, float]]
    by_level: Mapping[Pair, tuple[Floats, Floats]]
    both: Mapping[Pair, tuple[float, float]]


def finely(schema: Schema) -> Schema:
    """Return a schema in which the numbers that a fit has cut have finer bins, inside their own.

    The schema itself, if there are none, or too many cells for all pairs of them.
    """
    if not any(is_pending(a) and a.pieces is not None for a in schema):
        return schema
    found = Schema(
        tuple(
            _finer(a, grid)
            if is_pending(a) and isinstance(grid, Numeric) and a.pieces is not None
            else a
            for a, grid in zip(schema, on_grid(schema), strict=True)
        ),
        schema.rules,
    )
    sizes = [a.extended_size for a in found]
    return found if sum(a * b for a, b in combinations(sizes, 2)) <= _MOST_CELLS else schema


def _finer(a: Numeric, grid: Numeric) -> Numeric:
    """Halve, again and again, the interval in which numbers differ most."""
    pieces, shares = np.asarray(a.pieces), np.asarray(a.shares)
    shares = shares / shares.sum() if shares.any() else np.full(len(shares), 1 / len(shares))
    below = np.append(0.0, np.cumsum(shares))
    known = np.flatnonzero(shares > _FLOOR)
    low, high = pieces[known[0]], pieces[known[-1] + 1]
    reach = low - (_BEYOND - 1) * (high - low), high + (_BEYOND - 1) * (high - low)
    steps = np.asarray(grid.edges)
    waiting: list[tuple[float, float, float, float]] = []

    def add(start: float, stop: float) -> None:
        """Note an interval that can be halved."""
        ends = np.clip([start, stop], *reach)
        mass = max(_FLOOR, float(np.diff(np.interp([start, stop], pieces, below))[0]))
        inner = steps[(steps > start) & (steps < stop)]
        if inner.size and ends[1] > ends[0]:
            inside = inner[(inner > ends[0]) & (inner < ends[1])]
            middle = float((inside if inside.size else inner)[max(1, inside.size) // 2])
            heappush(waiting, (-mass * float(ends[1] - ends[0]) ** 2, start, middle, stop))

    edges = a.bin_edges.tolist()
    for ends in pairwise(edges):
        add(*ends)
    while waiting and len(edges) + len(a.spikes) <= _MOST_CODES:
        _, start, middle, stop = heappop(waiting)
        edges.append(middle)
        add(start, middle)
        add(middle, stop)
    return replace(a, edges=tuple(sorted(edges)), pieces=None, shares=None)


def coordinates(
    schema: Schema, names: Sequence[str], levels: Sequence[Levels], margins: Sequence[Floats]
) -> tuple[Coordinate | None, ...]:
    """Return the number of each attribute that has one; of none, if there are no finer codes.

    Parameters
    ----------
    schema : Schema
        With the bins that were found.
    names : sequence of str
        What is modelled.
    levels, margins : sequences of Levels and of ndarray
        Which levels are merged, and released shares of the rows.
    """
    fine = finely(schema)
    if fine is schema:
        return (None,) * len(names)
    return tuple(
        _coordinate(schema[name], fine[name], level, margin)
        for name, level, margin in zip(names, levels, margins, strict=True)
    )


def _coordinate(
    a: AnyAttribute, fine: AnyAttribute, level: Levels, margin: Floats
) -> Coordinate | None:
    if not (isinstance(a, Numeric) and isinstance(fine, Numeric)):
        return None
    if fine is a and not (takes_every_number(a) and a.size >= _FEWEST):
        return None
    places = np.tile((np.arange(_POINTS) + 0.5) / _POINTS, a.size)
    points = a.decode(np.repeat(np.arange(a.size), _POINTS), places)
    codes = fine.encode_values(points)
    number = np.bincount(codes, minlength=fine.size)
    middle = np.mean(fine.reach, axis=0)
    total = np.bincount(codes, points, fine.size)
    values = np.where(number > 0, total / np.maximum(number, 1), middle)
    bins = a.encode_values(fine.reach[0])
    shares = number / _POINTS * level.shares[bins]
    law = margin[level.groups[bins]] * shares
    law = law / law.sum() if law.any() else shares / shares.sum()
    centre = float(law @ values)
    scale = float(np.sqrt(law @ np.square(values - centre))) or a.upper - a.lower
    if a.not_applicable is not None:
        bins, shares = np.append(bins, a.size), np.append(shares, level.shares[a.size])
        values = np.append(values, centre)
    return Coordinate(level.groups[bins], values, shares, centre, scale)
