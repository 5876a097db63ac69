"""Counts that leave: charge the budget, then compute, then add noise, in this order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from missdp.accounting import (
    Adjacency,
    Budget,
    Condition,
    Event,
    GaussianEvent,
    LaplaceEvent,
    scale_for,
)
from missdp.errors import DataError, ParameterError, replacing
from missdp.mechanisms.noise import NoiseSource, check_scale

__all__ = ["CountNoise", "add_noise", "count_event", "noisy_total", "release_counts"]

CountNoise = Literal["laplace", "gaussian"]
# Counts beyond this are clipped, which moves no two neighbours further apart, so that adding
# noise cannot wrap around.
_MAX_COUNT = 2**61


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


def add_noise(
    counts: ArrayLike, noise: CountNoise, scale: float, source: NoiseSource
) -> NDArray[np.int64]:
    """Return integer counts plus discrete noise; whoever calls this has charged for it."""
    exact = _as_counts(counts)
    draw = source.discrete_laplace if noise == "laplace" else source.discrete_gaussian
    return np.asarray(exact + draw(float(scale), exact.shape), dtype=np.int64)


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
    if isinstance(epsilon, bool) or not 0 < epsilon < math.inf:
        raise ParameterError(f"epsilon must be finite and above 0, got {epsilon}")
    released = release_counts(
        count,
        noise="laplace",
        scale=scale_for(1.0, epsilon),
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


def count_event(
    noise: str,
    scale: float,
    sensitivity: float,
    *,
    gate: Iterable[str] | None,
    label: str,
    adjacency: Adjacency = "add-remove",
) -> Event:
    """Return the fact that counts are released with Laplace or Gaussian noise."""
    facts: dict[str, Any] = {"label": label, "gate": gate, "adjacency": adjacency}
    if noise == "laplace":
        return LaplaceEvent(sensitivity=sensitivity, scale=scale, **facts)
    if noise == "gaussian":
        return GaussianEvent(sensitivity=sensitivity, sigma=scale, **facts)
    raise ParameterError(f"noise must be 'laplace' or 'gaussian', got {noise!r}")


def _as_counts(values: ArrayLike) -> NDArray[np.int64]:
    """Return int64 counts; refuse, without naming a value, what is not finite and whole."""
    refusal = DataError("counts must form one array of whole numbers")
    with replacing(TypeError, ValueError, by=refusal):
        array = np.asarray(values)
    if array.dtype.kind == "f":
        if not np.isfinite(array).all() or (array != np.rint(array)).any():
            raise DataError("counts must be finite whole numbers")
    elif array.dtype.kind not in "iub":
        raise DataError(f"counts must be whole numbers, got dtype {array.dtype}")
    if array.dtype.kind == "u":
        return np.minimum(array.astype(np.uint64), _MAX_COUNT).astype(np.int64)
    wide = array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    return np.clip(wide, -_MAX_COUNT, _MAX_COUNT).astype(np.int64)
