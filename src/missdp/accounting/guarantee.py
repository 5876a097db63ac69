"""The guarantee: what a release promises, under which conditions, and from which events."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

from missdp.accounting._record import check_delta, check_nonnegative
from missdp.accounting.accountants import PureAccountant
from missdp.accounting.conditions import Condition
from missdp.accounting.events import (
    Adjacency,
    ApproximateEvent,
    Event,
    PureEvent,
    check_adjacency,
    flatten,
)
from missdp.accounting.neighbours import epsilon_under, replace_one_of
from missdp.errors import ParameterError, UnprovenError

__all__ = ["Guarantee", "Protects"]

Protects = Literal["incomplete", "ground-truth"]
_FORMAT = 1


@dataclass(frozen=True)
class Guarantee:
    """An (epsilon, delta) guarantee with everything it rests on.

    Prefer `from_events` or `Budget.spent`, which compute the numbers; the constructor is for
    mechanisms that prove a number of their own (amplification, for example).

    Parameters
    ----------
    epsilon : float
        At least 0 and finite.
    delta : float
        In [0, 1); 0 only if every event is pure DP.
    adjacency : {"add-remove", "replace-one"}
        The neighbouring relation.
    protects : {"incomplete", "ground-truth"}
        The table the curator holds, or the table before values went missing. The latter needs a
        condition that rows lose values independently of each other.
    conditions : iterable of Condition
        Kept sorted and unique.
    events : iterable of Event
        What was accounted, so that anyone can recompute epsilon at another delta.

    Raises
    ------
    ParameterError
        If a number is out of range, or delta is 0 beside an event that is not pure.
    UnprovenError
        If ``protects`` is ``"ground-truth"`` without a condition on missingness, or replace-one
        events are given for an add-remove guarantee.

    Notes
    -----
    Source: spec privacy.md §1.

    Examples
    --------
    >>> from missdp.accounting import Guarantee, LaplaceEvent
    >>> event = LaplaceEvent(sensitivity=1, scale=2.0)
    >>> Guarantee.from_events([event, event]).epsilon
    1.0
    """

    epsilon: float
    delta: float = 0.0
    adjacency: Adjacency = "add-remove"
    protects: Protects = "incomplete"
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_nonnegative("epsilon", self.epsilon))
        object.__setattr__(self, "delta", check_delta("delta", self.delta))
        check_adjacency(self.adjacency)
        if self.protects not in get_args(Protects):
            raise ParameterError(
                f"protects must be 'incomplete' or 'ground-truth', got {self.protects!r}"
            )
        object.__setattr__(self, "conditions", _tidy(self.conditions))
        object.__setattr__(self, "events", _checked_events(self.events))
        self._check_claim()

    def _check_claim(self) -> None:
        parts = flatten(self.events)
        if self.adjacency == "add-remove" and any(e.adjacency != "add-remove" for e in parts):
            raise UnprovenError("an add-remove guarantee cannot rest on replace-one events")
        if self.protects == "ground-truth" and not any(
            condition.implies_row_independence for condition in self.conditions
        ):
            raise UnprovenError(
                "a guarantee for the ground truth needs a condition that rows lose values "
                "independently of each other, e.g. RowIndependentMissingness()"
            )
        if self.delta == 0 and not all(_is_pure(event) for event in parts):
            raise ParameterError("delta is 0 only if every mechanism is pure DP; state a delta")

    @classmethod
    def from_events(
        cls,
        events: Event | Iterable[Event],
        *,
        delta: float = 0.0,
        adjacency: Adjacency = "add-remove",
        conditions: Iterable[Condition] = (),
    ) -> Self:
        """Account for ``events`` and return the guarantee for the incomplete table.

        Parameters
        ----------
        events : Event or iterable of Event
            What was done, with privacy parameters fixed in advance.
        delta : float, default 0.0
            The delta to account at; needed as soon as one event is not pure.
        adjacency : {"add-remove", "replace-one"}
            The relation the guarantee is for; add-remove events are converted.
        conditions : iterable of Condition
            What the events rest on.

        Returns
        -------
        Guarantee
            With the smallest epsilon any accountant proves.

        Raises
        ------
        UnprovenError
            If no accountant bounds the composition at this delta.
        """
        parts = (events,) if isinstance(events, Event) else tuple(events)
        epsilon = epsilon_under(parts, delta, adjacency)
        if math.isinf(epsilon):
            raise UnprovenError(f"no epsilon is proven at delta {delta:g}; state a larger delta")
        return cls(epsilon, delta, adjacency, "incomplete", tuple(conditions), parts)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon that the events (or the statement) prove at ``delta``.

        Amplification by missingness is not recomputed: away from the stated delta, a guarantee
        for the ground truth falls back on the events' un-amplified cost, which is an upper bound.

        Parameters
        ----------
        delta : float
            In [0, 1).

        Returns
        -------
        float
            Possibly infinite.
        """
        delta = check_delta("delta", delta)
        stated = self.epsilon if delta >= self.delta else math.inf
        if not self.events:
            return stated
        try:
            return min(stated, epsilon_under(self.events, delta, self.adjacency))
        except UnprovenError:
            if math.isinf(stated):
                raise
            return stated

    def compose(self, *others: Guarantee) -> Guarantee:
        """Return the guarantee of all these releases together; conditions are united.

        The deltas add up; epsilon is the best proven at their sum. For the ground truth it is
        recomputed from the events without amplification: all releases see one and the same draw
        of the missing cells, so *amplified* epsilons must not be added (two releases with
        epsilon 1 that read a row with probability 1/2 cost 0.62 each, but 1.43 together, not
        1.24). Amplify the composition's events afresh instead.

        Parameters
        ----------
        *others : Guarantee
            Of the same adjacency and protecting the same table.

        Returns
        -------
        Guarantee

        Raises
        ------
        UnprovenError
            If adjacencies or protected tables differ, or a ground-truth guarantee has no events.
        """
        parts = (self, *others)
        if len({part.adjacency for part in parts}) > 1:
            raise UnprovenError(
                "cannot compose add-remove with replace-one guarantees; convert the former with "
                "to_replace_one()"
            )
        if len({part.protects for part in parts}) > 1:
            raise UnprovenError(
                "cannot compose a guarantee for the incomplete table with one for the ground truth"
            )
        if len(parts) == 1:
            return self
        events = tuple(event for part in parts for event in part._accounted())
        delta = math.fsum(part.delta for part in parts)
        if delta >= 1:
            raise UnprovenError("the deltas add up to 1 or more: nothing is guaranteed")
        epsilon = math.inf
        if self.protects == "incomplete":
            epsilon = math.fsum(part.epsilon for part in parts)
        try:
            epsilon = min(epsilon, epsilon_under(events, delta, self.adjacency))
        except UnprovenError:
            if math.isinf(epsilon):
                raise
        conditions = tuple(c for part in parts for c in part.conditions)
        return Guarantee(epsilon, delta, self.adjacency, self.protects, conditions, events)

    def _accounted(self) -> tuple[Event, ...]:
        """Events that account for the whole of this guarantee, one made up if none was given."""
        if self.events or self.epsilon == self.delta == 0:
            return self.events
        if self.protects == "ground-truth":
            raise UnprovenError("a ground-truth guarantee without events cannot be composed")
        if self.delta == 0:
            return (PureEvent(epsilon=self.epsilon, adjacency=self.adjacency),)
        return (ApproximateEvent(epsilon=self.epsilon, delta=self.delta, adjacency=self.adjacency),)

    def to_replace_one(self) -> Guarantee:
        """Return the guarantee when one row is replaced: (2 epsilon, (1 + e^epsilon) delta).

        Returns
        -------
        Guarantee
            With the same events (still facts under add-remove) and conditions.

        Raises
        ------
        UnprovenError
            If the converted delta reaches 1.

        Examples
        --------
        >>> from missdp.accounting import Guarantee
        >>> Guarantee(1.0).to_replace_one().epsilon
        2.0
        """
        if self.adjacency == "replace-one":
            return self
        epsilon, delta = replace_one_of(self.epsilon, self.delta)
        if delta >= 1:
            raise UnprovenError("delta reaches 1 under replace-one: nothing is guaranteed")
        return replace(self, epsilon=epsilon, delta=delta, adjacency="replace-one")

    def with_conditions(self, *conditions: Condition) -> Guarantee:
        """Return the same guarantee resting on these conditions as well."""
        return replace(self, conditions=(*self.conditions, *conditions))

    def in_words(self) -> str:
        """Return the guarantee as plain sentences, every condition included.

        Returns
        -------
        str
            Several lines. Numbers are rounded up, never down.

        Examples
        --------
        >>> from missdp.accounting import ExplicitSeed, Guarantee
        >>> print(Guarantee(1.0, conditions=[ExplicitSeed()]).in_words())
        The release is 1-differentially private (pure) under add-remove adjacency.
        Adding one person's row to the table, or removing it, its missing cells included, changes
        the probability of any outcome by a factor of at most 2.719.
        Someone who sees only this release, and to whom both tables seemed equally likely before,
        guesses which of them was used correctly with probability at most 73.11 %.
        What is protected: the table the curator holds, including which of its cells are missing.
        It rests on this condition:
        - WARNING: the noise was seeded, so nothing is protected from anyone who knows the seed.
        """
        from missdp.accounting._words import guarantee_in_words

        return guarantee_in_words(self)

    def __str__(self) -> str:
        return self.in_words()

    def to_dict(self) -> dict[str, Any]:
        """Return the guarantee as a JSON-ready dictionary."""
        return {
            "format": _FORMAT,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "adjacency": self.adjacency,
            "protects": self.protects,
            "conditions": [condition.to_dict() for condition in self.conditions],
            "events": [event.to_dict() for event in self.events],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild the guarantee written by `to_dict`; refuse what is not a guarantee."""
        known = {"format", "epsilon", "delta", "adjacency", "protects", "conditions", "events"}
        if not isinstance(data, Mapping) or set(data) != known or data["format"] != _FORMAT:
            raise ParameterError(f"a guarantee needs exactly {sorted(known)}, format {_FORMAT}")
        return cls(
            data["epsilon"],
            data["delta"],
            data["adjacency"],
            data["protects"],
            tuple(Condition.from_dict(item) for item in data["conditions"]),
            tuple(Event.from_dict(item) for item in data["events"]),
        )

    def to_json(self) -> str:
        """Return the guarantee as JSON.

        Examples
        --------
        >>> from missdp.accounting import Guarantee
        >>> Guarantee.from_json(Guarantee(0.5).to_json()) == Guarantee(0.5)
        True
        """
        return json.dumps(self.to_dict(), sort_keys=True, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Rebuild the guarantee written by `to_json`."""
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise ParameterError(f"not valid JSON: {error}") from error
        return cls.from_dict(data)


def _tidy(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    kept = tuple(conditions)
    if not all(isinstance(condition, Condition) for condition in kept):
        raise ParameterError("conditions must all be Condition objects")
    return tuple(sorted(set(kept), key=lambda c: (type(c).__name__, c.to_json())))


def _checked_events(events: Iterable[Event]) -> tuple[Event, ...]:
    kept = (events,) if isinstance(events, Event) else tuple(events)
    flatten(kept)
    return kept


def _is_pure(event: Event) -> bool:
    if isinstance(event, ApproximateEvent):
        return event.delta == 0
    return PureAccountant().supports(event)
