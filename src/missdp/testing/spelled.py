"""Made-up tables written as files write them: with blanks, codes, NaN, infinities, and worse.

What each cell is written for is known beforehand, and nothing that reads cells is used to write
them. So a source that reads them as something else is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from missdp.schema import AnyAttribute, Categorical, Numeric, Ordinal, Schema
from missdp.table import Holes, Table
from missdp.table.encode import Column
from missdp.table.frames import FrameKind, native_from_arrow

__all__ = ["CODED", "SECRETS", "SOURCE_SCHEMA", "AsWritten", "spelled", "unfit"]


# Names that a query language could trip over.
SOURCE_SCHEMA = Schema(
    (
        Categorical(name="Größe 大", levels=("klein", "groß", "ü"), nullable=True),
        Ordinal(name='he said "hi"; --', levels=(9, 10, 11, 12), nullable=True),
        Numeric(name="age", lower=0, upper=100, bins=4, nullable=True),
        Categorical(name="yes", levels=(False, True), nullable=True),
        Categorical(name="sure", levels=("a", "b", "?")),
    )
)
# Every policy, and codes for every kind of missing: numbers, text, both.
CODED = Schema(
    (
        Categorical(
            name="Stand",
            levels=("ledig", "verh.", "7"),
            nullable=True,
            missing_codes=("?", -9),
            refused=("R",),
        ),
        Ordinal(
            name="stufe", levels=(9, 10, 11), nullable=True, missing_codes=(-9,), unknown=(-8,)
        ),
        Numeric(
            name="lohn",
            lower=0,
            upper=10,
            bins=4,
            nullable=True,
            refused=(-7,),
            outside="missing",
        ),
        Numeric(
            name="alter",
            lower=1,
            upper=99,
            integer=True,
            bins=3,
            nullable=True,
            missing_codes=(999,),
            outside="clamp",
        ),
        Numeric(
            name="zeit",
            lower=0,
            upper=80,
            bins=2,
            nullable=True,
            missing_codes=("k. A.",),
            not_asked=(-5,),
            not_applicable=("entf.",),
        ),
        Categorical(name="ja", levels=(False, True), nullable=True),
        Numeric(name="wert", lower=-1, upper=1, bins=2),
    )
)
SECRETS: tuple[str | float, ...] = ("SECRET", 424242.0)
"""What no message may quote."""
Cell: TypeAlias = str | float | bool | None


class AsWritten(Table):
    """A made-up table whose cells leave it as some file might hold them.

    ``to_arrow()`` and ``to_native()`` give the cells; ``were_read`` tells whether anyone asked.
    """

    cells: pa.Table
    were_read = False

    @classmethod
    def of(cls, table: Table, cells: pa.Table) -> AsWritten:
        """Return a table with cells of its own."""
        found = cls(table.schema, {name: table.column(name) for name in table.schema.names})
        found.cells = cells
        return found

    def to_arrow(self, *, holes: Holes = "nulls") -> pa.Table:
        """Return the cells; kinds of missing are in their codes anyway."""
        del holes
        self.were_read = True
        return self.cells

    def to_native(self, kind: FrameKind | None = None, *, holes: Holes = "nulls") -> Any:
        """Return the cells as a frame."""
        return native_from_arrow(self.to_arrow(holes=holes), kind or self.kind)

    def take(self, rows: Any) -> AsWritten:
        """Return the rows chosen by an index."""
        places = np.asarray(rows)
        places = np.flatnonzero(places) if places.dtype == bool else places
        return AsWritten.of(super().take(places), self.cells.take(pa.array(places)))


def spelled(table: Table, seed: int = 0) -> AsWritten:
    """Return a table with its cells written in every way that means the same.

    A kind of missing that has no code cannot be written: it is plainly missing in what comes back.

    Parameters
    ----------
    table : Table
        Made up, with values of its numbers, and without rules.
    seed : int, default 0

    Examples
    --------
    >>> from missdp.testing import made_up
    >>> spelled(made_up(CODED, 4), seed=1).to_arrow()["ja"].type
    DataType(bool)
    """
    rng = np.random.default_rng(seed)
    table, arrays = _writable(table), []
    for attribute in table.schema:
        codes = table.codes(attribute.name).tolist()
        numeric = isinstance(attribute, Numeric)
        values = table.values(attribute.name).tolist() if numeric else codes
        kind = _type_of(attribute, seed)
        cells = [_cell(attribute, *pair, kind, rng) for pair in zip(codes, values, strict=True)]
        arrays.append(pa.array(cells, kind, from_pandas=False))
    return AsWritten.of(table, pa.table(arrays, names=list(table.schema.names)))


def _writable(table: Table) -> Table:
    columns = {}
    for attribute in table.schema:
        column = table.column(attribute.name)
        codes = column.codes.copy()
        for place, kind in enumerate(attribute.kinds):
            if kind != "missing" and attribute.nullable and not attribute.codes_of(kind):
                codes[codes == attribute.size + place] = attribute.missing_code
        columns[attribute.name] = Column(codes, column.values)
    return Table(table.schema, columns, kind=table.kind)


def unfit(table: Table, attribute: AnyAttribute, secret: Cell) -> AsWritten:
    """Return the table with a cell that does not fit as the last of a column."""
    cells = table.to_arrow(holes="codes")
    place = table.schema.names.index(attribute.name)
    old = cells.column(place)
    number = pa.types.is_integer(old.type) or pa.types.is_floating(old.type)
    if isinstance(secret, str) or not number:
        wanted = [None if c is None else str(c) for c in old.to_pylist()]
        new = pa.array([*wanted[:-1], None if secret is None else str(secret)], pa.string())
    else:
        new = pa.array([*old.to_pylist()[:-1], secret], pa.float64())
    return AsWritten.of(table, cells.set_column(place, attribute.name, new))


def _type_of(attribute: AnyAttribute, seed: int) -> pa.DataType:
    """Return a type in which everything that is declared can be written."""
    codes = [code for kind in attribute.kinds for code in attribute.codes_of(kind)]
    if any(isinstance(code, str) for code in codes):
        return pa.string()
    if isinstance(attribute, Numeric):
        return pa.float64() if seed % 3 else pa.string()
    if isinstance(attribute.levels[0], str) or seed % 3 == 0:
        return pa.string()
    if isinstance(attribute.levels[0], bool):
        return pa.string() if codes else pa.bool_()
    return pa.int64() if seed % 3 == 1 else pa.float64()


def _cell(
    attribute: AnyAttribute, code: int, value: float, kind: pa.DataType, rng: np.random.Generator
) -> Cell:
    """Return one of the ways to write a cell."""
    if code >= attribute.size:
        ways: list[Cell] = list(_without_value(attribute, code, kind))
    elif isinstance(attribute, Numeric):
        ways = list(_numbers(attribute, code, value))
    else:
        ways = [attribute.levels[code]]
    cell = ways[int(rng.integers(len(ways)))]
    return _as(kind, cell, rng)


def _without_value(attribute: AnyAttribute, code: int, kind: pa.DataType) -> Iterator[Cell]:
    """Yield what stands for a kind of missing."""
    name = attribute.kinds[code - attribute.size]
    yield from attribute.codes_of(name)
    null = "missing" if attribute.nullable else "not_applicable"
    if name != null:
        return
    yield None
    if pa.types.is_string(kind):
        yield from ("", "  ")
    if pa.types.is_floating(kind):
        yield float("nan")
    if name == "missing" and attribute.outside == "missing" and isinstance(attribute, Numeric):
        yield from (attribute.upper + 0.5, attribute.lower - 0.5, float("inf"), float("-inf"))


def _numbers(attribute: Numeric, code: int, value: float) -> Iterator[Cell]:
    """Yield numbers that are read as a value of a bin."""
    yield value
    if attribute.outside == "clamp" and not attribute.spikes:
        if code == 0:
            yield from (attribute.lower - 5.0, float("-inf"))
        if code == attribute.size - 1:
            yield from (attribute.upper + 5.0, float("inf"))


_TEXTS: dict[type, tuple[Callable[[Any], str], ...]] = {
    bool: (str, lambda cell: str(cell).lower(), lambda cell: str(cell).upper()),
    int: (str, lambda cell: f"{cell}.0", lambda cell: f"+{cell}" if cell >= 0 else str(cell)),
    float: (repr, lambda cell: f"{cell:.17g}"),
    str: (str,),
}


def _as(kind: pa.DataType, cell: Cell, rng: np.random.Generator) -> Cell:
    """Return a cell in the type of its column; text with blanks around it now and then."""
    if cell is None or not pa.types.is_string(kind):
        return float(cell) if cell is not None and pa.types.is_floating(kind) else cell
    ways = _TEXTS[type(cell)]
    text = ways[int(rng.integers(len(ways)))](cell)
    return f" {text}\t" if rng.random() < 0.2 else text
