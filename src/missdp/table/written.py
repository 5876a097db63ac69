"""Writing of tables to files, a block of rows at a time, completely or not at all."""

from __future__ import annotations

import codecs
import contextlib
import io
import tempfile
from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from missdp.errors import MissDPError, OutputError, replacing
from missdp.files import atomic_path, write_error
from missdp.schema import Date, Numeric, Schema
from missdp.schema.layout import PLAIN
from missdp.table.decode import MissingForm, Values, decode
from missdp.table.encode import CodedColumn
from missdp.table.packages import STAT_WRITABLE, SheetWriter, write_stat

if TYPE_CHECKING:
    import pyarrow as pa


_TEXT, _COLUMNS = (".csv", ".csv.gz", ".tsv"), (".parquet", ".pq", ".feather")
_WRITABLE = (*_TEXT, *_COLUMNS, ".xlsx", *STAT_WRITABLE)


_POINT = r"^(-?[0-9]+)\.([0-9]+(?:e[+-]?[0-9]+)?)$"  # a number with a point, not a code in text


def _suffix(path: Path) -> str:
    """Return the suffix of a writable format, or an empty text."""
    name = path.name.lower()
    return next((s for s in _WRITABLE if name.endswith(s) and name != s), "")


def output_format(path: Path) -> Literal["text", "columns", "whole"]:
    """Return the family of a file's format by its suffix. ``"whole"``: rows are held in memory."""
    suffix = _suffix(path)
    if not suffix:
        why = f"end the name in {' or '.join(_WRITABLE)}"
        if str(path) == "-":
            why = "a model is saved next to its rows. Name a file, and print rows by missdp sample"
        raise OutputError(f"cannot write {str(path)!r}: {why}")
    return "text" if suffix in _TEXT else "columns" if suffix in _COLUMNS else "whole"


def missing_form_of(path: Path, missing_as: MissingForm | None) -> MissingForm:
    """Return the requested form of missing cells, or the default of the format of a file."""
    return missing_as or ("codes" if _suffix(path) in (".sav", ".dta") else "nulls")


def check_holds(path: Path, schema: Schema, values: Values = "codes") -> None:
    """Raise an error early if a file cannot hold the columns of a schema.

    Parameters
    ----------
    path : Path
        The file.
    schema : Schema
        Public facts about the columns.
    values : {"codes", "labels"}, default "codes"
        Output of levels.

    Raises
    ------
    OutputError
        If names or levels do not fit the format, or the library of the format is absent.
    """
    if output_format(path) == "text" and not schema.file.is_utf8:
        with replacing(UnicodeError, by=partial(_refusal, path, schema)):
            _texts_of(schema, values).encode(schema.file.encoding)
    if values == "labels" and _suffix(path) in STAT_WRITABLE:
        raise OutputError(
            f"cannot write {str(path)!r} with labels in place of codes: files of SPSS and Stata "
            "have both codes and labels"
        )
    if _suffix(path) in STAT_WRITABLE:
        with tempfile.TemporaryDirectory() as folder:  # for a table without rows
            rows = [(0, _no_rows(schema))]
            write_blocks([Path(folder, f"rows{_suffix(path)}")], rows, schema=schema)
    elif _suffix(path) == ".xlsx":
        SheetWriter(io.BytesIO(), _no_rows(schema).schema).close()


def _texts_of(schema: Schema, values: Values) -> str:
    """Return the names and declared levels in a text file of a schema, as one text."""
    field = "level_labels" if values == "labels" else "levels"
    levels = chain.from_iterable(getattr(a, field, ()) for a in schema.input_columns)
    return "\n".join((*schema.output_columns.names, *map(str, levels)))


def _no_rows(schema: Schema) -> pa.Table:
    """Return the output of a table without rows."""
    import pyarrow as pa

    none = CodedColumn(np.zeros(0, dtype=np.uint8), np.zeros(0))
    cells = [decode(a, none, missing_as="codes") for a in schema.output_columns]
    return pa.table(cells, names=list(schema.output_columns.names))


def numbered_paths(output: Path, number: int) -> list[Path]:
    """Return the paths of several files with numbers before the suffix."""
    end = len(output.name) - len(_suffix(output))
    stem, suffix = output.name[:end], output.name[end:]
    return [output.with_name(f"{stem}-{k}{suffix}") for k in range(1, number + 1)]


def write_blocks(
    paths: Sequence[Path], blocks: Iterable[tuple[int, pa.Table]], *, schema: Schema | None = None
) -> None:
    """Write blocks of rows to files, all files or none.

    Parameters
    ----------
    paths : sequence of Path
        The files. Their suffixes determine the formats.
    blocks : iterable of (int, pyarrow.Table)
        The index of a file among the paths, and its next rows.
    schema : Schema, optional
        The layout of text files, and the declarations in files of statistics packages.

    Raises
    ------
    OutputError
        If a file cannot be written. The message quotes no cell.
    """
    for path in paths:
        output_format(path)
    with contextlib.ExitStack() as stack:
        files = [_File(path, stack.enter_context(atomic_path(path)), schema) for path in paths]
        try:
            for place, rows in blocks:
                files[place].write(rows)
        except BaseException:
            for file in files:
                file.give_up()
            raise
        for file in files:  # all files are complete before any is renamed
            file.close()


class _File:
    """File that is written under a temporary name. Fresh keys continue from block to block."""

    def __init__(self, path: Path, place: Path, schema: Schema | None) -> None:
        self._path, self._place, self._schema, self._rows = path, place, schema, 0
        self._writer: Any = None
        self._sink: Any = None

    def _refused(self) -> replacing:
        """Replace errors of writing, since they may quote cells."""
        import pyarrow as pa

        why = partial(_refusal, self._path, self._schema)
        return replacing(OSError, pa.ArrowException, UnicodeError, by=why)

    def write(self, table: pa.Table) -> None:
        """Write a block of rows."""
        import pyarrow as pa

        end = self._rows + table.num_rows
        for at, name in enumerate(() if self._schema is None else self._schema.keys):
            table = table.set_column(at, name, pa.array(np.arange(self._rows + 1, end + 1)))
        self._rows = end
        with self._refused():
            if self._writer is None:
                suffix = _suffix(self._path)
                self._writer, self._sink = _writer(self._place, suffix, table.schema, self._schema)
            self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            with self._refused():
                self._writer.close()
                self._sink.close()

    def give_up(self) -> None:
        """Close the open file without errors, since an earlier error is being raised."""
        import pyarrow as pa

        for opened in (self._writer, self._sink):
            with contextlib.suppress(OSError, pa.ArrowException):
                if opened is not None and not isinstance(opened, _HeldRows):
                    opened.close()


def _refusal(path: Path, schema: Schema | None, error: BaseException) -> MissDPError:
    """Return the error for a file that cannot be written. It quotes no cell."""
    if schema is not None and isinstance(error, UnicodeError):
        return OutputError(
            f"cannot write {str(path)!r}: the encoding {schema.file.encoding!r} cannot represent "
            "a level or a name. Declare another encoding in [file] of the schema, or write Parquet."
        )
    return write_error(path, error)


def _writer(place: Path, suffix: str, kind: pa.Schema, schema: Schema | None) -> tuple[Any, Any]:
    """Return the writer of blocks of rows, and the sink that is closed after it."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    sink = pa.OSFile(str(place), "wb")
    if suffix in STAT_WRITABLE:
        assert schema is not None
        return _HeldRows(place, suffix, schema), sink
    if suffix == ".xlsx":
        return SheetWriter(sink, kind), sink
    if suffix == ".feather":
        return pa.ipc.new_file(sink, kind), sink
    if suffix not in _TEXT:
        return pa.parquet.ParquetWriter(sink, kind), sink
    packed = pa.CompressedOutputStream(sink, "gzip") if suffix == ".csv.gz" else sink
    if schema is not None and not schema.file.is_utf8:
        packed = pa.PythonFile(codecs.EncodedFile(packed, "utf-8", schema.file.encoding), "w")
    return _Text(packed, kind, suffix, schema), packed


class _Text:
    """Writer of blocks of rows as text, in the layout of the schema."""

    def __init__(self, sink: Any, kind: pa.Schema, suffix: str, schema: Schema | None) -> None:
        import pyarrow.csv as text

        self._layout = layout = PLAIN if schema is None else schema.file
        comma = () if schema is None or layout.decimal == "." else schema
        self._numbers = [
            a.name for a in comma if isinstance(a, Numeric) and not isinstance(a, Date)
        ]
        delimiter = layout.delimiter if layout.header or layout.decimal == "." else ";"
        options = text.WriteOptions(
            include_header=not layout.header, delimiter="\t" if suffix == ".tsv" else delimiter
        )
        written = self._laid_out(kind.empty_table()).schema
        self._writer = text.CSVWriter(sink, written, write_options=options)

    def write_table(self, table: pa.Table) -> None:
        """Write a block of rows."""
        self._writer.write_table(self._laid_out(table))

    def close(self) -> None:
        """Finish the file."""
        self._writer.close()

    def _laid_out(self, table: pa.Table) -> pa.Table:
        """Return the columns of a file. With a decimal comma, numbers are text."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in self._numbers:
            if name in table.column_names:  # a difference is not a column
                place, texts = table.column_names.index(name), table[name].cast(pa.string())
                cells = pc.replace_substring_regex(texts, _POINT, r"\1,\2")
                table = table.set_column(place, name, cells)
        for place, name in enumerate(self._layout.header):
            if name not in table.column_names:  # an ignored column stays, and is empty
                table = table.add_column(place, name, pa.nulls(len(table), pa.string()))
        return table.select(list(self._layout.header or table.column_names))


class _HeldRows:
    """Writer that holds all rows in memory, for files of SPSS and Stata."""

    def __init__(self, place: Path, suffix: str, schema: Schema) -> None:
        self._place, self._suffix, self._schema = place, suffix, schema
        self._blocks: list[pa.Table] = []

    def write_table(self, block: pa.Table) -> None:
        """Hold a block of rows."""
        self._blocks.append(block)

    def close(self) -> None:
        """Write all rows."""
        import pyarrow as pa

        if not self._blocks:
            return
        refused = OutputError("the columns do not fit this format. Rename them, or write CSV.")
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else refused):
            write_stat(self._place, self._suffix, pa.concat_tables(self._blocks), self._schema)
