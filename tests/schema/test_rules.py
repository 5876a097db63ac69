"""Rules: what they mean, and that contradictions are found when a schema is read.

Random schemas with small domains are compared with brute force over all rows of values.
"""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp.errors import SchemaError
from missdp.schema import (
    Categorical,
    Denial,
    Determined,
    Equation,
    Impossible,
    NotApplicable,
    Numeric,
    Order,
    Ordinal,
    Schema,
)
from missdp.schema.schema import _not_applicable
from refusing import refuses
from schema.rule_books import NONE, SCALE, books, domain


def code_of(attribute, value):
    if value == NONE:
        return attribute.size
    if isinstance(attribute, Numeric):
        return int(attribute.encode_values(np.array([float(value)]))[0])
    return attribute.levels.index(value)


def dead(given, ruled):
    """Codes that no row obeying all rules has, by brute force over values."""
    whole = Schema(tuple(given))
    absent = _not_applicable(whole.columns, [rule for rule, _ in ruled])
    cells = [domain(a) + ([NONE] if a.name in absent else []) for a in given]
    alive = set()
    for values in itertools.product(*cells):
        row = dict(zip(whole.names, values, strict=True))
        if all(obeys(row) for _, obeys in ruled):
            alive |= {(a.name, code_of(a, row[a.name])) for a in given}
    derived = {
        b.target.name for rule, _ in ruled for b in rule.bound(whole.columns) if hasattr(b, "by")
    }
    read = {name for rule, _ in ruled for name in rule.about(whole.columns)}
    for a in given:
        codes = {(a.name, code) for code in range(a.size + (a.name in absent))}
        values_alive = {code for name, code in alive if name == a.name} & {*range(a.size)}
        if a.name in read and not (a.name in derived and values_alive):
            yield from sorted(codes - alive)


def read(given, rules):
    """A schema, or the one error that refuses it, with nothing behind it."""
    found = []
    schema = None
    try:
        schema = Schema(given, rules)
    except SchemaError as error:
        found.append(error)
    for error in found:
        assert error.__context__ is error.__cause__ is None
        assert "\n" not in str(error)
    return found[0] if schema is None else schema


@settings(max_examples=140)
@given(books())
def test_every_level_of_an_accepted_schema_has_a_row_and_refusals_are_right(book):
    given, ruled = book
    schema = read(tuple(given), tuple(rule for rule, _ in ruled))
    if isinstance(schema, SchemaError):
        assert "leave no row" not in str(schema) or list(dead(given, ruled))
        return
    assert not list(dead(given, ruled))
    assert Schema.from_json(schema.to_json()) == schema
    # The tables that families use say nothing impossible that is possible.
    cells = [domain(a) + ([NONE] if a.not_applicable is not None else []) for a in schema]
    for values in itertools.product(*cells):
        row = dict(zip(schema.names, values, strict=True))
        if all(obeys(row) for _, obeys in ruled):
            for names, impossible in schema.rulebook.impossible.items():
                assert not impossible[tuple(code_of(schema[n], row[n]) for n in names)]


def test_a_bin_in_which_only_spikes_are_possible_has_no_row():
    age = Numeric(name="a", lower=1, upper=3, integer=True, bins=1, spikes=(1, 2))
    assert age.size == 3
    with refuses(SchemaError, r"no row in which 'a' is \[1, 3\) except 1, 2"):
        Schema((age,), (Impossible("a = 3"),))


A = Numeric(name="a", lower=0, upper=9, integer=True)
B = Numeric(name="b", lower=0, upper=9, integer=True)
REAL = Numeric(name="real", lower=0, upper=1)
WORK = Categorical(name="work", levels=("no", "yes"))
SIZE = Ordinal(name="size", levels=SCALE)
FLAG = Categorical(name="flag", levels=(False, True))
GIVEN = (A, B, REAL, WORK, SIZE, FLAG)
WRONG = [
    (NotApplicable("x", unless="a = 1"), "no attribute 'x'"),
    (NotApplicable((), unless="a = 1"), "names no attribute"),
    (NotApplicable(5, unless="a = 1"), "no attribute 5"),
    (NotApplicable(("a", ["b"]), unless="b = 1"), r"no attribute \['b'\]"),
    (NotApplicable("a", unless=""), "written as text, and not empty"),
    (NotApplicable("a", unless=None), "written as text"),
    (NotApplicable("a", unless="x = 1"), "no attribute 'x'"),
    (NotApplicable("a", unless="work = 'maybe'"), "'maybe' is not a level of 'work'"),
    (NotApplicable("a", unless="work < 'yes'"), "'work' has no order"),
    (NotApplicable("a", unless="a = 1"), "follow from each other in a circle"),
    (NotApplicable("a", unless="b >= 0"), "no row in which 'a' is not applicable"),
    (NotApplicable("a", unless="b > 9"), r"no row in which 'a' is \[0, 0.9\)"),
    (NotApplicable(("a", "a"), unless="b > 5"), "'a' is routed by two rules"),
    (Impossible("a >= 0"), "no row in which 'a' is"),
    (Impossible("a = nan"), "cannot|expected"),
    (Impossible(7), "written as text"),
    (Impossible("a = 1 or"), "found 'the end'"),
    (Equation("a = a"), "at least two attributes"),
    (Equation("a - a + b = 3"), "other than 0"),
    (Equation("0 * a = b"), "other than 0"),
    (Equation("a + b"), "one '='"),
    (Equation("a = b = 3"), "one '='"),
    (Equation("a + work = 3"), "'work' is not numeric"),
    (Equation("real + 1 = a"), "'a' is a whole number; so must be"),
    (Equation("1e999 * a = b"), "too large"),
    (Equation("1e300 * a = 1e-300 * b"), "too large"),
    (Equation("1e-300 * a = 1e300 * b"), "vanish|too large"),
    (Equation("a + 1e17 = b"), "too large"),
    (Equation("a + 20 = b"), "no row in which"),
    (Equation("a = b", determines="real"), "does not name"),
    (Equation("a = b", determines=["a"]), "does not name"),
    (Equation(None), "written as text"),
    (Equation(""), "written as text, and not empty"),
    (Equation("a = -"), "expected a number or an attribute|cannot read"),
    (Equation("a = 2 *"), "expected a number or an attribute|cannot read"),
    (Equation("a ? b"), "expected a number or an attribute|cannot read"),
    (Order("a"), "expected names with"),
    (Order("a <= b < a"), "twice"),
    (Order("a <= work"), "all must be numeric"),
    (Order("a >= b"), "expected names with"),
    (Determined("a", by="a", map=()), "follow from other attributes"),
    (Determined("a", by=(), map=()), "follow from other attributes"),
    (Determined("a", by="real", map=()), "not whole"),
    (Determined("a", by="work", map=(("no", 1),)), r"lacks a value for \['yes'\]"),
    (Determined("a", by="work", map=(("no", 1), ("no", 2))), "two values"),
    (Determined("a", by="work", map=(("no", 1), ("yes", math.nan))), "nan is not in the domain"),
    (Determined("a", by="work", map=(("no", 1), ("yes", 10**400))), "not in the domain"),
    (Determined("a", by="work", map=(("no", 1), ("yes", 1.5))), "1.5 is not in the domain"),
    (Determined("a", by="work", map=(("no", 1), ("yes", True))), "True is not in the domain"),
    (Determined("a", by="flag", map=((0, 1), (1, 1))), "0 is not a level of 'flag'"),
    (Determined("a", by="work", map=((["no"], 1),)), "is not a level of 'work'"),
    (Determined("flag", by="work", map=(("no", 0), ("yes", 1))), "0 is not a level of 'flag'"),
    (Determined("a", by="work", map=7), "lacks a value"),
    (Denial("t1&GTE(t1.a,0)"), "no row in which 'a' is"),
    (Denial("t1&t2&EQ(t1.a,t2.x)&IQ(t1.b,t2.b)"), "no attribute 'x'"),
    (Denial("t1&t2&EQ(t1.a,t2.work)"), "only one is numeric"),
    (Denial("t1&t2&LT(t1.work,t2.work)"), "'work' has no order"),
    (Denial("t1&EQ(t1.a,t2.a)"), "begins with t1& alone"),
    ("a rule", "rules must be a list"),
]


@pytest.mark.parametrize(("rule", "why"), WRONG, ids=lambda x: str(x)[:40])
def test_a_rule_that_makes_no_sense_is_refused_in_one_line(rule, why):
    refused = read(GIVEN, (rule,))
    assert isinstance(refused, SchemaError)
    with refuses(SchemaError, why):
        raise refused


CONTRADICTIONS = [
    ((Order("a < b"), Order("b < a")), "a, b are ordered in a circle"),
    ((Order("a <= b"), Denial("t1&GT(t1.b,t1.a)")), "ordered in a circle"),
    ((Equation("a = b"), Equation("b = a")), "in a circle"),
    ((Equation("a = b"), Order("a < b")), "no row in which"),
    ((Equation("a = b"), NotApplicable("b", unless="work = 'yes'")), "no row in which 'work'"),
    ((Impossible("a > 4.5"), Impossible("a <= 4.5")), "no row in which 'a'"),
    ((Impossible("a < 5 and b < 5"), Impossible("b >= 5 and a < 5")), "no row in which 'a'"),
    (
        (NotApplicable("a", unless="b > 3"), NotApplicable("b", unless="a > 3")),
        "a, b follow from each other in a circle",
    ),
]


@pytest.mark.parametrize(("rules_", "why"), CONTRADICTIONS, ids=str)
def test_rules_that_contradict_each_other_are_refused(rules_, why):
    refused = read(GIVEN, rules_)
    assert isinstance(refused, SchemaError)
    assert why in str(refused)


WORDS = """a b `a` work 'yes' real = <= < + - * ( ) and or not in , 1 2.5 1e999 1e-320 0
t1.a t2.a t1& t2& EQ( IQ(t1.a,t2.a) & nan inf ` " é \0 true"""
words = st.sampled_from(WORDS.split())
texts = st.lists(words, max_size=8).map(" ".join) | st.text(max_size=12)
anything = st.one_of(st.none(), st.integers(), st.floats(), texts, st.lists(texts, max_size=3))


@settings(max_examples=120)
@given(
    st.one_of(
        st.builds(Equation, texts, anything),
        st.builds(Order, texts),
        st.builds(Impossible, texts),
        st.builds(Denial, texts),
        st.builds(NotApplicable, anything, unless=texts),
        st.builds(Determined, anything, by=anything, map=st.lists(st.lists(anything, max_size=3))),
    ),
    st.sampled_from(GIVEN),
)
def test_any_text_is_a_rule_or_one_error(rule, first):
    read((first, *(a for a in GIVEN if a is not first)), (rule,))


@settings(max_examples=75)
@given(
    st.dictionaries(
        st.sampled_from(["kind", "names", "unless", "when", "map", "by", "name", "equation", "x"]),
        anything | st.sampled_from(["order", "denial", "equation", "impossible", "determined"]),
        max_size=5,
    )
)
def test_any_table_of_a_file_is_a_rule_or_one_error(row):
    document = {"attribute": [a.to_dict() for a in GIVEN], "rule": [row]}
    with refuses(SchemaError):
        _fail_unless_read(document)


def _fail_unless_read(document):
    raise SchemaError(f"it is the schema of {Schema.from_dict(document).names}")


NASTY = ("two words", "a-b", "it's", 'a "b"', "naïve", "数", "1st", "and", "a.b", "a,b", "a)&b")


@pytest.mark.parametrize("name", NASTY)
def test_names_of_any_kind_go_in_backticks(name):
    number = Numeric(name=name, lower=0, upper=9, integer=True)
    level = Categorical(name=f"{name}?", levels=("no", "yes"))
    given = (number, A, level)
    for rule in (
        NotApplicable("a", unless=f"`{name}` > 3 and `{name}?` = 'yes'"),
        Equation(f"9 - `{name}` = a"),
        Order(f"`{name}` <= a"),
        Denial(f"t1&GT(t1.`{name}`,t1.a)"),
        Denial(f"not(t1.`{name}` > t1.a and t1.`{name}?` = 'yes')"),
        Determined(name, by=f"{name}?", map=(("no", 1), ("yes", 2))),
    ):
        schema = Schema(given, (rule,))
        assert {name} <= {n for bound in schema.rulebook.bound for n in bound.names}
        assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    "rule",
    [
        Equation("9 - how old? = a"),
        Equation("9 - old-a = a"),
        Order("how old? <= a"),
        Order("old-a <= a"),
        Equation("how old? + 1 = a"),
        Impossible("how old? > 3"),
        Impossible("old-a > 3"),
        NotApplicable("a", unless="how old? > 3"),
    ],
)
def test_odd_names_without_backticks_are_told_to_stand_in_them(rule):
    given = [Numeric(name=n, lower=0, upper=9, integer=True) for n in ("how old?", "old-a")]
    with refuses(SchemaError, "goes in backticks: `") as caught:
        Schema((A, *given), (rule,))
    name = "how old?" if "how" in rule.text else "old-a"
    assert str(caught.value).endswith(f"`{name}`")
