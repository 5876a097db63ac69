"""Mechanisms to be used one by one: release of noisy counts, and selection by private scores.

Each charges the budget, then computes, then adds noise, in this order. Selection picks the best of
several public candidates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import (
    Adjacency,
    Budget,
    Condition,
    scale_for,
)
from missdp.errors import DataError, ParameterError, number, replacing
from missdp.mechanisms.choices import SelectionMethod, choice
from missdp.mechanisms.laws import count_event
from missdp.mechanisms.noise import CountNoise, NoiseSource, add_noise, check_scale

__all__ = [
    "SelectionMethod",
    "exponential_mechanism",
    "generalised_exponential_mechanism",
    "noisy_total",
    "normalised_scores",
    "release_counts",
]


def release_counts(
    counts: Callable[[], ArrayLike] | ArrayLike,
    *,
    noise: CountNoise,
    scale: float,
    sensitivity: float,
    budget: Budget,
    source: NoiseSource,
    gate: Iterable[str] | None = None,
    label: str = "",
    adjacency: Adjacency = "add-remove",
    conditions: Iterable[Condition] = (),
) -> NDArray[np.int64]:
    """Return integer counts plus discrete noise, after charging the budget.

    Parameters
    ----------
    counts : callable or array of integers
        The private counts, of any shape that is public. A callable runs only after the charge,
        and not at all if the budget refuses.
    noise : {"laplace", "gaussian"}
        Discrete Laplace (pure DP) or discrete Gaussian noise.
    scale : float
        The Laplace scale, or the Gaussian sigma. Above 0.
    sensitivity : float
        How far one row can move the counts: in L1 norm for Laplace noise, in L2 norm for
        Gaussian noise. At least 1. It is the caller's promise.
    budget : Budget
        Charged with one `LaplaceEvent` or `GaussianEvent`.
    source : NoiseSource
        Where the noise comes from; its conditions are charged along.
    gate : iterable of str, optional
        Attributes that must all be observed for a row to be counted.
    label : str
        Public name of the release, for reports.
    adjacency : {"add-remove", "replace-one"}
        The relation under which ``sensitivity`` holds.
    conditions : iterable of Condition
        What the sensitivity rests on.

    Returns
    -------
    ndarray of int64
        Same shape as the counts; entries may be negative.

    Raises
    ------
    BudgetExceededError
        If the budget cannot afford it; the counts were not computed.
    DataError
        If the counts are not finite whole numbers. The charge stays.

    Examples
    --------
    >>> from missdp.accounting import Budget
    >>> from missdp.mechanisms import SecureNoise, release_counts
    >>> budget = Budget(1.0)
    >>> released = release_counts(
    ...     lambda: [[3, 0], [1, 8]], noise="laplace", scale=2.0, sensitivity=1,
    ...     budget=budget, source=SecureNoise(), label="sex x smoker",
    ... )
    >>> released.shape, budget.remaining_epsilon
    ((2, 2), 0.5)
    """
    check_scale("scale", scale)
    event = count_event(noise, scale, sensitivity, gate=gate, label=label, adjacency=adjacency)
    budget.charge(event, conditions=(*conditions, *source.conditions))
    return add_noise(counts() if callable(counts) else counts, noise, scale, source)


def noisy_total(
    count: Callable[[], int] | int,
    *,
    epsilon: float,
    budget: Budget,
    source: NoiseSource,
    gate: Iterable[str] | None = None,
    label: str = "number of rows",
    conditions: Iterable[Condition] = (),
) -> int:
    """Return a number of rows plus discrete Laplace noise, raised to 0 if below.

    Parameters
    ----------
    count : callable or int
        The private number; one row added or removed moves it by at most 1. A callable runs only
        after the charge.
    epsilon : float
        What to spend, above 0: the noise has scale 1 / epsilon.
    budget, source, gate, label, conditions
        See `release_counts`.

    Returns
    -------
    int
        At least 0.

    Raises
    ------
    BudgetExceededError
        If the budget cannot afford it; the number was not computed.

    Examples
    --------
    >>> from missdp.accounting import Budget
    >>> from missdp.mechanisms import SecureNoise, noisy_total
    >>> noisy_total(10**6, epsilon=1.0, budget=Budget(1.0), source=SecureNoise()) > 999_000
    True
    """
    released = release_counts(
        count,
        noise="laplace",
        scale=scale_for(1.0, number("epsilon", epsilon, open_end=True)),
        sensitivity=1,
        budget=budget,
        source=source,
        gate=gate,
        label=label,
        conditions=conditions,
    )
    if released.shape != ():
        raise DataError("the total to release must be one number")
    return max(0, int(released))


_ROWS_AT_ONCE = 512
_MOST_WIDTHS = 2.0**32  # scores are clipped to so many times their sensitivity
_LARGEST_WIDTH = 2.0**500  # so that no intermediate result overflows


def exponential_mechanism(
    scores: Callable[[], ArrayLike] | ArrayLike,
    *,
    epsilon: float,
    sensitivity: float,
    budget: Budget,
    source: NoiseSource,
    method: SelectionMethod = "exponential",
    gate: Iterable[str] | None = None,
    label: str = "",
    adjacency: Adjacency = "add-remove",
    conditions: Iterable[Condition] = (),
) -> int:
    """Return the index of a candidate with a high score, after charging the budget.

    Parameters
    ----------
    scores : callable or array of float, shape (k,)
        Private scores of public candidates, all finite. A callable runs only after the charge.
    epsilon : float
        Above 0.
    sensitivity : float
        How far one row can move any score, above 0, floating-point rounding of the scores
        included. It is the caller's promise.
    budget : Budget
        Charged with one `SelectionEvent` (or a `PureEvent` for permute-and-flip).
    source : NoiseSource
        Where the noise comes from; its conditions are charged along.
    method : {"exponential", "permute-and-flip"}
        ``"exponential"`` picks i with probability proportional to
        exp(epsilon * score_i / (2 * sensitivity)) (McSherry & Talwar 2007), by Gumbel noise; it
        has epsilon-bounded range, which composes well. ``"permute-and-flip"`` never has a larger
        expected error (McKenna & Sheldon 2020), but is accounted as pure DP only.
    gate, label, adjacency, conditions
        See `release_counts`.

    Returns
    -------
    int
        Index into the scores.

    Raises
    ------
    BudgetExceededError
        If the budget cannot afford it; the scores were not computed.
    DataError
        If a score is NaN or infinite. The charge stays.

    Examples
    --------
    >>> from missdp.accounting import Budget
    >>> from missdp.mechanisms import SecureNoise, exponential_mechanism
    >>> exponential_mechanism(
    ...     lambda: [0.0, 500.0, 3.0], epsilon=1.0, sensitivity=1.0,
    ...     budget=Budget(1.0), source=SecureNoise(),
    ... )
    1
    """
    epsilon = number("epsilon", epsilon, open_end=True)
    sensitivity = number("sensitivity", sensitivity, most=math.inf, open_end=True)
    facts: dict[str, Any] = {"label": label, "gate": gate, "adjacency": adjacency}
    event, law = choice(epsilon, sensitivity, method, **facts)
    budget.charge(event, conditions=(*conditions, *source.conditions))
    return law.draw(_as_scores(scores() if callable(scores) else scores), source)


def generalised_exponential_mechanism(
    scores: Callable[[], ArrayLike] | ArrayLike,
    *,
    sensitivities: ArrayLike,
    epsilon: float,
    budget: Budget,
    source: NoiseSource,
    failure: float = 0.05,
    gate: Iterable[str] | None = None,
    label: str = "",
    adjacency: Adjacency = "add-remove",
    conditions: Iterable[Condition] = (),
) -> int:
    """Select when candidates have different sensitivities (Raskhodnikova & Smith 2016).

    The ordinary mechanism must use the largest sensitivity for all; this one lets a candidate
    with small sensitivity win by a small margin. It runs the exponential mechanism on
    `normalised_scores`, whose sensitivity is 1, and a little more for floating-point rounding.

    Parameters
    ----------
    scores : callable or array of float, shape (k,)
        Private scores of public candidates, all finite. A callable runs only after the charge.
    sensitivities : array of float, shape (k,)
        Public: how far one row can move each score, above 0, at most 2**500.
    epsilon : float
        Above 0.
    budget, source
        See `exponential_mechanism`.
    failure : float, default 0.05
        In (0, 1): the probability that the accuracy bound may fail; sets how strongly large
        sensitivities are held against a candidate. Does not touch privacy.
    gate, label, adjacency, conditions
        See `release_counts`.

    Returns
    -------
    int
        Index into the scores.

    Examples
    --------
    >>> from missdp.accounting import Budget
    >>> from missdp.mechanisms import SecureNoise, generalised_exponential_mechanism
    >>> generalised_exponential_mechanism(
    ...     lambda: [0.0, 900.0], sensitivities=[1.0, 2.0], epsilon=1.0,
    ...     budget=Budget(1.0), source=SecureNoise(),
    ... )
    1
    """
    widths = np.asarray(sensitivities, dtype=np.float64)
    if widths.ndim != 1 or not widths.size or not ((widths > 0) & (widths <= _LARGEST_WIDTH)).all():
        raise ParameterError(
            "sensitivities must be a non-empty vector of numbers above 0 and at most 2**500"
        )
    if not 0 < failure < 1:
        raise ParameterError(f"failure must be in (0, 1), got {failure}")
    epsilon = number("epsilon", epsilon, open_end=True)
    penalty = 2 * math.log(widths.size / failure) / epsilon

    def normalised() -> NDArray[np.float64]:
        values = _as_scores(scores() if callable(scores) else scores)
        return normalised_scores(values, widths, penalty=penalty)

    return exponential_mechanism(
        normalised,
        epsilon=epsilon,
        sensitivity=_normalised_sensitivity(penalty),
        budget=budget,
        source=source,
        gate=gate,
        label=label,
        adjacency=adjacency,
        conditions=conditions,
    )


def _normalised_sensitivity(penalty: float) -> float:
    """Return how far one row moves a normalised score, floating-point rounding included.

    With B = 2^32, the bound of abs(q_i) / D_i, and u = 2^-53: t D_i is public, and so is what is
    made of it. Two subtractions are off by u (abs(q_i) + t D_i + abs(q_j) + t D_j) each, at most u
    (B + t) (D_i + D_j), the public sum D_i + D_j and the quotient by a relative u each: 4 u (B + t)
    for each of two neighbours. Twice that is more than the terms in u^2.
    """
    return 1.0 + 2.0**-49 * (_MOST_WIDTHS + penalty)


def normalised_scores(
    scores: NDArray[np.float64], sensitivities: NDArray[np.float64], *, penalty: float
) -> NDArray[np.float64]:
    """Return scores of sensitivity 1 made from scores q_i of sensitivity D_i.

    s_i = min over j of ((q_i - t D_i) - (q_j - t D_j)) / (D_i + D_j), with t the penalty. One row
    moves q_i - q_j by at most D_i + D_j and t, D are public, so each fraction moves by at most
    1, and so does the smallest of them. No s_i is above 0 (j = i), and at least one is 0. Scores
    are clipped to +-2^32 D_i first, which brings neighbours no further apart, so that rounding
    errors are bounded: they add less than 10^-5 for any penalty up to 2^32.

    Parameters
    ----------
    scores, sensitivities : array of float, shape (k,)
        Finite; sensitivities above 0 and public.
    penalty : float
        At least 0, public.

    Returns
    -------
    ndarray of float, shape (k,)

    Raises
    ------
    DataError
        If a score is not finite, or the shapes differ.

    Examples
    --------
    >>> normalised_scores(np.array([0.0, 6.0]), np.array([1.0, 2.0]), penalty=0.0).tolist()
    [-2.0, 0.0]
    """
    if scores.shape != sensitivities.shape or scores.ndim != 1:
        raise DataError("there must be one score per sensitivity")
    if not np.isfinite(scores).all():
        raise DataError("scores must all be finite")
    most = _MOST_WIDTHS * sensitivities
    shifted = np.clip(scores, -most, most) - penalty * sensitivities
    out = np.empty(scores.size)
    for start in range(0, scores.size, _ROWS_AT_ONCE):  # k^2 fractions, a block at a time
        block = slice(start, start + _ROWS_AT_ONCE)
        gaps = shifted[block, None] - shifted[None, :]
        out[block] = (gaps / (sensitivities[block, None] + sensitivities[None, :])).min(axis=1)
    return out


def _as_scores(values: ArrayLike) -> NDArray[np.float64]:
    """Return the scores as floats; the refusal of anything else must not quote it."""
    with replacing(TypeError, ValueError, by=DataError("scores must be numbers")):
        return np.asarray(values, dtype=np.float64)
