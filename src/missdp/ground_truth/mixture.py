"""The mask-mixture bound: privacy for the ground truth when masks are independent (MCAR).

The bound is log E[exp Σ_j w_j·1{all variables of gate j are 1}] for independent binary variables,
one for each attribute. Gates are reduced to the smallest problem with the same answer, over small
integers instead of names, and variables are eliminated in log space: the cost is exponential in
the width of the elimination order, not in the number of variables.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from missdp.errors import ParameterError
from missdp.ground_truth.gates import (
    Gate,
    as_gate,
    check_epsilons,
    check_observed,
    gate_probability,
)
from missdp.ground_truth.one_gate import amplified_epsilon

__all__ = [
    "EliminationOrder",
    "FactorGraph",
    "MaskMixture",
    "factor_graph",
    "log_expectation",
    "mask_mixture",
    "min_fill_order",
]


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
    r"""Return a bound on the loss of gated mechanisms when cells go missing completely at random.

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

    The bound sharpens Theorem 5.6 and Algorithm 4 of Mohapatra et al. (2024). For pure
    mechanisms that attain their ε_j the bound is attained.

    Examples
    --------
    The running example of Mohapatra et al.: State, Occupation, Gender, Gender x Income, at 1/4.

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


@dataclass(frozen=True, kw_only=True)
class FactorGraph:
    """The reduced problem: binary variables that are 1 when observed, and AND-shaped factors.

    Attributes
    ----------
    constant : float
        Sum of the epsilons of mechanisms that read every row.
    names : tuple of tuple of str
        The attributes behind each variable: those that occur in exactly the same gates are one.
    observed : tuple of float
        Probability that each variable is 1, strictly between 0 and 1.
    scopes : tuple of frozenset of int
        Distinct, non-empty gates over the variables.
    weights : tuple of float
        Summed epsilon of the mechanisms that share each scope.

    Examples
    --------
    >>> graph = factor_graph([{"a", "b"}, None], [0.5, 0.25], {"a": 0.5, "b": 0.5})
    >>> graph.constant, graph.names, graph.observed
    (0.25, (('a', 'b'),), (0.25,))
    """

    constant: float
    names: tuple[tuple[str, ...], ...]
    observed: tuple[float, ...]
    scopes: tuple[frozenset[int], ...]
    weights: tuple[float, ...]

    @property
    def total(self) -> float:
        """Cost with nothing missing."""
        return self.constant + math.fsum(self.weights)


def factor_graph(
    gates: Sequence[Gate], epsilons: Sequence[float], observed: Mapping[str, float]
) -> FactorGraph:
    """Reduce gated mechanisms to the smallest factor graph with the same mask mixture.

    Attributes that are always observed drop out, a mechanism gated by an attribute that is never
    observed drops out whole, mechanisms with the same gate are summed, and attributes that occur
    in exactly the same gates become one variable (they can only act together).

    Examples
    --------
    >>> factor_graph([{"a"}, {"a"}], [0.5, 0.5], {"a": 0.75}).weights
    (1.0,)
    """
    rates = check_observed(observed)
    constant = 0.0
    weight_of: defaultdict[frozenset[str], float] = defaultdict(float)
    for gate, epsilon in zip(gates, epsilons, strict=True):
        live = frozenset(name for name in as_gate(gate) if rates.get(name, 1.0) < 1.0)
        if any(rates[name] == 0.0 for name in live):
            continue
        if live:
            weight_of[live] += epsilon
        else:
            constant += epsilon
    ordered = sorted(weight_of, key=lambda gate: (len(gate), sorted(gate)))
    uses: defaultdict[str, list[int]] = defaultdict(list)
    for index, gate in enumerate(ordered):
        for name in gate:
            uses[name].append(index)
    alike: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for name in sorted(uses):
        alike[tuple(uses[name])].append(name)
    names = tuple(tuple(group) for group in alike.values())
    scopes: list[set[int]] = [set() for _ in ordered]
    for variable, where in enumerate(alike):
        for index in where:
            scopes[index].add(variable)
    return FactorGraph(
        constant=constant,
        names=names,
        observed=tuple(math.prod(rates[name] for name in group) for group in names),
        scopes=tuple(frozenset(scope) for scope in scopes),
        weights=tuple(weight_of[gate] for gate in ordered),
    )


_Table = tuple[tuple[int, ...], npt.NDArray[np.float64]]


@dataclass(frozen=True, kw_only=True)
class EliminationOrder:
    """An order of elimination and what it costs.

    Attributes
    ----------
    order : tuple of int
        Variables, first eliminated first.
    width : int
        Largest number of neighbours of a variable at the moment it is eliminated; the largest
        table has ``2 ** (width + 1)`` cells. An upper bound on the treewidth.
    widest : frozenset of int
        The variables of that largest table.

    Examples
    --------
    >>> min_fill_order([frozenset({0, 1}), frozenset({1, 2})]).width
    1
    """

    order: tuple[int, ...]
    width: int
    widest: frozenset[int]


def min_fill_order(scopes: Sequence[frozenset[int]]) -> EliminationOrder:
    """Order variables greedily by the number of edges their elimination adds.

    Ties go to the smaller degree, then to the smaller variable, so the order is reproducible.
    Disconnected components never meet in a table, so they need no separate treatment.

    Examples
    --------
    >>> triangle = [frozenset({0, 1}), frozenset({1, 2}), frozenset({0, 2})]
    >>> min_fill_order(triangle).width
    2
    """
    neighbours: dict[int, set[int]] = {variable: set() for scope in scopes for variable in scope}
    for scope in scopes:
        for variable in scope:
            neighbours[variable] |= scope - {variable}
    order: list[int] = []
    width, widest = 0, frozenset[int]()
    fill = {variable: _fill_in(variable, neighbours) for variable in neighbours}
    while neighbours:
        chosen = min(neighbours, key=lambda v: (fill[v], len(neighbours[v]), v))
        around = neighbours.pop(chosen)
        if len(around) >= width:
            width, widest = len(around), frozenset(around | {chosen})
        for variable in around:
            neighbours[variable] |= around
            neighbours[variable] -= {variable, chosen}
        # Only pairs at distance one or two from the eliminated variable can change their fill-in.
        touched = set(around).union(*(neighbours[v] for v in around))
        for variable in touched:
            fill[variable] = _fill_in(variable, neighbours)
        order.append(chosen)
    return EliminationOrder(order=tuple(order), width=width, widest=widest)


def _fill_in(variable: int, neighbours: Mapping[int, set[int]]) -> int:
    around = neighbours[variable]
    missing = sum(len(around - neighbours[other]) - 1 for other in around)
    return missing // 2


def log_expectation(
    scopes: Sequence[frozenset[int]],
    weights: Sequence[float],
    observed: Sequence[float],
    order: Sequence[int],
) -> float:
    """Evaluate log E[exp Σ_j w_j·1{scope j all ones}] by eliminating variables in ``order``.

    Parameters
    ----------
    scopes : sequence of frozenset of int
        Variables of each factor, non-empty.
    weights : sequence of float
        Log of each factor where all its variables are 1; elsewhere the factor is 1.
    observed : sequence of float
        Probability that each variable is 1, strictly inside (0, 1).
    order : sequence of int
        Every variable that occurs in a scope, once.

    Returns
    -------
    float
        The log expectation, to floating-point accuracy.

    Examples
    --------
    >>> import math
    >>> value = log_expectation([frozenset({0})], [1.0], [0.5], [0])
    >>> math.isclose(value, math.log(0.5 + 0.5 * math.e))
    True
    """
    position = {variable: place for place, variable in enumerate(order)}
    gates_of: dict[int, list[int]] = {variable: [] for variable in order}
    for index, scope in enumerate(scopes):
        gates_of[min(scope, key=position.__getitem__)].append(index)
    messages: dict[int, list[_Table]] = {variable: [] for variable in order}
    total = 0.0
    for variable in order:
        gates = [(scopes[index], weights[index]) for index in gates_of[variable]]
        rest, table = _eliminate(variable, gates, messages.pop(variable), observed[variable])
        if rest:
            messages[min(rest, key=position.__getitem__)].append((rest, table))
        else:
            total += float(table)
    return total


def _eliminate(
    variable: int,
    gates: Sequence[tuple[frozenset[int], float]],
    messages: Sequence[_Table],
    probability: float,
) -> _Table:
    """Multiply the factors that hold ``variable`` and sum it out; all in log space."""
    union = set().union(*(scope for scope, _ in gates), *(scope for scope, _ in messages))
    rest = tuple(sorted(union - {variable}))
    axes = {name: axis for axis, name in enumerate((variable, *rest))}
    table = np.zeros((2,) * (len(rest) + 1))
    for names, message in messages:
        places = [axes[name] for name in names]
        shape = [1] * table.ndim
        for place in places:
            shape[place] = 2
        table += message.transpose(np.argsort(places)).reshape(shape)
    for scope, weight in gates:
        corner: list[int | slice] = [slice(None)] * table.ndim
        for name in scope:
            corner[axes[name]] = 1
        table[tuple(corner)] += weight
    summed = np.logaddexp(table[0] + np.log1p(-probability), table[1] + np.log(probability))
    return rest, summed
