"""Whatever a fit shows was answered: every family, on pairs of tables, with repeated answers."""

import numpy as np
import pytest

from missdp.errors import ParameterError
from missdp.mechanisms import Score
from missdp.testing import PAIRS, check_non_interference
from synth.conformance import CASES, IDS


@pytest.mark.parametrize(("family", "strategy"), CASES, ids=IDS)
def test_what_a_fit_shows_was_released(family, strategy):
    report = check_non_interference(family.build, parameters=family.options, strategies=[strategy])
    assert len(report.findings) == len(PAIRS) + 1


def score_with_default(counts, kept=[]):  # noqa: B006
    kept.append(counts)
    return 0.0


def test_a_score_is_a_plain_function():
    kept = []

    class Method:
        def score(self, counts):
            self.kept = counts
            return 0.0

    for bad in (lambda c: float(kept.append(c) or 0), Method().score, score_with_default, len):
        with pytest.raises(ParameterError, match="plain function"):
            Score(bad, sensitivity=1.0)


def write(counts, target):
    target[0] = counts[0]
    return 0.0


def test_a_score_cannot_write_where_it_is_given_something():
    counts, target = np.arange(3), np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        Score(write, sensitivity=1.0).of(counts, (target,))
    with pytest.raises(ParameterError, match="arrays, numbers"):
        Score(write, sensitivity=1.0).of(counts, ([0],))
