"""Checks of a source of counts: against counts by hand, however rows are written, cut and read.

Tables are made up. What each cell stands for is known before it is written, and nothing that reads
cells is used to write them; rows are counted one after the other by nothing but Python's own
counter. Whatever a source makes of the written cells must come to the same.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from missdp.errors import DataError, ParameterError, SchemaError
from missdp.schema import AnyAttribute, Categorical, Numeric, Ordinal, Schema
from missdp.sources import Clique, MarginalSource, MemorySource, Rows
from missdp.sources.counts import RowWeight, offers
from missdp.sources.strategies import complete_rows
from missdp.table import Holes, Table
from missdp.table.encode import Column
from missdp.table.frames import FrameKind, native_from_arrow
from missdp.testing.findings import Caught, Report, Unchecked, examine, expect, refuses
from missdp.testing.made_up import made_up, unread

__all__ = ["check_source"]

SourceFactory: TypeAlias = Callable[[Table], MarginalSource]
PartsFactory: TypeAlias = Callable[[Sequence[Table]], MarginalSource]
Cell: TypeAlias = str | float | bool | None
_MODES: tuple[Rows, Rows] = ("observed", "extended")
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
_MANY: dict[str, Any] = {"nullable": True, "bins": 3}
_ELSE: dict[str, Any] = {"not_asked": (-5,), "not_applicable": ("entf.",)}
# Every policy, and codes for every kind of missing: numbers, text, both.
CODED = Schema(
    (
        Categorical(
            name="Stand",
            levels=("ledig", "7"),
            nullable=True,
            missing_codes=("?", -9),
            refused=("R",),
        ),
        Ordinal(name="stufe", levels=(9, 10), nullable=True, missing_codes=(-9,), unknown=(-8,)),
        Numeric(name="lohn", lower=0, upper=10, refused=(-7,), outside="missing", **_MANY),
        Numeric(
            name="alter",
            lower=1,
            upper=99,
            integer=True,
            missing_codes=(999,),
            outside="clamp",
            **_MANY,
        ),
        Numeric(name="zeit", lower=0, upper=80, missing_codes=("k. A.",), **_ELSE, **_MANY),
        Categorical(name="ja", levels=(False, True), nullable=True),
        Numeric(name="wert", lower=-1, upper=1, bins=2),
    )
)
_SECRETS: tuple[str | float, ...] = ("SECRET", 424242.0)
"""What no message may quote."""


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
    MemorySource: 9 promises checked, all kept; 2 not checked
    ok     source: ...
    """
    schemas = (schema,) if schema else (SOURCE_SCHEMA, CODED)
    on = _Source(source_factory, schemas, trials, seed, in_parts, retried, most_rows)
    name = getattr(source_factory, "__name__", type(source_factory).__name__)
    found = [
        examine("source", (keeps.__doc__ or "").rstrip("."), "made-up tables", partial(keeps, on))
        for promise, keeps in vars(_Source).items()
        if callable(keeps) and not promise.startswith("_")
    ]
    return Report(name, tuple(found)).checked()


@dataclass(frozen=True)
class _Source:
    """The tables that a source is checked on; each public method is a promise."""

    make: SourceFactory
    schemas: tuple[Schema, ...]
    trials: int
    seed: int
    in_parts: PartsFactory | None
    retried: SourceFactory | None
    most_rows: int

    @property
    def _schema(self) -> Schema:
        return self.schemas[0]

    @property
    def _cliques(self) -> list[Clique]:
        return _all_cliques(self.schemas[0])

    def _table(self, n: int, number: int = 0) -> Table:
        return made_up(self._schema, n, self.seed + number, holes=0.3)

    def protocol(self) -> None:
        """It has a schema and counts, as MarginalSource says."""
        source = self.make(self._table(3))
        expect(isinstance(source, MarginalSource), "it needs 'schema' and 'counts(cliques, rows=)'")
        expect(source.schema == self._schema, "'schema' must be the one of the rows")

    def exact(self) -> str:
        """Counts equal those by hand, on tables with holes, for any order of names."""
        for number in range(self.trials):
            n = (0, 1, 5, 20, 60)[number % 5] if number else 60
            table = self._table(n, number)
            _counted(self.make(table), table, f"on a table with holes, with {n} rows")
        return f"{self.trials} tables, {len(self._cliques)} cliques"

    def beside_counts(self) -> str:
        """Sums of weights, rows as codes and rows left out are those by hand, where it has them."""
        for number, n in enumerate((60, 0, 1)):
            table = self._table(n, number)
            source = self.make(table)
            for when in ("in blocks", "in blocks that are asked for again"):
                _beside(source, table, f"{when}, with {n} rows", self._cliques[:12])
        table = self._table(60)
        source, left_out = self.make(table), 0
        for number, (fewer, names) in enumerate(self._fewer(source)):
            when = "of rows observed on some attributes"
            _counted(fewer, table, when, modes=_either(number), observed_on=names)
            expect(_weighs(fewer) or not _weighs(source), f"weighted_counts is missing {when}")
            _beside(fewer, table, when, self._cliques[:12], names)
            left_out += 1
        told = {
            "weighted_counts": _weighs(source),
            "code_blocks": offers(source, "code_blocks"),
            "observed_on": left_out,
        }
        return f"it has {', '.join(name for name, has in told.items() if has) or 'none of it'}"

    def _fewer(self, source: Any) -> Iterator[tuple[Any, Sequence[str]]]:
        """Yield sources of the rows that are observed on some attributes, and these."""
        names = self._schema.nullable
        if offers(source, "observed_on"):
            yield source.observed_on(names[-1:]), names[-1:]
            yield source.observed_on(names[:1]).observed_on(names[1:2]), names[:2]
        if offers(source, "observed_on") or isinstance(source, MemorySource):
            yield complete_rows(source), names

    def cells(self) -> str:
        """Cells mean what the documentation says: blanks, codes, null and NaN, infinities."""
        when = "of cells written in several ways"
        for number in range(max(2, self.trials // 2)):
            for schema in self.schemas:
                if schema.rules:
                    return "not of rows with rules"
                table = spelled(unread(schema, 40, self.seed + number, holes=0.4), number)
                source = self.make(table)
                _counted(source, table, when, modes=_either(number))
                if number < 2:
                    _beside(source, table, when, ())
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
        for number, secret in enumerate(_SECRETS):
            table = _unfit(made_up(schema, 5 + 30 * number, self.seed + number), attribute, secret)
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

    def parts(self) -> None:
        """However rows are cut into parts, counts are the same."""
        if self.in_parts is None:
            raise Unchecked("give in_parts=, which makes a source of several tables")
        one_cell = self._table(1).take(np.zeros(50, dtype=np.int64))  # which has all rows
        cuts = (
            (self._table(40), [40]),
            (self._table(40), [20, 40]),
            (self._table(40), [1, 2, 9, 9, 20, 33, 40]),
            (self._table(5), [*range(6), *(5 for _ in range(6))]),
            (self._table(0), [0, 0, 0]),
            (one_cell, [47, 48, 49, 50]),
        )
        for number, (rows, ends) in enumerate(cuts):
            starts = [0, *ends[:-1]]
            tables = [rows.take(np.arange(s, e)) for s, e in zip(starts, ends, strict=True)]
            source, when = self.in_parts(tables), f"in {len(ends)} parts"
            _counted(source, rows, when, modes=_either(number))
            _beside(source, rows, when, self._cliques[:12] if number < 3 else ())

    def read_twice(self) -> None:
        """What has to be read again is counted once."""
        if self.retried is None:
            raise Unchecked("give retried=, which makes a source whose rows are read twice")
        for number in range(2):
            table = self._table(60, number)
            source, when = self.retried(table), "of rows that were read twice"
            _counted(source, table, when, modes=_either(number))
            _beside(source, table, when, self._cliques[:12] if number == 0 else ())

    def requests(self) -> None:
        """Cliques may repeat or be none, and answers written to, without changing the next."""
        table = self._table(30)
        source, pair = self.make(table), (self._schema.names[-1], self._schema.names[0])
        for rows in (*_MODES, *_MODES):
            expect(source.counts([], rows=rows) == {}, "no clique, no counts")
            for asked in ([pair, pair], iter([pair])):
                found = source.counts(asked, rows=rows)
                expect(list(found) == [pair], "a clique that repeats is returned once")
                wanted = _counted_by_hand(table, pair, rows)
                _alike(found[pair], wanted, "asked for again: hand out copies")
            if found[pair].flags.writeable:
                found[pair][...] = -1

    def many_rows(self) -> str:
        """With more rows than a block or page holds, every row is still counted, once."""
        cliques = [*(c for c in self._cliques if len(c) < 2), *self._cliques[-1:]]
        for n, number in ((min(4096, self.most_rows), 0), (self.most_rows, 1)):
            table = self._table(n, number)
            source, when = self.make(table), f"with {n} rows"
            _counted(source, table, when, modes=_MODES[1 - number :], cliques=cliques)
        _beside(source, table, when, cliques[-2:])
        for fewer, names in list(self._fewer(source))[-1:]:
            told = f"of complete rows, {when}"
            _counted(fewer, table, told, modes=_MODES[:1], cliques=cliques, observed_on=names)
            _beside(fewer, table, told, cliques[-2:], names)
        return f"up to {self.most_rows}"

    def refusals(self) -> None:
        """Bad requests are refused by typed errors."""
        source, name = self.make(self._table(5)), self._schema.names[0]
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
            for asked in ([("no such attribute",)], [(self._schema.names[0],) * 2]):
                with Caught() as caught:
                    source.counts(asked, rows="observed")
                words.append(caught.shown)
            said.append(words)
        expect(said[0] == said[1] == said[2], "repr or errors differ with the rows: leave them out")


def _either(number: int) -> Sequence[Rows]:
    """Return the modes in turns: engines take their time for each."""
    return _MODES[number % 2 :][:1]


# By hand


def _counted(
    source: MarginalSource,
    table: Table,
    when: str,
    *,
    modes: Sequence[Rows] = _MODES,
    cliques: Sequence[Clique] = (),
    observed_on: Sequence[str] = (),
) -> None:
    """Compare counts, if not told otherwise of all cliques, with those by hand."""
    cliques = list(cliques) or _all_cliques(table.schema)
    for rows in modes:
        found = source.counts(cliques, rows=rows)
        expect(list(found) == cliques, "return one entry per clique, in their order")
        for clique in cliques:
            wanted = _counted_by_hand(table, clique, rows, observed_on)
            _alike(found[clique], wanted, f"{when}, rows={rows!r}")


def _beside(
    source: Any,
    table: Table,
    when: str,
    cliques: Sequence[Clique],
    observed_on: Sequence[str] = (),
) -> None:
    """Compare sums of weights, and rows as codes, with those by hand, if there are any."""
    if _weighs(source) and cliques:
        weight = _made_up_weight(table.schema)
        found = source.weighted_counts(cliques, weight)
        for clique in cliques:
            wanted = _weighed_by_hand(table, clique, weight, observed_on)
            _alike(found[clique], wanted, f"sums of weights, {when}")
    if offers(source, "code_blocks"):
        rows = _rows_of_blocks(source, table.schema.names, when)
        wanted_rows = _occurrences(table, table.schema.names, observed_on)
        expect(rows == wanted_rows, f"rows of code_blocks are wrong: yield each once ({when})")


def _occurrences(
    table: Table, names: Sequence[str], observed_on: Sequence[str] = ()
) -> collections.Counter[tuple[int, ...]]:
    """Return how often each tuple of codes occurs in rows without a hole in some attributes."""
    columns = [table.codes(name).tolist() for name in names]
    cells = zip(*columns, strict=True) if columns else itertools.repeat((), len(table))
    return collections.Counter(itertools.compress(cells, _kept(table, observed_on)))


def _counted_by_hand(
    table: Table, clique: Clique, rows: Rows, observed_on: Sequence[str] = ()
) -> NDArray[np.int64]:
    """Return the counts of a clique, row by row, as the documentation of sources says."""
    schema = table.schema
    shape = schema.shape(clique) if rows == "observed" else schema.extended_shape(clique)
    counts = np.zeros(shape, dtype=np.int64)
    for cell, times in _occurrences(table, clique, observed_on).items():
        valued = all(code < schema[name].size for code, name in zip(cell, clique, strict=True))
        if valued or rows == "extended":
            counts[cell] = times
    return counts


def _weighed_by_hand(
    table: Table, clique: Clique, weight: RowWeight, observed_on: Sequence[str]
) -> NDArray[np.int64]:
    """Return the sums of the weights of rows without a hole in some attributes."""
    kept = np.array(_kept(table, observed_on), dtype=bool)
    each = weight({name: table.codes(name)[kept] for name in weight.names})
    wanted = np.zeros(table.schema.extended_shape(clique), dtype=np.int64)
    cells = tuple(table.codes(name)[kept].astype(np.int64) for name in clique)
    np.add.at(wanted, cells, each if clique else each.sum())
    return wanted


def _kept(table: Table, observed_on: Sequence[str]) -> list[bool]:
    """Whether each row has no hole; what is not applicable has no value, and is no hole."""
    kept = [True] * len(table)
    for name in observed_on:
        attribute = table.schema[name]
        hole = attribute.missing_code if attribute.nullable else attribute.extended_size
        codes = table.codes(name).tolist()
        kept = [k and c < hole for k, c in zip(kept, codes, strict=True)]
    return kept


def _alike(found: Any, wanted: NDArray[np.int64], when: str) -> None:
    """Expect counts to be those wanted, in type and shape, too."""
    found = np.asarray(found)
    expect(found.dtype == np.int64, f"counts must be int64, not {found.dtype} ({when})")
    expect(found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape} ({when})")
    expect(np.array_equal(found, wanted), f"counts are wrong ({when})")


def _weighs(source: object) -> bool:
    """Whether a source counts rows by weights."""
    return callable(getattr(type(source), "weighted_counts", None))


def _rows_of_blocks(source: Any, names: Sequence[str], when: str) -> collections.Counter[Any]:
    """Return how often each row comes in the blocks of codes."""
    found = collections.Counter[tuple[int, ...]]()
    for block in source.code_blocks():
        expect(set(names) <= set(block), f"a block lacks codes of an attribute ({when})")
        columns = [np.asarray(block[name]) for name in names]
        expect(len({c.shape for c in columns}) == 1, f"columns of a block are not as long ({when})")
        expect(all(c.dtype.kind in "iu" for c in columns), f"codes must be whole numbers ({when})")
        found.update(zip(*(column.tolist() for column in columns), strict=True))
    return found


def _made_up_weight(schema: Schema) -> RowWeight:
    """Return weights of rows that differ with every cell."""
    rng = np.random.default_rng(0)
    squares = {a.name: rng.integers(0, 1000, a.extended_size) for a in schema}
    return RowWeight(squares, alone=3, bound=20_000, most=1000)


def _all_cliques(schema: Schema) -> list[Clique]:
    """Return all cliques of up to three attributes, and those of several turned around."""
    sizes = range(min(3, len(schema)) + 1)
    found: list[Clique] = [c for k in sizes for c in itertools.combinations(schema.names, k)]
    return found + [tuple(reversed(clique)) for clique in found if len(clique) > 1]


# Written as files write


class _AsWritten(Table):
    """A made-up table whose cells leave it as some file might hold them.

    ``to_arrow()`` and ``to_native()`` give the cells; ``were_read`` tells whether anyone asked.
    """

    cells: pa.Table
    were_read = False

    @classmethod
    def of(cls, table: Table, cells: pa.Table) -> _AsWritten:
        """Return a table with cells of its own."""
        found = cls(table.schema, {name: table.column(name) for name in table.schema.names})
        found.cells = cells
        return found

    def to_arrow(self, *, holes: Holes = "nulls") -> pa.Table:
        """Return the cells; kinds of missing are in their codes anyway."""
        del holes
        self.were_read = True
        return self.cells

    def to_native(self, kind: FrameKind | None = None, *, holes: Holes = "nulls") -> Any:
        """Return the cells as a frame."""
        return native_from_arrow(self.to_arrow(holes=holes), kind or self.kind)

    def take(self, rows: Any) -> _AsWritten:
        """Return the rows chosen by an index."""
        places = np.asarray(rows)
        places = np.flatnonzero(places) if places.dtype == bool else places
        return _AsWritten.of(super().take(places), self.cells.take(pa.array(places)))


def spelled(table: Table, seed: int = 0) -> _AsWritten:
    """Return a table with its cells written in every way that means the same.

    A kind of missing that has no code cannot be written: it is plainly missing in what comes back.

    Parameters
    ----------
    table : Table
        Made up, with values of its numbers, and without rules.
    seed : int, default 0

    Examples
    --------
    >>> from missdp.testing import made_up
    >>> spelled(made_up(CODED, 4), seed=1).to_arrow()["ja"].type
    DataType(bool)
    """
    rng = np.random.default_rng(seed)
    table, arrays = _writable(table), []
    for attribute in table.schema:
        codes = table.codes(attribute.name).tolist()
        numeric = isinstance(attribute, Numeric)
        values = table.values(attribute.name).tolist() if numeric else codes
        kind = _type_of(attribute, seed)
        cells = [_cell(attribute, *pair, kind, rng) for pair in zip(codes, values, strict=True)]
        arrays.append(pa.array(cells, kind, from_pandas=False))
    return _AsWritten.of(table, pa.table(arrays, names=list(table.schema.names)))


def _writable(table: Table) -> Table:
    columns = {}
    for attribute in table.schema:
        column = table.column(attribute.name)
        codes = column.codes.copy()
        for place, kind in enumerate(attribute.kinds):
            if kind != "missing" and attribute.nullable and not attribute.codes_of(kind):
                codes[codes == attribute.size + place] = attribute.missing_code
        columns[attribute.name] = Column(codes, column.values)
    return Table(table.schema, columns, kind=table.kind)


def _unfit(table: Table, attribute: AnyAttribute, secret: Cell) -> _AsWritten:
    """Return the table with a cell that does not fit as the last of a column."""
    cells = table.to_arrow(holes="codes")
    place = table.schema.names.index(attribute.name)
    old = cells.column(place)
    number = pa.types.is_integer(old.type) or pa.types.is_floating(old.type)
    if isinstance(secret, str) or not number:
        wanted = [None if c is None else str(c) for c in old.to_pylist()]
        new = pa.array([*wanted[:-1], None if secret is None else str(secret)], pa.string())
    else:
        new = pa.array([*old.to_pylist()[:-1], secret], pa.float64())
    return _AsWritten.of(table, cells.set_column(place, attribute.name, new))


def _type_of(attribute: AnyAttribute, seed: int) -> pa.DataType:
    """Return a type in which everything that is declared can be written."""
    codes = [code for kind in attribute.kinds for code in attribute.codes_of(kind)]
    if any(isinstance(code, str) for code in codes):
        return pa.string()
    if isinstance(attribute, Numeric):
        return pa.float64() if seed % 3 else pa.string()
    if isinstance(attribute.levels[0], str) or seed % 3 == 0:
        return pa.string()
    if isinstance(attribute.levels[0], bool):
        return pa.string() if codes else pa.bool_()
    return pa.int64() if seed % 3 == 1 else pa.float64()


def _cell(
    attribute: AnyAttribute, code: int, value: float, kind: pa.DataType, rng: np.random.Generator
) -> Cell:
    """Return one of the ways to write a cell."""
    if code >= attribute.size:
        ways: list[Cell] = list(_without_value(attribute, code, kind))
    elif isinstance(attribute, Numeric):
        ways = list(_numbers(attribute, code, value))
    else:
        ways = [attribute.levels[code]]
    cell = ways[int(rng.integers(len(ways)))]
    return _as(kind, cell, rng)


def _without_value(attribute: AnyAttribute, code: int, kind: pa.DataType) -> Iterator[Cell]:
    """Yield what stands for a kind of missing."""
    name = attribute.kinds[code - attribute.size]
    yield from attribute.codes_of(name)
    null = "missing" if attribute.nullable else "not_applicable"
    if name != null:
        return
    yield None
    if pa.types.is_string(kind):
        yield from ("", "  ")
    if pa.types.is_floating(kind):
        yield float("nan")
    if name == "missing" and attribute.outside == "missing" and isinstance(attribute, Numeric):
        yield from (attribute.upper + 0.5, attribute.lower - 0.5, float("inf"), float("-inf"))


def _numbers(attribute: Numeric, code: int, value: float) -> Iterator[Cell]:
    """Yield numbers that are read as a value of a bin."""
    yield value
    if attribute.outside == "clamp" and not attribute.spikes:
        if code == 0:
            yield from (attribute.lower - 5.0, float("-inf"))
        if code == attribute.size - 1:
            yield from (attribute.upper + 5.0, float("inf"))


_TEXTS: dict[type, tuple[Callable[[Any], str], ...]] = {
    bool: (str, lambda cell: str(cell).lower(), lambda cell: str(cell).upper()),
    int: (str, lambda cell: f"{cell}.0", lambda cell: f"+{cell}" if cell >= 0 else str(cell)),
    float: (repr, lambda cell: f"{cell:.17g}"),
    str: (str,),
}


def _as(kind: pa.DataType, cell: Cell, rng: np.random.Generator) -> Cell:
    """Return a cell in the type of its column; text with blanks around it now and then."""
    if cell is None or not pa.types.is_string(kind):
        return float(cell) if cell is not None and pa.types.is_floating(kind) else cell
    ways = _TEXTS[type(cell)]
    text = ways[int(rng.integers(len(ways)))](cell)
    return f" {text}\t" if rng.random() < 0.2 else text
