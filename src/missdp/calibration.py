"""Calibration: the noise that a cost pays for.

A charge follows from the drawn noise, which its event states. So an error here makes a release too
noisy, or a budget rejects it, and no guarantee is wrong. One bound for the table before values went
missing uses `gdp_selection` (`missdp.ground_truth.replicas`).
"""

from __future__ import annotations

import math

from missdp.accounting.measures import MAX_GDP, ROUNDING_VARIANCE, Cost, has_unit_sensitivity


def gdp_noise(amount: float, *, sensitivity: float = 1.0) -> float:
    """Return the sigma of discrete Gaussian noise that costs a given amount of Gaussian DP.

    Parameters
    ----------
    amount : float
        The cost: the square of the mu of Gaussian DP, at least 0.
    sensitivity : float, default 1.0
        Largest change of whole numbers by one row, in L2 norm.

    Returns
    -------
    float
        The sigma in the unit of the numbers, rounded up. Infinite if the amount is 0.
    """
    continuous = sensitivity**2 / amount if amount > 0 else math.inf
    if not has_unit_sensitivity(sensitivity):
        return math.sqrt(continuous + ROUNDING_VARIANCE)
    variance = continuous + 1 / 11 if continuous >= 1 else max(continuous, 1 / MAX_GDP) + 1 / 6
    return math.sqrt(variance) * (1 + 2.0**-50)


def gdp_selection(amount: float) -> float:
    """Return the epsilon of a selection that costs a given amount of Gaussian DP.

    The selection is an exponential mechanism.

    Parameters
    ----------
    amount : float
        The cost: the square of the mu of Gaussian DP, at least 0.

    Returns
    -------
    float
        The pure epsilon of the selection, at least 0.
    """
    from scipy.special import log_ndtr

    half = math.sqrt(amount) / 2 * (1 - 1e-11)
    if half < 1:
        return 4 * math.atanh(math.erf(half / math.sqrt(2)))
    return 2 * float(log_ndtr(half) - log_ndtr(-half))


def selection_epsilon(cost: Cost) -> float:
    """Return the epsilon of a selection by the exponential mechanism that has a given cost.

    Parameters
    ----------
    cost : Cost
        The cost in pure epsilon, zCDP or Gaussian DP.

    Returns
    -------
    float
        The pure epsilon of the selection, at least 0.

    Examples
    --------
    >>> from missdp.calibration import selection_epsilon
    >>> from missdp.accounting import Cost
    >>> selection_epsilon(Cost(privacy_measure="zcdp", amount=0.125))
    1.0
    """
    if cost.privacy_measure == "pure":
        return cost.amount
    return (
        gdp_selection(cost.amount) if cost.privacy_measure == "gdp" else math.sqrt(8 * cost.amount)
    )
