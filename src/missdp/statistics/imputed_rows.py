"""Cells of single rows, with imputed cells in the place of missing cells. Private.

An imputation fills each row in equally likely ways (`Ways`). `ImputedRows` holds the table as it
was read, or rows of it with filled cells. `RowView` is the view that a query's function is given:
read-only, and of the attributes that the query names.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError
from missdp.schema import Schema
from missdp.schema.logic import Cells, Truth
from missdp.statistics.blocks import portions, runs, slices
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.types import Flags, Floats, Ints

PART_ROWS = 2**20
"""Largest number of rows in one call of a function of single rows."""


@dataclass(frozen=True, eq=False, repr=False)
class ImputedCells:
    """Cells of one attribute that an imputation filled, with their rows. Private.

    Only filled cells are kept, in addition to the original table. A copy of every column would not
    fit into memory for a large table.

    Parameters
    ----------
    rows : array of int, shape (filled,)
        Row numbers, increasing.
    codes : array of int, shape (filled,)
        Codes of the levels, or of the bins, that the cells get.
    values : array of float, shape (filled,), optional
        Numeric attributes only, within the bounds.
    """

    rows: NDArray[np.integer]
    codes: NDArray[np.integer]
    values: Floats | None = None

    def where(self, keep: Flags | Ints) -> ImputedCells:
        """Return some of the cells."""
        values = None if self.values is None else self.values[keep]
        return ImputedCells(self.rows[keep], self.codes[keep], values)


@dataclass(frozen=True, eq=False, repr=False)
class Ways:
    """Equally likely ways to fill each of some rows: queries are averaged over them. Private.

    Attributes
    ----------
    rows : ndarray of int, shape (n_rows,)
        Increasing row numbers.
    lists : ndarray of int, shape (n_rows,)
        The number of the list of ways that each row has, from 0.
    start : ndarray of int, shape (n_lists + 1,)
        Position of the first way of each list among all ways, and the number of all ways at the
        end. No list is empty.
    columns : mapping of str to ImputedCells
        For each attribute, its filled cells. A row of ``ImputedCells`` is a way here.
    profile : object
        Bound on the rows that one row can change. Its ``smooth_bound(row_weight=,
        recipient_weight=, beta=)`` is a beta-smooth bound of
        ``row_weight + recipient_weight * (rows that one row can change)``, rounded up by a factor
        of at most 1 + 2**-40. A row that changes in a part of its ways only counts as this part.
    """

    rows: NDArray[np.integer]
    lists: NDArray[np.integer]
    start: NDArray[np.integer]
    columns: Mapping[str, ImputedCells]
    profile: Any


def _view(array: Any) -> Any:
    """Return a view of an array that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


class RowView:
    """The view of private rows that a function gets: read-only, and of the attributes it named."""

    def __init__(
        self, cells: ImputedRows, reads: frozenset[str], applicability: frozenset[str] = frozenset()
    ) -> None:
        self._cells, self._reads, self._applicability = cells, reads, applicability

    def __len__(self) -> int:
        return len(self._cells)

    def __repr__(self) -> str:
        return "Rows(private)"

    def parts(self) -> Iterator[tuple[slice, RowView]]:
        """Yield slices of the rows, each with its view, for functions of each row by itself."""
        for where in slices(len(self), PART_ROWS):
            is_complete = where.stop - where.start == len(self)
            cells = self._cells if is_complete else self._cells.part(where.start, where.stop)
            yield where, RowView(cells, self._reads, self._applicability)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._cells.schema

    def codes(self, name: str) -> Ints:
        """Codes of an attribute. Missing cells have the attribute's missing code."""
        codes = self._cells.codes(self._readable(name))
        return np.asarray(_view(codes.astype(np.int64, copy=False)))

    def mask(self, name: str) -> Flags:
        """Return True where the cell has no value: it is missing, or not applicable."""
        return np.asarray(self.codes(name) >= self.schema[name].size)

    def is_missing(self, name: str) -> Flags:
        """Return True where the cell is missing. A cell that is not applicable is not missing."""
        return np.asarray(self.codes(name) >= self.schema[name].missing_code)

    def applies(self, name: str) -> Truth:
        """Return to which rows an attribute applies, neither true nor false if that is open.

        The cells of each row as they were read decide, and not the cells of other rows. An
        attribute with a value applies. For a missing cell the schema's rules decide.
        """
        if name not in self._reads | self._applicability:
            raise ParameterError("a function reads only the attributes that its query names")
        applies = self._cells.applies(name)
        return Truth(_view(applies.is_true), _view(applies.is_false))

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute, and its lower bound for missing cells."""
        return np.asarray(_view(self._cells.values(self._readable(name))))

    def _readable(self, name: str) -> str:
        if name not in self._reads:
            raise ParameterError("a function reads only the attributes that its query names")
        return name


class ImputedRows:
    """Codes and values of every attribute, filled cells in the place of missing cells. Private.

    A cell without a value gets one only where its attribute surely applies to the row, as the row
    came.
    """

    def __init__(self, table: Table, filled: Mapping[str, ImputedCells] | None = None) -> None:
        self.table, self._original_cells = table, dict[str, Cells]()
        self._filled = {name: self._only_missing(name, c) for name, c in (filled or {}).items()}

    def __len__(self) -> int:
        return len(self.table)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self.table.schema

    def part(self, start: int, stop: int) -> ImputedRows:
        """Return some of the rows."""

        def sliced(column: CodedColumn) -> CodedColumn:
            values = None if column.values is None else column.values[start:stop]
            return CodedColumn(column.codes[start:stop], values)

        filled = {}
        for name, cells in self._filled.items():
            some = cells.where((cells.rows >= start) & (cells.rows < stop))
            filled[name] = replace(some, rows=some.rows - start)
        columns = {name: sliced(self.table.column(name)) for name in self.schema.names}
        return ImputedRows(Table(self.schema, columns), filled)

    def in_all_ways(
        self, ways: Ways, names: frozenset[str]
    ) -> Iterator[tuple[ImputedRows, NDArray[np.float64]]]:
        """Yield rows filled in each way, equal rows once, with the number of equal rows."""
        first, alike = self._alike(ways, names)
        some, lists = ways.rows[first], ways.lists[first]
        many = np.diff(ways.start)[lists]
        for part in portions(many, PART_ROWS):
            owner, step = runs(many[part])
            way, table = ways.start[lists[part]][owner] + step, self.table.take(some[part][owner])
            filled = {}
            for name, column in ways.columns.items():
                missing = np.flatnonzero(table.codes(name) >= self.schema[name].missing_code)
                filled[name] = replace(column.where(way[missing]), rows=missing)
            yield ImputedRows(table, filled), (alike[part] / many[part])[owner]

    def _alike(self, ways: Ways, names: frozenset[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return one row of each kind of equal filled rows, and the number of equal rows."""
        kind = np.asarray(ways.lists, dtype=np.int64)
        # The attributes that rules read decide to which rows an attribute applies.
        for name in sorted(names.union(*(rule.names for rule in self.schema.rule_set.bound))):
            column = self.table.column(name)
            for array in (column.codes, column.values):
                if array is not None:
                    cells = array[ways.rows]
                    bits = cells.view(np.int64) if cells.dtype.kind == "f" else cells
                    distinct, place = np.unique(bits, return_inverse=True)
                    kind = np.unique(kind * len(distinct) + place, return_inverse=True)[1]
        _, first, alike = np.unique(kind, return_index=True, return_counts=True)
        return first, alike

    def codes(self, name: str) -> NDArray[np.integer]:
        """Codes of an attribute. Cells that are still missing have its missing code."""
        codes = self.table.codes(name)
        if name in self._filled:
            codes = codes.copy()
            codes[self._filled[name].rows] = self._filled[name].codes
        return codes

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute, and its lower bound for cells that are still missing."""
        values = self.table.values(name)
        if name in self._filled:
            values = values.copy()
            values[self._filled[name].rows] = self._filled[name].values
        return values

    def applies(self, name: str) -> Truth:
        """Return to which rows, as they were read, an attribute applies."""
        return self.schema.rule_set.applies(self._cells_as_read, name)

    def _cells_as_read(self, name: str) -> Cells:
        if name not in self._original_cells:
            column = self.table.column(name)
            codes = column.codes.astype(np.int64)
            self._original_cells[name] = Cells.of(self.schema[name], codes, column.values)
        return self._original_cells[name]

    def _only_missing(self, name: str, filled: ImputedCells) -> ImputedCells:
        """Remove filled cells to which the attribute does not surely apply."""
        if self.schema[name].not_applicable is None:
            return filled
        return filled.where(self.applies(name).is_true[filled.rows])


def with_one_kind_of_missing(table: Table) -> Table:
    """Return the table with one kind of missing cell. Cells that are not applicable stay so."""
    merged = [a for a in table.schema if set(a.kinds) - {"not_applicable", "missing"}]
    if not merged:
        return table
    schema = table.schema.with_attributes({a.name: a.with_one_missing_kind() for a in merged})
    columns = {name: table.column(name) for name in schema.names}
    for a in merged:
        column = columns[a.name]
        codes = np.empty(len(table), column.codes.dtype)
        plainly = column.codes.dtype.type(a.missing_code)
        for where in slices(len(table), PART_ROWS):
            codes[where] = np.minimum(column.codes[where], plainly)
        columns[a.name] = CodedColumn(codes, column.values)
    return Table(schema, columns, kind=table.kind)


def valued_attributes(table: Table) -> frozenset[str]:
    """Return the numeric attributes that have values, and not only bins. Public."""
    names = set()
    for attribute in table.schema:
        with contextlib.suppress(DataError):
            table.values(attribute.name)
            names.add(attribute.name)
    return frozenset(names)
