"""Rules: their meaning, and the contradictions that are errors or warnings.

Random schemas with small domains are compared with brute force over all rows of values.
"""

import itertools
import math
import time
import tomllib
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from missdp import Categorical, Numeric, Ordinal, Schema
from missdp.errors import SchemaError, SchemaWarning
from missdp.schema import Always, Determined, Never, NotApplicable
from missdp.schema.logic import Cells
from missdp.schema.rule_set import _uniform
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
    """Codes that no row obeying one of the rules has, by brute force over values."""
    plain = Schema(tuple(given))
    absent = _not_applicable(plain.columns, [rule for rule, _ in ruled])
    cells = [domain(a) + ([NONE] if a.name in absent else []) for a in given]
    rows = [dict(zip(plain.names, values, strict=True)) for values in itertools.product(*cells)]
    bound = [b for rule, _ in ruled for b in rule.bound(plain.columns)]
    derived = {b.target.name for b in bound if hasattr(b, "by")}
    for rule, obeys in ruled:
        alive = {(a.name, code_of(a, row[a.name])) for row in rows if obeys(row) for a in given}
        for a in given:
            codes = {(a.name, code) for code in range(a.size + (a.name in absent))}
            values_alive = {code for name, code in alive if name == a.name} & {*range(a.size)}
            if a.name in rule.about(plain.columns) and not (a.name in derived and values_alive):
                yield from ((rule, *code) for code in sorted(codes - alive))


def is_exact(rule, given):
    """Whether every code of the rule's attributes stands for one value."""
    read = [a for a in given if a.name in rule.about({a.name: a for a in given})]
    return all((a.code_ranges[0] == a.code_ranges[1]).all() for a in read if isinstance(a, Numeric))


def read(given, rules):
    """A schema, or the words of the one error that refuses it, with nothing behind it."""
    try:
        return Schema(given, tuple(rule() if callable(rule) else rule for rule in rules))
    except SchemaError as error:
        refused = error
    with refuses(SchemaError):
        raise refused
    return str(refused)


@pytest.mark.long
@settings(max_examples=200)
@given(books())
def test_levels_that_one_rule_forbids_are_refused_and_no_others(book):
    given, ruled = book
    schema = read(tuple(given), tuple(rule for rule, _ in ruled))
    if isinstance(schema, str):
        named = {rule for rule, *_ in dead(given, ruled) if repr(rule.text) in schema}
        assert "leaves no row" not in schema or named
        return
    assert not [rule for rule, *_ in dead(given, ruled) if is_exact(rule, given)]
    assert Schema.from_json(schema.to_json()) == schema
    # The tables that families use say nothing impossible that is possible.
    cells = [domain(a) + ([NONE] if a.not_applicable is not None else []) for a in schema]
    for values in itertools.product(*cells):
        row = dict(zip(schema.names, values, strict=True))
        if all(obeys(row) for _, obeys in ruled):
            for names, impossible in schema.rule_set.impossible_cells.items():
                assert not impossible[tuple(code_of(schema[n], row[n]) for n in names)]


def test_a_bin_in_which_only_spikes_are_possible_has_no_row():
    age = Numeric(name="a", lower=1, upper=3, integer=True, bins=1, spikes=(1, 2))
    assert age.size == 3
    with refuses(SchemaError, r"no row in which 'a' is \[1, 3\) except 1, 2"):
        Schema((age,), (Never("a = 3"),))


# Rules of random schemas may contradict each other, of which a warning tells.
pytestmark = pytest.mark.filterwarnings("ignore::missdp.errors.SchemaWarning")


A = Numeric(name="a", lower=0, upper=9, integer=True)
B = Numeric(name="b", lower=0, upper=9, integer=True)
REAL = Numeric(name="real", lower=0, upper=1)
WORK = Categorical(name="work", levels=("no", "yes"))
SIZE = Ordinal(name="size", levels=SCALE)
FLAG = Categorical(name="flag", levels=(False, True))
GIVEN = (A, B, REAL, WORK, SIZE, FLAG)
UNREAD = "found the end of the text|cannot read"
CONDITIONS = {
    "": "must be text, and not empty", None: "written as text", "x = 1": "no attribute 'x'",
    "work = 'maybe'": "'maybe' is not a level of 'work'", "work < 'yes'": "'work' has no order",
    "a = 1": "follow from each other in a circle", "b > 9": r"no row in which 'a' is \[0, 0.9\)",
    "b >= 0": "no row in which 'a' is not applicable",
}  # fmt: skip
EQUATIONS = {
    "a = a": "at least two attributes", "a - a + b = 3": "other than 0",
    "0 * a = b": "other than 0", "a + b": "expected comparisons",
    "a + work = 3": "'work' is not numeric",
    "real + 1 = a": "'a' is a whole number, so", "1e999 * a = b": "too large",
    "1e300 * a = 1e-300 * b": "too large", "1e-300 * a = 1e300 * b": "vanish|too large",
    "a + 1e17 = b": "too large", "a + 20 = b": "no row at all", None: "written as text",
    "": "must be text, and not empty", "a = -": UNREAD, "a = 2 *": UNREAD, "a ? b": UNREAD,
}  # fmt: skip
MAPS = [
    ((("no", 1),), r"lacks a value for \['yes'\]"), ((("no", 1), ("no", 2)), "two values"),
    *(((("no", 1), ("yes", bad)), f"{bad} is not in the domain") for bad in (math.nan, 1.5, True)),
    ((("no", 1), ("yes", 10**400)), "not in the domain"),
    *((bad, "map must be a list of rows") for bad in ((("no", [1]),), ((["no"], 1),), 7)),
]  # fmt: skip
DETERMINES = {"real": "does not name", ("a",): "determines must be text"}
WRONG = [
    *((partial(NotApplicable, "a", unless=text), why) for text, why in CONDITIONS.items()),
    (partial(NotApplicable, "x", unless="a = 1"), "no attribute 'x'"),
    (partial(NotApplicable, (), unless="a = 1"), "names no attribute"),
    (partial(NotApplicable, 5, unless="a = 1"), "not_applicable must be a name, or a list"),
    (
        partial(NotApplicable, ("a", ["b"]), unless="b = 1"),
        "not_applicable must be a name, or a list",
    ),
    (partial(NotApplicable, ("a", "a"), unless="b > 5"), "'a' is routed by two rules"),
    (partial(Never, "a >= 0"), "'never a >= 0' leaves no row at all"),
    *(
        (partial(Never, "a = nan"), "no attribute 'nan'"),
        (partial(Never, 7), "never must be .* written as text"),
    ),
    (partial(Never, "a = 1 or"), "found the end of the text"),
    *((partial(Always, text), why) for text, why in EQUATIONS.items()),
    *((partial(Always, "a = b", determines=bad), why) for bad, why in DETERMINES.items()),
    (partial(Always, "a <= b", determines="b"), "for a rule with one equation"),
    (partial(Always, "a = b and b = real", determines="b"), "for a rule with one equation"),
    *(
        (partial(Always, "a"), "expected comparisons"),
        (partial(Always, "a < a"), "'a' with itself"),
    ),
    *(
        (partial(Always, "a <= b < a"), "in a circle"),
        (partial(Always, "a <= work"), "all must be numeric"),
    ),
    *(
        (partial(Always, "size <= work"), "all must be numeric"),
        (partial(Always, "a + b <= 3"), "always = 'a"),
    ),
    *(
        (partial(Always, f"{x} * b = 3"), r"found .* b['\"]. Sums")
        for x in ("2 * a", "'x'", "true")
    ),
    *(
        (partial(Determined, "a", by=bad, map=()), "follow from other attributes")
        for bad in ("a", ())
    ),
    (partial(Determined, "a", by="real", map=()), "not whole"),
    *((partial(Determined, "a", by="work", map=rows), why) for rows, why in MAPS),
    (partial(Determined, "a", by="flag", map=((0, 1), (1, 1))), "0 is not a level of 'flag'"),
    (
        partial(Determined, "flag", by="work", map=(("no", 0), ("yes", 1))),
        "0 is not a level of 'flag'",
    ),
    ("a rule", "rules must be a list"),
]


CONTRADICTIONS = [
    ((Always("a < b"), Always("b < a")), "a, b are ordered in a circle"),
    ((Always("a = b"), Always("b = a")), "in a circle"),
    ((Always("a < b and b < a"),), "a, b are ordered in a circle"),
    ((Always("a < b"), Always("a >= b")), "a, b are ordered in a circle"),
    ((Never("a <= b"), Never("b <= a")), "a, b are ordered in a circle"),
    ((Always("a = b"), Always("a < b")), "no row in which"),
    ((Never("a > 4.5"), Never("a <= 4.5")), "no row in which 'a'"),
    ((NotApplicable("a", unless="b > 3"), NotApplicable("b", unless="a > 3")), "a, b follow from"),
]


WARNED = [
    (Always("a = b"), Always("a < b or work = 'no'"), Always("a < b or work = 'yes'")),
    tuple(
        Never(f"work = '{work}' and {name} {sign} 4")
        for work, name in (("yes", "a"), ("no", "b"))
        for sign in ("<=", ">")
    ),
]
ACCEPTED = [
    (Always("a <= b"), Never("a > 3 and work = 'no'")),
    (Always("a = b"), NotApplicable("b", unless="work = 'yes'")),
    (NotApplicable("a", unless="b > 3"), Always("size = 'low' or b > 3")),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("rules", WARNED + ACCEPTED)
def test_rules_that_leave_hardly_any_row_warn(rules):
    warns = rules in WARNED
    expected = pytest.warns(SchemaWarning, match="drawn uniformly") if warns else nullcontext()
    with expected as caught:
        schema = Schema(GIVEN, rules)
    # A part of a schema does not warn in other words, so that the message is shown once.
    with warnings.catch_warnings(record=True) as again:
        warnings.simplefilter("always")
        schema.subset(schema.names)
    assert {str(w.message) for w in again} <= {str(w.message) for w in caught or ()}


@pytest.mark.parametrize("text", ["hours <= a", "hours > 3 or hours < a", "not (hours = 2)"])
def test_a_cell_that_is_not_applicable_breaks_nothing_that_always_holds(text):
    hours = Numeric(name="hours", lower=0, upper=9, integer=True)
    columns = {a.name: a for a in (*GIVEN, hours)}
    cells = {a.name: _uniform(a, 50, np.random.default_rng(0)) for a in columns.values()}
    every = np.ones(50, dtype=bool)
    cells["hours"] = Cells(cells["hours"].low, cells["hours"].high, ~every, every)
    for bound in Always(text).bound(columns):
        assert bound.broken(cells, 50).is_false.all()


def test_a_rule_about_many_attributes_with_one_level_is_read():
    names = [f"a{i}" for i in range(70)]
    many = tuple(Categorical(name=name, levels=("x", "y")) for name in names[:1])
    many += tuple(Categorical(name=name, levels=("x",)) for name in names[1:])
    rule = Never(" and ".join(f"{name} = 'x'" for name in names))
    assert Schema(many, (rule,)).rule_set.impossible_cells == {}


def test_rehearsal_counts_rows_that_obey_rules():
    schema = Schema(GIVEN, (Always("a <= b"), NotApplicable("real", unless="work = 'yes'")))
    assert schema.rule_set.surviving_rows(20_000) / 20_000 == pytest.approx(0.59, abs=0.02)


def test_always_is_the_opposite_of_never():
    """Every text means the same on rows without cells that are not applicable."""
    pairs = [
        *(("a <= b", "a > b"), ("0 < a <= b", "a <= 0 or b < a")),
        ("a != 3 or work = 'no'", "a = 3 and work = 'yes'"),
        ("not (a > 3 and real < 0.5)", "a > 3 and real < 0.5"),
        ("a in (1, 2) and size >= 'mid'", "a not in (1, 2) or size = 'low'"),
    ]
    rng = np.random.default_rng(0)
    cells = {a.name: _uniform(a, 500, rng) for a in GIVEN}
    columns = {a.name: a for a in GIVEN}
    for always, never in pairs:
        parts = [rule.broken(cells, 500).is_true for rule in Always(always).bound(columns)]
        (other,) = Never(never).bound(columns)
        assert np.logical_or.reduce(parts).tolist() == other.broken(cells, 500).is_true.tolist()


@pytest.mark.parametrize(("given_", "why"), WRONG + CONTRADICTIONS)
def test_invalid_or_contradictory_rules_raise_one_line(given_, why):
    with refuses(SchemaError, why):
        given_ = given_() if callable(given_) else given_
        Schema(GIVEN, given_ if isinstance(given_, tuple) else (given_,))


WORDS = """a b `a` work 'yes' real = <= < + - * ( ) and or not in , 1 2.5 1e999 1e-320 0
t1.a t1& years( EQ( & nan inf ` " é \0 true"""
words = st.sampled_from(WORDS.split())
texts = st.lists(words, max_size=8).map(" ".join) | st.text(max_size=12)
anything = st.one_of(st.none(), st.integers(), st.floats(), texts, st.lists(texts, max_size=3))


@pytest.mark.long
@settings(max_examples=120)
@given(
    st.one_of(
        st.builds(partial, st.just(Always), texts, anything),
        st.builds(partial, st.just(Never), anything),
        st.builds(partial, st.just(NotApplicable), anything, unless=anything),
        st.builds(
            partial,
            st.just(Determined),
            anything,
            by=anything,
            map=st.lists(st.lists(anything, max_size=3)),
        ),
    ),
    st.sampled_from(GIVEN),
)
def test_any_text_is_a_rule_or_one_error(rule, first):
    read((first, *(a for a in GIVEN if a is not first)), (rule,))


FIELDS = ["kind", "not_applicable", "unless", "never", "map", "by", "determined", "always", "x"]
values = anything | st.sampled_from(["a <= b", "a = b", "work", "b"])


@settings(max_examples=75)
@given(st.dictionaries(st.sampled_from(FIELDS), values, max_size=5))
def test_any_table_of_a_file_is_one_error(row):
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
        Always(f"9 - `{name}` = a"),
        Always(f"`{name}` <= a"),
        Never(f"`{name}` > 3 and `{name}?` = 'yes'"),
        Determined(name, by=f"{name}?", map=(("no", 1), ("yes", 2))),
    ):
        schema = Schema(given, (rule,))
        assert {name} <= {n for bound in schema.rule_set.bound for n in bound.names}
        assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("name", ["how old?", "old-a"])
def test_odd_names_without_backticks_get_advice(name):
    given_ = (A, Numeric(name=name, lower=0, upper=9, integer=True))
    for rule in (
        *(Always(f"9 - {name} = a"), Always(f"{name} + 1 = a"), Always(f"{name} <= a")),
        *(Never(f"{name} > 3"), NotApplicable("a", unless=f"{name} > 3")),
    ):
        with refuses(SchemaError, "goes in backticks: `") as caught:
            Schema(given_, (rule,))
        assert str(caught.value).endswith(f"`{name}`")


ROOT = Path(__file__).parents[2]


def test_the_rules_of_the_documentation_are_read():
    text = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```toml\n")[1:]]
    rules = tomllib.loads(next(block for block in blocks if "[[rule]]" in block))["rule"]
    number = {"kind": "numeric", "integer": True, "nullable": True}
    text = {"work": ["no", "yes"], "degree": ["none", "school", "university"]}
    attributes = [{"name": n, "kind": "categorical", "levels": known} for n, known in text.items()]
    small, years = {"lower": 0, "upper": 80, **number}, {"lower": 1900, "upper": 2024, **number}
    attributes += [{"name": n, **small} for n in ("hours", "wage", "age", "years")]
    attributes += [{"name": n, **years} for n in ("born", "hired", "left")]
    dates = {"kind": "date", "lower": "1950-01-01", "upper": "2024-12-31", "nullable": True}
    attributes += [{"name": n, **dates} for n in ("birth", "interview")]
    schema = Schema.from_dict({"attribute": attributes, "rule": rules})
    kinds = {"not_applicable", "never", "determined", "always"}
    assert {rule.kind for rule in schema.rules} == kinds


@pytest.mark.long
def test_long_chains_of_orders_are_closed_quickly_or_refused():
    def chain(n):
        names = [f"a{k}" for k in range(n)]
        columns = tuple(
            Numeric(name=a, lower=0, upper=9, integer=True, nullable=True) for a in names
        )
        return Schema(columns, rules=(Always(" <= ".join(names)),))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        assert len(chain(120).rule_set.bound) >= 119
    assert time.process_time() - start < 5
    with refuses(SchemaError, "more than 30,000 pairs"):
        chain(300)
