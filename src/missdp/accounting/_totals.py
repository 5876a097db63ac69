"""Running totals of a budget: what a composition costs so far, updated one charge at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from missdp.accounting._convert import FloatArray, epsilon_from_rdp, epsilon_from_rho
from missdp.accounting._exact import ceiling, exact, float_down, float_up
from missdp.accounting.accountants import PureAccountant, RDPAccountant, ZCDPAccountant
from missdp.accounting.curves import approximate_delta, pure_cost, rdp_curve, zcdp_cost
from missdp.accounting.events import Event

__all__ = ["Totals"]

_PURE, _ZCDP, _RDP = PureAccountant(), ZCDPAccountant(), RDPAccountant()


@dataclass(frozen=True)
class Totals:
    """Sums over the events so far; None or infinite where an event has no bound of that kind.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> Totals(orders=np.array([2.0])).plus([PureEvent(epsilon=0.5)]).pure
    Fraction(1, 2)
    """

    orders: FloatArray
    pure: Fraction | None = Fraction(0)
    rho: Fraction | None = Fraction(0)
    failure: Fraction = Fraction(0)
    curve: FloatArray = field(default_factory=lambda: np.zeros(1))

    def plus(self, events: Iterable[Event]) -> Totals:
        """Return the totals with these (elementary) events added."""
        pure, rho, failure, curve = self.pure, self.rho, self.failure, self.curve
        for event, times in Counter(events).items():
            pure = _sum(pure, times * pure_cost(event) if _PURE.supports(event) else None)
            rho = _sum(rho, times * zcdp_cost(event) if _ZCDP.supports(event) else None)
            known = _RDP.supports(event)
            curve = curve + (times * rdp_curve(event, self.orders) if known else math.inf)
            failure = ceiling(failure + times * exact(approximate_delta(event)))
        return Totals(self.orders, pure, rho, failure, curve)

    @property
    def pure_epsilon(self) -> float:
        """The sum of pure epsilons, never below it; infinite if there is none."""
        return math.inf if self.pure is None else float_up(self.pure)

    def epsilon(self, delta: float) -> float:
        """Return the best epsilon the totals prove at ``delta``; infinity if none."""
        rest = exact(delta) - self.failure
        if rest < 0:
            return math.inf
        best, left = self.pure_epsilon, float_down(rest)
        if left > 0:
            if self.rho is not None:
                best = min(best, epsilon_from_rho(float_up(self.rho), left))
            best = min(best, epsilon_from_rdp(self.orders, self.curve, left))
        return best


def _sum(so_far: Fraction | None, cost: Fraction | None) -> Fraction | None:
    return None if so_far is None or cost is None else ceiling(so_far + cost)
