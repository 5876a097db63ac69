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
    """Costs of a fit of a synthesizer, which are fixed before any private row is read.

    Parameters
    ----------
    label : str
        Public name of the fit, for the shared budget.
    epsilon : float
        Epsilon of the complete fit.
    delta : float
        Delta of the complete fit, including failures.
    cap : Filter
        A fresh budget that pays for every measurement of the fit.
    failures : tuple of ApproximateEvent, default ()
        Accounting events outside the budget: a rare level may be released with a small probability.
    trainings : tuple of SampledGaussianEvent, default ()
        Accounting events of trainings of networks, which follow the measurements.
    """

    label: str
    epsilon: float
    delta: float
    cap: Filter
    failures: tuple[ApproximateEvent, ...] = ()
    trainings: tuple[SampledGaussianEvent, ...] = ()

    @property
    def uncounted(self) -> tuple[Event, ...]:
        """Return the accounting events of a fit that are charged in addition to its budget.

        Returns
        -------
        tuple of Event
            Failures and trainings.
        """
        return (*self.failures, *self.trainings)

    def check(self) -> None:
        """Raise an error if the budget of a fit may spend more than the fit's epsilon or delta.

        Raises
        ------
        ParameterError
            If the budget is too large.
        """
        delta = exact(self.cap.delta) + sum(exact(event.delta) for event in self.failures)
        if not (self.cap.epsilon <= self.epsilon and delta <= exact(self.delta)):
            raise ParameterError("the filter of a fit is larger than the fit as a whole may be")

    def composed(self) -> TrainingPlan | None:
        """Return a plan that proves the trainings of a fit together with its budget.

        Returns
        -------
        TrainingPlan or None
            None if there are no trainings.

        Raises
        ------
        BudgetExceededError
            If they cost more than the epsilon of the fit.
        """
        return TrainingPlan(self.cap, self.trainings, self.epsilon) if self.trainings else None

    def is_affordable_within(self, shared: Filter | Composition) -> bool:
        """Return whether a budget that is shared with other releases covers the fit.

        Parameters
        ----------
        shared : Filter or Composition
            The shared budget. Nothing is charged.

        Returns
        -------
        bool
            True if the complete fit can be charged now.

        Raises
        ------
        UnprovenError
            If the shared budget counts in another privacy measure than the fit.
        """
        try:
            return shared.can_afford(self.cap.filter(), *self.uncounted)
        except UnprovenError:
            if not self.trainings and shared.delta > 0:
                raise
        return False

    def charge(self, shared: Filter | Composition, conditions: Iterable[Condition]) -> None:
        """Charge a budget that is shared with other releases with the largest cost of the fit.

        Parameters
        ----------
        shared : Filter or Composition
            The shared budget.
        conditions : iterable of Condition
            Conditions of the guarantee of the fit.

        Raises
        ------
        BudgetExceededError
            If the fit is not covered. Nothing is charged.
        """
        trained = (FloatingPointTraining(),) if self.trainings else ()
        stated, extra = (*conditions, *trained), self.uncounted
        shared.reserve(self.cap, label=self.label, conditions=stated, extra_events=extra)

    def guarantee(self, conditions: Iterable[Condition]) -> Guarantee:
        """Return the privacy guarantee of the fit, which follows from its accounting events.

        Parameters
        ----------
        conditions : iterable of Condition
            Conditions of the guarantee, in addition to those that were charged.

        Returns
        -------
        Guarantee
            Guarantee of all releases of the fit, for the incomplete table.
        """
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
    """Protocol of the steps of a fit, which a synthesizer defines and `fit` calls in order.

    The steps are trusted only to keep the contracts that are stated here.

    Attributes
    ----------
    unread : bool
        Whether private rows still have to be read from a frame or a file.
    """

    unread: bool

    def checked_plan(self) -> FitPlan:
        """Return the plan of the costs of a fit, from parameters and public facts alone.

        Returns
        -------
        FitPlan
            Nothing is read or charged.

        Raises
        ------
        MissDPError
            If parameters or public facts do not permit the fit.
        """

    def remedy(self, shared: Filter | Composition, plan: FitPlan) -> str:
        """Return a sentence on the remedy if a shared budget does not cover the fit.

        Parameters
        ----------
        shared : Filter or Composition
            The budget that is shared with other releases.
        plan : FitPlan
            The costs of the fit.

        Returns
        -------
        str
            Public.
        """

    def refuse_unread(self) -> None:
        """Raise the errors of `read` that follow from public facts, before a ledger is charged."""

    def read(self) -> None:
        """Open the private rows of the fit.

        The result for one row must depend on that row and public facts alone.
        """

    def conditions(self) -> Iterable[Condition]:
        """Return the conditions of the guarantee of the fit, which follow from public facts.

        Returns
        -------
        iterable of Condition
            Public.
        """

    def learn(self, open_session: OpenSession) -> Result:
        """Measure the private rows in sessions, and learn a model from the released answers.

        Parameters
        ----------
        open_session : callable
            ``open_session(rows, limit=None)`` returns a `Session` that charges the budget of the
            fit.

        Returns
        -------
        object
            The learned result. Released.
        """


def fit(
    steps: FitSteps[Result], *, budget: Filter | Composition | None, random_state: int | None
) -> tuple[Result, Guarantee]:
    """Run the steps of a fit in a fixed order: check, charge, read, release and learn.

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
        The result of ``steps.learn``. Released.
    guarantee : Guarantee
        Guarantee of all releases of the fit.

    Raises
    ------
    BudgetExceededError
        If the shared budget does not cover the fit. Nothing is charged, and nothing is read.
    ParameterError
        If ``random_state`` is invalid, or the plan exceeds the epsilon or delta of the fit.
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
