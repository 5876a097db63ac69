"""The bounds that are proven for a list of gated events, and the smallest of them.

Everything here is under add-remove adjacency. Each function returns infinity where its proof, in
docs/referees/proofs.md, does not cover the events.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, TypeAlias

from missdp.accounting.composition import epsilon_of
from missdp.accounting.events import Adjacency, Event
from missdp.accounting.exact import add_remove_share
from missdp.accounting.loss_distributions import compose, tabulated_event
from missdp.accounting.measures import (
    approximate_delta,
    has_bound,
    is_pure,
    pure_cost,
    pure_epsilon,
    zcdp_cost,
)
from missdp.accounting.renyi import rdp_curve
from missdp.conditions import BoundedObservation, Condition, MissingCompletelyAtRandom
from missdp.errors import UnprovenError
from missdp.ground_truth.mixture import (
    amplified_epsilon,
    distinct_targets_bound,
    gate_loss_distribution,
    gate_probability,
    gated_epsilon,
    largest_gate_probability,
    mask_mixture,
)
from missdp.ground_truth.replicas import (
    behind_disjoint_gates,
    chosen_costs,
    chosen_epsilon,
    replica_epsilon,
)
from missdp.profiles import delta_of
from missdp.required_attributes import (
    ChosenRequirements,
    DataChosenRequirements,
    FixedRequirements,
    Structure,
)

if TYPE_CHECKING:
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

Events: TypeAlias = Sequence[Event]
Rates: TypeAlias = dict[str, float]

_MAX_DISTINCT = 400
"""More distinct events than this are not composed as privacy loss distributions: too slow."""


def amplify(
    events: Events,
    delta: float,
    assumption: Condition,
    structure: Structure,
    adjacency: Adjacency,
    *,
    plain: float,
) -> tuple[float, float]:
    """Return the smallest proven (ε, δ) of elementary events, ε infinite if there is none.

    Events that are stated under replace-one adjacency are not amplified: given its mask, a row is
    then compared with another row, not with no row, and the mixture argument does not apply. What
    is asked for under it is converted; ``plain`` is the epsilon without amplification.
    """
    if any(event.adjacency != "add-remove" for event in events):
        return math.inf, delta
    if adjacency == "add-remove":
        # Rounded, so that of two proofs of one number the first counts.
        found = _proven(events, delta, assumption, structure)
        return min(found, key=lambda bound: round(bound[0], 9))
    # (1 + e^plain)·inner = delta: enough for the conversion if the result is below plain.
    inner = add_remove_share(plain, delta)
    epsilon, _ = min(_proven(events, inner, assumption, structure))
    return (2.0 * epsilon if epsilon <= plain else math.inf), delta


def _proven(
    events: Events, delta: float, assumption: Condition, structure: Structure
) -> Iterator[tuple[float, float]]:
    """Yield what the assumption and the structure together prove."""
    yield math.inf, delta
    if isinstance(assumption, BoundedObservation):
        # p_max bounds the union of all gates that might be chosen, and so each of them, which is
        # all that Hölder's inequality needs.
        p = assumption.p_max
        if isinstance(structure, DataChosenRequirements):
            yield _any_structure(events, delta, partial(_hoelder, p)), delta
        else:
            yield _one_gate(events, delta, p), delta
    elif not isinstance(assumption, MissingCompletelyAtRandom):
        return
    elif isinstance(structure, ChosenRequirements):
        yield _chosen(events, delta, structure, dict(assumption.observed)), delta
    elif isinstance(structure, FixedRequirements):
        rates = dict(assumption.observed)
        yield _mixture(events, delta, rates)
        yield _many_gates(events, delta, rates), delta
        required_sets = [event.required for event in events if event.required]
        shared = frozenset[str]().union(*required_sets).intersection(*required_sets)
        yield _one_gate(events, delta, gate_probability(shared, rates)), delta
    else:
        rates, always = dict(assumption.observed), structure.always
        names, smallest = structure.attributes, structure.smallest
        p = largest_gate_probability(names, rates, smallest=smallest, always=always)
        yield _any_structure(events, delta, partial(_hoelder, p)), delta
        if structure.distinct_targets:
            own = partial(distinct_targets_bound, attributes=names, observed=rates)
            yield _any_structure(events, delta, own), delta
        yield _one_gate(events, delta, gate_probability(always, rates)), delta


def _mixture(events: Events, delta: float, observed: Rates) -> tuple[float, float]:
    """Mask mixture of the events with an (ε, δ) of their own; others count as reading every row.

    Beside such others only pure events are gated: changing the others' kernels first costs
    (ε_u, δ_u) whatever the pure ones do in between, so P_m <= e^{ε_u + ε(m)} Q + δ_u and back.
    """
    simple = all(has_bound(pure_cost, event) for event in events)
    plain = [event for event in events if simple or is_pure(event)]
    rest = [event for event in events if not (simple or is_pure(event))]
    required_sets, slips = [event.required for event in plain], [*map(approximate_delta, plain)]
    mixture = mask_mixture(required_sets, [*map(pure_epsilon, plain)], slips, observed=observed)
    if mixture.delta > delta:
        return math.inf, delta
    # A zero delta is reserved for pure events, even where an impure one never reads a row.
    spent = delta if rest or mixture.delta == 0.0 else mixture.delta
    return mixture.epsilon + _ungated(rest, delta), spent


def _many_gates(events: Events, delta: float, observed: Rates) -> float:
    """Bound events behind disjoint parts of their gates: by loss distributions, or by replicas."""
    if delta == 0.0:
        return math.inf
    if not _tabulated(events):
        curved = all(has_bound(rdp_curve, e) and not approximate_delta(e) for e in events)
        return replica_epsilon(events, delta, observed) if curved else math.inf
    behind = behind_disjoint_gates(events, observed)
    loss = _loss_behind_gates((gate_probability(g, observed), own) for g, own in behind.items())
    return float(loss.get_epsilon_for_delta(delta))


def _chosen(events: Events, delta: float, structure: ChosenRequirements, observed: Rates) -> float:
    """Bound marginals that the data chose, each part up to its cap."""
    if not all(has_bound(zcdp_cost, e) and not approximate_delta(e) for e in events):
        return math.inf
    return chosen_epsilon(chosen_costs(events, structure, observed), delta, observed)


def _one_gate(events: Events, delta: float, probability: float) -> float:
    """Everything gated goes through one gate, open with at most this probability.

    True of a common core of all gates under MCAR, of attributes that every data-chosen gate
    holds, and of ``BoundedObservation``, which bounds the union of all gates: opening any of them
    is the one gate, and what is behind it may depend on which of them are open.
    """
    inside, outside = _by_gate(events)
    if probability == 1.0 or not inside:
        return math.inf
    found = [math.inf]
    if all(map(is_pure, inside)):
        cost = math.fsum(map(pure_epsilon, inside))
        found.append(amplified_epsilon(probability, cost) + _ungated(outside, delta))
    if delta > 0.0 and _tabulated(events):
        loss = _loss_behind_gates([(probability, inside), (1.0, outside)])
        found.append(float(loss.get_epsilon_for_delta(delta)))
    elif delta > 0.0 and not outside:
        found.append(_by_profile(inside, delta, probability))
    return min(found)


def _loss_behind_gates(blocks: Iterable[tuple[float, Sequence[Event]]]) -> PrivacyLossDistribution:
    """Return the loss of events behind disjoint gates, each group by the chance of its gate."""
    alike = Counter((p, tuple(map(tabulated_event, events))) for p, events in blocks)
    return _composed(tuple(sorted(alike.items(), key=repr)))  # the last digits depend on the order


@lru_cache(maxsize=4)
def _composed(
    groups: tuple[tuple[tuple[float, tuple[Event, ...]], int], ...],
) -> PrivacyLossDistribution:
    """Compose once for what is stated and for the check of it."""
    losses = []
    for (p, events), times in groups:
        group = gate_loss_distribution(compose(events), p)
        losses.append(group.self_compose(times) if times > 1 else group)
    return reduce(type(losses[0]).compose, losses)


def _by_profile(events: Events, delta: float, probability: float) -> float:
    profile = partial(delta_of, events)
    return or_infinite(lambda: gated_epsilon(delta, probability=probability, profile=profile))


def _hoelder(probability: float, costs: Sequence[float]) -> float:
    """Bound every structure whose gates are open with at most this probability."""
    return amplified_epsilon(probability, math.fsum(costs))


def _any_structure(
    events: Events, delta: float, amplified: Callable[[Sequence[float]], float]
) -> float:
    """Bound pure events with data-chosen gates beside events that read every row.

    ``amplified`` bounds the former over all that the data might have chosen. Impure events among
    the latter cost (ε_u, δ_u). Split the outputs by structure a. Adding: the δ_u(a) sum to δ_u.
    Removing: solving P_present >= e^{-ε_u} E[e^{-ε_a(m)}(Q - δ_m)] for Q weighs δ_m(a) by at most
    e^{ε̄}, because the weights depend on a. So δ_u is budgeted at δ·e^{-ε̄}.
    """
    inside, outside = _by_gate(events)
    if not inside or not all(map(is_pure, inside)):
        return math.inf
    gated = amplified([pure_epsilon(event) for event in inside])
    share = 0.0 if all(map(is_pure, outside)) else delta * math.exp(-gated)
    return gated + _ungated(outside, share)


def _by_gate(events: Events) -> tuple[list[Event], list[Event]]:
    """Return the events that have a gate, and those that read every row."""
    return [e for e in events if e.required], [e for e in events if not e.required]


def _ungated(events: Events, delta: float) -> float:
    """Epsilon of events that are not amplified; infinite where none is proven."""
    return or_infinite(lambda: epsilon_of(events, delta))


def or_infinite(compute: Callable[[], float]) -> float:
    """Return a bound; infinity where none is proven."""
    try:
        return compute()
    except UnprovenError:
        return math.inf


def _tabulated(events: Events) -> bool:
    few = len(set(events)) <= _MAX_DISTINCT
    return few and all(has_bound(tabulated_event, event) for event in events)
