"""The kit checks statistics, estimators and other sessions."""

import re

import numpy as np
import pytest

from missdp.accounting import (
    Filter,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectionEvent,
    ZCDPEvent,
)
from missdp.errors import CheckFailedError, ParameterError
from missdp.pricing import PrivateLogisticRegression, PrivateMean, TestPlan
from missdp.pricing.private_test import ConditionalAnswer, TestedNoise
from missdp.pricing.queries import SampledNoise, VectorNoise
from missdp.session import Noise
from missdp.session.mechanisms import Selection
from missdp.statistics import ImputedStatistics, KNNImputation
from missdp.statistics.imputation import _Profile
from missdp.statistics.smooth_sensitivity import Bounded, calibrate_smooth_noise
from missdp.testing import (
    RecordingNoise,
    check_non_interference,
    check_sensitivity,
    undercharges,
)
from testing import examples

FILLED = KNNImputation(impute=("alter", "ok"), match_on="score")


def statistics(table):
    """Three questions, of imputed attributes and of others."""
    question = ImputedStatistics(table, FILLED, budget=Filter(100.0), random_state=0)
    return question, (
        question.count(where="alter > 50", epsilon=1.0),
        question.mean("alter", where="score > 0.5", epsilon=2.0),
        question.histogram("ok", epsilon=1.0),
    )


def charged(table):
    return statistics(table)[0].budget


def answers(table):
    question, result = statistics(table)
    return result, repr(question)


def telling(table):
    return answers(table), len(table)


KEPT = []


def hiding(table):
    KEPT[:] = [len(table)]
    return answers(table)


def failure(check, run, **more):
    with pytest.raises(CheckFailedError) as caught:
        check(run, **more)
    return str(caught.value)


def test_statistics_pass_and_broken_statistics_fail(monkeypatch):
    report = check_sensitivity(charged, trials=12)
    assert report.passed
    assert not report.unchecked
    assert "answers, " in report.findings[-1].detail
    assert check_non_interference(answers, pairs=["one missing cell", "full and empty"])
    for leak, observed in ((telling, "differs with the rows: result[1]"), (hiding, ".KEPT")):
        assert observed in failure(check_non_interference, leak, pairs=["two tables"])
    monkeypatch.setattr(
        _Profile,
        "smooth_bound",
        lambda self, *, row_weight, recipient_weight, beta: row_weight / 2,
    )
    assert "its private bound is" in failure(check_sensitivity, charged, trials=8)


def replaced(trials=8):
    """Tables that differ in one row, every second time in its missing cells."""
    rng = np.random.default_rng(0)
    for trial in range(trials):
        rows = rng.normal(size=(9, 2))
        other = rows.copy()
        rows[3], other[3] = (1.0, 0.0), (np.nan, 1e9) if trial % 2 else (-1.0, 0.0)
        yield rows, other


def fitted_mean(rows):
    return PrivateMean(noise_multiplier=4.0, delta=1e-6, random_state=0).fit(rows)


def test_estimator_passes_and_a_wrong_sensitivity_fails(monkeypatch):
    report = check_sensitivity(fitted_mean, pairs=replaced())
    assert [result.passed for result in report.findings] == [True, True]
    missing = np.ones((9, 2)), np.full((9, 2), np.nan)
    tables = {"replaced": next(iter(replaced())), "holes": missing}

    def shown(rows):
        fitted = fitted_mean(rows)
        return fitted.mean_, fitted.guarantee_.to_dict()

    assert check_non_interference(shown, tables=tables).passed
    law = VectorNoise.__init__

    def wrong(self, kind, scale, sensitivity, total=False):
        law(self, kind, scale, sensitivity / 2, total)

    monkeypatch.setattr(VectorNoise, "__init__", wrong)
    assert "one row moves" in failure(check_sensitivity, fitted_mean, pairs=replaced())


@pytest.mark.parametrize("method", ["gd", "sgd"])
def test_unchecked_promise_is_never_passed(method):
    """Answers that share a charge are left to a proof."""

    def regression(rows):
        facts = {"noise_multiplier": 30.0, "delta": 1e-6, "random_state": 0, "n_iter": 3}
        return PrivateLogisticRegression(method=method, **facts).fit(rows, np.arange(9) % 2)

    report = check_sensitivity(regression, pairs=replaced(2))
    assert len(report.findings) == 2  # and other checked promises
    (unchecked,) = report.unchecked
    assert (unchecked.case, unchecked.passed) == ("regression", False)
    assert "3 answers rest on 1 charges" in unchecked.detail
    for words in ("NOT CHECKED", "1 not checked"):
        assert words in str(report)


counted = examples.counted
ROWS = [(range(9), range(10))]


@pytest.mark.parametrize(
    ("law", "words"),
    [
        (examples.Unknown(), "the mechanism Unknown.*undercharges.register.Unknown"),
        (Noise("laplace", 1.4), "at least 2 was charged for"),
        (Noise("gaussian", 2.0), "does not say what Gaussian noise costs"),
    ],
)
def test_noise_that_says_nothing_or_is_smaller_than_charged_for_fails(law, words):
    assert check_sensitivity(counted(Noise("laplace", 2.0)), pairs=ROWS).passed
    assert re.search(words, failure(check_sensitivity, counted(law), pairs=ROWS))


def test_a_function_that_opens_no_session_fails_and_one_without_charges_is_not_checked():
    assert "nothing was answered" in failure(check_sensitivity, lambda t: 0, pairs=ROWS)
    tables = {"two": ROWS[0]}
    assert "nothing was answered" in failure(check_non_interference, lambda t: 0, tables=tables)
    run = counted(Noise("laplace", 2.0))
    report = check_sensitivity(lambda t: run(t) and None, pairs=ROWS)
    assert [f.checked for f in report.findings] == [True, False]
    assert "return the budget" in report.unchecked[0].detail


def test_options_of_families_are_refused_for_functions():
    for check in (check_sensitivity, check_non_interference):
        with pytest.raises(ParameterError, match="strategies"):
            check(statistics, strategies=["joint"])
        with pytest.raises(ParameterError, match="run\\(table\\)"):
            check("statistics")


SMOOTH = calibrate_smooth_noise(1.0)
BEHIND, ALIKE, FAR = Bounded((5, 0), 3.0), Bounded((5, 0), 3.5), Bounded((9, 0), 4.0)
GAUSSIAN, VECTOR = Noise("gaussian", 2.0), VectorNoise("gaussian", 2.0, sensitivity=1.0)
SAMPLED = SampledNoise(VectorNoise("gaussian", 2.0, sensitivity=0.5), 3, 2)
PLAN = TestPlan(1.0, 9.0, 1e-6, None, (None, PureEvent(epsilon=1.0 + 1e-5)))
TESTED = TestedNoise(PLAN, VECTOR)


def behind_test(distance, value):
    return ConditionalAnswer(distance, lambda: np.array([value]))


def of_rows(*gradients):
    """Mean gradients of a sample of rows, as a function of the sample."""
    return lambda sample: np.array(gradients)[sample, None].mean(axis=0)


STEP = {"rate": 1.0, "noise_multiplier": 1.0, "steps": 1}


@pytest.mark.parametrize(
    ("law", "event", "near", "far"),
    [
        (Noise("laplace", 2.0), PureEvent(epsilon=0.5), ([0], [1]), ([0, 0], [1, 1])),
        (GAUSSIAN, GaussianEvent(sensitivity=1, sigma=2.0), ([0], [1]), ([0, 0], [1, 1])),
        (GAUSSIAN, ZCDPEvent(rho=0.125), ([0], [1]), ([0], [2])),
        (Selection(1.0, 1.0), SelectionEvent(epsilon=1.0), ([0, 1], [1, 0]), ([0.0], [1.1])),
        (VECTOR, ZCDPEvent(rho=0.126), ([0.0], [1.0]), ([0.0], [1.1])),
        (
            SAMPLED,
            ZCDPEvent(rho=0.126),
            (of_rows(0, 0, 9), of_rows(1, 0, 9)),
            (of_rows(0, 0, 9), of_rows(2, 0, 9)),
        ),
        (
            TESTED,
            ZCDPEvent(rho=0.126),
            (behind_test(1, 0.0), behind_test(2, 1.0)),
            (behind_test(1, 0.0), behind_test(3, 0.0)),
        ),
        (
            TESTED,
            ZCDPEvent(rho=0.126),
            (behind_test(1, 0.0), behind_test(1, 0.0)),
            (behind_test(1, 0.0), behind_test(1, 1.1)),
        ),
        (SMOOTH, PureEvent(epsilon=1.0), (BEHIND, Bounded((8, 0), 3.2)), (BEHIND, FAR)),
        (SMOOTH, PureEvent(epsilon=1.0), (BEHIND, ALIKE), (BEHIND, Bounded((5, 0), 3.6))),
    ],
)
def test_every_mechanism_has_a_check(law, event, near, far):
    near, far = (
        [np.array(value) if isinstance(value, list) else value for value in pair]
        for pair in (near, far)
    )
    for one, other in ((0, 1), (1, 0)):
        assert undercharges(law, event, near[one], near[other]) is None
        assert undercharges(law, event, far[one], far[other])
    assert undercharges(law, SampledGaussianEvent(**STEP), *far)


def test_smooth_noise_is_scaled_too():
    behind, drawn = Bounded((100, 0), 5.0), []
    for scale in (1.0, 0.5):
        recorders = (RecordingNoise(seed, scale=scale) for seed in range(8))
        drawn.append([float(each.drawn(SMOOTH, behind)[0]) - 100 for each in recorders])
    assert np.allclose(drawn[1], np.array(drawn[0]) / 2)
