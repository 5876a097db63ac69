"""Codes become cells again, one column at a time: the inverse of reading.

A cell without a value is written as null, or as a code that its attribute declares for the kind of
missing that it is. The type of a column depends on its attribute alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from missdp.errors import DataError, ParameterError
from missdp.schema import AnyAttribute, Numeric
from missdp.schema.attributes import Kind, LevelReader, kind_mark, number_text
from missdp.table.encode import Column

if TYPE_CHECKING:
    import pyarrow as pa


__all__ = ["Holes", "check_holes", "codes_to_write", "decode"]

Holes: TypeAlias = Literal["nulls", "codes"]
"""How a cell without a value is written."""
_Code: TypeAlias = str | float


def check_holes(holes: str) -> None:
    """Refuse what is no way to write cells without a value."""
    if holes not in ("nulls", "codes"):
        raise ParameterError(f"holes must be 'nulls' or 'codes', not {holes!r}")


def codes_to_write(attribute: AnyAttribute) -> dict[Kind, _Code]:
    """Return what each kind of missing is written as: its first code that is read as that kind.

    A kind without such a code is left out; it is written as null.

    Examples
    --------
    >>> from missdp.schema import Categorical
    >>> facts = {"nullable": True, "refused": (-7, -17), "unknown": ()}
    >>> codes_to_write(Categorical(name="a", levels=("no", "yes"), **facts))
    {'refused': -7}
    """
    given = {kind: attribute.codes_of(kind) for kind in attribute.kinds}
    if not any(given.values()):
        return {}
    reader = None if isinstance(attribute, Numeric) else LevelReader(attribute.levels, given)
    found: dict[Kind, _Code] = {}
    for kind, codes in given.items():
        for code in codes:
            blank = isinstance(code, str) and not code.strip()
            if blank if reader is None else reader.read(code) != kind_mark(kind):
                continue
            found[kind] = code.strip() if isinstance(code, str) else code
            break
    return found


def decode(attribute: AnyAttribute, column: Column, *, holes: Holes = "nulls") -> pa.Array:
    """Return the cells of a column in a type that depends on the attribute alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = _values(attribute, column)
    written = codes_to_write(attribute) if holes == "codes" else {}
    if not written:
        return cells
    kind = _type(cells.type, written)
    each = pa.array([_as(kind, written.get(name)) for name in attribute.kinds], type=kind)
    place = column.codes.astype(np.int64) - attribute.size
    fillers = each.take(pa.array(np.maximum(place, 0), mask=place < 0))
    return pc.coalesce(pc.cast(cells, kind), fillers)


def _values(attribute: AnyAttribute, column: Column) -> pa.Array:
    """Return the cells with null for every one that has no value."""
    import pyarrow as pa

    missing = column.codes >= attribute.size
    if isinstance(attribute, Numeric):
        if column.values is None:
            raise DataError(
                f"attribute {attribute.name!r} has bins only; draw values with with_values() first"
            )
        kind = pa.int64() if attribute.integer else pa.float64()
        cells = column.values.astype(np.int64) if attribute.integer else column.values
        return pa.array(cells, type=kind, mask=missing)
    indices = pa.array(np.where(missing, 0, column.codes).astype(np.int64), mask=missing)
    return pa.array(attribute.levels).take(indices)


def _type(plain: pa.DataType, written: Mapping[Kind, _Code]) -> pa.DataType:
    """Return the type that holds values of a type, and codes."""
    import pyarrow as pa

    codes = written.values()
    if pa.types.is_string(plain) or pa.types.is_boolean(plain):
        return pa.string()
    if any(isinstance(code, str) for code in codes):
        return pa.string()
    whole = all(float(code).is_integer() for code in codes)
    return plain if whole else pa.float64()


def _as(kind: pa.DataType, code: _Code | None) -> _Code | None:
    """Return a code as a cell of a type."""
    import pyarrow as pa

    if code is None or isinstance(code, str):
        return code
    if pa.types.is_string(kind):
        return number_text(float(code))
    return int(code) if pa.types.is_integer(kind) else float(code)
