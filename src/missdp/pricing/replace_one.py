"""Chains of steps, the door to rows whose number is public, and who may ask there."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from missdp.accounting import Budget, Condition, DeclaredRowCount, Event, Guarantee, PublicDomain
from missdp.accounting.budget import check_paid
from missdp.accounting.guarantee import warn_if_weak
from missdp.errors import DataError, ParameterError, UnprovenError, replacing
from missdp.estimator import clone
from missdp.mechanisms.exact_noise import NoiseSource, noise_source
from missdp.mechanisms.session import Charged, Session, exactly, no_warnings
from missdp.pricing.domain import (
    NEIGHBOURS,
    Parameters,
    RowDomain,
    Rows,
    TableDistance,
    as_rows,
    check_fillable,
    require,
)
from missdp.pricing.privacy_maps import Bound, Sensitivity, bounds
from missdp.pricing.questions import (
    GradientSteps,
    Loss,
    NoisyGradients,
    Question,
    SecretStop,
    VectorNoise,
    VectorQuery,
)
from missdp.pricing.steps import NotFittedOnThisTable, StableTransformer
from missdp.table import Table
from missdp.threads import one_blas_thread
from missdp.types import Floats

RandomState: TypeAlias = int | np.random.Generator | NoiseSource | None


@dataclass(frozen=True)
class Stage:
    """One step of a chain with the public facts on either side of it.

    ``domain`` and ``distance`` are of what reaches the step, ``domain_after`` and
    ``distance_after`` of what leaves it; ``alone`` is the step's own response to one replaced row.
    """

    name: str
    step: StableTransformer
    domain: RowDomain
    distance: TableDistance
    domain_after: RowDomain
    distance_after: TableDistance
    alone: TableDistance
    conditions: tuple[Condition, ...]

    def run(self, table: Floats) -> Floats:
        """Fit the step on a table, apply it, and forget what was learned; private."""
        fresh: StableTransformer = clone(self.step)
        return np.asarray(fresh.fit_transform(table))

    def margin(self, table: Floats) -> float:
        """Return the step's distance to failure of its conditions; private."""
        return self.step.failure_margin(table, self.distance, self.domain)


def trace(
    steps: Iterable[tuple[str, StableTransformer]],
    domain: RowDomain,
    *,
    distance: TableDistance = NEIGHBOURS,
) -> tuple[Stage, ...]:
    """Follow a pair of neighbouring tables through a chain of steps.

    Each step's map takes the distance its predecessor leaves: maps are monotone, and two tables
    of the collection satisfy every step's conditions where they reach it. ``domain`` and
    ``distance`` are those of the raw tables.

    Raises
    ------
    UnprovenError
        If the map of a step is not known for what reaches it; the message names the step.
    ParameterError
        If something is not a transformation of this library, or cannot take its input.

    Examples
    --------
    >>> from missdp.pricing import MeanImputer, PCARankReducer
    >>> steps = [("impute", MeanImputer(max_incomplete=10, cells_per_row=1)),
    ...          ("pca", PCARankReducer(n_components=2, least_gap=0.2))]
    >>> last = trace(steps, RowDomain(rows=1000, columns=5, complete=False))[-1]
    >>> last.distance_after.moved_rows, round(last.distance_after.moved_max, 4)
    (999, 0.0392)
    """
    stages: list[Stage] = []
    for name, step in steps:
        if not isinstance(step, StableTransformer):
            raise UnprovenError(
                f"step {name!r} is a {type(step).__name__}, whose stability is not known; use the "
                "transformations of missdp.pricing"
            )
        stage = _stage(str(name), step, domain, distance)
        stages.append(stage)
        domain, distance = stage.domain_after, stage.distance_after
    return tuple(stages)


def _stage(name: str, step: StableTransformer, domain: RowDomain, distance: TableDistance) -> Stage:
    with (
        replacing(UnprovenError, by=lambda e: UnprovenError(f"no bound for step {name!r}: {e}")),
        replacing(ParameterError, by=lambda e: ParameterError(f"step {name!r}: {e}")),
    ):
        after = step.output_domain(domain), step.stability(distance, domain)
        alone = step.stability(NEIGHBOURS, domain)
        return Stage(name, step, domain, distance, *after, alone, step.conditions(domain))


@dataclass(frozen=True, kw_only=True)
class PreparedRows:
    """Public facts about rows on their way to a question, and what follows for its price.

    Rows are brought into ``raw`` first, then pass the ``steps``. ``label`` says who asks, in events
    and refusals; guarantees are stated and the best bound is chosen at ``delta``; every answer
    rests on what is ``assumed`` besides.
    """

    raw: RowDomain
    label: str
    delta: float
    steps: tuple[Stage, ...] = ()
    assumed: tuple[Condition, ...] = ()

    @property
    def domain(self) -> RowDomain:
        """What rows are like where a question reads them."""
        domain = self.steps[-1].domain_after if self.steps else self.raw
        require(domain.complete, "the estimator takes complete rows; put an imputation before it")
        return domain

    @property
    def distance(self) -> TableDistance:
        """How far neighbours are apart there."""
        return self.steps[-1].distance_after if self.steps else NEIGHBOURS

    def bounds(self, question: Question) -> tuple[Bound, ...]:
        """Return every bound on what the answer reveals, the best first."""
        same = question.domain == self.domain
        require(same, "the question is about rows of another domain than these")
        return bounds(question.privacy_map, self.distance, self.delta, label=self.label)

    def conditions(self, question: Question, *, tested: bool = False) -> tuple[Condition, ...]:
        """Return what an answer rests on, without conditions on the table if these are tested."""
        stated = dict.fromkeys(c for step in self.steps for c in step.conditions)
        steps = [c for c in stated if not (tested and getattr(c, "about_rows", True))]
        shape = (DeclaredRowCount(self.raw.rows), PublicDomain())
        return (*shape, *self.assumed, *question.conditions, *steps)

    def guarantee(self, question: Question, event: Event, *, tested: bool = False) -> Guarantee:
        """Return the guarantee of an answer that is charged with this event."""
        return Guarantee.from_events(
            [event],
            delta=self.delta,
            adjacency="replace-one",
            conditions=self.conditions(question, tested=tested),
        )


class ReplaceOneDoor(Session):
    """A session for private rows of public number: prices, and noisy answers charged for first.

    Behind it the rows are brought into their domain, steps are fitted on them, and forgotten. Use
    it in a ``with`` block: at its end the rows are forgotten too. Of ``values``, nothing but a
    float that is finite counts as observed; the ``target`` is private, and not preprocessed. With
    no ``budget`` nothing is charged, and the guarantee alone is stated; one under add-remove
    adjacency is refused, and so is a table some attribute of which is not applicable to all rows.
    """

    _queries: ClassVar = (VectorQuery, GradientSteps, SecretStop)
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
        _check_budget(budget, values, facts.label)
        check_fillable(values)
        super().__init__(budget=budget, noise=noise)  # type: ignore[arg-type]
        self._facts = facts
        self._values: Any = values
        self._target: Any = target
        self._open = True
        self._known: dict[str, Any] = {}  # what was made of the rows
        self._priced: tuple[Question, Bound] | None = None

    def price(self, question: Question) -> Bound:
        """Return the best bound on what the answer reveals: its event is charged by `ask`."""
        priced = self._priced  # read once: another thread may ask something else meanwhile
        if priced is None or priced[0] is not question:
            self._priced = priced = (question, self._facts.bounds(question)[0])
        return priced[1]

    def ask(self, question: Question, plan: TestPlan | None = None) -> Any:
        """Charge for a question, then answer it: a noisy vector, or `NoisyGradients`.

        What the budget cannot afford is refused (`BudgetExceededError`), and nothing is read. With
        a ``plan`` a test of the steps' conditions is charged for as well. It passes if the distance
        to failure, which one replaced row moves by at most 1, is above the threshold with Laplace
        noise of scale 1 / epsilon; if it does not, the answer is None.
        """
        self._check(question)
        if isinstance(question, VectorQuery):
            exactly(Sensitivity, question.sensitivity)
        else:
            exactly(Loss, question.loss)
        if plan is not None:
            exactly(TestPlan, plan)
        event = self.price(question).event
        events = plan.charges if plan else (event,)
        require(events[-1] == event, "the test was planned for another question")
        charged = _charged(question, events[-1])
        tests = [Charged((event,)) for event in events[:-1]]
        conditions = self._facts.conditions(question, tested=plan is not None)
        self._charge(*tests, charged, conditions=conditions)
        if plan:
            law, (test,) = VectorNoise("laplace", 1 / plan.test_epsilon, sensitivity=1.0), tests
            margin = self._release(events[0], law, lambda: self._prepare(tested=True), paid=test)
            if not margin[0] > plan.threshold:
                return None
        return self._pose(question, charged)

    def release(
        self, estimator: PrivateEstimator, question: Question, plan: TestPlan | None = None
    ) -> Guarantee:
        """Let an estimator keep the answer to its question, if a planned test passes."""
        facts = self._facts
        stated = plan.guarantee if plan else facts.guarantee(question, self.price(question).event)
        guarantee = stated.with_conditions(*self._noise.conditions)
        warn_if_weak(guarantee.epsilon, guarantee.delta, n=facts.raw.rows)
        facts.raw.check_shape(self._values)
        estimator.check_target(self._target, facts.raw.rows)
        answer = self.ask(question, plan)
        # A fit that is broken off leaves no guarantee of an earlier one behind.
        estimator.__dict__.pop("guarantee_", None)
        if answer is not None:
            estimator.n_features_in_ = question.domain.columns
            estimator.keep(question, answer)
            estimator.guarantee_ = guarantee
        return guarantee

    def _charge(self, *charged: Charged, conditions: Iterable[Condition] = ()) -> None:
        named = f"{self._facts.label} cannot be charged to this budget"
        with replacing(UnprovenError, by=lambda error: UnprovenError(f"{named}: {error}")):
            super()._charge(*charged, conditions=conditions)

    @one_blas_thread()
    def _pose(self, question: Question, charged: Charged) -> Any:
        law: Any = question.law(self._facts.distance)
        (event,) = charged.events
        if not isinstance(question, GradientSteps):
            return self._release(event, law, lambda: self._exact(question), paid=charged)

        samples = question.samples(self._noise)

        def at(point: Floats) -> Any:
            exact = lambda: self._exact(question)(point, next(samples))  # noqa: E731
            return self._release(event, law, exact, paid=charged)

        return NoisyGradients(question, at, question.steps)

    # What is made of the rows, private

    def _exact(self, question: Question) -> Any:
        """Return the vector that is asked for, or mean gradients as a function."""
        require(self._open, "the door is closed: its rows are forgotten")
        known = self._known.get("asked")  # read once, as the price is
        if known is None or known[0] is not question:
            asked: Any = question if isinstance(question, VectorQuery) else question.loss
            with replacing(Exception, by=DataError("the target cannot be read")), no_warnings():
                target = asked.read(self._target)
            if "rows" not in self._known:
                self._prepare()
            exact = asked.exact(self._known["rows"], target)
            self._known["asked"] = known = (question, exact)
        return known[1]

    def _prepare(self, *, tested: bool = False) -> Floats:
        """Fit the steps, keep the rows, and return the least distance to failure if tested."""
        facts, table = self._facts, self._facts.raw.enforce(self._values)
        margin = float(facts.raw.rows)
        for step in facts.steps:
            failed = DataError(f"step {step.name!r} failed")  # an error or a warning could tell
            with replacing(Exception, by=failed), no_warnings():
                margin = min(margin, step.margin(table)) if tested else margin
                table = step.run(table)
        # The bound on row norms after the steps is proven; this guards against rounding only.
        self._known["rows"] = facts.domain.enforce(table) if facts.steps else table
        return np.array([margin])

    # The end

    def close(self) -> None:
        """Forget the rows, for everything that this door has handed out too."""
        self._open = False
        self._values = self._target = None
        self._known.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ReplaceOneDoor({self._facts.label})"


def _charged(question: Question, event: Event) -> Charged:
    """Return what pays for all answers to a question."""
    return Charged((event,), answers=question.steps if isinstance(question, GradientSteps) else 1)


def _check_budget(budget: Budget | None, values: Any, label: str) -> None:
    """Refuse a budget under add-remove, or another than a ledger's that is named; reads nothing."""
    if isinstance(values, Table):
        check_paid(values.schema.ledger, budget)
    if budget is None or budget.adjacency == "replace-one":
        return
    raise UnprovenError(
        f"{label} is private under replace-one adjacency, with a public number of rows: nothing "
        "follows for adding or removing a row. Give it a budget made with "
        "Budget(epsilon, delta, adjacency='replace-one'); such a budget takes releases under "
        "add-remove too"
    )


@dataclass(frozen=True)
class TestPlan:
    """A private test of a pipeline's conditions, with what it costs; public.

    Parameters
    ----------
    test_epsilon : float
        Of the noisy distance to failure.
    threshold : float
        The test passes if the noisy distance exceeds this.
    failure_delta : float
        Bound on the chance of passing where the conditions fail, or fail after one replacement.
    guarantee : Guarantee
        Of the whole, whatever the table: none of the tested conditions is left. Its one event
        states what is proven for test and release together (see `plan_test`).
    charges : tuple of Event
        What a budget is charged: test and release one by one, which costs a little more at the
        same delta and composes better with other releases.

    Examples
    --------
    >>> from missdp.pricing import PricedPipeline, PrivateMean, plan_test, PCARankReducer
    >>> steps = [("pca", PCARankReducer(n_components=2, least_gap=0.2))]
    >>> pipeline = PricedPipeline(steps, PrivateMean(noise_multiplier=9.0), rows=5000, columns=9)
    >>> plan = plan_test(pipeline, test_epsilon=0.1)
    >>> round(plan.threshold, 1), len(plan.guarantee.conditions)
    (139.2, 2)
    """

    __test__ = False  # Not a test class, whatever its name starts with.

    test_epsilon: float
    threshold: float
    failure_delta: float
    guarantee: Guarantee
    charges: tuple[Event, ...]


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateEstimator(Parameters):
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

    def question(self, domain: RowDomain) -> Question:
        """Return what is asked about rows of ``domain``; public facts only."""
        raise NotImplementedError

    def keep(self, question: Question, answer: Any) -> None:
        """Set the released attributes; may raise for no answer, which was charged for."""
        raise NotImplementedError

    def check_target(self, y: ArrayLike | None, rows: int) -> None:
        """Refuse a target that is not there or of the wrong length, before anything is charged."""
        del y, rows

    def fit(self, X: Rows, y: ArrayLike | None = None) -> Self:
        """Charge the budget, then release.

        Parameters
        ----------
        X : array_like of shape (n, d), or Table
            Rows are scaled down to norm ``radius``; a missing cell counts as 0.
        y : array_like of shape (n,), optional
            Target, for estimators that need one.
        """
        label = type(self).__name__
        _check_budget(self.budget, X, label)
        check_fillable(X)
        table = as_rows(X)
        domain = RowDomain(rows=table.shape[0], columns=table.shape[1], radius=self.radius)
        self.check_target(y, domain.rows)
        facts = PreparedRows(
            raw=domain, label=label, delta=self.delta, assumed=(NotFittedOnThisTable(),)
        )
        noise = noise_source(self.random_state)
        with ReplaceOneDoor(table, facts, target=y, budget=self.budget, noise=noise) as door:
            door.release(self, self.question(domain))
        return self
