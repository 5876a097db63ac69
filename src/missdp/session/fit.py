"""A fit, in the order that its privacy needs: check, charge, read, release, fit.

A synthesizer states its costs (`FitPlan`) and implements the steps (`FitSteps`). `fit` is the only
function that opens sessions for a synthesizer, all of them on one filter. It also states the
guarantee.

*Claim.* All results of a fit are (epsilon, delta)-DP, as the returned guarantee states, under its
conditions. *Argument.* Steps get private rows from `read` alone, and pass these rows to a session.
Every release of a session was charged to the filter of the plan before it was computed. The filter
holds for any adaptive sequence of such releases. So its cap bounds all of them, and fitting is
post-processing. Trainings are fixed events in addition to the cap. They are proven together with
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
    """Costs of a fit, which parameters and public facts fix before anything is read.

    Attributes
    ----------
    label : str
        Public name, for the shared budget.
    epsilon : float
        Epsilon of the complete fit.
    delta : float
        Delta of the complete fit, including failures.
    cap : Filter
        A fresh filter that pays for every measurement of the fit.
    failures : tuple of ApproximateEvent
        Events outside the filter: a rare level may be released with a small probability.
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
        """The events that are charged in addition to the cap of the filter."""
        return (*self.failures, *self.trainings)

    def check(self) -> None:
        """Raise an error if the filter may spend more than the epsilon or delta of the fit."""
        delta = exact(self.cap.delta) + sum(exact(event.delta) for event in self.failures)
        if not (self.cap.epsilon <= self.epsilon and delta <= exact(self.delta)):
            raise ParameterError("the filter of a fit is larger than the fit as a whole may be")

    def composed(self) -> TrainingPlan | None:
        """Return a plan that proves the trainings together with the cap, or None without trainings.

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
        """Charge a shared budget with the largest cost of the fit, or raise an error."""
        trained = (FloatingPointTraining(),) if self.trainings else ()
        stated, extra = (*conditions, *trained), self.uncounted
        shared.reserve(self.cap, label=self.label, conditions=stated, extra_events=extra)

    def guarantee(self, conditions: Iterable[Condition]) -> Guarantee:
        """Return the guarantee of the fit, which its constructor proves from the events."""
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
    """Protocol of the steps of a fit, which a synthesizer implements.

    The steps are trusted only to keep the contracts that are stated here.

    Attributes
    ----------
    unread : bool
        Whether private rows still have to be read from a frame or a file.
    """

    unread: bool

    def checked_plan(self) -> FitPlan:
        """Return the plan, or raise an error. Parameters and public facts alone decide."""

    def remedy(self, shared: Filter | Composition, plan: FitPlan) -> str:
        """Return a sentence on the remedy if a shared budget does not cover the fit."""

    def refuse_unread(self) -> None:
        """Raise the errors of `read` that follow from public facts, before a ledger is charged."""

    def read(self) -> None:
        """Open the private rows. The result for one row depends on that row and public facts."""

    def conditions(self) -> Iterable[Condition]:
        """Return the conditions of the guarantee, which follow from public facts."""

    def learn(self, open_session: OpenSession) -> Result:
        """Measure rows in sessions, which ``open_session`` makes, and learn from releases."""


def fit(
    steps: FitSteps[Result], *, budget: Filter | Composition | None, random_state: int | None
) -> tuple[Result, Guarantee]:
    """Check, charge, read, release and fit, and return the result with its guarantee.

    Parameters
    ----------
    steps : FitSteps
        The steps of the synthesizer.
    budget : Filter, Composition or None
        A budget shared with other releases.
    random_state : int or None
        A seed is for tests: it becomes a condition of the guarantee.

    Returns
    -------
    learned : object
        The result of ``steps.learn``.
    guarantee : Guarantee
        Guarantee of all releases of the fit.

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
