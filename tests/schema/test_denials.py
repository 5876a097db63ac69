"""Denial constraints: the format, what they mean within one row, and between two."""

import itertools
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Ordinal, Schema, Table
from missdp.errors import SchemaError
from missdp.schema import Denial, read_denials
from refusing import refuses

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
LEVELS = ("low", "mid", "high")
SCHEMA = Schema(
    (
        Ordinal(name="size", levels=LEVELS, nullable=True),
        Ordinal(name="need", levels=LEVELS, nullable=True),
        Numeric(name="gain-1", lower=0, upper=9, integer=True, nullable=True),
        Numeric(name="loss", lower=0, upper=9, integer=True, nullable=True),
        Categorical(name="city", levels=("x, y", "it's"), nullable=True),
    )
)


def with_denial(text):
    return Schema(SCHEMA.attributes, (Denial(text),))


@pytest.mark.skipif(not DATA.exists(), reason="the files are not here")
def test_the_files_of_the_papers_are_read():
    adult = read_denials(DATA / "adult" / "denial_constraints.txt")
    assert [d.dependency for d in adult] == [(("education",), "education-num"), None]
    assert len(read_denials(DATA / "br2000" / "denial_constraints.txt")) == 3
    assert all(d.is_about_pairs for d in adult)


@pytest.mark.parametrize(
    "text",
    [
        "t1&GT(t1.gain-1,0)&GTE(t1.loss,1)",
        "t1&t2&GT(t1.gain-1,0)&GTE(t1.loss,1)",
        "t1&t2&GT(t2.gain-1,0)&GTE(t2.loss,1)",
        " t1 & LT( 0 , t1.gain-1 ) & LTE(1.0,t1.loss)",
        "t1&GT(t1.`gain-1`,0)&GTE(t1.loss,1e0)",
        "not(t1.gain-1 > 0 and t1.loss >= 1)",
        "NOT ( 0 < t1.gain-1 & t1.loss >= 1 )",
        "¬(t1.gain-1 > 0 ∧ t1.loss ≥ 1)",
        "!(t1.gain-1 != 0 && t1.loss <> 0)",
    ],
)
def test_one_row_may_be_written_in_many_ways(text):
    schema = with_denial(text)
    assert not Denial(text).is_about_pairs
    assert schema.rulebook.pairs == ()
    broken = schema.rulebook.impossible["gain-1", "loss"]
    both = np.outer(np.arange(10) > 0, np.arange(10) > 0)
    assert np.array_equal(broken, both)
    frame = pd.DataFrame({name: [None] * 3 for name in SCHEMA.names}, dtype=object)
    table = Table.read(frame.assign(**{"gain-1": [0, 3, 3], "loss": [2, 2, None]}), schema)
    assert table.mask("gain-1").tolist() == [False, True, False]


def test_comparisons_with_each_other_mean_the_same_as_for_brute_force():
    signs = {"EQ": "eq", "IQ": "ne", "LT": "lt", "LTE": "le", "GT": "gt", "GTE": "ge"}
    for sign, method in signs.items():
        schema = with_denial(f't1&{sign}(t1.size,t1.need)&EQ(t1.city,"x, y")')
        (rule,) = schema.rulebook.forbids
        table = schema.rulebook.impossible["size", "need", "city"]
        for one, two, city in itertools.product(range(3), range(3), range(2)):
            expected = getattr(one, f"__{method}__")(two) and city == 0
            assert bool(table[one, two, city]) is bool(expected), (sign, one, two)
        assert set(rule.names) == {"size", "need", "city"}


def test_pairs_are_at_hand_and_forbid_nothing_in_one_row():
    text = "t1&t2&EQ(t2.city,t1.city)&GT(t2.gain-1,t1.loss)&EQ(t1.size,'low')&LT(t2.loss,t2.gain-1)"
    schema = with_denial(text)
    (pair,) = schema.rulebook.pairs
    assert pair.between == (("==", "city", "city"), ("<", "loss", "gain-1"))
    assert pair.names == ("city", "loss", "gain-1", "size")
    assert pair.dependency is None
    assert [part.one.name for part in pair.first] == ["size"]
    assert [(p.pair, p.sign) for p in pair.second] == [(("loss", "gain-1"), "<")]
    assert schema.rulebook.bound == ()
    assert schema.subset(("size",)).rules == ()
    assert schema.subset(reversed(SCHEMA.names)).rules == schema.rules


@pytest.mark.parametrize(
    ("text", "dependency"),
    [
        ("t1&t2&EQ(t1.city,t2.city)&IQ(t1.size,t2.size)", (("city",), "size")),
        ("not(t2.city = t1.city and t1.size != t2.size)", (("city",), "size")),
        ("t1&t2&IQ(t1.loss,t2.loss)&EQ(t1.a,t2.a)&EQ(t1.b,t2.b)", (("a", "b"), "loss")),
        ("t1&t2&EQ(t1.city,t2.need)&IQ(t1.size,t2.size)", None),
        ("t1&t2&EQ(t1.city,t2.city)&LT(t1.size,t2.size)", None),
        ("t1&t2&EQ(t1.city,t2.city)&IQ(t1.size,t2.size)&EQ(t1.need,'low')", None),
        ("t1&t2&IQ(t1.size,t2.size)", None),
    ],
)
def test_a_functional_dependency_is_recognised(text, dependency):
    assert Denial(text).dependency == dependency


def test_a_file_that_is_none_is_refused(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    (tmp_path / "text").write_text("# comment\n\nt1&EQ(t1.a,t1.b)\nhello\n")
    (tmp_path / "good").write_text("\ufeff# comment\r\n\r\n t1&EQ(t1.a,t1.b) \r\n", newline="")
    for name in ("bytes", "text", "none"):
        with refuses(SchemaError):
            read_denials(tmp_path / name)
    assert read_denials(tmp_path / "good") == (Denial("t1&EQ(t1.a,t1.b)"),)


def test_the_rules_of_the_documentation_are_read():
    text = (ROOT / "docs" / "schema-rules.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```toml\n")[1:]]
    rules = tomllib.loads(next(block for block in blocks if "[[rule]]" in block))["rule"]
    number = {"kind": "numeric", "integer": True, "nullable": True}
    attributes = [
        {"name": "work", "kind": "categorical", "levels": ["no", "yes"]},
        {"name": "degree", "kind": "categorical", "levels": ["none", "school", "university"]},
        *(
            {"name": n, "lower": 0, "upper": 80, **number}
            for n in ("hours", "wage", "age", "years")
        ),
        *({"name": n, "lower": 1900, "upper": 2024, **number} for n in ("born", "hired", "left")),
    ]
    schema = Schema.from_dict({"attribute": attributes, "rule": rules})
    assert {rule.kind for rule in schema.rules} == {
        "not_applicable", "impossible", "determined", "equation", "order", "denial"}  # fmt: skip


def test_what_is_about_two_rows_may_hold_mostly(tmp_path):
    text = "t1&t2&EQ(t1.city,t2.city)&LT(t1.loss,t2.loss)"
    soft, hard = Denial(text, holds="mostly"), Denial(text)
    assert "holds" not in hard.to_dict()  # files stay as they were
    for denial in (soft, hard):
        schema = Schema(SCHEMA.attributes, (denial,))
        (pair,) = schema.rulebook.pairs
        assert pair.holds == denial.holds
        schema.to_toml(tmp_path / "x.toml")
        assert Schema.from_toml(tmp_path / "x.toml") == schema
        assert Schema.from_json(schema.to_json()) == schema
        assert Denial.from_dict(denial.to_dict()) == denial
    assert soft != hard
    (tmp_path / "text").write_text(text)
    assert read_denials(tmp_path / "text", holds="mostly") == (soft,)
    assert read_denials(tmp_path / "text") == (hard,)


@pytest.mark.parametrize(
    ("denial", "why"),
    [
        (Denial("t1&GT(t1.loss,t1.gain-1)", holds="mostly"), "only what is about two rows"),
        (Denial("t1&t2&GT(t2.loss,3)", holds="mostly"), "only what is about two rows"),
        (Denial("t1&t2&GT(t1.loss,t2.loss)", holds="often"), "'always' or 'mostly'"),
        (Denial("t1&t2&GT(t1.loss,t2.loss)", holds=None), "'always' or 'mostly'"),
    ],
)
def test_what_cannot_hold_mostly_is_refused(denial, why):
    with refuses(SchemaError, why):
        Schema(SCHEMA.attributes, (denial,))
    row = {"kind": "denial", "constraint": denial.constraint, "holds": denial.holds}
    with refuses(SchemaError):
        Schema.from_dict({"attribute": [a.to_dict() for a in SCHEMA], "rule": [row]})
