"""A fit, in the order on which its privacy rests: refuse, charge, read, release, fit.

A synthesizer says what it will cost (`FitPlan`) and brings the steps (`FitSteps`). `fit` is the
only place that opens sessions for it, all of them on one filter, and that states the guarantee.

*Claim.* What a fit leaves behind is (epsilon, delta)-DP, as the returned guarantee states, under
its conditions. *Argument.* Steps see private rows by `read` alone, whose rows they hand over to a
session. What a session releases was charged to the filter of the plan before it was computed. The
filter holds for any adaptive sequence of such releases. So its cap bounds all of them, and fitting
is post-processing. Trainings are fixed events in addition to the cap. They are proven together with
the cap, as a composition, before anything is read. Failures of open levels are added as events with
a delta of their own.

*A shared budget* is charged at once with the cap, the trainings and the failures. A budget in a
ledger is charged before the rows are opened. Any other shared budget is charged after `read` and
before the first release, so it is not charged if `read` raises an error. The guarantee does not
cover such an error (see `RefusalsNotPrivate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeAlias, TypeVar

from missdp.accounting import (
    ApproximateEvent,
    Composition,
    Condition,
    Event,
    Filter,
    FixedSchedule,
    FloatingPointTraining,
    Guarantee,
    RowFunctionsTested,
    SampledGaussianEvent,
)
from missdp.accounting.exact import exact
from missdp.errors import BudgetExceededError, ParameterError, UnprovenError
from missdp.session.noise import NoiseSource
from missdp.session.session import PrivateRows, Session
from missdp.session.training import TrainingPlan

Result = TypeVar("Result", covariant=True)
OpenSession: TypeAlias = Callable[..., Session]
"""Opens a session on rows: ``open_session(rows, limit=None)``."""


@dataclass(frozen=True, kw_only=True)
class FitPlan:
    """What a fit costs: fixed by parameters and public facts, before anything is read.

    Attributes
    ----------
    label : str
        Public name, for the shared budget.
    epsilon : float
        Of the whole fit.
    delta : float
        Of the whole fit, failures included.
    cap : Filter
        Pays for every measurement of the fit; fresh.
    failures : tuple of ApproximateEvent
        What the filter does not count: a rare level may be released with a small probability.
    trainings : tuple of SampledGaussianEvent
        Trainings of networks, which follow the measurements.
    """

    label: str
    epsilon: float
    delta: float
    cap: Filter
    failures: tuple[ApproximateEvent, ...] = ()
    trainings: tuple[SampledGaussianEvent, ...] = ()

    @property
    def uncounted(self) -> tuple[Event, ...]:
        """What the filter does not count, and is charged beside its cap."""
        return (*self.failures, *self.trainings)

    def check(self) -> None:
        """Refuse a plan whose filter may spend more than the fit as a whole states."""
        delta = exact(self.cap.delta) + sum(exact(event.delta) for event in self.failures)
        if not (self.cap.epsilon <= self.epsilon and delta <= exact(self.delta)):
            raise ParameterError("the filter of a fit is larger than the fit as a whole may be")

    def composed(self) -> TrainingPlan | None:
        """Prove the trainings together with the cap; None if there are none.

        Raises
        ------
        BudgetExceededError
            If they cost more than the epsilon of the fit.
        """
        return TrainingPlan(self.cap, self.trainings, self.epsilon) if self.trainings else None

    def is_affordable_within(self, shared: Filter | Composition) -> bool:
        """Whether a shared budget covers the fit.

        Raises
        ------
        UnprovenError
            If the budget counts in another privacy measure than the fit.
        """
        try:
            return shared.can_afford(self.cap.filter(), *self.uncounted)
        except UnprovenError:
            if not self.trainings and shared.delta > 0:
                raise
        return False

    def charge(self, shared: Filter | Composition, conditions: Iterable[Condition]) -> None:
        """Charge a shared budget with everything that the fit may cost, or with nothing."""
        trained = (FloatingPointTraining(),) if self.trainings else ()
        held, extra = (*conditions, *trained), self.uncounted
        shared.reserve(self.cap, label=self.label, conditions=held, extra_events=extra)

    def guarantee(self, conditions: Iterable[Condition]) -> Guarantee:
        """Return what the fit guarantees; it is proven from the events when it is made."""
        spent = self.cap.spent
        conditions = (*spent.conditions, *conditions)
        if not self.uncounted:
            return replace(spent, conditions=conditions)
        trained = (FixedSchedule(), FloatingPointTraining()) if self.trainings else ()
        return Guarantee(
            self.epsilon if self.trainings else spent.epsilon,
            self.delta if self.failures else self.cap.delta,
            conditions=(*conditions, *trained),
            events=(self.cap.filter(), *self.trainings, *self.failures),
        )


class FitSteps(Protocol, Generic[Result]):
    """The steps of a fit, which a synthesizer brings. None of them is trusted but by its contract.

    Attributes
    ----------
    unread : bool
        Whether private rows still have to be read from a frame or a file.
    """

    unread: bool

    def checked_plan(self) -> FitPlan:
        """Return the plan; refuse the fit by parameters and public facts alone."""

    def remedy(self, shared: Filter | Composition, plan: FitPlan) -> str:
        """Say what helps if a shared budget does not cover the fit."""

    def refuse_unread(self) -> None:
        """Refuse what `read` would refuse by public facts, before a ledger is charged."""

    def read(self) -> None:
        """Open the private rows. What one row becomes depends on that row and public facts."""

    def conditions(self) -> Iterable[Condition]:
        """Return what the guarantee rests on, by public facts."""

    def learn(self, open_session: OpenSession) -> Result:
        """Measure rows in sessions, which ``open_session`` makes, and learn from releases."""


def fit(
    steps: FitSteps[Result], *, budget: Filter | Composition | None, random_state: int | None
) -> tuple[Result, Guarantee]:
    """Refuse, charge, read, release, fit; return what was learned, and its guarantee.

    Parameters
    ----------
    steps : FitSteps
        What the synthesizer does in each phase.
    budget : Filter, Composition or None
        A budget shared with other releases.
    random_state : int or None
        A seed is for tests: it becomes a condition of the guarantee.

    Returns
    -------
    learned : object
        What ``steps.learn`` returned.
    guarantee : Guarantee
        Of everything that the fit released.

    Raises
    ------
    BudgetExceededError
        If the shared budget does not cover the fit. Nothing is charged, and nothing is read.
    """
    noise, plan = NoiseSource.from_seed(random_state), steps.checked_plan()
    plan.check()
    trainings = plan.composed()
    if budget is not None and not plan.is_affordable_within(budget):
        raise BudgetExceededError(
            f"the fit does not fit into {budget!r}; nothing was read or recorded. "
            + steps.remedy(budget, plan)
        )
    charged_before_reading = budget is not None and budget.charged_first and steps.unread
    if budget is not None and charged_before_reading:
        steps.refuse_unread()
        plan.charge(budget, (*steps.conditions(), RowFunctionsTested()))
    steps.read()
    conditions = (*steps.conditions(), RowFunctionsTested())
    if budget is not None and not charged_before_reading:
        plan.charge(budget, conditions)

    def open_session(rows: PrivateRows, limit: Callable[[Event], None] | None = None) -> Session:
        return Session(rows, budget=plan.cap, noise=noise, limit=limit, trainings=trainings)

    learned = steps.learn(open_session)
    return learned, plan.guarantee(conditions)
