"""The guarantee: what a release promises, under which conditions, and from which events."""

from __future__ import annotations

import json
import math
import textwrap
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from html import escape
from typing import Any, Self, get_args

from missdp.accounting.accountants import epsilon_of, epsilon_under, within
from missdp.accounting.conditions import Assumption, Condition, all_conditions
from missdp.accounting.costs import is_pure
from missdp.accounting.events import (
    Adjacency,
    ApproximateEvent,
    Event,
    Protects,
    PureEvent,
    check_adjacency,
    flatten,
)
from missdp.accounting.exact import add_remove_share, exact, float_up, printed, replace_one_of
from missdp.accounting.exact import total as exact_total
from missdp.accounting.filters import ROW, counted_as_one, unit_of
from missdp.accounting.risk import Risk
from missdp.errors import ParameterError, UnprovenError, WeakGuaranteeWarning, one_of
from missdp.record import DELTA, FORMAT, NONNEGATIVE, Record, check_delta


@dataclass(frozen=True)
class Guarantee(Record):
    """An (epsilon, delta) guarantee with everything it rests on.

    Prefer `from_events` or `Budget.spent`, which compute the numbers. Stated numbers are checked
    against the events, here and whenever a guarantee is read from a file: they may be larger than
    what the events prove, never smaller.

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
        What was accounted, so that anyone can recompute epsilon at another delta. Without any, one
        is made up from epsilon and delta: a mechanism of which nothing else is known.

    Raises
    ------
    ParameterError
        If a number is out of range, delta is 0 beside an event that is not pure, or epsilon is
        smaller than what the events prove.
    UnprovenError
        If ``protects`` is ``"ground-truth"`` without a condition on missingness, or with one that
        other draws of the missing cells may break, replace-one events are given for an add-remove
        guarantee, or no accountant bounds the events.

    Notes
    -----
    Events of a fixed schedule *are* the guarantee: any accountant may read them again at another
    delta. Of an adaptive sequence only its cap is, which `FilterEvent` carries. A number below
    what the events prove one by one needs an event that proves it (`Event.epsilon_bound`), such as
    those of `missdp.ground_truth`.

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

    epsilon: float = field(metadata=NONNEGATIVE)
    delta: float = field(default=0.0, metadata=DELTA)
    adjacency: Adjacency = "add-remove"
    protects: Protects = "incomplete"
    conditions: tuple[Condition, ...] = ()
    events: tuple[Event, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        check_adjacency(self.adjacency)
        one_of("protects", self.protects, get_args(Protects))
        object.__setattr__(self, "conditions", _tidy(self.conditions))
        events = (self.events,) if isinstance(self.events, Event) else tuple(self.events)
        flatten(events)  # refuses what is none
        object.__setattr__(self, "events", events or self._made_up())
        self._check_claim()

    def _made_up(self) -> tuple[Event, ...]:
        """One event for a statement that comes with none; for the ground truth nothing is known."""
        if self.protects == "ground-truth":
            return ()
        known: dict[str, Any] = {"epsilon": self.epsilon, "adjacency": self.adjacency}
        if self.delta > 0:
            return (ApproximateEvent(delta=self.delta, **known),)
        return (PureEvent(**known),) if self.epsilon > 0 else ()

    @property
    def unit(self) -> str:
        """Who is protected: ``"row"``, or the column that says which rows belong together."""
        return unit_of(self.events)[0]

    @property
    def max_rows(self) -> int:
        """How many rows of a unit were read at most."""
        return unit_of(self.events)[1]

    def _check_claim(self) -> None:
        parts = flatten(self.events)
        if self.unit != ROW and self.protects == "ground-truth":
            raise UnprovenError(
                "for the table before values went missing nothing is proven of units with several "
                "rows: leave the unit out of the schema for that"
            )
        if self.adjacency == "add-remove" and any(e.adjacency != "add-remove" for e in parts):
            raise UnprovenError("an add-remove guarantee cannot rest on replace-one events")
        if self.protects == "ground-truth" and not any(
            condition.implies_row_independence for condition in self.conditions
        ):
            raise UnprovenError(
                "a guarantee for the ground truth needs a condition that rows lose values "
                "independently of each other, e.g. RowIndependentMissingness()"
            )
        if self.protects == "ground-truth" and not all(
            condition.holds_for_every_mask or isinstance(condition, Assumption)
            for condition in self.conditions
        ):
            raise UnprovenError(
                "a guarantee for the ground truth averages over draws of the missing cells, of "
                "which some may break a condition that it is to rest on; nothing is proven"
            )
        for event in self.events:
            if not set(event.required_conditions()) <= set(self.conditions):
                raise ParameterError(f"a condition is missing that {type(event).__name__} rests on")
        if self.delta == 0 and not all(is_pure(event) for event in parts):
            raise ParameterError("delta is 0 only if every mechanism is pure DP; state a delta")
        if self.events and not self._proven():
            raise ParameterError("epsilon is smaller than the events prove")

    def _proven(self) -> bool:
        """Whether the events prove the stated numbers."""
        # Under replace-one, also half of epsilon for each of two steps; see `replace_one_of`.
        doubled, half = self.adjacency == "replace-one", self.epsilon / 2
        share = add_remove_share(half, self.delta)
        if self._own_bound(self.delta, self.adjacency) <= self.epsilon:
            return True
        if doubled and self._own_bound(share, "add-remove") <= half:
            return True
        if within(self.events, self.epsilon, self.delta, self.adjacency):
            return True
        if not doubled or any(e.adjacency == "replace-one" for e in flatten(self.events)):
            return False
        return epsilon_of(self.events, share) <= half

    def _own_bound(self, delta: float, adjacency: Adjacency) -> float:
        """Return what a single event proves by itself, beyond what accountants see in it."""
        if len(self.events) != 1:
            return math.inf
        return self.events[0].epsilon_bound(delta, adjacency=adjacency, protects=self.protects)

    @classmethod
    def from_events(
        cls,
        events: Event | Iterable[Event],
        *,
        delta: float = 0.0,
        adjacency: Adjacency = "add-remove",
        conditions: Iterable[Condition] = (),
    ) -> Self:
        """Return the guarantee for the incomplete table, with the smallest epsilon that is proven.

        Privacy parameters of the events were fixed in advance. ``delta`` is above 0 as soon as one
        of them is not pure, and add-remove events are converted.
        """
        parts = (events,) if isinstance(events, Event) else tuple(events)
        epsilon = epsilon_under(parts, delta, adjacency)
        if math.isinf(epsilon):
            raise UnprovenError(f"no epsilon is proven at delta {delta:g}; state a larger delta")
        return cls(epsilon, delta, adjacency, "incomplete", tuple(conditions), parts)

    def epsilon_at(self, delta: float) -> float:
        """Return the smallest epsilon that the events prove at ``delta``, possibly infinite.

        At a delta up to the stated one this is never below the stated epsilon; at a larger delta
        never above it.
        """
        delta = check_delta("delta", delta)
        if delta == self.delta or not self.events:
            return self.epsilon if delta >= self.delta else math.inf
        found = self._own_bound(delta, self.adjacency)
        try:
            found = min(found, epsilon_under(self.events, delta, self.adjacency))
        except UnprovenError:
            if math.isinf(found) and delta < self.delta:
                raise
        return max(found, self.epsilon) if delta <= self.delta else min(found, self.epsilon)

    def compose(self, *others: Guarantee) -> Guarantee:
        """Return the guarantee of all these releases together; conditions are united.

        The deltas add up; epsilon is the best proven at their sum, and never more than the sum of
        epsilons. For the ground truth it is recomputed from the events without amplification: all
        releases see one and the same draw of the missing cells, so *amplified* epsilons must not
        be added (two releases with epsilon 1 that read a row with probability 1/2 cost 0.62 each,
        but 1.43 together, not 1.24): `missdp.ground_truth.joint` amplifies all of them together.

        Which releases there are, and their sizes, must not depend on what they answered. Where it
        may, put an adaptive `Budget` around all of them: what it is worth is the guarantee.
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
        unit, _ = unit_of(event for part in parts for event in part.events)
        conditions = tuple(c for part in parts for c in part.conditions)
        if any(part.protects == "ground-truth" and not part.events for part in parts):
            raise UnprovenError("a ground-truth guarantee without events cannot be composed")
        spending = [part for part in parts if part.events]
        if len(spending) <= 1:  # nothing is added by a release that costs nothing
            return (spending or parts)[0].with_conditions(*conditions)
        events = tuple(event for part in spending for event in part.events)
        delta = float_up(exact_total(exact(part.delta) for part in spending))
        if delta >= 1:
            raise UnprovenError("the deltas add up to 1 or more: nothing is guaranteed")
        try:
            epsilon = epsilon_under(events, delta, self.adjacency)
        except UnprovenError:
            if self.protects == "ground-truth":
                raise
            epsilon = math.inf
        basic = float_up(exact_total(exact(part.epsilon) for part in spending))
        if self.protects == "incomplete" and basic < epsilon and unit == ROW:
            # Basic composition of the statements themselves, which then are all that is known.
            epsilon, events = basic, tuple(e for part in spending for e in part._made_up())
        return Guarantee(epsilon, delta, self.adjacency, self.protects, conditions, events)

    def to_replace_one(self) -> Guarantee:
        """Return the guarantee when one row is replaced: (2 epsilon, (1 + e^epsilon) delta).

        Events are still facts under add-remove.

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
        lines = [line for sentence in self.sentences for line in textwrap.wrap(sentence, _WIDTH)]
        return "\n".join([*lines, *_conditions(self)])

    @property
    def in_a_line(self) -> str:
        """What is guaranteed, with every condition, for labels.

        >>> from missdp.accounting import Guarantee
        >>> Guarantee(1.0).in_a_line[-25:]
        'It rests on no condition.'
        """
        return " ".join([self.sentences[0], *map(str.strip, _conditions(self))])

    @property
    def sentences(self) -> tuple[str, str, str, str]:
        """What is guaranteed, what it does to odds and to guesses, and what is protected."""
        protected = f"What is protected: {_PROTECTED[self.protects]}."
        return _statement(self), _odds(self), _guess(self), protected

    def explain(self, *, prior: float = 0.5, chance: float = 1e-3) -> Risk:
        """Return how far the release can move the odds that somebody gives a person's row.

        Parameters
        ----------
        prior : float, default 0.5
            Probability, before the release, that the row is in the table: a number that the office
            names.
        chance : float, default 0.001
            Probability of an exception, where delta is above 0. It must be larger than delta if
            nothing but epsilon and delta is known; at delta 0 there are no exceptions.

        Examples
        --------
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
        return Risk.of(self, prior=prior, chance=chance)

    def _repr_html_(self) -> str:
        """Return the guarantee in words, for notebooks."""
        return f"<pre>{escape(str(self))}</pre>"

    def __str__(self) -> str:
        return self.in_words()

    @classmethod
    def _read(cls, data: Mapping[str, Any]) -> Self:
        """Return the guarantee of a dictionary, which must name every field: none may be lost."""
        known = {f.name for f in fields(cls)}
        if not known <= set(data) or data.get("format", FORMAT) != FORMAT:
            raise ParameterError(f"a guarantee needs {sorted(known)}, format {FORMAT}")
        read = super()._read(data)
        if not data["events"] and (read.epsilon or read.delta):
            raise ParameterError("a guarantee needs the events that prove it")
        return read


def _tidy(conditions: Iterable[Condition]) -> tuple[Condition, ...]:
    kept = all_conditions(conditions)
    return tuple(sorted(set(kept), key=lambda c: (c.kind, json.dumps(c.to_dict(), sort_keys=True))))


_WIDTH = 92
_PRINTABLE = 700.0  # beyond, e^epsilon is no floating-point number
_CHANGE = {
    "add-remove": "Adding one person's row to the table, or removing it",
    "replace-one": "Replacing one person's row of the table by any other row",
}


_PROTECTED = {
    "incomplete": "the table the curator holds, including which of its cells are missing",
    "ground-truth": "the table as it was before values went missing",
}


def _statement(guarantee: Guarantee) -> str:
    epsilon = printed(guarantee.epsilon)
    if guarantee.delta == 0:
        name = f"{epsilon}-differentially private (pure)"
    else:
        name = f"({epsilon}, {printed(guarantee.delta)})-differentially private"
    return f"The release is {name} under {guarantee.adjacency} adjacency."


def _odds(guarantee: Guarantee) -> str:
    if guarantee.epsilon <= _PRINTABLE:
        factor = printed(math.exp(guarantee.epsilon))
    else:
        factor = f"e^{printed(guarantee.epsilon)}"
    beyond = f", and by {printed(guarantee.delta)} beyond that" if guarantee.delta else ""
    # Before values went missing there were no missing cells.
    whose = "its" if guarantee.unit == ROW else "their"
    holes = f", {whose} missing cells included," if guarantee.protects == "incomplete" else ""
    change = f"{_change(guarantee)}{holes}"
    if not holes and guarantee.adjacency == "add-remove":
        change += ","
    return (
        f"{change} changes the probability of any outcome by a factor of at most {factor}{beyond}."
    )


def _change(guarantee: Guarantee) -> str:
    if guarantee.unit == ROW:
        return _CHANGE[guarantee.adjacency]
    read = f", of which at most {guarantee.max_rows} are read" if guarantee.max_rows > 1 else ""
    if read and counted_as_one(guarantee.events):
        read += " and count as one together"
    if guarantee.adjacency == "add-remove":
        return f"Adding all rows of one {guarantee.unit} to the table, or removing them{read}"
    return f"Replacing all rows of one {guarantee.unit}{read} by those of another"


def _guess(guarantee: Guarantee) -> str:
    # Half of 1 + total variation, which is at most (e^eps - 1 + 2 delta) / (e^eps + 1).
    odds = math.exp(-min(guarantee.epsilon, _PRINTABLE))
    chance = min(1.0, (1 + guarantee.delta * odds) / (1 + odds))
    return (
        "Someone who sees only this release, and to whom both tables seemed equally likely "
        "before, guesses which of them was used correctly with probability at most "
        f"{printed(100 * chance)} %."
    )


def _conditions(guarantee: Guarantee) -> list[str]:
    if not guarantee.conditions:
        return ["It rests on no condition."]
    count = len(guarantee.conditions)
    lines = [
        "It rests on this condition:" if count == 1 else f"It rests on these {count} conditions:"
    ]
    for condition in guarantee.conditions:
        lines += textwrap.wrap(
            condition.statement(), _WIDTH, initial_indent="- ", subsequent_indent="  "
        )
    return lines


def warn_if_weak(epsilon: float, delta: float = 0.0, *, n: int | None = None) -> None:
    """Warn of what makes a guarantee next to worthless; usually nothing does.

    ``n`` is a *declared or released* number of rows, never the private one: a warning would tell.
    """
    if epsilon > 10:
        warnings.warn(
            f"epsilon = {printed(epsilon)} is above 10: someone who knows all other rows may "
            "learn almost surely what a person answered; values of about 1 are usual",
            WeakGuaranteeWarning,
            stacklevel=3,
        )
    if n is not None and delta > 0 and delta * n >= 1:
        warnings.warn(
            f"delta = {printed(delta)} is at least 1/n (n = {n}): publishing each row in full "
            "with this probability would keep the same promise; state a delta far below 1/n",
            WeakGuaranteeWarning,
            stacklevel=3,
        )
