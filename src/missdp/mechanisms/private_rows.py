"""Rows behind the door, as they came or as a preparation makes them, and the view of them.

A function is shown `Rows`: the attributes that it named, and nothing to change.

Of the kinds of missing two are left here: what is not applicable, and a missing cell. What a person
refused to say is as missing, for a statistic, as what got lost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.noise import NoiseSource
from missdp.mechanisms.session import no_warnings, plain_function, read_only
from missdp.schema import Numeric, Schema
from missdp.schema.conditions import Known, Verdict, applies
from missdp.schema.schema import plainly_missing
from missdp.shelf import blocks, in_portions, pick, room, runs
from missdp.table import Table
from missdp.table.encode import Column as TableColumn
from missdp.types import Flags, Floats, Ints

PART_ROWS = 2**20
"""Most rows that a function of each row by itself is shown at once."""


@dataclass(frozen=True, eq=False, repr=False)
class Filled:
    """Cells of one attribute that a preparation filled: of which rows, and with what. Private.

    Only these are kept, beside the table as it came: a copy of every column would not fit into the
    memory that a large table leaves.

    Parameters
    ----------
    rows : array of int, shape (filled,)
        Row numbers, increasing.
    codes : array of int, shape (filled,)
        Codes of the levels, or of the bins, that the cells get.
    values : array of float, shape (filled,), optional
        Numeric attributes only. Those beyond the bounds become the bounds, NaN the lower one.
    """

    rows: NDArray[np.integer]
    codes: NDArray[np.integer]
    values: Floats | None = None

    def fits(self, size: int, levels: int) -> bool:
        """Whether it tells cells of so many rows, each once, and codes of so many levels."""
        whole = [self.rows, self.codes]
        told = whole if self.values is None else [*whole, self.values]
        return (
            all(isinstance(part, np.ndarray) and part.dtype.kind in "iu" for part in whole)
            and all(part.shape == (len(self.rows),) for part in told)
            and all(self._fits(where, size, levels) for where in blocks(len(self.rows), PART_ROWS))
        )

    def _fits(self, where: slice, size: int, levels: int) -> bool:
        rows, codes = self.rows[where.start : where.stop + 1], self.codes[where]
        rising = rows[1:] > rows[:-1]  # no difference, which could overflow
        known = (rows >= 0) & (rows < size), (codes >= 0) & (codes < levels)
        return all(bool(np.all(part)) for part in (rising, *known))

    def where(self, keep: Flags | Ints | slice) -> Filled:
        """Return some of the cells."""
        values = None if self.values is None else self.values[keep]
        return Filled(self.rows[keep], self.codes[keep], values)

    def places(self, start: int, stop: int) -> slice:
        """Return which of the cells are those of the rows from one on and before another."""
        return slice(*(bisect_left(self.rows, row) for row in (start, stop)))  # NumPy copies rows

    def between(self, start: int, stop: int) -> Filled:
        """Return the cells of the rows from one on and before another, counted from there."""
        some = self.where(self.places(start, stop))
        return Filled(some.rows.astype(np.int64) - start, some.codes, some.values)


@dataclass(frozen=True, eq=False, repr=False)
class Ways:
    """Equally likely ways to fill each of some rows: questions are averaged over them. Private.

    Parameters
    ----------
    rows : array of int, shape (filled,)
        Row numbers, increasing.
    lists : array of int, shape (filled,)
        Which list of ways each of them has.
    start : array of int, shape (lists + 1,)
        Where each list begins among all ways, and the last one ends; no list is empty.
    columns : mapping of str to Filled
        What the missing cells of these attributes are in each way; its rows are the ways.
    """

    rows: NDArray[np.integer]
    lists: NDArray[np.integer]
    start: NDArray[np.integer]
    columns: Mapping[str, Filled]

    def fits(self, size: int) -> bool:
        """Whether it tells ways of so many rows, each row once, and no list is empty."""
        ends, many = self.start, len(self.start) - 1
        return Filled(self.rows, self.lists).fits(size, many) and all(
            bool(np.all(ends[where.start + 1 : where.stop + 1] > ends[where]))
            for where in blocks(many, PART_ROWS)
        )


@dataclass(frozen=True, eq=False, repr=False)
class Prepared:
    """What a preparation made of the rows. Private.

    Parameters
    ----------
    columns : mapping of str to Filled
        Attributes that were filled.
    keep : array of bool, shape (n,), optional
        Rows that stay; the others, and their filled cells, are dropped. Not with ``ways``.
    profile : object, optional
        For preparations in which a row's filled cells depend on other rows: how many one row can
        move. Its ``smooth_bound(own=, donee=, beta=)`` is a beta-smooth bound of ``own + donee
        * (rows that one row can move)``, rounded up by a factor of at most 1 + 2**-40. A row that
        is moved in a part of its ways only counts as that part.
    ways : Ways, optional
        How rows are filled in several ways, instead of ``columns``.
    """

    columns: Mapping[str, Filled] = field(default_factory=dict)
    keep: Flags | None = None
    profile: Any = None
    ways: Ways | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """How rows are changed behind the door: a pure function, and what it means for privacy.

    Parameters
    ----------
    function : callable
        ``function(rows, draws, *given)`` returns `Prepared`; a plain function, without a closure or
        defaults. Each row becomes what it becomes by its own cells, what is given, and draws; only
        attributes in ``shared`` may depend on other rows.
    reads : frozenset of str
        Attributes that it reads.
    given : tuple
        Public or released values.
    draws : {"generator"} or None
        What it gets to draw with.
    shared : frozenset of str
        Attributes whose filled cells depend on other rows without noise. How many rows one row can
        move is then private, and `Prepared.profile` bounds it.
    averaged : bool, default False
        Whether it returns ``Ways``: questions that read shared attributes are averaged over them,
        so that they may only be `Counts` or `Sums`. Public.
    """

    function: Callable[..., Prepared]
    reads: frozenset[str] = frozenset()
    given: tuple[Any, ...] = ()
    draws: Literal["generator"] | None = None
    shared: frozenset[str] = frozenset()
    averaged: bool = False

    def __post_init__(self) -> None:
        plain_function(self.function, "a preparation")
        object.__setattr__(self, "given", tuple(map(read_only, self.given)))


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
        """Yield slices of the rows, each with its view, for functions of each row by itself."""
        for where in blocks(len(self), PART_ROWS):
            whole = where.stop - where.start == len(self)
            cells = self._cells if whole else self._cells.part(where.start, where.stop)
            yield where, Rows(cells, self._reads, self._asks)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._cells.schema

    def codes(self, name: str) -> Ints:
        """Codes of an attribute; missing cells have the attribute's missing code."""
        codes = self._cells.codes(self._readable(name))
        found: Ints = read_only(codes.astype(np.int64, copy=False))
        return found

    def mask(self, name: str) -> Flags:
        """Return True where the cell has no value: a hole, or not applicable."""
        return np.asarray(self.codes(name) >= self.schema[name].size)

    def holes(self, name: str) -> Flags:
        """Return True where the cell is a hole; what is not applicable is none."""
        return np.asarray(self.codes(name) >= self.schema[name].missing_code)

    def applies(self, name: str) -> Verdict:
        """Tell to which rows an attribute surely applies, and to which it may.

        By each row's cells as they came: other rows have no say in it, however missing cells are
        filled. Where a value is there it applies; where a cell is missing, the schema's rules
        decide.
        """
        if name not in self._reads | self._asks:
            raise ParameterError("a function reads only the attributes that it named")
        surely, maybe = self._cells.applies(name)
        return read_only(surely), read_only(maybe)

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute; its lower bound where missing."""
        found: Floats = read_only(self._cells.values(self._readable(name)))
        return found

    def _readable(self, name: str) -> str:
        if name not in self._reads:
            raise ParameterError("a function reads only the attributes that it named")
        return name


def with_one_kind_of_hole(table: Table) -> Table:
    """Return the table with all missing cells plainly missing; not applicable stays what it is.

    Each cell by itself. A table without other kinds of missing is returned as it is.
    """
    merged = [a for a in table.schema if set(a.kinds) - {"not_applicable", "missing"}]
    if not merged:
        return table
    plain = {a.name: plainly_missing(a) for a in merged}
    schema = replace(
        table.schema, attributes=tuple(plain.get(a.name, a) for a in table.schema.attributes)
    )
    columns = {name: table.column(name) for name in schema.names}
    for a in merged:
        column = columns[a.name]
        codes = room(len(table), column.codes.dtype)
        plainly = column.codes.dtype.type(a.missing_code)
        for where in blocks(len(table), PART_ROWS):
            codes[where] = np.minimum(column.codes[where], plainly)
        columns[a.name] = TableColumn(codes, column.values)
    return Table(schema, columns, kind=table.kind)


class PrivateRows:
    """Rows as a preparation makes them, when they are first needed. Private."""

    def __init__(self, table: Table, preparation: Preparation | None, noise: NoiseSource) -> None:
        self._table, self._preparation, self._noise = table, preparation, noise

    def __repr__(self) -> str:
        return "Rows(private)"

    def bound(self, *, own: float, donee: float, beta: float) -> float:
        """Return a smooth bound of how far one row moves a question."""
        return float(self.cells.profile.smooth_bound(own=own, donee=donee, beta=beta))

    @cached_property
    def cells(self) -> FilledRows:
        """What questions read."""
        if (how := self._preparation) is None:
            return FilledRows(self._table, Prepared())
        failed = DataError("the preparation of the rows failed")
        # Neither an error nor a warning may quote rows.
        with replacing(Exception, by=failed), no_warnings():
            rows = Rows(FilledRows(self._table, Prepared()), how.reads)
            draws = self._noise.generator() if how.draws == "generator" else None
            made = how.function(rows, draws, *how.given)
            if how.shared and made.profile is None:
                raise DataError("the preparation did not bound how many rows one row moves")
            return FilledRows(self._table, made)


class FilledRows:
    """Codes and values of every attribute, filled cells in the place of missing cells. Private.

    Whatever a preparation does, a cell without a value gets one only where its attribute surely
    applies to the row, as the row came.
    """

    def __init__(self, table: Table, made: Prepared) -> None:
        size, columns = len(table), dict(made.columns)
        if not all(
            isinstance(column, Filled) and column.fits(size, table.schema[name].size)
            for name, column in columns.items()
        ) or not (made.ways is None or (made.keep is None and made.ways.fits(size))):
            raise DataError("the preparation did not return what it should")
        self._table, self._known, self.profile = table, dict[str, Known](), made.profile
        self.ways = made.ways
        columns = {name: self._only_holes(name, column) for name, column in columns.items()}
        if made.keep is not None:
            keep = np.asarray(made.keep, dtype=bool)
            self._table, self._known = table.take(keep), {}
            columns = {name: _kept(column, keep) for name, column in columns.items()}
        self._columns = columns

    def __len__(self) -> int:
        return len(self._table)

    @property
    def schema(self) -> Schema:
        """Public facts."""
        return self._table.schema

    def part(self, start: int, stop: int) -> FilledRows:
        """Return some of the rows."""
        columns = {name: filled.between(start, stop) for name, filled in self._columns.items()}
        return FilledRows(self._cut(start, stop), Prepared(columns))

    def in_all_ways(
        self, names: frozenset[str]
    ) -> Iterator[tuple[FilledRows, NDArray[np.float64]]]:
        """Yield rows filled in each of their ways, and how many rows each one stands for.

        Rows that have the same ways, and are the same as far as a function of some attributes can
        tell, are filled once.
        """
        if (ways := self.ways) is None or not len(ways.rows):
            return
        first, alike = self._alike(ways, names)
        some, lists = ways.rows[first], ways.lists[first]
        many = np.diff(ways.start)[lists]
        for part in in_portions(many, PART_ROWS):
            owner, step = runs(many[part])
            way, table = ways.start[lists[part]][owner] + step, self._table.take(some[part][owner])
            filled = {}
            for name, column in ways.columns.items():
                holes = np.flatnonzero(table.codes(name) >= self.schema[name].missing_code)
                filled[name] = replace(column.where(way[holes]), rows=holes)
            yield FilledRows(table, Prepared(filled)), (alike[part] / many[part])[owner]

    def _alike(self, ways: Ways, names: frozenset[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return one of each kind of rows that are filled, and how many there are of it."""
        kind = np.asarray(ways.lists, dtype=np.int64)
        # Whether an attribute applies is told by the attributes that rules are about.
        for name in sorted(names.union(*(rule.names for rule in self.schema.rulebook.bound))):
            column = self._table.column(name)
            for array in (column.codes, column.values):
                if array is not None:
                    cells = pick(array, ways.rows)
                    bits = cells.view(np.int64) if cells.dtype.kind == "f" else cells
                    found, place = np.unique(bits, return_inverse=True)
                    kind = np.unique(kind * len(found) + place, return_inverse=True)[1]
        _, first, alike = np.unique(kind, return_index=True, return_counts=True)
        return first, alike

    def _cut(self, start: int, stop: int) -> Table:
        def cut(column: TableColumn) -> TableColumn:
            values = None if column.values is None else column.values[start:stop]
            return TableColumn(column.codes[start:stop], values)

        schema = self._table.schema
        return Table(schema, {name: cut(self._table.column(name)) for name in schema.names})

    def codes(self, name: str) -> NDArray[np.integer]:
        """Codes of an attribute; cells that are still missing have its missing code."""
        codes = self._table.codes(name)
        if name in self._columns:
            codes = codes.copy()
            codes[self._columns[name].rows] = self._columns[name].codes
        return codes

    def values(self, name: str) -> Floats:
        """Values of a numeric attribute; its lower bound where still missing."""
        values = self._table.values(name)
        if values is None or name not in self._columns:
            return values
        filled = self._columns[name].values
        if filled is None:
            raise DataError("no numeric values")
        values = values.copy()
        values[self._columns[name].rows] = self._within_bounds(name, filled)
        return values

    def _within_bounds(self, name: str, filled: NDArray[Any]) -> Floats:
        """Keep to what is declared: a question's sensitivity is of values within the bounds."""
        attribute = self.schema[name]
        assert isinstance(attribute, Numeric)  # no other table has values
        numbers = np.nan_to_num(filled.astype(np.float64), nan=attribute.lower)
        return np.asarray(np.clip(numbers, attribute.lower, attribute.upper))

    def applies(self, name: str) -> Verdict:
        """Tell to which rows, as they came, an attribute surely applies, and to which it may."""
        return applies(self.schema, self._known_cells, name)

    def _known_cells(self, name: str) -> Known:
        if name not in self._known:
            column = self._table.column(name)
            codes = column.codes.astype(np.int64)
            self._known[name] = Known.of(self.schema[name], codes, column.values)
        return self._known[name]

    def _only_holes(self, name: str, filled: Filled) -> Filled:
        """Take back what was filled where the attribute does not apply, or may not."""
        if self.schema[name].not_applicable is None:
            return filled
        if len(self) <= PART_ROWS:
            return filled.where(self.applies(name)[0][filled.rows])
        keep = room(len(filled.rows), bool)
        for part in blocks(len(self), PART_ROWS):
            came = FilledRows(self._cut(part.start, part.stop), Prepared())
            here = filled.places(part.start, part.stop)
            keep[here] = came.applies(name)[0][filled.rows[here].astype(np.int64) - part.start]
        return filled if keep.all() else filled.where(keep)


def _kept(filled: Filled, keep: Flags) -> Filled:
    """Return the filled cells of rows that stay, by their new numbers."""
    stays = filled.where(keep[filled.rows])
    return replace(stays, rows=(np.cumsum(keep) - 1)[stays.rows])
