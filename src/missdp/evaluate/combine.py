"""Combine estimates from several synthetic tables into one, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from missdp.errors import ParameterError, check_nonnegative, replacing


@dataclass(frozen=True)
class Combined:
    """Estimate that was combined from several synthetic tables, with its sampling variance.

    `combine_estimates` returns it. It is a function of released tables, and may be published.

    Parameters
    ----------
    estimate : float
        Mean of the estimates of all tables, in the unit of the estimates.
    variance : float
        Variance of the combined estimate, in the squared unit of the estimate, at least 0.
    degrees : float
        Degrees of freedom of its t distribution, at least 1.

    Raises
    ------
    ParameterError
        If the variance is negative or not a finite number.

    Examples
    --------
    >>> from missdp.evaluate import Combined
    >>> low, high = Combined(estimate=0.5, variance=0.0001, degrees=30.0).interval()
    >>> round(low, 3), round(high, 3)
    (0.48, 0.52)
    """

    estimate: float
    variance: float
    degrees: float

    def __post_init__(self) -> None:
        check_nonnegative("variance", self.variance)

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """Return a two-sided confidence interval of the combined estimate, from its t distribution.

        Parameters
        ----------
        confidence : float, default 0.95
            Confidence of the interval, strictly between 0 and 1.

        Returns
        -------
        tuple of (float, float)
            The lower and the upper end, in the unit of the estimate. Released, if the tables
            are.

        Raises
        ------
        ParameterError
            If the confidence is not between 0 and 1.

        Examples
        --------
        >>> from missdp.evaluate import Combined
        >>> low, high = Combined(estimate=0.5, variance=0.0001, degrees=30.0).interval(0.8)
        >>> round(low, 3), round(high, 3)
        (0.487, 0.513)
        """
        from scipy.special import stdtrit

        if not 0 < confidence < 1:
            raise ParameterError("confidence must be strictly between 0 and 1")
        half = float(stdtrit(self.degrees, (1 + confidence) / 2)) * self.variance**0.5
        return self.estimate - half, self.estimate + half


def combine_estimates(estimates: ArrayLike, variances: ArrayLike) -> Combined:
    """Combine estimates from several synthetic tables into one estimate with a variance.

    For tables drawn with ``sample(multiple=m)``, and for means and shares from AIM or MST. Do not
    use it for regression coefficients, which all tables shrink alike. The result is a function of
    released tables.

    Parameters
    ----------
    estimates : array of float, shape (m,)
        The estimate in each synthetic table, for m of at least 2 tables.
    variances : array of float, shape (m,)
        The sampling variance of the estimate in each table, computed as if the table were real, at
        least 0. In the squared unit of the estimates.

    Returns
    -------
    Combined
        Estimate ``q̄`` with variance ``T = (1 + 1/m) B − ū`` (never below ``B / m``). It has
        ``(m − 1)(T / ((1 + 1/m) B))²`` degrees of freedom (at least one). ``q̄`` is the mean of the
        estimates, ``B`` is the variance between tables, and ``ū`` the mean variance within tables.

    Raises
    ------
    ParameterError
        If the arrays are not finite numbers, one pair for each of at least two tables, or a
        variance is negative.

    Notes
    -----
    This is the rule of Raghunathan, Reiter and Rubin (2003) for fully synthetic data. It requires
    tables whose models vary as the released model does around the truth. ``multiple=m`` draws from
    varied models in this way. It does not cover bias (of marginals that were never measured, of
    values missing not at random), nor the randomness of which marginals were selected. Models are
    regularised, so these tables vary a little less than tables of new fits.
    ``bench/aim_coverage.py`` measures the remaining error.

    References
    ----------
    Raghunathan, Reiter, Rubin (2003), "Multiple imputation for statistical disclosure limitation",
    Journal of Official Statistics 19(1).

    Examples
    --------
    >>> from missdp.evaluate import combine_estimates
    >>> found = combine_estimates([0.50, 0.52, 0.48, 0.51], [1e-4] * 4)
    >>> round(found.estimate, 4), round(found.variance, 6)
    (0.5025, 0.000265)
    """
    refused = ParameterError("estimates and variances must be numbers")
    with replacing(TypeError, ValueError, by=refused):
        q, u = np.asarray(estimates, dtype=float), np.asarray(variances, dtype=float)
    if q.ndim != 1 or q.shape != u.shape or len(q) < 2:
        raise ParameterError("there must be one estimate and one variance for each of 2+ tables")
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0).all()):
        raise ParameterError("estimates and variances must be finite, and variances at least 0")
    between = float(q.var(ddof=1))
    spread = (1 + 1 / len(q)) * between
    total = max(spread - float(u.mean()), between / len(q))
    share = total / spread if spread > 0 else 1.0
    return Combined(float(q.mean()), total, max(1.0, (len(q) - 1) * share**2))
