"""Release with smooth sensitivity: noise proportional to a private bound, and still pure DP.

A beta-smooth bound S of a query's local sensitivity satisfies ``S(D) >= LS(D)`` and
``S(D) <= exp(beta) * S(D')`` for neighbours (Nissim, Raskhodnikova & Smith 2007). Noise of scale
``S / alpha`` is private if its law hardly changes when it is shifted by ``alpha`` and dilated by
``exp(beta)`` at once.

**Lomax** noise has a density proportional to ``(1 + |x|_1) ** -(shape + d)`` on d coordinates, a
Laplace vector over a Gamma(shape) variable.

*Theorem.* Its worst log-ratio under any joint shift ``|Delta|_1 <= alpha`` and dilation ``exp(s)``,
``|s| <= beta``, is exactly ``max(shape * beta, (shape + d) * log(1 + alpha) + d * beta)``.
*Proof.* With r = |x|_1 the log-ratio is (shape + d) log[(1 + |e^s x + Delta|) / (1 + r)] - s d, at
most (shape + d) log[(1 + alpha + e^s r) / (1 + r)] - s d with equality for a Delta along x. The
bracket is monotone in r from 1 + alpha (at 0) to e^s (at infinity). So the supremum is the larger
of (shape + d) log(1 + alpha) - s d, worst at s = -beta, and shape * s, worst at s = beta. Shifts
are in units of the denominator's scale; both tables may take that place, because the query's
change is within the smooth bounds of both. ∎

As beta tends to 0 this tends to the Laplace mechanism with the full epsilon; it is in the spirit of
Hladík & Tětek (2025, "Smooth sensitivity revisited: towards optimality"), who show that such tails
are near optimal. For a survey-like table its variance is 3 to 4 times below generalised Cauchy's.

**Parameters** (`plan_smooth`) depend on epsilon, the number of coordinates and the query's public
weights only. They minimise the noise's standard deviation on a fixed reference profile
``M_j = 4 + j`` (the slowest growth possible is one per step; 1.25 + j for noise that tells its
scale), never on the table at hand.

The scale of Lomax noise stays private, so nobody can say how far an answer may be off.

**A released bound** (`ScaleRelease` with ``rho`` and ``delta``) is what Gaussian noise needs. The
logarithm of ``T = max_j exp(-beta j) A_j`` (the smooth bound with weights own = 0, donee = 1)
changes by at most ``beta`` between neighbours (``moves`` says how far its rounding does), so it can
be released with Gaussian noise; adding a quantile of that noise gives an upper bound that fails
with the probability delta. ``own + donee * T`` bounds how far one row moves every query.

Later queries may use plain Gaussian noise at the released scale. *Proof.* Couple the output under D
with one whose later queries are replaced by their value on D' whenever the released bound is below
M_0(D): the two differ with probability at most delta, and the second is zCDP with respect to D'
(each later query then moves by at most own + donee * bound). So the total is
(epsilon, delta' + delta)-DP for every (epsilon, delta') that the zCDP parts give. ∎

**Exact draws.** Floating-point noise leaks: which doubles can occur depends on the scale and on the
value it is added to (Mironov 2012), and with smooth sensitivity the scale itself is private. Here a
real random number is a *lazy* one, an interval that shrinks as random bits are drawn, and the sum
``value + scale * noise`` is refined until the whole interval rounds to one point of the grid.
What comes out is therefore exactly the rounding of the ideal real-valued release: it is
post-processing of a mechanism that the privacy proof covers, with nothing approximated.

Noise that tells its own scale
------------------------------
The answer and the scale of its noise are released at once, for one epsilon, by a law under which a
row that moves both costs no more than one that moves either.

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
statistics of uniform variables, which are drawn bit by bit until the rounded answers are settled.
Directions are uniform in L1: the gaps between d - 1 uniform variables.

**Error bars** (`SelfScaledNoise.quantile`). By the same symmetry the law of |x_1| / w is the same
for all q and S, so a multiple of the released R holds the noise with a stated probability,
exactly: an integral of Beta functions, by quadrature.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cmp_to_key, lru_cache
from itertools import accumulate
from typing import TypeAlias

import numpy as np

from missdp.accounting import Cost, Event
from missdp.errors import ParameterError, UnprovenError, number, whole
from missdp.mechanisms.exact_noise import (
    WORD,
    Interval,
    NoiseSource,
    SeededNoise,
    Words,
    bits,
    os_words,
    seeded_words,
    settled,
)
from missdp.mechanisms.noise import Noise, above, pure_exceeds
from missdp.types import Floats

# Room for rounding S upwards and for floating point, taken off beta and off epsilon.
_SLACK = 2.0**-20
_LEAST_BETA = 2.0**-16 * (1 + _SLACK)  # for less, bounds are rounded up by more than the slack
_REFERENCE_LEVEL = 4.0
# Averages over equally near donors let real profiles start at .4 to 4, or far above in small tables
# with many holes. For none of the starts from .5 to 4 is a bar planned for this one a sixth longer
# than it could be.
_FIRST = 1.25
_STEPS = 1 << 20


@dataclass(frozen=True, repr=False)
class Bounded:
    """Exact numbers and how far a neighbour can move them. Private."""

    totals: tuple[int, ...]
    bound: float


class _LazyUniform:
    """A uniform real in (0, 1), known to lie in ``[top, top + 1] / 2**precision``."""

    __slots__ = ("_words", "precision", "top")

    def __init__(self, words: Words) -> None:
        self._words = words
        self.top = bits(words, WORD)
        self.precision = WORD

    def refine_to(self, precision: int) -> None:
        """Draw bits until at least ``precision`` are known."""
        while self.precision < precision:
            self.top = (self.top << WORD) | bits(self._words, WORD)
            self.precision += WORD

    def below(self, other: _LazyUniform) -> bool:
        """Decide whether this number is below ``other``, drawing as many bits as it takes."""
        while True:
            if self.precision == other.precision and self.top != other.top:
                return self.top < other.top
            precision = max(self.precision, other.precision)
            if self.precision == other.precision:
                precision += WORD
            self.refine_to(precision)
            other.refine_to(precision)


class _LazyExponential:
    """A standard exponential real number: a whole part and a lazy uniform fraction.

    Von Neumann's method: the length of the first non-increasing run of uniforms that starts at U
    is odd with probability exp(-U), which is the density of the fraction; every rejected run adds
    one to the whole part.
    """

    __slots__ = ("fraction", "whole")

    def __init__(self, words: Words) -> None:
        self.whole = 0
        while True:
            first = last = _LazyUniform(words)
            length = 1
            while (following := _LazyUniform(words)).below(last):
                last = following
                length += 1
            if length % 2:
                self.fraction = first
                return
            self.whole += 1

    def scaled(self, precision: int) -> int:
        """Return the integer ``e`` with this number in ``[e, e + 1] / 2**precision``."""
        self.fraction.refine_to(precision)
        top = self.fraction.top >> (self.fraction.precision - precision)
        return (self.whole << precision) + top


@dataclass(frozen=True, kw_only=True)
class SmoothNoise:
    """Lomax noise in proportion to a smooth bound of how far one row moves the numbers.

    That is ``own + donee * (rows that one row can move)``. Epsilon-DP by construction. Its
    parameters are public; the bound comes with the exact numbers.
    """

    epsilon: float
    shape: int
    alpha: float
    beta: float
    dimension: int = 1
    own: float = 1.0
    donee: float = 1.0

    def __post_init__(self) -> None:
        if not (0 < self.epsilon < math.inf and self.alpha > 0 and self.beta > 0):
            raise ParameterError("epsilon, alpha and beta must be finite and above 0")
        whole("dimension", self.dimension)
        whole("shape", self.shape)
        # The slack covers S rounded up by a factor of at most 1 + 2**-40 and float rounding here.
        if self._loss(self.beta + 2.0**-36) * (1 + 2.0**-40) > self.epsilon:
            raise UnprovenError("these noise parameters are not proven to give this epsilon")

    def _loss(self, beta: float) -> float:
        """Return what the noise costs if the logarithm of the bound moves by ``beta``."""
        shifted = (self.shape + self.dimension) * math.log1p(self.alpha) + self.dimension * beta
        return max(self.shape * beta, shifted)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of a coordinate of the noise per unit of S; may be infinite."""
        a = self.shape
        return math.sqrt(2 / ((a - 1) * (a - 2))) / self.alpha if a > 2 else math.inf

    def quantile(self, level: float) -> float:
        """Half-width that holds a coordinate's noise with probability ``level``, per unit of S."""
        if not 0 < level < 1:
            raise ParameterError("level must be between 0 and 1")
        return self._reach(level)

    def _reach(self, level: float) -> float:
        return math.expm1(-math.log1p(-level) / self.shape) / self.alpha

    @property
    def coordinates(self) -> int:
        """How many numbers are released."""
        return self.dimension

    @property
    def grid(self) -> Fraction:
        """Public spacing of the answers: a power of two, far finer than any noise there can be."""
        exponent = math.floor(math.log2(max(self.own, self.donee) / self.epsilon)) - 8
        return Fraction(2) ** exponent

    def draw(self, exact: Bounded, source: NoiseSource) -> tuple[Fraction, ...]:
        """Return the numbers plus noise: the exact rounding, to the grid, of real-valued answers.

        The generator of a source that somebody else wrote is for post-processing; it is not used.
        """
        if len(exact.totals) != self.coordinates:
            raise ParameterError(f"this noise is for {self.coordinates} coordinate(s)")
        if not 0 < (bound := exact.bound) < math.inf:
            raise ParameterError("the smooth bound must be finite and above 0")
        seeded = isinstance(source, SeededNoise)
        words = seeded_words(source.generator()) if seeded else os_words
        scale = Fraction(bound) / Fraction(self.alpha) / self.grid
        steps = [Fraction(total) / self.grid for total in exact.totals]
        return tuple(point * self.grid for point in self._points(steps, scale, words))

    def _points(self, steps: Sequence[Fraction], scale: Fraction, words: Words) -> list[int]:
        """Return ``steps`` plus noise of a scale, rounded to whole numbers."""
        gamma = [_LazyExponential(words) for _ in range(self.shape)]
        return [_one_lomax(step, scale, gamma, words) for step in steps]

    def exceeds(self, event: Event, exact: Bounded, other: Bounded) -> str | None:
        """Return why an event does not pay.

        The answer may move by either private bound, and the logarithm of the bound by beta.
        """
        beta = self.beta + 2.0**-36  # bounds are rounded up
        return _bounds_exceed(exact, other, beta) or pure_exceeds(event, self.epsilon)

    def log_ratio(self, answer: tuple[Fraction, ...], exact: Bounded, other: Bounded) -> float:
        """Return the log-ratio of the densities of the real-valued answer, before it is rounded."""
        return self._log_density(answer, exact) - self._log_density(answer, other)

    def _log_density(self, answer: tuple[Fraction, ...], exact: Bounded) -> float:
        scale = exact.bound / self.alpha
        off = sum(abs(float(a - t)) for a, t in zip(answer, exact.totals, strict=True)) / scale
        tail = (self.shape + len(answer)) * math.log1p(off)
        return -tail - len(answer) * math.log(scale)


def _bounds_exceed(exact: Bounded, other: Bounded, beta: float) -> str | None:
    """Say that numbers moved further than their private bounds, or the bounds too far."""
    moved = float(sum(abs(a - b) for a, b in zip(exact.totals, other.totals, strict=True)))
    low, high = sorted((exact.bound, other.bound))
    if above(moved, low):
        return f"one row moves what is behind it by {moved:g}, and its private bound is {low:g}"
    if not low > 0 or above(math.log(high / low), beta):
        return (
            f"one row moves the private bound from {low:g} to {high:g}, more than a factor of "
            f"{math.exp(beta):g}"
        )
    return None


def reference_bound(
    beta: float, own: float, donee: float, first: float = _REFERENCE_LEVEL
) -> float:
    """S_beta of the profile M_j = first + j: max of exp(-beta j)(own + donee (first + j))."""
    level = own + donee * first
    if donee <= 0 or beta * level >= donee:
        return level
    return donee / beta * math.exp(beta * level / donee - 1)


@lru_cache(maxsize=512)
def plan_smooth(
    epsilon: float,
    *,
    own: float = 1.0,
    donee: float = 1.0,
    dimension: int = 1,
    tells: bool = False,
) -> SmoothNoise:
    """Choose the noise of the least standard deviation, or shortest error bar, by public facts."""
    if not 0 < epsilon < math.inf:
        raise ParameterError("epsilon must be finite and above 0")
    if not (own >= 0 and donee >= 0 and own + donee > 0):
        raise ParameterError("weights must be at least 0 and not both 0")
    first = _FIRST if tells else _REFERENCE_LEVEL

    def error(noise: SmoothNoise) -> float:
        return noise.standard_deviation * reference_bound(noise.beta, own, donee, first)

    plans = list((_telling_plans if tells else _lomax_plans)(epsilon, dimension))
    if not plans:
        shape = dimension + 1 if tells else max(3, dimension + 1)
        raise UnprovenError(
            f"no noise is proven for {dimension} numbers at once at epsilon {epsilon:g}: it takes "
            f"about {shape * _LEAST_BETA / (1 - _SLACK):.2g}"
        )
    return replace(min(plans, key=error), own=float(own), donee=float(donee))


def _lomax_plans(epsilon: float, dimension: int) -> Iterator[SmoothNoise]:
    """Yield one plan per shape, with beta and alpha as large as the theorem allows."""
    spend = epsilon * (1 - _SLACK)
    for shape in range(max(3, dimension + 1), max(64, 8 * dimension) + 1):
        beta = spend / shape
        # A huge epsilon may not overflow; less alpha only means more noise.
        alpha = math.expm1(min((spend - dimension * beta) / (shape + dimension), 500.0))
        if beta > _LEAST_BETA and alpha > 0:
            yield SmoothNoise(
                epsilon=epsilon, shape=shape, alpha=alpha, beta=beta, dimension=dimension
            )


@dataclass(frozen=True, kw_only=True)
class ScaleRelease:
    """Asks for error bars: answers then tell the scale of their noise, for the same epsilon.

    With ``rho`` and ``delta`` an upper bound of that scale is released, too, once and now; it
    allows Gaussian noise. ``smoothness`` is that bound's beta; it follows by a public rule if not
    given. ``epsilon`` is what such a bound once cost: it changes nothing, and is not charged.
    """

    epsilon: float | None = None
    rho: float | None = None
    delta: float | None = None
    smoothness: float | None = None

    def __post_init__(self) -> None:
        if (self.rho is None) != (self.delta is None):
            raise ParameterError("a bound for Gaussian noise is paid for with rho and delta")
        if self.epsilon is not None and self.rho is not None:
            raise ParameterError("give epsilon, or rho and delta, and not both")
        for paid in (self.epsilon, self.rho):
            if paid is not None:
                number("epsilon or rho", paid, least=1e-9, most=1e9, open_end=True)
        if self.delta is not None:
            number("delta", self.delta, least=1e-100, most=0.1, open_end=True)
        if self.smoothness is not None:
            number("smoothness", self.smoothness, least=2.0**-30, most=64.0)

    @property
    def gaussian(self) -> bool:
        """Whether a bound that may calibrate Gaussian noise is released."""
        return self.rho is not None

    @property
    def beta(self) -> float:
        """Smoothness of the released bound: as given, or by the public rule."""
        if self.smoothness is not None:
            return self.smoothness
        return _best_beta(math.sqrt(2 * (self.rho or 0.0)) / 8, self._quantile)

    @property
    def _quantile(self) -> float:
        """How far the noise reaches, for a logarithm that a row moves by one."""
        from scipy.special import ndtri

        failure = (self.delta or 0.0) * (1 - 2.0**-10)
        return -float(ndtri(failure)) / math.sqrt(2 * (self.rho or 0.0))

    @property
    def cost(self) -> Cost:
        """What the bound costs, its failure apart."""
        return Cost(currency="zcdp", amount=self.rho or 0.0)

    @property
    def moves(self) -> int:
        """How far the rounded logarithm of the beta-smooth bound moves, in steps."""
        return _log_moves(self.beta)

    @staticmethod
    def steps(bound: float) -> int:
        """Return the logarithm of a bound, rounded up to whole steps; private."""
        return math.ceil(math.log(bound) * _STEPS)

    def released(self, steps: float) -> ReleasedScale:
        """Return the upper bound that a noisy logarithm, in steps, stands for."""
        beta = self.beta
        margin = self.moves / _STEPS * self._quantile
        told = math.exp(min(steps / _STEPS + margin + 2.0**-16, 700.0))
        return ReleasedScale(max(told, _least(beta)), self.delta or 0.0)


@dataclass(frozen=True)
class ReleasedScale:
    """A released upper bound of T, too low with probability ``failure``; public."""

    donees: float
    failure: float

    def noise(self, rho: float, *, own: float, donee: float) -> Noise:
        """Return the Gaussian noise that is rho-zCDP as long as the bound holds."""
        # Room for rounding: the event states rho, and not the scale.
        sigma = (own + donee * self.donees) / math.sqrt(2 * rho) * (1 + 2.0**-48)
        return Noise("gaussian", sigma)


def _log_moves(beta: float) -> int:
    return math.ceil((beta + 2.0**-36) * _STEPS) + 1


def _least(beta: float) -> float:
    """What T is at least, on any table: A_j >= j."""
    return max(j * math.exp(-beta * j) for j in (math.floor(1 / beta), math.ceil(1 / beta)))


@lru_cache(maxsize=128)
def _best_beta(most: float, quantile: float) -> float:
    """The beta, at most an eighth of the cost, whose bound is smallest on the reference profile."""
    grid = np.geomspace(min(2.0**-12, most), most, 200).tolist()

    def log_bound(beta: float) -> float:
        return math.log(reference_bound(beta, 0.0, 1.0)) + _log_moves(beta) / _STEPS * quantile

    return float(min(grid, key=log_bound))


# Exact draws


def _one_lomax(
    value: Fraction, scale: Fraction, gamma: Sequence[_LazyExponential], words: Words
) -> int:
    """Round ``value + scale * X``, X a Laplace over a Gamma variable: two-sided Lomax.

    That is, ``P(|X| > t) = (1 + t)**-shape``; the Gamma variable is shared by all coordinates.
    """
    sign = 1 - 2 * bits(words, 1)
    top = _LazyExponential(words)
    precision = WORD
    while True:
        numerator = top.scaled(precision)
        divisor = sum(part.scaled(precision) for part in gamma)
        if divisor > 0:
            bounds = Fraction(numerator, divisor + len(gamma)), Fraction(numerator + 1, divisor)
            if (point := settled(value, scale, bounds, sign)) is not None:
                return point
        precision += WORD


# Noise that tells its own scale

_Laws: TypeAlias = tuple[tuple[int, int] | None, ...]
_ONE = Fraction(1)


@dataclass(frozen=True, kw_only=True)
class SelfScaledNoise(SmoothNoise):
    """Smooth noise that tells its scale, in the place of the last exact number, which is 0."""

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

    def _reach(self, level: float) -> float:
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


def _telling_plans(epsilon: float, dimension: int) -> Iterator[SelfScaledNoise]:
    """Yield one plan for each of some shapes."""
    shapes = np.geomspace(dimension + 1, max(64, 8 * dimension), 60).round().astype(int)
    for shape in np.unique(shapes).tolist():
        beta = epsilon * (1 - _SLACK) / shape
        if beta > _LEAST_BETA:
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
    """Return the Beta function of whole numbers."""
    return Fraction(1, p * math.comb(p + q - 1, p))


def _below(words: Words, count: int) -> int:
    """Return a uniform integer in ``[0, count)``."""
    size = count.bit_length()
    while (drawn := bits(words, size)) >= count:
        pass
    return drawn


def _in_order(count: int, words: Words) -> list[_LazyUniform]:
    """Return uniform numbers, the smallest first."""

    def compare(a: _LazyUniform, b: _LazyUniform) -> int:
        return -1 if a.below(b) else 1

    drawn = [_LazyUniform(words) for _ in range(count)]
    return sorted(drawn, key=cmp_to_key(compare))


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


def _known(number: _LazyUniform | None, precision: int) -> Interval:
    """Return between which numbers a uniform one is, or 1 for None."""
    if number is None:
        return _ONE, _ONE
    number.refine_to(precision)
    top = number.top >> (number.precision - precision)
    return Fraction(top, 1 << precision), Fraction(top + 1, 1 << precision)
