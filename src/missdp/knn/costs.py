"""What one question may spend, and shares of it."""

from __future__ import annotations

from dataclasses import replace

from missdp.accounting import Cost
from missdp.errors import ParameterError
from missdp.mechanisms.asks import check_real

__all__ = ["cost_of", "share"]

# Shares are rounded down by more than floating point can round their sum up.
_SHARE = 1 - 2.0**-40


def cost_of(epsilon: float | None, rho: float | None) -> Cost:
    """Return what a question may spend: pure DP ``epsilon``, or zCDP ``rho``.

    Raises
    ------
    ParameterError
        If both or neither are given, or what is given is out of range.

    Examples
    --------
    >>> cost_of(0.5, None)
    Cost(currency='pure', amount=0.5, order=None)
    """
    if (epsilon is None) == (rho is None):
        raise ParameterError("give epsilon, or rho, and not both")
    amount = check_real("epsilon or rho", epsilon if rho is None else rho)
    return Cost(currency="zcdp" if rho is not None else "pure", amount=amount)


def share(cost: Cost, part: float) -> Cost:
    """Return a part of a cost; shares never add up to more than the whole.

    Examples
    --------
    >>> share(Cost(currency="pure", amount=1.0), 0.25).amount <= 0.25
    True
    """
    return replace(cost, amount=cost.amount * part * _SHARE)
