"""Rows of units: of each patient, customer or household at most so many rows take part.

Which ones is drawn once, from fresh secure randomness and from the rows of that unit alone, before
anything is counted; every later pass over the rows sees the same. Identifiers are compared, and
nothing else: no code is made of them, and none of them leaves. They are hashed to 128 bits by
multiply-shift with fresh secret factors (Dietzfelbinger 1996): whatever they are, two that differ
are alike with a chance of at most 2^-124, so that of a thousand million no two are, but for a
chance of 2^-64.

How much each row counts is known with it, in whole steps of 2**-20, one row at most: a function of
its own weight and of how many rows of its unit take part. So a unit whose rows count as one adds at
most 1 to any sum: its j rows count at most 1 / j each, and a sum of j vectors that are no longer
than that is no longer than 1, in L1 and in L2 norm.
"""

from __future__ import annotations

import decimal
import hashlib
import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, MissDPError, SchemaError, replacing
from missdp.schema import Numeric, Schema, SurveyWeight, Unit
from missdp.schema.attributes import LONGEST, number_text
from missdp.schema.layout import STEPS
from missdp.shelf import memory_in_force
from missdp.table.cells import (
    UNREADABLE,
    Cells,
    Chunk,
    HeldBatch,
    Plain,
    distinct,
    plain,
    read_numbers,
    taken,
)
from missdp.table.streams import Batch, FileRows, HeldRows, RowStream, rows_of, stream_of
from missdp.types import Flags, Ints

if TYPE_CHECKING:
    import pyarrow as pa

    from missdp.table.cells import Chunk

# Passes over these see the same rows in the same order; those of a database may not.
_REPEATABLE = (FileRows, HeldRows)


class UnitRows(RowStream):
    """The rows of a stream, at most so many of each unit; what each counts is in steps. Private."""

    def __init__(
        self, rows: RowStream, unit: Unit | None, weight: SurveyWeight | None = None
    ) -> None:
        self._rows, self.unchecked = rows, rows.unchecked
        self._apart = tuple(fact.column for fact in (unit, weight) if fact is not None)
        for fact, what in ((unit, "identifies units"), (weight, "weighs rows")):
            if fact is not None and fact.column not in rows.columns():
                raise DataError(f"the data has no column {fact.column!r}, which {what}")
        survey = None
        if weight is not None:  # of each row, whether it takes part or not
            survey = self._survey(weight)
        if unit is None:
            assert survey is not None
            self._kept, units = np.ones(len(survey), dtype=bool), np.arange(len(survey))
        else:
            own = numbers(identifiers(chunk, unit) for chunk in self._chunks(unit.column))
            self._kept = chosen(own, unit)
            units = own[self._kept]
            alone = units < 0  # a row without an identifier is a unit of its own
            units = np.where(alone, units.max(initial=-1) + np.cumsum(alone), units)
        survey = None if survey is None else survey[self._kept]
        self.weights = _row_weights(units, unit, survey)
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
            if len(rows) == batch.num_rows:
                yield batch
            else:
                columns = [_taken(batch.column(place), rows) for place in range(len(names))]
                yield HeldBatch(columns, len(rows))

    def _survey(self, weight: SurveyWeight) -> Ints:
        """Return the amount that each row counts by its own weight, in steps. Private."""
        # Imported here: the session package is imported after tables are.
        from missdp.session.row_kernel import map_rows
        from missdp.table.row_functions import WeightedRow

        function, name = WeightedRow(weight), weight.column
        found = (map_rows(function, {name: c}, len(c))[name] for c in self._chunks(name))
        return np.concatenate([np.zeros(0, dtype=np.int64), *found])

    def _chunks(self, name: str) -> Iterator[Chunk]:
        """Yield the cells of a column of all rows. Private."""
        import pyarrow as pa

        for batch in self._rows.batches((name,)):
            column = batch.column(0)
            yield from column.chunks if isinstance(column, pa.ChunkedArray) else [column]


def identifiers(chunk: Chunk, unit: Unit) -> pa.Array:
    """Return identifiers as bytes, null where there is none; each cell by itself. Private."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = {None, "", *map(_identifier, unit.missing_codes)}
    if (easy := _easy_identifiers(chunk)) is not None:
        codes = [_in_bytes(code) for code in missing if code is not None]
        lacking = pc.is_in(easy, pa.array(codes, easy.type))
        return (
            pc.if_else(lacking, pa.scalar(None, easy.type), easy)
            if pc.any(lacking).as_py()
            else easy
        )
    cells, places = distinct(chunk, _identifier)
    texts = [None if cell in missing else _in_bytes(cell) for cell in cells]
    each = pa.array([*texts, None], pa.large_binary())
    return each.take(pa.array(np.where(places < 0, len(texts), places)))


def _identifier(cell: Any) -> Plain:
    """Return an identifier as exact text; the same whole number of any type is the same one."""
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
    content = bytes(cell) if held else UNREAD
    return UNREADABLE if content == UNREAD or len(content) > LONGEST else f"0x{content.hex()}"


def _in_bytes(identifier: Plain) -> bytes:
    if not isinstance(identifier, str):
        return UNREAD
    return identifier.encode("utf-8", "surrogatepass")  # which Arrow's text cannot hold


def _taken(cells: Cells, rows: Ints) -> Cells:
    import pyarrow as pa

    if isinstance(cells, pa.ChunkedArray):
        return cells.take(pa.array(rows))
    return taken(cells, rows)


def chosen(units: Ints, unit: Unit) -> Flags:
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


_SHARE = 0.25  # of the memory in force


class _KeptRows(RowStream):
    """Columns of a stream, read once, now: every pass then sees the same rows.

    What has no room in memory is in a temporary file that only this user may read, and that has no
    name where the system can do that.
    """

    def __init__(self, rows: RowStream, names: tuple[str, ...]) -> None:
        self._names, self.unchecked = names, rows.unchecked
        room = max(1, int(_SHARE * memory_in_force()))
        self._file = tempfile.SpooledTemporaryFile(room, prefix="missdp-")  # noqa: SIM115
        weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()  # several counts read the one file
        self._batches: list[tuple[int, dict[str, int]]] = []  # rows, and where each column begins
        failed = DataError("the rows cannot be kept: the disk is full, or a cell is no plain value")
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else failed):
            for batch in rows.batches(names):
                starts = {n: self._keep(batch.column(place)) for place, n in enumerate(names)}
                self._batches.append((batch.num_rows, starts))

    def _keep(self, cells: Cells) -> int:
        start = self._file.tell()
        pickle.dump(cells, self._file, protocol=pickle.HIGHEST_PROTOCOL)
        return start

    def columns(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return self._names

    def about(self) -> int:
        """Return the number of rows; private."""
        return sum(rows for rows, _ in self._batches)

    def batches(self, names: tuple[str, ...]) -> Iterator[Batch]:
        """Yield the named columns, a batch of rows at a time."""
        for rows, starts in self._batches:
            yield HeldBatch([self._read(starts[name]) for name in names], rows)

    def _read(self, start: int) -> Cells:
        with self._lock:
            self._file.seek(start)
            cells: Cells = pickle.load(self._file)
            return cells


def rows_of_units(data: Any, schema: Schema) -> RowStream:
    """Return the rows that take part, kept if they may come in another order again."""
    unit, weight = schema.unit, schema.weight
    if unit is None and weight is None:
        return rows_of(data, schema)
    apart = tuple(fact.column for fact in (unit, weight) if fact is not None)
    if hasattr(type(data), "counts"):
        raise SchemaError(
            "units and weights cannot be used with a custom source. Pass the frame, file, relation "
            "or database instead."
        )
    names = (*schema.stored.names, *apart)
    rows = stream_of(data) or HeldRows(data, names, unread=schema.unread)
    if not isinstance(rows, _REPEATABLE):
        rows.check(names, unread=schema.unread)
        rows = _KeptRows(rows, names)
    facts = schema
    if weight is not None:  # numbers, which text files may write in their own way
        number = Numeric(name=weight.column, lower=0, upper=1)
        facts = replace(schema, attributes=(*schema.attributes, number), weight=None)
    return UnitRows(rows.laid_out(facts), unit, weight)


UNREAD: Final = b"\xff"
"""What cannot be read as an identifier: no text has these bytes, which files put for long cells."""

_LONGEST = 64  # bytes that are hashed at once
_EASY = rf"^[A-Za-z0-9_:/-]{{0,{_LONGEST}}}$"  # text that is the identifier as it stands
_WORD = 4  # bytes


def _easy_identifiers(cells: Chunk) -> pa.Array | None:
    """Return identifiers as bytes where all are short plain text or whole numbers; else None."""
    import pyarrow as pa
    import pyarrow.compute as pc

    chunk: Any = cells
    kind = getattr(chunk, "type", None)
    if isinstance(kind, pa.DataType) and pa.types.is_integer(kind):
        return chunk.cast(pa.large_string()).cast(pa.large_binary())
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    if not isinstance(kind, pa.DataType) or not any(is_text(kind) for is_text in texts):
        return None
    easy = pc.all(pc.match_substring_regex(chunk, _EASY)).as_py()
    return chunk.cast(pa.large_binary()) if easy is not False else None


def numbers(identifiers: Iterable[pa.Array]) -> Ints:
    """Return for each identifier a number that equal ones share; -1 if null, -2 if unread."""
    factors = np.frombuffer(os.urandom(8 * 4 * (_LONGEST // _WORD + 1)), dtype=np.uint64)
    parts = [_hashed(each, factors.reshape(-1, 4)) for each in identifiers]
    keys = np.concatenate([np.zeros((0, 2), dtype=np.uint64), *(key for key, _ in parts)])
    found = np.concatenate([np.zeros(0, dtype=np.int64), *(lacking for _, lacking in parts)])
    del parts
    known = np.flatnonzero(found == 0)
    first = keys[known, 0] if len(known) < len(keys) else keys[:, 0]
    order = np.argsort(first)
    ordered = first[order]
    alike = np.append(False, ordered[1:] == ordered[:-1])[: len(ordered)]
    del ordered
    second = keys[known, 1][order] if alike.any() else None
    if second is not None and (alike[1:] & (second[1:] != second[:-1])).any():
        order = np.lexsort((keys[known, 1], first))
        second = keys[known, 1][order]
        alike[1:] = (first[order[1:]] == first[order[:-1]]) & (second[1:] == second[:-1])
    found[known[order]] = np.cumsum(~alike) - 1
    return found


def _hashed(identifiers: pa.Array, factors: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], Ints]:
    """Return 128 bits for each identifier, and 0 where there is one; -1 and -2 as of `numbers`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.binary_length(identifiers)
    if (pc.max(lengths).as_py() or 0) > _LONGEST:
        identifiers = pa.array(map(_shorter, identifiers.to_pylist()), pa.large_binary())
        lengths = pc.binary_length(identifiers)
    lacking = np.zeros(len(identifiers), dtype=np.int64)
    lacking[_true(pc.equal(identifiers, pa.scalar(UNREAD, pa.large_binary())))] = -2
    lacking[_true(pc.is_null(identifiers))] = -1
    sizes = np.asarray(lengths.fill_null(0)).astype(np.uint64)
    width = -(-int(sizes.max(initial=0)) // _WORD)
    if not width:
        return np.zeros((len(sizes), 2), dtype=np.uint64), lacking
    whole = identifiers.fill_null(b"")
    bytes_ = pa.Array.from_buffers(
        pa.large_string(), len(whole), whole.buffers(), offset=whole.offset
    )
    padded = pc.ascii_rpad(bytes_, width * _WORD, padding="\0")
    cells = np.frombuffer(padded.buffers()[2], "<u4")[: len(sizes) * width]
    words = np.column_stack([cells.reshape(-1, width).astype(np.uint64), sizes])
    mixed = words @ np.vstack([factors[:width], factors[-1:]]) >> np.uint64(32)
    return mixed[:, :2] << np.uint64(32) | mixed[:, 2:], lacking


def _true(flags: Any) -> NDArray[np.bool_]:
    return np.asarray(flags.fill_null(False))


def _shorter(identifier: bytes | None) -> bytes | None:
    """Return a digest of a long identifier, which begins as no text does."""
    if identifier is None or len(identifier) <= _LONGEST:
        return identifier
    return UNREAD + hashlib.blake2b(identifier, digest_size=32).digest()


def survey_shares(cells: pa.Array, weight: SurveyWeight) -> Ints:
    """Return what rows count by a column of weights, each by itself, in steps."""
    values, marks = read_numbers(cells)
    known = (marks == 0) & np.isfinite(values) & (values >= 0)
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
