"""Two tables under one schema with equal codes, and the print of comparisons.

In an aligned table every attribute may be missing. A true table and a synthetic table need not have
missing cells in the same attributes. The rules of the schema are applied on reading, as everywhere.
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

_BLOCK_ROWS = 2**18  # rows of a block


def align(truth: Any, synthetic: Any, schema: Schema | None) -> tuple[Table, Table]:
    """Read two tables under one schema in which every attribute may be missing."""
    schema = schema_of(truth, synthetic, schema=schema)
    return _read(truth, schema), _read(synthetic, schema)


def schema_of(*tables: Any, schema: Schema | None) -> Schema:
    """Return the schema, by default the schema of the first Table."""
    if schema is None:
        schemas = [data.schema for data in tables if isinstance(data, Table)]
        if not schemas:
            raise ParameterError("pass schema=, or at least one Table")
        schema = schemas[0]
    if not isinstance(schema, Schema):
        raise ParameterError("schema must be a Schema")
    return schema


def reader(data: Any, schema: Schema) -> Callable[[], Iterator[Table]]:
    """Return a function that yields blocks of a table in which every attribute may be missing."""
    if not is_streamed(data):
        table = _read(data, schema)
        return lambda: iter([table])
    opened = _open_schema(schema)
    return lambda: (_nullable(_ruled(part, schema), schema) for part in blocks_of(data, opened))


def blocks_of(data: Any, schema: Schema) -> Iterator[Table]:
    """Yield the rows of a table under a schema without rules, in blocks if it is streamed."""
    if not is_streamed(data):
        yield with_schema(data, schema) if isinstance(data, Table) else Table.read(data, schema)
        return
    for columns in rebatch(read_columns(data, schema), _BLOCK_ROWS, schema):
        yield Table(schema, columns)


def _read(data: Any, schema: Schema) -> Table:
    if not isinstance(data, Table):  # whose missing cells need not be declared
        data = _ruled(Table.read(data, _open_schema(schema)), schema)
    return _nullable(data, schema)


def _nullable(table: Table, schema: Schema) -> Table:
    return with_schema(table, Schema(tuple(replace(a, nullable=True) for a in schema)))


def _ruled(table: Table, schema: Schema) -> Table:
    columns = apply_rules(schema, {name: table.column(name) for name in schema.names})
    return Table(table.schema, columns, kind=table.kind)


def _open_schema(schema: Schema) -> Schema:
    # If only "not applicable" is declared, a null means "not applicable", and must do so after.
    may_miss = (a if a.not_applicable is not None else replace(a, nullable=True) for a in schema)
    return replace(schema, attributes=tuple(may_miss), rules=())


def with_schema(table: Table, schema: Schema) -> Table:
    """Return a table under another schema with the same levels and bins."""
    if set(table.schema.names) != set(schema.names):
        raise SchemaError("the two tables have different attributes")
    columns = {a.name: _column_under(a, table.schema[a.name], table.column(a.name)) for a in schema}
    return Table(schema, columns, kind=table.kind)


def _column_under(target: AnyAttribute, source: AnyAttribute, column: CodedColumn) -> CodedColumn:
    absent = source.not_applicable is not None and target.not_applicable is None
    if absent or not _same_domain(target, source):
        raise SchemaError(f"the two tables declare different domains for {target.name!r}")
    if source.kinds == target.kinds:
        return column
    codes = np.append(np.arange(target.size), [*_codes_of_kinds(target, source)])[column.codes]
    # Missing cells may be undeclared.
    wide = code_dtype(target) if target.nullable else np.uint32
    return CodedColumn(codes.astype(wide), column.values)


def _codes_of_kinds(target: AnyAttribute, source: AnyAttribute) -> Iterator[int]:
    """Yield the new code of each kind of missing. An undeclared kind becomes plainly missing."""
    for kind in source.kinds:
        is_declared = kind in target.kinds
        yield target.size + target.kinds.index(kind) if is_declared else target.missing_code


def _same_domain(one: AnyAttribute, two: AnyAttribute) -> bool:
    if isinstance(one, Numeric) and isinstance(two, Numeric):
        same = one.integer == two.integer and set(one.binning.spikes) == set(two.binning.spikes)
        return same and bool(np.array_equal(one.bin_edges, two.bin_edges))
    return one.kind == two.kind and getattr(one, "levels", 1) == getattr(two, "levels", 2)


def to_text(share: float, rows: int | None) -> str:
    """Return a share, or a difference of shares, with the digits that the rows support."""
    digits = 4 if rows is None else math.ceil(math.log10(2 * max(rows, 1) ** 0.5))
    return f"{share:.{max(digits, 1)}f}"


def column_lines(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield each row as a line, its name on the left and its numbers on the right."""
    cells = list(rows)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for name, *others in cells:
        numbers = map(str.rjust, others, widths[1:])
        yield "  ".join(["", name.ljust(widths[0]), *numbers]).rstrip()
