"""Running totals of a budget: what a composition costs so far, updated one charge at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from missdp.accounting._convert import FloatArray, epsilon_from_rdp, epsilon_from_rho
from missdp.accounting.accountants import PureAccountant, RDPAccountant, ZCDPAccountant
from missdp.accounting.curves import approximate_delta, pure_epsilon, rdp_curve, zcdp_rho_of
from missdp.accounting.events import Event

__all__ = ["Totals"]

_PURE, _ZCDP, _RDP = PureAccountant(), ZCDPAccountant(), RDPAccountant()


@dataclass(frozen=True)
class Totals:
    """Sums over the events so far; infinite where an event has no bound of that kind.

    Examples
    --------
    >>> from missdp.accounting import PureEvent
    >>> Totals(orders=np.array([2.0])).plus([PureEvent(epsilon=0.5)]).pure
    0.5
    """

    orders: FloatArray
    pure: float = 0.0
    rho: float = 0.0
    failure: float = 0.0
    curve: FloatArray = field(default_factory=lambda: np.zeros(1))

    def plus(self, events: Iterable[Event]) -> Totals:
        """Return the totals with these (elementary) events added."""
        pure, rho, failure, curve = self.pure, self.rho, self.failure, self.curve
        for event in events:
            pure += pure_epsilon(event) if _PURE.supports(event) else math.inf
            rho += zcdp_rho_of(event) if _ZCDP.supports(event) else math.inf
            curve = curve + (rdp_curve(event, self.orders) if _RDP.supports(event) else math.inf)
            failure += approximate_delta(event)
        return Totals(self.orders, pure, rho, failure, curve)

    def epsilon(self, delta: float) -> float:
        """Return the best epsilon the totals prove at ``delta``; infinity if none."""
        left = delta - self.failure
        if left < 0:
            return math.inf
        best = self.pure
        if left > 0:
            if math.isfinite(self.rho):
                best = min(best, epsilon_from_rho(self.rho, left))
            best = min(best, epsilon_from_rdp(self.orders, self.curve, left))
        return best
