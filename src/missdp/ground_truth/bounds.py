"""Proven bounds for events that require observed attributes, and the smallest of them.

An event reads a row only if its required attributes are observed. All bounds are under add-remove
adjacency. Each function returns infinity if its proof, in docs/referees/proofs.md, does not cover
the events.
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
    amplified_loss_distribution,
    amplified_profile_epsilon,
    distinct_targets_bound,
    mask_mixture,
    max_observation_probability,
    observation_probability,
)
from missdp.ground_truth.replicas import (
    chosen_costs,
    chosen_epsilon,
    events_by_disjoint_part,
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
"""Largest number of distinct events that are composed as privacy loss distributions, for speed."""


def amplify(
    events: Events,
    delta: float,
    assumption: Condition,
    structure: Structure,
    adjacency: Adjacency,
    *,
    plain: float,
) -> tuple[float, float]:
    """Return the smallest proven (ε, δ) of elementary events, ε infinite without a proof.

    Events under replace-one adjacency are not amplified. Given its mask, a row is then compared
    with another row and not with no row, so the mixture argument does not apply. A result under
    replace-one adjacency is converted.

    Parameters
    ----------
    events : sequence of Event
        Elementary events.
    delta : float
        Target δ.
    assumption : Condition
        How values went missing.
    structure : Structure
        States whether the data chose the required attributes.
    adjacency : {"add-remove", "replace-one"}
        Adjacency of the result.
    plain : float
        The epsilon without amplification.

    Returns
    -------
    epsilon, delta : float
        The bound.
    """
    if any(event.adjacency != "add-remove" for event in events):
        return math.inf, delta
    if adjacency == "add-remove":
        # Rounded, so that the first of two equal bounds counts.
        bounds = _proven(events, delta, assumption, structure)
        return min(bounds, key=lambda bound: round(bound[0], 9))
    # (1 + e^plain)·inner = delta is enough for the conversion if the result is below plain.
    inner = add_remove_share(plain, delta)
    epsilon, _ = min(_proven(events, inner, assumption, structure))
    return (2.0 * epsilon if epsilon <= plain else math.inf), delta


def _proven(
    events: Events, delta: float, assumption: Condition, structure: Structure
) -> Iterator[tuple[float, float]]:
    """Yield the bounds that the assumption and the structure together prove."""
    yield math.inf, delta
    if isinstance(assumption, BoundedObservation):
        # p_max bounds the chance that any required set is observed, and so the chance of each set.
        # Hölder's inequality needs no more.
        p = assumption.p_max
        if isinstance(structure, DataChosenRequirements):
            yield _any_structure(events, delta, partial(_hoelder, p)), delta
        else:
            yield _one_requirement(events, delta, p), delta
    elif not isinstance(assumption, MissingCompletelyAtRandom):
        return
    elif isinstance(structure, ChosenRequirements):
        yield _chosen(events, delta, structure, dict(assumption.observed)), delta
    elif isinstance(structure, FixedRequirements):
        rates = dict(assumption.observed)
        yield _mixture(events, delta, rates)
        yield _disjoint_parts(events, delta, rates), delta
        required_sets = [event.required for event in events if event.required]
        shared = frozenset[str]().union(*required_sets).intersection(*required_sets)
        yield _one_requirement(events, delta, observation_probability(shared, rates)), delta
    else:
        rates, always = dict(assumption.observed), structure.always
        names, smallest = structure.attributes, structure.smallest
        p = max_observation_probability(names, rates, smallest=smallest, always=always)
        yield _any_structure(events, delta, partial(_hoelder, p)), delta
        if structure.distinct_targets:
            bound = partial(distinct_targets_bound, attributes=names, observed=rates)
            yield _any_structure(events, delta, bound), delta
        yield _one_requirement(events, delta, observation_probability(always, rates)), delta


def _mixture(events: Events, delta: float, observed: Rates) -> tuple[float, float]:
    """Return the mask mixture of events with an (ε, δ) of their own. Others count for every row.

    Together with other events, only pure events are amplified. Changing the kernels of the others
    first costs (ε_u, δ_u), independently of the pure events in between. So P_m <= e^{ε_u + ε(m)} Q
    + δ_u, and conversely.
    """
    simple = all(has_bound(pure_cost, event) for event in events)
    plain = [event for event in events if simple or is_pure(event)]
    rest = [event for event in events if not (simple or is_pure(event))]
    required_sets, deltas = [event.required for event in plain], [*map(approximate_delta, plain)]
    mixture = mask_mixture(required_sets, [*map(pure_epsilon, plain)], deltas, observed=observed)
    if mixture.delta > delta:
        return math.inf, delta
    # A zero delta is reserved for pure events, even if an impure event never reads a row.
    spent = delta if rest or mixture.delta == 0.0 else mixture.delta
    return mixture.epsilon + _plain_epsilon(rest, delta), spent


def _disjoint_parts(events: Events, delta: float, observed: Rates) -> float:
    """Bound events by disjoint parts of their requirements: by loss distributions, or replicas."""
    if delta == 0.0:
        return math.inf
    if not _tabulated(events):
        curved = all(has_bound(rdp_curve, e) and not approximate_delta(e) for e in events)
        return replica_epsilon(events, delta, observed) if curved else math.inf
    parts = events_by_disjoint_part(events, observed).items()
    loss = _loss_of_parts((observation_probability(p, observed), group) for p, group in parts)
    return float(loss.get_epsilon_for_delta(delta))


def _chosen(events: Events, delta: float, structure: ChosenRequirements, observed: Rates) -> float:
    """Bound marginals that the data chose, each part up to its cap."""
    if not all(has_bound(zcdp_cost, e) and not approximate_delta(e) for e in events):
        return math.inf
    return chosen_epsilon(chosen_costs(events, structure, observed), delta, observed)


def _one_requirement(events: Events, delta: float, probability: float) -> float:
    """Bound events with one common requirement, which is met with at most this probability.

    The requirement is a common core of all requirements under MCAR, or the attributes that every
    data-chosen requirement contains. Under ``BoundedObservation`` it is the union: a row meets any
    of the requirements. The releases may then depend on which of them the row meets.
    """
    inside, outside = _split_by_requirement(events)
    if probability == 1.0 or not inside:
        return math.inf
    bounds = [math.inf]
    if all(map(is_pure, inside)):
        cost = math.fsum(map(pure_epsilon, inside))
        bounds.append(amplified_epsilon(probability, cost) + _plain_epsilon(outside, delta))
    if delta > 0.0 and _tabulated(events):
        loss = _loss_of_parts([(probability, inside), (1.0, outside)])
        bounds.append(float(loss.get_epsilon_for_delta(delta)))
    elif delta > 0.0 and not outside:
        amplified = partial(
            amplified_profile_epsilon,
            delta,
            probability=probability,
            profile=partial(delta_of, inside),
        )
        bounds.append(or_infinite(amplified))
    return min(bounds)


def _loss_of_parts(blocks: Iterable[tuple[float, Sequence[Event]]]) -> PrivacyLossDistribution:
    """Return the loss of groups of events with disjoint requirements, each met with its chance."""
    alike = Counter((p, tuple(map(tabulated_event, events))) for p, events in blocks)
    return _composed(tuple(sorted(alike.items(), key=repr)))  # a fixed order fixes the last digits


@lru_cache(maxsize=4)
def _composed(
    groups: tuple[tuple[tuple[float, tuple[Event, ...]], int], ...],
) -> PrivacyLossDistribution:
    """Compose the groups. The cache serves the statement and its check."""
    losses = []
    for (p, events), times in groups:
        group = amplified_loss_distribution(compose(events), p)
        losses.append(group.self_compose(times) if times > 1 else group)
    return reduce(type(losses[0]).compose, losses)


def _hoelder(probability: float, costs: Sequence[float]) -> float:
    """Bound every structure whose requirements are met with at most this probability."""
    return amplified_epsilon(probability, math.fsum(costs))


def _any_structure(
    events: Events, delta: float, amplified: Callable[[Sequence[float]], float]
) -> float:
    """Bound pure events with data-chosen requirements, and events that read every row.

    ``amplified`` bounds the former over all choices of the data. Impure events among the latter
    cost (ε_u, δ_u). Split the outputs by structure a. Adding: the δ_u(a) sum to δ_u. Removing:
    solve P_present >= e^{-ε_u} E[e^{-ε_a(m)}(Q - δ_m)] for Q. This weighs δ_m(a) by at most e^{ε̄},
    because the weights depend on a. So δ_u is budgeted at δ·e^{-ε̄}.
    """
    inside, outside = _split_by_requirement(events)
    if not inside or not all(map(is_pure, inside)):
        return math.inf
    amplified_loss = amplified([pure_epsilon(event) for event in inside])
    share = 0.0 if all(map(is_pure, outside)) else delta * math.exp(-amplified_loss)
    return amplified_loss + _plain_epsilon(outside, share)


def _split_by_requirement(events: Events) -> tuple[list[Event], list[Event]]:
    """Return the events with a requirement, and the events that read every row."""
    return [e for e in events if e.required], [e for e in events if not e.required]


def _plain_epsilon(events: Events, delta: float) -> float:
    """Return the epsilon of events that are not amplified, infinite without a proof."""
    return or_infinite(lambda: epsilon_of(events, delta))


def or_infinite(compute: Callable[[], float]) -> float:
    """Return a computed bound, or infinity if UnprovenError is raised."""
    try:
        return compute()
    except UnprovenError:
        return math.inf


def _tabulated(events: Events) -> bool:
    few = len(set(events)) <= _MAX_DISTINCT
    return few and all(has_bound(tabulated_event, event) for event in events)
