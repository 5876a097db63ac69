"""Row functions that read rows: encoding with rules, other bins, and survey weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from missdp.errors import DataError
from missdp.schema import Layout, Numeric, Schema, SurveyWeight
from missdp.schema.layout import PLAIN, STEPS
from missdp.schema.numeric import code_dtype
from missdp.session.row_kernel import (
    VALUES,
    Block,
    Range,
    RowFunction,
    column_ranges,
    map_rows,
    row_function,
)
from missdp.table.encode import Encoder
from missdp.table.follow import apply_rules
from missdp.table.rows import Rows
from missdp.table.units import survey_shares
from missdp.threads import map_in_order
from missdp.types import Floats

if TYPE_CHECKING:
    import pyarrow as pa

_Out = TypeVar("_Out")


@row_function
@dataclass(frozen=True, eq=False)
class CodedRow(RowFunction):
    """Row function from cells to codes and numbers, with the rules of the schema applied.

    Attributes
    ----------
    schema : Schema
        The declared schema, without unit and weight.
    read : tuple of str
        The stored attributes whose cells are read.
    requested : tuple of str
        The attributes whose codes are returned.
    with_values : bool
        True if the numbers of numeric attributes are returned too.
    """

    schema: Schema
    read: tuple[str, ...]
    requested: tuple[str, ...]
    with_values: bool = True

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of the requested attributes, and the numbers of numeric attributes."""
        numeric = {a.name for a in self.schema if isinstance(a, Numeric)}
        valued = [name for name in self.requested if name in numeric and self.with_values]
        ranges = column_ranges(self.schema, valued)
        keys = [*self.requested, *((VALUES, name) for name in valued)]
        return {key: ranges[key] for key in keys}

    @cached_property
    def _encoders(self) -> dict[str, Encoder]:
        return {name: Encoder(self.schema[name], self.schema.file) for name in self.read}

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return codes and numbers. A cell that cannot be read gets a public code.

        Raises
        ------
        DataError
            If an attribute refuses cells outside its domain. The message quotes no cell.
        """
        del uniforms
        columns = {name: encoder.encode(rows[name]) for name, encoder in self._encoders.items()}
        block: dict[Any, Any] = {}
        # Columns may be read only because they may refuse a cell.
        if not self.requested and self.schema.input_columns is self.schema:
            return block
        for name, column in apply_rules(self.schema, columns, self.requested).items():
            block[name] = column.codes
            if (VALUES, name) in self.columns:
                block[VALUES, name] = column.values
        return block

    def blocks(
        self, rows: Rows, then: Callable[[Block, int], _Out], *, n_jobs: int | None = None
    ) -> Iterator[_Out]:
        """Apply a function to each block of coded rows and their number, and yield the results.

        Parameters
        ----------
        rows : Rows
            The private rows.
        then : callable
            A function of a block and its number of rows.
        n_jobs : int, optional
            Number of threads.

        Yields
        ------
        object
            The result for each batch, in order.
        """

        def coded(batch: pa.RecordBatch) -> _Out:
            cells = dict(zip(self.read, batch.columns, strict=True))
            return then(map_rows(self, cells, batch.num_rows), batch.num_rows)

        yield from map_in_order(coded, rows.batches(self.read), n_jobs=n_jobs)


@row_function
@dataclass(frozen=True, eq=False)
class WeightedRow(RowFunction):
    """Row function from a survey weight to a count, clipped by the public bound of weights.

    Attributes
    ----------
    weight : SurveyWeight
        The declared column, its largest weight, and the weight of a cell that cannot be read.
    layout : Layout, optional
        The format of numbers in text.
    """

    weight: SurveyWeight
    layout: Layout = PLAIN

    @property
    def columns(self) -> Mapping[Any, Range]:
        """One column of whole numbers of steps, at most `STEPS` for each row."""
        return {self.weight.column: Range(np.dtype(np.int64), 0, STEPS)}

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return the count of each row, in steps."""
        del uniforms
        name = self.weight.column
        return {name: survey_shares(rows[name], self.weight, self.layout)}


@row_function
@dataclass(frozen=True, eq=False)
class RecodedRow(RowFunction):
    """Row function from codes to codes in the bins of another schema, which differs in bins only.

    Attributes
    ----------
    schema : Schema
        The schema of the rows.
    to : Schema
        The schema after the change.
    valued : tuple of str
        The attributes with numbers in addition to codes.

    Raises
    ------
    DataError
        If the bins of an attribute without numbers differ.
    """

    schema: Schema
    to: Schema
    valued: tuple[str, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in self._changed:
            if name not in self.valued:
                raise DataError(f"attribute {name!r} has no numbers, so its bins cannot change")

    @cached_property
    def _changed(self) -> frozenset[str]:
        return frozenset(
            new.name
            for new, old in zip(self.to, self.schema, strict=True)
            if isinstance(new, Numeric)
            and isinstance(old, Numeric)
            and new.binning.cells != old.binning.cells
        )

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of all attributes, and the numbers of the attributes ``valued``."""
        return column_ranges(self.to, self.valued)

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return the rows with codes in other bins. Numbers and missing cells stay unchanged."""
        del uniforms
        block = dict(rows)
        for name in self._changed:
            old, new = self.schema[name], self.to[name]
            assert isinstance(new, Numeric)
            codes = new.encode_values(rows[VALUES, name])
            without = rows[name] >= old.size
            codes[without] = rows[name][without].astype(np.int64) - old.size + new.size
            block[name] = codes.astype(code_dtype(new))
        return block
