"""The integer program behind `best_partition`: a convex cost approached by tangents.

Kelley's cutting planes: every round solves a mixed-integer linear program in which the cost of
each block is the largest of the tangents known so far, prices the answer exactly, and adds the
tangents at the answer. The program's optimum is a lower bound, the exact price an upper one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp
from scipy.sparse import coo_array

from missdp.ground_truth.costs import GroupCost

__all__ = ["PartitionProgram"]

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
            (j, i) for j, gate in enumerate(sets) for i, block in enumerate(blocks) if block <= gate
        ]
        self.x0 = len(blocks)
        self.t0 = self.x0 + len(self.pairs)
        self.z0 = self.t0 + len(blocks)
        self.width = self.z0 + len(sets)
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
        """Add t >= c'(w0)·w + (c(w0) - c'(w0)·w0)·y; at y = 0 it reads t >= 0."""
        p = self.probabilities[block]
        slope = self.cost.slope(p, weight)
        row = {self.t0 + block: 1.0, block: slope * weight - self.cost.value(p, weight)}
        for place in self.inside[block]:
            row[self.x0 + place] = -slope * self.weights[self.pairs[place][0]]
        self.rows.add(row, 0.0, np.inf)

    def solve(
        self, *, allow_ungated: bool, tolerance: float, seconds: float
    ) -> tuple[dict[int, list[int]], float, bool]:
        """Return members by block, their cost, and whether it is optimal."""
        best: dict[int, list[int]] = {}
        best_cost = self._price(best) if allow_ungated or not self.blocks else math.inf
        if not self.blocks:
            return best, best_cost, True
        for block, places in enumerate(self.inside):
            self._tangent(block, 0.0)
            self._tangent(block, math.fsum(self.weights[self.pairs[q][0]] for q in places))
        deadline = time.monotonic() + seconds
        for _ in range(_ROUNDS):
            answer = self._optimise(allow_ungated, tolerance, deadline - time.monotonic())
            if answer.x is None:
                break
            chosen = self._read(answer.x)
            total = self._price(chosen)
            if total < best_cost:
                best, best_cost = chosen, total
            if best_cost <= answer.fun + tolerance * max(1.0, best_cost):
                return best, best_cost, answer.status == 0
            if answer.status != 0 or time.monotonic() > deadline:
                break
            for block, members in chosen.items():
                self._tangent(block, math.fsum(self.weights[j] for j in members))
        if math.isinf(best_cost):  # out of time under pruning
            best = self._first_fit()
            best_cost = self._price(best)
        return best, best_cost, False

    def _optimise(self, allow_ungated: bool, tolerance: float, seconds: float) -> OptimizeResult:
        upper = np.ones(self.width)
        upper[self.t0 : self.z0] = np.inf
        if not allow_ungated:
            upper[self.z0 :] = [0.0 if gate else 1.0 for gate in self.sets]
        objective = np.zeros(self.width)
        objective[self.t0 : self.z0] = 1.0
        objective[self.z0 :] = [self.cost.value(1.0, weight) for weight in self.weights]
        whole = np.ones(self.width)
        whole[self.t0 : self.z0] = 0.0
        return milp(
            objective,
            constraints=self.rows.constraint(self.width),
            bounds=Bounds(np.zeros(self.width), upper),
            integrality=whole,
            options={"mip_rel_gap": 0.1 * tolerance, "time_limit": max(0.01, seconds)},
        )

    def _first_fit(self) -> dict[int, list[int]]:
        """Return a valid choice without search: small blocks first, as long as disjoint."""
        chosen: dict[int, list[int]] = {}
        taken: set[int] = set()
        used: set[str] = set()
        for i, block in enumerate(self.blocks):
            members = [j for j, gate in enumerate(self.sets) if j not in taken and block <= gate]
            if members and not block & used:
                chosen[i] = members
                taken.update(members)
                used |= block
        return chosen

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
