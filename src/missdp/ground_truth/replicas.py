"""Amplification for many requirements: moments over independent copies of a row's mask.

With the row, the likelihood ratio of all outputs is a mixture over masks. So its n-th power is a
mean over n masks, and a release counts only in the copies that meet its requirement. No two fixed
requirements may share an attribute (``_replica_curve``). For marginals that the data chose one
after another, a cap on their total cost is enough (``_chosen_curve``). docs/referees/proofs.md has
the proofs, and false claims.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp

from missdp.accounting.events import Event, GaussianEvent, flatten
from missdp.accounting.exact import float_up
from missdp.accounting.measures import gdp_cost, zcdp_rho_of
from missdp.accounting.renyi import epsilon_from_rdp, rdp_curve
from missdp.calibration import gdp_selection
from missdp.errors import ParameterError
from missdp.ground_truth.mixture import check_observed, observation_probability
from missdp.required_attributes import ChosenRequirements
from missdp.types import Floats, Ints

ORDERS = np.array([*range(2, 65), *range(68, 129, 4), *range(136, 257, 8), *range(272, 513, 16)])
"""Integer orders at which the bound for fixed requirements is computed."""
CHOSEN_ORDERS = np.array(
    [*range(2, 33), *range(34, 65, 2), *range(68, 129, 6), *range(136, 201, 16)]
)
"""Integer orders at which the bound for chosen marginals may be computed."""
_MIN_ORDER = 1.01  # smallest Rényi order
_OUTWARD = 1 + 1e-9  # factor for rounding errors of sums of a few hundred terms
_CLASSES = 24  # distinct rates: more are rounded up to a grid, which does not reduce the bound


def events_by_disjoint_part(
    events: Sequence[Event], observed: Mapping[str, float]
) -> dict[frozenset[str], list[Event]]:
    """Return events by a part of their requirement, so that no two parts share a name.

    A release with a requirement may be counted with a part of it. A requirement that overlaps no
    other one stays complete. The part of other requirements is the attribute with the smallest
    probability, and then the least shared one.

    Parameters
    ----------
    events : sequence of Event
        Elementary events.
    observed : mapping of str to float
        Probabilities of being observed.

    Returns
    -------
    dict of frozenset of str to list of Event
        Events by part. The empty part reads every row.
    """
    by_part: dict[frozenset[str], list[Event]] = defaultdict(list)
    live = [frozenset(a for a in e.required or () if observed.get(a, 1.0) < 1) for e in events]
    uses = Counter(name for required in set(live) for name in required)
    for event, required in zip(events, live, strict=True):
        rarest = sorted(required, key=lambda a: (observed[a], uses[a], a))[:1]
        shares_no_name = all(uses[name] == 1 for name in required)
        by_part[required if shares_no_name else frozenset(rarest)].append(event)
    return by_part


def replica_epsilon(events: Sequence[Event], delta: float, observed: Mapping[str, float]) -> float:
    """Return the amplified epsilon at ``delta`` above 0, infinite if no order proves a bound.

    Parameters
    ----------
    events : sequence of Event
        Elementary add-remove events with fixed requirements.
    delta : float
        Target δ.
    observed : mapping of str to float
        Probabilities of being observed.

    Returns
    -------
    float
        At least 0.
    """
    curve = _replica_curve(events, observed)
    finite = np.isfinite(curve)
    if not finite.any():
        return np.inf
    return epsilon_from_rdp(ORDERS[finite].astype(float), curve[finite], delta)


def _replica_curve(events: Sequence[Event], observed: Mapping[str, float]) -> Floats:
    """Return the amplified Rényi divergence at each of `ORDERS`, infinite without a proof.

    The events are elementary add-remove events with requirements that were fixed in advance. Events
    of one of the `events_by_disjoint_part` together have a divergence at each order, however they
    are composed.
    """
    every = np.arange(1, ORDERS[-1] + 1)  # the first number is not an order
    behind = events_by_disjoint_part(events, observed)
    forwards = backwards = _curve(behind.pop(frozenset(), []), ORDERS)
    alike: Counter[tuple[float, tuple[Event, ...]]] = Counter()
    for part, part_events in behind.items():
        p = math.prod(observed[name] for name in part)
        alike[p, tuple(replace(event, label="", required=None) for event in part_events)] += 1
    for (p, those), times in alike.items():
        costs = np.append(0.0, _curve(those, every[1:]))
        moments = [_moment(costs[:n], int(n), p) / (n - 1) for n in ORDERS]
        forwards = forwards + times * np.array(moments)
        lower = np.maximum(1 + (ORDERS - 1) * p, _MIN_ORDER)
        backwards = backwards + (times * p * _curve(those, lower) if p else 0.0)
    return np.asarray(np.maximum(forwards, backwards) * _OUTWARD)


def _curve(events: Sequence[Event], orders: NDArray[Any]) -> Floats:
    """Return the Rényi divergence of all events together, at each order."""
    curves = (rdp_curve(event, orders.astype(float)) for event in events)
    return np.asarray(_OUTWARD * sum(curves, start=np.zeros(len(orders))))


def _moment(costs: Floats, n: int, p: float) -> float:
    """Return log E exp((k - 1)⁺ R(k)) for k ~ Binomial(n, p)."""
    if p == 0:
        return 0.0
    k, chance = np.arange(n + 1), _log_binomial(n, p)
    exponent = np.zeros(n + 1)
    exponent[2:] = k[1:-1] * costs[1:]
    # Terms are relative to 1, so that rounding does not lose small costs.
    return float(np.logaddexp(0.0, logsumexp(chance[2:] + _log_expm1(exponent[2:]))))


def _log_expm1(x: Floats) -> Floats:
    """Return log(exp(x) - 1)."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30.0))))


@dataclass(frozen=True, kw_only=True)
class _ChosenCosts:
    """Largest costs of a fit that chooses its marginals, in zCDP.

    ``required_sets`` lists, for each marginal that may be chosen, the attributes that a row must
    have observed to be counted. An empty set reads every row. Each of several marginals with equal
    sets counts.
    """

    every_row: float = 0.0  # cost of releases that read every row, without selections
    selections: float = 0.0  # largest cost of the selections
    unselected: float = 0.0  # cost of marginals that spend the budget of the selections
    fixed: Mapping[str, float] = field(default_factory=dict)  # cost by one required attribute
    chosen: float = 0.0  # cost of the chosen marginals
    required_sets: Iterable[Iterable[str]] = ()
    largest_share: float = 1.0  # largest share of ``chosen`` of one marginal, on any path

    def __post_init__(self) -> None:
        if (self.chosen > 0 or self.unselected > 0) and not self.counted:
            raise ParameterError("required_sets is empty: state the sets that may be chosen")

    @cached_property
    def counted(self) -> Counter[frozenset[str]]:
        """Number of marginals with each required set."""
        return Counter(map(frozenset, self.required_sets))


def chosen_costs(
    events: Sequence[Event],
    structure: ChosenRequirements,
    observed: Mapping[str, float] | None = None,
) -> _ChosenCosts:
    """Return the costs of events in zCDP, by who chose their required attributes.

    A fixed event with several required attributes counts for the attribute that is ``observed``
    least. A cap in Gaussian DP of mu squared bounds zCDP by half of it, and selections by less
    (docs/referees/proofs.md).

    Parameters
    ----------
    events : sequence of Event
        Caps of the parts of a fit.
    structure : ChosenRequirements
        The family of sets, and the labels of events.
    observed : mapping of str to float, optional
        Probabilities of being observed.

    Returns
    -------
    _ChosenCosts
        Public costs.
    """
    totals: dict[str, float] = defaultdict(float)
    fixed: dict[str, float] = defaultdict(float)
    rates = observed or {}
    for event in flatten(events):
        rho = zcdp_rho_of(event)
        if event.label == structure.chosen:
            totals["chosen"] += rho
        elif event.label == structure.selections and not event.required:
            totals["unselected"] += rho
            totals["selections"] += min(rho, _selected(event))
        elif event.required:
            fixed[min(event.required, key=lambda a: (rates.get(a, 1.0), a))] += rho
        else:
            totals["every_row"] += rho
    share = structure.largest_share
    return _ChosenCosts(**totals, fixed=fixed, required_sets=structure.among, largest_share=share)


def _selected(cap: Event) -> float:
    """Return the zCDP cost of selections within a cap in Gaussian DP."""
    if not isinstance(cap, GaussianEvent):
        return math.inf
    squared = float_up(gdp_cost(cap))
    return (gdp_selection(squared) * (1 + 1e-9)) ** 2 / 8


def chosen_epsilon(costs: _ChosenCosts, delta: float, observed: Mapping[str, float]) -> float:
    """Return the amplified epsilon at ``delta``, by the best of `CHOSEN_ORDERS`.

    Parameters
    ----------
    costs : _ChosenCosts
        Costs of the parts.
    delta : float
        Target δ. The result is infinite at 0.
    observed : mapping of str to float
        Probabilities of being observed.

    Returns
    -------
    float
        At least 0.
    """
    if delta <= 0:
        return math.inf

    @cache
    def value(place: int) -> float:
        order = CHOSEN_ORDERS[place : place + 1]
        curve = _chosen_curve(costs, observed, orders=order)
        return epsilon_from_rdp(order.astype(float), curve, delta)

    best = min(range(0, len(CHOSEN_ORDERS), 8), key=value)
    for step in (4, 2, 1):  # closer and closer to the best order
        near = (best - step, best, best + step)
        best = min((p for p in near if 0 <= p < len(CHOSEN_ORDERS)), key=value)
    return value(best)


def _chosen_curve(
    costs: _ChosenCosts, observed: Mapping[str, float], *, orders: Ints = CHOSEN_ORDERS
) -> Floats:
    """Return the amplified Rényi divergence at each integer order, at least 2."""
    rates = _rounded(check_observed(observed))
    return np.array([_at_order(costs, rates, int(n)) for n in orders]) * _OUTWARD


def _at_order(costs: _ChosenCosts, observed: Mapping[str, float], n: int) -> float:
    """Return the larger of both directions at one order."""
    k = np.arange(n + 1)
    twice = (k * (k - 1)).astype(np.float64)
    # Attributes of one rate and one cost form a class: weighted distribution of k_a, log E Π w.
    names = frozenset(costs.fixed).union(*costs.counted)
    kinds = {name: (observed.get(name, 1.0), costs.fixed.get(name, 0.0)) for name in sorted(names)}
    log_weighted = {kind: _log_binomial(n, kind[0]) + kind[1] * twice for kind in kinds.values()}
    means = {kind: float(logsumexp(logs)) for kind, logs in log_weighted.items()}
    distributions = {kind: np.exp(logs - means[kind]) for kind, logs in log_weighted.items()}
    log_weight = max(0.0, math.fsum(means[kinds[name]] for name in costs.fixed))
    # Steps of log g. The cap of the selections is spent in the worst way for each k.
    height = costs.chosen * twice
    height += np.maximum(costs.selections * twice[-1], costs.unselected * twice)
    reached = _reached(costs, kinds, distributions, n)
    with np.errstate(divide="ignore"):
        terms = height[2:] + np.log(-np.expm1(np.minimum(height[1:-1] - height[2:], 0.0)))
        # Terms are relative to 1, so that rounding does not lose small costs.
        mean = np.logaddexp(height[1], logsumexp(terms + np.log(reached[2:])))
    forth = n * costs.every_row + (log_weight + float(mean)) / (n - 1)
    return max(forth, _backwards(costs, observed, n))


def _backwards(costs: _ChosenCosts, observed: Mapping[str, float], n: int) -> float:
    def amplified(cost: float, p: float) -> float:
        return cost * p * (1 + (n - 1) * p)

    p = max((observation_probability(r, observed) for r in costs.counted), default=0.0)
    chosen = amplified(costs.chosen, p) + max(n * costs.selections, amplified(costs.unselected, p))
    fixed = (amplified(cost, observed.get(name, 1.0)) for name, cost in costs.fixed.items())
    return n * costs.every_row + chosen + math.fsum(fixed)


# The class of an attribute: its rate and cost, which determine the number of observed copies.
_Class = tuple[float, float]


def _reached(
    costs: _ChosenCosts, kinds: Mapping[str, _Class], distributions: Mapping[_Class, Floats], n: int
) -> Floats:
    """Return, for each k, a bound on the chance that k copies observe one set."""
    alike: Counter[tuple[_Class, ...]] = Counter()
    for required, times in costs.counted.items():
        alike[tuple(sorted(kinds[name] for name in required))] += times
    by_group: dict[tuple[_Class, ...], Floats] = {}

    def distribution(group: tuple[_Class, ...]) -> Floats:
        if not group:
            return np.asarray(np.eye(1, n + 1, n)[0])  # an empty set is observed in every copy
        if group not in by_group:
            last = distributions[group[-1]]
            rest = group[:-1]
            by_group[group] = distribution(rest) @ _meeting(n, tuple(last)) if rest else last
        return by_group[group]

    bound = np.zeros(n + 1)
    for group, times in alike.items():
        bound += times * np.cumsum(distribution(group)[::-1])[::-1]
    return np.asarray(np.minimum(1.0, costs.largest_share * bound * _OUTWARD))


@lru_cache(maxsize=_CLASSES)
def _meeting(n: int, distribution: tuple[float, ...]) -> Floats:
    """Return the chances that i of n copies meet a random set k times, by its size distribution."""
    j = np.arange(n + 1)
    chances = np.zeros((n + 1, n + 1))
    weights = np.array(distribution)
    for i in range(n + 1):
        k = np.arange(i + 1)
        # Hypergeometric: k of the j copies are among the i.
        logs = _log_choose(i, k)[None, :] + _log_choose(n - i, j[:, None] - k[None, :])
        logs -= _log_choose(n, j)[:, None]
        chances[i, : i + 1] = weights @ np.exp(logs)
    return chances


def _log_choose(n: int, k: Ints) -> Floats:
    inside = (k >= 0) & (k <= n)
    safe = np.clip(k, 0, n)
    logs = gammaln(n + 1) - gammaln(safe + 1) - gammaln(n - safe + 1)
    return np.where(inside, logs, -np.inf)


def _log_binomial(n: int, p: float) -> Floats:
    from scipy.stats import binom

    return np.asarray(binom.logpmf(np.arange(n + 1), n, p))


def _rounded(observed: dict[str, float]) -> dict[str, float]:
    """Round rates up to a grid if there are very many, since larger rates cost more."""
    if len(set(observed.values())) <= _CLASSES:
        return observed
    return {a: min(1.0, math.ceil(p * _CLASSES) / _CLASSES) for a, p in observed.items()}
