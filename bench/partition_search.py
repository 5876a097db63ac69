"""Best partition of mechanisms into groups with disjoint required attributes.

The figures of a paper need this search. A group of mechanisms may be amplified by any set of
attributes that all its mechanisms require. Groups with disjoint sets are read independently, so
their costs add up (Mohapatra et al. 2024, Problem 3).

The search is an integer program over the sets that can occur, and does not enumerate all partitions
of the attributes. Tangents approach the convex cost from below (Kelley's cutting planes). Every
round solves a mixed-integer linear program in which the cost of each block is the largest of its
tangents. The round then prices the answer exactly, and adds the tangents at the answer. The
program's optimum is a lower bound, and the exact price is an upper bound.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from missdp.ground_truth import observation_probability
from missdp.required_attributes import RequiredAttributes, as_required_attributes

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint, OptimizeResult

BLOCK_LIMIT = 4096
"""Maximum number of subsets. Above it, only full sets, intersections and single names are used."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A group of mechanisms and the required attributes that amplify it.

    Attributes
    ----------
    attributes : frozenset of str
        Attributes that every member requires, empty for the group that is not amplified.
    probability : float
        Probability that all of them are observed.
    members : tuple of int
        Positions of the mechanisms.

    Examples
    --------
    >>> Block(attributes=frozenset({"a"}), probability=0.5, members=(0, 2)).members
    (0, 2)
    """

    attributes: frozenset[str]
    probability: float
    members: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Partition:
    """Groups with disjoint required attributes, and their total cost.

    Attributes
    ----------
    blocks : tuple of Block
        Every mechanism is a member of exactly one block.
    cost : float
        Sum of the groups' costs.
    optimal : bool
        Whether no valid partition costs less, up to the tolerance. The cost is attained in both
        cases.
    """

    blocks: tuple[Block, ...]
    cost: float
    optimal: bool


def best_partition(
    required_sets: Sequence[RequiredAttributes],
    weights: Sequence[float],
    *,
    observed: Mapping[str, float],
    cost: GroupCost,
    block_limit: int = BLOCK_LIMIT,
    tolerance: float = 1e-6,
    seconds: float = 20.0,
) -> Partition:
    """Return the partition into groups with disjoint required attributes of the smallest cost.

    Parameters
    ----------
    required_sets : sequence of (collection of str, or None)
        RequiredAttributes of each mechanism.
    weights : sequence of float
        Weight of each mechanism, >= 0, such as its epsilon.
    observed : mapping of str to float
        Probability π_a that an attribute is observed. Absent attributes are always observed.
    cost : GroupCost
        Cost of a group as a function of the probability that its attributes are observed, and of
        its summed weight.
    block_limit : int
        Maximum number of subsets of required attributes. Above it, only full sets, their pairwise
        intersections and single attributes are used.
    tolerance : float
        Distance from the optimum at which to stop, relative where the cost is above 1. The
        feasibility tolerance of the solver does not allow less than the default.
    seconds : float
        Time after which the best partition so far is returned. Like ``block_limit``, it changes the
        size of the cost. The returned cost is always attained.

    Returns
    -------
    Partition
    """
    costs, rates = list(weights), dict(observed)
    sets = [as_required_attributes(required) for required in required_sets]
    live = {frozenset(name for name in required if rates.get(name, 1.0) < 1.0) for required in sets}
    blocks, complete = amplifying_sets(live, block_limit)
    probabilities = [observation_probability(block, rates) for block in blocks]
    partition = PartitionProgram(sets, costs, blocks, probabilities, cost).solve(
        tolerance=tolerance, seconds=seconds
    )
    return replace(partition, optimal=partition.optimal and complete)


def amplifying_sets(
    required_sets: Iterable[frozenset[str]], limit: int = BLOCK_LIMIT
) -> tuple[list[frozenset[str]], bool]:
    """Return the attribute sets that may amplify a group, and whether the list is complete.

    A required set without attributes of another set needs no subsets. Merging all of its groups is
    never worse, since 1{A}·x + 1{B}·y dominates 1{A and B}·(x + y).

    Examples
    --------
    >>> blocks, complete = amplifying_sets([frozenset("ab"), frozenset("bc"), frozenset("de")])
    >>> ["".join(sorted(block)) for block in blocks], complete
    (['a', 'b', 'c', 'ab', 'bc', 'de'], True)
    """
    live = set(required_sets)
    uses = Counter(name for required in live for name in required)
    separate = {required for required in live if all(uses[name] == 1 for name in required)}
    tangled = sorted(live - separate, key=sorted)
    count = len(separate) + sum(2 ** len(required) for required in tangled)
    blocks = set(separate)
    if count <= limit:
        for required in tangled:
            sizes = (itertools.combinations(required, size) for size in range(1, len(required) + 1))
            blocks.update(map(frozenset, itertools.chain.from_iterable(sizes)))
    else:
        blocks.update(tangled)
        blocks.update(frozenset({name}) for required in tangled for name in required)
        for one, other in itertools.combinations(tangled, 2):
            if len(blocks) > limit:
                break
            blocks.add(one & other)
    blocks.discard(frozenset())
    return sorted(blocks, key=lambda block: (len(block), sorted(block))), count <= limit


class GroupCost(Protocol):
    """A cost c(p, w) that is 0 at w = 0, convex in w, linear in w at p = 1, and rises with p.

    ``p`` is the probability that the required attributes are observed, and ``w`` is the summed
    weight of the mechanisms.
    """

    def value(self, probability: float, weight: float) -> float:
        """Return c(p, w)."""
        ...

    def slope(self, probability: float, weight: float) -> float:
        """Return the derivative of c(p, w) in w."""
        ...


_ROUNDS = 60


@dataclass
class _Rows:
    """Sparse rows of a linear program, ``low <= row @ x <= high``."""

    cells: list[tuple[int, int, float]] = field(default_factory=list)
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)

    def add(self, row: Mapping[int, float], low: float, high: float) -> None:
        self.cells.extend((len(self.low), column, value) for column, value in row.items())
        self.low.append(low)
        self.high.append(high)

    def constraint(self, width: int) -> LinearConstraint:
        from scipy.optimize import LinearConstraint
        from scipy.sparse import coo_array

        row, column, value = zip(*self.cells, strict=True)
        matrix = coo_array((value, (row, column)), shape=(len(self.low), width))
        return LinearConstraint(matrix.tocsr(), self.low, self.high)


class PartitionProgram:
    """Variables: y (block used), x (mechanism in block), t (cost of block), z (not amplified)."""

    def __init__(
        self,
        sets: Sequence[frozenset[str]],
        weights: Sequence[float],
        blocks: Sequence[frozenset[str]],
        probabilities: Sequence[float],
        cost: GroupCost,
    ) -> None:
        self.sets, self.weights, self.blocks = sets, weights, blocks
        self.probabilities, self.cost = list(probabilities), cost
        self.pairs = [
            (j, i)
            for j, required in enumerate(sets)
            for i, block in enumerate(blocks)
            if block <= required
        ]
        self.x0 = len(blocks)
        self.t0 = self.x0 + len(self.pairs)
        self.z0 = self.t0 + len(blocks)
        self.width = self.z0 + len(sets)
        self.bare = np.ones(len(sets))  # 0 for a mechanism that must be in a block
        self.inside: list[list[int]] = [[] for _ in blocks]
        self.rows = _Rows()
        self._assignment_rows()

    def _assignment_rows(self) -> None:
        one_group = [{self.z0 + j: 1.0} for j in range(len(self.sets))]
        for place, (j, i) in enumerate(self.pairs):
            self.rows.add({self.x0 + place: 1.0, i: -1.0}, -np.inf, 0.0)
            one_group[j][self.x0 + place] = 1.0
            self.inside[i].append(place)
        for row in one_group:
            self.rows.add(row, 1.0, 1.0)
        for name in sorted(frozenset().union(*self.blocks)):
            self.rows.add(
                {i: 1.0 for i, block in enumerate(self.blocks) if name in block}, -np.inf, 1.0
            )

    def _tangent(self, block: int, weight: float) -> None:
        """Add t >= c'(w0)·w + (c(w0) - c'(w0)·w0)·y, which is t >= 0 at y = 0."""
        p = self.probabilities[block]
        slope = self.cost.slope(p, weight)
        row = {self.t0 + block: 1.0, block: slope * weight - self.cost.value(p, weight)}
        for place in self.inside[block]:
            row[self.x0 + place] = -slope * self.weights[self.pairs[place][0]]
        self.rows.add(row, 0.0, np.inf)

    def solve(self, *, tolerance: float, seconds: float) -> Partition:
        """Return the best partition within the time."""
        best: dict[int, list[int]] = {}
        best_cost, optimal = self._price(best), not self.blocks
        for block, places in enumerate(self.inside):
            self._tangent(block, 0.0)
            self._tangent(block, math.fsum(self.weights[self.pairs[q][0]] for q in places))
        deadline = time.monotonic() + seconds
        for _ in range(_ROUNDS if self.blocks else 0):
            answer = self._optimise(tolerance, deadline - time.monotonic())
            if answer.x is None:
                break
            chosen = self._read(answer.x)
            total = self._price(chosen)
            if total < best_cost:
                best, best_cost = chosen, total
            if best_cost <= answer.fun + tolerance * max(1.0, best_cost):
                optimal = answer.status == 0
                break
            if answer.status != 0 or time.monotonic() > deadline:
                break
            for block, members in chosen.items():
                self._tangent(block, math.fsum(self.weights[j] for j in members))
        return Partition(blocks=tuple(self._groups(best)), cost=best_cost, optimal=optimal)

    def _optimise(self, tolerance: float, seconds: float) -> OptimizeResult:
        from scipy.optimize import Bounds, milp

        upper = np.ones(self.width)
        upper[self.t0 : self.z0] = np.inf
        upper[self.z0 :] = self.bare
        objective = np.zeros(self.width)
        objective[self.t0 : self.z0] = 1.0
        objective[self.z0 :] = [self.cost.value(1.0, weight) for weight in self.weights]
        is_integer = np.ones(self.width)
        is_integer[self.t0 : self.z0] = 0.0
        return milp(
            objective,
            constraints=self.rows.constraint(self.width),
            bounds=Bounds(np.zeros(self.width), upper),
            integrality=is_integer,
            options={"mip_rel_gap": 0.1 * tolerance, "time_limit": max(0.01, seconds)},
        )

    def _groups(self, chosen: Mapping[int, Sequence[int]]) -> Iterator[Block]:
        for i, members in sorted(chosen.items()):
            yield Block(
                attributes=self.blocks[i],
                probability=self.probabilities[i],
                members=tuple(members),
            )
        rest = sorted(set(range(len(self.sets))).difference(*chosen.values()))
        if rest:
            yield Block(attributes=frozenset(), probability=1.0, members=tuple(rest))

    def _read(self, answer: npt.NDArray[np.float64]) -> dict[int, list[int]]:
        chosen: dict[int, list[int]] = {}
        for place, (j, i) in enumerate(self.pairs):
            if answer[self.x0 + place] > 0.5:
                chosen.setdefault(i, []).append(j)
        return chosen

    def _price(self, chosen: Mapping[int, Sequence[int]]) -> float:
        grouped = {j for members in chosen.values() for j in members}
        gated = [
            self.cost.value(self.probabilities[i], math.fsum(self.weights[j] for j in members))
            for i, members in chosen.items()
        ]
        bare = [
            self.cost.value(1.0, weight)
            for j, weight in enumerate(self.weights)
            if j not in grouped
        ]
        return math.fsum(gated + bare)
