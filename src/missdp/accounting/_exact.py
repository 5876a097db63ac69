"""Exact sums of privacy costs: rational numbers, rounded up wherever they must be rounded.

A budget that adds floating-point numbers accepts charges of 1e-17 without end. Here a number that a
person wrote (``epsilon=0.1``) counts as that decimal number, and a number that follows from noise
(sensitivity / scale) counts as the exact quotient.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from fractions import Fraction

__all__ = [
    "ceiling",
    "difference",
    "exact",
    "float_down",
    "float_up",
    "scale_for",
    "share_of",
    "total",
]

# Sums of many different fractions grow without bound; beyond this many bits they are rounded up.
_MAX_BITS = 4096
_FINE = 2**1024


def exact(value: float) -> Fraction:
    """Return a number as it is written in decimal, so that ten times 0.1 is exactly 1.

    Examples
    --------
    >>> sum([exact(0.1)] * 10) == 1
    True
    """
    return Fraction(repr(float(value)))


def ceiling(number: Fraction) -> Fraction:
    """Return the number, or, if it takes very many digits, the next number up that takes fewer.

    Examples
    --------
    >>> ceiling(Fraction(1, 3))
    Fraction(1, 3)
    """
    if number.denominator.bit_length() <= _MAX_BITS:
        return number
    return Fraction(-((-number.numerator * _FINE) // number.denominator), _FINE)


def total(costs: Iterable[Fraction]) -> Fraction:
    """Return the sum of costs, exact or rounded up in a place that nobody will ever see.

    Examples
    --------
    >>> total([Fraction(1, 3)] * 3)
    Fraction(1, 1)
    """
    found = Fraction(0)
    for cost in costs:
        found = ceiling(found + cost)
    return found


def float_up(number: Fraction) -> float:
    """Return the smallest floating-point number that, written in decimal, is at least ``number``.

    Infinity if there is none.

    Examples
    --------
    >>> float_up(Fraction(3, 10)), float_up(Fraction(1, 3))
    (0.3, 0.33333333333333337)
    """
    near = _float(number)
    while near < math.inf and exact(near) < number:
        near = math.nextafter(near, math.inf)
    return near


def float_down(number: Fraction) -> float:
    """Return a floating-point number that, written in decimal, is at most ``number``.

    Examples
    --------
    >>> float_down(Fraction(3, 10)), float_down(Fraction(2, 3))
    (0.3, 0.6666666666666666)
    """
    near = min(_float(number), sys.float_info.max)
    while exact(near) > number:
        near = math.nextafter(near, -math.inf)
    return near


def share_of(amount: float, part: float) -> float:
    """Return a share of a budget, rounded down, so that shares that sum to 1 fit into it.

    Examples
    --------
    >>> share_of(0.3, 0.1)
    0.03
    """
    return float_down(exact(amount) * exact(part))


def difference(amount: float, *parts: float, up: bool = False) -> float:
    """Return what parts leave of a budget, rounded down or up; 0 if they leave nothing.

    Examples
    --------
    >>> difference(1.0, 0.1, 0.2)
    0.7
    """
    left = max(Fraction(0), exact(amount) - sum(map(exact, parts)))
    return float_up(left) if up else float_down(left)


def scale_for(sensitivity: float, epsilon: float, *, count: int = 1) -> float:
    """Return the least Laplace scale for which ``count`` releases cost at most epsilon together.

    Infinity if there is none.

    Examples
    --------
    >>> scale_for(1.0, 0.1), scale_for(1.0, 0.7, count=3)
    (10.0, 4.2857142857142865)
    """
    target = count * Fraction(sensitivity) / exact(epsilon)
    near = _float(target)
    while near < math.inf and Fraction(near) < target:  # the noise is drawn at the binary number
        near = math.nextafter(near, math.inf)
    return near


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
