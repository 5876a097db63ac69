"""Laws of answers whose noise follows a private bound, drawn exactly.

Every law holds public numbers only: how much noise there is per unit of the bound, and how far the
exact numbers may move. The private bound comes with the exact numbers (`Bounded`).

Floating-point noise leaks: which doubles can occur depends on the scale and on the value it is
added to (Mironov 2012), and with smooth sensitivity the scale itself is private. Here a real
random number is a *lazy* one, an interval that shrinks as more random bits are drawn, and the sum
``value + scale * noise`` is refined until the whole interval rounds to one point of the grid.
What comes out is therefore exactly the rounding of the ideal real-valued release: it is
post-processing of a mechanism that the privacy proof covers, with nothing approximated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from missdp.accounting import Event
from missdp.errors import ParameterError
from missdp.mechanisms.exact_noise import Words, os_words, seeded_words
from missdp.mechanisms.noise import NoiseSource, SeededNoise, above, pure_exceeds
from missdp.mechanisms.smooth import SmoothNoise, public_grid

_STEP = 64
Interval = tuple[Fraction, Fraction]


def _bits(words: Words, count: int) -> int:
    """Return a uniform integer in ``[0, 2**count)``."""
    drawn = -(-count // 64)
    return int.from_bytes(words(drawn).tobytes(), "little") >> (64 * drawn - count)


class _LazyUniform:
    """A uniform real in (0, 1), known to lie in ``[top, top + 1] / 2**precision``."""

    __slots__ = ("_words", "precision", "top")

    def __init__(self, words: Words) -> None:
        self._words = words
        self.top = _bits(words, _STEP)
        self.precision = _STEP

    def refine_to(self, precision: int) -> None:
        """Draw bits until at least ``precision`` are known."""
        while self.precision < precision:
            self.top = (self.top << _STEP) | _bits(self._words, _STEP)
            self.precision += _STEP

    def below(self, other: _LazyUniform) -> bool:
        """Decide whether this number is below ``other``, drawing as many bits as it takes."""
        while True:
            if self.precision == other.precision and self.top != other.top:
                return self.top < other.top
            precision = max(self.precision, other.precision)
            if self.precision == other.precision:
                precision += _STEP
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


def _settled(value: Fraction, scale: Fraction, bounds: Interval, sign: int) -> int | None:
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
    sign = 1 - 2 * _bits(words, 1)
    top = _LazyExponential(words)
    precision = _STEP
    while True:
        numerator = top.scaled(precision)
        divisor = sum(part.scaled(precision) for part in gamma)
        if divisor > 0:
            bounds = (
                Fraction(numerator, divisor + len(gamma)),
                Fraction(numerator + 1, divisor),
            )
            if (point := _settled(value, scale, bounds, sign)) is not None:
                return point
        precision += _STEP


@dataclass(frozen=True, repr=False)
class Bounded:
    """Exact numbers and how far a neighbour can move them. Private."""

    totals: tuple[int, ...]
    bound: float


@dataclass(frozen=True, kw_only=True)
class SmoothLaw:
    """Noise in proportion to a smooth bound of ``own + donee * (rows that one row can move)``."""

    noise: SmoothNoise
    own: float
    donee: float

    @property
    def grid(self) -> Fraction:
        """Public spacing of the answers."""
        return public_grid(self.own, self.donee, self.noise.epsilon)

    def draw(self, exact: Bounded, source: NoiseSource) -> tuple[Fraction, ...]:
        """Return the numbers plus noise: the exact rounding, to the grid, of real-valued answers.

        The generator of a source that somebody else wrote is for post-processing; it is not used.
        """
        noise, bound = self.noise, exact.bound
        if len(exact.totals) != noise.dimension:
            raise ParameterError(f"this noise is for {noise.dimension} coordinate(s)")
        if not 0 < bound < math.inf:
            raise ParameterError("the smooth bound must be finite and above 0")
        seeded = isinstance(source, SeededNoise)
        words = seeded_words(source.generator()) if seeded else os_words
        scale = Fraction(bound) / Fraction(noise.alpha) / self.grid
        steps = [Fraction(total) / self.grid for total in exact.totals]
        points = _round_lomax(steps, scale, shape=noise.shape, words=words)
        return tuple(point * self.grid for point in points)

    def exceeds(self, event: Event, exact: Bounded, other: Bounded) -> str | None:
        """Return why an event does not pay.

        The numbers may move by either bound, and the log of the bound by beta.
        """
        beta = self.noise.beta + 2.0**-36  # bounds are rounded up
        return _bounds_exceed(exact, other, beta) or pure_exceeds(event, self.noise.epsilon)

    def log_ratio(self, answer: tuple[Fraction, ...], exact: Bounded, other: Bounded) -> float:
        """Return the log of the answer's density given ``exact`` over that given ``other``.

        Of the real-valued answer, before it is rounded to the grid.
        """
        return self._log_density(answer, exact) - self._log_density(answer, other)

    def _log_density(self, answer: tuple[Fraction, ...], exact: Bounded) -> float:
        scale = exact.bound / self.noise.alpha
        off = sum(abs(float(a - t)) for a, t in zip(answer, exact.totals, strict=True)) / scale
        tail = (self.noise.shape + len(answer)) * math.log1p(off)
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
