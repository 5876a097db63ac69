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
    """Strategy for rows with missing cells: counted rows, and treatment of missing cells.

    A synthesizer names it by its parameter ``missing``. `strategy_named` returns the four
    strategies ``"joint"``, ``"observed"``, ``"complete-rows"`` and ``"impute-first"``. All facts
    are public.

    Parameters
    ----------
    name : str
        Name of the strategy, as users write it.
    rows : {"observed", "extended"}
        Rows that a table of counts includes. ``"observed"``: rows in which its attributes are
        observed. ``"extended"``: every row, with "missing" as one more level.
    complete_only : bool, default False
        Whether rows with any missing cell are dropped before anything is counted.
    fills : bool, default False
        Whether missing cells are filled, each row by itself, before anything is modelled.
    required_sets : {"none", "schema", "parameters", "data"}, default "none"
        Source of the attributes that a row must have observed to be read. ``"none"``: every row is
        read. ``"schema"`` and ``"parameters"``: they are fixed in advance. ``"data"``: earlier
        releases choose them.

    Examples
    --------
    >>> from missdp.sources import strategy_named
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
        """Return whether a strategy models missing values, so that synthetic rows have them.

        Returns
        -------
        bool
            True if "missing" is counted as one more level, as for ``"joint"``. Public.
        """
        return self.rows == "extended"

    @property
    def needs_rows(self) -> bool:
        """Return whether a strategy needs rows in memory, or a source that drops or fills rows.

        Returns
        -------
        bool
            True if incomplete rows are dropped or missing cells are filled. Public.
        """
        return self.complete_only or self.fills

    def required(self, clique: Iterable[str], schema: Schema) -> frozenset[str]:
        """Return the attributes that a row must have observed to enter a table of counts.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes of the table.
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        frozenset of str
            Names of nullable attributes: all for ``complete_only``, those of the table for
            observed rows, otherwise none. Public.
        """
        nullable = frozenset(schema.nullable)
        if self.complete_only:
            return nullable
        return nullable & frozenset(clique) if self.rows == "observed" else frozenset()

    def implies_total(self, clique: Iterable[str], schema: Schema) -> bool:
        """Return whether a table of counts adds up to the number of all rows under this strategy.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes of the table.
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        bool
            True if every row is counted, with or without missing cells. Public.
        """
        return not self.required(clique, schema)

    def every_row_counts(self, schema: Schema) -> bool:
        """Return whether all tables of counts have an equal total under this strategy.

        It is so for every pattern of missing cells.

        Parameters
        ----------
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        bool
            True if missing values are modelled, incomplete rows are dropped, or no attribute is
            nullable. Public.
        """
        return self.models_missingness or self.complete_only or not schema.nullable

    def shape(self, clique: Iterable[str], schema: Schema) -> tuple[int, ...]:
        """Return the shape of a table of counts under this strategy for missing cells.

        Parameters
        ----------
        clique : iterable of str
            Names of the attributes of the table.
        schema : Schema
            Public facts about the columns.

        Returns
        -------
        tuple of int
            Number of codes of each attribute, with "missing" if it is a level. Public.

        Raises
        ------
        SchemaError
            If the schema declares no such attribute.
        """
        names = tuple(clique)
        return schema.extended_shape(names) if self.models_missingness else schema.shape(names)

    def check(self, source: MarginalSource) -> None:
        """Raise an error if a source of private rows cannot be counted by this strategy.

        A strategy that drops rows or fills cells needs the rows in memory, or a source that drops
        or fills while it streams.

        Parameters
        ----------
        source : MarginalSource
            The source, of which only its type is used.

        Raises
        ------
        ParameterError
            If the source streams its rows and neither drops nor fills.
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
    """Return the strategy for rows with missing cells that has a given name.

    Parameters
    ----------
    name : {"joint", "observed", "complete-rows", "impute-first"}
        ``"joint"``: every row is counted, and missing is one more level. ``"observed"``: a table of
        counts includes the rows in which its attributes are observed. ``"complete-rows"``:
        incomplete rows are dropped. ``"impute-first"``: missing cells are filled, each row by
        itself.

    Returns
    -------
    Strategy
        The strategy. Public.

    Raises
    ------
    ParameterError
        If the name is unknown.

    Examples
    --------
    >>> from missdp.sources import strategy_named
    >>> strategy_named("joint").models_missingness
    True
    """
    if not isinstance(name, str) or name not in STRATEGIES:
        similar = did_you_mean(name, STRATEGIES)
        raise ParameterError(f"missing must be one of {list(STRATEGIES)}, not {name!r}{similar}")
    return STRATEGIES[name]
