"""Whatever uses a declared domain says so, everywhere in the same words."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from missdp import AIM, MST, Budget, Numeric, Ordinal, PrivBayes, Schema, Table
from missdp.accounting import DataDependentDomain, PublicDomain
from missdp.errors import ParameterError, SchemaError
from missdp.mechanisms import domain_conditions
from missdp.pricing import MeanImputer, PricedPipeline, PrivateMean
from missdp.statistics import ImputedStatistics, KNNImputation


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


def domain(conditions):
    return {c for c in conditions if isinstance(c, (PublicDomain, DataDependentDomain))}


def synthesized(family, facts):
    model = family(epsilon=1.0, delta=0.0 if family is PrivBayes else 1e-6)
    return model.fit(table(facts), undeclared="accept").guarantee_


def asked(facts):
    statistics = ImputedStatistics(
        table(facts),
        KNNImputation(impute="income", match_on="grade"),
        budget=Budget(1.0),
        undeclared="accept",
    )
    return statistics.count(where="income > 50", epsilon=1.0).guarantee


def table(facts):
    rng = np.random.default_rng(0)
    codes = {a.name: rng.integers(0, a.extended_size, 60) for a in facts}
    return Table.from_codes(facts, codes).with_values(rng)


@pytest.mark.parametrize("undeclared", [(), ("income",), ("grade", "income", "age")])
def test_every_release_states_the_same(undeclared):
    facts = schema(undeclared)
    expected = set(domain_conditions(facts, "accept"))
    found = [synthesized(family, facts) for family in (PrivBayes, AIM, MST)]
    for guarantee in (*found, asked(facts)):
        assert domain(guarantee.conditions) == expected
    assert domain(found[0].to_replace_one().conditions) == expected
    assert domain(found[0].compose(found[1]).conditions) == expected


def test_pipelines_and_estimators_declare_a_domain_too():
    rows = np.random.default_rng(0).random((50, 2))
    estimator = PrivateMean(noise_multiplier=5.0, radius=1.0)
    steps = [("impute", MeanImputer(max_incomplete=20, cells_per_row=1))]
    pipeline = PricedPipeline(steps, estimator, rows=50, columns=2, complete=False)
    for guarantee in (pipeline.guarantee(), pipeline.fit(rows).guarantee_):
        assert PublicDomain() in guarantee.conditions
    assert PublicDomain() in PrivateMean(noise_multiplier=5.0).fit(rows).guarantee_.conditions


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
