"""Recordings see every answer while they are installed, and leave nothing behind."""

import threading
from contextlib import nullcontext, suppress

import numpy as np
import pytest

from missdp import Filter, PrivBayes
from missdp.accounting import ExplicitSeed, LaplaceEvent
from missdp.errors import ParameterError
from missdp.pricing import PricedPipeline, PrivateMean, propose_test_release
from missdp.session import Noise, NoiseSource, SecureNoise, SeededNoise, Session
from missdp.statistics import ImputedStatistics, KNNImputation, open_table
from missdp.statistics.groups import ParallelGroups
from missdp.testing import (
    SCHEMA,
    RecordingNoise,
    ReplayedNoise,
    UnknownMechanismError,
    example_table,
    log_ratio,
    undercharges,
)
from missdp.testing.recording import QuestionDiffersError
from testing import examples

LAPLACE = Noise("laplace", 2.0)
EVENT = LaplaceEvent(sensitivity=1, scale=2.0)
TABLE = example_table(SCHEMA, 60)
FILLED = KNNImputation(impute="alter", match_on="score")


def opened(epsilon=100.0, seed=0, rows=range(9)):
    rows = examples.OneCount(rows, EVENT)
    return Session(rows, budget=Filter(epsilon), noise=NoiseSource.from_seed(seed))


def count(session):
    return session.measure("how many", LAPLACE)


def exact_of(noise):
    return [int(answer.exact[0]) for answer in noise.answers]


def patched():
    return Session.__dict__["_release"], NoiseSource.__dict__["from_seed"]


def test_recording_ends_restores_both_functions():
    before = patched()
    with RecordingNoise(0) as noise:
        assert all(a is not b for a, b in zip(before, patched(), strict=True))
        assert NoiseSource.from_seed(5) is noise
    assert patched() == before
    assert isinstance(NoiseSource.from_seed(), SecureNoise)


def test_recording_ends_by_an_error_restores_both_functions():
    before = patched()
    with pytest.raises(ZeroDivisionError), RecordingNoise(0):
        1 / 0  # noqa: B018
    assert patched() == before


def test_session_of_an_ended_recording_is_not_recorded():
    with RecordingNoise(0) as noise:
        session = opened()
        count(session)
    count(session)
    assert len(noise.answers) == 1
    assert len(session._budget.events) == 2


def test_session_of_before_is_not_recorded():
    session = opened()
    with RecordingNoise(0) as noise:
        count(session)
    assert not noise.answers
    assert type(session._noise) is SeededNoise


def test_nested_recordings_see_their_own_sessions():
    before = patched()
    with RecordingNoise(0) as outer:
        first = opened(rows=range(1))
        with RecordingNoise(1) as inner:
            count(opened(rows=range(2)))
            count(first)
        count(opened(rows=range(3)))
    assert (exact_of(outer), exact_of(inner)) == ([1, 3], [2])
    assert patched() == before


def test_recording_installed_twice_raises():
    with (
        RecordingNoise(0) as noise,
        pytest.raises(ParameterError, match="installed already"),
        noise,
    ):
        pass
    with noise:  # one after the other is fine
        count(opened())
    assert exact_of(noise) == [9]


def test_sessions_of_other_threads_keep_their_noise():
    result = []

    def elsewhere():
        session = opened(1.0, None)
        count(session)
        result.append(session._noise)

    with RecordingNoise(0) as noise:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert type(result[0]) is SecureNoise
    assert not noise.answers


def test_recorded_answers_are_charged_by_the_session():
    with RecordingNoise(0) as noise:
        session = opened(0.6, None)
        count(session)
        with pytest.raises(Exception, match="budget"):
            count(session)
    assert len(noise.answers) == len(session._budget.events) == 1


def statistics(seed):
    question = ImputedStatistics(TABLE, FILLED, budget=Filter(9.0), random_state=seed)
    question.mean("alter", epsilon=1.0)
    return question.budget.spent


def pipeline(seed):
    facts = {"rows": 60, "columns": 2, "random_state": seed}
    return PricedPipeline([], PrivateMean(noise_multiplier=9.0), **facts)


RUNS = {
    "fit": lambda seed: PrivBayes(epsilon=1.0, random_state=seed).fit(TABLE).guarantee_,
    "statistics": statistics,
    "estimator": lambda seed: (
        PrivateMean(noise_multiplier=9.0, random_state=seed).fit(np.ones((60, 2))).guarantee_
    ),
    "pipeline": lambda seed: pipeline(seed).fit(np.ones((60, 2))).guarantee_,
    "tested": lambda seed: (
        propose_test_release(pipeline(seed), np.ones((60, 2)), test_epsilon=1.0).guarantee
    ),
}


@pytest.mark.parametrize("name", RUNS)
def test_every_release_is_recorded_and_states_the_seed(name):
    with RecordingNoise(0) as noise:
        guarantee = RUNS[name](None)
    assert noise.answers
    assert ExplicitSeed() in guarantee.conditions


WRONG = (np.random.default_rng(0), SeededNoise(0), SecureNoise(), RecordingNoise(0), -1, 1.5, True)


@pytest.mark.parametrize("name", [*RUNS, "session"])
@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: type(wrong).__name__)
def test_random_state_not_a_seed_raises(name, wrong):
    session = {"session": lambda seed: open_table(TABLE, budget=Filter(1.0), random_state=seed)}
    for recording in (nullcontext(), RecordingNoise(0)):
        with recording, pytest.raises(ParameterError, match="must be None or an integer"):
            (RUNS | session)[name](wrong)


def test_random_state_numpy_integer_is_a_seed():
    for run in RUNS.values():
        assert run(np.int64(3)) == run(3)


def test_replay_caught_difference_is_raised_at_the_end():
    """Else code that catches errors could ask more of some rows, unseen."""
    with RecordingNoise(0) as noise:
        count(opened())

    def more():
        session = opened()
        count(session)
        with suppress(Exception):
            count(session)

    with (
        pytest.raises(QuestionDiffersError, match=r"answer 2 .* was not asked for before"),
        ReplayedNoise(noise),
    ):
        more()


def test_replay_repeats_answers_and_records_exact_numbers():
    with RecordingNoise(0) as noise:
        first = count(opened()).value
    with ReplayedNoise(noise) as again:
        assert count(opened(rows=range(50))).value == first
    assert exact_of(again) == [50]
    with ReplayedNoise(noise, reads=False) as unread:
        assert count(opened(rows=None)).value == first
    assert unread.answers[0].exact is None


class Special(Noise):
    """A mechanism made from one that is known."""


def test_undercharges_subclass_is_checked_as_its_base():
    near, far = (np.array([n]) for n in (1, 2))
    mechanism = Special("laplace", 2.0)
    assert undercharges(mechanism, EVENT, near, near) is None
    assert "one row moves" in undercharges(mechanism, EVENT, np.array([0]), far)
    assert log_ratio(mechanism, near, near, far) == 0.5


def test_unknown_mechanism_raises():
    groups = ParallelGroups(examples.Unknown(), 1)
    for mechanism, part in ((examples.Unknown(), 0), (groups, (0,))):
        with pytest.raises(UnknownMechanismError, match="Unknown"):
            undercharges(mechanism, EVENT, part, part)
        with pytest.raises(UnknownMechanismError, match="Unknown"):
            log_ratio(mechanism, part, part, part)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"seed": 0, "scale": 0.0}, "scale"),
        ({"seed": 0, "stop_after": 0}, "stop_after"),
    ],
)
def test_parameters_of_a_recording_are_checked(parameters, name):
    with pytest.raises(ParameterError, match=name):
        RecordingNoise(**parameters)
