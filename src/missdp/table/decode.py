"""Integer codes become cells again, in a type that depends on their attribute alone.

A cell without a value is written as null, or as a code that its attribute declares for the kind of
missing that it is.
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

#: How a cell without a value is written.
MissingForm: TypeAlias = Literal["nulls", "codes"]
_Code: TypeAlias = str | float


#: How a cell with a level is written.
Values: TypeAlias = Literal["codes", "labels"]


def check_missing_form(missing_as: str, values: str = "codes") -> None:
    """Refuse what is no way to write cells, without a value or with one."""
    if missing_as not in ("nulls", "codes"):
        raise ParameterError(f"missing_as must be 'nulls' or 'codes', not {missing_as!r}")
    if values not in ("codes", "labels"):
        raise ParameterError(f"values must be 'codes' or 'labels', not {values!r}")


def _codes_to_write(attribute: AnyAttribute) -> dict[Kind, _Code]:
    """Return what each kind is written as: its first code that is read as that kind, else null."""
    given = {kind: attribute.codes_of(kind) for kind in attribute.kinds}
    if not any(given.values()):
        return {}
    reader = None if isinstance(attribute, Numeric) else LevelReader(attribute.levels, given)
    found: dict[Kind, _Code] = {}
    for kind, codes in given.items():
        for code in codes:
            blank = isinstance(code, str) and not code.strip()
            if blank if reader is None else reader.read(code) != KIND_MARKS[kind]:
                continue
            found[kind] = code.strip() if isinstance(code, str) else code
            break
    return found


def decode(
    attribute: AnyAttribute,
    column: CodedColumn,
    *,
    missing_as: MissingForm = "nulls",
    values: Values = "codes",
) -> pa.Array:
    """Return the cells of a column in a type that depends on the attribute alone.

    Parameters
    ----------
    attribute : AnyAttribute
    column : Column
    missing_as, values : str, optional
        As in :meth:`Table.to_arrow`.

    Returns
    -------
    Arrow array of shape (n_rows,)
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = _values(attribute, column, values)
    written = _codes_to_write(attribute) if missing_as == "codes" else {}
    if not written:
        return cells
    each = _in_one_type([written.get(kind) for kind in attribute.kinds], cells.type)
    place = column.codes.astype(np.int64) - attribute.size
    fillers = each.take(pa.array(np.maximum(place, 0), mask=place < 0))
    return pc.coalesce(pc.cast(cells, each.type), fillers)


def _values(attribute: AnyAttribute, column: CodedColumn, values: Values) -> pa.Array:
    """Return the cells with null for every one that has no value."""
    import pyarrow as pa

    missing = column.codes >= attribute.size
    if isinstance(attribute, Numeric):
        if column.values is None:
            raise DataError(
                f"attribute {attribute.name!r} has bins only; draw values with with_values() first"
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
    """Return codes in the type that holds them and values of a plain type."""
    import pyarrow as pa

    known = [code for code in codes if code is not None]
    numbers = [code for code in known if not isinstance(code, str)]
    if len(numbers) < len(known) or not (pa.types.is_integer(plain) or pa.types.is_floating(plain)):
        texts = [c if c is None or isinstance(c, str) else number_text(float(c)) for c in codes]
        return pa.array(texts, pa.string())
    whole = all(float(number).is_integer() for number in numbers)
    return pa.array(codes, pa.float64()).cast(plain if whole else pa.float64())


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
        whole = attribute.in_text.is_integer(attribute.unit)
        kind = pa.int64() if whole else pa.float64()
    else:
        kind = pa.string()
    return pa.array(cells, type=kind).take(pa.array(rows, mask=missing))
