"""Example tables with random cells and missing cells of every kind, and their schemas.

Nothing here is private. Rows are drawn cell by cell, and may break rules. Rules are then applied to
them as to rows of a file.
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
"""Schema of example tables: four attributes, of which one cannot be missing."""
TINY = Schema(
    tuple(Categorical(name=n, levels=("common", "rare"), nullable=True) for n in ("x", "y"))
)
"""Schema of example tables for audits: two nullable attributes with two levels each."""
# Every kind of missing and of rule, with rules inside bins, and on attributes that are never
# missing.
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
"""Schema of example tables with every kind of missing cell and every kind of rule."""
Codes = dict[str, NDArray[np.int64]]
_ABSENT = 0.15  # share of cells that are not applicable without a rule


def has_kinds_or_rules(schema: Schema) -> bool:
    """Return whether a schema has several kinds of missing, "not applicable", or rules."""
    several = any(len(a.kinds) > 1 or a.not_applicable is not None for a in schema)
    return several or bool(schema.rules)


def example_table(schema: Schema, n: int, seed: int = 0, *, missing_rate: float = 0.2) -> Table:
    """Return a random example table for tests, with dependent attributes and missing cells.

    Cells are missing at random, and all kinds of missing of an attribute have the same probability.
    The rules of the schema are applied to the rows, as they are to rows of a file.

    Parameters
    ----------
    schema : Schema
        Schema of the table.
    n : int
        Number of rows, at least 0.
    seed : int, default 0
        Seed of the cells, at least 0.
    missing_rate : float, default 0.2
        Probability that a nullable cell is missing, in [0, 1].

    Returns
    -------
    Table
        The table, with ``n`` rows. Not private.

    Examples
    --------
    >>> from missdp.testing import TINY, example_table
    >>> table = example_table(TINY, 5)
    >>> len(table), table.schema.names
    (5, ('x', 'y'))
    """
    return _read_again(unprocessed_table(schema, n, seed, missing_rate=missing_rate))


def unprocessed_table(schema: Schema, n: int, seed: int = 0, *, missing_rate: float = 0.2) -> Table:
    """Return an example table to which no rule was applied, as a file may hold it.

    Parameters
    ----------
    schema : Schema
        Schema of the table.
    n : int
        Number of rows.
    seed : int, default 0
        Seed of the cells.
    missing_rate : float, default 0.2
        Probability that a nullable cell is missing.

    Returns
    -------
    Table
        Not private.
    """
    rng = np.random.default_rng(seed)
    hidden = rng.random(n)
    codes: Codes = {}
    for attribute in schema:
        near = np.clip(hidden + 0.3 * rng.standard_normal(n), 0, 1 - 1e-9)
        cells = (near * attribute.size).astype(np.int64)
        if attribute.nullable:
            is_missing = rng.random(n) < missing_rate
            kinds = (attribute.missing_code, attribute.extended_size)
            cells[is_missing] = rng.integers(*kinds, int(is_missing.sum()))
        if attribute.not_applicable is not None:
            cells[rng.random(n) < _ABSENT] = attribute.size
        codes[attribute.name] = cells
    return Table.from_codes(schema, codes).with_values(rng)


def _read_again(table: Table, units: Ints | None = None) -> Table:
    """Return the table as it is read: by its rules and, if the schema declares one, by its unit."""
    schema = table.schema
    if schema.unit is not None:
        ids = np.arange(len(table)) // schema.unit.max_rows if units is None else units
        frame = table.to_native("pandas", missing_as="codes").assign(**{schema.unit.column: ids})
        return Table.read(frame, schema)
    if not schema.rules:
        return table
    columns = {name: table.column(name) for name in schema.names}
    return Table(schema, apply_rules(schema, columns), kind=table.kind)


def constant_table(schema: Schema, n: int, *, missing: bool = False) -> Table:
    """Return a table of equal rows: all first levels, or only missing cells.

    Parameters
    ----------
    schema : Schema
        Schema of the table.
    n : int
        Number of rows.
    missing : bool, default False
        If True, nullable cells are missing.

    Returns
    -------
    Table
        Not private.
    """
    codes = {
        a.name: np.full(n, a.missing_code if missing and a.nullable else 0, dtype=np.int64)
        for a in schema
    }
    return _read_again(Table.from_codes(schema, codes).with_values(np.random.default_rng(0)))


def canary(schema: Schema, n: int) -> tuple[Table, Table]:
    """Return a table of equal rows, and the table with one more row that differs everywhere.

    No pair of neighbouring tables is easier to distinguish by counts, because this row lies in a
    cell of its own. If the schema declares a unit of protection (all rows of one person), all rows
    of one unit differ. Their number is two above the limit, and they are spread over the table.

    Parameters
    ----------
    schema : Schema
        Schema of the tables.
    n : int
        Number of equal rows, at least 0.

    Returns
    -------
    tuple of (Table, Table)
        Two neighbouring example tables, the larger second. Not private.

    Examples
    --------
    >>> from missdp.testing import TINY, canary
    >>> few, more = canary(TINY, 12)
    >>> len(few), len(more)
    (12, 13)
    """
    crowd, more = constant_table(schema, n), _max_rows(schema)
    row = {a.name: np.full(more, a.size - 1) for a in schema}
    order = np.random.default_rng(0).permutation(n + more) if schema.unit else None
    return crowd, _with_rows(crowd, row, order)


def _max_rows(schema: Schema) -> int:
    """Return the number of rows by which neighbours differ, two above the limit for units."""
    return 1 if schema.unit is None else schema.unit.max_rows + 2


def _with_rows(table: Table, rows: Codes, order: Ints | None = None) -> Table:
    """Return the table with the rows of one unit more, or with one row more, in some order."""
    both, more = _appended(table, rows), len(next(iter(rows.values())))
    if table.schema.unit is None:
        return _read_again(both)
    ids = np.arange(len(table)) // table.schema.unit.max_rows
    units = np.append(ids, np.full(more, len(table)))
    return (
        _read_again(both, units) if order is None else _read_again(both.take(order), units[order])
    )


def _appended(table: Table, row: Codes) -> Table:
    """Return the table with more rows at its end, and unchanged values of its other rows."""
    both = (table, Table.from_codes(table.schema, row))
    return Table.concatenate(rows.with_values(np.random.default_rng(0)) for rows in both)


def neighbours(schema: Schema, trials: int, seed: int) -> Iterator[tuple[Table, Table, Codes]]:
    """Yield random pairs of neighbouring example tables, and the rows by which they differ.

    Tables have 0 to 30 rows. Rows may break rules, and the additional row is as it was before rules
    were applied to it. If the schema declares a unit of protection (all rows of one person), the
    tables differ by all rows of one unit. These rows come last. They are two more than the limit,
    and in every third pair they are equal.

    Parameters
    ----------
    schema : Schema
        Schema of the tables.
    trials : int
        Number of pairs, at least 0.
    seed : int
        Seed of the cells, at least 0.

    Yields
    ------
    table : Table
        An example table.
    neighbour : Table
        The table with the additional rows.
    rows : dict of str to ndarray of int64
        For each attribute, the codes of the additional rows.

    Notes
    -----
    The tables are examples and not private.

    Examples
    --------
    >>> from missdp.testing import TINY, neighbours
    >>> few, more, rows = next(neighbours(TINY, trials=1, seed=0))
    >>> len(few), len(more), sorted(rows)
    (0, 1, ['x', 'y'])
    """
    rng, more = np.random.default_rng(seed), _max_rows(schema)
    for trial in range(trials):
        size = (0, 1, 3, 12, 30)[trial % 5]
        drawn, missing_rate = int(rng.integers(2**32)), float(rng.choice([0.1, 0.5]))
        table = unprocessed_table(schema, size, drawn, missing_rate=missing_rate)
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
        yield _read_again(table), _with_rows(table, row), row
