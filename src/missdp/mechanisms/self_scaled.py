"""Noise that tells its own scale: an answer with an error bar, for one epsilon.

The scale of noise that follows a private bound S is as private as the answer. Here both are
released at once, by a law under which a row that moves both costs no more than one that moves
either.

**The law.** Points (q, S), of d numbers and a scale above 0, are at the distance of the least time
in which a path leads from one to the other, where q moves at a speed of at most S, in L1, and
log S at a speed of at most 1. This is a metric, and it stays as it is if all points are shifted
and dilated, (q, S) -> (b + c q, c S). So does the measure dq dS / S^(d + 1). Released is a point
(y, R) with the density proportional to exp(-shape * distance) by this measure, around
(q, S / alpha).

*Theorem.* The log-ratio under any joint shift ``|Delta|_1 <= S``, S the smaller bound, and dilation
``exp(s)``, ``|s| <= beta``, is at most ``shape * max(alpha, beta)``. *Proof.* The normalising
constant is the same for all q and S, as the measure and the distance stay as they are. The
log-ratio is at most shape times the distance of the two points, (q, S / alpha) and
(q', S' / alpha). Let S go to S' at a constant speed of its logarithm, and q to q' at a constant
speed, within the time max(alpha, beta): the first speed is at most 1; the scale on the way is at
least the smaller one, so a speed of S / alpha leads farther than S. ∎

**The distance** from (0, 1) to (x, w), r = |x|_1, is 2 log y - log w with
``y = (1 + w + max(r, |w - 1|)) / 2``. *Proof.* Up to y and down to w it takes this time, and
leads (y - 1) + (y - w) far; no path that takes no longer leads farther. y is at least 1 and w.
∎ So the density by dx dw is ``w^(shape - d - 1) y^(-2 shape)``, and shape must be above d.

**Draws.** Where r is above |w - 1|, put v = 1 / y and m = w v; else v = 1 or m = 1, whichever makes
w = m / v, and u = r / |w - 1|. Then r = (2 - v - m) u / v in all cases, and integrals of
products of powers remain: `_kinds` has them. All are Beta variables with whole parameters, order
statistics of uniform variables, which are drawn bit by bit, as in `smooth`, until the rounded
answers are settled. Directions are uniform in L1: the gaps between d - 1 uniform variables.

**Error bars** (`SelfScaledNoise.quantile`). By the same symmetry the law of |x_1| / w is the same
for all q and S, so a multiple of the released R holds the noise with a stated probability,
exactly: an integral of Beta functions, by quadrature.
"""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from missdp.errors import ParameterError, UnprovenError
from missdp.mechanisms.exact_noise import Words
from missdp.mechanisms.smooth import (
    SLACK,
    WORD,
    Bounded,
    Interval,
    LazyUniform,
    SmoothNoise,
    bits,
    check_weights,
    reference_bound,
    settled,
)
from missdp.types import Floats

__all__ = ["SelfScaledNoise", "plan_self_scaled"]

_Laws: TypeAlias = tuple[tuple[int, int] | None, ...]
_ONE = Fraction(1)
# Averages over equally near donors let real profiles start at .4 to 4, or far above in small tables
# with many holes. For none of the starts from .5 to 4 is a bar planned for this one a sixth longer
# than it could be.
_FIRST = 1.25


@dataclass(frozen=True, kw_only=True)
class SelfScaledNoise(SmoothNoise):
    """Noise in proportion to a smooth bound, and a number that tells its scale.

    The last of the exact numbers is 0: in its place the scale is released.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shape <= self.dimension:
            raise ParameterError("shape must be above the number of coordinates")

    def _loss(self, beta: float) -> float:
        return self.shape * max(self.alpha, beta)

    @property
    def coordinates(self) -> int:
        """How many numbers are released, the scale included."""
        return self.dimension + 1

    @property
    def standard_deviation(self) -> float:
        """That of a normal error with the same error bar, per unit of S, about."""
        return self.quantile(0.95) / 1.96 / self.alpha

    def quantile(self, level: float) -> float:
        """Half-width that holds a coordinate's noise with probability ``level``, per unit of R."""
        if not 0 < level < 1:
            raise ParameterError("level must be between 0 and 1")
        return _quantile(level, self.shape, self.dimension)

    def radius(self, level: float, told: float) -> float:
        """Return the half-width that holds a coordinate's noise, where R came out as ``told``."""
        half = float(self.grid) / 2  # by which each number is rounded
        return self.quantile(level) * (max(told, 0.0) + half) + half

    def _points(self, steps: Sequence[Fraction], scale: Fraction, words: Words) -> list[int]:
        drawn = _Drawn(self.shape, self.dimension, words)
        signs = [1 - 2 * bits(words, 1) for _ in steps[1:]]
        return [
            drawn.rounded(which, value, scale, sign)
            for which, (value, sign) in enumerate(zip(steps, (*signs, 1), strict=True))
        ]

    def _log_density(self, answer: tuple[Fraction, ...], exact: Bounded) -> float:
        """Return the logarithm of the density, by a measure that is the same for all."""
        scale = exact.bound / self.alpha
        *numbers, told = answer
        off = sum(abs(float(a - t)) for a, t in zip(numbers, exact.totals, strict=False)) / scale
        w = float(max(told, self.grid / 2)) / scale
        y = (1 + w + max(off, abs(w - 1))) / 2
        return self.shape * (math.log(w) - 2 * math.log(y))


@lru_cache(maxsize=512)
def plan_self_scaled(
    epsilon: float, *, own: float = 1.0, donee: float = 1.0, dimension: int = 1
) -> SelfScaledNoise:
    """Choose the noise parameters of the shortest error bar, from public facts only.

    On the reference profile M_j = 1.25 + j, never on the table at hand.
    """
    check_weights(epsilon, own, donee)

    def bar(noise: SelfScaledNoise) -> float:
        return noise.standard_deviation * reference_bound(noise.beta, own, donee, _FIRST)

    plans = list(_plans(epsilon, dimension))
    if not plans:
        raise UnprovenError("no noise parameters are proven for this epsilon and dimension")
    return replace(min(plans, key=bar), own=float(own), donee=float(donee))


def _plans(epsilon: float, dimension: int) -> Iterator[SelfScaledNoise]:
    """Yield one plan for each of some shapes."""
    shapes = np.geomspace(dimension + 1, max(64, 8 * dimension), 60).round().astype(int)
    for shape in np.unique(shapes).tolist():
        beta = epsilon * (1 - SLACK) / shape
        if beta > 2.0**-30:
            yield SelfScaledNoise(
                epsilon=epsilon, shape=shape, alpha=beta, beta=beta, dimension=dimension
            )


# Error bars


@lru_cache(maxsize=4096)
def _quantile(level: float, shape: int, dimension: int) -> float:
    """Return c with P(|x_1| <= c w) = level."""
    from scipy.optimize import brentq

    wanted = math.log1p(-level) + _log_beyond(0.0, shape, dimension)

    def off(log_c: float) -> float:
        return _log_beyond(math.exp(log_c), shape, dimension) - wanted

    farthest = (9 - math.log1p(-level)) / (shape - dimension) + 4
    return math.exp(brentq(off, -40.0, farthest, xtol=1e-9))


def _log_beyond(c: float, shape: int, dimension: int) -> float:
    """Return the log of the mass of |x_1| > c w, in units of B(shape - d, d).

    The law of the gaps leaves (r - c w)^(d - 1) of r^(d - 1); then m, or v and u, are integrated.
    """
    from scipy.special import betainc, betaln

    a, d, inner = shape, dimension, max(0.0, 1 - c)
    power = (a - d) * math.log1p(c)  # taken out of all terms
    mass = 1 / a
    if inner > 0:
        far = (a + d) * math.log(inner) + betaln(a, d + 1) - betaln(a - d, d)
        mass += math.exp(far + power) / d
    nodes, weights = _legendre(96)
    for low, high in ((0.0, inner), (inner, 1.0)):
        v = low + (high - low) * nodes
        most = np.minimum(1.0, (1 + c) / (2 - v))
        density = 2 * (v * (2 - v)) ** (a - 1) * betainc(a - d, d, most)
        mass += float(weights @ density) * (high - low)
    return math.log(mass) - power


@lru_cache(maxsize=1)
def _legendre(count: int) -> tuple[Floats, Floats]:
    """Return nodes and weights that integrate polynomials from 0 to 1."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return (nodes + 1) / 2, weights / 2


# Exact draws


@lru_cache(maxsize=128)
def _kinds(shape: int, dimension: int) -> tuple[tuple[int, _Laws], ...]:
    """Return the parts of the law: whole weights, and the Beta laws of v, m and u (None: 1).

    Where r is above |w - 1|, r^(d - 1) is a sum of products of powers of y - 1 and y - w.
    """
    a, d = shape, dimension
    parts: list[tuple[Fraction, _Laws]] = [
        (_beta(a - d, d + 1) / d, (None, (a - d, d + 1), (d, 1))),
        (_beta(a, d + 1) / d, ((a, d + 1), None, (d, 1))),
    ]
    for i in range(d):
        mass = 2 * math.comb(d - 1, i) * _beta(a, i + 1) * _beta(a - d, d - i)
        parts.append((mass, ((a, i + 1), (a - d, d - i), None)))
    whole = math.lcm(*(mass.denominator for mass, _ in parts))
    return tuple((int(mass * whole), laws) for mass, laws in parts)


def _beta(p: int, q: int) -> Fraction:
    """Return the Beta function of whole numbers.

    >>> _beta(2, 3)
    Fraction(1, 12)
    """
    return Fraction(1, p * math.comb(p + q - 1, p))


def _below(words: Words, count: int) -> int:
    """Return a uniform integer in ``[0, count)``."""
    size = count.bit_length()
    while (drawn := bits(words, size)) >= count:
        pass
    return drawn


def _in_order(count: int, words: Words) -> list[LazyUniform]:
    """Return uniform numbers, the smallest first."""

    def compare(a: LazyUniform, b: LazyUniform) -> int:
        return -1 if a.below(b) else 1

    drawn = [LazyUniform(words) for _ in range(count)]
    return sorted(drawn, key=functools.cmp_to_key(compare))


class _Drawn:
    """A point (x, w) of the law around (0, 1), known as closely as is asked for; signs apart."""

    def __init__(self, shape: int, dimension: int, words: Words) -> None:
        weights, kinds = zip(*_kinds(shape, dimension), strict=True)
        ends = list(accumulate(weights))
        laws = kinds[bisect_right(ends, _below(words, ends[-1]))]
        # The p-th smallest of p + q - 1 uniform numbers is a Beta(p, q) variable.
        self._parts = [
            None if law is None else _in_order(law[0] + law[1] - 1, words)[law[0] - 1]
            for law in laws
        ]
        self._cuts = [None, *_in_order(dimension - 1, words), None]
        self._dimension = dimension

    def rounded(self, which: int, value: Fraction, scale: Fraction, sign: int) -> int:
        """Return ``value + sign * scale * number``, rounded; the last number is w."""
        precision = WORD
        while True:
            bounds = self._bounds(which, precision)
            if bounds and (point := settled(value, scale, bounds, sign)) is not None:
                return point
            precision += WORD

    def _bounds(self, which: int, precision: int) -> Interval | None:
        """Return between which numbers |x_i|, or w, is; None if that is too little known."""
        v, m, u = (_known(part, precision) for part in self._parts)
        if v[0] == 0:
            return None
        if which == self._dimension:
            return m[0] / v[1], m[1] / v[0]
        low, high = (_known(cut, precision) for cut in self._cuts[which : which + 2])
        if which == 0:
            low = (Fraction(0), Fraction(0))
        gap = max(high[0] - low[1], Fraction(0)), high[1] - low[0]
        return (2 - v[1] - m[1]) * u[0] * gap[0] / v[1], (2 - v[0] - m[0]) * u[1] * gap[1] / v[0]


def _known(number: LazyUniform | None, precision: int) -> Interval:
    """Return between which numbers a uniform one is, or 1 for None."""
    if number is None:
        return _ONE, _ONE
    number.refine_to(precision)
    top = number.top >> (number.precision - precision)
    return Fraction(top, 1 << precision), Fraction(top + 1, 1 << precision)
