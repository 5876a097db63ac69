"""Logistic models of missingness as one score per level: logit = intercept + Σ score[code]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit, logit

from missdp.schema import AnyAttribute, Categorical
from missdp.table import Table

__all__ = ["Scores", "fitted_probability", "positions", "random_scores", "sum_scores"]

Scores = Mapping[str, NDArray[np.float64]]


def positions(attribute: AnyAttribute) -> NDArray[np.float64]:
    """Place the ordered levels or bins of an attribute evenly on [-1, 1]: a public scale."""
    if attribute.size == 1:
        return np.zeros(1)
    return np.linspace(-1.0, 1.0, attribute.size)


def sum_scores(table: Table, scores: Scores) -> NDArray[np.float64]:
    """Add up the scores of each row's levels."""
    total = np.zeros(len(table))
    for name, score in scores.items():
        total += score[table.codes(name)]
    return total


def random_scores(
    table: Table, drivers: Iterable[str], *, strength: float, rng: np.random.Generator
) -> Scores:
    """Draw a linear predictor of the drivers whose standard deviation in the table is ``strength``.

    Each driver is standardised in the table (unordered levels are first given standard normal
    numbers), weighted by a standard normal weight, and the sum is scaled (Muzellec et al. 2020).
    """
    scores = {}
    for name in drivers:
        attribute = table.schema[name]
        unordered = isinstance(attribute, Categorical)
        score = rng.standard_normal(attribute.size) if unordered else positions(attribute)
        weight = rng.standard_normal()
        scores[name] = weight * _divide(score, score[table.codes(name)])
    total = sum_scores(table, scores)
    return {name: strength * _divide(score, total) for name, score in scores.items()}


def fitted_probability(linear: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Shift logits by the intercept that makes the mean probability equal the rate."""
    if rate in (0.0, 1.0) or not linear.size:
        return np.full(linear.shape, rate)
    target = float(logit(rate))
    low, high = target - float(linear.max()), target - float(linear.min())
    if high - low < 1e-12:
        return np.full(linear.shape, rate)

    def excess(intercept: float) -> float:
        return float(expit(linear + intercept).mean()) - rate

    intercept = brentq(excess, low - 1e-9, high + 1e-9, xtol=1e-13)
    return np.asarray(expit(linear + intercept), dtype=np.float64)


def _divide(score: NDArray[np.float64], realised: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scale a score by the spread it has in the table; leave a constant alone."""
    spread = float(realised.std()) if realised.size else 0.0
    return score / spread if spread > 1e-12 else score
