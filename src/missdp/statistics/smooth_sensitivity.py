"""Release numbers with smooth sensitivity: pure DP, and every answer comes with an error bar.

A beta-smooth bound S of a query's local sensitivity satisfies ``S(D) >= LS(D)`` and
``S(D) <= exp(beta) * S(D')`` for neighbours D and D' (Nissim, Raskhodnikova & Smith 2007). Noise of
the scale ``S / alpha`` hides how far one row moves the answer. The bound is as private as the
answer, so the scale of the noise is released together with the answer, for one epsilon. The
released scale gives the error bar.

**Distance.** Points are (answer, scale): an answer of d numbers and a scale above 0. The distance
of two points is the least time of a path from one point to the other. On the path the answer moves
at a speed of at most the current scale, in L1. The logarithm of the scale moves at a speed of at
most 1. This is a metric. Distances do not change if all points are shifted and dilated, (answer,
scale) -> (b + c * answer, c * scale). The measure ``d(answer) d(scale) / scale ** (d + 1)`` does
not change either.

**Distribution.** The released point has a density proportional to ``exp(-shape * distance)`` by
this measure, where the distance is the one from (exact answer, S / alpha).

*Theorem.* Let one row move the exact answer by at most S, the smaller bound of the two neighbours.
Let it move the logarithm of the bound by at most beta. Then the release is ``shape * max(alpha,
beta)``-DP. *Proof.* The normalising constant does not depend on the exact answer or on S, because
shifts and dilations change neither the measure nor the distance. By the triangle inequality the
log-ratio of the two densities is at most shape times a distance. The distance is the one from
(exact answer, S / alpha) to (exact answer', S' / alpha). The following path connects these points
within the time max(alpha, beta). The logarithm of the scale moves from log(S / alpha) to log(S' /
alpha) at a constant speed, which is at most 1. The answer moves on a straight line at a constant
speed. The scale on the path is never below min(S, S') / alpha, so at this speed the answer covers
at least min(S, S') in the time alpha. ∎

**The distance in closed form.** From (0, 1) to (x, scale), with ``reach = |x|_1``, the distance is
``2 log(peak) - log(scale)`` with ``peak = (1 + scale + max(reach, |scale - 1|)) / 2``. *Proof.* A
path that raises the scale from 1 to the peak and lowers it to the final scale takes this time. It
moves the answer by (peak - 1) + (peak - scale), and no path that takes as long moves the answer
farther. The peak is at least 1 and at least the final scale. ∎ So the density by dx d(scale) is
``scale ** (shape - d - 1) * peak ** (-2 * shape)``. It is integrable if shape is above d.

**Parameters.** Alpha and beta are both epsilon / shape. `calibrate_smooth_noise` chooses the shape
with the shortest error bar on a fixed reference profile, ``M_j = 1.25 + j``. It reads epsilon, the
number of answers and the query's public weights, and never the table.

**Exact draws.** Floating-point noise leaks: the scale and the exact answer decide which doubles
can occur (Mironov 2012), and both are private here. A real random number is therefore a *lazy*
number, an interval that shrinks while random bits are drawn. The sum ``value + scale * noise`` is
refined until the whole interval rounds to one point of a public grid. The result is exactly the
rounding of the ideal real-valued release, so it is post-processing of the release that the theorem
covers.

The point (x, scale) is drawn by three numbers: ``start = 1 / peak``, ``end = scale / peak``, and
``share``. If the reach is above |scale - 1|, the share is 1. Otherwise start or end is 1, and the
share is reach / |scale - 1|. In both cases ``reach = (2 - start - end) * share / start``. In these
numbers the density is a sum of products of powers, so it is a mixture of Beta distributions with
whole parameters (`_components`). Such Beta variables are order statistics of uniform variables. The
direction of x is uniform in L1: the gaps between d - 1 ordered uniform variables.

**Error bars** (`SmoothNoise.radius`). The distribution of |x_1| / scale does not depend on the
exact answer or on S, because shifts and dilations change nothing. So a multiple of the released
scale holds the noise with a stated probability, exactly. The multiple is an integral of Beta
functions, computed by quadrature.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from missdp.errors import ParameterError, UnprovenError, check_integer
from missdp.session.noise import NoiseSource, SeededNoise, Words, os_words, seeded_words
from missdp.types import Floats

# Subtracted from beta and epsilon, relatively: S is rounded upwards, and so is floating point.
_SLACK = 2.0**-20
# Smoothness below which S may be rounded up by more than the slack covers.
_MIN_BETA = 2.0**-16 * (1 + _SLACK)
# Rows that one row moves on the reference profile. Averages over equally near donors let real
# profiles start at .4 to 4, or far above in small tables with many missing cells. For no start from
# .5 to 4 is the error bar planned here a sixth longer than the best one.
_REFERENCE_LEVEL = 1.25


@dataclass(frozen=True, repr=False)
class Bounded:
    """Exact numbers and a bound on their change between neighbours. Private."""

    totals: tuple[int, ...]
    bound: float


# Real numbers whose bits are drawn on demand

_WORD = 64  # random bits that are drawn at once
_Interval: TypeAlias = tuple[Fraction, Fraction]


def _bits(words: Words, count: int) -> int:
    """Return a uniform integer in ``[0, 2**count)``."""
    drawn = -(-count // 64)
    return int.from_bytes(words(drawn).tobytes(), "little") >> (64 * drawn - count)


def _unique_rounding(value: Fraction, scale: Fraction, bounds: _Interval, sign: int) -> int | None:
    """Nearest integer to ``value + sign * scale * noise`` if ``bounds`` on the noise decide it."""
    half = Fraction(1, 2)
    ends = {math.floor(value + sign * scale * bound + half) for bound in bounds}
    return ends.pop() if len(ends) == 1 else None


class _LazyUniform:
    """A uniform real in (0, 1), known to lie in ``[top, top + 1] / 2**precision``."""

    __slots__ = ("_words", "precision", "top")

    def __init__(self, words: Words) -> None:
        self._words = words
        self.top = _bits(words, _WORD)
        self.precision = _WORD

    def refine_to(self, precision: int) -> None:
        """Draw bits until at least ``precision`` are known."""
        while self.precision < precision:
            self.top = (self.top << _WORD) | _bits(self._words, _WORD)
            self.precision += _WORD

    def below(self, other: _LazyUniform) -> bool:
        """Decide whether this number is below ``other``, drawing as many bits as it takes."""
        while True:
            if self.precision == other.precision and self.top != other.top:
                return self.top < other.top
            precision = max(self.precision, other.precision)
            if self.precision == other.precision:
                precision += _WORD
            self.refine_to(precision)
            other.refine_to(precision)


@dataclass(frozen=True, kw_only=True)
class SmoothNoise:
    """Noise in proportion to a smooth bound, released together with its own scale.

    The bound is on the change of the numbers by one row: ``row_weight + recipient_weight * (rows
    that one row can move)``. The release is epsilon-DP by construction. The parameters are public.
    The private bound comes with the exact numbers, and the last exact number is 0: its place is
    taken by the scale.

    Parameters
    ----------
    epsilon : float
        Privacy loss of the numbers and the scale together.
    shape : int
        Rate at which the density falls, above ``dimension``.
    alpha, beta : float
        The scale is the bound over alpha. One row moves the logarithm of the bound by at most beta.
    dimension : int, default 1
        Number of exact numbers, without the scale.
    row_weight, recipient_weight : float, default 1
        Public weights of the bound.

    Raises
    ------
    ParameterError
        If a parameter is out of range.
    UnprovenError
        If the theorem does not give epsilon for these parameters.
    """

    epsilon: float
    shape: int
    alpha: float
    beta: float
    dimension: int = 1
    row_weight: float = 1.0
    recipient_weight: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and self.alpha > 0 and self.beta > 0):
            raise ParameterError("epsilon, alpha and beta must be finite and above 0")
        check_integer("dimension", self.dimension)
        check_integer("shape", self.shape)
        if self.shape <= self.dimension:
            raise ParameterError("shape must be above the number of coordinates")
        # The slack covers S rounded up by a factor of at most 1 + 2**-40 and float rounding here.
        if self._loss(self.beta + 2.0**-36) * (1 + 2.0**-40) > self.epsilon:
            raise UnprovenError("these noise parameters are not proven to give this epsilon")

    def _loss(self, beta: float) -> float:
        """Return the privacy loss if the logarithm of the bound moves by ``beta``."""
        return self.shape * max(self.alpha, beta)

    def quantile(self, level: float) -> float:
        """Return the half-width that holds one number's noise, per unit of the released scale."""
        if not 0 < level < 1:
            raise ParameterError("level must be between 0 and 1")
        return _quantile(level, self.shape, self.dimension)

    def radius(self, level: float, released_scale: float) -> float:
        """Return the half-width that holds one number's noise with probability ``level``."""
        half = float(self.grid) / 2  # by which each number is rounded
        return self.quantile(level) * (max(released_scale, 0.0) + half) + half

    @property
    def expected_radius(self) -> float:
        """Half-width that holds one number's noise with 95 %, on the reference profile."""
        typical = reference_bound(self.beta, self.row_weight, self.recipient_weight)
        return self.quantile(0.95) * typical / self.alpha

    @property
    def grid(self) -> Fraction:
        """Public spacing of the answers: a power of two, far finer than any noise there can be."""
        weight = max(self.row_weight, self.recipient_weight)
        return Fraction(2) ** (math.floor(math.log2(weight / self.epsilon)) - 8)

    def draw(self, exact: Bounded, source: NoiseSource) -> tuple[Fraction, ...]:
        """Return the numbers plus noise, and the scale of the noise.

        The answer is the exact rounding, to the grid, of a real-valued answer. The generator of a
        source that somebody else wrote is for post-processing. It is not used.
        """
        if len(exact.totals) != self.dimension + 1:
            raise ParameterError(f"this noise is for {self.dimension} number(s) and their scale")
        if not 0 < (bound := exact.bound) < math.inf:
            raise ParameterError("the smooth bound must be finite and above 0")
        seeded = isinstance(source, SeededNoise)
        words = seeded_words(source.generator()) if seeded else os_words
        scale = Fraction(bound) / Fraction(self.alpha) / self.grid
        steps = [Fraction(total) / self.grid for total in exact.totals]
        return tuple(point * self.grid for point in self._points(steps, scale, words))

    def _points(self, steps: Sequence[Fraction], scale: Fraction, words: Words) -> list[int]:
        """Return ``steps`` plus noise of a scale, rounded to whole numbers."""
        drawn = _LazyPoint(self.shape, self.dimension, words)
        signs = [1 - 2 * _bits(words, 1) for _ in steps[1:]]
        return [
            drawn.rounded(place, value, scale, sign)
            for place, (value, sign) in enumerate(zip(steps, (*signs, 1), strict=True))
        ]


def reference_bound(
    beta: float, row_weight: float, recipient_weight: float, level: float = _REFERENCE_LEVEL
) -> float:
    """Return S_beta of the profile M_j = level + j: max of exp(-beta j)(row + recipient * M_j).

    Parameters
    ----------
    beta : float
        Smoothness.
    row_weight, recipient_weight : float
        Public weights of the bound, see `SmoothNoise`.
    level : float
        Rows that one row moves, at the start of the profile.

    Returns
    -------
    float
    """
    start = row_weight + recipient_weight * level
    if recipient_weight <= 0 or beta * start >= recipient_weight:
        return start
    return recipient_weight / beta * math.exp(beta * start / recipient_weight - 1)


@lru_cache(maxsize=512)
def calibrate_smooth_noise(
    epsilon: float, *, row_weight: float = 1.0, recipient_weight: float = 1.0, dimension: int = 1
) -> SmoothNoise:
    """Return the smooth noise with the shortest expected error bar, from public facts only.

    Parameters
    ----------
    epsilon : float
        Privacy loss of the whole release.
    row_weight, recipient_weight : float, default 1
        Public weights of the bound, see `SmoothNoise`.
    dimension : int, default 1
        Number of exact numbers.

    Returns
    -------
    SmoothNoise

    Raises
    ------
    ParameterError
        If epsilon or a weight is out of range.
    UnprovenError
        If epsilon is too small for so many numbers.
    """
    if not 0 < epsilon < math.inf:
        raise ParameterError("epsilon must be finite and above 0")
    weights = float(row_weight), float(recipient_weight)
    if not (min(weights) >= 0 and sum(weights) > 0):
        raise ParameterError("weights must be at least 0 and not both 0")
    plans = list(_plans(epsilon, *weights, dimension))
    if not plans:
        raise UnprovenError(
            f"no noise is proven for {dimension} numbers at once at epsilon {epsilon:g}. They need "
            f"about epsilon {(dimension + 1) * _MIN_BETA / (1 - _SLACK):.2g}"
        )
    return min(plans, key=lambda noise: noise.expected_radius)


def _plans(epsilon: float, row: float, recipient: float, dimension: int) -> Iterator[SmoothNoise]:
    """Yield one proven noise for each of about sixty shapes."""
    shapes = np.geomspace(dimension + 1, max(64, 8 * dimension), 60).round().astype(int)
    for shape in np.unique(shapes).tolist():
        beta = epsilon * (1 - _SLACK) / shape
        if beta > _MIN_BETA:
            yield SmoothNoise(
                epsilon=epsilon, shape=shape, alpha=beta, beta=beta, dimension=dimension,
                row_weight=row, recipient_weight=recipient,
            )  # fmt: skip


# Error bars


@lru_cache(maxsize=4096)
def _quantile(level: float, shape: int, dimension: int) -> float:
    """Return the multiple with P(|x_1| <= multiple * scale) = level."""
    from scipy.optimize import brentq

    target = math.log1p(-level) + _log_tail(0.0, shape, dimension)

    def error(log_multiple: float) -> float:
        return _log_tail(math.exp(log_multiple), shape, dimension) - target

    farthest = (9 - math.log1p(-level)) / (shape - dimension) + 4
    return math.exp(brentq(error, -40.0, farthest, xtol=1e-9))


def _log_tail(multiple: float, shape: int, dimension: int) -> float:
    """Return the log of the mass of |x_1| > multiple * scale, in units of B(shape - d, d).

    The gaps between uniform variables turn the reach to the power d - 1 into (reach - multiple *
    scale) to the power d - 1. The end of the path is then integrated in closed form, and its start
    by quadrature.
    """
    from scipy.special import betainc, betaln

    low_shape = shape - dimension
    power = low_shape * math.log1p(multiple)  # taken out of all terms
    # The scale falls: the path starts at its peak, and the share of the reach is integrated.
    mass = 1 / shape
    if (inner := max(0.0, 1 - multiple)) > 0:
        # The scale rises: the path ends at its peak.
        log_rising = (shape + dimension) * math.log(inner) + betaln(shape, dimension + 1)
        mass += math.exp(log_rising - betaln(low_shape, dimension) + power) / dimension
    nodes, weights = _legendre(96)
    for low, high in ((0.0, inner), (inner, 1.0)):
        start = low + (high - low) * nodes
        max_end = np.minimum(1.0, (1 + multiple) / (2 - start))
        density = 2 * (start * (2 - start)) ** (shape - 1)
        density *= betainc(low_shape, dimension, max_end)
        mass += float(weights @ density) * (high - low)
    return math.log(mass) - power


@lru_cache(maxsize=1)
def _legendre(count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights that integrate polynomials from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


# Exact draws

_ONE = Fraction(1)
_BetaParameters: TypeAlias = tuple[int, int] | None  # None: the number is the constant 1


@lru_cache(maxsize=128)
def _components(shape: int, dimension: int) -> tuple[tuple[int, tuple[_BetaParameters, ...]], ...]:
    """Return the mixture of Beta distributions: integer weights, and parameters of three numbers.

    The first component is the case of a scale below 1 and a small reach. The second component is
    the case of a scale above 1 and a small reach. If the reach is above |scale - 1|, it is
    ``(peak - 1) + (peak - scale)``. The binomial theorem then gives one component for each power of
    peak - 1.
    """
    low_shape = shape - dimension
    parts: list[tuple[Fraction, tuple[_BetaParameters, ...]]] = [
        (
            _beta(low_shape, dimension + 1) / dimension,
            (None, (low_shape, dimension + 1), (dimension, 1)),
        ),
        (_beta(shape, dimension + 1) / dimension, ((shape, dimension + 1), None, (dimension, 1))),
    ]
    for i in range(dimension):
        mass = 2 * math.comb(dimension - 1, i) * _beta(shape, i + 1)
        mass *= _beta(low_shape, dimension - i)
        parts.append((mass, ((shape, i + 1), (low_shape, dimension - i), None)))
    common = math.lcm(*(mass.denominator for mass, _ in parts))
    return tuple((int(mass * common), distributions) for mass, distributions in parts)


def _beta(p: int, q: int) -> Fraction:
    """Return the Beta function of whole numbers."""
    return Fraction(1, p * math.comb(p + q - 1, p))


def _below(words: Words, count: int) -> int:
    """Return a uniform integer in ``[0, count)``."""
    size = count.bit_length()
    while (drawn := _bits(words, size)) >= count:
        pass
    return drawn


def _in_order(count: int, words: Words) -> list[_LazyUniform]:
    """Return uniform numbers, the smallest first."""

    def compare(a: _LazyUniform, b: _LazyUniform) -> int:
        return -1 if a.below(b) else 1

    drawn = [_LazyUniform(words) for _ in range(count)]
    return sorted(drawn, key=cmp_to_key(compare))


class _LazyPoint:
    """A point (x, scale) of the distribution around (0, 1), without signs, refined on demand."""

    def __init__(self, shape: int, dimension: int, words: Words) -> None:
        weights, distributions = zip(*_components(shape, dimension), strict=True)
        ends = list(accumulate(weights))
        chosen = distributions[bisect_right(ends, _below(words, ends[-1]))]
        # The p-th smallest of p + q - 1 uniform numbers is a Beta(p, q) variable.
        self._start, self._end, self._share = (
            None if pair is None else _in_order(pair[0] + pair[1] - 1, words)[pair[0] - 1]
            for pair in chosen
        )
        self._breaks = [None, *_in_order(dimension - 1, words), None]
        self._dimension = dimension

    def rounded(self, place: int, value: Fraction, scale: Fraction, sign: int) -> int:
        """Return ``value + sign * scale * number``, rounded. The last number is the scale."""
        precision = _WORD
        while True:
            bounds = self._bounds(place, precision)
            if bounds and (point := _unique_rounding(value, scale, bounds, sign)) is not None:
                return point
            precision += _WORD

    def _bounds(self, place: int, precision: int) -> _Interval | None:
        """Return an interval that holds |x_i|, or the scale. None if too few bits are drawn."""
        start, end, share = (
            _interval_of(part, precision) for part in (self._start, self._end, self._share)
        )
        if start[0] == 0:
            return None
        if place == self._dimension:
            return end[0] / start[1], end[1] / start[0]
        low, high = (_interval_of(x, precision) for x in self._breaks[place : place + 2])
        if place == 0:
            low = (Fraction(0), Fraction(0))
        gap = max(high[0] - low[1], Fraction(0)), high[1] - low[0]
        return (
            (2 - start[1] - end[1]) * share[0] * gap[0] / start[1],
            (2 - start[0] - end[0]) * share[1] * gap[1] / start[0],
        )


def _interval_of(number: _LazyUniform | None, precision: int) -> _Interval:
    """Return an interval that holds a uniform number, or 1 for None."""
    if number is None:
        return _ONE, _ONE
    number.refine_to(precision)
    top = number.top >> (number.precision - precision)
    return Fraction(top, 1 << precision), Fraction(top + 1, 1 << precision)
