"""Audits are right: ratios, claims, false alarms and power."""

import math

import numpy as np
import pytest
from audit_samples import audit_samples
from scipy.stats import norm

from missdp.accounting import GaussianEvent, LaplaceEvent, PureEvent, SelectionEvent, ZCDPEvent
from missdp.errors import ParameterError
from missdp.session import Noise
from missdp.testing import Claim, audit, canary, judge, log_ratio, mu_of
from missdp.testing.example_tables import TINY
from testing import examples


@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_log_ratios_of_noise_are_those_of_its_mass(kind):
    mechanism, grid = Noise(kind, 1.7), np.arange(-400, 401)
    logs = -np.abs(grid) / 1.7 if kind == "laplace" else -(grid**2) / (2 * 1.7**2)
    exact, other = np.array([1, 2]), np.array([0, 4])
    for answer in (-3, 0, 5):
        direct = (logs[400 + answer - exact] - logs[400 + answer - other]).sum()
        result = log_ratio(mechanism, np.array([answer, answer]), exact, other)
        assert result == pytest.approx(direct)
        assert result == -log_ratio(mechanism, np.array([answer, answer]), other, exact)


@pytest.mark.long
def test_claims_of_pure_and_gaussian_mechanisms_are_their_trade_offs():
    pure = Claim.of([PureEvent(epsilon=1.0)])
    corner = math.e / (1 + math.e)
    assert pure.max_hits(1 - corner) == pytest.approx(corner, rel=1e-3)
    assert pure.max_hits(0.01) == pytest.approx(0.01 * math.e, rel=1e-3)
    gaussian = Claim.of([GaussianEvent(sensitivity=1.0, sigma=0.5, discrete=False)])
    for alarms in (0.001, 0.1, 0.5, 0.9):
        assert gaussian.max_hits(alarms) == pytest.approx(norm.cdf(2 + norm.ppf(alarms)), rel=1e-3)
    filtered = Claim.of([ZCDPEvent(rho=2.0)])
    assert filtered.max_hits(0.1) > gaussian.max_hits(0.1)  # of which less is known


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 3.0, 40.0])
def test_the_mu_of_a_discrete_gaussian_covers_every_threshold(sigma):
    mu = mu_of(GaussianEvent(sensitivity=1, sigma=sigma))
    grid = np.arange(-600, 601)
    mass = np.exp(-(grid**2) / (2 * sigma**2))
    mass /= mass.sum()
    for k in range(-round(6 * sigma), round(6 * sigma) + 2):
        alarms, hits = mass[grid >= k].sum(), mass[grid >= k - 1].sum()
        if alarms > 1e-12 and hits < 1 - 1e-12:
            assert hits <= norm.cdf(mu + norm.ppf(alarms)) * (1 + 1e-9)
    assert mu >= 1 / sigma
    assert mu <= (1 / sigma) * (1 + 0.1 / sigma**2)


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 4.0])
def test_the_mu_of_a_selection_covers_every_pair_of_bounded_range(epsilon):
    mu = mu_of(SelectionEvent(epsilon=epsilon))
    for t in np.linspace(0, epsilon, 50)[1:-1]:
        alarms = (1 - math.exp(t - epsilon)) / (math.exp(t) - math.exp(t - epsilon))
        assert alarms * math.exp(t) <= norm.cdf(mu + norm.ppf(alarms)) * (1 + 1e-9)
    assert epsilon / 2.1 < mu < mu_of(PureEvent(epsilon=epsilon))
    randomised = 2 * norm.ppf(1 / (1 + math.exp(-epsilon)))  # response: discrete Laplace noise
    assert mu_of(LaplaceEvent(sensitivity=1, scale=1 / epsilon)) == pytest.approx(randomised)


def test_a_correct_mechanism_is_seldom_flagged_and_a_weak_one_nearly_always():
    def verdicts(mu):
        rng = np.random.default_rng(0)
        for _ in range(60):
            draws = rng.standard_normal((2, 400))
            yield judge(draws[0] + mu, draws[1], Claim((), mu=2.0))

    sound, weak = (list(verdicts(mu)) for mu in (2.0, 2.0 / 0.7))
    assert sum(result.flagged for result in sound) <= 3  # 5 % and less, by the confidence
    assert sum(result.mu_low > 2.0 for result in sound) <= 3
    assert np.mean([result.flagged for result in weak]) >= 0.95
    assert np.mean([result.mu_emp for result in sound]) == pytest.approx(2.0, abs=0.1)


def options(rows, times=1):
    event, mechanism = GaussianEvent(sensitivity=1, sigma=1.0), Noise("gaussian", 1.0)
    for _ in range(times):
        examples.counted(mechanism, event)(rows)


@pytest.mark.long
def test_every_run_with_a_session_can_be_audited():
    rows = list(range(9)), list(range(10))
    result = audit(options, *rows, trials=100)
    assert not result.flagged
    assert result.mu_claim == pytest.approx(1.0, abs=0.06)
    assert result.ratio > 0.8
    assert result.to_dict()["flagged"] is False
    assert "not refuted" in str(result)
    # Nine answers for the price of one: a mu of 3.
    twice = audit(lambda r: options(r, 9), *rows, claim=Claim((), mu=1.0), trials=40)
    assert twice.flagged


def test_a_question_that_only_one_table_asks_gives_it_away():
    result = audit(lambda r: options(r, 1 + len(r) % 2), range(9), range(10), trials=30)
    assert result.flagged
    assert (result.hits, result.alarms) == (1.0, 0.0)


def test_unusable_mechanisms_are_named_or_raise():
    run = examples.counted(examples.Unknown())
    assert audit(run, range(9), range(10), trials=20).blind == ("Unknown",)
    with pytest.raises(ParameterError, match="cannot be scaled"):
        audit(run, range(9), range(10), trials=20, scale=0.7)


@pytest.mark.long
def test_samples_of_a_library_can_be_audited():
    frames = [table.to_native("pandas") for table in canary(TINY, 12)]
    claim = Claim(((0.5, 0.0),))

    def bootstrap(frame, seed):
        return frame.sample(len(frame), replace=True, random_state=seed)

    def private(frame, seed):
        model = examples.Histograms(epsilon=0.5, random_state=seed, n_rows=12)
        return model.fit(frame, schema=TINY).sample(30)

    def rare(sample):
        return (sample["x"] == "rare").sum()

    assert audit_samples(bootstrap, *frames, claim=claim, trials=120).flagged
    assert not audit_samples(private, *frames, claim=claim, trials=40).flagged
    reference = audit_samples(bootstrap, *frames, claim=claim, trials=60, statistic=rare)
    assert reference.mu_emp > 1.0


def test_bad_parameters_are_refused():
    for bad in ({"trials": 5}, {"confidence": 1.0}, {"scale": 0.0}):
        with pytest.raises(ParameterError):
            audit(options, [], [1], **bad)
    with pytest.raises(ParameterError):
        audit_samples(lambda t, s: t, [], [1], claim=Claim(()), trials=3)


@pytest.mark.parametrize(
    ("runs", "confidence", "message"),
    [
        ((0, 0), 0.95, "at least two"),
        ((1, 1), 0.95, "at least two"),
        ((8, 7), 0.95, "equal number"),
        ((8, 8), 1.5, "confidence"),
        ((8, 8), 1.0, "confidence"),
        ((8, 8), float("nan"), "confidence"),
    ],
)
def test_a_verdict_needs_runs_and_a_confidence(runs, confidence, message):
    present, absent = map(np.zeros, runs)
    with pytest.raises(ParameterError, match=message):
        judge(present, absent, Claim((), mu=1.0), confidence=confidence)
