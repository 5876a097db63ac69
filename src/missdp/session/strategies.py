"""Missing-data strategies: the rows that are counted, and the treatment of their missing cells.

A `Strategy` states public facts: which rows it reads, which attributes these must have observed,
and whether missing cells are modelled.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from missdp.errors import ParameterError, did_you_mean
from missdp.schema import Schema
from missdp.session.counting import MarginalSource, Rows, has_method
from missdp.session.held_rows import HeldSource

RequirementChoice: TypeAlias = Literal["none", "schema", "parameters", "data"]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """Strategy for counting rows with missing cells, with the public facts that follow from it.

    Parameters
    ----------
    name : str
        Name of the strategy, as users write it.
    rows : {"observed", "extended"}
        Rows over which a clique is counted: the rows observed on it, or every row with "missing" as
        one more level.
    complete_only : bool
        Whether rows with any missing cell are dropped before anything is counted.
    fills : bool
        Whether missing cells are filled, each row by itself, before anything is modelled.
    required_sets : {"none", "schema", "parameters", "data"}
        Source of the attributes that a row must have observed to be read. "none": every row is
        read. "data": earlier releases choose the attributes.

    Examples
    --------
    >>> strategy_named("joint").models_missingness, strategy_named("complete-rows").needs_rows
    (True, True)
    """

    name: str
    rows: Rows
    complete_only: bool = False
    fills: bool = False
    required_sets: RequirementChoice = "none"

    @property
    def models_missingness(self) -> bool:
        """Whether missing values are modelled, so that samples have missing values."""
        return self.rows == "extended"

    @property
    def needs_rows(self) -> bool:
        """Whether it needs rows in memory, or a source that changes its rows."""
        return self.complete_only or self.fills

    def required(self, clique: Iterable[str], schema: Schema) -> frozenset[str]:
        """Return the attributes that a row must have observed to enter a clique's counts."""
        nullable = frozenset(schema.nullable)
        if self.complete_only:
            return nullable
        return nullable & frozenset(clique) if self.rows == "observed" else frozenset()

    def implies_total(self, clique: Iterable[str], schema: Schema) -> bool:
        """Whether a clique's counts add up to the number of all rows."""
        return not self.required(clique, schema)

    def every_row_counts(self, schema: Schema) -> bool:
        """Whether all cliques have an equal total for every pattern of missing cells."""
        return self.models_missingness or self.complete_only or not schema.nullable

    def shape(self, clique: Iterable[str], schema: Schema) -> tuple[int, ...]:
        """Return the shape of a clique's counts."""
        names = tuple(clique)
        return schema.extended_shape(names) if self.models_missingness else schema.shape(names)

    def check(self, source: MarginalSource) -> None:
        """Raise ParameterError if a source cannot be counted by this strategy.

        A strategy that drops rows or fills cells needs the rows in memory, or a source that drops
        or fills while it streams.
        """
        streams = self.complete_only and has_method(source, "observed_on")
        streams |= self.fills and has_method(source, "code_blocks")
        if self.needs_rows and not streams and not isinstance(source, HeldSource):
            raise ParameterError(
                f"missing={self.name!r} needs the rows in memory; read them with Table.read, or "
                "use 'joint' or 'observed', which count while they stream"
            )


#: Map from the name of each strategy for missing cells to the strategy. Public.
STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy(name="joint", rows="extended"),
        Strategy(name="observed", rows="observed", required_sets="data"),
        Strategy(name="complete-rows", rows="observed", complete_only=True, required_sets="schema"),
        Strategy(name="impute-first", rows="observed", fills=True, required_sets="parameters"),
    )
}


def strategy_named(name: str) -> Strategy:
    """Return the strategy of a name."""
    if not isinstance(name, str) or name not in STRATEGIES:
        similar = did_you_mean(name, STRATEGIES)
        raise ParameterError(f"missing must be one of {list(STRATEGIES)}, not {name!r}{similar}")
    return STRATEGIES[name]
