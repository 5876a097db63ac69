"""What a draft must know of a column, in memory that does not grow with the number of rows.

Distinct cells are counted, all of them as long as they are few. A column of very many distinct
numbers keeps the lowest and the highest, the most frequent, and an even sample of the others: which
numbers are sampled is decided by a fixed function of the number, so that each is counted from its
first cell to its last.
"""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.schema.attributes import read_number
from missdp.table.cells import Cells, Chunk, Plain, distinct, read_numbers, taken

__all__ = ["Tally", "is_padded"]

_Floats: TypeAlias = NDArray[np.float64]
_Counts: TypeAlias = NDArray[np.int64]

_FEW = 20_000  # distinct cells, of which all are kept
_TEXTS = 10_000  # distinct texts beside many numbers: far more than any draft has levels
_ENDS = 200  # lowest numbers, and as many highest ones
_SAMPLED = 50_000
_FREQUENT = 2000


class Tally:
    """Distinct cells of one column and how often each occurs. Private."""

    def __init__(self) -> None:
        self._cells: Counter[tuple[type, Plain]] = Counter()  # by type, since True == 1.0
        self._values, self._counts = np.zeros(0), np.zeros(0, dtype=np.int64)
        self._fraction: float | None = None
        self._many = False
        self.numbers = 0
        """Number of cells that are numbers, if there are many distinct ones; else 0."""

    def add(self, cells: Cells) -> None:
        """Count the cells of a few more rows."""
        import pyarrow as pa

        for chunk in cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]:
            if self.numbers or _native(chunk):
                self._add_numbers(chunk)
            else:
                self._add_cells(chunk)
        if len(self._cells) + len(self._values) > _FEW:
            self._thin()

    def found(self) -> list[tuple[Plain, int]]:
        """Return plain values and how often each occurs: text without blanks, None for missing."""
        numbers = [(float(x), int(n)) for x, n in zip(self._values, self._counts, strict=True)]
        if self._fraction is not None and self._fraction not in self._values:
            numbers.append((self._fraction, 1))
        return [*((value, n) for (_, value), n in self._cells.items()), *numbers]

    def _add_cells(self, chunk: Chunk) -> None:
        values, indices = distinct(chunk)
        for index, count in zip(*np.unique(indices, return_counts=True), strict=True):
            value = values[index] if index >= 0 else None
            value = value.strip() if isinstance(value, str) else value
            if self._many and isinstance(value, str) and len(self._cells) > _TEXTS:
                continue  # far more than the levels of any draft, whichever these are
            self._cells[type(value), value] += int(count)

    def _add_numbers(self, chunk: Chunk) -> None:
        """Count numbers, and text written like one, as numbers; others, and "007", as cells."""
        values, _ = read_numbers(chunk)
        known = ~np.isnan(values)
        if not _native(chunk):
            known &= ~_padded(chunk)
        self._merge(*np.unique(values[known] + 0.0, return_counts=True))
        rest = np.flatnonzero(~known)
        if rest.size:
            self._add_cells(taken(chunk, rest))

    def _merge(self, values: _Floats, counts: _Counts) -> None:
        if self.numbers:
            self.numbers += int(counts.sum())
        both = np.concatenate([self._values, values])
        self._values, places = np.unique(both, return_inverse=True)
        weights = np.concatenate([self._counts, counts])
        self._counts = np.bincount(places.reshape(-1), weights).astype(np.int64)

    def _thin(self) -> None:
        """Keep as much of the numbers as a draft needs."""
        self._many = True
        if not self.numbers:
            self._take_numbers_for_numbers()
            for key in [k for k in self._cells if k[0] is str][_TEXTS:]:
                del self._cells[key]
        if len(self._values) <= _FEW:
            return
        self.numbers = self.numbers or int(self._counts.sum())
        fractions = self._values[np.isfinite(self._values) & (self._values % 1 != 0)]
        if self._fraction is None and fractions.size:
            self._fraction = float(fractions[0])
        keep = np.zeros(len(self._values), dtype=bool)
        keep[:_ENDS] = keep[-_ENDS:] = True
        keep[np.argsort(-self._counts, kind="stable")[:_FREQUENT]] = True
        marks = _mixed(self._values)
        keep |= marks <= np.partition(marks, min(_SAMPLED, len(marks)) - 1)[:_SAMPLED].max()
        self._values, self._counts = self._values[keep], self._counts[keep]

    def _take_numbers_for_numbers(self) -> None:
        """Move texts written like numbers to the numbers: of so many, none is a level.

        Those that begin with zeros stay: they tell that the others are no numbers either.
        """
        cells, self._cells = self._cells, Counter()
        numbers: Counter[float] = Counter()
        for (kind, value), count in cells.items():
            number = read_number(value) if isinstance(value, str) else value
            if isinstance(number, float) and number == number and not is_padded(value):
                numbers[number] += count
            else:
                self._cells[kind, value] += count
        values = np.fromiter(numbers.keys(), np.float64, len(numbers))
        counts = np.fromiter(numbers.values(), np.int64, len(numbers))
        self._merge(values + 0.0, counts)


def is_padded(cell: Plain) -> bool:
    """Whether digits begin with a zero that a number would lose, as in postal codes.

    Examples
    --------
    >>> is_padded("01067"), is_padded("0"), is_padded("0.5")
    (True, False, False)
    """
    return isinstance(cell, str) and len(cell) > 1 and cell[0] == "0" and cell.isdecimal()


def _padded(chunk: Chunk) -> NDArray[np.bool_]:
    """Return which cells are padded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if isinstance(chunk, pa.Array) and chunk.type in (pa.string(), pa.large_string()):
        found = pc.match_substring_regex(chunk, r"^\s*0[0-9]+\s*$")
        return np.asarray(found.fill_null(False), dtype=np.bool_)
    cells, indices = distinct(chunk)
    padded = [is_padded(cell.strip() if isinstance(cell, str) else cell) for cell in cells]
    return np.array([*padded, False])[indices]


def _native(chunk: Chunk) -> bool:
    """Whether every cell is a number by the type of the column."""
    import pyarrow as pa

    if not isinstance(chunk, pa.Array) or isinstance(chunk, pa.ExtensionArray):
        return False
    return bool(pa.types.is_integer(chunk.type) or pa.types.is_floating(chunk.type))


def _mixed(values: _Floats) -> NDArray[np.uint64]:
    """Return a number for each value that has nothing to do with its size."""
    bits = values.view(np.uint64).copy()
    for shift, factor in ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53)):
        bits ^= bits >> np.uint64(shift)
        bits *= np.uint64(factor)
    return bits ^ (bits >> np.uint64(33))
