"""One suite over every family and strategy: the public kit, and what only ours promise.

Every strategy of every family is checked for what depends on both (`DAILY`; what is
left of the strategies by the slow tests); `PAIRED` has each family once, with
strategies in turn, for what depends on the family or on the base alone.
"""

from dataclasses import replace

import numpy as np
import pytest

from missdp.errors import ParameterError
from missdp.mechanisms import Score
from missdp.synth import sampling
from missdp.testing import HABITS, RULED, check_sensitivity
from missdp.testing.habits import _RULED_HABITS, _habits_of
from missdp.testing.interference import interference_of
from missdp.testing.sensitivity import _sensitivity_of, answers_of
from refusing import refuses
from synth.conformance import (
    DAILY,
    FAMILIES,
    FEW_PAIRS,
    FEW_TRIALS,
    FIRST,
    NEURAL,
    PAIRED,
    SCHEMA,
    make_table,
    subject,
)
from testing.ruled import ONE_FIT, ONE_FREE, OWN, costs_nothing, gates, kinds_of_holes, obeyed_rules

pytestmark = [
    pytest.mark.filterwarnings("ignore::missdp.synth.SmallTableWarning"),
    pytest.mark.usefixtures("one_turn"),
]
every_case = pytest.mark.parametrize(("family", "strategy"), DAILY)
every_family = pytest.mark.parametrize(
    ("family", "strategy"), PAIRED, ids=[f"{f.name}-{s}" for f, s in PAIRED]
)
# What a family may do otherwise under another strategy, and a second set of parameters.
BY_STRATEGY = ("keeping_holes", "save_and_load", "streaming")
# What rests on the base alone, and is tried with every strategy of a quick family.
BY_BASE = ("charged_before_reading", "guarantee", "output_shape")
# Of these, sixty columns take seconds, and fits with rules.
WIDE = ("mst", "all-pairs", "all-pairs-imputed", "kamino", "kamino-sequential")
LONG = ("all-pairs-imputed", "kamino-sequential", "privbayes-gaussian")


def turn_of(family):
    """Every other habit, in turn: most rest on the base alone, and one family has them all."""
    turn = [f.build for f, _ in FIRST].index(family.build)
    return [name for i, name in enumerate(HABITS) if i % 2 == turn % 2 and name not in BY_STRATEGY]


def failed(findings):
    return [str(found) for found in findings if not found.passed]


@every_case
def test_habits_and_gates(family, strategy):
    chosen = BY_STRATEGY
    if (family, strategy) in FIRST and family.name not in NEURAL:
        chosen = [*HABITS] if family.name == "privbayes" else [*chosen, *turn_of(family)]
    elif family.name in ("privbayes", *NEURAL):
        chosen += BY_BASE
    left = {"spends_what_was_asked"} | ({"many_columns"} if family.name in WIDE else set())
    chosen = [name for name in chosen if name not in left]  # the first: see below, with rules
    found = _habits_of(subject(family, strategy), chosen)
    gates(subject(family, strategy))
    assert failed(found) == []
    (streams,) = [f.detail for f in found if f.what.startswith("Streamed rows")]
    assert (streams == "streams") == family.streams


@pytest.mark.slow
@every_case
def test_all_habits(family, strategy):
    assert failed(_habits_of(subject(family, strategy))) == []


@every_case
def test_what_a_fit_shows_was_released_and_charged_for(family, strategy):
    """Answers of one table are repeated for others, and what is behind them is compared."""
    first = (family, strategy) in FIRST
    tried = {"pairs": None, "trials": 4} if first else {"pairs": FEW_PAIRS, "trials": FEW_TRIALS}
    found = answers_of(subject(family, strategy), **tried, seed=0)
    assert failed(found) == []
    if ((family, strategy) in PAIRED and family.name not in LONG) or family.name == "independent":
        assert failed(_sensitivity_of(subject(family, strategy, RULED), trials=3, seed=2)) == []


@pytest.mark.slow
@every_case
def test_one_row_moves_what_was_charged_for_whichever_row_it_is(family, strategy):
    given = {"parameters": family.options, "strategies": [strategy]}
    for schema in (SCHEMA, RULED, ONE_FREE):
        check_sensitivity(family.build, **given, schema=schema, trials=60, seed=1)


@pytest.fixture
def few_rounds(monkeypatch):
    """Rows that break rules are drawn anew a few times: what is in vain takes no longer."""
    monkeypatch.setattr(sampling, "_ROW_ROUNDS", 8)
    monkeypatch.setattr(sampling, "_VALUE_ROUNDS", 8)


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize(
    ("family", "strategy"),
    [  # MST and AIM are one base, and what trains is for comparison
        pytest.param(f, s, id=f.name, marks=[pytest.mark.slow] * (f.name in ("mst", *NEURAL)))
        for f, s in FIRST
    ],
)
def test_kinds_and_rules(family, strategy):
    on = subject(family, strategy, RULED)
    assert failed(_habits_of(on, ["spends_what_was_asked"])) == []
    for promise in ONE_FIT:
        promise(on)
    assert failed(interference_of(on, ("kinds of holes",))[0]) == []


@pytest.mark.usefixtures("few_rounds")
@pytest.mark.parametrize("promise", [p for p in OWN if p not in ONE_FIT])
def test_what_the_base_promises_of_kinds_and_rules(promise):
    promise(subject(FAMILIES[-1], "joint", RULED))
    if promise is kinds_of_holes:  # which are drawn in a way of its own
        promise(subject(next(f for f in FAMILIES if f.name == "all-pairs"), "joint", RULED))


@pytest.mark.slow
@every_case
def test_kinds_and_rules_with_every_strategy(family, strategy):
    on = subject(family, strategy, RULED)
    assert failed(_habits_of(on, _RULED_HABITS)) == []
    for promise in OWN:
        promise(on)
    assert failed(interference_of(on)[0]) == []


@every_family
def test_all_but_one_attribute_follow(family, strategy):
    on = replace(subject(family, strategy), schema=ONE_FREE)
    obeyed_rules(on)
    costs_nothing(on)
    assert failed(_sensitivity_of(on, trials=3, seed=2)) == []


@every_family
def test_synthetic_rows_do_not_reuse_the_noise(family, strategy, monkeypatch):
    streams = []
    monkeypatch.setattr(
        family.build,
        "_sample",
        lambda self, n, missing_values, rng: streams.append(rng.random(8).tolist()) or {},
    )
    model = subject(family, strategy).fitted(random_state=5)
    monkeypatch.setattr("missdp.synth.base.Table.from_codes", lambda *_, **__: make_table(3))
    noise = np.random.default_rng(5).random(10_000)
    for seed in (None, 5):
        model.sample(3, random_state=seed)
        assert not np.isin(streams[-1], noise).any()


def score_with_default(counts, kept=[]):  # noqa: B006
    kept.append(counts)
    return 0.0


def write(counts, target):
    target[0] = counts[0]
    return 0.0


def test_a_score_is_a_plain_function_that_writes_nowhere():
    kept = []

    class Method:
        def score(self, counts):
            self.kept = counts
            return 0.0

    for bad in (lambda c: float(kept.append(c) or 0), Method().score, score_with_default, len):
        with refuses(ParameterError, "plain function"):
            Score(bad, sensitivity=1.0)
    counts, target = np.arange(3), np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        Score(write, sensitivity=1.0).of(counts, (target,))
    with refuses(ParameterError, "arrays, numbers"):
        Score(write, sensitivity=1.0).of(counts, ([0],))
