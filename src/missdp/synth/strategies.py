"""The four ways to count rows that have holes."""

from __future__ import annotations

from dataclasses import dataclass

from missdp.accounting import Budget, scale_for
from missdp.errors import ParameterError
from missdp.mechanisms import NoiseSource, release_counts
from missdp.schema import Schema
from missdp.sources import Clique, MarginalSource, MemorySource, Rows
from missdp.synth.imputers import Imputer, impute_table
from missdp.synth.totals import Total

__all__ = ["ROW_STRATEGIES", "CountingView", "prepare", "release_row_count", "rows_in_memory"]

#: Strategies that work on rows, which must therefore be in memory.
ROW_STRATEGIES = ("complete-rows", "impute-first")


@dataclass(frozen=True, eq=False, repr=False)
class CountingView:
    """What a family counts, and over which rows.

    Parameters
    ----------
    source : MarginalSource
        Private rows, after the strategy was applied.
    rows : {"observed", "extended"}
        Over which rows and which domain each clique is counted.
    total : Total or None
        What was released about how many rows the cliques are counted over; None if nothing.
    every_row_counts : bool
        True if all cliques have the same total; False for partial marginals.
    gated_by : frozenset of str or None
        Attributes that must be observed for a row to be read at all; None: depends on the clique.
    """

    source: MarginalSource
    rows: Rows
    total: Total | None
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

    def tells_total(self, clique: Clique) -> bool:
        """Whether the clique's counts add up to the number of all rows of the private table."""
        return not self.gate(clique)

    def gate(self, clique: Clique) -> frozenset[str] | None:
        """Attributes that must be observed for a row to enter this clique's counts."""
        if self.rows == "extended":
            return self.gated_by
        return (self.gated_by or frozenset()) | (set(clique) & set(self.schema.nullable)) or None


def prepare(
    source: MarginalSource,
    missing: str,
    *,
    total: Total | None,
    imputer: Imputer,
    imputer_epsilon: float,
    complete_epsilon: float | None,
    budget: Budget,
    noise: NoiseSource,
) -> CountingView:
    """Apply a missing-data strategy.

    Parameters
    ----------
    source : MarginalSource
        Private rows; ``"complete-rows"`` and ``"impute-first"`` need them in memory.
    missing : {"joint", "adaptive", "complete-rows", "impute-first"}
    total : Total or None
        Released or declared number of rows, if any.
    imputer, imputer_epsilon
        For ``"impute-first"``.
    complete_epsilon : float or None
        What ``"complete-rows"`` spends on the number of complete rows; None spends nothing.
    budget, noise
        Charged before anything is counted.
    """
    if missing == "joint":
        return CountingView(source, "extended", total, True, None)
    if missing == "adaptive":
        return CountingView(source, "observed", total, not source.schema.nullable, None)
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
        return CountingView(MemorySource(filled), "observed", total, True, None)
    complete = table.take(~table.incomplete_rows())
    gate = frozenset(table.schema.nullable)
    counted = None
    if complete_epsilon is not None:
        released = release_counts(
            lambda: len(complete),
            noise="laplace",
            scale=scale_for(1.0, complete_epsilon),
            sensitivity=1,
            budget=budget,
            source=noise,
            gate=gate,
            label="number of complete rows",
        )
        counted = Total(float(released), 2 / complete_epsilon**2)
    return CountingView(MemorySource(complete), "observed", counted, True, gate)


def release_row_count(
    source: MarginalSource, *, epsilon: float, budget: Budget, noise: NoiseSource
) -> Total:
    """Release the number of all rows by discrete Laplace noise, which is pure."""
    released = release_counts(
        lambda: source.counts([()], rows="extended")[()],
        noise="laplace",
        scale=scale_for(1.0, epsilon),
        sensitivity=1,
        budget=budget,
        source=noise,
        label="number of rows",
    )
    return Total(float(released), 2 / epsilon**2)


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
