"""Missing-data strategies: which rows are counted, and what that makes of their missing cells.

A `Strategy` states its facts: which rows it reads, behind which gates, and whether missing cells
are modelled. `ExactCounts` counts a source under a strategy, and a door keeps these counts while
they are needed. `open_source` finds the source that fits an input.
"""

from __future__ import annotations

import math
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, did_you_mean
from missdp.schema import Schema
from missdp.sources.counts import (
    Clique,
    MarginalSource,
    MemorySource,
    Reads,
    Rows,
    RowWeight,
    offers,
    weighing,
)
from missdp.sources.streamed import DuckDBSource
from missdp.table import Table
from missdp.table.frames import engine_of
from missdp.table.memory import fits_into_memory
from missdp.table.streams import RelationRows, stream_of
from missdp.types import Ints

GateChoice: TypeAlias = Literal["none", "schema", "parameters", "data"]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to count rows that have missing cells, as the facts that follow from it.

    Parameters
    ----------
    name : str
        What a person types.
    rows : {"observed", "extended"}
        Over which rows a clique is counted: those observed on it, or every row with "missing" as
        one more level.
    complete_only : bool
        Whether rows with any missing cell are dropped before anything is counted.
    fills : bool
        Whether missing cells are filled, row by row, before anything is modelled.
    gates : {"none", "schema", "parameters", "data"}
        Who chose which attributes a row must have observed to be read: nobody, since every row is
        read; the schema; the parameters of the fit; or what was released before.

    Examples
    --------
    >>> strategy_named("joint").models_holes, strategy_named("complete-rows").needs_rows
    (True, True)
    """

    name: str
    rows: Rows
    complete_only: bool = False
    fills: bool = False
    gates: GateChoice = "none"

    @property
    def models_holes(self) -> bool:
        """Whether what is missing is modelled, so that holes can be sampled."""
        return self.rows == "extended"

    @property
    def needs_rows(self) -> bool:
        """Whether it works on rows: those in memory, or of a source that changes them itself."""
        return self.complete_only or self.fills

    def gate(self, clique: Iterable[str], schema: Schema) -> frozenset[str]:
        """Return the attributes that a row must have observed to enter a clique's counts."""
        nullable = frozenset(schema.nullable)
        if self.complete_only:
            return nullable
        return nullable & frozenset(clique) if self.rows == "observed" else frozenset()

    def tells_total(self, clique: Iterable[str], schema: Schema) -> bool:
        """Whether a clique's counts add up to the number of all rows."""
        return not self.gate(clique, schema)

    def every_row_counts(self, schema: Schema) -> bool:
        """Whether all cliques have the same total, whatever is missing."""
        return self.models_holes or self.complete_only or not schema.nullable

    def shape(self, clique: Iterable[str], schema: Schema) -> tuple[int, ...]:
        """Return the shape of a clique's counts."""
        names = tuple(clique)
        return schema.extended_shape(names) if self.models_holes else schema.shape(names)

    def check(self, source: MarginalSource) -> None:
        """Refuse a source that cannot be counted like this: rows are needed, and streamed by one
        that cannot leave out or yield any.
        """
        whole = self.complete_only and offers(source, "observed_on")
        whole |= self.fills and offers(source, "code_blocks")
        if self.needs_rows and not whole and not isinstance(source, MemorySource):
            raise ParameterError(
                f"missing={self.name!r} needs the rows in memory; read them with Table.read, or "
                "use 'joint' or 'observed', which count while they stream"
            )


#: The strategies, by name.
STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy(name="joint", rows="extended"),
        Strategy(name="observed", rows="observed", gates="data"),
        Strategy(name="complete-rows", rows="observed", complete_only=True, gates="schema"),
        Strategy(name="impute-first", rows="observed", fills=True, gates="parameters"),
    )
}


def strategy_named(name: str) -> Strategy:
    """Return the strategy that a name stands for."""
    if not isinstance(name, str) or name not in STRATEGIES:
        near = did_you_mean(name, STRATEGIES)
        raise ParameterError(f"missing must be one of {list(STRATEGIES)}, not {name!r}{near}")
    return STRATEGIES[name]


def open_source(data: Any, schema: Schema, *, reads: Reads = "counts") -> MarginalSource:
    """Return a source that counts ``data``.

    Parameters
    ----------
    data : Table, frame, DuckDB relation, RowStream, str, Path or MarginalSource
        Frames and tables are held in memory, and so are files and streams of which metadata tell
        that they fit into it (see `missdp.table.memory_limit`); others, and DuckDB relations, are
        streamed; Spark data frames are counted by Spark. A source comes back as it is. A source
        with a method ``check()`` is asked to refuse now what it would refuse later, so that a fit
        charges nothing for it.
    schema : Schema
        The declared domain.
    reads : {"counts", "weights", "rows"}, default "counts"
        What is read of it. With ``"rows"``, files and streams are held however long they are: to
        refuse a long one would tell how long it is.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> open_source(pd.DataFrame({"smoker": ["yes"]}), schema)
    MemorySource(smoker)
    """
    source = _open(data, schema, reads)
    if offers(source, "check"):
        source.check()  # type: ignore[attr-defined]
    return source


def _open(data: Any, schema: Schema, reads: Reads) -> MarginalSource:
    if is_source(data):
        if data.schema != schema:
            raise DataError("the source was opened with another schema")
        return data
    if (engine := engine_of(data)) is not None:
        opened: MarginalSource = engine.source(data, schema)
        return opened
    stream = stream_of(data)
    held = reads == "rows" and type(stream) is not RelationRows  # of a relation no length is known
    if stream is not None and not held and not fits_into_memory(stream.about(), schema):
        return DuckDBSource(stream, schema)
    return MemorySource(Table.read(data, schema))


def is_source(data: Any) -> TypeGuard[MarginalSource]:
    """Tell whether ``data`` can count by itself.

    Asked of its type: a frame may have columns that are called "schema" and "counts".
    """
    return offers(data, "counts")


def is_weighed(source: MarginalSource) -> bool:
    """Whether the counts of a source are in steps, since rows count different amounts."""
    return isinstance(source, MemorySource) and source.weighed


class ExactCounts:
    """Exact counts of a source, opened when something is first counted, under a strategy."""

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
        self._kept: dict[Clique, Ints] = {}
        self._others: PrivateCounts | None = None

    @cached_property
    def _source(self) -> MarginalSource:
        found = self._open()
        assert is_weighed(found) == self._weighed  # what rows count goes wherever they go
        return found

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note what is to be counted together, in few passes, when the first of it is needed."""
        ordered = dict.fromkeys(self._ordered(clique) for clique in cliques)
        self._block |= {c: block for block in self._batches(ordered) for c in block}

    def each(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Ints]]:
        """Yield each clique with its counts, few passes over the rows for all of them."""
        for batch in self._batches(cliques):
            ordered = [self._ordered(clique) for clique in batch]
            counts = self._counted(dict.fromkeys(ordered))
            for clique, key in zip(batch, ordered, strict=True):
                yield clique, _turned(counts[key], key, clique)

    def take(self, clique: Clique) -> Ints:
        """Return the counts of a clique that is not asked for again."""
        ordered = self._ordered(clique)
        found = _turned(self._counted([ordered])[ordered], ordered, clique)
        self._kept.pop(ordered, None)
        return found

    def take_over(self, others: PrivateCounts, cells: Mapping[str, Ints]) -> None:
        """Count single attributes, when they are needed, in another coding of the same rows."""
        self._others, self._cells = others, cells

    def _recoded(self, single: Clique) -> Ints:
        """Return the counts of one attribute by the coding that `take_over` named, merged."""
        assert self._others is not None
        _, counts = next(iter(self._others.each([single])))
        groups = self._cells.get(single[0])
        return counts if groups is None else _merge_levels(counts, groups, 0)

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows that are counted; they must be in memory."""
        assert isinstance(self._source, MemorySource)  # checked before anything was charged
        return {name: self._source.table.codes(name) for name in self._schema.names}

    def weighted(self, cliques: Sequence[Clique], weight: RowWeight) -> dict[Clique, Ints]:
        """Return the sums of the weights of rows, missing cells included."""
        found: dict[Clique, Ints] = weighing(self._source).weighted_counts(cliques, weight)
        return found

    def _counted(self, cliques: Iterable[Clique]) -> Mapping[Clique, Ints]:
        wanted = tuple(cliques)
        if self._others is not None:
            singles = [c for c in wanted if len(c) == 1 and c not in self._kept]
            self._kept |= {clique: self._recoded(clique) for clique in singles}
        lacking = [clique for clique in wanted if clique not in self._kept]
        if not lacking:
            return self._kept
        if self._block.keys() >= set(lacking):
            while block := next((self._block[c] for c in lacking if c in self._block), None):
                self._kept |= self._source.counts(block, rows=self._strategy.rows)
                for clique in block:
                    self._block.pop(clique, None)  # or it is expected again
            return self._kept
        return ChainMap(self._source.counts(lacking, rows=self._strategy.rows), self._kept)

    def _batches(self, cliques: Iterable[Clique]) -> Iterator[list[Clique]]:
        """Cliques whose counts are held at once."""
        batch: list[Clique] = []
        cells = 0
        for clique in cliques:
            size = math.prod(self._schema.extended_shape(clique))
            if batch and cells + size > _CELLS_AT_ONCE:
                yield batch
                batch, cells = [], 0
            batch.append(clique)
            cells += size
        if batch:
            yield batch

    def _ordered(self, clique: Clique) -> Clique:
        return tuple(sorted(clique, key=self._place.__getitem__))


def _turned(counts: Ints, ordered: Clique, clique: Clique) -> Ints:
    if ordered == clique:
        return counts
    return counts.transpose([ordered.index(name) for name in clique])


class MergedCounts:
    """Counts on merged levels, each added up once; further last levels ("missing") stay."""

    def __init__(self, exact: PrivateCounts, groups: Mapping[str, Ints]) -> None:
        self._exact, self._groups = exact, groups
        self._kept: dict[Clique, Ints] = {}

    def expect(self, cliques: Iterable[Clique]) -> None:
        """Note what is to be counted together; see `ExactCounts`."""
        self._exact.expect(cliques)

    def each(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Ints]]:
        """Yield each clique with its merged counts; see `ExactCounts`."""
        for clique in cliques:
            if clique not in self._kept:
                table = self._exact.take(clique)
                for axis, name in enumerate(clique):
                    table = _merge_levels(table, self._groups[name], axis)
                self._kept[clique] = table
            yield clique, self._kept[clique]

    def take(self, clique: Clique) -> Ints:
        """Return counts that are not asked for again; see `ExactCounts`."""
        found = next(iter(self.each([clique])))[1]
        del self._kept[clique]
        return found

    def codes(self) -> dict[str, NDArray[Any]]:
        """Return the codes of the rows, merged; see `ExactCounts`."""
        found = {}
        for name, codes in self._exact.codes().items():
            group = self._groups[name]
            found[name] = np.append(group, group.max() + 1)[codes]
        return found

    def weighted(self, cliques: Sequence[Clique], weight: RowWeight) -> dict[Clique, Ints]:
        """Return the sums of the weights of rows, merged; see `ExactCounts`."""
        groups = self._groups
        merged = {
            name: np.concatenate([groups[name], np.arange(groups[name].max() + 1, len(squares))])
            for name, squares in weight.squares.items()
        }
        found = self._exact.weighted(cliques, weight.recoded(merged))
        for clique in cliques:
            for axis, name in enumerate(clique):
                found[clique] = _merge_levels(found[clique], groups[name], axis)
        return found


def _merge_levels(table: Ints, groups: Ints, axis: int) -> Ints:
    """Add up an axis of counts over groups of levels: one row still moves one count by one."""
    extra = table.shape[axis] - len(groups)
    size = int(groups.max()) + 1
    index = np.concatenate([groups, size + np.arange(extra)])
    moved = np.moveaxis(table, axis, 0)
    out = np.zeros((size + extra, *moved.shape[1:]), dtype=table.dtype)
    np.add.at(out, index, moved)
    return np.moveaxis(out, 0, axis)


#: Exact counts of cliques. Only a door holds one.
PrivateCounts: TypeAlias = ExactCounts | MergedCounts
_CELLS_AT_ONCE = 50_000_000  # 400 MB of counts
