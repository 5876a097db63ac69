"""Which attributes are whose parents: chosen by the exponential mechanism.

Public arithmetic of PrivBayes: how the budget is split and how large a table may be.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from missdp.errors import ParameterError
from missdp.mechanisms.door import Clique, Score
from missdp.mechanisms.noise import check_scale
from missdp.record import Record

__all__ = [
    "DEPENDENCE",
    "MAX_CELLS",
    "SCORE_SENSITIVITY",
    "Family",
    "Plan",
    "candidates",
    "check_cells",
    "check_degree",
    "dependence_score",
    "make_plan",
    "reachable_cliques",
]


# Proven: below 2. The rest is room for floating-point rounding, which stays below 1e-5 up to 2**29
# rows: rounding errors of the sum are a few units in the last place of m per level of pairwise
# summation, some 30 * 2**-53 * m for each of two neighbours.
SCORE_SENSITIVITY = 2.0 + 1e-5


@dataclass(frozen=True, order=True)
class Family(Record):
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


MAX_CELLS = 200_000
MAX_CLIQUES = 500_000
MAX_TOTAL_CELLS = 2**27  # a gigabyte of counts
_AUTO_DEGREE = 2
# What many parts cost together is rounded many times: this much is left unspent for it.
_ROOM = 1 - 1e-9
_CAP = 1 + 1e-10


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What each part of a fit may cost; functions of public parameters only.

    Parameters
    ----------
    pure : bool
        Laplace noise and pure DP if True, Gaussian noise and zCDP if False.
    selection_epsilon : float
        Epsilon of each of the ``d - 1`` choices of parents.
    table_cost : float
        Epsilon (pure) or rho (zCDP) of all tables together.
    """

    pure: bool
    selection_epsilon: float
    table_cost: float

    @property
    def table_cap(self) -> float:
        """What all tables together may cost, rounding included."""
        return self.table_cost * _CAP

    def mean_scale(self, tables: int) -> float:
        """Noise scale (Laplace b, Gaussian sigma) if the tables shared the budget evenly."""
        if self.pure:
            return tables / self.table_cost
        return math.sqrt(tables / (2 * self.table_cost))

    def noise_scales(self, cells: Mapping[Clique, int]) -> dict[Clique, float]:
        """Noise scale of each table, minimising the expected total absolute error.

        Minimising sum(cells * scale) at a fixed total cost gives each table a cost proportional to
        ``cells ** (1/2)`` (pure) or ``cells ** (2/3)`` (zCDP).
        """
        power = 0.5 if self.pure else 2.0 / 3.0
        weight = {clique: size**power for clique, size in cells.items()}
        whole = sum(weight.values())
        costs = {clique: self.table_cost * w / whole for clique, w in weight.items()}
        if self.pure:
            return {clique: 1.0 / cost for clique, cost in costs.items()}
        return {clique: math.sqrt(1.0 / (2 * cost)) for clique, cost in costs.items()}

    def check(self, attributes: int, *, largest: int) -> None:
        """Refuse, before anything is charged, what no noise can be drawn for.

        Parameters
        ----------
        attributes : int
        largest : int
            Number of codes of the largest attribute.

        Raises
        ------
        ParameterError
        """
        cells = max(MAX_CELLS, largest)
        # A table of one cell, beside two for each attribute of the most cells there may be.
        tables: dict[Clique, int] = {(str(i),): cells for i in range(2 * attributes)}
        small = self.noise_scales({("",): 1, **tables})
        check_scale("the noise scale of a table", max(small.values()))
        if attributes > 1:
            check_scale("the noise scale of a choice of parents", 8 / self.selection_epsilon)


def check_cells(sizes: Iterable[int]) -> None:
    """Refuse attributes whose one-way tables together have too many cells to release."""
    if sum(sizes) > MAX_TOTAL_CELLS:
        raise ParameterError(
            f"the attributes have more than {MAX_TOTAL_CELLS:,} levels together; declare coarser "
            "ones"
        )


def check_degree(degree: int, sizes: Sequence[int]) -> None:
    """Refuse a degree that makes for more sets of parents than can be looked at.

    Examples
    --------
    >>> check_degree(2, [3] * 50)
    >>> check_degree(4, [3] * 50)
    Traceback (most recent call last):
        ...
    missdp.errors.ParameterError: degree 4 makes ...
    """
    if _many_cliques(degree, sizes, MAX_CELLS):
        raise ParameterError(
            f"degree {degree} makes for more than {MAX_CLIQUES:,} possible tables of these "
            "attributes; use a smaller degree, or 'auto'"
        )


def _many_cliques(degree: int, sizes: Sequence[int], cells: float) -> bool:
    """Whether more than `MAX_CLIQUES` sets of up to ``degree + 1`` attributes are small enough."""
    most = sum(math.comb(len(sizes), k) for k in range(1, degree + 2))
    if most <= MAX_CLIQUES:
        return False
    ordered, found = sorted(sizes), 0
    stack = [(0, 1, 0)]  # next attribute, cells so far, attributes so far
    while stack:
        start, product, members = stack.pop()
        for i in range(start, len(ordered)):
            if product * ordered[i] > cells:
                break  # all later ones are larger
            found += 1
            if found > MAX_CLIQUES:
                return True
            if members < degree:
                stack.append((i + 1, product * ordered[i], members + 1))
    return False


def make_plan(*, pure: bool, left: float, structure_share: float, attributes: int) -> Plan:
    """Split what is left of a budget between structure and tables.

    Parameters
    ----------
    pure : bool
        Whether ``left`` is a pure epsilon; a zCDP rho otherwise.
    left : float
        What was not spent before (on row counts, imputation).
    structure_share : float in (0, 1)
    attributes : int

    Raises
    ------
    ParameterError
        If nothing is left.
    """
    if not 0 < structure_share < 1:
        raise ParameterError("structure_share must be strictly between 0 and 1")
    if left <= 0:
        raise ParameterError(
            "nothing is left of the budget for tables at this epsilon: row counts and imputation, "
            "which are pure, cost more than it; use a smaller epsilon or imputer_share"
        )
    choices = max(1, attributes - 1)
    share = structure_share if attributes > 1 else 0.0
    choice, tables = share * left * _ROOM / choices, (1 - share) * left * _ROOM
    selection = choice if pure else math.sqrt(8 * choice)
    return Plan(pure=pure, selection_epsilon=selection, table_cost=tables)


@dataclass(frozen=True)
class TableRule:
    """Public rule on which families are small enough.

    Parameters
    ----------
    sizes : mapping of str to int
        Number of codes per attribute.
    cells : float
        Most cells a family's table may have.
    """

    sizes: Mapping[str, int]
    cells: float

    def __call__(self, family: Family) -> bool:
        """Tell whether the family's table is small enough."""
        return math.prod(self.sizes[name] for name in family.clique) <= self.cells


def usefulness_rule(
    sizes: Mapping[str, int], *, degree: int | str, theta: float, n_rows: float, plan: Plan
) -> tuple[TableRule, int]:
    """Return the rule on table sizes and the largest number of parents.

    With ``degree="auto"`` a table is useful if its mean count per cell is at least ``theta``
    times the noise scale (Zhang et al. 2017, theta-usefulness), with the *released* row count; a
    degree given as a number replaces the rule by a plain memory limit.
    """
    if degree == "auto":
        cells = min(max(0.0, n_rows) / (theta * plan.mean_scale(len(sizes))), MAX_CELLS)
        most = _AUTO_DEGREE
        while most > 1 and _many_cliques(most, list(sizes.values()), cells):
            most -= 1
        return TableRule(sizes, cells), most
    if isinstance(degree, bool) or not isinstance(degree, int) or not 0 <= degree <= 6:
        raise ParameterError("degree must be 'auto' or a whole number from 0 to 6")
    return TableRule(sizes, MAX_CELLS), degree
