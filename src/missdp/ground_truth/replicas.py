r"""Amplification of Rényi divergences by many gates that have no attribute in common.

Let rows lose the values of different attributes independently, attribute ``a`` being observed with
probability ``p_a``. Let releases follow one another, each chosen from the outputs before it, and
each read a row only if a certain attribute of it is observed (or read every row). What it then
computes may depend on the whole row, on which of its other cells are missing too. Let ``D_k`` bound
the Rényi divergence of order ``k``, in both directions, that all releases behind attribute ``a``
have together, ``R_a(k)``, and likewise ``R(k)`` of those that read every row.

**Present against absent**, at an integer order ``n >= 2``. Write Q for the law of the outputs
without the row, and ``Z_m`` for the likelihood ratio, to Q, of the law with the row when its mask
is m. The law with the row is the mixture, so that its ratio is ``L = E_m Z_m`` and

    E_Q L^n = E_{m_1, ..., m_n} E_Q Z_{m_1} ··· Z_{m_n},        m_i independent copies of the mask.

Given the n masks, a release behind attribute ``a`` multiplies the product by k ratios, ``k = k_a``
the number of masks in which ``a`` is observed. Given the outputs before it, the mean under Q of a
product of k ratios is at most ``exp((k - 1) D_k)`` by Hölder's inequality, and 1 for k of 0 or 1.
So the product, divided by these bounds, is a supermartingale, and since the ``k_a`` are independent
binomial numbers,

    (n - 1) D_n  <=  (n - 1) R(n) + Σ_a log E exp((k_a - 1)⁺ R_a(k_a)),     k_a ~ Binomial(n, p_a).

**Absent against present.** By the inequality of weighted means ``L >= Π_m Z_m^{P(m)}``. With ``s =
n - 1``, ``E_Q L^{-s}`` is at most the mean of ``Π_m Z_m^{-s P(m)}``, to which a release behind
``a`` contributes ratios with exponents that add up to ``-s p_a``: at most ``exp(s p_a D_{1 + s
p_a}(Q || present))`` by Hölder's inequality again. So

    D_n  <=  R(n) + Σ_a p_a R_a(1 + (n - 1) p_a).

Adaptive choice of the releases costs nothing as long as the bounds ``R_a(k)`` hold on every path:
caps of privacy filters at one order ``n`` do, and bound every lower order as well. A release that
needs several attributes may be counted behind any one of them, and sets of attributes, of which no
two overlap, take the place of single ones. (The replica method is that of statistical physics,
where moments of a mixture are those of independent copies.)
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from missdp.accounting.costs import rdp_curve
from missdp.accounting.events import Event
from missdp.accounting.exact import epsilon_from_rdp

__all__ = ["ORDERS", "replica_curve", "replica_epsilon"]

Floats = NDArray[np.float64]
Block: TypeAlias = frozenset[str]

_EVERY_ROW: Block = frozenset()

ORDERS = np.array([*range(2, 65), *range(68, 129, 4), *range(136, 257, 8), *range(272, 513, 16)])
"""Integer orders at which the bound is computed."""
_LEAST_ORDER = 1.01
_OUTWARD = 1 + 1e-9  # floating-point sums of a few hundred terms are off by far less


def replica_epsilon(events: Sequence[Event], delta: float, observed: Mapping[str, float]) -> float:
    """Return the amplified epsilon at ``delta``; infinite if no order proves one.

    Parameters
    ----------
    events : sequence of Event
        Elementary add-remove events with Rényi bounds, whose gates were fixed in advance.
    delta : float
        Above 0.
    observed : mapping of str to float
        Probability that each attribute is observed; 1 for those that are not named.

    Examples
    --------
    >>> from missdp.accounting import RDPEvent
    >>> heads = [RDPEvent(orders=(16.0,), epsilons=(0.2,), gate={name}) for name in "abc"]
    >>> plain = replica_epsilon(heads, 1e-6, {})
    >>> half = replica_epsilon(heads, 1e-6, dict.fromkeys("abc", 0.5))
    >>> round(plain, 2), round(half, 2)
    (1.27, 0.97)
    """
    curve = replica_curve(events, observed)
    known = np.isfinite(curve)
    if not known.any():
        return np.inf
    return epsilon_from_rdp(ORDERS[known].astype(float), curve[known], delta)


def replica_curve(events: Sequence[Event], observed: Mapping[str, float]) -> Floats:
    """Return the amplified Rényi divergence at each of `ORDERS`; infinite where none is proven.

    Parameters
    ----------
    events, observed
        See `replica_epsilon`.

    Examples
    --------
    >>> from missdp.accounting import ZCDPEvent
    >>> gated = [ZCDPEvent(rho=0.02, gate={"a"})]
    >>> curve = replica_curve(gated, {"a": 0.5})
    >>> bool((curve < 0.02 * ORDERS).all()), bool((curve > 0.5 * 0.02).all())
    (True, True)
    """
    every = np.arange(1, ORDERS[-1] + 1)  # the first is no order: one copy tells nothing
    behind: dict[Block, list[Event]] = defaultdict(list)
    for event, block in zip(events, _blocks(events, observed), strict=True):
        behind[block].append(event)
    forwards = backwards = _curve(behind.pop(_EVERY_ROW, []), ORDERS)
    alike: Counter[tuple[float, tuple[Event, ...]]] = Counter()
    for block, gated in behind.items():
        p = math.prod(observed[name] for name in block)
        alike[p, tuple(replace(event, label="", gate=None) for event in gated)] += 1
    for (p, those), times in alike.items():
        costs = np.append(0.0, _curve(those, every[1:]))
        moments = [_moment(costs[:n], int(n), p) / (n - 1) for n in ORDERS]
        forwards = forwards + times * np.array(moments)
        lower = np.maximum(1 + (ORDERS - 1) * p, _LEAST_ORDER)
        backwards = backwards + (times * p * _curve(those, lower) if p else 0.0)
    return np.asarray(np.maximum(forwards, backwards) * _OUTWARD)


def _curve(events: Sequence[Event], orders: NDArray[Any]) -> Floats:
    """Return the Rényi divergence that all have together, at each order."""
    found = np.zeros(len(orders))
    for event in events:
        found += rdp_curve(event, orders.astype(float))
    return found * _OUTWARD


def _blocks(events: Sequence[Event], observed: Mapping[str, float]) -> list[Block]:
    """Return behind what each event is counted: sets of attributes that have none in common.

    Its own gate, if no two gates overlap; else the attribute of it that is observed least.
    """
    gates = [frozenset(a for a in event.gate or () if observed.get(a, 1.0) < 1) for event in events]
    distinct = {gate for gate in gates if gate}
    if sum(map(len, distinct)) == len(frozenset().union(*distinct)):
        return gates
    return [
        frozenset([min(gate, key=lambda a: (observed[a], a))]) if gate else _EVERY_ROW
        for gate in gates
    ]


def _moment(costs: Floats, n: int, p: float) -> float:
    """Return log E exp((k - 1)⁺ R(k)) for k ~ Binomial(n, p)."""
    from scipy.special import gammaln, logsumexp

    if p == 0:
        return 0.0
    k = np.arange(n + 1)
    chance = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    chance += k * np.log(p) + (n - k) * np.log1p(-p)
    exponent = np.zeros(n + 1)
    exponent[2:] = k[1:-1] * costs[1:]
    # 1 is added to what exceeds it, so that small costs are not lost to rounding.
    return float(np.logaddexp(0.0, logsumexp(chance[2:] + _log_expm1(exponent[2:]))))


def _log_expm1(x: Floats) -> Floats:
    """Return log(exp(x) - 1)."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30.0))))
