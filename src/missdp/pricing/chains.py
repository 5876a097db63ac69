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
    """One preprocessing step in a chain, with public facts about the tables before and after it.

    `trace` returns one for each step. A pair of neighbouring tables differs in one replaced row
    before the first step.

    Parameters
    ----------
    name : str
        Name of the step.
    step : StableTransformer
        The step, not fitted.
    domain : RowDomain
        Public facts about the tables that reach the step.
    distance : TableDistance
        Public upper bound on the difference between neighbouring tables that reach the step.
    domain_after : RowDomain
        Public facts about the tables that leave the step.
    distance_after : TableDistance
        Public upper bound on the difference between neighbouring tables that leave the step.
    response : TableDistance
        Public upper bound on the difference that the step alone makes between two tables that
        differ in one replaced row.
    conditions : tuple of Condition
        Conditions of the step. They are stated with the guarantee and are not checked against
        the table.

    Examples
    --------
    >>> from missdp.pricing import RowDomain, trace
    >>> from missdp.pricing import RowClipper
    >>> (stage,) = trace([("clip", RowClipper(radius=0.5))], RowDomain(rows=100, columns=2))
    >>> stage.name, stage.domain_after.radius
    ('clip', 0.5)
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
        """Fit a preprocessing step to a private table, apply it, and forget the fitted step.

        Nothing is charged, because nothing is released.

        Parameters
        ----------
        table : ndarray of float, shape (n_rows, n_columns)
            Private rows that reach the step.

        Returns
        -------
        ndarray of float, shape (n_rows, n_output_columns)
            Private rows.

        Raises
        ------
        DataError
            If the table has no row, or missing cells although the step needs complete rows.
        """
        fresh: StableTransformer = clone(self.step)
        return np.asarray(fresh.fit_transform(table))

    def distance_to_failure(self, table: Floats) -> float:
        """Return how many rows must at least be replaced before the conditions of a step fail.

        Parameters
        ----------
        table : ndarray of float, shape (n_rows, n_columns)
            Private rows that reach the step.

        Returns
        -------
        float
            A number of row replacements, at least 0. Private.

        Raises
        ------
        UnprovenError
            If no lower bound is known for the conditions of the step.
        """
        return self.step.distance_to_failure(table, self.distance, self.domain)


def trace(steps: Iterable[tuple[str, StableTransformer]], domain: RowDomain) -> tuple[Stage, ...]:
    """Return public facts about the tables before and after each step of a preprocessing chain.

    It bounds the difference of two neighbouring tables along the chain. Each step's bound starts
    from the bound after its predecessor. The two tables must satisfy the conditions of every step.
    No data is read.

    Parameters
    ----------
    steps : iterable of (str, StableTransformer)
        Names and steps, in order. They are copied: later changes by the caller have no effect.
    domain : RowDomain
        Public facts about the raw tables.

    Returns
    -------
    tuple of Stage
        Public. One for each step, in order.

    Raises
    ------
    UnprovenError
        If an object is not a step of this package, or a step has no proven bound for the tables
        that reach it. The message names the step.
    ParameterError
        If a step does not accept the tables that reach it. The message names the step.

    Examples
    --------
    >>> from missdp.pricing import RowDomain, trace
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
    """Public facts about rows after a preprocessing chain, with prices of queries about them.

    `PricedPipeline.facts_and_query` returns them. They hold no private data, so prices and
    guarantees are known before a fit.

    Parameters
    ----------
    raw : RowDomain
        Public facts about the raw rows, which are brought into this domain first.
    label : str
        Name of the estimator, in accounting events and error messages.
    delta : float
        The delta at which guarantees are stated and the best bound is chosen, in [0, 1).
    steps : tuple of Stage, default ()
        The steps that rows pass before a query reads them, in order.
    assumed : tuple of Condition, default ()
        Conditions of the guarantee of every answer, in addition to the conditions of the steps.

    Examples
    --------
    >>> from missdp.pricing import RowDomain, StandardisedFacts
    >>> facts = StandardisedFacts(raw=RowDomain(rows=100, columns=2), label="mean", delta=1e-6)
    >>> facts.distance.replaced
    1
    """

    raw: RowDomain
    label: str
    delta: float
    steps: tuple[Stage, ...] = ()
    assumed: tuple[Condition, ...] = ()

    @property
    def domain(self) -> RowDomain:
        """Public facts about the rows after all preprocessing steps, as a query reads the rows.

        Returns
        -------
        RowDomain
            Shape and largest row norm of the preprocessed table. It is complete.

        Raises
        ------
        ParameterError
            If cells may still be missing.
        """
        domain = self.steps[-1].domain_after if self.steps else self.raw
        require(domain.complete, "the estimator takes complete rows. Put an imputation before it")
        return domain

    @property
    def distance(self) -> TableDistance:
        """Public bound on the difference of neighbouring tables after all preprocessing steps.

        Returns
        -------
        TableDistance
            Number of replaced rows, and distances of shifted rows in units of the last step's
            columns. `NEIGHBOURS`, one replaced row, if there are no steps. Public.
        """
        return self.steps[-1].distance_after if self.steps else NEIGHBOURS

    def bounds(self, question: Question) -> tuple[Bound, ...]:
        """Return every finite bound on the privacy loss of a noisy answer to a query.

        Parameters
        ----------
        question : VectorQuery or GradientQuery
            A query of rows with these facts.

        Returns
        -------
        tuple of Bound
            Public, at ``delta``. The smallest epsilon comes first.

        Raises
        ------
        ParameterError
            If the query is about rows of another domain.
        UnprovenError
            If no bound is finite.
        """
        same = question.domain == self.domain
        require(same, "the question is about rows of another domain than these")
        return bounds(question.privacy_map, self.distance, self.delta, label=self.label)

    def conditions(self, *, tested: bool = False) -> tuple[Condition, ...]:
        """Return the conditions under which the guarantee of a noisy answer holds.

        They are stated with the guarantee and are not checked against the table.

        Parameters
        ----------
        tested : bool, default False
            True if a private test (propose-test-release) replaces the conditions on the table.

        Returns
        -------
        tuple of Condition
            Public. With ``tested``, the conditions of steps on the table are left out.
        """
        stated = dict.fromkeys(c for step in self.steps for c in step.conditions)
        steps = [c for c in stated if not (tested and getattr(c, "about_rows", True))]
        return (DeclaredRowCount(self.raw.rows), PublicDomain(), *self.assumed, *steps)

    def guarantee(self, event: Event, *, tested: bool = False) -> Guarantee:
        """Return the privacy guarantee of a noisy answer that is charged with an accounting event.

        Parameters
        ----------
        event : Event
            Accounting event of the noisy answer, under replace-one adjacency.
        tested : bool, default False
            True if a private test (propose-test-release) replaces the conditions on the table.

        Returns
        -------
        Guarantee
            Public, at ``delta`` and under replace-one adjacency, with all conditions.

        Raises
        ------
        UnprovenError
            If no finite epsilon is proven for the event at ``delta``.
        ParameterError
            If ``delta`` is out of range.
        """
        return Guarantee.from_events(
            [event],
            delta=self.delta,
            adjacency="replace-one",
            conditions=self.conditions(tested=tested),
        )
