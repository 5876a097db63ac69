"""Imputation first: private imputers that fill each row on its own, before synthesis."""

from __future__ import annotations

from functools import partial
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget
from missdp.mechanisms import NoiseSource, release_counts
from missdp.schema import AnyAttribute, Numeric, Schema
from missdp.sources import MemorySource
from missdp.synth.projection import project_to_simplex
from missdp.table import Table

__all__ = ["Imputer", "impute_table"]

Imputer: TypeAlias = Literal["random", "marginal", "mean"]


def impute_table(
    table: Table,
    imputer: Imputer,
    *,
    epsilon: float,
    budget: Budget,
    noise: NoiseSource,
    rng: np.random.Generator,
) -> Table:
    """Fill every hole of a private table with a value that depends on released numbers only.

    Given what was released, each row is filled on its own, so adding or removing one row still
    changes the filled table by one row: later mechanisms keep their sensitivity.

    Parameters
    ----------
    table : Table
        Private rows.
    imputer : {"random", "marginal", "mean"}
        ``"random"`` draws from the public domain and costs nothing. ``"marginal"`` draws from the
        released one-way margin of the observed cells. ``"mean"`` is the baseline of Mohapatra et
        al. (2024): the released mean for numeric attributes, a draw from the margin for others.
    epsilon : float
        Pure-DP budget of the margins, split evenly over the nullable attributes; ignored by
        ``"random"``.
    budget : Budget
        Charged before any margin is counted.
    noise : NoiseSource
    rng : numpy Generator

    Returns
    -------
    Table
        Private rows without holes; no attribute is nullable any more.
    """
    laws = (
        {name: np.full(table.schema[name].size, 1.0) for name in table.schema.nullable}
        if imputer == "random"
        else _released_margins(table, epsilon, budget, noise)
    )
    codes = {}
    for attribute in table.schema:
        cells = table.codes(attribute.name).astype(np.int64)
        hole = table.mask(attribute.name)
        if attribute.nullable:
            law = laws[attribute.name] / laws[attribute.name].sum()
            cells[hole] = _draw(attribute, law, imputer, int(hole.sum()), rng)
        codes[attribute.name] = cells
    return Table.from_codes(complete_schema(table.schema), codes, kind=table.kind)


def complete_schema(schema: Schema) -> Schema:
    """Return the schema of a table whose holes have been filled."""
    closed = {"nullable": False, "missing_codes": (), "outside": "error"}
    return Schema(tuple(a.model_copy(update=closed) for a in schema))


def _released_margins(
    table: Table, epsilon: float, budget: Budget, noise: NoiseSource
) -> dict[str, NDArray[np.float64]]:
    source = MemorySource(table)
    names = table.schema.nullable

    def observed(name: str) -> NDArray[np.int64]:
        return source.counts([(name,)], rows="observed")[(name,)]

    laws = {}
    for name in names:
        released = release_counts(
            partial(observed, name),
            noise="laplace",
            scale=len(names) / epsilon,
            sensitivity=1,
            budget=budget,
            source=noise,
            gate=frozenset({name}),
            label=f"margin of {name} for imputation",
        )
        share = released / max(1.0, float(released.sum()))
        laws[name] = project_to_simplex(share)
    return laws


def _draw(
    attribute: AnyAttribute,
    law: NDArray[np.float64],
    imputer: Imputer,
    n: int,
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    if imputer == "mean" and isinstance(attribute, Numeric):
        edges = attribute.bin_edges
        mean = float(law @ (edges[:-1] + edges[1:])) / 2
        return np.full(n, attribute.encode_values(np.array([mean]))[0])
    return rng.choice(attribute.size, size=n, p=law)
