"""Rows whose missing cells a row function fills, each row by itself.

Rows in memory stay in memory. Streamed rows are filled once and stored in a temporary file.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.schema.modelled import complete_schema
from missdp.session.counting import (
    Counter,
    CountingSource,
    MarginalSource,
    count_block,
    has_method,
    is_weighed,
)
from missdp.session.exact_counts import ExactCounts
from missdp.session.held_rows import HeldSource
from missdp.session.row_kernel import Block, RowFunction, column_ranges, map_rows
from missdp.session.row_weights import RowWeight
from missdp.spool import Spool
from missdp.threads import map_in_order

if TYPE_CHECKING:
    import pyarrow as pa

    from missdp.session.counted_rows import CountedRows


def fill_rows(
    counted: CountedRows, function: RowFunction, generator: np.random.Generator
) -> CountedRows:
    """Return counted rows with every missing cell filled by a row function, when they are counted.

    Parameters
    ----------
    counted : CountedRows
        The rows with missing cells, under a strategy that fills. Private.
    function : RowFunction
        Function of a registered type that returns the codes of complete rows.
    generator : numpy.random.Generator
        Draws the random numbers of rows.

    Returns
    -------
    CountedRows
        The rows are filled when they are first counted. Private.

    Raises
    ------
    ParameterError
        If the strategy fills no missing cells, or if the function leaves cells missing.
    """
    facts, source = counted.facts, counted.source
    if not facts.strategy.fills:
        raise ParameterError(f"missing={facts.strategy.name!r} fills no missing cells")
    schema = complete_schema(facts.schema)
    if dict(function.columns) != column_ranges(schema):
        raise ParameterError("the row function must return the codes of complete rows")

    def fill() -> MarginalSource:
        if isinstance(source, HeldSource):
            return source.mapped(function, schema, generator)
        assert has_method(source, "code_blocks")  # checked before anything was charged
        blocks = source.code_blocks()  # type: ignore[attr-defined]
        sized = ((block, len(next(iter(block.values())))) for block in blocks)
        return CodeStore(schema, (map_rows(function, b, n, generator) for b, n in sized))

    counts = ExactCounts(fill, schema, facts.strategy, weighed=is_weighed(source))
    changed = replace(facts, schema=schema, has_fine_codes=False)
    return replace(counted, facts=changed, counts=counts, scores={}, fine=None)


class CodeStore(CountingSource):
    """Source of streamed rows that were filled once, so that every count sees the same rows.

    Parameters
    ----------
    schema : Schema
        Public facts about the rows.
    blocks : iterable of mapping
        Blocks of codes. Private. They are stored in a `missdp.spool.Spool`.
    """

    def __init__(self, schema: Schema, blocks: Iterable[Block]) -> None:
        import pyarrow as pa

        super().__init__(schema)
        names = schema.names
        self._spool = Spool(pa.record_batch({n: block[n] for n in names}) for block in blocks)

    def _count(self, counter: Counter, weight: RowWeight | None) -> None:
        def count(batch: pa.RecordBatch) -> None:
            block = {name: batch[name].to_numpy() for name in self.schema.names}
            count_block(counter, block, batch.num_rows, weight)

        for _ in map_in_order(count, self._spool):
            pass
