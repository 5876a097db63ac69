"""Three-valued logic: what is sure and what is possible about cells that are known within bounds.

A cell of a row is known exactly, or not at all; a cell of a table of counts is known up to its bin.
What is asked of either has two answers: it surely holds, and it may hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema.numeric import Numeric
from missdp.schema.predicates import Compare, Everyone, Join, Not, Predicate

if TYPE_CHECKING:
    from missdp.schema.schema import AnyAttribute

__all__ = ["Known", "KnownCells", "Verdict", "compared", "decided"]

Floats: TypeAlias = NDArray[np.float64]
Flags: TypeAlias = NDArray[np.bool_]
Verdict: TypeAlias = tuple[Flags, Flags]


@dataclass(frozen=True, eq=False, repr=False)
class Known:
    """What is known of cells of one attribute.

    Parameters
    ----------
    least, greatest : array of float, shape (n,)
        Bounds on the value; the code of the level if the attribute has levels.
    hole : array of bool, shape (n,)
        Whether the value is missing, so that nothing is known of it.
    absent : array of bool, shape (n,)
        Whether the attribute is not applicable, so that there is no value.
    """

    least: Floats
    greatest: Floats
    hole: Flags
    absent: Flags

    @property
    def present(self) -> Flags:
        """Whether there is a value, known within the bounds."""
        return ~(self.hole | self.absent)

    @classmethod
    def of(
        cls, attribute: AnyAttribute, codes: NDArray[np.integer], values: Floats | None
    ) -> Known:
        """Return what codes, and values if there are any, tell about cells.

        Examples
        --------
        >>> age = Numeric(name="age", lower=0, upper=100, integer=True, bins=10, nullable=True)
        >>> known = Known.of(age, np.array([2, 10]), None)
        >>> known.least.tolist()[0], known.greatest.tolist()[0], known.hole.tolist()
        (20.0, 29.0, [False, True])
        """
        hole = np.asarray(codes >= attribute.missing_code)
        absent = np.asarray(codes >= attribute.size) & ~hole
        if values is not None:
            return cls(values, values, hole, absent)
        inside = np.where(hole | absent, 0, codes).astype(np.int64)
        if isinstance(attribute, Numeric):
            least, greatest = attribute.reach
            return cls(least[inside], greatest[inside], hole, absent)
        levels = inside.astype(np.float64)
        return cls(levels, levels, hole, absent)

    @classmethod
    def constant(cls, value: float, n: int) -> Known:
        """Return what is known of a number."""
        cells, none = np.full(n, value), np.zeros(n, dtype=bool)
        return cls(cells, cells, none, none)


KnownCells: TypeAlias = Mapping[str, Known]


def compared(one: Known, sign: str, two: Known) -> Verdict:
    """Decide a comparison; a hole may satisfy any, what is not applicable satisfies none.

    Examples
    --------
    >>> cells = Known(np.array([0.0, 5.0]), np.array([4.0, 9.0]), *np.zeros((2, 2), dtype=bool))
    >>> surely, maybe = compared(cells, "<", Known.constant(5.0, 2))
    >>> surely.tolist(), maybe.tolist()
    ([True, False], [True, False])
    """
    if sign in (">", ">="):
        return compared(two, {">": "<", ">=": "<="}[sign], one)
    if sign == "<":
        surely, maybe = one.greatest < two.least, one.least < two.greatest
    elif sign == "<=":
        surely, maybe = one.greatest <= two.least, one.least <= two.greatest
    else:
        fixed = (one.least == one.greatest) & (two.least == two.greatest)
        maybe = (one.least <= two.greatest) & (two.least <= one.greatest)
        surely = fixed & maybe
        if sign == "!=":
            surely, maybe = ~maybe, ~surely
    there = one.present & two.present
    absent = one.absent | two.absent
    return np.asarray(surely & there), np.asarray(np.where(there, maybe, ~absent))


def decided(predicate: Predicate, cells: KnownCells, n: int) -> Verdict:
    """Decide a predicate for ``n`` rows; parts that share a cell leave more open than there is."""
    if isinstance(predicate, Compare):
        value = Known.constant(predicate.value, n)
        return compared(cells[predicate.attribute.name], predicate.sign, value)
    if isinstance(predicate, Not):
        surely, maybe = decided(predicate.part, cells, n)
        return ~maybe, ~surely
    if isinstance(predicate, Join):
        parts = [decided(part, cells, n) for part in predicate.parts]
        joined = np.logical_and if predicate.all_of else np.logical_or
        sure, open_ = zip(*parts, strict=True)
        return np.asarray(joined.reduce(sure)), np.asarray(joined.reduce(open_))
    assert isinstance(predicate, Everyone)
    return np.ones(n, dtype=bool), np.ones(n, dtype=bool)
