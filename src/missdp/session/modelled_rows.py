"""Rows in modelled form: no derived attributes, "not applicable" as a level, one code for missing.

Rows in memory are changed by a row function. For rows that are streamed or counted elsewhere, the
counts are merged. Kinds of missing are added up, so one row still changes one count by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from missdp.schema import Numeric, Schema
from missdp.schema.modelled import ModelView
from missdp.schema.numeric import code_dtype
from missdp.session.counting import (
    Clique,
    Counts,
    MarginalSource,
    Rows,
)
from missdp.session.held_rows import HeldSource
from missdp.session.row_kernel import (
    VALUES,
    Block,
    Range,
    RowFunction,
    column_ranges,
    map_rows,
    row_function,
)
from missdp.session.row_weights import RowWeight, weighted_source
from missdp.types import Floats, Ints


@row_function
@dataclass(frozen=True, eq=False)
class ModelledRow(RowFunction):
    """Row function from rows of the declared schema to modelled rows.

    Attributes
    ----------
    schema : Schema
        The declared schema.
    valued : tuple of str
        The modelled attributes that have numbers besides codes.
    """

    schema: Schema
    valued: tuple[str, ...] = ()

    @cached_property
    def _modelled(self) -> Schema:
        return ModelView(self.schema).schema

    @cached_property
    def columns(self) -> Mapping[Any, Range]:
        """The codes of all modelled attributes, and the numbers of some."""
        return column_ranges(self._modelled, self.valued)

    def apply(self, rows: Block, uniforms: Floats) -> Block:
        """Return the rows, with one code for all kinds of missing."""
        del uniforms
        columns: dict[Any, Any] = {(VALUES, n): rows[VALUES, n] for n in self.valued}
        for attribute in self._modelled:
            codes = np.minimum(rows[attribute.name], attribute.missing_code)
            columns[attribute.name] = codes.astype(code_dtype(attribute), copy=False)
        return columns


def modelled_source(source: MarginalSource, modelled: ModelView) -> MarginalSource:
    """Return a source of the modelled columns of the rows of another source."""
    if isinstance(source, HeldSource):
        numeric = {a.name for a in modelled.schema if isinstance(a, Numeric)}
        valued = tuple(sorted(source.valued & numeric))
        return source.mapped(ModelledRow(modelled.full_schema, valued), modelled.schema)
    return _ModelledSource(source, modelled)


class _ModelledSource:
    """Source of the modelled columns of the rows of another source, whose counts are merged."""

    def __init__(self, source: MarginalSource, modelled: ModelView) -> None:
        self._source, self._modelled = source, modelled
        #: Public facts about the modelled columns.
        self.schema = modelled.schema

    def counts(self, cliques: Iterable[Clique], *, rows: Rows) -> Counts:
        """Count every clique, as `MarginalSource.counts` describes."""
        requested = tuple(dict.fromkeys(map(tuple, cliques)))
        counts = self._source.counts(requested, rows="extended")
        return {clique: self._merged(counts[clique], clique, rows) for clique in requested}

    def weighted_counts(self, cliques: Iterable[Clique], weight: RowWeight) -> Counts:
        """Add up weights, as the method of the underlying source does."""
        requested = tuple(dict.fromkeys(map(tuple, cliques)))
        source = weighted_source(self._source)
        codes = {a.name: np.arange(a.extended_size) for a in source.schema}
        merged = {
            # If only complete rows are counted, a weight has no entry for missing cells.
            name: np.minimum(codes[name], len(weight.squares[name]) - 1)
            for name in weight.names
        }
        counts = source.weighted_counts(requested, weight.recoded(merged))
        return {clique: self._merged(counts[clique], clique, "extended") for clique in requested}

    def observed_on(self, names: Iterable[str]) -> _ModelledSource:
        """Return the modelled columns of the rows without a missing cell in these attributes."""
        observed = self._source.observed_on(names)  # type: ignore[attr-defined]
        return _ModelledSource(observed, self._modelled)

    def code_blocks(self) -> Iterator[Block]:
        """Yield the codes of the modelled columns, a block of rows at a time. Private."""
        function = ModelledRow(self._modelled.full_schema)
        for block in self._source.code_blocks():  # type: ignore[attr-defined]
            yield map_rows(function, block, len(next(iter(block.values()))))

    def _merged(self, counts: Ints, clique: Clique, rows: Rows) -> Ints:
        """Add up the kinds of missing, or drop them."""
        for axis, name in enumerate(clique):
            attribute = self.schema[name]
            first = [slice(None)] * axis
            values = counts[(*first, slice(0, attribute.size))]
            if rows == "extended" and attribute.nullable:
                missing = counts[(*first, slice(attribute.size, None))]
                values = np.concatenate([values, missing.sum(axis=axis, keepdims=True)], axis=axis)
            counts = values
        return np.array(counts, order="C")  # the shape () of the number of rows is preserved
