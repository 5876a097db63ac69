"""Exact sums of products of factors over a few variables, by variable elimination.

Bucket elimination (Dechter 1999) in logarithms. Summing a variable out replaces all factors that
hold it by one factor over its neighbours. The order depends on the sets of variables alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from missdp.types import Clique, Floats

Step: TypeAlias = tuple[int, frozenset[int]]
"""A variable to sum out, and the variables of the resulting factor."""


def elimination_order(variables: int, scopes: Iterable[Clique]) -> list[Step]:
    """Return the order in which variables are summed out: the smallest resulting factor first.

    The first of several such variables is chosen. All variables have an equal number of levels, so
    levels are not counted.

    Parameters
    ----------
    variables : int
        The number of variables, which have the names 0, 1 and so on.
    scopes : iterable of tuple of int
        The variables of each factor.

    Returns
    -------
    list of (int, frozenset of int)
        All variables, each with its remaining neighbours when it is summed out.

    Examples
    --------
    >>> from missdp.ground_truth.elimination import elimination_order
    >>> elimination_order(3, [(0, 1), (0, 2)])
    [(1, frozenset({0})), (0, frozenset({2})), (2, frozenset())]
    """
    near: dict[int, set[int]] = {v: set() for v in range(variables)}
    for scope in scopes:
        for v in scope:
            near[v].update(scope)
            near[v].discard(v)
    steps: list[Step] = []
    while near:
        first = min(near, key=lambda v: len(near[v]))
        around = near.pop(first)
        for v in around:
            near[v] = (near[v] | around) - {first, v}
        steps.append((first, frozenset(around)))
    return steps


def log_total(factors: Mapping[Clique, Floats], steps: Sequence[Step]) -> float:
    """Return the logarithm of the sum of a product of factors over all values of all variables.

    Sums of logarithms never underflow, so no small term is lost that a later factor enlarges.

    Parameters
    ----------
    factors : mapping of tuple of int to ndarray
        Finite logarithm of each factor, with one axis for each of its variables.
    steps : sequence of (int, frozenset of int)
        Steps of `elimination_order` for these variables. Each variable has a factor.

    Returns
    -------
    float
        The logarithm of the total.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from missdp.ground_truth.elimination import elimination_order, log_total
    >>> pairs = {(0, 1): np.log([[1.0, 2.0], [3.0, 4.0]]), (1,): np.log([1.0, 10.0])}
    >>> round(math.exp(log_total(pairs, elimination_order(2, pairs))))
    64
    """
    place = {v: i for i, (v, _) in enumerate(steps)}
    levels = {
        v: n for scope, part in factors.items() for v, n in zip(scope, part.shape, strict=True)
    }
    heights = [float(part) for scope, part in factors.items() if not scope]
    # A factor waits for the first of its variables, and its axes are in the order of the steps.
    waiting: list[list[tuple[Clique, Floats]]] = [[] for _ in steps]
    for scope, part in factors.items():
        if scope:
            axes = sorted(range(len(scope)), key=lambda i: place[scope[i]])
            around = tuple(scope[i] for i in axes)
            waiting[place[around[0]]].append((around, part.transpose(axes)))
    for (first, near), parts in zip(steps, waiting, strict=True):
        rest = tuple(sorted(near, key=place.__getitem__))
        joint = np.zeros([levels[v] for v in (first, *rest)])
        for scope, part in parts:
            joint += part.reshape([levels[v] if v in scope else 1 for v in (first, *rest)])
        summed = np.logaddexp.reduce(joint, axis=0)
        # Without the common height, the logarithms stay small and are rounded by little.
        heights.append(float(summed.max()))
        if rest:
            waiting[place[rest[0]]].append((rest, summed - heights[-1]))
    return math.fsum(heights)
