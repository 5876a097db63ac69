"""Cells written in all equivalent ways, each with its meaning fixed beforehand.

Nothing that reads cells is used to write them.
"""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa

from missdp.schema import Categorical, Numeric, Ordinal, Schema
from missdp.table import Table
from missdp.table.encode import CodedColumn, code_dtype
from missdp.table.frames import native_from_arrow

Cell = str | float | bool | None
_MANY = {"nullable": True, "bins": 3}
_WHOLE = {"integer": True, "missing_codes": (999,), **_MANY}
_ABSENT = {"not_asked": (-5,), "not_applicable": ("entf.",)}
_STATUS = ("ledig", "7")
# Every policy, and codes for every kind of missing: numbers, text, both.
CODED = Schema(
    (
        Categorical(
            name="Stand", levels=_STATUS, nullable=True, missing_codes=("?", -9), refused=("R",)
        ),
        Ordinal(name="stufe", levels=(9, 10), nullable=True, missing_codes=(-9,), unknown=(-8,)),
        Numeric(name="lohn", lower=0, upper=10, refused=(-7,), outside="missing", **_MANY),
        Numeric(name="alter", lower=1, upper=99, outside="clamp", **_WHOLE),
        Numeric(name="zeit", lower=0, upper=80, missing_codes=("k. A.",), **_ABSENT, **_MANY),
        Categorical(name="ja", levels=(False, True), nullable=True),
        Numeric(name="wert", lower=-1, upper=1, bins=2),
    )
)
_TEXTS = {
    bool: (str, lambda cell: str(cell).lower(), lambda cell: str(cell).upper()),
    int: (str, lambda cell: f"{cell}.0", lambda cell: f"+{cell}" if cell >= 0 else str(cell)),
    float: (repr, lambda cell: f"{cell:.17g}"),
    str: (str,),
}


class _AsWritten(Table):
    """A made-up table whose cells leave it as some file might hold them.

    ``to_arrow()`` and ``to_native()`` give the cells. ``were_read`` tells whether anyone asked.
    """

    cells: pa.Table
    were_read = False

    def to_arrow(self, *, missing_as="nulls", values="codes"):
        """Return the cells. Kinds of missing are in their codes anyway."""
        del missing_as, values
        self.were_read = True
        return self.cells

    def to_native(self, kind=None, *, missing_as="nulls", values="codes"):
        """Return the cells as a frame."""
        return native_from_arrow(
            self.to_arrow(missing_as=missing_as, values=values), kind or self.kind
        )


def spelled(schema, n, seed=0, *, unfit=None):
    """Return a made-up table without rules, its cells written in every way that means the same.

    With ``unfit``, the last cell of the named column is one that does not fit its domain.
    """
    rng, columns, arrays = np.random.default_rng(seed), dict[str, CodedColumn](), []
    for attribute in schema:
        wrong = [unfit[1]] if unfit is not None and unfit[0] == attribute.name else []
        kind = _type_of(attribute, seed)
        if wrong and (isinstance(wrong[0], str) or pa.types.is_boolean(kind)):
            kind = pa.string()
        ways = [*_ways(attribute, kind)]
        chosen = [ways[k] for k in rng.integers(len(ways), size=n)]
        codes = np.array([code for code, _ in chosen], dtype=code_dtype(attribute))
        cells = [cell for _, cell in chosen[: n - len(wrong)]]
        cells += [next(_written(cell, kind)) for cell in wrong]
        columns[attribute.name] = CodedColumn(codes)
        arrays.append(pa.array(cells, kind, from_pandas=False))
    result = _AsWritten(schema, columns)
    result.cells = pa.table(arrays, names=list(schema.names))
    return result


def _type_of(attribute, seed):
    """Return a type in which everything that is declared can be written."""
    codes = [code for kind in attribute.kinds for code in attribute.codes_of(kind)]
    number = isinstance(attribute, Numeric)
    one = 0.0 if isinstance(attribute, Numeric) else next(iter(attribute.levels), "")
    if any(isinstance(code, str) for code in (*codes, one)) or seed % 3 == 0:
        return pa.string()
    if isinstance(one, bool):
        return pa.string() if codes else pa.bool_()
    return pa.float64() if number or seed % 3 == 2 else pa.int64()


def _ways(attribute, kind):
    """Yield every code that can be written, with each way to write it in a column of this type."""
    for code, cell in _meant(attribute):
        for written in _written(cell, kind):
            yield code, written
    if attribute.kinds and attribute.kinds[0] in ("missing", "not_applicable"):
        empty = attribute.missing_code if attribute.nullable else attribute.size
        yield empty, None
        if pa.types.is_string(kind):
            yield from ((empty, ""), (empty, "  "))
        if pa.types.is_floating(kind):
            yield empty, float("nan")


def _meant(attribute):
    """Yield cells with their meaning: values, codes of missing, numbers outside."""
    for place, kind in enumerate(attribute.kinds):
        yield from ((attribute.size + place, code) for code in attribute.codes_of(kind))
    if not isinstance(attribute, Numeric):
        yield from enumerate(attribute.levels)
        return
    values = np.linspace(attribute.lower, attribute.upper, 4 * attribute.size + 1)
    values = np.unique(np.round(values)) if attribute.integer else values
    codes = attribute.encode_values(values).tolist()
    yield from zip(codes, values.tolist(), strict=True)
    if attribute.outside == "missing" and attribute.nullable:
        outside = (attribute.lower - 0.5, attribute.upper + 0.5, -math.inf, math.inf)
        yield from ((attribute.missing_code, value) for value in outside)
    if attribute.outside == "clamp":
        yield from ((codes[0], value) for value in (attribute.lower - 5.0, -math.inf))
        yield from ((codes[-1], value) for value in (attribute.upper + 5.0, math.inf))


def _written(cell, kind):
    """Yield the ways to write a cell in a column of this type. Text may have blanks around it."""
    if not pa.types.is_string(kind):
        yield float(cell) if pa.types.is_floating(kind) else cell
        return
    for write in _TEXTS[type(cell)]:
        yield from (write(cell), f" {write(cell)}\t")
