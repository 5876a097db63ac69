"""Chains of transformations: the stability of a composition, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from missdp.accounting import Condition
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.mechanisms.row_domain import RowDomain
from missdp.mechanisms.table_distance import NEIGHBOURS, TableDistance
from missdp.transforms.base import StableTransformer

__all__ = ["Stage", "trace"]

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Stage:
    """One step of a chain with the public facts on either side of it.

    Parameters
    ----------
    name : str
        The step's name.
    step : StableTransformer
        The step.
    domain, distance : RowDomain, TableDistance
        What reaches the step.
    domain_after, distance_after : RowDomain, TableDistance
        What leaves it.
    alone : TableDistance
        The step's own response to one replaced row.
    conditions : tuple of Condition
        What the step assumes of the tables that reach it.
    """

    name: str
    step: StableTransformer
    domain: RowDomain
    distance: TableDistance
    domain_after: RowDomain
    distance_after: TableDistance
    alone: TableDistance
    conditions: tuple[Condition, ...]

    def run(self, table: FloatArray) -> FloatArray:
        """Fit the step on a table, apply it, and forget what was learned; private."""
        fresh: StableTransformer = clone(self.step)
        return np.asarray(fresh.fit_transform(table))

    def margin(self, table: FloatArray) -> float:
        """Return the step's distance to failure of its conditions; private."""
        return self.step.failure_margin(table, self.distance, self.domain)


def trace(
    steps: Iterable[tuple[str, StableTransformer]],
    domain: RowDomain,
    *,
    distance: TableDistance = NEIGHBOURS,
) -> tuple[Stage, ...]:
    """Follow a pair of neighbouring tables through a chain of steps.

    Each step's map takes the distance its predecessor leaves: maps are monotone, and two tables
    of the collection satisfy every step's conditions where they reach it.

    Parameters
    ----------
    steps : iterable of (str, StableTransformer)
        In order.
    domain : RowDomain
        Public facts about the raw table.
    distance : TableDistance, default one replaced row
        Of the raw tables.

    Returns
    -------
    tuple of Stage

    Raises
    ------
    UnprovenError
        If the map of a step is not known for what reaches it; the message names the step.
    ParameterError
        If something is not a transformation of this library, or cannot take its input.

    Examples
    --------
    >>> from missdp.transforms import MeanImputer, PCARankReducer
    >>> steps = [("impute", MeanImputer(max_incomplete=10, cells_per_row=1)),
    ...          ("pca", PCARankReducer(n_components=2, least_gap=0.2))]
    >>> last = trace(steps, RowDomain(rows=1000, columns=5, complete=False))[-1]
    >>> last.distance_after.moved_rows, round(last.distance_after.moved_max, 4)
    (999, 0.0392)
    """
    stages: list[Stage] = []
    for name, step in _checked(steps):
        stage = _stage(name, step, domain, distance)
        stages.append(stage)
        domain, distance = stage.domain_after, stage.distance_after
    return tuple(stages)


def _stage(name: str, step: StableTransformer, domain: RowDomain, distance: TableDistance) -> Stage:
    with (
        replacing(UnprovenError, by=lambda e: UnprovenError(f"no bound for step {name!r}: {e}")),
        replacing(ParameterError, by=lambda e: ParameterError(f"step {name!r}: {e}")),
    ):
        return Stage(
            name=name,
            step=step,
            domain=domain,
            distance=distance,
            domain_after=step.output_domain(domain),
            distance_after=step.stability(distance, domain),
            alone=step.stability(NEIGHBOURS, domain),
            conditions=step.conditions(domain),
        )


def _checked(
    steps: Iterable[tuple[str, StableTransformer]],
) -> Sequence[tuple[str, StableTransformer]]:
    checked = []
    for name, step in steps:
        if not isinstance(step, StableTransformer):
            raise UnprovenError(
                f"step {name!r} is a {type(step).__name__}, whose stability is not known; use the "
                "transformations of missdp.transforms"
            )
        checked.append((str(name), step))
    return checked
