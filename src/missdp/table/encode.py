"""One column of any kind becomes integer codes plus a mask. This is the only place it happens.

Row locality: the code, mask and value of a cell are a function of that cell and of the attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Numeric
from missdp.schema.reading import MISSING, OUTSIDE, LevelReader, read_number
from missdp.table.cells import Cells, Chunk, Coded, Plain, Unreadable, distinct, indices_of

__all__ = ["Column", "Encoder", "code_dtype", "encode", "read_numbers"]

_Floats = NDArray[np.float64]
_Flags = NDArray[np.bool_]
_Item = TypeVar("_Item", bound=np.generic)

# Text that Arrow reads as Python would, each cell by itself; all other text is read by Python.
_EASY_NUMBER = r"^-?[0-9]{1,17}(\.[0-9]{1,17})?$"


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """Private cells of one attribute.

    Parameters
    ----------
    codes : array of unsigned int, shape (n,)
        Level or bin number; a missing cell has the attribute's ``missing_code``.
    values : array of float, shape (n,), optional
        Numeric attributes only: the value inside the bounds. Under the mask it holds ``lower``,
        never NaN, so that a forgotten mask cannot poison a sum.
    """

    codes: NDArray[np.unsignedinteger]
    values: NDArray[np.float64] | None = None


def code_dtype(attribute: AnyAttribute) -> type[np.unsignedinteger]:
    """Return the smallest unsigned integer type that holds every code, missing included."""
    if attribute.size < 2**8:
        return np.uint8
    return np.uint16 if attribute.size < 2**16 else np.uint32


def encode(attribute: AnyAttribute, data: Cells) -> Column:
    """Encode one column by the public facts of its attribute; see :class:`Encoder`."""
    return Encoder(attribute).encode(data)


class Encoder:
    """Encode columns of one attribute by its public facts.

    Parameters
    ----------
    attribute : Categorical, Ordinal or Numeric
        The declared domain, missing codes, and what to do with everything else.
    """

    def __init__(self, attribute: AnyAttribute) -> None:
        self._attribute = attribute
        codes = attribute.missing_codes
        if isinstance(attribute, Numeric):
            self._codes = np.array([c for c in codes if not isinstance(c, str)], dtype=np.float64)
            self._text_codes = frozenset(c.strip() for c in codes if isinstance(c, str))
        else:
            self._levels = LevelReader(attribute.levels, codes)

    def encode(self, data: Cells) -> Column:
        """Return the codes of a column, and its values if the attribute is numeric.

        Raises
        ------
        DataError
            If ``outside`` is ``"error"`` and a cell is not in the domain, or is missing where none
            may be. The message never quotes a value or a count.
        """
        chunks = _chunks(data)
        if not isinstance(self._attribute, Numeric):
            return self._levelled(_join([self._find(chunk) for chunk in chunks]))
        values, unreadable = zip(*(read_numbers(c, self._text_codes) for c in chunks), strict=True)
        return self._numeric(self._attribute, _join(values), _join(unreadable))

    def _find(self, chunk: Chunk) -> NDArray[np.int32]:
        cells, indices = distinct(chunk)
        found = np.fromiter((self._find_one(cell) for cell in cells), np.int32, len(cells))
        return np.append(found, np.int32(MISSING))[indices]

    def _find_one(self, cell: Plain) -> int:
        if cell is None:
            return MISSING
        return OUTSIDE if isinstance(cell, Unreadable) else self._levels.read(cell)

    def _levelled(self, found: NDArray[np.int32]) -> Column:
        attribute = self._attribute
        if attribute.outside == "error":
            _refuse_outside(attribute, found == OUTSIDE)
            _refuse_null(attribute, found == MISSING)
        codes = np.where(found < 0, attribute.missing_code, found).astype(code_dtype(attribute))
        return Column(codes=codes)

    def _numeric(self, attribute: Numeric, values: _Floats, unreadable: _Flags) -> Column:
        """Apply the policy; ``values`` is NaN where missing or unreadable."""
        values[np.isin(values, self._codes)] = np.nan
        missing = np.isnan(values)
        if attribute.outside == "clamp":
            values[missing] = attribute.lower
            if attribute.integer:
                np.rint(values, out=values)
            np.clip(values, attribute.lower, attribute.upper, out=values)
            missing &= attribute.nullable
        else:
            outside = unreadable | (values < attribute.lower) | (values > attribute.upper)
            if attribute.integer:
                outside |= ~missing & (values != np.floor(values))
            if attribute.outside == "error":
                _refuse_outside(attribute, outside)
                _refuse_null(attribute, missing)
            missing |= outside
            values[missing] = attribute.lower
        values += 0.0  # one zero only: -0.0 + 0.0 is 0.0
        codes = attribute.encode_values(values)
        codes[missing] = attribute.missing_code
        return Column(codes=codes.astype(code_dtype(attribute)), values=values)


def read_numbers(
    data: Chunk, missing_codes: frozenset[str] = frozenset()
) -> tuple[_Floats, _Flags]:
    """Return the nearest floating-point numbers, NaN where there is none, and what is unreadable.

    A cell is unreadable if it is neither a number, nor text that is written like one, nor missing.
    """
    if isinstance(data, pa.DictionaryArray):
        data = Coded(data.dictionary, indices_of(data))
    if isinstance(data, Coded):
        values, unreadable = read_numbers(data.cells, missing_codes)
        rows = np.where(data.indices < 0, -1, data.indices)
        return np.append(values, np.nan)[rows], np.append(unreadable, False)[rows]
    if isinstance(data, pa.Array) and not isinstance(data, pa.ExtensionArray):
        kind = data.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind):
            return _native_numbers(data), np.zeros(len(data), dtype=bool)
        if pa.types.is_decimal(kind):
            # Through text: Arrow's own cast depends on the scale that all cells have in common.
            return _text_numbers(data.cast(pa.string()), missing_codes)
        if _is_text(kind):
            return _text_numbers(data, missing_codes)
    cells, indices = distinct(data)
    values = np.fromiter((_number(cell, missing_codes) for cell in cells), np.float64, len(cells))
    unreadable = np.fromiter((_is_unreadable(c, missing_codes) for c in cells), bool, len(cells))
    return np.append(values, np.nan)[indices], np.append(unreadable, False)[indices]


def _native_numbers(data: pa.Array) -> _Floats:
    if not pa.types.is_float16(data.type):
        data = data.cast(pa.float64(), safe=False)  # whole numbers beyond 2**53: the nearest
    with np.errstate(invalid="ignore"):  # signalling NaN
        # A copy: what comes back is changed in place, and Arrow's memory belongs to the caller.
        return np.array(data.to_numpy(zero_copy_only=False), dtype=np.float64)


def _text_numbers(data: pa.Array, missing_codes: frozenset[str]) -> tuple[_Floats, _Flags]:
    if not (pa.types.is_string(data.type) or pa.types.is_large_string(data.type)):
        data = data.cast(pa.large_binary())
    easy = pc.match_substring_regex(data, _EASY_NUMBER)
    text = pc.if_else(easy, data, pa.scalar(None, data.type))
    values = _native_numbers(text.cast(pa.large_string()).cast(pa.float64()))
    unreadable = np.zeros(len(values), dtype=bool)
    rest = np.flatnonzero(np.isnan(values) & np.asarray(data.is_valid()))
    if len(rest):
        cells, indices = distinct(data.take(pa.array(rest)))
        numbers = np.array([_number(cell, missing_codes) for cell in cells])
        strange = np.array([_is_unreadable(cell, missing_codes) for cell in cells])
        values[rest], unreadable[rest] = numbers[indices], strange[indices]
    return values, unreadable


def _number(cell: Plain, missing_codes: frozenset[str]) -> float:
    """Return the number that a cell is, NaN if none."""
    if isinstance(cell, str):
        text = cell.strip()
        number = None if text in missing_codes else read_number(text)
    else:
        number = cell if isinstance(cell, float) else None
    return float("nan") if number is None else number


def _is_unreadable(cell: Plain, missing_codes: frozenset[str]) -> bool:
    if isinstance(cell, str):
        text = cell.strip()
        return bool(text) and text not in missing_codes and read_number(text) is None
    return cell is not None and not isinstance(cell, float)


def _is_text(kind: pa.DataType) -> bool:
    names = ("string", "large_string", "string_view", "binary", "large_binary", "binary_view")
    return any(getattr(pa.types, f"is_{name}", _never)(kind) for name in names)


def _never(_: pa.DataType) -> bool:
    return False  # a type that this version of Arrow does not have


def _chunks(data: Cells) -> list[Chunk]:
    if not isinstance(data, pa.ChunkedArray):
        return [data]
    return data.chunks or [pa.array([], data.type)]


def _join(parts: Sequence[NDArray[_Item]]) -> NDArray[_Item]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _refuse_outside(attribute: AnyAttribute, outside: _Flags) -> None:
    if outside.any():
        expected = (
            f"{'whole numbers' if attribute.integer else 'numbers'} in "
            f"[{attribute.lower:g}, {attribute.upper:g}]"
            if isinstance(attribute, Numeric)
            else f"one of its {attribute.size} declared levels"
        )
        remedy = "'clamp' or 'missing'" if isinstance(attribute, Numeric) else "'missing'"
        raise DataError(
            f"column {attribute.name!r} has values outside its declared domain ({expected}), or "
            "cells that cannot be read; extend the domain, clean the data, or set "
            f"outside = {remedy} in the schema"
        )


def _refuse_null(attribute: AnyAttribute, missing: _Flags) -> None:
    if not attribute.nullable and missing.any():
        raise DataError(
            f"column {attribute.name!r} has missing cells but is not declared nullable; "
            "set nullable = true in the schema if it may have holes"
        )
