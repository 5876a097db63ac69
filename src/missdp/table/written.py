"""Tables written to files, each whole or not at all, a block of rows at a time."""

from __future__ import annotations

import codecs
import contextlib
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from missdp.errors import MissDPError, OutputError, replacing
from missdp.files import atomic_path, refusal
from missdp.schema import Date, Numeric, Schema
from missdp.schema.layout import PLAIN
from missdp.table.decode import Holes, Values, decode
from missdp.table.encode import Column
from missdp.table.packages import STAT_WRITABLE, SheetWriter, write_stat

if TYPE_CHECKING:
    import pyarrow as pa


_TEXT, _COLUMNS = (".csv", ".csv.gz", ".tsv"), (".parquet", ".pq", ".feather")
_WRITABLE = (*_TEXT, *_COLUMNS, ".xlsx", *STAT_WRITABLE)


_POINT = r"^(-?[0-9]+)\.([0-9]+(?:e[+-]?[0-9]+)?)$"  # of a number, among codes that are text


def _suffix(path: Path) -> str:
    name = path.name.lower()
    return next((s for s in _WRITABLE if name.endswith(s) and name != s), "")


def output_format(path: Path) -> Literal["text", "columns", "whole"]:
    """Return how a file is written, by its suffix; ``"whole"`` if its rows are held until then."""
    suffix = _suffix(path)
    if not suffix:
        why = f"end the name in {' or '.join(_WRITABLE)}"
        if str(path) == "-":
            why = "a model is kept beside its rows; name a file, and print rows by missdp sample"
        raise OutputError(f"cannot write {str(path)!r}: {why}")
    return "text" if suffix in _TEXT else "columns" if suffix in _COLUMNS else "whole"


def holes_in(path: Path, holes: Holes | None) -> Holes:
    """Return how cells without a value are written: as asked for, or as suits a kind of file."""
    return holes or ("codes" if _suffix(path) in (".sav", ".dta") else "nulls")


def check_holds(path: Path, schema: Schema, values: Values = "codes") -> None:
    """Refuse early a file that cannot hold the columns, for their names; or lacks its library."""
    if output_format(path) == "text" and not schema.file.is_utf8:
        with replacing(UnicodeError, by=partial(_refusal, path, schema)):
            _texts_of(schema, values).encode(schema.file.encoding)
    if values == "labels" and _suffix(path) in STAT_WRITABLE:
        raise OutputError(
            f"cannot write {str(path)!r} with labels in place of codes: files of SPSS and Stata "
            "have both, each label beside its code"
        )
    if _suffix(path) in STAT_WRITABLE:
        with tempfile.TemporaryDirectory() as folder:  # of a table without rows
            write_each([Path(folder, f"rows{_suffix(path)}")], [[_no_rows(schema)]], schema=schema)
    elif _suffix(path) == ".xlsx":
        SheetWriter(io.BytesIO(), _no_rows(schema).schema).close()


def _texts_of(schema: Schema, values: Values) -> str:
    """Return the names and the declared levels that a text file of a schema may hold."""
    field = "level_labels" if values == "labels" else "levels"
    levels = chain.from_iterable(getattr(a, field, ()) for a in schema.stored)
    return "\n".join((*schema.written.names, *map(str, levels)))


def _no_rows(schema: Schema) -> pa.Table:
    """Return the written form of a table without rows."""
    import pyarrow as pa

    none = Column(np.zeros(0, dtype=np.uint8), np.zeros(0))
    cells = [decode(a, none, holes="codes") for a in schema.written]
    return pa.table(cells, names=list(schema.written.names))


def numbered(output: Path, number: int) -> list[Path]:
    """Return the names of several files of one kind."""
    end = len(output.name) - len(_suffix(output))
    stem, suffix = output.name[:end], output.name[end:]
    return [output.with_name(f"{stem}-{k}{suffix}") for k in range(1, number + 1)]


def write_each(
    paths: Sequence[Path], tables: Iterable[Iterable[pa.Table]], *, schema: Schema | None = None
) -> None:
    """Write tables one after the other, each to its path in blocks of rows; see `write_blocks`."""
    with _files(paths, schema) as write:
        for place, blocks in zip(range(len(paths)), tables, strict=True):
            for block in blocks:
                write(place, block)


def write_blocks(
    paths: Sequence[Path], blocks: Iterable[Sequence[pa.Table]], *, schema: Schema | None = None
) -> int:
    """Write rows to several files as they come, all or none, and return how many each got."""
    rows = 0
    with _files(paths, schema) as write:
        for block in blocks:
            for place, table in enumerate(block):
                write(place, table)
            rows += block[0].num_rows
    return rows


@contextlib.contextmanager
def _files(
    paths: Sequence[Path], schema: Schema | None
) -> Iterator[Callable[[int, pa.Table], None]]:
    """Yield what writes the next rows of a file; all appear at the end of the block, each whole."""
    import pyarrow as pa

    for path in paths:
        output_format(path)
    writers: dict[int, tuple[Any, Any]] = {}
    rows = [0] * len(paths)
    keys = () if schema is None else schema.keys

    def refused(place: int) -> replacing:
        why = partial(_refusal, paths[place], schema)
        return replacing(OSError, pa.ArrowException, UnicodeError, by=why)

    with contextlib.ExitStack() as stack:
        places = [stack.enter_context(atomic_path(path)) for path in paths]

        def write(place: int, table: pa.Table) -> None:
            for at, name in enumerate(keys):  # which go on from block to block
                fresh = pa.array(np.arange(rows[place] + 1, rows[place] + table.num_rows + 1))
                table = table.set_column(at, name, fresh)
            rows[place] += table.num_rows
            with refused(place):
                if place not in writers:
                    writers[place] = _writer(
                        places[place], _suffix(paths[place]), table.schema, schema
                    )
                writers[place][0].write_table(table)

        try:
            yield write
        except BaseException:
            for opened in (one for both in writers.values() for one in both):
                with contextlib.suppress(OSError, pa.ArrowException):
                    if not isinstance(opened, _Whole):
                        opened.close()  # what went wrong first is what is told
            raise
        for place, (writer, sink) in writers.items():  # all, before any takes its place
            with refused(place):
                writer.close()
                sink.close()


def _refusal(path: Path, schema: Schema | None, error: BaseException) -> MissDPError:
    """Return why a file cannot be written; quotes no cell."""
    if schema is not None and isinstance(error, UnicodeError):
        return OutputError(
            f"cannot write {str(path)!r}: a level or a name has no form in the encoding "
            f"{schema.file.encoding!r}. State another encoding in the table [file] of the schema, "
            "or write Parquet"
        )
    return refusal(path, error)


def _writer(place: Path, suffix: str, kind: pa.Schema, schema: Schema | None) -> tuple[Any, Any]:
    """Return what writes blocks of rows, and what is closed after it."""
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    sink = pa.OSFile(str(place), "wb")
    if suffix in STAT_WRITABLE:
        assert schema is not None
        return _Whole(place, suffix, schema), sink
    if suffix == ".xlsx":
        return SheetWriter(sink, kind), sink
    if suffix == ".feather":
        return pa.ipc.new_file(sink, kind), sink
    if suffix not in _TEXT:
        return pa.parquet.ParquetWriter(sink, kind), sink
    packed = pa.CompressedOutputStream(sink, "gzip") if suffix == ".csv.gz" else sink
    if schema is not None and not schema.file.is_utf8:
        packed = pa.PythonFile(_Encoded(packed, schema.file.encoding), "w")
    return _Text(packed, kind, suffix, schema), packed


class _Encoded(io.RawIOBase):
    """Write UTF-8 to a sink in another encoding."""

    def __init__(self, sink: Any, encoding: str) -> None:
        self._sink, self._decoder = sink, codecs.getincrementaldecoder("utf-8")()
        self._encoder = codecs.getincrementalencoder(encoding)()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: Any) -> int:
        """Write some bytes of UTF-8, of which a character may be cut at the end."""
        self._sink.write(self._encoder.encode(self._decoder.decode(bytes(text))))
        return len(text)

    def close(self) -> None:
        """Close the sink."""
        if not self.closed:
            self._sink.close()
        super().close()


class _Text:
    """Write blocks of rows as text, in the layout that is read again."""

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
        """Write some rows."""
        self._writer.write_table(self._laid_out(table))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()

    def _laid_out(self, table: pa.Table) -> pa.Table:
        """Return the columns of a file, with their numbers as text where a comma is declared."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for name in self._numbers:
            if name in table.column_names:  # a difference is none
                place, texts = table.column_names.index(name), table[name].cast(pa.string())
                cells = pc.replace_substring_regex(texts, _POINT, r"\1,\2")
                table = table.set_column(place, name, cells)
        for place, name in enumerate(self._layout.header):
            if name not in table.column_names:  # left out: its place stays, and is empty
                table = table.add_column(place, name, pa.nulls(len(table), pa.string()))
        return table.select(list(self._layout.header or table.column_names))


class _Whole:
    """Hold blocks of rows until all are there, for files of SPSS, Stata and SAS."""

    def __init__(self, place: Path, suffix: str, schema: Schema) -> None:
        self._place, self._suffix, self._schema = place, suffix, schema
        self._blocks: list[pa.Table] = []

    def write_table(self, block: pa.Table) -> None:
        """Keep some rows."""
        self._blocks.append(block)

    def close(self) -> None:
        """Write all rows."""
        import pyarrow as pa

        if not self._blocks:
            return
        refused = OutputError("the columns do not fit this kind of file; rename them, or write CSV")
        with replacing(Exception, by=lambda e: e if isinstance(e, MissDPError) else refused):
            write_stat(self._place, self._suffix, pa.concat_tables(self._blocks), self._schema)
