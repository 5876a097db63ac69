"""A fit refuses, charges, reads, releases and fits, in this order, and states all that it costs."""

import pytest

from missdp.accounting import (
    ApproximateEvent,
    DataDependentDomain,
    ExplicitSeed,
    Filter,
    FixedSchedule,
    FloatingPointTraining,
    SampledGaussianEvent,
    proven_epsilon,
)
from missdp.errors import BudgetExceededError, DataError, ParameterError
from missdp.session.fit import FitPlan, fit
from session.noted import EVENT, Rows

DOMAIN = DataDependentDomain(("smoker",))
FAILS = ApproximateEvent(epsilon=0.0, delta=1e-7, label="levels")
TRAINING = SampledGaussianEvent(rate=0.01, noise_multiplier=4.0, steps=10, label="training")


class ChargedFirst(Filter):
    charged_first = True


class Steps:
    """Notes its phases, and how much a shared budget was charged in each."""

    def __init__(self, shared=None, *, plan=None, unread=True, fails=""):
        self.shared, self.unread, self.fails, self.log = shared, unread, fails, []
        facts = {"label": "fit", "epsilon": 1.0, "delta": 0.0, "cap": Filter(1.0)}
        self.plan = FitPlan(**facts | (plan or {}))

    def note(self, phase):
        self.log.append((phase, len(self.shared.events) if self.shared else 0))
        if phase == self.fails:
            raise DataError("failed")

    def checked_plan(self):
        self.note("refuse")
        return self.plan

    def remedy(self, shared, plan):
        del shared, plan
        return "Use a larger budget."

    def refuse_unread(self):
        self.note("refuse unread")

    def read(self):
        self.note("read")

    def conditions(self):
        return (DOMAIN,)

    def learn(self, opened):
        self.note("fit")
        rows = Rows(self.plan.cap)
        return opened(rows).measure("query").value


def phases(steps, budget=None):
    return fit(steps, budget=budget, random_state=0)


@pytest.mark.parametrize(
    "plan",
    [
        {"cap": Filter(1.1)},
        {"cap": Filter(1.0, 1e-6, measure="zcdp")},
        {"cap": Filter(1.0, 1e-6, measure="zcdp"), "delta": 1e-6, "failures": (FAILS,)},
    ],
)
def test_fit_whose_parts_are_larger_than_the_whole_reads_nothing(plan):
    steps = Steps(plan=plan)
    with pytest.raises(ParameterError, match="larger than the fit as a whole"):
        phases(steps)
    assert steps.log == [("refuse", 0)]


def test_fit_charges_a_shared_budget_before_it_releases():
    shared = Filter(2.0)
    steps = Steps(shared)
    learned, guarantee = phases(steps, shared)
    assert steps.log == [("refuse", 0), ("read", 0), ("fit", 1)]
    assert shared.remaining.amount == 1.0
    assert learned == 7
    assert (guarantee.epsilon, guarantee.delta) == (1.0, 0.0)
    assert {DOMAIN, ExplicitSeed()} <= {*guarantee.conditions}
    assert {DOMAIN, ExplicitSeed()} <= {*shared.spent.conditions}


def test_fit_in_a_ledger_charges_before_it_reads():
    shared = ChargedFirst(2.0)
    steps = Steps(shared)
    phases(steps, shared)
    assert steps.log == [("refuse", 0), ("refuse unread", 0), ("read", 1), ("fit", 1)]
    assert len(shared.events) == 1
    assert DOMAIN in shared.spent.conditions
    held = Steps(shared, unread=False)  # rows in memory: nothing is opened
    phases(held, shared)
    assert [phase for phase, _ in held.log] == ["refuse", "read", "fit"]
    assert len(shared.events) == 2


def test_fit_beyond_a_shared_budget_reads_nothing():
    for shared in (Filter(0.9), ChargedFirst(0.9)):
        steps = Steps(shared)
        with pytest.raises(BudgetExceededError, match="larger budget"):
            phases(steps, shared)
        assert [phase for phase, _ in steps.log] == ["refuse"]
        assert shared.events == ()


def test_fit_that_fails_stays_charged():
    for budget, phase in ((Filter, "fit"), (ChargedFirst, "read"), (ChargedFirst, "fit")):
        shared = budget(2.0)
        with pytest.raises(DataError):
            phases(Steps(shared, fails=phase), shared)
        assert len(shared.events) == 1


def test_fit_seed_must_be_a_seed():
    steps = Steps()
    with pytest.raises(ParameterError, match="random_state"):
        fit(steps, budget=None, random_state=object())
    assert steps.log == []


def test_fit_states_failures_and_charges_them():
    plan = {"epsilon": 2.0, "delta": 1e-6, "cap": Filter(2.0, 9e-7), "failures": (FAILS,)}
    shared = Filter(4.0, 1e-5, measure="gdp", failure=1e-6)
    _, guarantee = phases(Steps(shared, plan=plan), shared)
    assert guarantee.delta == 1e-6
    assert FAILS in guarantee.events
    assert FAILS in shared.events
    assert proven_epsilon(guarantee.events, 1e-6) <= 2.0


def test_fit_states_trainings_and_proves_them_first():
    plan = {"epsilon": 2.5, "delta": 1e-6, "cap": Filter(2.0, 1e-6), "trainings": (TRAINING,)}
    _, guarantee = phases(Steps(plan=plan))
    assert guarantee.epsilon == 2.5
    assert TRAINING in guarantee.events
    assert {FixedSchedule(), FloatingPointTraining()} <= {*guarantee.conditions}
    assert proven_epsilon(guarantee.events, 1e-6) <= 2.5
    steps = Steps(plan=plan | {"epsilon": 2.0, "cap": Filter(2.0, 1e-6)})
    with pytest.raises(BudgetExceededError):
        phases(steps)
    assert [phase for phase, _ in steps.log] == ["refuse"]


def test_fit_sessions_spend_the_filter_of_the_plan_within_the_limit():
    limited = []

    class Limited(Steps):
        def learn(self, opened):
            rows = Rows(self.plan.cap)
            opened(rows, limit=limited.append).measure("query")
            opened(rows, limit=limited.append).measure("query")

    steps = Limited()
    phases(steps)
    assert limited == [EVENT, EVENT]
    assert steps.plan.cap.events == (EVENT, EVENT)
    assert steps.plan.cap.remaining.amount == 0.5
