"""Numbers beside their bins: what a release of all pairs tells of them as numbers.

Of a column whose bins were found, rows are counted by *finer codes*: intervals inside its bins, and
its spikes. Each stands for one number, standardised to ``z``. So sums of products of two ``z`` are
covariances, and those of ``z`` with indicators are conditional means: one number each, with the
noise of one cell. Codes, ``z`` and its centre, scale and clip follow from released cuts and
margins.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations, pairwise

import numpy as np
from pydantic.dataclasses import dataclass

from missdp.inference.model import Levels, related
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.serialization import Record
from missdp.synth.search_grid import is_pending, takes_every_number, with_search_grid
from missdp.types import Floats, Ints

WEIGHT = 0.6
"""Factor of ``z`` in the block of its attribute."""

_MOST_CODES = 40  # finer codes of an attribute; more, if it has more bins
_MOST_CELLS = 40_000_000  # of all pairs of finer codes, and missing; else no number is released
_FEWEST = 3  # codes: of two, a number says nothing more
_CLIP = 4.0  # of z
_QUANTILE = 0.02  # of numbers at either end, that are taken for the next one
_LINE, _SQUARE = 0.2, 0.1  # factors of the number as it is, and of its square, at most
_HIGHEST = 2.0, 3.0  # of these times their factors
_FAR = (3.0, 16.0)  # where squares are clipped, in standard deviations
_BEYOND = 4.0  # times the furthest number that was found
_TAIL, _TAIL_CODES = 10.0, 7  # how many times as far out finer codes go, and how many of them
_DECAY = 1.7  # of what is beyond, as a power of how far out it is
_HIDDEN = 0.2  # share of the last bin that may be beyond without having been found
_INNER, _MOST_INNER = 0.5, 0.9  # how much is moved inwards in the last bin, as a part of its range
_SEEN = 0.1  # change of moments, beside that of a whole bin, from which on they tell of a code
_MOVED = np.repeat([_HIDDEN, _INNER, _HIDDEN], 2)
_FLOOR = 3e-5  # mass for which an interval is taken at least
_POINTS = 2048  # by which values are spread over a bin


@dataclass(frozen=True, eq=False)
class Coordinate(Record):
    """A number as a function of finer codes, standardised; released values only.

    * ``groups`` (shape (codes,)): Bin of each finer code; "not applicable", if it is a level, is
      the last one.
    * ``values`` (shape (codes,)): The number that each stands for.
    * ``shares`` (shape (codes,)): Share of each in its bin.
    * ``low``, ``high``, ``centre``, ``scale``: ``z`` is the number, clipped at ``low`` and
      ``high``, less ``centre``, over ``scale``: quantiles, mean and standard deviation as far as
      they were released before.
    * ``deviation``, ``far``: Standard deviation of the number as it is, and at how many of them it
      is clipped where it stands alone, with its square.
    """

    groups: Ints
    values: Floats
    shares: Floats
    low: float
    high: float
    centre: float
    scale: float
    deviation: float
    far: float

    @property
    def factors(self) -> tuple[float, float]:
        """Factors of the number where it stands alone, and of its square."""
        return min(_LINE, _HIGHEST[0] / self.far), min(_SQUARE, _HIGHEST[1] / self.far**2)

    @property
    def n_bins(self) -> int:
        """The number of bins."""
        return int(self.groups.max()) + 1

    @property
    def z(self) -> Floats:
        """The number of each code, standardised and clipped."""
        return self._standardised(self.values)

    def _standardised(self, values: Floats) -> Floats:
        inner = np.clip(values, self.low, self.high)
        return np.clip((inner - self.centre) / self.scale, -_CLIP, _CLIP)

    @property
    def powers(self) -> Floats:
        """The number of each code as it is, in standard deviations, and its square; two rows."""
        found = np.clip((self.values - self.centre) / self.deviation, -self.far, self.far)
        return np.stack([found, np.square(found)])

    def rest(self, values: Floats) -> Floats:
        """Return numbers less the scale times their ``z``: the centre, but where it is clipped."""
        return np.asarray(values - self.scale * self._standardised(values))

    def lifted(self, block: Floats) -> Floats:
        """Return the block of each finer code, z included, given the blocks of bins.

        What follows the bins ("missing") has a z of 0.
        """
        rows = np.concatenate([block[self.groups], block[self.n_bins :]])
        z = np.append(WEIGHT * self.z, np.zeros(len(block) - self.n_bins))
        return np.column_stack([rows, z])

    def lowered(self, block: Floats) -> Floats:
        """Return the blocks of bins: inverse of ``lifted``."""
        first = np.unique(self.groups, return_index=True)[1]
        return block[np.append(first, np.arange(len(self.groups), len(block))), :-1]

    def further(self, codes: int) -> Floats:
        """Return the further numbers of so many codes: `powers`, the square less about its mean."""
        found = (self.powers.T - [0.0, 1.0]) * self.factors
        return np.concatenate([found, np.zeros((codes - len(found), 2))])

    @property
    def levels(self) -> tuple[Floats, Floats]:
        """Mean and variance of ``z`` in each bin."""
        mean = np.bincount(self.groups, self.shares * self.z)
        square = np.bincount(self.groups, self.shares * np.square(self.z))
        return np.asarray(mean, float), np.asarray(np.maximum(square - np.square(mean), 0.0))

    def with_tails(self, margin: Floats, powers: Floats, stds: Floats) -> Coordinate:
        """Return the number with as much beyond its outermost codes as its moments tell.

        There few rows hide from the noise of a tree, and make most of a standard deviation. What is
        beyond falls off as a power of the distance; how much there is at either end, as a share of
        the last bin, is what explains the released moments best, and little by itself. It was
        counted in the outermost code in which rows were found, else anywhere in that bin. Where
        noise put too much far out in the last bin, it is moved inwards, as much as moments tell.
        """
        away, found = self.values - self.centre, self.shares > 0
        law = margin[self.groups] * self.shares
        moved, most = np.zeros((6, len(law))), np.repeat([0.0, _MOST_INNER, 0.5], 2)
        for side, sign in enumerate((-1, 1)):
            last = np.where(found, sign * away, -np.inf).argmax()
            out = sign * away / max(sign * away[last], _FLOOR * self.scale)
            own = self.groups == self.groups[last]
            beyond = own & (out > 1) & (out < _TAIL)
            if beyond.any() and sign * away[last] > 0:
                further = np.where(beyond, np.maximum(out, 1.0) ** -_DECAY, 0.0)
                moved[[side, 4 + side]] = further / further.sum()
                moved[side, last] -= 1.0
                moved[4 + side] -= np.where(own, self.shares, 0.0)
                most[side] = self.shares[last]
            inner = np.flatnonzero(own & found)
            shares, far = self.shares[inner], out[inner]
            if far.size > 1:
                moved[2 + side, inner] = shares * (shares @ far / shares.sum() - far) / np.ptp(far)
        change = (self.powers / stds[:, None]) @ (moved * margin[self.groups]).T
        more = _moved(change, (powers - self.powers @ law) / stds, most)
        return replace(self, shares=np.maximum(self.shares + more @ moved, 0.0))

    def margin(self, margin: Floats) -> Floats:
        """Return the margin of finer codes, given that of bins."""
        return np.append(margin[self.groups] * self.shares, margin[self.n_bins :])

    def spread(self, codes: Ints, rng: np.random.Generator) -> Ints:
        """Draw a finer code for each bin; what follows the bins stays behind them.

        Each by itself: see `finely_drawn`.
        """
        size, order = self.n_bins, np.argsort(self.groups, kind="stable")
        begin = np.searchsorted(self.groups[order], np.arange(size + 1))
        below = np.append(0.0, np.cumsum(self.shares[order]))
        inside = np.minimum(codes, size - 1)
        first, last = begin[inside], begin[inside + 1]
        aim = below[first] + rng.random(len(codes)) * (below[last] - below[first])
        place = np.clip(np.searchsorted(below, aim, side="right") - 1, first, last - 1)
        return np.where(codes < size, order[place], codes - size + len(order))


def finely_drawn(numbers: Mapping[int, Coordinate], rows: Ints, rng: np.random.Generator) -> Ints:
    """Return rows with a finer code in place of each bin of a number.

    Relations between numbers go on inside their bins, as they do in synthetic rows: see `related`.
    """
    found, bins, ranks, orders = rows.copy(), {}, {}, {}
    for a, number in numbers.items():
        bins[a], orders[a] = rows[:, a], np.argsort(number.values, kind="stable")
        found[:, a] = number.spread(rows[:, a], rng)
        place = np.argsort(orders[a]).astype(float)
        ranks[a] = place[np.minimum(found[:, a], len(place) - 1)]
    sizes = {a: number.n_bins for a, number in numbers.items()}
    for a, ranked in related(bins, ranks, sizes, rng, free=numbers).items():
        seen = rows[:, a] < sizes[a]
        found[seen, a] = orders[a][ranked[seen].astype(np.int64)]
    return found


def _moved(change: Floats, lacking: Floats, most: Floats) -> Floats:
    """Return how much is moved, at either end: outwards from a code, from a bin, and inwards.

    Least squares with a prior, from 0 to ``most``. Of a bin as a whole nothing is moved outwards
    while its outermost code has anything left that moments would miss.
    """
    from scipy.optimize import lsq_linear

    def least(of: slice, lacking: Floats) -> Floats:
        sums = np.append(lacking, np.zeros(len(most[of])))
        parts = np.concatenate([change[:, of], np.diag(1 / _MOVED[of])])
        return np.asarray(lsq_linear(parts, sums, (0.0, most[of] + _FLOOR)).x)

    first = least(slice(4), lacking)
    outermost, whole = np.abs(change[:, :2]).sum(axis=0), np.abs(change[:, 4:]).sum(axis=0)
    spent = (first[:2] >= most[:2]) | (outermost < _SEEN * whole)
    return np.append(first, least(slice(4, 6), lacking - change[:, :4] @ first) * spent)


def finely(schema: Schema) -> Schema:
    """Return a schema in which the numbers that a fit has cut have finer bins, inside their own.

    The schema itself, if there are none, or too many cells for all pairs of them.
    """
    grids = with_search_grid(schema)
    cut = (a for a in schema if is_pending(a) and a.binning.weights)
    found = schema.with_attributes({a.name: _finer(a, grids[a.name].bin_edges) for a in cut})  # type: ignore[union-attr]
    sizes = [a.extended_size for a in found]
    return found if sum(a * b for a, b in combinations(sizes, 2)) <= _MOST_CELLS else schema


def _finer(a: Numeric, steps: Floats) -> Numeric:
    """Halve, again and again, the interval in which numbers differ most; and go on beyond them.

    Only edges of the search grid, ``steps``, are taken.
    """
    pieces, shares = np.asarray(a.binning.subintervals), np.asarray(a.binning.weights)
    shares = shares / shares.sum() if shares.any() else np.full(len(shares), 1 / len(shares))
    below = np.append(0.0, np.cumsum(shares))
    known = np.flatnonzero(shares > _FLOOR)
    low, high = float(pieces[known[0]]), float(pieces[known[-1] + 1])
    waiting: list[tuple[float, float, float, float]] = []

    def add(start: float, stop: float) -> None:
        """Note an interval that can be halved."""
        mass = float(np.diff(np.interp([start, stop], pieces, below))[0])
        inner = steps[(steps > max(start, low)) & (steps < min(stop, high))]
        if inner.size and mass > 0:
            width = min(stop, high) - max(start, low)
            heappush(waiting, (-mass * width**2, start, float(inner[len(inner) // 2]), stop))

    edges = sorted({*a.bin_edges.tolist(), *_tails(low, high, steps)})
    for ends in pairwise(edges):
        add(*ends)
    while waiting and len(edges) + len(a.binning.spikes) <= _MOST_CODES:
        _, start, middle, stop = heappop(waiting)
        edges.append(middle)
        add(start, middle)
        add(middle, stop)
    finer = replace(a.binning, edges=tuple(sorted(edges)), subintervals=(), weights=())
    return replace(a, bins=finer)


def _tails(low: float, high: float, steps: Floats) -> set[float]:
    """Return edges beyond the range in which rows were found, each some times further out."""
    middle, times = (low + high) / 2, _TAIL ** (np.arange(_TAIL_CODES + 1) / _TAIL_CODES)
    wanted = middle + (high - middle) * np.concatenate([-times, times])
    inner = wanted[(wanted > steps[0]) & (wanted < steps[-1])]
    found = (
        steps[np.clip(np.searchsorted(steps, inner), 1, len(steps) - 2)]
        if steps[2:].size
        else inner
    )
    return {*found.tolist()}


def coordinates(
    schema: Schema, names: Sequence[str], levels: Sequence[Levels], margins: Sequence[Floats]
) -> tuple[Coordinate | None, ...]:
    """Return the number of each attribute that has one; of none, if there are no finer codes.

    * ``schema``: With the bins that were found.
    * ``names``: What is modelled.
    * ``levels``, ``margins``: Which levels are merged, and released shares of the rows.
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
    middle = np.mean(fine.code_ranges, axis=0)
    total = np.bincount(codes, points, fine.size)
    values = np.where(number > 0, total / np.maximum(number, 1), middle)
    bins = a.encode_values(fine.code_ranges[0])
    shares = number / _POINTS * level.shares[bins]
    law = margin[level.groups[bins]] * shares
    law = law / law.sum() if law.any() else shares / shares.sum()
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(law[order]), [_QUANTILE, 1 - _QUANTILE])
    low, high = values[order[np.minimum(place, len(order) - 1)]].tolist()
    inner = np.clip(values, low, high)
    centre = float(law @ inner)
    scale, spread = (
        float(np.sqrt(law @ np.square(x - centre))) or a.upper - a.lower for x in (inner, values)
    )
    if a.not_applicable is not None:
        bins, shares = np.append(bins, a.size), np.append(shares, level.shares[a.size])
        values = np.append(values, centre)
    away = np.abs(values - centre) / spread
    far = float(np.clip(min(_BEYOND * away[shares > 0].max(), away.max()), *_FAR))
    return Coordinate(level.groups[bins], values, shares, low, high, centre, scale, spread, far)


def with_shares(schema: Schema, numbers: Mapping[str, Coordinate | None]) -> Schema:
    """Return a schema whose numbers are drawn inside bins by the shares of their finer codes."""
    fine, found = finely(schema), {}
    for name, number in numbers.items():
        a, codes = schema[name], fine[name]
        if number is None or codes is a:
            continue
        if isinstance(a, Numeric) and isinstance(codes, Numeric):
            found[name] = _reshared(a, codes, number)
    return schema.with_attributes(found)


def _reshared(a: Numeric, fine: Numeric, number: Coordinate) -> Numeric:
    """Return a number with shares of its pieces that add up to those of its finer codes."""
    known = a.binning
    below = np.append(0.0, np.cumsum(np.asarray(known.weights)))
    pieces = np.union1d(np.asarray(known.subintervals), fine.bin_edges)
    old, width = np.diff(np.interp(pieces, np.asarray(known.subintervals), below)), np.diff(pieces)
    inside = pieces[:-1] + np.multiply.outer([0.2, 0.5, 0.8], width)
    spike = np.isin(a.round_to_step(inside), known.spikes)
    codes = fine.encode_values(np.take_along_axis(inside, spike.argmin(axis=0)[None], 0)[0])

    def shared(parts: Floats, of: Ints) -> tuple[Floats, Floats]:
        """Return the sum that each part belongs to, and its share of it."""
        total = np.asarray(np.bincount(of, parts), float)[of]
        return total, np.divide(parts, total, out=np.zeros(len(parts)), where=total > 0)

    kept, part = shared(old, codes)
    part = np.where(kept > 0, part, shared(width, codes)[1])
    shares = shared(old, number.groups[codes])[0] * number.shares[codes] * part
    subintervals, weights = tuple(pieces.tolist()), tuple(shares.tolist())
    return replace(a, bins=replace(known, subintervals=subintervals, weights=weights))
