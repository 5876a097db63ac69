"""The guarantee: the promise of a release, its conditions, and the events that prove it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import fields, replace
from html import escape
from typing import TYPE_CHECKING, Any, Self

from pydantic.dataclasses import dataclass

from missdp.accounting.composition import proven_epsilon
from missdp.accounting.events import (
    ROW,
    Adjacency,
    ApproximateEvent,
    Event,
    Protects,
    PureEvent,
    flatten,
    unit_of,
)
from missdp.accounting.exact import exact, float_up, replace_one_of, total
from missdp.accounting.measures import is_pure
from missdp.conditions import Assumption, Condition, all_conditions
from missdp.errors import ParameterError, UnprovenError, check_delta
from missdp.serialization import Record
from missdp.validation import Delta, NonNegative

if TYPE_CHECKING:
    from missdp.words import Risk


@dataclass(frozen=True)
class Guarantee(Record):
    """A privacy guarantee (epsilon, delta) with its conditions and the events that prove it.

    Prefer `Guarantee.from_events` or `Filter.spent`, which compute the numbers. Stated numbers are
    checked against the events, here and whenever a guarantee is read from a file. They may be
    larger than the proven numbers, never smaller. Conditions are assumptions, which are stated and
    not checked.

    Parameters
    ----------
    epsilon : float
        Epsilon of the guarantee, at least 0 and finite.
    delta : float, default 0.0
        Delta of the guarantee, in [0, 1). It is 0 only if every event is pure DP.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation: one row is added or removed, or one row is replaced.
    protects : {"incomplete", "ground-truth"}, default "incomplete"
        The protected table: the incomplete table of the curator, or the table before values went
        missing. The second choice needs a condition that rows lose values independently of each
        other.
    conditions : iterable of Condition, default ()
        Conditions of the guarantee. They are sorted, and duplicates are dropped.
    events : iterable of Event, default ()
        Accounting events of all releases, from which anyone can recompute epsilon at another delta.
        By default one event is made from epsilon and delta, which states these two numbers only.

    Raises
    ------
    ParameterError
        If a number is out of range, or delta is 0 although an event is not pure. Also if
        epsilon is smaller than the proven epsilon, or a condition of an event's separate proof
        is missing.
    UnprovenError
        If ``protects`` is ``"ground-truth"`` and a condition on missingness is missing, or may fail
        for other draws of the missing cells. If an add-remove guarantee has replace-one events. If
        no bound covers the events.

    Notes
    -----
    Epsilon can be computed again from the events, also at another delta. An adaptive sequence
    enters by its cap, which `FilterEvent` carries. An epsilon smaller than composition proves needs
    a single event with a separate proof (`Event.epsilon_bound`), such as the events of
    `missdp.ground_truth`.

    Examples
    --------
    >>> from missdp.accounting import Guarantee, LaplaceEvent
    >>> event = LaplaceEvent(sensitivity=1, scale=2.0)
    >>> Guarantee.from_events([event, event]).epsilon
    1.0
    >>> Guarantee(0.1, events=(event, event))
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: epsilon is smaller than the events prove
    """

    epsilon: NonNegative
    delta: Delta = 0.0
    adjacency: Adjacency = "add-remove"
    protects: Protects = "incomplete"
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "conditions", _tidy(self.conditions))
        object.__setattr__(self, "events", self.events or self._default_events())
        self._check_conditions()
        self._check_claim()

    def _default_events(self) -> tuple[Event, ...]:
        """Return one event for a statement without events, or none for the ground truth."""
        if self.protects == "ground-truth":
            return ()
        facts: dict[str, Any] = {"epsilon": self.epsilon, "adjacency": self.adjacency}
        if self.delta > 0:
            return (ApproximateEvent(delta=self.delta, **facts),)
        return (PureEvent(**facts),) if self.epsilon > 0 else ()

    @property
    def unit(self) -> str:
        """Return the unit of protection: a single row, or all rows of one person or other entity.

        Returns
        -------
        str
            ``"row"``, or the public name of the column that identifies the rows of a unit.
        """
        return unit_of(self.events)[0]

    @property
    def max_rows(self) -> int:
        """Return the largest number of rows of one unit of protection that the releases read.

        Returns
        -------
        int
            At least 1. It is 1 if the unit of protection is a row. Public.
        """
        return unit_of(self.events)[1]

    def _check_conditions(self) -> None:
        """Raise if a condition is missing, or breaks the proof."""
        truth, held = self.protects == "ground-truth", self.conditions
        if truth and not any(condition.implies_row_independence for condition in held):
            raise UnprovenError(
                "a guarantee for the ground truth needs a condition that rows lose values "
                "independently of each other, e.g. RowIndependentMissingness()"
            )
        if truth and not all(c.holds_for_every_mask or isinstance(c, Assumption) for c in held):
            raise UnprovenError(
                "a guarantee for the ground truth averages over draws of the missing cells, of "
                "which some may break a condition that it is to rest on; nothing is proven"
            )
        for event in self.events:
            if not set(event.required_conditions()) <= set(held):
                raise ParameterError(f"a condition is missing that {type(event).__name__} rests on")

    def _check_claim(self) -> None:
        """Raise if the events do not prove the numbers."""
        parts = flatten(self.events)
        if self.unit != ROW and self.protects == "ground-truth":
            raise UnprovenError(
                "for the table before values went missing nothing is proven of units with several "
                "rows: leave the unit out of the schema for that"
            )
        if self.adjacency == "add-remove" and any(e.adjacency != "add-remove" for e in parts):
            raise UnprovenError("an add-remove guarantee cannot rest on replace-one events")
        if self.delta == 0 and not all(is_pure(event) for event in parts):
            raise ParameterError("delta is 0 only if every mechanism is pure DP; state a delta")
        if self.events and not self._proven_at(self.delta, enough=self.epsilon) <= self.epsilon:
            raise ParameterError("epsilon is smaller than the events prove")

    def _proven_at(self, delta: float, *, enough: float = 0.0) -> float:
        """Return the epsilon that `proven_epsilon` proves from the events at a delta."""
        return proven_epsilon(
            self.events, delta, self.adjacency, protects=self.protects, enough=enough
        )

    @classmethod
    def from_events(
        cls,
        events: Event | Iterable[Event],
        *,
        delta: float = 0.0,
        adjacency: Adjacency = "add-remove",
        conditions: Iterable[Condition] = (),
    ) -> Self:
        """Return the guarantee of some releases, with the smallest epsilon that their events prove.

        The guarantee holds for the incomplete table that the curator has.

        Parameters
        ----------
        events : Event or iterable of Event
            Accounting events of releases whose privacy parameters were fixed in advance.
        delta : float, default 0.0
            Delta of the guarantee, in [0, 1). Above 0 unless every event is pure DP.
        adjacency : {"add-remove", "replace-one"}, default "add-remove"
            The neighbouring relation. Add-remove events are converted if it is ``"replace-one"``.
        conditions : iterable of Condition, default ()
            Conditions of the guarantee.

        Returns
        -------
        Guarantee
            The guarantee of all releases together. Public.

        Raises
        ------
        UnprovenError
            If no finite epsilon is proven at this delta, or the events protect different units.
        ParameterError
            If delta is out of range, or an element is not an `Event`.

        Examples
        --------
        >>> from missdp import Guarantee
        >>> from missdp.accounting import PureEvent
        >>> Guarantee.from_events([PureEvent(epsilon=0.5), PureEvent(epsilon=0.25)]).epsilon
        0.75
        """
        parts = (events,) if isinstance(events, Event) else tuple(events)
        epsilon = proven_epsilon(parts, delta, adjacency)
        if math.isinf(epsilon):
            raise UnprovenError(f"no epsilon is proven at delta {delta:g}; state a larger delta")
        return cls(epsilon, delta, adjacency, "incomplete", tuple(conditions), parts)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon that this guarantee proves at another delta.

        Parameters
        ----------
        delta : float
            The other delta, in [0, 1).

        Returns
        -------
        float
            Infinite if nothing is proven at this delta. It is at least the stated epsilon at a
            smaller delta, and at most the stated epsilon at a larger delta. Public.

        Raises
        ------
        UnprovenError
            If no bound covers the events at a smaller delta.
        ParameterError
            If delta is out of range.
        """
        delta = check_delta("delta", delta)
        if delta == self.delta or not self.events:
            return self.epsilon if delta >= self.delta else math.inf
        try:
            epsilon = self._proven_at(delta)
        except UnprovenError:
            if delta < self.delta:
                raise
            return self.epsilon
        return max(epsilon, self.epsilon) if delta <= self.delta else min(epsilon, self.epsilon)

    def compose(self, *others: Guarantee) -> Guarantee:
        """Return the joint guarantee of this release and other releases of one table.

        Epsilon is the smallest that all events together prove at the sum of the deltas. The
        conditions of all guarantees are united. The number of releases and their sizes must not
        depend on their answers. If they may, charge all releases to one `Filter`, whose total is
        then the guarantee.

        Parameters
        ----------
        *others : Guarantee
            Guarantees for the incomplete table, under the adjacency of this guarantee.

        Returns
        -------
        Guarantee
            The guarantee of all releases together. Public.

        Raises
        ------
        UnprovenError
            If the guarantees differ in adjacency or unit, or if one is for the ground truth. All
            releases see one draw of the missing cells, so amplified epsilons must not be added. Two
            releases with epsilon 1 that read a row with probability 1/2 cost 0.62 each, and 1.43
            together. `missdp.ground_truth.joint` amplifies several releases together. Also if the
            deltas add up to 1 or more.

        Examples
        --------
        >>> from missdp import Guarantee
        >>> Guarantee(1.0).compose(Guarantee(0.5)).epsilon
        1.5
        """
        parts = (self, *others)
        if {(part.adjacency, part.protects) for part in parts} != {(self.adjacency, "incomplete")}:
            raise UnprovenError(
                "cannot compose guarantees for the ground truth, or under different adjacencies. "
                "Use missdp.ground_truth.joint, or convert add-remove with to_replace_one()"
            )
        delta = float_up(total(exact(part.delta) for part in parts))
        if delta >= 1:
            raise UnprovenError("the deltas add up to 1 or more: nothing is guaranteed")
        return self.from_events(
            [event for part in parts for event in part.events],
            delta=delta,
            adjacency=self.adjacency,
            conditions=[condition for part in parts for condition in part.conditions],
        )

    def to_replace_one(self) -> Guarantee:
        """Return this guarantee for neighbouring tables that differ by one replaced row.

        An add-remove guarantee (epsilon, delta) becomes (2 epsilon, (1 + e^epsilon) delta). The
        events remain facts under add-remove.

        Returns
        -------
        Guarantee
            The guarantee itself if it already holds under replace-one adjacency. Public.

        Raises
        ------
        UnprovenError
            If delta reaches 1, so that nothing is guaranteed.

        Examples
        --------
        >>> from missdp import Guarantee
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
        """Return this guarantee with additional conditions.

        Parameters
        ----------
        *conditions : Condition
            Assumptions on which the guarantee also rests. They are stated and not checked.

        Returns
        -------
        Guarantee
            A guarantee with equal numbers and events. Public.

        Raises
        ------
        ParameterError
            If an argument is not a `Condition`.
        UnprovenError
            If the guarantee is for the ground truth, and a condition may fail for other draws of
            the missing cells.
        """
        result = copy(self)  # the proof of its numbers by its events remains valid
        object.__setattr__(result, "conditions", _tidy((*self.conditions, *conditions)))
        result._check_conditions()
        return result

    def in_words(self) -> str:
        """Return this guarantee as plain sentences, with all of its conditions.

        Returns
        -------
        str
            Several lines of at most 92 characters. Public.

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
        from missdp.words import in_words

        return in_words(self)

    def explain(self, *, prior: float = 0.5, chance: float = 1e-3) -> Risk:
        """Return bounds on an observer's odds, after the release, that a row is in the table.

        Parameters
        ----------
        prior : float, default 0.5
            Probability, before the release, that the row is in the table. Between 0 and 1, both
            excluded. The curator chooses it.
        chance : float, default 0.001
            Probability of a larger change, for a delta above 0. Between 0 and 1, both excluded. It
            must be larger than delta if only epsilon and delta are known. At delta 0 no larger
            change is possible.

        Returns
        -------
        Risk
            Bounds on the odds and on the probability after the release (`missdp.words.Risk`).
            Public.

        Raises
        ------
        ParameterError
            If ``prior`` or ``chance`` is out of range.
        UnprovenError
            If no bound is proven that holds except with probability ``chance``.

        Examples
        --------
        >>> from missdp import Guarantee
        >>> print(Guarantee(1.0).explain(prior=0.1))
        Suppose that someone who knows all other rows gives a probability of 10 % to this: this
        person's row is in the table.
        The release raises these odds by a factor of at most 2.719, so to at most 23.2 %.
        It lowers them by a factor of at most 2.719, so to at least 3.927 %.
        A count of people that is released with noise of about ± 1.4 (its standard deviation) has
        the same guarantee.
        What a release shows of people in general can be applied to this person all the same, with
        the row or without it.
        """
        from missdp.words import Risk

        return Risk.from_guarantee(self, prior=prior, chance=chance)

    def _repr_html_(self) -> str:
        """Return the guarantee in words, for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return self.in_words()

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        """Return the guarantee of a dictionary, which must have every field."""
        names = {f.name for f in fields(cls)}
        if not names <= set(data):
            raise ParameterError(f"a guarantee needs {sorted(names)}")
        read = super()._read(data)
        if not data["events"] and (read.epsilon or read.delta):
            raise ParameterError("a guarantee needs the events that prove it")
        return read


def _tidy(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    unique = set(all_conditions(conditions))
    return tuple(sorted(unique, key=lambda c: (c.kind, json.dumps(c.to_dict(), sort_keys=True))))
