"""Exact counts of private rows under a strategy, kept while they are needed, and merged levels."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError
from missdp.schema import Schema
from missdp.schema.cliques import batches
from missdp.session.counting import Clique, MarginalSource, is_weighed
from missdp.session.held_rows import HeldSource
from missdp.session.merged_rows import MergedRow
from missdp.session.row_kernel import map_rows
from missdp.session.row_weights import RowWeight, weighted_source
from missdp.session.strategies import Strategy
from missdp.types import Ints


class ExactCounts:
    """Exact counts of a source under a strategy. The source is opened for the first count."""

    def __init__(
        self,
        source: Callable[[], MarginalSource],
        schema: Schema,
        strategy: Strategy,
        *,
        weighed: bool,
    ) -> None:
        self._open, self._schema, self._strategy = source, schema, strategy
        self._weighed = weighed
        self._place = {name: i for i, name in enumerate(schema.names)}
        self._block: dict[Clique, list[Clique]] = {}
        self._cache: dict[Clique, Ints] = {}
        self._others: PrivateCounts | None = None

    @cached_property
    def _source(self) -> MarginalSource:
        source = self._open()
        if is_weighed(source) != self._weighed:  # the charge was for steps, or for complete rows
            raise DataError("what rows count changed on the way; nothing was counted")
        return source

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note cliques that are counted together, in few passes, when the first is needed."""
        ordered = dict.fromkeys(self._ordered(clique) for clique in cliques)
        self._block |= {c: block for block in self._batched(ordered) for c in block}

    def count(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Ints]]:
        """Yield each clique with its counts, in few passes over the rows."""
        for batch in self._batched(cliques):
            ordered = [self._ordered(clique) for clique in batch]
            counts = self._counted(dict.fromkeys(ordered))
            for clique, key in zip(batch, ordered, strict=True):
                yield clique, _turned(counts[key], key, clique)

    def take(self, clique: Clique) -> Ints:
        """Return the counts of a clique and drop them from the cache."""
        ordered = self._ordered(clique)
        counts = _turned(self._counted([ordered])[ordered], ordered, clique)
        self._cache.pop(ordered, None)
        return counts

    def take_over(self, others: PrivateCounts, cells: Mapping[str, Ints]) -> None:
        """Count single attributes, when they are needed, in another coding of the same rows."""
        self._others, self._cells = others, cells

    def _recoded(self, single: Clique) -> Ints:
        """Return the counts of one attribute by the coding that `take_over` named, merged."""
        assert self._others is not None
        _, counts = next(iter(self._others.count([single])))
        groups = self._cells.get(single[0])
        return counts if groups is None else _merge_levels(counts, groups, 0)

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the codes of the counted rows, which must be in memory."""
        assert isinstance(self._source, HeldSource)  # checked before anything was charged
        return self._source.code_columns()

    def weighted(self, cliques: Sequence[Clique], weight: RowWeight) -> dict[Clique, Ints]:
        """Return the sums of the weights of rows, missing cells included."""
        sums: dict[Clique, Ints] = weighted_source(self._source).weighted_counts(cliques, weight)
        return sums

    def _counted(self, cliques: Iterable[Clique]) -> Mapping[Clique, Ints]:
        requested = tuple(cliques)
        if self._others is not None:
            singles = [c for c in requested if len(c) == 1 and c not in self._cache]
            self._cache |= {clique: self._recoded(clique) for clique in singles}
        absent = [clique for clique in requested if clique not in self._cache]
        if not absent:
            return self._cache
        if self._block.keys() >= set(absent):
            while block := next((self._block[c] for c in absent if c in self._block), None):
                self._cache |= self._source.counts(block, rows=self._strategy.rows)
                for clique in block:
                    self._block.pop(clique, None)  # without this it would be expected again
            return self._cache
        return ChainMap(self._source.counts(absent, rows=self._strategy.rows), self._cache)

    def _batched(self, cliques: Iterable[Clique]) -> Iterator[list[Clique]]:
        return batches(self._schema, cliques, _CELLS_AT_ONCE)

    def _ordered(self, clique: Clique) -> Clique:
        return tuple(sorted(clique, key=self._place.__getitem__))


def _turned(counts: Ints, ordered: Clique, clique: Clique) -> Ints:
    if ordered == clique:
        return counts
    return counts.transpose([ordered.index(name) for name in clique])


class MergedCounts:
    """Counts on merged levels, each added up once. The level "missing" is not merged."""

    def __init__(self, exact: PrivateCounts, groups: Mapping[str, Ints]) -> None:
        self._exact, self._groups = exact, groups
        self._cache: dict[Clique, Ints] = {}

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note cliques that are counted together, as `ExactCounts.expect` does."""
        self._exact.expect(cliques)

    def count(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Ints]]:
        """Yield each clique with its merged counts, as `ExactCounts.count` does."""
        for clique in cliques:
            if clique not in self._cache:
                self._cache[clique] = self._merged(self._exact.take(clique), clique)
            yield clique, self._cache[clique]

    def take(self, clique: Clique) -> Ints:
        """Return the counts of a clique and drop them, as `ExactCounts.take` does."""
        counts = next(iter(self.count([clique])))[1]
        del self._cache[clique]
        return counts

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the merged codes of the rows, as `ExactCounts.codes` does."""
        codes = self._exact.codes()
        return map_rows(MergedRow(self._groups), codes, len(next(iter(codes.values()))))

    def weighted(self, cliques: Sequence[Clique], weight: RowWeight) -> dict[Clique, Ints]:
        """Return the merged sums of the weights of rows, as `ExactCounts.weighted` does."""
        groups = self._groups
        merged = {
            name: np.concatenate([groups[name], np.arange(groups[name].max() + 1, len(squares))])
            for name, squares in weight.squares.items()
        }
        sums = self._exact.weighted(cliques, weight.recoded(merged))
        return {clique: self._merged(sums[clique], clique) for clique in cliques}

    def _merged(self, table: Ints, clique: Clique) -> Ints:
        for axis, name in enumerate(clique):
            table = _merge_levels(table, self._groups[name], axis)
        return table


def _merge_levels(table: Ints, groups: Ints, axis: int) -> Ints:
    """Add up an axis of counts over groups of levels. One row still changes one count by one."""
    extra = table.shape[axis] - len(groups)
    size = int(groups.max()) + 1
    index = np.concatenate([groups, size + np.arange(extra)])
    rows = np.moveaxis(table, axis, 0)
    out = np.zeros((size + extra, *rows.shape[1:]), dtype=table.dtype)
    np.add.at(out, index, rows)
    return np.moveaxis(out, 0, axis)


#: Exact counts of cliques. Only counted rows hold them.
PrivateCounts: TypeAlias = ExactCounts | MergedCounts
_CELLS_AT_ONCE = 50_000_000  # cells of counts in one pass, 400 MB
