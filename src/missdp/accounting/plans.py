"""Budgets for releases that were all fixed before the first of them: a plan, proven once.

A fit needs no plan unless it trains networks. Its measurements are chosen along the way, and a
`Filter` pays for them.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from missdp.accounting.budget import Budget, Entries, Events, as_events
from missdp.accounting.composition import proven_epsilon
from missdp.accounting.events import Adjacency, Event, check_adjacency, flatten, unit_of
from missdp.accounting.filters import FilterEvent
from missdp.accounting.guarantee import Guarantee
from missdp.conditions import Condition, FixedSchedule, all_conditions
from missdp.errors import BudgetExceededError, UnprovenError, check_delta, check_nonnegative


class Composition(Budget):
    """A privacy budget for releases that were all fixed before the first of them.

    Use it if noise and number of all releases are known in advance. The total may then be smaller
    than with a `Filter`, since all events are composed by the best bound of any kind
    (`proven_epsilon`). `charge` raises an error for an event that is not in the plan or was charged
    before. The guarantee covers the complete plan, even if a planned release is omitted.

    Like a `Filter`, a composition is one object, can be neither pickled nor forked, and is
    thread-safe. Its parts may be used in any order, and at the same time. A filter bounds every
    analyst, including an analyst who sees the answers of other parts (Vadhan & Zhang 2023).

    Parameters
    ----------
    plan : iterable of Event
        The accounting events of all releases. A part that is chosen along the way is one event, its
        cap (`Filter.filter`). Labels of events do not matter when they are charged.
    epsilon : float, optional
        The epsilon that the guarantee states, at least 0. By default the smallest proven
        epsilon.
    delta : float, default 0.0
        The delta that the guarantee states, in [0, 1). Above 0 if an event is not pure DP.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The neighbouring relation for which the guarantee holds. Add-remove events are converted for
        ``"replace-one"``.

    Raises
    ------
    BudgetExceededError
        If the plan costs more than ``epsilon``.
    UnprovenError
        If nothing is proven for the plan at this delta, or its events protect different units.
    ParameterError
        If a number is out of range.

    Notes
    -----
    A composition reads no private rows, so its numbers are public. The guarantee of all releases is
    ``epsilon`` at ``delta`` under ``adjacency``.

    References
    ----------
    Vadhan, Zhang (2023), "Concurrent composition theorems for differential privacy", STOC.

    Examples
    --------
    >>> from missdp.accounting import Composition, GaussianEvent
    >>> events = [GaussianEvent(sensitivity=1, sigma=30.0 + k) for k in range(3)]
    >>> plan = Composition(events, 0.5, 1e-6)
    >>> plan.charge(events[0])
    >>> plan.spent.epsilon, len(plan.spent.events)
    (0.5, 3)
    >>> plan.charge(events[0])
    Traceback (most recent call last):
        ...
    missdp.errors.BudgetExceededError: ...
    """

    def __init__(
        self,
        plan: Iterable[Event],
        epsilon: float | None = None,
        delta: float = 0.0,
        *,
        adjacency: Adjacency = "add-remove",
    ) -> None:
        self._plan = tuple(plan)
        parts, requested = flatten(self._plan), 0.0 if epsilon is None else epsilon
        unit_of(self._plan)  # raises if the events protect different units
        proven = proven_epsilon(
            self._plan,
            check_delta("delta", delta),
            check_adjacency(adjacency),
            enough=check_nonnegative("epsilon", requested),
        )
        if not (parts and proven < math.inf):
            raise UnprovenError(
                f"nothing is proven for a plan of {len(parts)} releases at delta={delta:g}; state "
                "every release of the plan, and a larger delta"
            )
        if epsilon is not None and not proven <= epsilon:
            raise BudgetExceededError(
                f"the plan of {len(parts)} releases costs more than epsilon={epsilon:g} at "
                f"delta={delta:g}; nothing was computed or recorded. Add noise, ask for less, or "
                "use a larger epsilon"
            )
        super().__init__(proven if epsilon is None else epsilon, delta, adjacency)
        self._open = Counter(map(_bare, self._plan))

    @property
    def plan(self) -> tuple[Event, ...]:
        """Return the accounting events of all planned releases, whether they were charged or not.

        Returns
        -------
        tuple of Event
            In the order in which the plan was given. Public.
        """
        return self._plan

    def _stated(self, conditions: tuple[Condition, ...]) -> Guarantee:
        facts = self._epsilon, self._delta, self._adjacency
        return Guarantee(*facts, "incomplete", (*conditions, FixedSchedule()), self._plan)

    def can_afford(self, *events: Event) -> bool:
        """Return whether some releases are planned and were not charged yet. Nothing is charged.

        Parameters
        ----------
        *events : Event
            The accounting events of the releases. Their labels do not matter.

        Returns
        -------
        bool
            True if `charge` would accept all events together. Public.

        Raises
        ------
        BudgetExceededError
            If this process is a fork of the process that made the budget.
        """
        self.check_process()
        with self._lock:
            return Counter(map(_bare, events)) <= self._open

    def _record(self, parts: Events, entries: Entries, conditions: Iterable[Condition]) -> None:
        del parts
        stated = all_conditions(conditions)
        with self._lock:
            charged = Counter(map(_bare, as_events(entries)))
            if not charged <= self._open:
                raise BudgetExceededError(
                    "the release is not in the plan of this composition, or was charged before; "
                    "nothing was computed or recorded. Fix all releases when the composition is "
                    "made, or use a Filter, which takes releases that are chosen later"
                )
            self._open -= charged
            self._entries += entries
            self._conditions += stated


def _bare(event: Event) -> Event:
    """Return an event without its label and without the log of a filter, as in a plan."""
    if isinstance(event, FilterEvent):
        return replace(event, label="", log=())
    return replace(event, label="")
