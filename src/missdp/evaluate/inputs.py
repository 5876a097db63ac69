"""Bring two tables of any kind to one schema, so that their codes can be compared."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, SchemaError, replacing
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.table import Table
from missdp.table.encode import Column, code_dtype

__all__ = ["align", "names_of", "rebin", "whole"]


def align(truth: Any, synthetic: Any, schema: Schema | None) -> tuple[Table, Table]:
    """Read two tables under one schema in which every attribute may be missing.

    Raises
    ------
    ParameterError
        If no schema is given and neither input is a Table.
    SchemaError
        If the two declare different domains.
    DataError
        If a frame does not fit the schema.
    """
    if schema is None:
        known = [data.schema for data in (truth, synthetic) if isinstance(data, Table)]
        if not known:
            raise ParameterError("pass schema=, or at least one Table")
        schema = known[0]
    if not isinstance(schema, Schema):
        raise ParameterError("schema must be a Schema")
    open_schema = _all_nullable(schema)
    return _read(truth, open_schema), _read(synthetic, open_schema)


def whole(name: str, value: Any, *, least: int) -> int:
    """Return a parameter that must be a whole number of at least ``least``.

    Raises
    ------
    ParameterError
        If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ParameterError(f"{name} must be a whole number of at least {least}, not {value!r}")
    return int(value)


def names_of(what: str, names: Iterable[str] | str) -> tuple[str, ...]:
    """Return one name, or several, as a tuple.

    Raises
    ------
    ParameterError
        If something else is given.
    """
    wrong = ParameterError(f"{what} are given by name")
    with replacing(TypeError, by=wrong):
        given = (names,) if isinstance(names, str) else tuple(names)
    if not all(isinstance(name, str) for name in given):
        raise wrong
    return given


def rebin(table: Table, bins: int) -> Table:
    """Cut every numeric attribute into ``bins`` bins of equal width instead of its own.

    Whole numbers get at most one bin per number, and no attribute gets fewer bins than declared.
    """
    attributes: dict[str, AnyAttribute] = {a.name: a for a in table.schema}
    columns = {name: _column(table, name) for name in attributes}
    for name, attribute in attributes.items():
        if isinstance(attribute, Numeric):
            attributes[name], columns[name] = _rebin_column(attribute, columns[name], bins)
    return Table(Schema(tuple(attributes.values())), columns, kind=table.kind)


def _rebin_column(attribute: Numeric, column: Column, bins: int) -> tuple[Numeric, Column]:
    if column.values is None:
        raise DataError(
            f"attribute {attribute.name!r} has bins only, so no finer ones can be compared; "
            "draw values with with_values() first"
        )
    finest = int(attribute.upper - attribute.lower) if attribute.integer else bins
    wanted = min(bins, finest)
    if wanted <= attribute.size:
        return attribute, column
    finer = attribute.model_copy(update={"bins": wanted, "edges": None})
    codes = finer.encode_values(column.values)
    codes[column.codes == attribute.missing_code] = finer.missing_code
    return finer, Column(codes.astype(code_dtype(finer)), column.values)


def _read(data: Any, schema: Schema) -> Table:
    if not isinstance(data, Table):
        return Table.read(data, schema)
    if set(data.schema.names) != set(schema.names):
        raise SchemaError("the two tables have different attributes")
    columns = {}
    for attribute in schema:
        if not _same_domain(attribute, data.schema[attribute.name]):
            raise SchemaError(f"the two tables declare different domains for {attribute.name!r}")
        columns[attribute.name] = _column(data, attribute.name)
    return Table(schema, columns, kind=data.kind)


def _column(table: Table, name: str) -> Column:
    values: NDArray[np.float64] | None = None
    if isinstance(table.schema[name], Numeric):
        try:
            values = table.values(name)
        except DataError:  # a table of bins only
            values = None
    return Column(table.codes(name), values)


def _all_nullable(schema: Schema) -> Schema:
    return Schema(tuple(a.model_copy(update={"nullable": True}) for a in schema))


def _same_domain(one: AnyAttribute, two: AnyAttribute) -> bool:
    if isinstance(one, Numeric) and isinstance(two, Numeric):
        same = one.integer == two.integer and one.size == two.size
        return same and bool(np.array_equal(one.bin_edges, two.bin_edges))
    return one.kind == two.kind and getattr(one, "levels", 1) == getattr(two, "levels", 2)
