"""Decoding: integer codes become cells, in a type that depends on their attribute alone.

A cell without a value is written as null, or as a declared code of its kind of missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from missdp.errors import DataError, ParameterError
from missdp.schema import AnyAttribute, Numeric
from missdp.schema.attributes import KIND_MARKS, Kind, LevelReader, number_text
from missdp.schema.dates import ORIGINS, Date, DateTime
from missdp.table.encode import CodedColumn
from missdp.types import Flags, Floats

if TYPE_CHECKING:
    import pyarrow as pa

#: Output of a cell without a value: "nulls" for null, or "codes" for the first declared code of its
#: kind of missing, and null without a code.
MissingForm: TypeAlias = Literal["nulls", "codes"]
_Code: TypeAlias = str | float


#: Output of a cell with a level: "codes" for the level, or "labels" for its label.
Values: TypeAlias = Literal["codes", "labels"]


def check_missing_form(missing_as: str, values: str = "codes") -> None:
    """Check that the requested output format for missing cells and levels is supported.

    It returns nothing. Functions that write tables call it before they read rows.

    Parameters
    ----------
    missing_as : {"nulls", "codes"}
        Output of a cell without a value: "nulls", or "codes" for the declared code of its kind of
        missing.
    values : {"codes", "labels"}, default "codes"
        Output of a cell with a level: "codes" for the level, or "labels" for its label.

    Raises
    ------
    ParameterError
        If a parameter is another text.

    Examples
    --------
    >>> from missdp.table import check_missing_form
    >>> check_missing_form("nulls")
    >>> check_missing_form("NA")
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: missing_as must be 'nulls' or 'codes', not 'NA'
    """
    if missing_as not in ("nulls", "codes"):
        raise ParameterError(f"missing_as must be 'nulls' or 'codes', not {missing_as!r}")
    if values not in ("codes", "labels"):
        raise ParameterError(f"values must be 'codes' or 'labels', not {values!r}")


def _codes_to_write(attribute: AnyAttribute) -> dict[Kind, _Code]:
    """Return the first code of each kind of missing that is read back as this kind."""
    declared = {kind: attribute.codes_of(kind) for kind in attribute.kinds}
    if not any(declared.values()):
        return {}
    reader = None if isinstance(attribute, Numeric) else LevelReader(attribute.levels, declared)
    codes_by_kind: dict[Kind, _Code] = {}
    for kind, codes in declared.items():
        for code in codes:
            blank = isinstance(code, str) and not code.strip()
            if blank if reader is None else reader.read(code) != KIND_MARKS[kind]:
                continue
            codes_by_kind[kind] = code.strip() if isinstance(code, str) else code
            break
    return codes_by_kind


def decode(
    attribute: AnyAttribute,
    column: CodedColumn,
    *,
    missing_as: MissingForm = "nulls",
    values: Values = "codes",
) -> pa.Array:
    """Decode a column to cells, in a type that depends on the attribute alone.

    Parameters
    ----------
    attribute : AnyAttribute
        Public.
    column : CodedColumn
        Private, unless the table is synthetic.
    missing_as : {"nulls", "codes"}, default "nulls"
        Output of cells without a value, as in :meth:`Table.to_arrow`.
    values : {"codes", "labels"}, default "codes"
        Output of levels, as in :meth:`Table.to_arrow`.

    Returns
    -------
    Arrow array of shape (n_rows,)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = _values(attribute, column, values)
    codes = _codes_to_write(attribute) if missing_as == "codes" else {}
    if not codes:
        return cells
    fills = _in_one_type([codes.get(kind) for kind in attribute.kinds], cells.type)
    place = column.codes.astype(np.int64) - attribute.size
    fillers = fills.take(pa.array(np.maximum(place, 0), mask=place < 0))
    return pc.coalesce(pc.cast(cells, fills.type), fillers)


def _values(attribute: AnyAttribute, column: CodedColumn, values: Values) -> pa.Array:
    """Return the cells, with null for cells without a value."""
    import pyarrow as pa

    missing = column.codes >= attribute.size
    if isinstance(attribute, Numeric):
        if column.values is None:
            raise DataError(
                f"attribute {attribute.name!r} has bins only. Draw values with with_values() first."
            )
        if isinstance(attribute, Date):
            return _dates(attribute, column.values, missing)
        kind = pa.int64() if attribute.integer else pa.float64()
        cells = column.values.astype(np.int64) if attribute.integer else column.values
        return pa.array(cells, type=kind, mask=missing)
    indices = pa.array(np.where(missing, 0, column.codes).astype(np.int64), mask=missing)
    labelled = values == "labels" and attribute.labels
    levels = attribute.level_labels if labelled else attribute.levels
    return pa.array(levels, None if levels else pa.string()).take(indices)


def _in_one_type(codes: Sequence[_Code | None], plain: pa.DataType) -> pa.Array:
    """Return codes in a type that holds the codes and the values of a plain type."""
    import pyarrow as pa

    present = [code for code in codes if code is not None]
    numbers = [code for code in present if not isinstance(code, str)]
    if len(numbers) < len(present) or not (
        pa.types.is_integer(plain) or pa.types.is_floating(plain)
    ):
        texts = [c if c is None or isinstance(c, str) else number_text(float(c)) for c in codes]
        return pa.array(texts, pa.string())
    are_integers = all(float(number).is_integer() for number in numbers)
    return pa.array(codes, pa.float64()).cast(plain if are_integers else pa.float64())


def _dates(attribute: Date, values: Floats, missing: Flags) -> pa.Array:
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
        is_integer = attribute.in_text.is_integer(attribute.unit)
        kind = pa.int64() if is_integer else pa.float64()
    else:
        kind = pa.string()
    return pa.array(cells, type=kind).take(pa.array(rows, mask=missing))
