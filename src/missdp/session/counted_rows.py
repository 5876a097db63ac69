"""Rows of codes, of which combinations are counted: one of the three kinds of private rows.

What synthesizers measure. A row may be coded in another way, or its levels merged: each such change
is one of the frozen types below. Missing cells are filled by a registered row function, which the
row kernel applies (`missdp.session.row_kernel`). Neighbouring tables stay neighbours.
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
from missdp.session.counting import Clique, MarginalSource, checked, counted_outside, is_weighed
from missdp.session.dependences import Dependences
from missdp.session.exact_counts import ExactCounts, MergedCounts, PrivateCounts
from missdp.session.filled_rows import filled
from missdp.session.held_rows import HeldSource
from missdp.session.modelled_rows import modelled_source
from missdp.session.observed_rows import complete_rows
from missdp.session.products import RowProducts
from missdp.session.row_kernel import check_registered
from missdp.session.scores import Misfits
from missdp.session.session import Release
from missdp.session.strategies import Strategy
from missdp.session.total_queries import Kinds, RowCount, UnitSums
from missdp.types import Ints

Rng: TypeAlias = Callable[[], np.random.Generator]
QUERIES = (RowCount, UnitSums, Kinds, Marginal, Tree, Misfits, Dependences, RowProducts)
"""The types of queries that are proven for counted rows; no subclass is."""


@dataclass(frozen=True)
class CountedFacts:
    """What is publicly known of counted rows.

    Attributes
    ----------
    schema : Schema
        What is counted of the rows: rules and derived attributes are left out; see
        `missdp.schema.modelled`.
    strategy : Strategy
        How rows with missing cells are counted.
    modelled : Modelled
        How ``schema`` follows from the declared one.
    sizes : dict of str to int
        Number of codes of each attribute in the counts; "missing" is among them if it is a level.
    steps : int
        In how many steps of a row the exact counts are: 1, unless rows count by weights.
    declared_rows : int or None
        Number of rows, if it was declared public.
    has_finer_codes : bool
        Whether `FineCodes` can be asked for.
    """

    schema: Schema
    strategy: Strategy
    modelled: ModelView
    sizes: dict[str, int]
    steps: int
    declared_rows: int | None
    has_finer_codes: bool = False

    def shape(self, clique: Clique) -> tuple[int, ...]:
        """Return the shape of a clique's counts."""
        return tuple(self.sizes[name] for name in clique)

    def sums_to_row_count(self, clique: Clique) -> bool:
        """Whether the clique's counts add up to the number of all rows."""
        return self.strategy.implies_total(clique, self.schema)

    @property
    def same_total(self) -> bool:
        """Whether all cliques have the same total; if not, each counts the rows observed on it."""
        return self.strategy.every_row_counts(self.schema)


@dataclass(frozen=True, eq=False)
class Merged:
    """Merge levels into groups, on public or released grounds.

    Attributes
    ----------
    groups : mapping of str to ndarray of int64
        For each attribute the group of each level, ``0..k - 1``; "missing" stays by itself. They
        are copied.
    """

    groups: Mapping[str, Ints]


@dataclass(frozen=True, eq=False)
class Recoded:
    """Code the same rows by another schema, which has other bins.

    Attributes
    ----------
    schema : Schema
        The same attributes, some of them in other bins.
    cells : mapping of str to ndarray of int64
        By attribute whose codes differ, the new code of each old one: single attributes that were
        counted before need not be counted again.
    finer : Schema, optional
        What `FineCodes` changes to.
    """

    schema: Schema
    cells: Mapping[str, Ints]
    finer: Schema | None = None


@dataclass(frozen=True)
class FineCodes:
    """Code the same rows by the finer schema that `Recoded` named."""


@dataclass(frozen=True, eq=False, repr=False)
class CountedRows:
    """Private rows as they came and as they are counted, with their public facts.

    Attributes
    ----------
    facts : CountedFacts
        Public.
    came : MarginalSource
        The rows as they came. Private.
    source : MarginalSource
        What is modelled of them. Private.
    counts : PrivateCounts
        Exact counts of what is counted. Private.
    """

    facts: CountedFacts
    came: MarginalSource
    source: MarginalSource
    counts: PrivateCounts
    unit_sums: Ints | None = None
    finer: CountedRows | None = None
    adjacency: ClassVar[Adjacency] = "add-remove"
    # Scores that were computed, each with the expectation that it is of.
    scores: dict[type, dict[Clique, tuple[Any, float]]] = field(default_factory=dict)
    counted_kinds: dict[Clique, Ints] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        source: MarginalSource,
        strategy: Strategy,
        *,
        declared_rows: int | None = None,
        unit_sums: Ints | None = None,
    ) -> CountedRows:
        """Return the rows of a source, counted by a strategy for missing cells.

        Parameters
        ----------
        source : MarginalSource
            The private rows. What one row becomes must depend on that row and public facts alone.
        strategy : Strategy
            How rows with missing cells are counted.
        declared_rows : int, optional
            Number of rows, if it was declared public.
        unit_sums : ndarray, optional
            What `UnitSums` answers, where it is known. Private.
        """
        strategy.check(source)
        source.schema.refuse_units("a session that is opened by hand")
        modelled = ModelView(source.schema)
        came = source
        if not modelled.is_identity:
            source = modelled_source(source, modelled)
        names = source.schema.names
        sizes = dict(zip(names, strategy.shape(names, source.schema), strict=True))
        steps = STEPS if is_weighed(came) else 1
        facts = CountedFacts(source.schema, strategy, modelled, sizes, steps, declared_rows)
        opened = (lambda: complete_rows(source)) if strategy.complete_only else (lambda: source)
        counts = ExactCounts(opened, source.schema, strategy, weighed=is_weighed(came))
        return cls(facts, came, source, counts, unit_sums)

    @property
    def ledger(self) -> str:
        """The budget in a ledger without which nothing may be read; empty if there is none."""
        return self.came.schema.ledger

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """What every answer rests on, by public facts about the rows."""
        engine, rows = counted_outside(self.came), self.facts.declared_rows
        outside = (CountedOutsideTheKernel(engine),) if engine else ()
        declared = () if rows is None else (DeclaredRowCount(n=rows),)
        return (RowFunctionsTested(), *outside, *declared)

    # Queries

    def plan(self, query: Any, mechanism: Any) -> Release:
        """Return how a query is answered, and its price; refuse it, by public facts alone."""
        if type(query) not in QUERIES:  # a subclass could state another sensitivity
            known = ", ".join(kind.__name__ for kind in QUERIES)
            raise ParameterError(f"counted rows answer queries of the types {known}")
        asked: CountQuery = query
        return asked.plan(self, mechanism)

    def expect(self, queries: Iterable[Any]) -> None:
        """Note what may be counted, so that few passes over the rows count all of it."""
        self.counts.expect(query.clique for query in queries if type(query) is Marginal)

    def codes_for_training(self) -> Callable[[], dict[str, NDArray[Any]]]:
        """Return what returns the codes of the counted rows; refuse it by public facts alone."""
        if not isinstance(self.source, HeldSource):
            raise ParameterError(
                "training needs the rows in memory, and these are streamed; read them with "
                "Table.read"
            )
        if self.facts.steps > 1:
            raise ParameterError("training is not proven where rows count different amounts")
        return self.counts.codes

    def refuse_unknown(self, clique: Iterable[str]) -> None:
        """Refuse attributes that there are not, by public facts."""
        if unknown := {*clique} - {*self.facts.schema.names}:
            raise ParameterError(f"there is no attribute {min(unknown)!r}")

    def required(self, clique: Clique | None) -> frozenset[str]:
        """Return what a counted row must have had observed, before rules filled any cell."""
        if clique is None:
            return frozenset()
        facts = self.facts
        return facts.strategy.required(clique, facts.schema) - facts.modelled.rule_filled

    @property
    def codes_of_rows(self) -> dict[str, int]:
        """Number of codes that each attribute of the rows may have; public."""
        facts = self.facts
        missing = not facts.strategy.complete_only and not facts.strategy.models_missingness
        return {a.name: facts.sizes[a.name] + (a.nullable and missing) for a in facts.schema}

    # What queries compute; private

    def counts_of(self, clique: Clique) -> Ints:
        """Return the counts of a clique, in steps."""
        return next(self.each([clique]))[1]

    def each(self, cliques: Iterable[Clique]) -> Iterator[tuple[Clique, Ints]]:
        """Yield each clique with its counts, in steps; few passes over the rows for all."""
        for clique, counts in self.counts.each(cliques):
            yield clique, checked(counts, self.facts.shape(clique))

    def in_rows(self, counts: Ints) -> NDArray[Any]:
        """Return counts in rows, exactly."""
        return counts if self.facts.steps == 1 else counts / self.facts.steps

    def kinds(self, name: str) -> Ints:
        """Return how many missing cells of an attribute are of each kind."""
        modelled = self.facts.modelled
        if (name,) not in self.counted_kinds:  # all in one pass
            wanted = dict.fromkeys([(name,), *((other,) for other in modelled.kinds)])
            self.counted_kinds.update(self.came.counts(wanted, rows="extended"))
        counts = checked(self.counted_kinds[name,], modelled.full_schema.extended_shape((name,)))
        return counts[modelled.full_schema[name].missing_code :]

    # Changes, each row by itself

    def changed(self, change: Any, rng: Rng) -> CountedRows:
        """Return the rows after a change; they are computed when they are counted.

        The change is one of this file, or a row function of a registered type that fills every
        missing cell.
        """
        if isinstance(self.counts, MergedCounts):
            raise ParameterError("rows of merged levels are not changed again")
        if type(change) is Merged:
            return self._merged(change)
        if type(change) is Recoded:
            return self._recoded(change)
        if type(change) is FineCodes:
            return self._finer()
        check_registered(change)
        return filled(self, change, rng())

    def _merged(self, change: Merged) -> CountedRows:
        facts, sizes = self.facts, {}
        groups = {name: np.array(change.groups[name]) for name in facts.schema.names}
        for attribute in facts.schema:
            group = groups[attribute.name]
            known = group.shape == (attribute.size,) and group.dtype.kind in "iu"
            if not known or sorted(set(group.tolist())) != list(range(int(group.max()) + 1)):
                raise ParameterError("groups must number the groups of the declared levels from 0")
            missing = facts.sizes[attribute.name] - attribute.size
            sizes[attribute.name] = int(group.max()) + 1 + missing
        changed = replace(facts, sizes=sizes, has_finer_codes=False)
        fixed = {name: group.astype(np.int64) for name, group in groups.items()}
        counts = MergedCounts(self.counts, fixed)
        return replace(self, facts=changed, counts=counts, scores={}, finer=None)

    def _recoded(self, change: Recoded) -> CountedRows:
        found = self._coded_as(change.schema)
        if isinstance(found.counts, ExactCounts):
            found.counts.take_over(self.counts, change.cells)
        if change.finer is None:
            return found
        facts = replace(found.facts, has_finer_codes=True)
        return replace(found, facts=facts, finer=self._coded_as(change.finer))

    def _coded_as(self, schema: Schema) -> CountedRows:
        source: MarginalSource = self.came.coded_as(schema)  # type: ignore[attr-defined]
        facts, sums = self.facts, self.unit_sums
        return CountedRows.of(
            source, facts.strategy, declared_rows=facts.declared_rows, unit_sums=sums
        )

    def _finer(self) -> CountedRows:
        if self.finer is None:
            raise ParameterError("there are no finer codes of these rows")
        return self.finer

    def __repr__(self) -> str:
        names, missing = ", ".join(self.facts.schema.names), self.facts.strategy.name
        return f"CountedRows({names}; missing={missing!r})"
