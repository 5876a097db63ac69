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
    """Strategy of a synthesizer for missing cells: the rows that count, and the cells it fills.

    Users name a strategy by the parameter ``missing`` of a synthesizer, and :func:`strategy_named`
    returns it. All facts here are public.

    Parameters
    ----------
    name : str
        Name of the strategy. With "joint" every row is counted, and missing cells are levels. With
        "observed", the rows without a missing cell in the counted attributes are counted. With
        "complete-rows", rows with any missing cell are dropped. With "impute-first", missing cells
        are filled before.
    rows : {"observed", "extended"}
        The rows over which a set of attributes is counted. With "observed", these are the rows
        without a missing cell in the attributes. With "extended", these are all rows, with missing
        cells as additional levels.
    complete_only : bool, default False
        True if rows with any missing cell are dropped before anything is counted.
    fills : bool, default False
        True if missing cells are filled, each row separately, before anything is modelled.
    required_sets : {"none", "schema", "parameters", "data"}, default "none"
        Origin of the sets of attributes that a row must have observed to be read. With "none" every
        row is read. With "schema" or "parameters", these public facts determine the sets. With
        "data", earlier releases choose the sets.

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
        """True if a strategy models missing cells, so that synthetic rows have missing cells.

        Of the four strategies, only "joint" models them. The value is public.
        """
        return self.rows == "extended"

    @property
    def needs_rows(self) -> bool:
        """True if a strategy for missing cells needs the rows in memory, or changes of rows.

        Strategies that drop rows or fill cells need them: "complete-rows" and "impute-first". A
        source that drops or fills while it streams suffices. The value is public.
        """
        return self.complete_only or self.fills

    def required(self, clique: Iterable[str], schema: Schema) -> frozenset[str]:
        """Return the attributes that must be observed in a row so that a strategy counts the row.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes that are counted together.
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        frozenset of str
            Names of attributes. Empty if every row is counted. Public.
        """
        nullable = frozenset(schema.nullable)
        if self.complete_only:
            return nullable
        return nullable & frozenset(clique) if self.rows == "observed" else frozenset()

    def implies_total(self, clique: Iterable[str], schema: Schema) -> bool:
        """Return whether counts of some attributes add up to the number of all rows.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes that are counted together.
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        bool
            True if the strategy leaves out no row because of a missing cell. Public.
        """
        return not self.required(clique, schema)

    def every_row_counts(self, schema: Schema) -> bool:
        """Return whether a strategy counts equally many rows for each set of attributes.

        This is the case if missing cells are modelled, if rows with missing cells are dropped, or
        if no cell may be missing.

        Parameters
        ----------
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        bool
            True if the totals are equal, whichever cells are missing. Public.
        """
        return self.models_missingness or self.complete_only or not schema.nullable

    def shape(self, clique: Iterable[str], schema: Schema) -> tuple[int, ...]:
        """Return the shape of the counts of a set of attributes under this strategy.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes that are counted together, in the order of the axes.
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        tuple of int
            For each attribute its number of codes, with kinds of missing if the strategy models
            them. Released or public.

        Raises
        ------
        SchemaError
            If the schema has no attribute of a name.
        """
        names = tuple(clique)
        return schema.extended_shape(names) if self.models_missingness else schema.shape(names)

    def check(self, source: MarginalSource) -> None:
        """Check that a source of private rows can be counted by a strategy for missing cells.

        A strategy that drops rows or fills cells needs the rows in memory, or a source that drops
        or fills while it streams.

        Parameters
        ----------
        source : MarginalSource
            The source that counts the private rows.

        Raises
        ------
        ParameterError
            If the source cannot drop rows or fill cells as the strategy needs.
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
    """Return the strategy for missing cells of a name.

    Parameters
    ----------
    name : {"joint", "observed", "complete-rows", "impute-first"}
        The name, as in the parameter ``missing`` of a synthesizer.

    Returns
    -------
    Strategy
        Public.

    Raises
    ------
    ParameterError
        If there is no strategy of this name.
    """
    if not isinstance(name, str) or name not in STRATEGIES:
        similar = did_you_mean(name, STRATEGIES)
        raise ParameterError(f"missing must be one of {list(STRATEGIES)}, not {name!r}{similar}")
    return STRATEGIES[name]
