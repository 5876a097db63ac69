"""What a function is shown of private rows: the attributes that it named, and nothing to change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.mechanisms.laws import read_only
from missdp.schema import Schema
from missdp.schema.conditions import Verdict
from missdp.shelf import blocks

if TYPE_CHECKING:
    from missdp.mechanisms.private_rows import FilledRows

PART_ROWS = 2**20
"""Most rows that a function of each row by itself is shown at once."""


class Rows:
    """The view of private rows that a function gets: read-only, and of the attributes it named."""

    def __init__(
        self, cells: FilledRows, reads: frozenset[str], asks: frozenset[str] = frozenset()
    ) -> None:
        self._cells, self._reads, self._asks = cells, reads, asks

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return "Rows(private)"

    def parts(self) -> Iterator[tuple[slice, Rows]]:
        """Yield where some rows are, and the view of them, for functions of each row by itself."""
        for where in blocks(len(self), PART_ROWS):
            whole = where.stop - where.start == len(self)
            cells = self._cells if whole else self._cells.part(where.start, where.stop)
            yield where, Rows(cells, self._reads, self._asks)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._cells.schema

    def codes(self, name: str) -> NDArray[np.int64]:
        """Codes of an attribute; missing cells have the attribute's missing code."""
        codes = self._cells.codes(self._readable(name))
        found: NDArray[np.int64] = read_only(codes.astype(np.int64, copy=False))
        return found

    def mask(self, name: str) -> NDArray[np.bool_]:
        """Return True where the cell has no value: a hole, or not applicable."""
        return np.asarray(self.codes(name) >= self.schema[name].size)

    def holes(self, name: str) -> NDArray[np.bool_]:
        """Return True where the cell is a hole; what is not applicable is none."""
        return np.asarray(self.codes(name) >= self.schema[name].missing_code)

    def applies(self, name: str) -> Verdict:
        """Tell to which rows an attribute surely applies, and to which it may.

        By each row's cells as they came: other rows have no say in it, however holes are filled.
        Where a value is there it applies; where a cell is missing, the schema's rules decide.
        """
        if name not in self._reads | self._asks:
            raise ParameterError("a function reads only the attributes that it named")
        surely, maybe = self._cells.applies(name)
        return read_only(surely), read_only(maybe)

    def values(self, name: str) -> NDArray[np.float64]:
        """Values of a numeric attribute; its lower bound where missing."""
        found: NDArray[np.float64] = read_only(self._cells.values(self._readable(name)))
        return found

    def _readable(self, name: str) -> str:
        if name not in self._reads:
            raise ParameterError("a function reads only the attributes that it named")
        return name
