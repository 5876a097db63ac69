"""Cells of any container as plain Python values: text, a number, true/false, or nothing at all.

What a cell becomes depends on the cell alone. The type of its column may choose a faster way to the
same answer, never another answer.
"""

from __future__ import annotations

import datetime as dt
import decimal
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

__all__ = [
    "UNREADABLE",
    "Cells",
    "Chunk",
    "Coded",
    "Plain",
    "Unreadable",
    "distinct",
    "indices_of",
    "plain",
]


class Unreadable:
    """A cell that is neither text, nor a number, nor true/false, nor missing."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = Unreadable()
Plain: TypeAlias = str | float | bool | Unreadable | None


@dataclass(frozen=True, eq=False, repr=False)
class Coded:
    """A column as distinct cells and, per row, which of them; negative is missing."""

    cells: Chunk
    indices: NDArray[np.integer]


Chunk: TypeAlias = pa.Array | NDArray[np.object_] | Coded
Cells: TypeAlias = Chunk | pa.ChunkedArray

# Equal cells of one of these types mean the same, so that each needs to be read only once.
_HASHED = frozenset({str, int, float, bool, bytes, type(None), decimal.Decimal})


def plain(cell: Any) -> Plain:
    """Return what a cell is: text, the nearest floating-point number, true/false, None if missing.

    Bytes are text if they are UTF-8. A date, or a moment without time zone at midnight, is the text
    ``YYYY-MM-DD``. Other moments, durations, complex numbers, lists and strange objects are
    ``UNREADABLE``.

    Examples
    --------
    >>> import datetime, decimal
    >>> plain(decimal.Decimal("0.10")), plain(7), plain(b"a"), plain(datetime.date(2020, 2, 1))
    (0.1, 7.0, 'a', '2020-02-01')
    >>> plain(float("nan")), plain([1]), plain(2**2000)
    (None, UNREADABLE, inf)
    """
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return None
    for kinds, read in _READERS:
        if isinstance(cell, kinds):
            return read(cell)
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


def _decimal(cell: decimal.Decimal) -> Plain:
    return None if cell.is_nan() else float(cell)  # through text: correctly rounded at any scale


def _bytes(cell: bytes) -> Plain:
    try:
        return bytes(cell).decode("utf-8")
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


def _numpy_duration(cell: np.timedelta64) -> Plain:
    return None if np.isnat(cell) else UNREADABLE


# In this order: a bool is an int to Python, a moment is a date, NumPy's durations are integers.
_READERS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Plain]], ...] = (
    (str, str.__str__),
    ((bool, np.bool_), bool),
    (np.timedelta64, _numpy_duration),
    ((int, np.integer), _int),
    ((float, np.floating), _float),
    (decimal.Decimal, _decimal),
    ((bytes, bytearray), _bytes),
    (dt.datetime, _moment),
    (dt.date, _date),
    (np.datetime64, _numpy_moment),
    (uuid.UUID, str),
)


def distinct(data: Chunk) -> tuple[list[Plain], NDArray[np.intp]]:
    """Return distinct cells as plain values and, per row, which of them; -1 is missing."""
    if isinstance(data, Coded):
        cells, inner = distinct(data.cells)
        return cells, _follow(inner, data.indices)
    if isinstance(data, np.ndarray):
        return _distinct_objects(data)
    if isinstance(data, pa.DictionaryArray):
        return distinct(Coded(data.dictionary, indices_of(data)))
    try:
        coded = data.dictionary_encode()
    except (pa.ArrowException, AttributeError):  # nested and extension types have no such kernel
        return _distinct_objects(_objects(data))
    return [plain(cell) for cell in _objects(coded.dictionary)], indices_of(coded)


def _follow(inner: NDArray[np.intp], outer: NDArray[np.integer]) -> NDArray[np.intp]:
    # One more entry at the end, where index -1 finds it.
    return np.append(inner, -1)[np.where(outer < 0, -1, outer)]


def indices_of(data: pa.DictionaryArray) -> NDArray[np.intp]:
    """Return which dictionary entry each row has; -1 is missing."""
    indices = data.indices.cast(pa.int64()).fill_null(-1)
    return np.asarray(indices).astype(np.intp, copy=False)


def _objects(data: pa.Array) -> NDArray[np.object_]:
    """Return Arrow cells as Python objects; one that has no Python value is UNREADABLE."""
    try:
        cells: Iterable[Any] = data.to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, TypeError, ArithmeticError):
        cells = map(_object, data)
    return np.fromiter(cells, dtype=object, count=len(data))


def _object(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (pa.ArrowException, ValueError, OverflowError, TypeError, ArithmeticError):
        return UNREADABLE


def _distinct_objects(data: NDArray[np.object_]) -> tuple[list[Plain], NDArray[np.intp]]:
    seen: dict[tuple[type, Any], int] = {}
    found: list[Plain] = []
    indices = np.empty(len(data), dtype=np.intp)
    for row, cell in enumerate(data):
        kind = type(cell)
        if kind not in _HASHED or (kind is decimal.Decimal and cell.is_snan()):
            indices[row] = len(found)
            found.append(plain(cell))
            continue
        index = seen.setdefault((kind, cell), len(found))
        if index == len(found):
            found.append(plain(cell))
        indices[row] = index
    return found, indices
