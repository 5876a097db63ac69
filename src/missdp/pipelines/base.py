"""What a private estimator is: a priced question about rows, and what it makes of the answer."""

from __future__ import annotations

from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from missdp.accounting import Budget, Guarantee
from missdp.accounting.weakness import warn_if_weak
from missdp.errors import NotFittedError
from missdp.mechanisms.gradient_steps import Asked
from missdp.mechanisms.noise import NoiseSource, noise_source
from missdp.mechanisms.prepared_rows import PreparedRows
from missdp.mechanisms.rdp_maps import PrivacyMap
from missdp.mechanisms.replace_one import ReplaceOneDoor, refuse_add_remove
from missdp.mechanisms.row_domain import RowDomain, as_rows
from missdp.transforms import NotFittedOnThisTable

__all__ = ["PrivateEstimator", "RandomState", "TellsUnfitted"]

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
        Query, GradientSteps or SecretStop
        """
        raise NotImplementedError

    def keep(self, question: Asked, answer: Any) -> None:
        """Set the released attributes; may raise for no answer, which was charged for.

        Parameters
        ----------
        question : Query, GradientSteps or SecretStop
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
