"""The four ways to count rows that have holes."""

from __future__ import annotations

from dataclasses import dataclass

from missdp.accounting import Budget
from missdp.errors import ParameterError
from missdp.mechanisms import NoiseSource, noisy_total
from missdp.schema import Schema
from missdp.sources import Clique, MarginalSource, MemorySource, Rows
from missdp.synth.imputers import Imputer, impute_table

__all__ = ["ROW_STRATEGIES", "CountingView", "prepare", "rows_in_memory"]

#: Strategies that work on rows, which must therefore be in memory.
ROW_STRATEGIES = ("complete-rows", "impute-first")

_COMPLETE_COUNT_SHARE = 0.02


@dataclass(frozen=True, eq=False, repr=False)
class CountingView:
    """What a family counts, and over which rows.

    Parameters
    ----------
    source : MarginalSource
        Private rows, after the strategy was applied.
    rows : {"observed", "extended"}
        Over which rows and which domain each clique is counted.
    n_rows : float
        Released estimate of how many rows the cliques are counted over.
    every_row_counts : bool
        True if all cliques have the same total; False for partial marginals.
    gated_by : frozenset of str or None
        Attributes that must be observed for a row to be read at all; None: depends on the clique.
    """

    source: MarginalSource
    rows: Rows
    n_rows: float
    every_row_counts: bool
    gated_by: frozenset[str] | None

    @property
    def schema(self) -> Schema:
        """Public facts about the rows that are counted."""
        return self.source.schema

    def sizes(self) -> dict[str, int]:
        """Number of codes of each attribute in the counted tables."""
        if self.rows == "extended":
            return {a.name: a.extended_size for a in self.schema}
        return {a.name: a.size for a in self.schema}

    def gate(self, clique: Clique) -> frozenset[str] | None:
        """Attributes that must be observed for a row to enter this clique's counts."""
        if self.rows == "extended":
            return self.gated_by
        return (self.gated_by or frozenset()) | (set(clique) & set(self.schema.nullable)) or None


def prepare(
    source: MarginalSource,
    missing: str,
    *,
    n_rows: int,
    imputer: Imputer,
    imputer_epsilon: float,
    epsilon: float,
    budget: Budget,
    noise: NoiseSource,
) -> CountingView:
    """Apply a missing-data strategy.

    Parameters
    ----------
    source : MarginalSource
        Private rows; ``"complete-rows"`` and ``"impute-first"`` need them in memory.
    missing : {"joint", "adaptive", "complete-rows", "impute-first"}
    n_rows : int
        Released or declared number of rows.
    imputer, imputer_epsilon
        For ``"impute-first"``.
    epsilon : float
        Whole epsilon, of which ``"complete-rows"`` spends 2 % on the number of complete rows.
    budget, noise
        Charged before anything is counted.
    """
    if missing == "joint":
        return CountingView(source, "extended", n_rows, True, None)
    if missing == "adaptive":
        return CountingView(source, "observed", n_rows, not source.schema.nullable, None)
    table = rows_in_memory(source, missing).table
    if missing == "impute-first":
        filled = impute_table(
            table,
            imputer,
            epsilon=imputer_epsilon,
            budget=budget,
            noise=noise,
            rng=noise.generator(),
        )
        return CountingView(MemorySource(filled), "observed", n_rows, True, None)
    complete = table.take(~table.incomplete_rows())
    gate = frozenset(table.schema.nullable)
    released = noisy_total(
        lambda: len(complete),
        epsilon=_COMPLETE_COUNT_SHARE * epsilon,
        budget=budget,
        source=noise,
        gate=gate,
        label="number of complete rows",
    )
    return CountingView(MemorySource(complete), "observed", float(released), True, gate)


def rows_in_memory(source: MarginalSource, missing: str) -> MemorySource:
    """Return the source if its rows are in memory.

    Raises
    ------
    ParameterError
        If they are streamed.
    """
    if isinstance(source, MemorySource):
        return source
    raise ParameterError(
        f"missing={missing!r} needs the rows in memory; read them with Table.read, or use 'joint' "
        "or 'adaptive', which count in one streaming pass"
    )
