"""The door to rows whose number is public, with replace-one adjacency, and who may ask there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from missdp.accounting import ApproximateEvent, Budget, Condition, Event, Guarantee
from missdp.accounting.weak import warn_if_weak
from missdp.errors import DataError, NotFittedError, ParameterError, UnprovenError, replacing
from missdp.mechanisms.laws import Handle, Law, no_warnings
from missdp.mechanisms.noise import NoiseSource, noise_source
from missdp.pricing.assumptions import NotFittedOnThisTable
from missdp.pricing.chain import Bound, PreparedRows, Stage
from missdp.pricing.domain import FloatArray, RowDomain, Rows, as_rows
from missdp.pricing.fillable import check_fillable
from missdp.pricing.gradient_steps import (
    Asked,
    GradientSteps,
    LossGradients,
    NoisyGradients,
    SecretStop,
    samples,
)
from missdp.pricing.maps import PrivacyMap
from missdp.pricing.vector_query import Target, VectorNoise, VectorQuery, rounding_slack
from missdp.threads import one_blas_thread

__all__ = [
    "HeldRows",
    "NoisyTest",
    "PrivateEstimator",
    "RandomState",
    "ReplaceOneDoor",
    "refuse_add_remove",
]


RandomState: TypeAlias = int | np.random.Generator | NoiseSource | None
# The discrete law's tail exceeds the continuous one's by less than this factor (grid of 2^20).
_TAIL_ROOM = 2.0**-18


@dataclass(frozen=True)
class NoisyTest:
    """A private test of the steps' conditions; public.

    Parameters
    ----------
    epsilon : float
        Laplace noise of scale 1 / epsilon is added to the distance to failure, which one replaced
        row moves by at most 1.
    failure_delta : float
        Bound on the chance of passing at distance 1 or less; above 0, below 0.5.

    Examples
    --------
    >>> round(NoisyTest(0.1, 5e-7).threshold, 1)
    139.2
    """

    epsilon: float
    failure_delta: float

    @property
    def spent(self) -> float:
        """Pure epsilon of the noisy distance."""
        return self.epsilon + rounding_slack("laplace", 1)

    @property
    def threshold(self) -> float:
        """The test passes if the noisy distance exceeds this."""
        return 1 + (math.log(1 / (2 * self.failure_delta)) + _TAIL_ROOM) / self.epsilon

    @property
    def event(self) -> Event:
        """What a budget is charged for the test."""
        return ApproximateEvent(
            epsilon=self.spent, delta=self.failure_delta, label="test", adjacency="replace-one"
        )

    @property
    def law(self) -> VectorNoise:
        """The law of the noisy distance."""
        return VectorNoise("laplace", 1 / self.epsilon, sensitivity=1.0)


class ReplaceOneDoor(Handle):
    """One handle on private rows of public number: prices, and noisy answers charged for first.

    Use it in a ``with`` block: at its end the rows are forgotten.

    Parameters
    ----------
    values : array_like of shape (rows, columns), or Table
        The private rows; nothing but a float that is finite counts as observed.
    facts : PreparedRows
        What is public about them.
    target : array_like of shape (rows,), optional
        Private; not preprocessed.
    budget : Budget or None
        Under replace-one adjacency. None: nothing is charged, the guarantee alone is stated.
    noise : NoiseSource

    Raises
    ------
    UnprovenError
        If the budget's adjacency is add-remove.
    SchemaError
        If some attribute of a table is not applicable to all rows.

    Examples
    --------
    >>> import numpy as np
    >>> from missdp.mechanisms import SecureNoise
    >>> from missdp.pricing.chain import PreparedRows
    >>> facts = PreparedRows(raw=RowDomain(rows=100, columns=2), label="mean", delta=1e-6)
    >>> budget = Budget(1.0, 1e-6, adjacency="replace-one")
    >>> with ReplaceOneDoor(np.zeros((100, 2)), facts, budget=budget, noise=SecureNoise()) as door:
    ...     mean = door.ask(VectorQuery.mean(door.domain, multiplier=5.0))
    >>> mean.shape, len(budget.events)
    ((2,), 1)
    """

    _budget: Budget | None  # type: ignore[assignment]

    def __init__(
        self,
        values: Rows,
        facts: PreparedRows,
        *,
        target: ArrayLike | None = None,
        budget: Budget | None,
        noise: NoiseSource,
    ) -> None:
        refuse_add_remove(budget, facts.label)
        check_fillable(values)
        super().__init__(budget=budget, noise=noise)  # type: ignore[arg-type]
        self._facts = facts
        self._rows = HeldRows(values, target, facts)
        self._priced: tuple[Asked, Bound] | None = None

    # Public facts

    @property
    def domain(self) -> RowDomain:
        """What rows are like where questions read them."""
        return self._facts.domain

    def price(self, question: Asked) -> Bound:
        """Return the best bound on what the answer reveals: its event is charged by `ask`."""
        if self._priced is None or self._priced[0] is not question:
            self._priced = (question, self._facts.bounds(question)[0])
        return self._priced[1]

    def guarantee(self, question: Asked) -> Guarantee:
        """Return the guarantee that the answer to this question alone has."""
        known = self._facts.guarantee(question, self.price(question).event)
        return known.with_conditions(*self._noise.conditions)

    # Answers

    def ask(self, question: Asked) -> Any:
        """Charge for a question, then answer it.

        Parameters
        ----------
        question : VectorQuery, GradientSteps or SecretStop

        Returns
        -------
        ndarray or NoisyGradients
            A noisy vector; for `GradientSteps` what releases noisy gradients, one by one.

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford it; nothing was read.
        """
        event = self.price(question).event
        self._resting_on(self._facts.conditions(question))._charge(event)
        return self._pose(question, event)

    def ask_if(self, question: Asked, test: NoisyTest) -> Any:
        """Charge for a test of the steps' conditions and for a question; answer if it passes.

        Returns
        -------
        ndarray, NoisyGradients or None
            None if the test did not pass: the question is then not answered, but was charged for.
        """
        event = self.price(question).event
        conditions = self._facts.conditions(question, tested=True)
        self._resting_on(conditions)._charge(test.event, event)
        noisy = self._answer(test.event, test.law, self._rows.margin)
        return self._pose(question, event) if noisy[0] > test.threshold else None

    @one_blas_thread()
    def _pose(self, question: Asked, event: Event) -> Any:
        rows, distance = self._rows, self._facts.distance

        def answer(law: Law, exact: Callable[[], Any]) -> Any:
            return self._answer(event, law, exact)

        match question:
            case VectorQuery():
                law, read = question.law(distance), question.target
                return answer(law, lambda: question.exact(rows.final(), rows.target(read)))
            case SecretStop():
                return answer(question.law(distance), lambda: rows.gradients(question))
            case GradientSteps():
                return NoisyGradients(
                    question,
                    answer,
                    lambda: rows.gradients(question),
                    question.law(distance),
                    samples(question, self._noise),
                )

    def _charge(self, *events: Event) -> None:
        if self._budget is None:
            return
        named = f"{self._facts.label} cannot be charged to this budget"
        with replacing(UnprovenError, by=lambda error: UnprovenError(f"{named}: {error}")):
            super()._charge(*events)

    def _resting_on(self, conditions: tuple[Condition, ...]) -> Self:
        return self._with(_conditions=(*conditions, *self._conditions))

    # The end

    def close(self) -> None:
        """Forget the rows, for everything that this door has handed out too."""
        self._rows.forget()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ReplaceOneDoor({self._facts.label})"


class HeldRows:
    """The rows, where they are brought into their domain and prepared; only a door holds one."""

    def __init__(self, values: Any, target: Any, facts: PreparedRows) -> None:
        self._values, self._target, self._facts = values, target, facts
        self._final: FloatArray | None = None
        self._read: tuple[Target, FloatArray] | None = None
        self._gradients: tuple[object, LossGradients] | None = None
        self._open = True

    def final(self) -> FloatArray:
        """Return the rows as questions read them."""
        if self._final is None:
            for _ in self._prepared():
                pass
        assert self._final is not None
        return self._final

    def margin(self) -> FloatArray:
        """Return the smallest distance to failure along the chain, at most n."""
        margin = float(self._facts.raw.rows)
        for step, table in self._prepared():
            with _hidden(step):
                margin = min(margin, step.margin(table))
        return np.array([margin])

    def target(self, reader: Target | None) -> FloatArray | None:
        """Return the target as numbers."""
        self._check_open()
        if reader is None:
            return None
        if self._read is None or self._read[0] is not reader:
            failed = DataError("the target cannot be read")
            with replacing(Exception, by=failed), no_warnings():
                self._read = (reader, reader.read(self._target))
        return self._read[1]

    def gradients(self, question: GradientSteps | SecretStop) -> LossGradients:
        """Return the gradients of a loss at every row."""
        if self._gradients is None or self._gradients[0] is not question:
            target = self.target(question.target)
            assert target is not None
            self._gradients = (question, LossGradients(question.loss, self.final(), target))
        return self._gradients[1]

    def forget(self) -> None:
        """Drop everything private."""
        self._open = False
        self._values = self._target = self._final = self._read = self._gradients = None

    def _prepared(self) -> Iterator[tuple[Stage, FloatArray]]:
        """Yield each step with the table that reaches it; keep what the last one leaves."""
        self._check_open()
        facts, table = self._facts, self._facts.raw.enforce(self._values)
        for step in facts.steps:
            yield step, table
            with _hidden(step):
                table = step.run(table)
        # The bound on row norms after the steps is proven; this guards against rounding only.
        self._final = facts.domain.enforce(table) if facts.steps else table

    def _check_open(self) -> None:
        if not self._open:
            raise ParameterError("the door is closed: its rows are forgotten")


@contextmanager
def _hidden(step: Stage) -> Iterator[None]:
    """Keep errors and warnings of a step from telling of rows."""
    failed = DataError(f"step {step.name!r} failed")
    with replacing(Exception, by=failed), no_warnings():
        yield


def refuse_add_remove(budget: Budget | None, label: str) -> None:
    """Refuse a budget under add-remove, by the name of who would charge it; reads nothing."""
    if budget is None or budget.adjacency == "replace-one":
        return
    raise UnprovenError(
        f"{label} is private under replace-one adjacency, with a public number of rows: nothing "
        "follows for adding or removing a row. Give it a budget made with "
        "Budget(epsilon, delta, adjacency='replace-one'); such a budget takes releases under "
        "add-remove too"
    )


class TellsUnfitted:
    """Mixin: attributes that ``fit`` sets raise `NotFittedError` before it."""

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(f"{type(self).__name__} has no {name} yet; call fit first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(TellsUnfitted, BaseEstimator):  # type: ignore[misc]
    """Base class of mechanisms that end a pipeline.

    Adjacency is *replace-one*: the number of rows is public. An estimator never holds rows, noise
    or a budget to charge: a subclass states one `question` about rows, from public facts, and
    what it makes of the answer (`keep`). The door charges for it, reads, and adds the noise;
    ``noise_multiplier`` is the noise in units of the sensitivity to one replaced row, so the
    guarantee for raw rows depends on it alone.

    Fitted on its own, an estimator assumes that nothing upstream was fitted on the same table
    (condition `NotFittedOnThisTable`); `PricedPipeline` accounts for steps that were.

    Attributes
    ----------
    guarantee_ : Guarantee
        After ``fit``: what the released attributes promise.
    """

    noise_multiplier: float
    radius: float = 1.0
    delta: float = 1e-6
    budget: Budget | None = None
    random_state: RandomState = None

    def question(self, domain: RowDomain) -> Asked:
        """Return what is asked about rows of ``domain``; public facts only.

        Parameters
        ----------
        domain : RowDomain

        Returns
        -------
        VectorQuery, GradientSteps or SecretStop
        """
        raise NotImplementedError

    def keep(self, question: Asked, answer: Any) -> None:
        """Set the released attributes; may raise for no answer, which was charged for.

        Parameters
        ----------
        question : VectorQuery, GradientSteps or SecretStop
            What `question` returned.
        answer : ndarray or NoisyGradients
            What the door answered.
        """
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Refuse a target that is not there or of the wrong length, before anything is charged."""
        del y, rows

    def privacy_map(self, domain: RowDomain) -> PrivacyMap:
        """Return the privacy map on rows of ``domain``; public facts only."""
        return self.question(domain).privacy_map

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the budget, then release.

        Parameters
        ----------
        X : array_like of shape (n, d), or Table
            Rows are scaled down to norm ``radius``; a missing cell counts as 0.
        y : array_like of shape (n,), optional
            Target, for estimators that need one.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford it; nothing was computed.
        UnprovenError
            If the budget is under add-remove adjacency; nothing was read.
        """
        label = type(self).__name__
        refuse_add_remove(self.budget, label)
        check_fillable(X)
        table = as_rows(X)
        domain = RowDomain(rows=table.shape[0], columns=table.shape[1], radius=self.radius)
        self.check_target(y, domain.rows)
        noise, question = noise_source(self.random_state), self.question(domain)
        facts = PreparedRows(
            raw=domain, label=label, delta=self.delta, assumed=(NotFittedOnThisTable(),)
        )
        with ReplaceOneDoor(table, facts, target=y, budget=self.budget, noise=noise) as door:
            guarantee = door.guarantee(question)
            warn_if_weak(guarantee.epsilon, guarantee.delta, n=domain.rows)
            answer = door.ask(question)
            # A fit that is broken off leaves no guarantee of an earlier one behind.
            self.__dict__.pop("guarantee_", None)
            self.release(question, answer, guarantee)
        return self

    def release(self, question: Asked, answer: Any, guarantee: Guarantee) -> None:
        """Keep an answer and the guarantee that it was released under."""
        self.n_features_in_ = question.domain.columns
        self.keep(question, answer)
        self.guarantee_ = guarantee
