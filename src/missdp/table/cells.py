"""What a cell of any container is: text, a number, true or false, or nothing at all.

Every cell is read by itself. The type of a column may choose a faster way to the same answer,
never another answer.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Layout
from missdp.schema.attributes import LONGEST, MISSING, OUTSIDE, number_text, read_number
from missdp.schema.dates import ORIGINS, Date, DateTime, in_units
from missdp.types import Flags, Floats

if TYPE_CHECKING:
    import pyarrow as pa

Marks: TypeAlias = NDArray[np.int8]

# Text that Arrow reads as Python would, each cell by itself; all other text is read by Python.
_EASY_NUMBER = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$"


LONGEST_BYTES: Final = 4 * LONGEST  # that the longest text takes at the most, in UTF-8


class Unreadable:
    """A cell that is neither text, nor a number, nor true/false, nor missing."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = Unreadable()
Plain: TypeAlias = str | float | bool | Unreadable | None


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column as distinct cells and, per row, which of them; -1 is missing."""

    cells: Chunk
    indices: NDArray[np.integer]

    def __len__(self) -> int:
        return len(self.indices)


Chunk: TypeAlias = "pa.Array | NDArray[np.object_] | Coded"
Cells: TypeAlias = "Chunk | pa.ChunkedArray"


@dataclass(frozen=True, eq=False, repr=False)
class HeldBatch:
    """Columns of some rows that are held. Private."""

    columns: Sequence[Cells]
    num_rows: int

    def column(self, place: int) -> Cells:
        """Return a column's cells."""
        return self.columns[place]


# Equal cells of one of these types mean the same, so that each needs to be read only once.
_HASHED = frozenset({str, int, float, bool, bytes, type(None), decimal.Decimal})


def plain(cell: Any) -> Plain:
    """Return what a cell is: text, the nearest floating-point number, true/false, None if missing.

    Bytes are text if they are UTF-8. A date, or a moment without time zone at midnight, is the text
    ``YYYY-MM-DD``. All else, and text of more than 4,096 characters, is ``UNREADABLE``.
    """
    import pandas as pd

    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    try:
        for kinds, read in _READERS:
            if isinstance(cell, kinds):  # which asks the cell for its class
                return read(cell)
    except Exception:  # noqa: BLE001 - whatever a cell raises must not refuse the table
        return UNREADABLE
    return UNREADABLE


def _float(cell: Any) -> Plain:
    number = float(cell)
    return None if number != number else number


def _int(cell: Any) -> Plain:
    whole = int(cell)
    try:
        return float(whole)
    except OverflowError:
        return float("inf") if whole > 0 else float("-inf")


def _text(cell: str) -> Plain:
    return UNREADABLE if str.__len__(cell) > LONGEST else str.__str__(cell)


def _bytes(cell: bytes) -> Plain:
    try:
        return UNREADABLE if len(cell) > LONGEST_BYTES else _text(cell.decode("utf-8"))
    except UnicodeDecodeError:
        return UNREADABLE


def _moment(cell: dt.datetime) -> Plain:
    at_midnight = cell.time() == dt.time() and not getattr(cell, "nanosecond", 0)
    if cell.tzinfo is not None or not at_midnight:
        return UNREADABLE
    return _date(cell)


def _date(cell: dt.date) -> Plain:
    if not dt.MINYEAR <= cell.year <= dt.MAXYEAR:  # pandas goes further
        return UNREADABLE
    return f"{cell.year:04}-{cell.month:02}-{cell.day:02}"


def _numpy_moment(cell: np.datetime64) -> Plain:
    if np.isnat(cell):
        return None
    year = int(cell.astype("datetime64[Y]").astype(np.int64)) + 1970
    if not dt.MINYEAR <= year <= dt.MAXYEAR:
        return UNREADABLE
    day = cell.astype("datetime64[D]")
    return str(day) if day == cell else UNREADABLE


# In this order: a bool is an int to Python, a moment is a date, NumPy's durations are integers.
_READERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Plain]], ...] = (
    (str, _text),
    ((bool, np.bool_), bool),
    (np.timedelta64, lambda cell: None if np.isnat(cell) else UNREADABLE),
    ((int, np.integer), _int),
    ((float, np.floating), _float),
    # Through text: correctly rounded at any scale.
    (decimal.Decimal, lambda cell: None if cell.is_nan() else float(cell)),
    ((bytes, bytearray, memoryview), lambda cell: _bytes(bytes(cell))),
    (dt.datetime, _moment),
    (dt.date, _date),
    (np.datetime64, _numpy_moment),
    (uuid.UUID, str),
)


def distinct(
    data: Chunk, read: Callable[[Any], Plain] = plain
) -> tuple[list[Plain], NDArray[np.intp]]:
    """Return distinct cells as plain values and, per row, which of them; -1 is missing."""
    import pyarrow as pa

    if isinstance(data, Coded):
        cells, inner = distinct(data.cells, read)
        return cells, np.append(inner, -1)[data.indices]
    if isinstance(data, np.ndarray):
        return _distinct_objects(data, read)
    if isinstance(data, pa.DictionaryArray):
        return distinct(_coded(data), read)
    try:
        found = data.dictionary_encode()
    except (pa.ArrowException, AttributeError):  # nested and extension types have no such kernel
        return _distinct_objects(objects(data), read)
    return [read(cell) for cell in objects(found.dictionary)], _indices_of(found)


def without_long_cells(data: pa.Array) -> pa.Array:
    """Return a column of a file, with unreadable bytes in place of cells that are too long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(data, pa.DictionaryArray):
        cells = data.dictionary
        short = without_long_cells(cells)
        return data if short is cells else pa.DictionaryArray.from_arrays(data.indices, short)
    if not _is(data, "binary", "string") or not len(data):
        return data
    ends = np.frombuffer(data.buffers()[1], np.int32)[data.offset : data.offset + len(data) + 1]
    if np.diff(ends).max() <= LONGEST_BYTES:
        return data
    long = pc.greater(pc.binary_length(data), LONGEST_BYTES)
    return pc.if_else(long, pa.scalar(b"\xff", pa.large_binary()), data.cast(pa.large_binary()))


def taken(data: Chunk, rows: NDArray[np.intp]) -> Chunk:
    """Return the cells of some rows."""
    import pyarrow as pa

    if isinstance(data, Coded):
        return Coded(data.cells, data.indices[rows])
    if isinstance(data, np.ndarray):
        return data[rows]
    try:
        return data.take(pa.array(rows))
    except pa.ArrowNotImplementedError:  # views of text and bytes have no such kernel
        return objects(data)[rows]


def _indices_of(data: pa.DictionaryArray) -> NDArray[np.intp]:
    """Return which dictionary entry each row has; -1 is missing."""
    import pyarrow as pa

    indices = data.indices.cast(pa.int64()).fill_null(-1)
    return np.asarray(indices).astype(np.intp, copy=False)


def _coded(data: pa.DictionaryArray) -> Coded:
    """Return a column with those entries of its dictionary that some row has."""
    indices = _indices_of(data)
    used = np.zeros(len(data.dictionary) + 1, dtype=bool)
    used[indices] = True
    places = np.cumsum(used) - 1
    return Coded(
        taken(data.dictionary, np.flatnonzero(used[:-1])),
        np.where(indices < 0, -1, places[indices]),
    )


def objects(data: pa.Array) -> NDArray[np.object_]:
    """Return Arrow cells as Python objects; one that has no Python value is UNREADABLE."""
    import pyarrow as pa

    try:
        cells: Iterable[Any] = data.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, TypeError, ArithmeticError):
        cells = map(_object, data)
    return np.fromiter(cells, dtype=object, count=len(data))


def _object(scalar: pa.Scalar) -> Any:
    import pyarrow as pa

    try:
        return scalar.as_py()
    except (pa.ArrowException, ValueError, OverflowError, TypeError, ArithmeticError):
        return UNREADABLE


def _distinct_objects(
    data: NDArray[np.object_], read: Callable[[Any], Plain]
) -> tuple[list[Plain], NDArray[np.intp]]:
    seen: dict[tuple[type, Any], int] = {}
    found: list[Plain] = []
    indices = np.empty(len(data), dtype=np.intp)
    for row, cell in enumerate(data):
        kind = type(cell)
        hashed = kind in _HASHED and not (kind is decimal.Decimal and cell.is_snan())
        index = seen.setdefault((kind, cell), len(found)) if hashed else len(found)
        if index == len(found):
            found.append(read(cell))
        indices[row] = index
    return found, indices


def read_numbers(data: Chunk, codes: Mapping[str, int] = {}) -> tuple[Floats, Marks]:
    """Return the nearest floating-point numbers, and the mark of each cell: 0 for a number.

    Without a number, the mark is negative: that of a text among the codes, ``OUTSIDE`` if it is not
    even written like a number, ``MISSING`` if there is nothing.
    """
    import pyarrow as pa

    if isinstance(data, pa.DictionaryArray):
        data = _coded(data)
    if isinstance(data, Coded):
        return _spread(*read_numbers(data.cells, codes), data.indices)
    if isinstance(data, pa.Array) and not isinstance(data, pa.ExtensionArray):
        if _is(data, "integer", "floating"):
            values = _native_numbers(data)
            return values, _marks(values)
        if _is(data, "decimal"):
            # Through text: Arrow's own cast depends on the scale that all cells have in common.
            return _text_numbers(data.cast(pa.string()), codes)
        if _is(data, *_TEXTS):
            return _text_numbers(data, codes)
    return _distinct_numbers(data, codes)


def spelled(data: Cells, layout: Layout) -> Cells:
    """Return cells with numbers in text as Python spells them; other text stays.

    A number that is spelled otherwise than declared is unreadable. Each cell is read by itself.
    """
    import pyarrow as pa

    if isinstance(data, pa.ChunkedArray):
        data = pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    if _is(data, "integer", "floating", "decimal"):
        return data
    if _is(data, "string", "large_string"):
        return _spelled_texts(data, layout)
    cells, rows = distinct(data)
    read = [_spelled(cell, layout) if isinstance(cell, str) else cell for cell in cells]
    return Coded(np.fromiter(read, dtype=object, count=len(read)), rows)


def _spelled_texts(data: Any, layout: Layout) -> pa.Array:
    """Return texts: those that Arrow reads as Python would, and then all others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    group, mark = re.escape(layout.thousands), re.escape(layout.decimal)
    grouped = rf"[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|" if group else ""
    easy = pc.match_substring_regex(data, rf"^-?(?:{grouped}[0-9]+)(?:{mark}[0-9]+)?$")
    bare = pc.replace_substring(data, layout.thousands, "") if group else data
    texts = pc.if_else(easy, pc.replace_substring(bare, layout.decimal, "."), data)
    others = pc.invert(easy).fill_null(False)
    if not pc.any(others).as_py():
        return texts
    cells, rows = distinct(data.filter(others))
    read = [_spelled(cell, layout) if isinstance(cell, str) else cell for cell in cells]
    found = [number_text(cell) if isinstance(cell, float) else cell for cell in read]
    raw = [cell.encode() if isinstance(cell, str) else b"\xff" for cell in found]
    placed = pa.array(raw, pa.large_binary()).take(pa.array(rows))
    return pc.replace_with_mask(texts.cast(pa.large_binary()), others, placed)


def _spelled(text: str, layout: Layout) -> Plain:
    number = layout.number(text.strip())
    if number is not None:
        return number
    return text if read_number(text.strip()) is None else UNREADABLE


def _distinct_numbers(data: Chunk, codes: Mapping[str, int]) -> tuple[Floats, Marks]:
    """Read each distinct cell once."""
    cells, indices = distinct(data)
    numbers = [_number(cell, codes) for cell in cells]
    values = np.array([number for number, _ in numbers], dtype=np.float64)
    return _spread(values, np.array([mark for _, mark in numbers], dtype=np.int8), indices)


def _spread(values: Floats, marks: Marks, rows: NDArray[np.integer]) -> tuple[Floats, Marks]:
    """Return what each row has, by its number of a cell; -1 is missing."""
    return np.append(values, np.nan)[rows], np.append(marks, np.int8(MISSING))[rows]


def _marks(values: Floats) -> Marks:
    return np.where(np.isnan(values), np.int8(MISSING), np.int8(0))


def _native_numbers(data: pa.Array) -> Floats:
    import pyarrow as pa

    if not pa.types.is_float16(data.type):
        data = data.cast(pa.float64(), safe=False)  # whole numbers beyond 2**53: the nearest
    with np.errstate(invalid="ignore"):  # signalling NaN
        # A copy: what comes back is changed in place, and Arrow's memory belongs to the caller.
        return np.array(data.to_numpy(zero_copy_only=False), dtype=np.float64)


def _text_numbers(data: pa.Array, codes: Mapping[str, int]) -> tuple[Floats, Marks]:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not _is(data, "string", "large_string"):
        data = data.cast(pa.large_binary())
    easy = pc.match_substring_regex(data, _EASY_NUMBER)
    # Not null instead of NaN: before Arrow 24 that took wrong rows of slices.
    text = pc.if_else(easy, data, pa.scalar("nan").cast(data.type))
    values = _native_numbers(text.cast(pa.large_string()).cast(pa.float64()))
    marks = _marks(values)
    rest = np.flatnonzero((marks < 0) & np.asarray(data.is_valid()))
    if len(rest):
        values[rest], marks[rest] = _distinct_numbers(data.take(pa.array(rest)), codes)
    return values, marks


def _number(cell: Plain, codes: Mapping[str, int]) -> tuple[float, int]:
    """Return the number that a cell is, NaN if none, and its mark."""
    if isinstance(cell, str):
        text = cell.strip()
        if text in codes:
            return math.nan, codes[text]
        number = read_number(text) if text else math.nan
        cell = UNREADABLE if number is None else number
    if isinstance(cell, float):
        return cell, MISSING if cell != cell else 0
    return math.nan, MISSING if cell is None else OUTSIDE


_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def _is(data: Any, *names: str) -> bool:
    """Whether cells are an Arrow array of one of these types, as `pyarrow.types` calls them."""
    import pyarrow as pa

    return isinstance(data, pa.Array) and any(
        getattr(pa.types, f"is_{name}")(data.type) for name in names
    )


_FIRST_YEAR, _LAST_YEAR = 1, 9999  # beyond which no date can be read as an object either


class Iso(str):
    """A date or a moment that came as an object, in ISO 8601."""

    __slots__ = ()


def read_dates(data: Chunk, attribute: Date, codes: Mapping[str, int] = {}) -> tuple[Floats, Marks]:
    """Return the dates of a column as numbers, and the mark of each cell, as in `read_numbers`."""
    import pyarrow as pa

    if isinstance(data, pa.DictionaryArray):
        data = _coded(data)
    if isinstance(data, Coded):
        return _spread(*read_dates(data.cells, attribute, codes), data.indices)
    if _is(data, "timestamp", "date"):
        return _typed(data, attribute)
    cells, rows = distinct(data, dated)
    texts = [_date_text(cell) for cell in cells]
    marks = np.array([_mark(t, c, codes) for t, c in zip(texts, cells, strict=True)], dtype=np.int8)
    values = np.full(len(cells), np.nan)
    iso = np.array([isinstance(cell, Iso) for cell in cells], dtype=bool)
    for typed in (True, False):
        where = np.flatnonzero((marks == 0) & (iso == typed))
        values[where], possible = attribute.read_texts([texts[i] for i in where], iso=typed)
        marks[where[~possible]] = OUTSIDE
    values[marks < 0] = np.nan
    return _spread(values, marks, rows)


def _typed(data: pa.Array, attribute: Date) -> tuple[Floats, Marks]:
    """Read a column that has dates, or moments with or without a time zone, by its type."""
    import pyarrow as pa

    kind = data.type
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    unit = kind.unit if pa.types.is_timestamp(kind) else "D" if pa.types.is_date32(kind) else "ms"
    whole = data.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    moments = np.asarray(whole.fill_null(0)).astype(f"datetime64[{unit}]")
    years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    far = (years < _FIRST_YEAR) | (years > _LAST_YEAR)
    marks = np.where(far | (zoned != attribute.zoned), np.int8(OUTSIDE), np.int8(0))
    marks[np.asarray(data.is_null()) | np.isnat(moments)] = MISSING
    near = np.where(marks < 0, 0, moments.astype(np.int64)).astype(moments.dtype)
    values = attribute.stepped(in_units(near, attribute.unit))
    return np.where(marks < 0, np.nan, values), marks


def dated(cell: Any) -> Plain:
    """Return what a cell is; dates and moments in ISO 8601, those with a time zone in UTC."""
    if not isinstance(cell, (dt.date, np.datetime64)):
        return plain(cell)
    try:
        if isinstance(cell, np.datetime64):
            return None if np.isnat(cell) else Iso(cell.astype("datetime64[us]"))
        if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
            cell = cell.astimezone(dt.UTC)
        return None if cell != cell else Iso(cell.isoformat())  # NaT is no other
    except Exception:  # noqa: BLE001 - whatever a cell raises must not refuse the table
        return UNREADABLE


def _date_text(cell: Plain) -> str:
    """Return the text of a cell that may be a date, nothing of any other."""
    if isinstance(cell, float):
        return number_text(cell)
    return cell.strip() if isinstance(cell, str) else ""


def _mark(text: str, cell: Plain, codes: Mapping[str, int]) -> int:
    """Return the mark of a cell, 0 if it may be a date."""
    if text:
        return codes.get(text, 0)
    return MISSING if cell is None or isinstance(cell, str) else OUTSIDE


def written(attribute: Date, values: Floats, missing: Flags) -> pa.Array:
    """Return dates as cells of a type that depends on the attribute alone."""
    import pyarrow as pa

    if attribute.format is None:
        days = values.astype(np.int64).astype(f"datetime64[{attribute.unit}]")
        if not isinstance(attribute, DateTime):
            return pa.array(days.astype("datetime64[D]"), type=pa.date32(), mask=missing)
        unit = "ms" if attribute.unit == "ms" else "s"
        kind = pa.timestamp(unit, tz=attribute.timezone)
        return pa.array(days.astype(f"datetime64[{unit}]"), mask=missing).cast(kind)
    different, rows = np.unique(values, return_inverse=True)
    cells = attribute.in_text.write(different, attribute.unit)
    if attribute.format in ORIGINS:
        whole = attribute.in_text.is_whole(attribute.unit)
        kind = pa.int64() if whole else pa.float64()
    else:
        kind = pa.string()
    return pa.array(cells, type=kind).take(pa.array(rows, mask=missing))
