"""Draft a schema from column names and types, for a person to complete.

Names and types come from the table's own header; levels and bounds would come from the private
cells, so each is marked as not yet declared public. A release refuses such a schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from missdp.errors import DataError
from missdp.schema import AnyAttribute, Categorical, Numeric, Schema
from missdp.table.encode import parse_numbers
from missdp.table.files import read_arrow
from missdp.table.frames import check_columns, to_arrow

__all__ = ["draft_schema"]

_MAX_DRAFT_LEVELS = 100
_USUAL_CODES = ("?", "NA", "N/A", "n/a", "NaN", "null", "NULL", ".")


def draft_schema(data: Any) -> Schema:
    """Draft a schema; every fact read from the cells is marked ``undeclared``.

    Parameters
    ----------
    data : pandas, polars or Arrow table, DuckDB relation, str or Path
        The private rows.

    Returns
    -------
    Schema
        To be checked by a person: correct the facts, then delete the marks.

    Raises
    ------
    DataError
        If a column has no values at all, or too many distinct ones to be categorical.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp.table import draft_schema
    >>> draft = draft_schema(pd.DataFrame({"smoker": ["yes", "no", None], "age": [31, 70, 45]}))
    >>> draft["smoker"].levels, draft["smoker"].undeclared
    (('no', 'yes'), ('levels', 'nullable'))
    >>> draft.undeclared["age"]
    ('lower', 'upper', 'integer', 'nullable')
    """
    table = read_arrow(Path(data)) if isinstance(data, (str, Path)) else to_arrow(data)
    check_columns(table.column_names, tuple(table.column_names))
    if not table.num_columns:
        raise DataError("the data has no columns to draft a schema from")
    return Schema(tuple(_draft(name, table.column(name)) for name in table.column_names))


def _draft(name: str, column: pa.ChunkedArray) -> AnyAttribute:
    cells = column.combine_chunks()
    if isinstance(cells, pa.DictionaryArray):
        cells = cells.dictionary_decode()
    codes: tuple[str, ...] = ()
    if pa.types.is_string(cells.type) or pa.types.is_large_string(cells.type):
        cells, codes = _clean_text(cells)
    if pa.types.is_floating(cells.type):
        cells = pc.if_else(pc.is_nan(cells), pa.scalar(None, cells.type), cells)
    nullable = bool(cells.null_count) or bool(codes)
    cells = cells.drop_null()
    if not len(cells):
        raise DataError(f"column {name!r} is empty: write its attribute into the schema by hand")
    if pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type):
        return _draft_numeric(name, cells, nullable, codes)
    return _draft_levels(name, cells, nullable, codes)


def _clean_text(cells: pa.Array) -> tuple[pa.Array, tuple[str, ...]]:
    """Turn the usual missing codes into null; turn columns of numbers into numbers."""
    text = pc.utf8_trim_whitespace(cells.cast(pa.string()))
    found = set(pc.unique(text).to_pylist())
    codes = tuple(code for code in _USUAL_CODES if code in found)
    text = pc.if_else(pc.is_in(text, value_set=pa.array(codes, pa.string())), None, text)
    number, unparsed = parse_numbers(text)
    if len(text) > text.null_count and not pc.any(unparsed).as_py():
        return number, codes
    return text, codes


def _draft_numeric(name: str, cells: pa.Array, nullable: bool, codes: tuple[str, ...]) -> Numeric:
    number = cells.cast(pa.float64()).filter(pc.is_finite(cells.cast(pa.float64())))
    if not len(number):
        raise DataError(f"column {name!r} has no finite numbers: write its attribute by hand")
    bounds = pc.min_max(number)
    lower, upper = bounds["min"].as_py(), bounds["max"].as_py()
    integer = bool(pc.all(pc.equal(number, pc.floor(number))).as_py())
    return Numeric(
        name=name,
        lower=lower,
        upper=upper if upper > lower else lower + 1,
        integer=integer,
        nullable=nullable,
        missing_codes=codes,
        undeclared=("lower", "upper", "integer", *_marks(codes)),
    )


def _draft_levels(
    name: str, cells: pa.Array, nullable: bool, codes: tuple[str, ...]
) -> Categorical:
    if not (pa.types.is_boolean(cells.type) or pa.types.is_string(cells.type)):
        cells = cells.cast(pa.string())
    levels = sorted(level for level in pc.unique(cells).to_pylist() if level != "")
    if len(levels) > _MAX_DRAFT_LEVELS:
        raise DataError(
            f"column {name!r} has more than {_MAX_DRAFT_LEVELS} distinct values: it looks like an "
            "identifier or free text; drop it, or write its attribute into the schema by hand"
        )
    return Categorical(
        name=name,
        levels=tuple(levels),
        nullable=nullable,
        missing_codes=codes,
        undeclared=("levels", *_marks(codes)),
    )


def _marks(codes: tuple[str, ...]) -> tuple[str, ...]:
    return ("nullable", "missing_codes") if codes else ("nullable",)
