"""Rows of units: at most ``max_rows`` rows of each patient, customer or household take part.

The rows are drawn once, before anything is counted, by fresh secure randomness and by the rows of
the unit alone. Every later pass has the same rows. Identifiers are only compared for equality. They
become numbers, equal for equal identifiers, and no identifier is released. The identifiers of all
rows are in memory at once.

Each row counts a whole number of steps of 2**-20, at most one row. The count is a function of the
weight of the row and of the number of rows of its unit that take part. A unit that counts as one
adds at most 1 to any sum: each of its j rows counts at most 1 / j. A sum of j vectors of length at
most 1 / j has length at most 1, in L1 and in L2 norm.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from missdp.errors import DataError, MissDPError, SchemaError, replacing
from missdp.schema import Layout, Schema, SurveyWeight, Unit
from missdp.schema.attributes import read_number
from missdp.schema.layout import PLAIN, STEPS
from missdp.spool import Spool
from missdp.table.cells import UNREAD, Cell, read_numbers, to_arrow_array, unique_values
from missdp.table.rows import Rows
from missdp.types import Flags, Ints

if TYPE_CHECKING:
    import pyarrow as pa

_EASY: Final = r"^[A-Za-z0-9_:/-]{0,64}$"  # text that is an identifier without conversion


def rows_of_units(data: Any, schema: Schema) -> Rows:
    """Return the rows that take part, in an order that is fixed for all passes.

    Without a unit and a weight all rows take part. With a unit or a weight, the result has
    ``unit_sums``, and ``unit_weights`` if rows do not count equally.
    """
    unit, weight = schema.unit, schema.weight
    if unit is None and weight is None:
        return Rows.of(data, schema)
    if hasattr(type(data), "counts"):
        raise SchemaError(
            "units and weights cannot be used with a custom source. Pass the frame, file, relation "
            "or database instead."
        )
    extra = tuple(fact.column for fact in (unit, weight) if fact is not None)
    rows = Rows.of(data, schema, extra=extra)
    places = {f.column: f"[{f.table}] column" for f in (unit, weight) if f is not None}
    rows.check((*schema.input_columns.names, *extra), places=places)
    if not rows.is_ordered:
        rows = spool_rows(rows, (*schema.input_columns.names, *extra))
    survey = None if weight is None else _survey(rows, weight, schema.file)
    units = None
    if unit is not None:
        units = unit_numbers(identifiers(cells, unit) for cells in _cells(rows, unit.column))
    return _taking_part(rows, unit, units, survey, extra)


def _taking_part(
    rows: Rows, unit: Unit | None, units: Ints | None, survey: Ints | None, extra: tuple[str, ...]
) -> Rows:
    """Return the rows that take part, with their counts."""
    if unit is None or units is None:
        assert survey is not None
        flags, units = np.ones(len(survey), dtype=bool), np.arange(len(survey))
    else:
        flags = sample_rows_per_unit(units, unit)
        units = units[flags]
        single = units < 0  # rows without an identifier are separate units
        units = np.where(single, units.max(initial=-1) + np.cumsum(single), units)
    survey = None if survey is None else survey[flags]
    weights = _row_weights(units, unit, survey)

    def read(names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        start = 0
        for batch in rows.batches(names):
            part = flags[start : start + batch.num_rows]
            start += batch.num_rows
            yield batch if part.all() else batch.filter(pa.array(part))

    return replace(
        rows,
        read=read,
        length=lambda: int(np.count_nonzero(flags)),
        ignored={*rows.ignored, *extra},
        unit_weights=weights,
        unit_sums=unit_sums(units, weights, 1 if unit is None else unit.bound),
        is_chosen=True,
    )


def _cells(rows: Rows, name: str) -> Iterator[pa.Array]:
    """Yield the cells of a column, a batch at a time. Private."""
    return (batch.column(0) for batch in rows.batches((name,)))


def _survey(rows: Rows, weight: SurveyWeight, layout: Layout) -> Ints:
    """Return the count of each row by its survey weight, in steps. Private."""
    # Imported here: the session package imports this package.
    from missdp.session.row_kernel import map_rows
    from missdp.table.row_functions import WeightedRow

    function, name = WeightedRow(weight, layout), weight.column
    shares = (map_rows(function, {name: c}, len(c))[name] for c in _cells(rows, name))
    return np.concatenate([np.zeros(0, dtype=np.int64), *shares])


def spool_rows(rows: Rows, names: tuple[str, ...]) -> Rows:
    """Copy some columns of rows to a temporary file, so that every pass has the same rows."""
    failed = DataError("the rows cannot be copied: there is no space for a temporary file")
    with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
        spool = Spool(rows.batches(names))

    def read(requested: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        return (batch.select(list(requested)) for batch in spool)

    return Rows(lambda: names, read, lambda: len(spool), is_parsed=rows.is_parsed, is_ordered=True)


def identifiers(data: pa.Array, unit: Unit) -> pa.Array:
    """Return identifiers as bytes, null for absent identifiers, cell by cell. Private."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = to_arrow_array(data)
    missing = {b"", *(_identifier((code, False)) for code in unit.missing_codes)}
    if (texts := _easy_identifiers(data)) is None:
        cells, rows = unique_values(data)
        distinct = pa.array([cell and _identifier(cell) for cell in cells], pa.large_binary())
        texts = distinct.take(pa.array(np.where(rows < 0, len(cells) - 1, rows)))
    # Before Arrow 24, `if_else` with null takes wrong rows of a slice. This copies a slice.
    texts = pa.concat_arrays([texts[:0], texts]) if texts.offset else texts
    absent = pc.is_in(texts, pa.array([*missing], texts.type))
    return pc.if_else(absent, pa.scalar(None, texts.type), texts)


def _identifier(cell: Cell) -> bytes:
    """Return an identifier as exact text. Equal whole numbers of any type have equal texts."""
    text = cell[0].strip()
    if cell[1]:
        if not text or "T" in text:  # unreadable, or a moment
            return UNREAD
        number = read_number({"true": "1", "false": "0"}.get(text, text))
        if number is not None and not text.lstrip("-").replace(".", "", 1).isdecimal():
            text = str(int(number)) if number.is_integer() else text
    # pandas writes whole numbers of a column with missing cells with a decimal.
    integer = text.removesuffix(".0")
    is_integer = integer.isascii() and integer.removeprefix("-").isdecimal()
    return (integer if is_integer else text).encode()


def _easy_identifiers(data: pa.Array) -> pa.Array | None:
    """Return identifiers as bytes if all are short plain text or whole numbers, else None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(data.type):
        return data.cast(pa.large_string()).cast(pa.large_binary())
    if data.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return None
    easy = pc.all(pc.match_substring_regex(data, _EASY)).as_py()
    return data.cast(pa.large_binary()) if easy is not False else None


def unit_numbers(identifiers: Iterable[pa.Array]) -> Ints:
    """Return a number for each distinct identifier, -1 for null, and -2 for unreadable."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [part.dictionary_encode() for part in identifiers]
    kind = pa.dictionary(pa.int32(), pa.large_binary())
    encoded = pa.chunked_array(parts, kind).unify_dictionaries()
    indices = [np.asarray(chunk.indices.fill_null(-1), dtype=np.int64) for chunk in encoded.chunks]
    units = np.concatenate([np.zeros(0, dtype=np.int64), *indices])
    if encoded.num_chunks:
        unread = pc.index(encoded.chunk(0).dictionary, pa.scalar(UNREAD, pa.large_binary())).as_py()
        units[units == (unread if unread >= 0 else -2)] = -2
    return units


def sample_rows_per_unit(units: Ints, unit: Unit) -> Flags:
    """Return True for the rows that take part: at most ``max_rows`` of each unit, drawn at random.

    Units are numbers. -1 is an absent identifier, and -2 is an unreadable identifier.
    """
    identified = units >= 0
    if unit.if_missing == "refuse" and not identified.all():
        raise without_identifier(unit)
    # Rows with unreadable identifiers may belong together, so they never count as separate units.
    sampled: Flags = identified | ((unit.if_missing == "own_unit") & (units == -1))
    times = np.bincount(units[identified])
    crowded = np.flatnonzero(identified)[times[units[identified]] > unit.max_rows]
    if not len(crowded):
        return sampled
    sampled[crowded] = False
    draws = np.frombuffer(os.urandom(8 * len(crowded)), dtype=np.uint64)
    order = crowded[np.lexsort((draws, units[crowded]))]
    sorted_units = units[order]
    begins = np.flatnonzero(np.append(True, sorted_units[1:] != sorted_units[:-1]))
    lengths = np.diff(np.append(begins, len(order)))
    rank = np.arange(len(order)) - np.repeat(begins, lengths)
    sampled[order[rank < unit.max_rows]] = True
    return sampled


def without_identifier(unit: Unit) -> DataError:
    """Return the error for rows without an identifier."""
    return DataError(
        f"a row has no identifier in the column {unit.column!r}. If identifiers may be missing, "
        "set if_missing in [unit] of the schema to 'drop' or 'own_unit'"
    )


def survey_shares(cells: Any, weight: SurveyWeight, layout: Layout = PLAIN) -> Ints:
    """Return the count of each row by its survey weight, in steps.

    Parameters
    ----------
    cells : Arrow array or ndarray of shape (n_rows,)
        The column of weights. Private.
    weight : SurveyWeight
        The bound of weights, and the weight of a cell that cannot be read.
    layout : Layout, optional
        The format of numbers in text.

    Returns
    -------
    ndarray of shape (n_rows,)
        Whole numbers of steps. Private.
    """
    values, status = read_numbers(to_arrow_array(cells), {}, layout)
    valid = (status == 0) & np.isfinite(values) & (values >= 0)
    share = np.minimum(np.where(valid, values, weight.default), weight.upper) / weight.upper
    return np.floor(share * STEPS).astype(np.int64)


def _weights_of_units(units: Ints) -> Ints:
    """Return the count of each row if units count as one, in steps, rounded down."""
    return STEPS // np.bincount(units)[units] if len(units) else units


def _row_weights(units: Ints, unit: Unit | None, survey: Ints | None) -> Ints | None:
    """Return the count of each row by its unit and weight, or None if all rows count one."""
    if unit is None or unit.counts_as == "rows":
        return survey
    shared = _weights_of_units(units)
    return shared if survey is None else shared * survey // STEPS


def unit_sums(units: Ints, weights: Ints | None, bound: int) -> Ints:
    """Return the sum of the counts of units, and the sum of squared counts over the bound.

    Parameters
    ----------
    units : ndarray of shape (n_rows,)
        The unit of each row, from 0 on. Private.
    weights : ndarray of shape (n_rows,), optional
        The count of each row, in steps. Private.
    bound : int
        The largest count of a unit, in rows. Public.

    Returns
    -------
    ndarray of shape (2,)
        Whole numbers of steps. Private. A unit adds at most the bound to either sum.
    """
    if weights is None:
        counts = np.bincount(units) * STEPS
    else:
        counts = np.bincount(units, weights).astype(np.int64)  # exact: below 2**53
    squares = np.floor(counts * (counts / (bound * STEPS))).astype(np.int64)
    return np.array([counts.sum(), squares.sum()], dtype=np.int64)
