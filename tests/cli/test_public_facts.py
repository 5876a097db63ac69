"""Kinds of missing and rules of a schema, from the command line."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from missdp import Categorical, Numeric, Schema
from missdp.schema import Determined, Equation, Impossible, NotApplicable, Order

WHOLE = {"integer": True, "nullable": True}
FACTS = Schema(
    (
        Categorical(
            name="arbeitet", levels=("ja", "nein"), nullable=True, refused=(-7,), unknown=("-8",)
        ),
        Numeric(
            name="Löhne", lower=0, upper=5000, bins=8, nullable=True, missing_codes=(-1,),
            refused=(-7,), not_applicable=(-9,),
        ),
        Categorical(
            name="degree", levels=("none", "bachelor", "master"), nullable=True, refused=("REF",)
        ),
        Numeric(name="years", lower=5, upper=25, **WHOLE),
        Numeric(name="age", lower=18, upper=97, not_asked=(-3,), **WHOLE),
        Numeric(name="born", lower=1927, upper=2006, **WHOLE),
        Numeric(name="start", lower=0, upper=100, integer=True),
        Numeric(name="end", lower=0, upper=100, **WHOLE),
    ),
    (
        NotApplicable("Löhne", unless="arbeitet = 'ja'"),
        Impossible("degree = 'master' and age < 22"),
        Determined("years", by="degree", map=(("none", 9), ("bachelor", 15), ("master", 18))),
        Equation("age + born = 2024", determines="born"),
        Order("start <= end"),
    ),
)  # fmt: skip
RULES = [
    "Löhne is not applicable unless arbeitet = 'ja'",
    "never degree = 'master' and age < 22",
    "years follows from degree",
    "age + born = 2024",
    "start <= end",
]


def survey(n, seed):
    """Rows that keep to every rule, with holes of every kind, as codes."""
    rng = np.random.default_rng(seed)
    works = rng.choice(["ja", "nein", "-7", "-8"], n, p=[0.6, 0.3, 0.06, 0.04])
    paid = np.where(rng.random(n) < 0.1, -7, np.round(rng.gamma(4, 500, n).clip(0, 5000), 2))
    age = rng.integers(18, 98, n)
    degree = rng.choice(["none", "bachelor", "master"], n, p=[0.5, 0.3, 0.2])
    degree = np.where((degree == "master") & (age < 22), "none", degree)
    years = pd.Series(degree).map({"none": 9, "bachelor": 15, "master": 18}).to_numpy()
    start = rng.integers(0, 101, n)
    end = rng.integers(start, 101)
    frame = pd.DataFrame(
        {
            "arbeitet": works,
            "Löhne": np.where(works == "ja", paid, np.where(works == "nein", -9, -1)),
            "degree": np.where(rng.random(n) < 0.1, "REF", degree),
            "years": pd.array(years, dtype="Int64"),
            "age": np.where(rng.random(n) < 0.1, -3, age),
            "born": pd.array(2024 - age, dtype="Int64"),
            "start": start,
            "end": pd.array(end, dtype="Int64"),
        }
    )
    frame.loc[frame["degree"] == "REF", "years"] = pd.NA
    frame.loc[frame["age"] == -3, "born"] = pd.NA
    frame.loc[rng.random(n) < 0.1, "end"] = pd.NA
    return frame


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    FACTS.to_toml("schema.toml")
    survey(400, 0).to_csv("data.csv", index=False)
    return tmp_path


def stated():
    """Return the schema file as it was written first."""
    FACTS.to_toml("first.toml")
    return Path("first.toml").read_text(encoding="utf-8")


EVALUATE = ("evaluate", "data.csv", "other.csv", "--schema", "schema.toml")


def test_evaluate_counts_violations_and_kinds(folder, ok):
    other = survey(300, 1)
    other.loc[other.index[:7], ["start", "end"]] = [9, 3]
    other.loc[other.index[7:10], "arbeitet"] = "nein"
    other.loc[other.index[7:10], "Löhne"] = 1000.0
    other.to_csv("other.csv", index=False)
    document = json.loads(ok(*EVALUATE, "--json", quiet=True))
    assert document["rules"]["truth"]["broken"] == dict.fromkeys(RULES, 0)
    broken = document["rules"]["synthetic"]
    assert broken["broken"] == dict.fromkeys(RULES, 0) | {RULES[-1]: 7, RULES[0]: 3}
    assert (broken["rows"], broken["broken_rows"]) == (300, 10)
    kinds = document["kinds"]
    assert set(kinds["truth_shares"]["Löhne"]) == {"not_applicable", "missing", "refused"}
    expected = (survey(400, 0)["age"] == -3).mean()
    assert kinds["truth_shares"]["age"]["not_asked"] == pytest.approx(expected)
    out = ok(*EVALUATE)
    assert "synthetic table: 10 of 300 rows break a rule" in out
    assert "private table: 0 of 400 rows break a rule" in out
    assert "Löhne, not applicable" in out
    assert "age, not asked" in out


def test_evaluate_says_nothing_of_what_a_schema_does_not_have(folder, run):
    plain = Path("schema.toml").read_text(encoding="utf-8").split("[[rule]]")[0]
    Path("rules.toml").write_text(
        '[[attribute]]\nname = "a"\nkind = "categorical"\nlevels = ["x"]\nnullable = true\n',
        encoding="utf-8",
    )
    pd.DataFrame({"a": ["x", "x"]}).to_csv("other.csv", index=False)
    code, out, _ = run("evaluate", "other.csv", "other.csv", "--schema", "rules.toml",
                       "--ways", "1", "--json")  # fmt: skip
    assert code == 0
    assert set(json.loads(out)) == {"curator_only", "fidelity", "marginals", "missing", "warnings"}
    Path("schema.toml").write_text(plain, encoding="utf-8")
    survey(50, 0).to_csv("other.csv", index=False)
    document = json.loads(run(*EVALUATE, "--json")[1])
    assert "rules" not in document
    assert "kinds" in document


def test_check_shows_rules_in_words_and_never_how_many_rows_break_them(folder, run, fails):
    good = run("schema", "check", "schema.toml", "data.csv")
    bad = survey(400, 0)
    bad.loc[:50, ["start", "end"]] = [9, 3]
    bad.loc[:50, "age"] = 30
    bad.to_csv("data.csv", index=False)
    assert run("schema", "check", "schema.toml", "data.csv") == good
    code, out, err = good
    assert (code, err) == (0, "")
    assert all(f"  {text}\n" in out for text in RULES)
    assert "May be not applicable: Löhne." in out
    assert "May be refused: arbeitet, Löhne, degree." in out
    document = json.loads(run("schema", "check", "schema.toml", "--json")[1])
    assert document["rules"] == RULES
    assert document["kinds"]["age"] == ["missing", "not_asked"]
    code, _, err = run("schema", "check", "rules.toml")
    assert code == 3
    Path("schema.toml").write_text(stated().replace("by = [", 'by = ["gibt-es-nicht", '), "utf-8")
    err = fails(3, "years follows from gibt-es-nicht, degree", "schema", "check", "schema.toml")


SYNTHESIZE = ("synthesize", "data.csv", "--schema", "schema.toml", "--epsilon", 2, "--seed", 1)


def violations(ok, name):
    """Evaluate a file that was written; all its cells are in the domain, or this fails."""
    arguments = ("evaluate", "data.csv", name, "--schema", "schema.toml", "--ways", "1", "--json")
    document = json.loads(ok(*arguments, quiet=True))
    assert document["rules"]["synthetic"]["broken"] == dict.fromkeys(RULES, 0)
    return document


@pytest.mark.parametrize("method", [pytest.param("aim", marks=pytest.mark.slow), "privbayes"])
def test_every_method_obeys_the_rules_and_keeps_the_kinds(folder, ok, method):
    survey(5000, 0).to_csv("data.csv", index=False)
    kept = ("--method", method, "--keep-holes", "--holes", "codes", "--model", "m.json")
    ok(*SYNTHESIZE, "-o", "out.csv", *kept)
    found = violations(ok, "out.csv")
    # Shares were at most .018 apart with three other seeds of each method, and .015 with eighty
    # of AllPairs.
    assert found["kinds"]["max_difference"] < 0.04
    assert found["kinds"]["synthetic_shares"]["arbeitet"]["refused"] > 0.01
    cells = pd.read_csv("out.csv")
    assert {"-7", "-8"} <= {*cells["arbeitet"]}
    assert {-7, -9} <= {*cells["Löhne"]}
    assert "REF" in {*cells["degree"]}
    # Again from the model, with nulls: what is not applicable still follows from the row.
    again = ("sample", "m.json", "-o", "more.parquet", "--rows", 5000, "--keep-holes")
    ok(*again)
    shares = violations(ok, "more.parquet")["kinds"]["synthetic_shares"]
    assert shares["Löhne"]["refused"] == 0.0
    assert abs(shares["Löhne"]["not_applicable"] - 0.3) < 0.05
    # Without holes: only what is not applicable has no value.
    ok(*again[:3], "full.csv", "--holes", "codes")
    full = pd.read_csv("full.csv")
    assert not full.isna().any().any()
    assert ((full["Löhne"] == -9) == (full["arbeitet"] == "nein")).all()
    violations(ok, "full.csv")


def test_errors_say_nothing_of_rows(folder, run):
    """A cell outside the domain is refused as before, and no message names rule or row."""
    bad = survey(400, 0).astype({"age": "object"})
    bad.loc[17, "age"] = 4711
    bad.to_csv("other.csv", index=False)
    for arguments in (EVALUATE, ("schema", "check", "schema.toml", "other.csv")):
        code, _, err = run(*arguments)
        assert code == 3
        assert not {"4711", "17", "400"} & {*err.replace(",", " ").split()}
        assert "'age'" in err


def test_rules_about_two_rows_are_listed_and_counted_apart(folder, run, ok):
    text = "t1&t2&EQ(t1.start,t2.start)&IQ(t1.end,t2.end)"
    rule = f'[[rule]]\nkind = "denial"\nconstraint = "{text}"\n'
    Path("schema.toml").write_text(stated() + rule, encoding="utf-8")
    out = run("schema", "check", "schema.toml", "data.csv")[1]
    assert f"  {RULES[-1]}\nRules about two rows:\n  {text}\n" in out
    soft = stated() + rule + 'holds = "mostly"\n'
    Path("soft.toml").write_text(soft, encoding="utf-8")
    assert f"  {text} (mostly)\n" in run("schema", "check", "soft.toml", "data.csv")[1]
    survey(300, 1).to_csv("other.csv", index=False)
    out = ok(*EVALUATE)
    assert out.count("rows that violate a denial constraint") == 2
    assert out.count(text) == 2
    Path("schema.toml").write_text(stated().split("[[rule]]")[0] + rule, encoding="utf-8")
    assert "break a rule" not in run(*EVALUATE)[1]
