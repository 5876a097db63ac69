"""Exact samplers: heavy-tailed real noise, rounded to a public grid, in integer arithmetic only.

Floating-point noise leaks: which doubles can occur depends on the scale and on the value it is
added to (Mironov 2012), and with smooth sensitivity the scale itself is private. Here a real
random number is a *lazy* one, an interval that shrinks as more random bits are drawn, and the sum
``value + scale * noise`` is refined until the whole interval rounds to one point of the grid.
What comes out is therefore exactly the rounding of the ideal real-valued release: it is
post-processing of a mechanism that the privacy proof covers, with nothing approximated.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol

import numpy as np

__all__ = [
    "Bits",
    "LazyExponential",
    "LazyUniform",
    "SecureBits",
    "SeededBits",
    "round_cauchy",
    "round_laplace",
    "round_lomax",
]


_STEP = 64
Interval = tuple[Fraction, Fraction]


class Bits(Protocol):
    """A source of independent fair bits."""

    def bits(self, count: int) -> int:
        """Return a uniform integer in ``[0, 2**count)``."""


class SecureBits:
    """Bits from the operating system's CSPRNG.

    Examples
    --------
    >>> 0 <= SecureBits().bits(8) < 256
    True
    """

    def bits(self, count: int) -> int:
        """Return a uniform integer in ``[0, 2**count)``."""
        return secrets.randbits(count)


class SeededBits:
    """Bits from a NumPy generator: for tests, never for a release."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def bits(self, count: int) -> int:
        """Return a uniform integer in ``[0, 2**count)``."""
        size = -(-count // 8)
        return int.from_bytes(self._rng.bytes(size), "little") >> (8 * size - count)


def _below(bits: Bits, limit: int) -> int:
    """Return a uniform integer in ``[0, limit)``, by rejection."""
    width = (limit - 1).bit_length()
    while (draw := bits.bits(width) if width else 0) >= limit:
        pass
    return draw


class LazyUniform:
    """A uniform real in (0, 1), known to lie in ``[top, top + 1] / 2**precision``."""

    __slots__ = ("_bits", "precision", "top")

    def __init__(self, bits: Bits) -> None:
        self._bits = bits
        self.top = bits.bits(_STEP)
        self.precision = _STEP

    def refine(self) -> None:
        """Draw 64 more bits."""
        self.top = (self.top << _STEP) | self._bits.bits(_STEP)
        self.precision += _STEP

    def refine_to(self, precision: int) -> None:
        """Draw bits until at least ``precision`` are known."""
        while self.precision < precision:
            self.refine()

    def below(self, other: LazyUniform) -> bool:
        """Decide whether this number is below ``other``, drawing as many bits as it takes."""
        while True:
            if self.precision == other.precision and self.top != other.top:
                return self.top < other.top
            precision = max(self.precision, other.precision)
            if self.precision == other.precision:
                precision += _STEP
            self.refine_to(precision)
            other.refine_to(precision)


class LazyExponential:
    """A standard exponential real number: a whole part and a lazy uniform fraction.

    Von Neumann's method: the length of the first non-increasing run of uniforms that starts at U
    is odd with probability exp(-U), which is the density of the fraction; every rejected run adds
    one to the whole part.
    """

    __slots__ = ("fraction", "whole")

    def __init__(self, bits: Bits) -> None:
        self.whole = 0
        while True:
            first = last = LazyUniform(bits)
            length = 1
            while (following := LazyUniform(bits)).below(last):
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


def _floor(value: Fraction) -> int:
    return value.numerator // value.denominator


def _settled(value: Fraction, scale: Fraction, bounds: Interval, sign: int) -> int | None:
    """Nearest integer to ``value + sign * scale * noise`` if ``bounds`` on the noise decide it."""
    half = Fraction(1, 2)
    ends = {_floor(value + sign * scale * bound + half) for bound in bounds}
    return ends.pop() if len(ends) == 1 else None


def round_lomax(
    values: Sequence[Fraction], scale: Fraction, *, shape: int, bits: Bits
) -> list[int]:
    """Round ``values + scale * X`` to integers, X with density prop. to (1 + |x|_1)^-(shape + d).

    X is a vector of d independent Laplace variables divided by one Gamma(shape) variable, so each
    coordinate is two-sided Lomax: ``P(|X_i| > t) = (1 + t)**-shape``.

    Parameters
    ----------
    values : sequence of Fraction, length d
        In units of the grid.
    scale : Fraction
        Noise scale in units of the grid, at least 0.
    shape : int
        Tail exponent, at least 1.
    bits : Bits
        Randomness.

    Returns
    -------
    list of int
        Grid points.

    Examples
    --------
    >>> round_lomax([Fraction(7)], Fraction(0), shape=4, bits=SecureBits())
    [7]
    """
    gamma = [LazyExponential(bits) for _ in range(shape)]
    return [_one_lomax(value, scale, gamma, bits) for value in values]


def _one_lomax(
    value: Fraction, scale: Fraction, gamma: Sequence[LazyExponential], bits: Bits
) -> int:
    sign = 1 - 2 * bits.bits(1)
    top = LazyExponential(bits)
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


def round_laplace(values: Sequence[Fraction], scale: Fraction, *, bits: Bits) -> list[int]:
    """Round ``values + scale * Laplace`` to integers; as :func:`round_lomax`, unit Laplace noise.

    Examples
    --------
    >>> round_laplace([Fraction(1, 3)], Fraction(0), bits=SecureBits())
    [0]
    """
    points = []
    for value in values:
        sign, noise, precision = 1 - 2 * bits.bits(1), LazyExponential(bits), _STEP
        while True:
            low = noise.scaled(precision)
            bounds = (Fraction(low, 1 << precision), Fraction(low + 1, 1 << precision))
            if (point := _settled(value, scale, bounds, sign)) is not None:
                points.append(point)
                break
            precision += _STEP
    return points


def round_cauchy(value: Fraction, scale: Fraction, *, gamma: Fraction, bits: Bits) -> int:
    """Round ``value + scale * X`` to an integer, X with density prop. to 1 / (1 + |x| ** gamma).

    Rejection from a flat body on [0, 1] and a Pareto tail; with rational gamma every comparison is
    between integer powers, and the tail's root is an integer root.

    Parameters
    ----------
    value, scale : Fraction
        In units of the grid.
    gamma : Fraction
        Tail exponent, above 1; small numerator and denominator keep it fast.
    bits : Bits
        Randomness.

    Examples
    --------
    >>> round_cauchy(Fraction(7), Fraction(0), gamma=Fraction(4), bits=SecureBits())
    7
    """
    p, q = gamma.numerator, gamma.denominator
    while True:
        body = _below(bits, p) < p - q
        base, coin = LazyUniform(bits), LazyUniform(bits)
        if _accepts(base, coin, p, q if body else p - q):
            break
    sign = 1 - 2 * bits.bits(1)
    while True:
        bounds = _body(base) if body else _tail(base, q, p - q)
        if bounds is not None and (point := _settled(value, scale, bounds, sign)) is not None:
            return point
        base.refine()


def _accepts(base: LazyUniform, coin: LazyUniform, power: int, root: int) -> bool:
    """Decide coin < 1 / (1 + base**(power / root)) as base^power coin^root < (1 - coin)^root."""
    while True:
        n = max(base.precision, coin.precision)
        base.refine_to(n)
        coin.refine_to(n)
        one, w, v = 1 << n, base.top, coin.top
        if (w + 1) ** power * (v + 1) ** root < (one - v - 1) ** root << (n * power):
            return True
        if w**power * v**root >= (one - v) ** root << (n * power):
            return False
        base.refine()


def _body(base: LazyUniform) -> Interval:
    one = 1 << base.precision
    return Fraction(base.top, one), Fraction(base.top + 1, one)


def _tail(base: LazyUniform, power: int, root: int) -> Interval | None:
    """Enclose ``base ** -(power / root)``."""
    if base.top == 0:
        return None
    n = base.precision
    low = _integer_root((1 << n * (power + root)) // (base.top + 1) ** power, root)
    high = _integer_root((1 << n * (power + root)) // base.top**power + 1, root) + 1
    return Fraction(low, 1 << n), Fraction(high, 1 << n)


def _integer_root(value: int, order: int) -> int:
    """Return the largest r with ``r**order <= value`` (Newton from above)."""
    if order == 1 or value < 2:
        return value
    guess = 1 << -(-value.bit_length() // order)
    while True:
        better = ((order - 1) * guess + value // guess ** (order - 1)) // order
        if better >= guess:
            return guess
        guess = better
