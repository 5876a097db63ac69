"""Cells become integer codes plus a mask, one column at a time, only here; and codes cells again.

The reading is row-local: the code, mask and value of a cell are a function of that cell and of its
attribute alone. A cell without a value is written as null, or as a code that its attribute declares
for the kind of missing that it is; the type of a written column depends on its attribute alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
from missdp.schema import AnyAttribute, Numeric, OpenCategorical, ReleasedCategorical
from missdp.schema.attributes import (
    KIND_MARKS,
    KINDS,
    MISSING,
    OUTSIDE,
    Kind,
    LevelReader,
    number_text,
)
from missdp.schema.dates import Date, code_text
from missdp.schema.numeric import code_dtype
from missdp.schema.open_levels import canonical, check_found, composed
from missdp.table.cells import (
    Cells,
    Chunk,
    Marks,
    Plain,
    Unreadable,
    distinct,
    read_dates,
    read_numbers,
    written,
)
from missdp.types import Flags, Floats, Ints

if TYPE_CHECKING:
    import pyarrow as pa

_Item = TypeVar("_Item", bound=np.generic)


@dataclass(frozen=True, eq=False, repr=False)
class Column:
    """Private cells of one attribute."""

    #: Level or bin; without a value, a code from the attribute's ``size`` on, by kind of missing.
    codes: NDArray[np.unsignedinteger]
    #: Of numbers, inside the bounds. Under the mask it is ``lower``, never NaN, so that a forgotten
    #: mask cannot poison a sum.
    values: Floats | None = None

    def take(self, rows: slice | NDArray[Any]) -> Column:
        """Return the cells of some rows."""
        return Column(self.codes[rows], None if self.values is None else self.values[rows])


class Encoder:
    """Encode columns of one attribute by its public facts."""

    def __init__(self, attribute: AnyAttribute) -> None:
        self._attribute = attribute
        codes = {kind: attribute.codes_of(kind) for kind in attribute.kinds}
        self._code_of = _code_of_mark(attribute)
        self._codes: dict[str | float, int] = {}  # marks of codes: of text, and of numbers
        if isinstance(attribute, Date):
            for kind, given in codes.items():
                self._codes |= dict.fromkeys(_as_dates(attribute, given), KIND_MARKS[kind])
        elif isinstance(attribute, Numeric):
            for kind, given in codes.items():
                self._codes |= dict.fromkeys(map(_stripped, given), KIND_MARKS[kind])
        elif isinstance(attribute, OpenCategorical | ReleasedCategorical):
            normal = {kind: tuple(map(composed, given)) for kind, given in codes.items()}
            self._levels = LevelReader((), normal)  # which knows the codes of missing cells
            self._found = {level: code for code, level in enumerate(attribute.levels)}
        else:
            self._levels = LevelReader(attribute.levels, codes)

    def occurring(self, data: Cells) -> Iterator[tuple[str, int]]:
        """Yield how many cells have each value of an open attribute, one or none each; private."""
        attribute = self._attribute
        assert isinstance(attribute, OpenCategorical)
        for chunk in _chunks(data):
            cells, indices = distinct(chunk)
            times = np.bincount(indices[indices >= 0], minlength=len(cells)).tolist()
            for cell, count in zip(cells, times, strict=True):
                if cell is None or isinstance(cell, Unreadable) or not count:
                    continue
                if self._levels.read(composed(cell)) == OUTSIDE:
                    yield canonical(cell) or attribute.other, count

    def encode(self, data: Cells) -> Column:
        """Return the codes of a column, and its values if the attribute is numeric."""
        check_found((self._attribute,))
        chunks = _chunks(data)
        if not isinstance(self._attribute, Numeric):
            return self._levelled(_join([self._find(chunk) for chunk in chunks]))
        texts = {code: mark for code, mark in self._codes.items() if isinstance(code, str)}
        a = self._attribute
        values, marks = zip(
            *(
                read_dates(chunk, a, texts) if isinstance(a, Date) else read_numbers(chunk, texts)
                for chunk in chunks
            ),
            strict=True,
        )
        return self._numeric(a, _join(values), _join(marks))

    def encode_numbers(self, values: Floats) -> Column:
        """Return the codes of numbers that are known; NaN is missing."""
        marks = np.where(np.isnan(values), np.int8(MISSING), np.int8(0))
        assert isinstance(self._attribute, Numeric)
        return self._numeric(self._attribute, values, marks)

    def _find(self, chunk: Chunk) -> NDArray[np.int32]:
        cells, indices = distinct(chunk)
        found = np.fromiter((self._find_one(cell) for cell in cells), np.int32, len(cells))
        return np.append(found, np.int32(MISSING))[indices]

    def _find_one(self, cell: Plain) -> int:
        if cell is None:
            return MISSING
        attribute = self._attribute
        if not isinstance(attribute, ReleasedCategorical):
            return OUTSIDE if isinstance(cell, Unreadable) else self._levels.read(cell)
        found = OUTSIDE if isinstance(cell, Unreadable) else self._levels.read(composed(cell))
        if found != OUTSIDE:
            return found
        return self._found.get(canonical(cell) or attribute.other, len(self._found) - 1)

    def _levelled(self, found: NDArray[np.int32]) -> Column:
        attribute = self._attribute
        if attribute.outside == "other":
            assert attribute.other is not None
            none = (found == MISSING) & (not attribute.kinds)
            found = np.where((found == OUTSIDE) | none, self._levels.read(attribute.other), found)
        if attribute.outside == "error":
            _refuse_outside(attribute, found == OUTSIDE)
            _refuse_null(attribute, found == MISSING)
        codes = np.where(found < 0, self._code_of[np.maximum(-found, 0)], found)
        return Column(codes=codes.astype(code_dtype(attribute)))

    def _numeric(self, attribute: Numeric, values: Floats, marks: Marks) -> Column:
        """Apply the policy; ``values`` is NaN where marks are below 0."""
        for code, mark in self._codes.items():
            if not isinstance(code, str):
                here = np.flatnonzero(values == code)
                values[here], marks[here] = np.nan, mark
        missing, unreadable = marks < 0, marks == OUTSIDE
        if attribute.outside == "clamp":
            missing &= ~unreadable | attribute.nullable
            values[np.isnan(values)] = attribute.lower
            if attribute.integer:
                np.rint(values, out=values)
            np.clip(values, attribute.lower, attribute.upper, out=values)
            missing &= len(attribute.kinds) > 0
        else:
            outside = unreadable | (values < attribute.lower) | (values > attribute.upper)
            if attribute.integer:
                outside |= ~missing & (values != np.floor(values))
            if attribute.outside == "error":
                _refuse_outside(attribute, outside)
                _refuse_null(attribute, missing)
            missing |= outside
            values[missing] = attribute.lower
        values = attribute.round_to_step(values) + 0.0  # one zero only: -0.0 + 0.0 is 0.0
        codes = attribute.encode_values(values)
        several = len(attribute.kinds) > 1
        codes[missing] = self._code_of[-marks[missing] if several else -MISSING]
        return Column(codes=codes.astype(code_dtype(attribute)), values=values)


def _as_dates(attribute: Date, codes: Sequence[str | float]) -> Iterator[str | float]:
    """Yield the texts of codes, and the dates that some of them are, such as 9999-12-31."""
    texts = [code_text(code) for code in codes]
    values, possible = attribute.read_texts(texts)
    yield from texts
    yield from values[possible].tolist()


def _stripped(code: str | float) -> str | float:
    return code.strip() if isinstance(code, str) else float(code)


def _code_of_mark(attribute: AnyAttribute) -> Ints:
    """Return the code of a cell without a value, by minus the mark that its reading gave."""
    marks = [-KIND_MARKS[kind] for kind in KINDS]
    null = attribute.missing_code if attribute.nullable else attribute.size
    found = np.full(1 + max(marks), null, dtype=np.int64)
    for place, kind in enumerate(attribute.kinds):
        found[-KIND_MARKS[kind]] = attribute.size + place
    return found


def _chunks(data: Cells) -> list[Chunk]:
    import pyarrow as pa

    if not isinstance(data, pa.ChunkedArray):
        return [data]
    return data.chunks or [pa.array([], data.type)]


def _join(parts: Sequence[NDArray[_Item]]) -> NDArray[_Item]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _refuse_outside(attribute: AnyAttribute, outside: Flags) -> None:
    if outside.any():
        if isinstance(attribute, Numeric):
            bounds = ", ".join(map(attribute.format_value, (attribute.lower, attribute.upper)))
            expected = f"{_noun(attribute)} in [{bounds}]"
            remedy = "Correct the bounds if they are wrong"
            settings = 'outside = "clamp" or "missing"'
        else:
            expected = f"one of its {attribute.size} declared levels"
            remedy = "Add the level to the schema if it is public"
            settings = 'outside = "missing"'
        raise DataError(
            f"column {attribute.name!r} contains a value that is not {expected}, or a cell that "
            f"cannot be read. {remedy}, correct the data, or set {settings} in the schema."
        )


def _noun(attribute: Numeric) -> str:
    if isinstance(attribute, Date):
        return f"a {attribute.kind}{f' as {attribute.format}' if attribute.format else ''}"
    return "a whole number" if attribute.integer else "a number"


def _refuse_null(attribute: AnyAttribute, missing: Flags) -> None:
    if not attribute.kinds and missing.any():
        raise DataError(
            f"column {attribute.name!r} has missing cells but is not declared nullable; "
            "set nullable = true in the schema if it may have holes"
        )


#: How a cell without a value is written.
Holes: TypeAlias = Literal["nulls", "codes"]
_Code: TypeAlias = str | float


#: How a cell with a level is written.
Values: TypeAlias = Literal["codes", "labels"]


def check_holes(holes: str, values: str = "codes") -> None:
    """Refuse what is no way to write cells, without a value or with one."""
    if holes not in ("nulls", "codes"):
        raise ParameterError(f"holes must be 'nulls' or 'codes', not {holes!r}")
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
    attribute: AnyAttribute, column: Column, *, holes: Holes = "nulls", values: Values = "codes"
) -> pa.Array:
    """Return the cells of a column in a type that depends on the attribute alone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = _values(attribute, column, values)
    written = _codes_to_write(attribute) if holes == "codes" else {}
    if not written:
        return cells
    kind = _type(cells.type, written)
    each = pa.array([_as(kind, written.get(name)) for name in attribute.kinds], type=kind)
    place = column.codes.astype(np.int64) - attribute.size
    fillers = each.take(pa.array(np.maximum(place, 0), mask=place < 0))
    return pc.coalesce(pc.cast(cells, kind), fillers)


def _values(attribute: AnyAttribute, column: Column, values: Values) -> pa.Array:
    """Return the cells with null for every one that has no value."""
    import pyarrow as pa

    missing = column.codes >= attribute.size
    if isinstance(attribute, Numeric):
        if column.values is None:
            raise DataError(
                f"attribute {attribute.name!r} has bins only; draw values with with_values() first"
            )
        if isinstance(attribute, Date):
            return written(attribute, column.values, missing)
        kind = pa.int64() if attribute.integer else pa.float64()
        cells = column.values.astype(np.int64) if attribute.integer else column.values
        return pa.array(cells, type=kind, mask=missing)
    indices = pa.array(np.where(missing, 0, column.codes).astype(np.int64), mask=missing)
    labelled = values == "labels" and attribute.labels
    levels = attribute.level_labels if labelled else attribute.levels
    return pa.array(levels, None if levels else pa.string()).take(indices)


def _type(plain: pa.DataType, written: Mapping[Kind, _Code]) -> pa.DataType:
    """Return the type that holds values of a type, and codes."""
    import pyarrow as pa

    codes = written.values()
    if not (pa.types.is_integer(plain) or pa.types.is_floating(plain)):
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
