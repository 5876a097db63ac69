"""Checks of a source of counts: against counts by hand, however rows are written, cut and read.

Tables are made up, and the meaning of each of their cells is fixed before it is written. The counts
of a source of the written cells must be the same.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from missdp.errors import DataError, ParameterError, SchemaError
from missdp.schema import Categorical, Numeric, Ordinal, Schema
from missdp.session.counting import has_method
from missdp.session.observed_rows import complete_rows
from missdp.session.row_weights import RowWeight
from missdp.sources import MarginalSource, MemorySource
from missdp.table import Table
from missdp.testing.example_tables import example_table
from missdp.testing.findings import ErrorCatcher, Report, UncheckedPromise, examine, expect, name_of
from testing.expectations import refuses
from testing.written import CODED, spelled

__all__ = ["check_source"]

SourceFactory = Callable[[Table], MarginalSource]
PartsFactory = Callable[[Sequence[Table]], MarginalSource]
_MODES = ("observed", "extended")
_WEIGHED = 8  # cliques
_IN_CODES = "rows come as codes: no cell is read"
# Names that a query language could trip over.
SOURCE_SCHEMA = Schema(
    (
        Categorical(name="Größe 大", levels=("klein", "groß", "ü"), nullable=True),
        Ordinal(name='he said "hi"; --', levels=(9, 10, 11, 12), nullable=True),
        Numeric(name="age", lower=0, upper=100, bins=4, nullable=True),
        Categorical(name="yes", levels=(False, True), nullable=True),
        Categorical(name="sure", levels=("a", "b", "?")),
    )
)
_SECRETS = ("SECRET", 424242.0)  # text that no message may quote


def check_source(
    source_factory,
    *,
    schema=None,
    trials=12,
    seed=0,
    in_parts=None,
    retried=None,
    most_rows=150_000,
):
    """Run every check on a source of counts. See docs/developers/testing.md.

    ``source_factory`` returns the source of a made-up table. ``in_parts`` returns the source of
    several tables in sequence (files, partitions or row groups), some of which may be empty.
    ``retried`` returns the source of a table of which a part has to be read twice. A table offers
    ``to_arrow()`` and ``to_native()``, to write its rows where the source reads them, and
    ``schema``. By default there are two schemas. The first schema has odd names. The second schema
    has codes of every kind of missing value, and every policy about cells outside the domain.
    Behaviour of a source with more than ``most_rows`` rows is not checked.

    Examples
    --------
    >>> from missdp.sources import MemorySource
    >>> from testing.source_checks import check_source
    >>> print(check_source(MemorySource, trials=2))
    MemorySource: 9 promises checked, all kept; 2 not checked
    ok     source: ...
    """
    schemas = (schema,) if schema else (SOURCE_SCHEMA, CODED)
    on = _Source(source_factory, schemas, trials, seed, in_parts, retried, most_rows)
    result = [
        examine("source", (keeps.__doc__ or "").rstrip("."), "made-up tables", partial(keeps, on))
        for promise, keeps in vars(_Source).items()
        if callable(keeps) and not promise.startswith("_")
    ]
    return Report(name_of(source_factory), tuple(result)).checked()


@dataclass(frozen=True)
class _Source:
    """The tables that a source is checked on. Each public method is a promise."""

    make: SourceFactory
    schemas: tuple[Schema, ...]
    trials: int
    seed: int
    in_parts: PartsFactory | None
    retried: SourceFactory | None
    most_rows: int
    turns: Iterator[int] = field(default_factory=itertools.count)

    @property
    def _schema(self):
        return self.schemas[0]

    def _table(self, n, number=0):
        return example_table(self._schema, n, self.seed + number, missing_rate=0.3)

    def _compare(self, source, table, when, *, cliques=(), observed_on=()):
        """Compare counts, rows as codes and a few sums of weights with those by hand.

        Counts are at first of both modes, then of one in turns, since engines take their time. The
        rest is compared if the source has it.
        """
        cliques, number = list(cliques) or _all_cliques(table.schema), next(self.turns)
        retained = _kept(table, observed_on)
        for rows in (_MODES[number % 2],) if number else _MODES:
            result = source.counts(cliques, rows=rows)
            expect(list(result) == cliques, "return one entry per clique, in their order")
            for clique in cliques:
                wanted = _by_hand(table, clique, rows, retained)
                _alike(result[clique], wanted, f"{when}, rows={rows!r}")
        if has_method(source, "weighted_counts"):
            weight = _made_up_weight(table.schema)
            sums = source.weighted_counts(cliques[:_WEIGHED], weight)
            for clique in cliques[:_WEIGHED]:
                wanted = _by_hand(table, clique, "extended", retained, weight)
                _alike(sums[clique], wanted, f"sums of weights, {when}")
        if has_method(source, "code_blocks"):
            blocks = _rows_of_blocks(source, table.schema.names, when)
            columns = (table.codes(name)[retained].tolist() for name in table.schema.names)
            alike = blocks == collections.Counter(zip(*columns, strict=True))
            expect(alike, f"rows of code_blocks are wrong: yield each once ({when})")

    def protocol(self):
        """It has a schema and counts, as MarginalSource says."""
        source = self.make(self._table(3))
        expect(isinstance(source, MarginalSource), "it needs 'schema' and 'counts(cliques, rows=)'")
        expect(source.schema == self._schema, "'schema' must be the one of the rows")

    def exact(self):
        """Counts equal those by hand, on tables with missing cells, for any order of names."""
        for number in range(self.trials):
            n = (60, 0, 1, 5, 20)[number % 5]
            table = self._table(n, number)
            source, when = self.make(table), f"on a table with holes, with {n} rows"
            self._compare(source, table, when)
            if number == 0:
                self._compare(source, table, "asked for again")
        return f"{self.trials} tables, {len(_all_cliques(self._schema))} cliques"

    def next_to_counts(self):
        """Sums of weights, rows as codes and rows left out are those by hand, where it has them."""
        table, when = self._table(60), "of rows observed on some attributes"
        source = self.make(table)
        named = [name for name in ("weighted_counts", "code_blocks") if has_method(source, name)]
        for fewer, names in self._fewer(source):
            is_weighted = has_method(fewer, "weighted_counts") or "weighted_counts" not in named
            expect(is_weighted, f"weighted_counts is missing {when}")
            self._compare(fewer, table, when, observed_on=names)
        return f"it has {', '.join(named) or 'neither weighted_counts nor code_blocks'}"

    def _fewer(self, source):
        """Yield sources of the rows that are observed on some attributes, and these."""
        names = self._schema.nullable
        if has_method(source, "observed_on"):
            yield source.observed_on(names[-1:]), names[-1:]
            yield source.observed_on(names[:1]).observed_on(names[1:2]), names[:2]
        if has_method(source, "observed_on") or isinstance(source, MemorySource):
            yield complete_rows(source), names

    def cells(self):
        """Cells have their documented meaning: blanks, codes, null and NaN, infinities."""
        for number in range(max(2, self.trials // 2)):
            for schema in self.schemas:
                if schema.rules:
                    return "not of rows with rules"
                table = spelled(schema, 40, self.seed + number)
                self._compare(self.make(table), table, "of cells written in several ways")
                if not table.were_read:
                    return _IN_CODES
        return f"of {len(self.schemas)} schemas"

    def outside(self):
        """Cells outside the domain are refused, in words that are public."""
        schema = self.schemas[-1]
        names = [a.name for a in schema if a.refuses and not schema.rules]
        refused = sum(map(self._refused, names))
        return f"{refused} columns" if refused else _IN_CODES

    def _refused(self, name):
        """See that a column with a cell outside its domain is refused, and the words alike."""
        schema, message = self.schemas[-1], set()
        for number, secret in enumerate(_SECRETS):
            table = spelled(schema, 5 + 30 * number, self.seed + number, unfit=(name, secret))
            with ErrorCatcher() as caught:
                self.make(table).counts([(schema.names[0],)], rows="observed")
            if not table.were_read:
                return False
            error = caught.error
            expect(isinstance(error, DataError), f"refuse with a DataError, not {caught.shown!r}")
            quoted = any(text in caught.shown.lower() for text in ("secret", "424242"))
            expect(not quoted, "an error quotes a cell")
            hidden = error.__cause__ is error.__context__ is None
            expect(hidden, "an error keeps another one, which may quote a cell: see `replacing`")
            message.add(caught.shown)
        expect(len(message) == 1, "what is said of a cell outside the domain differs with the rows")
        return True

    def parts(self):
        """However rows are cut into parts, counts are the same."""
        if self.in_parts is None:
            raise UncheckedPromise("give in_parts=, which makes a source of several tables")
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
            self._compare(self.in_parts(tables), rows, f"in {len(ends)} parts")

    def read_twice(self):
        """A block that is read again is counted once."""
        if self.retried is None:
            raise UncheckedPromise("give retried=, which makes a source whose rows are read twice")
        for number in range(2):
            table = self._table(60, number)
            self._compare(self.retried(table), table, "of rows that were read twice")

    def requests(self):
        """Cliques may repeat or be none, and answers written to, without changing the next."""
        table = self._table(30)
        source, pair = self.make(table), (self._schema.names[-1], self._schema.names[0])
        for rows in (*_MODES, *_MODES):
            expect(source.counts([], rows=rows) == {}, "no clique, no counts")
            for question in ([pair, pair], iter([pair])):
                result = source.counts(question, rows=rows)
                expect(list(result) == [pair], "a clique that repeats is returned once")
                wanted = _by_hand(table, pair, rows, _kept(table, ()))
                _alike(result[pair], wanted, "asked for again: hand out copies")
            if result[pair].flags.writeable:
                result[pair][...] = -1

    def many_rows(self):
        """With more rows than a block or page holds, every row is still counted, once."""
        every = _all_cliques(self._schema)
        cliques = [every[-1], *(clique for clique in every if len(clique) < 2)]
        for n, number in ((min(4096, self.most_rows), 0), (self.most_rows, 1)):
            table = self._table(n, number)
            source, when = self.make(table), f"with {n} rows"
            self._compare(source, table, when, cliques=cliques)
        for fewer, names in list(self._fewer(source))[-1:]:
            when = f"of complete rows, {when}"
            self._compare(fewer, table, when, cliques=cliques, observed_on=names)
        return f"up to {self.most_rows}"

    def refusals(self):
        """Bad requests are refused by typed errors."""
        source, name = self.make(self._table(5)), self._schema.names[0]
        question: Any
        rows: Any
        for question, rows in (
            ([(name,)], "all"),
            ([name], "observed"),
            ([(name, name)], "observed"),
        ):
            with refuses(ParameterError, f"counts({question}, rows={rows!r})"):
                source.counts(question, rows=rows)
        with refuses(SchemaError, "an attribute that is not declared"):
            source.counts([("no such attribute",)], rows="observed")

    def public_words(self):
        """Its text and its errors depend on public facts only."""
        message = []
        for number, n in enumerate((0, 7, 50)):
            source = self.make(self._table(n, number))
            words = [str(source), repr(source)]
            for question in ([("no such attribute",)], [(self._schema.names[0],) * 2]):
                with ErrorCatcher() as caught:
                    source.counts(question, rows="observed")
                words.append(caught.shown)
            message.append(words)
        expect(
            message[0] == message[1] == message[2],
            "repr or errors differ with the rows: leave them out",
        )


# By hand
def _by_hand(table, clique, rows, retained, weight=None):
    """Add up the rows that are kept, or their weights, as the documentation of sources says."""
    each = np.ones(int(retained.sum()), dtype=np.int64)
    if weight is not None:
        each = weight({name: table.codes(name)[retained] for name in weight.names})
    wanted = np.zeros(table.schema.extended_shape(clique), dtype=np.int64)
    cells = tuple(table.codes(name)[retained].astype(np.int64) for name in clique)
    np.add.at(wanted, cells, each if clique else each.sum())
    valued = tuple(slice(table.schema[name].size) for name in clique)
    return wanted[valued] if rows == "observed" else wanted


def _kept(table, observed_on):
    """Whether each row has no missing cell. "Not applicable" is not missing."""
    retained = np.ones(len(table), dtype=bool)
    for name in observed_on:
        retained &= table.codes(name) < table.schema[name].missing_code
    return retained


def _alike(result, wanted, when):
    """Expect counts to be those wanted, in type and shape, too."""
    result = np.asarray(result)
    expect(result.dtype == np.int64, f"counts must be int64, not {result.dtype} ({when})")
    expect(result.shape == wanted.shape, f"shape {result.shape}, expected {wanted.shape} ({when})")
    expect(np.array_equal(result, wanted), f"counts are wrong ({when})")


def _rows_of_blocks(source, names, when):
    """Return how often each row comes in the blocks of codes."""
    result = collections.Counter[tuple[int, ...]]()
    for block in source.code_blocks():
        expect(set(names) <= set(block), f"a block lacks codes of an attribute ({when})")
        columns = [np.asarray(block[name]) for name in names]
        expect(len({c.shape for c in columns}) == 1, f"columns of a block are not as long ({when})")
        expect(all(c.dtype.kind in "iu" for c in columns), f"codes must be whole numbers ({when})")
        result.update(zip(*(column.tolist() for column in columns), strict=True))
    return result


def _made_up_weight(schema):
    """Return weights of rows that differ with every cell."""
    rng = np.random.default_rng(0)
    squares = {a.name: rng.integers(0, 1000, a.extended_size) for a in schema}
    return RowWeight(squares, first_order_weight=3, bound=20_000, max_weight=1000)


def _all_cliques(schema):
    """Return all cliques of up to three attributes, and those of several turned around."""
    sizes = range(min(3, len(schema)) + 1)
    result = [c for k in sizes for c in itertools.combinations(schema.names, k)]
    return result + [tuple(reversed(clique)) for clique in result if len(clique) > 1]
