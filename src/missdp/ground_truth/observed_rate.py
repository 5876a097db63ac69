"""How often is a value observed? An upper bound, at a stated confidence, from *released* counts.

A raw missing rate is private data: printing it, or a bound computed from it, is a leak. The
counts that go in here have been through a mechanism, and the noise is part of the uncertainty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from scipy import special

from missdp.accounting.conditions import Assumption, Condition
from missdp.errors import ParameterError

__all__ = ["NoiseKind", "ObservedRateBound", "observed_rate_bound"]

NoiseKind = Literal["laplace", "discrete-laplace", "gaussian", "discrete-gaussian"]


@dataclass(frozen=True, kw_only=True)
class ObservedRateBound:
    """An upper bound on an observed probability, with the confidence it was computed at.

    Attributes
    ----------
    attribute : str
        The attribute.
    upper : float
        Upper bound on π, in [0, 1].
    confidence : float
        Probability with which the procedure gives a valid bound.
    conditions : tuple of Condition
        The confidence and the model behind it, to be carried by every guarantee that uses the
        bound: ``ground_truth_guarantee(..., conditions=bound.conditions)``.

    Examples
    --------
    >>> bound = observed_rate_bound(
    ...     2000.0, 10_000.0, attribute="income", scale=10.0, total_scale=10.0
    ... )
    >>> print(bound.conditions[0])
    The observed probability of income is at most 0.813 with confidence 0.95 (one-sided; from noisy counts, rows losing the value independently at one rate).
    """  # noqa: E501

    attribute: str
    upper: float
    confidence: float
    conditions: tuple[Condition, ...]


def observed_rate_bound(
    noisy_missing_count: float,
    noisy_total: float,
    *,
    attribute: str,
    scale: float,
    total_scale: float,
    noise: NoiseKind = "discrete-laplace",
    confidence: float = 0.95,
) -> ObservedRateBound:
    """Bound from above the probability that an attribute is observed, from released counts.

    Parameters
    ----------
    noisy_missing_count : float
        Released noisy number of rows in which the attribute is missing. Never a raw count.
    noisy_total : float
        Released noisy number of rows. Never a raw count.
    attribute : str
        Name of the attribute.
    scale, total_scale : float
        Noise parameter of either count (b of the Laplace, σ of the Gaussian laws), above 0.
    noise : {"laplace", "discrete-laplace", "gaussian", "discrete-gaussian"}
        Law of both noises.
    confidence : float
        In (0, 1), for this attribute alone: for several attributes at joint confidence 1 - β give
        each 1 - β/k.

    Returns
    -------
    ObservedRateBound

    Raises
    ------
    ParameterError
        If a parameter is out of its range, in particular a noise scale of 0.

    Notes
    -----
    The failure probability β = 1 - confidence is split in three. Except with probability β/3 each,
    the true missing count is at least the noisy one less a quantile of its noise, the true total
    at most the noisy one plus a quantile, and, given those, the missing probability is at least
    Clopper and Pearson's lower limit, which rises with the count and falls with the total. What
    comes out is post-processing of released values; the counts' own privacy cost is charged where
    they are released. A guarantee that uses the bound holds under it, so with that confidence.

    Examples
    --------
    >>> bound = observed_rate_bound(
    ...     2000.0, 10_000.0, attribute="income", scale=10.0, total_scale=10.0
    ... )
    >>> 0.8 < bound.upper < 0.83
    True
    """
    if not 0.0 < confidence < 1.0:
        raise ParameterError("confidence must be inside (0, 1)")
    if not (math.isfinite(noisy_missing_count) and math.isfinite(noisy_total)):
        raise ParameterError("the noisy counts must be finite")
    share = (1.0 - confidence) / 3.0
    missing = math.ceil(noisy_missing_count - _quantile(noise, scale, share))
    total = math.floor(noisy_total + _quantile(noise, total_scale, share))
    upper = _observed_upper(missing, total, share)
    # Rounding the printed figure up keeps the sentence true.
    shown = min(1.0, math.ceil(upper * 1000.0) / 1000.0)
    text = (
        f"The observed probability of {attribute} is at most {shown:g} with confidence "
        f"{confidence:g} (one-sided; from noisy counts, rows losing the value independently at "
        "one rate)."
    )
    return ObservedRateBound(
        attribute=attribute,
        upper=upper,
        confidence=confidence,
        conditions=(Assumption(text),),
    )


def _observed_upper(missing: int, total: int, share: float) -> float:
    """One minus the Clopper-Pearson lower limit; 1 where the counts say nothing."""
    if missing <= 0 or total <= 0:
        return 1.0
    if missing >= total:
        missing = total
    return float(1.0 - special.betaincinv(missing, total - missing + 1, share))


def _quantile(noise: NoiseKind, scale: float, share: float) -> float:
    """Return q with P(noise > q) <= share; by symmetry also P(noise < -q) <= share."""
    if noise not in get_args(NoiseKind):
        raise ParameterError(f"noise must be one of {', '.join(get_args(NoiseKind))}")
    if not (math.isfinite(scale) and scale > 0.0):
        raise ParameterError("a noise scale must be above 0: a count without noise is private")
    if noise == "laplace":
        return max(0.0, -scale * math.log(2.0 * share))
    if noise == "discrete-laplace":
        # P(X >= k) = e^{-k/b}/(1 + e^{-1/b}) for integers k >= 1; q is the largest k not refused.
        tail = -scale * (math.log(share) + math.log1p(math.exp(-1.0 / scale)))
        return max(0.0, float(math.ceil(tail)) - 1.0)
    normal = max(0.0, float(-special.ndtri(share)) * scale)
    # Canonne, Kamath & Steinke 2020: P(X >= k) <= P(N >= k - 1) for the discrete Gaussian.
    return normal if noise == "gaussian" else normal + 1.0
