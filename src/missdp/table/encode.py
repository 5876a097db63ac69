"""Cells become integer codes plus a mask, one column at a time, only here.

The reading is row-local: the code, mask and value of a cell are a function of that cell and of its
attribute alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Layout, Numeric, OpenCategorical, ReleasedCategorical
from missdp.schema.attributes import KIND_MARKS, KINDS, MISSING, OUTSIDE, LevelReader
from missdp.schema.dates import Date, code_text
from missdp.schema.layout import PLAIN
from missdp.schema.numeric import code_dtype
from missdp.schema.open_categorical import check_levels_declared, level_text, normalize_text
from missdp.table.cells import (
    Cell,
    Status,
    read_dates,
    read_numbers,
    status_of_numbers,
    to_arrow_array,
    unique_values,
    value_of,
)
from missdp.types import Flags, Floats, Ints


@dataclass(frozen=True, eq=False, repr=False)
class CodedColumn:
    """Private cells of one attribute."""

    #: Level or bin; without a value, a code from the attribute's ``size`` on, by kind of missing.
    codes: NDArray[np.unsignedinteger]
    #: Of numbers, inside the bounds. Under the mask it is ``lower``, never NaN, so that a forgotten
    #: mask cannot poison a sum.
    values: Floats | None = None

    def take(self, rows: slice | NDArray[Any]) -> CodedColumn:
        """Return the cells of some rows."""
        return CodedColumn(self.codes[rows], None if self.values is None else self.values[rows])

    def without_value(self, attribute: AnyAttribute, where: Flags, code: int) -> CodedColumn:
        """Return the cells with a code that stands for no value where ``where`` is true."""
        codes, values = np.where(where, code, self.codes), self.values
        if values is not None and isinstance(attribute, Numeric):
            values = np.where(where, attribute.lower, values)
        return CodedColumn(codes.astype(code_dtype(attribute)), values)


class Encoder:
    """Encode columns of one attribute by its public facts.

    Parameters
    ----------
    attribute : AnyAttribute
    layout : Layout, optional
        How numbers are written in text.
    """

    def __init__(self, attribute: AnyAttribute, layout: Layout = PLAIN) -> None:
        self._attribute, self._layout = attribute, layout
        self._code_of_status = _code_of_status(attribute)
        codes = {kind: attribute.codes_of(kind) for kind in attribute.kinds}
        if isinstance(attribute, Numeric):
            marked = [(code, KIND_MARKS[kind]) for kind, given in codes.items() for code in given]
            dates = isinstance(attribute, Date)
            self._texts = {code_text(c): mark for c, mark in marked if dates or isinstance(c, str)}
            self._sentinels = {float(c): mark for c, mark in marked if not isinstance(c, str)}
            if isinstance(attribute, Date):  # some codes are dates, such as 9999-12-31
                values, possible = attribute.read_texts([*self._texts])
                marks = np.array([*self._texts.values()])[possible].tolist()
                self._sentinels = dict(zip(values[possible].tolist(), marks, strict=True))
        elif isinstance(attribute, OpenCategorical | ReleasedCategorical):
            normal = {kind: tuple(map(normalize_text, given)) for kind, given in codes.items()}
            self._levels = LevelReader((), normal)  # which knows the codes of missing cells
            self._found = {level: code for code, level in enumerate(attribute.levels)}
        else:
            self._levels = LevelReader(attribute.levels, codes)

    def value_counts(self, data: Any) -> Iterator[tuple[str, int]]:
        """Yield how many cells have each value of an open attribute, one or none each; private."""
        attribute = self._attribute
        assert isinstance(attribute, OpenCategorical)
        cells, rows = unique_values(to_arrow_array(data))
        counts = np.bincount(rows[rows >= 0], minlength=len(cells)).tolist()
        for cell, count in zip(cells, counts, strict=True):
            value = None if cell is None else value_of(cell)
            if value is not None and self._levels.read(normalize_text(value)) == OUTSIDE:
                yield level_text(value) or attribute.other, count

    def encode(self, data: Any) -> CodedColumn:
        """Return the codes of a column, and its values if the attribute is numeric."""
        check_levels_declared((self._attribute,))
        data = to_arrow_array(data)
        if isinstance(self._attribute, Date):
            return self._numeric(*read_dates(data, self._attribute, self._texts))
        if isinstance(self._attribute, Numeric):
            return self._numeric(*read_numbers(data, self._texts, self._layout))
        cells, rows = unique_values(data)
        return self._levelled(np.array([self._level(cell) for cell in cells], np.int32)[rows])

    def encode_numbers(self, values: Floats) -> CodedColumn:
        """Return the codes of numbers that are known; NaN is missing."""
        return self._numeric(values, status_of_numbers(values))

    def _level(self, cell: Cell | None) -> int:
        """Return the level of a cell, or the negative status of a cell that has none."""
        if cell is None:
            return MISSING
        value, attribute = value_of(cell), self._attribute
        if not isinstance(attribute, ReleasedCategorical):
            return OUTSIDE if value is None else self._levels.read(value)
        found = OUTSIDE if value is None else self._levels.read(normalize_text(value))
        bucket = len(self._found) - 1
        return self._found.get(level_text(value) or "", bucket) if found == OUTSIDE else found

    def _levelled(self, found: NDArray[np.int32]) -> CodedColumn:
        """Apply the policy to levels."""
        attribute = self._attribute
        if attribute.outside == "other":
            assert attribute.other is not None
            none = (found == MISSING) & (not attribute.kinds)
            found = np.where((found == OUTSIDE) | none, self._levels.read(attribute.other), found)
        if attribute.outside == "error":
            self._refuse(found)
        codes = np.where(found < 0, self._code_of_status[np.maximum(-found, 0)], found)
        return CodedColumn(codes.astype(code_dtype(attribute)))

    def _numeric(self, values: Floats, status: Status) -> CodedColumn:
        """Apply the policy to numbers; the status says why a cell has none."""
        attribute = self._attribute
        assert isinstance(attribute, Numeric)
        for sentinel, mark in self._sentinels.items():
            status = np.where(values == sentinel, np.int8(mark), status)
        if attribute.outside == "clamp":
            values, status = self._clamped(attribute, values, status)
        else:
            outside = (values < attribute.lower) | (values > attribute.upper)
            if attribute.integer:
                outside |= values != np.floor(values)
            status = np.where((status == 0) & outside, np.int8(OUTSIDE), status)
            if attribute.outside == "error":
                self._refuse(status)
        without = np.flatnonzero(status)
        values[without] = attribute.lower
        values = attribute.round_to_step(values) + 0.0  # one zero only: -0.0 + 0.0 is 0.0
        codes = attribute.encode_values(values)
        codes[without] = self._code_of_status[-status[without]]
        return CodedColumn(codes=codes.astype(code_dtype(attribute)), values=values)

    @staticmethod
    def _clamped(attribute: Numeric, values: Floats, status: Status) -> tuple[Floats, Status]:
        """Move numbers to the nearest bound; no number is ``lower`` if none may be missing."""
        missing = (status < 0) & ((status != OUTSIDE) | attribute.nullable) & bool(attribute.kinds)
        values = np.where(status < 0, attribute.lower, values)
        values = np.rint(values) if attribute.integer else values
        clipped = np.clip(values, attribute.lower, attribute.upper)
        return clipped, np.where(missing, status, np.int8(0))

    def _refuse(self, status: NDArray[np.integer]) -> None:
        """Refuse cells outside the domain, and cells without a value that must have one."""
        attribute = self._attribute
        if (status == OUTSIDE).any():
            raise _outside(attribute, self._layout)
        if not attribute.kinds and (status < 0).any():
            raise DataError(
                f"column {attribute.name!r} has missing cells but is not declared nullable; "
                "set nullable = true in the schema if cells may be missing"
            )


def _code_of_status(attribute: AnyAttribute) -> Ints:
    """Return the code of a cell without a value, by minus its status."""
    null = attribute.missing_code if attribute.nullable else attribute.size
    found = np.full(1 + max(-KIND_MARKS[kind] for kind in KINDS), null, dtype=np.int64)
    for place, kind in enumerate(attribute.kinds):
        found[-KIND_MARKS[kind]] = attribute.size + place
    return found


def _outside(attribute: AnyAttribute, layout: Layout) -> DataError:
    """Return the error, which depends on public facts only."""
    spelled = ""
    if isinstance(attribute, Numeric):
        bounds = ", ".join(map(attribute.format_value, (attribute.lower, attribute.upper)))
        expected = f"{_noun(attribute)} in [{bounds}]"
        remedy = "Correct the bounds if they are wrong"
        settings = 'outside = "clamp" or "missing"'
        if isinstance(attribute, Date):
            spelled = " If text has dates in another form, declare it with format."
        elif layout.plain and not attribute.integer:
            spelled = ' If text has numbers with a decimal comma, set decimal = "," in [file].'
    else:
        expected = f"one of its {attribute.size} declared levels"
        remedy = "Add the level to the schema if it is public"
        settings = 'outside = "missing"'
    return DataError(
        f"column {attribute.name!r} contains a value that is not {expected}, or a cell that "
        f"cannot be read. {remedy}, correct the data, or set {settings} in the schema."
        f"{spelled}"
    )


def _noun(attribute: Numeric) -> str:
    if isinstance(attribute, Date):
        return f"a {attribute.kind}{f' as {attribute.format}' if attribute.format else ''}"
    return "a whole number" if attribute.integer else "a number"
