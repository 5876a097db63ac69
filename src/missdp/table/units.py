"""Rows of units: of each patient, customer or household at most so many rows take part.

What each row counts is known with it, where not all count alike: see `missdp.table.weights`.

Which ones is drawn once, from fresh secure randomness and from the rows of that unit alone, before
anything is counted; every later pass over the rows sees the same. Identifiers are compared, and
nothing else: no code is made of them, and none of them leaves.
"""

from __future__ import annotations

import decimal
import os
from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from missdp.errors import DataError, SchemaError
from missdp.schema import Numeric, Schema, SurveyWeight, Unit
from missdp.schema.attributes import LONGEST, number_text
from missdp.table.cells import UNREADABLE, Cells, Chunk, HeldBatch, Plain, distinct, plain, taken
from missdp.table.frames import engine_of
from missdp.table.streams import Batch, FileRows, HeldRows, RowStream, rows_of, stream_of
from missdp.table.weights import row_weights, survey_weights, unit_sums
from missdp.types import Flags, Ints

if TYPE_CHECKING:
    import pyarrow as pa

# Passes over these see the same rows in the same order; a query of a database may not.
_REPEATABLE = (FileRows, HeldRows)
# What cannot be read as an identifier; no text has these bytes, and files put them for long cells.
_UNREAD = b"\xff"


class UnitRows(RowStream):
    """The rows of a stream, of which each unit has at most so many; without identifier and weight.

    Parameters
    ----------
    rows : RowStream
        Of a file or a frame: they must come in the same order whenever they are read.
    unit : Unit or None
    weight : SurveyWeight, optional

    Attributes
    ----------
    weights : ndarray of int64 or None
        What each row that takes part counts, in steps; None if each counts one. Private.
    sums : ndarray of int64
        See `missdp.table.weights.unit_sums`. Private.

    Raises
    ------
    DataError
        If there is no such column, or a row has no identifier and the unit says to refuse that.
    """

    def __init__(
        self, rows: RowStream, unit: Unit | None, weight: SurveyWeight | None = None
    ) -> None:
        self._rows, self.unchecked = rows, rows.unchecked
        self._apart = tuple(fact.column for fact in (unit, weight) if fact is not None)
        for column, what in zip(self._apart, _whats(unit, weight), strict=True):
            if column not in rows.columns():
                raise DataError(f"the data has no column {column!r}, which {what}")
        survey = None if weight is None else self._survey(weight)
        if unit is None:
            assert survey is not None
            self._kept, units = np.ones(len(survey), dtype=bool), np.arange(len(survey))
        else:
            found = self._identifiers(unit)
            self._kept = chosen(found, unit)
            units = _each(found[self._kept])
        survey = None if survey is None else survey[self._kept]
        self.weights = row_weights(units, unit, survey)
        self.sums = unit_sums(units, self.weights, 1 if unit is None else unit.bound)

    def columns(self) -> tuple[str, ...]:
        """Return the names of all columns but those of identifiers and weights."""
        return tuple(name for name in self._rows.columns() if name not in self._apart)

    def check(self, names: tuple[str, ...], *, unread: Collection[str] = ()) -> None:
        """Refuse repeated, absent and undeclared columns."""
        self._rows.check((*names, *self._apart), unread=unread)

    def laid_out(self, schema: Schema) -> RowStream:
        """Return the rows as they are: they are laid out by now."""
        del schema
        return self

    def about(self) -> int:
        """Return the number of rows that take part; private."""
        return int(np.count_nonzero(self._kept))

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns of the rows that take part, a batch at a time."""
        start = 0
        for batch in self._rows.batches(names):
            rows = np.flatnonzero(self._kept[start : start + batch.num_rows])
            start += batch.num_rows
            columns = [_taken(batch.column(place), rows) for place in range(len(names))]
            yield HeldBatch(columns, len(rows))

    def _chunks(self, name: str) -> Iterator[Chunk]:
        """Yield the cells of a column of all rows. Private."""
        import pyarrow as pa

        for batch in self._rows.batches((name,)):
            column = batch.column(0)
            yield from column.chunks if isinstance(column, pa.ChunkedArray) else [column]

    def _survey(self, weight: SurveyWeight) -> Ints:
        """Return what each row counts by its weight, whether it takes part or not. Private."""
        found = [survey_weights(chunk, weight) for chunk in self._chunks(weight.column)]
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def _identifiers(self, unit: Unit) -> Ints:
        """Return which unit each row belongs to, by number; -1 is none. Private."""
        import pyarrow as pa

        found = [_texts(chunk, unit) for chunk in self._chunks(unit.column)]
        encoded = pa.chunked_array(found, pa.large_binary()).combine_chunks().dictionary_encode()
        indices = np.asarray(encoded.indices.cast(pa.int64()).fill_null(-1)).astype(np.int64)
        unread = encoded.dictionary.index(pa.scalar(_UNREAD, pa.large_binary())).as_py()
        return indices if unread < 0 else np.where(indices == unread, -2, indices)


def _whats(unit: Unit | None, weight: SurveyWeight | None) -> list[str]:
    said = [(unit, "identifies units"), (weight, "weighs rows")]
    return [what for fact, what in said if fact is not None]


def _each(units: Ints) -> Ints:
    """Return numbers of units in which each row without an identifier is a unit of its own."""
    alone = units < 0
    return np.where(alone, units.max(initial=-1) + np.cumsum(alone), units)


def _texts(chunk: Chunk, unit: Unit) -> pa.Array:
    """Return identifiers as bytes, null where there is none; each cell by itself."""
    import pyarrow as pa

    cells, places = distinct(chunk, _identifier)
    missing = {None, "", *map(_identifier, unit.missing_codes)}
    texts = [None if cell in missing else _in_bytes(cell) for cell in cells]
    each = pa.array([*texts, None], pa.large_binary())
    return each.take(pa.array(np.where(places < 0, len(texts), places)))


def _identifier(cell: Any) -> Plain:
    """Return an identifier as text without blanks around it, exactly: none is taken for another.

    The same whole number is the same identifier, whatever the type of its column.
    """
    try:
        if isinstance(cell, decimal.Decimal) and cell.is_finite():
            return _digits(cell)
        found = plain(cell)
        if found is UNREADABLE:
            return _hexadecimal(cell)
        if isinstance(cell, (int, np.integer)) or (isinstance(found, float) and found.is_integer()):
            return str(int(cell))  # exact beyond 2**53, where numbers of other cells are not
    except Exception:  # noqa: BLE001 - whatever a cell raises must not refuse the table
        return UNREADABLE
    if isinstance(found, (bool, float)):
        return number_text(float(found))
    if found is None:
        return None
    text = str(found).strip()
    whole = text.removesuffix(".0")  # as pandas writes whole numbers of a column with holes
    return whole if whole.isascii() and whole.removeprefix("-").isdecimal() else text


def _digits(cell: decimal.Decimal) -> Plain:
    """Return a decimal number as text, whatever its precision; none with more than 4,096 digits."""
    if max(len(cell.as_tuple().digits), abs(cell.adjusted())) > LONGEST:
        return UNREADABLE
    if cell == cell.to_integral_value():
        return str(int(cell))
    return f"{cell.normalize(decimal.Context(prec=LONGEST)):f}"


def _hexadecimal(cell: Any) -> Plain:
    """Return bytes that are no text, such as UUIDs, by their digits."""
    held = isinstance(cell, (bytes, bytearray, memoryview))
    content = bytes(cell) if held else _UNREAD
    return UNREADABLE if content == _UNREAD or len(content) > LONGEST else f"0x{content.hex()}"


def _in_bytes(identifier: Plain) -> bytes:
    if not isinstance(identifier, str):
        return _UNREAD
    return identifier.encode("utf-8", "surrogatepass")  # which Arrow's text cannot hold


def _taken(cells: Cells, rows: Ints) -> Cells:
    import pyarrow as pa

    if isinstance(cells, pa.ChunkedArray):
        return cells.take(pa.array(rows))
    return taken(cells, rows)


def chosen(units: Ints, unit: Unit) -> Flags:
    """Return True for the rows that take part: at most ``max_rows`` of each unit, drawn at random.

    Parameters
    ----------
    units : ndarray of int64, shape (n,)
        The number of each row's unit; -1 is none, and -2 one that cannot be read.
    unit : Unit

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.schema import Unit
    >>> kept = chosen(np.array([0, 1, 0, 0, -1]), Unit("patient", max_rows=2))
    >>> kept[1], kept[4], kept[[0, 2, 3]].sum()
    (np.True_, np.False_, np.int64(2))
    """
    known = units >= 0
    if unit.missing == "refuse" and not known.all():
        raise DataError(
            f"a row has no identifier in the column {unit.column!r}; set missing_unit to 'drop' or "
            "'own' in the schema if that may be"
        )
    # Rows whose identifiers cannot be read may belong together: none counts on its own.
    kept: Flags = known | ((unit.missing == "own") & (units == -1))
    times = np.bincount(units[known])
    crowded = np.flatnonzero(known)[times[units[known]] > unit.max_rows]
    if not len(crowded):
        return kept
    kept[crowded] = False
    draws = np.frombuffer(os.urandom(8 * len(crowded)), dtype=np.uint64)
    order = crowded[np.lexsort((draws, units[crowded]))]
    sorted_units = units[order]
    begins = np.flatnonzero(np.append(True, sorted_units[1:] != sorted_units[:-1]))
    lengths = np.diff(np.append(begins, len(order)))
    rank = np.arange(len(order)) - np.repeat(begins, lengths)
    kept[order[rank < unit.max_rows]] = True
    return kept


def rows_of_units(data: Any, schema: Schema) -> RowStream:
    """Return the rows of any table, of each unit as many as take part if the schema declares one.

    Where it declares a unit or a weight, what each row counts is known with them: `UnitRows`.

    Raises
    ------
    SchemaError
        If they cannot be read twice in the same order, which units need.
    """
    unit, weight = schema.unit, schema.weight
    if unit is None and weight is None:
        return rows_of(data, schema)
    if engine_of(data) is not None or hasattr(type(data), "counts"):
        check_repeatable(None, schema)
    apart = tuple(fact.column for fact in (unit, weight) if fact is not None)
    names = (*schema.stored.names, *apart)
    rows = stream_of(data) or HeldRows(data, names, unread=schema.layout.unread)
    check_repeatable(rows, schema)
    facts = schema
    if weight is not None:  # numbers, which text files may write in their own way
        number = Numeric(name=weight.column, lower=0, upper=weight.upper)
        facts = replace(schema, attributes=(*schema.attributes, number), weight=None)
    return UnitRows(rows.laid_out(facts), unit, weight)


def check_repeatable(rows: object, schema: Schema) -> None:
    """Refuse rows of units that may come in another order when they are read again."""
    fact, done = schema.unit or schema.weight, "chosen" if schema.unit else "weighed"
    if fact is not None and not isinstance(rows, _REPEATABLE):
        raise SchemaError(
            "rows of a database or of Spark may come in another order when they are read again, so "
            f"they cannot be {done} by their {fact.column!r}: write them to a Parquet file, or "
            "pass a frame"
        )
