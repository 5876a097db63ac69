"""Sources that break one promise each. One, `InBlocks`, that breaks none."""

import copy

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from missdp.schema import Numeric
from missdp.schema.cliques import check_cliques
from missdp.session.counting import Counter
from missdp.sources import MemorySource
from missdp.table import Table


class HolesAsLevel(MemorySource):
    """Counts rows with missing cells among those observed: in the first level."""

    def counts(self, cliques, *, rows):
        if rows == "observed":
            codes = {a.name: self.table.codes(a.name) for a in self.schema}
            codes = {n: np.where(c < self.schema[n].size, c, 0) for n, c in codes.items()}
            return MemorySource(Table.from_codes(self.schema, codes)).counts(cliques, rows=rows)
        return super().counts(cliques, rows=rows)


class MutableCounts(MemorySource):
    """Hands out counts that it keeps: a caller who writes to them changes its next answer."""

    def __init__(self, table):
        super().__init__(table)
        self._kept = {}

    def counts(self, cliques, *, rows):
        question = list(cliques)
        for clique, table in super().counts(question, rows=rows).items():
            self._kept.setdefault((clique, rows), table)
        return {clique: self._kept[clique, rows] for clique in question}


class QuotingSource(MemorySource):
    """Shows its number of rows, which is private."""

    def __repr__(self):
        return f"QuotingSource({', '.join(self.schema.names)}: {len(self.table)} rows)"


class NaNAsNumber(MemorySource):
    """Reads a number that is NaN as the largest one, as an engine does that sorts it last."""

    def __init__(self, table):
        cells = table.to_arrow(missing_as="codes")
        for place, a in enumerate(table.schema):
            column = cells.column(place)
            if isinstance(a, Numeric) and pa.types.is_floating(column.type):
                largest = pc.if_else(pc.is_nan(column), a.upper, column)
                cells = cells.set_column(place, a.name, largest)
        super().__init__(Table.read(cells, table.schema))


class BlocksTwice(MemorySource):
    """Yields all rows twice where they are asked for as codes: filled, each counts double."""

    def code_blocks(self):
        for _ in range(2):
            yield {name: self.table.codes(name) for name in self.schema.names}


class HolesWeighed(MemorySource):
    """Leaves out rows with missing cells where it counts, and weighs them all the same."""

    def __init__(self, table, remaining=None):
        super().__init__(table)
        self._left = table if remaining is None else remaining

    def observed_on(self, names):
        missing = [self._left.codes(n) >= self.schema[n].missing_code for n in names]
        return HolesWeighed(self.table, self._left.take(~np.any(missing, axis=0)))

    def counts(self, cliques, *, rows):
        return MemorySource(self._left).counts(cliques, rows=rows)


class FirstThousand(MemorySource):
    """Counts the first page of rows."""

    def __init__(self, table):
        super().__init__(table.take(np.arange(min(1000, len(table)))))


class InBlocks:
    """Counts rows in blocks, and a block again whose reading breaks off. Keeps every promise."""

    def __init__(self, table, *, fails=False):
        self.schema = table.schema
        self._table, self._fails = (
            Table.read(table.to_arrow(missing_as="codes"), table.schema),
            fails,
        )
        self._half = max(4, len(table) // 10)  # of a block, in rows

    def counts(self, cliques, *, rows):
        return self._count(check_cliques(self.schema, cliques, rows), None).result(rows)

    def weighted_counts(self, cliques, weight):
        checked = check_cliques(self.schema, cliques, "extended")
        return self._count(checked, weight).result("extended")

    def observed_on(self, names):
        fewer = copy.copy(self)
        complete = np.ones(len(self._table), dtype=bool)
        for name in names:
            complete &= self._table.codes(name) < self.schema[name].missing_code
        fewer._table = self._table.take(complete)
        return fewer

    def code_blocks(self):
        for start in self._starts():
            try:
                block = list(self._halves(start, 0))
            except OSError:
                block = list(self._halves(start, 1))
            yield from block

    def _starts(self):
        return range(0, len(self._table), 2 * self._half)

    def _count(self, cliques, weight):
        counter = Counter(self.schema, cliques)
        for start in self._starts():
            try:
                self._add(start, counter, weight, attempt=0)
            except OSError:
                self._add(start, counter, weight, attempt=1)
        return counter

    def _add(self, start, counter, weight, *, attempt):
        direct = copy.copy(counter)  # without counts
        for codes in self._halves(start, attempt):
            direct.add(codes, _height(codes), weight(codes) if weight else None)
        for (_, total), (_, block) in zip(counter.blocks(), direct.blocks(), strict=True):
            total += block

    def _halves(self, start, attempt):
        for first in (start, start + self._half):
            half = slice(first, first + self._half)
            yield {name: self._table.codes(name)[half] for name in self.schema.names}
            if self._fails and attempt == 0:
                raise OSError("the disk is on fire")

    def __repr__(self):
        return f"{type(self).__name__}({', '.join(self.schema.names)})"


class CountedAgain(InBlocks):
    """Counts the part of a block before its reading broke off, and then the whole block."""

    def _add(self, start, counter, weight, *, attempt):
        for codes in self._halves(start, attempt):
            counter.add(codes, _height(codes), weight(codes) if weight else None)


class BlocksAgain(InBlocks):
    """Yields the part of a block before its reading broke off, and then the whole block."""

    def code_blocks(self):
        for start in self._starts():
            try:
                yield from self._halves(start, 0)
            except OSError:
                yield from self._halves(start, 1)


def _height(codes):
    return len(next(iter(codes.values())))
