"""Distinct cells of private rows, counted by DuckDB, for drafts of schemas.

The rows are copied into a table of DuckDB, with a column of numbers and a column of texts for each
column. ``SUMMARIZE`` estimates the number of distinct cells. From a column with many distinct
cells, the lowest, the highest and the most frequent cells are taken, with an even sample of the
others.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from missdp.errors import DataError, replacing
from missdp.schema import Layout
from missdp.schema.attributes import LONGEST, MISSING, number_text
from missdp.table.cells import Cell, is_moment, is_of, read_numbers, unique_values, value_of
from missdp.table.csv_files import NO_EXTENSIONS
from missdp.table.memory import current_memory_limit
from missdp.table.missing_codes import Proposed, text_codes
from missdp.table.rows import Rows
from missdp.types import Flags, Floats, Ints

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MAX_CELLS = 100_000  # approximate largest number of distinct cells of a column in a draft
_END_CELLS = 200  # lowest cells of a sample, and highest cells
_FREQUENT_CELLS = 2000  # most frequent cells of a sample
_MEMORY_SHARE: Final = 5  # divisor of the limit of memory, for DuckDB
_SAMPLE: Final = """
WITH counted AS (
    SELECT {0}, count(*) AS rows, coalesce({1}, TRY_CAST({2} AS DOUBLE)) AS value
    FROM cells GROUP BY ALL
), ends AS (
    SELECT list_max(min(value, {3})) AS low, list_min(max(value, {3})) AS high,
        list_max(min({2}, {3})) AS first, list_min(max({2}, {3})) AS last,
        list_min(max(rows, {4})) AS often
    FROM counted
)
SELECT {0}, rows FROM counted, ends WHERE hash({0}) % {5} = 0 OR rows > often
    OR value <= low OR value >= high OR {2} <= first OR {2} >= last OR value IS NULL AND {2} IS NULL
"""


@dataclass(frozen=True, eq=False, repr=False)
class DistinctCells:
    """Distinct cells of one column with a value, without surrounding blanks. Private.

    Parameters
    ----------
    cells : Arrow array of shape (n_cells,)
        Texts, or numbers if the column has no text.
    numbers : ndarray of shape (n_cells,)
        The number of each cell, NaN for other texts.
    counts : ndarray of shape (n_cells,)
        Number of rows of each cell.
    rows : int, default 0
        Number of rows of the table.
    missing : bool, default False
        True if some row has no value.
    unreadable : bool, default False
        True if some cell is neither short text, nor a number, nor true or false.
    typed : bool, default False
        True if some cells have another type, such as dates. A draft is then tested on all rows.
    sampled : bool, default False
        True if only a sample of the cells is listed. A draft is then tested on all rows.
    """

    cells: pa.Array
    numbers: Floats
    counts: Ints
    rows: int = 0
    missing: bool = False
    unreadable: bool = False
    typed: bool = False
    sampled: bool = False

    def __len__(self) -> int:
        return len(self.numbers)

    @cached_property
    def texts(self) -> list[str]:
        """The cells as text."""
        cells: list[str | float] = self.cells.to_pylist()
        return [cell if isinstance(cell, str) else number_text(cell) for cell in cells]

    @cached_property
    def words(self) -> list[str]:
        """The texts that are not numbers."""
        return self.where(np.isnan(self.numbers)).texts

    @cached_property
    def word_codes(self) -> Proposed:
        """The texts that usually stand for a kind of missing."""
        return text_codes(self.words)

    @property
    def in_text(self) -> bool:
        """True if the cells are texts."""
        return bool(self.cells.type == "string")

    def where(self, flags: Flags) -> DistinctCells:
        """Return some of the cells."""
        import pyarrow as pa

        cells = self.cells.filter(pa.array(flags))
        return replace(self, cells=cells, numbers=self.numbers[flags], counts=self.counts[flags])

    def without(self, codes: Proposed) -> DistinctCells:
        """Return the cells that are not codes of missing cells."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not codes:
            return self
        listed = [code for kind_codes in codes.values() for code in kind_codes]
        coded = np.isin(self.numbers, [code for code in listed if not isinstance(code, str)])
        if self.in_text:
            texts = [code.strip() for code in listed if isinstance(code, str)]
            coded |= np.asarray(pc.is_in(self.cells, pa.array(texts, pa.string())))
        return self.where(~coded)

    def respelled(self, layout: Layout) -> DistinctCells:
        """Return the cells with numbers in text read as a layout declares."""
        import pyarrow as pa

        numbers = [layout.number(text) for text in self.texts]
        pairs = zip(self.texts, numbers, strict=True)
        texts = [text if number is None else number_text(number) for text, number in pairs]
        cells = pa.array(texts, pa.string())
        return replace(self, cells=cells, numbers=read_numbers(cells)[0])


def distinct_cells(rows: Rows, names: tuple[str, ...]) -> dict[str, DistinctCells]:
    """Return the distinct cells of columns. The result is empty for a table without rows."""
    import duckdb

    failed = DataError("the rows cannot be summarized: there is too little memory or disk space")
    with replacing(duckdb.Error, by=failed), _connected() as connection:
        total, unreadable, typed = _load(connection, rows, names)
        if not total:
            return {}
        query = "SELECT column_name, approx_unique FROM (SUMMARIZE cells)"
        sizes = dict(connection.execute(query).fetchall())
        n_cells = (sizes[f"n{k}"] + sizes[f"t{k}"] for k in range(len(names)))
        counted = (_counted(connection, k, n) for k, n in enumerate(n_cells))
        return {
            name: replace(cells, rows=total, unreadable=name in unreadable, typed=name in typed)
            for name, cells in zip(names, counted, strict=True)
        }


@contextlib.contextmanager
def _connected() -> Iterator[duckdb.DuckDBPyConnection]:
    """Yield a connection to an empty database with a limit of memory."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="missdp-") as folder:
        memory = f"{current_memory_limit() // _MEMORY_SHARE // 10**6}MB"
        settings: dict[str, Any] = {
            **NO_EXTENSIONS,
            "temp_directory": folder,
            "memory_limit": memory,
        }
        with duckdb.connect(config=settings) as connection:
            yield connection


def _load(
    connection: duckdb.DuckDBPyConnection, rows: Rows, names: tuple[str, ...]
) -> tuple[int, set[str], set[str]]:
    """Copy rows. Return their number, the columns with unreadable cells, and with typed cells."""
    import pyarrow as pa

    columns = ", ".join(f"n{k} DOUBLE, t{k} VARCHAR" for k in range(len(names)))
    connection.execute(f"CREATE TABLE cells ({columns})")
    total, unreadable, typed = 0, set[str](), set[str]()
    for batch in rows.batches(names):
        total += batch.num_rows
        arrays: dict[str, pa.Array] = {}
        for k, (name, cells) in enumerate(zip(names, batch.columns, strict=True)):
            none = pa.nulls(len(cells))
            if is_of(cells, "integer", "floating"):
                values, status = read_numbers(cells)
                arrays |= {f"n{k}": pa.array(values, mask=status < 0), f"t{k}": none}
                continue
            texts, readable = _texts(cells), True
            if texts is None:
                texts, readable = _canonical_texts(cells)
                typed.add(name)
            arrays |= {f"n{k}": none, f"t{k}": texts}
            unreadable |= set() if readable else {name}
        connection.register("batch", pa.table(arrays))
        connection.execute("INSERT INTO cells SELECT * FROM batch")
    return total, unreadable, typed


def _texts(cells: pa.Array) -> pa.Array | None:
    """Return cells that are short texts by their type, without blanks around them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    if cells.type in kinds:
        with contextlib.suppress(pa.ArrowInvalid):  # bytes that are not UTF-8
            texts = pc.utf8_trim_whitespace(cells.cast(pa.string()))
            if (pc.max(pc.binary_length(texts)).as_py() or 0) <= LONGEST:
                return texts
    return None


def _canonical_texts(cells: pa.Array) -> tuple[pa.Array, bool]:
    """Return the canonical texts of cells, and a flag that is true if all cells are readable."""
    import pyarrow as pa

    distinct, rows = unique_values(cells)
    texts = [cell[0].strip() if cell and _is_readable(cell) else None for cell in distinct]
    readable = all(map(_is_readable, filter(None, distinct)))
    return pa.array(texts, pa.string()).take(pa.array(rows % len(texts))), readable


def _is_readable(cell: Cell) -> bool:
    """Return True if a cell is text, a number, true or false, or a date."""
    return value_of(cell) is not None or is_moment(cell)


def _counted(connection: duckdb.DuckDBPyConnection, place: int, size: int) -> DistinctCells:
    """Return the distinct cells of the column at ``place``, with about ``size`` distinct cells."""
    import pyarrow as pa

    number, text = f"n{place}", f"t{place}"
    both = f"{number}, {text}"
    query = f"SELECT {both}, count(*) AS rows FROM cells GROUP BY ALL"
    if sampled := size > MAX_CELLS:
        part = size // MAX_CELLS + 1
        query = _SAMPLE.format(both, number, text, _END_CELLS, _FREQUENT_CELLS, part)
    table = connection.sql(query).to_arrow_table().combine_chunks()
    cells, texts, counts = (table[name].combine_chunks() for name in (number, text, "rows"))
    values, marks = read_numbers(cells)
    if texts.null_count < len(texts):
        pairs = zip(texts.to_pylist(), values, strict=True)
        if (marks == 0).any():  # some rows have numbers by type, others have texts
            texts = pa.array([number_text(x) if t is None and x == x else t for t, x in pairs])
        cells = texts
        values, marks = read_numbers(cells)
    present = marks != MISSING
    missing = not present.all()
    rows = np.asarray(counts, np.int64)
    return DistinctCells(cells, values, rows, missing=missing, sampled=sampled).where(present)
