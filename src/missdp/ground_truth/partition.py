"""Best partition of mechanisms into groups behind disjoint gates (Problem 3 of the paper).

A group of mechanisms may be gated by any set of attributes that all their gates contain; groups
with disjoint sets have independent gates, so their costs add up. The search is an integer program
over the sets that can occur, with the convex cost approached from below by tangents (Kelley's
cutting planes), never an enumeration of all partitions of the attributes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from missdp.ground_truth.costs import GroupCost
from missdp.ground_truth.gates import (
    Gate,
    as_gate,
    check_epsilons,
    check_observed,
    gate_probability,
)
from missdp.ground_truth.program import PartitionProgram

__all__ = ["Block", "Partition", "best_partition"]

BLOCK_LIMIT = 4096
"""Most gate subsets to consider; beyond it only whole gates, intersections and single names."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """A group of mechanisms and the gate that amplifies it.

    Attributes
    ----------
    attributes : frozenset of str
        Contained in the gate of every member; empty for the group that is not amplified.
    probability : float
        That all of them are observed.
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
    """Groups with disjoint gates, and what they cost together.

    Attributes
    ----------
    blocks : tuple of Block
        Every mechanism is a member of exactly one.
    cost : float
        Sum of the groups' costs.
    optimal : bool
        Whether no valid partition costs less, up to the tolerance. The cost is attained either
        way.

    Examples
    --------
    >>> from missdp.ground_truth import PureCost
    >>> best = best_partition([{"a"}, {"b"}], [1.0, 1.0], observed={"a": 0.5}, cost=PureCost())
    >>> best.optimal, len(best.blocks)
    (True, 2)
    """

    blocks: tuple[Block, ...]
    cost: float
    optimal: bool


def best_partition(
    gates: Sequence[Gate],
    weights: Sequence[float],
    *,
    observed: Mapping[str, float],
    cost: GroupCost,
    allow_ungated: bool = True,
    block_limit: int = BLOCK_LIMIT,
    tolerance: float = 1e-6,
    seconds: float = 20.0,
) -> Partition:
    """Find the partition into groups behind disjoint gates with the smallest total cost.

    Parameters
    ----------
    gates : sequence of (collection of str, or None)
        Gate of each mechanism.
    weights : sequence of float
        Weight of each mechanism, >= 0: its epsilon, or 1/σ² for :class:`RenyiCost`.
    observed : mapping of str to float
        π_a; attributes that are not named count as always observed.
    cost : GroupCost
        Cost of a group as a function of its gate's probability and its summed weight.
    allow_ungated : bool
        Whether a mechanism with a gate may be left without amplification. False is the pruning
        of Lemma 5.10 of the paper, which can discard the best partition.
    block_limit : int
        Most subsets of gates to consider; beyond it only whole gates, their pairwise
        intersections and single attributes.
    tolerance : float
        Distance from the optimum at which to stop, relative where the cost is above 1. The
        solver's own feasibility tolerance allows no less than the default.
    seconds : float
        Time after which the best partition so far is returned. Like ``block_limit`` it decides
        how small the cost gets, never whether it is attained.

    Returns
    -------
    Partition

    Examples
    --------
    >>> from missdp.ground_truth import LinearCost
    >>> rates = {"State": 0.75, "Gender": 0.75, "Income": 0.75}
    >>> gates = [{"State"}, {"Occupation"}, {"Gender"}, {"Gender", "Income"}]
    >>> best_partition(gates, [0.25] * 4, observed=rates, cost=LinearCost()).cost
    0.8125
    """
    costs = check_epsilons(weights, count=len(gates), name="weights")
    rates = check_observed(observed)
    sets = [as_gate(gate) for gate in gates]
    blocks, complete = _candidates(sets, rates, block_limit, keep_sure=not allow_ungated)
    program = PartitionProgram(
        sets, costs, blocks, [gate_probability(b, rates) for b in blocks], cost
    )
    chosen, total, optimal = program.solve(
        allow_ungated=allow_ungated, tolerance=tolerance, seconds=seconds
    )
    groups = [
        Block(
            attributes=blocks[index],
            probability=program.probabilities[index],
            members=tuple(members),
        )
        for index, members in sorted(chosen.items())
    ]
    rest = sorted(set(range(len(sets))).difference(*(group.members for group in groups)))
    if rest:
        groups.append(Block(attributes=frozenset(), probability=1.0, members=tuple(rest)))
    return Partition(blocks=tuple(groups), cost=total, optimal=optimal and complete)


def _candidates(
    sets: Sequence[frozenset[str]], rates: Mapping[str, float], limit: int, *, keep_sure: bool
) -> tuple[list[frozenset[str]], bool]:
    """List the sets that a group's gate may be, and whether none is left out.

    A gate that shares no attribute with another needs no subsets: merging all of its groups is
    never worse, since 1{A}·x + 1{B}·y dominates 1{A and B}·(x + y).
    """
    if keep_sure:
        live = set(sets)
    else:
        live = {frozenset(n for n in gate if rates.get(n, 1.0) < 1.0) for gate in sets}
    uses = Counter(name for gate in live for name in gate)
    alone = {gate for gate in live if all(uses[name] == 1 for name in gate)}
    tangled = sorted(live - alone, key=sorted)
    count = len(alone) + sum(2 ** len(gate) for gate in tangled)
    found = set(alone)
    if count <= limit:
        found.update(subset for gate in tangled for subset in _subsets(gate))
    else:
        found.update(tangled)
        found.update(frozenset({name}) for gate in tangled for name in gate)
        for one, other in itertools.combinations(tangled, 2):
            if len(found) > limit:
                break
            found.add(one & other)
    found.discard(frozenset())
    return sorted(found, key=lambda block: (len(block), sorted(block))), count <= limit


def _subsets(gate: frozenset[str]) -> Iterator[frozenset[str]]:
    names = sorted(gate)
    for size in range(1, len(names) + 1):
        yield from map(frozenset, itertools.combinations(names, size))
