"""Caps behind fixed gates beside an answer that every row enters, whatever its holes: all pairs.

The answer may depend on which cells of the row are missing, and on what came out behind the gates.
"""

import math
from functools import cache

import numpy as np
import pytest
from scipy.stats import norm

from ground_truth.mask_games import hockey_sticks, independent
from missdp.accounting import FilterEvent, GaussianEvent, MissingCompletelyAtRandom
from missdp.ground_truth import FixedGates, ground_truth_guarantee

GRID = np.linspace(-6.0, 8.0, 57)
MASS = norm.pdf(GRID) * (GRID[1] - GRID[0])
DELTAS = (0.2, 0.02)
RATES = [{"a": 0.5, "b": 0.5}, {"a": 0.1, "b": 0.8}, {"a": 0.3, "b": 0.3}]


def cap(mu, gate=None):
    capacity = GaussianEvent(sensitivity=mu, sigma=1.0, discrete=False)
    return FilterEvent(capacity=capacity, gate=gate)


def claim(alone, every, rates, delta):
    return claim_of(alone, every, tuple(rates.items()), delta)


@cache
def claim_of(alone, every, rates, delta):
    events = [cap(alone, {"a"}), cap(alone, {"b"}), cap(every)]
    known = MissingCompletelyAtRandom(rates)
    return ground_truth_guarantee(events, known, structure=FixedGates(), delta=delta).epsilon


def shifted(v, y):
    return np.exp(v * y - v**2 / 2)


def played(alone, every, rates, direction):
    """Chances and ratios: an answer behind a, one behind b, and one of all rows that knows both."""
    x, y, z = np.meshgrid(GRID, GRID, GRID, indexing="ij", sparse=True)
    ratio = np.zeros((len(GRID),) * 3)
    for mask, chance in independent(rates).items():
        first = shifted(alone, x) if "a" in mask else 1.0
        second = shifted(alone, y) if "b" in mask else 1.0
        ratio += chance * first * second * shifted(every * direction(mask, x, y), z)
    q = MASS[:, None, None] * MASS[None, :, None] * MASS[None, None, :]
    return q.ravel(), ratio.ravel()


DIRECTIONS = {
    "one": lambda m, x, y: 1.0 + 0 * (x + y),
    "tells the mask": lambda m, x, y: (1.0 if len(m) == 2 else -1.0) + 0 * (x + y),
    "as seems likely": lambda m, x, y: np.where(x + y > 1, 1.0, -1.0),
    "both": lambda m, x, y: np.where(x + y > 1, 1.0, -1.0) * (1.0 if "a" in m else 0.3),
}


@pytest.mark.parametrize("direction", DIRECTIONS.values(), ids=DIRECTIONS)
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize(("alone", "every"), [(0.5, 0.5), (1.2, 0.3)])
def test_no_adversary_beats_the_claim(direction, rates, alone, every):
    q, ratio = played(alone, every, rates, direction)
    for delta in DELTAS:
        assert hockey_sticks(q, ratio, claim(alone, every, rates, delta)) <= delta * (1 + 2e-3)


def test_the_claim_is_nearly_reached_and_wrong_ones_are_refuted():
    rates = {"a": 0.5, "b": 0.5}
    q, ratio = played(1.2, 0.3, rates, DIRECTIONS["one"])

    def refuted(claimed):
        return any(hockey_sticks(q, ratio, claimed(d)) > 1.02 * d for d in DELTAS)

    sound = [claim(1.2, 0.3, rates, d) for d in DELTAS]
    found = [hockey_sticks(q, ratio, e) / d for e, d in zip(sound, DELTAS, strict=True)]
    assert max(found) > 0.97
    assert refuted(lambda d: claim(1.2, 0.3, rates, d) / 2)
    assert refuted(lambda d: claim(1.2, 0.3, {n: p / 2 for n, p in rates.items()}, d))
    assert refuted(lambda d: claim(1.2, 1e-6, rates, d))  # forgets what every row enters
    # As if the answer of all pairs were behind a gate as well.
    known = MissingCompletelyAtRandom({"a": 0.5, "b": 0.1})
    q, ratio = played(0.2, 1.0, {"a": 0.5, "b": 0.1}, DIRECTIONS["one"])
    behind = [cap(0.2, {"a"}), cap(math.hypot(0.2, 1.0), {"b"})]
    assert refuted(
        lambda d: ground_truth_guarantee(behind, known, structure=FixedGates(), delta=d).epsilon
    )
