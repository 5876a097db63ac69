"""Which attributes are whose parents: chosen by the exponential mechanism."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.mechanisms.door import Clique, Score

__all__ = [
    "DEPENDENCE",
    "SCORE_SENSITIVITY",
    "Family",
    "candidates",
    "dependence_score",
    "reachable_cliques",
]

# Proven: below 2. The rest is room for floating-point rounding, which stays below 1e-5 up to 2**29
# rows: rounding errors of the sum are a few units in the last place of m per level of pairwise
# summation, some 30 * 2**-53 * m for each of two neighbours.
SCORE_SENSITIVITY = 2.0 + 1e-5


@dataclass(frozen=True, order=True)
class Family:
    """A node of the network and its parents."""

    child: str
    parents: Clique

    @property
    def clique(self) -> Clique:
        """Parents first, child last: the axes of the family's table."""
        return (*self.parents, self.child)


def dependence_score(counts: NDArray[np.int64]) -> float:
    """Distance between a family's joint counts and independence of child and parents.

    ``S = 1/2 sum |c(x, pi) - c(x) c(pi) / m|`` with ``m = sum c``, over the rows observed on the
    family, in units of rows: between 0 and ``m``.

    Parameters
    ----------
    counts : array of int, shape (parents..., child)
        Joint counts, child on the last axis.

    Notes
    -----
    Sensitivity under add-remove is below 2 whatever ``m`` is. With p, q the distributions of
    child and parents, adding the row (x, pi) changes ``D = c - c c / m`` by
    ``m / (m + 1) * (e_x - p) (e_pi - q)^T``, whose L1 norm is below 2 * 2, halved: 2.
    A row that is missing on the family changes nothing. So no
    private row count enters the sensitivity, unlike with mutual information.

    Examples
    --------
    >>> dependence_score(np.array([[5, 0], [0, 5]])), dependence_score(np.array([[2, 2], [4, 4]]))
    (5.0, 0.0)
    """
    joint = counts.reshape(-1, counts.shape[-1]).astype(np.float64)
    total = joint.sum()
    if total == 0:
        return 0.0
    expected = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / total
    return 0.5 * float(np.abs(joint - expected).sum())


#: What families are selected by.
DEPENDENCE = Score(dependence_score, sensitivity=SCORE_SENSITIVITY)


def candidates(
    placed: Clique, waiting: Iterable[str], allowed: Callable[[Family], bool], degree: int
) -> list[Family]:
    """Families that may come next: every waiting child with every maximal allowed parent set.

    Parameters
    ----------
    placed : tuple of str
        Attributes already in the network: the possible parents.
    waiting : iterable of str
        Attributes not yet in it.
    allowed : callable
        Public rule on table sizes; an allowed set's subsets are allowed too.
    degree : int, at least 0
        Largest number of parents.

    Returns
    -------
    list of Family
        In a fixed order that depends on public facts and earlier choices only. A child with no
        allowed parents gets the empty parent set.
    """
    found = []
    for child in waiting:
        sets = list(_maximal(child, placed, allowed, degree))
        found.extend(sets or [Family(child, ())])
    return found


def _maximal(
    child: str, placed: Clique, allowed: Callable[[Family], bool], degree: int
) -> Iterator[Family]:
    """Allowed families of the child with no larger allowed one, most parents first.

    Grown upwards: a set is tried only if it extends an allowed one.
    """
    levels: list[list[Clique]] = [[()]]
    while len(levels) <= degree and levels[-1]:
        levels.append(
            [
                (*parents, name)
                for parents in levels[-1]
                for name in placed[placed.index(parents[-1]) + 1 if parents else 0 :]
                if allowed(Family(child, (*parents, name)))
            ]
        )
    inside: set[Clique] = set()
    for level in reversed(levels[1:]):
        yield from (Family(child, parents) for parents in level if parents not in inside)
        inside = {part for p in level for part in itertools.combinations(p, len(p) - 1)}


def reachable_cliques(
    names: Clique, allowed: Callable[[Family], bool], degree: int
) -> list[Clique]:
    """Every attribute set that some family could need, each once, in schema order.

    Counting them all in one pass keeps the number of passes over the data at one, however the
    network turns out.
    """
    cliques: list[Clique] = [()]
    for size in range(1, degree + 2):
        cliques.extend(
            clique
            for clique in itertools.combinations(names, size)
            if any(_fits(clique, i, allowed) for i in range(size))
        )
    return cliques


def _fits(clique: Clique, child: int, allowed: Callable[[Family], bool]) -> bool:
    parents = clique[:child] + clique[child + 1 :]
    return not parents or allowed(Family(clique[child], parents))
