"""Games of an adversary against a row with a random mask, played to the end.

What is asked next, and with how much noise, depends on all answers so far; outputs are enumerated.
"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

SINGLES = [("a",), ("b",), ("c",)]

EDGES = np.array([-np.inf, -0.8, -0.2, 0.3, 0.9, 1.6, np.inf])


def answers(mu):
    """Chances of a Gaussian answer's six ranges: post-processing, as good as exact."""
    return np.diff(norm.cdf(EDGES - mu))


class World:
    """A row that is there with a random mask, against no row; outputs are enumerated."""

    def __init__(self, masks, gates):
        self.chances = np.array(list(masks.values()))
        self.open = {gate: np.array([set(gate) <= set(mask) for mask in masks]) for gate in gates}
        self.leaves = []

    def play(self, policy, rounds, rho):
        """Spend ``rho`` in so many rounds; a policy returns a gate and a share of what is left."""
        self.leaves = []
        self._ask(policy, rounds, rho, 1.0, np.ones(len(self.chances)))
        q, ratio = np.array(self.leaves).T
        assert q.sum() == pytest.approx(1)
        assert (q * ratio).sum() == pytest.approx(1)
        return q, ratio

    def _ask(self, policy, rounds, rho, q, ratios):
        if rounds == 0:
            self.leaves.append((q, float(self.chances @ ratios)))
            return
        posterior = self.chances * ratios
        gate, share = policy(self, posterior, rounds)
        spent = rho * (1.0 if rounds == 1 else share)
        alone, there = answers(0.0), answers(math.sqrt(2 * spent))
        for a, b in zip(alone, there, strict=True):
            moved = np.where(self.open[gate], b / a, 1.0)
            self._ask(policy, rounds - 1, rho - spent, q * a, ratios * moved)


def likeliest(world, posterior, rounds):
    """Ask for the set that the answers so far make likeliest to be observed."""
    return max(world.open, key=lambda g: float(posterior @ world.open[g])), 1 / rounds


def likeliest_boldly(world, posterior, rounds):
    """The same, with little noise where the row seems to be there, and little spent else."""
    gate, _ = likeliest(world, posterior, rounds)
    return gate, 0.7 if posterior.sum() > 1 else 0.2


def in_turn(world, posterior, rounds):
    return list(world.open)[rounds % len(world.open)], 1 / rounds


POLICIES = [likeliest, likeliest_boldly, in_turn]


def independent(rates):
    names = list(rates)
    return {
        tuple(n for n, seen in zip(names, mask, strict=True) if seen): math.prod(
            rates[n] if seen else 1 - rates[n] for n, seen in zip(names, mask, strict=True)
        )
        for mask in itertools.product((0, 1), repeat=len(names))
    }


def divergences(q, ratio, n):
    forth = math.log((q * ratio**n).sum()) / (n - 1)
    back = math.log((q * ratio ** (1 - n)).sum()) / (n - 1)
    return max(forth, back)


def hockey_sticks(q, ratio, epsilon):
    forth = (q * np.maximum(ratio - math.exp(epsilon), 0)).sum()
    back = (q * np.maximum(1 - math.exp(epsilon) * ratio, 0)).sum()
    return max(forth, back)
