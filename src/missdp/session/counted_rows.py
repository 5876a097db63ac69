"""Rows of codes, of which combinations are counted: one of the three kinds of private rows.

Synthesizers measure these rows. A row may be coded in another way, or its levels merged. Each such
change is one of the frozen types below. Missing cells are filled by a registered row function,
which the row kernel applies (`missdp.session.row_kernel`). Neighbouring tables stay neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import (
    Condition,
    CountedOutsideTheKernel,
    DeclaredRowCount,
    RowFunctionsTested,
)
from missdp.accounting.events import Adjacency
from missdp.errors import ParameterError
from missdp.schema import Schema
from missdp.schema.layout import STEPS
from missdp.schema.modelled import ModelView
from missdp.session.counted_queries import CountQuery, Marginal, Tree
from missdp.session.counting import (
    Clique,
    MarginalSource,
    check_counts,
    is_weighed,
    outside_engine,
)
from missdp.session.dependences import Dependences
from missdp.session.exact_counts import ExactCounts, MergedCounts, PrivateCounts
from missdp.session.filled_rows import fill_rows
from missdp.session.held_rows import HeldSource
from missdp.session.modelled_rows import modelled_source
from missdp.session.observed_rows import complete_rows
from missdp.session.products import RowProducts
from missdp.session.row_kernel import check_registered
from missdp.session.scores import Misfits
from missdp.session.session import Release
from missdp.session.strategies import Strategy
from missdp.session.total_queries import MissingKinds, RowCount, UnitSums
from missdp.types import Ints

Rng: TypeAlias = Callable[[], np.random.Generator]
QUERIES = (RowCount, UnitSums, MissingKinds, Marginal, Tree, Misfits, Dependences, RowProducts)
"""The types of queries that are proven for counted rows. Subclasses are not proven."""


@dataclass(frozen=True)
class CountedFacts:
    """Public facts about the private rows of which a session counts combinations of values.

    `Session.facts` returns them. A cell of the rows is a code: the number of its level or bin.

    Attributes
    ----------
    schema : Schema
        Schema of the counted columns, without rules and derived attributes
        (`missdp.schema.modelled`).
    strategy : Strategy
        Strategy for rows with missing cells: which rows are counted, and how missing cells are
        treated.
    modelled : ModelView
        Relation of ``schema`` to the declared schema.
    sizes : dict of str to int
        Number of codes of each attribute in the counts, including "missing" if it is a level.
    steps : int
        Number of parts into which one row is divided in exact counts: 1, unless rows have survey
        weights.
    declared_rows : int or None
        Number of rows, if it was declared public.
    has_fine_codes : bool
        Whether the change `FineCodes` is available.

    Examples
    --------
    >>> from missdp.datasets import yrbss
    >>> from missdp.session import CountedRows
    >>> from missdp.sources import MemorySource, strategy_named
    >>> rows = CountedRows.from_source(MemorySource(yrbss().table()), strategy_named("joint"))
    >>> rows.facts.shape(("gender", "grade"))
    (3, 6)
    """

    schema: Schema
    strategy: Strategy
    modelled: ModelView
    sizes: dict[str, int]
    steps: int
    declared_rows: int | None
    has_fine_codes: bool = False

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Return the shape of the table of counts over some attributes.

        Parameters
        ----------
        clique : tuple of str
            Names of the attributes.

        Returns
        -------
        tuple of int
            Number of codes of each attribute, in the order of ``clique``. If the strategy counts
            missing cells, missing is one more code of a nullable attribute. Public.

        Raises
        ------
        KeyError
            If the schema declares no such attribute.
        """
        return tuple(self.sizes[name] for name in clique)

    def sums_to_row_count(self, clique: Clique) -> bool:
        """Return whether the counts over some attributes add up to the number of all rows.

        This fails if rows are counted only where these attributes are observed.

        Parameters
        ----------
        clique : tuple of str
            Names of the attributes.

        Returns
        -------
        bool
            True if every row is counted, with or without missing cells. Public: it follows from
            schema and strategy.
        """
        return self.strategy.implies_total(clique, self.schema)

    @property
    def same_total(self) -> bool:
        """Return whether the tables of counts over any attributes add up to one common total.

        If not, each table counts the rows in which its attributes are observed.

        Returns
        -------
        bool
            True if all tables of counts have an equal total. Public: it follows from schema and
            strategy.
        """
        return self.strategy.every_row_counts(self.schema)


@dataclass(frozen=True, eq=False)
class LevelMerge:
    """Change of private rows that merges levels of attributes into groups.

    Pass it to `Session.apply`. The groups are public or released. A row has the group of its level
    as its new code. "Missing" remains a code of its own.

    Parameters
    ----------
    groups : mapping of str to ndarray of int64, shape (n_levels,)
        For each attribute the group of each level, from 0 to the number of groups less 1. The
        arrays are copied when the change is applied.

    Notes
    -----
    Each row is changed by itself, so neighbouring tables stay neighbours and the change costs
    nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import LevelMerge
    >>> change = LevelMerge({"grade": np.array([0, 0, 1, 1])})  # four grades in two groups
    >>> change.groups["grade"].tolist()
    [0, 0, 1, 1]
    """

    groups: Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class Recoding:
    """Change of private rows that codes them by another schema, which has other bins.

    Pass it to `Session.apply`. The new bins are public or released.

    Parameters
    ----------
    schema : Schema
        The same attributes, some of them with other bins.
    cells : mapping of str to ndarray of int64, shape (n_old_codes,)
        For each attribute whose codes differ, the new code of each old code. Attributes that were
        counted singly before need not be counted again.
    fine_schema : Schema, optional
        A schema with narrower bins, for a later change `FineCodes`.

    Notes
    -----
    Each row is changed by itself, so neighbouring tables stay neighbours and the change costs
    nothing.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.session import Recoding
    >>> from missdp.schema import Numeric, Schema
    >>> schema = Schema((Numeric(name="age", lower=0, upper=100, bins=2),))
    >>> change = Recoding(schema, {"age": np.array([0, 0, 1, 1])})  # four bins before
    >>> change.cells["age"].tolist()
    [0, 0, 1, 1]
    """

    schema: Schema
    cells: Mapping[str, Ints]
    fine_schema: Schema | None = None


@dataclass(frozen=True)
class FineCodes:
    """Change of private rows that codes them by the narrower bins of an earlier `Recoding`.

    Pass it to `Session.apply`. It needs a `Recoding` with a ``fine_schema``.

    Notes
    -----
    Each row is changed by itself, so neighbouring tables stay neighbours and the change costs
    nothing.

    Examples
    --------
    >>> from missdp.session import CountedRows, FineCodes, Recoding
    >>> from missdp.datasets import yrbss
    >>> from missdp.sources import MemorySource, strategy_named
    >>> rows = CountedRows.from_source(MemorySource(yrbss().table()), strategy_named("joint"))
    >>> coded = rows.changed(Recoding(rows.facts.schema, {}, fine_schema=rows.facts.schema), None)
    >>> rows.facts.has_fine_codes, coded.facts.has_fine_codes
    (False, True)
    >>> coded.changed(FineCodes(), None).facts.has_fine_codes
    False
    """


@dataclass(frozen=True, eq=False, repr=False)
class CountedRows:
    """Private rows of which a session counts combinations of values, with public facts about them.

    Synthesizers measure these rows. Make them with `CountedRows.from_source` and pass them to a
    `Session`, which charges a budget before anything is counted. Sensitivities are proven under
    add-remove adjacency.

    Parameters
    ----------
    facts : CountedFacts
        Schema, strategy for missing cells, and shapes of counts. Public.
    raw : MarginalSource
        The raw rows. Private.
    source : MarginalSource
        The modelled columns of the rows. Private.
    counts : PrivateCounts
        Exact counts. Private.
    unit_sums : ndarray of int64, shape (2,), optional
        The exact answer of the query `UnitSums`. Private.
    fine : CountedRows, optional
        The rows with narrower bins, for the change `FineCodes`. Private.
    scores : dict, default {}
        Exact scores that were computed before, by type of query. Private.
    counted_kinds : dict, default {}
        Exact counts of missing cells by kind that were computed before, by clique. Private.

    Notes
    -----
    The object releases nothing. It holds exact values, so it must not be published.

    Examples
    --------
    >>> from missdp.session import CountedRows
    >>> from missdp.datasets import yrbss
    >>> from missdp.sources import MemorySource, strategy_named
    >>> rows = CountedRows.from_source(MemorySource(yrbss().table()), strategy_named("joint"))
    >>> rows.adjacency
    'add-remove'
    """

    facts: CountedFacts
    raw: MarginalSource
    source: MarginalSource
    counts: PrivateCounts
    unit_sums: Ints | None = None
    fine: CountedRows | None = None
    adjacency: ClassVar[Adjacency] = "add-remove"
    # Computed scores, each with the expectation that it compares with.
    scores: dict[type, dict[Clique, tuple[Any, float]]] = field(default_factory=dict)
    counted_kinds: dict[Clique, Ints] = field(default_factory=dict)

    @classmethod
    def from_source(
        cls,
        source: MarginalSource,
        strategy: Strategy,
        *,
        declared_rows: int | None = None,
        unit_sums: Ints | None = None,
    ) -> CountedRows:
        """Return the private rows of a source, to be counted by a strategy for missing cells.

        Parameters
        ----------
        source : MarginalSource
            The private rows. The codes of one row must depend on that row and public facts alone.
        strategy : Strategy
            Strategy for rows with missing cells.
        declared_rows : int, optional
            Number of rows, at least 0, if it was declared public.
        unit_sums : ndarray of int64, shape (2,), optional
            The exact answer of `UnitSums`, if the source identifies units. Private.

        Returns
        -------
        CountedRows
            Private rows for a `Session`. Nothing is read before the first count.

        Raises
        ------
        ParameterError
            If the strategy needs rows that the source does not offer.
        SchemaError
            If the schema declares units of several rows.
        """
        strategy.check(source)
        source.schema.refuse_units("a session that is opened by hand")
        modelled = ModelView(source.schema)
        raw = source
        if not modelled.is_identity:
            source = modelled_source(source, modelled)
        names = source.schema.names
        sizes = dict(zip(names, strategy.shape(names, source.schema), strict=True))
        steps = STEPS if is_weighed(raw) else 1
        facts = CountedFacts(source.schema, strategy, modelled, sizes, steps, declared_rows)
        opened = (lambda: complete_rows(source)) if strategy.complete_only else (lambda: source)
        counts = ExactCounts(opened, source.schema, strategy, weighed=is_weighed(raw))
        return cls(facts, raw, source, counts, unit_sums)

    @property
    def ledger(self) -> str:
        """Return the name of the ledger budget that must pay for the private rows.

        Returns
        -------
        str
            The name that the schema states, empty if there is none. Public.
        """
        return self.raw.schema.ledger

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of the guarantee of every answer about the private rows.

        Returns
        -------
        tuple of Condition
            `RowFunctionsTested`, and further conditions for other engines and a declared row count.
            Public.
        """
        engine, rows = outside_engine(self.raw), self.facts.declared_rows
        outside = (CountedOutsideTheKernel(engine),) if engine else ()
        declared = () if rows is None else (DeclaredRowCount(n=rows),)
        return (RowFunctionsTested(), *outside, *declared)

    # Queries

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return the plan of the release that answers a query: the event to charge, and the noise.

        Parameters
        ----------
        query : object
            A `RowCount`, `UnitSums`, `MissingKinds`, `Marginal`, `Tree`, `Misfits`, `Dependences`
            or `RowProducts`.
        mechanism : Noise, Selection or Cost
            The mechanism, of the type that the query takes, or the cost to spend on noise.

        Returns
        -------
        Release
            The accounting event, the noise and the exact computation. Public facts alone
            decide. Nothing is read or charged.

        Raises
        ------
        ParameterError
            If the query is of another type (subclasses included), or the rows cannot answer it.
        UnprovenError
            If a `Selection` states a smaller sensitivity than the scores have.
        """
        if type(query) not in QUERIES:  # a subclass could state another sensitivity
            types = ", ".join(kind.__name__ for kind in QUERIES)
            raise ParameterError(f"counted rows answer queries of the types {types}")
        count_query: CountQuery = query
        return count_query.plan(self, mechanism)

    def expect(self, queries: Iterable[Any]) -> None:
        """Note the queries that may follow, so that few passes over the rows answer all of them.

        Nothing is read.

        Parameters
        ----------
        queries : iterable
            The queries. Only `Marginal` queries matter.
        """
        self.counts.expect(query.clique for query in queries if type(query) is Marginal)

    def codes_for_training(self) -> Callable[[], dict[str, NDArray[Any]]]:
        """Return a function that reads the codes of the private rows for a network training.

        Returns
        -------
        callable
            Function without parameters. It returns a dictionary from each attribute to an array of
            codes, one for each counted row. Private: a session calls it after the charge.

        Raises
        ------
        ParameterError
            If the rows are streamed, or have survey weights. Nothing is read.
        """
        if not isinstance(self.source, HeldSource):
            raise ParameterError(
                "training needs the rows in memory, and these are streamed; read them with "
                "Table.read"
            )
        if self.facts.steps > 1:
            raise ParameterError("training is not proven where rows count different amounts")
        return self.counts.codes

    def refuse_unknown(self, clique: Iterable[str]) -> None:
        """Raise an error for names that are not attributes of the schema.

        Public facts alone decide. No row is read.

        Parameters
        ----------
        clique : iterable of str
            The names.

        Raises
        ------
        ParameterError
            If the schema lacks a name. The message quotes the name.
        """
        if unknown := {*clique} - {*self.facts.schema.names}:
            raise ParameterError(f"there is no attribute {min(unknown)!r}")

    def required(self, clique: Clique | None) -> frozenset[str]:
        """Return the attributes that a row must have observed (not missing) to enter some counts.

        Parameters
        ----------
        clique : tuple of str or None
            Names of the counted attributes. None: every row is read.

        Returns
        -------
        frozenset of str
            Names of attributes. Attributes whose values rules may fill are not included.
            Public.
        """
        if clique is None:
            return frozenset()
        facts = self.facts
        return facts.strategy.required(clique, facts.schema) - facts.modelled.rule_filled

    @property
    def codes_of_rows(self) -> dict[str, int]:
        """Return the number of possible codes of each attribute of the private rows.

        Returns
        -------
        dict of str to int
            Levels or bins, and one more for missing if rows with missing cells are counted. Public.
        """
        facts = self.facts
        missing = not facts.strategy.complete_only and not facts.strategy.models_missingness
        return {a.name: facts.sizes[a.name] + (a.nullable and missing) for a in facts.schema}

    # Private computations of queries

    def counts_of(self, clique: Clique) -> Ints:
        """Return the exact number of private rows with each combination of some attributes' codes.

        Only queries call it, after the charge of a session.

        Parameters
        ----------
        clique : tuple of str
            Names of the attributes.

        Returns
        -------
        ndarray of int64, shape ``facts.shape(clique)``
            Counts in units of ``1 / facts.steps`` rows
            (1 row, unless rows have survey weights). Private.

        Raises
        ------
        DataError
            If the rows cannot be read, or do not fit the schema.
        """
        return next(self.count([clique]))[1]

    def count(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Ints]]:
        """Yield the exact counts over several sets of attributes, in few passes over the rows.

        Only queries call it, after the charge of a session.

        Parameters
        ----------
        cliques : iterable of tuple of str
            Names of the attributes of each set.

        Yields
        ------
        clique : tuple of str
            Names of the attributes.
        counts : ndarray of int64, shape ``facts.shape(clique)``
            Counts in units of ``1 / facts.steps`` rows.
            Private.

        Raises
        ------
        DataError
            If the rows cannot be read, or do not fit the schema.
        """
        for clique, counts in self.counts.count(cliques):
            yield clique, check_counts(counts, self.facts.shape(clique))

    def in_rows(self, counts: Ints) -> NDArray[Any]:
        """Return exact counts in units of rows, also if rows have survey weights.

        Survey weights are stored as whole parts of a row, of which ``facts.steps`` make one row.

        Parameters
        ----------
        counts : ndarray of int64, of any shape
            Counts in units of ``1 / facts.steps`` rows. Private.

        Returns
        -------
        ndarray of int64 or float64, in the shape of the input
            The counts divided by ``facts.steps``: int64 without weights,
            otherwise float64. Private.
        """
        return counts if self.facts.steps == 1 else counts / self.facts.steps

    def kinds(self, name: str) -> Ints:
        """Return the exact number of missing cells of an attribute for each kind of missing value.

        Kinds are "missing", and "refused", "unknown" and "not_asked" where they are declared. Only
        queries call it, after the charge of a session.

        Parameters
        ----------
        name : str
            Name of the attribute.

        Returns
        -------
        ndarray of int64, shape (n_kinds,)
            Number of missing cells of each kind, in units of ``1 / facts.steps`` rows. Plainly
            missing cells come first. Private.

        Raises
        ------
        DataError
            If the rows cannot be read, or do not fit the schema.
        """
        modelled, full = self.facts.modelled, self.facts.modelled.full_schema
        if (name,) not in self.counted_kinds:  # all in one pass
            cliques = dict.fromkeys([(name,), *((other,) for other in modelled.kinds)])
            self.counted_kinds.update(self.raw.counts(cliques, rows="extended"))
        counts = check_counts(self.counted_kinds[name,], full.extended_shape((name,)))
        return counts[full[name].missing_code :]

    # Changes, each row by itself

    def changed(self, change: Any, rng: Rng) -> CountedRows:
        """Return the private rows after a change, which is applied when they are counted.

        Parameters
        ----------
        change : LevelMerge, Recoding, FineCodes or row function
            The change. A row function has a registered type and fills every missing cell.
        rng : callable
            Function without parameters that returns a generator of NumPy, from which a row
            function draws values.

        Returns
        -------
        CountedRows
            The changed rows. Private. Nothing is read now.

        Raises
        ------
        ParameterError
            If the change is of another type or does not fit the rows, or if levels were merged
            before.
        """
        if isinstance(self.counts, MergedCounts):
            raise ParameterError("rows of merged levels are not changed again")
        if type(change) is LevelMerge:
            return self._merged(change)
        if type(change) is Recoding:
            return self._recoded(change)
        if type(change) is FineCodes:
            return self._fine_rows()
        check_registered(change)
        return fill_rows(self, change, rng())

    def _merged(self, change: LevelMerge) -> CountedRows:
        facts, sizes = self.facts, {}
        groups = {name: np.array(change.groups[name]) for name in facts.schema.names}
        for attribute in facts.schema:
            group = groups[attribute.name]
            valid = group.shape == (attribute.size,) and group.dtype.kind in "iu"
            if not valid or sorted(set(group.tolist())) != list(range(int(group.max()) + 1)):
                raise ParameterError("groups must number the groups of the declared levels from 0")
            missing = facts.sizes[attribute.name] - attribute.size
            sizes[attribute.name] = int(group.max()) + 1 + missing
        changed = replace(facts, sizes=sizes, has_fine_codes=False)
        fixed = {name: group.astype(np.int64) for name, group in groups.items()}
        counts = MergedCounts(self.counts, fixed)
        return replace(self, facts=changed, counts=counts, scores={}, fine=None)

    def _recoded(self, change: Recoding) -> CountedRows:
        rows = self._coded_as(change.schema)
        if isinstance(rows.counts, ExactCounts):
            rows.counts.take_over(self.counts, change.cells)
        if change.fine_schema is None:
            return rows
        facts = replace(rows.facts, has_fine_codes=True)
        return replace(rows, facts=facts, fine=self._coded_as(change.fine_schema))

    def _coded_as(self, schema: Schema) -> CountedRows:
        source: MarginalSource = self.raw.coded_as(schema)  # type: ignore[attr-defined]
        facts, sums = self.facts, self.unit_sums
        return CountedRows.from_source(
            source, facts.strategy, declared_rows=facts.declared_rows, unit_sums=sums
        )

    def _fine_rows(self) -> CountedRows:
        if self.fine is None:
            raise ParameterError("there are no finer codes of these rows")
        return self.fine

    def __repr__(self) -> str:
        names, missing = ", ".join(self.facts.schema.names), self.facts.strategy.name
        return f"CountedRows({names}; missing={missing!r})"
