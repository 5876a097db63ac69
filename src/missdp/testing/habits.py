"""Habits of a synthesizer: parameters, budgets and what a guarantee says."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sklearn.base import clone

from missdp.accounting import (
    Budget,
    DataDependentDomain,
    DeclaredRowCount,
    ExplicitSeed,
    MissingCompletelyAtRandom,
    PublicDomain,
    releases,
)
from missdp.errors import (
    BudgetExceededError,
    DataError,
    NotFittedError,
    ParameterError,
    SchemaError,
)
from missdp.schema import Categorical, Schema
from missdp.sources import MemorySource, strategy_named
from missdp.table import Table
from missdp.testing.record import expect, refuses
from missdp.testing.subject import Subject

__all__ = ["BUDGET_HABITS"]

_BAD = (
    {"epsilon": 0.0},
    {"epsilon": -1.0},
    {"epsilon": math.nan},
    {"epsilon": math.inf},
    {"epsilon": None},
    {"epsilon": "1"},
    {"epsilon": 1e-9},
    {"delta": 1.0},
    {"delta": -1e-9},
    {"delta": math.nan},
    {"missing": "guess"},
    {"n_rows": 0},
    {"n_rows": "many"},
    {"n_rows": 1.5},
    {"budget": 1.0},
    {"random_state": -1},
    {"random_state": "x"},
    {"random_state": 1.5},
    {"progress": 3},
)


def scikit_learn(on: Subject) -> None:
    """get_params, set_params, clone and repr work as in scikit-learn."""
    model = on.build()
    params = model.get_params()
    expect(params["epsilon"] == on.epsilon, "get_params must return epsilon as it was given")
    expect(params["missing"] == on.strategy, "get_params must return missing as it was given")
    again = clone(model).set_params(epsilon=2 * on.epsilon)
    expect(again.epsilon == 2 * on.epsilon, "set_params must set epsilon")
    expect(model.epsilon == on.epsilon, "a clone must not share parameters")
    expect("epsilon" in repr(model), "repr must show parameters")


def default_strategy(on: Subject) -> None:
    """The default strategy is the first that the family lists."""
    model = on.family(**{"epsilon": 1.0, **_without(on, "missing")})
    expect(model.missing == on.family.strategies[0], "make 'missing' default to strategies[0]")


def bad_parameters(on: Subject) -> None:
    """Bad parameters are refused before anything is charged."""
    for bad in _BAD:
        budget = _ample(on)
        with refuses(ParameterError, f"{bad}"):
            on.build(**{"budget": budget, **bad}).fit(on.table(20))
        expect(not budget.events, f"{bad} was charged for before it was refused")


def undeclared_word(on: Subject) -> None:
    """An unknown word for 'undeclared' is refused before anything is charged."""
    budget, bad = _ample(on), {"undeclared": "ignore"}
    with refuses(ParameterError, f"{bad}", containing="undeclared"):
        on.build(budget=budget).fit(on.table(20), **bad)  # type: ignore[arg-type]
    expect(not budget.events, f"{bad} was charged for before it was refused")


def clones_share_the_budget(on: Subject) -> None:
    """A clone spends from the same budget."""
    budget = _enough(on, 1.2)
    model = on.build(budget=budget).fit(on.table())
    with refuses(BudgetExceededError, "a second fit in a budget for one"):
        clone(model).fit(on.table())


def charged_before_reading(on: Subject) -> None:
    """A shared budget is charged before anything is read."""
    budget = _enough(on)
    spy = Spy(on.table(), budget)
    on.build(budget=budget).fit(spy)
    expect(spy.charged, "nothing was read")
    expect(min(spy.charged) >= 1, "rows were read before the budget was charged")
    expect(budget.spent.epsilon <= on.epsilon * (1 + 1e-9), "more was charged than was asked for")


def refused_fit(on: Subject, folder: Path) -> None:
    """A fit that a budget refuses reads nothing and charges nothing."""
    budget = _enough(on, 0.5)
    spy = Spy(on.table(), budget)
    for data, schema in ((spy, None), (folder / "absent.csv", on.schema)):
        with refuses(BudgetExceededError, "a fit beyond the budget"):
            on.build(budget=budget).fit(data, schema=schema)
    expect(not spy.charged, "rows were read although the budget refused")
    expect(not budget.events, "the budget recorded what it refused")


def failed_fit(on: Subject) -> None:
    """A fit that fails stays charged, and leaves no guarantee of an earlier one."""
    budget = _enough(on)
    model = on.build()
    model.fit(on.table()).set_params(budget=budget)
    with refuses(DataError, "a source that cannot be read"):
        model.fit(Spy(on.table(), budget, fails=True))
    expect(budget.events, "a fit that failed must stay charged")
    with refuses(NotFittedError, "sampling after a failed fit"):
        model.sample(1)
    expect(not hasattr(model, "guarantee_"), "a failed fit must leave no guarantee_")


def guarantee(on: Subject) -> None:
    """The guarantee is computed, and within what was asked."""
    model = on.build().fit(on.table())
    found = model.guarantee_
    most = on.epsilon * (1 + 1e-9)
    expect(0.95 * on.epsilon < found.epsilon <= most, "guarantee_ must be what was asked for")
    expect(found.delta == on.delta, "guarantee_ must have the delta that was asked for")
    expect(found.protects == "incomplete", "guarantee_ must be of the table with holes")
    expect(found.adjacency == "add-remove", "guarantee_ must be for add-remove neighbours")
    expect(ExplicitSeed() in found.conditions, "a seeded fit must say so")
    expect(found.epsilon_at(found.delta) <= most, "the events must prove the guarantee")


def spending(on: Subject) -> None:
    """What a fit spends does not depend on the data."""
    spent = [
        on.build(n_rows=100).fit(table).guarantee_.epsilon
        for table in (on.table(), on.table(0), on.table(2000, seed=1))
    ]
    expect(max(spent) - min(spent) < 1e-12, "the guarantee depends on the rows")


def ordinary_conditions(on: Subject) -> None:
    """An ordinary release rests on its public domain only."""
    model = on.build(random_state=None).fit(on.table())
    expect(model.guarantee_.conditions == (PublicDomain(),), "conditions must be PublicDomain only")


def recorded_conditions(on: Subject) -> None:
    """What was read from the data or declared becomes a condition."""
    name = on.schema.names[0]
    marked = on.schema[name].model_copy(update={"undeclared": ("levels",)})
    schema = Schema((marked, *on.schema.attributes[1:]))
    budget = _ample(on)
    model = on.build(n_rows=123, budget=budget)
    with refuses(SchemaError, "a schema with undeclared facts", containing="undeclared"):
        model.fit(on.frame(), schema=schema)
    expect(not budget.events, "a refused schema was charged for")
    model.fit(on.frame(), schema=schema, undeclared="accept")
    for found in (model.guarantee_.conditions, budget.spent.conditions):
        expect(DataDependentDomain(attributes=(name,)) in found, "undeclared facts must be stated")
        expect(DeclaredRowCount(n=123) in found, "a declared number of rows must be stated")
        # What was read from the data is not public, and the rest still has to be.
        expect(PublicDomain() not in found, "the whole domain is not public")
        expect(any(isinstance(c, PublicDomain) for c in found), "the rest must be public")
    expect(model.n_rows_ == 123, "n_rows_ must be the declared number")


def applied_parameters(on: Subject, folder: Path) -> None:
    """Parameters that are set after a fit do not change what it was."""
    model = on.build().fit(on.table())
    known = MissingCompletelyAtRandom(dict.fromkeys(on.schema.nullable, 0.9))
    before = model.ground_truth_guarantee(known)
    for name in on.family.strategies:
        model.set_params(missing=name, epsilon=9.0)
        expect(
            model.ground_truth_guarantee(known) == before, "keep what was fitted, not parameters"
        )
    others = [name for name in on.family.strategies if name != on.strategy]
    model.set_params(missing=(others or [on.strategy])[0]).save(folder / "model.json")
    again = on.family.load(folder / "model.json")
    kept = (again.missing, again.epsilon) == (on.strategy, on.epsilon)
    expect(kept, "save the parameters of the fit, not those that were set later")
    expect(again.ground_truth_guarantee(known) == before, "a loaded model must state the same")


def gates(on: Subject) -> None:
    """Whatever is released says which attributes a row must have observed to be read."""
    model = on.build(n_rows=300).fit(on.table())
    strategy, every = strategy_named(on.strategy), frozenset(on.schema.nullable)
    found = [frozenset(event.gate or ()) for event in releases(model.guarantee_.events)]
    if strategy.models_holes:
        expect(set(found) <= {frozenset()}, "every row is read, so there is no gate")
    elif strategy.complete_only:
        expect(set(found) == {every}, "only complete rows are read, so all attributes are the gate")
    elif strategy.fills:
        margins = [gate for gate in found if gate]
        expect(all(len(gate) == 1 for gate in margins), "margins of an imputer have one attribute")
        expect(not any(found[len(margins) :]), "filled rows are all read, so there is no gate")
    else:
        for event in releases(model.guarantee_.events):
            names = set(event.label.removeprefix("marginal ").split(" x "))
            if event.label.startswith("marginal "):
                gate = frozenset(event.gate or ())
                expect(gate == (every & names), "the gate must be the attributes that are counted")


def source_and_schema(on: Subject) -> None:
    """A source and a schema that disagree are refused."""
    schema = Schema((Categorical(name="x", levels=("a", "b")),))
    with refuses(DataError, "another schema than the source has", containing="another schema"):
        on.build().fit(MemorySource(on.table()), schema=schema)


class Spy(MemorySource):
    """A source that notes what had been charged when it was read, or fails."""

    def __init__(self, table: Table, budget: Budget, *, fails: bool = False) -> None:
        super().__init__(table)
        self.budget, self.fails = budget, fails
        self.charged: list[int] = []

    def _note(self) -> None:
        self.charged.append(len(self.budget.events))
        if self.fails:
            raise DataError("the disk is on fire")

    def counts(self, cliques: Any, *, rows: Any) -> Any:
        """Count every clique."""
        self._note()
        return super().counts(cliques, rows=rows)

    @property
    def table(self) -> Table:
        """The private rows."""
        self._note()
        return super().table


def _without(on: Subject, name: str) -> dict[str, Any]:
    return {key: value for key, value in on.parameters.items() if key != name}


def _enough(on: Subject, times: float = 1.0) -> Budget:
    # A little more delta than one fit needs: only epsilon is short.
    return Budget(times * on.epsilon, min(0.5, 1.5 * on.delta))


def _ample(on: Subject) -> Budget:
    return Budget(100 * on.epsilon, min(0.9, 20 * on.delta + 1e-3))


def in_folder(habit: Callable[[Subject, Path], None]) -> Callable[[Subject], None]:
    """Return the habit with an empty folder of its own."""

    def run(on: Subject) -> None:
        with tempfile.TemporaryDirectory() as folder:
            habit(on, Path(folder))

    run.__name__, run.__doc__ = habit.__name__, habit.__doc__
    return run


BUDGET_HABITS: tuple[Callable[[Subject], None], ...] = (
    scikit_learn,
    default_strategy,
    bad_parameters,
    undeclared_word,
    clones_share_the_budget,
    charged_before_reading,
    in_folder(refused_fit),
    failed_fit,
    guarantee,
    spending,
    ordinary_conditions,
    recorded_conditions,
    in_folder(applied_parameters),
    gates,
    source_and_schema,
)
