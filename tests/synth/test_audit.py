"""Distinguishing audit: what an attacker learns about one row from everything that was released.

The attacker knows all rows but one and sees every noisy count of a fit. The test statistic is the
log-likelihood ratio of those counts, the most powerful one there is; a lower confidence bound on
epsilon follows from how often it passes a threshold with and without the row (Clopper-Pearson).
A correct build must stay below the claim, and a build with noise 30 % too small must not.
"""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import beta

from missdp import Categorical, PrivBayes, Schema, Table
from missdp.mechanisms import SeededNoise
from synth.answers import record

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
# Almost all of epsilon goes to the tables: the strongest attack for the fewest trials.
OPTIONS = {"epsilon": 1.0, "structure_share": 1e-3, "n_rows": 12, "degree": 1}


class Weak(SeededNoise):
    """Noise 30 % too small: the bug an audit must find."""

    def discrete_laplace(self, scale, size):
        return super().discrete_laplace(0.7 * scale, size)


def tables(row):
    without = Table.read(CROWD, SCHEMA)
    with_row = Table.read(pd.concat([CROWD, pd.DataFrame([row])], ignore_index=True), SCHEMA)
    return without, with_row


def fit_counts(kept, table, strategy, seed):
    kept.clear()
    PrivBayes(missing=strategy, random_state=seed, imputer="random", **OPTIONS).fit(table)
    return list(kept)


def log_ratio(released, expected_without, expected_with):
    """Log-likelihood of the released counts with the row, less without it."""
    total = 0.0
    for found, without, with_row in zip(released, expected_without, expected_with, strict=True):
        noisy = found.released
        total += (np.abs(noisy - without) - np.abs(noisy - with_row)).sum() / found.scale
    return total


def lower_bound(hits, false_hits, trials, confidence=0.995):
    low = beta.ppf(1 - confidence, hits, trials - hits + 1) if hits else 0.0
    high = beta.ppf(confidence, false_hits + 1, trials - false_hits) if false_hits < trials else 1.0
    return np.log(max(low, 1e-12) / high)


def audit(monkeypatch, strategy, row, noise, trials):
    kept = record(monkeypatch)
    monkeypatch.setattr("missdp.synth.base.noise_source", noise)
    without, with_row = tables(row)
    exact = [[e.exact for e in fit_counts(kept, t, strategy, 0)] for t in (without, with_row)]
    ratios = [
        np.array([log_ratio(fit_counts(kept, t, strategy, seed), *exact) for seed in seeds])
        for t, seeds in ((with_row, range(trials)), (without, range(trials, 2 * trials)))
    ]
    # One threshold, set in advance at the largest possible ratio, so no correction for choosing.
    scale = max(np.abs(ratios[0]).max(), 1e-9)
    threshold = scale - 1e-6
    hits, false_hits = ((r >= threshold).sum() for r in ratios)
    return lower_bound(int(hits), int(false_hits), trials)


# Partial marginals split the budget over three tables, so the event is rarer there.
TRIALS = {"observed": 1200}
FLAG_TRIALS = {"observed": 3000}

CASES = [
    ("joint", "rare level"),
    ("joint", "unique row"),
    ("joint", "all missing"),
    ("observed", "rare level"),
    ("observed", "unique row"),
    ("observed", "all missing"),
    ("complete-rows", "unique row"),
    ("impute-first", "unique row"),
]


@pytest.mark.parametrize(("strategy", "row"), CASES)
def test_the_claim_survives_the_attack(monkeypatch, strategy, row):
    found = audit(monkeypatch, strategy, ROWS[row], SeededNoise, trials=TRIALS.get(strategy, 500))
    assert found <= 1.0
    if row != "all missing" or strategy == "joint":
        assert found > 0.4, "the attack has no power: it must come near the claim"


@pytest.mark.parametrize("strategy", PrivBayes.strategies)
def test_noise_thirty_percent_too_small_is_flagged(monkeypatch, strategy):
    trials = FLAG_TRIALS.get(strategy, 1500)
    assert audit(monkeypatch, strategy, ROWS["unique row"], Weak, trials=trials) > 1.0
