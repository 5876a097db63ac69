"""Distinguishing audit: what an attacker learns about one row from all released counts of a fit.

The attacker knows all rows but one and uses the log-likelihood ratio of every released count, the
most powerful statistic there is.  For Gaussian releases whose charges add up to rho, hits less
false alarms cannot exceed 2 Φ(√(2 rho) / 2) − 1; noise 30 % too small, or a row that moves more
cells than was charged for, exceeds it.
"""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

import missdp.synth.base as base
from missdp import Categorical, Schema, Table
from missdp.accounting import GaussianEvent, releases
from missdp.mechanisms import SeededNoise
from missdp.synth import AIM
from missdp.synth.graphical import estimate
from synth.answers import record

# Statistics by brute force; other tests cover the code, and tracing it would double the time.
pytestmark = pytest.mark.no_cover

SCHEMA = Schema(
    (
        Categorical(name="x", levels=("common", "rare"), nullable=True),
        Categorical(name="y", levels=("common", "rare"), nullable=True),
    )
)
CROWD = pd.DataFrame({"x": ["common"] * 12, "y": ["common"] * 12})
ROWS = {
    "rare level": {"x": "rare", "y": "common"},
    "unique row": {"x": "rare", "y": "rare"},
    "all missing": {"x": None, "y": None},
}
TRIALS = 400


class Weak(SeededNoise):
    """Noise 30 % too small: the bug an audit must find."""

    def discrete_gaussian(self, sigma, size):
        return super().discrete_gaussian(0.7 * sigma, size)


class Attacker:
    """Fit on either table and collect what was released, with its scale and exact counts."""

    def __init__(self, monkeypatch, strategy, row, noise):
        self.strategy, self.noise = strategy, noise
        frames = [CROWD, pd.concat([CROWD, pd.DataFrame([row])], ignore_index=True)]
        self.tables = [Table.read(frame, SCHEMA) for frame in frames]

        self.released = record(monkeypatch)
        monkeypatch.setattr(base, "noise_source", lambda seed: noise(seed))
        monkeypatch.setattr(estimate, "_RARE", -np.inf)  # fixed shapes; merging is post-processing
        monkeypatch.setattr(estimate.Estimate, "finish", lambda self: None)
        fitting = estimate.fit_entropy  # post-processing too, so a coarse fit is as good
        monkeypatch.setattr(
            estimate, "fit_entropy", lambda *a, **k: fitting(*a, **{**k, "iterations": 1})
        )
        self.exact = [[e.exact for e in self.fit(with_row, 0)] for with_row in (0, 1)]

    def fit(self, with_row, seed):
        self.released.clear()
        model = AIM(
            epsilon=8.0,
            delta=1e-6,
            missing=self.strategy,
            rounds=1,
            n_rows=12,
            model_rows=100,
            imputer="random",
            random_state=seed,
        )
        model.fit(self.tables[with_row])
        self.events = releases(model.guarantee_.events)
        return list(self.released)

    def ratio(self, with_row, seed):
        total = 0.0
        for found, out, into in zip(self.fit(with_row, seed), *self.exact, strict=True):
            noisy, sigma = found.released, found.scale
            total += (np.square(noisy - out) - np.square(noisy - into)).sum() / (2 * sigma**2)
        return total

    def advantage(self):
        hits = np.mean([self.ratio(1, seed) > 0 for seed in range(TRIALS)])
        alarms = np.mean([self.ratio(0, TRIALS + seed) > 0 for seed in range(TRIALS)])
        return hits - alarms

    def most(self):
        """What the charged Gaussian events allow."""
        rho = sum(1 / (2 * e.sigma**2) for e in self.events if isinstance(e, GaussianEvent))
        return 2 * norm.cdf(math.sqrt(2 * rho) / 2) - 1


ERROR = 2.6 * math.sqrt(2 * 0.19 / TRIALS)


@pytest.mark.parametrize(
    ("strategy", "row"),
    [
        ("joint", "rare level"),
        ("joint", "all missing"),
        ("observed", "unique row"),
        ("complete-rows", "unique row"),
        ("impute-first", "unique row"),
    ],
)
def test_the_claim_survives_the_attack(monkeypatch, strategy, row):
    attacker = Attacker(monkeypatch, strategy, ROWS[row], SeededNoise)
    found = attacker.advantage()
    assert found <= attacker.most() + ERROR
    if row != "all missing" or strategy == "joint":
        assert found >= attacker.most() - ERROR - 0.05, "the attack has no power"


def test_noise_thirty_percent_too_small_is_flagged(monkeypatch):
    attacker = Attacker(monkeypatch, "joint", ROWS["unique row"], Weak)
    assert attacker.advantage() > attacker.most() + ERROR
