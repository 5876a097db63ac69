"""The nine classifiers of paper A §6.1, with their libraries' defaults and an explicit seed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    GradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import BernoulliNB
from sklearn.neural_network import MLPClassifier
from sklearn.tree import DecisionTreeClassifier

from missdp.errors import MissingDependencyError, ParameterError, replacing
from missdp.evaluate.inputs import names_of

__all__ = ["LEARNERS", "Learner", "check_learners"]


class Learner(Protocol):
    """The part of scikit-learn's classifier interface that is used."""

    def fit(self, X: NDArray[np.float64], y: NDArray[np.int64]) -> Any:  # noqa: D102
        ...

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.int64]:  # noqa: D102
        ...


def _xgboost(seed: int) -> Learner:
    absent = MissingDependencyError(
        "the XGBoost learner needs an extra: pip install 'missdp[learners]', or name the other "
        "learners"
    )
    with replacing(ImportError, by=absent):
        from xgboost import XGBClassifier
    learner: Learner = XGBClassifier(random_state=seed, n_jobs=1)
    return learner


LEARNERS: dict[str, Callable[[int], Learner]] = {
    "LogisticRegression": lambda seed: LogisticRegression(random_state=seed),
    "AdaBoost": lambda seed: AdaBoostClassifier(random_state=seed),
    "GradientBoosting": lambda seed: GradientBoostingClassifier(random_state=seed),
    "XGBoost": _xgboost,
    "RandomForest": lambda seed: RandomForestClassifier(random_state=seed, n_jobs=1),
    "BernoulliNB": lambda _: BernoulliNB(),
    "DecisionTree": lambda seed: DecisionTreeClassifier(random_state=seed),
    "Bagging": lambda seed: BaggingClassifier(random_state=seed, n_jobs=1),
    "MLP": lambda seed: MLPClassifier(random_state=seed),
}
"""Name to maker: a maker takes a seed and returns a fresh classifier."""


def check_learners(names: Iterable[str] | None) -> tuple[str, ...]:
    """Return the learners to use, or refuse unknown ones and absent libraries at once.

    Raises
    ------
    ParameterError
        If a name is unknown, repeated, or there is none.
    MissingDependencyError
        If the learner's library is not installed.
    """
    chosen = tuple(LEARNERS) if names is None else names_of("learners", names)
    if unknown := [name for name in chosen if name not in LEARNERS]:
        raise ParameterError(f"unknown learners {unknown}; there are {list(LEARNERS)}")
    if not chosen or len(set(chosen)) != len(chosen):
        raise ParameterError("name at least one learner, each once")
    for name in chosen:
        LEARNERS[name](0)
    return chosen
