"""What a question costs after a chain of steps: the best of every bound that applies."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from sklearn.base import clone

from missdp.accounting import (
    Condition,
    DeclaredRowCount,
    Event,
    Guarantee,
    PublicDomain,
    PureEvent,
    RDPEvent,
    ZCDPEvent,
    epsilon_under,
)
from missdp.errors import ParameterError, UnprovenError, replacing
from missdp.pricing.domain import FloatArray, RowDomain
from missdp.pricing.maps import NEIGHBOURS, Curve, PrivacyMap, TableDistance, tabulated
from missdp.pricing.steps import StableTransformer
from missdp.pricing.vector_query import Question

__all__ = [
    "ORDERS",
    "Bound",
    "PreparedRows",
    "Stage",
    "bounds",
    "overall_curve",
    "theorem_two",
    "trace",
]


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
    >>> from missdp.pricing import MeanImputer, PCARankReducer
    >>> steps = [("impute", MeanImputer(max_incomplete=10, cells_per_row=1)),
    ...          ("pca", PCARankReducer(n_components=2, least_gap=0.2))]
    >>> last = trace(steps, RowDomain(rows=1000, columns=5, complete=False))[-1]
    >>> last.distance_after.moved_rows, round(last.distance_after.moved_max, 4)
    (999, 0.0392)
    """
    stages: list[Stage] = []
    for name, step in steps:
        if not isinstance(step, StableTransformer):
            raise UnprovenError(
                f"step {name!r} is a {type(step).__name__}, whose stability is not known; use the "
                "transformations of missdp.pricing"
            )
        stage = _stage(str(name), step, domain, distance)
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


def theorem_two(alpha: float, replaced: Curve, moved: Curve, *, c: float | None = None) -> float:
    """Combine RDP and smooth RDP by the weak triangle inequality, with the best split.

    Parameters
    ----------
    alpha : float
        Order above 1.
    replaced, moved : callable
        Bounds on the divergence at any order above 1, when rows are only replaced or only move.
    c : float or None, default None
        A fixed split (Hu, Sanyal & Schölkopf 2024 use 2); None: optimised.

    Returns
    -------
    float
        A bound at ``alpha`` when rows are replaced and others move.

    Notes
    -----
    D_alpha(1 | 2) <= (c alpha - 1) / (c (alpha - 1)) D_{c alpha}(1 | 3)
    + D_{(c alpha - 1) / (c - 1)}(3 | 2) for every c > 1 and every law 3 (Mironov 2017). The table
    in between may have the replaced rows of one side and the moved rows of the other, or the
    other way about, in *either* direction: the better of the two counts. Hu, Sanyal &
    Schölkopf (2024), Theorem 2, take the worse one.

    Examples
    --------
    >>> half = lambda a: a / 2
    >>> round(theorem_two(11.0, half, half, c=2.0), 3), round(theorem_two(11.0, half, half), 3)
    (22.05, 22.0)
    """
    if c is not None:
        return _split(alpha, replaced, moved, c)
    grid = 1 + np.exp(np.linspace(-7.0, 7.0, 57))
    values = [_split(alpha, replaced, moved, float(x)) for x in grid]
    best = int(np.argmin(values))
    low, high = grid[max(0, best - 1)], grid[min(grid.size - 1, best + 1)]
    fine = np.linspace(low, high, 33)
    return min(values[best], min(_split(alpha, replaced, moved, float(x)) for x in fine))


def _split(alpha: float, replaced: Curve, moved: Curve, c: float) -> float:
    first, second = c * alpha, (c * alpha - 1) / (c - 1)
    weight = (c * alpha - 1) / (c * (alpha - 1))
    return min(
        weight * replaced(first) + moved(second),
        weight * moved(first) + replaced(second),
    )


ORDERS: tuple[float, ...] = tuple(
    float(a)
    for a in np.unique(
        np.concatenate(
            [np.arange(1.1, 3.0, 0.1), np.arange(3.0, 12.0, 0.5), np.geomspace(12, 4096, 40)]
        ).round(3)
    )
)


@dataclass(frozen=True)
class Bound:
    """One bound on the privacy of a whole pipeline.

    Parameters
    ----------
    name : {"direct", "theorem 2", "group privacy"}
        How it was derived.
    epsilon : float
        At the delta asked for; possibly infinite.
    event : Event
        What was accounted, a fact under replace-one.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> Bound("direct", 1.0, PureEvent(epsilon=1.0, adjacency="replace-one")).epsilon
    1.0
    """

    name: str
    epsilon: float
    event: Event


def bounds(
    mechanism: PrivacyMap, distance: TableDistance, delta: float, *, label: str = ""
) -> tuple[Bound, ...]:
    """Return every bound that applies, the best first.

    Parameters
    ----------
    mechanism : PrivacyMap
        Of the mechanism that ends the pipeline.
    distance : TableDistance
        What preprocessing leaves of one replaced row.
    delta : float
        In [0, 1); at 0 only pure DP counts.
    label : str, default ""
        Public name for the events.

    Returns
    -------
    tuple of Bound
        *Direct*: replaced and moved rows at once, where the mechanism has such a bound.
        *Theorem 2*: RDP and smooth RDP by the weak triangle inequality with optimised splits.
        *Group privacy*: every moved row counts as replaced.

    Raises
    ------
    UnprovenError
        If none of them is finite.

    Examples
    --------
    >>> from missdp.pricing.maps import LaplaceMap, Sensitivity
    >>> laplace = LaplaceMap(sensitivity=Sensitivity(replaced=1.0, l12=1.0), scale=1.0)
    >>> moved = TableDistance(replaced=1, moved_rows=10, moved_max=0.05)
    >>> [(bound.name, bound.epsilon) for bound in bounds(laplace, moved, 0.0)]
    [('direct', 1.5), ('group privacy', 11.0)]
    """
    found = [_best("direct", _direct_events(mechanism, distance, label), delta)]
    if distance.moved_rows:
        found.append(_best("theorem 2", _theorem_events(mechanism, distance, label), delta))
        coarse = distance.forget_movement()
        found.append(_best("group privacy", _direct_events(mechanism, coarse, label), delta))
    finite = sorted((b for b in found if b is not None), key=lambda bound: bound.epsilon)
    if not finite:
        raise UnprovenError(
            "no finite bound is known for this mechanism after this preprocessing"
            + (" at delta 0: state a delta" if delta == 0 else "")
        )
    return tuple(finite)


def overall_curve(mechanism: PrivacyMap, distance: TableDistance, alpha: float) -> float:
    """Return the smallest Rényi bound at one order, over all three derivations.

    Examples
    --------
    >>> from missdp.pricing.maps import GaussianMap, Sensitivity
    >>> gaussian = GaussianMap(sensitivity=Sensitivity(replaced=1.0, l12=1.0), sigma=1.0)
    >>> moved = TableDistance(replaced=1, moved_rows=10, moved_max=0.1)
    >>> overall_curve(gaussian, moved, 11.0)
    22.0
    """
    return min(
        mechanism.curve(alpha, distance),
        _theorem(mechanism, distance, alpha),
        mechanism.curve(alpha, distance.forget_movement()),
    )


def _theorem(mechanism: PrivacyMap, distance: TableDistance, alpha: float) -> float:
    return theorem_two(alpha, *_curves(mechanism, distance))


def _curves(mechanism: PrivacyMap, distance: TableDistance) -> tuple[Curve, Curve]:
    return (
        lambda a: mechanism.replaced_curve(a, distance.replaced),
        lambda a: mechanism.moved_curve(a, distance),
    )


def _direct_events(mechanism: PrivacyMap, distance: TableDistance, label: str) -> list[Event]:
    events: list[Event] = []
    rho, pure = mechanism.rho(distance), mechanism.pure(distance)
    if math.isfinite(rho):
        events.append(ZCDPEvent(rho=rho, label=label, adjacency="replace-one"))
    if math.isfinite(pure):
        events.append(PureEvent(epsilon=pure, label=label, adjacency="replace-one"))
    if not events:
        events += _rdp_events([mechanism.curve(a, distance) for a in ORDERS], label)
    return events


def _theorem_events(mechanism: PrivacyMap, distance: TableDistance, label: str) -> list[Event]:
    if math.isinf(mechanism.moved_curve(2.0, distance)):
        return []
    replaced, moved = (tabulated(curve) for curve in _curves(mechanism, distance))
    return _rdp_events([theorem_two(a, replaced, moved) for a in ORDERS], label)


def _rdp_events(curve: Iterable[float], label: str) -> list[Event]:
    finite = [(a, e) for a, e in zip(ORDERS, curve, strict=True) if math.isfinite(e)]
    if not finite:
        return []
    orders, epsilons = zip(*finite, strict=True)
    return [RDPEvent(orders=orders, epsilons=epsilons, label=label, adjacency="replace-one")]


def _best(name: str, events: list[Event], delta: float) -> Bound | None:
    if delta == 0:
        events = [event for event in events if isinstance(event, PureEvent)]
    candidates = [Bound(name, epsilon_under(e, delta, "replace-one"), e) for e in events]
    finite = [bound for bound in candidates if math.isfinite(bound.epsilon)]
    return min(finite, key=lambda bound: bound.epsilon, default=None)


@dataclass(frozen=True, kw_only=True)
class PreparedRows:
    """Public facts about rows on their way to a question, and what follows for its price.

    Parameters
    ----------
    raw : RowDomain
        What rows are brought into first.
    label : str
        Who asks: public name for events and refusals.
    delta : float
        At which guarantees are stated and the best bound is chosen.
    steps : tuple of Stage, default ()
        Preprocessing, in order.
    assumed : tuple of Condition, default ()
        What every answer rests on besides.

    Examples
    --------
    >>> from missdp.pricing.vector_query import VectorQuery
    >>> facts = PreparedRows(raw=RowDomain(rows=100, columns=2), label="mean", delta=1e-6)
    >>> query = VectorQuery.mean(facts.domain, multiplier=5.0)
    >>> facts.bounds(query)[0].name
    'direct'
    """

    raw: RowDomain
    label: str
    delta: float
    steps: tuple[Stage, ...] = ()
    assumed: tuple[Condition, ...] = ()

    @property
    def domain(self) -> RowDomain:
        """What rows are like where a question reads them."""
        domain = self.steps[-1].domain_after if self.steps else self.raw
        if not domain.complete:
            raise ParameterError("the estimator takes complete rows; put an imputation before it")
        return domain

    @property
    def distance(self) -> TableDistance:
        """How far neighbours are apart there."""
        return self.steps[-1].distance_after if self.steps else NEIGHBOURS

    def bounds(self, question: Question) -> tuple[Bound, ...]:
        """Return every bound on what the answer reveals, the best first."""
        if question.domain != self.domain:
            raise ParameterError("the question is about rows of another domain than these")
        return bounds(question.privacy_map, self.distance, self.delta, label=self.label)

    def conditions(self, question: Question, *, tested: bool = False) -> tuple[Condition, ...]:
        """Return what an answer rests on; without the steps' conditions if these are tested.

        What is not about the table is not tested.
        """
        stated = dict.fromkeys(c for step in self.steps for c in step.conditions)
        steps = [c for c in stated if not (tested and getattr(c, "about_rows", True))]
        shape = (DeclaredRowCount(self.raw.rows), PublicDomain())
        return (*shape, *self.assumed, *question.conditions, *steps)

    def guarantee(self, question: Question, event: Event, *, tested: bool = False) -> Guarantee:
        """Return the guarantee of an answer that is charged with this event."""
        return Guarantee.from_events(
            [event],
            delta=self.delta,
            adjacency="replace-one",
            conditions=self.conditions(question, tested=tested),
        )
