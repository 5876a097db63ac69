"""Numeric scores: released covariances of numbers as numbers, in addition to their bins.

Rows of a column with released bins are counted by *finer codes*: intervals inside its bins, and its
spikes. Each code has one number, standardised to a score ``z``. Sums of products of two scores are
covariances. Sums of products with indicators are conditional means. Each is one number with the
noise of one cell. Codes and scores follow from released bins and marginals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush
from itertools import combinations, pairwise

import numpy as np
from numpy.random import Generator
from pydantic.dataclasses import dataclass

from missdp.inference.model import Levels, relate_within_bins
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.serialization import Record
from missdp.synth.search_grid import is_pending, takes_every_number, with_search_grid
from missdp.types import Floats, Ints

WEIGHT = 0.6
"""Factor of a score in the block of its attribute."""

_MAX_CODES = 40  # finer codes of an attribute, or more if it has more bins
_MAX_CELLS = 40_000_000  # cells of all pairs of finer codes: with more, no score is released
_FEWEST = 3  # codes: a score of two codes adds no information
_CLIP = 4.0  # largest score
_QUANTILE = 0.02  # share of the numbers at each end that are clipped
_LINE, _SQUARE = 0.2, 0.1  # largest factors of the number itself, and of its square
_HIGHEST = 2.0, 3.0  # largest products of number and factor, and of square and factor
_FAR_RANGE = (3.0, 16.0)  # smallest and largest clip of numbers and squares, in SDs
_MAX_REACH = 4.0  # clip relative to the furthest occupied number
# Ratio of the range of finer codes to the occupied range, and number of codes in a tail.
_TAIL, _TAIL_CODES = 10.0, 7
_DECAY = 1.7  # exponent of the power law of tails
_HIDDEN = 0.2  # prior share of the last bin that moves to the tail
# Usual and largest share of the range of the last bin by which mass moves inwards.
_INNER, _MAX_INNER = 0.5, 0.9
# Change of moments by a code, relative to its bin, from which the code matters.
_MIN_MOMENT_CHANGE = 0.1
_MOVE_SCALES = np.repeat([_HIDDEN, _INNER, _HIDDEN], 2)
_FLOOR = 3e-5  # smallest mass of an occupied interval
_POINTS = 2048  # integration points in a bin


@dataclass(frozen=True, eq=False)
class NumericScore(Record):
    """Score of a number: a standardised function of finer codes. All values are released.

    * ``groups`` (shape (codes,)): Bin of each finer code. A level "not applicable" is the last bin.
    * ``values`` (shape (codes,)): The number of each code.
    * ``shares`` (shape (codes,)): Share of each code in its bin.
    * ``low``, ``high``, ``centre``, ``scale``: The score is the number, clipped at ``low`` and
      ``high``, less ``centre``, over ``scale``. They are released quantiles, mean and standard
      deviation.
    * ``deviation``, ``far``: Standard deviation of the unclipped number. The number and its square
      are clipped at ``far`` standard deviations if they are not in products.
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
        """Factors of the number and of its square outside products."""
        return min(_LINE, _HIGHEST[0] / self.far), min(_SQUARE, _HIGHEST[1] / self.far**2)

    @property
    def n_bins(self) -> int:
        """Number of bins."""
        return int(self.groups.max()) + 1

    @property
    def z(self) -> Floats:
        """The score of each code."""
        return self._standardised(self.values)

    def _standardised(self, values: Floats) -> Floats:
        inner = np.clip(values, self.low, self.high)
        return np.clip((inner - self.centre) / self.scale, -_CLIP, _CLIP)

    @property
    def powers(self) -> Floats:
        """The number of each code in SDs, clipped at ``far``, and its square, in two rows."""
        standardised = np.clip((self.values - self.centre) / self.deviation, -self.far, self.far)
        return np.stack([standardised, np.square(standardised)])

    def rest(self, values: Floats) -> Floats:
        """Return numbers less the scale times their score: the centre if not clipped."""
        return np.asarray(values - self.scale * self._standardised(values))

    def add_to_block(self, block: Floats) -> Floats:
        """Return the block of each finer code with its score, given the blocks of bins.

        Codes after the bins ("missing") have a score of 0.
        """
        rows = np.concatenate([block[self.groups], block[self.n_bins :]])
        z = np.append(WEIGHT * self.z, np.zeros(len(block) - self.n_bins))
        return np.column_stack([rows, z])

    def drop_from_block(self, block: Floats) -> Floats:
        """Return the blocks of bins: the inverse of ``add_to_block``."""
        first = np.unique(self.groups, return_index=True)[1]
        return block[np.append(first, np.arange(len(self.groups), len(block))), :-1]

    def extra_features(self, codes: int) -> Floats:
        """Return features outside products for each code: `powers`, the square centred."""
        features = (self.powers.T - [0.0, 1.0]) * self.factors
        return np.concatenate([features, np.zeros((codes - len(features), 2))])

    @property
    def levels(self) -> tuple[Floats, Floats]:
        """Mean and variance of the score in each bin."""
        mean = np.bincount(self.groups, self.shares * self.z)
        square = np.bincount(self.groups, self.shares * np.square(self.z))
        return np.asarray(mean, float), np.asarray(np.maximum(square - np.square(mean), 0.0))

    def with_tails(self, marginal: Floats, powers: Floats, stds: Floats) -> NumericScore:
        """Return the score with the mass beyond its outermost codes that explains its moments.

        The few rows in tails are hidden by the noise of a tree, but they dominate a standard
        deviation. A tail falls off as a power of the distance. Its mass at each end, as a share of
        the last bin, explains the released moments best, and is small a priori. The mass was
        counted in the outermost occupied code, or anywhere in the last bin. If noise placed too
        much mass far out in the last bin, mass is moved inwards by the moments.

        Parameters
        ----------
        marginal : ndarray of shape (bins + 1,) or (bins,)
            Released shares of the bins, and of missing cells.
        powers : ndarray of shape (2,)
            Released means of `powers`.
        stds : ndarray of shape (2,)
            Standard deviations of their noise.

        Returns
        -------
        NumericScore
            Released values.
        """
        away, has_rows = self.values - self.centre, self.shares > 0
        probabilities = marginal[self.groups] * self.shares
        moves, max_moves = np.zeros((6, len(probabilities))), np.repeat([0.0, _MAX_INNER, 0.5], 2)
        for side, sign in enumerate((-1, 1)):
            last = np.where(has_rows, sign * away, -np.inf).argmax()
            out = sign * away / max(sign * away[last], _FLOOR * self.scale)
            in_bin = self.groups == self.groups[last]
            tail = in_bin & (out > 1) & (out < _TAIL)
            if tail.any() and sign * away[last] > 0:
                decay = np.where(tail, np.maximum(out, 1.0) ** -_DECAY, 0.0)
                moves[[side, 4 + side]] = decay / decay.sum()
                moves[side, last] -= 1.0
                moves[4 + side] -= np.where(in_bin, self.shares, 0.0)
                max_moves[side] = self.shares[last]
            inner = np.flatnonzero(in_bin & has_rows)
            shares, far = self.shares[inner], out[inner]
            if far.size > 1:
                moves[2 + side, inner] = shares * (shares @ far / shares.sum() - far) / np.ptp(far)
        change = (self.powers / stds[:, None]) @ (moves * marginal[self.groups]).T
        more = _solve_moves(change, (powers - self.powers @ probabilities) / stds, max_moves)
        return replace(self, shares=np.maximum(self.shares + more @ moves, 0.0))

    def fine_marginal(self, marginal: Floats) -> Floats:
        """Return the marginal of finer codes, given the marginal of bins."""
        return np.append(marginal[self.groups] * self.shares, marginal[self.n_bins :])

    def draw_codes(self, codes: Ints, rng: Generator) -> Ints:
        """Draw a finer code for each bin, independently. Codes after the bins stay after them.

        `draw_fine_codes` draws dependent codes.
        """
        size, order = self.n_bins, np.argsort(self.groups, kind="stable")
        begin = np.searchsorted(self.groups[order], np.arange(size + 1))
        below = np.append(0.0, np.cumsum(self.shares[order]))
        inside = np.minimum(codes, size - 1)
        first, last = begin[inside], begin[inside + 1]
        aim = below[first] + rng.random(len(codes)) * (below[last] - below[first])
        place = np.clip(np.searchsorted(below, aim, side="right") - 1, first, last - 1)
        return np.where(codes < size, order[place], codes - size + len(order))


def draw_fine_codes(scores: Mapping[int, NumericScore], rows: Ints, rng: Generator) -> Ints:
    """Return rows with a finer code in place of each bin of a number.

    Relations between numbers continue inside bins, as in synthetic rows: see `relate_within_bins`.

    Parameters
    ----------
    scores : mapping of int to NumericScore
        Scores by position of the attribute.
    rows : ndarray of int64, shape (n, d)
        Codes of bins.
    rng : numpy.random.Generator
        Draws the codes.

    Returns
    -------
    ndarray of int64, shape (n, d)
        Finer codes of the numbers.
    """
    fine_rows, bins, ranks, orders = rows.copy(), {}, {}, {}
    for a, number in scores.items():
        bins[a], orders[a] = rows[:, a], np.argsort(number.values, kind="stable")
        fine_rows[:, a] = number.draw_codes(rows[:, a], rng)
        place = np.argsort(orders[a]).astype(float)
        ranks[a] = place[np.minimum(fine_rows[:, a], len(place) - 1)]
    sizes = {a: number.n_bins for a, number in scores.items()}
    for a, ranked in relate_within_bins(bins, ranks, sizes, rng, free=scores).items():
        observed = rows[:, a] < sizes[a]
        fine_rows[observed, a] = orders[a][ranked[observed].astype(np.int64)]
    return fine_rows


def _solve_moves(change: Floats, residual: Floats, max_moves: Floats) -> Floats:
    """Return the mass that each end moves outwards from a code, inwards, and from a bin."""
    from scipy.optimize import lsq_linear

    def solve(of: slice, residual: Floats) -> Floats:
        sums = np.append(residual, np.zeros(len(max_moves[of])))
        parts = np.concatenate([change[:, of], np.diag(1 / _MOVE_SCALES[of])])
        return np.asarray(lsq_linear(parts, sums, (0.0, max_moves[of] + _FLOOR)).x)

    first = solve(slice(4), residual)
    outermost, whole_bin = np.abs(change[:, :2]).sum(axis=0), np.abs(change[:, 4:]).sum(axis=0)
    spent = (first[:2] >= max_moves[:2]) | (outermost < _MIN_MOMENT_CHANGE * whole_bin)
    return np.append(first, solve(slice(4, 6), residual - change[:, :4] @ first) * spent)


def with_fine_bins(schema: Schema) -> Schema:
    """Return a schema in which the numbers with released bins have finer bins inside them.

    It is the schema itself if there are no such numbers, or if all pairs of them have too many
    cells.
    """
    grids = with_search_grid(schema)
    fine_attributes = {
        a.name: _fine_attribute(a, grids[a.name].bin_edges)  # type: ignore[union-attr]
        for a in schema
        if is_pending(a) and a.binning.weights
    }
    fine = schema.with_attributes(fine_attributes)
    sizes = [a.extended_size for a in fine]
    return fine if sum(a * b for a, b in combinations(sizes, 2)) <= _MAX_CELLS else schema


def _fine_attribute(a: Numeric, steps: Floats) -> Numeric:
    """Halve the interval with the largest variation again and again, and extend the tails.

    All edges are edges of the search grid, ``steps``.
    """
    segments, shares = np.asarray(a.binning.subintervals), np.asarray(a.binning.weights)
    shares = shares / shares.sum() if shares.any() else np.full(len(shares), 1 / len(shares))
    below = np.append(0.0, np.cumsum(shares))
    occupied = np.flatnonzero(shares > _FLOOR)
    low, high = float(segments[occupied[0]]), float(segments[occupied[-1] + 1])
    waiting: list[tuple[float, float, float, float]] = []

    def add(start: float, stop: float) -> None:
        """Add an interval that can be halved."""
        mass = float(np.diff(np.interp([start, stop], segments, below))[0])
        inner = steps[(steps > max(start, low)) & (steps < min(stop, high))]
        if inner.size and mass > 0:
            width = min(stop, high) - max(start, low)
            heappush(waiting, (-mass * width**2, start, float(inner[len(inner) // 2]), stop))

    edges = sorted({*a.bin_edges.tolist(), *_tails(low, high, steps)})
    for ends in pairwise(edges):
        add(*ends)
    while waiting and len(edges) + len(a.binning.spikes) <= _MAX_CODES:
        _, start, middle, stop = heappop(waiting)
        edges.append(middle)
        add(start, middle)
        add(middle, stop)
    refined = replace(a.binning, edges=tuple(sorted(edges)), subintervals=(), weights=())
    return replace(a, bins=refined)


def _tails(low: float, high: float, steps: Floats) -> set[float]:
    """Return edges beyond the occupied range, at geometric distances."""
    middle, times = (low + high) / 2, _TAIL ** (np.arange(_TAIL_CODES + 1) / _TAIL_CODES)
    targets = middle + (high - middle) * np.concatenate([-times, times])
    inner = targets[(targets > steps[0]) & (targets < steps[-1])]
    edges = (
        steps[np.clip(np.searchsorted(steps, inner), 1, len(steps) - 2)]
        if steps[2:].size
        else inner
    )
    return {*edges.tolist()}


def numeric_scores(
    schema: Schema, names: Sequence[str], levels: Sequence[Levels], marginals: Sequence[Floats]
) -> tuple[NumericScore | None, ...]:
    """Return the score of each attribute that has one, else None.

    Parameters
    ----------
    schema : Schema
        The schema with released bins.
    names : sequence of str
        The modelled attributes.
    levels : sequence of Levels
        Released groups of levels.
    marginals : sequence of ndarray
        Released shares of the rows.

    Returns
    -------
    tuple of NumericScore or None
        All None if there are no finer codes.
    """
    fine = with_fine_bins(schema)
    if fine is schema:
        return (None,) * len(names)
    return tuple(
        _numeric_score(schema[name], fine[name], level, marginal)
        for name, level, marginal in zip(names, levels, marginals, strict=True)
    )


def _numeric_score(
    a: AnyAttribute, fine: AnyAttribute, level: Levels, marginal: Floats
) -> NumericScore | None:
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
    mass = marginal[level.groups[bins]] * shares
    mass = mass / mass.sum() if mass.any() else shares / shares.sum()
    order = np.argsort(values, kind="stable")
    place = np.searchsorted(np.cumsum(mass[order]), [_QUANTILE, 1 - _QUANTILE])
    low, high = values[order[np.minimum(place, len(order) - 1)]].tolist()
    inner = np.clip(values, low, high)
    centre = float(mass @ inner)
    scale, spread = (
        float(np.sqrt(mass @ np.square(x - centre))) or a.upper - a.lower for x in (inner, values)
    )
    if a.not_applicable is not None:
        bins, shares = np.append(bins, a.size), np.append(shares, level.shares[a.size])
        values = np.append(values, centre)
    away = np.abs(values - centre) / spread
    far = float(np.clip(min(_MAX_REACH * away[shares > 0].max(), away.max()), *_FAR_RANGE))
    return NumericScore(level.groups[bins], values, shares, low, high, centre, scale, spread, far)


def with_shares(schema: Schema, numbers: Mapping[str, NumericScore | None]) -> Schema:
    """Return a schema whose numbers are drawn inside bins by the shares of their finer codes."""
    fine, attributes = with_fine_bins(schema), {}
    for name, number in numbers.items():
        a, codes = schema[name], fine[name]
        if number is None or codes is a:
            continue
        if isinstance(a, Numeric) and isinstance(codes, Numeric):
            attributes[name] = _with_fine_shares(a, codes, number)
    return schema.with_attributes(attributes)


def _with_fine_shares(a: Numeric, fine: Numeric, number: NumericScore) -> Numeric:
    """Return a number whose segments have the shares of its finer codes."""
    binning = a.binning
    below = np.append(0.0, np.cumsum(np.asarray(binning.weights)))
    segments = np.union1d(np.asarray(binning.subintervals), fine.bin_edges)
    old = np.diff(np.interp(segments, np.asarray(binning.subintervals), below))
    width = np.diff(segments)
    inside = segments[:-1] + np.multiply.outer([0.2, 0.5, 0.8], width)
    spike = np.isin(a.round_to_step(inside), binning.spikes)
    codes = fine.encode_values(np.take_along_axis(inside, spike.argmin(axis=0)[None], 0)[0])

    def shared(parts: Floats, of: Ints) -> tuple[Floats, Floats]:
        """Return the total of the group of each part, and its share in the total."""
        total = np.asarray(np.bincount(of, parts), float)[of]
        return total, np.divide(parts, total, out=np.zeros(len(parts)), where=total > 0)

    old_total, part = shared(old, codes)
    part = np.where(old_total > 0, part, shared(width, codes)[1])
    shares = shared(old, number.groups[codes])[0] * number.shares[codes] * part
    subintervals, weights = tuple(segments.tolist()), tuple(shares.tolist())
    return replace(a, bins=replace(binning, subintervals=subintervals, weights=weights))
