"""Variable elimination for expectations of products of AND-shaped factors, in log space.

The quantity is log E[exp Σ_j w_j·1{all variables of scope j are 1}] for independent binary
variables. Its cost is exponential in the width of the elimination order, not in their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["EliminationOrder", "log_expectation", "min_fill_order"]

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
