"""Which cells a schema loses without a word: for the curator, whom a release must not tell.

Where an attribute takes any cell, by ``outside``, a column that is written in another way than the
schema expects is read as holes, or as bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Date, Numeric, OpenCategorical, Schema
from missdp.schema.attributes import MISSING, OUTSIDE
from missdp.table.cells import Chunk, Plain, Unreadable, distinct, read_numbers, taken
from missdp.table.dates import dated
from missdp.table.encode import Encoder
from missdp.table.streams import RowStream, rows_of
from missdp.table.tally import number_style


@dataclass(frozen=True, repr=False)
class LostCells:
    """Columns of which more is lost than their curator may know. Private."""

    #: No cell of these is in the declared domain; columns that rules may fill are left out.
    without_values: tuple[str, ...] = ()
    #: The same, and nothing stands in any of their cells, or codes of missing alone.
    blank: tuple[str, ...] = ()
    #: Numeric ones of which a cell looks like a number in a spelling that is not read as one.
    other_styles: tuple[str, ...] = ()
    #: A cell of these is neither text, number nor true/false: it is not UTF-8, or very long.
    unreadable: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any((self.without_values, self.blank, self.other_styles, self.unreadable))


def lost_cells(stream: RowStream, schema: Schema) -> LostCells:
    """Return the columns of which a schema loses cells without a word; none of no rows."""
    filled, schema = schema.rulebook.may_fill, schema.stored
    closed = [a for a in schema if a.size and not isinstance(a, OpenCategorical)]
    bare = [replace(a, nullable=True, outside="missing") for a in closed]
    empty = {a.name: Encoder(a) for a in bare if a.name not in filled}
    blank = {a.name: Encoder(replace(a, outside="error")) for a in bare if a.name in empty}
    styles, unreadable, rows = set[str](), set[str](), 0
    for batch in rows_of(stream, schema).batches(schema.names):
        rows += batch.num_rows
        for place, attribute in enumerate(schema):
            name, column = attribute.name, batch.column(place)
            if name in empty and (empty[name].encode(column).codes < attribute.size).any():
                del empty[name]
            if name in empty and name in blank:
                try:
                    blank[name].encode(column)
                except DataError:
                    del blank[name]
            for cell in () if attribute.refuses else _unread(column, attribute):
                if isinstance(cell, Unreadable):
                    unreadable.add(name)
                elif isinstance(cell, str) and attribute.kind == "numeric":
                    styles |= {name} if number_style([cell.strip()], every=True) else set()
    ordered = (tuple(n for n in schema.names if n in found) for found in (styles, unreadable))
    nothing = tuple(name for name in empty if name in blank and rows)
    return LostCells(tuple(n for n in empty if rows and n not in nothing), nothing, *ordered)


def _unread(column: Chunk, attribute: AnyAttribute) -> list[Plain]:
    """Return the distinct cells, of numbers those that are neither numbers nor codes."""
    if isinstance(attribute, Date):
        return distinct(column, dated)[0]
    if isinstance(attribute, Numeric):
        codes = (code for kind in attribute.kinds for code in attribute.codes_of(kind))
        texts = {code.strip(): MISSING for code in codes if isinstance(code, str)}
        _, marks = read_numbers(column, texts)
        column = taken(column, np.flatnonzero(marks == OUTSIDE))
    return distinct(column)[0]
