"""Compositions: the joint (epsilon, delta) cost of events that were all fixed in advance.

Each bound is valid, and the smallest counts. Privacy measures add up costs
(`missdp.accounting.measures`), Rényi divergences add up order by order (`missdp.accounting.renyi`),
and privacy loss distributions are composed (`missdp.accounting.loss_distributions`). All bounds
hold for queries that depend on earlier answers, with privacy parameters that do not. A `Filter`
covers parameters that do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from missdp.accounting.events import Adjacency, Event, Protects, convert_adjacency, flatten
from missdp.accounting.exact import (
    add_remove_share,
    exact,
    float_down,
    total,
)
from missdp.accounting.loss_distributions import (
    MAX_TOTAL,
    composed_epsilon,
    rough_epsilon,
    tabulated_event,
)
from missdp.accounting.measures import (
    MEASURES,
    Measure,
    PrivacyMeasure,
    approximate_delta,
    has_bound,
)
from missdp.accounting.renyi import epsilon_from_rdp, rdp_curve, renyi_curve
from missdp.errors import UnprovenError, check_delta

# More distinct kinds of events than this cost loss distributions seconds for little gain.
_MAX_DISTINCT = 400


def epsilon_of(events: Event | Iterable[Event], delta: float) -> float:
    """Return the smallest epsilon that is proven for several releases together at a delta.

    Parameters
    ----------
    events : Event or iterable of Event
        Accounting events of releases that were fixed in advance, all under one adjacency.
    delta : float
        The delta of the joint guarantee, in [0, 1). At 0 only pure DP counts.

    Returns
    -------
    float
        At least 0. Infinity if nothing is proven at this delta, for example because the events have
        larger deltas together.

    Raises
    ------
    UnprovenError
        If no bound covers every event, or the events mix adjacencies.
    ParameterError
        If delta is out of range, or an element is not an `Event`.

    Notes
    -----
    No private rows are read. The releases together are (epsilon, delta)-DP under the adjacency of
    the events. Epsilon is the smallest of several proven bounds: sums of pure epsilons, zCDP,
    Gaussian DP, Rényi divergences, and privacy loss distributions.

    Examples
    --------
    >>> from missdp.accounting import epsilon_of
    >>> from missdp.accounting import LaplaceEvent
    >>> epsilon_of([LaplaceEvent(sensitivity=1, scale=2.0)] * 2, 0.0)
    1.0
    """
    return _smallest(flatten(events), check_delta("delta", delta))


def proven_epsilon(
    events: Event | Iterable[Event],
    delta: float,
    adjacency: Adjacency = "add-remove",
    *,
    protects: Protects = "incomplete",
    enough: float = 0.0,
) -> float:
    """Return the smallest epsilon that releases prove under a requested adjacency and delta.

    Add-remove events are converted to replace-one adjacency one by one, or as a whole. Replacing a
    row is removing a row and adding another row (`replace_one_of`). The smaller result counts.

    Parameters
    ----------
    events : Event or iterable of Event
        Accounting events of releases that were fixed in advance. A single event may carry a
        separate proof (`Event.epsilon_bound`).
    delta : float
        The delta of the guarantee that is to be proven, in [0, 1).
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation of the guarantee.
    protects : {"incomplete", "ground-truth"}, default "incomplete"
        The protected table: the incomplete table, or the table before values went missing. It
        matters for separate proofs only.
    enough : float, default 0.0
        A requested epsilon, at least 0. The search stops at the first bound that is at most
        this. With the default, the smallest bound is returned.

    Returns
    -------
    float
        At least 0. Infinity if nothing is proven at this delta.

    Raises
    ------
    UnprovenError
        If no bound covers the events, or replace-one events are to prove an add-remove guarantee.
    ParameterError
        If delta is out of range, or an element is not an `Event`.

    Notes
    -----
    No private rows are read. The releases together are (epsilon, delta)-DP under the requested
    adjacency.

    Examples
    --------
    >>> from missdp.accounting import proven_epsilon
    >>> from missdp.accounting import LaplaceEvent
    >>> proven_epsilon([LaplaceEvent(sensitivity=1, scale=2.0)], 0.0, "replace-one")
    1.0
    """
    releases = (events,) if isinstance(events, Event) else tuple(events)
    parts, delta, epsilon = flatten(releases), check_delta("delta", delta), math.inf
    if len(releases) == 1:
        epsilon = releases[0].epsilon_bound(delta, adjacency=adjacency, protects=protects)
    unproven: UnprovenError | None = None
    if epsilon > enough:
        try:
            converted = convert_adjacency(adjacency, parts)
            epsilon = min(epsilon, _smallest(converted, delta, enough=enough))
        except UnprovenError as error:
            unproven = error
    converts = adjacency == "replace-one" and all(e.adjacency == "add-remove" for e in parts)
    if epsilon > enough and converts:
        try:
            epsilon = min(epsilon, _in_two_steps(releases, delta, protects, enough))
        except UnprovenError as error:
            unproven = error
    if unproven is not None and math.isinf(epsilon):
        raise unproven
    return epsilon


def _in_two_steps(
    events: Sequence[Event], delta: float, protects: Protects, enough: float
) -> float:
    """Return an epsilon under replace-one: a row is removed, and another one is added."""

    def single(epsilon: float, enough: float = 0.0) -> float:
        share = add_remove_share(epsilon, delta)
        return proven_epsilon(events, share, protects=protects, enough=enough)

    if enough and single(enough / 2, enough / 2) <= enough / 2:
        return enough
    return 2 * _fixed_point(single)


def _fixed_point(needed: Callable[[float], float]) -> float:
    """Return an e with needed(e) <= e, nearly the smallest, or infinity if there is none.

    ``needed`` falls with e, so every iterate is a valid bound.
    """
    high = next((2.0**k for k in range(10) if needed(2.0**k) <= 2.0**k), math.inf)
    for _ in range(30):
        high, before = min(high, needed(high)), high
        if not before - high > 1e-6 * before:
            break
    return high


def _smallest(parts: tuple[Event, ...], delta: float, *, enough: float = 0.0) -> float:
    """Return the smallest bound, or the first that is enough. The slow bound comes last."""
    if not parts:
        return 0.0
    additive = applicable_measures(parts)
    spare = exact(delta) - total(exact(approximate_delta(event)) for event in parts)
    best = math.inf
    for measure in additive.values() if spare >= 0 else ():
        best = min(best, measure.epsilon(measure.total(parts), float_down(spare)))
        if best <= enough:
            return best
    curved, tabular = other_bounds(parts, has_measure=bool(additive))
    if delta == 0:  # a small positive divergence may be 0 in floating point
        return best
    if curved and spare > 0:
        best = min(best, epsilon_from_rdp(*renyi_curve(parts), float_down(spare)))
    if tabular and best > enough and not MAX_TOTAL < rough_epsilon(parts, best, delta) < math.inf:
        best = min(best, composed_epsilon(parts, delta))
    return best


def applicable_measures(parts: tuple[Event, ...]) -> dict[PrivacyMeasure, Measure]:
    """Return the privacy measures in which every release has a cost.

    Parameters
    ----------
    parts : tuple of Event
        Elementary accounting events.

    Returns
    -------
    dict of str to Measure
        The measures by name, possibly none.

    Raises
    ------
    UnprovenError
        If the events mix adjacencies.
    """
    if len({event.adjacency for event in parts}) > 1:
        raise UnprovenError("the events mix adjacencies; convert them with to_replace_one() first")
    kinds = set(parts)
    return {n: m for n, m in MEASURES.items() if all(has_bound(m.cost, event) for event in kinds)}


def other_bounds(parts: tuple[Event, ...], *, has_measure: bool) -> tuple[bool, bool]:
    """Return whether Rényi divergences and privacy loss distributions bound all releases.

    Parameters
    ----------
    parts : tuple of Event
        Elementary accounting events under one adjacency.
    has_measure : bool
        Whether `applicable_measures` returns a measure for these events.

    Returns
    -------
    curved : bool
        Whether every event has a Rényi curve.
    tabular : bool
        Whether every event has a privacy loss distribution, and composing them is not too slow.

    Raises
    ------
    UnprovenError
        If no bound covers the events, and no measure does.
    """
    kinds = set(parts)
    curved = all(has_bound(rdp_curve, event) for event in kinds)
    tabular = all(has_bound(tabulated_event, event) for event in kinds)
    if not (has_measure or curved or tabular):
        named = ", ".join(sorted({type(event).__name__ for event in kinds}))
        raise UnprovenError(f"no bound is proven for a composition of these events: {named}")
    few = not tabular or len(set(map(tabulated_event, kinds))) <= _MAX_DISTINCT
    return curved, tabular and (few or not (has_measure or curved))
