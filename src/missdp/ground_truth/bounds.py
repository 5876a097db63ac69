"""The bounds that are proven for a list of gated events, and the smallest of them.

Everything here is under add-remove adjacency. Each function returns None where its proof does not
cover the events.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from missdp.accounting import costs
from missdp.accounting.accountants import FAST_ACCOUNTANTS, delta_of, epsilon_of
from missdp.accounting.conditions import BoundedObservation, Condition, MissingCompletelyAtRandom
from missdp.accounting.costs import (
    approximate_delta,
    is_pure,
    proven,
    pure_cost,
    pure_epsilon,
    rdp_curve,
    zcdp_cost,
    zcdp_rho_of,
)
from missdp.accounting.events import Adjacency, Event
from missdp.accounting.exact import add_remove_share
from missdp.errors import UnprovenError
from missdp.ground_truth.chosen import chosen_costs, chosen_epsilon
from missdp.ground_truth.gates import (
    ChosenGates,
    DataChosenGates,
    FixedGates,
    Structure,
    gate_probability,
)
from missdp.ground_truth.mixture import mask_mixture
from missdp.ground_truth.one_gate import (
    amplified_epsilon,
    distinct_targets_bound,
    gate_loss_distribution,
    gated_epsilon,
    largest_gate_probability,
)
from missdp.ground_truth.partition import candidate_partitions
from missdp.ground_truth.replicas import replica_epsilon

__all__ = ["Bound", "amplify", "best_bound"]


_MAX_DISTINCT = 400
"""More distinct events than this are not composed as privacy loss distributions: too slow."""


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A proven (ε, δ), the name of its proof, and what was relaxed to reach it."""

    epsilon: float
    delta: float
    method: str
    relaxed: tuple[str, ...] = ()


def best_bound(
    events: Sequence[Event],
    delta: float,
    assumption: Condition,
    structure: Structure,
) -> Bound | None:
    """Return the smallest proven bound for elementary add-remove events, or None.

    Parameters
    ----------
    events : sequence of Event
        Elementary events under add-remove adjacency.
    delta : float
        Target δ in [0, 1).
    assumption : Condition
        MissingCompletelyAtRandom or BoundedObservation; others have no amplification.
    structure : FixedGates or DataChosenGates
        Which proofs apply.

    Returns
    -------
    Bound or None

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> event = PureEvent(epsilon=1.0, gate={"a"})
    >>> best_bound([event], 0.0, BoundedObservation(0.5), FixedGates()).method
    'one gate'
    """
    found = [
        bound
        for bound in _proven(events, delta, assumption, structure)
        if bound is not None and math.isfinite(bound.epsilon)
    ]
    # Rounded, so that of two proofs of one number the first in the list is named.
    return min(found, key=lambda bound: round(bound.epsilon, 9), default=None)


def amplify(
    events: Sequence[Event],
    delta: float,
    assumption: Condition,
    structure: Structure,
    adjacency: Adjacency,
    *,
    plain: float,
) -> Bound | None:
    """Return the best amplified bound of elementary events, converted for replace-one adjacency.

    Events that are stated under replace-one adjacency are not amplified: given its mask, a row is
    then compared with another row, not with no row, and the mixture argument does not apply.

    Parameters
    ----------
    events, delta, assumption, structure
        As for `best_bound`.
    adjacency : {"add-remove", "replace-one"}
        The relation of the result.
    plain : float
        Epsilon of the events without amplification, at ``delta``.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> events = [PureEvent(epsilon=1.0, gate={"a"})]
    >>> known = BoundedObservation(0.5), FixedGates()
    >>> round(amplify(events, 0.0, *known, "replace-one", plain=2.0).epsilon, 4)
    1.2402
    """
    if any(event.adjacency != "add-remove" for event in events):
        return None
    if adjacency == "add-remove":
        return best_bound(events, delta, assumption, structure)
    # (1 + e^plain)·inner = delta: enough for the conversion if the result is below plain.
    inner = add_remove_share(plain, delta)
    found = best_bound(events, inner, assumption, structure)
    if found is None or found.epsilon > plain:
        return None
    return replace(found, epsilon=2.0 * found.epsilon, delta=delta)


def _proven(
    events: Sequence[Event],
    delta: float,
    assumption: Condition,
    structure: Structure,
) -> Iterator[Bound | None]:
    if isinstance(assumption, MissingCompletelyAtRandom):
        observed = dict(assumption.observed)
        if isinstance(structure, FixedGates):
            yield _mixture(events, delta, observed)
            yield _partitions(events, delta, observed)
            yield _replicas(events, delta, observed)
            gates = [event.gate for event in events if event.gate]
            core = frozenset.intersection(*gates) if gates else frozenset[str]()
            yield _one_gate(events, delta, gate_probability(core, observed))
        elif isinstance(structure, ChosenGates):
            yield _chosen(events, delta, structure, observed)
        else:
            door = largest_gate_probability(
                structure.attributes,
                observed,
                smallest=structure.smallest,
                always=structure.always,
            )
            yield _any_structure(events, delta, door)
            if structure.distinct_targets:
                yield _distinct_targets(events, delta, structure, observed)
            yield _one_gate(events, delta, gate_probability(structure.always, observed))
    elif isinstance(assumption, BoundedObservation):
        if isinstance(structure, FixedGates | ChosenGates):
            yield _one_gate(events, delta, assumption.p_max)
        else:
            # p_max bounds the union of all gates that might be chosen, and so each of them, which
            # is all that Hölder's inequality needs.
            yield _any_structure(events, delta, assumption.p_max)


def _mixture(events: Sequence[Event], delta: float, observed: dict[str, float]) -> Bound | None:
    """Mask mixture of the events with an (ε, δ) of their own; others count as reading every row.

    Beside such others only pure events are gated: changing the others' kernels first costs
    (ε_u, δ_u) whatever the pure ones do in between, so P_m <= e^{ε_u + ε(m)} Q + δ_u and back.
    """
    simple = all(proven(pure_cost, event) for event in events)
    plain = [event for event in events if simple or is_pure(event)]
    rest = [event for event in events if not (simple or is_pure(event))]
    mixture = mask_mixture(
        [event.gate for event in plain],
        [pure_epsilon(event) for event in plain],
        [approximate_delta(event) for event in plain],
        observed=observed,
    )
    if mixture.delta > delta:
        return None
    other = _ungated(rest, delta)
    # A zero delta is reserved for pure events, even where an impure one never reads a row.
    spent = delta if rest or mixture.delta == 0.0 else mixture.delta
    return Bound(
        epsilon=mixture.epsilon + other,
        delta=spent,
        method="mask mixture",
        relaxed=mixture.relaxed,
    )


def _ungated(events: Sequence[Event], delta: float) -> float:
    """Epsilon of events that are not amplified; infinite where none is proven."""
    try:
        return epsilon_of(events, delta)
    except UnprovenError:
        return math.inf


def _tabulated(events: Sequence[Event]) -> bool:
    return len(set(events)) <= _MAX_DISTINCT and all(
        proven(costs.tabulated, event) for event in events
    )


def _partitions(events: Sequence[Event], delta: float, observed: dict[str, float]) -> Bound | None:
    """Loss distributions of groups behind disjoint gates, composed; best of several partitions."""
    if delta == 0.0 or not _tabulated(events):
        return None
    weights = [2.0 * _strength(event) for event in events]
    best = math.inf
    for partition in candidate_partitions(
        [event.gate for event in events], weights, observed=observed
    ):
        if all(block.probability == 1.0 for block in partition.blocks):
            continue
        parts = [
            gate_loss_distribution(
                costs.compose([events[j] for j in block.members]), block.probability
            )
            for block in partition.blocks
        ]
        best = min(best, float(_composed(parts).get_epsilon_for_delta(delta)))
    return Bound(epsilon=best, delta=delta, method="loss distributions of disjoint gates")


def _replicas(events: Sequence[Event], delta: float, observed: dict[str, float]) -> Bound | None:
    """Rényi divergences behind gates of one attribute each, caps among them."""
    gated = any(observed.get(a, 1.0) < 1 for event in events for a in event.gate or ())
    curved = all(proven(rdp_curve, e) and not approximate_delta(e) for e in events)
    if delta == 0.0 or not gated or not curved:
        return None
    found = replica_epsilon(events, delta, observed)
    return Bound(epsilon=found, delta=delta, method="replicas of the mask")


def _chosen(
    events: Sequence[Event], delta: float, structure: ChosenGates, observed: dict[str, float]
) -> Bound | None:
    """Return the bound for marginals that the data chose."""
    if delta == 0.0 or not all(proven(zcdp_cost, e) and not approximate_delta(e) for e in events):
        return None
    costs = chosen_costs(events, structure, observed)
    found = chosen_epsilon(costs, delta, observed)
    return Bound(epsilon=found, delta=delta, method="replicas of the mask, any marginals")


def _strength(event: Event) -> float:
    """Return a rho that ranks partitions; it enters no bound."""
    try:
        return zcdp_rho_of(event)
    except UnprovenError:
        loss = costs.compose([event])
        return min(50.0, float(loss.get_epsilon_for_delta(1e-3))) ** 2 / 20.0


def _composed(parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = total.compose(part)
    return total


def _one_gate(events: Sequence[Event], delta: float, probability: float) -> Bound | None:
    """Everything gated goes through one gate, open with at most this probability.

    True of a common core of all gates under MCAR, of attributes that every data-chosen gate
    holds, and of ``BoundedObservation``, which bounds the union of all gates: opening any of them
    is the one gate, and what is behind it may depend on which of them are open.
    """
    inside = [event for event in events if event.gate]
    outside = [event for event in events if not event.gate]
    if probability == 1.0 or not inside:
        return None
    found = [math.inf]
    if all(is_pure(event) for event in inside):
        cost = math.fsum(pure_epsilon(event) for event in inside)
        found.append(amplified_epsilon(probability, cost) + _ungated(outside, delta))
    if delta > 0.0 and _tabulated(events):
        loss = gate_loss_distribution(costs.compose(inside), probability)
        if outside:
            loss = loss.compose(costs.compose(outside))
        found.append(float(loss.get_epsilon_for_delta(delta)))
    elif delta > 0.0 and not outside:
        found.append(_by_profile(inside, delta, probability))
    return Bound(epsilon=min(found), delta=delta, method="one gate")


def _by_profile(events: Sequence[Event], delta: float, probability: float) -> float:
    def profile(epsilon: float) -> float:
        return delta_of(events, epsilon, accountants=FAST_ACCOUNTANTS)

    try:
        return gated_epsilon(delta, probability=probability, profile=profile)
    except UnprovenError:
        return math.inf


def _any_structure(events: Sequence[Event], delta: float, probability: float) -> Bound | None:
    """Hölder bound over every structure the data might have chosen; gated events must be pure."""
    return _beside_the_rest(
        events,
        delta,
        lambda costs: amplified_epsilon(probability, math.fsum(costs)),
        method="any structure",
    )


def _distinct_targets(
    events: Sequence[Event],
    delta: float,
    structure: DataChosenGates,
    observed: dict[str, float],
) -> Bound | None:
    return _beside_the_rest(
        events,
        delta,
        lambda costs: distinct_targets_bound(
            costs, attributes=structure.attributes, observed=observed
        ),
        method="distinct targets",
    )


def _beside_the_rest(
    events: Sequence[Event],
    delta: float,
    amplify: Callable[[Sequence[float]], float],
    *,
    method: str,
) -> Bound | None:
    """Bound pure events with data-chosen gates beside events that read every row.

    Impure events among the latter cost (ε_u, δ_u). Split the outputs by structure a. Adding: the
    δ_u(a) sum to δ_u. Removing: solving P_present >= e^{-ε_u} E[e^{-ε_a(m)}(Q - δ_m)] for Q weighs
    δ_m(a) by at most e^{ε̄}, because the weights depend on a. So δ_u is budgeted at δ·e^{-ε̄}.
    """
    inside = [event for event in events if event.gate]
    outside = [event for event in events if not event.gate]
    if not inside or not all(is_pure(event) for event in inside):
        return None
    gated = amplify([pure_epsilon(event) for event in inside])
    pure = all(is_pure(event) for event in outside)
    other = _ungated(outside, 0.0 if pure else delta * math.exp(-gated))
    return Bound(epsilon=gated + other, delta=delta, method=method)
