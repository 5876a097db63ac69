"""The event of an amplified release: it carries everything its smaller number follows from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from missdp.accounting._convert import add_remove_share
from missdp.accounting.conditions import Condition, FixedSchedule
from missdp.accounting.events import Adjacency, Event, Protects, flatten
from missdp.accounting.filters import FilterEvent
from missdp.accounting.neighbours import epsilon_under
from missdp.errors import ParameterError, UnprovenError
from missdp.ground_truth.candidates import Bound, best_bound
from missdp.ground_truth.structure import DataChosenGates, FixedGates

__all__ = ["AmplifiedEvent", "Structure", "amplify"]

Structure = FixedGates | DataChosenGates


@dataclass(frozen=True, kw_only=True)
class AmplifiedEvent(Event):
    """Releases seen from the table before values went missing.

    Accountants see the releases as they are, which bounds them for either table; `epsilon_bound`
    recomputes the amplified figure from the gates, the assumption and the structure.

    Parameters
    ----------
    events : sequence of Event
        What was released, under add-remove adjacency, with gates.
    assumption : MissingCompletelyAtRandom or BoundedObservation
        How values went missing.
    structure : FixedGates or DataChosenGates
        Who chose the gates.
    label, gate, adjacency
        See `Event`.

    Examples
    --------
    >>> from missdp.accounting import BoundedObservation, PureEvent
    >>> event = AmplifiedEvent(
    ...     events=[PureEvent(epsilon=1.0, gate={"a"})],
    ...     assumption=BoundedObservation(0.5),
    ...     structure=FixedGates(),
    ... )
    >>> round(event.epsilon_bound(0.0, adjacency="add-remove", protects="ground-truth"), 4)
    0.6201
    """

    events: tuple[Event, ...]
    assumption: Condition
    structure: Structure

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "events", tuple(self.events))
        if any(event.adjacency != "add-remove" for event in flatten(self.events)):
            raise UnprovenError("amplification is proven under add-remove adjacency only")
        if not isinstance(self.assumption, Condition):
            raise ParameterError("assumption must be a Condition")
        if isinstance(self.structure, DataChosenGates):
            self.structure.check([e.gate for e in flatten(self.events) if e.gate])
        elif not isinstance(self.structure, FixedGates):
            raise ParameterError("structure must be FixedGates or DataChosenGates")

    def flatten(self) -> tuple[Event, ...]:
        """Return the elementary events of the releases."""
        return flatten(self.events)

    def required_conditions(self) -> tuple[Condition, ...]:
        """Return the assumption, who chose the gates, and that scales were fixed in advance.

        Caps are: under them the proofs hold whatever is chosen along the way.
        """
        caps = all(isinstance(event, FilterEvent) for event in self.events)
        return (self.assumption, self.structure, *(() if caps else (FixedSchedule(),)))

    def epsilon_bound(self, delta: float, *, adjacency: Adjacency, protects: Protects) -> float:
        """Return the amplified epsilon at ``delta``; infinite for the incomplete table."""
        if protects != "ground-truth":
            return math.inf
        plain = epsilon_under(self.events, delta, adjacency)
        found = amplify(
            flatten(self.events), delta, self.assumption, self.structure, adjacency, plain=plain
        )
        return math.inf if found is None else found.epsilon


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
