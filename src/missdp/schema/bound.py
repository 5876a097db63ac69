"""Rules as they are computed with: what a row forbids, what is not applicable, what follows.

`Rule.bound` makes them from what people write. Each tells which rows surely break it, and which
ones may, from what is known of their cells.

Three-valued logic: what is sure and what is possible about cells that are known within bounds.

A cell of a row is known exactly, or not at all; a cell of a table of counts is known up to its bin.
What is asked of either has two answers: it surely holds, and it may hold.

To which rows an attribute applies: it surely does, or it may, by the row's own cells alone.

A cell with a value applies, and one that is not applicable does not. A hole takes part in what its
row says of the rules: where the condition of a :class:`~missdp.schema.NotApplicable` rule is not
known to hold, because a cell that it reads is missing too, the attribute may not apply, and nobody
should invent a value. What follows from others applies where they do. Without such a rule it is the
data that mark what does not apply, by a code; any other hole is in a row to which the attribute
applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema.numeric import Numeric
from missdp.schema.predicates import Compare, Join, Not, Predicate

if TYPE_CHECKING:
    from missdp.schema.schema import AnyAttribute, Schema


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
        """Return what codes, and values if there are any, tell about cells."""
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

    def taken(self, places: NDArray[np.integer]) -> Known:
        """Return what is known of some of the cells."""
        parts = (self.least, self.greatest, self.hole, self.absent)
        return Known(*(part[places] for part in parts))

    @classmethod
    def constant(cls, value: float, n: int) -> Known:
        """Return what is known of a number."""
        cells, none = np.full(n, value), np.zeros(n, dtype=bool)
        return cls(cells, cells, none, none)


KnownCells: TypeAlias = Mapping[str, Known]


def compared(one: Known, sign: str, two: Known) -> Verdict:
    """Decide a comparison; a hole may satisfy any, what is not applicable satisfies none."""
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
    assert isinstance(predicate, Join)
    join = np.logical_and if predicate.all_of else np.logical_or
    surely, maybe = np.full(n, predicate.all_of), np.full(n, predicate.all_of)
    for part in predicate.parts:
        one, two = decided(part, cells, n)
        surely, maybe = join(surely, one), join(maybe, two)
    return surely, maybe


_NEAR = 1e-12  # of the largest sum of sizes: what counts as equal after arithmetic


Comparison: TypeAlias = tuple[str, str, str]
"""A comparison of two attributes: a name, a sign, a name."""


@dataclass(frozen=True, eq=False)
class Forbids:
    """A bound rule that forbids rows in which several conditions hold together.

    Parameters
    ----------
    text : str
    names : tuple of str
        Attributes that it reads.
    together : tuple of Predicate or (str, str, str)
        Predicates, and comparisons of two attributes.
    """

    text: str
    names: tuple[str, ...]
    together: tuple[Predicate | Comparison, ...]

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        parts = [self._holds(part, cells, n) for part in self.together]
        surely, maybe = zip(*parts, strict=True)
        return np.logical_and.reduce(surely), np.logical_and.reduce(maybe)

    def _holds(self, part: Predicate | Comparison, cells: KnownCells, n: int) -> Verdict:
        if isinstance(part, tuple):
            one, sign, two = part
            return compared(cells[one], sign, cells[two])
        return decided(part, cells, n)


@dataclass(frozen=True, eq=False)
class Routes:
    """A bound rule by which an attribute is not applicable unless a predicate holds.

    Parameters
    ----------
    text : str
    target : str
    unless : Predicate
    """

    text: str
    target: str
    unless: Predicate

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it reads, the target among them."""
        return (*sorted(self.unless.names), self.target)

    def broken(self, cells: KnownCells, n: int) -> Verdict:
        """Tell which rows surely break the rule, and which ones may."""
        surely, maybe = decided(self.unless, cells, n)
        target = cells[self.target]
        sure = (surely & target.absent) | (~maybe & target.present)
        open_ = (maybe & ~target.present) | (~surely & ~target.absent)
        return sure, np.asarray(sure | open_)


@dataclass(frozen=True, eq=False)
class Derives:
    """A bound rule by which the value of one attribute follows from others.

    Parameters
    ----------
    text : str
    target : AnyAttribute
    by : tuple of str
        The attributes that it follows from.
    lookup : array, shape (sizes of by), or None
        The target's value, or code, for each combination of levels, or of whole numbers.
    first : tuple of float
        With a lookup: the code or whole number with which each of its axes begins.
    terms : tuple of float
        Without a lookup: the target is the sum of these multiples of the others, and ``start``.
    start : float
    """

    text: str
    target: AnyAttribute
    by: tuple[str, ...]
    lookup: Floats | None = None
    first: tuple[float, ...] = ()
    terms: tuple[float, ...] = ()
    start: float = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that it reads, the target among them."""
        return (*self.by, self.target.name)

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
        return Known(least, greatest, hole, absent)

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


def surely_broken(rule: Bound, known: Mapping[str, Known], names: tuple[str, ...]) -> Flags:
    """Return which combinations of cells surely break a rule, an axis for each attribute."""
    shape = [len(known[name].hole) for name in names]
    places = np.indices(shape).reshape(len(shape), -1)
    cells = {name: known[name].taken(at) for name, at in zip(names, places, strict=True)}
    return rule.broken(cells, places.shape[1])[0].reshape(shape)


def not_everywhere(schema: Schema, names: Iterable[str]) -> tuple[str, ...]:
    """Return those attributes that are not applicable to some rows."""
    return tuple(name for name in names if schema[name].not_applicable is not None)


def told_by_rules(schema: Schema, name: str) -> bool:
    """Whether nothing but other cells can tell that an attribute is not applicable.

    A cell in which nothing is written may as well have lost its value.
    """
    return schema[name].nullable and not schema[name].codes_of("not_applicable")


def may_be_open(schema: Schema, names: Iterable[str]) -> bool:
    """Whether rows may leave it open whether one of these attributes applies to them."""
    ruled = schema.rulebook.routes.keys() | schema.rulebook.derives.keys()
    return any(schema[name].nullable and name in ruled for name in not_everywhere(schema, names))


def applies(schema: Schema, cells: Callable[[str], Known], name: str) -> Verdict:
    """Tell to which rows an attribute surely applies, and to which it may."""
    known, book = cells(name), schema.rulebook
    surely, maybe = np.ones_like(known.hole), np.ones_like(known.hole)
    if name in book.routes:
        unless = book.routes[name].unless
        found = {other: cells(other) for other in unless.names}
        surely, maybe = decided(unless, found, len(known.hole))
    for other in book.derives[name].by if name in book.derives else ():
        one, two = applies(schema, cells, other)
        surely, maybe = surely & one, maybe & two
    return (
        np.asarray(known.present | (known.hole & surely)),
        np.asarray(known.present | (known.hole & maybe)),
    )
