"""Made-up tables, with missing cells of every kind, and the schemas that they are made up for.

Nothing here is private. Rows are made up cell by cell, and may break rules; what a reader makes of
such rows is then made of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.schema import (
    Always,
    Categorical,
    Determined,
    Never,
    NotApplicable,
    Numeric,
    Ordinal,
    Schema,
)
from missdp.table import Table
from missdp.table.follow import apply_rules
from missdp.types import Ints

SCHEMA = Schema(
    (
        Categorical(name="größe", levels=("S", "M", "L"), nullable=True),
        Numeric(name="alter", lower=0, upper=99, integer=True, nullable=True),
        Categorical(name="ok", levels=(False, True), nullable=True),
        Numeric(name="score", lower=0, upper=1, bins=4),
    )
)
"""A schema with names and levels of several kinds, and one attribute without holes."""
TINY = Schema(
    tuple(Categorical(name=n, levels=("common", "rare"), nullable=True) for n in ("x", "y"))
)
"""A schema of two attributes whose second level is rare, for audits."""
# Every kind of missing and of rule; rules inside bins, and on attributes that are never missing.
_NUMBER: dict[str, Any] = {"integer": True, "nullable": True}
_CODED: dict[str, Any] = {"missing_codes": ("?",), "refused": ("R", -7), "unknown": ()}
RULED = Schema(
    (
        Categorical(name="arbeit", levels=("nein", "ja", "früher"), nullable=True, **_CODED),
        Numeric(name="stunden", lower=0, upper=80, nullable=True, not_asked=(-5,)),
        Numeric(name="alter", lower=0, upper=99, **_NUMBER),
        Numeric(name="geburt", lower=1925, upper=2024, bins=4, **_NUMBER),
        Numeric(name="erste stelle", lower=0, upper=99, bins=4, **_NUMBER),
        Categorical(name="wohnt", levels=(False, True), not_applicable=("N/A",)),
        Ordinal(name="stufe", levels=("a", "b", "c")),
        Numeric(name="jahre", lower=0, upper=20, integer=True, bins=4),
        Categorical(name="größe", levels=("S", "M"), nullable=True, refused=(9,), unknown=("8",)),
    ),
    rules=(
        NotApplicable(("stunden",), unless="arbeit = 'ja'"),
        NotApplicable(("erste stelle",), unless="arbeit != 'nein' and alter >= 10"),
        Always("`erste stelle` <= alter"),
        Always("alter + geburt = 2024"),
        Determined("jahre", by=("stufe",), map=(("a", 4), ("b", 9), ("c", 13))),
        Never("alter < 15 and arbeit = 'ja'"),
        Never("stufe = 'c' and wohnt = true"),
    ),
)
"""A schema with every kind of missing and of rule."""
Codes = dict[str, NDArray[np.int64]]
_ABSENT = 0.15  # share of cells that are not applicable though no rule says so


def has_kinds_or_rules(schema: Schema) -> bool:
    """Whether rows have holes of several kinds, cells that are not applicable, or rules."""
    several = any(len(a.kinds) > 1 or a.not_applicable is not None for a in schema)
    return several or bool(schema.rules)


def made_up(schema: Schema, n: int, seed: int = 0, *, holes: float = 0.2) -> Table:
    """Return a table whose attributes depend on each other, with missing cells at random.

    Rules are applied to it, as they are to rows that are read. ``holes`` is the share of missing
    cells of each nullable attribute; each kind of missing is as likely.
    """
    return _read_again(unread(schema, n, seed, holes=holes))


def unread(schema: Schema, n: int, seed: int = 0, *, holes: float = 0.2) -> Table:
    """Return a made-up table to which no rule was applied: whatever a file may hold."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    codes: Codes = {}
    for attribute in schema:
        near = np.clip(hidden + 0.3 * rng.standard_normal(n), 0, 1 - 1e-9)
        cells = (near * attribute.size).astype(np.int64)
        if attribute.nullable:
            hole = rng.random(n) < holes
            kinds = (attribute.missing_code, attribute.extended_size)
            cells[hole] = rng.integers(*kinds, int(hole.sum()))
        if attribute.not_applicable is not None:
            cells[rng.random(n) < _ABSENT] = attribute.size
        codes[attribute.name] = cells
    return Table.from_codes(schema, codes).with_values(rng)


def _read_again(table: Table, units: Ints | None = None) -> Table:
    """Return the table as it is read: by its rules and, if the schema declares one, by its unit."""
    schema = table.schema
    if schema.unit is not None:
        own = np.arange(len(table)) // schema.unit.max_rows if units is None else units
        frame = table.to_native("pandas", missing_as="codes").assign(**{schema.unit.column: own})
        return Table.read(frame, schema)
    if not schema.rules:
        return table
    columns = {name: table.column(name) for name in schema.names}
    return Table(schema, apply_rules(schema, columns), kind=table.kind)


def constant(schema: Schema, n: int, *, missing: bool = False) -> Table:
    """Return a table of equal rows: all first levels, or nothing but holes where they may be."""
    codes = {
        a.name: np.full(n, a.missing_code if missing and a.nullable else 0, dtype=np.int64)
        for a in schema
    }
    return _read_again(Table.from_codes(schema, codes).with_values(np.random.default_rng(0)))


def canary(schema: Schema, n: int) -> tuple[Table, Table]:
    """Return a crowd of equal rows, and the crowd with one row that differs in every attribute.

    Whatever is counted, that row lies in a cell of its own: no pair is easier to tell apart. If the
    schema declares a unit, all rows of one differ, two more than take part, spread over the table.
    """
    crowd, more = constant(schema, n), _most_rows(schema)
    row = {a.name: np.full(more, a.size - 1) for a in schema}
    order = np.random.default_rng(0).permutation(n + more) if schema.unit else None
    return crowd, _beside(crowd, row, order)


def _most_rows(schema: Schema) -> int:
    """Return how many rows neighbours differ by: of a unit two more than take part."""
    return 1 if schema.unit is None else schema.unit.max_rows + 2


def _beside(table: Table, rows: Codes, order: Ints | None = None) -> Table:
    """Return the table with the rows of one unit more, or with one row more, in some order."""
    both, more = _appended(table, rows), len(next(iter(rows.values())))
    if table.schema.unit is None:
        return _read_again(both)
    own = np.arange(len(table)) // table.schema.unit.max_rows
    units = np.append(own, np.full(more, len(table)))
    return (
        _read_again(both, units) if order is None else _read_again(both.take(order), units[order])
    )


def _appended(table: Table, row: Codes) -> Table:
    """Return the table with rows more, the last; the others keep their values, too."""
    both = (table, Table.from_codes(table.schema, row))
    return Table.concatenate(rows.with_values(np.random.default_rng(0)) for rows in both)


def neighbours(schema: Schema, trials: int, seed: int) -> Iterator[tuple[Table, Table, Codes]]:
    """Yield tables, each with one row more, and that row; it has missing cells in every other pair.

    Rows may break rules. The row is as it was before rules were applied to it. If the schema
    declares a unit, the rows of one come last, two more than take part, in every third pair alike.
    """
    rng, more = np.random.default_rng(seed), _most_rows(schema)
    for trial in range(trials):
        size = (0, 1, 3, 12, 30)[trial % 5]
        drawn, holes = int(rng.integers(2**32)), float(rng.choice([0.1, 0.5]))
        table = unread(schema, size, drawn, holes=holes)
        row = {a.name: rng.integers(0, a.size, more) for a in schema}
        for a in schema if size and trial % 4 > 1 else ():  # one that is there already
            if table.codes(a.name)[0] < a.missing_code:
                row[a.name] = np.full(more, table.codes(a.name)[0], dtype=np.int64)
        if trial % 2 and schema.nullable:
            chosen = rng.random(len(schema.nullable)) < 0.5
            chosen[rng.integers(len(chosen))] = True
            for name in np.array(schema.nullable, dtype=object)[chosen]:
                kinds = (schema[name].missing_code, schema[name].extended_size)
                row[name] = rng.integers(*kinds, more)
        for attribute in schema:  # not applicable, where it belongs or not
            if attribute.not_applicable is not None and rng.random() < _ABSENT:
                row[attribute.name] = np.full(more, attribute.size)
        if trial % 3 == 0:
            row = {name: np.full(more, cells[0]) for name, cells in row.items()}
        yield _read_again(table), _beside(table, row), row
