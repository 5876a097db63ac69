"""One column of any kind becomes integer codes plus a mask. This is the only place it happens."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Numeric

__all__ = ["Column", "code_dtype", "encode", "parse_numbers"]


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


def encode(attribute: AnyAttribute, data: pa.Array | pa.ChunkedArray) -> Column:
    """Encode one Arrow column by the public facts of its attribute.

    Null, NaN and the declared missing codes become the mask; values outside the domain follow the
    attribute's ``outside`` policy.

    Raises
    ------
    DataError
        If the column has the wrong type, a value outside the domain (policy ``"error"``) or a
        missing cell where none is allowed. The message never quotes a value or a count.
    """
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    if isinstance(data, pa.DictionaryArray):
        data = data.dictionary_decode()
    if pa.types.is_null(data.type) or pa.types.is_string_view(data.type):
        data = data.cast(pa.string())
    try:
        if isinstance(attribute, Numeric):
            return _encode_numeric(attribute, data)
        return _encode_levels(attribute, data)
    except pa.ArrowException:
        # Arrow's own message may quote a cell: say only what the schema says.
        raise DataError(
            f"column {attribute.name!r} cannot be read as {attribute.kind}; "
            "convert it before passing it in"
        ) from None


def _encode_levels(attribute: AnyAttribute, data: pa.Array) -> Column:
    assert not isinstance(attribute, Numeric)
    levels = attribute.levels
    cells = _null_out(attribute, data)
    typed = _as_level_type(cells, levels[0])
    found = pc.index_in(typed, value_set=pa.array(levels, type=typed.type))
    if _is_text(cells.type) and found.null_count > cells.null_count:
        # Only now, since it costs a pass: stray blanks around a level, and empty text.
        cells = _trimmed(cells)
        typed = _as_level_type(cells, levels[0])
        found = pc.index_in(typed, value_set=pa.array(levels, type=typed.type))
    missing = np.asarray(cells.is_null())
    unknown = np.asarray(found.is_null()) & ~missing
    missing = _apply_outside(attribute, missing, unknown)
    codes = np.asarray(found.fill_null(attribute.missing_code)).astype(code_dtype(attribute))
    return Column(codes=codes)


def _trimmed(cells: pa.Array) -> pa.Array:
    """Drop blanks around text; what is empty then is missing."""
    text = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _as_level_type(data: pa.Array, example: object) -> pa.Array:
    """Bring cells to the type of the levels; what cannot be converted becomes null (unknown)."""
    if isinstance(example, bool):
        return _as_bool(data)
    if isinstance(example, int):
        return _as_integer(data)
    if _is_text(data.type):
        return data.cast(pa.string())
    if pa.types.is_floating(data.type) or pa.types.is_decimal(data.type):
        return _as_integer(data).cast(pa.string())
    if pa.types.is_temporal(data.type) or pa.types.is_nested(data.type):
        raise pa.ArrowInvalid("unsupported type")
    return data.cast(pa.string())


def _as_bool(data: pa.Array) -> pa.Array:
    if pa.types.is_boolean(data.type):
        return data
    if _is_text(data.type):
        folded = pc.utf8_lower(data.cast(pa.string()))
        yes, no = pc.equal(folded, "true"), pc.equal(folded, "false")
    else:
        number = data.cast(pa.float64())
        yes, no = pc.equal(number, 1.0), pc.equal(number, 0.0)
    return pc.if_else(pc.or_(yes, no), yes, pa.scalar(None, pa.bool_()))


def _as_integer(data: pa.Array) -> pa.Array:
    if pa.types.is_integer(data.type):
        return data.cast(pa.int64())
    if pa.types.is_boolean(data.type):
        raise pa.ArrowInvalid("true/false is not an integer")
    number = parse_numbers(data)[0] if _is_text(data.type) else data.cast(pa.float64())
    whole = pc.and_(pc.equal(number, pc.floor(number)), pc.less(pc.abs(number), 2.0**53))
    return pc.if_else(whole, number, pa.scalar(None, pa.float64())).cast(pa.int64())


def _encode_numeric(attribute: Numeric, data: pa.Array) -> Column:
    cells = _null_out(attribute, _trimmed(data) if _is_text(data.type) else data)
    if pa.types.is_boolean(cells.type):
        raise pa.ArrowInvalid("true/false is not a number")
    number, unparsed = (
        parse_numbers(cells)
        if _is_text(cells.type)
        else (cells.cast(pa.float64(), safe=False), None)
    )
    missing = np.asarray(cells.is_null())
    values = np.array(number.fill_null(attribute.lower), dtype=np.float64)
    bad = np.zeros(len(values), dtype=bool) if unparsed is None else np.asarray(unparsed)
    missing |= np.isnan(values)
    values[missing] = attribute.lower
    outside = (values < attribute.lower) | (values > attribute.upper)
    if attribute.integer:
        bad |= np.isfinite(values) & (values != np.floor(values))
    if attribute.outside == "clamp":
        _refuse_outside(attribute, bad)
        np.clip(values, attribute.lower, attribute.upper, out=values)
    else:
        missing = _apply_outside(attribute, missing, outside | bad)
        values[missing] = attribute.lower
    codes = attribute.encode_values(values)
    codes[missing] = attribute.missing_code
    _refuse_null(attribute, missing)
    return Column(codes=codes.astype(code_dtype(attribute)), values=values)


def parse_numbers(data: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Read text as numbers; also return which cells are text that is no number."""
    text = pc.utf8_trim_whitespace(data.cast(pa.string()))
    pattern = r"^[+-]?((\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[iI][nN][fF]|[nN][aA][nN])$"
    is_number = pc.match_substring_regex(text, pattern)
    number = pc.if_else(is_number, text, pa.scalar(None, pa.string()))
    number = pc.replace_substring(number, "+", "") if len(number) else number
    return number.cast(pa.float64()), pc.invert(is_number).fill_null(False)


def _null_out(attribute: AnyAttribute, data: pa.Array) -> pa.Array:
    """Turn NaN and the declared missing codes into null."""
    if pa.types.is_floating(data.type):
        data = pc.if_else(pc.is_nan(data), pa.scalar(None, data.type), data)
    if not attribute.missing_codes:
        return data
    if _is_text(data.type):
        text = pc.utf8_trim_whitespace(data.cast(pa.string()))
        hit = pc.is_in(text, value_set=pa.array([_text(c) for c in attribute.missing_codes]))
        if numbers := [float(c) for c in attribute.missing_codes if not isinstance(c, str)]:
            hit = pc.or_(
                hit, pc.is_in(parse_numbers(text)[0], value_set=pa.array(numbers, pa.float64()))
            )
    else:
        codes = [float(c) for c in attribute.missing_codes if not isinstance(c, str)]
        hit = pc.is_in(data.cast(pa.float64(), safe=False), value_set=pa.array(codes, pa.float64()))
    return pc.if_else(hit, pa.scalar(None, data.type), data)


def _text(code: str | float) -> str:
    return code if isinstance(code, str) else repr(code)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _apply_outside(
    attribute: AnyAttribute, missing: NDArray[np.bool_], outside: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    if attribute.outside == "missing":
        missing = missing | outside
    else:
        _refuse_outside(attribute, outside)
    _refuse_null(attribute, missing)
    return missing


def _refuse_outside(attribute: AnyAttribute, outside: NDArray[np.bool_]) -> None:
    if outside.any():
        expected = (
            f"{'whole numbers' if attribute.integer else 'numbers'} in "
            f"[{attribute.lower:g}, {attribute.upper:g}]"
            if isinstance(attribute, Numeric)
            else f"one of its {attribute.size} declared levels"
        )
        remedy = "'clamp' or 'missing'" if isinstance(attribute, Numeric) else "'missing'"
        raise DataError(
            f"column {attribute.name!r} has values outside its declared domain ({expected}); "
            f"extend the domain, clean the data, or set outside = {remedy} in the schema"
        )


def _refuse_null(attribute: AnyAttribute, missing: NDArray[np.bool_]) -> None:
    if not attribute.nullable and missing.any():
        raise DataError(
            f"column {attribute.name!r} has missing cells but is not declared nullable; "
            "set nullable = true in the schema if it may have holes"
        )
