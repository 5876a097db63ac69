"""Private estimators, which ask one priced question about rows, and pipelines that end in one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone

from missdp.accounting import Budget, Condition, Guarantee
from missdp.accounting.words import warn_if_weak
from missdp.errors import DataError, NotFittedError, UnprovenError, number
from missdp.mechanisms.noise import NoiseSource, noise_source
from missdp.preprocess.conditions import NotFittedOnThisTable
from missdp.preprocess.costs import Bound, PreparedRows
from missdp.preprocess.domain import RowDomain, as_rows
from missdp.preprocess.gradient_steps import Asked
from missdp.preprocess.maps import PrivacyMap
from missdp.preprocess.replace_one import ReplaceOneDoor, refuse_add_remove
from missdp.preprocess.steps import StableTransformer, Stage, trace

__all__ = ["PricedPipeline", "PrivateEstimator", "RandomState", "calibrated"]


RandomState: TypeAlias = int | np.random.Generator | NoiseSource | None


class TellsUnfitted:
    """Mixin: attributes that `fit` sets raise `NotFittedError` before it."""

    def __getattr__(self, name: str) -> Any:
        if name.endswith("_") and not name.startswith("_"):
            raise NotFittedError(f"{type(self).__name__} has no {name} yet; call fit first")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


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
        After `fit`: what the released attributes promise.
    """

    noise_multiplier: float
    radius: float
    delta: float
    budget: Budget | None
    random_state: RandomState

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

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Charge the budget, then release.

        Parameters
        ----------
        X : array_like of shape (n, d)
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


class PricedPipeline(TellsUnfitted, BaseEstimator):  # type: ignore[misc]
    """Preprocessing fitted on the private table, then a private estimator, accounted as one.

    Parameters
    ----------
    steps : sequence of (str, StableTransformer)
        Preprocessing, in order; may be empty. Fitted on the private table, without noise.
    estimator : PrivateEstimator
        What is released. Its own radius, delta, budget and random_state are not used.
    rows, columns : int
        Shape of the table; public.
    radius : float, default 1.0
        Rows are scaled down to this norm first.
    complete : bool, default True
        Whether no cell is missing; if True, a missing cell counts as 0.
    delta : float, default 1e-6
        At which the guarantee is stated.
    budget : Budget or None
        Charged before anything is computed.
    random_state : None, int, Generator or NoiseSource
        None: secure noise. A seed is for tests and becomes a condition.

    Attributes
    ----------
    estimator_ : PrivateEstimator
        After `fit`: the released estimator. It works on rows as they leave the steps.
    guarantee_ : Guarantee
        After `fit`: under replace-one adjacency, with every step's conditions.

    Notes
    -----
    The fitted steps are thrown away: what they learned is private. After the charge nothing raises,
    whatever a table of the declared shape holds: cells that are not finite numbers are missing, and
    rows outside the radius are scaled down. After Hu, Sanyal & Schölkopf 2024, Theorem 2.

    Examples
    --------
    >>> from missdp.preprocess import PricedPipeline, PrivateMean
    >>> from missdp.preprocess import MeanImputer
    >>> pipeline = PricedPipeline(
    ...     [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))],
    ...     PrivateMean(noise_multiplier=5.0), rows=1000, columns=2, complete=False)
    >>> round(pipeline.guarantee().epsilon, 3)
    0.914
    """

    def __init__(
        self,
        steps: Sequence[tuple[str, StableTransformer]],
        estimator: PrivateEstimator,
        *,
        rows: int,
        columns: int,
        radius: float = 1.0,
        complete: bool = True,
        delta: float = 1e-6,
        budget: Budget | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.steps = steps
        self.estimator = estimator
        self.rows = rows
        self.columns = columns
        self.radius = radius
        self.complete = complete
        self.delta = delta
        self.budget = budget
        self.random_state = random_state

    @property
    def domain(self) -> RowDomain:
        """Public facts about the raw table."""
        return RowDomain(
            rows=self.rows, columns=self.columns, radius=self.radius, complete=self.complete
        )

    def stages(self) -> tuple[Stage, ...]:
        """Return the trace of one replaced row through the steps; public."""
        return trace(self.steps, self.domain)

    def facts(self) -> PreparedRows:
        """Return what is public about the rows on their way to the estimator."""
        if not isinstance(self.estimator, PrivateEstimator):
            raise UnprovenError(
                f"{type(self.estimator).__name__} is not a private estimator of this library"
            )
        return PreparedRows(
            raw=self.domain,
            label=type(self.estimator).__name__,
            delta=self.delta,
            steps=self.stages(),
        )

    def bounds(self) -> tuple[Bound, ...]:
        """Return every bound on the whole pipeline at ``delta``, the best first; public."""
        facts = self.facts()
        return facts.bounds(self.estimator.question(facts.domain))

    def conditions(self) -> tuple[Condition, ...]:
        """Return everything the guarantee rests on, noise source aside; public."""
        facts = self.facts()
        return facts.conditions(self.estimator.question(facts.domain))

    def guarantee(self) -> Guarantee:
        """Return the guarantee a `fit` with secure noise will have; reads no data."""
        facts = self.facts()
        question = self.estimator.question(facts.domain)
        return facts.guarantee(question, facts.bounds(question)[0])

    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Charge the budget, preprocess, release.

        Parameters
        ----------
        X : array_like of shape (rows, columns)
            NaN is a missing cell.
        y : array_like of shape (rows,), optional
            Target; not preprocessed.

        Returns
        -------
        self

        Raises
        ------
        BudgetExceededError
            If the budget cannot afford the release; nothing was computed.
        DataError
            If X or y has another shape than declared; nothing was charged.
        UnprovenError
            If no bound is known for this chain.
        """
        with self.door(X, y, noise_source(self.random_state)) as door:
            question = self.estimator.question(door.domain)
            guarantee = door.guarantee(question)
            warn_if_weak(guarantee.epsilon, guarantee.delta, n=self.rows)
            self.check_shapes(X, y)
            estimator: PrivateEstimator = clone(self.estimator)
            estimator.release(question, door.ask(question), guarantee)
        self.estimator_, self.guarantee_ = estimator, guarantee
        return self

    def door(self, X: ArrayLike, y: ArrayLike | None, noise: NoiseSource) -> ReplaceOneDoor:
        """Return the door behind which the steps are fitted; reads nothing."""
        return ReplaceOneDoor(X, self.facts(), target=y, budget=self.budget, noise=noise)

    def check_shapes(self, X: ArrayLike, y: ArrayLike | None) -> None:
        """Refuse other shapes than the declared ones (public), before anything is charged."""
        declared = (self.rows, self.columns)
        shape = tuple(getattr(X, "shape", declared))
        if isinstance(X, (list, tuple)):
            shape = (len(X), self.columns)
        if shape != declared:
            raise DataError(f"the table must have the declared shape ({self.rows}, {self.columns})")
        self.estimator.check_target(y, self.rows)


def calibrated(pipeline: PricedPipeline, epsilon: float) -> PricedPipeline:
    """Return the pipeline with the least noise whose whole guarantee is within ``epsilon``.

    Parameters
    ----------
    pipeline : PricedPipeline
        Its estimator's ``noise_multiplier`` is replaced; its delta is kept.
    epsilon : float
        Target for the whole pipeline at its delta, finite and above 0.

    Returns
    -------
    PricedPipeline
        A clone; the noise exceeds the least by a relative 1e-3 at most.

    Raises
    ------
    UnprovenError
        If no amount of noise up to 1e9 sensitivities is enough.

    Examples
    --------
    >>> from missdp.preprocess import PricedPipeline, PrivateMean, calibrated
    >>> from missdp.preprocess import MeanImputer
    >>> pipeline = PricedPipeline(
    ...     [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))],
    ...     PrivateMean(noise_multiplier=1.0), rows=1000, columns=2, complete=False)
    >>> round(calibrated(pipeline, 1.0).estimator.noise_multiplier, 2)
    4.6
    """
    epsilon = number("epsilon", epsilon, least=1e-9)

    def with_noise(multiplier: float) -> PricedPipeline:
        fresh: PricedPipeline = clone(pipeline)
        fresh.estimator.noise_multiplier = multiplier
        return fresh

    def fits(multiplier: float) -> bool:
        try:
            return with_noise(multiplier).bounds()[0].epsilon <= epsilon
        except UnprovenError:
            if multiplier < 1e9:
                return False
            raise

    low, high = 1e-6, 1.0
    while not fits(high):
        low, high = high, high * 4
        if high > 1e9:
            raise UnprovenError("no amount of noise is proven to be enough for this pipeline")
    while high / low > 1 + 1e-3:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return with_noise(high)
