"""The mask-mixture bound: privacy for the ground truth when masks are independent (MCAR)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from missdp.errors import ParameterError
from missdp.ground_truth.bounds import amplified_epsilon
from missdp.ground_truth.elimination import log_expectation, min_fill_order
from missdp.ground_truth.gates import (
    FactorGraph,
    Gate,
    check_epsilons,
    check_observed,
    factor_graph,
    gate_probability,
)

__all__ = ["MaskMixture", "mask_mixture"]

TREEWIDTH_LIMIT = 20
"""Default largest width of an elimination order: tables of at most 2^21 cells (16 MiB)."""

_OUTWARD = 1e-12
"""Added to a computed epsilon, so that rounding never turns an upper bound into a lower one."""


@dataclass(frozen=True, kw_only=True)
class MaskMixture:
    """An (ε̄, δ̄) bound for the ground truth, and whether it is the exact mask mixture.

    Attributes
    ----------
    epsilon, delta : float
        The bound. Always valid, exact or not.
    exact : bool
        False when the factor graph was too wide and some gates were replaced by subsets.
    relaxed : tuple of str
        The attributes that were then treated as always observed; empty when ``exact``.
    width : int
        Width of the elimination order that was used.

    Examples
    --------
    >>> bound = mask_mixture([{"a"}], [1.0], observed={"a": 0.5})
    >>> bound.exact, bound.relaxed
    (True, ())
    """

    epsilon: float
    delta: float
    exact: bool
    relaxed: tuple[str, ...]
    width: int


def mask_mixture(
    gates: Sequence[Gate],
    epsilons: Sequence[float],
    deltas: Sequence[float] | None = None,
    *,
    observed: Mapping[str, float],
    treewidth_limit: int = TREEWIDTH_LIMIT,
) -> MaskMixture:
    r"""Bound the privacy loss for the ground truth of gated mechanisms under MCAR.

    Mechanism j reads a row only if all attributes of gate S_j are observed in it, and is
    (ε_j, δ_j)-DP under add-remove adjacency. With independent masks of known observed
    probabilities π, and ε(m) = Σ_j ε_j·1[S_j observed in mask m], the composition is (ε̄, δ̄)-DP
    for the ground truth with

        ε̄ = log E_m[exp ε(m)],   δ̄ = E_m[δ(m)] = Σ_j δ_j·Π_{a ∈ S_j} π_a.

    Parameters
    ----------
    gates : sequence of (collection of str, or None)
        S_j. Fixed in advance: not chosen by looking at the data. ``None``: every row is read.
    epsilons : sequence of float
        ε_j >= 0, one for each gate.
    deltas : sequence of float, optional
        δ_j in [0, 1]; all zero by default.
    observed : mapping of str to float
        π_a in [0, 1], or upper bounds on it (the result rises with every π_a). Attributes that
        are not named count as always observed.
    treewidth_limit : int
        Widest elimination allowed. Beyond it some attributes are treated as always observed,
        which replaces gates by subsets and is an upper bound; the result then says so.

    Returns
    -------
    MaskMixture

    Raises
    ------
    ParameterError
        If a parameter is out of its range or lengths differ.

    Notes
    -----
    Guarantee: add-remove adjacency of the table before values went missing. It needs masks that
    are independent across rows and attributes and of the values, and gates fixed in advance. The
    mechanisms may be composed adaptively, and may read other parts of the row and its mask, once
    the gate is open. For replace-one adjacency double the result, do not put replace-one epsilons
    in.

    Why it holds. Fix everything about the other rows. With the row present the output law is a
    mixture over its mask m of laws P_m; with the row absent it is Q. Basic composition over the
    mechanisms that read the row gives P_m <= e^{ε(m)} Q + δ(m), whose average over m is one
    direction. The other starts from P_m >= e^{-ε(m)} (Q - δ(m)) and solves the averaged
    inequality for Q: Jensen's inequality turns 1/E[e^{-ε}] into at most E[e^{ε}], and since
    e^{-ε(m)} falls and δ(m) rises with the observed set, Harris' inequality for product measures
    bounds E[e^{-ε} δ]/E[e^{-ε}] by E[δ]. Averaging over the other rows' masks keeps both.

    The bound sharpens Theorem 5.6 and Algorithm 4 of Mohapatra et al. (PVLDB 2024). For pure
    mechanisms that attain their ε_j the bound is attained.

    Examples
    --------
    The running example of the paper: State, Occupation, Gender, and Gender x Income, each at 1/4.

    >>> bound = mask_mixture(
    ...     [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}],
    ...     [0.25] * 4,
    ...     observed={"State": 0.75, "Gender": 0.75, "Income": 0.75},
    ... )
    >>> round(bound.epsilon, 6), bound.exact
    (0.792473, True)
    """
    costs = check_epsilons(epsilons, count=len(gates))
    slips = check_epsilons(
        [0.0] * len(gates) if deltas is None else deltas, count=len(gates), name="deltas"
    )
    if any(slip > 1.0 for slip in slips):
        raise ParameterError("deltas must be at most 1")
    if treewidth_limit < 1:
        raise ParameterError("treewidth_limit must be at least 1")
    rates = check_observed(observed)
    delta = math.fsum(
        slip * gate_probability(gate, rates) for gate, slip in zip(gates, slips, strict=True)
    )
    graph = factor_graph(gates, costs, rates)
    graph, relaxed = _fit(graph, rates, treewidth_limit)
    elimination = min_fill_order(graph.scopes)
    mixture = log_expectation(graph.scopes, graph.weights, graph.observed, elimination.order)
    epsilon = graph.constant + mixture + (_OUTWARD if graph.scopes else 0.0)
    return MaskMixture(
        epsilon=min(epsilon, _hoelder(gates, costs, rates), math.fsum(costs)),
        delta=min(delta, 1.0),
        exact=not relaxed,
        relaxed=relaxed,
        width=elimination.width,
    )


def _fit(
    graph: FactorGraph, rates: Mapping[str, float], limit: int
) -> tuple[FactorGraph, tuple[str, ...]]:
    """Treat attributes as always observed, cheapest first, until the width is within ``limit``."""
    dropped: list[str] = []
    while (elimination := min_fill_order(graph.scopes)).width > limit:
        victim = min(elimination.widest, key=lambda v: (_loss(graph, v), graph.names[v]))
        dropped.extend(graph.names[victim])
        gates = [
            frozenset(name for v in scope if v != victim for name in graph.names[v])
            for scope in graph.scopes
        ]
        smaller = factor_graph(gates, graph.weights, rates)
        graph = FactorGraph(
            constant=graph.constant + smaller.constant,
            names=smaller.names,
            observed=smaller.observed,
            scopes=smaller.scopes,
            weights=smaller.weights,
        )
    return graph, tuple(sorted(dropped))


def _loss(graph: FactorGraph, variable: int) -> float:
    """Estimate how much amplification is lost with a variable; it only steers the choice."""
    used = math.fsum(
        weight
        for scope, weight in zip(graph.scopes, graph.weights, strict=True)
        if variable in scope
    )
    return (1.0 - graph.observed[variable]) * used


def _hoelder(gates: Sequence[Gate], epsilons: Sequence[float], rates: Mapping[str, float]) -> float:
    """Bound the mixture by Hölder's inequality; it can only help where gates were relaxed."""
    total = math.fsum(epsilons)
    if total == 0.0:
        return 0.0
    return _OUTWARD + math.fsum(
        epsilon / total * amplified_epsilon(gate_probability(gate, rates), total)
        for gate, epsilon in zip(gates, epsilons, strict=True)
    )
