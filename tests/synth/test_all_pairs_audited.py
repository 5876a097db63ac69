"""What an attacker learns from all answers of a fit, and that rules and kinds of holes are kept."""

import numpy as np
import pytest

from missdp import AllPairs
from missdp.testing import TINY, audit_synthesizer, canary
from missdp.testing.made_up import appended

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning")
CROWD, _ = canary(TINY, 12)
RARE, MISSING = 1, 2


def found(strategy, row, **more):
    two = (
        CROWD,
        appended(CROWD, {name: np.array([code]) for name, code in zip("xy", row, strict=True)}),
    )
    # Clipped so much that the row moves the sums by all that is paid for.
    given = {"epsilon": 11.0, "delta": 1e-6, "clip": 0.05}
    return audit_synthesizer(AllPairs, parameters=given, strategies=[strategy], tables=two, **more)[
        strategy
    ]


ATTACKS = [
    ("joint", (RARE, RARE)),
    ("joint", (MISSING, MISSING)),
    ("joint", (RARE, 0)),
    ("observed", (RARE, RARE)),
    ("observed", (MISSING, MISSING)),
    ("complete-rows", (RARE, RARE)),
    ("impute-first", (RARE, RARE)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "row"), ATTACKS)
def test_the_claim_survives_many_attacks(strategy, row):
    audit = found(strategy, row, trials=800)
    assert not audit.flagged
    if row == (RARE, RARE) and strategy == "joint":
        assert audit.ratio > 0.75, "the attack has no power: it must come near the claim"


@pytest.mark.slow
@pytest.mark.parametrize("strategy", AllPairs.strategies)
def test_noise_that_is_too_small_is_flagged(strategy):
    # By thirty percent; where holes are filled first, what the row was is told by less.
    scale = 0.6 if strategy == "impute-first" else 0.7
    assert found(strategy, (RARE, RARE), trials=800, scale=scale).flagged
