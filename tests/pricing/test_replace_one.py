"""The replace-one door: what it refuses, what its laws say, what gradients it releases."""

from __future__ import annotations

import math
import pickle
import sys
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from missdp import pricing as mp
from missdp.accounting import (
    Budget,
    DeclaredRowCount,
    ExplicitSeed,
    Guarantee,
    PublicDomain,
    PureEvent,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError
from missdp.mechanisms import SecureNoise, SeededNoise, Witness
from missdp.pricing.domain import RowDomain
from missdp.pricing.questions import VectorNoise, _secret
from missdp.pricing.replace_one import PreparedRows, ReplaceOneDoor
from refusing import refuses

DOMAIN = RowDomain(rows=40, columns=2)
FACTS = PreparedRows(raw=DOMAIN, label="test", delta=1e-3)
RNG = np.random.default_rng(0)
ROWS, TARGET = RNG.normal(size=(40, 2)), RNG.integers(0, 2, 40)
LOSS = mp.Loss.logistic(radius=1.0, coefficient_norm=1.0)


def rich():
    return Budget(1e30, 1e-3, adjacency="replace-one")


def door(values=ROWS, *, budget=None, noise=None, facts=FACTS):
    noise = noise or SeededNoise(0)
    return ReplaceOneDoor(values, facts, target=TARGET, budget=budget, noise=noise)


def planned(facts, asked, kind=mp.TestPlan):
    test = PureEvent(epsilon=5.0, adjacency="replace-one")
    return kind(5.0, 4.0, 1e-4, Guarantee(9.0), (test, facts.bounds(asked)[0].event))


# What is asked of rows: plain functions
def first_entry(rows):
    return rows[:1, 0]


def other_entry(rows):
    return rows[:1, 1]


def with_target(rows, target, weights, text):
    assert text == "public"
    return rows.T @ target * weights


def writing(rows):
    rows[0] = 0.0
    return rows[0]


def quoting(rows):
    raise KeyError(float(rows[0, 0]))


def endless(rows):
    return rows[:1, 0] / 0.0


def too_long(rows):
    return rows[:, 0]


def dividing(rows):
    return np.isfinite(1 / rows[:1, 0]) * 1.0


def of_nobody(rows):
    return np.nan_to_num([rows[rows[:, 0] > 1, 0].mean()])


def with_default(rows, kept=[]):  # noqa: B006
    return rows[0]


def inverse(scores, target):
    return np.isfinite(1 / scores) * 1.0


def broken(scores, target):
    if scores[0] > 0:
        raise KeyError(float(scores[0]))
    return np.full(len(scores), np.nan)


def query(function=first_entry, size=1, multiplier=1e-6, **more):
    unit = mp.Sensitivity(replaced=2.0)
    facts = {"domain": DOMAIN, "sensitivity": unit} | more
    return mp.VectorQuery(function=function, size=size, multiplier=multiplier, **facts)


def steps(**more):
    facts = {"domain": DOMAIN, "loss": LOSS, "multiplier": 1e-6, "steps": 3}
    return mp.GradientSteps(**facts | more)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("whole", [False, True])
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99))
def test_a_log_ratio_is_that_of_the_probabilities(kind, whole, seed):
    rng = np.random.default_rng(seed)
    law = VectorNoise(kind, 3.0, sensitivity=1.0, whole=whole)
    exact, other = rng.integers(-3, 4, (2, 3)).astype(int if whole else float)
    answer = law.draw(exact, SeededNoise(seed))
    power = 1 if kind == "laplace" else 2

    def log_mass(centre):
        return -(np.abs((answer - centre) / law.scale) ** power).sum() / power

    found = law.log_ratio(answer, exact, other)
    assert found == pytest.approx(log_mass(exact) - log_mass(other), abs=1e-4)
    assert found == -law.log_ratio(answer, other, exact)


def test_a_query_is_answered_with_the_noise_that_was_charged():
    budget, mean = Budget(1e9, 1e-3, adjacency="replace-one"), mp.VectorQuery.mean
    found = door(budget=budget).ask(mean(DOMAIN, multiplier=1e-4))
    np.testing.assert_allclose(found, DOMAIN.enforce(ROWS).mean(axis=0), atol=1e-4)
    (event,) = budget.events
    assert event == FACTS.bounds(mean(DOMAIN, multiplier=1e-4))[0].event
    assert event.adjacency == "replace-one"
    assert set(budget.spent.conditions) >= {DeclaredRowCount(40), PublicDomain(), ExplicitSeed()}
    asked = query(with_target, 2, target_bound=0.5, given=(np.array([1, -1]), "public"))
    clipped = np.clip(TARGET, -0.5, 0.5)
    expected = DOMAIN.enforce(ROWS).T @ clipped * [1, -1]
    np.testing.assert_allclose(door().ask(asked), expected, atol=1e-3)


def test_rows_are_forgotten_at_the_end_also_by_what_was_handed_out():
    with door(budget=rich()) as opened:
        gradients = opened.ask(steps())
        gradients.at(np.zeros(2))
    for later in (lambda: opened.ask(query()), lambda: gradients.at(np.zeros(2))):
        with pytest.raises(ParameterError, match="forgotten"):
            later()
    with pytest.raises(ParameterError, match="copied or pickled"):
        pickle.dumps(opened)


def test_a_query_and_a_loss_are_plain_functions():
    kept = []
    for bad in (lambda rows: kept.append(rows), with_default, np.mean, DOMAIN.enforce):
        for ask in (query, lambda slope: replace(LOSS, slope=slope)):
            with pytest.raises(ParameterError, match="plain function"):
                ask(bad)


def test_what_the_budget_refuses_is_not_read():
    class Unread(Witness):
        def answer(self, event, law, exact):
            raise AssertionError("read")

    budget = Budget(0.01, 1e-3, adjacency="replace-one")
    for asked in (mp.VectorQuery.mean(DOMAIN, multiplier=1.0), steps(), steps(batch=2)):
        with pytest.raises(BudgetExceededError):
            door(budget=budget, noise=Unread(0)).ask(asked)
        with pytest.raises(BudgetExceededError):
            door(budget=budget, noise=Unread(0)).ask(asked, planned(FACTS, asked))
    assert not budget.events


@pytest.mark.parametrize("batch", [None, 40])
def test_noisy_gradients_are_mean_gradients_within_the_ball_of_the_loss(batch):
    model = door().ask(steps(batch=batch))
    point = np.array([0.3, -0.4])
    rows, y = DOMAIN.enforce(ROWS), 2.0 * TARGET - 1
    expected = rows.T @ (-y / (1 + np.exp(y * (rows @ point)))) / 40
    np.testing.assert_allclose(model.at(point), expected, atol=1e-6)
    for bad in ([1.1, 0.0], [0.0], [math.nan, 0.0], [[0.0, 0.0]]):
        with pytest.raises(ParameterError, match="ball"):
            model.at(bad)
    assert model.left == 2
    with pytest.raises(AttributeError):
        model.left = 3


def test_questions_that_are_none_are_refused():
    for ask, bads in (
        (query, ({"multiplier": math.nan}, {"size": 0}, {"noise": "cauchy"}, {"given": ([1],)})),
        (steps, ({"batch": 41}, {"batch": 0}, {"steps": 0}, {"multiplier": -1.0})),
        (steps, ({"loss": replace(LOSS, radius=0.5)},)),
        (partial(replace, LOSS), ({"lipschitz": math.inf},)),
        (partial(VectorNoise, "gaussian", 1.0), ({"sensitivity": math.inf},)),
        (mp.Sensitivity, ({"replaced": 0.0},)),
    ):
        for bad in bads:
            with pytest.raises(ParameterError):
                ask(**bad)


def test_no_warning_tells_of_the_rows():
    """A warning is an error in these tests."""
    zeros, largest = np.zeros((40, 2)), np.full((40, 2), np.finfo(float).max)
    for function in (dividing, of_nobody):  # mean of an empty slice
        assert door(zeros).ask(query(function)).shape == (1,)
    assert door(largest).ask(query()).round(3) == [0.707]  # whose norm overflows
    assert door(largest.astype(np.longdouble) * 16).ask(query()).round(3) == [0.0]
    model = door(zeros).ask(steps(loss=replace(LOSS, slope=inverse)))
    assert model.at([0.0, 0.0]).shape == (2,)


@pytest.mark.parametrize("noises", [map(SeededNoise, range(2000)), [SecureNoise()] * 2000])
def test_samples_are_fresh_and_without_replacement_and_stops_uniform(noises):
    first, *rest = noises
    drawn = list(steps(steps=300, batch=5).samples(first))
    assert all(len(set(sample.tolist())) == 5 for sample in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=40)
    assert chisquare(counts).pvalue > 1e-9
    assert len({tuple(sorted(sample.tolist())) for sample in drawn}) > 290
    stops = [_secret(noise).randint(1, 8) for noise in rest]
    assert chisquare(np.bincount(stops, minlength=9)[1:]).pvalue > 1e-9


def test_a_hidden_run_releases_its_last_iterate_only():
    asked = mp.SecretStop(domain=DOMAIN, loss=LOSS, multiplier=1e-6, rate=1.0)
    rows, y, point = DOMAIN.enforce(ROWS), 2.0 * TARGET - 1, np.zeros(2)
    for i in range(_secret(SeededNoise(0)).randint(1, 40)):
        point = point + y[i] * rows[i] / (1 + math.exp(y[i] * (rows[i] @ point)))
        point /= max(1.0, float(np.linalg.norm(point)))
    budget = rich()
    np.testing.assert_allclose(door(budget=budget).ask(asked), point, atol=1e-4)
    assert len(budget.events) == 1
    assert asked.conditions
    with pytest.raises(ParameterError, match="curvature"):
        replace(asked, rate=8.1)


@dataclass(frozen=True)
class Alarming:
    """A step with a condition that this table meets by a margin of its own."""

    here: float
    name: str = "alarming"
    domain: RowDomain = DOMAIN
    domain_after: RowDomain = DOMAIN
    distance_after: object = FACTS.distance
    conditions: tuple = (DeclaredRowCount(7),)

    def run(self, table):
        if self.here == 0:
            raise ParameterError(f"not {table[0, 0]}")  # which the session would hand on
        return table / 2

    def margin(self, table):
        return self.here


@pytest.mark.parametrize(("here", "passes"), [(30.0, True), (1.0, False), (1e9, True)])
def test_a_question_is_answered_if_the_test_passes(here, passes):
    facts = replace(FACTS, steps=(Alarming(here), Alarming(1e9)))  # the least counts
    asked, budget = mp.VectorQuery.mean(facts.domain, multiplier=1e-4), rich()
    plan = planned(facts, asked)
    found = door(facts=facts, budget=budget).ask(asked, plan)
    assert (found is not None) == passes
    assert budget.events == plan.charges
    assert DeclaredRowCount(7) not in budget.spent.conditions
    if passes:
        np.testing.assert_allclose(found, DOMAIN.enforce(ROWS).mean(axis=0) / 4, atol=1e-4)


class Bare(mp.VectorQuery):
    """A stranger's question: it is charged as ours, and answered without noise."""

    def law(self, distance):
        return replace(super().law(distance), scale=1e-300)


class Steep(mp.Loss):
    """A stranger's loss: it hands the rows on."""

    def exact(self, rows, target):
        return lambda point, sample: rows[0]


UNIT = mp.Sensitivity(replaced=2.0)
MINE = {"domain": DOMAIN, "function": first_entry, "size": 1, "multiplier": 1.0}
BLUNT = type("Blunt", (mp.Sensitivity,), {})(replaced=2.0)
LENIENT = type("Lenient", (mp.TestPlan,), {})
STRANGE = [
    (Bare(sensitivity=UNIT, **MINE), None, "a query must be one of"),
    (SimpleNamespace(**MINE), None, "a query must be one of"),
    (mp.VectorQuery(sensitivity=BLUNT, **MINE), None, "takes a Sensitivity"),
    (steps(loss=Steep(**vars(LOSS))), None, "takes a Loss"),
    (query(), planned(FACTS, query(), LENIENT), "takes a TestPlan"),
    (query(), planned(FACTS, query(multiplier=1.0)), "another question"),
    (query(domain=replace(DOMAIN, rows=41)), None, "another domain"),
    (query(domain=replace(DOMAIN, radius=0.5)), None, "another domain"),
]


@pytest.mark.parametrize(("asked", "plan", "why"), STRANGE)
def test_what_a_pipeline_is_asked_is_a_closed_set(asked, plan, why):
    budget = rich()
    with pytest.raises(ParameterError, match=why):
        door(budget=budget).ask(asked, plan)
    assert budget.events == ()


def interrupted(method, here, meanwhile):
    """Call a method, and something else before each of its lines, as another thread could."""
    code, busy = method.__func__.__code__, []

    def line(frame, event, arg):
        if event == "line" and not busy:
            busy.append(True)
            meanwhile()
            busy.clear()
        return line

    before = sys.gettrace()
    sys.settrace(lambda frame, *_: line if frame.f_code is code and not busy else None)
    try:
        return method(here)
    finally:
        sys.settrace(before)


def test_threads_that_ask_different_things_are_charged_and_answered_apart():
    asked, dear, cheap = door(), query(), query(other_entry, multiplier=1.0)
    for _ in range(2):
        found = interrupted(asked.price, dear, lambda: asked.price(cheap))
        assert found.event == FACTS.bounds(dear)[0].event
        exact = interrupted(asked._exact, dear, lambda: asked._exact(cheap))
        assert exact == DOMAIN.enforce(ROWS)[0, 0]


FAILING = [(FACTS, query(bad), None) for bad in (writing, quoting, endless, too_long)]
FAILING += [(replace(FACTS, steps=(Alarming(0),)), query(), None)]
FAILING += [(FACTS, steps(loss=replace(LOSS, slope=broken)), [x, 0.0]) for x in (0.5, 0.0)]


@pytest.mark.parametrize(("facts", "asked", "point"), FAILING)
def test_what_fails_behind_the_door_says_nothing_of_the_rows(facts, asked, point):
    budget = rich()
    opened = door(np.full((40, 2), 0.123), budget=budget, facts=facts)
    with refuses(DataError) as caught:
        opened.ask(asked) if point is None else opened.ask(asked).at(point)
    assert "0.123" not in str(caught.value)
    assert len(budget.events) == 1  # charged all the same


def test_the_price_of_a_mean_covers_what_adding_up_rounds_away():
    """Casacuberta et al. (2022): behind a replaced row, every later addition rounds differently."""
    n = 1 << 19
    rows = np.full((n, 2), 2.0**-35 * 1.01)  # rounds up to 2^-34 above 2^18, and stays below it
    rows[: n // 2] = [1.0, 0.0]
    other = rows.copy()
    other[0, 0] = -1.0
    query = mp.VectorQuery.mean(RowDomain(rows=n, columns=2), multiplier=1.0)
    moved = np.linalg.norm(query.exact(rows, None) - query.exact(other, None)) / query.scale
    assert moved > 1 + 1.5 * query.law(FACTS.distance).slack(2)
    assert moved**2 / 2 <= query.privacy_map.rho(mp.TableDistance(replaced=1))


@pytest.mark.parametrize("batch", [None, 500_000])
def test_the_price_of_gradients_covers_what_adding_up_rounds_away(batch):
    asked = steps(domain=RowDomain(rows=10**6, columns=2), batch=batch, multiplier=1.0, steps=1)
    slack = asked.law(FACTS.distance).slack(2) + (batch or 10**6) ** 2 * 2.0**-53
    if batch is None:
        assert asked.privacy_map.rho(FACTS.distance) >= (1 + slack) ** 2 / 2
    else:  # of which every sample consists
        every = mp.TableDistance(replaced=10**6)
        assert asked.privacy_map.curve(2.0, every) >= (batch + slack) ** 2
