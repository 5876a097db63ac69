"""Files of SPSS, Stata and SAS (extra ``stat``), and first sheets of Excel (extra ``excel``).

Each cell is read independently, by the declarations of the file about its column. Dates are numbers
since an origin, and ``.a`` to ``.z`` are codes of missing cells in Stata. Cells of Excel keep their
types, and nothing is guessed. The type of a written column depends on its attribute alone. A
workbook is held in memory while it is read or written.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from missdp.errors import DataError, OutputError, import_optional
from missdp.schema import AnyAttribute, Date, DateTime, Numeric, Schema
from missdp.schema.attributes import is_number, read_number
from missdp.schema.dates import ORIGINS
from missdp.table.cells import objects, to_arrow_array
from missdp.table.memory import current_memory_limit

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STAT_FILES: Final = (".sav", ".zsav", ".dta", ".sas7bdat", ".xpt")
STAT_WRITABLE: Final = (".sav", ".dta")
_READERS: Final = dict(zip(STAT_FILES, ("sav", "sav", "dta", "sas7bdat", "xport"), strict=True))
_ROWS = 65_536  # rows of a batch
_DATE = re.compile(r"[AEJS]?DATE.*|%t?d.*|(?:YYMMDD|MMDDYY|DDMMYY|E8601DA|IS8601DA).*")
_TIME = re.compile(r"(?:DATETIME|YMDHMS|E8601DT|IS8601DT|%tc).*")
_LETTER = re.compile(r"\.[a-z]")
_FAR: Final = 9e14  # milliseconds since an origin, after all dates that are read
#: Formats of written dates and moments, and the origins of their numbers.
_WRITTEN: Final = {
    ".sav": ("DATE11", "DATETIME23", "spss", "spss"),
    ".dta": ("%td", "%tc", "%td", "%tc"),
}
_SYNTHETIC: Final = "Synthetic data"
_MAX_SPSS_CODES = 3  # codes of missing cells of a variable of SPSS without a range


class Described(NamedTuple):
    """Declarations of a file about a column: labels, codes of missing cells, and order."""

    label: str = ""
    labels: Mapping[str | float, str] = {}
    codes: tuple[str | float, ...] = ()  #: codes of missing cells
    ordered: bool = False


class FileFormat(NamedTuple):
    """A format of files: its noun, and functions for the names of columns and for batches."""

    noun: str
    names: Callable[[Path], tuple[str, ...]]
    batches: Callable[[Path, tuple[str, ...]], Iterator[Any]]


def pyreadstat_module() -> ModuleType:
    """Return the library for these files. Raise an error with the remedy if it is absent."""
    module: ModuleType = import_optional("pyreadstat", purpose="files of SPSS, Stata and SAS")
    return module


def _read(path: Path, **options: Any) -> tuple[pd.DataFrame, Any]:
    """Read rows or metadata. Dates stay numbers, so that no date can fail."""
    kind = _READERS[path.suffix.lower()]
    if kind != "xport":
        options["user_missing"] = True
    read = getattr(pyreadstat_module(), f"read_{kind}")
    frame, about = read(str(path), disable_datetime_conversion=True, **options)
    return frame, about


def _stat_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a file."""
    return tuple(_read(path, metadataonly=True)[1].column_names)


def _stat_batches(path: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the named columns, a batch of rows at a time. Private."""
    import pyarrow as pa

    start = 0
    while True:
        frame, about = _read(path, row_offset=start, row_limit=_ROWS, usecols=list(names))
        columns = [to_arrow_array(_cells(frame[name], name, about)) for name in names]
        yield pa.RecordBatch.from_arrays(columns, list(names))
        start += _ROWS
        if len(frame) < _ROWS:
            return


def _cells(column: pd.Series[Any], name: str, about: Any) -> Any:
    """Return the cells of a column, converted by the declarations of the file. Private."""
    import pandas as pd
    import pyarrow as pa

    if about.readstat_variable_types.get(name) == "string":
        return column.to_numpy(dtype=object)
    moments = _moments_of(about.original_variable_types.get(name) or "", about)
    letters = np.zeros(len(column), dtype=bool)
    if not pd.api.types.is_numeric_dtype(column):  # the type is text if no row has a number
        column = column.astype(object)
        letters[:] = [isinstance(cell, str) for cell in column]
    numbers = column.mask(letters).to_numpy(dtype=np.float64, na_value=np.nan)
    coded = letters | np.isin(numbers, [c for c in _codes(name, about) if is_number(c)])
    if moments is None:
        cells = pa.array(numbers, from_pandas=True)
    else:
        cells = moments(np.where(coded, np.nan, numbers))
    if not letters.any() and (moments is None or not coded.any()):
        return cells
    mixed = np.fromiter(objects(cells), dtype=object, count=len(cells))
    mixed[coded] = numbers[coded]
    mixed[letters] = [*map(_letter, column[letters])]
    return mixed


def _moments_of(written: str, about: Any) -> Callable[[Any], pa.Array] | None:
    """Return the function from numbers to dates or moments, or None for other formats."""
    import pyarrow as pa

    time = _TIME.fullmatch(written) is not None
    day = _DATE.fullmatch(written) is not None and not time
    if not day and not time:
        return None
    name = "%tc" if written.startswith("%tc") else "%td" if day else "sas"
    unit, origin = ORIGINS["spss" if "sav" in about.file_format else name]
    scale = np.timedelta64(1, unit) / np.timedelta64(1, "ms")

    def moments(numbers: Any) -> pa.Array:
        near = np.clip(np.nan_to_num(numbers), -_FAR / scale, _FAR / scale)
        since = np.rint(near * scale).astype("timedelta64[ms]")
        times = np.datetime64(origin, "ms") + since
        return pa.array(times.astype("datetime64[D]") if day else times, mask=np.isnan(numbers))

    return moments


def _letter(code: str) -> str:
    """Return a missing code of Stata, such as ``.a``, by its letter."""
    return f".{code.lower()}"


def _codes(name: str, about: Any) -> tuple[str | float, ...]:
    """Return the codes of missing cells that a file declares. Letters of Stata get a point."""
    codes: list[str | float] = [
        _letter(code) if isinstance(code, str) and len(code) == 1 else code
        for code in about.missing_user_values.get(name, ())
    ]
    labelled = about.variable_value_labels.get(name, {})
    for limits in about.missing_ranges.get(name, ()):
        low, high = limits["lo"], limits["hi"]
        if low == high:
            codes.append(low)
        elif not isinstance(low, str):
            codes += [code for code in labelled if is_number(code) and low <= code <= high]
    text = about.readstat_variable_types.get(name) == "string"
    codes += [_letter(code) for code in labelled if isinstance(code, str) and not text]
    return tuple(dict.fromkeys(codes))


def described(path: Path) -> dict[str, Described]:
    """Return the declarations of a file about its columns. Its rows are not read."""
    _, about = _read(path, metadataonly=True)
    declared = {}
    for name in about.column_names:
        text = about.readstat_variable_types.get(name) == "string"
        labels = {
            _letter(key) if isinstance(key, str) and not text else key: str(label)
            for key, label in about.variable_value_labels.get(name, {}).items()
        }
        ordered = about.variable_measure.get(name) == "ordinal"
        label = about.column_names_to_labels.get(name) or ""
        declared[name] = Described(label, labels, _codes(name, about), ordered)
    return declared


def write_stat(path: Path, suffix: str, table: pa.Table, schema: Schema) -> None:
    """Write rows, labels and codes of missing cells to a file of SPSS or Stata.

    Parameters
    ----------
    path : Path
        The file.
    suffix : {".sav", ".dta"}
        The format.
    table : pyarrow.Table
        The rows. Released or synthetic.
    schema : Schema
        Public facts. The types of the columns follow from them alone.
    """
    import pandas as pd

    schema = schema.output_columns
    numbers = {a.name: _written_as(a, suffix) for a in schema}
    frame = pd.DataFrame({a.name: _column(table[a.name], numbers[a.name], suffix) for a in schema})
    options: dict[str, Any] = {
        "column_labels": {a.name: a.label for a in schema if a.label},
        "variable_format": {a.name: form for a in schema if (form := _format(a, suffix))},
        "variable_value_labels": {
            a.name: named for a in schema if (named := _labels(a, numbers[a.name], suffix))
        },
    }
    if suffix == ".sav":
        options["missing_ranges"] = {a.name: f for a in schema if (f := _missing(a))}
        measures = {"categorical": "nominal", "ordinal": "ordinal"}
        options["variable_measure"] = {a.name: measures.get(a.kind, "scale") for a in schema}
    if suffix == ".dta":
        letters = {a.name: [c[1:] for c in _texts(a) if _LETTER.fullmatch(c)] for a in schema}
        numeric = {a for a, origin in numbers.items() if origin is not None}
        options["missing_user_values"] = {n: f for n, f in letters.items() if f and n in numeric}
    if title := _synthetic_title(table.schema):
        options["file_label"] = title
    getattr(pyreadstat_module(), f"write_{suffix[1:]}")(frame, str(path), **options)


def _synthetic_title(schema: pa.Schema) -> str:
    """Return the title of a file of synthetic rows, or an empty text for other rows."""
    metadata = schema.metadata or {}
    release = metadata.get(b"missdp.release", b"").decode()
    if b"missdp.synthetic" not in metadata:
        return ""
    return f"{_SYNTHETIC}, release {release}" if release else _SYNTHETIC


def _texts(attribute: AnyAttribute) -> list[str]:
    """Return the codes of missing cells that are texts."""
    codes = (code for kind in attribute.kinds for code in attribute.codes_of(kind))
    return [code.strip() for code in codes if isinstance(code, str)]


def _written_as(attribute: AnyAttribute, suffix: str) -> str | None:
    """Return the origin of written numbers, "" for plain numbers, or None for text."""
    if isinstance(attribute, Date):
        if attribute.format is None:
            return _WRITTEN[suffix][2 + isinstance(attribute, DateTime)]
        return "" if attribute.format in ORIGINS else None
    text = not isinstance(attribute, Numeric) and isinstance(next(iter(attribute.levels), ""), str)
    return None if text else ""


def _format(attribute: AnyAttribute, suffix: str) -> str:
    """Return the declared format of a written column, or an empty text."""
    if isinstance(attribute, Date) and attribute.format is None:
        return _WRITTEN[suffix][isinstance(attribute, DateTime)]
    number = _written_as(attribute, suffix) is not None
    integer = attribute.integer if isinstance(attribute, Numeric) else number
    return "F12.0" if suffix == ".sav" and integer else ""


def _column(cells: pa.ChunkedArray, origin: str | None, suffix: str) -> Any:
    """Return cells as text without nulls, or as numbers with letters of Stata."""
    import pandas as pd

    if origin is None:
        return pd.Series([cell or "" for cell in cells.to_pylist()], dtype=object)
    numbers = [_number(cell, origin) for cell in cells.to_pylist()]
    if suffix == ".dta" and any(isinstance(cell, str) for cell in numbers):
        return pd.Series(numbers, dtype=object)
    return pd.Series([np.nan if isinstance(cell, str) else cell for cell in numbers], dtype=float)


def _number(cell: Any, origin: str) -> float | str:
    """Return a cell as a number, or the letter of a missing code of Stata."""
    if cell is None or isinstance(cell, (bool, int, float)):
        return np.nan if cell is None else float(cell)
    if isinstance(cell, str) and _LETTER.fullmatch(cell):
        return cell[1:]
    if isinstance(cell, str) and (number := read_number(cell)) is not None:
        return number
    if not origin:
        return np.nan
    with_zone = getattr(cell, "tzinfo", None) is not None
    moment: Any = np.datetime64(cell.replace(tzinfo=None) if with_zone else cell, "ms")
    unit, start = ORIGINS[origin]
    since: np.timedelta64 = moment - np.datetime64(start, "ms")
    return float(since / np.timedelta64(1, unit))


def _labels(attribute: AnyAttribute, origin: str | None, suffix: str) -> dict[Any, str]:
    """Map written levels and codes to their labels."""
    if origin is None:
        return dict(attribute.labels) if suffix == ".sav" else {}
    labels: dict[Any, str] = {}
    for key, label in attribute.labels:
        number = {"true": 1.0, "false": 0.0}.get(key.lower(), read_number(key))
        if suffix == ".dta" and _LETTER.fullmatch(key):
            labels[key[1:]] = label
        elif number is not None and (suffix == ".sav" or number.is_integer()):
            labels[number if suffix == ".sav" else int(number)] = label
    return labels


def _missing(attribute: AnyAttribute) -> list[Any]:
    """Return codes of missing cells for SPSS: at most three, or a range without values."""
    codes = [code for kind in attribute.kinds for code in attribute.codes_of(kind)]
    if _written_as(attribute, ".sav") is None:
        texts = [str(code).strip() for code in codes if str(code).strip()]
        return (
            texts if len(texts) <= _MAX_SPSS_CODES and max(map(len, texts), default=9) <= 8 else []
        )
    numbers = sorted(float(code) for code in codes if is_number(code))
    if len(numbers) <= _MAX_SPSS_CODES:
        return list(numbers)
    if isinstance(attribute, Numeric):
        apart = numbers[-1] < attribute.lower or attribute.upper < numbers[0]
    else:
        apart = not any(numbers[0] <= float(level) <= numbers[-1] for level in attribute.levels)
    return [{"lo": numbers[0], "hi": numbers[-1]}] if apart else []


_PART = 4  # divisor of the limit of memory, for an unpacked workbook
_MAX_SHEET_ROWS: Final = 1_048_576  # rows of a sheet, including the names of columns
_FIRST = dt.date(1900, 3, 1)  # first date of Excel's calendar without errors
_PURPOSE: Final = "files of Excel"


def _rows(path: Path) -> Iterator[list[Any]]:
    """Yield the rows of the first sheet. The first row has the names of the columns."""
    import zipfile

    workbook = import_optional("python_calamine", purpose=_PURPOSE).CalamineWorkbook
    with zipfile.ZipFile(path) as archive:  # fails for a workbook with a password
        size = sum(part.file_size for part in archive.infolist())
        if size > current_memory_limit() // _PART:
            raise DataError(
                f"cannot read {str(path)!r}: the unpacked workbook exceeds the limit of memory. "
                "Save it as CSV, or raise the limit (--memory, memory_limit)."
            )
        if archive.testzip() is not None:  # a part is longer than declared, or damaged
            raise zipfile.BadZipFile
    with workbook.from_path(path) as book:
        yield from book.get_sheet_by_index(0).iter_rows()


def _sheet_names(path: Path) -> tuple[str, ...]:
    """Return the names of the columns of a sheet."""
    return tuple(map(str, next(_rows(path), [])))


def _sheet_batches(path: Path, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the named columns as one batch. An empty cell is missing. Private."""
    import pyarrow as pa

    header, *rows = [*_rows(path)] or [[]]
    places = map([str(cell) for cell in header].index, names)
    columns = [[None if row[k] == "" else row[k] for row in rows] for k in places]
    yield pa.RecordBatch.from_arrays([*map(to_arrow_array, columns)], list(names))


class SheetWriter:
    """Writer of rows to the first sheet of a new workbook. Text is never a formula or a link.

    Parameters
    ----------
    sink : file
        A binary file.
    schema : pyarrow.Schema
        The names of the columns, and the metadata of the rows.
    """

    def __init__(self, sink: Any, schema: pa.Schema) -> None:
        xlsxwriter = import_optional("xlsxwriter", purpose=_PURPOSE)
        options = {"in_memory": True, "strings_to_formulas": False, "strings_to_urls": False}
        self._rows = 0
        self._book = xlsxwriter.Workbook(sink, options)
        if title := _synthetic_title(schema):
            guarantee = schema.metadata.get(b"missdp.guarantee", b"").decode()
            self._book.set_properties({"title": title, "comments": guarantee})
        self._sheet = self._book.add_worksheet()
        self._formats = [
            self._book.add_format({"num_format": "yyyy-mm-dd" + time * " hh:mm:ss"})
            for time in (False, True)
        ]
        self._write_row(schema.names)

    def write_table(self, table: pa.Table) -> None:
        """Write a block of rows."""
        if self._rows + table.num_rows > _MAX_SHEET_ROWS:
            limit = f"{_MAX_SHEET_ROWS - 1:,}"
            raise OutputError(f"a sheet of Excel has at most {limit} rows. Write CSV.")
        columns = [column.to_pylist() for column in table.columns]
        for row in zip(*columns, strict=True):
            self._write_row(row)

    def _write_row(self, row: Any) -> None:
        """Write the cells of a row."""
        for place, cell in enumerate(row):
            if isinstance(cell, dt.date):
                self._write_date(place, cell)
            elif isinstance(cell, str):
                self._sheet.write_string(self._rows, place, cell)
            elif cell is not None:
                self._sheet.write(self._rows, place, cell)
        self._rows += 1

    def _write_date(self, place: int, cell: dt.date) -> None:
        """Write a date. Dates before 1900-03-01 and with a time zone become ISO 8601 text."""
        time = isinstance(cell, dt.datetime)
        day = cell.date() if isinstance(cell, dt.datetime) else cell
        if day < _FIRST or getattr(cell, "tzinfo", None) is not None:
            self._sheet.write_string(self._rows, place, cell.isoformat())
        else:
            self._sheet.write_datetime(self._rows, place, cell, self._formats[time])

    def close(self) -> None:
        """Finish the workbook."""
        self._book.close()


STAT: Final = FileFormat("file of SPSS, Stata or SAS", _stat_names, _stat_batches)
EXCEL: Final = FileFormat("Excel workbook without a password", _sheet_names, _sheet_batches)
