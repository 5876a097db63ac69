"""Subjects of checks: families and sources, on made-up tables.

The checks of a source are here, too: they need no more than such tables.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError, SchemaError
from missdp.schema import Categorical, Numeric, Ordinal, Schema
from missdp.sources import Clique, MarginalSource, Rows
from missdp.sources.row_weights import RowWeight
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.findings import Caught, Report, examine, expect, refuses
from missdp.testing.made_up import SCHEMA, constant, has_kinds_or_rules, made_up, neighbours

__all__ = [
    "SOURCE_SCHEMA",
    "Run",
    "Subject",
    "check_source",
    "counted_by_hand",
    "is_run",
    "name_of",
    "subjects",
]


Run = Callable[[Any, Any], Any]
"""Whatever answers through a door: ``run(witness, table)``."""


@dataclass(frozen=True)
class Subject:
    """A family with one strategy.

    Parameters
    ----------
    family : type of Synthesizer
    strategy : str
    parameters : mapping
        Further parameters of the family.
    schema : Schema
        Of the tables that are made up for it.
    """

    family: type[Synthesizer]
    strategy: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema = SCHEMA

    @property
    def case(self) -> str:
        """What findings call it."""
        return f"{self.strategy}, with rules" if self.has_rules else self.strategy

    @property
    def has_rules(self) -> bool:
        """Whether its tables have several kinds of missing, or rules."""
        return has_kinds_or_rules(self.schema)

    @property
    def delta(self) -> float:
        """The delta that the family is run with."""
        return self.build()._delta

    @property
    def epsilon(self) -> float:
        """The epsilon that the family is run with."""
        return float(self.parameters.get("epsilon", 1.0))

    def build(self, **more: Any) -> Synthesizer:
        """Return an unfitted model; seeded, unless told otherwise."""
        given = {"epsilon": self.epsilon, "missing": self.strategy, "random_state": 0}
        return self.family(**{**given, **self.parameters, **more})

    def table(self, n: int = 300, seed: int = 0) -> Table:
        """Return a made-up table."""
        return made_up(self.schema, n, seed)

    def frame(self, n: int = 300, seed: int = 0) -> Any:
        """Return a made-up pandas frame."""
        return self.table(n, seed).to_native("pandas")

    def constant(self, n: int, *, missing: bool = False) -> Table:
        """Return a made-up table of equal rows."""
        return constant(self.schema, n, missing=missing)

    def with_parameters(self, **more: Any) -> Subject:
        """Return the subject with other parameters."""
        return replace(self, parameters={**self.parameters, **more})


def is_run(subject: Any, **more: Any) -> bool:
    """Whether the subject is a function of a witness and a table; such take none of the options."""
    if isinstance(subject, type) or not callable(subject) or isinstance(subject, Synthesizer):
        return False
    given = [name for name, value in more.items() if value is not None]
    if given:
        raise ParameterError(f"{', '.join(given)} are for families: a function takes no such thing")
    return True


def name_of(run: Run) -> str:
    """Return a public name for a function."""
    return str(getattr(run, "__name__", type(run).__name__))


def subjects(
    family: type[Synthesizer],
    parameters: Mapping[str, Any] | None,
    strategies: Iterable[str] | None,
    schema: Schema | None = None,
) -> Iterator[Subject]:
    """Yield the family with each of its strategies, or with those that are named."""
    if not (isinstance(family, type) and issubclass(family, Synthesizer)):
        raise ParameterError(
            "a family is a class that inherits from missdp.synth.Synthesizer; for anything else "
            "give the check a function, run(witness, table)"
        )
    named = tuple(family.strategies if strategies is None else strategies)
    if not named or not set(named) <= set(family.strategies):
        raise ParameterError(f"strategies must be some of {list(family.strategies)}")
    for strategy in named:
        yield Subject(family, strategy, dict(parameters or {}), schema or SCHEMA)


SourceFactory: TypeAlias = Callable[[Table], MarginalSource]
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
_MODES: tuple[Rows, Rows] = ("observed", "extended")


def check_source(
    source_factory: SourceFactory, *, schema: Schema | None = None, trials: int = 12, seed: int = 0
) -> Report:
    """Run every check on a source of counts.

    Parameters
    ----------
    source_factory : callable
        Returns the source of a table that is made up. A table offers ``to_arrow()`` and
        ``to_native()``, to write its rows wherever the source reads them.
    schema : Schema, optional
        Of the tables that are made up.
    trials : int, default 12
        Tables to compare with counts by hand.
    seed : int, default 0

    Returns
    -------
    Report

    Raises
    ------
    CheckFailedError
        If any promise is not kept: it lists all of them, and what to do.

    Examples
    --------
    >>> from missdp.sources import MemorySource
    >>> from missdp.testing import check_source
    >>> print(check_source(MemorySource, trials=2))
    MemorySource: 10 promises checked, all kept
    ok     source: ...
    """
    on = _Source(source_factory, schema or SOURCE_SCHEMA, trials, seed)
    name = getattr(source_factory, "__name__", type(source_factory).__name__)
    found = [
        examine("source", (keeps.__doc__ or "").rstrip("."), "made-up tables", partial(keeps, on))
        for promise, keeps in vars(_Source).items()
        if not promise.startswith("_")
    ]
    return Report(name, tuple(found)).checked()


def counted_by_hand(table: Table, clique: Clique, rows: Rows) -> NDArray[np.int64]:
    """Return the counts of a clique, row by row, as the documentation of sources says.

    Examples
    --------
    >>> table = Table.from_codes(SOURCE_SCHEMA.subset(["yes"]), {"yes": [0, 1, 2, 1]})
    >>> [counted_by_hand(table, ("yes",), rows).tolist() for rows in ("observed", "extended")]
    [[1, 2], [1, 2, 1]]
    """
    schema = table.schema
    shape = schema.shape(clique) if rows == "observed" else schema.extended_shape(clique)
    counts = np.zeros(shape, dtype=np.int64)
    columns = [table.codes(name).tolist() for name in clique]
    for i in range(len(table)):
        cell = tuple(column[i] for column in columns)
        holes = any(c == schema[n].missing_code for n, c in zip(clique, cell, strict=True))
        if not (holes and rows == "observed"):
            counts[cell] += 1
    return counts


class _Source:
    """The tables that a source is checked on; each public method is a promise."""

    def __init__(self, make: SourceFactory, schema: Schema, trials: int, seed: int) -> None:
        self.make, self.schema, self.trials, self.seed = make, schema, trials, seed
        names = schema.names
        self.cliques: list[Clique] = [
            c for k in range(min(3, len(names)) + 1) for c in itertools.combinations(names, k)
        ]
        self.cliques += [tuple(reversed(c)) for c in self.cliques if len(c) > 1]

    def _table(self, n: int, number: int = 0) -> Table:
        return made_up(self.schema, n, self.seed + number, holes=0.3)

    def _compared(self, source: MarginalSource, table: Table, when: str) -> None:
        """Compare all counts with those by hand."""
        for rows in _MODES:
            found = source.counts(self.cliques, rows=rows)
            expect(list(found) == self.cliques, "return one entry per clique, in their order")
            for clique in self.cliques:
                _alike(
                    found[clique], counted_by_hand(table, clique, rows), f"{when}, rows={rows!r}"
                )

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

    def sizes(self) -> None:
        """An empty table counts zero, and one row counts one."""
        for n in (0, 1):
            self._compared(self.make(self._table(n)), self._table(n), f"with {n} rows")

    def requests(self) -> None:
        """Cliques may repeat, come from a generator, be few or none."""
        table = self._table(30)
        source, pair = self.make(table), (self.schema.names[-1], self.schema.names[0])
        for rows in _MODES:
            expect(source.counts([], rows=rows) == {}, "no clique, no counts")
            for asked in ([pair, pair], iter([pair])):
                found = source.counts(asked, rows=rows)
                expect(list(found) == [pair], "a clique that repeats is returned once")
                _alike(found[pair], counted_by_hand(table, pair, rows), f"rows={rows!r}")
            _alike(source.counts([()], rows=rows)[()], np.array(30), "for the empty clique")

    def repeats(self) -> None:
        """The same request gets the same counts, whatever was done with the last ones."""
        table = self._table(30)
        source = self.make(table)
        for _ in range(2):
            for rows in _MODES:
                for clique in self.cliques[:4]:
                    found = source.counts([clique], rows=rows)[clique]
                    wanted = counted_by_hand(table, clique, rows)
                    _alike(found, wanted, "asked for again: hand out copies")
                    if found.flags.writeable:
                        found[...] = -1

    def order_and_merging(self) -> None:
        """The order of rows does not matter, and counts of parts of a table add up."""
        table = self._table(40)
        order = np.random.default_rng(self.seed).permutation(40)
        whole, mixed, first, last = (
            self.make(table.take(rows)) for rows in (np.arange(40), order, order[:13], order[13:])
        )
        for rows in _MODES:
            wanted = whole.counts(self.cliques, rows=rows)
            parts = [part.counts(self.cliques, rows=rows) for part in (first, last)]
            again = mixed.counts(self.cliques, rows=rows)
            for clique in self.cliques:
                _alike(again[clique], wanted[clique], "with the rows in another order")
                _alike(parts[0][clique] + parts[1][clique], wanted[clique], "of two parts, added")

    def one_row(self) -> None:
        """A row more adds one to one cell of each clique, or to none if it has a hole there."""
        for table, more, row in neighbours(self.schema, self.trials, self.seed):
            without, with_row = self.make(table), self.make(more)
            for rows in _MODES:
                before = without.counts(self.cliques, rows=rows)
                after = with_row.counts(self.cliques, rows=rows)
                for clique in self.cliques:
                    hole = any(row[n][0] == self.schema[n].missing_code for n in clique)
                    change = np.asarray(after[clique]) - np.asarray(before[clique])
                    added = 0 if hole and rows == "observed" else 1
                    expect(
                        change.min(initial=0) >= 0 and int(change.sum()) == added,
                        f"one row changed counts of {len(clique)} attributes by more than one",
                    )

    def weights(self) -> str:
        """Where rows are counted by weight, the sums of weights equal those by hand."""
        tables = [self._table(n, number) for number, n in enumerate((0, 1, 7, 60, 700))]
        for table in tables:
            source = self.make(table)
            if not callable(getattr(type(source), "weighted_counts", None)):
                return "it has no weighted_counts"
            weight, cliques = self._weight(), self.cliques[:12]
            found = source.weighted_counts(cliques, weight)  # type: ignore[attr-defined]
            each = weight({name: table.codes(name) for name in weight.names})
            for clique in cliques:
                wanted = np.zeros(self.schema.extended_shape(clique), dtype=np.int64)
                cells = tuple(table.codes(name).astype(np.int64) for name in clique)
                np.add.at(wanted, cells, each if clique else each.sum())
                _alike(found[clique], wanted, "counted by weight")
        return f"{len(tables)} tables"

    def _weight(self) -> RowWeight:
        rng = np.random.default_rng(self.seed)
        squares = {a.name: rng.integers(0, 1000, a.extended_size) for a in self.schema}
        return RowWeight(squares, alone=3, bound=20_000, most=1000)

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


def _alike(found: Any, wanted: NDArray[np.int64], when: str) -> None:
    found = np.asarray(found)
    expect(found.dtype == np.int64, f"counts must be int64, not {found.dtype} ({when})")
    expect(found.shape == wanted.shape, f"shape {found.shape}, expected {wanted.shape} ({when})")
    expect(np.array_equal(found, wanted), f"counts are wrong ({when})")
