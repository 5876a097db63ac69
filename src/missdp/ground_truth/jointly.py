"""Several releases of one table, amplified together.

All of them see one draw of the missing cells. A row that was complete enough to be read by one is
more likely complete enough for the next, so that amplified figures do not add up: two releases with
epsilon 1 that read a row with probability 1/2 cost 0.62 each, but 1.43 together. Their events are
put together first, and amplified then.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Protocol, TypeAlias, runtime_checkable

from missdp.accounting.conditions import BoundedObservation, Condition, FixedSchedule
from missdp.accounting.costs import is_pure, zcdp_rho_of
from missdp.accounting.events import Event, flatten
from missdp.accounting.exact import exact, float_up
from missdp.accounting.filters import FilterEvent
from missdp.accounting.guarantee import Guarantee
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth.amplified import AmplifiedEvent, ground_truth_guarantee
from missdp.ground_truth.gates import ChosenGates, DataChosenGates, FixedGates, Structure

__all__ = ["Parted", "joint"]

Parts: TypeAlias = tuple[Guarantee, Structure | None]


@runtime_checkable
class Parted(Protocol):
    """What knows the caps of its parts: a fitted synthesizer."""

    def ground_truth_parts(self) -> Parts:
        """Return a guarantee whose events are the parts, and who chose their gates."""


def joint(
    releases: Iterable[Parted | Guarantee], assumption: Condition, *, delta: float | None = None
) -> Guarantee:
    """Return what several releases of one table guarantee together for the ground truth.

    Parameters
    ----------
    releases : iterable of fitted synthesizers and Guarantees
        Of one and the same table, under add-remove adjacency. A guarantee is either for the ground
        truth, under the same assumption, and is then taken apart into its events; or for the
        incomplete table, and has no gates.
    assumption : Condition
        How values went missing, in all releases at once. ``BoundedObservation(p)`` bounds the
        chance to open any gate of *one* release. Releases share it if every gate of one holds a
        gate of the others; else the bounds add up, which is stated as a condition of its own. With
        ``BoundedObservation(p, together=True)`` p is a bound for the gates of all of them.
    delta : float, optional
        By default the sum of their deltas.

    Returns
    -------
    Guarantee
        For the ground truth. It rests on `FixedSchedule`: which releases there are, and how large
        each is, did not depend on what the others answered. Never worse than all of them together
        without amplification.

    Raises
    ------
    ParameterError
        If something is no such release: amplified numbers do not add up.
    UnprovenError
        If a guarantee rests on another assumption, or was converted.

    Notes
    -----
    Caps of releases follow each other as those of one fit do. If marginals were chosen in several
    of them, the family is that of all, each release's by itself, and no marginal of one release
    gets a larger share of the sum than it might of its own. Gates that were fixed may be counted
    as chosen, and gates of tables in pure epsilon as those of single attributes.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> from missdp.ground_truth import FixedGates, ground_truth_guarantee
    >>> known, fixed = BoundedObservation(0.5), FixedGates()
    >>> event = PureEvent(epsilon=1.0, gate={"a"})
    >>> one = ground_truth_guarantee(event, known, structure=fixed)
    >>> round(one.epsilon, 2), round(joint([one, one], known).epsilon, 2)
    (0.62, 1.43)
    """
    several = list(releases)
    found = [_parts(release, assumption) for release in several]
    if not found:
        raise ParameterError("joint needs at least one release")
    guarantees = [guarantee for guarantee, _ in found]
    if delta is None:
        delta = float_up(sum((exact(g.delta) for g in guarantees), exact(0.0)))
    events, structure = _merged(found)
    conditions = [c for g in guarantees for c in g.conditions]
    if len(found) > 1:
        conditions.append(FixedSchedule())
    plain = Guarantee.from_events(events, delta=delta, conditions=conditions)
    known: Condition = assumption
    if isinstance(assumption, BoundedObservation) and not assumption.together:
        stated = [_stated(release, assumption) for release in several]
        known, structure = _of_all(found, stated, structure)
    return ground_truth_guarantee(plain, known, structure=structure, conditions=(assumption,))


def _parts(release: Parted | Guarantee, assumption: Condition) -> Parts:
    """Return the parts of one release, whose guarantee is for the incomplete table."""
    guarantee, structure = (
        release.ground_truth_parts() if isinstance(release, Parted) else (release, None)
    )
    if not isinstance(guarantee, Guarantee):
        raise ParameterError(
            "releases are fitted synthesizers or guarantees: all of them see one draw of the "
            "missing cells, so that amplified numbers do not add up"
        )
    if guarantee.adjacency != "add-remove":
        raise UnprovenError("amplification is proven under add-remove adjacency only")
    if guarantee.protects == "incomplete":
        if structure is None and any(event.gate for event in flatten(guarantee.events)):
            raise ParameterError(
                "who chose the gates is not known of a guarantee for the incomplete table; pass "
                "what ground_truth_guarantee made of it"
            )
        return guarantee, structure
    if isinstance(assumption, BoundedObservation) and assumption.together:
        known = any(isinstance(c, BoundedObservation) for c in guarantee.conditions)
    else:
        known = assumption in guarantee.conditions
    if not known or not guarantee.events:
        raise UnprovenError(
            "a guarantee for the ground truth rests on another assumption, or has no events: its "
            "number cannot be added to others, for all releases see one draw of the missing cells"
        )
    (event,) = guarantee.events if len(guarantee.events) == 1 else (None,)
    if not isinstance(event, AmplifiedEvent):
        bare = guarantee.events
        if any(e.gate for e in flatten(bare)):
            bare = tuple(replace(e, gate=None) for e in flatten(bare))
        return _incomplete(guarantee, bare), None
    both = {type(event.assumption), type(assumption)}
    if event.assumption != assumption and both != {BoundedObservation}:
        raise UnprovenError("all releases must rest on the one assumption that is stated")
    return _incomplete(guarantee, event.events), event.structure


def _stated(release: Parted | Guarantee, assumption: BoundedObservation) -> BoundedObservation:
    """Return the bound on the union of a release's own gates."""
    events = release.events if isinstance(release, Guarantee) else ()
    (event,) = events if len(events) == 1 else (None,)
    known = event.assumption if isinstance(event, AmplifiedEvent) else assumption
    return known if isinstance(known, BoundedObservation) else assumption


def _of_all(
    found: Sequence[Parts], stated: Sequence[BoundedObservation], structure: Structure
) -> tuple[BoundedObservation, Structure]:
    """Return what is known of the union of all gates, and the structure that it is enough for.

    A release whose every gate holds a gate of the others is opened only by rows that open one of
    those, and adds nothing. Pure releases need no union: by Hölder's inequality it is enough that
    each gate has its bound.
    """
    kept = [(_gates(*parts), known) for parts, known in zip(found, stated, strict=True)]
    kept.sort(key=lambda one: one[1].p_max)
    for i in reversed(range(len(kept))):
        others = {gate for gates, _ in kept[:i] + kept[i + 1 :] for gate in gates}
        if all(gate in others or any(o <= gate for o in others) for gate in kept[i][0]):
            del kept[i]
    largest = kept[-1][1] if kept else stated[0]
    if len(kept) < 2 or isinstance(structure, DataChosenGates):
        return largest, structure
    gated = [e for guarantee, _ in found for e in flatten(guarantee.events) if e.gate]
    if isinstance(structure, FixedGates) and all(map(is_pure, gated)):
        names = tuple({name for event in gated for name in event.gate or ()})
        return largest, DataChosenGates(attributes=names, smallest=1)
    total = float_up(sum((exact(known.p_max) for _, known in kept), exact(0.0)))
    return BoundedObservation(min(1.0, total), together=True), structure


def _gates(guarantee: Guarantee, structure: Structure | None) -> frozenset[frozenset[str]]:
    """Return sets of attributes: a row that a release reads behind a gate is observed on one."""
    if isinstance(structure, DataChosenGates):
        if structure.smallest == 1 and not structure.always:
            return frozenset(frozenset({name}) for name in structure.attributes)
        return frozenset({frozenset({str(structure)})})  # shared with the same choice only
    gates = {event.gate for event in flatten(guarantee.events) if event.gate}
    among = structure.among if isinstance(structure, ChosenGates) else ()
    return frozenset({*gates, *map(frozenset, filter(None, among))} if structure else ())


def _incomplete(guarantee: Guarantee, events: tuple[Event, ...]) -> Guarantee:
    found = Guarantee.from_events(events, delta=guarantee.delta)
    return found.with_conditions(*guarantee.conditions)


def _merged(found: Sequence[Parts]) -> tuple[tuple[Event, ...], Structure]:
    """Return all events, and one structure that is true of all of them."""
    structures = [structure for _, structure in found if structure is not None]
    if any(isinstance(structure, ChosenGates) for structure in structures):
        return _all_chosen(found)
    events = tuple(chain.from_iterable(guarantee.events for guarantee, _ in found))
    chosen = [s for s in structures if isinstance(s, DataChosenGates)]
    if not chosen:
        return events, FixedGates()
    gates = [event.gate for event in flatten(events) if event.gate]
    return events, DataChosenGates(
        attributes=tuple({*chain(*gates), *chain.from_iterable(s.attributes for s in chosen)}),
        smallest=min([1, *(s.smallest for s in chosen)]),
    )


def _all_chosen(found: Sequence[Parts]) -> tuple[tuple[Event, ...], ChosenGates]:
    """Return events labelled as `ChosenGates` wants them, and the family of all releases.

    Where a marginal may get the whole cap of its release, it may get what selections leave, too.
    """
    events: list[Event] = []
    among: list[tuple[str, ...]] = []
    chosen, largest = 0.0, 0.0
    for guarantee, structure in found:
        own, family, share = _labelled(guarantee.events, structure)
        events += own
        among += family
        cap = sum(map(_rho, (e for e in own if e.label == ChosenGates.chosen)))
        left = sum(map(_rho, (e for e in own if e.label == ChosenGates.selections)))
        chosen += cap
        largest = max(largest, share * cap if share < 1 else cap + left)
    known = math.isfinite(chosen) and 0 < largest < chosen
    share = min(1.0, largest / chosen * (1 + 1e-9)) if known else 1.0
    return tuple(events), ChosenGates(among=tuple(among), largest_share=share)


def _labelled(
    events: Sequence[Event], structure: Structure | None
) -> tuple[list[Event], tuple[tuple[str, ...], ...], float]:
    """Return the events of one release, its family, and the largest share of a marginal."""
    if isinstance(structure, ChosenGates):
        return list(events), structure.among, structure.largest_share
    if isinstance(structure, DataChosenGates) and structure.smallest:
        label = {True: ChosenGates.chosen, False: ""}
        own = [_relabelled(e, label[bool(e.gate)], e.gate) for e in events]
        return own, tuple((name,) for name in structure.attributes), 1.0
    fixed = isinstance(structure, FixedGates)
    return [_relabelled(e, "", e.gate if fixed else None) for e in events], (), 0.0


def _relabelled(event: Event, label: str, gate: frozenset[str] | None) -> Event:
    """Return the event under a label that accountants see: a capacity may have one of its own."""
    if isinstance(event, FilterEvent):
        capacity = replace(event.capacity, label=label)
        return replace(event, capacity=capacity, label=label, gate=gate)
    return replace(event, label=label, gate=gate)


def _rho(event: Event) -> float:
    try:
        return sum(zcdp_rho_of(part) for part in flatten(event))
    except UnprovenError:
        return math.inf
