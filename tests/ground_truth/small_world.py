"""A row that is there with a random mask, against no row: games whose every output is enumerated.

What is asked next, with how much noise, and what of the row is told, may depend on all answers so
far and on which cells are missing. Answers are ranges of a Gaussian one, or of randomised response:
post-processing, so that what is proven of the releases must hold of them.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.stats import norm

NAMES = "abc"
SINGLES = [("a",), ("b",), ("c",)]
SETS = [frozenset(s) for k in (1, 2, 3) for s in itertools.combinations(NAMES, k)]
EDGES = np.array([-np.inf, -0.8, -0.2, 0.3, 0.9, 1.6, np.inf])


def gaussian(mu):
    """Chances of a Gaussian answer's six ranges, of a row that moves it by mu."""
    return np.diff(norm.cdf(EDGES - mu))


def response(epsilon):
    """Chances of the two answers of randomised response; without the row they are swapped."""
    return np.array([1.0, math.exp(epsilon)]) / (1 + math.exp(epsilon))


def independent(rates):
    """The law of the masks if cells go missing independently: set of what is observed to chance."""
    return {
        frozenset(itertools.compress(rates, seen)): math.prod(
            p if there else 1 - p for p, there in zip(rates.values(), seen, strict=True)
        )
        for seen in itertools.product((0, 1), repeat=len(rates))
    }


class World:
    """A law of masks; `play` returns every output's chance without the row, and its ratio."""

    def __init__(self, masks):
        self.masks, self.chances = list(masks), np.array(list(masks.values()))

    def opens(self, gate):
        return np.array([frozenset(gate) <= mask for mask in self.masks])

    def play(self, policy, rounds, spent=0.0):
        """A policy returns laws without the row, and with it by mask, the gate, and the cost."""
        self.leaves = []
        self._ask(policy, rounds, 1.0, np.ones(len(self.masks)), spent)
        q, ratio = np.array(self.leaves).T
        assert q.sum() == pytest.approx(1)
        assert (q * ratio).sum() == pytest.approx(1)
        return q, ratio

    def _ask(self, policy, rounds, q, ratios, spent):
        if rounds == 0:
            self.leaves.append((q, float(self.chances @ ratios)))
            return
        alone, there, gate, cost = policy(self, self.chances * ratios, rounds, spent)
        there = np.broadcast_to(there, (len(self.masks), len(alone)))
        for place, chance in enumerate(alone):
            moved = np.where(self.opens(gate), there[:, place] / chance, 1.0)
            self._ask(policy, rounds - 1, q * chance, ratios * moved, spent + cost)


def in_order(gates, laws):
    """Ask behind gates that were fixed, one after the other."""

    def policy(world, posterior, rounds, spent):
        place = len(gates) - rounds
        alone, there = laws[place]
        return alone, there, gates[place], 0.0

    return policy


def turning(gates, mus):
    """The same with Gaussian answers, whose sign follows from the past and from the mask."""

    def policy(world, posterior, rounds, spent):
        place = len(gates) - rounds
        seems = posterior.sum() > 1
        signs = [1 if (len(mask) % 2 == 0) == seems else -1 for mask in world.masks]
        there = np.array([gaussian(sign * mus[place]) for sign in signs])
        return gaussian(0.0), there, gates[place], 0.0

    return policy


def likeliest(gates, rho, *, boldly=False, pure=False):
    """Ask for the set that the answers so far make likeliest; spend more if the row seems there."""

    def policy(world, posterior, rounds, spent):
        gate = max(gates, key=lambda g: float(posterior @ world.opens(g)))
        share = (0.7 if posterior.sum() > 1 else 0.2) if boldly else 1 / rounds
        cost = (rho - spent) * (1.0 if rounds == 1 else share)
        if pure:
            return response(cost)[::-1], response(cost), gate, cost
        return gaussian(0.0), gaussian(math.sqrt(2 * cost)), gate, cost

    return policy


def divergence(q, ratio, n):
    """The Rényi divergence of order n, the larger of both ways."""
    forth = math.log((q * ratio**n).sum()) / (n - 1)
    return max(forth, math.log((q * ratio ** (1 - n)).sum()) / (n - 1))


def hockey_stick(q, ratio, epsilon):
    """The delta at epsilon, the larger of both ways."""
    forth = (q * np.maximum(ratio - math.exp(epsilon), 0)).sum()
    return max(forth, (q * np.maximum(1 - math.exp(epsilon) * ratio, 0)).sum())


def loss(ratio):
    """The largest log-ratio of any output: pure epsilon."""
    return float(np.abs(np.log(ratio)).max())


chance = st.sampled_from([0.05, 0.3, 0.5, 0.8, 0.97])
rates = st.fixed_dictionaries(dict.fromkeys(NAMES, chance))
gates = st.lists(st.sampled_from(SETS), min_size=1, max_size=3)
costs = st.lists(st.sampled_from([0.05, 0.4, 1.0, 1.7]), min_size=3, max_size=3)
