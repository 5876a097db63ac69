"""For the curator: cells of a file that a schema loses without a word. Private.

A release must not report lost cells. `missdp schema check` lists the columns for the curator.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Date, Numeric, OpenCategorical, ReleasedCategorical, Schema
from missdp.schema.attributes import MISSING, OUTSIDE
from missdp.table.cells import Chunk, Plain, Unreadable, dated, distinct, read_numbers, taken
from missdp.table.encode import Encoder
from missdp.table.number_styles import number_style
from missdp.table.streams import RowStream, rows_of


def lost_cells(stream: RowStream, schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return the columns of which a schema loses cells without a word, by what is lost. Private.

    Parameters
    ----------
    stream : RowStream
        The private rows.
    schema : Schema

    Returns
    -------
    dict of str to tuple of str
        ``without_values``: no cell is in the declared domain, and no rule may fill the column.
        ``blank``: all cells are empty, or codes of missing cells. ``other_styles``: a cell looks
        like a number that is not read as a number. ``unreadable``: a cell is neither text, nor a
        number, nor true or false.
    """
    filled, by, schema = schema.rule_set.rule_fillable, schema.weight, schema.stored
    if by is not None:  # nor is a row refused for a weight that cannot be read
        own = Numeric(name=by.column, lower=0, upper=by.upper, nullable=True, outside="clamp")
        schema = replace(schema, attributes=(*schema.attributes, own), weight=None)
    bucketed = (OpenCategorical, ReleasedCategorical)
    closed = [a for a in schema if a.size and not isinstance(a, bucketed)]
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
    without = tuple(n for n in empty if rows and n not in nothing)
    names = ("without_values", "blank", "other_styles", "unreadable")
    found = zip(names, (without, nothing, *ordered), strict=True)
    return {name: columns for name, columns in found if columns}


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
