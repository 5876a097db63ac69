"""Two tables under one schema, so that their codes mean the same; and how comparisons are printed.

In an aligned table every attribute may be missing, for a true table and a synthetic one need not
agree on where there are missing cells. The rules of the schema are applied on reading, as
everywhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from missdp.errors import ParameterError, SchemaError
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.schema.numeric import code_dtype
from missdp.table import Table
from missdp.table.encode import CodedColumn
from missdp.table.follow import apply_rules
from missdp.table.rows import is_streamed
from missdp.table.table import read_columns, rebatch

_BLOCK_ROWS = 2**18


def align(truth: Any, synthetic: Any, schema: Schema | None) -> tuple[Table, Table]:
    """Read two tables under one schema in which every attribute may be missing."""
    schema = schema_of(truth, synthetic, schema=schema)
    return _read(truth, schema), _read(synthetic, schema)


def schema_of(*tables: Any, schema: Schema | None) -> Schema:
    """Return the schema that is given, or else that of the first Table."""
    if schema is None:
        known = [data.schema for data in tables if isinstance(data, Table)]
        if not known:
            raise ParameterError("pass schema=, or at least one Table")
        schema = known[0]
    if not isinstance(schema, Schema):
        raise ParameterError("schema must be a Schema")
    return schema


def aligned(data: Any, schema: Schema) -> Callable[[], Iterator[Table]]:
    """Return what yields a table's rows, in blocks, with every attribute allowed to be missing."""
    if not is_streamed(data):
        table = _read(data, schema)
        return lambda: iter([table])
    opened = _open_schema(schema)
    return lambda: (_nullable(_ruled(part, schema), schema) for part in blocks_of(data, opened))


def blocks_of(data: Any, schema: Schema) -> Iterator[Table]:
    """Yield the rows of a table under a schema without rules; streams in blocks."""
    if not is_streamed(data):
        yield fitted(data, schema) if isinstance(data, Table) else Table.read(data, schema)
        return
    for columns in rebatch(read_columns(data, schema), _BLOCK_ROWS, schema):
        yield Table(schema, columns)


def _read(data: Any, schema: Schema) -> Table:
    if not isinstance(data, Table):  # whose holes need not be declared
        data = _ruled(Table.read(data, _open_schema(schema)), schema)
    return _nullable(data, schema)


def _nullable(table: Table, schema: Schema) -> Table:
    return fitted(table, Schema(tuple(replace(a, nullable=True) for a in schema)))


def _ruled(table: Table, schema: Schema) -> Table:
    columns = apply_rules(schema, {name: table.column(name) for name in schema.names})
    return Table(table.schema, columns, kind=table.kind)


def _open_schema(schema: Schema) -> Schema:
    # Where nothing but "not applicable" is declared a null means that, and must go on doing so.
    may_miss = (a if a.not_applicable is not None else replace(a, nullable=True) for a in schema)
    return replace(schema, attributes=tuple(may_miss), rules=())


def fitted(table: Table, schema: Schema) -> Table:
    """Return a table under another schema with the same levels and bins."""
    if set(table.schema.names) != set(schema.names):
        raise SchemaError("the two tables have different attributes")
    columns = {a.name: _fitted(a, table.schema[a.name], table.column(a.name)) for a in schema}
    return Table(schema, columns, kind=table.kind)


def _fitted(wanted: AnyAttribute, given: AnyAttribute, column: CodedColumn) -> CodedColumn:
    absent = given.not_applicable is not None and wanted.not_applicable is None
    if absent or not _same_domain(wanted, given):
        raise SchemaError(f"the two tables declare different domains for {wanted.name!r}")
    if given.kinds == wanted.kinds:
        return column
    codes = np.append(np.arange(wanted.size), [*_codes_of_kinds(wanted, given)])[column.codes]
    wide = code_dtype(wanted) if wanted.nullable else np.uint32  # holes that are not declared
    return CodedColumn(codes.astype(wide), column.values)


def _codes_of_kinds(wanted: AnyAttribute, given: AnyAttribute) -> Iterator[int]:
    """Yield the new code of each kind; one that is not declared there is plainly missing."""
    for kind in given.kinds:
        known = kind in wanted.kinds
        yield wanted.size + wanted.kinds.index(kind) if known else wanted.missing_code


def _same_domain(one: AnyAttribute, two: AnyAttribute) -> bool:
    if isinstance(one, Numeric) and isinstance(two, Numeric):
        same = one.integer == two.integer and set(one.binning.spikes) == set(two.binning.spikes)
        return same and bool(np.array_equal(one.bin_edges, two.bin_edges))
    return one.kind == two.kind and getattr(one, "levels", 1) == getattr(two, "levels", 2)


def rounded(share: float, rows: int | None) -> str:
    """Return a share, or a difference of shares, with the digits that so many rows support."""
    digits = 4 if rows is None else math.ceil(math.log10(2 * max(rows, 1) ** 0.5))
    return f"{share:.{max(digits, 1)}f}"


def in_columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield each row as a line: its name to the left, what follows to the right."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *others in cells:
        numbers = map(str.rjust, others, widths[1:])
        yield "  ".join(["", name.ljust(widths[0]), *numbers]).rstrip()
