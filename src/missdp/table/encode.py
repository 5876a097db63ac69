"""Encoding of cells as integer codes, one column at a time. No other module encodes cells.

Encoding is row-local: the code and value of a cell are a function of the cell and of its attribute
alone.
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
    """Encoded private cells of one attribute: codes, and numbers if the attribute is numeric."""

    #: Code of the level or bin. Codes from ``size`` on are kinds of missing.
    codes: NDArray[np.unsignedinteger]
    #: Numbers inside the bounds. A missing number is ``lower``, never NaN, so that a forgotten mask
    #: does not make a sum NaN.
    values: Floats | None = None

    def take(self, rows: slice | NDArray[Any]) -> CodedColumn:
        """Return the cells of some rows."""
        return CodedColumn(self.codes[rows], None if self.values is None else self.values[rows])

    def without_value(self, attribute: AnyAttribute, where: Flags, code: int) -> CodedColumn:
        """Return the cells with a code of a kind of missing in some rows.

        Parameters
        ----------
        attribute : AnyAttribute
            The attribute of the column.
        where : ndarray of bool, shape (n_rows,)
            True for the rows that lose their value.
        code : int
            The code of the kind of missing.

        Returns
        -------
        CodedColumn
            A copy.
        """
        codes, values = np.where(where, code, self.codes), self.values
        if values is not None and isinstance(attribute, Numeric):
            values = np.where(where, attribute.lower, values)
        return CodedColumn(codes.astype(code_dtype(attribute)), values)


class Encoder:
    """Encoder of the cells of one attribute by its public facts.

    Parameters
    ----------
    attribute : AnyAttribute
        Public.
    layout : Layout, optional
        The format of numbers in text.
    """

    def __init__(self, attribute: AnyAttribute, layout: Layout = PLAIN) -> None:
        self._attribute, self._layout = attribute, layout
        self._code_of_status = _code_of_status(attribute)
        codes = {kind: attribute.codes_of(kind) for kind in attribute.kinds}
        if isinstance(attribute, Numeric):
            marked = [(code, KIND_MARKS[kind]) for kind, texts in codes.items() for code in texts]
            dates = isinstance(attribute, Date)
            self._texts = {code_text(c): mark for c, mark in marked if dates or isinstance(c, str)}
            self._sentinels = {float(c): mark for c, mark in marked if not isinstance(c, str)}
            if isinstance(attribute, Date):  # some codes are dates, such as 9999-12-31
                values, possible = attribute.read_texts([*self._texts])
                marks = np.array([*self._texts.values()])[possible].tolist()
                self._sentinels = dict(zip(values[possible].tolist(), marks, strict=True))
        elif isinstance(attribute, OpenCategorical | ReleasedCategorical):
            normal = {kind: tuple(map(normalize_text, texts)) for kind, texts in codes.items()}
            self._levels = LevelReader((), normal)  # reads codes of missing cells only
            self._code_of_level = {level: code for code, level in enumerate(attribute.levels)}
        else:
            self._levels = LevelReader(attribute.levels, codes)

    def value_counts(self, data: Any) -> Iterator[tuple[str, int]]:
        """Yield each value of an open attribute, with its number of cells. Private."""
        attribute = self._attribute
        assert isinstance(attribute, OpenCategorical)
        cells, rows = unique_values(to_arrow_array(data))
        counts = np.bincount(rows[rows >= 0], minlength=len(cells)).tolist()
        for cell, count in zip(cells, counts, strict=True):
            value = None if cell is None else value_of(cell)
            if value is not None and self._levels.read(normalize_text(value)) == OUTSIDE:
                yield level_text(value) or attribute.other, count

    def encode(self, data: Any) -> CodedColumn:
        """Return the codes of a column, and its numbers if the attribute is numeric."""
        check_levels_declared((self._attribute,))
        data = to_arrow_array(data)
        if isinstance(self._attribute, Date):
            return self._numeric(*read_dates(data, self._attribute, self._texts))
        if isinstance(self._attribute, Numeric):
            return self._numeric(*read_numbers(data, self._texts, self._layout))
        cells, rows = unique_values(data)
        return self._levelled(np.array([self._level(cell) for cell in cells], np.int32)[rows])

    def encode_numbers(self, values: Floats) -> CodedColumn:
        """Return the codes of numbers. NaN is missing."""
        return self._numeric(values, status_of_numbers(values))

    def _level(self, cell: Cell | None) -> int:
        """Return the level of a cell, or the negative status of a cell without a level."""
        if cell is None:
            return MISSING
        value, attribute = value_of(cell), self._attribute
        if not isinstance(attribute, ReleasedCategorical):
            return OUTSIDE if value is None else self._levels.read(value)
        status = OUTSIDE if value is None else self._levels.read(normalize_text(value))
        if status != OUTSIDE:
            return status
        return self._code_of_level.get(level_text(value) or "", len(self._code_of_level) - 1)

    def _levelled(self, levels: NDArray[np.int32]) -> CodedColumn:
        """Return the codes of levels and negative marks, by the policy ``outside``."""
        attribute = self._attribute
        if attribute.outside == "other":
            assert attribute.other is not None
            other = (levels == OUTSIDE) | ((levels == MISSING) & (not attribute.kinds))
            levels = np.where(other, self._levels.read(attribute.other), levels)
        if attribute.outside == "error":
            self._refuse(levels)
        codes = np.where(levels < 0, self._code_of_status[np.maximum(-levels, 0)], levels)
        return CodedColumn(codes.astype(code_dtype(attribute)))

    def _numeric(self, values: Floats, status: Status) -> CodedColumn:
        """Return the codes of numbers with their status, by the policy ``outside``."""
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
        """Clip numbers to the bounds. If cells may not be missing, no number becomes ``lower``."""
        missing = (status < 0) & ((status != OUTSIDE) | attribute.nullable) & bool(attribute.kinds)
        values = np.where(status < 0, attribute.lower, values)
        values = np.rint(values) if attribute.integer else values
        clipped = np.clip(values, attribute.lower, attribute.upper)
        return clipped, np.where(missing, status, np.int8(0))

    def _refuse(self, status: NDArray[np.integer]) -> None:
        """Raise DataError for cells outside the domain, and for forbidden missing cells."""
        attribute = self._attribute
        if (status == OUTSIDE).any():
            raise _outside(attribute, self._layout)
        if not attribute.kinds and (status < 0).any():
            raise DataError(
                f"column {attribute.name!r} has missing cells but is not declared nullable. "
                "Set nullable = true in the schema if cells may be missing"
            )


def _code_of_status(attribute: AnyAttribute) -> Ints:
    """Return the codes of cells without a value. The index is minus the status."""
    null = attribute.missing_code if attribute.nullable else attribute.size
    codes = np.full(1 + max(-KIND_MARKS[kind] for kind in KINDS), null, dtype=np.int64)
    for place, kind in enumerate(attribute.kinds):
        codes[-KIND_MARKS[kind]] = attribute.size + place
    return codes


def _outside(attribute: AnyAttribute, layout: Layout) -> DataError:
    """Return the error for a cell outside the domain. It depends on public facts only."""
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
        f"cannot be read. {remedy}, name codes for missing values in missing_codes, correct the "
        f"data, or set {settings} in the schema."
        f"{spelled}"
    )


def _noun(attribute: Numeric) -> str:
    """Return the noun for a value of an attribute."""
    if isinstance(attribute, Date):
        return f"a {attribute.kind}{f' as {attribute.format}' if attribute.format else ''}"
    return "a whole number" if attribute.integer else "a number"
