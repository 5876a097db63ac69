"""Audits of Kamino: what an attacker learns of one row, and builds that claim too little."""

import pytest

from missdp import Kamino
from missdp.accounting import SampledGaussianEvent, epsilon_of
from missdp.errors import CheckFailedError
from missdp.mechanisms import training
from missdp.mechanisms.training import SampledSum
from missdp.testing import TINY, audit_synthesizer, canary, check_sensitivity

TRAINED = {"delta": 1e-3, "steps": 8, "batch": 1, "n_rows": 9}  # each step reads one row in nine


def audited(heads, strategy, *, trials, epsilon=2.0):
    parameters = {"epsilon": epsilon, "heads": heads} | (TRAINED if heads != "moments" else {})
    return audit_synthesizer(
        Kamino,
        parameters=parameters,
        strategies=[strategy],
        tables=canary(TINY, 8),
        trials=trials,
    )[strategy]


@pytest.fixture
def public_rate(monkeypatch):
    """Rows are sampled at the rate for those that a head reads, and charged at that for all rows.

    So did the published code: 1,068 complete rows of 30,162 were trained on at 28 times the rate.
    """

    def faster(rate, sigma):
        return SampledSum(min(1.0, 9 * rate), sigma)

    monkeypatch.setattr(training, "SampledSum", faster)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Kamino.strategies)
@pytest.mark.parametrize("heads", ["moments", "sequential"])
def test_the_claim_survives_an_attack(heads, strategy):
    found = audited(heads, strategy, trials=200 if heads == "moments" else 48)
    assert not found.flagged


@pytest.mark.slow
@pytest.mark.parametrize("published", [True, False])
def test_an_audit_flags_the_batch_rate_of_the_published_code_and_not_what_was_charged(
    published, request
):
    if published:
        request.getfixturevalue("public_rate")
    assert audited("sequential", "observed", trials=300).flagged == published


@pytest.mark.usefixtures("public_rate")
def test_sensitivities_flag_it_too():
    with pytest.raises(CheckFailedError, match="at least its rate"):
        check_sensitivity(
            Kamino, parameters=TRAINED | {"epsilon": 1.0, "heads": "sequential"}, trials=4
        )


def test_what_the_published_code_claims_and_what_its_noise_proves():
    """Batches of 23 and 2,000 steps for each of 14 heads, on 1,068 complete rows of 30,162."""

    def proven(rate):
        steps = SampledGaussianEvent(
            rate=rate, noise_multiplier=0.8412780, steps=14 * 2000, discrete=False
        )
        return epsilon_of([steps], 1e-6)

    assert proven(23 / 30_162) == pytest.approx(1.0, abs=1e-3)
    assert proven(23 / 1_068) > 20
