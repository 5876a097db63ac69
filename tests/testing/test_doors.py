"""The kit checks whatever answers through a door: statistics, estimators and private training."""

import re

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
from missdp.errors import CheckFailedError, ParameterError, UnprovenError
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
    budget = Budget(100.0)
    asked = ImputedStatistics(table, FILLED, budget=budget, random_state=witness)
    answers = (
        asked.count(where="alter > 50", epsilon=1.0),
        asked.mean("alter", where="score > 0.5", epsilon=2.0),
        asked.histogram("ok", epsilon=1.0),
    )
    return asked, answers


def charged_for_statistics(witness, table):
    return statistics(witness, table)[0].budget


def answers_of_statistics(witness, table):
    asked, answers = statistics(witness, table)
    return answers, repr(asked)


def failure(check, run, **more):
    with pytest.raises(CheckFailedError) as caught:
        check(run, **more)
    return str(caught.value)


def test_statistics_keep_their_promises():
    report = check_sensitivity(charged_for_statistics, trials=12)
    assert report.passed
    assert not report.unchecked
    assert "answers, " in report.findings[-1].detail
    assert check_non_interference(answers_of_statistics, pairs=["one hole", "full and empty"])


def test_statistics_whose_bound_is_too_small_are_found(monkeypatch):

    monkeypatch.setattr(_Profile, "smooth_bound", lambda self, *, own, donee, beta: own / 2)
    assert "its private bound is" in failure(check_sensitivity, charged_for_statistics, trials=8)


def telling_statistics(witness, table):
    return answers_of_statistics(witness, table), len(table)


def test_what_is_shown_beside_answers_is_found():
    message = failure(check_non_interference, telling_statistics, pairs=["two tables"])
    assert "differs with the rows: result[1]" in message


KEPT = []


def hiding_statistics(witness, table):
    KEPT[:] = [len(table)]
    return answers_of_statistics(witness, table)


def test_what_is_kept_outside_is_found():
    message = failure(check_non_interference, hiding_statistics, pairs=["two tables"])
    assert ".KEPT" in message


def replaced(trials=8):
    """Tables that differ in one row, every second time in its holes."""
    rng = np.random.default_rng(0)
    for trial in range(trials):
        rows = rng.normal(size=(9, 2))
        other = rows.copy()
        rows[3], other[3] = (1.0, 0.0), (-1.0, 0.0)
        if trial % 2:
            other[3] = (np.nan, 1e9)
        yield rows, other


def fitted_mean(witness, rows):
    return PrivateMean(noise_multiplier=4.0, delta=1e-6, random_state=witness).fit(rows)


def shown_mean(witness, rows):
    fitted = fitted_mean(witness, rows)
    return fitted.mean_, fitted.guarantee_.to_dict()


def test_an_estimator_keeps_its_promises():
    report = check_sensitivity(fitted_mean, pairs=replaced())
    assert report.passed
    assert [f.passed for f in report.findings] == [True, True]
    tables = {
        "replaced": next(iter(replaced())),
        "holes": (np.ones((9, 2)), np.full((9, 2), np.nan)),
    }
    assert check_non_interference(shown_mean, tables=tables).passed


def test_an_estimator_with_a_wrong_sensitivity_is_found(monkeypatch):
    law = VectorNoise.__init__

    def wrong(self, kind, scale, sensitivity, whole=False):
        law(self, kind, scale, sensitivity / 2, whole)

    monkeypatch.setattr(VectorNoise, "__init__", wrong)
    assert "one row moves" in failure(check_sensitivity, fitted_mean, pairs=replaced())


def iterated(witness, rows):
    model = PrivateLogisticRegression(
        noise_multiplier=30.0, method="iteration", delta=1e-6, random_state=witness
    )
    return model.fit(rows, np.arange(9) % 2)


def test_what_cannot_be_checked_is_never_called_passed():
    report = check_sensitivity(iterated, pairs=replaced(2))
    assert [f.case for f in report.unchecked] == ["iterated, SecretStop"]
    assert not any(f.passed for f in report.unchecked)
    assert "NOT CHECKED" in str(report)
    assert "1 not checked" in str(report)
    assert len(report.findings) == 2  # and that each charge pays for one read


def gradients(witness, rows):
    model = PrivateLogisticRegression(
        noise_multiplier=30.0, n_iter=3, delta=1e-6, random_state=witness
    )
    return model.fit(rows, np.arange(9) % 2)


def test_answers_that_share_a_charge_are_left_to_a_proof():
    report = check_sensitivity(gradients, pairs=replaced(2))
    assert [f.checked for f in report.findings] == [True, False]
    assert "3 answers rest on 1 charges" in report.unchecked[0].detail


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


def sampled(witness, table):
    return trained(witness, table, rate=0.5)


def one_step(witness, table):
    trained(witness, table, steps=1)


@pytest.mark.parametrize("run", [trained, sampled])
def test_training_keeps_its_promises(run):
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


def test_a_family_that_trains_keeps_its_promises():
    family = examples.TrainedLogistic
    assert check_sensitivity(family, trials=12).passed
    assert check_non_interference(family, pairs=["one hole"]).passed


@pytest.mark.slow
def test_a_family_that_trains_keeps_all_of_them():
    report = check_synthesizer(examples.TrainedLogistic, trials=12)
    assert report.passed
    assert not report.unchecked


def test_a_gradient_that_looks_at_other_rows_is_found():
    message = failure(check_sensitivity, examples.LookingAside, trials=12)
    assert "one row changes the gradients of other rows" in message


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


def test_a_function_that_does_not_use_the_witness_fails():
    assert "nothing was answered" in failure(check_sensitivity, lambda w, t: 0, pairs=ROWS)
    tables = {"two": ROWS[0]}
    assert "nothing was answered" in failure(check_non_interference, lambda w, t: 0, tables=tables)


def test_charges_that_are_not_shown_are_not_checked():
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
GAUSSIAN, VECTOR = Noise("gaussian", 2.0), VectorNoise("gaussian", 2.0, sensitivity=1.0)
SCALED = ReleasedScale(4.0, 1e-9).noise(0.5, own=1, donee=1)
STEP = {"rate": 1.0, "noise_multiplier": 1.0, "steps": 1, "discrete": True}


@pytest.mark.parametrize(
    ("law", "event", "near", "far"),
    [
        (Noise("laplace", 2.0), PureEvent(epsilon=0.5), ([0], [1]), ([0, 0], [1, 1])),
        (GAUSSIAN, GaussianEvent(sensitivity=1, sigma=2.0), ([0], [1]), ([0, 0], [1, 1])),
        (GAUSSIAN, ZCDPEvent(rho=0.125), ([0], [1]), ([0], [2])),
        (
            Selection(1.0, 1.0),
            SelectionEvent(epsilon=1.0),
            ([0.0, 1.0], [1.0, 0.0]),
            ([0.0], [1.1]),
        ),
        (VECTOR, ZCDPEvent(rho=0.126), ([0.0], [1.0]), ([0.0], [1.1])),
        (SMOOTH_LAW, PureEvent(epsilon=1.0), (BEHIND, Bounded((8,), 3.2)), (BEHIND, FAR)),
        (SMOOTH_LAW, PureEvent(epsilon=1.0), (BEHIND, ALIKE), (BEHIND, Bounded((5,), 3.5))),
        (
            TELLING_LAW,
            PureEvent(epsilon=1.0),
            (Bounded((5, 0), 3.0), Bounded((8, 0), 3.5)),
            (Bounded((5, 0), 3.0), Bounded((5, 0), 3.6)),
        ),
        (SCALED, ZCDPEvent(rho=0.5), ([0], [5]), ([0], [6])),
    ],
)
def test_every_law_says_what_is_too_far(law, event, near, far):
    as_exact = [
        [value if isinstance(value, Bounded) else np.array(value) for value in pair]
        for pair in (near, far)
    ]
    for one, other in (as_exact[0], as_exact[0][::-1]):
        assert law.exceeds(event, one, other) is None
    for one, other in (as_exact[1], as_exact[1][::-1]):
        assert law.exceeds(event, one, other)
    assert law.exceeds(SampledGaussianEvent(**STEP), *as_exact[1])


def test_smooth_noise_is_scaled_too():
    behind = Bounded((100,), 5.0)
    values = [
        np.array([float(Recorder(k, scale=s).drawn(SMOOTH_LAW, behind)[0]) for k in range(8)]) - 100
        for s in (1.0, 0.5)
    ]
    assert np.allclose(values[1], values[0] / 2)


def test_a_last_iterate_tells_nothing():
    from missdp.pricing import Loss, RowDomain, SecretStop

    loss = Loss.logistic(radius=1.0, coefficient_norm=1.0)
    domain = RowDomain(rows=2, columns=1)
    law = SecretStop(domain=domain, loss=loss, multiplier=1.0, rate=0.1)
    with pytest.raises(UnprovenError):
        law.exceeds(ZCDPEvent(rho=1.0), None, None)
