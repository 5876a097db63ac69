"""Conditions and events: validation, words, and the way through JSON and back."""

import importlib
import itertools
import json
import math
import pkgutil
import subprocess
import sys
from dataclasses import replace

import pytest
from accounting_strategies import conditions, elementary
from hypothesis import given
from hypothesis import strategies as st

import missdp
from missdp import Numeric, Ordinal, Schema
from missdp import accounting as acc
from missdp.errors import ParameterError, SchemaError
from missdp.required_attributes import DataChosenRequirements
from missdp.schema.undeclared import domain_conditions
from missdp.serialization import Record


@given(conditions)
def test_conditions_survive_json(condition):
    again = acc.Condition.from_json(condition.to_json())
    assert again == condition
    assert type(again) is type(condition)
    assert hash(again) == hash(condition)
    assert str(condition) == condition.statement()
    assert condition.statement().rstrip().endswith(".")


@given(elementary)
def test_events_survive_json(event):
    again = acc.Event.from_json(event.to_json())
    assert again == event
    assert acc.flatten(again) == acc.flatten(event)


def test_replace_one_is_two_steps():
    for event, field, value in (
        (acc.PureEvent(epsilon=0.5), "epsilon", 1.0),
        (acc.SelectionEvent(epsilon=0.5), "epsilon", 1.0),
        (acc.LaplaceEvent(sensitivity=1, scale=3), "sensitivity", 2.0),
        (acc.GaussianEvent(sensitivity=1, sigma=3), "sensitivity", 2.0),
        (acc.ZCDPEvent(rho=0.5), "rho", 2.0),
        (acc.ApproximateEvent(epsilon=1.0, delta=0.1), "delta", 0.1 * (1 + math.e)),
    ):
        converted = event.to_replace_one()
        assert getattr(converted, field) == pytest.approx(value)
        assert (type(converted), converted.adjacency) == (type(event), "replace-one")
        assert converted.to_replace_one() is converted


@given(st.lists(st.frozensets(st.sampled_from("abcd")), max_size=4))
def test_required_sets_have_exclusive_attributes_if_possible(required_sets):
    structure = DataChosenRequirements(attributes=[*"abcd"], distinct_targets=True)
    if any(len({*choice}) == len(required_sets) for choice in itertools.product(*required_sets)):
        structure.check(required_sets)
    else:
        with pytest.raises(ParameterError, match="distinct targets"):
            structure.check(required_sets)


FACTS = (
    Ordinal(name="grade", levels=(1, 2, 3)),
    Numeric(name="income", lower=0, upper=100, bins=4, nullable=True),
    Numeric(name="age", lower=0, upper=100, bins=4),
)
MARKS = {"grade": ("levels",), "income": ("upper",), "age": ("lower",)}


@given(st.sets(st.sampled_from([*MARKS])))
def test_every_attribute_is_either_declared_or_named_in_the_warning(marked):
    facts = (replace(a, undeclared=MARKS[a.name] if a.name in marked else ()) for a in FACTS)
    schema = Schema(tuple(facts))
    found = domain_conditions(schema, "accept")
    warned = [c.attributes for c in found if isinstance(c, acc.DataDependentDomain)]
    assert {name for names in warned for name in names} == marked
    public = [c for c in found if isinstance(c, acc.PublicDomain)]
    assert len(public) == (len(marked) < 3)
    for condition in public:
        assert (condition == acc.PublicDomain()) == (not marked)
        assert not any(f" {name}" in condition.note.replace(",", "") for name in marked)
    if marked:
        with pytest.raises(SchemaError, match="undeclared"):
            domain_conditions(schema)
    with pytest.raises(ParameterError, match="undeclared"):
        domain_conditions(schema, "ignore")


ACCOUNTING_ALONE = """
import json, sys
import missdp.accounting
from missdp.errors import ParameterError
from missdp.serialization import Record
assert "missdp.pricing" not in sys.modules
try:
    Record.from_dict({"kind": "of no family"})
except ParameterError:
    print(json.dumps(sorted(Record._kinds)))
"""


@pytest.mark.long
def test_every_kind_of_the_package_is_found_where_only_accounting_was_imported():
    for found in pkgutil.walk_packages(missdp.__path__, "missdp."):
        if "cli" not in found.name and "__main__" not in found.name:
            importlib.import_module(found.name)
    ours = {k for k, one in Record._kinds.items() if one.__module__.startswith("missdp.")}
    command = [sys.executable, "-c", ACCOUNTING_ALONE]
    alone = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    held = {k for k in ours if issubclass(Record._kinds[k], (acc.Condition, acc.Event))}
    assert held <= set(alone) <= ours
    assert "AmplifiedEvent" in held


def test_whole_numbers_that_move_by_less_than_one_raise():
    """They would move by nothing, and cost nothing."""
    for kind, noise in ((acc.LaplaceEvent, {"scale": 1.0}), (acc.GaussianEvent, {"sigma": 1.0})):
        with pytest.raises(ParameterError, match="at least 1"):
            kind(sensitivity=0.5, **noise)
        assert kind(sensitivity=0.5, discrete=False, **noise).sensitivity == 0.5
