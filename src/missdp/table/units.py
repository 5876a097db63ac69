"""Rows of units: of each patient, customer or household at most so many rows take part.

Which ones is drawn once, from fresh secure randomness and from the rows of that unit alone, before
anything is counted; every later pass over the rows sees the same. Identifiers are compared, and
nothing else: they become numbers that equal ones share, and none of them leaves. The identifiers of
all rows are in memory meanwhile.

How much each row counts is known with it, in whole steps of 2**-20, one row at most: a function of
its own weight and of how many rows of its unit take part. So a unit whose rows count as one adds at
most 1 to any sum: its j rows count at most 1 / j each, and a sum of j vectors that are no longer
than that is no longer than 1, in L1 and in L2 norm.
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

_EASY: Final = r"^[A-Za-z0-9_:/-]{0,64}$"  # text that is the identifier as it stands


def rows_of_units(data: Any, schema: Schema) -> Rows:
    """Return the rows that take part, kept if they may come in another order again.

    Without a unit and a weight these are all rows. With them, the rows have ``unit_sums`` and, if
    they do not count alike, ``unit_weights``.
    """
    unit, weight = schema.unit, schema.weight
    if unit is None and weight is None:
        return Rows.of(data, schema)
    if hasattr(type(data), "counts"):
        raise SchemaError(
            "units and weights cannot be used with a custom source. Pass the frame, file, relation "
            "or database instead."
        )
    apart = tuple(fact.column for fact in (unit, weight) if fact is not None)
    rows = Rows.of(data, schema, besides=apart)
    places = {f.column: f"[{f.table}] column" for f in (unit, weight) if f is not None}
    rows.check((*schema.input_columns.names, *apart), places=places)
    if not rows.is_ordered:
        rows = spool_rows(rows, (*schema.input_columns.names, *apart))
    survey = None if weight is None else _survey(rows, weight, schema.file)
    units = None
    if unit is not None:
        units = unit_numbers(identifiers(cells, unit) for cells in _cells(rows, unit.column))
    return _taking_part(rows, unit, units, survey, apart)


def _taking_part(
    rows: Rows, unit: Unit | None, units: Ints | None, survey: Ints | None, apart: tuple[str, ...]
) -> Rows:
    """Return the rows that take part, with the amounts that they count."""
    if unit is None or units is None:
        assert survey is not None
        flags, units = np.ones(len(survey), dtype=bool), np.arange(len(survey))
    else:
        flags = sample_rows_per_unit(units, unit)
        units = units[flags]
        alone = units < 0  # a row without an identifier is a unit of its own
        units = np.where(alone, units.max(initial=-1) + np.cumsum(alone), units)
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
        ignored={*rows.ignored, *apart},
        unit_weights=weights,
        unit_sums=unit_sums(units, weights, 1 if unit is None else unit.bound),
        is_chosen=True,
    )


def _cells(rows: Rows, name: str) -> Iterator[pa.Array]:
    """Yield the cells of a column of all rows. Private."""
    return (batch.column(0) for batch in rows.batches((name,)))


def _survey(rows: Rows, weight: SurveyWeight, layout: Layout) -> Ints:
    """Return the amount that each row counts by its own weight, in steps. Private."""
    # Imported here: the session package is imported after tables are.
    from missdp.session.row_kernel import map_rows
    from missdp.table.row_functions import WeightedRow

    function, name = WeightedRow(weight, layout), weight.column
    found = (map_rows(function, {name: c}, len(c))[name] for c in _cells(rows, name))
    return np.concatenate([np.zeros(0, dtype=np.int64), *found])


def spool_rows(rows: Rows, names: tuple[str, ...]) -> Rows:
    """Return some columns of rows, read once, now: every pass then sees the same rows."""
    failed = DataError("the rows cannot be kept: there is no room for a temporary file")
    with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
        spool = Spool(rows.batches(names))

    def read(wanted: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        return (batch.select(list(wanted)) for batch in spool)

    return Rows(lambda: names, read, lambda: len(spool), is_parsed=rows.is_parsed, is_ordered=True)


def identifiers(data: pa.Array, unit: Unit) -> pa.Array:
    """Return identifiers as bytes, null where there is none; each cell by itself. Private."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = to_arrow_array(data)
    missing = {b"", *(_identifier((code, False)) for code in unit.missing_codes)}
    if (found := _easy_identifiers(data)) is None:
        cells, rows = unique_values(data)
        each = pa.array([cell and _identifier(cell) for cell in cells], pa.large_binary())
        found = each.take(pa.array(np.where(rows < 0, len(cells) - 1, rows)))
    # Before Arrow 24, `if_else` with null takes wrong rows of a slice: so this is none any more.
    found = pa.concat_arrays([found[:0], found]) if found.offset else found
    lacking = pc.is_in(found, pa.array([*missing], found.type))
    return pc.if_else(lacking, pa.scalar(None, found.type), found)


def _identifier(cell: Cell) -> bytes:
    """Return an identifier as exact text; the same whole number of any type is the same one."""
    text = cell[0].strip()
    if cell[1]:
        if not text or "T" in text:  # neither text nor a number nor a day
            return UNREAD
        number = read_number({"true": "1", "false": "0"}.get(text, text))
        if number is not None and not text.lstrip("-").replace(".", "", 1).isdecimal():
            text = str(int(number)) if number.is_integer() else text
    whole = text.removesuffix(".0")  # as pandas writes whole numbers of a column with holes
    return (whole if whole.isascii() and whole.removeprefix("-").isdecimal() else text).encode()


def _easy_identifiers(data: pa.Array) -> pa.Array | None:
    """Return identifiers as bytes where all are short plain text or whole numbers; else None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(data.type):
        return data.cast(pa.large_string()).cast(pa.large_binary())
    if data.type not in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        return None
    easy = pc.all(pc.match_substring_regex(data, _EASY)).as_py()
    return data.cast(pa.large_binary()) if easy is not False else None


def unit_numbers(identifiers: Iterable[pa.Array]) -> Ints:
    """Return for each identifier a number that equal ones share; -1 if null, -2 if unread."""
    import pyarrow as pa
    import pyarrow.compute as pc

    parts = [each.dictionary_encode() for each in identifiers]
    kind = pa.dictionary(pa.int32(), pa.large_binary())
    whole = pa.chunked_array(parts, kind).unify_dictionaries()
    found = [np.asarray(chunk.indices.fill_null(-1), dtype=np.int64) for chunk in whole.chunks]
    units = np.concatenate([np.zeros(0, dtype=np.int64), *found])
    if whole.num_chunks:
        unread = pc.index(whole.chunk(0).dictionary, pa.scalar(UNREAD, pa.large_binary())).as_py()
        units[units == (unread if unread >= 0 else -2)] = -2
    return units


def sample_rows_per_unit(units: Ints, unit: Unit) -> Flags:
    """Return True for the rows that take part: at most ``max_rows`` of each unit, drawn at random.

    Units are numbers: -1 is none, -2 is one that cannot be read.
    """
    known = units >= 0
    if unit.if_missing == "refuse" and not known.all():
        raise without_identifier(unit)
    # Rows whose identifiers cannot be read may belong together: none counts on its own.
    kept: Flags = known | ((unit.if_missing == "own_unit") & (units == -1))
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


def without_identifier(unit: Unit) -> DataError:
    """Return why rows without an identifier are refused."""
    return DataError(
        f"a row has no identifier in the column {unit.column!r}; set if_missing in [unit] of "
        "the schema to 'drop' or 'own_unit' if that may be"
    )


def survey_shares(cells: Any, weight: SurveyWeight, layout: Layout = PLAIN) -> Ints:
    """Return the amount that each row counts by its weight, in steps.

    Parameters
    ----------
    cells : Arrow array or ndarray of shape (n_rows,)
        The column of weights. Private.
    weight : SurveyWeight
        The bound of weights, and the weight of a cell that cannot be read.
    layout : Layout, optional
        How numbers are written in text.

    Returns
    -------
    ndarray of shape (n_rows,)
        Whole numbers of steps. Private.
    """
    values, status = read_numbers(to_arrow_array(cells), {}, layout)
    known = (status == 0) & np.isfinite(values) & (values >= 0)
    share = np.minimum(np.where(known, values, weight.default), weight.upper) / weight.upper
    return np.floor(share * STEPS).astype(np.int64)


def _weights_of_units(units: Ints) -> Ints:
    """Return what each row counts if all rows of a unit count as one, in steps, rounded down."""
    return STEPS // np.bincount(units)[units] if len(units) else units


def _row_weights(units: Ints, unit: Unit | None, survey: Ints | None) -> Ints | None:
    """Return what each row counts by its unit and its own weight; None where each counts one."""
    if unit is None or unit.counts_as == "rows":
        return survey
    shared = _weights_of_units(units)
    return shared if survey is None else shared * survey // STEPS


def unit_sums(units: Ints, weights: Ints | None, bound: int) -> Ints:
    """Return the sums over units of what each counts, and of its square over the bound, in steps.

    A unit counts the bound at most, so it adds no more than the bound to either sum.
    """
    if weights is None:
        of_each = np.bincount(units) * STEPS
    else:
        of_each = np.bincount(units, weights).astype(np.int64)  # exact: below 2**53
    squares = np.floor(of_each * (of_each / (bound * STEPS))).astype(np.int64)
    return np.array([of_each.sum(), squares.sum()], dtype=np.int64)
