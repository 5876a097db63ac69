"""An audit at the ground truth: real fits of AIM and MST, their masks drawn anew for each.

Two tables differ in one row before values go missing. The attacker sees every answer of a fit, but
not the data behind it. For each marginal, the attacker looks at the row's cell, as if the row were
there and observed. The likelihood ratio is the average over masks. A claim that was computed with
half of the true rates of being observed is refuted.
"""

import contextlib
import itertools
import math
import warnings

import numpy as np
import pytest

from missdp import AIM, MST, Categorical, Schema, Table
from missdp.accounting import GaussianEvent, MissingCompletelyAtRandom
from missdp.evaluate import MCAR
from missdp.testing import Claim, RecordingNoise, judge
from missdp.testing.recording import StopRecording

SCHEMA = Schema(tuple(Categorical(name=n, levels=("x", "y"), nullable=True) for n in "abc"))
CROWD = 1  # rows (y, y, y) beside the row (x, x, x), which is present or absent
FAMILIES = {
    AIM: {"rounds": 2, "first_share": 0.02, "selection_share": 0.02},
    MST: {},
}
OBSERVED = 0.97
TRIALS = 4000
DELTAS = np.array([1e-6, 1e-4, 1e-3, *np.linspace(0.005, 0.5, 34)])


def truth(rows):
    codes = np.array([1] * CROWD + [0] * rows)
    return Table.from_codes(SCHEMA, dict.fromkeys("abc", codes))


MASKS = {
    frozenset(itertools.compress("abc", bits)): math.prod(
        OBSERVED if bit else 1 - OBSERVED for bit in bits
    )
    for bits in itertools.product((0, 1), repeat=3)
}


def log_ratio(answers):
    """Log likelihood ratio of the noisy cells that the row would be in, its mask unknown."""
    total = np.zeros(len(MASKS))
    for answer in answers:
        if not isinstance(answer.event, GaussianEvent):
            continue  # selections
        released, required = np.asarray(answer.released), answer.event.required or frozenset()
        variance, others = answer.event.sigma**2, CROWD if released.ndim == 0 else 0.0
        if released.size == 1 and required:  # all levels are merged: those of the crowd are in it
            seen = OBSERVED ** len(required)
            others, variance = CROWD * seen, variance + CROWD * seen * (1 - seen)
        told = (float(released.flat[0]) - others - 0.5) / variance
        total += [told if required <= mask else 0.0 for mask in MASKS]
    return float(np.logaddexp.reduce(np.log(list(MASKS.values())) + total))


class Attacker:
    def __init__(self, family):
        self.family, self.model, self.answers = family, None, None

    def run(self, side, number):
        """Fit once to freshly masked rows, and stop after the last answer."""
        seeds = np.random.SeedSequence([side, number]).generate_state(2, np.uint64) >> 1
        noise = RecordingNoise(int(seeds[0]), stop_after=self.answers)
        rows = MCAR(rate=1 - OBSERVED).apply(truth(side), random_state=int(seeds[1]))
        model = self.family(
            epsilon=4.0,
            delta=1e-6,
            missing="observed",
            **FAMILIES[self.family],
        )
        with contextlib.suppress(StopRecording), noise:
            self.model = model.fit(rows)
            self.answers = len(noise.answers)
        return log_ratio(noise.answers)

    def claim(self, observed):
        known = MissingCompletelyAtRandom(dict.fromkeys("abc", observed))
        guarantee = self.model.ground_truth_guarantee(known)
        return Claim(tuple((guarantee.epsilon_at(float(d)), float(d)) for d in DELTAS))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_the_claim_survives_and_one_of_halved_rates_does_not(family):
    attacker = Attacker(family)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of small tables and large epsilons
        absent, present = (
            np.array([attacker.run(side, number) for number in range(TRIALS)]) for side in (0, 1)
        )
        sound, halved = (attacker.claim(p) for p in (OBSERVED, OBSERVED / 2))
    assert not judge(present, absent, sound).flagged
    found = judge(present, absent, halved)
    assert found.flagged, str(found)
    assert found.mu_low > 0.5, "the attack has power"
