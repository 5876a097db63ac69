"""Privacy profiles: the smallest proven delta of a composition at an epsilon.

Bounds for the table before values went missing use profiles (`missdp.ground_truth`), and the
testing kit checks claims at a grid of epsilons. The guarantee of a fit does not depend on this
file. The conversions are those of `missdp.accounting.exact`, solved for delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from missdp.accounting.composition import applicable_measures, other_bounds
from missdp.accounting.events import Event, flatten
from missdp.accounting.exact import (
    delta_from_mu,
    exact,
    float_up,
    gdp_mu,
    minimum_over_orders,
    total,
)
from missdp.accounting.loss_distributions import compose
from missdp.accounting.measures import PrivacyMeasure, approximate_delta
from missdp.accounting.renyi import renyi_curve, smallest_bound
from missdp.errors import check_nonnegative
from missdp.types import Floats


def delta_of(events: Event | Iterable[Event], epsilon: float) -> float:
    """Return the smallest delta that is proven for several releases together at an epsilon.

    Parameters
    ----------
    events : Event or iterable of Event
        Accounting events of releases that were fixed in advance, all under one adjacency.
    epsilon : float
        Finite and at least 0.

    Returns
    -------
    float
        From 0 to 1, rounded up.

    Raises
    ------
    UnprovenError
        If no bound covers every event, or the events mix adjacencies.
    ParameterError
        If epsilon is out of range, or an element is not an `Event`.

    Examples
    --------
    >>> from missdp.profiles import delta_of
    >>> from missdp.accounting import PureEvent
    >>> delta_of([PureEvent(epsilon=0.5)] * 2, 1.0)
    0.0
    """
    parts, epsilon = flatten(events), check_nonnegative("epsilon", epsilon)
    if not parts:
        return 0.0
    additive = applicable_measures(parts)
    curved, tabular = other_bounds(parts, has_measure=bool(additive))
    failure = total(exact(approximate_delta(event)) for event in parts)
    bounds = [DELTAS[name](measure.total(parts), epsilon) for name, measure in additive.items()]
    if curved:
        bounds.append(delta_from_rdp(*renyi_curve(parts), epsilon))
    bounds = [float_up(exact(bound) + failure) for bound in bounds]
    if tabular:
        bounds.append(float(compose(parts).get_delta_for_epsilon(epsilon)))
    return min(1.0, *bounds)


def delta_from_rdp(orders: Floats, curve: Floats, epsilon: float) -> float:
    """Return the delta at an epsilon that bounds on the Rényi divergence prove.

    The smallest delta over all orders counts (Canonne, Kamath & Steinke 2020, Proposition 12).

    Parameters
    ----------
    orders, curve : ndarray of shape (n_orders,)
        Rényi orders above 1, and upper bounds on the divergence at each of them.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        From 0 to 1.
    """
    with np.errstate(over="ignore"):
        logs = (orders - 1) * (curve - epsilon + np.log1p(-1 / orders)) - np.log(orders)
    return min(1.0, math.exp(min(0.0, smallest_bound(logs))))


def delta_from_rho(rho: float, epsilon: float) -> float:
    """Return the smallest delta at an epsilon that zCDP with a given rho proves.

    Parameters
    ----------
    rho : float
        The parameter of zero-concentrated DP, at least 0.
    epsilon : float
        At least 0.

    Returns
    -------
    float
        From 0 to 1, the smallest over all real Rényi orders above 1.
    """
    if rho == 0:
        return 0.0
    log_delta = minimum_over_orders(
        lambda a: (a - 1) * (rho * a - epsilon + math.log1p(-1 / a)) - math.log(a)
    )[1]
    return min(1.0, math.exp(min(0.0, log_delta)))


DELTAS: dict[PrivacyMeasure, Callable[[Fraction, float], float]] = {
    "pure": lambda cost, epsilon: 0.0 if cost <= exact(epsilon) else 1.0,
    "zcdp": lambda cost, epsilon: delta_from_rho(float_up(cost), epsilon),
    "gdp": lambda cost, epsilon: delta_from_mu(gdp_mu(cost), epsilon),
}
"""Map from a measure to the function that returns the delta of a cost at an epsilon."""
