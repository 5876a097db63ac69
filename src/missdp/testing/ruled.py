"""Kinds of missing and rules: what synthetic rows keep to whatever a family does."""

from __future__ import annotations

import pickle
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from missdp.accounting import Budget, Guarantee, releases
from missdp.errors import DataError, MissDPError, ParameterError
from missdp.schema import Schema
from missdp.sources.modelled import Modelled
from missdp.table import Table
from missdp.testing.by_hand import broken_by_hand, rows_by_hand
from missdp.testing.findings import Caught, expect
from missdp.testing.made_up import ONE_FREE, constant, unread
from missdp.testing.subject import Subject

__all__ = ["RULES"]

_FITTED = 300  # rows


def obeyed_rules(on: Subject, folder: Path) -> str:
    """Synthetic rows break no rule: filled or kept, few or many, saved and pickled before."""
    model = on.build(n_rows=_FITTED).fit(on.table(_FITTED))
    model.save(folder / "model.json")
    ways = {
        "as fitted": model,
        "after saving": on.family.load(folder / "model.json"),
        "after pickling": pickle.loads(pickle.dumps(model)),
    }
    many = 0
    for when, known in ways.items():
        for missing_values in _ways_of_holes(on):
            for n in (0, 1, 3 * _FITTED) if known is model else (50,):
                table = known.sample_table(n, missing_values=missing_values, random_state=n)
                expect(len(table) == n, f"{len(table)} rows were drawn, not {n} ({when})")
                many += _checked(table, f"{when}, {missing_values}")
    return f"{many} rows, one by one"


def several_tables(on: Subject) -> str | None:
    """Tables that vary as the model is uncertain break no rule either."""
    model = on.build(n_rows=_FITTED).fit(on.table(_FITTED))
    with Caught() as refused:
        frames = model.sample(40, multiple=2, random_state=0)
    if isinstance(refused.error, ParameterError):
        return "the family draws one table only"
    expect(refused.error is None, f"multiple=2 failed: {refused.shown}")
    for frame in frames:
        _checked(_as_drawn(frame, on.schema), "multiple=2")
    return None


def rows_that_break_rules(on: Subject) -> None:
    """Rows that break rules, or are all holes, show in no word, and in no synthetic row."""
    said = set()
    for name, table in _hard_tables(on).items():
        model = on.build(n_rows=50).fit(table)
        said.add(f"{model!r} {model.modelled_.names} {model.guarantee_.epsilon}")
        for missing_values in _ways_of_holes(on):
            with Caught() as refused:
                drawn = model.sample_table(50, missing_values=missing_values)
            if refused.error is None:
                _checked(drawn, name)
            else:  # nothing that the model draws obeys: to be said, and said clearly
                clear = isinstance(refused.error, DataError) and "obeys" in refused.shown
                expect(clear, f"no rows, and no clear refusal ({name}): {refused.shown}")
    expect(len(said) == 1, "what a fitted model says of itself depends on the rows")


def filled_cells(on: Subject) -> None:
    """A filled row has a value in every cell that applies to it, and in no other."""
    table = on.build(n_rows=_FITTED).fit(on.table()).sample_table(500)
    for attribute in on.schema:
        holes = table.codes(attribute.name) >= attribute.missing_code
        expect(not holes.any(), f"filled rows have holes of {attribute.name}")
    frame = table.to_native("pandas")
    for attribute in on.schema:
        absent = table.mask(attribute.name, "not_applicable")
        empty = frame[attribute.name].isna().to_numpy()
        expect((empty == absent).all(), f"{attribute.name} is empty where it applies")


def kinds_of_holes(on: Subject) -> str | None:
    """Kinds of missing come back in their shares."""
    modelled = Modelled(on.schema)
    if not (on.family.strategy_of(on.strategy).models_holes and modelled.kinds):
        return "holes of one kind, or none that are kept"
    table = on.table(3000)
    model = on.build(epsilon=100.0).fit(table)
    kept = model.sample_table(3000, missing_values="keep")
    for name, codes in modelled.kinds.items():
        wanted, found = (_shares(rows.codes(name), codes) for rows in (table, kept))
        expect(
            np.abs(wanted - found).max() < 0.1,
            f"kinds of holes of {name} are {found.round(2)}, and were {wanted.round(2)}",
        )
    return f"{len(modelled.kinds)} attributes"


def types_and_codes(on: Subject) -> None:
    """Columns and types are the schema's, whatever was drawn; codes are read as the same rows."""
    wanted = _types(on.table(50).to_native("pandas"))
    model = on.build(n_rows=50).fit(on.table())
    for missing_values in _ways_of_holes(on):
        for n in (0, 1, 60):
            found = _types(model.sample(n, missing_values=missing_values, random_state=n))
            expect(found == wanted, f"columns or types differ ({n} rows, {missing_values})")
        table = model.sample_table(60, missing_values=missing_values, random_state=1)
        frame = model.sample(60, missing_values=missing_values, random_state=1, holes="codes")
        again = Table.read(frame, on.schema)
        for attribute in on.schema:
            written = {k for k in attribute.kinds if attribute.codes_of(k)} | {"missing"}
            one, two = (_but_unwritten(rows, attribute.name, written) for rows in (table, again))
            expect((one == two).all(), f"{attribute.name} is read back as something else")


def costs_nothing(on: Subject) -> None:
    """What follows from others is in no release and no gate; nothing is spent on it."""
    model = on.build().fit(on.table())
    for name in on.schema.rulebook.derives:
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        for event in releases(model.guarantee_.events):
            said = word.search(event.label) or name in (event.gate or ())
            expect(not said, f"{event.label!r} was charged for, though {name} follows from others")
    expect(not {*model.modelled_.names} & {*on.schema.rulebook.derives}, "what follows is modelled")


def spends_what_was_asked(on: Subject) -> str:
    """All releases together, kinds of missing among them, cost what was asked for, and no more."""
    deltas = [0.0, 1e-6] if on.delta == 0 else [on.delta]
    epsilons = (1e-6, on.epsilon)
    done = 0
    for delta in deltas:
        for epsilon in epsilons:
            for n_rows in ("noisy", 40):
                done += _spent(on, epsilon=epsilon, delta=delta, n_rows=n_rows)
    expect(done, "no fit went through")
    return f"{done} fits"


def fitted_again(on: Subject) -> None:
    """A model that is fitted again, with rules or without, knows nothing of the last fit."""
    model = on.build(n_rows=50).fit(on.table())
    plain = replace(on, schema=_without_rules(on.schema))
    fresh = plain.build(n_rows=50).fit(plain.table()).sample(20, random_state=1)
    again = model.fit(plain.table()).sample(20, random_state=1)
    expect(again.equals(fresh), "a second fit keeps rules or kinds of the first")
    _checked(model.fit(on.table()).sample_table(20, random_state=1), "fitted again")


def all_but_one_follow(on: Subject, folder: Path) -> None:
    """Where all columns but one follow from it, it is learned, and they follow."""
    one = replace(on, schema=ONE_FREE)
    obeyed_rules(one, folder)
    costs_nothing(one)


def _checked(table: Table, when: str) -> int:
    """Complain of rows that break a rule; return how many were looked at."""
    broken: Counter[str] = Counter()
    for row in rows_by_hand(table):
        broken.update(broken_by_hand(table.schema, row))
    if broken:
        worst = ", ".join(f"{text!r} in {many}" for text, many in broken.most_common(3))
        expect(False, f"of {len(table)} rows ({when}) some break rules: {worst}")
    return len(table)


def _ways_of_holes(on: Subject) -> tuple[Any, ...]:
    return ("fill", "keep") if on.family.strategy_of(on.strategy).models_holes else ("fill",)


def _hard_tables(on: Subject) -> dict[str, Table]:
    last = {a.name: np.full(60, a.size - 1) for a in on.schema}
    breaking = Table.from_codes(on.schema, last).with_values(np.random.default_rng(0))
    return {
        "no rows": on.table(0),
        "nothing but holes": constant(on.schema, 60, missing=True),
        "equal rows": constant(on.schema, 60),
        "last levels": breaking,
        "rows as they came": unread(on.schema, 200, holes=0.5),
    }


def _as_drawn(frame: Any, schema: Schema) -> Table:
    """Return filled synthetic rows as a table, without applying rules to them."""
    none: dict[str, Any] = dict.fromkeys(("refused", "unknown", "not_asked"))
    none |= {"nullable": False, "missing_codes": (), "outside": "error"}
    bare = Table.read(frame, Schema(tuple(replace(a, **none) for a in schema)))
    return Table(schema, {name: bare.column(name) for name in schema.names})


def _without_rules(schema: Schema) -> Schema:
    """Return the schema with one kind of missing and no rules."""
    none: dict[str, Any] = dict.fromkeys(("refused", "unknown", "not_asked", "not_applicable"))
    return Schema(tuple(replace(a, **none) for a in schema))


def _shares(codes: NDArray[np.unsignedinteger], kinds: tuple[int, ...]) -> NDArray[np.float64]:
    counts = np.array([(codes == kind).sum() for kind in kinds], dtype=np.float64)
    return np.asarray(counts / max(1.0, counts.sum()))


def _types(frame: Any) -> list[tuple[str, str]]:
    return [(str(name), str(kind)) for name, kind in frame.dtypes.items()]


def _but_unwritten(table: Table, name: str, written: set[str]) -> NDArray[np.int64]:
    """Return codes, with kinds that are written as null as plain missing."""
    attribute, codes = table.schema[name], table.codes(name).astype(np.int64)
    for place, kind in enumerate(attribute.kinds):
        if kind not in written and attribute.nullable:
            codes[codes == attribute.size + place] = attribute.missing_code
    return codes


def _spent(on: Subject, **asked: Any) -> bool:
    """Fit with a shared budget, and compare what was spent; false if refused uncharged."""
    epsilon, delta = asked["epsilon"], asked["delta"]
    budget = Budget(2 * epsilon, min(0.5, 2 * delta))
    model = on.build(budget=budget, **asked)
    with Caught() as refused:
        model.fit(on.table(60))
    if refused.error is not None:
        typed = isinstance(refused.error, MissDPError)
        expect(typed and not budget.events, f"{asked} is no refusal before a charge")
        return False
    most, found = epsilon * (1 + 1e-9), model.guarantee_
    expect(0.95 * epsilon < found.epsilon <= most, f"guarantee_ is not what was asked: {asked}")
    expect(found.delta == delta, f"guarantee_ has another delta: {asked}")
    paid = Guarantee.from_events(releases(found.events), delta=delta)
    expect(paid.epsilon <= most, f"the releases cost more than was asked for: {asked}")
    expect(budget.spent.epsilon <= most, f"the shared budget was charged more: {asked}")
    return True


RULES: dict[str, FunctionType] = {
    name: function
    for name, function in list(globals().items())
    if isinstance(function, FunctionType) and function.__module__ == __name__ and name[0] != "_"
}
"""Each public function above; its first line is the promise."""
