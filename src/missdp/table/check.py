"""Report for the curator: cells of a file that a schema drops silently. Private.

A release must not report lost cells. `missdp schema check` lists the columns for the curator.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from missdp.errors import DataError
from missdp.schema import (
    AnyAttribute,
    Date,
    Layout,
    Numeric,
    OpenCategorical,
    ReleasedCategorical,
    Schema,
)
from missdp.schema.attributes import MISSING, OUTSIDE, read_number
from missdp.table.cells import Cell, is_moment, read_numbers, unique_values, value_of
from missdp.table.encode import Encoder
from missdp.table.number_styles import number_style
from missdp.table.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa


def lost_cells(rows: Rows, schema: Schema) -> dict[str, tuple[str, ...]]:
    """List the columns with cells that a schema drops silently, by kind of loss. Private.

    Parameters
    ----------
    rows : Rows
        The private rows.
    schema : Schema
        The declared schema.

    Returns
    -------
    dict of str to tuple of str
        ``without_values``: no cell is in the declared domain, and no rule may fill the column.
        ``blank``: all cells are empty, or codes of missing cells. ``other_styles``: a cell looks
        like a number in another format. ``unreadable``: a cell is neither text, nor a number, nor
        true or false.
    """
    filled, weight, schema = schema.rule_set.rule_fillable, schema.weight, schema.input_columns
    if weight is not None:  # unreadable weights are dropped silently, too
        column = Numeric(
            name=weight.column, lower=0, upper=weight.upper, nullable=True, outside="clamp"
        )
        schema = replace(schema, attributes=(*schema.attributes, column), weight=None)
    bucketed = (OpenCategorical, ReleasedCategorical)
    closed = [a for a in schema if a.size and not isinstance(a, bucketed)]
    bare = [replace(a, nullable=True, outside="missing") for a in closed]
    file = schema.file
    empty = {a.name: Encoder(a, file) for a in bare if a.name not in filled}
    blank = {a.name: Encoder(replace(a, outside="error"), file) for a in bare if a.name in empty}
    styles, unreadable, n_rows = set[str](), set[str](), 0
    for batch in Rows.of(rows, schema).batches(schema.names):
        n_rows += batch.num_rows
        for place, attribute in enumerate(schema):
            name, column = attribute.name, batch.column(place)
            if name in empty and (empty[name].encode(column).codes < attribute.size).any():
                del empty[name]
            if name in empty and name in blank:
                try:
                    blank[name].encode(column)
                except DataError:
                    del blank[name]
            for cell in () if attribute.refuses else _unread(column, attribute, file):
                value = value_of(cell)
                if value is None:
                    unreadable.add(name)
                elif attribute.kind == "numeric" and isinstance(value, str):
                    text = value.strip()
                    if read_number(text) is not None:  # not in the format that the file declares
                        unreadable.add(name)
                    elif number_style([text], every=True):
                        styles.add(name)
    ordered = (tuple(n for n in schema.names if n in names) for names in (styles, unreadable))
    nothing = tuple(name for name in empty if name in blank and n_rows)
    without = tuple(n for n in empty if n_rows and n not in nothing)
    kinds = ("without_values", "blank", "other_styles", "unreadable")
    losses = zip(kinds, (without, nothing, *ordered), strict=True)
    return {kind: columns for kind, columns in losses if columns}


def _unread(column: pa.Array, attribute: AnyAttribute, file: Layout) -> list[Cell]:
    """Return distinct cells. In numbers and dates, only cells that are not read as values."""
    import pyarrow as pa

    if isinstance(attribute, Numeric) and not isinstance(attribute, Date):
        codes = (code for kind in attribute.kinds for code in attribute.codes_of(kind))
        texts = {code.strip(): MISSING for code in codes if isinstance(code, str)}
        _, status = read_numbers(column, texts, file)
        column = column.filter(pa.array(status == OUTSIDE))
    cells = (cell for cell in unique_values(column)[0] if cell is not None)
    return [cell for cell in cells if not (isinstance(attribute, Date) and is_moment(cell))]
