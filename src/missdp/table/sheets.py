"""The first sheet of an Excel workbook (extra ``excel``): its first row names the columns.

A cell is what it is in Excel: text, a number, true or false, a date; nothing is guessed. A workbook
is held in memory while it is read, or written.
"""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from missdp.errors import DataError, MissingDependencyError, OutputError, replacing
from missdp.table.cells import HeldBatch
from missdp.table.memory import memory_in_force
from missdp.table.packages import what_it_is

if TYPE_CHECKING:
    import pyarrow as pa


_PART = 4  # of the memory, that the parts of a workbook may take once they are unpacked
_MOST_ROWS: Final = 1_048_576  # of a sheet, the names of the columns among them
_FIRST = dt.date(1900, 3, 1)  # before it Excel has no calendar
_ABSENT: Final = MissingDependencyError(
    "files of Excel need an extra: run pip install 'missdp[excel]'"
)


def _rows(path: Path) -> Iterator[list[Any]]:
    """Yield the rows of the first sheet, the names of the columns first."""
    with replacing(ImportError, by=_ABSENT):
        from python_calamine import CalamineWorkbook
    with zipfile.ZipFile(path) as archive:  # one with a password is no archive
        size = sum(part.file_size for part in archive.infolist())
        if size > memory_in_force() // _PART:
            raise DataError(
                f"cannot read {str(path)!r}: unpacked, the workbook is larger than the limit of "
                "memory has room for; save it as CSV, or raise the limit (--memory, memory_limit)"
            )
        if archive.testzip() is not None:  # a part is longer than it says, or damaged
            raise zipfile.BadZipFile
    with CalamineWorkbook.from_path(path) as book:
        yield from book.get_sheet_by_index(0).iter_rows()


def sheet_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns."""
    return tuple(map(str, next(_rows(path), [])))


def sheet_batches(path: Path, names: tuple[str, ...]) -> Iterator[HeldBatch]:
    """Yield the named columns, as one batch; an empty cell is missing."""
    head, *rows = [*_rows(path)] or [[]]
    found = [str(cell) for cell in head]
    cells = np.empty((len(rows), len(found)), dtype=object)
    if rows:
        cells[:] = rows
    cells[cells == ""] = None
    yield HeldBatch([cells[:, found.index(name)] for name in names], len(rows))


class SheetWriter:
    """Write rows into the first sheet of a new workbook; text is never a formula or a link."""

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        with replacing(ImportError, by=_ABSENT):
            import xlsxwriter
        options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        self._rows = 0
        self._book = xlsxwriter.Workbook(sink, options)
        if said := what_it_is(schema):
            promised = schema.metadata.get(b"missdp.guarantee", b"").decode()
            self._book.set_properties({"title": said, "comments": promised})
        self._sheet = self._book.add_worksheet()
        self._formats = [
            self._book.add_format({"num_format": "yyyy-mm-dd" + time * " hh:mm:ss"})
            for time in (False, True)
        ]
        self._write_row(schema.names)

    def write_table(self, table: pa.Table) -> None:
        """Write some rows."""
        if self._rows + table.num_rows > _MOST_ROWS:
            raise OutputError(f"a sheet of Excel has at most {_MOST_ROWS - 1:,} rows: write CSV")
        columns = [column.to_pylist() for column in table.columns]
        for row in zip(*columns, strict=True):
            self._write_row(row)

    def _write_row(self, row: Any) -> None:
        for place, cell in enumerate(row):
            if isinstance(cell, dt.date):
                self._write_date(place, cell)
            elif isinstance(cell, str):
                self._sheet.write_string(self._rows, place, cell)
            elif cell is not None:
                self._sheet.write(self._rows, place, cell)
        self._rows += 1

    def _write_date(self, place: int, cell: dt.date) -> None:
        """Write a date; as text in ISO 8601 if Excel has none such, or no time zone."""
        time = isinstance(cell, dt.datetime)
        day = cell.date() if isinstance(cell, dt.datetime) else cell
        if day < _FIRST or getattr(cell, "tzinfo", None) is not None:
            self._sheet.write_string(self._rows, place, cell.isoformat())
        else:
            self._sheet.write_datetime(self._rows, place, cell, self._formats[time])

    def close(self) -> None:
        """Finish the workbook."""
        self._book.close()
