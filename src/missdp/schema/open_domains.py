"""Attributes whose levels or bins are not declared: a fit finds them, from noisy counts.

Levels are found among values that are compared as text. Bins are found on a fine grid. The grid,
and the most codes that bins and spikes can have, follow from declared bounds and steps alone.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeGuard, TypeVar

import numpy as np

from missdp.errors import SchemaError
from missdp.schema.attributes import Attribute, Categorical, number_text
from missdp.schema.dates import Date
from missdp.schema.differences import Difference
from missdp.schema.numeric import Numeric, decimals
from missdp.schema.schema import Schema
from missdp.types import Floats

MOST_CHARACTERS: Final = 100  # of a value; longer text is in the bucket
_MOST_LEVELS: Final = 1000


_Cell = TypeVar("_Cell")


def composed(cell: _Cell) -> _Cell | str:
    """Return text in Unicode's form NFC, true and false as text, and anything else as it is."""
    if isinstance(cell, bool):
        return str(cell).lower()
    return unicodedata.normalize("NFC", cell) if isinstance(cell, str) else cell


def _canonical(cell: object) -> str | None:
    """Return the text that a cell with a value is compared by; None if it cannot be a level."""
    text = number_text(cell) if isinstance(cell, float) else cell
    if isinstance(text, str) and len(text) > 4 * MOST_CHARACTERS:
        return None
    text = composed(text)
    if not isinstance(text, str):
        return None
    text = text.strip()
    usable = text and len(text) <= MOST_CHARACTERS and text.isprintable()
    return text if usable else None


@dataclass(frozen=True, kw_only=True)
class OpenCategorical(Categorical):
    """A categorical attribute whose frequent levels a fit finds privately, and a bucket for others.

    Parameters
    ----------
    max_levels : int, default 200
        How many levels are kept at most, those with the largest noisy counts.
    other : str, default "other"
        The level of every other value, and of cells that cannot be read or read like its name.
    levels : tuple of str, optional
        What a fit found, sorted, and the bucket last. Leave it out.
    found : bool, default False
        Whether a fit found them. Another fit that uses them states that as a condition.

    Notes
    -----
    Values are compared as text, in Unicode's form NFC and without blanks around them: ``7`` and
    ``"7"`` are one value, ``"07"`` is another. Text of more than 100 characters is in the bucket.
    In a schema file ``levels = "open"`` says so.

    Examples
    --------
    >>> illness = OpenCategorical(name="illness", nullable=True)
    >>> illness.levels, illness.canonical(" J45 "), illness.canonical(7.0)
    (('other',), 'J45', '7')
    """

    kind: ClassVar[str] = "open"
    levels: tuple[str, ...] = ()
    max_levels: int = 200
    other: str = "other"
    found: bool = False

    def __post_init__(self) -> None:
        if self.levels == () and isinstance(self.other, str):
            object.__setattr__(self, "levels", (self.other,))
        super().__post_init__()

    @property
    def refuses(self) -> bool:
        """Whether some cell makes reading fail: a missing one, if none may be."""
        return not self.kinds

    def canonical(self, cell: object) -> str:
        """Return the text that a cell with a value is compared by; the bucket's, if it has none."""
        return _canonical(cell) or self.other

    def closed(self, found: Iterable[str]) -> OpenCategorical:
        """Return the attribute with the levels that were found, sorted by their text."""
        kept = sorted({*found} - {self.other})
        return replace(self, levels=(*kept, self.other), found=True)

    def _problems(self) -> Iterator[str]:
        if self.other != _canonical(self.other):
            yield "other must be text that is printable, in Unicode's form NFC, and not too long"
        whole = isinstance(self.max_levels, int) and not isinstance(self.max_levels, bool)
        if not whole or not 1 <= self.max_levels <= _MOST_LEVELS:
            yield f"max_levels must be a whole number from 1 to {_MOST_LEVELS}"
        if not isinstance(self.found, bool):
            yield "found must be true or false"
        if not self.found and self.levels != (self.other,):
            yield "levels are found by a fit, which says so: leave them out"
        if self.outside != "error":
            yield "outside does not apply: every other value is in the bucket"
        yield from super()._problems()
        if not self.found:  # numbers have labels by their text, and levels of one number may follow
            yield from self._labelled_nothing(lambda key: key == self.other)
        if self.levels[-1] != self.other or any(x != _canonical(x) for x in self.levels):
            yield "levels must be canonical text, and the bucket must be the last of them"


def is_open(attribute: Attribute) -> TypeGuard[OpenCategorical]:
    """Whether the levels of an attribute are still to be found."""
    return isinstance(attribute, OpenCategorical) and not attribute.found


def open_attributes(schema: Schema) -> tuple[OpenCategorical, ...]:
    """Return the attributes whose levels are still to be found; refuse one that a rule names."""
    wanted = tuple(a for a in schema if is_open(a))
    book = schema.rule_set
    named = {name for rule in book.bound for name in rule.names}
    for attribute in wanted:
        if attribute.name in named:
            raise SchemaError(
                f"a rule names {attribute.name!r}, whose levels are open: declare them, or leave "
                "the rule out"
            )
    return wanted


def check_found(attributes: Iterable[Attribute]) -> None:
    """Refuse open levels where all levels must be known."""
    for attribute in attributes:
        if is_open(attribute):
            raise SchemaError(
                f"the levels of {attribute.name!r} are open, and are found by a fit: take the "
                "schema of the fitted model (schema_; in commands the saved model as --schema), or "
                "declare the levels"
            )


def at_most(schema: Schema) -> Schema:
    """Return the schema with as many levels as a fit may find: what is public before it."""
    return with_levels(schema, {a.name: _most_levels(a) for a in schema if is_open(a)})


def _most_levels(attribute: OpenCategorical) -> list[str]:
    """Return as many levels as a fit may find, none of which is the bucket."""
    texts = (f"level {k}" for k in range(attribute.max_levels + 1))
    return [text for text in texts if text != attribute.other][: attribute.max_levels]


def with_levels(schema: Schema, found: Mapping[str, Iterable[str]]) -> Schema:
    """Return a schema with the levels that were found."""
    closed = {a.name: a.closed(found[a.name]) for a in schema if is_open(a) and a.name in found}
    return schema.replaced(closed)


_PENDING = "this fit"  # what ``cuts_from`` says of an attribute that a fit is about to cut
_FEW = "its numbers"  # of one that has so few numbers that each is a bin
_FOUND = "its own fit"  # of one that was cut
#: Most bins and spikes of an attribute that are found privately.
MOST_CODES = 20

_SINGLY = 12  # numbers, each of which is a bin of its own, so that nothing is to be found
_NUMBERS = 4096  # that are cells of their own, and cells of equal width
_CELLS = 3072  # otherwise, beside numbers of two digits,
_LEAST = 1e-5  # down to which part of the largest number
_STEPS = 1e9  # beyond which rounding tells them apart no longer
_FINEST = 1e-8  # of the range, the unit of numbers without a step
_HAIR = 1e-12
_LINEAR = 0.25  # of the range; bounds further from 0 are cut evenly


def _step(attribute: Numeric) -> float | None:
    return attribute.step or (1.0 if attribute.integer else None)


def _numbers(attribute: Numeric) -> float:
    """Return how many numbers an attribute may be."""
    step = _step(attribute)
    return math.inf if step is None else round((attribute.upper - attribute.lower) / step) + 1


def pending(schema: Schema, names: Iterable[str]) -> Schema:
    """Return a schema with the named attributes, if their bins are open, marked as to be cut.

    Each has as many codes as it can have once it is cut. Few numbers are a bin each.
    """
    wanted = {*names} - {*schema.rule_set.derived}
    cut = (a for a in schema if isinstance(a, Numeric) and a.cuts_from == _FOUND)
    earlier = {a.name: replace(a, cuts_from="an earlier fit") for a in cut}
    return schema.replaced(
        earlier | {a.name: _marked(a) for a in schema if a.name in wanted and _open(a)}
    )


def _open(a: Attribute) -> TypeGuard[Numeric]:
    return isinstance(a, Numeric) and a.bins is None and a.edges is None and not a.spikes


def _marked(a: Numeric) -> Numeric:
    if (numbers := _numbers(a)) <= _SINGLY:
        return replace(a, bins=int(numbers), cuts_from=_FEW)
    return replace(a, bins=int(min(MOST_CODES, numbers)), cuts_from=_PENDING)


def is_pending(attribute: Attribute) -> TypeGuard[Numeric]:
    """Whether a fit is about to cut an attribute."""
    return isinstance(attribute, Numeric) and attribute.cuts_from == _PENDING


def takes_every_number(attribute: Attribute) -> bool:
    """Whether each number of an attribute is a bin, since it has few and its bins were open."""
    return isinstance(attribute, Numeric) and attribute.cuts_from == _FEW


def widest(schema: Schema) -> Schema:
    """Return the schema of a fit as it was before bins were found: only what was public then."""
    return schema.replaced({a.name: _marked(_uncut(a)) for a in schema if is_pending(a)})


def found(schema: Schema) -> Schema:
    """Return the schema of a fit that is done: no attribute is still to be cut."""
    cuts = {a.name: replace(a, cuts_from=_FOUND) for a in schema if is_pending(a)}
    return schema.replaced(cuts)


def uncut(schema: Schema) -> Schema:
    """Return the schema of a fit as it was declared, before bins were found."""
    own = (a for a in schema if isinstance(a, Numeric) and a.cuts_from in (_FOUND, _FEW))
    return schema.replaced({a.name: _uncut(a) for a in own})


def _uncut(a: Numeric) -> Numeric:
    return replace(a, bins=None, edges=None, spikes=(), pieces=None, shares=None, cuts_from=None)


def on_grid(schema: Schema) -> Schema:
    """Return the schema with every attribute that is to be cut on a fine grid.

    Its cells are equal in asinh((x - c) / unit): c is 0 or the bound nearest to it, the unit a step
    or a hundred millionth of the range. They are even for dates, their differences, and bounds far
    from 0. Few numbers, and those of two digits, have cells of their own.
    """
    grids = {a.name: _on_grid(_uncut(a)) for a in schema if is_pending(a)}
    return schema.replaced(grids)


def _on_grid(a: Numeric) -> Numeric:
    step, lower, upper = _step(a), a.lower, a.upper
    if _numbers(a) <= _NUMBERS and step is not None:
        numbers = lower + step * np.arange(_numbers(a))
        return replace(a, edges=_edges_of(numbers, a), cuts_from=_PENDING)
    edges, common = _spaced(a), _common(a)
    if step is not None:
        of = np.rint((common - lower) / step)
        alone = of[of < _STEPS, None] + [-1, 0, 1]  # and .99 before it
        steps = np.append(np.ceil((edges[1:-1] - lower) / step), alone)
        return replace(a, edges=_edges_of(lower + step * steps, a), cuts_from=_PENDING)
    hair = _HAIR * max(abs(lower), abs(upper))  # by which rounding misses the bounds
    inner = edges[(edges > lower + hair) & (edges < upper - hair)]
    points = {lower, upper, *common.tolist()}
    edges = np.unique([lower, *inner, *points, upper])
    return replace(a, edges=tuple(edges.tolist()), spikes=tuple(sorted(points)), cuts_from=_PENDING)


def _common(a: Numeric) -> Floats:
    """Return numbers of at most two digits, zeros aside: heaps are where people round."""
    if isinstance(a, (Date, Difference)):
        return np.zeros(0)
    most = max(abs(a.lower), abs(a.upper))
    tens = range(*(math.floor(math.log10(x)) for x in (_step(a) or _LEAST * most, most)))
    sizes = [float(f"{digits}e{ten}") for ten in tens for digits in range(10, 100)]
    found = np.unique([0.0, *sizes, *(-size for size in sizes)])
    return found[(found >= a.lower) & (found <= a.upper)]


def _edges_of(first: Floats, a: Numeric) -> tuple[float, ...]:
    """Return edges before each of these values; the last value of all is never alone in two."""
    step = _step(a) or 0.0
    last = a.upper - step / 2  # the last bin is closed on both sides
    inner = np.unique(np.round(np.minimum(first, last), decimals(step, a.lower) + 1))
    inner = inner[(inner > a.lower + step / 2) & (inner < a.upper)]
    return (a.lower, *inner.tolist(), a.upper)


def _spaced(a: Numeric) -> Floats:
    """Return the edges of a grid before they are brought to the step."""
    lower, upper = a.lower, a.upper
    near = 0.0 if lower <= 0 <= upper else min(lower, upper, key=abs)
    if isinstance(a, (Date, Difference)) or abs(near) >= _LINEAR * (upper - lower):
        return np.asarray(np.linspace(lower, upper, _NUMBERS + 1))
    unit = _step(a) or _FINEST * (upper - lower)
    low, high = math.asinh((lower - near) / unit), math.asinh((upper - near) / unit)
    return np.asarray(near + unit * np.sinh(np.linspace(low, high, _CELLS + 1)))
