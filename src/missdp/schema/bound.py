"""Rules as they are computed with: what a row forbids, what is not applicable, what follows.

`Rule.bound` makes them from what people write. Each tells which rows surely break it, and which
ones may, from what is known of their cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from missdp.schema.conditions import (
    Known,
    KnownCells,
    Predicate,
    Verdict,
    decided,
)
from missdp.schema.numeric import AnyAttribute, Numeric
from missdp.types import Flags, Floats

_NEAR = 1e-12  # of the largest sum of sizes: what counts as equal after arithmetic


@dataclass(frozen=True, eq=False)
class Forbids:
    """A bound rule that forbids rows in which a condition holds."""

    text: str
    never: Predicate

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it reads."""
        return tuple(sorted(self.never.names))

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        return decided(self.never, cells, n)


@dataclass(frozen=True, eq=False)
class Routes:
    """A bound rule by which an attribute is not applicable unless a predicate holds."""

    text: str
    target: str
    unless: Predicate

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that its condition is about."""
        return tuple(sorted(self.unless.names))

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it is about, the target among them."""
        return (*self.reads, self.target)

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        surely, maybe = decided(self.unless, cells, n)
        target = cells[self.target]
        sure = (surely & target.absent) | (~maybe & target.present)
        open_ = (maybe & ~target.present) | (~surely & ~target.absent)
        return sure, np.asarray(sure | open_)


@dataclass(frozen=True, eq=False)
class Derives:
    """A bound rule by which the value of one attribute follows from others."""

    text: str
    target: AnyAttribute
    by: tuple[str, ...]
    #: The target's value, or code, for each combination of levels, or of whole numbers.
    lookup: Floats | None = None
    #: With a lookup: the code or whole number with which each of its axes begins.
    first: tuple[float, ...] = ()
    #: Without a lookup: the target is the sum of these multiples of the others, and ``start``.
    terms: tuple[float, ...] = ()
    start: float = 0.0
    #: An attribute that is the target where the first of the others is missing.
    instead: str | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The attributes that it follows from."""
        return self.by if self.instead is None else (*self.by, self.instead)

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it is about, the target among them."""
        return (*self.reads, self.target.name)

    def solved(self, given: AnyAttribute) -> Derives:
        """Return the linear equation as one that determines another of its attributes."""
        own = self.terms[self.by.index(given.name)]
        rest = tuple(
            (name, -times / own)
            for name, times in zip(self.by, self.terms, strict=True)
            if name != given.name
        )
        names, terms = zip(*rest, (self.target.name, 1 / own), strict=True)
        return Derives(self.text, given, names, terms=terms, start=-self.start / own)

    def derived(self, cells: KnownCells, n: int) -> Known:
        """Return what is known of the target from the others."""
        known = [cells[name] for name in self.by]
        absent = np.logical_or.reduce([np.zeros(n, dtype=bool), *(k.absent for k in known)])
        hole = np.logical_or.reduce([np.zeros(n, dtype=bool), *(k.hole for k in known)]) & ~absent
        if self.lookup is not None:
            least, greatest = self._looked_up(self.lookup, known, n)
        else:
            least, greatest = np.full(n, self.start), np.full(n, self.start)
            for times, k in zip(self.terms, known, strict=True):
                ends = times * k.least, times * k.greatest
                least, greatest = least + np.minimum(*ends), greatest + np.maximum(*ends)
            least, greatest = self._settled(least, cells), self._settled(greatest, cells)
        found = Known(least, greatest, hole, absent)
        return found if self.instead is None else self._or(found, cells[self.instead], known[0])

    def _or(self, found: Known, instead: Known, first: Known) -> Known:
        """Return the one thing, or the other where the first of the others is missing."""
        parts = ("least", "greatest", "hole", "absent")
        either = (np.where(first.hole, getattr(instead, p), getattr(found, p)) for p in parts)
        return Known(*either)

    def _looked_up(self, lookup: Floats, known: list[Known], n: int) -> tuple[Floats, Floats]:
        """Return the value where all is known exactly, else the ends of all values."""
        exact, places = np.ones(n, dtype=bool), []
        for k, first, size in zip(known, self.first, lookup.shape, strict=True):
            exact &= k.least == k.greatest
            places.append(np.where(k.present, np.clip(k.least - first, 0, size - 1), 0))
        found = lookup[tuple(place.astype(np.int64) for place in places)]
        return np.where(exact, found, lookup.min()), np.where(exact, found, lookup.max())

    def _width(self, cells: KnownCells) -> Floats | float:
        """Return by how much arithmetic in floating point may have missed what follows."""
        if self.lookup is not None:
            return 0.0
        sizes: Floats | float = abs(self.start)
        for times, name in zip(self.terms, self.by, strict=True):
            ends = cells[name]
            sizes = sizes + abs(times) * np.maximum(np.abs(ends.least), np.abs(ends.greatest))
        return _NEAR * sizes

    def _settled(self, values: Floats, cells: KnownCells) -> Floats:
        """Return bounds and whole numbers of the target where arithmetic missed them by a hair."""
        if not isinstance(self.target, Numeric):
            return values
        width = self._width(cells)
        for bound in (self.target.lower, self.target.upper):
            values = np.where(np.abs(values - bound) <= width, bound, values)
        if self.target.integer:
            values = np.where(np.abs(values - np.rint(values)) <= width, np.rint(values), values)
        return values

    def outside(self, derived: Known) -> Flags:
        """Tell where what follows is surely not in the target's domain."""
        if not isinstance(self.target, Numeric):
            return np.zeros(len(derived.least), dtype=bool)
        found = (derived.greatest < self.target.lower) | (derived.least > self.target.upper)
        if self.target.integer:
            found |= np.ceil(derived.least) > np.floor(derived.greatest)
        return np.asarray(found & derived.present)

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        derived, target = self.derived(cells, n), cells[self.target.name]
        width = self._width(cells)
        apart = (derived.greatest + width < target.least) | (
            target.greatest < derived.least - width
        )
        both = derived.present & target.present
        sure = both & (apart | self.outside(derived))
        sure |= (derived.absent & target.present) | (derived.present & target.absent)
        points = (derived.least == derived.greatest) & (target.least == target.greatest)
        open_ = derived.hole | target.hole | (both & ~points)
        return np.asarray(sure), np.asarray(sure | open_)


Bound: TypeAlias = Forbids | Routes | Derives


def surely_broken(rule: Bound, known: KnownCells, names: tuple[str, ...]) -> Flags:
    """Return which combinations of cells surely break a rule, an axis for each attribute."""
    shape = [len(known[name].hole) for name in names]
    places = np.indices(shape).reshape(len(shape), -1)
    cells = {name: known[name].taken(at) for name, at in zip(names, places, strict=True)}
    return rule.broken(cells, places.shape[1])[0].reshape(shape)
