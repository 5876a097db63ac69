"""Cells of dates: columns of dates and moments, text, numbers; and dates as cells again.

As everywhere, each cell is read by itself. The type of a column tells what its cells are, text is
read in the one format that its attribute declares, and nothing is guessed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from missdp.schema.attributes import MISSING, OUTSIDE, number_text
from missdp.schema.dates import Date, DateTime
from missdp.schema.moments import ORIGINS, in_units
from missdp.table.cells import (
    UNREADABLE,
    Chunk,
    Coded,
    Marks,
    Plain,
    coded,
    distinct,
    plain,
    spread,
)
from missdp.types import Flags, Floats

if TYPE_CHECKING:
    import pyarrow as pa


_FIRST_YEAR, _LAST_YEAR = 1, 9999  # beyond which no date can be read as an object either


class Iso(str):
    """A date or a moment that came as an object, in ISO 8601."""

    __slots__ = ()


def read_dates(data: Chunk, attribute: Date, codes: Mapping[str, int] = {}) -> tuple[Floats, Marks]:
    """Return the dates of a column as numbers, and the mark of each cell, as ``read_numbers`` does.

    The mark is 0 for a date, else that of a text among the codes, ``OUTSIDE`` for what is no date
    in the declared format, ``MISSING`` if there is nothing.
    """
    import pyarrow as pa

    if isinstance(data, pa.DictionaryArray):
        data = coded(data)
    if isinstance(data, Coded):
        return spread(*read_dates(data.cells, attribute, codes), data.indices)
    if isinstance(data, pa.Array) and _is_moment(data.type):
        return _typed(data, attribute)
    cells, rows = distinct(data, dated)
    texts = [_text(cell) for cell in cells]
    marks = np.array([_mark(t, c, codes) for t, c in zip(texts, cells, strict=True)], dtype=np.int8)
    values = np.full(len(cells), np.nan)
    iso = np.array([isinstance(cell, Iso) for cell in cells], dtype=bool)
    for typed in (True, False):
        where = np.flatnonzero((marks == 0) & (iso == typed))
        values[where], possible = attribute.read_texts([texts[i] for i in where], iso=typed)
        marks[where[~possible]] = OUTSIDE
    values[marks < 0] = np.nan
    return spread(values, marks, rows)


def _is_moment(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


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


def _text(cell: Plain) -> str:
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
