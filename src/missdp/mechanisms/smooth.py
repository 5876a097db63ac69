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
``M_j = 4 + j`` (the slowest growth possible is one per step), never on the table at hand.

The scale of Lomax noise stays private, so nobody can say how far an answer may be off. Noise that
tells its own scale is in `self_scaled`.

**A released bound** (`ScaleRelease` with ``rho`` and ``delta``) is what Gaussian noise needs. The
logarithm of ``T = max_j exp(-beta j) A_j`` (the smooth bound with weights own = 0, donee = 1)
changes by at most ``beta`` between neighbours (`log_moves` says how far its rounding does), so it
can be released with Gaussian noise; adding a quantile of that noise gives an upper bound that fails
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
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from missdp.accounting import Cost, Event
from missdp.errors import ParameterError, UnprovenError, number, whole
from missdp.mechanisms.exact_noise import Words, os_words, seeded_words
from missdp.mechanisms.noise import Noise, NoiseSource, SeededNoise, above, pure_exceeds

__all__ = ["ReleasedScale", "ScaleRelease"]


def _lomax_loss(alpha: float, beta: float, *, shape: int, dimension: int = 1) -> float:
    """Worst log-ratio of Lomax noise under a shift of ``alpha`` and a dilation of ``exp(beta)``."""
    shifted = (shape + dimension) * math.log1p(alpha) + dimension * beta
    return max(shape * beta, shifted)


@dataclass(frozen=True, repr=False)
class Bounded:
    """Exact numbers and how far a neighbour can move them. Private."""

    totals: tuple[int, ...]
    bound: float


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
        return _lomax_loss(self.alpha, beta, shape=self.shape, dimension=self.dimension)

    @property
    def standard_deviation(self) -> float:
        """Standard deviation of a coordinate of the noise per unit of S; may be infinite."""
        a = self.shape
        return math.sqrt(2 / ((a - 1) * (a - 2))) / self.alpha if a > 2 else math.inf

    def quantile(self, level: float) -> float:
        """Half-width that holds a coordinate's noise with probability ``level``, per unit of S."""
        if not 0 < level < 1:
            raise ParameterError("level must be between 0 and 1")
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
        return _round_lomax(steps, scale, shape=self.shape, words=words)

    def exceeds(self, event: Event, exact: Bounded, other: Bounded) -> str | None:
        """Return why an event does not pay for two neighbours, if it does not.

        The answer may move by no more than either private bound, and the logarithm of the bound by
        beta.
        """
        beta = self.beta + 2.0**-36  # bounds are rounded up
        return _bounds_exceed(exact, other, beta) or pure_exceeds(event, self.epsilon)

    def log_ratio(self, answer: tuple[Fraction, ...], exact: Bounded, other: Bounded) -> float:
        """Return the log of the answer's density given ``exact`` over that given ``other``.

        Of the real-valued answer, before it is rounded to the grid.
        """
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


# Room for rounding S upwards and for floating point, taken off beta and off epsilon.
SLACK = 2.0**-20
_REFERENCE_LEVEL = 4.0


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
    epsilon: float, *, own: float = 1.0, donee: float = 1.0, dimension: int = 1
) -> SmoothNoise:
    """Choose the noise parameters of the least standard deviation, from public facts only."""
    check_weights(epsilon, own, donee)

    def error(noise: SmoothNoise) -> float:
        return noise.standard_deviation * reference_bound(noise.beta, own, donee)

    plans = list(_plans(epsilon, dimension))
    if not plans:
        raise UnprovenError("no noise parameters are proven for this epsilon and dimension")
    return replace(min(plans, key=error), own=float(own), donee=float(donee))


def check_weights(epsilon: float, own: float, donee: float) -> None:
    """Refuse an epsilon and weights for which no noise can be planned."""
    if not 0 < epsilon < math.inf:
        raise ParameterError("epsilon must be finite and above 0")
    if not (own >= 0 and donee >= 0 and own + donee > 0):
        raise ParameterError("weights must be at least 0 and not both 0")


def _plans(epsilon: float, dimension: int) -> Iterator[SmoothNoise]:
    """Yield one plan per shape, with beta and alpha as large as the theorem allows."""
    spend = epsilon * (1 - SLACK)
    for shape in range(max(3, dimension + 1), max(64, 8 * dimension) + 1):
        beta = spend / shape
        # A huge epsilon may not overflow; less alpha only means more noise.
        alpha = math.expm1(min((spend - dimension * beta) / (shape + dimension), 500.0))
        if beta > 2.0**-30 and alpha > 0:
            yield SmoothNoise(
                epsilon=epsilon, shape=shape, alpha=alpha, beta=beta, dimension=dimension
            )


_STEPS = 1 << 20


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

    def released(self, steps: float) -> ReleasedScale:
        """Return the upper bound that a noisy logarithm, in steps, stands for."""
        beta = self.beta
        margin = log_moves(beta) / _STEPS * self._quantile
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


def log_steps(bound: float) -> int:
    """Return the logarithm of a bound, rounded up to whole steps; private."""
    return math.ceil(math.log(bound) * _STEPS)


def log_moves(beta: float) -> int:
    """Return how far the rounded logarithm of a beta-smooth bound moves, in steps."""
    return math.ceil((beta + 2.0**-36) * _STEPS) + 1


def _least(beta: float) -> float:
    """What T is at least, on any table: A_j >= j."""
    return max(j * math.exp(-beta * j) for j in (math.floor(1 / beta), math.ceil(1 / beta)))


@lru_cache(maxsize=128)
def _best_beta(most: float, quantile: float) -> float:
    """The beta whose released bound is smallest on the public reference profile.

    At most an eighth of what the release costs.
    """
    grid = np.geomspace(min(2.0**-12, most), most, 200).tolist()

    def log_bound(beta: float) -> float:
        return math.log(reference_bound(beta, 0.0, 1.0)) + log_moves(beta) / _STEPS * quantile

    return float(min(grid, key=log_bound))


# Exact draws

WORD = 64
Interval: TypeAlias = tuple[Fraction, Fraction]


def bits(words: Words, count: int) -> int:
    """Return a uniform integer in ``[0, 2**count)``."""
    drawn = -(-count // 64)
    return int.from_bytes(words(drawn).tobytes(), "little") >> (64 * drawn - count)


class LazyUniform:
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

    def below(self, other: LazyUniform) -> bool:
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
            first = last = LazyUniform(words)
            length = 1
            while (following := LazyUniform(words)).below(last):
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


def settled(value: Fraction, scale: Fraction, bounds: Interval, sign: int) -> int | None:
    """Nearest integer to ``value + sign * scale * noise`` if ``bounds`` on the noise decide it."""
    half = Fraction(1, 2)
    ends = {math.floor(value + sign * scale * bound + half) for bound in bounds}
    return ends.pop() if len(ends) == 1 else None


def _round_lomax(
    values: Sequence[Fraction], scale: Fraction, *, shape: int, words: Words
) -> list[int]:
    """Round ``values + scale * X`` to integers, X with density prop. to (1 + |x|_1)^-(shape + d).

    X is a vector of d independent Laplace variables divided by one Gamma(shape) variable, so each
    coordinate is two-sided Lomax: ``P(|X_i| > t) = (1 + t)**-shape``.
    """
    gamma = [_LazyExponential(words) for _ in range(shape)]
    return [_one_lomax(value, scale, gamma, words) for value in values]


def _one_lomax(
    value: Fraction, scale: Fraction, gamma: Sequence[_LazyExponential], words: Words
) -> int:
    sign = 1 - 2 * bits(words, 1)
    top = _LazyExponential(words)
    precision = WORD
    while True:
        numerator = top.scaled(precision)
        divisor = sum(part.scaled(precision) for part in gamma)
        if divisor > 0:
            bounds = (
                Fraction(numerator, divisor + len(gamma)),
                Fraction(numerator + 1, divisor),
            )
            if (point := settled(value, scale, bounds, sign)) is not None:
                return point
        precision += WORD
