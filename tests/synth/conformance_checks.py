"""Conformance of a family: parameters, budgets, output, saving and errors.

Each check is a function of a subject, and its docstring is the promise. A check gets the model of a
made-up table from `FittedSubject.fitted`, which fits each model once.
"""

from __future__ import annotations

import copy
import json
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from missdp.accounting import (
    Composition,
    ExplicitSeed,
    Filter,
    FixedSchedule,
    FloatingPointTraining,
    Guarantee,
    MissingCompletelyAtRandom,
    PublicDomain,
    RefusalsNotPrivate,
    RowFunctionsTested,
    SampledGaussianEvent,
    releases,
)
from missdp.errors import (
    BudgetExceededError,
    DataError,
    MissDPError,
    NotFittedError,
    ParameterError,
    SchemaError,
)
from missdp.estimator import clone
from missdp.schema import Categorical, Schema
from missdp.serialization import seal, unseal
from missdp.session import SeededNoise
from missdp.sources import MemorySource
from missdp.sources.streamed import DuckDBSource
from missdp.synth import Synthesizer
from missdp.table import Table
from missdp.testing.example_tables import constant_table
from missdp.testing.findings import (
    ErrorCatcher,
    Finding,
    Report,
    Subject,
    WatchedRows,
    examine,
    expect,
    list_subjects,
)
from testing.expectations import refuses

_BAD: dict[str, tuple[Any, ...]] = {
    "epsilon": (0.0, -1.0, math.nan, math.inf, None, "1", 1e-9),
    "delta": (1.0, -1e-9, math.nan),
    "missing": ("guess",),
    "n_rows": (0, "many", 1.5),
    "budget": (1.0,),
    "random_state": (-1, "x", 1.5, np.random.default_rng(0), SeededNoise(0)),
    "progress": (3,),
}
_KNOWN = 0.9  # rate of observation that ground-truth guarantees are asked for


@dataclass(frozen=True)
class FittedSubject(Subject):
    """A family with one strategy. Each model of a made-up table is fitted once."""

    _fits: dict[str, Synthesizer] = field(default_factory=dict, init=False, compare=False)

    @property
    def models_missingness(self) -> bool:
        """Whether synthetic rows can keep missing values."""
        return self.family.family.strategy(self.strategy).models_missingness

    def fitted(self, rows: int = 300, **more: Any) -> Synthesizer:
        """Return a copy of the model of a made-up table."""
        known = repr((rows, sorted({"random_state": 0, **more}.items())))
        if known not in self._fits:
            self._fits[known] = self.build(**more).fit(self.table(rows))
        return copy.deepcopy(self._fits[known])


def _scikit_learn(on: FittedSubject) -> None:
    """Parameters, clone and repr work as in scikit-learn, and strategies[0] is the default."""
    model = on.build()
    given = [model.get_params()[name] for name in ("epsilon", "missing")]
    expect(given == [on.epsilon, on.strategy], "get_params must return what was given")
    again = clone(model).set_params(epsilon=2 * on.epsilon)
    expect(again.epsilon == 2 * on.epsilon, "set_params must set epsilon")
    expect(model.epsilon == on.epsilon, "a clone must not share parameters")
    expect("epsilon" in repr(model), "repr must show parameters")
    told = {key: value for key, value in on.parameters.items() if key != "missing"}
    default = on.family(**{"epsilon": 1.0, **told}).missing
    expect(default == on.family.family.strategies[0], "make 'missing' default to strategies[0]")


def _bad_parameters(on: FittedSubject) -> None:
    """Wrong parameters, and calls that need a fit, raise before any charge."""
    budget, table = budget_for(on, 100), on.table(20)
    for bad in ({name: value} for name, values in _BAD.items() for value in values):
        with refuses(ParameterError, f"{bad}"):
            on.build(**{"budget": budget, **bad}).fit(table)
    model: Any = on.build(budget=budget)
    with refuses(ParameterError, "undeclared='ignore'", containing="undeclared"):
        model.fit(table, undeclared="ignore")
    with refuses(DataError, "another schema than the source has", containing="another schema"):
        model.fit(MemorySource(table), schema=_columns("x", "a", "b"))
    with refuses(SchemaError, "a frame without a schema", containing="data without a schema"):
        model.fit(table.to_native("pandas"))
    expect(not budget.events, "something was charged for before it was refused")
    with refuses(NotFittedError, "sampling from a model that is not fitted"):
        model.sample(1)
    with refuses(NotFittedError, "saving a model that is not fitted"):
        model.save("model.json")


def _charged_before_reading(on: FittedSubject) -> None:
    """A shared budget, of clones too, is charged before anything is read, or else refuses."""
    budget, charged = budget_for(on), list[int]()
    spy = WatchedRows(on.table(), lambda: charged.append(len(budget.events)))
    model = on.build(budget=budget).fit(spy)
    expect(charged, "nothing was read")
    expect(min(charged) >= 1, "rows were read before the budget was charged")
    most = on.epsilon * (1 + 1e-9)
    expect(budget.spent.epsilon <= most, "more was charged than was asked for")
    before = len(budget.events)
    with ErrorCatcher() as again:
        clone(model).fit(on.table())
    if not isinstance(again.error, BudgetExceededError):
        # Two fits whose noise is sampled may cost together little more than one.
        paid = again.error is None and len(budget.events) > before
        expect(paid, f"a second fit was not charged to the budget for one {again.shown}")
    less = budget_for(on, 0.5)
    charged.clear()
    for data in (spy, "no such file.csv"):
        with refuses(BudgetExceededError, "a fit beyond the budget"):
            on.build(budget=less).fit(data, schema=None if data is spy else on.schema)
    expect(not charged, "rows were read although the budget refused")
    expect(not less.events, "the budget recorded what it refused")


def _output_shape(on: FittedSubject) -> None:
    """Columns, types and values of synthetic rows follow the schema, and so does the spending."""
    wanted, spent = types_of(on.table(50)), set()
    valued = [a.name for a in on.schema if a.not_applicable is None]
    tables = {
        "one row": on.table(1),
        "all missing": constant_table(on.schema, 50, missing=True),
        "constant": constant_table(on.schema, 50),
    }
    models = {name: on.build(n_rows=100).fit(table) for name, table in tables.items()}
    for name, model in {"ordinary": on.fitted(n_rows=300), **models}.items():
        spent.add(model.guarantee_.epsilon)
        synthetic = model.sample()
        expect(types_of(synthetic) == wanted, f"columns or types differ ({name})")
        declared = len(synthetic) == model.n_rows
        expect(declared, f"the declared number of rows is not drawn ({name})")
        expect(not synthetic[valued].isna().any().any(), f"filled rows have holes ({name})")
        Table.read(synthetic, on.schema)  # every value is in the declared domain
    expect(max(spent) - min(spent) < 1e-12, "the guarantee depends on the rows")
    for n in (0, 1, 7):
        expect(len(model.sample(n)) == n, f"sample({n}) must return {n} rows")


def _keeping_holes(on: FittedSubject) -> None:
    """If the strategy models missing values, samples keep about as many as the private rows."""
    table, model = on.table(1000), on.fitted(1000)
    if not on.models_missingness:
        with refuses(ParameterError, "keeping holes", containing="joint"):
            model.sample(10, missing_values="keep")
        return
    kept = model.sample_table(1000, missing_values="keep")
    ruled = {name for rule in on.schema.rule_set.bound for name in rule.names}
    for attribute in on.schema:
        if attribute.name in ruled and attribute.nullable:  # other rows may be made of them
            continue
        name, hole = attribute.name, attribute.missing_code
        rate, wanted = (float((rows.codes(name) >= hole).mean()) for rows in (kept, table))
        near = abs(rate - wanted) < 0.12 if attribute.nullable else rate == 0
        expect(near, f"kept holes of {name}: {rate:.2f}, of the table: {wanted:.2f}")


def _save_and_load(on: FittedSubject) -> None:
    """A saved model draws the same rows and keeps its statements after later settings."""
    model, others = (
        on.fitted(),
        [name for name in on.family.family.strategies if name != on.strategy],
    )
    known = MissingCompletelyAtRandom(dict.fromkeys(on.schema.nullable, _KNOWN))
    before = model.guarantee_, model.ground_truth_guarantee(known)
    drawn = model.sample(50, random_state=1)
    model.set_params(missing=(others or [on.strategy])[-1], epsilon=9.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.json"
        model.save(path)
        again = on.family.load(path)
        document = unseal(json.loads(path.read_text(encoding="utf-8")))
        for broken in ({}, document | {"parameters": {"x": 1}}):
            path.write_text(json.dumps(seal(broken)), encoding="utf-8")
            with refuses(DataError, "a broken model file", containing="not a missdp model"):
                on.family.load(path)
    kept = (again.missing, again.epsilon) == (on.strategy, on.epsilon)
    expect(kept, "save the parameters of the fit, not those that were set later")
    for one in (model, again):
        stated = one.guarantee_, one.ground_truth_guarantee(known)
        expect(stated == before, "keep what was fitted, not parameters, in a saved model, too")
    expect(again.schema_ == model.schema_, "the schema changed on the way")
    same = again.sample(50, random_state=1).equals(drawn)
    expect(same, "a loaded model draws other rows")


def _repeatable(on: FittedSubject) -> None:
    """A seed repeats a fit and a sample, and nothing else does."""
    for seed in (0, None):
        models = (on.fitted(random_state=seed), on.build(random_state=seed))
        one, other = models[0].sample(200), models[1].fit(on.table()).sample(200)
        said = "equal seeds must draw equal rows" if seed == 0 else "two fits drew the same"
        expect(one.equals(other) == (seed == 0), said)


def _odd_names(on: FittedSubject) -> None:
    """Columns may have any name, and there may be one."""
    names = ("schema", "counts", "größe", "a b", "missing", "大")
    out = replace(on, schema=_columns(names, "x", "ü")).fitted(120).sample(3)
    expect(tuple(out.columns) == names, "columns must keep their names")
    table = Table.from_codes(_columns("x", "a", "b"), {"x": [0] * 300 + [1] * 100 + [2] * 100})
    model = on.build(epsilon=max(5.0, on.epsilon)).fit(table)
    share = float((model.sample(1000)["x"] == "a").mean())
    expect(abs(share - 0.75) < 0.1, f"the share of 75 % was learned as {share:.0%}")


def _many_columns(on: FittedSubject) -> None:
    """Sixty columns are handled, or refused before anything is charged."""
    _handled_or_refused(on, _columns((f"c{i}" for i in range(60)), "x", "y"))


def _huge_domain(on: FittedSubject) -> None:
    """Thousands of levels are handled, or refused before anything is charged."""
    _handled_or_refused(on, _columns("xyz", *(f"l{i}" for i in range(3000))))


def _spends_what_was_asked(on: FittedSubject) -> str:
    """All releases together cost the requested budget, and no more, down to epsilon 1e-6."""
    table, done = on.table(60), 0
    for delta in [0.0, 1e-6] if on.delta == 0 else [on.delta]:
        for epsilon, n_rows in ((1e-6, "noisy"), (on.epsilon, 40)):
            done += _spent(on, table, {"epsilon": epsilon, "delta": delta, "n_rows": n_rows})
    expect(done, "no fit went through")
    return f"{done} fits"


def _guarantee(on: FittedSubject) -> None:
    """The guarantee of the incomplete table is proven by its events and states its conditions."""
    found, most = on.fitted().guarantee_, on.epsilon * (1 + 1e-9)
    expect(found.protects == "incomplete", "guarantee_ must be of the table with holes")
    expect(found.adjacency == "add-remove", "guarantee_ must be for add-remove neighbours")
    asked = 0.95 * on.epsilon < found.epsilon <= most and found.delta == on.delta
    proven = found.epsilon_at(found.delta) <= most
    expect(asked and proven, "guarantee_ must be what was asked for, and its events must prove it")
    expect(ExplicitSeed() in found.conditions, "a seeded fit must say so")
    conditions = {*on.fitted(random_state=None).guarantee_.conditions}
    trained = any(isinstance(event, SampledGaussianEvent) for event in found.events)
    trains = (FixedSchedule(), FloatingPointTraining()) if trained else ()
    refuses = (RefusalsNotPrivate(),) if any(one.refuses for one in on.schema) else ()
    known = {PublicDomain(), RowFunctionsTested(), *trains, *refuses}
    ordinary = f"a fit without a seed must rest on exactly: {known}"
    expect(conditions == known, ordinary)


def _streaming(on: FittedSubject) -> str:
    """Streamed rows give the same model as rows in memory, or raise before a charge."""
    budget = budget_for(on)
    with tempfile.TemporaryDirectory() as folder, ErrorCatcher() as refused:
        on.table().to_native("pandas").to_parquet(path := Path(folder) / "x.parquet")
        streamed = on.build(budget=budget).fit(DuckDBSource(path, on.schema)).sample(50)
    if refused.error is None:
        expect(streamed.equals(on.fitted().sample(50)), "streamed rows give another model")
        return "streams"
    # Of strategies that need rows, and of families that do.
    typed = isinstance(refused.error, ParameterError) and "in memory" in refused.shown
    expect(typed, f"the refusal of streams should say 'in memory': {refused.shown}")
    expect(not budget.events, "streamed rows were charged for before they were refused")
    return "needs the rows in memory"


def _spent(on: FittedSubject, table: Table, asked: dict[str, Any]) -> bool:
    """Fit with a shared budget, and compare the spending.

    Return false if the fit raises uncharged.
    """
    epsilon, delta = asked["epsilon"], asked["delta"]
    budget: Filter | Composition = Filter(2 * epsilon, min(0.5, 2 * delta))
    with ErrorCatcher() as refused:
        planned = on.build(**asked).planned_events(on.schema)
        if any(isinstance(event, SampledGaussianEvent) for event in planned):
            budget = Composition(planned, epsilon, delta)
        model = on.build(budget=budget, **asked).fit(table)
    if refused.error is not None:
        typed = isinstance(refused.error, MissDPError)
        expect(typed and not budget.events, f"{asked} is no refusal before a charge")
        return False
    most, found = epsilon * (1 + 1e-9), model.guarantee_
    expect(0.95 * epsilon < found.epsilon <= most, f"guarantee_ is not what was asked: {asked}")
    expect(found.delta == delta, f"guarantee_ has another delta: {asked}")
    # The log of a filter beside trainings is held against its cap, as every log is.
    alone = releases(found.events) if len(found.events) == 1 else found.events
    paid = Guarantee.from_events(alone, delta=delta)
    expect(paid.epsilon <= most, f"the releases cost more than was asked for: {asked}")
    rest = budget.remaining_epsilon if isinstance(budget, Filter) else 0.0
    expect(budget.epsilon - rest <= most, f"the shared budget was charged more: {asked}")
    return True


_CHECKS: dict[str, Callable[[FittedSubject], str | None]] = {
    check.__name__.removeprefix("_"): check
    for check in (
        _scikit_learn,
        _bad_parameters,
        _charged_before_reading,
        _output_shape,
        _keeping_holes,
        _save_and_load,
        _repeatable,
        _odd_names,
        _many_columns,
        _huge_domain,
        _spends_what_was_asked,
        _guarantee,
        _streaming,
    )
}
CHECKS = tuple(_CHECKS)
"""Names of the checks of every family."""
# Checks that could depend on kinds and rules. All other checks ran without them.
RULED_CHECKS = (
    "charged_before_reading",
    "output_shape",
    "keeping_holes",
    "spends_what_was_asked",
    "streaming",
)


def budget_for(on: FittedSubject, fits: float = 1.0) -> Filter | Composition:
    """Return a budget whose epsilon is enough for the given number of fits.

    The budget for one fit that trains is the plan of the fit. A filter has no bound for a training,
    and raises an error.
    """
    planned = on.build().planned_events(on.schema)
    if fits == 1 and any(isinstance(event, SampledGaussianEvent) for event in planned):
        return Composition(planned, on.epsilon, on.delta)
    return Filter(fits * on.epsilon, min(0.9, (fits + 0.5) * on.delta))


def _columns(names: Iterable[str], *levels: str) -> Schema:
    return Schema(tuple(Categorical(name=n, levels=levels, nullable=True) for n in names))


def types_of(rows: Any) -> list[tuple[str, str]]:
    frame = rows.to_native("pandas") if isinstance(rows, Table) else rows
    return [(str(name), str(kind)) for name, kind in frame.dtypes.items()]


def _handled_or_refused(on: FittedSubject, schema: Schema) -> None:
    """Complain of a fit with a schema that fails, unless it is refused uncharged."""
    budget, wide = budget_for(on, 2), replace(on, schema=schema)
    with ErrorCatcher() as caught:
        out = wide.build(budget=budget).fit(wide.table(60)).sample(10)
        expect(out.shape == (10, len(schema)), "the shape must be the schema's")
    done = caught.error is None
    expect(done or isinstance(caught.error, MissDPError), f"{caught.shown}: no typed refusal")
    expect(done or not budget.events, "what public facts rule out was charged for")


def check_conformance(
    family: type[Synthesizer],
    *,
    parameters: Mapping[str, Any] | None = None,
    strategies: Iterable[str] | None = None,
    schema: Schema | None = None,
    checks: Iterable[str] | None = None,
) -> Report:
    """Check parameters, budgets, output, saving and refusals of a family.

    Parameters are those of `missdp.testing.check_synthesizer`. ``CHECKS`` has the names of the
    checks. By default all of them run.

    >>> from missdp import PrivBayes
    >>> print(check_conformance(PrivBayes, strategies=["joint"], checks=["save_and_load"]))
    PrivBayes: 1 promise checked, all kept
    ok     conformance: A saved model draws the same rows ... [joint]
    """
    named = CHECKS if checks is None else tuple(checks)
    if not {*named} <= {*CHECKS}:
        raise ParameterError(f"checks must be some of {list(CHECKS)}")
    cases = list_subjects(family, parameters, strategies, schema)
    known = [FittedSubject(on.family, on.strategy, on.parameters, on.schema) for on in cases]
    found = [finding for on in known for finding in conformance_of(on, named)]
    return Report(family.__name__, tuple(found)).checked()


def conformance_of(on: FittedSubject, checks: Iterable[str] = CHECKS) -> list[Finding]:
    """Return the findings for one strategy."""
    chosen = [_CHECKS[name] for name in checks]
    return [
        examine("conformance", (check.__doc__ or "").rstrip("."), on.case, partial(check, on))
        for check in chosen
    ]
