"""What a schema loses of private rows without a word, for their curator.

Where an attribute takes any cell, by ``outside``, a column that is written in another way than the
schema expects is read as holes, or as bounds. A release must not tell of it; the curator may.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.table.cells import Chunk, Unreadable, distinct, read_numbers, taken
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
    unreadable : tuple of str
        A cell of these is neither text, number nor true/false: it is not UTF-8, or very long.
    """

    without_values: tuple[str, ...] = ()
    other_styles: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.without_values or self.other_styles or self.unreadable)


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
    found: dict[str, set[str]] = {a.name: set() for a in schema if not a.refuses}
    rows = 0
    for batch in stream.batches(schema.names):
        rows += batch.num_rows
        for place, attribute in enumerate(schema):
            name, column = attribute.name, batch.column(place)
            if name in empty and (empty[name].encode(column).codes < attribute.size).any():
                del empty[name]
            if name in found:
                found[name] |= _faults(column, attribute)
    return LostCells(
        tuple(empty) if rows else (),
        *(tuple(n for n, faults in found.items() if fault in faults) for fault in (_STYLE, _RAW)),
    )


_STYLE, _RAW = "style", "unreadable"


def _faults(column: Chunk, attribute: AnyAttribute) -> set[str]:
    """Tell whether a cell cannot be read, or looks like a number and is neither one nor a code."""
    if isinstance(attribute, Numeric):
        codes = {code for kind in attribute.kinds for code in attribute.codes_of(kind)}
        texts = frozenset(code.strip() for code in codes if isinstance(code, str))
        _, lost = read_numbers(column, texts)
        cells, _ = distinct(taken(column, np.flatnonzero(lost)))
    else:
        cells, _ = distinct(column)
    found = {_RAW for cell in cells if isinstance(cell, Unreadable)}
    if isinstance(attribute, Numeric):
        texts_left = (cell.strip() for cell in cells if isinstance(cell, str))
        found |= {_STYLE for text in texts_left if number_style([text], every=True)}
    return found
