"""The budget: what may be spent, charged before anything is computed, shared by clones."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable
from typing import Literal, NoReturn, Self, get_args

import numpy as np

from missdp.accounting._convert import best_order
from missdp.accounting._record import check_delta, check_positive
from missdp.accounting._totals import Totals
from missdp.accounting.accountants import RDP_ORDERS
from missdp.accounting.conditions import Condition, FixedSchedule
from missdp.accounting.curves import approximate_delta
from missdp.accounting.events import Adjacency, Event, check_adjacency, flatten
from missdp.accounting.guarantee import Guarantee
from missdp.accounting.neighbours import epsilon_under
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError

__all__ = ["Budget", "Schedule"]

Schedule = Literal["fixed", "adaptive"]
# Calibrated noise spends a target exactly; this much relative overshoot is floating point.
_TOLERANCE = 1e-9


class Budget:
    """A privacy budget that is charged before a mechanism runs, and refuses what it cannot afford.

    One budget is one object: copies, deep copies and scikit-learn clones are the budget itself,
    so that cross-validation spends from it, and it cannot be pickled into a second copy. All
    methods are thread-safe.

    Parameters
    ----------
    epsilon : float
        Total epsilon, finite and above 0.
    delta : float, default 0.0
        Total delta, in [0, 1). At 0 only pure DP mechanisms can be afforded.
    adjacency : {"add-remove", "replace-one"}, default "add-remove"
        The relation the total holds for. A replace-one budget also takes add-remove events and
        converts them (see `Event.to_replace_one`); the opposite is refused.
    schedule : {"fixed", "adaptive"}, default "fixed"
        Whether noise scales and the number of charges are fixed in advance. ``"fixed"`` lets
        every accountant compete, and `spent` states the condition `FixedSchedule` once there are
        several charges at a delta above 0. Use ``"adaptive"`` if an earlier output decides how
        much noise a later release gets: the budget is then a *privacy filter*, which needs no
        such condition but accounts at a single Rényi order, chosen from (epsilon, delta) alone.

    Raises
    ------
    ParameterError
        If a parameter is out of range.

    Notes
    -----
    Fixed: adaptive queries with fixed parameters compose under pure DP, zCDP, Rényi DP and
    dominating pairs alike. Adaptive: pure DP sums (Rogers et al. 2016) and Rényi sums at a fixed
    order (Feldman & Zrnic 2021) are filters, and using both is sound: outcomes within the pure
    sum have no delta, so the deltas of the two do not add up. A charge is refused if the total
    would exceed epsilon by more than a relative 1e-9, the room for floating-point summation.

    Examples
    --------
    >>> from missdp.accounting import Budget, LaplaceEvent
    >>> budget = Budget(1.0)
    >>> budget.charge(LaplaceEvent(sensitivity=1, scale=2.0))
    >>> budget.remaining_epsilon
    0.5
    >>> budget.charge(LaplaceEvent(sensitivity=1, scale=1.0))
    Traceback (most recent call last):
        ...
    missdp.errors.BudgetExceededError: ...
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        adjacency: Adjacency = "add-remove",
        schedule: Schedule = "fixed",
    ) -> None:
        self._epsilon = check_positive("epsilon", epsilon)
        self._delta = check_delta("delta", delta)
        self._adjacency = check_adjacency(adjacency)
        if schedule not in get_args(Schedule):
            raise ParameterError(f"schedule must be 'fixed' or 'adaptive', got {schedule!r}")
        self._schedule: Schedule = schedule
        orders = RDP_ORDERS if self._delta > 0 else np.empty(0)  # without delta only pure DP counts
        if schedule == "adaptive" and self._delta > 0:
            orders = np.array([best_order(self._epsilon, self._delta)])
        self._totals = Totals(orders, curve=np.zeros_like(orders))
        self._events: tuple[Event, ...] = ()
        self._conditions: tuple[Condition, ...] = ()
        self._charges = 0
        self._lock = threading.RLock()

    @property
    def epsilon(self) -> float:
        """The total epsilon."""
        return self._epsilon

    @property
    def delta(self) -> float:
        """The total delta."""
        return self._delta

    @property
    def adjacency(self) -> Adjacency:
        """The relation the total holds for."""
        return self._adjacency

    @property
    def schedule(self) -> Schedule:
        """Whether privacy parameters are fixed in advance or chosen adaptively."""
        return self._schedule

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything charged so far, in order."""
        with self._lock:
            return self._events

    def charge(self, *events: Event, conditions: Iterable[Condition] = ()) -> None:
        """Record ``events`` as spent, or refuse them all.

        Call it *before* reading the data. Nothing is refunded: a computation that fails after
        its charge may already have revealed something by failing.

        Parameters
        ----------
        *events : Event
            What is about to be done.
        conditions : iterable of Condition
            What the events rest on; part of `spent` from now on.

        Raises
        ------
        BudgetExceededError
            If the total would exceed the budget. Nothing is recorded.
        UnprovenError
            If the total cannot be bounded. Nothing is recorded.
        """
        kept = tuple(conditions)
        if not all(isinstance(condition, Condition) for condition in kept):
            raise ParameterError("conditions must all be Condition objects")
        parts = flatten(events)
        with self._lock:
            totals = self._after(parts)
            if totals is None:
                raise BudgetExceededError(
                    f"the release does not fit into the budget (epsilon={self._epsilon:g}, "
                    f"delta={self._delta:g}, {self._adjacency}); nothing was computed or recorded. "
                    "Add noise, ask for less, or use a larger budget"
                )
            self._totals = totals
            self._events += events
            self._conditions += kept
            self._charges += 1

    def can_afford(self, *events: Event) -> bool:
        """Return whether `charge` would accept these events now; records nothing."""
        parts = flatten(events)
        with self._lock:
            return self._after(parts) is not None

    @property
    def spent(self) -> Guarantee:
        """The guarantee of everything charged so far.

        With schedule ``"fixed"``, the smallest proven epsilon; delta is 0 if the pure sum fits
        the budget. With ``"adaptive"``, the budget itself as soon as anything was charged: how
        much an adaptive sequence happened to spend is an outcome, not a guarantee.
        """
        with self._lock:
            events, conditions, charges = self._events, self._conditions, self._charges
            pure = self.pure_epsilon_spent
        if not events:
            return Guarantee(0.0, 0.0, self._adjacency, "incomplete", conditions)
        if pure <= self._limit:
            epsilon, delta = min(pure, self._epsilon), 0.0
        else:
            delta = self._delta
            # Adaptive sequences are only worth their filter, so nothing is recomputed for them.
            exact = self._schedule == "fixed"
            found = epsilon_under(events, delta, self._adjacency) if exact else self._epsilon
            epsilon = min(found, self._epsilon)
        if self._schedule == "adaptive":
            epsilon, delta = self._epsilon, self._delta
        elif delta > 0 and charges > 1:
            conditions = (*conditions, FixedSchedule())
        return Guarantee(epsilon, delta, self._adjacency, "incomplete", conditions, events)

    @property
    def pure_epsilon_spent(self) -> float:
        """The plain sum of epsilons charged so far; infinite if one of them is not pure DP."""
        with self._lock:
            return math.inf if self._totals.failure else self._totals.pure

    @property
    def remaining_epsilon(self) -> float:
        """Total epsilon less the epsilon of what was charged, at the budget's delta.

        Epsilons do not add up at a delta above 0, so more than this may still be affordable:
        ask `can_afford`.
        """
        with self._lock:
            events, running = self._events, self._totals.epsilon(self._delta)
        if events and self._schedule == "fixed" and self._delta > 0:
            running = min(running, epsilon_under(events, self._delta, self._adjacency))
        return max(0.0, self._epsilon - running)

    @property
    def _limit(self) -> float:
        return self._epsilon * (1 + _TOLERANCE)

    def _after(self, parts: tuple[Event, ...]) -> Totals | None:
        """Return the totals with ``parts`` charged, or None if they exceed the budget."""
        converted = self._converted(parts)
        totals = self._totals.plus(converted)
        if totals.epsilon(self._delta) <= self._limit:
            return totals
        if self._schedule == "adaptive":
            return None
        # Only now the exact and slower accountants, which may still accept what the totals do not.
        everything = (*self._events, *parts)
        if self._delta > 0 and self._slow(everything) <= self._limit:
            return totals
        return None

    def _slow(self, events: tuple[Event, ...]) -> float:
        return epsilon_under(events, self._delta, self._adjacency)

    def _converted(self, parts: tuple[Event, ...]) -> tuple[Event, ...]:
        """Return the events under the budget's adjacency; refuse what has no place in it."""
        if self._schedule == "adaptive":
            for event in parts:
                if approximate_delta(event) > 0:
                    raise UnprovenError(
                        f"{type(event).__name__} needs a budget with schedule='fixed': no filter "
                        "is proven here for events with a delta of their own"
                    )
        if self._adjacency == "replace-one":
            return tuple(event.to_replace_one() for event in parts)
        for event in parts:
            if event.adjacency != "add-remove":
                raise UnprovenError(
                    f"{type(event).__name__} states a fact under replace-one, from which nothing "
                    "follows for adding or removing a row; use a replace-one budget"
                )
        return parts

    def __repr__(self) -> str:
        return (
            f"Budget(epsilon={self._epsilon:g}, delta={self._delta:g}, "
            f"adjacency={self._adjacency!r}, schedule={self._schedule!r})"
        )

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise ParameterError(
            "a Budget cannot be pickled: a copy in another process could be spent a second time. "
            "Charge it in the parent process, or use threads"
        )
