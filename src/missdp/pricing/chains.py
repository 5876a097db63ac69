"""Chains of steps: the distance of neighbouring tables along a chain, and public facts at its end.

Public facts alone decide the distance along a chain. `StandardisedFacts` price the queries about
the rows that leave it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from missdp.accounting import Condition, DeclaredRowCount, Event, Guarantee, PublicDomain
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.estimator import clone
from missdp.pricing.domain import NEIGHBOURS, RowDomain, TableDistance, require
from missdp.pricing.privacy_maps import Bound, bounds
from missdp.pricing.queries import Question
from missdp.pricing.steps import StableTransformer
from missdp.types import Floats


@dataclass(frozen=True)
class Stage:
    """One step of a chain with the public facts on either side of it.

    ``domain`` and ``distance`` describe the tables that reach the step, ``domain_after`` and
    ``distance_after`` the tables that leave it. ``response`` is the distance that the step alone
    makes of one replaced row.
    """

    name: str
    step: StableTransformer
    domain: RowDomain
    distance: TableDistance
    domain_after: RowDomain
    distance_after: TableDistance
    response: TableDistance
    conditions: tuple[Condition, ...]

    def run(self, table: Floats) -> Floats:
        """Fit the step on a private table, apply it, and forget the fitted step.

        Parameters
        ----------
        table : ndarray, shape (n_rows, n_columns)
            Private rows.

        Returns
        -------
        ndarray, shape (n_rows, n_output_columns)
            Private rows.
        """
        fresh: StableTransformer = clone(self.step)
        return np.asarray(fresh.fit_transform(table))

    def distance_to_failure(self, table: Floats) -> float:
        """Return the private distance to failure of the step's conditions.

        Parameters
        ----------
        table : ndarray, shape (n_rows, n_columns)
            Private rows that reach the step.

        Returns
        -------
        float
            A number of row replacements. Private.
        """
        return self.step.distance_to_failure(table, self.distance, self.domain)


def trace(steps: Iterable[tuple[str, StableTransformer]], domain: RowDomain) -> tuple[Stage, ...]:
    """Follow a pair of neighbouring tables through a chain of steps.

    Each step's map takes the distance after its predecessor. Maps are monotone, and two tables of
    the collection satisfy the conditions of every step.

    Parameters
    ----------
    steps : iterable of (str, StableTransformer)
        Names and steps, in order. They are cloned: later changes by the caller have no effect.
    domain : RowDomain
        Public facts about the raw tables.

    Returns
    -------
    tuple of Stage
        One for each step.

    Raises
    ------
    UnprovenError
        If a step has no proven map for the tables that reach it. The message names the step.
    ParameterError
        If something is not a transformation of this library, or cannot take its input.

    Examples
    --------
    >>> from missdp.pricing import MeanImputer, PCARankReducer
    >>> steps = [("impute", MeanImputer(max_incomplete=10, cells_per_row=1)),
    ...          ("pca", PCARankReducer(n_components=2, min_gap=0.2))]
    >>> last = trace(steps, RowDomain(rows=1000, columns=5, complete=False))[-1]
    >>> last.distance_after.shifted_rows, round(last.distance_after.max_shift, 4)
    (999, 0.0392)
    """
    stages: list[Stage] = []
    distance = NEIGHBOURS
    for name, step in steps:
        if not isinstance(step, StableTransformer):
            raise UnprovenError(
                f"step {name!r} is a {type(step).__name__}, whose stability is not proven. Use the "
                "transformations of missdp.pricing"
            )
        stage = _stage(str(name), clone(step), domain, distance)
        stages.append(stage)
        domain, distance = stage.domain_after, stage.distance_after
    return tuple(stages)


def _stage(name: str, step: StableTransformer, domain: RowDomain, distance: TableDistance) -> Stage:
    with (
        replacing(UnprovenError, by=lambda e: UnprovenError(f"no bound for step {name!r}: {e}")),
        replacing(ParameterError, by=lambda e: ParameterError(f"step {name!r}: {e}")),
    ):
        after = step.output_domain(domain), step.stability(distance, domain)
        response = step.stability(NEIGHBOURS, domain)
        return Stage(name, step, domain, distance, *after, response, step.conditions(domain))


@dataclass(frozen=True, kw_only=True)
class StandardisedFacts:
    """Public facts about standardised rows, and the price of a query about them.

    Attributes
    ----------
    raw : RowDomain
        Rows are brought into this domain first.
    label : str
        The name of the estimator, in events and refusals.
    delta : float
        Guarantees are stated, and the best bound is chosen, at this delta.
    steps : tuple of Stage
        The steps that rows pass before a query reads them.
    assumed : tuple of Condition
        Conditions of every answer, in addition to the conditions of the steps.
    """

    raw: RowDomain
    label: str
    delta: float
    steps: tuple[Stage, ...] = ()
    assumed: tuple[Condition, ...] = ()

    @property
    def domain(self) -> RowDomain:
        """Public facts about the rows as a query reads them."""
        domain = self.steps[-1].domain_after if self.steps else self.raw
        require(domain.complete, "the estimator takes complete rows. Put an imputation before it")
        return domain

    @property
    def distance(self) -> TableDistance:
        """Distance of neighbouring tables as a query reads them."""
        return self.steps[-1].distance_after if self.steps else NEIGHBOURS

    def bounds(self, question: Question) -> tuple[Bound, ...]:
        """Return every bound on the privacy loss of the answer, the best first.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of these rows.

        Returns
        -------
        tuple of Bound
            Public, for ``delta``.
        """
        same = question.domain == self.domain
        require(same, "the question is about rows of another domain than these")
        return bounds(question.privacy_map, self.distance, self.delta, label=self.label)

    def conditions(self, *, tested: bool = False) -> tuple[Condition, ...]:
        """Return the conditions of every answer, without those on the table if it is tested.

        Parameters
        ----------
        tested : bool, default False
            True if a private test stands in for conditions on the table.

        Returns
        -------
        tuple of Condition
            Public.
        """
        stated = dict.fromkeys(c for step in self.steps for c in step.conditions)
        steps = [c for c in stated if not (tested and getattr(c, "about_rows", True))]
        return (DeclaredRowCount(self.raw.rows), PublicDomain(), *self.assumed, *steps)

    def guarantee(self, event: Event, *, tested: bool = False) -> Guarantee:
        """Return the guarantee of an answer that is charged with this event.

        Parameters
        ----------
        event : Event
            The charge, under replace-one adjacency.
        tested : bool, default False
            As for `conditions`.

        Returns
        -------
        Guarantee
            Public, at ``delta``.
        """
        return Guarantee.from_events(
            [event],
            delta=self.delta,
            adjacency="replace-one",
            conditions=self.conditions(tested=tested),
        )
