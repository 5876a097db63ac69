"""What a schema says of its domain is a condition; that releases state it, each room tests."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import Numeric, Ordinal, Schema
from missdp.accounting import DataDependentDomain, PublicDomain
from missdp.errors import ParameterError, SchemaError
from missdp.mechanisms import domain_conditions


def schema(undeclared):
    facts = (
        Ordinal(name="grade", levels=(1, 2, 3)),
        Numeric(name="income", lower=0, upper=100, bins=4, nullable=True),
        Numeric(name="age", lower=0, upper=100, bins=4),
    )
    marks = [("levels",), ("upper",), ("lower",)]
    return Schema(
        tuple(
            replace(fact, undeclared=mark if fact.name in undeclared else ())
            for fact, mark in zip(facts, marks, strict=True)
        )
    )


@given(st.sets(st.sampled_from(["grade", "income", "age"])))
def test_every_attribute_is_either_declared_or_named_in_the_warning(marked):
    conditions = domain_conditions(schema(marked), "accept")
    warned = {
        name for c in conditions if isinstance(c, DataDependentDomain) for name in c.attributes
    }
    assert warned == marked
    public = [c for c in conditions if isinstance(c, PublicDomain)]
    assert len(public) == (len(marked) < 3)
    for condition in public:
        assert (condition == PublicDomain()) == (not marked)
        assert not any(f" {name}" in condition.note.replace(",", "") for name in marked)
    if marked:
        with pytest.raises(SchemaError, match="undeclared"):
            domain_conditions(schema(marked))


def test_undeclared_is_refused_or_accepted_and_nothing_else():
    with pytest.raises(ParameterError, match="undeclared"):
        domain_conditions(schema(()), "ignore")
