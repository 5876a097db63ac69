"""Checks of a source of counts: against counts by hand, however rows are written, cut and read.

Tables are made up. What each cell stands for is known before it is written, and counted one row
after the other by nothing but Python's own counter; whatever a source makes of the written cells
must come to the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from missdp.errors import DataError, ParameterError, SchemaError
from missdp.schema import AnyAttribute, Schema
from missdp.sources import Clique, MarginalSource, MemorySource, Rows, strategy_named
from missdp.sources.code_store import streams_codes
from missdp.sources.strategies import ExactCounts, can_leave_out_rows, complete_rows
from missdp.table import Table
from missdp.testing.findings import Caught, Report, Unchecked, examine, expect, refuses
from missdp.testing.made_up import made_up, neighbours, unread
from missdp.testing.rows_by_hand import (
    alike,
    all_cliques,
    counted_by_hand,
    made_up_weight,
    rows_alike,
    weighed_by_hand,
    weighs,
)
from missdp.testing.spelled import CODED, SECRETS, SOURCE_SCHEMA, spelled, unfit

__all__ = ["check_source"]

SourceFactory: TypeAlias = Callable[[Table], MarginalSource]
PartsFactory: TypeAlias = Callable[[Sequence[Table]], MarginalSource]
_MODES: tuple[Rows, Rows] = ("observed", "extended")
_COUNTED = ("joint", "observed", "complete-rows")
_IN_CODES = "rows come as codes: no cell is read"


def check_source(
    source_factory: SourceFactory,
    *,
    schema: Schema | None = None,
    trials: int = 12,
    seed: int = 0,
    in_parts: PartsFactory | None = None,
    retried: SourceFactory | None = None,
    most_rows: int = 150_000,
) -> Report:
    """Run every check on a source of counts.

    Parameters
    ----------
    source_factory : callable
        Returns the source of a table that is made up. A table offers ``to_arrow()`` and
        ``to_native()``, to write its rows wherever the source reads them, and ``schema``.
    schema : Schema, optional
        Of the tables that are made up; by default one with odd names, and one with codes of every
        kind of missing and every policy about cells outside the domain.
    trials : int, default 12
        Tables to compare with counts by hand.
    seed : int, default 0
    in_parts : callable, optional
        Returns the source of several tables one after the other, each a part of its own: a file, a
        partition, a row group. Parts may be empty.
    retried : callable, optional
        Returns the source of a table of which something has to be read twice: a block whose first
        reading breaks off, a task that fails at its first attempt.
    most_rows : int, default 150_000
        Rows of the largest table. What a source does only with more rows than that is not seen:
        take more than two of the largest block, page or task that it reads.

    Returns
    -------
    Report
        What needs a factory that is not given is not checked, and says so.

    Raises
    ------
    CheckFailedError
        If any promise is not kept: it lists all of them, and what to do.

    Examples
    --------
    >>> from missdp.sources import MemorySource
    >>> from missdp.testing import check_source
    >>> print(check_source(MemorySource, trials=2))
    MemorySource: 16 promises checked, all kept; 2 not checked
    ok     source: ...
    """
    on = _Source(source_factory, schema, trials, seed, in_parts, retried, most_rows)
    name = getattr(source_factory, "__name__", type(source_factory).__name__)
    found = [
        examine("source", (keeps.__doc__ or "").rstrip("."), "made-up tables", partial(keeps, on))
        for promise, keeps in vars(_Source).items()
        if not promise.startswith("_")
    ]
    return Report(name, tuple(found)).checked()


class _Source:
    """The tables that a source is checked on; each public method is a promise."""

    def __init__(
        self,
        make: SourceFactory,
        schema: Schema | None,
        trials: int,
        seed: int,
        in_parts: PartsFactory | None,
        retried: SourceFactory | None,
        most_rows: int,
    ) -> None:
        self.make, self.trials, self.seed = make, trials, seed
        self.in_parts, self.retried, self.most_rows = in_parts, retried, most_rows
        self.schema = schema or SOURCE_SCHEMA
        self.schemas = (schema,) if schema else (SOURCE_SCHEMA, CODED)
        self.cliques = all_cliques(self.schema)

    def _table(self, n: int, number: int = 0) -> Table:
        return made_up(self.schema, n, self.seed + number, holes=0.3)

    def _compared(
        self,
        source: MarginalSource,
        table: Table,
        when: str,
        modes: Sequence[Rows] = _MODES,
        cliques: Sequence[Clique] = (),
        observed_on: Sequence[str] = (),
    ) -> None:
        """Compare counts, if not told otherwise of all cliques, with those by hand."""
        cliques = list(cliques) or all_cliques(table.schema)
        for rows in modes:
            found = source.counts(cliques, rows=rows)
            expect(list(found) == cliques, "return one entry per clique, in their order")
            for clique in cliques:
                wanted = counted_by_hand(table, clique, rows, observed_on=observed_on)
                alike(found[clique], wanted, f"{when}, rows={rows!r}")

    def protocol(self) -> None:
        """It has a schema and counts, as MarginalSource says."""
        source = self.make(self._table(3))
        expect(isinstance(source, MarginalSource), "it needs 'schema' and 'counts(cliques, rows=)'")
        expect(source.schema == self.schema, "'schema' must be the one of the rows")

    def exact(self) -> str:
        """Counts equal those by hand, on tables with holes, for any order of names."""
        for number in range(self.trials):
            table = self._table((5, 20, 60)[number % 3], number)
            self._compared(self.make(table), table, "on a table with holes")
        return f"{self.trials} tables, {len(self.cliques)} cliques"

    def cells(self) -> str:
        """Cells mean what the documentation says: blanks, codes, null and NaN, infinities."""
        for number in range(max(2, self.trials // 2)):
            for schema in self.schemas:
                if schema.rules:
                    return "not of rows with rules"
                table = spelled(unread(schema, 40, self.seed + number, holes=0.4), number)
                when = "of cells written in several ways"
                self._compared(self.make(table), table, when, _either(number))
                if not table.were_read:
                    return _IN_CODES
        return f"of {len(self.schemas)} schemas"

    def outside(self) -> str:
        """Cells outside the domain are refused, in words that are public."""
        tried, schema = 0, self.schemas[-1]
        for attribute in schema:
            if attribute.refuses and not schema.rules:
                tried += self._refused(schema, attribute)
        return f"{tried} columns" if tried else _IN_CODES

    def _refused(self, schema: Schema, attribute: AnyAttribute) -> bool:
        """See that a column with a cell outside its domain is refused, and the words alike."""
        said = set()
        for number, secret in enumerate(SECRETS):
            table = unfit(made_up(schema, 5 + 30 * number, self.seed + number), attribute, secret)
            with Caught() as caught:
                self.make(table).counts([(schema.names[0],)], rows="observed")
            if not table.were_read:
                return False
            error = caught.error
            expect(isinstance(error, DataError), f"refuse with a DataError, not {caught.shown!r}")
            assert error is not None
            quoted = any(str(s).lower() in caught.shown.lower() for s in ("SECRET", "424242"))
            expect(not quoted, "an error quotes a cell")
            hidden = error.__cause__ is None and error.__context__ is None
            expect(hidden, "an error keeps another one, which may quote a cell: see `replacing`")
            said.add(caught.shown)
        expect(len(said) == 1, "what is said of a cell outside the domain differs with the rows")
        return True

    def sizes(self) -> None:
        """An empty table counts zero, and one row counts one."""
        for n in (0, 1):
            self._compared(self.make(self._table(n)), self._table(n), f"with {n} rows")

    def parts(self) -> None:
        """However rows are cut into parts, counts are the same."""
        if self.in_parts is None:
            raise Unchecked("give in_parts=, which makes a source of several tables")
        for number, (source, rows, when) in enumerate(self._in_parts()):
            self._compared(source, rows, when, _either(number))

    def _in_parts(self) -> Iterator[tuple[MarginalSource, Table, str]]:
        """Yield sources of tables that are cut into parts."""
        assert self.in_parts is not None
        one_cell = self._table(1).take(np.zeros(50, dtype=np.int64))  # which has all rows
        cuts = (
            (self._table(40), [40]),
            (self._table(40), [20, 40]),
            (self._table(40), [1, 2, 9, 9, 20, 33, 40]),
            (self._table(5), [*range(6), *(5 for _ in range(6))]),
            (self._table(0), [0, 0, 0]),
            (one_cell, [47, 48, 49, 50]),
        )
        for rows, ends in cuts:
            starts = [0, *ends[:-1]]
            tables = [rows.take(np.arange(s, e)) for s, e in zip(starts, ends, strict=True)]
            yield self.in_parts(tables), rows, f"in {len(ends)} parts"

    def read_twice(self) -> None:
        """What has to be read again is counted once."""
        if self.retried is None:
            raise Unchecked("give retried=, which makes a source whose rows are read twice")
        for number in range(2):
            table = self._table(60, number)
            source, when = self.retried(table), "of rows that were read twice"
            self._compared(source, table, when, _either(number))
            if number == 0:
                self._weighed(source, table, when)

    def strategies(self) -> str:
        """Every strategy counts the rows that it says: all, those observed, or complete ones."""
        table, refused = self._table(60), []
        for name in _COUNTED:
            strategy, source = strategy_named(name), self.make(table)
            try:
                strategy.check(source)
            except ParameterError:
                refused.append(name)
                continue
            whole = strategy.complete_only
            opened = complete_rows(source) if whole else source
            counts = ExactCounts(lambda: opened, self.schema, strategy)  # noqa: B023
            for clique, found in counts.each(self.cliques):
                on = self.schema.nullable if whole else ()
                wanted = counted_by_hand(table, clique, strategy.rows, observed_on=on)
                alike(found, wanted, f"missing={name!r}")
        return f"needs rows in memory for {', '.join(refused)}" if refused else ""

    def requests(self) -> None:
        """Cliques may repeat, come from a generator, be few or none."""
        table = self._table(30)
        source, pair = self.make(table), (self.schema.names[-1], self.schema.names[0])
        for rows in _MODES:
            expect(source.counts([], rows=rows) == {}, "no clique, no counts")
            for asked in ([pair, pair], iter([pair])):
                found = source.counts(asked, rows=rows)
                expect(list(found) == [pair], "a clique that repeats is returned once")
                alike(found[pair], counted_by_hand(table, pair, rows), f"rows={rows!r}")
            alike(source.counts([()], rows=rows)[()], np.array(30), "for the empty clique")

    def repeats(self) -> None:
        """The same request gets the same counts, whatever was done with the last ones."""
        table = self._table(30)
        source = self.make(table)
        for rows in (*_MODES, *_MODES):
            for clique, found in source.counts(self.cliques[:4], rows=rows).items():
                wanted = counted_by_hand(table, clique, rows)
                alike(found, wanted, "asked for again: hand out copies")
                if found.flags.writeable:
                    found[...] = -1

    def order_and_merging(self) -> None:
        """The order of rows does not matter, and counts of parts of a table add up."""
        table = self._table(40)
        order = np.random.default_rng(self.seed).permutation(40)
        whole, mixed, first, last = (
            self.make(table.take(rows)) for rows in (np.arange(40), order, order[:13], order[13:])
        )
        wanted, again, *parts = (
            source.counts(self.cliques, rows="extended") for source in (whole, mixed, first, last)
        )
        for clique in self.cliques:
            alike(again[clique], wanted[clique], "with the rows in another order")
            alike(parts[0][clique] + parts[1][clique], wanted[clique], "of two parts, added")

    def one_row(self) -> None:
        """A row more adds one to one cell of each clique, or to none if it has a hole there."""
        for table, more, row in neighbours(self.schema, self.trials, self.seed):
            without, with_row = self.make(table), self.make(more)
            for rows in _MODES:
                before = without.counts(self.cliques, rows=rows)
                after = with_row.counts(self.cliques, rows=rows)
                for clique in self.cliques:
                    hole = any(row[n][0] >= self.schema[n].size for n in clique)
                    change = np.asarray(after[clique]) - np.asarray(before[clique])
                    added = 0 if hole and rows == "observed" else 1
                    expect(
                        change.min(initial=0) >= 0 and int(change.sum()) == added,
                        f"one row changed counts of {len(clique)} attributes by more than one",
                    )

    def weights(self) -> str:
        """Where rows are counted by weight, the sums of weights equal those by hand."""
        if not weighs(self.make(self._table(1))):
            return "it has no weighted_counts"
        for number, n in enumerate((0, 1, 60)):
            table = self._table(n, number)
            self._weighed(self.make(table), table, "counted by weight")
        if self.in_parts is not None:
            for source, rows, when in islice(self._in_parts(), 3):
                self._weighed(source, rows, f"counted by weight, {when}")
        return ""

    def _weighed(
        self,
        source: Any,
        table: Table,
        when: str,
        cliques: Sequence[Clique] = (),
        observed_on: Sequence[str] = (),
    ) -> None:
        """Compare sums of weights with those by hand, if there are any."""
        if not weighs(source):
            return
        weight, cliques = made_up_weight(self.schema, self.seed), cliques or self.cliques[:12]
        found = source.weighted_counts(cliques, weight)
        for clique in cliques:
            wanted = weighed_by_hand(table, clique, weight, observed_on)
            alike(found[clique], wanted, f"sums of weights, {when}")

    def coded_rows(self) -> str:
        """Where rows come as codes, in blocks, every row is in one block, once."""
        if not streams_codes(self.make(self._table(1))):
            return "it has no code_blocks"
        for number, n in enumerate((0, 1, 60)):
            table = self._table(n, number)
            source = self.make(table)
            for when in ("in blocks", "in blocks that are asked for again"):
                rows_alike(source, table, f"{when}, with {n} rows")
        for schema in self.schemas:
            if not schema.rules:
                cells = spelled(unread(schema, 40, self.seed, holes=0.4))
                rows_alike(self.make(cells), cells, "of cells written in several ways")
        if self.in_parts is not None:
            for source, rows, when in self._in_parts():
                rows_alike(source, rows, when)
        if self.retried is not None:
            table = self._table(60)
            rows_alike(self.retried(table), table, "of rows that were read twice")
        return ""

    def rows_left_out(self) -> str:
        """Where rows with holes are left out, all that is counted is of the others."""
        table = self._table(60)
        source, told = self.make(table), 0
        for number, (fewer, names) in enumerate(self._fewer(source)):
            when = "of rows observed on some attributes"
            self._compared(fewer, table, when, _either(number), observed_on=names)
            self._others(source, fewer, table, self.cliques[:12], names)
            told += 1
        return f"{told} sets of attributes" if told else "it leaves out none"

    def _fewer(self, source: Any) -> Iterator[tuple[Any, Sequence[str]]]:
        """Yield sources of the rows that are observed on some attributes, and these."""
        names = self.schema.nullable
        if can_leave_out_rows(source):
            yield source.observed_on(names[-1:]), names[-1:]
            yield source.observed_on(names[:1]).observed_on(names[1:2]), names[:2]
        if can_leave_out_rows(source) or isinstance(source, MemorySource):
            yield complete_rows(source), names

    def _others(
        self,
        source: Any,
        fewer: Any,
        table: Table,
        cliques: Sequence[Clique],
        names: Sequence[str],
    ) -> None:
        """Compare what a source tells of fewer rows beside counts: weights, and rows as codes."""
        when = "of rows observed on some attributes"
        expect(weighs(fewer) or not weighs(source), f"weighted_counts is missing {when}")
        self._weighed(fewer, table, when, cliques, names)
        rows_alike(fewer, table, when, names)

    def many_rows(self) -> str:
        """With more rows than a block or page holds, every row is still counted, once."""
        singles = [c for c in self.cliques if len(c) < 2]
        cliques = [*singles, *self.cliques[-1:]]
        for n, number in ((min(4096, self.most_rows), 0), (self.most_rows, 1)):
            table = self._table(n, number)
            source, when = self.make(table), f"with {n} rows"
            self._compared(source, table, when, _MODES[1 - number :], cliques)
        self._weighed(source, table, when, cliques[-2:])
        rows_alike(source, table, when)
        for fewer, names in list(self._fewer(source))[-1:]:
            self._compared(fewer, table, f"of complete rows, {when}", _MODES[:1], cliques, names)
            self._others(source, fewer, table, cliques[-2:], names)
        return f"up to {self.most_rows}"

    def refusals(self) -> None:
        """Bad requests are refused by typed errors."""
        source, name = self.make(self._table(5)), self.schema.names[0]
        asked: Any
        rows: Any
        for asked, rows in (([(name,)], "all"), ([name], "observed"), ([(name, name)], "observed")):
            with refuses(ParameterError, f"counts({asked}, rows={rows!r})"):
                source.counts(asked, rows=rows)
        with refuses(SchemaError, "an attribute that is not declared"):
            source.counts([("no such attribute",)], rows="observed")

    def public_words(self) -> None:
        """What it shows and says depends on public facts only."""
        said = []
        for number, n in enumerate((0, 7, 50)):
            source = self.make(self._table(n, number))
            words = [str(source), repr(source)]
            for asked in ([("no such attribute",)], [(self.schema.names[0],) * 2]):
                with Caught() as caught:
                    source.counts(asked, rows="observed")
                words.append(caught.shown)
            said.append(words)
        expect(said[0] == said[1] == said[2], "repr or errors differ with the rows: leave them out")


def _either(number: int) -> Sequence[Rows]:
    """Return the modes in turns: engines take their time for each."""
    return _MODES[number % 2 :][:1]
