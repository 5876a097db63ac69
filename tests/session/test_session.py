"""Parts and changed rows keep the conditions, adjacency, unit and weight bound of a session."""

import numpy as np
import pytest

from missdp import Categorical, Schema, Table
from missdp.accounting import Cost, DataDependentDomain, ExplicitSeed, Filter, UnitEvent
from missdp.errors import BudgetExceededError, ParameterError, SchemaError, UnprovenError
from missdp.pricing import GradientQuery, Loss, RowDomain, StandardisedRows, VectorQuery
from missdp.pricing.chains import StandardisedFacts
from missdp.schema import Unit
from missdp.schema.layout import STEPS
from missdp.session import (
    CountedRows,
    FineCodes,
    LevelMerge,
    Marginal,
    Noise,
    Recoding,
    SeededNoise,
    Session,
)
from missdp.sources import MemorySource, strategy_named
from missdp.sources.filling import MarginallyFilledRow

SCHEMA = Schema(
    (
        Categorical(name="smoker", levels=("no", "yes"), nullable=True),
        Categorical(name="ill", levels=("no", "yes", "often")),
    )
)
DOMAIN = DataDependentDomain(("smoker",))
NOISE = Noise("laplace", 4.0)
MEAN = VectorQuery.mean(RowDomain(rows=40, columns=2), multiplier=4.0, noise="laplace")
STANDARDISED = StandardisedFacts(raw=MEAN.domain, label="mean", delta=1e-6)
REPLACE_ONE = {"adjacency": "replace-one"}


def counted(weights=None):
    rng = np.random.default_rng(0)
    codes = {"smoker": rng.integers(0, 3, 200), "ill": rng.integers(0, 3, 200)}
    source = MemorySource(Table.from_codes(SCHEMA, codes))
    source._weights = weights
    return CountedRows.from_source(source, strategy_named("impute-first"))


def standardised():
    return StandardisedRows(np.random.default_rng(0).normal(size=(40, 2)), STANDARDISED)


def adaptive(epsilon=10.0, **facts):
    return Filter(epsilon, **facts)


def opened(budget, rows=None):
    return Session(rows or counted(), budget=budget, noise=SeededNoise(0), conditions=[DOMAIN])


def reserved(session):
    return session.reserve(Cost(privacy_measure="pure", amount=2.0), label="part")


def filling(session, laws):
    return MarginallyFilledRow(session.facts.modelled.full_schema, laws)


def finer(session):
    recoded = Recoding(SCHEMA, {}, fine_schema=SCHEMA)
    return session.apply(recoded).apply(FineCodes())


# Whatever a session on counted rows can be turned into
DERIVED = {
    "reserve": reserved,
    "filled": lambda session: session.apply(filling(session, {"smoker": [0.5, 0.5]})),
    "merged": lambda session: session.apply(
        LevelMerge({"smoker": np.arange(2), "ill": np.arange(3)})
    ),
    "recoded": lambda session: session.apply(Recoding(SCHEMA, {})),
    "finer": finer,
    "reserve, filled": lambda session: DERIVED["filled"](reserved(session)),
    "filled, reserve": lambda session: reserved(DERIVED["filled"](session)),
}
derived = pytest.mark.parametrize("name", DERIVED)


def measured(session):
    return session.measure(Marginal(("ill",)), NOISE)


@derived
def test_derived_session_keeps_conditions(name):
    budget = adaptive()
    measured(DERIVED[name](opened(budget)))
    assert {DOMAIN, ExplicitSeed()} <= {*budget.spent.conditions}


@derived
@pytest.mark.parametrize(("adjacency", "times"), [("add-remove", 1), ("replace-one", 2)])
def test_derived_session_keeps_adjacency(name, adjacency, times):
    budget = adaptive(adjacency=adjacency)
    session = DERIVED[name](opened(budget))
    before = session.remaining.amount
    event = measured(session).event
    assert event.adjacency == "add-remove"
    assert before - session.remaining.amount == pytest.approx(times * 0.25)
    assert budget.spent.adjacency == adjacency


@derived
def test_derived_session_keeps_unit(name):
    """The budget stays that of units of three rows, and pays for three rows of each."""
    budget = adaptive(9.0)._for_units("patient", 3)
    session = DERIVED[name](opened(budget))
    assert session.remaining.amount == pytest.approx(2.0 if "reserve" in name else 3.0)
    measured(session)
    event = budget.filter()
    assert isinstance(event, UnitEvent)
    assert (event.unit, event.rows) == ("patient", 3)
    assert budget.spent.epsilon == 9.0
    with pytest.raises(BudgetExceededError):
        session.measure(Marginal(("ill",)), Noise("laplace", 0.3))


@derived
def test_derived_session_keeps_weight_bound(name):
    """A row counts for one row at most: counts and noise are in steps of a row."""
    session = DERIVED[name](opened(adaptive(), counted(np.full(200, STEPS // 2))))
    found = measured(session)
    assert session.facts.steps == found.mechanism.steps == STEPS
    assert (found.event.sensitivity, found.event.scale) == (STEPS, 4.0 * STEPS)
    assert abs(found.values.sum() - 100) < 40  # each row counts for half a row


@derived
def test_derived_session_keeps_its_limit(name):
    limited = []
    facts = {"budget": adaptive(), "noise": SeededNoise(0), "limit": limited.append}
    event = measured(DERIVED[name](Session(counted(), **facts))).event
    assert limited == [event]


def test_reserve_states_conditions_before_any_answer():
    budget = adaptive()
    reserved(opened(budget))
    assert {DOMAIN, ExplicitSeed()} <= {*budget.spent.conditions}


def test_reserve_beyond_the_budget_raises():
    budget = adaptive(1.0)
    with pytest.raises(BudgetExceededError):
        reserved(opened(budget))
    assert budget.events == ()


def test_counted_rows_of_units_raise():
    """A fit chooses the rows of each unit and charges for units.

    A session opened by hand does not.
    """

    class OfUnits:
        schema = Schema(SCHEMA.attributes, unit=Unit("patient", max_rows=2))

        def counts(self, cliques, *, rows):
            raise AssertionError

    with pytest.raises(SchemaError, match="by hand"):
        CountedRows.from_source(OfUnits(), strategy_named("joint"))


# Adjacency is a fact of rows


def test_replace_one_rows_add_remove_budget_raises():
    with pytest.raises(UnprovenError, match="private under replace-one adjacency"):
        opened(adaptive(), standardised())


def test_counted_rows_replace_one_budget_converts_events():
    budget = adaptive(adjacency="replace-one")
    measured(opened(budget))
    assert 10.0 - budget.remaining.amount == pytest.approx(0.5)  # twice 1 / 4


def test_standardised_rows_reserve_keeps_conditions_and_adjacency():
    budget = Filter(10.0, **REPLACE_ONE)
    session = reserved(opened(budget, standardised()))
    event = session.measure(MEAN).event
    assert event.adjacency == budget.spent.adjacency == "replace-one"
    assert session.remaining.amount == pytest.approx(2.0 - event.epsilon)
    assert {DOMAIN, ExplicitSeed()} <= {*budget.spent.conditions}


def test_standardised_rows_are_not_changed():
    for change in (FineCodes(), lambda rows: rows):
        with pytest.raises(ParameterError, match="Add a step"):
            opened(Filter(10.0, **REPLACE_ONE), standardised()).apply(change)


def test_measure_of_an_iterative_query_releases_nothing():
    """An iterative query has no point at which it could be answered. It is charged nevertheless."""
    loss = Loss.logistic(radius=1.0, coefficient_norm=1.0)
    asked = GradientQuery(domain=MEAN.domain, loss=loss, multiplier=40.0, steps=3)
    budget = Filter(10.0, 1e-6, measure="zcdp", **REPLACE_ONE)
    with pytest.raises(ParameterError, match="iterate"):
        opened(budget, standardised()).measure(asked)
