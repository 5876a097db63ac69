"""Fits that protect units: the exact effect of one unit equals the sensitivity of the guarantee."""

import contextlib
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from missdp import AIM, MST, AllPairs, Categorical, PrivBayes, Schema, Table, load
from missdp.accounting import Filter, MissingCompletelyAtRandom
from missdp.errors import LedgerError, ParameterError, SchemaError, UnprovenError
from missdp.governance.dossier import write_dossier
from missdp.governance.facts import ModelSummary
from missdp.ground_truth import epsilon_for_ground_truth, planned_ground_truth
from missdp.schema import OpenCategorical, SurveyWeight, Unit
from refusing import refuses

pytestmark = pytest.mark.filterwarnings("ignore::missdp.synth.noisy_counts.SmallTableWarning")

SEX = Categorical(name="sex", levels=("f", "m"), nullable=True)
ILL = Categorical(name="ill", levels=("no", "yes"), nullable=True)
FAMILIES = (AllPairs, AIM, MST)


EVERY_ROW = {"missdp.table.units.sample_rows_per_unit": lambda units, _: units >= 0}
BY_THE_ROW = {
    "missdp.accounting.filters.Cost.per_row": lambda cost, _: cost,
    "missdp.accounting.unit_costs._group_event": lambda event, _: event,
}


@contextlib.contextmanager
def broken(monkeypatch, wrong):
    """Break a condition on units: rows are not chosen, or are charged individually."""
    with monkeypatch.context() as patch:
        for name, function in wrong.items():
            patch.setattr(name, function)
        yield


def with_unit(most, **facts):
    return Schema((SEX, ILL), unit=Unit("person", max_rows=most, **facts))


def visits(rows=60, *, each=1, more=0, holes=False):
    """Return rows of people with so many each, one more person with more, rows of all mixed."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "person": np.arange(rows) // each,
            "sex": rng.choice(["f", "m"], rows),
            "ill": rng.choice(["no", "yes"], rows),
        }
    )
    one = {"person": [9999] * more, "sex": ["m"] * more, "ill": [None if holes else "yes"] * more}
    return pd.concat([frame, pd.DataFrame(one)]).sample(frac=1, random_state=1)


@pytest.mark.parametrize("family", FAMILIES)
def test_one_row_for_each_is_the_fit_without_a_unit(family):
    frame, facts = visits(), {"epsilon": 1.0, "random_state": 5}
    alone = family(**facts).fit(frame.drop(columns="person"), schema=Schema((SEX, ILL)))
    model = family(**facts).fit(frame, schema=with_unit(1))
    assert (model.guarantee_.unit, model.guarantee_.epsilon) == ("person", 1.0)
    assert model.guarantee_.events[0].log == alone.guarantee_.events[0].log
    assert model.sample(50, random_state=1).equals(alone.sample(50, random_state=1))


def test_identifiers_leave_no_trace():
    frame = visits(each=3)
    renamed = frame.assign(person=[f"Ömer {p}" for p in frame["person"]])
    models = [
        AllPairs(epsilon=1.0, random_state=5).fit(data, schema=with_unit(3))
        for data in (frame, renamed)
    ]
    assert models[0].guarantee_ == models[1].guarantee_
    assert models[0].sample(40, random_state=1).equals(models[1].sample(40, random_state=1))
    assert list(models[0].sample(3).columns) == ["sex", "ill"]


def test_a_model_keeps_who_it_protects(tmp_path):
    model = AIM(epsilon=1.0, delta=0.0).fit(visits(each=3, more=20), schema=with_unit(3))
    model.save(tmp_path / "model.json")
    again = load(tmp_path / "model.json")
    assert again.guarantee_ == model.guarantee_
    assert (again.guarantee_.unit, again.guarantee_.max_rows) == ("person", 3)
    assert again.guarantee_.events[0].capacity.epsilon == pytest.approx(1 / 3)
    with refuses(UnprovenError, "nothing is proven of units"):
        again.ground_truth_guarantee(MissingCompletelyAtRandom({"ill": 0.5, "sex": 0.5}))
    planned, _ = AIM(epsilon=1.0, delta=0.0).planned_parts(with_unit(3))
    assert planned.events[0].capacity == model.guarantee_.events[0].capacity


@pytest.mark.parametrize("family", FAMILIES)
def test_a_plan_protects_who_the_fit_will(family):
    planned, _ = family(epsilon=1.0).planned_parts(with_unit(3))
    assert (planned.epsilon, planned.unit, planned.max_rows) == (1.0, "person", 3)
    known = MissingCompletelyAtRandom({"ill": 0.5, "sex": 0.5})
    for of_plan in (planned_ground_truth, partial(epsilon_for_ground_truth, 1.0)):
        with refuses(UnprovenError, "nothing is proven of units"):
            of_plan(family(epsilon=1.0), with_unit(3), known)


def test_one_budget_protects_one_unit():
    budget = Filter(2.0, 1e-5)
    AllPairs(epsilon=1.0, budget=budget).fit(visits(each=2), schema=with_unit(2))
    with refuses(UnprovenError, "different units"):
        AllPairs(epsilon=0.1, budget=budget).fit(
            visits().drop(columns="person"), schema=Schema((SEX, ILL))
        )
    assert len(budget.events) == 1
    assert budget.spent.unit == "person"


def test_rows_without_an_identifier_may_each_stand_alone():
    frame = visits(each=2)
    frame.loc[frame["person"] < 5, "person"] = None
    model = MST(epsilon=1.0).fit(frame, schema=with_unit(2, if_missing="own_unit"))
    assert "No two rows without a person belong together" in str(model.guarantee_)


OPEN = Schema((OpenCategorical(name="ill"), SEX), unit=Unit("person", max_rows=2))


@pytest.mark.parametrize(
    ("model", "schema", "says"),
    [
        (PrivBayes(epsilon=1.0), with_unit(2), "PrivBayes is proven to protect single rows"),
        (AllPairs(epsilon=1.0), OPEN, "finding the levels of 'ill'"),
        (
            AllPairs(epsilon=1.0, n_rows=60),
            with_unit(2),
            "the number of rows that take part is private. Leave n_rows out",
        ),
    ],
)
def test_what_is_not_proven_is_refused_before_anything_is_charged(model, schema, says):
    budget = Filter(9.0, 1e-3)
    model.set_params(budget=budget)
    with refuses((UnprovenError, ParameterError), says):
        model.fit(visits(), schema=schema)
    assert budget.events == ()


def test_a_table_that_was_read_is_fitted_as_it_was_chosen():
    table = Table.read(visits(more=30), with_unit(2))
    assert len(table) == 62
    assert AIM(epsilon=1.0).fit(table).guarantee_.max_rows == 2
    some = AIM(epsilon=1.0).fit(table.subset(["sex"])).guarantee_
    assert (some.unit, some.max_rows) == ("person", 2)
    with refuses(UnprovenError, "PrivBayes is proven to protect single rows"):
        PrivBayes(epsilon=1.0).fit(table.subset(["sex", "ill"]))
    with refuses(SchemaError, "another unit"):
        table.coded_as(table.schema.without_unit)
    with refuses(SchemaError, "the column 'row' cannot identify units"):
        Unit("row")


def test_a_part_of_a_schema_is_protected_and_paid_for_like_the_whole():
    whole = replace(with_unit(2), ledger="#patients")
    some = whole.subset(["sex"])
    assert (some.unit, some.ledger) == (whole.unit, whole.ledger)
    with refuses(LedgerError, "without which nothing is read"):
        AIM(epsilon=1.0).fit(Table.read(visits(), whole).subset(["sex"]))


def test_what_is_said_of_a_release_is_said_of_the_unit(tmp_path):
    pytest.importorskip("jinja2")
    model = AllPairs(epsilon=1.0).fit(visits(each=2), schema=with_unit(2))
    assert "this person's rows are in the table" in " ".join(
        str(model.guarantee_.explain()).split()
    )
    write_dossier(model, tmp_path / "d")
    said = {p.name: p.read_text() for p in (tmp_path / "d").glob("*") if p.suffix != ".parquet"}
    assert "all rows of one person, of which at most 2 are read" in said["answers.md"]
    assert 'privacy_unit: "person"' in said["registry.yaml"]
    assert "is one person one row" not in (said["answers.md"] + said["registry.yaml"]).lower()
    assert "Rows do not count alike" in said["report.html"]


@pytest.mark.long
def test_evidence_that_takes_rows_for_independent_is_not_shown_of_units():
    frame = visits(4000, each=2)
    frame["sex"] = frame["sex"].mask((frame["ill"] == "yes") & (frame["person"] % 2 == 0))
    for schema, shown in ((with_unit(2), "belong together"), (Schema((SEX, ILL)), "strong")):
        data = frame if schema.unit else frame.drop(columns="person")
        facts = ModelSummary(AllPairs(epsilon=5.0, random_state=0).fit(data, schema=schema))
        (one,) = [found for found in facts.gaps if facts.names[found.at] == "sex"]
        assert shown in one.evidence


WEIGHT = SurveyWeight("w", upper=3.0)
THREE = Unit("person", max_rows=3)
ONE = replace(THREE, counts_as="one")
