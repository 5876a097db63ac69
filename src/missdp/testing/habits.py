"""Habits of a synthesizer: its parameters, budgets, guarantee, output, files and refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
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
    MissDPError,
    NotFittedError,
    OutputError,
    ParameterError,
    SchemaError,
)
from missdp.record import sealed, unsealed
from missdp.schema import Categorical, Schema
from missdp.sources import MemorySource
from missdp.sources.modelled import Modelled
from missdp.table import Table
from missdp.testing import inputs
from missdp.testing.findings import Caught, Guarded, Recorder, expect, refuses
from missdp.testing.subject import Subject

__all__ = ["HABITS"]


_BAD: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.0, -1.0, math.nan, math.inf, None, "1", 1e-9),
    "delta": (1.0, -1e-9, math.nan),
    "missing": ("guess",),
    "n_rows": (0, "many", 1.5),
    "budget": (1.0,),
    "random_state": (-1, "x", 1.5),
    "progress": (3,),
}


def scikit_learn(on: Subject) -> None:
    """get_params, set_params, clone and repr work as in scikit-learn."""
    model = on.build()
    given = [model.get_params()[name] for name in ("epsilon", "missing")]
    expect(given == [on.epsilon, on.strategy], "get_params must return what was given")
    again = clone(model).set_params(epsilon=2 * on.epsilon)
    expect(again.epsilon == 2 * on.epsilon, "set_params must set epsilon")
    expect(model.epsilon == on.epsilon, "a clone must not share parameters")
    expect("epsilon" in repr(model), "repr must show parameters")


def default_strategy(on: Subject) -> None:
    """The default strategy is the first that the family lists."""
    given = {key: value for key, value in on.parameters.items() if key != "missing"}
    model = on.family(**{"epsilon": 1.0, **given})
    expect(model.missing == on.family.strategies[0], "make 'missing' default to strategies[0]")


def bad_parameters(on: Subject) -> None:
    """Bad parameters are refused before anything is charged."""
    for bad in ({name: value} for name, values in _BAD.items() for value in values):
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
    before = len(budget.events)
    try:
        clone(model).fit(on.table())
    except BudgetExceededError:
        return
    # Two fits that were counted at a Rényi order may cost little more than one.
    expect(len(budget.events) > before, "a second fit was not charged to the budget for one")


def charged_before_reading(on: Subject) -> None:
    """A shared budget is charged before anything is read."""
    budget = _enough(on)
    spy = _Spy(on.table(), budget)
    on.build(budget=budget).fit(spy)
    expect(spy.charged, "nothing was read")
    expect(min(spy.charged) >= 1, "rows were read before the budget was charged")
    expect(budget.spent.epsilon <= on.epsilon * (1 + 1e-9), "more was charged than was asked for")


def refused_fit(on: Subject, folder: Path) -> None:
    """A fit that a budget refuses reads nothing and charges nothing."""
    budget = _enough(on, 0.5)
    spy = _Spy(on.table(), budget)
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
        model.fit(_Spy(on.table(), budget, fails=True))
    expect(budget.events, "a fit that failed must stay charged")
    with refuses(NotFittedError, "sampling after a failed fit"):
        model.sample(1)
    expect(not hasattr(model, "guarantee_"), "a failed fit must leave no guarantee_")


def guarantee(on: Subject) -> None:
    """The guarantee is computed, and within what was asked."""
    model = on.build().fit(on.table())
    found = model.guarantee_
    most = on.epsilon * (1 + 1e-9)
    asked = 0.95 * on.epsilon < found.epsilon <= most and found.delta == on.delta
    expect(asked, "guarantee_ must be what was asked for")
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
    marked = replace(on.schema[name], undeclared=("levels",))
    schema = replace(on.schema, attributes=(marked, *on.schema.attributes[1:]))
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
        kept = model.ground_truth_guarantee(known) == before
        expect(kept, "keep what was fitted, not parameters")
    others = [name for name in on.family.strategies if name != on.strategy]
    model.set_params(missing=(others or [on.strategy])[0]).save(folder / "model.json")
    again = on.family.load(folder / "model.json")
    kept = (again.missing, again.epsilon) == (on.strategy, on.epsilon)
    expect(kept, "save the parameters of the fit, not those that were set later")
    expect(again.ground_truth_guarantee(known) == before, "a loaded model must state the same")


def gates(on: Subject) -> None:
    """Whatever is released says which attributes a row must have observed to be read."""
    model = on.build(n_rows=300).fit(on.table())
    strategy, modelled = on.family.strategy_of(on.strategy), Modelled(on.schema)
    holes = frozenset(modelled.schema.nullable)
    every = holes - modelled.filled  # a row is read although rules settled a cell of it
    released = releases(model.guarantee_.events)
    for name in (a.name for a in modelled.schema):  # bins are found before holes are filled
        trees = [e for e in released if e.label == f"tree {name}"]
        alone = strategy.gate((name,), modelled.schema) - modelled.filled
        expect(all((e.gate or set()) == alone for e in trees), f"the tree of {name} has no gate")
    rest = [e for e in released if not e.label.startswith("tree ")]
    found = [frozenset(event.gate or ()) for event in rest]
    if strategy.models_holes:
        expect(set(found) <= {frozenset()}, "every row is read, so there is no gate")
    elif strategy.complete_only:
        expect(set(found) == {every}, "only complete rows are read, so all attributes are the gate")
    elif strategy.fills:
        margins = [gate for gate in found if gate]
        expect(all(len(gate) == 1 for gate in margins), "margins of an imputer have one attribute")
        expect(len({*margins}) == len(margins), "a margin of filled rows has no gate")
    else:
        for event in releases(model.guarantee_.events):
            names = set(event.label.removeprefix("marginal ").split(" x "))
            if event.label.startswith("marginal "):
                told = frozenset(event.gate or ()) == (every & names)
                expect(told, "the gate must be the attributes that are counted")


def source_and_schema(on: Subject) -> None:
    """A source and a schema that disagree are refused."""
    schema = Schema((Categorical(name="x", levels=("a", "b")),))
    with refuses(DataError, "another schema than the source has", containing="another schema"):
        on.build().fit(MemorySource(on.table()), schema=schema)


class _Spy(Guarded):
    """A source that notes what had been charged when it was read, or fails."""

    def __init__(self, table: Table, budget: Budget, *, fails: bool = False) -> None:
        super().__init__(table, Recorder(0))
        self.budget, self.fails = budget, fails
        self.charged: list[int] = []

    def _note(self) -> None:
        self.charged.append(len(self.budget.events))
        if self.fails:
            raise DataError("the disk is on fire")


def _enough(on: Subject, times: float = 1.0) -> Budget:
    return Budget(times * on.epsilon, min(0.5, 1.5 * on.delta))  # only epsilon is short


def _ample(on: Subject) -> Budget:
    return Budget(100 * on.epsilon, min(0.9, 20 * on.delta + 1e-3))


def output_shape(on: Subject) -> None:
    """Columns, types and values of synthetic rows depend on the schema alone."""
    wanted = _shape_of(on.frame(50))
    tables = {
        "ordinary": on.table(),
        "empty": on.table(0),
        "one row": on.table(1),
        "178 rows": on.table(178),
        "all missing": on.constant(50, missing=True),
        "constant": on.constant(50),
    }
    for name, table in tables.items():
        synthetic = on.build(n_rows=100).fit(table).sample()
        expect(_shape_of(synthetic) == wanted, f"columns or types differ ({name})")
        expect(len(synthetic) == 100, f"the declared number of rows is not drawn ({name})")
        valued = [a.name for a in on.schema if a.not_applicable is None]
        expect(not synthetic[valued].isna().any().any(), f"filled rows have holes ({name})")
        Table.read(synthetic, on.schema)  # every value is in the declared domain


def sample_sizes(on: Subject) -> None:
    """Any number of rows is drawn, 0 too; what is no number of rows is refused."""
    model = on.build(random_state=None).fit(on.table())
    for n in (0, 1, 7):
        expect(len(model.sample(n)) == n, f"sample({n}) must return {n} rows")
    bad: Any
    for bad in (-1, 1.5, True, "3"):
        with refuses(ParameterError, f"sample({bad!r})"):
            model.sample(bad)
    for bad in (-1, "x", 1.5, True):
        with refuses(ParameterError, f"sample(random_state={bad!r})", containing="random_state"):
            model.sample(3, random_state=bad)


def not_fitted(on: Subject, folder: Path) -> None:
    """What needs a fit says so."""
    model = on.build()
    for call in (lambda: model.sample(1), lambda: model.save(folder / "m.json")):
        with refuses(NotFittedError, "a model that is not fitted"):
            call()


def keeping_holes(on: Subject) -> None:
    """Holes can be kept where the strategy models them, and about as many as there were."""
    table = on.table(2000)
    model = on.build().fit(table)
    if not on.family.strategy_of(on.strategy).models_holes:
        with refuses(ParameterError, "keeping holes", containing="joint"):
            model.sample(10, missing_values="keep")
        return
    kept = model.sample_table(2000, missing_values="keep")
    ruled = {name for rule in on.schema.rulebook.bound for name in rule.names}
    for attribute in on.schema:
        if attribute.name in ruled and attribute.nullable:  # other rows may be made of them
            continue
        name, hole = attribute.name, attribute.missing_code
        rate, wanted = (float((rows.codes(name) >= hole).mean()) for rows in (kept, table))
        near = abs(rate - wanted) < 0.12 if attribute.nullable else rate == 0
        expect(near, f"kept holes of {attribute.name}: {rate:.2f}, of the table: {wanted:.2f}")


def numpy_numbers(on: Subject, folder: Path) -> None:
    """Numbers of NumPy are numbers."""
    model = on.build(
        epsilon=np.float32(0.7 * on.epsilon), n_rows=np.int64(50), random_state=np.int64(3)
    ).fit(on.table())
    most = float(np.float32(0.7 * on.epsilon)) * (1 + 1e-9)
    expect(model.guarantee_.epsilon <= most, "epsilon of NumPy was rounded up")
    sizes = [len(model.sample()), len(model.sample(np.int64(3)))]  # type: ignore[arg-type]
    expect(sizes == [50, 3], "n_rows and sample must take numbers of NumPy")
    model.save(folder / "m.json")
    again = on.family.load(folder / "m.json")
    expect(again.guarantee_ == model.guarantee_, "numbers of NumPy must be read back as they were")


def save_and_load(on: Subject, folder: Path) -> None:
    """A saved model draws the same rows and states the same guarantee; broken files are refused."""
    model, path = on.build().fit(on.table()), folder / "model.json"
    model.save(path)
    again = on.family.load(path)
    expect(again.guarantee_ == model.guarantee_, "the guarantee changed on the way")
    expect(again.schema_ == model.schema_, "the schema changed on the way")
    drawn = (m.sample(50, random_state=1) for m in (again, model))
    expect(next(drawn).equals(next(drawn)), "a loaded model draws other rows")
    with refuses(OutputError, "a folder that does not exist"):
        model.save(folder / "nowhere" / "model.json")
    document = unsealed(json.loads(path.read_text(encoding="utf-8")))
    wrong: list[tuple[str, Any]]
    wrong = [("released", {}), ("released", None), ("parameters", {"x": 1}), ("parameters", None)]
    for broken in ({}, *(document | {name: part} for name, part in wrong)):
        path.write_text(json.dumps(sealed(broken)), encoding="utf-8")
        with refuses(DataError, "a broken model file", containing="not a missdp model"):
            on.family.load(path)


def repeatable(on: Subject) -> None:
    """A seed repeats a fit and a sample, and nothing else does."""
    seeded = [on.build().fit(on.table()).sample(200) for _ in range(2)]
    expect(seeded[0].equals(seeded[1]), "equal seeds must draw equal rows")
    secure = [on.build(random_state=None).fit(on.table()).sample(200) for _ in range(2)]
    expect(not secure[0].equals(secure[1]), "without a seed, two fits drew the same rows")


def odd_names(on: Subject) -> None:
    """Columns may have any name."""
    names = ("schema", "counts", "größe", "a b", "missing", "大")
    out = replace(on, schema=_columns(names, "x", "ü"))
    kept = tuple(out.build().fit(out.table(120)).sample(3).columns)
    expect(kept == names, "columns must keep their names")


def one_column(on: Subject) -> None:
    """A table of one column is learned."""
    schema = _columns("x", "a", "b")
    table = Table.from_codes(schema, {"x": [0] * 300 + [1] * 100 + [2] * 100})
    model = on.build(epsilon=max(5.0, on.epsilon)).fit(table)
    share = float((model.sample(1000)["x"] == "a").mean())
    expect(abs(share - 0.75) < 0.1, f"the share of 75 % was learned as {share:.0%}")


def many_columns(on: Subject) -> None:
    """Sixty columns are handled, or refused before anything is charged."""
    _handled_or_refused(on, _columns((f"c{i}" for i in range(60)), "x", "y"))


def huge_domain(on: Subject) -> None:
    """Thousands of levels are handled, or refused before anything is charged."""
    _handled_or_refused(on, _columns("xyz", *(f"l{i}" for i in range(3000))))


def progress(on: Subject) -> None:
    """Progress shows no number but the fraction done, and the same stages for any table."""
    seen: list[set[str]] = []
    for n in (200, 600):
        stages: set[str] = set()

        def show(stage: str, done: float, stages: set[str] = stages) -> None:
            expect(0 <= done <= 1, "the fraction done must be between 0 and 1")
            expect(not any(ch.isdigit() for ch in stage), "a stage must show no number")
            stages.add(stage)

        on.build(n_rows=500, progress=show).fit(on.table(n))
        seen.append(stages)
    expect(seen[0] == seen[1], "stages depend on the rows")


def _columns(names: Iterable[str], *levels: str) -> Schema:
    return Schema(tuple(Categorical(name=n, levels=levels, nullable=True) for n in names))


def _handled_or_refused(on: Subject, schema: Schema) -> None:
    budget = Budget(2 * on.epsilon, min(0.5, 2 * on.delta))
    wide = replace(on, schema=schema)
    with Caught() as caught:
        out = wide.build(budget=budget).fit(wide.table(60)).sample(10)
        expect(out.shape == (10, len(schema)), "the shape must be the schema's")
    done = caught.error is None
    expect(done or isinstance(caught.error, MissDPError), f"{caught.shown} is no typed refusal")
    expect(done or not budget.events, "what public facts rule out was charged for")


def _shape_of(frame: Any) -> tuple[list[str], list[str]]:
    return list(frame.columns), [str(kind) for kind in frame.dtypes]


HABITS: dict[str, FunctionType] = {
    name: function
    for name, function in [*globals().items(), *vars(inputs).items()]
    if isinstance(function, FunctionType) and name[0] != "_"
    if function.__module__ in (__name__, inputs.__name__)
}
"""What every family is checked for, by name: functions whose first line is the promise."""
