"""Kinds of missing and rules that the base class keeps for every family, of a subject."""

import pickle
import re
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from missdp.accounting import SampledGaussianEvent, releases
from missdp.errors import DataError, ParameterError
from missdp.schema import Categorical, Determined, Numeric, Ordinal, Schema
from missdp.schema.modelled import ModelView
from missdp.session import RowCount
from missdp.table import Table
from missdp.testing.example_tables import constant_table, unprocessed_table
from missdp.testing.findings import ErrorCatcher, expect
from synth.conformance_checks import types_of
from testing.by_hand import broken_by_hand, rows_by_hand

# All but one attribute follow from it.
ONE_FREE = Schema(
    (
        Categorical(name="kurz", levels=("k", "l"), nullable=True),
        Ordinal(name="stufe", levels=("a", "b", "c"), nullable=True, unknown=(-8,), refused=(-7,)),
        Numeric(name="jahre", lower=0, upper=20, integer=True, bins=4, nullable=True),
    ),
    rules=(
        Determined("jahre", by=("stufe",), map=(("a", 4), ("b", 9), ("c", 13))),
        Determined("kurz", by=("stufe",), map=(("a", "k"), ("b", "k"), ("c", "l"))),
    ),
)


def ways_of_missing(on):
    return ("fill", "keep") if on.models_missingness else ("fill",)


def obeying(table, when):
    """Complain of rows that break a rule."""
    broken = Counter(t for row in rows_by_hand(table) for t in broken_by_hand(table.schema, row))
    worst = ", ".join(f"{text!r} in {many}" for text, many in broken.most_common(3))
    expect(not broken, f"of {len(table)} rows ({when}) some break rules: {worst}")


def obeyed_rules(on):
    """Synthetic rows break no rule: filled or kept, few or many, saved and pickled before."""
    model = on.fitted(n_rows=300)
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.json")
        saved = on.family.load(Path(folder) / "model.json")
    pickled = pickle.loads(pickle.dumps(model))
    for reference, n in ((model, 0), (model, 1), (model, 300), (saved, 30), (pickled, 30)):
        for missing_values in ways_of_missing(on):
            table = reference.sample_table(n, missing_values=missing_values, random_state=n)
            expect(len(table) == n, f"{len(table)} rows were drawn, not {n}")
            obeying(table, missing_values)


def filled_cells(on):
    """A filled row has a value in every cell that applies to it, and in no other."""
    table = on.fitted(n_rows=300).sample_table(500)
    frame = table.to_native("pandas")
    for attribute in on.schema:
        name = attribute.name
        missing = table.codes(name) >= attribute.missing_code
        expect(not missing.any(), f"filled rows have holes of {name}")
        absent, empty = table.mask(name, "not_applicable"), frame[name].isna().to_numpy()
        expect((empty == absent).all(), f"{name} is empty where it applies")


def required_sets(on):
    """Every release states the attributes that a row must have observed to be read."""
    modelled, strategy = ModelView(on.schema), on.family.family.strategy(on.strategy)
    every = frozenset(modelled.schema.nullable) - modelled.rule_filled  # rules settle the others
    model = on.fitted(n_rows=300)
    released = [*releases(model.guarantee_.events)]
    if any(isinstance(e, SampledGaussianEvent) for e in released):
        released = [e for e in released if not isinstance(e, SampledGaussianEvent)]
        trained = [e for e in model.ground_truth_parts()[0].events if "critic" in e.label]
        total = every if strategy.complete_only else frozenset()
        assert {frozenset(e.required or ()) for e in trained} == {total}
    trees = [e for e in released if e.label.startswith("tree ")]  # before missing cells are filled
    for event in trees:
        single = strategy.required((event.label.removeprefix("tree "),), modelled.schema)
        assert (event.required or set()) == single - modelled.rule_filled
    totals = [
        e for e in released if e.label == RowCount().label
    ]  # every row counts, with any cells
    assert not any(event.required for event in totals)
    rest = [e for e in released if e not in trees and e not in totals]
    result = [frozenset(event.required or ()) for event in rest]
    if strategy.models_missingness:
        assert set(result) == {frozenset()}
    elif strategy.complete_only:
        assert set(result) == {every}
    elif strategy.fills:
        assert sorted(filter(None, result), key=sorted) == sorted(({n} for n in every), key=sorted)
    else:
        for event, required in zip(rest, result, strict=True):
            names = set(event.label.removeprefix("marginal ").split(" x "))
            if event.label.startswith("heads of"):  # several at once read a row for any of them
                heads = event.label.removeprefix("heads of ").split(", ")
                names = set(heads) if len(heads) == 1 else set()
            assert required == every & names, event.label


def costs_nothing(on):
    """Derived attributes are in no release and in no requirement, and cost nothing."""
    model, derived = on.fitted(n_rows=300), on.schema.rule_set.derived
    for name in derived:
        word = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
        for event in releases(model.guarantee_.events):
            message = word.search(event.label) or name in (event.required or ())
            expect(not message, f"{event.label!r} was charged, though {name} follows from others")
    expect(not {*model.modelled_.names} & {*derived}, "what follows is modelled")


def rows_that_break_rules(on):
    """Rows that break rules, or are all missing cells, show in no word, and in no synthetic row."""
    message, last = set(), {a.name: np.full(60, a.size - 1) for a in on.schema}
    hard = {
        "no rows": on.table(0),
        "nothing but holes": constant_table(on.schema, 60, missing=True),
        "equal rows": constant_table(on.schema, 60),
        "last levels": Table.from_codes(on.schema, last).with_values(np.random.default_rng(0)),
        "unprocessed rows": unprocessed_table(on.schema, 200, missing_rate=0.5),
    }
    for name, table in hard.items():
        model = on.build(n_rows=50).fit(table)
        reported = repr(model).partition(", bins found")[0]  # bins are a release of their own
        message.add(f"{reported} {model.modelled_.names} {model.guarantee_.epsilon}")
        for missing_values in ways_of_missing(on):
            with ErrorCatcher() as refused:
                obeying(model.sample_table(50, missing_values=missing_values), name)
            # Where nothing that the model draws obeys, that is to be said, and said clearly.
            clear = isinstance(refused.error, DataError) and "obeys" in refused.shown
            expect(refused.error is None or clear, f"{refused.shown} ({name})")
    expect(len(message) == 1, "what a fitted model says of itself depends on the rows")


def several_tables(on):
    """Tables that vary as the model is uncertain break no rule either."""
    with ErrorCatcher() as refused:
        for frame in on.fitted(n_rows=300).sample(40, multiple=2, random_state=0):
            obeying(_as_drawn(frame, on.schema), "multiple=2")
    single = refused.error is None or isinstance(refused.error, ParameterError)  # draws one only
    expect(single, f"multiple=2 failed: {refused.shown}")


def kinds_of_missing(on):
    """Kinds of missing come back in their shares."""
    kinds = ModelView(on.schema).kinds
    if not (on.models_missingness and kinds):
        return
    table = on.table(3000)
    retained = on.build(epsilon=100.0).fit(table).sample_table(3000, missing_values="keep")
    for name, codes in kinds.items():
        counts = [
            np.array([(rows.codes(name) == k).sum() for k in codes]) for rows in (table, retained)
        ]
        expected, result = (c / max(1, c.sum()) for c in counts)
        reported = f"kinds of missing of {name} are {result.round(2)}, and were {expected.round(2)}"
        expect(np.abs(expected - result).max() < 0.1, reported)


def types_and_codes(on):
    """Columns and types are the schema's, for all drawn rows. Codes are read as the same rows."""
    model, expected = on.fitted(n_rows=300), types_of(on.table(50).to_native("pandas"))
    for missing_values in ways_of_missing(on):
        for n in (0, 1, 60):
            result = types_of(model.sample(n, missing_values=missing_values, random_state=n))
            expect(result == expected, f"columns or types differ ({n} rows, {missing_values})")
        table = model.sample_table(60, missing_values=missing_values, random_state=1)
        frame = model.sample(60, missing_values=missing_values, random_state=1, missing_as="codes")
        again = Table.read(frame, on.schema)
        for attribute in on.schema:
            written = {k for k in attribute.kinds if attribute.codes_of(k)} | {"missing"}
            one, two = (_but_unwritten(rows, attribute.name, written) for rows in (table, again))
            expect((one == two).all(), f"{attribute.name} is read back as something else")


def fitted_again(on):
    """A model that is fitted again, with rules or without, knows nothing of the last fit."""
    none = dict.fromkeys(("refused", "unknown", "not_asked", "not_applicable"))
    plain = replace(on, schema=Schema(tuple(replace(a, **none) for a in on.schema)))
    fresh = plain.build(n_rows=50).fit(plain.table()).sample(20, random_state=1)
    again = (model := on.fitted(n_rows=50)).fit(plain.table()).sample(20, random_state=1)
    expect(again.equals(fresh), "a second fit keeps rules or kinds of the first")
    obeying(model.fit(on.table()).sample_table(20, random_state=1), "fitted again")


ONE_FIT = (
    obeyed_rules,
    required_sets,
    filled_cells,
    costs_nothing,
    types_and_codes,
    several_tables,
)
OWN = (*ONE_FIT, rows_that_break_rules, kinds_of_missing, fitted_again)


def _as_drawn(frame, schema):
    """Return filled synthetic rows as a table, without applying rules to them."""
    none = dict.fromkeys(("refused", "unknown", "not_asked"))
    none |= {"nullable": False, "missing_codes": (), "outside": "error"}
    bare = Table.read(frame, Schema(tuple(replace(a, **none) for a in schema)))
    return Table(schema, {name: bare.column(name) for name in schema.names})


def _but_unwritten(table, name, written):
    """Return codes, with kinds that are written as null as plain missing."""
    attribute, codes = table.schema[name], table.codes(name).astype(np.int64)
    for place, kind in enumerate(attribute.kinds):
        if kind not in written and attribute.nullable:
            codes[codes == attribute.size + place] = attribute.missing_code
    return codes
