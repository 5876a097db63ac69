"""What a schema loses of private rows without a word, for their curator.

Where an attribute takes any cell, by ``outside``, a column that is written in another way than the
schema expects is read as holes, or as bounds. A release must not tell of it; the curator may.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.table.cells import Chunk, distinct, read_numbers, taken
from missdp.table.encode import Encoder
from missdp.table.number_styles import number_style
from missdp.table.streams import RowStream

__all__ = ["LostCells", "lost_cells"]


@dataclass(frozen=True, repr=False)
class LostCells:
    """Columns of which more is lost than their curator may know. Private.

    Parameters
    ----------
    without_values : tuple of str
        No cell of these is in the declared domain; columns that rules may fill are left out.
    other_styles : tuple of str
        Numeric ones of which a cell looks like a number in a spelling that is not read as one.
    """

    without_values: tuple[str, ...]
    other_styles: tuple[str, ...]


def lost_cells(stream: RowStream, schema: Schema) -> LostCells:
    """Return the columns of which a schema loses cells without a word; none if there are no rows.

    Parameters
    ----------
    stream : RowStream
        Private rows.
    schema : Schema
    """
    filled = schema.rulebook.may_fill
    bare = {a.name: replace(a, nullable=True, outside="missing") for a in schema}
    empty = {name: Encoder(a) for name, a in bare.items() if name not in filled}
    styled = dict.fromkeys((a.name for a in _unrefusing(schema)), False)
    rows = 0
    for batch in stream.batches(schema.names):
        rows += batch.num_rows
        for place, attribute in enumerate(schema):
            name, column = attribute.name, batch.column(place)
            if name in empty and (empty[name].encode(column).codes < attribute.size).any():
                del empty[name]
            if styled.get(name) is False:
                styled[name] = _has_other_style(column, attribute)
    return LostCells(tuple(empty) if rows else (), tuple(n for n, found in styled.items() if found))


def _unrefusing(schema: Schema) -> Iterator[Numeric]:
    return (a for a in schema if isinstance(a, Numeric) and not a.refuses)


def _has_other_style(column: Chunk, attribute: AnyAttribute) -> bool:
    """Whether a cell looks like a number, but is read neither as one nor as a code."""
    codes = {code for kind in attribute.kinds for code in attribute.codes_of(kind)}
    texts = frozenset(code.strip() for code in codes if isinstance(code, str))
    _, unreadable = read_numbers(column, texts)
    cells, _ = distinct(taken(column, np.flatnonzero(unreadable)))
    return any(isinstance(c, str) and number_style([c.strip()], every=True) for c in cells)
