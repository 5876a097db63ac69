"""The budget: what may be spent, charged before anything is computed, shared by clones."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from fractions import Fraction
from typing import Any, ClassVar, Literal, NoReturn, Self, get_args

from missdp.accounting.accountants import epsilon_under, within
from missdp.accounting.conditions import Condition, FixedSchedule, all_conditions
from missdp.accounting.costs import approximate_delta, proven, pure_cost, zcdp_cost
from missdp.accounting.events import (
    Adjacency,
    Event,
    PureEvent,
    check_adjacency,
    flatten,
    under,
)
from missdp.accounting.exact import epsilon_from_rho, exact, float_down, float_up, total
from missdp.accounting.filters import (
    Cost,
    Currency,
    FilterEvent,
    UnitEvent,
    unit_of,
)
from missdp.accounting.guarantee import Guarantee
from missdp.errors import BudgetExceededError, LedgerError, ParameterError, one_of
from missdp.record import check_delta, check_positive

Schedule = Literal["fixed", "adaptive"]
"""Whether later charges may depend on earlier answers ("adaptive") or not ("fixed")."""


# Which process this is: a new token after every fork, since the numbers of processes return.
_FORKS = [object()]
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _FORKS.append(object()))


_OF_ROWS = (PureEvent(epsilon=0.0),)
_Sums = tuple[Fraction | None, Fraction | None, Fraction]


class Budget:
    """A privacy budget that is charged before a mechanism runs, and refuses what it cannot afford.

    One budget is one object: copies, deep copies and scikit-learn clones are the budget itself,
    so that cross-validation spends from it. It cannot be pickled into a second copy, and a forked
    process cannot spend it. All methods are thread-safe.

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
        every accountant compete, and `spent` states the condition `FixedSchedule`. Use
        ``"adaptive"`` if an earlier output decides how much noise a later release gets, or whether
        there is one: the budget is then a *privacy filter*, which needs no such condition. It
        counts in one currency, and `spent` is the whole budget from the first charge on.
    currency : {"pure", "zcdp", "renyi", "gdp"}, optional
        What an adaptive budget counts: pure epsilons, zCDP rhos, Rényi divergences at the one
        order that suits (epsilon, delta) best, or squares of the mu of Gaussian DP, which is best
        for Gaussian noise. Default: ``"zcdp"``, or ``"pure"`` at delta 0.

    Notes
    -----
    Fixed: adaptive queries with fixed parameters compose under pure DP, zCDP, Rényi DP and
    dominating pairs alike. Adaptive: see `FilterEvent`. Sums are exact and nothing is tolerated
    beyond the total: a number that a person wrote counts as that decimal number (ten charges of
    0.1 fit into 1), and the cost of noise as the exact quotient.

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

    charged_first: ClassVar[bool] = False
    """Whether a fit must not even open its rows before it is charged."""

    def __init__(
        self,
        epsilon: float,
        delta: float = 0.0,
        *,
        adjacency: Adjacency = "add-remove",
        schedule: Schedule = "fixed",
        currency: Currency | None = None,
    ) -> None:
        self._epsilon = check_positive("epsilon", epsilon)
        self._delta = check_delta("delta", delta)
        self._adjacency = check_adjacency(adjacency)
        self._schedule: Schedule = one_of("schedule", schedule, get_args(Schedule))
        self._cost: Cost | None = None
        if schedule == "adaptive":
            chosen = currency or ("zcdp" if self._delta > 0 else "pure")
            self._cost = Cost.worth(chosen, self._epsilon, self._delta)
        elif currency is not None:
            raise ParameterError("currency is for budgets with schedule='adaptive'")
        # In the currency of an adaptive budget; of a fixed one the sum of epsilons, if all pure.
        self._spent: Fraction | None = Fraction(0)
        self._rho: Fraction | None = Fraction(0)  # of a fixed one the sum of rhos, if all have one
        self._failure = Fraction(0)  # the sum of the deltas of events
        self._entries: tuple[Event | Budget, ...] = ()
        self._conditions: tuple[Condition, ...] = ()
        self._label = ""
        self._reserved = False
        self._unit: dict[str, Any] | None = None  # as facts of a `UnitEvent`
        self._payer: Budget | None = None  # of which this is a part
        self._lock = threading.RLock()
        self._process = (os.getpid(), _FORKS[-1])

    @classmethod
    def from_cost(
        cls, cost: Cost, *, delta: float = 0.0, adjacency: Adjacency = "add-remove"
    ) -> Self:
        """Return an adaptive budget that is capped by exactly this cost, in its currency.

        ``delta``, above 0 unless the cost is pure, is that at which the budget states its epsilon:
        nothing else depends on it.

        >>> budget = Budget.from_cost(Cost(currency="zcdp", amount=0.02), delta=1e-6)
        >>> budget.left.amount, round(budget.epsilon, 2)
        (0.02, 0.9)
        """
        if not isinstance(cost, Cost) or cost.amount == 0:
            raise ParameterError("cost must be a Cost above 0")
        delta = check_delta("delta", delta)
        if cost.currency != "pure" and delta == 0:
            raise ParameterError(f"the currency {cost.currency!r} is worth nothing at delta 0")
        epsilon = cost.epsilon(delta)
        made = cls(
            epsilon or cost.amount,
            delta,
            adjacency=adjacency,
            schedule="adaptive",
            currency=cost.currency,
        )
        made._cost = cost
        return made

    def _for_units(
        self, unit: str, rows: int, *, counts: Literal["rows", "unit"] = "rows"
    ) -> Budget:
        """Return a fresh budget that protects units of at most so many rows, worth this one.

        Not public: who charges it must have chosen the rows, which nothing here can see. What is
        charged to it are facts about one row, and so are its ``cost`` and ``left``; its epsilon,
        its `filter` and what is `spent` are those of a unit; all its rows may count as one.
        """
        if self._cost is None or self._entries:
            raise ParameterError("only a fresh budget with schedule='adaptive' can be for units")
        made = type(self).from_cost(
            self._cost.of_each(rows if counts == "rows" else 1),
            delta=self._delta,
            adjacency=self._adjacency,
        )
        made._epsilon = self._epsilon
        made._unit = {"unit": unit, "rows": rows, "counts": counts}
        made.filter()  # refused now, if nothing is proven
        return made

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
    def cost(self) -> Cost | None:
        """What an adaptive budget is capped by; None for a fixed one."""
        return self._cost

    @property
    def events(self) -> tuple[Event, ...]:
        """Everything charged so far, in order; a part that was reserved is one event."""
        with self._lock:
            entries = self._entries
        return tuple(e.filter() if isinstance(e, Budget) else e for e in entries)

    def charge(self, *events: Event, conditions: Iterable[Condition] = ()) -> None:
        """Record ``events`` as spent, with the conditions that they rest on, or refuse them all.

        Call it *before* reading the data. Nothing is refunded: a computation that fails after
        its charge may already have revealed something by failing.

        Raises
        ------
        BudgetExceededError
            If the total would exceed the budget, or this process is a fork of the one that made
            it. Nothing is recorded.
        UnprovenError
            If the total cannot be bounded. Nothing is recorded.
        """
        self.check_process()
        self._record(flatten(events), events, conditions)

    def reserve(
        self,
        part: Budget,
        *,
        label: str = "",
        conditions: Iterable[Condition] = (),
        beside: Iterable[Event] = (),
    ) -> Budget:
        """Set a part of this budget aside, and return it.

        This budget is charged, now, with the cap that the part enforces, in the part's currency:
        whatever is charged to the part later costs this budget nothing more, and nothing that the
        part does not spend comes back.

        Parameters
        ----------
        part : Budget
            A fresh budget with schedule ``"adaptive"``.
        label : str
            Public name.
        conditions : iterable of Condition
            What the releases of the part rest on, beside what is charged along with them.
        beside : iterable of Event
            Charged with the part, or refused with it: what its own currency does not count.

        Raises
        ------
        BudgetExceededError
            If the part does not fit. Nothing is recorded.

        Examples
        --------
        >>> total = Budget(1.0, 1e-5)
        >>> fits = [total.reserve(Budget(0.3, 1e-6, schedule="adaptive")) for _ in range(5)]
        >>> round(total.spent.epsilon, 2)
        0.62
        """
        self.check_process()
        if part is self or part.cost is None or part._reserved or part._entries:
            raise ParameterError("only a fresh budget with schedule='adaptive' can be reserved")
        part._label, more = label, tuple(beside)
        self._record(flatten((part.filter(), *more)), (part, *more), conditions)
        part._reserved, part._payer = True, self
        return part

    def filter(self, *, label: str = "") -> FilterEvent:
        """Return the event that an adaptive budget is accounted by: its cap, and what was spent."""
        if self._cost is None:
            raise ParameterError("a budget with schedule='fixed' is no filter")
        capacity = self._cost.event(adjacency=self._adjacency)
        facts: dict[str, Any] = {
            "capacity": capacity,
            "log": self.events,
            "label": label or self._label,
            "adjacency": self._adjacency,
        }
        if self._unit is None:
            return FilterEvent(**facts)
        return UnitEvent(**self._unit, **facts)

    def can_afford(self, *events: Event) -> bool:
        """Return whether `charge` would accept these events now; records nothing."""
        self.check_process()
        parts = under(self._adjacency, flatten(events))
        with self._lock:
            return self._fits(parts, self._with(parts))

    @property
    def spent(self) -> Guarantee:
        """The guarantee of everything charged so far.

        With schedule ``"fixed"``, the smallest proven epsilon; delta is 0 if the pure sum fits
        the budget. With ``"adaptive"``, the budget itself as soon as anything was charged: how
        much an adaptive sequence happened to spend is an outcome, not a guarantee.
        """
        with self._lock:
            events, conditions = self.events, self._held_conditions()
            pure, failure = self._spent, self._failure
        if not events:
            return Guarantee(0.0, 0.0, self._adjacency, "incomplete", conditions)
        if self._cost is not None:
            delta = 0.0 if self._cost.currency == "pure" else self._delta
            event = (self.filter(),)
            return Guarantee(self._epsilon, delta, self._adjacency, "incomplete", conditions, event)
        if pure is not None and pure <= exact(self._epsilon) and not failure:
            epsilon, delta = float_up(pure), 0.0
        else:
            epsilon, delta = epsilon_under(events, self._delta, self._adjacency), self._delta
        # One release that leaves room for no other is fixed, whatever came out. A pure sum of
        # several that is spent whole bounds epsilon at delta 0, but not at any other delta.
        if len(events) > 1 or self._delta > 0 or pure != exact(self._epsilon):
            conditions = (*conditions, FixedSchedule())
        return Guarantee(epsilon, delta, self._adjacency, "incomplete", conditions, events)

    def _held_conditions(self) -> tuple[Condition, ...]:
        """The conditions of every release, those of the parts that were reserved among them."""
        with self._lock:
            entries, held = self._entries, self._conditions
        parts = (c for e in entries if isinstance(e, Budget) for c in e._held_conditions())
        return (*held, *parts)

    @property
    def remaining_epsilon(self) -> float:
        """Total epsilon less the epsilon of what was charged, at the budget's delta.

        Epsilons do not add up at a delta above 0, so more than this may still be affordable:
        ask `can_afford`.
        """
        with self._lock:
            events, spent = self.events, self._spent
        if self._delta == 0 or (self._cost is not None and self._cost.currency == "pure"):
            total = exact(self._epsilon)
            return 0.0 if spent is None else max(0.0, float_down(total - spent))
        if not events:
            return self._epsilon
        if self._cost is not None:
            running = replace(self._cost, amount=float_up(spent or Fraction(0)))
            return max(0.0, self._epsilon - running.epsilon(self._delta))
        return max(0.0, self._epsilon - epsilon_under(events, self._delta, self._adjacency))

    @property
    def left(self) -> Cost:
        """What an adaptive budget can still be charged with; of a fixed one, ask `can_afford`.

        >>> from missdp.accounting import Budget, GaussianEvent
        >>> budget = Budget(1.0, 1e-6, schedule="adaptive")
        >>> budget.charge(GaussianEvent(sensitivity=1, sigma=10.0))
        >>> round(budget.left.amount, 4)
        0.0194
        """
        if self._cost is None:
            raise ParameterError("a budget with schedule='fixed' counts in no single currency")
        with self._lock:
            left = exact(self._cost.amount) - (self._spent or 0)
        return replace(self._cost, amount=max(0.0, float_down(left)))

    def _record(
        self,
        parts: tuple[Event, ...],
        entries: tuple[Event | Budget, ...],
        conditions: Iterable[Condition],
    ) -> None:
        kept = all_conditions(conditions)
        converted = under(self._adjacency, parts)
        new = (entry.filter() if isinstance(entry, Budget) else entry for entry in entries)
        with self._lock:
            # What a part costs was charged as a fact about rows, unless it is for units.
            held = self.events[:1] if self._payer is None else _OF_ROWS
            unit_of((*held, *new))
            sums = self._with(converted)
            if not self._fits(converted, sums):
                raise BudgetExceededError(
                    f"the release does not fit into the budget (epsilon={self._epsilon:g}, "
                    f"delta={self._delta:g}, {self._adjacency}); nothing was computed or recorded. "
                    "Add noise, ask for less, or use a larger budget"
                )
            self._spent, self._rho, self._failure = sums
            self._entries += entries
            self._conditions += kept

    def _with(self, parts: tuple[Event, ...]) -> _Sums:
        """Return what was spent, and these parts, in the way that this budget counts."""
        spent, rho, failure = self._spent, self._rho, self._failure
        for part, times in Counter(parts).items():
            failure = total((failure, times * exact(approximate_delta(part))))
            if self._cost is not None:
                spent = total((spent or Fraction(0), times * self._cost.price(part)))
            else:
                spent = _plus(spent, pure_cost, part, times)
                rho = _plus(rho, zcdp_cost, part, times)
        return spent, rho, failure

    def _fits(self, parts: tuple[Event, ...], sums: _Sums) -> bool:
        spent, rho, failure = sums
        total = exact(self._epsilon if self._cost is None else self._cost.amount)
        left = exact(self._delta) - failure
        if spent is not None and spent <= total:
            return left >= 0
        if self._cost is not None or left <= 0:
            return False
        # Sums are quick; accountants that see all events may still accept what these do not.
        if rho is not None and epsilon_from_rho(float_up(rho), float_down(left)) <= self._epsilon:
            return True
        return within((*self.events, *parts), self._epsilon, self._delta, self._adjacency)

    def pays_for(self, ledger: str) -> bool:
        """Whether it stands, or is a part of one that does, in a ledger that a schema names."""
        return self._payer is not None and self._payer.pays_for(ledger)

    def check_process(self) -> None:
        """Refuse to go on in a fork of the process that made this budget."""
        if self._process != (os.getpid(), _FORKS[-1]):
            raise BudgetExceededError(
                "this budget belongs to the process that made it: a fork holds a copy, which could "
                "be spent a second time. Charge it in the parent process, or use threads"
            )

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


def _plus(
    so_far: Fraction | None, cost: Callable[[Event], Fraction], part: Event, times: int
) -> Fraction | None:
    if so_far is None or not proven(cost, part):
        return None
    return total((so_far, times * cost(part)))


def check_paid(ledger: str, budget: Budget | None) -> None:
    """Refuse to release from rows whose schema names a ledger, but by a budget in it."""
    if ledger and (budget is None or not budget.pays_for(ledger)):
        raise LedgerError(
            f"the schema names the budget {ledger!r}, without which nothing is read: pass "
            "--budget, or budget=Ledger(url).budget(name)"
        )
