"""Standardised rows: their errors, the draws of their mechanisms, and released gradients."""

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
    ApproximateEvent,
    Composition,
    DeclaredRowCount,
    ExplicitSeed,
    Filter,
    Guarantee,
    PublicDomain,
    PureEvent,
    ZCDPEvent,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError, UnprovenError
from missdp.pricing.chains import StandardisedFacts
from missdp.pricing.domain import RowDomain
from missdp.pricing.private_test import TestedNoise
from missdp.pricing.queries import SampledNoise, VectorNoise
from missdp.pricing.standardised_rows import StandardisedRows, budget_for, open_session
from missdp.session import SecureNoise, SeededNoise
from missdp.testing import RecordingNoise, log_ratio
from refusing import refuses

DOMAIN = RowDomain(rows=40, columns=2)
FACTS = StandardisedFacts(raw=DOMAIN, label="test", delta=1e-3)
RNG = np.random.default_rng(0)
ROWS, TARGET = RNG.normal(size=(40, 2)), RNG.integers(0, 2, 40)
LOSS = mp.Loss.logistic(radius=1.0, coefficient_norm=1.0)


def rich():
    return Filter(1e30, 1e-3, adjacency="replace-one")


def opened(asked, values=ROWS, *, budget=None, noise=None, facts=FACTS, test=None):
    rows = StandardisedRows(values, facts, target=TARGET, test=test)
    return open_session(rows, asked, budget=budget, noise=noise or SeededNoise(0))


def measured(asked, values=ROWS, **more):
    return opened(asked, values, **more).measure(asked).value


def gradients(asked, values=ROWS, **more):
    return opened(asked, values, **more).iterate(asked)


def planned(facts, asked, kind=mp.TestPlan):
    test = PureEvent(epsilon=5.0, adjacency="replace-one")
    return kind(5.0, 4.0, 1e-4, Guarantee(9.0), (facts.bounds(asked)[0].event, test))


# Queries of rows
def first_entry(rows):
    return rows[:1, 0]


def other_entry(rows):
    return rows[:1, 1]


def handed(rows, arguments):
    return arguments


def weighted(rows, weights, text):
    assert text == "public"
    return rows.sum(axis=0) * weights


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
    return mp.GradientQuery(**facts | more)


@pytest.mark.parametrize("kind", ["gaussian", "laplace"])
@pytest.mark.parametrize("whole", [False, True])
@settings(max_examples=30, deadline=None)
@given(st.integers(0, 99))
def test_a_log_ratio_is_that_of_the_probabilities(kind, whole, seed):
    rng = np.random.default_rng(seed)
    distribution = VectorNoise(kind, 3.0, sensitivity=1.0, integer=whole)
    exact, other = rng.integers(-3, 4, (2, 3)).astype(int if whole else float)
    answer = distribution.draw(exact, SeededNoise(seed))
    power = 1 if kind == "laplace" else 2

    def log_mass(centre):
        return -(np.abs((answer - centre) / distribution.scale) ** power).sum() / power

    result = log_ratio(distribution, answer, exact, other)
    assert result == pytest.approx(log_mass(exact) - log_mass(other), abs=1e-4)
    assert result == -log_ratio(distribution, answer, other, exact)


def test_a_query_is_answered_with_the_noise_that_was_charged():
    budget, mean = Filter(1e9, 1e-3, adjacency="replace-one"), mp.VectorQuery.mean
    result = measured(mean(DOMAIN, multiplier=1e-4), budget=budget)
    np.testing.assert_allclose(result, DOMAIN.enforce(ROWS).mean(axis=0), atol=1e-4)
    (event,) = budget.events
    assert event == FACTS.bounds(mean(DOMAIN, multiplier=1e-4))[0].event
    assert event.adjacency == "replace-one"
    assert set(budget.spent.conditions) >= {DeclaredRowCount(40), PublicDomain(), ExplicitSeed()}
    asked = query(weighted, 2, arguments=(np.array([1, -1]), "public"))
    expected = DOMAIN.enforce(ROWS).sum(axis=0) * [1, -1]
    np.testing.assert_allclose(measured(asked), expected, atol=1e-3)


def test_rows_are_forgotten_at_the_end_of_the_with_block():
    with StandardisedRows(ROWS, FACTS, target=TARGET) as rows:
        session = open_session(rows, query(), budget=rich(), noise=SeededNoise(0))
        step = session.iterate(steps())
        step(np.zeros(2))
    for later in (lambda: session.measure(query()), lambda: step(np.zeros(2))):
        with pytest.raises(ParameterError, match="forgotten"):
            later()
    for retained in (rows, session):
        with pytest.raises(ParameterError, match="copied or pickled"):
            pickle.dumps(retained)


def test_arguments_are_copied():
    weights, levels = np.array([1.0, -1.0]), [1, [2]]
    asked = query(weighted, 2, arguments=[weights, levels])
    weights[:], levels[1][0] = 9.0, 9
    copied, tupled = asked.arguments
    assert copied.tolist() == [1.0, -1.0]
    assert tupled == (1, (2,))
    with pytest.raises(ValueError, match="read-only"):
        copied[0] = 2.0
    labels = ["yes"]
    loss = replace(LOSS, positive=labels)
    labels.append("no")
    assert loss.positive == ("yes",)


def test_steps_changed_after_they_are_priced_are_not_run():
    clip = mp.RowClipper(radius=0.5)
    (stage,) = mp.trace([("clip", clip)], DOMAIN)
    clip.radius = 1.0
    assert np.linalg.norm(stage.run(DOMAIN.enforce(ROWS * 9)), axis=1).max() <= 0.5 + 1e-12


def test_released_arrays_are_fresh():
    counts = query(handed, integer=True, multiplier=1e-6, arguments=(np.array([40]),))
    rows = np.ones((40, 2))
    with StandardisedRows(rows, FACTS, target=TARGET) as private:
        session = open_session(private, counts, budget=rich(), noise=SeededNoise(0))
        one, other = (session.measure(counts).value for _ in range(2))
        one[:] = 99
        assert other.tolist() == session.measure(counts).value.tolist() == [40]
    rows[0] = 0.0  # the caller's own array stays writeable


def test_rows_are_not_read_if_the_budget_is_too_small():
    budget = Filter(0.01, 1e-3, measure="zcdp", adjacency="replace-one")
    for asked in (mp.VectorQuery.mean(DOMAIN, multiplier=1.0), steps(), steps(batch=2)):
        for test in (None, planned(FACTS, asked)):
            with RecordingNoise(0) as noise:
                session = opened(asked, budget=budget, noise=noise, test=test)
                for options in (session.measure, session.iterate):
                    # Nothing is proven in zCDP of gradients of samples.
                    with pytest.raises((BudgetExceededError, UnprovenError)):
                        options(asked)
            assert not noise.answers
    assert not budget.events


@pytest.mark.parametrize("batch", [None, 40])
def test_noisy_gradients_are_mean_gradients_within_the_ball_of_the_loss(batch):
    gradient = gradients(steps(batch=batch))
    point = np.array([0.3, -0.4])
    rows, y = DOMAIN.enforce(ROWS), 2.0 * TARGET - 1
    expected = rows.T @ (-y / (1 + np.exp(y * (rows @ point)))) / 40
    np.testing.assert_allclose(gradient(point), expected, atol=1e-6)
    for bad in ([1.1, 0.0], [0.0]):
        with pytest.raises(ParameterError, match="ball"):
            gradient(bad)
    with pytest.raises(ParameterError, match="no more were charged"):
        gradient(point)


@pytest.mark.parametrize("point", [[1.1, 0.0], [0.0], [math.nan, 0.0], [[0.0, 0.0]]])
def test_gradient_outside_the_ball_of_the_loss_raises(point):
    with pytest.raises(ParameterError, match="ball"):
        gradients(steps())(point)


def test_slope_that_writes_to_the_target_fails():
    def writing_slope(scores, target):
        target[0] = 0.0
        return scores

    with pytest.raises(DataError, match="the loss failed"):
        gradients(steps(loss=replace(LOSS, slope=writing_slope)))([0.0, 0.0])


@pytest.mark.parametrize("batch", [None, 5])
def test_session_step_outside_the_ball_raises(batch):
    """The constants of a loss hold inside its ball only, for every caller of a step."""
    step = opened(steps(batch=batch)).iterate(steps(batch=batch))
    with pytest.raises(ParameterError, match="ball"):
        step(np.array([1.1, 0.0]))


@pytest.mark.parametrize("test", [False, True])
@pytest.mark.parametrize("batch", [None, 5])
def test_iterate_answers_no_more_steps_than_charged(batch, test):
    asked = steps(batch=batch)
    plan = planned(FACTS, asked) if test else None
    session = opened(asked, test=plan)
    step = session.iterate(asked)
    result = [step(np.zeros(2)) for _ in range(3)]
    assert all(each.shape == (2,) for each in result)
    with pytest.raises(ParameterError, match="no more were charged"):
        step(np.zeros(2))


def test_questions_that_are_none_are_refused():
    for options, bads in (
        (query, ({"multiplier": math.nan}, {"size": 0}, {"noise": "cauchy"})),
        (steps, ({"batch": 41}, {"batch": 0}, {"steps": 0}, {"multiplier": -1.0})),
        (steps, ({"loss": replace(LOSS, radius=0.5)},)),
        (partial(replace, LOSS), ({"lipschitz": math.inf},)),
        (partial(VectorNoise, "gaussian", 1.0), ({"sensitivity": math.inf},)),
        (mp.Sensitivity, ({"replaced": 0.0},)),
    ):
        for bad in bads:
            with pytest.raises(ParameterError):
                options(**bad)


def test_no_warning_quotes_the_rows():
    """A warning is an error in these tests."""
    zeros, largest = np.zeros((40, 2)), np.full((40, 2), np.finfo(float).max)
    for function in (dividing, of_nobody):  # mean of an empty slice
        assert measured(query(function), zeros).shape == (1,)
    assert measured(query(), largest).round(3) == [0.707]  # whose norm overflows
    assert measured(query(), largest.astype(np.longdouble) * 16).round(3) == [0.0]
    gradient = gradients(steps(loss=replace(LOSS, slope=inverse)), zeros)
    assert gradient([0.0, 0.0]).shape == (2,)


@pytest.mark.parametrize("noise", [SeededNoise(0), SecureNoise()])
def test_samples_are_fresh_and_without_replacement(noise):
    distribution, drawn = VectorNoise("gaussian", 1.0, sensitivity=1.0), []
    mechanism = SampledNoise(distribution, 40, 5)

    def exact(sample):
        drawn.append(sample)
        return np.zeros(1)

    for _ in range(300):
        mechanism.draw(exact, noise)
    assert all(len(set(sample.tolist())) == 5 for sample in drawn)
    counts = np.bincount(np.concatenate(drawn), minlength=40)
    assert chisquare(counts).pvalue > 1e-9
    assert len({tuple(sorted(sample.tolist())) for sample in drawn}) > 290


def test_mechanisms_are_equal_by_their_parameters_alone():
    distribution = VectorNoise("gaussian", 1.0, sensitivity=1.0)
    first, second = SampledNoise(distribution, 40, 5), SampledNoise(distribution, 40, 5)
    first.draw(lambda _: np.zeros(1), SeededNoise(0))
    assert first == second
    assert hash(first) == hash(second)
    assert first != SampledNoise(distribution, 40, 6)
    assert (
        TestedNoise(None, distribution)
        == TestedNoise(None, distribution)
        != TestedNoise(None, first)
    )


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

    def distance_to_failure(self, table):
        return self.here


@pytest.mark.parametrize(("here", "passes"), [(30.0, True), (1.0, False), (1e9, True)])
def test_a_question_is_answered_if_the_test_passes(here, passes):
    facts = replace(FACTS, steps=(Alarming(here), Alarming(1e9)))  # the least counts
    asked, budget = mp.VectorQuery.mean(facts.domain, multiplier=1e-4), rich()
    plan = planned(facts, asked)
    result = measured(asked, facts=facts, budget=budget, test=plan)
    assert (result is not None) == passes
    assert budget.events == plan.charges
    assert DeclaredRowCount(7) not in budget.spent.conditions
    if passes:
        np.testing.assert_allclose(result, DOMAIN.enforce(ROWS).mean(axis=0) / 4, atol=1e-4)


class Counting(SeededNoise):
    """Counts how often Laplace noise is drawn: by tests alone."""

    def __init__(self, seed):
        super().__init__(seed)
        self.tests = 0

    def discrete_laplace(self, scale, size):
        self.tests += 1
        return super().discrete_laplace(scale, size)


@pytest.mark.parametrize(("here", "passes"), [(30.0, True), (1.0, False)])
@pytest.mark.parametrize("batch", [None, 5])
def test_gradients_rest_on_one_test_in_advance(here, passes, batch):
    facts, asked = replace(FACTS, steps=(Alarming(here),)), steps(batch=batch)
    plan, noise = planned(facts, asked), Counting(0)
    budget = Composition(plan.charges, delta=2e-3, adjacency="replace-one")
    step = opened(asked, facts=facts, budget=budget, test=plan, noise=noise).iterate(asked)
    assert budget.events == plan.charges
    assert [step(np.zeros(2)) is not None for _ in range(3)] == [passes] * 3
    assert noise.tests == 1
    with pytest.raises(ParameterError, match="no more were charged"):
        step(np.zeros(2))


def test_answer_is_not_computed_if_the_test_fails():
    facts = replace(FACTS, steps=(Alarming(1.0),))
    for bad in (quoting, too_long):
        asked = query(bad)
        assert measured(asked, facts=facts, budget=rich(), test=planned(facts, asked)) is None


def test_all_or_none_of_a_test_is_charged():
    facts = replace(FACTS, steps=(Alarming(1e9),))
    asked = query(multiplier=100.0)
    release, test = planned(facts, asked).charges
    for lacking in (release, test):
        budget = budget_for((lacking,), 1e-3)
        with pytest.raises(BudgetExceededError):
            measured(asked, facts=facts, budget=budget, test=planned(facts, asked))
        assert budget.events == ()
        budget.charge(lacking)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_budget_of_one_answer_holds_its_events_once(delta):
    events = (PureEvent(epsilon=0.7, adjacency="replace-one"),)
    if delta:
        test = {"epsilon": 0.5, "delta": delta, "adjacency": "replace-one"}
        events = (ZCDPEvent(rho=0.1, adjacency="replace-one"), ApproximateEvent(**test))
    budget = budget_for(events, delta)
    budget.charge(*events)
    assert budget.events == events
    with pytest.raises(BudgetExceededError):
        budget.charge(*events)


def test_session_of_one_answer_refuses_another():
    session = opened(query())
    session.measure(query())
    with pytest.raises(BudgetExceededError):
        session.measure(query())


class Bare(mp.VectorQuery):
    """A subclass: it is charged as the original, and answered without noise."""

    def noise_for(self, distance):
        return replace(super().noise_for(distance), scale=1e-300)


class Steep(mp.Loss):
    """A subclass: it hands the rows on."""

    def exact(self, rows, target):
        return lambda point, sample: rows[0]


UNIT = mp.Sensitivity(replaced=2.0)
MINE = {"domain": DOMAIN, "function": first_entry, "size": 1, "multiplier": 1.0}
BLUNT = type("Blunt", (mp.Sensitivity,), {})(replaced=2.0)
LENIENT = type("Lenient", (mp.TestPlan,), {})
STRANGE = [
    (Bare(sensitivity=UNIT, **MINE), None, "queries of the types"),
    (SimpleNamespace(**MINE), None, "queries of the types"),
    (mp.VectorQuery(sensitivity=BLUNT, **MINE), None, "instance of Sensitivity exactly"),
    (steps(loss=Steep(**vars(LOSS))), None, "instance of Loss exactly"),
    (query(), planned(FACTS, query(), LENIENT), "instance of TestPlan exactly"),
    (query(), planned(FACTS, query(multiplier=1.0)), "another question"),
    (query(domain=replace(DOMAIN, rows=41)), None, "another domain"),
    (query(domain=replace(DOMAIN, radius=0.5)), None, "another domain"),
]


@pytest.mark.parametrize(("asked", "plan", "why"), STRANGE)
def test_types_of_queries_are_a_closed_set(asked, plan, why):
    budget = rich()
    for options in ("measure", "iterate"):
        with pytest.raises(ParameterError, match=why):
            getattr(opened(asked, budget=budget, test=plan), options)(asked)
    assert budget.events == ()


def test_rows_take_no_other_mechanism_and_no_change():
    budget = rich()
    session = opened(query(), budget=budget)
    for mechanism in (VectorNoise("gaussian", 1e-9, sensitivity=2.0), session.measure):
        with pytest.raises(ParameterError, match="states its own noise"):
            session.measure(query(), mechanism)
    with pytest.raises(ParameterError, match="Add a step"):
        session.apply(mp.RowClipper())
    session.expect([query()])
    assert budget.events == ()


def test_add_remove_budget_does_not_pay_for_rows():
    with pytest.raises(
        UnprovenError, match=r"StandardisedRows\(test\) is private under replace-one"
    ):
        opened(query(), budget=Filter(9.0, 1e-3))


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
    rows = StandardisedRows(ROWS, FACTS, target=TARGET)
    dear, cheap = query(), query(other_entry, multiplier=1.0)
    for _ in range(2):
        result = interrupted(rows.price, dear, lambda: rows.price(cheap))
        assert result.event == FACTS.bounds(dear)[0].event
        exact = interrupted(rows._vector, dear, lambda: rows._vector(cheap))
        assert exact == DOMAIN.enforce(ROWS)[0, 0]


FAILING = [(FACTS, query(bad), None) for bad in (writing, quoting, endless, too_long)]
FAILING += [(replace(FACTS, steps=(Alarming(0),)), query(), None)]
FAILING += [(FACTS, steps(loss=replace(LOSS, slope=broken)), [x, 0.0]) for x in (0.5, 0.0)]


@pytest.mark.parametrize(("facts", "asked", "point"), FAILING)
def test_error_after_the_charge_quotes_no_row(facts, asked, point):
    budget = rich()
    rows = np.full((40, 2), 0.123)
    options = measured if point is None else lambda *_, **more: gradients(*_, **more)(point)
    with refuses(DataError) as caught:
        options(asked, rows, budget=budget, facts=facts)
    assert "0.123" not in str(caught.value)
    assert len(budget.events) == 1  # charged all the same


def test_price_of_a_mean_covers_rounding_of_sums():
    """Casacuberta et al. (2022): behind a replaced row, every later addition rounds differently."""
    n = 1 << 19
    rows = np.full((n, 2), 2.0**-35 * 1.01)  # rounds up to 2^-34 above 2^18, and stays below it
    rows[: n // 2] = [1.0, 0.0]
    other = rows.copy()
    other[0, 0] = -1.0
    query = mp.VectorQuery.mean(RowDomain(rows=n, columns=2), multiplier=1.0)
    shift = np.linalg.norm(query.exact(rows) - query.exact(other)) / query.scale
    assert shift > 1 + 1.5 * query.noise_for(FACTS.distance).slack(2)
    assert shift**2 / 2 <= query.privacy_map.rho(mp.TableDistance(replaced=1))


@pytest.mark.parametrize("batch", [None, 500_000])
def test_price_of_gradients_covers_rounding_of_sums(batch):
    asked = steps(domain=RowDomain(rows=10**6, columns=2), batch=batch, multiplier=1.0, steps=1)
    slack = asked.noise_for(FACTS.distance).slack(2) + (batch or 10**6) ** 2 * 2.0**-53
    if batch is None:
        assert asked.privacy_map.rho(FACTS.distance) >= (1 + slack) ** 2 / 2
    else:  # of which every sample consists
        every = mp.TableDistance(replaced=10**6)
        assert asked.privacy_map.curve(2.0, every) >= (batch + slack) ** 2
