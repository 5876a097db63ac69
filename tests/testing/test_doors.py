"""The kit checks whatever answers through a door: statistics, estimators and private training."""

import re
from functools import partial

import numpy as np
import pytest

from missdp.accounting import (
    Budget,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.errors import CheckFailedError, ParameterError
from missdp.mechanisms import Door, Noise, Training
from missdp.mechanisms.noise import Selection
from missdp.mechanisms.smooth import Bounded, ReleasedScale, plan_smooth
from missdp.pricing import PrivateLogisticRegression, PrivateMean
from missdp.pricing.questions import VectorNoise
from missdp.sources import MemorySource, strategy_named
from missdp.statistics import ImputedStatistics, KNNImputation
from missdp.statistics.imputation import _Profile
from missdp.testing import (
    TINY,
    Claim,
    Recorder,
    audit,
    canary,
    check_non_interference,
    check_sensitivity,
    check_synthesizer,
)
from testing import examples

FILLED = KNNImputation(impute=("alter", "ok"), match_on="score")


def statistics(witness, table):
    """Three questions, of imputed attributes and of others."""
    asked = ImputedStatistics(table, FILLED, budget=Budget(100.0), random_state=witness)
    return asked, (
        asked.count(where="alter > 50", epsilon=1.0),
        asked.mean("alter", where="score > 0.5", epsilon=2.0),
        asked.histogram("ok", epsilon=1.0),
    )


def charged(witness, table):
    return statistics(witness, table)[0].budget


def answers(witness, table):
    asked, found = statistics(witness, table)
    return found, repr(asked)


def telling(witness, table):
    return answers(witness, table), len(table)


KEPT = []


def hiding(witness, table):
    KEPT[:] = [len(table)]
    return answers(witness, table)


def failure(check, run, **more):
    with pytest.raises(CheckFailedError) as caught:
        check(run, **more)
    return str(caught.value)


def test_statistics_keep_their_promises_and_what_breaks_them_is_found(monkeypatch):
    report = check_sensitivity(charged, trials=12)
    assert report.passed
    assert not report.unchecked
    assert "answers, " in report.findings[-1].detail
    assert check_non_interference(answers, pairs=["one hole", "full and empty"])
    for leak, seen in ((telling, "differs with the rows: result[1]"), (hiding, ".KEPT")):
        assert seen in failure(check_non_interference, leak, pairs=["two tables"])
    monkeypatch.setattr(_Profile, "smooth_bound", lambda self, *, own, donee, beta: own / 2)
    assert "its private bound is" in failure(check_sensitivity, charged, trials=8)


def replaced(trials=8):
    """Tables that differ in one row, every second time in its holes."""
    rng = np.random.default_rng(0)
    for trial in range(trials):
        rows = rng.normal(size=(9, 2))
        other = rows.copy()
        rows[3], other[3] = (1.0, 0.0), (np.nan, 1e9) if trial % 2 else (-1.0, 0.0)
        yield rows, other


def fitted_mean(witness, rows):
    return PrivateMean(noise_multiplier=4.0, delta=1e-6, random_state=witness).fit(rows)


def test_an_estimator_keeps_its_promises_and_a_wrong_sensitivity_is_found(monkeypatch):
    report = check_sensitivity(fitted_mean, pairs=replaced())
    assert [found.passed for found in report.findings] == [True, True]
    holes = np.ones((9, 2)), np.full((9, 2), np.nan)
    tables = {"replaced": next(iter(replaced())), "holes": holes}

    def shown(witness, rows):
        fitted = fitted_mean(witness, rows)
        return fitted.mean_, fitted.guarantee_.to_dict()

    assert check_non_interference(shown, tables=tables).passed
    law = VectorNoise.__init__

    def wrong(self, kind, scale, sensitivity, whole=False):
        law(self, kind, scale, sensitivity / 2, whole)

    monkeypatch.setattr(VectorNoise, "__init__", wrong)
    assert "one row moves" in failure(check_sensitivity, fitted_mean, pairs=replaced())


@pytest.mark.parametrize(
    ("how", "case", "why"),
    [
        ({"method": "iteration"}, "regression, SecretStop", ""),
        ({"n_iter": 3}, "regression", "3 answers rest on 1 charges"),
    ],
)
def test_what_cannot_be_checked_is_never_called_passed(how, case, why):
    """A last iterate tells nothing; answers that share a charge are left to a proof."""

    def regression(witness, rows):
        facts = {"noise_multiplier": 30.0, "delta": 1e-6, "random_state": witness}
        return PrivateLogisticRegression(**how, **facts).fit(rows, np.arange(9) % 2)

    report = check_sensitivity(regression, pairs=replaced(2))
    assert len(report.findings) == 2  # and what else was checked
    (unchecked,) = report.unchecked
    assert (unchecked.case, unchecked.passed) == (case, False)
    assert why in unchecked.detail
    for words in ("NOT CHECKED", "1 not checked"):
        assert words in str(report)


def longest(codes):
    return 9.0 * (codes["x"] == 1)[:, None]


def trained(witness, table, rate=1.0, steps=3):
    plan = Training(rate=rate, steps=steps, clip=1.0, noise_multiplier=0.5)
    budget = Budget(1000.0, 1e-6, schedule="adaptive", currency="renyi")
    door = Door(MemorySource(table), strategy_named("joint"), budget=budget, noise=witness)
    training = door.train(plan, longest, (), rows_at_once=2)
    while training.steps_left:
        training.step()
    return budget


def one_step(witness, table):
    trained(witness, table, steps=1)


@pytest.mark.parametrize("rate", [1.0, 0.5])
def test_training_keeps_its_promises(rate):
    run = partial(trained, rate=rate)
    report = check_sensitivity(run, schema=TINY, trials=8)
    assert report.passed
    assert "3 answers, 1 charges" in report.findings[-1].detail


def test_the_audit_of_training_has_power():
    """The row's gradient has the clipping norm."""
    tables = canary(TINY, 12)
    sound = audit(one_step, *tables, trials=60)
    assert not sound.flagged
    assert sound.mu_claim == pytest.approx(2.0, rel=0.02)
    assert sound.ratio > 0.7
    assert audit(one_step, *tables, trials=60, scale=0.4, claim=Claim((), mu=2.0)).flagged


@pytest.mark.slow
def test_noise_of_training_thirty_percent_too_small_is_flagged():
    tables = canary(TINY, 12)
    assert not audit(one_step, *tables, trials=800).flagged
    assert audit(one_step, *tables, trials=800, scale=0.7).flagged


def test_a_family_that_trains_keeps_its_promises_and_one_that_looks_aside_is_found():
    assert check_sensitivity(examples.Trained, trials=12).passed
    assert check_non_interference(examples.Trained, pairs=["one hole"]).passed
    message = failure(check_sensitivity, examples.LookingAside, trials=12)
    assert "one row changes the gradients of other rows" in message


@pytest.mark.slow
def test_a_family_that_trains_keeps_all_of_them():
    report = check_synthesizer(examples.Trained, trials=12)
    assert report.passed
    assert not report.unchecked


counted = examples.counted
ROWS = [(range(9), range(10))]


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (examples.Unknown(), "the law Unknown.*exceeds.event, exact, other"),
        (Noise("laplace", 1.4), "at least 2 was charged for"),
        (Noise("gaussian", 2.0), "does not say what Gaussian noise costs"),
    ],
)
def test_noise_that_says_nothing_or_is_smaller_than_charged_for_fails(law, words):
    assert check_sensitivity(counted(Noise("laplace", 2.0)), pairs=ROWS).passed
    assert re.search(words, failure(check_sensitivity, counted(law), pairs=ROWS))


def test_a_function_that_does_not_use_the_witness_fails_and_one_without_charges_is_not_checked():
    assert "nothing was answered" in failure(check_sensitivity, lambda w, t: 0, pairs=ROWS)
    tables = {"two": ROWS[0]}
    assert "nothing was answered" in failure(check_non_interference, lambda w, t: 0, tables=tables)
    run = counted(Noise("laplace", 2.0))
    report = check_sensitivity(lambda w, t: run(w, t) and None, pairs=ROWS)
    assert [f.checked for f in report.findings] == [True, False]
    assert "return the Budget" in report.unchecked[0].detail


def test_options_of_families_are_refused_for_functions():
    for check in (check_sensitivity, check_non_interference):
        with pytest.raises(ParameterError, match="strategies"):
            check(statistics, strategies=["joint"])
        with pytest.raises(ParameterError, match="run\\(witness, table\\)"):
            check("statistics")


SMOOTH_LAW, TELLING_LAW = plan_smooth(1.0), plan_smooth(1.0, tells=True)
BEHIND, ALIKE, FAR = Bounded((5,), 3.0), Bounded((5,), 3.3), Bounded((9,), 4.0)
TOLD, LONGER = Bounded((5, 0), 3.0), Bounded((8, 0), 3.5)
GAUSSIAN, VECTOR = Noise("gaussian", 2.0), VectorNoise("gaussian", 2.0, sensitivity=1.0)
SCALED = ReleasedScale(4.0, 1e-9).noise(0.5, own=1, donee=1)
STEP = {"rate": 1.0, "noise_multiplier": 1.0, "steps": 1, "discrete": True}


@pytest.mark.parametrize(
    ("law", "event", "near", "far"),
    [
        (Noise("laplace", 2.0), PureEvent(epsilon=0.5), ([0], [1]), ([0, 0], [1, 1])),
        (GAUSSIAN, GaussianEvent(sensitivity=1, sigma=2.0), ([0], [1]), ([0, 0], [1, 1])),
        (GAUSSIAN, ZCDPEvent(rho=0.125), ([0], [1]), ([0], [2])),
        (Selection(1.0, 1.0), SelectionEvent(epsilon=1.0), ([0, 1], [1, 0]), ([0.0], [1.1])),
        (VECTOR, ZCDPEvent(rho=0.126), ([0.0], [1.0]), ([0.0], [1.1])),
        (SMOOTH_LAW, PureEvent(epsilon=1.0), (BEHIND, Bounded((8,), 3.2)), (BEHIND, FAR)),
        (SMOOTH_LAW, PureEvent(epsilon=1.0), (BEHIND, ALIKE), (BEHIND, Bounded((5,), 3.5))),
        (TELLING_LAW, PureEvent(epsilon=1.0), (TOLD, LONGER), (TOLD, Bounded((5, 0), 3.6))),
        (SCALED, ZCDPEvent(rho=0.5), ([0], [5]), ([0], [6])),
    ],
)
def test_every_law_says_what_is_too_far(law, event, near, far):
    near, far = (
        [value if isinstance(value, Bounded) else np.array(value) for value in pair]
        for pair in (near, far)
    )
    for one, other in ((0, 1), (1, 0)):
        assert law.exceeds(event, near[one], near[other]) is None
        assert law.exceeds(event, far[one], far[other])
    assert law.exceeds(SampledGaussianEvent(**STEP), *far)


def test_smooth_noise_is_scaled_too():
    behind, drawn = Bounded((100,), 5.0), []
    for scale in (1.0, 0.5):
        recorders = (Recorder(seed, scale=scale) for seed in range(8))
        drawn.append([float(each.drawn(SMOOTH_LAW, behind)[0]) - 100 for each in recorders])
    assert np.allclose(drawn[1], np.array(drawn[0]) / 2)
