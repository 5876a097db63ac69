r"""Amplification of marginals that the data chose, one after the other.

A fit measures one marginal after the other; which one is next, and with how much noise, depends on
what came out before. A row enters a marginal only if it is observed on its set of attributes, one
of a family of sets that is public. Three kinds of releases, each known by a cap on its zCDP cost
that holds on every path:

* *un-gated* ones, which read every row: at most ``u`` together;
* *fixed* ones, behind one attribute ``a`` each, at most ``f_a``, where cells go missing
  independently of each other;
* *chosen* ones, behind a set S of the family, at most ``c`` together.

**Present against absent**, at an integer order ``n >= 2``, as in `missdp.ground_truth.replicas`.
Write Q for the law of the outputs without the row, ``Z_m`` for the likelihood ratio, to Q, of the
law with the row when its mask is m. The law with the row is the mixture, its ratio ``L = E_m Z_m``,

    E_Q L^n = E_{m_1, ..., m_n} E_Q Z_{m_1} ··· Z_{m_n},        m_i independent copies of the mask.

Fix the n masks, and let ``k_S`` be how many of them observe all of S. Given the outputs before it,
a release of zCDP cost r behind S multiplies the product by ``k_S`` ratios (in the other copies it
does not read the row: ratio 1), whose mean under Q is at most ``exp(r k_S (k_S - 1))``: 1 for 0 or
1 ratios, whose means are 1; by Hölder's inequality for more. An un-gated release multiplies it by n
ratios: at most ``exp(r n (n - 1))``. So the product, divided by these bounds, is a supermartingale,
whatever is asked when; and what is divided by is at most

    exp(n (n - 1) u + Σ_a f_a k_a (k_a - 1) + c max_S k_S (k_S - 1))

on every path. This bounds the mean under Q given the masks, and averaging over the masks gives

    (n - 1) D_n <= n (n - 1) u + log E[ Π_a w_a(k_a) · g(max_S k_S) ],

with ``w_a(k) = exp(f_a k (k - 1))`` and ``g(k) = exp(c k (k - 1))``. The mean is a sum over ``k``
of the steps of g, ``E Π w + Σ_k (g(k) - g(k-1)) E[Π w · 1(max_S k_S >= k)]``, and the indicator is
at most 1 and at most ``Σ_S 1(k_S >= k)``. Weighted by ``Π w``, the numbers ``k_a`` are still
independent of each other, and given them, *which* copies observe an attribute is still uniform, so
that the law of ``k_S`` is a chain of hypergeometric ones.

*No set gets more than a share of c.* If on no path more than ``λ c`` is spent behind one set, then
the exponent is ``Σ_S v_S c k_S (k_S - 1)`` with weights ``v_S <= λ`` that add up to at most 1, its
exponential is at most ``Σ_S v_S g(k_S)`` by convexity, and the indicator becomes ``min(1, λ Σ_S
1(k_S >= k))``.

*Selections.* The cap of selections is a number of what the budget counts, and what they do not
spend of it may be spent on marginals: ``x`` of them then costs less un-gated zCDP and more behind
sets. The exponent is linear in ``x``, so it is at most what its larger end makes of it:
``max(u_s n (n - 1), c_s k (k - 1))``, with ``u_s`` the zCDP cost of the cap if it is all spent on
selections, and ``c_s`` if it is all spent on marginals.

**Absent against present.** By the inequality of weighted means ``L >= Π_m Z_m^{P(m)}``. With ``s =
n - 1`` (any real s > 0), ``E_Q L^{-s}`` is at most the mean of ``Π_m Z_m^{-s P(m)}``, to which a
release behind S contributes ratios with exponents that add up to ``-s p_S``: at most ``exp(s p_S (1
+ s p_S) r)`` by Hölder's inequality and ``E_Q l^{-t} <= exp(t (t + 1) r)``. Divided by s,

    D_n <= n u + Σ_a f_a p_a (1 + s p_a) + c p (1 + s p),        p = max_S p_S.

**What is false.** All sets behind *one* gate of probability ``max_S p_S`` (or a gate of that
probability for each release): an adversary who asks for the set that earlier answers made likely
gains more. Figures of this module do not add up: several fits of one table see one draw of the
masks, so their caps are added before (`missdp.ground_truth.replicas` is the theorem for gates that
are fixed).
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from missdp.accounting.costs import gdp_cost, gdp_selection, zcdp_rho_of
from missdp.accounting.events import Event, GaussianEvent, flatten
from missdp.accounting.exact import epsilon_from_rdp, float_up
from missdp.errors import ParameterError
from missdp.ground_truth.gates import ChosenGates, check_observed, gate_probability

__all__ = ["ORDERS", "ChosenCosts", "chosen_costs", "chosen_curve", "chosen_epsilon"]

Floats = NDArray[np.float64]

ORDERS = np.array([*range(2, 33), *range(34, 65, 2), *range(68, 129, 6), *range(136, 201, 16)])
"""Integer orders at which the bound may be computed."""
_OUTWARD = 1 + 1e-9  # floating-point sums of a few hundred terms are off by far less
_CLASSES = 24  # of rates; more are rounded up to a grid, for which the bound is no smaller


@dataclass(frozen=True, kw_only=True)
class ChosenCosts:
    """What a fit that chooses its marginals costs at most, in zCDP; see the module.

    Parameters
    ----------
    ungated : float
        Of everything that reads every row, but for the selections.
    selections : float
        Of the selections, if they spend all that they may.
    unselected : float
        Of marginals, if they spend what the selections may.
    fixed : mapping of str to float
        Of what is behind one attribute, fixed in advance.
    chosen : float
        Of the marginals that are chosen.
    gates : iterable of set of str
        The family: attributes that a row must have observed to enter each marginal that may be
        chosen. An empty one reads every row. Marginals with equal gates count each.
    largest_share : float
        No marginal gets more than this share of ``chosen``, on any path.

    Examples
    --------
    >>> costs = ChosenCosts(chosen=0.02, gates=[{"a", "b"}, {"b", "c"}])
    >>> round(chosen_epsilon(costs, 1e-6, dict.fromkeys("abc", 0.5)), 2)
    0.3
    """

    ungated: float = 0.0
    selections: float = 0.0
    unselected: float = 0.0
    fixed: Mapping[str, float] | None = None
    chosen: float = 0.0
    gates: Iterable[Iterable[str]] = ()
    largest_share: float = 1.0

    @cached_property
    def counted(self) -> dict[frozenset[str], int]:
        """How many marginals each gate has."""
        return dict(Counter(map(frozenset, self.gates)))

    def __post_init__(self) -> None:
        object.__setattr__(self, "fixed", dict(self.fixed or {}))
        object.__setattr__(self, "gates", tuple(map(frozenset, self.gates)))
        if not 0 < self.largest_share <= 1:
            raise ParameterError("largest_share must be above 0 and at most 1")
        if (self.chosen > 0 or self.unselected > 0) and not self.counted:
            raise ParameterError("a family of sets is needed for what may be chosen")


def chosen_costs(
    events: Sequence[Event], structure: ChosenGates, observed: Mapping[str, float] | None = None
) -> ChosenCosts:
    """Return what events cost in zCDP, by who chose their gates.

    What is behind several attributes, and was fixed, counts behind the one that is ``observed``
    least.

    A cap in Gaussian DP of ``mu`` squared bounds zCDP by half as much, whatever the releases: what
    is mu-GDP can be made of one answer of the Gaussian mechanism, and post-processing increases no
    Rényi divergence. Selections cost less. One of ``epsilon`` is ``epsilon² / 8``-zCDP, and has
    ``mu² = 4 h(epsilon / 2)²``, where ``h`` is concave beyond 0 (see ``costs``), so that
    their quotient rises with ``epsilon``: none has a larger one than one that spends the whole cap.

    Examples
    --------
    >>> from missdp.accounting import FilterEvent, GaussianEvent
    >>> capacity = GaussianEvent(sensitivity=0.1, sigma=1.0, discrete=False)
    >>> label = ChosenGates.selections
    >>> found = chosen_costs(
    ...     [FilterEvent(capacity=capacity, label=label)], ChosenGates(among=[("a", "b")])
    ... )
    >>> round(found.selections, 5), round(found.unselected, 5)
    (0.00318, 0.005)
    """
    ungated, selections, unselected, chosen = 0.0, 0.0, 0.0, 0.0
    rates = observed or {}
    fixed: dict[str, float] = defaultdict(float)
    for event in flatten(events):
        rho = zcdp_rho_of(event)
        if event.label == structure.chosen:
            chosen += rho
        elif event.label == structure.selections and not event.gate:
            unselected += rho
            selections += min(rho, _selected(event))
        elif event.gate:
            fixed[min(event.gate, key=lambda a: (rates.get(a, 1.0), a))] += rho
        else:
            ungated += rho
    return ChosenCosts(
        ungated=ungated,
        selections=selections,
        unselected=unselected,
        fixed=fixed,
        chosen=chosen,
        gates=structure.among,
        largest_share=structure.largest_share,
    )


def _selected(cap: Event) -> float:
    """Return the zCDP cost of selections within a cap in Gaussian DP."""
    if not isinstance(cap, GaussianEvent):
        return math.inf
    squared = float_up(gdp_cost(cap))
    return (gdp_selection(squared) * (1 + 1e-9)) ** 2 / 8


def chosen_epsilon(costs: ChosenCosts, delta: float, observed: Mapping[str, float]) -> float:
    """Return the amplified epsilon at ``delta``, above 0; infinite if no order proves one.

    Parameters
    ----------
    costs : ChosenCosts
    delta : float
    observed : mapping of str to float
        Probability that each attribute is observed, independently of the others; 1 for those that
        are not named.

    Notes
    -----
    The best order is searched among `ORDERS`; any order proves its number.

    Examples
    --------
    >>> pairs = [{"a", "b"}, {"b", "c"}, {"a", "c"}]
    >>> costs = ChosenCosts(ungated=0.002, fixed={"a": 0.005}, chosen=0.02, gates=pairs)
    >>> found = [chosen_epsilon(costs, 1e-6, dict.fromkeys("abc", p)) for p in (1.0, 0.8, 0.5)]
    >>> [round(epsilon, 2) for epsilon in found]
    [1.06, 0.84, 0.49]
    """
    if delta <= 0:
        return math.inf
    known: dict[int, float] = {}

    def value(place: int) -> float:
        if place not in known:
            order = ORDERS[place : place + 1]
            curve = chosen_curve(costs, observed, orders=order)
            known[place] = epsilon_from_rdp(order.astype(float), curve, delta)
        return known[place]

    # The best of every eighth, then around the best so far, ever closer.
    step = 8
    best = min(range(0, len(ORDERS), step), key=value)
    while step > 1:
        step //= 2
        near = (best - step, best, best + step)
        best = min((p for p in near if 0 <= p < len(ORDERS)), key=value)
    return value(best)


def chosen_curve(
    costs: ChosenCosts, observed: Mapping[str, float], *, orders: NDArray[np.int64] = ORDERS
) -> Floats:
    """Return the amplified Rényi divergence at each integer order, at least 2.

    Parameters
    ----------
    costs, observed
        See `chosen_epsilon`.
    orders : ndarray of int

    Examples
    --------
    >>> costs = ChosenCosts(chosen=0.02, gates=[{"a"}, {"b"}])
    >>> curve = chosen_curve(costs, {"a": 0.5, "b": 0.5}, orders=np.array([2, 16]))
    >>> bool((curve < 0.02 * np.array([2, 16])).all())
    True
    """
    rates = _rounded(check_observed(observed))
    return np.array([_at_order(costs, rates, int(n)) for n in orders]) * _OUTWARD


def _at_order(costs: ChosenCosts, observed: Mapping[str, float], n: int) -> float:
    """Return the larger of both directions at one order."""
    from scipy.special import logsumexp

    k = np.arange(n + 1)
    twice = (k * (k - 1)).astype(np.float64)
    laws, log_weight = _tilted(costs, observed, n)
    # Steps of log g, in which the cap of the selections is spent as is worst for each k.
    height = costs.chosen * twice
    height += np.maximum(costs.selections * twice[-1], costs.unselected * twice)
    reached = _reached(costs, observed, laws, n)
    with np.errstate(divide="ignore"):
        terms = height[2:] + np.log(-np.expm1(np.minimum(height[1:-1] - height[2:], 0.0)))
        # 1 is added to what exceeds it, so that small costs are not lost to rounding.
        mean = np.logaddexp(height[1], logsumexp(terms + np.log(reached[2:])))
    forth = n * costs.ungated + (log_weight + float(mean)) / (n - 1)
    return max(forth, _backwards(costs, observed, n))


def _backwards(costs: ChosenCosts, observed: Mapping[str, float], n: int) -> float:
    fixed = costs.fixed or {}
    behind = [(cost, observed.get(name, 1.0)) for name, cost in fixed.items()]
    p = max((gate_probability(gate, observed) for gate in costs.counted), default=0.0)
    chosen = max(n * costs.selections, costs.unselected * p * (1 + (n - 1) * p))
    chosen += costs.chosen * p * (1 + (n - 1) * p)
    return n * costs.ungated + chosen + math.fsum(f * q * (1 + (n - 1) * q) for f, q in behind)


# An attribute's numbers of copies in which it is observed: their law is that of its class.
_Class = tuple[float, float]


def _tilted(
    costs: ChosenCosts, observed: Mapping[str, float], n: int
) -> tuple[dict[_Class, Floats], float]:
    """Return the laws of ``k_a``, weighted by ``w_a``, by class, and log E Π w."""
    from scipy.special import logsumexp

    fixed = costs.fixed or {}
    names = {*fixed, *(name for gate in costs.counted for name in gate)}
    laws: dict[_Class, Floats] = {}
    total, k = 0.0, np.arange(n + 1)
    for name, kind in _classes(names, fixed, observed).items():
        log_law = _log_binomial(n, kind[0]) + kind[1] * k * (k - 1)
        log_mean = float(logsumexp(log_law))
        laws[kind] = np.exp(log_law - log_mean)
        total += log_mean if name in fixed else 0.0
    return laws, max(0.0, total)


def _classes(
    names: Iterable[str], fixed: Mapping[str, float], observed: Mapping[str, float]
) -> dict[str, _Class]:
    return {name: (observed.get(name, 1.0), fixed.get(name, 0.0)) for name in sorted(names)}


def _reached(
    costs: ChosenCosts, observed: Mapping[str, float], laws: Mapping[_Class, Floats], n: int
) -> Floats:
    """Return, for each k, a bound on the chance that as many copies observe one set."""
    kinds = _classes({name for gate in costs.counted for name in gate}, costs.fixed or {}, observed)
    alike: Counter[tuple[_Class, ...]] = Counter()
    for gate, times in costs.counted.items():
        alike[tuple(sorted(kinds[name] for name in gate))] += times
    sure = np.eye(1, n + 1, n)[0]  # an empty set is observed in every copy
    laws_of: dict[tuple[_Class, ...], Floats] = {(): sure}

    def law(group: tuple[_Class, ...]) -> Floats:
        if group not in laws_of:
            both = law(group[:-1]) @ _meeting(n, tuple(laws[group[-1]]))
            laws_of[group] = laws[group[-1]] if len(group) == 1 else both
        return laws_of[group]

    found = np.zeros(n + 1)
    for group, times in alike.items():
        found += times * np.cumsum(law(group)[::-1])[::-1]
    return np.asarray(np.minimum(1.0, costs.largest_share * found * _OUTWARD))


@lru_cache(maxsize=_CLASSES)
def _meeting(n: int, law: tuple[float, ...]) -> Floats:
    """Return the chances that i copies meet a random set of copies k times: the set's size is j.

    Of ``n`` copies; by rows i and columns k.
    """
    j = np.arange(n + 1)
    found = np.zeros((n + 1, n + 1))
    weights = np.array(law)
    for i in range(n + 1):
        k = np.arange(i + 1)
        # Of the j copies, k are among the i: hypergeometric.
        logs = _log_choose(i, k)[None, :] + _log_choose(n - i, j[:, None] - k[None, :])
        logs -= _log_choose(n, j)[:, None]
        found[i, : i + 1] = weights @ np.exp(logs)
    return found


def _log_choose(n: int, k: NDArray[np.int64]) -> Floats:
    from scipy.special import gammaln

    inside = (k >= 0) & (k <= n)
    safe = np.clip(k, 0, n)
    logs = gammaln(n + 1) - gammaln(safe + 1) - gammaln(n - safe + 1)
    return np.where(inside, logs, -np.inf)


def _log_binomial(n: int, p: float) -> Floats:
    k = np.arange(n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        seen, unseen = k * np.log(p), (n - k) * np.log1p(-p)
    seen[0], unseen[-1] = 0.0, 0.0
    return np.asarray(_log_choose(n, k) + seen + unseen)


def _rounded(observed: dict[str, float]) -> dict[str, float]:
    """Round rates up to a grid if there are very many: what is observed more often costs more."""
    if len(set(observed.values())) <= _CLASSES:
        return observed
    return {a: min(1.0, math.ceil(p * _CLASSES) / _CLASSES) for a, p in observed.items()}
