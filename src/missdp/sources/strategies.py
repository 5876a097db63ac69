"""Missing-data strategies: which rows are counted, and what that makes of their holes.

Choose a source for any kind of input.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeGuard

import duckdb

from missdp.errors import DataError, ParameterError
from missdp.schema import Schema
from missdp.sources.counts import MarginalSource, MemorySource, Rows
from missdp.sources.duckdb import DuckDBSource
from missdp.table import Table

__all__ = ["STRATEGIES", "GateChoice", "Strategy", "is_source", "open_source", "strategy_named"]


GateChoice: TypeAlias = Literal["none", "schema", "parameters", "data"]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way to count rows that have holes, as the facts that follow from it.

    Parameters
    ----------
    name : str
        What a person types.
    rows : {"observed", "extended"}
        Over which rows a clique is counted: those observed on it, or every row with "missing" as
        one more level.
    complete_only : bool
        Whether rows with any hole are dropped before anything is counted.
    fills : bool
        Whether holes are filled, row by row, before anything is modelled.
    gates : {"none", "schema", "parameters", "data"}
        Who chose which attributes a row must have observed to be read: nobody, since every row is
        read; the schema; the parameters of the fit; or what was released before.

    Examples
    --------
    >>> from missdp.sources import strategy_named
    >>> strategy_named("joint").models_holes, strategy_named("complete-rows").needs_rows
    (True, True)
    """

    name: str
    rows: Rows
    complete_only: bool = False
    fills: bool = False
    gates: GateChoice = "none"

    @property
    def models_holes(self) -> bool:
        """Whether what is missing is modelled, so that holes can be sampled."""
        return self.rows == "extended"

    @property
    def needs_rows(self) -> bool:
        """Whether it works on rows, which must therefore be in memory."""
        return self.complete_only or self.fills

    def gate(self, clique: Iterable[str], schema: Schema) -> frozenset[str]:
        """Return the attributes that a row must have observed to enter a clique's counts.

        Examples
        --------
        >>> from missdp.schema import Categorical, Schema
        >>> from missdp.sources import strategy_named
        >>> schema = Schema((
        ...     Categorical(name="a", levels=("x", "y"), nullable=True),
        ...     Categorical(name="b", levels=("x", "y"), nullable=True),
        ... ))
        >>> [sorted(strategy_named(s).gate(("a",), schema)) for s in ("joint", "observed")]
        [[], ['a']]
        >>> sorted(strategy_named("complete-rows").gate(("a",), schema))
        ['a', 'b']
        """
        nullable = frozenset(schema.nullable)
        if self.complete_only:
            return nullable
        return nullable & frozenset(clique) if self.rows == "observed" else frozenset()

    def tells_total(self, clique: Iterable[str], schema: Schema) -> bool:
        """Whether a clique's counts add up to the number of all rows."""
        return not self.gate(clique, schema)

    def every_row_counts(self, schema: Schema) -> bool:
        """Whether all cliques have the same total, whatever is missing."""
        return self.models_holes or self.complete_only or not schema.nullable

    def shape(self, clique: Iterable[str], schema: Schema) -> tuple[int, ...]:
        """Return the shape of a clique's counts."""
        names = tuple(clique)
        return schema.extended_shape(names) if self.models_holes else schema.shape(names)

    def check(self, source: MarginalSource) -> None:
        """Refuse a source that cannot be counted like this.

        Raises
        ------
        ParameterError
            If rows are needed, and streamed.
        """
        if self.needs_rows and not isinstance(source, MemorySource):
            raise ParameterError(
                f"missing={self.name!r} needs the rows in memory; read them with Table.read, or "
                "use 'joint' or 'observed', which count in one streaming pass"
            )


STRATEGIES = {
    strategy.name: strategy
    for strategy in (
        Strategy(name="joint", rows="extended"),
        Strategy(name="observed", rows="observed", gates="data"),
        Strategy(name="complete-rows", rows="observed", complete_only=True, gates="schema"),
        Strategy(name="impute-first", rows="observed", fills=True, gates="parameters"),
    )
}


def strategy_named(name: str) -> Strategy:
    """Return the strategy that a name stands for.

    Raises
    ------
    ParameterError
        If there is none.
    """
    if not isinstance(name, str) or name not in STRATEGIES:
        raise ParameterError(f"missing must be one of {list(STRATEGIES)}, not {name!r}")
    return STRATEGIES[name]


_STREAM_BYTES = 64 * 2**20


def open_source(data: Any, schema: Schema) -> MarginalSource:
    """Return a source that counts ``data``.

    Parameters
    ----------
    data : Table, pandas, polars or Arrow table, DuckDB relation, str, Path or MarginalSource
        Frames, tables and files below 64 MB are held in memory; DuckDB relations and larger files
        are streamed. A source comes back as it is. A source with a method ``check()`` is asked to
        refuse now what it would refuse later, so that a fit charges nothing for it.
    schema : Schema
        The declared domain.

    Raises
    ------
    DataError
        If the data does not fit the schema.

    Examples
    --------
    >>> import pandas as pd
    >>> from missdp import Categorical, Schema
    >>> from missdp.sources import open_source
    >>> schema = Schema((Categorical(name="smoker", levels=("no", "yes")),))
    >>> open_source(pd.DataFrame({"smoker": ["yes"]}), schema)
    MemorySource(smoker)
    """
    source = _open(data, schema)
    check = getattr(type(source), "check", None)
    if check is not None:
        check(source)
    return source


def _open(data: Any, schema: Schema) -> MarginalSource:
    if is_source(data):
        if data.schema != schema:
            raise DataError("the source was opened with another schema")
        return data
    if isinstance(data, duckdb.DuckDBPyRelation):
        return DuckDBSource(data, schema)
    if isinstance(data, (str, Path)):
        path = Path(data)
        if path.is_file() and path.stat().st_size > _STREAM_BYTES:
            return DuckDBSource(path, schema)
    return MemorySource(Table.read(data, schema))


def is_source(data: Any) -> TypeGuard[MarginalSource]:
    """Tell whether ``data`` can count by itself.

    Asked of its type: a frame may have columns that are called "schema" and "counts".
    """
    return callable(getattr(type(data), "counts", None))
