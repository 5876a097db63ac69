"""Algorithm 4 of Mohapatra et al. 2024 and its sound counterpart, for comparison.

The published algorithm charges p·ε for a mechanism that reads a row with probability p. This charge
is smaller than the loss log(1 + p(e^ε - 1)), so it is no bound. `missdp.ground_truth` states the
mask mixture instead, which is never above the sound figure here.
"""

import math
from dataclasses import dataclass

from partition_search import Partition, PartitionProgram, amplifying_sets, best_partition

from missdp.ground_truth import amplified_epsilon, observation_probability


class LinearCost:
    """p·ε: not a bound on any privacy loss."""

    def value(self, probability, weight):
        return probability * weight

    def slope(self, probability, weight):  # noqa: ARG002
        return probability


class PureCost:
    """log(1 + p(e^ε - 1)), the loss of pure mechanisms. Weights are epsilons."""

    def value(self, probability, weight):
        return amplified_epsilon(probability, weight)

    def slope(self, probability, weight):
        if probability == 0.0:
            return 0.0
        return probability / (probability + (1.0 - probability) * math.exp(-weight))


@dataclass(frozen=True)
class PaperApproximation:
    """The result of a correct Algorithm 4. It is no guarantee, and has no δ or conditions.

    `linear` is the best partition at the linear cost, `sound` the best partition at the sound cost.
    Both use equal pruning.
    """

    linear: Partition
    sound: Partition

    @property
    def linear_epsilon(self):
        return self.linear.cost

    def __str__(self):
        return (
            f"as published {self.linear_epsilon:.6g} (linear, may under-state the loss); "
            f"same search, sound: {self.sound.cost:.6g}"
        )


def pruned_partition(required_sets, weights, *, observed, cost):
    """Best partition whose groups all require attributes, except for mechanisms that require none.

    This pruning is Lemma 5.10, which is false. Take required attributes {a} once and {a, b} 99
    times, all observed with probability 1/2. A group of {a} by itself costs (1 + 99/4)/100, the
    best pruned partition 1/2.
    """
    sets = [frozenset(required or ()) for required in required_sets]
    blocks, complete = amplifying_sets(sets)
    odds = [observation_probability(block, observed) for block in blocks]
    program = PartitionProgram(sets, weights, blocks, odds, cost)
    program.bare[:] = [not required for required in sets]
    partition = program.solve(tolerance=1e-6, seconds=20.0)
    if not (complete and partition.optimal):
        raise SystemExit("the partition search did not end in time")
    return partition


def paper_approximation(required_sets, epsilons, *, observed):
    """Algorithm 4 at its published cost and at the sound cost."""
    linear, sound = (
        pruned_partition(required_sets, epsilons, observed=observed, cost=cost)
        for cost in (LinearCost(), PureCost())
    )
    return PaperApproximation(linear=linear, sound=sound)


def sound_partition(required_sets, epsilons, *, observed):
    """Best partition at the sound cost, without pruning: a valid ε̄ for pure mechanisms."""
    return best_partition(required_sets, epsilons, observed=observed, cost=PureCost())
