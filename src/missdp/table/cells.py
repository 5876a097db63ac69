"""Canonical cells: each cell of any container as one text, with a flag for typed values.

A typed value is a number, true or false, a date or a moment, in contrast to a cell of text. The
flag distinguishes cells with equal text: the number 1000 is not the code ``"1e3"``, and true is not
the code ``"true"``. Every cell is read independently. The type of a column may select a faster way
to an equal result, never a different result.
"""

from __future__ import annotations

import datetime as dt
import decimal
import math
import re
import uuid
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema import Layout
from missdp.schema.attributes import LONGEST, MISSING, OUTSIDE, number_text, read_number
from missdp.schema.dates import Date, in_units
from missdp.schema.layout import PLAIN
from missdp.types import Floats

if TYPE_CHECKING:
    import pyarrow as pa

Status: TypeAlias = NDArray[np.int8]
"""Status of each cell: 0 for a value, else the negative mark of the reason for no value."""

Cell: TypeAlias = tuple[str, bool]
"""The canonical text of a cell, and a flag for a typed value."""

UNREADABLE: Final[Cell] = ("", True)
LONGEST_BYTES: Final = 4 * LONGEST  # bytes of the longest text in UTF-8
UNREAD: Final = b"\xff"
"""Bytes of a cell that is too long, or of an unsupported type. No text contains these bytes."""

_LONGEST_BITS = 13_000  # bits of a whole number that stays exact, about 3,900 digits
_FIRST_YEAR, _LAST_YEAR = dt.MINYEAR, dt.MAXYEAR
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT = re.compile(rf"{_DAY.pattern}(?:T.*)?", re.ASCII)
_TRUTH: Final = ("false", "true")
_TEXTS = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")


def canonical_cell(cell: Any) -> Cell | None:
    """Return the canonical form of a cell, or None if the cell is missing.

    Text and bytes in UTF-8 are text. A moment is in ISO 8601, and in UTC if it has a time zone. A
    moment at midnight without a time zone has no time. Text of more than 4,096 characters and cells
    of other types are ``UNREADABLE``. Short bytes that are not text become typed digits.
    """
    import pandas as pd

    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    try:
        for kinds, read in _READERS:
            if isinstance(cell, kinds):  # may run code of the cell, and raise
                return read(cell)
    except Exception:  # noqa: BLE001 - no error of a cell may refuse the table
        return UNREADABLE
    return UNREADABLE


def _text(cell: str) -> Cell:
    if str.__len__(cell) > LONGEST:
        return UNREADABLE
    return _bytes(str.encode(cell, "utf-8", "surrogatepass"))


def _bytes(raw: bytes) -> Cell:
    if len(raw) > LONGEST_BYTES:
        return UNREADABLE
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        short = raw != UNREAD and len(raw) <= LONGEST
        return (f"0x{raw.hex()}", True) if short else UNREADABLE
    return (text, False) if len(text) <= LONGEST else UNREADABLE


def _int(cell: Any) -> Cell:
    integer = int(cell)
    if integer.bit_length() > _LONGEST_BITS:
        return ("inf" if integer > 0 else "-inf", True)
    return str(integer), True


def _float(cell: Any) -> Cell | None:
    number = float(cell)
    return None if number != number else (number_text(number), True)


def _decimal(cell: decimal.Decimal) -> Cell | None:
    if cell.is_nan():
        return None
    digits = cell.as_tuple().digits
    if not cell.is_finite() or max(len(digits), abs(cell.adjusted())) > LONGEST // 2:
        return _float(cell)
    if cell == cell.to_integral_value():
        return str(int(cell)), True
    return f"{cell.normalize(decimal.Context(prec=LONGEST)):f}", True


def _date(cell: dt.date) -> Cell:
    if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(dt.UTC)
    text = cell.isoformat().removesuffix("T00:00:00")
    return (text, True) if _MOMENT.fullmatch(text) else UNREADABLE


def _numpy_moment(cell: np.datetime64) -> Cell | None:
    if np.isnat(cell):
        return None
    year = int(cell.astype("datetime64[Y]").astype(np.int64)) + 1970
    if not _FIRST_YEAR <= year <= _LAST_YEAR:
        return UNREADABLE
    day = cell.astype("datetime64[D]")
    return str(day if day == cell else cell.astype("datetime64[us]")), True


# The order matters: a bool is an int in Python, a moment is a date, NumPy's durations are integers.
_READERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Cell | None]], ...] = (
    (str, _text),
    ((bool, np.bool_), lambda cell: (_TRUTH[bool(cell)], True)),
    (np.timedelta64, lambda cell: None if np.isnat(cell) else UNREADABLE),
    ((int, np.integer), _int),
    ((float, np.floating), _float),
    (decimal.Decimal, _decimal),
    ((bytes, bytearray, memoryview), lambda cell: _bytes(bytes(cell))),
    (dt.date, _date),
    (np.datetime64, _numpy_moment),
    (uuid.UUID, lambda cell: (str(cell), False)),
)


def value_of(cell: Cell) -> str | float | bool | None:
    """Return the text, number or truth value of a cell. A day is its text. None: unreadable."""
    text, typed = cell
    if not typed:
        return text
    if text in _TRUTH:
        return text == "true"
    number = read_number(text)
    return number if number is not None else text if _DAY.fullmatch(text) else None


def is_moment(cell: Cell) -> bool:
    """Return True if a cell is a day or a moment by its type."""
    return cell[1] and _MOMENT.fullmatch(cell[0]) is not None


# -- columns --------------------------------------------------------------------------------------


@cache
def _mixed() -> pa.DataType:
    """Return the type of a column whose cells have several types: canonical texts and flags."""
    import pyarrow as pa

    return pa.struct([("text", pa.large_string()), ("typed", pa.bool_())])


@cache
def _native() -> Mapping[type, pa.DataType | None]:
    """Return Arrow's types for types of Python. With None, Arrow infers its type."""
    import pyarrow as pa

    inferred: dict[type, pa.DataType | None] = {decimal.Decimal: None, dt.datetime: None}
    inferred |= {str: pa.large_string(), bytes: pa.large_binary(), bool: pa.bool_()}
    return {**inferred, int: pa.int64(), float: pa.float64(), dt.date: pa.date32()}


def to_arrow_array(data: Any) -> pa.Array:
    """Convert a column to an Arrow array. Objects of one type of Python keep their type.

    Objects of several types become canonical texts, each with its flag.
    """
    import pyarrow as pa

    if isinstance(data, pa.ChunkedArray):
        return pa.concat_arrays(data.chunks) if data.num_chunks else pa.array([], data.type)
    if isinstance(data, pa.Array):
        return without_views(data)
    kinds = {*map(type, data)} - {type(None)}
    kinds -= {float} if kinds == {str, float} else set()  # pandas mixes NaN with text
    if kinds == {dt.datetime} and len({c.tzinfo is None for c in data if c is not None}) > 1:
        kinds = set()
    if len(kinds) == 1 and (kind := kinds.pop()) in _native():
        with suppress(pa.ArrowException, TypeError, ValueError, OverflowError):
            return pa.array(data, _native()[kind], from_pandas=True)
    return pa.array([*map(canonical_cell, data)], _mixed()) if len(data) else pa.nulls(0)


def without_views(data: Any) -> Any:
    """Return a column without view types, from which Arrow cannot take cells."""
    import pyarrow as pa

    others = {pa.string_view(): pa.large_string(), pa.binary_view(): pa.large_binary()}
    return data.cast(others[data.type]) if data.type in others else data


def unique_values(data: pa.Array) -> tuple[list[Cell | None], NDArray[np.intp]]:
    """Return the distinct cells, the last of which is missing, and the index of each row's cell.

    The index of a missing cell is -1.
    """
    import pyarrow as pa

    if isinstance(data, pa.DictionaryArray):
        entries, rows = used_entries(data)
        cells, inner = unique_values(entries)
        return cells, np.append(inner, -1)[rows]
    if is_of(data, "null"):
        return [None], np.full(len(data), -1)
    if data.type == _mixed():
        texts, typed = data.flatten()
        encoded = texts.dictionary_encode()
        listed = [(text, flag) for text in encoded.dictionary.to_pylist() for flag in (False, True)]
        indices = 2 * _indices(encoded) + np.asarray(typed.fill_null(False))
        used, rows = _renumbered(indices, len(listed))
        return [*(listed[place] for place in used), None], rows
    try:
        encoded = data.dictionary_encode()
    except (pa.ArrowException, AttributeError):  # nested and extension types have no such kernel
        return unique_values(pa.array([*map(canonical_cell, objects(data))], _mixed()))
    return [*map(canonical_cell, objects(encoded.dictionary)), None], _indices(encoded)


def used_entries(data: pa.DictionaryArray) -> tuple[pa.Array, NDArray[np.intp]]:
    """Return the entries of a dictionary that occur, and the index of each row. -1 is missing."""
    import pyarrow as pa

    used, rows = _renumbered(_indices(data), len(data.dictionary))
    return without_views(data.dictionary).take(pa.array(used)), rows


def _renumbered(indices: NDArray[np.intp], size: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the indices that occur, and the place of each row among them. Negative: -1."""
    indices = np.maximum(indices, -1)
    flags = np.zeros(size + 1, dtype=bool)
    flags[indices] = True
    used = np.flatnonzero(flags[:-1])
    return used, np.where(indices < 0, -1, (np.cumsum(flags) - 1)[indices])


def _indices(data: pa.DictionaryArray) -> NDArray[np.intp]:
    """Return the index of the dictionary entry of each row. -1 is missing."""
    import pyarrow as pa

    return np.asarray(data.indices.cast(pa.int64()).fill_null(-1)).astype(np.intp, copy=False)


def objects(data: pa.Array) -> Iterable[Any]:
    """Return Arrow cells as Python objects. A cell without a Python value is a bare object."""
    import pyarrow as pa

    failures = (pa.ArrowException, ValueError, OverflowError, TypeError, ArithmeticError)
    with suppress(*failures):
        return list(data.to_pylist())

    def python_value(scalar: pa.Scalar) -> Any:
        try:
            return scalar.as_py()
        except failures:
            return object()

    return map(python_value, data)


def without_long_cells(data: pa.Array) -> pa.Array:
    """Return a column of a file. Unreadable bytes replace cells that are too long."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(data, pa.DictionaryArray):
        cells = data.dictionary
        short = without_long_cells(cells)
        return data if short is cells else pa.DictionaryArray.from_arrays(data.indices, short)
    if not is_of(data, "binary", "string") or not len(data):
        return data
    ends = np.frombuffer(data.buffers()[1], np.int32)[data.offset : data.offset + len(data) + 1]
    if np.diff(ends).max() <= LONGEST_BYTES:
        return data
    long = pc.greater(pc.binary_length(data), LONGEST_BYTES)
    return pc.if_else(long, pa.scalar(UNREAD, pa.large_binary()), data.cast(pa.large_binary()))


def is_of(data: pa.Array, *names: str) -> bool:
    """Return True if cells have a type with one of these names of `pyarrow.types`."""
    import pyarrow as pa

    return any(getattr(pa.types, f"is_{name}")(data.type) for name in names)


# -- numbers and dates ----------------------------------------------------------------------------


def read_numbers(
    data: pa.Array, codes: Mapping[str, int] = {}, layout: Layout = PLAIN
) -> tuple[Floats, Status]:
    """Read the numbers of a column, and the status of each cell.

    Parameters
    ----------
    data : Arrow array of shape (n_cells,)
        Private.
    codes : mapping of str to int
        Status of texts that stand for a kind of missing.
    layout : Layout, optional
        The format of numbers in text.

    Returns
    -------
    numbers : ndarray of shape (n_cells,)
        The nearest floating-point numbers. NaN for a cell that is not a number.
    status : ndarray of shape (n_cells,)
        0 for a number, the status of a code, ``OUTSIDE`` for a cell that is not a number, and
        ``MISSING`` for an empty cell.
    """
    import pyarrow as pa

    if isinstance(data, pa.DictionaryArray):
        entries, rows = used_entries(data)
        return _of_rows(*read_numbers(entries, codes, layout), rows)
    if is_of(data, "integer", "floating"):
        values = _native_numbers(data)
        return values, status_of_numbers(values)
    if is_of(data, "decimal"):
        # By way of text: Arrow's cast depends on the common scale of all cells.
        return _text_numbers(data.cast(pa.string()), {}, PLAIN)
    if is_of(data, *_TEXTS):
        return _text_numbers(data, codes, layout)
    return _distinct_numbers(data, codes, layout)


def _text_numbers(
    data: pa.Array, codes: Mapping[str, int], layout: Layout
) -> tuple[Floats, Status]:
    """Read simple texts with Arrow, which agrees with Python, and other texts with Python."""
    import pyarrow as pa
    import pyarrow.compute as pc

    group, point = re.escape(layout.thousands), re.escape(layout.decimal)
    grouped = rf"[0-9]{{1,3}}(?:{group}[0-9]{{3}}){{1,5}}|" if group else ""
    pattern = rf"^-?(?:{grouped}[0-9]{{1,17}})(?:{point}[0-9]{{1,17}})?$"
    if not is_of(data, "string", "large_string"):
        data = data.cast(pa.large_binary())
    easy = pc.match_substring_regex(data, pattern)
    # NaN, not null: before Arrow 24, null took wrong rows of slices.
    text = pc.if_else(easy, data, pa.scalar("nan").cast(data.type)).cast(pa.large_string())
    if not layout.plain:
        bare = pc.replace_substring(text, layout.thousands, "") if group else text
        text = pc.replace_substring(bare, layout.decimal, ".")
    values = _native_numbers(text.cast(pa.float64()))
    status = status_of_numbers(values)
    rest = np.flatnonzero((status < 0) & np.asarray(data.is_valid()))
    if len(rest):
        values[rest], status[rest] = _distinct_numbers(data.take(pa.array(rest)), codes, layout)
    return values, status


def _distinct_numbers(
    data: pa.Array, codes: Mapping[str, int], layout: Layout
) -> tuple[Floats, Status]:
    """Read each distinct cell once."""
    cells, rows = unique_values(data)
    numbers = [_number(cell, codes, layout) for cell in cells[:-1]]
    values = np.array([number for number, _ in numbers], dtype=np.float64)
    return _of_rows(values, np.array([mark for _, mark in numbers], dtype=np.int8), rows)


def _number(cell: Cell | None, codes: Mapping[str, int], layout: Layout) -> tuple[float, int]:
    """Return the number of a cell, or NaN, and the status of the cell."""
    if cell is None:
        return math.nan, MISSING
    value, plain = value_of(cell), layout.plain or cell[1]
    if isinstance(value, str):
        text = value.strip()
        localized = None if plain else layout.number(text)
        if localized is None and text in codes:
            return math.nan, codes[text]
        if not text:
            return math.nan, MISSING
        value = read_number(text) if plain else localized
    if not isinstance(value, float):
        return math.nan, OUTSIDE
    return value, MISSING if value != value else 0


def _native_numbers(data: pa.Array) -> Floats:
    """Return a numeric Arrow array as floating-point numbers."""
    import pyarrow as pa

    if not pa.types.is_float16(data.type):
        data = data.cast(
            pa.float64(), safe=False
        )  # whole numbers from 2**53 on become the nearest float
    with np.errstate(invalid="ignore"):  # signalling NaN
        # This is a copy, since Arrow's memory belongs to the caller.
        return np.array(data.to_numpy(zero_copy_only=False), dtype=np.float64)


def status_of_numbers(values: Floats) -> Status:
    """Return the status of numbers. NaN is missing."""
    return np.where(np.isnan(values), np.int8(MISSING), np.int8(0))


def _of_rows(values: Floats, status: Status, rows: NDArray[np.integer]) -> tuple[Floats, Status]:
    """Return the value and status of each row, by the index of its cell. -1 is missing."""
    return np.append(values, np.nan)[rows], np.append(status, np.int8(MISSING))[rows]


def read_dates(
    data: pa.Array, attribute: Date, codes: Mapping[str, int] = {}
) -> tuple[Floats, Status]:
    """Read the dates of a column as numbers, and the status of each cell.

    Parameters
    ----------
    data : Arrow array of shape (n_cells,)
        Private.
    attribute : Date
        The attribute, with the format of dates in text and their unit.
    codes : mapping of str to int
        Status of texts that stand for a kind of missing.

    Returns
    -------
    dates : ndarray of shape (n_cells,)
        Units of the calendar since 1970. NaN for a cell that is not a date.
    status : ndarray of shape (n_cells,)
        The status, as in `read_numbers`.
    """
    import pyarrow as pa

    if isinstance(data, pa.DictionaryArray):
        entries, rows = used_entries(data)
        return _of_rows(*read_dates(entries, attribute, codes), rows)
    if is_of(data, "timestamp", "date"):
        return _typed_dates(data, attribute, codes)
    cells, rows = unique_values(data)
    present = [cell or ("", False) for cell in cells[:-1]]
    texts = ["" if typed and text in _TRUTH else text.strip() for text, typed in present]
    status = np.zeros(len(present), dtype=np.int8)
    for place, (text, (_, typed)) in enumerate(zip(texts, present, strict=True)):
        status[place] = codes.get(text, 0) if text else OUTSIDE if typed else MISSING
    iso = np.array([is_moment(cell) for cell in present], dtype=bool)
    values = np.full(len(present), np.nan)
    for typed in (True, False):
        where = np.flatnonzero((status == 0) & (iso == typed))
        values[where], possible = attribute.read_texts([texts[i] for i in where], iso=typed)
        status[where[~possible]] = OUTSIDE
    values[status < 0] = np.nan
    return _of_rows(values, status, rows)


def _typed_dates(
    data: pa.Array, attribute: Date, codes: Mapping[str, int]
) -> tuple[Floats, Status]:
    """Read a column with a type of dates, or of moments with or without a time zone."""
    import pyarrow as pa

    kind = data.type
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    unit = kind.unit if pa.types.is_timestamp(kind) else "D" if pa.types.is_date32(kind) else "ms"
    units = data.cast(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    moments = np.asarray(units.fill_null(0)).astype(f"datetime64[{unit}]")
    years = moments.astype("datetime64[Y]").astype(np.int64) + 1970
    far = (years < _FIRST_YEAR) | (years > _LAST_YEAR)
    status = np.where(far | (zoned != attribute.zoned), np.int8(OUTSIDE), np.int8(0))
    status[np.asarray(data.is_null()) | np.isnat(moments)] = MISSING
    for text, mark in codes.items():  # the canonical text of a cell may be a code
        with suppress(ValueError):
            code = dt.datetime.fromisoformat(text)
            if canonical_cell(code) == (text, True) and (code.tzinfo is not None) == zoned:
                same = moments == np.datetime64(code.replace(tzinfo=None))
                status[same & (status != MISSING)] = mark
    near = np.where(status < 0, 0, moments.astype(np.int64)).astype(moments.dtype)
    values = attribute.round_down(in_units(near, attribute.unit))
    return np.where(status < 0, np.nan, values), status
