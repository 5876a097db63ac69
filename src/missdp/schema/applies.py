"""To which rows an attribute applies: it surely does, or it may, by the row's own cells alone.

A cell with a value applies, and one that is not applicable does not. A missing cell takes part in
what its row says of the rules: where the condition of a :class:`~missdp.schema.NotApplicable` rule
is not known to hold, because a cell that it reads is missing too, the attribute may not apply, and
nobody should invent a value. What follows from others applies where they do. Without such a rule it
is the data that mark what does not apply, by a code; any other missing cell is in a row to which
the attribute applies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from missdp.schema.conditions import Known, Verdict, decided
from missdp.schema.schema import Schema


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
