"""`Session._release` charges, computes and draws, in this order and in one process."""

import copy
import itertools
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

from missdp import Categorical, Schema, Table
from missdp.accounting import (
    Cost,
    DataDependentDomain,
    ExplicitSeed,
    Filter,
    PureEvent,
    RowFunctionsTested,
    SampledGaussianEvent,
    epsilon_of,
)
from missdp.accounting import (
    budget as budgets,
)
from missdp.errors import (
    BudgetExceededError,
    DataError,
    LedgerError,
    ParameterError,
)
from missdp.session import CountedRows, Marginal, Noise, SeededNoise, Session
from missdp.session.session import Reservation
from missdp.session.training import SAMPLING_SLACK, PaidSteps, SampledSum, TrainingPlan
from missdp.sources import MemorySource, strategy_named
from session.noted import EVENT, Rows

OTHER = PureEvent(epsilon=0.5, label="charged with it")


def opened(epsilon=2.0, *, limit=None, conditions=(), **facts):
    budget = Filter(epsilon)
    rows = Rows(budget, **facts)
    return Session(
        rows, budget=budget, noise=SeededNoise(0), limit=limit, conditions=conditions
    ), rows


def fork(monkeypatch):
    """Make budgets believe that this is a fork of the process that made them."""
    monkeypatch.setattr(budgets, "_FORKS", [object()])


def test_session_states_the_conditions_of_its_rows_whoever_opens_it():
    rows = CountedRows.from_source(
        MemorySource(Table.from_codes(PLAIN, {"a": np.zeros(3, dtype=int)})),
        strategy_named("joint"),
    )
    budget = Filter(1.0)
    Session(rows, budget=budget, noise=SeededNoise(0)).measure(
        Marginal(("a",)), Noise("laplace", 10.0)
    )
    assert RowFunctionsTested() in budget.spent.conditions


# The order


def test_release_is_charged_before_it_is_computed():
    session, rows = opened()
    assert session.measure("query").value == 7
    assert rows.log == [("computed", 1), ("drawn", 1)]
    assert rows.budget.events == (EVENT,)


def test_release_beyond_the_budget_computes_nothing():
    session, rows = opened(0.2)
    with pytest.raises(BudgetExceededError):
        session.measure("query")
    assert (rows.log, rows.budget.events) == ([], ())


def test_release_charges_events_beside_its_own():
    session, rows = opened(extra_events=(OTHER,))
    session.measure("query")
    assert rows.budget.events == (EVENT, OTHER)
    session, rows = opened(0.5, extra_events=(OTHER,))
    for release in (session.measure, session.iterate):
        with pytest.raises(BudgetExceededError):
            release("query")
    assert (rows.log, rows.budget.events) == ([], ())


def test_release_states_its_conditions_with_the_charge():
    condition = DataDependentDomain(("smoker",))
    session, rows = opened(conditions=[condition])
    session.measure("query")
    assert {condition, ExplicitSeed()} <= {*rows.budget.spent.conditions}


def test_release_limit_is_called_before_the_charge():
    def limit(event):
        raise BudgetExceededError(f"{event.label} is beyond a limit")

    session, rows = opened(limit=limit)
    for derived in (session, session.apply("change"), _part(session)):
        for release in (derived.measure, derived.iterate):
            with pytest.raises(BudgetExceededError, match="beyond a limit"):
                release("query")
    assert rows.log == []
    assert EVENT not in rows.budget.events


def _part(session):
    return session.reserve(Cost(privacy_measure="pure", amount=1.0), label="part")


def test_reserved_session_spends_from_its_part():
    session, rows = opened()
    part = _part(session)
    assert session.remaining.amount == 1.0
    part.measure("query")
    assert (session.remaining.amount, part.remaining.amount) == (1.0, 0.75)
    assert len(rows.budget.events) == 1
    with pytest.raises(BudgetExceededError):
        session.reserve(Cost(privacy_measure="pure", amount=1.1), label="more")


def test_parts_that_together_exceed_the_budget_are_not_reserved():
    session, rows = opened()
    parts = [
        Reservation(Cost(privacy_measure="pure", amount=amount), "part") for amount in (1.5, 1.0)
    ]
    with pytest.raises(BudgetExceededError):
        session.reserve_each(*parts)
    assert (session.remaining.amount, rows.budget.events) == (2.0, ())


def test_preview_reads_and_charges_nothing():
    session, rows = opened()
    assert session.preview("query", None).event == EVENT
    assert (rows.log, rows.budget.events) == ([], ())


def test_promise_states_the_conditions_of_its_session():
    condition = DataDependentDomain(("smoker",))
    session, rows = opened(conditions=[condition])
    promised = session.promise(EVENT, OTHER)
    assert promised.epsilon == 0.75
    assert {condition, ExplicitSeed()} <= {*promised.conditions}
    assert rows.budget.events == ()


# Forks


def test_release_in_a_fork_computes_nothing(monkeypatch):
    session, rows = opened(steps=2)
    step = session.iterate("query")
    fork(monkeypatch)
    for release in (lambda: session.measure("query"), step, lambda: session.iterate("query")):
        with pytest.raises(BudgetExceededError, match="fork"):
            release()
    assert rows.log == []
    assert rows.budget.events == (EVENT,)


def test_release_that_forks_while_it_computes_draws_nothing(monkeypatch):
    session, rows = opened(exact=lambda: fork(monkeypatch))
    with pytest.raises(BudgetExceededError, match="fork"):
        session.measure("query")
    assert rows.log == [("computed", 1)]


# Errors


@pytest.mark.parametrize("place", ["exact", "draw"])
def test_release_error_quotes_nothing_and_stays_charged(place):
    session, rows = opened()

    def fails(*_):
        raise KeyError("a private cell")

    setattr(rows, place, fails)
    with pytest.raises(DataError) as raised:
        session.measure("query")
    assert "private cell" not in repr(raised.value)
    assert raised.value.__context__ is None
    assert raised.value.__cause__ is None
    assert rows.budget.events == (EVENT,)


def test_release_shows_no_warning():
    session, _ = opened(exact=lambda: warnings.warn("a private cell", stacklevel=1))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        session.measure("query")
    assert not shown


# Steps that were charged as a whole


def test_iterate_answers_as_many_steps_as_were_charged():
    session, rows = opened(steps=2)
    step = session.iterate("query")
    assert rows.log == []
    assert rows.budget.events == (EVENT,)
    assert [step(1), step(2)] == [7, 7]
    assert [entry for entry in rows.log if entry[0] == "computed"] == [
        ("computed", 1, 1),
        ("computed", 1, 2),
    ]
    with pytest.raises(ParameterError, match="were answered"):
        step(3)
    assert len(rows.log) == 4
    assert rows.budget.events == (EVENT,)


def test_paid_step_that_fails_is_ticked_off():
    steps = itertools.count()
    session, _ = opened(steps=2, exact=lambda: 1 // next(steps))
    step = session.iterate("query")
    with pytest.raises(DataError):
        step()
    assert step() == 1
    with pytest.raises(ParameterError, match="were answered"):
        step()


# Arguments with which a session is opened.


def test_session_on_rows_of_a_ledger_needs_its_budget():
    with pytest.raises(LedgerError, match="office"):
        opened(ledger="office")


def test_session_budget_of_units_takes_no_trainings():
    budget = Filter(2.0, 1e-6)
    plan = TrainingPlan(budget, [TRAINING], 60.0)
    of_units = Filter(2.0, 1e-6)._for_units("patient", 2)
    with pytest.raises(ParameterError, match="units"):
        Session(Rows(of_units), budget=of_units, noise=SeededNoise(0), trainings=plan)


# Trainings, without a network


def test_session_trainings_of_another_budget_raise():
    one, other = Filter(2.0, 1e-6), Filter(2.0, 1e-6)
    plan = TrainingPlan(one, [TRAINING], 60.0)
    with pytest.raises(ParameterError, match="together with this budget"):
        Session(Rows(other), budget=other, noise=SeededNoise(0), trainings=plan)


TRAINING = SampledGaussianEvent(rate=0.5, noise_multiplier=1.0, steps=2, label="training")
PLAIN = Schema((Categorical(name="a", levels=("no", "yes"), nullable=True),))


def counted(source=None, **weights):
    table = Table.from_codes(PLAIN, {"a": np.arange(30) % 3})
    rows = source or MemorySource(table)
    for name, value in weights.items():
        setattr(rows, name, value)
    return CountedRows.from_source(rows, strategy_named("joint"))


def training_session(rows=None, *, planned=True):
    budget = Filter(2.0, 1e-6)
    plan = TrainingPlan(budget, [TRAINING], 60.0) if planned else None
    return Session(rows or counted(), budget=budget, noise=SeededNoise(0), trainings=plan)


class Gradients:
    """One gradient of two parameters for each row. The class records how often it is summed."""

    def __init__(self, count=30):
        self.count, self.sums = count, []

    def __len__(self):
        return self.count

    def sum(self, rows):
        self.sums.append(len(rows))
        return np.full(2, float(len(rows)))


def test_train_gives_rows_out_once():
    session = training_session()
    rows = session.train(TRAINING)
    assert rows.codes()["a"].tolist() == (np.arange(30) % 3).tolist()
    with pytest.raises(ParameterError, match="given out before"):
        session.train(TRAINING)


def test_train_unplanned_training_raises():
    for session, event in (
        (training_session(), replace(TRAINING, steps=3)),
        (training_session(), replace(TRAINING, noise_multiplier=0.9)),
        (training_session(planned=False), TRAINING),
    ):
        with pytest.raises(ParameterError, match="charged"):
            session.train(event)


def test_train_answers_as_many_steps_as_were_charged():
    rows, gradients = training_session().train(TRAINING), Gradients()
    for _ in range(2):
        assert rows.release(lambda: gradients).shape == (2,)
    with pytest.raises(ParameterError, match="were answered"):
        rows.release(lambda: gradients)
    assert len(gradients.sums) == 2


def test_train_samples_rows_at_the_charged_rate():
    rows, gradients = training_session().train(TRAINING), Gradients(4000)
    rows.release(lambda: gradients)
    assert abs(gradients.sums[0] - 2000) < 6 * 1000**0.5


def test_training_plan_is_proven_with_its_first_part():
    """An epsilon that covers the trainings alone does not cover the part before them."""
    quiet = replace(TRAINING, noise_multiplier=12.0, rate=1.0)
    alone = epsilon_of(quiet, 1e-6)
    first = Filter(0.5, 1e-6)
    with pytest.raises(BudgetExceededError):
        TrainingPlan(first, [quiet], alone)
    plan = TrainingPlan(first, [quiet], alone + 0.5)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(ParameterError, match="copied or pickled"):
            duplicate(plan)
    with pytest.raises(ParameterError, match="equal"):
        TrainingPlan(first, [quiet, quiet], 10.0)


def test_training_plan_in_a_fork_gives_nothing_out(monkeypatch):
    session = training_session()
    fork(monkeypatch)
    with pytest.raises(BudgetExceededError, match="fork"):
        session.train(TRAINING)


def test_train_weighted_rows_raise():
    weighted = counted(_weights=np.ones(30, dtype=np.int64))
    with pytest.raises(ParameterError, match="count different amounts"):
        training_session(weighted).train(TRAINING)


class Fixed:
    """A source that notes the rate of its coins and draws no noise."""

    def coins(self, rate, count):
        self.rate = rate
        return np.ones(count, dtype=bool)

    def discrete_gaussian(self, sigma, shape):
        self.sigma = sigma
        return np.zeros(shape, dtype=np.int64)


def test_sampled_sum_reads_rows_more_rarely_than_charged():
    source = Fixed()
    SampledSum.from_event(TRAINING).draw(Gradients(), source)
    assert source.rate <= TRAINING.rate - SAMPLING_SLACK
    SampledSum(1.0, 1.0).draw(Gradients(), source)
    assert source.rate == 1.0


def test_sampled_sum_noise_covers_the_rounding_to_its_grid():
    """A draw of one cell shows the cell, and with it the noise that is drawn."""

    class OneCell(Fixed):
        def discrete_gaussian(self, sigma, shape):
            return super().discrete_gaussian(sigma, shape) + 1

    source = OneCell()
    (cell, _) = SampledSum.from_event(TRAINING).draw(Gradients(0), source)
    assert cell * source.sigma >= TRAINING.noise_multiplier * (1 + 2.0**-14)


def test_sampled_sum_noise_has_the_charged_scale():
    sums = SampledSum(1.0, 2.0).draw(Gradients(0), SeededNoise(0))
    assert sums.shape == (2,)
    many = np.concatenate(
        [SampledSum(1.0, 2.0).draw(Gradients(0), SeededNoise(seed)) for seed in range(400)]
    )
    assert np.std(many) == pytest.approx(2.0, rel=0.15)


def test_sampled_sum_too_many_parameters_raise():
    class Long(Gradients):
        def sum(self, rows):
            del rows
            return np.broadcast_to(0.0, (2**52,))

    with pytest.raises(ParameterError, match="too many parameters"):
        SampledSum(0.5, 1e10).draw(Long(), Fixed())


@pytest.mark.parametrize("steps", [-1, 0.5, True, "2", None])
def test_paid_steps_are_a_whole_number(steps):
    with pytest.raises(ParameterError, match="steps"):
        PaidSteps(steps).charge()


def test_paid_steps_are_counted_down():
    steps = PaidSteps(2)
    steps.charge()
    steps.charge()
    for _ in range(2):
        with pytest.raises(ParameterError, match="were answered"):
            steps.charge()
