"""A source of the same rows under another schema keeps the conditions of the guarantee."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from missdp import AllPairs, Categorical, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.accounting import Filter
from missdp.errors import LedgerError, SchemaError
from missdp.governance import Ledger
from missdp.pricing import DPImputer
from missdp.schema import SurveyWeight, Unit
from missdp.session.observed_rows import ObservedRow
from missdp.sources import DuckDBSource, MemorySource
from missdp.table import Rows
from refusing import refuses

PLAIN = Schema(
    (
        Ordinal(name="g", levels=(1, 2, 3), nullable=True),
        Numeric(name="x", lower=0, upper=10, bins=5, nullable=True),
    )
)
FACTS = {
    "unit": Unit("person", max_rows=2),
    "weight": SurveyWeight("w", upper=3.0),
    "ledger": "#patients",
}


def table(schema, rows=200):
    rng = np.random.default_rng(0)
    cells = {
        "g": rng.integers(1, 4, rows),
        "x": rng.uniform(0, 10, rows),
        "w": rng.uniform(0.5, 3.0, rows),
        "person": rng.integers(0, 150, rows),
    }
    extra = [fact.column for fact in (schema.unit, schema.weight) if fact is not None]
    return Table.read(pd.DataFrame({n: cells[n] for n in (*schema.names, *extra)}), schema)


@pytest.mark.parametrize("fact", FACTS)
def test_coded_as_without_a_declared_fact_raises(fact):
    declared = replace(PLAIN, **{fact: FACTS[fact]})
    rows = table(declared)
    source = MemorySource(rows)
    with refuses(SchemaError, f"another {fact}"):
        rows.coded_as(PLAIN)
    with refuses(SchemaError, f"another {fact}"):
        source.coded_as(PLAIN)
    with refuses(SchemaError, f"another {fact}"):
        source.mapped(ObservedRow(PLAIN, ()), PLAIN)
    with refuses(SchemaError, f"another {fact}"):  # a fact is not added either
        MemorySource(table(PLAIN)).coded_as(declared)


def test_streamed_coded_as_without_a_ledger_raises():
    whole = replace(PLAIN, ledger="#patients")
    stream = Rows.of(pa.table({"g": [1, 2], "x": [1.0, 2.0]}), whole)
    with refuses(SchemaError, "another ledger"):
        DuckDBSource(stream, whole).coded_as(PLAIN)


def test_coded_as_with_all_declared_facts_keeps_weights():
    weighed = replace(PLAIN, weight=FACTS["weight"])
    finer = weighed.with_attributes({"x": replace(PLAIN["x"], bins=10)})
    again = MemorySource(table(weighed)).coded_as(finer)
    assert again.weighed
    assert again.schema.weight == FACTS["weight"]


@pytest.mark.parametrize("fact", ["unit", "weight"])
@pytest.mark.parametrize("family", [AllPairs, PrivBayes])
def test_fit_to_a_source_with_a_unit_charges_nothing(family, fact):
    budget = Filter(2.0, 1e-5, measure="pure" if family is PrivBayes else "gdp")
    source = MemorySource(table(replace(PLAIN, **{fact: FACTS[fact]})))
    with refuses(SchemaError, "declares a unit or a weight"):
        family(epsilon=1.0, budget=budget).fit(source)
    assert budget.events == ()


def test_paid_by_without_the_ledgers_budget_raises():
    source = MemorySource(table(replace(PLAIN, ledger="#patients")))
    for budget in (None, Filter(1.0)):
        with refuses(LedgerError, "without which nothing is read"):
            source.paid_by(budget)
    free = MemorySource(table(PLAIN))
    assert free.paid_by(None) is free


@pytest.mark.parametrize("binned", [True, False])
def test_fit_to_a_table_with_a_ledger_is_paid_once(tmp_path, binned):
    ledger = Ledger(f"sqlite:///{tmp_path}/b.db", who="ada")
    ledger.create("patients", epsilon=3.0, delta=1e-5, failure=1e-6)
    levels = Schema((Categorical(name="g", levels=(1, 2, 3)),))
    rows = table(replace(PLAIN if binned else levels, ledger="#patients"))
    for data in (rows, MemorySource(rows)):
        budget = ledger.budget("patients")
        model = AllPairs(epsilon=1.0, budget=budget, random_state=0).fit(data)
        assert model.schema_.ledger == ""
    assert len(ledger.charges("patients")) == 2


def test_imputed_rows_keep_the_ledger_of_their_schema():
    model = AllPairs(epsilon=1.0, random_state=0).fit(table(PLAIN))
    imputer = DPImputer(model=model)
    rows = table(replace(PLAIN, ledger="#patients"))
    assert imputer.transform(rows).schema.ledger == "#patients"
